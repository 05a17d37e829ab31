"""Every slack of a certain bound holds sixty-digit arithmetic at inputs where nothing else would."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from scipy.fft import next_fast_len
from sixty import EXACT, mass, rational_area
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sums_in_digits import closed_form

import epsworth as ew
from epsworth.mechanisms import MECHANISMS, laws
from epsworth.mechanisms.law import MASS_ERROR
from epsworth.rounding import UNIT
from epsworth.search import last_passing
from epsworth.space import Feature
from epsworth.utility import boxes
from epsworth.utility.engines import propagation, quadratic, strata, tree_boxes
from epsworth.utility.engines.contraction import _agreeing, below, contract, mass_error, outward
from epsworth.utility.engines.linear import Comparison, _of_part, area_error, half_planes
from epsworth.utility.engines.propagation import Verdict, branch
from epsworth.utility.engines.sums import bracket, gaussian_sum, laplace_sum, transform_error
from epsworth.utility.engines.tree_boxes import descend
from epsworth.utility.engines.trees import Leads
from epsworth.utility.radius.networks import DUAL, PRUNED
from epsworth.utility.radius.quadratic import Quadric, nearest_euclidean

SMOOTH = ("laplace_clipped", "pm", "bounded_laplace")
GRIDS = ("exponential", "exponential_tight", "krr", "pb_grr")
MORE = {"gaussian": {"delta": 0.1}, "gaussian_clipped": {"delta": 0.1}} | {name: {"k": 9} for name in GRIDS}
# The largest errors among 100 000 random inputs: family, epsilon, true value, ends of the interval.
WORST = [
    ("laplace", 7.261344885982484, 1e-300, -0.20701578218317057, 1.0),
    ("laplace_clipped", 6.2116236656216675, 0.5, 0.25930797583602017, 0.817333912360216),
    ("laplace_clipped", 4.122819895076722, 0.5, 0.32713324219218687, 1.0),
    ("bounded_laplace", 6.91629414268876e-08, 3.360816083892315e-11, -np.inf, 0.7146406590296855),
    ("gaussian", 7.4909358143342635, 1e-300, -np.inf, 0.4079924612232436),
    ("gaussian_clipped", 4.188934450673377, 0.5, -np.inf, 0.841835768254796),
    ("pm", 1.7293020575570086e-08, 0.2620609409116307, 0.26206094091163074, 1.0),
    ("sw", 2.9566076972031037, 7.146940906738608e-10, 7.146940906738607e-10, 0.9112301430965749),
    ("exponential", 47.80158956805998, 0.5, 0.49999999999999994, 0.9028199390893683),
    ("exponential_tight", 26.41380235458265, 0.0, -np.inf, 0.6290142476381541),
    ("krr", 7.163380026877933, 1e-300, -np.inf, 0.3627788486393898),
    ("pm_affine", 16.061142152276226, 5.204475292642446e-10, -np.inf, 0.00026381836383065747),
    ("sw_affine", 7.218195162759693, 1.0623712026596566e-10, 1.062425004474513e-10, np.inf),
    ("duchi", 9.067998269214941, 0.5, -np.inf, np.inf),
    ("hybrid", 9.041566680868206e-05, 0.9999999993910357, -np.inf, 1.0412805528001485),
    ("staircase", 6.1751316332686645, 5e-324, -np.inf, 1.0),
    ("pb_grr", 20.068179819400243, 0.7917818210864225, -np.inf, 0.7951844067186765),
    ("boosted_laplace", 8.894836726891481e-06, 0.11257119537539051, -163002.88148955064, 0.7310585981777028),
]


def off(law, lower, upper):
    """Return the error of one mass."""
    return abs(EXACT(float(law.mass(lower, upper))) - mass(law, EXACT(lower), EXACT(upper)))


NARROW = ("pm", 80.0, 0.5, 0.5, 1.0)  # a window that is narrower than one unit of x


@pytest.mark.parametrize(("name", "epsilon", "x", "lower", "upper"), [*WORST, NARROW])
def test_no_mass_is_off_by_more_than_derived(name, epsilon, x, lower, upper):
    assert off(MECHANISMS[name](epsilon, **MORE.get(name, {})).law(x), lower, upper) <= MASS_ERROR


def test_every_family_has_its_worst_case():
    """Without a slack masses would be taken for the truth, but for a family whose parameters are computed otherwise."""
    assert {row[0] for row in WORST} == set(MECHANISMS)
    missed = [off(MECHANISMS[n](epsilon, **MORE.get(n, {})).law(x), a, b) for n, epsilon, x, a, b in WORST]
    assert sum(one > UNIT / 2 for one in missed) >= len(WORST) - 3


def test_ingredients_of_the_error_of_a_mass():
    """The geometric law is the worst by count: see `epsworth.mechanisms.law`."""
    ratio = 8 + 1 + 8 + 1 + 1  # two expm1, the argument of one, the division
    assert (2 * 2 * ratio + 2 * 3 + 4) * UNIT <= MASS_ERROR


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_no_mass_of_6000_is_off_by_more_than_derived(name):
    rng = np.random.default_rng(list(MECHANISMS).index(name))
    for _ in range(600):
        epsilon = float(np.exp(rng.uniform(np.log(1e-8), np.log(700))))
        x = float(rng.choice([0.0, 1.0, 1 - UNIT, 5e-324, 0.5, rng.random(), 1e-9 * rng.random()]))
        law = MECHANISMS[name](epsilon, **MORE.get(name, {})).law(x)
        near = x + 10.0 ** rng.uniform(-17, 0, 20) * rng.normal(size=20)
        beside = rng.choice([0.0, 1.0, -np.inf, np.inf, np.nextafter(x, -1), np.nextafter(x, 2)], 20)
        lower, upper = np.sort(np.where(rng.random(20) < 0.7, near, beside).reshape(2, 10), axis=0)
        lower[rng.random(10) < 0.5] = -np.inf
        found = law.mass(lower, upper)
        for one, a, b in zip(found.tolist(), lower.tolist(), upper.tolist(), strict=True):
            assert abs(EXACT(one) - mass(law, EXACT(a), EXACT(b))) <= MASS_ERROR


def sum_of_cells(agrees, parts):
    """Return the sixty-digit mass of a table over the cells between edges, ends included."""
    masses = []
    for law, edges in parts:
        cumulated = [mass(law, -mpmath.inf, EXACT(edge)) for edge in edges]
        masses.append([b - a for a, b in pairwise(cumulated)])
    return sum(math.prod(m[i] for m, i in zip(masses, at, strict=True)) for at in zip(*np.nonzero(agrees), strict=True))


@pytest.mark.parametrize("name", ["pm", "laplace_clipped", "gaussian", "hybrid", "krr"])
def test_sums_over_cells_hold_the_truth(name):
    rng, wrong = np.random.default_rng(0), 0
    feature = Feature("one", 0.0, 1.0)
    for _ in range(8):
        edges = [np.concatenate([[-np.inf], np.sort(rng.random(6)), [np.inf]]) for _ in range(2)]
        agrees = (rng.random((7, 7)) < 0.5).astype(float)
        mechanism, x = MECHANISMS[name](float(rng.uniform(0.1, 9)), **MORE.get(name, {})), rng.random(2)
        laws_ = [mechanism.law(float(v)) for v in x]
        masses = [np.diff(below(feature, mechanism, law, e))[np.newaxis] for law, e in zip(laws_, edges, strict=True)]
        found = contract(agrees, masses)
        truth = sum_of_cells(agrees, zip(laws_, edges, strict=True))
        lower, upper = outward(found, mass_error(14))
        assert lower.item() <= truth <= upper.item()
        assert upper - lower < 1e-11
        wrong += EXACT(found.item()) != truth
    assert wrong == 8  # the sum alone is never the truth


@pytest.mark.parametrize("width", [0.6, 1e-3, 700.0])
@pytest.mark.parametrize("method", ["cells", "branch_and_bound"])
def test_edges_on_the_unit_scale_are_allowed_to_be_rounded(method, width):
    """Windows of sw at epsilon 12 hold 10^5 per unit, so that two roundings of a threshold are more than a law's own.

    The last double on the unit scale whose value passes the threshold is the true edge.
    """
    rng, count = np.random.default_rng(5), 1 if method == "cells" else 3
    for _ in range(12):
        lower = width * float(rng.uniform(-1, 1))
        feature = Feature("one", lower, lower + width)
        x = lower + width * float(rng.uniform(0.2, 0.8))
        cut = x + 2e-5 * width * float(rng.uniform(-1, 1))
        rows = np.column_stack([[lower, lower + 1.0]] + [[0.0, 0.0]] * (count - 1))
        model = DecisionTreeClassifier(max_depth=1).fit(rows, [0, 1])
        model.tree_.threshold[0] = cut
        found = ew.stability(
            model, np.tile(x, (1, count)), sensitive=list(range(count)), mechanisms="sw", epsilons=[12.0 * count],
            domain=dict.fromkeys(range(count), (feature.lower, feature.upper)), method=method, rng=0,
        )  # fmt: skip

        def first_label(u, model=model, feature=feature):
            return model.predict(np.repeat(feature.from_unit(u)[:, np.newaxis], count, axis=1)) == 0

        edge = last_passing(first_label, np.zeros(1), np.ones(1)).item()
        left = mass(MECHANISMS["sw"](12.0).law(float(feature.to_unit([x])[0])), -mpmath.inf, EXACT(edge))
        truth = left if first_label(feature.to_unit([x]))[0] else 1 - left
        assert found.lower.item() <= truth <= found.upper.item()
        assert found.upper - found.lower < 1e-9


@pytest.mark.slow
def test_the_exact_engines_hold_the_truth():
    """A stump on one feature, by cells, and on a grid of five, by all of it: the true sides are the model's own."""
    epsilons = [0.3, 1.1, 2.0, 4.7, 9.0]
    for x in np.random.default_rng(0).random(6).tolist():
        model = DecisionTreeClassifier(max_depth=1).fit([[0.0], [x / 2 + 0.2], [x / 2 + 0.3], [1.0]], [0, 0, 1, 1])
        cut = last_passing(lambda v, m=model: m.predict(v[:, np.newaxis]) == 0, np.zeros(1), np.ones(1)).item()
        found = ew.stability(
            model, [[x]], sensitive=0, mechanisms=["pm", "krr:k=5"], epsilons=epsilons, domain={0: (0, 1)}
        )
        assert (found.upper - found.lower).max() < 1e-11
        for e, epsilon in enumerate(epsilons):
            for m, law in enumerate((MECHANISMS["pm"](epsilon).law(x), MECHANISMS["krr"](epsilon, k=5).law(x))):
                left = mass(law, -mpmath.inf, EXACT(cut))
                truth = left if x <= cut else 1 - left
                assert found.lower[m, e, 0] <= truth <= found.upper[m, e, 0]


def jumps(law, weight):
    """Return (height, place) of the density's jumps for weight * Y, of one `TwoLevel` law, in fractions."""
    x, spread, half, offset = (Fraction(float(v)) for v in (law.x, law.spread, law.half, law.offset))
    central, start = (1 - spread) / (2 * half), x - offset
    ends = [(spread, 0), (central, start), (-central, start + 2 * half), (-spread, 1)]
    sign = 1 if weight > 0 else -1
    return [(height / abs(weight) * sign, weight * Fraction(place)) for height, place in ends]


def rational_sum(laws_, weights, threshold):
    """Return Pr[sum w_j Y_j <= threshold] in fractions: all jumps are moved up where a weight is negative."""
    terms, s = [(Fraction(1), Fraction(0))], len(weights)
    for law, weight in zip(laws_, map(Fraction, weights), strict=True):
        terms = [(a * b, p + q) for a, p in terms for b, q in jumps(law, weight)]
    return sum(a * max(Fraction(threshold) - p, Fraction(0)) ** s for a, p in terms) / math.factorial(s)


def check_closed_form(rng):
    s = int(rng.integers(1, 4))
    kinds = [MECHANISMS[rng.choice(["pm", "sw"])](np.array([np.exp(rng.uniform(-7, 2.5))])) for _ in range(s)]
    laws_, weights = [kind.law(float(rng.random())) for kind in kinds], rng.normal(size=s) * 10 ** rng.uniform(-2, 0, s)
    threshold = float(weights @ rng.random(s))
    lower, upper = (side.item() for side in closed_form(laws_, weights, threshold))
    truth = rational_sum([law[0] for law in laws_], weights.tolist(), threshold)
    assert lower <= truth <= upper
    return lower, upper, truth


def check_laplace_sum(rng):
    """Scales that nearly agree among them: the mixture's weights then cancel."""
    s = int(rng.integers(1, 5))
    rates, weights, x = 10 ** rng.uniform(-1, 1, s), rng.normal(size=s), rng.random(s)
    if s > 1:
        weights[1] = weights[0] * rates[1] / rates[0] * (1 + 10 ** rng.uniform(-9, -1))
    threshold = float(weights @ x + rng.normal())
    lower, upper = laplace_sum(
        [laws.Laplace.around(np.array([v]), r) for v, r in zip(x, rates, strict=True)], weights, threshold
    )
    scales = [abs(EXACT(w)) / EXACT(r) for w, r in zip(weights.tolist(), rates.tolist(), strict=True)]
    centre = sum(EXACT(w) * EXACT(v) for w, v in zip(weights.tolist(), x.tolist(), strict=True))
    truth = EXACT(0)
    for b in scales:
        share = math.prod(b**2 / (b**2 - c**2) for c in scales if c is not b)
        z = (EXACT(threshold) - centre) / b
        truth += share * (mpmath.exp(z) / 2 if z < 0 else 1 - mpmath.exp(-z) / 2)
    assert lower.item() <= truth <= upper.item()
    return lower.item(), upper.item(), truth


def check_gaussian_sum(rng):
    s = int(rng.integers(1, 6))
    sigmas, weights, x = 10 ** rng.uniform(-1, 1, s), rng.normal(size=s), rng.random(s)
    threshold = float(weights @ x + rng.normal())
    laws_ = [laws.Gaussian.around(np.array([v]), sigma) for v, sigma in zip(x, sigmas, strict=True)]
    lower, upper = (side.item() for side in gaussian_sum(laws_, weights, threshold))
    exact = [[EXACT(v) for v in part.tolist()] for part in (weights, sigmas, x)]
    spread = mpmath.sqrt(sum((w * sigma) ** 2 for w, sigma, _ in zip(*exact, strict=True)))
    truth = mpmath.ncdf((EXACT(threshold) - sum(w * v for w, _, v in zip(*exact, strict=True))) / spread)
    assert lower <= truth <= upper
    return lower, upper, truth


CHECKS = [check_closed_form, check_laplace_sum, check_gaussian_sum]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.cases(1)
def test_closed_forms_hold_the_truth(check):
    rng = np.random.default_rng(0)
    found = [check(rng) for _ in range(60)]
    assert all((lower + upper) / 2 != truth for lower, upper, truth in found if 0 < lower < upper < 1)
    assert sum(upper - lower < 1e-9 for lower, upper, _ in found) > 20


NEARLY_ALL = [  # below the threshold: the density there is so small that room for the threshold's rounding is none
    (["pm", "pm", "sw"], [4.97, 2.456, 3.155], [0.609, 0.293, 0.752], [-1.628, 1.221, -1.134], 1.128),
    (["pm", "sw", "sw"], [5.205, 2.225, 3.87], [0.33, 0.191, 0.944], [-1.032, 0.791, -0.516], 0.437),
    (["pm", "sw", "sw"], [5.547, 1.625, 5.504], [0.514, 0.31, 0.15], [-1.164, -0.6, 0.178], 0.041),
    (["sw", "pm", "sw"], [4.27, 3.38, 3.986], [0.079, 0.368, 0.771], [0.844, -0.533, -0.715], 0.695),
]


@pytest.mark.parametrize(("names", "epsilons", "x", "weights", "threshold"), NEARLY_ALL)
def test_sums_of_shares_allow_for_their_own_rounding(names, epsilons, x, weights, threshold):
    laws_ = [MECHANISMS[name](np.array([e])).law(v) for name, e, v in zip(names, epsilons, x, strict=True)]
    lower, upper = (side.item() for side in closed_form(laws_, np.array(weights), threshold))
    assert lower <= rational_sum([law[0] for law in laws_], weights, threshold) <= upper


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_closed_forms_hold_the_truth_at_random(check):
    rng = np.random.default_rng(1)
    for _ in range(1_500):
        check(rng)


@pytest.mark.parametrize("parts", [1, 2, 8, 100])
def test_ingredients_of_the_error_of_transforms(parts):
    """Half a million units lie between what is proven and what occurs: no input shows that a factor is left out."""
    for steps in (2**12, 5_000, 2**18):
        length = next_fast_len(steps + parts + 1, real=True)
        assert math.gcd(30**20, length) == length  # no radix but those of the derivation
        level = max(((r + 3) * math.sqrt(r) + 4) / math.log2(r) for r in (2, 3, 4, 5))
        spectra = parts * level * math.log2(length) + 3 * (parts - 1) + level * math.log2(length)
        units = math.sqrt(length) * spectra + length - 1
        assert transform_error(parts, length) >= units * UNIT + parts * MASS_ERROR
    assert transform_error(parts, 1) >= parts * MASS_ERROR  # what no transform hides


@pytest.mark.parametrize("epsilon", [0.2, 0.7, 1.9])
def test_brackets_hold_sums_of_coins(epsilon):
    """Between atoms the lattice is exact but for its rounding, and the truth a fraction."""
    law = MECHANISMS["krr"](np.array([epsilon]), k=2).law(1.0)
    one = mass(law[0], EXACT(1), EXACT(1))
    for parts in (1, 2, 5):
        truth = sum(math.comb(parts, j) * one**j * (1 - one) ** (parts - j) for j in range((parts + 1) // 2))
        lower, upper = bracket([law] * parts, np.ones(parts), (parts + 1) // 2 - 0.5, 2**12)
        assert lower.item() <= truth <= upper.item()


def test_areas_under_two_levels_hold_the_truth():
    """Boundaries that cut off a small corner, where what half planes are moved by counts for nothing."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        kinds = [MECHANISMS["pm"](np.array([rng.uniform(0.1, 4)])).law(float(rng.random())) for _ in range(2)]
        a, b = rng.uniform(0.3, 1, 2)
        plane = Comparison(np.array([a, b]), -float(10 ** rng.uniform(-9, -5)))
        lower, upper = _of_part(kinds, half_planes([plane]), np.zeros((1, 1)), 0.01)
        truth = Fraction(0)
        for (p, left, width), (q, bottom, height) in product(*map(levels, kinds)):
            x, y, c = Fraction(a), Fraction(b), Fraction(plane.constant)
            truth += p * q * rational_area([(x * width, y * height, c + x * left + y * bottom)])
        assert lower.item() <= truth <= upper.item()
    # no input was found at which bounds miss without it: what half planes are moved by is more
    for planes in (1, 2, 9, 30):
        crossings = math.comb(planes + 4, 2)
        assert area_error(planes) >= 16 * (crossings + 2) * UNIT


def levels(law):
    """Return weight, start and width of the two uniform laws, in fractions."""
    x, spread, half, offset = (Fraction(float(v[0])) for v in (law.x, law.spread, law.half, law.offset))
    return [(spread, Fraction(0), Fraction(1)), (1 - spread, x - offset, 2 * half)]


def test_quadratic_leads_of_one_value_hold_the_truth():
    """A boundary at a double: nothing is open but the rounding of the masses."""
    rng = np.random.default_rng(0)
    for name in ("pm", "laplace_clipped", "bounded_laplace", "laplace"):
        for _ in range(10):
            law = MECHANISMS[name](float(rng.uniform(0.2, 8))).law(float(rng.random()))
            place = float(rng.integers(1, 1024)) / 1024
            leads = quadratic.Leads(*(np.zeros(shape) for shape in ((1, 2, 2), (1, 2), (1,), (1,))))
            leads.slope[0, 1], leads.gap[0] = 1.0, -place
            lower, upper = quadratic.bracket(leads, [law], 0.01)
            truth = mass(law, EXACT(place), mpmath.inf)
            assert lower.item() <= truth <= upper.item()
            assert upper.item() - lower.item() < 1e-11


@pytest.mark.parametrize("features", [1, 4, 12, 60])
def test_weights_of_strata_are_right_to_their_error(features):
    epsilons = np.array([1e-6, 0.1, 1.3, 5.0, 30.0])
    for k in (2, 7, 1000):
        found = strata.binomial_weights(epsilons, k, features)
        for epsilon, row in zip(epsilons.tolist(), found, strict=True):
            fresh = k / (k - 1 + mpmath.exp(EXACT(epsilon)))
            exact = [
                mpmath.binomial(features, j) * fresh**j * (1 - fresh) ** (features - j) for j in range(features + 1)
            ]
            wrong = sum(abs(EXACT(w) - v) for w, v in zip(row.tolist(), exact, strict=True))
            assert 0 < wrong <= strata.weights_error(features)


class Steps:
    """Boxes of one feature, of which every other interval between some cuts keeps the label."""

    most, together = 4_096, 32

    def __init__(self, cuts):
        self.cuts = cuts

    def start(self):
        return np.full((1, 1), -np.inf), np.full((1, 1), np.inf)

    def look(self, low, high, label):
        first, last = (np.searchsorted(self.cuts, side[:, 0], side="right") for side in (low, np.nextafter(high, -9)))
        one = first == last
        cut = self.cuts[np.minimum(first, len(self.cuts) - 1)]
        return Verdict(one & (first % 2 == 1), one & (first % 2 == 0), np.where(one, -1, 0), cut)


def test_decided_boxes_hold_the_truth():
    """One feature, whose intervals agree by turns: all is decided, and the sum's error is allowed for."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        cuts, epsilon, x = np.sort(rng.random(5)), float(rng.uniform(0.2, 8)), float(rng.random())
        law = MECHANISMS["laplace_clipped"](epsilon).law(x)
        region = branch(Steps(cuts), lambda a, b, law=law: law.cdf(b) - law.cdf(a), 1, 0.0)
        assert abs(EXACT(region.agrees.item()) - by_turns(law, cuts)) <= region.error
        assert region.error >= 2 * len(cuts) * MASS_ERROR


def by_turns(law, cuts):
    """The mass of every other interval, from the second on."""
    ends = [-mpmath.inf, *map(EXACT, cuts.tolist()), mpmath.inf]
    return sum(mass(law, -mpmath.inf, b) - mass(law, -mpmath.inf, a) for a, b in list(pairwise(ends))[1::2])


@pytest.mark.parametrize("cells", [1, 8, 4_096])
def test_cells_of_boxes_hold_the_truth(cells, monkeypatch):
    """One tree of three features whose cells agree by turns, by boxes and tables of up to so many cells."""
    monkeypatch.setattr(tree_boxes, "MOST_CELLS", cells)
    monkeypatch.setattr(tree_boxes, "MOST_AT_ONCE", cells)
    rng = np.random.default_rng(0)
    for _ in range(6):
        cuts, points = np.sort(rng.random((3, 4))), rng.random(3)
        sides = [MECHANISMS[name](float(rng.uniform(0.2, 8))).law(x) for name, x in zip(SMOOTH, points, strict=True)]
        low = np.array(list(product(range(5), repeat=3)), dtype=np.int32).T
        turns = np.where(low.sum(axis=0) % 2, 1.0, -1.0)
        leads = Leads(low, low, np.zeros(125, dtype=np.int32), turns[np.newaxis], np.zeros(1), 0.0, True)
        below = [
            np.concatenate([[0.0], law.cdf(own), [1.0]])[:, np.newaxis] for law, own in zip(sides, cuts, strict=True)
        ]
        corners = np.zeros((1, 3), dtype=np.int32), np.full((1, 3), 4, dtype=np.int32)
        found = descend(leads, below, corners, 0.0)
        odd = [by_turns(law, own) for law, own in zip(sides, cuts, strict=True)]
        truth = (1 - (1 - 2 * odd[0]) * (1 - 2 * odd[1]) * (1 - 2 * odd[2])) / 2  # an odd number of odd sides
        assert abs(EXACT(found.agrees.item()) - truth) <= found.error
        assert abs(EXACT(found.differs.item()) - (1 - truth)) <= found.error
        assert found.error >= 2 * 15 * MASS_ERROR


@pytest.mark.slow
def test_radii_of_linear_models_are_not_above_the_distance():
    rng = np.random.default_rng(0)
    for _ in range(20):
        model = LogisticRegression()
        model.coef_, model.intercept_, model.classes_ = rng.normal(size=(1, 3)), rng.normal(size=1), np.array([0, 1])
        model.n_features_in_, x = 3, rng.normal(size=3)
        weights = [EXACT(w) for w in model.coef_[0].tolist()]
        lead = abs(sum(w * EXACT(v) for w, v in zip(weights, x.tolist(), strict=True)) + EXACT(model.intercept_.item()))
        for norm, dual in ((2, mpmath.sqrt(sum(w * w for w in weights))), (np.inf, sum(map(abs, weights)))):
            found = ew.radius(model, x, norm=norm)
            assert found.lower <= lead / dual <= found.upper
            assert found.lower == pytest.approx(float(lead / dual), rel=1e-9)


@pytest.mark.slow
def test_distances_to_quadrics_are_not_above_the_truth():
    """Strong duality in sixty digits; directions that bend away much make the dual a small difference."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        values = np.array([-float(10 ** rng.uniform(0, 12)), float(rng.uniform(0.1, 2))])
        slope, gap = rng.normal(size=2) * [(-values[0]) ** 0.5, 1], -1.0
        exact = [(EXACT(b), EXACT(v)) for b, v in zip(slope.tolist(), values.tolist(), strict=True)]

        def constraint(v, exact=exact, gap=gap):
            places = [(v * b / (2 * (1 - v * value)), b, value) for b, value in exact]
            return gap + sum(value * y * y + b * y for y, b, value in places)

        low, high = EXACT(0), 1 / EXACT(values[1])
        for _ in range(220):
            middle = (low + high) / 2
            low, high = (middle, high) if constraint(middle) < 0 else (low, middle)
        truth = mpmath.sqrt(-low * gap - sum(low**2 * b**2 / (4 * (1 - low * value)) for b, value in exact))
        found = nearest_euclidean(Quadric(np.diag(values), slope, gap)).lower
        assert found <= truth
        assert found == pytest.approx(float(truth), rel=1e-2)


def test_the_solver_is_trusted_no_further_than_it_says():
    """What HiGHS documents: no input shows it, as its errors are far smaller than what it allows."""
    assert DUAL >= 1e-7  # dual_feasibility_tolerance
    assert PRUNED >= 1e-6  # mip_feasibility_tolerance


def test_sides_lie_within_the_exact_ones():
    rng = np.random.default_rng(0)
    for _ in range(100):
        low = float(rng.normal() * 10 ** rng.uniform(-3, 6))
        feature = Feature("one", low, low + float(10 ** rng.uniform(-3, 3)))
        ends = np.sort(rng.uniform(feature.lower, feature.upper, 2))
        found = boxes.unit_sides([feature], ends[np.newaxis])[0].tolist()
        width = Fraction(feature.upper) - Fraction(feature.lower)
        exact = [(Fraction(end) - Fraction(feature.lower)) / width for end in ends.tolist()]
        assert exact[0] <= Fraction(found[0])
        assert Fraction(found[1]) <= exact[1]
        released = [Fraction(float(feature.from_unit(v))) for v in found]
        assert ends[0] <= released[0]
        assert released[1] <= ends[1]


def test_released_values_are_rounded_by_less_than_boxes_allow():
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(300):
        low = float(rng.normal() * 10 ** rng.uniform(-3, 6))
        feature, unit = Feature("one", low, low + float(10 ** rng.uniform(-3, 3))), float(rng.random())
        exact = Fraction(low) + (Fraction(feature.upper) - Fraction(low)) * Fraction(unit)
        missed = abs(Fraction(float(feature.from_unit(unit))) - exact)
        room = propagation.RELEASE * (abs(low) + abs(feature.upper))
        assert missed <= room
        worst = max(worst, float(missed))
    assert worst > 0


def test_a_label_is_certain_only_where_every_cell_has_it():
    """A cell whose mass is too small for a double is there nevertheless."""
    masses = [np.array([[1.0, 0.0]])]
    for agrees, known in (([1, 1], 1.0), ([0, 0], 0.0)):
        assert outward(_agreeing(np.array(agrees, dtype=float), masses), 1e-12) == ([known], [known])
    assert outward(_agreeing(np.array([1.0, 0.0]), masses), 0.0).lower.item() < 1
    assert outward(_agreeing(np.array([0.0, 1.0]), masses), 0.0).upper.item() > 0
