"""MECHANISMS, the one table, and the choice by formula among those that are worth choosing."""

from __future__ import annotations

import math
from fractions import Fraction

from epsworth.learner.coins import checked_epsilon
from epsworth.learner.disjoint import Hadamard, Krr, Oue, Ternary
from epsworth.learner.mechanism import Mechanism, checked_users
from epsworth.learner.series import Cosine
from epsworth.mechanisms.rational import Exact

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Hadamard, Ternary, Krr, Oue, Cosine)
}  # fmt: skip
CANDIDATES = ("hadamard", "krr", "ternary", "oue")
WORTH = 1.25  # a longer report must save a fifth of the users
LONGEST = 4096  # bytes that a device may be asked to send
MOST_CELLS = 10**7
MOST_COUNTERS = 8 * MOST_CELLS
MOST_GRID_AXES = 6
LARGEST, SMALLEST = 64, 2  # cells per axis, by the rule
MOST_BY_RULE = 300_000  # cells in all
HIGHEST = {1: 12, 2: 8, 3: 6, 4: 5}  # degree of the cosine basis, by the rule; 2 for more features


def choose(epsilon: Fraction, m: int, d: int, classes: int, rows: str = "drawn") -> str:
    """Return the mechanism with the least variance; the one-bit report where no other saves a fifth of the users."""
    if d > MOST_GRID_AXES:
        return "cosine"
    one_bit = Hadamard(epsilon, m, d, classes)
    if rows == "hash":  # which takes reports that name a row
        return one_bit.name
    found: list[tuple[float, Mechanism]] = []
    for name in CANDIDATES:
        mechanism = MECHANISMS[name](epsilon, m, d, classes)
        held = math.prod(mechanism.shape)
        short = mechanism.format.size <= LONGEST
        if short and held <= MOST_COUNTERS and (classes == 2 or not mechanism.binary_only):
            found.append((mechanism.variance, mechanism))
    if not found:
        return one_bit.name
    least, best = min(found, key=lambda entry: entry[0])
    return best.name if one_bit.variance > WORTH * least else one_bit.name


def grid_size(name: str, epsilon: Fraction, d: int, classes: int, users: int) -> int:
    """Return the cells per axis that suit so many users; for the cosine basis a degree.

    On the partition the largest m with m^d outputs <= (users / variance)^(1/2), m rounded: a typical
    estimate at one standard deviation.  On the published lattice 1 / h, h = (n epsilon^2)^(-1 / (2 + 2d)), n half of
    the users.
    """
    kind = MECHANISMS[name]
    if kind.overlapping:
        return max(1, round(float((users / 2) ** (1 / (2 + 2 * d)) * float(epsilon) ** (1 / (1 + d)))))
    if kind is Cosine:
        kernels = [Cosine(epsilon, degree, d, classes) for degree in range(HIGHEST.get(d, 2), 1, -1)]
        fits = (k.m for k in kernels if k.rows * k.outputs <= users**0.5 * k.contrast)
        return next(fits, 1)
    for m in range(LARGEST, SMALLEST, -1):
        kernel = kind(epsilon, m, d, classes)
        most = ((users / kernel.mean_variance) ** 0.5 / kernel.outputs) ** (1 / d) + 0.5
        if kernel.cells * kernel.outputs <= MOST_BY_RULE and m <= most:
            return m
    return SMALLEST


def suited(name: str, epsilon: Exact, d: int, classes: int, users: int, rows: str = "drawn") -> tuple[str, int]:
    """Return mechanism and cells per axis for so many users; "auto" chooses with the cells of the one-bit report."""
    budget = checked_epsilon(epsilon)
    if d < 1 or classes < 2:
        raise ValueError(f"need at least one feature and two classes, got {d} and {classes}; declare them")
    users = checked_users(users, "it is how many reports to expect")
    if name == "auto":
        first = "cosine" if d > MOST_GRID_AXES else "hadamard"
        name = choose(budget, grid_size(first, budget, d, classes, users), d, classes, rows)
    if name not in MECHANISMS:
        raise ValueError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}, got {name!r}")
    return name, grid_size(name, budget, d, classes, users)
