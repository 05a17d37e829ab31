"""The tailored kind: find the region of a record, draw one at random once, send what stands for it.

What is within reach, what stands for it and the kernel between come from the policy and from what is public of the
record.  Its sensitive values choose a row of that kernel, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from epsworth.client.copies import listed, read_copy, rows, wholes
from epsworth.client.grids import PLAIN, codes, ends, natural, place
from epsworth.client.kernels import WORD, TwoLevel, exp_below
from epsworth.client.reading import number, table, whole

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from fractions import Fraction
    from typing import Any

MOST_REGIONS, MOST_INPUTS, MOST_LEAVES = 256, 4096, 64
MOST_REPRESENTATIVES = 1 << 12  # of one region
MOST_PLACES = 1 << 20
MOST_CONTEXTS = 1 << 10  # that are remembered
WEIGHT = re.compile(r"0|[1-9][0-9]{0,19}")
ENTRIES = ("epsilon", "inputs", "kernel", "representatives", "default", "draw", "copy")


class Tailored:
    """The public tables of a tailored policy, read and proven.

    Parameters
    ----------
    given : object
        The policy's member ``tailored``.
    epsilon : callable
        From a path and its entry to the stated number.
    """

    def __init__(self, given: Any, epsilon: Callable[[str, Any], Fraction]) -> None:
        entry = table("tailored", given, ENTRIES)
        inputs = listed("tailored.inputs", entry["inputs"])
        if not 1 <= len(inputs) <= MOST_INPUTS:
            raise ValueError(f"tailored.inputs: must be 1 to {MOST_INPUTS}; write the policy anew")
        self.inputs = [_Input(f"tailored.inputs[{i}]", one) for i, one in enumerate(inputs)]
        self.names = [one.name for one in self.inputs]
        self._hidden = [i for i, one in enumerate(self.inputs) if one.sensitive]
        self.sensitive = [self.names[i] for i in self._hidden]
        if not self._hidden or len(set(self.names)) < len(self.names):
            raise ValueError("tailored.inputs: one must be sensitive, and names differ; write the policy anew")
        standing = listed("tailored.representatives", entry["representatives"])
        if not 1 <= len(standing) <= MOST_REGIONS:
            raise ValueError(f"tailored.representatives: must be of 1 to {MOST_REGIONS} regions; write it anew")
        self._standing = [self._places(f"tailored.representatives[{i}]", part) for i, part in enumerate(standing)]
        (self._default,) = self._places("tailored.default", [entry["default"]])
        if type(entry["draw"]) is not bool:
            raise ValueError("tailored.draw: must be true or false; write the policy anew")
        self._draw: bool = entry["draw"]
        seen = [(one.places, one.ordered) for one in self.inputs]
        self._copy = read_copy("tailored.copy", entry["copy"], seen, len(standing))
        stated = epsilon("tailored.epsilon", entry["epsilon"])
        self._randomiser = _randomiser(entry["kernel"], stated, len(standing), seen, self._hidden)
        self._reach: dict[tuple[int, ...], list[int]] = {}

    @property
    def words(self) -> int:
        """How many words a record takes, where none is drawn anew; at most."""
        return 2 if self._draw else 1

    def places(self, values: Mapping[str, Any]) -> list[int]:
        """Return the places of a record, whatever it holds; what is absent is missing."""
        return [one.place(values.get(one.name)) for one in self.inputs]

    def seen(self, true: Sequence[int], released: Mapping[str, Any]) -> list[int]:
        """Return places with the released values of what rules perturb: all that may choose what is within reach."""
        return [
            one.place(released[one.name]) if one.name in released else at
            for one, at in zip(self.inputs, true, strict=True)
        ]

    def sent(self, true: Sequence[int], seen: Sequence[int], words: Iterator[int]) -> dict[str, Any]:
        """Return what is sent in place of the sensitive columns."""
        public = list(seen)
        for column in self._hidden:
            public[column] = 0
        standing = self._within(public)
        present = [region for region, first in enumerate(standing) if first >= 0]
        row = self._default
        if present:
            region = self._randomiser.draw(public, present, self._copy.region(true), words)
            row = self._standing[region][self._number(public, region, standing[region], words)]
        return {self.names[column]: self.inputs[column].value(at) for column, at in zip(self._hidden, row, strict=True)}

    def _within(self, public: list[int]) -> list[int]:
        """Return the first representative of each region that the copy takes for one there; -1 where there is none."""
        key = tuple(public)
        if key not in self._reach:
            if len(self._reach) >= MOST_CONTEXTS:
                self._reach.clear()
            self._reach[key] = [
                next((n for n, row in enumerate(own) if self._stands(public, row, region)), -1)
                for region, own in enumerate(self._standing)
            ]
        return self._reach[key]

    def _stands(self, public: list[int], row: list[int], region: int) -> bool:
        tried = list(public)
        for column, at in zip(self._hidden, row, strict=True):
            tried[column] = at
        return self._copy.region(tried) == region

    def _number(self, public: list[int], region: int, first: int, words: Iterator[int]) -> int:
        """Return which representative is sent; where any may be, all that stand there are equally likely."""
        if not self._draw:
            return first
        fine = [n for n, row in enumerate(self._standing[region]) if self._stands(public, row, region)]
        word, most = next(words), WORD - WORD % len(fine)
        while word >= most:  # beyond the last multiple of their number
            word = next(words)
        return fine[word % len(fine)]

    def _places(self, where: str, given: Any) -> list[list[int]]:
        found = rows(where, given, len(self._hidden), 0, MOST_PLACES)
        if len(found) > MOST_REPRESENTATIVES:
            raise ValueError(f"{where}: must be at most {MOST_REPRESENTATIVES}; write the policy anew")
        for row in found:
            if any(at >= self.inputs[column].places for column, at in zip(self._hidden, row, strict=True)):
                raise ValueError(f"{where}: names a place that is not there; write the policy anew")
        return found


class _Input:
    """A column that the copy sees: whatever it holds to a place, a place to the value that leaves."""

    def __init__(self, where: str, given: Any) -> None:
        words = type(given) is dict and "categories" in given
        more = ("categories", "outside") if words else ("lower", "upper", "points")
        entry = table(where, given, ("name", "sensitive", "missing", *more))
        if type(entry["name"]) is not str or type(entry["sensitive"]) is not bool:
            raise ValueError(f"{where}: name must be a text, and sensitive true or false; write the policy anew")
        self.name: str = entry["name"]
        self.sensitive: bool = entry["sensitive"]
        self.ordered = not words
        if words:
            self._kinds, self._codes = entry["categories"], codes(where, entry["categories"])
            self.places = whole(f"{where}.categories", len(self._codes), 2, MOST_PLACES)
            for key in ("missing", "outside"):
                if type(entry[key]) not in PLAIN or entry[key] not in self._codes:
                    raise ValueError(f"{where}.{key}: must be one of the categories; write the policy anew")
            self._missing, self._outside = self._codes[entry["missing"]], self._codes[entry["outside"]]
            return
        self.places = whole(f"{where}.points", entry["points"], 2, MOST_PLACES)
        self._lower, self._upper = ends(where, entry)
        missing = number(f"{where}.missing", entry["missing"])
        if not self._lower <= missing <= self._upper:
            raise ValueError(f"{where}.missing: must lie in the range; write the policy anew")
        self._missing = self._of_number(missing)

    def place(self, value: Any) -> int:
        """Return the place of a value, whatever it is: never is one asked what it is like, nor refused."""
        kind = type(value)
        if not self.ordered:
            if value is None or (kind is float and value != value):
                return self._missing
            return self._codes.get(value, self._outside) if kind in PLAIN else self._outside
        if kind is int:
            try:
                value, kind = float(value), float
            except OverflowError:
                return self._missing
        return self._of_number(value) if kind is float and value - value == 0 else self._missing  # finite ones

    def _of_number(self, value: float) -> int:
        return place(value, self._lower, self._upper, self.places)

    def value(self, at: int) -> Any:
        """Return the natural value at a place."""
        return natural(at, self.places - 1, self._lower, self._upper) if self.ordered else self._kinds[at]


class _Response:
    """Randomised response between the regions within reach, or between the likeliest of them by a prior."""

    def __init__(
        self, entry: dict[str, Any], epsilon: Fraction, count: int, inputs: Sequence[tuple[int, bool]],
        hidden: Collection[int],
    ) -> None:  # fmt: skip
        self._prior: Any = None
        most = count
        if entry["kind"] == "average":
            orders = listed("tailored.kernel.orders", entry["orders"])
            self._orders = _orders("tailored.kernel.orders", orders, count)
            leaves = whole("tailored.kernel.orders", len(orders), 1, MOST_LEAVES)
            self._most = wholes("tailored.kernel.most", entry["most"], 1, count, leaves)
            most = max(self._most)
            self._prior = read_copy("tailored.kernel.prior", entry["prior"], inputs, leaves, ("tree",))
            if self._prior.asked() & set(hidden):
                raise ValueError("tailored.kernel.prior: asks about a sensitive column; it may see public ones alone")
        self._kernels = [TwoLevel("krr", epsilon, regions) for regions in range(2, most + 1)]
        for key in ("low", "high"):
            if entry[key] != [str(getattr(kernel, key)) for kernel in self._kernels]:
                raise ValueError(f"tailored.kernel.{key}: is not what epsilon gives; write the policy anew")

    def draw(self, public: Sequence[int], present: list[int], true: int, words: Iterator[int]) -> int:
        """Return a fresh region; a true one that is not among those drawn from takes the first's row."""
        if self._prior is not None:
            leaf = self._prior.region(public)
            present = [region for region in self._orders[leaf] if region in present][: self._most[leaf]]
        if len(present) == 1:
            return present[0]
        row = present.index(true) if true in present else 0
        return present[self._kernels[len(present) - 2].outcome(row, next(words))]


class _Gain:
    """A kernel between all regions; what is drawn and not within reach is replaced by what stands for it."""

    def __init__(self, entry: dict[str, Any], epsilon: Fraction, count: int) -> None:
        given = listed("tailored.kernel.rows", entry["rows"])
        if len(given) != count or not all(type(row) is list and len(row) == count for row in given):
            raise ValueError(f"tailored.kernel.rows: must be {count} lists of {count} weights; write the policy anew")
        if not all(type(weight) is str and WEIGHT.fullmatch(weight) for row in given for weight in row):
            raise ValueError("tailored.kernel.rows: weights must be texts of whole numbers; write the policy anew")
        self._rows = [[int(weight) for weight in row] for row in given]
        prove(self._rows, exp_below(epsilon))
        self._instead = _orders("tailored.kernel.instead", entry["instead"], count)
        if len(self._instead) != count:
            raise ValueError(f"tailored.kernel.instead: must be {count} orders; write the policy anew")

    def draw(self, public: Sequence[int], present: list[int], true: int, words: Iterator[int]) -> int:
        """Return a fresh region from the true one's row, or the first's where that is out of reach."""
        if len(present) == 1:
            return present[0]
        place, folded = {region: at for at, region in enumerate(present)}, [0] * len(present)
        for region, weight in enumerate(self._rows[true if true in place else present[0]]):
            folded[place[next(one for one in (region, *self._instead[region]) if one in place)]] += weight
        return present[alias(folded, next(words))]


def _randomiser(
    given: Any, epsilon: Fraction, count: int, inputs: Sequence[tuple[int, bool]], hidden: Collection[int]
) -> _Response | _Gain:
    kind = given.get("kind") if type(given) is dict else None
    if kind == "gain":
        return _Gain(table("tailored.kernel", given, ("kind", "rows", "instead")), epsilon, count)
    if kind not in ("worst", "average"):
        raise ValueError("tailored.kernel.kind: must be worst, average or gain; write the policy anew")
    more = ("prior", "orders", "most") if kind == "average" else ()
    return _Response(table("tailored.kernel", given, ("kind", "low", "high", *more)), epsilon, count, inputs, hidden)


def _orders(where: str, given: Any, count: int) -> list[list[int]]:
    found = rows(where, given, count, 0, count - 1)
    if any(len(set(row)) < count for row in found):
        raise ValueError(f"{where}: each must name all regions, each of them once; write the policy anew")
    return found


def prove(weights: Sequence[Sequence[int]], bound: Fraction) -> None:
    """Refuse rows that do not add up to 2^64, or of which two weights in a column differ by more than ``bound``."""
    for row in weights:
        if min(row) < 0 or sum(row) != WORD:
            raise ValueError("tailored.kernel.rows: a row does not add up to 2^64; write the policy anew")
    for column in zip(*weights, strict=True):
        if max(column) > bound * min(column):  # an empty column is empty in all rows
            raise ValueError("tailored.kernel.rows: two weights differ by more than e^epsilon; write the policy anew")


def alias(weights: Sequence[int], word: int) -> int:
    """Return the outcome of a word: the library's table of columns of equal capacity, filled in its order (Vose)."""
    bits = max(1, (len(weights) - 1).bit_length())
    capacity = 1 << (64 - bits)
    left = [*weights, *[0] * ((1 << bits) - len(weights))]
    kept, other = [0] * len(left), list(range(len(left)))
    short = [j for j, weight in enumerate(left) if weight < capacity]
    long = [j for j, weight in enumerate(left) if weight > capacity]
    while short:
        column, donor = short.pop(), long[-1]
        kept[column], other[column] = left[column], donor
        left[donor] -= capacity - left[column]
        if left[donor] <= capacity:
            long.pop()
            if left[donor] < capacity:
                short.append(donor)
    column, rest = word >> (64 - bits), word & (capacity - 1)
    return column if rest < kept[column] else other[column]
