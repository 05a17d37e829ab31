"""What was learnt, for JSON, pages and pictures: labels and certificates cell by cell, and what columns say.

All of it is computed from private reports and public settings, so that it is as private as they are.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.drawing import COLOURS, bare, check_plot, drawn_by, new_figure, save
from epsworth.learner.certificates import Certificates, Fakes
from epsworth.learner.fakes import assumption, fakes_among, taken_for_honest
from epsworth.learner.mechanism import checked_probability
from epsworth.learner.mechanisms import Cosine
from epsworth.learner.model import Classifier
from epsworth.learner.tables.columns import BINS, Category, Column, Knots
from epsworth.learner.tables.learner import TableLearner
from epsworth.learner.tables.scores import TableClassifier
from epsworth.results import json_form
from epsworth.rounding import float_above, up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT, TABLE_FORMAT = "epsworth-learnt-1", "epsworth-learnt-table-1"
SURENESS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
MOST_CELLS = 300_000  # that certificates are told of
MOST_LISTED = 4096  # that are told one by one
CLEAREST = 12
FINE = {1: 64, 2: 40}  # points per axis on which a series is shown
MOST_MAPPED = 2  # features of a map
POINTS = 240  # of a map, per axis
STRIP = 40  # that high is the map of one feature
PANELS = 4  # in a row
PALER = 0.55  # what is not certified
DECIMALS = 9  # of scores: what is less is rounding
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "+++")  # tell labels apart in grey
HATCHED = (0, 0, 0, 0.35)


def told_of(model: Classifier, confidence: float = 0.95, *, fakes: Fakes) -> dict[str, Any]:
    """Return what was learnt as plain values."""
    config, kernel = model.config, model.config.kernel
    allowed = fakes_among(fakes, model.aggregate.users)
    side = FINE.get(kernel.d, 0) if isinstance(kernel, Cosine) else kernel.side
    told = {
        "format": FORMAT, "mechanism": config.mechanism, "epsilon": config.guarantee.epsilon,
        "guarantee": str(config.guarantee), "users": model.aggregate.users, "features": list(config.names),
        "box": [list(ends) for ends in config.box], "classes": [str(label) for label in config.classes],
        "outside": config.outside, "fingerprint": config.fingerprint(), "width": model.width_, "side": side,
        "overlapping": kernel.overlapping, "cells": kernel.cells, "confidence": confidence, "fakes": allowed,
        "honest": taken_for_honest(allowed), "reason": None, "certified": None, "differing": None,
        "by_confidence": [], "labels": [], "map": None, "clearest": [],
    }  # fmt: skip
    count = side**kernel.d
    if 0 < count <= MOST_CELLS:
        centres = _centres(model, side)
        labels = model.numbers(centres)
        sure = None if isinstance(kernel, Cosine) else model.certificate(centres, fakes=allowed, confidence=confidence)
        told |= _of_cells(model, labels, sure)
    return {name: json_form(value) for name, value in told.items()}


def told_of_table(learner: TableLearner) -> dict[str, Any]:
    """Return what was learnt of a table as plain values: who answered what, and what each value says for each label.

    Scores of a label less those of the first one: what all labels share decides nothing.
    """
    model, config = learner.classifier(), learner.config
    columns = []
    for j, (column, table) in enumerate(zip(config.columns, model.scoring.tables, strict=True)):
        lost = model.scoring.missing[j : j + 1] if column.missing else table[:0]
        gap, scores = ((one - one[:, :1])[:, 1:].round(DECIMALS) + 0.0 for one in (lost, table))
        moves = float(np.ptp(np.vstack([scores, gap]), axis=0).max())
        found: dict[str, Any] = {"name": column.name, "moves": moves, "values": None}
        if isinstance(column, Category):
            found |= {"values": [str(value) for value in column.values], "edges": None}
            scores = scores[: len(column.values)]
        else:
            found["edges"] = _edges(column, None if model.knots is None else model.knots[j]).tolist()
        columns.append(found | {"scores": scores.tolist(), "gap": gap.ravel().tolist() or None})
    rounds: list[dict[str, Any]] = [
        {"purpose": asked.purpose, "users": sums.users, "expected": asked.users} for sums, asked in learner.rounds
    ]
    told = {
        "format": TABLE_FORMAT, "epsilon": float_above(config.budget), "rounds": rounds, "regime": config.rounds,
        "users": sum(one["users"] for one in rounds), "fewer": fewer(learner),
        "classes": [str(label) for label in config.classes], "prior": config.prior, "assigned": config.rows,
        "columns": columns,
        "honest": "All reports are taken to be honest: a share of 1 % fakes can turn labels.",
    }  # fmt: skip
    return {name: json_form(value) for name, value in told.items()}


def fewer(learner: TableLearner) -> str | None:
    """Say what it means that less than half of a closed round's expected reports came; None where more did."""
    rounds = [(sums.users, max(1, asked.users), asked.purpose) for sums, asked in learner.rounds]
    came, expected, purpose = min(rounds, key=lambda one: one[0] / one[1])
    if 2 * came >= expected:
        return None
    wider = math.sqrt(expected / max(1, came))
    return (
        f"{came:,} of the {expected:,} reports that the configuration expects for {purpose} came: what they say is "
        f"about {wider:.2g} times as uncertain as planned, and labels may be wrong more often."
    )


def _centres(model: Classifier, side: int) -> Floats:
    config, kernel = model.config, model.config.kernel
    steps = np.arange(side) / max(1, side - 1) if kernel.overlapping else (np.arange(side) + 0.5) / side
    grids = np.meshgrid(*[low + steps * (high - low) for low, high in config.box], indexing="ij")
    return np.column_stack([grid.ravel() for grid in grids])


def _of_cells(model: Classifier, labels: Any, sure: Certificates | None) -> dict[str, Any]:
    classes = np.array([str(label) for label in model.config.classes])
    if sure is None:
        counted = [{"label": name, "cells": int((labels == n).sum())} for n, name in enumerate(classes.tolist())]
        return {"labels": counted, "map": {"label": labels.tolist()} if labels.size <= MOST_LISTED else None}
    own = np.array([{label: n for n, label in enumerate(model.config.classes)}[one] for one in sure.label.tolist()])
    counted = [
        {"label": name, "cells": int((labels == n).sum()), "certified": int((sure.certified & (own == n)).sum())}
        for n, name in enumerate(classes.tolist())
    ]
    chance = np.minimum(sure.adjusted, 1.0)
    count = int(sure.certified.sum())  # a chance is rounded up, and might miss the level that it equals
    by = [
        {"confidence": c, "certified": count if c == sure.confidence else int((chance <= 1 - up(c)).sum())}
        for c in SURENESS
    ]
    order = np.argsort(sure.adjusted, kind="stable")[:CLEAREST]
    found: dict[str, Any] = {
        "reason": sure.reason, "certified": count, "differing": int((sure.certified & (own != labels)).sum()),
        "by_confidence": by, "labels": counted,
        "clearest": [
            {"ranges": _ranges(model, int(cell)), "label": classes[own[cell]], "adjusted": float(chance[cell]),
             "certified": bool(sure.certified[cell])}
            for cell in order.tolist()
        ],
    }  # fmt: skip
    if labels.size <= MOST_LISTED:
        found["map"] = {
            "label": labels.tolist(), "cell_label": own.tolist(), "adjusted": chance.tolist(),
            "certified": sure.certified.tolist(),
        }  # fmt: skip
    return found


def _ranges(model: Classifier, cell: int) -> list[list[float]]:
    config, kernel = model.config, model.config.kernel
    index = np.unravel_index(cell, [kernel.side] * kernel.d)
    found = []
    for at, (low, high) in zip(index, config.box, strict=True):
        first, last = (int(at) - 1, int(at) + 1) if kernel.overlapping else (int(at), int(at) + 1)
        ends = (max(0, first) / kernel.m, min(kernel.m, last) / kernel.m)
        found.append([low + end * (high - low) for end in ends])
    return found


def check_map(features: int) -> None:
    """Refuse a map of more features than a sheet of paper has."""
    if features > MOST_MAPPED:
        raise ValueError(f"--plot draws a map of one or two features, but this model has {features}; leave it out")


def plot_map(model: Classifier, path: str | Path, confidence: float = 0.95, *, fakes: Fakes) -> None:
    """Draw the label of every point of the box, paler where no certificate holds."""
    config = model.config
    check_map(len(config.box))
    path, confidence = check_plot(path), checked_probability(confidence)
    figure, patch = new_figure((6.4, 4.8 if len(config.box) == 2 else 2.2)), drawn_by("matplotlib.patches").Patch
    panel: Axes = figure.subplots()
    X, shape = _points(model)
    labels = model.numbers(X).reshape(shape)
    proven = not isinstance(config.kernel, Cosine)
    sure = model.certificate(X, fakes=fakes, confidence=confidence) if proven else None
    held = np.zeros(shape, dtype=bool)
    if sure is not None:  # smoothing may predict another label than the certified one
        held = (sure.certified & (sure.label == model.classes_[labels.ravel()])).reshape(shape)
    across, up = config.box[0], config.box[1] if len(config.box) > 1 else (0.0, 1.0)
    extent = (*across, *up)
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
    steps = (np.arange(POINTS) + 0.5) / POINTS
    own = [low + steps * (high - low) for low, high in model.config.box]
    if len(own) == 1:
        return np.tile(own[0], STRIP)[:, None], (STRIP, POINTS)
    across, up = np.meshgrid(*own)
    return np.column_stack([across.ravel(), up.ravel()]), (POINTS, POINTS)


def _colours(labels: np.ndarray, held: np.ndarray) -> Floats:
    to_rgb = drawn_by("matplotlib.colors").to_rgb
    palette = np.array([to_rgb(COLOURS[k % len(COLOURS)]) for k in range(int(labels.max()) + 1)])
    own = palette[labels]
    return np.asarray(np.where(held[..., None], own, 1 - (1 - own) * (1 - PALER)))


def plot_scores(model: TableClassifier, path: str | Path) -> None:
    """Draw what each value of each column says for each label: a panel per column."""
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
