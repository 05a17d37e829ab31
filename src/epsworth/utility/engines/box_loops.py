"""The loop of `descent` over boxes, one after the other, which numba compiles; the same steps as in NumPy.

Boxes wait on a stack with their lists of leaves.  A table that holds a near tie is left to NumPy.
"""

from __future__ import annotations

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
