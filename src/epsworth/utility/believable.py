"""What a file says of curves is possible: ranges of numbers, and promises no smaller than their mechanisms keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epsworth.guarantees import Guarantee, Pure, compose
from epsworth.mechanisms.family import family, is_tailored
from epsworth.mechanisms.indicator import PrivacyIndicator
from epsworth.mechanisms.label import LabelResponse

ROUNDINGS = 1e-9  # relative, between versions and machines
SAMPLED = "sampled"
Curves = Any  # those who hold them stand below this room, and so cannot be named here


def check_curves(curves: Curves) -> None:
    """Refuse curves whose numbers nobody can have computed."""
    names, grid = curves.mechanisms, curves.epsilons
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise ValueError("mechanisms must have names, each another one")
    columns = curves.features
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("features must be named, each once")
    if grid.ndim != 1 or not (np.isfinite(grid) & (grid > 0)).all() or not (np.diff(grid) > 0).all():
        raise ValueError("epsilons must be positive and increase")
    for name in ("confidence", "spent"):
        if not 0 <= getattr(curves, name) <= 1:
            raise ValueError(f"{name} must lie in [0, 1]")
    if curves.sound and curves.check is not None:
        raise ValueError("sound must be false beside bounds that check a heuristic")
    if curves.confidence == 1 and not curves.stopped and (curves.method == SAMPLED).any():  # nothing was seen yet
        raise ValueError("confidence must lie below 1 where bounds were sampled")
    for name in ("queries", "seconds", "tolerance"):
        if not 0 <= getattr(curves, name) < math.inf:
            raise ValueError(f"{name} must be at least 0")
    if not (curves.labels_possible >= 1).all() or not (curves.tight_epsilons >= 0).all():
        raise ValueError("labels_possible must be at least 1, tight_epsilons_per_record at least 0")
    _check_promises(curves)


def _check_promises(curves: Curves) -> None:
    for name, row in zip(curves.mechanisms, curves.guarantees, strict=True):
        categorical = sum(
            any(n.startswith(f"{name}: {f} is categorical") for n in curves.notes) for f in curves.features
        )
        for epsilon, promise in zip(curves.epsilons.tolist(), row, strict=True):
            own = _kept(name, epsilon, len(curves.features), categorical) if curves.unit == "feature" else None
            if own is not None and not _same(promise, own):
                raise ValueError(f"guarantees_per_record: {name} at epsilon {epsilon:g} per feature keeps {own}")


def _same(promise: Guarantee, own: Guarantee) -> bool:
    """Tell whether a promise is what is kept: never less, and more by roundings alone."""
    pairs = (promise.epsilon, own.epsilon), (promise.delta, own.delta)
    return all(kept <= said <= kept * (1 + ROUNDINGS) for said, kept in pairs)


def _kept(name: str, epsilon: float, features: int, categorical: int) -> Guarantee | None:
    """Return what a mechanism that we know promises of a record; None of users' own."""
    if is_tailored(name):
        return compose([Pure(epsilon)] * features)
    try:
        release = family(name).build(epsilon)
    except (TypeError, ValueError):
        return None
    if isinstance(release, LabelResponse):
        return compose([Pure(epsilon)] * features)
    inner = release.mechanism if isinstance(release, PrivacyIndicator) else release
    # categories are kept by k-ary response, which is pure
    promises = [Pure(epsilon)] * categorical + [inner.guarantee] * (features - categorical)
    return release.over(promises) if isinstance(release, PrivacyIndicator) else compose(promises)
