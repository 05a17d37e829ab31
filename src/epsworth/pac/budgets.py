"""What a user may ask for: nats, a posterior, a posterior of single records, or a DP-like average success."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from epsworth.numerals import short
from epsworth.pac.conversion import budget, dp_posterior, number
from epsworth.rounding import show_up


def _number(name: str, value: object, *, up: bool = False) -> float:
    """Return a float, by a rounding that asks for no less than was asked for."""
    nearest, exact = number(name, value), cast(Any, value)
    if up:
        return math.nextafter(nearest, math.inf) if nearest < exact else nearest
    return math.nextafter(nearest, -math.inf) if nearest > exact else nearest


@dataclass(frozen=True)
class MI:
    """At most this much mutual information, in nats, between the secret subset and the release.

    Parameters
    ----------
    mi : float
        Nats, positive.

    Examples
    --------
    >>> from epsworth.pac import MI
    >>> MI(1 / 16).mi
    0.0625
    """

    mi: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mi", _number("MI: the budget", self.mi))
        if not (self.mi > 0 and math.isfinite(self.mi)):
            raise ValueError(f"MI: the budget must be positive and finite (nats), got {short(self.mi)}")

    def __str__(self) -> str:
        """Return the budget with its unit."""
        return f"MI {show_up(self.mi)} nats"


@dataclass(frozen=True)
class Posterior:
    """No inference task of blind success ``prior`` succeeds more often than ``q``.

    Examples
    --------
    >>> from epsworth.pac import Posterior
    >>> round(Posterior(0.675, prior=0.5).mi, 3)
    0.063
    """

    q: float
    prior: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", _number("Posterior: q", self.q))
        object.__setattr__(self, "prior", _number("Posterior: prior", self.prior))
        if not (0 < self.prior < self.q < 1):
            raise ValueError(f"Posterior: need 0 < prior < q < 1, got q = {self.q!r} and prior = {self.prior!r}")

    @property
    def mi(self) -> float:
        """The same promise in nats."""
        return budget(self.q, self.prior)

    def __str__(self) -> str:
        """Return the promise in words."""
        return f"posterior {show_up(self.q)} at prior {show_up(self.prior)} (MI {show_up(self.mi)} nats)"


@dataclass(frozen=True)
class DPEquivalent:
    """The average membership success of an epsilon-DP release at prior 1/2.  Not differential privacy.

    Examples
    --------
    >>> from epsworth.pac import DPEquivalent
    >>> round(DPEquivalent(0.3563).mi, 4)
    0.0156
    """

    epsilon: float

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "epsilon", _number("DPEquivalent: epsilon", epsilon))
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"DPEquivalent: epsilon must be positive and finite, got {short(epsilon)}")

    @property
    def mi(self) -> float:
        """The mutual information with that average success."""
        return budget(dp_posterior(self.epsilon), 0.5)

    def __str__(self) -> str:
        """Return the promise in words."""
        return f"average success of {show_up(self.epsilon)}-DP (MI {show_up(self.mi)} nats)"


@dataclass(frozen=True)
class RecordPosterior:
    """No single record's membership is inferred with success above ``q``, nor surely for more than a few records.

    From a finite list of worlds with 99 % confidence over the simulation; in the mode ``estimated`` an estimate.

    Parameters
    ----------
    q : float
        Success at one record's membership, in (0.5, 1).
    joint : MI, Posterior or DPEquivalent
        What the release may tell in all.  The promise for single records says nothing about questions that concern
        several: those keep only this cap, but for every row and its nearest ones ("is one of the two in", "are both",
        "are most of these four", "of these eight"), which are held to the nats of ``q``, too.  Above ln 2 = 0.69 nats
        the cap allows certainty about an even question.
    fpr, tpr : float
        No attack that raises false alarms in a share ``fpr`` of the releases from worlds without a record finds it in
        more than ``tpr`` of those from worlds with it.  Without ``tpr``: twice what a Gaussian test of success ``q``
        finds.
    near : float, optional
        Rows whose columns all differ by at most this much go in or out together, as identical rows always do: with
        near-duplicates apart, "is such a row in" is a question about several records.

    Examples
    --------
    >>> from epsworth.pac import MI, RecordPosterior
    >>> str(RecordPosterior(0.6, joint=MI(0.5)))
    'posterior 0.6 for every single record, MI 0.5 nats in all'
    """

    q: float
    joint: MI | Posterior | DPEquivalent = MI(0.5)
    fpr: float = 0.001
    tpr: float | None = None
    near: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", _number("RecordPosterior: q", self.q))
        if not 0.5 < self.q < 1:
            raise ValueError(f"RecordPosterior: q must lie strictly between 0.5 and 1, got {short(self.q)}")
        if not isinstance(self.joint, (MI, Posterior, DPEquivalent)):
            raise TypeError(
                f"RecordPosterior: joint must be MI(..), Posterior(..) or DPEquivalent(..), got {short(self.joint)}"
            )
        object.__setattr__(self, "fpr", _number("RecordPosterior: fpr", self.fpr))
        if not 0 < self.fpr < 1:
            raise ValueError(f"RecordPosterior: fpr must lie strictly between 0 and 1, got {short(self.fpr)}")
        if self.tpr is not None:
            object.__setattr__(self, "tpr", _number("RecordPosterior: tpr", self.tpr))
            if not self.fpr < self.tpr <= 1:
                raise ValueError(f"RecordPosterior: tpr must lie above fpr and at most at 1, got {short(self.tpr)}")
        if self.near is None:
            return
        object.__setattr__(self, "near", _number("RecordPosterior: near", self.near, up=True))
        if not (self.near > 0 and math.isfinite(self.near)):
            raise ValueError(f"RecordPosterior: near must be positive and finite, or None, got {short(self.near)}")

    def __str__(self) -> str:
        """Return the promise in words."""
        apart = "" if self.near is None else f", rows within {self.near:g} as one"
        return f"posterior {show_up(self.q)} for every single record{apart}, MI {show_up(self.joint.mi)} nats in all"


Budget = MI | Posterior | RecordPosterior | DPEquivalent


def as_budget(given: object) -> Budget:
    """Return a budget; a bare number is refused, because nats and epsilons look alike."""
    if isinstance(given, (MI, Posterior, RecordPosterior, DPEquivalent)):
        return given
    raise TypeError(
        f"budget must be MI(..), Posterior(..), RecordPosterior(..) or DPEquivalent(..), got {short(given)}; "
        "for nats write MI(1/16)"
    )


def nats_of(budget: object) -> float:
    """Return the nats of a budget that speaks of nothing else."""
    found = as_budget(budget)
    if isinstance(found, RecordPosterior):
        raise ValueError("budgets here are in nats (MI, Posterior, DPEquivalent); fit RecordPosterior alone")
    return found.mi
