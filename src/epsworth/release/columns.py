"""One column under a policy's rule: natural values -> public grid -> exact draw -> natural values.

What leaves is looked up in a table of the public grid's values, so nothing of the input's digits survives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.release.policy import Policy
from epsworth.release.rules import Rule, values_at
from epsworth.space import Feature
from epsworth.values import WORDS, is_missing, items, numbers, spelt_number

if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource

Indices = NDArray[np.int64]
MISSING, OUTSIDE = -1, -2


def centre(feature: Feature) -> float:
    """Return what stands for a number that a record does not release, where the others are scaled."""
    return (feature.lower + feature.upper) / 2


def spread(feature: Feature, values: Floats, factor: float) -> Floats:
    """Return numbers of a feature, scaled about its centre."""
    middle = centre(feature)
    return np.asarray(middle + factor * (values - middle))


class Column:
    """Encodes, draws and decodes one feature.

    Parameters
    ----------
    rule : Rule
    """

    def __init__(self, rule: Rule) -> None:
        self.rule, self.feature = rule, rule.feature

    @cached_property
    def values(self) -> NDArray[Any]:
        """The released values by output index, in natural units (rounded to the rule's grid where it has one)."""
        points = self.rule.kernel.points
        unit, grid = np.arange(points) / (points - 1), points
        if self.rule.points is not None:  # post-processing: the nearest point of the coarser grid
            grid = self.rule.points
            unit = np.rint(unit * (grid - 1)) / (grid - 1)
        return values_at(self.feature, unit, grid)

    def encode(self, values: Any, first: int = 0, read: Callable[[Any], float] = spelt_number) -> Indices:
        """Return the kernel's inputs for natural values, whatever they are.

        Claim: whether a value is refused depends on the policy alone, where it says what stands for missing values and
        for undeclared categories: nothing is refused, and nothing warned of, then.

        Parameters
        ----------
        values : array of shape ``(n,)``, or iterable of any values
        first : int
            Number of the first row, for messages.
        read : callable
            How a single value is read as a number (`spelt_number` in tables, `number` where values have types).
        """
        if self.feature.categories is None:
            return self.encode_numbers(numbers(values, read), first)
        return self.resolve(self.kinds(values), first)

    def encode_numbers(self, natural: Floats, first: int = 0) -> Indices:
        """Return the kernel's inputs for numbers; NaN is missing, and what lies outside the range is clamped."""
        if natural.ndim != 1:  # a record with two values would be drawn for twice
            raise ValueError(
                f"{self.feature.name}: the column holds more than one value per record; give each a column of its own"
            )
        missing = np.isnan(natural)
        if missing.any():
            natural = np.where(missing, self._instead("missing", missing, first), natural)
        low, high = self.feature.lower, self.feature.upper
        with np.errstate(all="ignore"):  # whatever is tiny
            return self.rule.kernel.index((np.clip(natural, low, high) - low) / (high - low))

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {category: i for i, category in enumerate(self.feature.categories or ())}

    def kinds(self, values: Any) -> Indices:
        """Return the index of every category, `MISSING` for gaps, `OUTSIDE` for all that is not declared."""
        codes = self._codes
        found = [
            MISSING if is_missing(v) else codes.get(v, OUTSIDE) if type(v) in WORDS else OUTSIDE for v in items(values)
        ]
        return np.array(found, dtype=np.int64)

    def resolve(self, kinds: Indices, first: int = 0) -> Indices:
        """Return the kernel's inputs for categories (see `kinds`), by the rule for missing and undeclared ones."""
        for kind, code in (("missing", MISSING), ("outside", OUTSIDE)):
            where = kinds == code
            if where.any():
                (instead,) = self.kinds([self._instead(kind, where, first)])
                kinds = np.where(where, instead, kinds)
        return kinds

    def _instead(self, kind: str, where: Bools, first: int) -> Any:
        """Return what stands for such a value, or refuse it; the message names the row, never the value."""
        value = getattr(self.rule, kind)
        if value is None:
            row = first + int(np.argmax(where))
            gap = "is missing" if self.feature.categories is not None else "is missing, or not a number"
            what = gap if kind == "missing" else "is not a declared category"
            raise ValueError(
                f"row {row}, {self.feature.name}: the value {what}, and the policy refuses that; repair the row, "
                f"or let the policy say what stands for it (features.{self.feature.name}.{kind} = ...)"
            )
        return value

    def draw(self, inputs: Indices, words: WordSource | None = None) -> Indices:
        """Return indices into `values`, one per input; fresh on every call."""
        return self.rule.kernel.draw(inputs, words=words)

    def released(self, drawn: Indices, keep: Bools | None, policy: Policy) -> NDArray[Any]:
        """Return natural values; where ``keep`` is false the record does not release this feature."""
        values: NDArray[Any] = self.values[np.asarray(drawn)]
        if keep is None or policy.sampling is None:
            return values
        if policy.sampling.unsampled == "scaled":
            factor = len(policy.rules) / policy.sampling.features
            return np.where(keep, spread(self.feature, values, factor), centre(self.feature))
        if self.feature.categories is None:
            return np.where(keep, values, np.nan)
        values = values.astype(object)
        values[~keep] = None
        return values
