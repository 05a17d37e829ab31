"""``epsworth recommend``: the least share of labels that must stay -> mechanism and epsilon, or a reasoned no."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import asking, options, services, show
from epsworth.cli.running import leave_if
from epsworth.cli.substitutes import with_gaps
from epsworth.studies.inputs import is_address, tailored_of

if TYPE_CHECKING:
    from epsworth.utility.choice import Choice
    from epsworth.utility.tailored import Tailored


@options.takes(options.CURVES)
def recommend(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            parser=services.file_or_address,
            metavar="SOURCE",
            help="Fitted classifier or address of a service (then a table must follow), or what utility --json or "
            "--parts, or run wrote.",
        ),
    ],
    table: Annotated[Path | None, options.RECORDS] = None,
    at_least: options.AtLeast = 0.9,
    max_epsilon: options.MaxEpsilon = None,
    at_most_sure: options.AtMostSure = None,
    on: Annotated[str, typer.Option(help="average, worst, or a row number (a choice per record leaks).")] = "average",
    of: Annotated[str, typer.Option(help="stability, or accuracy (needs --target).")] = "stability",
    delta: Annotated[float | None, typer.Option(help="Largest total delta per record to accept; 0: pure only.")] = None,
    sensitive: Annotated[list[str] | None, options.PERTURBED] = None,
    domain: options.DomainFile = None,
    domain_from_data: options.DomainFromData = False,
    epsilon: options.Epsilons = options.EPSILONS,
    target: options.Target = None,
    over: options.Over = "auto",
    seed: options.Seed = None,
    resume: options.Resume = None,
    quiet: options.Quiet = False,
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
    policy: options.PolicyOut = None,
    passing: options.Passing = None,
    study: Annotated[
        Path | None, typer.Option("--study", help="Write this question to a .toml file, to be asked again by run.")
    ] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Analyse the policy as well, as clients will release under it.")
    ] = False,
) -> None:
    """Find the smallest epsilon that keeps enough labels.

    The answer is yes only where a release protects enough, too: see --max-epsilon.

    Ctrl-C ends the run with what is proven so far, and exit status 130; a second one ends it at once.
    """
    from epsworth.mechanisms.family import is_tailored
    from epsworth.rounding import round_down, show_down
    from epsworth.space import Domain
    from epsworth.studies.result import curves_of_file
    from epsworth.utility.recommendation import recommend as choose

    options.check_outputs(json, plot, policy)
    asking.deadline(context.params)
    options.check_resume(resume)
    options.check_page(report)
    options.check_policy_out(policy, domain_from_data)
    if study is not None:
        asking.check_study(study, table, domain_from_data)
    interrupted, loaded, made, ranges = False, None, None, None
    curves: Any  # in memory, or in parts
    if recheck and (policy is None or table is None):
        raise ValueError("--recheck analyses what is written to --policy, for a model and a table; give all three")
    columns, missing = options.passing_columns(passing, policy), context.params["missing"]
    view = view_asked(on)
    check_choice(at_least, of, delta, max_epsilon, at_most_sure)
    if table is None:
        if is_address(source) or (source.suffix != ".json" and not source.is_dir()):
            raise ValueError(
                f"{source} is not curves (.json), so it needs a table: epsworth recommend MODEL TABLE -s FEATURE"
            )
        _refuse_questions(context, CHOICES | ({"domain", "missing"} if policy else set()))
        curves, ranges = curves_of_file(source)
        ranges = ranges if domain is None else Domain.load(domain)
        ranges = with_gaps(ranges, missing, curves.features, curves.features, domain)
    else:
        if not sensitive:
            raise ValueError("--sensitive is missing; name the features that users perturb")
        if of == "accuracy" and target is None:
            raise ValueError("--of accuracy needs the true labels; name their column with --target")
        rows = [view] if isinstance(view, int) else []
        loaded = asking.Inputs.of(context.params, source, table)
        loaded = loaded if domain_from_data else loaded.with_whole_numbers()
        if study is not None:
            asking.study_of(context.params, source, table, loaded, study).save(study)
        wish = view == "average" and of == "stability" and asking.deadline(context.params) is not None
        enough = asking.decided(at_least, context.params["tolerance"]) if wish else None
        curves, interrupted = asking.compute(context.params, source, table, rows, loaded=loaded, enough=enough)
    if table is None and source.is_dir() and (plot is not None or report is not None):
        raise ValueError("--plot and --report draw the curves of a file, and this is a folder of parts; drop them")
    found = choose(
        curves, at_least=at_least, on=view, of=of, delta=delta, max_epsilon=max_epsilon, at_most_sure=at_most_sure,  # type: ignore[arg-type]  # checked there
    )  # fmt: skip
    again = handed = None
    if policy is not None and found.feasible:
        if loaded is not None and found.choice is not None and found.choice.tailored:
            made = _tailored(found.choice, loaded, seed)
            handed = options.passing_only(made.policy, columns)
        else:
            handed = found.policy(ranges if loaded is None else loaded.domain, passing=columns)
        handed.save(policy)
        if recheck and table is not None:
            given = context.params | {"resume": None}
            again, stopped = asking.compute(given, source, table, policy=policy, loaded=loaded)
            interrupted = interrupted or stopped
    if plot is not None:
        from epsworth.utility.figures import plot_curves

        plot_curves(curves, plot, on=[view], of=found.of, recommended=found)
    beside: dict[str, object] = {}
    if report is not None:
        from epsworth.cli.report import beside_curves, surroundings, write_page

        around = None
        if loaded is not None:
            around, cut = surroundings(context.params, loaded, curves, found, None)
            interrupted, beside = interrupted or cut, beside_curves(around)
        write_page(report, curves, found, around, loaded)
    released = {} if again is None else {"released": again.to_dict()}
    if loaded is not None and not domain_from_data:
        ranges = loaded.domain
    held = {"recommendation": found, "curves": curves} | ({} if ranges is None else {"domain": ranges})
    if show.told(json, lambda: {name: one.to_dict() for name, one in held.items()} | beside | released):
        leave_if(interrupted)
        return
    show.print_answer(curves, found, context.params["verbose"], quiet)
    if quiet:
        leave_if(interrupted)
        return
    out = show.console()
    if policy is not None and handed is not None:
        show.print_policy(policy, handed)
    elif policy is not None:
        out.print(f"No policy was written to {policy}.", markup=False, soft_wrap=True)
    if made is not None:
        out.print(str(made), markup=False, soft_wrap=True)
    if again is not None:
        lower = float(again.select(view, found.of).lower[0, 0])
        kept = "" if lower >= at_least else f", which is less than the {at_least:g} that was wanted: raise epsilon"
        out.print(f"What clients release under it: at least {round_down(lower):g}{kept}.")
    elif policy is not None and found.feasible:
        out.print(found.as_released)
    ranges_again = show.domain_words(domain, missing)
    if policy is not None and found.feasible:
        show.suggest("perturb", policy, "people.csv", "released.csv", why="what every client runs")
    elif found.feasible and json is not None:
        show.suggest(
            "recommend", json, "--at-least", at_least, "--policy", "policy.toml", why="write what clients must run"
        )
    elif found.feasible:
        show.suggest(*show.again(), "--policy", "policy.toml", why="write what clients must run")
    elif table is not None and not any(map(is_tailored, curves.mechanisms)):
        show.suggest(
            "tailor", source, table, "-s", ",".join(curves.features), *ranges_again, "-e", show_down(found.max_epsilon),
            "--policy", "policy.toml", why="a policy made for this model; the table must be public",
        )  # fmt: skip
    leave_if(interrupted)


def _tailored(choice: Choice, asked: asking.Inputs, seed: int | None) -> Tailored:
    with options.progress_bar("making the policy") as progress:
        return tailored_of(
            choice, asked.model, asked.frame, sensitive=asked.names, domain=asked.domain, y=asked.truth, rng=seed,
            progress=progress,
        )  # fmt: skip


def view_asked(on: str) -> str | int:
    """Read what --on names."""
    if on.isdecimal():
        return int(on)
    if on not in ("average", "worst"):
        raise ValueError(f"--on must be average, worst or a record number from 0, got {on!r}")
    return on


def check_choice(
    at_least: float, of: str, delta: float | None, max_epsilon: float | None, at_most_sure: float | None
) -> None:
    """Refuse a choice that nothing can answer."""
    if not 0 < at_least <= 1:
        raise ValueError(f"--at-least must lie in (0, 1], got {at_least:g}")
    if of not in ("stability", "accuracy"):
        raise ValueError(f"--of must be stability or accuracy, got {of!r}")
    if delta is not None and not 0 <= delta <= 1:
        raise ValueError(f"--delta must lie in [0, 1], got {delta:g}")
    if max_epsilon is not None and at_most_sure is not None:
        raise ValueError("--max-epsilon and --at-most-sure are two ways to say one thing; keep one")
    if max_epsilon is not None and not 0 < max_epsilon < math.inf:
        raise ValueError(f"--max-epsilon must be positive and finite, got {max_epsilon:g}")
    if at_most_sure is not None and not 0.5 < at_most_sure < 1:
        raise ValueError(f"--at-most-sure must lie strictly between 0.5 and 1, got {at_most_sure:g}")


CHOICES = {
    "source",
    "table",
    "verbose",
    "quiet",
    "at_least",
    "max_epsilon",
    "at_most_sure",
    "on",
    "of",
    "delta",
    "json",
    "plot",
    "policy",
    "passing",
    "report",
}


def _refuse_questions(context: typer.Context, allowed: set[str]) -> None:
    """Refuse options that ask another question than saved curves answer, instead of ignoring them."""
    for name in context.params.keys() - allowed:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} asks a new question, but saved curves were given; drop it, or give a model and a table"
            )
