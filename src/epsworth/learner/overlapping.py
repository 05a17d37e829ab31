"""The overlapping cells of Berrett & Butucea 2019 by parity classes.

The cells whose lattice points share their parities are disjoint: a random class of them, one signed bit.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from epsworth.learner.coins import Ints, uniform
from epsworth.learner.disjoint import Hadamard, two_sided
from epsworth.learner.encoding import flat, floors, parities, parity_centres
from epsworth.learner.mechanism import Rowed, Symbols, Tally, Users
from epsworth.learner.wire import Number
from epsworth.mechanisms.words import WordSource


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
