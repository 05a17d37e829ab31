"""`perturb_file`: CSV, JSON lines and Parquet, read twice: checked and charged, then drawn part by part."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from epsworth.deprecation import renamed
from epsworth.files import check_distinct, check_readable, check_writable, writing
from epsworth.numerals import plain
from epsworth.release.file_tables import FileTable, Seen, file_table
from epsworth.release.ledger import Identity, Ledger, Run, Terms
from epsworth.release.outputs import STANDARD, bytes_of, standard_output
from epsworth.release.parts import PartWords, derivation
from epsworth.release.policy import Policy
from epsworth.release.receipt import Receipt
from epsworth.release.runs import bring_about
from epsworth.release.tables import Perturbation
from epsworth.release.units import UnitCounts
from epsworth.rounding import float_above

if TYPE_CHECKING:
    from epsworth.exact.entropy import WordSource

Format = Literal["csv", "jsonl", "parquet"]
ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
Progress = Callable[[float], None]
Amount = str | float | Decimal
READING = 0.4  # of the work, where progress is told


@renamed(target="destination")
def perturb_file(
    policy: Policy,
    source: str | Path,
    destination: str | Path,
    *,
    kind: Format | None = None,
    unit: str | None = None,
    cap: Amount | None = None,
    delta_cap: Amount | None = None,
    most: int | None = None,
    ledger: str | Path | None = None,
    again: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    words: WordSource | None = None,
) -> Receipt:
    """Perturb a file as the policy says and write the same kind of file.

    Claim: every record of the output keeps ``policy.guarantee``; m rows of one person keep m times that, and no person
    is charged more than ``cap`` over all runs of the ledger.  Rows, their order and all other columns are as they were,
    text for text.  Whatever happens, ``destination`` is the old file or the whole new one; a run that was stopped goes
    on where the same command is given again, draws the same bytes, and is charged once.

    Parameters
    ----------
    source, destination : path or "-"
        ``.csv``, ``.jsonl``, ``.ndjson`` or ``.parquet``; "-" is standard input or output.
    kind : {"csv", "jsonl", "parquet"}, optional
        By default what the endings say, and CSV for two standard streams.
    unit : str, optional
        The column that says who a row is about.  Without it nobody knows, and the run is charged to everybody.
    cap, delta_cap : number or text, optional
        The largest sums of epsilon and delta of a person over all runs; a ledger keeps what it was told first.
    most : int, optional
        Without ``unit``: how many rows one person has at most; else all rows may be one person's.
    ledger : path, optional
        Folder of the ledger; by default the account's own (``EPSWORTH_STATE``).
    again : bool
        Allow records to leave a second time under the same policy: budgets add.
    jobs : int
        Processes that perturb parts of a CSV or JSON file side by side; the output is the same.
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
        For input that the policy refuses, naming the row; where the ledger knows the records, or a person would exceed
        the cap.  Nothing is charged then.

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
    ...     receipt = perturb_file(policy, source, released, unit="id", cap=3, ledger=Path(folder, "ledger"))
    ...     ids = pl.read_csv(released)["id"].to_list()
    >>> ids, receipt.rows, receipt.epsilon <= 1
    ([7, 8], 2, True)
    """
    kind = _kind(source, destination, kind)
    store = Ledger(ledger)
    with _at_hand(str(source), str(destination), store) as (path, output):
        terms = Terms(  # without rows, which the first reading tells
            Fraction(0), Fraction(0), unit, _amount("cap", cap), _amount("delta_cap", delta_cap), most
        )
        job = _Job(policy, kind, store, terms, again, progress or (lambda share: None))
        return job.run(path, output, Perturbation(policy, words), jobs)
