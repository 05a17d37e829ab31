"""Regions of items for the local model: what may stand for an item."""

from __future__ import annotations

from collections.abc import Sequence

from epsworth.noise.allowed import whole

MOST_ITEMS = 4096  # of a channel: its matrix has as many rows and columns


def windows(d: int, reach: int, *, circular: bool = False) -> list[list[int]]:
    """Return regions of neighbours at most ``reach`` away, clipped at both ends or wrapped around.

    Parameters
    ----------
    d, reach : int
        Number of items; how far a neighbour may be.
    circular : bool
        Whether the first follows the last.

    Raises
    ------
    ValueError
        For fewer than two items.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.windows(4, 1)
    [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    >>> noise.windows(4, 1, circular=True)[0]
    [0, 1, 3]
    """
    d, reach = whole(d, "d", 2, MOST_ITEMS), whole(reach, "reach", 0, MOST_ITEMS)
    if circular:
        return [sorted({(i + j) % d for j in range(-reach, reach + 1)}) for i in range(d)]
    return [list(range(max(0, i - reach), min(d, i + reach + 1))) for i in range(d)]


def groups(sizes: Sequence[int]) -> list[list[int]]:
    """Return regions of disjoint groups of these sizes.

    Parameters
    ----------
    sizes : sequence of int
        How many items each group has.

    Raises
    ------
    ValueError
        For a group without items.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.groups([2, 3])
    [[0, 1], [0, 1], [2, 3, 4], [2, 3, 4], [2, 3, 4]]
    """
    found: list[list[int]] = []
    start, sizes = 0, [whole(size, "sizes", 1, MOST_ITEMS) for size in sizes]
    whole(sum(sizes), "the sum of sizes", 2, MOST_ITEMS)
    for size in sizes:
        found += [list(range(start, start + size))] * size
        start += size
    return found
