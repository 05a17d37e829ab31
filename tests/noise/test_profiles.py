"""Exact profiles against quadrature, Monte Carlo, limits and cheap bounds (acceptance tests 2, 3, 4, 7)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

from epsworth import noise
from epsworth.mechanisms import hockey_stick
from epsworth.noise.lattice import LatticeNoise, Spacing, discrete
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import hockey_stick as hockey_stick_of_pairs
from epsworth.noise.profiles import weights
from epsworth.noise.regions import Absolute, region
from epsworth.noise.staircase import best_staircase

kernels = st.sampled_from(["gaussian", "laplace"])
lengths = st.floats(0.2, 8.0)
boosts = st.floats(1.0, 200.0)
losses = st.floats(0.0, 4.0)


def by_quadrature(first, second, epsilon, kinks):
    """Integrate max(0, p - e^eps q) piece by piece; kinks are the laws' edges, a fine grid finds sign changes."""
    low, high = min(kinks) - 60, max(kinks) + 60

    def gain(z):
        return float(first.pdf(z)) - np.exp(epsilon) * float(second.pdf(z))

    grid = np.unique(np.concatenate([np.linspace(low, high, 4001), kinks]))
    middle = (grid[1:] + grid[:-1]) / 2
    signs = np.sign(first.pdf(middle) - np.exp(epsilon) * second.pdf(middle))
    turns = grid[1:-1][signs[1:] != signs[:-1]]
    cuts = np.unique(np.concatenate([[low, high], kinks, turns - 0.05, turns, turns + 0.05]))
    pieces = [quad(lambda z: max(gain(z), 0.0), a, b, limit=200, epsabs=1e-13)[0] for a, b in pairwise(cuts)]
    return sum(pieces)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize(("scale", "theta", "boost", "size", "epsilon"), [
    (2.0, 2.0, 9.0, 1.0, 1.0), (1.5, 1.0, 40.0, 2.5, 0.5), (6.0, 2.0, 160.0, 5.0, 4.0), (3.0, 5.0, 1.3, 1.0, 0.1),
    (0.7, 1.2, 3.0, 0.4, 0.3),
])  # fmt: skip
@pytest.mark.cases(1)
def test_delta_is_the_integral_and_never_below_it(kernel, scale, theta, boost, size, epsilon):
    found = Boosted(kernel, scale, boost, Absolute(theta), size)
    kinks = np.array([-theta, theta, size - theta, size + theta, 0.0, size])
    integral = by_quadrature(found.law(0.0), found.law(size), epsilon, kinks)
    assert float(found.profile(epsilon)) == pytest.approx(integral, abs=1e-8)
    assert float(found.profile(epsilon)) >= integral - 1e-10  # the quadrature's own error


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_renyi_is_the_integral(kernel):
    found, alpha = Boosted(kernel, 1.3, 5.0, Absolute(1.1), 1.0), 2.5
    first, second = found.law(0.0), found.law(1.0)
    cuts = [-20, -1.1, -0.1, 0, 1, 1.1, 2.1, 20]
    total = sum(
        quad(lambda z: float(first.pdf(z)) ** alpha * float(second.pdf(z)) ** (1 - alpha), a, b, limit=300)[0]
        for a, b in pairwise(cuts)
    )
    assert found.renyi(alpha) == pytest.approx(np.log(total) / (alpha - 1), rel=1e-7)


@given(sigma=lengths, size=lengths, epsilon=losses)
def test_without_a_boost_it_is_the_analytic_gaussian(sigma, size, epsilon):
    found = float(Boosted("gaussian", sigma, 1.0, Absolute(1.0), size).profile(epsilon))
    assert found == pytest.approx(float(hockey_stick(sigma, epsilon, size)), abs=1e-12)


@given(kernel=kernels, scale=lengths, theta=lengths, size=lengths, epsilon=losses)
def test_a_huge_boost_is_truncation(kernel, scale, theta, size, epsilon):
    huge, cut = (Boosted(kernel, scale, b, Absolute(theta), size) for b in (1e14, np.inf))
    assert float(huge.profile(epsilon)) == pytest.approx(float(cut.profile(epsilon)), abs=1e-6)
    assert cut.confidence == pytest.approx(1.0)


@given(kernel=kernels, scale=lengths, theta=lengths, boost=boosts, size=lengths, epsilon=losses)
def test_the_cheap_bound_is_never_below(kernel, scale, theta, boost, size, epsilon):
    """delta(eps) <= C B delta_kernel(eps - ln B): both weights bounded by their extremes."""
    found = Boosted(kernel, scale, boost, Absolute(theta), size)
    plain = noise.delta(noise.boosted(kernel, scale=scale, theta=theta, sensitivity=size), epsilon - np.log(boost))
    assert float(found.profile(epsilon)) <= float(found.law().weights()[0]) * plain + 1e-12


@given(kernel=kernels, scale=lengths, theta=lengths, boost=boosts, epsilon=losses)
def test_delta_of_negative_epsilon(kernel, scale, theta, boost, epsilon):
    found = noise.boosted(kernel, scale=scale, theta=theta, boost=boost)
    at, mirrored = noise.delta(found, epsilon), noise.delta(found, -epsilon)
    assert mirrored == pytest.approx(1 - np.exp(-epsilon) + np.exp(-epsilon) * at, abs=1e-12)
    law = found.law
    z = np.linspace(-80, 81, 200_001)
    total = np.maximum(law(0.0).pdf(z) - np.exp(-epsilon) * law(1.0).pdf(z), 0).sum() * (z[1] - z[0])
    assert mirrored == pytest.approx(total, abs=5e-3)


@given(kernels, lengths, lengths, boosts, lengths, st.floats(0.01, 1.0), losses)
def test_the_full_sensitivity_is_the_worst_shift(kernel, scale, theta, boost, size, part, epsilon):
    full = Boosted(kernel, scale, boost, Absolute(theta), size)
    for shift in (size, part * size):
        pair = np.zeros(1), np.array([shift])
        less = hockey_stick_of_pairs(
            kernel, scale, weights(kernel, scale, np.array(boost), full.region, *pair), epsilon
        )
        assert float(less[0]) <= float(full.profile(epsilon)) + 1e-12


@given(scale=lengths, theta=lengths, boost=boosts, size=lengths)
def test_pure_loss_of_a_laplace_kernel_is_kept_and_reached(scale, theta, boost, size):
    found = Boosted("laplace", scale, boost, Absolute(theta), size)
    z = np.linspace(-30, 30, 6001)
    loss = np.log(found.law(0.0).pdf(z)) - np.log(found.law(size).pdf(z))
    assert loss.max() <= found.pure_epsilon + 1e-9
    assert float(found.profile(found.pure_epsilon)) <= 1e-12
    assert float(found.profile(0.99 * found.pure_epsilon)) > 0


def test_monte_carlo_agrees():
    """4e5 draws; the estimate of delta is a mean in [0, 1]: six standard errors, false-alarm rate below 1e-8."""
    found, epsilon, draws = Boosted("gaussian", 2.8, 1.5215837245, Absolute(5.0), 1.0), 0.75, 400_000
    z = found.law(np.zeros(draws)).sample((), np.random.default_rng(5))
    gains = np.maximum(1 - np.exp(epsilon) * found.law(1.0).pdf(z) / found.law(0.0).pdf(z), 0.0)
    assert abs(gains.mean() - float(found.profile(epsilon))) < 6 * gains.std() / np.sqrt(draws)


def test_regions_that_depend_on_the_answer_compare_both_orders():
    where = region("relative", 0.5, offset=2.0, answers=range(26))
    first, second = where.pairs(1.0)
    assert first.size == 50
    assert sorted(zip(first, second, strict=True)) == sorted(zip(second, first, strict=True))
    found = Boosted("gaussian", 2.4, 6.0, where, 1.0)
    law, other = found.law(1.0), found.law(0.0)
    kinks = np.array([*map(float, (law.lower, law.upper, other.lower, other.upper))])
    own = list(zip(first, second, strict=True)).index((1.0, 0.0))
    assert found.by_pair(1.0)[own] == pytest.approx(by_quadrature(law, other, 1.0, kinks), abs=1e-8)


def test_discrete_laws_are_exact_sums():
    found = discrete("gaussian", 3.0, 1.4, Spacing(1.0, 2, 11))
    p = found.masses
    for epsilon in (0.1, 0.8, 2.0):
        worst = max(
            np.maximum(np.r_[p, np.zeros(d)] - np.exp(epsilon) * np.r_[np.zeros(d), p], 0).sum() for d in (1, 2)
        )
        assert worst <= float(found.profile(epsilon)) <= worst * (1 + 1e-9)
    laplace = discrete("laplace", 2.0, 3.0, Spacing(0.5, 4, 11))
    assert float(laplace.profile(laplace.pure_epsilon)) < 1e-12


def exactly(scale, boost, theta, size, epsilon):
    """delta of a boosted Gaussian with 60 digits: the same segments, but no double anywhere."""
    with mpmath.workdps(60):
        s, b, t, d, e = map(mpmath.mpf, (scale, boost, theta, size, epsilon))

        def mass(low, high, at):
            low, high = (low - at) / s, (high - at) / s
            low, high = (low, high) if low > 0 else (-high, -low)  # tails are subtracted, not their complements
            return (mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2

        chance = mpmath.erfc(t / s / mpmath.sqrt(2))
        outer = 1 / (b * (1 - chance) + chance)
        cuts, total = [-mpmath.inf, *sorted([-t, t, d - t, d + t]), mpmath.inf], mpmath.mpf(0)
        for low, high in pairwise(cuts):
            w = outer * (b if -t <= low and high <= t else 1)
            v = outer * (b if d - t <= low and high <= d + t else 1)
            stop = min(high, d / 2 - (e - mpmath.log(w / v)) * s**2 / d)
            if stop > low:
                total += w * mass(low, stop, 0) - mpmath.exp(e) * v * mass(low, stop, d)
        return total


# Far tails, near answers, small and large boosts: where doubles lose most.
HARD = [
    (12.27425094093701, 1.0, 6.490856044759747, 0.016039301191474207, 0.03793156178143882),
    (9.629496476272946, 72.70119150489779, 1.5030359122233177, 2.108609956777172, 6.7169986566361),
    (0.20041740505197, 1.3347788171663886, 0.5580876110631178, 0.0407443406027005, 3.6185590366199176),
    (2.0, 3.0, 2.0, 1e-3, 1e-3), (1.0, 40.0, 1.5, 1.0, 2.0), (3.0, 1.0, 1.0, 1.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize("hard", HARD)
def test_delta_is_not_below_the_truth_of_sixty_digits(hard):
    scale, boost, theta, size, epsilon = hard
    found, truth = float(Boosted("gaussian", scale, boost, Absolute(theta), size).profile(epsilon)), exactly(*hard)
    assert truth <= found <= truth * (1 + 1e-5)


def test_rounding_is_always_on_the_safe_side():
    """Unfavourable roundings are half of all: forty random questions would all have to be lucky (1e-12)."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        asked = *(10 ** rng.uniform([-0.5, 0, -0.5, -1.5], [1, 2, 1, 0.5])), rng.uniform(0, 2)
        scale, boost, theta, size, epsilon = asked
        truth = exactly(*asked)
        if truth > 1e-250:
            assert float(Boosted("gaussian", scale, boost, Absolute(theta), size).profile(epsilon)) >= truth


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_mass_beyond_a_table_counts_as_wholly_lost(epsilon):
    """Nothing is known of it: here it is two points far out, which no neighbour's noise reaches."""
    known = [Fraction(n, 40) for n in (2, 9, 14, 9, 2)]
    far = {-12: Fraction(1, 20), 12: Fraction(1, 20)}
    whole = {k - 2: mass for k, mass in enumerate(known)} | far
    found = LatticeNoise(
        masses=np.array([float(mass) for mass in known]), step=1.0, shift=1, inside=3, lost=float(sum(far.values()))
    )
    bound = Fraction(math.exp(epsilon))
    truth = sum(max(mass - bound * whole.get(k - 1, 0), 0) for k, mass in whole.items())
    assert truth <= Fraction(float(found.profile(epsilon)))
    assert Fraction(found.confidence) <= sum(whole[k] for k in (-1, 0, 1))


@pytest.mark.parametrize("lost", [1e-17, 2.0**-54, 2.0**-53 - 2.0**-100, 0.1, 0.3, 1e-300])
def test_confidence_is_never_rounded_up(lost):
    found = LatticeNoise(masses=np.array([1.0]), step=1.0, shift=1, inside=1, lost=lost)
    assert Fraction(found.confidence) <= 1 - Fraction(found.outside)


@pytest.mark.parametrize("theta", [0.3, 1.0, 2.0, 2.5, 5.7])
def test_staircase_profile_is_that_of_its_law(theta):
    found = best_staircase(theta, 0.05, 1.0)
    edges = np.asarray(found.law(0.0).edges)
    cuts = np.unique(np.concatenate([edges, edges + 1.0]))
    middle, width = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    first, second = found.law(0.0).pdf(middle), found.law(1.0).pdf(middle)
    for epsilon in (0.0, 0.2, 0.9 * found.pure_epsilon):
        exact = (np.maximum(first - np.exp(epsilon) * second, 0) * width).sum()
        assert float(found.profile(epsilon)) == pytest.approx(exact, abs=1e-11)
    assert found.confidence >= 0.95
    assert float(found.law().mass(-theta, theta)) == pytest.approx(0.95, abs=1e-9)
    for share in np.linspace(0.01, 0.99, 25):
        assert found.pure_epsilon <= _epsilon_with(share, theta, 0.05) + 1e-9


def _epsilon_with(share, theta, beta):
    """The least epsilon of a staircase whose upper step takes this share, by bisection on its mass inside."""
    low, high = 1e-6, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        decay, periods, rest = np.exp(-middle), int(theta), theta - int(theta)
        top = (1 - decay) / (2 * (share + decay * (1 - share)))
        within = min(rest, share) + decay * max(rest - share, 0)
        held = 1 - decay**periods * (1 - 2 * top * within)
        low, high = (low, middle) if held >= 1 - beta else (middle, high)
    return high


@pytest.mark.parametrize(("kernel", "boost", "answer"), [
    ("gaussian", 1.0, 0.0), ("gaussian", 30.0, 0.0), ("laplace", 5.0, 0.0), ("gaussian", np.inf, 0.0),
])  # fmt: skip
def test_both_samplers_follow_the_boosted_law(kernel, boost, answer):
    """Inverse transform and rejection against the CDF; Kolmogorov-Smirnov, false-alarm rate 1e-6 for each of 8."""
    found, rng, n = Boosted(kernel, 3.0, boost, Absolute(2.0), 1.0), np.random.default_rng(11), 20_000
    law = found.law(answer)
    direct = law.sample(n, rng)
    trial = law.noise.sample(40 * n, rng)
    accepted = trial[(np.abs(trial - answer) <= 2.0) | (rng.random(trial.size) < 1 / boost)][:n]
    for draws in (direct, accepted):
        assert kstest(draws, lambda z: np.asarray(law.cdf(z))).pvalue > 1e-6
    share = (np.abs(direct - answer) <= 2.0).mean()
    assert abs(share - found.confidence) < 5.5 * np.sqrt(0.25 / n)
    assert direct.var() == pytest.approx(float(law.var()), rel=0.1)


@settings(max_examples=30)
@given(kernel=kernels, scale=st.floats(0.3, 3.0), answer=st.floats(0.0, 4.0), boost=boosts)
def test_moments_in_a_fixed_region_are_integrals(kernel, scale, answer, boost):
    law = Boosted(kernel, scale, boost, region("fixed", (0, 4)), 1.0).law(answer)
    z = np.linspace(-80, 84, 400_001)
    p = law.pdf(z) * (z[1] - z[0])
    assert p.sum() == pytest.approx(1.0, abs=2e-3)
    assert float(law.mean()) == pytest.approx((p * z).sum() / p.sum(), abs=1e-2)
    assert float(law.mean_square()) == pytest.approx((p * (z - answer) ** 2).sum() / p.sum(), rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(("change", "message"), [
    ({"scale": 0.0}, "scale must be positive"),
    ({"sensitivity": -1.0}, "sensitivity must be positive"),
    ({"boost": 0.5}, "boost must lie from 1"),
    ({"boost": 2.0, "confidence": 0.9}, "exclude each other"),
    ({"confidence": 1.0}, "confidence must lie"),
    ({"confidence": 0.0}, "confidence must be positive"),
    ({"theta": -1.0}, "theta must be positive"),
    ({"region": "relative"}, "offset must be positive"),
    ({"region": "relative", "offset": 0.0}, "offset must be positive"),
    ({"region": "relative", "offset": 1.0}, "answers is missing"),
    ({"region": "relative", "offset": 1.0, "answers": [-1, 0]}, "answers must not be negative"),
    ({"region": "fixed", "theta": (0, 3), "answers": [0, 5]}, "answers must lie in the region"),
    ({"region": "fixed", "theta": (3, 0)}, "theta must be the two ends"),
    ({"region": "fixed", "theta": (0, 3), "answers": [0, 3]}, "no two values within"),
    ({"region": "round"}, "region must be"),
    ({"answers": [0, 1]}, "answers belongs to"),
    ({"kernel": "cauchy"}, "kernel must be one of"),
])  # fmt: skip
def test_misuse_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        noise.delta(noise.boosted(**{"scale": 2.0, "theta": 1.0, **change}), 1.0)
