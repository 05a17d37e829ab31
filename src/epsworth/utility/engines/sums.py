"""The law of a weighted sum of independent released values, bounded on both sides.

What is exact comes first: one value; mixtures of uniform laws and laws with few atoms; grids row by row; unclipped
noise.  Many values with continuous parts take a Fourier series.  What remains wider than asked also goes on a lattice
of N steps over the range of S = sum_j w_j M_j, where the law of each term is rounded down to its cell: a product of
transforms gives Pr[S0 <= .] with S between S0 and S0 + s steps; the bracket closes as s/N.

*Fourier series.*  Let S = w . Y lie in [lo, lo + R], P = 2 R, u_k = 2 pi k / P, and Phi(u) = E exp(i u (S - lo)) be the
product of the laws' transforms.  With a = -R/2 and b = t - lo,

    Pr[S <= t] = (b - a) / P + sum_{k >= 1} Im[Phi(u_k) (exp(-i u_k a) - exp(-i u_k b))] / (pi k)

and exp(-i u_k a) = i^k.  The product is a polynomial in the laws' continuous parts.  Its terms with more than M of them
are *smooth*: their moduli are at most B(u) = sum_{m > M} of the coefficients of prod_j (atoms_j + z bound_j(u)), which
falls in u, so that the terms in (K, 2K] add at most (2/pi) log 2 B(u_K).  The *rough* rest is a positive measure, whose
terms are weighted by J(k/(N+1)), J(t) = pi t (1 - t) cot(pi t) + t: then a sawtooth is missed by at most Fejer's kernel
over 2 (N + 1) (Vaaler 1985, theorem 18; the plain sum is not bounded so), of which the same transforms give the mean.
Where atoms are few enough, terms with no or one continuous factor are added up without a series, and left out of it.

*Mixtures of uniform laws.*  One component of each law at a time: Pr[B1 U1 + B2 U2 + B3 U3 <= q] for B1 >= B2 >= B3 is
the average over z in [q - B1, q] of H(z) = Pr[B2 U2 + B3 U3 <= z], which is quadratic between 0, B3, B2 and B2 + B3:
Simpson's rule is exact between these.  H itself is the average of clip(., 0, 1) over [(z - B3) / B2, z / B2].

In units of 2^-53, absolutely: an average of clip moves by no more than its ends, 2 each, and is a quotient of sums of
positive terms, 8; Simpson's sum over five pieces adds 8, what their lengths and ends are off 2 each, and a kink that is
misplaced by 1 costs 2.  Shares of components are products of three factors that are off by 2 and add up to one in
any order, 24 terms deep: 64 units are more than the sum.

*Atoms.*  All sums of one half of the atoms against those of the other (Horowitz & Sahni 1974): with n values in each
half, n log n instead of n^2.  One continuous part is summed over all atoms of the others.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import MASS_ERROR, GridLaw, Law
from epsworth.mechanisms.laws import Gaussian, Laplace
from epsworth.rounding import UNIT
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.parts import Complex, Parts, Uniform, parts_of

FIRST_STEPS, MOST_STEPS = 2**12, 2**18
# Units of rounding per level (factor of two in the length) of a transform, relative to its Euclidean norm.  A pass of
# radix r sums r products of complex numbers with weights that are right to a unit (r + 3 units of a sum that is at most
# sqrt(r) times the norm), then turns them (4 units): (r + 3) sqrt(r) + 4 in log2(r) levels.  That is at most 11.1 for
# r = 2, 3, 4, 5, the factors of `next_fast_len(real=True)`; in norms as in Higham 2002, theorem 24.2.
FOURIER = 12
# How far a score, and so a threshold, may be off, relative to the sum of its absolute terms.  A sum of d products errs
# by at most d units of 2^-53 in whatever order, each term by another 12 (scalers, weights, natural values; the cells
# and shifts of `bracket`): the difference of two scores of 1000 features by twice 1012, with a factor of four to spare
# for terms that are rounded themselves; more features count for more (`_read`).
MARGIN, MARGIN_FEATURES = 8 * 1_012 * UNIT, 1_000


def bracket(laws: list[Law], weights: Floats, threshold: float, steps: int, slack: float = 0.0) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= threshold] for independent Y_j on [0, 1].

    Parameters
    ----------
    laws : list of Law, each of shape ``(epsilons,)`` or ``()``
    weights : ndarray, shape ``(s,)``
        Of either sign; zeros are dropped.
    steps : int
        N, lattice steps over the range of the sum.
    slack : float
        How far the threshold may be off.

    Returns
    -------
    Interval
        Arrays of shape ``(epsilons,)``.
    """
    from scipy.fft import irfft, next_fast_len, rfft  # on first use: it would slow down every start

    used = np.flatnonzero(weights)
    reach = float(np.abs(weights[used]).sum())
    shift = threshold - float(np.minimum(weights, 0).sum())  # reflect: w Y = |w| (1 - Y) - |w| for w < 0
    if used.size == 0:
        ends = (shift - slack >= 0, shift + slack >= 0)
        return Interval(*(np.full(laws[0].shape, float(end)) for end in ends))
    h = reach / steps
    # a rounded |w|/h can move an atom one cell on: leave room, or the sum wraps around
    length = next_fast_len(steps + used.size + 1, real=True)
    product = np.ones(1, dtype=np.complex128)
    for j in used:
        width = abs(weights[j])
        cells = int(np.ceil(width / h)) + 1
        edges = np.minimum(np.arange(cells + 1) * h / width, 2.0)
        edges[0] = 0.0
        below = _cdf_left(laws[j], edges) if weights[j] > 0 else 1 - laws[j][..., np.newaxis].cdf(1 - edges)
        masses = np.diff(np.maximum.accumulate(below, axis=-1), axis=-1)  # rising: off by no more than its ends
        product = product * rfft(masses, n=length, axis=-1)
    pmf = irfft(product, n=length, axis=-1)
    cumulated = np.cumsum(pmf, axis=-1)
    slack = slack + MARGIN * (abs(shift) + reach)
    at = np.clip([(shift - slack) / h, (shift + slack) / h], -1.0, float(length))  # beyond the sum is all alike
    low, high = int(np.floor(at[0])) - used.size, int(np.floor(at[1]))
    lower, upper = (_at(cumulated, i) for i in (low, high))
    return widened(lower, upper, transform_error(used.size, length))


def transform_error(parts: int, length: int) -> float:
    """Bound the rounding of the cumulated product of transforms of probabilities.

    A transform errs by ``FOURIER * log2(length)`` units, relative to its Euclidean norm, which is at most
    sqrt(length); no other factor of the product exceeds 1, and the inverse divides by sqrt(length).  A product of
    complex numbers adds 3 units, for which the 2 in the logarithm pays.  A partial sum of errors is at most
    sqrt(length) times their norm (Cauchy & Schwarz), and summing adds a unit per cell.  That a sum is at most t is a
    falling event in every part, so that a part's cumulated masses count once, with what differences add.
    """
    norm = FOURIER * (parts + 1) * math.log2(2 * length)
    return UNIT * (math.sqrt(length) * norm + length) + parts * (2 * MASS_ERROR + 4 * UNIT)


def laplace_sum(laws: list[Law], weights: Floats, threshold: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= threshold] for unclipped Laplace laws, by partial fractions.

    The sum of independent Laplace variables of different scales b_j is a signed mixture of them, with
    weights c_j = prod_{i != j} b_j^2 / (b_j^2 - b_i^2).  Nearly equal scales cancel: the interval then is wide.

    In units: what a scale and its square are off, 5 at most, is as if the scale were another one, but for the tail,
    which moves by less than 3.  A difference of squares is then off by 1 of itself, and a weight by 4 per other scale.
    The centre is rounded as a score is: whoever asks moves the threshold by `MARGIN`.
    """
    used = np.flatnonzero(weights)
    centre, scales = 0.0, []
    for j in used:
        law = laws[j]
        assert isinstance(law, Laplace)
        centre = centre + weights[j] * law.x
        scales.append(abs(weights[j]) / law.rate)
    value = error = np.zeros(laws[0].shape)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal scales
        for scale in scales:
            others = [other for other in scales if other is not scale]
            weight = np.prod([scale**2 / (scale**2 - other**2) for other in others], axis=0)
            value = value + weight * Laplace.around(centre, 1 / scale).cdf(threshold)
            error = error + np.abs(weight) * (MASS_ERROR + UNIT * (8 + 5 * len(scales)))
    known = np.isfinite(error)
    return widened(np.where(known, value, 0.5), np.where(known, value, 0.5), np.where(known, error, 1.0))


def _cdf_left(law: Law, edges: Floats) -> Floats:
    expanded = law[..., np.newaxis]
    return expanded.cdf(edges) - expanded.pmf(edges)


def _at(cumulated: Floats, index: int) -> Floats:
    if index < 0:
        return np.zeros(cumulated.shape[:-1])
    return np.asarray(cumulated[..., min(index, cumulated.shape[-1] - 1)])


def unclipped_works(weights: Floats) -> bool:
    """Tell whether `laplace_sum` stays accurate: no two weights of nearly the same size."""
    sizes = np.sort(np.abs(weights[weights != 0]))
    return bool(sizes.size > 0 and (np.diff(sizes) > 0.05 * sizes[1:]).all() and sizes.size <= 6)


def at_most(laws: list[Law], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound Pr[weights . Y <= t] for every t within ``slack`` of the threshold, as narrowly as the tolerance."""
    weights, threshold, slack = _scaled(weights, threshold, slack)
    if not math.isfinite(threshold) or not math.isfinite(slack):  # far beyond the sum: either side, for all we know
        shape = laws[0].shape or (1,)
        return Interval(np.zeros(shape), np.ones(shape))
    if (form := _unclipped(laws, weights)) is not None:
        return Interval(form(threshold - slack).lower, form(threshold + slack).upper)
    laws = [law if law.shape else law[np.newaxis] for law in laws]
    used = np.flatnonzero(weights)
    if not used.size:
        return bracket(laws, weights, threshold, 1, slack)
    result = _direct([laws[j] for j in used], weights[used], threshold, slack, tolerance)
    steps, reached = FIRST_STEPS, np.zeros(len(result.lower))  # steps after which the lattice's bracket was so wide
    while True:
        gap = result.upper - result.lower
        wide = (gap > tolerance) & (reached / MOST_STEPS < gap)  # else even the last lattice is of no use
        if not wide.any():
            return result
        now = bracket([law[wide] for law in laws], weights, threshold, steps, slack)
        result.lower[wide] = np.maximum(result.lower[wide], now.lower)
        result.upper[wide] = np.minimum(result.upper[wide], now.upper)
        if steps >= MOST_STEPS:
            return result
        reached[wide] = (now.upper - now.lower) * steps
        # the lattice's gap shrinks as 1/steps: jump to where it should do, for the epsilons that need it
        steps = min(MOST_STEPS, int(max(2.0 * steps, 1.1 * float(reached[wide].max()) / tolerance)))


def _scaled(weights: Floats, threshold: float, slack: float) -> tuple[Floats, float, float]:
    """Take the largest weight to [1/2, 1) by a power of two, so that squares neither vanish nor overflow.

    Doubles keep their digits but for weights below 2^-1022 then, each of which moves the sum by less than 2^-1000.
    """
    k = -math.frexp(float(np.abs(weights).max(initial=0)))[1]
    with np.errstate(over="ignore", under="ignore"):
        moved = np.ldexp(weights, k)
        lost = weights.size * 2.0**-1000 if (np.ldexp(moved, -k) != weights).any() else 0.0
        return moved, float(np.ldexp(threshold, k)), float(np.ldexp(slack, k)) + lost


def _unclipped(laws: list[Law], weights: Floats) -> partial[Interval] | None:
    """Return the closed form of noise on the real line as a function of the threshold, or None."""
    if all(isinstance(law, Gaussian) for law in laws):
        return partial(gaussian_sum, laws, weights)
    return partial(laplace_sum, laws, weights) if all(isinstance(law, Laplace) for law in laws) else None


def _direct(laws: list[Law], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound without a lattice, by whatever is narrowest; 0 and 1 where nothing applies."""
    if len(laws) <= 2 and all(isinstance(law, GridLaw) for law in laws):
        return Interval(*(grid_sum(laws, weights, threshold + by)[i] for i, by in enumerate((-slack, slack))))
    parts = [part for law in laws if (part := parts_of(law)) is not None]
    if len(parts) == len(laws) and closes(parts):
        return uniform_sum(parts, weights, threshold, slack)
    if len(laws) == 1:
        return _one(laws[0], weights[0], threshold, slack)
    count = max(len(law[...].mean()) for law in laws) if not parts else max(len(part.masses) for part in parts)
    result = Interval(np.zeros(count), np.ones(count))
    if len(parts) < len(laws):
        return result
    atomic = np.all([part.rest == 0 for part in parts], axis=0)
    for chosen, answer in ((atomic, few_atoms), (~atomic, series)):
        if chosen.any():
            now = answer([part.only(chosen) for part in parts], weights, threshold, slack, tolerance)
            result.lower[chosen], result.upper[chosen] = now
    return result


def _one(law: Law, weight: float, threshold: float, slack: float) -> Interval:
    """Bound Pr[weight Y <= t]: the law's own masses; the quotient is off by a unit."""
    eta = slack + 2 * UNIT * abs(threshold)
    low, high = (_at_most(law, weight, np.asarray(threshold + by)) for by in (-eta, eta))
    return widened(low, high, MASS_ERROR)


def grid_sum(laws: list[Law], weights: Floats, threshold: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= threshold] for one or two grid laws: row by row of the smaller grid, to rounding.

    Each row is the range of the other grid that the threshold leaves; places are off by 8 units of the sum's terms, so
    both sides are asked for.  Cumulated masses err by `MASS_ERROR`: in the rows' masses, which are their differences,
    that telescopes against what the ranges hold, of which each is at least the next or each at most; the sum of k
    products of total weight 1 adds k + 4 units.
    """
    used = sorted(np.flatnonzero(weights), key=lambda j: _points(laws[j]))
    eta = 16 * UNIT * (abs(threshold) + float(np.abs(weights).sum()))
    last = used[-1]
    if len(used) == 1:
        low, high = (_at_most(laws[last], weights[last], np.asarray(threshold + by)) for by in (-eta, eta))
        return widened(low, high, MASS_ERROR)
    k, law = _points(laws[used[0]]), laws[used[0]][..., np.newaxis]
    grid = np.arange(k) / (k - 1)
    rows = np.diff(law.cdf(grid), axis=-1, prepend=0.0)
    beside = threshold - weights[used[0]] * grid
    low, high = (_at_most(laws[last][..., np.newaxis], weights[last], beside + by) for by in (-eta, eta))
    return widened((rows * low).sum(axis=-1), (rows * high).sum(axis=-1), 4 * MASS_ERROR + UNIT * (k + 4))


def _points(law: Law) -> int:
    assert isinstance(law, GridLaw)
    return law.k


def _at_most(law: Law, weight: float, values: Floats) -> Floats:
    """Return Pr[weight Y <= values]."""
    return law.cdf(values / weight) if weight > 0 else law.mass(values / weight, np.inf)


def gaussian_sum(laws: list[Law], weights: Floats, threshold: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= threshold] for unclipped Gaussian laws.

    The spread is off by 3 + s units of itself, which moves the probability by a quarter of that: z phi(z) < 0.25.  The
    centre is rounded as a score is: whoever asks moves the threshold by `MARGIN`.
    """
    spread = np.sqrt(sum(w * w * law.var() for w, law in zip(weights, laws, strict=True)))
    centre = sum(w * law.mean() for w, law in zip(weights, laws, strict=True))
    value = ndtr((threshold - centre) / np.where(spread > 0, spread, np.finfo(float).tiny))
    return widened(value, value, MASS_ERROR + UNIT * (4 + len(laws)))


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
    result = np.zeros((len(atoms) + 1, *np.broadcast_shapes(atoms.shape, smooth.shape)[1:]))
    result[0] = 1.0
    for at, part in zip(atoms, smooth, strict=True):
        result[1:] = result[1:] * at + result[:-1] * part
        result[0] = result[0] * at
    return result


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


MOST_FEATURES, MOST_COMPONENTS = 3, 256
ROUNDING = 96 * UNIT


class Component(NamedTuple):
    """``mass`` spread evenly over [anchor + start, anchor + start + width]; of shape ``(epsilons,)`` or ``(1,)``."""

    mass: Floats
    anchor: Floats
    start: Floats
    width: Floats


def components(parts: Parts) -> list[Component]:
    """Return what a law of atoms and uniform parts is mixed from."""
    zero = np.zeros(1)
    result = [
        Component(mass, np.array([place]), zero, zero)
        for place, mass in zip(parts.places.tolist(), parts.masses.T, strict=True)
    ]
    for part in parts.smooth:
        assert isinstance(part, Uniform)
        result.append(Component(part.mass, part.anchor, part.start, part.width))
    return result


def closes(parts: list[Parts]) -> bool:
    """Tell whether `uniform_sum` can answer: few values, few components."""
    if len(parts) > MOST_FEATURES or not all(part.uniform for part in parts):
        return False
    return int(np.prod([part.places.size + len(part.smooth) for part in parts])) <= MOST_COMPONENTS


def uniform_sum(parts: list[Parts], weights: Floats, threshold: float, slack: float) -> Interval:
    """Bound Pr[sum_j w_j Y_j <= t] for every t within ``slack`` of the threshold; shape ``(epsilons,)``."""
    lower = upper = np.zeros(1)
    for chosen in product(*map(components, parts)):
        share = np.prod(np.broadcast_arrays(*(one.mass for one in chosen)), axis=0)
        rest = _without_anchors(threshold, weights, [one.anchor for one in chosen])
        starts = [w * one.start + np.minimum(w * one.width, 0) for w, one in zip(weights, chosen, strict=True)]
        widths = [abs(w) * one.width for w, one in zip(weights, chosen, strict=True)]
        q = rest - sum(starts)
        # the rest, an offset and a reflected width are off by 2 units, their sum by one for each
        eta = slack + 12 * UNIT * (np.abs(rest) + sum(map(np.abs, starts)) + sum(widths))
        wide = np.sort(np.stack(np.broadcast_arrays(q, *widths, *[0 * q] * (3 - len(widths)))[1:]), axis=0)[::-1]
        lower = lower + share * share_below(q - eta, *wide)
        upper = upper + share * share_below(q + eta, *wide)
    return widened(lower, upper, ROUNDING + 2 * len(parts) * MASS_ERROR * any(part.places.size for part in parts))


def _without_anchors(threshold: float, weights: Floats, anchors: list[Floats]) -> Floats:
    """Return the threshold less w . anchors, rounded once: anchors and threshold cancel where windows are narrow."""
    rows = np.stack(np.broadcast_arrays(*anchors), axis=-1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    exact = [Fraction(w) for w in weights.tolist()]
    rest = [
        float(Fraction(threshold) - sum((w * Fraction(x) for w, x in zip(exact, row, strict=True)), Fraction(0)))
        for row in distinct.tolist()
    ]
    return np.asarray(np.array(rest)[which.reshape(len(rows))])


def share_below(q: Floats, first: Floats, second: Floats, third: Floats) -> Floats:
    """Return Pr[B1 U1 + B2 U2 + B3 U3 <= q] for independent uniform U on [0, 1] and B1 >= B2 >= B3 >= 0."""
    q = np.minimum(np.maximum(q, 0 * q - 1e300), 1e300)
    low = q - first
    knots = [np.clip(knot, low, q) for knot in (0 * q, third, second, second + third)]
    ends = np.stack([low, *knots, q])
    ends = np.maximum.accumulate(ends, axis=0)
    left, right = ends[:-1], ends[1:]
    middle = 0.5 * (left + right)
    averages = (_two_below(left, second, third) + 4 * _two_below(middle, second, third)
                + _two_below(right, second, third)) / 6  # fmt: skip
    total = ends[-1] - ends[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(second > 0, ((right - left) / total * averages).sum(axis=0), np.maximum(q, 0) / total)
    return np.asarray(np.where(total > 0, np.minimum(result, 1.0), _two_below(q, second, third)))


def _two_below(z: Floats, second: Floats, third: Floats) -> Floats:
    """Return Pr[B2 U2 + B3 U3 <= z]: the average of clip(., 0, 1) between two ends; a step where both are constants."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, high = ((z - third) / second, z / second)
        low, high = (np.clip(np.nan_to_num(end, nan=0.0), -1e9, 1e9) for end in (low, high))
        inside = np.maximum(np.minimum(high, 1) - np.maximum(low, 0), 0.0)
        height = 0.5 * (np.clip(low, 0, 1) + np.clip(high, 0, 1))
        average = (inside * height + np.maximum(high - np.maximum(low, 1), 0.0)) / (high - low)
    result = np.where(high > low, average, np.clip(high, 0, 1))
    return np.where(second > 0, result, z >= 0)


MOST_SUMS = 2**16  # of a half: 30 coins take 2^15
MOST_PLACES = 2**17  # of one continuous part: 14 features with two atoms each


def halves(parts: list[Parts]) -> tuple[list[int], list[int]] | None:
    """Split features into two halves of at most `MOST_SUMS` sums each; None where that is not found."""
    sides: tuple[list[int], list[int]] = ([], [])
    counts = [1, 1]
    for j in sorted(range(len(parts)), key=lambda j: -parts[j].places.size):
        at = int(counts[1] < counts[0])
        sides[at].append(j)
        counts[at] *= parts[j].places.size
    return sides if max(counts) <= MOST_SUMS else None


def few_atoms(parts: list[Parts], weights: Floats, threshold: float, slack: float, tolerance: float) -> Interval:
    """Bound the sum of values that are all atoms: exactly where there are few, whatever the tolerance; else not."""
    sides, count = halves(parts), len(parts[0].masses)
    if sides is None:
        return Interval(np.zeros(count), np.ones(count))
    return atoms_at_most(parts, weights, threshold, slack, sides)


def atoms_at_most(
    parts: list[Parts], weights: Floats, threshold: float, slack: float, sides: tuple[list[int], list[int]]
) -> Interval:
    """Bound Pr[weights . Y <= t] for every t within ``slack`` of the threshold; shape ``(epsilons,)``.

    A sum is off by s + 2 units of all terms.  That it is at most t is a half line in each value, so that what
    cumulated masses are off counts once per value; products add 2 units for each, and n cumulated masses of the one
    half and n products with the other n each.
    """
    eta = slack + 2 * (len(parts) + 4) * UNIT * (abs(threshold) + float(np.abs(weights).sum()))
    (first, shares), (second, masses) = (_sums(parts, weights, side) for side in sides)
    order = np.argsort(second, kind="stable")
    second, masses = second[order], masses[:, order]
    cumulated = np.concatenate([np.zeros((len(masses), 1)), np.cumsum(masses, axis=1)], axis=1)
    lower, upper = (
        np.einsum("en,en->e", shares, cumulated[:, np.searchsorted(second, (threshold + by) - first, side="right")])
        for by in (-eta, eta)
    )
    off = len(parts) * (2 * MASS_ERROR + 4 * UNIT) + UNIT * (first.size + second.size + 8)
    return widened(lower, upper, off)


def countable(parts: list[Parts]) -> int:
    """Return how many continuous factors the terms may have that `few_continuous` adds up; -1: none of them."""
    sizes = [part.places.size for part in parts]
    if sum(math.prod(sizes[:j] + sizes[j + 1 :]) for j in range(len(sizes))) <= MOST_PLACES:
        return 1
    return 0 if halves(parts) is not None else -1


def few_continuous(parts: list[Parts], weights: Floats, threshold: float, slack: float, most: int) -> Interval:
    """Bound the part of Pr[weights . Y <= t] in which at most ``most`` (0 or 1) values are from continuous parts.

    Of the atoms of all but one value, n sums and masses; what a continuous part has below each is off by `MASS_ERROR`
    and 3 units; n products add n + 8 units.  Parts of other values sum to less than 1.
    """
    sides = halves(parts)
    assert sides is not None
    result = atoms_at_most(parts, weights, threshold, slack, sides)
    if not most:
        return result
    eta = slack + 2 * (len(parts) + 4) * UNIT * (abs(threshold) + float(np.abs(weights).sum()))
    lower, upper, off = result.lower, result.upper, 0.0
    for j, part in enumerate(parts):
        sums, masses = _sums(parts, weights, [i for i in range(len(parts)) if i != j])
        for one in part.smooth:
            ends = (((threshold + by - sums) / weights[j])[np.newaxis] for by in (-eta, eta))
            low, high = (one.below(end) if weights[j] > 0 else one.mass[:, np.newaxis] - one.below(end) for end in ends)
            lower, upper = lower + (masses * low).sum(axis=1), upper + (masses * high).sum(axis=1)
        off += 2 * MASS_ERROR + UNIT * (sums.size + 16)
    return widened(lower, upper, off)


def _sums(parts: list[Parts], weights: Floats, side: list[int]) -> tuple[Floats, Floats]:
    sums, masses = np.zeros(1), np.ones((1, 1))
    for j in side:
        sums = (sums[:, np.newaxis] + weights[j] * parts[j].places).ravel()
        masses = (masses[:, :, np.newaxis] * parts[j].masses[:, np.newaxis]).reshape(len(parts[j].masses), -1)
    return sums, masses
