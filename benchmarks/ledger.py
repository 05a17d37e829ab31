"""What the ledger adds to a release: hashes and counts of ids, and the charge, over a sort of as many numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.timing import Clock, Row, shown
from epsworth.release.ledger import Ledger
from epsworth.release.ledger_terms import Identity, Terms
from epsworth.release.units import UnitCounts

PART = 65_536
SORTING = 6.0  # of one sort of the same numbers, hashing, counting, writing and hashing the file included


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time of a charge of ten million ids over that of sorting as many random numbers."""
    count = clock.size(10_000_000, 10_000)
    ids, noise = np.arange(count), np.random.default_rng(0).integers(0, 2**63, count)
    number = 0

    with tempfile.TemporaryDirectory() as folder:

        def charge() -> None:
            nonlocal number
            number += 1
            ledger, counts = Ledger(Path(folder, str(number))), UnitCounts()
            for first in range(0, count, PART):
                counts.add(ledger.hashes(ids[first : first + PART]))
            terms = Terms("policy", Fraction(1), Fraction(0), rows=count, unit="id")
            ledger.begin(terms, Identity("policy 1", bytes(32), "out"), counts)

        found = clock.race(charge, lambda: np.sort(noise), runs=3)
        note = f"{shown(found.ours)} / {shown(found.theirs)} for {count:,} ids"
        yield Row("ledger: charge of a run's ids", "a sort of as many numbers", found.ratio, SORTING, note)
