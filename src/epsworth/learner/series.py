"""A bounded series instead of cells: each user reports one random coefficient of a cosine basis as a randomised bit."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from math import comb
from typing import final

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import Mechanism, Question, Tally, Users, blocks


@final
class Cosine(Question, Mechanism):
    """Products of cos(pi k u) of total degree at most m, times the signed label (or each class's indicator)."""

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
    def weights(self) -> Ints:
        """All coefficients alike."""
        return np.ones(self.rows, dtype=np.int64)

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

    def values(self, users: Users, row: Ints) -> Floats:
        """Return the basis times the signed label; 0 for whoever states nothing."""
        value = self.basis(users.unit, self.degrees[row // self.outputs])
        told = 2 * users.label - 1 if self.classes == 2 else users.label == row % self.outputs
        return np.where(users.outside, 0.0, value * told)

    def means(self, users: Users) -> Floats:
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
    rows: list[tuple[int, ...]] = [()]
    for _ in range(d):
        rows = [(*row, k) for row, k in product(rows, range(most + 1)) if sum(row) + k <= most]
    return np.array(rows, dtype=np.int64)
