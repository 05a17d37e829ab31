"""What all plots share: where they may be written, colours and lines that everyone can tell apart, bare frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from epsworth.extras import needed
from epsworth.files import OutputError, check_writable, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# Okabe & Ito's palette, distinguishable without colour vision; dashes and shapes tell lines apart in grey
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", (0, (6, 1.6)), (0, (2.5, 1.2)), (0, (6, 1.4, 1.2, 1.4)), (0, (1.2, 1.2)))
SHAPES = ("o", "s", "^", "D", "v", "P")
MARKS = 6  # shapes along a line


def check_plot(path: str | Path) -> Path:
    """Check, before long work, that a plot can be written there."""
    path = check_writable(path)
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"cannot write {path}: a plot ends in {', '.join(FORMATS)}; change the ending")
    drawn_by("matplotlib")
    return path


def drawn_by(module: str) -> Any:
    """Import matplotlib or a module of it; nothing but plots needs them."""
    return needed(module, "plot", "drawing a plot")


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of such a width and height in inches, of no window."""
    figure: Figure = drawn_by("matplotlib.figure").Figure(figsize=size, layout="constrained")
    return figure


def new_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 3.9)) -> Axes:
    """Return the axes to draw on: those given, or the one panel of a new figure."""
    if ax is not None:
        return _straight(ax)
    panel: Axes = new_figure(size).subplots()
    return panel


def _straight(ax: object) -> Axes:
    """Return axes that lines and bands can be drawn on; refuse figures, arrays, and polar, 3d or map projections."""
    drawable = isinstance(ax, drawn_by("matplotlib.axes").Axes)
    panel: Any = ax
    if not drawable or panel.name != "rectilinear":
        told = f"{panel.name} axes" if drawable else f"a {type(ax).__name__}"
        raise TypeError(f"ax must be matplotlib Axes with two straight axes, got {told}")
    return cast("Axes", panel)


def line(number: int) -> dict[str, Any]:
    """Return colour and dashes of a line: no two of the first 35 share both."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number % len(STYLES)]}


def marked(number: int, points: int) -> dict[str, Any]:
    """Return colour, dashes and shapes of a line through so many points; no two lines' shapes stand at one point."""
    every = max(1, points // MARKS)
    return line(number) | {
        "marker": SHAPES[number % len(SHAPES)], "markersize": 4.5, "markevery": (number * every // len(SHAPES), every)
    }  # fmt: skip


def apart(places: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return the middles of things of such sizes, moved so that none covers another; if they fit, from low to high.

    Examples
    --------
    >>> apart([3.0, 3.0, 9.0], [2, 2, 2], 0, 10)
    [3.0, 5.0, 9.0]
    >>> apart([9.0, 9.5], [2, 2], 0, 10.0)
    [8.0, 10.0]
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved, gaps = [max(low, places[i]) for i in order], [(sizes[i] + sizes[j]) / 2 for i, j in pairwise(order)]
    for i, gap in enumerate(gaps):
        moved[i + 1] = max(moved[i + 1], moved[i] + gap)
    limit = high
    for i in reversed(range(len(moved))):  # back from the upper end, where they were pushed beyond it
        moved[i] = min(moved[i], limit)
        limit = moved[i] - (gaps[i - 1] if i else 0.0)
    return [place for _, place in sorted(zip(order, moved, strict=True))]


def name_ends(panel: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Name lines beside their ends, right of a panel whose limits are set.

    Parameters
    ----------
    ends : sequence of (x, y, name, colour)
        Where each line ends, in the panel's units.
    """
    tall = panel.get_window_extent().height * 72 / panel.figure.dpi  # in points
    inside = panel.transData + panel.transAxes.inverted()
    at = [inside.transform((x, y)) for x, y, *_ in ends]
    sizes = [11.5 * (name.count("\n") + 1) / tall for *_, name, _ in ends]
    places = apart([y for _, y in at], sizes, 0.0, 1.0)
    for (x, y), place, (*_, name, colour) in zip(at, places, ends, strict=True):
        panel.annotate(
            name, (x, y), (1.035, place), xycoords="axes fraction", textcoords="axes fraction", fontsize=8,
            color=colour, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
        )  # fmt: skip


def bare(panel: Axes) -> None:
    """Leave out the frame's upper and right side."""
    panel.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
