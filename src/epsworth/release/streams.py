"""`perturb_file`: CSV, JSON lines and Parquet, streamed in bounded memory; the output appears whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from epsworth.deprecation import renamed
from epsworth.files import check_distinct, check_readable, check_writable, held_back
from epsworth.numerals import plain
from epsworth.release.beside import check_metadata
from epsworth.release.keyed import Watched, fingerprint_of
from epsworth.release.ledger import Charge, Ledger
from epsworth.release.outputs import charged
from epsworth.release.policy import Policy
from epsworth.release.receipt import Receipt
from epsworth.release.tables import Perturbation
from epsworth.release.tailored_json import TailoredJsonSplicer
from epsworth.release.text import CsvSplicer, JsonSplicer
from epsworth.rounding import float_above, sum_above

if TYPE_CHECKING:
    import polars as pl

    from epsworth.exact.entropy import WordSource

Format = Literal["csv", "jsonl", "parquet"]
ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
STANDARD = "-"
COUNTING = RLock()  # the engine may perturb batches side by side: a lost count would refuse a whole release
Progress = Callable[[float], None]


@renamed(target="destination")
def perturb_file(
    policy: Policy,
    source: str | Path,
    destination: str | Path,
    *,
    kind: Format | None = None,
    again: bool = False,
    progress: Progress | None = None,
    words: WordSource | None = None,
) -> Receipt:
    """Perturb a file as the policy says and write the same kind of file.

    Claim: every record of the output keeps ``policy.guarantee``; rows, their order and all other columns are as they
    were (CSV and JSON lines: byte for byte).  Whatever happens, ``destination`` is the old file or the whole new one,
    and nothing reaches standard output before the whole input was checked.

    Parameters
    ----------
    source, destination : path or "-"
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
        For input that the policy refuses, naming the row, and where the ledger beside the output knows the records.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth import Domain, Policy, perturb_file
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100)}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, released = Path(folder, "people.csv"), Path(folder, "released.csv")
    ...     pl.DataFrame({"id": [7, 8], "age": [30, 61]}).write_csv(source)
    ...     receipt = perturb_file(policy, source, released)
    ...     ids = pl.read_csv(released)["id"].to_list()
    >>> ids, receipt.rows, receipt.epsilon <= 1
    ([7, 8], 2, True)
    """
    kind = _kind(source, destination, kind)
    job = _Job(policy, str(source), str(destination), kind, again, progress or (lambda share: None))
    return job.run(Perturbation(policy, words))


def charge_of(policy: Policy) -> Charge:
    """Return what a run under a policy costs every record."""
    return Charge(policy.fingerprint, policy.guarantee, f"epsilon {plain(policy.total)}")


@dataclass(frozen=True)
class _Job:
    policy: Policy
    source: str
    destination: str
    kind: Format
    again: bool
    progress: Progress

    def run(self, perturbation: Perturbation) -> Receipt:
        """Refuse what can be refused before any work, then write, remember, and let the output appear."""
        source = "/dev/stdin" if self.source == STANDARD else self.source
        if self.source == STANDARD:
            _bytes_of(sys.stdin, "standard input")
        else:
            check_readable(self.source, "table")
        if self.destination == STANDARD:
            check_distinct(input=source, output="/dev/stdout")
            with held_back(_bytes_of(sys.stdout, "standard output"), "standard output") as sink:
                rows, _ = self._text(perturbation, sink)
            return self._receipt(perturbation, rows)
        path = check_writable(self.destination)
        check_distinct(input=source, output=path, ledger=Ledger(path.resolve().parent).path)
        records = None
        if self.source != STANDARD:
            records = fingerprint_of(Path(self.source))
        with charged(path.resolve(), charge_of(self.policy), records, again=self.again) as output:
            if self.kind == "parquet":
                rows, streamed = self._parquet(perturbation, output.temporary), fingerprint_of(Path(self.source))
            else:
                with output.temporary.open("wb") as sink:
                    rows, streamed = self._text(perturbation, sink)
            if records not in (None, streamed):
                raise ValueError(f"the table {self.source} changed while it was read; nothing was written: start anew")
            output.whole(streamed, rows)
        assert output.spent is not None
        receipt = self._receipt(perturbation, rows)
        return replace(
            receipt,  # and what the ledger knows
            times_before=output.spent.times,
            epsilon_so_far=sum_above([output.spent.epsilon, receipt.epsilon]),
            delta_so_far=min(1.0, sum_above([output.spent.delta, receipt.delta])),
        )

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
            stated=float_above(Fraction(self.policy.total)),
            together=() if self.policy.tailoring is None else self.policy.tailoring.names,
        )

    def _text(self, perturbation: Perturbation, sink: BinaryIO) -> tuple[int, str]:
        """Stream text; return how many rows, and the fingerprint of what was read."""
        objects = JsonSplicer if self.policy.tailoring is None else TailoredJsonSplicer
        splicer = (CsvSplicer if self.kind == "csv" else objects)(perturbation)
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
            table = _scanned(self.source)
            schema, rows = table.collect_schema(), int(table.select(pl.len()).collect().item())
            notes = (
                pl.read_parquet_metadata(os.path.abspath(self.source)) if hasattr(pl, "read_parquet_metadata") else {}
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(f"cannot read the table {self.source}: {str(error).splitlines()[0]}") from None
        perturbation.check_names(schema.names())
        check_metadata(perturbation.columns, notes.get("pandas"))
        done, numbers = 0, ROW
        while numbers in schema:  # a column of the user's own
            numbers += "'"

        def batch(frame: pl.DataFrame) -> pl.DataFrame:
            nonlocal done
            first = int(frame.item(0, numbers)) if len(frame) else 0
            released: pl.DataFrame = perturbation.frame(
                nw.from_native(frame.drop(numbers), eager_only=True), first
            ).to_native()
            with COUNTING:
                done += len(frame)
                self.progress(done / rows if rows else 1.0)
            return released

        released = _released_schema(perturbation, schema)
        streamed = table.with_row_index(numbers).map_batches(batch, schema=released, streamable=True)
        try:
            streamed.sink_parquet(temporary)
            written = _scanned(temporary)
            found = int(written.select(pl.len()).collect().item()), dict(written.collect_schema())
        except pl.exceptions.PolarsError as error:
            told = str(error).splitlines()[0]
            why = told if "os error" in told else "the engine failed"  # its other words may show values
            raise ValueError(f"cannot write {self.destination}: {why}; choose another place") from None
        if done != rows or found != (rows, released):  # the engine must draw once for every row, and write them all
            raise RuntimeError(f"{done} rows were drawn for a table of {rows}; nothing was written")
        return rows


ROW = "epsworth: row"


def _scanned(path: str | Path) -> pl.LazyFrame:
    """Scan one local file: its name is no pattern, no address and no home folder, nor do its folders hold columns."""
    import polars as pl

    return pl.scan_parquet(os.path.abspath(path), glob=False, hive_partitioning=False)


def _released_schema(perturbation: Perturbation, schema: pl.Schema) -> dict[str, pl.DataType]:
    """Return the output's types: those that a perturbed empty table has."""
    import narwhals as nw
    import polars as pl

    empty = pl.DataFrame(schema=schema)
    return dict(nw.to_native(perturbation.frame(nw.from_native(empty, eager_only=True))).schema)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == STANDARD:
        yield _bytes_of(sys.stdin, "standard input")
        return
    with open(source, "rb") as stream:
        yield stream


def _bytes_of(stream: Any, what: str) -> BinaryIO:
    """Return the stream of bytes under a standard stream; some shells close it, and notebooks have none."""
    found: BinaryIO | None = getattr(stream, "buffer", None)
    if found is None:
        raise ValueError(f"{what} is closed, or takes texts alone; give a file instead of -")
    return found


def _kind(source: str | Path, destination: str | Path, kind: Format | None) -> Format:
    """Return the common format of both ends."""
    found = {
        str(path): ENDINGS.get(Path(path).suffix.lower()) for path in (source, destination) if str(path) != STANDARD
    }
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
