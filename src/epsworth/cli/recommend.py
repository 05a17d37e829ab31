"""``epsworth recommend``: the least share of labels that must stay -> mechanism and epsilon, or a reasoned no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import asking, options, services, show
from epsworth.cli.report import panels_for, write_page
from epsworth.cli.running import leave_if
from epsworth.cli.substitutes import with_gaps
from epsworth.inputs import is_address, tailored_of

if TYPE_CHECKING:
    from epsworth.policy import Policy
    from epsworth.space import Domain
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
    from epsworth.utility.recommendation import recommend as choose

    given = context.params
    _check(given)
    view = options.view_asked(on)
    answer = _saved(context) if table is None else _computed(given, view)
    answer.found = choose(
        answer.curves, at_least=at_least, on=view, of=of, delta=delta, max_epsilon=max_epsilon,  # type: ignore[arg-type]  # checked there
        at_most_sure=at_most_sure,
    )  # fmt: skip
    if policy is not None and answer.found.feasible:
        _hand_out(answer, given)
    _draw(answer, given)
    if not show.told(json, lambda: answer.document):
        show.print_answer(answer.curves, answer.found, given["verbose"], quiet)
        if not quiet:
            _tell(answer, given)
    leave_if(answer.interrupted)


@dataclass
class Answer:
    """Curves and what was made of them.

    Attributes
    ----------
    curves : Curves or CurveParts
    loaded : Inputs or None
        What they were asked of; None where they were saved.
    ranges : Domain or None
        Declared ranges.
    made : Tailored or None
        The policy that was made for the model, where that was chosen.
    policy : Policy or None
        What clients run.
    again : Curves or None
        The same question of that policy.
    problem : Problem or None
        What was asked.
    around : dict
        What files keep of the page.
    """

    curves: Any
    loaded: asking.Inputs | None
    ranges: Domain | None
    interrupted: bool = False
    problem: Any = None
    found: Any = None
    made: Tailored | None = None
    policy: Policy | None = None
    again: Any = None
    around: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The JSON form, once all is known."""
        held = {"recommendation": self.found, "curves": self.curves, "domain": self.ranges, "released": self.again}
        return {name: one.to_dict() for name, one in held.items() if one is not None} | self.around


def _check(given: Mapping[str, Any]) -> None:
    """Refuse, before any work, what cannot be answered or written."""
    options.check_outputs(given["json"], given["plot"], given["policy"])
    asking.deadline(given)
    options.check_resume(given["resume"])
    options.check_page(given["report"], given["mechanism"])
    options.check_policy_out(given["policy"], given["domain_from_data"])
    options.passing_columns(given["passing"] or None, given["policy"])
    if given["study"] is not None:
        asking.check_study(given["study"], given["table"], given["domain_from_data"])
    if given["recheck"] and (given["policy"] is None or given["table"] is None):
        raise ValueError("--recheck analyses what is written to --policy, for a model and a table; give all three")
    _check_policy_of_labels(given)
    options.view_asked(given["on"])
    options.check_choice(given["at_least"], given["of"], given["delta"], given["max_epsilon"], given["at_most_sure"])


def _saved(context: typer.Context) -> Answer:
    """Return the curves that a file or a folder holds."""
    from epsworth.space import Domain
    from epsworth.study import curves_of_file

    given = context.params
    source, domain = given["source"], given["domain"]
    if is_address(source) or (source.suffix != ".json" and not source.is_dir()):
        raise ValueError(
            f"{source} is not curves (.json), so it needs a table: epsworth recommend MODEL TABLE -s FEATURE"
        )
    _refuse_questions(context, CHOICES | ({"domain", "missing"} if given["policy"] else set()))
    if source.is_dir() and (given["plot"] is not None or given["report"] is not None):
        raise ValueError("--plot and --report draw the curves of a file, and this is a folder of parts; drop them")
    curves, ranges = curves_of_file(source)
    ranges = ranges if domain is None else Domain.load(domain)
    return Answer(curves, None, with_gaps(ranges, given["missing"], curves.features, curves.features, domain))


def _computed(given: Mapping[str, Any], view: str | int) -> Answer:
    """Ask the model about the table."""
    source, table = given["source"], given["table"]
    if not given["sensitive"]:
        raise ValueError("--sensitive is missing; name the features that users perturb")
    if given["of"] == "accuracy" and given["target"] is None:
        raise ValueError("--of accuracy needs the true labels; name their column with --target")
    loaded = asking.Inputs.of(given, source, table)
    loaded = loaded if given["domain_from_data"] else loaded.with_whole_numbers()
    if given["study"] is not None:
        asking.study_of(given, source, table, loaded, given["study"]).save(given["study"])
    short = view == "average" and given["of"] == "stability" and asking.deadline(given) is not None
    enough = asking.decided(given["at_least"], given["tolerance"]) if short else None
    rows = [view] if isinstance(view, int) else []
    curves, problem, interrupted = asking.compute(given, source, table, rows, loaded=loaded, enough=enough)
    ranges = None if given["domain_from_data"] else loaded.domain
    return Answer(curves, loaded, ranges, interrupted, problem)


def _hand_out(answer: Answer, given: Mapping[str, Any]) -> None:
    """Write what clients run, and ask about it where that is wished."""
    columns = options.passing_columns(given["passing"] or None, given["policy"])
    loaded, choice = answer.loaded, answer.found.choice
    if loaded is not None and choice.tailored:
        answer.made = _tailored(choice, loaded, given["seed"])
    policy = answer.found.policy(answer.ranges) if answer.made is None else answer.made.policy
    if told := options.unread(policy.passing.columns, columns):
        answer.found = replace(answer.found, notes=(*answer.found.notes, told))
    answer.policy = options.passing_only(policy, columns)
    answer.policy.save(given["policy"])
    if given["recheck"]:
        asked = dict(given) | {"resume": None}
        answer.again, _, stopped = asking.compute(
            asked, given["source"], given["table"], policy=given["policy"], loaded=loaded
        )
        answer.interrupted = answer.interrupted or stopped


def _draw(answer: Answer, given: Mapping[str, Any]) -> None:
    """Draw a plot and a page where they are asked for."""
    if given["plot"] is not None:
        from epsworth.utility.figures import plot_curves

        found = answer.found
        plot_curves(answer.curves, given["plot"], on=[found.on], of=found.of, recommended=found)
    if given["report"] is None:
        return
    from epsworth.report.result import panels_document

    around = None
    if answer.loaded is not None:
        around, cut = panels_for(given, answer.loaded, answer.curves, answer.problem, answer.found)
        answer.interrupted = answer.interrupted or cut
    answer.around = panels_document(around)
    write_page(given["report"], answer.document, answer.curves, answer.found.asked, around, answer.loaded)


def _tell(answer: Answer, given: Mapping[str, Any]) -> None:
    """Say what was written, and which command comes next."""
    from epsworth.rounding import round_down

    out, found, policy = show.console(), answer.found, given["policy"]
    if answer.policy is not None:
        show.print_policy(policy, answer.policy)
    elif policy is not None:
        show.print_no_policy(policy)
    if answer.made is not None:
        out.print(str(answer.made), markup=False, soft_wrap=True)
    if answer.again is not None:
        lower = float(answer.again.select(found.on, found.of).lower[0, 0])
        wish = found.at_least
        kept = "" if lower >= wish else f", which is less than the {wish:g} that was wanted: raise epsilon"
        out.print(f"What clients release under it: at least {round_down(lower):g}{kept}.")
    elif answer.policy is not None and given["verbose"]:
        out.print(found.as_released)
    _suggest(answer, given)


def _suggest(answer: Answer, given: Mapping[str, Any]) -> None:
    from epsworth.mechanisms.family import LABEL_RESPONSE, is_tailored
    from epsworth.rounding import show_down, show_up

    found, why = answer.found, "write what clients must run"
    if answer.policy is not None:
        columns = () if answer.loaded is None else answer.loaded.columns
        show.suggest_perturb(given["policy"], answer.policy, columns)
    elif found.feasible and found.choice.mechanism == LABEL_RESPONSE:
        pass  # no policy for clients without the model
    elif found.feasible and found.choice.tailored and answer.loaded is None:
        words = ("-s", ",".join(answer.curves.features), "-e", show_up(found.choice.guarantee.epsilon))
        show.suggest("tailor", "MODEL", "TABLE", *words, "--policy", "policy.toml", why=why)
    elif found.feasible and given["json"] is not None and not found.choice.tailored:
        show.suggest("recommend", Path(given["json"]), "--at-least", found.at_least, "--policy", "policy.toml", why=why)
    elif found.feasible and given["domain_from_data"]:
        asked = (given["table"], "-s", ",".join(answer.curves.features))
        show.suggest("init", *asked, why="declare public ranges, which a policy needs: --domain ranges.toml")
    elif found.feasible:
        show.suggest(*show.again(), "--policy", "policy.toml", why=why)
    elif answer.loaded is None and found.beyond is not None:
        words = ("--at-least", found.at_least, "--max-epsilon", show_up(found.beyond.guarantee.epsilon))
        show.suggest("recommend", given["source"], *words, why="what protects less")
    elif answer.loaded is not None and not any(map(is_tailored, answer.curves.mechanisms)):
        ranges = show.domain_words(given["domain"], given["missing"])
        asked = (given["source"], given["table"], "-s", ",".join(answer.curves.features), *ranges)
        show.suggest(
            "tailor", *asked, "-e", show_down(found.max_epsilon), "--policy", "policy.toml",
            why="a policy made for this model; the table must be public",
        )  # fmt: skip


def _tailored(choice: Choice, asked: asking.Inputs, seed: int | None) -> Tailored:
    with options.progress_bar("making the policy") as progress:
        return tailored_of(
            choice, asked.model, asked.frame, sensitive=asked.names, domain=asked.domain, y=asked.truth, rng=seed,
            progress=progress,
        )  # fmt: skip


CHOICES = {
    *("source", "table", "verbose", "quiet", "at_least", "max_epsilon", "at_most_sure", "on", "of", "delta"),
    *("json", "plot", "policy", "passing", "report"),
}  # fmt: skip


def _check_policy_of_labels(given: Mapping[str, Any]) -> None:
    """Refuse, before any work, a policy where the label is randomised, which no client can do without the model."""
    from epsworth.mechanisms.family import LABEL_RESPONSE

    if given["policy"] is not None and any(LABEL_RESPONSE in words.split(",") for words in given["mechanism"]):
        raise ValueError(
            f"--policy: {LABEL_RESPONSE} randomises the label where the model runs, and a policy is for clients "
            "without it; leave it out of --mechanism, or drop --policy"
        )


def _refuse_questions(context: typer.Context, allowed: set[str]) -> None:
    """Refuse options that ask another question than saved curves answer, instead of ignoring them."""
    why = "asks a new question, but saved curves were given; drop it, or give a model and a table"
    asking.refuse_given(context, context.params.keys() - allowed, why)
