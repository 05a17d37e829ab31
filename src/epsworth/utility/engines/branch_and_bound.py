"""Branch and bound on boxes of the sensitive features; what stays undecided is finished by conditional sampling.

Whoever can look inside a classifier bounds its scores on boxes (`leaves` for trees, `propagation` for networks).
A box on which the label is certain is decided for *every* mechanism and epsilon at once; the heaviest undecided
boxes are split next.  What stays undecided at the end has mass g.  Where that is more than the tolerance allows,
draws of the mechanism *given* that region bound the share q of it that agrees, and rho = decided + g q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval, clopper_pearson, looks
from epsworth.laws import draw_between, uniforms
from epsworth.mechanisms import Mechanism
from epsworth.records import Indices
from epsworth.utility.curves import Bounds
from epsworth.utility.engines.contraction import LawsOverEpsilon, below, mass_error, widened
from epsworth.utility.engines.sampled import BATCH, Answer, Settings
from epsworth.utility.question import Question

Mass = Callable[[Floats, Floats], Floats]
MOST_CUTS = 2**16  # more than any classifier's boxes are cut


class Verdict(NamedTuple):
    """What one look at boxes tells: where all points have the label, where none has, where to cut the others.

    ``axis`` is -1 where no cut would tell more; ``cut`` is a value strictly between the ends of that axis.
    """

    sure: Bools
    never: Bools
    axis: Indices
    cut: Floats


class Boxes(Protocol):
    """Bounds the scores of one record on boxes ``(low, high]`` of its sensitive features, in natural units."""

    @property
    def most(self) -> int:
        """How many boxes to look at per record."""
        ...

    @property
    def together(self) -> int:
        """How many boxes to look at in one sweep, at least."""
        ...

    def start(self) -> tuple[Floats, Floats]:
        """Return disjoint boxes, shapes ``(boxes, sensitive)``, that hold every value that can be released."""
        ...

    def look(self, low: Floats, high: Floats, label: int) -> Verdict:
        """Judge boxes; ``label`` is an index into the classes."""
        ...


class Inside(Protocol):
    """A classifier that can be looked into."""

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, in the order of the scores."""
        ...

    def boxes(self, record: int) -> Boxes:
        """Return the bounds for one record."""
        ...


@dataclass(eq=False)
class Region:
    """What is known about one record: masses decided per point (mechanism x epsilon), and undecided boxes.

    ``low`` and ``high`` have shape ``(boxes, s)``, ``mass`` has ``(boxes, points)``; ``final`` boxes cannot be cut.
    """

    agrees: Floats
    differs: Floats
    low: Floats
    high: Floats
    mass: Floats
    final: Bools
    looked: int = field(default=0)

    @property
    def error(self) -> float:
        """How far a sum of their masses may be off: each look cut one side, which had at most four edges before."""
        return mass_error(self.looked + 4 * self.low.shape[1])

    def settle(self, at: Indices, verdict: Verdict, mass: Mass) -> None:
        """Count the boxes that a look decided, and put halves in the place of the others."""
        self.looked += len(at)
        self.agrees += self.mass[at[verdict.sure]].sum(axis=0)
        self.differs += self.mass[at[verdict.never]].sum(axis=0)
        open_ = ~(verdict.sure | verdict.never)
        self.final[at[open_ & (verdict.axis < 0)]] = True
        halved = open_ & (verdict.axis >= 0)
        low, high = _halves(self.low[at[halved]], self.high[at[halved]], verdict.axis[halved], verdict.cut[halved])
        gone = np.zeros(len(self.mass), dtype=bool)
        gone[at[~open_ | halved]] = True
        masses = mass(low, high)
        some = (masses > 0).any(axis=1)
        self.low = np.concatenate([self.low[~gone], low[some]])
        self.high = np.concatenate([self.high[~gone], high[some]])
        self.mass = np.concatenate([self.mass[~gone], masses[some]])
        self.final = np.concatenate([self.final[~gone], np.zeros(some.sum(), dtype=bool)])


def branch(boxes: Boxes, mass: Mass, label: int, enough: float) -> Region:
    """Decide as much mass as ``boxes.most`` looks allow, the heaviest boxes first, until ``enough`` is left.

    Parameters
    ----------
    mass : callable
        Boxes -> their masses, shape ``(boxes, points)``.
    label : int
        Index of the class that must stay.
    """
    low, high = boxes.start()
    masses = mass(low, high)
    points = masses.shape[1]
    region = Region(np.zeros(points), np.zeros(points), low, high, masses, np.zeros(len(low), dtype=bool))
    while region.looked < boxes.most and region.mass.sum(axis=0).max() > enough:
        waiting = np.flatnonzero(~region.final)
        if not waiting.size:
            break  # only boxes that the classifier alone could decide
        many = min(max(boxes.together, waiting.size // 8), boxes.most - region.looked)
        heaviest = waiting[np.argsort(-region.mass[waiting].max(axis=1), kind="stable")[:many]]
        region.settle(heaviest, boxes.look(region.low[heaviest], region.high[heaviest], label), mass)
    return region


def _halves(low: Floats, high: Floats, axis: Indices, cut: Floats) -> tuple[Floats, Floats]:
    rows = np.arange(len(low))
    left_high, right_low = high.copy(), low.copy()
    left_high[rows, axis], right_low[rows, axis] = cut, cut
    return np.concatenate([low, right_low]), np.concatenate([left_high, high])


def _mass(laws: LawsOverEpsilon, question: Question, record: int, low: Floats, high: Floats) -> Floats:
    """Return the masses of boxes, shape ``(boxes, points)``; each edge is evaluated once."""
    masses: Floats = np.ones((len(low), question.shape[0] * question.shape[1]))
    for j, x in enumerate(question.unit[record]):
        edges, at = np.unique(np.concatenate([low[:, j], high[:, j]]), return_inverse=True)
        cumulated = np.concatenate([laws.below(m, j, x, edges) for m in range(question.shape[0])]).T
        masses *= np.maximum(cumulated[at[len(low) :]] - cumulated[at[: len(low)]], 0.0)
    return masses


def branch_and_sample(question: Question, inside: Inside, settings: Settings) -> Answer:
    """Return two-sided bounds for every record; the miss probability is shared by all points and records."""
    m, e, n = question.shape
    laws = LawsOverEpsilon(question)
    share = settings.miss / (n * m * e * (1 if question.y is None else 2))
    stability = Bounds(np.empty((m, e, n)), np.empty((m, e, n)))
    accuracy = Bounds(np.empty((m, e, n)), np.empty((m, e, n)))
    queries, possible = 0, np.empty(n, dtype=np.int64)
    for record in range(n):
        boxes, mass = inside.boxes(record), partial(_mass, laws, question, record)
        found: dict[Any, Interval] = {}
        targets = [(stability, question.labels[record])]
        targets += [] if question.y is None else [(accuracy, question.y[record])]
        for target, label in targets:
            if label not in found:
                index = np.flatnonzero(inside.classes == label)
                if index.size:
                    region = branch(boxes, mass, int(index[0]), _enough(settings))
                    found[label], asked = _finish(question, record, label, region, settings, share)
                    queries += asked
                else:  # a label that the classifier does not know
                    found[label] = Interval(np.zeros(m * e), np.zeros(m * e))
            target.lower[..., record], target.upper[..., record] = (side.reshape(m, e) for side in found[label])
        possible[record] = 1 + int((stability.upper[..., record] < 1).any())
        settings.progress((record + 1) / n)
    return Answer(stability, None if question.y is None else accuracy, possible, queries)


def _enough(settings: Settings) -> float:
    """Return the undecided mass that the tolerance allows, less what outward rounding adds."""
    return 2 * settings.tolerance - 2 * mass_error(MOST_CUTS)


def _finish(
    question: Question, record: int, label: object, region: Region, settings: Settings, miss: float
) -> tuple[Interval, int]:
    """Bound the undecided mass by draws from within it, point by point, until the tolerance is met."""
    error, open_mass, asked = region.error, region.mass.sum(axis=0), 0
    lower, upper = widened(region.agrees, 1 - region.differs, error)
    releases = [release for row in question.releases for release in row]
    for point in np.flatnonzero(open_mass > _enough(settings)):
        g = float(open_mass[point])
        weights = region.mass[:, point] / g
        hits = drawn = 0
        for look in looks(min(0.49, settings.tolerance / g), miss, first=256):
            for size in _batches(look.draws - drawn):
                chosen = settings.rng.choice(len(weights), size, p=weights)
                low, high = region.low[chosen], region.high[chosen]
                values = _given_boxes(question, record, releases[point].mechanisms, low, high, settings.rng)
                hits += int((question.ask(np.full(size, record), values) == label).sum())
                asked += size
            drawn = look.draws
            q = clopper_pearson(hits, drawn, look.miss)
            now = widened(region.agrees[point] + g * q.lower, region.agrees[point] + g * q.upper, error)
            lower[point], upper[point] = max(lower[point], now.lower), min(upper[point], now.upper)
            if upper[point] - lower[point] <= 2 * settings.tolerance:
                break
    return Interval(lower, upper), asked


def _batches(total: int) -> list[int]:
    return [min(BATCH, total - done) for done in range(0, total, BATCH)]


def _given_boxes(
    question: Question,
    record: int,
    mechanisms: tuple[Mechanism, ...],
    low: Floats,
    high: Floats,
    rng: np.random.Generator,
) -> list[NDArray[Any]]:
    """Draw each coordinate given its side of a box, by restricting the uniform under the quantile."""
    values = []
    for j, mechanism in enumerate(mechanisms):
        feature, law = question.features[j], mechanism.law(question.unit[record, j])
        least, most = (below(feature, mechanism, law, side[:, j]) for side in (low, high))
        unit = draw_between(law, least, most, uniforms(rng, len(low)))
        values.append(feature.from_unit(unit, points=mechanism.points))
    return values
