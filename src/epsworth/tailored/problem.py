"""Public records on the grids of a policy, and what classifiers answer when their sensitive columns change.

Grids are declared ranges for what is sensitive, and the table's own for the rest.  Sensitive places that no record need
have are drawn column by column, except for `jittered`, so that none of the rows is a record's but by chance: surrogates
learn from them, and they can stand for regions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.classifiers import Classifier, ClassifierError
from epsworth.classifiers.reading import check_kind
from epsworth.grids import Grid, Input
from epsworth.keeping import Arrays, Keeping
from epsworth.numerals import short
from epsworth.parallel import in_order
from epsworth.records import Records
from epsworth.space import Domain, Feature
from epsworth.values import NUMBERS, is_missing


@dataclass(frozen=True, eq=False)
class Public:
    """Public records on the grids of a policy, and what the classifier answers when their sensitive columns change.

    Attributes
    ----------
    places : ndarray of int, shape ``(n, inputs)``
        Places of the records' columns, in the order of the copy's inputs.
    inputs : tuple of Input
    sensitive : ndarray of bool, shape ``(inputs,)``
        Which of the inputs are sensitive.
    regions : ndarray of int, shape ``(n,)``
        The classifier's region of each record as it stands; -1 for a label that is no region.
    asked : callable
        From rows and places of their sensitive columns, shape ``(rows, sensitive)``, to the classifier's regions of
        these records with their sensitive columns at these places; -1 for a label that is no region.
    count : int
        How many regions there are.
    """

    places: Indices
    inputs: tuple[Input, ...]
    sensitive: Bools
    regions: Indices
    asked: Callable[[Indices, Indices], Indices]
    count: int

    def take(self, rows: ArrayLike) -> Public:
        """Return a part of the records; what is asked about it counts the rows of the part."""
        whole = np.arange(len(self.places))[np.asarray(rows)]

        def asked(part: Indices, sensitive: Indices) -> Indices:
            return self.asked(whole[part], sensitive)

        return Public(self.places[whole], self.inputs, self.sensitive, self.regions[whole], asked, self.count)

    def moved(self, rows: Indices, sensitive: Indices) -> Indices:
        """Return the places of some records with their sensitive columns at other places."""
        places = self.places[rows].copy()
        places[:, self.sensitive] = sensitive
        return places


SPREAD = 0.05  # of jitter, in lengths of a column
SWAPPED = 0.1  # words that jitter replaces


def resampled(public: Public, rng: np.random.Generator, n: int) -> Indices:
    """Return sensitive places whose columns come from other records each."""
    sensitive = public.places[:, public.sensitive]
    return np.take_along_axis(sensitive, rng.integers(len(sensitive), size=(n, sensitive.shape[1])), axis=0)


def uniform(public: Public, rng: np.random.Generator, n: int) -> Indices:
    """Return sensitive places, all equally likely."""
    return np.asarray(rng.integers(sizes(public), size=(n, len(sizes(public)))), dtype=np.int64)


def jittered(public: Public, places: Indices, rng: np.random.Generator, spread: float | Floats = SPREAD) -> Indices:
    """Return sensitive places close to some; a few words become other records' words."""
    most, ordered = sizes(public) - 1, orders(public)
    moved = np.rint(places + rng.normal(0, 1, places.shape) * spread * most)
    words = np.where(rng.random(places.shape) < SWAPPED, resampled(public, rng, len(places)), places)
    return np.where(ordered, np.clip(moved, 0, most), words).astype(np.int64)


def sizes(public: Public) -> Indices:
    """Return how many places the sensitive columns have."""
    return np.array([one.places for one, asked in zip(public.inputs, public.sensitive, strict=True) if asked])


def orders(public: Public) -> Bools:
    """Return which of the sensitive columns have an order."""
    return np.array([one.ordered for one, asked in zip(public.inputs, public.sensitive, strict=True) if asked])


TOGETHER = 1 << 16  # records that a classifier is asked about at once
PIECE = 1 << 13  # the same where workers may share them
VALUES = re.compile(r"\[.*\]|'[^']*'|\"[^\"]*\"")  # of records, in the words of a library
Batch = tuple[Indices, Indices | None]  # rows, and places of their sensitive columns


@dataclass(frozen=True, eq=False)
class Replacements:
    """Classifiers and records whose sensitive columns are replaced by values on grids.

    Attributes
    ----------
    classifiers : tuple of Classifier
    records : Records
    positions : tuple of int
        The sensitive columns among the records'.
    grids : tuple of Grid
        Theirs.
    n_jobs : int, optional
        Workers that share the records of a question, where the classifiers can be sent to them.
    kept : Keeping, optional
        Where answers of an earlier run lie, and new ones are left.
    """

    classifiers: tuple[Classifier, ...]
    records: Records
    positions: tuple[int, ...]
    grids: tuple[Grid, ...]
    n_jobs: int | None = None
    kept: Keeping | None = None

    def labels(self, rows: Indices, places: Indices | None = None) -> list[NDArray[Any]]:
        """Return each classifier's labels of some records, as they stand or with sensitive columns at other places.

        Parameters
        ----------
        places : ndarray of int, shape ``(rows, sensitive)``, optional
        """
        here = all(classifier.inside is not None for classifier in self.classifiers)
        size = PIECE if here else TOGETHER  # the same whoever does the work: rounding may depend on it
        pieces = [slice(start, start + size) for start in range(0, max(1, len(rows)), size)]
        batches = [(rows[part], None if places is None else places[part]) for part in pieces]
        n_jobs = self.n_jobs if here and len(pieces) > 1 else 1
        answering = _Answering(replace(self, n_jobs=None, kept=None))
        result = list(in_order(answering, batches, n_jobs=n_jobs, kept=self.kept))
        return [np.concatenate(one) for one in zip(*result, strict=True)]

    def answers(self, batch: Batch) -> list[NDArray[Any]]:
        """Return each classifier's labels of a piece."""
        rows, places = batch
        replaced = None if places is None else self._replaced(places)
        table = self.records.take(np.asarray(rows, dtype=np.intp), replaced)
        return [self._answer(classifier, table, replaced is not None) for classifier in self.classifiers]

    def _replaced(self, places: Indices) -> Mapping[int, NDArray[Any]]:
        return {
            p: grid.values[places[:, j]] for j, (p, grid) in enumerate(zip(self.positions, self.grids, strict=True))
        }

    def _answer(self, classifier: Classifier, table: Any, placed: bool) -> NDArray[Any]:
        if not len(table):
            return np.empty(0, dtype=object)
        try:
            labels = classifier.labels(table)
        except (ClassifierError, ValueError, TypeError) as error:
            which = "records with values of the policy's grids in place" if placed else "the public records"
            raise cannot_answer(classifier, which, error) from None
        check_kind(classifier.name, labels)
        return labels


@dataclass(frozen=True, eq=False)
class _Answering:
    """Answers of classifiers, as arrays too."""

    asked: Replacements

    def __call__(self, batch: Batch) -> list[NDArray[Any]]:
        """Return each classifier's labels of a piece."""
        return self.asked.answers(batch)

    def arrays(self, found: list[NDArray[Any]]) -> Arrays:
        """Return what is kept of a piece."""
        return {f"{number}": labels for number, labels in enumerate(found)}

    def read(self, batch: Batch, arrays: Arrays) -> list[NDArray[Any]]:
        """Return what was kept of a piece."""
        return [arrays[f"{number}"] for number in range(len(self.asked.classifiers))]


def cannot_answer(classifier: Classifier, which: str, error: Exception) -> ClassifierError:
    """Return the refusal of a classifier that fails; what it says of records is not shown."""
    told = VALUES.sub("...", (str(error).strip() or "no message").splitlines()[0])
    return ClassifierError(f"{classifier.name} could not answer {which}: {told}")


class Codes:
    """Numbers of labels; -1 for one that is none of them."""

    def __init__(self, labels: Sequence[Any]) -> None:
        self.labels = tuple(labels)

    @classmethod
    def of(cls, classifier: Classifier, seen: NDArray[Any]) -> Codes:
        """Return the labels that a classifier can give: those it lists, or else those that were seen."""
        if classifier.classes is not None:
            return cls(classifier.classes)
        return cls(sorted(set(seen.tolist()), key=lambda label: (str(type(label)), label)))

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def __call__(self, labels: NDArray[Any]) -> Indices:
        """Return the numbers of labels."""
        return np.array([self._numbers.get(label, -1) for label in labels.tolist()], dtype=np.int64)  # of any kinds


MOST_POINTS = 1 << 16  # of a grid of whole numbers
MOST_WORDS = 1 << 10  # of a public column
OTHER = "(other)"  # beside the one word of a public column that never changes

Substitutes = Mapping[str | int, Any] | Any


def grids_of(
    records: Records, positions: tuple[int, ...], domain: Domain | None, missing: Substitutes, outside: Substitutes
) -> tuple[Grid, ...]:
    """Return a grid for each of the records' columns.

    Parameters
    ----------
    records : Records
        Public.
    positions : tuple of int
        The sensitive columns.
    domain : Domain or None
        Their public ranges and categories, and those of other columns where it declares them; None: the records' own,
        who are public; 0 to 1 where their numbers lie there.
    missing, outside : mapping from column to value, or one value, optional
        What stands for missing and undeclared values.  By default what the domain declares, else the median, or the
        most frequent word, of the public records.
    """
    names = [records.names[position] for position in positions]
    _check_named("missing", missing, names, records)
    _check_named("outside", outside, names, records)
    grids = []
    for position, name in enumerate(records.names):
        column = records.column(position)
        sensitive = position in positions
        if domain is None:
            feature = own_feature(name, column)
        else:
            feature = domain[name] if sensitive or name in domain else own_feature(name, column)
        grids.append(
            _grid(feature, column, _given(missing, name, records, sensitive), _given(outside, name, records, sensitive))
        )
    _check_outside(outside, [grids[position].feature for position in positions], records)
    return tuple(grids)


def _check_named(word: str, substitutes: Substitutes, names: list[str], records: Records) -> None:
    """Refuse what stands for values of a column that is not sensitive: it would be passed over."""
    keys: list[Any] = list(substitutes) if isinstance(substitutes, Mapping) else []
    for key in keys:
        whole = isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(records.given)
        if (records.given[key] if whole else key) not in (*names, *records.names):
            raise ValueError(f"{word}: names {key!r}, which is no column; name sensitive ones")


def _check_outside(outside: Substitutes, features: list[Feature], records: Records) -> None:
    """Refuse what would stand for numbers outside their range: they are clamped."""
    numbers = [feature.name for feature in features if feature.categories is None]
    if not isinstance(outside, Mapping) and len(numbers) < len(features):
        return
    for name in numbers:
        result = _given(outside, name, records, True)
        if not (result is None or (isinstance(result, str) and result == "clamp")):
            raise ValueError(
                f"outside: numbers outside the range of {name!r} are clamped ('clamp'), got {short(result)}"
            )


def _given(substitutes: Substitutes, name: str, records: Records, sensitive: bool) -> Any:
    if not isinstance(substitutes, Mapping):
        return substitutes if sensitive else None
    if name in substitutes:
        return substitutes[name]
    at = records.given.index(name) if name in records.given else -1
    return substitutes.get(at)


def own_feature(name: str, column: NDArray[Any]) -> Feature:
    """Return the range, or the words, that a public column has; 0 to 1 for numbers that lie there."""
    if column.dtype.kind in "fiu" or (column.dtype == object and _numbers(column)):
        values = _finite(column)
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        if low >= 0 and high <= 1:
            return Feature(name, 0.0, 1.0)
        return Feature(name, low, high if high > low else low + 1.0)
    words = list(dict.fromkeys(value for value in column.tolist() if not is_missing(value)))
    if len(words) > MOST_WORDS:
        raise ValueError(
            f"{name}: the column holds {len(words)} different words, at most {MOST_WORDS} can be told apart; drop it, "
            "or join rare ones"
        )
    if all(isinstance(word, bool) for word in words):
        return Feature(name, categories=(False, True))
    while len(words) < 2:
        words.append(OTHER if OTHER not in words else OTHER + "'")
    return Feature(name, categories=tuple(sorted(words, key=lambda word: (str(type(word)), str(word)))))


def _grid(feature: Feature, column: NDArray[Any], missing: Any, outside: Any) -> Grid:
    missing = feature.missing if missing is None else missing
    if feature.categories is not None:
        known = [value for value in column.tolist() if value in feature.categories]
        usual = max(feature.categories, key=known.count)
        return Grid(
            feature, missing=usual if missing is None else missing, outside=usual if outside is None else outside
        )
    values = _finite(column)
    feature = _whole(feature, values)
    if missing is None:
        within = np.clip(values, feature.lower, feature.upper) if values.size else np.array([feature.lower])
        missing = float(np.sort(within)[len(within) // 2])
    return Grid(feature, missing=missing)


def _whole(feature: Feature, values: NDArray[np.float64]) -> Feature:
    """Return whole numbers' range with a point for each: what is sent is whole then, too, and nothing is rounded."""
    span = feature.upper - feature.lower
    ends = feature.lower.is_integer() and feature.upper.is_integer() and 1 <= span < MOST_POINTS
    if feature.points is not None or not ends or not values.size or (values != np.rint(values)).any():
        return feature
    return Feature(feature.name, feature.lower, feature.upper, points=int(span) + 1)


def _numbers(column: NDArray[Any]) -> bool:
    known = [value for value in column.tolist() if not is_missing(value)]
    return bool(known) and all(type(v) in NUMBERS for v in known)


def _finite(column: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = np.array([np.nan if is_missing(v) else v for v in column.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)
    return numbers[np.isfinite(numbers)]
