"""Moves of models as scikit-learn fits them: free intercepts, several classes; judged by retraining in long double."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from exposure_worlds import hard_worlds, precise, world
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from epsworth.exposure import ExposureError, exposed_groups, fit_base, lasso, loo, moves, profile, window
from epsworth.exposure.glm import Softmax
from strategies import sparing

SOME = pytest.mark.parametrize("count", [3, pytest.param(90, marks=pytest.mark.slow)])


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def penalties(d, weight, fit_intercept):
    return np.append(np.full(d, weight), [0.0] if fit_intercept else [])


def rare(y, rng):
    """Return labels of which few are +1, at least two."""
    y = y.copy()
    y[(y > 0) & (rng.random(len(y)) < 0.8)] = -1.0
    y[:2] = 1.0
    return y


@SOME
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.cases("all")
def test_moves_of_models_with_a_free_intercept_lie_within_their_errors(kind, count):
    known = rows = 0
    rng = np.random.default_rng(5)
    for number, (X, y, l2, regulariser) in enumerate(hard_worlds(count, 78)):
        X, y = np.where(rng.random(X.shape) < 0.3, 0.0, X), rare(y, rng) if number % 2 else y
        y[-1] = -1.0
        given, n, d = sparse.csr_array(X) if kind == "sparse" else X, *X.shape
        f = fit_base(given, y, l2, fit_intercept=True)
        found = moves(given, y, f, l2, regulariser=regulariser, fit_intercept=True)
        base, base_off = precise(with_ones(X), y, penalties(d, l2 * n, True), f)
        for i in range(n):
            kept = np.arange(n) != i
            if len(np.unique(y[kept])) == 1:
                assert found.distances[i] == found.errors[i] == np.inf
                continue
            weight = l2 * (n - (regulariser == "mean"))
            truth, off = precise(with_ones(X)[kept], y[kept], penalties(d, weight, True), base)
            error = abs(float(np.linalg.norm(truth - base)) - found.distances[i])
            assert error <= found.errors[i] + base_off + off
        known, rows = known + int((found.errors < 0.5 * found.distances).sum()), rows + n
    assert known > 0.2 * rows


def precise_softmax(X, y, weights, start):
    """Return the minimiser whose scores sum to 0 and a bound on its distance to the truth, by long double."""
    X, W, k = X.astype(np.longdouble), start.astype(np.longdouble), len(start)
    own = np.eye(k)[y.astype(int)]
    best, size, stalled = W, np.inf, 0
    for _ in range(300):
        scores = X @ W.T
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = (p - own).T @ X + weights * W
        if np.linalg.norm(gradient) < size:
            best, size, stalled = W, float(np.linalg.norm(gradient)), 0
        else:
            stalled += 1
        if stalled == 3:
            break
        q, x = p.astype(float), X.astype(float)
        bent = np.einsum("ik,kl->ikl", q, np.eye(k)) - q[:, :, None] * q[:, None, :]
        hessian = np.einsum("ikl,ia,ib->kalb", bent, x, x)
        every = np.arange(k)
        hessian[every, :, every, :] += np.diag(np.broadcast_to(weights, x.shape[1]).astype(float))
        hessian += np.einsum("kl,ab->kalb", np.ones((k, k)), np.eye(x.shape[1]))  # pins the sum of scores
        flat = hessian.reshape(W.size, W.size)
        step = np.linalg.solve(flat, gradient.astype(float).ravel()).reshape(W.shape)
        W = W - step / max(1.0, float(np.abs(x @ step.T).max()))
    return best, 2 * (size + 1e-18 * len(X)) / np.linalg.eigvalsh(flat)[0]


def worlds_of_classes(count, seed):
    """Yield tables of two to five classes: noisy, separable, with rows that hardly differ, with rare classes."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, d, k = int(rng.integers(10, 40)), int(rng.integers(1, 4)), int(rng.integers(2, 6))
        X, _ = world(n, d, seed=int(rng.integers(2**32)))
        scores = X @ rng.normal(size=(d, k)) * 3 + (0.0, 1.0, 0.3)[number % 3] * rng.gumbel(size=(n, k))
        y = np.argmax(scores + (rng.normal(size=k) if number % 2 else 0), axis=1)
        if number % 3 == 2:
            X[1::2] = X[: len(X[1::2]) * 2 : 2] * (1 - 1e-9)
        y[: 2 * k] = np.arange(2 * k) % k if number % 4 else np.minimum(np.arange(2 * k), k - 1)
        yield X, y.astype(float), 10 ** rng.uniform(-5, -1), ("mean", "sum")[int(rng.integers(2))], k


@pytest.mark.parametrize(("fit_intercept", "count"), sparing([(True, 3), (False, 90), (True, 90)], keep=[0]))
@pytest.mark.cases("all")
def test_moves_of_several_classes_lie_within_their_errors(fit_intercept, count):
    known = rows = 0
    for X, y, l2, regulariser, k in worlds_of_classes(count, 6):
        n, d = X.shape
        f = fit_base(X, y, l2, loss="multinomial", fit_intercept=fit_intercept)
        assert f.shape == (k, d + fit_intercept)
        found = moves(X, y, f, l2, loss="multinomial", regulariser=regulariser, fit_intercept=fit_intercept)
        full = with_ones(X) if fit_intercept else X
        base, base_off = precise_softmax(full, y, penalties(d, l2 * n, fit_intercept), f)
        for i in range(n):
            kept = np.arange(n) != i
            if fit_intercept and y[i] not in y[kept]:
                assert found.distances[i] == found.errors[i] == np.inf
                continue
            weights = penalties(d, l2 * (n - (regulariser == "mean")), fit_intercept)
            truth, off = precise_softmax(full[kept], y[kept], weights, base)
            error = abs(float(np.linalg.norm(truth - base)) - found.distances[i])
            assert error <= found.errors[i] + base_off + off
        known, rows = known + int((found.errors < 0.5 * found.distances).sum()), rows + n
    assert known > 0.2 * rows


def precise_lasso(X, y, l2, l1, found):
    """Return a minimiser, and a bound on its distance to the truth: its conditions are checked in long double."""
    used, best = (found != 0) | (l1 == 0), np.zeros(len(found), dtype=np.longdouble)
    off = 0.0
    if used.any():
        best[used], off = precise(X[:, used], y, l2[used], found[used], (l1 * np.sign(found))[used])
        assert (np.sign(best)[l1 > 0] == np.sign(found)[l1 > 0]).all()
    slopes = 1 / (1 + np.exp(y * (X.astype(np.longdouble) @ best)))
    assert (np.abs((slopes * y) @ X)[~used] < l1[~used]).all()
    return best, off


def worlds_of_lasso(count, seed):
    """Yield tables with columns that hardly matter, or are almost the same."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, d = int(rng.integers(12, 60)), int(rng.integers(2, 8))
        X, y = world(n, d, seed=int(rng.integers(2**32)), noise=(0.3, 1.0, 3.0)[number % 3])
        if number % 2:
            X[:, -1] = X[:, 0] + 0.1 * X[:, -1]
        X /= np.linalg.norm(X, axis=1).max()
        y[:2], y[-2:] = 1.0, -1.0
        l2 = (0.0, 1e-5, 1e-3)[int(rng.integers(3))]
        yield X, y, l2, 10 ** rng.uniform(-2.5, -1), ("mean", "sum")[int(rng.integers(2))]


@pytest.mark.parametrize(
    ("affordable", "fit_intercept", "count"),
    sparing(
        [(0, False, 3), (lasso.AFFORDABLE, True, 3), *product((0, lasso.AFFORDABLE), (False, True), (90,))], keep=[0, 1]
    ),
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.cases("all")
def test_moves_of_lasso_and_elastic_net_lie_within_their_errors(kind, affordable, fit_intercept, count, monkeypatch):
    monkeypatch.setattr(lasso, "AFFORDABLE", affordable)
    monkeypatch.setattr(lasso, "PAIRS", 50)  # several blocks of rows
    known = rows = 0
    rng = np.random.default_rng(5)
    for X, y, l2, l1, regulariser in worlds_of_lasso(count, 8):
        X = np.where(rng.random(X.shape) < 0.3, 0.0, X) if kind == "sparse" else X
        table, n, d = sparse.csr_array(X) if kind == "sparse" else X, *X.shape
        given = {"l1": l1, "fit_intercept": fit_intercept}
        f = fit_base(table, y, l2, **given)
        found = moves(table, y, f, l2, regulariser=regulariser, **given)
        full, heavy, ridge = with_ones(X) if fit_intercept else X, *(penalties(d, w, fit_intercept) for w in (l1, l2))
        base, base_off = precise_lasso(full, y, n * ridge, n * heavy, f)
        mass = n - (regulariser == "mean")
        for i in np.flatnonzero(np.isfinite(found.errors)):
            kept, scale = np.arange(n) != i, mass / (n - 1)
            start = fit_base(X[kept], y[kept], l2 * scale, l1=l1 * scale, fit_intercept=fit_intercept)
            truth, off = precise_lasso(full[kept], y[kept], mass * ridge, mass * heavy, start)
            assert abs(float(np.linalg.norm(truth - base)) - found.distances[i]) <= found.errors[i] + base_off + off
        known, rows = known + int((found.errors < 0.5 * found.distances + 1e-12).sum()), rows + n
    assert known > (0.9 if affordable else 0.3) * rows


@pytest.mark.parametrize("intercept", [False, True])
def test_a_lasso_of_a_sparse_table_moves_as_that_of_the_same_rows_in_full(intercept):
    rng = np.random.default_rng(3)
    X, y = world(300, 12, noise=1.0)
    X = np.where(rng.random(X.shape) < 0.6, 0.0, X)
    given = {"l1": 0.01, "fit_intercept": intercept}
    dense, thin = (moves(rows, y, fit_base(rows, y, 1e-4, **given), 1e-4, **given) for rows in (X, sparse.csr_array(X)))
    assert 0 < np.count_nonzero(dense.base) < len(dense.base)
    np.testing.assert_allclose(thin.base, dense.base, atol=1e-11)
    np.testing.assert_allclose(thin.distances, dense.distances, rtol=1e-6, atol=1e-12)
    assert (thin.errors <= 3 * dense.errors + 1e-12).all()


def test_a_lasso_is_what_scikit_learn_fits():
    X, y = world(200, 5, noise=1.0)
    model = LogisticRegression(l1_ratio=0.6, C=0.2, solver="saga", tol=1e-12, max_iter=100_000)
    model.fit(X, y)
    f = fit_base(X, y, 0.4 / (200 * 0.2), l1=0.6 / (200 * 0.2), fit_intercept=True)
    np.testing.assert_allclose(f, [*model.coef_[0], *model.intercept_], atol=1e-6)
    assert (f == 0).any()


@pytest.mark.parametrize(
    ("n", "d", "seed", "l2", "l1"), [(1000, 3, 21, 0.1, 1e-4), (1000, 10, 2, 0.1, 1e-8), (100, 20, 4, 10.0, 1e-4)]
)
@pytest.mark.cases("all")
def test_fits_settle_where_newtons_last_steps_fall_by_less_than_rounding(n, d, seed, l2, l1):
    X, y = world(n, d, seed=seed)
    f, full = fit_base(X, y, l2, l1=l1, fit_intercept=True), with_ones(X)
    slopes = -y / (1 + np.exp(y * (full @ f))) @ full / n + penalties(d, l2, True) * f
    heavy = penalties(d, l1, True)
    left = np.where(f == 0, np.maximum(np.abs(slopes) - heavy, 0), slopes + heavy * np.sign(f))
    assert np.linalg.norm(left) < 2e-12


def test_a_lasso_of_which_nothing_is_certain_warns_of_nothing(recwarn):
    X, y = world(6, 2, seed=1)
    given = {"l1": 1e-8, "fit_intercept": True}
    assert np.isinf(moves(X * [1, 1e-4], y, fit_base(X * [1, 1e-4], y, 0, **given), 0, **given).errors).any()
    assert not recwarn.list


def test_columns_that_are_the_same_share_their_weight():
    X, y = np.repeat(world(20, 1)[0], 2, axis=1) / 2, world(20, 1, noise=1.0)[1]
    shared = fit_base(X, y, 1e-6, l1=1e-4)
    assert shared[0] == pytest.approx(shared[1], rel=1e-6)
    assert shared[0] != 0


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_two_classes_are_two_labels_with_half_the_penalty(fit_intercept):
    X, y = world(80, 3)
    given = {"fit_intercept": fit_intercept}
    two = moves(X, y, fit_base(X, y, 0.02, loss="multinomial", **given), 0.02, loss="multinomial", **given)
    one = moves(X, y, fit_base(X, y, 0.01, **given), 0.01, **given)
    np.testing.assert_allclose(two.base[1], -two.base[0], atol=1e-12)
    np.testing.assert_allclose(2 * two.base[1], one.base, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(2) * two.distances, one.distances, rtol=1e-9)
    assert (np.sqrt(2) * two.errors <= 2 * one.errors).all()


def test_dense_and_sparse_tables_and_directions_agree():
    X, y = world(60, 4)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    thin, f = sparse.csr_array(X), fit_base(X, y, 0.01)
    lengths, directions = moves(X, y, f, 0.01), loo(X, y, f, 0.01)
    assert np.array_equal(lengths.distances, directions.distances)
    np.testing.assert_allclose(moves(thin, y, f, 0.01).distances, lengths.distances, rtol=1e-9)
    for loss in ("logistic", "multinomial"):
        f = fit_base(thin, y, 0.01, loss=loss, fit_intercept=True)
        one, other = (moves(rows, y, f, 0.01, loss=loss, fit_intercept=True) for rows in (thin, X))
        np.testing.assert_allclose(one.distances, other.distances, rtol=1e-9)
        assert (one.errors <= 3 * other.errors).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_models_of_scikit_learn_are_read_as_they_are(classes):
    X, y = world(90, 3, noise=1.0)
    y = y if classes == 2 else np.digitize(X[:, 0] + 0.1 * X[:, 1], [-0.1, 0.1])
    l2, loss = 0.01, "logistic" if classes == 2 else "multinomial"

    def fitted(kept):
        model = LogisticRegression(C=1 / (l2 * len(X)), tol=1e-10, max_iter=10_000).fit(X[kept], y[kept])
        return np.column_stack([model.coef_, model.intercept_])

    base = fitted(np.arange(len(X)))
    f = base[0] if classes == 2 else base
    found = moves(X, y, f, l2, loss=loss, regulariser="sum", fit_intercept=True)
    np.testing.assert_allclose(fit_base(X, y, l2, loss=loss, fit_intercept=True), f, atol=1e-5)
    for i in (0, 40, int(found.distances.argmax())):
        move = np.linalg.norm(fitted(np.arange(len(X)) != i) - base)
        assert abs(move - found.distances[i]) <= found.errors[i] + 1e-5
    assert (found.errors < (0.1 if classes == 2 else 0.5) * found.distances).all()


def test_a_row_without_which_there_is_no_model_is_told():
    X, y = world(30, 2)
    y[:] = -1.0
    y[7] = 1.0
    found = moves(X, y, fit_base(X, y, 0.1, fit_intercept=True), 0.1, fit_intercept=True)
    assert np.flatnonzero(np.isinf(found.distances)).tolist() == [7]
    assert str(found).startswith(
        "30 rows: without row 7 there is no model, since one label is left and the intercept is"
    )
    assert found.to_dict()["distances"][7] is None
    rows = pl.DataFrame({"row": ["first" if i == 7 else "another" for i in range(30)]})
    assert exposed_groups(rows, found.distances, part=0.03)[0].value == "first"


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.cases(1)
def test_third_derivatives_of_the_softmax_are_bounded_by_ranges_of_scores(classes):
    """At random points, and the constant is attained in the limit."""
    rng, loss = np.random.default_rng(classes), Softmax(classes)
    closest = 0.0
    for _ in range(1000):
        z, u, v = rng.normal(size=(3, classes - 1))
        z *= 10 ** rng.uniform(-1, 1)
        p = loss._probabilities(z[None])[0]
        scores, other = loss.basis @ u, loss.basis @ v
        second = p @ (scores - p @ scores) ** 2
        third = p @ ((scores - p @ scores) ** 2 * (other - p @ other))
        assert u @ loss.curvatures(np.zeros(1), z[None])[0] @ u == pytest.approx(second, rel=1e-9, abs=1e-300)
        step = 1e-5
        up, down = (loss.curvatures(np.zeros(1), (z + t * v)[None])[0] for t in (step, -step))
        assert u @ (up - down) @ u / (2 * step) == pytest.approx(third, rel=1e-4, abs=1e-8)
        assert abs(third) <= np.ptp(other) * second * (1 + 1e-12)
        assert abs(third) <= loss.third * (u @ u) * np.linalg.norm(v)
        assert second <= loss.most_curved * (u @ u)
        assert np.ptp(other) <= loss.stretch * np.linalg.norm(v)
        closest = max(closest, abs(third) / (np.ptp(other) * second))
    assert closest > 0.95


def test_slopes_of_the_softmax_are_those_of_its_values():
    rng, loss = np.random.default_rng(0), Softmax(4)
    z, y, step = rng.normal(size=(50, 3)), rng.integers(0, 4, 50).astype(float), 1e-6
    for k in range(3):
        aside = step * np.eye(3)[k]
        change = (loss.values(y, z + aside) - loss.values(y, z - aside)) / (2 * step)
        np.testing.assert_allclose(loss.slopes(y, z)[:, k], change, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X, y, f: fit_base(X, y, 0.1, loss="probit", fit_intercept=True), "fit_intercept needs loss='logistic'"),
        (lambda X, y, f: fit_base(X, y, 0.1, fit_intercept=2), "fit_intercept must be True or False, got 2"),
        (lambda X, y, f: fit_base(X, y, 0.1, classes=(-1, 1), loss="multinomial"), "classes declares two labels"),
        (
            lambda X, y, f: fit_base(X, np.ones(40), 0.1, classes=(-1, 1), fit_intercept=True),
            "y holds one label only, for which no intercept that is free is best",
        ),
        (lambda X, y, f: fit_base(X, np.arange(40), 0.1), "got 40; give a binary target .`moves` takes loss="),
        (lambda X, y, f: fit_base(X, y, 0.0), "l2 must be positive and finite, got 0"),
        (lambda X, y, f: fit_base(X, y, 0.1, l1=-1), "l1 must be finite and at least 0, got -1"),
        (lambda X, y, f: fit_base(X, y, 0.1, l1=True), "l1 must be finite and at least 0, got True"),
        (lambda X, y, f: fit_base(X, y, True), "l2 must be positive and finite, got True"),
        (lambda X, y, f: fit_base(X, y, False, l1=0.1), "l2 must be positive and finite, got False"),
        (lambda X, y, f: fit_base(X, y, 0.1, loss=["a"]), "loss must be one of logistic, squared, probit, got"),
        (lambda X, y, f: fit_base(X, y, 0.1, l1=1, loss="multinomial"), "l1 needs loss='logistic', got 'multinomial'"),
        (lambda X, y, f: moves(X, y, f, 0.1, fit_intercept=True), "f must hold 3 finite coefficients"),
        (lambda X, y, f: moves(X, y, f, 0.1, loss="multinomial"), r"f must hold finite coefficients of shape \(2, 2\)"),
        (lambda X, y, f: moves(X, y, f + 1e300, 0.1), "f must hold coefficients of a fit, none above 1e.50 in size"),
        (lambda X, y, f: moves(X, y, [f + 1e300] * 2, 0.1, loss="multinomial"), "f must hold coefficients of a fit"),
        (lambda X, y, f: window(X, y, 0.1, loss="multinomial"), "'multinomial' is for `fit_base` and `moves`"),
        (lambda X, y, f: loo(X, y, f, 0.1, loss="multinomial"), "'multinomial' is for `fit_base` and `moves`"),
        (lambda X, y, f: profile(moves(X, y, f, 0.1), f, 1.0), r"moves\(\) keeps lengths alone"),
    ],
)
def test_what_has_no_such_moves_is_refused_in_a_sentence(call, sentence):
    X, y = world(40, 2)
    with pytest.raises(ExposureError, match=sentence):
        call(X, y, np.zeros(2))
