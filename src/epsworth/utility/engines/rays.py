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
from dataclasses import dataclass, field

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.laws import Gaussian, Laplace, Law
from epsworth.rounding import up
from epsworth.utility.curves import Bounds
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.linear import MARGIN, LinearModel
from epsworth.utility.engines.sampled import BATCH, Answer, Settings
from epsworth.utility.question import Question


def noise_scales(question: Question, m: int) -> tuple[Laplace | Gaussian, Floats] | None:
    """Return the standard law and its scale per epsilon; None unless all features of mechanism m share them."""
    rows = [[mechanism.law(0.0) for mechanism in release.mechanisms] for release in question.releases[m]]
    for kind in (Laplace, Gaussian):
        if all(isinstance(law, kind) for row in rows for law in row):
            scales = np.array([[_scale(law) for law in row] for row in rows])
            return (kind.around(0.0, 1.0), scales[:, 0]) if (scales == scales[:, :1]).all() else None
    return None


def _scale(law: Law) -> float:
    assert isinstance(law, (Laplace, Gaussian))
    return 1 / float(law.rate) if isinstance(law, Laplace) else float(law.sigma)


def exit_scales(question: Question, model: LinearModel, settings: Settings) -> Answer:
    """Return bounds for every epsilon from shared draws; records and mechanisms share the miss probability."""
    m, e, n = question.shape
    kinds = 1 if question.y is None else 2
    found = [Bounds(np.zeros((m, e, n)), np.zeros((m, e, n))) for _ in range(kinds)]
    for i in range(m):
        noise = noise_scales(question, i)
        assert noise is not None
        regions = _regions(question, model, noise[1], settings.tolerance, settings.miss / (m * n * kinds))
        distinct = list(dict.fromkeys(regions.values()))
        most = max((region.draws for region in distinct), default=0)
        for start in range(0, most, BATCH):
            z = noise[0].sample((min(BATCH, most - start), len(question.features)), settings.rng)
            for region in distinct:
                region.count(z[: max(region.draws - start, 0)])
            settings.progress((i + (start + len(z)) / most) / m)
        for (record, kind), region in regions.items():
            found[kind].lower[i, :, record], found[kind].upper[i, :, record] = region.bounds()
    own = [model.comparisons(record, label) for record, label in enumerate(question.labels)]
    possible = np.array([1 + any(one.can_be_lost for one in comparisons) for comparisons in own])
    return Answer(found[0], found[1] if kinds == 2 else None, possible, n)


@dataclass(eq=False)
class Region:
    """The half spaces in which a label beats its rivals, seen from a record, and how many rays were inside.

    Attributes
    ----------
    weights : ndarray, shape ``(rivals, sensitive)``
    margins, rounding : ndarray, shape ``(rivals,)``
        By how much the record itself is ahead (negative: behind), and how far that may be off.
    scales : ndarray, shape ``(epsilons,)``
    inner, outer : ndarray, shape ``(epsilons,)``
        Draws that were inside for certain, and those that may have been.
    """

    weights: Floats
    margins: Floats
    rounding: Floats
    scales: Floats
    tolerance: float
    miss: float
    inner: Floats = field(init=False)
    outer: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.inner, self.outer = np.zeros(self.scales.shape), np.zeros(self.scales.shape)

    @property
    def cumulated(self) -> int:
        """How many cumulative distributions are estimated: one where the record lies inside, else two."""
        return 1 if (self.margins > self.rounding).all() else 2

    @property
    def draws(self) -> int:
        """Draws for which the band has the half-width asked for."""
        terms = self.cumulated
        return math.ceil(math.log(2 * terms / self.miss) * terms**2 / (2 * self.tolerance**2))

    def count(self, z: Floats) -> None:
        """Note how many rays are inside at every scale."""
        slopes, drift = z @ self.weights.T, MARGIN * np.abs(self.weights).sum(axis=1) * np.abs(z).max(initial=1.0)
        self.inner += inside(slopes - drift, self.margins - self.rounding, self.scales)
        self.outer += inside(slopes + drift, self.margins + self.rounding, self.scales)

    def bounds(self) -> Interval:
        """Return the band, shape ``(epsilons,)``."""
        width = self.cumulated * math.sqrt(math.log(2 * self.cumulated / self.miss) / (2 * self.draws))
        return widened(self.inner / self.draws, self.outer / self.draws, up(width, ulps=8))  # 6 roundings, one a log's


def inside(slopes: Floats, margins: Floats, scales: Floats) -> Floats:
    """Return for how many rays all of margins + scale * slopes are positive.

    Parameters
    ----------
    slopes : ndarray, shape ``(draws, rivals)``
    margins : ndarray, shape ``(rivals,)``
    scales : ndarray, shape ``(epsilons,)``

    Returns
    -------
    ndarray, shape ``(epsilons,)``
    """
    ahead = margins > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        at = -margins / slopes
    leaves = np.where(slopes < 0, at, np.inf)[:, ahead].min(axis=1, initial=np.inf)
    enters = np.where(slopes > 0, at, np.inf)[:, ~ahead].max(axis=1, initial=0.0)
    both = np.where(enters < leaves, [enters, leaves], np.inf)  # the others never are inside
    entered = np.searchsorted(np.sort(both[0]), scales, side="left")
    left = np.searchsorted(np.sort(both[1]), scales, side="right")
    return np.asarray(entered - left, dtype=np.float64)


def _regions(
    question: Question, model: LinearModel, scales: Floats, tolerance: float, miss: float
) -> dict[tuple[int, int], Region]:
    """Return the regions by record and kind of label (0: its own, 1: its true one) that the model knows."""
    found: dict[tuple[int, int], Region] = {}
    for record, (x, own) in enumerate(zip(question.unit, question.labels, strict=True)):
        for kind, label in enumerate([own] if question.y is None else [own, question.y[record]]):
            if kind == 1 and label == own:
                found[record, 1] = found[record, 0]
            elif comparisons := model.comparisons(record, label):
                signs = np.array([1.0 if one.positive else -1.0 for one in comparisons])
                weights = signs[:, np.newaxis] * np.array([one.weights for one in comparisons])
                constants = signs * np.array([one.constant for one in comparisons])
                terms = model.sizes[record] + np.abs(constants) + np.abs(weights).sum(axis=1)
                found[record, kind] = Region(weights, weights @ x + constants, MARGIN * terms, scales, tolerance, miss)
    return found
