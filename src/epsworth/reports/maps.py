"""Maps of what was learnt over one or two features: a cell is filled where its label is certified, hatched where not.

Labels differ in lightness, and hatches in direction, so that no colour is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epsworth.reports.drawn import short, ticks
from epsworth.reports.escaping import escaped, isolated

WIDE, TALL, STRIP = 480, 420, 56
LEFT, TOP = 70, 12
MOST_CLASSES = 6
FILLED, HOLLOW, UNSURE, OTHER = range(4)  # how a cell is drawn


@dataclass(frozen=True)
class Map:
    """Cells in a grid, row-major over the features.

    Attributes
    ----------
    names, box : sequences
        Of the one or two features; ``box`` holds their ends.
    labels : sequence of int
        Of each cell.
    kinds : sequence of int
        FILLED, HOLLOW (certified, less surely), UNSURE, OTHER (certified, but another label).
    """

    what: str
    names: Sequence[str]
    box: Sequence[Sequence[float]]
    side: int
    labels: Sequence[int]
    kinds: Sequence[int]

    @property
    def rows(self) -> int:
        """Cells upwards."""
        return self.side if len(self.names) > 1 else 1

    def svg(self) -> str:
        """Return the picture."""
        wide = WIDE / self.side
        tall = (TALL if self.rows > 1 else STRIP) / self.rows
        base = TOP + tall * self.rows
        parts = [self._filled(wide, tall, base), self._hatched(wide, tall, base)]
        parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{short(base)}H{LEFT + WIDE}V{TOP}z"/>')
        low, high = self.box[0]
        for value in ticks(low, high, 7):
            x = short(LEFT + WIDE * (value - low) / (high - low))
            parts.append(f'<path class="tick" d="M{x} {short(base)}v4"/>')
            parts.append(f'<text class="mid" x="{x}" y="{short(base + 18)}">{value:g}</text>')
        middle, name = LEFT + WIDE // 2, escaped(self.names[0], 40)
        parts.append(f'<text class="mid axis-name" x="{middle}" y="{short(base + 38)}">{name}</text>')
        if self.rows > 1:
            low, high = self.box[1]
            for value in ticks(low, high, 7):
                y = short(base - TALL * (value - low) / (high - low))
                parts.append(f'<path class="tick" d="M{LEFT} {y}h-4"/>')
                parts.append(f'<text class="end" x="{LEFT - 8}" y="{y}" dy=".32em">{value:g}</text>')
            parts.append(
                f'<text class="mid axis-name" transform="translate(14 {short(base - TALL / 2)}) rotate(-90)">'
                f"{escaped(self.names[1], 40)}</text>"
            )
        return (
            f'<div class="panel"><svg viewBox="0 0 {LEFT + WIDE + 16} {short(base + 46)}" role="img" '
            f'aria-label="{escaped(self.what, 400)}">{"".join(parts)}</svg></div>'
        )

    def _at(self, column: int, row: int) -> int:
        return column * self.rows + row

    def _filled(self, wide: float, tall: float, base: float) -> str:
        """Return a path per label and whether it is certified, in runs along the first feature; and the holes."""
        paths: dict[tuple[bool, int], list[str]] = {}
        holes = []
        for row in range(self.rows):
            y, column = base - (row + 1) * tall, 0
            while column < self.side:
                start, own = column, self._look(column, row)
                while column < self.side and self._look(column, row) == own:
                    if self.kinds[self._at(column, row)] == HOLLOW:
                        x, hole = LEFT + (column + 0.35) * wide, short(0.3 * wide)
                        holes.append(f"M{short(x)} {short(y + 0.35 * tall)}h{hole}v{short(0.3 * tall)}h-{hole}z")
                    column += 1
                run = short((column - start) * wide)
                place = f"M{short(LEFT + start * wide)} {short(y)}h{run}v{short(tall)}h-{run}z"
                paths.setdefault(own, []).append(place)
        found = "".join(
            f'<path class="cell k{label % MOST_CLASSES}{"" if sure else " pale"}" d="{"".join(runs)}"/>'
            for (sure, label), runs in sorted(paths.items())
        )
        return found + (f'<path class="hole" d="{"".join(holes)}"/>' if holes else "")

    def _look(self, column: int, row: int) -> tuple[bool, int]:
        """Tell whether a cell's label is certified, and the label."""
        cell = self._at(column, row)
        return self.kinds[cell] in (FILLED, HOLLOW), self.labels[cell]

    def _hatched(self, wide: float, tall: float, base: float) -> str:
        """Return strokes: leaning by the label where nothing is certified, crossed where another label is."""
        drawn: dict[int, list[str]] = {}
        for column in range(self.side):
            for row in range(self.rows):
                cell = self._at(column, row)
                label, x, y = self.labels[cell] % 4, LEFT + column * wide, base - (row + 1) * tall
                if self.kinds[cell] == UNSURE:
                    drawn.setdefault(label, []).append(stroke(label, x, y, wide, tall))
                elif self.kinds[cell] == OTHER:
                    drawn.setdefault(9, []).append(stroke(0, x, y, wide, tall) + stroke(1, x, y, wide, tall))
        return "".join(f'<path class="hatch h{label}" d="{"".join(drawn[label])}"/>' for label in sorted(drawn))


def stroke(label: int, x: float, y: float, wide: float, tall: float) -> str:
    """Return a stroke across a cell, by label: rising, falling, upright, level."""
    if label % 4 == 0:
        return f"M{short(x)} {short(y + tall)}l{short(wide)} {short(-tall)}"
    if label % 4 == 1:
        return f"M{short(x)} {short(y)}l{short(wide)} {short(tall)}"
    if label % 4 == 2:
        return f"M{short(x + wide / 2)} {short(y)}v{short(tall)}"
    return f"M{short(x)} {short(y + tall / 2)}h{short(wide)}"


def legend(classes: Sequence[str], kinds: set[int]) -> str:
    """Return what fills and hatches mean."""
    found = []
    for label, name in enumerate(classes[:MOST_CLASSES]):
        shown = isolated(name, 40)
        found.append(_sample(f'<path class="cell k{label}" d="M1 1h18v12h-18z"/>') + f" {shown}, certified")
        if UNSURE in kinds:
            lines = "".join(stroke(label, x, 1, 6, 12) for x in (1, 7, 13))
            pale = f'<path class="cell k{label} pale" d="M1 1h18v12h-18z"/><path class="hatch" d="{lines}"/>'
            found.append(f"{_sample(pale)} {shown}, not certified")
    if HOLLOW in kinds:
        hole = '<path class="cell k0" d="M1 1h18v12h-18z"/><path class="hole" d="M7 4h6v6h-6z"/>'
        found.append(f"{_sample(hole)} with a hole: certified, but with less than 99.9\u00a0%")
    if OTHER in kinds:
        cross = stroke(0, 1, 1, 18, 12) + stroke(1, 1, 1, 18, 12)
        found.append(_sample(f'<path class="hatch" d="{cross}"/>') + " another label is certified of the cell")
    return f'<ul class="legend">{"".join(f"<li>{one}</li>" for one in found)}</ul>'


def _sample(drawn: str) -> str:
    return f'<svg class="sample" viewBox="0 0 20 14" aria-hidden="true">{drawn}</svg>'
