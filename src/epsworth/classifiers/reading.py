"""My reading of a model agrees with its ``predict``: asked before anything relies on what was read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats

LEAST_CLEAR = 16  # of at least 64 points that every caller asks about


class Unsupported(Exception):
    """What stands in the way of reading a model, or of an engine that would answer for it."""


UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # from what another version fitted, or wrote


def answers_as_read(labels: NDArray[Any], read: NDArray[Any], clear: Bools) -> bool:
    """Tell whether a model's labels are those of its reading wherever that is clear, which it must be often enough.

    Claim: a reading of which fewer than `LEAST_CLEAR` points are compared is not believed: one wrong at a third of
    the points passes with probability (2/3)^16 = 0.0016 at most.  NaN, of which no comparison holds, is never clear.

    Parameters
    ----------
    labels : ndarray, shape ``(n,)``
        What the model answers.
    read : ndarray, shape ``(n,)``
        What its reading answers for the same records.
    clear : ndarray of bool, shape ``(n,)``
        Where the reading leads by more than rounding can turn.
    """
    return bool(clear.sum() >= LEAST_CLEAR and (labels == read)[clear].all())


def unlike(parts: str) -> str:
    """Say why what was read of a model is not believed."""
    return f"its answers are not those of its {parts}, or too few of these are clear"


def leading(scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the place of the largest of each record's scores, the first one of equals, and its lead over the next.

    A single score is that of the second label over the first.

    Examples
    --------
    >>> places, lead = leading(np.array([[0.5], [-2.0]]))
    >>> places.tolist(), lead.tolist()
    ([1, 0], [0.5, 2.0])
    """
    both = np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores
    best = np.partition(both, -2, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):  # NaN, where both are infinite
        return np.argmax(both, axis=1), np.asarray(best[:, 1] - best[:, 0])


def beside(thresholds: NDArray[Any]) -> NDArray[Any]:
    """Return thresholds and their neighbours among numbers of their precision: a wrong comparison shows there."""
    low, high = (np.nextafter(thresholds, thresholds.dtype.type(end)) for end in (-np.inf, np.inf))
    return np.concatenate([low, thresholds, high])
