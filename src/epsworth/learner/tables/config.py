"""`TableConfig`: what a population is asked about a real table, in which rounds, by public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools
from epsworth.guarantees import Central
from epsworth.learner.coins import WORD, Ints, checked_epsilon, flip_weight
from epsworth.learner.config import (
    Configuration,
    Law,
    Rows,
    check_choice,
    checked_classes,
    checked_labels,
    plain_epsilon,
    shuffled_reports,
)
from epsworth.learner.encoding import label_positions, names_of, number_of, positions_of, table_of
from epsworth.learner.mechanism import checked_users
from epsworth.learner.tables.columns import Category, Column, Records, checked_columns, column_told
from epsworth.mechanisms.rational import Exact
from epsworth.numerals import short
from epsworth.values import numbers

Prior = Literal["estimated", "balanced"]
Purpose = Literal["quantiles", "tables", "weights", "validation"]
MOST_ROWS = 10**6  # of one round
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


class Share(NamedTuple):
    """One round: what it asks for, and of which share of the users."""

    purpose: Purpose
    share: Fraction


@dataclass(frozen=True)
class TableConfig(Configuration):
    """What is asked about a table of numbers and categories with one report per user.

    Claim: every user answers in one round only, and a report keeps pure epsilon-LDP for the record, label included,
    whatever its values: all rounds together cost a user epsilon.

    Parameters
    ----------
    columns : sequence of Number and Category
        The features, with public ranges and values.
    classes, epsilon
        As for `LatticeConfig`.
    users : int
        How many are expected: chooses the rounds, and nothing rests on it.
    rounds : {"auto", "additive", "linear", "ramp", "weighted"}
        "auto" chooses by users, columns, classes and epsilon, and is replaced by what it chose.
    prior : {"estimated", "balanced"}
        "balanced": as if every label were as common, for a high balanced accuracy.
    rows : {"drawn", "hash"}
        Who answers which round, and which row: "drawn" by clients; or "hash" of a public seed and a registered id, so
        that fakes choose neither: see `assigned_rounds` and `assigned_rows`.

    Examples
    --------
    >>> from epsworth.learner import Category, Number, TableConfig
    >>> columns = [Number("age", 0, 100), Category("job", ("none", "clerk", "nurse"))]
    >>> config = TableConfig(columns, ("no", "yes"), epsilon=1, users=100_000)
    >>> config.rounds, [(purpose, float(share)) for purpose, share in config.shares]
    ('weighted', [('quantiles', 0.2), ('tables', 0.6), ('weights', 0.2)])
    """

    FORMAT: ClassVar[str] = "epsworth-table-1"
    names = property(lambda self: tuple(column.name for column in self.columns), doc="The columns' names.")
    KEYS: ClassVar[tuple[str, ...]] = ("columns", "classes", "epsilon", "users", "rounds", "prior", "rows")
    NEEDED: ClassVar[tuple[str, ...]] = ("columns", "epsilon", "users")
    HASHED: ClassVar[str] = "epsworth table learner"

    columns: Any
    classes: Any = (0, 1)
    epsilon: Exact = math.nan
    users: int = 0
    rounds: str = "auto"
    prior: Prior = "estimated"
    rows: Rows = "drawn"

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "columns", checked_columns(self.columns))
        fix(self, "classes", checked_classes(self.classes))
        fix(self, "epsilon", plain_epsilon(checked_epsilon(self.epsilon)))
        fix(self, "users", checked_users(self.users, "it is how many are expected to report"))
        check_choice("prior", self.prior, get_args(Prior))
        check_choice("rows", self.rows, get_args(Rows))
        if self.rounds == "auto":
            fix(self, "rounds", self._by_rule().regime)
        if self.rounds not in REGIMES:
            raise ValueError(f"rounds must be auto or one of {', '.join(REGIMES)}, got {short(self.rounds)}")
        if len(self.classes) > 2 and self.rounds != "additive":
            raise ValueError(f"rounds={self.rounds!r} knows two classes, got {len(self.classes)}; use additive")

        sides, pairs = sum(column.side for column in self.columns), len(self.columns) ** 2 // 2
        if max(self.characters * sides, pairs) > MOST_ROWS:
            raise ValueError(
                f"columns and classes give more than {MOST_ROWS:,} rows; declare fewer columns, values or labels"
            )

    @property
    def characters(self) -> int:
        """Characters of the label: the power of two that holds all classes."""
        return 1 << (len(self.classes) - 1).bit_length()

    def _by_rule(self) -> Plan:
        return planned(self.users, len(self.columns), len(self.classes), self.contrast)

    @property
    def contrast(self) -> float:
        """tanh(epsilon / 2), of the integer weights."""
        return float(1 - Fraction(2 * flip_weight(self.budget), WORD))

    @cached_property
    def plan(self) -> Plan:
        """The rounds."""
        found = self._by_rule()
        return found if found.regime == self.rounds else Plan.named(self.rounds)

    @property
    def shares(self) -> tuple[Share, ...]:
        """The rounds in order, each with its share of the users."""
        plan, numbers = self.plan, any(not hasattr(column, "values") for column in self.columns)
        found = [Share("quantiles", plan.quantiles)] if plan.quantiles and numbers else []
        found.append(Share("tables", plan.tables + (0 if numbers else plan.quantiles)))
        found += [Share("weights", plan.weights)] if plan.weights else []
        return (*found, *([Share("validation", plan.validation)] if plan.validation else []))

    def shuffled(
        self, *, delta: float, users: int | None = None, fakes: int = 0, smallest_row: int | None = None
    ) -> Central:
        """Return what all rounds keep behind an anonymising shuffler, as `LatticeConfig.shuffled` does for one batch.

        Claim: every round is a batch of its own, and everybody answers in one round, chosen without a look at the
        record; so the promise of the smallest round holds for all of them together.

        ``users`` are the reports of the smallest round that arrived; unless said, its share of ``config.users``, which
        the shuffler must then wait for.  ``delta`` lies well below one over them; the others are of any round.
        """
        count = int(min(share for _, share in self.shares) * self.users) if users is None else users
        return shuffled_reports(self.guarantee, Law("any"), self.rows, count, delta, fakes, smallest_row)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": self.FORMAT, "columns": [column_told(column) for column in self.columns],
            "classes": list(self.classes), "epsilon": self.epsilon, "users": self.users, "rounds": self.rounds,
            "prior": self.prior, "rows": self.rows,
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> TableConfig:
        """Read the JSON form."""
        return cls(**{key: document[key] for key in cls.KEYS if key in document})

    def admitted(self, X: ArrayLike, y: Any) -> Records:
        """Return the users as their reports will state them: a value that cannot be used is missing, a label none."""
        place, known = self._coded(X)
        return Records(place, known, label_positions(self.known, y, len(place)))

    def checked(self, X: ArrayLike, y: Any) -> Records:
        """Return the users of an experiment; refuse what is not declared, naming rows and columns, never values."""
        found = self.admitted(X, y)
        for j, column in enumerate(self.columns):
            if not column.missing and not found.known[:, j].all():
                row = int(np.argmin(found.known[:, j]))
                raise ValueError(
                    f"row {row}, {column.name}: the value is missing or not declared; declare it, or missing=True"
                )
        checked_labels(self.classes, found.label)
        return found

    def points(self, X: ArrayLike) -> Records:
        """Return the rows of a table without labels."""
        place, known = self._coded(X)
        return Records(place, known, np.zeros(len(place), dtype=np.int64))

    def _coded(self, X: Any) -> tuple[Ints, Bools]:
        """Return the places of entries ``(n, d)`` of a frame or of rows, and which are known."""
        if (given := names_of(X)) is not None:
            self.check_columns(given)
        columns = table_of(X, len(self.names), ", ".join(self.names))
        with np.errstate(all="ignore"):
            told = [_coded(column, own) for column, own in zip(self.columns, columns, strict=True)]
        place, known = zip(*told, strict=True)
        return np.column_stack(place), np.column_stack(known)


def _coded(column: Column, values: NDArray[Any]) -> tuple[Ints, Bools]:
    if isinstance(column, Category):
        found = positions_of(column.known, values)
        return np.maximum(found, 0), found >= 0
    natural = numbers(values, number_of)
    return column.place(natural), ~np.isnan(natural)
