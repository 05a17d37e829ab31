"""The window: what its ends promise, how it moves, simulated utility, the published rule."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from exposure_worlds import ADULT, adult, world

from epsworth.bounds import Risk
from epsworth.exposure import (
    ExposureError,
    descend,
    encode,
    fit_base,
    kernels,
    linear_gradients,
    loo,
    onset,
    plateau_ends,
    sensitivity,
    window,
)
from epsworth.exposure.usefulness import simulate


def test_the_ends_keep_their_promises():
    X, y = world(500, 3)
    found = window(X, y, 0.05)
    exact = loo(X, y, fit_base(X, y, 0.05), 0.05, "exact").distances
    rate = 1 / sensitivity(500, 0.05)
    low = kernels(3).adv(rate * found.epsilon_low * exact)
    assert 0.0999 < low.max() <= 0.1
    assert (kernels(3).adv(rate * found.epsilon_high * exact) >= 0.9 - 1e-9).mean() >= 0.5
    assert 0.1 <= found.adv_low <= 0.1 * (1 + 1e-8)  # rounded up
    assert (found.advantage(found.epsilon_low) >= low).all()


def test_the_advised_window_is_safe_and_of_use():
    X, y = world(500, 3)
    safe = window(X, y, 0.05)
    assert safe.advised == (0.0, safe.epsilon_low)
    found = window(X, y, 0.05, rng=np.random.default_rng(1))
    low, high = found.advised
    assert high == found.epsilon_low < found.epsilon_util  # a trade-off: accuracy is kept from eps_util on only
    assert found.usefulness.at(low) > found.usefulness.majority
    below = found.usefulness.better_lower[found.usefulness.epsilons < low]
    assert below[-1] <= 0.5 < found.usefulness.better_lower[len(below)]
    assert found.to_dict()["window"] == [low, high]
    many = window(np.tile(X, (20, 1)), np.tile(y, 20), 0.05, rng=np.random.default_rng(1))
    assert many.advised == (many.epsilon_util, many.epsilon_low)
    assert "Choose epsilon between" in many.verdict


def test_noise_that_is_right_by_chance_is_of_no_use():
    """Labels by coin, as many of either: mean accuracies above a half, by chance, advise and excuse no epsilon."""
    rng, lucky = np.random.default_rng(4), 0
    for _ in range(5):
        X, y = world(200, 3)[0], rng.permutation(np.repeat([-1.0, 1.0], 100))
        found = window(X, y, 0.01, rng=rng)
        lucky += found.usefulness.at(1e-3) > 0.5
        assert found.usefulness.least_use() > 0.1
        assert ": useless, not surely better" in found.candidate(1e-3)
    assert lucky > 0


def test_no_row_is_said_to_pay_more_than_epsilon():
    """A certificate can be far larger than the sensitivity (a rough base model): the sensitivity then bounds."""
    X, y = world(60, 2)
    rough = window(X, y, 0.1, f=fit_base(X, y, 0.1) + 0.5)
    assert (rough.neighbours.errors * rough.kappa > 1).any()
    assert rough.exposure(2.0).max() == 2.0
    assert rough.epsilon_low >= kernels(2).inverse_adv(0.1) * (1 - 1e-9)
    with pytest.raises(ExposureError, match="epsilon must be positive"):
        rough.exposure(np.nan)


def test_accuracy_is_kept_only_above_the_commoner_label():
    """Within the tolerance of the noiseless accuracy is not enough where a constant answer does better."""
    X = np.r_[np.full(70, 0.5), np.full(25, 0.5), np.full(5, -0.5)][:, None]
    y = np.r_[np.ones(70), -np.ones(30)]
    rates = np.array([0.01, 1e6])
    found = simulate(
        X, y, np.array([0.01]), rates, rates, tolerance=0.9, risk=Risk.of(0.9), draws=50, rng=np.random.default_rng(1)
    )
    assert (found.base, found.majority) == (0.75, 0.7)
    assert 0.2 < found.kept[0] < 0.8  # half of the models turn round, to 0.25
    assert found.kept[1] == 1


def test_an_outlier_lowers_the_window_and_wishes_move_it():
    X, y = world(300, 2)
    X, far = X / 2, np.array([[1.0, 0.0]])
    contrary = -np.sign(fit_base(X, y, 0.1) @ far[0])
    with_outlier = window(np.vstack([X, far]), np.append(y, contrary), 0.1)
    assert with_outlier.epsilon_low < window(X, y, 0.1).epsilon_low
    lows = [window(X, y, 0.1, adv_safe=a).epsilon_low for a in (0.01, 0.1, 0.5)]
    assert lows == sorted(lows)
    highs = [window(X, y, 0.1, q_exposed=q).epsilon_high for q in (0.1, 0.5, 0.9)]
    assert highs == sorted(highs, reverse=True)


def test_less_noise_scales_the_window():
    X, y = world(300, 2)
    plain, tight = window(X, y, 0.1), window(X, y, 0.1, calibration="add_remove")
    ratio = sensitivity(300, 0.1, "add_remove") / sensitivity(300, 0.1)
    assert 0.5 < ratio < 0.55
    assert tight.epsilon_low / plain.epsilon_low == pytest.approx(ratio, rel=1e-9)
    assert tight.epsilon_high / plain.epsilon_high == pytest.approx(ratio, rel=1e-9)
    assert window(X, y, 0.1, n=200).epsilon_low / plain.epsilon_low == pytest.approx(1.5, rel=1e-9)


def test_simulated_accuracy_equals_a_plain_loop():
    X, y = world(150, 3, noise=0.2)
    f, rates = fit_base(X, y, 0.01), np.array([0.5, 5.0, 50.0])
    found = simulate(
        X, y, f, rates, rates, tolerance=0.02, risk=Risk.of(0.9), draws=40, rng=np.random.default_rng(3)
    )  # fmt: skip
    from epsworth.exposure import OutputPerturbation

    unit = OutputPerturbation(3, 1.0).sample(40, np.random.default_rng(3))
    right = np.array([[(y * (X @ (f + b / rate)) > 0).mean() for b in unit] for rate in rates])
    np.testing.assert_allclose(found.accuracy, right.mean(axis=1), atol=1e-12)
    base = (y * (X @ f) > 0).mean()
    np.testing.assert_allclose(found.kept, (right >= base - 0.02 - 1e-12).mean(axis=1))
    assert found.base == base
    assert (found.kept_lower < found.kept).all()


def test_utility_is_kept_from_eps_util_on():
    """Fresh models, seed 9: at eps_util the promise of a share of 0.9 fails with probability at most 5 % by design;
    200 models with a true share of 0.9 fall below 0.8 with probability 1e-5."""
    X, y = world(1500, 3, noise=0.1)
    found = window(X, y, 0.01, rng=np.random.default_rng(8), tolerance=0.02)
    rng = np.random.default_rng(9)
    fresh = simulate(
        X, y, found.neighbours.base, np.array([found.kappa * found.epsilon_util]), np.array([found.epsilon_util]),
        tolerance=0.02, risk=Risk.of(0.95), draws=200, rng=rng,
    )  # fmt: skip
    assert fresh.kept[0] >= 0.8
    assert found.usefulness.base > found.usefulness.majority
    assert found.verdict.startswith(
        "Choose epsilon between" if found.epsilon_util <= found.epsilon_low else "A trade-off"
    )


def test_verdicts_say_what_they_are():
    X, y = world(100, 2)
    assert window(X, y, 0.1).verdict.startswith("Consider epsilon up to")
    hopeless = window(X[:20], y[:20], 1e-6, rng=np.random.default_rng(0))
    assert "No epsilon up to" in hopeless.verdict
    constant = np.column_stack([X * 1e-9, np.full(100, 0.5)])
    useless = window(constant, np.r_[np.ones(70), -np.ones(30)], 0.1, rng=np.random.default_rng(0))
    assert "no better than always answering the commoner label" in useless.verdict


PLATEAUS = [(2, 3.2, 110, 0.71), (3, 2.3, 119, 0.49), (5, 2.5, 158, 0.44), (10, 3.9, 265, 0.47), (50, 13, 1110, 0.65)]


@pytest.mark.parametrize(("d", "low", "high", "adv"), PLATEAUS)
def test_the_published_plateau_ends_where_attacks_succeed(d, low, high, adv):
    found = plateau_ends(d)
    assert found == pytest.approx((low, high), rel=0.03)
    assert kernels(d).adv(found[0]) == pytest.approx(adv, abs=0.01)


def test_the_ratio_dips_before_it_rises():
    """A detector must not assume a monotone curve: E|l|/u falls from 2/pi to 0.6225 at u = 1.3."""
    u = np.geomspace(1e-3, 1e3, 2000)
    ratio = kernels(2).abs(u) / u
    assert ratio.min() == pytest.approx(0.62246, abs=1e-5)
    assert u[ratio.argmin()] == pytest.approx(1.3, abs=0.05)
    assert ratio[0] == pytest.approx(2 / np.pi, rel=1e-4)
    assert onset(u, ratio) == pytest.approx(plateau_ends(2)[0], rel=0.02)


def test_below_the_plateau_privacy_keeps_improving():
    """Refutes 'no benefit below the plateau': the loss is proportional to epsilon there, halving one halves it."""
    low, _ = plateau_ends(2)
    k = kernels(2)
    assert k.abs(low / 200) / k.abs(low / 100) == pytest.approx(0.5, rel=1e-3)
    assert k.adv(low / 100) < 0.02 < 0.7 < k.adv(low)


def test_the_plateau_rule_is_labelled():
    X, y = world(100, 2)
    found = window(X, y, 0.1, rule="plateau")
    assert "no protection" in found.verdict
    assert found.adv_low == pytest.approx(0.714, abs=0.01)
    with pytest.raises(ExposureError, match="no low plateau"):
        window(X[:, :1], y, 0.1, rule="plateau")


def test_bad_wishes_are_refused():
    X, y = world(20, 2)
    for options, sentence in (
        ({"adv_safe": 0.0}, "adv_safe must lie strictly between 0 and 1, got 0.0"),
        ({"rule": "magic"}, "rule must be advantage or plateau"),
        ({"n": 30}, "fewer than the public n = 30"),
    ):
        with pytest.raises(ExposureError, match=sentence):
            window(X, y, 0.1, **options)
    with pytest.raises(ExposureError, match="two curves of the same length"):
        onset([1, 2], [1, 2])


@pytest.mark.slow
def test_adult_window(paper_data):
    X, y = adult(paper_data, ADULT["two"])
    found = window(X, y, 1.0, rng=np.random.default_rng(4), draws=100)
    assert found.epsilon_low == pytest.approx(1.29, abs=0.01)
    assert found.epsilon_high == pytest.approx(101, abs=1)
    advantage = found.advantage(1.0)
    assert advantage.max() == pytest.approx(0.078, abs=0.001)
    assert np.median(advantage) == pytest.approx(0.018, abs=0.001)
    assert found.usefulness.base < found.usefulness.majority  # two columns without intercept are not a model
    assert found.epsilon_util < found.epsilon_low
    assert found.advised is None
    at_plateau = window(X, y, 1.0, rule="plateau")
    assert at_plateau.adv_low > 0.7


@pytest.mark.slow
def test_adult_one_hot_windows_and_descent(paper_data):
    """Independently measured to three digits: windows at three l2, and what noisy descent says (T = 100, s = 20)."""
    table = pl.concat([pl.read_csv(paper_data / f"adult_{part}.csv.gz") for part in ("train", "test")])
    data = encode(table, "income")
    assert data.X.shape == (48_842, 109)
    for l2, low, high in ((0.01, 12.4, 846), (0.001, 20, 1810), (0.0001, 22, 5380)):
        found = window(data.X, data.y, l2)
        assert found.epsilon_low == pytest.approx(low, rel=0.03)
        assert found.epsilon_high == pytest.approx(high, rel=0.03)
    run = descend(
        linear_gradients(data.X, data.y), np.zeros(109), steps=100, learning_rate=1e-4, clip=1.0, noise=20.0,
        rng=np.random.default_rng(7),
    )  # fmt: skip
    assert run.nominal == pytest.approx(0.5)
    assert run.mu.max() == pytest.approx(0.226, rel=0.05)  # another learning rate, another path
    assert np.median(run.mu) == pytest.approx(0.044, rel=0.1)
    assert run.advantage.max() == pytest.approx(0.090, rel=0.05)
    assert np.abs(run.losses).max() < 1.0


def test_a_tolerance_allows_whole_rows_only():
    """Of five rows one is decided by a coin: "within .1 of all five" allows no miss, since four fifths are .8.

    The share lies in (.4, .6) but with probability 2e-19 (2,000 coins, a twentieth and more of them off).
    """
    X = np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    found = simulate(
        X, np.ones(5), np.array([10.0, 1e-9]), np.array([3.0]), np.array([1.0]),
        tolerance=0.1, risk=Risk.of(0.999), draws=2000, rng=np.random.default_rng(45),
    )  # fmt: skip
    assert found.base == 1.0
    assert 0.4 < found.kept[0] < 0.6
    assert found.kept_lower[0] <= found.kept[0]
