"""What drawings of any page share: shapes, round numbers on an axis, paths in few letters, labels that keep apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from epsworth import drawing
from epsworth.rounding import show_up

APART = 16  # between two labels at the ends of curves
SHAPES = (  # one per curve, so that colour is never needed to tell them apart
    '<circle r="3.6"/>', '<path d="M-3.4-3.4h6.8v6.8h-6.8z"/>', '<path d="M0-4.4L4.2 3.2H-4.2z"/>',
    '<path d="M0-4.8L4.8 0 0 4.8-4.8 0z"/>', '<path d="M0 4.4L4.2-3.2H-4.2z"/>',
)  # fmt: skip


def keys(count: int) -> str:
    """Return the shapes that mark curves, to be used by name."""
    shapes = "".join(f'<g id="k{m}">{SHAPES[m]}</g>' for m in range(min(count, len(SHAPES))))
    return f'<svg class="hidden" aria-hidden="true" width="0" height="0"><defs>{shapes}</defs></svg>'


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


def stepped(xs: Iterable[float], ys: Iterable[float], fine: int = 10, end: str = "") -> str:
    """Return a path in fine steps, each from the last point: a third of the letters of an absolute one."""
    at = [(round(fine * float(x)), round(fine * float(y))) for x, y in zip(xs, ys, strict=True)]
    steps = [(x - a, y - b) for (a, b), (x, y) in pairwise(at)]
    text = f"M{at[0][0]} {at[0][1]}l" + " ".join(f"{x} {y}" for x, y in steps or [(0, 0)])
    return f'transform="scale({1 / fine:g})" d="{text.replace(" -", "-")}{end}"'


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
