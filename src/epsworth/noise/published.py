"""The accounting of Jiang et al. 2025, reconstructed, for comparison only: it is *not* an upper bound.

It convolves the kernel's loss with the event "inside the region" as if they were independent; both are functions of
the same output.  Nothing here is used elsewhere, and whatever it returns is marked ``sound=False``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.mechanisms.calibration import gaussian_sigma, hockey_stick
from epsworth.noise import allowed
from epsworth.noise.allowed import numbers, share, whole
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Absolute, Fixed, OnLattice, Region
from epsworth.noise.tuning import least_boosted, plain

MOST_RELEASES, MOST_SEARCHED = 10_000, 1000  # the sum has 2 T + 1 terms
TERNARY_STEPS = 36
LEAST = 1e-4  # of the unboosted kernel's epsilon: where the ternary search begins


@dataclass(frozen=True)
class Terms:
    """What the published formulas need of one pair: tau, p+, p-, ln B."""

    shift: float
    plus: float
    minus: float
    step: float


def published_terms(noise: Boosted) -> Terms:
    """Return the terms for the pair that the paper takes for the worst (Propositions 4, 5 and 6)."""
    if not isinstance(noise, Boosted) or noise.kernel != "gaussian":
        raise ValueError("noise must be a boosted Gaussian kernel: the published formulas are for no other")
    answers = noise.region.answers[:1] if isinstance(noise.region, OnLattice) else np.zeros(1)
    first, second = float(answers[0]), float(answers[0]) + noise.sensitivity
    here, there = noise.law(first), noise.law(second)
    shift = float(np.log(here.weights()[0] / there.weights()[0]))
    if isinstance(noise.region, Fixed):
        return Terms(shift, 0.0, 0.0, float(np.log(noise.boost)))
    both = np.maximum(here.lower, there.lower), np.minimum(here.upper, there.upper)
    common = float(here.mass(*both))
    plus = float(here.mass(here.lower, here.upper)) - common
    minus = float(here.mass(there.lower, there.upper)) - common
    return Terms(0.0 if isinstance(noise.region, Absolute) else shift, plus, minus, float(np.log(noise.boost)))


def published_delta(noise: Boosted, epsilon: ArrayLike, releases: int = 1) -> Floats:
    """Return Theorem 2 / Proposition 3 (Proposition 1 for one release): a claim, not a bound.

    The law of the number of region events is the T-fold convolution of (p-, p0, p+) (Algorithm 1); Gaussian kernels.

    Parameters
    ----------
    noise : Boosted
        What `boosted` returns for a Gaussian kernel; others are refused.
    epsilon : array_like
        Where.
    releases : int
        How many there are.

    Examples
    --------
    >>> from epsworth import noise
    >>> kernel = noise.boosted(scale=4.0, theta=10.0, confidence=0.999)
    >>> round(float(noise.published_delta(kernel, 1.0)), 5), round(noise.delta(kernel, 1.0), 5)  # claimed, true
    (0.00477, 0.00538)
    """
    terms, releases = published_terms(noise), whole(releases, "releases", 1, MOST_RELEASES)
    return _claimed(noise, terms, numbers(epsilon, "epsilon", at_most=1e100), releases)


def _claimed(noise: Boosted, terms: Terms, epsilon: ArrayLike, releases: int) -> Floats:
    epsilon, law = as_floats(epsilon), np.ones(1)
    for _ in range(releases):
        law = np.convolve(law, [terms.minus, 1 - terms.plus - terms.minus, terms.plus])
    reach = noise.sensitivity * np.sqrt(releases)
    parts = [
        weight * hockey_stick(noise.scale, epsilon - releases * terms.shift - (j * terms.step if j else 0.0), reach)
        for j, weight in zip(range(-releases, releases + 1), law, strict=True)
        if weight > 0
    ]
    return np.asarray(np.sum(parts, axis=0))


def published_renyi(noise: Boosted, order: float) -> float:
    """Return Proposition 2: the claimed Renyi divergence of an order, Gaussian kernel.

    Parameters
    ----------
    noise : Boosted
        What `boosted` returns for a Gaussian kernel; others are refused.
    order : float
        Above 1.

    Examples
    --------
    >>> from epsworth import noise
    >>> kernel = noise.boosted(scale=4.0, theta=10.0, confidence=0.999)
    >>> round(noise.published_renyi(kernel, 4.0), 3), round(noise.renyi(kernel, 4.0), 3)  # claimed, true
    (0.981, 1.458)
    """
    order, terms = allowed.order(order), published_terms(noise)
    own = order * noise.sensitivity**2 / (2 * noise.scale**2)
    weights = [terms.plus, terms.minus, 1 - terms.plus - terms.minus]
    powers = [(order - 1) * terms.step, (1 - order) * terms.step, 0.0]
    with np.errstate(divide="ignore"):
        event = np.logaddexp.reduce(np.log(weights) + powers)
    return float(own + terms.shift + event / (order - 1))


def published_epsilon(noise: Boosted, delta: float, releases: int = 1) -> float:
    """Return the epsilon that the published delta claims.

    Parameters
    ----------
    noise : Boosted
        What `boosted` returns for a Gaussian kernel; others are refused.
    delta : float
        In (0, 1).
    releases : int
        How many there are.

    Examples
    --------
    >>> from epsworth import noise
    >>> kernel = noise.boosted(scale=4.0, theta=10.0, confidence=0.999)
    >>> round(noise.published_epsilon(kernel, 1e-5), 3), round(kernel.epsilon(1e-5), 3)  # claimed, true
    (3.078, 3.171)
    """
    terms, releases = published_terms(noise), whole(releases, "releases", 1, MOST_RELEASES)
    return float(smallest_epsilon(lambda e: _claimed(noise, terms, e, releases), share(delta, "delta")))


def published_choice(
    region: Region, failure: float, sensitivity: float, delta: float, releases: int, scale: float
) -> tuple[Boosted, float] | None:
    """Return the kernel that Algorithm 2 chooses, and the epsilon it claims; None for delta = 0.

    Ternary search over the kernel's own epsilon.  For a fixed region the scale is given.
    """
    if delta == 0:
        return None

    def boosted(sigma: float) -> Boosted:
        return least_boosted("gaussian", sigma, region, sensitivity, failure)

    def built(epsilon: float) -> Boosted:
        return boosted(float(gaussian_sigma(epsilon, delta, sensitivity=reach)))

    def claimed(epsilon: float) -> float:
        return published_epsilon(built(epsilon), delta, releases)

    reach = sensitivity * float(np.sqrt(releases))
    kernel = plain("gaussian", region, failure, reach)
    high = kernel.epsilon(delta)
    if isinstance(region, Fixed):
        best = boosted(scale)
    elif high == 0:  # delta alone is enough: there is nothing to search between
        best = boosted(kernel.scale)
    else:
        low = LEAST * high
        for _ in range(TERNARY_STEPS):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if claimed(left) <= claimed(right) else (left, high)
        best = built((low + high) / 2)
    return best, published_epsilon(best, delta, releases)
