"""The delta of several releases of one boosted Gaussian noise, by inverting the transform of its loss: no draws."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import wofz

from epsworth.noise.mechanism import Boosted
from epsworth.noise.regions import Absolute

LINES = (3.0, 5.0)  # real parts of two lines of integration, which must agree; the only poles are at 0 and -1
STEP = 0.02  # the rule's error is of the order exp(-2 pi 3 / STEP)
REACH = 400.0  # little is left beyond
AGREED = 1e-9  # relative
Complexes = NDArray[np.complex128]


def _upper(b: float, s: Complexes, sigma: float) -> Complexes:
    """Return exp(s (s + 1) / (2 sigma^2)) times the normal mass below (b + s) / sigma, without overflow."""
    z = -(b + s) / (sigma * math.sqrt(2))
    near = np.where(z.real >= 0, z, -z)
    cut = 0.5 * np.exp((s - b * b - 2 * b * s) / (2 * sigma**2)) * wofz(1j * near)
    return np.where(z.real >= 0, cut, np.exp(s * (s + 1) / (2 * sigma**2)) - cut)


def transform(one: Boosted, s: Complexes) -> Complexes:
    """Return E[exp(s L)] of the privacy loss L of one release, between the answers 0 and 1.

    Inside and outside of the two regions the weights are constant, and the kernel's loss is linear in the output.
    """
    if not isinstance(one.region, Absolute) or one.kernel != "gaussian" or one.sensitivity != 1:
        raise ValueError("only Gaussian kernels, absolute errors and a sensitivity of one are inverted")
    theta = one.region.theta
    ends = sorted((-theta, theta, 1 - theta, 1 + theta))
    middles = [ends[0] - 1, *((a + b) / 2 for a, b in pairwise(ends)), ends[-1] + 1]
    below = [np.zeros_like(s), *(_upper(b, s, one.scale) for b in ends), np.exp(s * (s + 1) / (2 * one.scale**2))]
    total = np.zeros_like(s)
    for z, low, high in zip(middles, below[:-1], below[1:], strict=True):
        own, other = (one.boost if abs(z - q) <= theta else 1.0 for q in (0.0, 1.0))
        total += own * np.exp(s * math.log(own / other)) * (high - low)
    outside = math.erfc(theta / (one.scale * math.sqrt(2)))
    return total / (one.boost * (1 - outside) + outside)


def delta_of_several(one: Boosted, epsilon: float, releases: int) -> float:
    """Return E[max(0, 1 - exp(epsilon - S))], S being the sum of the losses of so many releases.

    Raises
    ------
    ArithmeticError
        Where two lines of integration give two numbers: with one release, or where the noise is small.
    """
    found = []
    for line in LINES:
        s = np.asarray(line + 1j * np.arange(0, REACH, STEP), dtype=np.complex128)
        terms = (transform(one, s) ** releases * np.exp(-s * epsilon) / (s * (s + 1))).real
        terms[0] /= 2
        found.append(float(terms.sum() * STEP / math.pi))
    if not math.isclose(*found, rel_tol=AGREED):
        raise ArithmeticError(f"the inversion gives {found[0]:.3e} and {found[1]:.3e}")
    return found[0]
