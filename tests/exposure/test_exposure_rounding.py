"""Promises hold for exact numbers: computed bounds against fractions and sixty digits, where roundings are all."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exposure_worlds import world

from epsworth.exposure import distances, fit_base, kernels, left_out, neighbours, sensitivity, window, worst_case
from epsworth.exposure.calibration import norm_bound
from epsworth.exposure.fitting import (
    GRADIENT_TOLERANCE,
    UNIT,
    careful_gradient,
    gradient_rounding,
    into_ball,
    roundings,
)
from epsworth.exposure.glm import LOGISTIC, LOSSES, PROBIT
from epsworth.exposure.releasing import noise_rate

FEW = [60, pytest.param(20_000, marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


def number(value):
    return mpmath.mpf(float(value))


SLOPES = {
    "logistic": lambda m: -1 / (1 + mpmath.exp(m)),
    "squared": lambda m: m - 1,
    "probit": lambda m: -mpmath.npdf(m) / mpmath.ncdf(m),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_norms_and_sensitivities_are_never_below_the_truth(loss):
    rng, slope, law = np.random.default_rng(0), SLOPES[loss], LOSSES[loss]
    for l2 in 10.0 ** rng.uniform(-8, 3, size=60):
        if l2 * law.peak + float(law.slope(np.array(law.peak))) >= 0:
            radius = mpmath.findroot(lambda r, w=l2: number(w) * r + slope(r), norm_bound(l2, loss))
        else:
            radius = mpmath.sqrt(number(law.most) / number(l2))
        assert norm_bound(l2, loss) >= radius
        pull = number(l2) * radius - slope(-radius)
        assert sensitivity(7, l2, "add_remove", loss=loss) >= pull / (6 * number(l2))
        if loss == "logistic":
            assert sensitivity(7, l2) >= 2 / (7 * number(l2))
            assert sensitivity(7, l2, "add_remove", regulariser="sum") >= 1 / (7 * number(l2))


def test_constants_of_losses_are_rounded_up():
    assert LOGISTIC.third >= 1 / (6 * mpmath.sqrt(3))
    assert LOGISTIC.most >= mpmath.lambertw(mpmath.exp(-1)).real
    peak = mpmath.findroot(lambda m: mpmath.diff(lambda x: x * SLOPES["probit"](x), m), 0.84)
    assert PROBIT.most >= -peak * SLOPES["probit"](peak)


def exact_adv(d, u):
    u = number(u)
    return 1 - mpmath.exp(-u / 2) * (1 if d == 1 else 1 + u / 4)  # d = 1 or 3


def broken_inverses(d, count):
    wishes = np.random.default_rng(1).uniform(0.01, 0.99, count)
    low, high = kernels(d).inverse_adv(wishes), kernels(d).inverse_adv(wishes, upwards=True)
    ends = zip(wishes, low, high, strict=True)
    return sum(exact_adv(d, u) > number(wish) or exact_adv(d, v) < number(wish) for wish, u, v in ends)


@pytest.mark.parametrize(("d", "count"), [(1, 600), (3, 60), (3, 301)])  # many at once were read off a table
@pytest.mark.cases(1)
def test_inverses_err_to_the_safe_side_of_the_truth(d, count, monkeypatch):
    assert broken_inverses(d, count) == 0
    monkeypatch.setattr(distances, "error", lambda u: 0.0)
    assert broken_inverses(d, count) > 0


@pytest.mark.slow
def test_many_inverses_err_to_the_safe_side_of_the_truth():
    assert broken_inverses(3, 10_000) == 0


def test_the_epsilon_of_a_row_is_never_too_small():
    for u in np.random.default_rng(2).uniform(0.5, 20, 40):
        epsilon = float(kernels(1).epsilon(u, 1e-3))
        assert -mpmath.expm1((number(epsilon) - number(u)) / 2) <= 1e-3


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_the_worst_case_is_never_below_the_truth(epsilon, monkeypatch):
    assert worst_case(epsilon, 3).advantage >= exact_adv(3, epsilon)
    assert worst_case(epsilon, 3).any_mechanism >= mpmath.tanh(number(epsilon) / 2)
    assert worst_case(epsilon, 1).mean_loss >= number(epsilon) + mpmath.expm1(-number(epsilon))


def small_worlds(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        n, d = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1).max() * 1.001
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        yield X, y, rng.normal(size=d) * 10.0 ** rng.uniform(-2, 1), float(10.0 ** rng.uniform(-3, 0)), rng


def product(a, b):
    return mpmath.fsum(number(v) * number(w) for v, w in zip(a, b, strict=True))


def length(vector):
    return mpmath.sqrt(mpmath.fsum(v * v for v in vector))


@pytest.mark.parametrize("count", FEW)
def test_gradients_are_off_by_less_than_their_roundings(count):
    for X, y, f, l2, _ in small_worlds(count if count < 1000 else count // 10):
        slopes = [SLOPES["logistic"](number(s) * product(x, f)) * number(s) for x, s in zip(X, y, strict=True)]
        exact = [
            mpmath.fsum(g * number(v) for g, v in zip(slopes, column, strict=True)) / len(X) + number(l2) * number(w)
            for column, w in zip(X.T, f, strict=True)
        ]
        found = careful_gradient(X, y, f, l2, LOGISTIC)
        off = length([number(v) - w for v, w in zip(found, exact, strict=True)])
        assert off <= UNIT * roundings(X, y, f, l2, LOGISTIC)


def residual(problem, row, delta):
    """Return what `_residual` computes, with sixty digits."""
    X, y, f, d = problem.X, problem.y, problem.f, problem.X.shape[1]
    total = [number(problem.weight) * number(v) for v in delta]
    for j, (x, s) in enumerate(zip(X, y, strict=True)):
        before = product(x, f)
        slope = SLOPES["logistic"](number(s) * before) * number(s)
        after = SLOPES["logistic"](number(s) * (before + product(x, delta))) * number(s)
        change = -slope if j == row else after - slope
        total = [t + change * number(v) for t, v in zip(total, x, strict=True)]
    return [total[k] - number(problem.l2) * number(f[k]) for k in range(d)]


def test_residuals_are_off_by_less_than_is_charged(monkeypatch):
    def broken():
        for X, y, f, l2, rng in small_worlds(40):
            problem = left_out.Problem(X, y, f, l2, LOGISTIC, "mean")
            delta = rng.normal(size=f.shape) * 10.0 ** rng.uniform(-6, 0)
            found, noise = left_out._residual(problem, np.array([0]), delta[None])
            # the weight is a product of two numbers: its rounding belongs to the charge, too
            exact = residual(problem, 0, delta)
            yield length([number(v) - w for v, w in zip(found[0], exact, strict=True)]) > noise[0]

    assert not any(broken())
    monkeypatch.setattr(left_out, "ROUNDING", 0.0)
    assert any(broken())


def test_models_are_off_by_less_than_is_charged_when_they_are_added():
    for X, y, f, l2, rng in small_worlds(60):
        problem, delta = left_out.Problem(X, y, f, l2, LOGISTIC, "mean"), rng.normal(size=f.shape)
        off = [Fraction(v) - Fraction(a) - Fraction(b) for v, a, b in zip(f + delta, f, delta, strict=True)]
        assert length([mpmath.mpf(v.numerator) / v.denominator for v in off]) <= problem.rounded(delta[None])[0]


def test_hessians_are_off_by_less_than_is_charged():
    for X, y, f, l2, rng in small_worlds(60):
        problem, step = left_out.Problem(X, y, f, l2, LOGISTIC, "mean"), rng.normal(size=f.shape)
        exact = [number(problem.weight) * number(v) for v in step]
        for x, s in zip(X, y, strict=True):
            slope = SLOPES["logistic"](number(s) * product(x, f))
            bent = -slope * (1 + slope) * product(x, step)
            exact = [e + bent * number(v) for e, v in zip(exact, x, strict=True)]
        off = length([number(v) - w for v, w in zip(problem.hessian() @ step, exact, strict=True)])
        assert off <= UNIT * problem.hessian_roundings() * np.linalg.norm(step)


def test_what_a_linear_solve_leaves_is_counted():
    """A solve that is far off its system is charged what it leaves, whatever the inverse was."""
    X, y = world(30, 3)
    f = fit_base(X, y, 0.1, loss="squared")
    honest = neighbours.loo(X, y, f, 0.1, loss="squared")
    problem = left_out.Problem(X, y, f, 0.1, LOSSES["squared"], "mean")
    hessian = problem.hessian()
    pulls = problem.pulls()
    found, left = problem.solved(hessian, np.linalg.inv(hessian) * 1.01, slice(0, 30), pulls.copy())
    gap = np.linalg.norm(found - honest.deltas, axis=1)
    assert (gap > 1e-4 * honest.distances).all()
    assert (gap <= left / problem.weight + honest.errors).all()
    assert (problem.solved(hessian, np.linalg.inv(hessian), slice(0, 30), pulls)[1] < 1e-13).all()


def test_shortened_rows_are_longer_than_one_by_less_than_is_charged():
    rng = np.random.default_rng(4)
    longest = 0
    for d in (1, 2, 3, 50, 1000):
        for row in into_ball(2 * rng.normal(size=(40, d)) + 1):
            squared = sum(Fraction(v) ** 2 for v in row)
            assert squared <= (1 + (Fraction(d, 2) + 3) * Fraction(1, 2**53)) ** 2
            longest = max(longest, squared)
    assert longest > 1


@pytest.mark.parametrize("d", [1, 3, 40])
def test_the_noise_of_a_release_covers_every_charge(d):
    """Epsilon is the rate times all that one row moves, each charge by itself, as exact numbers."""
    for epsilon in np.random.default_rng(5).uniform(0.1, 10, 40):
        for regulariser, least in (("mean", 0.01), ("sum", 0.01 / 1000)):
            rate, step = noise_rate(50, d, 0.01, epsilon, regulariser=regulariser)
            move = number(sensitivity(50, 0.01, regulariser=regulariser)) * (1 + (mpmath.mpf(d) / 2 + 3) / 2**53) ** 3
            rounding = number(gradient_rounding(d, norm_bound(least), LOGISTIC)) / number(least)
            whole = move + number(step) * mpmath.sqrt(d) + 2 * (number(GRADIENT_TOLERANCE) / number(0.01) + rounding)
            assert number(rate) * whole <= number(epsilon)


@pytest.mark.slow
def test_the_ends_of_a_window_are_rounded_to_their_safe_sides():
    for X, y, _, l2, _ in small_worlds(30):
        found = window(X, y, l2)
        rows = [length([number(v) for v in delta]) + number(e) for delta, e in
                zip(found.neighbours.deltas, found.neighbours.errors, strict=True)]  # fmt: skip
        shares = [min(number(found.kappa) * row, 1) for row in rows]
        assert number(found.epsilon_low) * max(shares) <= number(kernels(X.shape[1]).inverse_adv(0.1))
