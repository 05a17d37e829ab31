"""Which rounds there are, and how many users answer each: chosen from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Regime = Literal["additive", "linear", "ramp", "weighted"]
REGIMES: tuple[Regime, ...] = ("additive", "linear", "ramp", "weighted")
QUANTILES, WEIGHTS, VALIDATION = Fraction(1, 5), Fraction(1, 5), Fraction(1, 10)  # shares of the users
MOST_BY_CELLS = 4  # features of which cells know more: of more, columns are looked at one by one
MANY, FEW = 7, 3  # orders of a number's table
# per row of a table, over what one answer weighs: below, rows would be noise (constants chosen on real tables)
ENOUGH = 60.0
ORDERS = (10.0, 60.0)  # of more labels than two: answers per column and character with which orders 2 and 3 are asked
CLEAR = 0.09  # standard error of a correlation with which weights are worth a round
SURE = 0.008  # standard error of an accuracy with which a choice between two classifiers is worth one


@dataclass(frozen=True)
class Plan:
    """The rounds: the regime, orders per number, shares of users for quantiles, weights and validation."""

    regime: Regime
    orders: int
    quantiles: Fraction = Fraction(0)
    weights: Fraction = Fraction(0)
    validation: Fraction = Fraction(0)

    @classmethod
    def named(cls, regime: str) -> Plan:
        """Return the rounds of a regime that was asked for by name."""
        return {
            "additive": cls("additive", FEW, QUANTILES), "linear": cls("linear", 1),
            "ramp": cls("ramp", FEW, QUANTILES), "weighted": cls("weighted", FEW, QUANTILES, WEIGHTS),
        }[regime]  # fmt: skip

    @property
    def tables(self) -> Fraction:
        """The share of users that the tables are asked of: all others."""
        return 1 - self.quantiles - self.weights - self.validation

    @property
    def steep(self) -> bool:
        """Whether higher orders are asked rarely, since a line stands in for them."""
        return self.regime in ("linear", "ramp")


def planned(users: int, features: int, classes: int, contrast: float) -> Plan:
    """Return the rounds that suit so many users, features and classes; ``contrast`` is tanh(epsilon / 2)."""
    told = users * contrast**2  # honest answers that the users are worth
    if classes > 2:
        characters = 1 << (classes - 1).bit_length()
        each = told / (features * characters)
        clear = float(1 - QUANTILES) * each / MANY >= ENOUGH
        return Plan("additive", MANY if clear else sum(each >= least for least in (0.0, *ORDERS)), QUANTILES)
    if told / features**2 < ENOUGH:
        return Plan("linear", 1)
    pairs = features * (features - 1) / 2
    if pairs == 0 or math.sqrt(pairs / (float(WEIGHTS) * users)) / contrast > CLEAR:
        return Plan("ramp", FEW, QUANTILES)
    choice = 1 / (2 * contrast * math.sqrt(float(VALIDATION) / 2 * users)) <= SURE
    return Plan("weighted", FEW, QUANTILES, WEIGHTS, VALIDATION if choice else Fraction(0))
