"""Cases that broke a bound once: sums that cancel, odd scales, single precision, files that changed places."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

import epsworth as ew
from epsworth.mechanisms import MECHANISMS, laws
from epsworth.utility.engines.sums import at_most, laplace_sum
from parted import in_parts

X = np.random.default_rng(0).random((400, 3))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).astype(int)
ASKED = {"sensitive": [0, 1], "domain": {0: (0, 1), 1: (0, 1)}, "rng": 1}


def boosting_with(leaves):
    rows = np.array([[0.1, 0.1], [0.9, 0.9], [0.2, 0.8], [0.8, 0.2]] * 5)
    model = GradientBoostingClassifier(n_estimators=len(leaves), max_depth=1, learning_rate=1.0, init="zero")
    model.fit(rows, rows[:, 0] > 0.5)
    for tree, held in zip(model.estimators_[:, 0], leaves, strict=True):
        tree.tree_.value[:, 0, 0] = held
    return model


def test_sums_that_cancel_are_asked_about():
    """-B, less than half a unit of it, and B: doubles add that up to 0, integers with more digits do not."""
    most = 1e9
    least = 0.45 * np.spacing(most)
    model = boosting_with([(0, -most, -most), (0, -least, -least), (0, most, -most)])
    rows, asked = [[0.1, 0.1], [0.9, 0.9]], {"mechanisms": ["krr:k=9"], "epsilons": [1.0]}
    truth, found = (ew.stability(model, rows, method=word, **ASKED, **asked) for word in ("grid", "cells"))
    assert (found.lower <= truth.upper).all()
    assert (truth.lower <= found.upper).all()


@pytest.mark.parametrize("size", [1e-306, 1e300, 1.7e308])
@pytest.mark.parametrize("features", [2, 3])
@pytest.mark.cases(1)
def test_leaves_at_the_ends_of_the_doubles_are_read_or_refused(size, features):
    model = GradientBoostingClassifier(n_estimators=3, max_depth=2, init="zero", random_state=0).fit(X, Y)
    for tree in model.estimators_[:, 0]:
        tree.tree_.value[:] = np.sign(tree.tree_.value) * size
    asked = {"sensitive": list(range(features)), "domain": dict.fromkeys(range(features), (0, 1)), "rng": 1}
    with np.errstate(over="ignore"):
        found = ew.stability(model, X[:2], mechanisms=["krr:k=5"], epsilons=[1.0], **asked)
        truth = ew.stability(model, X[:2], mechanisms=["krr:k=5"], epsilons=[1.0], method="grid", **asked)
    assert (found.lower <= truth.upper).all()
    assert (truth.lower <= found.upper).all()


def test_a_tolerance_below_rounding_is_not_met_and_nothing_else():
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y)
    asked = {"sensitive": [0, 1, 2], "domain": dict.fromkeys(range(3), (0, 1)), "mechanisms": ["pm"], "epsilons": [1.0]}
    found = ew.stability(model, X[:2], tolerance=1e-9, **asked)
    assert found.confidence == 1
    assert (found.upper - found.lower).max() < 1e-6


def test_a_checkpoint_of_a_model_with_another_number_is_refused(tmp_path):
    """Its arrays are the same, and its answers wherever it is probed may be."""
    model = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, Y)
    other = copy.deepcopy(model)
    other.learning_rate += 1e-12
    asked = ASKED | {"mechanisms": ["pm"], "epsilons": [1.0], "checkpoint": tmp_path / "run.npz"}
    kept = ew.stability(model, X[:3], **asked)
    assert np.array_equal(ew.stability(copy.deepcopy(model), X[:3], **asked).lower, kept.lower)
    with pytest.raises(ValueError, match="the model"):
        ew.stability(other, X[:3], **asked)


@pytest.mark.parametrize("change", ["swapped", "copied"])
@pytest.mark.slow
def test_pieces_that_change_places_are_refused(change, tmp_path):
    model = RandomForestClassifier(4, random_state=0).fit(X, Y)
    asked = ASKED | {"mechanisms": ["pm"], "epsilons": [1.0], "folder": tmp_path / "parts"}
    found = in_parts(model, X[:24], **asked, n_jobs=2)
    first, second, *_ = sorted((tmp_path / "parts").glob("*.npz"))
    assert len(found) > 1
    shutil.copy(first, tmp_path / "held")
    if change == "swapped":
        shutil.copy(second, first)
    shutil.copy(tmp_path / "held", second)
    with pytest.raises(ValueError, match="holds another piece than its name says"):
        ew.CurveParts.load(tmp_path / "parts").whole()
    with pytest.raises(ValueError, match="holds another piece than its name says"):
        in_parts(model, X[:24], **asked)


def test_a_number_of_records_that_is_not_there_is_refused_at_once(tmp_path):
    in_parts(lambda rows: rows[:, 0] > 0.5, X[:4], **ASKED, mechanisms="krr:k=3", epsilons=[1.0],
                          folder=tmp_path / "parts")  # fmt: skip
    told = json.loads((tmp_path / "parts" / "curves.json").read_text())
    (tmp_path / "parts" / "curves.json").write_text(json.dumps(told | {"records": 10**12}))
    with pytest.raises(ValueError, match="run it again"):
        ew.CurveParts.load(tmp_path / "parts")


def test_components_whitened_in_single_precision_are_scaled_as_the_step_does():
    rows = np.random.default_rng(0).random((300, 3)).astype("f4")
    model = make_pipeline(PCA(2, whiten=True), LogisticRegression()).fit(rows, (rows[:, 0] > 0.5).astype(int))
    low, high = 0.0, 1.0
    first = model.predict([[low, 0.5, 0.4]])
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (middle, high) if model.predict([[middle, 0.5, 0.4]]) == first else (low, middle)
    record = np.array([[low - 2e-7, 0.5, 0.4]])
    found = ew.stability(model, record, sensitive=[0], mechanisms=["pm"], epsilons=[20.0, 28.0],
                         domain={0: (0.0, 1.0)}, tolerance=1e-6)  # fmt: skip
    for m, epsilon in enumerate((20.0, 28.0)):
        truth = float(MECHANISMS["pm"](epsilon).law(record[0, 0]).cdf(low))
        assert found.lower[0, m, 0] - 1e-9 <= truth <= found.upper[0, m, 0] + 1e-9


def linear(weights, constant):
    model = LogisticRegression().fit(np.eye(len(weights))[[0, 1]], [0, 1])
    model.coef_, model.intercept_ = np.array([weights], dtype=float), np.array([float(constant)])
    return model


@pytest.mark.parametrize("scale", [1e-308, 1e-170, 1e154, 1e200])
@pytest.mark.parametrize("name", ["pm", "laplace_clipped", "gaussian", "laplace"])
@pytest.mark.cases(1)
def test_scales_change_nothing(name, scale):
    weights, record = np.array([1.0, -1.3, 2.0, 0.4]), [[0.3, 0.5, 0.1, 0.2]]
    asked = {"sensitive": [0, 1, 2, 3], "mechanisms": [name], "epsilons": [2.0], "rng": 0}
    one, other = (ew.stability(linear(c * weights, -0.4 * c), record, **asked) for c in (1.0, scale))
    assert (other.lower <= one.upper).all()
    assert (one.lower <= other.upper).all()
    assert (other.upper - other.lower).max() < 0.03


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_weights_that_are_no_numbers_prove_nothing(weight):
    with np.errstate(all="ignore"):
        try:
            found = ew.stability(linear([weight, -1], 0.1), [[0.3, 0.5]], sensitive=[0, 1], epsilons=[2.0],
                                 mechanisms=["laplace_clipped"], rng=0)  # fmt: skip
        except ew.ClassifierError:
            return
    assert np.isfinite(found.lower).all()
    assert np.isfinite(found.upper).all()
    assert found.method.item() == "sampled"


def test_squares_of_small_weights_do_not_vanish():
    held, scale = [laws.Laplace.around(np.array([x]), np.array([1.3])) for x in (0.3, 0.6)], 1e-160
    weights = np.array([1, -1.5])
    one = laplace_sum(held, weights, -0.2)
    other = at_most(held, scale * weights, -0.2 * scale, 0.0, 1e-6)
    assert (other.lower <= one.upper + 1e-12).all()
    assert (one.lower <= other.upper + 1e-12).all()


@pytest.mark.parametrize("name", ["pm", "laplace_clipped", "duchi", "krr"])
def test_a_slack_beyond_the_sum_leaves_everything_open(name):
    """No label is clear then, so that the model's reading was never compared, and is not believed."""
    held = [MECHANISMS["krr"](2.0, k=9).law(0.25) if name == "krr" else MECHANISMS[name](2.0).law(0.3)] * 4
    found = at_most(held, np.full(4, 1e-300), 0.0, 1e8, 1e-6)
    assert (found.lower == 0).all()
    assert (found.upper == 1).all()
    asked = {"sensitive": [0, 1, 2, 3], "mechanisms": [name], "epsilons": [2.0], "method": "lattice"}
    with pytest.raises(ValueError, match="too few of these are clear"):
        ew.stability(linear([1e-250] * 4 + [1e20], -1e20), [[0.3] * 4 + [1.0]], **asked)


def test_draws_and_masses_of_a_rounded_law_meet_at_the_same_doubles():
    law = laws.Quantised(MECHANISMS["pm"](50.0).law(0.15), 11)
    drawn = law.from_uniform(np.linspace(0, 1, 10_001))
    below = float(law.cdf(np.array(0.1)))
    assert abs((drawn <= 0.1).mean() - below) < 1e-3


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
@pytest.mark.cases(1)
def test_probabilities_of_another_loss_are_not_taken_for_logistic(loss):
    """Of unscaled features all scores are large, where both are 0 or 1: between them the label changes elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 100, (1500, 2))
    y = X[:, 1] + rng.normal(0, 10, 1500) > 50 + 0.2 * X[:, 0]
    model = FixedThresholdClassifier(SGDClassifier(loss=loss, random_state=0), threshold=0.9).fit(X, y)
    weights, start = model.estimator_.coef_[0], model.estimator_.intercept_[0]
    records = X[:300].copy()
    records[-1, 1] = (1.5 - start - weights[0] * records[-1, 0]) / weights[1]  # a score between the two changes
    asked = {"sensitive": [1], "domain": {1: (0, 100)}, "mechanisms": "krr:k=20001", "epsilons": [16.0], "rng": 0}
    found = ew.stability(model, records, **asked)
    values = np.linspace(0, 100, 20001)
    kept = 1 / (1 + 20000 * np.exp(-16.0))
    told = zip(records, found.labels, found.lower[0, 0], found.upper[0, 0], strict=True)
    for record, label, low, high in list(told)[-3:]:
        same = model.predict(np.column_stack([np.full(20001, record[0]), values])) == label
        own = same[round(record[1] * 200)]  # the place of its value on the grid
        truth = kept * own + (1 - kept) / 20000 * (same.sum() - own)
        assert low - 1e-9 <= truth <= high + 1e-9
    assert ("linear" in "".join(found.notes)) is (loss == "log_loss")
