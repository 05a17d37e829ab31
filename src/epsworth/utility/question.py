"""A stability question, checked once: what the engines may rely on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.classifiers import Classifier, ClassifierError, Labels, as_classifier
from epsworth.classifiers.answers import check_batch_invariance, nondeterminism
from epsworth.classifiers.inputs import columns_read, table_of
from epsworth.classifiers.reading import Unsupported
from epsworth.guarantees import Unit
from epsworth.mechanisms import PrivacyIndicator
from epsworth.mechanisms.density import DensityMechanism
from epsworth.mechanisms.family import Build, Release, families, is_brought, quantised, unwrapped
from epsworth.mechanisms.promise import CHECKED, check_promise
from epsworth.mechanisms.record import RecordRelease, budgets, record_release, stand_ins, stated
from epsworth.numerals import short, whole
from epsworth.records import Indices, Records
from epsworth.space import Feature, Ranges, as_domain, unit_domain
from epsworth.utility.gaps import check_gaps, note_of_gaps
from epsworth.utility.pace import Pace
from epsworth.values import is_missing, label_array

SPREAD = 512  # values over the sensitive ranges, for answers that may be scores
ASKED_AGAIN = 64, 256  # rows, least and most, that are asked about a second time
T = TypeVar("T")
UNASKED: Labels = np.empty(0)  # labels, until `asked`
SAME_RECORDS = "records", "stability"  # for the sentences that refuse a classifier


@dataclass(frozen=True, eq=False)
class Question:
    """Mechanisms x epsilons x records, for one classifier.

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
    subsets : tuple of (Question, int)
        Where a record releases only some of its features: a question for every subset of them, and in how many of the
        equally likely choices it is that one.
    pace : Pace
        When to stop asking.
    start, stop : int
        The records that are asked about here: those from ``start`` on, and before ``stop`` where there is one.  What is
        read of the classifier is read for all.
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
    readings: dict[Callable[[Question], Any], Any] = field(default_factory=dict)
    subsets: tuple[tuple[Question, int], ...] = ()
    pace: Pace = field(default_factory=Pace)
    start: int = 0
    stop: int | None = None
    answered: Labels | None = None

    @property
    def passing(self) -> tuple[str, ...]:
        """The columns that the classifier is known to read besides the sensitive ones."""
        if self.classifier.features is None and self.classifier.count is None:
            return ()
        sensitive = {self.records.names[at] for at in self.positions}
        return tuple(name for name in columns_read(self.classifier, self.records.names) if name not in sensitive)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(mechanisms, epsilons, records)."""
        return len(self.names), len(self.epsilons), len(self.records)

    @property
    def left(self) -> range:
        """The records that are asked about here."""
        return range(self.start, len(self.records) if self.stop is None else self.stop)

    def part(self) -> Question:
        """Return the question as if the records that are asked about here were all; nothing is read of it yet."""
        at = np.arange(len(self.records))[self.left]
        y, answered = (None if labels is None else labels[at] for labels in (self.y, self.answered))
        return replace(
            self, records=self.records.part(at), unit=self.unit[at], labels=self.labels[at], y=y, answered=answered,
            readings={}, start=0, stop=None,
        )  # fmt: skip

    def only(self, mechanisms: Sequence[int]) -> Question:
        """Return the question about some of its mechanisms."""
        return replace(
            self,
            names=tuple(self.names[m] for m in mechanisms),
            releases=tuple(self.releases[m] for m in mechanisms),
        )

    def read(self, reading: Callable[[Question], T]) -> T:
        """Return what a reading of the classifier finds, or raise why it finds nothing: read once, whoever asks."""
        if reading not in self.readings:
            try:
                self.readings[reading] = reading(self)
            except Unsupported as why:
                self.readings[reading] = why
        if isinstance(found := self.readings[reading], Unsupported):
            raise type(found)(*found.args)
        return found  # type: ignore[no-any-return]  # what the reading found

    def readable(self, reading: Callable[[Question], Any]) -> bool:
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

        Raises Stopped between two steps where the pace says so; ``answered`` is told the rows of every step.
        """
        found = []
        for step in self.pace.steps(len(rows), len(rows)):
            given = {position: column[step] for position, column in zip(self.positions, values, strict=True)}
            found.append(answer(self.classifier, self.records, rows[step], given))
            answered(len(found[-1]))
        return np.concatenate(found) if found else self.labels[:0]


def answer(
    classifier: Classifier,
    records: Records,
    rows: Indices,
    values: Mapping[int, NDArray[Any]] | None = None,
    copies: str | None = None,
) -> Labels:
    """Query the classifier; when it fails, find one record on which it does and say so.

    Parameters
    ----------
    copies : str, optional
        What to call a row, with ``{}`` for its number.
    """
    try:
        return classifier.labels(records.take(rows, values))
    except ClassifierError:
        raise
    except Exception as error:
        row = _failing_row(classifier, records, rows, values)
        copy = copies or ("a perturbed copy of record {}" if values else "record {}")
        where = "a whole batch" if row is None else copy.format(row)
        raise ClassifierError(
            f"the classifier failed on {where}: {type(error).__name__}{_told(error, records, row)}; "
            f"repair that row, or the model's preprocessing{_texts(records)}"
        ) from None  # a traceback would show what the model said of the record


def _texts(records: Records) -> str:
    """Name the columns that hold texts, of which a model that takes numbers says nothing."""
    named = [name for p, name in enumerate(records.names) if _holds_text(records.column(p))]
    return f"; texts stand in the columns: {', '.join(named)}" if named else ""


def _holds_text(column: NDArray[Any]) -> bool:
    return column.dtype.kind in "USTO" and any(isinstance(value, (str, bytes)) for value in column)


def _told(error: Exception, records: Records, row: int | None) -> str:
    """Return the first line of what the classifier said, without the record's own values."""
    if row is None:
        return ""
    values = [records.column(p)[row] for p in range(len(records.names))]
    texts = {
        form for v in values for form in (str(v), repr(v), *([f"{v:g}"] if isinstance(v, (float, np.floating)) else []))
    }
    found = (str(error).strip() or "no message").splitlines()[0]
    for text in sorted(texts - {""}, key=len, reverse=True):
        found = re.sub(rf"(?<![\w.]){re.escape(text)}(?![\w.])", "...", found)
    return f": {found}"


def _failing_row(
    classifier: Classifier, records: Records, rows: Indices, values: Mapping[int, NDArray[Any]] | None
) -> int | None:
    at = np.arange(len(rows))

    def fails(part: Indices) -> bool:
        try:
            classifier.labels(records.take(rows[part], {p: v[part] for p, v in (values or {}).items()}))
        except Exception:
            return True
        return False

    while len(at) > 1:
        half = len(at) // 2
        at = at[:half] if fails(at[:half]) else at[half:]
    return int(rows[at[0]]) if fails(at) else None


def ask(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    mechanisms: str | Iterable[str] | Mapping[str, Build],
    epsilons: ArrayLike,
    domain: Ranges | None,
    y: ArrayLike | None,
    quantise: int | None = None,
    per: Unit = "record",
) -> Question:
    """Check everything the user gave, once, and return the question."""
    classifier = as_classifier(model)
    given = None if domain is None else as_domain(domain)
    records = table_of(classifier, X, given.features if given else ())
    positions = sensitive_positions(records, sensitive)
    names = [records.names[p] for p in positions]
    if given is None and any(records.column(p).dtype == bool for p in positions):
        raise ValueError("a sensitive column holds booleans; declare its categories: domain={name: [False, True]}")
    features = tuple((given or unit_domain(names))[name] for name in names)
    check_gaps(features, [records.column(p) for p in positions], records.given, declared=given is not None)
    try:
        unit = np.column_stack([f.to_unit(records.column(p)) for f, p in zip(features, positions, strict=True)])
    except ValueError as error:
        hint = (
            "" if given else " (no domain was given, so the features must lie on [0, 1]: declare their public ranges)"
        )
        raise ValueError(f"{error}{hint}") from None
    found = families(mechanisms)
    totals, shares = budgets(epsilon_grid(epsilons).tolist(), len(features), per)
    built = [[family.build(share) for share in shares] for family in found]
    for one, row in zip(found, built, strict=True):
        _check_at_records(one.name, row, features, unit)
    if quantise is not None:
        whole("quantise", quantise, least=2)
        built = [[quantised(release, quantise) for release in row] for row in built]
    question = Question(
        classifier=classifier,
        records=records,
        positions=positions,
        features=features,
        unit=unit,
        names=tuple(family.name for family in found),
        epsilons=np.array(totals),
        releases=tuple(
            tuple(stated(record_release(one, features), total) for one, total in zip(row, totals, strict=True))
            for row in built
        ),
        notes=tuple(
            f"{one.name}: {text}"
            for one, row in zip(found, built, strict=True)
            for text in _what_to_know(one.name, row[0], features)
        )
        + note_of_gaps(features),
        labels=UNASKED,
        y=None,
    )
    return asked(question, y)


def _check_at_records(name: str, releases: Sequence[Release], features: Sequence[Feature], unit: Floats) -> None:
    """Compare the promises of somebody's own mechanism with its law at the very records that are asked about."""
    own = [unwrapped(release) for release in releases if is_brought(release)]
    for release in own:
        for feature, inputs in zip(features, unit.T, strict=True):
            if feature.categories is None:
                check_promise(name, release, inputs)


def asked(question: Question, y: ArrayLike | None) -> Question:
    """Return a question with the labels of its records; see that the classifier answers steadily."""
    classifier = question.classifier
    labels, queries = reference_labels(classifier, question.records)
    question = replace(question, labels=labels, y=None if y is None else true_labels(y, labels, classifier))
    return replace(question, asked=queries + _ask_over_the_ranges(question))


def _ask_over_the_ranges(question: Question) -> int:
    """Ask about values over the whole ranges, where batches differ and scores show themselves by how many they are.

    Return the number of queries.
    """
    classifier, rng = question.classifier, np.random.default_rng(0)
    size = SPREAD if classifier.history.doubtful else ASKED_AGAIN[0]
    rows = rng.integers(len(question.records), size=size)
    values = [feature.from_unit(rng.uniform(size=size)) for feature in question.features]
    labels = question.ask(rows, values)
    classifier.history.settle(classifier.name)
    return size + check_batch_invariance(
        classifier.name, lambda at: question.ask(rows[at], [v[at] for v in values]), labels, *SAME_RECORDS
    )


def _what_to_know(name: str, release: Release, features: Sequence[Feature]) -> list[str]:
    """Say what a privacy indicator costs, and which features get another mechanism than the one that was named."""
    costs = [release.cost] if isinstance(release, PrivacyIndicator) else []
    costs += [CHECKED] if is_brought(release) else []
    costs += [own.taken] if isinstance(own := unwrapped(release), DensityMechanism) else []
    return costs + stand_ins(release, features, explicit="k=" in name or "quantise=" in name)


def sensitive_positions(records: Records, sensitive: str | int | Sequence[str | int]) -> tuple[int, ...]:
    """Return where the named columns stand among the records'."""
    if not isinstance(sensitive, (str, int, np.integer, Iterable)) or (
        isinstance(sensitive, np.ndarray) and sensitive.ndim != 1
    ):
        raise TypeError(f"sensitive must name features, got {short(sensitive)}")
    chosen = [sensitive] if isinstance(sensitive, (str, int, np.integer)) else list(sensitive)
    if not chosen:
        raise ValueError("sensitive is empty; name at least one feature that users perturb")
    positions = tuple(records.position(column) for column in chosen)
    if len(set(positions)) < len(positions):
        raise ValueError(f"sensitive names a feature twice: {', '.join(map(str, chosen))}; list each once")
    return positions


def epsilon_grid(epsilons: ArrayLike) -> Floats:
    """Return increasing, positive epsilons as an array."""
    try:
        if any(isinstance(one, (str, bytes, bool, np.bool_)) for one in np.asarray(epsilons, dtype=object).flat):
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


def reference_labels(classifier: Classifier, records: Records) -> tuple[Labels, int]:
    """Return the records' labels, and the number of queries.

    Asked again, in another order and several times over, they must be the same.
    """
    every, again = np.arange(len(records)), _again(len(records))
    labels = answer(classifier, records, every)
    if not np.array_equal(labels[again], answer(classifier, records, again)):
        raise nondeterminism(classifier.name, lambda: answer(classifier, records, every), labels, *SAME_RECORDS)
    return labels, len(every) + len(again)


def _again(n: int) -> Indices:
    """Return the records that are asked about a second time."""
    least, most = ASKED_AGAIN
    return np.arange(max(least, min(n, most)))[::-1] % n


def true_labels(y: ArrayLike, labels: Labels, classifier: Classifier) -> NDArray[Any]:
    """Return the user's labels, one for each record, in the classifier's words."""
    truth = label_array(y, "y")
    if truth.shape != labels.shape:
        raise ValueError(f"y must hold one label per record, shape {labels.shape}, got {truth.shape}")
    if any(is_missing(label) for label in truth.tolist()):
        raise ValueError("y holds gaps (NaN or None); leave out records without a label")
    given, own = _kind(truth), _kind(labels)
    if "objects" not in (given, own) and (given == "texts") != (own == "texts"):
        raise ValueError(f"y holds {given} but the classifier answers {own}; encode y as it does")
    if classifier.classes is not None and not set(truth.tolist()) & set(classifier.classes):
        raise ValueError(
            f"y shares no value with the classifier's labels {list(classifier.classes)[:5]}; "
            "encode y as the classifier does"
        )
    return truth


def _kind(labels: NDArray[Any]) -> str:
    if labels.dtype == object and all(isinstance(label, (str, bytes)) for label in labels.tolist()):
        return "texts"
    return {"U": "texts", "S": "texts", "b": "booleans", "O": "objects"}.get(labels.dtype.kind, "numbers")
