"""The one reader: a column is what it is declared as, every door sees the same rows, and no number is invented."""

from __future__ import annotations

import csv
import decimal
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.classifiers import as_classifier
from epsworth.exposure import ExposureError, encode
from epsworth.inputs import read_records
from epsworth.learner import LatticeConfig, report_file
from epsworth.policy import Policy, perturb_file
from epsworth.tables import inferred, read_table

AGE = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["job", "bmi", "sick"])
ODD = ["NA", "N/A", "NaN", "nan", "null", "", "01001", "1", "true", "1e5", " x ", "a,b", 'say "a"']


def written(tmp_path, text: str | bytes, name: str = "t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_a_declared_category_is_one_however_it_is_spelt(tmp_path, name):
    frame, path = pl.DataFrame({"c": ODD, "n": list(range(len(ODD)))}), tmp_path / name
    if name == "t.csv":
        frame.write_csv(path, quote_style="necessary")
    else:
        getattr(frame, {"t.jsonl": "write_ndjson", "t.parquet": "write_parquet"}[name])(path)
    read = read_table(path, {"c": tuple(ODD)})
    assert read["c"].to_list() == ODD
    assert read["n"].to_list() == frame["n"].to_list()


@pytest.mark.parametrize(
    ("categories", "texts", "values"),
    [
        ((1, 2, 3), ["1", "2.0", "NA", "7", "x"], [1, 2, None, 7.0, "x"]),
        ((False, True), ["true", "False", "", "true"], [True, False, None, True]),
        (("NA", "US"), ["NA", "US", "null", "DE"], ["NA", "US", None, "DE"]),
    ],
)
def test_texts_are_read_as_the_categories_are_typed(tmp_path, categories, texts, values):
    path = written(tmp_path, "c,k\n" + "".join(f"{text},0\n" for text in texts))
    read = read_table(path, {"c": categories})["c"].to_list()
    assert [(type(v) is bool, v) for v in read] == [(type(v) is bool, v) for v in values]


@pytest.mark.parametrize("text", ["3_0", "30\u00a0", "３０", "1,5", "inf", "x", "true", "0x1e", "1e", "--3"])
def test_what_is_no_number_is_none_at_any_door(tmp_path, text):
    path = written(tmp_path, f'age,job\n20,clerk\n"{text}",nurse\n')
    with pytest.raises(ValueError, match=r"row 1.*, age: the value is not a number") as refused:
        read_table(path, {"age": "number"})
    assert text not in str(refused.value).partition(":")[2]
    assert read_table(path, {"age": "entry"})["age"].to_list() == [20, None]
    assert inferred(read_table(path))["age"] == ("number" if text == "inf" else "text")
    with pytest.raises(ValueError, match=r"row 1.*, age: the value is missing, or not a number"):
        perturb_file(AGE, path, tmp_path / "o.csv", again=True)
    for frame in (pl.DataFrame({"age": ["20", text]}), pd.DataFrame({"age": pd.Series([20, text], dtype=object)})):
        with pytest.raises(ValueError, match="row 1, age: the value is missing, or not a number"):
            ew.perturb(AGE, frame)
        with pytest.raises(ValueError, match="row 1, age: the value is not a number"):
            ew.Domain.of({"age": (0, 100)})["age"].to_unit(frame["age"].to_numpy())


def test_a_truth_is_no_number(tmp_path):
    for frame in (
        pl.DataFrame({"age": [True]}),
        pd.DataFrame({"age": [True]}),
        pd.DataFrame({"age": pd.array([True])}),
    ):
        with pytest.raises(ValueError, match="row 0, age: the value is missing, or not a number"):
            ew.perturb(AGE, frame)
    path = written(tmp_path, '{"age": true}\n', "t.jsonl")
    with pytest.raises(ValueError, match=r"row 0.*, age: the value is not a number"):
        read_table(path, {"age": "number"})


BAD = {
    "a blank line": ("age,bmi,sick\n30,20,yes\n\n", "row 1.* is blank"),
    "blank lines between": ("age,bmi,sick\r\n\r\n30,20,yes\r\n\r\n40,30,no\r\n", "row 0.* is blank"),
    "Ctrl-Z": ("age,bmi,sick\n30,20,yes\n\x1a", "row 1.* has 1 field,"),
    "a short row": ("age,bmi,sick\n30,20,yes\n40,30\n", "row 1.* has 2 fields"),
    "a long row": ("age,bmi,sick\n30,20,yes,1\n", "row 0.* has 4 fields"),
    "carriage returns alone": ("age,bmi,sick\r30,20,yes\r", "a carriage return stands alone"),
    "mixed ends": ("age,bmi,sick\n30,20,yes\r\n", "row 0.* ends otherwise than the header"),
    "semicolons": ("age;bmi;sick\n30;20;yes\n", "separated by semicolons; say so: sep=';'"),
    "tabs": ("age\tbmi\tsick\n30\t20\tyes\n", "separated by tabs; say so: sep="),
    "a name twice": ("age,bmi,age\n30,20,yes\n", "names the column 'age' twice"),
    "no name": (",age,bmi,sick\n0,30,20,yes\n", "does not name column 1"),
    "a stray quote": ('age,bmi,sick\n30,2"0,yes\n', "row 0.*: a quote stands inside a field"),
}


@pytest.mark.parametrize("kind", BAD)
def test_every_door_refuses_the_same_files(tmp_path, kind, cli, monkeypatch):
    text, words = BAD[kind]
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=words):
        read_table(path)
    with pytest.raises(ValueError, match=words):
        perturb_file(AGE, path, tmp_path / "o.csv", again=True)
    config = LatticeConfig(box=[(0, 100), (0, 60)], m=6, classes=("no", "yes"), epsilon=2, names=("age", "bmi"))
    with pytest.raises(ValueError, match=words):
        report_file(config, path, tmp_path / "o.ldp", "sick", again=True)
    assert not (tmp_path / "o.csv").exists()
    assert not (tmp_path / "o.ldp").exists()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.cases(1)
def test_marks_and_ends_of_lines_do_not_count(tmp_path, mark, end):
    path = written(tmp_path, mark + end.join(["age,job", "30,a", "40,b"]))
    assert read_table(path).rows() == [(30, "a"), (40, "b")]
    lines = written(tmp_path, mark + '{"age": 30, "job": "a"}' + end + end + '{"job": "b"}' + end, "t.jsonl")
    assert read_table(lines).rows() == [(30, "a"), (None, "b")]
    full = written(tmp_path, mark + '{"age": 30, "job": "a"}' + end, "u.jsonl")
    perturb_file(AGE, full, tmp_path / "o.jsonl", again=True)
    assert json.loads((tmp_path / "o.jsonl").read_text())["job"] == "a"


def test_in_one_column_every_line_is_a_row(tmp_path):
    path = written(tmp_path, "age\n30\n\n40\n")
    assert read_table(path)["age"].to_list() == [30, None, 40]
    policy = replace(AGE, rules=(replace(AGE.rules[0], feature=replace(AGE.rules[0].feature, missing=0)),))
    assert perturb_file(policy, path, tmp_path / "o.csv", again=True).rows == 3
    with pytest.raises(ValueError, match=r"row 1.*, age: the value is not a number"):
        read_table(written(tmp_path, "age\n30\n\x1a", "z.csv"), {"age": "number"})


def test_a_form_feed_is_no_blank_line(tmp_path):
    path = written(tmp_path, '{"age": 30}\n\f\n{"age": 40}\n', "t.jsonl")
    with pytest.raises(ValueError, match="line 2: it is not a JSON object"):
        read_table(path)
    with pytest.raises(ValueError, match=r"row 1.*: the line is not one JSON object"):
        perturb_file(AGE, path, tmp_path / "o.jsonl", again=True)


def test_a_header_alone_is_perturbed_to_a_header(tmp_path):
    assert perturb_file(AGE, written(tmp_path, "age,job\n"), tmp_path / "o.csv", again=True).rows == 0
    assert (tmp_path / "o.csv").read_text() == "age,job\n"


def test_lone_surrogates_and_headers_alone_are_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="line 2: a text holds half of a surrogate pair"):
        read_table(written(tmp_path, '{"a": "x"}\n{"a": "\\ud800"}\n', "t.jsonl"))
    for name, text in (("t.csv", "age,job\n"), ("u.csv", "age,job"), ("v.csv", "age\r\n")):
        with pytest.raises(ValueError, match="has no rows; give a header and at least one row"):
            read_table(written(tmp_path, text, name))


BIG = [12345678901234567890, -(2**90), 3]


def test_whole_numbers_beyond_64_bits_are_doubles(tmp_path):
    frame = pl.DataFrame({"n": pl.Series(BIG, dtype=pl.Int128), "k": [1, 2, 3]})
    frame.write_parquet(tmp_path / "t.parquet")
    lines = "".join(json.dumps({"n": n, "k": 1}) + "\n" for n in BIG)
    for path in (
        tmp_path / "t.parquet",
        written(tmp_path, lines, "t.jsonl"),
        written(tmp_path, "n,k\n" + "".join(f"{n},1\n" for n in BIG)),
    ):
        assert read_table(path)["n"].to_list() == list(map(float, BIG))
        assert read_table(path, {"n": "number"})["n"].to_list() == list(map(float, BIG))
    records = ew.stability(
        lambda table: np.asarray(table["k"]) > 1, frame, sensitive=["n"], domain={"n": (-1e30, 1e30)},
        mechanisms=["pm"], epsilons=[1], rng=0,
    )  # fmt: skip
    assert (records.lower > 0.9).all()
    assert encode(frame.with_columns(t=pl.Series([0, 1, 1])), "t").names == ("n", "k", "(constant)")


TARGETS = {
    "truths": [True, False, True, False],
    "objects": pd.Series([True, False, True, False], dtype=object),
    "whole": pd.Series([1, 0, 1, 0], dtype=object),
    "floats": pd.Series([1.5, 0.5, 1.5, 0.5], dtype=object),
    "decimals": [decimal.Decimal(v) for v in (1, 0, 1, 0)],
    "texts": ["yes", "no", "yes", "no"],
    "category": pd.Categorical(["yes", "no", "yes", "no"]),
    "nullable": pd.array([1, 0, 1, 0], dtype="Int64"),
    "strings": pd.array(["b", "a", "b", "a"], dtype="string"),
    "two kinds": pd.Series(["1", 1, "1", 1], dtype=object),
    "beyond doubles": pd.Series([2**53 + 1, 2**53] * 2, dtype=object),
    "decimals beyond doubles": [decimal.Decimal(2**53 + 1), decimal.Decimal(2**53)] * 2,
    "beyond 64 bits": pd.Series([2**70 + 1, 2**70] * 2, dtype=object),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_two_labels_are_two_labels(kind):
    found = encode(pd.DataFrame({"a": [1.0, 2.0, 4.0, 8.0], "t": TARGETS[kind]}), "t")
    assert found.y.tolist() == [1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float64", "bool[pyarrow]", "int64[pyarrow]"])
def test_a_gap_is_missing_whatever_holds_it(kind):
    frame = pd.DataFrame({"k": pd.array([1, None, 1, 0], dtype=kind), "t": [0, 1, 0, 1]})
    with pytest.raises(ExposureError, match="column 'k', row 1 is missing"):
        encode(frame, "t")


@pytest.mark.parametrize("kind", ["object", "Int64", "float", "decimal"])
def test_numbers_are_numbers_whatever_holds_them(kind):
    values = {"object": pd.Series([1, 2.5, 7, 1], dtype=object), "Int64": pd.array([1, 2, 7, 1], dtype="Int64")}
    values |= {"float": [1.0, 2.0, 7.0, 1.0], "decimal": [decimal.Decimal(v) for v in ("1", "2.5", "7", "1")]}
    found = encode(pd.DataFrame({"k": values[kind], "t": [0, 1, 0, 1]}), "t")
    assert found.names == ("k", "(constant)")


def test_undeclared_codes_are_texts(tmp_path):
    path = written(tmp_path, "zip,n,b,z\n01001,1,true,0\n94110,2.5,false,0.5\n")
    assert inferred(read_table(path)) == {"zip": "text", "n": "number", "b": "truth", "z": "number"}


CELLS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=5)


@pytest.mark.timeout(120)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, st.integers(-(2**70), 2**70)), min_size=1, max_size=6), sep=st.sampled_from(",;\t|")
)
def test_one_table_is_one_table_whoever_wrote_it(tmp_path, rows, sep):
    """By the csv module in every dialect, polars, pandas and pyarrow: the same rows."""
    words = tuple(dict.fromkeys(word for word, _ in rows))
    kinds = {"w": words, "n": "number"}
    wanted = [(word, float(n)) for word, n in rows]
    frame = pl.DataFrame({"w": [w for w, _ in rows], "n": pl.Series([n for _, n in rows], dtype=pl.Int128)})

    def same(path, **options):
        read = read_table(path, kinds, **options)
        assert [(word, float(n)) for word, n in read.rows()] == wanted

    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC):
        for end in ("\n", "\r\n"):
            out = io.StringIO(newline="")
            writer = csv.writer(out, delimiter=sep, quoting=quoting, lineterminator=end)
            writer.writerows([("w", "n"), *rows])
            same(written(tmp_path, out.getvalue()), sep=sep)
    frame.write_csv(tmp_path / "p.csv", separator=sep)
    same(tmp_path / "p.csv", sep=sep)
    pd.DataFrame({"w": [w for w, _ in rows], "n": [n for _, n in rows]}).to_csv(
        tmp_path / "q.csv", sep=sep, index=False
    )
    same(tmp_path / "q.csv", sep=sep)
    frame.write_parquet(tmp_path / "t.parquet")
    same(tmp_path / "t.parquet")
    lines = "".join(json.dumps({"w": w, "n": n}) + "\n" for w, n in rows)
    same(written(tmp_path, lines, "t.jsonl"))


@pytest.mark.parametrize(
    "line", ['30,"20";yes', '30;"20"x;yes', '30;2"0;yes', '30;"2;yes', "30;20", "30;20;yes;1", 'a,"";20,"a";yes']
)
def test_the_grammar_is_as_strict_with_another_separator(tmp_path, line):
    path = written(tmp_path, f"age;bmi;sick\n1;2;no\n{line}\n")
    with pytest.raises(ValueError, match="row 1"):
        read_table(path, sep=";")
    with pytest.raises(ValueError, match="row 1"):
        perturb_file(AGE, path, tmp_path / "o.csv", sep=";", again=True)


def encoder():
    return ColumnTransformer([("c", OneHotEncoder(handle_unknown="ignore"), ["c"])], remainder="passthrough")


CODES = {
    "frames": lambda frame, y: make_pipeline(encoder(), DecisionTreeClassifier()).fit(frame, y),
    "arrays": lambda frame, y: make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier()).fit(
        frame[["c"]].to_numpy(), y
    ),
    "search": lambda frame, y: GridSearchCV(make_pipeline(encoder(), DecisionTreeClassifier()), {}, cv=2).fit(frame, y),
    "votes": lambda frame, y: VotingClassifier([("m", CODES["frames"](frame, y))]).fit(frame, y),
    "stages": lambda frame, y: make_pipeline(
        ColumnTransformer([("n", StandardScaler(), ["n"])], remainder="passthrough"),
        ColumnTransformer([("c", OneHotEncoder(handle_unknown="ignore"), [1])], remainder="passthrough"),
        DecisionTreeClassifier(),
    ).fit(frame[["n", "c"]], y),
}


@pytest.mark.parametrize("shape", CODES)
@pytest.mark.parametrize(
    ("levels", "spelt"),
    [
        (["1", "2", "3"], ["1", "2", "3"]), (["NA", "x", "null"], ["NA", "x", "null"]), ([1, 2, 3], ["01", "02", "03"]),
        ([False, True], ["False", "true"]),
    ],
)  # fmt: skip
def test_a_column_is_what_the_model_was_fitted_on(tmp_path, shape, levels, spelt):
    frame = pd.DataFrame({"c": pd.Series(levels * 6), "n": np.arange(6.0 * len(levels))})
    model = CODES[shape](frame, [value == levels[1] for value in frame["c"]])
    alone = shape == "arrays"
    head, end = ("c\n", "\n") if alone else ("c,n\n", ",1\n")
    path = written(tmp_path, head + "".join(text + end for text in spelt))
    read, _ = read_records(path, as_classifier(model), None, None)
    found = as_classifier(model).labels(read.to_numpy() if alone else read)
    assert found.tolist() == [value == levels[1] for value in levels]


def test_names_that_read_like_patterns_are_names(tmp_path):
    model = DecisionTreeClassifier().fit(pd.DataFrame({"^a.*$": [10.0, 90.0]}), [0, 1])
    path = written(tmp_path, "^a.*$,ab,t\n10,90,0\n90,10,1\n")
    read, truth = read_records(path, as_classifier(model), None, "t")
    assert truth.tolist() == as_classifier(model).labels(read.select([read["^a.*$"]])).tolist() == [0, 1]
    asked = {"sensitive": ["^a.*$"], "domain": {"^a.*$": (0, 100)}, "mechanisms": ["pm"], "epsilons": [50]}
    assert (ew.stability(model, read, y=truth, **asked).lower > 0.9).all()
