"""Randomised response on the label: the client computes it with a public classifier and randomises that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class LabelResponse:
    """Send the true label with weight e^E and every other with weight 1, E the budget of the whole record.

    It needs a classifier that clients can run, and it attains the ceiling: no mechanism of the same budget
    keeps the label more often for every input (Kairouz, Oh & Viswanath 2014).

    Parameters
    ----------
    epsilon : float
        Per sensitive feature, as for the others; E is its sum over the sensitive features.
    """

    epsilon: float

    title: ClassVar[str] = "Randomised response on the label"
    reference: ClassVar[str] = "Kairouz, Oh & Viswanath 2014; attains the ceiling"
    output: ClassVar[str] = "label"
