"""Gaussian noise, on the real line or clipped to the range.

The kernel is discrete Gaussian noise, clipped: an exact (epsilon, delta) promise, and a pure loss.  Its weights are
made log-concave.  Then the likelihood ratio of any two inputs is monotone in the output, clipping
keeps it so, the two ends of the grid are the worst pair of inputs for every epsilon, and delta(epsilon) is the
largest of Pr[Y_0 <= c] - e^epsilon Pr[Y_last <= c]: a number of order ``points`` integers, not an integral.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, get_args

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.client.kernels import PRECISION, WORD, exp_below
from epsworth.extras import later
from epsworth.guarantees import Approximate, Guarantee, Probabilistic, Pure
from epsworth.mechanisms import laws
from epsworth.mechanisms.calibration import (
    BY_SIGMA,
    Calibration,
    check_calibration,
    clipped_sigma,
    gaussian_sigma,
    loss_above,
)
from epsworth.mechanisms.kernels import require
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.mechanism import Mechanism, Output
from epsworth.mechanisms.noise_kernels import ClippedKernel
from epsworth.mechanisms.rational import stated
from epsworth.rounding import float_above

ndtr = later("scipy.special", "ndtr")
DELTA = 1e-5  # by default
STATED = stated(DELTA, "delta")
BEYOND = 4096  # distances past the grid that are summed one by one; the rest is an integral
WIDEST = 1.5  # times the continuous sigma; a delta that needs more is beyond what the integers resolve
SHALLOWEST = 0.01  # least slope, in units of delta, that a Newton step relies on
FINE = 5e-5  # the share of sigma at which the search for less noise ends
MOST_TRIALS = 60


@dataclass(frozen=True, eq=False)
class GaussianKernel(ClippedKernel):
    """Clipped noise with log-concave weights; ``sigma`` on the unit scale, ``stated`` the delta asked for."""

    sigma: float
    stated: Fraction

    def loss(self) -> float:
        """Return the pure loss, rounded up: bounded by the ends; infinite where a far weight is rounded to zero."""
        return super().loss() if min(self.noise[-2:]) > 0 else math.inf

    def slack(self, bound: Fraction) -> Fraction:
        """Return the smallest delta: outputs 0..c, as far as they favour input 0 by more than ``bound``."""
        return max(self.gap(bound), Fraction(0))

    def gap(self, bound: Fraction) -> Fraction:
        """Return what the best such event has beyond ``bound``; negative where even output 0 has less."""
        last, noise = self.points - 1, self.noise
        favours = range(1, last)  # inner outputs; the ratio falls along them
        c = bisect_left(favours, True, key=lambda y: noise[y] <= bound * noise[last - y])
        return (self.whole - self.tail[c + 1] - bound * self.tail[last - c]) / self.whole

    @property
    def guarantee(self) -> Pure | Approximate:
        """The pure loss where it is no more than was stated, else the stated epsilon with the delta that is kept."""
        loss = self.loss()
        if not self.stated or loss <= float_above(self.epsilon):
            return Pure(loss)
        return Approximate(float_above(self.epsilon), float_above(self.slack(exp_below(self.epsilon))))

    def prove(self) -> None:
        """Check that the weights are log-concave, the tail's continuation too, and that delta is kept."""
        self.require_clipped()
        t, rest = self.noise[:-1], self.noise[-1]
        concave = all(t[d] * t[d] >= t[d - 1] * t[d + 1] for d in range(1, len(t) - 1))
        no_gap = all(a > 0 or b == 0 for a, b in zip(t, [*t[1:], rest], strict=True))
        require(concave and no_gap, self, "the weights are not log-concave")
        # tails r/(1 - r) T(points - 2) with r up to the last step are those of a log-concave continuation
        fits = len(t) < 2 or rest * (t[-2] - t[-1]) <= t[-1] * t[-1]
        require(fits, self, "the tail is heavier than any log-concave continuation")
        bound = exp_below(self.epsilon)
        require(self.slack(bound) <= self.stated, self, "delta is exceeded")
        require(bool(self.stated) or (min(t) > 0 and rest > 0 and self.ratio() <= bound), self, "epsilon is exceeded")


def gaussian_clipped(
    epsilon: Fraction, points: int, *, delta: Fraction = STATED, calibration: Calibration = "clipped"
) -> GaussianKernel:
    """Return discrete Gaussian noise (Canonne, Kamath & Steinke 2020) with which the integers keep delta.

    ``clipped``: the least such noise; ``pure``: the least for delta = 0.  The other calibrations are widened where
    they must be, never narrowed.
    """
    tight, wanted = calibration in ("clipped", "pure"), Fraction(0) if calibration == "pure" else delta
    sigmas = clipped_sigma if calibration == "clipped" else partial(gaussian_sigma, calibration=calibration)
    start, bound = float(sigmas(float(epsilon), float(delta))), exp_below(epsilon)
    best: GaussianKernel | None = None
    sigma, low = start, 0.0
    for trial in range(MOST_TRIALS):
        trial_kernel = GaussianKernel("gaussian_clipped", epsilon, points, _largest(sigma, points), sigma, wanted)
        change = _change(sigma, epsilon, float(wanted), float(trial_kernel.gap(bound) - wanted))
        if trial_kernel.slack(bound) <= wanted:
            best = trial_kernel
            if not tight or change > -FINE:
                break
        else:
            low = sigma
        if best is not None and best.sigma <= low * (1 + FINE):
            break
        sigma = _between(
            sigma * (1 + (0.999 if change < 0 else 1.01) * change), low, best.sigma if best else None, trial
        )
        if sigma > WIDEST * start:
            break
    if best is None:
        raise ValueError(
            f"delta {float(wanted):g} at epsilon {float(epsilon):g} is finer than integer weights on {points} points "
            f"can keep; use fewer bits or {'a larger delta' if wanted else 'a smaller epsilon'}"
        )
    return best


def _change(sigma: float, epsilon: Fraction, delta: float, excess: float) -> float:
    """Return the share by which a Newton step for continuous noise changes sigma to lose ``excess`` of delta."""
    at = float(epsilon)
    far = (1 - max(0.5 - at * sigma**2, 0.0)) / sigma  # from the upper end to the edge of the best event
    slope = math.exp(at - 0.5 * far**2) / math.sqrt(2 * math.pi) / sigma
    return excess / max(slope, SHALLOWEST * delta, 1e-300)


def _between(sigma: float, low: float, high: float | None, trial: int) -> float:
    """Return the next sigma between one that fails and one that passes; a step that trusts too much is halved."""
    least, most = max(low * (1 + 1e-13), 0.9 * (high or 0.0)), high or 1.1 * low
    if least < sigma < most and not (low and high and trial % 3 == 2):  # a coarse grid leads Newton's steps astray
        return sigma
    return math.sqrt(least * most) if high is None or low else least


def _largest(sigma: float, points: int) -> tuple[int, ...]:
    """Return the weights scaled so that their total just fits a word."""
    scale = 1 << 46  # a trial: weights are nearly proportional to it
    whole = _whole(_log_concave(sigma, points, scale))
    while True:
        scale = scale * WORD // whole
        scale -= scale >> 30
        noise = _log_concave(sigma, points, scale)
        whole = _whole(noise)
        if whole <= WORD:
            return tuple(noise)


def _whole(noise: list[int]) -> int:
    return 2 * sum(noise) - noise[0]


def _log_concave(sigma: float, points: int, scale: int) -> list[int]:
    """Return T(0) = scale, T(1), .., T(points - 2) and the tail beyond, all rounded down.

    T(d + 1) = min(floor(target), T(d), floor(T(d)^2/T(d - 1))); target(d + 1) = target(d) r^(2d + 1).
    """
    spread = Fraction(sigma) * (points - 1)  # in steps of the grid
    r = int((1 << PRECISION) / exp_below(1 / (2 * spread * spread)))
    square = r * r >> PRECISION
    beyond = min(int(10 * spread) + 2, BEYOND)
    target, factor = scale << PRECISION, r
    t = [scale]
    for _ in range(points - 2 + beyond):
        target, factor = target * factor >> PRECISION, factor * square >> PRECISION
        most = t[-1] * t[-1] // t[-2] if len(t) > 1 and t[-2] else t[-1]
        t.append(min(target >> PRECISION, t[-1], most))
    far = int(scale * float(spread) * math.sqrt(2 * math.pi) * float(ndtr(-(len(t) - 0.5) / float(spread))))
    if len(t) > 1 and t[-2] > t[-1]:
        far = min(far, t[-1] * t[-1] // (t[-2] - t[-1]))
    far = far if t[-1] else 0
    return [*t[: points - 1], sum(t[points - 1 :]) + far]


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Gaussian noise on the real line: no pure promise at any epsilon."""

    delta: float = DELTA
    calibration: Calibration = "analytic"

    title: ClassVar[str] = "Gaussian, unclipped"
    reference: ClassVar[str] = "Balle & Wang 2018; Zheng & Hu 2025, Def. 10, Theorem 4"
    output: ClassVar[Output] = "real line"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = BY_SIGMA if self.output == "real line" else get_args(Calibration)
        check_calibration(as_floats(self.epsilon), as_floats(self.delta), self.calibration, known)
        if self.calibration == "pure" and self.output == "real line":
            raise ValueError("calibration 'pure' needs the atoms of a clipped range; use gaussian_clipped")

    @cached_property
    def sigma(self) -> Floats:
        """The noise scale on the unit scale."""
        if isinstance(self.epsilon, float):
            return self._sigma(as_floats(self.epsilon))
        distinct, which = np.unique(self.epsilon, return_inverse=True)  # grids repeat few epsilons many times
        return self._sigma(distinct)[which.reshape(self.epsilon.shape)]

    def _sigma(self, epsilon: Floats) -> Floats:
        return gaussian_sigma(epsilon, self.delta, self.calibration)

    @property
    def guarantee(self) -> Guarantee:
        """Probabilistic for the tail calibrations, approximate for the others."""
        kind = Approximate if self.calibration in ("analytic", "clipped") else Probabilistic
        return kind(self.scalar_epsilon, self.delta)

    @property
    def tight_epsilon(self) -> float:
        """Infinite: the loss of unclipped Gaussian noise is unbounded."""
        return np.inf

    def _law(self, x: Floats) -> Law:
        return laws.Gaussian.around(x, self.sigma)


@dataclass(frozen=True)
class GaussianClipped(Gaussian):
    """Gaussian noise, then clipped to [0, 1]: the atoms at the ends bound the loss, so that less noise is enough.

    The calibration ``clipped`` is the least noise that keeps (epsilon, delta) so; the others keep more than they state.
    """

    calibration: Calibration = "clipped"

    title: ClassVar[str] = "Gaussian, clipped to the range"
    output: ClassVar[Output] = "[0, 1] with atoms at 0 and 1"
    integers = staticmethod(gaussian_clipped)

    def _sigma(self, epsilon: Floats) -> Floats:
        return clipped_sigma(epsilon, self.delta) if self.calibration == "clipped" else super()._sigma(epsilon)

    @property
    def tight_epsilon(self) -> float:
        """-ln(2 Phi(-1/sigma)), reached by the atoms at opposite ends."""
        self.scalar_epsilon  # noqa: B018  one epsilon only
        return float(loss_above(self.sigma))

    @property
    def guarantee(self) -> Guarantee:
        """Clipping keeps the approximate promise, but the probabilistic one only where no loss exceeds epsilon.

        Probabilistic DP is not closed under post-processing: an atom may gather outputs of small and
        large loss into one of medium loss (seen at delta = 0.4).  There the promise is `Approximate`.
        """
        if self.calibration == "pure":
            return Pure(self.scalar_epsilon)
        promise = super().guarantee
        if promise.notion == "probabilistic" and self.tight_epsilon > promise.epsilon:
            return Approximate(promise.epsilon, promise.delta)
        return promise

    def _law(self, x: Floats) -> Law:
        return laws.Clipped(laws.Gaussian.around(x, self.sigma))
