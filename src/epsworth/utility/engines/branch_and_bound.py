"""Branch and bound on boxes of the sensitive features; what stays undecided is finished by conditional sampling.

Whoever can look inside a classifier bounds its scores on boxes (`tree_boxes`, `propagation` for networks).
A box on which the label is certain is decided for *every* mechanism and epsilon at once; the heaviest undecided
boxes are split next.  What stays undecided at the end has mass g.  Where that is more than the tolerance allows,
draws of the mechanism *given* that region bound the share q of it that agrees, and rho = decided + g q.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Risk, looks
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.law import draw_between, uniforms
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.contraction import LawsOverEpsilon, below, mass_error, widened
from epsworth.utility.engines.engine import BATCH, ByRecord, RecordResult, Settings, quantities, records_of
from epsworth.utility.problem import Problem

Mass = Callable[[Floats, Floats], Floats]
MOST_CUTS = 2**16  # more than any classifier's boxes are cut


@dataclass(frozen=True, eq=False)
class Undecided:
    """What is known about one record: masses decided per point, and the boxes (natural units) that are not.

    Attributes
    ----------
    agrees, differs : ndarray, shape ``(points,)``
    low, high : ndarray, shape ``(boxes, sensitive)``
    mass : ndarray, shape ``(boxes, points)``
    error : ndarray, shape ``(points,)``
        How far the masses may be off; 0 where the label cannot change.
    queries : int
        How many rows were asked about.
    """

    agrees: Floats
    differs: Floats
    low: Floats
    high: Floats
    mass: Floats
    error: Floats
    queries: int = 0


def enough(settings: Settings) -> float:
    """Return the undecided mass that the tolerance allows, less what outward rounding adds."""
    return 2 * settings.tolerance - 2 * mass_error(MOST_CUTS)


def _finish(
    problem: Problem, record: int, label: object, region: Undecided, settings: Settings, risk: Risk
) -> tuple[Interval, int]:
    """Bound the undecided mass by draws from within it, until the tolerance is met or the run is stopped."""
    if not region.error.any():  # the label cannot change
        return Interval(region.agrees, 1 - region.differs), 0
    lower, upper = widened(region.agrees, 1 - region.differs, region.error)
    queries = 0
    with suppress(Stopped):
        for queries in _narrowed(problem, record, label, region, settings, risk, lower, upper):  # noqa: B007
            problem.deadline.check()
    return Interval(lower, upper), queries


def _narrowed(
    problem: Problem, record: int, label: object, region: Undecided, settings: Settings, risk: Risk, lower: Floats,
    upper: Floats,
) -> Iterator[int]:  # fmt: skip
    """Narrow the bounds point by point, look by look; yield how many rows were asked about."""
    open_mass, queries = region.mass.sum(axis=0), 0
    releases = [release for row in problem.releases for release in row]
    for point in np.flatnonzero(open_mass > max(enough(settings), 0.0)):
        g = float(open_mass[point])
        weights = region.mass[:, point] / g
        hits = drawn = 0
        for look in looks(min(0.49, settings.tolerance / g), risk.take()):
            for size in _batches(look.draws - drawn):
                chosen = settings.rng.choice(len(weights), size, p=weights)
                low, high = region.low[chosen], region.high[chosen]
                values = _given_boxes(problem, record, releases[point].mechanisms, low, high, settings.rng)
                hits += int((problem.ask(np.full(size, record), values) == label).sum())
                queries += size
            drawn = look.draws
            q = look.risk.interval(hits, drawn)
            agrees, error = region.agrees[point], region.error[point]
            now = widened(agrees + g * q.lower, agrees + g * q.upper, error)
            lower[point], upper[point] = max(lower[point], now.lower), min(upper[point], now.upper)
            yield queries
            if upper[point] - lower[point] <= 2 * settings.tolerance:
                break


def _batches(total: int) -> list[int]:
    return [min(BATCH, total - done) for done in range(0, total, BATCH)]


def _given_boxes(
    problem: Problem,
    record: int,
    mechanisms: tuple[Mechanism, ...],
    low: Floats,
    high: Floats,
    rng: np.random.Generator,
) -> list[NDArray[Any]]:
    """Draw each coordinate given its side of a box, by restricting the uniform under the quantile."""
    values = []
    for j, mechanism in enumerate(mechanisms):
        feature, law = problem.features[j], mechanism.law(problem.unit[record, j])
        least, most = (below(feature, mechanism, law, side[:, j]) for side in (low, high))
        unit = draw_between(law, least, most, uniforms(rng, len(low)))
        values.append(feature.from_unit(unit, points=mechanism.points))
    return values


class Branching(ByRecord):
    """Decides boxes as far as their number allows, and samples the rest."""

    numbers_only = True
    draws = True

    @abstractmethod
    def regions(
        self, problem: Problem, record: int, laws: LawsOverEpsilon, settings: Settings
    ) -> Callable[[int], Undecided]:
        """Return what decides, for one record, where the label at a place among the classes stays."""

    @abstractmethod
    def classes(self, problem: Problem) -> NDArray[Any]:
        """Return the labels, in the order of their places."""

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield two-sided bounds for every record; each point of a record and quantity has a share of the risk."""
        (m, e, n), settings = problem.shape, settings.seeded()
        risk = settings.risk.split(n * m * e * quantities(problem))
        laws, classes = LawsOverEpsilon(problem), self.classes(problem)
        for record, labels in records_of(problem):
            region_of = self.regions(problem, record, laws, settings)
            bounds, queries, own = [], 0, replace(settings, rng=settings.stream(record))
            for label in labels:
                index = np.flatnonzero(classes == label)
                if index.size:
                    region = region_of(int(index[0]))
                    bound, drawn = _finish(problem, record, label, region, own, risk.take(m * e))
                    queries += drawn + region.queries
                else:  # a label that the classifier does not know
                    bound = Interval(*np.zeros((2, m * e)))
                bounds.append(bound)
            whole = problem.deadline.stopped is None
            yield RecordResult(record, bounds, 1 + int((bounds[0].upper < 1).any()), queries, whole)
