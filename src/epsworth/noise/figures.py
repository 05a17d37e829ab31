"""The plot of a ranking: densities of the main choices, and their epsilons against the width asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsworth.drawing import bare, check_plot, line, save
from epsworth.noise.ranking import Ranking, epsilons_by_width
from epsworth.noise.regions import Absolute

COMPARED = ("optimal", "staircase", "laplace", "pb_laplace", "pb_gaussian", "gaussian")


def plot_noise(ranking: Ranking, path: str | Path) -> None:
    """Write the densities of the main choices, and their epsilons against the half-width of an absolute error."""
    from matplotlib.figure import Figure

    path = check_plot(path)
    shown = [choice for choice in ranking if choice.name in COMPARED] or list(ranking)
    shown = [choice for choice in shown if choice.sound]
    curves = isinstance(ranking.asked.region, Absolute)
    figure = Figure(figsize=(10.5 if curves else 6.0, 3.9), layout="constrained")
    panels = figure.subplots(1, 2 if curves else 1, squeeze=False)[0]
    answer = float(ranking.asked.region.hardest[0])
    low, high = (float(end) for end in ranking.asked.region.ends(answer))
    y = np.linspace(low - (high - low), high + (high - low), 1201)
    panels[0].axvspan(low, high, color="0.95")
    for number, choice in enumerate(shown):
        panels[0].plot(y, choice.law(answer).pdf(y), **line(number), label=choice.name)
    panels[0].set_xlabel(f"released value; true answer {answer:g}, preferred region shaded")
    panels[0].set_ylabel("density")
    if curves:
        halves = ranking.asked.half * np.geomspace(0.25, 4, 7)
        for number, choice in enumerate(shown):
            if choice.releases == 1 or choice.name != "optimal":
                panels[1].loglog(halves, epsilons_by_width(ranking.asked, choice.name, halves), **line(number))
        for axis in (panels[1].xaxis, panels[1].yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda value, place: "")
        panels[1].set_xlabel("half-width that must be met")
        panels[1].set_ylabel(f"epsilon, delta {ranking.asked.delta:g}")
    for panel in panels:
        bare(panel)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    save(figure, path)
