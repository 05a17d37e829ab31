"""Pictures of pages as SVG: lines, bands, steps, bars and maps of cells; shapes, dashes and hatches need no colour.

Nothing here rounds what is promised: texts come as they are to be shown, places are for the eye. Colours, dashes and
type sizes stand in the style sheet, by class: a page's policy admits no style of an element's own.
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
from epsworth.report.text import NOTE, cleaned, escaped, name
from epsworth.rounding import show_up
from epsworth.utility.panels import DecisionMap

LABEL = 20  # characters of a name beside a curve
NAMES = 152  # width that names beside curves take
APART = 18  # between two of them
ROOM = 18  # above a line across, for its name
HALF = 80  # of the width of a name on top
COLOURS = 7
SHAPES = (  # one per curve, so that colour is never needed to tell them apart
    '<circle r="3.6"/>', '<path d="M-3.4-3.4h6.8v6.8h-6.8z"/>', '<path d="M0-4.4L4.2 3.2H-4.2z"/>',
    '<path d="M0-4.8L4.8 0 0 4.8-4.8 0z"/>', '<path d="M0 4.4L4.2-3.2H-4.2z"/>',
)  # fmt: skip
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What an axis says and spans; without ``marked`` it has no ticks."""

    title: str
    low: float
    high: float
    log: bool = False
    percent: bool = False
    marked: bool = True

    def at(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1; what lies beyond them is at the nearer one."""
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
        if not self.marked:
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
        step, first, last = next(one for one in within if one[2] - one[1] < most)
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """One curve: its points and name, how it is drawn, and the upper end of a band above it.

    With a ``key`` other pictures of the page can show it, too.
    """

    name: str
    points: Sequence[Point]
    kind: str = "line"  # or step, bare: without shapes along it, or ceiling: dotted, and named within
    colour: int | None = None
    upper: Sequence[float] = ()
    key: str = ""


@dataclass(frozen=True)
class Chart:
    """A picture with two axes; what is seen is said for those who cannot. A narrow one has less around the plot."""

    what: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    spans: Sequence[tuple[float, float, str]] = ()  # shaded parts of the lower axis, or lines upright, with a name
    rules: Sequence[tuple[float, str]] = ()  # lines across, with a name
    cursor: float | None = None  # where the slider stands
    moved: str = ""  # the cursor's name
    behind: Sequence[str] = ()  # curves of other pictures, by key
    over: str = ""  # SVG on top of all
    key: Sequence[tuple[int, object]] = ()  # colours and names of the curves, told above in place of what is seen
    number: int | None = None  # of the one curve, where there is a picture for each
    width: int = 660
    height: int = 320

    @property
    def large(self) -> bool:
        """Whether there is room for names and many ticks."""
        return self.width > 400

    @property
    def drawn(self) -> list[tuple[Line, int]]:
        """The curves that have points, with their colours."""
        every = [(one, i if one.colour is None else one.colour) for i, one in enumerate(self.lines)]
        return [(one, colour) for one, colour in every if one.points]

    @property
    def named(self) -> list[tuple[Line, int]]:
        """Those that are named beside the picture."""
        named = [(one, colour) for one, colour in self.drawn if one.kind != "ceiling"]
        return named if self.large and len(named) > 1 else []

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """Where the plot lies: left, right, top and base."""
        left, top, bottom = (58, 46, 46) if self.large else (50, 12, 34)
        left += 10 * max(0, max((len(words) for _, words in self.y.ticks(7)), default=0) - 5)
        return left, self.width - (NAMES if self.named else 16), top, self.height - bottom

    def place(self, x: float, y: float) -> Point:
        """Return where a point lies."""
        left, right, top, base = self.frame
        return left + (right - left) * self.x.at(x), base - (base - top) * self.y.at(y)

    def cursors(self, values: Iterable[float]) -> list[str]:
        """Return where the script moves the cursor to, by stop."""
        return [f"{short(self.place(value, self.y.low)[0])} 0" for value in values]

    def svg(self) -> Markup:
        """Return the picture."""
        parts = [*(self._span(*one) for one in self.spans), self._axes()]
        parts += [f'<use class="other" href="#{key}"/>' for key in self.behind]
        parts += [self._band(one, colour) for one, colour in self.drawn if len(one.upper)]
        parts += [self._line(one, colour) for one, colour in self.drawn]
        parts += [self._names(), *(self._rule(*one) for one in self.rules)]
        if self.cursor is not None:
            (place,), (_, _, top, base) = self.cursors([self.cursor]), self.frame
            mark = f' id="{self.moved}"' if self.moved else ""
            parts.append(f'<path class="cursor"{mark} transform="translate({place})" d="M0 {top}V{base}"/>')
        box, told = f"0 0 {self.width} {self.height}", escaped(self.what, 400)
        return Markup(f'<svg viewBox="{box}" role="img" aria-label="{told}">{"".join([*parts, self.over])}</svg>')

    def _axes(self) -> str:
        parts, most, (left, right, _, base) = [], 7 if self.large else 4, self.frame
        for value, words in self.y.ticks(most):
            y = self.place(self.x.low, value)[1]
            parts.append(f'<path class="grid" d="M{left} {short(y)}H{right}"/>')
            parts.append(_text(words, left - 6, y, "end", middle=True))
        for value, words in self.x.ticks(most):
            x = self.place(value, self.y.low)[0]
            parts.append(f'<path class="tick" d="M{short(x)} {base}v4"/>{_text(words, x, base + 18, "mid")}')
        parts.append(f'<path class="axis" d="M{left} {base}H{right}"/>')
        parts.append(_text(self.x.title, (left + right) // 2, base + (38 if self.large else 32), "mid axis-name"))
        return "".join([*parts, _text(self.y.title, 4, 14, "axis-name") if self.y.title else ""])

    def _path(self, places: Sequence[Point], end: str = "") -> str:
        """Return a path in fine steps, each from the last point: a third of the letters of an absolute one."""
        fine = 10 if self.large else 5
        at = [(round(fine * x), round(fine * y)) for x, y in places]
        steps = " ".join(f"{x - a} {y - b}" for (a, b), (x, y) in pairwise(at)) or "0 0"
        return f'transform="scale({1 / fine:g})" d="M{at[0][0]} {at[0][1]}l{steps.replace(" -", "-")}{end}"'

    def _line(self, line: Line, colour: int) -> str:
        places = [self.place(*point) for point in line.points]
        path = self._path(_stairs(places) if line.kind == "step" else places)
        if line.kind == "ceiling":
            told = _text(line.name, self.frame[0] + 8, places[0][1] + 18, "halo") if self.large else ""
            return f'<path class="ceiling" {path}/>{told}'
        every = max(1, len(places) // 6)
        marks = places[(2 * colour) % every :: every] if line.kind == "line" else []
        kind = f"line c{colour % COLOURS}"
        drawn = f'<path class="{kind} curve" {path}/>'
        if line.key:
            shown = f'<use class="{kind}" href="#{line.key}"/>'
            drawn = f'<defs><path class="curve" id="{line.key}" {path}/></defs>{shown}'
        return drawn + "".join(_mark(colour, *place) for place in marks)

    def _band(self, line: Line, colour: int) -> str:
        low = [self.place(*point) for point in line.points]
        high = [self.place(x, up) for (x, _), up in zip(line.points, line.upper, strict=True)]
        return f'<path class="band c{colour % COLOURS}" {self._path([*low, *high[::-1]], "z")}/>'

    def _names(self) -> str:
        """Name each curve at its end, moved apart where ends lie close."""
        ends = [(*self.place(*one.points[-1]), colour, one.name) for one, colour in self.named]
        _, x, _, base = self.frame
        places = drawing.apart([end[1] for end in ends], [APART] * len(ends), 0, base)
        return "".join(
            f'<path class="leader" d="M{short(at)} {short(y)}L{x + 10} {short(place)}"/>{_mark(colour, x + 14, place)}'
            + _text(words, x + 22, place, "label", middle=True, most=LABEL)
            for (at, y, colour, words), place in zip(ends, places, strict=True)
        )

    def _span(self, low: float, high: float, words: str) -> str:
        a, b = (self.place(value, self.y.low)[0] for value in (low, high))
        first, last, (left, right, top, base) = short(a), short(b), self.frame
        at = min(max((a + b) / 2, left + HALF), right - HALF)
        return (
            f'<path class="span" d="M{first} {top}H{last}V{base}H{first}z"/>'
            f'<path class="edge" d="M{first} {top}V{base}M{last} {top}V{base}"/>'
            + _text(words, at, top - 6, "mid halo")
        )

    def _rule(self, y: float, words: str) -> str:
        """Return a line across with a name, which stays within the picture."""
        place, (left, right, top, _) = self.place(self.x.low, y)[1], self.frame
        line = f'<path d="M{left} 0H{right}"/>{_text(words, left + 4, -5 if place >= top + ROOM else 14, "halo")}'
        return f'<g class="target" transform="translate(0 {short(place)})">{line}</g>'


# ---- maps of cells

MOST_CLASSES = 6
FILLED, UNSURE, OTHER, PALE = range(4)  # how a cell is drawn: in full, hatched by its label, crossed, or neither
STROKES = ((0, 0, "l1 1"), (0, 1, "l1-1"), (0.5, 0, "v1"), (0, 0.5, "h1"))  # from a place within a cell on, upwards
CERTIFICATES = {FILLED: "certified", UNSURE: "left open", OTHER: "another label is certified"}


def label_map(drawn: DecisionMap, what: str) -> Chart:
    """Return labels around a record: a square for two features, a strip for one."""
    both = len(drawn.features) == 2
    box = [(float(edges[0]), float(edges[-1])) for edges in drawn.edges]
    chart = _map_of(what, drawn.features, box, *((340, 340) if both else (600, 46)))
    order = np.argsort(label_order(drawn))[drawn.cells].reshape(len(drawn.cells), -1)
    order = order[1::2, 1::2] if both else order[2::4]  # of all that were asked: the page stays small
    place = " ".join(map(short, chart.place(drawn.own[0], drawn.own[1] if both else 0.5)))
    own = f'<g class="own" transform="translate({place})"><circle r="7"/><path d="M-11 0h22M0-11v22"/></g>'
    return replace(chart, over=_cells(chart, np.where(order == 0, PALE, 4 * order + UNSURE)) + own)


def label_order(drawn: DecisionMap) -> list[int]:
    """Return the numbers of labels, the record's own first."""
    return [drawn.label, *(i for i in range(len(drawn.labels)) if i != drawn.label)]


def learnt_map(
    what: str, names: Sequence[str], box: Sequence[Point], side: int, labels: Sequence[int], kinds: Sequence[int]
) -> Chart:
    """Return cells in a grid, row-major over the features, filled where their label is certified."""
    chart = _map_of(what, names, box, 480, 420 if len(names) > 1 else 56)
    label, kind = (np.array(one).reshape(side, -1) for one in (labels, kinds))
    return replace(chart, over=_cells(chart, 4 * label + kind))


def sample(label: int, kind: int) -> Markup:
    """Return three cells of a look, for a legend."""
    look, cells = 4 * label + kind, [(x, 0) for x in range(3)]
    drawn = f'<path class="{_fill(look)}" d="M0 0h3v1h-3z"/>{_hatch(look, cells)}'
    box = 'viewBox="0 0 3 1" preserveAspectRatio="none"'
    return Markup(f'<svg class="sample" {box} aria-hidden="true"><g transform="matrix(1 0 0 -1 0 1)">{drawn}</g></svg>')


def legend(classes: Sequence[str], kinds: set[int], *, certified: bool) -> list[Markup]:
    """Return what fills and hatches mean."""
    told = []
    for label, one in enumerate(classes[:MOST_CLASSES]):
        told.append(sample(label, FILLED) + name(one, 40) + (", certified" if certified else ""))
        told += [sample(label, UNSURE) + name(one, 40) + ", not certified"] if UNSURE in kinds else []
    return told + ([sample(0, OTHER) + "another label is certified of the cell"] if OTHER in kinds else [])


def _map_of(what: str, names: Sequence[str], box: Sequence[Point], wide: int, tall: int) -> Chart:
    across, *upright = (Axis(cleaned(one, 40), *ends) for one, ends in zip(names, box, strict=True))
    strip = Axis("", 0.0, 1.0, marked=False)
    return Chart(what, across, upright[0] if upright else strip, width=wide + 74, height=tall + 92)


def _cells(chart: Chart, looks: NDArray[np.int64]) -> str:
    """Return cells by their looks, by column and row, within a chart's axes: runs along the first feature, hatches."""
    paths: dict[int, list[str]] = {look: [] for look in np.unique(looks).tolist()}
    for row, cells in enumerate(looks.T.tolist()):
        first = 0
        for look, alike in groupby(cells):
            wide = len(list(alike))
            paths[look].append(f"M{first} {row}h{wide}v1h-{wide}z")
            first += wide
    left, right, top, base = chart.frame
    wide, tall = right - left, base - top
    within = f"translate({left} {base}) scale({wide / looks.shape[0]:.6g} {-tall / looks.shape[1]:.6g})"
    drawn = [f'<path class="{_fill(look)}" d="{"".join(path)}"/>' for look, path in paths.items()]
    drawn += [_hatch(look, np.argwhere(looks == look).tolist()) for look in paths]
    frame = f'<path class="outline" d="M{left} {top}h{wide}v{tall}h-{wide}z"/>'
    return f'{frame}<g transform="{within}">{"".join(drawn)}</g>'


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


def short(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _text(words: str, x: float, y: float, kind: str, *, middle: bool = False, most: int = NOTE) -> str:
    low = ' dy=".32em"' if middle else ""
    return f'<text class="{kind}" x="{short(x)}" y="{short(y)}"{low}>{escaped(words, most)}</text>'


def _mark(colour: int, x: float, y: float) -> str:
    return f'<use class="mark c{colour % COLOURS}" href="#k{colour % len(SHAPES)}" x="{short(x)}" y="{short(y)}"/>'


def _stairs(places: Sequence[Point]) -> list[Point]:
    """Return a staircase: each value holds up to the next place."""
    return [places[0], *(point for (_, y), place in pairwise(places) for point in ((place[0], y), place))]


def _plain(value: float) -> str:
    """Return a tick's text."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 and value == int(value) else f"{value:g}"
