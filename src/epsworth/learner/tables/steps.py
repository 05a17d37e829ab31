"""`Step`: what users of a table are asked at one time; a record answers one step of a session."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from epsworth.documents import in_words, read_json
from epsworth.files import reading, write_text
from epsworth.guarantees import Central, Pure
from epsworth.learner.amplification import Law, shuffled_reports
from epsworth.learner.config import PREFIX
from epsworth.learner.mechanism import Mechanism
from epsworth.learner.tables.config import TableConfig, canonical
from epsworth.learner.tables.kernels import Question
from epsworth.numerals import short
from epsworth.rounding import float_above


class Step(ABC):
    """What clients and server of one step share: a table's configuration, and what was published before.

    Attributes
    ----------
    config : TableConfig
    """

    FORMAT: ClassVar[str]
    KEYS: ClassVar[tuple[str, ...]]
    NEEDED: ClassVar[tuple[str, ...]]
    WORD: ClassVar[str]  # what messages call it
    config: TableConfig

    @property
    @abstractmethod
    def kernel(self) -> Mechanism | Question:
        """How a user answers."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What it asks for."""

    @property
    @abstractmethod
    def rows(self) -> str:
        """Whether clients draw their rows, or these follow from their ids."""

    @abstractmethod
    def admitted(self, X: ArrayLike, y: Any) -> Any:
        """Return users as a client takes them: nobody is refused."""

    @abstractmethod
    def checked(self, X: ArrayLike, y: Any) -> Any:
        """Return users of an experiment: values that are not declared are refused."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""

    @classmethod
    @abstractmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the JSON form of this format; whatever does not fit the configuration is refused."""

    @property
    def session(self) -> str:
        """What all steps share: a record answers in one of them."""
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
        """Return what so many reports of one user keep together, of this step or of several."""
        return Pure(float_above(reports * self.config.budget), "record")

    def shuffled(self, *, users: int, delta: float, fakes: int = 0, smallest_row: int | None = None) -> Central:
        """Return what this step's reports keep behind an anonymising shuffler: see `LatticeConfig.shuffled`."""
        given: dict[str, Any] = {"users": users, "delta": delta, "fakes": fakes, "smallest_row": smallest_row}
        return shuffled_reports(self.guarantee, Law("any"), rows=self.rows, **given)

    @cached_property
    def report_size(self) -> int:
        """Bytes of one report: fingerprint, message, check."""
        return PREFIX + int(self.kernel.format.size) + 4

    def fingerprint(self) -> str:
        """Return the hash of all that is asked; every report carries its beginning."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        told = self.to_dict() | {"config": self.config.fingerprint()}
        return hashlib.sha256(f"epsworth {self.WORD}: {canonical(told)}".encode()).hexdigest()

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read the JSON form; a stated fingerprint must be the content's."""
        if not isinstance(document, Mapping) or document.get("format") != cls.FORMAT:
            raise ValueError(f"this is not an {cls.FORMAT} document; write one with epsworth learn")
        for name in document:
            if name not in (*cls.KEYS, "format", "config", "fingerprint"):
                raise ValueError(f"{short(name)}: unknown entry; the {cls.WORD} was edited after it was written")
        for name in ("config", *cls.NEEDED):
            if name not in document:
                raise ValueError(f"{name}: is missing from the {cls.WORD}; write it again")
        found = cls.read(document)
        if document.get("fingerprint", found.fingerprint()) != found.fingerprint():
            raise ValueError(f"fingerprint: it is not the content's; the {cls.WORD} was edited after it was written")
        return found

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all: what every client of this step gets."""
        write_text(path, json.dumps(self.to_dict() | {"fingerprint": self.fingerprint()}) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a JSON file."""
        with reading(path, cls.WORD) as content:
            try:
                document = read_json(content)
                found = cls.from_dict(document)
                if "fingerprint" not in document:
                    raise ValueError(f"fingerprint is missing; the {cls.WORD} was edited after it was written")
                return found
            except (TypeError, KeyError, AttributeError, IndexError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)})") from None
