"""Two-sided bounds on the probability that quadratics of one or two perturbed values stay positive, by sections.

On the unit scale a label leads each rival by a quadratic q(u1, u2).  Cut u1 into slabs [p, r].  Along u1
the curvature A of q is the same everywhere, so that for every u2

    min(q(p, u2), q(r, u2)) - max(A, 0) (r - p)^2 / 4  <=  q(u1, u2)  <=  max(..) + max(-A, 0) (r - p)^2 / 4.

Two quadratics in u2 thus tell which closed intervals keep the label, and which lose it, for sure on the whole
slab.  Their roots propose the ends of these intervals, values there and at the vertex decide.  The law's masses
of slabs and intervals give a lower and an upper bound for all epsilons at once; the slabs that leave most
undecided are cut further.  The label of a single sensitive feature has one slab and is exact to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.laws import Law
from epsworth.laws.noise import Noise
from epsworth.utility.engines.contraction import mass_error, widened

FIRST_SLABS, MOST_SLABS, MOST_ROUNDS = 32, 2**16, 40
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
        for value, found in zip((1.0, 0.0), self.decided(edges[:-1], edges[1:], (0.0, 1.0)), strict=True):
            if found.slab.size == FIRST_SLABS and (found.low == 0).all() and (found.high == 1).all():
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

    @property
    def size(self) -> int:
        """How many they are."""
        return self.low.size

    def where(self, chosen: Bools) -> Self:
        """Return some of the slabs."""
        return type(self)(*(part[..., chosen] for part in vars(self).values()))

    def only(self, epsilons: Bools) -> Self:
        """Return the slabs for some of the epsilons."""
        return replace(self, mass=self.mass[epsilons], kept=self.kept[epsilons], lost=self.lost[epsilons])

    def and_(self, others: Self) -> Self:
        """Return these slabs and others."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return type(self)(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def pieces(self, reachable: Floats, wanted: Floats) -> NDArray[np.intp]:
        """Return into how many pieces to cut each slab, to leave at most ``wanted`` undecided per epsilon.

        Each of m pieces leaves 1/m^2 of what the slab did, m of them 1/m: among all ways to bring the sum of
        g_i / m_i down to ``wanted`` the one with m_i proportional to the root of g_i takes fewest pieces.
        """
        root = np.sqrt(self.mass * np.maximum(reachable[:, np.newaxis] - self.kept - self.lost, 0.0))
        most = np.max(root * (root.sum(axis=1) / wanted)[:, np.newaxis], axis=0)
        return np.where(self.high > self.low, np.ceil(np.clip(most, 1, MOST_PIECES)), 1).astype(np.intp)

    def cut(self, pieces: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the ends of equal pieces."""
        slab = np.repeat(np.arange(self.size), pieces)
        number = np.arange(slab.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        low, width, count = self.low[slab], (self.high - self.low)[slab], pieces[slab]
        ends = low + width * ((number + 1) / count)
        high = np.where(number + 1 == count, self.high[slab], ends)
        low = np.where(number == 0, low, np.roll(ends, 1))
        return low, high


def bracket(leads: Leads, laws: list[Law], tolerance: float) -> Interval:
    """Bound the probability that a label leads all its rivals, for one or two independent unit values.

    Parameters
    ----------
    leads : Leads
    laws : list of one or two Law, each of shape ``(epsilons,)`` or ``()``
        A single one is that of u2.
    tolerance : float
        Widest gap, unless that takes more than `MOST_SLABS`.

    Returns
    -------
    Interval
        Arrays of shape ``(epsilons,)``.
    """
    span = span_of(laws[-1], TAIL)
    reachable = np.atleast_1d(laws[-1].mass(*span))
    edges = _first_edges(laws[0], TAIL_OF_SLABS * tolerance) if len(laws) == 2 else np.zeros(2)
    slabs = _measured(leads, laws, span, edges[:-1], edges[1:])
    for _ in range(MOST_ROUNDS):
        undecided = 1 - (slabs.mass * (slabs.kept + slabs.lost)).sum(axis=1)
        beyond = 1 - slabs.mass.sum(axis=1) * reachable
        wide = undecided > tolerance
        if not wide.any():
            break
        pieces = slabs.only(wide).pieces(reachable[wide], AIM * (tolerance - beyond[wide]))
        if (pieces == 1).all() or pieces.sum() > MOST_SLABS:
            break
        low, high = slabs.where(pieces > 1).cut(pieces[pieces > 1])
        slabs = slabs.where(pieces == 1).and_(_measured(leads, laws, span, low, high))
    kept, lost = (slabs.mass * slabs.kept).sum(axis=1), (slabs.mass * slabs.lost).sum(axis=1)
    # the slabs are cells of u1; a slab's intervals, each between two cuts, are cells of u2
    return widened(kept, 1 - lost, mass_error(slabs.size + CUTS * max(1, len(leads.gap))))


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
    kept: list[Floats] = []
    lost: list[Floats] = []
    for start in range(0, low.size, block):
        part = slice(start, start + block)
        intervals = leads.decided(low[part], high[part], span)
        for found, side in zip(intervals, (kept, lost), strict=True):
            side.append(found.masses(laws[-1], low[part].size))
    if len(laws) == 2:
        law = laws[0][..., np.newaxis]
        mass = np.atleast_2d(np.maximum(law.mass(low, high) - law.pmf(low), 0.0))
    else:
        mass = np.ones((len(kept[0]), low.size))
    return Slabs(low, high, mass, np.concatenate(kept, axis=1), np.concatenate(lost, axis=1))
