"""Which noise of a ranked list to take, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from epsworth.noise.objective import EPSILON, Objective
from epsworth.rounding import show_down, show_up

UNTRIED = "was not tried: "  # how the reasons begin of noise of which nothing is known
ALIKE = 1.01  # an epsilon within one per cent of the least: then the smaller error decides
RULE = "Advised: the smallest error among the noises whose proven cost is within 1 % of the least."


class Ranked(Protocol):
    """What a row of the list tells."""

    @property
    def name(self) -> str:
        """Which noise."""

    @property
    def epsilon(self) -> float:
        """Its epsilon, for all releases together."""

    @property
    def delta(self) -> float:
        """Its delta."""

    @property
    def cost(self) -> float:
        """What was to be small."""

    @property
    def releases(self) -> int:
        """How many releases."""

    @property
    def rmse(self) -> float:
        """Root mean squared error of a release."""

    @property
    def sound(self) -> bool:
        """Whether epsilon is a bound."""


Row = TypeVar("Row", bound=Ranked)


def taken(rows: Sequence[Row]) -> Row | None:
    """Return the row that is advised: of those that cost the least, or 1 % more, the one that errs least."""
    best = cheapest_sound(rows)
    near = (row for row in rows if best is not None and row.sound and row.cost <= best.cost * ALIKE)
    return min(near, key=lambda row: row.rmse, default=None)


def cheapest_sound(rows: Sequence[Row]) -> Row | None:
    """Return the row that costs the least of those that are bounds."""
    return min((row for row in rows if row.sound), key=lambda row: row.cost, default=None)


def advice(
    rows: Sequence[Ranked], floor: float, left_out: Mapping[str, str], objective: Objective = EPSILON,
    kind: str = "noise whose density falls outwards",
) -> str:  # fmt: skip
    """Say in a sentence which to take and why; no noise of a kind is cheaper than ``floor``, 0 where none is known."""
    take, best = taken(rows), cheapest_sound(rows)
    if take is None or best is None:
        untried = {name: why.removeprefix(UNTRIED) for name, why in left_out.items() if why.startswith(UNTRIED)}
        if untried:
            told = (
                f"{', '.join(n for n in untried if untried[n] == why)}: {why}"
                for why in dict.fromkeys(untried.values())
            )
            return f"No noise that was tried keeps this constraint with this delta; not tried were {'; '.join(told)}."
        return "No noise keeps this constraint with this delta; allow a larger delta, or a wider region."
    words = f"Take {take.name}: {objective.said(take.cost)}"
    if objective == EPSILON:
        words += f" with delta {show_up(take.delta)}" if take.delta else " with delta 0"
    words += f" for {take.releases} releases together" if take.releases > 1 else ""
    words += f", root mean squared error {take.rmse:.4g}"
    if take is not best:
        words += f"; {best.name} costs {show_up(best.cost)}, but errs more ({best.rmse:.4g})"
    if floor > 0:
        words += f"; no {kind} costs less than {show_down(floor)}"
    return words + "."
