"""TorchScript, torch.export, skorch and Keras: labels by the rules that are said, scores refused."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

import epsworth as ew

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is the extra 'torch'")
nn = torch.nn
IRIS, SPECIES = load_iris(return_X_y=True)
ROWS = torch.tensor(IRIS, dtype=torch.float32)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*is a program")


def module(*ends, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, outputs), *ends)


def exported(made):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(made, (ROWS[:5],), dynamic_shapes=({0: torch.export.Dim("records")},))


def test_programs_answer_as_their_modules(tmp_path):
    made = module().eval()
    want = ew.as_classifier(made).labels(IRIS)
    scripted, traced, program = torch.jit.script(made), torch.jit.trace(made, ROWS[:5]), exported(made)
    torch.jit.save(scripted, tmp_path / "m.pt")
    torch.export.save(program, tmp_path / "m.pt2")
    loaded = [ew.load_model(tmp_path / name, trust=True) for name in ("m.pt", "m.pt2")]
    for other in (scripted, traced, program, *loaded):
        assert (ew.as_classifier(other).labels(IRIS) == want).all()


def test_programs_that_draw_are_refused():
    with pytest.raises(ValueError, match="draws or normalises by the batch"):
        ew.as_classifier(exported(module().train()))
    with pytest.raises(ValueError, match="training mode"):
        ew.as_classifier(torch.jit.script(module().train()))


def test_probabilities_of_programs_are_refused():
    made = module(nn.Sigmoid(), outputs=1).eval()
    for other in (torch.jit.script(made), exported(made)):
        with pytest.raises(ValueError, match="look like scores"):
            ew.as_classifier(other).labels(IRIS)


def test_nets_of_skorch_answer_as_they_predict():
    skorch = pytest.importorskip("skorch", reason="skorch is not installed")
    rows = IRIS.astype(np.float32)
    shown = {"verbose": 0, "max_epochs": 3, "train_split": None}
    net = skorch.NeuralNetClassifier(module(), criterion=nn.CrossEntropyLoss, **shown).fit(rows, SPECIES)
    classifier = ew.as_classifier(net)
    assert (classifier.labels(IRIS) == net.predict(rows)).all()
    assert classifier.inside is net.module_
    two = skorch.NeuralNetBinaryClassifier(module(outputs=1), threshold=0.7, **shown).fit(rows, (SPECIES > 1) * 1.0)
    assert (ew.as_classifier(two).labels(IRIS) == two.predict(rows)).all()
    odd = skorch.NeuralNetClassifier(
        module(), criterion=nn.CrossEntropyLoss, predict_nonlinearity=lambda z: -z, **shown
    ).fit(rows, SPECIES)
    assert (ew.as_classifier(odd).labels(IRIS) == odd.predict(rows)).all()
    assert ew.as_classifier(odd).inside is None
    score = skorch.NeuralNetRegressor(module(outputs=1), **shown).fit(rows, SPECIES[:, np.newaxis].astype(np.float32))
    with pytest.raises(TypeError, match="is not a classifier"):
        ew.as_classifier(score)


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras", reason="keras is not installed")


def ending(keras, *layers):
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(6, activation="relu"), *layers])


def test_keras_models_answer_by_their_last_layer(keras, tmp_path):
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense
    rules = {
        "softmax": (ending(keras, dense(3, activation="softmax")), lambda out: out.argmax(axis=1)),
        "logits": (ending(keras, dense(3)), lambda out: out.argmax(axis=1)),
        "a layer of its own": (ending(keras, dense(3), keras.layers.Softmax()), lambda out: out.argmax(axis=1)),
        "sigmoid": (ending(keras, dense(1, activation="sigmoid")), lambda out: out[:, 0] > 0.5),
    }
    for model, rule in rules.values():
        classifier = ew.as_classifier(model)
        assert classifier.count == 4
        assert (classifier.labels(IRIS) == rule(model.predict(IRIS, verbose=0))).all()
    model, rule = rules["softmax"]
    model.save(tmp_path / "m.keras")
    loaded = ew.load_model(tmp_path / "m.keras", trust=True)
    assert (ew.as_classifier(loaded).labels(IRIS) == rule(model.predict(IRIS, verbose=0))).all()


def test_no_score_of_keras_is_taken_for_a_label(keras):
    dense = keras.layers.Dense
    for last in (dense(1), dense(1, activation="softmax"), dense(1, activation="relu"), dense(3, activation="sigmoid")):
        with pytest.raises(ValueError, match=r"nothing says which of its values|do not compete for one label"):
            ew.as_classifier(ending(keras, last))
