"""Tables and classifiers of every supported kind, and what is refused."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans, MeanShift, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from skops import io

import epsworth as ew
from epsworth.classifiers import ClassifierError, as_classifier, load_model
from epsworth.records import as_records
from epsworth.space import Feature
from epsworth.tables import read_table

N = 120


def people():
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {"age": rng.integers(18, 90, N), "income": rng.uniform(0, 9e4, N), "job": rng.choice(["a", "b", "c"], N)}
    )
    y = np.where((table.age > 50) ^ (table.job == "b"), "yes", "no")
    return table, y


def fitted_pipeline():
    table, y = people()
    encode = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["job"]))
    return make_pipeline(encode, DecisionTreeClassifier(random_state=0)).fit(table, y), table, y


def ask(model, table, **more):
    settings = {
        "sensitive": ["age"],
        "domain": {"age": (0, 100)},
        "mechanisms": ["pm"],
        "epsilons": [2.0],
        "tolerance": 0.05,
        "rng": 0,
        "over": "records",
    }
    return ew.stability(model, table, **(settings | more))


def test_pipelines_take_pandas_and_polars_with_the_same_answer():
    model, table, y = fitted_pipeline()
    curves = [ask(model, kind, y=y[:5]) for kind in (table[:5], pl.from_pandas(table[:5]))]
    np.testing.assert_array_equal(curves[0].lower, curves[1].lower)
    assert curves[0].labels.tolist() == model.predict(table[:5]).tolist()
    assert curves[0].accuracy is not None


def test_frames_are_reduced_to_the_columns_of_the_model_in_its_order():
    model, table, _ = fitted_pipeline()
    shuffled = table[["job", "income", "age"]].assign(extra=1.0)
    np.testing.assert_array_equal(ask(model, table[:3]).lower, ask(model, shuffled[:3]).lower)


def test_a_categorical_feature_can_be_sensitive():
    model, table, _ = fitted_pipeline()
    curves = ask(model, table[:4], sensitive=["age", "job"], domain={"age": (0, 100), "job": ["a", "b", "c"]})
    assert curves.features == ("age", "job")
    assert str(curves.guarantees[0][0]) == "pure LDP, epsilon 2 per record"


def test_arrays_frames_and_functions_agree():
    X, y = load_iris(return_X_y=True)
    X = X / 8
    model = LogisticRegression().fit(X, y)
    names = ["a", "b", "c", "d"]
    as_frame = LogisticRegression().fit(pd.DataFrame(X, columns=names), y)
    at = [3, 77]
    drawn = {"domain": None, "method": "sampled"}  # a function shows no weights to a narrower engine
    by_index = ask(model, X[at], sensitive=[0, 2], **drawn)
    by_name = ask(as_frame, pd.DataFrame(X[at], columns=names), sensitive=["a", "c"], **drawn)
    unnamed = ask(as_frame, X[at], sensitive=["a", 2], **drawn)  # an array for a model fitted on names
    function = ask(lambda Z: model.predict(Z), X[at], sensitive=["x0", -2], **drawn)
    for other in (by_name, unnamed, function):
        np.testing.assert_array_equal(by_index.lower, other.lower)


def test_integer_positions_count_in_the_users_own_table():
    """The model's columns are a, b, c; the table holds id, a, b, c: column 1 is a."""
    table = pd.DataFrame({"id": [1.0, 2.0], "a": [0.2, 0.8], "b": [0.1, 0.9], "c": [0.5, 0.5]})
    model = LogisticRegression().fit(table[["a", "b", "c"]], [0, 1])
    assert ask(model, table, sensitive=1, domain=None).features == ("a",)
    with pytest.raises(ValueError, match="there is no feature 'id'; the features are a, b, c"):
        ask(model, table, sensitive=0, domain=None)


def test_frames_without_column_names_are_taken_as_arrays():
    def second(Z):
        return np.asarray(Z)[:, 1] <= 0.5

    values = [[0.1, 0.9], [0.3, 0.2]]
    expected = ask(second, np.array(values), sensitive=1, domain=None).lower
    for columns in ([1, 0], [0, 1], pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])):
        frame = pd.DataFrame(values, columns=columns)
        np.testing.assert_array_equal(ask(second, frame, sensitive=1, domain={1: (0, 1)}).lower, expected)
    odd_index = pd.DataFrame(values, columns=["p", "q"], index=["x", "x"])
    np.testing.assert_array_equal(ask(second, odd_index, sensitive="q", domain=None).lower, expected)


@pytest.mark.parametrize(("span", "points"), [((0, 100), 101), ((18, 90), 73), ((0, 10), 11), ((-5, 5), 101)])
def test_grid_outputs_are_whole_numbers_where_the_grid_is(span, points):
    """100 * 0.29 is not 29: a classifier that compares with 29 must see 29."""
    feature = Feature("f", *span, points=points)
    natural = np.linspace(*span, points).round(6)
    unit = feature.to_unit(natural)
    assert feature.from_unit(unit, points=points).tolist() == natural.tolist()


def test_a_record_on_the_grid_is_released_unchanged():
    curves = ask(lambda Z: Z[:, 0] >= 29, [[29.0]], sensitive=0, domain={0: (0, 100)}, mechanisms="krr", epsilons=[20])
    assert curves.lower.item() > 0.9


def test_long_categories_and_mixed_arrays_are_not_cut():
    seen = set()

    def remember(Z):
        seen.update(Z[:, 0].tolist())
        return Z[:, 0] == "a"

    ask(remember, np.array([["a"], ["b"]]), sensitive=0, mechanisms="krr", epsilons=[1], domain={0: ["a", "b", "long"]})
    assert seen == {"a", "b", "long"}


def test_odd_labels_are_compared_and_missing_ones_refused():
    mixed = ask(
        lambda Z: np.array([1 if v > 0.5 else "a" for v in Z[:, 0]], dtype=object), [[0.1]], sensitive=0, domain=None
    )
    assert mixed.labels_possible.tolist() == [2]
    for missing, word in ((None, "None"), (np.nan, "NaN")):
        with pytest.raises(ClassifierError, match=f"answered {word} instead of a label"):
            ask(lambda Z, v=missing: np.array([v] * len(Z), dtype=object), [[0.1]], sensitive=0, domain=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanisms": [ew.MECHANISMS["pm"](1.0)]}, "a mechanism is given by name"),
        ({"mechanisms": ew.MECHANISMS["pm"]}, "mechanisms must be names"),
        ({"sensitive": None}, "sensitive must name columns, got None"),
        ({"sensitive": 1.5}, "sensitive must name columns, got 1.5"),
        ({"confidence": "0.9"}, "confidence must be a number, got '0.9'"),
        ({"domain": 3}, "domain must be a Domain, a mapping or the path of a file, got int"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(change, message):
    model, table, _ = fitted_pipeline()
    with pytest.raises(TypeError, match=message):
        ask(model, table[:2], **change)


def test_a_domain_can_be_a_file(tmp_path):
    model, table, _ = fitted_pipeline()
    (tmp_path / "d.toml").write_text("[features.age]\nlower = 0\nupper = 100\n")
    np.testing.assert_array_equal(ask(model, table[:2], domain=tmp_path / "d.toml").lower, ask(model, table[:2]).lower)


def test_tables_that_hide_something_are_refused():
    h = as_classifier(lambda Z: np.zeros(len(Z)))
    with pytest.raises(ValueError, match="masked"):
        ask(h, np.ma.masked_array([[0.1], [0.2]], mask=[[True], [False]]), sensitive=0, domain=None)
    with pytest.raises(ValueError, match=r"booleans; declare it as categories \[False, True\]"):
        ask(h, pd.DataFrame({"b": [True, False]}), sensitive="b", domain=None)
    with pytest.raises(ValueError, match=r"call \.collect\(\) on it first"):
        ask(h, pl.LazyFrame({"a": [0.1]}), sensitive="a", domain=None)
    with pytest.raises(ValueError, match=r"cannot be read|same name"):
        ask(h, pd.DataFrame([[0.1, 0.2]], columns=["a", "a"]), sensitive="a", domain=None)
    with pytest.raises(ValueError, match="too wide"):
        Feature("f", -1e308, 1e308)
    with pytest.raises(ValueError, match="y holds"):
        ask(lambda Z: np.zeros(len(Z), dtype=int), [[0.1]], sensitive=0, domain=None, y=["no"])


def test_arrow_tables_work_with_functions():
    table = pa.table({"age": [30.0, 70.0], "n": [1, 2]})
    curves = ask(lambda t: np.asarray(t["age"]) > 50, table)
    assert curves.labels.tolist() == [False, True]
    assert curves.lower.shape == (1, 1, 2)


def test_integer_arrays_are_not_truncated():
    """An integer table must take fractional perturbed values: a wrong cast would keep label 1 always."""
    curves = ask(
        lambda Z: np.where(Z[:, 0] == np.floor(Z[:, 0]), 1, 0), np.array([[50, 1]]), sensitive=0, domain={0: (0, 100)}
    )
    assert curves.upper.item() < 0.2


def test_records_take_rows_in_their_own_kind():
    for table in (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})):
        taken = as_records(table).take(np.array([1, 1, 0]), {0: np.array([0.5, 0.25, 0.75])})
        assert type(taken) is type(table)
        assert list(taken["a"]) == [0.5, 0.25, 0.75]
        assert list(taken["b"]) == ["y", "y", "x"]


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (LogisticRegression(), ValueError, "LogisticRegression is not fitted; call fit first"),
        (LogisticRegression, TypeError, "is the class LogisticRegression, not an instance"),
        (LinearRegression().fit([[0], [1]], [0, 1]), TypeError, "LinearRegression is not a classifier"),
        (KMeans(2).fit(np.eye(3, dtype=np.float32)), ValueError, "KMeans was fitted in single precision"),
        (3, TypeError, "the model is a int, which has no predict"),
    ],
)
def test_what_is_not_a_classifier_is_refused(model, error, message):
    with pytest.raises(error, match=message):
        as_classifier(model)


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (KMeans(3, random_state=0), (0, 1, 2)),
        (make_pipeline(StandardScaler(), MiniBatchKMeans(2, random_state=0)), (0, 1)),
        (make_pipeline(StandardScaler(), GaussianMixture(2)), (0, 1)),
        (MeanShift(), None),  # taken, but nothing is known about it
    ],
)
def test_clusterings_and_mixtures_that_predict_are_classifiers(model, classes):
    table = np.random.default_rng(0).normal(size=(40, 2))
    h = as_classifier(model.fit(table))
    assert h.classes == classes
    assert (h.labels(table) == model.predict(table)).all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda Z: np.zeros((len(Z), 2)), "it must return one label per record"),
        (lambda Z: np.zeros(3), "it must return one label per record"),
        (lambda Z: np.full(len(Z), np.nan), "answered NaN"),
        (lambda Z: np.random.default_rng().random(len(Z)) > 0.5, "needs a deterministic classifier"),
    ],
)
def test_answers_that_are_not_labels_are_refused(answer, message):
    with pytest.raises(ClassifierError, match=message):
        ask(answer, np.full((50, 1), 0.5), sensitive=0, domain=None)


def test_a_model_that_fails_on_one_row_names_it():
    def fussy(Z):
        if (Z[:, 1] == 7).any():
            raise RuntimeError("cannot handle 7")
        return Z[:, 0] > 0.5

    X = np.column_stack([np.full(40, 0.3), np.arange(40)])
    with pytest.raises(ClassifierError, match=r"failed on record 7: RuntimeError: cannot handle \.\.\."):
        ask(fussy, X, sensitive=0, domain=None)


def test_a_model_that_fails_only_on_perturbed_rows_names_the_record():
    def fussy(Z):
        if ((Z[:, 0] > 0.9) & (Z[:, 1] == 2)).any():
            raise RuntimeError("out of range")
        return Z[:, 0] > 0.5

    X = np.column_stack([np.full(4, 0.3), np.arange(4)])
    with pytest.raises(ClassifierError, match="failed on a perturbed copy of record 2: RuntimeError: out of range"):
        ask(fussy, X, sensitive=0, domain=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitive": ["bmi"]}, "there is no feature 'bmi'; the features are age, income, job"),
        ({"sensitive": 9}, "there is no column 9"),
        ({"sensitive": []}, "sensitive is empty"),
        ({"sensitive": ["age", 0]}, "names a column twice"),
        ({"mechanisms": ["laplase"]}, "unknown mechanism 'laplase'; .*did you mean 'laplace'"),
        ({"mechanisms": ["krr:m=3"]}, "unknown option 'm'; krr takes k, quantise, indicator"),
        ({"mechanisms": ["krr:k"]}, "is not of the form option=value"),
        ({"mechanisms": ["pm", "pm"]}, "names one twice"),
        ({"mechanisms": []}, "mechanisms is empty"),
        ({"epsilons": [0.0]}, "epsilon must be positive and finite, got 0"),
        ({"epsilons": [-1.0]}, "epsilon must be positive and finite, got -1"),
        ({"epsilons": [2.0, 1.0]}, "epsilons must increase"),
        ({"epsilons": []}, "at least one number"),
        ({"epsilons": "many"}, "epsilons must be numbers"),
        ({"domain": None}, "declare their public ranges"),
        ({"domain": {"income": (0, 1)}}, "does not declare 'age'"),
        ({"domain": {"age": (0, 20)}}, r"row \d+, age: the value lies outside.*; the declared range is 0 to 20"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
        ({"tolerance": 0.0}, "tolerance must lie strictly between 0 and 0.5"),
        ({"method": "magic"}, "method must be"),
        ({"over": "all"}, "over must be"),
        ({"at_least": 1.5}, r"at_least must lie in \(0, 1\]"),
        ({"y": ["yes"]}, "y must hold one label per record"),
        ({"y": [0] * 5}, "encode y as it does"),
        ({"y": ["perhaps"] * 5}, "y shares no value with the classifier's labels"),
    ],
)
@pytest.mark.cases(1)
def test_bad_questions_end_in_one_sentence(change, message):
    model, table, _ = fitted_pipeline()
    with pytest.raises(ValueError, match=message) as caught:
        ask(model, table[:5], **change)
    assert "\n" not in str(caught.value)


def test_bad_tables_are_refused():
    model, table, _ = fitted_pipeline()
    with pytest.raises(ValueError, match="the table has no rows"):
        ask(model, table[:0])
    with pytest.raises(ValueError, match="lacks the column 'job'"):
        ask(model, table[["age", "income"]])
    missing = table[:5].astype({"age": float})
    missing.loc[3, "age"] = np.nan
    with pytest.raises(ValueError, match=r"1 of 5 rows lack age \(first: row 3\)\. Add \"missing\": "):
        ask(model, missing)
    plain = LogisticRegression().fit(np.zeros((4, 2)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="3 columns, but the classifier was fitted on 2"):
        ask(plain, np.zeros((4, 3)), sensitive=0, domain=None)
    with pytest.raises(ValueError, match=r"shape \(records, features\)"):
        ask(plain, np.zeros(4), sensitive=0, domain=None)


def test_model_files_need_trust_unless_they_are_safe(tmp_path):
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    io.dump(model, tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").predict([[1.0]]) == [1]
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    with pytest.raises(ValueError, match="is a pickle, and loading it runs code"):
        load_model(tmp_path / "m.pkl")
    with pytest.warns(UserWarning, match="loading it runs the code it contains"):
        assert load_model(tmp_path / "m.pkl", trust=True).predict([[1.0]]) == [1]


class Unknown(DecisionTreeClassifier):
    """A type that skops cannot know."""


def test_unknown_types_in_a_skops_file_need_trust(tmp_path):
    io.dump(Unknown().fit([[0.0], [1.0]], [0, 1]), tmp_path / "m.skops")
    with pytest.raises(ValueError, match=r"types that skops does not know: .*Unknown"):
        load_model(tmp_path / "m.skops")
    with pytest.warns(UserWarning, match="every type that it names"):
        assert load_model(tmp_path / "m.skops", trust=True).predict([[1.0]]) == [1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.hdf5", b"", "has the ending .hdf5; give one of .skops, .onnx"),
        ("m.skops", b"nonsense", "is not a skops file"),
        ("none.skops", None, "there is no such file"),
    ],
)
def test_unreadable_models_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / name)


def test_broken_pickles_are_refused(tmp_path):
    for name in ("m.pkl", "m.joblib"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.warns(UserWarning, match="pickle"), pytest.raises(ValueError, match="cannot load the model"):
            load_model(tmp_path / name, trust=True)


def test_tables_are_read_from_csv_and_parquet(tmp_path):
    frame = pl.DataFrame({"age": [1.5, None], "job": ["a", "b"]})
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("age,job\n1.5,a\nN/A,b\n")
    assert read_table(tmp_path / "t.csv").equals(read_table(tmp_path / "t.parquet"))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        read_table(tmp_path / "empty.csv")
    with pytest.raises(ValueError, match="unknown ending"):
        read_table(tmp_path / "empty.csv".replace(".csv", ".txt")) if (tmp_path / "empty.txt").write_text("x") else None
    with pytest.raises(ValueError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "bad.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="cannot read the table"):
        read_table(tmp_path / "bad.parquet")


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_forests_answer_as_predict_does_to_the_last_bit(kind, classes):
    """Few shallow trees on few records tie often; impure leaves tie up to rounding, which must be the same one."""
    rng = np.random.default_rng(classes)
    X = rng.random((60, 4)).round(1)
    y = np.array(["no", "yes", "maybe"])[rng.integers(classes, size=60)]
    points = rng.random((20_000, 4)).round(1)
    for trees, leaf in [(2, 1), (4, 3), (10, 7), (30, 5)]:
        model = kind(trees, min_samples_leaf=leaf, random_state=0).fit(X, y)
        for start in range(0, len(points), 4_000):  # short questions take the short way
            part = points[start : start + 4_000]
            assert (as_classifier(model).labels(part) == model.predict(part)).all()


def test_forests_leave_unusual_tables_to_predict():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 2.0]})
    model = RandomForestClassifier(5, random_state=0).fit(X, [0, 1, 1])
    with pytest.raises(ValueError, match="feature names"):
        as_classifier(model).labels(X[["b", "a"]])
    with pytest.raises(ValueError, match="infinity"):
        as_classifier(model).labels(np.array([[np.inf, 0.0]]))
    with pytest.raises(ValueError, match="features"):
        as_classifier(model).labels(np.zeros((2, 3)))


@pytest.fixture(scope="module")
def fitted():
    """A frame, and a linear model of it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 90, 40), "bmi": rng.uniform(15, 45, 40)})
    return table, LogisticRegression(max_iter=1000).fit(table, table.age + table.bmi > 85)


def test_a_record_comes_as_any_row(fitted):
    """A row of a pandas frame, a dict, a named or plain row of polars, all with the answer of a table of one row."""
    table, model = fitted
    rows = pl.from_pandas(table)
    settings = {"sensitive": "age", "domain": {"age": (0, 100)}}
    expected, far = ew.safe_box(model, table[:1], **settings), ew.radius(model, table[:1]).lower
    for row in (table.iloc[0], table.iloc[0].to_dict(), rows.row(0, named=True), rows.row(0), rows[0]):
        assert ew.safe_box(model, row, **settings) == expected
        assert ew.radius(model, row, features="age" if not isinstance(row, tuple) else None).lower >= far
    wider = table.assign(note="t").iloc[0]  # object values, and a column that the model does not know
    assert ew.safe_box(model, wider, **settings) == expected
    assert ew.safe_box(lambda t: t["age"] > 50, table.iloc[0], rng=0, **settings).features == ("age",)


def test_a_mapping_of_columns_is_a_table(fitted):
    table, model = fitted
    settings = {"sensitive": "age", "domain": {"age": (0, 100)}, "epsilons": [1], "mechanisms": "pm"}
    asked = [ew.stability(model, given, **settings) for given in (table, table.to_dict("list"))]
    np.testing.assert_array_equal(*[found.lower for found in asked])


class Frame:
    """Stands in for a Dask frame, which needs no installation to be told from others."""

    __module__ = "dask.dataframe"
    columns = ("age", "bmi")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (pl.LazyFrame({"age": [1.0], "bmi": [2.0]}), r"lazy LazyFrame; call \.collect\(\) on it"),
        (Frame(), r"lazy Dask Frame; call \.compute\(\) on it"),
        ({"age": 1.0, "bmi": 2.0}, "mapping of columns .* lists or arrays of one length"),
        ({"age": [1.0], "bmi": [2.0, 3.0]}, "mapping of columns .* lists or arrays of one length"),
        ({0: [1.0]}, "keys must be column names, got 0"),
        ({"age": [1.0, "a"], "bmi": [2.0, 3.0]}, "each of which must hold one kind"),
    ],
)
def test_what_is_no_table_in_memory_is_told_how_to_become_one(fitted, given, hint):
    with pytest.raises(ValueError, match=hint):
        ew.stability(fitted[1], given, sensitive="age", epsilons=[1])


def test_a_header_that_names_a_column_twice_is_refused(tmp_path):
    for header in ("age,age,bmi", '"age",bmi,"age"'):
        (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n")
        with pytest.raises(ValueError, match="names the column 'age' twice; rename one"):
            read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("age,age_duplicated_0\n1,2\n")
    assert read_table(tmp_path / "t.csv").columns == ["age", "age_duplicated_0"]


def test_frames_that_name_a_column_twice_are_refused():
    frame = pd.DataFrame(np.ones((2, 2)), columns=["age", "age"])
    with pytest.raises(
        ValueError, match=r"^the table has two columns of the same name, 'age'; give them different names$"
    ):
        as_records(frame)


def test_bytes_at_random_are_no_table_with_columns_by_tabs(tmp_path):
    for seed in range(12):
        (tmp_path / "t.csv").write_bytes(np.random.default_rng(seed).bytes(400))
        with pytest.raises(ValueError, match=r"not UTF-8|holds bytes that no text does|a NUL byte"):
            read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"a\x01;b\n1;2\n")
    with pytest.raises(ValueError, match="is binary or damaged"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.cases(1)
def test_a_nul_anywhere_in_a_table_is_damage(tmp_path, name):
    """It would make a column of numbers one of texts, of which a model says nothing that helps."""
    text = b"age,b\n" + b"1,2\n" * 300_000 + b"1,7\0\n"
    (tmp_path / name).write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    with pytest.raises(ValueError, match=r"row 300000.*: a NUL byte"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("kind", [object, str])
def test_coefficients_that_are_no_numbers_are_named(kind):
    table, y = np.random.default_rng(0).uniform(size=(30, 2)), np.arange(30) % 2
    for inside in (lambda model: model[1], lambda model: model[0]):
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, y)
        part = inside(model)
        name = "coef_" if hasattr(part, "coef_") else "scale_"
        setattr(part, name, getattr(part, name).astype(kind))
        with pytest.raises(ValueError, match=f"the {name} of the {type(part).__name__} does not hold numbers"):
            ew.stability(model, table, sensitive=0, mechanisms="pm", epsilons=[1.0])


def test_a_model_that_fails_on_texts_names_their_columns():
    table = pd.DataFrame({"age": [0.25, 0.75], "job": ["secret", "b"]})
    with pytest.raises(ClassifierError, match="texts stand in the columns: job") as caught:
        ask(lambda rows: rows.to_numpy() @ np.ones(2) > 0.1, table, domain=None)
    assert "secret" not in str(caught.value)


def test_a_classifier_that_fails_tells_no_value_of_the_record():
    def picky(table):
        raise RuntimeError(f"cannot handle {table[0, 1]} in column 1 of 2, {float(table[0, 1]):g}")

    with pytest.raises(ew.ClassifierError, match=r"cannot handle \.\.\. in column 1 of 2, \.\.\.") as caught:
        ew.stability(picky, [[0.5, 87.2601234]], sensitive=0, epsilons=[1])
    assert "87.2" not in str(caught.value)


def test_a_search_that_kept_no_model_is_told_to_refit():
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, refit=False, cv=2)
    with pytest.raises(TypeError, match=r"GridSearchCV of refit=False.*refit=True"):
        ew.as_classifier(search.fit(np.arange(8.0).reshape(-1, 1), [0, 1] * 4))
