"""The one table of engines, in the order in which ``method="auto"`` tries them."""

from __future__ import annotations

from epsworth.utility.engines.cells import CellTables
from epsworth.utility.engines.constant import Constant
from epsworth.utility.engines.engine import Engine
from epsworth.utility.engines.grid import Grid
from epsworth.utility.engines.label import Label
from epsworth.utility.engines.lattice import Lattice
from epsworth.utility.engines.polygons import Polygons
from epsworth.utility.engines.propagation import Propagation
from epsworth.utility.engines.quadratic import SlabBounds
from epsworth.utility.engines.rays import Rays
from epsworth.utility.engines.sampled import Sampled
from epsworth.utility.engines.strata import SharedDraws
from epsworth.utility.engines.tree_boxes import BranchAndBound

ENGINES: tuple[Engine, ...] = (
    Label(),
    Constant(),
    Grid(),
    CellTables(),
    BranchAndBound(),
    Lattice(),
    Polygons(),
    SlabBounds(),
    Propagation(),
    SharedDraws(),
    Rays(),
    Sampled(),
)
