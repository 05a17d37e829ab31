"""``epsworth utility``: curves for a model and a table."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import asking, options, show
from epsworth.cli.panels import QUESTION
from epsworth.cli.report import panels_for, write_page
from epsworth.cli.running import leave_if


@options.takes(options.CURVES)
def utility(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    sensitive: Annotated[list[str] | None, options.PERTURBED] = None,
    domain: options.DomainFile = None,
    domain_from_data: options.DomainFromData = False,
    epsilon: options.Epsilons = options.EPSILONS,
    target: options.Target = None,
    record: Annotated[list[int] | None, typer.Option(help="Show this record, too (row number from 0); repeat.")] = None,
    over: options.Over = "auto",
    seed: options.Seed = None,
    resume: options.Resume = None,
    parts: Annotated[
        Path | None,
        typer.Option(
            "--parts",
            help="Leave the bounds of all records in files of this folder, and tell averages and worst cases: for a "
            "million records. Go on from it where it is there. It is computed from raw data.",
        ),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            rich_help_panel=QUESTION,
            help="Analyse what clients release under this .toml file, in place of -s, -m, -e.",
        ),
    ] = None,
) -> None:
    """Bound how often the label stays under noise.

    By epsilon, or under a policy.

    Ctrl-C ends the run with what is proven so far, and exit status 130; a second one ends it at once.
    """
    options.check_outputs(json, plot)
    asking.deadline(context.params)
    options.check_resume(resume)
    options.check_page(report, context.params["mechanism"])
    if parts is not None:
        _refuse_beside_parts(resume=resume, plot=plot, report=report, over=over if over != "auto" else None)
    if policy is not None:
        asking.refuse_beside_policy(context)
    elif not sensitive:
        raise ValueError("--sensitive is missing; name the features that users perturb, or give a --policy")
    loaded = asking.Inputs.of(context.params, model, table, policy)
    curves, question, interrupted = asking.compute(context.params, model, table, record or (), policy, loaded)
    views = show.views_of(curves) + (record or [])
    if plot is not None:
        from epsworth.utility.figures import plot_curves

        plot_curves(curves, plot, on=views)
    from epsworth.report.result import panels_document

    around, cut = (None, False) if report is None else panels_for(context.params, loaded, curves, question, None)
    interrupted = interrupted or cut
    declared = None if policy is not None or domain_from_data else loaded.domain
    held = panels_document(around, declared)
    document = cache(lambda: curves.to_dict() | held)  # of page and JSON
    if report is not None:
        write_page(report, document(), curves, {}, around, loaded)
    if show.told(json, document):
        leave_if(interrupted)
        return
    show.print_kept(curves, views, context.params["verbose"], quiet)
    if quiet:
        leave_if(interrupted)
        return
    if policy is not None:
        from epsworth.policy import Policy

        show.suggest_perturb(policy, Policy.load(policy), loaded.columns)
    else:
        saved = Path(json) if parts is None and json is not None else parts
        ranges = () if parts is None else show.domain_words(domain, context.params["missing"])
        asked = show.again()[1:] if saved is None else [saved, *ranges]
        show.suggest("recommend", *asked, "--at-least", 0.9, why="the least epsilon that keeps 90 % of the labels")
    leave_if(interrupted)


def _refuse_beside_parts(**given: object) -> None:
    """Refuse what needs all records' bounds at once, or is implied."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"--{name} and --parts exclude each other: parts hold every record's bounds, are their own --resume, "
                "and are read one at a time; drop one of the two"
            )
