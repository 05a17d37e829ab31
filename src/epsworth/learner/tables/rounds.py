"""What users of a table are asked at one time, and how they answer: a `Round`, or a `ScoreAudit` of what was learnt.

A record answers one step of a session; clients hold no more than the step and what earlier ones published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.config import ClientConfig
from epsworth.learner.encoding import signs
from epsworth.learner.mechanism import Query
from epsworth.learner.tables.columns import (
    EVEN,
    FINE,
    Category,
    Column,
    Knots,
    Records,
    Rows,
    binned,
    fine_bins,
    quantile_rows,
    table_rows,
)
from epsworth.learner.tables.config import Purpose, TableConfig
from epsworth.learner.tables.scores import Alive, Binary

SILENT = 0.0  # what a record that lacks what a row asks for is worth: its bit is a fair coin
Maps = tuple[Knots | None, ...]  # of every number one that evens out the bins; of categories none
WIDEST = 1 << 46  # of a published score / 2^32: far beyond what logarithms of floored densities reach


@dataclass(frozen=True, eq=False)
class Signs(Query):
    """Signs over the bins of a column times a character of the label."""

    epsilon: Fraction
    rows: Rows
    columns: tuple[Column, ...]
    knots: tuple[Knots | None, ...] | None  # None: the 32 equal bins of the range
    classes: int

    @property
    def weights(self) -> Ints:
        """The rows' whole weights."""
        return self.rows.weight

    def bins(self, records: Records) -> Ints:
        """Return every user's bins ``(n, d)``."""
        if self.knots is not None:
            return binned(self.columns, records.place, self.knots)
        numbers = [not isinstance(column, Category) for column in self.columns]
        return np.where(numbers, fine_bins(records.place), records.place)

    def values(self, records: Records, row: Ints) -> Floats:
        """Return signs; 0 where the value or the label that a row asks about is missing."""
        rows, user = self.rows, np.arange(row.size)
        column, character = rows.column[row], rows.character[row]
        own = np.maximum(column, 0)
        told = (records.known[user, own] | (column < 0)) & ((records.label >= 0) | (character == 0))
        found = signs(rows.mask[row], character, self.bins(records)[user, own], np.maximum(records.label, 0))
        return as_floats(np.where(told, found, SILENT))

    def row_name(self, row: int) -> str:
        """Say what it is about."""
        j, order, character = (int(part[row]) for part in (self.rows.column, self.rows.order, self.rows.character))
        about = "the label alone" if j < 0 else f"{self.columns[j].name}, order {order}"
        return f"row {row} ({about}, character {character} of the label)"

    def means(self, records: Records) -> Floats:
        """Return every row's mean, from one table of bins and labels per column; nobody's label is one more."""
        bins, found, labels = self.bins(records), np.zeros(len(self.rows)), self.classes + 1
        label = np.where(records.label < 0, self.classes, records.label)
        for j in np.unique(self.rows.column):
            at = np.flatnonzero(self.rows.column == j)
            known, own = (records.known[:, j], bins[:, j]) if j >= 0 else (label >= 0, 0 * label)
            counts = np.bincount((own * labels + label)[known])
            some = np.flatnonzero(counts)
            mask, character = self.rows.mask[at, None], self.rows.character[at, None]
            sent = signs(mask, character, some // labels, some % labels)
            silent = (character > 0) & (some % labels == self.classes)
            found[at] = np.where(silent, SILENT, sent) @ counts[some] / label.size
        return found


@dataclass(frozen=True, eq=False)
class Products(Query):
    """Products of two columns' published scores, each over its largest size: what weights are learnt from."""

    epsilon: Fraction
    scores: Alive
    signs: Signs  # which bins

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The two columns of every row."""
        first, second = np.triu_indices(len(self.scores.columns), 1)
        return first.astype(np.int64), second.astype(np.int64)

    @cached_property
    def weights(self) -> Ints:
        """All pairs alike."""
        return np.ones(self.pairs[0].size, dtype=np.int64)

    def shares_of(self, records: Records) -> Floats:
        """Return every user's scores over their largest sizes ``(n, live)``, 0 where the value is missing."""
        bins = self.signs.bins(records)
        found = np.zeros((records.label.size, len(self.scores.columns)))
        for i, (j, score) in enumerate(zip(self.scores.columns, self.scores.shares, strict=True)):
            found[:, i] = np.where(records.known[:, j], score[np.minimum(bins[:, j], len(score) - 1)], SILENT)
        return found

    def values(self, records: Records, row: Ints) -> Floats:
        """Return the products: of two doubles, never of integers, which would overflow."""
        (first, second), own, at = self.pairs, self.shares_of(records), np.arange(row.size)
        return as_floats(own[at, first[row]] * own[at, second[row]])

    def means(self, records: Records) -> Floats:
        """Return every pair's mean product."""
        own = self.shares_of(records)
        return as_floats((own.T @ own / len(own))[self.pairs])


@dataclass(frozen=True, eq=False)
class Votes(Query):
    """Whether one of the published candidates, drawn at random, is right about the user's own label."""

    epsilon: Fraction
    candidates: tuple[Binary, ...]
    signs: Signs

    @property
    def weights(self) -> Ints:
        """All candidates alike."""
        return np.ones(len(self.candidates), dtype=np.int64)

    def right(self, records: Records) -> Floats:
        """Return +1 where a candidate is right, else -1 ``(n, candidates)``; an undeclared label is never right."""
        bins = self.signs.bins(records)
        found = [one.numbers(bins, records.known) == records.label for one in self.candidates]
        return as_floats(2.0 * np.column_stack(found) - 1)

    def values(self, records: Records, row: Ints) -> Floats:
        """Return the signs of the candidates that were drawn."""
        return as_floats(self.right(records)[np.arange(row.size), row])

    def means(self, records: Records) -> Floats:
        """Return every candidate's mean."""
        return as_floats(self.right(records).mean(axis=0))


class Step(ClientConfig):
    """What clients and server of one step share: a table's configuration, and what was published before."""

    config: TableConfig

    classes = property(lambda self: self.config.classes)
    epsilon = property(lambda self: self.config.epsilon)
    names = property(lambda self: self.config.names)
    rows = property(lambda self: self.config.rows)

    @property
    def session(self) -> str:
        """What all steps share: a record answers in one of them."""
        return self.config.fingerprint()

    def users_of(self, records: Records) -> Any:
        """Return coded records as the kernel takes them."""
        return records

    def admitted(self, X: ArrayLike, y: Any) -> Any:
        """Return users as a client takes them: nobody is refused."""
        return self.users_of(self.config.admitted(X, y))

    def checked(self, X: ArrayLike, y: Any) -> Any:
        """Return users of an experiment: values that are not declared are refused."""
        return self.users_of(self.config.checked(X, y))

    def hashed(self) -> dict[str, Any]:
        """Return what the fingerprint tells apart."""
        return self.to_dict() | {"config": self.config.fingerprint()}

    @classmethod
    def of_file(cls, document: Any) -> Self:
        """Read what a file holds, with its fingerprint."""
        found = super().of_file(document)
        if "fingerprint" not in document:
            raise ValueError(f"fingerprint is missing; the {cls.WORD} was edited after it was written")
        return found


@dataclass(frozen=True, eq=False)
class Round(Step):
    """One round of questions: what a client needs to report, and a server to add reports up.

    Claim: a report keeps pure epsilon-LDP for the record, label included, whatever its values and whatever was
    published before: the row does not look at the record, and the bit is randomised.

    Attributes
    ----------
    config : TableConfig
    purpose : {"quantiles", "tables", "weights", "validation"}
    knots, scores, candidates
        What earlier rounds found, and this one asks about: maps that even out the bins, a column each; the scores that
        weights multiply; two classifiers to compare.

    Examples
    --------
    >>> from epsworth.learner import Client, Number, TableConfig, TableLearner
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> asked = TableLearner(TableConfig(columns, (0, 1), epsilon=1, users=100_000)).open()
    >>> asked.purpose, len(Client(asked).report([0.1, 0.2, 0.3, 0.4, 0.5], 1))
    ('quantiles', 15)
    """

    FORMAT: ClassVar[str] = "epsworth-round-1"
    WORD: ClassVar[str] = "round"
    KEYS: ClassVar[tuple[str, ...]] = ("config", "purpose", "knots", "scores", "candidates")
    NEEDED: ClassVar[tuple[str, ...]] = ("config", "purpose")
    HASHED: ClassVar[str] = "epsworth round"

    config: TableConfig
    purpose: Purpose
    knots: Maps | None = None
    scores: Alive | None = None
    candidates: tuple[Binary, ...] = ()

    @cached_property
    def sign_rows(self) -> Rows:
        """The rows of signs: of quantiles, or of the tables."""
        columns, plan = self.config.columns, self.config.plan
        if self.purpose == "quantiles":
            return quantile_rows(columns)
        return table_rows(columns, self.config.characters, plan.orders, steep=plan.steep)

    @cached_property
    def kernel(self) -> Query:
        """How a user answers."""
        config = self.config
        fine = self.purpose == "quantiles"
        knots = None if fine else self.knots or tuple(EVEN for _ in config.columns)
        signs = Signs(config.budget, self.sign_rows, config.columns, knots, len(config.classes))
        if self.purpose == "weights":
            assert self.scores is not None
            return Products(config.budget, self.scores, signs)
        return Votes(config.budget, self.candidates, signs) if self.purpose == "validation" else signs

    @property
    def users(self) -> int:
        """How many users are expected to answer."""
        return int(dict(self.config.shares)[self.purpose] * self.config.users)

    @property
    def mechanism(self) -> str:
        """What it asks for."""
        return f"{self.purpose} of a table"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found: dict[str, Any] = {"format": self.FORMAT, "config": self.config.to_dict(), "purpose": self.purpose}
        if self.knots is not None:
            found["knots"] = self.knots
        if self.scores is not None:
            found["scores"] = {str(j): s for j, s in zip(self.scores.columns, self.scores.scores, strict=True)}
        if self.candidates:
            found["candidates"] = [one.to_dict() for one in self.candidates]
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Round:
        """Read the JSON form; whatever does not fit the configuration is refused."""
        config, purpose = TableConfig.from_dict(document["config"]), document["purpose"]
        asked = [one.purpose for one in config.shares]
        if purpose not in asked:
            raise ValueError(f"purpose must be one of {', '.join(asked)}, the configuration's rounds; open it again")
        candidates = document.get("candidates", [])
        if not isinstance(candidates, list) or len(candidates) not in (0, 2):
            raise ValueError("candidates must be two classifiers, or none; open the round again")
        found = cls(
            config, purpose, read_knots(document.get("knots"), config), _alive(document.get("scores"), config),
            tuple(read_binary(one, config) for one in candidates),
        )  # fmt: skip
        if (purpose == "weights") != (found.scores is not None) or (purpose == "validation") != bool(found.candidates):
            raise ValueError("the round lacks what it asks about, or holds more; open it again")
        return found


def read_knots(document: Any, config: TableConfig) -> Maps | None:
    """Read maps of a configuration's columns, or none."""
    if document is None:
        return None
    if not isinstance(document, (list, tuple)) or len(document) != len(config.columns):
        raise ValueError(f"knots must be a list of {len(config.columns)}, one per column; open the round again")
    found: list[Knots | None] = []
    for own, column in zip(document, config.columns, strict=True):
        rising = None if isinstance(column, Category) else _whole("knots", own, FINE + 1)
        if rising and (rising[0] != 0 or rising[-1] != 1 << 32 or any(b < a for a, b in pairwise(rising))):
            raise ValueError(f"knots: those of {column.name} must rise from 0 to 2^32; open the round again")
        found.append(rising)
    return tuple(found)


def _alive(document: Any, config: TableConfig) -> Alive | None:
    if document is None:
        return None
    known = {str(j): column.bins for j, column in enumerate(config.columns)}
    if not isinstance(document, Mapping) or len(document) < 2 or not set(document) <= set(known):
        raise ValueError("scores must be tables of two columns or more, by their numbers; open the round again")
    order = sorted(document, key=int)
    return Alive(tuple(map(int, order)), tuple(_whole("scores", document[j], known[j]) for j in order))


def read_binary(document: Any, config: TableConfig) -> Binary:
    """Read a published classifier of a configuration's columns."""
    sides = [column.bins for column in config.columns]
    if not isinstance(document, Mapping) or not {"intercept", "tables", "missing"} <= set(document):
        raise ValueError("a score must have intercept, tables and missing; write it again")
    given = document["tables"]
    if not isinstance(given, list) or len(given) != len(sides):
        raise ValueError(f"tables must be a list of {len(sides)}, one per column; write it again")
    tables = tuple(_whole("tables", t, side) for t, side in zip(given, sides, strict=True))
    (start,) = _whole("intercept", [document["intercept"]], 1)
    return Binary(start, tables, _whole("missing", document["missing"], len(sides)))


def _whole(field: str, entries: Any, count: int) -> tuple[int, ...]:
    if not isinstance(entries, (list, tuple)) or len(entries) != count:
        raise ValueError(f"{field} must be {count} whole numbers; write it again")
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int) or abs(entry) > WIDEST:
            raise ValueError(f"{field} must be whole numbers from -2^46 to 2^46; write it again")
    return tuple(entries)
