"""Engines that ask nothing: randomised response on the label itself, and classifiers that know one label."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsworth.bounds import Interval
from epsworth.classifiers.reading import library_class, steps_of
from epsworth.guarantees import ceiling
from epsworth.utility.engines.contraction import mass_error, outward
from epsworth.utility.engines.engine import ByRecord, RecordResult, Settings, records_of
from epsworth.utility.problem import Problem


class Label(ByRecord):
    """Keeps the label as often as the ceiling of the record's budget allows; all others come equally often."""

    name, reason = "label", "the label itself is randomised"
    perturbs_label = True
    remedy = "give a fitted estimator, or Classifier(..., classes=...)"

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse classifiers whose labels nobody knows."""
        return "label_rr needs to know all labels" if problem.classifier.classes is None else None

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield exact bounds."""
        classes = problem.classifier.classes or ()
        totals = [[release.guarantee.epsilon for release in row] for row in problem.releases]
        kept = np.array([[ceiling(total, len(classes)) for total in row] for row in totals])
        if len(classes) > 1:
            kept = np.minimum(kept, np.nextafter(1, 0))  # never quite 1, whatever a double holds
        shares = kept, (1 - kept) / max(len(classes) - 1, 1), 0 * kept
        own, other, none = (outward(share, mass_error(2)) for share in shares)
        for record, labels in records_of(problem):
            others = [other if label in classes else none for label in labels[1:]]
            yield RecordResult(record, [own, *others], len(classes))


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
