"""What every mechanism of the learner offers: reports drawn from integers, exact sums, an unbiased estimate.

A mechanism is a final class: a randomiser, and the wire `Format` of its messages.  It says how it draws, counts and
estimates; certificates, power and checks follow here from what it says, once for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval, Risk
from epsworth.learner.coins import WORD, Ints, flip_weight, uniform
from epsworth.learner.encoding import cells
from epsworth.learner.tails import Ballot, difference_interval, sign_power, sign_test, vote_interval
from epsworth.learner.wire import Format, Number
from epsworth.mechanisms.words import WordSource
from epsworth.numerals import short
from epsworth.rounding import up

MOST_USERS = 1 << 53  # floats count so far
HALF = 32  # a value between -1 and 1 enters its bit's weight with this many bits
BLOCK = 1 << 22  # words or numbers held at once by draws of long reports


class Tally(NamedTuple):
    """Integer sums over reports: ``counts`` of the mechanism's own shape, ``users`` per group."""

    counts: Ints
    users: Ints

    def __add__(self, other: object) -> Tally:
        assert isinstance(other, Tally)
        return Tally(self.counts + other.counts, self.users + other.users)


class Tallied(ABC):
    """Randomised messages in a wire format, and the sums over them; by default how many there are of every number."""

    epsilon: Fraction  # privacy parameter of one report

    @cached_property
    def flip(self) -> int:
        """Weight, of 2^64, with which a bit of this epsilon is flipped."""
        return flip_weight(self.epsilon)

    @cached_property
    def contrast(self) -> float:
        """Mean of a randomised bit whose true value is +1: tanh(epsilon / 2), of the integer weights."""
        return float(1 - Fraction(2 * self.flip, WORD))

    @property
    @abstractmethod
    def format(self) -> Format:
        """The wire format of its messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the counts."""
        assert isinstance(self.format, Number)
        return self.format.shape

    @property
    def groups(self) -> int:
        """Groups of users that are counted separately."""
        return 1

    def tally(self, messages: Ints) -> Tally:
        """Return the sums over messages: how many there are of each, and in each group."""
        assert isinstance(self.format, Number)
        counts = self.format.counts(messages)
        return Tally(counts, counts.reshape(self.groups, -1).sum(axis=1))

    def empty(self) -> Tally:
        """Return the tally of nobody."""
        return Tally(np.zeros(self.shape, dtype=np.int64), np.zeros(self.groups, dtype=np.int64))

    def possible(self, tally: Tally) -> bool:
        """Tell whether counts of the right shape can be sums over so many users' reports: each is counted once."""
        groups = zip(tally.counts.reshape(self.groups, -1), tally.users.tolist(), strict=True)
        return bool((tally.counts >= 0).all()) and all(exact_sum(own) == n for own, n in groups)

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


def exact_sum(counts: Ints) -> int:
    """Return a sum that cannot overflow: the halves of the words are added apart."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


class Rowed(Tallied):
    """Messages 2 row + bit: a row, drawn whatever the record, and one bit about the record's value in that row.

    Where rows fall into classes, too, they are numbered class by class.
    """

    @property
    def weights(self) -> Ints | None:
        """The rows' whole weights; None where all are equally probable."""
        return None

    @property
    def named(self) -> int:
        """All weights together: so many numbers name a row."""
        assert isinstance(self.format, Number)
        return self.format.below // 2

    @property
    def rows_in_all(self) -> int:
        """Rows that a report may be about."""
        return self.named if self.weights is None else len(self.weights)

    def rows_at(self, number: Ints) -> Ints:
        """Return the rows that numbers below `named` fall to."""
        return number

    @abstractmethod
    def draw_at(self, users: Any, row: Ints, source: WordSource) -> Ints:
        """Return one message per user about the row that is given, whatever the record: bits have the law of `draw`."""

    def row_counts(self, tally: Tally) -> Ints:
        """Return how many reports name each row ``(rows,)``."""
        return np.asarray(tally.counts.reshape(-1, 2).sum(axis=1))

    def row_name(self, row: int) -> str:
        """Say which row this is."""
        return f"row {row}"


class Query(Rowed):
    """Rows with whole weights, and a value in [-1, 1] that a record has for a row.

    Claim: given the row, which ignores the record, the bit has a weight of 2^64 within [f, 2^64 - f], where f is the
    least with (2^64 - f) / f <= e^epsilon: the message keeps pure epsilon-LDP.
    """

    @property
    @abstractmethod
    def weights(self) -> Ints:
        """The rows' whole weights."""

    @abstractmethod
    def values(self, users: Any, row: Ints) -> Floats:
        """Return the value of one row per user ``(n,)``; 0 where the record lacks what it asks for."""

    @abstractmethod
    def means(self, users: Any) -> Floats:
        """Return every row's mean value over the users ``(rows,)``."""

    @cached_property
    def format(self) -> Number:
        """2 row + bit: per row, reports of -1 and of +1."""
        return Number((len(self.weights), 2))

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self.weights)

    def rows_at(self, number: Ints) -> Ints:
        """Return the rows that numbers below `named` fall to."""
        return np.asarray(np.searchsorted(self._ends, number, side="right"))

    @property
    def named(self) -> int:
        """All weights together: so many numbers name a row."""
        return int(self._ends[-1])

    @property
    def shares(self) -> Floats:
        """Each row's probability."""
        return as_floats(self.weights / self.named)

    def draw(self, users: Any, source: WordSource) -> Ints:
        """Return one message per user, fit for release where the source is."""
        parts = [users.part(run) for run in blocks(users.label.size, 4)]
        rows = (self.rows_at(uniform(self.named, part.label.size, source)) for part in parts)
        return np.concatenate([self.draw_at(part, row, source) for part, row in zip(parts, rows, strict=True)])

    def draw_at(self, users: Any, row: Ints, source: WordSource) -> Ints:
        """Return the messages of users whose rows are given, whatever the record."""
        weight = self.bit_weights(self.values(users, row))
        return np.asarray(2 * row + (source.words(row.size) < weight), dtype=np.int64)

    def bit_weights(self, values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """Return the weight, of 2^64, of the bit +1: within [f, 2^64 - f] whatever the rounding; a half for 0."""
        flip, span = self.flip, WORD - 2 * self.flip
        share = np.floor((1 + values) * 2.0 ** (HALF - 1)).clip(0, 2.0**HALF).astype(np.uint64)
        between = np.uint64(flip) + share * np.uint64(span >> HALF)
        found = np.where(values == 1, np.uint64(WORD - flip), np.where(values == -1, np.uint64(flip), between))
        return np.where(values == 0, np.uint64(WORD // 2), found)

    def simulate(self, users: Any, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Return the tally of one report per user, or of ``total`` users drawn from these with replacement."""
        if total is not None:
            asked = rng.multinomial(total, self.shares)
            plus = rng.binomial(asked, (1 + self.contrast * self.means(users).clip(-1, 1)) / 2)
            return Tally(np.column_stack([asked - plus, plus]).astype(np.int64), np.array([total]))
        found = self.empty()
        for run in blocks(users.label.size, 8):
            part = users.part(run)
            row = self.rows_at(rng.integers(self.named, size=part.label.size))
            chance = (1 + self.contrast * self.values(part, row)) / 2
            found = found + self.tally(np.asarray(2 * row + (rng.random(row.size) < chance), dtype=np.int64))
        return found


class Users(NamedTuple):
    """Checked data of n users: points on the unit box ``(n, d)``, label numbers, and who lies outside the box."""

    unit: Floats
    label: Ints
    outside: Bools

    def part(self, run: slice) -> Users:
        """Return a run of the users."""
        return Users(self.unit[run], self.label[run], self.outside[run])


@dataclass(frozen=True)
class Mechanism(Tallied):
    """One way for a user to tell a cell and a label."""

    epsilon: Fraction
    m: int  # intervals per axis
    d: int  # axes
    classes: int  # labels

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
        """Variance of an estimate, times users, on average over cells whoever holds them (squared means left out)."""
        return self.variance + self.presence / (self.cells * self.outputs)

    @abstractmethod
    def draw(self, users: Users, source: WordSource) -> Ints:
        """Return one message per user, fit for release where the source is."""

    @abstractmethod
    def simulate(self, users: Users, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Return the tally of one report per user, or of ``total`` users drawn from these with replacement."""

    @property
    def signal(self) -> float:
        """By how much a user's vote for the own label is more probable than one against it."""
        return self.contrast

    def voters(self, mass: float) -> float:
        """Return the probability that a report of a group votes in a cell that holds a share ``mass`` of the users."""
        return 1.0

    def duels(self, tally: Tally) -> Ints | None:
        """Return ``wins (cells, classes, classes)``: votes of a against b; None where there is no such count.

        Given a pair's votes, those for a are binomial, above one half exactly where a has more mass in the cell than b.
        """
        return None

    def votes(self, tally: Tally) -> tuple[Ints, Ints, Ints] | None:
        """Return, per cell, votes for class 1 and against, and the reports they come from; None but for two classes."""
        wins = self.duels(tally) if self.classes == 2 else None
        if wins is None:
            return None
        plus, minus = wins[:, 1, 0], wins[:, 0, 1]
        return plus, minus, plus + minus if self.voters(0) == 1 else np.full(plus.size, tally.users[0])

    def estimate(self, tally: Tally) -> Floats:
        """Return the unbiased estimates ``(cells, outputs)``."""
        found = self.votes(tally)
        assert found is not None
        plus, minus, reports = found
        return as_floats((plus - minus) / (self.signal * np.maximum(reports, 1)))[:, None]

    def power(self, users: int, margin: float, mass: float, level: float, fakes: int = 0) -> float:
        """Bound from below the probability that a cell's right label gets a p-value of at most ``level``.

        Two classes; the cell's signed mean is ``margin`` or more in size, its share of users at most ``mass``: the
        others in it are fair votes, which drown those, or help where few vote at all: both ends are looked at.
        """
        shares = {self.voters(margin), self.voters(mass)}
        ballots = [Ballot(share / self.groups, self.signal / self.groups) for share in shares]
        return min(sign_power(users, ballot, margin, level, fakes) for ballot in ballots)

    def against(self, tally: Tally, best: Ints, fakes: int = 0) -> Floats:
        """Return, per cell, the largest p-value of another label against "``best`` has more mass in it".

        None of the votes of so many ``fakes`` is for ``best``, all are against it.
        """
        wins, cell = self.duels(tally), np.arange(self.cells)
        if wins is None:
            raise ValueError(f"reports of {self.name!r} carry no exact certificate; use another mechanism")
        p = sign_test(wins[cell, best] - fakes, wins[cell, :, best] + fakes)
        p[cell, best] = 0.0
        return as_floats(p.max(axis=1))

    def interval(self, tally: Tally, risk: Risk) -> Interval | None:
        """Return an exact interval for each cell's signed mean, paid for by a share each; None but for two classes."""
        found = self.votes(tally)
        if found is None:
            return None
        bound = vote_interval if self.voters(0) == 1 else difference_interval
        return bound(*found, risk, self.signal)


class Symbols(Mechanism):
    """A mechanism that knows of a user one number, of cell and label, or -1 for a user who states nothing."""

    @property
    def symbols(self) -> int:
        """Number of symbols: cells of the partition times labels."""
        return self.cells * self.classes

    def symbol(self, users: Users) -> Ints:
        """Return each user's symbol, not yet minding who is outside: cell * classes + label."""
        return cells(users.unit, self.m) * self.classes + users.label

    @abstractmethod
    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Return one message per symbol, drawn from integer weights."""

    @abstractmethod
    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Return a tally drawn from how many users hold each symbol; the last entry counts those who hold none."""

    def known(self, users: Users) -> Ints:
        """Return each user's symbol, -1 for those outside."""
        return np.where(users.outside, -1, self.symbol(users))

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Return one message per user, fit for release where the source is."""
        known = self.known(users)
        return np.concatenate([self.messages(known[run], source) for run in blocks(known.size, self.format.entries)])

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


def blocks(n: int, width: int) -> Iterator[slice]:
    """Cut n users into runs, one at least, whose messages of ``width`` numbers fit into memory."""
    step = max(1, BLOCK // width)
    return (slice(start, min(start + step, n)) for start in range(0, max(n, 1), step))


def one_by_one(counts: Ints) -> Ints:
    """Return the symbol of every user from how many hold each, and last none."""
    return np.repeat(np.arange(-1, counts.size - 1), np.roll(counts, 1))


def times(count: int, p: Floats) -> Floats:
    """Return the p-values of a union of so many, rounded up."""
    return p if count == 1 else as_floats(np.minimum(1.0, up(count * p)))


def checked_users(users: object, hint: str) -> int:
    """Return a number of users; refuse one that is none."""
    if isinstance(users, bool) or not isinstance(users, (int, np.integer)) or users < 1:
        raise ValueError(f"users must be a whole number of at least 1, got {short(users)}; {hint}")
    if users > MOST_USERS:
        raise ValueError(f"users must be at most {MOST_USERS}, more are not counted exactly; {hint}")
    return int(users)


def checked_number(value: object, field: str) -> float:
    """Return a number as it is; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{field} must be a number, got {short(value)}; write it without quotes")
    return value  # type: ignore[return-value]


def checked_probability(value: object, field: str = "confidence") -> float:
    """Return a number between 0 and 1; refuse every other."""
    if not 0 < checked_number(value, field) < 1:
        raise ValueError(f"{field} must lie between 0 and 1, got {short(value)}")
    return value  # type: ignore[return-value]
