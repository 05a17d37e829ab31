"""Curves of tailored policies, and of tailored mechanisms beside those per feature.

What clients keep is enumerated; where rules release some columns first, the regions within reach and what stands for
them depend on these: then whole releases are drawn, each by the integers that clients draw from, and counted.

Tailored mechanisms are built from the records that they are compared on, which are taken for public.  What is then
kept of just these records is known exactly, but nothing follows for others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.bounds import Interval, looks
from epsworth.classifiers import Classifier, as_classifier
from epsworth.classifiers.classifier import table_of
from epsworth.grids import places_of
from epsworth.guarantees import Guarantee, Pure
from epsworth.mechanisms.family import TAILORED
from epsworth.mechanisms.words import Words, WordSource
from epsworth.policy import Policy
from epsworth.policy.columns import Column
from epsworth.records import Records
from epsworth.rounding import float_above, float_below, round_up, show_up, sum_above
from epsworth.space import LeakWarning
from epsworth.tailored.building import build
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.problem import Replacements
from epsworth.utility.curves import Curves
from epsworth.utility.deadline import Deadline, Stopped
from epsworth.utility.engines.engine import Settings
from epsworth.utility.labels import answer, reference_labels, true_labels
from epsworth.utility.policies import NAME
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds
from epsworth.utility.retention import Retention, bounds_of, labels_possible
from epsworth.utility.tailored import UNSEEN, asking_of, few, notes_of

METHODS = ("auto", "sampled")
FIRST_LOOK = 256
TOGETHER = 1 << 14  # releases that are drawn at once
EXACT, DRAWN = "tailored", "sampled"


class Drawn(WordSource):
    """Words of a generator: for analyses, never for a release."""

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def take(self, count: int) -> Words:
        """Return the next words."""
        return self.rng.integers(1 << 64, size=count, dtype=np.uint64)


@dataclass(frozen=True, eq=False, repr=False)
class TailoredProblem:
    """A question about a tailored policy.

    Attributes
    ----------
    y : ndarray or None
        True labels.
    asked : int
        Queries so far.
    """

    policy: Policy
    tailoring: Tailoring
    classifier: Classifier
    records: Records
    labels: NDArray[Any]
    y: NDArray[Any] | None
    asked: int

    @classmethod
    def of(cls, policy: Policy, model: Any, X: Any, y: ArrayLike | None) -> TailoredProblem:
        """Check what is given beside the policy."""
        tailoring = policy.tailoring
        assert tailoring is not None
        classifier = as_classifier(model)
        own = [grid.feature for grid in tailoring.grids] + [rule.feature for rule in policy.rules]
        records = table_of(classifier, X, own)
        for name in dict.fromkeys([*(grid.name for grid in tailoring.grids), *policy.names]):
            if name not in records.names:
                raise ValueError(
                    f"the policy reads or replaces the column {name!r}, which the classifier does not read: it was "
                    "made for another one; make a policy by ew.tailor for this one"
                )
        released = {grid.name: grid.feature.categories for grid in tailoring.grids if grid.name in policy.names}
        released |= {rule.feature.name: rule.feature.categories for rule in policy.rules}
        records = records.releasing(released)
        labels, asked = reference_labels(classifier, records)
        truth = None if y is None else true_labels(y, labels, classifier)
        return cls(policy, tailoring, classifier, records, labels, truth, asked)

    @property
    def about(self) -> Replacements:
        """What can be sent in place of the records' sensitive columns."""
        names, hidden = list(self.records.names), self.tailoring.names
        grids = {grid.name: grid for grid in self.tailoring.grids}
        at = tuple(names.index(name) for name in hidden)
        return Replacements((self.classifier,), self.records, at, tuple(grids[name] for name in hidden))


def curves_of_policy(
    problem: TailoredProblem, method: str, over: str, settings: Settings, deadline: Deadline
) -> Curves:
    """Return how often labels stay under a tailored policy.

    Claim: without rules in the policy, and with method "auto", the bounds hold for certain; else with the settings'
    confidence, whenever the run ends.
    """
    if method not in METHODS:
        raise ValueError(
            f"method={method!r} is for mechanisms per feature; a tailored policy is enumerated, or sampled where rules "
            "release columns first: leave it at 'auto'"
        )
    if over == "dataset":
        raise ValueError(
            "over='dataset' is for mechanisms per feature; every record is bounded under a tailored policy"
        )
    if problem.policy.rules or method == DRAWN:
        return _sampled(problem, settings, deadline)
    return _enumerated(problem, settings, deadline)


def _enumerated(problem: TailoredProblem, settings: Settings, deadline: Deadline) -> Curves:
    kept = Retention.of(problem.tailoring, problem.about, [problem.labels])
    right = None if problem.y is None else Retention.of(problem.tailoring, problem.about, [problem.y])
    randomiser, queries = [problem.tailoring.randomiser], kept.queries + (0 if right is None else right.queries)
    result = PolicyBounds(bounds_of(kept, randomiser), None if right is None else bounds_of(right, randomiser),
                  labels_possible(kept, 1), queries, False)  # fmt: skip
    notes = [f"{EXACT} for {NAME}: all that can be sent is enumerated, with the probabilities of the drawn integers"]
    if kept.constant:
        notes.append(
            f"{NAME}: for {round_up(100 * kept.constant, 1):g} % of these records what is sent does not depend on what "
            "is sensitive at all: the public columns decide"
        )
    return _curves(problem, settings, deadline, result, EXACT, notes)


@dataclass(frozen=True, eq=False)
class PolicyBounds:
    """The bounds, how many labels were seen of each record, and what it took."""

    stability: Bounds
    accuracy: Bounds | None
    possible: Indices
    queries: int
    stopped: bool


def _sampled(problem: TailoredProblem, settings: Settings, deadline: Deadline) -> Curves:
    """Draw releases of every record until its bounds are narrow, or decided, or the run is stopped."""
    n, kinds = len(problem.records), 1 if problem.y is None else 2
    hits = np.zeros((kinds, n), dtype=np.int64)
    low, high, seen = np.zeros((kinds, n)), np.ones((kinds, n)), [{label} for label in problem.labels.tolist()]
    words, drawn, queries, stopped = Drawn(settings.rng), 0, 0, False
    releases = _Releases(problem)
    deadline.mechanisms, deadline.epsilons = (NAME,), np.array([float_above(Fraction(problem.policy.total))])
    deadline.proven = lambda: Bounds(low[:1, np.newaxis], high[:1, np.newaxis]).average()
    schedule = looks(settings.tolerance, settings.risk.split(kinds * n), first=FIRST_LOOK)
    with suppress(Stopped):
        for number, look in enumerate(schedule):
            stopped = True  # until this look is done
            left = np.flatnonzero(_open(low, high, settings))
            fresh = np.zeros_like(hits)
            rows = np.repeat(left, look.draws - drawn)
            for step in deadline.steps(len(rows), TOGETHER):
                part = rows[step]
                labels = releases.labels(part, words)
                queries += len(part)
                wanted = [problem.labels] if problem.y is None else [problem.labels, problem.y]
                for kind, right in enumerate(wanted):
                    fresh[kind] += np.bincount(part[labels == right[part]], minlength=n)
                for row, label in set(zip(part.tolist(), labels.tolist(), strict=True)):
                    seen[row].add(label)
            hits[:, left] += fresh[:, left]
            drawn = look.draws
            result = look.risk.interval(hits[:, left], np.full((kinds, len(left)), drawn))
            low[:, left], high[:, left] = (
                np.maximum(low[:, left], result.lower),
                np.minimum(high[:, left], result.upper),
            )
            stopped = False
            settings.progress((number + 1) / len(schedule))
            if not _open(low, high, settings).any():
                break
    settings.progress(1.0)
    bounds = [Bounds(low[[kind], np.newaxis], high[[kind], np.newaxis]) for kind in range(kinds)]
    possible = np.array([len(labels) for labels in seen], dtype=np.int64)
    found_ = PolicyBounds(bounds[0], bounds[1] if kinds == 2 else None, possible, queries, stopped)
    notes = [f"{DRAWN} for {NAME}: whole releases were drawn, each by the integers that clients draw from"]
    if stopped:
        half = round_up(float((high - low).max()) / 2)
        notes.append(
            f"the run was stopped {deadline.stopped}: all bounds hold, but with a half-width of up to {half:g}; more "
            "time narrows them"
        )
    return _curves(problem, settings, deadline, found_, DRAWN, notes)


def _open(low: NDArray[np.float64], high: NDArray[np.float64], settings: Settings) -> Bools:
    """Tell of which records something is neither narrow nor decided."""
    wide = high - low > 2 * settings.tolerance
    if settings.at_least is not None:
        wide &= (low < settings.at_least) & (high >= settings.at_least)
    return np.asarray(wide.any(axis=0))


class _Releases:
    """Fresh releases of records; what does not change from one to the next is looked up once."""

    def __init__(self, problem: TailoredProblem) -> None:
        records = problem.records
        self.asking = problem
        self.at = {name: position for position, name in enumerate(records.names)}
        self.columns = [Column(rule) for rule in problem.policy.rules]
        self.given = [np.asarray(c.encode(records.column(self.at[c.feature.name]))) for c in self.columns]
        self.true = places_of(problem.tailoring.grids, records)
        self.values = {grid.name: grid.values for grid in problem.tailoring.grids}

    def labels(self, rows: Indices, words: WordSource) -> NDArray[Any]:
        """Return the classifier's labels of releases of so many rows."""
        tailoring, at, replaced = self.asking.tailoring, self.at, dict[int, NDArray[Any]]()
        for rule, column, index in zip(self.asking.policy.rules, self.columns, self.given, strict=True):
            replaced[at[rule.feature.name]] = column.values[np.asarray(rule.kernel.draw(index[rows], words=words))]
        true = self.true[rows]
        seen = true.copy()
        for position, grid in enumerate(tailoring.grids):
            if at[grid.name] in replaced:
                seen[:, position] = grid.places(replaced[at[grid.name]])
        sent = tailoring.released(true, seen, words)
        for position, name in enumerate(tailoring.names):
            replaced[at[name]] = self.values[name][sent[:, position]]
        return answer(self.asking.classifier, self.asking.records, rows, replaced)


def _curves(
    problem: TailoredProblem,
    settings: Settings,
    deadline: Deadline,
    found: PolicyBounds,
    engine: str,
    notes: Sequence[str],
) -> Curves:
    policy, tailoring, spent = problem.policy, problem.tailoring, settings.risk.spent
    losses = [*(rule.kernel.loss() for rule in policy.rules), tailoring.randomiser.loss]
    parts = [f"{r.feature.name} by {r.mechanism} at epsilon {show_up(float(r.epsilon))}" for r in policy.rules]
    parts.append(f"{few(tailoring.names)} tailored, at epsilon {show_up(float(tailoring.epsilon))} in all")
    return Curves(
        mechanisms=(NAME,),
        epsilons=np.array([float_above(Fraction(policy.total))]),
        features=policy.names,
        stability=found.stability,
        accuracy=found.accuracy,
        guarantees=((policy.guarantee,),),
        tight_epsilons=np.array([[sum_above(losses)]]),
        labels=problem.labels,
        labels_possible=found.possible,
        method=np.full((1, len(problem.records)), engine),
        over="records",
        confidence=float(1 - settings.risk.total) if spent else 1.0,
        tolerance=float(settings.tolerance),
        queries=problem.asked + found.queries,
        seconds=deadline.clock() - deadline.began,
        notes=(
            f"{NAME} {policy.fingerprint[:12]}: {', '.join(parts)}; the very integers that its clients draw",
            *notes,
            UNSEEN,
        ),
        spent=float_below(spent),
        stopped=found.stopped,
    )


FEWEST = 4  # records that build something


@dataclass(frozen=True, eq=False)
class Row:
    """The answer about one tailored mechanism, as a row of `Curves`."""

    name: str
    stability: Bounds
    accuracy: Bounds | None
    guarantees: tuple[Guarantee, ...]
    tight: list[float]
    labels_possible: Indices
    queries: int
    notes: tuple[str, ...]


def curves_of(problem: Problem, rng: np.random.Generator, tolerance: float, seconds: float, *, depth: int) -> Curves:
    """Build every tailored mechanism of a question from its very records, and return what it keeps of each.

    Warn that they are taken for public; the caller is ``depth`` frames above.
    """
    if len(problem.records) < FEWEST:
        raise ValueError(
            f"mechanisms: a tailored one is built from the records of X, of which {len(problem.records)} are too few; "
            f"give at least {FEWEST}, or leave it out"
        )
    warnings.warn(
        "tailored mechanisms are built from X, which is taken for public here, as is what the classifier was fitted "
        "on: epsilon covers neither; compare on public records",
        LeakWarning,
        stacklevel=depth + 1,
    )
    table = problem.records.take(np.arange(len(problem.records)))
    rows = [_row(word, options, problem, table, rng) for word, options in problem.words.tailored.items()]
    return _as_curves(problem, rows, tolerance, seconds)


def _row(word: str, options: Mapping[str, Any], problem: Problem, table: Any, rng: np.random.Generator) -> Row:
    given: dict[str, Any] = {"wish": "worst", "surrogate": "auto", "cells": 1, "fidelity": 0.0} | dict(options)
    try:
        asking, parts, _ = asking_of(
            problem.classifier, table, problem.positions, problem.domain, None, None, given["wish"],
            problem.y, None, None, given["cells"],
            given["fidelity"], False, given["surrogate"], 0.0, rng,
        )  # fmt: skip
        plan = build(asking, parts, rng)
    except ValueError as error:
        raise ValueError(f"mechanism {word!r}: {error}") from None
    stated = [Decimal(repr(epsilon)) for epsilon in problem.epsilons.tolist()]
    randomisers = [plan.randomiser(epsilon) for epsilon in stated]
    tailoring = plan.tailoring(stated[0])
    kept = Retention.of(tailoring, asking.asked, [problem.labels])
    right = None if problem.y is None else Retention.of(tailoring, asking.asked, [problem.y])
    constant = max(replace(kept, reach=kept.reach.by(one)).constant for one in randomisers)
    reached = {label for label, standing in zip(plan.labels, plan.representatives, strict=True) if len(standing)}
    told = (*notes_of(replace(plan, prior=None), tailoring, constant, len(reached)), *_notes(constant, given["wish"]))
    return Row(
        word,
        bounds_of(kept, randomisers),
        None if right is None else bounds_of(right, randomisers),
        tuple(Pure(epsilon, "record") for epsilon in problem.epsilons.tolist()),
        [randomiser.loss for randomiser in randomisers],
        labels_possible(kept, 1),
        kept.queries + (0 if right is None else right.queries),
        tuple(f"{word}: {note}" for note in told),
    )


def _notes(constant: float, wish: str) -> list[str]:
    notes = [
        "one release of the whole record at the epsilon that the others spend feature by feature; built from these "
        "very records, which are taken for public: of the population they say nothing (ew.tailor holds some out)",
        "where public columns nearly decide the label mechanisms per feature can keep more on average, as they can at "
        "a large epsilon; statistics of single features need these, too",
    ]
    if constant > 0 or wish == "average":
        notes.append(
            f"for up to {round_up(100 * constant, 1):g} % of these records what is sent does not depend on what is "
            "sensitive at all: the public columns decide"
        )
    return notes


def _as_curves(problem: Problem, rows: Sequence[Row], tolerance: float, seconds: float) -> Curves:
    return Curves(
        mechanisms=tuple(row.name for row in rows),
        epsilons=problem.epsilons,
        features=tuple(feature.name for feature in problem.features),
        passing=problem.passing,
        stability=_stacked([row.stability for row in rows]),
        accuracy=None if problem.y is None else _stacked([row.accuracy for row in rows if row.accuracy is not None]),
        guarantees=tuple(row.guarantees for row in rows),
        tight_epsilons=np.array([row.tight for row in rows]),
        labels=problem.labels,
        labels_possible=np.max([row.labels_possible for row in rows], axis=0),
        method=np.full((len(rows), len(problem.labels)), TAILORED),
        over="records",
        confidence=1.0,
        tolerance=float(tolerance),
        queries=problem.asked + sum(row.queries for row in rows),
        seconds=seconds,
        notes=tuple(note for row in rows for note in row.notes),
        built_from=tuple(row.name for row in rows),
    )


def joined(curves: Curves, own: Curves, names: Sequence[str]) -> Curves:
    """Return the curves of all mechanisms, in the order in which they were asked for."""
    every = (*curves.mechanisms, *own.mechanisms)
    order = [every.index(name) for name in names]
    both = None if curves.accuracy is None or own.accuracy is None else _stacked([curves.accuracy, own.accuracy], order)
    promised = (*curves.guarantees, *own.guarantees)
    return replace(
        curves,
        mechanisms=tuple(every[m] for m in order),
        stability=_stacked([curves.stability, own.stability], order),
        accuracy=both,
        guarantees=tuple(promised[m] for m in order),
        tight_epsilons=np.concatenate([curves.tight_epsilons, own.tight_epsilons])[order],
        labels_possible=np.maximum(curves.labels_possible, own.labels_possible),
        method=np.concatenate([curves.method, own.method])[order],
        queries=curves.queries + own.queries,
        seconds=own.seconds,
        notes=(*curves.notes, *own.notes),
        built_from=own.built_from,
    )


def _stacked(parts: Sequence[Bounds], order: Sequence[int] | None = None) -> Bounds:
    def rows(sides: list[Floats]) -> Floats:
        whole = np.concatenate(sides)
        return whole if order is None else whole[list(order)]

    averages = [part.average() for part in parts]
    pooled = Interval(rows([side.lower for side in averages]), rows([side.upper for side in averages]))
    return Bounds(rows([part.lower for part in parts]), rows([part.upper for part in parts]), pooled)
