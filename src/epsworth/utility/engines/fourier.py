"""Pr[w . Y <= t] for many independent values on [0, 1] by a Fourier series, with every error bounded.

Let S = w . Y lie in [lo, lo + R], P = 2 R, u_k = 2 pi k / P, and Phi(u) = E exp(i u (S - lo)) be the product of the
laws' transforms.  With a = -R/2 and b = t - lo,

    Pr[S <= t] = (b - a) / P + sum_{k >= 1} Im[Phi(u_k) (exp(-i u_k a) - exp(-i u_k b))] / (pi k)

and exp(-i u_k a) = i^k.

The product is a polynomial in the laws' continuous parts.  Its terms with more than M of them are *smooth*: their
moduli are at most B(u) = sum_{m > M} of the coefficients of prod_j (atoms_j + z bound_j(u)), which falls in u, so that
the terms in (K, 2K] add at most (2/pi) log 2 B(u_K).  The *rough* rest is a positive measure, whose terms are weighted
by J(k/(N+1)), J(t) = pi t (1 - t) cot(pi t) + t: then a sawtooth is missed by at most Fejer's kernel over 2 (N + 1)
(Vaaler 1985, theorem 18; the plain sum is not bounded so), of which the same transforms give the mean.  Where atoms
are few enough, terms with no or one continuous factor are added up without a series, and left out of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import MASS_ERROR
from epsworth.rounding import UNIT
from epsworth.utility.engines.closed_forms import countable, few_continuous
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.parts import Complex, Parts

FIRST_TERMS, FEW_TERMS, MOST_TERMS, HOPELESS_TERMS = 2**7, 2**11, 2**16, 2**14
MOST_DOUBLINGS = 900  # within the range of doubles
BLOCK = 2**11  # frequencies at a time: what is held of them stays in the cache
DEGREES = (0, 1, 2, 3, 5, 8)  # continuous factors of the rough part
ABOVE, TINY = 2 / np.pi * np.log(2) * (1 + 2.0**-30), 1e-300
MOST_ATOMS = 3  # of one law: grids have too many for the rough part to be small


class Plan(NamedTuple):
    """Per epsilon how many terms, how many continuous factors the rough part has (-1: there is none), what is left."""

    terms: NDArray[np.intp]
    degrees: NDArray[np.intp]
    tails: Floats


class Split(NamedTuple):
    """Terms of the series; continuous factors of the rough part at most, and of what is added up without a series."""

    terms: int
    degree: int
    done: int


def series(parts: list[Parts], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound Pr[weights . Y <= t] for every t within ``slack`` of the threshold; shape ``(epsilons,)``.

    ``tolerance`` is the width to aim at: it need not be met.  Of laws with many atoms nothing is said.
    """
    if any(part.places.size > MOST_ATOMS for part in parts):
        return Interval(np.zeros(len(parts[0].masses)), np.ones(len(parts[0].masses)))
    lower, upper = np.zeros(len(parts[0].masses)), np.ones(len(parts[0].masses))
    left = np.ones(len(lower), dtype=bool)
    for done in dict.fromkeys((-1, countable(parts))):
        chosen = plan(parts, weights, tolerance, done)
        now = left & ((chosen.terms <= FEW_TERMS) | (done == countable(parts)))
        for terms, degree in set(zip(chosen.terms[now].tolist(), chosen.degrees[now].tolist(), strict=True)):
            alike = now & (chosen.terms == terms) & (chosen.degrees == degree)
            few, split = [part.only(alike) for part in parts], Split(terms, degree, done)
            lower[alike], upper[alike] = _summed(few, weights, threshold, slack, split, chosen.tails[alike])
        left &= ~now
    return Interval(lower, upper)


def plan(parts: list[Parts], weights: Floats, tolerance: float, done: int) -> Plan:
    """Choose the fewest terms whose tail, and rough part at a guess, are within a quarter of the width.

    The guess is that the rough part has mass m and density m / R where it matters: 4 m / N for both ends.  Where no
    number of terms is enough, more of them than `HOPELESS_TERMS` would hardly help.
    """
    atoms = np.stack([part.atoms for part in parts])
    masses = np.stack([part.rest for part in parts])
    degrees = np.array([degree for degree in DEGREES if degree >= done] if atoms.any() else [-1])
    terms = 2 ** np.arange(FIRST_TERMS.bit_length() - 1, MOST_TERMS.bit_length())
    tails = np.minimum(_tails(parts, weights, atoms, degrees, terms), 1.0)  # (degrees, epsilons, terms)
    rough = np.stack([_degrees(atoms, masses)[done + 1 : degree + 1].sum(axis=0) for degree in degrees])
    hopes = tails + 4 * rough[..., np.newaxis] / terms
    best, rows = hopes.min(axis=0), np.arange(atoms.shape[1])
    enough = best <= 0.25 * tolerance
    at = np.where(enough.any(axis=1), enough.argmax(axis=1), np.searchsorted(terms, HOPELESS_TERMS))
    which = hopes[:, rows, at].argmin(axis=0)
    return Plan(terms[at], degrees[which], tails[which, rows, at])


def _degrees(atoms: Floats, smooth: Floats) -> Floats:
    """Return the coefficients of prod_j (atoms_j + z smooth_j), one more than there are factors, in positive terms."""
    found = np.zeros((len(atoms) + 1, *np.broadcast_shapes(atoms.shape, smooth.shape)[1:]))
    found[0] = 1.0
    for at, part in zip(atoms, smooth, strict=True):
        found[1:] = found[1:] * at + found[:-1] * part
        found[0] = found[0] * at
    return found


def _tails(
    parts: list[Parts], weights: Floats, atoms: Floats, degrees: NDArray[np.intp], terms: NDArray[np.intp]
) -> Floats:
    """Bound what smooth terms beyond the first N add up to, shape ``(degrees, epsilons, terms)``.

    Once v exceeds V / mass of every part, B at least halves with each doubling: what follows the last of 64 more
    doublings is no more than that.  A part that never falls, a window of no width, is left to the bound 1.
    """
    start = np.abs(weights) * (np.pi * float(terms[0]) / np.abs(weights).sum())
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        turns = [
            np.max(np.where(p.mass > 0, p.decay()[0] / p.mass, 0)) / v
            for law, v in zip(parts, start, strict=True)
            for p in law.smooth
        ]
        doublings = np.log2(max([1.0, *turns])) + 65
        if not doublings < MOST_DOUBLINGS:
            return np.ones((len(degrees), atoms.shape[1], len(terms)))
        scale = 2.0 ** np.arange(int(doublings) + len(terms))
        bounds = np.stack([part.bound(v * scale) for part, v in zip(parts, start, strict=True)])
    coefficients = _degrees(atoms[..., np.newaxis], bounds)
    more = np.stack([coefficients[degree + 1 :].sum(axis=0) for degree in degrees])
    left = np.cumsum(more[..., ::-1], axis=-1)[..., ::-1] + more[..., -1:]
    return np.asarray(ABOVE * left[..., : len(terms)] + TINY)


def _summed(
    parts: list[Parts], weights: Floats, threshold: float, slack: float, split: Split, tails: Floats
) -> Interval:
    """Sum the series at both ends of the threshold.

    In units of 2^-53: Phi_k is off by the errors of its factors, each times the sizes of all others, by 4 per product,
    and by 32 units of each phase, which add up to pi k; shifts by lo and b take 15 units of pi k and 30 more; a sum of
    N terms, pairwise, 48 of the absolute ones.  A term is 2 / (pi k) of that, and the rough part, no larger, is
    weighted, subtracted and summed once more: 4 times that is below (3 errors + (11 s + 200) sizes) / k + 400 sizes.
    What the parts' masses and atoms are off counts once per law, as that a sum is at most t is a half line in each.
    """
    reach, low = float(np.abs(weights).sum()), float(np.minimum(weights, 0).sum())
    period, shift = 2 * reach, threshold - low
    known = np.zeros((2, len(tails)))
    if split.done >= 0:
        known = np.stack(few_continuous(parts, weights, threshold, slack, split.done))
    slack = slack + 8 * (len(parts) + 4) * UNIT * (abs(threshold) + reach)
    b = np.clip([shift - slack, shift + slack], -0.25 * reach, 1.25 * reach)
    shares = _degrees(np.stack([part.atoms for part in parts]), np.stack([part.rest for part in parts]))
    rough_mass = shares[split.done + 1 : split.degree + 1].sum(axis=0)
    total, near = np.zeros_like(known), np.zeros_like(known)
    far, rounding = np.zeros_like(tails), np.zeros_like(tails)
    for start in range(1, split.terms + 1, BLOCK):
        k = np.arange(start, min(start + BLOCK, split.terms + 1))
        u = as_floats(k * (2 * np.pi / period))
        product, rough, size, off = _transforms(parts, weights, u, split)
        turn, quarter = np.exp(-1j * (low * u)), np.array([1, 1j, -1, -1j])[k % 4]  # exp(-i u a)
        share = k / (split.terms + 1)
        vaaler = np.pi * share * (1 - share) / np.tan(np.pi * share) + share
        product, rough = (product - (1 - vaaler) * rough) * turn, 2 * (1 - share) * rough * turn
        far += (rough * quarter).real.sum(axis=1)
        for side in range(2):
            ending = np.exp(-1j * (b[side] * u))
            total[side] += ((product * (quarter - ending)).imag / (np.pi * k)).sum(axis=1)
            near[side] += (rough * ending).real.sum(axis=1)
        rounding += UNIT * ((3 * off + (11 * len(parts) + 200) * size) / k + 400 * size).sum(axis=1)
    missed = tails + rounding + len(parts) * (2 * MASS_ERROR + 8 * UNIT)
    fejer = np.maximum(2 * rough_mass + near + far, 0.0) / (2 * (split.terms + 1))
    lines = (b[:, np.newaxis] + 0.5 * reach) / period * shares[split.done + 1 :].sum(axis=0)
    ends = known + lines + total
    return widened(ends[0] - missed - fejer[0], ends[1] + missed + fejer[1], 32 * UNIT)


def _transforms(
    parts: list[Parts], weights: Floats, u: Floats, split: Split
) -> tuple[Complex, Complex, Floats, Floats]:
    """Return Phi without what is done, its rough part, the product of sizes and its error in units."""
    product: Complex = np.ones((1, len(u)), dtype=np.complex128)
    size, off = np.ones((1, len(u))), np.zeros((1, len(u)))
    powers = [product, *[0 * product] * split.degree][: split.degree + 1]
    for part, weight in zip(parts, weights.tolist(), strict=True):
        v = abs(weight) * u
        atoms, smooth = part.turn(v), part.transform(v)
        if weight < 0:
            atoms, smooth = np.conj(atoms), np.conj(smooth)
        if powers:
            raised = [0 * product, *(smooth * power for power in powers[:-1])]
            powers = [atoms * power + one for power, one in zip(powers, raised, strict=True)]
        product = product * (atoms + smooth)
        large = part.size(v)
        size, off = size * large, off * large + size * part.error(v)
    rough = sum(powers[split.done + 1 :], 0 * product)
    return product - sum(powers[: split.done + 1], 0 * product), rough, size, off
