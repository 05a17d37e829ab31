"""`perturb_file`: CSV, JSON lines and Parquet, streamed in bounded memory; the output appears whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from epsworth.files import check_distinct, check_readable, check_writable, held_back, replacing
from epsworth.release.beside import check_metadata
from epsworth.release.ledger import Ledger, Receipt, Watched, fingerprint_of
from epsworth.release.policy import Policy
from epsworth.release.tables import Perturbation
from epsworth.release.text import CsvSplicer, JsonSplicer

if TYPE_CHECKING:
    import polars as pl

    from epsworth.exact.entropy import WordSource

Format = Literal["csv", "jsonl", "parquet"]
ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
STANDARD = "-"
Progress = Callable[[float], None]


def perturb_file(
    policy: Policy,
    source: str | Path,
    target: str | Path,
    *,
    kind: Format | None = None,
    again: bool = False,
    progress: Progress | None = None,
    words: WordSource | None = None,
) -> Receipt:
    """Perturb a file as the policy says and write the same kind of file.

    Claim: every record of the output keeps ``policy.guarantee``; rows, their order and all other columns are as they
    were (CSV and JSON lines: byte for byte).  Whatever happens, ``target`` is the old file or the whole new one, and
    nothing reaches standard output before the whole input was checked.

    Parameters
    ----------
    source, target : path or "-"
        ``.csv``, ``.jsonl``, ``.ndjson`` or ``.parquet``; "-" is standard input or output.
    kind : {"csv", "jsonl", "parquet"}, optional
        By default what the endings say, and CSV for two standard streams.
    again : bool
        Allow records to leave a second time under the same policy: budgets add.
    progress : callable, optional
        Called with the share of the work that is done.
    words : WordSource, optional
        For tests alone: the receipt then says NOT PRIVATE.

    Returns
    -------
    Receipt

    Raises
    ------
    ValueError
        For input that the policy refuses, naming the row, and where the ledger beside the target knows the records.
    """
    job = _Job(policy, str(source), str(target), _kind(source, target, kind), again, progress or (lambda share: None))
    return job.run(Perturbation(policy, words))


@dataclass(frozen=True)
class _Job:
    policy: Policy
    source: str
    target: str
    kind: Format
    again: bool
    progress: Progress

    def run(self, perturbation: Perturbation) -> Receipt:
        """Refuse what can be refused before any work, then write, remember, and let the output appear."""
        source = "/dev/stdin" if self.source == STANDARD else self.source
        if self.source != STANDARD:
            check_readable(self.source, "table")
        if self.target == STANDARD:
            check_distinct(input=source, output="/dev/stdout")
            with held_back(sys.stdout.buffer, "standard output") as sink:
                rows, _ = self._text(perturbation, sink)
            return self._receipt(perturbation, rows)
        path = check_writable(self.target)
        check_distinct(input=source, output=path, ledger=self._ledger.path)
        records = ""
        if self.source != STANDARD:
            records = fingerprint_of(Path(self.source))
            self._left_before(records)
        with replacing(path) as temporary:
            if self.kind == "parquet":
                rows = self._parquet(perturbation, temporary)
            else:
                with temporary.open("wb") as sink:
                    rows, streamed = self._text(perturbation, sink)
                records = records or streamed
            before, spent = self._left_before(records)  # again: standard input is known only now
            # before the output appears: a run that is killed in between counts as having left
            self._ledger.add(records, self.policy.fingerprint, rows, self.policy.guarantee.epsilon)
        so_far = spent + self.policy.guarantee.epsilon
        return replace(self._receipt(perturbation, rows), times_before=before, epsilon_so_far=so_far)

    @property
    def _ledger(self) -> Ledger:
        return Ledger(Path(self.target).resolve().parent)

    def _left_before(self, records: str) -> tuple[int, float]:
        """Return how often these records left under this policy, and their epsilon under any; refuse a repeat."""
        entries = self._ledger.entries(records)
        seen = [entry for entry in entries if entry["policy"] == self.policy.fingerprint]
        if seen and not self.again:
            raise ValueError(
                f"these records left {len(seen)} time{'s' * (len(seen) > 1)} under this policy "
                f"(ledger {self._ledger.path}); another run adds epsilon {self.policy.total} per record: "
                "use the output you have, or say --again (again=True)"
            )
        return len(seen), float(sum(entry["epsilon"] for entry in entries))

    def _receipt(self, perturbation: Perturbation, rows: int) -> Receipt:
        promise = self.policy.guarantee
        return Receipt(
            self.policy.fingerprint,
            rows,
            self.policy.names,
            promise.epsilon,
            promise.delta,
            promise.notion,
            version("epsworth"),
            private=perturbation.private,
        )

    def _text(self, perturbation: Perturbation, sink: BinaryIO) -> tuple[int, str]:
        """Stream text; return how many rows, and the fingerprint of what was read."""
        splicer = (CsvSplicer if self.kind == "csv" else JsonSplicer)(perturbation)
        with _opened(self.source) as stream:
            size = 0 if self.source == STANDARD else os.path.getsize(self.source)
            watched = Watched(stream)
            for block in splicer.run(watched):
                sink.write(block)
                self.progress(watched.read_bytes / size if size else 0.0)
        sink.flush()
        self.progress(1.0)
        return splicer.rows, watched.fingerprint.result()

    def _parquet(self, perturbation: Perturbation, temporary: Path) -> int:
        import narwhals as nw
        import polars as pl

        try:
            table = pl.scan_parquet(self.source)
            schema, rows = table.collect_schema(), int(table.select(pl.len()).collect().item())
            notes = pl.read_parquet_metadata(self.source) if hasattr(pl, "read_parquet_metadata") else {}
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(f"cannot read the table {self.source}: {str(error).splitlines()[0]}") from None
        perturbation.check_names(schema.names())
        check_metadata(perturbation.columns, notes.get("pandas"))
        done = 0

        def batch(frame: pl.DataFrame) -> pl.DataFrame:
            nonlocal done
            first = int(frame.item(0, ROW)) if len(frame) else 0
            released: pl.DataFrame = perturbation.frame(
                nw.from_native(frame.drop(ROW), eager_only=True), first
            ).to_native()
            done += len(frame)
            self.progress(done / rows if rows else 1.0)
            return released

        released = _released_schema(perturbation, schema)
        streamed = table.with_row_index(ROW).map_batches(batch, schema=released, streamable=True)
        try:
            streamed.sink_parquet(temporary)
            written = pl.scan_parquet(temporary)
            found = int(written.select(pl.len()).collect().item()), dict(written.collect_schema())
        except pl.exceptions.PolarsError as error:
            told = str(error).splitlines()[0]
            why = told if "os error" in told else "the engine failed"  # its other words may show values
            raise ValueError(f"cannot write {self.target}: {why}; choose another place") from None
        if done != rows or found != (rows, released):  # the engine must draw once for every row, and write them all
            raise RuntimeError(f"{done} rows were drawn for a table of {rows}; nothing was written")
        return rows


ROW = "epsworth: row"


def _released_schema(perturbation: Perturbation, schema: pl.Schema) -> dict[str, pl.DataType]:
    """Return the output's types: those that a perturbed empty table has."""
    import narwhals as nw
    import polars as pl

    empty = pl.DataFrame(schema=schema)
    return dict(nw.to_native(perturbation.frame(nw.from_native(empty, eager_only=True))).schema)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == STANDARD:
        yield sys.stdin.buffer
        return
    with open(source, "rb") as stream:
        yield stream


def _kind(source: str | Path, target: str | Path, kind: Format | None) -> Format:
    """Return the common format of both ends."""
    found = {str(path): ENDINGS.get(Path(path).suffix.lower()) for path in (source, target) if str(path) != STANDARD}
    for path, ending in found.items():
        if ending is None:
            raise ValueError(f"{path} has an unknown ending; give {', '.join(ENDINGS)}, or - for a standard stream")
    kinds = set(found.values()) | ({kind} if kind else set())
    if len(kinds) > 1:
        raise ValueError(f"input and output must be of one kind, got {' and '.join(sorted(map(str, kinds)))}")
    chosen = kinds.pop() if kinds else "csv"
    if chosen not in ENDINGS.values():
        raise ValueError(f"the format must be csv, jsonl or parquet, got {chosen!r}")
    if chosen == "parquet" and len(found) < 2:
        raise ValueError("parquet cannot be streamed through standard input or output; give two files")
    assert chosen is not None
    return chosen
