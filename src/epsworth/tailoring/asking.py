"""What classifiers answer of public records, as numbers of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers import Classifier, ClassifierError
from epsworth.records import Records
from epsworth.release.copies import Indices
from epsworth.release.grids import Grid

TOGETHER = 1 << 16  # records that a classifier is asked about at once


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
    """

    classifiers: tuple[Classifier, ...]
    records: Records
    positions: tuple[int, ...]
    grids: tuple[Grid, ...]

    def labels(self, rows: Indices, places: Indices | None = None) -> list[NDArray[Any]]:
        """Return each classifier's labels of some records, as they stand or with sensitive columns at other places.

        Parameters
        ----------
        places : ndarray of int, shape ``(rows, sensitive)``, optional
        """
        parts: list[list[NDArray[Any]]] = [[] for _ in self.classifiers]
        for start in range(0, max(1, len(rows)), TOGETHER):
            part = slice(start, start + TOGETHER)
            replaced = None if places is None else self._replaced(places[part])
            table = self.records.take(np.asarray(rows[part], dtype=np.intp), replaced)
            for found, classifier in zip(parts, self.classifiers, strict=True):
                found.append(self._answer(classifier, table, replaced is not None))
        return [np.concatenate(found) for found in parts]

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
            told = (str(error).strip() or "no message").splitlines()[0]
            which = "records with values of the policy's grids in place" if placed else "the public records"
            raise ClassifierError(f"{classifier.name} could not answer {which}: {told}") from None


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
