"""Draws fit for release: mechanisms as integer weights on a public grid, and randomness that cannot be seeded.

``rational``    epsilon as its text says it; e^epsilon from below
``integer``     what every kernel offers
``two_level``   pm, sw, their affine forms, k-ary randomised response
``distance``    bounded Laplace, the exponential mechanism
``clipped``     discrete Laplace, staircase
``gaussian``    discrete Gaussian
``duchi``       Duchi's mechanism, the hybrid
``regions``     any gain between regions, by a linear program and integers
``pieces``      which words lead to which output, said without drawing
``alias``       constant-time draws from integer weights
``entropy``     operating-system randomness, expanded by a cipher
``testing``     replayable draws, marked NOT PRIVATE
``mechanism``   a kernel as a mechanism for analysis
``table``       KERNELS: the one table, and `kernel`

>>> from epsworth import exact
>>> sorted(exact.KERNELS)[:3]
['bounded_laplace', 'duchi', 'exponential']
"""

from epsworth.exact.integer import Kernel
from epsworth.exact.mechanism import KernelLaw, KernelMechanism
from epsworth.exact.pieces import Pieces
from epsworth.exact.regions import RegionKernel, region_kernel
from epsworth.exact.table import KERNELS, kernel

__all__ = ["KERNELS", "Kernel", "KernelLaw", "KernelMechanism", "Pieces", "RegionKernel", "kernel", "region_kernel"]
