"""The picture of a decision map: labels around a record, where a mechanism sends it; readable without colour.

One feature gives a strip, two a square.  Cells of one label are drawn as one path of rectangles; regions where the
label is another one carry marks, a kind for each label.  The script moves two things: the profile of the mechanism's
mass along each axis, and the ranges that hold half of what is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.reports.drawn import short, ticks
from epsworth.reports.escaping import escaped
from epsworth.utility.surroundings import MASS_UNIT, DecisionMap

LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"
PLOT = 300  # width and height of a square; a strip is twice as wide
STRIP = 46  # height of a strip
LEFT, TOP, BOTTOM = 62, 62, 46
PROFILE = 48  # height of a profile of masses, beside an axis
MOST_LETTERS = 8_000  # of a picture's regions; coarser cells are drawn where they would take more
MARKS = ("m-2 2l4-4", "h.1", "m-2 0h4m-2-2v4", "m-2-2l4 4", "v3", "h3")  # one for each label that is another one
WIDTH_OF_LETTER = 8
MARK_STEP = 12.5  # between two marks
NAME = 16  # letters of a label within the picture
HALF = {1: MASS_UNIT // 2, 2: 70_711}  # mass of a range of each feature, so that all together hold a half


@dataclass(frozen=True)
class Layout:
    """Where things lie within the picture."""

    wide: int
    tall: int
    both: bool

    @classmethod
    def of(cls, drawn: DecisionMap) -> Layout:
        """Return a square for two features, a strip for one."""
        both = len(drawn.features) == 2
        return cls(PLOT, PLOT, both) if both else cls(2 * PLOT, STRIP, both)

    @property
    def box(self) -> tuple[int, int]:
        """Width and height of the whole picture."""
        return LEFT + self.wide + (PROFILE + 14 if self.both else 20), TOP + self.tall + BOTTOM

    def to_dict(self) -> dict[str, Any]:
        """Return what the script needs."""
        names = {"left": LEFT, "top": TOP, "wide": self.wide, "tall": self.tall, "profile": PROFILE - 6}
        return names | {"half": list(HALF)[self.both]}


def levels(masses: NDArray[np.int64]) -> str:
    """Return a letter for the height of each cell in a profile, the highest being the last letter.

    Examples
    --------
    >>> levels(np.array([0, 5, 10]))
    '0hz'
    """
    most = max(1, int(masses.max(initial=0)))
    return "".join(LEVELS[int(35 * mass) // most] for mass in masses.tolist())


def half_range(masses: NDArray[np.int64], need: int) -> tuple[int, int] | None:
    """Return the fewest cells in a row that hold so much, first and last; None where not all of them do.

    Examples
    --------
    >>> half_range(np.array([1, 6, 2, 1]), 8), half_range(np.array([1, 1]), 3)
    ((1, 2), None)
    """
    sums = [0, *np.cumsum(masses).tolist()]
    best, last = None, 0
    for first in range(len(masses)):
        while last < len(masses) and sums[last] - sums[first] < need:
            last += 1
        if sums[last] - sums[first] < need:
            break
        if best is None or last - first < best[1] - best[0]:
            best = first, last
    return None if best is None else (best[0], best[1] - 1)


def profile(level: str, layout: Layout, upright: bool) -> str:
    """Return the path of a profile: above the plot, or on its right.  The script draws the same."""
    size, parts, tall = len(level), [], PROFILE - 6
    for i, letter in enumerate(level):
        at = tall * LEVELS.index(letter) / 35
        if upright:
            y = TOP + layout.tall - layout.tall * i / size
            parts.append(f"L{short(LEFT + layout.wide + 3 + at)} {short(y)}V{short(y - layout.tall / size)}")
        else:
            x = LEFT + layout.wide * i / size
            parts.append(f"L{short(x)} {short(TOP - 3 - at)}H{short(x + layout.wide / size)}")
    first = (LEFT + layout.wide + 3, TOP + layout.tall) if upright else (LEFT, TOP - 3)
    end = f"H{LEFT + layout.wide + 3}" if upright else f"V{TOP - 3}"
    return f"M{first[0]} {first[1]}{''.join(parts)}{end}z"


def frame(ranges: Sequence[tuple[int, int] | None], sizes: int, layout: Layout) -> tuple[float, float, float, float]:
    """Return left, top, width and height of the rectangle that holds half of what is sent; 0 where there is none."""
    if any(one is None for one in ranges):
        return 0.0, 0.0, 0.0, 0.0
    (a, b), *more = [one for one in ranges if one is not None]
    x, wide = LEFT + layout.wide * a / sizes, layout.wide * (b + 1 - a) / sizes
    if not more:
        return x, TOP, wide, layout.tall
    c, d = more[0]
    return x, TOP + layout.tall * (1 - (d + 1) / sizes), wide, layout.tall * (d + 1 - c) / sizes


def picture(drawn: DecisionMap, told: str) -> str:
    """Return the whole picture; what moves is empty until it is filled in."""
    layout = Layout.of(drawn)
    cells = drawn.cells if layout.both else drawn.cells[:, np.newaxis]
    order = [drawn.label, *(i for i in range(len(drawn.labels)) if i != drawn.label)]
    paths = _regions(cells, order, layout)
    while sum(map(len, paths)) > MOST_LETTERS and min(cells.shape) >= 8:
        cells = cells[1::2, 1::2] if layout.both else cells[1::2]
        paths = _regions(cells, order, layout)
    parts = [f'<path class="area a{min(k, 6)}" d="{path}"/>' for k, path in enumerate(paths) if path]
    parts += [f'<path class="marks a{min(k, 6)}" d="{_marks(cells == number, k, layout)}"/>'
              for k, number in enumerate(order) if k and (cells == number).any()]  # fmt: skip
    parts.append(_axes(drawn, layout))
    parts += ['<rect class="half" id="half" width="0" height="0"/>', '<path class="profile" id="profile-0" d=""/>']
    parts += ['<path class="profile" id="profile-1" d=""/>'] if layout.both else []
    parts += _names(drawn, cells, order, layout)
    parts.append(_own(drawn, layout))
    width, height = layout.box
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(told, 600)}">{"".join(parts)}</svg>'


def _regions(cells: NDArray[np.int64], order: Sequence[int], layout: Layout) -> list[str]:
    """Return for each label a path of rectangles: runs along the first feature, equal runs of rows joined."""
    columns, rows = cells.shape
    paths: list[list[str]] = [[] for _ in order]
    place = {number: k for k, number in enumerate(order)}
    open_: dict[tuple[int, int, int], int] = {}
    for row in range(rows + 1):
        runs = set(_runs(cells[:, row])) if row < rows else set()
        for run in sorted(open_.keys() - runs):
            first, last, number = run
            x, right = (LEFT + layout.wide * at / columns for at in (first, last))
            low, high = (TOP + layout.tall * (1 - at / rows) for at in (open_.pop(run), row))
            path = f"M{short(x)} {short(high)}H{short(right)}V{short(low)}H{short(x)}z"
            paths[place[number]].append(path)
        for run in runs - open_.keys():
            open_[run] = row
    return ["".join(path) for path in paths]


def _runs(column: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    ends = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), len(column)]
    return [(first, last, int(column[first])) for first, last in pairwise(ends)]


def _marks(inside: Bools, kind: int, layout: Layout) -> str:
    """Return marks on the cells of a label, so that it is told apart without colour."""
    columns, rows = inside.shape
    found, y = [], MARK_STEP / 2
    while y < layout.tall:
        x = MARK_STEP / 2 * (1 + int(y // MARK_STEP) % 2)
        while x < layout.wide:
            if inside[int(columns * x / layout.wide), int(rows * (1 - y / layout.tall))]:
                found.append(f"M{short(LEFT + x)} {short(TOP + y)}{MARKS[(kind - 1) % len(MARKS)]}")
            x += MARK_STEP
        y += MARK_STEP
    return "".join(found)


def _axes(drawn: DecisionMap, layout: Layout) -> str:
    base, parts = TOP + layout.tall, []
    for value in ticks(float(drawn.edges[0][0]), float(drawn.edges[0][-1]), 6):
        x = short(LEFT + layout.wide * _place(drawn.edges[0], value))
        parts.append(
            f'<path class="tick" d="M{x} {base}v4"/><text class="mid" x="{x}" y="{base + 18}">{value:g}</text>'
        )
    middle = LEFT + layout.wide // 2
    name = escaped(drawn.features[0], 40)
    parts.append(f'<text class="mid axis-name" x="{middle}" y="{base + 36}">{name}</text>')
    if layout.both:
        for value in ticks(float(drawn.edges[1][0]), float(drawn.edges[1][-1]), 6):
            y = short(TOP + layout.tall * (1 - _place(drawn.edges[1], value)))
            parts.append(f'<path class="tick" d="M{LEFT} {y}h-4"/><text class="end" x="{LEFT - 7}" y="{y}" dy=".32em">{value:g}</text>')  # fmt: skip # noqa: E501
        name = escaped(drawn.features[1], 40)
        parts.append(f'<text class="mid axis-name" transform="translate(14 {TOP + layout.tall // 2}) rotate(-90)">{name}</text>')  # fmt: skip # noqa: E501
    parts.append(f'<path class="outline" d="M{LEFT} {TOP}h{layout.wide}v{layout.tall}h{-layout.wide}z"/>')
    return "".join(parts)


def _place(edges: Floats, value: float) -> float:
    return float((value - edges[0]) / (edges[-1] - edges[0]))


def _names(drawn: DecisionMap, cells: NDArray[np.int64], order: Sequence[int], layout: Layout) -> list[str]:
    """Return the labels' names, each where its region is thickest and has room for it."""
    found, (columns, rows) = [], cells.shape
    for number in order:
        room = min(NAME, len(drawn.labels[number])) * WIDTH_OF_LETTER * columns / layout.wide / 2
        at = _deepest(cells == number, max(2, math.ceil(room)))
        if at is not None:
            x, y = LEFT + layout.wide * (at[0] + 0.5) / columns, TOP + layout.tall * (1 - (at[1] + 0.5) / rows)
            name = escaped(drawn.labels[number], NAME)
            found.append(f'<text class="mid halo named" x="{short(x)}" y="{short(y)}" dy=".32em">{name}</text>')
    return found


def _deepest(inside: Bools, least: int) -> tuple[int, int] | None:
    """Return the cell that lies farthest from where the region ends; None where that is too near."""
    depth, left = np.zeros(inside.shape, dtype=int), np.pad(inside, 1, constant_values=False)
    if inside.shape[1] == 1:
        left = np.repeat(np.pad(inside[:, 0], 1)[:, np.newaxis], 3, axis=1)
    while left.any():
        depth += left[1:-1, 1:-1]
        smaller = left.copy()
        smaller[1:] &= left[:-1]
        smaller[:-1] &= left[1:]
        if inside.shape[1] > 1:
            smaller[:, 1:] &= left[:, :-1]
            smaller[:, :-1] &= left[:, 1:]
        smaller[0] = smaller[-1] = False
        left = smaller
    at = np.unravel_index(int(depth.argmax()), depth.shape)
    return (int(at[0]), int(at[1])) if depth[at] >= least else None


def _own(drawn: DecisionMap, layout: Layout) -> str:
    """Return the mark of the record itself."""
    x = LEFT + layout.wide * _place(drawn.edges[0], drawn.own[0])
    y = TOP + layout.tall * (1 - _place(drawn.edges[1], drawn.own[1])) if layout.both else TOP + layout.tall / 2
    return (
        f'<g class="own" transform="translate({short(x)} {short(y)})"><circle r="7"/><path d="M-11 0h22M0-11v22"/></g>'
    )


def swatch(kind: int) -> str:
    """Return how the cells of a label are drawn: its own first, then the others."""
    marks = "".join(f"M{x} 6{MARKS[(kind - 1) % len(MARKS)]}" for x in (5, 13, 21)) if kind else ""
    return (
        f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true"><rect class="area a{min(kind, 6)}" width="26" '
        f'height="12"/><path class="marks a{min(kind, 6)}" d="{marks}"/></svg>'
    )
