"""Features with declared public ranges or categories, and the way to the unit cube and back.

Everything in the library works on [0, 1]; `Feature` converts at the edges.  Ranges are *public
constants*: taking them from private data leaks, so `Domain.from_data` warns loudly.
"""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.files import reading, write_text


class LeakWarning(UserWarning):
    """A choice was made from private data; the promise does not cover what that choice reveals."""


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
        if self.categories is not None:
            if isinstance(self.categories, str) or not all(isinstance(c, Hashable) for c in self.categories):
                raise ValueError(f"{where}: categories must be a list of plain values, got {self.categories!r}")
            object.__setattr__(self, "categories", tuple(self.categories))
            if self.points is not None or not (math.isnan(self.lower) and math.isnan(self.upper)):
                raise ValueError(f"{where}: categories exclude lower, upper and points; give one or the other")
            if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
                raise ValueError(
                    f"{where}: categories must be at least two different values, got {list(self.categories)}"
                )
            return
        for key in ("lower", "upper"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
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
        if self.points is not None and (
            isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 2
        ):
            raise ValueError(f"{where}: points must be a whole number of at least 2, got {self.points!r}")

    @property
    def levels(self) -> int | None:
        """Number of public values, or None for a continuous range."""
        return len(self.categories) if self.categories is not None else self.points

    def to_unit(self, values: ArrayLike) -> Floats:
        """Convert natural values to [0, 1]; anything missing or undeclared is refused by its row, not its value."""
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
        try:
            natural = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{self.name} is not a column of numbers; recode it, or declare its categories") from None
        missing = np.isnan(natural)
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
        """Convert unit values to natural ones (values outside [0, 1] go outside the range).

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
        if points is not None:
            steps, i = points - 1, np.rint(unit * (points - 1))
            on_grid: Floats = (self.lower * (steps - i) + self.upper * i) / steps
            return on_grid
        natural: Floats = self.lower * (1 - unit) + self.upper * unit  # exact at both ends
        return natural

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML/JSON form, without the name."""
        if self.categories is not None:
            return {"categories": list(self.categories)}
        return {"lower": self.lower, "upper": self.upper} | ({"points": self.points} if self.points else {})


@dataclass(frozen=True)
class Domain:
    """Declared features, looked up by name.

    Examples
    --------
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

        A tuple of two numbers is a range, a list is a set of categories; an integer key i stands for the
        unnamed column ``x<i>``.
        """
        features = []
        for key, value in ranges.items():
            name = f"x{key}" if isinstance(key, int) else key
            if isinstance(value, Feature):
                features.append(value)
            elif isinstance(value, Mapping):
                features.append(_feature(name, value, f"features.{name}"))
            elif isinstance(value, tuple) and len(value) == 2:
                features.append(Feature(name, *value))
            elif isinstance(value, list):
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
            return cls.from_dict(json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text))

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
        declared = ", ".join(f.name for f in self.features)
        raise ValueError(f"the domain does not declare {name!r} (it declares {declared}); give its public range")

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML/JSON form."""
        return {"features": {f.name: f.to_dict() for f in self.features}}

    def save(self, path: str | Path) -> None:
        """Write a ``.toml`` or ``.json`` file, whole or not at all."""
        import tomli_w

        json_form = Path(path).suffix == ".json"
        write_text(path, json.dumps(self.to_dict(), indent=2) if json_form else tomli_w.dumps(self.to_dict()))


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
