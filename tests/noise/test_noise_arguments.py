"""What is no number, or no useful one, ends in a sentence that names the field: no warning, no nan, no other error."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from epsworth import noise

KERNEL = noise.boosted("gaussian", scale=2.0, confidence=0.9)
KERNEL_TABLE = noise.boosted("discrete_laplace", scale=2.0)
PROGRAM = {"theta": 2.0, "confidence": 0.95, "sensitivity": 1.0, "delta": 1e-6}
GROUPED = noise.Grouped(20, 5, 2.0, 1.0)
STARS = noise.channel(noise.windows(5, 1), 2.0, 1.0)
HALVES = [0.5, 0.5]

ASKED = {
    "epsilon": [
        lambda v: noise.delta(KERNEL, v), lambda v: noise.delta(KERNEL_TABLE, v),
        lambda v: noise.best_confidence(v, 5.0, mechanism="laplace"),
        lambda v: noise.narrowest_interval(v, confidence=0.95, mechanism="laplace"),
        lambda v: noise.most_releases(v, 5.0, confidence=0.95, mechanism="gaussian"),
        lambda v: noise.pb_grr(20, 5, v, 1.0),
        lambda v: noise.channel(noise.windows(5, 1), v, 0.5), lambda v: noise.split_users(HALVES, 1, v, 0.5, 100),
        lambda v: noise.published_delta(KERNEL, v),
    ],
    "scale": [lambda v: noise.boosted(scale=v), lambda v: noise.boosted("discrete_laplace", scale=v)],
    "theta": [
        lambda v: noise.boosted(scale=2.0, theta=v), lambda v: noise.optimal_noise(**{**PROGRAM, "theta": v}),
        lambda v: noise.best_confidence(1.0, v, mechanism="laplace"),
    ],
    "sensitivity": [
        lambda v: noise.boosted(scale=2.0, sensitivity=v),
        lambda v: noise.optimal_noise(**{**PROGRAM, "sensitivity": v}),
        lambda v: noise.narrowest_interval(1.0, confidence=0.95, sensitivity=v, mechanism="laplace"),
    ],
    "confidence": [
        lambda v: noise.boosted(scale=2.0, confidence=v),
        lambda v: noise.optimal_noise(**{**PROGRAM, "confidence": v}),
    ],
    "delta": [lambda v: noise.published_epsilon(KERNEL, v), lambda v: noise.optimal_noise(**{**PROGRAM, "delta": v})],
    "lattice": [lambda v: noise.boosted("discrete_laplace", scale=2.0, lattice=v)],
    "order": [lambda v: noise.renyi(KERNEL, v), lambda v: noise.published_renyi(KERNEL, v)],
    "kernel_epsilon": [lambda v: noise.pb_grr(20, 5, 2.0, v)],
    "d": [lambda v: noise.pb_grr(v, 5, 2.0, 1.0), lambda v: noise.windows(v, 1)],
    "reach": [lambda v: noise.windows(5, v)],
    "sizes": [lambda v: noise.groups([v, 2])],
    "regions": [lambda v: noise.channel([[0, v], [1]], 1.0, 0.5)],
    "counts": [lambda v: GROUPED.values([v] * 20), lambda v: STARS.counts_of_items([v] * 5)],
    "users": [
        lambda v: GROUPED.category_variance(v, 1.0), lambda v: GROUPED.value_variance(v, 1.0, 1.0),
        lambda v: noise.split_users(HALVES, 1, 1.0, 0.5, v),
    ],
    "in_group": [lambda v: GROUPED.category_variance(10.0, v)],
    "at_item": [lambda v: GROUPED.value_variance(10.0, 1.0, v)],
    "shares": [lambda v: GROUPED.mean_square_errors([v] * 20), lambda v: noise.split_users([v, 0.5], 1, 1.0, 0.5, 9)],
    "part": [lambda v: noise.split_users(HALVES, 1, 1.0, v, 100)],
    "estimates": [lambda v: noise.on_simplex([v, 0.5])],
    "total": [lambda v: noise.on_simplex(HALVES, v)],
    "releases": [lambda v: noise.published_delta(KERNEL, 1.0, v)],
}  # fmt: skip


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, "wide", np.float64("nan")], ids=str)
def test_no_function_takes_what_is_no_finite_number(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for field, asks in ASKED.items():
            for ask in asks:
                with pytest.raises(ValueError, match=field):
                    ask(value)


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: noise.split_users(HALVES, 1, 1.0, 0.5, 100, values="krr"), "values must be 'grr' or 'oue'"),
    (lambda: noise.split_users(HALVES, 1, 1.0, 1e-9, 100), "part must leave"),
    (lambda: noise.split_users([0.2, 0.3, 0.5], 2, 1.0, 0.5, 100), "k must divide"),
    (lambda: noise.split_users(HALVES, 1, 1e-320, 0.5, 100), "epsilon must lie"),
    (lambda: noise.windows(10**9, 1), "d must be at most"),
    (lambda: noise.boosted(scale=2.0, boost=1e308), "boost must lie from 1 to 1e"),
    (lambda: noise.published_delta(noise.boosted("laplace", scale=2.0), 1.0), "boosted Gaussian kernel"),
    (lambda: noise.cheapest(5, confidence=0.95, releases=10**5, method="published"), "releases with method="),
    (lambda: STARS.draw([-1], np.random.default_rng(0)), "items must be whole numbers"),
    (lambda: noise.release_of(KERNEL_TABLE).draw([2**60]), "index must be below"),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_tiny_and_huge_budgets_split_without_overflow():
    """Randomised response with a tiny epsilon says nothing, with a huge one the truth: only the sampling errs."""
    small = noise.split_users(HALVES, 1, 1e-8, 0.5, 100)
    large = noise.split_users(HALVES, 1, 700.0, 0.5, 100, values="grr")
    assert small[0] == pytest.approx(0.25 * 1 / (50 * 0.25e-16), rel=1e-6)
    assert large == pytest.approx((0.25 * (1 / 50 - 1 / 100),) * 2)
