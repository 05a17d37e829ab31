"""Candidates are asked about the table that is given, and their labels are compared as every other door reads them."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsworth.learner import Classifier, LatticeConfig, PrivateValidation, simulate
from epsworth.learner.encoding import alike

USERS = 4000
SURE = 60  # with such an epsilon no vote is turned
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "job": RNG.choice(["clerk", "nurse"], USERS), "age": RNG.integers(20, 80, USERS), "bmi": RNG.random(USERS) * 40,
})  # fmt: skip
TRUE = ((TABLE.job == "nurse") & (TABLE.age > 40) ^ (RNG.random(USERS) < 0.1)).astype(int)
PIPE = make_pipeline(
    ColumnTransformer([("job", OneHotEncoder(), ["job"]), ("age", StandardScaler(), ["age", "bmi"])]),
    LogisticRegression(C=10),
).fit(TABLE, TRUE)
ACCURACY = PIPE.score(TABLE, TRUE)
FORMS = {
    "pandas": TABLE, "nullable": TABLE.convert_dtypes(), "categories": TABLE.astype({"job": "category"}),
    "polars": pl.from_pandas(TABLE), "arrow": pl.from_pandas(TABLE).to_arrow(),
    "another order": TABLE[["age", "bmi", "job"]],
    "more columns": TABLE.assign(zip="01001"), "another index": TABLE.set_index(np.arange(USERS)[::-1] // 2),
}  # fmt: skip
SPELT = {
    "int": TRUE, "text": TRUE.astype(str), "float": TRUE.astype(float), "bool": TRUE.astype(bool),
    "category": TRUE.astype("category"), "text category": TRUE.astype(str).astype("category"),
    "object": TRUE.astype(object), "decimal": TRUE.map(Decimal), "nullable": TRUE.astype("Int64"),
    "polars text": pl.Series(TRUE.astype(str).tolist()), "arrow": pl.Series(TRUE.tolist()).to_arrow(),
    "list": TRUE.tolist(), "int8": TRUE.to_numpy(np.int8),
}  # fmt: skip


def rights(candidates, X, y):
    """Return per user whether the vote says that a candidate was right."""
    return PrivateValidation(candidates, SURE).vote(X, y)[:, 1]


def told(model, kind):
    """Return a candidate that answers a model's labels in another type."""
    return lambda X: np.asarray(model.predict(X)).astype(kind)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ask", ["model", "method"])
def test_a_pipeline_on_named_columns_is_asked_about_them(form, ask):
    right = rights([PIPE if ask == "model" else PIPE.predict], FORMS[form], TRUE)
    assert (right == (PIPE.predict(TABLE) == TRUE)).all()
    assert 0.8 < ACCURACY < 1


def test_bounds_hold_the_accuracy():
    validation = PrivateValidation([PIPE, PIPE.predict, lambda X: 1 - PIPE.predict(X)], 2, example=TABLE[:5])
    found = validation.accuracies(validation.vote(TABLE, TRUE), fakes=0, confidence=1 - 1e-9)
    assert (found.lower <= [ACCURACY, ACCURACY, 1 - ACCURACY]).all()
    assert (found.upper >= [ACCURACY, ACCURACY, 1 - ACCURACY]).all()
    assert (found.upper - found.lower < 0.5).all()


@pytest.mark.parametrize("spelt", SPELT)
@pytest.mark.parametrize("kind", [int, str, float, bool, object, "U1"])
def test_labels_are_the_same_ones_whatever_spells_them(spelt, kind):
    right = PIPE.predict(TABLE) == TRUE
    assert (rights([told(PIPE, kind)], TABLE, SPELT[spelt]) == right).all()


def test_two_labels_are_two():
    pairs = [("1", "01"), ("1", "1.0"), (1, 2), (0, False + 1), ("yes", 1), (2**53, 2**53 + 1), ("a", "A"), (0, None),
             (math.nan, math.nan), ("", None), ("1", "1_"), (1, "１"), (1, pd.NA), (1, [1]), ("0", b"1")]  # fmt: skip
    same = [("1", 1), (1, True), ("true", True), ("True", 1.0), ("yes", np.str_("yes")), (Decimal("0.5"), "0.5"),
            (2**70, str(2**70)), (np.int8(3), "3"), ((1, 2), (1, 2))]  # fmt: skip
    assert not any(alike(*pair) or alike(*pair[::-1]) for pair in pairs)
    assert all(alike(*pair) and alike(*pair[::-1]) for pair in same)


def test_an_answer_of_one_column_is_one_label_per_record():
    column = lambda X: PIPE.predict(X)[:, None]  # noqa: E731
    assert (rights([column], TABLE, TRUE) == (PIPE.predict(TABLE) == TRUE)).all()
    assert not rights([lambda X: np.ones((len(X), 2))], TABLE[:50], TRUE[:50]).any()


@pytest.mark.parametrize("y", [TRUE.to_numpy()[:, None], TRUE.to_frame(), pl.DataFrame({"y": TRUE.tolist()}), "ab", 5])
def test_labels_of_another_shape_are_refused(y):
    with pytest.raises(ValueError, match="y must be one label per row"):
        rights([PIPE], TABLE, y)


@pytest.mark.parametrize("ask", [PIPE, PIPE.predict], ids=["model", "method"])
def test_columns_that_a_candidate_does_not_have_are_refused_before_anybody_votes(ask):
    for table in (TABLE[["age", "bmi"]], TABLE.rename(columns={"age": "Age"})):
        with pytest.raises(ValueError, match=r"the table lacks the column '(job|age)' on which the classifier"):
            rights([lambda X: np.ones(len(X)), ask], table, TRUE)
    plain = LogisticRegression().fit(TABLE[["age", "bmi"]].to_numpy(), TRUE)
    for own in (plain, plain.predict):
        with pytest.raises(ValueError, match="the table has 3 columns, but the classifier was fitted on 2"):
            rights([own], np.ones((5, 3)), np.ones(5))
    with pytest.raises(TypeError, match="has no predict and is not a function"):
        PrivateValidation(["model"], 1)


def test_a_candidate_that_fails_on_a_public_example_is_refused():
    needs = lambda X: X.to_numpy()[:, 0] > 0  # noqa: E731  of a frame alone
    for odd in (needs, lambda X: X[:, 7], lambda X: np.ones((len(X), 2)), lambda X: X[:, 0] / 7):
        with pytest.raises(ValueError, match=r"candidate 1 fails on the example \(.*\); repair either"):
            PrivateValidation([lambda X: np.ones(len(X)), odd], 1, example=[[1, 2], [3, 4.5]])
    validation = PrivateValidation([needs], SURE, example=pd.DataFrame({"a": [1, -1]}))
    assert validation.vote(pd.DataFrame({"a": [1, -1, 2]}), [1, 0, 0])[:, 1].tolist() == [1, 1, 0]


ODD = [None, math.nan, "text", [7], {}, pd.NA, 10**400, True, object(), 1j]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_no_value_keeps_anybody_from_voting(odd):
    """Without an answer a record counts as wrong: a refusal would tell of it."""
    model = LogisticRegression().fit([[0.0, 0], [1, 1]], [0, 1])
    objects = np.array([[1.0, 1], [1, 1]], dtype=object)
    objects[1, 0] = odd
    frame = pd.DataFrame({"a": pd.Series([1.0, odd], dtype=object), "b": [1, 1]})
    named = LogisticRegression().fit(pd.DataFrame({"a": [0.0, 1], "b": [0, 1]}), [0, 1])
    for candidate, table in ((model, [[1.0, 1], [odd, 1]]), (model, objects), (named, frame), (named.predict, frame)):
        votes = PrivateValidation([candidate], SURE).vote(table, [1, odd])
        assert votes.shape == (2, 2)
        assert votes[0, 1] == 1
    masked = np.ma.array([[1.0, 1], [1, 1]], mask=[[0, 0], [1, 0]])
    assert rights([model], masked, [1, 1]).tolist() == [1, 0]


def test_what_was_learnt_is_a_candidate():
    x = TABLE[["age", "bmi"]]
    asked = LatticeConfig(box=[(20, 80), (0, 40)], m=4, epsilon=9, names=["age", "bmi"])
    model = Classifier.from_aggregate(simulate(asked, x, TRUE, 0, users=10**6))
    for candidate in (model, model.predict):
        for table in (TABLE, pl.from_pandas(TABLE), x.to_numpy()):
            assert (rights([candidate], table, TRUE.astype(str)) == (model.predict(x) == TRUE)).all()


def test_bounds_hold_with_as_many_forged_votes_as_declared():
    """Of 400 runs at confidence .9 more than 80 misses have a probability below 1e-8; undeclared, most runs miss."""
    users, forged, rng = 2_000, 60, np.random.default_rng(3)
    validation, right = PrivateValidation([len], epsilon=1), 0.5
    keep = 1 - validation.flip / 2**64
    missed = {0: 0, forged: 0, 0.03: 0}
    for _ in range(400):
        truth = rng.random(users - forged) < right
        told = np.where(rng.random(truth.size) < keep, truth, ~truth)
        votes = np.column_stack([np.zeros(users, dtype=int), np.r_[told, np.ones(forged)].astype(int)])
        for fakes in missed:
            missed[fakes] += validation.accuracies(votes, fakes=fakes, confidence=0.9).lower[0] > right
    assert missed[forged] <= 80
    assert missed[0.03] <= 80
    assert missed[0] > 80
