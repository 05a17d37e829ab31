"""When a run ends before its work is done, and why what it has proven by then holds.

A run may be stopped by a deadline, or by whoever watches its bounds tighten: also *because* they look good just then.
That breaks no promise.  Bounds are shown only where they were paid for: an exact engine's when a record is finished, a
sampling engine's after a scheduled look, which has a share of the risk of its own (`epsworth.bounds.looks`).  The
probability that any bound of any look misses is at most the sum of all shares (union bound), whether looks are made
or not; so all bounds that can ever be shown hold together, and with them those that happen to be shown last.  What
was drawn since the last look has not been paid for and is never shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.callbacks import check_callback
from epsworth.numerals import as_float, short

LEAST = 1e-9  # seconds that a worker is given where none are left
STEP = 0.25  # seconds that a query of a run that may be stopped is to take
FIRST = {"rows": 64, "records": 1}  # of the first step
FASTER = 8  # times as many rows as before, at most
MEMORY = 0.8  # weight of a step beside the one after it
SPREAD = 0.1  # sizes that differ by less of their mean tell nothing of what a step costs whatever its size
SURPRISE = 4.0  # times what was expected, and what the step before took, or so much less: all before is forgotten


class Stopped(Exception):
    """The run is to end: what is proven stands."""


class StepCost:
    """What a step of n rows takes: ``fixed + each * n`` seconds, as fitted to the steps so far.

    Least squares, in which a step counts for `MEMORY` of the one after it; neither part is negative.  Where sizes
    hardly differ, both parts are scaled to what the steps took.  After a surprise only the last step counts.

    Attributes
    ----------
    fixed, each : float
        Seconds; both are 0 before the first step.
    """

    def __init__(self) -> None:
        self.fixed = self.each = 0.0
        self.last, self.sums = 0.0, np.zeros(5)  # of 1, n, t, n n and n t

    def note(self, size: int, took: float) -> None:
        """Take in a step."""
        if not any(took / SURPRISE <= expected <= took * SURPRISE for expected in (self.of(size), self.last)):
            self.sums[:] = self.fixed = self.each = 0.0
        self.last = took
        self.sums = MEMORY * self.sums + [1, size, took, size * size, size * took]
        n, t, nn, nt = self.sums[1:] / self.sums[0]
        if self.of(n) <= 0:
            self.fixed, self.each = 0.0, t / n
        elif nn - n * n <= (SPREAD * n) ** 2:
            scale = t / self.of(n)
            self.fixed, self.each = scale * self.fixed, scale * self.each
        else:
            self.each = min(max(0.0, (nt - n * t) / (nn - n * n)), t / n)
            self.fixed = t - self.each * n

    def of(self, size: float) -> float:
        """Return the seconds of a step of this size."""
        return self.fixed + self.each * size

    def size(self, seconds: float) -> float:
        """Return the size of a step of so many seconds; 0 where none is that short."""
        return _quotient(max(0.0, seconds - self.fixed), self.each)

    @property
    def worthwhile(self) -> float:
        """The size of which smaller steps spend most of their time on what they cost in any case."""
        return _quotient(self.fixed, self.each)


def _quotient(whole: float, part: float) -> float:
    """Return how many parts make the whole: any number, where they are nothing and it is not."""
    whole, part = float(whole), float(part)  # Python's own, which overflow in silence
    return whole / part if part > 0 else math.inf if whole > 0 else 0.0


@dataclass(frozen=True)
class RunState:
    """Where a run stands between two queries.

    Attributes
    ----------
    done : float
        Share of the work that is done.
    seconds : float
        Time since the run began.
    mechanisms : tuple of str
    epsilons : ndarray
    """

    done: float
    seconds: float
    mechanisms: tuple[str, ...]
    epsilons: Floats
    proven: Callable[[], Interval]

    def average(self) -> Interval:
        """Return what is proven by now of the average over the records, shape ``(mechanisms, epsilons)``."""
        return self.proven()


Watch = Callable[[RunState], object]


class Deadline:
    """Says how far a run is, whether it must end, and how many rows to ask about at once.

    Parameters
    ----------
    seconds : float, optional
        Time that the run has, from now on.
    watch : callable, optional
        Is given the run's `RunState` between queries and records; the run ends where it returns True.
    progress : callable, optional
        Is given the share that is done, whenever that has grown.
    clock : callable
        Seconds, as `time.monotonic` tells them.

    Attributes
    ----------
    stopped : str or None
        Why the run ended early.
    """

    def __init__(
        self,
        seconds: float | None = None,
        watch: Watch | None = None,
        progress: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self.clock = seconds, clock
        self.watch, self.tell = check_callback("watch", watch), check_callback("progress", progress)
        self.began, self.done = clock(), 0.0
        self.largest, self.costs = dict(FIRST), {unit: StepCost() for unit in FIRST}
        self.mechanisms: tuple[str, ...] = ()
        self.epsilons: Floats = np.empty(0)
        self.proven: Callable[[], Interval] = nothing
        self.stopped: str | None = None

    def progress(self, share: float) -> None:
        """Tell what share is done; it never falls."""
        if share > self.done:
            self.done = min(share, 1.0)
            if self.tell is not None:
                self.tell(self.done)

    def check(self) -> None:
        """Raise Stopped where the run must end; once it must, it must for good."""
        passed = self.clock() - self.began
        if self.stopped is None and self.seconds is not None and passed >= self.seconds:
            self.stopped = f"by its deadline, after {passed:.1f} seconds"
        if self.stopped is None and self.watch is not None:
            standing = RunState(self.done, passed, self.mechanisms, self.epsilons, self.proven)
            wish = self.watch(standing)
            asked = isinstance(wish, (bool, np.bool_, str)) and bool(wish)  # comparisons of averages are NumPy's
            why = wish if isinstance(wish, str) else "on request"
            self.stopped = f"{why}, after {passed:.1f} seconds" if asked else None
        if self.stopped is not None:
            raise Stopped(self.stopped)

    def __reduce__(self) -> tuple[type[Deadline], tuple[float | None]]:
        """Take along the time that is left; who watches the run stays where it is."""
        left = None if self.seconds is None else max(self.seconds - (self.clock() - self.began), LEAST)
        return Deadline, (left,)

    def late(self, grace: float) -> bool:
        """Tell whether a run that must end was asked to, or has had so many seconds more."""
        over = 0.0 if self.seconds is None else self.clock() - self.began - self.seconds
        return self.stopped is not None and (over <= 0 or over >= grace)

    @property
    def free(self) -> bool:
        """Whether nobody may stop the run."""
        return self.seconds is None and self.watch is None

    def size(self, most: int, unit: str = "rows") -> int:
        """Return the size of the next step, of at most so many rows or records.

        It is to take `STEP` seconds, or twice what a step costs whatever its size, where that is more; and not to end
        after the deadline, if that can be.
        """
        if self.free:
            return most
        cost, left = self.costs[unit], math.inf
        if self.seconds is not None:
            left = self.seconds - (self.clock() - self.began)
        wanted = min(max(cost.size(STEP), cost.worthwhile), cost.size(left), self.largest[unit])
        return int(min(max(wanted, 1), most))

    def steps(self, count: int, most: int, unit: str = "rows") -> Iterator[slice]:
        """Cut work into steps of about `STEP` seconds, by what the steps before took (`size`); `check` before each.

        A run that nobody may stop takes the largest steps.

        Parameters
        ----------
        most : int
            Rows, or records, of a step.
        unit : {"rows", "records"}
        """
        if self.free:
            return iter([slice(start, min(start + most, count)) for start in range(0, count, max(most, 1))])
        return self._timed(count, most, unit)

    def _timed(self, count: int, most: int, unit: str) -> Iterator[slice]:
        start = 0
        while start < count:
            self.check()
            size, began = min(self.size(most, unit), count - start), self.clock()
            yield slice(start, start + size)
            start += size
            self.costs[unit].note(size, self.clock() - began)
            self._widen(unit, size)

    def _widen(self, unit: str, size: int) -> None:
        """Allow no more than `FASTER` times the rows of the step before; a short one, at an end, halves it only."""
        self.largest[unit] = max(self.largest[unit] // 2, FASTER * size)


def nothing() -> Interval:
    """Return what is proven before there is a question."""
    return Interval(np.zeros((0, 0)), np.ones((0, 0)))


def check_seconds(seconds: float | None) -> float | None:
    """Refuse what is no deadline."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (float, int, np.number))):
        raise TypeError(f"seconds must be a number, got {short(seconds)}")
    if seconds is not None and not 0 < as_float(seconds) < np.inf:
        raise ValueError(f"seconds must be positive and finite, got {short(seconds)}; leave it out to run to the end")
    return None if seconds is None else float(seconds)
