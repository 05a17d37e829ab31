"""Noise for a task: what noise costs a score, and that costs decide usefulness only, never the promise."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from epsworth import pac
from epsworth.bounds import Risk
from epsworth.pac import MI, Ledger, PACPrivatizer, RecordPosterior
from epsworth.pac import calibration as module
from epsworth.pac.allocation import allocate, gaussian_bound, spending
from epsworth.pac.calibration import Shape, Task, calibrate, costs, frame_of
from epsworth.pac.certificate import certify

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(30)


def bump(vector):
    """Return a smooth score that cares for the first number far more than for the second."""
    return math.exp(-(vector[0] ** 2) - 0.05 * vector[1] ** 2) + 0.1 * math.sin(vector[1])


def expected(noise):
    """Return E of `bump` around (0.3, -0.5), by quadrature: independent of everything here."""
    x, y = 0.3 + math.sqrt(noise[0]) * NODES, -0.5 + math.sqrt(noise[1]) * NODES
    values = np.exp(-(x[:, None] ** 2) - 0.05 * y**2) + 0.1 * np.sin(y)
    return float(WEIGHTS @ values @ WEIGHTS / WEIGHTS.sum() ** 2)


def test_costs_are_the_finite_differences_of_the_expected_score():
    """A central difference in ln e_k by quadrature; five standard errors of the simulation: false alarm 1.2e-6."""
    noise, draws, step = np.array([0.4, 1.5]), 200_000, 1e-4
    z = np.random.default_rng(0).standard_normal((draws, 2))
    y = np.array([0.3, -0.5]) + z * np.sqrt(noise)
    scores = np.exp(-(y[:, 0] ** 2) - 0.05 * y[:, 1] ** 2) + 0.1 * np.sin(y[:, 1])
    errors = (scores[:, None] * (z**2 - 1)).std(axis=0) / 2 / math.sqrt(draws)
    for k, found in enumerate(costs(scores, z)):
        factor = np.where(np.arange(2) == k, math.exp(step), 1.0)
        slope = (expected(noise * factor) - expected(noise / factor)) / (2 * step)
        assert abs(found + slope) <= 5 * errors[k]
        assert errors[k] < 0.1 * abs(slope)  # so that this can fail


def test_a_score_that_is_simulated_is_the_score_of_what_is_released():
    """In a turned and weighted frame: vectors scored are outputs plus noise of these variances in these directions."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 3))
    frame, _ = frame_of(outputs, Shape(weights=np.array([1.0, 4.0, 9.0])))
    seen = []
    task = Task(lambda vector: seen.append(vector) or 0.0)
    noise = np.array([1e-8, 4.0, 0.25])
    _, z = task.simulated(frame, frame.coordinates(outputs), noise, 200, np.random.default_rng(1))
    moved = frame.coordinates(np.array(seen)) - z * np.sqrt(noise)
    distance = np.abs(moved[:, None] - frame.coordinates(outputs)).max(axis=2).min(axis=1)
    assert distance.max() < 1e-9


@pytest.mark.parametrize("mi", [1 / 64, 1.0])
def test_noise_goes_where_it_does_not_matter(mi):
    """The second number decides nothing; least noise alone cannot know that."""
    outputs = np.random.default_rng(0).normal(size=(64, 2)) * [0.2, 0.2]
    frame, variances = frame_of(outputs, Shape(basis="diag"))
    task = Task(lambda vector: float(abs(vector[0] - outputs[:, 0].mean()) < 0.5))
    found = task.noise(frame, variances, outputs, mi)
    plain = allocate(variances, mi)
    assert found[0] < 0.7 * plain[0]
    assert found[1] > 1.3 * plain[1]
    assert mi * (1 - 1e-9) < gaussian_bound(variances, found) <= mi


@pytest.mark.parametrize("score", [lambda vector: 1.0, lambda vector: float(vector[0] + vector[1])])
def test_where_noise_does_not_matter_it_is_the_least(score):
    outputs = np.random.default_rng(0).normal(size=(64, 2)) * [1.0, 0.2]
    frame, variances = frame_of(outputs, Shape())
    assert np.array_equal(Task(score).noise(frame, variances, outputs, 0.5), allocate(variances, 0.5))


def test_spending_takes_any_noise_to_its_budget():
    rng = np.random.default_rng(0)
    for _ in range(200):
        s, e, mi = 10.0 ** rng.uniform(-9, 9, 5), 10.0 ** rng.uniform(-9, 9, 5), 10.0 ** rng.uniform(-8, 1)
        found = spending(s, e, mi)
        assert np.ptp(np.log(found / e)) < 1e-9
        assert mi * (1 - 1e-9) <= gaussian_bound(s, found) <= mi


def information(outputs, plan):
    """Return the true mutual information of a release with its world, by quadrature over two noised directions."""
    at = plan.positions(outputs) / plan.ratio
    total = 0.0
    grid = np.stack(np.meshgrid(NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.outer(WEIGHTS, WEIGHTS).reshape(-1) / WEIGHTS.sum() ** 2
    for own in at:
        logs = -0.5 * (((own + grid)[:, None] - at) ** 2).sum(axis=2)
        total += mass @ (-0.5 * (grid**2).sum(axis=1) - logsumexp(logs, axis=1) + math.log(len(at)))
    return total / len(at)


@pytest.mark.parametrize("adverse", [False, True])
@pytest.mark.cases(1)
def test_the_promise_holds_whatever_the_task(adverse, monkeypatch):
    """All 70 halves of 8 records; the true mutual information by quadrature.  Adverse: costs without any sense."""
    mi = 0.5
    pool = np.random.default_rng(1).standard_cauchy(size=(8, 2))
    outputs = np.array([pool[list(half)].mean(axis=0) for half in combinations(range(8), 4)])
    if adverse:
        monkeypatch.setattr(module, "costs", lambda scores, z: np.array([1e9, 1e-9]))
        monkeypatch.setattr(module, "_best", lambda scores: len(scores) - 1)
    plan = calibrate(outputs, mi, Shape(tuned=Task(bump).noise))
    assert plan.mi <= mi
    assert plan.mi > 0.999 * mi
    assert information(outputs, plan) <= mi
    plain = calibrate(outputs, mi)
    assert adverse is not np.allclose(plan.noise, plain.noise, rtol=0.5)


def test_a_certificates_weights_come_from_the_pilot_alone():
    rng = np.random.default_rng(0)
    pilot, left, right = rng.normal(size=(60, 2)), rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    plans, scored = [], []
    for fresh in (left, 3 * left):
        seen = []
        tuned = Shape(tuned=Task(lambda vector, seen=seen: seen.append(vector) or bump(vector)).noise)
        plans.append(certify(pilot, np.vstack([fresh, right]), 0.5, tuned, Risk(0.001)).plan)
        scored.append(np.array(seen))
    first, second = plans
    assert len(scored[0]) == 21_000
    assert np.array_equal(*scored)
    assert second.trace > 1.5 * first.trace
    assert np.allclose(second.noise / first.noise, second.trace / first.trace)


@pytest.mark.slow
def test_a_certified_fit_is_tuned():
    made = PACPrivatizer("mean", MI(0.5), worlds=400, mode="certified", basis="diag", worlds_seed=0, scorer=bump)
    plain, tuned = (made.set_params(noise=noise).fit(pool()[0]).plan_ for noise in ("optimal", "task"))
    share = [plan.noise[0] / plan.noise.sum() for plan in (plain, tuned)]
    assert tuned.mi <= 0.5
    assert share[1] < 0.7 * share[0]


def pool(rows=60):
    X = np.random.default_rng(0).normal(size=(rows, 3)) * [1.0, 3.0, 0.3]
    return X, (X[:, 0] + 0.2 * X[:, 2] > 0).astype(int)


@pytest.mark.slow
def test_a_fit_takes_the_estimators_own_score(monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 200)
    monkeypatch.setattr(module, "COMMON", 20)
    monkeypatch.setattr(module, "_best", lambda scores: len(scores) - 1)
    X, y = pool()
    made = PACPrivatizer(LogisticRegression(), MI(1 / 4), worlds=64, worlds_seed=0)
    task, plain = made.set_params(noise="task").fit(X, y).plan_, made.set_params(noise="optimal").fit(X, y).plan_
    given = made.set_params(noise="task", scorer=lambda model: np.mean(model.predict(X) == y)).fit(X, y)
    assert np.array_equal(given.plan_.noise, task.noise)
    assert 0.24 < task.mi <= 0.25
    assert task.trace > plain.trace  # not the least noise
    assert given.report()["noise"] == "task"
    (released,) = given.simulate_utility(given.scorer, 20)
    assert (released.noise, released.trace) == ("task", task.trace)


def test_a_ledger_tunes_under_the_belief_and_keeps_the_total():
    X, _ = pool(24)
    made = PACPrivatizer("mean", MI(0.2), worlds=32, noise="task", scorer=lambda v: math.exp(-(v[0] ** 2))).fit(X)
    ledger = Ledger(MI(0.5))
    first, second = made.release(ledger), made.release(ledger)
    assert first.report()["noise_trace"] != second.report()["noise_trace"]
    assert 0.39 < ledger.spent <= 0.4


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"noise": "tasks"}, ValueError, "noise must be one of optimal, .*, task, got 'tasks'"),
        ({"noise": "task", "scorer": 3}, TypeError, "scorer must be a function of what Release.estimator_ holds, or"),
        ({"noise": "task"}, ValueError, "noise='task' needs scorer="),
        ({"noise": "task", "estimator": PCA(2), "mode": "certified"}, ValueError, "noise='task' needs scorer="),
        ({"noise": "task", "scorer": lambda v: math.nan}, ValueError, "scorer must return one finite number per rel"),
        (
            {"noise": "task", "budget": RecordPosterior(0.7), "mode": "estimated"},
            ValueError,
            "has a noise rule of its own; drop 'task'",
        ),
    ],
)
def test_misuse_is_one_sentence(settings, kind, message):
    with pytest.raises(kind, match=message) as told:
        PACPrivatizer("mean", MI(1.0), worlds=64).set_params(**settings).fit(pool()[0])
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match="noise rule must be one of"):
        pac.allocate([1.0], 1.0, "task")


@pytest.mark.slow
def test_half_the_budget_is_enough_for_rice(paper_data):
    """Task noise at half the nats does better than the least noise, on rows that no world holds."""
    import polars as pl
    from sklearn.preprocessing import MinMaxScaler
    from sklearn.svm import LinearSVC

    frame = pl.read_csv(paper_data / "rice.csv.gz")
    X = MinMaxScaler().fit_transform(frame.drop("Class").to_numpy().astype(float))
    y = np.unique(frame["Class"].to_numpy(), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))
    inside, outside = order[:2000], order[2000:3000]

    def accuracy(model, rows=outside):  # as model.predict would give it, many times as fast
        return float(np.mean((X[rows] @ model.coef_[0] + model.intercept_ > 0) == y[rows]))

    made = PACPrivatizer(LinearSVC(dual=False), MI(0.1), worlds=128, worlds_seed=0)
    made.set_params(scorer=lambda model: accuracy(model, inside[:400])).fit(X[inside], y[inside])
    (plain,) = made.simulate_utility(accuracy, 1000, budgets=[MI(1 / 8)])
    (tuned,) = made.simulate_utility(accuracy, 1000, budgets=[MI(1 / 16)], noises=["task"])
    assert tuned.mean > plain.mean + 3 * (tuned.standard_error + plain.standard_error)
