"""Where labels of two classes change along a single score: thresholds, calibration, and both of them together.

The score may be a sum of trees or a linear one.  What is compared with a level is a monotone function of it, computed
by the library's own code; the one change is bracketed by bisection over the doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.link_functions import Calibrated, Ends, Logistic, Negated, Response, Sums
from epsworth.classifiers.reading import Unsupported, dense, ignoring_names, library_class, library_classes, opened
from epsworth.rounding import UNIT
from epsworth.search import last_passing

LINEAR = (
    *("LogisticRegression", "LogisticRegressionCV", "LinearSVC", "LinearDiscriminantAnalysis", "RidgeClassifier"),
    *("RidgeClassifierCV", "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier"),
)
CALIBRATORS = {"_SigmoidCalibration", "IsotonicRegression"}
ONE_VS_REST = "OneVsRestClassifier"
THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
CALIBRATED = ("decision_function", "predict_proba")  # what is calibrated: the first that a model has
LARGEST = float(np.finfo(np.float64).max)
UNKNOWN = "answers that are not read"
SCORES = np.linspace(-40, 40, 161)  # at which probabilities are compared with the logistic function


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
        return Ends(*(end[:, self.column] for end in self.response(scores[:, np.newaxis], np.zeros(1))))


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
    middle = (below + above) / 2
    return Bracket(sign, middle, (above - below) / 2 * (1 + 1e-9) + 2 * UNIT * abs(middle))  # that it is rounded by


def only_place(rule: Rule) -> int | None:
    """Return which of the two labels every score has; None where both occur, or may: responses rise or fall."""
    with np.errstate(over="ignore"):
        low, high = rule.ends(np.array([-LARGEST, LARGEST]))
    if (high < rule.level).all():
        return 0
    return 1 if (low > rule.level).all() else None


def _last(passes: Callable[[Floats], Bools], low: Floats, high: Floats) -> float:
    """Return the last score within reach that passes; just beyond reach where none or all do."""
    beyond = 2 * float(high[0]) + 1
    if not passes(low)[0]:
        return -beyond
    return beyond if passes(high)[0] else float(last_passing(passes, low, high)[0])


def thresholded(model: Any) -> Any:
    """Return the fitted estimator whose scores a threshold is on."""
    return model.estimator_ if hasattr(model, "estimator_") else model.estimator


def threshold_rule(model: Any, one: Answers) -> Rule:
    """Return how a classifier with a threshold decides, given what its estimator answers."""
    if library_class(model) == "FixedThresholdClassifier":
        positive, level = model.pos_label, model.threshold
    elif library_class(model._curve_scorer) == "_CurveScorer":
        positive, level = model._curve_scorer._get_pos_label(), model.best_threshold_
    else:
        raise Unsupported("the scorer of the threshold answers by code of its own")
    method, response = one.response(thresholded(model), model._get_response_method())
    if response is None or len(model.classes_) != 2:
        raise Unsupported(f"the scores that are compared with the threshold are {UNKNOWN}")
    own = 1 if positive is None else int(np.flatnonzero(np.asarray(model.classes_) == positive)[0])
    places = (1 - own, own)
    if method == "predict_proba":
        return Rule(response, own, 0.5 if isinstance(level, str) else float(level), places)
    return Rule(response if own == 1 else Negated(response), 0, 0.0 if isinstance(level, str) else float(level), places)


def calibration(part: Any, one: Answers, classes: Any) -> Response:
    """Return what a part of a `CalibratedClassifierCV` answers, given what its estimator does."""
    if library_class(part) != "_CalibratedClassifier" or not library_classes(part.calibrators) <= CALIBRATORS:
        raise Unsupported("a calibrator is neither a sigmoid nor isotonic, or answers by code of its own")
    inner = one.response(part.estimator, CALIBRATED)[1]
    if inner is None:
        raise Unsupported(f"the scores that are calibrated are {UNKNOWN}")
    if not np.array_equal(part.estimator.classes_, part.classes) or not np.array_equal(part.classes, classes):
        raise Unsupported("a part of the CalibratedClassifierCV knows other classes")
    return Calibrated(inner, tuple(part.calibrators))


def argmax_rule(probabilities: Response) -> Rule:
    """Return how two classes are chosen from by [1 - p, p], the first of equals: 1 - p is exact from p = 1/2 on."""
    return Rule(probabilities, 1, math.nextafter(0.5, 1), (0, 1))


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
        The labels, which the places of the rule are places of.
    members : tuple of Scored
        Of one class against the rest, for each of several classes: the label is that of the largest of their scores.
    """

    estimator: Any
    kind: str
    steps: list[Any]
    rule: Rule | None = None
    classes: Any = None
    members: tuple[Scored, ...] = ()


def scored(model: Any) -> Scored:
    """Open a model, through thresholds and calibration by a single model of two classes, or say what is in the way."""
    parts = opened(model)
    if parts is None:
        raise Unsupported("a part of the classifier answers by code of its own")
    estimator, kind, steps = parts
    if kind == ONE_VS_REST:
        return _one_vs_rest(estimator, steps)
    if kind in THRESHOLDS:
        one = scored(thresholded(estimator))
        one = replace(one, rule=threshold_rule(estimator, one))
    elif kind == "CalibratedClassifierCV":
        if len(estimator.calibrated_classifiers_) != 1 or len(estimator.classes_) != 2:
            raise Unsupported("the CalibratedClassifierCV averages several models, or has more than two classes")
        (part,) = estimator.calibrated_classifiers_
        one = scored(part.estimator)
        response = calibration(part, one, estimator.classes_)
        one = replace(one, rule=argmax_rule(response), probabilities=response, scores=None)
    else:
        one = Scored(estimator=estimator, kind=kind, steps=[], probabilities=Logistic(), scores=Sums())
    return replace(one, steps=[*steps, *one.steps], classes=getattr(estimator, "classes_", None))


def _one_vs_rest(model: Any, steps: list[Any]) -> Scored:
    """Open a `OneVsRestClassifier` of linear models: of two classes it has one score, of more a score for each.

    It compares what its members' ``decision_function`` answers, as they stand; the first of equal scores may win or
    the last, by version.
    """
    classes = np.asarray(model.classes_)
    wanted = {"binary": 1, "multiclass": len(classes)}.get(model.label_binarizer_.y_type_)
    if len(model.estimators_) != wanted or len(classes) < 2:
        raise Unsupported("the OneVsRestClassifier does not choose one of several classes")
    members = []
    for estimator in model.estimators_:
        try:
            one = scored(estimator)
        except Unsupported as why:
            raise Unsupported(f"a member of the OneVsRestClassifier: {why}") from None
        if one.kind not in LINEAR or one.rule is not None or not np.array_equal(one.classes, [0, 1]):
            raise Unsupported("a member of the OneVsRestClassifier is not a linear model of its class against the rest")
        members.append(one)
    if wanted == 1:
        return replace(members[0], steps=[*steps, *members[0].steps], classes=classes)
    return Scored(estimator=model, kind=ONE_VS_REST, steps=steps, classes=classes, members=tuple(members))


def kind_behind(model: Any) -> str | None:
    """Return the kind of the estimator behind all thresholds, calibrations and members against the rest."""
    while (parts := opened(model)) is not None:
        model, kind, _ = parts
        if kind in THRESHOLDS:
            model = thresholded(model)
        elif kind == "CalibratedClassifierCV":
            model = model.calibrated_classifiers_[0].estimator
        elif kind == ONE_VS_REST:
            model = model.estimators_[0]
        else:
            return kind
    return None


def logistic_at(estimator: Any, points: Any) -> bool:
    """Tell whether a linear model of two classes answers logistic probabilities: at points, and at scores to 40.

    Far from 0 many functions are 0 or 1: those of a modified Huber loss differ from the logistic one only in between.
    """
    weights = np.atleast_2d(dense(estimator.coef_))[0]
    size = max(float(np.abs(weights).max(initial=0)), np.finfo(np.float64).tiny)
    along = weights / size / max(float(np.sum((weights / size) ** 2)), 1.0) / size  # a unit of it is a unit of score
    steps = SCORES - float(np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))[0])
    between = steps[:, np.newaxis] * along
    return all(_as_logistic(estimator, some) for some in (points, between[np.isfinite(between).all(axis=1)]))


def _as_logistic(estimator: Any, points: Any) -> bool:
    if not len(points):
        return False  # nothing is known of no points
    with ignoring_names():
        scores, shares = estimator.decision_function(points), estimator.predict_proba(points)
    low, high = Logistic()(np.asarray(scores, dtype=np.float64)[:, np.newaxis], np.zeros(1))
    return bool(((low <= shares) & (shares <= high)).all())
