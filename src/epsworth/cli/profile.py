"""``epsworth profile``: how exposed each row is in a private linear model, and which epsilons are worth trying."""

from __future__ import annotations

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.cli.asking import encoded, refuse_given
from epsworth.cli.report import write_document_page
from epsworth.numerals import counted
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from epsworth.exposure import Group, Window

OF_LINEAR_MODELS = (
    "l2", "epsilon", "calibration", "rule", "adv_safe", "utility_tol", "coefficients", "resume", "plot", "report",
    "drop", "missing",
)  # fmt: skip
LISTED = 5  # of the most exposed rows, unless --top says more
UTILITY_ROWS = 20_000  # rows on which accuracy is simulated
QUANTILES = 200  # points of the profile that are written, about
TABLED = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # always among them: pages name these


def profile(
    context: typer.Context,
    model_or_table: Annotated[
        Path | None,
        typer.Argument(
            help="A classifier that can be trained anew (.skops; see --trust): estimate how exposed rows are in it. "
            "Left out: bound it for a private linear model.",
            metavar="MODEL",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="Training rows: .csv, .csv.gz, .jsonl or .parquet. Left out: answer without data.", metavar="TABLE"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of labels: two different values.")] = None,
    l2: Annotated[float, typer.Option(help="Weight of |f|^2/2 beside the mean loss.")] = 1e-3,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Candidate: pure epsilon per row.")] = 1.0,
    calibration: Annotated[
        str, typer.Option(help="chaudhuri: one row replaced, added or removed; add_remove: about half the noise.")
    ] = "chaudhuri",
    rule: Annotated[str, typer.Option(help="advantage, or plateau: the published rule (no advice).")] = "advantage",
    adv_safe: Annotated[float, typer.Option(help="Membership advantage that counts as safe for every row.")] = 0.1,
    utility_tol: Annotated[float, typer.Option(help="Loss of accuracy to accept.")] = 0.01,
    top: Annotated[
        int | None,
        typer.Option(help="How many of the most exposed rows to list.", show_default="5, with -v or in JSON"),
    ] = None,
    coefficients: Annotated[
        int | None, typer.Option(help="Without a table: number of coefficients of the model.")
    ] = None,
    trainings: Annotated[
        int, typer.Option(help="With MODEL: how often it is trained, each time on half of the rows.")
    ] = 64,
    trust: options.Trust = False,
    seed: options.Seed = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    resume: options.ResumeFolder = None,
    drop: options.Drop = None,
    missing: options.Filled = None,
    sep: options.Sep = ",",
    quiet: options.Quiet = False,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
) -> None:
    """Rank the rows by exposure and advise on epsilon.

    profile TABLE bounds every row's exposure in a private linear model; profile MODEL TABLE estimates it for any
    model, by training it again on random halves of the table.
    """
    model, table = (model_or_table, table) if table is not None else (None, model_or_table)
    if model is not None and table is not None:
        _of_model(context, model, table)
        return
    refuse_given(context, ("trainings", "trust"), "is for a model that is trained anew; give MODEL and TABLE")
    if table is None:
        if resume is not None:
            raise ValueError("--resume needs a table; without one there is nothing to keep")
        _without_data(epsilon, coefficients, json, plot, report)
        return
    target = _checked(target, top, seed)
    if not 0 <= utility_tol < 1:
        raise ValueError(f"--utility-tol must be a loss of accuracy in [0, 1), got {utility_tol}")
    options.check_outputs(json, plot)
    options.check_page(report)

    import numpy as np

    from epsworth.exposure import exposed_groups, window, worst_case

    meaning = worst_case(epsilon, 1)  # refuses a bad epsilon before any work
    rows, data = encoded(context.params, table)
    rng = np.random.default_rng(seed)
    choosing = rng if seed is not None or resume is None else np.random.default_rng(0)  # the same when it goes on
    chosen = choosing.permutation(len(data.y))[:UTILITY_ROWS]
    some = np.union1d(chosen, [data.y.argmax(), data.y.argmin()])  # both labels
    with options.workers(jobs, cluster) as n_jobs, options.progress_bar("looking at rows") as progress:
        found = window(
            data.X, data.y, l2, calibration=calibration, rule=rule, adv_safe=adv_safe,  # type: ignore[arg-type]  # checked there
            tolerance=utility_tol, held_out=(data.X[some], data.y[some]), rng=rng, n_jobs=n_jobs,
            checkpoint=resume, progress=progress,
        )  # fmt: skip
    if plot is not None:
        from epsworth.exposure.trade import plot_profile

        plot_profile(found, meaning.epsilon, plot)
    listed = LISTED if top is None else top
    written, printed = json is not None or report is not None, context.params["verbose"] or top
    groups = exposed_groups(rows, found.exposure(epsilon), without=target) if written or printed else []
    if written:
        document = _document(found, epsilon, listed, data.names) | {"groups": [group.to_dict() for group in groups]}
        write_document_page(report, document)
    if not show.told(json, lambda: document):
        if quiet:
            _print_verdict(found)
            return
        _print(found, epsilon)
        if context.params["verbose"]:
            _print_more(found, epsilon, data.X.shape)
        if printed:
            _print_exposed(found, epsilon, listed)
            print_groups(groups)
        show.suggest_page(json, report)


def _checked(target: str | None, top: int | None, seed: int | None) -> str:
    """Return the target; refuse what both kinds of profile refuse."""
    if target is None:
        raise ValueError("--target is missing; name the column of labels")
    if top is not None and top < 0:
        raise ValueError(f"--top must not be negative, got {top}")
    if seed is not None and seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}; give a whole number from 0")
    return target


def _of_model(context: typer.Context, path: Path, table: Path) -> None:
    """Train a model on halves of a table, and say which rows it remembers."""
    from epsworth.classifiers import as_classifier
    from epsworth.exposure import exposed_groups, memorisation
    from epsworth.exposure.inputs import NOT_PRIVATE
    from epsworth.inputs import model_of_file, read_records
    from epsworth.tables import selected

    given = context.params
    refuse_given(context, OF_LINEAR_MODELS, "is for a private linear model; leave it out beside a model")
    target = _checked(given["target"], given["top"], given["seed"])
    options.check_outputs(given["json"], None)
    model = model_of_file(path, given["trust"])
    asked = as_classifier(model)
    frame, labels = read_records(table, asked, None, target, sep=given["sep"])
    frame = frame if asked.features is None else selected(frame, asked.features)
    with options.workers(given["jobs"], given["cluster"]) as n_jobs, options.progress_bar("training") as progress:
        found = memorisation(
            model, frame, labels, trainings=given["trainings"], rng=given["seed"], n_jobs=n_jobs, progress=progress
        )
    groups = exposed_groups(frame, found.estimates)
    rows = [
        {
            "row": row, "advantage_lower": max(0.0, float(found.lower[row])),
            "advantage_estimate": float(found.estimates[row]), "advantage_upper": float(found.upper[row]),
            "right_with": float(found.with_row[row]), "right_without": float(found.without_row[row]),
        }
        for row in found.ranked[: LISTED if given["top"] is None else given["top"]].tolist()
    ]  # fmt: skip
    document = {
        "notice": NOT_PRIVATE, "estimate": True, "rows": len(found), "trainings": found.trainings,
        "confidence": found.confidence, "memorised": int((found.lower > 0).sum()), "most_exposed": rows,
        "groups": [group.to_dict() for group in groups],
    }  # fmt: skip
    if show.told(given["json"], lambda: document):
        return
    out = show.console()
    out.print(f"{found}".partition(" (computed")[0] + ".")
    if given["quiet"]:
        return
    print_groups(groups)
    columns = "row (from 0)", "advantage at least", "estimate", "at most"
    listed = show.table(*columns, title="rows that the model remembers most")
    for row in rows:
        numbers = show_down(row["advantage_lower"], 3), f"{row['advantage_estimate']:.3g}"
        listed.add_row(str(row["row"]), *numbers, show_up(row["advantage_upper"], 3))
    out.print(listed)
    out.print(
        "An estimate, of models of half of the rows and of attacks that ask for the label alone: others may tell more. "
        f"[bold yellow]{NOT_PRIVATE.capitalize()}.[/bold yellow]"
    )


def print_groups(groups: list[Group]) -> None:
    """Print what the most exposed rows have in common."""
    from rich.markup import escape

    for group in groups:
        show.console().print(escape(f"  {group}"))


def _without_data(
    epsilon: float, coefficients: int | None, json: str | None, plot: Path | None, report: Path | None
) -> None:
    from epsworth.exposure import worst_case
    from epsworth.exposure.distances import MOST_DIMENSIONS
    from epsworth.exposure.inputs import whole

    if coefficients is None:
        raise ValueError("give a table and --target, or --coefficients for the answer that reads no data")
    if plot is not None:
        raise ValueError("--plot needs a table; without one there is no profile to draw")
    if report is not None:
        raise ValueError("--report needs a table; without one there is no profile to show")
    options.check_outputs(json, None)
    found = worst_case(epsilon, whole("--coefficients", coefficients, 1, MOST_DIMENSIONS))
    if not show.told(json, found.to_dict):
        show.console().print(f"{found}.")


def _exposed(found: Window, epsilon: float, top: int) -> list[dict[str, Any]]:
    """Return the most exposed rows, worst first."""
    import numpy as np

    u = found.exposure(epsilon)
    rows = np.argsort(-u, kind="stable")[:top]
    columns = rows, u[rows], found.law.adv(u[rows]), found.law.abs(u[rows])
    names = "row", "epsilon", "advantage", "mean_abs_loss"
    return [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]


def _document(found: Window, epsilon: float, top: int, names: tuple[str, ...]) -> dict[str, Any]:
    import numpy as np

    from epsworth.exposure.trade import trade

    u = found.exposure(epsilon)
    ranks = np.unique([*np.linspace(0, 1, min(QUANTILES, len(u))), *TABLED])

    def quantiles(values: Any) -> list[float]:  # those of a row, as in the trade: at most the share named lies above
        return np.quantile(values, ranks, method="higher").tolist()  # type: ignore[no-any-return]

    return {
        **found.to_dict(),
        "epsilon": epsilon,
        "rows": len(u),
        "columns": list(names),
        "most_exposed": _exposed(found, epsilon, top),
        "profile": {
            "share_of_rows": ranks.tolist(),
            "epsilon_of_row": quantiles(u),
            "mean_abs_loss": quantiles(found.law.abs(u)),
            "advantage": quantiles(found.law.adv(u)),
        },
        "trade": trade(found, epsilon),
    }


def _print(found: Window, epsilon: float) -> None:
    """Print the answer, what the asked epsilon does, and the trade-off."""
    from epsworth.exposure.inputs import NOT_PRIVATE

    out = show.console()
    _print_verdict(found)
    out.print(found.candidate(epsilon))
    if found.usefulness is not None:
        out.print(_trade_off(found))
        useful = found.usefulness
        out.print(
            f"Accuracy on at most {UTILITY_ROWS:,} of the training rows; without noise {show_down(useful.base, 3)}, "
            f"of the commoner label {show_down(useful.majority, 3)}."
        )
    out.print(f"[bold yellow]{NOT_PRIVATE.capitalize()}.[/bold yellow] Do not publish it beside the model. More: -v")


def _print_verdict(found: Window) -> None:
    out = show.console()
    out.print(f"[bold]Window of epsilon: {_ends(found)}[/bold] ({found.rule} rule)")
    out.print(found.verdict)


def _print_more(found: Window, epsilon: float, shape: tuple[int, ...]) -> None:
    """Print what was looked at, when most rows are exposed, and the median row."""
    import numpy as np

    out = show.console()
    out.print(
        f"\n{counted(shape[0], 'row')}, {counted(shape[1], 'coefficient')}; logistic regression, output perturbation, "
        "pure epsilon per row."
    )
    out.print(f"{_exposed_share(found)}.")
    median = show_up(float(np.median(found.advantage(epsilon))), 3)
    out.print(f"At epsilon {epsilon:g} the advantage against the median row is {median}.")


def _print_exposed(found: Window, epsilon: float, top: int) -> None:
    columns = "row (from 0)", "its epsilon", "advantage", "mean |loss|"
    rows = show.table(*columns, title=f"most exposed rows at epsilon {epsilon:g}")
    for row in _exposed(found, epsilon, top):
        numbers = (show_up(row[key], 3) for key in ("epsilon", "advantage", "mean_abs_loss"))
        rows.add_row(str(row["row"]), *numbers)
    out = show.console()
    out.print()
    out.print(rows)


def _ends(found: Window) -> str:
    """Return the advised window, narrowed to the digits that are shown."""
    if found.advised is None:
        return "none"
    low, high = found.advised
    return f"\\[{show_up(low, 3)}, {show_down(high, 3)}]"


def _exposed_share(found: Window) -> str:

    if isinf(found.epsilon_high):
        return "From which epsilon on rows are exposed is not known: their certificates are too wide"
    if found.rule == "plateau":
        return f"From epsilon {show_up(found.epsilon_high, 3)} on the ratio is flat again"
    return (
        f"From epsilon {show_up(found.epsilon_high, 3)} on at least {100 * (1 - found.q_exposed):g} % of the rows have "
        f"an advantage of {found.adv_exposed:g} or more against them"
    )


def _trade_off(found: Window) -> Any:

    useful = found.usefulness
    assert useful is not None
    table = show.table(
        "epsilon", "accuracy", "models that keep it", "worst row's advantage", "", left=("",), title="what epsilon buys"
    )
    for e in range(8, len(useful.epsilons) - 7, 8):  # one row to a factor of ten, 0.01 to 1000
        worst = found.worst_advantage(useful.epsilons[e])
        idle = "useless" if useful.useless_at(useful.epsilons[e]) else ""
        numbers = (f"{useful.epsilons[e]:.3g}", show_down(float(useful.accuracy[e]), 3), f"{useful.kept[e]:.0%}")
        table.add_row(*numbers, show_up(worst, 3), idle)
    return table
