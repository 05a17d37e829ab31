"""`TableConfig`: what a population is asked about a real table, and in which rounds; all of it public."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from epsworth.documents import in_words, read_json
from epsworth.files import reading, write_text
from epsworth.guarantees import Central, Pure
from epsworth.learner.amplification import Law, shuffled_reports
from epsworth.learner.coins import WORD, checked_epsilon, flip_weight
from epsworth.learner.config import Rows, checked_classes, plain_epsilon, shown
from epsworth.learner.entries import Values
from epsworth.learner.mechanism import checked_users
from epsworth.learner.tables.columns import Column, checked_columns, column_told
from epsworth.learner.tables.regimes import REGIMES, Plan, planned
from epsworth.mechanisms.rational import Exact, stated
from epsworth.numerals import short
from epsworth.rounding import float_above

FORMAT = "epsworth-table-1"
Prior = Literal["estimated", "balanced"]
Purpose = Literal["quantiles", "tables", "weights", "validation"]
MOST_ROWS = 10**6  # of one round
KEYS = ("columns", "classes", "epsilon", "users", "rounds", "prior", "rows")


class Share(NamedTuple):
    """One round: what it asks for, and of which share of the users."""

    purpose: Purpose
    share: Fraction


@dataclass(frozen=True)
class TableConfig:
    """What is asked about a table of numbers and categories with one report per user.

    Claim: every user answers in one round only, and a report keeps pure epsilon-LDP for the record, label included,
    whatever its values: all rounds together cost a user epsilon.

    Parameters
    ----------
    columns : sequence of Number and Category
        The features, with public ranges and values.
    classes : sequence
        The public labels, at least two.
    epsilon : number or text
        Privacy parameter of a whole report.
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
        if self.prior not in get_args(Prior):
            raise ValueError(f"prior must be one of {', '.join(get_args(Prior))}, got {shown(self.prior)}")
        if self.rows not in get_args(Rows):
            raise ValueError(f"rows must be one of {', '.join(get_args(Rows))}, got {shown(self.rows)}")
        if self.rounds == "auto":
            fix(self, "rounds", self._by_rule().regime)
        if self.rounds not in REGIMES:
            raise ValueError(f"rounds must be auto or one of {', '.join(REGIMES)}, got {shown(self.rounds)}")
        if len(self.classes) > 2 and self.rounds != "additive":
            raise ValueError(f"rounds={self.rounds!r} knows two classes, got {len(self.classes)}; use additive")

        if self._most_rows() > MOST_ROWS:
            raise ValueError(
                f"columns and classes give more than {MOST_ROWS:,} rows; declare fewer columns, values or labels"
            )

    def _most_rows(self) -> int:
        """Return a bound on how many rows a round may have."""
        characters = 1 << (len(self.classes) - 1).bit_length()
        d = len(self.columns)
        return int(max(characters * sum(column.side for column in self.columns), d * d // 2))

    def _by_rule(self) -> Plan:
        return planned(self.users, len(self.columns), len(self.classes), self.contrast)

    @property
    def budget(self) -> Fraction:
        """Epsilon, exactly."""
        return stated(self.epsilon, "epsilon")

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
        """Return what all rounds keep behind an anonymising shuffler: see `epsworth.shuffled`.

        Claim: every round is a batch of its own, and everybody answers in one round, chosen without a look at the
        record; so the promise of the smallest round holds for all of them together.

        Parameters
        ----------
        delta : float
            Central, well below one over the users of the smallest round.
        users : int, optional
            Reports of the smallest round that arrived; unless said, its share of ``config.users``, which the shuffler
            must then wait for.
        fakes, smallest_row : int
            As for `LatticeConfig.shuffled`, of any round.

        Raises
        ------
        ValueError
            As for `LatticeConfig.shuffled`.

        Examples
        --------
        >>> from epsworth.learner import Number, TableConfig
        >>> config = TableConfig([Number("a", 0, 1), Number("b", 0, 1)], (0, 1), epsilon=1, users=100_000)
        >>> found = config.shuffled(delta=1e-6)
        >>> found.users == int(min(share for _, share in config.shares) * 100_000), found.bound
        (True, 'any')
        """
        count = int(min(share for _, share in self.shares) * self.users) if users is None else users
        return shuffled_reports(
            Pure(float_above(self.budget), "record"), Law("any"), rows=self.rows, users=count, delta=delta, fakes=fakes,
            smallest_row=smallest_row,
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def known(self) -> Values:
        """Which label an entry of a record is."""
        return Values(self.classes)

    def column(self, name: str) -> Column:
        """Return the column of a name."""
        return self.columns[self.names.index(name)]  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": FORMAT, "columns": [column_told(column) for column in self.columns],
            "classes": list(self.classes), "epsilon": self.epsilon, "users": self.users, "rounds": self.rounds,
            "prior": self.prior, "rows": self.rows,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TableConfig:
        """Read the JSON form; a stated fingerprint must be the content's."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write one with epsworth learn config")
        for key in document:
            if key not in (*KEYS, "format", "fingerprint"):
                raise ValueError(f"{short(key)}: unknown entry; the entries are {', '.join(KEYS)}")
        for key in ("columns", "epsilon", "users"):
            if key not in document:
                raise ValueError(f"{key}: is missing from the configuration")
        config = cls(**{key: document[key] for key in KEYS if key in document})
        if document.get("fingerprint", config.fingerprint()) != config.fingerprint():
            raise ValueError("fingerprint: it is not the content's; the configuration was edited after it was written")
        return config

    def fingerprint(self) -> str:
        """Return the hash of all entries."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        told = self.to_dict() | {"epsilon": str(self.budget)}
        return hashlib.sha256(f"epsworth table learner: {canonical(told)}".encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(path, json.dumps(self.to_dict() | {"fingerprint": self.fingerprint()}, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> TableConfig:
        """Read a JSON file."""
        with reading(path, "configuration") as content:
            try:
                return cls.from_dict(read_json(content))
            except (TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)})") from None


def canonical(document: Any) -> str:
    """Return the one text of a JSON document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
