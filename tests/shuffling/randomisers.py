"""Small randomisers as matrices, and the exact divergence of their shuffled reports over all data sets."""

from __future__ import annotations

import itertools
import math

import numpy as np


def krr(epsilon, symbols):
    """Values in rows, outputs in columns; the last row is of a record that states nothing."""
    large = math.exp(epsilon)
    law = np.full((symbols + 1, symbols), 1.0)
    law[np.arange(symbols), np.arange(symbols)] = large
    return law / law.sum(axis=1, keepdims=True)


def oue(epsilon, symbols):
    q = 1 / (1 + math.exp(epsilon))
    chances = np.full((symbols + 1, symbols), q)
    chances[np.arange(symbols), np.arange(symbols)] = 0.5
    outputs = np.array(list(itertools.product([0, 1], repeat=symbols)))
    return np.prod(np.where(outputs, chances[:, None, :], 1 - chances[:, None, :]), axis=2)


def ternary(epsilon, cells):
    large = math.exp(epsilon)
    if large <= 3:
        own, none = [1 / (1 + large), 0.0, large / (1 + large)], [0.5, 0.0, 0.5]
    else:
        q = 1 / (large - 1)
        own, none = [q / 2, (1 - 2 * q) / 2, q * large / 2], [q, 1 - 2 * q, q]
    rows = []
    for cell in range(cells + 1):  # the last one is nobody's
        for sign in (1, -1) if cell < cells else (1,):
            parts = [own[::sign] if c == cell else none for c in range(cells)]
            rows.append([math.prod(chosen) for chosen in itertools.product(*parts)])
    return np.array(rows)


def hadamard(epsilon, classes):
    """One cell: with two classes both are one column and its negative, with more every class has its own column."""
    columns = 1 if classes == 2 else classes
    rows = 1 << (columns - 1).bit_length()
    sign = np.array([[(-1) ** (row & column).bit_count() for row in range(rows)] for column in range(columns)])
    sign = np.vstack([sign, -sign]) if classes == 2 else sign
    right = np.where(sign > 0, 1, 0)
    p = 1 / (1 + math.exp(epsilon))
    plus = np.vstack([right * (1 - p) + (1 - right) * p, np.full((1, rows), 0.5)])
    return np.hstack([plus, 1 - plus]) / rows


def some(epsilon, values, outputs, rng):
    """Return a random randomiser that keeps epsilon, often barely."""
    high = rng.random((values, outputs)) < 0.5
    base, level = rng.dirichlet(np.ones(outputs)), epsilon
    while True:
        law = base * np.where(high, math.exp(level), 1.0)
        law /= law.sum(axis=1, keepdims=True)
        if (law.max(axis=0) <= math.exp(epsilon) * law.min(axis=0)).all():
            return law
        level *= 0.97


def with_report(counts, law):
    """Return the law of the numbers of outputs with one more report."""
    found = {}
    for numbers, chance in counts.items():
        for output, own in enumerate(law.tolist()):
            if own:
                key = (*numbers[:output], numbers[output] + 1, *numbers[output + 1 :])
                found[key] = found.get(key, 0.0) + chance * own
    return found


def worst_divergences(law, users, epsilons):
    """Return the exact divergences of the shuffled batch at several orders, over all data sets and pairs."""
    values, outputs = law.shape
    worst = np.zeros(len(epsilons))
    for others in itertools.combinations_with_replacement(range(values), users - 1):
        counts = {(0,) * outputs: 1.0}
        for value in others:
            counts = with_report(counts, law[value])
        seen = [with_report(counts, row) for row in law]
        keys = sorted(set().union(*seen))
        table = np.array([[one.get(key, 0.0) for key in keys] for one in seen])
        for at, epsilon in enumerate(epsilons):
            excess = np.maximum(table[:, None] - math.exp(epsilon) * table[None, :], 0.0).sum(axis=2)
            worst[at] = max(worst[at], excess.max())
    return worst


def merged_divergence(users, symbols, local, epsilon):
    """Return what the published, merged variation-ratio form says of k-ary randomised response.

    Every other is a clone of either value with probability alpha each; the target is its value with e^e0 alpha, the
    other one with alpha, and else nothing; seen are the numbers of both.
    """
    large, alpha = math.exp(local), 1 / (math.exp(local) + symbols - 1)
    others = {}
    for clones in range(users):
        share = math.comb(users - 1, clones) * (2 * alpha) ** clones * (1 - 2 * alpha) ** (users - 1 - clones)
        for a in range(clones + 1):
            others[a, clones - a] = share * math.comb(clones, a) / 2**clones

    def seen(own, other):
        found = {}
        for (a, b), chance in others.items():
            for x, y, part in ((1, 0, own), (0, 1, other), (0, 0, 1 - own - other)):
                found[a + x, b + y] = found.get((a + x, b + y), 0.0) + chance * part
        return found

    one, two = seen(large * alpha, alpha), seen(alpha, large * alpha)
    return sum(max(0.0, one[key] - math.exp(epsilon) * two[key]) for key in one)
