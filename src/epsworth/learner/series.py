"""A bounded series instead of cells: each user reports one random coefficient of a cosine basis as a randomised bit."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from math import comb
from typing import final

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import WORD, Ints, uniform
from epsworth.learner.mechanism import Users, blocks
from epsworth.learner.rows import Rowed
from epsworth.learner.tallies import Tally
from epsworth.learner.wire import Number
from epsworth.mechanisms.words import WordSource

HALF = 32  # a coefficient's value enters its bit's weight with this many bits


@final
class Cosine(Rowed):
    """Products of cos(pi k u) of total degree at most m, times the signed label (or each class's indicator).

    A value g in [-1, 1] sets the bit with weight f + (2^64 - 2f)(1 + g) / 2, which stays within [f, 2^64 - f]
    whatever the rounding: the ratio of two probabilities is at most (2^64 - f) / f.
    """

    name = "cosine"
    reference = "this project; randomised response of Duchi, Jordan & Wainwright 2013"

    @cached_property
    def degrees(self) -> Ints:
        """The exponents ``(coefficients, d)``."""
        return _degrees(self.m, self.d)

    @property
    def cells(self) -> int:
        """Coefficients per output."""
        return comb(self.m + self.d, self.d)

    @property
    def rows(self) -> int:
        """Coefficients in all."""
        return self.cells * self.outputs

    @cached_property
    def format(self) -> Number:
        """2 row + bit: per coefficient, reports of -1 and of +1."""
        return Number((self.rows, 2))

    @property
    def variance(self) -> float:
        """Of one coefficient."""
        return self.rows / self.contrast**2

    @property
    def norms(self) -> Floats:
        """Squared norms are 1 / these: 2 for every axis whose degree is not zero."""
        return as_floats(2.0 ** (self.degrees > 0).sum(axis=1))

    def basis(self, unit: Floats, degrees: Ints) -> Floats:
        """Return the basis at points ``(n, d)``, for degrees broadcast against them ``(.., d)``."""
        return as_floats(np.cos(np.pi * unit * degrees).prod(axis=-1))

    def draw(self, users: Users, source: WordSource) -> Ints:
        """Draw a coefficient, then its bit."""
        return self.draw_at(users, uniform(self.rows, users.label.size, source), source)

    def draw_at(self, users: Users, row: Ints, source: WordSource) -> Ints:
        """Draw the bit of the coefficient given."""
        value = self._value(users, row)
        share = np.floor((1 + value) * 2.0 ** (HALF - 1)).clip(0, 2.0**HALF).astype(np.uint64)
        weight = np.uint64(self.flip) + share * np.uint64((WORD - 2 * self.flip) >> HALF)
        return 2 * row + (source.words(row.size) < weight)

    def _value(self, users: Users, row: Ints) -> Floats:
        value = self.basis(users.unit, self.degrees[row // self.outputs])
        told = 2 * users.label - 1 if self.classes == 2 else users.label == row % self.outputs
        return np.where(users.outside, 0.0, value * told)

    def simulate(self, users: Users, rng: np.random.Generator, total: int | None = None) -> Tally:
        """Draw a bit per user; for a ``total`` the sums themselves: the bits of a coefficient have one mean."""
        if total is not None:
            counts = rng.multinomial(total, np.full(self.rows, 1 / self.rows))
            plus = rng.binomial(counts, (1 + self.contrast * self._means(users)) / 2)
            return Tally(np.column_stack([counts - plus, plus]).astype(np.int64), np.array([total]))
        found = self.empty()
        for run in blocks(users.label.size, 4):
            part = users.part(run)
            row = rng.integers(self.rows, size=part.label.size)
            bit = rng.random(row.size) < (1 + self.contrast * self._value(part, row)) / 2
            found = found + self.tally(2 * row + bit)
        return found

    def _means(self, users: Users) -> Floats:
        """Return every coefficient's mean over the users ``(rows,)``."""
        told = (2 * users.label - 1)[:, None] if self.classes == 2 else users.label[:, None] == np.arange(self.classes)
        told = np.where(users.outside[:, None], 0, told)
        sums = np.zeros((self.cells, self.outputs))
        for run in blocks(users.label.size, self.cells * self.d):
            sums += self.basis(users.unit[run, None, :], self.degrees).T @ told[run]
        return as_floats(sums.ravel() / users.label.size)

    def estimate(self, tally: Tally) -> Floats:
        """Return the unbiased coefficients ``(coefficients, outputs)``."""
        lead = tally.counts[:, 1] - tally.counts[:, 0]
        return as_floats(lead * self.rows / (self.contrast * tally.users[0])).reshape(self.cells, self.outputs)

    def shortened(self, coefficients: Floats, noise: float) -> Floats:
        """Return the coefficients up to the total degree of the least estimated risk, zeros above."""
        degree = self.degrees.sum(axis=1)
        gain = self.norms * (2 * noise * self.outputs - (coefficients**2).sum(axis=1))
        risk = np.cumsum(np.bincount(degree, weights=gain, minlength=self.m + 1))
        return np.where((degree <= np.argmin(risk))[:, None], coefficients, 0.0)

    def evaluate(self, coefficients: Floats, unit: Floats) -> Floats:
        """Return the series at points ``(n, d)``: scores ``(n, outputs)``."""
        weights = coefficients * self.norms[:, None]
        runs = blocks(len(unit), self.cells * self.d)
        return np.concatenate([self.basis(unit[run, None, :], self.degrees) @ weights for run in runs])


def _degrees(most: int, d: int) -> Ints:
    """Return all exponents of total degree at most ``most``."""
    rows: list[tuple[int, ...]] = [()]
    for _ in range(d):
        rows = [(*row, k) for row, k in product(rows, range(most + 1)) if sum(row) + k <= most]
    return np.array(rows, dtype=np.int64)
