"""Mechanisms for one feature on [0, 1]: a law for analysis, integer weights for release, a promise.

`MECHANISMS` is the one table: name -> class.  A new mechanism is one file and one line there.  Its frozen dataclass has
a ``_law`` and, so that clients can draw from it, ``integers``; contract tests, the command line and the documentation
read the table.

Files that are named after a mechanism hold its law, its kernel and its promise.  What they share:

``law``             what every law offers
``laws``            noise, clipped, truncated, rounded or mixed; densities of two levels
``steps``           noise that is constant on cells, or lies on a lattice
``mechanism``       what every mechanism offers
``kernels``         what every integer kernel offers, and a kernel as a mechanism for analysis
``two_level``       kernels of a window, whose integers are the client's
``noise_kernels``   kernels of noise, clipped or drawn anew outside the grid
``regions``         any gain between regions, by a linear program and integers
``rational``        epsilon as its text says it, losses rounded up
``words``           operating-system randomness, and replayable words for tests
``alias``           constant-time draws from integer weights
``pieces``          which words lead to which output, said without drawing

>>> from epsworth import mechanisms
>>> sorted(mechanisms.MECHANISMS.keys() - mechanisms.KERNELS.keys())  # what is analysed alone
['boosted_laplace', 'gaussian', 'laplace']
"""

from __future__ import annotations

from epsworth.mechanisms.calibration import gaussian_sigma
from epsworth.mechanisms.calibration import hockey_stick as hockey_stick
from epsworth.mechanisms.density import density_mechanism
from epsworth.mechanisms.family import family as family
from epsworth.mechanisms.gaussian import Gaussian as Gaussian
from epsworth.mechanisms.gaussian import GaussianClipped as GaussianClipped
from epsworth.mechanisms.indicator import PrivacyIndicator
from epsworth.mechanisms.kernels import Kernel, KernelLaw, KernelMechanism
from epsworth.mechanisms.krr import KRR as KRR
from epsworth.mechanisms.label import LabelResponse as LabelResponse
from epsworth.mechanisms.laplace import Laplace as Laplace
from epsworth.mechanisms.mechanism import GridMechanism as GridMechanism
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.mechanisms.pieces import Pieces
from epsworth.mechanisms.piecewise import PM as PM
from epsworth.mechanisms.quantised import Quantised as Quantised
from epsworth.mechanisms.regions import RegionKernel, region_kernel
from epsworth.mechanisms.square_wave import SW as SW
from epsworth.mechanisms.table import KERNELS, MECHANISMS, kernel

__all__ = [
    "KERNELS",
    "MECHANISMS",
    "Kernel",
    "KernelLaw",
    "KernelMechanism",
    "Mechanism",
    "Pieces",
    "PrivacyIndicator",
    "RegionKernel",
    "density_mechanism",
    "gaussian_sigma",
    "kernel",
    "region_kernel",
]
