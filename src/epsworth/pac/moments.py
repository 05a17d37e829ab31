"""Many worlds in one pass over the pool: where sums over its rows decide an output, all worlds are one product.

Sums are exact.  Moments, less the pool's mean, become whole multiples of 2**-35 of their largest; three digits of
twelve bits each are summed in single precision, at most `ROWS` rows at a time, so that no sum leaves the whole numbers
below 2**24.  So an output is the same to the last bit however many worlds are done together, on any number of threads,
and a fresh sub-sample's is that of the function that was certified: only the function differs from a fit, by at most
2**-36 of the largest moment in every mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.pac.mechanism import Labels, Mechanism, as_numbers
from epsworth.pac.worlds import Bytes, Sampler
from epsworth.records import Indices

Whole = NDArray[np.int64]
DIGIT, DIGITS = 12, 3
ROWS = 1 << 13  # summed together: 2**13 digits of at most 2**11 stay below 2**24
CELLS = 1 << 21  # of a chunk's digits
MOST_MOMENTS = 4096
MOST_ROWS = 1 << 27  # 2**27 rows of 2**35 stay within 64 bits
TOGETHER = 1 << 27  # bytes of packed worlds that are done together
WORK = 2.0**36  # additions that are done together


@dataclass(frozen=True, eq=False)
class Moments:
    """The pool's moments as whole numbers.

    Attributes
    ----------
    centre, unit : ndarray, shape ``(k,)``
        A moment is the centre plus a whole number of units.
    total : ndarray of int64, shape ``(k + 1,)``
        Sums over the pool, of ones last.
    """

    centre: Floats
    unit: Floats
    total: Whole

    @classmethod
    def of(cls, mechanism: Mechanism, X: Floats, y: Labels | None) -> Moments | None:
        """Return the pool's moments, or None where the mechanism declares none that can be summed exactly."""
        first = _moments(mechanism, X[:1], y, slice(0, 1))
        if first is None or not 1 <= first.shape[1] <= MOST_MOMENTS or len(X) > MOST_ROWS:
            return None
        found = [(part.sum(axis=0), part.min(axis=0), part.max(axis=0)) for part in _parts(mechanism, X, y)]
        sums, least, most = (np.array(column) for column in zip(*found, strict=True))
        if not (np.isfinite(sums).all() and np.abs(sums).max() < LARGEST):
            return None
        centre = sums.sum(axis=0) / len(X)
        away = np.maximum(most.max(axis=0) - centre, centre - least.min(axis=0))
        unit = np.ldexp(1.0, np.maximum(np.frexp(away)[1] - (DIGIT * DIGITS - 1), -1000))
        empty = cls(centre, unit, np.zeros(len(centre) + 1, dtype=np.int64))
        total = empty.sums(mechanism, X, y, np.full((1, -(-len(X) // 8)), 255, dtype=np.uint8))
        whole = None
        with suppress(Exception):  # as of a world
            whole = mechanism.from_moments(centre.copy(), len(X))
        if whole is not None:
            as_numbers(whole)
        return cls(centre, unit, total[0])

    def means(self, sums: Whole) -> Floats:
        """Return the means of moments, from sums whose last column counts the rows."""
        return np.asarray(self.centre + self.unit * (sums[:, :-1] / sums[:, -1:]))

    def sums(
        self, mechanism: Mechanism, X: Floats, y: Labels | None, bits: Bytes, of_row: Indices | None = None
    ) -> Whole:  # fmt: skip
        """Return the sums over worlds, shape ``(len(bits), k + 1)``.

        Parameters
        ----------
        bits : ndarray of uint8, shape ``(w, ceil(units / 8))``
            Which units each world holds, eight to a byte.
        of_row : ndarray of int, optional
            Unit of every row; by default rows are units.
        """
        order = None if of_row is None else np.argsort(of_row, kind="stable")
        found = np.zeros((len(bits), DIGITS * len(self.unit) + 1))
        for at in _chunks(len(X), found.shape[1]):
            rows: Indices | slice = at if order is None else order[at]
            held = _bits(bits, at.start, at.stop) if of_row is None else _gathered(bits, of_row[rows])
            moments = _moments(mechanism, X[rows], y, rows)
            if moments is None:
                raise ValueError("moments must be declared for all rows or for none")
            found += held.astype(np.float32) @ self._digits(moments)
        digits = found[:, :-1].reshape(len(bits), DIGITS, -1).astype(np.int64)
        places = np.int64(1) << (DIGIT * np.arange(DIGITS, dtype=np.int64))
        return np.column_stack([(digits * places[:, np.newaxis]).sum(axis=1), found[:, -1].astype(np.int64)])

    def _digits(self, moments: Floats) -> NDArray[np.float32]:
        """Return balanced digits of the rows' whole numbers, lowest first, and a column of ones."""
        left, found = np.rint((moments - self.centre) / self.unit), []
        for _ in range(DIGITS - 1):
            carried = np.rint(left / (1 << DIGIT))
            found.append(left - carried * (1 << DIGIT))
            left = carried
        return np.column_stack([*found, left, np.ones(len(left))]).astype(np.float32)


LARGEST = 1e150  # beyond, the plain fit has to say what it makes of such numbers


def together(rows: int, moments: int) -> int:
    """Return how many worlds are done in one pass: within memory, and not for long without a sign of life."""
    by_work = WORK / (rows * (DIGITS * moments + 1))
    return int(min(1024, max(64, by_work), max(32, 8 * TOGETHER / rows))) // 32 * 32


def listed_sums(
    moments: Moments, mechanism: Mechanism, X: Floats, y: Labels | None, sampler: Sampler, worlds: range
) -> Whole:  # fmt: skip
    """Return the sums over listed worlds; that of a complement is the pool's less the other one's."""
    of_row = sampler.units.of_row
    alike = len(sampler.units) == len(of_row) and bool((np.diff(of_row) > 0).all())  # every row is a unit, in order
    step = 2 if sampler.paired else 1
    drawn = range(worlds.start // step * step, worlds.stop, step)
    sums = moments.sums(mechanism, X, y, sampler.packed(drawn), None if alike else of_row)
    if not sampler.paired:
        return sums
    both = np.stack([sums, moments.total - sums], axis=1).reshape(-1, sums.shape[1])
    return both[worlds.start - drawn.start :][: len(worlds)]


def _moments(mechanism: Mechanism, X: Floats, y: Labels | None, rows: Indices | slice) -> Floats | None:
    found = mechanism.moments(X, None if y is None else y[rows])
    return None if found is None else as_numbers(found, "the moments")


def _parts(mechanism: Mechanism, X: Floats, y: Labels | None) -> Iterator[Floats]:
    for at in _chunks(len(X), MOST_MOMENTS):
        part = _moments(mechanism, X[at], y, at)
        if part is not None:
            yield part


def _chunks(count: int, columns: int) -> list[slice]:
    """Cut rows at multiples of eight."""
    step = min(ROWS, max(64, CELLS // columns // 8 * 8))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _bits(bits: Bytes, start: int, stop: int) -> Bytes:
    """Unpack places from a multiple of eight on."""
    return np.unpackbits(bits[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start)


def _gathered(bits: Bytes, units: Indices) -> Bytes:
    """Unpack those of ascending units, which may repeat."""
    first = int(units[0]) // 8 * 8
    return _bits(bits, first, int(units[-1]) + 1)[:, units - first]


def outputs_of(
    mechanism: Mechanism, means: Floats, counts: Whole, plain: Callable[[int], Floats | None]
) -> Iterator[Floats | None]:  # fmt: skip
    """Yield a world's output by its means; a plain fit where they do not settle it, None where the fit fails."""
    for i in range(len(means)):
        try:
            found = mechanism.from_moments(means[i].copy(), int(counts[i]))
            found = None if found is None else as_numbers(found)
        except Exception:  # as of a plain fit
            yield None
            continue
        yield plain(i) if found is None else found
