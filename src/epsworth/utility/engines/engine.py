"""Engines: what they are asked with, what they return, the loop over records, and what all of them share.

An engine is one class and one line in `run.ENGINES`.  It says for which mechanisms of a question it can answer, and
bounds them; whatever it reads of the classifier it gets by `Problem.read`, once per question, and only where the
classifier answers as was read (`answers_as_read`).

*Categories beside numbers.*  An engine that reads ranges alone is asked once per combination of categories.  Features
are released independently, so for a label of a record and all combinations c of its categories

    rho = sum over c of Pr[c] rho_c,

where rho_c is how often the *record's* label is answered while its categories are held at c and its numbers move.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval, Risk
from epsworth.classifiers import Labels
from epsworth.classifiers.reading import Unsupported, adjacent_floats
from epsworth.classifiers.reading import answers_as_read as agrees
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.law import Law
from epsworth.numerals import counted
from epsworth.records import Indices, as_records
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.checkpoint import SEEDS, CheckpointState, drawn_seeds
from epsworth.utility.engines.contraction import LawsOverEpsilon, aligned, mass_error, stays_in_range, widened
from epsworth.utility.labels import answer
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds

BATCH = 65_536  # rows per query: bounds memory, amortises the classifier's overhead

Counts = NDArray[np.int64]
Progress = Callable[[float], None]


def ignore(_: object) -> None:
    """Nobody follows a run, or its progress."""


@dataclass(frozen=True)
class Settings:
    """How sure, how narrow, and when to stop.

    Attributes
    ----------
    risk : Risk
        One share of the probability of a miss for all bounds of the run; none for an engine that draws nothing.
    tolerance : float
        Half-width at which drawing stops.
    at_least : float or None
        Stop a point, too, as soon as its intervals (stability, and accuracy if asked for) lie on one side of it.
    follow : callable
        Is given, once, a function without arguments: it returns the bounds on stability that are proven by then.
    state : CheckpointState
        What an earlier run left for this one, and where this one leaves what it has.
    seeds : tuple of int
        Where the randomness of every record begins; drawn from ``rng`` where there is none yet (`seeded`).
    """

    risk: Risk
    tolerance: float
    at_least: float | None
    rng: np.random.Generator
    progress: Progress
    batch: int = BATCH
    follow: Callable[[Callable[[], Bounds]], None] = ignore
    state: CheckpointState = field(default_factory=CheckpointState)
    seeds: tuple[int, ...] = ()

    def seeded(self) -> Settings:
        """Return these settings with seeds: one draw from the generator for all records."""
        return self if self.seeds else replace(self, seeds=drawn_seeds(self.rng))

    def of_part(self, number: int) -> Settings:
        """Return these settings with seeds for a part of the run."""
        sequence = np.random.SeedSequence(self.seeds, spawn_key=(number,))
        return replace(self, seeds=tuple(sequence.generate_state(SEEDS).tolist()))

    def stream(self, *place: int) -> np.random.Generator:
        """Return a generator that belongs to a record, or to what else is counted, whoever asks for it and when."""
        return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(self.seeds, spawn_key=place)))


@dataclass(frozen=True)
class EngineResult:
    """What an engine returns, before the privacy indicator's coin is accounted for.

    ``spent`` is what its bounds spent of the probability of a miss: the engine says what an earlier run spent, whoever
    ran the engine adds the rest.  ``open`` tells, by mechanism and record, where the run was stopped before the end.
    """

    stability: Bounds
    accuracy: Bounds | None
    labels_possible: Counts
    queries: int
    spent: Fraction = Fraction(0)
    open: Bools | None = None


class Unreadable(Unsupported):
    """What keeps an engine from a model of a kind that it reads: users are told, since they may be able to move it."""


class Engine(ABC):
    """Bounds how often labels stay, for some mechanisms.

    Attributes
    ----------
    name : str
        One word: what ``method=`` takes and `Curves.method` shows.
    reason : str
        What a note says of mechanisms that it answers for.
    draws : bool
        Whether it may spend risk; others are given none.
    draws_by_record : bool
        Whether it draws for one record after the other: it steps aside where the average comes first.
    slow : bool
        Whether all records take it so long that, before a deadline, their average is drawn first.
    can_fall_back : bool
        Whether `bound` may return None, for plain sampling to take over.
    brackets : bool
        Whether the tolerance is the whole width of its bounds; else it is half of it.
    perturbs_label : bool
        Whether it answers where the label itself is randomised; else where features are.
    reading : callable
        From a question to what the engine reads of its classifier; raises `Unsupported` where it cannot.
    multiplies : bool
        Whether it multiplies matrices itself: these run on one thread, to the same bits in every process.
    most_features : float
        Sensitive features that it can deal with.
    remedy : str
        What to do where it cannot answer.
    """

    name: ClassVar[str]
    reason: ClassVar[str] = "asked for"
    draws: ClassVar[bool] = False
    draws_by_record: ClassVar[bool] = False
    slow: ClassVar[bool] = False
    can_fall_back: ClassVar[bool] = False
    brackets: ClassVar[bool] = False
    perturbs_label: ClassVar[bool] = False
    reading: ClassVar[Callable[[Problem], Any] | None] = None
    multiplies: ClassVar[bool] = True
    most_features: ClassVar[float] = math.inf
    remedy: ClassVar[str] = "use method='auto'"

    def supports(self, problem: Problem, m: int) -> str | None:
        """Return why the engine cannot answer for mechanism ``m`` of a question; None where it can."""
        if bool(problem.releases[m][0].mechanisms) == self.perturbs_label:
            return "it perturbs features, not the label" if self.perturbs_label else "the label itself is randomised"
        try:
            self.read(problem)
        except Unsupported as why:
            return str(why)
        if len(problem.features) > self.most_features:
            return f"there are more than {self.most_features} sensitive features"
        return self.unsupported_reason(problem, m)

    def read(self, problem: Problem) -> Any:
        """Return what is read of a question's classifier: once, for all engines of that reading."""
        reading = type(self).reading
        return None if reading is None else problem.read(reading)

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Return what else keeps the engine from a mechanism; None: nothing."""
        return None

    def reduced(self, problem: Problem, m: int) -> Problem:
        """Return what the engine is in fact asked about mechanism ``m``, which it supports."""
        return problem

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether ``auto`` should take a mechanism that is supported."""
        return True

    def explain(self, problem: Problem, m: int) -> str:
        """Say in a note why this engine answers."""
        count = len(problem.features)
        return self.reason.format(features=counted(count, "sensitive feature"))

    def group_key(self, problem: Problem, m: int) -> Hashable:
        """Return a key: mechanisms of one key are bounded in one run."""
        return None

    def by_record(self, problem: Problem, settings: Settings) -> bool:
        """Tell whether it answers record by record, so that some of them can be asked about by themselves."""
        return False

    @abstractmethod
    def bound(self, problem: Problem, settings: Settings) -> EngineResult | None:
        """Bound every mechanism of a question, each of which is supported."""


class ByRecord(Engine):
    """An engine that bounds record by record.

    Attributes
    ----------
    numbers_only : bool
        Whether it knows numbers alone: beside categories it is asked once per combination of them (`categories`).
    """

    numbers_only: ClassVar[bool] = False

    def by_record(self, problem: Problem, settings: Settings) -> bool:
        """Tell that it does."""
        return True

    def supports(self, problem: Problem, m: int) -> str | None:
        """Return why the engine cannot answer, not even once per combination of categories."""
        why = super().supports(problem, m)
        try:
            parts = problem.read(by_category) if why is not None and self.numbers_only else None
        except Unsupported as many:
            return str(many)
        return why if parts is None else super().supports(parts.about(problem), m)

    def reduced(self, problem: Problem, m: int) -> Problem:
        """Return the question about the numbers alone where the engine cannot take categories with them."""
        if super().supports(problem, m) is None:
            return problem
        parts = problem.read(by_category)
        assert isinstance(parts, ByCategory)
        return parts.about(problem)

    @abstractmethod
    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult | None]:
        """Yield what is found for every record, in any order; None hands all mechanisms over to sampling."""

    def bound(self, problem: Problem, settings: Settings) -> EngineResult | None:
        """Put what is found into one answer; that about combinations of categories is mixed."""
        if all(self.reduced(problem, m) is problem for m in range(len(problem.names))):
            return self._bounded(problem, settings)
        parts = problem.read(by_category)
        assert isinstance(parts, ByCategory)
        rows = range(len(parts.asked.records))[problem.left.start * parts.combinations :]
        rows = rows[: len(problem.left) * parts.combinations]
        numbers = replace(parts.about(problem), deadline=problem.deadline, start=rows.start, stop=rows.stop)
        answer = self._bounded(numbers, replace(settings, follow=ignore))  # of rows that are no records
        if answer is None:
            return None
        return EngineResult(
            parts.mixed(problem, answer.stability),
            None if answer.accuracy is None else parts.mixed(problem, answer.accuracy),
            parts.possible(problem, answer.labels_possible),
            answer.queries + len(problem.left) * parts.combinations,
            answer.spent,
            None if answer.open is None else parts.some(answer.open),
        )

    def _bounded(self, problem: Problem, settings: Settings) -> EngineResult | None:
        m, n = len(problem.names), len(problem.left)
        log = RecordLog.of(problem, settings)
        bounds = [Bounds(lower, upper) for lower, upper in log.sides]
        settings.follow(lambda: bounds[0])
        try:
            if log.done < n:
                problem.deadline.check()
            rest = replace(problem, start=problem.start + log.start)
            left = self.record_results(rest, settings) if log.done < n else iter(())
            for one in left:
                if one is None:
                    return None
                log.note(one)
                settings.progress(log.done / n)
                if log.done == n:
                    break
                problem.deadline.check()
        except Stopped:
            pass
        open_ = None if log.done == n else np.repeat([~log.known], m, axis=0)
        return EngineResult(
            bounds[0], None if problem.y is None else bounds[1], log.possible, log.queries, log.spent, open_
        )


class RecordResult(NamedTuple):
    """What was found for a record: bounds for each of its `target_labels`, of as many entries as there are points.

    ``possible`` counts the labels that can occur within the ranges; ``whole`` is False where the run was stopped within
    the record: its bounds hold, and could be narrower.
    """

    record: int
    bounds: list[Interval]
    possible: int
    queries: int = 0
    whole: bool = True


class RecordLog:
    """What is known of the records that are asked about; what is not yet lies between 0 and 1.

    Attributes
    ----------
    first_asked : int
        The record that all numbers here count from.
    sides : ndarray, shape ``(quantities, 2, mechanisms, epsilons, records)``
        Lower and upper bounds.
    known : ndarray of bool, shape ``(records,)``
        Records that are finished.
    start : int
        Records before this one were finished by an earlier run, which spent ``spent``.
    first : int
        The first record that is not finished; ``done`` are.
    """

    def __init__(self, problem: Problem, settings: Settings) -> None:
        (m, e, _), n, self.first_asked = problem.shape, len(problem.left), problem.start
        self.settings, self.before = settings, settings.risk.spent
        self.sides = np.zeros((quantities(problem), 2, m, e, n))
        self.sides[:, 1] = 1.0
        self.known, self.possible = np.zeros(n, dtype=bool), np.ones(n, dtype=np.int64)
        self.start = self.first = self.done = self.queries = 0
        self.spent = Fraction(0)

    @classmethod
    def of(cls, problem: Problem, settings: Settings) -> RecordLog:
        """Return what an earlier run kept, or nothing yet."""
        log = cls(problem, settings)
        state = settings.state.load(sides=log.sides, possible=log.possible, start=0, queries=0, spent="")
        if state is not None:
            log.start, log.queries = int(state["start"]), int(state["queries"])
            log.spent = Fraction(str(state["spent"]))
            log.sides[..., : log.start] = state["sides"][..., : log.start]
            log.possible[: log.start], log.known[: log.start] = state["possible"][: log.start], True
            log.first = log.done = log.start
        return log

    def note(self, one: RecordResult) -> None:
        """Take in what was found for a record; keep it once all before it are finished too."""
        at = one.record - self.first_asked
        for quantity, side in enumerate(self.sides):
            bounds = one.bounds[min(quantity, len(one.bounds) - 1)]
            side[..., at] = np.reshape(bounds, side[..., at].shape)
        self.possible[at] = one.possible
        self.queries += one.queries
        self.done += one.whole and not self.known[at]
        self.known[at] = one.whole
        while self.first < len(self.known) and self.known[self.first]:
            self.first += 1
        if self.settings.state.active and one.whole:
            self.settings.state.under("record").drop()
            spent = self.spent + self.settings.risk.spent - self.before
            self.settings.state.save(
                sides=self.sides, possible=self.possible, start=self.first, queries=self.queries,
                spent=str(spent),
            )  # fmt: skip


def target_labels(problem: Problem, record: int) -> list[Any]:
    """Return the labels whose probability is asked for: the record's own, and its true one where that is another."""
    own = problem.labels[record]
    return [own] if problem.y is None or problem.y[record] == own else [own, problem.y[record]]


def quantities(problem: Problem) -> int:
    """Return how many quantities are asked for: stability, and accuracy where there is y."""
    return 1 if problem.y is None else 2


def records_of(problem: Problem) -> Iterator[tuple[int, list[Any]]]:
    """Yield every record that is asked about here with its `target_labels`."""
    for record in problem.left:
        yield record, target_labels(problem, record)


Laws = list[Law]
Known = Callable[[int, Any, bool], float | None]
"""From record, label and whether outputs stay in the range to a probability that is 0 or 1 for certain."""
Keeps = Callable[[int, Any, Laws], Interval]
"""From record, label and laws per feature to bounds on how often the label is kept, one per epsilon of the laws."""
Batches = Callable[[list[list[Mechanism]], Floats], list[Laws]]


def batches(features: list[list[Mechanism]], values: Floats) -> list[Laws]:
    """Return the features' laws: one batch for all epsilons, or one per epsilon where they differ by more."""
    return [[one.law(x) for one, x in zip(part, values, strict=True)] for part in zip(*features, strict=True)]


def bracketed(
    problem: Problem, known: Known, keeps: Keeps, laws_of: Batches = batches
) -> Iterator[tuple[int, list[Interval]]]:
    """Yield every record with its bounds, one Interval of shape ``(mechanisms, epsilons)`` per target."""
    _, e, _ = problem.shape
    stacks = [aligned(row, len(problem.features)) for row in problem.releases]
    stays = [stays_in_range(row) for row in problem.releases]
    for record, labels in records_of(problem):
        rows: list[list[Interval]] = [[] for _ in labels]
        for features, within in zip(stacks, stays, strict=True):
            laws = laws_of(features, problem.unit[record])
            for row, label in zip(rows, labels, strict=True):
                sure = known(record, label, within)
                exact = None if sure is None else Interval(*np.full((2, e), sure))
                row.append(exact or _joined([keeps(record, label, batch) for batch in laws], np.concatenate))
        yield record, [_joined(row, np.stack) for row in rows]


def _joined(parts: Sequence[Interval], join: Callable[[Sequence[Floats]], Floats]) -> Interval:
    return Interval(join([part.lower for part in parts]), join([part.upper for part in parts]))


SPREAD = 64  # points over the sensitive ranges, and as many near thresholds
MOST_RECORDS = 256  # of those that are compared as they stand

Reading = Callable[[Indices, list[NDArray[Any]]], tuple[Labels, Bools]]
"""From records and values of their sensitive features (natural units) to labels, and where these are clear."""


def answers_as_read(problem: Problem, read: Reading, near: Sequence[Floats] = ()) -> bool:
    """Tell whether the classifier answers as a reading does, wherever the reading is clear.

    The records themselves, points spread over the sensitive ranges and somewhat beyond, and points beside thresholds.

    Parameters
    ----------
    near : sequence of ndarray
        Per sensitive feature the last values before each threshold, in natural units.
    """
    asked, points = probes(problem, near)
    return agrees(problem.ask(asked, points), *read(asked, points))


def probes(problem: Problem, near: Sequence[Floats] = ()) -> tuple[Indices, list[NDArray[Any]]]:
    """Return the records, and the values of their sensitive features, at which a reading is compared."""
    own = np.arange(min(len(problem.records), MOST_RECORDS))
    rng = np.random.default_rng(0)
    rows = rng.integers(len(problem.records), size=SPREAD)
    values = [f.from_unit(u) for f, u in zip(problem.features, problem.unit[own].T, strict=True)]
    ranges = [_spread(problem, j, rng) for j in range(len(problem.features))]
    groups: list[tuple[Indices, list[NDArray[Any]]]] = [(own, values), (rows, ranges)]
    if any(edges.size for edges in near):
        groups.append((rows, [_beside(e, s, rng) for e, s in zip(near, ranges, strict=True)]))
    asked = np.concatenate([rows for rows, _ in groups])  # at once: forests take their time for each call
    return asked, [np.concatenate([values[j] for _, values in groups]) for j in range(len(problem.features))]


def _spread(problem: Problem, j: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return values over the range of a feature, its ends among them; every fourth from thrice the range."""
    feature, unit = problem.features[j], rng.uniform(size=SPREAD)
    if feature.categories is not None:
        return feature.from_unit(unit)
    unit[::4] = 3 * unit[::4] - 1
    unit[1::16], unit[2::16] = 0, 1
    return feature.from_unit(unit)


def _beside(edges: Floats, others: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return values on thresholds and right beside them; ``others`` where there are none."""
    finite = edges[np.isfinite(edges)]
    return np.asarray(rng.choice(adjacent_floats(finite), SPREAD)) if finite.size else others


MOST_COMBINATIONS = 4_096  # of categories, per record
MOST_ROWS = 50_000  # records times combinations


@dataclass(frozen=True, eq=False)
class ByCategory:
    """A question about the numbers alone, with every record once per combination of the categories.

    Attributes
    ----------
    asked : Problem
        ``combinations`` rows per record, in the order of C; each of them is asked for its record's own labels.
    moving, held : tuple of int
        Which sensitive features are numbers, and which are categories.
    levels : tuple of int
        How many categories each of ``held`` has.
    kinds : ndarray of int, shape ``(records,)``
        Labels that the classifier gives a record's combinations while its numbers stay.
    """

    asked: Problem
    moving: tuple[int, ...]
    held: tuple[int, ...]
    levels: tuple[int, ...]
    kinds: Counts

    @property
    def combinations(self) -> int:
        """How many rows a record has become."""
        return math.prod(self.levels)

    def about(self, problem: Problem) -> Problem:
        """Return the question about the mechanisms of another one: what is released of the numbers."""
        releases = tuple(
            tuple(replace(r, mechanisms=tuple(r.mechanisms[j] for j in self.moving)) for r in row)
            for row in problem.releases
        )
        return replace(self.asked, names=problem.names, epsilons=problem.epsilons, releases=releases)

    def mixed(self, problem: Problem, bounds: Bounds) -> Bounds:
        """Mix the bounds on every combination by their probabilities; what is certain whatever is sent stays so.

        The probabilities are off as those of a product partition are (see `mass_error`); a sum of c products, in any
        order, adds c units.
        """
        (m, e, _), n = problem.shape, len(problem.left)
        sides = [side.reshape(m, e, n, self.combinations) for side in (bounds.lower, bounds.upper)]
        error, laws = mass_error(sum(self.levels) + self.combinations), LawsOverEpsilon(problem)
        lower, upper = np.empty((2, m, e, n))
        for record in range(n):
            weights = self._weights(problem, laws, problem.start + record)
            low, high = (side[:, :, record] for side in sides)
            result = widened((weights * low).sum(axis=-1), (weights * high).sum(axis=-1), error)
            lower[..., record] = np.where((low == 1).all(axis=-1), 1.0, result.lower)
            upper[..., record] = np.where((high == 0).all(axis=-1), 0.0, result.upper)
        return Bounds(lower, upper)

    def _weights(self, problem: Problem, laws: LawsOverEpsilon, record: int) -> Floats:
        """Return the probabilities of a record's combinations, shape ``(mechanisms, epsilons, combinations)``."""
        m, e, _ = problem.shape
        result = np.ones((m, e, 1))
        for j, k in zip(self.held, self.levels, strict=True):
            x, grid = problem.unit[record, j], np.arange(k) / (k - 1)
            own = np.stack([laws.runs(i, j, x, grid, grid) for i in range(m)])
            result = (result[..., np.newaxis] * own[:, :, np.newaxis]).reshape(m, e, -1)
        return result

    def some(self, rows: Bools) -> Bools:
        """Tell of which records some combination is marked, shape ``(mechanisms, records)``."""
        return np.asarray(rows.reshape(len(rows), -1, self.combinations).any(axis=-1))

    def possible(self, problem: Problem, counts: Counts) -> Counts:
        """Return how many labels can occur, at least: within a combination, or among them."""
        return np.asarray(np.maximum(counts.reshape(-1, self.combinations).max(axis=1), self.kinds[problem.left]))


def by_category(problem: Problem) -> ByCategory | None:
    """Return the question about the numbers alone; None where not both numbers and categories are sensitive."""
    held = tuple(j for j, feature in enumerate(problem.features) if feature.categories is not None)
    moving = tuple(j for j in range(len(problem.features)) if j not in held)
    if not held or not moving:
        return None
    levels = tuple(len(problem.features[j].categories or ()) for j in held)
    count, n = math.prod(levels), len(problem.records)
    if count > MOST_COMBINATIONS or count * n > MOST_ROWS:
        raise Unsupported(
            f"the sensitive categories have {count} combinations for each of {n} records, and at most "
            f"{MOST_COMBINATIONS} for a record and {MOST_ROWS} in all are gone through: give fewer records"
        )
    rows, at = np.repeat(np.arange(n), count), np.unravel_index(np.tile(np.arange(count), n), levels)
    units = [i / (k - 1) for i, k in zip(at, levels, strict=True)]
    values = {problem.positions[j]: problem.features[j].from_unit(u) for j, u in zip(held, units, strict=True)}
    records = as_records(problem.records.take(rows, values), features=problem.records.names)
    records = records.releasing(problem.records.words)
    labels = answer(problem.classifier, records, np.arange(len(rows)))
    asked = replace(
        problem,
        records=records,
        positions=tuple(problem.positions[j] for j in moving),
        features=tuple(problem.features[j] for j in moving),
        unit=problem.unit[rows][:, moving],
        labels=problem.labels[rows],
        y=None if problem.y is None else problem.y[rows],
        readings={},
        answered=labels,
    )
    kinds = np.array([len(set(row)) for row in labels.reshape(n, count).tolist()], dtype=np.int64)
    return ByCategory(asked, moving, held, levels, kinds)
