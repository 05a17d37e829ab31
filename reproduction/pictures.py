"""Draw the panels of an outcome as one SVG file, the same to the byte for the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.drawing import COLOURS, bare, drawn_by, line, new_figure
from reproduction.panels import Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS, WIDTH, HEIGHT = 3, 3.6, 3.1  # panels in a row, and inches of one
LISTED = 7  # names that fit under a panel
SHAPES = "os^Dv<>"  # beside the colours: told apart in grey, too
GUIDES = ((1, 1), (5, 2), (5, 2, 1, 2))
EVERY = 6  # shapes along a curve
# text stays text, and names of clips do not change from run to run
PLAIN: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "epsworth", "font.size": 8}


def drawn(title: str, panels: Sequence[Panel]) -> str:
    """Return a picture of some panels under one title: the text of an SVG file."""
    across = 2 if len(panels) == 4 else min(ACROSS, len(panels))
    rows = -(-len(panels) // across)
    with drawn_by("matplotlib").rc_context(PLAIN):
        figure = new_figure((WIDTH * across, HEIGHT * rows + 0.3))
        figure.suptitle(title, fontsize=9)
        places = np.ravel(np.asarray(figure.subplots(rows, across, squeeze=False)))
        for place in places[len(panels) :]:
            place.set_axis_off()
        for place, panel in zip(places, panels, strict=False):
            _fill(place, panel)
        written = BytesIO()
        figure.savefig(written, format="svg", dpi=100, metadata={"Date": None})
    return written.getvalue().decode()


def _fill(place: Axes, panel: Panel) -> None:
    """Draw one panel."""
    if panel.plane is not None:
        light = {"cmap": "Greys", "vmin": -0.5, "vmax": 2.5 * panel.plane.max()}  # lines are to stand out from it
        place.imshow(panel.plane, origin="lower", extent=(0, 1, 0, 1), **light)
    numbers = Counter[bool]()  # of guides, and of all others: each kind has its own looks
    for series in panel.series:
        _one(place, series, numbers[series.style == "guide"])
        numbers[series.style == "guide"] += series.style != "paper"
    for i, (name, (left, right), (low, high)) in enumerate(panel.boxes):
        place.plot(
            [left, right, right, left, left], [low, low, high, high, low], **line(i), label=name or None, linewidth=1.5
        )
    if "x" in panel.logs:
        place.set_xscale("log")
    if "y" in panel.logs:
        place.set_yscale("log")
    if panel.equal:
        place.set_aspect("equal", adjustable="datalim")
    place.set(xlabel=panel.x, ylabel=panel.y)
    place.set_title(panel.title, fontsize=8)
    names = [label for label in place.get_legend_handles_labels()[1] if label]
    if 0 < len(names) <= LISTED:
        under: dict[str, Any] = {
            "loc": "upper center",
            "bbox_to_anchor": (0.5, -0.18),
            "ncols": 2,
        }  # where it hides nothing
        place.legend(fontsize=6.5, frameon=False, **under)
    bare(place)


def _one(place: Axes, series: Series, number: int) -> None:
    """Draw one curve or cloud."""
    given: dict[str, Any] = {"label": series.name or None}
    if series.style == "points":
        colour = COLOURS[number % len(COLOURS)] if series.colour is None else series.colour
        size = 5 if len(series.x) > 50 else 18
        place.scatter(series.x, series.y, s=size, c=colour, linewidths=0, rasterized=len(series.x) > 300, **given)
    elif series.style == "paper":
        place.plot(series.x, series.y, "x", color="black", markersize=6, zorder=3, **given)
    elif series.style == "guide":
        place.plot(series.x, series.y, color="0.5", linestyle=(0, GUIDES[number % len(GUIDES)]), **given)
    else:
        every = max(1, len(series.x) // EVERY)
        shape: dict[str, Any] = {"marker": SHAPES[number % len(SHAPES)], "markersize": 3.5}
        shape["markevery"] = (number % every, every)
        place.plot(
            series.x, series.y, linewidth=1.2, drawstyle="steps-post" if series.style == "steps" else "default",
            **line(number), **shape, **given,
        )  # fmt: skip
