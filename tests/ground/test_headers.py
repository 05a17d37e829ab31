"""Refusals list a table's columns, but no record's values, not even where the first line is a record."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsworth.cli.privatize import _pool
from epsworth.exposure.tables import encode
from epsworth.headers import NO_HEADER, shown_names
from epsworth.inputs import column_named
from epsworth.learner import LatticeConfig
from epsworth.pac.pool import check_finite, checked_columns
from epsworth.policy import Policy
from epsworth.policy.tables import Perturbation
from epsworth.records import as_records
from epsworth.space import Domain
from epsworth.tables import column, read_table

RECORD = ("63.75", "female", "27.15")
VALUES = [
    "63.7", "-1", "1e5", "inf", "NaN", "NA", "", " 5", "5 %", "$7", "63kg", "1_duplicated_0", "(555) 123", "true",
    "2020-01-02", "2020-01-02T10:00", "12 Mar 2020", "12Mar2020", "Mar 3, 2020", "10:30", "a@b.org", "smoker\r5",
    "a\nb", "words " * 7,
]  # fmt: skip
NAMES = [
    "age",
    "x0",
    "1stFlrSF",
    "3SsnPorch",
    "sepal length (cm)",
    "Größe",
    "年齢",
    "march",
    "income 2020",
    "Unnamed: 0",
]


@pytest.mark.parametrize("value", VALUES)
def test_a_name_that_looks_like_a_value_hides_all_names(value):
    assert shown_names(["age", value]) == NO_HEADER


def test_names_are_shown():
    assert shown_names(NAMES) == f"it has {', '.join(NAMES)}"
    assert shown_names([0, 1]) == "it has 0, 1"  # positions of a pandas frame


def policy():
    return Policy.of("pm", 1, Domain.of({"age": (0, 100)}))


DOORS = {
    "a classifier's columns": lambda table, path: as_records(table, features=["age"]),
    "a sensitive column": lambda table, path: as_records(table).positions("sensitive", "age"),
    "a column that the model lacks": lambda table, path: type(as_records(table))(
        as_records(table, features=table.columns[1:]).frame, tuple(table.columns)
    ).positions("sensitive", 0),
    "--sensitive": lambda table, path: column_named("age", table.columns),
    "--sensitive by number": lambda table, path: column_named("0", table.columns),
    "privatize --target": lambda table, path: _pool(path, "age", None, None, ",", None, None),
    "privatize a text": lambda table, path: _pool(path, None, None, None, ",", None, None),
    "a policy": lambda table, path: Perturbation(policy()).check_names(table.columns),
    "exposure": lambda table, path: encode(table, "age"),
    "learner": lambda table, path: column(table, "age"),
    "learner's features": lambda table, path: LatticeConfig(
        box=(0, 1), names=["age"], m=4, mechanism="krr", epsilon=0.1
    ).points(table),
    "pac": lambda table, path: checked_columns(table.to_pandas()),
    "pac's gaps": lambda table, path: check_finite(np.array([[np.nan, 0, 0]]), table.columns),
}


@pytest.mark.parametrize("door", DOORS)
def test_refusals_show_no_value_of_a_table_without_header(door, tmp_path):
    path = tmp_path / "records.csv"
    path.write_text(f"{','.join(RECORD)}\n41.5,male,31.25\n")
    with pytest.raises(ValueError, match=r"does not look like a header|perhaps its first line is no header") as caught:
        DOORS[door](read_table(path), path)
    assert not any(value in str(caught.value) for value in RECORD)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("63.7,male,63.7\n1,female,2\n", "its first line does not look like a header"),
        ("age,bmi,1\r63.7,5,1\r63.7,5,1\r63.7,5\n", "a carriage return stands alone"),
    ],
)
def test_a_value_that_stands_twice_in_the_first_line_is_not_shown(text, told, tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match=told) as caught:
        read_table(path)
    assert "63.7" not in str(caught.value)


def test_columns_that_stand_twice_in_a_header_are_named(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("age,bmi,age\n1,2,3\n")
    with pytest.raises(ValueError, match="names the column 'age' twice; rename one"):
        read_table(path)


def test_a_pandas_table_without_header_shows_no_value():
    table = pd.DataFrame([[1.0, 2.0]], columns=["63.75", "27.15"])
    with pytest.raises(ValueError, match=NO_HEADER):
        as_records(table, features=["age"])
    assert isinstance(as_records(pl.from_pandas(table), features=["27.15"]).names, tuple)  # a name it is, if asked for
