"""Mechanisms for one feature on [0, 1]. `FAMILIES` is the one table: name -> class.

A new mechanism is one frozen dataclass with a ``_law`` and one line here; contract tests, the command
line and the documentation read the table.
"""

from __future__ import annotations

from epsworth.mechanisms.boosted import PBGRR, BoostedLaplace
from epsworth.mechanisms.density import density_mechanism
from epsworth.mechanisms.ends import Duchi, Hybrid, Staircase
from epsworth.mechanisms.family import Family, Release, family
from epsworth.mechanisms.gaussian import Gaussian, GaussianClipped, gaussian_sigma, hockey_stick
from epsworth.mechanisms.grid import KRR, Exponential, ExponentialTight, GridMechanism
from epsworth.mechanisms.indicator import PrivacyIndicator
from epsworth.mechanisms.label import LabelResponse
from epsworth.mechanisms.laplace import BoundedLaplace, Laplace, LaplaceClipped
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.mechanisms.piecewise import PM, SW, PMAffine, SWAffine
from epsworth.mechanisms.quantised import Quantised
from epsworth.mechanisms.table import FAMILIES

__all__ = [
    "FAMILIES",
    "KRR",
    "PBGRR",
    "PM",
    "SW",
    "BoostedLaplace",
    "BoundedLaplace",
    "Duchi",
    "Exponential",
    "ExponentialTight",
    "Family",
    "Gaussian",
    "GaussianClipped",
    "GridMechanism",
    "Hybrid",
    "LabelResponse",
    "Laplace",
    "LaplaceClipped",
    "Mechanism",
    "PMAffine",
    "PrivacyIndicator",
    "Quantised",
    "Release",
    "SWAffine",
    "Staircase",
    "density_mechanism",
    "family",
    "gaussian_sigma",
    "hockey_stick",
]
