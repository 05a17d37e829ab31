"""The sampling engine: bounds hold the truth, stopping rules cost nothing, results do not depend on batching."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import epsworth as ew
from epsworth.bounds import Risk, clopper_pearson
from epsworth.mechanisms import MECHANISMS
from epsworth.utility.engines import sampled
from epsworth.utility.engines.engine import BATCH, Settings

stability = partial(ew.stability, method="sampled")


def below(cut):
    def classifier(Z):
        return Z[:, 0] <= cut

    return classifier


def truth(name, epsilon, x, cut):
    """Exact stability of `below(cut)` at x."""
    law = MECHANISMS[name](epsilon).law(np.asarray(x))
    inside = law.mass(-np.inf, cut)
    return np.where(np.asarray(x) <= cut, inside, 1 - inside)


X = np.array([[0.1], [0.35], [0.42], [0.8]])
EPSILONS = [0.5, 2.0, 8.0]


@pytest.mark.parametrize("over", ["records", "dataset"])
@pytest.mark.slow
def test_bounds_hold_for_every_family(over):
    """One run over all families; all 120 bounds hold together except with probability 1e-6."""
    curves = stability(
        below(0.4), X, sensitive=0, mechanisms=list(MECHANISMS), epsilons=EPSILONS, rng=3,
        confidence=1 - 1e-6, tolerance=0.03, over=over,
    )  # fmt: skip
    exact = np.array([[truth(name, e, X[:, 0], 0.4) for e in EPSILONS] for name in MECHANISMS])
    assert curves.lower.shape == curves.upper.shape == (len(MECHANISMS), 3, 4)
    assert (curves.lower <= exact).all()
    assert (exact <= curves.upper).all()
    for bounds, value in ((curves.average(), exact.mean(axis=2)), (curves.worst(), exact.min(axis=2))):
        assert (bounds.lower <= value).all()
        assert (value <= bounds.upper).all()
        assert (bounds.upper - bounds.lower).max() <= 0.06 + 1e-12
    if over == "records":
        assert (curves.upper - curves.lower).max() <= 0.06
    assert curves.over == over
    assert (curves.method == "sampled").all()
    assert curves.labels_possible.tolist() == [2, 2, 2, 2]


COUNTEREXAMPLES = {
    "sliver": ("pm", 8.0, 0.5, lambda Z: (Z[:, 0] > 0.503) & (Z[:, 0] <= 0.507), 0.781607399867423),
    "atom": ("laplace_clipped", 1.0, 0.5, lambda Z: Z[:, 0] == 0, 0.6967346701436833),
    "grid": (
        "krr",
        2.0,
        0.5,
        lambda Z: (Z[:, 0] != 0.5) & (np.rint(Z[:, 0] * 100) / 100 == Z[:, 0]),
        0.06880641628997639,
    ),
}


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_counterexamples_to_the_published_bound(name):
    """Where the published box search claims .9405, our interval holds the truth (property test 8)."""
    mechanism, epsilon, x, classifier, exact = COUNTEREXAMPLES[name]
    curves = stability(
        classifier, [[x]], sensitive=0, mechanisms=mechanism, epsilons=epsilon, rng=5, confidence=1 - 1e-6
    )
    assert curves.lower.item() <= exact <= curves.upper.item() < 0.9405


def logistic_on_breast_cancer():
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MinMaxScaler

    Z, y = load_breast_cancer(return_X_y=True)
    Z = MinMaxScaler().fit_transform(Z)
    return LogisticRegression(C=10, max_iter=10_000).fit(Z[:400], y[:400]), Z


def test_the_natural_counterexample_falls_with_epsilon():
    """Thirty sensitive features, record 455: clipped Laplace *loses* stability as epsilon grows (section 3, 4)."""
    model, Z = logistic_on_breast_cancer()
    curves = stability(
        model, Z[455:456], sensitive=list(range(30)), mechanisms=["laplace_clipped", "pm"],
        per="feature", epsilons=[1, 4, 8],
        rng=1, tolerance=0.02, confidence=1 - 1e-6,
    )  # fmt: skip
    known = np.array([[0.8834, 0.7636, 0.7067], [0.9781, 0.8274, 0.9301]])
    assert (curves.lower[..., 0] - 5e-4 <= known).all()  # the figures are printed to four digits, the fit may differ
    assert (known <= curves.upper[..., 0] + 5e-4).all()
    answer = ew.recommend(curves, at_least=0.85, on="worst", max_epsilon=30)
    assert answer.choice.epsilon == 30
    assert not answer.choice.holds_above


def repetitions(count, seed, **settings):
    """Return how many of ``count`` runs broke any of their promises (stability, accuracy, average, worst)."""
    master, broken = np.random.default_rng(seed), 0
    names, epsilons = ["pm", "krr:k=5"], [1.0, 3.0]
    x = np.array([0.2, 0.37, 0.7])
    y = np.array([True, False, True])
    exact = np.array([[truth_of(name, e, x) for e in epsilons] for name in names])
    right = np.where((x <= 0.4) == y, exact, 1 - exact)
    for _ in range(count):
        curves = stability(
            below(0.4), x[:, np.newaxis], sensitive=0, mechanisms=names, epsilons=epsilons, y=y,
            rng=np.random.default_rng(master.integers(2**63)), confidence=0.8, **settings,
        )  # fmt: skip
        pairs = [
            (curves.stability.lower, curves.stability.upper, exact),
            (curves.accuracy.lower, curves.accuracy.upper, right),
            (*curves.average(), exact.mean(axis=2)),
            (*curves.average("accuracy"), right.mean(axis=2)),
            (*curves.worst(), exact.min(axis=2)),
        ]
        broken += any((lower > value).any() or (value > upper).any() for lower, upper, value in pairs)
    return broken


def truth_of(words, epsilon, x):
    from epsworth.mechanisms import family

    inside = family(words).build(epsilon).law(x).mass(-np.inf, 0.4)
    return np.where(x <= 0.4, inside, 1 - inside)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"over": "records", "tolerance": 0.03},
    {"over": "dataset", "tolerance": 0.03},
    {"over": "records", "tolerance": 0.02, "at_least": 0.7},
])  # fmt: skip
def test_broken_promises_stay_within_the_confidence(settings):
    """Property test 7: 500 whole runs at 80 % confidence; false-alarm rate 1e-6."""
    count = 500
    assert repetitions(count, 20, **settings) <= binom.isf(1e-6, count, 0.2)


@pytest.mark.slow
def test_broken_promises_of_a_few_runs():
    """The same in small, for every day; false-alarm rate 1e-6."""
    assert repetitions(40, 4, over="dataset", tolerance=0.05) <= binom.isf(1e-6, 40, 0.2)


def test_looking_without_spending_would_break_the_promise():
    """The coverage test can fail: naive 80 % intervals at every look miss far more often than 20 %."""
    rng, p, broken = np.random.default_rng(0), 0.3, 0
    for _ in range(300):
        hits, drawn, lower, upper = 0, 0, 0.0, 1.0
        for draws in (64, 128, 256, 512, 1024, 2048, 4096):
            hits, drawn = hits + rng.binomial(draws - drawn, p), draws
            now = clopper_pearson(hits, draws, 0.2)
            lower, upper = max(lower, float(now.lower)), min(upper, float(now.upper))
        broken += not lower <= p <= upper
    assert broken > binom.isf(1e-6, 300, 0.2)


def run(**settings):
    defaults = {"sensitive": 0, "mechanisms": ["pm", "sw"], "epsilons": EPSILONS, "rng": 9, "tolerance": 0.05}
    return stability(below(0.4), X, **(defaults | settings))


def test_results_repeat_with_the_seed_and_change_without():
    np.testing.assert_array_equal(run().lower, run().lower)
    assert (run().lower != run(rng=10).lower).any()
    generator = np.random.default_rng(9)
    first, second = run(rng=generator), run(rng=generator)
    assert (first.lower != second.lower).any()


def small_question(x=X):
    return ew.Problem.of(
        below(0.4), x, sensitive=0, mechanisms=["pm", "sw"], epsilons=EPSILONS, domain=None, y=None
    )  # fmt: skip


def settings(**changes):
    defaults = {"risk": Risk(1e-3), "tolerance": 0.03, "at_least": None, "progress": lambda share: None}
    return Settings(**(defaults | {"rng": np.random.default_rng(9)} | changes))


@pytest.mark.parametrize("batch", [10, 1_000])
def test_results_do_not_depend_on_the_batch_size(batch):
    expected = sampled.each_record(small_question(), settings(tolerance=0.1))
    found = sampled.each_record(small_question(), settings(batch=batch, tolerance=0.1))
    assert expected.queries > 5 * batch
    np.testing.assert_array_equal(found.stability.lower, expected.stability.lower)
    assert found.queries == expected.queries


@pytest.mark.slow
def test_queries_are_bounded_by_the_batch():
    sizes = []

    def classifier(Z):
        sizes.append(len(Z))
        return Z[:, 0] <= 0.4

    many = np.random.default_rng(0).random((3_000, 1))
    curves = stability(classifier, many, sensitive=0, mechanisms=["pm", "krr"], epsilons=[1, 4], rng=0, tolerance=0.05)
    assert curves.over == "records"
    assert max(sizes) <= 2 * BATCH
    assert sum(sizes) == curves.queries


def test_stability_and_accuracy_are_the_same_where_the_label_is_right():
    y = np.array([True, True, False, True])
    curves = run(y=y, over="records")
    right = (X[:, 0] <= 0.4) == y
    np.testing.assert_array_equal(curves.accuracy.lower[..., right], curves.lower[..., right])
    for name, row in zip(["pm", "sw"], range(2), strict=True):
        for e, epsilon in enumerate(EPSILONS):
            wrong = 1 - truth(name, epsilon, X[1, 0], 0.4) if not right[1] else truth(name, epsilon, X[1, 0], 0.4)
            assert curves.accuracy.lower[row, e, 1] <= wrong <= curves.accuracy.upper[row, e, 1]
    with pytest.raises(ValueError, match="pass the true labels as y"):
        run().average("accuracy")


def test_a_target_stops_early_and_stays_sound():
    full, early = run(tolerance=0.01), run(tolerance=0.01, at_least=0.5)
    assert early.queries < full.queries / 3
    exact = np.array([[truth(name, e, X[:, 0], 0.4) for e in EPSILONS] for name in ("pm", "sw")])
    assert (early.lower <= exact).all()
    assert (exact <= early.upper).all()
    decided = (early.lower >= 0.5) | (early.upper < 0.5)
    assert decided.mean() > 0.9


@pytest.mark.slow
def test_elimination_asks_far_less_than_bounding_every_record():
    many = np.linspace(0.01, 0.99, 200)[:, np.newaxis]
    settings = {"sensitive": 0, "mechanisms": ["pm"], "epsilons": [2, 4], "rng": 0, "tolerance": 0.02}
    each = stability(below(0.4), many, over="records", **settings)
    whole = stability(below(0.4), many, over="dataset", **settings)
    assert whole.queries < each.queries / 3
    exact = np.array([[truth("pm", e, many[:, 0], 0.4) for e in (2, 4)]])
    assert (whole.worst().lower <= exact.min(axis=2)).all()
    assert (exact.min(axis=2) <= whole.worst().upper).all()
    assert (whole.lower <= exact).all()
    assert (exact <= whole.upper).all()


def test_auto_chooses_by_the_cost():
    narrow = settings(tolerance=0.01)
    engine = sampled.Sampled()
    assert engine.chosen(small_question(), narrow) == "records"
    assert engine.chosen(small_question(np.full((5_000, 1), 0.2)), narrow) == "dataset"
    assert engine.chosen(small_question(np.full((5_000, 1), 0.2)), settings(tolerance=0.2)) == "records"


def test_the_indicator_adds_its_share():
    curves = run(mechanisms=["pm", "pm:indicator=0.25"], over="records", confidence=1 - 1e-6, y=[True] * 4)
    exact = np.array([truth("pm", e, X[:, 0], 0.4) for e in EPSILONS])
    with_coin = 0.25 + 0.75 * exact
    assert (curves.lower[1] <= with_coin).all()
    assert (with_coin <= curves.upper[1]).all()
    accurate = np.where(X[:, 0] <= 0.4, with_coin, 0.75 * (1 - exact))  # the raw record is right or wrong for sure
    assert (curves.accuracy.lower[1] <= accurate).all()
    assert (accurate <= curves.accuracy.upper[1]).all()
    assert str(curves.guarantees[1][0]) == "approximate LDP, epsilon 0.5, delta 0.25 per record"
    assert np.isinf(curves.tight_epsilons[1]).all()
    assert curves.notes[0] == "pm:indicator=0.25: with probability 0.25 the raw record is sent"
    whole = run(mechanisms=["pm:indicator=0.25"], over="dataset", confidence=1 - 1e-6, at_least=0.8)
    assert (whole.average().lower[0] <= with_coin.mean(axis=1)).all()
    assert (with_coin.mean(axis=1) <= whole.average().upper[0]).all()


def test_constant_classifiers_never_flip_and_have_one_label():
    curves = stability(lambda Z: np.zeros(len(Z)), X, sensitive=0, mechanisms="pm", epsilons=[1], rng=0)
    assert (curves.upper == 1).all()
    assert curves.labels_possible.tolist() == [1] * 4


def test_labels_beyond_the_range_do_not_count_as_possible():
    """Unclipped noise leaves [0, 1]; a label seen only out there says nothing about inputs."""
    curves = stability(lambda Z: Z[:, 0] > 1, X, sensitive=0, mechanisms="laplace", epsilons=[1], rng=0)
    assert curves.lower.max() < 1
    assert curves.labels_possible.tolist() == [1] * 4


def test_the_ceiling_is_not_exceeded_by_any_lower_bound():
    """Property test 10 on the engine: inputs with different labels, every pure family."""
    x = np.array([[0.39], [0.41]])
    for features in (1, 2):
        Z = np.repeat(x, features, axis=1)
        pure = [n for n in MECHANISMS if not n.startswith("gaussian")]
        curves = stability(
            below(0.4),
            Z,
            sensitive=list(range(features)),
            mechanisms=pure,
            per="feature",
            epsilons=[0.5, 2.0],
            rng=0,
            tolerance=0.05,
        )
        for m in range(len(pure)):
            for e in range(2):
                cap = ew.ceiling(curves.guarantees[m][e].epsilon, 2)
                assert curves.worst().lower[m, e] <= cap


def test_progress_runs_from_zero_to_one():
    for over in ("records", "dataset"):
        shares = []
        run(over=over, progress=shares.append)
        assert shares[-1] == 1.0
        assert all(0 <= share <= 1 for share in shares)
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(shares))


def test_the_worst_accuracy_is_raced_for_too():
    x = np.linspace(0.02, 0.98, 50)[:, np.newaxis]
    curves = stability(
        below(0.5), x, sensitive=0, mechanisms="pm", epsilons=[2.0], over="dataset", tolerance=0.03, rng=1,
        y=np.ones(50, dtype=bool),
    )  # fmt: skip
    for of in ("stability", "accuracy"):
        for bounds in (curves.average(of), curves.worst(of)):
            assert (bounds.upper - bounds.lower).max() <= 0.06 + 1e-12


@pytest.mark.slow
def test_pooled_draws_do_not_depend_on_the_batch_size():
    expected = sampled.whole_dataset(small_question(), settings())
    found = sampled.whole_dataset(small_question(), settings(batch=100))
    np.testing.assert_array_equal(found.stability.pooled.lower, expected.stability.pooled.lower)
    np.testing.assert_array_equal(found.stability.lower, expected.stability.lower)
