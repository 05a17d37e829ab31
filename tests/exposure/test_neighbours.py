"""Leave-one-out models: reference values, certificates, symmetries, Adult."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exposure_worlds import ADULT, REFERENCE, SMALL, adult, hard_worlds, precise, rounded_worlds, world
from scipy.optimize import brentq, minimize

from epsworth.exposure import ExposureError, fit_base, left_out, loo, neighbours, norm_bound, sensitivity
from epsworth.exposure.glm import LOSSES
from strategies import sparing

IDS = [f"n={len(X)}, l2={case['Lambda']:g}" for X, _, case in SMALL]


@pytest.mark.parametrize(("X", "y", "case"), SMALL, ids=IDS)
def test_reference_models(X, y, case):
    l2 = case["Lambda"]
    f = fit_base(X, y, l2)
    np.testing.assert_allclose(f, case["base_coef"], atol=1e-10, rtol=0)
    newton, exact, sphere = (loo(X, y, f, l2, method) for method in ("newton", "exact", "wc"))
    np.testing.assert_allclose(f + newton.deltas, case["newton_loo_coef"], atol=1e-12, rtol=0)
    assert (newton.errors <= np.array(case["newton_error_bound"]) * (1 + 1e-6)).all()  # Taylor over strong convexity
    np.testing.assert_allclose(f + exact.deltas, case["loo_coef"], atol=1e-10, rtol=0)
    np.testing.assert_allclose(exact.distances, case["delta_norm"], atol=1e-10, rtol=0)
    np.testing.assert_allclose(f + sphere.deltas, case["A_wc"], atol=1e-12, rtol=0)
    assert exact.distances.argmax() == case["most_vulnerable_row"]


@pytest.mark.parametrize(("X", "y", "case"), SMALL, ids=IDS)
def test_the_truth_lies_in_the_published_sphere(X, y, case):
    f = fit_base(X, y, case["Lambda"])
    sphere, exact = loo(X, y, f, case["Lambda"], "wc"), loo(X, y, f, case["Lambda"], "exact")
    np.testing.assert_allclose(f + sphere.deltas / 2, case["sphere_center"], atol=1e-12, rtol=0)
    np.testing.assert_allclose(sphere.distances / 2, case["sphere_radius"], atol=1e-12, rtol=0)
    assert (np.linalg.norm(exact.deltas - sphere.deltas / 2, axis=1) <= sphere.distances / 2 * (1 + 1e-9)).all()
    assert (exact.distances <= sphere.distances).all()


@pytest.mark.parametrize("regulariser", ["mean", "sum"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l2", [1.0, 0.03, 1e-3])
@pytest.mark.cases(1)
def test_certificates_hold_for_every_row(l2, loss, regulariser):
    X, y = world()
    f = fit_base(X, y, l2, loss=loss)
    newton = loo(X, y, f, l2, loss=loss, regulariser=regulariser)
    exact = loo(X, y, f, l2, "exact", loss=loss, regulariser=regulariser)
    gap = np.linalg.norm(newton.deltas - exact.deltas, axis=1)
    assert (gap <= newton.errors + exact.errors).all()
    assert exact.errors.max() < 1e-10
    if loss == "squared":  # Newton's step is exact on a parabola
        assert gap.max() < 1e-11


def test_exact_is_what_another_optimiser_finds():
    X, y = world(40, 2)
    for regulariser, weight in (("mean", 0.05 * 39), ("sum", 0.05 * 40)):
        found = loo(X, y, fit_base(X, y, 0.05), 0.05, "exact", regulariser=regulariser)
        for i in (0, 17, 39):
            kept = np.arange(40) != i
            other = minimize(
                lambda f, k=kept, w=weight: np.logaddexp(0, -y[k] * (X[k] @ f)).sum() + w / 2 * f @ f, [0, 0], tol=1e-12
            )
            np.testing.assert_allclose(found.base + found.deltas[i], other.x, atol=1e-6)


def test_the_certificate_counts_an_unfinished_fit():
    X, y = world(60, 2)
    exact = loo(X, y, fit_base(X, y, 0.1), 0.1, "exact")
    rough = loo(X, y, exact.base + 0.01, 0.1)
    assert (np.linalg.norm(rough.deltas - exact.deltas, axis=1) <= rough.errors).all()
    assert (np.linalg.norm(rough.base + rough.deltas - exact.base - exact.deltas, axis=1) <= rough.errors).all()
    assert rough.errors.min() > 1e-3


@pytest.mark.slow
def test_certificates_count_rounding_where_one_row_decides():
    """Two rows in four dimensions at a tiny l2: leverages reach 1 - 1e-8, and a parabola has no other error."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        X = rng.normal(size=(int(rng.integers(2, 5)), 5))
        X /= np.linalg.norm(X, axis=1).max()
        y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
        l2 = 10 ** rng.uniform(-8, -4)
        f = fit_base(X, y, l2, loss="squared")
        newton, exact = loo(X, y, f, l2, loss="squared"), loo(X, y, f, l2, "exact", loss="squared")
        gap = np.linalg.norm(newton.deltas - exact.deltas, axis=1)
        assert (gap <= newton.errors + exact.errors).all()


@pytest.mark.parametrize("method", ["newton", "exact"])
@pytest.mark.slow
def test_certificates_hold_where_rounding_is_all_that_is_left(method, monkeypatch):
    """Newton's step is exact on a parabola and computed gradients may vanish: judged by fractions."""

    def broken():
        for X, y, l2, regulariser, base, without in rounded_worlds():
            f = fit_base(X, y, l2, loss="squared")
            found = loo(X, y, f, l2, method, loss="squared", regulariser=regulariser)
            for truth, delta, error in zip(without, found.deltas[:, 0], found.errors, strict=True):
                yield abs(truth - base - Fraction(delta)) > error
                yield abs(truth - Fraction(f[0] + delta)) > error

    assert not any(broken())
    monkeypatch.setattr(left_out, "ROUNDING", 0.0)
    assert any(broken())  # these worlds need it


@pytest.mark.parametrize("worlds", sparing([6, 30], keep=[0]))
def test_self_concordant_certificates_hold_and_are_never_larger(worlds, monkeypatch):
    """Judged by retraining in long double, down to l2 = 1e-6: both claims, for every row."""
    smaller = rows = 0
    for X, y, l2, regulariser in hard_worlds(worlds, 41):
        f, n = fit_base(X, y, l2), len(X)
        found = loo(X, y, f, l2, regulariser=regulariser)
        with monkeypatch.context() as patch:
            patch.setattr(neighbours, "loss_named", lambda name: replace(LOSSES[name], self_concordant=False))
            former = loo(X, y, f, l2, regulariser=regulariser)
        assert np.array_equal(found.deltas, former.deltas)
        assert (found.errors <= former.errors).all()
        smaller, rows = smaller + int((found.errors < 0.5 * former.errors).sum()), rows + n
        base, base_off = precise(X, y, l2 * n, f)
        for i, (delta, error) in enumerate(zip(found.deltas, found.errors, strict=True)):
            kept = np.arange(n) != i
            truth, off = precise(X[kept], y[kept], l2 * (n - (regulariser == "mean")), f + delta)
            assert np.linalg.norm(truth - base - delta) <= error + base_off + off
            assert np.linalg.norm(truth - (f + delta)) <= error + off
            assert base_off + off <= 0.02 * error or error < 1e-10
    assert smaller > 0.3 * rows


@pytest.mark.parametrize(("n", "d"), [(2000, 5), (10_000, 20)])
@pytest.mark.cases(1)
def test_a_window_loses_little_to_certificates_at_weak_regularisation(n, d, monkeypatch):
    """No row is refined: the lower end is one over the furthest move that certificates allow."""
    X, y = world(n, d)

    def kept(mass):  # n l2
        found = loo(X, y, fit_base(X, y, mass / n), mass / n)
        return found.distances.max() / (found.distances + found.errors).max()

    assert min(kept(mass) for mass in (0.1, 0.3, 1.0, 10.0)) >= 0.9
    monkeypatch.setattr(neighbours, "loss_named", lambda name: replace(LOSSES[name], self_concordant=False))
    assert kept(0.1) < 0.6  # strong convexity alone


def test_least_eigenvalues_are_never_above_the_truth():
    """Judged by matrices made of integers, whose least eigenvalue is known."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        d = int(rng.integers(1, 8))
        axis = rng.integers(-9, 10, d).astype(float)
        axis[0] = 10.0
        scale = float(2 ** rng.integers(0, 30))
        matrix = scale * (float(axis @ axis) * np.eye(d) - np.outer(axis, axis)) + np.eye(d)  # least eigenvalue 1
        guess = float(np.linalg.eigvalsh(matrix)[0])
        found = left_out.least_eigenvalue(matrix.copy(), guess, 0.0, 0.0)
        assert found <= 1
        assert found >= 1 - 1e-13 * float(np.trace(matrix))
        assert left_out.least_eigenvalue(matrix.copy(), guess, 0.25, 0.0) <= max(found - 0.25, 0.0)
        assert left_out.least_eigenvalue(matrix.copy(), 2.0, 0.0, 0.5) <= 1  # whatever was guessed


def test_refining_reaches_the_tolerance():
    X, y = world(300, 4)
    f = fit_base(X, y, 1e-4)
    plain, fine = loo(X, y, f, 1e-4), loo(X, y, f, 1e-4, tol=1e-6)
    assert (plain.errors > 1e-6 * plain.distances).any()
    assert (fine.errors <= 1e-6 * fine.distances).all()
    np.testing.assert_allclose(fine.deltas, loo(X, y, f, 1e-4, "exact").deltas, atol=1e-6 * fine.distances.max())


def test_refining_the_top_rows_leaves_the_others_alone():
    X, y = world(300, 4)
    f = fit_base(X, y, 1e-4)
    plain, fine = loo(X, y, f, 1e-4), loo(X, y, f, 1e-4, tol=1e-6, top=20)
    first = np.argsort(-(plain.distances + plain.errors))[:20]
    assert (fine.errors[first] <= 1e-6 * fine.distances[first]).all()
    assert np.array_equal(np.flatnonzero((fine.deltas != plain.deltas).any(axis=1)), np.sort(first))


def test_symmetries():
    X, y = world(80, 3)
    X[1], y[1] = X[0], y[0]
    f = fit_base(X, y, 0.1)
    found = loo(X, y, f, 0.1)
    assert found.distances[0] == pytest.approx(found.distances[1], rel=1e-12)  # duplicates
    order = np.random.default_rng(1).permutation(80)
    again = loo(X[order], y[order], fit_base(X[order], y[order], 0.1), 0.1)
    np.testing.assert_allclose(again.deltas, found.deltas[order], atol=1e-13)
    flipped = loo(-X, -y, fit_base(-X, -y, 0.1), 0.1)
    np.testing.assert_allclose(flipped.distances, found.distances, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_losses_state_true_derivatives_and_bounds(loss):
    m = np.linspace(-8, 8, 4001)
    step = 1e-5
    np.testing.assert_allclose((loss.value(m + step) - loss.value(m - step)) / (2 * step), loss.slope(m), atol=1e-8)
    np.testing.assert_allclose((loss.slope(m + step) - loss.slope(m - step)) / (2 * step), loss.curvature(m), atol=1e-7)
    third = np.diff(loss.curvature(m)) / np.diff(m)
    assert np.abs(third).max() <= loss.third
    assert np.abs(third).max() >= 0.999 * loss.third
    middle = loss.curvature((m[1:] + m[:-1]) / 2)
    assert (np.abs(third) <= 1.0001 * middle).all() >= loss.self_concordant
    assert loss.curvature(m).max() <= loss.most_curved
    assert np.abs(loss.slope(m)).max() <= loss.steepest
    product = -m[m >= 0] * loss.slope(m[m >= 0])
    assert loss.most * (1 - 1e-4) < product.max() <= loss.most
    assert (np.diff(product[m[m >= 0] <= loss.peak]) > 0).all()


def test_sensitivity_constants():
    for l2, constant in REFERENCE["closed_forms"]["sensitivity_constant_C(Lambda)"].items():
        found = sensitivity(11, float(l2), "add_remove") * 10 * float(l2)
        assert found == pytest.approx(constant, rel=1e-13)  # never below the truth: see test_exposure_rounding
    for l2, radius in REFERENCE["closed_forms"]["norm_bound_R(Lambda)"].items():
        assert norm_bound(float(l2)) == pytest.approx(radius, rel=1e-12)
    for X, _, case in SMALL:
        n, l2 = len(X), case["Lambda"]
        assert sensitivity(n, l2, "add_remove") == pytest.approx(case["add_remove_sensitivity_bound"], rel=1e-12)
        assert sensitivity(n, l2) == pytest.approx(case["chaudhuri_sensitivity"], rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l2", [1e-3, 0.02, 0.3, 3.0])
@pytest.mark.cases(1)
def test_no_row_moves_further_than_the_sensitivity(l2, loss):
    """Rows of length 1 with one contradicting the rest come close to the bound."""
    worst = 0.0
    for n in (2, 3, 10, 50):
        for bias in (0.0, 0.3, 0.9, 1.0):
            X = np.full((n, 1), 1.0)
            X[: n - 1] = max(bias, 1e-3)
            y = np.ones(n)
            y[-1] = -1
            found = loo(X, y, fit_base(X, y, l2, loss=loss), l2, "exact", loss=loss)
            worst = max(worst, found.distances.max() / sensitivity(n, l2, "add_remove", loss=loss))
            if loss == "logistic":
                assert found.distances.max() <= sensitivity(n, l2)
    assert worst <= 1 + 1e-9
    assert worst > 0.2 or l2 < 0.3  # small weights need far more rows to come close


def test_norm_bound_is_reached_by_one_repeated_row():
    for l2 in (0.3, 1.0):
        f = brentq(lambda r, w=l2: w * r - 1 / (1 + np.exp(r)), 0, 10)
        assert norm_bound(l2) == pytest.approx(f, rel=1e-9)


@pytest.mark.parametrize(
    ("X", "y", "l2", "sentence"),
    [
        ([[2.0, 0], [0, 1]], [0, 1], 1, r"X, row 0 lies outside the unit ball"),
        ([[1.0], [0.5]], [1, 1], 1, r"y must hold two different labels, got 1; give"),
        ([[1.0], [0.5]], [1, np.nan], 1, r"y, row 1 has no label"),
        ([[np.nan], [0.5]], [1, -1], 1, r"X, row 0 holds a missing or infinite value"),
        ([[1.0], [0.5]], [1, -1], 0, r"l2 must be positive and finite, got 0; without it"),
        ([[1.0]], [1], 1, r"X has 1 rows; neighbours differ in one row"),
        ([[1.0], [0.5]], [1, -1, 1], 1, r"one label per row"),
        ([1.0, 0.5], [1, -1], 1, r"X must be a table"),
        ([["a"], ["b"]], [1, -1], 1, r"must be numbers; encode categories first"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(X, y, l2, sentence):
    with pytest.raises(ExposureError, match=sentence):
        fit_base(X, y, l2)


def test_bad_questions_are_refused():
    X, y = world(20, 2)
    f = fit_base(X, y, 1.0)
    with pytest.raises(ExposureError, match="method must be newton, wc or exact, got 'guess'"):
        loo(X, y, f, 1.0, "guess")
    with pytest.raises(ExposureError, match="f must hold 2 finite coefficients"):
        loo(X, y, [1.0], 1.0)
    with pytest.raises(ExposureError, match="loss must be one of logistic, squared, probit"):
        fit_base(X, y, 1.0, loss="hinge")
    with pytest.raises(ExposureError, match="slope of the squared loss is not bounded"):
        sensitivity(10, 1.0, loss="squared")
    with pytest.raises(ExposureError, match="n must be a whole number of at least 2"):
        sensitivity(1, 1.0)


@pytest.mark.parametrize("name", ["two", "six"])
def test_adult_anchors(paper_data, name):
    key = {"two": "adult_48842_age_educationnum", "six": "adult_48842_six_numeric"}[name]
    X, y = adult(paper_data, ADULT[name])
    for case in REFERENCE[key]:
        l2 = case["Lambda"]
        f = fit_base(X, y, l2)
        np.testing.assert_allclose(f, case["base_coef"], rtol=1e-6)
        newton, sphere = loo(X, y, f, l2), loo(X, y, f, l2, "wc")
        assert newton.distances.argmax() == case["argmax_row_0based"]
        np.testing.assert_allclose(newton.deltas[newton.distances.argmax()], case["max_row_delta"], rtol=1e-6)
        share = {float(q): value for q, value in case["n_Lambda_delta_quantiles"].items()}
        found = np.quantile(newton.distances, list(share)) * len(X) * l2
        np.testing.assert_allclose(found, list(share.values()), rtol=1e-6)
        off = np.linalg.norm(sphere.deltas - newton.deltas, axis=1) / newton.distances
        assert np.median(off) == pytest.approx(case["rel_err_Awc_vs_newton_median"], rel=1e-4)
        assert off.max() == pytest.approx(case["rel_err_Awc_vs_newton_max"], rel=1e-4)
        assert (newton.errors <= 1e-4 * newton.distances).all()
