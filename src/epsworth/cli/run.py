"""``epsworth run``: a whole question out of one file, and its answer with what was read for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsworth.cli import options, services, show
from epsworth.cli.running import bar, connections_may_break, leave_if, running

if TYPE_CHECKING:
    from epsworth.study import Study, StudyResult

CHANGED = 1  # exit status


def run(
    study: Annotated[Path, typer.Argument(help="The question, or a kept result (.json).", metavar="STUDY.toml")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar=options.STREAM_OR_FILE,
            help="Write everything as JSON to this file, versions and fingerprints included; - for standard output.",
        ),
    ] = None,
    report: options.Report = None,
    plot: options.Plot = None,
    policy: options.PolicyOut = None,
    check: Annotated[
        Path | None,
        typer.Option(help="Ask nothing: say what changed since this result was written; exit status 1 if anything."),
    ] = None,
    within_seconds: options.WithinSeconds = None,
    resume: options.Resume = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    trust: options.Trust = False,
    send: Annotated[
        bool, typer.Option("--send", help="Let records be sent to the address that the study names as its model.")
    ] = False,
    cache: services.Cache = None,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Answer a study file, and keep what was read.

    Its question is asked, a recommendation made, and versions are kept.

    Ctrl-C ends the run with what is proven so far, and exit status 130; a second one ends it at once.
    """
    from epsworth.study import Study

    if check is not None:
        _refuse_beside_check(
            {"-o": output, "--report": report, "--plot": plot, "--policy": policy, "--resume": resume, "--cache": cache,
             "--jobs": jobs, "--cluster": cluster, "--within-seconds": within_seconds, "--trust": trust, "--send": send}
        )  # fmt: skip
    options.check_outputs(None if output == "-" else output, plot, policy)
    options.check_resume(resume)
    options.check_page(report)
    options.check_policy_out(policy, False)
    if study.suffix.lower() == ".json":
        _show_again(study, output, policy, plot, report, verbose=verbose, quiet=quiet)
        return
    asked = Study.load(study)
    files = asked.files
    outputs = {"--output": output, "--report": report, "--plot": plot, "--policy": policy, "--resume": resume}
    options.check_files({**{f"study's {name}": path for name, path in files.items()}, **outputs, "--cache": cache})
    if check is not None:
        _tell_changes(asked, check)
        return
    left = _seconds(within_seconds)
    connections_may_break()
    with options.workers(jobs, cluster) as n_jobs, bar() as moved, running("asking the classifier", moved) as going:
        found = asked.run(
            trust=trust, send=send, progress=going.progress, watch=going.watch, seconds=left, checkpoint=resume,
            cache=cache, n_jobs=n_jobs,
        )  # fmt: skip
    told = show.told(output, found.to_dict)  # first: all else can be made of it again
    _write(found, policy, plot, report)
    if not told:
        _tell(found, study, output, policy, verbose=verbose, quiet=quiet)
    leave_if(found.curves.stopped and going.interrupted)


def _show_again(
    source: Path, output: str | None, policy: Path | None, plot: Path | None, report: Path | None, *, verbose: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Print and write what a kept result holds; nothing is asked."""
    from epsworth.documents import read_json
    from epsworth.files import RESULT_BYTES, reading
    from epsworth.study import StudyResult, curves_of_file, is_study_result

    with reading(source, "result file", most=RESULT_BYTES) as content:
        study = is_study_result(read_json(content))
    if not study:
        curves = curves_of_file(source)[0]
        if any(one is not None for one in (output, policy, plot, report)):
            raise ValueError(
                f"{source} holds curves, but no study, so that run has nothing to write; give it to epsworth "
                "recommend, with --json, --plot, --report or --policy"
            )
        show.print_kept(curves, (), verbose, quiet)
        if quiet:
            return
        show.suggest("recommend", source, "--at-least", "0.9", why="the least epsilon that keeps 90 % of the labels")
        return
    found = StudyResult.load(source)
    told = show.told(output, found.to_dict)
    _write(found, policy, plot, report)
    if not told:
        _tell(found, source, output, policy, verbose=verbose, quiet=quiet)


def _refuse_beside_check(given: Mapping[str, object]) -> None:
    """Refuse what --check would ignore."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"--check asks nothing and writes nothing, so that {option} is idle; drop one of them")


def _seconds(given: float | None) -> float | None:
    from epsworth.cli.asking import within_seconds

    return within_seconds(given)


def _tell_changes(study: Study, path: Path) -> None:
    from epsworth.study import StudyResult

    found = StudyResult.load(path).changes(study)
    out = show.console()
    for change in found:
        out.print(change, markup=False, soft_wrap=True)
    if found:
        raise typer.Exit(CHANGED)
    out.print(f"{path} answers this very question, about these very files.", markup=False, soft_wrap=True)


def _write(found: StudyResult, policy: Path | None, plot: Path | None, report: Path | None) -> None:
    if policy is not None and found.policy is not None:
        from epsworth.files import write_text

        write_text(policy, found.policy)
    if plot is not None:
        from epsworth.utility.figures import plot_curves

        answer = found.recommendation
        plot_curves(found.curves, plot, on=[found.study.on], of=answer.of, recommended=answer)
    if report is not None:
        from epsworth.cli.report import command_line
        from epsworth.report import report as page_of

        page_of(found, command=command_line()).save(report)


def _tell(
    found: StudyResult, study: Path, output: str | None, policy: Path | None, *, verbose: bool, quiet: bool
) -> None:
    from epsworth.policy import Policy

    made, out = found.recommendation, show.console()
    show.print_answer(found.curves, made, verbose, quiet)
    if quiet:
        return
    if found.study.seed is None and found.curves.confidence < 1:
        out.print(f"Seed {found.seed} was drawn; put it into the study for these very bounds.")
    if policy is not None and found.policy is not None:
        show.print_policy(policy, Policy.from_toml(found.policy))
    elif policy is not None:
        show.print_no_policy(policy, found.no_policy)
    if output is None:
        show.suggest("run", study, "-o", "result.json", why="keep the answer, for pages and later comparison")
    else:
        show.suggest("report", Path(output), "-o", "page.html", why="a page of it, without model and table")
