"""How the benchmarks time: median of several runs, and a row with a bar to meet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement: ``value`` must not exceed ``bar`` (None: only reported)."""

    what: str
    value: float
    unit: str
    bar: float | None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.bar is None or self.value <= self.bar


def median_seconds(action: Callable[[], object], *, runs: int = 7, warmup: int = 1) -> float:
    """Return the median wall-clock time of an action."""
    for _ in range(warmup):
        action()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
