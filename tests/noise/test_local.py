"""PB-GRR: ratios of the channel, estimators, the honest baseline, and the families made of it (acceptance 10)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epsworth as ew
from epsworth import noise
from epsworth.mechanisms.boosted_laplace import BoostedLaplace
from epsworth.mechanisms.pb_grr import PBGRR
from epsworth.noise.local import channel_loss

budgets = st.floats(0.05, 8.0)
parts = st.floats(0.0, 1.0)


@given(epsilon=budgets, part=parts, groups=st.integers(1, 6), k=st.integers(1, 6))
def test_equal_groups_lose_exactly_epsilon(epsilon, part, groups, k):
    d = groups * k
    if d < 2 or (groups == 1 and k == 1):
        return
    truth, inside, out = noise.pb_grr(d, k, epsilon, part * epsilon)
    assert truth + (k - 1) * inside + (d - k) * out == pytest.approx(1.0)
    if groups > 1:
        assert np.log(truth / out) == pytest.approx(epsilon)
        found = noise.channel(noise.groups([k] * groups), epsilon, part * epsilon)
        assert found.log_boost == pytest.approx((1 - part) * epsilon, abs=1e-9)
        assert channel_loss(found.matrix) <= epsilon


@given(epsilon=budgets, part=parts, sizes=st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_unequal_groups_keep_epsilon(epsilon, part, sizes):
    found = noise.channel(noise.groups(sizes), epsilon, part * epsilon)
    assert found.loss <= epsilon
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1.0)


@given(epsilon=budgets, part=parts, d=st.integers(3, 12), reach=st.integers(1, 3), circular=st.booleans())
def test_windows_keep_epsilon(epsilon, part, d, reach, circular):
    found = noise.channel(noise.windows(d, reach, circular=circular), epsilon, part * epsilon)
    assert found.loss <= epsilon
    naive = noise.local._matrix(noise.local._membership(noise.windows(d, reach)), part * epsilon, (1 - part) * epsilon)
    if not circular and d > 2 * reach + 1 and 0.05 < part < 0.95:
        assert channel_loss(naive) > found.loss  # with ln B = eps - eps_K, as published


def test_plain_response_and_merged_groups_are_the_ends():
    truth, inside, out = noise.pb_grr(20, 5, 2.0, 2.0)
    assert inside == out == pytest.approx(1 / (np.exp(2) + 19))
    truth, inside, _ = noise.pb_grr(20, 5, 2.0, 0.0)
    assert truth == inside == pytest.approx(np.exp(2) / (5 * np.exp(2) + 15))


def test_estimators_invert_the_channel_and_are_unbiased():
    grouped = noise.Grouped(12, 3, 2.0, 1.0)
    matrix = noise.channel(noise.groups([3] * 4), 2.0, 1.0)
    users = np.array([500, 10, 40, 0, 0, 300, 20, 20, 20, 60, 0, 30.0])
    expected = users @ matrix.matrix
    np.testing.assert_allclose(grouped.values(expected), users, atol=1e-8)
    np.testing.assert_allclose(grouped.categories(expected), users.reshape(4, 3).sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(matrix.counts_of_items(expected), users, atol=1e-8)
    reports = np.random.default_rng(0).multinomial(1000, expected / 1000)
    np.testing.assert_allclose(matrix.counts_of_items(reports), grouped.values(reports), atol=1e-8)


def test_variances_agree_with_repetitions():
    """4000 repetitions; a variance's standard error is about sqrt(2/4000) = 2.2 %: six of them, rate below 1e-8."""
    grouped, rng = noise.Grouped(12, 3, 2.0, 1.0), np.random.default_rng(3)
    matrix = noise.channel(noise.groups([3] * 4), 2.0, 1.0).matrix
    users = np.array([500, 10, 40, 0, 0, 300, 20, 20, 20, 60, 0, 30])
    counts = np.sum([rng.multinomial(n, row, size=4000) for n, row in zip(users, matrix, strict=True)], axis=0)
    for item in (0, 1, 5, 11):
        group = users.reshape(4, 3)[item // 3].sum()
        variance = grouped.value_variance(1000, group, users[item])
        assert grouped.values(counts)[:, item].var() == pytest.approx(variance, rel=0.135)
        variance = grouped.category_variance(1000, group)
        assert grouped.categories(counts)[:, item // 3].var() == pytest.approx(variance, rel=0.135)


def test_the_trade_off_and_the_honest_baseline():
    """Section 5.5's finding, and what it leaves out: splitting the users is better in both at epsilon 1."""
    uniform, n = np.full(70, 1 / 70), 48842
    kernels = (0.0, 0.25, 0.5, 0.75, 1.0)
    errors = [np.array(noise.Grouped(70, 10, 1.0, e).mean_square_errors(uniform)) / n for e in kernels]
    category, value = np.array(errors).T
    assert (np.diff(category) > 0).all()
    assert (np.diff(value[1:]) < 0).all()
    assert [category[0], category[2], category[4]] == pytest.approx([6.20e-5, 2.62e-4, 4.37e-3], rel=3e-3)
    assert [value[2], value[4]] == pytest.approx([1.39e-3, 5.02e-4], rel=3e-3)
    split = noise.split_users(uniform, 10, 1.0, 0.5, n)
    assert split == pytest.approx((1.25e-4, 1.53e-4), rel=0.02)
    assert split[0] < category[2] / 2
    assert split[1] < value[4]


def test_split_users_agrees_with_a_simulation():
    """300 repetitions of both halves; the mean of 4 + 12 squared errors: 25 % is beyond five standard errors."""
    rng, d, k, epsilon, users = np.random.default_rng(9), 12, 3, 1.5, 4000
    shares = np.linspace(1, 3, d) / np.linspace(1, 3, d).sum()
    counts = np.round(shares * users).astype(int)
    users, shares = int(counts.sum()), counts / counts.sum()
    own, e, errors = np.repeat(np.arange(d), counts), np.exp(epsilon), []
    for _ in range(300):
        order = rng.permutation(users)
        first, second = own[order[: users // 2]] // k, own[order[users // 2 :]]
        p, q = e / (e + d // k - 1), 1 / (e + d // k - 1)
        told = np.where(rng.random(first.size) < p, first, (first + rng.integers(1, d // k, first.size)) % (d // k))
        groups = (np.bincount(told, minlength=d // k) / first.size - q) / (p - q)
        bits = rng.random((second.size, d)) < np.where(np.arange(d) == second[:, None], 0.5, 1 / (e + 1))
        items = (bits.mean(axis=0) - 1 / (e + 1)) / (0.5 - 1 / (e + 1))
        errors.append([((groups - shares.reshape(-1, k).sum(1)) ** 2).mean(), ((items - shares) ** 2).mean()])
    assert np.mean(errors, axis=0) == pytest.approx(noise.split_users(shares, k, epsilon, 0.5, users), rel=0.25)
    assert noise.split_users(shares, k, 4.0, 0.5, users, values="grr")[1] > 0


def test_projection_is_onto_the_simplex():
    found = noise.on_simplex([[-0.2, 0.5, 0.9], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(found, [[0, 0.3, 0.7], [0.2, 0.3, 0.5]], atol=1e-12)


def test_draws_follow_the_channel():
    """Chi-square-like check of one row: 50 000 draws, each share within 5.5 standard errors; rate below 1e-6."""
    found = noise.channel(noise.windows(5, 1), 2.0, 1.0)
    drawn = found.draw(np.full(50_000, 1), np.random.default_rng(1))
    shares = np.bincount(drawn, minlength=5) / 50_000
    assert (np.abs(shares - found.matrix[1]) < 5.5 * np.sqrt(found.matrix[1] / 50_000)).all()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: noise.pb_grr(1, 1, 1.0, 0.5), "d must be"), (lambda: noise.pb_grr(5, 6, 1.0, 0.5), "k must be"),
    (lambda: noise.pb_grr(5, 2, 1.0, 1.5), "kernel_epsilon must lie"),
    (lambda: noise.pb_grr(5, 2, 0.0, 0.0), "epsilon"),
    (lambda: noise.Grouped(5, 2, 1.0, 0.5), "multiple of k"),
    (lambda: noise.Grouped(6, 2, 1.0, 0.0).values(np.ones(6)), "kernel_epsilon must be positive"),
    (lambda: noise.Grouped(6, 2, 1.0, 0.5).categories(np.ones(5)), "one count per item"),
    (lambda: noise.channel([[1], [1]], 1.0, 0.5), r"regions\[0\] must hold item 0"),
    (lambda: noise.channel(noise.windows(9, 1, circular=True), 1.0, 0.0).counts_of_items(np.ones(9)), "singular"),
    (lambda: noise.split_users([0.5, 0.6], 1, 1.0, 0.5, 10), "frequencies"),
])  # fmt: skip
def test_misuse_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(epsilon=st.floats(0.01, 20.0), theta=st.floats(0.0, 0.4), share=parts, k=st.integers(2, 60))
def test_the_family_is_the_channel_on_the_grid(epsilon, theta, share, k):
    mechanism = PBGRR(epsilon, k=k, theta=theta, share=share)
    grid = np.arange(k) / (k - 1)
    matrix = mechanism.law(grid[:, np.newaxis]).pmf(grid)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert channel_loss(matrix) <= epsilon + 1e-9
    if mechanism.reach < (k - 2) / 2:
        assert channel_loss(matrix) == pytest.approx(epsilon, abs=1e-9)
        own = noise.channel(noise.windows(k, mechanism.reach), epsilon, share * epsilon) if mechanism.reach else None
        if own is not None and k <= 20:
            np.testing.assert_allclose(own.matrix, matrix, atol=1e-9)


@given(epsilon=st.floats(0.01, 20.0), beta=st.floats(0.01, 0.9), x=st.floats(0.0, 1.0))
def test_the_boosted_laplace_family_keeps_its_region_and_its_promise(epsilon, beta, x):
    mechanism = BoostedLaplace(epsilon, beta=beta)
    assert float(mechanism.law(x).mass(0, 1)) >= 1 - beta - 1e-12
    y = np.linspace(-2, 3, 101)
    loss = np.log(mechanism.law(x).pdf(y)) - np.log(mechanism.law(np.linspace(0, 1, 21)[:, np.newaxis]).pdf(y))
    assert np.abs(loss).max() <= epsilon + 1e-9


def test_engines_answer_for_the_families():
    X = np.array([[0.2], [0.55], [0.9]])
    curves = ew.stability(
        lambda rows: rows[:, 0] > 0.5, X, sensitive=0, mechanisms=["pb_grr:theta=0.1", "boosted_laplace"],
        epsilons=[1.0, 4.0], rng=0, tolerance=0.03,
    )  # fmt: skip
    law = ew.MECHANISMS["pb_grr"](4.0, theta=0.1).law(X[:, 0])
    truth = np.where(X[:, 0] > 0.5, law.mass(0.505, 1.0), law.mass(0.0, 0.5))
    assert (curves.lower[0, 1] <= truth + 1e-12).all()
    assert (curves.upper[0, 1] >= truth - 1e-12).all()


@pytest.mark.parametrize(("name", "options"), [
    ("pb_grr", {"theta": 2.0}), ("pb_grr", {"share": -0.1}), ("boosted_laplace", {"beta": 1.0}),
])  # fmt: skip
def test_families_refuse_bad_options(name, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ew.MECHANISMS[name](1.0, **options)
