"""A part of CSV as columns of texts, read and written by polars; what may stand there the grammar has said before."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from epsworth.arrays import Floats, Indices
from epsworth.csv_grammar import Gated, unquoted
from epsworth.extras import needed

if TYPE_CHECKING:
    import polars as pl


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


class Texts:
    """One column of a part."""

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


class Table:
    """The fields of some columns of a part, as texts; it must have ``width`` of them."""

    def __init__(self, gated: Gated, width: int, columns: list[int]) -> None:
        needed("polars", "files", "reading a table")
        import polars as pl

        self.quoted = gated.quoted
        if width == 1:  # polars takes a blank line for no row, or for one, as it likes
            texts = gated.block.decode("utf-8")[:-1].split("\n") if gated.rows else []
            self.frame = pl.DataFrame({"0": [unquoted(text) for text in texts]}, schema={"0": pl.String})
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
        except pl.exceptions.PolarsError:  # in words that may show values
            frame = pl.DataFrame()
        if frame.shape != (gated.rows, len(columns)):
            raise ValueError("polars does not find the records that the grammar of CSV does; nothing was written")
        self.frame = frame.fill_null("") if any(series.null_count() for series in frame) else frame

    def column(self, at: int) -> Texts:
        """Return a series."""
        return Texts(self.frame.get_column(str(at)))

    def write(self, kept: Sequence[int], sent: Mapping[int, Sent]) -> bytes:
        """Write no quotes in a part without them but those of words; else where a field needs them."""
        import polars as pl

        new = {at: made.words.series.gather(np.asarray(made.at)) for at, made in sent.items()}
        frame = pl.DataFrame([new[at].alias(str(at)) if at in new else self.frame.get_column(str(at)) for at in kept])
        plain = not self.quoted or len(kept) == len(sent)  # all fields are free of quotes, or come with their own
        fields = {at: made.words for at, made in sent.items() if plain and made.words.fields is not made.words.texts}
        shown = frame
        if fields:
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
        return out.getvalue()


def needs_quotes(text: str) -> bool:
    """Tell whether a text must stand in quotes."""
    return "," in text or '"' in text or "\n" in text or "\r" in text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
