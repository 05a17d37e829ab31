"""Loops over leaves, rows and boxes that numba compiles; plain Python, which is slow, without it.

NumPy does the same without numba: `sweep` to the same integers, `tree_boxes` to the same boxes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.utility.engines.box_loops import descended

WORTH_LOADING = 2_000_000  # records times nodes from which on loading compiled loops (half a second) pays

Ints = NDArray[np.int64]


def reached(
    roots: Ints, left: Ints, right: Ints, axis: Ints, place: Ints, turns: NDArray[np.bool_], ends: Ints, leaves: int,
    deepest: int,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Return the nodes and boxes (ends included) of the leaves that can be reached, tree by tree, depth first.

    Parameters
    ----------
    axis : ndarray of int
        Of every node; -1 where `turns` says which way.
    ends : ndarray of int, shape ``(axes,)``
        The last cell of every axis.
    leaves, deepest : int
        How many leaves there are, and how many splits on a path, at most.
    """
    axes = ends.size
    node = np.empty(leaves, dtype=np.int64)
    low = np.empty((axes, leaves), dtype=np.int64)
    high = np.empty((axes, leaves), dtype=np.int64)
    waiting = np.empty(deepest + 1, dtype=np.int64)
    waiting_low = np.empty((deepest + 1, axes), dtype=np.int64)
    waiting_high = np.empty((deepest + 1, axes), dtype=np.int64)
    a = np.empty(axes, dtype=np.int64)
    b = np.empty(axes, dtype=np.int64)
    count = 0
    for root in roots:
        waiting[0] = root
        for j in range(axes):
            waiting_low[0, j] = 0
            waiting_high[0, j] = ends[j]
        open_ = 1
        while open_ > 0:
            open_ -= 1
            v = waiting[open_]
            for j in range(axes):
                a[j] = waiting_low[open_, j]
                b[j] = waiting_high[open_, j]
            while left[v] >= 0:
                x = axis[v]
                if x < 0:
                    v = left[v] if turns[v] else right[v]
                elif b[x] <= place[v]:
                    v = left[v]
                elif a[x] > place[v]:
                    v = right[v]
                else:
                    waiting[open_] = right[v]
                    for j in range(axes):
                        waiting_low[open_, j] = a[j]
                        waiting_high[open_, j] = b[j]
                    waiting_low[open_, x] = place[v] + 1
                    open_ += 1
                    b[x] = place[v]
                    v = left[v]
            node[count] = v
            for j in range(axes):
                low[j, count] = a[j]
                high[j, count] = b[j]
            count += 1
    return node[:count].copy(), low[:, :count].copy(), high[:, :count].copy()


def by_row(low: Ints, high: Ints, rows: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the leaves in the order of their first rows, and of the rows after their last, and where each row's begin.

    Parameters
    ----------
    low, high : ndarray of int, shape ``(leaves,)``
    """
    leaves = low.size
    begin = np.zeros(rows + 2, dtype=np.int64)
    end = np.zeros(rows + 2, dtype=np.int64)
    for i in range(leaves):
        begin[low[i] + 1] += 1
        end[high[i] + 2] += 1
    for r in range(rows + 1):
        begin[r + 1] += begin[r]
        end[r + 1] += end[r]
    next_begin, next_end = begin.copy(), end.copy()
    beginning = np.empty(leaves, dtype=np.int64)
    ending = np.empty(leaves, dtype=np.int64)
    for i in range(leaves):
        beginning[next_begin[low[i]]] = i
        next_begin[low[i]] += 1
        ending[next_end[high[i] + 1]] = i
        next_end[high[i] + 1] += 1
    return beginning, begin, ending, end


def changes_of_two(
    low: Ints, high: Ints, added: Ints, score: Ints, near: int, rows: int, most: int,
    beginning: Ints, begin: Ints, ending: Ints, end: Ints,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16], NDArray[np.int16]]:  # fmt: skip
    """Return the changes (see `changes`) between two classes, which one score tells apart.

    From row to row the score moves by the same on each stretch of columns between edges of leaves that begin or end
    there; stretches where it does not move, or no state does, cost next to nothing.

    Parameters
    ----------
    low, high : ndarray of int, shape ``(leaves,)``
        Of columns, ends included.
    added : ndarray of int, shape ``(leaves,)``
    score : ndarray of int, shape ``(columns,)``
        Before the first row; overwritten.
    """
    columns = score.size
    state = np.zeros(columns, dtype=np.int16)
    step = np.zeros(columns + 1, dtype=np.int64)
    cuts = np.empty(columns + 1, dtype=np.int64)
    room = 4 * columns + 1024
    at_row = np.empty(room, dtype=np.int32)
    at_column = np.empty(room, dtype=np.int32)
    was = np.empty(room, dtype=np.int16)
    now = np.empty(room, dtype=np.int16)
    count = 0
    for r in range(rows):
        many = 0
        listed = 2 * (begin[r + 1] - begin[r] + end[r + 1] - end[r])
        if listed == 0 and r > 0:
            continue
        if count > most:
            break
        for side in range(2):
            which, bounds, sign = (beginning, begin, 1) if side == 0 else (ending, end, -1)
            for q in range(bounds[r], bounds[r + 1]):
                i = which[q]
                step[low[i]] += sign * added[i]
                step[high[i] + 1] -= sign * added[i]
                if listed <= columns and r > 0:
                    cuts[many], cuts[many + 1] = low[i], high[i] + 1
                    many += 2
        if listed <= columns and r > 0:
            cuts[:many].sort()
        else:
            first, last = (columns, 0) if r > 0 else (0, columns)
            for side in range(2):
                which, bounds = (beginning, begin) if side == 0 else (ending, end)
                for q in range(bounds[r], bounds[r + 1]):
                    first, last = min(first, low[which[q]]), max(last, high[which[q]] + 1)
            many = last + 1 - first
            for c in range(many):
                cuts[c] = first + c
        if count + columns > room:
            more = room
            room *= 2
            at_row = np.concatenate((at_row, np.empty(more, dtype=np.int32)))
            at_column = np.concatenate((at_column, np.empty(more, dtype=np.int32)))
            was = np.concatenate((was, np.empty(more, dtype=np.int16)))
            now = np.concatenate((now, np.empty(more, dtype=np.int16)))
        moved = np.int64(0)
        for q in range(many - 1):
            a, b = cuts[q], cuts[q + 1]
            if a == b:
                continue
            moved += step[a]
            step[a] = 0
            if moved == 0 and near < 0 and r > 0:
                continue
            own = score[a:b]
            width = b - a
            above, tied = 0, 0
            for c in range(width):
                above += own[c] > 0
            if near >= 0:
                for c in range(width):
                    tied += abs(own[c]) <= near
            for c in range(width):
                own[c] += moved
            for c in range(width):
                above -= own[c] > 0
            if near >= 0:
                for c in range(width):
                    tied += abs(own[c]) <= near
            if above == 0 and tied == 0 and r > 0:  # all of a stretch move one way
                continue
            for c in range(width):
                value = own[c]
                best = int(value > 0)
                if abs(value) <= near:
                    best = -1
                if best != state[a + c] or best == -1:
                    at_row[count] = r
                    at_column[count] = a + c
                    was[count] = state[a + c]
                    now[count] = best
                    state[a + c] = best
                    count += 1
        step[cuts[many - 1]] = 0
    return at_row[:count].copy(), at_column[:count].copy(), was[:count].copy(), now[:count].copy()


def changes(
    low: Ints, high: Ints, added: Ints, offset: Ints, near: int, rows: int, columns: int, most: int,
    beginning: Ints, begin: Ints, ending: Ints, end: Ints,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16], NDArray[np.int16]]:  # fmt: skip
    """Return row, column, state before and after of every change, by rows; a few more than ``most`` end it.

    Parameters
    ----------
    low, high : ndarray of int, shape ``(leaves,)``
        Of columns, ends included.
    added, offset : ndarray of int, shapes ``(leaves, scores)`` and ``(scores,)``
    near : int
        Leads up to this are near ties, state -1.
    beginning, begin, ending, end : ndarray of int
        As `by_row` returns them.
    """
    scores = offset.size
    score = np.empty((scores, columns), dtype=np.int64)
    for k in range(scores):
        score[k] = offset[k]
    state = np.zeros(columns, dtype=np.int16)
    step = np.zeros((scores, columns + 1), dtype=np.int64)
    flags = np.zeros(columns, dtype=np.bool_)
    room = 4 * columns + 1024
    at_row = np.empty(room, dtype=np.int32)
    at_column = np.empty(room, dtype=np.int32)
    was = np.empty(room, dtype=np.int16)
    now = np.empty(room, dtype=np.int16)
    count = 0
    for r in range(rows):
        first, last = columns, -1
        for side in range(2):
            which, bounds, sign = (beginning, begin, 1) if side == 0 else (ending, end, -1)
            for q in range(bounds[r], bounds[r + 1]):
                i = which[q]
                for k in range(scores):
                    step[k, low[i]] += sign * added[i, k]
                    step[k, high[i] + 1] -= sign * added[i, k]
                first = min(first, low[i])
                last = max(last, high[i])
        if last < 0:
            continue
        if count > most:
            break
        if count + columns > room:  # here, not where they are listed, which would cost twice the time
            more = room
            room *= 2
            at_row = np.concatenate((at_row, np.empty(more, dtype=np.int32)))
            at_column = np.concatenate((at_column, np.empty(more, dtype=np.int32)))
            was = np.concatenate((was, np.empty(more, dtype=np.int16)))
            now = np.concatenate((now, np.empty(more, dtype=np.int16)))
        width = last + 1 - first
        for k in range(scores):
            own, steps = score[k, first : last + 1], step[k, first : last + 1]
            running = np.int64(0)
            for c in range(width):
                running += steps[c]
                own[c] += running
                steps[c] = running
        states = state[first : last + 1]
        for c in range(width):
            flags[c] = (r == 0) | (states[c] == -1)
        for k in range(scores):
            steps = step[k, first : last + 1]
            for c in range(width):
                flags[c] |= steps[c] != 0
        step[:, first : last + 2] = 0
        for place in range(width):
            if not flags[place]:
                continue
            c = first + place
            best = 0
            for k in range(1, scores):
                if score[k, c] > score[best, c]:
                    best = k
            lead = np.int64(1) << 62
            for k in range(scores):
                if k != best:
                    lead = min(lead, score[best, c] - score[k, c])
            if lead <= near:
                best = -1
            if best != state[c] or best == -1:
                at_row[count] = r
                at_column[count] = c
                was[count] = state[c]
                now[count] = best
                state[c] = best
                count += 1
    return at_row[:count].copy(), at_column[:count].copy(), was[:count].copy(), now[:count].copy()


class Compiled(NamedTuple):
    """Compiled loops; ``descended`` is that of `box_loops`."""

    reached: Callable[..., Any]
    by_row: Callable[..., Any]
    changes_of_two: Callable[..., Any]
    changes: Callable[..., Any]
    descended: Callable[..., Any]


PLAIN = Compiled(reached, by_row, changes_of_two, changes, descended)


@lru_cache(maxsize=1)
def compiled() -> Compiled | None:
    """Return the loops, compiled (once for all processes, in a cache); None without numba."""
    try:
        from numba import njit
    except ImportError:  # also of a numba that is too old for this NumPy
        return None
    return Compiled(*map(njit(cache=True, nogil=True), PLAIN))


def worth_compiling(records: int, nodes: int) -> bool:
    """Tell whether compiled loops are there, and pay for being loaded."""
    return ("numba" in sys.modules or records * nodes >= WORTH_LOADING) and compiled() is not None
