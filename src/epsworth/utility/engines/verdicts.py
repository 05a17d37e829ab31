"""What branch and bound asks of whoever looks into a classifier: verdicts on boxes of the sensitive features."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices


class Verdict(NamedTuple):
    """What one look at boxes tells: where all points have the label, where none has, where to cut the others.

    ``axis`` is -1 where no cut would tell more; ``cut`` is a value strictly between the ends of that axis.
    """

    sure: Bools
    never: Bools
    axis: Indices
    cut: Floats


class Boxes(Protocol):
    """Bounds the scores of one record on boxes ``(low, high]`` of its sensitive features, in natural units."""

    @property
    def most(self) -> int:
        """How many boxes to look at per record."""
        ...

    @property
    def together(self) -> int:
        """How many boxes to look at in one sweep, at least."""
        ...

    def start(self) -> tuple[Floats, Floats]:
        """Return disjoint boxes, shapes ``(boxes, sensitive)``, that hold every value that can be released."""
        ...

    def look(self, low: Floats, high: Floats, label: int) -> Verdict:
        """Judge boxes; ``label`` is an index into the classes."""
        ...
