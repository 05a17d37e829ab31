"""Curves as they are shown: rows of a table, and plots with a band per mechanism under the ceiling nobody can beat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.drawing import bare, check_plot, line, marked, name_ends, new_axes, new_figure, save
from epsworth.guarantees import Guarantee
from epsworth.results import how_sure
from epsworth.rounding import show_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epsworth.guarantees import Guarantee

TOGETHER = 5  # curves in one panel; more get a panel each
FAR = 40  # ratio of epsilons from which on their axis is logarithmic


class Chosen(Protocol):
    """A mechanism at an epsilon, as in `Choice`."""

    @property
    def mechanism(self) -> str:
        """As asked for."""

    @property
    def epsilon(self) -> float:
        """As on the grid."""

    @property
    def guarantee(self) -> Guarantee:
        """Promise per record."""


class Recommended(Protocol):
    """What was asked for, of which view, and what answers it; as in `Recommendation`."""

    @property
    def at_least(self) -> float:
        """What was asked for."""

    @property
    def on(self) -> str | int:
        """The view."""

    @property
    def of(self) -> Literal["stability", "accuracy"]:
        """The quantity."""

    @property
    def choice(self) -> Chosen | None:
        """What answers it."""


class Drawn(Protocol):
    """Bounds that draw themselves, such as `Curves`."""

    @property
    def confidence(self) -> float:
        """With which all of them hold."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Whose bounds they are."""

    def plot(
        self,
        ax: Axes | None,
        *,
        on: str | int,
        of: Literal["stability", "accuracy"],
        recommended: Recommended | None = None,
    ) -> Axes:
        """Draw one view of them."""


@dataclass(frozen=True)
class Bands:
    """What is drawn: bounds of shape ``(names, points)`` at epsilons of the same shape.

    Attributes
    ----------
    totals : ndarray
        Epsilons per record.
    ceiling : tuple of two lists, or None
        Epsilons per record, and what no mechanism can promise there.
    asked : float or None
        What was asked for.
    chosen : tuple of three, or None
        Number of a name, number of a point, and what is written beside it.
    """

    names: Sequence[str]
    totals: Floats
    lower: Floats
    upper: Floats
    ceiling: tuple[list[float], list[float]] | None = None
    asked: float | None = None
    chosen: tuple[int, int, str] | None = None

    @property
    def grid(self) -> tuple[int, int]:
        """How many panels stand below each other, and beside each other, where each name has its own."""
        return _grid(len(self.names))

    @property
    def least(self) -> float:
        """Where the axis of probabilities begins: at a half, or the tenth below all bounds."""
        lowest = min(float(self.lower.min()), 1.0 if self.asked is None else self.asked)
        return max(0.0, min(0.5, math.floor(10 * lowest) / 10))


def plot_curves(
    curves: Drawn | Mapping[str, Drawn],
    path: str | Path,
    *,
    on: Sequence[str | int] = ("average", "worst"),
    of: Literal["stability", "accuracy"] = "stability",
    recommended: Recommended | None = None,
) -> None:
    """Write a figure: one row per classifier, one panel per view; of more than five mechanisms a panel each.

    Parameters
    ----------
    curves : Curves or mapping from a title to Curves
        What to draw.
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    on : sequence
        Views: ``"average"``, ``"worst"``, record numbers.
    of : {"stability", "accuracy"}
        Quantity.
    recommended : Recommendation, optional
        Whose target and choice are drawn where they belong.
    """
    path = check_plot(path)
    rows = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    many = max(len(result.mechanisms) for result in rows.values())
    wide, tall = (5.6, 3.7) if many <= TOGETHER else (7.2, 1.65 * _grid(many)[0] + 0.6)
    figure = new_figure((wide * len(on), tall * len(rows) + 0.4))
    panels = figure.subplots(len(rows), len(on), squeeze=False)
    for row, (title, result) in zip(panels, rows.items(), strict=True):
        for panel, view in zip(row, on, strict=True):
            result.plot(panel, on=view, of=of, recommended=recommended)
            panel.set_title(", ".join(filter(None, [title, panel.get_title("left")])), fontsize=10, loc="left")
    sure = how_sure(min(result.confidence for result in rows.values()))
    figure.suptitle(f"Bands hold all at once {sure}", fontsize=9, color="0.35", x=0.01, ha="left")
    save(figure, path)


def draw_spans(
    ax: Axes | None, names: Sequence[str], low: Sequence[float], high: Sequence[float], *, mark: float, what: str
) -> Axes:
    """Draw a bar from low to high per name, and one mark across all of them."""
    panel, colour = new_axes(ax), line(0)["color"]
    widths = [b - a for a, b in zip(low, high, strict=True)]  # a bar of an exact answer has none, but an edge
    panel.barh(range(len(names)), widths, left=low, color=(colour, 0.5), edgecolor=colour, linewidth=1.6)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.axvline(mark, color="0.3", linewidth=1, linestyle=(0, (1, 1)))
    panel.set_xlabel(what)
    bare(panel)
    return panel


def draw_bands(ax: Axes | None, bands: Bands, *, what: str) -> Axes:
    """Draw bounds: named lines in one panel, or a small panel each within the axes where they are more than five."""
    many = len(bands.names) > TOGETHER
    panel = new_axes(ax, (7.4, 1.65 * bands.grid[0] + 0.6) if many else (7.4, 4.1))
    if many:
        _multiples(panel, bands, what)
    else:
        _together(panel, bands)
        panel.set_xlabel("epsilon per record")
        panel.set_ylabel(what)
    return panel


def _grid(count: int) -> tuple[int, int]:
    across = 3 if count <= 6 else 4
    return -(-count // across), across


def _together(panel: Axes, bands: Bands) -> None:
    numbers = range(len(bands.names))
    _curves(panel, bands, numbers)
    _frame(panel, bands)
    _beside(panel, bands)
    ends = [
        (bands.totals[m, -1], bands.lower[m, -1], bands.names[m].replace(" (", "\n("), line(m)["color"])
        for m in numbers
    ]
    name_ends(panel, [(float(x), float(y), name, colour) for x, y, name, colour in ends])


def _multiples(around: Axes, bands: Bands, what: str) -> None:
    """Draw each curve in a panel of its own within the axes, the others behind it in grey."""
    around.set_axis_off()
    (down, across), tall = bands.grid, around.get_window_extent().height / around.figure.dpi
    above, below, foot = (inches / tall for inches in (0.34, 0.24, 0.22))
    wide, high = 0.92 / across, (1 - foot) / down
    for m, name in enumerate(bands.names):
        row, column = divmod(m, across)
        corner = 0.08 + column * wide, foot + (down - 1 - row) * high + below
        panel = around.inset_axes((*corner, wide - 0.03, high - below - above))
        for other in range(len(bands.names)):
            if other != m:
                panel.plot(bands.totals[other], bands.lower[other], color="0.82", linewidth=0.9, zorder=1)
        _curves(panel, bands, [m])
        _frame(panel, bands)
        _beside(panel, bands, m)
        panel.set_title(name.replace(" (", "\n("), fontsize=8 if across == 3 else 6.7, loc="left", pad=3)
        panel.tick_params(labelsize=7.5)
        if panel.get_xscale() == "linear":
            panel.locator_params(axis="x", nbins=4)
        if column:
            panel.set_yticklabels([])
    around.text(0.5, 0, "epsilon per record", ha="center", fontsize=9, transform=around.transAxes)
    around.text(0.0, 0.5, what, ha="left", va="center", rotation=90, fontsize=9, transform=around.transAxes)


def _curves(panel: Axes, bands: Bands, numbers: Sequence[int]) -> None:
    for m in numbers:
        colour = line(m)["color"]
        panel.fill_between(bands.totals[m], bands.lower[m], bands.upper[m], color=colour, alpha=0.15, linewidth=0)
    for m in numbers:
        style = marked(m, bands.totals.shape[1])
        panel.plot(bands.totals[m], bands.lower[m], **style, linewidth=1.6, label=bands.names[m], zorder=3)


def _frame(panel: Axes, bands: Bands) -> None:
    low, high = float(bands.totals.min()), float(bands.totals.max())
    if high > FAR * low:
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
    panel.margins(x=0.03)
    if low == high:
        panel.set_xticks([low])
    panel.set_ylim(bands.least, 1 + 0.02 * (1 - bands.least))
    panel.grid(color="0.92", linewidth=0.8)
    panel.set_axisbelow(True)
    bare(panel)


def _beside(panel: Axes, bands: Bands, only: int | None = None) -> None:
    """Draw what the curves are held against: ceiling, target, choice; written out where there is room."""
    words = only is None
    small: dict[str, Any] = {
        "fontsize": 7.5, "color": "0.3", "textcoords": "offset points",
        "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
    }  # fmt: skip
    if bands.ceiling is not None:
        x, y = bands.ceiling
        panel.plot(x, y, color="0.45", linewidth=1, linestyle=(0, (1, 1)), zorder=2)
        if words:
            panel.annotate("ceiling over all inputs", (x[0], y[0]), xytext=(7, 0), va="top", **small)
    if bands.asked is not None:
        panel.axhline(bands.asked, color="0.3", linewidth=1, linestyle=(0, (5, 2)), zorder=2)
        if words:
            right = panel.get_xlim()[1], bands.asked
            panel.annotate(f"asked for: {bands.asked:g}", right, xytext=(-4, -3), va="top", ha="right", **small)
    if bands.chosen is not None and only in (None, bands.chosen[0]):
        m, e, said = bands.chosen
        at = float(bands.totals[m, e]), float(bands.lower[m, e])
        panel.plot(*at, marker="o", markersize=10, markerfacecolor="none", markeredgecolor="black", zorder=4)
        if words:
            panel.annotate(said, at, xytext=(9, -9), va="top", **small | {"color": "black"})


MOST_CHANGES = 5  # of a notion or a delta along the epsilons, that are printed


def view_of(on: str | int, count: int) -> str:
    """Name what is looked at.

    Examples
    --------
    >>> view_of("worst", 3), view_of(7, 20)
    ('worst of these 3 records', 'record 7')
    """
    if not isinstance(on, str):
        return f"record {on}"
    return f"average over {count} records" if on == "average" else f"worst of these {count} records"


def long_columns(
    mechanisms: Sequence[str], epsilons: Floats, bounds: Mapping[str, Interval]
) -> dict[str, NDArray[Any]]:
    """Return one row for every quantity, mechanism and epsilon, in this order, with its two bounds.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = {"average stability": Interval(np.array([[0.5, 0.75]]), np.array([[0.5, 1.0]]))}
    >>> long_columns(["pm"], np.array([1.0, 2.0]), bounds)["upper"].tolist()
    [0.5, 1.0]
    """
    each = (len(mechanisms), len(epsilons))
    return {
        "mechanism": np.tile(np.repeat(np.array(mechanisms), each[1]), len(bounds)),
        "epsilon": np.tile(epsilons, each[0] * len(bounds)),
        "quantity": np.repeat(np.array(list(bounds)), each[0] * each[1]),
        "lower": np.concatenate([np.ravel(one.lower) for one in bounds.values()]),
        "upper": np.concatenate([np.ravel(one.upper) for one in bounds.values()]),
    }


def span(epsilons: Floats) -> str:
    """Name the epsilons of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> span(np.array([1.0, 2.0])), span(np.array([1.0]))
    ('epsilon 1 to 2', 'epsilon 1')
    """
    first, last = show_up(float(epsilons[0])), show_up(float(epsilons[-1]))
    return f"epsilon {first}" if epsilons.size == 1 else f"epsilon {first} to {last}"


def promises(mechanisms: Sequence[str], epsilons: Floats, guarantees: Sequence[Sequence[Guarantee]]) -> list[str]:
    """Say which mechanisms keep which promise per record: at the smallest epsilon, and where notion or delta change."""
    result: dict[tuple[int, Guarantee], list[str]] = {}
    for name, row in zip(mechanisms, guarantees, strict=True):
        kinds = [(promise.notion, promise.delta) for promise in row]
        for e, promise in enumerate(row):
            if e == 0 or kinds[e] != kinds[e - 1]:
                result.setdefault((e, promise), []).append(name)
    first = [key for key in result if key[0] == 0]
    later = sorted((key for key in result if key[0] > 0), key=lambda key: key[0])
    lines = [
        f"{', '.join(result[e, promise])} at epsilon {show_up(epsilons[e])} per record: {promise}"
        for e, promise in [*first, *later[:MOST_CHANGES]]
    ]
    if len(later) > MOST_CHANGES:
        lines.append(f"notions or deltas change {len(later) - MOST_CHANGES} more times; `guarantees` holds all of them")
    return lines
