"""The plot of a window: who is exposed at which epsilon, and what accuracy costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsworth.coverage.advice import Window
from epsworth.drawing import COLOURS, bare, check_plot, save
from epsworth.rounding import show_down, show_up


def plot_profile(found: Window, epsilon: float, path: str | Path) -> None:
    """Draw who is exposed at which epsilon, and what accuracy costs; not private, and it says so on its face.

    Parameters
    ----------
    found : Window
        From `epsworth.coverage.window`.
    epsilon : float
        The candidate; drawn beside the ends of the window.
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    """
    from matplotlib.figure import Figure

    path = check_plot(path)
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    ranks, trade = figure.subplots(1, 2)
    share = (np.arange(len(found.neighbours)) + 1) / len(found.neighbours)
    first, last = ("plateau ends", "flat again") if found.rule == "plateau" else ("safe up to", "exposed")
    shown = (
        (found.eps_low, f"epsilon {show_down(found.eps_low, 3)}: {first}"),
        (epsilon, f"epsilon {epsilon:g}: candidate"),
        (found.eps_high, f"epsilon {show_up(found.eps_high, 3)}: {last} from"),
    )
    for colour, (value, name) in zip(COLOURS, shown, strict=False):
        if np.isfinite(value):
            ranks.plot(share, np.sort(found.advantage(value)), color=colour, label=name)
    ranks.set(xlabel="rows, the least exposed first", ylabel="membership advantage", ylim=(0, 1.02))
    low, high = max(min(1e-3, epsilon / 2), 1e-9), min(max(1e4, 2 * epsilon), 1e9)  # beyond, nothing changes
    grid = np.geomspace(low, high, 200)
    trade.semilogx(grid, [found.advantage(e).max() for e in grid], color=COLOURS[3], label="advantage, worst row")
    if found.usefulness is not None:
        useful = found.usefulness
        trade.semilogx(useful.epsilons, useful.accuracy, color=COLOURS[0], label="accuracy")
        trade.axhline(useful.majority, color=COLOURS[0], linestyle=":", label="accuracy of the commoner label")
    if found.advised is not None:
        start, end = (min(max(value, low), high) for value in found.advised)
        trade.axvspan(start, end, color="0.9", label=_window_label(found))
    trade.axvline(min(max(epsilon, low), high), color=COLOURS[1], linestyle="--", label=f"candidate, {epsilon:g}")
    trade.set(xlabel="epsilon per row", xlim=(low, high), ylim=(0, 1.02))
    if found.advised is None:
        trade.set_title("no window: no epsilon is both safe and of any use", fontsize=9)
    for panel in (ranks, trade):  # below the panels, where no curve can run through it
        panel.legend(frameon=False, fontsize=9, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
        bare(panel)
    figure.suptitle("Computed from raw data: not private", fontsize=9, color="0.35", x=0.01, ha="left")
    save(figure, path)


def _window_label(found: Window) -> str:
    if found.advised is None:
        return ""
    ends = f"{show_up(found.advised[0], 3)} to {show_down(found.advised[1], 3)}"
    return f"published plateau (no advice), {ends}" if found.rule == "plateau" else f"advised window, {ends}"
