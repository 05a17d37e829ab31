"""The probability of a miss is divided over every bound that is drawn: no engine spends more than its share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from epsworth.bounds import Interval
from epsworth.utility.engines import branch_and_bound as branching
from epsworth.utility.engines import rays as scales
from epsworth.utility.engines import sampled
from epsworth.utility.engines import strata as shared
from epsworth.utility.engines.assembly import _drawing_runs, run_parts
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.linear import linear_for
from epsworth.utility.engines.plan import DRAWING, Part, Planner
from epsworth.utility.engines.rays import Region
from epsworth.utility.engines.sampled import Settings
from epsworth.utility.question import ask

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
MISS = 1e-3


def settings():
    return Settings(MISS, 0.06, None, np.random.default_rng(0), lambda share: None)


@pytest.fixture
def spent(monkeypatch):
    """Return the list of what every interval and band spends; intervals tell nothing, so that no run stops early."""
    found = []

    def idle(counts, draws, miss):
        found.append(np.size(counts) * miss)
        return Interval(np.zeros(np.shape(counts)), np.ones(np.shape(counts)))

    def noting(*given):
        region = Region(*given)
        found.append(region.miss)
        return region

    for module in (sampled, shared, branching):
        monkeypatch.setattr(module, "clopper_pearson", idle)
    monkeypatch.setattr(scales, "Region", noting)
    monkeypatch.setattr("epsworth.utility.engines.leaves.LeafBoxes.most", 1)  # nearly everything is drawn
    return found


def of_function(mechanisms, y, epsilons=(1, 2)):
    """Two records of three features, two epsilons, and a classifier that nothing is known about."""
    table = np.array([[0.2, 0.4, 0.9], [0.7, 0.1, 0.3]])
    given = {"sensitive": [0, 1, 2], "mechanisms": mechanisms, "epsilons": epsilons, "domain": None}
    return ask(lambda Z: Z.sum(axis=1) > 1.5, table, y=None if y is None else [True, True], **given)


def of_flowers(model, mechanisms, y):
    """Two flowers, and labels that they do not have."""
    given = {"sensitive": [0, 1, 2, 3], "mechanisms": mechanisms, "epsilons": [1, 2], "domain": RANGES}
    return ask(model.fit(IRIS, SPECIES), IRIS[[60, 100]], y=y, **given)


def by_records(y):
    sampled.each_record(of_function(["pm", "sw"], y), settings())


def by_dataset(y):
    sampled.whole_dataset(of_function(["pm", "sw"], y), settings())


def by_strata(y):
    shared.shared_samples(of_function("krr", y), 101, settings())


def by_boxes(y):
    question = of_flowers(RandomForestClassifier(5, random_state=0), ["pm", "sw"], y)
    branching.branch_and_sample(question, cells_for(question), settings())


def by_scales(y):
    question = of_flowers(LogisticRegression(max_iter=5000), ["laplace", "gaussian"], y)
    scales.exit_scales(question, linear_for(question), settings())


def by_records_and_strata(y):
    question = of_function(["pm", "krr:k=201"], y, np.arange(1, 4, 0.5))
    answered, _ = run_parts(question, Planner(question, "auto").parts(), settings(), "records")
    assert {part.name for part, _ in answered} == {"monte-carlo", "shared-samples"}


def by_records_and_scales(y):
    question = of_flowers(LogisticRegression(max_iter=5000), ["pm", "laplace"], y)
    answered, _ = run_parts(question, Planner(question, "auto").parts(), settings(), "records")
    assert {part.name for part, _ in answered} == {"monte-carlo", "exit-scales"}


WAYS = [by_records, by_dataset, by_strata, by_boxes, by_scales, by_records_and_strata, by_records_and_scales]


@pytest.mark.parametrize("y", [None, [0, 0]])
@pytest.mark.parametrize("way", WAYS)
def test_all_bounds_and_looks_of_an_answer_spend_the_miss_together(way, y, spent):
    """Over mechanisms, epsilons, records, labels, strata, looks and engines: no more than was asked, and all of it."""
    way(y)
    assert sum(spent) == pytest.approx(MISS, rel=1e-9)


@pytest.mark.parametrize("ahead", [True, False])
def test_a_band_is_as_wide_as_all_its_cumulative_distributions_together(ahead):
    """Behind its rivals a record enters and leaves: two of them, each of which errs by half the tolerance."""
    region = Region(np.ones((1, 2)), np.array([1.0 if ahead else -1.0]), np.zeros(1), np.ones(1), 0.05, MISS)
    region.inner[:] = region.outer[:] = region.draws / 2
    terms = 1 if ahead else 2
    each = np.sqrt(np.log(2 / (MISS / terms)) / (2 * region.draws))  # Massart 1990, for each of them
    lower, upper = region.bounds()
    np.testing.assert_allclose([0.5 - lower, upper - 0.5], terms * each, rtol=1e-12)
    assert upper - lower <= 0.1


@pytest.mark.parametrize("name", [*DRAWING, "exact-cells", "sections", "monte-carlo", "exact-grid"])
def test_an_engine_that_may_hand_over_to_sampling_leaves_it_a_share(name):
    """Beside a part that draws by itself: two shares where both may draw, whoever of them does so in the end."""

    def run(question, settings):
        return None

    draws = Part((0,), "shared-samples", "", run)
    other = Part((1,), name, "", None if name == "monte-carlo" else run)
    assert _drawing_runs([draws, other]) == (1 if name == "exact-grid" else 2)
