"""``epsworth ledger``: what each person lost in all runs, which runs there were, and whether they still stand there."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsworth.cli import options, parsing, show
from epsworth.numerals import counted
from epsworth.rounding import show_up

if TYPE_CHECKING:
    from epsworth.policy.ledger import Ledger
    from epsworth.policy.ledger.costs import Lost

app = parsing.Shell(
    help="Tell what left already, by person and by run.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
MOST_NAMED = 5  # people whom no release names
LEDGER_HELP = "The ledger's folder; by default the account's own (EPSWORTH_STATE)."
Folder = Annotated[str | None, typer.Option("--ledger", help=LEDGER_HELP)]


@app.command("spent")
@options.apart
def spent(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of people, as they stand in their column.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A text file with an id a line.")] = None,
    ledger: Annotated[str | None, typer.Option("--ledger", help=f"{LEDGER_HELP} Or the file of a gateway.")] = None,
    json: options.Json = None,
) -> None:
    """Print what people lost in all runs.

    Epsilon and delta of each id, rounded up; --json tells every digit.
    """
    options.check_outputs(json, None)
    asked = list(ids or []) if file is None else _lines(file)
    if bool(ids) == (file is not None):
        raise ValueError("name people either as arguments or by --file, one way of both")
    lost = _lost(asked, ledger, json)
    rows = [(person, epsilon, delta) for person, (epsilon, delta, _) in zip(asked, lost, strict=True)]
    if show.told(json, lambda: {"spent": [{"id": i, "epsilon": f"{e:f}", "delta": f"{d:f}"} for i, e, d in rows]}):
        return
    table = show.table("id", "epsilon", "delta", left=["id"])
    for person, epsilon, delta in rows:
        table.add_row(_escaped(person), show_up(float(epsilon)), show_up(float(delta)))
    out = show.console()
    out.print(table)
    if unknown := [person for person, one in zip(asked, lost, strict=True) if not one.named]:
        more = f" and {len(unknown) - MOST_NAMED:,} more" if len(unknown) > MOST_NAMED else ""
        names = ", ".join(unknown[:MOST_NAMED]) + more
        out.print(
            f"No release names {names} here; check the spelling, or name another --ledger.",
            markup=False, soft_wrap=True,
        )  # fmt: skip


def _lost(people: list[str], ledger: str | None, json: str | None) -> list[Lost]:
    """Return what people lost, by a ledger or a gateway's file."""
    if ledger is None or not Path(ledger).is_file():
        return _opened(ledger, json).lost(people)
    from epsworth.gateway.people import spent
    from epsworth.policy.ledger.costs import Lost, amount_above, decimal_of

    return [
        Lost(
            decimal_of(amount_above("epsilon", epsilon)), decimal_of(amount_above("delta", min(delta, Fraction(1)))),
            named=any((epsilon, delta)),
        )
        for epsilon, delta in spent(Path(ledger), people)
    ]  # fmt: skip


@app.command("runs")
@options.apart
def runs(ledger: Folder = None, json: options.Json = None) -> None:
    """Print all runs that were charged."""
    options.check_outputs(json, None)
    found = [
        {
            "day": run.day, "policy": run.policy, "state": run.state, "rows": run.rows, "person": run.person,
            "epsilon": f"{run.epsilon:f}", "delta": f"{run.delta:f}", "most": run.most,
        }
        for run in _opened(ledger, json).runs()
    ]  # fmt: skip
    if show.told(json, lambda: {"runs": found}):
        return
    table = show.table(
        "day", "policy", "state", "rows", "epsilon", "delta", "charged to", left=["policy", "charged to"]
    )
    for run in found:
        whom = "everybody" if run["person"] is None else f"each {run['person']}"
        lost = (show_up(float(str(run[name]))) for name in ("epsilon", "delta"))
        whom += f", for {counted(int(str(run['most'])), 'row')} at most"
        cells = run["day"], str(run["policy"])[:16], run["state"], run["rows"], *lost, whom
        table.add_row(*(_escaped("-" if cell is None else str(cell)) for cell in cells))
    show.console().print(table)


@app.command("head")
@options.apart
def head(ledger: Folder = None, json: options.Json = None) -> None:
    """Print a hash of all runs, to be kept elsewhere.

    verify checks it later.
    """
    options.check_outputs(json, None)
    found = _opened(ledger, json).head()
    if not show.told(json, lambda: {"head": found}):
        show.console().print(found, soft_wrap=True, highlight=False)


@app.command("verify")
@options.apart
def verify(
    head: Annotated[str, typer.Argument(metavar="HEAD", help="What `epsworth ledger head` printed before.")],
    ledger: Folder = None,
) -> None:
    """Check that the ledger begins with the runs of HEAD.

    With exactly these; exit status 2 if it does not.
    """
    _opened(ledger, None).verify(head)
    show.console().print("the ledger holds all runs of this head, unchanged", soft_wrap=True, highlight=False)


def _opened(folder: str | None, json: str | None) -> Ledger:
    """Open a ledger that is there, as a question makes none; the answer does not take the place of its files."""
    from epsworth.policy.folders import folder_named, state_folder
    from epsworth.policy.ledger import Ledger, is_ledger

    place = state_folder() if folder is None else folder_named("ledger", folder)
    if not is_ledger(place):
        file = ", as it is a file: only `epsworth ledger spent` reads a gateway's" if place.is_file() else ""
        raise ValueError(f"there is no ledger in {place}{file}; name its folder by --ledger")
    kept = Ledger(place)
    if json not in (None, "-"):
        kept.check_apart("answer", Path(json))
    return kept


def _lines(path: Path) -> list[str]:
    from epsworth.files import reading
    from epsworth.policy.ledger.ids import refusal

    with reading(path, "list of ids") as content:
        lines = enumerate(content.decode("utf-8-sig").replace("\r\n", "\n").split("\n"), start=1)
        found = {at: line for at, line in lines if line}
        for at, line in found.items():
            if why := refusal(line):
                raise ValueError(f"line {at}: the id {why}")
        return list(found.values())


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
