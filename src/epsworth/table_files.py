"""Tables from files and from standard input: CSV, JSON lines, Parquet."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from epsworth.extras import needed
from epsworth.files import GZIP, check_readable, check_separators, check_text
from epsworth.records import MISSING, NO_HEADER, looks_like_header, shown_names

STDIN = "-"
KINDS = {".csv": "csv", ".csv.gz": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
PARQUET = b"PAR1"
SCALARS = (str, int, float, bool, type(None))


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
    """

    name: str
    kind: str
    content: Path | bytes
    packed: bool = False

    def open(self) -> BinaryIO:
        """Open the content as it is stored."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    @contextmanager
    def unpacked(self) -> Iterator[BinaryIO | gzip.GzipFile]:
        """Open the content, unpacked."""
        with self.open() as stream:
            if not self.packed:
                yield stream
                return
            with gzip.open(stream) as inner:
                yield inner

    @property
    def local(self) -> Any:
        """What polars reads: it takes relative names for patterns, addresses or home folders."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.absolute()


def read_table(path: str | Path, *, alone: bool = False) -> Any:
    """Read a table into a polars data frame.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.csv.gz``, ``.jsonl`` (or ``.ndjson``: one JSON object per line) or ``.parquet``; ``-`` reads
        standard input and recognises which of these it is.
    alone : bool
        Leave every entry the text that it is, so that no other one decides what it is read as; an entry of JSON that
        is neither number, text nor truth value is then missing, not refused.
    """
    pl = needed("polars", "files", "reading a table")
    source = _source(path)
    try:
        if source.kind == "parquet":
            return pl.read_parquet(source.local, glob=False, hive_partitioning=False)
        if source.kind == "jsonl":
            return _entries_of_json_lines(source) if alone else _from_json_lines(source)
        _check_csv(source)
        schema: dict[str, Any] = {"infer_schema": False} if alone else {"infer_schema_length": None}
        table = pl.read_csv(source.local, **schema, null_values=MISSING, glob=False)
        first = pl.read_csv(source.local, has_header=False, n_rows=1, infer_schema=False, glob=False)
        _check_header(source, first.row(0))
        return table
    except pl.exceptions.NoDataError:
        raise ValueError(f"{source.name} is empty; give a header and at least one row") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read {source.name}: {_without_values(error)}") from None


def _source(path: str | Path) -> Source:
    if str(path) == STDIN:
        content = sys.stdin.buffer.read() if sys.stdin is not None else b""
        name = "the table on standard input"
        if not content:
            raise ValueError(f"{name} is empty; pipe a table into the command, such as: cat table.csv | epsworth ...")
        start = content.lstrip()[:1]
        kind = "parquet" if content.startswith(PARQUET) else "jsonl" if start == b"{" else "csv"
        return Source(name, kind, content, content.startswith(GZIP))
    path = check_readable(path, "table")
    kind = next((kind for ending, kind in KINDS.items() if path.name.lower().endswith(ending)), "")
    if not kind:
        raise ValueError(
            f"the table {path} has an unknown ending; give a .csv, .csv.gz, .jsonl or .parquet file, or - for "
            "standard input"
        )
    source = Source(f"the table {path}", kind, path, path.name.lower().endswith(".gz"))
    if source.packed:
        with source.open() as stream:
            if stream.read(len(GZIP)) != GZIP:
                raise ValueError(f"{source.name} is not compressed with gzip; rename it to .csv")
    return source


def _from_json_lines(source: Source) -> Any:
    """Read objects of numbers, texts, truth values and nulls; a member that is left out is missing."""
    rows = _json_objects(source)
    for number, row in rows:
        if not all(isinstance(value, SCALARS) for value in row.values()):
            raise ValueError(
                f"{source.name}, line {number}: a member is a list or an object; give numbers, texts, true, false or "
                "null"
            )
    return _frame_of([row for _, row in rows], source)


def _entries_of_json_lines(source: Source) -> Any:
    """Read every member as a text; what is neither number, text nor truth value is missing."""
    pl = needed("polars", "files", "reading a table")
    rows = [row for _, row in _json_objects(source, parse_int=str, parse_float=str, parse_constant=str)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    told = {name: [_told(row.get(name)) for row in rows] for name in names}
    return pl.DataFrame(told, schema=dict.fromkeys(names, pl.String))


def _told(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def _json_objects(source: Source, **parsers: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the lines' numbers and members."""
    with source.open() as stream:
        lines = [(number, line) for number, line in enumerate(stream, start=1) if line.strip()]
    if not lines:
        raise ValueError(f"{source.name} is empty; give a header and at least one row")
    return [(number, _json_object(line, f"{source.name}, line {number}:", parsers)) for number, line in lines]


def _frame_of(rows: list[dict[str, Any]], source: Source) -> Any:
    pl = needed("polars", "files", "reading a table")
    kinds = {(name, _kind(value)) for row in rows for name, value in row.items() if value is not None}
    if len(kinds) > len({name for name, _ in kinds}):
        raise ValueError(
            f"cannot read {source.name}: a member holds values of several kinds, such as numbers and texts; "
            "write one kind in each"
        )
    try:
        return pl.from_dicts(rows, infer_schema_length=None)
    except OverflowError:
        raise ValueError(f"cannot read {source.name}: a whole number is too large; write it as a text") from None


def _kind(value: object) -> str:
    return "text" if isinstance(value, str) else "truth" if isinstance(value, bool) else "number"


def _json_object(line: bytes, where: str, parsers: dict[str, Any]) -> dict[str, Any]:
    """Return a line's members; the sentences that refuse it show no value."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"{where} a member stands twice; give each once")
        return found

    try:
        found = json.loads(line.decode("utf-8"), object_pairs_hook=members, **parsers)
    except UnicodeDecodeError:
        raise ValueError(f"{where} it is not UTF-8 text; convert it first") from None
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"{where} it is not a JSON object; write one object per line") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where} it is not a JSON object; write one object per line")
    return found


def _check_header(source: Source, names: Sequence[str | None]) -> None:
    """Refuse a header that names a column twice: polars would rename the second and the first would be taken."""
    for name in names:
        if names.count(name) > 1:
            if name and not looks_like_header(names):
                raise ValueError(f"{source.name} names a column twice, and {NO_HEADER}")
            raise ValueError(f"{source.name} names the column {name or ''!r} twice; rename one")


def _check_csv(source: Source) -> None:
    """Refuse what begins like something else than UTF-8 text in columns separated by commas."""
    try:
        with source.unpacked() as stream:
            header = stream.readline(1 << 16)
            binary = 0 in header
            while chunk := stream.read(1 << 20):
                binary = binary or 0 in chunk
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{source.name} is damaged or cut short; fetch it again") from None
    check_text(header, source.name)
    try:
        names = codecs.getincrementaldecoder("utf-8")().decode(header)  # which may be cut within a character
    except UnicodeDecodeError:
        raise ValueError(f"cannot read {source.name}: it is not UTF-8 text; convert it first") from None
    if binary or any(ord(sign) < 32 and sign not in "\t\r\n" for sign in names):
        raise ValueError(f"{source.name} holds bytes that no text does, such as NUL; it is binary or damaged")
    check_separators(names, source.name)


def _without_values(error: Exception) -> str:
    """Return what went wrong with a table; the parser's own words may show a record's."""
    if isinstance(error, OSError):
        return f"{error.strerror or 'it is damaged'}; check the file"
    if "utf" in str(error).lower():
        return "it is not UTF-8 text; convert it first"
    return "it is damaged, of another format than its ending says, or its rows do not fit its header; check the file"


def column(table: Any, name: str) -> Any:
    """Return a column of a data frame, or say which there are."""
    if name not in table.columns:
        raise ValueError(f"the table has no column {name!r}; {shown_names(table.columns)}")
    return table[name]
