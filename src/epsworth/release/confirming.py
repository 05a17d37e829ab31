"""A written part of CSV, read by a second library: it must find the very texts that were written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from epsworth.csv_text import Texts
from epsworth.lines import LONGEST

LIMIT = RLock()  # Python's csv has one limit for all threads


def confirmed(out: bytes, rows: int, written: Sequence[Texts]) -> bool:
    """Tell whether another reader finds just these rows and columns; pyarrow if it is installed, else Python's csv.

    Parameters
    ----------
    out : bytes
        Records, each ended by a line feed.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return _by_python(out, rows, written)
    return _by_arrow(out, rows, written)


def _by_arrow(out: bytes, rows: int, written: Sequence[Texts]) -> bool:
    import pyarrow as pa
    from pyarrow import csv as reader

    names = [str(at) for at in range(len(written))]
    head = ",".join(names).encode() + b"\n"
    try:
        table = reader.read_csv(
            pa.BufferReader(head + out),
            read_options=reader.ReadOptions(use_threads=False, block_size=len(head) + len(out) + 1),
            parse_options=reader.ParseOptions(newlines_in_values=False, ignore_empty_lines=False),
            convert_options=reader.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        return False
    shape: tuple[Any, ...] = (table.num_rows, table.column_names)
    return shape == (rows, names) and all(
        texts.agree(column) for texts, column in zip(written, table.columns, strict=True)
    )


def _by_python(out: bytes, rows: int, written: Sequence[Texts]) -> bool:
    try:
        with _long_fields():
            found = list(csv.reader(io.StringIO(out.decode("utf-8"), newline=""), strict=True))
    except csv.Error:
        return False
    if len(found) != rows or any(len(record) != len(written) for record in found):
        return False
    return all(list(column) == texts.tell() for column, texts in zip(zip(*found, strict=True), written, strict=False))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let Python's csv read fields as long as a line may be."""
    with LIMIT:
        before = csv.field_size_limit(2 * LONGEST)
        try:
            yield
        finally:
            csv.field_size_limit(before)
