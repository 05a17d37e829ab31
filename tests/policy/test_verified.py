"""Tables: what may stand in a perturbed column, and what may leave."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsworth import Domain, Policy, perturb
from epsworth.policy.columns import Column
from epsworth.policy.tables import Perturbation

AGE = Policy.of("pm", "1", Domain.of({"age": (0, 100)}), bits=8)
SMOKER = Policy.of("krr", "1", Domain.of({"age": ["no", "yes"]}))


class Acts:
    def __float__(self) -> float:
        return 31.0


@pytest.mark.parametrize(
    "value", [Acts(), b"\xb2", [31.0], (31.0,), {"a": 1}, datetime.date(2020, 1, 31), 31j, np.array([31.0, 32.0])]
)
@pytest.mark.parametrize("policy", [AGE, SMOKER])
def test_objects_that_are_no_plain_values_are_refused(policy, value):
    column = pd.Series([value, value], dtype=object)
    with pytest.raises(ValueError, match="age: the value is") as refused:
        perturb(policy, pd.DataFrame({"age": column}))
    assert "31" not in str(refused.value)


def test_objects_that_are_plain_values_pass():
    column = pd.Series([31, 31.5, "31", Decimal(31), np.float32(3)], dtype=object)
    assert len(perturb(AGE, pd.DataFrame({"age": column}))) == 5
    assert set(perturb(SMOKER, pd.DataFrame({"age": pd.Series(["no", "yes"], dtype=object)}))["age"]) <= {"no", "yes"}


@pytest.mark.parametrize(
    "kind", [pl.List(pl.Float64), pl.Array(pl.Float64, 1), pl.Struct({"a": pl.Float64}), pl.Object]
)
def test_nested_columns_are_refused(kind):
    value = {"a": 1.0} if isinstance(kind, pl.Struct) else [1.0]
    with pytest.raises(ValueError, match="row 0, age: the value is missing, or not a number"):
        perturb(AGE, pl.DataFrame({"age": pl.Series([value], dtype=kind)}))


def test_a_feature_that_names_two_columns_or_an_index_is_refused():
    with pytest.raises(ValueError, match="two columns of the same name"):
        perturb(AGE, pd.DataFrame([[1.0, 2.0]], columns=["age", "age"]))
    with pytest.raises(ValueError, match="index is named 'age'"):
        perturb(AGE, pd.DataFrame({"age": [1.0]}, index=pd.Index([31], name="age")))


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("policy", [AGE, SMOKER])
def test_what_is_not_public_never_leaves(policy, table, monkeypatch):
    raw = [31.4, 50.0] if policy is AGE else ["no", "secret"]
    given = table({"age": [31.4, 50.0] if policy is AGE else ["no", "yes"]})
    import narwhals as nw

    wrong = nw.from_native(table({"age": raw}))["age"]
    monkeypatch.setattr(Perturbation, "_series", lambda *_: wrong)
    with pytest.raises(ArithmeticError, match="age: what was drawn is not in the policy's public table"):
        perturb(policy, given)
    monkeypatch.setattr(Perturbation, "_series", lambda *_: wrong[:1])
    with pytest.raises(ArithmeticError, match="age: 1 values were drawn for 2 records"):
        perturb(policy, given)


def test_draws_beyond_the_table_never_leave(monkeypatch):
    monkeypatch.setattr(Column, "draw", lambda self, inputs, words=None: np.full(len(inputs), -1))
    with pytest.raises(ArithmeticError, match="x0: what was drawn"):
        perturb(Policy.of("pm", "1", Domain.of({"x0": (0, 1)}), bits=2), np.array([[0.5]]))
