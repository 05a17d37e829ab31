"""Randomised response on the label itself: the closed form, for any classifier whose labels are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
