"""Charts of pages as SVG.

Lines, bands, steps, bars and maps of cells; shapes, dashes and hatches need no colour. Nothing in this module rounds a
promise: texts come as the page prints them, positions are for the eye. Colours, dashes and type sizes stand in the
style sheet, by class: a page's policy admits no style attribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, pairwise

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from epsworth import drawing
from epsworth.report.text import TEXT_LENGTH, escaped, name, printable
from epsworth.rounding import show_up
from epsworth.utility.panels import DecisionMap

LABEL_LETTERS, LABEL_WIDTH, LABEL_HEIGHT = 20, 152, 18  # of names beside curves
RULE_ROOM = 18  # above a line across, for its name
HALF_SPAN_LABEL = 80  # of the width of a name on top
COLOURS = 7
SHAPES = (  # one per curve, so that colour is never needed to tell them apart
    '<circle r="3.6"/>', '<path d="M-3.4-3.4h6.8v6.8h-6.8z"/>', '<path d="M0-4.4L4.2 3.2H-4.2z"/>',
    '<path d="M0-4.8L4.8 0 0 4.8-4.8 0z"/>', '<path d="M0 4.4L4.2-3.2H-4.2z"/>',
)  # fmt: skip
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A title and a span of values along a plot."""

    title: str
    low: float
    high: float
    log: bool = False
    percent: bool = False
    has_ticks: bool = True

    def share(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1; beyond them it lies at the nearer one."""
        value, low, high = min(max(value, self.low), self.high), self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low) if high > low else 0.5

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round values between the ends, at most so many, and their texts.

        Examples
        --------
        >>> [text for _, text in Axis("", 0, 1).ticks(6)], [text for _, text in Axis("", 0.4, 40, log=True).ticks(4)]
        (['0', '0.2', '0.4', '0.6', '0.8', '1'], ['1', '3', '10', '30'])
        """
        if not self.has_ticks:
            return []
        values = [float(show_up(self.low, 3))]
        if self.high > self.low:
            values = self._decades(most) if self.log else self._steps(most)
        return [(v, f"{100 * v:g} %" if self.percent else _plain(v)) for v in values]

    def _decades(self, most: int) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            values = [v for p in decades for d in digits if self.low <= (v := float(f"{d}e{p}")) <= self.high]
            if len(values) <= most:
                return values
        return values[:: math.ceil(len(values) / most)]

    def _steps(self, most: int) -> list[float]:
        steps = (float(f"{d}e{p}") for p in count(math.floor(math.log10(self.high - self.low)) - 1) for d in (1, 2, 5))
        within = ((step, math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)) for step in steps)
        step, first, last = next(choice for choice in within if choice[2] - choice[1] < most)
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """One curve: its points, name and kind, and the upper end of a band above it.

    With a ``key`` other charts of the page can draw it, too.
    """

    name: str
    points: Sequence[Point]
    kind: str = "line"  # or step, bare: without shapes along it, or ceiling: dotted, and named within
    colour: int | None = None
    upper: Sequence[float] = ()
    key: str = ""


@dataclass(frozen=True)
class Chart:
    """A plot between two axes, with a description for those who cannot see it. A narrow one has smaller margins."""

    description: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    spans: Sequence[tuple[float, float, str]] = ()  # shaded parts of the lower axis, or lines upright, with a name
    rules: Sequence[tuple[float, str]] = ()  # lines across, with a name
    cursor: float | None = None  # where the slider stands
    cursor_key: str = ""
    background: Sequence[str] = ()  # curves of other charts, by key
    backdrop: str = ""  # a key for axes and background, which charts share
    shares: bool = False  # whether another chart has drawn it
    overlay: str = ""  # SVG on top of all
    legend: Sequence[tuple[int, object]] = ()  # colours and names of the curves, printed in place of the description
    number: int | None = None  # of the one curve, where each has its chart
    width: int = 660
    height: int = 320

    @property
    def large(self) -> bool:
        """Whether there is room for names and many ticks."""
        return self.width > 400

    @property
    def curves(self) -> list[tuple[Line, int]]:
        """The curves that have points, with their colours."""
        return [(line, i if line.colour is None else line.colour) for i, line in enumerate(self.lines) if line.points]

    @property
    def end_labels(self) -> list[tuple[Line, int]]:
        """The curves with a name beside the plot."""
        lines = [(line, colour) for line, colour in self.curves if line.kind != "ceiling"]
        return lines if self.large and len(lines) > 1 else []

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """Where the plot lies: left, right, top and base."""
        left, top, bottom = (58, 46, 46) if self.large else (50, 12, 34)
        left += 10 * max(0, max((len(words) for _, words in self.y.ticks(7)), default=0) - 5)
        return left, self.width - (LABEL_WIDTH if self.end_labels else 16), top, self.height - bottom

    def place(self, x: float, y: float) -> Point:
        """Return where a point lies."""
        left, right, top, base = self.frame
        return left + (right - left) * self.x.share(x), base - (base - top) * self.y.share(y)

    def cursors(self, values: Iterable[float]) -> list[str]:
        """Return where the script moves the cursor to, by value."""
        return [f"{coordinate(self.place(value, self.y.low)[0])} 0" for value in values]

    def svg(self) -> Markup:
        """Return the chart's markup."""
        parts = [*(self._span(*span) for span in self.spans), self._behind()]
        parts += [self._band(line, colour) for line, colour in self.curves if len(line.upper)]
        parts += [self._line(line, colour) for line, colour in self.curves]
        parts += [self._end_labels(), *(self._rule(*rule) for rule in self.rules)]
        if self.cursor is not None:
            (place,), (_, _, top, base) = self.cursors([self.cursor]), self.frame
            key = f' id="{self.cursor_key}"' if self.cursor_key else ""
            parts.append(f'<path class="cursor"{key} transform="translate({place})" d="M0 {top}V{base}"/>')
        box, label = f"0 0 {self.width} {self.height}", escaped(self.description, 400)
        return Markup(f'<svg viewBox="{box}" role="img" aria-label="{label}">{"".join([*parts, self.overlay])}</svg>')

    def _behind(self) -> str:
        """Return axes and background."""
        if self.shares:
            return f'<use href="#{self.backdrop}"/>'
        parts = [self._axes(), *(f'<use class="other" href="#{key}"/>' for key in self.background)]
        return f'<g id="{self.backdrop}">{"".join(parts)}</g>' if self.backdrop else "".join(parts)

    def _axes(self) -> str:
        parts, most, (left, right, _, base) = [], 7 if self.large else 4, self.frame
        for value, words in self.y.ticks(most):
            y = self.place(self.x.low, value)[1]
            parts.append(f'<path class="grid" d="M{left} {coordinate(y)}H{right}"/>')
            parts.append(_text(words, left - 6, y, "end", middle=True))
        for value, words in self.x.ticks(most):
            x = self.place(value, self.y.low)[0]
            parts.append(f'<path class="tick" d="M{coordinate(x)} {base}v4"/>{_text(words, x, base + 18, "mid")}')
        parts.append(f'<path class="axis" d="M{left} {base}H{right}"/>')
        parts.append(_text(self.x.title, (left + right) // 2, base + (38 if self.large else 32), "mid axis-name"))
        return "".join([*parts, _text(self.y.title, 4, 14, "axis-name") if self.y.title else ""])

    def _path(self, places: Sequence[Point], end: str = "") -> str:
        """Return a path in fine steps, each from the last point: a third of the letters of an absolute one."""
        scale = 10 if self.large else 5
        points = [(round(scale * x), round(scale * y)) for x, y in places]
        steps = " ".join(f"{x - a} {y - b}" for (a, b), (x, y) in pairwise(points)) or "0 0"
        start = f"M{points[0][0]} {points[0][1]}"
        return f'transform="scale({1 / scale:g})" d="{start}l{steps.replace(" -", "-")}{end}"'

    def _line(self, line: Line, colour: int) -> str:
        places = [self.place(*point) for point in line.points]
        path = self._path(_stairs(places) if line.kind == "step" else places)
        if line.kind == "ceiling":
            label = _text(line.name, self.frame[0] + 8, places[0][1] + 18, "halo") if self.large else ""
            return f'<path class="ceiling" {path}/>{label}'
        step = max(1, len(places) // 6)
        marks = places[(2 * colour) % step :: step] if line.kind == "line" else []
        kind = f"line c{colour % COLOURS}"
        curve = f'<path class="{kind} curve" {path}/>'
        if line.key:
            use = f'<use class="{kind}" href="#{line.key}"/>'
            curve = f'<defs><path class="curve" id="{line.key}" {path}/></defs>{use}'
        return curve + "".join(_mark(colour, *place) for place in marks)

    def _band(self, line: Line, colour: int) -> str:
        low = [self.place(*point) for point in line.points]
        high = [self.place(x, up) for (x, _), up in zip(line.points, line.upper, strict=True)]
        return f'<path class="band c{colour % COLOURS}" {self._path([*low, *high[::-1]], "z")}/>'

    def _end_labels(self) -> str:
        """Name each curve at its end, spread where ends lie close."""
        ends = [(*self.place(*line.points[-1]), colour, line.name) for line, colour in self.end_labels]
        _, right, _, base = self.frame
        heights = drawing.apart([y for _, y, *_ in ends], [LABEL_HEIGHT] * len(ends), 0, base)
        return "".join(
            f'<path class="leader" d="M{coordinate(x)} {coordinate(y)}L{right + 10} {coordinate(height)}"/>'
            + _mark(colour, right + 14, height)
            + _text(words, right + 22, height, "label", middle=True, most=LABEL_LETTERS)
            for (x, y, colour, words), height in zip(ends, heights, strict=True)
        )

    def _span(self, low: float, high: float, words: str) -> str:
        a, b = (self.place(value, self.y.low)[0] for value in (low, high))
        first, last, (left, right, top, base) = coordinate(a), coordinate(b), self.frame
        at = min(max((a + b) / 2, left + HALF_SPAN_LABEL), right - HALF_SPAN_LABEL)
        return (
            f'<path class="span" d="M{first} {top}H{last}V{base}H{first}z"/>'
            f'<path class="edge" d="M{first} {top}V{base}M{last} {top}V{base}"/>'
            + _text(words, at, top - 6, "mid halo")
        )

    def _rule(self, y: float, words: str) -> str:
        """Return a line across with a name, which stays within the picture."""
        place, (left, right, top, _) = self.place(self.x.low, y)[1], self.frame
        line = f'<path d="M{left} 0H{right}"/>{_text(words, left + 4, -5 if place >= top + RULE_ROOM else 14, "halo")}'
        return f'<g class="target" transform="translate(0 {coordinate(place)})">{line}</g>'


# ---- maps of cells

MOST_CLASSES = 6
HATCHED = 20  # of the width, for one hatch
FILLED, UNSURE, OTHER, PALE = range(4)  # kinds of cells: in full, hatched by the label, crossed, or neither
STROKES = ((0, 0, "l1 1"), (0, 1, "l1-1"), (0.5, 0, "v1"), (0, 0.5, "h1"))  # from a place within a cell on, upwards
CERTIFICATES = {FILLED: "certified", UNSURE: "left open", OTHER: "another label is certified"}


def label_map(decisions: DecisionMap, description: str) -> Chart:
    """Return labels around a record: a square for two features, a strip for one."""
    both = len(decisions.features) == 2
    box = [(float(edges[0]), float(edges[-1])) for edges in decisions.edges]
    chart = _map_of(description, decisions.features, box, *((340, 340) if both else (600, 46)))
    order = np.argsort(label_order(decisions))[decisions.cells].reshape(len(decisions.cells), -1)
    order = order[1::2, 1::2] if both else order[2::4]  # a part of the grid: the page stays small
    place = " ".join(map(coordinate, chart.place(decisions.own[0], decisions.own[1] if both else 0.5)))
    cross = f'<g class="own" transform="translate({place})"><circle r="7"/><path d="M-11 0h22M0-11v22"/></g>'
    return replace(chart, overlay=_cells(chart, np.where(order == 0, PALE, 4 * order + UNSURE)) + cross)


def label_order(decisions: DecisionMap) -> list[int]:
    """Return the numbers of labels, the record's own first."""
    return [decisions.label, *(i for i in range(len(decisions.labels)) if i != decisions.label)]


def certificate_map(
    description: str, names: Sequence[str], box: Sequence[Point], side: int, labels: Sequence[int], kinds: Sequence[int]
) -> Chart:
    """Return cells in a grid, row-major over the features, filled where their label is certified."""
    chart = _map_of(description, names, box, 480, 420 if len(names) > 1 else 56)
    label, kind = (np.array(values).reshape(side, -1) for values in (labels, kinds))
    return replace(chart, overlay=_cells(chart, 4 * label + kind))


def swatch(label: int, kind: int) -> Markup:
    """Return three cells of a look, for a legend."""
    look, cells = 4 * label + kind, [(x, 0) for x in range(3)]
    paths = f'<path class="{_fill(look)}" d="M0 0h3v1h-3z"/>{_hatch(look, cells)}'
    box = 'viewBox="0 0 3 1" preserveAspectRatio="none"'
    return Markup(f'<svg class="sample" {box} aria-hidden="true"><g transform="matrix(1 0 0 -1 0 1)">{paths}</g></svg>')


def legend(classes: Sequence[str], looks: set[tuple[int, int]], *, certified: bool) -> list[Markup]:
    """Return what the fills and hatches mean that a map has, by label and kind."""
    words = {FILLED: ", certified" if certified else "", UNSURE: ", not certified"}
    entries = [
        swatch(label, kind) + name(title, 40) + words[kind]
        for label, title in enumerate(classes[:MOST_CLASSES])
        for kind in words
        if any((one, kind) in looks for one in range(label, len(classes), MOST_CLASSES))
    ]
    crossed = any(kind == OTHER for _, kind in looks)
    return entries + ([swatch(0, OTHER) + "another label is certified of the cell"] if crossed else [])


def _map_of(description: str, names: Sequence[str], box: Sequence[Point], width: int, height: int) -> Chart:
    x, *y = (Axis(printable(title, 40), *ends) for title, ends in zip(names, box, strict=True))
    strip = Axis("", 0.0, 1.0, has_ticks=False)
    return Chart(description, x, y[0] if y else strip, width=width + 74, height=height + 92)


def _cells(chart: Chart, looks: NDArray[np.int64]) -> str:
    """Return cells by their looks, by column and row, within a chart's axes: runs along the first feature, hatches."""
    left, right, top, base = chart.frame
    wide, tall = right - left, base - top
    for axis, size in enumerate((wide, tall)):  # large cells have several hatches
        looks = np.repeat(looks, max(1, round(size / looks.shape[axis] / HATCHED)), axis)
    paths: dict[int, list[str]] = {look: [] for look in np.unique(looks).tolist()}
    for row, cells in enumerate(looks.T.tolist()):
        first = 0
        for look, run in groupby(cells):
            cells_long = len(list(run))
            paths[look].append(f"M{first} {row}h{cells_long}v1h-{cells_long}z")
            first += cells_long
    transform = f"translate({left} {base}) scale({wide / looks.shape[0]:.6g} {-tall / looks.shape[1]:.6g})"
    shapes = [f'<path class="{_fill(look)}" d="{"".join(path)}"/>' for look, path in paths.items()]
    shapes += [_hatch(look, np.argwhere(looks == look).tolist()) for look in paths]
    frame = f'<path class="outline" d="M{left} {top}h{wide}v{tall}h-{wide}z"/>'
    return f'{frame}<g transform="{transform}">{"".join(shapes)}</g>'


def _fill(look: int) -> str:
    label, kind = divmod(look, 4)
    return f"cell k{label % MOST_CLASSES}{'' if kind == FILLED else ' pale'}"


def _hatch(look: int, cells: Iterable[Sequence[int]]) -> str:
    """Return strokes on cells that are not filled: one by their label, or a cross."""
    label, kind = divmod(look, 4)
    strokes = STROKES[:2] if kind == OTHER else [STROKES[label % 4]] if kind == UNSURE else ()
    d = "".join(f"M{column + x:g} {row + y:g}{path}" for column, row in cells for x, y, path in strokes)
    return f'<path class="hatch" d="{d}"/>' if d else ""


# ---- places


def coordinate(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _text(words: str, x: float, y: float, kind: str, *, middle: bool = False, most: int = TEXT_LENGTH) -> str:
    low = ' dy=".32em"' if middle else ""
    return f'<text class="{kind}" x="{coordinate(x)}" y="{coordinate(y)}"{low}>{escaped(words, most)}</text>'


def _mark(colour: int, x: float, y: float) -> str:
    place = f'x="{coordinate(x)}" y="{coordinate(y)}"'
    return f'<use class="mark c{colour % COLOURS}" href="#k{colour % len(SHAPES)}" {place}/>'


def _stairs(places: Sequence[Point]) -> list[Point]:
    """Return a staircase: each value holds up to the next place."""
    return [places[0], *(point for (_, y), place in pairwise(places) for point in ((place[0], y), place))]


def _plain(value: float) -> str:
    """Return a tick's text."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 and value == int(value) else f"{value:g}"
