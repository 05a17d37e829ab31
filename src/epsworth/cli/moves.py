"""``epsworth moves``: how far each training row moves a logistic model, with a certificate for every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.cli.asking import encoded
from epsworth.cli.profile import LISTED, print_groups
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from epsworth.exposure import Encoded, Moves

SHARES = (0.5, 0.9, 0.99, 1.0)  # of the rows, of which quantiles are told


def moves(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(help="Training rows: .csv, .csv.gz, .jsonl or .parquet.", metavar="TABLE")],
    target: Annotated[str, typer.Option(help="Column of labels; of more than two the model is multinomial.")],
    l2: Annotated[float, typer.Option(help="Weight of |f|^2/2 beside the mean loss; 0 needs --l1.")] = 1e-3,
    l1: Annotated[float, typer.Option(help="Weight of |f|_1 beside the mean loss: lasso, elastic net.")] = 0.0,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="A free intercept, as scikit-learn fits it, for the constant column.")
    ] = False,
    regulariser: Annotated[
        str, typer.Option(help="What stays when a row leaves: mean: l1 and l2; sum: their product with the rows.")
    ] = "mean",
    top: Annotated[int, typer.Option(min=0, help="How many of the rows that move it furthest to list.")] = LISTED,
    drop: options.Drop = None,
    missing: options.Filled = None,
    sep: options.Sep = ",",
    quiet: options.Quiet = False,
    json: options.Json = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write row, at_least, at_most for every row: .csv, .parquet or .jsonl."),
    ] = None,
) -> None:
    """Certify how far each row moves a logistic model.

    No noise and no advice: the distance between the model of all rows and the one without a row, its error included.
    """
    from epsworth.tables import check_table, write_table

    options.check_outputs(json, None)
    if output is not None:
        check_table(output)

    from epsworth.exposure import exposed_groups, fit_base
    from epsworth.exposure import moves as certified

    rows, data = encoded(context.params, table, constant=not intercept, multiclass=True)
    if l1 and len(data.labels) > 2:
        raise ValueError(f"--l1 needs a target of two labels, got {len(data.labels)}; leave it out, or group them")
    model: dict[str, Any] = {
        "loss": "logistic" if len(data.labels) == 2 else "multinomial", "fit_intercept": intercept, "l1": l1
    }  # fmt: skip
    found = certified(data.X, data.y, fit_base(data.X, data.y, l2, **model), l2, regulariser=regulariser, **model)  # type: ignore[arg-type]  # checked there
    if output is not None:
        write_table({"row": range(len(found)), "at_least": found.lower, "at_most": found.upper}, output)
    groups = exposed_groups(rows, found.upper, without=target) if json or context.params["verbose"] else []
    if not show.told(json, lambda: _document(found, data, top) | {"groups": [group.to_dict() for group in groups]}):
        _print(found, 0 if quiet else top, quiet)
        print_groups(groups)


def _quantiles(found: Moves, shares: tuple[float, ...]) -> list[float]:
    """Return what rows move the model by at most, of so large a share of them: that of a row, never between two."""
    import numpy as np

    ranks = np.ceil(np.array(shares) * (len(found) - 1)).astype(int)
    return np.sort(found.upper)[ranks].tolist()  # type: ignore[no-any-return]


def _furthest(found: Moves, top: int) -> list[dict[str, Any]]:
    import numpy as np

    lower, upper = found.lower, found.upper
    rows = np.lexsort((-lower, -upper))[:top].tolist()
    return [{"row": row, "at_least": float(lower[row]), "at_most": float(upper[row])} for row in rows]


def _document(found: Moves, data: Encoded, top: int) -> dict[str, Any]:
    import numpy as np

    from epsworth.exposure.inputs import NOT_PRIVATE
    from epsworth.results import json_form

    told = {
        "notice": NOT_PRIVATE, "rows": len(found), "columns": data.names, "labels": data.labels, "loss": found.loss,
        "l2": found.l2, "l1": found.l1, "intercept": found.fit_intercept, "regulariser": found.regulariser,
        "model": found.base, "certified": int(np.isfinite(found.errors).sum()), "furthest": _furthest(found, top),
        "quantiles": {"share_of_rows": SHARES, "at_most": _quantiles(found, SHARES)},
    }  # fmt: skip
    return json_form(told)  # type: ignore[no-any-return]


def _print(found: Moves, top: int, quiet: bool) -> None:
    import numpy as np

    from epsworth.exposure.inputs import NOT_PRIVATE

    out, known = show.console(), np.isfinite(found.errors)
    out.print(f"[bold]{found}[/bold]".replace(f" ({NOT_PRIVATE})", "."))
    gone = int(np.isinf(found.distances).sum())
    uncertain = int((~known).sum()) - gone
    told = [f"{int(known.sum()):,} of {len(found):,} rows are certified"]
    if gone:
        told.append(f"without {gone:,} there is no model, each the last of its label")
    if uncertain:
        why = "a sign may change" if found.l1 else "the model may move too far for a proof"
        told.append(f"of {uncertain:,} nothing is certain: {why}; give a larger --l2")
    out.print("; ".join(told) + ".")
    if quiet:
        return
    size = float(np.linalg.norm(found.base))
    shares = (
        f"{100 * share:g} %: {show_up(most, 3)}" for share, most in zip(SHARES, _quantiles(found, SHARES), strict=True)
    )
    out.print(f"Shares of the rows, and what each of them moves the model by at most: {', '.join(shares)}.")
    out.print(f"The model itself has length {size:.3g}.")
    if top:
        listed = show.table("row (from 0)", "at least", "at most", title="rows that move the model furthest")
        for row in _furthest(found, top):
            listed.add_row(str(row["row"]), show_down(row["at_least"], 3), show_up(row["at_most"], 3))
        out.print(listed)
    out.print(f"[bold yellow]{NOT_PRIVATE.capitalize()}.[/bold yellow] Do not publish it beside the model. More: -v")
