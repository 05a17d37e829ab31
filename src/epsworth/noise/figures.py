"""The pictures of a ranking, from plain numbers: densities, and epsilons against the width asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from epsworth.arrays import Floats
from epsworth.drawing import bare, check_plot, marked, new_axes, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes | None"], "Axes"]


class Pictured(Protocol):
    """What has panels: a ranking."""

    def panels(self) -> list[Panel]:
        """Return what draws each of them."""


def plot_noise(ranking: Pictured, path: str | Path) -> None:
    """Write the densities of the main choices, and their epsilons against the half-width of an absolute error."""
    path, draws = check_plot(path), ranking.panels()
    figure = new_figure((1.5 + 4.5 * len(draws), 3.9))
    panels = figure.subplots(1, len(draws), squeeze=False)[0]
    for draw, panel in zip(draws, panels, strict=True):
        draw(panel)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    save(figure, path)


def draw_densities(y: Floats, curves: Mapping[str, Floats], region: tuple[float, float], ax: Axes | None) -> Axes:
    """Draw densities of a released value, the preferred region shaded."""
    ax = new_axes(ax)
    ax.axvspan(*region, color="0.95")
    for number, (name, density) in enumerate(curves.items()):
        ax.plot(y, density, **marked(number, len(y)), label=name)
    ax.set_xlabel("released value; preferred region shaded")
    ax.set_ylabel("density")
    bare(ax)
    return ax


def draw_epsilons(widths: Floats, curves: Mapping[str, Floats], delta: float, ax: Axes | None) -> Axes:
    """Draw epsilons against the half-width of an absolute error."""
    ax = new_axes(ax)
    for number, (name, epsilons) in enumerate(curves.items()):
        ax.loglog(widths, epsilons, **marked(number, len(widths)), label=name)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(lambda value, place: "")
    ax.set_xlabel("half-width that must be met")
    ax.set_ylabel(f"epsilon, delta {delta:g}")
    bare(ax)
    return ax
