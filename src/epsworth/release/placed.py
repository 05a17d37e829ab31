"""One column that a tailored policy sees: whatever it holds to places, and places to the natural values that leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.release.copies import Indices
from epsworth.release.grids import Grid
from epsworth.space import Feature

if TYPE_CHECKING:
    from epsworth.release.policy import Policy


class Placed:
    """A column on its grid, as `Column` is one under a rule; nothing that it holds is ever refused."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @property
    def feature(self) -> Feature:
        """Its public range or categories."""
        return self.grid.feature

    @property
    def values(self) -> NDArray[Any]:
        """The natural values by place."""
        return self.grid.values

    def places(self, column: Any) -> Indices:
        """Return the places of natural values, whatever they are."""
        return self.grid.places(column)

    def released(self, drawn: Indices, keep: Bools | None, policy: Policy) -> NDArray[Any]:
        """Return natural values; every record releases them."""
        values: NDArray[Any] = self.values[np.asarray(drawn)]
        return values
