"""What ``convert --shuffle`` and ``learn plan --shuffled`` share: shuffled reports, asked about and told."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsworth.guarantees import Central

NO_DELTA = "--delta is missing: shuffling amplifies no pure guarantee; name one well below one over the reports"


@dataclass(frozen=True)
class Asked:
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
        from epsworth.learner.amplification import Law, planned_epsilon

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
            return planned_epsilon(self.central_epsilon, law=law, **given)[1]
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
