"""Splits on categories as splits on numbers: each becomes a column of its own, which tells the side of a code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.columns import Columns

MIDDLE = 0.5  # where a column of sides is split
Table = tuple[Floats, NDArray[np.intp], Floats]


def cut_off(values: Floats) -> Floats:
    """Return codes as LightGBM reads them off doubles."""
    return np.trunc(values)


def rounded_down(values: Floats) -> Floats:
    """Return codes as XGBoost reads them off single precision: nothing below 0 is one."""
    with np.errstate(over="ignore"):
        return np.floor(values.astype(np.float32)).astype(np.float64)


class Sides:
    """Columns beside those of codes and numbers: 0 for a code that a split sends left, 1 for right, NaN for missing.

    Parameters
    ----------
    width : int
        How many columns of codes and numbers there are.
    other, gap : float
        The sides of codes that no split names, and of missing ones.
    read : callable
        From numbers in a column of codes to whole ones.
    """

    def __init__(
        self, width: int, *, other: float, gap: float = np.nan, read: Callable[[Floats], Floats] = cut_off
    ) -> None:
        self.width, self.other, self.gap, self.read = width, other, gap, read
        self.splits: dict[tuple[int, tuple[tuple[int, float], ...]], int] = {}

    def column(self, feature: int, left: Iterable[int] = (), right: Iterable[int] = ()) -> int:
        """Return the column of a split on a feature, equal ones once."""
        sides = {int(code): 0.0 for code in left} | {int(code): 1.0 for code in right}
        return self.splits.setdefault((feature, tuple(sorted(sides.items()))), self.width + len(self.splits))

    @cached_property
    def tables(self) -> dict[int, Table]:
        """Of every feature the codes that its splits name, the columns of these, and their sides of the codes.

        Two rows more are those of other codes and of missing ones.
        """
        found = {}
        for feature in {feature for feature, _ in self.splits}:
            own = [(dict(sides), at) for (of, sides), at in self.splits.items() if of == feature]
            named = sorted({code for sides, _ in own for code in sides})
            rows = [[sides.get(code, self.other) for sides, _ in own] for code in named]
            rows += [[self.other] * len(own), [self.gap] * len(own)]
            columns = np.array([at for _, at in own], dtype=np.intp)
            found[feature] = np.array(named, dtype=np.float64), columns, np.array(rows)
        return found

    def transform(self, seen: Floats) -> Floats:
        """Return the columns of codes and numbers, and behind them those of sides."""
        found = np.empty((len(seen), self.width + len(self.splits)))
        found[:, : self.width] = seen
        for feature, (named, columns, sides) in self.tables.items():
            values = np.asarray(seen[:, feature], dtype=np.float64)
            codes = self.read(values)
            place = np.searchsorted(named, codes)
            known = np.append(named, np.nan)[place] == codes
            place = np.where(known, place, len(named) + np.isnan(values))
            found[:, columns] = sides[place]
        return found

    def columns(self, given: Columns, codes: Bools, kind: str) -> Columns:
        """Return what is known of the columns: codes and sides keep no order, numbers are those that were given."""
        features = [feature for feature, _ in self.splits]
        found = given.taken(np.append(np.arange(self.width), features).astype(np.intp))
        kept = np.append(~codes, np.zeros(len(features), dtype=bool))
        bent, rows = found.bent(0).behind(kind), kept[:, np.newaxis]
        return replace(
            bent,
            order=np.where(kept, found.order, 0).astype(np.int8),
            slopes=np.where(rows, found.slopes, bent.slopes),
            terms=np.where(rows, found.terms, bent.terms),
            constants=np.where(kept, found.constants, bent.constants),
            lost=np.where(kept, found.lost, bent.lost),
        )

    def probes(self, rng: np.random.Generator, count: int) -> dict[int, Floats]:
        """Return values of every column of codes that is split: codes that splits name, and others beside them."""
        named = {feature: table[0] for feature, table in self.tables.items()}
        return {
            feature: rng.choice(np.concatenate([own, own, own + 0.5, own + 1, [-1.0]]), count)
            for feature, own in named.items()
        }
