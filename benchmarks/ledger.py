"""What the ledger adds to a release: hashes and counts of ids, and the charge; and one run more beside thousands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.timing import Clock, Row, shown
from epsworth.policy.ledger import ChargeRequest, Identity, Ledger, RowCounts, RunTerms

PART = 65_536
ALIKE = 1.5  # of a run beside a hundred: one beside ten thousand, which reads none of them
MEMORY = Path("/dev/shm")
PEOPLE = 20  # of a small run
BATCH = 20  # small runs that are timed together
SORTING = 15.0  # of one sort of the same numbers: a microsecond a person, from its id to the disk


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time of a charge of ten million ids, and that of a small run beside ten thousand others."""
    yield _charge(clock)
    yield _one_more(clock)


class Small:
    """A ledger of small runs, each of people of its own, who are looked up, as all prices together exceed the cap."""

    def __init__(self, folder: Path, runs: int) -> None:
        self.folder, self.runs = folder, 0
        self.grow(runs)

    def grow(self, runs: int = BATCH) -> None:
        """Add runs, from the first opening of the ledger to the last word of each."""
        for _ in range(runs):
            self.runs += 1
            ledger, counts = Ledger(self.folder), RowCounts()
            counts.add(ledger.hashes(np.arange(PEOPLE) + PEOPLE * self.runs))
            terms = ChargeRequest("policy", Fraction(1), Fraction(0), rows=PEOPLE, terms=RunTerms("id", "1.5"))
            digest = ledger.digest(b"%d" % self.runs)
            run = ledger.begin(terms, Identity("policy 1", digest, f"out{self.runs}"), counts)
            ledger.finish(run, "ab" * 32)


def _one_more(clock: Clock) -> Row:
    """Return the time of a run beside many over that of one beside few, where waiting for the disk takes none."""
    many, few = clock.size(10_000, 300), clock.size(100, 30)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        large, small = Small(Path(folder, "large"), many), Small(Path(folder, "small"), few)
        found = clock.race(large.grow, small.grow, per=(BATCH, BATCH), runs=11)
        note = f"{shown(found.ours)} / {shown(found.theirs)} a run of {PEOPLE} ids, {many:,} and {few:,} runs before"
    return Row("ledger: a run beside many", "one beside few", found.ratio, ALIKE, note)


def _charge(clock: Clock) -> Row:
    """Return the time of a charge of many ids over that of sorting as many random numbers."""
    count = clock.size(10_000_000, 10_000)
    ids, noise = np.arange(count), np.random.default_rng(0).integers(0, 2**63, count)
    number = 0

    with tempfile.TemporaryDirectory() as folder:

        def charge() -> None:
            nonlocal number
            number += 1
            ledger, counts = Ledger(Path(folder, str(number))), RowCounts()
            for first in range(0, count, PART):
                counts.add(ledger.hashes(ids[first : first + PART]))
            terms = ChargeRequest("policy", Fraction(1), Fraction(0), rows=count, terms=RunTerms("id"))
            ledger.begin(terms, Identity("policy 1", bytes(32), "out"), counts)

        found = clock.race(charge, lambda: np.sort(noise), runs=3)
        note = f"{shown(found.ours)} / {shown(found.theirs)} for {count:,} ids"
        return Row("ledger: charge of a run's ids", "a sort of as many numbers", found.ratio, SORTING, note)
