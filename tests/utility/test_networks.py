"""Networks: propagated bounds hold for the scores as computed; certificates meet the exact grid and the draws."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler

import epsworth as ew
from epsworth.classifiers.networks import DOUBLE, LOGISTIC, TANH, Affine, Network, Rectifier, network_of
from epsworth.classifiers.pipeline import preprocessing_before
from epsworth.classifiers.reading import ALONE
from epsworth.classifiers.structure import read_network
from epsworth.utility.engines.propagation import NetworkBoxes, PropagatedBounds, bounds_for
from epsworth.utility.labels import ASKED_AGAIN
from readings import said
from strategies import sparing

IRIS, SPECIES = load_iris(return_X_y=True)
CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER = MinMaxScaler().fit_transform(CANCER)[:, [20, 27, 7, 1, 24, 13]]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
CONTINUOUS = ["pm", "sw", "laplace_clipped", "bounded_laplace", "gaussian_clipped:delta=0.1"]
LINES = {"relu": Rectifier(), "leaky": Rectifier(0.2), "tanh": TANH, "logistic": LOGISTIC}


def perceptron(*hidden, **more):
    return MLPClassifier(hidden, solver="lbfgs", max_iter=60, random_state=0, **more)


NETWORKS = {
    "relu": perceptron(16, 16),
    "tanh": perceptron(12, 8, activation="tanh"),
    "logistic": perceptron(8, activation="logistic"),
    "identity": perceptron(5, activation="identity"),
    "no hidden layer": perceptron(),
    "scaled": make_pipeline(StandardScaler(), perceptron(16)),
    "scaled twice": make_pipeline(
        RobustScaler(), "passthrough", MinMaxScaler(), MaxAbsScaler(), perceptron(10, 10, 10)
    ),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def fitted(name, classes=3):
    keep = classes > SPECIES if classes == 2 else SPECIES >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return NETWORKS[name].fit(IRIS[keep], SPECIES[keep])


def problem(model, X, **more):
    settings = {"sensitive": [0, 2], "mechanisms": ["pm"], "epsilons": [2.0], "domain": RANGES, "y": None}
    return ew.Problem.of(model, X, **(settings | more))


def step_at(threshold, width=1):
    """Return a perceptron that answers 1 where the first feature exceeds a threshold."""
    X = np.zeros((4, width))
    X[:, 0] = [0, 0, 1, 1]
    model = perceptron(2).fit(X, [0, 0, 1, 1])
    model.coefs_ = [np.zeros((width, 2)), np.array([[1.0], [-1.0]])]
    model.coefs_[0][0] = [1, -1]
    model.intercepts_ = [np.array([-threshold, threshold]), np.zeros(1)]
    return model


def random_network(seed, activation, inputs=3, classes=3, depth=2, width=8, unit=DOUBLE):
    rng = np.random.default_rng(seed)
    sizes = [inputs, *[width] * depth, classes]
    layers = [Affine.of(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(sizes)]
    steps = [step for layer in layers[:-1] for step in (layer, activation)]
    return network_of([*steps, layers[-1]], np.arange(classes), unit)


@pytest.mark.parametrize("kind", LINES)
@given(ends=st.tuples(st.floats(-30, 30), st.floats(-30, 30)), share=st.floats(0, 1))
def test_lines_lie_below_and_above_the_activation(kind, ends, share):
    low, high = np.array([min(ends)]), np.array([max(ends)])
    lines, z = LINES[kind].lines(low, high), np.array([min(ends) + share * (max(ends) - min(ends))])
    value, room = LINES[kind](z), 1e-14 * (1 + np.abs(low) + np.abs(high))
    assert (lines.low_slope >= 0).all()
    assert (lines.high_slope >= 0).all()
    assert lines.low_slope * z + lines.low_shift <= value + room
    assert lines.high_slope * z + lines.high_shift >= value - room


@pytest.mark.parametrize("kind", LINES)
@given(
    seed=st.integers(0, 50),
    depth=st.integers(1, 3),
    centre=st.floats(-2, 2),
    half=st.sampled_from([0, 1e-6, 0.01, 0.3, 2]),
)
@pytest.mark.cases(1)
def test_bounds_hold_at_corners_and_random_points_of_every_box(kind, seed, depth, centre, half):
    network = random_network(seed, LINES[kind], depth=depth)
    boxes = NetworkBoxes(network, network.affine[0], np.full(3, -5.0), np.full(3, 5.0))
    rng = np.random.default_rng(seed)
    low = centre + rng.uniform(-1, 1, (1, 3))
    high = low + half * rng.uniform(0, 2, (1, 3))
    inside = np.concatenate([rng.uniform(low, high, (200, 3)), np.where(rng.random((50, 3)) < 0.5, low, high)])
    scores = network.scores(inside)
    for label in range(3):
        leads = scores[:, [label]] - np.delete(scores, label, axis=1)
        below, above = boxes.leads(low, high, label)
        relative = (inside - (low + high) / 2) / np.where(high > low, (high - low) / 2, 1)
        for functions, sign in ((below, 1), (above, -1)):
            lines = relative @ functions[0, :-1] + functions[0, -1]
            assert (sign * (leads - lines) >= -1e-12 * (1 + np.abs(scores).max())).all()
        verdict = boxes.look(low, high, label)
        keeps = (leads > 0).all(axis=1)
        assert keeps.all() or not verdict.sure.item()
        assert not keeps.any() or not verdict.never.item()


def test_rounding_of_single_precision_is_inside_the_bounds():
    """Points as boxes: the leads that float32 computes, input cast, lie between the bounds, which stay narrow."""
    network = random_network(0, Rectifier(), depth=3, width=40, unit=2.0**-24)
    single = [(a.weights.astype(np.float32), a.biases.astype(np.float32)) for a in network.affine]
    exact = [Affine.of(w.astype(np.float64), b.astype(np.float64)) for w, b in single]
    network = Network(tuple(exact), network.activations, network.classes, network.unit)
    boxes = NetworkBoxes(network, exact[0], np.full(3, -5.0), np.full(3, 5.0))
    points = np.random.default_rng(0).uniform(-5, 5, (4_000, 3))
    z = points.astype(np.float32)
    for weights, biases in single[:-1]:
        z = np.maximum(z @ weights.T + biases, np.float32(0))
    scores = (z @ single[-1][0].T + single[-1][1]).astype(np.float64)
    below, above = boxes.leads(points, points, 0)
    computed = scores[:, [0]] - scores[:, 1:]
    missed = np.abs(computed - 0.5 * (below[:, -1] + above[:, -1]))
    assert missed.max() > 1e-5  # there is rounding to allow for
    assert (below[:, -1] <= computed).all()
    assert (computed <= above[:, -1]).all()
    assert (above[:, -1] - below[:, -1]).max() < 0.05 * np.abs(scores).max()


def test_boxes_narrow_to_the_scores():
    """Second order: a box of half the width has a quarter of the gap where activations are smooth."""
    network = random_network(1, TANH)
    boxes = NetworkBoxes(network, network.affine[0], np.full(3, -5.0), np.full(3, 5.0))
    gaps = []
    for half in (0.02, 0.01, 0.005):
        below, above = boxes.leads(np.full((1, 3), 0.3 - half), np.full((1, 3), 0.3 + half), 0)
        gaps.append((above[:, -1] - below[:, -1]).max())
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[2] < 0.3 * gaps[1]


@every_network
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_networks_are_read_as_they_predict(name, classes):
    model = fitted(name, classes)
    found, steps = read_network(model)
    assert isinstance(found, Network)
    Z = np.random.default_rng(0).uniform(0, 8, (2_000, 4))
    scores = found.scores(preprocessing_before(model, steps)(Z))
    lead = np.abs(np.diff(np.sort(scores, axis=1)[:, -2:])).ravel()
    assert (found.classes[scores.argmax(axis=1)] == model.predict(Z))[lead > 1e-9].all()
    assert (lead > 1e-9).mean() > 0.99


@every_network
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_decided_boxes_have_the_label_that_predict_gives(name, classes):
    """All boxes of a real run: both kinds occur, and predict agrees at their corners and inside."""
    model = fitted(name, classes)
    asked = problem(model, IRIS[[0, 70]], sensitive=[0, 1, 2])
    bounds = bounds_for(asked)
    assert isinstance(bounds, PropagatedBounds)
    rng, kinds = np.random.default_rng(0), np.zeros(2, dtype=int)
    for record in (0, 1):
        boxes = bounds.boxes(record)
        lower = rng.uniform(boxes.lower, boxes.upper, (600, 3))
        low, high = boxes.start()
        low = np.concatenate([low, lower])
        high = np.concatenate([high, np.minimum(lower + rng.uniform(0, 0.5, (600, 3)), boxes.upper)])
        own = int(np.flatnonzero(bounds.classes == asked.labels[record])[0])
        verdict = boxes.look(low, high, own)
        for decided, expected in ((verdict.sure, True), (verdict.never, False)):
            at = np.repeat(np.flatnonzero(decided), 12)
            corners = np.where(rng.random((at.size, 3)) < 0.5, low[at], high[at])
            ends = np.clip(low[at], boxes.lower, boxes.upper), np.clip(high[at], boxes.lower, boxes.upper)
            points = np.where(rng.random((at.size, 1)) < 0.5, np.clip(corners, *ends), rng.uniform(*ends))
            labels = asked.ask(np.full(at.size, record), list(points.T))
            assert ((labels == asked.labels[record]) == expected).all()
            kinds[int(expected)] += at.size
    assert (kinds > 0).all()


CORNERS = [("relu", 3), ("scaled twice", 2), ("tanh", 2), *((name, 1) for name in NETWORKS)]
PAIRS = [*CORNERS, *((name, s) for s in (2, 3) for name in NETWORKS if (name, s) not in CORNERS)]


@pytest.mark.parametrize(("name", "s"), sparing(PAIRS, keep=range(len(CORNERS))))
@pytest.mark.cases(1)
def test_certificates_meet_the_whole_grid(name, s):
    """Two ways to one number: quantised mechanisms and k-RR, answered by asking about every grid point."""
    model = fitted(name)
    settings = {"sensitive": list(range(4))[-s:], "mechanisms": ["pm:quantise=9", "krr:k=7"], "epsilons": [1, 4]}
    settings |= {"domain": RANGES, "y": [0, 2, 1], "tolerance": 0.02, "rng": 0}
    exact = ew.stability(model, IRIS[[0, 70, 120]], method="grid", **settings)
    found = ew.stability(model, IRIS[[0, 70, 120]], method="propagation", **settings)
    assert (found.method == "propagation").all()
    assert found.confidence == 1
    for a, b in ((exact.stability, found.stability), (exact.accuracy, found.accuracy)):
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
        assert (b.upper - b.lower).max() <= 0.04


@pytest.mark.slow
def test_four_features_are_finished_by_draws_that_hold(monkeypatch):
    """With few boxes most mass is sampled given the undecided region; the grid's answer stays inside.

    Eight bounds a run miss with probability 1e-6 together.
    """
    model = fitted("relu")
    settings = {"sensitive": [0, 1, 2, 3], "mechanisms": ["pm:quantise=9", "krr:k=7"], "epsilons": [1, 4]}
    settings |= {"domain": RANGES, "rng": 0, "confidence": 1 - 1e-6, "tolerance": 0.03}
    exact = ew.stability(model, IRIS[[60, 70]], method="grid", **settings)
    for most in (100, 1_000):
        monkeypatch.setattr(NetworkBoxes, "most", most)
        found = ew.stability(model, IRIS[[60, 70]], method="propagation", **settings)
        assert found.confidence == 1 - 1e-6
        assert found.queries > 0
        assert (found.lower <= exact.upper).all()
        assert (exact.lower <= found.upper).all()
        assert (found.upper - found.lower).max() <= 0.06


@pytest.mark.parametrize("name", sparing(NETWORKS, keep=(0, 1)))
@pytest.mark.slow
def test_certificates_hold_the_sampled_truth(name):
    """Continuous laws and atoms; 2 x 2 x 5 x 2 x 3 sampled bounds miss with probability 1e-6 together."""
    settings = {"sensitive": [0, 2], "mechanisms": CONTINUOUS, "epsilons": [0.5, 4], "domain": RANGES}
    settings |= {"y": [0, 1, 1]}
    model, close = fitted(name), {"confidence": 1 - 1e-6, "tolerance": 0.03}
    sure = ew.stability(model, IRIS[[0, 70, 120]], method="propagation", tolerance=0.02, **settings)
    drawn = ew.stability(model, IRIS[[0, 70, 120]], method="sampled", rng=0, **close, **settings)
    assert sure.confidence == 1
    assert (sure.labels_possible >= 1).all()
    for a, b in ((sure.stability, drawn.stability), (sure.accuracy, drawn.accuracy)):
        assert (a.lower <= b.upper).all()
        assert (b.lower <= a.upper).all()
        assert (a.upper - a.lower).max() <= 0.04


@pytest.mark.parametrize("threshold", [1e-3, 0.4, 1 - 1e-3, 0.0, 1.0])
@pytest.mark.parametrize("mechanism", [*CONTINUOUS, "krr:k=11"])
@pytest.mark.cases(1)
def test_atoms_fall_on_their_side(threshold, mechanism):
    """Label 1 above a threshold: closed form.  An atom on it is a tie, which only the classifier decides."""
    settings = {"mechanisms": mechanism, "epsilons": [1.0, 4.0], "tolerance": 0.005, "rng": 0}
    found = ew.stability(step_at(threshold), [[0.5]], sensitive=0, method="propagation", **settings)
    family = ew.MECHANISMS[mechanism.partition(":")[0]]
    options = {"delta": 0.1} if "delta" in mechanism else {"k": 11} if "k=" in mechanism else {}
    laws = [family(epsilon, **options).law(0.5) for epsilon in (1.0, 4.0)]
    above = np.array([1 - float(law.cdf(threshold)) for law in laws])
    truth = above if threshold < 0.5 else 1 - above
    assert (found.lower.ravel() <= truth + 1e-12).all()
    assert (found.upper.ravel() >= truth - 1e-12).all()
    assert (found.upper - found.lower).max() <= 0.01 + 1e-12
    tied = max(float(law.pmf(threshold)) for law in laws) > 0.01
    assert found.confidence == (0.999 if tied else 1)


def test_a_network_of_one_label_is_certain():
    model = step_at(-0.5, width=3)
    found = ew.stability(
        model, np.full((2, 3), 0.5), sensitive=[0, 1, 2], mechanisms=CONTINUOUS, epsilons=[0.1, 8], method="propagation"
    )
    assert (found.upper == 1).all()
    assert (found.lower >= 1 - 1e-11).all()
    assert found.confidence == 1
    assert found.queries == 2 + 2 * ASKED_AGAIN[0] + ALONE  # the checks of the classifier, and no engine's
    assert (found.labels_possible == 1).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("steep", [1, 10, 100])
@pytest.mark.parametrize("activation", ["tanh", "logistic"])
@pytest.mark.cases(1)
def test_saturated_units_are_parted_until_they_differ(activation, steep):
    """Constants bound a unit that is flat over a box: where it is not, narrower boxes tell."""
    X = np.random.default_rng(0).uniform(0, 100, (300, 2))
    model = perceptron(6, activation=activation).fit(X, X.sum(axis=1) > 100)
    model.coefs_ = [steep * weights for weights in model.coefs_]
    ranges = {"domain": {0: (0, 100), 1: (0, 100)}, "mechanisms": "pm", "epsilons": [1.0], "rng": 0}
    found = ew.stability(model, X[:3], sensitive=[0, 1], **ranges)
    assert found.confidence == 1
    drawn = ew.stability(model, X[:3], sensitive=[0, 1], method="sampled", confidence=1 - 1e-6, **ranges)
    assert (found.lower <= drawn.upper).all()
    assert (drawn.lower <= found.upper).all()


def test_ties_everywhere_are_left_to_the_classifier():
    """A dead network: no score leads, so its reading was never compared, and the classifier is asked."""
    model = step_at(0.5)
    model.coefs_ = [0 * w for w in model.coefs_]
    asked = {"sensitive": 0, "mechanisms": "pm", "epsilons": [1.0], "rng": 0, "tolerance": 0.02}
    with pytest.raises(ValueError, match="or too few of these are clear"):
        ew.stability(model, [[0.5]], method="propagation", **asked)
    found = ew.stability(model, [[0.5]], **asked)
    assert found.confidence == 0.999
    assert found.lower.item() >= 0.96


def test_labels_that_the_network_does_not_know_are_never_given():
    found = ew.stability(
        fitted("relu", 2), IRIS[[0, 70]], y=[2, 1], sensitive=[2], mechanisms="pm", epsilons=[1.0], domain=RANGES,
        method="propagation",
    )  # fmt: skip
    assert found.accuracy.upper[0, 0, 0] == 0
    assert found.accuracy.lower[0, 0, 1] > 0


@pytest.mark.slow
def test_auto_proves_where_one_or_two_features_are_perturbed_and_samples_otherwise():
    settings = {"mechanisms": "pm", "epsilons": [1], "domain": RANGES, "rng": 0, "tolerance": 0.05}
    for sensitive, method in [([2], "propagation"), ([2, 3], "propagation"), ([0, 2, 3], "sampled")]:
        found = ew.stability(fitted("relu"), IRIS[:1], sensitive=sensitive, **settings)
        assert (found.method == method).all()


@pytest.mark.slow
def test_tables_and_scalers_of_frames():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_pipeline(StandardScaler(), perceptron(8)).fit(frame, SPECIES)
    settings = {"mechanisms": "pm", "epsilons": [2.0], "domain": {"b": (2, 5), "d": (0, 3)}, "rng": 0}
    one = ew.stability(model, frame.iloc[[70]], sensitive=["b", "d"], method="propagation", **settings)
    other = ew.stability(model, frame.iloc[[70]], sensitive=["b", "d"], method="sampled", **settings)
    assert one.confidence == 1
    assert one.lower.item() <= other.upper.item()
    assert other.lower.item() <= one.upper.item()


CODES = {"categories": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        (LogisticRegression(max_iter=500), {}, "is not a network that can be looked into"),
        (make_pipeline(PolynomialFeatures(), perceptron(3)), {}, "is not an affine function of it"),
        (make_pipeline(MinMaxScaler(clip=True), perceptron(3)), {}, "is not an affine function of it"),
        (perceptron(3), {"mechanisms": "laplace"}, "its outputs leave the declared range"),
        (perceptron(3), {"domain": {0: CODES}, "X": [[0.1] * 6]}, "a sensitive feature is categorical"),
        (perceptron(3), {"sensitive": range(6)}, "there are more than 5 sensitive features"),
    ],
)
@pytest.mark.cases(1)
def test_what_cannot_be_certified_says_why(model, more, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = model.fit(CANCER, BENIGN)
    settings = {"X": CANCER[:1], "sensitive": [0], "mechanisms": "pm", "epsilons": [1.0], "method": "propagation"}
    with pytest.raises(ValueError, match=message) as caught:
        ew.stability(model, **(settings | more))
    assert "use method='auto'" in str(caught.value)


def test_functions_are_refused_whatever_model_stands_beside_them():
    settings = {"sensitive": [2], "mechanisms": "pm", "epsilons": [1.0], "domain": RANGES, "method": "propagation"}
    with pytest.raises(ValueError, match="the classifier is a function"):
        ew.stability(lambda Z: Z[:, 2] > 3, IRIS[:1], **settings)
    honest = ew.as_classifier(fitted("relu"))
    other = ew.Classifier("contrary", lambda Z: 2 - honest.answer(Z), classes=honest.classes, model=honest.model)
    with pytest.raises(ValueError, match="the classifier is a function"):
        ew.stability(other, IRIS[:1], **settings)


def test_odd_chains_are_refused():
    layer, wide = Affine.of(np.eye(2), np.zeros(2)), Affine.of(np.ones((2, 20_000)), np.zeros(2))
    for steps, classes, message in (
        ([Rectifier(), layer], 2, "does not follow"),
        ([layer, Rectifier(), Rectifier(), layer], 2, "does not follow"),
        ([layer, Rectifier()], 2, "last layer is not linear"),
        ([layer], 3, "one per class"),
        ([Affine.of(np.full((2, 2), np.inf), np.zeros(2))], 2, "not finite"),
        ([wide], 2, "too wide"),
    ):
        assert message in said(network_of, steps, np.arange(classes), 2.0**-24)
