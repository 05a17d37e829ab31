"""Plots of curves: a band per mechanism (the truth lies inside) under the ceiling that nobody can beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsworth.drawing import bare, check_plot, line, save
from epsworth.guarantees import STRENGTH, ceiling
from epsworth.rounding import show_down, show_up
from epsworth.utility.curves import Curves, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    for row, (title, found) in zip(panels, rows.items(), strict=True):
        for panel, view in zip(row, on, strict=True):
            _draw(panel, found, view, of)
            panel.set_title(", ".join(filter(None, [title, _view(view)])), fontsize=10, loc="left")
        row[0].set_ylabel(f"{of}, guaranteed and possible")
    for panel in panels[-1]:
        panel.set_xlabel("epsilon per feature")
    if len({tuple(_label(found, m) for m in range(len(found.mechanisms))) for found in rows.values()}) == 1:
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    else:  # colours stand for other mechanisms in every row
        for row in panels:
            row[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    confidence = min(found.confidence for found in rows.values())
    sure = "for certain" if confidence == 1 else f"all at once with {show_down(100 * confidence)} % confidence"
    figure.suptitle(f"Bands hold {sure}", fontsize=9, color="0.35", x=0.01, ha="left")
    save(figure, path)


def _draw(panel: Axes, curves: Curves, view: str | int, of: Quantity) -> None:
    lower, upper = curves.select(view, of)
    for m in range(len(curves.mechanisms)):
        panel.fill_between(curves.epsilons, lower[m], upper[m], color=line(m)["color"], alpha=0.15, linewidth=0)
        marker: dict[str, Any] = {"marker": "o"} if curves.epsilons.size == 1 else {}
        panel.plot(curves.epsilons, lower[m], **line(m), linewidth=1.6, label=_label(curves, m), **marker)
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
    bare(panel)


def _label(curves: Curves, m: int) -> str:
    """Name a mechanism; with its weakest notion and largest delta where it is not pure."""
    weakest = max(curves.guarantees[m], key=lambda promise: (STRENGTH.index(promise.notion), promise.delta))
    if weakest.notion == "pure":
        return curves.mechanisms[m]
    delta = max(promise.delta for promise in curves.guarantees[m])
    return f"{curves.mechanisms[m]} ({weakest.notion}, δ {show_up(delta)})"


def _view(view: str | int) -> str:
    return {"average": "average over the records", "worst": "worst of these records"}.get(str(view), f"record {view}")
