"""Running the parts of a plan, each with its share of the risk; policies that sample features ask once per subset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Risk
from epsworth.rounding import down, up
from epsworth.threads import one_thread
from epsworth.utility.engines.engine import Engine, EngineResult, Progress, Settings
from epsworth.utility.engines.pieces import WHOLE, Work, bounded
from epsworth.utility.engines.results import Answered, assemble, joined, revealing, with_coin
from epsworth.utility.engines.sampled import AverageFirst, Over, Sampled
from epsworth.utility.engines.table import Method, Part, plan
from epsworth.utility.labels import answer
from epsworth.utility.pace import Pace
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds

READ = 0.02  # share of the work that is told as done once the classifier is read
# Clients choose a subset by the order of 64-bit words; two of d <= 1,000 are equal with probability d^2 / 2^65 at most
TIED = 2.0**-45


def run(
    problem: Problem, method: Method, settings: Settings, over: Over, pace: Pace | None = None, work: Work = WHOLE
) -> tuple[Answered, str]:
    """Run every part of a plan, and sample what turns out too hard for its engine with the rest.

    Return the results, and what was bounded to the tolerance.  Each run that may draw has one share of the risk.
    Reading the classifier and planning are never cut short; a part that the pace stops says what it has not finished.
    """
    if problem.subsets:
        return _over_subsets(problem, method, settings, over, pace, work)
    checkpoint = work.checkpoint
    first = average_comes_first(problem, over, pace) if checkpoint is None else checkpoint.average_first
    with one_thread():
        parts = plan(problem, method, average_first=first)
    settings = settings.seeded() if checkpoint is None else replace(settings, seeds=checkpoint.seeds)
    running = _Running(problem, settings, work, [])
    if pace is not None:
        running.problem = running.followed(pace)
        running.settings = replace(settings, progress=lambda share: pace.progress(READ + (1 - READ) * share))
        pace.progress(READ)
    sampled = next((part for part in parts if isinstance(part.engine, Sampled)), None)
    waiting = {part.number for part in parts if first and (part.engine.draws or part.engine.slow)}
    drawing = sorted(m for part in parts if part.number in waiting for m in part.mechanisms)
    shares = settings.risk.split(max(1, drawing_runs([part.engine for part in parts]) + bool(drawing)))
    running.weight = 1 / (len(parts) + bool(drawing))
    # at once, by a formula; then the average of what would be long in coming; then record after record
    order = sorted((part for part in parts if part is not sampled), key=lambda part: part.number in waiting)
    at_once = [part for part in order if first and part.engine.perturbs_label]
    left = [] if sampled is None else list(sampled.mechanisms)

    def bound(part: Part) -> None:
        if running.bound(part, shares.take(int(part.engine.draws)), f"{part.number} {part.engine.name}") is None:
            left.extend(part.mechanisms)

    for part in at_once:
        bound(part)
    if drawing:
        average = Part(tuple(drawing), AverageFirst(), AverageFirst.reason, len(parts) + 1)
        running.bound(average, shares.take(), "average first", start=0.0)
    for part in order:
        if part not in at_once:
            bound(part)
    if not left:
        running.settings.progress(1.0)
        return _without_idle(running.results), "records"
    engine, rest = Sampled("dataset" if first else over, averaged=set(left) <= set(drawing)), problem.only(left)
    why = engine.explain(problem, left[0]) if sampled is None else sampled.why
    risk = shares.take()
    chosen = engine.chosen(rest, replace(settings, risk=risk))
    if work.filed and chosen == "dataset":
        raise ValueError(
            f"{', '.join(rest.names)}: the average and the worst case of the dataset would be sampled, from all "
            "records at once, and parts hold the bounds of records; give over='records', or leave out the folder"
        )
    running.weight = 1 - len(running.results) * running.weight
    start = 1 - running.weight
    running.bound(Part(tuple(left), engine, why, len(parts)), risk, f"sampled {chosen}", start=start)
    return running.results, chosen


@dataclass
class _Running:
    """A run: the results of its parts so far, and what is known of the one that is being bounded.

    Attributes
    ----------
    weight : float
        The share of the work that a part is.
    """

    problem: Problem
    settings: Settings
    work: Work
    results: Answered
    current: tuple[Part, Callable[[], Bounds]] | None = None
    weight: float = 1.0

    def bound(self, part: Part, risk: Risk, state: str, start: float | None = None) -> EngineResult | None:
        """Append the result of a part, with what it spent; None if it falls back on sampling."""
        begin, before = len(self.results) * self.weight if start is None else start, risk.spent
        settings = self.settings

        def progress(done: float) -> None:
            settings.progress(min(1.0, begin + self.weight * done))

        def follow(current: Callable[[], Bounds]) -> None:
            self.current = part, current

        own = replace(
            settings.of_part(part.number), risk=risk, state=self.work.state(state), progress=progress, follow=follow
        )
        result = bounded(part.engine, self.problem.only(part.mechanisms), own, self.work, part.number)
        self.current = None
        if result is not None:
            result = replace(result, spent=result.spent + risk.spent - before)
            self.results.append((part, result))
        return result

    def followed(self, pace: Pace) -> Problem:
        """Return the question at a pace that knows what is proven at any time."""
        pace.mechanisms, pace.epsilons, pace.proven = self.problem.names, self.problem.epsilons, self.proven
        return replace(self.problem, pace=pace)

    def proven(self) -> Interval:
        """Return what is proven of the average by now."""
        problem, known = self.problem, [(part, result.stability) for part, result in self.results]
        if self.current is not None:
            known.append((self.current[0], self.current[1]()))
        if not self.work.filed:
            return with_coin(joined(problem, known), revealing(problem), np.ones(len(problem.records))).average()
        average = Interval(np.zeros(problem.shape[:2]), np.ones(problem.shape[:2]))  # no record's bounds are at hand
        for part, bounds in known:
            for side, own in zip(average, bounds.pooled or (), strict=False):
                side[list(part.mechanisms)] = own
        return average


def average_comes_first(problem: Problem, over: Over, pace: Pace | None) -> bool:
    """Tell whether the average comes before the records: by a deadline."""
    limited = pace is not None and pace.seconds is not None and len(problem.records) > 1
    return limited and over != "records"


def _without_idle(results: Answered) -> Answered:
    """Leave out averages that were drawn of what is known exactly in the end, with what they spent."""
    drawn = [result for part, result in results if part.engine.draws or result.spent or result.open is not None]
    return [(part, result) for part, result in results if len(drawn) > 1 or not isinstance(part.engine, AverageFirst)]


def drawing_runs(engines: Sequence[Engine]) -> int:
    """Count the runs that draw, each of which has an equal share of the risk.

    Plain sampling is one run for all its mechanisms; others may fall back on it.
    """
    apart = sum(engine.draws and not isinstance(engine, Sampled) for engine in engines)
    return apart + any(isinstance(engine, Sampled) or engine.can_fall_back for engine in engines)


def _over_subsets(
    problem: Problem, method: Method, settings: Settings, over: Over, pace: Pace | None, work: Work
) -> tuple[Answered, str]:
    """Answer about every subset of the features that a record may release, and average."""
    used: list[str] = []
    bounded_over: list[str] = []
    if pace is not None:
        pace.mechanisms, pace.epsilons = problem.names, problem.epsilons
        pace.proven = lambda: Interval(np.zeros(problem.shape[:2]), np.ones(problem.shape[:2]))

    def answering(subset: Problem, own: Settings) -> EngineResult:
        results, chosen = run(subset if pace is None else replace(subset, pace=pace), method, own, over, work=work)
        used.extend(part.engine.name for part, _ in results)
        bounded_over.append(chosen)
        return assemble(subset, results)

    engine = Mixture(answering)
    result = engine.bound(problem, settings)
    why = f"{engine.reason}: {len(problem.subsets)} subsets, answered by {', '.join(sorted(set(used)))}"
    return [(Part((0,), engine, why), result)], "dataset" if "dataset" in bounded_over else "records"


Answering = Callable[[Problem, Settings], EngineResult]


@dataclass(frozen=True)
class Mixture(Engine):
    """Averages the answers about all subsets, each of which has an equal share of the risk."""

    answering: Answering

    name, reason = "mixture", "a record releases only some of its features"
    draws = True

    def bound(self, problem: Problem, settings: Settings) -> EngineResult:
        """Average over the subsets, by how many choices of the client each stands for."""
        shares, before = settings.risk.split(len(problem.subsets)), settings.risk.spent
        results = []
        for number, (subset, _) in enumerate(problem.subsets):
            progress = partial(_part, settings.progress, number, len(problem.subsets))
            own = replace(settings, risk=shares.take(), progress=progress)
            results.append(self.answering(subset, own) if subset.positions else _fixed(subset))
        choices = np.array([count for _, count in problem.subsets], dtype=np.float64)
        accuracies = [one.accuracy for one in results if one.accuracy is not None]
        stopped = [one.open for one in results if one.open is not None]
        return EngineResult(
            _average([one.stability for one in results], choices),
            _average(accuracies, choices) if accuracies else None,
            np.max([one.labels_possible for one in results], axis=0),
            sum(one.queries for one in results),
            settings.risk.spent - before,
            np.any(stopped, axis=0) if stopped else None,
        )


def _part(progress: Progress, number: int, count: int, share: float) -> None:
    progress((number + share) / count)


def _fixed(problem: Problem) -> EngineResult:
    """Return the answer about records that release none of the features which the classifier reads."""
    labels = answer(problem.classifier, problem.records, np.arange(len(problem.records)))
    same = [np.equal(labels, own).astype(np.float64) for own in (problem.labels, problem.y) if own is not None]
    bounds = [Bounds(side[np.newaxis, np.newaxis], side[np.newaxis, np.newaxis]) for side in same]
    possible = np.where(same[0] == 1, 1, 2).astype(np.int64)
    return EngineResult(bounds[0], bounds[1] if len(bounds) > 1 else None, possible, len(labels))


def _average(subsets: list[Bounds], choices: Floats) -> Bounds:
    pooled = [bounds.average() for bounds in subsets]
    sides = _mean([bounds.lower for bounds in subsets], [bounds.upper for bounds in subsets], choices)
    return Bounds(*sides, _mean([side.lower for side in pooled], [side.upper for side in pooled], choices))


def _mean(lower: list[Floats], upper: list[Floats], choices: Floats) -> Interval:
    """Average bounds, moved outwards; what is 0 or 1 for every subset stays."""
    least, most = (np.tensordot(choices, np.stack(side), axes=1) / choices.sum() for side in (lower, upper))
    units = len(choices) + 2  # a product and a sum for each, and the quotient
    least = np.clip(down(least, ulps=units) - TIED, 0, 1)
    most = np.clip(up(most, ulps=units) + TIED, 0, 1)
    certain = np.min(lower, axis=0) == 1
    never = np.max(upper, axis=0) == 0
    return Interval(np.where(certain, 1.0, least), np.where(never, 0.0, most))
