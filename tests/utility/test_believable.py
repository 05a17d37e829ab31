"""A file of curves says nothing that cannot be: numbers out of range, and promises below what mechanisms keep."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import epsworth as ew

MODEL = LogisticRegression().fit([[0, 0], [0.4, 0.5], [0.6, 0.7], [1, 1]], [0, 0, 1, 1])
HUGE = int("9" * 400)
MECHANISMS = ["pm", "gaussian_clipped:delta=0.001", "pm:indicator=0.1", "label_rr"]


@pytest.fixture(scope="module")
def document():
    made = ew.stability(
        MODEL, [[0.2, 0.3], [0.6, 0.7]], sensitive=[0, 1], mechanisms=MECHANISMS,
        epsilons=[1, 2], tolerance=0.2, y=[0, 1], rng=1,
    )  # fmt: skip
    return json.loads(json.dumps(made.to_dict()))


def changed(document, *path, to):
    copy = json.loads(json.dumps(document))
    *parents, last = path
    held = copy
    for name in parents:
        held = held[name]
    held[last] = to
    return copy


PROMISE = ("guarantees_per_record", 0, 0)
LIES = {
    "average beyond 1": ("stability", "average", "upper", 0, 0, 1.9),
    "average above all records": ("stability", "average", "lower", 0, 0, 1.0),
    "bound below 0": ("stability", "lower", 0, 0, 0, -0.1),
    "accuracy beyond 1": ("accuracy", "upper", 0, 0, 0, 1.5),
    "confidence": ("confidence", -1),
    "confidence beyond 1": ("confidence", 5),
    "spent": ("spent", -0.5),
    "seconds": ("seconds", -5),
    "queries": ("queries", -5),
    "labels": ("labels_possible", 0, -4),
    "negative epsilon": ("epsilons_per_feature", 0, -3),
    "unsorted epsilons": ("epsilons_per_feature", 0, 2.5),
    "an epsilon twice": ("epsilons_per_feature", 0, 2.0),
    "a mechanism twice": ("mechanisms", 1, "pm"),
    "a mechanism without a name": ("mechanisms", 1, " "),
    "delta beyond 1": (*PROMISE[:1], 1, 0, "delta", 7),
    "negative delta": (*PROMISE[:1], 1, 0, "delta", -0.5),
    "delta of a pure promise": (*PROMISE, "delta", 0.1),
    "negative promise": (*PROMISE, "epsilon", -3),
    "promise of nobody": (*PROMISE, "unit", "town"),
    "huge bound": ("accuracy", "lower", 0, 0, 0, HUGE),
    "huge average": ("stability", "average", "upper", 0, 0, HUGE),
    "huge count of labels": ("labels_possible", 0, 2**70),
    "huge delta": (*PROMISE, "delta", HUGE),
    "a text for a truth": ("sound", "false"),
    "a number for a truth": ("stopped", 0),
    "a name that is no text": ("features", [3, 4]),
    "a name twice": ("features", ["a", "a"]),
    "nobody's columns": ("features", []),
}


@pytest.mark.parametrize("lie", LIES)
def test_numbers_that_cannot_be_are_refused(document, lie):
    *path, to = LIES[lie]
    assert ew.Curves.from_dict(document).features == ("x0", "x1")
    with pytest.raises(ValueError, match="damaged or incomplete"):
        ew.Curves.from_dict(changed(document, *path, to=to))


@pytest.mark.parametrize("m", range(len(MECHANISMS)))
def test_a_promise_other_than_what_the_mechanism_keeps_is_refused(document, m):
    own = document["guarantees_per_record"][m][1]
    wrong = [{"epsilon": own["epsilon"] * (1 - 1e-12)}, {"epsilon": 0.01}, {"epsilon": own["epsilon"] * 1.01}]
    wrong += [{"delta": own["delta"] / 2}, {"delta": 0.0}] if own["delta"] else []
    for entry in wrong:
        with pytest.raises(ValueError, match=f"{re.escape(MECHANISMS[m])} at epsilon 2 per feature keeps "):
            ew.Curves.from_dict(changed(document, "guarantees_per_record", m, 1, to=own | entry))


def test_weaker_promises_for_categories_and_of_own_mechanisms_are_read(document):
    assert ew.Curves.from_dict(changed(document, "mechanisms", 0, to="mine")).mechanisms[0] == "mine"
    ranges = {"x0": {"categories": [0, 1]}, "x1": {"lower": 0, "upper": 1}}
    made = ew.stability(
        lambda Z: Z[:, 0] > 0.5, [[0, 0.3], [1, 0.7]], sensitive=[0, 1], mechanisms=["gaussian:delta=0.01"],
        epsilons=[1], tolerance=0.2, domain=ranges, rng=1,
    )  # fmt: skip
    assert made.guarantees[0][0].delta == 0.01
    assert ew.Curves.from_dict(made.to_dict()).guarantees == made.guarantees


@pytest.fixture(scope="module")
def people():
    X = np.random.default_rng(0).random((30, 2))
    made = ew.stability(MODEL, X, sensitive=[0, 1], mechanisms=["pm", "krr:k=2"], epsilons=[1, 2, 3, 4], rng=1)
    return json.loads(json.dumps(made.to_dict()))


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("confidence", 3.0), ("records", 10**9), ("lower", [[-1.0] * 4] * 2), ("spent", HUGE), ("spent", 7.0),
        ("lower", [[1.0] * 4] * 2), ("upper", [[0.9] * 4] * 2), ("lower", [[0.5] * 3] * 2), ("confidence", 0.99999),
    ],
)  # fmt: skip
def test_a_population_that_these_records_do_not_say_is_refused(people, tmp_path, name, to):
    (tmp_path / "c.json").write_text(json.dumps(people))
    assert ew.reports.report_file(tmp_path / "c.json").html
    wrong = changed(people, "population", "stability", name, to=to)
    if name == "lower":
        wrong["population"]["stability"]["upper"] = [[1.0] * 4] * 2
    (tmp_path / "c.json").write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match=r"population"):
        ew.reports.report_file(tmp_path / "c.json")


def test_curves_that_were_sampled_are_never_for_certain(document):
    sampled = json.loads(json.dumps(document)) | {"confidence": 1.0, "spent": 0.0}
    sampled["method"] = [["sampled" for _ in row] for row in document["method"]]
    with pytest.raises(ValueError, match="confidence must lie below 1 where bounds were sampled"):
        ew.Curves.from_dict(sampled)
