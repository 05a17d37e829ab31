"""Per-column scalers of pipelines: those that send every value v to ``scale * v + shift``."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.arrays import Floats

AFFINE = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


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
