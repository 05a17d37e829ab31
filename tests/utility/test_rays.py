"""Scale families on linear models: one set of draws, a band over all epsilons that is kept as often as promised."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.bounds import Risk
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.linear import Lattice, Polygons, linear_for
from epsworth.utility.engines.rays import SHARES, Cumulated, Rays, Region, _regions, crossed, noise_scales
from epsworth.utility.labels import ASKED_AGAIN

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
NOISE = ["laplace", "gaussian:delta=0.1"]


def settings(miss, tolerance, seed):
    return Settings(Risk(miss), tolerance, None, np.random.default_rng(seed), lambda share: None)


def problem(model, X, sensitive, **more):
    given = {
        "sensitive": sensitive,
        "mechanisms": NOISE,
        "per": "feature",
        "epsilons": [0.3, 1, 4, 20],
        "domain": RANGES,
        "y": None,
    }
    return ew.Problem.of(model, X, **(given | more))


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_bands_hold_what_fractions_and_sixty_digits_give(count):
    """Shares of draws that no double holds, at widths that no double holds either."""
    mpmath.mp.dps, rng = 60, np.random.default_rng(0)
    for _ in range(count // 1_000):
        miss, tolerance = 10 ** rng.uniform(-9, -1), rng.uniform(0.02, 0.2)
        region = Region(np.ones((1, 2)), np.array([-1.0]), np.zeros(1), np.ones(500), tolerance, Risk(miss))
        n, width = region.draws, mpmath.sqrt(mpmath.log(4 / mpmath.mpf(miss)) / (2 * region.draws))
        counts = np.sort(rng.integers(n // 4, 3 * n // 4, (2, 500)), axis=0)
        for border, share in zip(region.borders, counts, strict=True):
            border.counts[:] = share
        lower, upper = region.bounds()
        for (left, came), low, high in zip(counts.T.tolist(), lower.tolist(), upper.tolist(), strict=True):
            assert low <= max(mpmath.mpf(came - left) / n - 2 * width, 0)
            assert high >= min(mpmath.mpf(came - left) / n + 2 * width, 1)


def test_the_width_of_a_band_leaves_to_the_shares_what_they_may_err_by():
    """Without units of its own the root is rounded down by more than the one step that is taken anyway."""
    miss, tolerance = 3.78e-08, 0.238
    border = Cumulated(Risk(miss), tolerance, 1)
    width = Fraction(border.band().upper.item(0)) - Fraction(SHARES)
    with mpmath.workdps(60):
        truth = mpmath.sqrt(mpmath.log(2 / mpmath.mpf(miss)) / (2 * border.draws))
        assert mpmath.mpf(width.numerator) / width.denominator >= truth


def test_rays_are_inside_as_direct_evaluation_says():
    """Rivals that are behind, ahead, level, and never caught up with."""
    rng = np.random.default_rng(0)
    scales = np.array([0.01, 0.3, 1.0, 7.0, 500.0])
    for _ in range(50):
        slopes, margins = rng.normal(size=(200, 4)), rng.normal(size=4)
        slopes[rng.random(slopes.shape) < 0.1] = 0
        margins[rng.random(4) < 0.1] = 0
        direct = (margins + scales[:, np.newaxis, np.newaxis] * slopes > 0).all(axis=2).sum(axis=1)
        left, entered = crossed(slopes, margins, scales)
        np.testing.assert_array_equal(entered - left, direct)


def test_a_score_is_known_to_within_its_stated_rounding():
    """Against exact fractions, where large terms cancel."""
    rng, model = np.random.default_rng(0), LogisticRegression()
    model.coef_, model.intercept_ = 1e6 * rng.normal(size=(3, 4)), rng.normal(size=3)
    model.classes_, model.n_features_in_ = np.arange(3), 4
    x = rng.random((20, 4))
    asked = problem(model, x, [0, 1, 2], domain=None)
    off = []
    for (record, _), region in _regions(asked, linear_for(asked), np.ones(4), 0.1, Risk(1e-3).split(20)).items():
        scores = [
            Fraction(b) + sum(Fraction(w) * Fraction(v) for w, v in zip(row, x[record].tolist(), strict=True))
            for row, b in zip(model.coef_.tolist(), model.intercept_.tolist(), strict=True)
        ]
        own = asked.labels[record]
        exact = [scores[own] - scores[k] for k in range(3) if k != own]
        found = [abs(float(Fraction(m) - e)) for m, e in zip(region.margins.tolist(), exact, strict=True)]
        assert (np.array(found) <= region.rounding).all()
        off += found
    assert max(off) > 0  # doubles do not hold the scores


def test_a_ray_next_to_its_exit_counts_as_inside_only_where_it_is():
    """Scales within rounding of the exit, by exact fractions: what is inside for certain is, what is not is not."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        weights, z, margin = rng.normal(size=(1, 3)), rng.normal(size=(1, 3)), rng.choice([-1.0, 1.0])
        slope = sum(Fraction(w) * Fraction(v) for w, v in zip(weights[0].tolist(), z[0].tolist(), strict=True))
        at = max(float(-Fraction(margin) / slope), 1e-3)
        scales = np.array([np.nextafter(at, 0), at, np.nextafter(at, np.inf)])
        region = Region(weights, np.array([margin]), np.zeros(1), scales, 0.1, Risk(1e-3))
        region.count(z)
        truth = np.array([Fraction(margin) + Fraction(scale) * slope > 0 for scale in scales.tolist()])
        left, *entered = (border.counts for border in region.borders)
        inner, outer = (entered[0] if entered else 1) - left
        assert (inner <= truth).all()
        assert (outer >= truth).all()


@pytest.mark.parametrize("rows", [[10, 77, 120], [0, 50, 133]])
@pytest.mark.cases(1)
def test_bands_hold_the_deterministic_bracket_of_two_features(rows):
    """Polygons say the same without draws; labels that are not the record's own are entered first.  Rate 1e-6."""
    model = LogisticRegression(max_iter=5000, C=10).fit(IRIS, SPECIES)
    asked = problem(model, IRIS[rows], [0, 2], y=[0, 2, 1])
    exact = Polygons().bound(asked, settings(0, 1e-3, 0))
    found = Rays().bound(asked, settings(1e-6, 0.01, 0))
    for a, b in ((exact.stability, found.stability), (exact.accuracy, found.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
        assert (b.upper - b.lower).max() <= 0.02
    assert not np.array_equal(found.stability.lower, found.accuracy.lower)


@pytest.mark.slow
def test_promises_are_kept_at_all_epsilons_at_once():
    """100 bands at 80 % confidence over 30 epsilons, where the truth has a closed form; false-alarm rate 1e-6."""
    keep = SPECIES > 0
    model = LogisticRegression(max_iter=5000, C=10).fit(IRIS[keep], SPECIES[keep])
    asked = problem(
        model, IRIS[[60]], [0, 1, 2, 3], mechanisms="gaussian:delta=0.1", epsilons=np.geomspace(0.1, 40, 30), y=[2]
    )
    exact, broken = Lattice().bound(asked, settings(0, 1e-3, 0)), np.zeros(2, dtype=int)
    for seed in range(100):
        found = Rays().bound(asked, settings(0.4, 0.04, seed))  # stability and accuracy: a fifth each
        for kind, (a, b) in enumerate(((exact.stability, found.stability), (exact.accuracy, found.accuracy))):
            broken[kind] += ((a.upper < b.lower) | (b.upper < a.lower)).any()
    assert (broken <= binom.isf(1e-6, 100, 0.2)).all()
    assert broken[0] > 0  # the band is not needlessly wide


@pytest.mark.parametrize("y", [None, [0, 2, 2]])
@pytest.mark.slow
def test_auto_shares_draws_where_three_features_or_more_are_perturbed(y):
    """Against plain sampling, false-alarm rate 1e-6; no draw is asked about."""
    model = LogisticRegression(max_iter=5000, C=10).fit(IRIS, SPECIES)
    given = {
        "sensitive": [0, 2, 3],
        "mechanisms": NOISE,
        "per": "feature",
        "epsilons": [0.5, 2, 6, 20],
        "domain": RANGES,
        "y": y,
    }
    rows = IRIS[[77] if y is None else [10, 77, 120]]
    found = ew.stability(model, rows, rng=0, confidence=1 - 1e-6, **given)
    assert (found.method == "rays").all()
    assert found.confidence == 1 - 1e-6
    assert found.queries < 20 + 2 * ASKED_AGAIN[0]
    drawn = ew.stability(model, rows, rng=0, method="sampled", tolerance=0.02, confidence=1 - 1e-6, **given)
    assert (found.lower <= drawn.upper).all()
    assert (drawn.lower <= found.upper).all()
    if y is not None:
        assert (found.accuracy.lower <= drawn.accuracy.upper).all()
        assert (drawn.accuracy.lower <= found.accuracy.upper).all()
        np.testing.assert_array_equal(found.accuracy.lower[..., 0], found.lower[..., 0])
    one = ew.stability(model, IRIS[[10]], rng=0, tolerance=0.1, **(given | {"epsilons": [1.0], "y": None}))
    assert (one.method == "sampled").all()  # nothing to share


def test_an_unknown_true_label_is_never_right():
    model = LogisticRegression(max_iter=5000).fit(IRIS, SPECIES)
    asked = problem(model, IRIS[[10, 77]], [0, 1, 2], y=[0, 9])
    found = Rays().bound(asked, settings(1e-3, 0.05, 0))
    assert (found.accuracy.upper[..., 1] == 0).all()
    assert (found.accuracy.upper[..., 0] > 0).all()


def test_only_noise_of_one_shape_and_scale_is_shared():
    model = LogisticRegression(max_iter=5000).fit(IRIS, SPECIES)
    asked = problem(model, IRIS[[10]], [0, 1, 2], mechanisms=[*NOISE, "laplace_clipped", "pm", "krr"])
    assert [noise_scales(asked, m) is not None for m in range(5)] == [True, True, False, False, False]
    np.testing.assert_allclose(noise_scales(asked, 0)[1], 3 / asked.epsilons)


def test_a_record_that_rounding_may_put_outside_is_not_taken_to_be_inside():
    """A margin of 0.5 that may be off by 1: rays that never leave may never have entered."""
    region = Region(np.ones((1, 1)), np.array([0.5]), np.ones(1), np.array([1e-3]), 0.1, Risk(1e-3))
    region.count(np.zeros((region.draws, 1)))
    lower, upper = region.bounds()
    assert (lower.item(), upper.item()) == (0, 1)
