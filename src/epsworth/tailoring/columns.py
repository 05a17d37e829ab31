"""Grids for the columns of a public table: declared ranges for what is sensitive, the table's own for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import short
from epsworth.records import Records
from epsworth.release.grids import Grid
from epsworth.space import Domain, Feature
from epsworth.values import NUMBERS, is_missing

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
        found = _given(outside, name, records, True)
        if not (found is None or (isinstance(found, str) and found == "clamp")):
            raise ValueError(
                f"outside: numbers outside the range of {name!r} are clamped ('clamp'), got {short(found)}"
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
