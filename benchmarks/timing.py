"""How the benchmarks time: ours and a named alternative in turn, in one run; what is judged is the ratio.

Seconds depend on the machine and on what else it does; a ratio of runs next to each other hardly does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.memory import in_own_process

Action = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One measurement: ours over the alternative's.

    Parameters
    ----------
    what, than : str
        Ours, and the alternative.
    ratio : float
        Cost of ours in units of the alternative's.
    bar : float or None
        What the ratio must not exceed; None where it is only reported.
    note : str
        Both sides in units of their own, and their sizes.
    """

    what: str
    than: str
    ratio: float
    bar: float | None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.bar is None or self.ratio <= self.bar


@dataclass(frozen=True)
class Race:
    """Median seconds of both sides, and the median of the ratios of neighbouring runs."""

    ours: float
    theirs: float
    ratio: float


@dataclass(frozen=True)
class Clock:
    """Times in full, or in short: one run on small sizes, which shows that a part still works and judges nothing."""

    short: bool = False

    def size(self, full: int, short: int) -> int:
        """Return the size to measure at."""
        return short if self.short else full

    def race(self, ours: Action, theirs: Action, *, per: tuple[float, float] = (1, 1), runs: int = 7) -> Race:
        """Run both in turn, after a warm-up of each; in short, once.

        Parameters
        ----------
        per : pair of float
            How many units of work one run of ours, and one of theirs, does.
        """
        pairs = [(seconds(ours) / per[0], seconds(theirs) / per[1]) for _ in range(self.size(runs + 1, 1))]
        pairs = pairs[self.size(1, 0) :]
        a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
        return Race(a, b, statistics.median(x / y for x, y in pairs))

    def memory(self, function: Callable[..., float], *given: object) -> float:
        """Return what a function tells of its process's memory: one of its own, in short this one."""
        return function(*given) if self.short else in_own_process(function, *given)


def seconds(action: Action) -> float:
    """Return the wall-clock time of one run."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def shown(value: float) -> str:
    """Return seconds in a unit that reads well."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
