"""Charts of any page, as SVG: lines, steps and bars with names beside them, shapes and dashes that need no colour.

Nothing here rounds what is promised: texts come as they are to be shown, places are for the eye.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epsworth.reports.drawn import SHAPES, apart, short, stepped, ticks
from epsworth.reports.escaping import escaped

LABEL = 20  # characters of a name beside a curve
NAMES = 150  # width that they take
WORD = 25  # characters of a name before a bar
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
    """One curve: plain points, a name, and how it is drawn."""

    name: str
    points: Sequence[Point]
    kind: str = "line"  # or step, or dots
    colour: int | None = None


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
        Where the slider stands; with ``moved`` its name.
    marks : dict
        Points by the names under which the script moves them: curve's number, x, y.
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
    marks: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    width: int = 660
    height: int = 320
    left: int = 62
    top: int = 26
    base: int = 274

    @property
    def right(self) -> int:
        """Where the plot ends, and names begin."""
        return self.width - (NAMES if len(self.lines) > 1 else 16)

    def place(self, x: float, y: float) -> Point:
        """Return where a point lies."""
        return self.left + (self.right - self.left) * self.x.at(x), self.base - (self.base - self.top) * self.y.at(y)

    def moves(self, points: Iterable[Point]) -> list[str]:
        """Return where the script moves a mark to, by stop."""
        return ["{} {}".format(*map(short, self.place(*point))) for point in points]

    def cursors(self, values: Iterable[float]) -> list[str]:
        """Return where the script moves the cursor to, by stop."""
        return [f"{short(self.place(value, self.y.low)[0])} 0" for value in values]

    def svg(self) -> str:
        """Return the picture."""
        parts = [self._spans(), self._axes()]
        numbered = [(line, i if line.colour is None else line.colour) for i, line in enumerate(self.lines)]
        parts += [self._line(line, number) for line, number in numbered]
        if len(self.lines) > 1:
            parts.append(self._names(numbered))
        parts += [self._rule(value, name) for value, name in self.rules]
        parts += [self._post(value, name) for value, name in self.posts]
        if self.cursor is not None:
            (place,) = self.cursors([self.cursor])
            mark = f' id="{self.moved}"' if self.moved else ""
            parts.append(f'<path class="cursor"{mark} transform="translate({place})" d="M0 {self.top}V{self.base}"/>')
        for name, (number, x, y) in self.marks.items():
            (place,) = self.moves([(x, y)])
            parts.append(f'<circle class="point chosen c{number}" id="{name}" r="4.5" transform="translate({place})"/>')
        return _panel(self.width, self.height, self.what, parts)

    def _axes(self) -> str:
        parts = []
        for value, text in self.y.ticks(7):
            y = short(self.place(self.x.low, value)[1])
            parts.append(f'<path class="grid" d="M{self.left} {y}H{self.right}"/>')
            parts.append(f'<text class="end" x="{self.left - 6}" y="{y}" dy=".32em">{text}</text>')
        for value, text in self.x.ticks(7):
            x = short(self.place(value, self.y.low)[0])
            parts.append(f'<path class="tick" d="M{x} {self.base}v4"/>')
            parts.append(f'<text class="mid" x="{x}" y="{self.base + 18}">{text}</text>')
        middle = (self.left + self.right) // 2
        parts.append(f'<path class="axis" d="M{self.left} {self.base}H{self.right}"/>')
        parts.append(f'<text class="mid axis-name" x="{middle}" y="{self.base + 38}">{escaped(self.x.title)}</text>')
        parts.append(f'<text class="axis-name" x="4" y="14">{escaped(self.y.title)}</text>')
        return "".join(parts)

    def _line(self, line: Line, number: int) -> str:
        places = [self.place(*point) for point in line.points]
        if not places:
            return ""
        every = max(1, len(places) // 6)
        marks = places if line.kind == "dots" else places[(2 * number) % every :: every] if line.kind == "line" else []
        drawn = ""
        if line.kind != "dots":
            path = _steps(places) if line.kind == "step" else places
            xs, ys = zip(*path, strict=True)
            drawn = f'<path class="line curve c{number % 7}" {stepped(xs, ys)}/>'
        return drawn + "".join(_mark(number, *place) for place in marks)

    def _names(self, numbered: Sequence[tuple[Line, int]]) -> str:
        """Name each curve at its end, moved apart where ends lie close."""
        ends = [(*self.place(*line.points[-1]), n, line.name) for line, n in numbered if line.points]
        ends.sort(key=lambda end: end[1])
        places = apart([end[1] for end in ends], self.base)
        x = self.right
        return "".join(
            f'<path class="leader" d="M{short(at)} {short(y)}L{x + 10} {short(place)}"/>{_mark(number, x + 14, place)}'
            f'<text class="label" x="{x + 22}" y="{short(place)}" dy=".32em">{escaped(name, LABEL)}</text>'
            for (at, y, number, name), place in zip(ends, places, strict=True)
        )

    def _spans(self) -> str:
        parts = []
        for low, high, name in self.spans:
            a, b = (self.place(value, self.y.low)[0] for value in (low, high))
            parts.append(
                f'<path class="span" d="M{short(a)} {self.top}H{short(b)}V{self.base}H{short(a)}z"/>'
                f'<path class="edge" d="M{short(a)} {self.top}V{self.base}M{short(b)} {self.top}V{self.base}"/>'
                f'<text class="mid halo" x="{short((a + b) / 2)}" y="{self.top - 6}">{escaped(name)}</text>'
            )
        return "".join(parts)

    def _rule(self, value: float, name: str) -> str:
        y = self.place(self.x.low, value)[1]
        return (
            f'<g class="target"><path d="M{self.left} {short(y)}H{self.right}"/>'
            f'<text class="halo" x="{self.left + 4}" y="{short(y - 5 if y > self.top + 16 else y + 14)}">'
            f"{escaped(name)}</text></g>"
        )

    def _post(self, value: float, name: str) -> str:
        x = self.place(value, self.y.low)[0]
        side, shift = ("end", -5) if x > (self.left + self.right) / 2 else ("start", 5)
        return (
            f'<g class="target"><path d="M{short(x)} {self.top}V{self.base}"/>'
            f'<text class="halo {side}" x="{short(x + shift)}" y="{self.top + 12}">{escaped(name)}</text></g>'
        )


@dataclass(frozen=True)
class Bar:
    """A bar: name, length, the text at its end, and whether it is promised; what is not is outlined."""

    name: str
    value: float
    text: str
    promised: bool = True


def bar_chart(what: str, title: str, bars: Sequence[Bar], rule: tuple[float, str] | None = None) -> str:
    """Return bars from nought, names before and texts behind them; a rule upright across all."""
    width, left, right, step = 660, 230, 580, 40 if any(" (" in bar.name for bar in bars) else 24
    most = max([bar.value for bar in bars] + ([] if rule is None else [rule[0]]) + [0.0]) or 1.0
    top = 34 if rule is not None else 12
    base = top + step * len(bars)

    def x(value: float) -> str:
        return short(left + (right - left) * value / most)

    parts = [f'<path class="grid" d="M{x(v)} {top}V{base}"/>' for v in ticks(0, most, 6)]
    for row, bar in enumerate(bars):
        y, end = top + step * row + 4, float(x(bar.value)) + 6
        kind = f"block c{0 if bar.promised else 1}{'' if bar.promised else ' claimed'}"
        lines = [escaped(line, WORD) for line in bar.name.replace(" (", "\n(", 1).split("\n")]  # brackets below
        parts += [
            f'<text class="end{" label" * (n == 0)}" x="{left - 8}" y="{y + 8 + 17 * n}" dy=".32em">{line}</text>'
            for n, line in enumerate(lines)
        ]
        parts.append(
            f'<path class="{kind}" d="M{left} {y}H{x(bar.value)}V{y + 16}H{left}z"/>'
            f'<text class="label" x="{short(end)}" y="{y + 8}" dy=".32em">{escaped(bar.text)}</text>'
        )
    parts += [f'<text class="mid" x="{x(v)}" y="{base + 16}">{_plain(v)}</text>' for v in ticks(0, most, 6)]
    parts.append(f'<path class="axis" d="M{left} {top}V{base}"/>')
    parts.append(f'<text class="mid axis-name" x="{(left + right) // 2}" y="{base + 36}">{escaped(title)}</text>')
    if rule is not None:
        at = float(x(rule[0]))
        side = "end" if at > (left + right) / 2 else "start"
        parts.append(
            f'<g class="target"><path d="M{short(at)} {top - 8}V{base}"/>'
            f'<text class="{side}" x="{short(at)}" y="{top - 14}">{escaped(rule[1])}</text></g>'
        )
    return _panel(width, base + 44, what, parts)


def _panel(width: int, height: int, what: str, parts: Iterable[Any]) -> str:
    """Return a picture below what is seen on it, a sentence."""
    told = escaped(what, 400)
    return (
        f'<div class="panel"><p class="what" aria-hidden="true">{told}</p>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{told}">{"".join(parts)}</svg></div>'
    )


def _mark(number: int, x: float, y: float) -> str:
    return f'<use class="mark c{number % 7}" href="#k{number % len(SHAPES)}" x="{short(x)}" y="{short(y)}"/>'


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
