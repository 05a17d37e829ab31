"""What a run asks for and what it costs, in whole numbers of 1e-12 that are rounded against whoever spends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import EXACT, counted, exact_decimal, plain, short, truth, whole
from epsworth.policy.ledger.ids import Hashes, check_person
from epsworth.policy.ledger.people import RowCounts, Sums
from epsworth.rounding import show_up

PLACES = 12
ONE = 10**PLACES
LARGEST = 2**62  # of an amount, and of a person's sums: they are added in 64 bits
MOST = 2**63 - 1  # rows of a person
TOO_MUCH = "a person would lose more than 4,600,000, which is no promise; lower epsilon, or the rows of a person"
State = Literal["new", "resumed", "done"]
Amount = str | float | Decimal  # as it is stated: a text is exact


class Amounts(NamedTuple):
    """Epsilon and delta."""

    epsilon: int
    delta: int

    def plus(self, other: Amounts) -> Amounts:
        """Return both sums."""
        return Amounts(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, rows: int) -> Amounts:
        """Return what so many rows cost."""
        return Amounts(self.epsilon * rows, self.delta * rows)


class Lost(NamedTuple):
    """What a person lost in all runs, and whether some run named it: all others lost what everybody did."""

    epsilon: Decimal
    delta: Decimal
    named: bool


@dataclass(frozen=True)
class RunTerms:
    """What whoever starts a run states for it, checked before a ledger is opened.

    Attributes
    ----------
    person : str or None
        The column that says whose a row is; None charges everybody for all rows.
    cap, delta_cap : number, text or None
        What no person may exceed.  Column and caps are fixed once they are stated; None means what is fixed.
    most : int or None
        The most rows that a person has, where the user states it.
    again : bool
        Allow records to leave a second time.
    """

    person: str | None = None
    cap: Amount | None = None
    delta_cap: Amount | None = None
    most: int | None = None
    again: bool = False

    def __post_init__(self) -> None:
        check_person(self.person)
        for name in ("cap", "delta_cap"):
            if (value := getattr(self, name)) is not None:
                amount_below(name, value)
        if self.most is not None:
            object.__setattr__(self, "most", whole("max_rows_per_person", self.most))
        truth("again", self.again)

    @property
    def counts(self) -> RowCounts | None:
        """Fresh counts of people's rows; None where nobody is named."""
        return None if self.person is None else RowCounts(most=self.most)


@dataclass(frozen=True)
class ChargeRequest:
    """What a run costs, what the ledger is to hold it to, and the words in which a repeat of it is refused.

    Attributes
    ----------
    policy : str
        The fingerprint of what clients run.
    epsilon, delta : Fraction
        Per row.
    rows : int
        Of the whole input.
    terms : RunTerms
    left, where, advice : str
        Words: these records *left* 2 times *under this policy*; *another run ..*
    """

    policy: str
    epsilon: Fraction
    delta: Fraction
    rows: int
    terms: RunTerms = RunTerms()
    left: str = "left"
    where: str = "under this policy"
    advice: str = "another run adds as much per record: use the output you have, or say again=True"


@dataclass(frozen=True)
class Identity:
    """What makes two runs the same: the text of the derivation, the keyed digest of the input, the absolute path."""

    policy: str
    digest: bytes
    target: str


@dataclass(frozen=True)
class Run:
    """A run that is charged.

    Its draws are derived from ``key``, which is None once it is done, and ``sha256`` is then its output's.  Other runs
    of the same records under the same policy are ``times_before``.  With this run a person of it lost
    ``epsilon_so_far`` at most; where nobody is named, each of these very records did.
    """

    id: bytes
    key: bytes | None = field(repr=False)
    state: State
    sha256: str | None
    times_before: int
    epsilon_so_far: Fraction
    delta_so_far: Fraction

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run cannot be pickled: whoever has its key knows its draws")


@dataclass(frozen=True)
class Record:
    """What the ledger tells about a run: ``most`` rows are what a person is charged for at most."""

    policy: str
    rows: int | None
    epsilon: Decimal
    delta: Decimal
    most: int
    person: str | None
    state: str
    day: str


@dataclass(frozen=True)
class LedgerConfig:
    """What a ledger fixes once it is stated: the column of people, and the caps as amounts."""

    person: str | None = None
    cap: int | None = None
    delta_cap: int | None = None

    def agreed(self, request: ChargeRequest) -> LedgerConfig:
        """Return what is fixed from now on; what differs from what was fixed is refused."""
        amounts = {
            name: amount_below(name, value)
            for name, value in {"cap": request.terms.cap, "delta_cap": request.terms.delta_cap}.items()
            if value is not None
        }
        stated: dict[str, str | int] = amounts | (
            {} if request.terms.person is None else {"person": request.terms.person}
        )
        for name, value in stated.items():
            before = getattr(self, name)
            if before not in (None, value):
                shown = repr(before) if name == "person" else decimal_of(before)
                raise ValueError(f"this ledger holds every run to {name} {shown}; take that, or another ledger=")
        return replace(self, **stated)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class RunCost:
    """What a row of a run costs, how many there are, and whose they are."""

    price: Amounts
    rows: int
    most: int
    people: Hashes | None = None
    counts: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, request: ChargeRequest, counts: RowCounts | None) -> RunCost:
        """Round a price up, and look at the people."""
        price = Amounts(amount_above("epsilon", request.epsilon), amount_above("delta", request.delta))
        rows, stated = whole("rows", request.rows, least=0), request.terms.most
        limit = rows if stated is None else whole("max_rows_per_person", stated, most=MOST)
        assert (request.terms.person is None) == (counts is None)
        if counts is None:
            return cls(price, rows, limit)
        if counts.rows != rows:
            raise ValueError(f"ids must be given for all {rows} rows, got {counts.rows}; give every row an id")
        people, of_each = counts.sorted()
        most = int(of_each.max(initial=0))
        if stated is not None and most > limit:
            raise ValueError(
                f"max_rows_per_person says {limit}, but there are people with more; state more, or clean the table"
            )
        if max(price.times(most)) > LARGEST:
            raise ValueError(TOO_MUCH)
        return cls(price, rows, most, people, of_each)

    @property
    def of_everybody(self) -> Amounts:
        """What this run charges everybody."""
        return Amounts(0, 0) if self.people is not None else self.price.times(self.most)


class CapCheck:
    """Whether people keep to the caps, slice by slice; they are counted and never named.

    Parameters
    ----------
    config : LedgerConfig
    cost : RunCost
    everybody : Amounts
        What runs that name nobody charge everybody, this one included.
    """

    def __init__(self, config: LedgerConfig, cost: RunCost, everybody: Amounts) -> None:
        self.cost, self.largest, self.over = cost, Amounts(0, 0), 0
        self._most, self._fitting = 0, MOST  # rows of those who would exceed a cap
        caps = config.cap, config.delta_cap
        for what, name, price, cap in zip(Amounts._fields, ("cap", "delta_cap"), cost.price, caps, strict=True):
            if cap is not None and cost.rows and price > cap:
                least, most = show_up(float(decimal_of(price))), decimal_of(cap)
                raise ValueError(
                    f"one row costs {what} {least}, more than the {name} {most}: raise it to at least {least}, or take "
                    f"a policy whose {what} is at most {most}"
                )
        self._rooms = [
            LARGEST if cap is None else min(cap - lost, LARGEST) for cap, lost in zip(caps, everybody, strict=True)
        ]
        if min(self._rooms) >= 0:
            return
        if cost.people is not None:
            raise ValueError(
                "runs without person= charged everybody more than this cap leaves; raise the cap, or take "
                "another ledger="
            )
        rooms = zip(caps, self._rooms, cost.of_everybody, cost.price, strict=True)
        fits = [max(0, room + own) // price for cap, room, own, price in rooms if cap is not None and price]
        raise ValueError(
            "everybody would exceed the cap, as runs that name no people are charged for all of their rows: "
            f"{counted(cost.most, 'row')} count as one person's, and {min(fits, default=0)} would fit; state person= "
            "or max_rows_per_person=, or take another ledger="
        )

    def add(self, sums: Sums, rows: NDArray[np.uint64] | None = None) -> None:
        """Look at what people will have lost; ``rows``: those of each in this run."""
        self.largest = Amounts(
            *(max(most, int(of.max(initial=0))) for most, of in zip(self.largest, sums.T, strict=True))
        )
        if max(self.largest) > LARGEST:
            raise ValueError(TOO_MUCH)
        refused = (sums[:, 0] > np.uint64(self._rooms[0])) | (sums[:, 1] > np.uint64(self._rooms[1]))
        self.over += int(np.count_nonzero(refused))
        if rows is None or not refused.any():
            return
        own = rows[refused]
        self._most = max(self._most, int(own.max()))
        for total, price, room in zip(sums[refused].T, self.cost.price, self._rooms, strict=True):
            if price:
                before = np.minimum(total - np.uint64(price) * own, np.uint64(room))
                self._fitting = min(self._fitting, int(((np.uint64(room) - before) // np.uint64(price)).min()))

    def check(self) -> None:
        """Refuse what would take somebody beyond a cap."""
        if not self.over:
            return
        who, less = f"{counted(self.over, 'people')} would exceed the cap", "release less"
        if self.cost.people is not None:
            most, fitting = self._most, self._fitting
            who += f", with up to {counted(most, 'row')} each, of which {fitting or 'none'} would fit"
            less = f"give max_rows_per_person={fitting}" if fitting else less
        raise ValueError(f"{who}; {less}, or leave out who has nothing left")


def amount_above(name: str, value: Fraction) -> int:
    """Return an amount that is no less."""
    amount: int = math.ceil(Fraction(value) * ONE)
    if not 0 <= amount <= LARGEST:
        got = "more" if amount > LARGEST else short(float(value))
        raise ValueError(f"{name} must lie between 0 and 4,600,000, got {got}")
    return amount


def amount_below(name: str, value: object) -> int:
    """Return an amount that is no more, from the stated text."""
    amount: int = math.floor(Fraction(exact_decimal(name, value)) * ONE)
    if not 0 < amount <= LARGEST:
        raise ValueError(f"{name} must lie between 1e-12 and 4,600,000, got {short(value)}")
    return amount


def decimal_of(amount: int) -> Decimal:
    """Return an amount as an exact decimal, without needless zeros."""
    return Decimal(plain(Decimal(amount).scaleb(-PLACES, EXACT).normalize(EXACT)))
