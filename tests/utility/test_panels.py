"""What a page shows beside curves: true of the model, kept in files, refused where it does not hold together."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.utility.panels import Panels, numbered, panels_of, served
from epsworth.utility.run import Run

DOMAIN = {"age": (0, 100), "bmi": (10, 60)}


def people(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 100, rows),
            "bmi": np.round(rng.uniform(10, 60, rows), 1),
            "sex": rng.choice(["f", "m"], rows),
            "id": np.arange(rows),
        }
    )


def fitted(frame):
    truth = (frame["age"].to_numpy() > 50) & (frame["bmi"].to_numpy() > 25)
    names = ["age", "bmi"]
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame.select(names).to_pandas(), truth), truth


@pytest.fixture(scope="module")
def asked():
    frame = people()
    model, truth = fitted(frame)
    problem = ew.Problem.of(
        model, frame, sensitive=["age", "bmi"], mechanisms=["pm", "krr:k=9", "laplace_clipped"],
        per="feature", epsilons=[1, 2, 4, 8], domain=DOMAIN, y=truth,
    )  # fmt: skip
    curves = Run.of(rng=1).curves(problem)
    found = ew.recommend(curves, at_least=0.6)
    return curves, problem, frame, truth, found, panels_of(curves, problem, frame, found=found, rng=1)


@pytest.mark.slow
def test_it_looks_at_the_record_that_is_served_worst_where_it_was_recommended(asked):
    curves, problem, frame, _, found, around = asked
    m, e = curves.mechanisms.index(found.choice.mechanism), curves.epsilons.tolist().index(found.choice.epsilon)
    assert around.record == int(curves.lower[m, e].argmin())
    assert (around.mechanism, around.epsilon_per_record) == (found.choice.mechanism, found.choice.guarantee.epsilon)
    assert around.records == 40
    assert around.notes == ()
    assert around.seed == 1
    assert around.domain == ew.Domain.of(DOMAIN)
    for short in (ew.recommend(curves, at_least=0.9999), None):  # nothing is enough, or nothing was asked for
        best = ew.recommend(curves, at_least=1.0).closest
        near = panels_of(curves, problem, frame, found=short, ask_model=False)
        assert (near.mechanism, near.epsilon_per_record) == (best.mechanism, best.guarantee.epsilon)
        assert near.epsilon_per_record <= 4
    other = panels_of(curves, problem, frame, record=3)
    assert other.record == 3
    with pytest.raises(ValueError, match="record must be a whole number from 0 to 39, got 40"):
        panels_of(curves, problem, frame, record=40)


def test_the_map_holds_the_models_labels(asked):
    curves, problem, frame, _, _, around = asked
    model = problem.classifier.inside
    drawn = around.map
    rng = np.random.default_rng(5)
    for i, j in rng.integers(0, 64, (60, 2)):
        at = [(drawn.edges[f][c] + drawn.edges[f][c + 1]) / 2 for f, c in enumerate((i, j))]
        (label,) = model.predict(pl.DataFrame({"age": [at[0]], "bmi": [at[1]]}).to_pandas())
        assert drawn.labels[drawn.cells[i, j]] == str(label)
    assert drawn.labels[drawn.label] == str(curves.labels[around.record])
    assert drawn.own == (float(frame["age"][around.record]), float(frame["bmi"][around.record]))


def test_box_and_split_are_those_of_the_library(asked):
    _, problem, frame, _, found, around = asked
    model = problem.classifier
    again = ew.safe_box(
        model, frame[around.record], sensitive=["age", "bmi"], domain=DOMAIN, mechanism=around.box.mechanism,
        epsilon=found.choice.epsilon, confidence=0.999,
    )  # fmt: skip
    assert around.box == again
    assert around.split.total == found.choice.guarantee.epsilon
    assert around.split.mechanism == found.choice.mechanism
    assert around.split_records == 20
    assert around.split.lower >= around.split.even_lower
    rows = np.unique(np.linspace(0, 39, 20).astype(int))
    even = ew.stability(
        model, frame[rows.tolist()], sensitive=["age", "bmi"], mechanisms=found.choice.mechanism,
        epsilons=[found.choice.epsilon], domain=DOMAIN, rng=3,
    )  # fmt: skip
    assert around.split.even_lower <= even.average().upper[0, 0]
    assert around.split.even_upper >= even.average().lower[0, 0]


def test_groups_are_columns_with_few_values_and_true_labels(asked):
    curves, _, frame, truth, found, around = asked
    assert [(group.by, group.of) for group in around.groups] == [
        (by, of) for by in ("true label", "sex") for of in ("stability", "accuracy")
    ]
    m, e = curves.mechanisms.index(found.choice.mechanism), curves.epsilons.tolist().index(found.choice.epsilon)
    columns = {"true label": truth.astype(str), "sex": frame["sex"].to_numpy()}
    for group in around.groups:
        lower = curves.bounds(group.of).lower[m, e]
        assert sum(group.records) == 40
        assert list(group.average) == sorted(group.average)
        for one in group.served:
            own = lower[columns[group.by] == one.value]
            assert one.records == len(own)
            assert own.min() - 0.001 < one.worst <= own.min()
            assert math.fsum([*own, -len(own) * one.average]) >= 0  # never more than the average is
            assert one.average == pytest.approx(own.mean(), abs=0.001)


def test_an_unrounded_mean_of_a_group_is_no_more_than_the_mean():
    lower = np.random.default_rng(3).uniform(size=41)
    (one,) = served(("all",), np.zeros(41, dtype=int), lower)
    assert math.fsum([*lower, -41 * one.average]) >= 0
    few = served(("f", "m"), np.arange(41) % 2, lower)
    assert {two.value: two.worst for two in few} == {"f": lower[::2].min(), "m": lower[1::2].min()}


def test_no_group_is_held_by_record(asked):
    curves, problem, frame, _, found, around = asked
    document = json.loads(json.dumps(around.to_dict()))
    for group in document["groups"]:
        assert set(group) == {"by", "of", "values", "records", "average", "worst"}
        assert all(len(group[name]) <= 12 for name in group if isinstance(group[name], list))
        assert all(share == round(share, 3) for share in (*group["average"], *group["worst"]))
        assert min(group["records"]) >= 5
    rare = frame.with_columns(pl.Series("sex", ["x"] * 4 + ["f", "m"] * 18))
    held = panels_of(curves, problem, rare, found=found, ask_model=False)
    every = [(group.by, sorted(group.values)) for group in held.groups if group.by == "sex"]
    assert every == [("sex", ["f", "m"])] * 2  # of labels kept, and of right ones
    assert "groups: values of sex that fewer than 5 records have are left out" in held.notes


def test_one_feature_arrays_grids_and_indicators():
    table = np.random.default_rng(2).uniform(size=(30, 2))
    problem = ew.Problem.of(
        lambda X: X[:, 0] > 0.5, table, sensitive=[0], mechanisms=["pm", "pm:indicator=0.1", "laplace"],
        epsilons=np.linspace(0.5, 8, 40),
    )  # fmt: skip
    around = panels_of(Run.of(tolerance=0.1, rng=0).curves(problem), problem, table, rng=0)
    drawn = around.map
    assert drawn.cells.shape == (200,)
    assert around.split is None
    assert around.groups == ()


def test_no_split_of_mechanisms_with_options_is_said():
    frame = people()
    model, _ = fitted(frame)
    problem = ew.Problem.of(model, frame, sensitive=["age", "bmi"], mechanisms="krr:k=9", epsilons=[4.0], domain=DOMAIN)
    around = panels_of(Run.of(rng=1).curves(problem), problem, frame, rng=1)
    assert around.split is None
    assert "no split was looked for: krr:k=9 has options of its own" in around.notes


@pytest.mark.slow
def test_what_costs_is_left_out_and_said():
    frame = people()
    model, truth = fitted(frame)
    asked = []

    def counted(records):
        asked.append(len(records))
        return model.predict(records)

    problem = ew.Problem.of(
        counted, frame.select("age", "bmi"), sensitive=["age", "bmi"], mechanisms="pm", epsilons=[4.0], domain=DOMAIN,
        y=truth,
    )  # fmt: skip
    curves = Run.of(rng=1).curves(problem)
    asked.clear()
    around = panels_of(curves, problem, frame, ask_model=False)
    assert asked == []
    assert (around.map, around.box, around.split) == (None, None, None)
    assert [group.by for group in around.groups] == ["true label", "true label", "sex", "sex"]
    assert "was not asked again" in around.notes[-1]


def test_a_model_that_fails_elsewhere_leaves_a_note():
    table = np.random.default_rng(2).uniform(size=(30, 2))
    gone = []

    def breaking(records):
        if gone:
            raise RuntimeError("gone")
        return records[:, 0] > 0.5

    problem = ew.Problem.of(breaking, table, sensitive=[0], mechanisms="pm", epsilons=[2.0])
    curves = Run.of(rng=0).curves(problem)
    gone.append(True)
    around = panels_of(curves, problem, table)
    assert around.map is None
    assert len(around.notes) == 1
    assert "could not be computed" in around.notes[0]


def test_under_a_policy_there_is_a_map_and_a_box_and_no_split():
    frame = people()
    model, _ = fitted(frame)
    policy = ew.Policy.of("pm", 2, ew.Domain.of(DOMAIN), per="feature")
    problem = ew.problem_of_policy(policy, model, frame)
    around = panels_of(Run.of(rng=1).curves(problem), problem, frame, rng=1)
    assert around.domain == ew.Domain.of(DOMAIN)
    assert around.map is not None
    assert around.split is None
    assert around.box is not None


def test_it_is_kept_in_files_whole(asked):
    around = asked[-1]
    document = json.loads(json.dumps(around.to_dict(), allow_nan=False))
    again = Panels.from_dict(document)
    assert again.to_dict() == around.to_dict()
    assert again.box == around.box
    assert again.split == around.split
    assert again.domain == around.domain
    assert str(again) == str(around)
    bare = Panels(record=0, records=1)
    assert Panels.from_dict(json.loads(json.dumps(bare.to_dict()))).to_dict() == bare.to_dict()


DAMAGES = {
    "format": lambda d: d.update(format="epsworth-curves-1"),
    "record-true": lambda d: d.update(record=True),
    "declared": lambda d: d.update(declared="yes"),
    "seed": lambda d: d.update(seed="1"),
    "notes": lambda d: d.update(notes="none"),
    "model": lambda d: d.update(model=3),
    "cells-float": lambda d: d["map"]["cells"][0].__setitem__(0, 0.5),
    "cells-ragged": lambda d: d["map"]["cells"][0].pop(),
    "box-confidence": lambda d: d["box"].update(confidence=0.9999, spent=0.5),
    "box-whole": lambda d: d["box"].update(whole=[1, 0]),
    "split-notion": lambda d: d["split"]["guarantee"].update(notion="none"),
    "groups-by-record": lambda d: d["groups"].__setitem__(0, {"by": "sex", "values": ["f", "m"], "of": [0, 1] * 20}),
    "domain": lambda d: d["domain"]["features"]["age"].update(lower=200),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_entries_of_another_kind_are_refused(asked, name):
    document = json.loads(json.dumps(asked[-1].to_dict()))
    damaged = copy.deepcopy(document)
    DAMAGES[name](damaged)
    assert damaged != document
    with pytest.raises(ValueError, match=r"panels: damaged|this is not an epsworth-panels-1"):
        Panels.from_dict(damaged)


def test_small_things():
    assert numbered([1, 1, 0])[0] == ("0", "1")
