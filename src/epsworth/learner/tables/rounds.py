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
from epsworth.guarantees import Central
from epsworth.learner.amplification import Law, shuffled_reports
from epsworth.learner.coins import Ints
from epsworth.learner.config import Asked, LatticeConfig
from epsworth.learner.encoding import signs
from epsworth.learner.mechanism import Mechanism, Question, Users
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
from epsworth.learner.tables.model import TableClassifier
from epsworth.learner.tables.scores import UNIT, Additive, Alive, Binary, differences

SILENT = 0.0  # what a record that lacks what a row asks for is worth: its bit is a fair coin
Maps = tuple[Knots | None, ...]  # of every number one that evens out the bins; of categories none
WIDEST = 1 << 46  # of a published score / 2^32: far beyond what logarithms of floored densities reach
BANDS = {"labels": 16, "probabilities": 32}
KERNELS = {"labels": "hadamard", "probabilities": "oue"}
REACH = 3.0  # spreads of the score on either side that have bands of their own
LEAST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class Signs(Question):
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
class Products(Question):
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
class Votes(Question):
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


class Step(Asked):
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

    def shuffled(self, *, users: int, delta: float, fakes: int = 0, smallest_row: int | None = None) -> Central:
        """Return what this step's reports keep behind an anonymising shuffler: see `LatticeConfig.shuffled`."""
        given: dict[str, Any] = {"users": users, "delta": delta, "fakes": fakes, "smallest_row": smallest_row}
        return shuffled_reports(self.guarantee, Law("any"), rows=self.rows, **given)

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
        characters = 1 << (len(self.config.classes) - 1).bit_length()
        return table_rows(columns, characters, plan.orders, steep=plan.steep)

    @cached_property
    def kernel(self) -> Question:
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
        share = next(one.share for one in self.config.shares if one.purpose == self.purpose)
        return int(share * self.config.users)

    @property
    def mechanism(self) -> str:
        """What it asks for."""
        return f"{self.purpose} of a table"

    def admitted(self, X: ArrayLike, y: Any) -> Records:
        """Return users as a client takes them: nobody is refused."""
        return self.config.admitted(X, y)

    def checked(self, X: ArrayLike, y: Any) -> Records:
        """Return users of an experiment: values that are not declared are refused."""
        return self.config.checked(X, y)

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
        if purpose == "quantiles" and all(isinstance(column, Category) for column in config.columns):
            raise ValueError("categories have no quantiles; open the round again")
        return found


def read_knots(document: Any, config: TableConfig) -> Maps | None:
    """Read maps of a configuration's columns, or none."""
    if document is None:
        return None
    if not isinstance(document, (list, tuple)) or len(document) != len(config.columns):
        raise ValueError(f"knots must be a list of {len(config.columns)}, one per column; open the round again")
    found: list[Knots | None] = []
    for own, column in zip(document, config.columns, strict=True):
        if isinstance(column, Category):
            if own is not None:
                raise ValueError(f"knots: {column.name} is a category and has none; open the round again")
            found.append(None)
            continue
        found.append(rising := _whole("knots", own, FINE + 1))
        if rising[0] != 0 or rising[-1] != 1 << 32 or any(b < a for a, b in pairwise(rising)):
            raise ValueError(f"knots: those of {column.name} must rise from 0 to 2^32; open the round again")
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


@dataclass(frozen=True, eq=False)
class ScoreAudit(Step):
    """A question about a published classifier of two labels, for users who answered in none of its rounds.

    Claim: a report keeps pure epsilon-LDP for the record, label included.  Scores and bands are fixed before these
    users report, which makes the certificates of `AuditedClassifier` exact.

    Attributes
    ----------
    config, knots
        Of the table, as in `Round`.
    score : Binary
        The score of the second label less that of the first, in whole numbers: the same on every device.
    about : {"labels", "probabilities"}
    middle, spread : int
        Of the scores, in the same units: where the bands lie.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Aggregator, Client, Number, ScoreAudit, TableConfig, learn_table
    >>> X = np.random.default_rng(0).uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audit = ScoreAudit.of(model)
    >>> Aggregator(audit).add(Client(audit).reports(X[:3], y[:3]))
    3
    """

    FORMAT: ClassVar[str] = "epsworth-score-audit-1"
    WORD: ClassVar[str] = "audit"
    KEYS: ClassVar[tuple[str, ...]] = ("config", "about", "score", "knots", "middle", "spread")
    NEEDED: ClassVar[tuple[str, ...]] = KEYS
    HASHED: ClassVar[str] = "epsworth audit"

    config: TableConfig
    knots: Maps | None
    score: Binary
    about: str
    middle: int
    spread: int

    def __post_init__(self) -> None:
        if len(self.config.classes) != 2:
            raise ValueError(f"an audit is about two labels, got {len(self.config.classes)}")
        if self.about not in BANDS:
            raise ValueError(f"about must be one of {', '.join(BANDS)}, got {self.about!r}")
        if self.config.rows == "hash" and self.about != "labels":
            raise ValueError("rows='hash' is for audits about labels; reports about probabilities have no rows")

    @classmethod
    def of(cls, model: TableClassifier, about: str = "labels") -> ScoreAudit:
        """Return the audit of a classifier of two labels; refuse any other.

        Certificates need the sign of a band's labels alone, ``about="labels"``; "probabilities" need both labels'
        shares, which costs another report and more users.
        """
        knots = None if model.knots is None else tuple(model.knots)
        if len(model.classes_) != 2:
            raise ValueError(f"an audit is about two labels, got {len(model.classes_)}; learn one against the rest")
        middle, spread = _typical(model.scoring)
        return cls(model.config, knots, Binary.of(model.scoring), about, middle, spread)

    @cached_property
    def bands(self) -> LatticeConfig:
        """The question itself: cells of one feature, the score."""
        reach = REACH * self.spread
        box = [((self.middle - reach) / UNIT, (self.middle + reach) / UNIT)]
        return LatticeConfig(
            box, BANDS[self.about], 1, self.config.classes, KERNELS[self.about], self.config.epsilon, "clip",
            ("score",), self.config.rows,
        )  # fmt: skip

    @property
    def kernel(self) -> Mechanism:
        """How a user answers."""
        return self.bands.kernel

    @property
    def mechanism(self) -> str:
        """What it asks for."""
        return "audit of a table"

    def admitted(self, X: ArrayLike, y: Any) -> Users:
        """Return users as a client takes them: nobody is refused."""
        return self._users(self.config.admitted(X, y))

    def checked(self, X: ArrayLike, y: Any) -> Users:
        """Return users of an experiment: values that are not declared are refused."""
        return self._users(self.config.checked(X, y))

    def scores(self, X: ArrayLike) -> Floats:
        """Return the published score of every row ``(n, 1)``; whatever a row holds, it has one."""
        return self._scores(self.config.points(X))

    def _scores(self, records: Records) -> Floats:
        bins = binned(self.config.columns, records.place, self.knots)
        return as_floats(self.score.totals(bins, records.known)[:, None] / UNIT)

    def _users(self, records: Records) -> Users:
        unit, _ = self.bands.scaled(self._scores(records))
        return Users(unit, np.maximum(records.label, 0), records.label < 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": self.FORMAT, "config": self.config.to_dict(), "about": self.about, "score": self.score.to_dict(),
            "knots": self.knots, "middle": self.middle,
            "spread": self.spread,
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ScoreAudit:
        """Read the JSON form; whatever does not fit the configuration is refused."""
        config = TableConfig.from_dict(document["config"])
        middle, spread = document["middle"], document["spread"]
        for name, found, least in (("middle", middle, -WIDEST), ("spread", spread, 1)):
            if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= WIDEST:
                raise ValueError(f"{name} must be a whole number of modest size; write the audit again")
        knots, score = read_knots(document["knots"], config), read_binary(document["score"], config)
        return cls(config, knots, score, document["about"], middle, spread)


def _typical(model: Additive) -> tuple[int, int]:
    """Return the middle and the spread of scores if bins were even and columns independent: public numbers alone."""
    start = float(model.intercept[1] - model.intercept[0])
    own = differences(model)
    spread = float(np.sqrt(sum(float(np.var(score)) for score in own)))
    middle = start + sum(float(score.mean()) for score in own)
    return round(middle * UNIT), max(round(spread * UNIT), round(LEAST_SPREAD * UNIT))
