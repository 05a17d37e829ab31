"""Exact truths for weighted sums of independent released values, in 120 digits, by none of the library's methods.

Piecewise-constant densities and atoms: truncated powers, one term per corner.  Laplace noise whose decay per unit of
the sum is the same for all values: residues of its Laplace transform.  One or two other laws beside atoms: quadrature.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import numpy as np
from sixty import EXACT, mass

from epsworth.mechanisms import laws
from epsworth.mechanisms.law import GridLaw
from epsworth.utility.engines.parts import parts_of
from epsworth.utility.engines.sums import uniform_sum

DIGITS = 120


def exact(value):
    """Return a double, or a fraction of integers, as a number of many digits."""
    one = Fraction(value)
    return EXACT(one.numerator) / one.denominator


def mixture(law):
    """Return weight, start and width of the uniform laws (atoms: width 0) that a law of shape ``()`` mixes."""
    if isinstance(law, laws.TwoLevel):
        x, spread, half, offset = (Fraction(float(v)) for v in (law.x, law.spread, law.half, law.offset))
        return [(spread, Fraction(0), Fraction(1)), (1 - spread, x - offset, 2 * half)]
    if isinstance(law, laws.WithEnds):
        zero, one, inside = (Fraction(float(v)) for v in (law.at_zero, law.at_one, law.inside))
        inner = [(inside * share, start, width) for share, start, width in mixture(law.law)] if inside else []
        return [(zero, Fraction(0), Fraction(0)), (one, Fraction(1), Fraction(0)), *inner]
    if isinstance(law, laws.RawOr):
        reveal, x = Fraction(law.reveal), Fraction(float(law.x))
        inner = [((1 - reveal) * share, start, width) for share, start, width in mixture(law.law)]
        return [(reveal, x, Fraction(0)), *inner]
    assert isinstance(law, (GridLaw, laws.Quantised))
    grid = [float(v) for v in np.arange(law.k) / (law.k - 1)]
    return [(mass(law, EXACT(v), EXACT(v)), Fraction(v), Fraction(0)) for v in grid]


def of_uniforms(batch, weights, threshold):
    """Return Pr[w . Y <= t]: a uniform law is I (z^start - z^end) / width, with shifts z^place and integration I."""
    with mpmath.workdps(DIGITS):
        terms = {(Fraction(0), 0): EXACT(1)}
        for law, weight in zip(batch, map(Fraction, weights), strict=True):
            corners = []
            for share, start, width in mixture(law):
                share = exact(share) if isinstance(share, Fraction) else share
                low, size = weight * start + min(weight * width, 0), abs(weight) * width
                if size:
                    corners += [(low, 1, share / exact(size)), (low + size, 1, -share / exact(size))]
                else:
                    corners.append((weight * start, 0, share))
            found = {}
            for (place, power), value in terms.items():
                for at, more, factor in corners:
                    key = (place + at, power + more)
                    found[key] = found.get(key, 0) + value * factor
            terms = found
        t, total = Fraction(threshold), EXACT(0)
        for (place, power), value in terms.items():
            if place <= t:
                total += value * (exact(t - place) ** power / mpmath.factorial(power) if power else 1)
        return total


def of_laplace(batch, weights, threshold):
    """Return Pr[w . Y <= t] for positive weights and clipped or truncated noise with rate_j / w_j = decay for all j.

    A value's transform is a sum of c e^(-p q) / ((q - decay)^a (q + decay)^b); the sum's is divided by q and inverted.
    """
    with mpmath.workdps(DIGITS):
        decay = exact(float(batch[0].noise.rate)) / exact(weights[0])

        @cache
        def residues(a, b, c):
            """Return 1 / ((q - decay)^a (q + decay)^b q^c) as {pole: coefficients of 1 / (q - pole)^(n + 1)}."""
            if (a > 0) + (b > 0) + (c > 0) == 1:
                return ((1 if a else -1 if b else 0, a + b + c, EXACT(1)),)
            if a and b:  # 1 / (q - d)(q + d) = (1 / (q - d) - 1 / (q + d)) / 2 d
                parts = ((residues(a, b - 1, c), 1 / (2 * decay)), (residues(a - 1, b, c), -1 / (2 * decay)))
            elif a:  # 1 / (q - d) q = (1 / (q - d) - 1 / q) / d
                parts = ((residues(a, b, c - 1), 1 / decay), (residues(a - 1, b, c), -1 / decay))
            else:
                parts = ((residues(a, b, c - 1), -1 / decay), (residues(a, b - 1, c), 1 / decay))
            found = {}
            for terms, factor in parts:
                for pole, power, value in terms:
                    found[pole, power] = found.get((pole, power), 0) + factor * value
            return tuple((pole, power, value) for (pole, power), value in found.items())

        terms = {(Fraction(0), 0, 0): EXACT(1)}
        for law, weight in zip(batch, weights, strict=True):
            x, w, rate = Fraction(float(law.noise.x)), Fraction(weight), exact(float(law.noise.rate))
            left, right = mpmath.exp(-rate * exact(x)), mpmath.exp(-rate * exact(1 - x))
            a = decay / 2
            corners = [
                (Fraction(0), 1, 0, a * left), (w * x, 1, 0, -a), (w * x, 0, 1, a), (w, 0, 1, -a * right),
            ]  # fmt: skip
            if isinstance(law, laws.Clipped):
                corners += [(Fraction(0), 0, 0, left / 2), (w, 0, 0, right / 2)]
            else:
                inside = 1 - left / 2 - right / 2
                corners = [(place, up, down, value / inside) for place, up, down, value in corners]
            found = {}
            for (place, up, down), value in terms.items():
                for at, more, less, factor in corners:
                    key = (place + at, up + more, down + less)
                    found[key] = found.get(key, 0) + value * factor
            terms = found
        t, total = Fraction(threshold), EXACT(0)
        for (place, up, down), value in terms.items():
            if place <= t:
                z = exact(t - place)
                total += value * sum(
                    c * z ** (n - 1) / mpmath.factorial(n - 1) * mpmath.exp(pole * decay * z)
                    for pole, n, c in residues(up, down, 1)
                )
        return total


def density(law, y):
    """Return the density of clipped or truncated noise of shape ``()`` between 0 and 1."""
    noise = law.noise
    whole = mass(noise, EXACT(0), EXACT(1)) if isinstance(law, laws.Truncated) else EXACT(1)
    away = abs(y - exact(float(noise.x)))
    if isinstance(noise, laws.Laplace):
        rate = exact(float(noise.rate))
        return rate / 2 * mpmath.exp(-rate * away) / whole
    sigma = exact(float(noise.sigma))
    return mpmath.exp(-((away / sigma) ** 2) / 2) / (sigma * mpmath.sqrt(2 * mpmath.pi)) / whole


def of_noise(noisy, weights, atoms, atom_weights, threshold):
    """Return Pr[w . Y + v . Z <= t] for one or two laws of noise Y and any number of laws of few atoms Z."""
    total = EXACT(0)
    for chosen in product(*map(mixture, atoms)):
        share = EXACT(1)
        rest = Fraction(threshold)
        for (part, place, _), weight in zip(chosen, atom_weights, strict=True):
            share *= exact(part) if isinstance(part, Fraction) else part
            rest -= Fraction(weight) * place
        total += share * _of_two(noisy, [Fraction(w) for w in weights], rest)
    return total


def _below(law, weight, rest):
    """Return Pr[weight Y <= rest]."""
    end = exact(rest / weight) if isinstance(rest, Fraction) else rest / exact(weight)
    return mass(law, -mpmath.inf, end) if weight > 0 else mass(law, end, mpmath.inf)


def _of_two(noisy, weights, rest):
    if len(noisy) == 1:
        return _below(noisy[0], weights[0], rest)
    first, second = noisy
    total = EXACT(0)
    for end in (0, 1):
        atom = mass(second, EXACT(end), EXACT(end))
        total += atom * _below(first, weights[0], rest - weights[1] * end)
    kinks = {(rest - weights[0] * Fraction(v)) / weights[1] for v in (0, 1, float(first.noise.x))}
    places = sorted({Fraction(0), Fraction(1), Fraction(float(second.noise.x))} | {k for k in kinks if 0 < k < 1})

    def at(y):
        return density(second, y) * _below(first, weights[0], exact(rest) - exact(weights[1]) * y)

    with mpmath.workdps(40):
        return total + mpmath.quad(at, [exact(place) for place in places])


def closed_form(laws, weights, threshold, slack=0.0):
    """Bound Pr[sum_j w_j Y_j <= threshold] for at most three laws that mix uniform ones and atoms, to rounding."""
    used = np.flatnonzero(weights)
    return uniform_sum([parts_of(laws[j]) for j in used], weights[used], threshold, slack)
