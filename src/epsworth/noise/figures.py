"""What a ranking looks like: densities, costs against the width asked for, and the shape of one noise in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.drawing import bare, check_plot, marked, new_axes, new_figure, save
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.steps import Lattice, Points
from epsworth.noise.choice import RULE, Choice
from epsworth.noise.lattice import LatticeNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epsworth.noise.ranking import Ranking

Panel = Callable[["Axes | None"], "Axes"]
BINS = 81  # an odd number, so that the true answer lies within one; its edges are not those of the region
REACH = 1.0  # half-widths of the region that are shown beyond it, on either side


def plot_noise(ranking: Ranking, path: str | Path) -> None:
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


def density(law: Law, y: Floats) -> Floats:
    """Return a law's density or, of points, their chance over their distance."""
    if not isinstance(law, (Lattice, Points)):
        return law.pdf(y)
    return (law.cdf(y + law.step / 2) - law.cdf(y - law.step / 2)) / law.step


def shape_of(choice: Choice) -> dict[str, Any]:
    """Return the chance of each bin around the region, for the true answer where it is narrowest.

    A noise on a lattice gets bins around its points, so that no point lies on an edge and is counted twice.

    Examples
    --------
    >>> from epsworth.noise import cheapest
    >>> shape = shape_of(cheapest(5, confidence=0.95, delta=0).named("laplace"))
    >>> shape["within"], len(shape["edges"]) - len(shape["chance"]), sum(shape["chance"]) > 0.99
    ([-5.0, 5.0], 1, True)
    """
    answer = float(choice.region.hardest[0])
    low, high = (float(end) for end in choice.region.ends(answer))
    reach = REACH * (high - low) / 2
    first, last = low - reach, high + reach
    noise, law = choice.noise, choice.law(answer)
    if isinstance(noise, LatticeNoise):
        points = max(1, int((last - first) / noise.step))
        width = noise.step * max(1, 2 * round(points / BINS / 2 - 0.5) + 1)  # an odd number of points
        count = int((last - answer) / width)
        edges = answer + width * (np.arange(-count, count + 2) - 0.5)
    else:
        edges = np.linspace(first, last, BINS + 1)
    chance = np.asarray(law.cell_masses(edges), dtype=np.float64)
    return {"answer": answer, "within": [low, high], "edges": edges.tolist(), "chance": chance.tolist()}
