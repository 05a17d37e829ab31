"""`perturb_file`: CSV, JSON lines and Parquet, streamed in bounded memory; the output appears whole or not at all."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from epsworth.deprecation import renamed
from epsworth.files import check_distinct, check_readable, check_writable, held_back, writing
from epsworth.numerals import plain
from epsworth.release.file_tables import file_table
from epsworth.release.keyed import fingerprint_of
from epsworth.release.ledger import Charge, Ledger
from epsworth.release.outputs import charged
from epsworth.release.policy import Policy
from epsworth.release.receipt import Receipt
from epsworth.release.tables import Perturbation
from epsworth.rounding import float_above, sum_above

if TYPE_CHECKING:
    from epsworth.exact.entropy import WordSource

Format = Literal["csv", "jsonl", "parquet"]
ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
STANDARD = "-"
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
    were (CSV field by field, JSON lines member by member, text for text).  Whatever happens, ``destination`` is the old
    file or the whole new one, and nothing reaches standard output before the whole input was checked.

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
                rows, _ = self._written(perturbation, Path(sink.name))
            return self._receipt(perturbation, rows)
        path = check_writable(self.destination)
        check_distinct(input=source, output=path, ledger=Ledger(path.resolve().parent).path)
        records = None
        if self.source != STANDARD:
            records = fingerprint_of(Path(self.source))
        with charged(path.resolve(), charge_of(self.policy), records, again=self.again) as output:
            rows, streamed = self._written(perturbation, output.temporary)
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

    def _written(self, perturbation: Perturbation, sink: Path) -> tuple[int, str]:
        """Read the table twice, the second time to draw; return how many rows, and the fingerprint of what was read."""
        with _on_disk(self.source) as source:
            table = file_table(self.kind, perturbation, source)
            seen = table.seen(progress=lambda share: self.progress(share / 2))
            rows = table.write(
                seen, lambda number, digest: perturbation.words, sink, lambda share: self.progress((1 + share) / 2)
            )
            return rows, fingerprint_of(source)


@contextmanager
def _on_disk(source: str) -> Iterator[Path]:
    """Yield a file that can be read twice; standard input is copied to one for the owner's eyes only."""
    if source != STANDARD:
        yield Path(source)
        return
    with writing(f"the temporary folder {tempfile.gettempdir()}"), tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(_bytes_of(sys.stdin, "standard input"), copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


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
