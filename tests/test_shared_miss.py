"""The probability of a miss is divided over every bound that is drawn: no engine spends more than its share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

from epsworth.engines import branching, shared
from epsworth.engines.assembly import _drawing_runs
from epsworth.engines.cells import cells_for
from epsworth.engines.plan import DRAWING, Part
from epsworth.engines.question import ask
from epsworth.engines.sampled import Settings
from epsworth.engines.scales import Region

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
MISS = 1e-3


def settings():
    return Settings(MISS, 0.1, None, np.random.default_rng(0), lambda share: None)


def spied(module, monkeypatch):
    """Return the list to which the miss probability of every schedule is appended."""
    spent, looks = [], module.looks

    def noting(tolerance, miss, **more):
        spent.append(miss)
        return looks(tolerance, miss, **more)

    monkeypatch.setattr(module, "looks", noting)
    return spent


@pytest.mark.parametrize("y", [None, [0, 0]])
def test_boxes_share_the_miss_over_records_points_and_labels(y, monkeypatch):
    """Whatever is drawn about two records, two mechanisms, three epsilons and, with y, another label."""
    model = RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES)
    monkeypatch.setattr("epsworth.engines.leaves.LeafBoxes.most", 1)  # nearly everything is drawn
    spent = spied(branching, monkeypatch)
    given = {"mechanisms": ["pm", "sw"], "epsilons": [1, 2, 4], "domain": RANGES, "y": y}
    question = ask(model, IRIS[[60, 100]], sensitive=[0, 1, 2, 3], **given)
    branching.branch_and_sample(question, cells_for(question), settings())
    bounds = 2 * 3 * 2 * (1 if y is None else 2)
    assert len(spent) == bounds  # each of them drew
    assert sum(spent) <= MISS * (1 + 1e-9)


@pytest.mark.parametrize("y", [None, [True, True]])
def test_strata_share_the_miss_over_records_sizes_and_labels(y, monkeypatch):
    """A schedule serves all strata of a record: one per number of features redrawn, and per label."""
    spent = spied(shared, monkeypatch)
    table = np.array([[0.2, 0.4, 0.9], [0.7, 0.1, 0.3]])
    question = ask(
        lambda Z: Z.sum(axis=1) > 1.5,
        table,
        sensitive=[0, 1, 2],
        mechanisms="krr",
        epsilons=[1, 2, 3, 4],
        domain=None,
        y=y,
    )
    shared.shared_samples(question, 101, settings())
    assert len(spent) == 2
    assert sum(spent) * 3 * (1 if y is None else 2) <= MISS * (1 + 1e-9)


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
