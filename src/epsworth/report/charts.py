"""Pictures of any page, as SVG: lines, steps and bars with names beside them, shapes and dashes that need no colour.

Nothing here rounds what is promised: texts come as they are to be shown, places are for the eye. Colours, dashes and
type sizes stand in the style sheet, by class: a page's policy admits no style of an element's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from epsworth import drawing
from epsworth.report.escaping import cleaned, escaped, markup
from epsworth.rounding import round_up, show_up

if TYPE_CHECKING:
    from markupsafe import Markup

LABEL, WORD = 20, 25  # characters of a name beside a curve, and before a bar
NAMES = 150  # width that names beside curves take
APART = 16  # between two of them
COLOURS = 7
SHAPES = (  # one per curve, so that colour is never needed to tell them apart
    '<circle r="3.6"/>', '<path d="M-3.4-3.4h6.8v6.8h-6.8z"/>', '<path d="M0-4.4L4.2 3.2H-4.2z"/>',
    '<path d="M0-4.8L4.8 0 0 4.8-4.8 0z"/>', '<path d="M0 4.4L4.2-3.2H-4.2z"/>',
)  # fmt: skip
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What an axis says and spans."""

    title: str
    low: float
    high: float
    log: bool = False
    percent: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1; what lies beyond them is at the nearer one."""
        value, low, high = min(max(value, self.low), self.high), self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low) if high > low else 0.5

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return values and their texts."""
        found = ticks(self.low, self.high, most, log=self.log)
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
    """A picture with two axes.

    Attributes
    ----------
    what : str
        What is seen, for those who cannot.
    spans : sequence of (low, high, name)
        Shaded parts of the lower axis.
    rules, posts : sequence of (value, name)
        Lines across and upright.
    cursor : float, optional
        Where the slider stands; ``moved`` is its name.
    behind : sequence of str
        Curves of other pictures, by key.
    over : str
        SVG on top of all.
    """

    what: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    spans: Sequence[tuple[float, float, str]] = ()
    rules: Sequence[tuple[float, str]] = ()
    posts: Sequence[tuple[float, str]] = ()
    cursor: float | None = None
    moved: str = ""
    behind: Sequence[str] = ()
    over: str = ""
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
        place = self.cursors([value])[0]
        return f'<path class="cursor"{mark} transform="translate({place})" d="M0 {self.top}V{self.base}"/>'

    def panel(self) -> Markup:
        """Return the picture below what is seen on it."""
        return panel(self.what, self.svg())

    def svg(self) -> Markup:
        """Return the picture."""
        numbered = [(line, i if line.colour is None else line.colour) for i, line in enumerate(self.lines)]
        parts = [self._spans(), self._axes()]
        parts += [f'<use class="other" href="#{key}"/>' for key in self.behind]
        parts += [self._band(line, number) for line, number in numbered if len(line.upper)]
        parts += [self._line(line, number) for line, number in numbered]
        parts += [self._names(numbered)] if self.names else []
        parts += [self._rule(value, name) for value, name in self.rules]
        parts += [self._post(value, name) for value, name in self.posts]
        parts += [] if self.cursor is None else [self.upright(self.cursor, f' id="{self.moved}"')]
        return svg_of(self.width, self.height, self.what, [*parts, self.over])

    def _axes(self) -> str:
        parts, large = [], self.large
        for value, words in self.y.ticks(7 if large else 4):
            y = short(self.place(self.x.low, value)[1])
            parts.append(f'<path class="grid" d="M{self.left} {y}H{self.right}"/>')
            parts.append(f'<text class="end" x="{self.left - 6}" y="{y}" dy=".32em">{words}</text>')
        for value, words in self.x.ticks(7 if large else 4):
            x = short(self.place(value, self.y.low)[0])
            parts.append(f'<path class="tick" d="M{x} {self.base}v4"/>')
            parts.append(f'<text class="mid" x="{x}" y="{self.base + 18}">{words}</text>')
        middle = (self.left + self.right) // 2
        parts.append(f'<path class="axis" d="M{self.left} {self.base}H{self.right}"/>')
        parts.append(_text(self.x.title, middle, self.base + (38 if large else 32), "mid axis-name"))
        parts += [_text(self.y.title, 4, 14, "axis-name")] if self.y.title else []
        return "".join(parts)

    def _line(self, line: Line, number: int) -> str:
        places = [self.place(*point) for point in line.points]
        if not places:
            return ""
        every = max(1, len(places) // 6)
        first = (2 * number) % every
        marks = places[first::every] if line.kind == "line" else []
        path = stepped(_steps(places) if line.kind == "step" else places, 10 if self.large else 5)
        kind = f"line c{number % COLOURS}"
        drawn = f'<path class="{kind} curve" {path}/>'
        if line.key:
            shown = f'<use class="{kind}" href="#{line.key}"/>'
            drawn = f'<defs><path class="curve" id="{line.key}" {path}/></defs>{shown}'
        return drawn + "".join(_mark(number, *place) for place in marks)

    def _band(self, line: Line, number: int) -> str:
        low = [self.place(*point) for point in line.points]
        high = [self.place(x, up) for (x, _), up in zip(line.points, line.upper, strict=True)]
        return f'<path class="band c{number % COLOURS}" {stepped([*low, *high[::-1]], 10 if self.large else 5, "z")}/>'

    def _names(self, numbered: Sequence[tuple[Line, int]]) -> str:
        """Name each curve at its end, moved apart where ends lie close."""
        ends = [(*self.place(*line.points[-1]), n, line.name) for line, n in numbered if line.points]
        ends.sort(key=lambda end: end[1])
        x = self.right
        return "".join(
            f'<path class="leader" d="M{short(at)} {short(y)}L{x + 10} {short(place)}"/>{_mark(number, x + 14, place)}'
            f'<text class="label" x="{x + 22}" y="{short(place)}" dy=".32em">{escaped(name, LABEL)}</text>'
            for (at, y, number, name), place in zip(ends, apart([end[1] for end in ends], self.base), strict=True)
        )

    def _spans(self) -> str:
        parts = []
        for low, high, name in self.spans:
            a, b = (self.place(value, self.y.low)[0] for value in (low, high))
            parts.append(
                f'<path class="span" d="M{short(a)} {self.top}H{short(b)}V{self.base}H{short(a)}z"/>'
                f'<path class="edge" d="M{short(a)} {self.top}V{self.base}M{short(b)} {self.top}V{self.base}"/>'
                + _text(name, (a + b) / 2, self.top - 6, "mid halo")
            )
        return "".join(parts)

    def _rule(self, value: float, name: str) -> str:
        y = self.place(self.x.low, value)[1]
        words = _text(name, self.left + 4, y - 5 if y > self.top + 16 else y + 14, "halo")
        return f'<g class="target"><path d="M{self.left} {short(y)}H{self.right}"/>{words}</g>'

    def _post(self, value: float, name: str) -> str:
        x = self.place(value, self.y.low)[0]
        side, shift = ("end", -5) if x > (self.left + self.right) / 2 else ("start", 5)
        words = _text(name, x + shift, self.top + 12, f"halo {side}")
        return f'<g class="target"><path d="M{short(x)} {self.top}V{self.base}"/>{words}</g>'


@dataclass(frozen=True)
class Bar:
    """A bar: name, length, the text at its end, and whether it is promised; what is not is outlined."""

    name: str
    value: float
    text: str
    promised: bool = True


@dataclass(frozen=True)
class BarChart:
    """Bars from nought, names before and texts behind them; a rule upright across all."""

    what: str
    title: str
    bars: Sequence[Bar]
    rule: tuple[float, str] | None = None

    def panel(self) -> Markup:
        """Return the picture below what is seen on it."""
        bars, rule, left, right = self.bars, self.rule, 230, 580
        step = 40 if any(" (" in bar.name for bar in bars) else 24
        most = max([bar.value for bar in bars] + ([] if rule is None else [rule[0]]) + [0.0]) or 1.0
        top = 34 if rule is not None else 12
        base = top + step * len(bars)

        def x(value: float) -> float:
            return left + (right - left) * value / most

        parts = [f'<path class="grid" d="M{short(x(v))} {top}V{base}"/>' for v in ticks(0, most, 6)]
        parts += [self._bar(bar, top + step * row + 4, left, x(bar.value)) for row, bar in enumerate(bars)]
        parts += [_text(_plain(v), x(v), base + 16, "mid") for v in ticks(0, most, 6)]
        parts.append(f'<path class="axis" d="M{left} {top}V{base}"/>')
        parts.append(_text(self.title, (left + right) // 2, base + 36, "mid axis-name"))
        if rule is not None:
            end = x(rule[0])
            words = _text(rule[1], end, top - 14, "end" if end > (left + right) / 2 else "start")
            parts.append(f'<g class="target"><path d="M{short(end)} {top - 8}V{base}"/>{words}</g>')
        return panel(self.what, svg_of(660, base + 44, self.what, parts))

    @staticmethod
    def _bar(bar: Bar, y: int, left: int, end: float) -> str:
        kind = f"block c{0 if bar.promised else 1}{'' if bar.promised else ' claimed'}"
        names = "".join(  # brackets below
            f'<text class="end{" label" * (n == 0)}" x="{left - 8}" y="{y + 8 + 17 * n}" dy=".32em">'
            f"{escaped(line, WORD)}</text>"
            for n, line in enumerate(bar.name.replace(" (", "\n(", 1).split("\n"))
        )
        return (
            f'{names}<path class="{kind}" d="M{left} {y}H{short(end)}V{y + 16}H{left}z"/>'
            f'<text class="label" x="{short(end + 6)}" y="{y + 8}" dy=".32em">{escaped(bar.text)}</text>'
        )


def bar(width: float, key: str = "") -> Markup:
    """Return a bar of a share in per cent, within a table or a line."""
    mark = f' id="{key}"' if key else ""
    return markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><path d="M0 4h100"/>'
        f'<rect{mark} width="{round_up(width, 1):g}" height="8"/></svg>'
    )


def span(low: float, high: float, own: float, ends: Point) -> Markup:
    """Return a range within a declared one, and a value in it."""
    first, last = ends
    a, b, x = (min(100.0, max(0.0, 100 * (at - first) / (last - first))) for at in (low, high, own))
    return markup(
        '<svg class="bar span" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><path d="M0 4h100"/>'
        f'<rect x="{a:.1f}" width="{max(b - a, 0.3):.1f}" height="8"/><path class="at" d="M{x:.1f}-1v10"/></svg>'
    )


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


def stepped(places: Sequence[Point], fine: int = 10, end: str = "") -> str:
    """Return a path in fine steps, each from the last point: a third of the letters of an absolute one."""
    at = [(round(fine * x), round(fine * y)) for x, y in places]
    steps = [(x - a, y - b) for (a, b), (x, y) in pairwise(at)]
    path = f"M{at[0][0]} {at[0][1]}l" + " ".join(f"{x} {y}" for x, y in steps or [(0, 0)])
    return f'transform="scale({1 / fine:g})" d="{path.replace(" -", "-")}{end}"'


def apart(places: Sequence[float], most: float) -> list[float]:
    """Return where labels stand: apart, and, if they fit, from 0 to the last place that there is room for.

    Examples
    --------
    >>> apart([10, 12, 90], 80)
    [10, 26.0, 80]
    """
    return drawing.apart(places, [APART] * len(places), 0, most)


def short(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def panel(what: str, svg: Markup) -> Markup:
    """Return a picture below what is seen on it."""
    return markup('<div class="panel"><p class="what" aria-hidden="true">{}</p>{}</div>', cleaned(what, 400), svg)


def svg_of(width: int, height: int, what: str, parts: Iterable[Any]) -> Markup:
    """Return a picture that says what is seen on it to those who cannot."""
    told = escaped(what, 400)
    return markup(f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{told}">{"".join(parts)}</svg>')


def _text(words: str, x: float, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{short(x)}" y="{short(y)}">{escaped(words)}</text>'


def _mark(number: int, x: float, y: float) -> str:
    return f'<use class="mark c{number % COLOURS}" href="#k{number % len(SHAPES)}" x="{short(x)}" y="{short(y)}"/>'


def _steps(places: Sequence[Point]) -> list[Point]:
    """Return a staircase: each value holds up to the next place."""
    found = [places[0]]
    for x, y in places[1:]:
        found += [(x, found[-1][1]), (x, y)]
    return found


def _plain(value: float) -> str:
    """Return a tick's text.

    Examples
    --------
    >>> _plain(0.5), _plain(20000.0), _plain(1e9), _plain(3e-6)
    ('0.5', '20,000', '1e+09', '3e-06')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 and value == int(value) else f"{value:g}"
