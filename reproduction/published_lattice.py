"""Mechanisms of the learner on the overlapping cells of Berrett & Butucea 2019: as published, and by parity classes.

"slides"  half of the users send all cells that hold their point, half the same times the label, with Laplace noise of
          scale 2^(d+1) / epsilon; here discrete, since the low bits of floating-point noise tell its true value
"parity"  the cells whose lattice points share their parities are disjoint: a random class of them, one signed bit

Both are kept for comparison: importing this module enters them into `epsworth.learner.MECHANISMS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.learner import MECHANISMS
from epsworth.learner.coins import GRAIN, WORD, Ints, coins, uniform
from epsworth.learner.encoding import flat
from epsworth.learner.mechanism import Rowed, Symbols, Tally, Users
from epsworth.learner.mechanisms import Hadamard, two_sided
from epsworth.learner.tails import LEAST
from epsworth.learner.wire import Bytes, Number, refuse_if
from epsworth.mechanisms.words import WordSource
from epsworth.rounding import down, up

WIDEST_SUM = 1 << 62  # two sums below it add up to less than 2^63
GOLDEN = (np.sqrt(5) - 1) / 2
STEPS = 70  # golden sections: the bracket shrinks to 2e-15 of itself
FARTHEST_SHARE = 1 - 2.0**-40  # of the way to the exponent's pole: the search needs an end, and any s gives a bound


def floors(unit: Floats, m: int) -> Ints:
    """Return floor(u / h) per axis, in 0..m; the upper end alone gives m."""
    return np.minimum(np.floor(unit * m), m).astype(np.int64)


@dataclass(frozen=True)
class Vector:
    """A group's byte, then so many whole numbers of at most ``widest`` in size, four bytes each."""

    entries: int
    widest: int

    @property
    def size(self) -> int:
        """The group, and four bytes per entry."""
        return 1 + 4 * self.entries

    def encode(self, messages: Ints) -> Bytes:
        """Return the group's byte and little-endian numbers."""
        numbers = np.ascontiguousarray(messages[:, 1:]).astype("<i4").view(np.uint8)
        numbers = numbers.reshape(len(messages), 4 * self.entries)
        return np.column_stack([messages[:, :1].astype(np.uint8), numbers])

    def decode(self, blocks: Bytes) -> Ints:
        """Return group and numbers."""
        found = np.zeros((len(blocks), 1 + self.entries), dtype="<i4")
        found[:, 0] = blocks[:, 0]
        found[:, 1:] = np.ascontiguousarray(blocks[:, 1:]).view("<i4")
        refuse_if((blocks[:, 0] > 1) | (found.max(axis=1) > self.widest) | (found.min(axis=1) < -self.widest))
        return found


def codes(unit: Floats, m: int) -> Ints:
    """Return per axis 2k on the lattice point k and 2k + 1 strictly between k and k + 1: which cells are active."""
    scaled = unit * m
    k = floors(unit, m)
    return 2 * k + ((scaled > k) & (k < m))


def discrete_laplace(sensitivity: int, epsilon: Fraction, count: int, source: WordSource) -> Ints:
    """Return whole numbers k with probability proportional to e^(-|k| epsilon / sensitivity), exactly.

    A sign and a geometric number; minus zero is drawn again (Canonne, Kamath & Steinke 2020, Algorithm 2).
    Epsilon is rounded down to millionths, which only adds noise.
    """
    step = min(int(epsilon * GRAIN), 1 << 62)  # a step that fits a word: less epsilon only adds noise
    scale = Fraction(sensitivity * GRAIN, step)
    drawn, left = np.empty(count, dtype=np.int64), np.arange(count)
    while left.size:
        size = _geometric(scale.numerator, scale.denominator, left.size, source)
        negative = coins(WORD // 2, left.size, source)
        drawn[left] = np.where(negative, -size, size)
        left = left[negative & (size == 0)]
    return drawn


def _geometric(s: int, t: int, count: int, source: WordSource) -> Ints:
    """Return k = 0, 1, .. with probability proportional to e^(-k t / s): U + s V, divided by t."""
    low, left = np.empty(count, dtype=np.int64), np.arange(count)
    while left.size:  # U on 0..s-1 with weight e^(-U / s)
        tried = uniform(s, left.size, source)
        low[left] = tried
        left = left[~_decays(tried, s, source)]
    high, left = np.zeros(count, dtype=np.int64), np.arange(count)
    while left.size:  # V: how often in a row a coin of e^-1 shows heads
        left = left[_decays(np.full(left.size, s), s, source)]
        high[left] += 1
    return (low + s * high) // t


def _decays(numerator: Ints, denominator: int, source: WordSource) -> Bools:
    """Return bits that are true with probability e^(-numerator / denominator), for ratios in [0, 1].

    von Neumann's series: toss coins of ratio / 1, ratio / 2, .. until one fails; true iff an odd toss failed.
    """
    odd, left, k = np.zeros(numerator.size, dtype=bool), np.arange(numerator.size), 1
    while left.size:
        heads = uniform(denominator * k, left.size, source) < numerator[left]
        odd[left[~heads]] = k % 2 == 1
        left, k = left[heads], k + 1
    return odd


@final
class Slides(Symbols):
    """Group 0 reports B + noise, group 1 reports y B + noise; a fair coin tells the group."""

    name = "slides"
    reference = "Berrett & Butucea 2019"
    binary_only = True
    overlapping = True
    widest: ClassVar[int] = 1 << 30  # of one number in a report; larger noise is clipped, which costs no privacy

    @property
    def sensitivity(self) -> int:
        """Largest change of B in the sum of absolute values: two points with disjoint cells."""
        return int(2 ** (self.d + 1))

    @property
    def scale(self) -> float:
        """Scale of the noise, whose epsilon is in whole millionths."""
        return self.sensitivity * GRAIN / int(self.epsilon * GRAIN)

    @property
    def symbols(self) -> int:
        """Which cells are active, per axis one of 2m + 1 states, and the label."""
        return int((2 * self.m + 1) ** self.d) * 2

    @property
    def shape(self) -> tuple[int, ...]:
        """Sums per group."""
        return (2, self.cells)

    @property
    def groups(self) -> int:
        """Locations, and labels."""
        return 2

    @cached_property
    def format(self) -> Vector:  # type: ignore[override]  # reports of no other mechanism have it
        """The group, and a number per cell."""
        return Vector(self.cells, self.widest)

    @property
    def variance(self) -> float:
        """Of 2 T: 4 * 2.5 b^2 / n with n = N / 2, thus 80 * 4^d / epsilon^2."""
        return 20 * self.scale**2

    def symbol(self, users: Users) -> Ints:
        """Return the state of every axis and the label."""
        return flat(codes(users.unit, self.m), 2 * self.m + 1) * 2 + users.label

    def indicator_sums(self, held: Ints) -> Ints:
        """Return how many users are in every overlapping cell, from users per state ``(.., states)``."""
        side, lead = 2 * self.m + 1, held.shape[:-1]
        table = held.reshape(*lead, *[side] * self.d)
        for axis in range(len(lead), len(lead) + self.d):  # cell j is active in the states 2j - 1, 2j, 2j + 1
            padded = np.moveaxis(table, axis, -1)
            padded = np.pad(padded, [(0, 0)] * (padded.ndim - 1) + [(1, 1)])
            table = np.moveaxis(padded[..., 0:-2:2] + padded[..., 1:-1:2] + padded[..., 2::2], -1, axis)
        return np.ascontiguousarray(table).reshape(*lead, self.cells)

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Return the group and the noisy vector of each user."""
        n = known.size
        group = coins(WORD // 2, n, source).astype(np.int64)
        stated = (known >= 0) & ((group == 0) | (known % 2 == 1))
        rows = discrete_laplace(self.sensitivity, self.epsilon, n * self.cells, source).reshape(n, self.cells)
        inside = np.zeros_like(rows)
        index = np.unravel_index(known[stated] // 2, [2 * self.m + 1] * self.d)
        for step in product((0, 1), repeat=self.d):  # lower and upper active cell of each axis, maybe the same
            corner = [(code + upper) // 2 for code, upper in zip(index, step, strict=True)]
            inside[np.flatnonzero(stated), flat(np.column_stack(corner), self.side)] = 1
        return np.column_stack([group, np.clip(rows + inside, -self.widest, self.widest)])

    def tally(self, messages: Ints) -> Tally:
        """Add the vectors of each group."""
        groups = [messages[messages[:, 0] == group, 1:] for group in (0, 1)]
        sums = np.stack([rows.sum(axis=0, dtype=np.int64) for rows in groups])
        return Tally(sums, np.array([len(rows) for rows in groups]))

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Thin into groups; a sum of n discrete Laplace variables is a difference of negative binomials."""
        first = rng.binomial(counts, 0.5)
        groups = np.stack([first, counts - first])
        held = groups[:, :-1].reshape(2, -1, 2)
        sums = np.stack([self.indicator_sums(held[0].sum(axis=1)), self.indicator_sums(held[1][:, 1])])
        users, success = groups.sum(axis=1), -math.expm1(-1 / self.scale)
        for group in np.flatnonzero(users):
            up, down = rng.negative_binomial(users[group], success, size=(2, self.cells))
            sums[group] += up - down
        return Tally(sums, users)

    def possible(self, tally: Tally) -> bool:
        """No number of a report is wider than ``widest``, and sums stay far from overflow."""
        most = [min(users * self.widest, WIDEST_SUM - 1) for users in tally.users.tolist()]
        return bool(((tally.counts >= -np.array(most)[:, None]) & (tally.counts <= np.array(most)[:, None])).all())

    def estimate(self, tally: Tally) -> Floats:
        """Return 2 T = 2 mean(group 1) - mean(group 0), whose mean is the signed mass of the cell."""
        means = tally.counts / np.maximum(tally.users, 1)[:, None]
        return as_floats(2 * means[1] - means[0])[:, None]

    def against(self, tally: Tally, best: Ints, fakes: int = 0) -> Floats:
        """Bound the tail of T = estimate / 2, rounded down; the smaller group bounds both."""
        if fakes:
            raise ValueError(
                f"fakes must be 0 for {self.name!r}, got {fakes}: one of its reports may weigh as much as all "
                "others; use another mechanism"
            )
        means = tally.counts / np.maximum(tally.users, 1)[:, None]  # a unit off each
        labels, places = 2 * np.abs(means[1]), np.abs(means[0])
        apart = np.abs(2 * means[1] - means[0]) / 2
        t = down(apart - up(np.spacing(labels) + np.spacing(places)))
        return chernoff(np.maximum(t, 0.0), int(tally.users.min()), self.scale)


def chernoff(t: ArrayLike, n: int, scale: float) -> Floats:
    """Bound Pr[T_n - E T_n >= t] for the statistic of Berrett & Butucea with n users per half; for every epsilon.

    min over 0 < s < n/b of exp(-s t - n log(1 - (s b / n)^2) - n log(1 - (s b / 2n)^2) + 5 s^2 / 32 n): Laplace noise
    of ``scale`` b in both halves (discrete noise has the smaller transform), Hoeffding's lemma for what is sampled.

    Returns bounds on the probability, at most 1; nothing is refused, and without users the bound is 1.

    Examples
    --------
    >>> from reproduction.published_lattice import chernoff
    >>> round(float(chernoff(0.3, 10_000, 8.0)), 4)
    0.0604
    """
    deviation = as_floats(t)
    if n < 1:
        return np.ones(deviation.shape)

    def terms(share: Floats) -> tuple[Floats, Floats]:  # s = share n / b; the share is exact, whatever it is
        s = share * n / scale
        noise = -n * (np.log1p(-(share**2)) + np.log1p(-(share**2) / 4))
        return as_floats(s * deviation), as_floats(noise + 5 * s**2 / (32 * n))

    def exponent(share: Floats) -> Floats:
        gain, cost = terms(share)
        return cost - gain

    low, high = np.zeros(deviation.shape), np.full(deviation.shape, FARTHEST_SHARE)
    for _ in range(STEPS):  # the exponent is convex in s
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        better = exponent(left) < exponent(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    gain, cost = terms(as_floats((low + high) / 2))  # any s gives a bound
    # cost: 4 of a logarithm, 3 of sums and product (the last term, with 10 of its own, is no larger than half a gain);
    # gain: 4, that of the scale too; and n s^2 b^2 / (n^2 - s^2 b^2), by which the rounding of a square near 1 moves
    # its logarithm, is at most half a gain where the slope vanishes, as is the last term: 1 + 5 more
    least = as_floats(up(up(cost, ulps=8) - down(gain, ulps=10)))
    return np.clip(up(as_floats(np.exp(least)), ulps=4), LEAST, 1.0)


def published_bound(t: float, n: int, scale: float) -> float:
    """Return exp(-n t^2 / (16 b^2)), the bound of Berrett & Butucea; refuse where it is not proven, b < 1 or t > b.

    It ignores the sampling of users: at epsilon = 100, n = 200, t = 0.06 the true tail is .049 and this 6e-13.
    Parameters are those of `chernoff`: ``t``, ``n`` users per half, and the ``scale`` b of the noise.

    Examples
    --------
    >>> from reproduction.published_lattice import published_bound
    >>> round(published_bound(0.3, 10_000, 8.0), 4)
    0.4152
    """
    if scale < 1:
        raise ValueError(
            f"scale is {scale:g}, below 1 (epsilon above 2^(d + 1)): the published bound ignores sampling and is wrong "
            "there; use chernoff"
        )
    if not 0 <= t <= scale:
        raise ValueError(
            f"t must lie between 0 and the scale {scale:g} of the published bound, got {t:g}; use chernoff"
        )
    return float(np.exp(-n * t**2 / (16 * scale**2)))


def parity_centres(k: Ints, parity: Ints) -> Ints:
    """Return, per axis, the lattice point of a parity whose cell [j - 1, j + 1) h holds floor value k; m + 1: none."""
    return k + ((k + parity) & 1)


def parities(d: int) -> Ints:
    """Return the 2^d parity classes, one per row."""
    return np.array(list(product((0, 1), repeat=d)), dtype=np.int64)


@final
class Parity(Rowed, Symbols):
    """A random parity class of cells, public and independent of the data, then one signed Hadamard bit in it."""

    name = "parity"
    reference = "this project; cells of Berrett & Butucea 2019"
    binary_only = True
    overlapping = True

    @cached_property
    def within(self) -> Hadamard:
        """The signed bit inside one class, whose lattice points are those of its parity, halved."""
        return Hadamard(self.epsilon, self.m // 2 + 1, self.d, 2)

    @property
    def symbols(self) -> int:
        """Floor values per axis 0..m, and the label."""
        return self.cells * 2

    @property
    def groups(self) -> int:
        """The parity classes."""
        return int(2**self.d)

    @cached_property
    def format(self) -> Number:
        """Class, row and bit: per class and row, reports of -1 and of +1."""
        return Number((self.groups, *self.within.shape))

    @property
    def variance(self) -> float:
        """2^d / tanh(epsilon / 2)^2: a class has its share of the users."""
        return self.groups * self.within.variance

    def symbol(self, users: Users) -> Ints:
        """Return floor values and label."""
        return flat(floors(users.unit, self.m), self.side) * 2 + users.label

    def inner(self, known: Ints, group: Ints) -> Ints:
        """Return the symbol inside a class, -1 where the class has no cell for the point."""
        k = np.column_stack(np.unravel_index(np.maximum(known, 0) // 2, [self.side] * self.d))
        centre = parity_centres(k, parities(self.d)[group])
        cell = flat(np.minimum(centre, self.m) // 2, self.within.m)
        return np.where((known < 0) | (centre > self.m).any(axis=1), -1, cell * 2 + known % 2)

    def messages(self, known: Ints, source: WordSource) -> Ints:
        """Draw the class, then row and bit."""
        group = uniform(self.groups, known.size, source)
        return group * self.within.format.below + self.within.messages(self.inner(known, group), source)

    def draw_at(self, users: Users, row: Ints, source: WordSource) -> Ints:
        """Draw the bit of the class and its row."""
        group, own = np.divmod(row, self.within.rows)
        inner = self.inner(self.known(users), group)
        return group * self.within.format.below + self.within.told(inner, own, source)

    def simulate_counts(self, counts: Ints, rng: np.random.Generator) -> Tally:
        """Thin into classes, then simulate each."""
        spread = rng.multinomial(counts, np.full(self.groups, 1 / self.groups))
        tallies = []
        for group, inner in enumerate(self._inner_of_all):
            held = np.zeros(self.within.symbols + 1, dtype=np.int64)
            np.add.at(held, inner, spread[:, group])  # -1 is the last entry
            tallies.append(self.within.simulate_counts(held, rng))
        counts = np.stack([tally.counts for tally in tallies])
        return Tally(counts, counts.sum(axis=(1, 2)))

    @cached_property
    def _inner_of_all(self) -> Ints:
        """Return, per class, the symbol inside it of every symbol, and last of none."""
        known = np.append(np.arange(self.symbols), -1)
        return np.stack([self.inner(known, np.full(known.size, group)) for group in range(self.groups)])

    def row_name(self, row: int) -> str:
        """Say which row of which class this is."""
        return f"row {row % self.within.rows} of class {row // self.within.rows}"

    def _of_classes(self) -> tuple[Ints, Ints]:
        """Return, per lattice point, its class and its cell inside it."""
        j = np.column_stack(np.unravel_index(np.arange(self.cells), [self.side] * self.d))
        return flat(j % 2, 2), flat(j // 2, self.within.m)

    def duels(self, tally: Tally) -> Ints:
        """Return agreeing reports of each point's class."""
        classes = zip(tally.counts, tally.users[:, None], strict=True)
        agreement = np.stack([self.within.agreement(Tally(counts, users)) for counts, users in classes])
        group, cell = self._of_classes()
        plus = (tally.users[group] + agreement[group, cell]) // 2
        return two_sided(plus, tally.users[group] - plus)


MECHANISMS.update({kind.name: kind for kind in (Slides, Parity)})
