"""Parquet files: batches of rows, read by slices, drawn, and written as one stream."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.extras import needed
from epsworth.files import FULL
from epsworth.lines import placing
from epsworth.policy.beside import check_metadata
from epsworth.policy.columns import values_withheld
from epsworth.policy.files.file_tables import FileTable, FirstReading, Held, Progress, WordsOf
from epsworth.policy.ledger.ids import Count, Ids, check_id_column, count_ids
from epsworth.policy.tables import Perturbation
from epsworth.refusals import alone

if TYPE_CHECKING:
    import polars as pl

ROWS = 1 << 16  # of a part
MOST = 4  # parts that are read together: an engine may decode a whole group of rows for each slice
CELLS = 1 << 22  # of the parts that are read together


class ParquetTable(FileTable):
    """A Parquet file; names are read to the letter, and folders hold no columns."""

    def __init__(self, perturbation: Perturbation, path: str | Path, *more: Any) -> None:
        needed("polars", "files", "releasing a Parquet file")
        super().__init__(perturbation, path, *more)

    @alone()
    def seen(self, count: Count | None = None, progress: Progress | None = None, *, hold: int = 0) -> FirstReading:
        """Read the batches once."""
        scan, schema = self._scanned()
        rows, digests = self._height(scan), []
        held: list[Held] = []
        first = size = 0
        for frame in self._batches(scan, schema, rows, charged=False):
            with placing(self.path), self._withheld():
                self.perturbation.read(_wrapped(frame), first)
                if count is not None and self.person is not None:
                    ids = _ids(frame.get_column(self.person).alias("values"), self.person)
                    count_ids(count, ids, self.person, first)
                digests.append(self.digest(encoded(frame)))
                size += int(frame.estimated_size())
            if size <= hold:
                held.append(Held(frame, len(frame)))
            first += len(frame)
            if progress is not None:
                progress(first / rows)
        if progress is not None:
            progress(1.0)
        names = tuple(schema.names())
        return FirstReading(self.digest(told_types(schema)), tuple(digests), rows, names, held=tuple(held))

    @alone()
    def write(
        self, seen: FirstReading, words: WordsOf, sink: Path, progress: Progress | None = None, *, jobs: int | None = 1
    ) -> int:
        """Let the engine write the drawn batches in order; ``jobs`` is left to it."""
        import polars as pl
        from polars.io.plugins import register_io_source

        scan, schema = self._scanned()
        if self.digest(told_types(schema)) != seen.header or self._height(scan) != seen.rows:
            raise self.changed()
        kinds = self._released_schema(schema)
        drawn, faults = 0, []
        batches = iter(self._released(scan, schema, seen, words))

        def source(columns: Any, predicate: Any, rows: Any, size: Any) -> Iterator[pl.DataFrame]:
            """Yield every batch once, whatever the engine asks for: a second reading of it finds nothing."""
            nonlocal drawn
            try:
                for frame in batches:
                    drawn += len(frame)
                    if progress is not None:
                        progress(min(1.0, drawn / max(1, seen.released)))
                    yield frame
            except BaseException as fault:
                faults.append(fault)
                raise

        try:
            register_io_source(source, schema=kinds).sink_parquet(sink)
            out = _scan(sink)
            written, types = self._height(out), out.collect_schema()
        except BaseException as error:
            if faults:
                raise faults[0] from None
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            if not sink.exists():  # another process had this very run, and was done
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(sink)) from None
            if not isinstance(error, (pl.exceptions.PolarsError, OSError)):
                raise
            for number in FULL:  # engines tell it in words alone; `writing` names the output
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number)) from None
            raise ValueError(f"cannot write the table: {_plain(error)}; choose another place") from None
        if not written == drawn == seen.released or types != pl.Schema(kinds):
            raise ValueError("the engine did not write the rows that were drawn, once each; nothing was written")
        return written

    def _released(
        self, scan: pl.LazyFrame, schema: pl.Schema, seen: FirstReading, words: WordsOf
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        first = number = 0
        kept = self.perturbation.kept(schema.names())
        again = self._batches(scan, schema, seen.rows, start=sum(held.rows for held in seen.held))
        for number, frame in enumerate(chain((held.read for held in seen.held), again), start=1):
            if number > len(seen.held):
                with self._withheld():
                    digest = self.digest(encoded(frame))
                if number > len(seen.parts) or digest != seen.parts[number - 1]:
                    raise self.changed()
            digest = seen.parts[number - 1]
            perturbation, rows = self.perturbation.drawing(words(number - 1, digest)), len(frame)
            with self._withheld():
                if seen.kept is not None:
                    frame = frame.filter(pl.Series(seen.kept[first : first + rows]))
                released = _columns(perturbation.frame(_wrapped(frame), first).to_native(), kept)
            yield released
            first += rows
        if number != len(seen.parts):
            raise self.changed()

    def _scanned(self) -> tuple[pl.LazyFrame, pl.Schema]:
        """Scan the file, and refuse what its columns and notes tell."""
        import polars as pl

        with self._withheld():
            scan = _scan(self.path)
            schema = scan.collect_schema()
            path = os.path.abspath(self.path)
            notes = pl.read_parquet_metadata(path) if hasattr(pl, "read_parquet_metadata") else {}
        if "" in schema:
            raise ValueError(f"the table {self.path} does not name a column; give every column a name")
        self.perturbation.check_names(schema.names(), named=True)
        check_id_column(self.person, schema.names())
        check_metadata(self.perturbation.columns, notes.get("pandas"))
        with self._withheld():  # an empty table of types that polars can read and not make
            self.perturbation.read(_wrapped(pl.DataFrame(schema=schema)))
        return scan, schema

    def _loosened(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame whose columns that pass declare no categories: a file would list those that no row holds."""
        import polars as pl

        fixed = [s for s in frame if s.dtype == pl.Enum and s.name not in self.perturbation.columns]
        return frame.with_columns(*(series.cast(pl.String).cast(pl.Categorical) for series in fixed))

    def _height(self, scan: pl.LazyFrame) -> int:
        import polars as pl

        with self._withheld():
            return int(scan.select(pl.len()).collect().item())

    def _batches(
        self, scan: pl.LazyFrame, schema: pl.Schema, rows: int, *, start: int = 0, charged: bool = True
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows from ``start`` on, in order, `ROWS` at a time."""
        window = ROWS * max(1, min(MOST, CELLS // (ROWS * len(schema))))
        for first in range(start, rows, window):
            with self._withheld():
                frame = self._loosened(scan.slice(first, window).collect())
            if len(frame) != min(window, rows - first):
                raise self.changed(charged=charged)
            for at in range(0, len(frame), ROWS):
                yield frame[at : at + ROWS]

    @contextmanager
    def _withheld(self) -> Iterator[None]:
        """Let no other library quote a value; what polars refuses to read is damaged."""
        import polars as pl

        with values_withheld(f"the table {self.path}"):
            try:
                yield
            except (pl.exceptions.PolarsError, OSError) as error:
                raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> ValueError:
        return ValueError(f"cannot read the table {self.path}: {_plain(error)}; check the file")

    def _released_schema(self, schema: pl.Schema) -> dict[str, pl.DataType]:
        """Return the output's types: those that a perturbed empty table has."""
        import polars as pl

        empty = self.perturbation.frame(_wrapped(self._loosened(pl.DataFrame(schema=schema)))).to_native()
        return dict(_columns(empty, self.perturbation.kept(schema.names())).schema)


def _scan(path: str | Path) -> pl.LazyFrame:
    """Scan one local file: its name is no pattern, no address and no home folder, nor do its folders hold columns."""
    import polars as pl

    return pl.scan_parquet(os.path.abspath(path), glob=False, hive_partitioning=False)


def _columns(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return some columns; to select by a name that reads like a pattern, such as ``^a.*$``, would take others too."""
    import polars as pl

    return pl.DataFrame([frame.get_column(name) for name in names])


def _wrapped(frame: pl.DataFrame) -> Any:
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)


def _ids(series: pl.Series, name: str) -> Ids:
    """Return the ids of a batch."""
    import polars as pl

    kind = series.dtype
    if not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
        raise ValueError(f"{name}: the id is neither a whole number nor a text but {kind}; recode it")
    if kind.is_integer() and not series.null_count() and kind not in (pl.UInt64, pl.Int128):
        return series.to_numpy().astype(np.int64)
    return series.to_list()


def _plain(error: Exception) -> str:
    """Return what the system says; an engine's other words may show values."""
    found = re.search(r"[A-Z][A-Za-z ]+(?= \(os error \d+\))", str(error))
    return found[0] if found else getattr(error, "strerror", None) or "it is damaged, or of another format"


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
