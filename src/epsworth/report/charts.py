"""Pictures of pages as SVG: lines, bands, steps, bars and maps of cells; shapes, dashes and hatches need no colour.

Nothing here rounds what is promised: texts come as they are to be shown, places are for the eye. Colours, dashes and
type sizes stand in the style sheet, by class: a page's policy admits no style of an element's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsworth import drawing
from epsworth.report.escaping import NOTE, cleaned, escaped, markup, name
from epsworth.rounding import show_up
from epsworth.utility.surroundings import DecisionMap

if TYPE_CHECKING:
    from markupsafe import Markup

LABEL = 20  # characters of a name beside a curve
NAMES = 150  # width that names beside curves take
APART = 18  # between two of them
ROOM = 18  # above a line across, for its name
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
        """Return values and their texts."""
        found = ticks(self.low, self.high, most, log=self.log) if self.marked else []
        return [(v, f"{100 * v:g} %" if self.percent else _plain(v)) for v in found]


@dataclass(frozen=True)
class Line:
    """One curve: its points and name, how it is drawn, and the upper end of a band above it.

    With a ``key`` other pictures of the page can show it, too.
    """

    name: str
    points: Sequence[Point]
    kind: str = "line"  # or step, or bare: without shapes along it
    colour: int | None = None
    upper: Sequence[float] = ()
    key: str = ""


@dataclass(frozen=True)
class Chart:
    """A picture with two axes; what is seen is said for those who cannot."""

    what: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    spans: Sequence[tuple[float, float, str]] = ()  # shaded parts of the lower axis, with a name
    rules: Sequence[tuple[float, str]] = ()  # lines across, with a name
    posts: Sequence[tuple[float, str]] = ()  # lines upright, with a name
    cursor: float | None = None  # where the slider stands
    moved: str = ""  # the cursor's name
    behind: Sequence[str] = ()  # curves of other pictures, by key
    over: str = ""  # SVG on top of all
    named: bool | None = None
    width: int = 660
    height: int = 320
    left: int = 62
    room: int | None = None
    top: int = 26
    bottom: int = 46

    @property
    def base(self) -> int:
        """Where the lower axis lies."""
        return self.height - self.bottom

    @property
    def names(self) -> bool:
        """Whether curves are named beside the picture."""
        return len(self.lines) > 1 if self.named is None else self.named

    @property
    def right(self) -> int:
        """Where the plot ends, and names begin."""
        return self.width - (self.room if self.room is not None else NAMES if self.names else 16)

    @property
    def large(self) -> bool:
        """Whether there is room for many ticks."""
        return self.width > 400

    def place(self, x: float, y: float) -> Point:
        """Return where a point lies."""
        return self.left + (self.right - self.left) * self.x.at(x), self.base - (self.base - self.top) * self.y.at(y)

    def cursors(self, values: Iterable[float]) -> list[str]:
        """Return where the script moves the cursor to, by stop."""
        return [f"{short(self.place(value, self.y.low)[0])} 0" for value in values]

    def upright(self, value: float, mark: str = "") -> str:
        """Return the line that stands where the slider does."""
        (place,) = self.cursors([value])
        return f'<path class="cursor"{mark} transform="translate({place})" d="M0 {self.top}V{self.base}"/>'

    def across(self, y: float, words: str) -> str:
        """Return a line across with a name, which stays within the picture."""
        place = self.place(self.x.low, y)[1]
        shift = -5 if place >= self.top + ROOM else 14
        line = f'<path d="M{self.left} 0H{self.right}"/>{_text(words, self.left + 4, shift, "halo")}'
        return f'<g class="target" transform="translate(0 {short(place)})">{line}</g>'

    def path(self, places: Sequence[Point], end: str = "") -> str:
        """Return a path in fine steps, each from the last point: a third of the letters of an absolute one."""
        fine = 10 if self.large else 5
        at = [(round(fine * x), round(fine * y)) for x, y in places]
        steps = " ".join(f"{x - a} {y - b}" for (a, b), (x, y) in pairwise(at)) or "0 0"
        return f'transform="scale({1 / fine:g})" d="M{at[0][0]} {at[0][1]}l{steps.replace(" -", "-")}{end}"'

    def svg(self) -> Markup:
        """Return the picture."""
        numbered = [(line, i if line.colour is None else line.colour) for i, line in enumerate(self.lines)]
        parts = [*(self._span(*one) for one in self.spans), self._axes()]
        parts += [f'<use class="other" href="#{key}"/>' for key in self.behind]
        parts += [self._band(line, number) for line, number in numbered if len(line.upper)]
        parts += [self._line(line, number) for line, number in numbered if line.points]
        parts += [self._names(numbered)] if self.names else []
        parts += [self.across(value, words) for value, words in self.rules]
        parts += [self._post(value, words) for value, words in self.posts]
        parts += [] if self.cursor is None else [self.upright(self.cursor, f' id="{self.moved}"')]
        box, told = f"0 0 {self.width} {self.height}", escaped(self.what, 400)
        return markup(f'<svg viewBox="{box}" role="img" aria-label="{told}">{"".join([*parts, self.over])}</svg>')

    def _axes(self) -> str:
        parts, most = [], 7 if self.large else 4
        for value, words in self.y.ticks(most):
            y = self.place(self.x.low, value)[1]
            parts.append(f'<path class="grid" d="M{self.left} {short(y)}H{self.right}"/>')
            parts.append(_text(words, self.left - 6, y, "end", middle=True))
        for value, words in self.x.ticks(most):
            x = self.place(value, self.y.low)[0]
            parts.append(f'<path class="tick" d="M{short(x)} {self.base}v4"/>')
            parts.append(_text(words, x, self.base + 18, "mid"))
        parts.append(f'<path class="axis" d="M{self.left} {self.base}H{self.right}"/>')
        below = self.base + (38 if self.large else 32)
        parts.append(_text(self.x.title, (self.left + self.right) // 2, below, "mid axis-name"))
        return "".join([*parts, _text(self.y.title, 4, 14, "axis-name") if self.y.title else ""])

    def _line(self, line: Line, number: int) -> str:
        places = [self.place(*point) for point in line.points]
        every = max(1, len(places) // 6)
        marks = places[(2 * number) % every :: every] if line.kind == "line" else []
        path = self.path(_steps(places) if line.kind == "step" else places)
        kind = f"line c{number % COLOURS}"
        drawn = f'<path class="{kind} curve" {path}/>'
        if line.key:
            shown = f'<use class="{kind}" href="#{line.key}"/>'
            drawn = f'<defs><path class="curve" id="{line.key}" {path}/></defs>{shown}'
        return drawn + "".join(_mark(number, *place) for place in marks)

    def _band(self, line: Line, number: int) -> str:
        low = [self.place(*point) for point in line.points]
        high = [self.place(x, up) for (x, _), up in zip(line.points, line.upper, strict=True)]
        return f'<path class="band c{number % COLOURS}" {self.path([*low, *high[::-1]], "z")}/>'

    def _names(self, numbered: Sequence[tuple[Line, int]]) -> str:
        """Name each curve at its end, moved apart where ends lie close."""
        ends = [(*self.place(*line.points[-1]), n, line.name) for line, n in numbered if line.points]
        places, x = drawing.apart([end[1] for end in ends], [APART] * len(ends), 0, self.base), self.right
        return "".join(
            f'<path class="leader" d="M{short(at)} {short(y)}L{x + 10} {short(place)}"/>{_mark(number, x + 14, place)}'
            + _text(words, x + 22, place, "label", middle=True, most=LABEL)
            for (at, y, number, words), place in zip(ends, places, strict=True)
        )

    def _span(self, low: float, high: float, words: str) -> str:
        a, b = (self.place(value, self.y.low)[0] for value in (low, high))
        left, right = short(a), short(b)
        return (
            f'<path class="span" d="M{left} {self.top}H{right}V{self.base}H{left}z"/>'
            f'<path class="edge" d="M{left} {self.top}V{self.base}M{right} {self.top}V{self.base}"/>'
            + _text(words, (a + b) / 2, self.top - 6, "mid halo")
        )

    def _post(self, value: float, words: str) -> str:
        x = self.place(value, self.y.low)[0]
        side, shift = ("end", -5) if x > (self.left + self.right) / 2 else ("start", 5)
        told = _text(words, x + shift, self.top + 12, f"halo {side}")
        return f'<g class="target"><path d="M{short(x)} {self.top}V{self.base}"/>{told}</g>'


# ---- maps of cells

MOST_LETTERS = 8_000  # of the cells of labels around a record; coarser ones are drawn where they would take more
MOST_CLASSES = 6
FILLED, HOLLOW, UNSURE, OTHER = range(4)  # how a learnt cell is drawn
Marks = tuple[tuple[float, float, str], ...]  # each from a place within a cell on, in shares of it, upwards
Look = tuple[str, str, Marks]  # the class of a cell, and of its marks
STROKES: tuple[Marks, ...] = (((0, 0, "l1 1"),), ((0, 1, "l1-1"),), ((0.5, 0, "v1"),), ((0, 0.5, "h1"),))
CROSS: Marks = STROKES[0] + STROKES[1]
HOLE: Marks = ((0.35, 0.35, "h.3v.3h-.3z"),)
OTHERS: tuple[Marks, ...] = (  # one for each label that is another one
    ((0.3, 0.3, "l.4 .4"),), ((0.5, 0.5, "h.01"),), ((0.3, 0.5, "h.4"), (0.5, 0.3, "v.4")), ((0.3, 0.7, "l.4-.4"),),
    ((0.5, 0.4, "v.3"),), ((0.4, 0.5, "h.3"),),
)  # fmt: skip


def label_map(drawn: DecisionMap, what: str) -> Chart:
    """Return labels around a record: a square for two features, a strip for one."""
    both, order = len(drawn.features) == 2, label_order(drawn)
    box = [(float(edges[0]), float(edges[-1])) for edges in drawn.edges]
    chart = _map_of(what, drawn.features, box, *((300, 300) if both else (600, 46)))
    looks = np.argsort(order)[drawn.cells].reshape(len(drawn.cells), -1)
    marked = _sampled(looks, *((24, 24) if both else (48, 4)))
    while sum(map(len, _runs(looks).values())) > MOST_LETTERS and len(looks) >= 16:
        looks = _sampled(looks, len(looks) // 2, max(1, looks.shape[1] // 2))
    place = " ".join(map(short, chart.place(drawn.own[0], drawn.own[1] if both else 0.5)))
    own = f'<g class="own" transform="translate({place})"><circle r="7"/><path d="M-11 0h22M0-11v22"/></g>'
    return replace(chart, over=_cells(chart, looks, label_look, marked) + own)


def label_order(drawn: DecisionMap) -> list[int]:
    """Return the numbers of labels, the record's own first."""
    return [drawn.label, *(i for i in range(len(drawn.labels)) if i != drawn.label)]


def label_look(number: int) -> Look:
    """Return how the cells of a label are drawn: the record's own is number 0, and bears no marks."""
    kind = min(number, 6)
    return f"area a{kind}", f"marks a{kind}", OTHERS[(number - 1) % len(OTHERS)] if number else ()


def learnt_map(
    what: str, names: Sequence[str], box: Sequence[Point], side: int, labels: Sequence[int], kinds: Sequence[int]
) -> Chart:
    """Return cells in a grid, row-major over the features, filled where their label is certified."""
    chart = _map_of(what, names, box, 480, 420 if len(names) > 1 else 56)
    label, kind = (np.array(one).reshape(side, -1) for one in (labels, kinds))
    return replace(chart, over=_cells(chart, 4 * label + kind, lambda look: learnt_look(*divmod(look, 4))))


def learnt_look(label: int, kind: int) -> Look:
    """Return how a learnt cell is drawn: what is not certified is pale, and hatched by its label, or crossed."""
    fill = f"cell k{label % MOST_CLASSES}"
    if kind in (FILLED, HOLLOW):
        return fill, "hole", HOLE if kind == HOLLOW else ()
    return f"{fill} pale", "hatch", CROSS if kind == OTHER else STROKES[label % len(STROKES)]


def sample(look: Look) -> Markup:
    """Return three cells of a look, for a legend."""
    fill, marked, marks = look
    hatch = f'<path class="{marked}" d="{_marks(marks, [(x, 0) for x in range(3)])}"/>' if marks else ""
    drawn = f'<g transform="matrix(1 0 0 -1 0 1)"><path class="{fill}" d="M0 0h3v1h-3z"/>{hatch}</g>'
    box = 'viewBox="0 0 3 1" preserveAspectRatio="none"'
    return markup(f'<svg class="sample" {box} aria-hidden="true">{drawn}</svg>')


def legend(classes: Sequence[str], kinds: set[int], *, certified: bool) -> list[Markup]:
    """Return what fills and hatches mean."""
    found: list[tuple[Look, str, str]] = []
    for label, one in enumerate(classes[:MOST_CLASSES]):
        found.append((learnt_look(label, FILLED), one, ", certified" if certified else ""))
        found += [(learnt_look(label, UNSURE), one, ", not certified")] if UNSURE in kinds else []
    if HOLLOW in kinds:
        found.append((learnt_look(0, HOLLOW), "", "with a hole: certified, but with less than 99.9\u00a0%"))
    if OTHER in kinds:
        found.append((learnt_look(0, OTHER), "", "another label is certified of the cell"))
    return [sample(look) + (name(one, 40) if one else "") + escaped(words) for look, one, words in found]


def _map_of(what: str, names: Sequence[str], box: Sequence[Point], wide: int, tall: int) -> Chart:
    across, *upright = (Axis(cleaned(one, 40), *ends) for one, ends in zip(names, box, strict=True))
    strip = Axis("", 0.0, 1.0, marked=False)
    return Chart(what, across, upright[0] if upright else strip, width=wide + 78, height=tall + 72)


def _sampled(looks: NDArray[np.int64], columns: int, rows: int) -> NDArray[np.int64]:
    """Return what a coarser or finer grid holds in the middles of its cells."""
    many = zip((columns, rows), looks.shape, strict=True)
    return looks[np.ix_(*(((np.arange(n) + 0.5) * size / n).astype(int) for n, size in many))]


def _runs(looks: NDArray[np.int64]) -> dict[int, str]:
    """Return a path for each look of cells, which are numbered by column and row: runs along the first feature."""
    paths: dict[int, list[str]] = {}
    for row, cells in enumerate(looks.T.tolist()):
        first = 0
        for look, alike in groupby(cells):
            wide = len(list(alike))
            paths.setdefault(look, []).append(f"M{first} {row}h{wide}v1h-{wide}z")
            first += wide
    return {look: "".join(paths[look]) for look in sorted(paths)}


def _cells(
    chart: Chart, looks: NDArray[np.int64], look: Callable[[int], Look], marked: NDArray[np.int64] | None = None
) -> str:
    """Return cells by their looks within a chart's axes, with marks on those of a grid of their own, and a frame."""
    wide, tall, marked = chart.right - chart.left, chart.base - chart.top, looks if marked is None else marked

    def within(shape: tuple[int, ...]) -> str:
        return f'transform="translate({chart.left} {chart.base}) scale({wide / shape[0]:.6g} {-tall / shape[1]:.6g})"'

    parts = [f'<path class="outline" d="M{chart.left} {chart.top}h{wide}v{tall}h-{wide}z"/>']
    parts += [f'<path class="{look(one)[0]}" d="{d}" {within(looks.shape)}/>' for one, d in _runs(looks).items()]
    for one in np.unique(marked).tolist():
        _, kind, marks = look(one)
        if marks:
            d = _marks(marks, np.argwhere(marked == one).tolist())
            parts.append(f'<path class="{kind}" d="{d}" {within(marked.shape)}/>')
    return "".join(parts)


def _marks(marks: Marks, cells: Iterable[Sequence[int]]) -> str:
    return "".join(f"M{column + x:g} {row + y:g}{path}" for column, row in cells for x, y, path in marks)


# ---- places


def ticks(first: float, last: float, most: int, *, log: bool = False) -> list[float]:
    """Return round numbers between two, at most so many.

    Examples
    --------
    >>> ticks(0, 1, 6), ticks(0.4, 40, 4, log=True)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 3.0, 10.0, 30.0])
    """
    if log:
        decades = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [float(Decimal(d).scaleb(p)) for p in decades for d in digits]
            found = [v for v in found if first <= v <= last]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]
    if last == first:
        return [float(show_up(first, 3))]
    for p in range(math.floor(math.log10(last - first)) - 1, 20):
        for d in (1, 2, 5):
            step = Decimal(d).scaleb(p)
            low, high = math.ceil(Decimal(repr(first)) / step), math.floor(Decimal(repr(last)) / step)
            if high - low < most:
                return [float(i * step) for i in range(low, high + 1)]
    return [first, last]


def short(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _text(words: str, x: float, y: float, kind: str, *, middle: bool = False, most: int = NOTE) -> str:
    low = ' dy=".32em"' if middle else ""
    return f'<text class="{kind}" x="{short(x)}" y="{short(y)}"{low}>{escaped(words, most)}</text>'


def _mark(number: int, x: float, y: float) -> str:
    return f'<use class="mark c{number % COLOURS}" href="#k{number % len(SHAPES)}" x="{short(x)}" y="{short(y)}"/>'


def _steps(places: Sequence[Point]) -> list[Point]:
    """Return a staircase: each value holds up to the next place."""
    return [places[0], *(point for (_, y), place in pairwise(places) for point in ((place[0], y), place))]


def _plain(value: float) -> str:
    """Return a tick's text."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 and value == int(value) else f"{value:g}"
