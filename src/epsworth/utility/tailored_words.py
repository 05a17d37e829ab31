"""What is said of a tailored policy: lists of columns cut short, lines that fit a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epsworth.release.tailoring import Tailoring
from epsworth.rounding import percent_down, percent_up, round_up, show_down, show_up
from epsworth.tailoring.building import EXACT, Plan
from epsworth.utility.wording import attacker, row

if TYPE_CHECKING:
    from epsworth.utility.tailored import Tailored

UNSEEN = "what is said of a population holds if none of these records made the policy"
SHOWN = 4  # columns that are named; of more, the first ones


def few(names: Sequence[str]) -> str:
    """Name the first of many columns.

    Examples
    --------
    >>> few(["age", "bmi"]), few(["a", "b", "c", "d", "e", "f"])
    ('age, bmi', 'a, b, c, d, ... (6 columns)')
    """
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names)} columns)"


def verdict(made: Tailored) -> tuple[str, ...]:
    """Say in a few lines what a policy keeps, what an attacker may learn, and what is in it."""
    names = few(made.policy.names)
    keeps = f"keeps {percent_down(made.kept)} % of the labels" if made.records else "keeps nobody knows how many labels"
    kind = made.copied if made.copied == EXACT else f"learnt ({made.copied})"
    return (
        f"Tailored at epsilon {show_up(float(made.policy.total))} for {names}: {keeps}.",
        row("attacker", attacker(made.policy.guarantee)),
        row("best possible", f"{percent_up(made.ceiling)} % for every label, by any mechanism at this epsilon"),
        row("copy of the model", f"{kind}, {made.size:,} bytes{agreed(made.records, made.agreement)}"),
    )


def certainty(made: Tailored) -> str:
    """Say of whom that holds, and how surely."""
    if not made.records:
        return "No record was held out (--holdout 0), so how often labels stay is not known."
    low, high = made.held_out
    sure = show_down(100 * made.confidence)
    return (
        f"On {made.records:,} held-out records; people like them: {percent_down(low)} to {percent_up(high)} % "
        f"({sure} % sure)."
    )


def agreed(records: int, agreement: float) -> str:
    """Say how often a copy is right."""
    return f", right on {percent_down(agreement)} % of held-out records" if records else ""


def notes_of(plan: Plan, tailoring: Tailoring, constant: float, reached: int) -> tuple[str, ...]:
    """Say what clients run, what the policy tells, and where it does not help."""
    names = few(tailoring.names)
    notes = [
        "clients run this policy before they ask (epsworth perturb, ew.Perturb); the service stays as it is",
        f"what is sent in {names} stands for a region of the classifier and says little beyond its label: each value "
        "alone means nothing",
        f"the policy holds {'the classifier itself' if plan.copied == EXACT else 'a copy of the classifier'}: whoever "
        "reads it can ask it anything, and look for ways around it or for what it was fitted on",
        "records unlike the public ones are as private, but may keep their labels less often",
    ]
    if plan.copied != EXACT:
        notes.append(
            "at a large epsilon what is kept tends to the copy's agreement, where mechanisms per feature tend to 1"
        )
    if not tailoring.hidden.all():
        notes.append("epsilon says nothing of what the columns that are sent as they are tell of the others")
    if plan.prior is not None:
        notes.append(
            f"for {round_up(100 * constant, 1):g} % of the held-out records what is sent does not depend on what is "
            "sensitive at all: the public columns decide"
        )
    if reached < len(set(plan.labels)):
        notes.append(
            f"{len(set(plan.labels)) - reached} of {len(set(plan.labels))} labels have no record that stands for them"
        )
    return tuple(notes)
