"""Tables in memory: kinds, columns, laws, missing values, subsets of features, and the transformer."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import epsworth as ew
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Pass, Policy, Rule, Sampling, audit_policy, perturb
from epsworth.policy.client_files import client_files
from epsworth.policy.tables import Perturbation

PEOPLE = ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]})
POLICY = Policy.of("pm", 2, PEOPLE, passing=["id", "note"])
AGES = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["id", "note", "job"])
TABLE = pd.DataFrame(
    {"id": [7, 8, 9], "age": [10, 120, -3], "note": ["x", None, "z"], "job": ["a", "b", "c"]},
)


def rule(name="x0", words="pm", epsilon="1", **options):
    return Rule(ew.Feature(name, 0, 1), words, Decimal(epsilon), **options)


def arrow(table):
    return pa.Table.from_pandas(table, preserve_index=False)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, arrow])
def test_tables_come_back_as_they_came(kind):
    table = kind(TABLE)
    released = perturb(POLICY, table)
    assert type(released) is type(table)
    before, after = (t if isinstance(t, pd.DataFrame) else t.to_pandas() for t in (table, released))
    pd.testing.assert_frame_equal(after[["id", "note"]], before[["id", "note"]])
    assert after.columns.tolist() == before.columns.tolist()
    assert after["age"].between(0, 100).all()
    assert set(after["job"]) <= {"a", "b", "c"}


def test_arrays_come_back_as_arrays():
    policy = Policy.of("krr:k=11", 1, ew.Domain.of({1: (0, 10), 2: ["p", "q"]}), per="feature", passing=["x0"])
    table = np.array([[1.5, 3, "p"], [2.5, 99, "q"]], dtype=object)
    released = perturb(policy, table)
    assert released[:, 0].tolist() == [1.5, 2.5]
    assert set(released[:, 1]) <= set(np.arange(11.0))
    assert set(released[:, 2]) <= {"p", "q"}
    assert table[1, 1] == 99  # the input is left alone


def test_categorical_types_are_kept_and_no_width():
    policy = Policy.of("krr", 1, ew.Domain.of({"c": [3, 1, 2], "k": ["u", "v"]}), per="feature")
    table = pl.DataFrame(
        {"c": pl.Series([1, 2, 3], dtype=pl.Int8), "k": pl.Series(["u", "v", "u"], dtype=pl.Categorical)}
    )
    assert perturb(policy, table).dtypes == [pl.Int64, pl.Categorical]
    frame = pd.DataFrame({"c": np.array([1, 2, 3], dtype=np.int16), "k": pd.Categorical(["u", "v", "u"])})
    assert perturb(policy, frame).dtypes.astype(str).tolist() == ["int64", "category"]


def words_of(column):
    """Return the categories of a column of any library, by code."""
    if isinstance(column, pd.Series):
        return column.cat.categories.tolist()
    return column.dtype.categories.to_list() if isinstance(column, pl.Series) else column.chunk(0).dictionary


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"j": pd.Categorical(["a", "b"], categories=["d", "b", "a", "secret"])}),
        pd.DataFrame({"j": pd.Categorical(["a", "b"], categories=["b", "a"], ordered=True)}),
        pl.DataFrame({"j": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"]))}),
        pa.table({"j": pa.array(["b", "a"]).dictionary_encode()}),
    ],
    ids=["pandas", "ordered", "enum", "arrow"],
)
@pytest.mark.parametrize("sampling", [None, Sampling(1)])
@pytest.mark.cases(1)
def test_categories_of_a_release_are_the_policys_in_its_order(table, sampling):
    """Whatever the table knows, whatever it draws: what occurs, and in which order, would tell values."""
    one = Rule(ew.Feature("j", categories=["d", "a", "c", "b"]), "krr", Decimal(1))
    policy = Policy((one, rule("v")), sampling)
    if isinstance(table, pa.Table):
        table = table.append_column("v", pa.array([0.5, 0.5]))
    else:
        table = table.assign(v=0.5) if isinstance(table, pd.DataFrame) else table.with_columns(v=pl.lit(0.5))
    kinds = set()
    for part in [table, table[:1], table[1:]] * 3:
        column = perturb(policy, part)["j"]
        assert [str(word) for word in words_of(column)] == ["d", "a", "c", "b"]
        kinds.add(str(column.type if isinstance(column, pa.ChunkedArray) else column.dtype))
        gaps = column.null_count if isinstance(column, pa.ChunkedArray) else pd.isna(column.to_list()).sum()
        assert gaps == 0 or sampling is not None
    assert len(kinds) == 1
    assert not isinstance(table, pd.DataFrame) or column.cat.ordered == table.j.cat.ordered


@pytest.mark.parametrize("words", ["pm", "sw", "krr:k=16", "exponential_tight:k=9", "laplace_clipped", "duchi"])
def test_released_values_follow_the_kernel(words):
    """Chi-square at one input; false alarm 1e-6 for each of six mechanisms."""
    one = rule(words=words, epsilon="1.5", bits=4)
    x, n = 0.4, 200_000
    released = perturb(Policy((one,)), np.full((n, 1), x))[:, 0]
    i = int(one.kernel.index(x))
    weights = np.array(one.kernel.weights(i), dtype=float)
    values = np.arange(one.kernel.points) / (one.kernel.points - 1)
    counts = (released[:, np.newaxis] == values).sum(axis=0)
    assert counts.sum() == n  # every value lies on the public grid
    if words != "duchi":  # which has but the two ends
        likeliest = 1 + np.flatnonzero(weights[1:-1] == weights[1:-1].max())
        assert likeliest.min() + likeliest.max() == 2 * round(x * (one.kernel.points - 1))  # around the input
    possible = weights > 0
    assert chisquare(counts[possible], n * weights[possible] / weights.sum()).pvalue > 1e-6


def test_quantised_outputs_lie_on_their_grid():
    released = perturb(Policy((rule(words="pm:quantise=5"),)), np.full((1000, 1), 0.3))
    assert set(released[:, 0].tolist()) <= {0.0, 0.25, 0.5, 0.75, 1.0}


def test_missing_and_undeclared_values_are_refused_or_replaced():
    with pytest.raises(ValueError, match=r"row 1, age: the value is missing, or not a number, and the .*age.missing"):
        perturb(POLICY, TABLE.assign(age=[1, None, 2]))
    with pytest.raises(ValueError, match=r"row 2, job: the value is missing"):
        perturb(POLICY, TABLE.assign(job=["a", "b", None]))
    with pytest.raises(ValueError, match=r"row 0, job: the value is not a declared category"):
        perturb(POLICY, TABLE.assign(job=["secret", "b", "a"]))
    with pytest.raises(ValueError, match="age: the value is missing, or not a number"):
        perturb(POLICY, TABLE.assign(age=["1", "old", "2"]))
    with pytest.raises(ValueError, match="age: the value is missing, or not a number"):
        perturb(POLICY, TABLE.assign(age=pd.to_datetime(["2001-01-01", "2002-01-01", "2003-01-01"])))
    with pytest.raises(ValueError, match="lacks the column 'age', which the policy perturbs; it has id"):
        perturb(POLICY, TABLE[["id", "job"]])
    sure = Decimal(200)  # keeps its input but with probability e^-200
    lenient = Policy(
        (
            Rule(ew.Feature("age", 0, 100, missing=50), "krr:k=101", sure),
            Rule(replace(PEOPLE["job"], missing="c"), "krr", sure, outside="b"),
        ),
        passing=Pass(("id", "note")),
    )
    released = perturb(lenient, TABLE.assign(age=[None, 1e9, -np.inf], job=[None, "secret", "a"]))
    assert released["age"].tolist() == [50, 100, 0]
    assert released["job"].tolist() == ["c", "b", "a"]


def test_the_message_does_not_show_the_value():
    with pytest.raises(ValueError, match="job") as refused:
        perturb(POLICY, TABLE.assign(job=["my-disease", "b", "a"]))
    assert "disease" not in str(refused.value)


def test_subsets_are_uniform_and_of_the_right_size():
    """Binomial: each of four features is released by 3/4 of the rows; false alarm 4 * 3e-7."""
    policy = Policy(tuple(rule(f"x{i}") for i in range(4)), Sampling(3))
    n = 40_000
    kept = ~np.isnan(perturb(policy, np.full((n, 4), 0.5)))
    assert (kept.sum(axis=1) == 3).all()
    assert (np.abs(kept.mean(axis=0) - 0.75) < 5.1 * np.sqrt(0.75 * 0.25 / n)).all()


def test_scaled_subsets_keep_the_means():
    """The mean is the kernel's own, as if all were released; |error| < 5.2 standard errors, false alarm 4e-7."""
    one = rule("x0", "duchi")
    policy = Policy((one, rule("x1", "duchi")), Sampling(1, "scaled"))
    n = 200_000
    released = perturb(policy, np.tile([0.2, 0.9], (n, 1)))
    ones = [one.kernel.weights(int(one.kernel.index(x)))[-1] / 2**64 for x in (0.2, 0.9)]  # outputs are 0 or 1
    errors = released.mean(axis=0) - ones
    assert (np.abs(errors) < 5.2 * released.std(axis=0) / np.sqrt(n)).all()


def test_seeds_do_not_reach_a_release():
    np.random.seed(0)  # noqa: NPY002  the point
    first = perturb(POLICY, TABLE)["age"].tolist()
    np.random.seed(0)  # noqa: NPY002
    assert perturb(POLICY, TABLE)["age"].tolist() != first


def test_replayable_draws_repeat_and_say_what_they_are():
    runs = [Perturbation(POLICY, ReplayableWords(3)) for _ in range(2)]
    assert not runs[0].private
    policy = Policy((rule(),))
    table = np.full((50, 1), 0.5)
    once, twice = (Perturbation(policy, ReplayableWords(3)).array(table) for _ in range(2))
    np.testing.assert_array_equal(once, twice)


cells = st.none() | st.floats() | st.integers() | st.text(max_size=3) | st.booleans()


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=6))
@pytest.mark.slow
def test_any_table_is_perturbed_or_refused_with_a_sentence(rows):
    for table in (
        np.array([[*row, 1] for row in rows], dtype=object),
        pd.DataFrame([[*row, 1] for row in rows], columns=["x0", "x1", "x2"], dtype=object),
    ):
        policy = Policy.of("pm", 1, ew.Domain.of({0: (0, 1), 1: ["a", True, 0.5]}), per="feature")
        sentence, released = "", None
        try:
            released = perturb(policy, table)
        except ValueError as error:
            sentence = str(error)
        assert len(sentence.splitlines()) == (released is None)
        if released is not None:
            assert len(released) == len(rows)
            assert (np.asarray(released)[:, 2] == 1).all()


OTHER = tuple(f"x{i}" for i in range(1, 10))  # what the checks' tables have beside
RANDOM = {
    "check_estimators_pickle": "compares two random releases",
    "check_fit_idempotent": "compares two random releases",
}


@pytest.mark.skipif(tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 6), reason="older checks know no tags")
@parametrize_with_checks(
    [ew.Perturb(Policy((Rule(ew.Feature("x0", -10, 10, missing=0), "pm", Decimal(1)),), passing=Pass(OTHER)))],
    expected_failed_checks=lambda estimator: RANDOM,
)
@pytest.mark.cases(1)
def test_the_transformer_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_the_transformer_in_a_pipeline(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    numeric = TABLE[["id", "age"]]
    step = ew.Perturb(Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["id"]))
    model = make_pipeline(clone(step), LogisticRegression()).fit(numeric, [0, 1, 0])
    assert model.predict(numeric).shape == (3,)
    loaded = ew.Perturb(tmp_path / "policy.toml").fit(TABLE)
    assert loaded.get_feature_names_out().tolist() == TABLE.columns.tolist()
    assert "random_state" not in loaded.get_params()
    with pytest.raises(ValueError, match="reorder the columns"):
        loaded.transform(TABLE[["age", "id", "note", "job"]])
    with pytest.raises(ValueError, match="lacks the column 'job'"):
        ew.Perturb(POLICY).fit(numeric)


@pytest.mark.parametrize("kind", ["frame", "array", "lists"])
def test_the_transformer_needs_no_fit(kind, tmp_path):
    policy = Policy.of("krr:k=11", 200, {0: (0, 10)}, passing=["x1"])  # keeps values, but with probability e^-200
    policy.save(tmp_path / "policy.toml")
    rows = [[3.0, 7.0], [10.0, 8.0]]
    table = {"frame": pd.DataFrame(rows, columns=["x0", "x1"]), "array": np.array(rows), "lists": rows}[kind]
    for policy_or_path in (policy, tmp_path / "policy.toml", str(tmp_path / "policy.toml")):
        step = clone(ew.Perturb(policy_or_path))
        assert np.asarray(step.transform(table)).tolist() == rows
        check_is_fitted(step)
        assert not [name for name in vars(step) if name.endswith("_")]  # nothing is kept of what it saw
        assert step.get_feature_names_out(["x0", "x1"]).tolist() == ["x0", "x1"]
        assert make_pipeline(step).transform(table) is not None
        assert step.get_feature_names_out().tolist() == ["x0", "x1"]  # as the policy names them


def test_arguments_in_the_wrong_order_are_said_to_be(tmp_path):
    (tmp_path / "table.csv").write_text("id,age\n1,2\n")
    policy = Policy.of("pm", 1, {"age": (0, 100)}, passing=["id"])
    policy.save(tmp_path / "policy.toml")
    out, source = tmp_path / "out.csv", tmp_path / "table.csv"
    for table, door in [
        *((table, perturb) for table in (TABLE, np.ones((2, 2)), {"age": 3}, [[1, 2]])),
        *((table, lambda X, given: ew.Perturb(X).transform(given)) for table in (TABLE, np.ones((2, 2)))),
        *((table, lambda X, given: ew.perturb_file(X, given, out)) for table in (source, str(source))),
        *((table, lambda X, given: ew.perturb_files(X, given, tmp_path / "out")) for table in (tmp_path, [source])),
    ]:
        for told in (policy, tmp_path / "policy.toml"):
            with pytest.raises(TypeError, match="give the policy first, then the table"):
                door(table, told)
    assert not out.exists()
    with pytest.raises(TypeError, match="policy must be a Policy or the path of its file, got int"):
        perturb(3, TABLE)
    with pytest.raises(TypeError, match="then epsilon, then the domain; change the order"):
        Policy.of({"age": (0, 100)}, "pm", 1)
    with pytest.raises(TypeError, match="domain must be a Domain, a mapping or the path of a file, got int"):
        Policy.of("pm", {"age": 1}, 1)


def test_doors_take_a_policy_or_its_path(tmp_path):
    policy = Policy.of("pm", 1, {"age": (0, 100)}, bits=4, passing=["id"])
    path = tmp_path / "policy.toml"
    policy.save(path)
    (tmp_path / "table.csv").write_text("id,age\n1,2\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_text("id,age\n1,2\n")
    for told in (path, str(path)):
        out = tmp_path / type(told).__name__
        out.mkdir()
        assert perturb(told, TABLE[["id", "age"]])["id"].tolist() == TABLE["id"].tolist()
        assert perturb(told, {"id": 1, "age": 3})["id"] == 1
        made = out / "out.csv"
        assert ew.perturb_file(told, tmp_path / "table.csv", made, ledger=out / "a").policy == policy.fingerprint
        many = ew.perturb_files(told, tmp_path / "parts", out / "out", ledger=out / "b")
        assert many.policy == policy.fingerprint
        assert client_files(told, 2)["policy.json"] == policy.for_clients()
    assert audit_policy(str(path)).policy == policy.fingerprint


NESTED = {
    "array": pl.DataFrame({"x": pl.Series([[1.0, 2.0]] * 3, dtype=pl.Array(pl.Float64, 2))}),
    "array of one": pl.DataFrame({"x": pl.Series([[1.0]] * 3, dtype=pl.Array(pl.Float64, 1))}),
    "list": pl.DataFrame({"x": [["a"], ["b"], ["a"]]}),
    "struct": pl.DataFrame({"x": [{"a": 1}] * 3}),
    "object": pl.DataFrame({"x": pl.Series([1, object(), 3], dtype=pl.Object)}),
    "arrow": pa.table({"x": pa.array([[1, 2]] * 3, type=pa.list_(pa.int64(), 2))}),
    "arrow words": pa.table({"x": [["a"], ["b"], ["a"]]}),
    "lists": pd.DataFrame({"x": [[1, 2]] * 3}),
    "words": pd.DataFrame({"x": [["a"], ["b"], ["c"]]}),
    "arrays": pd.DataFrame({"x": [np.arange(2.0)] * 3}),
    "sets": pd.DataFrame({"x": [{"a"}, "b", "c"]}),
    "twice": pd.DataFrame([["a", 2]] * 3, columns=["x", "x"]),
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("public", [(0, 10), ["a", "b", "c"]])
def test_a_record_gives_one_value_per_rule_or_is_refused(kind, public):
    policy = Policy.of("krr:k=11" if isinstance(public, tuple) else "krr", 1, ew.Domain.of({"x": public}))
    with pytest.raises(ValueError, match=r"^row \d, x: the value is|different names"):
        perturb(policy, NESTED[kind])


@pytest.mark.parametrize("values", [np.zeros((3, 4)), np.zeros((3, 1)), np.float64(1), np.zeros((0, 2))])
def test_a_rule_draws_for_one_dimension_only(values):
    column = Perturbation(POLICY).columns["age"]
    with pytest.raises(ValueError, match="more than one value per record"):
        column.encode_numbers(values)


def test_columns_of_different_lengths_are_not_drawn_for():
    ones = np.zeros(3, dtype=np.int64)
    for inputs in ({"age": ones, "job": ones[:2]}, {"age": ones[:, None], "job": ones[:, None]}):
        with pytest.raises(ValueError, match="one value per record"):
            list(Perturbation(POLICY).draw(inputs))


def test_unusual_scalars_are_one_value():
    policy = Policy.of("krr:k=11", 200, ew.Domain.of({"x": (0, 10)}))  # kept but with probability e^-200
    for values in (pl.Series([Decimal(1), Decimal(2)]), pl.Series([1, 2], dtype=pl.Int128), pl.Series(["1", "2"])):
        assert perturb(policy, pl.DataFrame({"x": values}))["x"].to_list() == [1.0, 2.0]
    words = Policy((Rule(replace(PEOPLE["job"], missing="b"), "krr", Decimal(200), outside="c"),))
    frame = pd.DataFrame({"job": pd.Series(["a", pd.NA, None, 3], dtype=object)})
    assert perturb(words, frame)["job"].tolist() == ["a", "b", "b", "c"]
    assert perturb(words, pl.DataFrame({"job": [1, 2]}))["job"].to_list() == ["c", "c"]


def test_array_subclasses_are_arrays():
    policy = Policy.of("pm", 1, ew.Domain.of({0: (0, 100)}), passing=["x1"])
    values = np.ma.MaskedArray([[77.5, 1.0], [78.5, 2.0]], mask=[[True, False], [False, False]], hard_mask=True)
    with pytest.raises(ValueError, match="row 0, x0: the value is missing"):
        perturb(policy, values)

    class Stubborn(np.ndarray):
        def __setitem__(self, key, value):
            pass

    for table in (values.data.view(Stubborn), np.ma.MaskedArray(values.data, hard_mask=True)):
        released = perturb(policy, table)
        assert type(released) is np.ndarray
        assert not {77.5, 78.5} & set(released.ravel().tolist())


@pytest.mark.parametrize("index", ["age", ["id", "age"], ["age"]])
def test_an_index_named_like_a_feature_is_refused(index):
    frame = TABLE.set_index(index, drop=False)
    with pytest.raises(ValueError, match=r"index is named 'age'.*reset_index\(drop=True\)") as refused:
        perturb(POLICY, frame)
    assert "120" not in str(refused.value)
    step = ew.Perturb(POLICY).fit(TABLE)
    with pytest.raises(ValueError, match="index is named 'age'"):
        step.transform(frame)
    with pytest.raises(ValueError, match=r"index is named 'age'|does not name '__index_level_0__'"):
        perturb(POLICY, pa.Table.from_pandas(frame))


def test_notes_and_undeclared_categories_do_not_travel_with_a_table():
    policy = Policy((Rule(PEOPLE["job"], "krr", Decimal(1), outside="c"),))
    frame = pd.DataFrame({"job": pd.Categorical(["a", "my-disease", "b"])})
    frame.attrs["first"] = "my-disease"
    released = perturb(policy, frame)
    assert released.attrs == {}
    assert set(released["job"].cat.categories) <= {"a", "b", "c"}
    assert frame.attrs  # the input is left alone
    table = pa.table({"job": pa.array(["a", "my-disease", "b"]).dictionary_encode()})
    found = perturb(policy, table.replace_schema_metadata({"first": "my-disease"}))
    assert found.schema.metadata is None
    for kind in (pl.Categorical, pl.Enum(["a", "my-disease"])):
        table = pl.DataFrame({"job": pl.Series(["a", "my-disease"], dtype=kind)})
        sink = io.BytesIO()
        perturb(policy, table).write_parquet(sink)
        assert b"disease" not in sink.getvalue() + pickle.dumps(perturb(policy, table))
    assert b"disease" not in pickle.dumps(found) + pickle.dumps(released)


def test_notes_of_columns_do_not_travel_with_a_table():
    frame = pd.DataFrame({"age": [31.0], "id": [7]}).rename_axis(columns="my-disease")
    released = perturb(AGES, frame)
    assert released.columns.names == [None]
    assert frame.columns.names == ["my-disease"]  # the input is left alone
    note = {"first": "my-disease"}
    fields = [pa.field("age", pa.float64(), metadata=note), pa.field("id", pa.int64(), nullable=False, metadata=note)]
    for kinds in (fields, fields[::-1]):
        table = pa.table({"age": [31.0, 32.0], "id": [7, 8]}).select([field.name for field in kinds])
        table = table.cast(pa.schema(kinds, metadata=note))
        found = perturb(AGES, table)
        assert found.schema.metadata is None
        assert all(field.metadata is None for field in found.schema)
        assert found["id"].to_pylist() == [7, 8]
        assert not found.schema.field("id").nullable
        assert found.column_names == table.column_names


def test_the_transformer_refuses_what_an_array_would_lose():
    """Masks, and an index that set_output puts back beside the released columns."""
    step = ew.Perturb(Policy((rule("x1"),), passing=Pass(("x0",)))).set_output(transform="pandas")
    masked = np.ma.masked_equal([[0.5, 0.25], [0.777, 0.5]], 0.777)
    clear = np.ma.masked_array([[0.5, 0.25]])
    plain = pd.DataFrame(np.eye(2))
    for index in (pd.Index([0.1, 0.2], name="x1"), pd.Index([0.1, 0.2], name=1)):
        with pytest.raises(ValueError, match=r"the table's index is named .*1.* like a feature"):
            step.fit_transform(plain.set_axis(index))
        with pytest.raises(ValueError, match=r"the table's index is named .*1.* like a feature"):
            step.fit(plain).transform(plain.set_axis(index))
    with pytest.raises(ValueError, match="masked entries"):
        step.fit_transform(masked)
    with pytest.raises(ValueError, match="masked entries"):
        step.fit(clear).transform(masked)
    assert step.fit_transform(clear).shape == (1, 2)
    assert step.fit_transform(plain.set_axis(pd.Index([7, 8], name="x0"))).shape == (2, 2)


def test_columns_of_one_name_are_named():
    table = pd.DataFrame([[0.1, 0.2, 3]], columns=["x0", "x0", "id"])
    for act in (lambda: perturb(Policy((rule(),)), table), lambda: ew.Perturb(Policy((rule(),))).fit(table)):
        with pytest.raises(ValueError, match="two columns of the same name, 'x0'; give them different names"):
            act()


def test_a_transformer_that_has_seen_no_table_keeps_a_frames_columns():
    step = ew.Perturb(Policy.of("pm", 1, {"age": (0, 100)}, passing=["id"])).set_output(transform="pandas")
    released = step.transform(pd.DataFrame({"id": [1, 2], "age": [20.0, 60.0]}))
    assert list(released.columns) == ["id", "age"]
