"""Features with declared public ranges or categories, and the way to the unit cube and back.

Everything in the library works on [0, 1]; `Feature` converts at the edges.  Ranges are *public
constants*: taking them from private data leaks, so `Domain.from_data` warns loudly.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.documents import read_json, read_toml
from epsworth.files import reading, write_text
from epsworth.numerals import short, whole
from epsworth.ranges import check_category_for_gaps, checked_categories, checked_range, number_for_gaps, whole_points
from epsworth.values import is_missing, numbers

NO_NUMBERS = (np.datetime64, np.timedelta64, complex, np.complexfloating)  # what NumPy would quietly make a float of


DRAFT_MARK = "# DRAFT, TAKEN FROM THE TABLE"  # how a file of ranges begins that is not meant to stay


class LeakWarning(UserWarning):
    """A choice was made from private data; the promise does not cover what that choice reveals.

    Examples
    --------
    >>> import warnings
    >>> from epsworth import Domain, LeakWarning
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     domain = Domain.from_data({"age": [20, 60]})
    >>> told[0].category is LeakWarning, domain["age"].upper
    (True, 60.0)
    """


@dataclass(frozen=True)
class Feature:
    """One feature: a declared public range (natural units), optionally on a grid, or declared categories.

    Parameters
    ----------
    name : str
        Column name.
    lower, upper : float, optional
        Public range; both or neither.
    points : int, optional
        Number of evenly spaced public values from lower to upper; grid mechanisms then use these.
    categories : sequence, optional
        The public values of a categorical feature, at least two; excludes the others.
    missing : number or category, optional
        What a gap is read as before it is perturbed: a number of the range, or a category.  None refuses gaps.
    integer : bool
        Whether the feature holds whole numbers alone: ``points`` are then all of them from lower to upper, and whatever
        is released is rounded to the nearest.

    Examples
    --------
    >>> from epsworth import Feature
    >>> age = Feature("age", 0, 100, missing=40)
    >>> age.to_unit([79, None]).tolist(), age.from_unit([0.79]).tolist()
    ([0.79, 0.4], [79.0])
    >>> Feature("visits", 0, 30, integer=True).points
    31
    """

    name: str
    lower: float = math.nan
    upper: float = math.nan
    points: int | None = None
    categories: tuple[Any, ...] | None = None
    missing: Any = None
    integer: bool = False

    def __post_init__(self) -> None:
        where = f"feature {short(self.name)}"
        if not isinstance(self.name, str):
            raise ValueError(
                f"{where}: a name must be a text, got a {type(self.name).__name__}; give the column's name"
            )
        if not self.name:
            raise ValueError(f"{where}: a name must not be empty; give the column's name")
        if not isinstance(self.integer, bool):
            raise ValueError(f"{where}: integer must be true or false, got {short(self.integer)}")
        if self.categories is not None:
            if self.points is not None or self.integer or not (math.isnan(self.lower) and math.isnan(self.upper)):
                raise ValueError(f"{where}: categories exclude lower, upper, points and integer; give one or the other")
            object.__setattr__(self, "categories", checked_categories(where, self.categories))
            check_category_for_gaps(where, self.missing, self.categories)
            return
        lower, upper = checked_range(where, self.lower, self.upper)
        points = whole_points(where, lower, upper, self.points) if self.integer else self.points
        found = {"lower": lower, "upper": upper, "missing": number_for_gaps(where, self.missing, lower, upper)}
        for key, value in found.items():
            object.__setattr__(self, key, value)
        if points is not None:
            object.__setattr__(self, "points", whole(f"{where}: points", points, least=2))
        if self.integer and self.missing is not None and not self.missing.is_integer():
            raise ValueError(f"{where}: missing is {self.missing:g}, but integer is true; give a whole number")

    def __eq__(self, other: object) -> bool:
        return self._told == other._told if isinstance(other, Feature) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[object, ...]:
        """What is compared: NaN, which equals nothing, stands for the bounds of categories."""
        ends = None if self.categories else (self.lower, self.upper)
        return self.name, ends, self.points, self.categories, self.missing, self.integer

    @property
    def levels(self) -> int | None:
        """Number of public values, or None for a continuous range."""
        return len(self.categories) if self.categories is not None else self.points

    def gaps(self, values: ArrayLike) -> Bools:
        """Tell which values are missing; a gap that is itself a declared category is none.

        Examples
        --------
        >>> Feature("age", 0, 100).gaps([31.0, None, float("nan"), "old"]).tolist()
        [False, True, True, False]
        """
        column = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
        if column.dtype.kind == "f":
            return np.asarray(np.isnan(column))
        if column.dtype.kind in "iub":
            return np.zeros(column.shape, dtype=np.bool_)
        kept = [value for value in self.categories or () if is_missing(value)]
        found = [is_missing(value) and not any(value is one for one in kept) for value in column.ravel().tolist()]
        return np.array(found, dtype=np.bool_).reshape(column.shape)

    def to_unit(self, values: ArrayLike) -> Floats:
        """Convert natural values to [0, 1]; a gap is read as `missing`.

        What is undeclared, or missing where nothing stands for it, is an error that names its row alone.
        """
        if self.categories is not None:
            index = {category: i for i, category in enumerate(self.categories)}
            column = np.asarray(values, dtype=object).tolist()
            found = np.array([index.get(v, -1) for v in column], dtype=np.float64)
            if self.missing is not None:
                found = np.where((found < 0) & self.gaps(values), index[self.missing], found)
            if (found < 0).any():
                row = int(np.argmax(found < 0))
                raise ValueError(
                    f"row {row}, {self.name}: the value is not a declared category "
                    f"({', '.join(map(repr, self.categories))}); declare it or recode the value"
                )
            return found / (len(self.categories) - 1)
        column = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
        kinds = set(map(type, column.flat)) if column.dtype == object else {column.dtype.type}
        if any(issubclass(kind, NO_NUMBERS) for kind in kinds):
            raise ValueError(
                f"{self.name} is not a column of numbers but holds dates, durations or complex numbers; recode it, "
                "such as to days since a public date"
            )
        if any(issubclass(kind, (bool, np.bool_)) for kind in kinds):
            raise ValueError(
                f"{self.name} holds booleans, which are no numbers; declare its categories, [False, True], or recode it"
            )
        natural = numbers(column)
        missing = np.isnan(natural)
        odd = [row for row in np.flatnonzero(missing) if not is_missing(column[row])] if column.ndim == 1 else []
        if odd:
            raise ValueError(
                f"row {odd[0]}, {self.name}: the value is not a number; recode it, or declare the column's categories"
            )
        if self.missing is not None:
            natural, missing = np.where(missing, self.missing, natural), np.zeros_like(missing)
        outside = missing | (natural < self.lower) | (natural > self.upper)
        if outside.any():
            row = int(np.argmax(outside))
            others = int(np.count_nonzero(missing if missing[row] else outside & ~missing)) - 1
            what = "the value is missing (NaN)" if missing[row] else "the value lies outside"
            what += f", as in {others:,} more of {len(natural):,} rows" if others else ""
            remedy = (
                "declare what stands for it (missing)" if missing[row] else "clip it, or declare a wider public range"
            )
            raise ValueError(
                f"row {row}, {self.name}: {what}; the declared range is {self.lower:g} to {self.upper:g}; {remedy}"
            )
        return (natural - self.lower) / (self.upper - self.lower)

    def from_unit(self, unit: ArrayLike, *, points: int | None = None) -> NDArray[Any]:
        """Convert unit values to natural ones: from [0, 1] into the range, ends included; from outside it beyond.

        Parameters
        ----------
        unit : array_like
            Values on the unit scale.
        points : int, optional
            Set when they lie on the grid {i/(points-1)}: whole numbers in natural units then come out whole,
            which ``lower + unit * (upper - lower)`` would miss in the last bit (100 * 0.29 is not 29).
        """
        unit = np.asarray(unit, dtype=np.float64)
        if self.categories is not None:
            kinds = np.asarray(self.categories)
            kept = kinds if kinds.tolist() == list(self.categories) else np.array(self.categories, dtype=object)
            chosen: NDArray[Any] = kept[np.rint(unit * (len(self.categories) - 1)).astype(np.intp)]
            return chosen
        # a power of two, so that no digit changes, and no product of a wide range overflows
        scale = 2.0**-32 if max(abs(self.lower), abs(self.upper)) > 2.0**900 else 1.0
        lower, upper = scale * self.lower, scale * self.upper
        if points is not None:
            steps, i = points - 1, np.rint(unit * (points - 1))
            natural = (lower * (steps - i) + upper * i) / steps
            natural = np.where(i == 0, lower, np.where(i == steps, upper, natural))
        else:
            natural = lower * (1 - unit) + upper * unit  # exact at both ends
        # rounding may lead an ulp out of the range, from which no value may
        natural = np.where((unit >= 0) & (unit <= 1), np.clip(natural, lower, upper), natural)
        return np.asarray(natural / scale)

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML/JSON form, without the name."""
        gap = {} if self.missing is None else {"missing": self.missing}
        if self.categories is not None:
            return {"categories": list(self.categories)} | gap
        values: dict[str, Any] = {"integer": True} if self.integer else {"points": self.points} if self.points else {}
        return {"lower": self.lower, "upper": self.upper} | values | gap


@dataclass(frozen=True)
class Domain:
    """Declared features, looked up by name.

    Parameters
    ----------
    features : tuple of Feature
        In the order of the columns; `Domain.of` makes them of a mapping.

    Examples
    --------
    >>> from epsworth import Domain
    >>> domain = Domain.of({"age": (0, 100), "smoker": ["no", "yes"]})
    >>> domain["smoker"].levels
    2
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        names = [f.name for f in self.features]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the domain declares {name!r} twice; keep one")

    @classmethod
    def of(cls, ranges: Mapping[str | int, object]) -> Domain:
        """Build from ``{name: (lower, upper)}``, ``{name: [category, ...]}`` or ``{name: {"lower": ...}}``.

        A tuple of two numbers is a range, a list is a set of categories.  A list of two numbers could be either and is
        refused: two numbers that are categories are written ``{name: {"categories": [0, 1]}}``.  What has more to say
        is ``{name: {"lower": 15, "upper": 60, "missing": 27}}``.  An integer key i stands for the unnamed column
        ``x<i>``.
        """
        if not isinstance(ranges, Mapping):
            raise TypeError(f"ranges must be a mapping from names to ranges, got {type(ranges).__name__}; give one")
        features = []
        for key, value in ranges.items():
            if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
                raise ValueError(
                    f"domain: the key {key!r} is a {type(key).__name__}; give a feature's name, or the whole number of "
                    "an unnamed column"
                )
            name = key if isinstance(key, str) else f"x{key}"
            if isinstance(value, Feature):
                features.append(value)
            elif isinstance(value, Mapping):
                features.append(_feature(name, value, f"features.{name}"))
            elif isinstance(value, tuple) and len(value) == 2:
                features.append(Feature(name, *value))
            elif isinstance(value, list):
                if len(value) == 2 and all(isinstance(v, Real) and not isinstance(v, bool) for v in value):
                    raise ValueError(
                        f"domain, {name}: {value!r} may be a range or two categories; write "
                        f'({value[0]}, {value[1]}) for the range, {{"categories": {value!r}}} for the categories'
                    )
                features.append(Feature(name, categories=tuple(value)))
            else:
                raise ValueError(
                    f"domain, {name}: {value!r} is neither a range (lower, upper) nor a list of categories; give one"
                )
        return cls(tuple(features))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Domain:
        """Read the TOML/JSON form; errors name the path inside the document."""
        if not isinstance(document, Mapping):
            raise ValueError("the document is not a table; write one section [features.NAME] per feature")
        table = document.get("features")
        if not isinstance(table, Mapping) or not table:
            raise ValueError('no "features" table; write one section [features.NAME] per feature')
        extra = set(document) - {"features"}
        if extra:
            raise ValueError(f'unknown entry {sorted(extra)[0]!r}; a domain has only "features"')
        return cls(tuple(_feature(name, entry, f"features.{name}") for name, entry in table.items()))

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Read a ``.toml`` or ``.json`` file."""
        with reading(path, "domain file") as content:
            text = content.decode()
            if DRAFT_MARK in text:
                told = f"{path} says that its ranges were taken from a table, whose extreme values they show"
                hint = "replace them by public ones, then delete that comment"
                warnings.warn(f"{told}; {hint}", LeakWarning, stacklevel=2)
            return cls.from_dict(read_json(text) if Path(path).suffix == ".json" else read_toml(text))

    @classmethod
    def from_data(cls, columns: Mapping[str, ArrayLike]) -> Domain:
        """Take ranges from data: a *leak* where the data are private, so it warns every time.

        Parameters
        ----------
        columns : mapping
            Name to values; numbers give a range, anything else gives categories.
        """
        warnings.warn(
            "domain bounds taken from the data reveal its extreme values, which no mechanism protects; "
            "declare public bounds instead",
            LeakWarning,
            stacklevel=2,
        )
        features = []
        for name, values in columns.items():
            column = np.asarray(values)
            if column.dtype.kind in "fiu":
                features.append(Feature(name, float(np.nanmin(column)), float(np.nanmax(column))))
            else:
                features.append(Feature(name, categories=tuple(sorted(set(column.tolist()), key=str))))
        return cls(tuple(features))

    def __contains__(self, name: object) -> bool:
        return any(f.name == name for f in self.features)

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        declared = ", ".join(f.name for f in self.features) or "no feature"
        raise ValueError(f"the domain does not declare {name!r} (it declares {declared}); give its public range")

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML/JSON form."""
        return {"features": {f.name: f.to_dict() for f in self.features}}

    def save(self, path: str | Path) -> None:
        """Write a ``.toml`` or ``.json`` file, whole or not at all."""
        json_form = Path(path).suffix == ".json"
        write_text(path, json.dumps(self.to_dict(), indent=2) if json_form else self.to_toml())

    def to_toml(self) -> str:
        """Return the text of a ``.toml`` file."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())


KEYS = ("lower", "upper", "points", "categories", "missing", "integer")


def _feature(name: str, entry: object, where: str) -> Feature:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected a table with lower and upper, or categories, got {short(entry)}")
    for key in entry:
        if key not in KEYS:
            raise ValueError(f"{where}.{key}: unknown entry; a feature has {', '.join(KEYS)}")
    try:
        return Feature(name, **entry)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {str(error).removeprefix(f'feature {name!r}: ')}") from None


Ranges = Domain | Mapping[str | int, object] | str | Path


def as_domain(domain: Ranges) -> Domain:
    """Return public ranges as a domain: a mapping is read by `Domain.of`, a path by `Domain.load`."""
    if isinstance(domain, Domain):
        return domain
    if isinstance(domain, (str, Path)):
        return Domain.load(domain)
    if not isinstance(domain, Mapping):
        raise TypeError(f"domain must be a Domain, a mapping or the path of a file, got {type(domain).__name__}")
    return Domain.of(domain)


def unit_domain(names: Sequence[str]) -> Domain:
    """Return the domain of features that are already on [0, 1]."""
    return Domain(tuple(Feature(name, 0.0, 1.0) for name in names))
