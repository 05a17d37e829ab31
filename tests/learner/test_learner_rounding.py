"""What rounding may do to a promise of the learner: every bound holds against exact arithmetic, and is not far off."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from epsworth.bounds import Interval, Risk
from epsworth.learner import MECHANISMS
from epsworth.learner.certificates import Holder, _smooth
from epsworth.learner.coins import WORD
from epsworth.learner.mechanism import Tally
from epsworth.learner.tails import difference_interval, sign_test, tail, tail_error, units, vote_interval
from reproduction.published_lattice import chernoff

SIZES = [1, 2, 3, 5, 10, 50, 100, 333, 500, 900, 1076]  # at the last one the library's terms begin at zero


def assert_tails_are_bounded(n):
    """All p-values of n votes, against sums of whole numbers; none is too large by more than twice what is counted."""
    ways = [math.comb(n, k) for k in range(n + 1)]
    found = sign_test(np.arange(n + 1), n - np.arange(n + 1)).tolist()
    above = 0
    for k in range(n, -1, -1):
        above += ways[k]
        exact = Fraction(above, 1 << n)
        if exact < Fraction(2) ** -799:  # the least p-value that is stated
            assert Fraction(found[k]) >= exact
            continue
        off = 2 * Fraction(float(units(n, abs(2 * k - n)))) / 2**52
        assert exact <= Fraction(found[k]) <= min(1, exact * (1 + off)) or exact == 1


@pytest.mark.parametrize("n", SIZES)
def test_p_values_are_not_below_the_tail_they_bound(n):
    assert_tails_are_bounded(n)


@pytest.mark.slow
@pytest.mark.parametrize("n", range(1025, 1096, 7))
def test_all_p_values_of_a_thousand_votes(n):
    """More than 25,000 of them; and as many of `test_p_values_of_many_votes`."""
    assert_tails_are_bounded(n)


def exact_tail(n, k, p):
    """Return Pr[Binomial(n, p) >= k] with sixty digits, term by term."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p.numerator) / p.denominator
        found = term = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
        for j in range(k, n):
            term *= mpmath.mpf(n - j) / (j + 1) * p / (1 - p)
            found += term
            if term < found * mpmath.mpf(10) ** -40:
                break
        return found


def steps_of_the_fraction(a, b):
    """Count the steps of Boost's continued fraction of the incomplete beta function at 1/2 (modified Lentz)."""
    c, d, m, change = a * ((a - b) / 2 + 1) / (a + 1), 0.0, 0, 2.0
    while abs(change - 1) > 2**-52:
        m += 1
        above = (a + m - 1) * (a + b + m - 1) * m * (b - m) / 4 / (a + 2 * m - 1) ** 2
        beside = m + m * (b - m) / 2 / (a + 2 * m - 1) + (a + m) * ((a - b) / 2 + 1 + 1.5 * m) / (a + 2 * m + 1)
        d, c = 1 / (beside + above * d), beside + above / c
        change = c * d
    return m


@pytest.mark.parametrize("n", [10**k for k in range(1, 7)])
def test_the_fraction_takes_no_more_steps_than_are_counted(n):
    for z in (0, 0.1, 0.5, 1, 2, 4, 8, 20):
        k = min(n, int(n / 2 + z * math.sqrt(n) / 2) + 1)
        assert steps_of_the_fraction(max(k, n - k + 1), min(k, n - k + 1)) < 2 * math.sqrt(n) + 20


def many_votes(count, most, seed):
    rng = np.random.default_rng(seed)
    for n in (10 ** rng.uniform(1, most, count)).astype(int).tolist():
        yield n, min(n, int(n / 2 + rng.uniform(0, 30) * math.sqrt(n) / 2) + 1)


@pytest.mark.parametrize(("count", "most", "seed"), [(20, 5, 0), pytest.param(100, 7, 1, marks=pytest.mark.slow)])
def test_p_values_of_many_votes(count, most, seed):
    for n, k in many_votes(count, most, seed):
        exact, found = exact_tail(n, k, Fraction(1, 2)), mpmath.mpf(float(sign_test(k, n - k)))
        assert exact <= found <= exact * (1 + mpmath.mpf(2) ** -51 * float(units(n, 2 * k - n)))
    assert 0 < float(sign_test(10**7, 0)) < 1e-240
    assert 0 < float(chernoff(10.0, 10**7, 8.0)) < 1e-240


@pytest.mark.parametrize(("count", "most", "seed"), [(30, 4.5, 2), pytest.param(150, 6.5, 3, marks=pytest.mark.slow)])
def test_tails_are_off_by_less_than_their_stated_error(count, most, seed):
    """Those that powers are averages of: never above the exact one, once the error is taken off."""
    rng = np.random.default_rng(seed)
    for n in (10 ** rng.uniform(1, most, count)).astype(int).tolist():
        p = rng.uniform(0.5, 0.7)
        k = min(n, max(1, int(n * p + rng.normal() * math.sqrt(n) / 2)))
        exact = exact_tail(n, k, Fraction(p))
        found = float(tail(np.array([n]), np.array([k]), p)[0])
        assert found - tail_error(n) < exact < found + tail_error(n)


def exact_chernoff(t, n, scale):
    """Return the least value of the bound over all s, with sixty digits: no found value may be below."""
    with mpmath.workdps(60):
        t, b = mpmath.mpf(t), mpmath.mpf(scale)

        def slope(u):
            return n * (2 * u / (1 - u**2) + 2 * u / (4 - u**2)) + 5 * u * n / (16 * b**2) - n * t / b

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(110):  # the slope rises; 2^-110 of s is 2^-220 of the value
            middle = (low + high) / 2
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        noise = mpmath.log(1 - low**2) + mpmath.log(1 - low**2 / 4)
        return mpmath.exp(-low * n * t / b - n * noise + 5 * low**2 * n / (32 * b**2))


@pytest.mark.parametrize(("count", "seed"), [(20, 4), pytest.param(300, 5, marks=pytest.mark.slow)])
def test_chernoff_is_not_below_its_formula(count, seed):
    """Few users and large deviations, whose s is near its pole, to many users; values down to 1e-230."""
    rng = np.random.default_rng(seed)
    seen = 0
    while seen < count:
        n, scale, t = int(10 ** rng.uniform(0, 7)), float(2 ** rng.uniform(-3, 6)), float(10 ** rng.uniform(-3, 3))
        found = float(chernoff(t, n, scale))
        if not 1e-230 < found < 0.999:
            continue
        seen += 1
        exact = exact_chernoff(t, n, scale)
        assert exact <= mpmath.mpf(found) <= exact * (1 + mpmath.mpf("1e-8"))


def exact_contrast(kernel):
    return 1 - Fraction(2 * kernel.flip, WORD)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_intervals_are_divided_outwards(count):
    """The bounds of shares, mapped in fractions; the signal enters exactly, not as the number that stands for it."""
    rng = np.random.default_rng(6)
    reports = rng.integers(1, 10**6, count)
    plus = rng.binomial(reports, rng.random(count))
    minus = rng.binomial(reports - plus, rng.random(count))
    for epsilon in ("0.00001", "0.7", "3"):
        kernel = MECHANISMS["hadamard"](Fraction(epsilon), 2, 1, 2)
        exact = exact_contrast(kernel)
        share = Risk(0.1).split(count).interval(plus, reports)
        found = vote_interval(plus, reports - plus, reports, Risk(0.1).split(count), kernel.signal)
        first, second = (Risk(0.1).split(2 * count).interval(counts, reports) for counts in (plus, minus))
        apart = difference_interval(plus, minus, reports, Risk(0.1).split(count), kernel.signal)
        for i in range(count):
            assert found.lower[i] <= (2 * Fraction(share.lower[i]) - 1) / exact
            assert found.upper[i] >= (2 * Fraction(share.upper[i]) - 1) / exact
            assert apart.lower[i] <= (Fraction(first.lower[i]) - Fraction(second.upper[i])) / exact
            assert apart.upper[i] >= (Fraction(first.upper[i]) - Fraction(second.lower[i])) / exact


def test_the_published_statistic_is_rounded_towards_no_certificate(monkeypatch):
    """Its size, from sums that nearly cancel, against fractions."""
    rng, kernel = np.random.default_rng(7), MECHANISMS["slides"](Fraction(1), 200, 1, 2)
    seen = []
    monkeypatch.setattr("reproduction.published_lattice.chernoff", lambda t, n, scale: seen.append(t) or t)
    users = rng.integers(10**6, 10**9, 2)
    labels = rng.integers(-(10**9), 10**9, kernel.cells)
    places = 2 * labels * users[0] // users[1] + rng.integers(-3, 4, kernel.cells)
    kernel.against(Tally(np.stack([places, labels]), users), np.ones(kernel.cells, dtype=int))
    n, m = map(int, users)
    for t, place, label in zip(seen[0].tolist(), places.tolist(), labels.tolist(), strict=True):
        assert Fraction(t) <= abs(Fraction(label, m) - Fraction(place, 2 * n))


def test_an_interval_without_votes_is_everything():
    nothing = np.zeros(1, dtype=np.int64)
    lower, upper = vote_interval(nothing, nothing, nothing, Risk(0.1), 1.0)
    assert lower.item() <= -1
    assert upper.item() >= 1


@pytest.mark.parametrize(("overlapping", "share"), [(True, 1.5), (False, 1.0)])
def test_a_point_is_certified_only_beyond_all_that_its_cell_can_vary_by(overlapping, share):
    """The diameter of a cell that overlaps its neighbours is one and a half steps; borders by fractions."""
    rng = np.random.default_rng(0)
    for constant in rng.random(300).tolist():
        exact = Fraction(constant) * Fraction(share)
        edge = float(exact) if Fraction(float(exact)) <= exact else np.nextafter(float(exact), 0)
        for least, certified in ((edge, False), (1.01 * edge, True)):
            kernel = SimpleNamespace(cells=7, m=7, side=7, d=1, overlapping=overlapping)
            kernel.interval = lambda tally, risk, least=least: Interval(np.full(7, least), np.ones(7))
            config = SimpleNamespace(kernel=kernel, box=[(0.0, 7.0)], outside="refuse")
            found = _smooth(SimpleNamespace(config=config, tally=None), Risk(0.1), Holder(constant, 1.0, 0.5))
            assert found.tolist() == [certified] * 7
