"""A recommendation in words, every number rounded to the safe side."""

from __future__ import annotations

import math

import numpy as np

from epsworth.guarantees import Guarantee, ceiling, epsilon_needed
from epsworth.results import how_sure
from epsworth.rounding import round_down, round_up, show_down, show_up, up
from epsworth.utility.choice import Choice, Scanned
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import MET, Curves
from epsworth.utility.views import span

ROUNDED = 1e-9  # width of intervals that are exact but for rounding
SURE = 0.999999999  # beyond, an observer may as well be certain
SAMPLING = {"sampled", "strata", "rays"}


def reason(asked: Scanned) -> str:
    """Say what to use and what it promises - or why nothing fits, and what might."""
    if asked.best is not None:
        return " ".join(_for(asked, asked.best))
    if not asked.scans and asked.beyond.scans:
        most = show_up(asked.most)
        return f"No: every epsilon in these curves is above {most} per record; ask about smaller ones."
    if not asked.scans:
        return "No: every mechanism in these curves has a larger delta than you accept; add a pure one, or raise delta."
    return " ".join(_against(asked))


def subject_of(on: str | int, of: str) -> str:
    """Name what was asked for."""
    where = {"average": "on average over the records", "worst": "for the worst of these records"}
    return f"{of} {where[on] if isinstance(on, str) else f'of record {on}'}"


def _for(asked: Scanned, choice: Choice) -> list[str]:
    """Say what to use, what it promises, what it costs and what no mechanism could beat."""
    lines = [
        f"Use {choice.words}.",
        f"The {subject_of(asked.on, asked.of)} is at least {_shown(choice.lower, asked.at_least)} there, "
        f"{choice.above}; the least wanted was {exactly(asked.at_least)}.",
    ]
    if asked.on == "average" and len(asked.curves.labels) > 1:
        lines.append(_population(asked, choice))
    if choice.epsilon == asked.curves.epsilons[0] and len(asked.curves.epsilons) > 1:
        lines.append("That is the smallest epsilon asked about: a smaller one may suffice, too.")
    if others := [name for name in asked.undecided if name != choice.mechanism]:
        lines.append(f"The intervals cannot tell it apart from {', '.join(others)}.")
    if not choice.holds_above:
        lines.append("It is not guaranteed at every larger epsilon: do not raise epsilon blindly.")
    if asked.ceiling is not None and asked.labels > 1:
        lines.append(_ceiling(asked.ceiling, asked.labels, choice.guarantee))
    lines.append(protection(choice.guarantee))
    return lines + [f"{note}." for note in asked.curves.notes if note.startswith(f"{choice.mechanism}: ")]


def _population(asked: Scanned, choice: Choice) -> str:
    """Say what the choice does for others than these records."""
    curves = asked.curves
    if choice.mechanism in curves.built_from:
        return (
            "That is known of these records alone, as they built it: make its policy by ew.tailor, which holds records "
            "out and says what others can expect."
        )
    found = curves.population(asked.of, at=[int(np.flatnonzero(curves.epsilons == choice.epsilon)[0])])
    lower, upper = (side[curves.mechanisms.index(choice.mechanism), 0] for side in (found.lower, found.upper))
    return (
        f"For people like those in the table (if its {found.records} rows are drawn independently of one another and "
        f"of the classifier) it lies between {round_down(float(lower)):g} and {round_up(float(upper)):g}, "
        f"{how_sure(found.confidence)}."
    )


def protection(promise: Guarantee) -> str:
    """Say what a promise protects, in an observer's chances, rounded up.

    Examples
    --------
    >>> from epsworth.guarantees import Pure
    >>> print(protection(Pure(2, "record")))
    Whoever held two values of a record equally likely is at most 88.07971 % sure of either after seeing one release.
    """
    sure = ceiling(promise.epsilon, 2, promise.delta)  # of two values, as of two labels
    whoever = f"Whoever held two values of a {promise.unit} equally likely"
    if sure >= SURE:
        return f"{whoever} may be certain of one after seeing one release: this protects next to nothing."
    percent = f"{show_up(up(100 * sure), 7)} %"
    if promise.notion == "pure":
        return f"{whoever} is at most {percent} sure of either after seeing one release."
    return f"{whoever} names the true one in at most {percent} of the cases after seeing one release."


def _against(asked: Scanned) -> list[str]:
    """Say why nothing fits, and what might."""
    curves = asked.curves
    admitted_only = "" if len(asked.scans) == len(curves.mechanisms) else " with a delta that you accept"
    lower = np.where(np.isfinite(asked.deltas), asked.lower, -1.0)
    m, e = max(((m, int(lower[m].argmax())) for m in asked.scans), key=lambda point: float(lower[point]))
    last = int(np.flatnonzero(np.isfinite(asked.deltas[m]))[-1])
    lines = [
        f"No mechanism{admitted_only} is guaranteed to reach {subject_of(asked.on, asked.of)} of "
        f"{exactly(asked.at_least)} for {span(curves.epsilons[curves.epsilons <= asked.most])} per record.",
        f"The best is {curves.mechanisms[m]} at epsilon {show_up(curves.epsilons[e])}: "
        f"at least {round_down(float(asked.lower[m, e])):g}.",
        *_left_open(asked),
        *_beyond(asked),
    ]
    if asked.limited and asked.labels > 1:
        lines += _limits(asked, curves.guarantees[m][last])
    return [*lines, "Try larger epsilons, fewer sensitive features, other mechanisms, or a lower stability."]


def _beyond(asked: Scanned) -> list[str]:
    """Say what it would take, where that protects too little."""
    best = asked.beyond.best
    if best is None or asked.beyond is asked:
        return []
    kept = _shown(best.lower, asked.at_least)
    return [f"It takes {best.words}, which keeps at least {kept}. {protection(best.guarantee)}"]


def _limits(asked: Scanned, promise: Guarantee) -> list[str]:
    """Say what no mechanism of this kind can beat, and what it would take."""
    lines = [_ceiling(ceiling(promise.epsilon, asked.labels, promise.delta), asked.labels, promise)]
    delta = asked.loosest if promise.delta else 0.0  # of a pure mechanism no delta is told
    needed = epsilon_needed(asked.at_least, asked.labels, delta)
    if math.isfinite(needed) and needed > 0:
        at = f" at delta {show_up(delta)}" if delta else " of a pure mechanism"
        lines.append(
            f"To promise {exactly(asked.at_least)} to every input takes at least epsilon {round_down(needed):g} "
            f"per record{at}."
        )
    return lines


def _left_open(asked: Scanned) -> list[str]:
    """Name the mechanisms that may be enough, and what could decide it."""
    reasons: dict[str, list[int]] = {}
    for m, scan in asked.scans.items():
        if not scan.refuted.all():
            width = float((asked.upper[m] - asked.lower[m])[~scan.refuted].max())
            reasons.setdefault(_what_decides(asked.curves, m, width, asked.at_least), []).append(m)
    lines = []
    for what, found in reasons.items():
        most = round_up(float(max(asked.upper[m][~asked.scans[m].refuted].max() for m in found)))
        names = ", ".join(asked.curves.mechanisms[m] for m in found)
        lines.append(f"The intervals leave it open for {names} (up to {most:g}): {what}.")
    return lines


def _what_decides(curves: Curves | CurveParts, m: int, width: float, at_least: float) -> str:
    if width <= ROUNDED:
        return "only rounding does, which no tolerance removes"
    if at_least == 1 and set(curves.method[m]) & SAMPLING:
        return "no number of draws proves a probability of 1"
    if width > 2 * curves.tolerance * MET:
        return "they are wider than the tolerance already, so a smaller one alone does not decide"
    return "a smaller tolerance may decide"


def exactly(at_least: float) -> str:
    """Print what was asked for to its last digit."""
    return show_down(float(at_least), 17)


def _shown(lower: float, at_least: float) -> str:
    """Round down, but never below what was asked for and is met."""
    digits = next((d for d in range(3, 15) if round_down(lower, d) >= at_least), 17)
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
