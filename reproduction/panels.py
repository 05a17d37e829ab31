"""What a picture shows, as numbers: panels of curves, points, boxes and coloured planes; `pictures` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats

Style = Literal["line", "steps", "points", "paper", "guide"]
Span = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One curve or cloud.

    Attributes
    ----------
    name : str
        For the legend; nothing, and it is not listed.
    x, y : ndarray
    style : str
        ``"line"``, ``"steps"``, ``"points"`` for a cloud; ``"paper"`` for values that the paper prints, ``"guide"`` for
        a line to compare with.
    colour : ndarray, optional
        Of each point of a cloud, a number.
    """

    name: str
    x: Floats
    y: Floats
    style: Style = "line"
    colour: Floats | None = None


@dataclass(frozen=True)
class Panel:
    """One panel of a picture.

    Attributes
    ----------
    title, x, y : str
        Title and axes.
    series : tuple of Series
    logs : str
        Logarithmic axes: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    boxes : tuple of (name, (x from, to), (y from, to))
        Rectangles.
    plane : ndarray, optional
        Labels of the cells of a grid over the unit square, the first row at the bottom.
    equal : bool
        One unit is as long on both axes.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...] = ()
    logs: Literal["", "x", "y", "xy"] = ""
    boxes: tuple[tuple[str, Span, Span], ...] = ()
    plane: Floats | None = None
    equal: bool = False


def curve(name: str, x: ArrayLike, y: ArrayLike, style: Style = "line") -> Series:
    """Return one curve.

    Raises
    ------
    ValueError
        Where its points do not come in pairs.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if xs.shape != ys.shape or xs.ndim != 1:
        raise ValueError(f"{name}: {xs.shape} places for {ys.shape} values")
    return Series(name, xs, ys, style)


def curves(
    title: str,
    x: tuple[str, ArrayLike],
    y: str,
    rows: Mapping[str, ArrayLike],
    *,
    logs: Literal["", "x", "y", "xy"] = "",
    besides: tuple[Series, ...] = (),
) -> Panel:
    """Return a panel of curves over the same places.

    Parameters
    ----------
    title : str
    x : (name, places)
    y : str
        Name of the other axis.
    rows : mapping of names to values
    logs : str
        Logarithmic axes.
    besides : tuple of Series
        More of them, such as what the paper prints.
    """
    name, places = x
    return Panel(title, name, y, tuple(curve(label, places, row) for label, row in rows.items()) + besides, logs)
