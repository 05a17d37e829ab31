"""What the learner refuses, each in one sentence, and the edges of what it takes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV

from epsworth.client.kernels import exp_below
from epsworth.learner import (
    MECHANISMS,
    Aggregator,
    Classifier,
    Client,
    LatticeConfig,
    LDPClassifier,
    PrivateValidation,
    expected_accuracy,
    plan,
    rate,
    simulate,
)
from epsworth.learner.coins import FARTHEST, GRAIN, odds
from epsworth.learner.mechanisms import suited

UNIT = LatticeConfig(box=(0, 1), m=8, epsilon=1)


def step(n=4000):
    """Return points in [0, 1] and whether they exceed one half."""
    x = np.random.default_rng(0).random((n, 1))
    return x, x[:, 0] > 0.5


def test_simulations_take_a_generator_or_its_seed():
    x, y = step(50)
    one, other = (simulate(UNIT, x, y, rng) for rng in (5, np.random.default_rng(5)))
    assert one == other
    runs = expected_accuracy(UNIT, x, y, users=300, rng=3, runs=4)
    assert len(set(runs)) > 1  # one generator for all runs
    for rng in ("a", 1.5, True):
        for ask in (lambda r: simulate(UNIT, x, y, r), lambda r: expected_accuracy(UNIT, x, y, users=9, rng=r, runs=1)):
            with pytest.raises(TypeError, match=r"rng must be a numpy\.random.Generator or a seed"):
                ask(rng)


@pytest.mark.parametrize("odd", ["a", None, [1], True, 1j])
@pytest.mark.parametrize(("field", "ask"), [
    ("margin", lambda v: plan(epsilon=1, margin=[] if v is None else v, fakes=0)),
    ("mass", lambda v: plan(epsilon=1, margin=0.1, mass=v, fakes=0)),
    ("confidence", lambda v: plan(epsilon=1, margin=0.1, confidence=v, fakes=0)),
    ("power", lambda v: plan(epsilon=1, margin=0.1, power=v, fakes=0)), ("d", rate),
    ("exponent", lambda v: rate(1, exponent=v)),
    ("margin_exponent", lambda v: rate(1, margin_exponent=v)),
    ("confidence", lambda v: Classifier(simulate(UNIT, *step(99), 1), None).abstain([[0.1]], confidence=v, fakes=0)),
    ("confidence", lambda v: PrivateValidation([len], 1).accuracies([[0, 1]], fakes=0, confidence=v)),
    ("runs", lambda v: expected_accuracy(UNIT, *step(9), users=9, rng=1, runs=v)),
])  # fmt: skip
def test_what_is_no_number_is_refused_by_name(field, ask, odd):
    with pytest.raises(ValueError, match=f"{field} must be a (whole )?number"):
        ask(odd)


@pytest.mark.parametrize("classes", [("yes", "no"), np.array(["no", "yes"]), None])
def test_scorers_read_declared_classes_in_any_order(classes):
    """Scikit-learn takes the scores for those of the second of the sorted labels."""
    x, above = step()
    y = np.where(above, "yes", "no")
    model = LDPClassifier(4.0, classes=classes, random_state=0).fit(x, y)
    assert model.classes_.tolist() == list(model.config_.classes) == ["no", "yes"]
    assert get_scorer("roc_auc")(model, x, y) > 0.95
    assert model.score(x, y) > 0.9


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("no", "classes must be a list of labels"),
        (np.array("no"), "classes must be a list of labels"),
        (5, "classes must be a list of labels"),
        ([], "at least two different labels"),
        (["no", "no"], "at least two different labels"),
        ([[0], [1]], "must be texts or numbers"),
        ([1, "two"], "all texts or all numbers"),
    ],
)
def test_bad_classes_are_refused_everywhere(classes, message):
    for ask in (
        lambda: LDPClassifier(1, classes=classes).fit([[0.1], [0.2]], [0, 1]),
        lambda: LatticeConfig(box=(0, 1), m=4, epsilon=1, classes=classes),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes")])
@pytest.mark.parametrize("bad", [None, [1], "perhaps", float("nan")])
def test_labels_without_an_order_are_refused_by_row(classes, bad):
    config = LatticeConfig(box=(0, 1), m=8, epsilon=1, classes=classes, outside="refuse")
    y = np.array([classes[1], bad, classes[0]], dtype=object)
    with pytest.raises(ValueError, match="row 1: its label is not one of the declared classes"):
        Client(config).reports([[0.1], [0.2], [0.3]], y)
    y[1] = classes[0]
    assert config.label_numbers(y).tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="row 0: its label is not one of the declared classes"):
        config.label_numbers([[classes[0]], [classes[1], classes[0]]])
    for shape in ((3, 1), (1, 3)):
        with pytest.raises(ValueError, match="y must be one label per row"):
            config.label_numbers(y.reshape(shape))


@pytest.mark.parametrize("secret", ["hunter2", {"hunter2": 1}, [7, 8, 9], 10**400], ids=range(4))
def test_refused_points_are_not_shown(secret):
    """What a client refuses may be private: neither the message nor its causes show it."""
    client = Client(LatticeConfig(box=(0, 1), m=8, epsilon=1, outside="refuse"))
    asks = (lambda: client.report([secret], 1), lambda: client.reports([[0.5], [secret]], [0, 1]))
    for row, ask in enumerate(asks):
        with pytest.raises(ValueError, match=rf"row {row}(, x0: the value is missing| lies outside)") as refused:
            ask()
        assert "hunter2" not in str(refused.value)
        assert "hunter2" not in repr(refused.value.__cause__)
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_the_estimator_shows_no_entry_of_its_table():
    model = LDPClassifier(1, random_state=0).fit([[0.1], [0.9]] * 20, [0, 1] * 20)
    for ask in (
        lambda: LDPClassifier(1).fit([["hunter2"], ["0.2"]], [0, 1]),
        lambda: model.predict([["hunter2"]]),
        lambda: LDPClassifier(1).fit([[0.1], [0.2]], ["hunter2", "hunter2"]),
    ):
        with pytest.raises(ValueError, match=r"X must hold numbers|one class") as refused:
            ask()
        assert "hunter2" not in str(refused.value)


def test_grids_of_numpy_numbers_are_searched():
    search = GridSearchCV(LDPClassifier(random_state=0), {"epsilon": np.arange(1, 4), "m": np.arange(2, 4)}, cv=2)
    search.fit(*step())
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(41), Fraction(42), Fraction(FARTHEST), Fraction(61)])
def test_the_shortcut_for_large_alpha_changes_nothing(epsilon):
    assert odds(epsilon) == min(exp_below(epsilon), Fraction(1 << FARTHEST))


@pytest.mark.parametrize("name", ["auto", *sorted(MECHANISMS)])
@pytest.mark.parametrize("epsilon", [math.nextafter(1 / GRAIN, 1), 1e6, 1e13, 1e300])
def test_extreme_alphas_are_served(name, epsilon):
    """A hundred points at two values; with all the epsilon in the world, all but the sampling mechanisms are exact."""
    config = LatticeConfig(box=(0, 1), m=4, mechanism=name, epsilon=epsilon)
    sums = Aggregator(config)
    assert sums.add(Client(config).reports([[0.1], [0.9]] * 50, [0, 1] * 50)) == 100
    found = Classifier.from_aggregate(sums, None).predict([[0.1], [0.9]])
    if epsilon > 1 and config.mechanism in ("krr", "slides"):
        assert found.tolist() == [0, 1]
    assert suited(name, epsilon, 1, 2, 1000)[1] >= 1


@pytest.mark.parametrize("epsilon", [1e-6, 1e-30, "1e-6", Fraction(1, 10**9)])
def test_alphas_below_a_millionth_are_refused(epsilon):
    """1e-6 itself means the double nearest to it, which is less."""
    for ask in (
        lambda: LatticeConfig(box=(0, 1), m=8, epsilon=epsilon),
        lambda: LatticeConfig(box=(0, 1), m=8, epsilon=epsilon, mechanism="slides"),
        lambda: PrivateValidation([len], epsilon),
        lambda: suited("auto", epsilon, 1, 2, 1000),
    ):
        with pytest.raises(ValueError, match="epsilon must exceed 1e-06"):
            ask()


@pytest.mark.parametrize("confidence", [5, math.nan, 0, 1, -0.1])
def test_confidences_of_accuracies_lie_between_0_and_1(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        PrivateValidation([len], 1).accuracies([[0, 1]], fakes=0, confidence=confidence)


@pytest.mark.parametrize("users", [-1, 0, 1.5, True, "7"])
def test_numbers_of_users_are_whole_and_positive(users):
    for ask in (
        lambda: simulate(UNIT, [[0.2]], [1], np.random.default_rng(0), users=users),
        lambda: suited("auto", 1, 1, 2, users),
        lambda: plan(epsilon=1, users=users, fakes=0),
    ):
        with pytest.raises(ValueError, match="users must be a whole number of at least 1"):
            ask()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 1e-200, "margin": 0.02}, "epsilon must exceed 1e-06"),
        ({"epsilon": "1e99999999", "margin": 0.02}, "epsilon must be positive and finite"),
        ({"epsilon": 1, "margin": 5e-324}, "no number holds the plan"),
        ({"epsilon": 1e-5, "margin": 1e-4}, "no number holds the plan"),
        ({"epsilon": 1, "users": 10**400}, "users must be at most"),
    ],
)
def test_plans_beyond_all_numbers_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        plan(**given, fakes=0)


@pytest.mark.parametrize("given", [{"users": 70_000, "margin": 0.0200003}, {"users": 70_000, "epsilon": 1.0000003}])
def test_a_printed_plan_certifies_what_it_says(given):
    """What the sentence says, planned again, needs no more users than it says."""
    found = plan(**given, fakes=0)
    words = str(found).split()
    epsilon, margin = float(words[5]), float(words[12])
    assert epsilon >= found.epsilon
    assert margin >= found.margin
    assert epsilon == pytest.approx(found.epsilon, rel=1e-5)
    assert margin == pytest.approx(found.margin, rel=1e-5)
    assert plan(epsilon=epsilon, margin=margin, fakes=0).users <= found.users


def test_a_plan_without_a_margin_blames_alpha_and_users():
    found = plan(epsilon=0.01, users=100, fakes=0)
    assert not found.feasible
    assert found.epsilon == 0.01
    assert str(found).startswith("No margin is enough: with 100 users at epsilon 0.01 per record no cell")
    assert plan(epsilon=1, users=np.int64(10**6), fakes=0).feasible
    assert " in 57 % of all cases " in str(plan(epsilon=1, users=10**6, power=0.57, fakes=0))
