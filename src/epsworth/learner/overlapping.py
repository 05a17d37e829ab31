"""Mechanisms on the overlapping cells of Berrett & Butucea 2019: as published, and by parity classes.

``slides``  half of the users send all cells that hold their point, half the same times the label, with Laplace noise
            of scale 2^(d+1) / epsilon; here discrete, since the low bits of floating-point noise tell its true value
``parity``  the cells whose lattice points share their parities are disjoint: a random class of them, one signed bit
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import ClassVar, final

import numpy as np
from scipy.special import ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import GRAIN, WORD, Ints, coins, discrete_laplace, uniform
from epsworth.learner.disjoint import Hadamard, two_sided
from epsworth.learner.encoding import codes, flat, floors, parities, parity_centres
from epsworth.learner.mechanism import WIDEST_SUM, Rowed, Symbols, Tally, Users
from epsworth.learner.tails import chernoff
from epsworth.learner.wire import Number, Vector
from epsworth.mechanisms.words import WordSource
from epsworth.rounding import down, up

UNEVEN = Fraction(1, 10**6)  # of the power of `Slides`: given up for groups that are far from even


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
    def format(self) -> Vector:
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

    def power(self, users: int, margin: float, mass: float, level: float, fakes: int = 0) -> float:
        """Bound as `Mechanism.power`: T seldom misses its mean margin / 2 by what the critical value leaves.

        How seldom, the better of two bounds says: `chernoff`, and the normal law with its error (`_normal_power`).
        Both groups hold ``least`` users but with probability 2 e^(-2 (users / 2 - least)^2 / users), set to `UNEVEN`;
        the noise falls symmetrically, and all bounds fall with the users.
        """
        self._refuse(fakes)
        least = math.floor(down(users / 2 - up(math.sqrt(users * math.log(2 / UNEVEN) / 2), ulps=4), ulps=2))
        if least < 1:
            return 0.0
        low, high = 0.0, down(margin / 2)
        for _ in range(3):  # the least value, to a millionth of the margin, whose p-value is small enough
            tried = np.linspace(low, high, 101)
            small = np.flatnonzero(chernoff(tried, least, self.scale) <= level)
            if small.size == 0:
                return 0.0
            low, high = tried[max(small[0] - 1, 0)], tried[small[0]]
        room = max(0.0, down(margin / 2 - high))
        reached = max(down(1 - float(chernoff(room, least, self.scale))), self._normal_power(room, least))
        return down(float(1 - UNEVEN) * reached, ulps=2)

    def _normal_power(self, room: float, least: int) -> float:
        """Bound Pr[T >= E T - room] by Berry and Esseen's theorem, with Shevtsova's constant (2010).

        T is a sum of independent terms w (I + L), w = 1 / n1 in group 1 and 1 / (2 n0) in group 0, I an indicator with
        central moments of at most 1/4 and 1/8, L the discrete Laplace noise.  The sum of third moments over the
        variance to the power 3/2 is at most that of one term over sqrt(least): so it is for the terms of the larger w.
        """
        q, rest = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        square, fourth = 2 * q / rest**2, 2 * q * (1 + 10 * q + q * q) / rest**4
        third = float((0.5 + (square * fourth) ** (1 / 6)) ** 3)  # Cauchy & Schwarz: noise; Minkowski: sum
        if square < 0.01 or self.widest < 60 * self.scale:  # no noise to speak of, or clipped noise: not this law
            return 0.0
        deviation = math.sqrt((0.25 + square) * 1.25 / least)
        # Units.  Normal law: 154 (Cephes: at most 3.4e-14 of erfc), and 12 of its argument, which move it by fewer.
        # Error term: 6 of square, 9 of fourth, a sixth of both and 1 in the root, thrice, 9 of the root: below 40
        normal = down(float(ndtr(room / deviation)), ulps=166)
        return down(normal - up(0.5601 * third / (square * math.sqrt(square * least)), ulps=40))

    def _refuse(self, fakes: int) -> None:
        if fakes:
            raise ValueError(
                f"fakes must be 0 for {self.name!r}, got {fakes}: one of its reports may weigh as much as all "
                "others; use hadamard, ternary, krr, oue or parity"
            )

    def against(self, tally: Tally, best: Ints, fakes: int = 0) -> Floats:
        """Bound the tail of T = estimate / 2, rounded down; the smaller group bounds both."""
        self._refuse(fakes)
        means = tally.counts / np.maximum(tally.users, 1)[:, None]  # a unit off each
        labels, places = 2 * np.abs(means[1]), np.abs(means[0])
        apart = np.abs(2 * means[1] - means[0]) / 2
        t = down(apart - up(np.spacing(labels) + np.spacing(places)))
        return chernoff(np.maximum(t, 0.0), int(tally.users.min()), self.scale)


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
