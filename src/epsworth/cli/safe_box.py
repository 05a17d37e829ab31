"""``epsworth safe-box``: ranges within which one record keeps its label."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import asking, options, show
from epsworth.rounding import round_down


@options.takes(options.BUDGETED)
def safe_box(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    sensitive: options.Sensitive,
    record: options.Record = 0,
    domain: options.DomainFile = None,
    domain_from_data: options.DomainFromData = False,
    mechanism: Annotated[
        str, typer.Option("--mechanism", "-m", help="Mechanism whose outputs weigh the box; one without a grid.")
    ] = "pm",
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Epsilon of the whole record.")] = 4.0,
    target: options.Target = None,
    confidence: options.Confidence = 0.999,
    seed: options.Seed = None,
    json: options.Json = None,
) -> None:
    """Find ranges that keep a record's label.

    They are ranges of the sensitive features.
    """
    import epsworth as ew

    options.check_outputs(json, None)
    asked = asking.Inputs.of(context.params, model, table)
    found = ew.safe_box(
        asked.model, asked.record(record), sensitive=asked.names, domain=asked.domain, mechanism=mechanism,
        epsilon=epsilon, confidence=confidence, rng=seed,
    )  # fmt: skip
    if show.told(json, found.to_dict):
        return
    out = show.console()
    out.print(f"Record {record}: {found}", markup=False, soft_wrap=True)
    whole = asked.domain is not None and any(asked.domain[name].integer for name in asked.names)
    out.print(
        f"{mechanism} at epsilon {epsilon:g} per record stays in the box with probability "
        f"{round_down(found.mass):.3f} at least{', before it is rounded to whole numbers' if whole else ''}.",
        soft_wrap=True,
    )  # fmt: skip
    out.print("This is computed from the record itself: show it to nobody who may not see the record.")
    names = ",".join(found.features)
    show.suggest(
        "utility", model, table, "-s", names, *show.domain_words(domain, context.params["missing"]), "--record", record,
        why="how often the label stays",
    )  # fmt: skip
