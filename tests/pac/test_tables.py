"""Utilities on the paper's data beside the public code's, as printed by examples/papers/pac_tables.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from epsworth.pac import MI, PACPrivatizer, RecordPosterior, budget

PATH = Path(__file__).parents[2] / "examples" / "papers" / "pac_tables.py"


def load():
    spec = importlib.util.spec_from_file_location("pac_tables", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["pac_tables"] = module
    spec.loader.exec_module(module)
    return module


tables = load()
HONEST = [task for task in tables.TASKS if not task.open]
FEWER = 200  # releases
PUBLISHED_ERROR = 0.006  # standard error of the published averages, whose runs differ in seed and data copy


@pytest.mark.slow
@pytest.mark.parametrize("task", HONEST, ids=[task.name for task in HONEST])
def test_not_below_the_public_code_beyond_sampling_error(task, paper_data):
    """Three standard errors of the difference; five cells and eleven tasks, seeded."""
    found = tables.measure(task, FEWER)[0]
    for ours, theirs in zip(found, task.published, strict=True):
        slack = 3 * (ours.standard_error**2 + PUBLISHED_ERROR**2) ** 0.5
        gain = (theirs - ours.mean) if task.error else (ours.mean - theirs)
        assert gain >= -(0.0006 if task.error else slack), (ours.mi, ours.mean, theirs)


# name, budget, bar: what the issue asks for, and what a prototype had reached
BARS = [
    ("Dry Bean K-Means", 1 / 64, 0.60), ("Iris SVM C=1", 1 / 4, 0.80), ("Rice PCA d'=6", 1 / 64, 0.006),
    ("Rice SVM C=1", 1 / 64, 0.77), ("Rice SVM C=1", 1 / 4, 0.90), ("Iris forest", 1 / 4, 0.93),
    ("Rice forest 3x3", 1 / 64, 0.79), ("Dry Bean PCA d'=8", 1 / 64, 0.0145), ("Iris SVM C=1e-6", 1 / 64, 0.64),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mi", "bar"), BARS, ids=[f"{name} {mi}" for name, mi, _ in BARS])
def test_the_gains_are_reached(name, mi, bar, paper_data):
    task = next(task for task in tables.TASKS if task.name == name)
    (found,) = tables.measure(task, FEWER, (mi,))[0]
    assert found.mean <= bar if task.error else found.mean >= bar


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bar"), [("Iris K-Means", 0.93), ("Iris SVM C=1", 0.74), ("Dry Bean K-Means", 0.72)])
def test_budgets_for_single_records_buy_utility(name, bar, paper_data):
    """The worst record at 58.8 %, which the global bound needs MI 1/64 for: .746, .449 and .169 in the public code."""
    task = next(task for task in tables.TASKS if task.name == name)
    X, y, test, truth = tables.split(task.table, task.scaling)
    fitted = PACPrivatizer(task.estimator, RecordPosterior(0.588157), worlds=256).fit(X, y)
    (found,) = fitted.simulate_utility(tables.scorer(task, test, truth), FEWER)
    assert found.mean >= bar
    assert fitted.plan_.mi > 5 * budget(0.588157, 0.5)


def test_half_of_iris_shows_the_table_in_seconds():
    """A fast stand-in for the default run: the noise rule's gain on an SVM, like for like."""
    task = next(task for task in tables.TASKS if task.name == "Iris SVM C=1")
    X, y, test, truth = tables.split(task.table, task.scaling)
    assert (len(X), len(test)) == (100, 49)  # one row is skipped there
    fitted = PACPrivatizer(task.estimator, MI(1 / 4), worlds=128).fit(X, y)
    score = tables.scorer(task, test, truth)
    ours, paper = (
        fitted.simulate_utility(score, 150, noises=[noise], bases=[basis])[0]
        for noise, basis in (("optimal", "svd"), ("paper", "diag"))
    )
    assert ours.mean > paper.mean + 3 * paper.standard_error
    assert ours.trace < 0.75 * paper.trace
