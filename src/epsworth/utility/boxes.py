"""Boxes as explanation: "the label cannot change while age lies between 63 and 100".

A box is never the source of a reported bound (`stability` is); it says in natural units where a record is safe.
For tree models with one or two features it is the best rectangle of cells, for linear models the best division of the
score's margin over the features.  Elsewhere it is proposed from a pool of labelled points, by cutting away the points
that flip at the least loss of mass, and then certified by fresh draws of the mechanism *given* the box.

Sides are in natural units, and rounded inwards wherever they are changed, cast, converted or printed.

*Margins.*  The largest box on which a linear score stays positive shares the score's margin out over the features.
Within a box each feature can lower the score towards one end of its side only; how far that end lies from the true
value is its share of the margin.  The log mass of the box is a sum of one rising function per feature, so the best
box is the best division of the margin.  It is sought on a lattice by dynamic programming, and bounded from above
twice: by rounding all shares of a division up, and by Lagrange duality, which prices the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from epsworth.arrays import Bools, Floats, Rng, as_floats, generator
from epsworth.bounds import Risk, check_spent
from epsworth.mechanisms import MECHANISMS
from epsworth.mechanisms.law import MASS_ERROR, Law, draw_between, uniforms
from epsworth.numerals import share
from epsworth.records import one_record
from epsworth.results import Result, how_sure
from epsworth.rounding import UNIT, down, float_below, round_down, show_down, show_up
from epsworth.space import Domain, Feature, Ranges, as_domain
from epsworth.utility.engines.cells import Cells, TreeCells, cells_for
from epsworth.utility.engines.contraction import unit_edges
from epsworth.utility.engines.label import knows_one_label
from epsworth.utility.engines.linear import LinearModel, linear_for
from epsworth.utility.engines.sums import MARGIN
from epsworth.utility.gaps import check_for_box
from epsworth.utility.problem import Problem

POOL_EPSILONS = (1.0, 2.0, 4.0, 8.0)
POOL_PART = 1_639  # five equal parts: piecewise mechanism at four epsilons, and uniform; 8 195 in all
CERTIFYING_DRAWS = 2_000
ATTEMPTS = 8
MOST_SIDES = 8  # of a linear model's box all of whose corners are asked about
HALVES = [Fraction(1, 2)] * 2  # of what is left of the risk: one pays for an attempt at a box, one for all later ones
GOOD_ENOUGH = 0.01  # share of flips in the box below which it is not cut again


@dataclass(frozen=True)
class SafeBox(Result):
    """Ranges of the sensitive features within which a record keeps its label.

    Attributes
    ----------
    features : tuple of str
    lower, upper : tuple of float
        Natural units, both ends included, rounded inwards to numbers that the record's own columns hold; an end at
        the declared range includes everything that a mechanism clips there.  Printed ends lie inside these.
    whole : tuple of bool
        Whether a feature may take any value of its declared range.
    flips_at_most : float
        Bound on the share of the mechanism's outputs *inside the box* that flip the label; 0 where the box
        was checked on the cells of a tree model or by the worst corner of a linear one.
    mass : float
        Probability that the mechanism's output lies in the box.
    guaranteed : float
        mass * (1 - flips_at_most): a lower bound on the stability (that of `stability` is better).
    confidence : float
        Of ``flips_at_most``; 1 where it was checked exactly.
    spent : float
        What bounds on draws spent of 1 - confidence.
    best : bool
        Whether it is proven that no other box of certain agreement has a larger mass (for linear models: a mass
        larger by more than 0.1 %).

    Examples
    --------
    >>> import epsworth as ew
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier().fit([[20.0, 5.0], [60.0, 5.0]], [0, 1])  # cuts the first feature at 40
    >>> box = ew.safe_box(model, [30.0, 5.0], sensitive=[0, 1], domain={0: (0, 100), 1: (0, 10)})
    >>> box.whole, box.confidence
    ((False, True), 1.0)
    >>> print(box)
    The label stays 0 while x0 lies between 0 and 40 and x1 is any value.
    """

    label: Any
    features: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    whole: tuple[bool, ...]
    mechanism: str
    epsilon: float
    flips_at_most: float
    mass: float
    guaranteed: float
    confidence: float
    best: bool
    spent: float = 0.0

    def __post_init__(self) -> None:
        check_spent(self.spent, self.confidence)

    def __str__(self) -> str:
        """Return the box as a sentence."""
        sides = " and ".join(
            f"{name} is any value" if whole else f"{name} lies between {' and '.join(texts(low, high))}"
            for name, low, high, whole in zip(self.features, self.lower, self.upper, self.whole, strict=True)
        )
        if self.confidence == 1:
            return f"The label stays {self.label} while {sides}."
        return (
            f"The label stays {self.label} while {sides}, but for at most {show_up(self.flips_at_most, 2)} of the "
            f"outputs of {self.mechanism} there ({how_sure(self.confidence)}): stability at least "
            f"{round_down(self.guaranteed):g} at epsilon {show_up(self.epsilon)} per record."
        )


def safe_box(
    model: Any,
    x: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    domain: Ranges | None = None,
    mechanism: str = "pm",
    epsilon: float = 4.0,
    confidence: float = 0.999,
    rng: Rng = None,
) -> SafeBox:
    """Return a box around one record within which its label is safe.

    Claim: where ``confidence`` is 1 the label is the same everywhere in the box.  Elsewhere, with that
    confidence over our draws, at most ``flips_at_most`` of the mechanism's outputs inside the box change it,
    and the stability is at least ``guaranteed``.  What `stability` refuses is refused, and mechanisms on grids.

    Parameters
    ----------
    model, sensitive, domain
        As for `stability`; numeric features.  Whole numbers are read as their range: outputs are those before rounding.
    x : array_like of shape ``(1, d)`` or ``(d,)``, data frame with one row, row of a pandas frame, or mapping
        The record.
    mechanism, epsilon
        The mechanism whose outputs weigh the box, by its word without a grid, and the epsilon of the record.
    confidence, rng
        In (0, 1), of what is drawn; what draws it.

    Examples
    --------
    >>> from epsworth import safe_box
    >>> print(safe_box(lambda X: X[:, 0] > 0.25, [0.75, 0.5], sensitive=[0, 1], rng=0).whole)
    (False, True)

    Notes
    -----
    For tree models with one or two sensitive features the box is the best one: of all boxes on which the label
    is certain, none has a larger mass.  For linear models ``best`` says whether the same is proven up to a factor of
    1.001: nearly always for two classes, seldom where several rivals cut.  Certainty has its price: with many
    features the worst corner lies far from what the mechanism is likely to send, and `stability` promises more.
    """
    asked = Problem.of(
        model, one_record(x), sensitive=sensitive, mechanisms=mechanism, epsilons=[epsilon], domain=_continuous(domain)
    )
    if len(asked.records) != 1:
        raise ValueError(f"x must be one record, got {len(asked.records)}; explain one at a time")
    check_for_box(asked.features, [asked.records.column(position) for position in asked.positions])
    confidence = share("confidence", confidence)
    mechanisms = asked.releases[0][0].mechanisms
    if any(m.points is not None or m.output == "real line" for m in mechanisms):
        raise ValueError(f"{mechanism} has no continuous law on the range; choose pm, sw, laplace_clipped or the like")
    laws = [m.law(value) for m, value in zip(mechanisms, asked.unit[0], strict=True)]
    if (result := _certain(asked, laws)) is not None:
        return _answer(asked, laws, result[0], epsilon, 0.0, 1.0, best=result[1])
    draws, risk = generator(rng), Risk.of(confidence)
    ends, flips = _certified(asked, laws, _proposed(asked, laws, draws), risk, draws)
    return _answer(asked, laws, ends, epsilon, flips, confidence, best=False, spent=float_below(risk.spent))


def _continuous(domain: Ranges | None) -> Domain | None:
    """Return ranges without what is rounded: a box of a range holds the whole numbers in it."""
    if domain is None:
        return None
    features = as_domain(domain).features
    return Domain(tuple(replace(one, integer=False, points=None) if one.integer else one for one in features))


def _found(problem: Problem, reading: Callable[[Problem], Any]) -> Any:
    """Return what a reading of the classifier finds, or None."""
    return problem.read(reading) if problem.readable(reading) else None


def _certain(problem: Problem, laws: list[Law]) -> tuple[Floats, bool] | None:
    """Return the ends of a box in which no point flips, and whether it is the best; None where nothing proves one."""
    if knows_one_label(problem):
        return np.array([[feature.lower, feature.upper] for feature in problem.features]), True
    builder, linear, result = _found(problem, cells_for), _found(problem, linear_for), None
    if isinstance(builder, TreeCells) and len(laws) <= 2 and (cells := builder.of([0])) is not None:
        result, best, probes = _best_rectangle(problem, laws, cells[0]), True, partial(_along_edges, cells[0].edges)
    elif isinstance(linear, LinearModel) and (box := _best_for_linear(problem, laws, linear)):
        result, best, probes = natural_sides(problem, box[0]), box[1], partial(_corners, problem, linear)
    kept = None if result is None else held(problem, result, probes)
    if result is None or kept is None:
        return None
    return kept, best and _mass(problem, laws, kept) * NEARLY >= _mass(problem, laws, result)


def _answer(
    problem: Problem,
    laws: list[Law],
    ends: Floats,
    epsilon: float,
    flips: float,
    confidence: float,
    *,
    best: bool,
    spent: float = 0.0,
) -> SafeBox:
    mass = _mass(problem, laws, ends)
    declared = np.array([[feature.lower, feature.upper] for feature in problem.features])
    return SafeBox(
        label=problem.labels[0],
        features=tuple(feature.name for feature in problem.features),
        lower=tuple(ends[:, 0].tolist()),
        upper=tuple(ends[:, 1].tolist()),
        whole=tuple((ends == declared).all(axis=1).tolist()),
        mechanism=problem.names[0],
        epsilon=float(epsilon),
        flips_at_most=flips,
        mass=mass,
        guaranteed=stays_at_least(mass, flips, len(laws)),
        confidence=confidence,
        best=best,
        spent=spent,
    )


def stays_at_least(mass: float, flips: float, sides: int) -> float:
    """Bound how often the label stays, from the mass of a box and the largest share of flips inside.

    Each mass errs by `MASS_ERROR`, each product by half a unit; the three operations here by 2^-53 of their results.
    """
    return max(0.0, down((mass - sides * (MASS_ERROR + UNIT)) * (1 - flips), ulps=3))


def _mass(problem: Problem, laws: list[Law], ends: Floats) -> float:
    return float(np.prod([law.mass(*side) for law, side in zip(laws, unit_sides(problem.features, ends), strict=True)]))


def _labels(problem: Problem, unit: Floats) -> Bools:
    values = [feature.from_unit(unit[:, j]) for j, feature in enumerate(problem.features)]
    return np.asarray(problem.ask(np.zeros(len(unit), dtype=np.intp), values) == problem.labels[0])


def _proposed(problem: Problem, laws: list[Law], rng: np.random.Generator) -> Floats:
    """Cut [0, 1]^s at the pool's flipping points, each time where the least log mass is lost; x stays inside."""
    x, s = problem.unit[0], len(laws)
    pool = [rng.random((POOL_PART, s))]
    for epsilon in POOL_EPSILONS:
        law = MECHANISMS["pm"](epsilon).law(x)
        pool.append(law.from_uniform(uniforms(rng, (POOL_PART, s))))
    points = np.concatenate(pool)
    return _cut(laws, x, np.tile([0.0, 1.0], (s, 1)), points[~_labels(problem, points)])


def _cut(laws: list[Law], x: Floats, box: Floats, failing: Floats) -> Floats:
    """Exclude every failing point by cutting one side just before it."""
    box = box.copy()
    while len(inside := failing[((failing >= box[:, 0]) & (failing <= box[:, 1])).all(axis=1)]):
        losses = np.stack([_loss(law, x[j], box[j], inside[:, j]) for j, law in enumerate(laws)], axis=1)
        worst = int(np.argmax(losses.min(axis=1)))  # the point that is dearest to exclude goes first
        j = int(np.argmin(losses[worst]))
        value = inside[worst, j]
        if value == x[j]:
            return np.column_stack([x, x])  # it flips next to the record itself: no box
        if value < x[j]:
            box[j, 0] = np.nextafter(value, 1)
        else:
            box[j, 1] = np.nextafter(value, 0)
    return box


def _loss(law: Law, x: float, side: Floats, values: Floats) -> Floats:
    """Return how much log mass a cut at each value costs; infinite where it would cut the record off."""
    lower = np.where(values < x, np.nextafter(values, 1), side[0])
    upper = np.where(values > x, np.nextafter(values, 0), side[1])
    kept, now = law.mass(lower, upper), float(law.mass(*side))
    with np.errstate(divide="ignore"):
        loss = np.log(now) - np.log(kept)
    return np.where(values == x, np.inf, loss)


def _certified(
    problem: Problem, laws: list[Law], box: Floats, risk: Risk, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Bound the share of flips by fresh draws given the box; every attempt spends half of the risk that is left."""
    for _ in range(ATTEMPTS):
        ends = _short(natural_sides(problem, box), place(problem))  # what is printed is what is certified
        box = unit_sides(problem.features, ends)
        draws = np.column_stack([_given(law, side, rng) for law, side in zip(laws, box, strict=True)])
        agree = _labels(problem, draws)
        own, risk = risk.divide(HALVES)
        flips = float(own.upper(int((~agree).sum()), CERTIFYING_DRAWS))
        if flips <= GOOD_ENOUGH or agree.all():
            break
        box = _cut(laws, problem.unit[0], box, draws[~agree])
    return ends, flips


def _short(ends: Floats, x: Floats) -> Floats:
    """Round ends inwards to what is printed, without cutting the record off."""
    shown = np.array([[float(text) for text in texts(*side)] for side in ends.tolist()])
    return np.column_stack([np.minimum(shown[:, 0], x), np.maximum(shown[:, 1], x)])


def _given(law: Law, side: Floats, rng: np.random.Generator) -> Floats:
    """Draw from the law given a closed side."""
    return np.clip(draw_between(law, law.cdf_left(side[0]), law.cdf(side[1]), uniforms(rng, CERTIFYING_DRAWS)), *side)


def _best_rectangle(problem: Problem, laws: list[Law], cells: Cells) -> Floats:
    """Return the ends of the agreeing cells around the record's cell with the largest mass (one or two features)."""
    agrees = cells.table.agrees(problem.labels[0]).astype(bool)
    at = [
        int(np.searchsorted(edges[1:-1], value, side="left"))
        for edges, value in zip(cells.edges, place(problem), strict=True)
    ]
    natural = [_sides(feature, edges) for feature, edges in zip(problem.features, cells.edges, strict=True)]
    sides = [np.clip(unit_edges(f, ends), 0, 1) for f, ends in zip(problem.features, natural, strict=True)]
    rows = agrees if agrees.ndim == 2 else agrees[:, np.newaxis]
    column, columns = (at[1], sides[1]) if agrees.ndim == 2 else (0, np.array([[0.0, 1.0]]))
    weight_of = laws[1] if agrees.ndim == 2 else None
    best, result = -1.0, (at[0], at[0], column, column)
    above = rows[at[0]].copy()
    for first in range(at[0], -1, -1):
        above &= rows[first]
        if not above[column]:
            break
        run = above.copy()
        for last in range(at[0], len(rows)):
            run &= rows[last]
            if not run[column]:
                break
            left, right = _run_around(run, column)
            mass = float(laws[0].mass(sides[0][first, 0], sides[0][last, 1]))
            mass *= 1.0 if weight_of is None else float(weight_of.mass(columns[left, 0], columns[right, 1]))
            if mass > best:
                best, result = mass, (first, last, left, right)
    runs = (result[:2], result[2:])[: len(laws)]
    return np.array([[ends[first, 0], ends[last, 1]] for ends, (first, last) in zip(natural, runs, strict=True)])


def _best_for_linear(problem: Problem, laws: list[Law], model: LinearModel) -> tuple[Floats, bool] | None:
    """Return a box on which the label beats every rival, and whether it is nearly the best; None next to a boundary.

    The best box against one rival alone bounds the best box; the rivals that leave least are cut back first.  On
    one feature every cut is forced.
    """
    x, whole, rivals = problem.unit[0], np.tile([0.0, 1.0], (len(laws), 1)), []
    for one in model.comparisons(0, problem.labels[0]):
        sign = 1 if one.positive else -1
        slopes, constant = sign * one.weights, sign * one.constant
        slack = _rounding(problem, model) * (float(model.sizes[0]) + abs(constant) + np.abs(slopes).sum())
        rivals.append((slopes, float(slopes @ x) + constant - slack))
    if min(budget for _, budget in rivals) <= 0:
        return None
    bounds = [largest_part(laws, x, whole, slopes, budget)[1] for slopes, budget in rivals]
    box = whole
    for k in np.argsort(bounds):
        box, _ = largest_part(laws, x, box, *rivals[k])
    mass = np.prod([law.mass(*side) for law, side in zip(laws, box, strict=True)])
    return box, len(laws) == 1 or bool(mass * NEARLY >= np.exp(min(bounds)))


def _rounding(problem: Problem, model: LinearModel) -> float:
    """Return the rounding of a score in the table's own precision, relative to its terms (see `MARGIN`)."""
    kinds = [problem.records.column(p).dtype for p in range(len(problem.records.names))]
    coarsest = max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"), default=0.0)
    return max(MARGIN, 2 * model.additions * coarsest)


def _run_around(agrees: Bools, at: int) -> tuple[int, int]:
    breaks = np.flatnonzero(~agrees)
    before, after = breaks[breaks < at], breaks[breaks > at]
    return (int(before[-1]) + 1 if before.size else 0), (int(after[0]) - 1 if after.size else len(agrees) - 1)


def _sides(feature: Feature, edges: Floats) -> Floats:
    """Return the closed interval [just above a, b] of every cell (a, b], in natural units, within the range."""
    ends = np.column_stack([np.nextafter(edges[:-1], np.inf), edges[1:]])
    return np.asarray(np.clip(ends, feature.lower, feature.upper))


def _along_edges(edges: Sequence[Floats], ends: Floats) -> Floats:
    """Return the ends of every side beside a point of each cell that the other side meets."""
    spots = [np.unique([*e[(e > low) & (e < high)], low, high]) for e, (low, high) in zip(edges, ends, strict=True)]
    if len(spots) == 1:
        return spots[0][:, np.newaxis]
    pairs = [np.stack(np.meshgrid(ends[0], spots[1]), -1), np.stack(np.meshgrid(spots[0], ends[1]), -1)]
    return np.concatenate([pair.reshape(-1, 2) for pair in pairs])


def _corners(problem: Problem, model: LinearModel, ends: Floats) -> Floats:
    """Return the corner at which each rival comes closest; all corners of a box of few sides."""
    comparisons = model.comparisons(0, problem.labels[0])
    slopes = np.array([one.weights if one.positive else -one.weights for one in comparisons])
    corners = [] if len(ends) > MOST_SIDES else list(product(*ends.tolist()))
    worst: Floats = np.where(slopes > 0, ends[:, 0], ends[:, 1])
    return np.concatenate([worst, np.array(corners).reshape(-1, len(ends))])


EPS = float(np.finfo(float).eps)
PULLS = 80  # doublings of a step of one ulp: more than any range holds
LOST = 1e-3  # share of a side that printing may cost; more digits are printed where six would cost more

Probes = Callable[[Floats], Floats]
"""From ends, shape ``(s, 2)``, to points of the box that must keep the label, shape ``(n, s)``."""


def texts(low: float, high: float) -> tuple[str, str]:
    """Print both ends, rounded inwards: what is printed lies inside.

    Examples
    --------
    >>> texts(40.0000019, 100.0), texts(1e6, 1e6 + 0.01)
    (('40.0001', '100'), ('1000000', '1000000.01'))
    """
    close = LOST * (high - low)
    for digits in range(6, 18):
        shown = show_up(low, digits), show_down(high, digits)
        if float(shown[0]) - low <= close and high - float(shown[1]) <= close:
            break
    return shown


def place(problem: Problem) -> Floats:
    """Return the first record's own values of the sensitive features."""
    return np.array([float(problem.records.column(p)[0]) for p in problem.positions])


def inward(problem: Problem, ends: Floats) -> Floats:
    """Round ends inwards to the numbers that the table's own columns hold, declared ends excepted."""
    result = ends.copy()
    for j, (feature, dtype) in enumerate(zip(problem.features, _dtypes(problem), strict=True)):
        if ends[j, 0] > feature.lower:
            result[j, 0] = _rounded(ends[j, 0], dtype, np.inf)
        if ends[j, 1] < feature.upper:
            result[j, 1] = _rounded(ends[j, 1], dtype, -np.inf)
    return result


def _rounded(value: float, dtype: np.dtype[np.floating], towards: float) -> float:
    near = dtype.type(value)
    beyond = float(near) < value if towards > 0 else float(near) > value
    return float(np.nextafter(near, dtype.type(towards)) if beyond else near)


def held(problem: Problem, ends: Floats, probes: Probes) -> Floats | None:
    """Pull ends in until the classifier itself keeps the label at every probe, None where it never does.

    It is asked in double precision, as the engines ask, and in the table's own precision.
    """
    x, label = place(problem), problem.labels[0]
    for pull in range(PULLS):
        ends = inward(problem, ends)
        ends = np.column_stack([np.minimum(ends[:, 0], x), np.maximum(ends[:, 1], x)])
        points = probes(ends)
        failing = points[~_keeps(problem, points, label)]
        if not len(failing):
            return ends
        at = np.stack([(failing == ends[:, side]).any(axis=0) for side in (0, 1)], axis=1)
        if not at.any() or (ends[at] == np.column_stack([x, x])[at]).all():
            return None  # inside, or at the record itself
        rows = zip(ends, x.tolist(), _dtypes(problem), strict=True)
        unit = np.array([np.spacing(np.abs([*row, v]).max().astype(d)) for row, v, d in rows])
        step = 2.0**pull * unit
        low, high = np.minimum(ends[:, 0] + step, x), np.maximum(ends[:, 1] - step, x)
        ends = np.where(at, np.column_stack([low, high]), ends)
    return None


def unit_sides(features: Sequence[Feature], ends: Floats) -> Floats:
    """Convert ends to the unit scale; they move in by the rounding of both conversions, but for declared ends."""
    return np.array([_unit_side(feature, *side) for feature, side in zip(features, ends.tolist(), strict=True)])


def natural_sides(problem: Problem, box: Floats) -> Floats:
    """Convert a box around the first record from the unit scale; whoever takes the ends checks them (see `held`)."""
    x, ends = place(problem), []
    for j, feature in enumerate(problem.features):
        low, high = (float(end) for end in feature.from_unit(box[j]))
        low = feature.lower if box[j, 0] <= 0 else low
        high = feature.upper if box[j, 1] >= 1 else high
        ends.append([min(low, x[j]), max(high, x[j])])
    return np.array(ends)


def _unit_side(feature: Feature, low: float, high: float) -> tuple[float, float]:
    width = feature.upper - feature.lower
    pad = 4 * EPS * (abs(feature.lower) + abs(feature.upper)) / width  # of both conversions, and a spare
    a, b = ((end - feature.lower) / width for end in (low, high))
    first = 0.0 if low <= feature.lower else max(a + pad, EPS)
    last = 1.0 if high >= feature.upper else min(b - pad, 1 - EPS)
    return (first, last) if first <= last else (float(np.clip(a, 0, 1)), float(np.clip(a, 0, 1)))


def _dtypes(problem: Problem) -> list[np.dtype[np.floating]]:
    """Return the precision in which the table holds each sensitive feature; double where it holds no floats."""
    result = [problem.records.column(p).dtype for p in problem.positions]
    return [dtype if dtype.kind == "f" else np.dtype(np.float64) for dtype in result]


def _keeps(problem: Problem, points: Floats, label: object) -> Bools:
    first = np.zeros(len(points), dtype=np.intp)
    result = problem.ask(first, list(points.T)) == label
    dtypes = _dtypes(problem)
    if any(dtype != np.float64 for dtype in dtypes):
        own: list[NDArray[np.floating]] = [v.astype(dtype) for v, dtype in zip(points.T, dtypes, strict=True)]
        result = result & (problem.ask(first, own) == label)
    return np.asarray(result, dtype=bool)


NEARLY = 1.001  # factor of mass up to which a box is called the best one
STEPS, ZOOMS = (256, 2_048), 6  # of the margin; each zoom puts the first lattice around the best division so far
LEVEL = 1e-14  # relative; a side whose room is paid for up to rounding is whole, and has the atom at its end
SPLIT, ROUNDS = 8, 12  # of a cell in which a peak may lie


@dataclass(frozen=True, eq=False)
class Side:
    """One feature of a box: its end on the harmful side moves away from ``x`` at a cost of ``slope`` per unit."""

    law: Law
    x: float
    low: float
    high: float
    slope: float

    @property
    def room(self) -> float:
        """What it costs to leave the side as it is."""
        return abs(self.slope) * (self.x - self.low if self.slope > 0 else self.high - self.x)

    def part(self, cost: ArrayLike) -> tuple[Floats, Floats]:
        """Return both ends of the part of the side that a cost allows."""
        cost = as_floats(cost)
        reach = self.x - cost / self.slope if self.slope else self.x
        end = np.where(cost < self.room * (1 - LEVEL), reach, self.low if self.slope > 0 else self.high)
        return (end, as_floats(self.high)) if self.slope > 0 else (as_floats(self.low), end)

    def log_mass(self, cost: ArrayLike) -> Floats:
        """Return the log mass of that part; rises with the cost."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.law.mass(*self.part(cost))))


def largest_part(laws: Sequence[Law], x: Floats, box: Floats, slopes: Floats, margin: float) -> tuple[Floats, float]:
    """Return the part of a box on which a score falls by at most ``margin`` below that of x, and a bound.

    Parameters
    ----------
    laws : sequence of s Law, of shape ``()``
    x : ndarray, shape ``(s,)``
        Lies in the box.
    box : ndarray, shape ``(s, 2)``
    slopes : ndarray, shape ``(s,)``
        Of the score.
    margin : float
        Positive.

    Returns
    -------
    part : ndarray, shape ``(s, 2)``
    bound : float
        No such part has a larger log mass; that of the one returned is close to it.
    """
    sides = [Side(law, v, low, high, w) for law, v, (low, high), w in zip(laws, x, box, slopes, strict=True)]
    if sum(side.room for side in sides) <= margin:
        return box.copy(), float(sum(side.log_mass(side.room) for side in sides))
    result, most, bound = np.zeros(len(sides)), -np.inf, np.inf
    for steps in STEPS:
        costs, unit, values, worth = _divided(sides, np.zeros(len(sides)), margin, steps)
        bound = min(bound, float(worth[-1]), priced_bound(sides, margin, _price(values, worth) / unit))
        for _ in range(ZOOMS):
            reached = float(sum(side.log_mass(cost) for side, cost in zip(sides, costs, strict=True)))
            if reached >= most:
                result, most = costs, reached
            if bound - most <= np.log(NEARLY):
                break
            costs, unit, *_ = _divided(sides, np.maximum(costs - unit, 0), margin, STEPS[0])
        if bound - most <= np.log(NEARLY):
            break
    return np.array([side.part(cost) for side, cost in zip(sides, result, strict=True)]), bound


def _divided(sides: Sequence[Side], kept: Floats, margin: float, steps: int) -> tuple[Floats, float, Floats, Floats]:
    """Share out, in this many steps, what is left of the margin when each side has got what it keeps.

    Returns costs by side, the size of a step, and the values and their largest sums on the lattice of steps.
    """
    unit = (margin - float(kept.sum())) / steps
    units = np.arange(steps + len(sides)) * unit
    values = np.stack([side.log_mass(own + units) for side, own in zip(sides, kept, strict=True)])
    shares, worth = share_out(values)
    return np.minimum(kept + shares * unit, [side.room for side in sides]), unit, values, worth


def share_out(values: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Divide N whole units among s rising functions so that the sum of their values is largest.

    Parameters
    ----------
    values : ndarray, shape ``(s, N + s)``
        ``values[j, i]``: what i units are worth to function j; may be -inf.

    Returns
    -------
    shares : ndarray of int, shape ``(s,)``
        At most N units in all.
    worth : ndarray, shape ``(N + s,)``
        The largest sum by units.  ``worth[-1]`` bounds every division of N units into *fractions*: rounded up,
        they are at most N + s - 1 units.

    Examples
    --------
    >>> shares, worth = share_out(np.array([[0.0, 3, 4, 4, 4], [0, 2, 4, 5, 5]]))
    >>> shares.tolist(), worth.tolist()
    ([1, 2], [0.0, 3.0, 5.0, 7.0, 8.0])
    """
    parts, length = values.shape
    best = [values[0]]  # best[j][i]: the most that i units are worth to functions 0..j
    for row in values[1:]:
        before, now = best[-1], np.full(length, -np.inf)
        for i in range(length):
            np.maximum(now[i:], before[: length - i] + row[i], out=now[i:])
        best.append(now)
    shares, left = np.zeros(parts, dtype=np.intp), length - parts
    for j in range(parts - 1, 0, -1):
        shares[j] = np.argmax(best[j - 1][left::-1] + values[j, : left + 1])
        left -= shares[j]
    shares[0] = left
    return shares, best[-1]


def priced_bound(sides: Sequence[Side], margin: float, price: float) -> float:
    """Bound the log mass of every part that costs at most ``margin``, by weak duality at any price >= 0.

    sum v_j(c_j) <= price * margin + sum_j max_c (v_j(c) - price * c).
    """
    close = np.log(NEARLY) / (4 * len(sides))
    return price * margin + sum(_peak(side, min(side.room, margin), price, close) for side in sides)


def _peak(side: Side, most: float, price: float, close: float) -> float:
    """Bound max (v(c) - price * c) over [0, most]: v rises, so it is at most v(r) - price * l between l and r."""
    left, right, seen = np.zeros(1), np.full(1, most), -np.inf
    for _ in range(ROUNDS):
        edges = left + np.linspace(0, 1, SPLIT + 1)[:, np.newaxis] * (right - left)
        edges[-1] = right
        left, right = edges[:-1].ravel(), edges[1:].ravel()
        values = side.log_mass(right)
        seen = max(seen, float((values - price * right).max()))
        upper = values - price * left
        open_ = upper > seen + close
        if not open_.any():
            return seen + close
        left, right = left[open_], right[open_]
    return float(upper.max())


def _price(values: Floats, worth: Floats) -> float:
    """Return the price of a unit at which the dual of the lattice is least."""
    units = len(worth) - len(values)
    steepest = 2 * (worth[units] - worth[units // 2]) / units
    if not 0 < steepest < np.inf:
        return 0.0
    i = np.arange(units + 1)

    def dual(price: float) -> float:
        return float(price * units + (values[:, : units + 1] - price * i).max(axis=1).sum())

    return float(minimize_scalar(dual, bounds=(0, 2 * steepest), method="bounded").x)
