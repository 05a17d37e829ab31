"""A stability question, checked once: what the engines may rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.classifiers import Classifier, Labels, as_classifier
from epsworth.classifiers.classifier import columns_read, table_of
from epsworth.classifiers.reading import Unsupported, check_batch_invariance, read_once
from epsworth.guarantees import Unit
from epsworth.mechanisms import PrivacyIndicator
from epsworth.mechanisms.density import DensityMechanism
from epsworth.mechanisms.family import (
    TAILORED,
    Build,
    Release,
    families,
    is_brought,
    is_tailored,
    parse,
    quantised,
    unwrapped,
)
from epsworth.mechanisms.promise import CHECKED, check_promise
from epsworth.mechanisms.record import RecordRelease, budgets, record_release, stand_ins, stated
from epsworth.numerals import short, whole
from epsworth.records import Indices, Records
from epsworth.space import Domain, Feature, Ranges, as_domain, unit_domain
from epsworth.tailored.building import WISHES
from epsworth.utility.deadline import Deadline
from epsworth.utility.gaps import check_gaps, note_of_gaps
from epsworth.utility.labels import ASKED_AGAIN, SAME_RECORDS, answer, reference_labels, true_labels

DEFAULT_EPSILONS = (0.5, 1, 2, 3, 4, 6, 8)  # of the record: certainty of 62 to 99.97 % about it
DEFAULT_MECHANISMS = ("pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr")
SPREAD = 512  # values over the sensitive ranges, for answers that may be scores
T = TypeVar("T")
TAILORED_OPTIONS = ("wish", "surrogate", "cells", "fidelity")
PLACEHOLDER = "krr"  # takes any feature: a question about tailored mechanisms alone is checked as one about it
UNASKED: Labels = np.empty(0)  # labels, until `asked`


@dataclass(frozen=True)
class Words:
    """The mechanisms of a question: tailored ones apart from those that release feature by feature.

    Attributes
    ----------
    names : tuple of str
        All, in the order in which they were asked for; empty where none is tailored.
    tailored : dict
        From the words of tailored ones to their options.
    others : object
        What is left, as it was given where nothing is tailored.
    """

    names: tuple[str, ...]
    tailored: Mapping[str, Mapping[str, Any]]
    others: Any

    @classmethod
    def of(cls, mechanisms: Any) -> Words:
        """Take mechanisms apart; what is wrong with others is told by who reads them."""
        given = [mechanisms] if isinstance(mechanisms, str) else mechanisms
        if isinstance(given, Mapping):
            if any(map(is_tailored, given)):
                raise ValueError(f"mechanisms: the name {TAILORED!r} is taken; give your own mechanism another")
            return cls((), {}, mechanisms)
        if not isinstance(given, Iterable) or isinstance(given, type) or getattr(given, "ndim", 1) != 1:
            return cls((), {}, mechanisms)
        words = list(given)
        tailored = [word for word in words if is_tailored(word)]
        if not tailored:
            return cls((), {}, words)
        if len(set(tailored)) < len(tailored):
            raise ValueError(f"mechanisms names one twice: {', '.join(map(str, words))}; list each once")
        options = {word: _tailored_options(word) for word in tailored}
        return cls(tuple(words), options, [word for word in words if word not in tailored])


def _tailored_options(word: str) -> dict[str, Any]:
    read = parse(word)
    if read.points is not None or read.indicator is not None:
        raise ValueError(f"mechanism {word!r}: a tailored one takes neither quantise nor indicator; leave them out")
    for option in read.options:
        if option not in TAILORED_OPTIONS:
            known = ", ".join(TAILORED_OPTIONS)
            raise ValueError(f"mechanism {word!r}: unknown option {option!r}; tailored takes {known}")
    if read.options.get("wish", WISHES[0]) not in WISHES:
        raise ValueError(f"mechanism {word!r}: wish must be one of {', '.join(map(repr, WISHES))}")
    return read.options


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """What is asked, checked: mechanisms x epsilons x records, for one classifier as it was then.

    `Problem.of` and `problem_of_policy` make it.

    Attributes
    ----------
    epsilons : ndarray
        Per record.
    unit : ndarray, shape ``(records, sensitive)``
        True values of the sensitive features on [0, 1].
    releases : tuple of tuples
        ``releases[m][e]``: what leaves a record under mechanism m at epsilon e.
    labels : ndarray, shape ``(records,)``
        The labels that are to be kept: the classifier's of the unperturbed records.
    answered : ndarray, shape ``(records,)``, optional
        The classifier's labels of the records as they stand here, where other ones are to be kept.
    y : ndarray or None
        True labels, when given.
    asked : int
        Queries spent before any engine: on the records, on some of them again, and over the ranges.
    readings : dict
        What `read` has found.
    subsets : tuple of (Problem, int)
        Where a record releases only some of its features: a question for every subset of them, and in how many of the
        equally likely choices it is that one.
    deadline : Deadline
        When to stop asking.
    domain : Domain or None
        What was declared; None where the features must lie on [0, 1].
    words : Words
        The mechanisms as they were asked for; ``names`` and ``releases`` are those of the others than tailored ones.
    seen : tuple of ndarray
        What the classifier answered when the problem was made: of the records, and over the ranges.
    start, stop : int
        The records that are asked about here: those from ``start`` on, and before ``stop`` where there is one.  What is
        read of the classifier is read for all.

    Examples
    --------
    >>> import epsworth as ew
    >>> problem = ew.Problem.of(lambda X: X[:, 0] <= 0.5, [[0.2], [0.8]], sensitive=0, epsilons=[1, 2])
    >>> problem.shape, problem.labels.tolist()
    ((6, 2, 2), [True, False])
    """

    classifier: Classifier
    records: Records
    positions: tuple[int, ...]
    features: tuple[Feature, ...]
    unit: Floats
    names: tuple[str, ...]
    epsilons: Floats
    releases: tuple[tuple[RecordRelease, ...], ...]
    notes: tuple[str, ...]
    labels: Labels
    y: NDArray[Any] | None
    asked: int = 0
    readings: dict[Callable[[Problem], Any], Any] = field(default_factory=dict)
    subsets: tuple[tuple[Problem, int], ...] = ()
    deadline: Deadline = field(default_factory=Deadline)
    domain: Domain | None = None
    words: Words = Words((), {}, ())
    seen: tuple[Labels, Labels] = (UNASKED, UNASKED)
    start: int = 0
    stop: int | None = None
    answered: Labels | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        *,
        sensitive: str | int | Sequence[str | int],
        mechanisms: str | Iterable[str] | Mapping[str, Build] = DEFAULT_MECHANISMS,
        epsilons: ArrayLike = DEFAULT_EPSILONS,
        per: Unit = "record",
        domain: Ranges | None = None,
        y: ArrayLike | None = None,
        quantise: int | None = None,
    ) -> Problem:
        """Check what is asked, once: parameters as of `stability`."""
        classifier = as_classifier(model)
        given = None if domain is None else as_domain(domain)
        records = table_of(classifier, X, given.features if given else ())
        positions = records.positions("sensitive", sensitive)
        names = [records.names[p] for p in positions]
        if given is None and any(records.column(p).dtype == bool for p in positions):
            raise ValueError("a sensitive column holds booleans; declare it as categories [False, True] in the domain")
        features = tuple((given or unit_domain(names))[name] for name in names)
        check_gaps(features, [records.column(p) for p in positions], records.given, declared=given is not None)
        try:
            unit = np.column_stack([f.to_unit(records.column(p)) for f, p in zip(features, positions, strict=True)])
        except ValueError as error:
            undeclared = " (no domain was given, so the features must lie on [0, 1]: declare their public ranges)"
            raise ValueError(f"{error}{'' if given else undeclared}") from None
        words = Words.of(mechanisms)
        result = families(PLACEHOLDER if words.tailored and not words.others else words.others)
        totals, shares = budgets(epsilon_grid(epsilons).tolist(), len(features), per)
        built = [[family.build(share) for share in shares] for family in result]
        for one, row in zip(result, built, strict=True):
            _check_at_records(one.name, row, features, unit)
        if quantise is not None:
            whole("quantise", quantise, least=2)
            built = [[quantised(release, quantise) for release in row] for row in built]
        problem = cls(
            classifier=classifier,
            records=records,
            positions=positions,
            features=features,
            unit=unit,
            names=tuple(family.name for family in result),
            epsilons=np.array(totals),
            releases=tuple(
                tuple(stated(record_release(one, features), total) for one, total in zip(row, totals, strict=True))
                for row in built
            ),
            notes=tuple(
                f"{one.name}: {text}"
                for one, row in zip(result, built, strict=True)
                for text in _what_to_know(one.name, row[0], features)
            )
            + note_of_gaps(features),
            labels=UNASKED,
            y=None,
            domain=given,
            words=words,
        )
        return asked(problem, y)

    @property
    def passing(self) -> tuple[str, ...]:
        """The columns that the classifier is known to read besides the sensitive ones."""
        if self.classifier.features is None and self.classifier.count is None:
            return ()
        sensitive = {self.records.names[at] for at in self.positions}
        return tuple(name for name in columns_read(self.classifier, self.records.names) if name not in sensitive)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(mechanisms, epsilons, records)."""
        return len(self.names), len(self.epsilons), len(self.records)

    @cached_property
    def reveal(self) -> Floats:
        """How likely an indicator reveals the raw record, shape ``(mechanisms, epsilons)``."""
        return np.array([[release.reveal for release in row] for row in self.releases])

    @property
    def left(self) -> range:
        """The records that are asked about here."""
        return range(self.start, self.shape[2] if self.stop is None else self.stop)

    def part(self) -> Problem:
        """Return the question as if the records that are asked about here were all; nothing is read of it yet."""
        at = np.arange(len(self.records))[self.left]
        y, answered = (None if labels is None else labels[at] for labels in (self.y, self.answered))
        return replace(
            self, records=self.records.part(at), unit=self.unit[at], labels=self.labels[at], y=y, answered=answered,
            readings={}, start=0, stop=None,
        )  # fmt: skip

    def check_unchanged(self) -> None:
        """Refuse a classifier, or a table, that answers otherwise than when the problem was made.

        What was read of the classifier is read once: the labels of some records and of values over the ranges must be
        those of then.
        """
        labels, spread = self.seen
        some = np.arange(min(len(labels), ASKED_AGAIN[1]))
        same = np.array_equal(answer(self.classifier, self.records, some), labels[some])
        if not (same and np.array_equal(self.ask(*self.over_the_ranges(len(spread))), spread)):
            raise ValueError(
                f"{self.classifier.name} answers otherwise than when the problem was made: it was fitted again, or the "
                "table was changed; make the problem anew"
            )

    def over_the_ranges(self, size: int) -> tuple[Indices, list[NDArray[Any]]]:
        """Return so many rows, and values over the whole ranges of the sensitive features: always the same ones."""
        rng = np.random.default_rng(0)
        rows = rng.integers(len(self.records), size=size)
        return rows, [feature.from_unit(rng.uniform(size=size)) for feature in self.features]

    def __repr__(self) -> str:
        m, e, n = self.shape
        names = ", ".join(feature.name for feature in self.features)
        return f"<Problem: {m} mechanisms x {e} epsilons x {n} records; sensitive: {names}>"

    def only(self, mechanisms: Sequence[int]) -> Problem:
        """Return the question about some of its mechanisms."""
        return replace(
            self,
            names=tuple(self.names[m] for m in mechanisms),
            releases=tuple(self.releases[m] for m in mechanisms),
        )

    def read(self, reading: Callable[[Problem], T]) -> T:
        """Return what a reading of the classifier finds, or raise why it finds nothing: read once, whoever asks."""
        return read_once(self.readings, reading, self)

    def readable(self, reading: Callable[[Problem], Any]) -> bool:
        """Tell whether a reading of the classifier finds anything."""
        try:
            self.read(reading)
        except Unsupported:
            return False
        return True

    def ask(
        self, rows: Indices, values: Sequence[NDArray[Any]], answered: Callable[[int], None] = lambda rows: None
    ) -> Labels:
        """Return the labels of records whose sensitive features were replaced (natural units).

        Raises Stopped between two steps where the deadline says so; ``answered`` is told the rows of every step.
        """
        result = []
        for step in self.deadline.steps(len(rows), len(rows)):
            given = {position: column[step] for position, column in zip(self.positions, values, strict=True)}
            result.append(answer(self.classifier, self.records, rows[step], given))
            answered(len(result[-1]))
        return np.concatenate(result) if result else self.labels[:0]


def _check_at_records(name: str, releases: Sequence[Release], features: Sequence[Feature], unit: Floats) -> None:
    """Compare the promises of somebody's own mechanism with its law at the very records that are asked about."""
    own = [unwrapped(release) for release in releases if is_brought(release)]
    for release in own:
        for feature, inputs in zip(features, unit.T, strict=True):
            if feature.categories is None:
                check_promise(name, release, inputs)


def asked(problem: Problem, y: ArrayLike | None) -> Problem:
    """Return a question with the labels of its records; see that the classifier answers steadily."""
    classifier = problem.classifier
    labels, queries = reference_labels(classifier, problem.records)
    problem = replace(problem, labels=labels, y=None if y is None else true_labels(y, labels, classifier))
    size = SPREAD if classifier.history.doubtful else ASKED_AGAIN[0]
    rows, values = problem.over_the_ranges(size)
    spread = problem.ask(rows, values)  # where batches differ, and scores show themselves by how many they are
    classifier.history.settle(classifier.name)
    queries += size + check_batch_invariance(
        classifier.name, lambda at: problem.ask(rows[at], [v[at] for v in values]), spread, *SAME_RECORDS
    )
    return replace(problem, asked=queries, seen=(labels, spread))


def _what_to_know(name: str, release: Release, features: Sequence[Feature]) -> list[str]:
    """Say what a privacy indicator costs, and which features get another mechanism than the one that was named."""
    costs = [release.cost] if isinstance(release, PrivacyIndicator) else []
    costs += [CHECKED] if is_brought(release) else []
    costs += [own.taken] if isinstance(own := unwrapped(release), DensityMechanism) else []
    return costs + stand_ins(release, features, explicit="k=" in name or "quantise=" in name)


def epsilon_grid(epsilons: ArrayLike) -> Floats:
    """Return increasing, positive epsilons as an array."""
    try:
        given = np.asarray(epsilons, dtype=object).flat
        if any(isinstance(one, (str, bytes, bool, np.bool_, NoneType)) for one in given):
            raise TypeError
        grid = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"epsilons must be numbers, got {short(epsilons)}") from None
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(f"epsilons must be one list of at least one number, got shape {grid.shape}")
    for value in grid:
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"epsilon must be positive and finite, got {value:g}")
    if not (np.diff(grid) > 0).all():
        raise ValueError(f"epsilons must increase, got {grid.tolist()}; sort them and drop repeats")
    return grid
