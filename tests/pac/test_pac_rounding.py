"""Promises hold for exact numbers: computed bounds against fractions and sixty digits, where roundings are all."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from epsworth.bounds import Risk
from epsworth.pac import allocation, certificate, conversion, exposure, records
from epsworth.pac.allocation import RULES, allocate, gaussian_bound, individual_bound
from epsworth.pac.calibration import Shape, calibrate, spread_of
from epsworth.pac.certificate import bernstein_upper
from epsworth.pac.exposure import blur_of, posterior_weights

FEW = [40, pytest.param(20_000, marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


def exact_bound(s, e):
    return mpmath.fsum(mpmath.log1p(mpmath.mpf(float(a)) / mpmath.mpf(float(b))) for a, b in zip(s, e, strict=True)) / 2


def careless_log1p(x):
    """As numpy's, four units in the last place below it: what numpy lets a vector form err by."""
    found = np.asarray(LOG1P(x))
    return found - 4 * np.spacing(found)


LOG1P = np.log1p


@pytest.mark.parametrize("count", FEW)
def test_a_gaussian_bound_is_never_below_the_truth(count, monkeypatch):
    """Under an adversary's logarithm, too: the units are counted for what the library may do, not for what it did."""
    rng = np.random.default_rng(0)
    cases = [10.0 ** rng.uniform(-12, 12, size=(2, 3)) for _ in range(count)]
    assert all(gaussian_bound(s, e) >= exact_bound(s, e) for s, e in cases)
    monkeypatch.setattr(allocation.np, "log1p", careless_log1p)
    assert all(gaussian_bound(s, e) >= exact_bound(s, e) for s, e in cases)


@pytest.mark.parametrize("rule", RULES)
def test_an_allocation_keeps_its_budget_as_exact_numbers(rule):
    rng = np.random.default_rng(1)
    for _ in range(40):
        s, mi = 10.0 ** rng.uniform(-9, 9, size=3), float(10 ** rng.uniform(-6, 1))
        assert exact_bound(s, allocate(s, mi, rule)) <= mi


def test_what_is_calibrated_keeps_its_budget_as_exact_numbers():
    """Variances of whole grid positions by fractions; the noise is that of the table, ratio steps."""
    rng = np.random.default_rng(2)
    for _ in range(30):
        outputs, mi = rng.normal(size=(16, 2)) * 10.0 ** rng.uniform(-5, 5, 2), float(10 ** rng.uniform(-3, 1))
        plan = calibrate(outputs, mi, Shape(basis="diag"))
        columns = [[Fraction(int(at)) for at in column] for column in plan.positions(outputs).T]
        spread = [sum(a * a for a in column) / 16 - (sum(column) / 16) ** 2 for column in columns]
        terms = [mpmath.log1p(mpmath.mpf(v.numerator) / v.denominator / mpmath.mpf(plan.ratio) ** 2) for v in spread]
        assert mpmath.fsum(terms) / 2 <= plan.mi <= mi


def test_variances_on_the_grid_are_never_below_the_truth():
    rng = np.random.default_rng(3)
    for _ in range(60):
        positions = rng.integers(-(2**50), 2**50, size=(int(rng.integers(3, 40)), 1))
        column = [Fraction(int(at)) for at in positions[:, 0]]
        n = len(column)
        assert Fraction(float(spread_of(positions)[0])) >= sum(a * a for a in column) / n - (sum(column) / n) ** 2


def test_a_records_information_is_never_below_its_bound():
    rng = np.random.default_rng(4)
    for _ in range(60):
        v, e = 10.0 ** rng.uniform(-6, 6, size=(2, 5))
        rate = float(rng.uniform(0.1, 0.9))
        total = mpmath.fsum(mpmath.mpf(float(a)) / mpmath.mpf(float(b)) for a, b in zip(v, e, strict=True))
        exact = mpmath.log1p(mpmath.mpf(rate) * (1 - mpmath.mpf(rate)) * total) / 2
        assert float(individual_bound(v, e, rate)[0]) >= exact


def exact_bernstein(mean, variance, count, width, miss):
    log = mpmath.log(2 / mpmath.mpf(miss))
    return mean + mpmath.sqrt(2 * variance * log / count) + 7 * width * log / (3 * (count - 1))


def test_limits_of_means_are_never_below_their_formula(monkeypatch):
    rng = np.random.default_rng(5)

    def held(mean, variance, width):
        exact = exact_bernstein(*(mpmath.mpf(float(v)) for v in (mean, variance)), 50, mpmath.mpf(float(width)), 1e-3)
        return float(bernstein_upper(mean, variance, 50, width, Risk(1e-3))) >= exact

    cases = [10.0 ** rng.uniform(-6, 0, size=3) for _ in range(60)]
    assert all(held(*case) for case in cases)
    monkeypatch.setattr(certificate, "up", lambda value, ulps: value)
    assert not all(held(*case) for case in cases)


@pytest.mark.slow
def test_limits_of_simulated_chances_count_their_roundings(monkeypatch):
    """Sums over draws that hardly vary: the variance is a difference of two numbers that are all but equal."""
    rng = np.random.default_rng(7)

    def held(values, count=2000):
        sums, squares = np.zeros(1), np.zeros(1)
        for value in values:
            sums, squares = sums + value, squares + value * value
        total = mpmath.fsum(map(float, values))
        mean = total / count
        variance = mpmath.fsum((mpmath.mpf(float(v)) - mean) ** 2 for v in values) / (count - 1)
        found = exposure._limit(sums, squares, count, np.full(1, 1e-14), Risk(0.01))
        return float(found[0]) >= exact_bernstein(mean, variance, count, mpmath.mpf(1e-14), 0.01)

    cases = [0.7 + 1e-9 * rng.normal(size=2000) for _ in range(12)]
    assert all(held(values) for values in cases)
    monkeypatch.setattr(exposure, "UNIT", 0.0)
    assert not all(held(values) for values in cases)


def test_chances_of_worlds_are_off_by_less_than_their_blur():
    """Worlds a million deviations away, a hundredth of a deviation from each other: logarithms lose ten digits."""
    rng = np.random.default_rng(8)
    lost = 0.0
    for _ in range(20):
        worlds = 1e6 * rng.normal(size=(1, 3)) + 0.3 * rng.normal(size=(4, 3))
        released = worlds[:1] + rng.normal(size=(1, 3))
        found = posterior_weights(worlds, released, np.full(4, 0.25))[0]
        at = [[mpmath.mpf(float(v)) for v in row] for row in [*worlds, released[0]]]
        exact = [mpmath.exp(-sum((a - b) ** 2 for a, b in zip(row, at[4], strict=True)) / 2) for row in at[:4]]
        off = max(abs(float(w) - p / mpmath.fsum(exact)) for w, p in zip(found, exact, strict=True))
        assert off <= blur_of(worlds)
        lost = max(lost, float(off))
    assert lost > 1e-6


def exact_tpr(whitened, members):
    m = len(whitened)
    rows = [[mpmath.mpf(float(v)) for v in row] for row in whitened]
    centre = [mpmath.fsum(column) / m for column in zip(*rows, strict=True)]
    rows = [[v - c for v, c in zip(row, centre, strict=True)] for row in rows]
    weight = [[mpmath.exp(sum(a * b for a, b in zip(one, two, strict=True))) for two in rows] for one in rows]
    spread = mpmath.exp(mpmath.fsum(v * v for row in rows for v in row) / m / 2)
    f = mpmath.mpf(int(members.sum())) / m
    z = [int(inside) - f for inside in members]
    q = spread * mpmath.fsum(z[i] * z[j] * weight[i][j] for i in range(m) for j in range(m)) / m**2
    odds = [mpmath.mpf(float(t)) for t in records.RATIOS]
    return min(t / 1000 + q * (1 / f + t / (1 - f)) ** 2 / (4 * (t - 1)) for t in odds)


def test_certain_limits_of_sure_guesses_count_their_roundings(monkeypatch):
    """Worlds that all but agree: the terms of the second moment cancel, to a millionth and less."""
    rng = np.random.default_rng(9)
    cases = []
    for _ in range(12):
        whitened = 10.0 ** rng.uniform(-6, -1) * rng.normal(size=(6, 2)) + 1
        cases.append((whitened, np.arange(6) % 2 == 0))
    truths = [exact_tpr(*case) for case in cases]

    def held(whitened, members):
        moments = records.second_moments(whitened, records.Events.of(members[:, np.newaxis]), np.arange(1))
        return records.sure_limits(moments, np.array([members.mean()]), 0.001)[0]

    assert all(held(*case) >= truth for case, truth in zip(cases, truths, strict=True))
    monkeypatch.setattr(records, "SINGLE", 0.0)
    monkeypatch.setattr(records, "UNIT", 0.0)
    monkeypatch.setattr(records, "up", lambda value, ulps: value)
    assert not all(held(*case) >= truth for case, truth in zip(cases, truths, strict=True))


@pytest.mark.parametrize("count", FEW)
def test_divergences_stay_below_the_truth(count):
    """By a share of 2e-18 at most, which covers the digits carried."""
    rng = np.random.default_rng(10)
    with mpmath.workdps(160):
        for _ in range(count):
            p = float(rng.uniform(0.01, 0.99))
            q = math.nextafter(p, 1) if rng.random() < 0.3 else float(rng.uniform(p, 1))
            a, b = mpmath.mpf(q), mpmath.mpf(p)
            exact = a * mpmath.log(a / b) + (1 - a) * mpmath.log((1 - a) / (1 - b))
            found = mpmath.mpf(str(conversion._divergence(q, p)))
            assert exact * (1 - mpmath.mpf("2e-18")) <= found < exact


def test_limits_of_simulated_chances_grow_with_outputs_far_from_zero():
    """Worlds that all give one output tell nothing, wherever it lies; far out, rounding could make it seem to."""
    members = np.random.default_rng(46).random((16, 3)) < 0.5
    near, far = np.zeros((16, 1)), np.full((16, 1), 1e6)
    charged = exposure.blur_of(far) - exposure.blur_of(near)
    assert 1e-4 < charged < 0.1
    without, with_blur = (
        exposure.expose(outputs, members, np.random.default_rng(0), draws=64, risk=Risk(0.01))
        for outputs in (near, far)
    )
    assert (without.upper < 1 - charged).all()
    assert (with_blur.upper >= without.upper + 0.999 * charged).all()
    assert (with_blur.tpr >= np.minimum(without.tpr + 0.999 * charged, 1)).all()
