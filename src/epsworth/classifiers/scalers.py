"""Per-column scalers in front of an estimator: it sees ``scale * natural + shift``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from epsworth.arrays import Floats

AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


@contextmanager
def ignoring_names() -> Iterator[None]:
    """Silence scikit-learn's remark that arrays carry no names, or frames carry some: positions are checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        yield


def steps_of(model: Any) -> tuple[Any, list[Any]]:
    """Return the estimator at the end of a pipeline and the steps before it that do something."""
    *before, (_, last) = getattr(model, "steps", None) or [("", model)]
    return last, [step for _, step in before if step is not None and step != "passthrough"]


def plain(step: Any) -> bool:
    """Tell whether a step scales every column by itself, without clipping."""
    return type(step).__name__ in AFFINE and not getattr(step, "clip", False)


def behind_scalers(model: Any) -> tuple[Any, list[Any]] | None:
    """Return the estimator at the end of a pipeline and the scalers before it; None where another step is."""
    estimator, steps = steps_of(model)
    return (estimator, steps) if all(map(plain, steps)) else None


def affine(scalers: Sequence[Any], width: int) -> tuple[Floats, Floats]:
    """Compose per-column scalers into ``scale * value + shift``."""
    scale, shift = np.ones(width), np.zeros(width)
    with ignoring_names():
        for scaler in scalers:
            a, b = per_column(scaler, width)
            scale, shift = a * scale, a * shift + b
    return scale, shift


def per_column(scaler: Any, width: int) -> tuple[Floats, Floats]:
    """Return the scale and the shift of a fitted scaler (one of `AFFINE`), shapes ``(width,)``."""
    kind, ones = type(scaler).__name__, np.ones(width)
    if kind == "MinMaxScaler":
        return scaler.scale_ * ones, scaler.min_ * ones
    spread = getattr(scaler, "scale_", None)
    factor = ones if spread is None else ones / np.asarray(spread)
    centre = getattr(scaler, {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(kind, ""), None)
    centred = getattr(scaler, {"StandardScaler": "with_mean", "RobustScaler": "with_centering"}.get(kind, ""), False)
    return factor, -factor * centre if centred and centre is not None else 0 * ones
