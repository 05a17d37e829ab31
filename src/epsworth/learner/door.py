"""What a client makes of a record: whatever its values, it reports, so that silence tells nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.learner.coins import Ints
from epsworth.learner.entries import Values, labels_of, points_of, positions_of
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
    found = points(config, X)
    label = positions(config, y, len(found))
    unusable = np.isnan(found).any(axis=1) | (label < 0)
    unit, outside = config.scaled(np.where(unusable[:, None], np.array(config.box)[:, 0], found))
    return Users(unit, np.maximum(label, 0), unusable | (outside & (config.outside == "zero")))


def points(config: LatticeConfig, X: ArrayLike) -> Floats:
    """Return the numbers of a table ``(n, d)``, NaN where an entry is none; a frame's columns must be the features."""
    config.check_columns(X)
    return points_of(X, len(config.box), ", ".join(config.names))


def positions(kinds: Kinds, y: Any, users: int | None = None) -> Ints:
    """Return the position of each label among the declared ones, -1 where it is none of them: one for every user."""
    found = positions_of(kinds.known, labels_of(y))
    if users is not None and len(found) != users:
        raise ValueError(f"X has {users} rows but y has {len(found)}; give one label per row")
    return found
