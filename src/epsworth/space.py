"""Features with declared public ranges or categories, and the way to the unit cube and back.

Everything in the library works on [0, 1]; `Feature` converts at the edges.  Ranges are *public
constants*: taking them from private data leaks, so `Domain.from_data` warns loudly.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.documents import read_json, read_toml
from epsworth.files import reading, write_text
from epsworth.numerals import whole
from epsworth.values import is_missing, numbers

NO_NUMBERS = (np.datetime64, np.timedelta64, complex, np.complexfloating)  # what NumPy would quietly make a float of


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

    Examples
    --------
    >>> from epsworth import Feature
    >>> age = Feature("age", 0, 100)
    >>> age.to_unit([79]).tolist(), age.from_unit([0.79]).tolist()
    ([0.79], [79.0])
    """

    name: str
    lower: float = math.nan
    upper: float = math.nan
    points: int | None = None
    categories: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        where = f"feature {self.name!r}"
        if not isinstance(self.name, str):
            raise ValueError(
                f"{where}: a name must be a text, got a {type(self.name).__name__}; give the column's name"
            )
        if self.categories is not None:
            if isinstance(self.categories, str) or not all(isinstance(c, Hashable) for c in self.categories):
                raise ValueError(f"{where}: categories must be a list of plain values, got {self.categories!r}")
            object.__setattr__(self, "categories", tuple(self.categories))
            if self.points is not None or not (math.isnan(self.lower) and math.isnan(self.upper)):
                raise ValueError(f"{where}: categories exclude lower, upper and points; give one or the other")
            if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
                twins = any(type(a) is not type(b) for a in self.categories for b in self.categories if a == b)
                why = " (True equals 1, and 1.0 equals 1: write one of them, or texts)" if twins else ""
                raise ValueError(
                    f"{where}: categories must be at least two different values, got {list(self.categories)}{why}"
                )
            return
        for key in ("lower", "upper"):
            value = getattr(self, key)
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not number or not -sys.float_info.max <= value <= sys.float_info.max:
                raise ValueError(
                    f"{where}: {key} must be a finite number, got {value!r}; give the public range, or categories"
                )
            object.__setattr__(self, key, float(value))
        if not math.isfinite(self.upper - self.lower):
            raise ValueError(f"{where}: the range {self.lower:g} to {self.upper:g} is too wide for numbers; narrow it")
        if not self.upper > self.lower:
            raise ValueError(
                f"{where}: upper ({self.upper:g}) is not above lower ({self.lower:g}); give the public range"
            )
        if self.points is not None:
            object.__setattr__(self, "points", whole(f"{where}: points", self.points, least=2))

    def __eq__(self, other: object) -> bool:
        return self._told == other._told if isinstance(other, Feature) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[object, ...]:
        """What is compared: NaN, which equals nothing, stands for the bounds of categories."""
        return self.name, None if self.categories else (self.lower, self.upper), self.points, self.categories

    @property
    def levels(self) -> int | None:
        """Number of public values, or None for a continuous range."""
        return len(self.categories) if self.categories is not None else self.points

    def to_unit(self, values: ArrayLike) -> Floats:
        """Convert natural values to [0, 1]; what is missing or undeclared is an error that names its row alone."""
        if self.categories is not None:
            index = {category: i for i, category in enumerate(self.categories)}
            column = np.asarray(values, dtype=object).tolist()
            found = np.array([index.get(v, -1) for v in column], dtype=np.float64)
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
        outside = missing | (natural < self.lower) | (natural > self.upper)
        if outside.any():
            row = int(np.argmax(outside))
            what = "the value is missing (NaN)" if missing[row] else "the value lies outside"
            remedy = "impute it" if missing[row] else "clip it, or declare a wider public range"
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
        if self.categories is not None:
            return {"categories": list(self.categories)}
        return {"lower": self.lower, "upper": self.upper} | ({"points": self.points} if self.points else {})


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
        refused: two numbers that are categories are written ``{name: {"categories": [0, 1]}}``.  An integer key i
        stands for the unnamed column ``x<i>``.
        """
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


KEYS = ("lower", "upper", "points", "categories")


def _feature(name: str, entry: object, where: str) -> Feature:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected a table with lower and upper, or categories, got {entry!r}")
    for key in entry:
        if key not in KEYS:
            raise ValueError(f"{where}.{key}: unknown entry; a feature has {', '.join(KEYS)}")
    try:
        return Feature(name, **entry)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {str(error).removeprefix(f'feature {name!r}: ')}") from None


def unit_domain(names: Sequence[str]) -> Domain:
    """Return the domain of features that are already on [0, 1]."""
    return Domain(tuple(Feature(name, 0.0, 1.0) for name in names))
