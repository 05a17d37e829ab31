"""Independent values for the learner: cells, sensitivities, expectations, variances, reports, bounds."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from epsworth.bounds import Risk
from epsworth.learner import rate
from epsworth.learner.encoding import nearest
from epsworth.learner.mechanism import Tally, times
from epsworth.learner.mechanisms import MECHANISMS, Hadamard, Ternary
from epsworth.mechanisms.rational import stated
from reproduction.published_lattice import Slides, chernoff, codes, floors, parities, parity_centres, published_bound

pytestmark = pytest.mark.cases("all")  # every value of the specifications

VALUES = json.loads((Path(__file__).parent / "learner.json").read_text())
FAKES = json.loads((Path(__file__).parent / "learner_fakes.json").read_text())["fakes_p"]


def p_values(kernel, tally, best, fakes=0):
    """Return, per cell, a p-value for "``best`` has more mass in it than every other label": any of them might."""
    return times(kernel.classes - 1, kernel.against(tally, best, fakes))


def active(unit, m):
    """Return the lattice points whose open cells hold each point, from the codes that reports are made of."""
    return [list(itertools.product(*(range(c // 2, (c + 1) // 2 + 1) for c in row))) for row in codes(unit, m).tolist()]


def each(section):
    return pytest.mark.parametrize("case", VALUES[section], ids=range(len(VALUES[section])))


@each("lattice")
def test_active_cells_nearest_points_and_parities(case):
    u, m = np.array([case["x"]]), case["m"]
    assert [list(cell) for cell in active(u, m)[0]] == case["active_cells"]
    assert nearest(u, m)[0].tolist() == case["nearest"]
    for entry in case["parity_cells"]:
        assert parity_centres(floors(u, m), np.array([entry["parity"]]))[0].tolist() == entry["centre"]


def test_lattice_points_and_their_neighbours_have_at_most_two_active_cells_per_axis():
    for m in range(2, 65):
        points = np.arange(m + 1) / m
        u = np.concatenate([points, np.nextafter(points, -1), np.nextafter(points, 2)]).clip(0, 1)
        for state, value in zip(codes(u[:, None], m)[:, 0].tolist(), u, strict=True):
            cells = range(state // 2, (state + 1) // 2 + 1)
            assert len(cells) in (1, 2)
            assert all(0 <= j <= m and abs(value - j / m) < (1 + 1e-9) / m for j in cells)


def test_parity_cells_are_the_active_cells_of_interior_points():
    u = np.random.default_rng(0).random((200, 3))
    for m in (3, 4, 7):
        k, classes = floors(u, m), parities(3)
        found = np.stack([parity_centres(k, row[None]) for row in classes], axis=1)
        for cells, centres in zip(active(u, m), found.tolist(), strict=True):
            assert sorted(cells) == sorted(map(tuple, centres))


@each("l1_sensitivity")
def test_sensitivities(case):
    slides = Slides(Fraction(1), 2, case["d"], 2)
    assert slides.sensitivity == case["overlapping_cells"]
    assert slides.scale == case["laplace_scale_alpha1"]
    most = 2 ** case["d"]  # active cells of a generic point; with disjoint ones of another, both count
    assert len(active(np.full((1, case["d"]), 0.25), 2)[0]) == most
    assert case["overlapping_cells"] == 2 * most
    ends = np.stack([np.zeros(case["d"]), np.ones(case["d"])])
    assert all(len(cells) == 1 for cells in active(ends, 2))


@each("expectation_Tn_uniform_eta_x1")
def test_expectation_of_the_statistic(case):
    """A fine grid of uniform points with label probability x_1, as weights in place of counts."""
    d, m = len(case["x0"]), case["m"]
    slides = Slides(Fraction(1), m, d, 2)
    j = nearest(np.array([case["x0"]]), m)[0]
    assert j.tolist() == case["jstar"]
    # states 2k + 1 are the open intervals (k, k + 1) h; on each the mean of x_1 is its middle
    shape = [2 * m + 1] * d
    inside = np.array(list(itertools.product(range(m), repeat=d)))
    located, labelled = np.zeros(shape), np.zeros(shape)
    located[tuple((2 * inside + 1).T)] = m**-d
    labelled[tuple((2 * inside + 1).T)] = m**-d * (inside[:, 0] + 0.5) / m
    sums = np.stack([slides.indicator_sums(part.ravel()) for part in (located, labelled)])
    estimate = slides.estimate(Tally(sums, np.array([1, 1])))[:, 0] / 2  # the statistic is half the signed mean
    cell = np.ravel_multi_index(tuple(j), [m + 1] * d)
    assert sums[0, cell] == pytest.approx(case["P_cell"], abs=1e-9)
    assert estimate[cell] == pytest.approx(case["E_Tn"], abs=1e-9)


@each("noise_variance_Tn")
def test_noise_of_the_published_statistic(case):
    slides = Slides(stated(case["alpha"], "epsilon"), 2, case["d"], 2)
    assert slides.variance / 4 / (2 * case["n_per_half"]) == pytest.approx(case["var"], rel=1e-9)


@each("mechanisms")
def test_variances_and_probabilities(case):
    epsilon, m = stated(case["alpha"], "epsilon"), case["K_cells"]

    def variance(name):
        return MECHANISMS[name](epsilon, m, 1, 2).variance

    assert variance("oue") == pytest.approx(case["oue_difference_var_background"], rel=1e-9)
    assert variance("krr") == pytest.approx(case["krr_difference_var_background"], rel=1e-9)
    assert variance("hadamard") == pytest.approx(case["signed_hadamard_var"], rel=1e-9)
    assert 2 * (2 / case["alpha"]) ** 2 == pytest.approx(case["laplace_signed_var"], rel=1e-9)
    ternary, stated_values = Ternary(epsilon, m, 1, 2), case["signed_ternary"]
    right, wrong, noise = np.array(ternary.weights) / 2.0**64
    assert [noise, 1 - 2 * noise, noise] == pytest.approx(stated_values["P(+,0,-|v=0)"], abs=1e-9)
    assert [right, 1 - right - wrong, wrong] == pytest.approx(stated_values["P(+,0,-|v=+1)"], abs=1e-9)
    assert 1 / ternary.signal == pytest.approx(stated_values["scale"], rel=1e-9)
    assert ternary.variance == pytest.approx(stated_values["var_background"], rel=1e-9)


def test_the_statistic_from_explicit_reports():
    case = VALUES["Tn_from_reports"]
    first, second = np.array(case["Z_first_half"]), np.array(case["Z_second_half"])
    tally = Tally(np.stack([first.sum(axis=0), second.sum(axis=0)]), np.array([len(first), len(second)]))
    found = Slides(Fraction(1), 3, 1, 2).estimate(tally)[:, 0] / 2
    assert found == pytest.approx(case["Tn"], abs=1e-9)
    assert (found >= 0).astype(int).tolist() == case["labels"]


def test_hadamard_from_explicit_reports():
    case = VALUES["signed_hadamard"]
    kernel = Hadamard(stated(case["alpha"], "epsilon"), case["K"], 1, 2)
    row, sign = np.array(case["reports_row_sign"]).T
    tally = kernel.tally(2 * row + (sign > 0))
    assert kernel.estimate(tally)[:, 0] == pytest.approx(case["estimate"], abs=1e-9)


@each("tail_bounds")
def test_tail_bounds(case):
    scale = 2 ** (case["d"] + 1) / case["alpha"]
    assert published_bound(case["t"], case["n_per_half"], scale) == pytest.approx(case["slides"], abs=1e-9)
    assert float(chernoff(case["t"], case["n_per_half"], scale)) == pytest.approx(case["chernoff"], rel=1e-6)


@each("binomial_certificate")
def test_binomial_certificates(case):
    """One cell: column 0 of the transform is always +1, so every report votes on it."""
    kernel = Hadamard(stated(case["alpha"], "epsilon"), 1, 1, 2)
    tally = Tally(np.array([[case["N"] - case["plus"], case["plus"]]]), np.array([case["N"]]))
    estimate = kernel.estimate(tally)[0, 0]
    label = int(estimate >= 0)
    assert label == case["label"]
    assert estimate == pytest.approx(case["signed_mean_estimate"], abs=1e-9)
    assert p_values(kernel, tally, np.array([label]))[0] == pytest.approx(case["p_value"], abs=1e-9)
    lower, upper = kernel.interval(tally, Risk(0.05))
    outwards = 2e-9 / kernel.contrast  # ours are rounded outwards, by 1e-9 of a share
    assert [lower[0], upper[0]] == pytest.approx(case["ci95"], abs=1e-9 + outwards)
    assert lower[0] <= case["ci95"][0]
    assert upper[0] >= case["ci95"][1]


@each("rates")
def test_rates(case):
    given = {"exponent": case["beta"], "margin_exponent": case["gamma"]}
    assert rate(case["d"], **given) == pytest.approx(case["private_exponent"], rel=1e-12)
    assert rate(case["d"], **given, private=False) == pytest.approx(case["nonprivate_exponent"], rel=1e-12)


@pytest.mark.parametrize("case", FAKES, ids=range(len(FAKES)))
def test_p_values_with_fakes(case):
    """One cell, two classes: row 0 agrees with class 1, so that every report votes."""
    kernel = Hadamard(stated(1, "epsilon"), 1, 1, 2)
    wins, n = case["wins"], case["n"]
    counts = np.zeros(kernel.shape, dtype=np.int64)
    counts[0] = n - wins, wins
    found = p_values(kernel, Tally(counts, np.array([n])), np.array([1]), case["fakes"])
    assert found[0] == pytest.approx(case["p"], rel=1e-9)
