"""Perturbed copies of records, and the counts of a classifier's answers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.records import Indices
from epsworth.utility.engines.checkpoint import labels_of, labels_text
from epsworth.utility.engines.engine import Counts, Progress, Settings
from epsworth.utility.question import Question

KEPT = 8_192  # rows of a task of a run that is kept: what is lost of it at most, with the step that was stopped


@dataclass(frozen=True, eq=False)
class Task:
    """``copies`` perturbed copies of each of ``records``, side by side, at one (mechanism, epsilon).

    ``values`` are the sensitive columns in natural units; ``inside`` tells which rows stayed in their ranges.
    """

    mechanism: int
    epsilon: int
    records: Indices
    copies: int
    values: list[NDArray[Any]]
    inside: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Rows to ask about."""
        return self.records.size * self.copies


Sink = Callable[[Task, NDArray[np.bool_], NDArray[np.bool_]], None]


class Sampler:
    """Draws, asks and counts; knows nothing about confidence."""

    def __init__(self, question: Question, settings: Settings) -> None:
        self.question, self.settings = question, settings
        self.batch = min(settings.batch, KEPT) if settings.kept.wanted else settings.batch
        self.queries = 0
        self.seen: list[set[Any]] = [{label} for label in question.labels.tolist()]

    def perturbed(self, m: int, e: int, rows: Indices, u: Floats) -> Task:
        """Turn uniforms, shape ``(*rows.shape, .., sensitive)``, into perturbed copies of ``rows``."""
        question = self.question
        x = question.unit[rows].reshape(*rows.shape, *(1,) * (u.ndim - 1 - rows.ndim), -1)
        values, inside = [], np.ones(u[..., 0].size, dtype=bool)
        for j, mechanism in enumerate(question.releases[m][e].mechanisms):
            unit = mechanism.law(x[..., j]).from_uniform(u[..., j]).ravel()
            values.append(question.features[j].from_unit(unit, points=mechanism.points))
            if mechanism.output == "real line":
                inside &= (unit >= 0) & (unit <= 1)
        return Task(m, e, rows, inside.size // rows.size, values, inside)

    def run(
        self, tasks: Iterator[Task], sink: Sink, expected: int, progress: Progress, after: Callable[[int], None]
    ) -> None:
        """Ask in batches of at most about ``batch`` rows; hand each task's agreements to ``sink``.

        Progress is told with every step of a query, by the share of the ``expected`` rows; ``after`` is told how many
        tasks are finished with each batch.
        """
        before = self.queries

        def answered(rows: int) -> None:
            self.queries += rows
            progress((self.queries - before) / max(expected, 1))

        waiting: list[Task] = []
        for task in tasks:
            waiting.append(task)
            if sum(t.size for t in waiting) >= self.question.pace.size(self.settings.batch):
                self._ask(waiting, sink, answered)
                after(len(waiting))
                waiting = []
        if waiting:
            self._ask(waiting, sink, answered)
            after(len(waiting))

    def _ask(self, tasks: list[Task], sink: Sink, answered: Callable[[int], None]) -> None:
        question = self.question
        rows = np.concatenate([np.repeat(t.records, t.copies) for t in tasks])
        values = [np.concatenate([t.values[j] for t in tasks]) for j in range(len(question.features))]
        labels = question.ask(rows, values, answered)
        agree = labels == question.labels[rows]
        right = agree if question.y is None else labels == question.y[rows]
        self._remember(rows, labels, ~agree & np.concatenate([t.inside for t in tasks]))
        start = 0
        for task in tasks:
            part = slice(start, start + task.size)
            sink(task, agree[part], right[part])
            start += task.size

    def _remember(self, rows: Indices, labels: NDArray[Any], other: NDArray[np.bool_]) -> None:
        """Note which other labels a record's sensitive features can produce within their ranges."""
        rows, labels = rows[other], labels[other]
        kinds = set(labels.tolist()) if labels.dtype == object else set(np.unique(labels).tolist())
        for kind in kinds:
            for row in np.unique(rows[labels == kind]).tolist():
                self.seen[row].add(kind)

    @property
    def labels_possible(self) -> Counts:
        """Number of labels seen per record, its own included."""
        return np.array([len(labels) for labels in self.seen], dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """Return what a run that goes on needs."""
        return {"queries": self.queries, "seen": labels_text(self.seen)}

    def restore(self, found: Mapping[str, NDArray[Any]]) -> None:
        """Take over the state of an earlier run."""
        self.queries, self.seen = int(found["queries"]), labels_of(found["seen"])
