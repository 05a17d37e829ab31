"""The smallest epsilon on the grid that is guaranteed to keep a stability - or a reasoned no."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from epsworth.numerals import as_float, short
from epsworth.results import Result
from epsworth.rounding import show_up
from epsworth.space import Domain, LeakWarning, Ranges, as_domain, unit_domain
from epsworth.utility.choice import Choice, Limits, Scanned
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import Curves, Quantity
from epsworth.utility.figures import draw_spans
from epsworth.utility.policies import NAME as POLICY
from epsworth.utility.wording import certainty_of, notes, subject_of, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epsworth.policy import Policy


@dataclass(frozen=True)
class Recommendation(Result):
    """What to choose, why, what it costs, what no mechanism could beat - or why nothing fits.

    Attributes
    ----------
    feasible : bool
        Whether some mechanism is guaranteed to be enough somewhere on the grid.
    choice : Choice or None
        The recommended mechanism: smallest total epsilon, then the highest guarantee.
    choices : tuple of Choice
        Every mechanism that is enough, each at its smallest sufficient epsilon.
    undecided : tuple of str
        Mechanisms that the intervals cannot tell apart from the choice (itself included).
    ceiling : float or None
        Best worst-case stability that any mechanism of the choice's whole-record budget can reach over
        inputs that differ in the sensitive features only; None without a choice, and for accuracy.
    labels : int
        K in that ceiling: labels seen while one record's sensitive features varied.
    epsilon_needed : float
        Whole-record epsilon below which no mechanism, at the largest delta admitted, can guarantee such a
        stability to *every* input (K labels); 0 for accuracy.
    closest : Choice or None
        What is guaranteed to keep most among what is accepted, enough or not.
    beyond : Choice or None
        Without a choice: what would be enough at a larger epsilon than is accepted.
    delta, max_epsilon, at_most_sure
        What was accepted, as it was asked for; ``max_epsilon`` is the largest epsilon per record in any case.
    verdict : tuple of str
        The answer in at most six lines.
    certainty : str
        Of whom it holds, and how surely.
    notes : tuple of str
        What else one should know: of every larger epsilon, of every input, of an attacker, of the mechanism.
    features : tuple of str
        What the choice perturbs, each at its epsilon.
    passing : tuple of str
        Columns that the classifier is known to read besides: its policy lets them pass.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm", "krr"],
    ...                       epsilons=[1, 2, 4], rng=1)
    >>> found = ew.recommend(curves, at_least=0.9, on="worst")
    >>> found.choice.mechanism, found.choice.epsilon, round(found.epsilon_needed, 4)
    ('pm', 4.0, 2.1972)
    >>> ew.recommend(curves, at_least=0.999, on="worst").feasible
    False
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
    closest: Choice | None
    beyond: Choice | None
    delta: float | None
    max_epsilon: float
    at_most_sure: float | None
    verdict: tuple[str, ...]
    certainty: str
    notes: tuple[str, ...]
    features: tuple[str, ...]
    passing: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the verdict, and of whom it holds."""
        return "\n".join((*self.verdict, self.certainty))

    @property
    def asked(self) -> dict[str, Any]:
        """What `recommend` was asked for, by the names of its parameters."""
        limit = {"max_epsilon": self.max_epsilon} if self.at_most_sure is None else {"at_most_sure": self.at_most_sure}
        return {"at_least": self.at_least, "on": self.on, "of": self.of, "delta": self.delta, **limit}

    @cached_property
    def limits(self) -> Limits:
        """What was accepted."""
        most = self.max_epsilon if self.at_most_sure is None else None
        return Limits.of_wish(self.delta, most, self.at_most_sure)

    def policy(self, domain: Ranges | None = None, *, passing: Sequence[str] | None = None) -> Policy:
        """Return what clients must run to get what was chosen; see `as_released` for what that changes.

        Parameters
        ----------
        domain : Domain, mapping or path, optional
            Public ranges of the features; without it they lie on [0, 1].
        passing : sequence of str, optional
            Columns that are sent as they are; by default those that the classifier is known to read.

        Raises
        ------
        ValueError
            Where nothing was chosen, or the chosen mechanism has no exact sampler.
        """
        from epsworth.policy import Policy

        if self.choice is None:
            raise ValueError("there is nothing to write into a policy: no mechanism is enough")
        if self.choice.tailored:
            raise ValueError(
                f"a tailored policy of {', '.join(self.features)} at epsilon {show_up(self.choice.guarantee.epsilon)} "
                "is made with its classifier: ew.tailor, or epsworth tailor, writes it"
            )
        if self.choice.mechanism == POLICY:
            raise ValueError("these curves are about a policy, which clients can run as it is")
        declared = unit_domain(self.features) if domain is None else as_domain(domain)
        features = Domain(tuple(declared[name] for name in self.features))
        columns = self.passing if passing is None else passing
        return Policy.of(self.choice.mechanism, self.choice.epsilon, features, passing=columns)

    @property
    def as_released(self) -> str:
        """What a policy changes about the answer, and how to get the number of what clients release."""
        if self.choice is not None and self.choice.tailored:
            return (
                "Clients draw from the very integers that were analysed, under a policy that ew.tailor or epsworth "
                "tailor writes; it holds records out, so that it may be built otherwise than this one was."
            )
        return (
            "Clients draw from integers on a public grid, which differs a little from the law that was analysed (below "
            ".003 in any probability up to epsilon 8 per feature). For the number of what they release ask "
            "stability_of_policy(policy, model, X), or epsworth utility --policy."
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what each choice is guaranteed and could reach, beside ``at_least``; return the axes."""
        names = [f"{c.mechanism}, {show_up(c.guarantee.epsilon)} per record" for c in self.choices]
        ends = ([getattr(choice, side) for choice in self.choices] for side in ("lower", "upper"))
        axes = draw_spans(ax, names, *ends, mark=self.at_least, what=f"{self.of}, guaranteed to possible")
        axes.set_title(subject_of(self.on, self.of), fontsize=10, loc="left")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        result = super().to_dict()
        return result | {"epsilon_needed_per_record": result.pop("epsilon_needed")}


def recommend(
    curves: Curves | CurveParts,
    *,
    at_least: float,
    on: str | int = "average",
    of: Quantity = "stability",
    delta: float | None = None,
    max_epsilon: float | None = None,
    at_most_sure: float | None = None,
) -> Recommendation:
    """Choose the mechanism that is guaranteed to be enough at the smallest epsilon, and that protects enough.

    Claim: with the confidence of the curves, the recommended mechanism keeps ``of`` at or above
    ``at_least`` for the average, the worst case or the record asked for, at an epsilon of the record of at most
    ``max_epsilon``.

    Parameters
    ----------
    curves : Curves or CurveParts
        From `stability`.
    at_least : float
        The least stability (or accuracy) wanted, in (0, 1].
    on : {"average", "worst"} or int
        Over the records of the curves, or one record.  Choosing for one *private* record leaks: the
        choice depends on it (`LeakWarning`).
    of : {"stability", "accuracy"}
        What is to be kept.
    delta : float, optional
        The largest total delta to accept per record; 0 admits pure mechanisms only.  By default all are
        admitted, but a weaker privacy notion is chosen only where no stronger one is enough.
    max_epsilon : float, optional
        The largest epsilon per record to accept, by default 4: whoever held two values of a record equally likely is
        then at most 98.3 % sure of either afterwards.  What larger ones would keep is told as ``beyond``.
    at_most_sure : float, optional
        The same as the largest certainty to accept, between .5 and 1, in place of ``max_epsilon``.

    Returns
    -------
    Recommendation
        ``feasible`` is False when nothing on the grid is guaranteed to keep and to protect enough.

    Raises
    ------
    ValueError
        For a target outside (0, 1], and an average, record or quantity that the curves do not have.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm", "krr"],
    ...                       epsilons=[1, 2, 4], rng=1)
    >>> ew.recommend(curves, at_least=0.9, on="worst").choice.mechanism
    'pm'
    """
    if not isinstance(curves, (Curves, CurveParts)):
        raise TypeError(f"curves must be what stability returns, got a {type(curves).__name__}")
    if not 0 < as_float(at_least) <= 1:
        raise ValueError(f"at_least must lie in (0, 1], got {short(at_least)}")
    limits = Limits.of_wish(delta, max_epsilon, at_most_sure)
    bounds = curves.select(on, of)
    if not isinstance(on, str):
        on = int(on)
        warnings.warn(
            "a choice made for one record depends on that record and so reveals something about it; "
            "choose on public records or on aggregates",
            LeakWarning,
            stacklevel=2,
        )
    asked = Scanned(curves, float(at_least), on, of, limits, *bounds)
    return Recommendation(
        at_least=asked.at_least,
        on=on,
        of=of,
        feasible=asked.best is not None,
        choice=asked.best,
        closest=asked.closest,
        beyond=asked.beyond.best if asked.best is None else None,
        delta=delta,
        max_epsilon=limits.epsilon,
        at_most_sure=at_most_sure,
        choices=tuple(sorted(asked.choices.values(), key=lambda choice: (choice.guarantee.epsilon, -choice.lower))),
        undecided=asked.undecided,
        ceiling=asked.ceiling,
        labels=asked.labels,
        epsilon_needed=asked.epsilon_needed,
        confidence=curves.confidence,
        verdict=verdict(asked),
        certainty=certainty_of(asked),
        notes=notes(asked),
        features=curves.features,
        passing=curves.passing,
    )
