"""Smaller bounds for mechanisms whose law is known: their own blankets.

Lemma (blanket).  If 0 <= m(y) <= R(x)(y) for all x, the divergence of shuffled reports, target a or b, is at most
(1/n) E(sum of l(Z_i))_+ over n independent draws of density m, l = (R(a) - e^eps R(b)) / m, and l = 0 with the
probability that m lacks.  A value may be replaced by a spread of the same mean: that only raises the right side.

Randomisers of two levels, R(x)(y) = g(y) or e^e0 g(y), have the blanket g, and l has five values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft

from epsworth.arrays import Floats, as_floats
from epsworth.rounding import UNIT
from epsworth.shuffling.clones import (
    MOST_EPSILON,
    MOST_USERS,
    angle,
    depth,
    epsilon_of_any,
    holding_end,
    local_epsilon_of_any,
    normal_epsilon,
)

LEAST_DELTA = 1e-12  # below it the rounding of transforms would be seen
MOST_LOCAL = 8.0  # of "ternary": its integer weights keep the law below to within what is granted
FINE = 5e-4  # of the variance: what the lattice may add
FEWEST_POINTS, MOST_POINTS = 1 << 13, 1 << 20
SHARP = 1e-5
_FINEST = 1 << 20  # lattice points per unit
_CHUNK = 1 << 13


class Pair(NamedTuple):
    """The law of one report under the blanket: how probable each kind of message is.

    Attributes
    ----------
    apart : float
        Of a message that is high for one of the two values and low for the other, each way round.
    high, low : float
        Of one that is high, or low, for both.
    """

    apart: float
    high: float
    low: float


def pairs_of(mechanism: str, symbols: int | None, local: float) -> list[Pair]:
    """Return a law for each kind of pair of values; none where there is nothing better than the bound for all.

    Examples
    --------
    >>> [len(pairs_of(name, 3, 2.0)) for name in ("krr", "oue", "ternary", "hadamard", "any")]
    [1, 1, 2, 1, 0]
    """
    if local > MOST_EPSILON:
        return []
    large = math.exp(local)
    p = 1 / (large + 1)
    if mechanism == "krr" and symbols is not None and symbols >= 3:
        q = 1 / (large + symbols - 1)
        return [Pair(q, 0.0, (symbols - 2) * q)]
    if mechanism == "oue":
        return [Pair(p / 2, p / (2 * large), (1 - p) / 2)]
    if mechanism == "ternary" and large > 3 and local <= MOST_LOCAL:
        q = 1 / (large - 1)
        return [Pair(q / 2, 0.0, (1 - 2 * q) / 2), Pair(q * (1 - q) / 2, q * q / 2, (1 - q) ** 2 / 2)]
    if mechanism == "hadamard" and symbols is not None and symbols >= 3:
        return [Pair(p / 2, p / 2, p / 2)]
    return []


def epsilon_of(users: int, local: float, delta: float, mechanism: str, symbols: int | None) -> tuple[float, bool]:
    """Return the smaller of the bounds for any randomiser and for this one, and whether it is this one's.

    Examples
    --------
    >>> found, own = epsilon_of(1000, 1.0, 1e-6, "krr", 100)
    >>> round(found, 4), own
    (0.0255, True)
    """
    top = epsilon_of_any(users, local, delta)
    pairs = pairs_of(mechanism, symbols, local)
    if not pairs or delta < LEAST_DELTA or users < 2 or local > MOST_EPSILON:
        return top, False
    found = epsilon_of_pairs(users, pairs, local, delta, top)
    return found, found < top


def local_epsilon_of(users: int, epsilon: float, delta: float, mechanism: str, symbols: int | None) -> float:
    """Return a local epsilon at which `epsilon_of` is seen to return no more than ``epsilon``.

    Examples
    --------
    >>> found = local_epsilon_of(1000, 0.1, 1e-6, "krr", 100)
    >>> 1.9 < found < 2.1, epsilon_of(1000, found, 1e-6, "krr", 100)[0] <= 0.1
    (True, True)
    """
    found = local_epsilon_of_any(users, epsilon, delta)
    start = max(found, math.log(3) * (1 + 1e-9)) if mechanism == "ternary" else found
    own = users >= 2 and delta >= LEAST_DELTA and bool(pairs_of(mechanism, symbols, start))

    def gap(local: float) -> float:
        pairs = pairs_of(mechanism, symbols, local)
        worst = max((delta_of_pair(min(users, MOST_USERS), one, local, epsilon, delta) for one in pairs), default=1.0)
        return depth(worst) - depth(delta)

    step = 1e-7
    if own and gap(start) >= 0:
        found, step = holding_end(gap, start, MOST_EPSILON, 1.05 * start, 10 * SHARP), SHARP
    while found > epsilon and epsilon_of(users, found, delta, mechanism, symbols)[0] > epsilon:
        found, step = max(epsilon, found * (1 - step)), 2 * step  # the way back stops a little above
    return found


def epsilon_of_pairs(users: int, pairs: list[Pair], local: float, delta: float, top: float) -> float:
    """Return a central epsilon that the worst of the pairs is seen to keep, ``top`` where that is no less.

    Examples
    --------
    >>> round(epsilon_of_pairs(1000, pairs_of("krr", 10, 1.0), 1.0, 1e-6, 1.0), 3)
    0.08
    """
    found = 0.0
    n = min(users, MOST_USERS)
    for pair in pairs:

        def gap(epsilon: float, pair: Pair = pair) -> float:
            return depth(delta_of_pair(n, pair, local, epsilon, delta)) - depth(delta)

        if gap(found) >= 0:
            continue
        if found >= top or gap(top) < 0:
            return top
        mu = math.expm1(local) * math.sqrt(2 * pair.apart / n)
        found = holding_end(gap, top, found, normal_epsilon(mu, delta), SHARP)
    return found


def delta_of_pair(users: int, pair: Pair, local: float, epsilon: float, delta: float) -> float:
    """Return an upper bound on the divergence of one pair; ``delta`` says how small a part may matter.

    With the scale (e^eps + 1)(e^e0 - 1) / 2 the values of l are 1 - theta, -1 - theta (apart),
    -2 theta e^e0 / (e^e0 + 1) (high), -2 theta / (e^e0 + 1) (low) and 0: all of them fall in theta.
    """
    if epsilon >= local:
        return 0.0
    theta = angle(local, epsilon)
    large = math.exp(local)
    values = np.array([1.0, -1.0, 0, 0, 0]) - theta * np.array([1, 1, 2 * large / (large + 1), 2 / (large + 1), 0])
    masses = np.array([pair.apart, pair.apart, pair.high, pair.low, 0.0])
    masses[4] = max(0.0, 1 - masses.sum())
    scale = (math.exp(epsilon) + 1) * math.expm1(local) / (2 * users)
    excess = excess_of_sum(users, masses, values, 1e-7 * delta / scale)
    return min(1.0, excess * scale * (1 + 1e-9))


def excess_of_sum(n: int, masses: Floats, values: Floats, tail: float) -> float:
    """Return an upper bound on E(S)_+ of the sum of n independent draws.

    The draws move to a lattice on which the two extreme values lie, every other one to its two neighbours with the same
    mean.  The law of the sum is the inverse transform of the n-th power of the transform of one draw: what lies left of
    its window comes back at its right end and only adds; what lies right of it is bounded by Chernoff and added.

    Parameters
    ----------
    masses, values : ndarray
        Of one draw; the first two values are the largest and the least.
    tail : float
        So much may be lost beyond the right end of the window.

    Notes
    -----
    Rounding: masses err by a few units each, a factor e^(4e-15 n) covers that; values and n-fold means err by a few
    units per draw, which 1e-14 n added to the sum covers; the transform errs by less than 512 units of the sum's
    standard deviation.  It is infinite where the law is too wide for a transform.
    """
    positions, weights, step = _on_lattice(n, masses, values)
    centre = float(weights @ positions) / float(weights.sum())
    apart = positions - centre
    variance = float(weights @ apart**2)
    sd = math.sqrt(n * variance)  # in steps, as all below
    base = float(values[1])
    mean = n * (base + step * centre)
    half, beyond = _window(n, weights, apart, sd, mean / step, tail / step)
    if mean / step + half <= 0 and beyond <= tail / step:
        return beyond * step  # all of the window lies left of zero
    if half > MOST_POINTS:
        return math.inf
    size = 1 << max(4, math.ceil(math.log2(2 * half + 8)))
    anchor = math.floor(n * centre)
    spectrum = np.empty(size // 2 + 1, dtype=np.complex128)
    for start in range(0, spectrum.size, _CHUNK):  # what fits a cache
        omega = 2 * math.pi / size * np.arange(start, min(start + _CHUNK, spectrum.size))
        real, imaginary = np.zeros_like(omega), np.zeros_like(omega)
        for weight, distance in zip(weights.tolist(), apart.tolist(), strict=True):
            phase = omega * distance
            real -= 2 * weight * np.sin(phase / 2) ** 2  # cos - 1, and sin less its first term: the mean is zero
            imaginary += weight * (np.sin(phase) - phase)
        size_of = 0.5 * n * np.log1p(2 * real + real**2 + imaginary**2)
        turned = n * np.arctan2(imaginary, 1 + real) + omega * (n * centre - anchor)
        spectrum[start : start + _CHUNK] = np.exp(size_of - 1j * turned)
    law = irfft(spectrum, size)
    place = np.arange(size)
    place = np.where(place < size // 2, place, place - size) + anchor
    sums = np.maximum(n * base + step * place + 1e-14 * n, 0.0)
    found = float(np.maximum(law, 0.0) @ sums) + 512 * UNIT * sd * step + beyond * step
    return found * math.exp(4e-15 * n)


def _on_lattice(n: int, masses: Floats, values: Floats) -> tuple[Floats, Floats, float]:
    """Return positions, their masses, and the step: the coarsest that adds little variance to a draw."""
    mean = float(masses @ values)
    variance = float(masses @ (values - mean) ** 2)
    fineness = 1
    while True:
        at = (values - values[1]) * fineness
        at[0], at[1] = 2 * fineness, 0
        lower = np.floor(at)
        share = at - lower
        added = float(masses @ (share * (1 - share))) / fineness**2
        points = 20 * math.sqrt(n * (variance + added)) * fineness
        fine = added == 0 or (added <= FINE * variance and points > FEWEST_POINTS)
        if fine or 2 * points > MOST_POINTS or fineness >= _FINEST:
            break
        fineness *= 2
    where = np.concatenate([lower, lower + 1])
    shares = np.concatenate([masses * (1 - share), masses * share])
    positions, places = np.unique(where[shares > 0], return_inverse=True)
    return positions, as_floats(np.bincount(places, shares[shares > 0])), 1 / fineness


def _window(n: int, weights: Floats, apart: Floats, sd: float, mean: float, tail: float) -> tuple[float, float]:
    """Return half the width of the window, and a bound on the excess beyond its right end, in steps."""
    beyond, half = math.inf, 0.0
    most = n * float(apart.max())  # no sum lies further right
    for z in (4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30):
        half = max(z * sd, -mean)  # to zero at least: further left nothing is in excess
        if half >= most:
            return half, 0.0
        beyond = _chernoff(n, weights, apart, max(mean + half, 0.0), half, sd)
        if beyond <= tail:
            break
    return half, beyond


def _chernoff(n: int, weights: Floats, apart: Floats, right: float, half: float, sd: float) -> float:
    """Return a bound on E(S; S > right), a distance ``half`` right of the mean.

    E(S; S > r) <= (r + 1/t) E e^(t (S - r)) for all t > 0; a few halvings find a good one.
    """

    def exponent(t: float) -> float:
        steps = t * apart
        return n * math.log1p(max(float(weights @ (np.expm1(steps) - steps)), 0.0)) - t * half

    low, high = 0.0, min(2 * half / sd**2, 300 / float(np.abs(apart).max()))
    for _ in range(16):  # the exponent is convex
        one, two = low + 0.382 * (high - low), low + 0.618 * (high - low)
        low, high = (low, two) if exponent(one) < exponent(two) else (one, high)
    t = (low + high) / 2
    return (right + 1 / t) * math.exp(min(700.0, exponent(t))) * (1 + 1e-9)
