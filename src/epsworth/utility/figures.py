"""Plots of curves: a band per mechanism (the truth lies inside) under the ceiling that nobody can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from epsworth.arrays import Floats
from epsworth.drawing import bare, check_plot, line, new_axes, save
from epsworth.results import how_sure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5), "frameon": False, "fontsize": 9}


class Drawn(Protocol):
    """Bounds that draw themselves, such as `Curves`."""

    @property
    def confidence(self) -> float:
        """With which all of them hold."""

    def plot(self, ax: Axes | None, *, on: str | int, of: Literal["stability", "accuracy"]) -> Axes:
        """Draw one view of them."""


def plot_curves(
    curves: Drawn | Mapping[str, Drawn],
    path: str | Path,
    *,
    on: Sequence[str | int] = ("average", "worst"),
    of: Literal["stability", "accuracy"] = "stability",
) -> None:
    """Write a figure: one row per classifier, one panel per view.

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
    """
    from matplotlib.figure import Figure

    path = check_plot(path)
    rows = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    figure = Figure(figsize=(4.6 * len(on) + 1.7, 3.5 * len(rows) + 0.4), layout="constrained")
    panels = figure.subplots(len(rows), len(on), squeeze=False, sharex=True, sharey=True)
    for row, (title, found) in zip(panels, rows.items(), strict=True):
        for panel, view in zip(row, on, strict=True):
            found.plot(panel, on=view, of=of).label_outer()
            panel.set_title(", ".join(filter(None, [title, panel.get_title("left")])), fontsize=10, loc="left")
    legends = [row[0].get_legend_handles_labels() for row in panels]
    if len({tuple(labels) for _, labels in legends}) == 1:
        figure.legend(*legends[0], loc="outside right center", frameon=False, fontsize=9)
    else:  # colours stand for other mechanisms in every row
        for row in panels:
            row[-1].legend(**BESIDE)
    sure = how_sure(min(found.confidence for found in rows.values()))
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


def draw_bands(
    ax: Axes | None,
    epsilons: Floats,
    lower: Floats,
    upper: Floats,
    *,
    names: Sequence[str],
    caps: Sequence[float] | None,
) -> Axes:
    """Draw bounds, shape ``(names, epsilons)``, under what no mechanism can promise; new axes get a legend."""
    panel = new_axes(ax)
    marker: dict[str, Any] = {"marker": "o"} if epsilons.size == 1 else {}
    for m, name in enumerate(names):
        panel.fill_between(epsilons, lower[m], upper[m], color=line(m)["color"], alpha=0.15, linewidth=0)
        panel.plot(epsilons, lower[m], **line(m), linewidth=1.6, label=name, **marker)
    if caps is not None:
        panel.plot(epsilons, caps, color="0.5", linewidth=1, linestyle=(0, (1, 1)))
        panel.annotate(
            "no mechanism of these budgets\ncan promise more to every input", (epsilons[0], caps[0]),
            xytext=(6, -2), textcoords="offset points", fontsize=7.5, color="0.4", va="top",
        )  # fmt: skip
    panel.set_ylim(0, 1.02)
    panel.grid(color="0.92", linewidth=0.8)
    panel.set_axisbelow(True)
    bare(panel)
    if ax is None:
        panel.legend(**BESIDE)
    return panel
