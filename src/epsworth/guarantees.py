"""Privacy promises as values: pure, approximate, probabilistic; composition; the ceiling on utility; shuffling.

These promises are local: the neighbours are *any two values* of what is protected (one feature, or all
sensitive features of a record).  Sums are rounded up, never down.  `Central` is another thing: what a local promise is
worth to whoever sees only shuffled reports.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from epsworth.documents import in_words, read_json
from epsworth.files import reading
from epsworth.numerals import as_float, positive, short, whole
from epsworth.results import Result
from epsworth.rounding import down, float_above, show_down, show_up, sum_above, up

Unit = Literal["feature", "record"]
Notion = Literal["pure", "probabilistic", "approximate"]
Shuffled = Literal["any", "krr", "oue", "ternary", "hadamard"]  # mechanisms that `shuffled` has bounds for
MOST_CENTRAL = 60.0  # a central epsilon that says anything lies below
MOST_REPORTS = 1 << 53  # in a batch: so many doubles count


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
        if isinstance(part, Central):
            raise TypeError("parts must be local promises, got a Central one; use its rounds(k) for several batches")
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


@dataclass(frozen=True)
class Central(Result):
    """Central (epsilon, delta)-DP behind a trusted shuffler: what a local epsilon is worth to who sees only a batch.

    Claim: let ``users - fakes`` honest people send one report each of one mechanism that keeps ``local_epsilon``,
    independently of each other, and let a shuffler drop names and order.  Whoever sees nothing but the shuffled batch
    learns at most (epsilon, delta) about any record, even with all other records known.  Neighbours *replace* one
    record.  Against the shuffler, or without one, only the local epsilon holds.  It is not a local promise, and
    `compose` refuses it.

    Attributes
    ----------
    epsilon, delta : float
        Of the batch, or of all batches together.
    users : int
        Reports of a batch that *arrived*, not those expected: the shuffler must hold back a smaller batch.
    local_epsilon : float
        Of one report.
    mechanism, symbols : str, int or None
        The mechanism whose law was used, and how many symbols (krr) or classes (hadamard) it has.
    fakes : int
        So many reports of a batch may be fakes or known: they hide nobody.
    bound : {"any", "law"}
        Whether the number holds for every mechanism of this local epsilon, or rests on the law of this one.
    batches : int
        With one report of everybody in each.

    Examples
    --------
    >>> from epsworth import shuffled
    >>> print(shuffled(1.0, users=10_000, delta=1e-6))
    central, behind a trusted shuffler: epsilon 0.0432062, delta 0.000001, for whoever sees only a shuffled batch of \
10,000 honest reports of epsilon 1 each; against the shuffler, or without one: epsilon 1.
    """

    epsilon: float
    delta: float
    users: int
    local_epsilon: float
    mechanism: Shuffled = "any"
    fakes: int = 0
    symbols: int | None = None
    bound: Literal["any", "law"] = "any"
    batches: int = 1

    neighbours: ClassVar[str] = "one record replaced"
    trust: ClassVar[str] = "a shuffler that is another party than whoever sees the batch; against it only local_epsilon"

    def __str__(self) -> str:
        """Return the promise with whom it is against, and what holds otherwise."""
        reports = f"{self.users - self.fakes:,} honest reports of epsilon {show_up(self.local_epsilon)} each"
        seen = f"a shuffled batch of {reports}" if self.batches == 1 else (
            f"{self.batches:,} shuffled batches of {reports}, one of everybody in each batch"
        )  # fmt: skip
        alone = float_above(Fraction(self.local_epsilon) * self.batches)
        return (
            f"central, behind a trusted shuffler: epsilon {show_up(self.epsilon)}, delta {show_up(self.delta)}, for "
            f"whoever sees only {seen}; against the shuffler, or without one: epsilon {show_up(alone)}."
        )

    @cached_property
    def lower_bound(self) -> float | None:
        """A central epsilon that no analysis of all such mechanisms gets below; None where none is known.

        There are records on which one batch of such reports tells as much, at the same delta.
        """
        from epsworth.shuffling.floors import floor_of

        honest = self.users - self.fakes
        return floor_of(honest, self.local_epsilon, self.delta, self.mechanism, self.symbols, self.epsilon)

    @property
    def tightness(self) -> str:
        """Say in a sentence what no analysis gets below; nothing where that is not known."""
        if not self.lower_bound:
            return ""
        return f"No analysis of all such mechanisms gets below {show_down(self.lower_bound)}."

    def rounds(self, k: int) -> Central:
        """Return what ``k`` such batches keep together, with a report of everybody in each.

        Later questions may depend on what earlier batches told.  A report that is repeated unchanged is a pseudonym,
        and no round of its own: nothing is promised of it.  Delta stays; it is that of all batches together.

        Examples
        --------
        >>> from epsworth import shuffled
        >>> round(shuffled(1.0, users=100_000, delta=1e-6).rounds(4).epsilon, 4)
        0.0264
        """
        from epsworth.shuffling.blankets import epsilon_of
        from epsworth.shuffling.rounds import MOST_ROUNDS, epsilon_of_rounds

        if self.batches != 1:
            raise ValueError(f"rounds is of one batch, this promise is of {self.batches:,}; begin with one")
        if whole("k", k, most=MOST_ROUNDS) == 1:
            return self
        honest, local = self.users - self.fakes, self.local_epsilon
        each, own = epsilon_of(honest, local, self.delta / k, self.mechanism, self.symbols)
        summed = float_above(Fraction(each) * k)
        found = epsilon_of_rounds(honest, local, self.delta, k, summed)
        bound: Literal["any", "law"] = "law" if own and found == summed else "any"
        return replace(self, epsilon=found, bound=bound, batches=k)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        found = super().to_dict()
        return found | {"lower_bound": self.lower_bound, "adjacency": self.neighbours, "trust": self.trust}

    @classmethod
    def load(cls, path: str | Path) -> Central:
        """Read a JSON file that `save` wrote."""
        with reading(path, "central promise") as content:
            document = read_json(content)
            try:
                found = cls(**{one.name: document[one.name] for one in fields(cls)})
            except (TypeError, KeyError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)})") from None
            _honest(found.users, found.delta, found.mechanism, found.symbols, found.fakes)
            whole("batches", found.batches)
            most = found.batches * positive("local_epsilon", found.local_epsilon) * (1 + 1e-12)  # rounded up
            if not 0 <= as_float(found.epsilon) <= most:
                raise ValueError(
                    f"epsilon must lie from 0 to that of all local reports, got {short(found.epsilon)}; save it again"
                )
            return found


def shuffled(
    local: Pure | float,
    *,
    users: int,
    delta: float,
    mechanism: Shuffled = "any",
    symbols: int | None = None,
    fakes: int = 0,
) -> Central:
    """Return what a local epsilon is worth behind an anonymising shuffler.

    Claim: see `Central`.  The bound for any mechanism needs nothing but the local epsilon; that of a mechanism whose
    law is known is never larger.

    Parameters
    ----------
    local : Pure or float
        What one report keeps.
    users : int
        Reports in the batch, fakes included, one of everybody.  If a client's id tells which row its report is about,
        or anything in clear tells groups apart, it is the number of reports of the smallest group.
    delta : float
        Strictly between 0 and 1, well below 1 / users: shuffling amplifies no pure guarantee.
    mechanism : {"any", "krr", "oue", "ternary", "hadamard"}
        "any" holds for all; the others are those of `learner.MECHANISMS`.
    symbols : int, optional
        krr: how many symbols it chooses from; hadamard: how many classes, two unless said.
    fakes : int
        How many reports may be fakes, or of people who tell the adversary what they sent.

    Raises
    ------
    TypeError
        For a promise that is not pure: no bound is known for it.
    ValueError
        For numbers out of their ranges, an unknown mechanism, and krr without symbols.

    Examples
    --------
    >>> from epsworth import Pure, shuffled
    >>> round(shuffled(Pure(1.0, "record"), users=10_000, delta=1e-6).epsilon, 4)
    0.0432
    >>> round(shuffled(1.0, users=10_000, delta=1e-6, mechanism="krr", symbols=64).epsilon, 4)
    0.0091

    References
    ----------
    Feldman, McMillan & Talwar 2023 (any); Balle, Bell, Gascon & Nissim 2019, Su, Cheng & Wang 2025 (laws).
    """
    from epsworth.shuffling.blankets import epsilon_of

    if isinstance(local, (Approximate, Probabilistic, Central)):
        raise TypeError(
            f"local must be a Pure promise or its epsilon, got {type(local).__name__}; no bound is known for others"
        )
    if isinstance(local, Iterable) and not isinstance(local, str):
        raise ValueError(
            "local must be positive and finite, one for all reports: make a batch of each; where krr of the same "
            "symbols, or hadamard of two classes, has several in one batch, its largest one stands for all"
        )
    epsilon = positive("local", local.epsilon if isinstance(local, Pure) else local)
    honest = _honest(users, delta, mechanism, symbols, fakes)
    found, own = epsilon_of(honest, epsilon, float(delta), mechanism, symbols)
    bound: Literal["any", "law"] = "law" if own else "any"
    return Central(found, float(delta), int(users), epsilon, mechanism, int(fakes), symbols, bound)


def local_epsilon(
    epsilon: float,
    *,
    delta: float,
    users: int,
    mechanism: Shuffled = "any",
    symbols: int | None = None,
    fakes: int = 0,
) -> float:
    """Return the local epsilon that suffices for a central one behind a shuffler, rounded down.

    Claim: `shuffled` of what is returned has no larger an epsilon than was asked for; it is within 1e-5 of the largest
    local epsilon for any mechanism, never below ``epsilon`` itself, and 60 at most.

    Parameters
    ----------
    epsilon, delta : float
        Central, of the shuffled batch.
    users, mechanism, symbols, fakes
        As for `shuffled`.

    Raises
    ------
    ValueError
        As for `shuffled`, and for a central epsilon of 60 or more.

    Examples
    --------
    >>> from epsworth import local_epsilon
    >>> round(local_epsilon(0.25, delta=1e-6, users=100_000), 3)
    5.352
    """
    from epsworth.shuffling.blankets import local_epsilon_of

    if positive("epsilon", epsilon) >= MOST_CENTRAL:
        raise ValueError(f"epsilon must be below {MOST_CENTRAL:g}, got {short(epsilon)}; it would promise nothing")
    honest = _honest(users, delta, mechanism, symbols, fakes)
    return local_epsilon_of(honest, float(epsilon), float(delta), mechanism, symbols)


def _honest(users: int, delta: float, mechanism: str, symbols: int | None, fakes: int) -> int:
    """Return how many reports hide each other; refuse what no bound is known for."""
    if (whole("users", users, least=0, most=MOST_REPORTS)) < 2:
        raise ValueError(f"users must be at least 2, got {short(users)}: one report hides among none")
    if whole("fakes", fakes, least=0) >= users - 1:
        raise ValueError(
            f"fakes must be below {users - 1:,}, got {fakes:,} of {users:,} users: one report hides among none"
        )
    if delta is None or as_float(delta) == 0:
        raise ValueError(
            f"delta must lie strictly between 0 and 1, got {short(delta)}: shuffling amplifies no pure guarantee; "
            "name a delta well below 1 / users"
        )
    if not 0 < as_float(delta) < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {short(delta)}; take one well below 1 / users")
    if delta * users >= 1:
        warnings.warn(
            f"delta {delta:g} is at least 1 / users: {delta * users:,.0f} of {users:,} records may be published; take "
            "a smaller delta",
            UserWarning, stacklevel=3,
        )  # fmt: skip
    if not isinstance(mechanism, str) or mechanism not in get_args(Shuffled):
        raise ValueError(f"mechanism must be one of {', '.join(get_args(Shuffled))}, got {short(mechanism)}")
    if mechanism == "krr" and symbols is None:
        raise ValueError("symbols is missing: the bound of krr depends on how many symbols it chooses from; give them")
    if symbols is not None:
        whole("symbols", symbols, least=2)
        if mechanism not in ("krr", "hadamard"):
            raise ValueError(f"symbols is for krr, and for the classes of hadamard, not for {mechanism}; leave it out")
    return int(users) - int(fakes)
