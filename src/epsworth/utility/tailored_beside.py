"""Tailored mechanisms beside those per feature, at the same epsilon of the record.

They are built from the records that they are compared on, which are taken for public.  What is then kept of just these
records is known exactly, but nothing follows for others.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.guarantees import Guarantee, Pure
from epsworth.mechanisms.family import TAILORED, is_tailored, parse
from epsworth.release.copies import Indices
from epsworth.rounding import round_up
from epsworth.space import LeakWarning, Ranges
from epsworth.tailoring.building import WISHES, build
from epsworth.utility.curves import Curves
from epsworth.utility.judging import bounds_of, labels_possible
from epsworth.utility.kept import Kept
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question
from epsworth.utility.tailored_asking import asking_of
from epsworth.utility.tailored_words import notes_of

OPTIONS = ("wish", "surrogate", "cells", "fidelity")
FEWEST = 4  # records that build something
PLACEHOLDER = "krr"  # takes any feature: a question about tailored mechanisms alone is checked as one about it


@dataclass(frozen=True)
class Asked:
    """The mechanisms of a question, taken apart.

    Attributes
    ----------
    names : tuple of str
        All, in the order in which they were asked for.
    tailored : dict
        From the words of tailored ones to their options.
    others : object
        What is left, as it was given where nothing is tailored.
    """

    names: tuple[str, ...]
    tailored: Mapping[str, Mapping[str, Any]]
    others: Any

    @classmethod
    def of(cls, mechanisms: Any) -> Asked:
        """Take mechanisms apart; what is wrong with others is told by who reads them."""
        given = [mechanisms] if isinstance(mechanisms, str) else mechanisms
        if isinstance(given, Mapping):
            if any(map(is_tailored, given)):
                raise ValueError(f"mechanisms: the name {TAILORED!r} is taken; give your own mechanism another")
            return cls((), {}, mechanisms)
        if not isinstance(given, Iterable) or isinstance(given, type) or getattr(given, "ndim", 1) != 1:
            return cls((), {}, mechanisms)
        words = list(given)
        found = [word for word in words if is_tailored(word)]
        if not found:
            return cls((), {}, words)
        if len(set(found)) < len(found):
            raise ValueError(f"mechanisms names one twice: {', '.join(map(str, words))}; list each once")
        return cls(tuple(words), {word: _options(word) for word in found}, [w for w in words if w not in found])

    @property
    def to_check(self) -> Any:
        """The mechanisms of the question that says whether all else is right."""
        return PLACEHOLDER if self.tailored and not self.others else self.others

    def check(self, method: str, checkpoint: object) -> None:
        """Refuse what makes no sense for what is enumerated."""
        if method != "auto":
            raise ValueError(f"method={method!r} is for mechanisms per feature; ask about tailored ones with 'auto'")
        if checkpoint is not None:
            raise ValueError("tailored mechanisms are built anew in every run; ask about them without a checkpoint")


def _options(word: str) -> dict[str, Any]:
    read = parse(word)
    if read.points is not None or read.indicator is not None:
        raise ValueError(f"mechanism {word!r}: a tailored one takes neither quantise nor indicator; leave them out")
    for option in read.options:
        if option not in OPTIONS:
            raise ValueError(f"mechanism {word!r}: unknown option {option!r}; tailored takes {', '.join(OPTIONS)}")
    if read.options.get("wish", WISHES[0]) not in WISHES:
        raise ValueError(f"mechanism {word!r}: wish must be one of {', '.join(map(repr, WISHES))}")
    return read.options


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


def warn_public(depth: int) -> None:
    """Say that the records of a comparison are taken for public."""
    warnings.warn(
        "tailored mechanisms are built from X, which is taken for public here, as is what the classifier was fitted "
        "on: epsilon covers neither; compare on public records",
        LeakWarning,
        stacklevel=depth + 1,
    )


def rows_of(
    asked: Asked, question: Question, model: Any, X: Any, *, sensitive: Any,
    domain: Ranges | None, rng: np.random.Generator,
) -> list[Row]:  # fmt: skip
    """Build every tailored mechanism from the records of a question, and find what it keeps of each."""
    if len(question.records) < FEWEST:
        raise ValueError(
            f"mechanisms: a tailored one is built from the records of X, of which {len(question.records)} are too few; "
            f"give at least {FEWEST}, or leave it out"
        )
    return [_row(word, options, question, model, X, sensitive, domain, rng) for word, options in asked.tailored.items()]


def _row(
    word: str, options: Mapping[str, Any], question: Question, model: Any, X: Any, sensitive: Any, domain: Any,
    rng: np.random.Generator,
) -> Row:  # fmt: skip
    given: dict[str, Any] = {"wish": "worst", "surrogate": "auto", "cells": 1, "fidelity": 0.0} | dict(options)
    try:
        asking, parts, _ = asking_of(
            model, X, sensitive, domain, None, None, given["wish"], question.y, None, None, given["cells"],
            given["fidelity"], False, given["surrogate"], 0.0, rng,
        )  # fmt: skip
        plan = build(asking, parts, rng)
    except ValueError as error:
        raise ValueError(f"mechanism {word!r}: {error}") from None
    stated = [Decimal(repr(epsilon)) for epsilon in question.epsilons.tolist()]
    randomisers = [plan.randomiser(epsilon) for epsilon in stated]
    tailoring = plan.tailoring(stated[0])
    kept = Kept.of(tailoring, asking.asked, [question.labels])
    right = None if question.y is None else Kept.of(tailoring, asking.asked, [question.y])
    constant = max(replace(kept, reach=kept.reach.by(one)).constant for one in randomisers)
    reached = {label for label, standing in zip(plan.labels, plan.representatives, strict=True) if len(standing)}
    told = (*notes_of(replace(plan, prior=None), tailoring, constant, len(reached)), *_notes(constant, given["wish"]))
    return Row(
        word,
        bounds_of(kept, randomisers),
        None if right is None else bounds_of(right, randomisers),
        tuple(Pure(epsilon, "record") for epsilon in question.epsilons.tolist()),
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


def alone(question: Question, rows: Sequence[Row], tolerance: float, seconds: float) -> Curves:
    """Return the curves of tailored mechanisms, where no others were asked about."""
    return Curves(
        mechanisms=tuple(row.name for row in rows),
        epsilons=question.epsilons,
        features=tuple(feature.name for feature in question.features),
        passing=question.passing,
        stability=_stacked([row.stability for row in rows]),
        accuracy=None if question.y is None else _stacked([row.accuracy for row in rows if row.accuracy is not None]),
        guarantees=tuple(row.guarantees for row in rows),
        tight_epsilons=np.array([row.tight for row in rows]),
        labels=question.labels,
        labels_possible=np.max([row.labels_possible for row in rows], axis=0),
        method=np.full((len(rows), len(question.labels)), TAILORED),
        over="records",
        confidence=1.0,
        tolerance=float(tolerance),
        queries=question.asked + sum(row.queries for row in rows),
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
