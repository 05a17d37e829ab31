"""Where labels of two classes change along a single score: thresholds, calibration, and both of them together.

The score may be a sum of trees or a linear one.  What is compared with a level is a monotone function of it, computed
by the library's own code; the one change is bracketed by bisection over the doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.responses import Calibrated, Ends, Logistic, Response, Sums, Turned
from epsworth.classifiers.scalers import opened
from epsworth.search import last_passing

LINEAR = (
    "LogisticRegression",
    "LogisticRegressionCV",
    "LinearSVC",
    "LinearDiscriminantAnalysis",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "Perceptron",
    "PassiveAggressiveClassifier",
)
CALIBRATORS = ("_SigmoidCalibration", "IsotonicRegression")
THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
CALIBRATED = ("decision_function", "predict_proba")  # what is calibrated: the first that a model has
UNKNOWN = "answers that are not read"


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """What ``predict_proba`` and ``decision_function`` of a model answer from its scores; None where not known."""

    probabilities: Response | None = None
    scores: Response | None = None

    def response(self, model: Any, methods: str | Sequence[str]) -> tuple[str, Response | None]:
        """Return the first of some methods that a model has, and what it answers."""
        for method in [methods] if isinstance(methods, str) else methods:
            if hasattr(model, method):
                return method, self.probabilities if method == "predict_proba" else self.scores
        return "", None


class Rule(NamedTuple):
    """A value of a response is compared with a level; ``places`` of the labels below it, and from it on."""

    response: Response
    column: int
    level: float
    places: tuple[int, int]

    def ends(self, scores: Floats) -> Ends:
        """Return the ends of the values that are compared, from single scores."""
        found = self.response(scores[:, np.newaxis], np.zeros(1))
        return Ends(found.low[:, self.column], found.high[:, self.column])


class Bracket(NamedTuple):
    """From ``sign * score > middle + room`` on the upper label is answered, below ``middle - room`` the lower one."""

    sign: float
    middle: float
    room: float


def change_of(rule: Rule, reach: float) -> Bracket:
    """Return where the one change of the label lies among scores of a size; just beyond these where there is none."""
    low, high = np.array([-reach]), np.array([reach])
    sign = 1.0 if rule.ends(low).low[0] <= rule.ends(high).low[0] else -1.0
    below = _last(lambda s: rule.ends(sign * s).high < rule.level, low, high)
    above = _last(lambda s: ~(rule.ends(sign * s).low > rule.level), low, high)
    return Bracket(sign, (below + above) / 2, (above - below) / 2 * (1 + 1e-9))


def _last(passes: Callable[[Floats], Bools], low: Floats, high: Floats) -> float:
    """Return the last score within reach that passes; just beyond reach where none or all do."""
    beyond = 2 * float(high[0]) + 1
    if not passes(low)[0]:
        return -beyond
    return beyond if passes(high)[0] else float(last_passing(passes, low, high)[0])


def held(model: Any) -> Any:
    """Return the fitted estimator whose scores a threshold is on."""
    return model.estimator_ if hasattr(model, "estimator_") else model.estimator


def threshold_rule(model: Any, one: Answers) -> Rule | str:
    """Return how a classifier with a threshold decides, given what its estimator answers."""
    if kind_of(model) == "FixedThresholdClassifier":
        positive, level = model.pos_label, model.threshold
    elif kind_of(model._curve_scorer) == "_CurveScorer":
        positive, level = model._curve_scorer._get_pos_label(), model.best_threshold_
    else:
        return "the scorer of the threshold answers by code of its own"
    method, response = one.response(held(model), model._get_response_method())
    if response is None or len(model.classes_) != 2:
        return f"the scores that are compared with the threshold are {UNKNOWN}"
    own = 1 if positive is None else int(np.flatnonzero(np.asarray(model.classes_) == positive)[0])
    places = (1 - own, own)
    if method == "predict_proba":
        return Rule(response, own, 0.5 if isinstance(level, str) else float(level), places)
    return Rule(response if own == 1 else Turned(response), 0, 0.0 if isinstance(level, str) else float(level), places)


def calibration(part: Any, one: Answers, classes: Any) -> Response | str:
    """Return what a part of a `CalibratedClassifierCV` answers, given what its estimator does."""
    if kind_of(part) != "_CalibratedClassifier" or any(kind_of(c) not in CALIBRATORS for c in part.calibrators):
        return "a calibrator is neither a sigmoid nor isotonic, or answers by code of its own"
    inner = one.response(part.estimator, CALIBRATED)[1]
    if inner is None:
        return f"the scores that are calibrated are {UNKNOWN}"
    if not np.array_equal(part.estimator.classes_, part.classes) or not np.array_equal(part.classes, classes):
        return "a part of the CalibratedClassifierCV knows other classes"
    return Calibrated(inner, tuple(part.calibrators))


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored(Answers):
    """An estimator of two classes or more that answers by its ``decision_function``, and what decides by that.

    Attributes
    ----------
    estimator, kind, steps
        As of `opened`, behind all thresholds and calibrations.
    rule : Rule, optional
        Where labels are not those of the estimator itself.
    classes : ndarray, optional
        What the places of the rule are places of.
    """

    estimator: Any
    kind: str
    steps: list[Any]
    rule: Rule | None = None
    classes: Any = None


def scored(model: Any) -> Scored | str:
    """Open a model, through thresholds and calibration by a single model of two classes, or say what is in the way."""
    found = opened(model)
    if found is None:
        return "a part of the classifier answers by code of its own"
    estimator, kind, steps = found
    if kind in THRESHOLDS:
        one = scored(held(estimator))
        rule = one if isinstance(one, str) else threshold_rule(estimator, one)
        probabilities = None if isinstance(one, str) else one.probabilities
    elif kind == "CalibratedClassifierCV":
        if len(estimator.calibrated_classifiers_) != 1 or len(estimator.classes_) != 2:
            return "the CalibratedClassifierCV averages several models, or has more than two classes"
        (part,) = estimator.calibrated_classifiers_
        one = scored(part.estimator)
        answer = one if isinstance(one, str) else calibration(part, one, estimator.classes_)
        rule = answer if isinstance(answer, str) else Rule(answer, 1, 0.5, (0, 1))
        probabilities = None if isinstance(answer, str) else answer
    else:
        return Scored(estimator=estimator, kind=kind, steps=steps, probabilities=Logistic(), scores=Sums())
    if isinstance(one, str) or isinstance(rule, str):
        return one if isinstance(one, str) else str(rule)
    scores = one.scores if kind in THRESHOLDS else None
    return replace(
        one,
        steps=[*steps, *one.steps],
        rule=rule,
        classes=estimator.classes_,
        probabilities=probabilities,
        scores=scores,
    )
