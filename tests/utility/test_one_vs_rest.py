"""One class against the rest by linear models, and a plateau at 1/2: exact, against crossings in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sixty import EXACT, mass
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.mechanisms import MECHANISMS

KINDS = {
    "logistic": LogisticRegression(),
    "svm": LinearSVC(fit_intercept=False),
    "hinge": SGDClassifier(random_state=0),
    "log loss": SGDClassifier(loss="log_loss", random_state=0),
    "perceptron": Perceptron(random_state=0),
    "ridge": RidgeClassifier(),
}
EPSILONS = [0.5, 2.0, 8.0]


def table(classes, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    records = rng.random((150, columns))
    scores = (records - 0.5) @ rng.normal(size=(columns, classes)) + rng.normal(scale=0.1, size=(150, classes))
    return records, np.array(list("edcba"))[scores.argmax(axis=1)]


def chances(model, record, law):
    """Return the probability of each class with the first feature perturbed, from the doubles that the model holds."""
    lines = []
    for member in model.estimators_:
        weights, constant = np.atleast_2d(member.coef_)[0], float(np.ravel(member.intercept_)[0])
        rest = sum(
            (Fraction(float(w)) * Fraction(float(v)) for w, v in zip(weights[1:], record[1:], strict=True)), Fraction(0)
        )
        lines.append((Fraction(float(weights[0])), rest + Fraction(constant)))
    if len(lines) == 1:
        lines.insert(0, (Fraction(0), Fraction(0)))
    crossings = {(b - d) / (c - a) for k, (a, b) in enumerate(lines) for c, d in lines[:k] if a != c}
    inside = sorted(point for point in crossings if 0 < point < 1)
    edges = [Fraction(0), *inside, Fraction(1)]
    found = dict.fromkeys(model.classes_, 0)
    for low, high in pairwise(edges):
        middle = (low + high) / 2
        best = max(range(len(lines)), key=lambda k: lines[k][0] * middle + lines[k][1])
        found[model.classes_[best]] += mass(law, *(mpf(edge) for edge in (low, high)))
    return found


def mpf(value):
    return EXACT(Fraction(value).numerator) / Fraction(value).denominator


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_the_truth_in_sixty_digits(kind, classes):
    records, names = table(classes)
    model = OneVsRestClassifier(KINDS[kind]).fit(records, names)
    asked = {"sensitive": [0], "domain": {0: (0, 1)}, "mechanisms": ["pm", "laplace_clipped"], "epsilons": EPSILONS}
    found = ew.stability(model, records[:6], rng=0, **asked)
    assert found.confidence == 1
    assert (found.upper - found.lower).max() < 1e-9
    for m, name in enumerate(["pm", "laplace_clipped"]):
        for e, epsilon in enumerate(EPSILONS):
            for r, record in enumerate(records[:6]):
                law = MECHANISMS[name](epsilon).law(record[0])
                truth = chances(model, record, law)[model.predict(record[np.newaxis])[0]]
                assert found.lower[m, e, r] <= truth <= found.upper[m, e, r]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_those_of_the_model(kind, behind):
    """Two features by randomised response: every cell is asked; scalers stand before the whole or its members."""
    records, names = table(4)
    member = make_pipeline(MinMaxScaler(), KINDS[kind]) if behind else KINDS[kind]
    model = make_pipeline(StandardScaler(), OneVsRestClassifier(member)).fit(records, names)
    asked = {"sensitive": [0, 2], "domain": {0: (0, 1), 2: (0, 1)}, "per": "feature", "epsilons": EPSILONS}
    found = ew.stability(model, records[:4], mechanisms="krr:k=9", rng=0, **asked)
    grid = np.arange(9) / 8
    for r, record in enumerate(records[:4]):
        cells = np.tile(record, (81, 1))
        cells[:, 0], cells[:, 2] = np.repeat(grid, 9), np.tile(grid, 9)
        stays = (model.predict(cells) == model.predict(record[np.newaxis])).reshape(9, 9)
        for e, epsilon in enumerate(EPSILONS):
            one, other = (MECHANISMS["krr"](epsilon, k=9).law(record[f]).pmf(grid) for f in (0, 2))
            assert found.lower[0, e, r] - 1e-14 <= one @ stays @ other <= found.upper[0, e, r] + 1e-14
    for mechanism in ("pm", "gaussian_clipped"):
        found = ew.stability(
            model, records[:4], mechanisms=mechanism, rng=0, tolerance=1e-6, **{**asked, "epsilons": [2.0]}
        )
        assert found.confidence == 1
        assert (found.upper - found.lower).max() < 2**-8  # the tolerance asked, and what pairs of classes share


def alike():
    records, names = table(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(records, names)
    first, second, _ = model.estimators_
    second.coef_, second.intercept_ = first.coef_.copy(), first.intercept_.copy()
    return model


def sparse():
    records, names = table(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(records, names)
    for member in model.estimators_:
        member.sparsify()
    return model


def single():
    records, names = table(3)
    return OneVsRestClassifier(SGDClassifier(random_state=0)).fit(records.astype(np.float32), names)


def flat():
    records, names = table(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(records, names)
    model.estimators_[1].coef_ *= 0
    return model


def mixed():
    records, names = table(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(records, names)
    model.estimators_[1] = DecisionTreeClassifier(max_depth=2).fit(records, names == "d")
    return model


@pytest.mark.parametrize("make", [alike, sparse, single, flat, mixed])
def test_odd_members_are_never_read_wrongly(make):
    model = make()
    records, _ = table(3)
    asked = {"sensitive": [0], "domain": {0: (0, 1)}, "mechanisms": "krr:k=101", "epsilons": EPSILONS}
    found = ew.stability(model, records[:6], rng=0, **asked)
    tight = ew.stability(model, records[:6], rng=0, **{**asked, "mechanisms": "pm"})
    grid = np.arange(101) / 100
    for r, record in enumerate(records[:6]):
        cells = np.tile(record, (101, 1))
        cells[:, 0] = grid
        stays = model.predict(cells) == model.predict(record[np.newaxis])
        for e, epsilon in enumerate(EPSILONS):
            truth = MECHANISMS["krr"](epsilon, k=101).law(record[0]).pmf(grid) @ stays
            assert found.lower[0, e, r] - 1e-14 <= truth <= found.upper[0, e, r] + 1e-14
            near = MECHANISMS["pm"](epsilon).law(record[0])
            pieces = near.mass(grid[:-1], grid[1:])
            surely = pieces @ (stays[1:] & stays[:-1])  # up to what changes twice between two points
            perhaps = 1 - pieces @ (~stays[1:] & ~stays[:-1])
            assert surely - 1e-9 <= tight.upper[0, e, r]
            assert tight.lower[0, e, r] <= perhaps + 1e-9


def test_several_labels_at_once_are_refused():
    records, _ = table(3)
    several = OneVsRestClassifier(LogisticRegression()).fit(records, (records > 0.5).astype(int))
    with pytest.raises(ValueError, match="label"):
        ew.stability(several, records[:2], sensitive=[0], domain={0: (0, 1)}, mechanisms="pm", epsilons=[1.0], rng=0)


# --- a plateau at 1/2 ---


def plateaued(first, last):
    """A calibrator that answers 1/2 exactly between two scores: as many of either label there."""
    records, names = table(2)
    model = CalibratedClassifierCV(LogisticRegression(), method="isotonic", ensemble=False, cv=2).fit(records, names)
    scores = np.linspace(-3, 3, 61)
    label = np.where(scores < first, 0, np.where(scores > last, 1, np.arange(61) % 2 == 0))
    model.calibrated_classifiers_[0].calibrators[0].fit(scores, label)
    return model


@pytest.mark.parametrize("ends", [(-0.95, 0.95), (0.35, 2.5), (-3.5, 0.45)])
def test_a_plateau_at_a_half_is_of_the_first_class(ends):
    model = plateaued(*ends)
    calibrator = model.calibrated_classifiers_[0].calibrators[0]
    assert (np.abs(calibrator.predict(np.linspace(-3, 3, 61)) - 0.5) < 1e-12).sum() > 3
    records, _ = table(2)
    asked = {"sensitive": [0], "domain": {0: (0, 1)}, "mechanisms": ["pm"], "epsilons": EPSILONS}
    found = ew.stability(model, records[:8], rng=0, **asked)
    assert found.confidence == 1
    assert (found.upper - found.lower).max() < 1e-6
    for r, record in enumerate(records[:8]):
        line = np.tile(record, (4_001, 1))
        line[:, 0] = grid = np.linspace(0, 1, 4_001)
        stays = model.predict(line) == model.predict(record[np.newaxis])
        for e, epsilon in enumerate(EPSILONS):
            law = MECHANISMS["pm"](epsilon).law(record[0])
            change = np.flatnonzero(stays[1:] != stays[:-1])
            parts = np.split(grid, change + 1)
            low = sum(float(law.mass(part[0], part[-1])) for part in parts if stays[np.searchsorted(grid, part[0])])
            room = sum(float(law.mass(grid[k], grid[k + 1])) for k in change)
            assert low - 1e-9 <= found.upper[0, e, r]
            assert found.lower[0, e, r] <= low + room + 1e-9


@pytest.mark.parametrize("known", [0.25, 0.5, 0.75])
def test_calibration_that_knows_one_label_keeps_it(known):
    """One share of either label at every score: no more than a half is the first class, and more the second."""
    model = plateaued(0, 0)
    label = np.random.default_rng(0).permutation(np.arange(60) < 60 * known)
    model.calibrated_classifiers_[0].calibrators[0].fit(np.zeros(60), label)
    records, _ = table(2)
    assert set(model.predict(records)) == {model.classes_[int(known > 0.5)]}
    found = ew.stability(model, records[:4], sensitive=[0], domain={0: (0, 1)}, mechanisms="pm", epsilons=EPSILONS)
    assert (found.lower == 1).all()
    assert found.confidence == 1


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_notes_name_what_stands_in_the_way_of_linear_models(method):
    records, names = table(2)
    several = CalibratedClassifierCV(LogisticRegression(), method=method, ensemble=True, cv=2).fit(records, names)
    settings = {"sensitive": [0], "domain": {0: (0, 1)}, "mechanisms": "pm", "epsilons": [1.0], "tolerance": 0.2}
    found = ew.stability(several, records[:1], rng=0, **settings)
    assert found.method.item(0) == "sampled"
    assert any("applies: the CalibratedClassifierCV averages several models" in note for note in found.notes)
    assert not any("tree" in note for note in found.notes)
