"""The picture of a trade-off: exposure and accuracy by epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.drawing import COLOURS, bare, new_axes
from epsworth.exposure.inputs import NOT_PRIVATE
from epsworth.exposure.usefulness import Usefulness
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEGEND: dict[str, Any] = {
    "frameon": False, "fontsize": 9, "ncols": 2, "loc": "upper center", "bbox_to_anchor": (0.5, -0.16)
}  # fmt: skip


def draw_trade(
    advantage: Callable[[float], Floats],
    useful: Usefulness | None,
    advised: tuple[float, float] | None,
    rule: str,
    epsilon: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw the advantage against the most exposed row, and accuracy, by epsilon, with a candidate if there is one."""
    trade, at = new_axes(ax, (5.6, 4.6)), 1.0 if epsilon is None else epsilon
    low, high = max(min(1e-3, at / 2), 1e-9), min(max(1e4, 2 * at), 1e9)  # beyond, nothing changes
    grid = np.geomspace(low, high, 200)
    trade.semilogx(grid, [advantage(e).max() for e in grid], color=COLOURS[3], label="advantage, worst row")
    if useful is not None:
        trade.semilogx(useful.epsilons, useful.accuracy, color=COLOURS[0], label="accuracy")
        trade.axhline(useful.majority, color=COLOURS[0], linestyle=":", label="accuracy of the commoner label")
    if advised is not None:
        kind = "published plateau (no advice)" if rule == "plateau" else "advised window"
        label = f"{kind}, {show_up(advised[0], 3)} to {show_down(advised[1], 3)}"
        trade.axvspan(*(min(max(value, low), high) for value in advised), color="0.9", label=label)
    else:
        trade.set_title("no window: no epsilon is both safe and of any use", fontsize=9)
    if epsilon is not None:
        at = min(max(epsilon, low), high)
        trade.axvline(at, color=COLOURS[1], linestyle="--", label=f"candidate, {epsilon:g}")
    trade.set(xlabel=f"epsilon per row ({NOT_PRIVATE})", xlim=(low, high), ylim=(0, 1.02))
    trade.legend(**LEGEND)
    bare(trade)
    return trade
