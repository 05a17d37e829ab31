"""The sampling engine: draw from the mechanism's own law, ask the classifier, bound the share that agrees.

Works for any classifier.  Spec of the confidence: one miss probability for the whole run is divided over
all bounds (Bonferroni) and, for each bound, spent over its looks (`epsworth.bounds.looks`), so every bound
holds together with all others whatever the stopping rules did.

Every record has a random stream of its own, and all mechanisms and epsilons read the same uniforms of it:
curves are smooth, and results depend neither on the batch size nor on which records share a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.bounds import Floats, Interval, Look, clopper_pearson, looks
from epsworth.curves import Bounds
from epsworth.engines.question import Question
from epsworth.laws import uniforms
from epsworth.records import Indices

BATCH = 65_536  # rows per query: bounds memory, amortises the classifier's overhead
FIRST_LOOK, FIRST_LOOK_OF_MANY = 256, 64

Counts = NDArray[np.int64]
Progress = Callable[[float], None]
Generators = list[np.random.Generator]


@dataclass(frozen=True)
class Settings:
    """How sure, how narrow, and when to stop.

    Attributes
    ----------
    miss : float
        Probability that any bound of the run fails.
    tolerance : float
        Half-width at which drawing stops.
    target : float or None
        Stop a point, too, as soon as its interval lies on one side of this.
    """

    miss: float
    tolerance: float
    target: float | None
    rng: np.random.Generator
    progress: Progress
    batch: int = BATCH


@dataclass(frozen=True)
class Answer:
    """What an engine returns, before the privacy indicator's coin is accounted for."""

    stability: Bounds
    accuracy: Bounds | None
    labels_possible: Counts
    queries: int


@dataclass(eq=False)
class Tally:
    """Running counts and the bounds drawn from them, for points of one shape.

    ``agree`` counts labels equal to the record's own, ``right`` labels equal to y.
    """

    shape: tuple[int, ...]
    agree: Counts = field(init=False)
    right: Counts = field(init=False)
    stability: Interval = field(init=False)
    accuracy: Interval = field(init=False)

    def __post_init__(self) -> None:
        self.agree, self.right = np.zeros(self.shape, np.int64), np.zeros(self.shape, np.int64)
        self.stability = Interval(np.zeros(self.shape), np.ones(self.shape))
        self.accuracy = Interval(np.zeros(self.shape), np.ones(self.shape))

    def look(self, at: Look, open_: NDArray[np.bool_], with_accuracy: bool) -> None:
        """Tighten the bounds of open points; intersecting with earlier looks keeps them nested."""
        pairs = [(self.agree, self.stability)] + ([(self.right, self.accuracy)] if with_accuracy else [])
        for counts, bounds in pairs:
            now = clopper_pearson(counts[open_], at.draws, at.miss)
            bounds.lower[open_] = np.maximum(bounds.lower[open_], now.lower)
            bounds.upper[open_] = np.minimum(bounds.upper[open_], now.upper)


@dataclass(frozen=True, eq=False)
class Task:
    """``copies`` perturbed copies of each of ``records``, side by side, at one (mechanism, epsilon)."""

    mechanism: int
    epsilon: int
    records: Indices
    copies: int
    unit: list[Floats]

    @property
    def size(self) -> int:
        """Rows to ask about."""
        return self.records.size * self.copies


Sink = Callable[[Task, NDArray[np.bool_], NDArray[np.bool_]], None]


class Sampler:
    """Draws, asks and counts; knows nothing about confidence."""

    def __init__(self, question: Question, settings: Settings) -> None:
        self.question, self.settings = question, settings
        self.queries = 0
        self.seen: list[set[Any]] = [{label} for label in question.labels.tolist()]

    def perturbed(self, m: int, e: int, rows: Indices, u: Floats) -> Task:
        """Turn uniforms, shape ``(*rows.shape, .., sensitive)``, into perturbed copies of ``rows``."""
        release, question = self.question.releases[m][e], self.question
        x = question.unit[rows].reshape(*rows.shape, *(1,) * (u.ndim - 1 - rows.ndim), -1)
        unit = [
            mechanism.law(x[..., j]).from_uniform(u[..., j]).ravel() for j, mechanism in enumerate(release.mechanisms)
        ]
        return Task(m, e, rows, unit[0].size // rows.size, unit)

    def run(self, tasks: Iterator[Task], sink: Sink) -> None:
        """Ask in batches of at most about ``batch`` rows; hand each task's agreements to ``sink``."""
        waiting: list[Task] = []
        for task in tasks:
            waiting.append(task)
            if sum(t.size for t in waiting) >= self.settings.batch:
                self._ask(waiting, sink)
                waiting = []
        if waiting:
            self._ask(waiting, sink)

    def _ask(self, tasks: list[Task], sink: Sink) -> None:
        question = self.question
        rows = np.concatenate([np.repeat(t.records, t.copies) for t in tasks])
        unit = [np.concatenate([t.unit[j] for t in tasks]) for j in range(len(question.features))]
        labels = question.ask(rows, unit)
        self.queries += rows.size
        agree = labels == question.labels[rows]
        right = agree if question.y is None else labels == question.y[rows]
        self._remember(rows, unit, labels, ~agree)
        start = 0
        for task in tasks:
            part = slice(start, start + task.size)
            sink(task, agree[part], right[part])
            start += task.size

    def _remember(self, rows: Indices, unit: list[Floats], labels: NDArray[Any], other: NDArray[np.bool_]) -> None:
        """Note which labels a record's sensitive features can produce *within* their ranges."""
        for values in unit:
            other = other & (values >= 0) & (values <= 1)
        if not other.any():
            return
        kinds, which = np.unique(labels[other], return_inverse=True)
        for k, kind in enumerate(kinds.tolist()):
            for row in np.unique(rows[other][which == k]).tolist():
                self.seen[row].add(kind)

    @property
    def labels_possible(self) -> Counts:
        """Number of labels seen per record, its own included."""
        return np.array([len(labels) for labels in self.seen], dtype=np.int64)


def each_record(question: Question, settings: Settings) -> Answer:
    """Bound every record at every point to the tolerance."""
    sampler = Sampler(question, settings)
    shape = question.shape
    tally, shares = Tally(shape), 1 if question.y is None else 2
    schedule = looks(settings.tolerance, settings.miss / (shares * np.prod(shape)), first=FIRST_LOOK)

    def unfinished() -> NDArray[np.bool_]:
        todo = _wide(tally.stability, settings.tolerance)
        if question.y is not None:
            todo |= _wide(tally.accuracy, settings.tolerance)
        return todo & _undecided(tally.stability, _targets(question, settings))

    _draw_records(sampler, tally, schedule, unfinished, settings.progress)
    accuracy = None if question.y is None else Bounds(*tally.accuracy)
    return Answer(Bounds(*tally.stability), accuracy, sampler.labels_possible, sampler.queries)


def whole_dataset(question: Question, settings: Settings) -> Answer:
    """Bound the average by one interval per point, and the worst record by elimination.

    Half of the miss probability goes to either.  A record is dropped as soon as it cannot lower the
    worst case by more than the tolerance; its own bounds stay valid, only wider.
    """
    sampler = Sampler(question, settings)
    m, e, n = question.shape
    shares = 1 if question.y is None else 2
    targets = _targets(question, settings)
    pooled = Tally((m, e))
    schedule = looks(settings.tolerance, settings.miss / (2 * shares * m * e), first=FIRST_LOOK)
    _draw_pooled(sampler, pooled, schedule, targets[:, :, 0], lambda share: settings.progress(share / 3))

    tally = Tally((m, e, n))
    schedule = looks(settings.tolerance, settings.miss / (2 * shares * m * e * n), first=FIRST_LOOK_OF_MANY)

    def in_the_race() -> NDArray[np.bool_]:
        lower, upper = tally.stability
        worst = upper.min(axis=2, keepdims=True)
        rivals: NDArray[np.bool_] = lower < worst - 2 * settings.tolerance
        return rivals if settings.target is None else rivals & (lower < targets) & (worst >= targets)

    _draw_records(sampler, tally, schedule, in_the_race, lambda share: settings.progress((1 + 2 * share) / 3))
    accuracy = None if question.y is None else Bounds(*tally.accuracy, pooled.accuracy)
    return Answer(Bounds(*tally.stability, pooled.stability), accuracy, sampler.labels_possible, sampler.queries)


def _draw_records(
    sampler: Sampler,
    tally: Tally,
    schedule: tuple[Look, ...],
    unfinished: Callable[[], NDArray[np.bool_]],
    progress: Progress,
) -> None:
    question, drawn = sampler.question, 0
    streams = _streams(sampler.settings.rng, len(question.records))

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon, task.records] += agree.reshape(-1, task.copies).sum(axis=1)
        tally.right[task.mechanism, task.epsilon, task.records] += right.reshape(-1, task.copies).sum(axis=1)

    open_ = np.ones(question.shape, dtype=bool)
    for look in schedule:
        tasks = _record_tasks(sampler, streams, open_, look.draws - drawn, _part(progress, drawn, look.draws, schedule))
        sampler.run(tasks, count)
        drawn = look.draws
        tally.look(look, open_, question.y is not None)
        open_ = open_ & unfinished()
        if not open_.any():
            break
    progress(1.0)


def _record_tasks(
    sampler: Sampler, streams: Generators, open_: NDArray[np.bool_], draws: int, progress: Progress
) -> Iterator[Task]:
    """Yield ``draws`` new draws for every open point, block by block of records, in bounded memory."""
    batch, s = sampler.settings.batch, len(sampler.question.features)
    chunk = min(draws, batch)
    rows = np.flatnonzero(open_.any(axis=(0, 1)))
    blocks = np.array_split(rows, max(1, -(-rows.size * chunk // batch))) if rows.size else []
    for number, block in enumerate(blocks):
        for done in range(0, draws, chunk):
            size = min(chunk, draws - done)
            u = np.stack([uniforms(streams[row], (size, s)) for row in block])
            for m, e in zip(*np.nonzero(open_[:, :, block].any(axis=2)), strict=True):
                keep = open_[m, e, block]
                yield sampler.perturbed(int(m), int(e), block[keep], u[keep])
            progress((number + (done + size) / draws) / len(blocks))


def _draw_pooled(
    sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], targets: Floats, progress: Progress
) -> None:
    """Draw (record, noise) jointly, records with replacement, so that one binomial bounds the average."""
    question, settings, drawn = sampler.question, sampler.settings, 0
    stream = _streams(settings.rng, 1)[0]
    n, s = question.unit.shape

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon] += agree.sum()
        tally.right[task.mechanism, task.epsilon] += right.sum()

    def tasks(open_: NDArray[np.bool_], draws: int, progress: Progress) -> Iterator[Task]:
        for done in range(0, draws, settings.batch):
            size = min(settings.batch, draws - done)
            rows, u = stream.integers(n, size=size), uniforms(stream, (size, s))
            for m, e in zip(*np.nonzero(open_), strict=True):
                yield sampler.perturbed(int(m), int(e), rows, u)
            progress((done + size) / draws)

    open_ = np.ones((len(question.names), len(question.epsilons)), dtype=bool)
    for look in schedule:
        sampler.run(tasks(open_, look.draws - drawn, _part(progress, drawn, look.draws, schedule)), count)
        drawn = look.draws
        tally.look(look, open_, question.y is not None)
        wide = _wide(tally.stability, settings.tolerance)
        if question.y is not None:
            wide |= _wide(tally.accuracy, settings.tolerance)
        open_ = open_ & wide & _undecided(tally.stability, targets)
        if not open_.any():
            break
    progress(1.0)


def _streams(rng: np.random.Generator, count: int) -> Generators:
    seeds = np.random.SeedSequence(rng.integers(2**32, size=8).tolist())
    return [np.random.Generator(np.random.PCG64DXSM(seed)) for seed in seeds.spawn(count)]


def _part(progress: Progress, start: int, end: int, schedule: tuple[Look, ...]) -> Progress:
    last = schedule[-1].draws
    return lambda share: progress((start + share * (end - start)) / last)


def _wide(bounds: Interval, tolerance: float) -> NDArray[np.bool_]:
    return np.asarray(bounds.upper - bounds.lower > 2 * tolerance)


def _undecided(bounds: Interval, targets: Floats) -> NDArray[np.bool_]:
    return (bounds.lower < targets) & ((bounds.upper >= targets) | (targets > 1))


def _targets(question: Question, settings: Settings) -> Floats:
    """Return the target per point before the indicator's coin; 2 (never reached) where there is none."""
    if settings.target is None:
        return np.full((*question.shape[:2], 1), 2.0)
    reveal = np.array([[release.reveal for release in row] for row in question.releases])[:, :, np.newaxis]
    return np.asarray((settings.target - reveal) / (1 - reveal))
