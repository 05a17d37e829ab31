"""``epsworth tailor``: a policy made for one model, with which labels stay as often as any mechanism allows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsworth.cli import asking, options, services, show
from epsworth.cli.substitutes import substitutes, with_gaps
from epsworth.rounding import percent_down

if TYPE_CHECKING:
    from epsworth.space import Feature
    from epsworth.utility.curves import Curves
    from epsworth.utility.tailored import Tailored

PARTS = 8  # epsilons of a plot, up to twice the policy's


@options.takes(options.BUDGETED)
def tailor(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Epsilon of the whole record.")],
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", "-s", help="Column that clients keep to themselves; repeat. Default: all of them."),
    ] = None,
    policy: options.PolicyOut = None,
    passing: options.Passing = None,
    domain: Annotated[
        Path | None,
        typer.Option("--domain", help="Public ranges of these columns, .toml or .json; default: those in the table."),
    ] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(help="What stands for undeclared categories: NAME=VALUE, repeat, or one. Default: the commonest."),
    ] = None,
    wish: Annotated[
        str, typer.Option(help="worst: best for the rarest label; average: most labels; accuracy: most true labels.")
    ] = "worst",
    target: Annotated[
        str | None, typer.Option("--target", help="Column of true labels: for --wish accuracy, else left out.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            parser=services.file_or_address,
            metavar="MODEL",
            help="Another model that reads the same records: one release serves all; repeat.",
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="What the labels of each --also count beside MODEL's 1: a list like 2,0.5.")
    ] = None,
    cells: Annotated[int, typer.Option(help="Cut regions into so many cells: what is sent lies nearer.")] = 1,
    fidelity: Annotated[
        float, typer.Option(help="With --cells: what a distance of the whole range costs, in labels kept.")
    ] = 0.0,
    draw: Annotated[
        bool, typer.Option("--draw", help="Send any of up to 64 listed records of a region instead of one.")
    ] = False,
    surrogate: Annotated[
        str,
        typer.Option(help="auto, exact, or the copy to learn: tree (or tree:32, tree:256, tree:1024), linear, relu."),
    ] = "auto",
    holdout: Annotated[
        float, typer.Option(help="Share of the records that builds nothing, and measures what unseen ones keep.")
    ] = 0.25,
    confidence: Annotated[float, typer.Option(help="Probability that the bounds on unseen records hold.")] = 0.999,
    public: Annotated[
        bool, typer.Option("--public", help="The model was fitted on public data, or released with its own epsilon.")
    ] = False,
    seed: options.Seed = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    resume: options.ResumeFolder = None,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
    quiet: options.Quiet = False,
) -> None:
    """Make a policy for one model.

    It keeps the most labels for a record's epsilon.

    Clients randomise in which region of the model their record lies, and send an ordinary record that stands for it;
    the service stays as it is.  TABLE must be public: its records choose what is sent.

    \b
    epsworth tailor model.skops public.csv --epsilon 2 --policy p.toml
    epsworth tailor model.skops public.csv -s age,bmi --domain ranges.toml --epsilon 2 --policy p.toml
    epsworth tailor model.onnx public.csv -s job --domain ranges.toml -e 1 --outside job=other --policy p.toml
    epsworth tailor a.skops public.csv -s age --domain ranges.toml -e 2 --also b.skops --weights 2 --policy p.toml
    epsworth perturb p.toml people.csv released.csv
    """  # noqa: D301  # the parser's mark for lines that stay as they are
    import epsworth as ew
    from epsworth.cli.report import write_document_page
    from epsworth.report.policies import document_of
    from epsworth.space import LeakWarning
    from epsworth.utility.tailored import record_epsilon

    options.check_outputs(json, plot, policy)
    options.check_page(report)
    options.check_policy_out(policy, domain_from_data=False)
    columns = options.passing_columns(passing, policy)
    stated = record_epsilon(epsilon, "--epsilon")
    _check_wishes(wish, target, plot, holdout)
    counts = _weights(weights, also or [])
    missing = context.params["missing"]
    asked = _with_columns(asking.Inputs.of(context.params | {"domain_from_data": False, "missing": None}, model, table))
    others = asking.others(also or [], context.params)
    with_gaps(asked.domain, missing if asked.domain else None, asked.names, asked.frame.columns, domain)  # they agree
    declared = _declared(asked)
    absent = substitutes("--missing", missing, declared, asked.frame.columns)
    unknown = substitutes("--outside", outside, declared, asked.frame.columns)
    with options.workers(jobs, cluster) as n_jobs, options.progress_bar("making the policy") as progress:
        made = ew.tailor(
            asked.model, asked.frame, sensitive=asked.names, epsilon=stated, domain=asked.domain, missing=absent,
            outside=unknown, wish=wish,  # type: ignore[arg-type]  # checked there
            y=asked.truth if wish == "accuracy" else None, classifiers=dict(zip(others, counts, strict=True)) or None,
            cells=cells, fidelity=fidelity, draw=draw, surrogate=surrogate, rng=seed, holdout=holdout,
            confidence=confidence, public=True, progress=progress, n_jobs=n_jobs, checkpoint=resume,
        )  # fmt: skip
        made = replace(made, public=public)  # the library was told so, to keep its warning for the one below
        curves = None if plot is None else _curves(made, asked, stated)
    if not public:
        warnings.warn(
            "the policy tells about the model and about the table: its epsilon covers neither what the model was "
            "fitted on nor these records; where all of them are public, or were released with an epsilon of their "
            "own, say --public",
            LeakWarning,
            stacklevel=1,
        )
    if policy is not None:
        handed = options.passing_only(made.policy, columns)
        handed.save(policy)
    if plot is not None and curves is not None:
        from epsworth.utility.figures import plot_curves

        plot_curves(curves, plot)
    document = document_of(made, curves)
    write_document_page(report, document)
    if show.told(json, lambda: document):
        return
    _print(made, curves, declared=domain is not None, verbose=context.params["verbose"], quiet=quiet)
    if quiet:
        return
    if policy is None:
        show.suggest(*show.again(), "--policy", "policy.toml", why="write what clients must run")
        return
    show.print_policy(policy, handed)
    show.suggest_perturb(policy, handed, asked.columns)


def _print(made: Tailored, curves: Curves | None, *, declared: bool, verbose: bool, quiet: bool) -> None:
    show.print_lines(made.verdict, "bold")
    if quiet:
        return
    if curves is not None:
        show.print_curves(curves, "average")
    out = show.console(show.SCREEN)
    out.print(made.certainty, markup=False)
    if not declared:
        out.print("Ranges and categories are those in the table: declare with --domain what people may hold besides.")
    if verbose:
        out.print(f"With every label counting alike {percent_down(made.balanced)} % stay.")
        for note in made.notes:
            out.print(f"{note[0].upper()}{note[1:]}.", markup=False)


def _curves(made: Tailored, asked: asking.Inputs, epsilon: Decimal) -> Curves:
    """Ask about the held-out records at other epsilons, too."""
    grid = [float(epsilon) * 2 * (part + 1) / PARTS for part in range(PARTS)]
    return made.stability(grid, asked.frame[made.rows.tolist()])


def _check_wishes(wish: str, target: str | None, plot: Path | None, holdout: float) -> None:
    if wish == "accuracy" and target is None:
        raise ValueError("--wish accuracy needs the true labels; name their column with --target")
    if plot is not None and holdout == 0:
        raise ValueError("--plot draws the records that were held out, and --holdout 0 holds out none; drop one")


def _weights(text: str | None, also: Sequence[Path]) -> list[float]:
    """Read what each of the other models counts."""
    if text is None:
        return [1.0] * len(also)
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--weights must be numbers separated by commas, got {text!r}") from None
    if len(found) != len(also):
        raise ValueError(f"--weights must name one number for each --also ({len(also)}), got {text!r}")
    return found


def _declared(asked: asking.Inputs) -> list[Feature]:
    """Return the features' ranges, those in the public table where none are declared."""
    from epsworth.tailored.problem import own_feature

    if asked.domain is not None:
        return [asked.domain[name] for name in asked.names]
    return [own_feature(name, asked.frame[name].to_numpy()) for name in asked.names]


def _with_columns(asked: asking.Inputs) -> asking.Inputs:
    """Take all columns that the model reads for sensitive where none is named."""
    if asked.names:
        return asked
    read = asked.model.features
    return replace(asked, names=[name for name in asked.frame.columns if read is None or name in read])
