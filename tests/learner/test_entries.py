"""What one record says depends on no other: neither on what a file or a frame makes of a column, nor on neighbours."""

from __future__ import annotations

import datetime
import json
import math
import threading
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsworth.exact.testing import ReplayableWords
from epsworth.learner import Aggregator, Category, Client, LatticeConfig, Number, ScoreAudit, TableConfig, report_file
from epsworth.learner.entries import Values, number_of
from epsworth.learner.report_files import draw

ODD = [
    None, math.nan, "", "?", "maybe", 10**30, 10**400, -(2**70), 1j, [1], {}, b"1", object(), math.inf, True, "true",
    "2.0", " 2 ", np.float32(2), np.int8(2), np.array(2.0), np.ones(1), Decimal(2), Fraction(5, 2), pd.NA, pd.NaT,
    np.datetime64("2020"), datetime.date(2020, 1, 1), np.ma.masked, "9" * 5000, 2.5,
]  # fmt: skip
TABLE = TableConfig(
    [Number("a", 0, 3), Category("floor", ("1", "2", "3", "basement")), Category("sex", (0, 1))], ("1", "2", "unknown"),
    1, 3000,
)  # fmt: skip
HIDDEN = ["111", "011"]
HUGE, DAY = {"a": pl.Int128}, datetime.date(2020, 1, 1)
CELLS = LatticeConfig(box=(0, 3), d=2, m=3, classes=(1, 2, 3), epsilon=1)


@given(st.lists(st.tuples(*[st.sampled_from([*ODD, 1, 2, 0])] * 4), min_size=1, max_size=6))
def test_a_row_is_coded_alone(rows):
    """In lists, arrays of objects, and columns of a frame: as it is coded by itself."""
    asked = TABLE_ROUND
    X, y = [list(row[:3]) for row in rows], [row[3] for row in rows]
    table, labels = np.empty((len(X), 3), dtype=object), np.empty(len(y), dtype=object)
    for i, row in enumerate(X):
        labels[i] = y[i]
        for j, entry in enumerate(row):
            table[i, j] = entry
    alone = [asked.admitted([row], [label]) for row, label in zip(X, y, strict=True)]
    for together in (asked.admitted(X, y), asked.admitted(table, labels)):
        for i, one in enumerate(alone):
            assert all((part[i] == own[0]).all() for part, own in zip(together, one, strict=True))
    cells = CELLS.admitted([row[:2] for row in X], y)
    for i, row in enumerate(X):
        one = CELLS.admitted([row[:2]], [y[i]])
        assert all((part[i] == own[0]).all() for part, own in zip(cells, one, strict=True))


def _round():
    from epsworth.learner import TableLearner

    return TableLearner(TABLE).open()


TABLE_ROUND = _round()


@pytest.mark.parametrize("odd", ["", "basement", "?", "99999999999999999999999999", "true", "1.0", " 2"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.cases(1)
def test_no_row_of_a_file_decides_how_another_is_read(tmp_path, odd, ending, monkeypatch):
    """The reports of all other rows, given the same randomness, are to the bit those without the odd one."""
    drawn = {}

    def noting(config, users, path, words, *, as_lines):
        drawn[path.name] = users
        draw(config, users, path, words, as_lines=as_lines)

    monkeypatch.setattr("epsworth.learner.reported_table.draw", noting)
    found = []
    for number, cell in enumerate(("1", odd)):
        rows = [{"a": "1", "floor": cell, "sex": "0", "y": cell}, *[{"a": "2", "floor": "2", "sex": "1", "y": "1"}] * 3]
        path = tmp_path / f"{number}.{ending}"
        if ending == "csv":
            path.write_text("a,floor,sex,y\n" + "".join(",".join(row.values()) + "\n" for row in rows))
        else:
            plain = [
                {name: json.loads(value) if value.isdigit() else value for name, value in row.items()} for row in rows
            ]
            path.write_text("".join(json.dumps(row) + "\n" for row in plain))
        assert report_file(TABLE_ROUND, path, tmp_path / f"{number}.ldp", "y") == 4
        (users,) = drawn.values()
        drawn.clear()
        found.append(users)
    assert all((a[1:] == b[1:]).all() for a, b in zip(*found, strict=True))
    assert found[1].known[1:].all()
    assert (found[1].label[1:] == 0).all()


def test_a_json_line_with_a_list_is_reported(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"a": [1], "floor": {"x": 1}, "sex": 0, "y": 1}\n{"a": 1, "y": NaN}\n{"a": ' + "1" * 400 + ', "y": 2}\n'
    )
    assert report_file(TABLE_ROUND, path, tmp_path / "r.ldp", "y") == 3


@pytest.mark.parametrize(
    ("frame", "known"),
    [
        (pl.DataFrame({"a": [2, None], "floor": [2.0, 1.0], "sex": [True, False]}), ["111", "011"]),
        (pl.DataFrame({"a": [10**30, 1], "floor": ["2", "1"], "sex": [1, 0]}, schema_overrides=HUGE), ["111", "111"]),
        (pl.DataFrame({"a": [DAY, None], "floor": [1, 2], "sex": ["1", "0"]}), ["011", "011"]),
        (pl.DataFrame({"a": [1.0, 2], "floor": [[1], [2]], "sex": [0, 1]}), ["101", "101"]),
        (pd.DataFrame({"a": [1, None], "floor": ["1", None], "sex": [0, 1]}), ["111", "001"]),
        (pd.DataFrame({"a": pd.array([1, pd.NA], "Int64"), "floor": pd.Categorical([1, 2]), "sex": 0}), HIDDEN),
        (np.ma.array([[1.0, 1, 0], [2, 2, 1]], mask=[[1, 0, 0], [0, 0, 0]]), ["011", "111"]),
        ([np.ma.array([1.0, 1, 0], mask=[1, 0, 0]), [2, 2, 1]], ["011", "111"]),
    ],
)  # fmt: skip
def test_frames_of_all_kinds_are_reported(frame, known):
    found = TABLE_ROUND.admitted(frame, ["1", "2"])
    assert ["".join(str(int(one)) for one in row) for row in found.known] == known
    assert Aggregator(TABLE_ROUND).add(Client(TABLE_ROUND).reports(frame, ["1", None])) == 2


@pytest.mark.skipif(not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 brings it")
def test_strings_with_nulls_are_reported():
    kind = np.dtypes.StringDType(na_object=None)
    labels = np.array(["1", None, "2"], dtype=kind)
    assert TABLE_ROUND.admitted([[1, "1", 0]] * 3, labels).label.tolist() == [0, -1, 1]


def test_texts_that_write_one_number_are_it_unless_two_do():
    assert [Values(("01", "1", "2")).position(entry) for entry in ("01", "1", 1, 2.0, "2")] == [0, 1, -1, 2, 2]
    ones = Values(("0", "1"))  # as declared: two texts are two labels
    assert [ones.position(entry) for entry in ("true", "01", "1.0", " 1", "1", 1)] == [-1, -1, -1, -1, 1, 1]
    assert [Values((1, 2.5)).position(entry) for entry in ("1.0", 2.5, True, "true", None)] == [0, 1, 0, 0, -1]
    assert Values((2**53, 2**53 + 1)).position(str(2**53 + 1)) == 1
    assert np.isnan([number_of(entry) for entry in ("1_0", "1\u00a0", "１", "inf", True, "true")]).all()


@pytest.mark.parametrize("row", ["abc", b"abc", {1, 2, 3}, {0: 1, 1: 2, 2: 3}, {"a": 1, "floor": 2, "sex": 0}])
def test_what_is_no_row_is_refused(row):
    with pytest.raises(ValueError, match="X must have 3 values in every row"):
        Client(TABLE_ROUND).report(row, "1")


def test_threads_lose_no_report_and_no_filter_of_warnings():
    before = list(warnings.filters)
    sums, client = Aggregator(CELLS), Client(CELLS)

    def adding():
        for _ in range(50):
            sums.add(client.reports([[np.array(1.0), 2], [None, object()]], [1, b"2"]))

    threads = [threading.Thread(target=adding) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sums.users == 400
    assert warnings.filters == before


def test_an_audit_codes_rows_alone_too():
    from table_worlds import config, rows

    from epsworth.learner import learn_table

    X, y = rows(2000)
    audit = ScoreAudit.of(learn_table(config(10_000, epsilon=4), X, y, 0))
    whole = audit.admitted([*X[:3].tolist(), [None, "?", 10**30, 5, "x"]], ["yes", "no", None, 3])
    for i in range(3):
        one = audit.admitted([X[i].tolist()], [["yes", "no", None][i]])
        assert all((part[i] == own[0]).all() for part, own in zip(whole, one, strict=True))
    words = ReplayableWords(1)
    assert len(audit.kernel.draw(whole, words)) == 4
