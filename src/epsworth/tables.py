"""The one reader of tables: CSV, JSON lines and Parquet become typed columns, by what whoever asks declares of them.

A declared column is what it is declared as, however its entries are spelt; only what nobody declares is inferred.
Columns that are told become such a file, too.
"""

from __future__ import annotations

import io
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from epsworth import csv_grammar, csv_text
from epsworth.extras import needed
from epsworth.files import READ, check_text, check_writable, replacing
from epsworth.headers import looks_like_header, shown_name, shown_names
from epsworth.lines import placing
from epsworth.sources import Source, source_of
from epsworth.values import (
    MISSING,
    NO_NUMBER,
    NUMBER,
    NUMBERS,
    OR_INFINITE,
    TRUTHS,
    UNDECLARED,
    Categories,
    is_missing,
    number,
    whole_number,
)

if TYPE_CHECKING:
    import polars as pl

    from epsworth.space import Feature

LOG = logging.getLogger(__name__)
MOST = 2**63
WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}
WHOLE_NUMBER, LEADING_ZERO = f"^(?:{NUMBER.pattern})$", r"^[ \t]*[+-]?0[0-9]"
HALF = re.compile("[\ud800-\udfff]")

NUMERIC, ENTRY, TEXT, COMPUTED = "number", "entry", "text", "number or truth"
Kind = str | tuple[Any, ...]
Declared = Mapping[str, Kind]
"""Columns by name: a tuple of categories, "number", "text", "entry": a number, and all that is none a gap; or "number
or truth": numbers, infinite ones too, or truths alone, as models compute with."""
Asker = Callable[[list[str]], Declared]
Reader = tuple[Callable[["Source"], "Mapping[str, Any]"], Callable[[Any, "Kind | None"], "pl.Series"]]
"""How the columns of a file are found, and how one becomes what it is declared as."""


class EntryError(ValueError):
    """An entry, or a column, is not what it is declared as."""

    def __init__(self, why: str, row: int | None = None) -> None:
        super().__init__(why)
        self.row = row


def read_table(path: str | Path, declared: Declared | Asker | None = None, *, sep: str = ",") -> pl.DataFrame:
    """Read a table into a polars data frame.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.csv.gz``, ``.jsonl`` (or ``.ndjson``: one JSON object per line) or ``.parquet``; ``-`` reads
        standard input and recognises which of these it is.
    declared : mapping, or function from the names of columns to one, optional
        What columns hold: "number" (anything else is refused), "number or truth" (as models compute with), "entry"
        (anything else is a gap, as for a policy's clients), "text", or a tuple of categories.  All others are
        inferred: whole numbers, numbers, truths or texts; a column with an entry such as 01001, which no number begins
        like, is one of texts.
    sep : str
        What separates the fields of CSV: a comma, semicolon, tab or bar.

    Raises
    ------
    ValueError
        For what is no table, and for entries that are not what their column is declared as, by row.
    """
    readers: dict[str, Reader] = {
        "csv": (_csv_texts, _of_texts), "jsonl": (_json_members, _of_values), "parquet": (_parquet_columns, _of_series)
    }  # fmt: skip
    return _table(path, readers, declared or {}, sep)


def read_columns(path: str | Path, *, sep: str = ",") -> dict[str, Callable[[], pl.DataFrame]]:
    """Return what reads each column of a table, as a frame of its own: of a file of Parquet one at a time."""
    if not str(path).lower().endswith(".parquet"):
        table = read_table(path, sep=sep)
        return {name: partial(selected, table, [name]) for name in table.columns}
    needed("polars", "files", "reading a table")
    import polars as pl

    source = source_of(path, sep)

    def read(position: int, name: str) -> pl.DataFrame:
        with _telling(source):
            found = pl.read_parquet(Path(path).absolute(), columns=[position], glob=False, hive_partitioning=False)
            return pl.DataFrame([_of_series(found.to_series()).alias(name)])

    with _telling(source):
        whole = pl.scan_parquet(Path(path).absolute(), glob=False, hive_partitioning=False)
        names, count = whole.collect_schema().names(), whole.select(pl.len()).collect().item()
    if not names or not count:
        _refuse_empty(source, "has no rows")
    return {name: partial(read, position, name) for position, name in enumerate(names)}


def read_texts(path: str | Path, *, sep: str = ",") -> pl.DataFrame:
    """Read a table whose entries stay the texts that they are, so that none decides what another one is read as.

    An entry of JSON that is neither number, text nor truth is a gap, as is one that is left out; of CSV none is.
    """
    readers: dict[str, Reader] = {
        "csv": (_csv_texts, lambda texts, kind: texts),
        "jsonl": (_json_texts, lambda texts, kind: texts),
        "parquet": (_parquet_columns, _of_series),
    }
    return _table(path, readers, {}, sep)


def _table(path: str | Path, readers: Mapping[str, Reader], asked: Declared | Asker, sep: str) -> pl.DataFrame:
    needed("polars", "files", "reading a table")
    import polars as pl

    source = source_of(path, sep)
    find, convert = readers[source.kind]
    READ[str(path)] = first = 2 if source.kind == "csv" else None
    with _telling(source), placing(path, first):
        raw = find(source)
        declared = asked(list(raw)) if callable(asked) else asked
        table = pl.DataFrame([_named(name, raw, convert, declared.get(name)) for name in raw])
    if not table.height:
        _refuse_empty(source, "has no rows")
    if kinds := inferred(table, declared):
        told = ", ".join(f"{shown_name(name, table.columns)} {kind}" for name, kind in kinds.items())
        LOG.info("%s: inferred, as nothing declares them: %s", source.name, told)
    return table


def _named(name: str, raw: Mapping[str, Any], convert: Any, kind: Kind | None) -> pl.Series:
    """Return one column; what is wrong with it is told with its name."""
    try:
        found: pl.Series = convert(raw[name], kind)
    except EntryError as error:
        names = list(raw)
        shown = name if looks_like_header(names) else shown_name(name, names)
        where = f"the column {shown_name(name, names)}" if error.row is None else f"row {error.row}, {shown}:"
        raise ValueError(f"{where} {error}") from None
    return found.alias(name)


def check_table(path: Path) -> str:
    """Return how a table is written that ends like this, or refuse it."""
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"{path} has an unknown ending; tables are written as {', '.join(WRITERS)}")
    check_writable(path)
    return writer


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns in the format of the file's ending, whole or not at all."""
    writer, table = check_table(path), needed("polars", "files", "writing a table").DataFrame(columns)
    with replacing(path) as temporary:
        getattr(table, writer)(temporary)


def column(table: Any, name: str) -> Any:
    """Return a column of a data frame under a plain name (polars may take its own for a pattern), or say which are."""
    if name not in table.columns:
        raise ValueError(f"the table has no column {name!r}; {shown_names(table.columns)}")
    return table.get_column(name).alias("values")


def selected(table: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return some columns of a data frame by their names, which polars alone may take for patterns."""
    return table.select([table.get_column(name) for name in names])


def inferred(table: pl.DataFrame, declared: Declared | None = None) -> dict[str, str]:
    """Return the kinds of the columns that nobody declared: "number", "truth", "text", or the type of their library."""
    named = {"Boolean": "truth", "String": TEXT}
    return {
        name: NUMERIC if kind.is_numeric() else named.get(str(kind), str(kind).lower())
        for name, kind in table.schema.items()
        if name not in (declared or {})
    }


def _csv_texts(source: Source) -> dict[str, pl.Series]:
    """Return the fields of a CSV, by the one grammar of records."""
    content = source.read()
    end = content.find(b"\n") + 1 or len(content)
    try:
        header = csv_grammar.header(content[:end], source.name, source.sep)
        width = len(header.names)
        if not content[end:]:
            _refuse_empty(source, "has no rows")
    except ValueError as error:
        told = str(error)
        raise ValueError(told if source.name in told else f"{source.name}, {told}") from None
    gated = csv_grammar.checked(content[end:], width, header.end, 0, source.sep)
    frame = csv_text.Table(gated, width, list(range(width))).frame
    return dict(zip(header.names, frame, strict=True))  # under plain names: some could be read as patterns


def _of_texts(texts: pl.Series, kind: Kind | None) -> pl.Series:
    """Return a column of texts as what it is declared as, or looks like."""
    if kind == TEXT:
        return texts
    if isinstance(kind, tuple):
        return _of_categories(texts, kind)
    found = texts.set(texts.is_in(MISSING), None)
    if kind == ENTRY:
        found = found.set(~found.str.contains(WHOLE_NUMBER), None)
    spelt = NUMBER if kind in (NUMERIC, ENTRY) else OR_INFINITE
    values = _numbers(found, f"^(?:{spelt.pattern})$")
    if values is not None and (kind is not None or not found.str.contains(LEADING_ZERO).any()):
        return values
    told = found.drop_nulls()
    if kind != NUMERIC and len(told) and told.is_in(list(TRUTHS)).all():
        return found.str.to_lowercase() == "true"
    if kind is not None:
        raise EntryError(NO_NUMBER, next(i for i, one in enumerate(found) if one and not spelt.fullmatch(one)))
    return found


def _numbers(texts: pl.Series, spelt: str) -> pl.Series | None:
    """Return a column of numbers, whole ones as such where 64 bits hold them; None if an entry is none."""
    import polars as pl

    if not texts.str.contains(spelt).all():
        return None
    plain = texts.str.strip_chars(" \t")
    if plain.str.contains(r"^[+-]?[0-9]+$").all():
        whole = plain.str.strip_prefix("+").cast(pl.Int64, strict=False)
        if whole.null_count() == texts.null_count():
            return whole
    found = plain.cast(pl.Float64, strict=False)
    if found.null_count() > texts.null_count():  # what polars reads otherwise than Python
        found = pl.Series([None if text is None else float(text) for text in plain], dtype=pl.Float64)
    return found


def _of_categories(texts: pl.Series, kind: tuple[Any, ...]) -> pl.Series:
    """Return a column's categories and gaps; what is undeclared stays the number, or text, that it is."""
    import polars as pl

    known = Categories([value for value in kind if not is_missing(value)])
    words = any(isinstance(value, str) for value in kind)
    read = {text: known.read(text) for text in texts.unique()}
    for text, value in read.items():
        if value is UNDECLARED:
            read[text] = text if words or not NUMBER.fullmatch(text) else float(text)
    values = [read[text] for text in texts]
    return _series(values) if _alike(values) else pl.Series(values, dtype=pl.Object)


def _alike(values: Iterable[Any]) -> bool:
    """Tell whether values, gaps aside, are numbers all, or texts, or truths."""
    return len({float if type(value) is int else type(value) for value in values} - {type(None)}) <= 1


def _json_members(source: Source) -> dict[str, list[Any]]:
    """Read objects of numbers, texts, truths and nulls; a member that is left out is a gap."""
    rows = _json_objects(source)
    for line, row in rows:
        if any(isinstance(value, (list, dict)) for value in row.values()):
            raise ValueError(
                f"{source.name}, line {line}: a member is a list or an object; give numbers, texts, true, false or null"
            )
    return _members(rows)


def _json_texts(source: Source) -> dict[str, pl.Series]:
    import polars as pl

    found = _members(_json_objects(source, parse_int=str, parse_float=str, parse_constant=str))
    return {name: pl.Series([_told(value) for value in values], dtype=pl.String) for name, values in found.items()}


def _members(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for _, row in rows for name in row)
    return {name: [row.get(name) for _, row in rows] for name in names}


def _of_values(values: list[Any], kind: Kind | None) -> pl.Series:
    """Return a column of JSON as what it is declared as; without that it holds one kind of values."""
    import polars as pl

    values = [None if is_missing(value) else value for value in values]
    if kind == ENTRY or isinstance(kind, tuple):  # JSON has no infinities, and clients take none
        values = [None if type(value) is float and math.isinf(value) else value for value in values]
    if kind == ENTRY:
        values = [value if type(value) in NUMBERS else None for value in values]
    truths = kind == COMPUTED and all(value is None or type(value) is bool for value in values)
    if kind in (NUMERIC, COMPUTED) and any(
        odd := [value is not None and type(value) not in NUMBERS and not truths for value in values]
    ):
        raise EntryError(NO_NUMBER, odd.index(True))
    if not _alike(values):
        if isinstance(kind, tuple):
            return pl.Series(values, dtype=pl.Object)
        raise EntryError(
            "holds values of several kinds, such as numbers and texts; write one kind, or declare its categories"
        )
    return _series(values)


def _series(values: list[Any]) -> pl.Series:
    """Return values of one kind as a series: whole numbers beyond 64 bits, too, which become doubles."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        whole = kinds == {int} and all(value is None or -MOST <= value < MOST for value in values)
        if not whole:
            values = [None if value is None else number(value) for value in values]
        return pl.Series(values, dtype=pl.Int64 if whole else pl.Float64)
    return pl.Series(values, dtype=pl.Boolean if kinds == {bool} else pl.String)


def kinds_of(features: Iterable[Feature], number: str = NUMERIC) -> dict[str, Kind]:
    """Return the kinds of declared features."""
    return {feature.name: feature.categories or number for feature in features}


def _told(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def _json_objects(source: Source, **parsers: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the lines' numbers and members."""
    content, parsers = source.read(), {"parse_int": whole_number} | parsers
    check_text(content[:8], source.name)
    lines = content.removeprefix(csv_grammar.BYTE_ORDER_MARK).split(b"\n")
    full = ((at, line) for at, line in enumerate(lines, start=1) if line.strip(b" \t\r"))
    found = [(at, _json_object(line, f"{source.name}, line {at}:", parsers)) for at, line in full]
    if not found:
        _refuse_empty(source)
    return found


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
    if b"\\u" in line and any(isinstance(text, str) and HALF.search(text) for text in (*found, *found.values())):
        raise ValueError(f"{where} a text holds half of a surrogate pair, which is no character; write the whole one")
    return found


def _parquet_columns(source: Source) -> dict[str, pl.Series]:
    import polars as pl

    local = io.BytesIO(source.content) if isinstance(source.content, bytes) else source.content.absolute()
    table = pl.read_parquet(local, glob=False, hive_partitioning=False)  # names are no patterns, nor home folders
    return {series.name: series.alias("") for series in table}


def _of_series(series: pl.Series, kind: Kind | None = None) -> pl.Series:
    """Return a typed column; whole numbers beyond 64 bits and decimals, which NumPy does not have, as doubles."""
    import polars as pl

    if series.dtype in (pl.Int128, getattr(pl, "UInt128", pl.Int128)) or series.dtype.is_decimal():
        return series.cast(pl.Float64)
    if kind == NUMERIC and series.dtype == pl.Boolean:
        raise EntryError("holds truths, which are no numbers; declare its categories, [false, true], or recode it")
    return _of_texts(series, kind) if kind in (NUMERIC, ENTRY, COMPUTED) and series.dtype == pl.String else series


def _refuse_empty(source: Source, why: str = "is empty") -> NoReturn:
    raise ValueError(f"{source.name} {why}; give a header and at least one row") from None


@contextmanager
def _telling(source: Source) -> Iterator[None]:
    """Say what went wrong with a file in a sentence."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read {source.name}: {_without_values(error)}") from None


def _without_values(error: Exception) -> str:
    """Return what went wrong with a table; the parser's own words may show a record's."""
    if isinstance(error, OSError):
        return f"{error.strerror or 'it is damaged'}; check the file"
    if "utf" in str(error).lower():
        return "it is not UTF-8 text; convert it first"
    return "it is damaged, or of another format than its ending says; check the file"
