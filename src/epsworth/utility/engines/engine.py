"""The protocol of engines, what they are asked with and what they return, and the one loop over records and labels.

An engine is one class in one file and one line in `table.ENGINES`.  It says for which mechanisms of a question it
can answer, and bounds them; whatever it reads of the classifier it gets by `Problem.read`, once per question.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.bounds import Interval, Risk
from epsworth.classifiers.reading import Unsupported
from epsworth.utility.engines.categories import ByCategory, by_category
from epsworth.utility.engines.checkpoint import SEEDS, CheckpointState, drawn_seeds
from epsworth.utility.pace import Stopped
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
        return self.reason.format(features=f"{count} sensitive feature{'s' * (count > 1)}")

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
        numbers = replace(parts.about(problem), pace=problem.pace, start=rows.start, stop=rows.stop)
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
                problem.pace.check()
            rest = replace(problem, start=problem.start + log.start)
            left = self.record_results(rest, settings) if log.done < n else iter(())
            for one in left:
                if one is None:
                    return None
                log.note(one)
                settings.progress(log.done / n)
                if log.done == n:
                    break
                problem.pace.check()
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
