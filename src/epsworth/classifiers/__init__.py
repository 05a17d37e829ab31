"""Classifiers: what can be queried, and what can be read inside.

``classifier``      `as_classifier`: estimators, pipelines, networks and functions as functions from records to labels
``inputs``, ``levels``  what a model takes its columns for; categories as boosters number them
``answers``         labels, or scores taken for labels; one label for one record
``structure``       what is inside a model, each form read once: ``trees``, ``networks``, ``quadratics``, ``thresholds``
``sklearn_trees``, ``boosters``, ``onnx_reading``  readers of trees
``ensembles``, ``link_functions``  what decides by the answers of classifiers that were read
``pipeline``, ``transformers``  what stands before an estimator
``reading``         models opened layer by layer, and readings compared with their labels
``frameworks``, ``onnx_models``  networks of PyTorch, Keras and skorch, and graphs: how they answer
``model_files``, ``file_safety``  fitted models from disk
``fingerprints``    which classifier a copy was made of, by its answers
``service``         a model behind an address
"""

from epsworth.classifiers.classifier import Classifier, as_classifier
from epsworth.classifiers.model_files import load_model
from epsworth.classifiers.reading import ClassifierError, Labels

__all__ = ["Classifier", "ClassifierError", "Labels", "as_classifier", "load_model"]
