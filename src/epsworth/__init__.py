"""What is an epsilon worth? Which privacy mechanism, at which epsilon, keeps a classifier useful.

>>> import epsworth as ew
>>> sorted(ew.MECHANISMS)[:3]
['boosted_laplace', 'bounded_laplace', 'duchi']

Names are loaded on first use, so ``import epsworth`` costs next to nothing.
"""

from importlib import import_module

from epsworth.version import __version__ as __version__

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from epsworth import client as client
    from epsworth import exposure as exposure
    from epsworth import learner as learner
    from epsworth import mechanisms as mechanisms
    from epsworth import noise as noise
    from epsworth import pac as pac
    from epsworth import policy as policy
    from epsworth import report as report
    from epsworth.classifiers import Classifier, ClassifierError, as_classifier, load_model
    from epsworth.classifiers.service import remote
    from epsworth.guarantees import (
        Approximate,
        Central,
        Probabilistic,
        Pure,
        ceiling,
        compose,
        epsilon_needed,
        local_epsilon,
        shuffled,
    )
    from epsworth.mechanisms import MECHANISMS, Mechanism, PrivacyIndicator, density_mechanism, gaussian_sigma
    from epsworth.policy import Policy, Receipt, perturb, perturb_file, perturb_files
    from epsworth.policy.transformer import Perturb
    from epsworth.space import Domain, Feature, LeakWarning
    from epsworth.study import Study, StudyResult
    from epsworth.utility.boxes import SafeBox, safe_box
    from epsworth.utility.curve_parts import CurveParts, stability_in_parts
    from epsworth.utility.curves import Curves
    from epsworth.utility.population import Population
    from epsworth.utility.problem import Problem
    from epsworth.utility.quantities import Bounds
    from epsworth.utility.radii import Radii, radii
    from epsworth.utility.radius import Radius, radius
    from epsworth.utility.recommendation import Recommendation, recommend
    from epsworth.utility.run import RunOptions
    from epsworth.utility.splitting import Split, split_budget
    from epsworth.utility.stability import problem_of_policy, stability, stability_of_policy
    from epsworth.utility.tailored import Tailored, tailor

_HOMES = {
    "Classifier": "classifiers",
    "ClassifierError": "classifiers",
    "as_classifier": "classifiers",
    "load_model": "classifiers",
    "remote": "classifiers.service",
    "Bounds": "utility.quantities",
    "CurveParts": "utility.curve_parts",
    "Curves": "utility.curves",
    "stability_in_parts": "utility.curve_parts",
    "Population": "utility.population",
    "Problem": "utility.problem",
    "RunOptions": "utility.run",
    "stability": "utility.stability",
    "problem_of_policy": "utility.stability",
    "stability_of_policy": "utility.stability",
    "Approximate": "guarantees",
    "Central": "guarantees",
    "Probabilistic": "guarantees",
    "Pure": "guarantees",
    "ceiling": "guarantees",
    "compose": "guarantees",
    "epsilon_needed": "guarantees",
    "local_epsilon": "guarantees",
    "shuffled": "guarantees",
    "MECHANISMS": "mechanisms",
    "Mechanism": "mechanisms",
    "PrivacyIndicator": "mechanisms",
    "density_mechanism": "mechanisms",
    "gaussian_sigma": "mechanisms",
    "Recommendation": "utility.recommendation",
    "recommend": "utility.recommendation",
    "Perturb": "policy.transformer",
    "Policy": "policy",
    "Receipt": "policy",
    "perturb": "policy",
    "perturb_file": "policy",
    "perturb_files": "policy",
    "SafeBox": "utility.boxes",
    "safe_box": "utility.boxes",
    "Split": "utility.splitting",
    "Tailored": "utility.tailored",
    "tailor": "utility.tailored",
    "split_budget": "utility.splitting",
    "Radii": "utility.radii",
    "radii": "utility.radii",
    "Radius": "utility.radius",
    "radius": "utility.radius",
    "Domain": "space",
    "Feature": "space",
    "LeakWarning": "space",
    "Study": "study",
    "StudyResult": "study",
}

__all__ = [
    "MECHANISMS",
    "Approximate",
    "Bounds",
    "Central",
    "Classifier",
    "ClassifierError",
    "CurveParts",
    "Curves",
    "Domain",
    "Feature",
    "LeakWarning",
    "Mechanism",
    "Perturb",
    "Policy",
    "Population",
    "PrivacyIndicator",
    "Probabilistic",
    "Problem",
    "Pure",
    "Radii",
    "Radius",
    "Receipt",
    "Recommendation",
    "RunOptions",
    "SafeBox",
    "Split",
    "Study",
    "StudyResult",
    "Tailored",
    "as_classifier",
    "ceiling",
    "compose",
    "density_mechanism",
    "epsilon_needed",
    "gaussian_sigma",
    "load_model",
    "local_epsilon",
    "perturb",
    "perturb_file",
    "perturb_files",
    "problem_of_policy",
    "radii",
    "radius",
    "recommend",
    "remote",
    "safe_box",
    "shuffled",
    "split_budget",
    "stability",
    "stability_in_parts",
    "stability_of_policy",
    "tailor",
]


_PARTS = (
    "client",
    "exposure",
    "learner",
    "mechanisms",
    "noise",
    "pac",
    "policy",
    "report",
)  # reached as attributes: epsworth.mechanisms.kernel(...)


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return import_module(f"epsworth.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'epsworth' has no attribute {name!r}")
    value = getattr(import_module(f"epsworth.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_PARTS])
