"""Loops over leaves, rows and boxes that numba compiles; plain Python, which is slow, without it.

NumPy does the same without numba: `trees` to the same integers, `tree_boxes` to the same boxes.  Boxes wait on a stack
with their lists of leaves; a table that holds a near tie is left to NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats

Cells = NDArray[np.int32]

NEIGHBOURS = 64  # boxes in a row whose leaves are looked for together
DEPTH = 1_024  # boxes on the stack; what has no room is left


def descended(
    tree: Cells, low: Cells, high: Cells, values: Floats, offset: Floats, slack: float, below: Floats,
    start_low: Cells, start_high: Cells, light: float, enough: float, most: int, work: int, agrees: Floats,
    differs: Floats, left_low: Cells, left_high: Cells, tied_low: Cells, tied_high: Cells,
) -> NDArray[np.int64]:  # fmt: skip
    """Go down boxes, until those of at most ``light`` mass are left, or enough is decided, or the work is done.

    Parameters
    ----------
    below : ndarray, shape ``(sensitive, edges, points)``
        Padded.
    most : int
        Cells of a table.
    agrees, differs, left_low, .. : ndarray
        Written.

    Returns
    -------
    ndarray of int
        Boxes begun, looked at, left, with ties; sides of the longest table; work; whether some label may be lost.
    """
    s, n = low.shape
    rivals, points, edges = values.shape[0], below.shape[2], below.shape[1]
    room = 64 * n + 1
    leaf, spare = np.empty(room, dtype=np.int32), np.empty(n, dtype=np.int32)
    begin, count = np.empty(DEPTH, dtype=np.int64), np.empty(DEPTH, dtype=np.int64)
    box_low, box_high = np.empty((DEPTH, s), dtype=np.int64), np.empty((DEPTH, s), dtype=np.int64)
    constant = np.empty((DEPTH, rivals))
    weight, local = np.zeros((s, edges)), np.zeros((s, edges), dtype=np.int64)
    place, cells, stride = (
        np.empty((s, most + 1), dtype=np.int64),
        np.empty(s, dtype=np.int64),
        np.empty(s, dtype=np.int64),
    )
    table, keeps = np.empty(most), np.empty(most, dtype=np.bool_)
    sums, mass, heavy = np.empty((most, points)), np.empty(points), np.empty(s)
    least, largest, lower, upper = np.empty(rivals), np.empty(rivals), np.empty(rivals), np.empty(rivals)
    close, bound_low, bound_high, share = (
        np.empty(n, dtype=np.int32),
        np.empty(s, dtype=np.int64),
        np.empty(s, dtype=np.int64),
        np.empty(n),
    )
    near_by = 0
    begun, looked, left, tied, sides, done, lost = 0, 0, 0, 0, 0, 0, 0
    stop = False
    while (
        begun < start_low.shape[0]
        and not stop
        and left + DEPTH < left_low.shape[0]
        and tied + DEPTH < tied_low.shape[0]
    ):
        begin[0], entries = 0, 0
        for j in range(s):
            box_low[0, j], box_high[0, j] = start_low[begun, j], start_high[begun, j]
        if (begun % NEIGHBOURS) == 0:  # neighbours meet few leaves together
            some = min(begun + NEIGHBOURS, start_low.shape[0])
            near_by = 0
            for j in range(s):
                bound_low[j], bound_high[j] = start_low[begun, j], start_high[begun, j]
                for q in range(begun + 1, some):
                    bound_low[j] = min(bound_low[j], start_low[q, j])
                    bound_high[j] = max(bound_high[j], start_high[q, j])
            for i in range(n):
                meets = True
                for j in range(s):
                    if low[j, i] > bound_high[j] or high[j, i] < bound_low[j]:
                        meets = False
                        break
                if meets:
                    close[near_by] = i
                    near_by += 1
        for q in range(near_by):
            i, meets = close[q], True
            for j in range(s):
                if low[j, i] > box_high[0, j] or high[j, i] < box_low[0, j]:
                    meets = False
                    break
            if meets:
                leaf[entries] = i
                entries += 1
        count[0], open_ = entries, 1
        for r in range(rivals):
            constant[0, r] = offset[r]
        begun += 1
        while open_ > 0:
            open_ -= 1
            looked += 1
            done += count[open_]
            first, behind = begin[open_], begin[open_] + count[open_]
            largest_mass = 0.0
            for p in range(points):
                mass[p] = 1.0
                for j in range(s):
                    mass[p] *= below[j, box_high[open_, j] + 1, p] - below[j, box_low[open_, j], p]
                largest_mass = max(largest_mass, mass[p])
            # trees with one value become constants; the others' leaves move up
            for r in range(rivals):
                lower[r] = upper[r] = 0.0
            i, kept = first, first
            while i < behind:
                end, spread = i + 1, 0.0
                while end < behind and tree[leaf[end]] == tree[leaf[i]]:
                    end += 1
                for r in range(rivals):
                    a = b = values[r, leaf[i]]
                    for q in range(i + 1, end):
                        v = values[r, leaf[q]]
                        a, b = min(a, v), max(b, v)
                    least[r], largest[r] = a, b
                    spread += b - a
                for r in range(rivals):
                    if spread > 0:
                        lower[r] += least[r]
                        upper[r] += largest[r]
                    else:
                        constant[open_, r] += least[r]
                if spread > 0:
                    for q in range(i, end):
                        leaf[kept], share[kept - first] = leaf[q], spread / (end - i)
                        kept += 1
                i = end
            behind = kept
            sure, never = True, False
            for r in range(rivals):
                sure = sure and constant[open_, r] + lower[r] > slack
                never = never or constant[open_, r] + upper[r] < -slack
            if sure:
                for p in range(points):
                    agrees[p] += mass[p]
                continue
            if never:
                lost = 1
                for p in range(points):
                    differs[p] += mass[p]
                continue
            if largest_mass <= 0:
                lost = 1
                continue
            if looked % 64 == 0:
                undecided = 0.0
                for p in range(points):
                    undecided = max(undecided, 1 - agrees[p] - differs[p])
                stop = stop or undecided <= enough
            stop = stop or done >= work
            full = open_ + 2 >= DEPTH or 2 * behind - first >= room or left + open_ + 2 >= left_low.shape[0]
            if largest_mass <= light or stop or full or tied + 1 >= tied_low.shape[0]:
                for j in range(s):
                    left_low[left, j], left_high[left, j] = box_low[open_, j], box_high[open_, j]
                left += 1
                continue
            # the edges at which leaves end, weighted by the range of their trees
            for j in range(s):
                heavy[j], cells[j] = 0.0, 1
            for q in range(first, behind):
                for j in range(s):
                    e = high[j, leaf[q]]
                    if e < box_high[open_, j]:
                        if weight[j, e] == 0:
                            cells[j] += 1
                        weight[j, e] += share[q - first]
                        heavy[j] += share[q - first]
            axis, total = 0, 1.0
            for j in range(s):
                total *= cells[j]
                if heavy[j] > heavy[axis]:
                    axis = j
            if total > most:
                summed, cut = 0.0, box_low[open_, axis]
                for e in range(box_low[open_, axis], box_high[open_, axis]):
                    summed += weight[axis, e]
                    cut = e
                    if 2 * summed >= heavy[axis]:
                        break
                for j in range(s):
                    for e in range(box_low[open_, j], box_high[open_, j]):
                        weight[j, e] = 0.0
                mine, other = first, 0
                for q in range(first, behind):
                    i = leaf[q]
                    if high[axis, i] > cut:
                        spare[other] = i
                        other += 1
                    if low[axis, i] <= cut:
                        leaf[mine] = i
                        mine += 1
                for q in range(other):
                    leaf[mine + q] = spare[q]
                for j in range(s):
                    box_low[open_ + 1, j], box_high[open_ + 1, j] = box_low[open_, j], box_high[open_, j]
                for r in range(rivals):
                    constant[open_ + 1, r] = constant[open_, r]
                box_high[open_, axis], box_low[open_ + 1, axis] = cut, cut + 1
                count[open_], begin[open_ + 1], count[open_ + 1] = mine - first, mine, other
                open_ += 2
                continue
            # a table: local cells, signed corners, sums along all axes
            size, longest = 1, 0
            for j in range(s - 1, -1, -1):
                stride[j], size, longest = size, size * cells[j], longest + cells[j]
                at = 0
                place[j, 0] = box_low[open_, j]
                local[j, box_low[open_, j]] = 0
                for e in range(box_low[open_, j], box_high[open_, j]):
                    if weight[j, e] > 0:
                        at += 1
                        place[j, at] = e + 1
                    weight[j, e] = 0.0
                    local[j, e + 1] = at
                place[j, at + 1] = box_high[open_, j] + 1
            done += size
            for q in range(size):
                keeps[q] = True
            near = False
            for r in range(rivals):
                for q in range(size):
                    table[q] = 0.0
                for q in range(first, behind):
                    i = leaf[q]
                    for corner in range(1 << s):
                        at, sign, inside = 0, values[r, i], True
                        for j in range(s):
                            if corner >> j & 1:
                                if high[j, i] >= box_high[open_, j]:
                                    inside = False
                                    break
                                at += local[j, high[j, i] + 1] * stride[j]
                                sign = -sign
                            elif low[j, i] > box_low[open_, j]:
                                at += local[j, low[j, i]] * stride[j]
                        if inside:
                            table[at] += sign
                for j in range(s):
                    step, block = stride[j], stride[j] * cells[j]
                    for start in range(0, size, block):
                        for q in range(start + step, start + block):
                            table[q] += table[q - step]
                for q in range(size):
                    v = table[q] + constant[open_, r]
                    keeps[q] = keeps[q] and v > slack
                    near = near or (v <= slack and v >= -slack)
            if near:
                for j in range(s):
                    tied_low[tied, j], tied_high[tied, j] = box_low[open_, j], box_high[open_, j]
                tied += 1
                continue
            # runs of cells along the last axis, then one axis after the other
            sides, last = max(sides, longest), s - 1
            rows = size // cells[last]
            for row in range(rows):
                for p in range(points):
                    sums[row, p] = 0.0
                q = 0
                while q < cells[last]:
                    if not keeps[row * cells[last] + q]:
                        q, lost = q + 1, 1
                        continue
                    start = q
                    while q < cells[last] and keeps[row * cells[last] + q]:
                        q += 1
                    for p in range(points):
                        sums[row, p] += below[last, place[last, q], p] - below[last, place[last, start], p]
            for j in range(s - 2, -1, -1):
                rows //= cells[j]
                for row in range(rows):
                    for q in range(cells[j]):
                        for p in range(points):
                            side = below[j, place[j, q + 1], p] - below[j, place[j, q], p]
                            part = sums[row * cells[j] + q, p] * side
                            sums[row, p] = part if q == 0 else sums[row, p] + part
            for p in range(points):
                agrees[p] += sums[0, p]
                differs[p] += max(0.0, mass[p] - sums[0, p])
    return np.array([begun, looked, left, tied, sides, done, lost])


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
