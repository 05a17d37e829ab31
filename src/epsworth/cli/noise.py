"""``epsworth noise``: a utility constraint -> the cheapest noise, ranked."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth import inputs
from epsworth.cli import options, show
from epsworth.cli.report import write_document_page
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from epsworth.noise import Ranking


def noise(
    within: Annotated[
        str, typer.Option(help="Half-width around the true answer; for relative errors the fraction; fixed: LOW,HIGH.")
    ],
    confidence: Annotated[float, typer.Option(help="Probability with which a release must be within.")] = 0.95,
    sensitivity: Annotated[float, typer.Option(help="Largest change of the answer between neighbours.")] = 1.0,
    delta: Annotated[float, typer.Option(help="For all releases together; 0: pure only.")] = 1e-6,
    releases: Annotated[int, typer.Option(help="How many answers are released, each under the constraint.")] = 1,
    region: Annotated[str, typer.Option(help="absolute, relative or fixed.")] = "absolute",
    offset: Annotated[float | None, typer.Option(help="relative: half-width at the answer 0.")] = None,
    answers: Annotated[
        str | None, typer.Option(help="relative, fixed: public list of true answers, FIRST:LAST:STEP or 1,2,4.")
    ] = None,
    lattice: Annotated[float | None, typer.Option(help="Step of the lattice of true answers; 1 for counts.")] = None,
    scale: Annotated[float | None, typer.Option(help="fixed: the kernel's scale; the sensitivity by default.")] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="What is to be small: epsilon, advantage or tpr@RATE of an attacker, renyi@ORDER, zcdp, or gdp."
        ),
    ] = "epsilon",
    published: Annotated[
        bool, typer.Option("--published", help="Add what the published accounting claims (not a bound).")
    ] = False,
    quiet: options.Quiet = False,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
) -> None:
    """Rank the noises that keep answers within a bound.

    The cheapest in privacy comes first.
    """
    from epsworth.noise import cheapest

    options.check_outputs(json, plot)
    options.check_page(report)
    if not 0 < confidence < 1:
        raise ValueError(f"--confidence must lie strictly between 0 and 1, got {confidence:g}")
    try:
        ranked = cheapest(
            _width(within),
            confidence=confidence,
            sensitivity=sensitivity,
            delta=delta,
            releases=releases,
            region=region,  # type: ignore[arg-type]  # checked by the library
            offset=offset,
            answers=None if answers is None else inputs.epsilon_grid(answers, "--answers", -inf),
            lattice=lattice,
            scale=scale,
            method="published" if published else "exact",
            objective=objective,
        )
    except ImportError as error:
        raise ValueError(str(error)) from None
    if plot is not None:
        from epsworth.noise.figures import plot_noise

        plot_noise(ranked, plot)
    asked = {
        "within": within, "confidence": confidence, "sensitivity": sensitivity, "region": region, "delta": delta,
        "releases": releases, "offset": offset, "answers": answers, "lattice": lattice, "scale": scale,
        "objective": objective,
    }  # fmt: skip
    document = {"question": asked, **ranked.to_dict(), "shape": _shape(ranked)}
    write_document_page(report, document)
    if not show.told(json, lambda: document):
        _print(ranked, quiet)
        if not quiet:
            show.suggest_page(json, report)


def _shape(ranked: Ranking) -> dict[str, Any] | None:
    """Return the shape of the advised noise."""
    from epsworth.noise.figures import shape_of

    return None if ranked.taken is None else {"name": ranked.taken.name, **shape_of(ranked.taken)}


def _print(ranked: Ranking, quiet: bool) -> None:
    from epsworth.noise.choice import RULE, above_floor

    if quiet:
        show.console().print(ranked.advice, soft_wrap=True)
        return
    out, words = show.console(), show.console(show.SCREEN)
    asked = ranked.asked
    together = f" for {asked.releases} releases together" if asked.releases > 1 else ""
    plain = asked.objective.name == "epsilon"
    what = f"epsilon{together}, delta {show_up(asked.delta)}" if plain else f"{asked.objective}{together}"
    out.print(f"[bold]{what}[/bold] (central model, per data set)")
    columns = "noise", asked.objective.name, *(() if plain else ("epsilon",)), "Pr(within)", "rms error"
    pairs = any(choice.pairs > 1 for choice in ranked)
    columns += ("pairs",) if pairs else ()
    counted = ("advantage", "tpr") if asked.delta == 0 else ("epsilon", "advantage", "tpr")
    loose = asked.releases > 1 and asked.objective.name in counted
    table = show.table(*columns, "above a loose floor" if loose else "above floor", "", left=("noise", ""))
    for choice in ranked:
        remark = "" if choice.sound else f"not a bound: in truth {show_up(choice.exact_epsilon)}"
        if choice is ranked.taken:
            remark = "<- advised" + (f"; {remark}" if remark else "")
        table.add_row(
            choice.name, show_up(choice.cost), *(() if plain else (show_up(choice.epsilon),)),
            show_down(choice.confidence, 5), show_up(choice.rmse, 4), *([str(choice.pairs)] if pairs else []),
            above_floor(choice.cost, ranked.floor), remark,
        )  # fmt: skip
    out.print(table)
    for name, why in ranked.left_out.items():
        words.print(f"Left out, {name}: {why}.")
    words.print()
    words.print(ranked.advice, style="bold")
    if ranked.taken is not None:
        words.print(RULE)


def _width(text: str) -> float | tuple[float, float]:
    try:
        parts = [float(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise ValueError(f"--within must be a number, or LOW,HIGH for a fixed region, got {text!r}")
    if len(parts) == 1 and not 0 < parts[0] < inf:
        raise ValueError(f"--within must be positive and finite, got {text!r}")
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])
