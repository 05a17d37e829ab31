"""Mechanisms on the overlapping cells of Berrett & Butucea 2019: as published, and by parity classes.

``slides``  half of the users send all cells that hold their point, half the same times the label, with Laplace noise
            of scale 2^(d+1) / alpha; here discrete, since the low bits of floating-point noise tell its true value
``parity``  the cells whose lattice points share their parities are disjoint: a random class of them, one signed bit
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Interval
from epsworth.exact.entropy import WordSource
from epsworth.learner.coins import GRAIN, WORD, Ints, coins, discrete_laplace, uniform
from epsworth.learner.lattice import codes, flat, floors, parities, parity_centres
from epsworth.learner.mechanism import (
    WIDEST_SUM,
    Bytes,
    IndexMessages,
    SymbolMechanism,
    Tally,
    Users,
    exact_sum,
    refuse_if,
)
from epsworth.learner.power import Ballot
from epsworth.learner.signed import Hadamard, signed_interval, two_sided
from epsworth.learner.tails import chernoff


class Slides(SymbolMechanism):
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
        """Scale of the noise, whose alpha is in whole millionths."""
        return self.sensitivity * GRAIN / int(self.alpha * GRAIN)

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

    @property
    def size(self) -> int:
        """The group, and four bytes per cell."""
        return 1 + 4 * self.cells

    @property
    def variance(self) -> float:
        """Of 2 T: 4 * 2.5 b^2 / n with n = N / 2, thus 80 * 4^d / alpha^2."""
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

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Return the group and the noisy vector of each user."""
        known = self.known(users)
        parts = [self._rows(known[run], source) for run in self.blocks(known.size, self.cells)]
        return np.concatenate(parts) if parts else np.zeros((0, 1 + self.cells), dtype=np.int64)

    def _rows(self, known: Ints, source: WordSource) -> Ints:
        n = known.size
        group = coins(WORD // 2, n, source).astype(np.int64)
        stated = (known >= 0) & ((group == 0) | (known % 2 == 1))
        rows = discrete_laplace(self.sensitivity, self.alpha, n * self.cells, source).reshape(n, self.cells)
        index = np.unravel_index(known[stated] // 2, [2 * self.m + 1] * self.d)
        for step in product((0, 1), repeat=self.d):  # lower and upper active cell of each axis
            corner = [(code + up) // 2 for code, up in zip(index, step, strict=True)]
            twice = self._repeated(index, step)
            cell = flat(np.column_stack(corner), self.side)
            np.add.at(rows, (np.flatnonzero(stated)[~twice], cell[~twice]), 1)
        return np.column_stack([group, np.clip(rows, -self.widest, self.widest)])

    @staticmethod
    def _repeated(index: tuple[Ints, ...], step: tuple[int, ...]) -> Bools:
        """Tell where an axis sits on a lattice point, so that its upper cell is its lower one."""
        found = np.zeros(index[0].size, dtype=bool)
        for code, up in zip(index, step, strict=True):
            found |= (code % 2 == 0) & (up == 1)
        return found

    def encode(self, messages: Ints) -> Bytes:
        """Return the group's byte and little-endian numbers."""
        numbers = np.ascontiguousarray(messages[:, 1:]).astype("<i4").view(np.uint8)
        numbers = numbers.reshape(len(messages), 4 * self.cells)
        return np.column_stack([messages[:, :1].astype(np.uint8), numbers])

    def decode(self, blocks: Bytes) -> Ints:
        """Return group and numbers."""
        found = np.zeros((len(blocks), 1 + self.cells), dtype="<i4")
        found[:, 0] = blocks[:, 0]
        found[:, 1:] = np.ascontiguousarray(blocks[:, 1:]).view("<i4")
        refuse_if((blocks[:, 0] > 1) | (found.max(axis=1) > self.widest) | (found.min(axis=1) < -self.widest))
        return found

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

    def power(self, users: int, margin: float, mass: float, level: float) -> float:
        """Bound as `Mechanism.power`: T seldom misses its mean margin / 2 by what the critical value leaves.

        How seldom, the better of two bounds says: `chernoff`, and the normal law with its error (`_normal_power`).
        Both groups hold ``least`` users but with probability 2 e^(-2 (users / 2 - least)^2 / users), set to 1e-6; the
        noise falls symmetrically, and all bounds fall with the users.
        """
        least = int(users / 2 - math.sqrt(users * math.log(2e6) / 2))
        if least < 1:
            return 0.0
        low, high = 0.0, margin / 2
        for _ in range(3):  # the least value, to a millionth of the margin, whose p-value is small enough
            tried = np.linspace(low, high, 101)
            small = np.flatnonzero(chernoff(tried, least, self.scale) <= level)
            if small.size == 0:
                return 0.0
            low, high = tried[max(small[0] - 1, 0)], tried[small[0]]
        room = margin / 2 - high
        return (1 - 1e-6) * max(1 - float(chernoff(room, least, self.scale)), self._normal_power(room, least))

    def _normal_power(self, room: float, least: int) -> float:
        """Bound Pr[T >= E T - room] by Berry and Esseen's theorem, with Shevtsova's constant (2010).

        T is a sum of independent terms w (I + L), w = 1 / n1 in group 1 and 1 / (2 n0) in group 0, I an indicator with
        central moments of at most 1/4 and 1/8, L the discrete Laplace noise.  The sum of third moments over the
        variance to the power 3/2 is at most that of one term over sqrt(least): so it is for the terms of the larger w.
        """
        q, rest = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        square, fourth = 2 * q / rest**2, 2 * q * (1 + 10 * q + q * q) / rest**4
        third = (0.5 + (square * fourth) ** (1 / 6)) ** 3  # Cauchy & Schwarz for the noise, Minkowski for the sum
        if square < 0.01 or self.widest < 60 * self.scale:  # no noise to speak of, or clipped noise: not this law
            return 0.0
        deviation = math.sqrt((0.25 + square) * 1.25 / least)
        return float(ndtr(room / deviation) - 0.5601 * third / (square**1.5 * math.sqrt(least)))

    def p_values(self, tally: Tally, best: Ints) -> Floats:
        """Bound the tail of T = estimate / 2; the smaller group bounds both."""
        return chernoff(np.abs(self.estimate(tally)[:, 0]) / 2, int(tally.users.min()), self.scale)


class Parity(IndexMessages, SymbolMechanism):
    """A random parity class of cells, public and independent of the data, then one signed Hadamard bit in it."""

    name = "parity"
    reference = "this project; cells of Berrett & Butucea 2019"
    binary_only = True
    overlapping = True

    @cached_property
    def within(self) -> Hadamard:
        """The signed bit inside one class, whose lattice points are those of its parity, halved."""
        return Hadamard(self.alpha, self.m // 2 + 1, self.d, 2)

    @property
    def symbols(self) -> int:
        """Floor values per axis 0..m, and the label."""
        return self.cells * 2

    @property
    def groups(self) -> int:
        """The parity classes."""
        return int(2**self.d)

    @property
    def shape(self) -> tuple[int, ...]:
        """Per class and row: reports of -1, reports of +1."""
        return (self.groups, self.within.rows, 2)

    @property
    def messages(self) -> int:
        """Class, row and bit."""
        return self.groups * self.within.messages

    @property
    def variance(self) -> float:
        """2^d / tanh(alpha / 2)^2: a class has its share of the users."""
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

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Draw the class, then the bit."""
        known = self.known(users)
        group = uniform(self.groups, known.size, source)
        return group * self.within.messages + self.within.bits(self.inner(known, group), source)

    def tally(self, messages: Ints) -> Tally:
        """Count reports per class, row and bit."""
        counts = np.bincount(messages, minlength=self.messages).reshape(self.shape).astype(np.int64)
        return Tally(counts, counts.sum(axis=(1, 2)))

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

    def possible(self, tally: Tally) -> bool:
        """Every user of a class sends one row and bit of it."""
        counts, users = tally
        return bool((counts >= 0).all()) and all(
            exact_sum(own) == n for own, n in zip(counts, users.tolist(), strict=True)
        )

    @cached_property
    def _inner_of_all(self) -> Ints:
        """Return, per class, the symbol inside it of every symbol, and last of none."""
        known = np.append(np.arange(self.symbols), -1)
        return np.stack([self.inner(known, np.full(known.size, group)) for group in range(self.groups)])

    def _of_classes(self) -> tuple[Ints, Ints]:
        """Return, per lattice point, its class and its cell inside it."""
        j = np.column_stack(np.unravel_index(np.arange(self.cells), [self.side] * self.d))
        return flat(j % 2, 2), flat(j // 2, self.within.m)

    def _votes(self, tally: Tally) -> tuple[Ints, Ints]:
        """Return, per lattice point, users of its class, and their agreement with it."""
        agreement = np.stack([self.within.agreement(Tally(c, n)) for c, n in
                              zip(tally.counts, tally.users[:, None], strict=True)])  # fmt: skip
        group, cell = self._of_classes()
        return tally.users[group], agreement[group, cell]

    def estimate(self, tally: Tally) -> Floats:
        """Return the estimates of all classes on the one lattice."""
        users, agreement = self._votes(tally)
        return as_floats(agreement / (self.within.contrast * np.maximum(users, 1)))[:, None]

    def duels(self, tally: Tally) -> Ints:
        """Return agreeing reports of each point's class."""
        users, agreement = self._votes(tally)
        plus = (users + agreement) // 2
        return two_sided(plus, users - plus)

    def ballot(self, mass: float) -> Ballot:
        """Users of the cell's class vote."""
        return Ballot(1 / self.groups, self.contrast / self.groups)

    def interval(self, tally: Tally, miss: float) -> Interval | None:
        """Return the exact interval from the users of each point's class."""
        return signed_interval(self.duels(tally), miss, self.contrast)
