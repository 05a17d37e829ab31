"""Two-level kernels of one draw: their integers recomputed from epsilon, compared with the stated ones, and proven.

Written anew, by whole numbers and fractions of the standard library: `epsworth.exact` does not judge itself here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

PRECISION = 256  # fraction bits of partial sums of e^x
WORD = 1 << 64
LEAST, MOST = 1e-9, 700.0  # of an epsilon
MOST_POINTS = 1 << 16


def stated(text: str) -> Fraction:
    """Return the epsilon of a text of digits, or the nearest double where that is smaller."""
    number = Fraction(text)
    nearest = float(number)
    if not LEAST <= nearest <= MOST:
        raise ValueError("epsilon must lie between 1e-9 and 700; write the policy anew")
    return min(number, Fraction(nearest))


def exp_below(x: Fraction) -> Fraction:
    """Return a number below e^x: a partial sum of the Taylor series, every term rounded down."""
    term = total = 1 << PRECISION
    n = 0
    while term:
        n += 1
        term = term * x.numerator // (x.denominator * n)
        total += term
    return Fraction(total, 1 << PRECISION)


def _narrow(epsilon: Fraction) -> Fraction:
    return 1 / (exp_below(epsilon / 2) + 1)


def _wave(epsilon: Fraction) -> Fraction:
    bound = exp_below(epsilon)
    return (bound * (epsilon - 1) + 1) / (bound - 1) ** 2


SHARES: dict[str, tuple[Callable[[Fraction], Fraction], bool]] = {
    "krr": (lambda epsilon: Fraction(0), False),
    "pm": (_narrow, False),
    "sw": (_wave, False),
    "pm_affine": (_narrow, True),
    "sw_affine": (_wave, True),
}
"""How much of the grid the window covers, about, and whether it moves linearly."""


class TwoLevel:
    """Weight ``high`` on ``width`` outputs around the input, ``low`` on the others; together 2^64."""

    __slots__ = ("affine", "gap", "high", "level", "low", "points", "room", "width")

    def __init__(self, mechanism: str, epsilon: Fraction, points: int) -> None:
        share, self.affine = SHARES[mechanism]
        self.points = points
        bound = exp_below(epsilon)
        self.width = min(
            max(2 * int(share(epsilon) * points / 2) + 1, 1), points - 1 if points % 2 == 0 else points - 2
        )
        least = -(-WORD // (points - self.width + self.width * bound))
        self.low = least + (WORD * pow(points, -1, self.width) - least) % self.width
        self.high = (WORD - (points - self.width) * self.low) // self.width
        self.prove(bound)
        self.room, self.level, self.gap = points - self.width, points * self.low, self.high - self.low

    def prove(self, bound: Fraction) -> None:
        """Refuse weights that are not whole, do not add up to 2^64, or differ by more than ``bound``."""
        whole = 1 <= self.width < self.points and 1 <= self.low < self.high
        total = self.width * self.high + (self.points - self.width) * self.low == WORD
        if not (whole and total and self.high <= bound * self.low):
            raise ValueError(f"no weights on {self.points} points keep so small an epsilon; use fewer points")

    def left(self, i: int) -> int:
        """Return the first output of an input's window."""
        if self.affine:
            return (2 * i * self.room + self.points - 1) // (2 * (self.points - 1))
        return min(max(i - (self.width - 1) // 2, 0), self.room)

    def outcome(self, i: int, word: int) -> int:
        """Return the output of an input for a word: below the level any, above it one of the window."""
        if word < self.level:
            return word // self.low
        return self.left(i) + (0 if self.width == 1 else (word - self.level) // self.gap)
