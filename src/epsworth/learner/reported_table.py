"""`report_file`: a table of a file, charged to its people, then reported with the words of its run."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from epsworth.files import check_distinct, check_name, check_writable
from epsworth.learner.asked import Asked
from epsworth.learner.assignment import refuse_files
from epsworth.learner.report_files import ROWS, columns, draw, is_lines
from epsworth.learner.tables.steps import Step
from epsworth.policy.files.file_tables import PartWords
from epsworth.policy.files.outputs import execute_run
from epsworth.policy.ledger import Amount, ChargeRequest, Identity, Ledger, Run, RunTerms
from epsworth.tables import column

VERSION = 1  # of the way from words to reports


def report_file(
    config: Asked,
    source: Path,
    destination: Path,
    target: str,
    *,
    person: str | None = None,
    cap: Amount | None = None,
    max_rows_per_person: int | None = None,
    ledger: str | Path | None = None,
    again: bool = False,
    sep: str = ",",
) -> int:
    """Report a table's rows to a file; refuse records that left before under this configuration, unless told.

    Claim: nobody is charged more than ``cap`` over all runs of the ledger; k reports of one user tell k epsilon about
    them.  A run that was stopped goes on where the same is asked again, draws the same reports, and is charged once.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
        What clients and server agree on.
    source : path
        The table.
    destination : path
        ``.ldp`` or ``.jsonl``.
    target : str
        Column of labels.
    person : str, optional
        The column that says who a row is about.  Without it nobody knows, and the run is charged to everybody.
    cap : number or text, optional
        The largest sum of epsilons of a person over all runs; a ledger keeps what it was told first.
    max_rows_per_person : int, optional
        With ``person``: only the first so many rows of a person are reported, in the order of the table.  Without it:
        how many rows one person has at most, which nobody checks; else all rows may be one person's.
    ledger : path, optional
        Folder of the ledger; by default the account's own (``EPSWORTH_STATE``).
    again : bool
        Allow records to leave a second time: epsilons add.
    sep : str
        What separates the fields of CSV: a comma, semicolon, tab or bar.

    Returns
    -------
    int
        How many were reported.

    Raises
    ------
    ValueError
        For a table that lacks a column, where the ledger knows its records, and where a person would exceed the cap.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth.learner import LatticeConfig, report_file
    >>> config = LatticeConfig(box=[(0, 100)], names=["age"], m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "table.csv")
    ...     pl.DataFrame({"id": [7, 8], "age": [30, 61], "sick": [0, 1]}).write_csv(table)
    ...     report_file(config, table, Path(folder, "reports.ldp"), "sick", person="id", ledger=Path(folder, "ledger"))
    2
    """
    return reported(
        config, source, destination, target, person, cap, max_rows_per_person, ledger, again=again, sep=sep
    ).rows


class Reported(NamedTuple):
    """What a run reported, and what its ledger says of it."""

    rows: int
    run: Run


def reported(
    config: Asked,
    source: Path,
    destination: Path,
    target: str,
    person: str | None = None,
    cap: Amount | None = None,
    most: int | None = None,
    ledger: str | Path | None = None,
    *,
    again: bool = False,
    sep: str = ",",
) -> Reported:
    """Do what `report_file` says."""
    from epsworth.tables import read_texts

    terms = RunTerms(person, cap, None, most, again)
    refuse_files(config)
    store = Ledger(ledger)
    path, as_lines = check_name("output", check_writable(destination).resolve()), is_lines(destination)
    check_distinct(table=source, reports=path, **store.files)
    store.check_apart("output", path)
    digest = _digest(source, store)
    table = read_texts(source, sep=sep)  # no record decides how another one is read
    if _digest(source, store) != digest:
        raise ValueError(f"the table {source} changed while it was read; nothing was written: start anew")
    counts = terms.counts
    if person is not None and counts is not None:
        counts.add(store.hashes(column(table, person).to_list()))
        table = table if (kept := counts.kept()) is None else table.filter(kept.tolist())
    users = config.admitted(columns(config, table), column(table, target))
    content = {"version": VERSION, "config": config.fingerprint(), "target": target, "lines": as_lines, "part": ROWS}
    if sep != ",":
        content["sep"] = sep
    if person is not None and most is not None:
        content["first rows"] = [person, most]
    identity = Identity(json.dumps(content), digest, str(path))
    rows = int(users.label.size)
    request = _request(config, rows, terms)
    run = store.begin(request, identity, counts)

    def write(temporary: Path) -> None:
        assert run.key is not None  # only of a run that is done
        words = PartWords(run.key, identity.policy)
        draw(config, users, temporary, lambda index: words(index, digest), as_lines=as_lines)

    execute_run(store, run, request, path, write)
    return Reported(rows, run)


def _request(config: Asked, rows: int, terms: RunTerms) -> ChargeRequest:
    """Return what a run costs a row; a table's rounds are one session, of which a record answers one."""
    epsilon = (
        config.config if isinstance(config, Step) else config
    ).budget  # of which the guarantee is the float above
    before = "before, and a record answers one round of a table: give other people's"
    return ChargeRequest(
        config.session,
        epsilon,
        Fraction(0),
        rows=rows,
        terms=terms,
        adds=f"epsilon {config.epsilon}",
        left="were reported",
        where=before if isinstance(config, Step) else "before",
        output="reports",
    )


def _digest(path: Path, store: Ledger) -> bytes:
    """Return a keyed hash of a file: without the ledger's key nobody can try out what it held."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(key=store.digest_key, digest_size=32)).digest()
