"""What is said of a tailored policy: lists of columns cut short, lines that fit a screen."""

from __future__ import annotations

from collections.abc import Sequence

from epsworth.release.tailoring import Tailoring
from epsworth.rounding import percent_down, round_up
from epsworth.tailoring.building import EXACT, Plan

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
