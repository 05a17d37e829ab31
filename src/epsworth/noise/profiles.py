"""Exact privacy profiles of boosted noise: hockey-stick and Renyi divergences, closed forms per segment.

The density for the true answer q is C(q) f(z - q), times B inside the region R(q).  The ends of R(q) and R(q') cut
the line into at most five segments.  On each, both weights are constant and the kernel's loss is monotone, so
{loss > epsilon} is one interval: delta is a sum of interval masses.  Every delta is rounded up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms import laws
from epsworth.mechanisms.laws import Noise
from epsworth.noise.regions import Region

Kernel = Literal["gaussian", "laplace"]
# Everything below is counted in roundings, u = 2^-53; NumPy's exp, log and expm1 err by at most 4 units in the last
# place (the limit of NumPy's own accuracy tests), which are 8 u.
# The mass of an interval comes from tails at its ends.  An end, in scales from the centre, is z (1 + 2 u), for the
# second answer z (1 + 3 u) + 2 u D where D is the distance of the answers: a tail of exp(-z^2/2)/2 changes by
# (3 z^2 + 1) u, or (5.5 z^2 + 2 D^2 + 3) u of itself.  Cephes computes it from exp(-t^2), t = z / 2^(1/2), with t and
# t^2 rounded: (15 + 2.5 z^2) u (it states a peak of 306 u up to z = 13, where this is 437 u).  Laplace tails, exp(-z):
# (20 + 4 z + 2 D) u.  All are below 16 u (2 + l + E) of the tail, l = z^2/2 or z being minus its logarithm, and
# E = D^2 or D, hence a mass errs by less than 16 u (2 + l + E) exp(-l) at the end that is nearer to the centre; one
# more 16 u exp(-l) is for what is done with it, fewer than 16 operations.
# A weight is 1/s, s being the mass inside plus 1/B of that outside: 80 u absolutely, so 80 u / s relatively, and
# 8 u of each logarithm taken and of the exponential: below 16 u (1 + 5/s + |ln inner weight| + |ln outer weight|).
ROUNDING = 2.0**-49  # 16 u
DEEPEST = 650.0  # minus a tail's logarithm: beyond it the mass itself may underflow, and less than exp(-690) is lost
MARGIN = 1e-13  # relative; where the searches for boosts and scales start, what they find is seen to pass
LARGEST_SEARCHED = 1e6  # epsilon
DOUBLINGS, HALVINGS = 60, 70


def kernel_law(kernel: Kernel, scale: ArrayLike, at: ArrayLike = 0.0) -> Noise:
    """Return the kernel around a true answer; ``scale`` is sigma or b."""
    if kernel not in get_args(Kernel):
        raise ValueError(f"kernel must be one of {', '.join(map(repr, get_args(Kernel)))}, got {kernel!r}")
    if kernel == "gaussian":
        return laws.Gaussian.around(at, scale)
    return laws.Laplace.around(at, 1 / as_floats(scale))


def outside(kernel: Kernel, scale: ArrayLike, region: Region) -> Floats:
    """Return the largest probability, over admissible answers, that the kernel lands outside its region."""
    return np.asarray(_inside_and_outside(kernel, scale, region)[1].max(axis=-1))


def mass_outside(kernel: Kernel, scale: ArrayLike, boost: ArrayLike, region: Region) -> Floats:
    """Return the same probability of a boosted kernel, never rounded down."""
    inside, out = _inside_and_outside(kernel, scale, region)
    low, high = region.ends(region.hardest)
    near = np.minimum(high - region.hardest, region.hardest - low)
    out = out + 2 * _rounding(kernel, as_floats(scale)[..., np.newaxis], near, np.inf)
    share = out / as_floats(boost)[..., np.newaxis]
    held = np.maximum(inside - 2 * ROUNDING, 0.0)
    return np.asarray(np.minimum(share / (held + share), 1.0).max(axis=-1))


def _rounding(kernel: Kernel, scale: ArrayLike, low: Floats, high: ArrayLike, distance: ArrayLike = 0.0) -> Floats:
    """Bound the rounding of a kernel's mass on an interval around its centre, which a second answer moved there."""
    scale = as_floats(scale)
    away, steep = np.maximum(np.maximum(low, -as_floats(high)), 0.0) / scale, as_floats(distance) / scale
    with np.errstate(over="ignore"):
        log, steep = (away**2 / 2, steep**2) if kernel == "gaussian" else (away, steep)
    log = np.minimum(log, DEEPEST)
    return np.asarray(ROUNDING * (3 + log + steep) * np.exp(-log))


def _inside_and_outside(kernel: Kernel, scale: ArrayLike, region: Region) -> tuple[Floats, Floats]:
    """Return the kernel's mass inside and outside of the region at the hardest answers, which are the last axis."""
    low, high = region.ends(region.hardest)
    law = kernel_law(kernel, as_floats(scale)[..., np.newaxis], region.hardest)
    return law.mass(low, high), np.asarray(law.mass(-np.inf, low) + law.mass(high, np.inf))


def boost_needed(outside: ArrayLike, failure: ArrayLike) -> Floats:
    """Return the smallest B >= 1 that leaves so much outside, for kernels that land outside this often; not rounded.

    Examples
    --------
    >>> float(boost_needed(0.317310507863, 0.05).round(4))
    8.8311
    """
    out, failure = as_floats(outside), as_floats(failure)
    with np.errstate(divide="ignore"):
        needed = (1 - failure) / failure * out / (1 - out)
    return as_floats(np.maximum(needed * (1 + MARGIN), 1.0))


@dataclass(frozen=True, eq=False)
class Weights:
    """Densities of pairs, seen from the first answer with the second to its right; logarithms of both weights.

    All fields broadcast; intervals are relative to the first answer.
    """

    distance: Floats
    edges: Floats  # (..., 6)
    log_first: Floats  # (..., 5)
    log_second: Floats
    rounding: Floats  # (..., 1): of both weights together, relative

    @property
    def gain(self) -> Floats:
        """What the weights add to the loss; infinite where the second has no mass, 0 where the first has none."""
        here = np.isfinite(self.log_first)
        return np.where(here, self.log_first, 0.0) - np.where(here, self.log_second, 0.0)


def weights(kernel: Kernel, scale: Floats, boost: Floats, region: Region, first: Floats, second: Floats) -> Weights:
    """Cut the line for every ordered pair of answers."""
    right, law = second > first, kernel_law(kernel, scale)
    ends, inner = [], []
    for answer in (first, second):
        low, high = region.ends(answer)
        ends.append((np.where(right, low - first, first - high), np.where(right, high - first, first - low)))
        low, high = low - answer, high - answer
        spread = law.mass(low, high) + (law.mass(-np.inf, low) + law.mass(high, np.inf)) / boost
        inner.append(-np.log(np.where(boost == 1, 1.0, spread)))  # of C B
    cuts = np.stack(np.broadcast_arrays(*ends[0], *ends[1]), axis=-1)
    wall = np.full((*cuts.shape[:-1], 1), np.inf)
    edges = np.concatenate([-wall, np.sort(cuts, axis=-1), wall], axis=-1)
    logs, rounding = [], as_floats(0.0)
    for (low, high), log in zip(ends, inner, strict=True):
        with np.errstate(divide="ignore"):
            outer = log - np.log(boost)
        within = (edges[..., :-1] >= low[..., np.newaxis]) & (edges[..., 1:] <= high[..., np.newaxis])
        logs.append(np.where(within, log[..., np.newaxis], outer[..., np.newaxis]))
        size = 1 + 5 * np.exp(log) + np.abs(log) + np.where(np.isfinite(outer), np.abs(outer), 0.0)
        rounding = rounding + np.where(boost == 1, 0.0, ROUNDING * size)
    return Weights(np.abs(second - first), edges, logs[0], logs[1], rounding[..., np.newaxis])


def hockey_stick(kernel: Kernel, scale: ArrayLike, cut: Weights, epsilon: ArrayLike) -> Floats:
    """Return delta(epsilon) of every pair, rounded up; ``scale`` and ``epsilon`` broadcast against the pairs.

    Each mass is moved by its rounding, the first's upwards and the second's downwards, and so are the weights and the
    exponential: its logarithm errs by 8 u of itself, sums by u of what they add up, and itself by 8 u.  The end of the
    set {loss > epsilon} is rounded too, but there the integrand vanishes: that is of second order.
    """
    scale, epsilon, distance = (as_floats(a)[..., np.newaxis] for a in (scale, epsilon, cut.distance))
    near, far = kernel_law(kernel, scale), kernel_law(kernel, scale, distance)
    low, high = cut.edges[..., :-1], cut.edges[..., 1:]
    stop = np.minimum(high, _loss_ends(kernel, scale, distance, epsilon - cut.gain))
    weight = np.where(stop > low, np.exp(cut.log_first), 0.0)
    mine = near.mass(low, stop) + _rounding(kernel, scale, low, stop)
    other = far.mass(low, stop) - _rounding(kernel, scale, low - distance, stop - distance, distance)
    with np.errstate(divide="ignore"):
        log = np.log(np.maximum(other, 0.0))
        theirs = np.exp(np.minimum(epsilon + cut.log_second + log, 0.0))
    error = cut.rounding + ROUNDING * (1 + np.abs(epsilon) + np.where(other > 0, np.abs(log), 0.0))
    lost = np.maximum(weight * mine - theirs + error * (weight * mine + theirs), 0.0)
    return np.asarray(np.minimum(np.where(weight > 0, lost, 0.0).sum(axis=-1), 1.0))


def _loss_ends(kernel: Kernel, scale: Floats, distance: Floats, loss: Floats) -> Floats:
    """Return u such that the kernel's loss exceeds ``loss`` exactly for z < u."""
    if kernel == "gaussian":
        with np.errstate(over="ignore"):  # a loss that is never reached, or always
            return np.asarray(distance / 2 - loss * scale**2 / distance)
    steepest = distance / scale
    between = (distance - np.clip(loss, -steepest, steepest) * scale) / 2
    return np.where(loss >= steepest, -np.inf, np.where(loss < -steepest, np.inf, between))


def pure_loss(kernel: Kernel, scale: ArrayLike, cut: Weights) -> Floats:
    """Return the largest loss of each pair, rounded up; infinite for a Gaussian kernel, or where supports differ."""
    scale, distance = (as_floats(a)[..., np.newaxis] for a in (scale, cut.distance))
    if kernel == "gaussian":
        return np.full(np.broadcast_shapes(scale.shape, distance.shape)[:-1], np.inf)
    low, high = cut.edges[..., :-1], cut.edges[..., 1:]
    gain = np.where(np.isfinite(cut.log_first) & (high > low), cut.gain + cut.rounding, -np.inf)
    start = np.clip(low, 0.0, distance)  # the kernel's loss falls between the two answers, constant elsewhere
    slope = (distance - 2 * start + ROUNDING * distance) / scale  # six, one of the sum
    return as_floats(np.maximum((gain + slope).max(axis=-1), 0.0))


def renyi_divergence(kernel: Kernel, scale: ArrayLike, cut: Weights, order: float) -> Floats:
    """Return the Renyi divergence of an order a > 1 of every pair, in closed form, up to rounding.

    Gaussian: a d^2 / 2 sigma^2 + ln(sum w^a w'^(1 - a) N((1 - a) d, sigma^2)[segment])/(a - 1).
    """
    scale, distance, cuts = as_floats(scale)[..., np.newaxis], cut.distance[..., np.newaxis], cut.edges
    if kernel == "laplace":  # the exponent has kinks at both answers
        cuts = np.sort(np.concatenate([cuts, np.zeros_like(distance), distance], axis=-1), axis=-1)
    low, high = cuts[..., :-1], cuts[..., 1:]
    segment = (cut.edges[..., np.newaxis, 1:-1] <= low[..., np.newaxis]).sum(axis=-1)
    segment = np.broadcast_to(segment, (*cut.log_first.shape[:-1], segment.shape[-1]))
    first, second = (np.take_along_axis(log, segment, axis=-1) for log in (cut.log_first, cut.log_second))
    there = (high > low) & np.isfinite(first)
    weight = order * np.where(there, first, 0.0) + (1 - order) * np.where(there, second, 0.0)
    power = _gaussian_power if kernel == "gaussian" else _laplace_power
    terms = np.where(there, weight + power(scale, distance, low, high, order), -np.inf)
    return np.asarray(np.logaddexp.reduce(terms, axis=-1) / (order - 1))


def _gaussian_power(scale: Floats, distance: Floats, low: Floats, high: Floats, order: float) -> Floats:
    """Return the logarithm of the integral of f^order f'^(1 - order)."""
    middle = (1 - order) * distance
    left, right = (low - middle) / scale, (high - middle) / scale
    flip = left > 0
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = np.where(np.isneginf(left), 0.0, np.exp(log_ndtr(left) - log_ndtr(right)))
        mass = log_ndtr(right) + np.log1p(-np.minimum(tail, 1.0))
    return np.asarray(mass + order * (order - 1) * distance**2 / (2 * scale**2))


def _laplace_power(scale: Floats, distance: Floats, low: Floats, high: Floats, order: float) -> Floats:
    """Return the logarithm of the integral; the exponent is linear on [low, high]."""
    middle = np.where(np.isneginf(low), high - scale, np.where(np.isposinf(high), low + scale, (low + high) / 2))
    slope = -(order * np.sign(middle) + (1 - order) * np.sign(middle - distance)) / scale
    at = np.where(slope > 0, high, low)  # the larger end, which is finite
    at = np.where(np.isfinite(at), at, 0.0)
    top = -(order * np.abs(at) + (1 - order) * np.abs(at - distance)) / scale
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.where(high > low, high - low, 1.0)
        inner = np.where(slope == 0, length, -np.expm1(-np.abs(slope) * length) / np.abs(slope))
    return np.asarray(top + np.log(inner) - np.log(2 * scale))


def smallest_epsilon(
    profile: Callable[[Floats], Floats], delta: float, shape: tuple[int, ...] = (), *, halvings: int = HALVINGS
) -> Floats:
    """Return, elementwise, an epsilon at which a falling profile is *seen* to be at most delta; infinite if none.

    The smallest such one up to a relative 1e-13, or up to what the halvings reach.
    """
    low, high = np.zeros(shape), np.ones(shape)
    good = profile(high) <= delta
    for _ in range(DOUBLINGS):
        if good.all():
            break
        low, high = np.where(good, low, high), np.where(good, high, 2 * high)
        good = profile(high) <= delta
        if (high > LARGEST_SEARCHED).any():
            break
    found = good
    for _ in range(halvings):
        if (high - low <= 1e-13 * high).all():
            break
        middle = np.where(low > 0, (low + high) / 2, np.where(high > 1e-3, high / 2, high / 16))
        good = profile(middle) <= delta
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    zero = profile(np.zeros(shape)) <= delta
    return np.where(zero, 0.0, np.where(found, high, np.inf))
