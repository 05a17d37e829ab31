"""Tree models with more than three sensitive features: branch and bound, the rest by conditional sampling.

Boxes of cells are bounded by adding, tree by tree, the smallest and the largest leaf that they meet.  A box
on which the label is certain is decided for *every* mechanism and epsilon at once; the heaviest undecided box
is split next.  What stays undecided at the end has mass g: draws of the mechanism *given* that region bound
the share q of it that agrees, and rho = decided + g q.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import clopper_pearson, looks
from epsworth.curves import Bounds
from epsworth.engines.cells import Leaves, TreeCells
from epsworth.engines.exact import ROUNDING, LawsOverEpsilon, unit_edges
from epsworth.engines.question import Question
from epsworth.engines.sampled import BATCH, Answer, Settings
from epsworth.laws import draw_between, uniforms
from epsworth.mechanisms import Mechanism
from epsworth.records import Indices

MOST_FEATURES = 6
MOST_RECORDS = 16  # beyond, sampling every record costs less
MOST_BOXES = 4_096  # boxes looked at per record
TOGETHER = 32  # boxes bounded in one sweep


@dataclass(eq=False)
class Region:
    """What is known about one record: masses decided per point (mechanism x epsilon), and undecided boxes.

    ``low`` and ``high`` are inclusive ranges of cells, shape ``(boxes, s)``; ``mass`` has shape ``(boxes, points)``.
    """

    agrees: Floats
    differs: Floats
    low: Indices
    high: Indices
    mass: Floats
    looked: int = field(default=0)


def branch(
    builder: TreeCells, record: int, cumulated: list[Floats], leaves: Leaves, label: int, tolerance: float
) -> Region:
    """Decide as much mass as ``MOST_BOXES`` boxes allow, the heaviest box first.

    Parameters
    ----------
    cumulated : list of ndarray, shapes ``(points, cells_j + 1)``
        Mass below every edge, per sensitive feature.
    label : int
        Index of the class that must stay.
    """
    points, s = len(cumulated[0]), len(cumulated)
    whole = np.array([[c.shape[1] - 2 for c in cumulated]])
    region = Region(
        np.zeros(points), np.zeros(points), np.zeros((1, s), dtype=np.intp), whole, np.ones((1, points))
    )  # fmt: skip
    while len(region.mass) and region.looked < MOST_BOXES and region.mass.sum(axis=0).max() > tolerance:
        order = np.argsort(-region.mass.max(axis=1))
        now, later = order[:TOGETHER], order[TOGETHER:]
        low, high, mass = region.low[now], region.high[now], region.mass[now]
        sure, never = _certain(builder, leaves, low, high, label)
        region.looked += len(now)
        region.agrees += mass[sure].sum(axis=0)
        region.differs += mass[never].sum(axis=0)
        children = [_halves(leaves, a, b) for a, b in zip(low[~(sure | never)], high[~(sure | never)], strict=True)]
        low = np.concatenate([region.low[later], *[c[0] for c in children]])
        high = np.concatenate([region.high[later], *[c[1] for c in children]])
        region.low, region.high = low, high
        region.mass = _mass(cumulated, low, high)
        if all(len(c[0]) == 1 for c in children) and not len(later):
            break  # single cells that only the classifier could decide
    return region


def _certain(builder: TreeCells, leaves: Leaves, low: Indices, high: Indices, label: int) -> tuple[Bools, Bools]:
    """Tell on which boxes every point has the label, and on which none has it; near ties stay open."""
    slack = builder.model.tie * len(builder.model.roots)
    smallest, largest = leaves.bounds(low, high)
    smallest, largest = smallest + builder.model.offset - slack, largest + builder.model.offset + slack
    if smallest.shape[1] == 1:
        positive, negative = np.asarray(smallest[:, 0] > 0), np.asarray(largest[:, 0] < 0)
        return (positive, negative) if label == 1 else (negative, positive)
    others = np.arange(smallest.shape[1]) != label
    sure = (smallest[:, [label]] > largest[:, others]).all(axis=1)
    never = (largest[:, [label]] < smallest[:, others]).any(axis=1)
    return np.asarray(sure), np.asarray(never)


def _halves(leaves: Leaves, low: Indices, high: Indices) -> tuple[Indices, Indices]:
    found = leaves.cut(low, high)
    if found is None:
        return low[np.newaxis], high[np.newaxis]
    axis, last = found
    left_high, right_low = high.copy(), low.copy()
    left_high[axis], right_low[axis] = last, last + 1
    return np.stack([low, right_low]), np.stack([left_high, high])


def _mass(cumulated: list[Floats], low: Indices, high: Indices) -> Floats:
    sides = [c[:, high[:, j] + 1] - c[:, low[:, j]] for j, c in enumerate(cumulated)]
    return np.asarray(np.prod(sides, axis=0).T)


def branch_and_sample(question: Question, builder: TreeCells, settings: Settings) -> Answer:
    """Return two-sided bounds for every record; the miss probability is shared by all points and records."""
    m, e, n = question.shape
    laws = LawsOverEpsilon(question)
    shares = n * m * e * (1 if question.y is None else 2)
    bounds = Bounds(np.empty((m, e, n)), np.empty((m, e, n)))
    accuracy = Bounds(np.empty((m, e, n)), np.empty((m, e, n)))
    queries, possible = 0, np.empty(n, dtype=np.int64)
    for record in range(n):
        edges, leaves = builder.leaves_of(record)
        cumulated = [_cumulated(laws, m, j, question, record, edge) for j, edge in enumerate(edges)]
        targets = [(bounds, question.labels[record])]
        targets += [] if question.y is None else [(accuracy, question.y[record])]
        for target, label in targets:
            index = int(np.searchsorted(builder.model.classes, label))
            if index >= len(builder.model.classes) or builder.model.classes[index] != label:
                target.lower[..., record], target.upper[..., record] = 0.0, 0.0
                continue
            region = branch(builder, record, cumulated, leaves, index, settings.tolerance)
            lower, upper, asked = _finish(question, record, label, region, edges, settings, settings.miss / shares)
            target.lower[..., record], target.upper[..., record] = lower.reshape(m, e), upper.reshape(m, e)
            queries += asked
        possible[record] = 1 + int((bounds.upper[..., record] < 1).any())
        settings.progress((record + 1) / n)
    return Answer(bounds, None if question.y is None else accuracy, possible, queries)


def _cumulated(
    laws: LawsOverEpsilon, mechanisms: int, j: int, question: Question, record: int, edges: Floats
) -> Floats:
    x = question.unit[record, j]
    masses = np.concatenate([laws.masses(m, j, x, edges) for m in range(mechanisms)])
    return np.concatenate([np.zeros((len(masses), 1)), np.cumsum(masses, axis=1)], axis=1)


def _finish(
    question: Question,
    record: int,
    label: object,
    region: Region,
    edges: tuple[Floats, ...],
    settings: Settings,
    miss: float,
) -> tuple[Floats, Floats, int]:
    """Bound the undecided mass by draws from within it, point by point, until the tolerance is met."""
    lower, open_mass = region.agrees - ROUNDING, region.mass.sum(axis=0)
    upper, asked = 1 - region.differs + ROUNDING, 0
    releases = [release for row in question.releases for release in row]
    for point in np.flatnonzero(open_mass > 2 * settings.tolerance):
        g = float(open_mass[point])
        weights = region.mass[:, point] / g
        hits = drawn = 0
        for look in looks(min(0.49, settings.tolerance / g), miss, first=256):
            for size in _batches(look.draws - drawn):
                chosen = settings.rng.choice(len(weights), size, p=weights)
                values = _given_box(question, record, releases[point].mechanisms, region, edges, chosen, settings.rng)
                hits += int((question.ask(np.full(size, record), values) == label).sum())
                asked += size
            drawn = look.draws
            q = clopper_pearson(hits, drawn, look.miss)
            lower[point] = max(lower[point], region.agrees[point] + g * float(q.lower) - ROUNDING)
            upper[point] = min(upper[point], region.agrees[point] + g * float(q.upper) + ROUNDING)
            if upper[point] - lower[point] <= 2 * settings.tolerance:
                break
    return np.clip(lower, 0, 1), np.clip(upper, 0, 1), asked


def _batches(total: int) -> list[int]:
    return [min(BATCH, total - done) for done in range(0, total, BATCH)]


def _given_box(
    question: Question,
    record: int,
    mechanisms: tuple[Mechanism, ...],
    region: Region,
    edges: tuple[Floats, ...],
    chosen: Indices,
    rng: np.random.Generator,
) -> list[NDArray[np.float64]]:
    """Draw each coordinate given its side of the chosen box, by restricting the uniform under the quantile."""
    values = []
    for j, mechanism in enumerate(mechanisms):
        feature, law = question.features[j], mechanism.law(question.unit[record, j])
        below = law.cdf(unit_edges(feature, edges[j]))
        low, high = below[region.low[chosen, j]], below[region.high[chosen, j] + 1]
        unit = draw_between(law, low, high, uniforms(rng, chosen.size))
        values.append(feature.from_unit(unit, points=mechanism.points))
    return values
