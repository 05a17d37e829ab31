"""Direct questions about one noise: delta, epsilon, Renyi divergence; and the inverse uses of a tuned one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.noise import allowed, regions
from epsworth.noise.composition import composed_epsilon
from epsworth.noise.lattice import discrete, spacing
from epsworth.noise.mechanism import Boosted, NoiseMechanism, TooLarge
from epsworth.noise.profiles import Kernel, boost_needed, outside
from epsworth.noise.ranking import MOST_RELEASES, WIDEST_RATIO, noise_named, question
from epsworth.noise.regions import Kind
from epsworth.noise.tuning import first_kept

DISCRETE: dict[str, Kernel] = {"discrete_gaussian": "gaussian", "discrete_laplace": "laplace"}
LARGEST_ORDER = 1e6  # of a Renyi divergence
MOST_BOOST = 1e300
SURE = 1e-6  # relative precision of the inverse searches


def boosted(
    kernel: str = "gaussian",
    *,
    scale: float,
    theta: float | tuple[float, float] = 1.0,
    boost: float | None = None,
    beta: float | None = None,
    sensitivity: float = 1.0,
    region: Kind = "absolute",
    offset: float | None = None,
    answers: ArrayLike | None = None,
    lattice: float = 1.0,
) -> NoiseMechanism:
    """Return a kernel weighted up inside a region.

    Parameters
    ----------
    kernel : {"gaussian", "laplace", "discrete_gaussian", "discrete_laplace"}
        Law around the true answer; the discrete ones live on multiples of ``lattice``.
    scale : float
        sigma or b.
    theta, region, offset, answers
        The preferred region; see `regions.region`.
    boost : float, optional
        B >= 1: weight inside over weight outside; infinity truncates.  Default: what ``beta`` needs, or 1.
    beta : float, optional
        Instead of a boost: the probability that may lie outside.
    sensitivity : float
        Largest change of the answer.

    Examples
    --------
    >>> boosted("laplace", scale=3.0, theta=4.0, beta=0.1).boost.__round__(6)
    3.221571
    """
    scale, sensitivity = allowed.length(scale, "scale"), allowed.length(sensitivity, "sensitivity")
    if boost is not None and beta is not None:
        raise ValueError("boost and beta exclude each other; keep one")
    boost = _boost(boost)
    where = regions.region(region, theta, offset=offset, answers=answers)
    build: Callable[[float], NoiseMechanism]
    if kernel in DISCRETE:
        if region != "absolute":
            raise ValueError(f"kernel {kernel!r} belongs to region='absolute', got {region!r}")
        grid = spacing(allowed.length(theta, "theta"), sensitivity, allowed.length(lattice, "lattice"))
        build = partial(discrete, DISCRETE[kernel], scale, grid=grid)
        chance = build(1.0).outside if beta is not None else 0.0
    elif kernel in get_args(Kernel):
        law: Kernel = kernel  # type: ignore[assignment]
        build = partial(Boosted, law, scale, region=where, sensitivity=sensitivity)
        chance = float(outside(law, scale, where)) if beta is not None else 0.0
    else:
        raise ValueError(f"kernel must be one of gaussian, laplace, {', '.join(DISCRETE)}, got {kernel!r}")
    if beta is None:
        return build(boost)
    if chance >= 1.0:
        raise ValueError(f"scale {scale:g} leaves nothing in the region of theta {theta!r}; take a smaller scale")
    beta = allowed.failure(beta)
    return first_kept(build, float(boost_needed(chance, beta)), beta, +1)


def _boost(boost: object) -> float:
    if isinstance(boost, float) and boost == math.inf:
        return math.inf
    number = allowed.positive(boost, "boost", zero=True) if boost is not None else 1.0
    if not 1 <= number <= MOST_BOOST:
        raise ValueError(f"boost must be at least 1, and at most {MOST_BOOST:g} or infinite (truncates), got {boost!r}")
    return number


def delta(
    epsilon: ArrayLike,
    kernel: str = "gaussian",
    *,
    scale: float,
    theta: float | tuple[float, float] = 1.0,
    boost: float | None = None,
    beta: float | None = None,
    sensitivity: float = 1.0,
    region: Kind = "absolute",
    offset: float | None = None,
    answers: ArrayLike | None = None,
    lattice: float = 1.0,
) -> float | Floats:
    """Return the exact delta(epsilon) of a boosted kernel, over all neighbouring answers; never rounded down.

    Parameters
    ----------
    epsilon : array_like
        Any sign.  A number gives a number, an array an array.
    kernel, scale, theta, boost, beta, sensitivity, region, offset, answers, lattice
        See `boosted`.

    Examples
    --------
    >>> delta(0.75, scale=2.8, theta=5.0, boost=1.5215837245)
    0.01276435...

    Notes
    -----
    For negative epsilon, delta(-e) = 1 - exp(-e) + exp(-e) delta(e): the set of pairs holds both orders.
    """
    noise = boosted(
        kernel, scale=scale, theta=theta, boost=boost, beta=beta, sensitivity=sensitivity, region=region,
        offset=offset, answers=answers, lattice=lattice,
    )  # fmt: skip
    asked = allowed.numbers(epsilon, "epsilon")
    found = noise.profile(np.abs(asked))
    decay = np.exp(np.minimum(asked, 0.0))
    found = np.where(asked < 0, 1 - decay + decay * found, found)
    return float(found) if found.ndim == 0 else found


def renyi(
    alpha: float,
    kernel: Kernel = "gaussian",
    *,
    scale: float,
    theta: float | tuple[float, float] = 1.0,
    boost: float | None = None,
    beta: float | None = None,
    sensitivity: float = 1.0,
    region: Kind = "absolute",
    offset: float | None = None,
    answers: ArrayLike | None = None,
) -> float:
    """Return the Renyi divergence of order alpha > 1 of a boosted kernel, over all neighbouring answers.

    Examples
    --------
    >>> round(renyi(4.0, scale=2.0, theta=2.0, beta=0.05), 6)
    2.15653
    """
    if not 1 < allowed.positive(alpha, "alpha") <= LARGEST_ORDER:
        raise ValueError(f"alpha must exceed 1 and be at most {LARGEST_ORDER:g}, got {alpha!r}")
    noise = boosted(
        kernel, scale=scale, theta=theta, boost=boost, beta=beta, sensitivity=sensitivity, region=region,
        offset=offset, answers=answers,
    )  # fmt: skip
    if not isinstance(noise, Boosted):
        raise ValueError(f"renyi needs kernel 'gaussian' or 'laplace', got {kernel!r}")
    return noise.renyi(alpha)


def best_confidence(
    epsilon: float, theta: float, sensitivity: float = 1.0, delta: float = 1e-6, releases: int = 1,
    *, mechanism: str = "pb_gaussian",
) -> float:  # fmt: skip
    """Return the largest confidence 1 - beta with which answers stay within theta at this epsilon.

    Rounded down by at most 1e-6 of beta: the returned confidence was seen to be affordable.

    Examples
    --------
    >>> round(1 - best_confidence(2.5, 2.0, delta=1e-5, mechanism="gaussian"), 4)
    0.221
    """

    def affordable(log_beta: float) -> bool:
        return _epsilon(mechanism, theta, float(np.exp(log_beta)), sensitivity, delta, releases) <= epsilon

    allowed.positive(epsilon, "epsilon")
    worst, best = np.log(0.999), np.log(1e-12)
    if not affordable(worst):
        return 0.0
    return float(1 - np.exp(_last(affordable, worst, best)))


def narrowest_interval(
    epsilon: float, beta: float, sensitivity: float = 1.0, delta: float = 1e-6, releases: int = 1,
    *, mechanism: str = "pb_gaussian",
) -> float:  # fmt: skip
    """Return the smallest theta that this epsilon affords with probability 1 - beta; rounded up by at most 1e-6.

    Examples
    --------
    >>> round(narrowest_interval(2.0, 0.05, delta=1e-5, mechanism="gaussian"), 3)
    3.908
    """

    def affordable(log_theta: float) -> bool:
        return _epsilon(mechanism, float(np.exp(log_theta)), beta, sensitivity, delta, releases) <= epsilon

    allowed.positive(epsilon, "epsilon")
    size = np.log(allowed.length(sensitivity, "sensitivity"))
    wide, widest = size, size + np.log(WIDEST_RATIO) - 0.5
    while not affordable(wide):
        if wide >= widest:
            raise ValueError(
                f"epsilon {epsilon:g} affords no theta up to {np.exp(widest):g} with {mechanism!r}; allow a larger one"
            )
        wide = min(wide + 1.0, widest)
    return float(np.exp(_last(affordable, wide, size - 20.0)))


def largest_T(
    epsilon: float, theta: float, beta: float, sensitivity: float = 1.0, delta: float = 1e-6,
    *, mechanism: str = "pb_gaussian",
) -> int:  # fmt: skip
    """Return how many releases, each within theta with probability 1 - beta, this epsilon affords; 0 if none.

    More than one release needs the extra ``accounting``.
    """

    def affordable(releases: int) -> bool:
        return _epsilon(mechanism, theta, beta, sensitivity, delta, releases) <= epsilon

    allowed.positive(epsilon, "epsilon")
    low, high = 0, 1
    while high < MOST_RELEASES and affordable(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low


def _epsilon(mechanism: str, theta: float, beta: float, sensitivity: float, delta: float, releases: int) -> float:
    asked = question(theta, beta, sensitivity, delta, releases, "absolute", None, None, None, None)
    try:
        return composed_epsilon(noise_named(mechanism, asked), asked.delta, asked.releases)
    except TooLarge:  # not on offer at this width: nothing that this mechanism affords
        return math.inf


def _last(affordable: Callable[[float], bool], good: float, bad: float) -> float:
    """Return the last affordable point towards ``bad``: doubling steps (extremes are slow to judge), then bisection."""
    step = np.copysign(0.5, bad - good)
    while affordable(tried := good + step if abs(step) < abs(bad - good) else bad):
        good, step = tried, 2 * step
        if tried == bad:
            return bad
    bad = tried
    while abs(good - bad) > SURE:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if affordable(middle) else (good, middle)
    return good
