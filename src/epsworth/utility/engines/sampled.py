"""The sampling engine: draw from the mechanism's own law, ask the classifier, bound the share that agrees.

Works for any classifier.  The run's risk is divided over all bounds and, for each bound, over its looks
(`epsworth.bounds.looks`), so every bound holds together with all others whatever the stopping rules did.

Every record has a random stream of its own, and all mechanisms and epsilons read the same uniforms of it:
curves are smooth, and the draws do not depend on the batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Look, Risk, draws_needed, looks
from epsworth.laws import uniforms
from epsworth.records import Indices
from epsworth.rounding import float_below
from epsworth.utility.curves import Bounds
from epsworth.utility.engines.categories import ByCategory, by_category
from epsworth.utility.engines.engine import Answer, Counts, Engine, Obstacle, Progress, Settings, kinds
from epsworth.utility.question import Question

FIRST_LOOK, FIRST_LOOK_OF_MANY = 256, 64
MOST_QUERIES_PER_RECORD_MODE = 100_000_000

Over = Literal["auto", "records", "dataset"]
Generators = list[np.random.Generator]


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
            now = at.risk.interval(counts[open_], at.draws)
            bounds.lower[open_] = np.maximum(bounds.lower[open_], now.lower)
            bounds.upper[open_] = np.minimum(bounds.upper[open_], now.upper)

    def unsettled(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the points whose intervals are still wide and on both sides of the target."""
        found = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            found |= (bounds.upper - bounds.lower > 2 * tolerance) & _undecided(bounds, target)
        return found

    def rivals(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the records (last axis) that may still lower a worst case that is not decided."""
        found = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            worst = bounds.upper.min(axis=-1, keepdims=True)
            open_ = (worst >= target) | (target > 1)
            found |= (bounds.lower < worst - 2 * tolerance) & (bounds.lower < target) & open_
        return found


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
        values = [np.concatenate([t.values[j] for t in tasks]) for j in range(len(question.features))]
        labels = question.ask(rows, values)
        self.queries += rows.size
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


class Sampled(Engine):
    """Plain sampling: works for any classifier, and takes over what other engines hand over."""

    name, because = "sampled", "no exact engine applies"
    draws = True

    def __init__(self, over: Over = "auto") -> None:
        self.over = over

    def why(self, question: Question, m: int) -> str:
        """Say what stands in the way of the engines that read models of this kind."""
        parts = question.readings.get(by_category)
        readings = parts.asked.readings if isinstance(parts, ByCategory) else question.readings
        told = [parts] if isinstance(parts, str) else [r for r in readings.values() if isinstance(r, Obstacle)]
        found = dict.fromkeys(told)
        return f"{self.because}: {'; '.join(found)}" if found else self.because

    def bound(self, question: Question, settings: Settings) -> Answer:
        """Bound every record to the tolerance, or the average and the worst case."""
        run = each_record if self.chosen(question, settings) == "records" else whole_dataset
        return run(question, settings)

    def chosen(self, question: Question, settings: Settings) -> Literal["records", "dataset"]:
        """Return what is bounded to the tolerance: under ``auto`` every record, unless that asks too much."""
        if self.over != "auto":
            return self.over
        points = int(np.prod(question.shape))
        most = points * draws_needed(settings.tolerance, float_below(settings.risk.each / points))
        return "records" if len(question.records) == 1 or most <= MOST_QUERIES_PER_RECORD_MODE else "dataset"


def each_record(question: Question, settings: Settings) -> Answer:
    """Bound every record at every point to the tolerance."""
    sampler, tally = Sampler(question, settings), Tally(question.shape)
    schedule = _schedule(question, tally, settings, settings.risk, FIRST_LOOK)
    wanted = _wanted(question, settings)

    def unfinished() -> NDArray[np.bool_]:
        return tally.unsettled(settings.tolerance, wanted)

    _draw_records(sampler, tally, schedule, unfinished, settings.progress)
    accuracy = None if question.y is None else Bounds(*tally.accuracy)
    return Answer(Bounds(*tally.stability), accuracy, sampler.labels_possible, sampler.queries)


def whole_dataset(question: Question, settings: Settings) -> Answer:
    """Bound the average by one interval per point, and the worst record by elimination.

    Half of the risk goes to either.  A record is dropped as soon as it cannot lower the worst case by more than the
    tolerance; its own bounds stay valid, only wider.
    """
    sampler = Sampler(question, settings)
    of_average, of_records = settings.risk.split(2)
    pooled = Tally(question.shape[:2])
    schedule = _schedule(question, pooled, settings, of_average, FIRST_LOOK)
    _draw_pooled(sampler, pooled, schedule, lambda share: settings.progress(share / 3))

    tally = Tally(question.shape)
    schedule = _schedule(question, tally, settings, of_records, FIRST_LOOK_OF_MANY)
    wanted = _wanted(question, settings)

    def in_the_race() -> NDArray[np.bool_]:
        return tally.rivals(settings.tolerance, wanted)

    _draw_records(sampler, tally, schedule, in_the_race, lambda share: settings.progress((1 + 2 * share) / 3))
    accuracy = None if question.y is None else Bounds(*tally.accuracy, pooled.accuracy)
    return Answer(Bounds(*tally.stability, pooled.stability), accuracy, sampler.labels_possible, sampler.queries)


def _schedule(question: Question, tally: Tally, settings: Settings, risk: Risk, first: int) -> tuple[Look, ...]:
    """Return looks at which every bound of a tally has a share."""
    return looks(settings.tolerance, risk.split(kinds(question) * math.prod(tally.shape)), first=first)


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


def _draw_pooled(sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], progress: Progress) -> None:
    """Draw (record, noise) jointly, records with replacement, so that one binomial bounds the average."""
    question, settings, drawn = sampler.question, sampler.settings, 0
    which, noise = _streams(settings.rng, 2)
    n, s = question.unit.shape
    wanted = [target.mean(axis=2) for target in _wanted(question, settings)]

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon] += agree.sum()
        tally.right[task.mechanism, task.epsilon] += right.sum()

    def tasks(open_: NDArray[np.bool_], draws: int, progress: Progress) -> Iterator[Task]:
        for done in range(0, draws, settings.batch):
            size = min(settings.batch, draws - done)
            rows, u = which.integers(n, size=size), uniforms(noise, (size, s))
            for m, e in zip(*np.nonzero(open_), strict=True):
                yield sampler.perturbed(int(m), int(e), rows, u)
            progress((done + size) / draws)

    wide = np.ones(question.shape[:2], dtype=bool)
    for look in schedule:
        sampler.run(tasks(wide, look.draws - drawn, _part(progress, drawn, look.draws, schedule)), count)
        drawn = look.draws
        tally.look(look, wide, question.y is not None)
        wide = wide & tally.unsettled(settings.tolerance, wanted)
        if not wide.any():
            break
    progress(1.0)


def _streams(rng: np.random.Generator, count: int) -> Generators:
    seeds = np.random.SeedSequence(rng.integers(2**32, size=8).tolist())
    return [np.random.Generator(np.random.PCG64DXSM(seed)) for seed in seeds.spawn(count)]


def _part(progress: Progress, start: int, end: int, schedule: tuple[Look, ...]) -> Progress:
    last = schedule[-1].draws
    return lambda share: progress((start + share * (end - start)) / last)


def _undecided(bounds: Interval, target: Floats) -> NDArray[np.bool_]:
    return (bounds.lower < target) & ((bounds.upper >= target) | (target > 1))


def _wanted(question: Question, settings: Settings) -> list[Floats]:
    """Return the target before the indicator's coin, for stability and (if asked for) accuracy.

    Shape ``(mechanisms, epsilons, records)``; 2, which is never reached, where there is no target.
    """
    if settings.at_least is None:
        return [np.full(question.shape, 2.0)] * kinds(question)
    reveal = np.array([[release.reveal for release in row] for row in question.releases])[:, :, np.newaxis]
    raw = [np.ones(len(question.records)), (question.labels == question.y).astype(np.float64)]
    return [(settings.at_least - reveal * sure) / (1 - reveal) for sure in raw[: kinds(question)]]
