"""Two-sided bounds for classifiers with quadratic scores and one or two sensitive features, by sections.

Naive Bayes, quadratic discriminants, Gaussian mixtures, centroids and k-means, read on the unit scale; any mechanism
whose outputs are continuous but for atoms at 0 and 1, and unclipped noise.

A label leads each rival by a quadratic q(u1, u2).  Cut u1 into slabs [p, r].  Along u1
the curvature A of q is the same everywhere, so that for every u2

    min(q(p, u2), q(r, u2)) - max(A, 0) (r - p)^2 / 4  <=  q(u1, u2)  <=  max(..) + max(-A, 0) (r - p)^2 / 4.

Two quadratics in u2 thus tell which closed intervals keep the label, and which lose it, for sure on the whole
slab.  Their roots propose the ends of these intervals, values there and at the vertex decide.  The law's masses
of slabs and intervals give a lower and an upper bound for all epsilons at once; the slabs that leave most
undecided are cut further.  The label of a single sensitive feature has one slab and is exact to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.classifiers.pipeline import ColumnView, column_view
from epsworth.classifiers.quadratics import QuadraticScores
from epsworth.classifiers.reading import Unsupported, unlike
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import Noise
from epsworth.records import Indices
from epsworth.utility.engines.contraction import mass_error, widened
from epsworth.utility.engines.engine import (
    SPREAD,
    ByRecord,
    RecordResult,
    Settings,
    Unreadable,
    answers_as_read,
    batches,
    bracketed,
)
from epsworth.utility.problem import Problem

STEEP = 2.0**450  # of deviations, in standard ones, either way: squares of more lose digits
TOO_SMALL = "the spread of a feature is so small, or so large, that squares lose digits; scale the features"
WIDE = 0.02  # a gap that sampling closes at less cost than rounding or ties leave it open
LATTICE = 33  # points per feature at which the possible labels are looked for
MOST_FEATURES, FIRST_SLABS, MOST_SLABS, MOST_ROUNDS = 2, 32, 2**16, 40
MOST_PIECES = 16  # of one slab at a time
BLOCK = 200_000  # cuts at a time: they stay in the cache
CUTS = 10  # per slab and rival: both ends, and two roots of each of four quadratics
AIM = 0.9  # of the tolerance, when slabs are shared out
TAIL = 1e-12  # mass beyond each end of the real line, along u2
TAIL_OF_SLABS = 1 / 64  # of the tolerance, likewise along u1, where reaching far costs slabs


@dataclass(frozen=True, eq=False)
class Leads:
    """By how much a label leads its rivals at unit values u: ``u'Au + b.u + c`` per rival, known up to ``slack``.

    The shapes are ``(rivals, 2, 2)``, ``(rivals, 2)``, ``(rivals,)``, ``(rivals,)``.
    """

    curvature: Floats
    slope: Floats
    gap: Floats
    slack: Floats

    def decided(self, low: Floats, high: Floats, span: tuple[float, float]) -> tuple[Intervals, Intervals]:
        """Return the intervals of u2 in ``span`` that keep, and that lose, the label on slabs low <= u1 <= high."""
        edges = np.stack([low, high])[..., np.newaxis]
        a = self.curvature[:, 1, 1]
        b = 2 * self.curvature[:, 0, 1] * edges + self.slope[:, 1]
        c = self.curvature[:, 0, 0] * edges**2 + self.slope[:, 0] * edges + self.gap
        bend = self.curvature[:, 0, 0] * ((high - low) / 2)[:, np.newaxis] ** 2
        least, most = c - np.maximum(bend, 0), c + np.maximum(-bend, 0)
        roots = np.concatenate([_roots(a, b, least - 2 * self.slack), _roots(a, b, most + 2 * self.slack)])
        proposed = np.clip(np.nan_to_num(roots.reshape(-1, *bend.shape), nan=span[0]), *span)
        ends = np.multiply.outer(span, np.ones(bend.shape))
        cuts = np.sort(np.moveaxis(np.concatenate([proposed, ends]), 0, -1), axis=-1)
        smallest, largest = _extremes(a, b, cuts)
        slack = self.slack[:, np.newaxis]
        kept = (smallest + least[..., np.newaxis]).min(axis=0) >= slack
        lost = (largest + most[..., np.newaxis]).max(axis=0) <= -slack
        return _runs(cuts, kept).covered(len(self.gap)), _runs(cuts, lost).covered(1)

    def settled(self) -> float | None:
        """Return 1 or 0 where the label leads all rivals, or a rival leads it, all over the unit square; else None."""
        edges = np.linspace(0, 1, FIRST_SLABS + 1)
        for value, result in zip((1.0, 0.0), self.decided(edges[:-1], edges[1:], (0.0, 1.0)), strict=True):
            if result.slab.size == FIRST_SLABS and (result.low == 0).all() and (result.high == 1).all():
                return value
        return None


def _roots(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return the real roots of ``a y^2 + b y + c``, NaN where there are none; a first axis of two is added."""
    with np.errstate(invalid="ignore", divide="ignore"):
        far = -0.5 * (b + np.copysign(np.sqrt(b * b - 4 * a * c), b))  # free of cancellation
        return np.stack([far / a, c / far])


def _extremes(a: Floats, b: Floats, cuts: Floats) -> tuple[Floats, Floats]:
    """Return the least and the greatest ``(a y + b) y`` between neighbouring cuts, at the ends or at the vertex."""
    a, b = a[:, np.newaxis], b[..., np.newaxis]
    with np.errstate(invalid="ignore", divide="ignore"):
        vertex = np.nan_to_num(-b / (2 * a), nan=0.0)
    vertex = np.clip(vertex, cuts[..., :-1], cuts[..., 1:])
    values, middle = (a * cuts + b) * cuts, (a * vertex + b) * vertex
    left, right = values[..., :-1], values[..., 1:]
    return np.minimum(np.minimum(left, right), middle), np.maximum(np.maximum(left, right), middle)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Closed intervals of u2, each in one slab; sorted by slab."""

    slab: NDArray[np.intp]
    low: Floats
    high: Floats

    def covered(self, times: int) -> Intervals:
        """Return where at least so many intervals of a slab lie over each other, as disjoint intervals.

        Where some end and others begin, those that begin come first: what touches is joined, so that no atom
        counts twice.
        """
        slab, at = np.tile(self.slab, 2), np.concatenate([self.low, self.high])
        step = np.repeat([1, -1], self.slab.size)
        order = np.lexsort((-step, at, slab))
        inside = np.cumsum(step[order]) >= times
        before = np.concatenate([[False], inside[:-1]])
        begin, end = order[inside & ~before], order[before & ~inside]
        return Intervals(slab[begin], at[begin], at[end])

    def masses(self, law: Law, slabs: int) -> Floats:
        """Return the mass of each slab's intervals, shape ``(epsilons, slabs)``."""
        each = np.atleast_2d(law[..., np.newaxis].mass(self.low, self.high))
        total = np.zeros((len(each), slabs))
        where, first = np.unique(self.slab, return_index=True)
        if where.size:
            total[:, where] = np.add.reduceat(each, first, axis=1)
        return total


def _runs(cuts: Floats, chosen: Bools) -> Intervals:
    """Join neighbouring chosen cells, per slab and rival."""
    padded = np.pad(chosen, ((0, 0), (0, 0), (1, 1)))
    slab, rival, at = np.nonzero(padded[..., 1:] != padded[..., :-1])
    ends = cuts[slab, rival, at]
    return Intervals(slab[::2], ends[::2], ends[1::2])


@dataclass(frozen=True, eq=False)
class Slabs:
    """Slabs of u1: their ends, shape ``(slabs,)``; their masses and what of u2 is decided, ``(epsilons, slabs)``."""

    low: Floats
    high: Floats
    mass: Floats
    kept: Floats
    lost: Floats

    def pieces(self, wide: Bools, reachable: Floats, wanted: Floats) -> NDArray[np.intp]:
        """Return into how many pieces to cut each slab, to leave at most ``wanted`` undecided per ``wide`` epsilon.

        Each of m pieces leaves 1/m^2 of what the slab did, m of them 1/m: among all ways to bring the sum of
        g_i / m_i down to ``wanted`` the one with m_i proportional to the root of g_i takes fewest pieces.
        """
        root = np.sqrt(self.mass * np.maximum(reachable[:, np.newaxis] - self.kept - self.lost, 0.0))[wide]
        most = np.max(root * (root.sum(axis=1) / wanted[wide])[:, np.newaxis], axis=0)
        return np.where(self.high > self.low, np.ceil(np.clip(most, 1, MOST_PIECES)), 1).astype(np.intp)

    def cut(self, pieces: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the ends of equal pieces of the slabs that are to be in more than one."""
        cut = np.flatnonzero(pieces > 1)
        slab = np.repeat(cut, pieces[cut])
        number = np.arange(slab.size) - np.repeat(np.cumsum(pieces[cut]) - pieces[cut], pieces[cut])
        low, width, count = self.low[slab], (self.high - self.low)[slab], pieces[slab]
        ends = low + width * ((number + 1) / count)
        high = np.where(number + 1 == count, self.high[slab], ends)
        return np.where(number == 0, low, np.roll(ends, 1)), high

    def replaced(self, gone: Bools, others: Self) -> Self:
        """Return others in the place of some slabs."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return type(self)(*(np.concatenate([own[..., ~gone], new], axis=-1) for own, new in pairs))


def bracket(leads: Leads, laws: list[Law], tolerance: float) -> Interval:
    """Bound the probability that a label leads all its rivals, for one or two independent unit values.

    Parameters
    ----------
    laws : list of one or two Law, each of shape ``(epsilons,)`` or ``()``
        A single one is that of u2.
    tolerance : float
        Widest gap, unless that takes more than `MOST_SLABS`.
    """
    reachable = np.atleast_1d(laws[-1].mass(*(span := span_of(laws[-1], TAIL))))
    edges = _first_edges(laws[0], TAIL_OF_SLABS * tolerance) if len(laws) == 2 else np.zeros(2)
    slabs = _measured(leads, laws, span, edges[:-1], edges[1:])
    for _ in range(MOST_ROUNDS):
        undecided = 1 - (slabs.mass * (slabs.kept + slabs.lost)).sum(axis=1)
        beyond = 1 - slabs.mass.sum(axis=1) * reachable
        wide = undecided > tolerance
        if not wide.any():
            break
        pieces = slabs.pieces(wide, reachable, AIM * (tolerance - beyond))
        if (pieces == 1).all() or pieces.sum() > MOST_SLABS:
            break
        slabs = slabs.replaced(pieces > 1, _measured(leads, laws, span, *slabs.cut(pieces)))
    kept, lost = (slabs.mass * slabs.kept).sum(axis=1), (slabs.mass * slabs.lost).sum(axis=1)
    # the slabs are cells of u1; a slab's intervals, each between two cuts, are cells of u2
    return widened(kept, 1 - lost, mass_error(slabs.low.size + CUTS * max(1, len(leads.gap))))


def span_of(law: Law, tail: float) -> tuple[float, float]:
    """Return the range of unit values that are looked at: on the real line, all but a small share."""
    if not isinstance(law, Noise):
        return 0.0, 1.0
    return float(np.min(law.from_uniform(tail))), float(np.max(law.from_uniform(1 - tail)))


def _first_edges(law: Law, tail: float) -> Floats:
    """Return edges of half-open slabs (p, r]; those at 0 and at 1 hold nothing but what lies on these ends."""
    if isinstance(law, Noise):
        shares = np.linspace(tail, 1 - tail, FIRST_SLABS + 1)
        return np.unique(law[..., np.newaxis].from_uniform(shares))
    inner = np.linspace(0, 1, FIRST_SLABS + 1)
    return np.concatenate([[np.nextafter(0, -1)], inner[:-1], [np.nextafter(1, 0), 1.0]])


def _measured(leads: Leads, laws: list[Law], span: tuple[float, float], low: Floats, high: Floats) -> Slabs:
    block = max(1, BLOCK // (CUTS * len(leads.gap)))
    kept, lost = list[Floats](), list[Floats]()
    for start in range(0, low.size, block):
        part = slice(start, start + block)
        intervals = leads.decided(low[part], high[part], span)
        for result, side in zip(intervals, (kept, lost), strict=True):
            side.append(result.masses(laws[-1], low[part].size))
    mass = np.ones((len(kept[0]), low.size))
    if len(laws) == 2:
        law = laws[0][..., np.newaxis]
        mass = np.atleast_2d(np.maximum(law.mass(low, high) - law.pmf(low), 0.0))
    return Slabs(low, high, mass, np.concatenate(kept, axis=1), np.concatenate(lost, axis=1))


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """Scores on the unit scale: ``u'A[k]u + b[i, k].u + c[i, k]`` for class k and record i.

    A single sensitive feature is the second of two, the first of which counts for nothing.  ``fixed`` and
    ``grows`` bound the absolute terms of the scores by ``fixed[i, k] + grows[far, k] max(|u|)^2``, where ``far``
    is 1 beyond the unit range.
    """

    curvature: Floats
    slope: Floats
    value: Floats
    fixed: Floats
    grows: Floats
    unit: float
    classes: NDArray[Any]

    def slack(self, reach: float) -> Floats:
        """Bound the rounding of a score, the estimator's and ours, where no unit value exceeds ``reach``."""
        return np.asarray(self.unit * (self.fixed + self.grows[int(reach > 1)] * reach**2))

    def leads(self, record: int, label: Any, reach: float) -> Leads | None:
        """Return the leads of a label over all others; None where the model does not know it."""
        own = np.flatnonzero(self.classes == label)
        if not own.size:
            return None
        k, slack = own[0], self.slack(reach)[record]
        rivals = np.arange(len(self.classes)) != k
        return Leads(
            self.curvature[k] - self.curvature[rivals],
            self.slope[record, k] - self.slope[record, rivals],
            self.value[record, k] - self.value[record, rivals],
            slack[k] + slack[rivals],
        )

    def answers(self, records: NDArray[np.intp], unit: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the place of the label of each record at unit values (n, 2), and whether rounding cannot change it."""
        curved = np.einsum("ni,kij,nj->nk", unit, self.curvature, unit)
        scores = curved + np.einsum("nki,ni->nk", self.slope[records], unit) + self.value[records]
        slack, best = self.slack(max(1.0, float(np.abs(unit).max())))[records], scores.argmax(axis=1)
        behind = scores + slack + np.take_along_axis(slack, best[:, np.newaxis], axis=1)
        np.put_along_axis(behind, best[:, np.newaxis], -np.inf, axis=1)
        return best, np.asarray(behind.max(axis=1) < scores.max(axis=1))


def quadratic_for(problem: Problem) -> QuadraticModel:
    """Return what the question's classifier is on the unit scale, or why sections cannot be taken."""
    model = problem.classifier.inside
    scores, steps = problem.classifier.structure.quadratic
    if scores.unit > np.finfo(float).eps:
        raise Unsupported("the classifier was fitted in single precision, whose rounding would leave too much open")
    if len(problem.features) > MOST_FEATURES:
        raise Unsupported(f"there are more than {MOST_FEATURES} sensitive features")
    if any(feature.categories is not None for feature in problem.features):
        raise Unsupported("a sensitive feature is categorical")
    lower = np.array([feature.lower for feature in problem.features])
    try:
        view = column_view(model, steps, problem.records, problem.positions, lower)
    except Unsupported as why:
        raise Unreadable(str(why)) from None
    sizes = np.abs(np.concatenate([root[root != 0] for root in scores.roots]))
    if sizes.size and not (sizes.min() >= 1 / STEEP and sizes.max() <= STEEP):
        raise Unsupported(TOO_SMALL)
    read = _read(problem, scores, view)
    if not all(np.isfinite(part).all() for part in (read.curvature, read.slope, read.value, read.fixed, read.grows)):
        raise Unreadable("the scores of a record are not finite numbers")
    if not _agrees(problem, read):
        raise Unsupported(unlike("scores"))
    return read


def _read(problem: Problem, scores: QuadraticScores, view: ColumnView) -> QuadraticModel:
    """Expand the scores around the lower ends of the sensitive features."""
    lower, size = view.origin, np.abs(view.origin)
    width = np.array([f.upper for f in problem.features]) - lower
    moves = np.zeros((view.width, 2))
    moves[:, 2 - len(lower) :] = view.slopes * width
    sizes = view.sizes(size)
    grows = np.stack([view.terms @ width, view.terms @ (2 * size + width)])  # |lower (1 - u)| + |upper u|
    curvature, slope, value, fixed, growing = [], [], [], [], []
    for root, mean, constant, terms in zip(scores.roots, scores.means, scores.constants, scores.terms, strict=True):
        here, moved = (view.base - mean) @ root.T, root @ moves
        curvature.append(-0.5 * moved.T @ moved)
        slope.append(-here @ moved)
        value.append(constant - 0.5 * (here**2).sum(axis=1))
        # (u + v)^2 <= 2 u^2 + 2 v^2
        fixed.append((((sizes + np.abs(mean)) @ np.abs(root).T) ** 2).sum(axis=1) + terms)
        growing.append(((grows @ np.abs(root).T) ** 2).sum(axis=1))
    # 3 d + 15 roundings in a score of theirs, 3 d + 16 in ours, and twice those of the steps, as values are squared
    unit = 8 * (view.width + view.additions + 4) * scores.unit
    return QuadraticModel(
        np.array(curvature), np.stack(slope, axis=1), np.stack(value, axis=1), np.stack(fixed, axis=1),
        np.array(growing).T, unit, scores.classes,
    )  # fmt: skip


def _agrees(problem: Problem, model: QuadraticModel) -> bool:
    """Check the reading against the classifier."""

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        unit = [(v - f.lower) / (f.upper - f.lower) for v, f in zip(values, problem.features, strict=True)]
        best, clear = model.answers(rows, np.column_stack([np.zeros(len(rows)), *unit][-2:]))
        return model.classes[best], clear

    return answers_as_read(problem, read)


def _laws(features: list[list[Mechanism]], values: Floats) -> list[list[Law]]:
    """Return the features' laws, for as many epsilons at once as can share their sections.

    Unclipped noise comes one epsilon at a time: rounding at the reach of the widest would drown the narrowest.
    """
    result = []
    for laws in batches(features, values):
        alone = laws[0].shape and any(isinstance(law, Noise) for law in laws)
        result += [[law[e : e + 1] for law in laws] for e in range(laws[0].shape[0])] if alone else [laws]
    return result


class SlabBounds(ByRecord):
    """Slabs of one feature, with bounds on each: quadratic scores, outputs continuous but for atoms at 0 and 1."""

    name, reason = "slabs", "quadratic scores, {features}"
    brackets = slow = numbers_only = True
    can_fall_back = True  # where rounding, or an atom on a boundary, leaves so much open that sampling does better
    reading = quadratic_for

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse mechanisms on grids."""
        continuous = all(x.points is None for release in problem.releases[m] for x in release.mechanisms)
        return None if continuous else "its outputs lie on a grid"

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult | None]:
        """Yield deterministic bounds."""
        model, tolerance = self.read(problem), settings.tolerance

        def known(record: int, label: Any, within: bool) -> float | None:
            if not within or (leads := model.leads(record, label, 1.0)) is None:
                return 0.0 if within else None
            return leads.settled() if len(leads.gap) else 1.0

        def keeps(record: int, label: Any, laws: list[Law]) -> Interval:
            reach = max(float(np.abs(span_of(law, TAIL)).max()) for law in laws)
            leads, count = model.leads(record, label, reach), np.atleast_1d(laws[0].mean()).size
            if leads is None or not len(leads.gap):  # an unknown label, or no rival
                return Interval(*np.full((2, count), float(leads is not None)))
            return bracket(leads, laws, tolerance)

        lattice = np.stack(np.meshgrid(*[np.linspace(0, 1, LATTICE)] * 2), axis=-1).reshape(-1, 2)
        for record, bounds in bracketed(problem, known, keeps, _laws):
            if max(float((upper - lower).max()) for lower, upper in bounds) > max(2 * tolerance, WIDE):
                yield None
            best, clear = model.answers(np.full(len(lattice), record), lattice)
            yield RecordResult(record, bounds, len(np.unique(best[clear])), 2 * SPREAD * (record == 0))  # sure to occur
