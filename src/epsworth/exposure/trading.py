"""A window's trade-off in numbers: exposure and accuracy over a grid of epsilons, for pages; not private."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.exposure.distances import above
from epsworth.exposure.usefulness import GRID
from epsworth.results import json_form

if TYPE_CHECKING:
    from epsworth.exposure.advice import Window


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
        entries.append({name: json_form(value) for name, value in entry.items()})
    return entries
