"""Sums of released values lie within their bounds, against many digits, whatever the laws, weights and thresholds."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sixty import TIMES
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sums_in_digits import of_laplace, of_noise, of_uniforms

import epsworth as ew
from epsworth.mechanisms import MECHANISMS, Quantised, laws
from epsworth.rounding import UNIT
from epsworth.utility.engines import sums
from epsworth.utility.engines.linear import linear_for
from epsworth.utility.engines.parts import Parts, Uniform, parts_of
from epsworth.utility.engines.sums import at_most

UNIFORM = ("pm", "sw", "pm_affine", "sw_affine", "staircase", "hybrid", "duchi")
NOISE = ("laplace_clipped", "bounded_laplace", "gaussian_clipped")
GRIDS = ("krr", "exponential", "exponential_tight", "pb_grr")
WIDTH = 1e-6
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "linear_sums.json").read_text())


def one(name, epsilon, x, **options):
    return MECHANISMS[name](float(epsilon), **options).law(float(x))


def signed(rng, s):
    """Weights of hugely different sizes in every third case."""
    spread = rng.uniform(-6, 3, s) if rng.random() < 1 / 3 else rng.uniform(-0.5, 0.5, s)
    return (rng.choice([-1.0, 1.0], s) * 10**spread).tolist()


def thresholds(rng, weights, values):
    """Somewhere in the range, at a sum of ends or true values, at an end of the range, or beside it."""
    ends = [float(np.dot(weights, rng.integers(0, 2, len(weights)))), float(np.dot(weights, values))]
    low, high = (float(side(weights, 0).sum()) for side in (np.minimum, np.maximum))
    kind = rng.integers(0, 8)
    if kind < 4:
        return float(rng.uniform(low, high)) if kind else float(np.dot(weights, rng.random(len(weights))))
    return float([*ends, low, high][kind - 4]) * (1 + 2.0**-52 * int(rng.integers(-1, 2)))


def check_any_uniforms(rng):
    """Few values, epsilons up to 50, any doubles."""
    names = [str(rng.choice(UNIFORM)) for _ in range(int(rng.integers(1, 5)))]
    x, weights = rng.random(len(names)).tolist(), signed(rng, len(names))
    batch = [one(name, 10 ** rng.uniform(-1, 1.7), v) for name, v in zip(names, x, strict=True)]
    if rng.random() < 0.2:
        batch[0] = laws.RawOr(np.asarray(x[0]), 0.25, one("pm", 2.0, x[0]))
    t = thresholds(rng, weights, x)
    return batch, weights, t, of_uniforms(batch, weights, t)


def check_many_uniforms(rng, most=10):
    """Places on a coarse grid, so that corners meet: up to 30 values."""
    s = int(rng.integers(4, most + 1))
    weights = (rng.integers(1, 5, s) * rng.choice([-1, 1], s) / 4).tolist()
    batch = []
    for _ in range(s):
        half = float(rng.choice([1, 2]) / 16)
        at = float(rng.integers(0, round(16 * (1 - 2 * half)) + 1) / 16)
        batch.append(laws.TwoLevel(*map(np.asarray, (at + half, float(rng.uniform(0.05, 0.9)), half, half))))
    t = thresholds(rng, weights, [float(law.x) for law in batch])
    return batch, weights, t, of_uniforms(batch, weights, t)


def check_coins(rng):
    """Two or three atoms each, up to 30 values whose weights are whole eighths; or few with any weights."""
    s = int(rng.choice([3, 6, 30]))
    weights = (rng.integers(-8, 9, s) / 8).tolist() if s == 30 else signed(rng, s)
    x = rng.random(s)
    kinds = [("duchi", {}), ("krr", {"k": 2}), ("exponential", {"k": 3})][: 3 if s < 30 else 2]
    batch = []
    for v in x:
        name, options = kinds[int(rng.integers(len(kinds)))]
        batch.append(one(name, 10 ** rng.uniform(-1, 1), v, **options))
    t = thresholds(rng, weights, x)
    return batch, weights, t, of_uniforms(batch, weights, t)


def check_grids(rng):
    """Grids of up to nine points, and continuous laws rounded to them."""
    s = int(rng.integers(1, 4))
    x, weights, batch = rng.random(s), signed(rng, s), []
    for v in x:
        k, epsilon = int(rng.integers(3, 10)), 10 ** rng.uniform(-1, 1)
        if rng.random() < 0.4:
            batch.append(Quantised(MECHANISMS[str(rng.choice(["pm", "laplace_clipped"]))](epsilon), k).law(float(v)))
        else:
            batch.append(one(str(rng.choice(GRIDS)), epsilon, v, k=k))
    t = thresholds(rng, weights, x)
    return batch, weights, t, of_uniforms(batch, weights, t)


def check_laplace(rng):
    """Clipped and truncated Laplace noise of one decay per unit of the sum, on a coarse grid of places."""
    s, decay = int(rng.integers(2, 6)), float(2.0 ** rng.integers(-3, 4))
    weights = (rng.integers(1, 9, s) / 4).tolist()
    batch = []
    for w in weights:
        noise = laws.Laplace.around(int(rng.integers(0, 9)) / 8, decay * w)
        batch.append(laws.Clipped(noise) if rng.random() < 0.6 else laws.Truncated(noise))
    t = thresholds(rng, weights, [float(law.noise.x) for law in batch])
    return batch, weights, t, of_laplace(batch, weights, t)


def check_noise(rng):
    """One law of noise among coins, or two."""
    noisy, coins = (1, int(rng.integers(0, 6))) if rng.random() < 0.8 else (2, int(rng.integers(0, 2)))
    x, weights = rng.random(noisy + coins).tolist(), signed(rng, noisy + coins)
    batch = []
    for j, v in enumerate(x):
        name = str(rng.choice(NOISE)) if j < noisy else "duchi"
        options = {"delta": 0.1} if name == "gaussian_clipped" else {}
        batch.append(one(name, 10 ** rng.uniform(-0.5, 0.9), v, **options))
    if noisy == 2:  # quadrature over kinks that are not too close
        weights = (np.sign(weights) * rng.uniform(0.3, 2, len(weights))).tolist()
    t = thresholds(rng, weights, x)
    return batch, weights, t, of_noise(batch[:noisy], weights[:noisy], batch[noisy:], weights[noisy:], t)


CHECKS = [check_any_uniforms, check_many_uniforms, check_coins, check_grids, check_laplace, check_noise]


def holds(case, rng):
    """Return the width of what is found, which holds the truth, also beside features that do not count."""
    batch, weights, t, truth = case
    if rng.random() < 0.2:
        at = int(rng.integers(0, len(batch) + 1))
        batch, weights = [*batch[:at], one("pm", 1.0, 0.5), *batch[at:]], [*weights[:at], 0.0, *weights[at:]]
    found = at_most(batch, np.array(weights), t, 0.0, WIDTH)
    lower, upper = found.lower.item(), found.upper.item()
    assert 0 <= lower <= min(truth, 1) <= upper <= 1  # a law's doubles need not add up to 1
    return upper - lower


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.slow
def test_sums_hold_the_truth(check):
    rng = np.random.default_rng(0)
    widths = [holds(check(rng), rng) for _ in range(8)]
    assert np.median(widths) <= WIDTH


@pytest.mark.slow
@pytest.mark.parametrize(("check", "cases"), list(zip(CHECKS, (400, 60, 100, 60, 30, 350), strict=True)))
def test_sums_hold_the_truth_at_random(check, cases):
    rng = np.random.default_rng(1)
    widths = [holds(check(rng), rng) for _ in range(cases * TIMES)]
    assert np.median(widths) <= WIDTH


def reference(case, slack):
    batch = [MECHANISMS[case["mechanism"]](np.array([float(case["epsilon"])])).law(x) for x in case["x"]]
    found = at_most(batch, np.array(case["weights"]), case["threshold"], slack, WIDTH)
    return found.lower.item(), found.upper.item()


@pytest.mark.parametrize("case", REFERENCE["linear"] + REFERENCE["large_epsilon"])
@pytest.mark.cases(1)
def test_reference_values_are_held_as_narrowly_as_promised(case):
    """Widths within 1e-6 but where scores are rounded by more than a share of the window: 1e-4, 1e-2."""
    s, size = len(case["x"]), float(np.abs(case["weights"]).sum()) + abs(case["threshold"])
    off = case["abs_tol"] if s > 3 else 0.0  # the others are right to the last digit of a double
    lower, upper = reference(case, (4 * s + 2 * s + 8) * UNIT * size)
    assert lower - off <= case["at_most"] <= upper + off
    promised = {40: 1e-4, 50: 1e-2}.get(case["epsilon"], 1e-6) if case["mechanism"] == "pm" else 1e-6
    assert upper - lower <= promised


@pytest.mark.parametrize("case", REFERENCE["large_epsilon"])
def test_windows_lose_no_digits(case):
    """Beside the laws' own doubles, here of scipy and there of many digits: below 1e-9 at epsilon 20."""
    lower, upper = reference(case, 0.0)
    assert upper - lower <= (1e-12 if case["mechanism"] == "sw" else 1e-15 * math.exp(case["epsilon"] / 2) + 1e-12)


@pytest.mark.parametrize("name", ["hybrid", "duchi", "staircase", "pm"])
def test_series_hold_the_truth(name):
    """Few terms of a series in which nothing is smooth, or all but the rough part is."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        x, weights = rng.random(3), rng.choice([-1.0, 1.0], 3) * rng.uniform(0.3, 1, 3)
        t = float(rng.uniform(np.minimum(weights, 0).sum(), np.maximum(weights, 0).sum()))
        batch = [MECHANISMS[name](np.array([3.0])).law(v) for v in x]
        truth = of_uniforms([law[0] for law in batch], weights.tolist(), t)
        parts = [parts_of(law) for law in batch]
        for terms, degree in ((16, 3), (301, 3)):
            found = sums._summed(parts, weights, t, 0.0, sums.Split(terms, degree, -1), np.zeros(1))
            assert found.lower.item() <= truth <= found.upper.item()
        planned = sums.series(parts, weights, t, 0.0, 1e-3)
        assert planned.lower.item() <= truth <= planned.upper.item()


@pytest.mark.parametrize("terms", [128, 512])
def test_what_a_series_leaves_out_is_no_more_than_its_bound(terms):
    """A window so narrow that its transform falls after a thousand terms: until then doublings lose next to nothing."""
    one = np.ones(1)
    part = Parts(np.empty(0), np.empty((1, 0)), (Uniform(one, 0 * one, 0 * one, 1e-4 * one),))
    found = sums._tails([part], one, np.zeros((1, 1)), np.array([-1]), np.array([terms])).item()
    k = np.arange(terms + 1, 2**20)  # not all that is left out
    truth = (2 * part.bound(np.pi * k)[0] / (np.pi * k)).sum()
    assert truth <= found <= 1.1 * truth


@pytest.mark.parametrize("name", ["pm", "laplace_clipped", "bounded_laplace", "gaussian_clipped", "staircase"])
@pytest.mark.parametrize("epsilon", [0.1, 3.0, 30.0])
def test_transforms_are_right_and_bounded(name, epsilon):
    options = {"delta": 0.1} if name == "gaussian_clipped" else {}
    law = MECHANISMS[name](np.array([epsilon]), **options).law(0.4)
    for part in parts_of(law).smooth:
        v = 10.0 ** np.arange(-2, 7)
        found, size = np.abs(part.transform(v)), part.size(v)
        assert (found <= part.bound(v) * (1 + 1e-12) + (part.error(v) + 32 * v * size) * UNIT).all()
        ends = np.linspace(0, 1, 20_001)
        below = part.below(ends)[0]
        for at in (0.5, 7.0, 40.0):
            middle = 0.5 * (ends[1:] + ends[:-1])
            summed = (np.diff(below) * np.exp(1j * at * middle)).sum()  # off by (at h)^2 / 24, h = 1 / 20 000
            room = 2e-7 if epsilon < 10 else at / 20_000  # a window within one cell moves by half of it
            assert abs(part.transform(np.array([at]))[0, 0] - summed) < room


def test_a_threshold_on_an_atom_is_on_both_sides():
    """0.1 + 0.2 in doubles is above 0.3: which side the atom is on is not known, so that both bounds are said."""
    weights, batch = (
        np.array([0.1, 0.2, 0.7, 0.4]),
        [MECHANISMS["duchi"](np.array([1.0])).law(v) for v in (0.1, 0.5, 0.6, 0.9)],
    )
    for t in (0.3, 0.1 + 0.2):
        found = at_most(batch, weights, t, 0.0, WIDTH)
        for beside, side in ((t - 1e-9, found.lower), (t + 1e-9, found.upper)):
            truth = of_uniforms([law[0] for law in batch], weights.tolist(), beside)
            assert side.item() == pytest.approx(float(truth), abs=1e-12)
        assert found.lower < found.upper - 0.01


@pytest.mark.parametrize("kind", ["plain", "standard", "minmax", "pca", "single", "ridge"])
def test_computed_scores_are_within_their_rounding(kind):
    """Scores of released records against fractions; single: coefficients that were fitted in single precision."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(200, 12)) * 10 ** rng.uniform(-2, 2, 12) + rng.normal(size=12) * 30
    table = table.astype(np.float32) if kind == "single" else table
    y = (table @ rng.normal(size=12) > np.median(table @ rng.normal(size=12))).astype(int)
    before = {"standard": [StandardScaler()], "minmax": [MinMaxScaler()], "pca": [StandardScaler(), PCA(8)]}
    estimator = RidgeClassifier() if kind == "ridge" else LogisticRegression(max_iter=50)
    model = make_pipeline(*before.get(kind, []), estimator).fit(table, y)
    at = [1, 4, 7]
    domain = {j: (float(table[:, j].min()), float(table[:, j].max())) for j in at}
    asked = ew.Problem.of(model, table[:20], sensitive=at, mechanisms="pm", epsilons=[1.0], domain=domain, y=None)
    read, worst = linear_for(asked), 0.0
    assert not isinstance(read, str)
    for record in range(20):
        unit = rng.random((40, len(at)))
        values = {j: np.asarray(asked.features[i].from_unit(unit[:, i])) for i, j in enumerate(at)}
        scores = model.decision_function(asked.records.take(np.full(40, record), values))
        exact = [[Fraction(v) for v in row] for row in unit.tolist()]
        weights, constant = [Fraction(w) for w in read.weights[0].tolist()], Fraction(float(read.constants[record, 0]))
        off = [
            abs(Fraction(float(score)) - constant - sum(w * v for w, v in zip(weights, row, strict=True)))
            for score, row in zip(scores, exact, strict=True)
        ]
        assert max(off) <= read.rounding(record)
        worst = max(worst, float(max(off)) / read.rounding(record))
    assert worst > 1e-4  # the count is no more than some thousand times what occurs
    assert read.rounding(0) < read.slack(0) / 10
