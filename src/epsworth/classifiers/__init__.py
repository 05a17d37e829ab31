"""Classifiers: what can be queried.

``classifier``   `as_classifier`: scikit-learn estimators and pipelines, functions from records to labels
``modules``      PyTorch modules
``trees``, ``boosters`` (both ``flat``), ``quadratics``, ``networks``, ``layers``, ``scalers``: what can be seen inside
``reading``      whether the answers are those of what was seen
``genuine``      whose code answers: the library's own, or another's
``answers``      labels, or scores taken for labels
``model_files``, ``archives``  loading fitted models from disk
``fingerprints``  which classifier a copy was made of, by its answers
"""

from epsworth.classifiers.answers import ClassifierError, Labels
from epsworth.classifiers.classifier import Classifier, as_classifier
from epsworth.classifiers.model_files import load_model

__all__ = ["Classifier", "ClassifierError", "Labels", "as_classifier", "load_model"]
