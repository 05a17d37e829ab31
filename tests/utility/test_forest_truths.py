"""Forests against sixty digits: every cell between the trees' own thresholds is asked, its mass is computed anew."""

from __future__ import annotations

from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from sixty import EXACT, TIMES, mass
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.mechanisms import MECHANISMS

NAMES = ("pm", "sw", "laplace_clipped", "bounded_laplace", "hybrid", "staircase", "duchi", "krr:k=7", "exponential:k=5")
KINDS = (
    lambda rng, depth, seed: DecisionTreeClassifier(max_depth=depth, random_state=seed),
    lambda rng, depth, seed: RandomForestClassifier(int(rng.integers(1, 8)), max_depth=depth, random_state=seed),
    lambda rng, depth, seed: ExtraTreesClassifier(int(rng.integers(1, 8)), max_depth=depth, random_state=seed),
    lambda rng, depth, seed: GradientBoostingClassifier(
        n_estimators=int(rng.integers(1, 5)), max_depth=int(rng.integers(1, 4)), random_state=seed
    ),
)
OFF = EXACT(10) ** -50  # of a truth in sixty digits, where a bound is exactly 0 or 1


def trees_of(model):
    found = getattr(model, "estimators_", [model])
    return [tree.tree_ for tree in np.ravel(np.array(found, dtype=object))]


def last_double(threshold):
    """Return the last double of [0, 1] that single precision leaves at or below a threshold, or None; by halving."""
    if threshold < 0:
        return None
    low, high = 0, int(np.float64(1.0).view(np.int64))  # doubles from 0 on are ordered as their bits are
    if threshold >= 1:
        return 1.0
    while high - low > 1:
        middle = (low + high) // 2
        value = np.int64(middle).view(np.float64)
        low, high = (middle, high) if float(np.float32(value)) <= threshold else (low, middle)
    return float(np.int64(low).view(np.float64))


def ends_of_cells(model, feature):
    """Return the last value of every cell of a feature, 1 the last of all."""
    cuts = {t for tree in trees_of(model) for t in tree.threshold[tree.feature == feature].tolist()}
    lasts = {last_double(cut) for cut in cuts} - {None}
    return sorted(lasts | {1.0})


def law_of(name, epsilon, x):
    family, _, rest = name.partition(":k=")
    return MECHANISMS[family](epsilon, **({"k": int(rest)} if rest else {})).law(x)


def stay(model, record, sensitive, name, epsilon):
    """Return the probability in sixty digits that the label stays."""
    ends = [ends_of_cells(model, feature) for feature in sensitive]
    cells = np.array(list(product(*ends)))
    asked = np.repeat(record[np.newaxis], len(cells), axis=0)
    asked[:, sensitive] = cells
    stays = model.predict(asked) == model.predict(record[np.newaxis])
    masses = []
    for feature, last in zip(sensitive, ends, strict=True):
        law = law_of(name, epsilon, float(record[feature]))
        up_to = [EXACT(0), *(mass(law, -mpmath.inf, EXACT(end)) for end in last)]
        # shares: a law's doubles need not add up to 1
        masses.append([(after - before) / up_to[-1] for before, after in pairwise(up_to)])
    return mpmath.fsum(mpmath.fprod(cell) for cell, kept in zip(product(*masses), stays, strict=True) if kept)


def forest(rng):
    """A small model of noisy labels, and records: of the table, on thresholds, at ends, anywhere."""
    d, classes = int(rng.integers(1, 5)), int(rng.integers(2, 4))
    table = rng.random((int(rng.integers(12, 50)), d)).round(int(rng.integers(1, 9)))
    labels = (table.sum(axis=1) * classes / d + rng.normal(0, 0.3, len(table))).clip(0, classes - 0.01).astype(int)
    labels[:classes] = range(classes)
    model = KINDS[rng.integers(len(KINDS))](rng, int(rng.integers(1, 5)), int(rng.integers(2**31))).fit(table, labels)
    cuts = np.concatenate([tree.threshold[tree.feature >= 0] for tree in trees_of(model)] + [np.array([0.5])])
    places = np.stack(
        [rng.choice(table.ravel(), d), rng.choice(cuts, d).clip(0, 1), rng.integers(0, 2, d), rng.random(d)]
    )
    records = places[rng.integers(0, 4, (2, d)), np.arange(d)].astype(float)
    return model, records, np.sort(rng.permutation(d)[: int(rng.integers(1, 4))])


def check(rng):
    """Return the widths of the points of a random model, all of which lie where they should."""
    model, records, sensitive = forest(rng)
    names = rng.choice(NAMES, 2, replace=False).tolist()
    epsilons = np.sort(10 ** rng.uniform(-1.5, 1.5, 3)).tolist()
    found = ew.stability(
        model, records, sensitive=sensitive.tolist(), mechanisms=names, per="feature", epsilons=epsilons,
        domain={int(feature): (0, 1) for feature in sensitive},
    )  # fmt: skip
    for (m, name), (e, epsilon), r in product(enumerate(names), enumerate(epsilons), range(len(records))):
        truth = stay(model, records[r], sensitive, name, epsilon)
        assert found.lower[m, e, r] - truth <= OFF, (name, epsilon, r)
        assert truth - found.upper[m, e, r] <= OFF, (name, epsilon, r)
    return (found.upper - found.lower).ravel().tolist()


@pytest.mark.slow
def test_forests_hold_the_truth():
    rng, widths = np.random.default_rng(0), []
    while len(widths) < 300 * TIMES:
        widths += check(rng)
    assert np.quantile(widths, 0.9) < 1e-9
    assert max(widths) <= 2 * 0.01  # what three features are asked for
