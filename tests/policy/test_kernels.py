"""Integer kernels keep their promise: by exhaustion on small grids, by their obligations on 2^16 points."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import epsworth as ew
from epsworth import mechanisms
from epsworth.client.kernels import PRECISION, exp_below
from epsworth.guarantees import Approximate, Pure
from epsworth.mechanisms import MECHANISMS
from epsworth.mechanisms.duchi import DuchiKernel, HybridKernel
from epsworth.mechanisms.exponential import DistanceKernel, rho
from epsworth.mechanisms.gaussian import GaussianKernel, _largest
from epsworth.mechanisms.noise_kernels import PureClippedKernel
from epsworth.mechanisms.pb_grr import NeighbourKernel
from epsworth.mechanisms.rational import log_above, stated
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.rounding import float_above, show_up

EPSILONS = ("0.001", "0.1", "0.3", "1", "4", "8", "20")
WORD = 2**64
every_kernel = pytest.mark.parametrize("name", mechanisms.KERNELS)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


@functools.cache
def rows(name: str, epsilon: str, bits: int) -> list[list[int]]:
    built = mechanisms.kernel(name, epsilon, bits)
    return [built.weights(i) for i in range(built.points)]


def worst_ratio(table: list[list[int]]) -> Fraction:
    """Return max over outputs of (largest probability) / (smallest probability), N^2 comparisons in integers."""
    totals = [sum(row) for row in table]
    worst = Fraction(1)
    for column in zip(*table, strict=True):
        if not any(column):
            continue  # an output that never occurs
        high = low = 0
        for i, weight in enumerate(column):  # compare weight/total by cross-multiplication
            if weight * totals[high] > column[high] * totals[i]:
                high = i
            if weight * totals[low] < column[low] * totals[i]:
                low = i
        assert column[low] > 0
        worst = max(worst, Fraction(column[high] * totals[low], column[low] * totals[high]))
    return worst


def decimal_exp(x: Fraction) -> Fraction:
    """Return e^x by the decimal library, right to 90 digits: independent of our partial sums."""
    with localcontext() as context:
        context.prec = 120
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@every_epsilon
@every_kernel
@pytest.mark.cases(14)
def test_no_ratio_exceeds_the_promise(name, epsilon, bits):
    built, table = mechanisms.kernel(name, epsilon, bits), rows(name, epsilon, bits)
    assert all(sum(row) == built.total(i) for i, row in enumerate(table))
    if built.loss() == math.inf:
        assert isinstance(built, GaussianKernel)
        return
    worst = worst_ratio(table)
    assert worst <= built.ratio()
    assert exp_below(Fraction(built.loss())) >= worst  # the quoted number covers it
    if not isinstance(built, GaussianKernel):
        assert worst <= exp_below(Fraction(epsilon))
        assert built.loss() <= float(epsilon)
    if not isinstance(built, (HybridKernel, DistanceKernel)):
        assert worst == built.ratio()  # and is no larger than it must be


@every_epsilon
@every_kernel
@pytest.mark.cases(14)
def test_sixteen_bits_meet_their_obligations(name, epsilon):
    """The structured proofs: each family's theorem asks for these facts about its integers, and nothing else."""
    built = mechanisms.kernel(name, epsilon)
    below = decimal_exp(Fraction(epsilon)) * (1 - Fraction(1, 10**80))
    OBLIGATIONS[type(built)](built, below)
    if not isinstance(built, GaussianKernel):
        assert built.loss() <= float(epsilon)


def two_level(k: TwoLevelKernel, bound: Fraction) -> None:
    assert k.width % 2 == 1
    assert k.width * k.high + (k.points - k.width) * k.low == WORD
    assert 1 <= k.low < k.high <= bound * k.low
    left = k.left(np.arange(k.points))
    assert left.min() == 0
    assert left.max() == k.points - k.width


def clipped(k: PureClippedKernel, bound: Fraction) -> None:
    t, rest = k.noise[:-1], k.noise[-1]
    assert all(a >= b for a, b in pairwise(t))
    assert t[-1] > 0
    assert rest > 0
    whole = 2 * (sum(t) + rest) - t[0]
    assert WORD - 2**42 < whole <= WORD  # a word is rejected with probability 2^-22 at most
    assert t[0] <= bound * t[-1]
    assert sum(t) + rest <= bound * rest


def distance(k: DistanceKernel, bound: Fraction) -> None:
    used = k.epsilon / 2 if k.name == "exponential" else k.epsilon
    step = decimal_exp(used / (k.points - 1))
    numerator, denominator = step.numerator, step.denominator
    assert all(b <= a and a * denominator < numerator * b for a, b in pairwise(k.noise))
    assert k.noise[-1] > 0
    assert 2 * sum(k.noise) - k.noise[0] <= WORD


def neighbours(k: NeighbourKernel, bound: Fraction) -> None:
    truth, near, far = k.noise[0], k.noise[1], k.noise[-1]
    assert k.noise == (truth, *[near] * k.reach, *[far] * (k.points - 1 - k.reach))
    assert truth >= near >= far >= 1
    assert 2 * k.reach + 2 <= k.points
    assert WORD - 2**22 < 2 * sum(k.noise) - truth <= WORD
    end, middle = k.total(0), k.total(k.points // 2)
    assert truth * middle <= bound * far * end
    assert [k.total(i) for i in (1, k.points - 2)] == [end + (near - far) * (k.reach > 0)] * 2


def gaussian(k: GaussianKernel, bound: Fraction) -> None:
    t, rest = k.noise[:-1], k.noise[-1]
    assert all(a >= b for a, b in pairwise(t))
    assert all(b * b >= a * c for a, b, c in zip(t, t[1:], t[2:], strict=False))
    assert rest * (t[-2] - t[-1]) <= t[-1] ** 2
    first, last = k.weights(0), k.weights(k.points - 1)
    excess = sum(max(a * bound.denominator - bound.numerator * b, 0) for a, b in zip(first, last, strict=True))
    assert Fraction(excess, bound.denominator) <= Fraction(1, 10**5) * sum(first)


def duchi(k: DuchiKernel, bound: Fraction) -> None:
    assert 2 * k.base + (k.points - 1) * k.slope == WORD
    assert 0 < k.base + (k.points - 1) * k.slope <= bound * k.base


def hybrid(k: HybridKernel, bound: Fraction) -> None:
    two_level(k.first, bound)
    duchi(k.second, bound)
    assert 0 <= k.share < WORD


OBLIGATIONS = {
    TwoLevelKernel: two_level,
    PureClippedKernel: clipped,
    DistanceKernel: distance,
    NeighbourKernel: neighbours,
    GaussianKernel: gaussian,
    DuchiKernel: duchi,
    HybridKernel: hybrid,
}


@every_kernel
@pytest.mark.cases(4)
def test_rows_of_sixteen_bits_are_spot_checked(name):
    """Whole rows of the largest grid, the extreme pair among them; the theorems cover the rest."""
    built, bound = mechanisms.kernel(name, "2"), exp_below(Fraction(2))
    picked = [0, 1, 30_000, built.points - 1]
    table = {i: built.weights(i) for i in picked}
    assert all(len(row) == 2**16 and sum(row) == built.total(i) for i, row in table.items())
    if isinstance(built, GaussianKernel):
        bound = exp_below(Fraction(built.loss()))
    for i in picked:
        for j in picked:
            most = bound * Fraction(built.total(i), built.total(j))
            n, d = most.numerator, most.denominator
            assert all(a * d <= n * b for a, b in zip(table[i], table[j], strict=True))


def test_epsilon_given_away_on_sixteen_bits():
    """What the specification measured: two levels below 2e-10; distance kernels 8e-10 and 2e-7 at 1 and 8."""
    for epsilon in ("0.001", "0.1", "1", "4", "8"):
        for name in ("pm", "sw", "pm_affine", "sw_affine", "krr"):
            assert 0 <= float(epsilon) - mechanisms.kernel(name, epsilon).loss() < 2e-10
    for epsilon, most in (("1", 8e-10), ("8", 2e-7)):
        noise = mechanisms.kernel("exponential_tight", epsilon).noise
        assert 0 < float(epsilon) - (math.log(noise[0]) - math.log(noise[-1])) < most
    assert mechanisms.kernel("exponential", "4").loss() == 2.0  # the textbook constant spends half


def test_exponential_is_bounded_by_partial_sums_from_below():
    last = Fraction(0)
    for x in [Fraction(text) for text in ("1e-9", "0.001", "0.1", "1", "8", "44.4", "700")]:
        assert last < exp_below(x) < decimal_exp(x)
        assert 1 - exp_below(x) / decimal_exp(x) < Fraction(10**4, 2**PRECISION)
        last = exp_below(x)
    assert exp_below(Fraction(0)) == 1
    with pytest.raises(ValueError, match="must not be negative"):
        exp_below(Fraction(-1))


@pytest.mark.parametrize(
    "ratio", [Fraction(3, 2), Fraction(10**9 + 1, 10**9), Fraction(2**63, 3), 1 + Fraction(1, 2**62)]
)
def test_losses_and_deltas_are_rounded_up_by_one_double_at_most(ratio):
    q = log_above(ratio)
    assert exp_below(Fraction(q)) >= ratio > exp_below(Fraction(math.nextafter(q, 0)))
    up = float_above(1 / ratio)
    assert Fraction(up) >= 1 / ratio > Fraction(math.nextafter(up, 0))
    assert log_above(Fraction(1)) == 0


def test_epsilon_is_what_its_text_says():
    tenth = Fraction(1, 10)
    assert {stated(value, "e") for value in ("0.1", 0.1, tenth, Decimal("0.1"), np.float64(0.1), "1/10")} == {tenth}
    assert stated("0.3", "e") == Fraction(0.3) < Fraction(3, 10)  # the double is the smaller of the two readings
    assert mechanisms.kernel("krr", "0.3", k=2).loss() <= 0.3
    for bad in ("x", "-1", 0, math.inf, math.nan, "1e999", "1/0"):
        with pytest.raises(ValueError, match="epsilon must be positive and finite"):
            mechanisms.kernel("pm", bad)
    assert {stated(value, "e") for value in (2, np.int64(2), np.uint8(2), np.float32(2), np.float16(2))} == {2}
    assert stated(np.float32(0.1), "e") == stated(float(np.float32(0.1)), "e")  # it means the number that it holds
    for bad in (None, True, np.True_, [1]):
        with pytest.raises(TypeError, match="epsilon must be a number or its text"):
            mechanisms.kernel("pm", bad)


@every_epsilon
@pytest.mark.parametrize("bits", [3, 4])
@every_kernel
@pytest.mark.cases(14)
def test_delta_holds_for_every_pair_of_inputs(name, epsilon, bits):
    """Against the definition, all pairs; the Gaussian's and the two levels' closed forms are attained."""
    built, table = mechanisms.kernel(name, epsilon, bits), rows(name, epsilon, bits)
    for at in ("0.01", "0.5", "2", "6"):
        bound = exp_below(Fraction(at))
        least = Fraction(0)
        for i, row in enumerate(table):
            for j, other in enumerate(table):
                one, factor = (
                    bound.denominator * built.total(j),
                    bound.numerator * built.total(i),
                )  # no fractions inside
                over = sum(max(a * one - b * factor, 0) for a, b in zip(row, other, strict=True))
                least = max(least, Fraction(over, one * built.total(i)))
        assert Fraction(built.delta(at)) >= least
        if isinstance(built, (GaussianKernel, TwoLevelKernel, DuchiKernel)):
            assert built.delta(at) == float_above(least)


def test_gaussian_keeps_its_epsilon_delta_and_a_pure_loss():
    for epsilon, delta in (("1", "0.4"), ("0.5", "0.1"), ("4", "0.3"), ("2", "1e-5")):
        for bits in (4, 8):
            built = mechanisms.kernel("gaussian_clipped", epsilon, bits, delta=delta)
            assert built.guarantee.epsilon == pytest.approx(float(epsilon), rel=3e-4)
            assert built.guarantee.epsilon <= float(epsilon)
            assert built.guarantee.delta <= float(delta)
            analysis = MECHANISMS["gaussian_clipped"](float(epsilon), delta=float(delta))
            assert built.sigma == pytest.approx(float(analysis.sigma), rel=0.03 if bits == 4 else 2e-3)
            assert built.loss() == pytest.approx(analysis.tight_epsilon, rel=0.3 if bits == 4 else 0.02)
    wide = mechanisms.kernel("gaussian_clipped", "1", 8, delta="0.4")
    assert wide.loss() > 1
    assert wide.guarantee.delta > 0.35  # the construction does not hide behind more noise than asked for


@pytest.mark.parametrize(
    ("epsilon", "delta", "least"),
    [("0.5", "1e-5", 1.941294), ("1", "1e-5", 1.110306), ("2", "1e-6", 0.669438), ("4", "1e-5", 0.423741)],
)
def test_gaussian_noise_is_the_least_that_keeps_what_is_stated(epsilon, delta, least):
    """Least sigmas on 2^10 points: found apart, by bisection.  Unclipped noise would be three times as wide."""
    built, bound = mechanisms.kernel("gaussian_clipped", epsilon, 10, delta=delta), exp_below(Fraction(epsilon))
    assert built.sigma == pytest.approx(least, rel=1e-4)
    assert built.guarantee.epsilon == pytest.approx(float(epsilon), rel=3e-4)
    for points in (2, 4, 16, 256):
        built = mechanisms.kernel("gaussian_clipped", epsilon, points.bit_length() - 1, delta=delta)
        less = replace(built, noise=_largest(built.sigma * (1 - 2e-4), points))
        assert built.slack(bound) <= Fraction(delta) < less.slack(bound)
        assert built.loss() > float(epsilon) * (1 - 3e-4)  # nothing to speak of is left over


@pytest.mark.parametrize("calibration", ["analytic", "exact_tail", "theorem4"])
def test_noise_beyond_what_was_asked_for_is_stated_as_what_it_keeps(calibration):
    built = mechanisms.kernel("gaussian_clipped", 1, 8, calibration=calibration)
    assert built.guarantee == Pure(built.loss())
    assert built.loss() < 0.25
    domain = ew.Domain.of({"age": (0, 100)})
    told = str(ew.Policy.of(f"gaussian_clipped:calibration={calibration}", 1, domain, bits=8))
    assert f"epsilon 1 (its integers keep {show_up(built.loss())})" in told
    assert "its integers keep 0.5)" in str(ew.Policy.of("exponential", 1, domain, bits=8))  # the textbook constant
    approximate = str(ew.Policy.of("gaussian_clipped:delta=0.1", 1, domain, bits=8))
    assert re.search(r"epsilon 1 with delta 0\.1 \(its integers keep pure epsilon 1\.22", approximate)


@every_epsilon
@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.cases(4)
def test_the_pure_gaussian_keeps_a_pure_promise(epsilon, bits):
    built = mechanisms.kernel("gaussian_clipped", epsilon, bits, calibration="pure")
    assert built.ratio() <= decimal_exp(built.epsilon)
    assert isinstance(built.guarantee, Pure)
    assert built.guarantee.epsilon <= float(epsilon)
    assert built.guarantee.epsilon > 0.95 * float(epsilon)  # close to what was asked for
    if bits == 4:
        assert worst_ratio([built.weights(i) for i in range(16)]) <= decimal_exp(built.epsilon)
    gaussian(built, exp_below(built.epsilon))


def test_gaussian_with_a_far_weight_of_zero_has_no_pure_loss():
    built = GaussianKernel("gaussian_clipped", Fraction(200), 256, _largest(0.05, 256), 0.05, Fraction(1, 10))
    assert built.noise[-2] == 0
    assert built.loss() == math.inf
    assert built.guarantee.delta > 0.5  # an output of the lower end that the upper end never has


def test_categories_of_any_number():
    for k in (2, 3, 5, 100, 65_536):
        built = mechanisms.kernel("krr", "1.7", k=k)
        row = built.weights(1)
        assert len(row) == k
        assert sum(row) == WORD
        assert row[1] <= exp_below(Fraction("1.7")) * row[0]
    assert len(mechanisms.kernel("exponential", 1, k=101).weights(0)) == 101


def test_duchi_is_exactly_unbiased():
    built = mechanisms.kernel("duchi", "1", 8)
    upper = [built.weights(i)[-1] for i in range(256)]
    assert {b - a for a, b in pairwise(upper)} == {built.slope}
    assert upper[0] + upper[-1] == WORD


def test_hybrid_shares_are_those_of_the_literature():
    assert mechanisms.kernel("hybrid", "0.5", 8).share == 0  # below 0.61: Duchi alone
    assert mechanisms.kernel("hybrid", "2", 8).share / WORD == pytest.approx(1 - math.exp(-1), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("pm", "2e-10"), {}, "between 1e-09 and 700"),
        (("krr", "1e-18"), {}, "between 1e-09 and 700"),
        (("duchi", "1e-20"), {}, "between 1e-09 and 700"),
        (("exponential_tight", "30"), {}, "use fewer bits"),
        (("bounded_laplace", "1e-8"), {}, "use fewer bits"),
        (("laplace_clipped", "40"), {}, "use fewer bits"),
        (("staircase", "1e-17", 8), {}, "between 1e-09 and 700"),
        (("gaussian_clipped", "1e-9", 8), {"delta": "1e-15"}, "fewer bits or a larger delta"),
        (("pm_afine", "1"), {}, "did you mean 'pm_affine'"),
        (("pm", "1", 17), {}, "bits must be a whole number from 1 to 16"),
        (("pm", "1", 4), {"k": 5}, "unknown option 'k' of pm; it takes none"),
        (("krr", "1"), {"k": 1}, "k must be a whole number from 2"),
        (("gaussian_clipped", "1"), {"delta": 1}, "delta must lie strictly between 0 and 1"),
        (("gaussian_clipped", "1"), {"calibration": "best"}, "calibration must be one of"),
    ],
)
def test_what_integers_cannot_keep_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        mechanisms.kernel(*arguments, **options)


@pytest.mark.parametrize(
    ("name", "epsilon", "points"),
    [("pm", "2e-10", 1 << 16), ("krr", "1e-18", 1 << 16), ("duchi", "1e-20", 1 << 16),
     ("laplace_clipped", "1e-14", 1 << 16), ("staircase", "1e-17", 256)],
)  # fmt: skip
def test_no_construction_yields_weights_that_are_too_coarse(name, epsilon, points):
    """Beyond the door's range of epsilon, too."""
    with pytest.raises(ValueError, match=r"use fewer bits|too small for 65536 points|would all be equal"):
        mechanisms.KERNELS[name](Fraction(epsilon), points)


def test_two_levels_reach_smaller_epsilons_than_the_specification_says():
    """A and B differ by a multiple of the grid's size, so A = B only below 2^-32 on 2^16 points, not below 1e-6."""
    for name in ("pm", "sw", "krr"):
        assert 0.9e-9 < mechanisms.kernel(name, "1e-9").loss() <= 1e-9


@pytest.mark.parametrize("k", [2, 3, 6, 7, 20])
@pytest.mark.parametrize("theta", [0, 0.1, 0.3, 1])
@pytest.mark.parametrize("share", [0, 0.4, 1])
@pytest.mark.cases(14)
def test_neighbours_of_every_reach_and_share(k, theta, share):
    """By exhaustion; and the analysis has the same window and nearly the same weights."""
    for epsilon in ("0.01", "1.5", "9", "200"):
        built = mechanisms.kernel("pb_grr", epsilon, k=k, theta=theta, share=share)
        table = [built.weights(i) for i in range(k)]
        assert worst_ratio(table) == built.ratio() <= exp_below(Fraction(epsilon))
        if epsilon != "200":  # 64 bits hold no weight of e^-200
            assert built.loss() >= float(epsilon) * (1 - 1e-6)
            family = MECHANISMS["pb_grr"](float(epsilon), k=k, theta=theta, share=share)
            assert built.reach == family.reach
            x = np.arange(k) / (k - 1)
            masses = family.law(x[:, np.newaxis]).mass(x - 0.4 / k, x + 0.4 / k)
            exactly = np.array([[weight / sum(row) for weight in row] for row in table])
            np.testing.assert_allclose(masses, exactly, rtol=1e-9, atol=1e-15)


def test_names_of_the_literature():
    assert mechanisms.kernel("opm", 1, 4) is mechanisms.kernel("pm", 1, 4)
    assert mechanisms.kernel("discrete_laplace", 1, 4).name == "laplace_clipped"
    assert mechanisms.kernel("discrete_gaussian", 1, 4).name == "gaussian_clipped"


# planted faults: each must be seen


@pytest.mark.parametrize(
    ("rounded", "bits_of_weights", "points", "epsilon", "excess"),
    [(np.floor, 20, 16, 1, 1e-6), (np.rint, 12, 256, 4, 6e-3), (np.floor, 12, 256, 4, 6e-3)],
)
def test_rounded_float_weights_break_the_promise(rounded, bits_of_weights, points, epsilon, excess):
    """What everyone does first: round e^(-eps d) to integers.  The exhaustive check and the proof both see it."""
    decay = np.exp(-epsilon * np.arange(points) / (points - 1))
    noise = tuple(int(weight) for weight in rounded(2.0**bits_of_weights * decay))
    planted = DistanceKernel("exponential_tight", Fraction(epsilon), points, noise, Fraction(epsilon))
    worst = worst_ratio([planted.weights(i) for i in range(points)])
    over = float(log_above(worst)) - epsilon
    assert excess / 3 < over < 3 * excess
    with pytest.raises(ArithmeticError, match="a step of the weights"):
        planted.prove()


@pytest.mark.parametrize(("epsilon", "loss"), [(1, 1.068), (4, 4.57)])
def test_a_window_of_varying_width_breaks_the_promise(epsilon, loss):
    """|g_y - x| <= C holds for 5 or 6 of 16 points, depending on x: totals differ, and with them the loss."""
    points = 16
    half = 0.5 / (math.exp(epsilon / 2) + 1)
    left = [min(max(i / 15 - half, 0), 1 - 2 * half) for i in range(points)]
    high = round(2**50 * math.exp(epsilon))
    table = [[high if a <= y / 15 <= a + 2 * half else 2**50 for y in range(points)] for a in left]
    assert log_above(worst_ratio(table)) > epsilon + 0.03
    assert log_above(worst_ratio(table)) == pytest.approx(loss, abs=0.02)


def test_every_proof_sees_a_planted_fault():
    pm = mechanisms.kernel("pm", 1, 8)
    noise = mechanisms.kernel("laplace_clipped", 1, 8)
    gauss = mechanisms.kernel("gaussian_clipped", 1, 8)
    far = mechanisms.kernel("bounded_laplace", 1, 8)
    duchi = mechanisms.kernel("duchi", 1, 8)
    mixed = mechanisms.kernel("hybrid", 1, 8)
    one_up = (noise.noise[0] - 2 * (noise.noise[1] // 2), *noise.noise[1:])
    middle = math.isqrt(gauss.noise[8] * gauss.noise[10]) - 1
    dent = (*gauss.noise[:9], middle, *gauss.noise[10:])
    faults = [
        (replace(pm, high=pm.high + 1), "add up to 2"),
        (replace(pm, low=pm.low - pm.width, high=pm.high + pm.points - pm.width), "exceeds e"),
        (replace(pm, width=256), "smaller than the grid"),
        (replace(noise, epsilon=Fraction(99, 100)), "a ratio exceeds"),
        (replace(noise, noise=one_up), "rise with distance"),
        (replace(noise, noise=(*noise.noise[:-1], noise.noise[-1] * 2)), "exceed 2"),
        (replace(gauss, noise=dent), "not log-concave"),
        (replace(gauss, noise=(*gauss.noise[:-1], gauss.noise[-1] * 2**12)), "exceed 2"),
        (replace(gauss, epsilon=Fraction(1, 100)), "delta is exceeded"),
        (replace(gauss, stated=gauss.slack(exp_below(gauss.epsilon)) * Fraction(999, 1000)), "delta is exceeded"),
        (replace(far, used=Fraction(99, 100)), "larger than e"),
        (replace(far, noise=(*far.noise[:-1], 0)), "larger than e"),
        (replace(duchi, slope=duchi.slope + 2), "add up to 2"),
        (replace(duchi, epsilon=Fraction(99, 100)), "exceeds e"),
        (replace(mixed, epsilon=Fraction(2)), "differ in epsilon"),
        (replace(mixed, share=WORD), "must be a probability"),
    ]
    for planted, message in faults:
        with pytest.raises(ArithmeticError, match=message):
            planted.prove()


def test_what_the_theorem_on_distance_kernels_needs():
    """The bound rho^(points - 1) is below E: the step used is the one the theorem multiplies."""
    for epsilon in EPSILONS:
        assert Fraction(rho(Fraction(epsilon), 16), 1 << PRECISION) ** 15 < decimal_exp(Fraction(epsilon))


@every_kernel
def test_the_guarantee_quotes_the_integers(name):
    built = mechanisms.kernel(name, "1", 8)
    if name == "gaussian_clipped":
        assert built.guarantee in (Approximate(1.0, built.delta(1)), Pure(built.loss()))
        assert built.loss() == pytest.approx(1, abs=3e-4)
    else:
        assert built.guarantee == Pure(built.loss())


@pytest.mark.parametrize("name", mechanisms.KERNELS)
def test_epsilons_beyond_the_analysis_are_refused_at_once(name):
    """Before a weight is computed: integers of a million digits would take minutes."""
    for epsilon in (700.001, "1000000", 1e300, "1e-10", 1e-300):
        with pytest.raises(ValueError, match="epsilon must lie between 1e-09 and 700"):
            mechanisms.kernel(name, epsilon, bits=4)
    with pytest.raises(ValueError, match="epsilon must lie between 1e-09 and 700"):
        mechanisms.kernel("pm", 1, bits=4).delta(1e6)
