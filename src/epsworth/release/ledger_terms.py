"""What is said to a ledger and what it answers, and amounts: whole numbers of 1e-12, rounded against whoever spends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NoReturn

from epsworth.numerals import EXACT, exact_decimal, plain, short

PLACES = 12
ONE = 10**PLACES  # amounts are whole numbers of 1e-12
LARGEST = 2**62  # of an amount, and of sums of such: they are added in 64 bits
State = Literal["new", "resumed", "done"]
Amount = str | float | Decimal  # as it is stated: a text is exact


@dataclass(frozen=True)
class Terms:
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
        What no unit may exceed.  Column and caps are fixed once they are stated; None means what is fixed.
    most : int or None
        The most rows that a unit has, where the user states it.
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
        Of its output, once that was whole.
    times_before : int
        Other runs of the same records under the same policy.
    epsilon_so_far, delta_so_far : Fraction
        With this run: the most that a unit of it lost, or more where no cap asked for the very sums; without units,
        what each of these very records lost.
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
class Charged:
    """What became of a run: its state, and the sha256 of its output, once that was whole."""

    id: bytes
    state: str
    sha256: str | None


@dataclass(frozen=True)
class Record:
    """What the ledger tells about a run: ``most`` rows are what a unit is charged for at most."""

    policy: str
    rows: int | None
    epsilon: Decimal
    delta: Decimal
    most: int
    unit: str | None
    state: str
    day: str


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
