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

from epsworth.guarantees import STRENGTH, ceiling, epsilon_needed
from epsworth.search import Scan
from epsworth.space import Domain, LeakWarning, unit_domain
from epsworth.utility.curves import Curves, Quantity
from epsworth.utility.wording import Choice, exactly, reason_against, reason_for, subject_of

if TYPE_CHECKING:
    from epsworth.release import Policy


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
    wish = f"{subject_of(on, of)} of {exactly(at_least)}"
    if best is None:
        kinds = labels if ceiling_applies else 1
        reason = reason_against(curves, scans, wish, float(at_least), lower, upper, loosest, kinds)
    else:
        reason = reason_for(curves, choices[best], undecided, cap, labels, subject_of(on, of), float(at_least))
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
