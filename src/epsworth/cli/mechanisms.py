"""``epsworth mechanisms``: the table of families."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth import inputs
from epsworth.cli import options, show
from epsworth.rounding import round_down, show_up

if TYPE_CHECKING:
    from epsworth.mechanisms.family import Family

TAILORED = (
    "tailored: randomises in which region of one model a whole record lies, at one epsilon for all its features, so "
    "that no law of a single value can be shown; epsworth tailor makes the policy, -m tailored compares it in utility "
    "and recommend."
)


def mechanisms(
    epsilon: options.Epsilons = "1,2,4,8",
    x: Annotated[float, typer.Option("--at", help="True value on the unit scale.")] = 0.5,
    radius: Annotated[float, typer.Option(help="Half-width around it.")] = 0.1,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", "-m", help="Mechanism, with options after a colon; repeat. Default: every family."),
    ] = None,
    json: options.Json = None,
) -> None:
    """List the mechanisms and what they promise."""
    from epsworth.mechanisms.family import families

    options.check_outputs(json, None)
    grid = inputs.epsilon_grid(epsilon)
    if not 0 <= radius <= 1:
        raise ValueError(f"--radius must lie in [0, 1], got {radius:g}")
    if not 0 <= x <= 1:
        raise ValueError(f"--at must lie in [0, 1], got {x:g}")
    rows = [_row(family, grid, x, radius) for family in families(inputs.families(mechanism or ["all"]))]
    if show.told(json, lambda: {"at": x, "radius": radius, "mechanisms": rows}):
        return
    out = show.console()
    out.print(
        f"[bold]share of outputs within {radius:g} of the true value {x:g}[/bold] (unit scale), by epsilon per feature"
    )
    table = show.table(
        "mechanism", *(f"ε={show_up(value)}" for value in grid[: show.MOST_COLUMNS]), left=("mechanism",)
    )
    for column in ("output", "promise (first ε)", "tight ε"):
        table.add_column(column)
    for row in rows:
        masses = [f"{round_down(mass):.3f}" for mass in row["mass"][: show.MOST_COLUMNS]]
        tight = "none" if row["tight_epsilon"][0] is None else show_up(row["tight_epsilon"][0])
        table.add_row(row["mechanism"], *masses, row["output"], row["guarantee"], tight)
    out.print(table)
    out.print()
    for row in rows:
        out.print(f"{row['mechanism']}: {row['title']}. {row['reference']}.")
    if mechanism is None:
        out.print(TAILORED)


def _row(family: Family, grid: list[float], x: float, radius: float) -> dict[str, Any]:
    """Return one family at every epsilon of the grid; ``mass`` is the share of outputs near the true value."""
    from epsworth.mechanisms import LabelResponse

    built = [release for release in map(family.build, grid) if not isinstance(release, LabelResponse)]
    if not built:
        raise ValueError("label_rr releases the label, not a feature, so it has no law to show; try epsworth utility")
    # decimals: 0.7 + 0.1 as floats would miss the grid point 0.8
    box = [float(Decimal(str(x)) + sign * Decimal(str(radius))) for sign in (-1, 1)]
    first = built[0]
    return {
        "mechanism": family.name, "title": first.title, "output": first.output, "guarantee": str(first.guarantee),
        "epsilon": grid, "tight_epsilon": [b.tight_epsilon if b.tight_epsilon < float("inf") else None for b in built],
        "mass": [float(b.law(x).mass(*box)) for b in built], "reference": first.reference,
    }  # fmt: skip
