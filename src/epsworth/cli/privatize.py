"""``epsworth privatize``: a noisy release of an algorithm's output on a secret part of a table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth import inputs
from epsworth.cli import asking, options, show
from epsworth.cli.report import write_document_page
from epsworth.refusals import is_ours
from epsworth.rounding import round_up, show_up

if TYPE_CHECKING:
    from epsworth.arrays import Floats
    from epsworth.pac.budgets import Budget
    from epsworth.pac.exposure import Exposure
    from epsworth.pac.privatizer import PACPrivatizer


def privatize(
    context: typer.Context,
    algorithm: Annotated[str, typer.Argument(help="mean, kmeans, pca, linear_svm, logistic, ridge, forest, ...")],
    table: options.Table,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the algorithm, such as n_clusters=3; repeat.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of labels; classes stratify the worlds.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of persons: their rows go in or out together.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns", help="Columns of numbers to learn from; repeat, or separate by commas. Default: all."
        ),
    ] = None,
    drop: options.Drop = None,
    domain: Annotated[
        Path | None, typer.Option("--domain", help="Public ranges: columns are scaled to [0, 1] by them.")
    ] = None,
    mi: Annotated[str | None, typer.Option(help="Budget: nats, such as 1/16.")] = None,
    posterior: Annotated[str | None, typer.Option(help="Budget: membership success, from 1/2.")] = None,
    record_posterior: Annotated[str | None, typer.Option(help="Budget: success for every single record.")] = None,
    joint: Annotated[
        str | None, typer.Option(help="With --record-posterior: nats that the release may tell in all; default 1/2.")
    ] = None,
    near: Annotated[
        str | None,
        typer.Option(help="With --record-posterior: rows this near in every column go in or out together."),
    ] = None,
    dp_epsilon: Annotated[str | None, typer.Option(help="Budget: average success of this epsilon.")] = None,
    at_least: Annotated[
        float | None,
        typer.Option(help="Instead of a budget: the least one with which this share of the rows is labelled rightly."),
    ] = None,
    worlds: Annotated[int, typer.Option(help="Simulated sub-samples.")] = 1024,
    rate: Annotated[float, typer.Option(help="Share of the pool in a sub-sample.")] = 0.5,
    mode: Annotated[str, typer.Option(help="exact, certified or estimated.")] = "exact",
    noise: Annotated[str, typer.Option(help="optimal, task, paper, isotropic, isotropic_exact, ...")] = "optimal",
    basis: Annotated[str, typer.Option(help="auto, diag or svd.")] = "auto",
    worlds_seed: Annotated[
        int | None,
        typer.Option(
            help="Make the list of worlds public and repeatable; it is secret without. The release has no seed."
        ),
    ] = None,
    jobs: options.Jobs = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save trials here (as private as the pool), resume.")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Simulate the best attack on every record (exact).")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the released model, .skops or .npz: predict and utility take it as MODEL."
        ),
    ] = None,
    sep: options.Sep = ",",
    quiet: options.Quiet = False,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Release an algorithm's output with noise for a budget."""
    from epsworth.headers import looks_like_header
    from epsworth.pac import PACPrivatizer
    from epsworth.pac.adapters import named
    from epsworth.pac.release import by_columns, noise_summary

    _check_output(output, algorithm)
    options.check_outputs(json, None, checkpoint)
    options.check_page(report)
    if at_least is not None and mi is posterior is record_posterior is dp_epsilon is None:
        mi = "1"  # to begin with
    elif at_least is not None:
        raise ValueError("--at-least finds a budget; drop the other one")
    budget = _budget(mi, posterior, record_posterior, dp_epsilon, joint, near)
    estimator = named(algorithm, settings or ())
    if at_least is not None:
        _check_at_least(at_least, estimator, target)
    chosen, X, labels, groups = _pool(table, target, group, domain, sep, columns, drop)
    names, ranges = (None, None) if output is None else _columns(chosen, domain)
    privatizer = PACPrivatizer(
        estimator, budget, worlds=worlds, rate=rate, mode=mode,  # type: ignore[arg-type]  # checked by the library
        noise=noise, basis=basis, worlds_seed=worlds_seed, n_jobs=jobs, checkpoint=checkpoint,  # type: ignore[arg-type]
    )  # fmt: skip
    _fit(privatizer, X, labels, groups)
    least = None
    if at_least is not None:
        least = privatizer.find_budget(lambda model: float((model.predict(X) == labels).mean()), at_least)
        if not least.reached:
            show.console().print(str(least), markup=False)
            raise typer.Exit(1)
        _fit(privatizer.set_params(**least.params), X, labels, groups)
    exposure = privatizer.audit() if audit else None
    release = privatizer.release()
    told = release.report() | {"columns": chosen, "unit_scale": domain is not None}
    named_numbers = by_columns(release.names, chosen) if looks_like_header(chosen) else release.names
    values = dict(zip(named_numbers, release.vector.tolist(), strict=True))
    found = {"release": values, "report": told} | ({} if exposure is None else {"audit": exposure.to_dict()})
    found["noise"] = noise_summary(privatizer, named_numbers)
    if least is not None:
        found["least_budget"] = least.to_dict()
    if output is not None:
        release.save_model(output, names=names, ranges=ranges)
    write_document_page(report, found)
    if not show.told(json, lambda: found):
        if least is not None:
            show.console().print(str(least), markup=False)
        if quiet:
            _print_cost(told)
            return
        _print(values, told, exposure, context.params["verbose"])
        if output is not None and algorithm != "pca":
            show.suggest("predict", output, "new.csv", "labels.csv", why="what the released model says of a table")


def _fit(privatizer: PACPrivatizer, X: Floats, labels: Any, groups: Any) -> None:
    with options.progress_bar("simulating worlds") as progress:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=TOLD)  # printed with the limits
                privatizer.fit(X, labels, groups=groups, progress=progress)
        except ValueError as error:  # the algorithm's own complaints about the table or its parameters, too
            whose = "" if is_ours(error) else "the algorithm refuses the table, or what --set gives: "
            raise ValueError(whose + str(error).splitlines()[0]) from None


def _check_at_least(at_least: float, estimator: Any, target: str | None) -> None:
    """Refuse, before any work, a share of labels that nothing could reach or be right about."""
    from sklearn.base import is_classifier

    if not 0 < at_least <= 1:
        raise ValueError(f"--at-least must lie in (0, 1], got {at_least:g}")
    if isinstance(estimator, str) or not is_classifier(estimator) or target is None:
        raise ValueError("--at-least is about labels that are predicted; take a classifier, with a --target")


def _check_output(output: Path | None, algorithm: str) -> None:
    """Refuse, before any work, a model that cannot be written."""
    if output is None:
        return
    from epsworth.pac.model_files import check_model_file

    if algorithm == "mean":
        raise ValueError("--output writes models, and means predict nothing; write them with --json")
    check_model_file(output)


def _columns(columns: list[str], path: Path | None) -> tuple[list[str] | None, list[list[float]] | None]:
    """Return the columns' names, where the table has any, and their declared ranges."""
    from epsworth.headers import looks_like_header
    from epsworth.space import Domain

    names = columns if looks_like_header(columns) else None
    if path is None:
        return names, None
    domain = Domain.load(path)
    for name in columns:
        if domain[name].categories is not None:
            raise ValueError(
                f"--output holds models of numbers, and --domain declares categories of {name!r}; drop one"
            )
    return names, [[float(domain[name].lower), float(domain[name].upper)] for name in columns]


def _budget(
    mi: str | None, posterior: str | None, record: str | None, eps: str | None, joint: str | None, near: str | None
) -> Budget:  # fmt: skip
    from epsworth.pac import MI, DPEquivalent, Posterior, RecordPosterior

    kinds = {"--mi": MI, "--posterior": Posterior, "--record-posterior": RecordPosterior, "--dp-epsilon": DPEquivalent}
    for name, text in (("--joint", joint), ("--near", near)):
        if text is not None and record is None:
            raise ValueError(f"{name} goes with --record-posterior; drop it, or give that budget")
    texts = dict(zip(kinds, (mi, posterior, record, eps), strict=True))
    given = {name: options.fraction(name, text) for name, text in texts.items() if text is not None}
    if len(given) != 1:
        raise ValueError(f"give exactly one budget: {', '.join(kinds)}")
    ((name, value),) = given.items()
    if record is None:
        budget: Budget = kinds[name](value)
        return budget
    near_by = None if near is None else options.fraction("--near", near)
    return RecordPosterior(
        value, joint=MI(options.fraction("--joint", "1/2" if joint is None else joint)), near=near_by
    )


def _pool(
    table: Path, target: str | None, group: str | None, domain: Path | None, sep: str,
    only: list[str] | None, drop: list[str] | None,
) -> tuple[list[str], Floats, Any, Any]:  # fmt: skip
    """Return column names, numbers, labels and groups."""
    import numpy as np

    from epsworth.headers import looks_like_header, shown_name
    from epsworth.space import Domain
    from epsworth.tables import Declared, column, kinds_of, read_table, selected
    from epsworth.values import NO_NUMBER

    declared = None if domain is None else Domain.load(domain)
    kinds = None if declared is None else kinds_of(declared.features)

    def asked(names: list[str]) -> Declared:
        inputs.check_column(target, names, "--target")
        inputs.check_column(group, names, "--group")
        own = asking.chosen(names, target, group, only, drop)
        return dict.fromkeys(own, "number") if kinds is None else {n: k for n, k in kinds.items() if n in own}

    try:
        frame = read_table(table, asked, sep=sep)
    except ValueError as error:
        if str(error).endswith(NO_NUMBER):
            raise ValueError(f"{error}, or leave the column out with --drop") from None
        raise
    labels, groups = inputs.column_of(frame, target), inputs.column_of(frame, group)
    features = selected(frame, asking.chosen(frame.columns, target, group, only, drop))
    columns, header = [], looks_like_header(frame.columns)
    for name in features.columns:
        shown = repr(name) if header else shown_name(name, frame.columns)
        if declared is not None and name not in declared:
            raise ValueError(
                f"--domain declares no range for the column {shown}; declare it, or leave it out with --drop"
            )
        own = column(features, name)
        own = own.fill_nan(None) if own.dtype.is_float() else own
        own = own if declared is None or (gap := declared[name].missing) is None else own.fill_null(gap)
        values = own.to_numpy()
        if own.is_null().any():
            row = own.is_null().to_list().index(True)
            where = f"row {row}, {name if header else shown}"
            raise ValueError(f"{where}: the value is missing; fill it, or drop the row, or declare missing in --domain")
        if declared is None and not own.dtype.is_numeric():
            raise ValueError(
                f"the column {shown} is not of numbers; leave it out with --drop, recode it, or declare its categories"
            )
        columns.append(np.asarray(values, np.float64) if declared is None else declared[name].to_unit(values))
    if not columns:
        raise ValueError("the table has no columns besides --target, --group and --drop; leave at least one")
    return list(features.columns), np.column_stack(columns), labels, groups


def _print(values: dict[str, float], report: dict[str, Any], exposure: Exposure | None, verbose: bool) -> None:
    out = show.console()
    scale = " (on the unit scale of the declared ranges)" if report["unit_scale"] else ""
    out.print(f"[bold]{report['algorithm']}, noisy release[/bold]{scale}")
    shown = len(values) if verbose else MOST_SHOWN
    for name, value in list(values.items())[:shown]:
        out.print(f"  {name} = {value:.6g}", markup=False)
    if len(values) > shown:
        out.print(f"  ... {len(values) - shown} more: -v, or all with --json")
    _print_cost(report)
    if exposure is not None:
        out.print(
            f"The best attack on the most exposed record succeeds with {round_up(100 * exposure.worst)} % at most "
            "(99 % confidence)."
        )
    if "worst_record_upper_limit" in report:
        worst = round_up(100 * report["worst_record_upper_limit"])
        out.print(f"Worst single record: {worst} % at most (99 % confidence).")
    if verbose:
        _print_more(report, exposure)
    else:
        out.print(f"It is not differential privacy, and has {len(report['limits'])} limits: read them with -v.")


def _print_cost(report: dict[str, Any]) -> None:
    """Print the budget, and what the release tells at most."""
    out = show.console()
    out.print(f"{report['budget']}; {report['soundness']}.")
    guess = "By estimate, not proven: " if report["mode"] == "estimated" else ""
    any_half = report["posterior_at_prior_0.5"]
    others = ""
    if any_half > report["posterior_of_membership"]:
        others = f", and any other question with even odds with {round_up(100 * any_half)} %"
    out.print(
        f"{guess}This release costs {show_up(report['mi_nats'])} nats: whether a row was used, guessed right blindly "
        f"with {round_up(100 * report['largest_record_prior'])} %, is inferred with "
        f"{round_up(100 * report['posterior_of_membership'])} % at most{others}; at 0.1 % false alarms "
        f"{round_up(100 * report['tpr_at_fpr_0.001'])} % of the used rows are found at most."
    )


def _print_more(report: dict[str, Any], exposure: Exposure | None) -> None:
    """Print the attack's details, the cost, and every limit."""
    out = show.console()
    if exposure is not None:
        out.print(
            f"True mutual information {exposure.mi:.3g} +- {exposure.mi_half_width:.1g} nats; "
            f"a world is named (posterior above one half) by {round_up(100 * exposure.named)} % of releases at most."
        )
    if "worst_record_upper_limit" in report:
        out.print(
            "With 0.1 % false alarms the worst record is found with "
            f"{round_up(100 * report['worst_record_tpr_at_fpr_0.001'])} % at most (99 % confidence). Of questions "
            "about several records, those about a row and its nearest ones are held to the same; others have only the "
            "nats to go by."
        )
    out.print(
        f"{report['worlds']} worlds, {report['failed_fits']} failed fits, noise of trace {report['noise_trace']:.4g} "
        f"in {report['noised_directions']} directions.\n"
    )
    for i, limit in enumerate(report["limits"], 1):
        out.print(f"Limit {i}: {limit}", markup=False)


MOST_SHOWN = 4
TOLD = r"The release may tell|\d+ of the \d+ listed worlds stand out"
