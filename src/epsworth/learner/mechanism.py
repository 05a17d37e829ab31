"""What every mechanism of the learner offers: reports drawn from integers, exact tallies, an unbiased estimate.

A mechanism is a final class: a randomiser, and the wire `Format` of its messages.  It says how it draws, counts and
estimates; certificates, power and checks follow here from what it says, once for all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval, Risk
from epsworth.learner.coins import Ints, flip_weight
from epsworth.learner.lattice import cells
from epsworth.learner.power import Ballot, sign_power
from epsworth.learner.tails import difference_interval, sign_test, vote_interval
from epsworth.learner.tallies import MOST_USERS, Tallied, Tally
from epsworth.mechanisms.words import WordSource
from epsworth.numerals import short
from epsworth.rounding import up

WIDEST_SUM = 1 << 62  # two sums below it add up to less than 2^63
BLOCK = 1 << 22  # words or numbers held at once by draws of long reports


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
    """One way for a user to tell a cell and a label.

    Attributes
    ----------
    epsilon : Fraction
        Privacy parameter of one report.
    m, d, classes : int
        Intervals per axis, axes, labels.
    """

    epsilon: Fraction
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
        """Weight, of 2^64, with which a bit of this epsilon is flipped."""
        return flip_weight(self.epsilon)

    @cached_property
    def contrast(self) -> float:
        """Mean of a randomised bit whose true value is +1: tanh(epsilon / 2), of the integer weights."""
        return float(1 - Fraction(2 * self.flip, 1 << 64))

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

        Given the number of votes of a pair, those for a are binomial, with probability above one half exactly
        where a has more mass in the cell than b.
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

        Two classes; the cell's signed mean is ``margin`` or more in size, its share of users at most ``mass``.  Users
        of the cell beyond the margin are as many of either class: fair votes, which drown the others.  Where so few
        vote that more of them are needed to reach the level at all, they help: both ends are looked at.
        """
        shares = {self.voters(margin), self.voters(mass)}
        ballots = [Ballot(share / self.groups, self.signal / self.groups) for share in shares]
        return min(sign_power(users, ballot, margin, level, fakes) for ballot in ballots)

    def against(self, tally: Tally, best: Ints, fakes: int = 0) -> Floats:
        """Return, per cell, the largest p-value of another label against "``best`` has more mass in it".

        So many ``fakes`` are counted where they hurt most: none of their votes is for ``best``, all are against it.
        """
        wins, cell = self.duels(tally), np.arange(self.cells)
        if wins is None:
            raise ValueError(f"reports of {self.name!r} carry no exact certificate; use another mechanism")
        p = sign_test(wins[cell, best] - fakes, wins[cell, :, best] + fakes)
        p[cell, best] = 0.0
        return as_floats(p.max(axis=1))

    def p_values(self, tally: Tally, best: Ints, fakes: int = 0) -> Floats:
        """Return, per cell, a p-value for "the label ``best`` has more mass in it than every other one".

        A wrong label must win against the right one; with several classes each wrong label might (union bound).
        """
        return times(self.classes - 1, self.against(tally, best, fakes))

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
        raise ValueError(f"{field} must be a number, got {value!r}; write it without quotes")
    return value  # type: ignore[return-value]


def checked_probability(value: object, field: str = "confidence") -> float:
    """Return a number between 0 and 1; refuse every other."""
    if not 0 < checked_number(value, field) < 1:
        raise ValueError(f"{field} must lie between 0 and 1, got {value!r}")
    return value  # type: ignore[return-value]
