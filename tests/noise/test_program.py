"""The linear program: a mechanism on one side, a proof on the other, and everything else in between."""

from __future__ import annotations

import time

import numpy as np
import pytest

from epsworth import noise
from epsworth.noise.program import _Shape, _solve
from epsworth.noise.staircase import best_staircase
from strategies import sparing

QUESTIONS = [
    (0.5, 0.1, 1e-5), (1.0, 0.1, 1e-5), (2.0, 0.01, 1e-6), (5.0, 0.05, 1e-5), (5.0, 0.001, 1e-3), (20.0, 0.001, 1e-3),
    (0.05, 0.1, 1e-6), (2.84, 0.05, 1e-6),
]  # fmt: skip


ON_LATTICE = [(1.0, 0.1, 1e-5), (5.0, 0.001, 1e-3), (2.84, 0.05, 1e-6)]


@pytest.mark.parametrize(
    ("theta", "beta", "delta", "lattice"),
    sparing([(*asked, None) for asked in QUESTIONS] + [(*asked, 1.0) for asked in ON_LATTICE], keep=(1, 4, 7, 8, 10)),
)
@pytest.mark.slow
def test_nothing_in_the_list_passes_the_floor(theta, beta, delta, lattice):
    ranked = noise.cheapest(theta, confidence=1 - beta, delta=delta, lattice=lattice)
    best = ranked.named("optimal")
    assert best.epsilon >= ranked.floor
    assert ranked.floor > 0
    for choice in ranked:
        assert choice.epsilon >= ranked.floor, choice.name
        assert choice.confidence >= 1 - beta, choice.name


@pytest.mark.parametrize(("theta", "lattice"), [(0.5, 1.0), (2.5, 1.0), (0.75, 0.5), (0.6, 0.4), (2.84, 1.0)])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_floors_on_a_lattice_allow_continuous_noise_no_more_than_it_has(theta, lattice, delta):
    """For half-integer theta, noise rounded to the lattice holds as much: the staircase is at the floor."""
    sensitivity = 2 * lattice
    found = noise.optimal_noise(theta, confidence=0.99, sensitivity=sensitivity, delta=delta, lattice=lattice)
    stairs = best_staircase(theta, 0.01, sensitivity).epsilon(delta)
    assert 0 < found.floor <= min(stairs, found.noise.epsilon(delta))
    if theta % lattice == pytest.approx(lattice / 2):
        assert found.floor >= 0.99 * min(stairs, found.noise.epsilon(delta))


@pytest.mark.slow
def test_the_program_is_not_called_the_best_where_it_is_not():
    """A table of masses on a lattice beats it, or doubles solve it too coarsely: the words must not say otherwise."""
    ranked = noise.cheapest(1, confidence=0.999999, delta=1e-6, lattice=1)
    assert ranked[0].epsilon < 0.95 * ranked.named("optimal").epsilon
    assert "optim" not in ranked.advice
    left_out = noise.cheapest(1, confidence=1 - 1.08e-6, delta=5.7e-10, lattice=1).left_out
    assert "too coarsely" in left_out["optimal"]


@pytest.mark.parametrize(("theta", "beta", "delta"), QUESTIONS[:6])
@pytest.mark.cases(1)
def test_the_gap_is_closed_where_cells_fit(theta, beta, delta):
    found = noise.optimal_noise(theta, confidence=1 - beta, sensitivity=1.0, delta=delta)
    assert found.floor_any <= found.floor <= found.noise.epsilon(delta) <= found.floor * (1 + 1e-5)


def test_without_delta_the_optimum_is_the_staircase():
    """Geng & Viswanath 2014 found it analytically."""
    for theta, beta in ((0.5, 0.1), (1.0, 0.2), (2.5, 0.01), (5.0, 0.05)):
        found = noise.optimal_noise(theta, confidence=1 - beta, sensitivity=1.0, delta=0.0)
        assert found.noise.pure_epsilon == pytest.approx(best_staircase(theta, beta, 1.0).pure_epsilon, rel=1e-6)
        assert found.floor <= best_staircase(theta, beta, 1.0).pure_epsilon


def test_the_solution_keeps_its_promise_for_every_shift():
    """Recomputed from the table alone: all shifts, both orders, no profile code."""
    found = noise.optimal_noise(2.0, confidence=0.95, sensitivity=1.0, delta=1e-4).noise
    p, epsilon = found.masses, found.epsilon(1e-4)
    half = p[p.size // 2 :]
    assert (np.diff(half) <= 0).all()
    for shift in range(1, found.shift + 1):
        q, r = np.r_[p, np.zeros(shift)], np.r_[np.zeros(shift), p]
        for a, b in ((q, r), (r, q)):
            assert np.maximum(a - np.exp(epsilon) * b, 0).sum() <= 1e-4 * (1 + 1e-9)


def test_weak_duality_bounds_random_laws():
    """No random symmetric lattice law holds more inside, at its own epsilon and delta, than the dual allows."""
    rng, shape = np.random.default_rng(2), _Shape(12, 1, 3, False)
    for _ in range(20):
        half = np.sort(rng.exponential(size=40) * np.exp(-rng.uniform(0.1, 1) * np.arange(40)))[::-1]
        p = np.r_[half[:0:-1], half]
        p /= p.sum()
        epsilon = rng.uniform(0.2, 1.5)
        delta = np.maximum(np.r_[p, 0] - np.exp(epsilon) * np.r_[0, p], 0).sum()
        middle = p.size // 2
        inside = p[middle - 2 : middle + 3].sum()
        for unimodal in (True, False):
            assert inside <= _solve(shape, epsilon, delta, unimodal=unimodal)[3] + 1e-12


def test_two_hundred_points_take_far_less_than_half_a_minute():
    start = time.perf_counter()
    found = noise.optimal_noise(40.0, confidence=0.99, sensitivity=1.0, delta=1e-5)
    assert time.perf_counter() - start < 30
    assert found.noise.epsilon(1e-5) <= found.floor * (1 + 1e-4)
