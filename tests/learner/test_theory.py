"""What theory says of the mechanisms: rates, variances and their ratios, sensitivities."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from epsworth.client.kernels import exp_below
from epsworth.learner import Classifier, Client, LatticeConfig, simulate
from epsworth.learner.coins import WORD
from epsworth.learner.encoding import cells, nearest
from epsworth.learner.mechanism import Users
from epsworth.learner.mechanisms import MECHANISMS, Hadamard
from epsworth.mechanisms.rational import stated
from epsworth.mechanisms.words import ReplayableWords
from reproduction.published_lattice import Parity, Slides, codes, floors, parities, parity_centres
from strategies import sparing


def active(unit, m):
    """Return the lattice points whose open cells hold each point, from the codes that reports are made of."""
    return [list(itertools.product(*(range(c // 2, (c + 1) // 2 + 1) for c in row))) for row in codes(unit, m).tolist()]


def excess_risk(name, users, m, rng):
    """Return the excess risk of one learner, d = 1 at epsilon = 1: eta is linear and crosses 1/2 near the middle.

    On a lattice point or a cell's edge the excess would be zero, hence the random offset, wider than a cell.
    """
    crossing = 0.5 + rng.uniform(-0.15, 0.15)
    kernel = LatticeConfig(box=(0, 1), m=m, mechanism=name, epsilon=1).kernel
    middle = (np.arange(m) + 0.5) / m
    one = 0.5 + (middle - crossing) / 1.3  # eta, averaged over an interval
    known = Users(np.tile(middle, 2)[:, None], np.repeat([0, 1], m), np.zeros(2 * m, dtype=bool))
    held = np.zeros(kernel.symbols + 1, dtype=np.int64)
    held[kernel.symbol(known)] = rng.multinomial(users, np.concatenate([1 - one, one]) / m)
    score = kernel.estimate(kernel.simulate_counts(held, rng))[:, 0]
    x = rng.random((4000, 1))
    own = nearest(x, m)[:, 0] if kernel.overlapping else cells(x, m)
    lead = (x[:, 0] - crossing) / 0.65  # 2 eta - 1
    return np.mean(np.abs(lead) * ((score[own] >= 0) != (lead >= 0)))


@pytest.mark.parametrize(
    ("name", "constant"),
    sparing([("ternary", 1), ("ternary", 2), ("slides", 1), ("slides", 2), ("slides", 4)], keep=(0, 3)),
)
@pytest.mark.slow
def test_the_excess_risk_falls_with_the_square_root_of_the_users(name, constant):
    """h = constant n^(-1/4), n half of the users: theory -1/2 (Berrett & Butucea 2019) for every constant.

    Over seeds the fitted slope has a standard deviation below .02 and a mean within .04 of -1/2: false alarm 2 %, were
    the seed not fixed.
    """
    rng, users = np.random.default_rng(1), [2 * 10**k for k in (5, 6, 7, 8)]
    sides = [max(2, round((n / 2) ** 0.25 / constant)) for n in users]
    means = [np.mean([excess_risk(name, n, m, rng) for _ in range(400)]) for n, m in zip(users, sides, strict=True)]
    slope = np.polyfit(np.log(users), np.log(means), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.08)


@pytest.mark.slow
def test_parity_classes_gain_what_theory_says():
    """Variances 80 4^d / epsilon^2 over 2^d / tanh(epsilon / 2)^2: 68.3 at epsilon = 1, d = 2.

    2000 runs of 49 nearly independent estimates: each variance has a relative standard error of .45 %, their ratio of
    .64 %; 3 % are allowed, a false alarm of 3e-6.  Noise is discrete and groups are random: below .2 % each.
    """
    rng, users, variance = np.random.default_rng(2), 20_000, {}
    for name in ("slides", "parity"):
        c = LatticeConfig(box=(0, 1), d=2, m=6, mechanism=name, epsilon=1)
        X = rng.random((users, 2))
        held = c.kernel.holders(c.users(X, rng.integers(2, size=users)))
        runs = np.array([c.kernel.estimate(c.kernel.simulate_counts(held, rng))[:, 0] for _ in range(2000)])
        variance[name] = runs.var(axis=0).mean() * users
        assert variance[name] == pytest.approx(c.kernel.variance, rel=0.03)
    theory = 80 * 16 / (4 / math.tanh(0.5) ** 2)
    assert theory == pytest.approx(68.3, abs=0.05)
    assert variance["slides"] / variance["parity"] == pytest.approx(theory, rel=0.03)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_published_cells_have_the_stated_sensitivity_and_no_more(d):
    """All pairs of states, boundary points and lattice points included: |B - B'|_1 <= 2^(d+1), attained."""
    slides = Slides(Fraction(1), 4, d, 2)
    states = (2 * slides.m + 1) ** d
    indicators = slides.indicator_sums(np.eye(states, dtype=np.int64))
    active_cells = indicators.sum(axis=1)
    assert ((indicators == 0) | (indicators == 1)).all()
    assert active_cells.min() == 1
    assert active_cells.max() == 2**d
    common = indicators.astype(float) @ indicators.T  # of zeros and ones |a - b| is a + b - 2 a b
    distance = active_cells[:, None] + active_cells - 2 * common
    assert distance.max() == slides.sensitivity == 2 ** (d + 1)


@pytest.mark.parametrize("d", range(1, 7))
@pytest.mark.cases(1)
def test_points_on_and_beside_the_lattice_have_at_most_two_cells_per_axis(d):
    """Every mixture, in floating point, of lattice points, their neighbours and generic points, m = 2..64."""
    rng = np.random.default_rng(d)
    for m in range(2, 65):
        points = np.arange(m + 1) / m
        kinds = np.stack([points, np.nextafter(points, -1), np.nextafter(points, 2), rng.random(m + 1)]).clip(0, 1)
        u = kinds[rng.integers(4, size=(20, d)), rng.integers(m + 1, size=(20, d))]
        for row, found in zip(u, active(u, m), strict=True):
            assert 1 <= len(found) <= 2**d
            assert all(len({cell[axis] for cell in found}) <= 2 for axis in range(d))
            assert all(abs(row - np.array(cell) / m).max() < (1 + 1e-9) / m for cell in found)
        for parity in parities(d):
            centre = parity_centres(floors(u, m), parity[None])
            assert ((centre % 2 == parity) & (np.abs(u - centre / m) <= (1 + 1e-9) / m)).all()


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_unary_and_one_bit_reports_keep_epsilon_by_enumeration(epsilon, m):
    """All outputs of all users as products of integer weights, the user who states nothing included."""
    exact = stated(epsilon, "epsilon")
    bound = exp_below(exact)

    def worst(tables):
        return max(Fraction(max(column), min(column)) for column in zip(*tables, strict=True))

    oue = MECHANISMS["oue"](exact, m, 1, 2)
    outputs = list(itertools.product((0, 1), repeat=oue.symbols))
    half, f = WORD // 2, oue.flip
    unary = [[math.prod((half if i == own else f if bit else WORD - f) for i, bit in enumerate(out)) for out in outputs]
             for own in [-1, *range(oue.symbols)]]  # fmt: skip
    assert worst(unary) <= bound
    for kernel in (Hadamard(exact, m, 1, 2), Parity(exact, m, 1, 2)):
        within = kernel.within if isinstance(kernel, Parity) else kernel
        rows, tables = np.arange(within.rows), []
        for symbol in [-1, *range(kernel.symbols)]:
            table = []
            for group in range(kernel.groups):
                known = np.array([symbol])
                inner = kernel.inner(known, np.array([group])) if isinstance(kernel, Parity) else known
                for true in within.true_bits(inner, rows).tolist():
                    right = half if inner[0] < 0 else WORD - within.flip
                    table += [right if bit == true else WORD - right for bit in (0, 1)]
            tables.append(table)
        assert worst(tables) <= bound
        assert math.log(worst(tables)) == pytest.approx(epsilon, rel=1e-6)  # tight


def samples(c, X, y, rng):
    """Yield 4000 sums over 5000 users drawn from the rows, who are turned into symbols once."""
    held = c.kernel.holders(c.users(X, y))
    for people in rng.multinomial(5000, held / held.sum(), size=4000):
        yield c.kernel.simulate_counts(people, rng)


@pytest.mark.parametrize("name", ["hadamard", "ternary", "krr", "oue"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 12.0])
@pytest.mark.slow
def test_mean_variances_count_the_sampling_of_users(name, epsilon):
    """Uneven cells, users drawn anew in each of 4000 runs: the mean variance is the formula's, less squared means.

    Cells are few and the largest dominates at large epsilon: a relative standard error of at most 2.3 %, 10 % allowed.
    """
    c = LatticeConfig(box=(0, 1), m=8, mechanism=name, epsilon=epsilon)
    rng = np.random.default_rng(5)
    X = rng.random((1000, 1)) ** 2
    runs = np.array([c.kernel.estimate(sums)[:, 0] for sums in samples(c, X, (X[:, 0] > 0.3).astype(int), rng)])
    expected = c.kernel.mean_variance - (runs.mean(axis=0) ** 2).mean()
    assert runs.var(axis=0).mean() * 5000 == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("name", ["krr", "oue"])
@pytest.mark.slow
def test_mean_variances_of_several_classes(name):
    """As above."""
    c = LatticeConfig(box=(0, 1), m=4, classes=(0, 1, 2), mechanism=name, epsilon=6.0)
    rng = np.random.default_rng(6)
    sums = samples(c, rng.random((1000, 1)) ** 2, rng.integers(3, size=1000), rng)
    runs = np.array([c.kernel.estimate(tally) for tally in sums])
    expected = c.kernel.mean_variance - (runs.mean(axis=0) ** 2).mean()
    assert runs.var(axis=0).mean() * 5000 == pytest.approx(expected, rel=0.1)


def test_a_one_bit_report_costs_the_same_for_any_number_of_cells():
    class Counting(ReplayableWords):
        drawn = 0

        def take(self, count):
            self.drawn += count
            return super().take(count)

    for m in (2, 64, 1000):
        source = Counting(0)
        kernel = Hadamard(Fraction(1), m, 2, 2)
        kernel.draw(Users(np.array([[0.3, 0.9]]), np.array([1]), np.array([False])), source)
        assert source.drawn == 2
        assert kernel.format.size <= 3


def test_noise_of_the_published_mechanism_is_that_of_its_grain():
    """Alpha is taken in whole millionths, rounded down: the formulas must speak of the same noise."""
    kernel = Slides(stated("1.9e-6", "epsilon"), 2, 1, 2)
    assert kernel.scale == 4 * 10**6
    drawn = kernel.draw(Users(np.zeros((4000, 1)), np.zeros(4000, int), np.zeros(4000, bool)), ReplayableWords(1))
    assert np.abs(drawn[:, 1:]).mean() == pytest.approx(kernel.scale, rel=0.05)  # five standard errors of 12000 numbers


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["cosine", "hadamard"])
@pytest.mark.slow
def test_sums_drawn_at_once_have_the_law_of_users_drawn_one_by_one(name, classes):
    """Means and variances of every count over 1500 simulations of either kind, within five standard errors."""
    rng = np.random.default_rng(2)
    kernel = MECHANISMS[name](stated("1.5", "epsilon"), 2, 1, classes)
    users = Users(rng.random((40, 1)), rng.integers(classes, size=40), np.arange(40) % 8 == 0)
    pick = [rng.integers(40, size=300) for _ in range(1500)]
    one = [kernel.simulate(Users(*(part[rows] for part in users)), rng).counts.ravel() for rows in pick]
    at_once = [kernel.simulate(users, rng, total=300).counts.ravel() for _ in range(1500)]
    a, b = np.array(one, dtype=float), np.array(at_once, dtype=float)
    assert (a.sum(axis=1) == 300).all()
    assert (b.sum(axis=1) == 300).all()
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 1500)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 5 * error).all()
    np.testing.assert_allclose(a.var(axis=0), b.var(axis=0), rtol=5 * (4 / 1500) ** 0.5)


@pytest.mark.slow
def test_few_users_and_many_cells_are_simulated_one_by_one():
    """Either way of the Hadamard simulation gives the same law: counts of a thousand users on 64 rows, 400 times."""
    rng = np.random.default_rng(3)
    kernel = Hadamard(stated("1", "epsilon"), 8, 2, 2)
    counts = np.bincount(rng.integers(129, size=1000), minlength=129)
    assert counts.sum() < np.count_nonzero(counts[:-1]) * kernel.rows
    few = np.array([kernel.simulate_counts(counts, rng).counts[:, 1] for _ in range(400)])
    many = np.array([kernel.simulate_counts(100 * counts, rng).counts[:, 1] for _ in range(400)]) / 100
    error = np.sqrt((few.var(axis=0) + many.var(axis=0)) / 400)
    assert (np.abs(few.mean(axis=0) - many.mean(axis=0)) < 5 * error).all()


def test_tables_too_large_to_smooth_are_refused_in_a_sentence():
    config = LatticeConfig(box=(0, 1), m=15_000, epsilon=1)
    sums = simulate(config, [[0.5]] * 1000, [1] * 1000, np.random.default_rng(0))
    with pytest.raises(ValueError, match="take fewer cells or smoothing=None"):
        Classifier.from_aggregate(sums).predict([[0.5]])
    assert Classifier.from_aggregate(sums, smoothing=None).predict([[0.5]]).shape == (1,)
    with pytest.raises(ValueError, match="take a smaller m"):
        LatticeConfig(box=(0, 1), m=64, d=6, epsilon=1, mechanism="cosine")


def test_an_empty_table_has_no_reports():
    for name in MECHANISMS:
        client = Client(LatticeConfig(box=(0, 1), m=2, epsilon=1, mechanism=name))
        assert client.reports(np.zeros((0, 1)), np.zeros(0, int)) == b""
