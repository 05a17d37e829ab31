"""What a run costs its units, what all runs cost, and whether that keeps to the caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import whole
from epsworth.release.ledger_tables import Amounts, Line, Settled
from epsworth.release.ledger_terms import LARGEST, Terms, amount_above
from epsworth.release.unit_files import Charges, UnitFile, Words, after, together
from epsworth.release.units import Hashes, UnitCounts

MOST = 2**63 - 1  # rows of a unit: they are kept in 64 bits
TOO_MUCH = "would lose more than 4,600,000, which is no promise; lower epsilon, or the rows of a unit"


@dataclass(frozen=True, repr=False)
class Price:
    """A run's price as amounts, and its units."""

    epsilon: int
    delta: int
    rows: int
    most: int
    units: Hashes | None
    counts: NDArray[np.uint64] | None

    @classmethod
    def of(cls, terms: Terms, units: UnitCounts | None) -> Price:
        """Round a price up, and look at the units."""
        price = amount_above("epsilon", terms.epsilon), amount_above("delta", terms.delta)
        rows, stated = whole("rows", terms.rows, least=0), terms.most
        limit = rows if stated is None else whole("most", stated, most=MOST)
        if units is None and terms.unit is not None:
            raise ValueError(f"unit {terms.unit!r} is stated, but no units are counted; count them, or state none")
        if units is None:
            return cls(*price, rows, limit, None, None)
        if units.rows != rows:
            raise ValueError(f"units must be given for all {rows} rows, got {units.rows}; give every row an id")
        found, counts = units.sorted()
        most = int(counts.max(initial=0))
        if stated is not None and most > limit:
            raise ValueError(
                f"most says {limit} rows of a unit, but there are units with more; state more, or clean the table"
            )
        return cls(*price, rows, most, found, counts)

    @property
    def own(self) -> Amounts:
        """The most that a unit loses in this run."""
        return self.epsilon * self.most, self.delta * self.most

    def checked(self, settled: Settled, alike: Amounts, files: list[UnitFile], folder: Path) -> Amounts:
        """Return what no unit will have lost more than; refuse what exceeds a cap.

        ``alike`` is what everybody will have lost.  Units are looked up only where the largest prices of all runs
        together exceed a cap.
        """
        caps = settled.cap, settled.delta_cap
        if any(cap is not None and common > cap for cap, common in zip(caps, alike, strict=True)):
            raise ValueError(
                "everybody would exceed the cap, as runs without units are charged for all of their rows; state unit= "
                "or most=, or take another ledger (ledger=)"
            )
        in_files = most_of(files) if self.units is None else added(most_of(files), self.own)
        if self.units is not None and max(in_files) > LARGEST:
            raise ValueError(f"a unit {TOO_MUCH}")
        bounds = added(alike, in_files)
        if all(cap is None or bound <= cap for cap, bound in zip(caps, bounds, strict=True)):
            return bounds
        rooms = [
            LARGEST if cap is None else min(cap - common, LARGEST) for cap, common in zip(caps, alike, strict=True)
        ]
        largest, over = (0, 0), 0
        for sums in self._sums(files, folder):
            beyond = [of > np.uint64(room) for of, room in zip(sums, rooms, strict=True)]
            over += int(np.count_nonzero(beyond[0] | beyond[1]))
            largest = max(largest[0], int(sums[0].max(initial=0))), max(largest[1], int(sums[1].max(initial=0)))
        if over:
            raise ValueError(
                f"{over} unit{'s' * (over > 1)} would exceed the cap; release less, or leave out who has nothing left"
            )
        return added(alike, largest)

    def _sums(self, files: list[UnitFile], folder: Path) -> Iterator[tuple[Words, Words]]:
        """Yield what units will have lost in runs with units: those of this run, or all where it is everybody's."""
        if self.units is None or self.counts is None:
            return (sums[1:] for sums in together([file.read(folder) for file in files]))
        own = Charges.of(self.units, self.counts, self.epsilon, self.delta)
        return after(own, [file.read(folder, len(self.units)) for file in files])


def everybody(before: Line | None, price: Price) -> Amounts:
    """Return what runs without units charge everybody, with one more run."""
    alike = (0, 0) if before is None else before.of_everybody
    return alike if price.units is not None else added(alike, price.own)


def most_of(files: list[UnitFile]) -> Amounts:
    """Return what no unit can have lost more than, in runs with units."""
    return sum(file.epsilon * file.most for file in files), sum(file.delta * file.most for file in files)


def added(one: Amounts, other: Amounts) -> Amounts:
    """Return both sums."""
    return one[0] + other[0], one[1] + other[1]
