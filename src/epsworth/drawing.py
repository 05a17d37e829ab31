"""What all plots share: where they may be written, colours and lines that everyone can tell apart, bare frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsworth.files import OutputError, check_writable, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# Okabe & Ito's palette, distinguishable without colour vision, then line styles
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":")


def check_plot(path: str | Path) -> Path:
    """Check, before long work, that a plot can be written there."""
    path = check_writable(path)
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"cannot write {path}: a plot ends in {', '.join(FORMATS)}; change the ending")
    return path


def new_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 3.9)) -> Axes:
    """Return the axes to draw on: those given, or the one panel of a new figure."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    panel: Axes = Figure(figsize=size, layout="constrained").subplots()
    return panel


def line(number: int) -> dict[str, Any]:
    """Return colour and style of a line."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)]}


def bare(panel: Axes) -> None:
    """Leave out the frame's upper and right side."""
    panel.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
