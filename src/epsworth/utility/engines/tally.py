"""Counts of a sampling run, and the bounds that its looks at them have paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Look
from epsworth.utility.engines.engine import Counts


@dataclass(eq=False)
class Tally:
    """Running counts and the bounds drawn from them, for points of one shape.

    ``agree`` counts labels equal to the record's own, ``right`` labels equal to y.  ``open`` points are still drawn;
    ``looked`` holds the number of points that each look so far was paid for, ``tasks`` counts those finished since.
    Bounds change in `look` only: between two looks they are those of the last one, whenever a run is stopped.
    """

    shape: tuple[int, ...]
    agree: Counts = field(init=False)
    right: Counts = field(init=False)
    stability: Interval = field(init=False)
    accuracy: Interval = field(init=False)
    open: NDArray[np.bool_] = field(init=False)
    looked: list[int] = field(init=False, default_factory=list)
    tasks: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.agree, self.right = np.zeros(self.shape, np.int64), np.zeros(self.shape, np.int64)
        self.stability = Interval(np.zeros(self.shape), np.ones(self.shape))
        self.accuracy = Interval(np.zeros(self.shape), np.ones(self.shape))
        self.open = np.ones(self.shape, dtype=bool)

    def look(self, at: Look, with_accuracy: bool) -> None:
        """Tighten the bounds of open points; intersecting with earlier looks keeps them nested."""
        open_ = self.open
        pairs = [(self.agree, self.stability)] + ([(self.right, self.accuracy)] if with_accuracy else [])
        for counts, bounds in pairs:
            now = at.risk.interval(counts[open_], at.draws)
            bounds.lower[open_] = np.maximum(bounds.lower[open_], now.lower)
            bounds.upper[open_] = np.minimum(bounds.upper[open_], now.upper)
        self.looked.append(int(open_.sum()) * len(pairs))
        self.tasks = 0

    def state(self) -> dict[str, Any]:
        """Return what a run that goes on needs, in copies."""
        arrays = {"agree": self.agree, "right": self.right, "stability": np.stack(self.stability),
                  "accuracy": np.stack(self.accuracy), "open": self.open}  # fmt: skip
        counts = {"looked": json.dumps(self.looked), "tasks": self.tasks}
        return counts | {name: array.copy() for name, array in arrays.items()}

    def restore(self, found: Mapping[str, NDArray[Any]], schedule: Sequence[Look]) -> None:
        """Take over the state of an earlier run, and pay for the looks that it made."""
        looked = json.loads(str(found["looked"]))
        for name in ("agree", "right"):
            getattr(self, name)[...] = found[name]
        for name in ("stability", "accuracy"):
            lower, upper = found[name]
            getattr(self, name).lower[...], getattr(self, name).upper[...] = lower, upper
        self.open, self.looked, self.tasks = found["open"].copy(), looked, int(found["tasks"])
        for look, bounds in zip(schedule, looked, strict=False):
            look.risk.spend(bounds)

    def unsettled(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the points whose intervals are still wide and on both sides of the target."""
        found = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            found |= (bounds.upper - bounds.lower > 2 * tolerance) & _undecided(bounds, target)
        return found

    def rivals(self, tolerance: float, wanted: list[Floats]) -> NDArray[np.bool_]:
        """Return the records (last axis) that may still lower a worst case that is not decided."""
        found = np.zeros(self.shape, dtype=bool)
        for bounds, target in zip((self.stability, self.accuracy), wanted, strict=False):
            worst = bounds.upper.min(axis=-1, keepdims=True)
            open_ = (worst >= target) | (target > 1)
            found |= (bounds.lower < worst - 2 * tolerance) & (bounds.lower < target) & open_
        return found


def _undecided(bounds: Interval, target: Floats) -> NDArray[np.bool_]:
    return (bounds.lower < target) & ((bounds.upper >= target) | (target > 1))
