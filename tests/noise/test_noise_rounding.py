"""Every rounding that is counted is on the safe side: against 60 digits, or exact fractions.

An unfavourable rounding is about half of all, so that without its slack a bound fails among some hundred questions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from epsworth import noise
from epsworth.composition import sampled
from epsworth.noise import allowed
from epsworth.noise.lattice import LatticeNoise, Spacing, discrete
from epsworth.noise.local import _matrix, channel_loss
from epsworth.noise.mechanism import Boosted
from epsworth.noise.regions import Absolute
from epsworth.noise.staircase import best_staircase

DRAWS = pytest.mark.parametrize("draws", [150, pytest.param(2_000, marks=pytest.mark.slow)])


def of(value):
    return mpmath.mpf(float(value))


def ratio(value):
    return mpmath.mpf(value.numerator) / value.denominator


def tail(kernel, z):
    """Mass of a kernel of scale 1 beyond z >= 0."""
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2 if kernel == "gaussian" else mpmath.exp(-z) / 2


def mass(kernel, low, high):
    if low > 0:
        return tail(kernel, low) - tail(kernel, high)
    if high < 0:
        return tail(kernel, -high) - tail(kernel, -low)
    return 1 - tail(kernel, -low) - tail(kernel, high)


def exactly(kernel, scale, boost, theta, size, epsilon):
    """delta of a boosted kernel with 60 digits: pieces between all edges, kinks and the one root of a piece."""
    s, t, d, e = map(of, (scale, theta, size, epsilon))
    inside = mass(kernel, -t / s, t / s)
    b = of(boost)
    top = 1 / (inside + (1 - inside) / b)
    kinks = sorted({-t, t, d - t, d + t, *([mpmath.mpf(0), d] if kernel == "laplace" else [])})
    total = mpmath.mpf(0)
    for low, high in pairwise([-mpmath.inf, *kinks, mpmath.inf]):
        w = top if -t <= low and high <= t else top / b
        v = top if d - t <= low and high <= d + t else top / b
        if w == 0:
            continue
        left = mpmath.inf if v == 0 else mpmath.log(w / v) - e  # the kernel's loss must exceed -left
        if v == 0:
            stop = high
        elif kernel == "gaussian":
            stop = d / 2 + left * s * s / d
        elif left >= d / s:
            stop = high
        elif left <= -d / s:
            stop = low
        else:
            stop = (d + left * s) / 2
        stop = min(max(stop, low), high)
        if stop > low:
            gain = w * mass(kernel, low / s, stop / s)
            total += gain - (mpmath.exp(e) * v * mass(kernel, (low - d) / s, (stop - d) / s) if v else 0)
    return total


def questions(draws, seed):
    """Scales, boosts, half-widths, sensitivities and epsilons, over magnitudes; a boost in ten is 1 or infinite."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        scale, boost, theta, size = (float(v) for v in 10 ** rng.uniform([-0.5, 0, -2, -2], [1.5, 3, 1, 0.7]))
        boost = rng.choice([boost] * 18 + [1.0, math.inf])
        yield scale, float(boost), theta, size, float(rng.uniform(0, 2)) * min(1.0, size / scale)


@DRAWS
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.cases(1)
def test_delta_is_never_below_the_truth(kernel, draws):
    with mpmath.workdps(60):
        for asked in questions(draws, 1):
            scale, boost, theta, size, epsilon = asked
            truth = exactly(kernel, *asked)
            found = float(Boosted(kernel, scale, boost, Absolute(theta), size).profile(epsilon))
            assert found >= min(truth, 1) or truth < 1e-290, asked
            assert found <= truth * (1 + 1e-4) + 1e-10, asked


FAR_TAILS = [  # of a truncated Laplace kernel: what the exponential's argument errs by is multiplied
    (0.27384748860156444, 143.82549683775835, 0.009105809907717007, 0.03342598161006763),
    (0.6692183070997233, 394.08823348996816, 0.04956645675841195, 0.07427628499985951),
    (3.961564213960941, 2234.4686027331854, 0.25939462351447484, 0.06566747001879508),
]


@pytest.mark.parametrize(("scale", "theta", "size", "epsilon"), FAR_TAILS)
def test_deltas_of_far_tails_are_not_below_the_truth(scale, theta, size, epsilon):
    found = float(Boosted("laplace", scale, math.inf, Absolute(theta), size).profile(epsilon))
    with mpmath.workdps(300):
        truth = exactly("laplace", scale, math.inf, theta, size, epsilon)
        assert truth <= found <= truth * (1 + 1e-8)


@DRAWS
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.cases(1)
def test_what_lies_outside_is_never_below_the_truth(kernel, draws):
    with mpmath.workdps(60):
        for scale, boost, theta, *_ in questions(draws, 2):
            for wide in (scale, 1e6 * scale):
                out = 2 * tail(kernel, of(theta) / of(wide)) / of(boost)
                truth = out / (1 - 2 * tail(kernel, of(theta) / of(wide)) + out)
                found = Boosted(kernel, wide, boost, Absolute(theta), 1.0)
                assert found.outside >= truth, (wide, boost, theta)
                assert Fraction(found.confidence) <= 1 - Fraction(found.outside)
                assert found.confidence <= 1 - truth


@pytest.mark.parametrize(("kernel", "scale", "shift"), [
    ("gaussian", 10.0, 377), ("gaussian", 10.0, 380), ("gaussian", 99.9, 3770), ("laplace", 5.0, 3724),
])  # fmt: skip
def test_mass_beyond_a_table_is_never_understated_where_tails_underflow(kernel, scale, shift):
    found = discrete(kernel, scale, 1.0, Spacing(1.0, shift, 3))
    half = (found.masses.size - 1) // 2
    with mpmath.workdps(60):
        density = {
            "gaussian": lambda k: mpmath.exp(-((k / of(scale)) ** 2) / 2),
            "laplace": lambda k: mpmath.exp(-k / of(scale)),
        }
        total = 1 + 2 * sum(density[kernel](k) for k in range(1, half + 1))
        beyond = 2 * sum(density[kernel](k) for k in range(half + 1, half + 1_000))
        assert found.lost >= beyond / total


@DRAWS
def test_pure_losses_are_never_below_the_truth(draws):
    """The loss is piecewise linear: the largest is next to an edge or a kink."""
    with mpmath.workdps(60):
        for scale, boost, theta, size, _ in questions(draws, 3):
            grid = Spacing(0.25, 1 + int(4 * size), 3)
            table = discrete("laplace", scale, boost, grid)
            if math.isinf(boost):
                assert math.isinf(table.pure_epsilon)
                continue
            reach = of(scale / 0.25)
            assert table.pure_epsilon >= grid.shift / reach + mpmath.log(of(boost))
            d, t, s = of(size), of(theta), of(scale)
            tiny = mpmath.mpf(10) ** -40  # on either side of every edge and kink
            near = [z + way for z in (-t, t, d - t, d + t, mpmath.mpf(0), d) for way in (-tiny, tiny)]
            logs = [mpmath.log(of(boost)) * (int(abs(z) < t) - int(abs(z - d) < t)) for z in near]
            truth = max((abs(z - d) - abs(z)) / s + log for z, log in zip(near, logs, strict=True)) - 100 * tiny / s
            assert Boosted("laplace", scale, boost, Absolute(theta), size).pure_epsilon >= truth, (scale, boost, theta)


@DRAWS
@pytest.mark.slow
def test_staircases_lose_and_miss_no_less_than_the_truth(draws):
    rng = np.random.default_rng(4)
    with mpmath.workdps(60):
        for _ in range(draws):
            theta, failing = float(10 ** rng.uniform(-2, 2)), float(10 ** rng.uniform(-14, -0.1))
            found = best_staircase(theta, failing, 1.0)
            e, g = of(found.loss), of(found.share)
            decay, periods = mpmath.exp(-e), int(Fraction(repr(theta)))
            assert g <= ratio(Fraction(repr(theta)) - periods)
            out = decay ** (periods + 1) / (g + decay * (1 - g))
            assert out <= found.outside <= failing
            top = (1 - decay) / (2 * (g + decay * (1 - g)))
            epsilon = float(rng.uniform(0, 1)) * found.loss
            truth = (mpmath.mpf(1) / 2 + min(g, 1 - g) * top) * -mpmath.expm1(of(epsilon) - e)
            assert float(found.profile(epsilon)) >= truth, (theta, failing, epsilon)


def tables(draws, seed):
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        half = np.sort(rng.exponential(size=rng.integers(2, 40)) * 10.0 ** -rng.uniform(0, 30))[::-1]
        whole = np.concatenate([half[:0:-1], half])
        inside = 2 * int(rng.integers(0, half.size)) + 1
        yield LatticeNoise(masses=whole / whole.sum(), step=1.0, shift=int(rng.integers(1, 4)), inside=inside), rng


@DRAWS
@pytest.mark.slow
def test_tables_lose_and_miss_no_less_than_their_exact_sums(draws):
    """Epsilon at random, and where a point's loss just reaches it: there, half of the logarithms are too small."""
    with mpmath.workdps(60):
        for found, rng in tables(draws, 5):
            exact = [Fraction(float(m)) for m in found.masses]
            total, n, shift = sum(exact), len(exact), found.shift
            cut = (n - found.inside) // 2
            assert Fraction(found.outside) >= sum(exact[:cut] + exact[n - cut :]) / total
            before = ([Fraction(0)] * shift + exact)[:n]
            own = int(rng.integers(min(shift, n - 1), n))
            near = abs(math.log(found.masses[own]) - math.log(found.masses[max(own - shift, 0)]))
            for epsilon in (float(rng.uniform(0, 3)), near, math.nextafter(near, 0)):
                bound = mpmath.exp(of(epsilon))
                truth = sum(max(ratio(p) - bound * ratio(q), 0) for p, q in zip(exact, before, strict=True))
                assert float(found.profile(epsilon)) >= truth / ratio(total), (exact, epsilon)


def test_a_point_whose_loss_is_rounded_down_still_counts():
    """Nothing else is lost here, and the logarithms are long: their rounding is all that there is."""
    rng = np.random.default_rng(6)
    with mpmath.workdps(60):
        for _ in range(200):
            low = float(10 ** rng.uniform(-300, -200))
            found = LatticeNoise(masses=np.array([low, 0.3, 1.0, 0.3, low]), step=1.0, shift=1, inside=1)
            epsilon = float(np.log(0.3) - np.log(low))
            truth = mpmath.mpf(0)
            for p, q in pairwise([of(m) for m in found.masses]):
                truth += max(q - mpmath.exp(of(epsilon)) * p, 0)
            assert float(found.profile(epsilon)) >= truth / of(found.masses.sum())


ROUNDED_UP = [(23865, 43, 0.3084, 0.2774), (900, 30, 1.0714, 0.448), (2249, 13, 0.7636, 0.5973)]
ROUNDED_UP += [(763910, 490, 3.105, 0.6121)]


@pytest.mark.parametrize(("items", "size", "epsilon", "kernel"), ROUNDED_UP)
def test_confidences_of_groups_are_never_above_the_truth(items, size, epsilon, kernel):
    """Where the computed probability is four units too large, which is as many as sums and rounding down take back."""
    found = noise.Grouped(items, size, epsilon, kernel).confidence
    with mpmath.workdps(60):
        near, far = mpmath.exp(-of(kernel)), mpmath.exp(-of(epsilon))
        inside = 1 + (size - 1) * near
        assert found <= inside / (inside + (items - size) * far) <= found * (1 + 1e-14)


@DRAWS
def test_channels_keep_their_epsilon_exactly(draws):
    rng = np.random.default_rng(7)
    with mpmath.workdps(60):
        for _ in range(draws // 2):
            epsilon, part = float(10 ** rng.uniform(-12, 1)), float(rng.choice([0.0, 1.0, rng.random()]))
            windows = noise.windows(int(rng.integers(3, 9)), int(rng.integers(0, 3)))
            found = noise.channel(windows, epsilon, part * epsilon)
            worst = max(mpmath.log(of(c.max()) / of(c.min())) for c in found.matrix.T)
            assert worst <= found.loss <= epsilon
            rows = zip(found.matrix, windows, strict=True)
            assert Fraction(found.confidence) <= min(sum(Fraction(float(row[j])) for j in w) for row, w in rows)
            free = _matrix(np.eye(4, dtype=bool), epsilon, 0.0)
            assert channel_loss(free) >= mpmath.log(of(free.max()) / of(free.min()))


@DRAWS
def test_what_is_composed_is_never_below_the_profile(draws):
    """On both sides of zero; a Laplace kernel, whose delta is 1 - e^((epsilon - D)/2) and, below -D, 1 - e^epsilon."""
    rng = np.random.default_rng(9)
    with mpmath.workdps(60):
        for _ in range(draws // 10):
            scale, points, step = float(10 ** rng.uniform(-0.5, 1)), 20, float(10 ** rng.uniform(-2, -0.5))
            found = Boosted("laplace", scale, 1.0, Absolute(1.0), 1.0)
            deltas = sampled(found.profile, step, points)
            assert (np.diff(deltas) <= 0).all()
            for i, value in zip(range(-points, points + 1), deltas, strict=True):
                epsilon, d = of(i * step), 1 / of(scale)
                truth = 1 - mpmath.exp((epsilon - d) / 2) if abs(epsilon) < d else max(1 - mpmath.exp(epsilon), 0)
                assert value >= min(truth, 1), (scale, step, i)
                assert value <= truth + 1e-9
                assert noise.delta(found, i * step) >= truth


def test_what_may_fail_is_one_minus_the_confidence_exactly_or_less():
    rng = np.random.default_rng(10)
    for confidence in [0.95, 0.9, 0.1, 0.3, 1 - 2.0**-50, *rng.random(300), *(1 - 10 ** rng.uniform(-15, -1, 300))]:
        failing = Fraction(allowed.failure(float(confidence)))
        exact = 1 - max(Fraction(float(confidence)), Fraction(repr(float(confidence))))
        assert exact * (1 - Fraction(2) ** -51) <= failing <= exact
    assert Fraction(allowed.failure(1 - Fraction("1e-12"))) <= Fraction("1e-12") < 1.0000001e-12
    assert allowed.failure(1 - Fraction(1e-9)) == 1e-9  # fractions lose nothing


def test_a_table_for_release_leaves_the_middle_no_less_than_its_share():
    for found, _ in tables(200, 11):
        release = noise.release_of(found)
        exact = [Fraction(float(m)) for m in found.masses]
        total, middle = sum(exact), len(exact) // 2
        weights, half = release.weights, len(release.weights) // 2
        for away in range(1, half + 1):
            kept = exact[middle + away] if away <= middle else 0
            assert Fraction(weights[half + away], sum(weights)) <= Fraction(kept) / total
        assert release.confidence >= 1 - Fraction(found.outside)
