"""Batches of a data frame as bytes that depend on the values alone, not on how a file or an engine holds them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


def told_types(schema: pl.Schema) -> bytes:
    """Return names and types; a text is a text, whether or not a dictionary holds it."""
    import polars as pl

    words = (pl.Categorical, pl.Enum)
    return repr([(name, str(pl.String if kind in words else kind)) for name, kind in schema.items()]).encode()


def encoded(frame: pl.DataFrame) -> bytes:
    """Return a batch as bytes: equal for equal values, different for different ones."""
    found = []
    for series in frame:
        found += [part for piece in _pieces(series) for part in (len(piece).to_bytes(8, "little"), piece)]
    return b"".join(found)


def _pieces(series: pl.Series) -> tuple[bytes, bytes, bytes]:
    """Return which values are there, how long they are where they are texts, and what they are."""
    import polars as pl

    series = series.alias("values")  # some of an engine's functions take a name for a pattern
    full, kind = not series.null_count(), series.dtype
    there = (np.ones(len(series), dtype=bool) if full else series.is_not_null().to_numpy()).tobytes()
    if kind in (pl.Categorical, pl.Enum) or kind.is_decimal() or kind == pl.Int128:
        series = series.cast(pl.String)
        kind = series.dtype
    if kind == pl.String:
        texts = series if full else series.fill_null("")
        return there, texts.str.len_bytes().to_numpy().tobytes(), texts.str.join("").item().encode("utf-8")
    if kind == pl.Binary:
        blocks = series.fill_null(b"").to_list()
        return there, np.array([len(block) for block in blocks], dtype=np.uint32).tobytes(), b"".join(blocks)
    if kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean:
        physical = series.to_physical()
        filled = physical if full else physical.fill_null(False if kind == pl.Boolean else 0)
        return there, b"", filled.to_numpy().tobytes()
    if kind == pl.Null:
        return there, b"", b""
    out = io.BytesIO()
    pl.DataFrame([series.rechunk()]).write_ipc(out, compat_level=pl.CompatLevel.oldest())
    return there, b"", out.getvalue()
