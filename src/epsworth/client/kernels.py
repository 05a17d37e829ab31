"""Two-level kernels of one draw: the integers that a window's share of the grid and epsilon give, proven.

The library's own kernels take their integers from here (`epsworth.mechanisms.two_level`); `epsworth.mjs` is held to
them by vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

PRECISION = 256  # fraction bits of partial sums: what they lack is below 1e-73 of e^x
WORD = 1 << 64
EPSILON_RANGE = (1e-9, 700.0)  # where every formula has been tested to stay accurate in double precision
MOST_BITS = 16
MOST_POINTS = 1 << MOST_BITS
WINDOWS = ("snapped", "sliding")


def stated(text: str) -> Fraction:
    """Return the epsilon of a text of digits, or the nearest double where that is smaller."""
    number, (low, high) = Fraction(text), EPSILON_RANGE
    nearest = float(number)
    if not low <= nearest <= high:
        raise ValueError("epsilon must lie between 1e-9 and 700; write the policy anew")
    return min(number, Fraction(nearest))


def exp_below(x: Fraction) -> Fraction:
    """Return a rational number below e^x (equal to it at x = 0), nondecreasing in x >= 0.

    A partial sum of the Taylor series, every term rounded down.

    Examples
    --------
    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    if x < 0:
        raise ValueError(f"x must not be negative, got {float(x):g}")
    term = total = 1 << PRECISION
    n = 0
    while term:
        n += 1
        term = term * x.numerator // (x.denominator * n)
        total += term
    return Fraction(total, 1 << PRECISION)


def piecewise_width(epsilon: Fraction) -> Fraction:
    """Return 2C = 1/(e^(eps/2) + 1), up to rounding: the width decides utility alone."""
    return 1 / (exp_below(epsilon / 2) + 1)


def square_wave_width(epsilon: Fraction) -> Fraction:
    """Return 2C = (e^eps (eps - 1) + 1)/(e^eps - 1)^2, up to rounding: the width decides utility alone."""
    bound = exp_below(epsilon)
    return (bound * (epsilon - 1) + 1) / (bound - 1) ** 2


SHARES: dict[str, tuple[Callable[[Fraction], Fraction], bool]] = {
    "krr": (lambda epsilon: Fraction(0), False),
    "pm": (piecewise_width, False),
    "sw": (square_wave_width, False),
    "pm_affine": (piecewise_width, True),
    "sw_affine": (square_wave_width, True),
}
"""How much of the grid the window covers, about, and whether it slides; of others a policy states the width."""


def _window(mechanism: str, epsilon: Fraction) -> tuple[Fraction, bool]:
    share, affine = SHARES[mechanism]
    return share(epsilon), affine


def levels(epsilon: Fraction, points: int, share: Fraction) -> tuple[int, int, int]:
    """Return the window's width m, about ``share`` of the grid, the weight A inside it and B elsewhere.

    m is the odd number nearest ``share * points``.  B is the smallest integer with m E B >= 2^64 - (points - m) B for
    which A = (2^64 - (points - m) B)/m is whole: B solves points * B = 2^64 mod m, which has a solution as m is odd and
    the grid has 2^b points (or m = 1).
    """
    width = min(max(2 * int(share * points / 2) + 1, 1), points - 1 if points % 2 == 0 else points - 2)
    least = -(-WORD // (points - width + width * exp_below(epsilon)))
    low = least + (WORD * pow(points, -1, width) - least) % width
    return width, (WORD - (points - width) * low) // width, low


class TwoLevel:
    """Weight ``high`` on ``width`` outputs around the input, ``low`` on the others; together 2^64."""

    __slots__ = ("affine", "gap", "high", "level", "low", "points", "room", "width")

    def __init__(self, mechanism: str, epsilon: Fraction, points: int, window: tuple[int, bool] | None = None) -> None:
        """Take the window of one of `SHARES`, or one of a stated width that slides or not."""
        share, self.affine = (Fraction(window[0], points), window[1]) if window else _window(mechanism, epsilon)
        self.points = points
        self.width, self.high, self.low = levels(epsilon, points, share)
        self.prove(exp_below(epsilon))
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
