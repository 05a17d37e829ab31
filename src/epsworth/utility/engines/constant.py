"""Classifiers that know one label: it stays for certain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsworth.bounds import Interval
from epsworth.classifiers.reading import library_class, steps_of
from epsworth.utility.engines.engine import ByRecord, RecordResult, Settings, records_of
from epsworth.utility.problem import Problem


def knows_one_label(problem: Problem) -> bool:
    """Tell whether a model of the library, which answers itself, can give one label only."""
    model, classes = problem.classifier.inside, problem.classifier.classes
    if model is None or classes is None:
        return False
    last, _ = steps_of(model)
    constant = library_class(last) == "DummyClassifier" and last.strategy in ("most_frequent", "prior", "constant")
    return constant or len(classes) == 1


class Constant(ByRecord):
    """Asks nothing: there is no other label."""

    name, reason = "constant", "the classifier gives one label only"
    reading = knows_one_label

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse whoever may give another label."""
        return None if self.read(problem) else "the classifier may give more than one label"

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield 1 for the label, and 0 for any other."""
        own, other = (Interval(*np.full((2, *problem.shape[:2]), value)) for value in (1.0, 0.0))
        for record, labels in records_of(problem):
            yield RecordResult(record, [own, other][: len(labels)], 1)
