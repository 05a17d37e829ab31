"""Characters: of a label, of a category's values, of a number's bins in the order of their sign changes."""

from __future__ import annotations

from functools import cache

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.signed import odd_overlap


def signs(mask: Ints, character: Ints, own: Ints, label: Ints) -> Ints:
    """Return W_a(bin) (-1)^popcount(c & y), entry by entry; masks stand for orders.

    Examples
    --------
    >>> signs(np.array([sequency(2, 3)]), np.array([1]), np.array([5]), np.array([1])).tolist()
    [1]
    """
    return np.asarray(1 - 2 * (odd_overlap(mask, own) ^ odd_overlap(character, label)))


def sequency(order: int, bits: int) -> int:
    """Return the mask of the Walsh function with so many sign changes: bit-reversed Gray code.

    Examples
    --------
    >>> [sequency(order, 3) for order in range(8)]
    [0, 4, 6, 2, 3, 7, 5, 1]
    """
    return reverse(order ^ order >> 1, bits)


def reverse(number: int, bits: int) -> int:
    """Return a number with its bits in reverse."""
    return int(f"{number:0{bits}b}"[::-1], 2)


@cache
def walsh(side: int) -> Floats:
    """Return the Walsh matrix by sequency, orders by bins.

    Examples
    --------
    >>> walsh(4).astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, -1, 1], [1, -1, 1, -1]]
    """
    masks = np.array([sequency(order, side.bit_length() - 1) for order in range(side)])
    return as_floats(hadamard(side)[masks])


@cache
def hadamard(side: int) -> Floats:
    """Return the Hadamard matrix, (-1)^popcount(a & b)."""
    index = np.arange(side)
    return as_floats(1.0 - 2 * odd_overlap(index[:, None], index[None, :]))
