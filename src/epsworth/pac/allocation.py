"""Gaussian noise for a budget: how much each output gets, and how it is drawn.

Everything called noise here is a *variance*, never a deviation.  The promise: MI(X; M(X) + B) <= 1/2 sum ln(1 + s_i /
e_i) for outputs of variance s_i in any orthonormal basis and independent Gaussian noise of variance e_i (Sridhar, Xiao
& Devadas 2024, Theorem 1 before its last step).

A float sum y + B leaks y through its low-order bits (Mironov 2012).  So y is first put on a grid that is public, and a
whole number of steps is added, drawn from operating-system randomness; the sum of two integers shows nothing but their
sum.  The number of steps follows the Gaussian rounded to the grid, so that the release is a rounding of the Gaussian
one: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.words import SystemWords
from epsworth.pac.conversion import number
from epsworth.rounding import up

Rule = Literal["optimal", "paper", "isotropic", "isotropic_paper", "isotropic_exact"]
RULES: tuple[Rule, ...] = ("optimal", "paper", "isotropic", "isotropic_paper", "isotropic_exact")
# Units (2**-53, relative) that a computed bound may be off by: one for s / e; eight for log1p, whose vector forms numpy
# accepts up to four units in the last place; one for fsum, which rounds once.  All terms are positive and log1p takes
# a relative error over undiminished at most, so that nothing grows; a unit in the last place is at least one of these.
BOUND_ULPS = 10


def gaussian_bound(variances: ArrayLike, noise: ArrayLike) -> float:
    """Return 1/2 sum ln(1 + s_i / e_i), the mutual information that the noise certainly keeps, rounded up.

    Coordinates of variance zero say nothing and count nothing; positive variance without noise is infinite.

    Examples
    --------
    >>> round(gaussian_bound([1.0, 0.0], [1.0, 0.0]), 6)
    0.346574
    """
    s, e = as_floats(variances), as_floats(noise)
    s, e = s[s > 0], e[s > 0]
    if (e <= 0).any():
        return math.inf
    return up(0.5 * math.fsum(np.log1p(s / e)), ulps=BOUND_ULPS)


def allocate(
    variances: ArrayLike, mi: float, rule: Rule = "optimal", weights: ArrayLike | None = None
) -> Floats:  # fmt: skip
    """Return the noise variances that keep the mutual information at ``mi`` nats.

    Claim: with independent Gaussian noise of these variances, outputs of these variances (uncorrelated or not)
    obey MI <= 1/2 sum ln(1 + s_i / e_i) <= ``mi``, as exact numbers.

    Parameters
    ----------
    variances : array_like of shape ``(d,)``
        Variance s_i of every output over the worlds, not negative.  Zero gets zero noise: release the constant.
    mi : float
        Budget in nats, positive.
    rule : str
        ``optimal``: least sum of w_i e_i.  ``paper``: Algorithm 1, which leaves part of the budget unused.
        ``isotropic_exact``: one variance for all, the smallest.  ``isotropic``: sum s / (2 mi).
        ``isotropic_paper``: the largest entry of ``paper`` (what the paper plots).
    weights : array_like of shape ``(d,)``, optional
        What a unit of noise variance costs, positive; for ``optimal`` only.

    Raises
    ------
    ValueError
        For a negative variance, a budget that is not positive, an unknown rule, and weights that it does not take.

    Examples
    --------
    >>> from epsworth.pac import allocate
    >>> allocate([1.0, 1.0, 1.0], 0.25, "paper")
    array([6., 6., 6.])
    >>> allocate([1.0, 1.0, 1.0], 0.25).round(4)
    array([5.5139, 5.5139, 5.5139])
    """
    s = as_floats(variances)
    if s.ndim != 1 or not (np.isfinite(s).all() and (s >= 0).all()):
        raise ValueError("variances must be a list of finite numbers, none negative")
    nats = number("mi", mi)
    if not (nats > 0 and math.isfinite(nats)):
        raise ValueError(f"mi must be positive and finite, got {mi!r}")
    if rule not in RULES:
        raise ValueError(f"noise rule must be one of {', '.join(RULES)}, got {rule!r}")
    if weights is not None and rule != "optimal":
        raise ValueError(f"weights belong to the rule 'optimal', not to {rule!r}; drop them")
    w = np.ones_like(s) if weights is None else as_floats(weights)
    if w.shape != s.shape or not (np.isfinite(w).all() and (w > 0).all()):
        raise ValueError(f"weights must be {len(s)} positive numbers, one per variance")
    noise, live = np.zeros_like(s), s > 0
    if live.any():
        # working at scale one keeps 1e-300 and 1e300 from under- and overflowing
        scale = float(s.max())
        least = float(np.finfo(float).tiny)  # what underflows still varies, and gets noise
        with np.errstate(over="ignore"):
            noise[live] = np.maximum(least, scale * RECIPES[rule](np.maximum(least, s[live] / scale), nats, w[live]))
    if not np.isfinite(noise).all():
        raise ValueError(
            f"mi = {mi!r} needs noise beyond the largest floating-point number; take a larger budget, or scale the "
            "outputs down by a public constant"
        )
    return _within(s, noise, nats)


def spending(variances: ArrayLike, noise: ArrayLike, mi: float) -> Floats:
    """Return the multiple of positive noise variances that keeps the mutual information at ``mi`` nats.

    Examples
    --------
    >>> gaussian_bound([1.0, 4.0], spending([1.0, 4.0], [1.0, 1.0], 0.25)) <= 0.25
    True
    """
    s, e = as_floats(variances), as_floats(noise)
    return _within(s, e * math.exp(_where_spent(lambda x: gaussian_bound(s, e * math.exp(x)) - mi, 0.0)), mi)


def _within(s: Floats, noise: Floats, mi: float) -> Floats:
    """Return the noise, enlarged by rounding: closed forms and root-finders meet the budget up to that only."""
    ulps = 1.0
    while gaussian_bound(s, noise) > mi:
        noise, ulps = np.where(s > 0, up(noise, ulps=ulps), noise), 2 * ulps
    return noise


def _paper(s: Floats, mi: float, weights: Floats) -> Floats:
    # Sridhar, Xiao & Devadas 2024, Algorithm 1, step 4
    roots = np.sqrt(s)
    return np.asarray(roots * roots.sum() / (2 * mi))


def _optimal(s: Floats, mi: float, weights: Floats) -> Floats:
    """Solve min sum w e subject to 1/2 sum ln(1 + s/e) = mi.

    Stationarity gives e (e + s) = nu s / (4 w), so e = (sqrt(s^2 + t^2) - s) / 2 with t^2 = nu s / w, written
    without cancellation or overflow; the budget falls in nu, whose small-budget limit is the paper's rule.
    """

    def noise(log_nu: float) -> Floats:
        t = math.exp(log_nu / 2) * np.sqrt(s / weights)
        return np.asarray(t * (t / (2 * (np.hypot(s, t) + s))))

    start = 2 * math.log(np.sqrt(weights * s).sum() / mi)
    return noise(_where_spent(lambda x: gaussian_bound(s, noise(x)) - mi, start))


def _isotropic_exact(s: Floats, mi: float, weights: Floats) -> Floats:
    start = math.log(s.sum() / (2 * mi))
    root = _where_spent(lambda x: gaussian_bound(s, np.full_like(s, math.exp(x))) - mi, start)
    return np.full_like(s, math.exp(root))


def _where_spent(excess: Callable[[float], float], start: float) -> float:
    """Return the root of a falling function, to a few units in the last place of 1."""
    low = high = start
    step = 1.0
    while excess(low) < 0:
        low, step = low - step, 2 * step
    step = 1e-9
    while excess(high) > 0:
        high, step = high + step, 2 * step
    if low == high:
        return start
    return float(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16, maxiter=500))


RECIPES: dict[Rule, Callable[[Floats, float, Floats], Floats]] = {
    "optimal": _optimal,
    "paper": _paper,
    "isotropic": lambda s, mi, weights: np.full_like(s, s.sum() / (2 * mi)),
    "isotropic_paper": lambda s, mi, weights: np.full_like(s, _paper(s, mi, weights).max()),
    "isotropic_exact": _isotropic_exact,
}


def individual_allocation(second_moments: ArrayLike, mi: float, rate: float = 0.5) -> Floats:
    """Return the least total noise that keeps every record's own mutual information at ``mi`` nats.

    Parameters
    ----------
    second_moments : array_like of shape ``(n, d)``
        v_ik = E[(M(X) - M(X'))_k^2], X' being X with record i exchanged for a random outsider of its class.
        Fixed-size subsets only.  The claim is exact for exact moments, an estimate for simulated ones.

    Notes
    -----
    MI_i <= 1/2 ln(1 + r(1-r) sum_k v_ik / e_k), see `individual_bound`; the coordinatewise largest v is used.
    """
    roots = np.sqrt(np.atleast_2d(as_floats(second_moments)).max(axis=0))
    return np.asarray(rate * (1 - rate) * roots * roots.sum() / math.expm1(2 * mi))


def individual_bound(second_moments: ArrayLike, noise: ArrayLike, rate: float = 0.5) -> Floats:
    """Return an upper limit on each record's mutual information, 1/2 ln(1 + r(1-r) sum_k v_ik / e_k), rounded up.

    By the coupling of X with X' the release differs by Delta; a two-point input of variance r(1-r)|Delta|^2 in
    Gaussian noise bounds its information, and Jensen's inequality the average.
    """
    ratios = np.atleast_2d(as_floats(second_moments)) / as_floats(noise)
    # as BOUND_ULPS, with a sum of d terms and r (1 - r), three roundings
    return up(as_floats(0.5 * np.log1p(rate * (1 - rate) * ratios.sum(axis=1))), ulps=ratios.shape[1] + BOUND_ULPS + 3)


def mean_second_moments(X: ArrayLike, size: int) -> Floats:
    """Return `individual_bound`'s moments for the mean of a random ``size``-subset, in closed form (rows: records)."""
    values = as_floats(X)
    n = len(values)
    centred = values - values.mean(axis=0)  # E over the other records of (x_i - x_J)^2, expanded
    others = (centred**2).sum(axis=0)
    return np.asarray((n * centred**2 + others) / ((n - 1) * size**2))


def mean_variances(X: ArrayLike, size: int) -> Floats:
    """Return the variance of the mean of a random ``size``-subset without replacement, in closed form."""
    values = as_floats(X)
    return np.asarray((1 - size / len(values)) * values.var(axis=0, ddof=1) / size)


STEPS = 2048  # grid steps per standard deviation of the noise, at least
MOST_STEPS = 4 * STEPS  # at most: the cells' masses are rounded to 2**-64 each
REACH = 9.5  # standard deviations in the table; beyond, a step has less than 2**-64 to be drawn
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)

Steps = NDArray[np.int64]


@dataclass(frozen=True)
class RoundedGaussian:
    """A normal variable of standard deviation ``ratio``, rounded to whole numbers, as a table of 64-bit integers.

    Claim: for ratios of 2048 to 8192, all that are released with, the table is within 2**-49 (total variation) of the
    rounded normal law.

    Examples
    --------
    >>> law = RoundedGaussian(2048.0)
    >>> int(law.masses.sum(dtype=np.uint64))  # all of 2**64, which is 0 in 64 bits
    0
    """

    ratio: float

    @property
    def reach(self) -> int:
        """The largest number of steps."""
        return int(np.ceil(REACH * self.ratio))

    @cached_property
    def masses(self) -> NDArray[np.uint64]:
        """Chance of -reach .. reach, times 2**64; sums to 2**64 exactly."""
        # integrate the density over each cell: three Gauss nodes are exact to rounding at this cell width, and masses
        # keep their relative precision in the tail, which differences of distribution functions would lose
        z = (np.arange(1, self.reach + 1)[:, np.newaxis] + NODES / 2) / self.ratio
        cells = np.exp(-0.5 * z * z) @ (WEIGHTS / 2) / (self.ratio * np.sqrt(2 * np.pi))
        side = np.rint(cells * 2.0**64).astype(np.uint64)
        rest = np.uint64(2**64 - 2 * int(side.sum(dtype=np.uint64)))
        return np.concatenate([side[::-1], [rest], side])

    @cached_property
    def _upper(self) -> NDArray[np.uint64]:
        return np.cumsum(self.masses, dtype=np.uint64)[:-1]

    def from_words(self, words: NDArray[np.uint64]) -> Steps:
        """Return the steps that these uniform 64-bit words stand for."""
        return np.asarray(np.searchsorted(self._upper, words, side="right") - self.reach, dtype=np.int64)

    def draw(self, count: int) -> Steps:
        """Draw for a release: operating-system randomness, which nobody can seed or repeat."""
        if not STEPS <= self.ratio <= MOST_STEPS:
            raise ValueError(f"the grid must have {STEPS} to {MOST_STEPS} steps per deviation, got {self.ratio!r}")
        return self.from_words(SystemWords().words(count))

    def log_mass(self, steps: Steps) -> Floats:
        """Return the logarithm of the chance of these steps, minus infinity beyond the table."""
        inside = np.abs(steps) <= self.reach
        table = np.where(inside, self.masses[np.where(inside, steps, 0) + self.reach], 0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(table.astype(np.float64)) - 64 * np.log(2))
