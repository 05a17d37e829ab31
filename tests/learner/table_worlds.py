"""Tables to learn from, and their configurations."""

from __future__ import annotations

import numpy as np

from epsworth.learner import Category, Number, TableConfig


def rows(n, seed=0, *, missing=0.0):
    """Return ages, doses, jobs and sizes as rows of mixed kinds, and labels that depend on all of them."""
    rng = np.random.default_rng(seed)
    age, dose, height = rng.uniform(0, 100, n), rng.exponential(2, n), rng.normal(170, 10, n)
    job, sex = rng.integers(3, size=n), rng.integers(2, size=n)
    y = np.where(drift(age, dose, job, sex) + rng.logistic(size=n) * 0.5 > 0, "yes", "no")
    table = np.empty((n, 5), dtype=object)
    table[:, 0], table[:, 1], table[:, 2] = age, dose, height
    table[:, 3], table[:, 4] = np.array(["none", "clerk", "nurse"])[job], sex
    if missing:
        gone = rng.random(n) < missing * (1 + (y == "yes"))  # who says yes hides the dose more often
        table[gone, 1] = None
    return table, y


def drift(age, dose, job, sex):
    return 0.04 * (age - 50) + 0.8 * (job == 2) - 0.5 * (dose - 2) + 0.6 * sex - 0.5


def best(table):
    """Return the labels that nobody beats."""
    job = np.array([["none", "clerk", "nurse"].index(one) for one in table[:, 3]])
    return np.where(
        drift(table[:, 0].astype(float), table[:, 1].astype(float), job, table[:, 4].astype(int)) > 0, "yes", "no"
    )


def columns(*, missing=False):
    return [
        Number("age", 0, 100), Number("dose", 0, 10, missing=missing), Number("height", 130, 210),
        Category("job", ("none", "clerk", "nurse")), Category("sex", (0, 1)),
    ]  # fmt: skip


def config(users=100_000, epsilon=1, **given):
    missing = given.pop("missing", False)
    return TableConfig(columns(missing=missing), ("no", "yes"), epsilon, users, **given)
