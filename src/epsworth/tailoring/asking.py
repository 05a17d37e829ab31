"""What classifiers answer of public records, as numbers of regions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers import Classifier, ClassifierError
from epsworth.keeping import Arrays, Keeping
from epsworth.parallel import in_order
from epsworth.records import Records
from epsworth.release.copies import Indices
from epsworth.release.grids import Grid

TOGETHER = 1 << 16  # records that a classifier is asked about at once
PIECE = 1 << 13  # the same where workers may share them
VALUES = re.compile(r"\[.*\]|'[^']*'|\"[^\"]*\"")  # of records, in the words of a library
Batch = tuple[Indices, Indices | None]  # rows, and places of their sensitive columns


@dataclass(frozen=True, eq=False)
class Asked:
    """Classifiers and records whose sensitive columns are replaced by values on grids.

    Attributes
    ----------
    classifiers : tuple of Classifier
    records : Records
    positions : tuple of int
        The sensitive columns among the records'.
    grids : tuple of Grid
        Theirs.
    n_jobs : int, optional
        Workers that share the records of a question, where the classifiers can be sent to them.
    kept : Keeping, optional
        Where answers of an earlier run lie, and new ones are left.
    """

    classifiers: tuple[Classifier, ...]
    records: Records
    positions: tuple[int, ...]
    grids: tuple[Grid, ...]
    n_jobs: int | None = None
    kept: Keeping | None = None

    def labels(self, rows: Indices, places: Indices | None = None) -> list[NDArray[Any]]:
        """Return each classifier's labels of some records, as they stand or with sensitive columns at other places.

        Parameters
        ----------
        places : ndarray of int, shape ``(rows, sensitive)``, optional
        """
        here = all(classifier.inside is not None for classifier in self.classifiers)
        size = PIECE if here else TOGETHER  # the same whoever does the work: rounding may depend on it
        pieces = [slice(start, start + size) for start in range(0, max(1, len(rows)), size)]
        batches = [(rows[part], None if places is None else places[part]) for part in pieces]
        n_jobs = self.n_jobs if here and len(pieces) > 1 else 1
        answering = _Answering(replace(self, n_jobs=None, kept=None))
        found = list(in_order(answering, batches, n_jobs=n_jobs, kept=self.kept))
        return [np.concatenate(one) for one in zip(*found, strict=True)]

    def answers(self, batch: Batch) -> list[NDArray[Any]]:
        """Return each classifier's labels of a piece."""
        rows, places = batch
        replaced = None if places is None else self._replaced(places)
        table = self.records.take(np.asarray(rows, dtype=np.intp), replaced)
        return [self._answer(classifier, table, replaced is not None) for classifier in self.classifiers]

    def _replaced(self, places: Indices) -> Mapping[int, NDArray[Any]]:
        return {
            p: grid.values[places[:, j]] for j, (p, grid) in enumerate(zip(self.positions, self.grids, strict=True))
        }

    def _answer(self, classifier: Classifier, table: Any, placed: bool) -> NDArray[Any]:
        if not len(table):
            return np.empty(0, dtype=object)
        try:
            return classifier.labels(table)
        except (ClassifierError, ValueError, TypeError) as error:
            which = "records with values of the policy's grids in place" if placed else "the public records"
            raise cannot_answer(classifier, which, error) from None


@dataclass(frozen=True, eq=False)
class _Answering:
    """Answers of classifiers, as arrays too."""

    asked: Asked

    def __call__(self, batch: Batch) -> list[NDArray[Any]]:
        """Return each classifier's labels of a piece."""
        return self.asked.answers(batch)

    def arrays(self, found: list[NDArray[Any]]) -> Arrays:
        """Return what is kept of a piece."""
        return {f"{number}": labels for number, labels in enumerate(found)}

    def read(self, batch: Batch, arrays: Arrays) -> list[NDArray[Any]]:
        """Return what was kept of a piece."""
        return [arrays[f"{number}"] for number in range(len(self.asked.classifiers))]


def cannot_answer(classifier: Classifier, which: str, error: Exception) -> ClassifierError:
    """Return the refusal of a classifier that fails; what it says of records is not shown."""
    told = VALUES.sub("...", (str(error).strip() or "no message").splitlines()[0])
    return ClassifierError(f"{classifier.name} could not answer {which}: {told}")


class Codes:
    """Numbers of labels; -1 for one that is none of them."""

    def __init__(self, labels: Sequence[Any]) -> None:
        self.labels = tuple(labels)

    @classmethod
    def of(cls, classifier: Classifier, seen: NDArray[Any]) -> Codes:
        """Return the labels that a classifier can give: those it lists, or else those that were seen."""
        if classifier.classes is not None:
            return cls(classifier.classes)
        return cls(sorted(set(seen.tolist()), key=lambda label: (str(type(label)), label)))

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def __call__(self, labels: NDArray[Any]) -> Indices:
        """Return the numbers of labels."""
        return np.array([self._numbers.get(label, -1) for label in labels.tolist()], dtype=np.int64)  # of any kinds
