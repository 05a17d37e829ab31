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

from epsworth import laws
from epsworth.arrays import Floats, as_floats
from epsworth.laws.noise import Noise
from epsworth.noise.regions import Region

Kernel = Literal["gaussian", "laplace"]
ROUNDING = 2.0**-49  # relative error of an interval mass times its weight, per unit of the logarithms behind both
LEAST_MASS = 1e-300
MARGIN = 1e-13  # relative, of a probability outside: what boosts and scales leave for the rounding of its formula
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
    share = out / as_floats(boost)[..., np.newaxis]
    return np.asarray(np.minimum(share / (inside + share) * (1 + MARGIN / 2), 1.0).max(axis=-1))


def _inside_and_outside(kernel: Kernel, scale: ArrayLike, region: Region) -> tuple[Floats, Floats]:
    """Return the kernel's mass inside and outside of the region at the hardest answers, which are the last axis."""
    low, high = region.ends(region.hardest)
    law = kernel_law(kernel, as_floats(scale)[..., np.newaxis], region.hardest)
    return law.mass(low, high), np.asarray(law.mass(-np.inf, low) + law.mass(high, np.inf))


def boost_needed(outside: ArrayLike, beta: ArrayLike) -> Floats:
    """Return the smallest B >= 1 with Pr[in region] >= 1 - beta, for kernels that land outside this often.

    Examples
    --------
    >>> float(boost_needed(0.317310507863, 0.05).round(4))
    8.8311
    """
    out, beta = as_floats(outside), as_floats(beta)
    with np.errstate(divide="ignore"):
        needed = (1 - beta) / beta * out / (1 - out)
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


def weights(kernel: Kernel, scale: Floats, boost: Floats, region: Region, first: Floats, second: Floats) -> Weights:
    """Cut the line for every ordered pair of answers."""
    right = second > first
    ends = []
    for answer in (first, second):
        low, high = region.ends(answer)
        ends.append((np.where(right, low - first, first - high), np.where(right, high - first, first - low)))
    distance = np.abs(second - first)
    cuts = np.stack(np.broadcast_arrays(*ends[0], *ends[1]), axis=-1)
    wall = np.full((*cuts.shape[:-1], 1), np.inf)
    edges = np.concatenate([-wall, np.sort(cuts, axis=-1), wall], axis=-1)
    logs = []
    for (low, high), at in zip(ends, (np.zeros_like(distance), distance), strict=True):
        law = kernel_law(kernel, scale, at)
        out = law.mass(-np.inf, low) + law.mass(high, np.inf)
        inner = -np.log(law.mass(low, high) + out / boost)  # of C B
        with np.errstate(divide="ignore"):
            outer = inner - np.log(boost)
        within = (edges[..., :-1] >= low[..., np.newaxis]) & (edges[..., 1:] <= high[..., np.newaxis])
        logs.append(np.where(within, inner[..., np.newaxis], outer[..., np.newaxis]))
    return Weights(distance, edges, *logs)


def hockey_stick(kernel: Kernel, scale: ArrayLike, cut: Weights, epsilon: ArrayLike) -> Floats:
    """Return delta(epsilon) of every pair, rounded up; ``scale`` and ``epsilon`` broadcast against the pairs."""
    scale, epsilon, distance = (as_floats(a)[..., np.newaxis] for a in (scale, epsilon, cut.distance))
    near, far = kernel_law(kernel, scale), kernel_law(kernel, scale, distance)
    low, high = cut.edges[..., :-1], cut.edges[..., 1:]
    here = np.isfinite(cut.log_first)
    gain = np.where(here, cut.log_first, 0.0) - np.where(here, cut.log_second, 0.0)  # inf where the second has no mass
    stop = np.minimum(high, _loss_ends(kernel, scale, distance, epsilon - gain))
    weight = np.where(here & (stop > low), np.exp(cut.log_first), 0.0)
    mine = near.mass(low, stop)
    with np.errstate(divide="ignore"):
        theirs = np.exp(np.minimum(epsilon + cut.log_second + np.log(far.mass(low, stop)), 0.0))
    tail = np.minimum(near.mass(-np.inf, stop), near.mass(low, np.inf))
    size = 1 + np.abs(epsilon) - np.log(np.maximum(tail, LEAST_MASS)) + np.where(np.isfinite(gain), np.abs(gain), 0.0)
    error = ROUNDING * size * tail
    lost = np.maximum(weight * (mine + error) - np.where(weight > 0, theirs, 0.0), 0.0)
    return np.asarray(np.minimum(lost.sum(axis=-1), 1.0))


def _loss_ends(kernel: Kernel, scale: Floats, distance: Floats, loss: Floats) -> Floats:
    """Return u such that the kernel's loss exceeds ``loss`` exactly for z < u."""
    if kernel == "gaussian":
        with np.errstate(over="ignore"):  # a loss that is never reached, or always
            return np.asarray(distance / 2 - loss * scale**2 / distance)
    steepest = distance / scale
    between = (distance - np.clip(loss, -steepest, steepest) * scale) / 2
    return np.where(loss >= steepest, -np.inf, np.where(loss < -steepest, np.inf, between))


def pure_loss(kernel: Kernel, scale: ArrayLike, cut: Weights) -> Floats:
    """Return the largest loss of each pair; infinite for a Gaussian kernel, or where supports differ."""
    scale = as_floats(scale)
    shape = np.broadcast_shapes(scale.shape, cut.distance.shape)
    if kernel == "gaussian":
        return np.full(shape, np.inf)
    worst = np.full(shape, -np.inf)
    for s in range(cut.edges.shape[-1] - 1):
        low, high = cut.edges[..., s], cut.edges[..., s + 1]
        here = np.isfinite(cut.log_first[..., s]) & (high > low)
        gain = np.where(here, cut.log_first[..., s] - np.where(here, cut.log_second[..., s], 0.0), -np.inf)
        start = np.clip(low, 0.0, cut.distance)  # the kernel's loss falls between the two answers, constant elsewhere
        worst = np.maximum(worst, gain + (cut.distance - 2 * start) / scale)
    return as_floats(np.maximum(worst, 0.0))


def renyi_divergence(kernel: Kernel, scale: ArrayLike, cut: Weights, alpha: float) -> Floats:
    """Return the Renyi divergence of order alpha > 1 of every pair, in closed form.

    Gaussian: alpha d^2 / 2 sigma^2 + ln(sum w^alpha w'^(1 - alpha) N((1 - alpha) d, sigma^2)[segment])/(alpha - 1).
    """
    scale = as_floats(scale)
    cuts = cut.edges
    if kernel == "laplace":  # the exponent has kinks at both answers
        kinks = np.stack(np.broadcast_arrays(np.zeros_like(cut.distance), cut.distance), axis=-1)
        cuts = np.sort(np.concatenate([cut.edges, kinks], axis=-1), axis=-1)
    terms = []
    for s in range(cuts.shape[-1] - 1):
        low, high = cuts[..., s], cuts[..., s + 1]
        held = (cut.edges[..., :-1] <= low[..., np.newaxis]) & (cut.edges[..., 1:] >= high[..., np.newaxis])
        shape = np.broadcast_shapes(held.shape[:-1], cut.log_first.shape[:-1])
        segment = np.broadcast_to(np.argmax(held, axis=-1), shape)[..., np.newaxis]
        first = np.take_along_axis(cut.log_first, segment, axis=-1)[..., 0]
        second = np.take_along_axis(cut.log_second, segment, axis=-1)[..., 0]
        there = (high > low) & np.isfinite(first)
        weight = alpha * np.where(there, first, 0.0) + (1 - alpha) * np.where(there, second, 0.0)
        power = _gaussian_power if kernel == "gaussian" else _laplace_power
        terms.append(np.where(there, weight + power(scale, cut.distance, low, high, alpha), -np.inf))
    return np.asarray(np.logaddexp.reduce(np.stack(np.broadcast_arrays(*terms)), axis=0) / (alpha - 1))


def _gaussian_power(scale: Floats, distance: Floats, low: Floats, high: Floats, alpha: float) -> Floats:
    """Return the logarithm of the integral of f^alpha f'^(1 - alpha)."""
    middle = (1 - alpha) * distance
    left, right = (low - middle) / scale, (high - middle) / scale
    flip = left > 0
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = np.where(np.isneginf(left), 0.0, np.exp(log_ndtr(left) - log_ndtr(right)))
        mass = log_ndtr(right) + np.log1p(-np.minimum(tail, 1.0))
    return np.asarray(mass + alpha * (alpha - 1) * distance**2 / (2 * scale**2))


def _laplace_power(scale: Floats, distance: Floats, low: Floats, high: Floats, alpha: float) -> Floats:
    """Return the logarithm of the integral; the exponent is linear on [low, high]."""
    middle = np.where(np.isneginf(low), high - scale, np.where(np.isposinf(high), low + scale, (low + high) / 2))
    slope = -(alpha * np.sign(middle) + (1 - alpha) * np.sign(middle - distance)) / scale
    at = np.where(slope > 0, high, low)  # the larger end, which is finite
    at = np.where(np.isfinite(at), at, 0.0)
    top = -(alpha * np.abs(at) + (1 - alpha) * np.abs(at - distance)) / scale
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
