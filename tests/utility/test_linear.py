"""Linear models: closed forms and brackets against each other, against sampling; traps of atoms and rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sums_in_digits import closed_form

import epsworth as ew
from epsworth.mechanisms import MECHANISMS
from epsworth.utility.engines import linear
from epsworth.utility.engines.linear import linear_for
from epsworth.utility.engines.sums import bracket, laplace_sum, transform_error

IRIS, SPECIES = load_iris(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = MinMaxScaler().fit_transform(CANCER)[:, :8]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}


LINEAR = {
    "logistic": LogisticRegression(max_iter=5000, C=10),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "svc": LinearSVC(),
    "lda": LinearDiscriminantAnalysis(),
    "ridge": RidgeClassifier(),
    "sgd": SGDClassifier(random_state=0),
    "perceptron": Perceptron(random_state=0),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.cases(1)
def test_linear_brackets_meet_the_sampled_truth(name):
    model = LINEAR[name].fit(CANCER, BENIGN)
    families = ["pm", "laplace_clipped", "krr:k=5", "gaussian:delta=0.1", "exponential_tight:k=7"]
    settings = {
        "sensitive": [0, 1, 4, 7],
        "mechanisms": families,
        "per": "feature",
        "epsilons": [1, 5],
        "tolerance": 0.02,
    }
    wavering = np.argsort(np.abs(model.decision_function(CANCER)))[[0, 40, 200]]
    y = BENIGN[wavering].copy()
    y[1] = 1 - y[1]
    lattice = ew.stability(model, CANCER[wavering], method="lattice", y=y, **settings)
    assert (lattice.method == "lattice").all()
    assert lattice.confidence == 1
    assert (lattice.upper - lattice.lower).max() <= 0.02
    drawn = ew.stability(model, CANCER[wavering], method="sampled", y=y, rng=0, **(settings | {"confidence": 1 - 1e-6}))
    for a, b in ((lattice.stability, drawn.stability), (lattice.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()


def line(*weights, intercept=0.0):
    """A logistic regression with given weights."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = np.array([weights]), np.array([intercept]), np.array([0, 1])
    model.n_features_in_ = len(weights)
    return model


@pytest.mark.slow
def test_every_mechanism_gets_its_own_engine():
    """Unclipped Laplace has a closed form unless two weights are alike; then polygons or (three features) sampling."""
    settings = {
        "sensitive": [0, 1],
        "mechanisms": ["laplace", "pm", "krr:k=11"],
        "per": "feature",
        "epsilons": [1.0],
        "rng": 0,
    }
    curves = ew.stability(line(1.0, -0.6), [[0.6, 0.3]], **settings)
    assert curves.method[:, 0].tolist() == ["lattice", "lattice", "grid"]
    assert curves.confidence == 1
    mixed = ew.stability(line(1.0, -1.0), [[0.6, 0.3]], **settings)
    assert mixed.method[:, 0].tolist() == ["polygons", "lattice", "grid"]
    assert mixed.confidence == 1
    settings["sensitive"] = [0, 1, 2]
    mixed = ew.stability(line(1.0, -1.0, 0.2), [[0.6, 0.3, 0.5]], **settings)
    assert mixed.method[:, 0].tolist() == ["sampled", "lattice", "grid"]
    assert mixed.confidence == 0.999
    assert len(mixed.notes) == 3
    with pytest.raises(ValueError, match="its outputs leave the declared range"):
        ew.stability(line(1.0, -1.0, 0.2), [[0.6, 0.3, 0.5]], method="lattice", **settings)


@pytest.mark.parametrize("weights", [[0.7], [1.0, -0.6], [0.3, 1.0, -0.5, 2.0]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_sums_of_unclipped_laplace_noise(weights, epsilon):
    """Against 4e5 draws; false-alarm rate 1e-6 per case."""
    x = np.array([0.2, 0.9, 0.5, 0.4])[: len(weights)]
    laws = [MECHANISMS["laplace"](np.array([epsilon])).law(v) for v in x]
    rng, n = np.random.default_rng(3), 400_000
    draws = sum(w * law.sample(n, rng)[:, 0] for w, law in zip(weights, laws, strict=True))
    for threshold in (-1.0, 0.0, 0.4):
        low, high = laplace_sum(laws, np.array(weights), threshold)
        assert high - low < 1e-9
        share = (draws <= threshold).mean()
        assert abs(share - low.item()) < 4.9 * np.sqrt(share * (1 - share) / n) + 1e-5


@pytest.mark.parametrize("weights", [[0.7], [0.7, -0.4], [-1.0, 0.3, 0.5], [1.0, 0.0, -0.2], [0.0, 0.0]])
@pytest.mark.parametrize("name", ["pm", "sw"])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 8.0])
@pytest.mark.cases(1)
def test_closed_form_and_lattice_agree(weights, name, epsilon):
    """Property test 6: the closed form lies inside the lattice bracket; zero and negative weights included."""
    weights, x = np.array(weights), np.array([0.3, 0.8, 0.05])[: len(weights)]
    laws = [MECHANISMS[name](np.array([epsilon])).law(v) for v in x]
    for threshold in (*np.linspace(-1.2, 1.3, 11), float(weights @ x)):
        low, high = bracket(laws, weights, threshold, 2**14)
        assert (low <= high).all()
        if weights.any():
            exact = closed_form(laws, weights, threshold)
            assert (exact.lower <= high).all()
            assert (low <= exact.upper).all()
            assert (exact.upper - exact.lower).max() < 1e-3


def test_the_lattice_does_not_wrap_around():
    """Five features, clipped Laplace at epsilon .1: a transform of length N would wrap and claim .0493 (truth .025)."""
    weights = np.array([0.8, 0.6, 0.7, 0.8, 0.3])
    laws = [MECHANISMS["laplace_clipped"](np.array([0.1])).law(0.5)] * 5
    low, high = bracket(laws, weights, 0.0, 4096)
    atom = float(MECHANISMS["laplace_clipped"](0.1).law(0.5).pmf(0.0)) ** 5
    assert low <= atom <= high + 1e-12
    full_low, full_high = bracket(laws, weights, float(weights.sum()), 4096)
    assert full_low <= 1
    assert full_high == pytest.approx(1, abs=1e-9)


def test_an_atom_exactly_on_the_margin_stays_inside_the_bracket():
    """S = Y with an atom at 0 and the threshold at 0: whether `<=` or `<`, the bracket holds both."""
    law = MECHANISMS["laplace_clipped"](np.array([1.0])).law(0.5)
    low, high = bracket([law], np.array([1.0]), 0.0, 2**12)
    assert low <= 0
    assert high >= float(MECHANISMS["laplace_clipped"](1.0).law(0.5).pmf(0.0))


@pytest.mark.parametrize("name", ["logistic", "lda", "scaled"])
@pytest.mark.cases(1)
def test_several_classes_are_bracketed_by_pairs(name):
    """Three classes, three features: the union bound holds the sampled truth; auto prefers sampling, which closes."""
    model = LINEAR[name].fit(IRIS, SPECIES)
    settings = {
        "sensitive": [0, 2, 3],
        "mechanisms": ["pm", "laplace_clipped"],
        "per": "feature",
        "epsilons": [1, 4],
        "domain": RANGES,
    }
    pairs = ew.stability(model, IRIS[[77, 120]], method="lattice", y=[2, 2], **settings)
    drawn = ew.stability(model, IRIS[[77, 120]], rng=0, confidence=1 - 1e-6, y=[2, 2], **settings)
    assert (drawn.method == "sampled").all()
    assert pairs.confidence == 1
    for a, b in ((pairs.stability, drawn.stability), (pairs.accuracy, drawn.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()


def test_public_terms_that_cancel_widen_the_bracket():
    """Scores of 1e9 that cancel are rounded by 1e-7: the bracket must not claim the closed form's 1e-12."""
    model = line(1.0, 1e9, -1e9)
    curves = ew.stability(model, [[0.5, 1.0, 1.0]], sensitive=0, mechanisms="pm", epsilons=[2.0], method="lattice")
    assert curves.upper.item() - curves.lower.item() > 1e-6
    law = MECHANISMS["pm"](2.0).law(0.5)
    assert curves.lower.item() <= float(law.mass(0, 1)) <= curves.upper.item() + 1e-9


@pytest.mark.parametrize("scaler", [None, StandardScaler(), MinMaxScaler()], ids=["plain", "standard", "minmax"])
@pytest.mark.parametrize("size", [1e9, 1e12, 1e15])
@pytest.mark.cases(1)
def test_public_values_of_one_record_say_nothing_about_another(scaler, size):
    """A public value of 1e15 in record 0 drowns its own score, but slopes are coefficients: record 1 stays exact."""
    table = np.array([[0.5, size, 0.2], [0.4, 1.0, 0.7]])
    model = line(1.0, 3.0, -0.8, intercept=-3.0)
    if scaler is not None:
        model = make_pipeline(scaler.fit([[0.1, 0, 0.3], [0.9, 2, 0.6], [0.2, 1, 0.1]]), model)
    settings = {
        "sensitive": [0, 2],
        "mechanisms": ["pm", "laplace_clipped"],
        "per": "feature",
        "epsilons": [2.0],
        "tolerance": 1e-3,
    }
    both, alone = ew.stability(model, table, **settings), ew.stability(model, table[1:], **settings)
    assert both.confidence == 1
    np.testing.assert_array_equal(both.lower[:, :, 1], alone.lower[:, :, 0])
    np.testing.assert_array_equal(both.upper[:, :, 1], alone.upper[:, :, 0])
    rng = np.random.default_rng(0)
    draws = np.column_stack([MECHANISMS["pm"](2.0).law(v).sample(100_000, rng) for v in (0.4, 0.7)])
    kept = model.predict(np.column_stack([draws[:, 0], np.ones(100_000), draws[:, 1]])) == alone.labels[0]
    assert alone.lower[0].item() - 0.008 <= kept.mean() <= alone.upper[0].item() + 0.008  # 5 standard errors


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_the_bracket_allows_for_the_rounding_of_its_transforms(parts):
    """Coins on {0, w}: between atoms the bracket closes to its own rounding, and holds the rational truth."""
    rng, wrong = np.random.default_rng(parts), 0.0
    for _ in range(12):
        law, weights = MECHANISMS["krr"](np.array([rng.uniform(0.2, 3)]), k=2).law(1.0), np.array([1.0] * parts)
        one = Fraction(float(law[..., np.newaxis].pmf(1.0).item()))
        truth = sum(math.comb(parts, j) * one**j * (1 - one) ** (parts - j) for j in range((parts + 1) // 2))
        low, high = bracket([law] * parts, weights, (parts + 1) // 2 - 0.5, 2**12)
        middle = (low.item() + high.item()) / 2
        assert Fraction(low.item()) < truth < Fraction(high.item())
        assert high - low < 1e-10
        wrong = max(wrong, abs(float(Fraction(middle) - truth)))
    assert wrong <= transform_error(parts, 2**12) / 10
    assert all(transform_error(k, 2**18) > 1e-13 for k in (1, 100))


@pytest.mark.slow
def test_a_tolerance_that_is_not_met_is_said():
    """No series closes for large grids, narrow windows; three classes by pairs neither; what is met is passed over."""
    rng = np.random.default_rng(0)
    model, x = line(*rng.normal(size=6)), rng.random((1, 6))
    settings = {
        "sensitive": list(range(6)),
        "mechanisms": ["krr:k=101", "sw"],
        "per": "feature",
        "epsilons": [1, 24],
        "method": "lattice",
    }
    found = ew.stability(model, x, tolerance=1e-7, **settings)
    widths = (found.upper - found.lower).max(axis=(1, 2))
    assert (widths > 1e-7).all()
    for name, width in zip(found.mechanisms, widths, strict=True):
        (note,) = [note for note in found.notes if note.startswith(f"{name}: the tolerance of 0.0000001 is not met")]
        assert float(note.rsplit(" ", 1)[1]) >= width
        assert "half-width of up to " in note
    assert not any("tolerance" in note for note in ew.stability(model, x, tolerance=0.01, **settings).notes)
    pairs = ew.stability(
        LINEAR["lda"].fit(IRIS, SPECIES), IRIS[[77]], method="lattice", sensitive=[0, 2, 3], domain=RANGES,
        mechanisms="pm", per="feature", epsilons=[1],
    )  # fmt: skip
    assert (pairs.upper - pairs.lower).max() > 0.01
    assert any("the tolerance of 0.01 is not met at epsilon 3" in note for note in pairs.notes)


def test_a_threshold_that_rounding_moved_across_an_atom_or_a_constant_is_on_both_sides():
    atom = MECHANISMS["laplace_clipped"](np.array([1.0])).law(0.5)
    moved = [(w, n) for w in (0.1, 0.3, 0.7) for n in range(20, 300) if math.floor(w / (w / n)) < n]
    assert moved  # the atom at w, in steps of w / n
    for weight, steps in moved[:9]:
        assert bracket([atom], np.array([weight]), weight, steps).upper.item() == 1
    for threshold in (-1e-12, 1e-12):
        low, high = bracket([atom], np.zeros(1), threshold, 64, slack=1e-9)
        assert (low.item(), high.item()) == (0, 1)


@pytest.mark.slow
def test_what_scores_are_rounded_by_grows_with_the_number_of_features():
    """A sum of d products errs by d units, and a difference of two scores by twice that."""
    width = 5_000
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = np.ones((1, width)), np.zeros(1), np.arange(2)
    model.n_features_in_ = width
    asked = ew.Problem.of(
        model, np.ones((1, width)), sensitive=0, mechanisms="pm", epsilons=[1.0], domain={0: (0, 1)}, y=None
    )
    assert linear_for(asked).slack(0) >= 2 * (width + 12) * 2.0**-53 * width


def test_chances_to_lose_to_several_rivals_add_up_outwards(monkeypatch):
    """Exact brackets of a thousandth for each of six hundred rivals: 1 - sum rounds, the bound goes below the sum's."""
    rng = np.random.default_rng(47)
    shares = iter(rng.uniform(0, 1e-3, 600).tolist())
    given: list[float] = []

    def one(*_args):
        given.append(next(shares))
        return given[-1], given[-1]

    monkeypatch.setattr(linear, "at_most", one)
    law = MECHANISMS["pm"](np.array([1.0])).law(0.5)
    found = linear.by_pairs([law], [linear.Comparison(np.array([1.0]), 0.0)] * 600, 0.0, 0.01)
    truth, most = 1 - sum(map(Fraction, given)), 1 - Fraction(max(given))
    assert Fraction(float(found.lower.item())) <= truth
    assert Fraction(float(found.upper.item())) >= most
    assert truth - Fraction(float(found.lower.item())) < Fraction(1, 10**12)


@pytest.mark.parametrize(("weight", "ends"), [(2e-323, (0, 1)), (1e-321, (0, 1)), (1e-150, (0, 1e-170))])
def test_products_that_lose_digits_are_not_read(weight, ends):
    """Relative bounds of rounding say nothing of denormal numbers: 0.77 was bounded by 0.6796."""
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[weight]]), np.array([-weight * 0.3371 * ends[1]])
    record = [[0.1 * ends[1]]]
    found = ew.stability(model, record, sensitive=0, mechanisms="pm", epsilons=[2.0], domain={0: ends}, rng=0)
    assert "lose digits" in " ".join(found.notes)
    drawn = ew.MECHANISMS["pm"](2.0).law(0.1).sample(200_000, np.random.default_rng(0)) * ends[1]
    share = float((model.predict(drawn[:, None]) == model.predict(record)).mean())  # off by .004 at most, 4 sd
    assert found.lower.item() - 0.004 <= share <= found.upper.item() + 0.004
