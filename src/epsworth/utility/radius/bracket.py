"""What is proven of a radius while it is looked for: two bounds that only tighten, and whether the run must end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.callbacks import check_callback
from epsworth.utility.pace import Pace, Standing


@dataclass(frozen=True)
class Bracket:
    """What is proven by now: ``lower <= distance <= upper``, after so many seconds."""

    lower: float
    upper: float
    seconds: float

    @property
    def done(self) -> float:
        """How far the bounds have closed: at 1 they meet."""
        return self.lower / self.upper if 0 < self.upper < math.inf else 0.0


@dataclass(frozen=True, eq=False)
class Witness:
    """A point at which the classifier answers another label, and its distance rounded up."""

    point: Floats
    distance: float


Watch = Callable[[Bracket], object]


class Tightening:
    """A run that looks for a radius.

    Attributes
    ----------
    lower : float
        No point nearer flips: for certain, whatever ends the run.
    witness : Witness or None
        The nearest one on which the classifier was asked.
    method : str or None
        What has proven something.
    pace : Pace
        Of which a run's share that is done is ``lower / upper``.
    """

    def __init__(
        self,
        seconds: float | None = None,
        watch: Watch | None = None,
        progress: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lower, self.witness = 0.0, None  # type: float, Witness | None
        self.method: str | None = None
        self.seen: Witness | None = None  # the nearest flip of a batch, not yet asked about alone

        def shown(standing: Standing) -> object:
            return None if watch is None else watch(Bracket(self.lower, self.upper, standing.seconds))

        self.pace = Pace(seconds, None if check_callback("watch", watch) is None else shown, progress, clock)

    @property
    def upper(self) -> float:
        """Distance of the witness, or infinity."""
        return math.inf if self.witness is None else self.witness.distance

    @property
    def left(self) -> float:
        """Seconds until the run must end."""
        pace = self.pace
        return math.inf if pace.seconds is None else max(pace.seconds - (pace.clock() - pace.began), 0.0)

    def spent(self, share: float) -> bool:
        """Tell whether a share of the time is over; never where there is no deadline."""
        return share < 1 and self.pace.seconds is not None and self.left <= (1 - share) * self.pace.seconds

    def proves(self, method: str, lower: float) -> None:
        """Note which method has something to say, and what."""
        self.method = method
        self.proven(lower)

    def proven(self, lower: float) -> None:
        """Note that no point nearer flips; what lies beyond the witness is no news."""
        self.lower = max(self.lower, min(lower, self.upper))
        if math.isfinite(self.upper) and self.upper > 0:
            self.pace.progress(self.lower / self.upper)

    def found(self, witness: Witness | None) -> None:
        """Note a witness where it is nearer than those before."""
        if witness is not None and witness.distance < self.upper:
            self.witness = witness
            self.proven(self.lower)

    def glimpsed(self, points: Floats, distances: Floats) -> None:
        """Note the nearest of points that flipped in a batch: what a run that ends early may ask about."""
        if distances.size:
            i = int(np.argmin(distances))
            if self.seen is None or distances[i] < self.seen.distance:
                self.seen = Witness(points[i], float(distances[i]))
