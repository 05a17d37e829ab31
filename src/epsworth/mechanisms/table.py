"""The one table of mechanisms."""

from __future__ import annotations

from epsworth.mechanisms.boosted import PBGRR, BoostedLaplace
from epsworth.mechanisms.gaussian import Gaussian, GaussianClipped
from epsworth.mechanisms.grid import KRR, Exponential, ExponentialTight
from epsworth.mechanisms.laplace import BoundedLaplace, Laplace, LaplaceClipped
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.mechanisms.piecewise import PM, SW

FAMILIES: dict[str, type[Mechanism]] = {
    "laplace": Laplace,
    "laplace_clipped": LaplaceClipped,
    "bounded_laplace": BoundedLaplace,
    "gaussian": Gaussian,
    "gaussian_clipped": GaussianClipped,
    "pm": PM,
    "sw": SW,
    "exponential": Exponential,
    "exponential_tight": ExponentialTight,
    "krr": KRR,
    "pb_grr": PBGRR,
    "boosted_laplace": BoostedLaplace,
}
