"""A recommendation in words, every number rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsworth.guarantees import Guarantee, ceiling, epsilon_needed
from epsworth.mechanisms.family import LABEL_RESPONSE, is_tailored
from epsworth.mechanisms.promise import CHECKED, INPUTS
from epsworth.rounding import percent_down, percent_up, round_down, round_up, show_down, show_up
from epsworth.utility.attacker import attacker, protection, row
from epsworth.utility.choice import MAX_EPSILON, Choice, Limits, Scanned
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import MET, Curves

ROUNDED = 1e-9  # width of intervals that are exact but for rounding
SAMPLING = {"sampled", "strata", "rays"}


def verdict(scanned: Scanned) -> tuple[str, ...]:
    """Return the answer in at most six lines: what is kept, and what an attacker may learn."""
    if scanned.best is not None:
        return _yes(scanned, scanned.best)
    if scanned.closest is not None:
        return _no(scanned, scanned.closest)
    if scanned.beyond.closest is None:
        return ("No: every mechanism here has a larger delta than you accept.",)
    least = min(promise.epsilon for row in scanned.curves.guarantees for promise in row)
    return (
        f"No: nothing was asked about that protects so much ({_limit(scanned)}).",
        row("smallest asked about", f"epsilon {show_up(least)} per record"),
    )


def kept(curves: Curves | CurveParts) -> tuple[list[str], str]:
    """Say what curves keep within the epsilon that is accepted by default, and of whom that holds."""
    on: str | int = "average" if len(curves.labels) > 1 else 0
    asked = Scanned(curves, 1.0, on, "stability", Limits(epsilon=MAX_EPSILON), *curves.select(on, "stability"))
    asked = asked if asked.closest is not None else asked.beyond
    best = asked.closest
    assert best is not None  # every delta and every epsilon is accepted
    others = asked.others(best)
    most = "keeps most: " if len(curves.mechanisms) > 1 and not others else "keeps "
    lines = [
        f"At epsilon {show_up(best.epsilon)} per record {best.mechanism} {most}{_kept(asked, _at_least(best.lower))}.",
        row("attacker", attacker(best.guarantee)),
    ]
    if on == "average":
        at = curves.mechanisms.index(best.mechanism), int(np.flatnonzero(curves.epsilons == best.epsilon)[0])
        worst = curves.worst()
        lines.append(row("worst record", _between(float(worst.lower[at]), float(worst.upper[at]), "kept")))
    if others:
        lines.append(row("perhaps more", f"by {_some(others)}: the intervals leave it open"))
    return lines + _unproven(asked, best), certainty_of(asked)


def certainty_of(scanned: Scanned) -> str:
    """Say of whom the bounds hold, how closely and how surely: of the choice, or of what comes closest."""
    curves, count = scanned.curves, len(scanned.curves.labels)
    whom = "this record" if count == 1 else f"these {count:,} records"
    width, point = float((scanned.upper - scanned.lower).max()), scanned.best or scanned.closest
    early = "Stopped early: " if curves.stopped and width > 2 * curves.tolerance * MET else ""
    sure = "certain, " if curves.confidence == 1 else ""
    how = "exact" if width <= ROUNDED else f"{sure}±{percent_up(width / 2)} %"
    result = f"{early}{how} for {whom}"
    result = result[0].upper() + result[1:]
    if point is None or scanned.on != "average" or count == 1 or point.mechanism in curves.built_from:
        return f"{result}." if curves.confidence == 1 else f"{result} ({percent_down(curves.confidence, 4)} % sure)."
    lower, upper, sure = _among_people(scanned, point)
    return f"{result}; people like them: {percent_down(lower)} to {percent_up(upper)} % ({sure} % sure)."


def notes(scanned: Scanned) -> tuple[str, ...]:
    """Say what else one should know of the answer."""
    return tuple(_for(scanned, scanned.best) if scanned.best is not None else _against(scanned))


def _yes(scanned: Scanned, choice: Choice) -> tuple[str, ...]:
    lines = [
        f"Yes: {_point(choice)} keeps {_kept(scanned, _at_least(choice.lower, scanned.at_least))}.",
        row("attacker", attacker(choice.guarantee)),
    ]
    if choice.guarantee.notion != "pure":
        lines.append(row("promise", str(choice.guarantee)))
    if choice.mechanism == LABEL_RESPONSE:
        lines.append(row("where", "drawn where the model runs, such as a device that holds it: no policy"))
    lines += _unproven(scanned, choice)
    if not choice.holds_above:
        lines.append(row("careful", "not guaranteed at every larger epsilon: do not raise it blindly"))
    if (perhaps := scanned.perhaps) is not None:
        lines.append(row("left open", f"whether epsilon {show_up(perhaps[0])} is enough: {_some(perhaps[1], 1)}"))
    elif others := [name for name in scanned.undecided if name != choice.mechanism]:
        lines.append(row("perhaps as good", _some(others)))
    if choice.epsilon == scanned.curves.epsilons[0] and len(scanned.curves.epsilons) > 1:
        lines.append(row("smaller epsilons", "may be enough, too: none was asked about"))
    return tuple(lines)


def _no(scanned: Scanned, closest: Choice) -> tuple[str, ...]:
    refuted = all(scan.refuted.all() for scan in scanned.scans.values())
    how = "keeps" if refuted else "is sure to keep"
    wanted = f"{percent_down(scanned.at_least, 15)} %"
    lines = [
        f"No: nothing here {how} {_kept(scanned, wanted)} {_limit(scanned)}.",
        row("closest", f"{_point(closest)}: {_near(scanned, closest)}"),
        row("attacker", attacker(closest.guarantee)),
    ]
    if (best := scanned.beyond.best) is not None:
        lines.append(row("it would take", f"{_point(best)}: attacker {attacker(best.guarantee)}"))
    if not refuted:
        lines.append(row("left open", _open_in_short(scanned)))
    if made := _tailored(scanned):
        lines.append(row("made for this model", made))
    return tuple(lines)


def _some(names: Sequence[str], most: int = 3) -> str:
    """Name the first of some mechanisms, and say where there are more."""
    return f"{', '.join(names[:most])}{' and more' if len(names) > most else ''}"


def _point(choice: Choice) -> str:
    return f"{choice.mechanism} at epsilon {show_up(choice.epsilon)}"


def _limit(scanned: Scanned) -> str:
    """Say how much protection is wanted, and at which delta."""
    limits = scanned.limits
    delta = f" and delta <= {show_down(limits.delta)}" if 0 < limits.delta < 1 else ""
    return f"at epsilon <= {show_down(limits.epsilon)} per record{delta}"


def _kept(scanned: Scanned, percent: str) -> str:
    """Say what a share is of."""
    if scanned.on == "average":
        return f"{percent} of the labels{' right' if scanned.of == 'accuracy' else ''}"
    whose = "of the worst record" if scanned.on == "worst" else f"of record {scanned.on}"
    return f"the label {whose}{' right' if scanned.of == 'accuracy' else ''} with probability {percent}"


def _unproven(scanned: Scanned, choice: Choice) -> list[str]:
    """Say of a mechanism that somebody brought what its promise rests on."""
    if f"{choice.mechanism}: {CHECKED}" not in scanned.curves.notes:
        return []
    return [row("not proven", f"the promise of {choice.mechanism} is yours, checked at {INPUTS} inputs")]


def _near(scanned: Scanned, choice: Choice) -> str:
    """Say what is kept, and what may be, where that is far from known."""
    wide = choice.upper - choice.lower > 2 * scanned.curves.tolerance * MET
    return _between(choice.lower, choice.upper if wide else choice.lower, "kept" if scanned.limited else "right")


def _between(lower: float, upper: float, what: str) -> str:
    """Print bounds of what is kept, or one number where these are one."""
    if lower <= 0 and upper >= 1:
        return "not known yet"
    percent = _percent(lower) if upper - lower <= ROUNDED else f"{percent_down(lower)} to {percent_up(upper)} %"
    return f"{percent} {what}"


def _at_least(value: float, at_least: float = 0.0) -> str:
    return f"at least {_percent(value, at_least)}"


def _percent(value: float, at_least: float = 0.0) -> str:
    """Round down to tenths of a per cent, but never below what was asked for and is met."""
    met = value >= at_least
    digits = next(d for d in range(1, 20) if not met or round_down(value, d + 2) >= at_least)
    return f"{percent_down(value, digits)} %"


def _open_in_short(scanned: Scanned) -> str:
    still = [m for m, scan in scanned.scans.items() if not scan.refuted.all()]
    most = max(float(scanned.upper[m][~scanned.scans[m].refuted].max()) for m in still)
    names = _some([scanned.curves.mechanisms[m] for m in still])
    return f"{names}, up to {percent_up(most)} %: -v says what may decide it"


def _tailored(scanned: Scanned) -> str:
    """Name what is made for the classifier, which may keep more: a ceiling for every input does not bound averages."""
    curves = scanned.curves
    if scanned.labels < 2 or not scanned.limited or any(map(is_tailored, curves.mechanisms)) or curves.built_from:
        return ""
    return f"tailored at epsilon {show_down(scanned.limits.epsilon)} may keep more: epsworth tailor"


def _among_people(scanned: Scanned, point: Choice) -> tuple[float, float, str]:
    """Bound what a point keeps for the people whom the records were drawn from."""
    curves = scanned.curves
    result = curves.population(scanned.of, at=[int(np.flatnonzero(curves.epsilons == point.epsilon)[0])])
    lower, upper = (float(side[curves.mechanisms.index(point.mechanism), 0]) for side in (result.lower, result.upper))
    return lower, upper, percent_down(result.confidence, 4)


def subject_of(on: str | int, of: str) -> str:
    """Name what was asked for."""
    where = {"average": "on average over the records", "worst": "for the worst of these records"}
    return f"{of} {where[on] if isinstance(on, str) else f'of record {on}'}"


def _for(scanned: Scanned, choice: Choice) -> list[str]:
    """Say what the choice costs, and what no mechanism could beat."""
    lines = [f"{choice.words}."]
    if scanned.on == "average" and len(scanned.curves.labels) > 1:
        lines.append(_population(scanned, choice))
    if scanned.ceiling is not None and scanned.labels > 1:
        lines.append(_ceiling(scanned.ceiling, scanned.labels, choice.guarantee))
    lines.append(protection(choice.guarantee))
    return lines + [f"{note}." for note in scanned.curves.notes if note.startswith(f"{choice.mechanism}: ")]


def _population(scanned: Scanned, choice: Choice) -> str:
    """Say on which condition something follows for others than these records."""
    if choice.mechanism in scanned.curves.built_from:
        return (
            "That is known of these records alone, as they built it: make its policy by ew.tailor, which holds records "
            "out and says what others can expect."
        )
    return (
        "What is said of people like them holds if the rows are drawn independently of one another and of the "
        "classifier (none of them trained it)."
    )


def _against(scanned: Scanned) -> list[str]:
    """Say what could decide it, what no mechanism can beat, and what might be enough."""
    lines, closest = _left_open(scanned), scanned.closest
    if len(scanned.scans) < len(scanned.beyond.scans):
        names = [scanned.curves.mechanisms[m] for m in scanned.beyond.scans.keys() - scanned.scans.keys()]
        lines.append(f"Nothing was asked that protects so much of {', '.join(names)}.")
    if closest is not None and scanned.limited and scanned.labels > 1:
        lines += _limits(scanned, closest.guarantee)
    if closest is not None:
        lines.append(protection(closest.guarantee))
    if (best := scanned.beyond.best) is not None:
        lines.append(f"It would take {best.words}. {protection(best.guarantee)}")
    if closest is not None and _tailored(scanned):
        lines.append(
            "A tailored policy is for a service that must stay as it is, for several services, or where only some "
            "columns are sensitive; a device that can hold the model can answer itself, and send the label by label_rr."
        )
    return [*lines, "Fewer sensitive features, other mechanisms, or a lower share of labels may be enough."]


def _limits(scanned: Scanned, promise: Guarantee) -> list[str]:
    """Say what no mechanism of this kind can beat, and what it would take."""
    lines = [_ceiling(ceiling(promise.epsilon, scanned.labels, promise.delta), scanned.labels, promise)]
    delta = scanned.loosest if promise.delta else 0.0  # of a pure mechanism no delta is told
    needed = epsilon_needed(scanned.at_least, scanned.labels, delta)
    if math.isfinite(needed) and needed > 0:
        at = f" at delta {show_up(delta)}" if delta else " of a pure mechanism"
        lines.append(
            f"To promise {exactly(scanned.at_least)} to every input takes at least epsilon {round_down(needed):g} "
            f"per record{at}."
        )
    return lines


def _left_open(scanned: Scanned) -> list[str]:
    """Name the mechanisms that may be enough, and what could decide it."""
    reasons: dict[str, list[int]] = {}
    for m, scan in scanned.scans.items():
        if not scan.refuted.all():
            width = float((scanned.upper[m] - scanned.lower[m])[~scan.refuted].max())
            reasons.setdefault(_what_decides(scanned.curves, m, width, scanned.at_least), []).append(m)
    lines = []
    for what, result in reasons.items():
        most = round_up(float(max(scanned.upper[m][~scanned.scans[m].refuted].max() for m in result)))
        names = ", ".join(scanned.curves.mechanisms[m] for m in result)
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


def _ceiling(cap: float, labels: int, promise: Guarantee) -> str:
    delta, which = (f" and delta {show_up(promise.delta)}", "") if promise.delta else ("", " pure")
    where = f"at epsilon {show_up(promise.epsilon)}{delta} per record"
    if round_up(cap, 6) >= 1:
        return f"The ceiling is no obstacle: {where} it lies above 0.999999 ({labels} labels seen)."
    return (
        f"The ceiling is about *every* input, those that are not among these records too: {where} no{which} mechanism "
        f"can promise more than {round_up(cap, 6):g} to all of them ({labels} labels seen)."
    )
