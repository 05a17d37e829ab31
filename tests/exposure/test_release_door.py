"""The door of a release: whatever the private values are, it opens, and noise covers what one row can move."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from exposure_worlds import world

from epsworth.exposure import (
    ExposureError,
    expost_objective,
    fit_base,
    linear_gradients,
    loo,
    norm_bound,
    release,
    releasing,
    sensitivity,
    window,
)
from epsworth.exposure.fitting import GRADIENT_TOLERANCE, LEAST_L2, into_ball, minimise
from epsworth.exposure.glm import LOSSES
from epsworth.exposure.inputs import positives

X, Y = world(30, 3)
NAN, INF = math.nan, math.inf


class Strange:
    """An object all of whose answers fail."""

    def __float__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


def replaced(row, label):
    table, labels = X.copy(), np.ones(30)
    table[0], labels[0] = row, label
    return table, labels


@pytest.mark.parametrize("regulariser", ["mean", "sum"])
@pytest.mark.parametrize(
    "row", [[0, 0, 0], [1, 0, 0], [9, 9, 9], [1e200, 0, 0], [NAN, 0, 0], [INF, -INF, 0], [1e-320] * 3]
)
def test_no_neighbour_is_refused_and_public_facts_stay_the_same(row, regulariser):
    """One label for all, or one that differs, is missing or unknown; any row at all: no difference outside the draw."""
    seen = [
        release(*replaced(row, label), 0.1, 1.0, n=30, regulariser=regulariser) for label in (1, -1, 0, 7, NAN, INF)
    ]
    assert len({(found.rate, found.step, found.epsilon, found.n, str(found)) for found in seen}) == 1
    assert all(np.isfinite(found.coefficients).all() for found in seen)


ODD = [None, pd.NA, "?", 10**400, Decimal("sNaN"), [1], np.array([1, 2]), np.ones(2), 1j, "b" * 9, np.datetime64("NaT"),
       np.longdouble("1e4000"), {}, Strange()]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_an_entry_that_is_no_number_makes_its_row_zeros_and_nothing_else(monkeypatch, odd):
    monkeypatch.setattr(releasing, "_noise", lambda d, beta, step: [0] * d)
    labels = [1, -1, True]
    expected = release([[0.5, 0.2], [0, 0], [1, 0.1]], labels, 0.1, 1.0, n=3).coefficients
    rows = [[0.5, 0.2], [odd, 0.9], [True, 0.1]]
    table = np.empty((3, 2), dtype=object)
    for (i, j), _ in np.ndenumerate(table):
        table[i, j] = rows[i][j]
    masked = np.ma.array(table, mask=[[False] * 2] * 3)
    for X in (rows, tuple(map(tuple, rows)), table, list(table), masked, pd.DataFrame(table)):
        assert np.array_equal(release(X, labels, 0.1, 1.0, n=3).coefficients, expected)


@pytest.mark.parametrize("kind", ["Float64", "Int64", "boolean", "double[pyarrow]", "object", "float64"])
@pytest.mark.filterwarnings("error")
def test_a_missing_entry_is_zeros_in_columns_of_every_numeric_type(monkeypatch, kind):
    monkeypatch.setattr(releasing, "_noise", lambda d, beta, step: [0] * d)
    known, missing = (pd.DataFrame({"a": pd.array([1, x, 0], dtype=kind), "b": [0.0, y, 0.2]})
                      for x, y in ((0, 0.0), (None, 0.1)))  # fmt: skip
    one, other = (release(table, [1, -1, 1], 0.1, 1.0, n=3).coefficients for table in (known, missing))
    assert np.array_equal(one, other)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("classes", [(-1, 1), ("a", "b"), (False, True)])
def test_a_label_that_is_none_counts_as_the_first_class(odd, classes):
    first, second = classes
    labels = [second, odd, second, first]
    column = np.empty(4, dtype=object)
    column[:] = labels
    for y in (labels, tuple(labels), column, pd.Series(labels, dtype=object), np.ma.array(column, mask=False)):
        assert list(positives(y, 4, classes)) == [True, False, True, False]
    assert not positives([NAN] * 4, 4, classes).any()
    assert list(positives(pd.Series([1, None], dtype="Int64"), 2, (-1, 1))) == [True, False]


TYPED = {
    "numpy": np.array,
    "masked": lambda values: np.ma.array(values, mask=False),
    "pandas": pd.Series,
    "nullable": lambda values: pd.Series(pd.array(values)),
    "pandas of Arrow": lambda values: pd.Series(pa.array(values), dtype=pd.ArrowDtype(pa.array(values).type)),
    "category": lambda values: pd.Series(values, dtype="category"),
    "index": pd.Index,
    "polars": pl.Series,
    "Arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
}
TEXTS = TYPED | {
    "polars of categories": lambda values: pl.Series(values, dtype=pl.Categorical),
    "enumeration": lambda values: pl.Series(values, dtype=pl.Enum(sorted(set(values)))),
}
UNTYPED = {
    "list": list,
    "tuple": tuple,
    "objects": lambda values: np.array([*values, None], dtype=object)[:-1],
    "pandas of objects": lambda values: pd.Series(list(values), dtype=object),
    "polars of objects": lambda values: pl.Series(values, dtype=pl.Object),
}


@pytest.mark.parametrize("hold", TEXTS.values(), ids=TEXTS)
def test_texts_are_refused_for_classes_that_are_numbers_in_every_typed_column(hold):
    with pytest.raises(
        ExposureError, match=r"^y is of type .*, the declared classes are \(0, 1\); declare those of y$"
    ):
        positives(hold(["0", "1", "1"]), 3, (0, 1))
    assert list(positives(hold(["0", "1", "1"]), 3, ("0", "1"))) == [False, True, True]


@pytest.mark.parametrize("hold", TYPED.values(), ids=TYPED)
@pytest.mark.parametrize("labels", [[0, 1, 1], [0.0, 1.0, 1.0], [False, True, True]])
def test_numbers_are_refused_for_classes_that_are_texts_in_every_typed_column(hold, labels):
    with pytest.raises(ExposureError, match=r"^y is of type .*, the declared classes are \('0', '1'\)"):
        positives(hold(labels), 3, ("0", "1"))
    for classes in ((0, 1), (0.0, 1.0), (False, True), (np.int64(0), np.float32(1))):
        assert list(positives(hold(labels), 3, classes)) == [False, True, True]


@pytest.mark.parametrize("hold", UNTYPED.values(), ids=UNTYPED)
def test_where_no_type_is_declared_a_label_is_what_it_spells(hold):
    """Nothing may be refused there, and a model of no positives would be a wrong one."""
    for labels in (["0", "1", "1"], [0, 1, 1], [0.0, 1.0, 1.0], [np.int8(0), np.float64(1), Decimal(1)]):
        for classes in ((0, 1), ("0", "1"), (0.0, 1.0)):
            assert list(positives(hold(labels), 3, classes)) == [False, True, True]
    for classes in (("False", "True"), ("false", "true")):
        assert list(positives(hold([False, True, None]), 3, classes)) == [False, True, False]
    assert list(positives(hold(["1", "01", 1]), 3, ("1", "01"))) == [False, True, False]


SINGLE = {
    "numpy": lambda values: np.array(values, dtype=np.float32),
    "pandas": lambda values: pd.Series(values, dtype="float32"),
    "nullable": lambda values: pd.Series(values, dtype="Float32"),
    "pandas of Arrow": lambda values: pd.Series(values, dtype="float[pyarrow]"),
    "category": lambda values: pd.Series(values, dtype="float32").astype("category"),
    "polars": lambda values: pl.Series(values, dtype=pl.Float32),
    "Arrow": lambda values: pa.array(values, type=pa.float32()),
}


@pytest.mark.parametrize("hold", SINGLE.values(), ids=SINGLE)
def test_labels_of_single_precision_are_those_that_were_declared(hold):
    assert list(positives(hold([0.2, 0.1, 0.1]), 3, (0.2, 0.1))) == [False, True, True]
    assert list(positives(hold([0.2, None, 0.1]), 3, (0.2, 0.1))) == [False, False, True]
    with pytest.raises(
        ExposureError, match=r"^y is of type .*, to which the declared classes .* are one; recode them$"
    ):
        positives(hold([2**24, 2**24]), 2, (2**24, 2**24 + 1))


@pytest.mark.parametrize("hold", TYPED.values(), ids=TYPED)
def test_whole_numbers_beyond_doubles_are_told_apart_or_refused(hold):
    big = [2**53, 2**53 + 1]
    assert list(positives(hold(big), 2, tuple(big))) == [False, True]
    assert list(positives(hold(big), 2, (0, 2.0**53))) == [True, False]
    with pytest.raises(ExposureError, match=r"to which the declared classes .* are one"):
        positives(hold([2.0**53, 2.0**53]), 2, tuple(big))
    for held in UNTYPED.values():
        assert list(positives(held([2.0**53, big[1], np.int64(big[1]), np.float64(big[0])]), 4, tuple(big))) == [
            False, True, True, False,
        ]  # fmt: skip


@pytest.mark.parametrize("classes", [(0, 1), ("a", "b")])
@pytest.mark.parametrize(
    "y",
    [
        np.array(["2020", "2021"], dtype="M8[D]"), pd.Series(pd.to_datetime(["2020", "2021"])), pl.Series([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]), np.array([1j, 1]), np.array([b"a", b"b"]), pl.Series([b"a", b"b"]),
        pd.Series(pd.interval_range(0, 2)),
    ],
    ids=lambda y: str(getattr(y, "dtype", getattr(y, "type", None))),
)  # fmt: skip
def test_labels_of_other_types_are_refused_by_their_type(y, classes):
    with pytest.raises(ExposureError, match=r"^y is of type .*, the declared classes are"):
        positives(y, 2, classes)


def test_decimals_and_gaps_are_labels_like_others():
    for y in (pl.Series([Decimal("0.1"), Decimal("0.2"), None]), pa.array([Decimal("0.1"), Decimal("0.2"), None])):
        assert list(positives(y, 3, (0.2, 0.1))) == [True, False, False]
        assert list(positives(y, 3, (0.1, 0.2))) == [False, True, False]
    for y in (pl.Series([None, None]), pa.nulls(2), [None, None]):
        assert not positives(y, 2, (0, 1)).any()


def test_the_analysis_tells_labels_apart_as_they_are():
    one, other = np.where(Y > 0, 2**53 + 1, 2**53), np.where(Y > 0, 1, 0)
    for hold in (np.array, list, pd.Series, pl.Series):
        assert np.array_equal(fit_base(X, hold(one.tolist()), 0.1), fit_base(X, other, 0.1))
    with pytest.raises(ExposureError, match="y must hold two different labels, got 3"):
        fit_base(X, [1, *one[1:].tolist()], 0.1)


@pytest.mark.parametrize(("X", "sentence"), [
    (pd.DataFrame({"a": pd.Series(["x", "y"], dtype="string")}), "a column of type str"),
    (pd.DataFrame({"a": pd.Series([1, 2], dtype="category")}), "a column of type category"),
    (np.array([["1"], ["2"]]), "a column of type"), (np.ones((2, 1), dtype=complex), "a column of type complex"),
    ([[1, 2], [1]], "rows of one length"), ([1, 2], "rows of one length"),
    (np.ones(2, dtype=object), "must be a table"), (np.ones(2), "must be a table"),
    (np.ones((2, 0)), "must be a table"), ([], "rows of one length"),
])  # fmt: skip
def test_types_and_shapes_of_tables_may_be_refused(X, sentence):
    with pytest.raises(ExposureError, match=sentence):
        release(X, [1, -1], 0.1, 1.0, n=2)


def test_classes_are_declared_and_the_second_is_positive(monkeypatch):
    monkeypatch.setattr(releasing, "_noise", lambda d, beta, step: [0] * d)
    base = release(X, Y, 0.1, 1.0, n=30).coefficients
    texts = np.where(Y > 0, "yes", "no")
    missing = np.ma.array(np.where(Y > 0, 1, 1), mask=Y < 0)  # what is masked is not the second class
    for labels, classes in (
        (Y > 0, (False, True)),
        (texts, ("no", "yes")),
        (texts.astype(object), ["no", "yes"]),
        (np.where(Y > 0, 1, 2), (2, 1)),
        (missing, (0, 1)),
        ([None if label < 0 else "yes" for label in Y], ("no", "yes")),
    ):
        assert np.array_equal(release(X, labels, 0.1, 1.0, n=30, classes=classes).coefficients, base)
    alone = release(X, np.ones(30), 0.1, 1.0, n=30)
    np.testing.assert_allclose(alone.coefficients, fit_base(X, np.ones(30), 0.1, classes=(-1, 1)), atol=alone.step)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"classes": (1, 1)}, "classes must be two different labels"),
        ({"classes": (1, "a")}, "classes must be two different labels"),
        ({"classes": (1, NAN)}, "classes must be two different labels"),
        ({"classes": 3}, "classes must be two different labels"),
        ({"classes": ("a", "b")}, "y is of type float64, the declared classes are"),
        ({"y": Y[1:]}, "y must hold one label per row"),
        ({"X": X[0]}, "X must be a table"),
        ({"n": 31}, "fewer than the public n = 31"),
        ({"n": 1}, "n must be a whole number of at least 2"),
        ({"epsilon": 1e-30}, "epsilon must lie between"),
        ({"epsilon": 1e300}, "epsilon must lie between"),
        ({"epsilon": "much"}, "epsilon must be positive and finite"),
        ({"l2": 1e-300}, "l2 must lie between"),
        ({"regulariser": "max"}, "regulariser must be mean or sum"),
    ],
)
def test_what_is_refused_is_public(changed, sentence):
    given = {"X": X, "y": Y, "l2": 0.1, "epsilon": 1.0, "n": 30}
    with pytest.raises(ExposureError, match=sentence):
        release(**{**given, **changed})


def test_every_row_is_mapped_into_the_ball_by_itself():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [NAN, 1.0], [1e300, 1e300], [-INF, 0.0], [1.0, 0.0]])
    found = into_ball(rows)
    np.testing.assert_allclose(found[:2], [[0.6, 0.8], [0.3, 0.4]], rtol=1e-15)
    assert np.array_equal(found, np.concatenate([into_ball(rows[i : i + 1]) for i in range(6)]))
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-15).all()


@pytest.mark.parametrize("calibration", ["chaudhuri", "add_remove"])
@pytest.mark.parametrize("regulariser", ["mean", "sum"])
def test_noise_covers_what_one_row_moves_in_a_release(monkeypatch, regulariser, calibration):
    """The worst rows: all alike but one against them.  With a fixed n l2 the weight must not grow with the rows."""
    monkeypatch.setattr(releasing, "_noise", lambda d, beta, step: [0] * d)
    for l2, rows in ((0.02, 30), (0.02, 3000), (3.0, 30)):
        table, labels = np.ones((rows, 1)), np.r_[np.ones(rows - 1), -1.0]
        one, other = (
            release(table[:m], labels[:m], l2, 1.0, n=30, calibration=calibration, regulariser=regulariser)
            for m in (rows, max(rows - 1, 30))
        )
        gap = abs(one.coefficients - other.coefficients)[0]
        assert one.rate * gap <= 1.0
    if regulariser == "sum":  # the public weight: 30 l2 beside the sum, for 3000 rows, too
        expected = fit_base(table[:1].repeat(3000, 0), np.r_[np.ones(2999), -1.0], 3.0 * 30 / 3000)
        many = release(np.ones((3000, 1)), np.r_[np.ones(2999), -1.0], 3.0, 1.0, n=30, regulariser="sum")
        np.testing.assert_allclose(many.coefficients, expected, atol=1e-4)


def test_a_release_charges_what_the_fit_leaves_and_cannot_see():
    """With so many rows the sensitivity is nothing beside the fit's tolerance and, of so many columns, its rounding."""
    beta, step = releasing.noise_rate(10**15, 10**6, 1.0, 1.0)
    left = GRADIENT_TOLERANCE + 10**6 * 2.0**-53 * norm_bound(1.0)
    assert 1 / beta >= 2e-15 + step * 1e3 + 2 * left


@pytest.mark.parametrize("loss", LOSSES)
def test_fits_end_far_below_their_tolerance_within_the_public_limits(loss):
    """A refusal by the solver would depend on the rows: repeated, contradicting, one-sided or tiny ones."""
    rng = np.random.default_rng(3)
    for n, d in product((2, 40), (1, 3, 50)):
        ball = rng.normal(size=(n, d))
        ball /= np.linalg.norm(ball, axis=1)[:, None]
        for rows in (ball, np.repeat(ball[:1], n, axis=0), ball * rng.random((n, 1)) ** 8):
            for labels in (np.ones(n), np.r_[-1.0, np.ones(n - 1)], rng.choice([-1.0, 1.0], n)):
                assert minimise(rows, labels, LEAST_L2, LOSSES[loss], np.zeros(d))[1] <= GRADIENT_TOLERANCE / 10


def test_analysis_of_one_class_takes_declared_classes():
    ones = np.ones(30)
    f = fit_base(X, ones, 0.1, classes=(-1, 1))
    assert loo(X, ones, f, 0.1, classes=(-1, 1)).distances.max() <= sensitivity(30, 0.1)
    assert window(X, ones, 0.1, classes=(-1, 1)).epsilon_low > 0
    assert expost_objective(X, ones, f, reg=1.0, noise_scale=1.0, classes=(-1, 1)).losses.shape == (30,)
    assert linear_gradients(X, ones, classes=(-1, 1))(f).shape == (30, 3)
    with pytest.raises(ExposureError, match="y, row 3 holds neither of the declared classes"):
        fit_base(X, np.r_[1, 1, 1, 0, np.ones(26)], 0.1, classes=(-1, 1))


def test_messages_show_no_value_of_the_data():
    secret = 8.25
    for rows, labels in (
        (np.full((30, 3), secret), Y),
        (X, np.where(np.arange(30) < 3, secret, Y)),
        (X, np.full(30, secret)),
    ):
        with pytest.raises(ExposureError) as caught:
            fit_base(rows, labels, 0.1)
        assert "8.25" not in str(caught.value)
        assert "14.2" not in str(caught.value)  # the norm
    with pytest.raises(ExposureError) as caught:
        fit_base(X, np.where(np.arange(30) < 3, secret, Y), 0.1, classes=(-1, 1))
    assert "8.25" not in str(caught.value)
