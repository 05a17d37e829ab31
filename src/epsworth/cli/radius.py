"""``epsworth radius``: how far one record can move before its label can change."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsworth.cli import asking, options, show

if TYPE_CHECKING:
    from epsworth import Radii


@options.takes(options.ASKED)
def radius(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    record: Annotated[
        int | None, typer.Option("--record", "-r", help="Row of the table, counted from 0.", show_default="0")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Ask about every record of the table.")] = False,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="Feature that moves; repeat. Default: all.")
    ] = None,
    norm: Annotated[str, typer.Option(help="2, or inf: the norm of the move, in the units of the table.")] = "2",
    target: options.Target = None,
    failing: Annotated[float, typer.Option(help="Share of a ball that may flip, where only draws can tell.")] = 0.01,
    budget: Annotated[
        int | None,
        typer.Option(help="Most boxes to look at. Default: 20,000; with --within-seconds no end.", show_default=False),
    ] = None,
    within_seconds: options.WithinSeconds = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="With --all: folder in which what is done is kept: go on from it where it is there. "
            "It is computed from raw data.",
        ),
    ] = None,
    confidence: options.Confidence = 0.999,
    seed: options.Seed = None,
    json: options.Json = None,
) -> None:
    """Bound how far a record moves before its label changes.

    With --all every record of the table.

    With --all, --within-seconds is for each record. Ctrl-C ends the run about one record with what is proven so far,
    and exit status 130; a second one ends it at once.
    """
    import epsworth as ew
    from epsworth.cli.running import bar, leave_if, running, told_of_radius

    if every and record is not None:
        raise ValueError("--all and --record exclude each other; drop one of the two")
    alone = {"--jobs": jobs, "--cluster": cluster, "--resume": resume}
    if not every and (named := [word for word, value in alone.items() if value is not None]):
        raise ValueError(f"{named[0]} is for many records; add --all, or leave it out")
    began, within = time.monotonic(), asking.within_seconds(within_seconds)

    options.check_outputs(json, None)
    if norm not in ("2", "inf"):
        raise ValueError(f"--norm must be 2 or inf, got {norm!r}")
    given = context.params | {"sensitive": feature, "domain": None, "domain_from_data": False}
    asked = asking.Inputs.of(given, model, table)
    if every:
        with bar() as shown, options.workers(jobs, cluster) as n_jobs:
            all_found = ew.radii(
                asked.model, asked.frame, norm=2 if norm == "2" else "inf", features=asked.names or None,
                confidence=confidence, rng=seed, failing=failing, budget=budget, seconds=within, n_jobs=n_jobs,
                checkpoint=resume, progress=lambda share: shown("asking the classifier", share),
            )  # fmt: skip
        _tell_all(all_found, json)
        return
    record = record or 0
    with bar() as shown, running("asking the classifier", shown, told_of_radius) as run:
        found = ew.radius(
            asked.model, asked.record(record), norm=2 if norm == "2" else "inf", features=asked.names or None,
            confidence=confidence, rng=seed, failing=failing, budget=budget, seconds=asking.left_of(within, began),
            watch=run.watch, progress=run.progress,
        )  # fmt: skip
    interrupted = found.stopped and run.interrupted
    if show.told(json, found.to_dict):
        leave_if(interrupted)
        return
    out = show.console()
    out.print(f"Record {record}: {found}", markup=False, soft_wrap=True)
    if found.witness is not None:
        values = ", ".join(f"{name} = {value:.6g}" for name, value in zip(found.features, found.witness, strict=True))
        out.print(f"Another label is answered at about {values}.", markup=False, soft_wrap=True)
    out.print("This is computed from the record itself: show it to nobody who may not see the record.")
    first = found.features[0]
    show.suggest(
        "safe-box", model, table, "--record", record, "-s", first, "--domain", "ranges.toml",
        why="safe ranges under a mechanism; epsworth init writes ranges.toml",
    )  # fmt: skip
    leave_if(interrupted)


def _tell_all(found: Radii, json: str | None) -> None:
    if show.told(json, found.to_dict):
        return
    out = show.console()
    out.print(str(found), markup=False, soft_wrap=True)
    soonest = ", ".join(str(record) for record in found.nearest().tolist())
    out.print(f"Nearest to another label: records {soonest}.", markup=False, soft_wrap=True)
    out.print("This is computed from the records themselves: show it to nobody who may not see them.")
