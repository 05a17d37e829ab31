"""What is an epsilon worth? Which privacy mechanism, at which epsilon, keeps a classifier useful.

>>> import epsworth as ew
>>> sorted(ew.FAMILIES)[:3]
['boosted_laplace', 'bounded_laplace', 'exponential']

Names are loaded on first use, so ``import epsworth`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from epsworth import noise as noise
    from epsworth.boxes import SafeBox, safe_box
    from epsworth.classifiers import Classifier, ClassifierError, as_classifier, load_model
    from epsworth.curves import Bounds, Curves
    from epsworth.engines import stability
    from epsworth.guarantees import Approximate, Probabilistic, Pure, ceiling, compose, epsilon_needed
    from epsworth.mechanisms import FAMILIES, Mechanism, PrivacyIndicator, gaussian_sigma
    from epsworth.recommendation import Recommendation, recommend
    from epsworth.robustness import Radius, radius
    from epsworth.space import Domain, Feature, LeakWarning
    from epsworth.splitting import Split, split_budget

_HOMES = {
    "Classifier": "classifiers",
    "ClassifierError": "classifiers",
    "as_classifier": "classifiers",
    "load_model": "classifiers",
    "Bounds": "curves",
    "Curves": "curves",
    "stability": "engines",
    "Approximate": "guarantees",
    "Probabilistic": "guarantees",
    "Pure": "guarantees",
    "ceiling": "guarantees",
    "compose": "guarantees",
    "epsilon_needed": "guarantees",
    "FAMILIES": "mechanisms",
    "Mechanism": "mechanisms",
    "PrivacyIndicator": "mechanisms",
    "gaussian_sigma": "mechanisms",
    "Recommendation": "recommendation",
    "recommend": "recommendation",
    "SafeBox": "boxes",
    "safe_box": "boxes",
    "Split": "splitting",
    "split_budget": "splitting",
    "Radius": "robustness",
    "radius": "robustness",
    "Domain": "space",
    "Feature": "space",
    "LeakWarning": "space",
}

_PARTS = ("noise",)  # subpackages that are reached as attributes, too

__all__ = [
    "FAMILIES",
    "Approximate",
    "Bounds",
    "Classifier",
    "ClassifierError",
    "Curves",
    "Domain",
    "Feature",
    "LeakWarning",
    "Mechanism",
    "PrivacyIndicator",
    "Probabilistic",
    "Pure",
    "Radius",
    "Recommendation",
    "SafeBox",
    "Split",
    "as_classifier",
    "ceiling",
    "compose",
    "epsilon_needed",
    "gaussian_sigma",
    "load_model",
    "radius",
    "recommend",
    "safe_box",
    "split_budget",
    "stability",
]


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return import_module(f"epsworth.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'epsworth' has no attribute {name!r}")
    value = getattr(import_module(f"epsworth.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
