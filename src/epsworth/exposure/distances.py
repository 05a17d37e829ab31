"""What a distance between centres is worth: `kernels`, functions of u, tabulated once per dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv, gammaincinv

from epsworth.arrays import Floats, as_floats
from epsworth.exposure import loss_law
from epsworth.exposure.fitting import UNIT
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import finite, numbers, whole
from epsworth.numerals import short
from epsworth.rounding import up

SMALLEST, LARGEST, POINTS = 1e-7, 1e7, 2400  # of the table over u
FEW = 300  # fewer values than this are integrated directly
TINY = 1e-12  # below, everything is its own leading term: a further factor of u is lost
SMALLEST_NORMAL = 1e-300
BISECTIONS = 56
START, NARROW = (
    1e-10,
    1e-13,
)  # relative: room at the ends that are bisected, and where it stops; no promise rests on them
# Relative error of what is integrated directly.  Integrands are entire and cut where they have fallen by e^-50: what is
# cut is e^-50 of the rest, and 96 nodes are off by 1e-30 (they converge as 1.9^-192 on an ellipse where the integrand
# grows to e^100 at most).  Ratios of Bessel functions are off by 2e-13, sums by 96 units of rounding, and an exponent
# of up to u + 100 by four units each: see `error`.
SAFE = 1e-12
ACCURACY = (
    1e-8  # of the table, too: its splines are off by 5/384 h^4 = 4e-10 of their fourth derivatives, which are a few
)
MOST_DIMENSIONS = 10**9
RISE = 0.05  # share of its rise that a ratio of loss to epsilon has made where its plateau ends


@dataclass(frozen=True)
class Kernels:
    """Law of the privacy loss of one row under spherical Laplace noise in ``d`` dimensions, by ``u = beta |delta|``.

    ``u`` itself is the row's exact pure epsilon.  Everything is accurate to `ACCURACY`; arrays in, arrays out.

    Examples
    --------
    >>> from epsworth.exposure import kernels
    >>> law = kernels(2)
    >>> law.adv([0.1, 1.0, 10.0]).round(3)  # the best membership attack, by how far the row moves the model
    array([0.032, 0.296, 0.986])
    >>> bool(law.epsilon(1.0, 0.01) <= 1.0)  # a delta buys a smaller epsilon
    True
    """

    d: int

    def kl(self, u: ArrayLike) -> Floats:
        """Return ``E l``, the Kullback-Leibler divergence: ``u^2/(2d)`` for small u."""
        return self._divergence(u, 0)

    def abs(self, u: ArrayLike) -> Floats:
        """Return ``E |l|``."""
        return self._divergence(u, 1)

    def adv(self, u: ArrayLike) -> Floats:
        """Return the total variation: the best membership advantage (attacks are right (1 + adv)/2 of the time)."""
        return self._divergence(u, 2)

    def survival(self, u: ArrayLike, t: ArrayLike) -> Floats:
        """Return ``Pr[l >= t]``."""
        distance, at = np.broadcast_arrays(_distances(u), numbers(t, "t"))
        if np.isnan(at).any():
            raise ExposureError("t holds a missing value; give numbers")

        def inside(u: Floats, t: Floats) -> Floats:
            tail = np.where(t < 0, 0.0, 1.0)
            up, down = t >= 0, t < 0
            tail[up] = loss_law.upper_tail(self.d, u[up], t[up])
            tail[down] = 1 - loss_law.lower_tail(self.d, u[down], -t[down])
            return tail

        lifted, factor = _lifted(distance)
        found = _where(np.abs(at) < distance, inside, lifted, at * factor, otherwise=(at <= -distance))
        if self.d == 1:  # the loss has an atom at u
            found = np.where((at == distance) & (distance > 0), 0.5, found)
        return as_floats(np.minimum(found, 1.0))

    def delta(self, u: ArrayLike, epsilon: ArrayLike) -> Floats:
        """Return the least delta for which the row has (epsilon, delta) privacy; at epsilon = 0 it is `adv`."""
        distance, budget = np.broadcast_arrays(_distances(u), numbers(epsilon, "epsilon"))
        if not (budget >= 0).all():
            raise ExposureError("epsilon must not be negative, nor missing")
        lifted, factor = _lifted(distance)
        inside = budget < distance
        found = _where(
            inside, lambda a, b: loss_law.hockey_stick(self.d, a, b), lifted, np.where(inside, budget, 0.0) * factor
        )
        return as_floats(np.minimum(found / factor, 1.0))

    def epsilon(self, u: ArrayLike, delta: ArrayLike) -> Floats:
        """Return an epsilon, never too small, at which the row has (epsilon, delta) privacy.

        >>> round(float(kernels(109).epsilon(10.0, 1e-5)), 2)
        3.97
        """
        distance, slack = np.broadcast_arrays(_distances(u), numbers(delta, "delta"))
        if not ((slack >= 0) & (slack <= 1)).all():
            raise ExposureError("delta must lie in [0, 1]")
        low, high = np.zeros_like(distance), distance.copy()
        for _ in range(BISECTIONS):
            middle = low + (high - low) / 2
            enough = self.delta(distance, middle) * (1 + error(distance)) <= slack
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return as_floats(np.where(self.adv(distance) * (1 + ACCURACY) <= slack, 0.0, high))

    def inverse_adv(self, a: ArrayLike, *, upwards: bool = False) -> Floats:
        """Return u with ``adv(u) = a``, never too large: up to it the advantage is at most ``a``.

        With ``upwards`` never too small: from it on the advantage is at least ``a``.
        """
        wish = numbers(a, "a")
        if not ((wish >= 0) & (wish < 1)).all():
            raise ExposureError(f"an advantage must lie in [0, 1), got {short(a)}")
        # adv(u) = Pr[|b_1| <= u/2], where b_1 is most likely at 0 (so at most `slope_at_zero` u/2), and |b_1| <= |b|
        low = 2 * wish / loss_law.slope_at_zero(self.d) * (1 - START)
        more, rest = np.minimum(wish * (1 + START), 0.5), np.maximum(1 - wish * (1 + START), (1 - wish) / 2)
        high = 2 * np.where(wish < 0.5, gammaincinv(self.d, more), gammainccinv(self.d, rest))
        for _ in range(BISECTIONS):
            if (high <= low * (1 + NARROW)).all():
                break
            with np.errstate(under="ignore"):
                middle = np.clip(np.sqrt(low) * np.sqrt(high), low, high)
            found = _where(middle > 0, lambda v: self._direct(v, 2), middle)  # a table is not exact enough
            off = error(middle)
            below = found * (1 - off) < wish if upwards else found * (1 + off) <= wish
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return as_floats(np.where(wish > 0, high if upwards else low, 0.0))

    def _direct(self, u: Floats, column: int) -> Floats:
        lifted, factor = _lifted(u.ravel())
        found = loss_law.divergences(self.d, lifted)[column] / factor
        if column == 0:
            found /= factor  # E l falls with the square of u
        return as_floats(np.minimum(found, 1.0 if column == 2 else u.ravel())).reshape(u.shape)

    def _divergence(self, u: ArrayLike, column: int) -> Floats:
        distance = _distances(u)
        if distance.size < FEW or self.d == 1:
            return _where(distance > 0, lambda v: self._direct(v, column), distance)
        tabled = (distance >= SMALLEST) & (distance <= LARGEST)
        found = _where(~tabled & (distance > 0), lambda v: self._direct(v, column), distance)
        found[tabled] = np.exp(self._splines[column](np.log(distance[tabled])))
        return as_floats(np.minimum(found, 1.0 if column == 2 else distance))

    @cached_property
    def _splines(self) -> list[Any]:
        from scipy.interpolate import CubicSpline

        grid = np.geomspace(SMALLEST, LARGEST, POINTS)
        return [CubicSpline(np.log(grid), np.log(column)) for column in loss_law.divergences(self.d, as_floats(grid))]


def kernels(d: int) -> Kernels:
    """Return the functions of ``u = beta |delta|`` for models of ``d`` coefficients.

    Claim: exact functions of the law, not simulations; relative error below 1e-8.

    Parameters
    ----------
    d : int
        Number of coefficients, a constant column included.

    Examples
    --------
    >>> from epsworth.exposure import kernels
    >>> k = kernels(2)
    >>> [round(float(f(1.0)), 6) for f in (k.kl, k.abs, k.adv)]
    [0.228341, 0.623461, 0.29596]
    >>> round(float(k.delta(1.0, 0.5)), 6), round(float(k.inverse_adv(0.1)), 6)
    (0.122705, 0.317901)
    """
    return _kernels(whole("d", d, 1, MOST_DIMENSIONS))


@lru_cache(maxsize=64)
def _kernels(d: int) -> Kernels:
    return Kernels(d)


def error(u: Floats) -> Floats:
    """Return a bound on the relative error of what is integrated at u."""
    return as_floats(SAFE + 4 * UNIT * u)


def above(value: float) -> float:
    """Return a little more than a kernel's value: for what is stated as a largest one."""
    return up(value * (1 + ACCURACY / 2), ulps=2)


def _lifted(u: Floats) -> tuple[Floats, Floats]:
    """Return u times a factor that takes small u up to about `TINY`, and the factor; both scale with u there."""
    factor = np.where(u < TINY, TINY / np.clip(u, SMALLEST_NORMAL, TINY), 1.0)
    return as_floats(u * factor), as_floats(factor)


def _distances(u: ArrayLike) -> Floats:
    found = numbers(u, "u")
    if not ((found >= 0) & np.isfinite(found)).all():
        raise ExposureError("u must hold finite distances of at least 0")
    return found


def _where(inside: ArrayLike, value: Callable[..., Floats], *columns: Floats, otherwise: ArrayLike = 0.0) -> Floats:
    """Evaluate only where it makes sense."""
    chosen = np.asarray(inside)
    found = np.array(np.broadcast_to(as_floats(otherwise), chosen.shape))
    found[chosen] = value(*(column[chosen] for column in columns))
    return found


def onset(scale: ArrayLike, ratio: ArrayLike, share: float = RISE, *, first: int = 5) -> float:
    """Return the first scale after which the curve stays above its low level by this share of its rise.

    The low level is the median of the ``first`` points, the high one the last point.  Curves may dip on their way.

    Parameters
    ----------
    scale, ratio : array_like of shape ``(m,)``
        A curve: where, rising, and its values.
    share : float
        Of the rise from the low to the high level.
    first : int
        How many points tell the low level.

    Raises
    ------
    ExposureError
        For curves of different lengths, or with hardly more than the ``first`` points.

    Examples
    --------
    >>> from epsworth.exposure import onset
    >>> onset([1, 2, 3, 4, 5, 6, 7], [1, 1, 1, 1, 1, 3, 4])
    6.0
    """
    first = whole("first", first, 1)
    at, curve = finite(scale, "scale"), finite(ratio, "ratio")
    if at.ndim != 1 or at.shape != curve.shape or len(at) < first + 1:
        raise ExposureError(f"scale and ratio must be two curves of the same length, at least {first + 1} points")
    low, high = float(np.median(curve[:first])), float(curve[-1])
    below = np.flatnonzero(curve < low + share * (high - low))
    last = int(below[-1]) if len(below) else -1
    return float(at[last + 1]) if last + 1 < len(at) else float("inf")


def plateau_ends(d: int) -> tuple[float, float]:
    """Return the u at which ``E|l| / u`` has made 5 % and 95 % of its rise, for good: the published detector.

    LeBlond et al. 2023 read a plateau at small u as "all samples are protected, smaller epsilons gain nothing".  It is
    *not* protection: a plateau of that *ratio* means that the loss is proportional to epsilon.  Where it ends, the best
    attack on the most exposed row is right 86 % of the time in two dimensions, and 98 % at the published line.

    In one dimension it starts at its high level, 1, and there is nothing to detect: an error says so.

    Parameters
    ----------
    d : int
        Number of coefficients.

    Examples
    --------
    >>> from epsworth.exposure import plateau_ends
    >>> [round(u, 1) for u in plateau_ends(2)]
    [3.2, 109.4]
    """
    law = kernels(d)
    if law.d == 1:
        raise ExposureError("in one dimension the ratio has no low plateau; use rule='advantage'")
    return _ends(law)


@lru_cache(maxsize=64)
def _ends(law: Kernels) -> tuple[float, float]:
    u = np.geomspace(1e-4, max(1e5, 1e3 * law.d), 20_000)
    ratio = law.abs(u) / u
    ratio[-1] = 1.0
    return onset(u, ratio, RISE), onset(u, ratio, 1 - RISE)
