"""Maps over one or two features: labels around a record, and what was learnt cell by cell; readable without colour.

Cells of one look are drawn as one path of runs along the first feature. Other labels carry marks, and cells whose label
is not certified are pale and hatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsworth.report.charts import short, svg_of, ticks
from epsworth.report.escaping import escaped, markup, name
from epsworth.utility.surroundings import DecisionMap

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_LETTERS = 8_000  # of a picture's cells; coarser ones are drawn where they would take more
MARKS = ("m-2 2l4-4", "h.1", "m-2 0h4m-2-2v4", "m-2-2l4 4", "v3", "h3")  # one for each label that is another one
MARK_STEP = 12.5  # between two marks
MOST_CLASSES = 6
FILLED, HOLLOW, UNSURE, OTHER = range(4)  # how a learnt cell is drawn


@dataclass(frozen=True)
class Plot:
    """Where a map lies within its picture, and what its axes span."""

    names: Sequence[str]
    box: Sequence[tuple[float, float]]
    left: int
    top: int
    wide: int
    tall: int

    @property
    def base(self) -> int:
        """Where the lower axis lies."""
        return self.top + self.tall

    def x(self, share: float) -> float:
        """Return where a share of the first feature's range lies."""
        return self.left + self.wide * share

    def y(self, share: float) -> float:
        """Return where a share of the second feature's range lies."""
        return self.top + self.tall * (1 - share)

    def svg(self, what: str, parts: Sequence[str]) -> Markup:
        """Return the picture of what lies within, with its axes."""
        frame = f'<path class="outline" d="M{self.left} {self.top}h{self.wide}v{self.tall}h{-self.wide}z"/>'
        return svg_of(self.left + self.wide + 16, self.base + 46, what, [*parts, frame, self._axes()])

    def _axes(self) -> str:
        (low, high), parts = self.box[0], []
        for value in ticks(low, high, 6):
            x = short(self.x((value - low) / (high - low)))
            parts.append(f'<path class="tick" d="M{x} {self.base}v4"/>')
            parts.append(f'<text class="mid" x="{x}" y="{self.base + 18}">{value:g}</text>')
        middle = self.left + self.wide // 2
        parts.append(
            f'<text class="mid axis-name" x="{middle}" y="{self.base + 36}">{escaped(self.names[0], 40)}</text>'
        )
        if len(self.names) > 1:
            low, high = self.box[1]
            for value in ticks(low, high, 6):
                y = short(self.y((value - low) / (high - low)))
                parts.append(f'<path class="tick" d="M{self.left} {y}h-4"/>')
                parts.append(f'<text class="end" x="{self.left - 7}" y="{y}" dy=".32em">{value:g}</text>')
            turned = f"translate(14 {self.top + self.tall // 2}) rotate(-90)"
            parts.append(f'<text class="mid axis-name" transform="{turned}">{escaped(self.names[1], 40)}</text>')
        return "".join(parts)

    def runs(self, looks: NDArray[np.int64]) -> dict[int, str]:
        """Return a path for each look of cells, which are numbered by column and row."""
        columns, rows = looks.shape
        paths: dict[int, list[str]] = {}
        for row in range(rows):
            first = 0
            for look, cells in groupby(looks[:, row].tolist()):
                last = first + len(list(cells))
                x, right, y, low = (
                    self.x(first / columns),
                    self.x(last / columns),
                    self.y((row + 1) / rows),
                    self.y(row / rows),
                )
                paths.setdefault(look, []).append(f"M{short(x)} {short(y)}H{short(right)}V{short(low)}H{short(x)}z")
                first = last
        return {look: "".join(paths[look]) for look in sorted(paths)}


# ---- labels around one record


def picture(drawn: DecisionMap, what: str) -> Markup:
    """Return labels around a record: a square for two features, a strip for one."""
    both, order = len(drawn.features) == 2, label_order(drawn)
    box = [(float(edges[0]), float(edges[-1])) for edges in drawn.edges]
    plot = Plot(drawn.features, box, 62, 12, *((300, 300) if both else (600, 46)))
    looks = np.array([order.index(i) for i in range(len(order))])[drawn.cells]
    looks = looks if both else looks[:, np.newaxis]
    paths, step = plot.runs(looks), 1
    while sum(map(len, paths.values())) > MOST_LETTERS and looks.shape[0] >= 8 * step:
        step *= 2
        coarse = slice(step // 2, None, step)
        paths = plot.runs(looks[coarse, coarse] if both else looks[coarse])
    parts = [f'<path class="area a{min(k, 6)}" d="{path}"/>' for k, path in paths.items()]
    parts += [f'<path class="marks a{min(k, 6)}" d="{_marks(looks == k, k, plot)}"/>' for k in paths if k]
    own = [(v - low) / (high - low) for v, (low, high) in zip(drawn.own, box, strict=True)]
    place = f"{short(plot.x(own[0]))} {short(plot.y(own[1] if both else 0.5))}"
    parts.append(f'<g class="own" transform="translate({place})"><circle r="7"/><path d="M-11 0h22M0-11v22"/></g>')
    return markup(f'<div class="map-picture">{plot.svg(what, parts)}</div>')


def label_order(drawn: DecisionMap) -> list[int]:
    """Return the numbers of labels, the record's own first."""
    return [drawn.label, *(i for i in range(len(drawn.labels)) if i != drawn.label)]


def swatch(kind: int) -> Markup:
    """Return how the cells of a label are drawn: its own first, then the others."""
    marks = "".join(f"M{x} 6{MARKS[(kind - 1) % len(MARKS)]}" for x in (5, 13, 21)) if kind else ""
    return markup(
        f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true"><rect class="area a{min(kind, 6)}" width="26" '
        f'height="12"/><path class="marks a{min(kind, 6)}" d="{marks}"/></svg>'
    )


def _marks(inside: NDArray[np.bool_], kind: int, plot: Plot) -> str:
    """Return marks on the cells of a label, so that it is told apart without colour."""
    columns, rows = inside.shape
    found, y = [], MARK_STEP / 2
    while y < plot.tall:
        x = MARK_STEP / 2 * (1 + int(y // MARK_STEP) % 2)
        while x < plot.wide:
            if inside[int(columns * x / plot.wide), int(rows * (1 - y / plot.tall))]:
                found.append(f"M{short(plot.left + x)} {short(plot.top + y)}{MARKS[(kind - 1) % len(MARKS)]}")
            x += MARK_STEP
        y += MARK_STEP
    return "".join(found)


# ---- what was learnt


def learnt(
    what: str, names: Sequence[str], box: Sequence[tuple[float, float]], side: int, labels: Sequence[int],
    kinds: Sequence[int],
) -> Markup:  # fmt: skip
    """Return cells in a grid, row-major over the features, filled where their label is certified."""
    plot = Plot(names, box, 70, 12, 480, 420 if len(names) > 1 else 56)
    shape = (side, side if len(names) > 1 else 1)
    label, kind = np.array(labels).reshape(shape), np.array(kinds).reshape(shape)
    certain = (kind == FILLED) | (kind == HOLLOW)
    many = int(label.max()) + 1
    parts = [
        f'<path class="cell k{look % many % MOST_CLASSES}{"" if look >= many else " pale"}" d="{path}"/>'
        for look, path in plot.runs(label + many * certain).items()
    ]
    strokes: dict[str, list[str]] = {}
    for (column, row), how in np.ndenumerate(kind):
        wide, tall = plot.wide / side, plot.tall / shape[1]
        x, y, own = plot.x(column / side), plot.y((row + 1) / shape[1]), int(label[column, row]) % 4
        if how == HOLLOW:
            hole = f"M{short(x + 0.35 * wide)} {short(y + 0.35 * tall)}h{short(0.3 * wide)}v{short(0.3 * tall)}h-"
            strokes.setdefault("hole", []).append(f"{hole}{short(0.3 * wide)}z")
        elif how == UNSURE:
            strokes.setdefault(f"hatch h{own}", []).append(_stroke(own, x, y, wide, tall))
        elif how == OTHER:
            cross = _stroke(0, x, y, wide, tall) + _stroke(1, x, y, wide, tall)
            strokes.setdefault("hatch h9", []).append(cross)
    parts += [f'<path class="{key}" d="{"".join(strokes[key])}"/>' for key in sorted(strokes)]
    return markup(f'<div class="panel">{plot.svg(what, parts)}</div>')


def _stroke(label: int, x: float, y: float, wide: float, tall: float) -> str:
    """Return a stroke across a cell, by label: rising, falling, upright, level."""
    if label % 4 == 0:
        return f"M{short(x)} {short(y + tall)}l{short(wide)} {short(-tall)}"
    if label % 4 == 1:
        return f"M{short(x)} {short(y)}l{short(wide)} {short(tall)}"
    if label % 4 == 2:
        return f"M{short(x + wide / 2)} {short(y)}v{short(tall)}"
    return f"M{short(x)} {short(y + tall / 2)}h{short(wide)}"


def legend(classes: Sequence[str], kinds: set[int], *, certified: bool) -> list[Markup]:
    """Return what fills and hatches mean."""
    found = []
    for label, one in enumerate(classes[:MOST_CLASSES]):
        fill = f'<path class="cell k{label}{{}}" d="M1 1h18v12h-18z"/>'
        found.append(_sample(fill.format(""), name(one, 40), ", certified" if certified else ""))
        if UNSURE in kinds:
            lines = "".join(_stroke(label, x, 1, 6, 12) for x in (1, 7, 13))
            pale = f'{fill.format(" pale")}<path class="hatch" d="{lines}"/>'
            found.append(_sample(pale, name(one, 40), ", not certified"))
    if HOLLOW in kinds:
        hole = '<path class="cell k0" d="M1 1h18v12h-18z"/><path class="hole" d="M7 4h6v6h-6z"/>'
        found.append(_sample(hole, "with a hole: certified, but with less than 99.9\u00a0%"))
    if OTHER in kinds:
        cross = f'<path class="hatch" d="{_stroke(0, 1, 1, 18, 12)}{_stroke(1, 1, 1, 18, 12)}"/>'
        found.append(_sample(cross, "another label is certified of the cell"))
    return found


def _sample(drawn: str, *words: object) -> Markup:
    svg = markup(f'<svg class="sample" viewBox="0 0 20 14" aria-hidden="true">{drawn}</svg> ')
    return svg + markup("").join(map(escaped, words))
