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
FASTER = 4  # times as many rows as before, at most


class Stopped(Exception):
    """The run is to end: what is proven stands."""


@dataclass(frozen=True)
class Standing:
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


Watch = Callable[[Standing], object]


class Pace:
    """Says how far a run is, whether it must end, and how many rows to ask about at once.

    Parameters
    ----------
    seconds : float, optional
        Time that the run has, from now on.
    watch : callable, optional
        Is given the run's `Standing` between queries and records; the run ends where it returns True.
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
        self.began, self.done, self.sizes = clock(), 0.0, dict(FIRST)
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
            standing = Standing(self.done, passed, self.mechanisms, self.epsilons, self.proven)
            self.stopped = f"on request, after {passed:.1f} seconds" if self.watch(standing) is True else None
        if self.stopped is not None:
            raise Stopped(self.stopped)

    def __reduce__(self) -> tuple[type[Pace], tuple[float | None]]:
        """Take along the time that is left; who watches the run stays where it is."""
        left = None if self.seconds is None else max(self.seconds - (self.clock() - self.began), LEAST)
        return Pace, (left,)

    def late(self, grace: float) -> bool:
        """Tell whether a run that must end was asked to, or has had so many seconds more."""
        over = 0.0 if self.seconds is None else self.clock() - self.began - self.seconds
        return self.stopped is not None and (over <= 0 or over >= grace)

    @property
    def free(self) -> bool:
        """Whether nobody may stop the run."""
        return self.seconds is None and self.watch is None

    def size(self, most: int, unit: str = "rows") -> int:
        """Return the size of the next step, of at most so many rows or records."""
        return most if self.free else min(most, self.sizes[unit])

    def steps(self, count: int, most: int, unit: str = "rows") -> Iterator[slice]:
        """Cut work into steps of about `STEP` seconds, by what the step before took; `check` before each.

        A run that nobody may stop takes the largest steps.

        Parameters
        ----------
        most : int
            Rows, or records, of a step.
        unit : {"rows", "records"}
        """
        start = 0
        while start < count:
            if not self.free:
                self.check()
            size, began = min(self.size(most, unit), count - start), self.clock()
            yield slice(start, start + size)
            start += size
            self._adapt(unit, size, most, self.clock() - began)

    def _adapt(self, unit: str, size: int, most: int, took: float) -> None:
        left = math.inf if self.seconds is None else self.seconds - (self.clock() - self.began)
        factor = FASTER if took <= 0 else min(FASTER, max(0.0, min(STEP, left)) / took)
        if size == self.sizes[unit] or size * factor < self.sizes[unit]:  # short steps tell of slowness only
            self.sizes[unit] = int(min(max(size * factor, 1), most))


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
