"""Classifiers: what can be queried.

``classifier``   `as_classifier`: scikit-learn estimators and pipelines, functions from records to labels
``modules``      PyTorch modules
``trees``, ``boosters``, ``networks``, ``layers``, ``scalers``: what can be seen inside
``model_files``  loading fitted models from disk
"""

from epsworth.classifiers.classifier import Classifier, ClassifierError, Labels, as_classifier
from epsworth.classifiers.model_files import load_model

__all__ = ["Classifier", "ClassifierError", "Labels", "as_classifier", "load_model"]
