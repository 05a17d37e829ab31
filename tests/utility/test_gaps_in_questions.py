"""Gaps in sensitive columns, and whole numbers: a question is about what clients release."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.policy import Policy
from epsworth.results import json_form
from epsworth.space import Domain, Feature
from epsworth.utility.panels import panels_of
from epsworth.utility.run import Run

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RANGE = {"lower": -3, "upper": 3, "missing": 0.9}


def truth(label_of, record, grids, filled, epsilon, own):
    """Return the probability of a label by enumeration: k-ary randomised response on every grid."""
    kept = 0.0
    for values in product(*grids):
        share = 1.0
        for value, grid, true in zip(values, grids, filled, strict=True):
            top = np.exp(epsilon)
            share *= (top if value == true else 1.0) / (top + len(grid) - 1)
        kept += share * (label_of(*values, *record) == own)
    return kept


def test_a_gap_is_perturbed_as_the_declared_value_and_keeps_the_label_of_the_gap():
    def label(age, job):
        return 0 if age is None or np.isnan(age) else int(age > 40) + (job == "nurse")

    def model(table):
        return np.array([label(a, j) for a, j in zip(table["age"], table["job"], strict=True)])

    table = pd.DataFrame({"age": [20.0, np.nan, np.nan, 60.0], "job": ["nurse", "clerk", None, None]})
    domain = {
        "age": {"lower": 0, "upper": 100, "points": 6, "missing": 60},
        "job": {"categories": ["clerk", "nurse", "other"], "missing": "other"},
    }
    found = ew.stability(
        model, table, sensitive=["age", "job"], mechanisms="krr", epsilons=[1.0], per="feature", domain=domain
    )
    grids = [[0.0, 20.0, 40.0, 60.0, 80.0, 100.0], ["clerk", "nurse", "other"]]
    filled = [(20.0, "nurse"), (60.0, "clerk"), (60.0, "other"), (60.0, "other")]
    own = model(table)
    assert own.tolist() == [1, 0, 0, 1]  # of the records as they are
    right = [truth(label, (), grids, one, 1.0, label_) for one, label_ in zip(filled, own, strict=True)]
    assert found.confidence == 1
    np.testing.assert_allclose(found.lower[0, 0], right, atol=1e-9)
    np.testing.assert_allclose(found.upper[0, 0], right, atol=1e-9)
    assert right[1] < right[3]  # alike in age but for the gap, whose label is another one
    assert 'age = 60, job = "other"' in " ".join(found.notes)


def test_a_page_shows_a_record_with_a_gap_where_it_is_perturbed():
    model, rows = fitted("boosted")
    domain = Domain.of({"x0": RANGE, "x1": {**RANGE, "missing": 1, "integer": True}})
    problem = ew.Problem.of(model, rows, sensitive=[0, 1], mechanisms="pm", epsilons=[2.0], domain=domain)
    curves = Run.of(rng=0).curves(problem)
    around = panels_of(curves, problem, rows, record=0, rng=0)
    assert np.isnan(rows[0]).all()
    assert around.map.own == (0.9, 1.0)
    assert around.box is None
    assert "x0" in " ".join(around.notes)
    json.dumps(json_form(around.to_dict()), allow_nan=False)
    whole = panels_of(curves, problem, rows, record=1, rng=0)
    assert whole.box.features == ("x0", "x1")  # of the ranges, without the rounding
    assert not np.isnan(rows[1]).any()


def fitted(kind, seed=0):
    """Return a model and records with gaps: of pipelines a gap has the label of what stands for it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 2)).clip(-2.9, 2.9)
    y = (X[:, 0] + X[:, 1] > 0.3).astype(int)
    estimator = {
        "linear": LogisticRegression(),
        "bayes": GaussianNB(),
        "network": MLPClassifier((4,), max_iter=80, random_state=0),
        "boosted": HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=6),
    }[kind]
    if kind != "boosted":
        estimator = make_pipeline(SimpleImputer(strategy="constant", fill_value=RANGE["missing"]), estimator)
    X[::5, 0] = np.nan
    X[::7, 1] = np.nan
    return estimator.fit(X, y), X[:12]


@pytest.mark.parametrize(
    ("kind", "mechanism", "method"),
    [
        ("linear", "pm", "lattice"),
        ("linear", "pm", "polygons"),
        ("linear", "laplace", "rays"),
        ("linear", "pm:quantise=9", "grid"),
        ("linear", "krr:k=7", "strata"),
        ("bayes", "pm", "slabs"),
        ("network", "pm", "propagation"),
        ("boosted", "pm", "cells"),
        ("boosted", "sw", "branch_and_bound"),
        ("linear", "pm", "sampled"),
        ("boosted", "pm", "auto"),
    ],
)
@pytest.mark.cases(1)
def test_engines_answer_a_gap_as_the_value_that_stands_for_it(kind, mechanism, method):
    """Filled by hand, with the label of the gap kept: y is that label, so the accuracy is the truth."""
    model, rows = fitted(kind)
    asked = {
        "sensitive": [0, 1], "mechanisms": mechanism, "epsilons": [3.0], "domain": {0: RANGE, 1: RANGE}, "rng": 0,
        "confidence": 1 - 1e-9, "tolerance": 0.05,
    }  # fmt: skip
    filled = np.where(np.isnan(rows), RANGE["missing"], rows)
    right = ew.stability(model, filled, y=model.predict(rows), method="auto", **asked).accuracy
    try:
        found = ew.stability(model, rows, method=method, **asked)
    except ValueError as error:
        if "cannot answer" not in str(error):
            raise
        assert kind == "network"  # what cannot be read beside a gap is refused, or drawn
        found = ew.stability(model, rows, **asked)
    assert (found.lower <= right.upper + 1e-9).all()
    assert (right.lower <= found.upper + 1e-9).all()
    assert (found.lower > 0.1).any()


GAPS = {
    "NaN": pd.DataFrame({"age": [31.0, np.nan, 64.0], "job": ["a", "b", "a"]}),
    "None": pd.DataFrame({"age": pd.Series([31, None, 64], dtype=object), "job": ["a", "b", "a"]}),
    "pd.NA": pd.DataFrame({"age": pd.array([31, pd.NA, 64], dtype="Int64"), "job": ["a", "b", "a"]}),
    "polars": pl.DataFrame({"age": [31, None, 64], "job": ["a", "b", "a"]}),
    "a word": pd.DataFrame({"age": [31, 12, 64], "job": ["a", None, "a"]}),
    "a text of pandas": pd.DataFrame({"age": [31, 12, 64], "job": pd.array(["a", pd.NA, "a"], dtype="string")}),
}
DOMAIN = {"age": (0, 100), "job": ["a", "b"]}


def by_words(table):
    return np.array([word is not None and word == "a" for word in list(table["job"])]).astype(int)


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.cases(1)
def test_a_gap_of_any_kind_is_refused_by_its_row_or_read(kind):
    table = GAPS[kind]
    column, value = ("job", '"b"') if kind in ("a word", "a text of pandas") else ("age", "50")
    model = by_words if column == "age" else lambda rows: np.zeros(len(rows["age"]), dtype=int)
    asked = {"sensitive": ["age", "job"], "mechanisms": "pm", "epsilons": [1.0], "rng": 0}
    with pytest.raises(ValueError, match=rf"^1 of 3 rows lack {column} \(first: row 1\)\.") as refused:
        ew.stability(model, table, domain=DOMAIN, **asked)
    assert f'Add "missing": {value} to what the domain declares of {column}' in str(refused.value)
    declared = Domain.of(DOMAIN)
    stands = {"age": 12, "job": "b"}[column]
    domain = Domain(tuple(replace(f, missing=stands) if f.name == column else f for f in declared.features))
    found = ew.stability(model, table, domain=domain, **asked)
    filled = pd.DataFrame({"age": [31, 12, 64], "job": ["a", "b", "a"]})
    right = ew.stability(model, filled, domain=DOMAIN, **asked)
    np.testing.assert_array_equal(found.lower, right.lower)


def test_what_a_message_proposes_does_not_come_from_the_table():
    told = set()
    for age in (3.0, 97.0):
        with pytest.raises(ValueError, match="rows lack x0") as refused:
            ew.stability(
                lambda X: np.zeros(len(X)), [[age], [np.nan]], sensitive=0, domain={0: Feature("x0", 0, 100)},
                mechanisms="pm", epsilons=[1.0],
            )  # fmt: skip
        told.add(str(refused.value))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"lower": 0, "upper": 10, "missing": 11}, "missing is 11, outside the range 0 to 10"),
        ({"lower": 0, "upper": 10, "missing": "x"}, "missing must be a number of the range"),
        ({"lower": 0, "upper": 10, "missing": True}, "missing must be a number of the range"),
        ({"lower": 0, "upper": 10, "missing": float("nan")}, "outside the range"),
        ({"categories": ["a", "b"], "missing": "c"}, "missing is 'c', which is not one of the categories"),
        ({"lower": 0, "upper": 9.5, "integer": True}, "integer needs whole ends"),
        ({"lower": 0, "upper": 1e6, "integer": True}, "integer takes at most 65,536 whole numbers"),
        ({"lower": 0, "upper": 9, "integer": True, "missing": 2.5}, "give a whole number"),
        ({"lower": 0, "upper": 9, "integer": True, "points": 4}, "integer makes 10 points, got 4"),
        ({"lower": 0, "upper": 9, "integer": 1}, "integer must be true or false"),
        ({"categories": ["a", "b"], "integer": True}, "categories exclude"),
    ],
)
@pytest.mark.cases("all")
def test_declarations_that_nothing_can_follow_are_refused(entry, message):
    with pytest.raises(ValueError, match=message) as refused:
        Domain.of({"v": entry})
    assert "features.v" in str(refused.value)


@pytest.mark.parametrize("ending", ["toml", "json"])
@pytest.mark.cases("all")
def test_a_domain_with_gaps_and_whole_numbers_comes_back(tmp_path, ending):
    domain = Domain.of({
        "age": {"lower": 0, "upper": 120, "integer": True, "missing": 50},
        "bmi": {"lower": 15, "upper": 60, "missing": 27.5},
        "job": {"categories": ["a", "unknown"], "missing": "unknown"},
    })  # fmt: skip
    domain.save(tmp_path / f"d.{ending}")
    assert Domain.load(tmp_path / f"d.{ending}") == domain
    assert domain != Domain.of({"age": (0, 120), "bmi": (15, 60), "job": ["a", "unknown"]})


def test_a_recommended_policy_reads_gaps_as_the_question_did(tmp_path):
    model, rows = fitted("boosted")
    domain = Domain.of({"x0": RANGE, "x1": RANGE})
    curves = ew.stability(
        model, rows, sensitive=[0, 1], mechanisms="pm", epsilons=[2.0, 8.0, 16.0], domain=domain, rng=0
    )
    found = ew.recommend(curves, at_least=0.5)
    policy = found.policy(domain)
    policy.save(tmp_path / "p.toml")
    assert [rule.missing for rule in Policy.load(tmp_path / "p.toml").rules] == [0.9, 0.9]
    again = ew.stability_of_policy(tmp_path / "p.toml", model, rows, rng=0)
    at = list(curves.epsilons).index(found.choice.epsilon)
    np.testing.assert_allclose(again.lower[0, 0], curves.lower[0, at], atol=0.005)  # on the grid of 2^16
    np.testing.assert_allclose(again.upper[0, 0], curves.upper[0, at], atol=0.005)


@pytest.mark.parametrize("mechanism", ["pm", "sw", "laplace", "krr", "pm:quantise=4"])
@pytest.mark.cases("all")
def test_whole_numbers_are_analysed_and_released_as_such(mechanism):
    """On the cut between 4 and 5 the rounding counts; what leaves are whole numbers, as often as was said."""
    domain = Domain.of({"x0": {"lower": 0, "upper": 9, "integer": True}})
    rows = [[2], [5]]

    def model(X):
        return (np.asarray(X)[:, 0] > 4.2).astype(int)

    found = ew.stability(model, rows, sensitive=0, mechanisms=mechanism, epsilons=[2.0], domain=domain)
    assert found.confidence == 1
    assert (found.method == "grid").all()
    assert np.ptp([found.lower, found.upper], axis=0).max() < 1e-9
    name = "laplace_clipped" if mechanism == "laplace" else mechanism  # the one with an exact sampler
    policy = Policy.of(name, "2", domain)
    released = ew.perturb(policy, np.tile([[5.0]], (4000, 1)))
    assert set(released.ravel()) <= set(range(10))
    again = ew.stability_of_policy(policy, model, rows)
    assert again.confidence == 1
    np.testing.assert_allclose(again.lower, found.lower, atol=2e-3)
    share = float((released > 4.2).mean())
    assert abs(share - again.lower[0, 0, 1]) < 6 * np.sqrt(0.25 / 4000)
    if mechanism == "krr":
        top = np.exp(2.0)
        np.testing.assert_allclose(found.lower[0, 0], [(top + 4) / (top + 9), (top + 4) / (top + 9)], atol=1e-9)


def test_devices_round_as_the_library_does():
    domain = Domain.of({"age": {"lower": 0, "upper": 120, "integer": True, "missing": 50}})
    policy = Policy.of("pm", "1", domain)
    door = ew.Client(policy.for_clients()) if hasattr(ew, "Client") else policy.client
    sent = {door.perturb({"age": None})["age"] for _ in range(50)} | {
        policy.client.perturb({"age": 31})["age"] for _ in range(50)
    }
    assert all(value == int(value) and 0 <= value <= 120 for value in sent)
    assert Policy.from_toml(policy.to_toml()) == policy
    assert "integer = true" in policy.to_toml()


def test_a_box_needs_the_value_and_a_range():
    model, rows = fitted("boosted")
    with pytest.raises(ValueError, match="x lacks x0, and a box lies around a value"):
        ew.safe_box(model, rows[0], sensitive=[0], domain={0: RANGE}, rng=0)


def test_a_tailored_policy_takes_what_the_domain_says_of_gaps():
    model, _ = fitted("boosted")
    public = np.random.default_rng(3).normal(size=(200, 2)).clip(-2.9, 2.9)
    made = ew.tailor(model, public, sensitive=[0, 1], epsilon=2, domain={0: RANGE, 1: RANGE}, rng=0, public=True)
    assert [grid.missing for grid in made.policy.tailoring.grids] == [0.9, 0.9]
    assert Policy.from_toml(made.policy.to_toml()).fingerprint == made.policy.fingerprint


@pytest.mark.parametrize("stand_in", [0.1, 0.8])
def test_a_gap_leaves_trees_behind_an_imputer_exact(stand_in):
    """The label to keep is that of the record with its gap, which the trees never saw: what is read is still theirs."""
    data = np.column_stack([np.linspace(0, 1, 50), np.random.default_rng(0).random(50)])
    steps = SimpleImputer(strategy="constant", fill_value=0.9), DecisionTreeClassifier(max_depth=1)
    model = make_pipeline(*steps).fit(data, data[:, 0] > 0.5)
    domain = {0: {"lower": 0, "upper": 1, "missing": stand_in}}
    found = ew.stability(
        model, [[np.nan, 0.2], [0.3, 0.4]], sensitive=[0], mechanisms="pm", epsilons=[2], domain=domain
    )
    assert (found.method == "cells").all()
    truth = ew.MECHANISMS["pm"](2.0).law(stand_in).mass(model[-1].tree_.threshold[0], np.inf).item()  # 1: 0.9 gets it
    assert (found.lower[0, 0, 0], found.upper[0, 0, 0]) == pytest.approx(
        (truth, truth), abs=1e-6
    )  # in single precision
