"""``epsworth perturb``: the client - apply a policy to a file or a stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import options, show


def perturb(
    policy: options.PolicyFile,
    source: Annotated[str, typer.Argument(help="Records: .csv, .jsonl or .parquet; - for standard input.")],
    destination: Annotated[str, typer.Argument(help="Output of the same kind; - for standard output.")],
    again: Annotated[
        bool, typer.Option("--again", help="Perturb records that left before: their epsilons add.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option("--format", help="csv or jsonl, where both ends are standard streams.")
    ] = None,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt as JSON to this file.")] = None,
) -> None:
    """Perturb a table as a policy says, with draws fit for release."""
    from epsworth.files import check_distinct, check_writable
    from epsworth.release import Policy, perturb_file
    from epsworth.release.keyed import KEY, KEY_LOCK
    from epsworth.release.ledger import LEDGER, LOCK, NEW, state_folder

    rules = Policy.load(policy)
    if receipt is not None:
        check_writable(receipt)
    folder, state = None if destination == "-" else Path(destination).parent, state_folder()
    own = {"ledger": LEDGER, "ledger's lock": LOCK, "ledger's successor": NEW}  # files that a run makes by itself
    check_distinct(
        policy=policy,
        input="/dev/stdin" if source == "-" else source,
        **{word: folder and folder / name for word, name in own.items()},
        **{"key": state / KEY, "key's lock": state / KEY_LOCK},
        output="/dev/stdout" if destination == "-" else destination,
        receipt=receipt,
    )
    with options.progress_bar("perturbing") as progress:
        found = perturb_file(rules, source, destination, kind=kind, again=again, progress=progress)  # type: ignore[arg-type]
    if receipt is not None:
        show.write_json(str(receipt), found.to_dict())
    print(found, file=sys.stderr if destination == "-" else sys.stdout)
    if destination != "-":
        show.suggest("audit", policy, why="check the draws of this installation")
