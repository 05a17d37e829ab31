"""Unclipped Laplace and Gaussian noise on linear models: one set of draws for all epsilons, and no queries.

The noise is scale(epsilon) * z, where z does not depend on epsilon.  A label is kept on an intersection of half
spaces, so the ray x + scale * z is inside for one interval of scales:

    rho(epsilon) = Pr[enter < scale(epsilon)] - Pr[exit <= scale(epsilon)],

where enter is 0 for the label of the record itself.  Each term is a cumulative distribution, from which that of n
draws differs nowhere by more than sqrt(ln(2 / miss) / 2n), but for the miss probability (Massart 1990).  The band
therefore holds for *every* epsilon at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Risk
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import Gaussian, Laplace
from epsworth.rounding import up
from epsworth.utility.engines.checkpoint import CheckpointState
from epsworth.utility.engines.engine import (
    BATCH,
    ByRecord,
    EngineResult,
    RecordResult,
    Settings,
    quantities,
    records_of,
)
from epsworth.utility.engines.linear import LinearModel, linear_for
from epsworth.utility.engines.sums import MARGIN
from epsworth.utility.problem import Problem

# Of the width: a quotient, its logarithm (glibc: one unit) and another quotient err by 3 units at most, the root by one
WIDTH = 4
# A share of draws errs by 2**-54, moved by the width by another 2**-53, and the difference of two such by 2**-53: twice
# what either of them then may be off
SHARES = 2.0**-51


def noise_scales(problem: Problem, m: int) -> tuple[Laplace | Gaussian, Floats] | None:
    """Return the standard law and its scale per epsilon; None unless all features of mechanism m share them."""
    rows = [[mechanism.law(0.0) for mechanism in release.mechanisms] for release in problem.releases[m]]
    for kind in (Laplace, Gaussian):
        if all(isinstance(law, kind) for row in rows for law in row):
            scales = np.array([[_scale(law) for law in row] for row in rows])
            return (kind.around(0.0, 1.0), scales[:, 0]) if (scales == scales[:, :1]).all() else None
    return None


def _scale(law: Law) -> float:
    assert isinstance(law, (Laplace, Gaussian))
    return 1 / float(law.rate) if isinstance(law, Laplace) else float(law.sigma)


class Cumulated:
    """The scales at which rays cross a border: two estimated distributions, paid for by one share of a risk.

    Claim: but for the share, `band` holds from below that of the rays that are inside for certain, and from above that
    of the rays that may be (an error to one side each, so half of the share; Massart 1990), at all scales at once.

    Attributes
    ----------
    draws : int
        Rays for which the band has its half-width.
    counts : ndarray, shape ``(2, epsilons)``
        Rays that have crossed by every scale: of those that are inside for certain, and of those that may be.
    """

    def __init__(self, risk: Risk, half_width: float, epsilons: int) -> None:
        self.log = math.log(2 / risk.spend())
        self.draws = math.ceil(self.log / (2 * half_width**2))
        self.counts = np.zeros((2, epsilons))

    def band(self) -> Interval:
        """Return what holds the distributions, but for the share."""
        width = up(math.sqrt(self.log / (2 * self.draws)), ulps=WIDTH) + SHARES
        return Interval(self.counts / self.draws - width, self.counts / self.draws + width)


@dataclass(eq=False)
class Region:
    """The half spaces in which a label beats its rivals, seen from a record, and how many rays were inside.

    From a record that lies inside rays only leave.

    Attributes
    ----------
    weights : ndarray, shape ``(rivals, sensitive)``
    margins, rounding : ndarray, shape ``(rivals,)``
        By how much the record itself is ahead (negative: behind), and how far that may be off.
    scales : ndarray, shape ``(epsilons,)``
    tolerance : float
        Half-width of the bounds.
    risk : Risk
        One share, which is divided over the borders.
    borders : list of Cumulated
        That where rays leave, then that where they enter.
    """

    weights: Floats
    margins: Floats
    rounding: Floats
    scales: Floats
    tolerance: float
    risk: InitVar[Risk]
    borders: list[Cumulated] = field(init=False)

    def __post_init__(self, risk: Risk) -> None:
        unknown = 1 if (self.margins > self.rounding).all() else 2
        self.borders = [Cumulated(one, self.tolerance / unknown, len(self.scales)) for one in risk.split(unknown)]

    @property
    def draws(self) -> int:
        """Rays that are drawn."""
        return self.borders[0].draws

    def count(self, z: Floats) -> None:
        """Note how many rays have entered, and left, at every scale."""
        slopes, drift = z @ self.weights.T, MARGIN * np.abs(self.weights).sum(axis=1) * np.abs(z).max(initial=1.0)
        inner = crossed(slopes - drift, self.margins - self.rounding, self.scales)
        outer = crossed(slopes + drift, self.margins + self.rounding, self.scales)
        for border, counts in zip(self.borders, np.stack([inner, outer], axis=1), strict=False):
            border.counts += counts

    def bounds(self) -> Interval:
        """Return the bounds, shape ``(epsilons,)``: those that have entered, less those that have left."""
        left, *entered = (border.band() for border in self.borders)
        came = entered[0] if entered else Interval(*np.ones((2, *left.lower.shape)))
        lower, upper = (came.lower - left.upper)[0], (came.upper - left.lower)[1]
        return Interval(np.clip(lower, 0, 1), np.clip(upper, 0, 1))


def crossed(slopes: Floats, margins: Floats, scales: Floats) -> Floats:
    """Return how many rays have left, and entered, by every scale, where all of margins + scale * slopes are positive.

    Parameters
    ----------
    slopes : ndarray, shape ``(draws, rivals)``
    margins : ndarray, shape ``(rivals,)``
    scales : ndarray, shape ``(epsilons,)``

    Returns
    -------
    ndarray, shape ``(2, epsilons)``
    """
    ahead = margins > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        at = -margins / slopes
    leaves = np.where(slopes < 0, at, np.inf)[:, ahead].min(axis=1, initial=np.inf)
    enters = np.where(slopes > 0, at, np.inf)[:, ~ahead].max(axis=1, initial=0.0)
    both = np.where(enters < leaves, [enters, leaves], np.inf)  # the others never are inside
    entered = np.searchsorted(np.sort(both[0]), scales, side="left")
    left = np.searchsorted(np.sort(both[1]), scales, side="right")
    return np.array([left, entered], dtype=np.float64)


def _regions(
    problem: Problem, model: LinearModel, scales: Floats, tolerance: float, risk: Risk
) -> dict[tuple[int, int], Region]:
    """Return a mechanism's regions by record and target that the model knows, each with a share of the risk."""
    result = {}
    for record, labels in records_of(problem):
        for k, label in enumerate(labels):
            if comparisons := model.comparisons(record, label):
                signs = np.array([1.0 if one.positive else -1.0 for one in comparisons])
                weights = signs[:, np.newaxis] * np.array([one.weights for one in comparisons])
                constants = signs * np.array([one.constant for one in comparisons])
                terms = model.sizes[record] + np.abs(constants) + np.abs(weights).sum(axis=1)
                margins = weights @ problem.unit[record] + constants
                result[record, k] = Region(weights, margins, MARGIN * terms, scales, tolerance, risk.take())
    return result


class Rays(ByRecord):
    """Follows rays of noise until they leave a region: one set of draws for all epsilons, and no queries."""

    name, reason = "rays", "noise of one shape on a linear model: the draws serve all epsilons"
    draws = True
    numbers_only = True
    reading = linear_for

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse noise of more than one shape or scale."""
        return None if noise_scales(problem, m) else "its noise is not of one shape and scale for all features"

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether there is more than one epsilon to share the draws."""
        return len(problem.epsilons) > 1

    def bound(self, problem: Problem, settings: Settings) -> EngineResult | None:
        """Begin anew in a run that goes on: what the draws spend is spent for all records."""
        return super().bound(problem, replace(settings, state=CheckpointState()))

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield bounds for every epsilon from shared draws; records, labels and mechanisms share the risk.

        Whoever answers for some of the records draws the same noise: it belongs to the mechanism, not to them.
        """
        (m, e, n), model, settings = problem.shape, self.read(problem), settings.seeded()
        risk, of_mechanisms = settings.risk.split(m * n * quantities(problem)), []
        for i in range(m):
            shared = noise_scales(problem, i)
            assert shared is not None
            noise, scales = shared
            regions = _regions(problem, model, scales, settings.tolerance, risk)
            most = max((region.draws for region in regions.values()), default=0)
            for start in range(0, most, BATCH):
                z = noise.sample((BATCH, len(problem.features)), settings.stream(i, start))
                for region in regions.values():
                    region.count(z[: max(region.draws - start, 0)])
            of_mechanisms.append(regions)
        never = Interval(*np.zeros((2, e)))
        for record, labels in records_of(problem):
            rows = [
                [regions[record, k].bounds() if (record, k) in regions else never for regions in of_mechanisms]
                for k in range(len(labels))
            ]
            lost = any(one.can_be_lost for one in model.comparisons(record, labels[0]))
            yield RecordResult(record, [Interval(*np.stack(row, axis=1)) for row in rows], 1 + lost, 1)
