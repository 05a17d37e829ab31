"""What the learner's reports are worth behind a shuffler: which bound, and how many reports hide each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from epsworth.guarantees import Central, Shuffled, local_epsilon, shuffled
from epsworth.learner.mechanism import Mechanism, Symbols
from epsworth.numerals import whole
from epsworth.rounding import show_down

if TYPE_CHECKING:
    from epsworth.guarantees import Pure

DIGITS = 6  # of a local epsilon that is planned with, rounded down: as it is printed


class Law(NamedTuple):
    """Which bound holds for a mechanism's reports: its name for `shuffled`, and its symbols or classes."""

    mechanism: Shuffled
    symbols: int | None = None


def law_of(kernel: Mechanism) -> Law:
    """Return which law the reports of a mechanism follow; "any" where no smaller bound is proven."""
    if kernel.name == "krr" and isinstance(kernel, Symbols):
        return Law("krr", kernel.symbols)
    if kernel.name == "hadamard" and kernel.classes > 2:
        return Law("hadamard", kernel.classes)
    if kernel.name == "oue":
        return Law("oue")
    return Law("ternary") if kernel.name == "ternary" else Law("any")


def hiding(rows: str, users: int, smallest_row: int | None) -> int:
    """Return how many reports hide each other: all, or those of the smallest row, which whoever knows an id knows."""
    if rows == "hash":
        if smallest_row is None:
            raise ValueError(
                "smallest_row is missing: with rows='hash' ids tell rows, and only reports of one row hide each other; "
                "give how many honest reports the smallest row has, or let clients draw their rows"
            )
        return whole("smallest_row", smallest_row, least=0, most=whole("users", users))
    if smallest_row is not None:
        raise ValueError("smallest_row is for rows='hash'; clients draw their rows here, and all reports count")
    return users


def shuffled_reports(
    promise: Pure, law: Law, *, rows: str, users: int, delta: float, fakes: int, smallest_row: int | None
) -> Central:
    """Return what a batch of such reports keeps behind a shuffler."""
    count = hiding(rows, users, smallest_row)
    return shuffled(promise, users=count, delta=delta, mechanism=law.mechanism, symbols=law.symbols, fakes=fakes)


def planned_epsilon(central_epsilon: float, *, users: int, delta: float, law: Law, fakes: int) -> tuple[float, Central]:
    """Return a local epsilon, as short as it is printed, that keeps the central one, and what it keeps."""
    given = {"users": users, "delta": delta, "mechanism": law.mechanism, "symbols": law.symbols, "fakes": fakes}
    found = local_epsilon(central_epsilon, **given)  # type: ignore[arg-type]
    short = float(show_down(found, DIGITS))
    return short, shuffled(short, **given)  # type: ignore[arg-type]
