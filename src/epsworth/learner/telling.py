"""What was learnt, told cell by cell: labels, certificates, and how many hold how surely; for JSON and pages.

All of it is computed from private reports and public settings, so that it is as private as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.learner.certificates import Certificates, Fakes
from epsworth.learner.fakes import fakes_among, taken_for_honest
from epsworth.learner.model import Classifier
from epsworth.learner.series import Cosine
from epsworth.results import json_form
from epsworth.rounding import up

FORMAT = "epsworth-learnt-1"
SURENESS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
MOST_CELLS = 300_000  # that certificates are told of
MOST_LISTED = 4096  # that are told one by one
CLEAREST = 12
FINE = {1: 64, 2: 40}  # points per axis on which a series is shown


def told_of(model: Classifier, confidence: float = 0.95, *, fakes: Fakes) -> dict[str, Any]:
    """Return what was learnt as plain values.

    Examples
    --------
    >>> from epsworth.learner import LatticeConfig, simulate
    >>> config, x = LatticeConfig(box=(0, 1), m=4, epsilon=2), np.linspace(0, 1, 100)
    >>> model = Classifier.from_aggregate(simulate(config, x[:, None], x > 0.5, np.random.default_rng(0), users=10**6))
    >>> told = told_of(model, fakes=0)
    >>> told["map"]["label"], told["certified"]
    ([0, 0, 1, 1], 4)
    """
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


def _centres(model: Classifier, side: int) -> Floats:
    """Return a point per cell, in row-major order: its middle, or the lattice's own point."""
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
    """Return what a cell spans of every feature, in natural units."""
    config, kernel = model.config, model.config.kernel
    index = np.unravel_index(cell, [kernel.side] * kernel.d)
    found = []
    for at, (low, high) in zip(index, config.box, strict=True):
        first, last = (int(at) - 1, int(at) + 1) if kernel.overlapping else (int(at), int(at) + 1)
        ends = (max(0, first) / kernel.m, min(kernel.m, last) / kernel.m)
        found.append([low + end * (high - low) for end in ends])
    return found
