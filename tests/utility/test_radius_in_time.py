"""Radii in a given time: bounds that hold whenever the run ends, and only tighten until then."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from epsworth.utility.radius import radius, trees
from epsworth.utility.radius.question import Tightening

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, KINDS = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)[:, :6]


@pytest.fixture
def large(monkeypatch):
    """Take every sum of trees for a large one: a flip first, then boxes."""
    monkeypatch.setattr(trees, "FEW", 0)
    monkeypatch.setattr(trees, "LARGE", 0)
    monkeypatch.setattr(trees, "TOGETHER", 4)


def forest(seed):
    """A forest of two or three classes on two to four features, fully grown or not; some leaves are soft."""
    rng = np.random.default_rng(seed)
    d, classes = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    X = rng.random((120, d)).round(int(rng.integers(1, 4)))
    y = (X @ rng.normal(size=d) + rng.normal(0, 0.2, 120)).argsort().argsort() * classes // 120
    kind = (RandomForestClassifier, GradientBoostingClassifier)[seed % 4 == 3]
    model = kind(n_estimators=int(rng.integers(3, 9)), max_depth=(None, 3)[seed % 3 == 2], random_state=seed)
    return model.fit(X, y), X[int(rng.integers(120))] + rng.normal(0, 0.01, d)


def harder():
    """A forest that takes hundreds of boxes, and a record."""
    rng = np.random.default_rng(5)
    X = rng.random((400, 5))
    model = RandomForestClassifier(40, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > rng.normal(0.8, 0.2, 400))
    return model, X[3]


def ended_after(looks):
    """Return a watch that ends the run at a look, and the brackets that it was shown."""
    seen = []

    def watch(bracket):
        seen.append(bracket)
        return len(seen) >= looks

    return watch, seen


def monotone(seen, exact):
    """The bounds of every look hold, and none is wider than that before."""
    for one in seen:
        assert one.lower <= exact.upper
        assert exact.lower <= one.upper
    for one, next_ in itertools.pairwise(seen):
        assert one.lower <= next_.lower
        assert one.upper >= next_.upper
        assert one.done <= next_.done


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.cases(1)
def test_the_search_agrees_with_the_table_of_all_cells_and_holds_whenever_it_ends(seed, request):
    model, x = forest(seed)
    norm = (2, math.inf)[seed % 2]
    exact = radius(model, x, norm=norm, rng=0)
    request.getfixturevalue("large")
    watch, seen = ended_after(math.inf)
    shares = []
    searched = radius(model, x, norm=norm, rng=0, watch=watch, progress=shares.append, budget=10**9)
    assert (searched.lower, searched.upper, searched.stopped) == (exact.lower, exact.upper, False)
    monotone(seen, exact)
    assert shares == sorted(shares)
    for enough in (
        0.0,
        0.3,
        0.7,
        1.0,
    ):  # how many looks there are depends on the machine; where a bound stands does not
        some = []

        def watch(bracket, enough=enough, some=some):
            some.append(bracket)
            return bracket.lower >= enough * exact.lower and bracket.upper < math.inf

        early = radius(model, x, norm=norm, rng=0, watch=watch)
        assert early.stopped or enough > 0
        assert early.sound
        assert early.lower <= exact.upper
        assert exact.lower <= early.upper
        assert early.witness is None or model.predict([early.witness])[0] != model.predict([x])[0]
        assert early.lower >= max(one.lower for one in some)
        assert early.upper <= min(one.upper for one in some)
    for looks in (1, 2, 3):
        early = radius(model, x, norm=norm, rng=0, watch=ended_after(looks)[0])
        assert early.stopped
        assert early.lower <= exact.upper
        assert exact.lower <= early.upper


def test_a_budget_of_boxes_ends_the_search_with_what_is_proven(large):
    model, x = harder()
    exact = radius(model, x, rng=0, budget=10**9)
    lowers = []
    for budget in (1, 10, 40):
        found = radius(model, x, rng=0, budget=budget)
        assert found.lower <= exact.upper <= found.upper
        assert not found.stopped
        assert f"the budget of {budget} boxes was used up; more can bring the bounds closer" in found.notes
        lowers.append(found.lower)
    assert lowers == sorted(lowers)
    assert lowers[0] < exact.lower


def test_boxes_beyond_memory_are_forgotten_safely(large, monkeypatch):
    """What is dropped bounds the answer; leaves that are not held are looked up again, to the same answer."""
    model, x = harder()
    exact = radius(model, x, rng=0, budget=10**9)
    with monkeypatch.context() as patched:
        patched.setattr(trees, "MOST_HELD", 0)
        looked_up = radius(model, x, rng=0, budget=10**9)
        assert (looked_up.lower, looked_up.upper) == (exact.lower, exact.upper)
    monkeypatch.setattr(trees, "MOST_OPEN", 8)
    found = radius(model, x, rng=0, budget=10**9)
    assert found.lower <= exact.upper <= found.upper
    assert found.lower < exact.lower
    assert "memory" in str(found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model", [MLPClassifier((8, 6), max_iter=80, random_state=0), QuadraticDiscriminantAnalysis()], ids=["mlp", "qda"]
)
@pytest.mark.slow
def test_networks_and_quadrics_hold_whenever_they_end(model):
    """Of two of these wines the flips that a network is first seen to make lie well beyond the nearest."""
    model.fit(WINE, KINDS)
    for row in (0, 24, 60):
        exact = radius(model, WINE[row], norm="inf", rng=0)
        watch, seen = ended_after(math.inf)
        again = radius(model, WINE[row], norm="inf", rng=0, watch=watch)
        assert again.lower == pytest.approx(exact.lower, rel=1e-4)
        assert len(seen) >= 3
        monotone(seen, exact)
        for looks in (1, 2):
            early = radius(model, WINE[row], norm="inf", rng=0, watch=ended_after(looks)[0])
            assert early.stopped
            assert early.lower <= exact.upper
            assert exact.lower <= early.upper


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_has_both_bounds_before_its_program_is_begun():
    model = MLPClassifier((8, 6), max_iter=500, random_state=0).fit(IRIS, SPECIES)
    seen = []

    def watch(bracket):
        seen.append(bracket)
        return 0 < bracket.lower <= bracket.upper < math.inf

    early = radius(model, IRIS[60], norm="inf", rng=0, watch=watch)
    assert early.stopped
    assert 0 < early.lower < early.upper < math.inf
    assert early.method == "network"


def test_a_sampled_radius_ends_with_the_flips_that_it_saw():
    asked = []

    def model(records):
        asked.append(len(records))
        return records[:, 0] > 1

    found = radius(model, [0.0, 0.0], rng=0, watch=lambda bracket: len(asked) > 10)
    assert (found.method, found.sound, found.stopped, found.lower, found.tested) == ("sampled", False, True, 0.0, 0.0)
    assert found.witness[0] > 1
    assert found.upper >= np.hypot(*found.witness)
    assert sum(asked) < 10_000  # of some 80,000
    whole = radius(model, [0.0, 0.0], rng=0)
    assert whole.upper <= found.upper
    watch = ended_after(math.inf)[0]
    stepwise = radius(model, [0.0, 0.0], rng=0, watch=watch)
    assert (stepwise.upper, stepwise.tested) == (whole.upper, whole.tested)


def test_a_radius_that_is_tested_in_part_is_not_claimed(monkeypatch):
    """Draws of a radius that the run did not finish say nothing, and spend nothing."""
    asked = []

    def model(records):
        asked.append(len(records))
        return records[:, 0] > 1

    radius(model, [0.0], rng=0, watch=lambda bracket: None)
    before = len(asked)
    asked.clear()
    found = radius(model, [0.0], rng=0, watch=lambda bracket: len(asked) >= before - 2)
    assert found.stopped
    assert 0 < found.tested <= 1.1
    assert 0 < found.spent < 0.001


def test_an_ended_run_says_so_in_words_and_json(large):
    model, x = forest(0)
    early = radius(model, x, rng=0, watch=lambda bracket: True)
    assert early.notes[0].startswith("the run ended on request, after ")
    assert early.notes[0].endswith("more time can bring the bounds closer")
    assert early.notes[0] in str(early)
    told = json.loads(json.dumps(early.to_dict()))
    assert (told["stopped"], told["notes"]) == (True, list(early.notes))


def test_a_deadline_counts_from_the_call_on():
    """A clock that stands still until the run is begun, then jumps: what is proven by then is told."""
    times = iter([0.0, *[0.5] * 3, *[9.0] * 10**4])
    run = Tightening(1.0, clock=lambda: next(times))
    run.deadline.check()
    assert run.left == 0.5
    assert not run.spent(0.6)
    run.proven(0.25)
    with pytest.raises(Exception, match=r"by its deadline, after 9\.0 seconds"):
        run.deadline.check()
    assert (run.lower, run.left, run.spent(0.6)) == (0.25, 0.0, True)


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, math.inf])
def test_seconds_must_be_a_time(seconds):
    with pytest.raises(ValueError, match="seconds must be positive and finite, got"):
        radius(lambda X: X[:, 0] > 0, [1.0], seconds=seconds)


@pytest.mark.parametrize("seconds", [True, "1", [1.0]])
def test_seconds_must_be_a_number(seconds):
    with pytest.raises(TypeError, match="seconds must be a number, got"):
        radius(lambda X: X[:, 0] > 0, [1.0], seconds=seconds)


@pytest.mark.slow
def test_a_large_forest_is_answered_in_about_the_time_asked_for():
    """100 fully grown trees on six features: a bracket at once, and in a few seconds the very distance."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 6))
    model = RandomForestClassifier(100, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.8)
    for norm in (2, math.inf):
        brackets = [radius(model, X[3], norm=norm, rng=0, seconds=s) for s in (0.2, 1.0, 120.0)]
        for one, next_ in itertools.pairwise(brackets):
            assert 0 < one.lower <= next_.upper
            assert next_.lower <= one.upper < math.inf
        assert brackets[-1].upper <= brackets[-1].lower * (1 + 1e-12)


def test_flips_far_beyond_are_not_read(monkeypatch):
    """Only thresholds nearer than a flip are located, and the answer is the same."""
    located = []
    over = trees.Sweep.over

    def counted(*arguments):
        found = over(*arguments)
        located.append(sum(map(len, found.edges)))
        return found

    monkeypatch.setattr(trees.Sweep, "over", counted)
    model = RandomForestClassifier(10, random_state=0).fit(IRIS, SPECIES)
    exact = radius(model, IRIS[77], rng=0)
    monkeypatch.setattr(trees, "LARGE", 0)
    near = radius(model, IRIS[77], rng=0)
    assert (near.lower, near.upper) == (exact.lower, exact.upper)
    assert located[1] < located[0] / 2
    assert isinstance(near.witness, np.ndarray)
