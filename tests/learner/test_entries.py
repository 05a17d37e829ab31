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
from scipy.sparse import csr_matrix

from epsworth.learner import (
    Aggregator,
    Category,
    Classifier,
    Client,
    LatticeConfig,
    LDPClassifier,
    Number,
    ScoreAudit,
    TableConfig,
    expected_accuracy,
    report_file,
    simulate,
)
from epsworth.learner.encoding import Values, number_of
from epsworth.learner.report_files import draw
from epsworth.mechanisms.words import ReplayableWords

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

    def noting(config, users, path, words, **options):
        drawn[path.name] = users
        draw(config, users, path, words, **options)

    monkeypatch.setattr("epsworth.learner.report_files.draw", noting)
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


ASKED = {
    outside: LatticeConfig(box=(0, 3), d=2, m=3, classes=(1, 2, 3), epsilon=1, outside=outside)
    for outside in ("clip", "zero", "refuse")
}  # fmt: skip
SPELT = ["3_0", "３０", "30\xa0", "1,5", "2.0", " 2 ", "1e400", "inf", np.True_, False, b"2", 2**70, "2", "02", np.inf]


@given(st.lists(st.tuples(*[st.sampled_from([*ODD, *SPELT, 1, 2, 0])] * 3), min_size=1, max_size=4))
def test_what_a_client_counts_is_what_an_experiment_takes(rows):
    """Every row that a client encodes as outside is named, and no other, by whatever looks at it."""
    X, y = [list(row[:2]) for row in rows], [row[2] for row in rows]
    for one in ("clip", "zero"):
        asked, found = ASKED[one], ASKED[one].admitted(X, y)
        unusable = LatticeConfig.admitted(ASKED["clip"], X, y).outside
        if unusable.any():
            with pytest.raises(ValueError, match=r"row \d[:,]") as refused:
                asked.users(X, y)
            assert str(refused.value)[4] in [str(row) for row in np.flatnonzero(unusable)]
        else:
            assert all((a == b).all() for a, b in zip(asked.users(X, y), found, strict=True))
    outside = ASKED["zero"].admitted(X, y).outside
    for ask in (ASKED["refuse"].users, ASKED["refuse"].admitted, Client(ASKED["refuse"]).reports):
        if outside.any():
            with pytest.raises(ValueError, match=r"row \d"):
                ask(X, y)
        else:
            ask(X, y)


NO_NUMBERS = ["9_9", "９９", "9\u2007", "9\xa0", True, np.False_, None, pd.NA, "", "nine", [9], 9j, Decimal("nan")]


@pytest.mark.parametrize("odd", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
def test_what_is_no_number_is_named_at_every_door(odd, tmp_path):
    x = np.random.default_rng(0).random((200, 2)) * 100
    asked = LatticeConfig(box=(0, 100), d=2, m=3, epsilon=9, names=["age", "bmi"])
    model = Classifier.from_aggregate(simulate(asked, x, x[:, 0] > 50, 0))
    fitted = LDPClassifier(9, bounds=(0, 100)).fit(x, x[:, 0] > 50)
    objects = np.array([[9, 50], [9, 50]], dtype=object)
    objects[1, 0] = odd
    frame = pd.DataFrame({"age": pd.Series([9, odd], dtype=object), "bmi": [50, 50]})
    for table in ([[9, 50], [odd, 50]], objects, frame):
        for ask in (
            model.predict, model.decision_function, lambda t: model.certificate(t, fakes=0),
            lambda t: asked.users(t, [0, 1]),
            lambda t: simulate(asked, t, [0, 1], 0),
            lambda t: expected_accuracy(asked, t, [0, 1], users=9, rng=0, runs=1),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="row 1, age: the value is missing or no number"):
                ask(table)
        own = table.to_numpy() if isinstance(table, pd.DataFrame) else table
        for predict in (fitted.predict, lambda t: LDPClassifier(9, bounds=(0, 100)).fit(t, [0, 1])):
            with pytest.raises((ValueError, TypeError)):
                predict(own)
    truths = pl.DataFrame({"age": [True, False], "bmi": [1.0, 2.0]})
    for table in (truths, truths.to_pandas(), truths.to_arrow(), truths.to_numpy() > 0):
        with pytest.raises(ValueError, match="row 0, age"):
            model.predict(table)


def test_tables_of_every_library_are_read_alike():
    frame = pl.DataFrame({"age": [30, None, 250], "bmi": [20.5, 30, 40]})
    asked = LatticeConfig(box=(0, 100), d=2, m=3, epsilon=9, names=["age", "bmi"])
    text = frame.with_columns(pl.col("age").cast(pl.String))
    whole = [[0.3, 0.205], [1.0, 0.4]]
    forms = [frame, frame.to_pandas(), frame.to_arrow(), text, text.to_pandas(), text.to_arrow(), frame.rows(),
             frame.to_pandas().convert_dtypes(), frame.to_pandas(use_pyarrow_extension_array=True),
             frame.with_columns(pl.col("age").cast(pl.Decimal(10, 2))), frame.to_numpy()]  # fmt: skip
    for form in forms:
        for y in ([0, 1, 1], ["0", "1", "1"], pl.Series(["0", "1", "1"]).to_arrow(), pd.Series([0, 1, 1.0])):
            found = asked.admitted(form, y)
            assert found.unit[[0, 2]].tolist() == whole
            assert found.label[[0, 2]].tolist() == [0, 1]
            assert found.outside.tolist() == [False, True, False]
            with pytest.raises(ValueError, match="row 1, age: the value is missing"):
                asked.users(form, y)
    for form in (frame.to_arrow().rename_columns(["age", "sex"]), frame.to_arrow().select(["bmi", "age"])):
        with pytest.raises(ValueError, match=r"X has the columns .* but the configuration's features are age, bmi"):
            asked.admitted(form, [0, 1, 1])
    for y in (frame, frame.to_pandas()[["age"]], frame.to_arrow(), np.zeros((3, 1))):
        with pytest.raises(ValueError, match="y must be one label per row"):
            asked.admitted(frame, y)
    for form in (frame.lazy(), csr_matrix(np.eye(3))):
        with pytest.raises(ValueError, match=r"call \.(collect|toarray)\(\)"):
            asked.admitted(form, [0, 1, 1])


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("classes", [(0, 1), ("0", "1"), (False, True), (0.0, 1.0)])
@pytest.mark.cases(1)
def test_where_records_are_refused_files_are_read_as_elsewhere(tmp_path, classes, ending):
    """A whole-number class is counted, and what spells no number is named, by the same reader."""
    asked = LatticeConfig(box=(0, 100), d=2, m=3, classes=classes, epsilon=1, outside="refuse", names=["age", "bmi"])
    path, out = tmp_path / f"t.{ending}", tmp_path / "r.ldp"

    def written(cells):
        if ending == "csv":
            path.write_text("age,bmi,y\n" + "".join(f"{cell},20,{n}\n" for n, cell in enumerate(cells)))
        else:
            told = [json.dumps(cell) if isinstance(cell, str) else str(cell) for cell in cells]
            path.write_text("".join(f'{{"age": {cell}, "bmi": 20, "y": {n}}}\n' for n, cell in enumerate(told)))
        return path

    assert report_file(asked, written([30, "4e1"]), out, "y") == 2
    for odd in ("3_0", "３０", "30\u00a0", "true", "x", ""):
        with pytest.raises(ValueError, match="row 1, age: the value is missing or no number"):
            report_file(asked, written([30, odd]), tmp_path / "s.ldp", "y", again=True)
    with pytest.raises(ValueError, match="row 2: its label is not one of the declared classes"):
        report_file(asked, written([30, 31, 32]), tmp_path / "s.ldp", "y", again=True)


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
