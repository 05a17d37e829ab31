"""Utilities on the paper's data beside the public code's, as printed by ``python -m reproduction.pac_utilities``."""

from __future__ import annotations

import pytest

from epsworth.pac import MI, PACPrivatizer, RecordPosterior, budget
from reproduction import pac_utilities as tables

RELEASES = 200
PUBLISHED_ERROR = 0.006  # standard error of the published averages, whose runs differ in seed and data copy
PROTOTYPE_ERROR = 0.0075  # of 400 to 1000 releases; on Iris another list of worlds moves a cell as much
# what a prototype reached at MI 1/64, 1/16, 1/4, 1, 4 with the same global budget; None: not run, or another row's cell
PROTOTYPE = {
    "Iris K-Means": (0.807, 0.923, 0.951, 0.951, 0.952),
    "Iris SVM C=1": (0.519, 0.651, 0.830, 0.923, None),
    "Iris SVM C=1e-6": (0.645, 0.738, 0.759, 0.762, 0.765),
    "Iris forest": (0.68, 0.86, 0.944, 0.963, 0.960),
    "Rice K-Means": (0.892, 0.904, 0.907, 0.907, 0.907),
    "Rice SVM C=1": (0.795, 0.876, 0.909, 0.921, None),
    "Rice forest w=.4": (0.798, 0.878, 0.899, None, None),
    "Rice forest w=.2": (None, None, 0.899, 0.907, 0.909),
    "Rice PCA d'=1": (0.188, 0.186, 0.185, 0.185, 0.185),
    "Rice PCA d'=6": (0.0048, 0.0032, 0.0026, 0.0024, 0.0023),
    "Dry Bean K-Means": (0.612, 0.697, 0.723, 0.730, 0.733),
    "Dry Bean PCA d'=1": (0.170, 0.169, 0.169, 0.169, 0.169),
    "Dry Bean PCA d'=8": (0.0138, 0.0097, 0.0082, 0.0078, 0.0077),
}
TARGETS = {"Dry Bean K-Means": (1 / 64, 0.60), "Iris SVM C=1": (1 / 4, 0.80), "Rice PCA d'=6": (1 / 64, 0.006)}


def named(name):
    return next(task for task in tables.TASKS if task.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("task", tables.TASKS, ids=[task.name for task in tables.TASKS])
def test_utilities_are_those_of_the_public_code_and_of_the_prototype_or_better(task, paper_data):
    """Three standard errors of the difference, restoration errors within rounding; 125 cells, seeded."""
    fitted, score = tables.fit(task)
    found = fitted.simulate_utility(score, RELEASES, budgets=[MI(beta) for beta in tables.BUDGETS])
    published = (None,) * 5 if task.open else task.published
    for theirs, error in ((published, PUBLISHED_ERROR), (PROTOTYPE.get(task.name, ()), PROTOTYPE_ERROR)):
        for ours, reached in zip(found, theirs, strict=False):
            if reached is None:
                continue
            if task.error:
                assert ours.mean <= reached + 0.0006, (ours.mi, ours.mean, reached)
            else:
                slack = 3 * (ours.standard_error**2 + error**2) ** 0.5
                assert ours.mean >= reached - slack, (ours.mi, ours.mean, reached)
    if task.name in TARGETS:
        mi, target = TARGETS[task.name]
        reached = found[tables.BUDGETS.index(mi)].mean
        assert reached <= target if task.error else reached >= target


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bar"), [("Iris K-Means", 0.945), ("Iris SVM C=1", 0.80), ("Dry Bean K-Means", 0.69)])
def test_budgets_for_single_records_buy_utility(name, bar, paper_data):
    """The worst record at 58.8 %, which the global bound needs MI 1/64 for: .746, .449 and .169 in the public code.

    A prototype, which limited success on average only, reached .952, .829 and .731; sure guesses and pairs of nearest
    rows are limited, too, which leaves .953, .810 and .704.  Bars leave three standard errors of 200 releases.
    """
    task = named(name)
    fitted, score = tables.fit(task, RecordPosterior(0.588157))
    (found,) = fitted.simulate_utility(score, RELEASES)
    assert found.mean >= bar
    assert fitted.plan_.mi > 4 * budget(0.588157, 0.5)


@pytest.mark.slow
def test_half_of_iris_shows_the_table_in_seconds():
    """A fast stand-in for the default run: the noise rule's gain on an SVM, like for like."""
    task = named("Iris SVM C=1")
    X, y, test, truth = tables.split(task.table, task.scaling)
    assert (len(X), len(test)) == (100, 49)  # one row is skipped there
    fitted = PACPrivatizer(task.estimator, MI(1 / 4), worlds=128, worlds_seed=0).fit(X, y)
    score = tables.scorer(task, test, truth)
    ours, paper = (
        fitted.simulate_utility(score, 150, noises=[noise], bases=[basis])[0]
        for noise, basis in (("optimal", "svd"), ("paper", "diag"))
    )
    assert ours.mean > paper.mean + 3 * paper.standard_error
    assert ours.trace < 0.75 * paper.trace


@pytest.mark.slow
def test_means_stand_on_the_scale_of_the_papers_table():
    """Iris after sub-sampling: .043 to .046 there.  Corrected noise is less than the published rule's."""
    found = tables.mean_distances("iris", 1 / 16, releases=200)
    assert 0.038 < found["sub-sampled"] < 0.050
    assert found["sub-sampled"] < found["corrected"] < 0.8 * found["published"]
    assert found["published"] < found["all tasks"]
