"""``epsworth radius``: how far one record can move before its label can change."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import asking, options, services, show


def radius(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    record: options.Record = 0,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="Feature that moves; repeat. Default: all.")
    ] = None,
    norm: Annotated[str, typer.Option(help="2, or inf: the norm of the move, in the units of the table.")] = "2",
    target: options.Target = None,
    failing: Annotated[float, typer.Option(help="Share of a ball that may flip, where only draws can tell.")] = 0.01,
    budget: Annotated[int, typer.Option(help="Most boxes to look at before the bounds so far are returned.")] = 20_000,
    confidence: options.Confidence = 0.999,
    seed: options.Seed = None,
    trust: options.Trust = False,
    cache: services.Cache = None,
    batch: services.Batch = None,
    timeout: services.Timeout = None,
    inputs: services.Inputs = None,
    output: services.Output = None,
    json: options.Json = None,
) -> None:
    """Bound how far a record can move before its label changes."""
    import epsworth as ew

    options.check_outputs(json, None)
    if norm not in ("2", "inf"):
        raise ValueError(f"--norm must be 2 or inf, got {norm!r}")
    given = context.params | {"sensitive": feature, "domain": None, "domain_from_data": False}
    asked = asking.Inputs.of(given, model, table)
    found = ew.radius(
        asked.model, asked.record(record), norm=2 if norm == "2" else "inf", features=asked.names or None,
        confidence=confidence, rng=seed, failing=failing, budget=budget,
    )  # fmt: skip
    if show.told(json, found.to_dict):
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
