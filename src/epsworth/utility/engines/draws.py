"""Perturbed copies of records, counts of a classifier's answers to them, and bounds that looks have paid for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Look
from epsworth.records import Indices
from epsworth.utility.engines.digests import labels_of, labels_text
from epsworth.utility.engines.engine import Counts, Progress, Settings
from epsworth.utility.problem import Problem

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

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.batch = min(settings.batch, KEPT) if settings.state.active else settings.batch
        self.queries = 0
        self.seen: list[set[Any]] = [{label} for label in problem.labels.tolist()]

    def perturbed(self, m: int, e: int, rows: Indices, u: Floats) -> Task:
        """Turn uniforms, shape ``(*rows.shape, .., sensitive)``, into perturbed copies of ``rows``."""
        problem = self.problem
        x = problem.unit[rows].reshape(*rows.shape, *(1,) * (u.ndim - 1 - rows.ndim), -1)
        values, inside = [], np.ones(u[..., 0].size, dtype=bool)
        for j, mechanism in enumerate(problem.releases[m][e].mechanisms):
            unit = mechanism.law(x[..., j]).from_uniform(u[..., j]).ravel()
            values.append(problem.features[j].from_unit(unit, points=mechanism.points))
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
            if sum(t.size for t in waiting) >= self.problem.pace.size(self.settings.batch):
                self._ask(waiting, sink, answered)
                after(len(waiting))
                waiting = []
        if waiting:
            self._ask(waiting, sink, answered)
            after(len(waiting))

    def _ask(self, tasks: list[Task], sink: Sink, answered: Callable[[int], None]) -> None:
        problem = self.problem
        rows = np.concatenate([np.repeat(t.records, t.copies) for t in tasks])
        values = [np.concatenate([t.values[j] for t in tasks]) for j in range(len(problem.features))]
        labels = problem.ask(rows, values, answered)
        agree = labels == problem.labels[rows]
        right = agree if problem.y is None else labels == problem.y[rows]
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

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Take over the state of an earlier run."""
        self.queries, self.seen = int(saved["queries"]), labels_of(saved["seen"])


@dataclass(eq=False)
class Tally:
    """Running counts and the bounds drawn from them, for points of one shape.

    ``agree`` counts labels equal to the record's own, ``right`` labels equal to y.  ``open`` points are still drawn;
    ``looked`` holds the number of points that each look so far was paid for, ``tasks`` counts those finished since.
    Bounds change in `look` only: between two looks they are those of the last one, whenever a run is stopped.
    """

    shape: tuple[int, ...]
    agree: Counts = field(init=False)
    right: Counts = field(init=False)
    stability: Interval = field(init=False)
    accuracy: Interval = field(init=False)
    open: NDArray[np.bool_] = field(init=False)
    looked: list[int] = field(init=False, default_factory=list)
    tasks: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.agree, self.right = np.zeros(self.shape, np.int64), np.zeros(self.shape, np.int64)
        self.stability = Interval(np.zeros(self.shape), np.ones(self.shape))
        self.accuracy = Interval(np.zeros(self.shape), np.ones(self.shape))
        self.open = np.ones(self.shape, dtype=bool)

    def look(self, at: Look, with_accuracy: bool) -> None:
        """Tighten the bounds of open points; intersecting with earlier looks keeps them nested."""
        open_ = self.open
        pairs = [(self.agree, self.stability)] + ([(self.right, self.accuracy)] if with_accuracy else [])
        for counts, bounds in pairs:
            now = at.risk.interval(counts[open_], at.draws)
            bounds.lower[open_] = np.maximum(bounds.lower[open_], now.lower)
            bounds.upper[open_] = np.minimum(bounds.upper[open_], now.upper)
        self.looked.append(int(open_.sum()) * len(pairs))
        self.tasks = 0

    def state(self) -> dict[str, Any]:
        """Return what a run that goes on needs, in copies."""
        arrays = {"agree": self.agree, "right": self.right, "stability": np.stack(self.stability),
                  "accuracy": np.stack(self.accuracy), "open": self.open}  # fmt: skip
        counts = {"looked": json.dumps(self.looked), "tasks": self.tasks}
        return counts | {name: array.copy() for name, array in arrays.items()}

    def restore(self, saved: Mapping[str, NDArray[Any]], schedule: Sequence[Look]) -> None:
        """Take over the state of an earlier run, and pay for the looks that it made."""
        looked = json.loads(str(saved["looked"]))
        for name in ("agree", "right"):
            getattr(self, name)[...] = saved[name]
        for name in ("stability", "accuracy"):
            lower, upper = saved[name]
            getattr(self, name).lower[...], getattr(self, name).upper[...] = lower, upper
        self.open, self.looked, self.tasks = saved["open"].copy(), looked, int(saved["tasks"])
        for look, bounds in zip(schedule, looked, strict=False):
            look.risk.spend(bounds)

    def unsettled(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the points whose intervals are still wide and on both sides of the target."""
        open_ = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            undecided = (bounds.lower < target) & ((bounds.upper >= target) | (target > 1))
            open_ |= (bounds.upper - bounds.lower > 2 * tolerance) & undecided
        return open_

    def rivals(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the records (last axis) that may still lower a worst case that is not decided."""
        rivals = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            worst = bounds.upper.min(axis=-1, keepdims=True)
            open_ = (worst >= target) | (target > 1)
            rivals |= (bounds.lower < worst - 2 * tolerance) & (bounds.lower < target) & open_
        return rivals
