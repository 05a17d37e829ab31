"""What a client makes of a record: whatever its values, it reports, so that silence tells nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.mechanism import Users

if TYPE_CHECKING:
    from epsworth.learner.config import LatticeConfig


class Kinds(Protocol):
    """Declared labels, or values: what has a number."""

    @property
    def classes(self) -> Any:
        """The labels, in order."""

    def number(self, label: Any) -> int:
        """Return the position of a label, -1 for any other."""


def admitted(config: LatticeConfig, X: ArrayLike, y: Any) -> Users:
    """Return the users as their reports will state them.

    A record with a missing value, a text, or a label that is not declared states nothing, like one outside the box
    with ``outside="zero"``: its report has a law of its own, fixed by the public configuration alone, which is within
    e^epsilon of that of every record.  Infinite values lie outside the box.  Shapes and columns, which no value
    decides, are still refused; so is, with ``outside="refuse"``, all that `LatticeConfig.users` refuses.
    """
    if config.outside == "refuse":
        return config.users(X, y)
    config.check_columns(X)
    with np.errstate(all="ignore"), warnings.catch_warnings():  # a warning, or an error made of one, would tell, too
        warnings.simplefilter("ignore")
        return _stated(config, X, y)


def _stated(config: LatticeConfig, X: ArrayLike, y: Any) -> Users:
    points = _points(X, len(config.box), ", ".join(config.names))
    label = positions(config, y)
    if len(label) != len(points):
        raise ValueError(f"X has {len(points)} rows but y has {len(label)}; give one label per row")
    unusable = np.isnan(points).any(axis=1) | (label < 0)
    unit, outside = config.scaled(np.where(unusable[:, None], np.array(config.box)[:, 0], points))
    return Users(unit, np.maximum(label, 0), unusable | (outside & (config.outside == "zero")))


def _points(X: ArrayLike, d: int, names: str) -> Floats:
    """Return points ``(n, d)``, NaN for every entry that is no number."""
    try:
        found = as_floats(X)
        if found.ndim == 2 and found.shape[1] == d:
            return found
    except Exception:  # any value's own code may fail in any way, and a failure would tell of it
        pass
    given: Any = X if isinstance(X, (list, tuple)) else np.asarray(X, dtype=object)
    if not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0:
        raise ValueError(f"X must have shape (n, {d}); columns: {names}")
    rows = list(given)
    if not all(_is_row(row, d) for row in rows):
        raise ValueError(f"X must have {d} values in every row; columns: {names}")
    return np.array([[number_of(entry) for entry in row] for row in rows], dtype=np.float64).reshape(-1, d)


def _is_row(row: Any, d: int) -> bool:
    return hasattr(row, "__len__") and hasattr(row, "__iter__") and not isinstance(row, Mapping) and len(row) == d


def number_of(entry: Any) -> float:
    """Return an entry as a number, NaN where it is none."""
    try:
        return float("nan" if isinstance(entry, np.ndarray) else entry)
    except Exception:  # as above
        return float("nan")


def positions(kinds: Kinds, y: Any) -> Ints:
    """Return the position of each label among the declared ones, -1 where it is none of them."""
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype != object:
        found, index = np.unique(y, return_inverse=True)
        return np.array([_position(kinds, kind) for kind in found.tolist()], dtype=np.int64)[index]
    if getattr(y, "ndim", 1) != 1 or isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise ValueError("y must be one label per row")
    return np.array([_position(kinds, label) for label in y], dtype=np.int64)


def _position(kinds: Kinds, label: Any) -> int:
    """Return a label's position; of numbers also by their texts: a column with one odd entry is read as texts."""
    found = kinds.number(label)
    if found >= 0 or isinstance(kinds.classes[0], str) == isinstance(label, str):
        return found
    try:
        return kinds.number(_of_text(label) if isinstance(label, str) else str(label))
    except Exception:  # no number, one of thousands of digits, or what fails in its own way
        return -1


def _of_text(text: str) -> float | bool:
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    return int(word) if word.isdecimal() else float(word)
