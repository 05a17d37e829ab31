"""From the parts of a plan to one answer: run every engine, put the bounds back in order, account for the coin."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.rounding import down, float_below, round_up, show_up, up
from epsworth.utility.curves import Curves
from epsworth.utility.engines import table
from epsworth.utility.engines.checkpoint import Checkpoint, Kept
from epsworth.utility.engines.engine import Answer, Engine, Settings
from epsworth.utility.engines.mixture import Mixture
from epsworth.utility.engines.paper import published
from epsworth.utility.engines.plan import Method, Part, plan
from epsworth.utility.engines.sampled import Over, Sampled
from epsworth.utility.pace import Pace
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question

Answered = list[tuple[Part, Answer]]

MOST_NAMED = 5  # epsilons that a note lists
READ = 0.02  # share of the work that is told as done once the classifier is read


def run(
    question: Question, method: Method, settings: Settings, over: Over, pace: Pace | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Answered, str]:  # fmt: skip
    """Run every part of a plan, and sample what turns out too hard for its engine with the rest.

    Return the answers, and what was bounded to the tolerance.  Each run that may draw has one share of the risk.
    Reading the classifier and planning are never cut short; a part that the pace stops says what it has not finished.
    """
    if question.subsets:
        return _over_subsets(question, method, settings, over, pace)
    parts, answered = plan(question, method), Answered()
    if pace is not None:
        question = _followed(question, answered, pace)
        settings = replace(settings, progress=lambda share: pace.progress(READ + (1 - READ) * share))
        pace.progress(READ)
    left = [m for part in parts if isinstance(part.engine, Sampled) for m in part.mechanisms]
    why = next((part.why for part in parts if isinstance(part.engine, Sampled)), "")
    weight, shares = 1 / len(parts), settings.risk.split(max(1, drawing_runs([part.engine for part in parts])))
    for number, part in enumerate(part for part in parts if not isinstance(part.engine, Sampled)):
        kept = Kept(checkpoint, f"{number} {part.engine.name}")
        share = shares.take(int(part.engine.draws))
        answer = _run(question, part, answered, replace(settings, kept=kept, risk=share), number * weight, weight)
        if answer is None:
            left += part.mechanisms
    if not left:
        settings.progress(1.0)
        return answered, "records"
    engine, rest = Sampled(over), question.only(left)
    part = Part(tuple(left), engine, why or engine.why(question, left[0]))
    share, start = shares.take(), len(answered) * weight
    chosen = engine.chosen(rest, replace(settings, risk=share))
    kept = Kept(checkpoint, f"sampled {chosen}")
    _run(question, part, answered, replace(settings, kept=kept, risk=share), start, 1 - start)
    return answered, chosen


def _over_subsets(
    question: Question, method: Method, settings: Settings, over: Over, pace: Pace | None
) -> tuple[Answered, str]:
    """Answer about every subset of the features that a record may release, and average."""
    used: list[str] = []
    bounded: list[str] = []
    if pace is not None:
        pace.mechanisms, pace.epsilons = question.names, question.epsilons
        pace.proven = lambda: Interval(np.zeros(question.shape[:2]), np.ones(question.shape[:2]))

    def answering(subset: Question, own: Settings) -> Answer:
        answered, chosen = run(subset if pace is None else replace(subset, pace=pace), method, own, over)
        used.extend(part.engine.name for part, _ in answered)
        bounded.append(chosen)
        return assemble(subset, answered)

    engine = Mixture(answering)
    found = engine.bound(question, settings)
    engines = ", ".join(sorted(set(used)))
    why = f"{engine.because}: {len(question.subsets)} subsets, answered by {engines}"
    return [(Part((0,), engine, why), found)], "dataset" if "dataset" in bounded else "records"


def _run(
    question: Question, part: Part, answered: Answered, settings: Settings, start: float, size: float
) -> Answer | None:
    """Append the answer of a part, which takes a share of the work, with what it spent; None if it hands over.

    While it runs, what it has proven stands at the end of ``answered``.
    """

    def progress(done: float) -> None:
        settings.progress(min(1.0, start + size * done))

    def follow(bounds: Bounds) -> None:
        answered.append((part, Answer(bounds, None, np.zeros(0, dtype=np.int64), 0)))

    before, finished = settings.risk.spent, len(answered)
    answer = part.engine.bound(question.only(part.mechanisms), replace(settings, progress=progress, follow=follow))
    del answered[finished:]
    if answer is not None:
        answer = replace(answer, spent=answer.spent + settings.risk.spent - before)
        answered.append((part, answer))
    return answer


def _followed(question: Question, answered: Answered, pace: Pace) -> Question:
    """Return the question at a pace that knows what is proven at any time."""

    def proven() -> Interval:
        found = _joined(question, [(part, answer.stability) for part, answer in answered])
        return _with_coin(found, question, np.ones(len(question.records))).average()

    pace.mechanisms, pace.epsilons, pace.proven = question.names, question.epsilons, proven
    return replace(question, pace=pace)


def drawing_runs(engines: Sequence[Engine]) -> int:
    """Count the runs that draw, each of which has an equal share of the risk.

    Plain sampling is one run for all its mechanisms; others may hand theirs over to it.
    """
    apart = sum(engine.draws and not isinstance(engine, Sampled) for engine in engines)
    return apart + any(isinstance(engine, Sampled) or engine.hands_over for engine in engines)


def assemble(question: Question, answered: Answered) -> Answer:
    """Put the parts' bounds back in the order of the mechanisms."""
    return Answer(
        _joined(question, [(part, answer.stability) for part, answer in answered]),
        None
        if question.y is None
        else _joined(question, [(part, answer.accuracy) for part, answer in answered if answer.accuracy is not None]),
        np.max([answer.labels_possible for _, answer in answered], axis=0),
        sum(answer.queries for _, answer in answered),
        sum((answer.spent for _, answer in answered), Fraction(0)),
        _open(question, answered),
    )


def _open(question: Question, answered: Answered) -> Bools | None:
    """Return where engines were stopped, by mechanism and record of the whole question."""
    found = np.zeros((question.shape[0], question.shape[2]), dtype=bool)
    for part, answer in answered:
        if answer.open is not None:
            found[list(part.mechanisms)] = answer.open
    return found if found.any() else None


def _joined(question: Question, parts: list[tuple[Part, Bounds]]) -> Bounds:
    lower, upper = np.zeros(question.shape), np.ones(question.shape)  # of parts that have not begun
    pooled = Interval(np.zeros(question.shape[:2]), np.ones(question.shape[:2]))
    for part, bounds in parts:
        at = list(part.mechanisms)
        lower[at], upper[at] = bounds.lower, bounds.upper
        pooled.lower[at], pooled.upper[at] = bounds.average()
    return Bounds(lower, upper, pooled)


def curves_of(
    question: Question, answered: Answered, found: Answer, over: str, settings: Settings, pace: Pace
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
        confidence=float(1 - settings.risk.total) if found.spent else 1.0,
        tolerance=float(settings.tolerance),
        queries=found.queries + question.asked,
        seconds=pace.clock() - pace.began,
        notes=(*question.notes, *_reasons(question, answered)),
        spent=float_below(found.spent),
        stopped=found.open is not None,
        unit=question.per,
    )
    wide = (
        _too_wide(curves, settings.at_least)
        if found.open is None
        else [_unfinished(curves, found.open, str(pace.stopped), goes_on=not question.subsets)]
    )
    return replace(curves, notes=(*curves.notes, *wide))


def _unfinished(curves: Curves, open_: Bools, why: str, *, goes_on: bool) -> str:
    """Say why a run ended early, how far it came, and what would help."""
    parts = []
    for name, row in zip(curves.mechanisms, open_, strict=True):
        if row.any():
            parts.append(f"{name} on {row.size - int(row.sum())} of {row.size} records")
    half = round_up(float(_widths(curves.stability, curves.over, None).max()) / 2)
    return (
        f"the run was stopped {why}: all bounds hold, but they are finished for "
        f"{', '.join(parts)} only, with a half-width of up to {half:g}; more time narrows them"
        + (", and with a checkpoint the next run goes on where this one ended" if goes_on else "")
    )


def _too_wide(curves: Curves, at_least: float | None) -> list[str]:
    """Say of every mechanism whose intervals are wider than the tolerance allows how wide they are."""
    kinds = [bounds for bounds in (curves.stability, curves.accuracy) if bounds is not None]
    widths = np.maximum.reduce([_widths(bounds, curves.over, at_least) for bounds in kinds])
    notes, brackets = [], {engine.name for engine in table.ENGINES if engine.brackets}
    for name, found, methods in zip(curves.mechanisms, widths, curves.method, strict=True):
        what, allowed = ("width", 1) if set(methods) <= brackets else ("half-width", 2)
        at = np.flatnonzero(found > allowed * curves.tolerance * (1 + 1e-9))
        if at.size:
            listed = ", ".join(map(show_up, curves.epsilons[at[:MOST_NAMED]]))
            more = f" and {at.size - MOST_NAMED} more" if at.size > MOST_NAMED else ""
            notes.append(
                f"{name}: the tolerance of {show_up(curves.tolerance)} is not met at epsilon {listed}{more}: the "
                f"bounds hold, but with a {what} of up to {show_up(float(found.max()) / allowed, 3)}"
            )
    return notes


def _widths(bounds: Bounds, over: str, at_least: float | None) -> Floats:
    """Return the largest width by mechanism and epsilon of what was to be bounded to the tolerance."""
    sides = [Interval(bounds.lower, bounds.upper)]
    if over != "records":
        both = (bounds.average(), bounds.worst())
        sides = [Interval(lower[..., np.newaxis], upper[..., np.newaxis]) for lower, upper in both]
    found = []
    for lower, upper in sides:
        undecided = np.ones(lower.shape, dtype=bool) if at_least is None else (lower < at_least) & (upper >= at_least)
        found.append(np.where(undecided, upper - lower, 0.0).max(axis=2))
    return np.asarray(np.maximum.reduce(found))


def _methods(question: Question, answered: Answered) -> NDArray[np.str_]:
    names = {m: part.engine.name for part, _ in answered for m in part.mechanisms}
    return np.repeat([[names[m]] for m in range(len(names))], len(question.records), axis=1)


def _reasons(question: Question, answered: Answered) -> list[str]:
    return [
        f"{part.engine.name} for {', '.join(question.names[m] for m in part.mechanisms)}: {part.why}"
        for part, _ in answered
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
    mixed = _mixed(each, raw, Interval(bounds.lower, bounds.upper))
    return Bounds(*mixed, None if bounds.pooled is None else _mixed(reveal, raw.mean(), bounds.pooled))


def _mixed(reveal: Floats, raw: Floats | float, found: Interval) -> Interval:
    """Mix bounds with what the raw records give: five roundings, an average's own among them; what is certain stays."""
    lower, upper = (reveal * raw + (1 - reveal) * side for side in found)
    return Interval(
        np.where(found.lower == raw, raw, np.maximum(down(lower, ulps=5), 0)),
        np.where(found.upper == raw, raw, np.minimum(up(upper, ulps=5), 1)),
    )


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
        seconds=time.monotonic() - began,
        notes=(*question.notes, *_too_wide(curves, settings.at_least), heuristic),
        sound=False,
    )
