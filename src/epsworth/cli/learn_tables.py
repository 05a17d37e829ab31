"""``epsworth learn open``, ``close``, ``audit``: the rounds of a table, and what is asked about its model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.cli.report import write_document_page
from epsworth.numerals import counted

if TYPE_CHECKING:
    from epsworth.learner import AuditedClassifier, TableClassifier, TableLearner

Session = Annotated[
    Path, typer.Argument(help="Configuration of a table, or the session (.json) that learn close wrote last.")
]


def write_table_config(
    destination: Path, columns: list[Any], labels: Sequence[Any], epsilon: str, users: int | None, rounds: str,
    prior: str, rows: str, json: str | None,
) -> None:  # fmt: skip
    """Write the configuration of a table, and say which rounds it has."""
    from epsworth.learner import TableConfig

    if users is None:
        raise ValueError("--users is missing; the rounds of a table are chosen by how many are expected")
    made = TableConfig(columns, labels, epsilon, users, rounds, prior, rows)  # type: ignore[arg-type]
    made.save(destination)
    shares = {purpose: float(share) for purpose, share in made.shares}
    if show.told(json, lambda: made.to_dict() | {"fingerprint": made.fingerprint(), "shares": shares}):
        return
    told = ", ".join(f"{purpose} of {100 * share:.3g} %" for purpose, share in shares.items())
    print(
        f"{counted(len(made.columns), 'column')}, in rounds: {told} of the users; "
        f"fingerprint {made.fingerprint()[:12]}."
    )
    show.suggest("learn", "open", destination, "round.json", why="write what the clients of the first round need")


@options.apart
def open_round(
    session: Session,
    destination: Annotated[Path, typer.Argument(help="Output: the round (.json) that its clients get.")],
) -> None:
    """Write the next round of a table.

    What its users are asked, with what earlier rounds found.
    """
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
    given, why = ["reports.ldp"], "on a device of this round's people"
    if asked.rows == "hash":
        given = ["reports.jsonl", "--id", "id", "--seed", "SEED", "--again"]
        why = "all people: their ids tell who answers"
    show.suggest("learn", "report", destination, "these_people.csv", *given, "--target", "label", why=why)


@options.apart
def close_round(
    session: Session,
    state: Annotated[Path, typer.Argument(help="State of the aggregation of the open round's reports.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="Output: the session (.json), with this round closed.")],
    json: options.Json = None,
    plot: options.Plot = None,
    report: options.Report = None,
) -> None:
    """Close the open round of a table.

    With the sums of its reports; after the last one the session is a model.

    --json, --plot and --report tell what each value says for each label, as soon as that is known.
    """
    from epsworth.files import check_distinct, check_writable
    from epsworth.learner import Aggregator, TableLearner
    from epsworth.learner.figures import fewer, plot_scores, told_of_table

    check_distinct(state=state, output=out)
    check_writable(out)
    options.check_outputs(json, plot, out)
    options.check_page(report)
    learner = TableLearner.load(session)
    sums = Aggregator.load(state)
    learner.close(sums)
    left = learner.open()
    asked = {"--json": json, "--plot": plot, "--report": report}
    if left is not None and (early := [word for word, path in asked.items() if path is not None]):
        raise ValueError(f"{early[0]} tells what was learnt, but the round of {left.purpose} is open; leave it out")
    document = told_of_table(learner) if json is not None or report is not None else {}
    if plot is not None:
        plot_scores(learner.classifier(), plot)
    learner.save(out)
    write_document_page(report, document)
    if show.told(json, lambda: document):
        return
    came = f"{counted(sums.users, 'report')}, about {learner.rounds[-1][1].users:,} expected"
    print(f"{came}; {_closed(learner) if left is None else f'next: {left.purpose}'}.")
    if (short := fewer(learner)) is not None:
        print(short)
    if left is None:
        show.suggest("learn", "predict", out, "new.csv", "labels.csv", why="the session is a model")
    else:
        show.suggest("learn", "open", out, "round.json", why="write the next round")


def _closed(learner: TableLearner) -> str:
    """Say that no round is open, and which ones are left out."""
    idle = [one.purpose for one in learner.config.shares[len(learner.closed) :]]
    why = f"; none for {' or '.join(idle)} is needed, as fewer than two columns tell the labels apart" if idle else ""
    return f"all rounds are closed{why}"


@options.apart
def audit_model(
    session: Annotated[Path, typer.Argument(help="Session (.json) with all rounds closed: a model of two labels.")],
    destination: Annotated[Path, typer.Argument(help="Output: the audit (.json) that its clients get.")],
    probability: Annotated[
        bool,
        typer.Option(
            "--probability", help="Ask for how common the labels are, not only for which one is: for as many bits more."
        ),
    ] = False,
) -> None:
    """Write what is asked about a table's model.

    Users who answered in no round tell their score's band, and label.
    """
    from epsworth.files import check_distinct, check_writable
    from epsworth.learner import ScoreAudit, TableLearner

    check_distinct(session=session, audit=destination)
    check_writable(destination)
    made = ScoreAudit.of(TableLearner.load(session).classifier(), "probabilities" if probability else "labels")
    made.save(destination)
    print(
        f"The audit: {made.bands.m} bands of the score, reports of {made.report_size} bytes; {made.guarantee}; of "
        f"users who answered in no round; fingerprint {made.fingerprint()[:12]}."
    )
    why = "on a device of people who answered in no round"
    show.suggest("learn", "report", destination, "others.csv", "reports.ldp", "--target", "label", why=why)


def judged(model: TableClassifier, state: Path) -> AuditedClassifier:
    """Return what an audit tells of a model; refuse the sums of another model's."""
    from epsworth.learner import Aggregator, AuditedClassifier, ScoreAudit

    found = AuditedClassifier(Aggregator.load(state))
    if found.audit.fingerprint() != ScoreAudit.of(model, found.audit.about).fingerprint():
        raise ValueError(f"{state} is the audit of another model; write this one's with learn audit, and aggregate it")
    return found
