"""Columns of models that take numbers alone hold numbers, whatever holds them; what is none is refused by its row."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, StackingClassifier
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.classifiers import as_classifier
from epsworth.classifiers.classifier import declared_inputs, table_of
from epsworth.inputs import read_records

RNG = np.random.default_rng(0)
AGE, KIND = RNG.uniform(0, 100, 40), RNG.integers(0, 3, 40)
TABLE = pd.DataFrame({"age": AGE, "kind": KIND})
TRUTH = (AGE / 100 + KIND * 0.3 > 0.8).astype(int)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
WORDS = [["a", "b", "c"][k] for k in KIND]
NUMBERS, COMPUTED = KIND.tolist(), "number or truth"
MODELS = {
    "tree": TREE, "linear": LogisticRegression(max_iter=1000), "scaled": make_pipeline(StandardScaler(), SVC()),
    "histograms": HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2), "bag": BaggingClassifier(TREE, 3),
    "stack": StackingClassifier([("t", TREE)], passthrough=True), "calibrated": CalibratedClassifierCV(TREE),
    "pairs": OneVsOneClassifier(SVC()), "selection": RFE(TREE, n_features_to_select=2),
    "columns": make_pipeline(make_column_transformer((StandardScaler(), ["age"]), remainder="passthrough"), TREE),
}  # fmt: skip


def arrow(column):
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


HOLD_NUMBERS = {
    "objects": lambda: TABLE.astype(object), "texts": lambda: TABLE.assign(kind=[f" {k}.0\t" for k in NUMBERS]),
    "category": lambda: TABLE.assign(kind=pd.Categorical(KIND)),
    "decimals": lambda: TABLE.assign(kind=[decimal.Decimal(k) for k in NUMBERS]),
    "pandas dictionary": lambda: TABLE.assign(kind=arrow(pa.array(NUMBERS).dictionary_encode())),
    "polars Int128": lambda: pl.DataFrame({"age": AGE, "kind": pl.Series(NUMBERS, dtype=pl.Int128)}),
    "polars texts": lambda: pl.DataFrame({"age": AGE, "kind": list(map(str, NUMBERS))}),
    "dictionary": lambda: pa.table({"age": AGE, "kind": pa.array(NUMBERS).dictionary_encode()}),
    "floats": lambda: pa.table({"age": AGE, "kind": pa.array(list(map(float, NUMBERS))).dictionary_encode()}),
    "arrow decimals": lambda: pa.table({"age": AGE, "kind": pa.array([decimal.Decimal(k) for k in NUMBERS])}),
    "view": lambda: pa.table({"age": AGE, "kind": pa.array(list(map(str, NUMBERS))).cast(pa.string_view())}),
}  # fmt: skip


def mean(model, table, sensitive, **domain):
    found = ew.stability(
        model, table, sensitive=sensitive, mechanisms=["pm"], epsilons=[1.0], domain=domain, rng=0
    ).stability
    return np.array([np.mean(found.lower), np.mean(found.upper)])


@pytest.mark.parametrize("kind", HOLD_NUMBERS)
@pytest.mark.parametrize("name", ["tree", "linear"])
@pytest.mark.cases(1)
def test_numbers_are_numbers_whatever_holds_them(name, kind):
    model = MODELS[name].fit(TABLE, TRUTH)
    for sensitive, domain in (("age", {"age": (0, 100)}), ("kind", {"kind": [0, 1, 2]})):
        np.testing.assert_allclose(
            mean(model, HOLD_NUMBERS[kind](), sensitive, **domain), mean(model, TABLE, sensitive, **domain), rtol=1e-12
        )


@pytest.mark.parametrize("kind", ["category", "objects", "dictionary", "pandas dictionary"])
@pytest.mark.cases(1)
def test_truths_are_truths_whatever_holds_them(kind):
    truths = (KIND > 0).tolist()
    plain = TABLE.assign(kind=truths)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(plain, TRUTH)
    own = {
        "category": lambda: plain.assign(kind=pd.Categorical(truths)), "objects": lambda: plain.astype(object),
        "dictionary": lambda: pa.table({"age": AGE, "kind": pa.array(truths).dictionary_encode()}),
        "pandas dictionary": lambda: plain.assign(kind=arrow(pa.array(truths).dictionary_encode())),
    }  # fmt: skip
    for sensitive, domain in (("age", {"age": (0, 100)}), ("kind", {"kind": [False, True]})):
        np.testing.assert_array_equal(
            mean(model, own[kind](), sensitive, **domain), mean(model, plain, sensitive, **domain)
        )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", ["3_0", "30\u00a0", "３０", "true"])
def test_texts_that_only_python_reads_are_refused_by_row(tmp_path, name, text):
    model = MODELS[name].fit(TABLE, TRUTH)
    assert declared_inputs(as_classifier(model), ["age", "kind"]) == {"age": COMPUTED, "kind": COMPUTED}
    odd = TABLE.assign(kind=["0"] * 39 + [text])
    tables = [odd, odd.assign(kind=pd.Categorical(odd.kind)), pl.from_pandas(odd), pa.Table.from_pandas(odd)]
    tables += [] if name == "columns" else [odd.to_numpy()]  # which has no names
    for table in tables:
        with pytest.raises(ValueError, match="row 39, kind: the value is not a number") as told:
            ew.stability(model, table, sensitive="age", mechanisms=["pm"], epsilons=[1.0], domain={"age": (0, 100)})
        assert text not in str(told.value)
    (tmp_path / "t.csv").write_text(odd.to_csv(index=False), encoding="utf-8")
    with pytest.raises(ValueError, match=r"row 39.*, kind: the value is not a number"):
        read_records(tmp_path / "t.csv", as_classifier(model), None, None)


def test_radius_and_tailor_refuse_them_too():
    model = TREE.fit(TABLE, TRUTH)
    with pytest.raises(ValueError, match="row 1, kind: the value is not a number"):
        ew.radii(model, pd.DataFrame({"age": [1.0, 2.0], "kind": ["1", "3_0"]}))
    with pytest.raises(ValueError, match="row 0, kind: the value is not a number"):
        ew.radius(model, {"age": 1.0, "kind": "3_0"})
    with pytest.raises(ValueError, match="row 39, kind: the value is not a number"):
        ew.tailor(
            model, TABLE.assign(kind=["0"] * 39 + ["3_0"]), sensitive="age", epsilon=1, domain={"age": (0, 100)},
            public=True,
        )  # fmt: skip


def test_truths_and_declared_texts_stay(tmp_path):
    model = TREE.fit(TABLE.assign(kind=KIND > 0), TRUTH)
    (tmp_path / "t.csv").write_text("age,kind\n20,true\n30,false\n")
    assert read_records(tmp_path / "t.csv", as_classifier(model), None, None)[0]["kind"].to_list() == [True, False]
    (tmp_path / "t.jsonl").write_text('{"age": 20, "kind": true}\n{"age": 20, "kind": 1}\n')
    with pytest.raises(ValueError, match=r"row 0.*, kind: the value is not a number"):
        read_records(tmp_path / "t.jsonl", as_classifier(model), None, None)
    texts = TABLE.assign(kind=list(map(str, NUMBERS)))
    domain = ew.Domain.of({"kind": ["0", "1", "2"]})
    kept = table_of(as_classifier(model), texts, domain.features)
    assert kept.column(1).tolist() == texts.kind.tolist()
    assert mean(TREE.fit(TABLE, TRUTH), texts, "kind", kind=["0", "1", "2"])[0] > 0


def test_what_a_function_makes_of_texts_is_its_own():
    model = make_pipeline(FunctionTransformer(lambda table: table.assign(kind=table.kind.str.len())), TREE)
    model.fit(TABLE.assign(kind=WORDS), TRUTH)
    assert declared_inputs(as_classifier(model), ["age", "kind"]) == {}


@pytest.mark.parametrize("kind", ["string", "view", "dictionary", "large"])
def test_arrow_tables_reach_encoders(kind):
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    table = TABLE.assign(kind=WORDS)
    asked = as_classifier(make_pipeline(encoder, TREE).fit(table, TRUTH))
    words = pa.array(WORDS)
    held = {"string": words, "view": words.cast(pa.string_view()), "dictionary": words.dictionary_encode()}
    given = pa.table({"age": AGE, "kind": (held | {"large": words.cast(pa.large_string())})[kind]})
    records, rows = table_of(asked, given), np.arange(40)
    np.testing.assert_array_equal(asked.labels(records.take(rows)), asked.model.predict(table))
    new = np.array(WORDS[::-1], dtype=object)
    np.testing.assert_array_equal(
        asked.labels(records.take(rows, {1: new})), asked.model.predict(table.assign(kind=new))
    )
