"""What goes beyond one mechanism per feature: the label itself, a split budget, the published search beside a check."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import epsworth as ew
from epsworth.classifiers import Classifier
from epsworth.utility.splitting import _shared_out

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
FOREST = RandomForestClassifier(20, random_state=0).fit(IRIS, SPECIES)


def test_randomised_response_on_the_label_attains_the_ceiling():
    curves = ew.stability(
        FOREST, IRIS[[0, 60]], sensitive=[0, 2], mechanisms=["label_rr", "pm"],
        per="feature", epsilons=[0.5, 2.0], domain=RANGES,
        y=[0, 2],
    )  # fmt: skip
    for e, total in enumerate((1.0, 4.0)):  # two features: the record's total
        cap = ew.ceiling(total, 3)
        np.testing.assert_allclose(curves.lower[0, e], cap, atol=1e-11)
        assert curves.guarantees[0][e] == ew.Pure(total, "record")
        np.testing.assert_allclose(curves.accuracy.lower[0, e], [cap, (1 - cap) / 2], atol=1e-11)
    assert curves.method[0, 0] == "label"
    assert curves.confidence == 1
    assert ew.recommend(curves, at_least=0.95, on="worst").choice.mechanism == "label_rr"


def test_randomised_response_on_the_label_is_its_own_simulation():
    """The closed form against 1e5 simulated clients; false-alarm rate 1e-6."""
    rng, n, total, labels = np.random.default_rng(1), 100_000, 1.5, 3
    keep = np.exp(total) / (np.exp(total) + labels - 1)
    sent = np.where(rng.random(n) < keep, 0, rng.integers(1, labels, n))
    assert abs((sent == 0).mean() - ew.ceiling(total, labels)) < 5 * np.sqrt(0.25 / n)


def test_randomised_response_on_the_label_needs_the_labels():
    settings = {"sensitive": 0, "mechanisms": "label_rr", "epsilons": [1.0]}
    with pytest.raises(ValueError, match="label_rr needs to know all labels"):
        ew.stability(lambda Z: Z[:, 0] > 0.5, [[0.2]], **settings)
    told = Classifier("step", lambda Z: Z[:, 0] > 0.5, classes=(False, True))
    assert ew.stability(told, [[0.2]], **settings).lower.item() == pytest.approx(ew.ceiling(1.0, 2), abs=1e-11)


@pytest.mark.slow
def test_a_feature_that_does_not_matter_gets_no_budget():
    only_first = LogisticRegression()
    only_first.coef_, only_first.intercept_ = np.array([[1.0, 0.0, 0.0, 0.0]]), np.array([-0.5])
    only_first.classes_, only_first.n_features_in_ = np.array([0, 1]), 4
    x = np.random.default_rng(0).random((20, 4))
    for sensitive in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
        split = ew.split_budget(only_first, x, sensitive=sensitive, total=4.0, tolerance=1e-3)
        assert split.epsilons[0] > 3.5
        assert split.lower > split.even_upper
        assert sum(split.epsilons) <= 4.0
        assert split.guarantee.epsilon <= 4.0
        assert split.confidence == 1


@pytest.mark.parametrize("on", ["average", "worst"])
def test_the_split_is_never_worse_than_even_and_its_bounds_hold(on):
    split = ew.split_budget(FOREST, IRIS[::15], sensitive=[0, 2], total=4.0, domain=RANGES, on=on)
    assert split.lower >= split.even_lower
    law = [ew.MECHANISMS["pm"](epsilon) for epsilon in split.epsilons]
    rng, agree = np.random.default_rng(0), []
    for row in IRIS[::15]:  # an independent simulation of the chosen split
        copies = np.repeat(row[np.newaxis], 4_000, axis=0)
        for j, mechanism in zip((0, 2), law, strict=True):
            low, high = RANGES[j]
            copies[:, j] = low + (high - low) * mechanism.law((row[j] - low) / (high - low)).sample(4_000, rng)
        agree.append((FOREST.predict(copies) == FOREST.predict(row[np.newaxis])).mean())
    seen = np.mean(agree) if on == "average" else np.min(agree)
    assert abs(seen - split.lower) < 0.04  # five standard errors of the worst record
    assert f"labels kept {'on average' if on == 'average' else 'in the worst case'} at least 0." in str(split)


@pytest.mark.parametrize("worse", [np.array([0.005, 0.995]), np.array([0.995, 0.005])])
def test_no_split_is_recommended_that_is_guaranteed_less_than_the_even_one(worse, monkeypatch):
    """Whatever the search returns, the even split is evaluated beside it."""
    monkeypatch.setattr("epsworth.utility.splitting._search", lambda *_: worse)
    both = LogisticRegression().fit([[0.0, 0.0], [1.0, 1.0]], [0, 1])
    split = ew.split_budget(both, np.array([[0.2, 0.2], [0.9, 0.7]]), sensitive=[0, 1], total=4.0, tolerance=1e-3)
    assert split.lower >= split.even_lower
    assert split.epsilons == (2.0, 2.0)


@pytest.mark.parametrize("parts", [(1, 4, 11), (1, 2, 7), (1, 1, 1), (3, 13)])
@pytest.mark.cases(1)
def test_shares_never_sum_to_more_than_the_total(parts, monkeypatch):
    """Nor as they are composed: .00625 + .025 + .06875 is .1 in floating point, and more than .1."""
    monkeypatch.setattr("epsworth.utility.splitting._search", lambda *_: np.array(parts) / sum(parts))
    first, sensitive = LogisticRegression().fit([[0.0] * 3, [1.0] * 3], [0, 1]), list(range(len(parts)))
    for total in (0.1, 0.3, 1.1):
        split = ew.split_budget(first, [[0.5, 0.5, 0.4]], sensitive=sensitive, total=total, tolerance=0.1)
        assert split.guarantee.epsilon <= total
        assert sum(map(Fraction, split.epsilons)) <= Fraction(total)
        for more in np.linspace(0.1, 2, 20):
            assert sum(map(Fraction, _shared_out(more, np.array(parts) / sum(parts)).tolist())) <= Fraction(more)


@pytest.mark.parametrize("features", [2, 3])
@pytest.mark.cases(1)
def test_a_budget_is_split_between_numbers_and_categories(features):
    """An engine of numbers alone is asked once per category, about every split anew."""
    grades = ["low", "mid", "high"]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.random(30), "grade": rng.choice(grades, 30), "debt": rng.random(30)})
    encoded = make_column_transformer((OrdinalEncoder(categories=[grades]), ["grade"]), remainder="passthrough")
    granted = table["income"] + 0.3 * (table["grade"] == "high") - 0.5 * table["debt"] > 0.5
    model = make_pipeline(encoded, LogisticRegression(C=100)).fit(table, granted)
    domain = {"income": (0, 1), "grade": grades, "debt": (0, 1)}
    sensitive = list(domain)[:features]
    table = table[:6]
    split = ew.split_budget(model, table, sensitive=sensitive, total=4.0, domain=domain, tolerance=0.02, rng=0)
    assert split.lower >= split.even_lower
    own = {name: domain[name] for name in sensitive}
    policy = ew.Policy.of("pm", dict(zip(sensitive, split.epsilons, strict=True)), own)
    released = ew.stability_of_policy(policy, model, table, tolerance=0.02, rng=1).average()
    assert released.lower.item() - 0.02 <= split.upper
    assert split.lower <= released.upper.item() + 0.02


def test_a_sampled_split_says_its_confidence():
    split = ew.split_budget(
        lambda Z: Z[:, 0] > 0.5, np.array([[0.2, 0.7], [0.9, 0.1]]), sensitive=[0, 1], total=4.0, rng=0, tolerance=0.05
    )
    assert split.confidence == 0.999
    assert split.epsilons[0] > 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": 0}, "total must be positive and finite"),
        ({"on": "median"}, "on must be 'average' or 'worst'"),
        ({"sensitive": [0]}, "at least two sensitive features"),
    ],
)
def test_bad_splits_are_refused(change, message):
    settings = {"sensitive": [0, 2], "total": 2.0, "domain": RANGES} | change
    with pytest.raises(ValueError, match=message):
        ew.split_budget(FOREST, IRIS[:2], **settings)
