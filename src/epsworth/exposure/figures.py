"""The plot of a window: who is exposed at which epsilon, and what accuracy costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsworth.drawing import bare, check_plot, marked, new_figure, save
from epsworth.exposure.advice import Window
from epsworth.exposure.inputs import NOT_PRIVATE
from epsworth.exposure.trade import LEGEND
from epsworth.rounding import show_down, show_up


def plot_profile(found: Window, epsilon: float, path: str | Path) -> None:
    """Draw who is exposed at which epsilon, and what accuracy costs; not private, and it says so on its face.

    Parameters
    ----------
    found : Window
        From `epsworth.exposure.window`.
    epsilon : float
        The candidate; drawn beside the ends of the window.
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    """
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
    ranks.legend(**LEGEND)  # below the panels, where no curve can run through it
    bare(ranks)
    found.plot(trade, epsilon=epsilon)
    figure.suptitle(NOT_PRIVATE.capitalize(), fontsize=9, color="0.35", x=0.01, ha="left")
    save(figure, path)
