"""A part of CSV as columns of texts, read and written by polars where it is installed, and without it where it is not.

Both find and write the same bytes; the grammar was checked before (`gate`), so neither is relied on to refuse.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.csv_grammar import FIELD, Gated, unquoted
from epsworth.values import NUMBER

if TYPE_CHECKING:
    import polars as pl

Indices = NDArray[np.int64]

WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
FIELDS = re.compile(rf"({FIELD.decode()})[,\n]")
MOST = 2**63


class UnlikeReading(ValueError):
    """A reader did not find what the grammar says; nothing of what it said is kept, as that may show values."""


@dataclass(frozen=True)
class Words:
    """The texts that a column may send.

    Attributes
    ----------
    texts : list of str
    alone : bool
        Whether it is the only column: a blank field then stands in quotes: many readers take a blank line for no row.
    """

    texts: list[str]
    alone: bool = False

    @cached_property
    def fields(self) -> list[str]:
        """The fields that hold them; the texts themselves where none needs quotes."""
        if not needs_quotes("".join(self.texts)) and not (self.alone and not all(map(str.strip, self.texts))):
            return self.texts
        return [
            _quoted(text) if needs_quotes(text) or (self.alone and not text.strip()) else text for text in self.texts
        ]

    @cached_property
    def series(self) -> pl.Series:
        """The texts, for polars."""
        import polars as pl

        return pl.Series(self.texts, dtype=pl.String)

    @cached_property
    def series_of_fields(self) -> pl.Series:
        """The fields, for polars."""
        import polars as pl

        return self.series if self.fields is self.texts else pl.Series(self.fields, dtype=pl.String)


@dataclass(frozen=True)
class Sent:
    """What stands in place of a column: for each row the position of one of its words."""

    words: Words
    at: Indices


class Texts(ABC):
    """One column of a part."""

    @abstractmethod
    def numbers(self) -> Floats | None:
        """Return the numbers that the texts are; None where one is none, or not finite."""

    @abstractmethod
    def whole_numbers(self) -> Indices | None:
        """Return the whole numbers that the texts are; None where one is none, or written in another way."""

    @abstractmethod
    def distinct(self) -> tuple[list[str], Indices]:
        """Return every text once, and for each row the position of its own."""

    @abstractmethod
    def marked(self) -> int | None:
        """Return the first row whose text holds a comma or a quote."""

    @abstractmethod
    def tell(self) -> list[str]:
        """Return the texts."""

    @abstractmethod
    def agree(self, found: Any) -> bool:
        """Tell whether an arrow column holds just these texts."""


class Table(ABC):
    """The fields of a part, as texts."""

    @abstractmethod
    def column(self, at: int) -> Texts:
        """Return one column."""

    @abstractmethod
    def write(self, kept: Sequence[int], sent: Mapping[int, Sent]) -> tuple[bytes, list[Texts]]:
        """Return the records of the columns that are kept, some of them replaced, and the texts in them."""


class PolarsTexts(Texts):
    """A series of polars."""

    def __init__(self, series: pl.Series) -> None:
        self.series = series

    def numbers(self) -> Floats | None:
        """Return the numbers, by polars' own conversion: it takes no more than `NUMBER` but what is not finite."""
        import polars as pl

        found = self.series.cast(pl.Float64, strict=False)
        if found.null_count():
            found = self.series.str.strip_chars(" \t").cast(pl.Float64, strict=False)
        if found.null_count() or not found.is_finite().all():
            return None
        return found.to_numpy()

    def whole_numbers(self) -> Indices | None:
        """Return the whole numbers, where writing them gives the texts again."""
        import polars as pl

        found = self.series.cast(pl.Int64, strict=False)
        if found.null_count() or not found.cast(pl.String).equals(self.series):
            return None
        return found.to_numpy()

    def distinct(self) -> tuple[list[str], Indices]:
        """Return what polars finds."""
        import polars as pl

        known = self.series.unique().to_list()
        if not known:
            return [], np.empty(0, dtype=np.int64)
        return known, self.series.replace_strict(known, range(len(known)), return_dtype=pl.Int64).to_numpy()

    def marked(self) -> int | None:
        """Return where an expression matches first."""
        found = self.series.str.contains('[,"]')
        return found.arg_max() if found.any() else None

    def tell(self) -> list[str]:
        """Return a list."""
        texts: list[str] = self.series.to_list()
        return texts

    def agree(self, found: Any) -> bool:
        """Compare as series."""
        import polars as pl

        read = pl.from_arrow(found)
        return isinstance(read, pl.Series) and read.equals(self.series)


class PolarsTable(Table):
    """A data frame of texts."""

    def __init__(self, gated: Gated, width: int, columns: list[int]) -> None:
        import polars as pl

        self.quoted = gated.quoted
        if width == 1:  # polars takes a blank line for no row, or for one, as it likes
            self.frame = pl.DataFrame({"0": PlainTable(gated, width, [0]).columns[0]}, schema={"0": pl.String})
            return
        names = [str(at) for at in range(width)]
        block = ",".join(names).encode() + b"\n" + gated.block  # a mark, or a name, in the first record stays a text
        try:
            frame = pl.read_csv(
                block,
                columns=columns if len(columns) < width else None,
                schema=dict.fromkeys(names, pl.String),
                quote_char='"' if gated.quoted else None,
            )
        except pl.exceptions.PolarsError:
            raise UnlikeReading from None
        if frame.shape != (gated.rows, len(columns)):
            raise UnlikeReading
        self.frame = frame.fill_null("") if any(series.null_count() for series in frame) else frame

    def column(self, at: int) -> Texts:
        """Return a series."""
        return PolarsTexts(self.frame.get_column(str(at)))

    def write(self, kept: Sequence[int], sent: Mapping[int, Sent]) -> tuple[bytes, list[Texts]]:
        """Write no quotes in a part without them but those of words; else where a field needs them."""
        import polars as pl

        new = {at: made.words.series.gather(np.asarray(made.at)) for at, made in sent.items()}
        frame = pl.DataFrame([new[at].alias(str(at)) if at in new else self.frame.get_column(str(at)) for at in kept])
        plain = not self.quoted or len(kept) == len(sent)  # all fields are free of quotes, or come with their own
        fields = {at: made.words for at, made in sent.items() if plain and made.words.fields is not made.words.texts}
        shown = frame.with_columns(
            *(words.series_of_fields.gather(np.asarray(sent[at].at)).alias(str(at)) for at, words in fields.items())
        )
        out = io.BytesIO()
        if plain:
            shown.write_csv(out, include_header=False, quote_style="never")
        else:  # an empty text would be quoted, too; a gap is not
            shown.with_columns(pl.when(pl.all() != "").then(pl.all())).write_csv(
                out, include_header=False, quote_style="necessary"
            )
        return out.getvalue(), [PolarsTexts(series) for series in frame]


class PlainTexts(Texts):
    """A list."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)

    def numbers(self) -> Floats | None:
        """Return Python's numbers."""
        if not all(map(NUMBER.fullmatch, self.texts)):
            return None
        found = np.array([float(text) for text in self.texts], dtype=np.float64)
        return found if np.isfinite(found).all() else None

    def whole_numbers(self) -> Indices | None:
        """Return Python's numbers, if 64 bits hold them."""
        if not all(map(WHOLE.fullmatch, self.texts)) or any(len(text) > 20 or text == "-0" for text in self.texts):
            return None
        found = [int(text) for text in self.texts]
        return np.array(found, dtype=np.int64) if all(-MOST <= n < MOST for n in found) else None

    def distinct(self) -> tuple[list[str], Indices]:
        """Return them in the order of their first rows."""
        known = {text: i for i, text in enumerate(dict.fromkeys(self.texts))}
        return list(known), np.array([known[text] for text in self.texts], dtype=np.int64)

    def marked(self) -> int | None:
        """Return the first such row."""
        return next((row for row, text in enumerate(self.texts) if "," in text or '"' in text), None)

    def tell(self) -> list[str]:
        """Return the list."""
        return self.texts

    def agree(self, found: Any) -> bool:
        """Compare as lists."""
        return bool(found.to_pylist() == self.texts)


class PlainTable(Table):
    """Columns of Python's texts."""

    def __init__(self, gated: Gated, width: int, columns: list[int]) -> None:
        self.quoted = gated.quoted
        text = gated.block.decode("utf-8")
        if gated.quoted:
            found: list[str] = [unquoted(field) for field in FIELDS.findall(text)]
        else:
            found = text[:-1].replace("\n", ",").split(",")
        if len(found) != gated.rows * width:
            raise UnlikeReading
        self.columns = {at: found[at::width] for at in columns}

    def column(self, at: int) -> Texts:
        """Return a list."""
        return PlainTexts(self.columns[at])

    def write(self, kept: Sequence[int], sent: Mapping[int, Sent]) -> tuple[bytes, list[Texts]]:
        """Join the fields."""
        shown, columns = [], []
        for at in kept:
            if at in sent:
                positions, words = np.asarray(sent[at].at).tolist(), sent[at].words
                columns.append([words.texts[j] for j in positions])
                shown.append([words.fields[j] for j in positions])
            else:
                columns.append(self.columns[at])
                shown.append(
                    [_quoted(t) if needs_quotes(t) else t for t in columns[-1]] if self.quoted else columns[-1]
                )
        out = "".join(",".join(row) + "\n" for row in zip(*shown, strict=True))
        return out.encode("utf-8"), [PlainTexts(column) for column in columns]


try:
    import polars  # noqa: F401

    INSTALLED: type[PolarsTable] | type[PlainTable] = PolarsTable
except ImportError:
    INSTALLED = PlainTable


def read(gated: Gated, width: int, columns: list[int]) -> Table:
    """Return the fields of some columns of a part; it must have ``width`` of them."""
    return INSTALLED(gated, width, columns)


def needs_quotes(text: str) -> bool:
    """Tell whether a text must stand in quotes."""
    return "," in text or '"' in text or "\n" in text or "\r" in text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
