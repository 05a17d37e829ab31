"""Wang et al. 2024: what the merged variation-ratio form says of k-ary randomised response behind a shuffler."""

from __future__ import annotations

import itertools
import math

import numpy as np

from epsworth.arrays import Floats
from epsworth.shuffling.blankets import delta_of_pair, pairs_of
from epsworth.shuffling.clones import delta_of_any
from reproduction.items import Item, Outcome, Setting, judged

CASES = ((5, 4, 1.0, 0.5), (4, 3, 1.0, 0.5), (4, 5, 2.0, 1.0))  # users, symbols, local epsilon, epsilon
Seen = dict[tuple[int, ...], float]


def merged_divergence(users: int, symbols: int, local: float, epsilon: float) -> float:
    """Return the published form: of clones of two values and a target that is one of them, or nothing.

    Each other is a clone of either value with probability a = 1 / (e^e0 + k - 1); the target is its own with e^e0 a,
    the other one with a, and else neither; seen are the two numbers.
    """
    large, order = math.exp(local), math.exp(epsilon)
    a = 1 / (large + symbols - 1)
    gains: Seen = {}
    for clones, first in ((c, f) for c in range(users) for f in range(c + 1)):
        chance = math.comb(users - 1, clones) * (2 * a) ** clones * (1 - 2 * a) ** (users - 1 - clones)
        chance *= math.comb(clones, first) / 2**clones
        told = {(1, 0): (large * a, a), (0, 1): (a, large * a), (0, 0): (1 - a - large * a,) * 2}
        for (more, less), (own, other) in told.items():
            key = (first + more, clones - first + less)
            gains[key] = gains.get(key, 0.0) + chance * (own - order * other)
    return sum(max(0.0, gain) for gain in gains.values())


def worst_divergence(users: int, symbols: int, local: float, epsilon: float) -> float:
    """Return the exact divergence of the counts of all symbols, over all data sets and pairs of values."""
    large = math.exp(local)
    law: Floats = (np.ones((symbols, symbols)) + (large - 1) * np.eye(symbols)) / (large + symbols - 1)
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(symbols), users - 1):
        counts: Seen = {(0,) * symbols: 1.0}
        for value in others:
            counts = _with_report(counts, law[value])
        seen = [_with_report(counts, row) for row in law]
        for one, two in itertools.permutations(seen, 2):
            worst = max(worst, sum(max(0.0, p - math.exp(epsilon) * two[key]) for key, p in one.items()))
    return worst


def _with_report(counts: Seen, law: Floats) -> Seen:
    found: Seen = {}
    for numbers, chance in counts.items():
        for symbol, own in enumerate(law.tolist()):
            key = (*numbers[:symbol], numbers[symbol] + 1, *numbers[symbol + 1 :])
            found[key] = found.get(key, 0.0) + chance * own
    return found


def claim_1(setting: Setting) -> Outcome:
    """Compare the published form, the exact divergence and our own bound for a few users."""
    merged, exact, ours = [], [], []
    for users, symbols, local, epsilon in CASES:
        merged.append(merged_divergence(users, symbols, local, epsilon))
        exact.append(worst_divergence(users, symbols, local, epsilon))
        law = max(delta_of_pair(users, pair, local, epsilon, 1e-9) for pair in pairs_of("krr", symbols, local))
        ours.append(min(law, delta_of_any(users, local, epsilon, 1e-9)))
    users, symbols, local, epsilon = CASES[0]
    told = (
        f"{users} users, {symbols} symbols, epsilon {local:g} at {epsilon:g}: {merged[0]:.6f} stated, "
        f"{exact[0]:.6f} exact, {ours[0]:.6f} ours"
    )
    assert all(bound >= truth for bound, truth in zip(ours, exact, strict=True))
    short = max(100 * (1 - form / truth) for form, truth in zip(merged, exact, strict=True))
    return Outcome(
        judged(all(form >= truth for form, truth in zip(merged, exact, strict=True))),
        told,
        f"up to {short:.1f} % below what a data set tells",
    )


ITEMS = (
    Item(
        "variation-ratio/claim-1",
        "The routine amplificationUB for k-ary randomised response, public code",
        "The merged form bounds the divergence of shuffled k-RR.",
        claim_1,
        quick=True,
    ),
)
