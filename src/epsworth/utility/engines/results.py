"""From the results of engines to curves: bounds in the order of the mechanisms, the indicator's coin, what is said.

With some probability a privacy indicator asks about the raw record, whose label is its own (`with_coin`).  Of records
that differ in sensitive columns alone a mechanism's own promise rules out that all keep labels of their own
(`check_possible`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.mechanisms.family import is_brought
from epsworth.rounding import down, float_below, round_down, round_up, show_up, up
from epsworth.utility.curves import Curves
from epsworth.utility.engines.engine import EngineResult, Settings
from epsworth.utility.engines.table import ENGINES, Part
from epsworth.utility.pace import Pace
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds

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
    for part, answer in answered:
        if answer.open is not None:
            open_[list(part.mechanisms)] = answer.open
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
    problem: Problem, answered: Answered, result: EngineResult, over: str, settings: Settings, pace: Pace
) -> Curves:
    """Return the answer as curves: promises, units and methods beside the bounds."""
    reveal, accuracy = revealing(problem), result.accuracy
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
        **promised(problem, answered, settings, pace),
    )
    wide = (
        _too_wide(curves, settings.at_least)
        if result.open is None
        else [_unfinished(curves, result.open, str(pace.stopped), goes_on=not problem.subsets)]
    )
    check_possible(problem, curves.stability)
    return replace(curves, notes=(*curves.notes, *wide))


def promised(problem: Problem, answered: Answered, settings: Settings, pace: Pace) -> dict[str, Any]:
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
        "seconds": pace.clock() - pace.began,
        "notes": (*problem.notes, *_reasons(problem, answered)),
        "spent": float_below(spent),
        "stopped": any(result.open is not None for _, result in answered),
    }


def _unfinished(curves: Curves, open_: Bools, why: str, *, goes_on: bool) -> str:
    """Say why a run ended early, how far it came, and what would help."""
    parts = []
    for name, row in zip(curves.mechanisms, open_, strict=True):
        if row.any():
            parts.append(f"{name} on {row.size - int(row.sum())} of {row.size} records")
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


def revealing(problem: Problem) -> Floats:
    """Return the probability with which the raw record is asked about, by mechanism and epsilon."""
    return np.array([[release.reveal for release in row] for row in problem.releases], dtype=np.float64)


def with_coin(bounds: Bounds, reveal: Floats, raw: Floats) -> Bounds:
    """Account for the coin; ``raw`` is what the raw records give, one by one."""
    if not reveal.any():
        return bounds
    mixed = _mixed(reveal[:, :, np.newaxis], raw, Interval(bounds.lower, bounds.upper))
    return Bounds(*mixed, None if bounds.pooled is None else _mixed(reveal, raw.mean(), bounds.pooled))


def _mixed(reveal: Floats, raw: Floats | float, bounds: Interval) -> Interval:
    """Mix bounds with what the raw records give: five roundings, an average's own among them; what is certain stays."""
    lower, upper = (reveal * raw + (1 - reveal) * side for side in bounds)
    return Interval(
        np.where((bounds.lower == raw) | (reveal == 0), bounds.lower, np.maximum(down(lower, ulps=5), 0)),
        np.where((bounds.upper == raw) | (reveal == 0), bounds.upper, np.minimum(up(upper, ulps=5), 1)),
    )


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
