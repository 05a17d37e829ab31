"""What a run costs its units, what all runs cost, and whether that keeps to the caps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import whole
from epsworth.release.ledger_tables import Amounts, Line, Settled
from epsworth.release.ledger_terms import LARGEST, Terms, amount_above, amount_below, decimal_of
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
        limit = rows if stated is None else whole("max_rows_per_person", stated, most=MOST)
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
                f"max_rows_per_person says {limit}, but there are people with more; state more, or clean the table"
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
            if self.units is not None:
                raise ValueError(
                    "runs without unit= (--id) charged everybody more than this cap leaves; raise the cap, or take "
                    "another ledger (ledger=)"
                )
            raise ValueError(
                "everybody would exceed the cap, as runs without units are charged for all of their rows"
                f"{self._fitting(caps, alike)}; state unit= (--id) or max_rows_per_person=, or "
                "take another ledger (ledger=)"
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
        largest, over, most, fitting, first = (0, 0), 0, 0, MOST, 0
        for sums in self._sums(files, folder):
            beyond = [of > np.uint64(room) for of, room in zip(sums, rooms, strict=True)]
            refused = beyond[0] | beyond[1]
            over += int(np.count_nonzero(refused))
            if self.counts is not None and refused.any():
                rows = self.counts[first : first + len(refused)][refused]
                most = max(most, int(rows.max()))
                for of, price, room in zip(sums, (self.epsilon, self.delta), rooms, strict=True):
                    fitting = min(fitting, _rows_that_fit(of[refused], rows, price, room))
            first += len(refused)
            largest = max(largest[0], int(sums[0].max(initial=0))), max(largest[1], int(sums[1].max(initial=0)))
        if over:
            who = f"{over} {'persons' if over > 1 else 'person'} would exceed the cap"
            if self.counts is not None:
                who += f", with up to {most} row{'s' * (most > 1)} each, of which {fitting or 'none'} would fit"
            less = f"give max_rows_per_person={fitting}" if self.counts is not None and fitting else "release less"
            raise ValueError(f"{who}; {less}, or leave out who has nothing left")
        return added(alike, largest)

    def _fitting(self, caps: Sequence[int | None], alike: Amounts) -> str:
        """Say how many rows there are, and how many would fit."""
        if self.units is not None:
            return ""
        fitting = MOST
        for cap, common, own, price in zip(caps, alike, self.own, (self.epsilon, self.delta), strict=True):
            if cap is not None and price:
                fitting = min(fitting, max(0, cap - (common - own)) // price)
        return f": {self.most} rows count as one person's, and {fitting} would fit"

    def _sums(self, files: list[UnitFile], folder: Path) -> Iterator[tuple[Words, Words]]:
        """Yield what units will have lost in runs with units: those of this run, or all where it is everybody's."""
        if self.units is None or self.counts is None:
            return (sums[1:] for sums in together([file.read(folder) for file in files]))
        own = Charges.of(self.units, self.counts, self.epsilon, self.delta)
        return after(own, [file.read(folder, len(self.units)) for file in files])


def agreed(settled: Settled, terms: Terms, units: bool) -> Settled:
    """Return what is fixed from now on; what differs from what was fixed is refused."""
    stated = {
        "unit": terms.unit,
        "cap": None if terms.cap is None else amount_below("cap", terms.cap),
        "delta_cap": None if terms.delta_cap is None else amount_below("delta_cap", terms.delta_cap),
    }
    for name, value in stated.items():
        before = getattr(settled, name)
        if value is not None and before is not None and value != before:
            shown = repr(before) if name == "unit" else decimal_of(before)
            raise ValueError(f"this ledger holds every run to {name} {shown}; take that, or another ledger (ledger=)")
    found = replace(settled, **{name: value for name, value in stated.items() if value is not None})  # type: ignore[arg-type]
    if units and found.unit is None:
        raise ValueError("units are counted, but no column is named that says who; state unit=")
    return found


def _rows_that_fit(sums: Words, rows: NDArray[np.uint64], price: int, room: int) -> int:
    """Return how many rows of each unit fit a room, given what they will have lost with these rows."""
    if price == 0:
        return MOST
    before = sums - np.uint64(price) * rows
    left = np.uint64(room) - np.minimum(before, np.uint64(room))
    return int((left // np.uint64(price)).min())


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
