"""``epsworth perturb``: the client - apply a policy to a file or a stream."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, parsing, show
from epsworth.cli.messages import in_options
from epsworth.cli.running import connections_may_break

if TYPE_CHECKING:
    from epsworth.policy import Policy


def perturb(
    policy: options.PolicyFile,
    source: Annotated[str, typer.Argument(help="Records: .csv, .jsonl, .parquet, or a folder; - for standard input.")],
    destination: Annotated[str, typer.Argument(help="Output of the same kind, or a folder; - for standard output.")],
    person: options.Person = None,
    cap: options.Cap = None,
    delta_cap: Annotated[str | None, typer.Option(help="Largest delta of a person, likewise.")] = None,
    max_rows_per_person: options.MaxRows = None,
    ledger: options.LedgerFolder = None,
    again: Annotated[
        bool, typer.Option("--again", help="Perturb records that left before: their epsilons add.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option("--format", help="csv or jsonl, where both ends are standard streams.")
    ] = None,
    sep: options.Sep = ",",
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes that perturb parts of a CSV or JSON file side by side.", callback=parsing.checked_jobs
        ),
    ] = 1,
    workers: Annotated[int, typer.Option(help="Processes that perturb files of a folder side by side.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers perturb them (tcp://host:port).")
    ] = None,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt as JSON to this file.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be released and charged; write and charge nothing.")
    ] = False,
) -> None:
    """Perturb a table as a policy says.

    Draws are fit for release.

    A run is charged to the people of the table before it draws; stopped, it goes on where the same command is given
    again, and draws the same bytes.  The files of a folder are one run, charged once.
    """
    connections_may_break()  # a reader that leaves must not end the process with its files
    from epsworth.files import OutputError, check_distinct, check_writable
    from epsworth.policy import Ledger, Policy, perturb_file, perturb_files
    from epsworth.policy.files.many_files import check_apart
    from epsworth.policy.files.one_file import kind_of_ends

    terms = {
        "person": person,
        "cap": cap,
        "delta_cap": delta_cap,
        "max_rows_per_person": max_rows_per_person,
        "ledger": ledger,
        "again": again,
    }
    many = source != "-" and Path(source).is_dir()
    _check_places(source, destination, receipt, jobs=jobs, many=many, workers=workers, cluster=cluster)
    if many:
        check_apart(source, destination, ledger)
    rules = Policy.load(policy)
    if not many and kind is None:
        kind_of_ends(source, destination, None)  # before a ledger is made
    if dry_run:
        _print_dry_run(rules, source, destination, receipt, {"kind": kind, "sep": sep} | terms)
        return
    if receipt is not None:
        check_writable(receipt)
    store = Ledger(ledger)
    check_distinct(
        policy=policy,
        input="/dev/stdin" if source == "-" else source,
        **store.files,
        output="/dev/stdout" if destination == "-" else destination,
        receipt=receipt,
    )
    for what, path in {"output": None if destination == "-" else Path(destination), "receipt": receipt}.items():
        if path is not None:
            store.check_apart(what, path)
    with options.progress_bar("perturbing") as progress:
        where = {"workers": workers, "cluster": cluster} if many else {"jobs": jobs}
        command: Any = perturb_files if many else perturb_file
        try:
            found = command(rules, source, destination, kind=kind, sep=sep, **terms, **where, progress=progress)
        except OutputError:
            if destination == "-":  # nobody reads what is left in its buffer
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise
    if receipt is not None:
        show.write_json(str(receipt), found.to_dict())
    out = sys.stderr if destination == "-" else sys.stdout
    if found.already_done:
        print(f"Already done: {destination} holds the output of this very run. Nothing was drawn or charged.", file=out)
    else:
        print(in_options(found), file=out)
    print(f"Ledger: {store.path.parent}", file=out)
    if destination != "-" and not found.already_done:
        show.suggest("audit", policy, why="check the draws of this installation")


def _print_dry_run(policy: Policy, source: str, destination: str, receipt: Path | None, terms: dict[str, Any]) -> None:
    """Say what would be done; with --receipt there is nothing to write."""
    from epsworth.policy.files.dry_runs import dry_run

    if receipt is not None:
        raise ValueError("--dry-run writes nothing, so there is no receipt; drop --receipt")
    with options.progress_bar("reading") as progress:
        found = dry_run(policy, source, destination, **terms, progress=progress)
    print(in_options(found))


def _check_places(
    source: str, destination: str, receipt: Path | None, *, jobs: int, many: bool, workers: int, cluster: str | None
) -> None:
    """Refuse options of folders beside a file, those of a file beside a folder, and a receipt among the files."""
    if many and jobs != 1:
        raise ValueError("--jobs shares the parts of one file; for the files of a folder give --workers or --cluster")
    if not many and (workers != 1 or cluster is not None):
        raise ValueError(f"--workers and --cluster share the files of a folder, and {source} is none; give --jobs")
    if many and receipt is not None:
        for folder in (source, destination):
            if Path(folder).resolve() in receipt.resolve().parents:
                raise ValueError(f"{receipt}: the receipt would lie among the tables of {folder}; give another path")
