"""``epsworth learn``: a classifier from locally privatised data, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from epsworth.cli import options, parsing, show, shuffling
from epsworth.cli.learn_tables import audit_model, close_round, judged, open_round, write_table_config
from epsworth.cli.report import write_document_page
from epsworth.numerals import counted, short
from epsworth.rounding import round_up, show_up

app = parsing.Shell(
    help="Learn from reports that are private when they leave.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Config = Annotated[
    Path, typer.Argument(help="Configuration (.json), as learn config writes it; of a table the round of learn open.")
]
Fakes = Annotated[
    str | None,
    typer.Option(
        help="At most so many of the reports, or this share of them, are forged, as in 100 or 0.01; left out, nobody "
        "is assumed to forge any."
    ),
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
    mechanism: Annotated[str, typer.Option(help="auto, or hadamard, ternary, krr, oue, cosine.")] = "auto",
    cells: Annotated[int | None, typer.Option(help="Cells per axis (cosine: degree).")] = None,
    users: Annotated[int | None, typer.Option(help="Expected users; chooses the cells.")] = None,
    outside: Annotated[
        str,
        typer.Option(
            help="Points outside the bounds: clip or zero (hidden); either way every record is reported, unusable ones "
            "as a reserved symbol. refuse: epsilon is then promised of those who report alone."
        ),
    ] = "clip",
    rows: Annotated[
        str,
        typer.Option(
            help="drawn: a device draws what its report is about. hash: a public seed and the registered id say it, so "
            "that no fake chooses; then learn report and learn shuffle take ids and --seed."
        ),
    ] = "drawn",
    json: options.Json = None,
) -> None:
    """Write the configuration that all parties share.

    It is public: cells of up to four numbers, else of a table.
    """
    from epsworth.files import check_writable
    from epsworth.learner import LatticeConfig
    from epsworth.learner.mechanisms import suited
    from epsworth.learner.tables.config import MOST_BY_CELLS

    if epsilon is None:
        raise ValueError("--epsilon is missing; give the privacy parameter of one report")
    check_writable(destination)
    options.check_outputs(json, None, destination)
    ranges = _ranges(options.split_commas(bounds or []), needed=not categories)
    labels = _labels(options.split_commas([classes]))
    if len(set(labels)) < max(2, len(labels)):
        raise ValueError(f"--classes must be at least two different labels, as in no,yes; got {classes!r}")
    chosen = cells is None and mechanism == "auto"
    if categories or missing or rounds != "auto" or balanced or (chosen and len(ranges) > MOST_BY_CELLS):
        if not chosen:
            raise ValueError("--cells and --mechanism are for numbers alone; leave them out, or leave out categories")
        if outside != "clip":
            raise ValueError("--outside is for cells; in a table a value outside its range counts as the nearer end")
        columns = _columns(ranges, categories or [], options.split_commas(missing or []))
        prior = "balanced" if balanced else "estimated"
        write_table_config(destination, columns, labels, epsilon, users, rounds, prior, rows, json)
        return
    if (cells is None) == (users is None):
        raise ValueError("give one of --cells and --users")
    if users is not None:
        mechanism, cells = suited(mechanism, epsilon, len(ranges), len(labels), users, rows)
    made = LatticeConfig(
        list(ranges.values()), cells, None, labels, mechanism, epsilon, outside, list(ranges), rows  # type: ignore[arg-type]
    )  # fmt: skip
    made.save(destination)
    told = {"fingerprint": made.fingerprint(), "report_size": made.report_size}
    if show.told(json, lambda: made.to_dict() | told):
        return
    print(
        f"{made.mechanism}, {made.m} per axis, reports of {made.report_size} bytes; {made.guarantee}, every report "
        f"adds as much; fingerprint {made.fingerprint()[:12]}."
    )


app.command("open")(open_round)


@app.command("report")
@options.apart
def report(
    settings: Config,
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: reports, .ldp (packed) or .jsonl.")],
    target: Annotated[str, typer.Option(help="Column of labels.")],
    person: options.Person = None,
    cap: options.Cap = None,
    max_rows_per_person: options.MaxRows = None,
    ledger: options.LedgerFolder = None,
    again: Annotated[bool, typer.Option("--again", help="Report records that left before: epsilons add.")] = False,
    sep: options.Sep = ",",
    seed: Annotated[
        str | None,
        typer.Option(help="With rows by hash: the public seed; --id names the ids, which go to learn shuffle."),
    ] = None,
    json: options.Json = None,
) -> None:
    """Report every row once, with draws fit for release.

    A row that cannot be used is encoded as a reserved symbol and reported like all others.
    """
    from epsworth.learner.config import load_config
    from epsworth.learner.report_files import reported
    from epsworth.policy.ledger import RunTerms
    from epsworth.rounding import float_above

    options.check_outputs(json, None, destination)
    made = load_config(settings)
    terms = RunTerms(person, cap, None, max_rows_per_person, again)
    count, run = reported(made, source, destination, target, terms, ledger, sep, seed)
    told = {
        "reports": count, "report_size": made.report_size, "epsilon": made.guarantee.epsilon,
        "epsilon_so_far": float_above(run.epsilon_so_far), "rows": made.rows, "fingerprint": made.fingerprint(),
    }  # fmt: skip
    if show.told(json, lambda: told):
        return
    print(f"{counted(count, 'report')} of {made.report_size} bytes; {made.guarantee} each.")
    total = show_up(float_above(run.epsilon_so_far))
    if person is not None:
        print(f"Nobody of these people ({person}) lost more than epsilon {total} in all.")
    elif total != show_up(made.guarantee.epsilon):
        print(f"These records left before: epsilon {total} per record in all.")
    if seed is not None:
        batch = ("--output", "batch.ldp", "--at-least", "N", "--registered", "ids.txt", "--seed", seed)
        show.suggest("learn", "shuffle", settings, destination, *batch, why="a shuffler checks ids and rows")


@app.command("aggregate")
@options.apart
def aggregate(
    settings: Config,
    sources: Annotated[list[Path], typer.Argument(help="Files of reports, or states of other aggregations.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="Output: the state; states merge in any order.")],
    shuffled: Annotated[
        bool,
        typer.Option(
            "--shuffled", help="The files are batches of learn shuffle, as rows by hash need; a copy of one is refused."
        ),
    ] = False,
    jobs: options.Jobs = None,
) -> None:
    """Add up reports and states, in bounded memory.

    The result does not depend on order or processes.
    """
    from epsworth.files import check_writable
    from epsworth.learner import aggregate_files
    from epsworth.learner.config import load_config

    check_writable(out)
    made = load_config(settings)
    with options.progress_bar("adding up") as progress:
        found = aggregate_files(made, sources, shuffled=shuffled, n_jobs=jobs, progress=progress)
    found.save(out)
    print(f"{counted(found.users, 'report')}, fingerprint {made.fingerprint()[:12]}.")


app.command("shuffle")(shuffling.shuffle_reports)
app.command("close")(close_round)


@app.command("fit")
@options.apart
def fit(
    state: Annotated[Path, typer.Argument(help="State of an aggregation.")],
    out: Annotated[Path, typer.Argument(help="Output: the model.")],
    smooth: Annotated[bool, typer.Option(help="Smooth by the unbiased risk estimate.")] = True,
    confidence: Annotated[
        float, typer.Option(help="Of the certificates that --json, --report and --plot tell, all cells together.")
    ] = 0.95,
    fakes: Fakes = None,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
) -> None:
    """Read the labels off the sums.

    --plot draws the map of one or two features.
    """
    from epsworth.files import check_writable
    from epsworth.learner import Aggregator, Classifier
    from epsworth.learner.fakes import fakes_among
    from epsworth.learner.figures import check_map, plot_map, told_of
    from epsworth.learner.mechanism import checked_probability

    check_writable(out)
    options.check_outputs(json, plot, out)
    options.check_page(report)
    checked_probability(confidence)
    allowed = _fakes(fakes)
    sums = Aggregator.load(state)
    fakes_among(allowed, sums.users)
    if plot is not None:
        check_map(len(sums.config.names))
    model = Classifier.from_aggregate(sums, "sure" if smooth else None)
    document = told_of(model, confidence, fakes=allowed) if json is not None or report is not None else {}
    model.save(out)
    if plot is not None:
        plot_map(model, plot, confidence, fakes=allowed)
    write_document_page(report, document)
    if show.told(json, lambda: document):
        return
    width = "" if model.width_ is None else f", smoothed over {model.width_:g} of the box"
    print(f"{counted(model.aggregate.users, 'user')}, {counted(model.config.kernel.cells, 'cell')}{width}.")


app.command("audit")(audit_model)


@app.command("predict")
@options.apart
def predict(
    model: Annotated[Path, typer.Argument(help="Model, as learn fit writes it, or a session with all rounds closed.")],
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: a label per row, .csv, .parquet or .jsonl.")],
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Certify the label of each row's cell, or of its score's band, all together, with this confidence."
        ),
    ] = None,
    fakes: Fakes = None,
    audit: Annotated[
        Path | None, typer.Option(help="State of the aggregation of an audit of this table's model: see learn audit.")
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="Tell the labels' shares among people with such a score; see --audit.")
    ] = False,
    sep: options.Sep = ",",
) -> None:
    """Predict the label of every row.

    With --confidence, that of its cell is certified, too, but for --fakes reports.
    """
    from epsworth.learner import Classifier, TableLearner
    from epsworth.learner.report_files import columns
    from epsworth.tables import check_table, read_table, write_table

    check_table(destination)
    sureness = options.confidence_of(confidence)
    if fakes is not None and sureness is None:
        raise ValueError("--fakes is about certificates; give --confidence, too")
    if not TableLearner.wrote(model):
        learnt: Any = Classifier.load(model)
        if audit is not None or probability:
            raise ValueError("--audit and --probability are about tables; cells tell which label is commoner alone")
        judge, name, declared = learnt, "cell_label", dict.fromkeys(learnt.config.names, "number")
    else:
        learnt = TableLearner.load(model).classifier()
        judge, name = judged(learnt, audit) if audit is not None else learnt, "band_label"
        declared = learnt.declared_columns
        if probability and audit is None:
            raise ValueError("--probability needs --audit: scores alone are too sure; write one with learn audit")
    X = columns(learnt.config, read_table(source, declared, sep=sep))
    told: dict[str, Any] = {"label": learnt.predict(X)}
    if probability:
        shares = judge.predict_proba(X)
        told |= {f"probability_{label}": shares[:, k] for k, label in enumerate(judge.classes_.tolist())}
    if sureness is not None:
        sure = judge.certificate(X, confidence=sureness, fakes=_fakes(fakes))
        told |= {
            name: sure.label, "p_value": [round_up(p, 6) for p in sure.p_value.tolist()], "certified": sure.certified,
            "fakes": [sure.fakes] * len(sure.certified),
        }  # fmt: skip
        print(sure)
        if fakes is None and sure.reason is None:
            _print_with_fakes(judge, X, sureness)
    write_table(told, destination)


@app.command("plan")
@options.apart
def plan(
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="Privacy parameter per record.")] = None,
    users: Annotated[int | None, typer.Option(help="Reports.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="How far a cell's two labels are from even, times its share of all users.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Confidence of the cell's certificate; default: 0.95.")
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of the certificate.")] = 0.8,
    mechanism: Annotated[str, typer.Option(help="hadamard, ternary, krr or oue.")] = "hadamard",
    cells: Annotated[int | None, typer.Option(help="Cells per axis; krr needs them.")] = None,
    features: Annotated[int | None, typer.Option(help="Features; krr needs them.")] = None,
    mass: Annotated[
        float, typer.Option(help="At most this share of the users is in the cell; matters to ternary, krr and oue.")
    ] = 1.0,
    fakes: Fakes = None,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Reports pass a shuffler: epsilon follows from --central-epsilon.")
    ] = False,
    central_epsilon: Annotated[
        float | None, typer.Option(help="With --shuffled: for whoever sees only the shuffled batch.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --shuffled: of --central-epsilon, well below one over the users.")
    ] = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Plan users, epsilon or margin: two are given.

    The third is found, for this power and for three usual ones.  All reports but --fakes are taken to be honest.
    With --shuffled the users and a central epsilon are given; the epsilon of a report is found first, then the margin.
    """
    from epsworth.learner import plan as find
    from epsworth.learner.planning import plan_by_power

    options.check_outputs(json, None)
    options.check_page(report)
    question: dict[str, Any] = {
        "epsilon": epsilon, "users": users, "margin": margin, "confidence": options.confidence_of(confidence) or 0.95,
        "mechanism": mechanism, "m": cells, "d": features, "mass": mass, "fakes": (allowed := _fakes(fakes)),
    }  # fmt: skip
    central = None
    if shuffled or central_epsilon is not None or delta is not None:
        central = shuffling.planned_central(question, shuffled, central_epsilon, delta)
    found = find(power=power, **question)
    third = next(name for name in ("users", "epsilon", "margin") if question[name] is None)
    powers = {at: None if one is None else getattr(one, third) for at, one in plan_by_power(**question).items()}
    asked = {"cells": cells, "features": features, "mass": mass, "fakes": allowed}
    by_power = [{"power": at, third: value} for at, value in powers.items()]
    document = found.to_dict() | {"question": asked, "by_power": by_power}
    write_document_page(report, document)
    if central is not None:
        document["central"] = central.to_dict()
    if not show.told(json, lambda: document):
        print(found)
        if any(value is not None for value in powers.values()):
            print(_by_power(third, powers))
        if central is not None:
            shuffling.print_central(central)
        show.suggest_page(json, report)
    if not found.feasible:
        raise typer.Exit(1)


def _by_power(third: str, powers: dict[float, Any]) -> str:
    """Say in a line what each power takes."""

    def shown(value: Any) -> str:
        return "nothing is enough" if value is None else counted(value, "user") if third == "users" else show_up(value)

    what = "" if third == "users" else f"{third} "
    return "By power: " + ", ".join(f"{what}{shown(value)} for {power:g}" for power, value in powers.items()) + "."


def _print_with_fakes(judge: Any, X: Any, confidence: float) -> None:
    """Say how many labels are certified beside one per cent of fakes, where a certificate allows for any."""
    with suppress(ValueError):
        some = judge.certificate(X, confidence=confidence, fakes=0.01)
        kept = int(some.certified.sum())
        print(f"With --fakes 0.01, {kept or 'none'} of them {'stays' if kept < 2 else 'stay'} certified.")


def _fakes(text: str | None) -> int | float:
    """Read a number of fakes or a share; nobody forges reports unless it is said."""
    if text is None:
        return 0
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    raise ValueError(
        f"--fakes must be a whole number of reports, or a share of them, as in 100 or 0.01, got {short(text)}"
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
        own = [value.strip() for value in values.split(",")]
        if not all(own):
            raise ValueError(f"--category {name} has an empty value, which tables take for a missing one; drop it")
        found[name] = Category(name, tuple(_labels(own)), name in missing)
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
