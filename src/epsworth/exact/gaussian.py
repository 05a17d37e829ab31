"""Discrete Gaussian noise, clipped to the grid: an exact (epsilon, delta) promise, and the pure loss beside it.

The weights are made log-concave.  Then the likelihood ratio of any two inputs is monotone in the output, clipping
keeps it so, the two ends of the grid are the worst pair of inputs for every epsilon, and delta(epsilon) is the
largest of Pr[Y_0 <= c] - e^epsilon Pr[Y_last <= c]: a number of order ``points`` integers, not an integral.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtr

from epsworth.exact.alias import WORD
from epsworth.exact.clipped import Clipped
from epsworth.exact.integer import require
from epsworth.exact.rational import PRECISION, exp_below, float_above
from epsworth.guarantees import Approximate
from epsworth.mechanisms.gaussian import Calibration, gaussian_sigma

BEYOND = 4096  # distances past the grid that are summed one by one; the rest is an integral
WIDEST = 1.5  # times the continuous sigma; a delta that needs more is beyond what the integers resolve
SHALLOWEST = 0.01  # least slope that a Newton step relies on


@dataclass(frozen=True, eq=False)
class GaussianNoise(Clipped):
    """Clipped noise with log-concave weights; ``sigma`` on the unit scale, ``stated`` the delta asked for."""

    sigma: float
    stated: Fraction

    def ratio(self) -> Fraction:
        """Return the largest ratio, exactly; refused where a weight is zero (`loss` is infinite there)."""
        return max(Fraction(self.noise[0], self.noise[-2]), Fraction(self.tail[0], self.tail[-1]))

    def loss(self) -> float:
        """Return the pure loss, rounded up: bounded by the ends; infinite where a far weight is rounded to zero."""
        return super().loss() if min(self.noise[-2:]) > 0 else math.inf

    def slack(self, bound: Fraction) -> Fraction:
        """Return the smallest delta: outputs 0..c, as far as they favour input 0 by more than ``bound``."""
        last, noise = self.points - 1, self.noise
        favours = range(1, last)  # inner outputs; the ratio falls along them
        c = bisect_left(favours, True, key=lambda y: noise[y] <= bound * noise[last - y])
        if self.tail[0] <= bound * self.tail[last]:
            return Fraction(0)
        return (self.whole - self.tail[c + 1] - bound * self.tail[last - c]) / self.whole

    @property
    def guarantee(self) -> Approximate:
        """The stated epsilon with the delta that the integers keep."""
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
        require(self.slack(exp_below(self.epsilon)) <= self.stated, self, "delta is exceeded")


def gaussian_clipped(
    epsilon: Fraction, points: int, *, delta: Fraction, calibration: Calibration = "analytic"
) -> GaussianNoise:
    """Return discrete Gaussian noise (Canonne, Kamath & Steinke 2020), widened until the integers keep delta.

    Starts from the sigma of continuous noise; the grid moves delta a little, by about (step/sigma)^2.
    Newton steps on log delta against log sigma, always a little too far, lead to the private side.
    """
    stated_epsilon, stated_delta = float(epsilon), float(delta)
    least = sigma = float(gaussian_sigma(stated_epsilon, stated_delta, calibration))
    bound = exp_below(epsilon)
    while sigma <= WIDEST * least:
        found = GaussianNoise("gaussian_clipped", epsilon, points, _largest(sigma, points), sigma, delta)
        slack = found.slack(bound)
        if slack <= delta:
            return found
        centred = 0.5 / sigma - stated_epsilon * sigma
        slope = math.exp(-0.5 * centred**2) / math.sqrt(2 * math.pi) / (sigma * stated_delta)
        sigma *= 1 + min(max(1.01 * float(slack / delta - 1) / max(slope, SHALLOWEST), 1e-13), 0.1)
    raise ValueError(
        f"delta {stated_delta:g} at epsilon {stated_epsilon:g} is finer than integer weights on {points} points can "
        "keep; use fewer bits or a larger delta"
    )


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
