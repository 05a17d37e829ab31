"""Safe boxes: right in natural units, best where that is promised, certified where it is not exact."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.mechanisms.law import MASS_ERROR
from epsworth.utility.boxes import stays_at_least, unit_sides

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}


def test_a_box_of_a_tree_is_certain_and_in_natural_units():
    model = DecisionTreeClassifier(max_depth=1).fit([[20.0], [60.0]], [0, 1])  # splits at 40
    box = ew.safe_box(model, [79.0], sensitive=0, domain={0: (0, 100)})
    assert (box.lower[0], box.upper[0]) == (pytest.approx(40.0), 100.0)
    assert box.confidence == 1
    assert box.flips_at_most == 0
    assert box.best
    assert str(box) == "The label stays 1 while x0 lies between 40.0001 and 100."  # at 40 itself it is 0


def test_a_box_of_whole_numbers_is_that_of_their_range():
    X = np.random.default_rng(0).integers(0, 100, (200, 2))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X @ [1, 2] > 150)
    whole = {0: {"lower": 0, "upper": 100, "integer": True}, 1: (0, 100)}
    box = ew.safe_box(model, X[0], sensitive=[0, 1], domain=whole)
    assert box == ew.safe_box(model, X[0], sensitive=[0, 1], domain={0: (0, 100), 1: (0, 100)})
    inside = [np.arange(np.ceil(low), high + 1e-9) for low, high in zip(box.lower, box.upper, strict=True)]
    assert box.confidence == 1
    assert (model.predict(np.array(list(itertools.product(*inside)))) == box.label).all()


SCALES = {"negative": (-50.0, -3.0), "narrow": (1e6, 1e6 + 1), "tiny": (-1e-3, 1e-3), "wide": (-7.0, 12345.678)}
MODELS = {
    "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
    "scaled tree": make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.cases(1)
def test_ends_and_printed_ends_of_a_certain_box_keep_the_label(name, scale, dtype):
    """In the precision of the table and in double precision, at the ends, one step inside them, and as printed."""
    rng, (low, high) = np.random.default_rng(0), SCALES[scale]
    unit = rng.uniform(0.01, 0.99, (120, 3))
    table = (low + (high - low) * unit).astype(dtype)
    model = MODELS[name].fit(table, np.digitize(unit @ [1.0, -0.7, 0.2], [0.1, 0.4]))
    for record in table[:2]:
        box = ew.safe_box(model, record, sensitive=[0, 1], domain={0: (low, high), 1: (low, high)}, epsilon=4.0)
        if (name, scale, dtype) == ("linear", "narrow", np.float32):
            assert box.confidence < 1  # numbers are sixteenths there: rounding may take the whole margin
            continue
        assert box.confidence == 1
        assert (np.array(box.lower) <= record[:2]).all()
        assert (record[:2] <= np.array(box.upper)).all()
        for ends in (zip(box.lower, box.upper, strict=True), printed_ends(box)):
            spots = [np.unique([a, b, np.nextafter(a, b), np.nextafter(b, a), (a + b) / 2]) for a, b in ends]
            for kind in (dtype, np.float64):
                points = np.array(list(itertools.product(*spots, [record[2]]))).astype(kind)
                assert (model.predict(points) == box.label).all()


def printed_ends(box):
    """The ends as a reader would type them; a feature that stays anywhere has those of the box."""
    found = re.findall(r"(x\d) (?:lies between (\S+) and (\S+?)|is any value)(?: and |\.$|, )", str(box))
    ends = zip(found, box.lower, box.upper, strict=True)
    return [(float(a or low), float(b or high)) for (_, a, b), low, high in ends]


def test_a_drawn_box_is_certified_as_it_is_printed_and_written():
    box = ew.safe_box(lambda Z: Z[:, 0] ** 2 + Z[:, 1] > 0.4, [0.7123456789, 0.6], sensitive=[0, 1], rng=0)
    assert printed_ends(box) == list(zip(box.lower, box.upper, strict=True))
    document = json.loads(json.dumps(box.to_dict()))
    assert (document["lower"], document["upper"]) == (list(box.lower), list(box.upper))
    assert document["label"] is True
    assert float(re.search(r"at most (\S+) of the outputs", str(box))[1]) >= box.flips_at_most


def test_all_attempts_at_a_box_together_miss_as_often_as_was_asked_for(one_sided_misses):
    """Levels of the one-sided bounds sum to at most the miss."""
    box = ew.safe_box(lambda Z: np.floor(Z[:, 0] * 1e4) % 9 > 0, [0.50005], sensitive=0, confidence=0.9, rng=0)
    assert len(one_sided_misses) > 1
    assert sum(one_sided_misses) <= box.spent <= 0.1
    assert one_sided_misses[0] == pytest.approx(0.05)


def test_a_box_whose_fresh_draws_flip_is_cut_again(monkeypatch):
    """Whatever was proposed: here the whole range, a third of which flips."""
    monkeypatch.setattr("epsworth.utility.boxes._proposed", lambda asked, laws, rng: np.array([[0.0, 1.0]]))
    box = ew.safe_box(lambda Z: Z[:, 0] < 0.7, [0.4], sensitive=0, epsilon=2.0, rng=0)
    assert box.flips_at_most <= 0.01
    assert 0.65 < box.upper[0] < 0.71
    assert box.lower == (0.0,)


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_a_box_guarantees_is_rounded_down(count):
    """By exact fractions; masses are right up to the rounding of a contraction."""
    rng = np.random.default_rng(0)
    for mass, flips in zip(rng.random(count), 10 ** rng.uniform(-17, 0, count), strict=True):
        exact = (Fraction(mass) - 3 * Fraction(MASS_ERROR)) * (1 - Fraction(flips))
        assert 0 <= stays_at_least(mass, flips, 3) <= max(exact, 0)


@pytest.mark.parametrize("scale", SCALES)
def test_sides_on_the_unit_scale_lie_inside_the_natural_ends(scale):
    """By exact fractions, and as values come back from the unit scale: masses and draws are of the printed box."""
    rng, (lower, upper) = np.random.default_rng(0), SCALES[scale]
    feature = ew.Feature("x", lower, upper)
    ends = np.sort(lower + (upper - lower) * rng.uniform(0.001, 0.999, (300, 2)), axis=1)
    for low, high in ends.tolist():
        ((first, last),) = unit_sides([feature], np.array([[low, high]])).tolist()
        natural = [Fraction(lower) + Fraction(end) * (Fraction(upper) - Fraction(lower)) for end in (first, last)]
        assert low <= min(natural[0], float(feature.from_unit(first)))
        assert high >= max(natural[1], float(feature.from_unit(last)))


@pytest.mark.parametrize("record", [0, 60, 77, 120])
@pytest.mark.parametrize("sensitive", [[2], [0, 2], [2, 3]])
def test_boxes_of_a_forest_hold_and_are_the_best(record, sensitive):
    """No probe inside flips; and no rectangle between any four cell edges has more mass (brute force)."""
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(IRIS, SPECIES)
    box = ew.safe_box(model, IRIS[record], sensitive=sensitive, domain=RANGES, epsilon=2.0 * len(sensitive))
    rng = np.random.default_rng(0)
    probes = np.repeat(IRIS[record : record + 1], 20_000, axis=0)
    for j, column in enumerate(sensitive):
        probes[:, column] = rng.uniform(box.lower[j], box.upper[j], 20_000)
    assert (model.predict(probes) == box.label).all()
    assert box.guaranteed <= ew.stability(
        model, IRIS[record : record + 1], sensitive=sensitive, domain=RANGES, mechanisms="pm",
        per="feature", epsilons=[2.0]
    ).upper.item()  # fmt: skip
    assert box.mass >= brute_force(model, record, sensitive) - 1e-6  # thresholds move by float32 rounding


def brute_force(model, record, sensitive):
    """The largest mass of an agreeing rectangle around the record, over all threshold pairs."""
    sides = []
    for column in sensitive:
        low, high = RANGES[column]
        cuts = np.unique(np.concatenate([t.tree_.threshold[t.tree_.feature == column] for t in model.estimators_]))
        edges = np.concatenate([[low], cuts[(cuts > low) & (cuts < high)], [high]])
        x = IRIS[record, column]
        sides.append([(a, b) for a, b in itertools.combinations(edges, 2) if a < x <= b or (a == low == x)])
    best = 0.0
    for box in itertools.product(*sides):
        grids = [middles_between(model, c, a, b) for c, (a, b) in zip(sensitive, box, strict=True)]
        points = np.array(list(itertools.product(*grids)))
        probes = np.repeat(IRIS[record : record + 1], len(points), axis=0)
        probes[:, sensitive] = points
        if (model.predict(probes) == model.predict(IRIS[record : record + 1])).all():
            mass = 1.0
            for column, (a, b) in zip(sensitive, box, strict=True):
                low, high = RANGES[column]
                law = ew.MECHANISMS["pm"](2.0).law((IRIS[record, column] - low) / (high - low))
                mass *= float(law.mass((a - low) / (high - low), (b - low) / (high - low)))
            best = max(best, mass)
    return best


def middles_between(model, column, a, b):
    cuts = np.unique(np.concatenate([t.tree_.threshold[t.tree_.feature == column] for t in model.estimators_]))
    edges = np.concatenate([[a], cuts[(cuts > a) & (cuts < b)], [b]])
    return (edges[1:] + edges[:-1]) / 2


def test_a_sampled_box_is_certified_by_fresh_draws():
    """A diagonal boundary: the box is found by cutting; its claim holds for the exact share of flips."""

    def diagonal(Z):
        return Z[:, 0] + Z[:, 1] > 0.7

    box = ew.safe_box(diagonal, [0.7, 0.6], sensitive=[0, 1], epsilon=8.0, confidence=1 - 1e-6, rng=0)
    assert not box.best
    assert box.confidence == 1 - 1e-6
    laws = [ew.MECHANISMS["pm"](4.0).law(v) for v in (0.7, 0.6)]
    draws = np.column_stack([law.sample(400_000, np.random.default_rng(i)) for i, law in enumerate(laws)])
    inside = ((draws >= box.lower) & (draws <= box.upper)).all(axis=1)
    assert (~diagonal(draws[inside])).mean() <= box.flips_at_most
    assert inside.mean() == pytest.approx(box.mass, abs=0.005)
    assert box.guaranteed <= diagonal(draws).mean() + 0.005
    assert box.guaranteed > 0.6
    assert "% confidence" in str(box)


LINEAR = ["pm", "sw", "laplace_clipped"]


def linear(rng, classes, features):
    """A logistic regression with given weights, and a record with some margin."""
    model = LogisticRegression()
    rows = 1 if classes == 2 else classes
    model.coef_, model.n_features_in_ = rng.normal(size=(rows, features)), features
    model.intercept_ = 0.2 * rng.normal(size=rows) - model.coef_.sum(axis=1) / 2
    model.classes_ = np.arange(classes)
    return model, rng.random(features)


def corners_agree(model, box):
    corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    return (model.predict(corners) == box.label).all()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("mechanism", LINEAR)
@pytest.mark.cases(1)
def test_boxes_of_linear_models_hold_and_none_is_larger(classes, features, mechanism):
    """Every corner keeps the label; where the box is called the best, no lattice box that does has more mass."""
    rng, best = np.random.default_rng(features), 0
    points = np.linspace(0, 1, {1: 41, 2: 21, 3: 9}[features])
    for _ in range(8):
        model, x = linear(rng, classes, features)
        box = ew.safe_box(model, x, sensitive=list(range(features)), mechanism=mechanism, epsilon=2.0 * features)
        assert (box.confidence, box.flips_at_most) == (1, 0)
        assert corners_agree(model, box)
        assert ((np.array(box.lower) <= x + 1e-15) & (x <= np.array(box.upper) + 1e-15)).all()
        best += box.best
        if box.best:
            assert lattice_boxes(model, x, mechanism, points) <= 1.001 * box.mass
    assert best == 8 if classes == 2 else best > 0


def lattice_boxes(model, x, mechanism, points):
    """The largest mass of a box around x between lattice points whose corners all keep the label."""
    pairs = [[(a, b) for a in points for b in points if a <= v <= b] for v in x]
    laws = [ew.MECHANISMS[mechanism](2.0).law(v) for v in x]
    masses = [law.mass(*np.array(sides).T) for law, sides in zip(laws, pairs, strict=True)]
    mass = functools.reduce(np.multiply.outer, masses).ravel()
    at = np.stack(np.meshgrid(*[np.arange(len(p)) for p in pairs], indexing="ij"), -1).reshape(-1, len(x))
    good = np.ones(len(mass), dtype=bool)
    for corner in itertools.product((0, 1), repeat=len(x)):
        spots = np.column_stack([np.array(p)[at[:, j], corner[j]] for j, p in enumerate(pairs)])
        good &= model.predict(spots) == model.predict([x])
    return mass[good].max(initial=0)


@pytest.mark.parametrize("features", [2, 5])
@pytest.mark.cases(1)
def test_boxes_of_linear_models_are_not_worse_than_what_sampling_finds(features):
    """The sampled box of the same classifier as a black box, shrunk towards the record until its corners agree."""
    rng = np.random.default_rng(5)
    for seed in range(5):
        model, x = linear(rng, 2, features)
        settings = {"sensitive": list(range(features)), "epsilon": 2.0 * features}
        box, drawn = ew.safe_box(model, x, **settings), ew.safe_box(model.predict, x, rng=seed, **settings)
        assert box.best
        for shrunk in np.linspace(1, 0, 200):
            lower, upper = (tuple(x + shrunk * (np.array(end) - x)) for end in (drawn.lower, drawn.upper))
            if corners_agree(model, dataclasses.replace(drawn, lower=lower, upper=upper)):
                break
        laws = [ew.MECHANISMS["pm"](2.0).law(v) for v in x]
        certain = np.prod([law.mass(a, b) for law, a, b in zip(laws, lower, upper, strict=True)])
        assert certain <= 1.001 * box.mass


def test_a_linear_box_in_natural_units_behind_a_scaler():
    keep = SPECIES > 0
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(IRIS[keep], SPECIES[keep])
    box = ew.safe_box(model, IRIS[60], sensitive=[0, 1, 2, 3], domain=RANGES, epsilon=24.0)
    assert box.best
    assert corners_agree(model, box)
    assert box.guaranteed <= ew.stability(
        model, IRIS[60:61], sensitive=[0, 1, 2, 3], domain=RANGES, mechanisms="pm", per="feature", epsilons=[6.0]
    ).upper.item()  # fmt: skip
    assert str(box).startswith("The label stays 1 while x0 ")


def test_a_record_on_the_boundary_has_no_certain_box():
    """Its score is zero up to rounding: the sampled search says what it can."""
    model, _ = linear(np.random.default_rng(0), 2, 2)
    model.coef_, model.intercept_ = np.array([[1.0, -1.0]]), np.array([0.0])
    box = ew.safe_box(model, [0.3, 0.3], sensitive=[0, 1], rng=0)
    assert box.confidence < 1
    assert not box.best


@pytest.mark.parametrize("proposed", ["cut", "whole"])
@pytest.mark.slow
def test_promises_of_sampled_boxes_are_kept(proposed, monkeypatch):
    """60 boxes at 90 % confidence on a classifier of known flips, whatever was proposed; false-alarm rate 1e-6."""

    def stripes(Z):
        wide = (Z[:, 0] > 0.9) & (np.floor(Z[:, 0] * 1_000) % 7 == 0)
        return ~wide if proposed == "cut" else np.floor(Z[:, 0] * 20_000) % 200 > 0

    if proposed == "whole":  # half a percent of which flips: few enough for the first attempt
        monkeypatch.setattr("epsworth.utility.boxes._proposed", lambda *_: np.array([[0.0, 1.0]]))
    broken = 0
    grid = (np.arange(200_000) + 0.5) / 200_000
    density = ew.MECHANISMS["pm"](2.0).law(0.502).pdf(grid)
    for seed in range(60):
        box = ew.safe_box(stripes, [0.502], sensitive=0, epsilon=2.0, confidence=0.9, rng=seed)
        inside = (grid >= box.lower[0]) & (grid <= box.upper[0])
        flips = (density * inside * ~stripes(grid[:, np.newaxis])).sum() / (density * inside).sum()
        broken += flips > box.flips_at_most + 1e-5
    assert broken <= binom.isf(1e-6, 60, 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [[0.1], [0.2]]}, "x must be one record, got 2"),
        ({"mechanism": "krr"}, "krr has no continuous law on the range"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
        ({"domain": {0: ["a", "b"]}, "x": np.array([["a"]])}, "a box needs ranges"),
    ],
)
def test_bad_questions_are_refused(change, message):
    settings = {"x": [0.3], "sensitive": 0} | change
    with pytest.raises(ValueError, match=message):
        ew.safe_box(lambda Z: np.zeros(len(Z)), settings.pop("x"), **settings)


@pytest.mark.parametrize("package", ["sklearn", "xgboost", "lightgbm"])
def test_a_box_of_a_classifier_of_one_label_is_the_whole_range_for_certain(package):
    library = pytest.importorskip(package, reason=f"{package} is missing")
    table = np.random.default_rng(0).uniform(size=(30, 5))
    if package == "sklearn":
        model = DummyClassifier().fit(table, [0, 1, 1] * 10)
    else:
        kind = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[package]
        quiet = {"verbose": -1} if package == "lightgbm" else {}
        model = getattr(library, kind)(n_estimators=2, n_jobs=1, **quiet).fit(table, np.zeros(30, dtype=int))
    found = ew.safe_box(model, table[0], sensitive=[0, 1, 2], rng=0)
    assert (found.confidence, found.best, found.flips_at_most) == (1.0, True, 0.0)
    assert found.whole == (True, True, True)


def test_a_function_beside_a_constant_model_is_not_taken_for_it():
    table = np.random.default_rng(0).uniform(size=(30, 2))
    model = DummyClassifier().fit(table, [0, 1, 1] * 10)
    given = ew.Classifier("beside", lambda Z: (Z[:, 0] > 0.5).astype(int), classes=(0, 1), model=model)
    assert ew.safe_box(given, table[0], sensitive=[0], rng=0).confidence < 1
    curves = ew.stability(given, [[0.4, 0.0]], sensitive=[0], mechanisms="pm", epsilons=[1.0], rng=0)
    assert curves.upper.item() < 1
