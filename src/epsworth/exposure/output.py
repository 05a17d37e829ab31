"""Output perturbation: add spherical Laplace noise to the minimiser; what a released model says about each row.

The density of the noise is proportional to ``exp(-rate |b|)``.  (LeBlond et al. 2023 print the constant of d = 1 for
every d; it cancels in their ratios.)  Independent Laplace noise per coordinate would be another mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, gammainc, gammaln

from epsworth.arrays import Floats, as_floats, slices
from epsworth.exposure.fitting import BLOCK
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import finite, generator, number, positive, whole

BALL_NODES = 200
LARGEST = 1e90  # of rates and lengths: their products and squares must be doubles
MOST_NUMBERS = 2**28  # drawn at once: two gigabytes


@dataclass(frozen=True)
class OutputPerturbation:
    """Spherical Laplace noise in ``d`` dimensions of this rate, which is epsilon over the sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import OutputPerturbation
    >>> noise = OutputPerturbation(2, 10.0)
    >>> noise.sample(3, np.random.default_rng(0)).shape
    (3, 2)
    >>> noise.losses([[0.1, 0.0]], [0.0, 0.0])  # at the centre the loss is rate |delta|
    array([1.])
    """

    d: int
    rate: float

    def __post_init__(self) -> None:
        whole("d", self.d, 1)
        if not 1 / LARGEST <= number(self.rate) <= LARGEST:
            ends = f"from {1 / LARGEST:g} to {LARGEST:g}"
            raise ExposureError(f"d must be at least 1 and rate positive and finite, {ends}, got rate={self.rate!r}")

    def sample(self, count: int, rng: np.random.Generator | int | None) -> Floats:
        """Draw noise for a simulation, shape ``(count, d)``: floating point, never for a release (see `release`)."""
        count, rng = whole("count", count, 0, MOST_NUMBERS // self.d), generator(rng)
        direction = rng.standard_normal((count, self.d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return as_floats(direction * rng.gamma(self.d, 1 / self.rate, size=(count, 1)))

    def logpdf(self, noise: ArrayLike) -> Floats:
        """Return the log density of noise vectors, shape ``(..., d)``."""
        d = self.d
        constant = d * math.log(self.rate) + gammaln(d / 2) - math.log(2) - d / 2 * math.log(math.pi) - gammaln(d)
        b = _within(finite(noise, "noise"), "noise")
        if b.ndim == 0 or b.shape[-1] != d:
            raise ExposureError(f"noise must have shape (..., {d}), one entry per coefficient, got {b.shape}")
        return as_floats(constant - self.rate * np.linalg.norm(b, axis=-1))

    def losses(self, deltas: ArrayLike, noise: ArrayLike) -> Floats:
        """Return the ex-post loss of each row at the model ``centre + noise``: log density with the row over without.

        Claim: at most ``rate |delta|`` in size.  Positive: the model is likelier with the row than without.

        Parameters
        ----------
        deltas : array_like of shape ``(n, d)``
            From `loo`.
        noise : array_like of shape ``(d,)``
            Released model minus the base model.
        """
        moved, b = _within(finite(deltas, "deltas"), "deltas"), _within(finite(noise, "noise"), "noise")
        if b.shape != (self.d,) or moved.ndim != 2 or moved.shape[1] != self.d:
            raise ExposureError(f"deltas must have shape (n, {self.d}) and noise ({self.d},)")
        found = np.empty(len(moved))
        for part in slices(len(moved), BLOCK):
            some = moved[part]
            # |b - delta| - |b| with the common part cancelled on paper: |delta| can be 1e-10 of |b|
            above = np.einsum("ij,ij->i", some, some - 2 * b)
            below = np.linalg.norm(some - b, axis=1) + np.linalg.norm(b)
            found[part] = self.rate * above / np.where(below > 0, below, 1.0)
        return found

    def ball(self, distance: ArrayLike, radius: float) -> Floats:
        """Return the probability that a model falls within ``radius`` of a point at each distance from the centre.

        This is the papers' coverage with a cutoff.  Take the radius as a fraction of ``1/rate``: a fixed one of order 1
        covers everything.

        >>> OutputPerturbation(2, 1.0).ball([0.0], 1.0).round(6)
        array([0.264241])
        """
        with np.errstate(over="ignore"):
            far = _within(self.rate * finite(distance, "distance"), "rate times distance")
            reach = float(_within(as_floats(self.rate * positive("radius", radius)), "rate times radius"))
        if not (far >= 0).all():
            raise ExposureError("distance must not be negative")
        if self.d == 1:
            return as_floats(_line(far + reach) - _line(far - reach))
        nodes, weights = np.polynomial.legendre.leggauss(BALL_NODES)
        # shells of radius r, centred at the noise's centre, cut by the ball: r = middle + half cos(angle)
        middle, half = np.maximum(far, reach)[..., None], np.minimum(far, reach)[..., None]
        angle = np.pi / 2 * (nodes + 1)
        r = middle + half * np.cos(angle)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = np.clip((r * r + far[..., None] ** 2 - reach**2) / (2 * r * far[..., None]), -1, 1)
            cap = betainc((self.d - 1) / 2, (self.d - 1) / 2, (1 - cosine) / 2)
            shell = np.exp((self.d - 1) * np.log(r) - r - gammaln(self.d))
        mass = (np.nan_to_num(cap * shell) * half * np.sin(angle) * weights).sum(axis=-1) * np.pi / 2
        return as_floats(mass + gammainc(self.d, np.maximum(reach - far, 0.0)))


def _within(values: Floats, name: str) -> Floats:
    """Return lengths whose squares are doubles; refuse others."""
    if not (np.abs(values) <= LARGEST).all():
        raise ExposureError(f"{name} must lie within -+{LARGEST:g}; choose another unit")
    return values


def _line(x: Floats) -> Floats:
    """Return the distribution function of the standard Laplace law."""
    return as_floats(np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x))))
