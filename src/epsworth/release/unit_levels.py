"""The files of all runs' units: few, as those of one level are put together once they are many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from epsworth.release.ledger_prices import Price
from epsworth.release.ledger_tables import Tables
from epsworth.release.unit_files import ENDING, NEW, WIDTHS, Charges, Kind, UnitFile, Words, in_pieces, together, write

MOST_FILES = 4  # of one level


def kept(folder: Path, tables: Tables, asked: Price, run: str, files: list[UnitFile]) -> UnitFile:
    """Write the units of a run, together with those of files that are many, and tell the database.

    Parameters
    ----------
    run : str
        Its name.
    files : list of UnitFile
        Those of the runs before.
    """
    assert asked.units is not None
    assert asked.counts is not None
    name, new = run + ENDING, run + NEW
    former, level = _put_together(files)
    if not former:
        kind: Kind = "counts" if asked.most > 1 else "ones"
        size, sha256 = write(folder, new, in_pieces(*(asked.units, asked.counts)[: WIDTHS[kind]]))
        file = UnitFile(name, kind, size, sha256, asked.epsilon, asked.delta, asked.most, 1, level)
        tables.add(file, former)
        return file
    every = [Charges.of(asked.units, asked.counts, asked.epsilon, asked.delta)]
    every += [file.read(folder) for file in former]
    largest = [0, 0]

    def sums() -> Iterator[Words]:
        for units, epsilon, delta in together(every):
            largest[0] = max(largest[0], int(epsilon.max(initial=0)))
            largest[1] = max(largest[1], int(delta.max(initial=0)))
            yield np.column_stack([units, epsilon, delta])

    size, sha256 = write(folder, new, sums())
    runs = 1 + sum(file.runs for file in former)
    file = UnitFile(name, "sums", size, sha256, largest[0], largest[1], 1, runs, level)
    tables.add(file, former)
    return file


def _put_together(files: list[UnitFile]) -> tuple[list[UnitFile], int]:
    """Return the newest files that go into one with a run's units, and how often that was put together then.

    Of each level there are at most so many files, so a unit is written again a logarithmic number of times.
    """
    former: list[UnitFile] = []
    level = 0
    while len(same := [file for file in files if file.level == level]) >= MOST_FILES:
        former, level = [*same, *former], level + 1
    return former, level
