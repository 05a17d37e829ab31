"""Every family keeps its contract: masses, densities, cells, moments, draws, and the privacy promise.

Property tests 1-3 of the specification's section 9, over the one table of families.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.integrate import quad
from scipy.stats import kstest

from epsworth.mechanisms import KRR, MECHANISMS, PM, SW, GridMechanism, PrivacyIndicator
from epsworth.mechanisms.family import family
from epsworth.mechanisms.laws import Noise
from epsworth.mechanisms.square_wave import square_wave_half_width
from strategies import edges, epsilons, moderate_epsilons, values

pytestmark = pytest.mark.cases(20)  # nearly every entry of the table, in the default suite too

every_family = pytest.mark.parametrize("name", MECHANISMS)
bounded_family = pytest.mark.parametrize("name", [n for n, kind in MECHANISMS.items() if kind.output != "real line"])
SPEC_EPSILONS = (1e-3, 0.05, 0.5, 2.0, 8.0, 20.0)
ROUNDING = 1e-12


def true_values(epsilon: float) -> np.ndarray:
    half = min(0.25, float(square_wave_half_width(np.array(epsilon))))
    return np.array([0.0, half, 0.31, 0.5, 1 - half, 1.0])


@bounded_family
@given(epsilon=epsilons, x=values)
def test_all_mass_lies_on_the_range(name, epsilon, x):
    law = MECHANISMS[name](epsilon).law(x)
    assert law.mass(0.0, 1.0) == pytest.approx(1.0, abs=ROUNDING)
    assert law.mass(-np.inf, np.inf) == pytest.approx(1.0, abs=ROUNDING)


@every_family
@given(epsilon=epsilons, x=values, a=edges, b=edges)
@pytest.mark.cases(8)
def test_mass_is_a_probability_and_cdf_is_monotone(name, epsilon, x, a, b):
    law = MECHANISMS[name](epsilon).law(x)
    a, b = min(a, b), max(a, b)
    mass = float(law.mass(a, b))
    assert 0 <= mass <= 1
    assert law.cdf(a) <= law.cdf(b) + ROUNDING
    assert law.cdf_left(a) <= law.cdf(a)
    assert mass == pytest.approx(float(law.cdf(b) - law.cdf_left(a)), abs=ROUNDING)
    assert law.mass(b, a) == (law.pmf(a) if a == b else 0)


@every_family
@given(epsilon=epsilons, x=values)
@pytest.mark.cases(8)
def test_closed_intervals_that_share_an_edge_overlap_in_its_atom(name, epsilon, x):
    law = MECHANISMS[name](epsilon).law(x)
    together = law.mass(-0.1, 0.4) + law.mass(0.4, 1.1) - law.pmf(0.4)
    assert together == pytest.approx(float(law.mass(-0.1, 1.1)), abs=ROUNDING)


@every_family
@pytest.mark.parametrize("epsilon", SPEC_EPSILONS)
def test_mass_is_the_integral_of_the_density_plus_atoms(name, epsilon):
    mechanism = MECHANISMS[name](epsilon)
    for x in true_values(epsilon):
        law = mechanism.law(x)
        low, high = 0.13, 0.77
        if isinstance(mechanism, GridMechanism):
            grid = np.arange(mechanism.k) / (mechanism.k - 1)
            expected = sum(float(law.pmf(g)) for g in grid if low <= g <= high)
        else:
            kinks = [float(x), *jumps(law, low, high)]
            expected, _ = quad(lambda y, law=law: float(law.pdf(y)), low, high, points=kinks, limit=400, epsabs=1e-12)
        # the quadrature's break points are rounded to an ulp, which counts where the window is that narrow
        rounding = np.finfo(float).eps / float(getattr(getattr(law, "law", law), "half", 1.0))
        assert float(law.mass(low, high)) == pytest.approx(expected, abs=1e-9 + rounding)


def jumps(law, low, high):
    law = getattr(law, "law", law)  # between atoms at the ends
    if not hasattr(law, "offset"):
        return []
    left = float(law.x - law.offset)
    return [min(max(point, low), high) for point in (left, left + 2 * float(law.half))]


@every_family
@given(epsilon=epsilons, x=values)
@pytest.mark.cases(8)
def test_cells_partition_the_mass(name, epsilon, x):
    law = MECHANISMS[name](epsilon).law(np.array([x, 1 - x]))
    cuts = np.array([0.0, 0.0, 0.1, 0.31, 0.5, 0.5, 0.9, 1.0])  # repeated edges: empty cells, and {0} alone
    cells = law.cell_masses(cuts)
    assert cells.shape == (2, 7)
    assert (cells >= 0).all()
    np.testing.assert_allclose(cells.sum(axis=1), law.mass(0.0, 1.0), atol=ROUNDING)
    np.testing.assert_allclose(cells[:, 0], law.pmf(0.0), atol=ROUNDING)
    np.testing.assert_allclose(cells[:, 2], law.mass(0.1, 0.31) - law.pmf(0.1), atol=ROUNDING)


@every_family
@given(epsilon=epsilons)
@pytest.mark.cases(8)
def test_everything_broadcasts_over_x(name, epsilon):
    mechanism, x = MECHANISMS[name](epsilon), np.array([[0.0, 0.2], [0.5, 1.0]])
    law = mechanism.law(x)
    for result in (law.mass(0.1, 0.6), law.pdf(0.4), law.pmf(0.5), law.cdf(0.3), law.mean(), law.var()):
        assert result.shape == (2, 2)
    assert law.mass(np.zeros((3, 1, 1)), 0.5).shape == (3, 2, 2)
    one = mechanism.law(0.2)
    assert law.mass(0.1, 0.6)[0, 1] == one.mass(0.1, 0.6)
    assert law.mean()[0, 1] == pytest.approx(float(one.mean()), rel=1e-12)
    assert law.sample(5, np.random.default_rng(0)).shape == (5, 2, 2)


@every_family
def test_epsilon_broadcasts_against_x(name):
    grid, x = np.array([0.5, 2.0, 8.0]), np.array([0.1, 0.5])
    together = MECHANISMS[name](grid[:, np.newaxis]).law(x).mass(0.2, 0.7)
    alone = [MECHANISMS[name](epsilon).law(x).mass(0.2, 0.7) for epsilon in grid]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    with pytest.raises(ValueError, match="one epsilon"):
        _ = MECHANISMS[name](grid).guarantee


@every_family
@given(epsilon=moderate_epsilons)
def test_log_ratio_never_exceeds_the_tight_epsilon(name, epsilon):
    """Over a grid of true values and outputs with all interval edges and atoms in it."""
    mechanism = MECHANISMS[name](epsilon)
    if not np.isfinite(mechanism.tight_epsilon):
        return  # the unclipped Gaussian has no pure loss
    x = np.concatenate([np.linspace(0, 1, 21), true_values(epsilon)])
    if isinstance(mechanism, GridMechanism):
        y = np.arange(mechanism.k) / (mechanism.k - 1)
        likelihood = mechanism.law(x[:, np.newaxis]).pmf(y)
    else:
        ends = np.array([0.0, 1.0])
        inner = mechanism.law(x[:, np.newaxis])
        edge = np.concatenate([x, *[np.clip(x + s * shift, 0, 1) for s in (-1, 1) for shift in window(inner)]])
        y = np.unique(np.concatenate([np.linspace(0, 1, 41), edge]))
        likelihood = np.concatenate([inner.pdf(y), inner.pmf(ends)], axis=1)
        likelihood = likelihood[:, (likelihood > 0).all(axis=0)]
    loss = np.log(likelihood.max(axis=0)) - np.log(likelihood.min(axis=0))
    assert loss.max() <= mechanism.tight_epsilon + 1e-9
    assert loss.max() == pytest.approx(mechanism.tight_epsilon, abs=1e-9)
    if mechanism.guarantee.notion == "pure":
        assert mechanism.tight_epsilon <= mechanism.guarantee.epsilon


def window(law):
    law = getattr(law, "law", law)
    if not hasattr(law, "half"):
        return ()
    half = law.half[:, 0]
    return (half, 2 * half)


@pytest.mark.parametrize("kind", [PM, SW])
@given(epsilon=epsilons, x=values)
def test_windows_narrower_than_rounding_keep_their_mass(kind, epsilon, x):
    """At epsilon = 700 the window is narrower than one ulp of x; its mass must not vanish."""
    law = kind(epsilon).law(x)
    spread = float(law.spread)
    assert float(law.mass(max(x - 0.3, 0), min(x + 0.3, 1))) >= (1 - spread) * (float(law.half) <= 0.15)


@every_family
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0, 8.0, 700.0])
def test_draws_follow_the_law(name, epsilon):
    """Kolmogorov-Smirnov and moment checks; false-alarm rate about 1e-6 for each of 60 x 3 cases."""
    mechanism, n = MECHANISMS[name](epsilon), 20_000
    rng = np.random.default_rng(7)
    for x in (0.0, 0.3, 0.985):
        law = mechanism.law(x)
        draws = law.sample(n, rng)
        points = np.unique(draws)
        below = np.searchsorted(np.sort(draws), points, side="right") / n
        band = np.sqrt(np.log(2 / 1e-6) / (2 * n))  # Dvoretzky-Kiefer-Wolfowitz
        # draws are rounded to doubles, which matters where a window is narrower than one ulp
        assert (below <= law.cdf(np.nextafter(points, 2)) + band).all()
        assert (below >= law.cdf(np.nextafter(points, -1)) - band).all()
        sigma = np.sqrt(float(law.var()) / n)
        assert abs(draws.mean() - float(law.mean())) <= 5.2 * sigma + 1e-9
        if isinstance(mechanism, GridMechanism):
            steps = mechanism.k - 1
            assert (draws == np.rint(draws * steps) / steps).all()
        if mechanism.output != "real line":
            assert ((draws >= 0) & (draws <= 1)).all()
            for atom in (0.0, 1.0):
                share = float(law.pmf(atom))
                assert abs((draws == atom).mean() - share) <= 5.2 * np.sqrt(share * (1 - share) / n) + 1e-3


@every_family
@given(epsilon=moderate_epsilons, x=values)
def test_from_uniform_is_the_quantile(name, epsilon, x):
    law = MECHANISMS[name](epsilon).law(x)
    u = np.array([2.0**-54, 1e-9, 0.1, 0.25, 0.5, 0.75, 0.9, 1 - 1e-9, 1 - 2.0**-53])
    y = law.from_uniform(u)
    assert np.isfinite(y).all()
    assert (np.diff(y) >= -1e-12).all()
    assert (law.cdf(y + 1e-12) >= u - 1e-9).all()
    assert (law.cdf_left(y - 1e-12) <= u + 1e-9).all()


@every_family
@given(epsilon=moderate_epsilons, x=values)
@pytest.mark.cases(8)
def test_moments_agree_with_the_cdf(name, epsilon, x):
    """E[Y] and E[Y^2] by integrating tails, against the closed forms; on [0, 1] only."""
    mechanism = MECHANISMS[name](epsilon)
    law = mechanism.law(x)
    if isinstance(law, Noise):
        assert law.mean() == x
        return
    if mechanism.output == "real line":
        return  # boosted noise: its moments are checked against quadrature beside its law
    nodes = np.linspace(0, 1, 20_001)
    tail = 1 - law.cdf((nodes[1:] + nodes[:-1]) / 2)  # midpoint rule for E[Y] = integral of Pr[Y > t]
    middle = (nodes[1:] + nodes[:-1]) / 2
    assert float(law.mean()) == pytest.approx(tail.mean(), abs=2e-4)
    second = (2 * middle * tail).mean()
    assert float(law.var() + law.mean() ** 2) == pytest.approx(second, abs=4e-4)


@bounded_family
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 30.0, 700.0])
def test_moments_stay_sane_at_both_ends(name, epsilon):
    law = MECHANISMS[name](epsilon).law(np.array([0.0, 0.5, 1.0]))
    assert (law.var() >= 0).all()
    assert (law.var() <= 0.25 + 1e-12).all()
    np.testing.assert_allclose(law.mean()[1], 0.5, atol=1e-12)  # every law is symmetric about the middle
    np.testing.assert_allclose(law.mean()[0] + law.mean()[2], 1.0, atol=1e-12)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 701.0])
def test_epsilon_outside_its_range_is_refused(name, bad):
    with pytest.raises(ValueError, match="epsilon must lie between 1e-09 and 700"):
        MECHANISMS[name](bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_x_outside_the_unit_interval_is_refused(bad):
    with pytest.raises(ValueError, match=r"x must lie in \[0, 1\]"):
        PM(1.0).law(bad)


@pytest.mark.parametrize("options", [{"k": 1}, {"k": 2.5}, {"k": True}])
def test_grid_size_is_checked(options):
    with pytest.raises(ValueError, match="k must be a whole number"):
        KRR(1.0, **options)


def test_two_draws_of_one_law_pass_a_two_sample_check():
    """`kstest` as an independent judge of PM; false-alarm rate 1e-6."""
    law = PM(2.0).law(0.3)
    draws = law.sample(20_000, np.random.default_rng(1))
    assert kstest(draws, lambda y: np.asarray(law.cdf(y))).pvalue > 1e-6


@given(epsilon=moderate_epsilons, x=values)
def test_indicator_law_is_a_mixture_with_the_raw_value(epsilon, x):
    wrapped = PrivacyIndicator(PM(epsilon), 0.1)
    law, inner = wrapped.law(x), PM(epsilon).law(x)
    assert float(law.mass(0.2, 0.6)) == pytest.approx(0.1 * (0.2 <= x <= 0.6) + 0.9 * float(inner.mass(0.2, 0.6)))
    assert float(law.pmf(x)) == pytest.approx(0.1)
    draws = law.sample(4_000, np.random.default_rng(3))
    assert abs((draws == x).mean() - 0.1) < 5 * np.sqrt(0.09 / 4_000) + 0.01
    assert float(law.mean()) == pytest.approx(0.1 * x + 0.9 * float(inner.mean()))
    assert abs(draws.mean() - float(law.mean())) < 5.2 * np.sqrt(float(law.var()) / 4_000) + 1e-9


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
def test_bounded_laplace_tends_to_the_uniform_law_without_losing_digits(epsilon):
    """Against the series in epsilon: mass(a, b) = (b - a)(1 + O(epsilon)), mean and variance likewise."""
    law = MECHANISMS["bounded_laplace"](epsilon).law(0.5)
    # density (1 - eps |y - 1/2| + ..) / (1 - eps/4 + ..): mass of [.2, .8] is .6 + eps (.15 - .09) + O(eps^2)
    assert float(law.mass(0.2, 0.8)) == pytest.approx(0.6 + 0.06 * epsilon, abs=epsilon**2 + 1e-15)
    # variance: integral of (y - 1/2)^2 -> 1/12 - eps (1/32 - 1/48) + O(eps^2)
    assert float(law.var()) == pytest.approx(1 / 12 - epsilon / 96, abs=epsilon**2 + 1e-15)


def test_quantiles_at_the_very_end_raise_no_warning():
    assert MECHANISMS["bounded_laplace"](100.0).law(0.0).from_uniform(1 - 2.0**-53) <= 1.0


@pytest.mark.parametrize("words", ["krr:k=1000000000", "exponential:k=1048577", "pm:quantise=1000000000"])
def test_a_grid_that_would_fill_the_memory_is_refused(words):
    with pytest.raises(ValueError, match="k must be a whole number from 2 to 1048576, got 10"):
        family(words).build(1.0)
    assert family("krr:k=1048576").build(1.0).points == 2**20


@pytest.mark.parametrize(
    "words", ["pm,sw,gaussian_clipped:delta=0.001", "krr:k=9,pm", "pm,krr:k=9,quantise=3", "pm,sw"]
)
def test_several_mechanisms_in_one_text_are_told_to_stand_alone(words):
    with pytest.raises(ValueError, match=r"lists several mechanisms.* give each by itself \(repeat -m\)"):
        family(words)
