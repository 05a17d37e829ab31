"""Plots: a band per mechanism (the truth lies inside) under the ceiling that nobody can beat; privacy profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.curves import Curves, Quantity
from epsworth.files import OutputError, check_writable, replacing
from epsworth.guarantees import STRENGTH, ceiling
from epsworth.noise.ranking import Ranking, epsilons_by_width
from epsworth.noise.regions import Absolute
from epsworth.rounding import show_down, show_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epsworth.coverage import Window

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


def plot_curves(
    curves: Curves | Mapping[str, Curves],
    path: str | Path,
    *,
    on: Sequence[str | int] = ("average", "worst"),
    of: Quantity = "stability",
) -> None:
    """Write a figure: one row per classifier, one panel per view.

    Parameters
    ----------
    curves : Curves or mapping from a title to Curves
        What to draw.
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    on : sequence
        Views: ``"average"``, ``"worst"``, record numbers.
    of : {"stability", "accuracy"}
        Quantity.
    """
    from matplotlib.figure import Figure

    path = check_plot(path)
    rows = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    figure = Figure(figsize=(4.6 * len(on) + 1.7, 3.5 * len(rows) + 0.4), layout="constrained")
    panels = figure.subplots(len(rows), len(on), squeeze=False, sharex=True, sharey=True)
    for line, (title, found) in zip(panels, rows.items(), strict=True):
        for panel, view in zip(line, on, strict=True):
            _draw(panel, found, view, of)
            panel.set_title(", ".join(filter(None, [title, _view(view)])), fontsize=10, loc="left")
        line[0].set_ylabel(f"{of}, guaranteed and possible")
    for panel in panels[-1]:
        panel.set_xlabel("epsilon per feature")
    if len({tuple(_label(found, m) for m in range(len(found.mechanisms))) for found in rows.values()}) == 1:
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    else:  # colours stand for other mechanisms in every row
        for line in panels:
            line[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    confidence = min(found.confidence for found in rows.values())
    sure = "for certain" if confidence == 1 else f"all at once with {show_down(100 * confidence)} % confidence"
    figure.suptitle(f"Bands hold {sure}", fontsize=9, color="0.35", x=0.01, ha="left")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _draw(panel: Axes, curves: Curves, view: str | int, of: Quantity) -> None:
    lower, upper = curves.select(view, of)
    for m in range(len(curves.mechanisms)):
        colour, style = COLOURS[m % len(COLOURS)], STYLES[m // len(COLOURS) % len(STYLES)]
        panel.fill_between(curves.epsilons, lower[m], upper[m], color=colour, alpha=0.15, linewidth=0)
        marker: dict[str, Any] = {"marker": "o"} if curves.epsilons.size == 1 else {}
        panel.plot(curves.epsilons, lower[m], style, color=colour, linewidth=1.6, label=_label(curves, m), **marker)
    labels = int(curves.labels_possible.max())
    if view == "worst" and of == "stability" and labels > 1:
        caps = [
            max(ceiling(row[e].epsilon, labels, row[e].delta) for row in curves.guarantees)
            for e in range(len(curves.epsilons))
        ]
        panel.plot(curves.epsilons, caps, color="0.5", linewidth=1, linestyle=(0, (1, 1)))
        panel.annotate(
            "no mechanism of these budgets\ncan promise more to every input", (curves.epsilons[0], caps[0]),
            xytext=(6, -2), textcoords="offset points", fontsize=7.5, color="0.4", va="top",
        )  # fmt: skip
    panel.set_ylim(0, 1.02)
    panel.grid(color="0.92", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _label(curves: Curves, m: int) -> str:
    """Name a mechanism; with its weakest notion and largest delta where it is not pure."""
    weakest = max(curves.guarantees[m], key=lambda promise: (STRENGTH.index(promise.notion), promise.delta))
    if weakest.notion == "pure":
        return curves.mechanisms[m]
    delta = max(promise.delta for promise in curves.guarantees[m])
    return f"{curves.mechanisms[m]} ({weakest.notion}, δ {show_up(delta)})"


def _view(view: str | int) -> str:
    return {"average": "average over the records", "worst": "worst of these records"}.get(str(view), f"record {view}")


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
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Computed from raw data: not private", fontsize=9, color="0.35", x=0.01, ha="left")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _window_label(found: Window) -> str:
    if found.advised is None:
        return ""
    ends = f"{show_up(found.advised[0], 3)} to {show_down(found.advised[1], 3)}"
    return f"published plateau (no advice), {ends}" if found.rule == "plateau" else f"advised window, {ends}"


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
        panels[0].plot(y, choice.law(answer).pdf(y), **_line(number), label=choice.name)
    panels[0].set_xlabel(f"released value; true answer {answer:g}, preferred region shaded")
    panels[0].set_ylabel("density")
    if curves:
        halves = ranking.asked.half * np.geomspace(0.25, 4, 7)
        for number, choice in enumerate(shown):
            if choice.releases == 1 or choice.name != "optimal":
                panels[1].loglog(halves, epsilons_by_width(ranking.asked, choice.name, halves), **_line(number))
        for axis in (panels[1].xaxis, panels[1].yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda value, place: "")
        panels[1].set_xlabel("half-width that must be met")
        panels[1].set_ylabel(f"epsilon, delta {ranking.asked.delta:g}")
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _line(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)]}
