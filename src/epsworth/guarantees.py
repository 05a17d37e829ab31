"""Privacy promises as values: pure, approximate, probabilistic; composition; the ceiling on utility.

All promises are local: the neighbours are *any two values* of what is protected (one feature, or all
sensitive features of a record).  Sums are rounded up, never down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from epsworth.numerals import as_float, short, whole
from epsworth.rounding import down, float_above, show_up, sum_above, up

Unit = Literal["feature", "record"]
Notion = Literal["pure", "probabilistic", "approximate"]


@dataclass(frozen=True)
class Pure:
    """Epsilon-LDP: Pr[M(x) in A] <= e^epsilon Pr[M(x') in A] for all x, x' and every set A.

    Parameters
    ----------
    epsilon : float
        Largest loss.
    unit : {"feature", "record"}
        What is protected: `Policy.guarantee` and `compose` speak of records, mechanisms of one feature.

    Examples
    --------
    >>> from epsworth import Pure, compose
    >>> print(compose([Pure(1.0), Pure(0.5)]))  # two features of one record
    pure LDP, epsilon 1.5 per record
    """

    epsilon: float
    unit: Unit = "feature"

    notion: ClassVar[Notion] = "pure"
    delta: ClassVar[float] = 0.0

    def __str__(self) -> str:
        """Return the promise with its unit."""
        return f"pure LDP, epsilon {show_up(self.epsilon)} per {self.unit}"


@dataclass(frozen=True)
class Probabilistic:
    """Probabilistic (epsilon, delta)-LDP: the loss exceeds epsilon with probability at most delta.

    The paper of Zheng & Hu calls it PAC LDP (Def. 10).  It implies `Approximate` with the same numbers
    but, unlike that, it is *not* closed under post-processing (Meiser 2018).

    Parameters
    ----------
    epsilon, delta : float
        A loss, and how likely it is exceeded.
    unit : {"feature", "record"}
        What is protected.

    Examples
    --------
    >>> from epsworth import Probabilistic, compose
    >>> both = compose([Probabilistic(1.0, 0.1), Probabilistic(1.0, 0.1)])
    >>> both.epsilon, both.delta, both.unit
    (2.0, 0.19, 'record')
    """

    epsilon: float
    delta: float
    unit: Unit = "feature"

    notion: ClassVar[Notion] = "probabilistic"

    def __str__(self) -> str:
        """Return the promise with its unit."""
        return f"probabilistic LDP, epsilon {show_up(self.epsilon)}, delta {show_up(self.delta)} per {self.unit}"


@dataclass(frozen=True)
class Approximate:
    """(epsilon, delta)-LDP: Pr[M(x) in A] <= e^epsilon Pr[M(x') in A] + delta.

    Parameters
    ----------
    epsilon, delta : float
        The loss, and what the probabilities may differ by besides.
    unit : {"feature", "record"}
        What is protected.

    Examples
    --------
    >>> from epsworth import MECHANISMS, Approximate, Probabilistic, compose
    >>> print(MECHANISMS["gaussian"](2.0).guarantee)
    approximate LDP, epsilon 2, delta 0.00001 per feature
    >>> compose([Approximate(1.0, 0.1), Probabilistic(1.0, 0.1)]).notion  # the weaker one
    'approximate'
    """

    epsilon: float
    delta: float
    unit: Unit = "feature"

    notion: ClassVar[Notion] = "approximate"

    def __str__(self) -> str:
        """Return the promise with its unit."""
        return f"approximate LDP, epsilon {show_up(self.epsilon)}, delta {show_up(self.delta)} per {self.unit}"


Guarantee = Pure | Probabilistic | Approximate
STRENGTH: tuple[Notion, ...] = ("pure", "probabilistic", "approximate")  # each implies the next


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee per *record* when each sensitive feature is released independently.

    Epsilons add; deltas combine to 1 - prod(1 - delta_i), which holds for the approximate notion
    (Kairouz, Oh & Viswanath 2015, Theorem 3.5) and for the probabilistic one (independent bad events).
    The notion is the weakest among the parts.  Both numbers are rounded up.

    Parameters
    ----------
    parts : sequence of Pure, Probabilistic or Approximate
        One per feature.

    Raises
    ------
    ValueError
        Where there is nothing to compose.

    Examples
    --------
    >>> from epsworth import Approximate, compose
    >>> compose([Approximate(1.0, 0.1), Approximate(1.0, 0.1)])
    Approximate(epsilon=2.0, delta=0.19, unit='record')
    """
    if isinstance(parts, (tuple, list)) and not parts:
        raise ValueError("nothing to compose: give at least one guarantee")
    for part in parts if isinstance(parts, (tuple, list)) else [parts]:
        if not isinstance(part, Guarantee):
            raise TypeError(f"parts must be a list of Pure, Probabilistic or Approximate, got {short(part)} in it")
    epsilon = sum_above(p.epsilon for p in parts)
    delta = _either_from_above([p.delta for p in parts])
    notion = max((p.notion for p in parts), key=STRENGTH.index)
    if notion == "pure":
        return Pure(epsilon, "record")
    return (Probabilistic if notion == "probabilistic" else Approximate)(epsilon, delta, "record")


def weakness(promises: Sequence[Guarantee]) -> str:
    """Return the weakest notion and the largest delta, to stand behind a name; nothing where all are pure.

    Examples
    --------
    >>> weakness([Pure(1.0), Approximate(1.0, 0.25)])
    ' (approximate, δ 0.25)'
    """
    notion = max((promise.notion for promise in promises), key=STRENGTH.index)
    return "" if notion == "pure" else f" ({notion}, δ {show_up(max(promise.delta for promise in promises))})"


def promise_to_dict(promise: Guarantee) -> dict[str, float | str]:
    """Return a promise's JSON form."""
    return {"notion": promise.notion, "epsilon": promise.epsilon, "delta": promise.delta, "unit": promise.unit}


def promise_from_dict(entry: Mapping[str, Any]) -> Guarantee:
    """Read what `promise_to_dict` wrote."""
    epsilon, delta, unit = float(entry["epsilon"]), float(entry["delta"]), entry["unit"]
    if entry["notion"] not in STRENGTH:
        raise ValueError(f"unknown privacy notion {entry['notion']!r}")
    if not (0 <= epsilon < math.inf and 0 <= delta <= 1) or unit not in ("feature", "record"):
        raise ValueError("a promise has a finite epsilon of at least 0, a delta in [0, 1], per feature or record")
    if entry["notion"] == "pure":
        if delta:
            raise ValueError("a pure promise has no delta")
        return Pure(epsilon, unit)
    return (Probabilistic if entry["notion"] == "probabilistic" else Approximate)(epsilon, delta, unit)


def ceiling(epsilon_total: float, labels: int, delta: float = 0.0) -> float:
    """Return the best worst-case stability that *any* mechanism of this budget can reach.

    Claim: let inputs with ``labels`` different labels be possible for the same public features.  Every
    (epsilon_total, delta)-LDP mechanism keeps the label of at least one of them with probability at most
    (e^E + (K - 1) delta) / (e^E + K - 1).  K-ary randomised response on the label attains it at delta = 0.

    Parameters
    ----------
    epsilon_total : float
        Budget of the whole record, summed over its sensitive features.
    labels : int
        K, how many labels the sensitive features can produce.
    delta : float
        Total delta of the record.

    Raises
    ------
    ValueError
        For an epsilon that is negative or infinite, and a delta outside [0, 1].

    Examples
    --------
    >>> from epsworth import ceiling
    >>> round(ceiling(1.0, 2), 12)  # rounded up, as all that is said of every mechanism
    0.73105857863

    Notes
    -----
    Label sets A_1..A_K are disjoint, so 1 >= P_1(A_1) + sum_j e^-E (P_j(A_j) - delta)
    >= rho + (K - 1) e^-E (rho - delta); solve for rho = min_j P_j(A_j).
    """
    if not 0 <= as_float(epsilon_total) < math.inf:
        raise ValueError(f"epsilon_total must be finite and not negative, got {short(epsilon_total)}")
    if not 0 <= as_float(delta) <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {short(delta)}")
    others = (whole("labels", labels) - 1) * math.exp(-epsilon_total)
    # others errs by three roundings (one of exp, which libraries keep within a unit), each sum by that and its own:
    # nine with the quotient's, and a rounding is a unit at most
    return min(1.0, up((1 + others * delta) / (1 + others), ulps=9))


def epsilon_needed(at_least: float, labels: int, delta: float = 0.0) -> float:
    """Return the whole-record epsilon below which the `ceiling` forbids this worst-case stability, rounded down.

    It is infinite where no ceiling reaches so much, and 0 with one label.

    Parameters
    ----------
    at_least : float
        The stability wanted, in (0, 1].
    labels : int
        K, how many labels the sensitive features can produce.
    delta : float
        Total delta of the record.

    Raises
    ------
    ValueError
        For what is no number.

    Examples
    --------
    >>> from epsworth import epsilon_needed
    >>> round(epsilon_needed(0.9, 2), 4)  # ln(.9/.1)
    2.1972
    """
    for field, value in {"at_least": at_least, "delta": delta}.items():
        if math.isnan(as_float(value)):
            raise ValueError(f"{field} must be a number, got {short(value)}")
    if whole("labels", labels, least=0) < 2 or at_least <= delta:
        return 0.0
    if at_least >= 1:
        return math.inf
    odds = down((labels - 1) * (at_least - delta) / (1 - at_least), ulps=4)  # four roundings
    return max(0.0, down(math.log(odds), ulps=2))  # its library errs by a unit


def _either_from_above(deltas: Sequence[float]) -> float:
    """Return 1 - prod(1 - delta), rounded up; deltas are read as the decimals that they print as."""
    if not any(deltas):
        return 0.0
    return float_above(1 - math.prod((1 - Fraction(str(delta)) for delta in deltas), start=Fraction(1)))
