"""Losses of several releases: beside exact fractions, closed forms, and whatever tilt the search had taken."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsworth.composition import MOST_POINTS, WIDE, Losses, finest
from epsworth.noise.lattice import LatticeNoise
from epsworth.noise.mechanism import Boosted
from epsworth.noise.regions import Absolute

TABLES = [((1, 2, 1), 1), ((1, 4, 6, 4, 1), 1), ((1, 4, 6, 4, 1), 2), ((1, 3, 8, 40, 8, 3, 1), 1), ((0, 1, 0), 1)]


def fraction_of(epsilon: float) -> Fraction:
    """Return e^epsilon to sixty digits."""
    with mpmath.workdps(80):
        return Fraction(int(mpmath.floor(mpmath.exp(mpmath.mpf(epsilon)) * 10**60)), 10**60)


def exact(weights: tuple[int, ...], shift: int, k: int, epsilon: float) -> Fraction:
    """Return delta of k tables moved by a shift, summed over products of ratios."""
    total = sum(weights)
    padded = (0,) * shift + weights
    ratios: dict[Fraction, Fraction] = defaultdict(Fraction)
    for w, v in zip(weights, padded, strict=False):
        if w:
            ratios[Fraction(v, w)] += Fraction(w, total)
    together = {Fraction(1): Fraction(1)}
    for _ in range(k):
        following: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (a, p), (b, q) in product(together.items(), ratios.items()):
            following[a * b] += p * q
        together = following
    x = fraction_of(epsilon)
    return sum((p * (1 - x * r) for r, p in together.items() if x * r < 1), Fraction(0))


@pytest.mark.parametrize(("weights", "shift"), TABLES)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.cases("all")
def test_delta_of_several_tables_is_never_below_exact_fractions(weights, shift, k):
    masses = np.array(weights) / sum(weights)
    table = LatticeNoise(masses=masses, shift=shift, inside=1, step=1.0)
    losses = Losses.of(table.profile, 4.5, 3000)
    for epsilon in (0.0, 0.3, 1.1, 2.7, 5.0, 9.9):
        truth, found = exact(weights, shift, k, epsilon), losses.delta(epsilon, k)
        assert found >= truth
        assert found <= truth * Fraction(101, 100) + Fraction(1, 10**12)
    for delta in (0.9, 0.999):
        found = losses.epsilon(delta, k)
        assert found == np.inf or exact(weights, shift, k, found) <= delta


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-20, 1e-100])
@pytest.mark.parametrize("k", [2, 10, 1000, 1 << 20])
def test_gaussians_together_are_one_gaussian(k, delta):
    each = Boosted("gaussian", 2.5 * k**0.5, 1.0, Absolute(5.0), 1.0)
    reach = each.epsilon(1e-4 * delta / k)
    found = Losses.of(each.profile, reach, finest(k, 4000)).epsilon(delta, k)
    with mpmath.workdps(120):
        r, e = 1 / mpmath.mpf(2.5), mpmath.mpf(found)

        def truth(e):
            return mpmath.ncdf(r / 2 - e / r) - mpmath.exp(e) * mpmath.ncdf(-r / 2 - e / r)

        assert truth(e) <= delta * (1 + mpmath.mpf("1e-9")) < truth(e * mpmath.mpf("0.999"))


@given(k=st.integers(2, 300), log_tilt=st.floats(-4, 2), epsilon=st.floats(-1, 8))
def test_every_tilt_gives_a_bound(k, log_tilt, epsilon):
    each = Boosted("gaussian", 2.0 * k**0.5, 1.0, Absolute(5.0), 1.0)
    losses = Losses.of(each.profile, each.epsilon(1e-9 / k), 300)
    together = Boosted("gaussian", 2.0, 1.0, Absolute(5.0), 1.0)
    if epsilon >= 0:
        assert losses._sum(k, 10**log_tilt).delta(epsilon) * (1 + 1e-9) >= float(together.profile(epsilon)) - 1e-15
    assert losses.delta(epsilon, k) >= -np.expm1(epsilon)


def test_spread_losses_keep_both_masses_and_move_up():
    rng = np.random.default_rng(1)
    loss = np.concatenate([half := rng.normal(0, 0.5, 50), -half])
    mass = np.exp(loss / 2) * np.tile(rng.random(50), 2)
    mass /= mass.sum()
    losses = Losses.spread(loss, mass, 0.0, 1e-2)
    at = (np.arange(losses.masses.size) - losses.masses.size // 2) * losses.step
    assert float(losses.masses.sum()) == pytest.approx(1, rel=1e-9)
    assert float(losses.masses @ np.exp(-at)) == pytest.approx(float(mass @ np.exp(-loss)), rel=1e-9)
    for epsilon in np.linspace(-1, 1, 41):
        truth = float(mass @ np.maximum(0.0, -np.expm1(epsilon - loss)))
        assert truth <= losses.delta(float(epsilon), 1) <= truth + 1e-4


def test_a_window_of_any_number_of_releases_fits():
    for k in (2, 1000, 1 << 20):
        assert WIDE * k**0.5 * finest(k, 4000) <= MOST_POINTS
        assert finest(k, 4000) >= 256
