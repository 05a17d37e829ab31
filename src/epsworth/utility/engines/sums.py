"""The law of a weighted sum of independent released values, bounded on both sides.

What is exact comes first: one value; mixtures of uniform laws and laws with few atoms (`closed_forms`); grids row
by row; unclipped noise.  Many values with continuous parts take a Fourier series (`fourier`).  What remains wider than
asked also goes on a lattice of N steps over the range of S = sum_j w_j M_j, where the law of each term is rounded down
to its cell: a product of transforms gives Pr[S0 <= .] with S between S0 and S0 + s steps; the bracket closes as s/N.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import ndtr

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.mechanisms.law import MASS_ERROR, GridLaw, Law
from epsworth.mechanisms.laws import Gaussian, Laplace
from epsworth.rounding import UNIT
from epsworth.utility.engines import closed_forms, fourier
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.parts import parts_of

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
    found = _direct([laws[j] for j in used], weights[used], threshold, slack, tolerance)
    steps, reached = FIRST_STEPS, np.zeros(len(found.lower))  # steps after which the lattice's bracket was so wide
    while True:
        gap = found.upper - found.lower
        wide = (gap > tolerance) & (reached / MOST_STEPS < gap)  # else even the last lattice is of no use
        if not wide.any():
            return found
        now = bracket([law[wide] for law in laws], weights, threshold, steps, slack)
        found.lower[wide] = np.maximum(found.lower[wide], now.lower)
        found.upper[wide] = np.minimum(found.upper[wide], now.upper)
        if steps >= MOST_STEPS:
            return found
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
    if len(parts) == len(laws) and closed_forms.closes(parts):
        return closed_forms.uniform_sum(parts, weights, threshold, slack)
    if len(laws) == 1:
        return _one(laws[0], weights[0], threshold, slack)
    count = max(len(law[...].mean()) for law in laws) if not parts else max(len(part.masses) for part in parts)
    found = Interval(np.zeros(count), np.ones(count))
    if len(parts) < len(laws):
        return found
    atomic = np.all([part.rest == 0 for part in parts], axis=0)
    for chosen, answer in ((atomic, closed_forms.few_atoms), (~atomic, fourier.series)):
        if chosen.any():
            now = answer([part.only(chosen) for part in parts], weights, threshold, slack, tolerance)
            found.lower[chosen], found.upper[chosen] = now
    return found


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
