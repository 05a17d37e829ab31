"""Classifiers that know one label: it stays for certain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsworth.bounds import Interval
from epsworth.classifiers.reading import library_class, steps_of
from epsworth.utility.engines.engine import ByRecord, Found, Settings, records_of
from epsworth.utility.question import Question


def knows_one_label(question: Question) -> bool:
    """Tell whether a model of the library, which answers itself, can give one label only."""
    model, classes = question.classifier.inside, question.classifier.classes
    if model is None or classes is None:
        return False
    last, _ = steps_of(model)
    constant = library_class(last) == "DummyClassifier" and last.strategy in ("most_frequent", "prior", "constant")
    return constant or len(classes) == 1


class Constant(ByRecord):
    """Asks nothing: there is no other label."""

    name, because = "constant", "the classifier gives one label only"
    reading = knows_one_label

    def lacks(self, question: Question, m: int) -> str | None:
        """Refuse whoever may give another label."""
        return None if self.read(question) else "the classifier may give more than one label"

    def found(self, question: Question, settings: Settings) -> Iterator[Found]:
        """Yield 1 for the label, and 0 for any other."""
        own, other = (Interval(*np.full((2, *question.shape[:2]), value)) for value in (1.0, 0.0))
        for record, labels in records_of(question):
            yield Found(record, [own, other][: len(labels)], 1)
