"""Public records on the grids of a policy, and what the classifier answers when their sensitive columns change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools
from epsworth.release.copies import Indices, Input


@dataclass(frozen=True, eq=False)
class Public:
    """Public records on the grids of a policy, and what the classifier answers when their sensitive columns change.

    Attributes
    ----------
    places : ndarray of int, shape ``(n, inputs)``
        Places of the records' columns, in the order of the copy's inputs.
    inputs : tuple of Input
    sensitive : ndarray of bool, shape ``(inputs,)``
        Which of the inputs are sensitive.
    regions : ndarray of int, shape ``(n,)``
        The classifier's region of each record as it stands; -1 for a label that is no region.
    asked : callable
        From rows and places of their sensitive columns, shape ``(rows, sensitive)``, to the classifier's regions of
        these records with their sensitive columns at these places; -1 for a label that is no region.
    count : int
        How many regions there are.
    """

    places: Indices
    inputs: tuple[Input, ...]
    sensitive: Bools
    regions: Indices
    asked: Callable[[Indices, Indices], Indices]
    count: int

    def take(self, rows: ArrayLike) -> Public:
        """Return a part of the records; what is asked about it counts the rows of the part."""
        whole = np.arange(len(self.places))[np.asarray(rows)]

        def asked(part: Indices, sensitive: Indices) -> Indices:
            return self.asked(whole[part], sensitive)

        return Public(self.places[whole], self.inputs, self.sensitive, self.regions[whole], asked, self.count)

    def moved(self, rows: Indices, sensitive: Indices) -> Indices:
        """Return the places of some records with their sensitive columns at other places."""
        places = self.places[rows].copy()
        places[:, self.sensitive] = sensitive
        return places
