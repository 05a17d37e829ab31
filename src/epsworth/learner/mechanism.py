"""What every mechanism of the learner offers: reports drawn from integers, exact tallies, an unbiased estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval
from epsworth.exact.entropy import WordSource
from epsworth.learner.coins import Ints, flip_weight
from epsworth.learner.power import Ballot, sign_power
from epsworth.learner.tails import sign_test

Bytes = NDArray[np.uint8]
MOST_USERS = 1 << 53  # floats count so far
WIDEST_SUM = 1 << 62  # two sums below it add up to less than 2^63
BLOCK = 1 << 22  # words or numbers held at once by draws of long reports


class Users(NamedTuple):
    """Checked data of n users: points on the unit box ``(n, d)``, label numbers, and who lies outside the box."""

    unit: Floats
    label: Ints
    outside: Bools


class Tally(NamedTuple):
    """Integer sums over reports: ``counts`` of the mechanism's own shape, ``users`` per group."""

    counts: Ints
    users: Ints

    def __add__(self, other: object) -> Tally:
        """Return the tally of both sets of reports."""
        assert isinstance(other, Tally)
        return Tally(self.counts + other.counts, self.users + other.users)


@dataclass(frozen=True)
class Mechanism(ABC):
    """One way for a user to tell a cell and a label.

    Attributes
    ----------
    alpha : Fraction
        Privacy parameter of one report.
    m, d, classes : int
        Intervals per axis, axes, labels.
    """

    alpha: Fraction
    m: int
    d: int
    classes: int

    name: ClassVar[str]
    reference: ClassVar[str]
    binary_only: ClassVar[bool] = False
    overlapping: ClassVar[bool] = False  # cells of side 2h around lattice points, not a partition

    @property
    def side(self) -> int:
        """Cells per axis."""
        return self.m + 1 if self.overlapping else self.m

    @cached_property
    def cells(self) -> int:
        """Cells in all."""
        return int(self.side**self.d)

    @property
    def outputs(self) -> int:
        """Estimates per cell: one signed mean for two classes, else one mass per class."""
        return 1 if self.classes == 2 else self.classes

    @cached_property
    def flip(self) -> int:
        """Weight, of 2^64, with which a bit of this alpha is flipped."""
        return flip_weight(self.alpha)

    @cached_property
    def contrast(self) -> float:
        """Mean of a randomised bit whose true value is +1: tanh(alpha / 2), of the integer weights."""
        return float(1 - Fraction(2 * self.flip, 1 << 64))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the counts."""

    @property
    def groups(self) -> int:
        """Groups of users that are counted separately."""
        return 1

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of one encoded message."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of one cell's estimate, times users, where the cell holds next to nobody."""

    @property
    def presence(self) -> float:
        """What a user adds to ``variance`` in the cell that holds them."""
        return 0.0

    @property
    def mean_variance(self) -> float:
        """Variance of an estimate, times users, on average over cells whoever holds them (squared means left out).

        No budget brings it to zero: users are a sample.
        """
        return self.variance + self.presence / (self.cells * self.outputs)

    @abstractmethod
    def draw(self, users: Users, source: WordSource) -> Ints:
        """Return one message per user, fit for release where the source is."""

    @abstractmethod
    def encode(self, messages: Ints) -> Bytes:
        """Return the messages as bytes ``(n, size)``."""

    @abstractmethod
    def decode(self, blocks: Bytes) -> Ints:
        """Return messages; refuse bytes that no client sends."""

    @abstractmethod
    def tally(self, messages: Ints) -> Tally:
        """Return the sums over messages."""

    @abstractmethod
    def simulate(self, users: Users, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Return the tally of one report per user, or of ``total`` users drawn from these with replacement."""

    @abstractmethod
    def estimate(self, tally: Tally) -> Floats:
        """Return the unbiased estimates ``(cells, outputs)``."""

    def duels(self, tally: Tally) -> Ints | None:
        """Return ``wins (cells, classes, classes)``: votes of a against b; None where there is no such count.

        Given the number of votes of a pair, those for a are binomial, with probability above one half exactly
        where a has more mass in the cell than b.
        """
        return None

    def ballot(self, mass: float) -> Ballot | None:
        """Return how reports vote (two classes) in a cell that holds a share ``mass`` of the users; None as above."""
        return None

    def power(self, users: int, margin: float, mass: float, level: float) -> float:
        """Bound from below the probability that a cell's right label gets a p-value of at most ``level``.

        Two classes; the cell's signed mean is ``margin`` or more in size, its share of users at most ``mass``.  Users
        of the cell beyond the margin are as many of either class: fair votes, which drown the others.  Where so few
        vote that more of them are needed to reach the level at all, they help: both ends are looked at.
        """
        found = [self.ballot(share) for share in (margin, mass)]
        return min(0.0 if ballot is None else sign_power(users, ballot, margin, level) for ballot in set(found))

    def p_values(self, tally: Tally, best: Ints) -> Floats:
        """Return, per cell, a p-value for "the label ``best`` has more mass in it than every other one".

        A wrong label must win against the right one; with several classes each wrong label might (union bound).
        """
        wins, cell = self.duels(tally), np.arange(self.cells)
        if wins is None:
            raise ValueError(f"reports of {self.name!r} carry no exact certificate; use another mechanism")
        p = sign_test(wins[cell, best], wins[cell, :, best])
        p[cell, best] = 0.0
        return as_floats(np.minimum(1.0, (self.classes - 1) * p.max(axis=1)))

    def interval(self, tally: Tally, miss: float) -> Interval | None:
        """Return an exact interval for each cell's signed mean (two classes), or None."""
        return None

    def empty(self) -> Tally:
        """Return the tally of nobody."""
        return Tally(np.zeros(self.shape, dtype=np.int64), np.zeros(self.groups, dtype=np.int64))

    def possible(self, tally: Tally) -> bool:
        """Tell whether counts of the right shape can be sums over so many users' reports."""
        counts, users = tally
        return bool((counts >= 0).all() and exact_sum(counts) == users[0])

    def checked(self, tally: Tally) -> Tally:
        """Return a tally that reports add up to; refuse every other, and more users than are counted exactly."""
        counts, users = (np.asarray(part) for part in tally)
        whole = counts.dtype == users.dtype == np.int64
        if not whole or counts.shape != self.shape or users.shape != (self.groups,):
            raise ValueError(
                f"the sums must be 64-bit whole numbers: counts of shape {self.shape}, users of shape "
                f"({self.groups},); aggregate the reports again"
            )
        if (users < 0).any() or exact_sum(users) > MOST_USERS:
            raise ValueError(f"the sums must be over 0 to {MOST_USERS} users; aggregate fewer reports together")
        if not self.possible(Tally(counts, users)):
            raise ValueError(
                "counts and users contradict each other: no reports add up to these sums; aggregate the reports again"
            )
        return Tally(counts, users)

    def blocks(self, n: int, width: int) -> Iterator[slice]:
        """Cut n users into runs whose messages of ``width`` numbers fit into memory."""
        step = max(1, BLOCK // width)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))


class SymbolMechanism(Mechanism):
    """A mechanism that knows of a user one number: a symbol, or -1 for a user who states nothing."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """Number of symbols."""

    @abstractmethod
    def symbol(self, users: Users) -> Ints:
        """Return each user's symbol, not yet minding who is outside."""

    @abstractmethod
    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Return a tally drawn from how many users hold each symbol; the last entry counts those who hold none."""

    def known(self, users: Users) -> Ints:
        """Return each user's symbol, -1 for those outside."""
        return np.where(users.outside, -1, self.symbol(users))

    def simulate(self, users: Users, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Draw sums directly from the symbols' counts: the law of the sums, without a report per user."""
        counts = self.holders(users)
        if total is not None:
            counts = rng.multinomial(total, counts / counts.sum()).astype(np.int64)
        return self.simulate_counts(counts, rng)

    def holders(self, users: Users) -> Ints:
        """Return how many users hold each symbol, and last how many hold none."""
        known = self.known(users)
        found = np.bincount(np.where(known < 0, self.symbols, known), minlength=self.symbols + 1)
        return found.astype(np.int64)


class PackedMessages(SymbolMechanism):
    """Messages that are rows of bytes: a few bits per entry, zeros behind the last one."""

    bits: ClassVar[int]  # per entry
    order: ClassVar[Literal["little", "big"]]  # of the bits in a byte

    @property
    @abstractmethod
    def entries(self) -> int:
        """Numbers in one message."""

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return -(-self.entries * self.bits // 8)

    def encode(self, messages: Ints) -> Bytes:
        """Return the bytes."""
        return messages.astype(np.uint8)

    def decode(self, blocks: Bytes) -> Ints:
        """Return the bytes; refuse anything behind the last entry."""
        spare = 8 * self.size - self.bits * self.entries
        refuse_if((blocks[:, -1] & np.packbits(np.arange(8) >= 8 - spare, bitorder=self.order)) != 0)
        return np.asarray(blocks)

    def set_bits(self, messages: Ints) -> Ints:
        """Return, per bit of an entry ``(entries, bits)``, how many messages set it."""
        return column_sums(self.unpacked(messages)).reshape(self.entries, self.bits)

    def unpacked(self, messages: Ints) -> Bytes:
        """Return the bits of all messages ``(n, entries * bits)``."""
        drawn = np.unpackbits(messages.astype(np.uint8, copy=False), axis=1, bitorder=self.order)
        return drawn[:, : self.entries * self.bits]


class IndexMessages(Mechanism):
    """Messages that are one whole number below ``messages``, sent as its least number of bytes."""

    @property
    @abstractmethod
    def messages(self) -> int:
        """Number of different messages."""

    @property
    def size(self) -> int:
        """Bytes of one message."""
        return max(1, -(-(self.messages - 1).bit_length() // 8))

    def encode(self, messages: Ints) -> Bytes:
        """Return little-endian bytes."""
        wide = messages.astype("<u8").view(np.uint8).reshape(-1, 8)
        return np.ascontiguousarray(wide[:, : self.size])

    def decode(self, blocks: Bytes) -> Ints:
        """Return the numbers; refuse what lies beyond the last message."""
        wide = np.zeros((len(blocks), 8), dtype=np.uint8)
        wide[:, : self.size] = blocks
        found = wide.view("<u8").ravel().astype(np.int64)
        refuse_if(found >= self.messages)
        return found


class RowAndBit(IndexMessages):
    """A row drawn at random and one bit about it, sent as 2 row + bit."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Per row: reports of -1, reports of +1."""
        return (self.rows, 2)

    @property
    def messages(self) -> int:
        """A row and a bit."""
        return 2 * self.rows

    def tally(self, messages: Ints) -> Tally:
        """Count reports per row and bit."""
        counts = np.bincount(messages, minlength=self.messages).reshape(self.shape)
        return Tally(counts.astype(np.int64), np.array([messages.size]))


def column_sums(bits: Bytes) -> Ints:
    """Return how many rows set each bit: 255 bits fit into a byte, and bytes are quickly added."""
    whole = len(bits) - len(bits) % 255
    runs = bits[:whole].reshape(-1, 255, bits.shape[1]).sum(axis=1, dtype=np.uint8)
    return np.asarray(runs.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.uint8))


def exact_sum(counts: Ints) -> int:
    """Return a sum that cannot overflow: the halves of the words are added apart."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def checked_users(users: object, hint: str) -> int:
    """Return a number of users; refuse one that is none."""
    if isinstance(users, bool) or not isinstance(users, (int, np.integer)) or users < 1:
        raise ValueError(f"users must be a whole number of at least 1, got {users!r}; {hint}")
    if users > MOST_USERS:
        raise ValueError(f"users must be at most {MOST_USERS}, more are not counted exactly; {hint}")
    return int(users)


def checked_number(value: object, field: str) -> float:
    """Return a number as it is; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{field} must be a number, got {value!r}; write it without quotes")
    return value  # type: ignore[return-value]


def checked_level(level: object) -> float:
    """Return the level of a certificate; refuse one that is no probability."""
    if not 0 < checked_number(level, "level") < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return level  # type: ignore[return-value]


def refuse_if(bad: Bools) -> None:
    """Refuse reports that say what no client says."""
    if bad.any():
        raise ValueError(
            f"report {int(np.argmax(bad))}: its bytes are not a message of this mechanism; "
            "it was damaged or made by something else: drop it"
        )
