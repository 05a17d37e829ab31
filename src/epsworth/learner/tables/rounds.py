"""`Round`: what the users of one round are asked, with what earlier rounds published; clients hold no more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from numpy.typing import ArrayLike

from epsworth.documents import in_words, read_json
from epsworth.files import reading, write_text
from epsworth.guarantees import Pure
from epsworth.learner.config import PREFIX
from epsworth.learner.tables import reading as door
from epsworth.learner.tables.columns import BINS, EVEN, FINE, Category, Knots, Records
from epsworth.learner.tables.config import Purpose, TableConfig, canonical
from epsworth.learner.tables.kernels import Products, Question, Signs, Votes
from epsworth.learner.tables.rows import Rows, quantile_rows, table_rows
from epsworth.learner.tables.scores import Alive, Binary
from epsworth.rounding import float_above

FORMAT = "epsworth-round-1"
WIDEST = 1 << 46  # of a published score / 2^32: far beyond what logarithms of floored densities reach


@dataclass(frozen=True, eq=False)
class Round:
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

    config: TableConfig
    purpose: Purpose
    knots: tuple[Knots | None, ...] | None = None
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

    @property
    def session(self) -> str:
        """What all rounds share: a record answers in one of them."""
        return self.config.fingerprint()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return self.config.names

    @property
    def epsilon(self) -> Any:
        """Privacy parameter of a report."""
        return self.config.epsilon

    @property
    def guarantee(self) -> Pure:
        """What one report keeps."""
        return self.promise(1)

    def promise(self, reports: int) -> Pure:
        """Return what so many reports of one user keep together, of this round or of several."""
        return Pure(float_above(reports * self.config.budget), "record")

    @cached_property
    def report_size(self) -> int:
        """Bytes of one report: fingerprint, message, check."""
        return PREFIX + self.kernel.format.size + 4

    def admitted(self, X: ArrayLike, y: Any) -> Records:
        """Return users as a client takes them: nobody is refused."""
        return door.admitted(self.config, X, y)

    def checked(self, X: ArrayLike, y: Any) -> Records:
        """Return users of an experiment: values that are not declared are refused."""
        return door.checked(self.config, X, y)

    def fingerprint(self) -> str:
        """Return the hash of all that is asked; every report carries its beginning."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        told = self.to_dict() | {"config": self.config.fingerprint()}
        return hashlib.sha256(f"epsworth round: {canonical(told)}".encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found: dict[str, Any] = {"format": FORMAT, "config": self.config.to_dict(), "purpose": self.purpose}
        if self.knots is not None:
            found["knots"] = [None if own is None else list(own) for own in self.knots]
        if self.scores is not None:
            found["scores"] = {str(j): list(s) for j, s in zip(self.scores.columns, self.scores.scores, strict=True)}
        if self.candidates:
            found["candidates"] = [
                {"intercept": one.intercept, "tables": [list(t) for t in one.tables], "missing": list(one.missing)}
                for one in self.candidates
            ]
        return found

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Round:
        """Read the JSON form; whatever does not fit the configuration is refused."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write one with epsworth learn open")
        config = TableConfig.from_dict(document["config"])
        purpose, sides = document["purpose"], [_bins(column) for column in config.columns]
        if purpose not in get_args(Purpose):
            raise ValueError(f"purpose must be one of {', '.join(get_args(Purpose))}")
        knots = document.get("knots")
        scores, candidates = document.get("scores"), document.get("candidates", [])
        found = cls(
            config, purpose,
            None if knots is None else tuple(_knots(own, c) for own, c in zip(knots, config.columns, strict=True)),
            None if scores is None else Alive(
                tuple(int(j) for j in scores),
                tuple(_whole(own, sides[int(j)]) for j, own in scores.items()),
            ),
            tuple(
                Binary(
                    _whole([one["intercept"]], 1)[0],
                    tuple(_whole(t, side) for t, side in zip(one["tables"], sides, strict=True)),
                    _whole(one["missing"], len(sides)),
                )
                for one in candidates
            ),
        )  # fmt: skip
        if (purpose == "weights") != (found.scores is not None) or (purpose == "validation") != bool(found.candidates):
            raise ValueError("the round lacks what it asks about, or holds more; open it again")
        if document.get("fingerprint", found.fingerprint()) != found.fingerprint():
            raise ValueError("fingerprint: it is not the content's; the round was edited after it was written")
        return found

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all: what every client of this round gets."""
        write_text(path, json.dumps(self.to_dict() | {"fingerprint": self.fingerprint()}) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Round:
        """Read a JSON file."""
        with reading(path, "round") as content:
            try:
                return cls.from_dict(read_json(content))
            except (TypeError, KeyError, AttributeError, IndexError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)})") from None


def _bins(column: Any) -> int:
    return column.bins if isinstance(column, Category) else BINS


def _knots(own: Any, column: Any) -> Knots | None:
    if isinstance(column, Category):
        if own is not None:
            raise ValueError(f"knots: {column.name} is a category and has none; open the round again")
        return None
    found = _whole(own, FINE + 1)
    if found[0] != 0 or found[-1] != 1 << 32 or any(b < a for a, b in pairwise(found)):
        raise ValueError(f"knots: those of {column.name} must rise from 0 to 2^32; open the round again")
    return found


def _whole(entries: Sequence[Any], count: int) -> tuple[int, ...]:
    if not isinstance(entries, (list, tuple)) or len(entries) != count:
        raise ValueError(f"must be {count} whole numbers; open the round again")
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int) or abs(entry) > WIDEST:
            raise ValueError("must be whole numbers of modest size; open the round again")
    return tuple(entries)
