"""What is certified is true as often as promised; plans and private validation keep their words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from epsworth.exact.testing import NotPrivate, ReplayableWords
from epsworth.learner import (
    MECHANISMS,
    Classifier,
    Holder,
    LatticeConfig,
    PrivateValidation,
    chernoff,
    plan,
    published_bound,
    simulate,
)
from epsworth.learner.mechanism import Tally
from epsworth.learner.tails import count_test, difference_interval, sign_test

CERTIFYING = [("hadamard", 1.0), ("ternary", 1.0), ("ternary", 3.0), ("krr", 2.0), ("oue", 2.0), ("parity", 1.0),
              ("slides", 4.0)]  # fmt: skip
every_certifying = pytest.mark.parametrize(("name", "alpha"), CERTIFYING)


LEAD = np.array([-2, 2, -10, 10])  # of ones over zeros among the hundred users of each of four cells


def stairs():
    """Return points in the middle of four cells, and labels: eta - 1/2 is small, of either sign."""
    x = np.repeat((np.arange(4) + 0.5) / 4, 100)[:, None]
    return x, np.concatenate([np.arange(100) < (100 + lead) / 2 for lead in LEAD]).astype(int)


def replications(name, alpha, users=2000, runs=300):
    """Return fitted models, a point in every cell, and the cells' signed means; lattice point j holds j - 1 and j."""
    config = LatticeConfig(box=(0, 1), m=4, mechanism=name, alpha=alpha)
    rng = np.random.default_rng(1)
    models = [Classifier.from_aggregate(simulate(config, *stairs(), rng, users=users), None) for _ in range(runs)]
    if config.kernel.overlapping:
        return models, (np.arange(5) / 4)[:, None], np.convolve(LEAD, [1, 1]) / 400
    return models, ((np.arange(4) + 0.5) / 4)[:, None], LEAD / 400


@every_certifying
def test_false_certificates_are_as_rare_as_promised(name, alpha):
    """Cells whose mean is exactly zero are left out: either sign is right there."""
    models, points, mean = replications(name, alpha)
    kept = mean != 0
    wrong, anywhere = np.zeros(kept.sum()), 0
    for model in models:
        found = model.certificate(points, 0.1)
        false = (found.label == 1) != (mean > 0)
        wrong += (false & (found.p_value <= 0.1))[kept]
        anywhere += (false & found.certified)[kept].any()
    # binomial(300, 0.1) exceeds 53 with probability 1.6e-5; at most 5 cells and 7 mechanisms
    assert wrong.max() <= 53
    assert anywhere <= 53


@every_certifying
def test_intervals_miss_as_rarely_as_promised(name, alpha):
    models, points, mean = replications(name, alpha)
    found = [model.certificate(points, 0.1) for model in models]
    if name == "slides":
        assert np.isnan(found[0].lower).all()
        return
    missed = np.array([(c.lower > mean) | (c.upper < mean) for c in found])
    assert missed.sum(axis=0).max() <= 53  # as above


@pytest.mark.parametrize(("name", "alpha"), [("hadamard", 2.0), ("krr", 3.0), ("oue", 2.0)])
def test_false_certificates_of_several_classes_are_rare(name, alpha):
    rng = np.random.default_rng(2)
    x = np.repeat([0.25, 0.75], 300)[:, None]
    y = np.concatenate([np.repeat([0, 1, 2], [98, 101, 101]), np.repeat([0, 1, 2], [104, 98, 98])])
    config = LatticeConfig(box=(0, 1), m=2, classes=(0, 1, 2), mechanism=name, alpha=alpha)
    wrong = np.zeros(2)
    for _ in range(300):
        model = Classifier.from_aggregate(simulate(config, x, y, rng, users=2000), None)
        found = model.certificate([[0.25], [0.75]], 0.1)
        wrong += (found.p_value <= 0.1) & [found.label[0] == 0, found.label[1] != 0]
    assert wrong.max() <= 53


@every_certifying
def test_clear_cells_are_certified(name, alpha):
    x = np.array([[0.1], [0.4], [0.6], [0.9]])
    config = LatticeConfig(box=(0, 1), m=4, mechanism=name, alpha=alpha)
    sums = simulate(config, x, [0, 0, 1, 1], np.random.default_rng(3), users=200_000)
    model = Classifier.from_aggregate(sums)
    ends = [[0.05], [0.95]]
    found = model.certificate(ends, 0.01)
    assert found.certified.all()
    assert found.label.tolist() == [0, 1]
    assert (found.p_value <= found.adjusted).all()
    assert model.abstain(ends, 0.01).tolist() == [0, 1]
    few = Classifier.from_aggregate(simulate(config, x, [0, 1, 0, 1], np.random.default_rng(3), users=50))
    assert few.abstain([[0.05]], 1e-9).mask.all()
    assert "labels certified at level" in str(found)


def test_certificates_that_a_mechanism_lacks_are_refused():
    config = LatticeConfig(box=(0, 1), m=4, mechanism="cosine", alpha=1)
    model = Classifier.from_aggregate(simulate(config, [[0.1]], [1], np.random.default_rng(0), users=100))
    with pytest.raises(ValueError, match="'cosine' carry no exact certificate"):
        model.certificate([[0.1]])


def test_adjustments_are_ordered_and_bad_levels_refused():
    models, x, _ = replications("hadamard", 1.0, runs=1)
    plain = {kind: models[0].certificate(x, adjust=kind).adjusted for kind in ("bonferroni", "bh", "by")}
    assert (plain["bh"] <= plain["bonferroni"]).all()
    assert (plain["bh"] <= plain["by"]).all()
    with pytest.raises(ValueError, match="adjust must be one of"):
        models[0].certificate(x, adjust="none")
    with pytest.raises(ValueError, match="level must lie"):
        models[0].certificate(x, 1.0)


def test_the_point_is_certified_only_where_smoothness_allows():
    """eta rises with slope 1: declared slope 1 certifies far cells alone, a slope of 50 nothing, edges never."""
    x = (np.arange(8000) + 0.5) / 8000
    y = np.random.default_rng(0).random(8000) < x
    model = {}
    for outside in ("clip", "refuse"):
        config = LatticeConfig(box=(0, 1), m=8, mechanism="krr", alpha=8, outside=outside)
        model[outside] = Classifier.from_aggregate(
            simulate(config, x[:, None], y, np.random.default_rng(1), users=10**7)
        )
    asked = ((np.arange(8) + 0.5) / 8)[:, None]
    mass = 1.05 / 8
    found = model["clip"].certificate(asked, holder=Holder(1.0, 1.0, mass)).point
    assert found.tolist() == [False, True, True, False, False, True, True, False]
    assert model["refuse"].certificate(asked, holder=Holder(1.0, 1.0, mass)).point[[0, 7]].all()
    assert not model["clip"].certificate(asked, holder=Holder(50.0, 1.0, mass)).point.any()
    assert not model["clip"].certificate(asked, holder=Holder(1.0)).point.any()  # without a bound on the mass
    assert not model["refuse"].certificate([[1000.0], [-1e6]], holder=Holder(1.0, 1.0, mass)).point.any()
    with pytest.raises(ValueError, match="holder needs"):
        model["clip"].certificate(asked, holder=Holder(-1.0))


def test_sign_tests_are_binomial_tails():
    for k, n in [(0, 10), (5, 10), (10, 10), (300, 550), (5_100_000, 10**7)]:
        assert sign_test(k, n - k) == pytest.approx(stats.binom.sf(k - 1, n, 0.5), rel=1e-8)


@pytest.mark.parametrize(("p", "n"), [(0.3, 40), (0.05, 60)])
def test_count_tests_keep_their_level_at_equal_probabilities(p, n):
    """Exactly, over all pairs of independent counts: the largest excess of Pr[p-value <= level] over level is none."""
    weight = stats.binom.pmf(np.arange(n + 1), n, p)
    a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    found = count_test(a, b, n)
    for level in (0.01, 0.05, 0.2):
        assert (np.outer(weight, weight) * (found <= level)).sum() <= level


def test_difference_intervals_without_reports_are_everything():
    low, high = difference_interval(np.array([0]), np.array([0]), 0, 0.1, 0.5)
    assert low[0] <= -2
    assert high[0] >= 2


@pytest.mark.parametrize(("n", "d", "alpha", "t"), [(200, 1, 1.0, 0.8), (100, 1, 4.0, 0.3), (50, 1, 100.0, 0.1)])
def test_chernoff_exceeds_the_simulated_tail(n, d, alpha, t):
    """Floating-point Laplace noise as published, and the sampling of a cell with eta = 1/2 that holds everybody."""
    rng, runs, b = np.random.default_rng(4), 100_000, 2 ** (d + 1) / alpha
    noise = (
        rng.laplace(scale=b, size=(runs, n)).sum(axis=1) - rng.laplace(scale=b, size=(runs, n)).sum(axis=1) / 2
    ) / n
    mean = rng.binomial(n, 0.5, runs) / n - 0.5
    tail = (noise + mean >= t).mean()
    assert tail <= float(chernoff(t, n, b)) + 3 * math.sqrt(tail / runs)


def test_the_published_bound_is_refused_where_it_is_wrong():
    """n = 200, d = 1, alpha = 100, t = .06: the true tail is about .05."""
    n, b = 200, 4 / 100
    rng = np.random.default_rng(5)
    tail = (rng.binomial(n, 0.5, 100_000) / n - 0.5 >= 0.06).mean()
    assert 0.03 < tail < 0.08
    assert math.exp(-n * 0.06**2 / (16 * b**2)) < 1e-10
    with pytest.raises(ValueError, match="below 1"):
        published_bound(0.06, n, b)
    with pytest.raises(ValueError, match="t must lie between 0"):
        published_bound(9.0, n, 8.0)
    assert float(chernoff(0.06, n, b)) >= tail


def test_plans_agree_with_each_other_and_with_simulated_certificates():
    first = plan(alpha=1.0, margin=0.05, level=0.01, power=0.9)
    assert plan(users=first.users, margin=0.05, level=0.01, power=0.9).alpha <= 1.0
    assert plan(users=first.users, alpha=1.0, level=0.01, power=0.9).margin <= 0.05
    config = LatticeConfig(box=(0, 1), m=1, mechanism="hadamard", alpha=1.0)
    y = np.arange(1000) < 525  # signed mean 0.05
    rng = np.random.default_rng(6)
    sums = [simulate(config, np.full((1000, 1), 0.5), y, rng, users=first.users) for _ in range(300)]
    p = [Classifier.from_aggregate(s).certificate([[0.5]]).p_value[0] for s in sums]
    assert np.mean(np.array(p) <= 0.01) >= 0.9
    assert not plan(users=100, margin=0.01).feasible
    assert "No alpha is enough" in str(plan(users=100, margin=0.01))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "exactly two of alpha, users and margin"),
        ({"users": 10, "margin": 0.1}, "exactly two"),
        ({"margin": 2.0}, "margin must lie"),
        ({"users": 0}, "users must be a whole number"),
        ({"margin": 0.1, "level": 0.0}, "level must lie"),
        ({"margin": 0.1, "power": 1.0}, "power must lie"),
    ],
)
def test_bad_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        plan(alpha=1.0, **change)


def test_private_validation_bounds_hold():
    """300 repetitions, two candidates of known accuracy: both bounds miss at most as often as promised."""
    x = np.arange(1000)[:, None] / 1000
    y = (x[:, 0] < 0.7).astype(int)  # the first is right for 70 %, the second for 80 %
    validation = PrivateValidation([lambda X: np.ones(len(X)), lambda X: X[:, 0] < 0.5], alpha=1.0)
    words, missed, rng = ReplayableWords(7), 0, np.random.default_rng(8)
    for _ in range(300):
        rows = rng.integers(1000, size=2000)
        votes = validation.vote(x[rows], y[rows], words=words)
        assert isinstance(votes, NotPrivate)
        found = validation.accuracies(np.asarray(votes), level=0.1)
        missed += bool(((found.lower > [0.7, 0.8]) | (found.upper < [0.7, 0.8])).any())
    assert missed <= 53
    assert found.users.sum() == 2000
    with pytest.raises(ValueError, match="votes must be whole numbers"):
        validation.accuracies([[5, 0]])
    with pytest.raises(ValueError, match="candidate 1 has no votes"):
        validation.accuracies([[0, 1]])
    with pytest.raises(ValueError, match="no candidates"):
        PrivateValidation([], alpha=1)


def test_every_mechanism_that_certifies_is_tested():
    nothing = {
        name
        for name, kind in MECHANISMS.items()
        if kind.p_values is MECHANISMS["cosine"].p_values and kind.duels is MECHANISMS["cosine"].duels
    }
    assert {name for name, _ in CERTIFYING} | nothing == set(MECHANISMS)
    assert isinstance(LatticeConfig(box=(0, 1), m=2, alpha=1).kernel.empty(), Tally)
