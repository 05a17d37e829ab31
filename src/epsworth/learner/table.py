"""MECHANISMS, the one table, and the choice by formula among those that are worth choosing."""

from __future__ import annotations

from fractions import Fraction

from epsworth.learner.cellwise import Krr, Oue
from epsworth.learner.mechanism import Mechanism
from epsworth.learner.overlapping import Parity, Slides
from epsworth.learner.series import Cosine
from epsworth.learner.signed import Hadamard, Ternary

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Hadamard, Ternary, Krr, Oue, Parity, Slides, Cosine)
}  # fmt: skip
CANDIDATES = ("hadamard", "krr", "ternary", "oue")
WORTH = 1.25  # a longer report must save a fifth of the users
LONGEST = 4096  # bytes that a device may be asked to send
MOST_GRID_AXES = 6


def choose(alpha: Fraction, m: int, d: int, classes: int, *, most_bytes: int = LONGEST) -> str:
    """Return the mechanism with the least variance; the one-bit report where no other saves a fifth of the users.

    Parameters
    ----------
    most_bytes : int
        Longest message that may be chosen.

    Examples
    --------
    >>> choose(Fraction(1), 16, 2, 2), choose(Fraction(4), 16, 2, 2), choose(Fraction(4), 2, 1, 2)
    ('hadamard', 'ternary', 'krr')
    """
    if d > MOST_GRID_AXES:
        return "cosine"
    one_bit = Hadamard(alpha, m, d, classes)
    found: list[tuple[float, Mechanism]] = []
    for name in CANDIDATES:
        mechanism = MECHANISMS[name](alpha, m, d, classes)
        if mechanism.size <= most_bytes and (classes == 2 or not mechanism.binary_only):
            found.append((mechanism.variance, mechanism))
    if not found:
        return one_bit.name
    least, best = min(found, key=lambda entry: entry[0])
    return best.name if one_bit.variance > WORTH * least else one_bit.name
