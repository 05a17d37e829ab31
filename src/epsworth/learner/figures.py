"""Pictures of what was learnt: the map of one or two features, and what each value of a table's columns says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsworth.arrays import Floats
from epsworth.drawing import COLOURS, bare, check_plot, drawn_by, new_figure, save
from epsworth.learner.certificates import Fakes
from epsworth.learner.fakes import assumption
from epsworth.learner.mechanism import checked_probability
from epsworth.learner.model import Classifier
from epsworth.learner.series import Cosine
from epsworth.learner.tables.columns import BINS, Category, Column, Knots
from epsworth.learner.tables.model import TableClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MAPPED = 2  # features of a map
POINTS = 240  # of a map, per axis
STRIP = 40  # that high is the map of one feature
PANELS = 4  # in a row
PALER = 0.55  # what is not certified
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "+++")  # tell labels apart in grey
HATCHED = (0, 0, 0, 0.35)


def check_map(features: int) -> None:
    """Refuse a map of more features than a sheet of paper has."""
    if features > MOST_MAPPED:
        raise ValueError(f"--plot draws a map of one or two features, but this model has {features}; leave it out")


def plot_map(model: Classifier, path: str | Path, confidence: float = 0.95, *, fakes: Fakes) -> None:
    """Draw the label of every point of the box, paler where no certificate holds.

    Parameters
    ----------
    model : Classifier
        Of one or two features.
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    confidence : float
        Of the certificates, all cells together.
    fakes : int, or float or Fraction below one half
        Declared, as for `Classifier.certificate`.
    """
    config = model.config
    check_map(len(config.box))
    path, confidence = check_plot(path), checked_probability(confidence)
    figure, patch = new_figure((6.4, 4.8 if len(config.box) == 2 else 2.2)), drawn_by("matplotlib.patches").Patch
    panel: Axes = figure.subplots()
    X, shape = _points(model)
    labels = model.numbers(X).reshape(shape)
    proven = not isinstance(config.kernel, Cosine)
    sure = model.certificate(X, fakes=fakes, confidence=confidence) if proven else None
    held = np.zeros(shape, dtype=bool) if sure is None else _agreeing(model, sure.label, labels) & (
        sure.certified.reshape(shape)
    )  # fmt: skip
    extent = _extent(model)
    panel.imshow(_colours(labels, held), origin="lower", extent=extent, aspect="auto", interpolation="nearest")
    shown = []
    for k, label in enumerate(config.classes):
        hatch = HATCHES[k % len(HATCHES)]
        colour = COLOURS[k % len(COLOURS)]
        shown.append(patch(facecolor=colour, hatch=hatch, edgecolor=HATCHED, linewidth=0, label=str(label)))
        if hatch and (labels == k).any():
            own = np.asarray(labels == k, dtype=float)
            area = panel.contourf(own, levels=[0.5, 1.5], colors="none", hatches=[hatch], extent=extent, origin="lower")
            area.set(edgecolor=HATCHED, linewidth=0)
    if sure is not None:
        shown.append(patch(facecolor="0.85", label="paler: not certified"))
        title = f"certified with confidence {confidence:g}, all cells together, {assumption(sure.fakes)}"
        panel.set_title(title if sure.reason is None else "nothing certified: there are fakes", fontsize=9, loc="left")
    panel.set_xlabel(config.names[0])
    if len(config.box) == 2:
        panel.set_ylabel(config.names[1])
    else:
        panel.set_yticks([])
    figure.legend(handles=shown, loc="outside lower center", ncols=min(len(shown), 6), frameon=False, fontsize=9)
    save(figure, path)


def _points(model: Classifier) -> tuple[Floats, tuple[int, int]]:
    """Return the middles of the picture's points ``(n, d)``, row by row from below."""
    steps = (np.arange(POINTS) + 0.5) / POINTS
    own = [low + steps * (high - low) for low, high in model.config.box]
    if len(own) == 1:
        return np.tile(own[0], STRIP)[:, None], (STRIP, POINTS)
    across, up = np.meshgrid(*own)
    return np.column_stack([across.ravel(), up.ravel()]), (POINTS, POINTS)


def _extent(model: Classifier) -> tuple[float, float, float, float]:
    across, *rest = model.config.box
    up = rest[0] if rest else (0.0, 1.0)
    return across[0], across[1], up[0], up[1]


def _agreeing(model: Classifier, certified: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Tell where the certified label is the predicted one: smoothing may differ."""
    return np.asarray(certified.reshape(labels.shape) == model.classes_[labels])


def _colours(labels: np.ndarray, held: np.ndarray) -> Floats:
    to_rgb = drawn_by("matplotlib.colors").to_rgb
    palette = np.array([to_rgb(COLOURS[k % len(COLOURS)]) for k in range(int(labels.max()) + 1)])
    own = palette[labels]
    return np.asarray(np.where(held[..., None], own, 1 - (1 - own) * (1 - PALER)))


def plot_scores(model: TableClassifier, path: str | Path) -> None:
    """Draw what each value of each column says for each label: a panel per column.

    Parameters
    ----------
    model : TableClassifier
    path : str or Path
        ``.png``, ``.svg`` or ``.pdf``; written whole or not at all.
    """
    path = check_plot(path)
    columns = model.config.columns
    down = -(-len(columns) // PANELS)
    figure = new_figure((2.6 * min(PANELS, len(columns)), 1.9 * down + 0.6))
    panels = figure.subplots(down, min(PANELS, len(columns)), squeeze=False, sharey=True).ravel()
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    for j, (column, panel) in enumerate(zip(columns, panels, strict=False)):
        _draw_column(panel, column, None if model.knots is None else model.knots[j], model.scoring.tables[j], model)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 6), frameon=False, fontsize=9)
    figure.supylabel("what a value says for a label", fontsize=9)
    save(figure, path)


def _draw_column(panel: Axes, column: Column, knots: Knots | None, table: Floats, model: TableClassifier) -> None:
    """Draw one column: steps over a number's bins, points over a category's values."""
    classes = [str(label) for label in model.config.classes]
    if len(classes) == 2:  # the two are each other's mirror image but for a constant that decides nothing
        classes, table = [f"for {classes[1]}, less {classes[0]}"], (table[:, 1] - table[:, 0])[:, None]
    for k, name in enumerate(classes):
        colour = COLOURS[k % len(COLOURS)]
        if isinstance(column, Category):
            at = np.arange(column.bins)
            panel.plot(at, table[:, k], "o", markersize=4, color=colour, label=name)
            panel.set_xticks(at, [str(value)[:12] for value in column.values], fontsize=7, rotation=30)
        else:
            panel.stairs(table[:, k], _edges(column, knots), baseline=None, color=colour, label=name)
    panel.axhline(0, color="0.7", linewidth=0.6, zorder=0)
    panel.set_title(column.name, fontsize=9)
    panel.tick_params(labelsize=7)
    bare(panel)


def _edges(column: Column, knots: Knots | None) -> Floats:
    """Return where a number's bins end, in natural units: the map's knots, turned around."""
    assert not isinstance(column, Category)
    steps = np.arange(BINS + 1) / BINS
    if knots is not None:
        image = np.array(knots, dtype=float) / 2.0**32
        steps = np.interp(steps, image, np.linspace(0, 1, len(image)))
    return np.asarray(column.low + steps * (column.high - column.low))
