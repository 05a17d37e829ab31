"""Linear models of several classes with one or two sensitive features: exact areas, brackets, traps of geometry."""

from __future__ import annotations

import numpy as np
import pytest
from sixty import rational_area
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sums_in_digits import closed_form

import epsworth as ew
from epsworth.mechanisms import MECHANISMS
from epsworth.utility.engines.linear import (
    Comparison,
    HalfPlanes,
    Lattice,
    Polygons,
    area,
    half_planes,
    mixed_areas,
    slabs,
)
from strategies import CONTINUOUS, sparing

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
MODELS = {
    "logistic": LogisticRegression(max_iter=5000, C=10),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "lda": LinearDiscriminantAnalysis(),
}


@pytest.mark.slow
def test_areas_equal_rational_clipping():
    """Upright, level, repeated, nearly parallel and very steep boundaries among them."""
    rng = np.random.default_rng(0)
    for case in range(400):
        planes = rng.normal(size=(rng.integers(1, 7), 3))
        planes[:, 2] = -planes[:, :2] @ rng.random(2) + 0.2 * rng.random()  # near some point of the square
        kind = case % 5
        if kind == 1:
            planes[0, 0], planes[-1, 1] = 0, 0
        elif kind == 2:
            planes[:, rng.integers(2)] *= 10.0 ** -rng.integers(3, 300)
        elif kind == 3:
            planes = np.concatenate([planes, planes, planes * (1 + 1e-16 * rng.normal(size=planes.shape))])
        elif kind == 4:
            planes = np.concatenate([planes, planes * (1 + 1e-9 * rng.normal(size=planes.shape)), -planes[:1]])
            planes[-1, 2] += 10.0 ** -rng.integers(1, 12)
        found = area(HalfPlanes(*planes.T[:, np.newaxis])).item()
        assert found == pytest.approx(float(rational_area(planes)), abs=1e-13)


@pytest.mark.parametrize("weights", [[0.7, -0.4], [-1.0, 0.3], [1.0, 0.0], [0.0, -0.2], [0.6]])
@pytest.mark.parametrize("name", ["pm", "sw"])
@pytest.mark.cases(1)
def test_one_rival_is_the_closed_form_of_a_sum(weights, name):
    """Two classes are a polygon with one cut: densities of sums say the same."""
    epsilons, weights = np.array([0.1, 1.0, 4.0, 8.0]), np.array(weights)
    laws = [MECHANISMS[name](epsilons).law(x) for x in (0.3, 0.8)][: len(weights)]
    for threshold in np.linspace(-0.9, 0.6, 7):
        exact = closed_form(laws, weights, threshold)
        loses = mixed_areas((laws[0], laws[-1]), half_planes([Comparison(weights, -threshold, positive=False)]))
        assert (exact.lower - 1e-12 <= loses).all()
        assert (loses <= exact.upper + 1e-12).all()
        assert (exact.upper - exact.lower).max() < 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 8.0, 60.0, 700.0])
@pytest.mark.parametrize("x", [(0.31, 0.77), (0.0, 0.5), (1.0, 0.0)])
@pytest.mark.cases(1)
def test_slabs_hold_the_exact_areas(epsilon, x):
    """Two ways to one number; at epsilon 700 the windows are narrower than any double around x."""
    rng = np.random.default_rng(1)
    for name in ("pm", "sw"):
        pair = tuple(MECHANISMS[name](np.array([epsilon])).law(v) for v in x)
        for _ in range(8):
            a, b = rng.normal(size=(2, 1, 4))
            planes = HalfPlanes(a, b, 0.15 - a * x[0] - b * x[1] + 0.1 * rng.normal(size=(1, 4)))
            exact = mixed_areas(pair, planes)
            for steps in (64, 1_024):
                low, high = slabs(pair, planes, np.full((1, 4), 1e-12), steps)
                assert low - 1e-12 <= exact <= high + 1e-12
                if epsilon < 50:
                    assert high - low <= 4 / steps
            if epsilon == 700:
                inside = (planes.a * x[0] + planes.b * x[1] + planes.c > 0).all()
                assert exact.item() == pytest.approx(float(inside), abs=2 * pair[0].spread.item() + 1e-9)


@pytest.mark.parametrize("name", sparing(MODELS, keep=(1, 2)))
@pytest.mark.parametrize("sensitive", [[2], [0, 2]])
@pytest.mark.cases(1)
def test_polygons_hold_the_sampled_truth(name, sensitive):
    """False-alarm rate 1e-6 per case."""
    model = MODELS[name].fit(IRIS, SPECIES)
    settings = {"sensitive": sensitive, "mechanisms": CONTINUOUS, "epsilons": [0.5, 2, 6], "domain": RANGES}
    found = ew.stability(model, IRIS[[10, 77, 120]], y=[0, 2, 2], **settings)
    assert (found.method == "polygons").all()
    assert found.confidence == 1
    assert (found.upper - found.lower).max() <= 0.01
    assert (found.upper - found.lower)[:2].max() <= 1e-8  # pm and sw: rounding only
    drawn = ew.stability(
        model,
        IRIS[[10, 77, 120]],
        y=[0, 2, 2],
        method="sampled",
        rng=0,
        confidence=1 - 1e-6,
        tolerance=0.02,
        **settings,
    )
    for a, b in ((found.stability, drawn.stability), (found.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
    assert (found.labels_possible >= drawn.labels_possible).all()


@pytest.mark.slow
def test_grids_are_summed_exactly():
    """Against the grid engine, which asks the classifier about every point; atoms sit on the ends of the range."""
    model = MODELS["scaled"].fit(IRIS, SPECIES)
    words = ["krr:k=31", "exponential_tight:k=17", "pm:quantise=12", "laplace_clipped:quantise=25"]
    settings = {"sensitive": [0, 2], "mechanisms": words, "epsilons": [0.5, 2, 6], "domain": RANGES, "y": [0, 1, 2] * 5}
    one = ew.stability(model, IRIS[::10], method="polygons", **settings)
    other = ew.stability(model, IRIS[::10], method="grid", **settings)
    assert (one.method == "polygons").all()
    for a, b in ((one.stability, other.stability), (one.accuracy, other.accuracy)):
        np.testing.assert_allclose(a.lower, b.lower, atol=1e-11)
        np.testing.assert_allclose(a.upper, b.upper, atol=1e-11)


def test_a_fine_grid_is_bracketed_without_visiting_every_point():
    law = MECHANISMS["krr"](np.array([0.5, 12.0]), k=100_001).law(0.3)
    planes = half_planes([Comparison(np.array([1.0, -1.0]), 1e-7), Comparison(np.array([-1.0, -2.0]), 1.5)])
    low, high = slabs((law, law), planes, np.full((1, 2), 1e-12), 2_048)
    assert (high - low <= 4 / 2_048).all()
    draws = np.stack([law.sample(400_000, np.random.default_rng(seed)) for seed in (0, 1)])
    share = ((draws[0] - draws[1] + 1e-7 > 0) & (1.5 - draws[0] - 2 * draws[1] > 0)).mean(axis=0)
    assert (share > low - 0.004).all()  # 5 standard deviations
    assert (share < high + 0.004).all()


def test_a_boundary_through_a_corner_keeps_its_atoms_inside_the_bracket():
    """u > 0 and v > 0 with atoms at 0: whether the corner's labels win or lose, the bracket holds both."""
    law = MECHANISMS["laplace_clipped"](np.array([1.0])).law(0.5)
    atom = law.pmf(0.0)
    low, high = slabs((law, law), HalfPlanes(np.array([[1.0, 0]]), np.array([[0, 1.0]]), np.zeros((1, 2))),
                      np.full((1, 2), 1e-12), 4_096)  # fmt: skip
    assert low <= (1 - atom) ** 2
    assert high >= 1
    shifted = HalfPlanes(np.array([[1.0, 0]]), np.array([[0, 1.0]]), np.full((1, 2), -1e-6))
    low, high = slabs((law, law), shifted, np.full((1, 2), 1e-12), 4_096)
    assert low <= (1 - atom) ** 2
    assert high == pytest.approx((1 - atom) ** 2, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_equal_weights_of_unclipped_laplace_noise(epsilon):
    """The difference of two Laplace variables of one scale: Pr[S > t] = e^-t (2 + t) / 4, for t in scales."""
    law = MECHANISMS["laplace"](np.array([epsilon])).law(0.5)
    for t in (0.0, 0.3, 4.0):
        planes = half_planes([Comparison(np.array([1.0, -1.0]), -t / epsilon)])
        low, high = slabs((law, law), planes, np.full((1, 1), 1e-12), 4_096)
        assert low <= np.exp(-t) * (2 + t) / 4 <= high
        assert high - low <= 2 / 4_096


@pytest.mark.parametrize("engine", [Polygons(), Lattice()])
@pytest.mark.parametrize("name", ["pm", "laplace_clipped"])
@pytest.mark.parametrize("positive", [True, False])
def test_what_public_terms_round_is_on_both_sides_of_a_bracket(engine, name, positive):
    laws = [MECHANISMS[name](np.array([1.0, 4.0])).law(x) for x in (0.3, 0.8)]
    weights, slack = np.array([1.0, -0.4]), 0.05
    wide = engine.keeps(laws, [Comparison(weights, -0.2, positive)], slack, 1e-3)
    for moved in (-0.2 - slack, -0.2 + slack):
        exact = engine.keeps(laws, [Comparison(weights, moved, positive)], 0.0, 1e-3)
        assert (wide.lower <= exact.upper).all()
        assert (wide.upper >= exact.lower).all()


def test_slabs_count_what_scores_are_rounded_by_and_what_lies_beyond_them():
    pair = tuple(MECHANISMS["sw"](np.array([1.0])).law(x) for x in (0.3, 0.8))
    low, high = slabs(pair, HalfPlanes(*np.array([[[0.0]], [[1.0]], [[-0.5]]])), np.full((1, 1), 0.1), 64)
    assert low.item() <= pair[1].mass(0.6, 1).item()
    assert high.item() >= pair[1].mass(0.4, 1).item()
    wide = tuple(MECHANISMS["laplace"](np.array([1.0])).law(x) for x in (0.3, 0.8))
    everywhere = slabs(wide, HalfPlanes(*np.array([[[0.0]], [[0.0]], [[1.0]]])), np.zeros((1, 1)), 1)
    assert everywhere.upper.item() == 1
