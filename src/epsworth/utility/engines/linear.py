"""Linear classifiers: their scores as sums of independent values, read once for a question, and their brackets.

With one or two sensitive features and any number of classes, a label is kept on a polygon: the intersection of the half
planes in which it beats its rivals.  The piecewise and the square wave mechanism mix uniform laws on rectangles, so
their probabilities are areas of polygons, exact.  For every other law the plane is cut into slabs u in (p, q] of known
mass.  By convexity, the polygon holds the points v that both ends of a slab share; and each half plane is widest at one
of the ends.  With slabs of mass at most 1/N the bracket closes as 1/N.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.classifiers.networks import OVERFLOWS
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.pipeline import ColumnView, column_view
from epsworth.classifiers.reading import Unsupported, dense, ignoring_names, leading, unlike
from epsworth.classifiers.thresholds import LINEAR, Scored, change_of, kind_behind, logistic_at, only_place
from epsworth.mechanisms.laplace import Laplace
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import Gaussian, TwoLevel
from epsworth.records import Indices
from epsworth.rounding import UNIT, underflows
from epsworth.utility.engines.contraction import mass_error, stays_in_range, widened
from epsworth.utility.engines.engine import ByRecord, RecordResult, Settings, Unreadable, answers_as_read, bracketed
from epsworth.utility.engines.sums import MARGIN, MARGIN_FEATURES, at_most, unclipped_works
from epsworth.utility.problem import Problem

TOO_SMALL = "weights or ranges of the model are so small that products lose digits; scale the features"
NOT_LINEAR = "the classifier is not a supported linear model, or a part of it answers by code of its own"
REACH = 1e6  # of scores among which the change of a label is looked for
DENORMAL = 2.0**-149  # in single precision
WIDEST = 1e-6  # bracket of a change, on the scale of the scores


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Scores = weights . unit values + constants of the record; the label is the class of the largest score.

    A binary model has one score: that of ``classes[1]`` over ``classes[0]``.

    Attributes
    ----------
    weights : ndarray, shape ``(scores, sensitive)``
        On the unit scale: the steps before the estimator and the declared ranges are folded in.
    constants : ndarray, shape ``(records, scores)``
        With all sensitive features at 0.
    sizes : ndarray, shape ``(records,)``
        Sum of the absolute terms of a score, those of the steps among them, with each sensitive feature at the
        end of its range that lies farther from 0: what all rounding errors of scores, weights and natural values are
        relative to.
    additions : int
        Rounded operations behind a score.
    room : ndarray, shape ``(records,)``
        How far off a score may be besides: of a rule's bracket, of single precision.
    """

    weights: Floats
    constants: Floats
    sizes: Floats
    classes: Any
    additions: int
    room: Floats

    def comparisons(self, record: int, label: Any) -> list[Comparison]:
        """Return what must hold for a label to be answered; nothing where the model does not know it."""
        own, constants = np.flatnonzero(self.classes == label), self.constants[record]
        if not own.size:
            return []
        if len(self.weights) == 1:
            return [Comparison(self.weights[0], float(constants[0]), positive=bool(own[0] == 1))]
        rivals = [k for k in range(len(self.weights)) if k != own[0]]
        return [
            Comparison(self.weights[own[0]] - self.weights[k], float(constants[own[0]] - constants[k])) for k in rivals
        ]

    def known(self, record: int, label: Any, within: bool) -> float | None:
        """Return 1 or 0 where a label is kept, or lost, for certain; ``within``: by outputs that stay in the range."""
        comparisons = self.comparisons(record, label)
        sure = settled(comparisons, self.slack(record)) if comparisons else 0.0
        return sure if within or not any(one.weights.any() for one in comparisons) else None

    def slack(self, record: int) -> float:
        """Bound the rounding of a record's scores that comes from what is public, at values however far out."""
        return MARGIN * float(self.sizes[record])

    def rounding(self, record: int) -> float:
        """Bound by how much weights . Y + constant differs from the one score that the model computes, Y in [0, 1].

        In units of 2^-53, relative to the sizes: a sum of d products errs by d in whatever order (additions), each
        term by another 12 (natural values, scalers, products), as it is answered and as the constants are: 2 d + 24.
        Weights are sums of products, too, and right to d + 3 of twice the sizes: ranges are at most twice
        their farther ends.
        """
        units = 4 * self.additions + 4 * self.weights.shape[1] + 32
        return float(units * UNIT * self.sizes[record] + self.room[record])


@dataclass(frozen=True, eq=False)
class Comparison:
    """``weights . unit + constant`` must be positive (or else must not be) for the label to be kept."""

    weights: Floats
    constant: float
    positive: bool = True

    @property
    def can_be_lost(self) -> bool:
        """Whether some values within the ranges lose it."""
        if self.positive:
            return bool(self.constant + np.minimum(self.weights, 0).sum() <= 0)
        return bool(self.constant + np.maximum(self.weights, 0).sum() > 0)


def settled(comparisons: Sequence[Comparison], slack: float) -> float | None:
    """Return 1 or 0 where all values within the ranges win all comparisons, or lose one of them; else None."""
    kept = True
    for one in comparisons:
        sign = 1 if one.positive else -1
        weights, constant = sign * one.weights, sign * one.constant
        off = slack + MARGIN * (abs(constant) + float(np.abs(weights).sum()))
        if constant + np.maximum(weights, 0).sum() < -off:
            return 0.0
        kept = kept and bool(constant + np.minimum(weights, 0).sum() > off)
    return 1.0 if kept else None


def linear_for(problem: Problem) -> LinearModel:
    """Return the question's linear model, or why there is none."""
    model = problem.classifier.inside
    read = _of_graph(problem, model) if is_onnx(model) else _of_model(problem, model)
    if not all(np.isfinite(part).all() for part in (read.weights, read.constants, read.sizes)):
        raise Unreadable("its coefficients, or the scores of a record, are not finite numbers")
    if not _agrees(problem, read):
        raise Unsupported(unlike("coefficients"))
    return read


def _of_model(problem: Problem, model: Any) -> LinearModel:
    """Read a model of scikit-learn."""
    if model is None:
        raise Unsupported(NOT_LINEAR)
    try:
        scores = problem.classifier.structure.linear
    except Unsupported as why:
        raise (Unreadable(str(why)) if kind_behind(model) in LINEAR else Unsupported(NOT_LINEAR)) from None
    if not all(one.kind in LINEAR and hasattr(one.estimator, "coef_") for one in scores.members or (scores,)):
        raise Unsupported(NOT_LINEAR)
    if any(feature.categories is not None for feature in problem.features):
        raise Unsupported("a sensitive feature is categorical")
    try:
        return _read(problem, model, scores)
    except Unsupported as why:
        raise Unreadable(str(why)) from None


def _of_graph(problem: Problem, model: Any) -> LinearModel:
    """Read the linear layer of an ONNX model, which computes in single precision."""
    network, _ = problem.classifier.structure.network
    if network.activations:
        raise Unsupported("the ONNX model is not linear")
    if any(feature.categories is not None for feature in problem.features):
        raise Unsupported("a sensitive feature is categorical")
    if not all(map(stays_in_range, problem.releases)):
        raise Unsupported("an output leaves the declared range, where single precision is not bounded")
    layer = network.affine[0]
    lower, upper = (np.array([getattr(f, end) for f in problem.features]) for end in ("lower", "upper"))
    try:
        view = column_view(model, [], problem.records, problem.positions, lower)
    except Unsupported as why:
        raise Unreadable(str(why)) from None
    reach = view.sizes(np.maximum(np.abs(lower), np.abs(upper)))
    terms = (reach @ layer.terms.T + layer.constants).max(axis=1)
    if not network.holds(reach) or not network.holds(terms):
        raise Unreadable(OVERFLOWS)
    constants = view.base @ layer.weights.T + layer.biases
    rounding = 4 * layer.additions * network.unit / MARGIN  # of both scores that are compared, as read and as answered
    return LinearModel(
        layer.weights @ view.slopes * (upper - lower), constants, (1 + rounding) * terms, network.classes,
        layer.additions, rounding * MARGIN * terms + layer.additions * DENORMAL * (1 + np.abs(layer.weights).max()),
    )  # fmt: skip


def _agrees(problem: Problem, model: LinearModel) -> bool:
    """Check the reading against the classifier."""
    ends = [(f.lower, f.upper) for f in problem.features]

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        unit = np.column_stack([(v - low) / (high - low) for v, (low, high) in zip(values, ends, strict=True)])
        scores = unit @ model.weights.T + model.constants[rows]
        places, lead = leading(scores)
        terms = model.sizes[rows] + np.abs(scores).max(axis=1) + (np.abs(unit) @ np.abs(model.weights).T).max(axis=1)
        return model.classes[places], lead > 2 * MARGIN * terms  # theirs, and ours

    return answers_as_read(problem, read)


def _read(problem: Problem, model: Any, scores: Scored) -> LinearModel:
    """Fold steps and ranges into the coefficients; no difference of scores, in which public terms cancel, is read."""
    lower, upper = (np.array([getattr(f, end) for f in problem.features]) for end in ("lower", "upper"))
    view, before, additions = None, list[Any](), 0
    weights, terms = list[Floats](), list[Floats]()
    for one in scores.members or (scores,):
        steps = [*scores.steps, *one.steps] if scores.members else scores.steps
        if view is None or list(map(id, steps)) != list(map(id, before)):
            view, before = column_view(model, steps, problem.records, problem.positions, lower), steps
        coefficients = np.atleast_2d(dense(one.estimator.coef_))
        seen = view.sizes(np.maximum(np.abs(lower), np.abs(upper)))
        intercept = np.atleast_1d(np.asarray(one.estimator.intercept_, dtype=np.float64))
        reach = view.slopes * np.maximum(np.abs(lower), np.abs(upper))
        terms.append((seen @ np.abs(coefficients).T + np.abs(intercept)).max(axis=1))
        weights.append(coefficients @ view.slopes * (upper - lower))
        if underflows(coefficients, view.slopes, reach, upper - lower, weights[-1]):
            raise Unsupported(TOO_SMALL)
        additions = max(additions, view.width + view.additions)
    assert isinstance(view, ColumnView)
    sizes = np.max(terms, axis=0) * max(1.0, additions / MARGIN_FEATURES)
    everything = np.arange(len(problem.records))
    base = dict(zip(problem.positions, np.broadcast_to(lower, (len(everything), len(lower))).T, strict=True))
    with ignoring_names():
        if scores.rule is None:
            constants = _columns(model.decision_function(problem.records.take(everything, base)))
        else:
            constants = _columns(scores.estimator.decision_function(view.base))  # calibration answers no scores
    read = LinearModel(
        np.concatenate(weights), constants, sizes, np.asarray(scores.classes), additions, np.zeros_like(sizes)
    )
    return read if scores.rule is None else _cut(read, scores, view)


def _cut(read: LinearModel, scores: Scored, view: ColumnView) -> LinearModel:
    """Move the scores of two classes so that their sign tells the labels that a rule gives; the bracket is slack."""
    if len(read.weights) != 1 or scores.rule is None:
        raise Unsupported("a threshold on the scores of more than two classes")
    if hasattr(scores.estimator, "predict_proba") and not logistic_at(scores.estimator, view.base):
        raise Unsupported("the probabilities of the linear model are not logistic functions of its scores")
    classes = np.asarray(scores.classes)[list(scores.rule.places)]
    if (place := only_place(scores.rule)) is not None:
        constants = np.full_like(read.constants, 2.0 * place - 1)
        return replace(read, weights=0 * read.weights, constants=constants, sizes=0 * read.sizes, classes=classes)
    sign, middle, room = change_of(scores.rule, REACH)
    if room > WIDEST or abs(middle) > REACH:
        raise Unsupported(
            "the score at which the label changes is not found: the threshold lies where scores hardly matter"
        )
    return replace(
        read,
        weights=sign * read.weights,
        constants=sign * read.constants - middle,
        sizes=read.sizes + abs(middle) + room / MARGIN,
        room=read.room + room,
        classes=classes,
    )


def _columns(scores: Any) -> Floats:
    columns = np.asarray(scores, dtype=np.float64)
    return columns[:, np.newaxis] if columns.ndim == 1 else columns


def by_pairs(laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
    """Bound the probability that the label wins all its comparisons, from each of them alone.

    With K > 2 classes, own score s and rival scores s_k:
    1 - sum_k Pr[s_k >= s] <= rho <= 1 - max_k Pr[s_k >= s].
    """
    most = least = np.zeros(laws[0].shape or 1)  # of losing
    for compared in comparisons:
        share = tolerance / len(comparisons)
        low, high = map(np.atleast_1d, at_most(laws, compared.weights, -compared.constant, slack, share))
        low, high = (low, high) if compared.positive else (1 - high, 1 - low)
        most, least = most + high, np.maximum(least, low)
    # chances to lose add up to at most one per comparison, each of four roundings off by a unit of that
    off = 4 * (len(comparisons) + 1) * UNIT
    return Interval(np.clip(np.where(most == 0, 1, 1 - most - off), 0, 1), np.clip(1 - least + off, 0, 1))


class Brackets(ByRecord):
    """What the engines that bracket linear models share."""

    brackets = slow = True
    numbers_only = True
    reading = linear_for

    @abstractmethod
    def keeps(self, laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
        """Bound how often all comparisons are won, as narrowly as the tolerance; ``(epsilons,)``."""

    @abstractmethod
    def possible(self, problem: Problem, model: LinearModel) -> Sequence[int]:
        """Return how many labels can occur within the ranges, per record that is asked about."""

    def slack(self, model: LinearModel, record: int, laws: list[Law]) -> float:
        """Bound how far the constants of a record's comparisons may be off."""
        return model.slack(record)

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield deterministic bounds."""
        model = self.read(problem)

        def keeps(record: int, label: Any, laws: list[Law]) -> Interval:
            slack = self.slack(model, record, laws)
            return self.keeps(laws, model.comparisons(record, label), slack, settings.tolerance)

        possible = self.possible(problem, model)
        for record, bounds in bracketed(problem, model.known, keeps):
            yield RecordResult(record, bounds, possible[record - problem.start], 1)


class Lattice(Brackets):
    """Sums of independent values on a lattice; with more than two classes by pairs, which need not close."""

    name, reason = "lattice", "a linear model, whose scores are sums"

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse noise that leaves the range, unless all features carry the same kind of it."""
        if stays_in_range(problem.releases[m]):
            return None
        weights = self.read(problem).weights
        kinds = {(x.output, type(x).__name__) for release in problem.releases[m] for x in release.mechanisms}
        alone = len(weights) == 1 and unclipped_works(weights[0])
        works = kinds == {("real line", "Gaussian")} or (kinds == {("real line", "Laplace")} and alone)
        return None if works else "its outputs leave the declared range"

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether there are two classes: of more, sums only give a union bound."""
        return len(self.read(problem).weights) == 1

    def slack(self, model: LinearModel, record: int, laws: list[Law]) -> float:
        """Bound the one score of two classes by counted units; else, or where values leave the range, with room."""
        tight = len(model.weights) == 1 and not any(isinstance(law, (Gaussian, Laplace)) for law in laws)
        return model.rounding(record) if tight else model.slack(record)

    def keeps(self, laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
        """Bound each comparison by itself."""
        return by_pairs(laws, comparisons, slack, tolerance)

    def possible(self, problem: Problem, model: LinearModel) -> list[int]:
        """Return 2 where the label can be lost: exact for two classes, a lower bound for more."""
        own = [model.comparisons(record, problem.labels[record]) for record in problem.left]
        return [1 + any(one.can_be_lost for one in comparisons) for comparisons in own]


FIRST_SLABS, MOST_SLABS = 2**9, 2**15
BLOCK = 512  # records whose polygons are measured together
TAIL = 1e-13  # mass beyond the first and the last slab of an unbounded law; what is beyond counts on the upper side


class HalfPlanes(NamedTuple):
    """Where a u + b v + c > 0: arrays of shape ``(points, planes)``, with one polygon per point."""

    a: Floats
    b: Floats
    c: Floats

    def shifted(self, by: Floats) -> HalfPlanes:
        """Move every boundary: outwards where ``by`` is positive."""
        return self._replace(c=self.c + by)

    def section(self, k: int, u: Floats) -> Interval:
        """Return the ends of {v : (u, v) in half plane k} for u of shape ``(points, n)``; low = inf where empty."""
        a, b, c = (side[:, k, np.newaxis] for side in self)
        value = a * u + c
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            edge = -value / b
        empty = (b == 0) & (value <= 0)
        return Interval(np.where(b > 0, edge, np.where(empty, np.inf, -np.inf)), np.where(b < 0, edge, np.inf))


def half_planes(comparisons: list[Comparison]) -> HalfPlanes:
    """Return the half planes of a label; a single feature is v, and no score looks at u."""
    signs = np.array([1.0 if compared.positive else -1.0 for compared in comparisons])
    weights = np.array([compared.weights for compared in comparisons]).T * signs
    constants = np.array([compared.constant for compared in comparisons]) * signs
    return HalfPlanes(*(side[np.newaxis] for side in (weights[0] * (len(weights) > 1), weights[-1], constants)))


def _of_part(laws: list[Law], planes: HalfPlanes, margin: Floats, tolerance: float) -> Interval:
    pair = (laws[0], laws[-1])
    if all(isinstance(law, TwoLevel) for law in pair):
        lower, upper = (mixed_areas(pair, planes.shifted(by)) for by in (-margin, margin))
        return widened(lower, upper, area_error(planes.c.shape[1]))
    steps, result = FIRST_SLABS, slabs(pair, planes, margin, FIRST_SLABS)
    while (gap := float((result.upper - result.lower).max())) > tolerance and steps < MOST_SLABS:
        steps = min(MOST_SLABS, int(steps * max(2.0, 1.1 * gap / tolerance)))
        now = slabs(pair, planes, margin, steps)
        result = Interval(np.maximum(result.lower, now.lower), np.minimum(result.upper, now.upper))
    return result


def mixed_areas(laws: tuple[Law, Law], planes: HalfPlanes) -> Floats:
    """Return the mass of the polygon under two piecewise-constant laws: four areas, with each rectangle as a square."""
    total = np.zeros(laws[0].shape)
    for (p, left, width), (q, bottom, height) in product(*map(_uniform_parts, laws)):
        a, b, c = planes
        total += p * q * area(HalfPlanes(a * width, b * height, c + a * left + b * bottom))
    return total


def _uniform_parts(law: Law) -> list[tuple[Floats, Floats, Floats]]:
    """Return weight, start and width of the two uniform laws that make up a `TwoLevel`; starts, widths as columns."""
    assert isinstance(law, TwoLevel)
    column = np.zeros((law.x.size, 1))
    window = (law.x - law.offset)[:, np.newaxis], (2 * law.half)[:, np.newaxis]
    return [(law.spread, column, column + 1), (1 - law.spread, *window)]


def area(planes: HalfPlanes) -> Floats:
    """Return the area that half planes share with the unit square, shape ``(points,)``.

    Between the u of two crossings the height of the polygon is linear, so the midpoint rule is exact.  It never
    reads a height on a crossing itself, where steep boundaries jump.
    """
    points = len(planes.c)
    cuts = (planes.c + np.minimum(planes.a, 0) + np.minimum(planes.b, 0) <= 0).any(axis=0)
    planes = HalfPlanes(*(side[:, cuts] for side in planes))  # the others hold the whole square
    sides = [np.broadcast_to(np.array(side, dtype=float), (points, 2)) for side in ((0, 0), (1, -1), (0, 1))]
    a, b, c = (np.concatenate(both, axis=1) for both in zip(planes, sides, strict=True))
    i, j = np.triu_indices(a.shape[1], 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        crossing = (c[:, j] * b[:, i] - c[:, i] * b[:, j]) / (a[:, i] * b[:, j] - a[:, j] * b[:, i])
    ends = np.broadcast_to([0.0, 1.0], (points, 2))
    knots = np.sort(np.concatenate([ends, np.clip(np.nan_to_num(crossing), 0, 1)], axis=1), axis=1)
    middle = (knots[:, 1:] + knots[:, :-1]) / 2
    low, high = np.zeros_like(middle), np.ones_like(middle)
    for k in range(planes.c.shape[1]):
        section = planes.section(k, middle)
        low, high = np.maximum(low, section.lower), np.minimum(high, section.upper)
    return np.asarray((np.diff(knots, axis=1) * np.maximum(high - low, 0)).sum(axis=1))


def area_error(planes: int) -> float:
    """Bound the rounding of `mixed_areas` beyond that of the half planes themselves, which `_margin` holds.

    At a crossing the height bends by s, and the crossing is off by some d.  The midpoint rule then misses s d^2 / 2, or
    d where the height jumps.  Both are at most 16 units: the numerator and the denominator of a crossing are off by 3
    units of their terms each, so that s d is at most 12 units of a height, and d is at most 1.  Every crossing of two
    of the planes and four sides, and both ends, count so, and 4 units for summing the knots (`area` is off by that).
    """
    knots = 2 + (planes + 4) * (planes + 3) // 2
    return 20 * knots * UNIT


def slabs(laws: tuple[Law, Law], planes: HalfPlanes, margin: Floats, steps: int) -> Interval:
    """Bound the mass of the polygon under product laws of shape ``(epsilons,)`` by slabs of at most mass 1/steps.

    ``margin`` is by how much the scores may be rounded at values in [0, 1]; beyond, it grows with them.
    """
    edges = _edges(laws[0], steps)
    masses = np.maximum(np.diff(laws[0][:, np.newaxis].cdf(edges), axis=1), 0.0)
    reach = margin * np.abs(edges).max(initial=1.0)
    inner, outer = (Interval(np.full_like(masses, -np.inf), np.full_like(masses, np.inf)) for _ in range(2))
    for k in range(planes.c.shape[1]):
        low, high = planes.shifted(-reach).section(k, edges)
        np.maximum(inner.lower, np.maximum(low[:, 1:], low[:, :-1]), out=inner.lower)
        np.minimum(inner.upper, np.minimum(high[:, 1:], high[:, :-1]), out=inner.upper)
        low, high = planes.shifted(reach).section(k, edges)
        np.maximum(outer.lower, np.minimum(low[:, 1:], low[:, :-1]), out=outer.lower)
        np.minimum(outer.upper, np.maximum(high[:, 1:], high[:, :-1]), out=outer.upper)
    lower, upper = ((masses * laws[1][:, np.newaxis].mass(*side)).sum(axis=1) for side in (inner, outer))
    beyond = np.maximum(1 - masses.sum(axis=1), 0.0)
    return widened(lower, upper + beyond, mass_error(masses.shape[1] + 2))


def _edges(law: Law, steps: int) -> Floats:
    """Return slab edges, shape ``(epsilons, n)``: quantiles; and each atom alone between two neighbouring doubles."""
    grid = getattr(law, "k", None)
    u = np.concatenate([[TAIL], np.arange(1, steps) / steps, [1 - TAIL]])
    at = np.asarray(law[:, np.newaxis].from_uniform(u))
    if grid is None:
        atoms = np.broadcast_to([0.0, 1.0], (len(at), 2))
    else:  # every point of a small grid; on a large one the heavy points, which quantiles do not miss
        at = atoms = np.broadcast_to(np.arange(grid) / (grid - 1), (len(at), grid)) if grid <= steps else at
    return np.sort(np.concatenate([at, atoms, np.nextafter(atoms, -np.inf)], axis=1), axis=1)


def _possible(problem: Problem, model: LinearModel) -> NDArray[np.int64]:
    """Return how many labels win on some area within the ranges, per record that is asked about."""
    at = np.arange(len(problem.records))[problem.left]
    weights, constants, sizes = model.weights, model.constants[at], model.sizes[at]
    if len(weights) == 1:  # the score of one class over another whose own is zero
        weights, constants = np.concatenate([0 * weights, weights]), np.concatenate([0 * constants, constants], axis=1)
    count = np.zeros(len(at), dtype=np.int64)
    for block in np.array_split(np.arange(len(count)), -(-len(count) // BLOCK)):
        for own in range(len(weights)):
            ahead = np.delete(weights[own] - weights, own, axis=0).T
            c = np.delete(constants[block, own, np.newaxis] - constants[block], own, axis=1)
            planes = HalfPlanes(*np.broadcast_arrays(ahead[0] * (len(ahead) > 1), ahead[-1], c))
            count[block] += area(planes.shifted(-_margin(planes, sizes[block, np.newaxis]))) > 0
    return np.maximum(count, 1)


def _margin(planes: HalfPlanes, sizes: Floats | float) -> Floats:
    """Return by how much the scores may be rounded at values in [0, 1]."""
    return np.asarray(MARGIN * (sizes + np.abs(planes.a) + np.abs(planes.b) + np.abs(planes.c)))


class Polygons(Brackets):
    """Areas of polygons, or slabs of them: exact for ``pm`` and ``sw``, else as narrow as the tolerance."""

    name, reason = "polygons", "a linear model with {features}"
    most_features = 2

    def keeps(self, laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
        """Bound the mass of the polygon on which all comparisons are won."""
        planes = half_planes(comparisons)
        margin = slack + _margin(planes, 0.0)
        return _of_part([law if law.shape else law[np.newaxis] for law in laws], planes, margin, tolerance)

    def possible(self, problem: Problem, model: LinearModel) -> list[int]:
        """Return how many labels win on some area."""
        return [int(count) for count in _possible(problem, model)]
