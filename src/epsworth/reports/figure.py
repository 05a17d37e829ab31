"""The pictures of the utility page, as SVG: curves with their bands, what was asked for, what is looked at.

Everything that never moves is drawn here, once per view; the script moves three groups. Colours, dashes and
type sizes stand in the style sheet, by class: the page's policy admits no style of an element's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.reports.drawn import SHAPES, apart, short, stepped, ticks
from epsworth.reports.escaping import escaped
from epsworth.reports.numbers import Shown, View

TOGETHER = 5  # curves in one panel; more get a panel each
FAR = 40  # ratio of epsilons from which on their axis is logarithmic
LABEL = 16  # characters of such a label
ROOM = 18  # above the target's line, for its name


@dataclass(frozen=True)
class Frame:
    """Where a panel's axes lie, and what they run from and to."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    first: float
    last: float
    low: float

    @property
    def log(self) -> bool:
        """Whether the epsilons' axis is logarithmic."""
        return self.last > FAR * self.first

    @property
    def fine(self) -> int:
        """How many steps of a path make a unit: fewer where panels are many."""
        return 10 if self.width > 400 else 5

    @property
    def span(self) -> int:
        """Width of the plot."""
        return self.width - self.left - self.right

    @property
    def tall(self) -> int:
        """Height of the plot."""
        return self.height - self.top - self.bottom

    def x(self, total: float | Floats) -> Any:
        """Return where an epsilon per record lies."""
        at, first, last = (np.log(v) if self.log else np.asarray(v) for v in (total, self.first, self.last))
        return self.left + self.span * ((at - first) / (last - first) if last > first else 0.5 + 0 * at)

    def y(self, share: float | Floats) -> Any:
        """Return where a probability lies."""
        return self.top + self.tall * (1 - (np.maximum(share, self.low) - self.low) / (1 - self.low))

    def to_dict(self) -> dict[str, Any]:
        """Return what the script needs to move things."""
        names = ("left", "span", "top", "tall", "first", "last", "low", "log")
        return {name: getattr(self, name) for name in names}


def frame_of(shown: Shown, view: View) -> Frame:
    """Return the frame of a view's panels."""
    low = min(0.5, math.floor(10 * float(view.bounds.lower.min())) / 10)
    ends = shown.stops[0], shown.stops[-1]
    if len(shown.names) <= TOGETHER:
        return Frame(660, 380, 58, 152, 46, 46, *ends, low)
    return Frame(300, 210, 50, 14, 12, 34, *ends, low)


def figure(shown: Shown, number: int, point: tuple[int, int] | None) -> str:
    """Return the panels of a view: one for a few curves, else one each, the others behind it in grey."""
    view = shown.views[number]
    frame, names = frame_of(shown, view), range(len(shown.names))
    groups = [list(names)] if len(names) <= TOGETHER else [[m] for m in names]
    return "".join(
        f'<div class="panel{" alone" if len(groups) > 1 else ""}" data-of="{",".join(map(str, bold))}">'
        + f'<div class="names">{"".join(_name(shown, m) for m in bold)}</div>'
        + _panel(shown, number, frame, bold, point)
        + "</div>"
        for bold in groups
    )


def _name(shown: Shown, m: int) -> str:
    return f'<p class="name">{_key(m)}<bdi>{escaped(shown.names[m])}</bdi></p>'


def _key(m: int) -> str:
    return f'<svg class="key" viewBox="0 0 26 8" aria-hidden="true"><path class="line c{m % 7}" d="M0 4h26"/></svg>'


def _panel(shown: Shown, number: int, frame: Frame, bold: Sequence[int], point: tuple[int, int] | None) -> str:
    view, together = shown.views[number], len(bold) > 1 or len(shown.names) == 1
    names = ", ".join(shown.names[m] for m in bold)
    what = f"{view.of.capitalize()}, {view.title}, at least, by ε per record: {names}."
    parts = [_axes(frame, shown, together)]
    if view.limited and int(shown.curves.labels_possible.max()) > 1:
        parts.append(_ceiling(shown, frame, number, bold))
    parts.append(f"<defs>{''.join(_line(shown, view, frame, number, m) for m in bold)}</defs>")
    if not together:
        parts += [f'<use class="other" href="#v{number}m{m}"/>' for m in range(len(shown.names)) if m not in bold]
    parts += [f'<path class="band c{m % 7}" {_band(shown, view, frame, m)}/>' for m in bold]
    parts += [f'<use class="line c{m % 7}" href="#v{number}m{m}"/>' for m in bold]
    if together:
        parts += [_marks(shown, view, frame, m) for m in bold]
        parts.append(_labels(shown, view, frame, bold))
    parts.append(_moving(shown, view, frame, bold, point))
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{escaped(what, 400)}">'
        f"{''.join(parts)}</svg>"
    )


def _axes(frame: Frame, shown: Shown, large: bool) -> str:
    right, base = frame.width - frame.right, frame.height - frame.bottom
    parts = []
    for share in _shares(frame.low, large):
        y = short(float(frame.y(share)))
        parts.append(f'<path class="grid" d="M{frame.left} {y}H{right}"/>')
        parts.append(f'<text class="end" x="{frame.left - 6}" y="{y}" dy=".32em">{round(100 * share)} %</text>')
    for total in _ticks(frame, 7 if large else 4):
        x = short(float(frame.x(total)))
        parts.append(
            f'<path class="tick" d="M{x} {base}v4"/><text class="mid" x="{x}" y="{base + 18}">{total:g}</text>'
        )
    middle = frame.left + frame.span // 2
    parts.append(f'<path class="axis" d="M{frame.left} {base}H{right}"/>')
    parts.append(f'<text class="mid axis-name" x="{middle}" y="{base + (38 if large else 32)}">ε per record</text>')
    return "".join(parts)


def _shares(low: float, large: bool) -> list[float]:
    step = 0.1 if low >= 0.5 and large else 0.2 if low >= 0.2 or large else 0.5
    count = int((1 - low) / step + 1e-9)
    return [1 - step * i for i in range(count + 1)]


def _ticks(frame: Frame, most: int, divided: int = 1) -> list[float]:
    return ticks(frame.first / divided, frame.last / divided, most, log=frame.log)


def _points(frame: Frame, xs: Iterable[float], ys: Iterable[float], end: str = "") -> str:
    return stepped(xs, ys, frame.fine, end)


def _line(shown: Shown, view: View, frame: Frame, number: int, m: int) -> str:
    path = _points(frame, frame.x(shown.totals[m]), frame.y(view.bounds.lower[m]))
    return f'<path class="curve" id="v{number}m{m}" {path}/>'


def _band(shown: Shown, view: View, frame: Frame, m: int) -> str:
    x, low, high = frame.x(shown.totals[m]), frame.y(view.bounds.lower[m]), frame.y(view.bounds.upper[m])
    return _points(frame, [*x, *x[::-1]], [*low, *high[::-1]], "z")


def _ceiling(shown: Shown, frame: Frame, number: int, bold: Sequence[int]) -> str:
    """Return what no mechanism can promise: drawn once, shown in every panel."""
    path = _points(frame, frame.x(np.array(shown.stops)), frame.y(np.array(shown.caps)))
    drawn = f'<defs><path class="curve" id="v{number}cap" {path}/></defs>' if 0 in bold else ""
    x, y = frame.left + 8, short(float(frame.y(shown.caps[0])) + 18)
    told = f'<text class="halo" x="{x}" y="{y}">ceiling</text>' if frame.width > 400 else ""
    return f'{drawn}<use class="ceiling" href="#v{number}cap"/>{told}'


def _marks(shown: Shown, view: View, frame: Frame, m: int) -> str:
    count, every = len(shown.at), max(1, len(shown.at) // 6)
    at = range((m * every) // len(SHAPES) % max(1, count), count, every)
    x, y = frame.x(shown.totals[m]), frame.y(view.bounds.lower[m])
    return "".join(
        f'<use class="mark c{m % 7}" href="#k{m % len(SHAPES)}" x="{short(float(x[e]))}" y="{short(float(y[e]))}"/>'
        for e in at
    )


def _labels(shown: Shown, view: View, frame: Frame, bold: Sequence[int]) -> str:
    """Name each curve at its end, moved apart where ends lie close."""
    ends = sorted((float(frame.y(view.bounds.lower[m, -1])), m) for m in bold)
    places = apart([y for y, _ in ends], frame.height - frame.bottom)
    x, last = frame.width - frame.right, [short(float(at)) for at in frame.x(shown.totals[:, -1])]
    names = [escaped(name, LABEL) for name in shown.curves.mechanisms]
    return "".join(
        f'<path class="leader" d="M{last[m]} {short(y)}L{x + 10} {short(place)}"/>'
        f'<use class="mark c{m % 7}" href="#k{m % len(SHAPES)}" x="{x + 14}" y="{short(place)}"/>'
        f'<text class="label" x="{x + 22}" y="{short(place)}" dy=".32em">{names[m]}</text>'
        for (y, m), place in zip(ends, places, strict=True)
    )


def _moving(shown: Shown, view: View, frame: Frame, bold: Sequence[int], point: tuple[int, int] | None) -> str:
    """Return what the script moves: the target, the epsilon looked at, a point on each curve."""
    right, base = frame.width - frame.right, frame.height - frame.bottom
    total = shown.stops[-1] if point is None else float(shown.totals[point])
    target = short(float(frame.y(shown.found.at_least)))
    above = float(target) >= frame.top + ROOM
    parts = [
        f'<g class="target" transform="translate(0 {target})"><path d="M{frame.left} 0H{right}"/>'
        f'<text class="halo" x="{frame.left + 4}" y="{-5 if above else 14}">asked for</text></g>',
        f'<path class="cursor" transform="translate({short(float(frame.x(total)))} 0)" d="M0 {frame.top}V{base}"/>',
    ]
    for m, e in enumerate(shown.affordable(total)):
        if m in bold:
            x, y = (0.0, 0.0) if e is None else (frame.x(shown.totals[m, e]), frame.y(view.bounds.lower[m, e]))
            chosen = " chosen" if point is not None and m == point[0] else ""
            place = f'transform="translate({short(float(x))} {short(float(y))})"'
            hidden = ' visibility="hidden"' if e is None else ""
            parts.append(f'<circle class="point c{m % 7}{chosen}" data-m="{m}" r="4" {place}{hidden}/>')
    return "".join(parts)
