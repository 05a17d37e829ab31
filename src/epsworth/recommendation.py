"""From a wish to a choice: the smallest epsilon on the grid whose guarantee meets it - or a reasoned no.

Nothing here assumes that curves rise with epsilon; they need not (a clipped or piecewise mechanism can
lose stability as epsilon grows), so the grid is scanned, never bisected.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.curves import Curves, Quantity
from epsworth.guarantees import STRENGTH, Guarantee, ceiling, epsilon_needed
from epsworth.rounding import round_down, round_up, show_down, show_up
from epsworth.search import Scan
from epsworth.space import Domain, LeakWarning, unit_domain

if TYPE_CHECKING:
    from epsworth.release import Policy


ROUNDED = 1e-9  # width of intervals that are exact but for rounding
SURE = 0.999999999  # beyond, an observer may as well be certain
SAMPLING = {"monte-carlo", "shared-samples", "exit-scales"}


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


@dataclass(frozen=True)
class Recommendation:
    """What to choose, why, what it costs, what no mechanism could beat - or why nothing fits.

    Attributes
    ----------
    feasible : bool
        Whether some mechanism is guaranteed to meet the wish on the grid.
    choice : Choice or None
        The recommended mechanism: smallest total epsilon, then the highest guarantee.
    choices : tuple of Choice
        Every mechanism that meets the wish, each at its smallest sufficient epsilon.
    undecided : tuple of str
        Mechanisms that the intervals cannot tell apart from the choice (itself included).
    ceiling : float or None
        Best worst-case stability that any mechanism of the choice's whole-record budget can reach over
        inputs that differ in the sensitive features only; None without a choice, and for accuracy.
    labels : int
        K in that ceiling: labels seen while one record's sensitive features varied.
    epsilon_needed : float
        Whole-record epsilon below which no mechanism, at the largest delta admitted, can guarantee a
        stability as wished for to *every* input (K labels); 0 for accuracy.
    reason : str
        The answer in words.
    features : tuple of str
        What the choice perturbs, each at its epsilon.
    """

    at_least: float
    on: str | int
    of: Quantity
    feasible: bool
    choice: Choice | None
    choices: tuple[Choice, ...]
    undecided: tuple[str, ...]
    ceiling: float | None
    labels: int
    epsilon_needed: float
    confidence: float
    reason: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason

    def policy(self, domain: Domain | None = None) -> Policy:
        """Return what clients must run to get what was chosen.

        Parameters
        ----------
        domain : Domain, optional
            Public ranges of the features; without it they lie on [0, 1].

        Raises
        ------
        ValueError
            Where nothing was chosen, or the chosen mechanism has no exact sampler.
        """
        from epsworth.release import Policy

        if self.choice is None:
            raise ValueError("there is nothing to write into a policy: no mechanism meets the wish")
        declared = domain or unit_domain(self.features)
        features = Domain(tuple(declared[name] for name in self.features))
        return Policy.of(self.choice.mechanism, self.choice.epsilon, features)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "at_least": self.at_least,
            "on": self.on,
            "of": self.of,
            "feasible": self.feasible,
            "choice": None if self.choice is None else _choice_to_dict(self.choice),
            "choices": [_choice_to_dict(choice) for choice in self.choices],
            "undecided": list(self.undecided),
            "ceiling": self.ceiling,
            "labels": self.labels,
            "epsilon_needed_per_record": self.epsilon_needed if math.isfinite(self.epsilon_needed) else None,
            "confidence": self.confidence,
            "reason": self.reason,
        }


def recommend(
    curves: Curves,
    *,
    at_least: float,
    on: str | int = "average",
    of: Quantity = "stability",
    delta: float | None = None,
) -> Recommendation:
    """Choose the mechanism that meets a wish at the smallest epsilon.

    Claim: with the confidence of the curves, the recommended mechanism keeps ``of`` at or above
    ``at_least`` for the average, the worst case or the record asked for.

    Parameters
    ----------
    curves : Curves
        From `stability`.
    at_least : float
        The wish, in (0, 1].
    on : {"average", "worst"} or int
        Over the records of the curves, or one record.  Choosing for one *private* record leaks: the
        choice depends on it (`LeakWarning`).
    of : {"stability", "accuracy"}
        What the wish is about.
    delta : float, optional
        The largest total delta to accept per record; 0 admits pure mechanisms only.  By default all are
        admitted, but a weaker privacy notion is chosen only where no stronger one meets the wish.

    Returns
    -------
    Recommendation
        ``feasible`` is False, with the reason, when nothing on the grid is guaranteed.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm", "krr"],
    ...                       epsilons=[1, 2, 4], rng=1)
    >>> ew.recommend(curves, at_least=0.9, on="worst").choice.mechanism
    'pm'
    """
    if not curves.sound:
        raise ValueError("these curves are a heuristic (method='paper'), not a guarantee; recommend on method='auto'")
    if not 0 < at_least <= 1:
        raise ValueError(f"at_least must lie in (0, 1], got {at_least!r}")
    if delta is not None and not 0 <= delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    lower, upper = curves.select(on, of)
    if not isinstance(on, str):
        on = int(on)
        warnings.warn(
            "a choice made for one record depends on that record and so reveals something about it; "
            "choose on public records or on aggregates",
            LeakWarning,
            stacklevel=2,
        )
    deltas = np.array([[promise.delta for promise in row] for row in curves.guarantees])
    admitted = deltas <= (1.0 if delta is None else delta)
    scans = {
        m: Scan(met=admitted[m] & (lower[m] >= at_least), refuted=~admitted[m] | (upper[m] < at_least))
        for m in range(len(curves.mechanisms))
        if admitted[m].any()
    }
    choices = {m: _choice(curves, m, scan, lower[m], upper[m]) for m, scan in scans.items() if scan.met.any()}
    best = _best(choices)
    ceiling_applies = of == "stability"  # it bounds how often labels of the classifier survive, not how often y is met
    labels = int(curves.labels_possible.max() if isinstance(on, str) else curves.labels_possible[on])
    loosest = float(deltas[admitted].max(initial=0.0))
    needed = epsilon_needed(at_least, labels, loosest) if ceiling_applies else 0.0
    cap = None
    if best is not None and ceiling_applies:
        promise = choices[best].guarantee
        cap = ceiling(promise.epsilon, labels, promise.delta)
    undecided = () if best is None else _undecided(curves, scans, best, choices[best], upper)
    wish = f"{_subject(on, of)} of {_exact(at_least)}"
    if best is None:
        kinds = labels if ceiling_applies else 1
        reason = _no(curves, scans, wish, float(at_least), lower, upper, loosest, kinds)
    else:
        reason = _yes(curves, choices[best], undecided, cap, labels, _subject(on, of), float(at_least))
    return Recommendation(
        at_least=float(at_least),
        on=on,
        of=of,
        feasible=best is not None,
        choice=None if best is None else choices[best],
        choices=tuple(sorted(choices.values(), key=lambda c: (c.guarantee.epsilon, -c.lower))),
        undecided=tuple(curves.mechanisms[m] for m in undecided),
        ceiling=cap,
        labels=labels,
        epsilon_needed=needed,
        confidence=curves.confidence,
        reason=reason,
        features=curves.features,
    )


def _choice(curves: Curves, m: int, scan: Scan, lower: np.ndarray, upper: np.ndarray) -> Choice:
    e = scan.first_met
    assert e is not None
    return Choice(
        curves.mechanisms[m],
        float(curves.epsilons[e]),
        curves.guarantees[m][e],
        float(lower[e]),
        float(upper[e]),
        scan.holds_above,
    )


def _best(choices: dict[int, Choice]) -> int | None:
    """Strongest privacy notion first, then the smallest total budget, then the highest guarantee."""

    def order(m: int) -> tuple[int, float, float, float]:
        promise = choices[m].guarantee
        return STRENGTH.index(promise.notion), promise.epsilon, promise.delta, -choices[m].lower

    return min(choices, key=order, default=None)


def _undecided(curves: Curves, scans: dict[int, Scan], best: int, choice: Choice, upper: np.ndarray) -> tuple[int, ...]:
    """Return who may be as good: possibly enough at a smaller total epsilon, or as high at the same one.

    Only promises of the choice's privacy notion and delta are compared, by the total epsilon of the record.
    """
    rivals = []
    for m, scan in scans.items():
        for e in np.flatnonzero(~scan.refuted):
            promise = curves.guarantees[m][e]
            alike = (promise.notion, promise.delta) == (choice.guarantee.notion, choice.guarantee.delta)
            smaller = promise.epsilon < choice.guarantee.epsilon
            equal = promise.epsilon == choice.guarantee.epsilon and upper[m, e] >= choice.lower
            if m == best or (alike and (smaller or equal)):
                rivals.append(m)
                break
    return tuple(rivals)


def _subject(on: str | int, of: Quantity) -> str:
    where = {"average": "on average over the records", "worst": "for the worst of these records"}
    return f"{of} {where[on] if isinstance(on, str) else f'of record {on}'}"


def _yes(
    curves: Curves,
    choice: Choice,
    undecided: tuple[int, ...],
    cap: float | None,
    labels: int,
    subject: str,
    at_least: float,
) -> str:
    above = "and at every larger epsilon of the grid" if choice.holds_above else "but not at every larger epsilon"
    lines = [
        f"Use {choice.words}.",
        f"The {subject} is at least {_shown(choice.lower, at_least)} there, {above}; the wish was {_exact(at_least)}.",
    ]
    if choice.epsilon == curves.epsilons[0]:
        lines.append("That is the smallest epsilon asked about: a smaller one may suffice, too.")
    others = [curves.mechanisms[m] for m in undecided if curves.mechanisms[m] != choice.mechanism]
    if others:
        lines.append(f"The intervals cannot tell it apart from {', '.join(others)}.")
    if not choice.holds_above:
        lines.append("The curve is not above the wish at every larger epsilon: do not raise epsilon blindly.")
    if cap is not None and labels > 1:
        lines.append(_ceiling(cap, labels, choice.guarantee.epsilon))
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


def _no(
    curves: Curves,
    scans: dict[int, Scan],
    wish: str,
    at_least: float,
    lower: np.ndarray,
    upper: np.ndarray,
    delta: float,
    labels: int,
) -> str:
    if not scans:
        return "No: every mechanism in these curves has a larger delta than you accept; add a pure one, or raise delta."
    m, e = max(((m, int(np.argmax(lower[m]))) for m in scans), key=lambda point: float(lower[point]))
    lines = [
        f"No mechanism is guaranteed to reach {wish} for epsilon "
        f"{show_up(curves.epsilons[0])} to {show_up(curves.epsilons[-1])} per feature.",
        f"The best is {curves.mechanisms[m]} at epsilon {show_up(curves.epsilons[e])}: "
        f"at least {round_down(float(lower[m, e])):g}.",
    ]
    lines += _left_open(curves, scans, at_least, lower, upper)
    if labels > 1:
        promise = curves.guarantees[m][-1]
        lines.append(_ceiling(ceiling(promise.epsilon, labels, promise.delta), labels, promise.epsilon))
        admitted = delta if promise.delta else 0.0  # of a pure mechanism no delta is told
        needed = epsilon_needed(at_least, labels, admitted)
        if math.isfinite(needed) and needed > 0:
            at = f" at delta {show_up(admitted)}" if admitted else ""
            lines.append(
                f"To promise {_exact(at_least)} to every input takes at least epsilon {round_down(needed):g} "
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


def _exact(wish: float) -> str:
    return show_down(float(wish), 17)


def _shown(lower: float, wish: float) -> str:
    """Round down, but never below the wish that is met."""
    digits = next((d for d in range(3, 15) if round_down(lower, d) >= wish), 17)
    return show_down(round_down(lower, digits), 17)


def _ceiling(cap: float, labels: int, total: float) -> str:
    where = f"at epsilon {show_up(total)} per record"
    if round_up(cap, 6) >= 1:
        return f"The ceiling is no obstacle: {where} it lies above 0.999999 ({labels} labels seen)."
    return (
        f"The ceiling is about *every* input, those that are not among these records too: {where} no mechanism can "
        f"promise more than {round_up(cap, 6):g} to all of them ({labels} labels seen)."
    )


def _choice_to_dict(choice: Choice) -> dict[str, Any]:
    promise = choice.guarantee
    return {
        "mechanism": choice.mechanism,
        "epsilon_per_feature": choice.epsilon,
        "epsilon_per_record": promise.epsilon,
        "delta_per_record": promise.delta,
        "notion": promise.notion,
        "lower": choice.lower,
        "upper": choice.upper,
        "holds_above": choice.holds_above,
    }
