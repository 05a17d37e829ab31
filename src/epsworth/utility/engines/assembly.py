"""From the parts of a plan to one answer: run every engine, put the bounds back in order, account for the coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.rounding import float_below, round_up, show_up
from epsworth.threads import one_thread
from epsworth.utility.curves import Curves
from epsworth.utility.engines import table
from epsworth.utility.engines.checkpoint import Checkpoint, Kept
from epsworth.utility.engines.coin import revealing, with_coin
from epsworth.utility.engines.contradictions import check_possible
from epsworth.utility.engines.engine import Answer, Engine, Settings
from epsworth.utility.engines.mixture import Mixture
from epsworth.utility.engines.pieces import WHOLE, Work, bounded
from epsworth.utility.engines.sampled import AverageFirst, Over, Sampled
from epsworth.utility.engines.table import Method, Part, plan
from epsworth.utility.pace import Pace
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question

Answered = list[tuple[Part, Answer]]

MOST_NAMED = 5  # epsilons that a note lists
READ = 0.02  # share of the work that is told as done once the classifier is read


def run(
    question: Question, method: Method, settings: Settings, over: Over, pace: Pace | None = None,
    checkpoint: Checkpoint | None = None, work: Work = WHOLE,
) -> tuple[Answered, str]:  # fmt: skip
    """Run every part of a plan, and sample what turns out too hard for its engine with the rest.

    Return the answers, and what was bounded to the tolerance.  Each run that may draw has one share of the risk.
    Reading the classifier and planning are never cut short; a part that the pace stops says what it has not finished.
    """
    if question.subsets:
        return _over_subsets(question, method, settings, over, pace, work)
    first = _average_first(question, over, pace, checkpoint, work)
    with one_thread():
        parts, answered = plan(question, method, average_first=first), Answered()
    drawing = sorted(m for part in parts if _waits(part) for m in part.mechanisms) if first else []
    held = checkpoint if work.folder is None else work.folder
    settings = settings.seeded() if held is None else replace(settings, seeds=held.seeds)
    if pace is not None:
        question = _followed(question, answered, pace, filed=work.filed)
        settings = replace(settings, progress=lambda share: pace.progress(READ + (1 - READ) * share))
        pace.progress(READ)
    left = [m for part in parts if isinstance(part.engine, Sampled) for m in part.mechanisms]
    why = next((part.why for part in parts if isinstance(part.engine, Sampled)), "")
    runs = drawing_runs([part.engine for part in parts]) + bool(drawing)
    weight, shares = 1 / (len(parts) + bool(drawing)), settings.risk.split(max(1, runs))
    others = list(enumerate(part for part in parts if not isinstance(part.engine, Sampled)))
    of_labels = [(number, part) for number, part in others if first and part.engine.of_label]  # at once, by a formula

    def answer(number: int, part: Part) -> None:
        kept = Kept(checkpoint, f"{number} {part.engine.name}")
        own = replace(settings.of_part(number), kept=kept, risk=shares.take(int(part.engine.draws)))
        if _run(question, part, answered, own, len(answered) * weight, weight, work, number) is None:
            left.extend(part.mechanisms)

    for number, part in of_labels:
        answer(number, part)
    if drawing:
        average = Part(tuple(drawing), AverageFirst(), AverageFirst.because)
        own = settings.of_part(len(parts) + 1)
        own = replace(own, kept=Kept(checkpoint, "average first"), risk=shares.take())
        _run(question, average, answered, own, 0, weight, work, len(parts) + 1)
    for number, part in sorted(others, key=lambda one: first and _waits(one[1])):
        if (number, part) not in of_labels:
            answer(number, part)
    if not left:
        settings.progress(1.0)
        return _without_idle(answered), "records"
    engine, rest = Sampled("dataset" if first else over, averaged=set(left) <= set(drawing)), question.only(left)
    part = Part(tuple(left), engine, why or engine.why(question, left[0]))
    start, own = len(answered) * weight, replace(settings.of_part(len(parts)), risk=shares.take())
    chosen = engine.chosen(rest, own)
    if work.filed and chosen == "dataset":
        raise ValueError(
            f"{', '.join(rest.names)}: the average and the worst case of the dataset would be sampled, from all "
            "records at once, and parts hold the bounds of records; give over='records', or leave out the folder"
        )
    kept = Kept(checkpoint, f"sampled {chosen}")
    _run(question, part, answered, replace(own, kept=kept), start, 1 - start, work, len(parts))
    return answered, chosen


def _waits(part: Part) -> bool:
    """Tell whether a part's average would be long in coming: it draws, or takes one record after the other."""
    return part.engine.draws or part.engine.long


def _without_idle(answered: Answered) -> Answered:
    """Leave out averages that were drawn of what is known exactly in the end, with what they spent."""
    drawn = [answer for part, answer in answered if part.engine.draws or answer.spent or answer.open is not None]
    return [(part, answer) for part, answer in answered if len(drawn) > 1 or not isinstance(part.engine, AverageFirst)]


def _average_first(
    question: Question, over: Over, pace: Pace | None, checkpoint: Checkpoint | None, work: Work
) -> bool:
    """Tell whether the average comes before the records: by a deadline, or since it did in the run that goes on."""
    kept = Kept(checkpoint, "order")
    if checkpoint is not None and checkpoint.parts:
        return kept.found(average_first=True) is not None
    limited = pace is not None and pace.seconds is not None and len(question.records) > 1
    if not limited or over == "records" or work.folder is not None:
        return False
    kept.keep(average_first=True)
    return True


def _over_subsets(
    question: Question, method: Method, settings: Settings, over: Over, pace: Pace | None, work: Work
) -> tuple[Answered, str]:
    """Answer about every subset of the features that a record may release, and average."""
    used: list[str] = []
    bounded: list[str] = []
    if pace is not None:
        pace.mechanisms, pace.epsilons = question.names, question.epsilons
        pace.proven = lambda: Interval(np.zeros(question.shape[:2]), np.ones(question.shape[:2]))

    def answering(subset: Question, own: Settings) -> Answer:
        answered, chosen = run(subset if pace is None else replace(subset, pace=pace), method, own, over, work=work)
        used.extend(part.engine.name for part, _ in answered)
        bounded.append(chosen)
        return assemble(subset, answered)

    engine = Mixture(answering)
    found = engine.bound(question, settings)
    engines = ", ".join(sorted(set(used)))
    why = f"{engine.because}: {len(question.subsets)} subsets, answered by {engines}"
    return [(Part((0,), engine, why), found)], "dataset" if "dataset" in bounded else "records"


def _run(
    question: Question,
    part: Part,
    answered: Answered,
    settings: Settings,
    start: float,
    size: float,
    work: Work,
    number: int,
) -> Answer | None:
    """Append the answer of a part, which takes a share of the work, with what it spent; None if it hands over.

    While it runs, what it has proven stands at the end of ``answered``.
    """

    def progress(done: float) -> None:
        settings.progress(min(1.0, start + size * done))

    def follow(bounds: Bounds) -> None:
        del answered[finished:]
        answered.append((part, Answer(bounds, None, np.zeros(0, dtype=np.int64), 0)))

    before, finished = settings.risk.spent, len(answered)
    asked, own = question.only(part.mechanisms), replace(settings, progress=progress, follow=follow)
    answer = bounded(part.engine, asked, own, work, number)
    del answered[finished:]
    if answer is not None:
        answer = replace(answer, spent=answer.spent + settings.risk.spent - before)
        answered.append((replace(part, number=number), answer))
    return answer


def _followed(question: Question, answered: Answered, pace: Pace, *, filed: bool) -> Question:
    """Return the question at a pace that knows what is proven at any time."""

    def proven() -> Interval:
        if filed:
            return _averages(question, answered)
        found = _joined(question, [(part, answer.stability) for part, answer in answered])
        return _with_coin(found, question, np.ones(len(question.records))).average()

    pace.mechanisms, pace.epsilons, pace.proven = question.names, question.epsilons, proven
    return replace(question, pace=pace)


def _averages(question: Question, answered: Answered) -> Interval:
    """Return what is proven of the average where no record's bounds are at hand."""
    found = Interval(np.zeros(question.shape[:2]), np.ones(question.shape[:2]))
    for part, answer in answered:
        if answer.stability.pooled is not None:
            for side, own in zip(found, answer.stability.pooled, strict=True):
                side[list(part.mechanisms)] = own
    return found


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
    for part, bounds in parts:  # two parts may tell of one mechanism: both hold
        at, average = list(part.mechanisms), bounds.average()
        lower[at], upper[at] = np.maximum(lower[at], bounds.lower), np.minimum(upper[at], bounds.upper)
        pooled.lower[at] = np.maximum(pooled.lower[at], average.lower)
        pooled.upper[at] = np.minimum(pooled.upper[at], average.upper)
    return Bounds(lower, upper, pooled)


def curves_of(
    question: Question, answered: Answered, found: Answer, over: str, settings: Settings, pace: Pace
) -> Curves:
    """Return the answer as curves: promises, units and methods beside the bounds."""
    curves = Curves(
        stability=_with_coin(found.stability, question, np.ones(len(question.records))),
        accuracy=_accuracy(found, question),
        labels=question.labels,
        labels_possible=found.labels_possible,
        method=_methods(question, answered),
        over=over,
        tolerance=float(settings.tolerance),
        **promised(question, answered, found, settings, pace),
    )
    wide = (
        _too_wide(curves, settings.at_least)
        if found.open is None
        else [_unfinished(curves, found.open, str(pace.stopped), goes_on=not question.subsets)]
    )
    check_possible(question, curves.stability)
    return replace(curves, notes=(*curves.notes, *wide))


def promised(question: Question, answered: Answered, found: Answer, settings: Settings, pace: Pace) -> dict[str, Any]:
    """Return what is told of an answer whatever form its bounds have."""
    return {
        "mechanisms": question.names,
        "epsilons": question.epsilons,
        "features": tuple(feature.name for feature in question.features),
        "passing": question.passing,
        "guarantees": tuple(tuple(release.guarantee for release in row) for row in question.releases),
        "tight_epsilons": np.array([[release.tight_epsilon for release in row] for row in question.releases]),
        "confidence": float(1 - settings.risk.total) if found.spent else 1.0,
        "queries": found.queries + question.asked,
        "seconds": pace.clock() - pace.began,
        "notes": (*question.notes, *_reasons(question, answered)),
        "spent": float_below(found.spent),
        "stopped": found.open is not None,
    }


def what_is_known(question: Question, answered: Answered) -> Answer:
    """Return what there is beside bounds that lie in files."""
    m, e, _ = question.shape
    none = Bounds(np.zeros((m, e, 0)), np.zeros((m, e, 0)))
    spent = sum((answer.spent for _, answer in answered), Fraction(0))
    queries, open_ = sum(answer.queries for _, answer in answered), [a for _, a in answered if a.open is not None]
    return Answer(
        none, None, np.zeros(0, dtype=np.int64), queries, spent, np.ones((m, 1), dtype=bool) if open_ else None
    )


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
    notes, brackets = [], {engine.name for engine in table.ENGINES if engine.brackets}
    for name, found, methods in zip(curves.mechanisms, widths, curves.method, strict=True):
        what, allowed = ("width", 1) if set(methods) <= brackets else ("half-width", 2)
        at = np.flatnonzero(found > allowed * curves.tolerance * (1 + 1e-9))
        if at.size:
            listed = ", ".join(map(show_up, curves.epsilons[at[:MOST_NAMED]]))
            more = f" and {at.size - MOST_NAMED} more" if at.size > MOST_NAMED else ""
            half = f"half-width of up to {show_up(float(found.max()) / 2, 3)}, a " if allowed == 1 else ""
            notes.append(
                f"{name}: the tolerance of {show_up(curves.tolerance)} is not met at epsilon {listed}{more}: the "
                f"bounds hold, but with a {half}{what} of up to {show_up(float(found.max()) / allowed, 3)}"
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
    return with_coin(bounds, revealing(question), raw)
