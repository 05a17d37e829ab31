"""Privacy losses of one release on an even grid, and of many: connected dots, tilted and convolved.

A profile is delta at every epsilon.  Its values on a grid, connected by straight lines in e^epsilon, are the profile of
a pair of laws that dominates the original (Doroshenko et al. 2022), whose product dominates k releases, also where
later ones depend on earlier ones (Zhu, Dong & Wang 2022).  Masses may be larger than the pair's, and need not add up to
one: both statements hold for measures.

For k releases the masses are tilted by e^(t loss) until their mean is the loss that matters, convolved by one FFT, and
tilted back: a share of the FFT's error, however small delta is.  The FFT is cyclic.  What falls beyond its window comes
back within and only adds; what lies above counts as lost, too, by Chernoff's bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from epsworth.arrays import Floats, as_floats
from epsworth.rounding import UNIT, up

MOST_POINTS = 1 << 22  # of a window
LEAST_POINTS = 1 << 15
WIDE = 16  # standard deviations of the tilted sum that a window spans
BITS = 20  # of a grid's step: its multiples are then doubles
DOT = 32 * UNIT  # roundings of a dot, relative, times the number of dots
# An output of an FFT is a sum of inputs, each times a product of rounded twiddles: it errs by no more than the number
# of roundings on the way times the sum of all sizes.  A butterfly of two rounds by less than 5 u; those of 3, 5, 7 and
# 11 by less than so much for every factor of two.
BUTTERFLY = 16 * UNIT
LARGEST = 690.0  # an exponent; e^LARGEST, millions of times, is a double
TINY = 1e-300
Spectrum = NDArray[np.complex128]


def mirrored(epsilon: Floats, delta: Floats) -> Floats:
    """Return delta at -epsilon from that at epsilon, of pairs in both orders: 1 - e^-epsilon + e^-epsilon delta.

    Never rounded down: two exponentials at eight roundings, and three of products and sums.
    """
    return up(-np.expm1(-epsilon) + np.exp(-epsilon) * delta, ulps=20)


def sampled(profile: Callable[[Floats], Floats], step: float, points: int) -> Floats:
    """Return delta at -points .. points steps of epsilon: falling, and never below the truth."""
    grid = as_floats(np.arange(points + 1) * step)
    above = np.maximum.accumulate(profile(grid)[::-1])[::-1]  # rounding must not make deltas rise
    below = mirrored(grid[:0:-1], above[:0:-1])
    deltas = np.minimum(np.concatenate([np.maximum(below, above[0]), above]), 1.0)
    return np.asarray(np.maximum.accumulate(deltas[::-1])[::-1])


def finest(releases: int, wanted: int) -> int:
    """Return how many grid points on either side of zero so many releases have room for; 256 or more up to 2^20."""
    return min(wanted, int(MOST_POINTS / (WIDE * math.sqrt(releases))))


class Sum(NamedTuple):
    """The losses of all releases in a window, bounds on their masses, and the mass that counts as lost altogether."""

    losses: Floats
    masses: Floats
    lost: float

    def delta(self, epsilon: float) -> float:
        """Return a delta that is kept at this epsilon."""
        over = int(np.searchsorted(self.losses, epsilon, side="right"))
        found = float((self.masses[over:] * -np.expm1(epsilon - self.losses[over:])).sum())
        return min(1.0, found * (1 + (self.losses.size + 32) * UNIT) + self.lost)


class Losses(NamedTuple):
    """Masses of one release's losses -n step .. n step, at least those of a dominating pair, and what is lost wholly.

    Examples
    --------
    >>> import numpy as np
    >>> response = Losses.of(lambda e: np.maximum(0.0, (np.e - np.exp(e)) / (1 + np.e)), 1.0, 100)  # of epsilon 1
    >>> truth = (np.e**2 - np.e) / (1 + np.e) ** 2  # both of two answers are true
    >>> truth <= response.delta(1.0, 2) <= truth + 1e-3
    True
    """

    step: float
    masses: Floats
    lost: float

    @classmethod
    def of(cls, profile: Callable[[Floats], Floats], reach: float, points: int) -> Losses:
        """Connect the dots of a profile up to ``reach`` or a little farther.

        From the top down, every mass is the least with which delta is covered one step below: none is negative,
        whatever rounding did to the profile.  Sums of them err by `DOT` for each dot, which is added.
        """
        step = _short(reach / points)
        deltas = sampled(profile, step, points).tolist()
        gain, stay, tail = -math.expm1(-step), math.exp(-step), 0.0
        masses, covered = [0.0] * len(deltas), deltas[-1]
        for i in range(len(deltas) - 1, 0, -1):
            kept = stay * tail
            tail = max(kept, (deltas[i - 1] - covered) / gain)
            masses[i] = tail - kept
            covered += gain * tail
        masses[0] = max(0.0, 1 - math.fsum(masses) - deltas[-1])
        more = 1 + DOT * len(deltas)
        return cls(step, np.array(masses) * more, deltas[-1] * more)

    @classmethod
    def spread(cls, losses: Floats, masses: Floats, lost: float, finest: float) -> Losses:
        """Move every loss to the two grid points beside it, on a grid of steps ``finest`` or more.

        The masses under both laws are kept, as by connected dots: that only raises divergences.  A loss may be off by
        64 roundings.
        """
        reach = float(np.abs(losses).max())
        points = math.ceil(min(reach / finest, MOST_POINTS / 16)) + 1
        step = _short(reach / (points - 1))
        lower = np.floor(losses / step)
        kept = np.exp(lower * step - losses)
        upper = np.clip(masses * (1 + 64 * UNIT - kept) / -math.expm1(-step), 0.0, masses)
        index = lower.astype(np.int64) + points
        one = np.bincount(index, masses - upper, minlength=2 * points + 1)
        one += np.bincount(index + 1, upper, minlength=2 * points + 1)
        more = 1 + DOT * losses.size
        return cls(step, as_floats(one) * more, lost * more)

    def epsilon(self, delta: float, k: int) -> float:
        """Return an epsilon that k releases keep together with this delta; infinite if none was found."""
        rest = delta - self._lost(k)
        if rest <= 0:
            return math.inf
        together = self._sum(k, self._best(lambda tilt, size: (k * size + _most(tilt) - math.log(rest)) / tilt, k))
        size = together.losses.size
        gains = -np.expm1(-self.step * np.arange(size))

        def reached(i: int) -> float:
            found = float((together.masses[i:] * gains[: size - i]).sum())  # no BLAS: its threads wait
            return min(1.0, found * (1 + (size + 32) * UNIT) + together.lost)

        low, high = 0, size - 1
        if reached(low) <= delta:
            return max(0.0, float(together.losses[low]))
        if reached(high) > delta:
            return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reached(middle) <= delta else (middle, high)
        end = float(together.losses[high])
        above, within = reached(low), reached(high)  # straight in e^epsilon between them
        found = end + math.log1p(math.expm1(-self.step) * (delta - within) / (above - within))
        return max(0.0, up(min(found + 1e-12 * self.step, end)))

    def delta(self, epsilon: float, k: int) -> float:
        """Return a delta that k releases keep together at this epsilon, of any sign."""
        return self.around(epsilon, k)(epsilon)

    def around(self, epsilon: float, k: int) -> Callable[[float], float]:
        """Return what gives deltas of k releases at all epsilons, sharp near this one."""
        if self._lost(k) >= 1:
            return lambda epsilon: 1.0
        return self._sum(k, self._best(lambda tilt, size: k * size + _most(tilt) - tilt * epsilon, k)).delta

    @property
    def _support(self) -> tuple[Floats, Floats]:
        """Return the losses that have a mass, and the logarithms of these masses."""
        here = np.flatnonzero(self.masses)
        return as_floats((here - self.masses.size // 2) * self.step), as_floats(np.log(self.masses[here]))

    def _lost(self, k: int) -> float:
        """Return the mass of k releases of which one at least is lost."""
        total = up((float(self.masses.sum()) + self.lost) * (1 + self.masses.size * UNIT))
        share = self.lost / total
        return up(-math.expm1(k * math.log1p(-share)) * total**k, ulps=2 * k + 32) if share < 1 else 1.0

    def _best(self, objective: Callable[[float, float], float], k: int) -> float:
        """Return the tilt that minimises an objective of it and of the cumulant; every tilt gives a bound."""
        losses, logs = self._support

        def value(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return objective(tilt, float(logsumexp(logs + tilt * losses)))

        ends = math.log(1e-4 / (self.step * self.masses.size * k)), math.log(50 / self.step)
        return math.exp(float(minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-3}).x))

    def _sum(self, k: int, tilt: float) -> Sum:
        """Convolve k times under this tilt; see the module.

        With g = `BUTTERFLY` log2 N, the spectrum X of tilted masses of sum 1 errs by g in every entry; its k-th power,
        by squarings of 4 u, by k (|X| + g)^(k - 1) (g + 4 u); and the inverse by the mean of all that and g |X|^k.
        """
        losses, logs = self._support
        size = float(logsumexp(logs + tilt * losses))
        worst = tilt * float(np.abs(losses).max()) + abs(size) + float(np.abs(logs).max()) + 8
        tilted = np.zeros(self.masses.size)
        tilted[self.masses > 0] = np.exp(logs + tilt * losses - size + 4 * UNIT * worst)
        reach = self.masses.size // 2
        i = np.arange(-reach, reach + 1)
        mean = float(tilted @ i)
        spread = math.sqrt(k * float(tilted @ (i - mean) ** 2))
        whole = 2 * k * reach + 1
        points = next_fast_len(max(i.size, min(whole, max(LEAST_POINTS, math.ceil(WIDE * spread)))), real=True)
        first = max(-k * reach, min(round(k * mean) - points // 2, k * reach + 1 - points))
        spectrum = rfft(tilted, points)
        g = BUTTERFLY * math.log2(points)
        near = np.abs(spectrum) + g
        off = 4 * (k + 1) * g * float((near ** (k - 1)).sum()) / points
        found = np.maximum(irfft(_power(spectrum, k), points), 0.0) + off
        masses = np.roll(found, -((first + k * reach) % points))
        at = as_floats((first + np.arange(points)) * self.step)
        back = k * size - tilt * at
        back += 4 * UNIT * (abs(k * size) + np.abs(tilt * at) + 8)
        masses = np.maximum(masses * np.exp(np.minimum(back, LARGEST)), TINY)  # denormal numbers are slow
        return Sum(at, masses, self._lost(k) + self._above(k, float(at[-1])))

    def _above(self, k: int, end: float) -> float:
        """Return a bound on the mass of k releases whose loss exceeds ``end``, by Chernoff's inequality."""
        losses, logs = self._support
        if end >= k * losses[-1]:
            return 0.0
        tilt = self._best(lambda tilt, size: k * size - tilt * end, k)
        size = float(logsumexp(logs + tilt * losses))
        worst = logs.size + 4 * (tilt * float(np.abs(losses).max()) + float(np.abs(logs).max()) + 8)
        return math.exp(min(0.0, k * (size + UNIT * worst) - tilt * end * (1 - 4 * UNIT)))


def _short(step: float) -> float:
    """Return a step of `BITS` bits, this or a little more: its multiples are doubles."""
    fraction, exponent = math.frexp(step)
    return math.ldexp(math.ceil(math.ldexp(fraction, BITS)), exponent - BITS)


def _most(tilt: float) -> float:
    """Return the logarithm of the largest (1 - e^-x) e^(-tilt x); what delta averages is the first factor."""
    return tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)


def _power(values: Spectrum, k: int) -> Spectrum:
    """Return whole powers by squaring: libraries' rounding is not stated."""
    found, square = None, values
    while k:
        if k & 1:
            found = square if found is None else found * square
        k >>= 1
        square = square * square if k else square
    assert found is not None
    return found
