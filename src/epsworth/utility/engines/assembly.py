"""From the parts of a plan to one answer: run every engine, put the bounds back in order, account for the coin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, draws_needed
from epsworth.rounding import show_up
from epsworth.utility.curves import Bounds, Curves
from epsworth.utility.engines.paper import published
from epsworth.utility.engines.plan import Part
from epsworth.utility.engines.sampled import Answer, Settings, each_record, whole_dataset
from epsworth.utility.question import Question

Answered = list[tuple[Part, Answer]]
Over = Literal["auto", "records", "dataset"]

MOST_NAMED = 5  # epsilons that a note lists
BRACKETS = {"lattice-bracket", "polygon", "sections"}  # which promise no more than the tolerance from end to end
MOST_QUERIES_PER_RECORD_MODE = 100_000_000


def run_parts(question: Question, parts: list[Part], settings: Settings, over: Over) -> tuple[Answered, str]:
    """Run every part; one that turns out too hard for its exact engine is sampled with the rest."""
    answered: Answered = []
    left: list[int] = []
    weight, draws = 1 / len(parts), _drawing_runs(parts)
    for number, part in enumerate(parts):
        if part.run is None:
            left += part.mechanisms
            continue
        share = _share(settings.progress, number * weight, weight)
        answer = part.run(question.only(part.mechanisms), replace(settings, progress=share, miss=settings.miss / draws))
        if answer is None:
            left += part.mechanisms
        else:
            answered.append((part, answer))
    if not left:
        settings.progress(1.0)
        return answered, "records"
    rest = question.only(left)
    share = _share(settings.progress, len(answered) * weight, 1 - len(answered) * weight)
    settings = replace(settings, progress=share, miss=settings.miss / draws)
    chosen = _over(rest, settings) if over == "auto" else over
    answer = each_record(rest, settings) if chosen == "records" else whole_dataset(rest, settings)
    answered.append((Part(tuple(left), "monte-carlo", "no exact engine applies", None), answer))
    return answered, chosen


def _drawing_runs(parts: list[Part]) -> int:
    """Count the runs that draw, each of which spends an equal share of the miss probability.

    Plain sampling is one run for all its mechanisms; cells may hand theirs over to it when there are too many, and
    sections when rounding leaves too much open.
    """
    apart = sum(part.draws and part.run is not None for part in parts)
    sampling = any(part.run is None or part.name in ("exact-cells", "sections") for part in parts)
    return max(1, apart + sampling)


def _share(progress: Callable[[float], None], start: float, size: float) -> Callable[[float], None]:
    return lambda done: progress(min(1.0, start + size * done))


def _over(question: Question, settings: Settings) -> Literal["records", "dataset"]:
    points = int(np.prod(question.shape))
    most = points * draws_needed(settings.tolerance, settings.miss / points)
    return "records" if len(question.records) == 1 or most <= MOST_QUERIES_PER_RECORD_MODE else "dataset"


def assemble(question: Question, answered: Answered) -> Answer:
    """Put the parts' bounds back in the order of the mechanisms."""
    return Answer(
        _joined(question, [(part, answer.stability) for part, answer in answered]),
        None
        if question.y is None
        else _joined(question, [(part, answer.accuracy) for part, answer in answered if answer.accuracy is not None]),
        np.max([answer.labels_possible for _, answer in answered], axis=0),
        sum(answer.queries for _, answer in answered),
    )


def _joined(question: Question, parts: list[tuple[Part, Bounds]]) -> Bounds:
    lower, upper = np.empty(question.shape), np.empty(question.shape)
    pooled = Interval(np.empty(question.shape[:2]), np.empty(question.shape[:2]))
    for part, bounds in parts:
        at = list(part.mechanisms)
        lower[at], upper[at] = bounds.lower, bounds.upper
        pooled.lower[at], pooled.upper[at] = bounds.average()
    return Bounds(lower, upper, pooled)


def drew(answered: Answered) -> bool:
    """Tell whether some engine drew, so that the answer holds with a confidence below 1.

    Branch and bound that decides enough asks nothing.
    """
    return any(part.draws and answer.queries > 0 for part, answer in answered)


def curves_of(
    question: Question, answered: Answered, found: Answer, over: str, settings: Settings, seconds: float
) -> Curves:
    """Return the answer as curves: promises, units and methods beside the bounds."""
    curves = Curves(
        mechanisms=question.names,
        epsilons=question.epsilons,
        features=tuple(feature.name for feature in question.features),
        stability=_with_coin(found.stability, question, np.ones(len(question.records))),
        accuracy=_accuracy(found, question),
        guarantees=tuple(tuple(release.guarantee for release in row) for row in question.releases),
        tight_epsilons=np.array([[release.tight_epsilon for release in row] for row in question.releases]),
        labels=question.labels,
        labels_possible=found.labels_possible,
        method=_methods(question, answered),
        over=over,
        confidence=1 - settings.miss if drew(answered) else 1.0,
        tolerance=float(settings.tolerance),
        queries=found.queries + question.asked,
        seconds=seconds,
        notes=(*question.notes, *_reasons(question, answered)),
    )
    return replace(curves, notes=(*curves.notes, *_too_wide(curves, settings.target)))


def _too_wide(curves: Curves, target: float | None) -> list[str]:
    """Say of every mechanism whose intervals are wider than the tolerance allows how wide they are."""
    kinds = [bounds for bounds in (curves.stability, curves.accuracy) if bounds is not None]
    widths = np.maximum.reduce([_widths(bounds, curves.over, target) for bounds in kinds])
    notes = []
    for name, found, methods in zip(curves.mechanisms, widths, curves.method, strict=True):
        what, allowed = ("width", 1) if set(methods) <= BRACKETS else ("half-width", 2)
        at = np.flatnonzero(found > allowed * curves.tolerance * (1 + 1e-9))
        if at.size:
            listed = ", ".join(map(show_up, curves.epsilons[at[:MOST_NAMED]]))
            more = f" and {at.size - MOST_NAMED} more" if at.size > MOST_NAMED else ""
            notes.append(
                f"{name}: the tolerance of {show_up(curves.tolerance)} is not met at epsilon {listed}{more}: the "
                f"bounds hold, but with a {what} of up to {show_up(float(found.max()) / allowed, 3)}"
            )
    return notes


def _widths(bounds: Bounds, over: str, target: float | None) -> Floats:
    """Return the largest width by mechanism and epsilon of what was to be bounded to the tolerance."""
    sides = [Interval(bounds.lower, bounds.upper)]
    if over != "records":
        both = (bounds.average(), bounds.worst())
        sides = [Interval(lower[..., np.newaxis], upper[..., np.newaxis]) for lower, upper in both]
    found = []
    for lower, upper in sides:
        undecided = np.ones(lower.shape, dtype=bool) if target is None else (lower < target) & (upper >= target)
        found.append(np.where(undecided, upper - lower, 0.0).max(axis=2))
    return np.asarray(np.maximum.reduce(found))


def _methods(question: Question, answered: Answered) -> NDArray[np.str_]:
    methods = np.empty((len(question.names), len(question.records)), dtype="<U17")
    for part, _ in answered:
        methods[list(part.mechanisms)] = part.name
    return methods


def _reasons(question: Question, answered: Answered) -> list[str]:
    return [
        f"{part.name} for {', '.join(question.names[m] for m in part.mechanisms)}: {part.why}" for part, _ in answered
    ]


def _accuracy(found: Answer, question: Question) -> Bounds | None:
    if found.accuracy is None or question.y is None:
        return None
    return _with_coin(found.accuracy, question, (question.labels == question.y).astype(np.float64))


def _with_coin(bounds: Bounds, question: Question, raw: Floats) -> Bounds:
    """Account for the privacy indicator: with probability ``reveal`` the raw record is asked about."""
    reveal = np.array([[release.reveal for release in row] for row in question.releases])
    if not reveal.any():
        return bounds
    each = reveal[:, :, np.newaxis]
    lower, upper = (each * raw + (1 - each) * side for side in (bounds.lower, bounds.upper))
    if bounds.pooled is None:
        return Bounds(lower, upper)
    pooled = Interval(*(reveal * raw.mean() + (1 - reveal) * side for side in bounds.pooled))
    return Bounds(lower, upper, pooled)


def with_published_claim(question: Question, curves: Curves, settings: Settings, began: float) -> Curves:
    """Put the published claim in place of the bounds, which stay beside it as ``check``."""
    if any(not release.mechanisms for row in question.releases for release in row):
        raise ValueError("method='paper' knows no label_rr; leave it out")
    found = published(question, settings.rng, settings.progress)
    claim = _with_coin(found.stability, question, np.ones(len(question.records)))
    above = int((claim.lower > curves.upper).sum())
    heuristic = (
        f"the published box search is a heuristic, not a guarantee: {above} of {claim.lower.size} claims lie above "
        "the upper bound of the direct check"
    )
    return replace(
        curves,
        stability=claim,
        accuracy=None,
        check=curves.stability,
        method=np.full(curves.method.shape, "paper"),
        queries=curves.queries + found.queries,
        seconds=time.perf_counter() - began,
        notes=(*question.notes, *_too_wide(curves, settings.target), heuristic),
        sound=False,
    )
