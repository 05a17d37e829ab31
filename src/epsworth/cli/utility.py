"""``epsworth utility``: curves for a model and a table."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import options, show


def utility(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    sensitive: options.Sensitive,
    domain: options.DomainFile = None,
    domain_from_data: options.DomainFromData = False,
    mechanism: options.Mechanisms = None,
    epsilon: options.Epsilons = "1:8:1",
    record_epsilon: options.RecordEpsilons = None,
    target: options.Target = None,
    record: Annotated[list[int] | None, typer.Option(help="Show this record, too (row number from 0); repeat.")] = None,
    method: options.Method = "auto",
    quantise: options.Quantise = None,
    over: options.Over = "auto",
    confidence: options.Confidence = 0.999,
    tolerance: options.Tolerance = 0.01,
    seed: options.Seed = None,
    trust: options.Trust = False,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Bound how often the label stays, by epsilon."""
    options.check_outputs(json, plot)
    curves = options.compute(context.params, model, table, record or ())
    views = show.views_of(curves) + (record or [])
    if plot is not None:
        from epsworth.utility.figures import plot_curves

        plot_curves(curves, plot, on=views)
    if show.told(json, curves.to_dict):
        return
    show.print_curves(curves, views)
    if curves.accuracy is not None:
        show.print_curves(curves, views[:1], of="accuracy")
    show.print_check(curves)
    show.print_facts(curves)
    asked = (model, table, "-s", ",".join(curves.features), *show.domain_words(domain)) if json is None else (json,)
    show.suggest("recommend", *asked, "--at-least", 0.9, why="the least epsilon that keeps 90 % of the labels")
