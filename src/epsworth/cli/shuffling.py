"""``epsworth learn shuffle``, and what ``convert --shuffle`` and ``learn plan --shuffled`` share."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options
from epsworth.numerals import counted

if TYPE_CHECKING:
    from epsworth.guarantees import Central

NO_DELTA = "--delta is missing: shuffling amplifies no pure guarantee; name one well below one over the reports"

BREAKS = (
    "It does not hold if the shuffler and who gets the batch work together, if an id, time, address or version stands "
    "beside a report, if somebody has a report in another batch, or if more than {fakes:,} of the reports are fakes."
)


@dataclass(frozen=True)
class ShuffleOptions:
    """The options of ``convert --shuffle``, as they were given."""

    shuffle: int | None
    epsilon: float | None
    central_epsilon: float | None
    delta: float | None
    mechanism: str | None
    symbols: int | None
    rounds: int | None
    fakes: int | None

    @property
    def given(self) -> bool:
        """Whether shuffled reports are asked about at all."""
        return any(value is not None for value in astuple(self))

    def central(self) -> Central:
        """Return the promise, of the epsilon given or of the one that suffices."""
        from epsworth.guarantees import shuffled
        from epsworth.learner.config import Law
        from epsworth.learner.planning import planned_epsilon

        if self.shuffle is None:
            raise ValueError("--shuffle is missing; give how many reports arrive in one batch")
        if (self.epsilon is None) == (self.central_epsilon is None):
            raise ValueError("give one of --epsilon and --central-epsilon; the other one is found")
        if self.delta is None:
            raise ValueError(NO_DELTA)
        if self.central_epsilon is not None:
            if self.rounds is not None:
                raise ValueError("--rounds is for --epsilon; with --central-epsilon ask about one batch")
            law = Law(self.mechanism or "any", self.symbols)  # type: ignore[arg-type]
            given: dict[str, Any] = {"users": self.shuffle, "delta": self.delta, "fakes": self.fakes or 0}
            return planned_epsilon(self.central_epsilon, law=law, **given)
        found = shuffled(
            self.epsilon, users=self.shuffle, delta=self.delta, mechanism=self.mechanism or "any",  # type: ignore[arg-type]
            symbols=self.symbols, fakes=self.fakes or 0,
        )  # fmt: skip
        return found if self.rounds is None else found.rounds(self.rounds)


def planned_central(
    question: dict[str, Any], shuffled: bool, central_epsilon: float | None, delta: float | None
) -> Central:
    """Return what the reports of a plan keep behind a shuffler, and put their epsilon into its question."""
    from epsworth.learner.planning import central_of

    if not shuffled:
        raise ValueError("--central-epsilon and --delta are about shuffled reports; add --shuffled")
    if question["epsilon"] is not None:
        raise ValueError("--shuffled stands beside --central-epsilon, not --epsilon: that of a report is found")
    if question["margin"] is not None or question["users"] is None or central_epsilon is None:
        raise ValueError("--shuffled needs --users and --central-epsilon; the margin is found")
    if delta is None:
        raise ValueError(NO_DELTA)
    names = ("users", "mechanism", "m", "d", "fakes")
    central = central_of(central_epsilon, delta=delta, **{name: question[name] for name in names})
    question["epsilon"] = central.local_epsilon
    return central


def print_central(found: Central) -> None:
    """Print the promise with its trust, and what no analysis gets below."""
    print(f"{str(found)[0].upper()}{str(found)[1:]}")
    if found.tightness:
        print(found.tightness)


@options.apart
def shuffle_reports(
    settings: Annotated[Path, typer.Argument(metavar="CONFIG", help="Configuration (.json), or a table's round.")],
    sources: Annotated[list[Path], typer.Argument(help="Files of reports, as they arrived.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="Output: the batch (.ldp), in random order.")],
    at_least: Annotated[
        int,
        typer.Option(
            help="Hold back a batch of fewer reports than were planned with; with rows by hash: of the smallest row."
        ),
    ],
    registered: Annotated[
        Path | None,
        typer.Option(
            help="Ids of this batch's users, one a line, which rows by hash need; then the files are JSON lines of id "
            "and report, and what is of nobody's, of one twice, about another row or damaged is dropped."
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option(help="With rows by hash: the public seed.")] = None,
    delta: Annotated[float | None, typer.Option(help="Say what the batch keeps at this delta.")] = None,
    fakes: Annotated[int, typer.Option(help="With --delta: so many of the reports may be fakes.")] = 0,
) -> None:
    """Forward checked reports in random order, as a shuffler.

    Only full batches are forwarded.
    Whoever runs it sees every report with its sender, and must be another party than who gets the batch.
    """
    from epsworth.files import reading
    from epsworth.learner import shuffle_files
    from epsworth.learner.config import load_config

    made = load_config(settings)
    hashed = made.rows == "hash"
    if delta is not None:  # refused before anything is written
        made.shuffled(users=at_least, delta=delta, fakes=fakes, smallest_row=at_least if hashed else None)
    ids = None
    if registered is not None:
        with reading(registered, "registered ids") as content:
            ids = content.decode().splitlines()
    found = shuffle_files(made, sources, out, at_least=at_least, registered=ids, seed=seed)
    if found.refused:
        print("Dropped: " + ", ".join(f"{count:,} {why}" for why, count in sorted(found.refused.items())) + ".")
        if sum(found.refused.values()) > found.reports:
            print("Most were dropped: were they made for this configuration, and with this seed?")
    if not found.forwarded:
        arrived = f"{counted(found.reports, 'report')} arrived"
        if found.smallest_row is not None:
            arrived = f"{arrived}, {found.smallest_row:,} of them about the smallest row"
        print(f"Held back: {arrived}, and {at_least:,} were planned with; wait for more.")
        raise typer.Exit(1)
    print(f"{counted(found.reports, 'report')} forwarded in random order, fingerprint {made.fingerprint()[:12]}.")
    if delta is not None:
        if hashed:
            print(f"Ids tell rows: the {found.smallest_row:,} reports of the smallest row hide each other alone.")
        print_central(made.shuffled(users=found.reports, delta=delta, fakes=fakes, smallest_row=found.smallest_row))
        print(BREAKS.format(fakes=fakes))
