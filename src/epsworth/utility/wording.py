"""A recommendation in words, every number rounded to the safe side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from epsworth.guarantees import Guarantee, ceiling, epsilon_needed
from epsworth.rounding import round_down, round_up, show_down, show_up
from epsworth.search import Scan
from epsworth.utility.curves import Curves, Quantity, span

ROUNDED = 1e-9  # width of intervals that are exact but for rounding
SURE = 0.999999999  # beyond, an observer may as well be certain
SAMPLING = {"sampled", "strata", "rays"}


@dataclass(frozen=True)
class Choice:
    """One mechanism at the smallest grid epsilon that is guaranteed to meet the wish.

    Attributes
    ----------
    epsilon : float
        Per feature.
    guarantee : Guarantee
        Per record.
    lower, upper : float
        Bounds on what was wished for, at that epsilon.
    holds_above : bool
        Whether every larger epsilon of the grid is guaranteed to meet the wish, too.
    """

    mechanism: str
    epsilon: float
    guarantee: Guarantee
    lower: float
    upper: float
    holds_above: bool

    def __str__(self) -> str:
        """Return the choice as a sentence, rounded to the safe side."""
        above = "and at every larger epsilon of the grid" if self.holds_above else "but not at every larger epsilon"
        return f"{self.words}: at least {round_down(self.lower):g}, {above}"

    @property
    def words(self) -> str:
        """The mechanism and its promise."""
        return f"{self.mechanism} with epsilon {show_up(self.epsilon)} per feature ({self.guarantee})"


def subject_of(on: str | int, of: Quantity) -> str:
    """Name what was wished for."""
    where = {"average": "on average over the records", "worst": "for the worst of these records"}
    return f"{of} {where[on] if isinstance(on, str) else f'of record {on}'}"


def reason_for(
    curves: Curves,
    choice: Choice,
    undecided: tuple[int, ...],
    cap: float | None,
    labels: int,
    subject: str,
    at_least: float,
) -> str:
    """Say what to use, what it promises, what it costs and what no mechanism could beat."""
    above = "and at every larger epsilon of the grid" if choice.holds_above else "but not at every larger epsilon"
    lines = [
        f"Use {choice.words}.",
        f"The {subject} is at least {_shown(choice.lower, at_least)} there, {above}; the wish was {exactly(at_least)}.",
    ]
    if choice.epsilon == curves.epsilons[0]:
        lines.append("That is the smallest epsilon asked about: a smaller one may suffice, too.")
    others = [curves.mechanisms[m] for m in undecided if curves.mechanisms[m] != choice.mechanism]
    if others:
        lines.append(f"The intervals cannot tell it apart from {', '.join(others)}.")
    if not choice.holds_above:
        lines.append("The curve is not above the wish at every larger epsilon: do not raise epsilon blindly.")
    if cap is not None and labels > 1:
        lines.append(_ceiling(cap, labels, choice.guarantee))
    lines.append(protection(choice.guarantee))
    lines += [f"{note}." for note in curves.notes if note.startswith(f"{choice.mechanism}:")]
    return " ".join(lines)


def protection(promise: Guarantee) -> str:
    """Say what a promise protects, in an observer's chances, rounded up.

    Examples
    --------
    >>> from epsworth.guarantees import Pure
    >>> print(protection(Pure(2, "record")))
    Whoever held two values of a record equally likely is at most 88.07971 % sure of either after seeing one release.
    """
    likely = math.nextafter(1 / (1 + math.exp(-promise.epsilon)), 2)
    sure = min(1.0, likely + promise.delta * (1 - likely))
    whoever = f"Whoever held two values of a {promise.unit} equally likely"
    if sure >= SURE:
        return f"{whoever} may be certain of one after seeing one release: this protects next to nothing."
    percent = f"{show_up(100 * sure, 7)} %"
    if promise.notion == "pure":
        return f"{whoever} is at most {percent} sure of either after seeing one release."
    return f"{whoever} names the true one in at most {percent} of the cases after seeing one release."


def reason_against(
    curves: Curves,
    scans: dict[int, Scan],
    wish: str,
    at_least: float,
    lower: np.ndarray,
    upper: np.ndarray,
    delta: float,
    labels: int,
) -> str:
    """Say why nothing fits, and what might."""
    if not scans:
        return "No: every mechanism in these curves has a larger delta than you accept; add a pure one, or raise delta."
    admitted_only = "" if len(scans) == len(curves.mechanisms) else " with a delta that you accept"
    m, e = max(((m, int(np.argmax(lower[m]))) for m in scans), key=lambda point: float(lower[point]))
    lines = [
        f"No mechanism{admitted_only} is guaranteed to reach {wish} for {span(curves.epsilons)} per feature.",
        f"The best is {curves.mechanisms[m]} at epsilon {show_up(curves.epsilons[e])}: "
        f"at least {round_down(float(lower[m, e])):g}.",
    ]
    lines += _left_open(curves, scans, at_least, lower, upper)
    if labels > 1:
        promise = curves.guarantees[m][-1]
        lines.append(_ceiling(ceiling(promise.epsilon, labels, promise.delta), labels, promise))
        admitted = delta if promise.delta else 0.0  # of a pure mechanism no delta is told
        needed = epsilon_needed(at_least, labels, admitted)
        if math.isfinite(needed) and needed > 0:
            at = f" at delta {show_up(admitted)}" if admitted else " of a pure mechanism"
            lines.append(
                f"To promise {exactly(at_least)} to every input takes at least epsilon {round_down(needed):g} "
                f"per record{at}."
            )
    lines.append("Try larger epsilons, fewer sensitive features, other mechanisms, or a lower wish.")
    return " ".join(lines)


def _left_open(
    curves: Curves, scans: dict[int, Scan], at_least: float, lower: np.ndarray, upper: np.ndarray
) -> list[str]:
    """Name the mechanisms that may meet the wish, and what could decide it."""
    reasons: dict[str, list[int]] = {}
    for m, scan in scans.items():
        if not scan.refuted.all():
            width = float((upper[m] - lower[m])[~scan.refuted].max())
            reasons.setdefault(_what_decides(curves, m, width, at_least), []).append(m)
    lines = []
    for what, found in reasons.items():
        most = round_up(float(max(upper[m][~scans[m].refuted].max() for m in found)))
        names = ", ".join(curves.mechanisms[m] for m in found)
        lines.append(f"The intervals leave it open for {names} (up to {most:g}): {what}.")
    return lines


def _what_decides(curves: Curves, m: int, width: float, at_least: float) -> str:
    if width <= ROUNDED:
        return "only rounding does, which no tolerance removes"
    if at_least == 1 and set(curves.method[m]) & SAMPLING:
        return "no number of draws proves a probability of 1"
    if width > 2 * curves.tolerance * (1 + 1e-9):
        return "they are wider than the tolerance already, so a smaller one alone does not decide"
    return "a smaller tolerance may decide"


def exactly(wish: float) -> str:
    """Print a wish to its last digit."""
    return show_down(float(wish), 17)


def _shown(lower: float, wish: float) -> str:
    """Round down, but never below the wish that is met."""
    digits = next((d for d in range(3, 15) if round_down(lower, d) >= wish), 17)
    return show_down(round_down(lower, digits), 17)


def _ceiling(cap: float, labels: int, promise: Guarantee) -> str:
    delta, which = (f" and delta {show_up(promise.delta)}", "") if promise.delta else ("", " pure")
    where = f"at epsilon {show_up(promise.epsilon)}{delta} per record"
    if round_up(cap, 6) >= 1:
        return f"The ceiling is no obstacle: {where} it lies above 0.999999 ({labels} labels seen)."
    return (
        f"The ceiling is about *every* input, those that are not among these records too: {where} no{which} mechanism "
        f"can promise more than {round_up(cap, 6):g} to all of them ({labels} labels seen)."
    )
