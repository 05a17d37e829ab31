"""A record must get the same label every time, whatever is asked about together with it: checked by asking."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epsworth.classifiers import ClassifierError, Labels
from epsworth.records import Indices

ALONE = 3  # rows of a batch that are asked about once more, each by itself
REPEATS = 3  # of a whole batch, to tell chance from dependence on the other rows


def check_alone(name: str, ask: Callable[[Indices], Labels], labels: Labels, what: str, needs: str) -> int:
    """Ask about some rows of a batch alone, refuse other labels than the batch's; return how many were asked about.

    Parameters
    ----------
    ask : callable
        From rows of the batch to their labels.
    labels : ndarray
        Those that the whole batch got.
    """
    if len(labels) < 2:
        return 0  # that was alone
    rows = _different(labels)
    for row in rows:
        if ask(np.array([row]))[0] != labels[row]:
            raise unsteady(name, lambda: ask(np.arange(len(labels))), labels, what, needs)
    return len(rows)


def unsteady(name: str, repeat: Callable[[], Labels], labels: Labels, what: str, needs: str) -> ClassifierError:
    """Return why a record had two labels: by chance, where the same batch gets others when it is asked about again.

    Else the other rows of the batch had a say: in what is computed, or only in how it is rounded next to a tie.
    """
    told = f"{name} gives different labels for the same {what}"
    if all(np.array_equal(repeat(), labels) for _ in range(REPEATS)):
        return ClassifierError(
            f"{told}, alone and among others: its answer depends on the other rows of the batch, or on rounding next "
            f"to a tie; {needs} needs a classifier that answers every row by itself"
        )
    return ClassifierError(f"{told}; {needs} needs a deterministic classifier: fix its seed")


def _different(labels: Labels) -> list[int]:
    """Return a few rows, of different labels as far as there are some: what a batch has to differ by shows there."""
    first: dict[object, int] = {}
    for row, label in enumerate(labels.tolist()):
        first.setdefault(label, row)
    rows = list(first.values())[:ALONE]
    return rows + [row for row in range(len(labels)) if row not in rows][: ALONE - len(rows)]
