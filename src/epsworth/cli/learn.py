"""``epsworth learn``: a classifier from locally privatised data, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.cli.report import write_document_page
from epsworth.numerals import short
from epsworth.rounding import round_up, show_up

app = typer.Typer(
    help="Learn from reports that are private before they leave the device: config, report, aggregate, fit, predict.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Config = Annotated[
    Path, typer.Argument(help="Configuration (.json), as learn config writes it; of a table the round of learn open.")
]
Session = Annotated[
    Path, typer.Argument(help="Configuration of a table, or the session (.json) that learn close wrote last.")
]


@app.command("config")
@options.apart
def config(
    destination: Annotated[Path, typer.Argument(help="Output: the configuration (.json) that every client gets.")],
    bounds: Annotated[
        list[str] | None, typer.Option("--bounds", "-b", help="Public range, name=low:high; one per number.")
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", "-c", help="Public values, name=a,b,c; one per category. Then a table is learnt."),
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Columns of a table that may be empty, separated by commas.")
    ] = None,
    rounds: Annotated[str, typer.Option(help="Of a table: auto, or additive, linear, ramp, weighted.")] = "auto",
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Of a table: predict as if every label were as common.")
    ] = False,
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", "-e", help="Privacy parameter of one report: the whole record, label included."),
    ] = None,
    classes: Annotated[str, typer.Option(help="The labels, separated by commas.")] = "0,1",
    mechanism: Annotated[
        str, typer.Option(help="auto, or hadamard, ternary, krr, oue, parity, slides, cosine.")
    ] = "auto",
    cells: Annotated[int | None, typer.Option(help="Cells per axis (cosine: degree).")] = None,
    users: Annotated[int | None, typer.Option(help="Expected users; chooses the cells.")] = None,
    outside: Annotated[
        str,
        typer.Option(
            help="Points outside the bounds: clip or zero (hidden); either way every record is reported, unusable ones "
            "as nowhere. refuse: epsilon is then promised of those who report alone."
        ),
    ] = "clip",
    alpha: options.Alpha = None,
) -> None:
    """Write the public configuration that clients and server share: cells of up to four numbers, else of a table."""
    from epsworth.files import check_writable
    from epsworth.learner import LatticeConfig
    from epsworth.learner.table import suited
    from epsworth.learner.tables.regimes import MOST_BY_CELLS

    epsilon = options.spelt_before("--alpha", alpha, "--epsilon", epsilon)
    if epsilon is None:
        raise ValueError("--epsilon is missing; give the privacy parameter of one report")
    check_writable(destination)
    ranges = _ranges(options.split_commas(bounds or []), needed=not categories)
    labels = _labels(options.split_commas([classes]))
    if len(set(labels)) < max(2, len(labels)):
        raise ValueError(f"--classes must be at least two different labels, as in no,yes; got {classes!r}")
    chosen = cells is None and mechanism == "auto"
    if categories or missing or rounds != "auto" or balanced or (chosen and len(ranges) > MOST_BY_CELLS):
        if not chosen:
            raise ValueError("--cells and --mechanism are for numbers alone; leave them out, or leave out categories")
        columns = _columns(ranges, categories or [], options.split_commas(missing or []))
        _write_table(destination, columns, labels, epsilon, users, rounds, balanced=balanced)
        return
    if (cells is None) == (users is None):
        raise ValueError("give one of --cells and --users")
    if users is not None:
        mechanism, cells = suited(mechanism, epsilon, len(ranges), len(labels), users)
    made = LatticeConfig(
        list(ranges.values()), cells, None, labels, mechanism, epsilon, outside, list(ranges)  # type: ignore[arg-type]
    )  # fmt: skip
    made.save(destination)
    print(
        f"{made.mechanism}, {made.m} per axis, reports of {made.report_size} bytes; {made.guarantee}, every report "
        f"adds as much; fingerprint {made.fingerprint()[:12]}."
    )


def _write_table(
    destination: Path, columns: list[Any], labels: Sequence[Any], epsilon: str, users: int | None, rounds: str, *,
    balanced: bool,
) -> None:  # fmt: skip
    from epsworth.learner import TableConfig

    if users is None:
        raise ValueError("--users is missing; the rounds of a table are chosen by how many are expected")
    made = TableConfig(columns, labels, epsilon, users, rounds, "balanced" if balanced else "estimated")
    made.save(destination)
    told = ", ".join(f"{purpose} of {_share(float(share))}" for purpose, share in made.shares)
    print(f"{len(made.columns)} columns, in rounds: {told} of the users; fingerprint {made.fingerprint()[:12]}.")
    show.suggest("learn", "open", destination, "round.json", why="write what the clients of the first round need")


def _share(share: float) -> str:
    """Print a share in per cent."""
    return f"{100 * share:.3g} %"


@app.command("open")
@options.apart
def open_round(
    session: Session,
    destination: Annotated[Path, typer.Argument(help="Output: the round (.json) that its clients get.")],
) -> None:
    """Write the next round of a table: what its users are asked, with what earlier rounds found."""
    from epsworth.files import check_distinct, check_writable
    from epsworth.learner import TableLearner

    check_distinct(session=session, round=destination)
    check_writable(destination)
    asked = TableLearner.load(session).open()
    if asked is None:
        raise ValueError(f"all rounds of {session} are closed; it is a model: epsworth learn predict {session} ..")
    asked.save(destination)
    print(
        f"The round of {asked.purpose}: {len(asked.kernel.weights):,} rows, reports of {asked.report_size} bytes; "
        f"{asked.guarantee}; about {asked.users:,} users, who answer in no other round; fingerprint "
        f"{asked.fingerprint()[:12]}."
    )
    show.suggest("learn", "report", destination, "people.csv", "reports.ldp", "--target", "label", why="on a device")


@app.command("close")
@options.apart
def close_round(
    session: Session,
    state: Annotated[Path, typer.Argument(help="State of the aggregation of the open round's reports.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output: the session (.json), with this round closed.")],
) -> None:
    """Close the open round of a table with the sums of its reports; after the last one the session is a model."""
    from epsworth.files import check_distinct, check_writable
    from epsworth.learner import Aggregator, TableLearner

    check_distinct(state=state, output=out)
    check_writable(out)
    learner = TableLearner.load(session)
    sums = Aggregator.load(state)
    learner.close(sums)
    learner.save(out)
    left = learner.open()
    print(f"{sums.users:,} reports; {'all rounds are closed' if left is None else f'next: {left.purpose}'}.")
    if left is None:
        show.suggest("learn", "predict", out, "new.csv", "labels.csv", why="the session is a model")
    else:
        show.suggest("learn", "open", out, "round.json", why="write the next round")


@app.command("report")
@options.apart
def report(
    settings: Config,
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: reports, .ldp (packed) or .jsonl.")],
    target: Annotated[str, typer.Option(help="Column of labels.")],
    again: Annotated[bool, typer.Option("--again", help="Report records that left before: epsilons add.")] = False,
) -> None:
    """Report every row once, with draws fit for release; a row that cannot be used is reported as nowhere."""
    from epsworth.learner import report_file
    from epsworth.learner.asked import load_asked
    from epsworth.learner.report_files import left_so_far

    made = load_asked(settings)
    count = report_file(made, source, destination, target, again=again)
    print(f"{count:,} reports of {made.report_size} bytes; {made.guarantee} each.")
    if (total := left_so_far(source, destination)) > made.guarantee.epsilon:
        print(f"These records left before: epsilon {show_up(total)} per record in all.")


@app.command("aggregate")
@options.apart
def aggregate(
    settings: Config,
    sources: Annotated[list[Path], typer.Argument(help="Files of reports, or states of other aggregations.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output: the state; states merge in any order.")],
    jobs: options.Jobs = None,
) -> None:
    """Add up reports and states, in bounded memory; the result does not depend on order or processes."""
    from epsworth.files import check_writable
    from epsworth.learner import aggregate_files
    from epsworth.learner.asked import load_asked

    check_writable(out)
    made = load_asked(settings)
    with options.progress_bar("adding up") as progress:
        found = aggregate_files(made, sources, n_jobs=jobs, progress=progress)
    found.save(out)
    print(f"{found.users:,} reports, fingerprint {made.fingerprint()[:12]}.")


@app.command("fit")
@options.apart
def fit(
    state: Annotated[Path, typer.Argument(help="State of an aggregation.")],
    out: Annotated[Path, typer.Argument(help="Output: the model.")],
    smooth: Annotated[bool, typer.Option(help="Smooth by the unbiased risk estimate.")] = True,
    confidence: Annotated[
        float, typer.Option(help="Of the certificates that --json and --report tell, all cells together.")
    ] = 0.95,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Read the labels off the sums."""
    from epsworth.files import check_writable
    from epsworth.learner import Aggregator, Classifier
    from epsworth.learner.mechanism import checked_probability
    from epsworth.learner.telling import told_of

    check_writable(out)
    options.check_outputs(json, None)
    options.check_page(report)
    checked_probability(confidence)
    model = Classifier.from_aggregate(Aggregator.load(state), "sure" if smooth else None)
    model.save(out)
    if json is not None or report is not None:
        document = told_of(model, confidence)
        write_document_page(report, document)
    if show.told(json, lambda: document):
        return
    width = "" if model.width_ is None else f", smoothed over {model.width_:g} of the box"
    print(f"{model.aggregate.users:,} users, {model.config.kernel.cells:,} cells{width}.")


@app.command("predict")
@options.apart
def predict(
    model: Annotated[Path, typer.Argument(help="Model, as learn fit writes it.")],
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: a label per row, .csv, .parquet or .jsonl.")],
    confidence: Annotated[
        float | None,
        typer.Option(help="Certify the label of each row's cell, all cells together, with this confidence."),
    ] = None,
    fakes: Annotated[
        int | None,
        typer.Option(help="At most this many of the reports behind the model are fakes; default: 0, all are honest."),
    ] = None,
    level: options.Level = None,
) -> None:
    """Predict the label of every row; with --confidence, certify that of its cell, too, but for --fakes reports."""
    import polars as pl

    from epsworth.learner import Classifier, TableLearner
    from epsworth.learner.report_files import check_table, columns, write_table
    from epsworth.table_files import read_table

    check_table(destination)
    sureness = options.confidence_of(confidence, level)
    if fakes is not None and sureness is None:
        raise ValueError("--fakes is about certificates; give --confidence, too")
    if not Classifier.wrote(model):
        table = TableLearner.load(model).classifier()
        if sureness is not None:
            table.certificate([])
        write_table(pl.DataFrame({"label": table.predict(table.columns_of(read_table(source)))}), destination)
        return
    learnt = Classifier.load(model)
    X = columns(learnt.config, read_table(source))
    found = pl.DataFrame({"label": learnt.predict(X)})
    if sureness is not None:
        sure = learnt.certificate(X, confidence=sureness, fakes=fakes or 0)
        found = found.with_columns(
            cell_label=pl.Series(sure.label),
            p_value=pl.Series([round_up(p, 6) for p in sure.p_value.tolist()]),
            certified=pl.Series(sure.certified),
        )
        print(sure)
    write_table(found, destination)


@app.command("plan")
@options.apart
def plan(
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="Privacy parameter per record.")] = None,
    users: Annotated[int | None, typer.Option(help="Reports.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Size of a cell's signed mean, about |2 eta - 1| / cells.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Confidence of the cell's certificate; default: 0.95.")
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of the certificate.")] = 0.5,
    mechanism: Annotated[str, typer.Option(help="hadamard, ternary, krr, oue, parity or slides.")] = "hadamard",
    cells: Annotated[int | None, typer.Option(help="Cells per axis; krr needs them.")] = None,
    features: Annotated[int | None, typer.Option(help="Features; krr, parity and slides need them.")] = None,
    mass: Annotated[
        float, typer.Option(help="At most this share of the users is in the cell; matters to ternary, krr and oue.")
    ] = 1.0,
    fakes: Annotated[
        str, typer.Option(help="How many of the users may be fakes, or which share of them, as in 100 or 0.001.")
    ] = "0",
    alpha: Annotated[float | None, typer.Option("--alpha", hidden=True)] = None,
    level: options.Level = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Give two of epsilon, users and margin; the third is found. All reports but --fakes are taken to be honest."""
    from fractions import Fraction

    from epsworth.learner import plan as find

    options.check_outputs(json, None)
    options.check_page(report)
    found = find(
        epsilon=options.spelt_before("--alpha", alpha, "--epsilon", epsilon), users=users, margin=margin,
        confidence=options.confidence_of(confidence, level) or 0.95, power=power, mechanism=mechanism, m=cells,
        d=features, mass=mass, fakes=(allowed := _fakes(fakes)),
    )  # fmt: skip
    level = float(1 - Fraction(found.confidence))  # keys of version 0.1, too
    asked = {"cells": cells, "features": features, "mass": mass, "fakes": allowed}
    document = (told := found.to_dict()) | {"alpha": told["epsilon"], "level": level, "question": asked}
    write_document_page(report, document)
    if not show.told(json, lambda: document):
        print(found)
    if not found.feasible:
        raise typer.Exit(1)


def _fakes(text: str) -> int | float:
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    raise ValueError(
        f"--fakes must be a whole number of users, or a share of them, as in 100 or 0.001, got {short(text)}"
    )


def _columns(ranges: dict[str, tuple[float, float]], categories: list[str], missing: list[str]) -> list[Any]:
    from epsworth.learner import Category, Number

    found: dict[str, Any] = {name: Number(name, low, high, name in missing) for name, (low, high) in ranges.items()}
    for text in categories:
        name, _, values = text.partition("=")
        if not name or not values:
            raise ValueError(f"--category must be name=a,b,c, as in job=none,clerk, got {text!r}")
        if name in found:
            raise ValueError(f"--category names {name!r} twice; give each column once")
        found[name] = Category(name, tuple(_labels(values.split(","))), name in missing)
    for name in missing:
        if name not in found:
            raise ValueError(f"--missing: there is no column {name!r}; the columns are {', '.join(found)}")
    return list(found.values())


def _ranges(texts: list[str], *, needed: bool = True) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            numbers = float(low), float(high)
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"--bounds must be name=low:high, as in age=0:100, got {text!r}")
        if name in ranges:
            raise ValueError(f"--bounds names {name!r} twice; give one range per feature")
        ranges[name] = numbers
    if not ranges and needed:
        raise ValueError("--bounds names no feature; give name=low:high for each, as in age=0:100")
    return ranges


def _labels(texts: list[str]) -> Sequence[int | float | str]:
    """Read labels as a table's column is read: whole numbers, numbers or truth values where all are, else texts."""
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(text) for text in texts]
    truth = {"true": True, "false": False}
    if all(text.lower() in truth for text in texts):
        return [truth[text.lower()] for text in texts]
    return texts
