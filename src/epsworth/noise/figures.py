"""The pictures of a ranking, from plain numbers: densities, and costs against the width asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from epsworth.arrays import Floats
from epsworth.drawing import bare, check_plot, marked, new_axes, new_figure, save
from epsworth.noise.advice import RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes | None"], "Axes"]


class Pictured(Protocol):
    """What has panels: a ranking."""

    def panels(self) -> list[Panel]:
        """Return what draws each of them."""


def plot_noise(ranking: Pictured, path: str | Path) -> None:
    """Write the densities of the main choices, and their costs against the half-width of an absolute error."""
    path, draws = check_plot(path), ranking.panels()
    figure = new_figure((1.9 + 4.5 * len(draws), 4.1))
    panels = figure.subplots(1, len(draws), squeeze=False)[0]
    for draw, panel in zip(draws, panels, strict=True):
        draw(panel)
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    figure.supxlabel(RULE, fontsize=8, color="0.35")
    save(figure, path)


def draw_densities(
    y: Floats, curves: Mapping[str, Floats], region: tuple[float, float], ax: Axes | None, advised: str | None = None
) -> Axes:
    """Draw densities of a released value, the preferred region shaded."""
    ax = new_axes(ax)
    ax.axvspan(*region, color="0.95")
    for number, (name, density) in enumerate(curves.items()):
        ax.plot(y, density, **marked(number, len(y)), **_named(name, advised))
    ax.set_xlabel("released value; preferred region shaded")
    ax.set_ylabel("density")
    bare(ax)
    return ax


def draw_costs(
    widths: Floats, curves: Mapping[str, Floats], what: str, ax: Axes | None, advised: str | None = None
) -> Axes:
    """Draw costs against the half-width of an absolute error, of which the middle one was asked for."""
    ax = new_axes(ax)
    for number, (name, costs) in enumerate(curves.items()):
        ax.loglog(widths, costs, **marked(number, len(widths)), **_named(name, advised))
    ax.axvline(widths[len(widths) // 2], color="0.6", linestyle=":", linewidth=1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(lambda value, place: "")
    ax.set_xlabel("half-width that must be met; dotted: as asked")
    ax.set_ylabel(what)
    bare(ax)
    return ax


def _named(name: str, advised: str | None) -> dict[str, Any]:
    """Return a curve's label, and the width of its line."""
    return {"label": f"{name} (advised)", "linewidth": 2.6} if name == advised else {"label": name, "linewidth": 1.4}
