"""What curves say of themselves: which view, which epsilons, which promises, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.guarantees import Guarantee
from epsworth.rounding import show_up

MOST_CHANGES = 5  # of a notion or a delta along the epsilons, that are printed


def view_of(on: str | int, count: int) -> str:
    """Name what is looked at.

    Examples
    --------
    >>> view_of("worst", 3), view_of(7, 20)
    ('worst of these 3 records', 'record 7')
    """
    if not isinstance(on, str):
        return f"record {on}"
    return f"average over {count} records" if on == "average" else f"worst of these {count} records"


def long_columns(
    mechanisms: Sequence[str], epsilons: Floats, bounds: Mapping[str, Interval]
) -> dict[str, NDArray[Any]]:
    """Return one row for every quantity, mechanism and epsilon, in this order, with its two bounds.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = {"average stability": Interval(np.array([[0.5, 0.75]]), np.array([[0.5, 1.0]]))}
    >>> long_columns(["pm"], np.array([1.0, 2.0]), bounds)["upper"].tolist()
    [0.5, 1.0]
    """
    each = (len(mechanisms), len(epsilons))
    return {
        "mechanism": np.tile(np.repeat(np.array(mechanisms), each[1]), len(bounds)),
        "epsilon": np.tile(epsilons, each[0] * len(bounds)),
        "quantity": np.repeat(np.array(list(bounds)), each[0] * each[1]),
        "lower": np.concatenate([np.ravel(one.lower) for one in bounds.values()]),
        "upper": np.concatenate([np.ravel(one.upper) for one in bounds.values()]),
    }


def span(epsilons: Floats) -> str:
    """Name the epsilons of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> span(np.array([1.0, 2.0])), span(np.array([1.0]))
    ('epsilon 1 to 2', 'epsilon 1')
    """
    first, last = show_up(float(epsilons[0])), show_up(float(epsilons[-1]))
    return f"epsilon {first}" if epsilons.size == 1 else f"epsilon {first} to {last}"


def promises(mechanisms: Sequence[str], epsilons: Floats, guarantees: Sequence[Sequence[Guarantee]]) -> list[str]:
    """Say which mechanisms keep which promise per record: at the smallest epsilon, and where notion or delta change."""
    found: dict[tuple[int, Guarantee], list[str]] = {}
    for name, row in zip(mechanisms, guarantees, strict=True):
        kinds = [(promise.notion, promise.delta) for promise in row]
        for e, promise in enumerate(row):
            if e == 0 or kinds[e] != kinds[e - 1]:
                found.setdefault((e, promise), []).append(name)
    first = [key for key in found if key[0] == 0]
    later = sorted((key for key in found if key[0] > 0), key=lambda key: key[0])
    lines = [
        f"{', '.join(found[e, promise])} at epsilon {show_up(epsilons[e])} per record: {promise}"
        for e, promise in [*first, *later[:MOST_CHANGES]]
    ]
    if len(later) > MOST_CHANGES:
        lines.append(f"notions or deltas change {len(later) - MOST_CHANGES} more times; `guarantees` holds all of them")
    return lines
