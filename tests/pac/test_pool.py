"""What a pool may hold, and the sentences for what it may not."""

from __future__ import annotations

import decimal
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from epsworth.pac import MI, DPEquivalent, PACPrivatizer, Posterior, RecordPosterior, ResponseServer, WorldModels, pool
from epsworth.pac.allocation import RULES, allocate, gaussian_bound
from epsworth.pac.mechanism import MeanMechanism
from epsworth.pac.model_files import load_model
from epsworth.pac.pool import check_pool

X = np.random.default_rng(0).normal(size=(12, 2))


def mean(rows, labels=None):
    return rows.mean(axis=0)


def fit(y=None, groups=None, function=mean):
    return PACPrivatizer(function, MI(1.0), worlds=8).fit(X, y, groups=groups)


@pytest.mark.parametrize("hole", [None, float("nan"), pd.NA, pd.NaT])
def test_a_missing_label_or_group_is_named_by_its_row(hole):
    values = ["a", "b"] * 5 + ["a", hole]
    with pytest.raises(ValueError, match="row 11, y: the value is missing"):
        fit(y=np.array(values, dtype=object))
    with pytest.raises(ValueError, match="row 11, groups: the value is missing"):
        fit(groups=np.array(values, dtype=object))
    with pytest.raises(ValueError, match="row 2, y: the value is missing or infinite"):
        fit(y=np.where(np.arange(12) == 2, np.inf, 0.5))
    assert fit(y=np.array([1, 2.0] * 6, dtype=object)).report()["units"] == 12
    with pytest.raises(ValueError, match="y mixes values of the types int, str"):
        fit(y=np.array(["a", 1] * 6, dtype=object))


def test_groups_that_span_classes_are_the_cause_that_is_named():
    with pytest.raises(ValueError, match=r"class 1 has 0 distinct .* a group counts for the class of its first row"):
        fit(y=np.tile([0, 1], 6), groups=np.arange(12) // 2)


def test_whole_numbers_are_classes_for_a_function_and_the_sentence_says_so():
    with pytest.raises(ValueError, match="whole numbers are taken as classes: for a regression"):
        fit(y=np.arange(12))
    assert fit(y=np.arange(12) + 0.5).release().vector.shape == (2,)  # as the sentence advises
    with pytest.raises(ValueError, match=r"drop the class$"):
        fit(y=list("aaaaaaaaaaab"))


def test_a_function_that_works_in_place_leaves_the_table_alone():
    def in_place(rows, labels):
        rows *= 2
        labels[:] = 0
        return rows.mean(axis=0)

    before, y = X.copy(), np.tile([0, 1], 6)
    fitted = fit(y=y, function=in_place)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(y, np.tile([0, 1], 6))
    np.testing.assert_array_equal(fitted.mechanism_.reference, 2 * before.mean(axis=0))


@pytest.mark.parametrize("kind", [MI, Posterior, RecordPosterior, DPEquivalent])
@pytest.mark.parametrize("value", ["1/16", None, True])
def test_a_budget_that_is_no_number_is_refused_in_one_sentence(kind, value):
    with pytest.raises(TypeError, match=f"^{kind.__name__}: .* must be a number, such as 1 / 16 without quotes"):
        kind(value)


SECRET = "Alice Smith"


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"age": np.arange(12.0), "who": [SECRET] * 12}),
        pl.DataFrame({"age": np.arange(12.0), "who": [SECRET] * 12}),
        pd.DataFrame({"age": np.arange(12.0), "who": pd.Categorical([SECRET] * 12)}),
        pd.DataFrame({"age": np.arange(12.0), "who": pd.to_datetime(["1987-06-05"] * 12)}),
        pd.DataFrame({"age": np.arange(12.0), "who": np.full(12, 12.5 + 98.75j)}),
    ],
    ids=["pandas", "polars", "category", "dates", "complex"],
)
def test_a_column_that_is_not_of_numbers_is_named_and_not_shown(table):
    with pytest.raises(ValueError, match="the column 'who'") as caught:
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(table)
    assert not any(value in str(caught.value) for value in (SECRET, "1987", "98.75"))
    assert "\n" not in str(caught.value)


def test_a_column_of_an_array_is_named_by_its_number():
    for table in ([[1.0, SECRET]] * 12, np.array([[1.0, SECRET]] * 12), np.array([[1.0, SECRET]] * 12, dtype=object)):
        with pytest.raises(ValueError, match=r"^X: the column 1 is not of numbers; drop it, or recode it") as caught:
            PACPrivatizer("mean", MI(1.0), worlds=8).fit(table)
        assert SECRET not in str(caught.value)
    assert (
        PACPrivatizer("mean", MI(1.0), worlds=8)
        .fit(np.array([["1.5", 2], [3, "4"]] * 3, dtype=object))
        .report()["units"]
        == 2
    )


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_by_its_place(hole):
    table = pd.DataFrame(X.copy(), columns=["age", "income"])
    table.iloc[3, 1] = hole
    with pytest.raises(ValueError, match=r"^row 3, column 'income': the value is missing \(NaN\) or infinite"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(table)
    with pytest.raises(ValueError, match=r"^row 3, column 1: the value is missing"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(table.to_numpy())


@pytest.mark.parametrize(
    ("function", "y"),
    [(mean, [SECRET] + ["b"] * 11), (LinearRegression(), [SECRET] * 12), (mean, [77123] + [5] * 11)],
    ids=["rare class", "regression", "number"],
)
def test_no_label_is_shown_where_labels_are_refused(function, y):
    with pytest.raises(
        ValueError, match=r"y: LinearRegression learns from numbers|class [01] has 1 distinct"
    ) as caught:
        fit(y=y, function=function)
    assert SECRET not in str(caught.value)
    assert "77123" not in str(caught.value)


def test_outputs_too_large_for_their_squares_are_refused_and_large_ones_are_not():
    for scale, algorithm in ((1e200, "mean"), (1e300, "mean"), (1e200, mean)):
        with pytest.raises(ValueError, match=r"output reaches beyond 1e\+150, where variances overflow; scale it"):
            PACPrivatizer(algorithm, MI(1.0), worlds=8).fit(scale * X / 4)
    for scale in (1e145, 1e-145, 1e-300):
        fitted = PACPrivatizer("mean", MI(1.0), worlds=8).fit(scale * X)
        assert np.isfinite(fitted.release().vector).all()
        assert fitted.plan_.mi <= 1


def test_the_smallest_budgets_get_noise_or_a_sentence():
    for rule in RULES:
        noise = allocate([1.0, 1e-3], 1e-300, rule)
        assert np.isfinite(noise).all()
        assert gaussian_bound([1.0, 1e-3], noise) <= 1e-300 * (1 + 1e-12)
        with pytest.raises(ValueError, match="mi = 1e-300 needs noise beyond the largest floating-point number"):
            allocate([1e200, 1.0], 1e-300, rule)
    fitted = PACPrivatizer("mean", MI(1e-9), worlds=8).fit(X)
    assert fitted.plan_.mi <= 1e-9
    assert np.isfinite(fitted.release().vector).all()
    with pytest.raises(ValueError, match="finer than the table of the noise can keep; take at least 1e-09"):
        PACPrivatizer("mean", MI(1e-300), worlds=8).fit(X)
    with pytest.raises(ValueError, match="more than its grid allows; take more worlds or a larger budget"):
        PACPrivatizer("mean", MI(1e-9), worlds=16, mode="certified").fit(X)
    with pytest.raises(ValueError, match="worlds must be at most 10000000"):
        PACPrivatizer("mean", MI(1.0), worlds=10**24).fit(X)


def test_entries_that_are_masked_are_not_read():
    """As an array they would show what lies under the mask."""
    table = np.ma.array(X.copy(), mask=np.zeros(X.shape, bool))
    assert PACPrivatizer("mean", MI(0.1), worlds=8).fit(table).report()["units"] == len(X)  # nothing is hidden
    table.data[4, 1], table.mask[4, 1] = 1e6, True
    for hidden in (table, list(table)):
        with pytest.raises(
            ValueError, match=r"^row 4, X: an entry is masked, that is missing; fill it, or drop the row"
        ):
            PACPrivatizer("mean", MI(0.1), worlds=8).fit(hidden)
    labels = np.ma.array(np.tile([0, 1], 6), mask=[i == 2 for i in range(12)])
    for given in ({"y": labels}, {"groups": labels}):
        with pytest.raises(ValueError, match=r"^row 2, (y|groups): an entry is masked"):
            PACPrivatizer("mean", MI(0.1), worlds=8).fit(X, **given)


def hiding(values):
    return np.ma.array(values, mask=[True] + [False] * (len(values) - 1))


HIDDEN = r"^row \d+, the output: an entry is masked, that is missing"
IMAGINARY = "^the output must be real numbers, got complex ones"


class Given(MeanMechanism):
    """The mean, as whatever the test makes of it; by moments where it says so."""

    at: ClassVar = {}

    def output(self, X, y):
        return self.at.get("output", np.asarray)(X.mean(axis=0))

    def moments(self, X, y):
        return self.at.get("moments", np.asarray)(X) if self.at.get("sums") else None

    def from_moments(self, means, count):
        return self.at.get("from_moments", np.asarray)(means)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (hiding, HIDDEN),
        (lambda mean: [hiding(mean), hiding(mean)], HIDDEN),
        (lambda mean: [mean[0], [np.ma.masked][0]], HIDDEN),
        (lambda mean: np.fft.rfft(mean), IMAGINARY),
        (lambda mean: mean.astype(complex), IMAGINARY),
        (lambda mean: [mean[0], 1j], IMAGINARY),
        (lambda mean: np.array([mean[0], 1j], dtype=object), IMAGINARY),
        (lambda mean: pd.Series(mean.astype(complex)), IMAGINARY),
    ],
)
def test_outputs_that_hide_or_lose_something_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        fit(function=lambda rows: make(rows.mean(axis=0)))


@pytest.mark.parametrize(("make", "told"), [(hiding, "an entry is masked"), (lambda v: v * 1j, "got complex ones")])
@pytest.mark.parametrize("where", ["reference", "moments", "from_moments", "output"])
def test_what_adapters_give_hides_nothing_either(monkeypatch, make, told, where):
    monkeypatch.setattr(Given, "at", {where: make, "sums": where != "output"})
    start = (make if where == "reference" else np.asarray)(X.mean(axis=0))
    if where == "moments" and make is hiding:  # a mask for rows, not for an output
        make = Given.at["moments"] = lambda rows: np.ma.array(rows, mask=rows > 1)
    with pytest.raises(ValueError, match=told if where != "output" else "the algorithm failed in every world"):
        PACPrivatizer(None, MI(1.0), worlds=8, adapter=lambda estimator, X, y: Given(start, mean)).fit(X)
    monkeypatch.setattr(Given, "at", {"sums": where != "output"})
    PACPrivatizer(None, MI(1.0), worlds=8, adapter=lambda estimator, X, y: Given(X.mean(axis=0), mean)).fit(X)


def test_worlds_whose_output_hides_something_have_failed():
    """A refusal there would tell of the world."""
    rare = np.vstack([X, [[50.0, 0.0]]])

    def algorithm(rows):
        found = rows.mean(axis=0)
        return hiding(found) if len(rows) < 13 and rows[:, 0].max() == 50 else found

    trials = PACPrivatizer(algorithm, MI(1.0), worlds=8).fit(rare).trials_
    assert 0 < trials.failed.sum() < 8
    np.testing.assert_array_equal(trials.outputs[trials.failed], np.tile(rare.mean(axis=0), (trials.failed.sum(), 1)))


def test_masks_without_hidden_entries_hide_nothing():
    plain = PACPrivatizer(mean, MI(1.0), worlds=8, worlds_seed=1).fit(X)
    masked = PACPrivatizer(
        lambda rows: np.ma.array(rows.mean(axis=0), mask=False), MI(1.0), worlds=8, worlds_seed=1
    ).fit(X)
    np.testing.assert_array_equal(masked.trials_.outputs, plain.trials_.outputs)


@pytest.mark.parametrize(("score", "told"), [(np.ma.masked, "scorer: an entry is masked"), (1j, "scorer must be real")])
def test_scores_and_weights_hide_nothing_either(score, told):
    fitted = fit()
    with pytest.raises(ValueError, match=told):
        fitted.simulate_utility(lambda released: score, 4)
    with pytest.raises(ValueError, match=told):
        PACPrivatizer(mean, MI(1.0), worlds=8, noise="task", scorer=lambda released: score).fit(X)
    for weights in (np.ma.array([1.0, 1.0], mask=[True, False]), np.array([1.0, 1j])):
        with pytest.raises(ValueError, match=r"weights: an entry is masked|weights must be real numbers"):
            PACPrivatizer(mean, MI(1.0), worlds=8, weights=weights).fit(X)


def test_models_that_hide_labels_are_refused(tmp_path):
    models = [lambda X: np.zeros(len(X), int), lambda X: np.ma.array(np.zeros(len(X), int), mask=True)]
    members = np.array([[True, False], [False, True]])
    with (
        ResponseServer(
            models, members, MI(1.0), classes=[0, 1], fallback="votes", per_query=0.1, ledger=tmp_path / "a"
        ) as server,
        pytest.raises(ValueError, match=r"^row 0, what model 1 gives: an entry is masked"),
    ):
        server.answer([[0.0]])


@pytest.mark.parametrize("hold", [list, pl.Series, pa.array, lambda values: np.array(values, dtype=object)])
@pytest.mark.cases(1)
def test_labels_are_labels_whatever_holds_them(hold):
    truths = (X[:, 0] > 0).tolist()
    plain = PACPrivatizer(LogisticRegression(), MI(0.1), worlds=16, worlds_seed=1).fit(X, truths)
    for values in (truths, [decimal.Decimal(int(truth)) for truth in truths], list(map(int, truths))):
        wide = hold is pl.Series and type(values[0]) is int
        given = pl.Series(values, dtype=pl.Int128) if wide else hold(values)
        found = PACPrivatizer(LogisticRegression(), MI(0.1), worlds=16, worlds_seed=1).fit(X, given)
        np.testing.assert_array_equal(found.trials_.outputs, plain.trials_.outputs)
    with pytest.raises(ValueError, match="two labels are one number of double precision"):
        fit(y=np.array([0, 2**70, 2**70 + 1] * 4, dtype=object))


HOLDERS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda values: np.array([*values, None], dtype=object)[:-1],
    "pandas": lambda values: pd.Series(list(values), dtype=object),
    "categories": lambda values: pd.Series(list(values), dtype=object).astype("category"),
    "polars": lambda values: pl.Series(values, dtype=pl.Object if len(set(map(type, values))) > 1 else None),
    "column": lambda values: [[value] for value in values],
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize(
    "labels",
    [
        (2**53, 2**53 + 1, 1.0),
        (2**63, 2**63 + 1, 1),
        ("a", "a\0", "b"),
        (b"a", b"a\0", b"b"),
    ],
)
def test_three_labels_are_three_in_whatever_holds_them(hold, labels):
    """NumPy's own reading of a list makes two of them."""
    if hold is HOLDERS["categories"] and type(labels[0]) is int:
        pytest.skip("pandas itself makes doubles of them")
    held = pool.checked_labels(hold(labels * 4), 12)
    assert held.tolist() == list(labels) * 4
    units = check_pool(X, hold(labels * 4), None, mean)[1]
    assert units.sizes.tolist() == [4, 4, 4]
    assert len(set(pool.checked_labels(hold(labels * 4), 12, "groups").tolist())) == 3


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ((1, "1", "b"), "int, str"),
        ((True, "1", "b"), "bool, str"),
        ((0.1, "0.1", "b"), "float, str"),
        ((True, 1, 0), "bool, int"),
        ((False, 0.0, 2.5), "bool, float"),
        ((1, "1"), "int, str"),
        (("a", b"a"), "bytes, str"),
    ],
)
def test_labels_of_two_kinds_are_refused_in_whatever_holds_them(hold, labels, told):
    for name, given in (("y", {"y": hold(labels * (12 // len(labels)))}), ("groups", None)):
        given = given or {"groups": hold(labels * (12 // len(labels)))}
        if hold is HOLDERS["categories"] and {True, False} & {label for label in labels if type(label) is bool}:
            told = "bool"  # pandas itself makes one category of True and 1
        with pytest.raises(
            ValueError, match=f"^{name} mixes values of the types .*{told}.*; make them all of one type"
        ):
            fit(**given)


def test_an_estimator_that_takes_two_labels_for_one_is_refused():
    """RidgeClassifier binarises labels by arrays of texts, where "a" is "a" with a trailing zero."""
    with pytest.raises(ValueError, match="the library takes two labels for one; recode them"):
        PACPrivatizer(RidgeClassifier(), MI(1.0), worlds=8).fit(X, ["a", "a\0", "b"] * 4)
    found = PACPrivatizer(LogisticRegression(), MI(1.0), worlds=8).fit(X, ["a", "a\0", "b"] * 4).release()
    assert found.estimator_.classes_.tolist() == ["a", "a\0", "b"]


def test_labels_that_are_lists_are_refused():
    for labels in ([[1], [1, 2]] * 6, pl.Series([[1], [2]] * 6), pd.Series([(1,), (2,)] * 6)):
        with pytest.raises(ValueError, match=r"^y must be single values, one each, got lists"):
            fit(y=labels)


def test_models_of_worlds_know_labels_by_their_values():
    table, labels = (
        np.repeat(np.eye(3), 8, axis=0) * 5 + np.random.default_rng(0).normal(size=(24, 3)),
        ["a", "a\0", "b"],
    )
    y = np.repeat(np.array(labels, dtype=object), 8)
    kept = WorldModels.fit(DecisionTreeClassifier(), table, y.tolist(), worlds=8, worlds_seed=1)
    assert kept.classes.tolist() == labels
    plain = WorldModels.fit(DecisionTreeClassifier(), table, np.repeat([0, 1, 2], 8), worlds=8, worlds_seed=1)
    assert kept.on_pool == plain.on_pool
    for holder in (list, pl.Series, pd.Series):
        assert kept.accuracy(table, holder(y.tolist())) == plain.on_pool
    with pytest.raises(ValueError, match=r"^y must hold one value per row"):
        kept.accuracy(table, ["a"])


def test_a_folder_of_models_holds_the_labels_or_says_that_it_cannot(tmp_path):
    y = ["a", "a\0"] * 6
    kept = WorldModels.fit(DecisionTreeClassifier(), X, y, worlds=8, worlds_seed=1)
    with pytest.raises(ValueError, match="a label is neither a number nor a text that such a folder holds"):
        kept.save(tmp_path / "a")
    WorldModels.fit(DecisionTreeClassifier(), X, ["a", "b"] * 6, worlds=8, worlds_seed=1).save(tmp_path / "b")
    assert WorldModels.load(tmp_path / "b").classes.tolist() == ["a", "b"]


def test_a_released_model_keeps_its_labels_in_a_file_of_arrays(tmp_path):
    for labels in (["a", "a\0", "b"], [1, 2**63, 2**63 + 1], [2**53, 2**53 + 1, 0]):
        release = PACPrivatizer(LogisticRegression(), MI(1.0), worlds=8).fit(X, labels * 4).release()
        release.save_model(tmp_path / "model.npz")
        assert load_model(tmp_path / "model.npz").classes_.tolist() == sorted(labels)


def test_numbers_of_a_pool_are_numbers_whatever_holds_them():
    numbers = np.round(100 * X)
    plain = PACPrivatizer("mean", MI(1.0), worlds=8, worlds_seed=1).fit(numbers)
    columns = {"age": numbers[:, 0].astype(int).tolist(), "income": numbers[:, 1].tolist()}
    for table in (
        pa.table(columns),
        pa.table({name: pa.array(column).dictionary_encode() for name, column in columns.items()}),
        pl.DataFrame(columns, schema={"age": pl.Int128, "income": pl.Float64}),
        pd.DataFrame(columns).map(decimal.Decimal).astype(object),
    ):
        found = PACPrivatizer("mean", MI(1.0), worlds=8, worlds_seed=1).fit(table)
        np.testing.assert_array_equal(found.trials_.outputs, plain.trials_.outputs)
        assert found.feature_names_in_.tolist() == ["age", "income"]
        assert WorldModels.fit(LogisticRegression(), table, X[:, 0] > 0, worlds=4).members.shape == (4, 12)
    huge = numbers.astype(object)
    huge[3, 1] = 10**400
    for table, function in (
        (huge, "mean"),
        (pd.DataFrame(huge), "mean"),
        (pd.DataFrame(huge, columns=["a", "b"]), len),
    ):
        with pytest.raises(ValueError, match=r"row 3, column .*: the value is missing"):
            PACPrivatizer(function, MI(1.0), worlds=8).fit(table)
