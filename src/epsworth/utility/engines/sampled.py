"""The sampling engine: draw from the mechanism's own law, ask the classifier, bound the share that agrees.

Works for any classifier.  The run's risk is divided over all bounds and, for each bound, over its looks
(`epsworth.bounds.looks`), so every bound holds together with all others whatever the stopping rules did.

Every record has a random stream of its own, and all mechanisms and epsilons read the same uniforms of it:
curves are smooth, and the draws do not depend on the batch size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Look, Risk, draws_needed, looks
from epsworth.classifiers.reading import Unsupported
from epsworth.mechanisms.law import uniforms
from epsworth.records import Indices
from epsworth.rounding import float_below
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.checkpoint import CheckpointState, labels_of, labels_text
from epsworth.utility.engines.engine import (
    ByCategory,
    Counts,
    Engine,
    EngineResult,
    Progress,
    Settings,
    Unreadable,
    by_category,
    quantities,
)
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds

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
            if sum(t.size for t in waiting) >= self.problem.deadline.size(self.settings.batch):
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


FIRST_LOOK, FIRST_LOOK_OF_MANY = 256, 64
MOST_QUERIES_PER_RECORD_MODE = 100_000_000

Over = Literal["auto", "records", "dataset"]
Generators = list[np.random.Generator]


class Sampled(Engine):
    """Plain sampling: works for any classifier, and takes over what other engines hand over."""

    name, reason = "sampled", "no exact engine applies"
    draws = True
    multiplies = False

    def __init__(self, over: Over = "auto", *, averaged: bool = False) -> None:
        self.over, self.averaged = over, averaged

    def explain(self, problem: Problem, m: int) -> str:
        """Say what stands in the way of the engines that read models of this kind."""
        parts = problem.readings.get(by_category)
        readings = parts.asked.readings if isinstance(parts, ByCategory) else problem.readings
        unreadable = [r for r in readings.values() if isinstance(r, Unreadable)]
        obstacles = dict.fromkeys(map(str, [parts] if isinstance(parts, Unsupported) else unreadable))
        return f"{self.reason}: {'; '.join(obstacles)}" if obstacles else self.reason

    def bound(self, problem: Problem, settings: Settings) -> EngineResult:
        """Bound every record to the tolerance, or the average and the worst case."""
        if self.chosen(problem, settings) == "records":
            return each_record(problem, settings.seeded())
        return whole_dataset(problem, settings.seeded(), averaged=self.averaged)

    def by_record(self, problem: Problem, settings: Settings) -> bool:
        """Tell whether every record is bounded: an average, and eliminations, need all of them at once."""
        return self.chosen(problem, settings) == "records"

    def chosen(self, problem: Problem, settings: Settings) -> Literal["records", "dataset"]:
        """Return what is bounded to the tolerance: under ``auto`` every record, unless that asks too much."""
        if self.over != "auto":
            return self.over
        points = int(np.prod(problem.shape))
        most = points * draws_needed(settings.tolerance, float_below(settings.risk.each / points))
        return "records" if len(problem.records) == 1 or most <= MOST_QUERIES_PER_RECORD_MODE else "dataset"


def each_record(problem: Problem, settings: Settings) -> EngineResult:
    """Bound every record at every point to the tolerance; each has a stream of its own, and its share of the risk."""
    first, points = problem.start, math.prod(problem.shape)
    problem = problem.part() if len(problem.left) < len(problem.records) else problem
    sampler, tally = Sampler(problem, settings), Tally(problem.shape)
    settings.follow(lambda: Bounds(*tally.stability))
    risk = settings.risk.split(quantities(problem) * points)
    schedule = _looks(problem, tally, settings, risk, FIRST_LOOK)
    wanted = _wanted(problem, settings)

    def unfinished() -> NDArray[np.bool_]:
        return tally.unsettled(settings.tolerance, wanted)

    with suppress(Stopped):
        problem.deadline.check()  # before anything is drawn from a generator that the run will be given again
        _draw_records(sampler, tally, schedule, unfinished, settings.progress, settings.state, first)
    return _answer(problem, sampler, tally)


class AverageFirst(Engine):
    """The average over the records, of all mechanisms for which anything is drawn, before all else.

    All mechanisms and epsilons are drawn up to a look before any is drawn beyond it, so that each has an interval after
    the first few hundred draws.
    """

    name, reason = "sampled", "the average comes first, since there is a deadline"
    draws = True
    multiplies = False

    def bound(self, problem: Problem, settings: Settings) -> EngineResult:
        """Bound the average by one interval per point, and nothing of any record."""
        settings, records = settings.seeded(), Interval(np.zeros(problem.shape), np.ones(problem.shape))
        sampler, pooled = Sampler(problem, settings), Tally(problem.shape[:2])
        settings.follow(lambda: Bounds(*records, pooled.stability))
        with suppress(Stopped):
            _bound_average(sampler, pooled, settings.risk, settings.progress)
        accuracy = None if problem.y is None else Bounds(*records, pooled.accuracy)
        stability = Bounds(*records, pooled.stability)
        return EngineResult(stability, accuracy, sampler.labels_possible, sampler.queries)


def whole_dataset(problem: Problem, settings: Settings, *, averaged: bool = False) -> EngineResult:
    """Bound the average by one interval per point, and the worst record by elimination.

    Half of the risk goes to either, or all of it to the records where the average is bounded already.  A record is
    dropped as soon as it cannot lower the worst case by more than the tolerance; its own bounds stay valid, only wider.
    """
    sampler, of_records, share = Sampler(problem, settings), settings.risk, 0.0
    pooled, tally = Tally(problem.shape[:2]), Tally(problem.shape)
    settings.follow(lambda: Bounds(*tally.stability, pooled.stability))
    wanted = _wanted(problem, settings)

    def in_the_race() -> NDArray[np.bool_]:
        return tally.rivals(settings.tolerance, wanted)

    with suppress(Stopped):
        problem.deadline.check()
        if not averaged:
            of_average, of_records = settings.risk.split(2)
            share = 1 / 3
            _bound_average(sampler, pooled, of_average, lambda done: settings.progress(done * share))
        schedule = _schedule(problem, tally, settings, of_records, FIRST_LOOK_OF_MANY)
        state = settings.state.under("records")
        _draw_records(
            sampler, tally, schedule, in_the_race, lambda done: settings.progress(share + (1 - share) * done), state
        )
    return _answer(problem, sampler, tally, pooled)


def _bound_average(sampler: Sampler, pooled: Tally, risk: Risk, progress: Progress) -> None:
    """Draw until every point's average is bounded to the tolerance, or is decided."""
    settings = sampler.settings
    schedule = _schedule(sampler.problem, pooled, settings, risk, FIRST_LOOK)
    _draw_pooled(sampler, pooled, schedule, progress, settings.state.under("average"))


def _answer(problem: Problem, sampler: Sampler, tally: Tally, pooled: Tally | None = None) -> EngineResult:
    direct = (None, None) if pooled is None else (pooled.stability, pooled.accuracy)
    accuracy = None if problem.y is None else Bounds(*tally.accuracy, direct[1])
    open_ = np.asarray(tally.open.any(axis=1)) if tally.open.any() else None
    return EngineResult(
        Bounds(*tally.stability, direct[0]), accuracy, sampler.labels_possible, sampler.queries, open=open_
    )


def _schedule(problem: Problem, tally: Tally, settings: Settings, risk: Risk, first: int) -> tuple[Look, ...]:
    """Return looks at which every bound of a tally has a share."""
    return _looks(problem, tally, settings, risk.split(quantities(problem) * math.prod(tally.shape)), first)


def _looks(problem: Problem, tally: Tally, settings: Settings, risk: Risk, first: int) -> tuple[Look, ...]:
    """Return looks at which every bound of a tally has a share of a risk that is divided already."""
    return looks(settings.tolerance, risk.take(quantities(problem) * math.prod(tally.shape)), first=first)


def _draw_records(
    sampler: Sampler,
    tally: Tally,
    schedule: tuple[Look, ...],
    unfinished: Callable[[], NDArray[np.bool_]],
    progress: Progress,
    state: CheckpointState,
    start: int = 0,
) -> None:
    """Draw for records whose streams are those of the numbers from ``start`` on."""
    _restored(sampler, tally, schedule, state)
    n, s = len(sampler.problem.records), len(sampler.problem.features)
    streams = [sampler.settings.stream(record) for record in range(start, start + n)]

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon, task.records] += agree.reshape(-1, task.copies).sum(axis=1)
        tally.right[task.mechanism, task.epsilon, task.records] += right.reshape(-1, task.copies).sum(axis=1)

    def tasks(draws: int) -> Iterator[Task]:
        return _record_tasks(sampler, streams, tally.open, draws)

    if tally.looked:  # where the streams of open records were at the last look: a word per uniform
        for stream in streams:
            stream.bit_generator.advance(schedule[len(tally.looked) - 1].draws * s)  # type: ignore[attr-defined]
    _go_through(sampler, tally, schedule, tasks, count, unfinished, progress, state, dict)


def _go_through(
    sampler: Sampler,
    tally: Tally,
    schedule: tuple[Look, ...],
    tasks: Callable[[int], Iterator[Task]],
    count: Sink,
    unfinished: Callable[[], NDArray[np.bool_]],
    progress: Progress,
    state: CheckpointState,
    streams: Callable[[], Mapping[str, Any]],
) -> None:
    """Draw up to every look that was not made yet, and look, until no point is open.

    What is kept between two looks are counts, which show nothing, and how many of the look's tasks they are of: who
    goes on draws all of these again, from where the ``streams`` were at the last look, and asks about the others.
    """

    def save() -> None:
        if state.active:
            state.save(**tally.state(), **sampler.state(), **at_look)

    def after(finished: int) -> None:
        tally.tasks += finished
        if state.due:
            save()

    done, at_look = len(tally.looked), streams()
    drawn = schedule[done - 1].draws if done else 0
    for look in schedule[done:]:
        if not tally.open.any():
            break
        draws, part_progress = look.draws - drawn, _part(progress, drawn, look.draws, schedule)
        try:
            left = islice(tasks(draws), tally.tasks, None)
            sampler.run(left, count, draws * int(tally.open.sum()), part_progress, after)
        except Stopped:
            save()
            raise
        drawn = look.draws
        tally.look(look, sampler.problem.y is not None)
        tally.open = tally.open & unfinished() if look is not schedule[-1] else np.zeros_like(tally.open)
        at_look = streams()
        save()
    progress(1.0)


def _restored(
    sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], state: CheckpointState, **more: Any
) -> dict[str, NDArray[Any]] | None:
    """Put a tally and its sampler where an earlier run left them; return what else it kept, or None."""
    saved = state.load(**tally.state(), queries=0, seen="", **more) if state.active else None
    if saved is not None:
        tally.restore(saved, schedule)
        sampler.restore(saved)
    return saved


def _record_tasks(sampler: Sampler, streams: Generators, open_: NDArray[np.bool_], draws: int) -> Iterator[Task]:
    """Yield ``draws`` new draws for every open point, block by block of records, in bounded memory."""
    batch, s = sampler.batch, len(sampler.problem.features)
    chunk = min(draws, batch)
    rows = np.flatnonzero(open_.any(axis=(0, 1)))
    blocks = np.array_split(rows, max(1, -(-rows.size * chunk // batch))) if rows.size else []
    for block in blocks:
        for done in range(0, draws, chunk):
            size = min(chunk, draws - done)
            u = np.stack([uniforms(streams[row], (size, s)) for row in block])
            for m, e in zip(*np.nonzero(open_[:, :, block].any(axis=2)), strict=True):
                keep = open_[m, e, block]
                yield sampler.perturbed(int(m), int(e), block[keep], u[keep])


def _draw_pooled(
    sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], progress: Progress, state: CheckpointState
) -> None:
    """Draw (record, noise) jointly, records with replacement, so that one binomial bounds the average."""
    problem, settings = sampler.problem, sampler.settings
    saved = _restored(sampler, tally, schedule, state, streams="")
    which, noise = (settings.stream(len(problem.records) + number) for number in range(2))  # beyond the records' own
    if saved is not None:
        for stream, at in zip((which, noise), json.loads(str(saved["streams"])), strict=True):
            stream.bit_generator.state = at
    n, s = problem.unit.shape
    wanted = [target.mean(axis=2) for target in _wanted(problem, settings)]

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon] += agree.sum()
        tally.right[task.mechanism, task.epsilon] += right.sum()

    def tasks(draws: int) -> Iterator[Task]:
        for done in range(0, draws, sampler.batch):
            size = min(sampler.batch, draws - done)
            rows, u = which.integers(n, size=size), uniforms(noise, (size, s))
            for m, e in zip(*np.nonzero(tally.open), strict=True):
                yield sampler.perturbed(int(m), int(e), rows, u)

    def unfinished() -> NDArray[np.bool_]:
        return tally.unsettled(settings.tolerance, wanted)

    def streams() -> dict[str, str]:
        return {"streams": json.dumps([which.bit_generator.state, noise.bit_generator.state])}

    _go_through(sampler, tally, schedule, tasks, count, unfinished, progress, state, streams)


def _part(progress: Progress, start: int, end: int, schedule: tuple[Look, ...]) -> Progress:
    last = schedule[-1].draws
    return lambda share: progress((start + share * (end - start)) / last)


def _wanted(problem: Problem, settings: Settings) -> list[Floats]:
    """Return the target before the indicator's coin, for stability and (if asked for) accuracy.

    Shape ``(mechanisms, epsilons, records)``; 2, which is never reached, where there is no target.
    """
    if settings.at_least is None:
        return [np.full(problem.shape, 2.0)] * quantities(problem)
    reveal = problem.reveal[:, :, np.newaxis]
    raw = [np.ones(len(problem.records)), (problem.labels == problem.y).astype(np.float64)]
    return [(settings.at_least - reveal * sure) / (1 - reveal) for sure in raw[: quantities(problem)]]
