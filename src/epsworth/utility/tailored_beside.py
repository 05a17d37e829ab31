"""Tailored mechanisms beside those per feature, at the same epsilon of the record.

They are built from the records that they are compared on, which are taken for public.  What is then kept of just these
records is known exactly, but nothing follows for others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.guarantees import Guarantee, Pure
from epsworth.mechanisms.family import TAILORED
from epsworth.release.copies import Indices
from epsworth.rounding import round_up
from epsworth.space import LeakWarning
from epsworth.tailoring.building import build
from epsworth.utility.curves import Curves
from epsworth.utility.judging import bounds_of, labels_possible
from epsworth.utility.kept import Kept
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds
from epsworth.utility.tailored_asking import asking_of
from epsworth.utility.tailored_words import notes_of

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
    kept = Kept.of(tailoring, asking.asked, [problem.labels])
    right = None if problem.y is None else Kept.of(tailoring, asking.asked, [problem.y])
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
