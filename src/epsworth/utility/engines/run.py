"""Which engine answers for which mechanism, the run of all of them, and curves from what they return.

``ENGINES`` is the one table, in the order in which ``method="auto"`` tries them.  Each part of a plan has its share of
the risk; policies that sample features ask once per subset.

With some probability a privacy indicator asks about the raw record, whose label is its own (`with_coin`).  Of records
that differ in sensitive columns alone a mechanism's own promise rules out that all keep labels of their own
(`check_possible`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval, Risk
from epsworth.mechanisms.family import is_brought
from epsworth.rounding import down, float_below, round_down, round_up, show_up, up
from epsworth.threads import one_thread
from epsworth.utility.curves import Curves
from epsworth.utility.deadline import Deadline
from epsworth.utility.engines.cells import CellTables
from epsworth.utility.engines.engine import Engine, EngineResult, Progress, Settings
from epsworth.utility.engines.grid import Grid
from epsworth.utility.engines.label import Constant, Label
from epsworth.utility.engines.linear import Lattice, Polygons
from epsworth.utility.engines.pieces import WHOLE, Work, bounded
from epsworth.utility.engines.propagation import Propagation
from epsworth.utility.engines.quadratic import SlabBounds
from epsworth.utility.engines.rays import Rays
from epsworth.utility.engines.sampled import AverageFirst, Over, Sampled
from epsworth.utility.engines.strata import SharedDraws
from epsworth.utility.engines.tree_boxes import BranchAndBound
from epsworth.utility.labels import answer
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds, with_coin

ENGINES: tuple[Engine, ...] = (
    Label(),
    Constant(),
    Grid(),
    CellTables(),
    BranchAndBound(),
    Lattice(),
    Polygons(),
    SlabBounds(),
    Propagation(),
    SharedDraws(),
    Rays(),
    Sampled(),
)


Method = str  # the name of an engine, or "auto"


@dataclass(frozen=True)
class Part:
    """Some mechanisms of a question, and the engine that answers for them; the number is its place in the plan."""

    mechanisms: tuple[int, ...]
    engine: Engine
    why: str
    number: int = 0


def methods() -> tuple[str, ...]:
    """Return what ``method`` may be."""
    return ("auto", *[engine.name for engine in ENGINES])


def known(method: object) -> bool:
    """Tell whether a word is one of the methods."""
    return isinstance(method, str) and method in methods()


def plan(problem: Problem, method: Method, *, average_first: bool = False) -> list[Part]:
    """Assign every mechanism; those that share an engine (and, say, a grid) are answered together."""
    parts: dict[tuple[str, Hashable], Part] = {}
    engines = [engine for engine in ENGINES if method in ("auto", engine.name)]
    if method == "auto" and average_first:
        engines = [engine for engine in engines if not engine.draws_by_record]
    for m in range(len(problem.names)):
        engine = _chosen(problem, m, method, engines)
        key = engine.name, engine.group_key(problem, m)
        why = "asked for" if engine.name == method == "sampled" else _why(engine, problem, m)
        part = parts.get(key, Part((), engine, why))
        parts[key] = Part((*part.mechanisms, m), engine, part.why)
    numbers = itertools.count()
    return [
        replace(part, number=len(parts) if isinstance(part.engine, Sampled) else next(numbers))
        for part in parts.values()
    ]


def _why(engine: Engine, problem: Problem, m: int) -> str:
    """Say in a note why an engine answers, and that it is asked about numbers alone where it is."""
    reduced = engine.reduced(problem, m)
    apart = "" if reduced is problem else ", for every combination of the sensitive categories"
    return engine.explain(reduced, m) + apart


def _chosen(problem: Problem, m: int, method: Method, engines: Sequence[Engine]) -> Engine:
    """Return the first engine that can answer and finds it worthwhile, or is asked for; else the first that can.

    A label that is itself randomised has an engine of its own, whatever is asked for.
    """
    if not problem.releases[m][0].mechanisms:
        engines = [engine for engine in ENGINES if engine.perturbs_label]
    able = []
    for engine in engines:
        if engine.supports(problem, m) is None:
            if method == engine.name or engine.worthwhile(engine.reduced(problem, m), m):
                return engine
            able.append(engine)
    if not able:
        reason, remedy = engines[0].supports(problem, m), engines[0].remedy
        raise ValueError(f"method={method!r} cannot answer {problem.names[m]}: {reason}; {remedy}")
    return able[0]


Answered = list[tuple[Part, EngineResult]]

MOST_NAMED = 5  # epsilons that a note lists


def assemble(problem: Problem, answered: Answered) -> EngineResult:
    """Put the parts' bounds back in the order of the mechanisms."""
    return EngineResult(
        joined(problem, [(part, answer.stability) for part, answer in answered]),
        None
        if problem.y is None
        else joined(problem, [(part, answer.accuracy) for part, answer in answered if answer.accuracy is not None]),
        np.max([answer.labels_possible for _, answer in answered], axis=0),
        sum(answer.queries for _, answer in answered),
        sum((answer.spent for _, answer in answered), Fraction(0)),
        _open(problem, answered),
    )


def _open(problem: Problem, answered: Answered) -> Bools | None:
    """Return where engines were stopped, by mechanism and record of the whole question."""
    open_ = np.zeros((problem.shape[0], problem.shape[2]), dtype=bool)
    for part, result in answered:
        if result.open is not None:
            open_[list(part.mechanisms)] = result.open
    return open_ if open_.any() else None


def joined(problem: Problem, parts: list[tuple[Part, Bounds]]) -> Bounds:
    """Put bounds of parts in the order of the mechanisms; of what has not begun nothing is known."""
    lower, upper = np.zeros(problem.shape), np.ones(problem.shape)
    pooled = Interval(np.zeros(problem.shape[:2]), np.ones(problem.shape[:2]))
    for part, bounds in parts:  # two parts may tell of one mechanism: both hold
        at, average = list(part.mechanisms), bounds.average()
        lower[at], upper[at] = np.maximum(lower[at], bounds.lower), np.minimum(upper[at], bounds.upper)
        pooled.lower[at] = np.maximum(pooled.lower[at], average.lower)
        pooled.upper[at] = np.minimum(pooled.upper[at], average.upper)
    return Bounds(lower, upper, pooled)


def curves_of(
    problem: Problem, answered: Answered, result: EngineResult, over: str, settings: Settings, deadline: Deadline
) -> Curves:
    """Return the answer as curves: promises, units and methods beside the bounds."""
    reveal, accuracy = problem.reveal, result.accuracy
    if accuracy is not None:
        accuracy = with_coin(accuracy, reveal, (problem.labels == problem.y).astype(np.float64))
    engines = {m: part.engine.name for part, _ in answered for m in part.mechanisms}
    curves = Curves(
        stability=with_coin(result.stability, reveal, np.ones(len(problem.records))),
        accuracy=accuracy,
        labels=problem.labels,
        labels_possible=result.labels_possible,
        method=np.repeat([[engines[m]] for m in sorted(engines)], len(problem.records), axis=1),
        over=over,
        tolerance=float(settings.tolerance),
        **promised(problem, answered, settings, deadline),
    )
    wide = (
        _too_wide(curves, settings.at_least)
        if result.open is None
        else [_unfinished(curves, result.open, str(deadline.stopped), goes_on=not problem.subsets)]
    )
    check_possible(problem, curves.stability)
    return replace(curves, notes=(*curves.notes, *wide))


def promised(problem: Problem, answered: Answered, settings: Settings, deadline: Deadline) -> dict[str, Any]:
    """Return what is told of an answer whatever form its bounds have."""
    spent = sum([result.spent for _, result in answered], Fraction(0))
    return {
        "mechanisms": problem.names,
        "epsilons": problem.epsilons,
        "features": tuple([feature.name for feature in problem.features]),
        "passing": problem.passing,
        "guarantees": tuple([tuple([release.guarantee for release in row]) for row in problem.releases]),
        "tight_epsilons": np.array([[release.tight_epsilon for release in row] for row in problem.releases]),
        "confidence": float(1 - settings.risk.total) if spent else 1.0,
        "queries": sum([result.queries for _, result in answered]) + problem.asked,
        "seconds": deadline.clock() - deadline.began,
        "notes": (*problem.notes, *_reasons(problem, answered)),
        "spent": float_below(spent),
        "stopped": any(result.open is not None for _, result in answered),
    }


def _unfinished(curves: Curves, open_: Bools, why: str, *, goes_on: bool) -> str:
    """Say why a run ended early, how far it came, and what would help."""
    names: dict[int, list[str]] = {}
    for name, row in zip(curves.mechanisms, open_, strict=True):
        if row.any():
            names.setdefault(int((~row).sum()), []).append(name)
    parts = [f"{', '.join(those)} on {done:,} of {open_.shape[1]:,} records" for done, those in names.items()]
    half = round_up(float(_widths(curves.stability, curves.over, None).max()) / 2)
    of_average = curves.average()
    average = round_up(float((of_average.upper - of_average.lower).max()) / 2)
    return (
        f"the run was stopped {why}: all bounds hold, but they are finished for "
        f"{', '.join(parts)} only, with a half-width of up to {half:g} ({average:g} for the average over the records); "
        "more time narrows them"
        + (", and with a checkpoint the next run goes on where this one ended" if goes_on else "")
    )


def _too_wide(curves: Curves, at_least: float | None) -> list[str]:
    """Say of every mechanism whose intervals are wider than the tolerance allows how wide they are."""
    kinds = [bounds for bounds in (curves.stability, curves.accuracy) if bounds is not None]
    widths = np.maximum.reduce([_widths(bounds, curves.over, at_least) for bounds in kinds])
    notes, brackets = [], {engine.name for engine in ENGINES if engine.brackets}
    for name, width, methods in zip(curves.mechanisms, widths, curves.method, strict=True):
        what, allowed = ("width", 1) if set(methods) <= brackets else ("half-width", 2)
        at = np.flatnonzero(width > allowed * curves.tolerance * (1 + 1e-9))
        if at.size:
            listed = ", ".join(map(show_up, curves.epsilons[at[:MOST_NAMED]]))
            more = f" and {at.size - MOST_NAMED} more" if at.size > MOST_NAMED else ""
            half = f"half-width of up to {show_up(float(width.max()) / 2, 3)}, a " if allowed == 1 else ""
            notes.append(
                f"{name}: the tolerance of {show_up(curves.tolerance)} is not met at epsilon {listed}{more}: the "
                f"bounds hold, but with a {half}{what} of up to {show_up(float(width.max()) / allowed, 3)}"
            )
    return notes


def _widths(bounds: Bounds, over: str, at_least: float | None) -> Floats:
    """Return the largest width by mechanism and epsilon of what was to be bounded to the tolerance."""
    sides = [Interval(bounds.lower, bounds.upper)]
    if over != "records":
        both = (bounds.average(), bounds.worst())
        sides = [Interval(lower[..., np.newaxis], upper[..., np.newaxis]) for lower, upper in both]
    widths = []
    for lower, upper in sides:
        undecided = np.ones(lower.shape, dtype=bool) if at_least is None else (lower < at_least) & (upper >= at_least)
        widths.append(np.where(undecided, upper - lower, 0.0).max(axis=2))
    return np.asarray(np.maximum.reduce(widths))


def _reasons(problem: Problem, answered: Answered) -> list[str]:
    return [
        f"{part.engine.name} for {', '.join(problem.names[m] for m in part.mechanisms)}: {part.why}"
        for part, _ in answered
    ]


ROOM = 1e-9


def check_possible(problem: Problem, stability: Bounds) -> None:
    """Refuse an answer that no mechanism of the promise can have: the mechanism that somebody brought breaks it.

    Claim: of records that differ in sensitive columns alone, one keeps its label with a probability of at most 1 less
    e^-epsilon (p - delta) for each other label, kept by another of them with probability p.

    Raises
    ------
    ValueError
    """
    brought = [m for m, row in enumerate(problem.releases) if any(map(is_brought, row[0].mechanisms))]
    if not brought:
        return
    best_bounds = _best_by_label(problem, stability.lower[brought])
    for m, best in zip(brought, best_bounds, strict=True):
        for e, release in enumerate(problem.releases[m]):
            promise = release.guarantee
            others = math.exp(-promise.epsilon) * np.maximum(best[e] - promise.delta, 0.0)
            total = best[e] + others.sum(axis=1, keepdims=True) - others
            if (total > 1 + ROOM).any():
                group, label = np.unravel_index(int(total.argmax()), total.shape)
                most = 1 - float(total[group, label] - best[e][group, label])
                raise ValueError(
                    f"mechanisms: {problem.names[m]!r} at epsilon {show_up(promise.epsilon)} tells more than it says: "
                    f"a record keeps its label with probability {round_down(float(best[e][group, label]))}, and no "
                    f"more than {round_up(most)} is possible beside others; correct its guarantee"
                )


def _best_by_label(problem: Problem, lower: Floats) -> Floats:
    """Return the largest bounds by public columns and label, shape ``(mechanisms, epsilons, groups, labels)``."""
    records = problem.records
    public = [at for at in range(len(records.names)) if at not in problem.positions]
    codes = [np.unique(np.array(list(map(repr, records.column(at)))), return_inverse=True)[1] for at in public]
    rows = np.stack([np.zeros(len(records), np.int64), *codes], axis=1)
    group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    labels, label = np.unique(np.array(list(map(repr, problem.labels))), return_inverse=True)
    best = np.zeros((*lower.shape[:2], int(group.max()) + 1, len(labels)))
    for m, e in np.ndindex(*lower.shape[:2]):
        np.maximum.at(best[m, e], (group, label.ravel()), lower[m, e])
    return best


READ = 0.02  # share of the work that is told as done once the classifier is read
# Clients choose a subset by the order of 64-bit words; two of d <= 1,000 are equal with probability d^2 / 2^65 at most
TIED = 2.0**-45


def run(
    problem: Problem,
    method: Method,
    settings: Settings,
    over: Over,
    deadline: Deadline | None = None,
    work: Work = WHOLE,
) -> tuple[Answered, str]:
    """Run every part of a plan, and sample what turns out too hard for its engine with the rest.

    Return the results, and what was bounded to the tolerance.  Each run that may draw has one share of the risk.
    Reading the classifier and planning are never cut short; a part that the deadline stops says what it has not
    finished.
    """
    if problem.subsets:
        return _over_subsets(problem, method, settings, over, deadline, work)
    checkpoint = work.checkpoint
    first = average_comes_first(problem, over, deadline) if checkpoint is None else checkpoint.average_first
    with one_thread():
        parts = plan(problem, method, average_first=first)
    settings = settings.seeded() if checkpoint is None else replace(settings, seeds=checkpoint.seeds)
    running = _Running(problem, settings, work, [])
    if deadline is not None:
        running.problem = running.followed(deadline)
        running.settings = replace(settings, progress=lambda share: deadline.progress(READ + (1 - READ) * share))
        deadline.progress(READ)
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

    def followed(self, deadline: Deadline) -> Problem:
        """Return the question at a deadline that knows what is proven at any time."""
        deadline.mechanisms, deadline.epsilons, deadline.proven = self.problem.names, self.problem.epsilons, self.proven
        return replace(self.problem, deadline=deadline)

    def proven(self) -> Interval:
        """Return what is proven of the average by now."""
        problem, known = self.problem, [(part, result.stability) for part, result in self.results]
        if self.current is not None:
            known.append((self.current[0], self.current[1]()))
        if not self.work.filed:
            return with_coin(joined(problem, known), problem.reveal, np.ones(len(problem.records))).average()
        average = Interval(np.zeros(problem.shape[:2]), np.ones(problem.shape[:2]))  # no record's bounds are at hand
        for part, bounds in known:
            for side, own in zip(average, bounds.pooled or (), strict=False):
                side[list(part.mechanisms)] = own
        return average


def average_comes_first(problem: Problem, over: Over, deadline: Deadline | None) -> bool:
    """Tell whether the average comes before the records: by a deadline."""
    limited = deadline is not None and deadline.seconds is not None and len(problem.records) > 1
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
    problem: Problem, method: Method, settings: Settings, over: Over, deadline: Deadline | None, work: Work
) -> tuple[Answered, str]:
    """Answer about every subset of the features that a record may release, and average."""
    used: list[str] = []
    bounded_over: list[str] = []
    if deadline is not None:
        deadline.mechanisms, deadline.epsilons = problem.names, problem.epsilons
        deadline.proven = lambda: Interval(np.zeros(problem.shape[:2]), np.ones(problem.shape[:2]))

    def answering(subset: Problem, own: Settings) -> EngineResult:
        results, chosen = run(
            subset if deadline is None else replace(subset, deadline=deadline), method, own, over, work=work
        )
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
