"""The linear program: a mechanism on one side, a proof on the other, and nothing in between."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from epsworth import noise
from epsworth.noise import optimum, program
from epsworth.noise.cells import Cells
from epsworth.noise.lattice import CellNoise, LatticeNoise
from epsworth.noise.program import Order, _solve
from epsworth.noise.staircase import best_staircase
from strategies import sparing

QUESTIONS = [
    (0.5, 0.1, 1e-5), (1.0, 0.1, 1e-5), (2.0, 0.01, 1e-6), (5.0, 0.05, 1e-5), (5.0, 0.001, 1e-3), (20.0, 0.001, 1e-3),
    (0.05, 0.1, 1e-6), (2.84, 0.05, 1e-6), (0.05, 1e-9, 1e-12), (50.0, 1e-9, 1e-12), (2.4, 1e-7, 1e-12),
]  # fmt: skip
ON_LATTICE = [(1.0, 0.1, 1e-5), (5.0, 0.001, 1e-3), (2.84, 0.05, 1e-6), (1.0, 1e-6, 1e-6)]


@pytest.mark.parametrize(
    ("theta", "beta", "delta", "lattice"),
    sparing([(*asked, None) for asked in QUESTIONS] + [(*asked, 1.0) for asked in ON_LATTICE], keep=(1, 4, 7, 8, 14)),
)
@pytest.mark.slow
def test_nothing_in_the_list_is_cheaper_than_the_best(theta, beta, delta, lattice):
    ranked = noise.cheapest(theta, confidence=1 - Fraction(repr(beta)), delta=delta, lattice=lattice)
    best = ranked.named("optimal")
    assert 0 < ranked.floor <= best.epsilon <= ranked.floor * (1 + 1e-6)
    for choice in ranked:
        assert choice.epsilon >= ranked.floor, choice.name
        assert choice.epsilon >= best.epsilon * (1 - 1e-6), choice.name
        assert Fraction(choice.noise.outside) <= Fraction(repr(beta)), choice.name


@pytest.mark.parametrize("questions", sparing([6, 60], keep=[0]))
def test_the_best_noise_is_at_its_floor_whatever_is_asked(questions):
    rng = np.random.default_rng(3)
    for _ in range(questions):
        theta, beta = float(f"{10 ** rng.uniform(-1.3, 1.7):.3g}"), float(10 ** rng.uniform(-9, -0.3))
        delta = 0.0 if rng.random() < 0.25 else float(10 ** rng.uniform(-12, -3))
        lattice = None if rng.random() < 0.5 else float(rng.choice([0.1, 0.25, 0.5, 1.0]))
        found = noise.optimal_noise(
            theta, confidence=1 - Fraction(beta), sensitivity=1.0, delta=delta, lattice=lattice
        )  # fmt: skip
        epsilon = found.noise.epsilon(delta)
        assert Fraction(found.noise.outside) <= Fraction(beta)
        assert found.floor_any <= found.floor <= epsilon
        assert epsilon <= max(found.floor * (1 + 5e-5), 1.001 * optimum.LEAST), (theta, beta, delta, lattice)


def least_outside(points: int, shift: int, inside: int, epsilon: float, delta: float) -> float:
    """Return the least mass outside of falling masses p_0 >= p_1 >= .. on a lattice: a program of its own.

    Nothing is reduced: a variable per distance, and the hockey-stick at the shift as it is defined.
    """
    line = np.abs(np.arange(-points, points + shift + 1))  # distances from both answers of every output
    other = np.abs(np.arange(-points, points + shift + 1) - shift)
    count, size = points + 1, line.size
    rows, limits = [], []
    for at in range(size):
        row = np.zeros(count + size)
        if line[at] <= points:
            row[line[at]] += 1
        if other[at] <= points:
            row[other[at]] -= np.exp(epsilon)
        row[count + at] = -1
        rows.append(row)
        limits.append(0.0)
    rows.append(np.r_[np.zeros(count), np.ones(size)])
    limits.append(delta)
    for a in range(points):
        row = np.zeros(count + size)
        row[[a + 1, a]] = 1, -1
        rows.append(row)
        limits.append(0.0)
    times = np.r_[1.0, np.full(points, 2.0)]
    cost = np.r_[np.where(np.arange(count) > inside, times, 0), np.zeros(size)]
    found = linprog(
        cost, A_ub=np.array(rows), b_ub=limits, A_eq=[np.r_[times, np.zeros(size)]], b_eq=[1.0], method="highs"
    )
    return float(found.fun)


@pytest.mark.parametrize(("inside", "shift", "beta", "delta"), sparing([
    (2, 1, 0.05, 1e-2), (2, 2, 0.05, 1e-2), (3, 4, 0.1, 1e-3), (1, 3, 0.02, 3e-3), (7, 3, 0.01, 1e-2),
    (4, 5, 0.2, 0.03),
], keep=(1, 2, 5)))  # fmt: skip
def test_a_program_with_a_variable_for_every_point_agrees(inside, shift, beta, delta):
    """Tails that end after 60 points cost nothing here: delta is what is left of them many times over."""
    found = noise.optimal_noise(inside, confidence=1 - beta, sensitivity=shift, delta=delta, lattice=1)
    assert least_outside(60, shift, inside, found.noise.epsilon(delta) * (1 + 1e-5), delta) <= beta
    assert least_outside(60, shift, inside, found.floor * (1 - 1e-5), delta) > beta


@pytest.mark.parametrize(("theta", "lattice"), [(0.5, 1.0), (2.5, 1.0), (0.75, 0.5), (0.6, 0.4), (2.84, 1.0)])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.cases(1)
def test_floors_on_a_lattice_allow_continuous_noise_no_more_than_it_has(theta, lattice, delta):
    """Noise with a density is held to theta, not to the points within it."""
    sensitivity = 2 * lattice
    found = noise.optimal_noise(theta, confidence=0.99, sensitivity=sensitivity, delta=delta, lattice=lattice)
    stairs = best_staircase(theta, 0.01, sensitivity).epsilon(delta)
    plain = noise.optimal_noise(theta, confidence=0.99, sensitivity=sensitivity, delta=delta)
    assert 0 < found.floor <= min(stairs, found.noise.epsilon(delta))
    assert found.floor <= plain.noise.epsilon(delta)
    assert found.noise.epsilon(delta) <= plain.noise.epsilon(delta) * (1 + 1e-9)


def test_half_a_step_decides_whether_points_or_cells_are_better():
    for theta, kind in ((2, LatticeNoise), (2.5, LatticeNoise), (2.6, CellNoise)):
        found = noise.optimal_noise(theta, confidence=0.95, sensitivity=1, delta=1e-6, lattice=1)
        assert isinstance(found.noise, kind)
        assert found.noise.epsilon(1e-6) <= found.floor * (1 + 1e-6)


def test_an_epsilon_of_zero_has_no_floor():
    found = noise.optimal_noise(20, confidence=0.9, sensitivity=1, delta=0.1)
    assert (found.floor, found.noise.epsilon(0.1)) == (0.0, 0.0)
    assert found.noise.confidence >= 0.9


def test_without_delta_the_optimum_is_the_staircase():
    """Geng & Viswanath 2014 found it analytically."""
    for theta, beta in ((0.5, 0.1), (1.0, 0.2), (2.5, 0.01), (5.0, 0.05), (0.01, 0.3), (3.75, 1e-9)):
        found = noise.optimal_noise(theta, confidence=1 - Fraction(repr(beta)), sensitivity=1.0, delta=0.0)
        truth = best_staircase(theta, beta, 1.0).pure_epsilon
        assert found.noise.pure_epsilon == pytest.approx(truth, rel=1e-8)
        assert truth * (1 - 1e-6) <= found.floor <= truth


@pytest.mark.parametrize(("theta", "lattice"), [(2.0, None), (2.3, None), (2.3, 0.25)])
def test_the_solution_keeps_its_promise_for_every_shift(theta, lattice):
    """Recomputed from the law alone, at shifts of all sizes and in both orders: no profile code."""
    found = noise.optimal_noise(theta, confidence=0.95, sensitivity=1.0, delta=1e-4, lattice=lattice).noise
    epsilon, law = found.epsilon(1e-4), found.law(0.0)
    for shift in (0.1, 0.25, 0.5, 0.7, 0.75, 1.0) if lattice is None else (0.25, 0.5, 0.75, 1.0):
        if lattice is None:
            edges = np.unique(np.round(np.r_[found.edges, found.edges + shift], 12))
        else:
            edges = 0.25 * (np.arange(-400, 401) - 0.5)
        here, there = (np.asarray(law.mass(edges[:-1] - move, edges[1:] - move)) for move in (0.0, shift))
        for a, b in ((here, there), (there, here)):
            assert np.maximum(a - np.exp(epsilon) * b, 0).sum() <= 1e-4 * (1 + 1e-6) + 1e-9


def random_law(cells: Cells, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return falling densities on cells and their masses on the right, the first one's on both sides."""
    _, _, both = cells.sizes(count)
    density = np.sort(rng.exponential(size=count) * np.exp(-rng.uniform(0.05, 1) * np.arange(count)))[::-1]
    return density / (density * both).sum(), both


@pytest.mark.parametrize("within", [Fraction(3, 10), Fraction(1, 2), Fraction(7, 4), Fraction(2), Fraction(5, 2)])
@pytest.mark.cases(1)
def test_weak_duality_bounds_random_laws(within):
    """No law of the kind has less outside, at its own epsilon and delta, than the dual allows."""
    rng, cells = np.random.default_rng(2), Cells.of(within)
    for _ in range(20):
        density, both = random_law(cells, 60, rng)
        epsilon, width = rng.uniform(0.2, 1.5), np.array([float(w) for w in cells.widths])
        widths = np.tile(width, 60)[:60]
        after = np.r_[density[cells.period :], np.zeros(cells.period)]
        delta = float((widths * np.maximum(density - np.exp(epsilon) * after, 0)).sum())
        outside = float((density * both)[cells.inside :].sum())
        for falling in (True, False):
            assert _solve(cells, epsilon, outside, delta * (1 + 1e-12), falling=falling).proved <= 1 + 1e-12


@pytest.mark.parametrize("times", sparing([20, 200], keep=[0]))
def test_a_bound_holds_whatever_the_solver_hands_over(times, monkeypatch):
    """Multipliers are taken apart: bounds get worse, or are zero, and never exceed the optimum."""
    rng, original = np.random.default_rng(4), program._proved
    cells, epsilon, failing, delta = Cells.of(Fraction(17, 10)), 0.9, 0.05, 1e-3
    best = _solve(cells, epsilon, failing, delta)
    assert best.outside * (1 - 1e-8) <= best.proved <= best.outside * (1 + 1e-8)
    for _ in range(times):
        factor, size = 10 ** rng.uniform(-3, 3), rng.uniform(0, 2)

        def spoilt(period, weight, cost, slack, order, held, total, factor=factor, size=size):
            noise_of = held * rng.uniform(1 - size / 2, 1 + size, held.shape) + size * rng.random(held.shape) / 100
            return original(period, weight, cost, slack, order, noise_of, total * factor)

        monkeypatch.setattr(program, "_proved", spoilt)
        assert _solve(cells, epsilon, failing, delta).proved <= best.outside * (1 + 1e-9)


@pytest.mark.parametrize("programs", sparing([6, 50], keep=[0]))
def test_repaired_multipliers_are_those_of_exact_arithmetic(programs):
    """Fractions repeat the repair at the multipliers that were kept: the bound is no larger than theirs."""
    rng = np.random.default_rng(8)
    for _ in range(programs):
        period, rows = int(rng.integers(1, 3)), int(rng.integers(2, 7))
        n = rows + period
        weight, slack = 10.0 ** rng.uniform(-3, 0, n), 10.0 ** rng.uniform(-3, 1, rows)
        cost = np.where(np.arange(n) < rows // 2, 0.0, weight * rng.uniform(0.5, 20, n))
        first = np.arange(n - 1)
        order, held = Order(first, first + 1, rng.uniform(0.1, 1, n - 1)), rng.uniform(0, 0.1, n - 1)
        found = program._proved(period, weight, cost, slack, order, held, float(rng.uniform(0, 2)))
        best = Fraction(0)  # of all shares, a bound is at most what the largest feasible one gives
        w, c, s, r, v = (
            [Fraction(float(x)) for x in values] for values in (weight, cost, slack, order.ratio, held)
        )  # fmt: skip
        for share in [Fraction(float(x)) for x in np.linspace(0, 2, 401)]:
            asked = [Fraction(0)] * n
            for at in range(n):
                push = (v[at] if at < n - 1 else 0) - (v[at - 1] * r[at - 1] if at else 0)
                before = asked[at - period] if at >= period else Fraction(0)
                asked[at] = max(Fraction(0), before + share * w[at] - c[at] + push)
            if not any(asked[rows:]):
                best = max(best, share - max(a * b for a, b in zip(asked[:rows], s, strict=True)))
        slope = 1 + max(s) * sum(w)  # between two shares of the list
        assert Fraction(found) <= best + Fraction(1, 200) * slope


def test_cells_end_where_theta_does():
    for within in (Fraction(1, 20), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(9, 4), Fraction(50)):
        cells = Cells.of(within)
        both = [2 * width for width in cells.widths] * 60
        if cells.odd:
            both[0] /= 2
        assert sum(both[: cells.inside]) == 2 * within
        assert sum(cells.widths) == 1
