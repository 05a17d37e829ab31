"""What a client makes of a record: whatever its values, it reports, so that silence tells nothing."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsworth.learner.coins import Ints
from epsworth.learner.entries import Values, column_of, points_of, positions_of
from epsworth.learner.mechanism import Users

if TYPE_CHECKING:
    from epsworth.learner.config import LatticeConfig


class Kinds(Protocol):
    """What has declared labels."""

    @property
    def known(self) -> Values:
        """Which of them an entry is."""


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
    return _stated(config, X, y)


def _stated(config: LatticeConfig, X: ArrayLike, y: Any) -> Users:
    points = points_of(X, len(config.box), ", ".join(config.names))
    label = positions(config, y)
    if len(label) != len(points):
        raise ValueError(f"X has {len(points)} rows but y has {len(label)}; give one label per row")
    unusable = np.isnan(points).any(axis=1) | (label < 0)
    with np.errstate(all="ignore"):
        unit, outside = config.scaled(np.where(unusable[:, None], np.array(config.box)[:, 0], points))
    return Users(unit, np.maximum(label, 0), unusable | (outside & (config.outside == "zero")))


def positions(kinds: Kinds, y: Any) -> Ints:
    """Return the position of each label among the declared ones, -1 where it is none of them."""
    if getattr(y, "ndim", 1) != 1 or isinstance(y, (str, bytes, Mapping, Set)) or not hasattr(y, "__len__"):
        raise ValueError("y must be one label per row")
    return positions_of(kinds.known, column_of(y))
