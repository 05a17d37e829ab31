"""`Round`: what the users of one round are asked, with what earlier rounds published; clients hold no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from epsworth.learner.tables import reading as door
from epsworth.learner.tables.columns import BINS, EVEN, FINE, Category, Knots, Records
from epsworth.learner.tables.config import Purpose, TableConfig
from epsworth.learner.tables.kernels import Products, Question, Signs, Votes
from epsworth.learner.tables.rows import Rows, quantile_rows, table_rows
from epsworth.learner.tables.scores import Alive, Binary
from epsworth.learner.tables.steps import Step

Maps = tuple[Knots | None, ...]  # of every number one that evens out the bins; of categories none
WIDEST = 1 << 46  # of a published score / 2^32: far beyond what logarithms of floored densities reach


@dataclass(frozen=True, eq=False)
class Round(Step):
    """One round of questions: what a client needs to report, and a server to add reports up.

    Claim: a report keeps pure epsilon-LDP for the record, label included, whatever its values and whatever was
    published before: the row does not look at the record, and the bit is randomised.

    Attributes
    ----------
    config : TableConfig
    purpose : {"quantiles", "tables", "weights", "validation"}
    knots : tuple, one per column
        Of the maps that even out the bins, from the round of quantiles; None for categories, or before that round.
    scores : Alive, optional
        What the round of weights multiplies.
    candidates : tuple of Binary
        What the round of validation compares.

    Examples
    --------
    >>> from epsworth.learner import Client, Number, TableConfig, TableLearner
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> asked = TableLearner(TableConfig(columns, (0, 1), epsilon=1, users=100_000)).open()
    >>> asked.purpose, len(Client(asked).report([0.1, 0.2, 0.3, 0.4, 0.5], 1))
    ('quantiles', 14)
    """

    FORMAT: ClassVar[str] = "epsworth-round-1"
    WORD: ClassVar[str] = "round"
    KEYS: ClassVar[tuple[str, ...]] = ("purpose", "knots", "scores", "candidates")
    NEEDED: ClassVar[tuple[str, ...]] = ("purpose",)

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

    @property
    def rows(self) -> str:
        """Whether clients draw their rows, or these follow from their ids."""
        return str(self.config.rows)

    def admitted(self, X: ArrayLike, y: Any) -> Records:
        """Return users as a client takes them: nobody is refused."""
        return door.admitted(self.config, X, y)

    def checked(self, X: ArrayLike, y: Any) -> Records:
        """Return users of an experiment: values that are not declared are refused."""
        return door.checked(self.config, X, y)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found: dict[str, Any] = {"format": self.FORMAT, "config": self.config.to_dict(), "purpose": self.purpose}
        if self.knots is not None:
            found["knots"] = knots_told(self.knots)
        if self.scores is not None:
            found["scores"] = {str(j): list(s) for j, s in zip(self.scores.columns, self.scores.scores, strict=True)}
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


def _bins(column: Any) -> int:
    return column.bins if isinstance(column, Category) else BINS


def knots_told(knots: Maps) -> list[list[int] | None]:
    """Return the JSON form of maps."""
    return [None if own is None else list(own) for own in knots]


def read_knots(document: Any, config: TableConfig) -> Maps | None:
    """Read maps of a configuration's columns, or none."""
    if document is None:
        return None
    if not isinstance(document, list) or len(document) != len(config.columns):
        raise ValueError(f"knots must be a list of {len(config.columns)}, one per column; open the round again")
    return tuple(_knots(own, column) for own, column in zip(document, config.columns, strict=True))


def _alive(document: Any, config: TableConfig) -> Alive | None:
    """Read the published scores of the columns that say something."""
    if document is None:
        return None
    known = {str(j): _bins(column) for j, column in enumerate(config.columns)}
    if not isinstance(document, Mapping) or len(document) < 2 or not set(document) <= set(known):
        raise ValueError("scores must be tables of two columns or more, by their numbers; open the round again")
    order = sorted(document, key=int)
    return Alive(tuple(map(int, order)), tuple(_whole("scores", document[j], known[j]) for j in order))


def read_binary(document: Any, config: TableConfig) -> Binary:
    """Read a published classifier of a configuration's columns."""
    sides = [_bins(column) for column in config.columns]
    if not isinstance(document, Mapping) or not {"intercept", "tables", "missing"} <= set(document):
        raise ValueError("a score must have intercept, tables and missing; write it again")
    given = document["tables"]
    if not isinstance(given, list) or len(given) != len(sides):
        raise ValueError(f"tables must be a list of {len(sides)}, one per column; write it again")
    tables = tuple(_whole("tables", t, side) for t, side in zip(given, sides, strict=True))
    (start,) = _whole("intercept", [document["intercept"]], 1)
    return Binary(start, tables, _whole("missing", document["missing"], len(sides)))


def _knots(own: Any, column: Any) -> Knots | None:
    if isinstance(column, Category):
        if own is not None:
            raise ValueError(f"knots: {column.name} is a category and has none; open the round again")
        return None
    found = _whole("knots", own, FINE + 1)
    if found[0] != 0 or found[-1] != 1 << 32 or any(b < a for a, b in pairwise(found)):
        raise ValueError(f"knots: those of {column.name} must rise from 0 to 2^32; open the round again")
    return found


def _whole(field: str, entries: Any, count: int) -> tuple[int, ...]:
    if not isinstance(entries, (list, tuple)) or len(entries) != count:
        raise ValueError(f"{field} must be {count} whole numbers; write it again")
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int) or abs(entry) > WIDEST:
            raise ValueError(f"{field} must be whole numbers from -2^46 to 2^46; write it again")
    return tuple(entries)
