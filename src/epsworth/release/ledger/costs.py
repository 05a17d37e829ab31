"""What a run asks for and what it costs, in whole numbers of 1e-12 that are rounded against whoever spends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import EXACT, exact_decimal, plain, short, whole
from epsworth.release.ledger.ids import Hashes
from epsworth.release.ledger.people import RowCounts, Sums

PLACES = 12
ONE = 10**PLACES
LARGEST = 2**62  # of an amount, and of a person's sums: they are added in 64 bits
MOST = 2**63 - 1  # rows of a person
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
    unit : str or None
        The column that says whose a row is; None charges everybody for all rows.
    cap, delta_cap : number, text or None
        What no person may exceed.  Column and caps are fixed once they are stated; None means what is fixed.
    most : int or None
        The most rows that a person has, where the user states it.
    again : bool
        Allow records to leave a second time.
    adds, left, where, output : str
        Words: these records *left* 2 times *under this policy*; another run *adds* that much; use the *output* you
        have.
    """

    policy: str
    epsilon: Fraction
    delta: Fraction
    rows: int
    unit: str | None = None
    cap: Amount | None = None
    delta_cap: Amount | None = None
    most: int | None = None
    again: bool = False
    adds: str = "as much"
    left: str = "left"
    where: str = "under this policy"
    output: str = "output"


@dataclass(frozen=True)
class Identity:
    """What makes two runs the same: all that draws are derived from, and where they go.

    Attributes
    ----------
    policy : str
        The text that is hashed into the derivation.
    digest : bytes
        Of the input, keyed, 32 bytes.
    target : str
        An absolute path, or "-".
    """

    policy: str
    digest: bytes
    target: str


@dataclass(frozen=True)
class Run:
    """A run that is charged.

    Attributes
    ----------
    id : bytes
    key : bytes or None
        What its draws are derived from; None when it is done.  Never shown, never pickled.
    state : {"new", "resumed", "done"}
    sha256 : str or None
        Of its output, once it is done.
    times_before : int
        Other runs of the same records under the same policy.
    epsilon_so_far, delta_so_far : Fraction
        With this run: the most that a person of it lost; where nobody is named, what each of these very records lost.
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
class LedgerConfig:
    """What a ledger fixes once it is stated: the column of people, and the caps as amounts."""

    unit: str | None = None
    cap: int | None = None
    delta_cap: int | None = None

    def agreed(self, request: ChargeRequest, *, named: bool) -> LedgerConfig:
        """Return what is fixed from now on; what differs from what was fixed is refused.  ``named``: people are."""
        stated = {
            "unit": request.unit,
            "cap": None if request.cap is None else amount_below("cap", request.cap),
            "delta_cap": None if request.delta_cap is None else amount_below("delta_cap", request.delta_cap),
        }
        for name, value in stated.items():
            before = getattr(self, name)
            if value is not None and before is not None and value != before:
                shown = repr(before) if name == "unit" else decimal_of(before)
                raise ValueError(
                    f"this ledger holds every run to {name} {shown}; take that, or another ledger (ledger=)"
                )
        found = replace(self, **{name: value for name, value in stated.items() if value is not None})  # type: ignore[arg-type]
        if named and found.unit is None:
            raise ValueError("units are counted, but no column is named that says who; state unit=")
        return found


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
        rows, stated = whole("rows", request.rows, least=0), request.most
        limit = rows if stated is None else whole("max_rows_per_person", stated, most=MOST)
        if counts is None:
            if request.unit is not None:
                raise ValueError(
                    f"unit {request.unit!r} is stated, but no units are counted; count them, or state none"
                )
            return cls(price, rows, limit)
        if counts.rows != rows:
            raise ValueError(f"units must be given for all {rows} rows, got {counts.rows}; give every row an id")
        people, of_each = counts.sorted()
        most = int(of_each.max(initial=0))
        if stated is not None and most > limit:
            raise ValueError(
                f"max_rows_per_person says {limit}, but there are people with more; state more, or clean the table"
            )
        if max(price.times(most)) > LARGEST:
            raise _too_much()
        return cls(price, rows, most, people, of_each)

    @property
    def of_one(self) -> Amounts:
        """The most that a person loses in this run."""
        return self.price.times(self.most)

    @property
    def of_everybody(self) -> Amounts:
        """What this run charges everybody."""
        return Amounts(0, 0) if self.people is not None else self.of_one


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
        self.cost, self.everybody, self.largest = cost, everybody, Amounts(0, 0)
        self.over, self._most, self._fitting = 0, 0, MOST
        self._rooms = []
        for cap, common in zip((config.cap, config.delta_cap), everybody, strict=True):
            self._rooms.append(LARGEST if cap is None else min(cap - common, LARGEST))
        if min(self._rooms) < 0:
            raise ValueError(self._everybody_exceeds(config))

    def add(self, sums: Sums, rows: NDArray[np.uint64] | None = None) -> None:
        """Look at what people will have lost; ``rows``: those of each in this run."""
        self.largest = Amounts(
            *(max(a, int(b)) for a, b in zip(self.largest, sums.max(axis=0, initial=0), strict=True))
        )
        if max(self.largest) > LARGEST:
            raise _too_much()
        refused = np.any(sums > np.array(self._rooms, np.uint64), axis=1)
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
        who, less = f"{self.over} person{'s' * (self.over > 1)} would exceed the cap", "release less"
        if self.cost.people is not None:
            most, fitting = self._most, self._fitting
            who += f", with up to {most} row{'s' * (most > 1)} each, of which {fitting or 'none'} would fit"
            less = f"give max_rows_per_person={fitting}" if fitting else less
        raise ValueError(f"{who}; {less}, or leave out who has nothing left")

    def _everybody_exceeds(self, config: LedgerConfig) -> str:
        if self.cost.people is not None:
            return (
                "runs without unit= (--id) charged everybody more than this cap leaves; raise the cap, or take another "
                "ledger (ledger=)"
            )
        fitting = MOST
        before = self.everybody.plus(self.cost.of_one.times(-1))
        for cap, lost, price in zip((config.cap, config.delta_cap), before, self.cost.price, strict=True):
            if cap is not None and price:
                fitting = min(fitting, max(0, cap - lost) // price)
        return (
            "everybody would exceed the cap, as runs without units are charged for all of their rows: "
            f"{self.cost.most} rows count as one person's, and {fitting} would fit; state unit= (--id) or "
            "max_rows_per_person=, or take another ledger (ledger=)"
        )


def _too_much() -> ValueError:
    return ValueError(
        "a unit would lose more than 4,600,000, which is no promise; lower epsilon, or the rows of a unit"
    )


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


def check_caps(**caps: object) -> None:
    """Refuse what is no cap, by its name, before a ledger is opened.

    Examples
    --------
    >>> check_caps(cap="2.5", delta_cap=None)
    >>> check_caps(cap=-1)
    Traceback (most recent call last):
    ValueError: cap must lie between 1e-12 and 4,600,000, got -1
    """
    for name, value in caps.items():
        if value is not None:
            amount_below(name, value)


def decimal_of(amount: int) -> Decimal:
    """Return an amount as an exact decimal, without needless zeros."""
    return Decimal(plain(Decimal(amount).scaleb(-PLACES, EXACT).normalize(EXACT)))
