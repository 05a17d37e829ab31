"""When to stop simulating in the estimated mode; neither rule is a proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.allocation import allocate

Stop = Literal["relative", "paper"]
RESAMPLES = 200
PRECISION = 0.05
PAPER_EVERY, PAPER_CHANGE = 10, 1e-6


def stop_rule(name: Stop, mi: float) -> Callable[[Floats], bool]:
    """Return a function that looks at all outputs so far and tells whether they are enough."""
    if name == "relative":
        return lambda outputs: relative_error(outputs, mi) <= PRECISION
    if name == "paper":
        return variances_settled
    raise ValueError(f"stop must be 'relative', 'paper' or None, got {name!r}")


def relative_error(outputs: Floats, mi: float) -> float:
    """Return the half-width of the bootstrap 95 % interval of 1/2 sum ln(1 + s_i / e_i), relative to ``mi``.

    Trials are resampled by multinomial counts, so that no copy of the outputs is made.
    """
    away = outputs - outputs.mean(axis=0)
    noise = allocate((away**2).mean(axis=0), mi)
    live = noise > 0
    counts = np.random.default_rng(0).multinomial(len(outputs), np.full(len(outputs), 1 / len(outputs)), RESAMPLES)
    weights = counts / len(outputs)
    variances = weights @ away[:, live] ** 2 - (weights @ away[:, live]) ** 2
    bounds = 0.5 * np.log1p(np.maximum(variances, 0) / noise[live]).sum(axis=1)
    low, high = np.quantile(bounds, [0.025, 0.975])
    return float((high - low) / 2 / mi)


def variances_settled(outputs: Floats) -> bool:
    """Tell whether no variance moved by 1e-6 over the last ten trials: the paper's rule, for replication.

    It depends on the scale of the outputs: small ones stop at the first look, large ones never.
    """
    if len(outputs) < 2 * PAPER_EVERY:
        return False
    change = outputs.var(axis=0) - outputs[:-PAPER_EVERY].var(axis=0)
    return bool(np.abs(change).max() < PAPER_CHANGE)
