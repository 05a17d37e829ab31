"""Laws of one released value: what comes out when the true value is x.

``noise``      Laplace and Gaussian on the real line
``bounded``    the same, clipped to [0, 1] (atoms at the ends) or truncated (renormalised)
``ends``       atoms at 0 and 1, another law between
``boosted``    the same, weighted up inside an interval (truncated where the outside weighs nothing)
``steps``      piecewise-constant densities, and laws on an evenly spaced lattice
``histogram``  densities that are constant on public cells, of any shape
``two_level``  piecewise-constant laws: PM and SW
``grid``       laws on a public grid: k-ary randomised response, the exponential mechanism
``quantised``  any law rounded to a public grid
``mixture``    the raw value with some probability
"""

from epsworth.laws.boosted import Boosted
from epsworth.laws.bounded import Clipped, Truncated
from epsworth.laws.ends import WithEnds
from epsworth.laws.grid import RandomisedResponse, TwoSidedGeometric, WindowResponse
from epsworth.laws.histogram import Histogram
from epsworth.laws.law import Law, draw_between, uniforms
from epsworth.laws.mixture import RawOr
from epsworth.laws.noise import Gaussian, Laplace
from epsworth.laws.quantised import Quantised
from epsworth.laws.steps import Lattice, Steps
from epsworth.laws.two_level import TwoLevel

__all__ = [
    "Boosted",
    "Clipped",
    "Gaussian",
    "Histogram",
    "Laplace",
    "Lattice",
    "Law",
    "Quantised",
    "RandomisedResponse",
    "RawOr",
    "Steps",
    "Truncated",
    "TwoLevel",
    "TwoSidedGeometric",
    "WindowResponse",
    "WithEnds",
    "draw_between",
    "uniforms",
]
