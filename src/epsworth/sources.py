"""Where a table comes from: a file, or standard input, as it is stored and unpacked."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from epsworth.csv_grammar import BYTE_ORDER_MARK, check_sep
from epsworth.files import GZIP, check_readable

STDIN = "-"
KINDS = {".csv": "csv", ".csv.gz": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
PARQUET = b"PAR1"


@dataclass(frozen=True)
class Source:
    """Where a table comes from, and what to call it in a sentence.

    Attributes
    ----------
    name : str
        "the table PATH", or "the table on standard input".
    kind : str
        "csv", "jsonl" or "parquet".
    content : Path or bytes
        Standard input is read once, to its end.
    packed : bool
        Whether it is said to be compressed with gzip.
    sep : str
        What separates the fields of CSV.
    """

    name: str
    kind: str
    content: Path | bytes
    packed: bool = False
    sep: str = ","

    def open(self) -> BinaryIO:
        """Open the content as it is stored."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    def read(self) -> bytes:
        """Return the content, unpacked."""
        with self.open() as stream:
            if not self.packed:
                return stream.read()
            try:
                return gzip.decompress(stream.read())
            except (EOFError, zlib.error, gzip.BadGzipFile):
                raise ValueError(f"{self.name} is damaged or cut short; fetch it again") from None


def kind_of(path: str | Path) -> str:
    """Return the kind of a table that a file's ending tells; empty where it tells none."""
    return next((kind for ending, kind in KINDS.items() if str(path).lower().endswith(ending)), "")


def first_line(path: str | Path) -> int | None:
    """Return the line of the first row where records are lines, as the ending says: after the header of a CSV."""
    return 2 if kind_of(path) == "csv" else None


def source_of(path: str | Path, sep: str = ",") -> Source:
    """Return where a table comes from: a file of a known ending, or for ``-`` standard input, recognised by itself."""
    check_sep(sep)
    if str(path) == STDIN:
        content = sys.stdin.buffer.read() if sys.stdin is not None else b""
        name = "the table on standard input"
        if not content:
            raise ValueError(f"{name} is empty; pipe a table into the command, such as: cat table.csv | epsworth ...")
        start = content.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
        kind = "parquet" if content.startswith(PARQUET) else "jsonl" if start == b"{" else "csv"
        return Source(name, kind, content, content.startswith(GZIP), sep)
    path = check_readable(path, "table")
    if not (kind := kind_of(path)):
        raise ValueError(
            f"the table {path} has an unknown ending; give a .csv, .csv.gz, .jsonl or .parquet file, or - for "
            "standard input"
        )
    source = Source(f"the table {path}", kind, path, path.name.lower().endswith(".gz"), sep)
    if source.packed:
        with source.open() as stream:
            if stream.read(len(GZIP)) != GZIP:
                raise ValueError(f"{source.name} is not compressed with gzip; rename it to .csv")
    return source
