"""The one table of mechanisms."""

from __future__ import annotations

from epsworth.mechanisms.boosted import PBGRR, BoostedLaplace
from epsworth.mechanisms.ends import Duchi, Hybrid, Staircase
from epsworth.mechanisms.gaussian import Gaussian, GaussianClipped
from epsworth.mechanisms.grid import KRR, Exponential, ExponentialTight
from epsworth.mechanisms.laplace import BoundedLaplace, Laplace, LaplaceClipped
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.mechanisms.piecewise import PM, SW, PMAffine, SWAffine

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
    "pm_affine": PMAffine,
    "sw_affine": SWAffine,
    "duchi": Duchi,
    "hybrid": Hybrid,
    "staircase": Staircase,
    "pb_grr": PBGRR,
    "boosted_laplace": BoostedLaplace,
}
