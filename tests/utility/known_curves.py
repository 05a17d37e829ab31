"""Curves whose numbers are known."""

from __future__ import annotations

import numpy as np

from epsworth.guarantees import Pure
from epsworth.utility.curves import Bounds, Curves


def exact_curves(names, epsilons, rho, *, width=0.0, labels=2, guarantees=None):
    """Curves around known values ``rho`` of shape (mechanisms, epsilons, records)."""
    rho = np.asarray(rho, dtype=float)
    promises = guarantees or tuple(tuple(Pure(e, "record") for e in epsilons) for _ in names)
    return Curves(
        mechanisms=tuple(names),
        epsilons=np.asarray(epsilons, dtype=float),
        features=("x",),
        stability=Bounds(np.clip(rho - width, 0, 1), np.clip(rho + width, 0, 1)),
        accuracy=None,
        guarantees=promises,
        tight_epsilons=np.array([[p.epsilon for p in row] for row in promises]),
        labels=np.zeros(rho.shape[2]),
        labels_possible=np.full(rho.shape[2], labels),
        method=np.full((len(names), rho.shape[2]), "exact"),
        over="records",
        confidence=0.999,
        tolerance=0.01,
        queries=0,
        seconds=0.0,
    )
