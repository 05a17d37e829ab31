"""What follows from scores for labels: link functions of ensembles, thresholds, calibration.

A link function maps sums, each known up to a slack, to values between two ends.  Maps of single sums rise or fall, so
that the ends follow from those of the sums.  What follows is certain; elsewhere the model itself is asked.

Labels of two classes may change along a single score, a sum of trees or a linear one.  What is compared with a level is
a monotone function of it, computed by the library's own code; the one change is bracketed by bisection over the
doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import (
    Unsupported,
    adjacent_floats,
    dense,
    ignoring_names,
    library_class,
    library_classes,
    opened,
)
from epsworth.rounding import UNIT
from epsworth.search import last_passing

ROUNDING = 1e-12  # of probabilities in double precision, far above what few operations can be off by
SINGLE_ROUNDING = 1e-6  # in single precision: a few times the spacing below 1, 6e-8


class Ends(NamedTuple):
    """Values between two ends, shape ``(n, values)``."""

    low: Floats
    high: Floats

    def wider(self, room: float) -> Ends:
        """Return ends that lie farther apart."""
        return Ends(self.low - room, self.high + room)

    def both(self) -> Ends:
        """Return the probabilities of two classes from those of the second."""
        return Ends(np.column_stack([1 - self.high, self.low]), np.column_stack([1 - self.low, self.high]))


Response = Callable[[Floats, Floats], Ends]
"""From sums of trees, shape ``(n, sums)``, and the slack of each sum."""


Members = tuple[tuple[Response, slice], ...]
"""Responses, each to sums of its own."""


def _ends(members: Members, sums: Floats, slack: Floats) -> list[Ends]:
    return [member(sums[:, at], slack[at]) for member, at in members]


@dataclass(frozen=True)
class Sums:
    """The sums themselves, as scores."""

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        return Ends(sums - slack, sums + slack)


@dataclass(frozen=True, eq=False)
class Negated:
    """The scores of the first of two classes: those of the second with their sign changed."""

    inner: Response

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        low, high = self.inner(sums, slack)
        return Ends(-high, -low)


@dataclass(frozen=True)
class Shares:
    """Averages of class shares over so many trees; for two classes the sum is that of their differences."""

    trees: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        low, high = (sums - slack) / self.trees, (sums + slack) / self.trees
        ends = Ends((1 + low) / 2, (1 + high) / 2).both() if sums.shape[1] == 1 else Ends(low, high)
        return ends.wider(ROUNDING)


@dataclass(frozen=True)
class Logistic:
    """The logistic function of a single score, or the softmax of several: as boosting turns them into probabilities."""

    slope: float = 1.0
    room: float = ROUNDING

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; in the largest norm a softmax moves by less than its scores do."""
        if sums.shape[1] == 1:
            low, high = expit(self.slope * (sums - slack)), expit(self.slope * (sums + slack))
            return Ends(low, high).both().wider(self.room)
        shares = softmax(self.slope * sums, axis=1)
        return Ends(shares, shares).wider(float(self.slope * np.max(slack)) + self.room)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Class by class a fitted calibrator of a response, by its own code, and all shares divided by their sum.

    A single isotonic calibrator that rises as it is computed is not rounded at all: a plateau at 1/2 is a tie.
    """

    inner: Response
    calibrators: tuple[Any, ...]

    @cached_property
    def rises(self) -> bool:
        """Whether the first calibrator, as it is computed, never falls.

        Between two thresholds y + slope (x - x_0) rises in doubles, too, as each of its operations does; where it is
        put together, the doubles on both sides are compared.
        """
        at = getattr(self.calibrators[0], "X_thresholds_", None)
        if not isinstance(at, np.ndarray) or at.dtype != np.float64:
            return False
        return bool((np.diff(self.calibrators[0].predict(np.sort(adjacent_floats(at)))) >= 0).all())

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; calibrators rise or fall."""
        one = len(self.calibrators) == 1
        columns = [end.T[-1:] if one else end.T for end in self.inner(sums, slack)]
        sides = [
            np.column_stack([c.predict(column) for c, column in zip(self.calibrators, end, strict=True)])
            for end in columns
        ]
        room = 0.0 if one and self.rises else ROUNDING
        low, high = np.clip(np.minimum(*sides) - room, 0, 1), np.clip(np.maximum(*sides) + room, 0, 1)
        if one:
            return Ends(low, high).both()
        others_low, others_high = low.sum(axis=1, keepdims=True) - low, high.sum(axis=1, keepdims=True) - high
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = low / (low + others_high), high / (high + others_low)
        return Ends(np.nan_to_num(shares[0], nan=0.0), np.nan_to_num(shares[1], nan=1.0)).wider(ROUNDING)


@dataclass(frozen=True, eq=False)
class Votes:
    """One for the class that a decision takes, nothing for the others; where it is open, both for all."""

    decision: Callable[[Floats, Floats], tuple[NDArray[np.intp], Bools]]
    classes: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends."""
        places, clear = self.decision(sums, slack)
        own = np.arange(self.classes) == places[:, np.newaxis]
        open_ = ~clear[:, np.newaxis]
        return Ends((own & ~open_).astype(np.float64), (own | open_).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Average:
    """Weighted sums of the members' responses, each to sums of its own."""

    members: Members
    weights: Floats

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends; sums of small whole numbers are not rounded."""
        parts = _ends(self.members, sums, slack)
        low, high = (sum(w * ends[side] for w, ends in zip(self.weights, parts, strict=True)) for side in (0, 1))
        total = float(np.abs(self.weights).sum())
        whole = bool((self.weights == np.rint(self.weights)).all()) and total < 2**50
        exact = whole and all(isinstance(member, Votes) for member, _ in self.members)
        return Ends(np.asarray(low), np.asarray(high)).wider(0.0 if exact else ROUNDING * total)


@dataclass(frozen=True, eq=False)
class OneVsRest:
    """Several one-valued responses, each to sums of its own, side by side: the scores of one class against the rest."""

    members: Members

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of the last value of each."""
        parts = _ends(self.members, sums, slack)
        return Ends(*(np.column_stack([ends[side][:, -1] for ends in parts]) for side in (0, 1)))


@dataclass(frozen=True, eq=False)
class OneVsOne:
    """One class against one: votes of all pairs of classes, and their summed confidences to part equal votes.

    Members are the confidence that the later class of a pair is meant, the pair's vote, and where its sums stand.
    """

    members: tuple[tuple[Response, Votes, slice], ...]
    classes: int

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of votes + x / (3 (|x| + 1)), where x sums confidences for a class less those against it."""
        votes, trust, sizes = np.zeros((3, 2, len(sums), self.classes))
        for pair, (confidence, vote, at) in zip(combinations(range(self.classes), 2), self.members, strict=True):
            low, high = (end[:, -1] for end in confidence(sums[:, at], slack[at]))
            votes[..., pair] += np.stack(vote(sums[:, at], slack[at]))
            trust[..., pair[0]] -= high, low
            trust[..., pair[1]] += low, high
            sizes[..., pair] += np.maximum(np.abs(low), np.abs(high))[:, np.newaxis]
        trust += np.array([-ROUNDING, ROUNDING])[:, np.newaxis, np.newaxis] * sizes
        return Ends(*(votes + trust / (3 * (np.abs(trust) + 1)))).wider(ROUNDING)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Linear scores of the members' responses side by side; of two classes, the last value of each.

    ``weights`` has shape ``(scores, values)``.
    """

    members: Members
    weights: Floats
    constants: Floats

    def __call__(self, sums: Floats, slack: Floats) -> Ends:
        """Return the ends of the scores."""
        parts = _ends(self.members, sums, slack)
        two = len(self.weights) == 1
        low, high = (np.hstack([ends[side][:, -1:] if two else ends[side] for ends in parts]) for side in (0, 1))
        sizes = np.maximum(np.abs(low), np.abs(high))
        size = np.abs(self.weights).T
        room = (high - low) / 2 @ size + ROUNDING * (sizes @ size + np.abs(self.constants))
        middle = (low + high) / 2 @ self.weights.T + self.constants
        return Ends(middle - room, middle + room)


@dataclass(frozen=True, eq=False)
class Largest:
    """The label of the largest value of a response, the first one of equals."""

    response: Response
    slack: Floats

    def __call__(self, sums: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of labels, and where they are certain."""
        low, high = self.response(sums, self.slack)
        places = np.argmax(low + high, axis=1)
        at = np.arange(len(places)), places
        rivals = high.copy()
        rivals[at] = -np.inf
        return places, np.asarray((low == high).all(axis=1) | (low[at] > rivals.max(axis=1)))


@dataclass(frozen=True, eq=False)
class AtLeast:
    """One of two labels where a value of a response reaches a level, the other below it."""

    response: Response
    column: int
    level: float
    places: tuple[int, int]
    slack: Floats

    def __call__(self, sums: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of labels, and where they are clear."""
        low, high = (end[:, self.column] for end in self.response(sums, self.slack))
        clear = (low > self.level) | (high < self.level)
        return np.where(low + high >= 2 * self.level, *self.places[::-1]), np.asarray(clear)


def slices(widths: Sequence[int]) -> list[slice]:
    """Return where the sums of models stand that are put beside each other."""
    ends = np.cumsum([0, *widths]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


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
