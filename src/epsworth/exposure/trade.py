"""A window's trade-off, exposure and accuracy by epsilon: in numbers, for pages, and in pictures; not private."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.drawing import COLOURS, bare, check_plot, marked, new_axes, new_figure, save
from epsworth.exposure.distances import above
from epsworth.exposure.inputs import NOT_PRIVATE
from epsworth.exposure.usefulness import GRID
from epsworth.results import json_form
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epsworth.exposure.advice import Window

LEGEND: dict[str, Any] = {
    "frameon": False, "fontsize": 9, "ncols": 2, "loc": "upper center", "bbox_to_anchor": (0.5, -0.16)
}  # fmt: skip  # below the panels, where no curve can run through it


def trade(found: Window, candidate: float) -> list[dict[str, Any]]:
    """Return what every epsilon of the grid, and a candidate, mean: exposures rounded up, accuracies not up.

    Quantiles of rows are those of a row, never between two: at most the share named lies above.
    """
    useful = found.usefulness
    grid = np.geomspace(*GRID) if useful is None else useful.epsilons
    epsilons = sorted({*grid.tolist(), float(candidate)})
    shares = found.exposure(1.0)
    most, many, half = (float(np.quantile(shares, q, method="higher")) for q in (1.0, 0.95, 0.5))
    safe = float(found.law.inverse_adv(found.adv_safe))
    entries = []
    for epsilon in epsilons:
        worst, tail, median = (min(1.0, above(float(found.law.adv(epsilon * u)))) for u in (most, many, half))
        entry = {
            "epsilon": epsilon, "advantage_worst": worst, "advantage_95": tail, "advantage_median": median,
            "rows_above_safe": float(np.mean(epsilon * shares > safe)),
        }  # fmt: skip
        if useful is not None:
            at = np.flatnonzero(useful.epsilons == epsilon)
            entry["accuracy"] = useful.at(epsilon)
            entry["kept_lower"] = float(useful.kept_lower[at[0]]) if len(at) else math.inf
            entry["useless"] = useful.useless_at(epsilon)
        entries.append({name: json_form(value) for name, value in entry.items()})
    return entries


def draw_trade(found: Window, epsilon: float | None, ax: Axes | None) -> Axes:
    """Draw the advantage against the most exposed row, and accuracy, by epsilon, with a candidate if there is one."""
    trade, at = new_axes(ax, (5.6, 4.6)), 1.0 if epsilon is None else epsilon
    low, high = max(min(1e-3, at / 2), 1e-9), min(max(1e4, 2 * at), 1e9)  # beyond, nothing changes
    grid = np.geomspace(low, high, 200)
    trade.semilogx(grid, [found.worst_advantage(e) for e in grid], color=COLOURS[3], label="advantage, worst row")
    useful, advised = found.usefulness, found.advised
    if useful is not None:
        trade.semilogx(useful.epsilons, useful.accuracy, color=COLOURS[0], label="accuracy")
        trade.axhline(useful.majority, color=COLOURS[0], linestyle=":", label="accuracy of the commoner label")
    if advised is not None:
        kind = "published plateau (no advice)" if found.rule == "plateau" else "advised window"
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


def plot_profile(found: Window, epsilon: float, path: str | Path) -> None:
    """Draw who is exposed at which epsilon, and what accuracy costs; not private, and it says so on its face."""
    path = check_plot(path)
    figure = new_figure((10.5, 4.6))
    ranks, trade = figure.subplots(1, 2)
    share = (np.arange(len(found.neighbours)) + 1) / len(found.neighbours)
    first, last = ("plateau ends", "flat again") if found.rule == "plateau" else ("safe up to", "exposed")
    shown = (
        (found.epsilon_low, f"epsilon {show_down(found.epsilon_low, 3)}: {first}"),
        (epsilon, f"epsilon {epsilon:g}: candidate"),
        (found.epsilon_high, f"epsilon {show_up(found.epsilon_high, 3)}: {last} from"),
    )
    for number, (value, name) in enumerate(shown):
        if np.isfinite(value):
            ranks.plot(share, np.sort(found.advantage(value)), **marked(number, len(share)), label=name)
    ranks.set(xlabel="rows, the least exposed first", ylabel="membership advantage", ylim=(0, 1.02))
    ranks.legend(**LEGEND)
    bare(ranks)
    found.plot(trade, epsilon=epsilon)
    figure.suptitle(NOT_PRIVATE.capitalize(), fontsize=9, color="0.35", x=0.01, ha="left")
    save(figure, path)
