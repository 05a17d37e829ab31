"""The sampling engine: draw from the mechanism's own law, ask the classifier, bound the share that agrees.

Works for any classifier.  The run's risk is divided over all bounds and, for each bound, over its looks
(`epsworth.bounds.looks`), so every bound holds together with all others whatever the stopping rules did.

Every record has a random stream of its own, and all mechanisms and epsilons read the same uniforms of it:
curves are smooth, and the draws do not depend on the batch size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Look, Risk, draws_needed, looks
from epsworth.laws import uniforms
from epsworth.records import Indices
from epsworth.rounding import float_below
from epsworth.utility.engines.categories import ByCategory, by_category
from epsworth.utility.engines.checkpoint import Kept, labels_of, labels_text
from epsworth.utility.engines.engine import Answer, Counts, Engine, Obstacle, Progress, Settings, kinds
from epsworth.utility.engines.tally import Tally
from epsworth.utility.pace import Stopped
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question

FIRST_LOOK, FIRST_LOOK_OF_MANY = 256, 64
KEPT = 8_192  # rows of a task of a run that is kept: what is lost of it at most, with the step that was stopped
MOST_QUERIES_PER_RECORD_MODE = 100_000_000

Over = Literal["auto", "records", "dataset"]
Generators = list[np.random.Generator]


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


class Sampled(Engine):
    """Plain sampling: works for any classifier, and takes over what other engines hand over."""

    name, because = "sampled", "no exact engine applies"
    draws = True
    multiplies = False

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
        return run(question, settings.seeded())

    def by_record(self, question: Question, settings: Settings) -> bool:
        """Tell whether every record is bounded: an average, and eliminations, need all of them at once."""
        return self.chosen(question, settings) == "records"

    def chosen(self, question: Question, settings: Settings) -> Literal["records", "dataset"]:
        """Return what is bounded to the tolerance: under ``auto`` every record, unless that asks too much."""
        if self.over != "auto":
            return self.over
        points = int(np.prod(question.shape))
        most = points * draws_needed(settings.tolerance, float_below(settings.risk.each / points))
        return "records" if len(question.records) == 1 or most <= MOST_QUERIES_PER_RECORD_MODE else "dataset"


def each_record(question: Question, settings: Settings) -> Answer:
    """Bound every record at every point to the tolerance; each has a stream of its own, and its share of the risk."""
    first, points = question.start, math.prod(question.shape)
    question = question.part() if len(question.left) < len(question.records) else question
    sampler, tally = Sampler(question, settings), Tally(question.shape)
    settings.follow(Bounds(*tally.stability))
    risk = settings.risk.split(kinds(question) * points)
    schedule = _looks(question, tally, settings, risk, FIRST_LOOK)
    wanted = _wanted(question, settings)

    def unfinished() -> NDArray[np.bool_]:
        return tally.unsettled(settings.tolerance, wanted)

    with suppress(Stopped):
        question.pace.check()  # before anything is drawn from a generator that the run will be given again
        _draw_records(sampler, tally, schedule, unfinished, settings.progress, settings.kept, first)
    return _answer(question, sampler, tally)


def whole_dataset(question: Question, settings: Settings) -> Answer:
    """Bound the average by one interval per point, and the worst record by elimination.

    Half of the risk goes to either.  A record is dropped as soon as it cannot lower the worst case by more than the
    tolerance; its own bounds stay valid, only wider.
    """
    sampler = Sampler(question, settings)
    of_average, of_records = settings.risk.split(2)
    pooled, tally = Tally(question.shape[:2]), Tally(question.shape)
    settings.follow(Bounds(*tally.stability, pooled.stability))
    wanted = _wanted(question, settings)

    def in_the_race() -> NDArray[np.bool_]:
        return tally.rivals(settings.tolerance, wanted)

    with suppress(Stopped):
        question.pace.check()
        schedule = _schedule(question, pooled, settings, of_average, FIRST_LOOK)
        kept = settings.kept.under("average")
        _draw_pooled(sampler, pooled, schedule, lambda share: settings.progress(share / 3), kept)
        schedule = _schedule(question, tally, settings, of_records, FIRST_LOOK_OF_MANY)
        kept = settings.kept.under("records")
        _draw_records(sampler, tally, schedule, in_the_race, lambda share: settings.progress((1 + 2 * share) / 3), kept)
    return _answer(question, sampler, tally, pooled)


def _answer(question: Question, sampler: Sampler, tally: Tally, pooled: Tally | None = None) -> Answer:
    direct = (None, None) if pooled is None else (pooled.stability, pooled.accuracy)
    accuracy = None if question.y is None else Bounds(*tally.accuracy, direct[1])
    open_ = np.asarray(tally.open.any(axis=1)) if tally.open.any() else None
    return Answer(Bounds(*tally.stability, direct[0]), accuracy, sampler.labels_possible, sampler.queries, open=open_)


def _schedule(question: Question, tally: Tally, settings: Settings, risk: Risk, first: int) -> tuple[Look, ...]:
    """Return looks at which every bound of a tally has a share."""
    return _looks(question, tally, settings, risk.split(kinds(question) * math.prod(tally.shape)), first)


def _looks(question: Question, tally: Tally, settings: Settings, risk: Risk, first: int) -> tuple[Look, ...]:
    """Return looks at which every bound of a tally has a share of a risk that is divided already."""
    return looks(settings.tolerance, risk.take(kinds(question) * math.prod(tally.shape)), first=first)


def _draw_records(
    sampler: Sampler,
    tally: Tally,
    schedule: tuple[Look, ...],
    unfinished: Callable[[], NDArray[np.bool_]],
    progress: Progress,
    kept: Kept,
    start: int = 0,
) -> None:
    """Draw for records whose streams are those of the numbers from ``start`` on."""
    _restored(sampler, tally, schedule, kept)
    n, s = len(sampler.question.records), len(sampler.question.features)
    streams = [sampler.settings.stream(record) for record in range(start, start + n)]

    def count(task: Task, agree: NDArray[np.bool_], right: NDArray[np.bool_]) -> None:
        tally.agree[task.mechanism, task.epsilon, task.records] += agree.reshape(-1, task.copies).sum(axis=1)
        tally.right[task.mechanism, task.epsilon, task.records] += right.reshape(-1, task.copies).sum(axis=1)

    def tasks(draws: int) -> Iterator[Task]:
        return _record_tasks(sampler, streams, tally.open, draws)

    if tally.looked:  # where the streams of open records were at the last look: a word per uniform
        for stream in streams:
            stream.bit_generator.advance(schedule[len(tally.looked) - 1].draws * s)  # type: ignore[attr-defined]
    _go_through(sampler, tally, schedule, tasks, count, unfinished, progress, kept, dict)


def _go_through(
    sampler: Sampler,
    tally: Tally,
    schedule: tuple[Look, ...],
    tasks: Callable[[int], Iterator[Task]],
    count: Sink,
    unfinished: Callable[[], NDArray[np.bool_]],
    progress: Progress,
    kept: Kept,
    streams: Callable[[], Mapping[str, Any]],
) -> None:
    """Draw up to every look that was not made yet, and look, until no point is open.

    What is kept between two looks are counts, which show nothing, and how many of the look's tasks they are of: who
    goes on draws all of these again, from where the ``streams`` were at the last look, and asks about the others.
    """

    def keep() -> None:
        if kept.wanted:
            kept.keep(**tally.state(), **sampler.state(), **at_look)

    def after(finished: int) -> None:
        tally.tasks += finished
        if kept.due:
            keep()

    done, at_look = len(tally.looked), streams()
    drawn = schedule[done - 1].draws if done else 0
    for look in schedule[done:]:
        if not tally.open.any():
            break
        draws, told = look.draws - drawn, _part(progress, drawn, look.draws, schedule)
        try:
            left = islice(tasks(draws), tally.tasks, None)
            sampler.run(left, count, draws * int(tally.open.sum()), told, after)
        except Stopped:
            keep()
            raise
        drawn = look.draws
        tally.look(look, sampler.question.y is not None)
        tally.open = tally.open & unfinished() if look is not schedule[-1] else np.zeros_like(tally.open)
        at_look = streams()
        keep()
    progress(1.0)


def _restored(
    sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], kept: Kept, **more: Any
) -> dict[str, NDArray[Any]] | None:
    """Put a tally and its sampler where an earlier run left them; return what else it kept, or None."""
    found = kept.found(**tally.state(), queries=0, seen="", **more) if kept.wanted else None
    if found is not None:
        tally.restore(found, schedule)
        sampler.restore(found)
    return found


def _record_tasks(sampler: Sampler, streams: Generators, open_: NDArray[np.bool_], draws: int) -> Iterator[Task]:
    """Yield ``draws`` new draws for every open point, block by block of records, in bounded memory."""
    batch, s = sampler.batch, len(sampler.question.features)
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


def _draw_pooled(sampler: Sampler, tally: Tally, schedule: tuple[Look, ...], progress: Progress, kept: Kept) -> None:
    """Draw (record, noise) jointly, records with replacement, so that one binomial bounds the average."""
    question, settings = sampler.question, sampler.settings
    found = _restored(sampler, tally, schedule, kept, streams="")
    which, noise = (settings.stream(len(question.records) + number) for number in range(2))  # beyond the records' own
    if found is not None:
        for stream, state in zip((which, noise), json.loads(str(found["streams"])), strict=True):
            stream.bit_generator.state = state
    n, s = question.unit.shape
    wanted = [target.mean(axis=2) for target in _wanted(question, settings)]

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

    _go_through(sampler, tally, schedule, tasks, count, unfinished, progress, kept, streams)


def _part(progress: Progress, start: int, end: int, schedule: tuple[Look, ...]) -> Progress:
    last = schedule[-1].draws
    return lambda share: progress((start + share * (end - start)) / last)


def _wanted(question: Question, settings: Settings) -> list[Floats]:
    """Return the target before the indicator's coin, for stability and (if asked for) accuracy.

    Shape ``(mechanisms, epsilons, records)``; 2, which is never reached, where there is no target.
    """
    if settings.at_least is None:
        return [np.full(question.shape, 2.0)] * kinds(question)
    reveal = np.array([[release.reveal for release in row] for row in question.releases])[:, :, np.newaxis]
    raw = [np.ones(len(question.records)), (question.labels == question.y).astype(np.float64)]
    return [(settings.at_least - reveal * sure) / (1 - reveal) for sure in raw[: kinds(question)]]
