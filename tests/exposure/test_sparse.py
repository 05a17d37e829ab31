"""Sparse tables: their sums, how far each row moves the model, windows, tables of categories, files."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from exposure_worlds import hard_worlds, precise, rounded_worlds, world
from scipy import sparse

from epsworth.exposure import ExposureError, SparseRows, encode, fit_base, left_out, loo, moves, steps, tables, window
from epsworth.exposure.glm import LOSSES
from epsworth.exposure.sparse import MOST_COLUMNS
from strategies import sparing


def table_of_categories(n=600, seed=0):
    rng = np.random.default_rng(seed)
    job, town = rng.choice(["a", "b", "c"], n), rng.choice([f"t{i}" for i in range(20)], n)
    age = rng.uniform(18, 90, n)
    rich = np.where(age + 20 * (job == "a") + 20 * rng.normal(size=n) > 60, "yes", "no")
    return pl.DataFrame({"age": age, "job": job, "town": [None if t == "t3" else t for t in town], "rich": rich})


@pytest.fixture
def thin(monkeypatch):
    """Keep every encoded table sparse."""
    monkeypatch.setattr(tables, "MOST_DENSE", 0)


def some_rows(kind, seed):
    """Return sparse rows of SciPy's making, or of categories, with the same rows in full."""
    rng = np.random.default_rng(seed)
    if kind == "matrix":
        matrix = sparse.random(300, 17, density=0.2, random_state=rng, format="csc")
        return SparseRows.of(matrix), matrix.toarray()
    X = encode(table_of_categories(300, seed), "rich").X
    return X, X.dense()


def test_entries_given_twice_are_summed_as_numbers_of_any_size():
    twice = sparse.coo_array((np.array([127, 127, 2], dtype=np.int8), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert SparseRows.of(twice).dense().tolist() == [[0, 254], [2, 0]]


@pytest.mark.parametrize("kind", ["matrix", "categories"])
@pytest.mark.parametrize("cells", [0, 1 << 22])
@pytest.mark.usefixtures("thin")
def test_sums_are_those_of_the_matrix(kind, cells, monkeypatch):
    from epsworth.exposure import sparse as module

    monkeypatch.setattr(module, "FEW_CELLS", cells)
    monkeypatch.setattr(module, "CROSSED", 77)
    monkeypatch.setattr(module, "SUMMED", 50)
    monkeypatch.setattr(module, "PANEL", 5)
    for seed in range(10):
        rng = np.random.default_rng(100 + seed)
        rows, full = some_rows(kind, seed)
        n, d = full.shape
        f, weights, few = rng.normal(size=d), rng.normal(size=n), rng.normal(size=(n, 3))
        form = rng.normal(size=(d, d))
        form += form.T
        same = {"atol": 1e-12, "rtol": 0}
        np.testing.assert_allclose(rows @ f, full @ f, **same)
        np.testing.assert_allclose(rows @ form[:, :4], full @ form[:, :4], **same)
        np.testing.assert_allclose(rows.T @ weights, full.T @ weights, **same)
        np.testing.assert_allclose(rows.T @ few, full.T @ few, **same)
        gram = rows.gram(weights)
        np.testing.assert_allclose(gram, full.T @ (weights[:, None] * full), **same)
        assert np.array_equal(gram, gram.T)
        np.testing.assert_allclose(rows.forms(form)[0], np.einsum("ij,jk,ik->i", full, form, full), **same)
        np.testing.assert_allclose(rows.squares, (full**2).sum(axis=1), **same)
        assert np.array_equal(rows[7:200:3].dense(), full[7:200:3])
        assert np.array_equal(rows.absolute().dense(), np.abs(full))
        chosen = rng.random(d) < rng.random()
        assert np.array_equal(rows.columns(chosen).dense(), full[:, chosen])
        np.testing.assert_allclose(rows.columns(chosen).gram(weights), gram[np.ix_(chosen, chosen)], **same)


def thinned(X, rng):
    """Return rows with some entries left out, as a matrix of SciPy and in full."""
    X = np.where(rng.random(X.shape) < 0.4, 0.0, X)
    return sparse.csr_array(X), X


@pytest.mark.parametrize("worlds", sparing([6, 40], keep=[0]))
def test_moves_are_off_by_less_than_is_said(worlds, monkeypatch):
    """Judged by retraining in long double, down to l2 = 1e-6, for every row."""
    known = rows = 0
    rng = np.random.default_rng(5)
    for full, y, l2, regulariser in hard_worlds(worlds, 77):
        matrix, X = thinned(full, rng)
        f, n = fit_base(matrix, y, l2), len(X)
        found = moves(matrix, y, f, l2, regulariser=regulariser)
        dense = loo(X, y, f, l2, regulariser=regulariser)
        np.testing.assert_allclose(found.distances, dense.distances, rtol=1e-6, atol=1e-9)  # Newton's step, both
        base, base_off = precise(X, y, l2 * n, f)
        for i in range(n):
            kept = np.arange(n) != i
            truth, off = precise(X[kept], y[kept], l2 * (n - (regulariser == "mean")), f + dense.deltas[i])
            error = abs(float(np.linalg.norm(truth - base)) - found.distances[i])
            assert error <= found.errors[i] + base_off + off
        known, rows = known + int((found.errors < 0.5 * found.distances).sum()), rows + n
    assert known > 0.2 * rows  # most worlds are hard: there is something to lose


@pytest.mark.cases(60)
def test_moves_count_rounding(monkeypatch):
    """Newton's step is exact on a parabola, and judged by fractions."""

    def broken():
        for X, y, l2, regulariser, base, without in rounded_worlds():
            matrix = sparse.csr_array(X)
            f = fit_base(matrix, y, l2, loss="squared")
            found = moves(matrix, y, f, l2, loss="squared", regulariser=regulariser)
            for truth, distance, error in zip(without, found.distances, found.errors, strict=True):
                yield abs(abs(truth - base) - Fraction(distance)) > error

    assert not any(broken())
    for module in (left_out, steps):
        monkeypatch.setattr(module, "ROUNDING", 0.0)
    assert any(broken())  # these worlds need it


def inverse(matrix):
    """Return the inverse of a matrix of fractions, by elimination."""
    d = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(d))] for i, row in enumerate(matrix)]
    for k in range(d):
        rows[k] = [v / rows[k][k] for v in rows[k]]
        rows = [
            row if i == k else [v - row[k] * w for v, w in zip(row, rows[k], strict=True)] for i, row in enumerate(rows)
        ]
    return [row[d:] for row in rows]


def form(matrix, x):
    return sum(x[i] * matrix[i][j] * x[j] for i in range(len(x)) for j in range(len(x)))


def test_forms_are_off_by_less_than_is_charged():
    """Of a parabola, whose Hessian is a sum of fractions; rows of all sizes, columns that are almost the same."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        n, d = int(rng.integers(3, 12)), int(rng.integers(1, 4))
        X = rng.uniform(-0.5, 0.5, (n, d)) * 10.0 ** -rng.uniform(0, 4, (n, 1))
        X[:, -1] = X[:, 0] * (1 + 1e-7 * rng.random(n))
        l2 = 10 ** rng.uniform(-6, -1)
        rows = SparseRows.of(sparse.csr_array(X))
        problem = left_out.Problem(
            rows, np.where(np.arange(n) % 2, 1.0, -1.0), np.zeros(d), l2, LOSSES["squared"], "mean"
        )
        made = steps._Steps.of(problem)
        exact = [[Fraction(v) for v in row] for row in X.tolist()]
        shared = [
            [sum(x[i] * x[j] for x in exact) + Fraction(problem.weight) * (i == j) for j in range(d)] for i in range(d)
        ]
        known = inverse(shared)
        B = [[Fraction(v) for v in row] for row in made.inverse.tolist()]
        twice = [[sum(B[i][k] * B[k][j] for k in range(d)) for j in range(d)] for i in range(d)]
        first, second = rows.forms(made.inverse, made.squared)
        off, square_off = made._form_offs(slice(0, n), second)
        for x, value, charge, square, more in zip(exact, first, off, second, square_off, strict=True):
            assert abs(form(known, x) - Fraction(value)) <= Fraction(charge)
            assert abs(form(twice, x) - Fraction(square)) <= Fraction(more)


def test_columns_of_very_different_sizes_are_certified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30)) * 10.0 ** -np.linspace(0, 4, 30)
    X, y = X / (1.0001 * np.linalg.norm(X, axis=1).max()), rng.random(300) < 0.5
    thin, full = (moves(rows, y, fit_base(rows, y, 1e-3), 1e-3) for rows in (sparse.csr_array(X), X))
    np.testing.assert_allclose(thin.distances, full.distances, rtol=1e-9)
    assert (thin.errors <= 5 * full.errors).all()


@pytest.mark.parametrize("regulariser", ["mean", "sum"])
def test_windows_of_sparse_rows_are_those_of_the_same_rows_in_full(regulariser):
    X, y = world(600, 6)
    matrix, full = thinned(X, np.random.default_rng(2))
    for l2 in (1e-4, 1e-2):
        thin, dense = (
            window(rows, y, l2, regulariser=regulariser, rng=np.random.default_rng(1)) for rows in (matrix, full)
        )
        assert thin.epsilon_low == pytest.approx(dense.epsilon_low, rel=1e-3)
        assert thin.epsilon_high == pytest.approx(dense.epsilon_high, rel=0.02)
        assert thin.epsilon_util == dense.epsilon_util
        assert (thin.exposure(1.0) <= 1).all()


@pytest.mark.slow
def test_workers_and_checkpoints_change_no_bit(tmp_path):
    X, y = world(300, 4)
    matrix, _ = thinned(X, np.random.default_rng(2))

    def answer(**settings):
        found = window(matrix, y, 1e-3, rng=np.random.default_rng(1), **settings)
        return found.to_dict(), found.neighbours.errors.tolist()

    first = answer(checkpoint=tmp_path / "run")
    assert answer(n_jobs=2) == first == answer(checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="rows"):
        window(matrix * 0.9, y, 1e-3, rng=np.random.default_rng(1), checkpoint=tmp_path / "run")


def test_a_large_table_stays_sparse_and_says_the_same(monkeypatch):
    table = table_of_categories()
    full = encode(table, "rich")
    monkeypatch.setattr(tables, "MOST_DENSE", 0)
    thin = encode(table, "rich")
    assert isinstance(thin.X, SparseRows)
    assert (thin.names, thin.positive, thin.y.tolist()) == (full.names, full.positive, full.y.tolist())
    np.testing.assert_allclose(thin.X.dense(), full.X, rtol=1e-14, atol=0)
    assert thin.X.squares.max() <= 1


@pytest.mark.parametrize("library", ["polars", "pandas", "categories", "objects", "file", "csv"])
def test_a_table_is_encoded_alike_whatever_holds_it(library, tmp_path):
    table = table_of_categories()
    frame = table.to_pandas()
    if library == "categories":
        frame = frame.astype({"job": "category", "town": "category", "rich": "category"})
    if library == "objects":
        frame = frame.astype(object)
        frame.loc[0, "town"] = 7  # a number among texts
        table = pl.DataFrame({**table.to_dict(), "town": ["7", *table["town"][1:]]})
    table.write_parquet(tmp_path / "table.parquet")
    given = {"polars": table, "file": tmp_path / "table.parquet"}.get(library, frame)
    if library == "csv":
        table.write_csv(tmp_path / "table.csv")
        given = tmp_path / "table.csv"
    found, wanted = encode(given, "rich"), encode(table, "rich")
    if library != "csv":  # where a gap is an empty text
        assert found.names == wanted.names
    if library != "objects":
        np.testing.assert_allclose(np.sort(found.X, axis=1), np.sort(wanted.X, axis=1), rtol=1e-12)
    assert found.y.tolist() == wanted.y.tolist()


def test_categories_that_are_numbers_are_categories():
    frame = table_of_categories(60).to_pandas().assign(grade=np.arange(60) % 3 + 5).astype({"grade": "category"})
    found = encode(frame, "rich")
    assert found.names[-4:] == ("grade=5", "grade=6", "grade=7", "(constant)")
    frame.loc[0, "grade"] = None
    assert "grade=(missing)" in encode(frame, "rich").names


@pytest.mark.parametrize("values", [2**62 + np.arange(60), 1e15 + np.arange(60)])
@pytest.mark.cases("all")
def test_numbers_that_hardly_differ_are_not_dropped_in_silence(values):
    table = table_of_categories(60).with_columns(id=pl.Series(values), same=pl.lit(1e15))
    with pytest.raises(ExposureError, match="column 'id' holds numbers that differ by less than"):
        encode(table, "rich")
    assert "same" not in encode(table.drop("id"), "rich").names


def test_labels_may_be_texts():
    X, y = world(50, 2)
    words = np.where(y > 0, "well", "ill")
    for labels in (words, words.tolist(), words.astype(object)):
        assert np.array_equal(fit_base(X, labels, 0.1), fit_base(X, y, 0.1))
    with pytest.raises(ExposureError, match="y, row 1 has no label"):
        fit_base(X, ["a", None, *["b"] * 48], 0.1)
    with pytest.raises(ExposureError, match="texts alone, or numbers alone"):
        fit_base(X, ["a", 1, *["b"] * 48], 0.1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X, y, f: loo(X, y, f, 0.1), "X is a sparse table, for which this takes too much"),
        (lambda X, y, f: moves(X, y, f, 0.1, regulariser="median"), "regulariser must be mean or sum"),
        (lambda X, y, f: window(X * 3, y, 0.1), "X, row [0-9]+ lies outside the unit ball"),
        (lambda X, y, f: window(X * np.nan, y, 0.1), "X, row [0-9]+ holds a missing or infinite value"),
        (lambda X, y, f: window(X.astype(complex), y, 0.1), "X must be a table of numbers"),
        (lambda X, y, f: window(X[:1], y[:1], 0.1), "X has 1 rows"),
        (lambda X, y, f: window(sparse.csr_array((40, MOST_COLUMNS + 1)), y, 0.1), "columns, more than 15,000"),
        (lambda X, y, f: window(X, y, 0.1, held_out=(X[:, :1], y), rng=1), "held_out must have the columns of X"),
    ],
)
def test_wrong_sparse_input_is_told_in_a_sentence(call, sentence):
    X, y = world(40, 2)
    with pytest.raises(ExposureError, match=sentence):
        call(sparse.csr_array(X), y, np.zeros(2))


def test_a_column_of_names_is_refused():
    table = pl.DataFrame({"name": [f"n{i}" for i in range(500)], "y": [0, 1] * 250})
    with pytest.raises(ExposureError, match="column 'name' has 500 different texts"):
        encode(table, "y")
