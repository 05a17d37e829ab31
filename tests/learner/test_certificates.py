"""What is certified is true as often as promised; plans and private validation keep their words."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from epsworth.bounds import Risk
from epsworth.learner import (
    MECHANISMS,
    Classifier,
    Holder,
    LatticeConfig,
    PrivateValidation,
    plan,
    simulate,
)
from epsworth.learner.coins import WORD
from epsworth.learner.fakes import HONEST
from epsworth.learner.mechanism import Tally, times
from epsworth.learner.tails import Ballot, critical, difference_interval, sign_power, sign_test, smooth_power
from epsworth.learner.wire import pack
from epsworth.mechanisms.words import NotPrivate, ReplayableWords
from reproduction.published_lattice import chernoff, published_bound
from strategies import sparing

CERTIFYING = [("hadamard", 1.0), ("ternary", 1.0), ("ternary", 3.0), ("krr", 2.0), ("oue", 2.0), ("parity", 1.0),
              ("slides", 4.0)]  # fmt: skip
every_certifying = pytest.mark.parametrize(("name", "epsilon"), CERTIFYING)


LEAD = np.array([-2, 2, -10, 10])  # of ones over zeros among the hundred users of each of four cells


def p_values(kernel, tally, best, fakes=0):
    """Return, per cell, a p-value for "``best`` has more mass in it than every other label": any of them might."""
    return times(kernel.classes - 1, kernel.against(tally, best, fakes))


def stairs():
    """Return points in the middle of four cells, and labels: eta - 1/2 is small, of either sign."""
    x = np.repeat((np.arange(4) + 0.5) / 4, 100)[:, None]
    return x, np.concatenate([np.arange(100) < (100 + lead) / 2 for lead in LEAD]).astype(int)


def replications(name, epsilon, users=2000, runs=300):
    """Return fitted models, a point in every cell, and the cells' signed means; lattice point j holds j - 1 and j."""
    config = LatticeConfig(box=(0, 1), m=4, mechanism=name, epsilon=epsilon)
    rng = np.random.default_rng(1)
    models = [Classifier.from_aggregate(simulate(config, *stairs(), rng, users=users), None) for _ in range(runs)]
    if config.kernel.overlapping:
        return models, (np.arange(5) / 4)[:, None], np.convolve(LEAD, [1, 1]) / 400
    return models, ((np.arange(4) + 0.5) / 4)[:, None], LEAD / 400


@every_certifying
@pytest.mark.slow
def test_false_certificates_are_as_rare_as_promised(name, epsilon):
    """Cells whose mean is exactly zero are left out: either sign is right there."""
    models, points, mean = replications(name, epsilon)
    kept = mean != 0
    wrong, anywhere = np.zeros(kept.sum()), 0
    for model in models:
        found = model.certificate(points, confidence=0.9, fakes=0)
        false = (found.label == 1) != (mean > 0)
        wrong += (false & (found.p_value <= 0.1))[kept]
        anywhere += (false & found.certified)[kept].any()
    # binomial(300, 0.1) exceeds 53 with probability 1.6e-5; at most 5 cells and 7 mechanisms
    assert wrong.max() <= 53
    assert anywhere <= 53


@every_certifying
@pytest.mark.slow
def test_intervals_miss_as_rarely_as_promised(name, epsilon):
    models, points, mean = replications(name, epsilon, runs=300 if name != "slides" else 1)
    found = [model.certificate(points, confidence=0.9, fakes=0) for model in models]
    if name == "slides":
        assert np.isnan(found[0].lower).all()
        return
    missed = np.array([(c.lower > mean) | (c.upper < mean) for c in found])
    assert missed.sum(axis=0).max() <= 53  # as above


@pytest.mark.parametrize(("name", "epsilon"), [("hadamard", 2.0), ("krr", 3.0), ("oue", 2.0)])
@pytest.mark.cases(1)
def test_false_certificates_of_several_classes_are_rare(name, epsilon):
    rng = np.random.default_rng(2)
    x = np.repeat([0.25, 0.75], 300)[:, None]
    y = np.concatenate([np.repeat([0, 1, 2], [98, 101, 101]), np.repeat([0, 1, 2], [104, 98, 98])])
    config = LatticeConfig(box=(0, 1), m=2, classes=(0, 1, 2), mechanism=name, epsilon=epsilon)
    wrong = np.zeros(2)
    for _ in range(300):
        model = Classifier.from_aggregate(simulate(config, x, y, rng, users=2000), None)
        found = model.certificate([[0.25], [0.75]], confidence=0.9, fakes=0)
        wrong += (found.p_value <= 0.1) & [found.label[0] == 0, found.label[1] != 0]
    assert wrong.max() <= 53


def test_certificates_and_documents_say_what_fakes_can_do():
    """Two million users, epsilon 1, 11 x 11 cells: 1 % of fakes on one row turn every label, but are seen."""
    c = LatticeConfig(box=(0, 1), m=11, d=2, mechanism="hadamard", epsilon=1)
    middle = (np.arange(11) + 0.5) / 11
    X = np.array([(a, b) for a in middle for b in middle])
    honest = simulate(c, X, np.zeros(121, dtype=int), np.random.default_rng(7), users=1_980_000)
    before = Classifier.from_aggregate(honest, None).certificate(X, confidence=0.95, fakes=0)
    assert before.certified.mean() > 0.5
    assert (before.label == 0).all()
    ones = np.ones(20_000, dtype=np.int64)  # row 0 agrees with class 1 in every cell
    honest.add(pack(c, c.kernel.format.encode(ones)))
    with pytest.warns(UserWarning, match="^row 0 is named by 35,457"):
        turned = Classifier.from_aggregate(honest, None)
    found = turned.certificate(X, confidence=0.95, fakes=0)
    assert not found.certified.any()
    assert (found.label == 1).all()
    assert HONEST in str(Classifier.from_aggregate(simulate(c, X, np.zeros(121, dtype=int), 7), None).certificate(
        X, holder=Holder(1.0), fakes=0
    ))  # fmt: skip
    assert "fakes" in Classifier.certificate.__doc__
    root = Path(__file__).parents[2]
    for document in ("README.md", "docs/learner.md", "docs/claims.md"):
        assert "1 % of the reports" in (root / document).read_text().replace("\n", " ").replace("  ", " "), document


@every_certifying
def test_clear_cells_are_certified(name, epsilon):
    x = np.array([[0.1], [0.4], [0.6], [0.9]])
    config = LatticeConfig(box=(0, 1), m=4, mechanism=name, epsilon=epsilon)
    sums = simulate(config, x, [0, 0, 1, 1], np.random.default_rng(3), users=200_000)
    model = Classifier.from_aggregate(sums)
    ends = [[0.05], [0.95]]
    found = model.certificate(ends, confidence=0.99, fakes=0)
    assert found.certified.all()
    assert found.label.tolist() == [0, 1]
    assert (found.p_value <= found.adjusted).all()
    assert model.abstain(ends, confidence=0.99, fakes=0).tolist() == [0, 1]
    few = Classifier.from_aggregate(simulate(config, x, [0, 1, 0, 1], np.random.default_rng(3), users=50))
    assert few.abstain([[0.05]], confidence=1 - 1e-9, fakes=0).mask.all()
    assert "labels certified with confidence" in str(found)


def test_certificates_that_a_mechanism_lacks_are_refused():
    config = LatticeConfig(box=(0, 1), m=4, mechanism="cosine", epsilon=1)
    model = Classifier.from_aggregate(simulate(config, [[0.1]], [1], np.random.default_rng(0), users=100))
    with pytest.raises(ValueError, match="'cosine' carry no exact certificate"):
        model.certificate([[0.1]], fakes=0)


def test_adjustments_are_ordered_and_bad_levels_refused():
    models, x, _ = replications("hadamard", 1.0, runs=1)
    plain = {kind: models[0].certificate(x, adjust=kind, fakes=0).adjusted for kind in ("bonferroni", "bh", "by")}
    assert (plain["bh"] <= plain["bonferroni"]).all()
    assert (plain["bh"] <= plain["by"]).all()
    with pytest.raises(ValueError, match="adjust must be one of"):
        models[0].certificate(x, adjust="none", fakes=0)
    with pytest.raises(ValueError, match="confidence must lie"):
        models[0].certificate(x, confidence=1.0, fakes=0)


def test_the_point_is_certified_only_where_smoothness_allows():
    """eta rises with slope 1: declared slope 1 certifies far cells alone, a slope of 50 nothing, edges never."""
    x = (np.arange(8000) + 0.5) / 8000
    y = np.random.default_rng(0).random(8000) < x
    model = {}
    for outside in ("clip", "refuse"):
        config = LatticeConfig(box=(0, 1), m=8, mechanism="krr", epsilon=8, outside=outside)
        model[outside] = Classifier.from_aggregate(
            simulate(config, x[:, None], y, np.random.default_rng(1), users=10**7)
        )
    asked = ((np.arange(8) + 0.5) / 8)[:, None]
    mass = 1.05 / 8
    found = model["clip"].certificate(asked, holder=Holder(1.0, 1.0, mass), fakes=0).point
    assert found.tolist() == [False, True, True, False, False, True, True, False]
    assert model["refuse"].certificate(asked, holder=Holder(1.0, 1.0, mass), fakes=0).point[[0, 7]].all()
    assert not model["clip"].certificate(asked, holder=Holder(50.0, 1.0, mass), fakes=0).point.any()
    assert not model["clip"].certificate(asked, holder=Holder(1.0), fakes=0).point.any()  # without a bound on the mass
    assert not model["refuse"].certificate([[1000.0], [-1e6]], holder=Holder(1.0, 1.0, mass), fakes=0).point.any()
    with pytest.raises(ValueError, match="holder needs"):
        model["clip"].certificate(asked, holder=Holder(-1.0), fakes=0)


def test_sign_tests_are_binomial_tails():
    for k, n in [(0, 10), (5, 10), (10, 10), (300, 550), (5_100_000, 10**7)]:
        assert sign_test(k, n - k) == pytest.approx(stats.binom.sf(k - 1, n, 0.5), rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("mass", [0.1, 1.0])
def test_unary_certificates_keep_their_level_by_enumeration(epsilon, mass):
    """All outcomes of ten users at equal masses; and in whole weights, a bit alone tells which class has more users."""
    kernel = LatticeConfig(box=(0, 1), m=1, mechanism="oue", epsilon=epsilon).kernel
    f, half = kernel.flip, WORD // 2
    one = {1: half * (WORD - f), 0: f * half, None: f * (WORD - f)}  # bit 1 alone, by the user's own class
    zero = {1: (WORD - half) * f, 0: (WORD - f) * half, None: (WORD - f) * f}
    assert one[1] - zero[1] == zero[0] - one[0] == half * (WORD - 2 * f)
    assert one[None] == zero[None]
    n, alone = 10, (mass * (one[1] + one[0]) / 2 + (1 - mass) * one[None]) / WORD**2
    assert 2 * alone == pytest.approx(kernel.voters(mass), rel=1e-12)
    reached = dict.fromkeys((0.02, 0.1, 0.3), 0.0)
    for plus in range(n + 1):
        for minus in range(n + 1 - plus):
            both, users = np.array([[[plus, plus], [minus, minus]]]), np.array([n])
            both[0, 0, 1], both[0, 1, 0] = minus, plus
            both[0, 0, 0], both[0, 1, 1] = minus, plus
            p = p_values(kernel, Tally(both, users), np.array([1]))[0]
            for level in reached:
                weight = math.comb(n, plus) * math.comb(n - plus, minus) * alone ** (plus + minus)
                reached[level] += weight * (1 - 2 * alone) ** (n - plus - minus) * (p <= level)
    assert all(share <= level for level, share in reached.items())
    assert reached[0.3] > 0


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_unary_sums_count_bits_that_stand_alone(classes):
    """Against a plain loop over the bits of all reports; simulated means agree with those of reports."""
    c = LatticeConfig(box=(0, 1), m=2, classes=tuple(range(classes)), mechanism="oue", epsilon=1)
    kernel, n, rng = c.kernel, 3000, np.random.default_rng(3)
    users = c.users(rng.random((n, 1)), rng.integers(classes, size=n))
    messages = kernel.draw(users, ReplayableWords(4))
    bits = np.unpackbits(messages.astype(np.uint8), axis=1)[:, : 2 * classes].reshape(n, 2, classes).astype(bool)
    found = kernel.tally(messages).counts
    for cell in range(2):
        for a in range(classes):
            for b in range(classes):
                alone = bits[:, cell, a] & ~bits[:, cell, b] if a != b else bits[:, cell, a]
                assert found[cell, a, b] == alone.sum()
    drawn = np.mean([kernel.simulate(users, rng).counts for _ in range(20)], axis=0)
    assert np.abs(drawn - found).max() < 6 * math.sqrt(n / 4)  # a count has a deviation below sqrt(n) / 2


def test_unary_certificates_use_all_that_tells_the_classes_apart():
    """The share of cells that simulated reports certify is the power of the exact test of bits that stand alone."""
    c = LatticeConfig(box=(0, 1), m=8, mechanism="oue", epsilon=1)
    x = np.repeat((np.arange(8) + 0.5) / 8, 100)[:, None]
    y = np.tile(np.arange(100) < 70, 8)
    rng = np.random.default_rng(5)
    p = [p_values(c.kernel, simulate(c, x, y, rng, users=10_000).tally, np.ones(8, dtype=int)) for _ in range(100)]
    expected = c.kernel.power(10_000, 0.05, 1 / 8, 0.05)
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(expected, abs=4 * math.sqrt(expected / 800))
    assert expected > 0.3


def test_difference_intervals_without_reports_are_everything():
    low, high = difference_interval(*np.zeros((3, 1)), Risk(0.1), 0.5)
    assert low[0] <= -2
    assert high[0] >= 2


@pytest.mark.parametrize(("n", "d", "epsilon", "t"), [(200, 1, 1.0, 0.8), (100, 1, 4.0, 0.3), (50, 1, 100.0, 0.1)])
def test_chernoff_exceeds_the_simulated_tail(n, d, epsilon, t):
    """Floating-point Laplace noise as published, and the sampling of a cell with eta = 1/2 that holds everybody."""
    rng, runs, b = np.random.default_rng(4), 100_000, 2 ** (d + 1) / epsilon
    up, down, half_up, half_down = rng.gamma(
        n, b, size=(4, runs)
    )  # n Laplace variables: a difference of two gamma ones
    noise = (up - down - (half_up - half_down) / 2) / n
    mean = rng.binomial(n, 0.5, runs) / n - 0.5
    tail = (noise + mean >= t).mean()
    assert tail <= float(chernoff(t, n, b)) + 3 * math.sqrt(tail / runs)


def test_the_published_bound_is_refused_where_it_is_wrong():
    """n = 200, d = 1, epsilon = 100, t = .06: the true tail is about .05."""
    n, b = 200, 4 / 100
    rng = np.random.default_rng(5)
    tail = (rng.binomial(n, 0.5, 100_000) / n - 0.5 >= 0.06).mean()
    assert 0.03 < tail < 0.08
    assert math.exp(-n * 0.06**2 / (16 * b**2)) < 1e-10
    with pytest.raises(ValueError, match="below 1"):
        published_bound(0.06, n, b)
    with pytest.raises(ValueError, match="t must lie between 0"):
        published_bound(9.0, n, 8.0)
    assert float(chernoff(0.06, n, b)) >= tail


PLANNED = {"hadamard": 1.0, "ternary": 3.0, "krr": 2.0, "oue": 2.0, "parity": 2.0}


@pytest.mark.parametrize("name", sparing(sorted(PLANNED), keep=(0, 1, 2, 3)))
@pytest.mark.slow
def test_planned_users_reach_the_power_in_simulation(name):
    """Populations: a share of at least .8, less four standard errors; nor much more."""
    epsilon, c = PLANNED[name], LatticeConfig(box=(0, 1), m=4, mechanism=name, epsilon=PLANNED[name])
    runs = 400
    options = {"confidence": 0.99, "power": 0.8, "mechanism": name, "m": 4, "d": 1, "mass": 0.25}
    found = plan(epsilon=epsilon, margin=0.05, **options, fakes=0)
    x = np.repeat([0.3, 0.9], [25, 75])[:, None]  # in cell 1, of the partition and of the lattice: 15 ones, 10 zeros
    people, rng = c.users(x, np.r_[np.arange(25) < 15, np.arange(75) % 2]), np.random.default_rng(6)
    best = np.ones(c.kernel.cells, dtype=int)
    p = [p_values(c.kernel, c.kernel.simulate(people, rng, found.users), best)[1] for _ in range(runs)]
    share = np.mean(np.array(p) <= 0.01)
    assert share >= 0.8 - 4 * math.sqrt(0.16 / runs)
    assert share <= 0.83 + 4 * math.sqrt(0.16 / runs)
    assert plan(users=found.users, margin=0.05, **options, fakes=0).epsilon <= epsilon * (1 + 1e-6)
    assert plan(users=found.users, epsilon=epsilon, **options, fakes=0).margin <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "margin", "level", "power"),
    [(1, 0.1, 0.05, 0.5), (2, 0.5, 0.05, 0.5), (4, 0.3, 1e-3, 0.8), (60, 1, 0.05, 0.5)],
)
def test_planned_users_suffice_and_so_do_more(epsilon, margin, level, power):
    """The exact power of all numbers of users up to twice the plan; 5 % less, or three users, would not do for all."""
    users = plan(epsilon=epsilon, margin=margin, confidence=1 - Fraction(level), power=power, fakes=0).users
    agree = (1 + margin * LatticeConfig(box=(0, 1), m=1, mechanism="hadamard", epsilon=epsilon).kernel.contrast) / 2
    n = np.arange(1, 2 * users + 50)
    least = np.array([next(k for k in range(v + 2) if stats.binom.sf(k - 1, v, 0.5) <= level) for v in n[:60]])
    assert (critical(n[:60], level) == least).all()
    reached = stats.binom.sf(critical(n, level) - 1, n, agree) >= power
    assert reached[users - 1 :].all()
    assert not reached[int(min(users / 1.05, users - 3)) - 1 :].all() or users < 6


@pytest.mark.parametrize(
    ("users", "share", "lead", "margin"), [(50, 0.4, 0.3, 0.5), (900, 0.3, 0.2, 0.2), (40_000, 0.9, 0.9, 0.02)]
)
def test_power_is_never_overstated(users, share, lead, margin):
    """Averages over the number of voters against sums without blocks; without teeth against with."""
    voters = np.arange(users + 1)
    agree = (1 + lead * margin / share) / 2
    exact = stats.binom.sf(critical(voters, 0.05) - 1, voters, agree) @ stats.binom.pmf(voters, users, share)
    found = sign_power(users, Ballot(share, lead), margin, 0.05)
    assert exact - 0.005 <= found <= exact
    for n in range(users, users + 20):
        assert smooth_power(n, agree, 0.05) <= stats.binom.sf(critical(np.array([n]), 0.05)[0] - 1, n, agree)


def test_power_of_a_cell_is_least_at_one_of_its_ends():
    """More users than the margin are fair votes: over a grid of masses the power is nowhere below the planned one."""
    for name in ("krr", "oue", "ternary"):
        kernel = MECHANISMS[name](Fraction(3), 4, 1, 2)
        for users in (40, 400, 4000):
            found = kernel.power(users, 0.1, 0.6, 0.05)
            assert all(
                sign_power(users, Ballot(kernel.voters(mass), kernel.signal), 0.1, 0.05) >= found - 2e-9
                for mass in np.linspace(0.1, 0.6, 9)
            )


def test_plans_beyond_reach_say_so():
    assert not plan(users=100, margin=0.01, fakes=0).feasible
    assert "No epsilon is enough" in str(plan(users=100, margin=0.01, fakes=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "exactly two of epsilon, users and margin"),
        ({"users": 10, "margin": 0.1}, "exactly two"),
        ({"margin": 2.0}, "margin must lie"),
        ({"users": 0}, "users must be a whole number"),
        ({"margin": 0.1, "confidence": 0.0}, "confidence must lie"),
        ({"margin": 0.1, "power": 1.0}, "power must lie"),
        ({"margin": math.nan}, "margin must lie"),
        ({"margin": 0.1, "confidence": math.nan}, "confidence must lie"),
        ({"margin": 0.1, "mass": 2.0}, "mass must lie"),
        ({"margin": 0.1, "mass": 0.05}, "margin must lie"),
        ({"margin": 0.1, "mechanism": "cosine"}, "mechanism must be one that certifies"),
        ({"margin": 0.1, "mechanism": "slides"}, "mechanism must be one that certifies"),
        ({"margin": 0.1, "mechanism": []}, "mechanism must be one that certifies"),
        ({"margin": 0.1, "mechanism": "krr", "d": 2}, "m is missing"),
        ({"margin": 0.1, "mechanism": "parity"}, "d is missing"),
        ({"margin": 0.1, "d": 0}, "d must be a whole number"),
        ({"margin": 0.1, "mechanism": "krr", "m": 10**9, "d": 2}, "take a smaller m"),
    ],
)
def test_bad_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        plan(epsilon=1.0, **change, fakes=0)


def test_private_validation_bounds_hold():
    """100 repetitions, two candidates of known accuracy: both bounds miss at most as often as promised."""
    x = np.arange(1000)[:, None] / 1000
    y = (x[:, 0] < 0.7).astype(int)  # the first is right for 70 %, the second for 80 %
    validation = PrivateValidation([lambda X: np.ones(len(X)), lambda X: X[:, 0] < 0.5], epsilon=1.0)
    words, missed, rng = ReplayableWords(7), 0, np.random.default_rng(8)
    for _ in range(100):
        rows = rng.integers(1000, size=2000)
        votes = validation.vote(x[rows], y[rows], words=words)
        assert isinstance(votes, NotPrivate)
        found = validation.accuracies(np.asarray(votes), fakes=0, confidence=0.9)
        missed += bool(((found.lower > [0.7, 0.8]) | (found.upper < [0.7, 0.8])).any())
    assert missed <= 24
    assert found.users.sum() == 2000
    with pytest.raises(ValueError, match="votes must be whole numbers"):
        validation.accuracies([[5, 0]], fakes=0)
    with pytest.raises(ValueError, match="candidate 1 has no votes"):
        validation.accuracies([[0, 1]], fakes=0)
    with pytest.raises(ValueError, match="no candidates"):
        PrivateValidation([], epsilon=1)


def test_every_mechanism_that_certifies_is_tested():
    nothing = {name for name, kind in MECHANISMS.items() if not {"duels", "against"} & set(vars(kind))}
    assert {name for name, _ in CERTIFYING} | nothing == set(MECHANISMS)
    assert isinstance(LatticeConfig(box=(0, 1), m=2, epsilon=1).kernel.empty(), Tally)
