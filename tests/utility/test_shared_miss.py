"""The probability of a miss is divided over every bound that is drawn: no engine spends more than its share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth import bounds
from epsworth.bounds import Interval, Overspent, Risk
from epsworth.utility.deadline import Deadline
from epsworth.utility.engines import rays
from epsworth.utility.engines import run as runs
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.rays import Cumulated, Rays, Region
from epsworth.utility.engines.run import drawing_runs, run
from epsworth.utility.engines.sampled import AverageFirst, Sampled, each_record, whole_dataset
from epsworth.utility.engines.strata import SharedDraws
from epsworth.utility.engines.tree_boxes import BranchAndBound

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
MISS = 1e-3


def settings(risk=None):
    return Settings(risk or Risk(MISS), 0.06, None, np.random.default_rng(0), lambda share: None)


@pytest.fixture
def spent(monkeypatch):
    """Return the list of what every interval and band spends; intervals tell nothing, so that no run stops early."""
    found, interval, needed, exact = [], Risk.interval, bounds.draws_needed, bounds.clopper_pearson

    def noting(hits, trials, miss):
        found.append(np.broadcast(hits, trials).size * miss)
        return exact(hits, trials, miss)

    def planning(half_width, miss):
        before = len(found)
        draws = needed(half_width, miss)
        del found[before:]  # the intervals that were looked at to plan the draws
        return draws

    def idle(risk, hits, trials):
        lower, upper = interval(risk, hits, trials)
        return Interval(np.zeros_like(lower), np.ones_like(upper))

    class Noted(Cumulated):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(2 * np.exp(-self.log))  # Massart 1990: 2 exp(-2 n width^2)

    monkeypatch.setattr(bounds, "clopper_pearson", noting)
    monkeypatch.setattr(bounds, "draws_needed", planning)
    monkeypatch.setattr(Risk, "interval", idle)
    monkeypatch.setattr(rays, "Cumulated", Noted)
    monkeypatch.setattr("epsworth.utility.engines.tree_boxes.MOST_WORK", 0)  # nearly everything is drawn
    return found


def of_function(mechanisms, y, epsilons=(1, 2)):
    """Two records of three features, two epsilons, and a classifier that nothing is known about."""
    table = np.array([[0.2, 0.4, 0.9], [0.7, 0.1, 0.3]])
    given = {"sensitive": [0, 1, 2], "mechanisms": mechanisms, "epsilons": epsilons, "per": "feature", "domain": None}
    return ew.Problem.of(lambda Z: Z.sum(axis=1) > 1.5, table, y=None if y is None else [True, True], **given)


def of_flowers(model, mechanisms, y):
    """Two flowers, and labels that they do not have."""
    given = {
        "sensitive": [0, 1, 2, 3],
        "mechanisms": mechanisms,
        "epsilons": [1, 2],
        "per": "feature",
        "domain": RANGES,
    }
    return ew.Problem.of(model.fit(IRIS, SPECIES), IRIS[[60, 100]], y=y, **given)


def by_records(y, given):
    each_record(of_function(["pm", "sw"], y), given)


def by_dataset(y, given):
    whole_dataset(of_function(["pm", "sw"], y), given)


def by_strata(y, given):
    SharedDraws().bound(of_function("krr", y), given)


def by_boxes(y, given):
    BranchAndBound().bound(of_flowers(RandomForestClassifier(5, random_state=0), ["pm", "sw"], y), given)


def by_rays(y, given):
    Rays().bound(of_flowers(LogisticRegression(max_iter=5000), ["laplace", "gaussian"], y), given)


def by_records_and_strata(y, given):
    problem = of_function(["pm", "krr:k=201"], y, np.arange(1, 4, 0.5))
    answered, _ = run(problem, "auto", given, "records")
    assert {part.engine.name for part, _ in answered} == {"sampled", "strata"}


def by_records_and_rays(y, given):
    problem = of_flowers(LogisticRegression(max_iter=5000), ["pm", "laplace"], y)
    answered, _ = run(problem, "auto", given, "records")
    assert {part.engine.name for part, _ in answered} == {"sampled", "rays"}


WAYS = [by_records, by_dataset, by_strata, by_boxes, by_rays, by_records_and_strata, by_records_and_rays]


@pytest.mark.parametrize("y", [None, [0, 0]])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.cases(1)
def test_all_bounds_and_looks_of_an_answer_spend_the_miss_together(way, y, spent):
    """Over mechanisms, epsilons, records, labels, strata, looks and engines: no more than was asked, and all of it."""
    risk = Risk(MISS)
    way(y, settings(risk))
    assert sum(spent) == pytest.approx(MISS, rel=1e-9)
    assert risk.spent == risk.total


@pytest.mark.parametrize("y", [None, [0, 0]])
def test_the_average_that_comes_first_is_paid_for_out_of_the_same_miss(y, spent):
    risk = Risk(MISS)
    problem = of_function(["pm", "krr:k=201"], y, np.arange(1, 4, 0.5))
    answered, chosen = run(problem, "auto", settings(risk), "auto", Deadline(1e9))
    assert [type(part.engine) for part, _ in answered] == [AverageFirst, Sampled]
    assert chosen == "dataset"
    assert sum(spent) == pytest.approx(MISS, rel=1e-9)
    assert risk.spent == risk.total


@pytest.mark.parametrize("ahead", [True, False])
def test_a_band_is_as_wide_as_all_its_cumulative_distributions_together(ahead):
    """Behind its rivals a record enters and leaves: two of them, each of which errs by half the tolerance."""
    risk = Risk(MISS)
    region = Region(np.ones((1, 2)), np.array([1.0 if ahead else -1.0]), np.zeros(1), np.ones(1), 0.05, risk)
    assert risk.spent == risk.total
    terms = len(region.borders)
    assert terms == (1 if ahead else 2)
    for border, share in zip(region.borders, (0.25, 0.75), strict=False):
        border.counts[:] = share * region.draws
    each = np.sqrt(np.log(2 / (MISS / terms)) / (2 * region.draws))  # Massart 1990, for each of them
    lower, upper = region.bounds()
    middle = 0.75 if ahead else 0.5
    np.testing.assert_allclose([middle - lower, upper - middle], terms * each, rtol=1e-12)
    assert upper - lower <= 0.1


@pytest.mark.parametrize("engine", runs.ENGINES, ids=lambda engine: engine.name)
def test_an_engine_that_may_hand_over_to_sampling_leaves_it_a_share(engine):
    """Beside one that draws by itself: two shares where both may draw, whoever of them does so in the end."""
    may_draw = engine.draws or engine.name in ("cells", "slabs")
    assert drawing_runs([SharedDraws(), engine]) == 1 + may_draw
    assert drawing_runs([engine, Sampled()]) == 1 + (engine.draws and engine.name != "sampled")


class Toy(SharedDraws):
    """Hands everything over."""

    name, draws, can_fall_back = "toy", False, True

    def bound(self, problem, settings):
        return None


def test_what_is_handed_over_is_drawn_at_its_own_share(monkeypatch, spent):
    """k-ary randomised response for the toy, and sampling for the rest; both are sampled in one run."""
    monkeypatch.setattr(runs, "ENGINES", (Toy(), Rays(), Sampled()))
    risk, problem = Risk(MISS), of_flowers(LogisticRegression(max_iter=5000), ["krr", "laplace"], None)
    answered, _ = run(problem, "auto", settings(risk), "records")
    assert [part.engine.name for part, _ in answered] == ["rays", "sampled"]
    assert [answer.spent for _, answer in answered] == [risk.total / 2] * 2
    assert sum(spent) == pytest.approx(MISS, rel=1e-9)


def test_an_engine_that_says_it_does_not_draw_cannot(monkeypatch):
    monkeypatch.setattr(Sampled, "draws", True)
    monkeypatch.setattr(SharedDraws, "draws", False)
    with pytest.raises(Overspent):
        run(of_function("krr:k=201", None, np.arange(1, 4, 0.5)), "auto", settings(), "records")
