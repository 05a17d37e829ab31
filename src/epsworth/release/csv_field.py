"""One column of a CSV file under a policy's rule: texts to the kernel's inputs, drawn values to texts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.csv_text import Sent, Texts, Words
from epsworth.release.columns import Column, Indices, centre, spread
from epsworth.release.placed import Placed
from epsworth.release.policy import Policy
from epsworth.values import Categories, numbers, spelling


class CsvField:
    """How one column is read from and written to CSV.

    ``alone``: it is the only column that is written, so an empty field stands in quotes: many readers take a blank
    line for no row.
    """

    def __init__(self, column: Column | Placed, *, alone: bool = False) -> None:
        self.column, self.alone = column, alone
        categories = column.feature.categories or ()
        if any("\n" in str(value) or "\r" in str(value) for value in categories):
            raise ValueError(
                f"{column.feature.name}: a category holds a line break, which in CSV could end a row; release "
                ".jsonl or .parquet"
            )
        self.categories = Categories(categories)

    @cached_property
    def words(self) -> Words:
        """The words of all public values."""
        return Words(_csv_words(self.column.values), self.alone)

    def encode(self, texts: Texts, first: int) -> Indices:
        """Return the kernel's inputs for the texts of a part, the first of which is row ``first``."""
        assert isinstance(self.column, Column)
        if self.column.feature.categories is not None:
            known, at = texts.distinct()
            return self.column.resolve(self.column.kinds(map(self.categories.read, known))[at], first)
        found = texts.numbers()
        if found is None:  # a gap, no number, or one that is too large for a double
            known, at = texts.distinct()
            found = numbers(known)[at]
        return self.column.encode_numbers(found, first)

    def places(self, texts: Texts) -> Indices:
        """Return where the texts of a part lie on a tailored policy's grid; none is refused."""
        assert isinstance(self.column, Placed)
        known, at = texts.distinct()
        if self.column.feature.categories is not None:
            return self.column.places([self.categories.read(text) for text in known])[at]
        return self.column.places(numbers(known))[at]

    def sent(self, drawn: Indices, keep: Bools | None, policy: Policy) -> Sent:
        """Return the words to write; where ``keep`` is false, those of a feature that is not released."""
        at = np.asarray(drawn)
        if isinstance(self.column, Placed):  # few of its values leave
            places, at = np.unique(at, return_inverse=True)
            return Sent(Words(_csv_words(self.column.values[places]), self.alone), at)
        if keep is None:
            return Sent(self.words, at)
        words = self._words_of_samples(policy)
        return Sent(words, np.where(keep, at, len(words.texts) - 1))

    def _words_of_samples(self, policy: Policy) -> Words:
        """Return the words where a record releases some features only; the last is that of those it does not."""
        if self._of_samples is None:
            assert policy.sampling is not None
            values, last = self.column.values, ""
            values = values.astype(np.float64) if values.dtype.kind == "i" else values  # gaps make doubles of frames
            if policy.sampling.unsampled == "scaled":
                values = spread(self.column.feature, values, len(policy.rules) / policy.sampling.features)
                last = spelling(centre(self.column.feature))
            self._of_samples = Words([*_csv_words(values), last], self.alone)
        return self._of_samples

    _of_samples: Words | None = None


def _csv_words(values: NDArray[Any]) -> list[str]:
    return list(map(str if values.dtype.kind == "f" else spelling, values.tolist()))
