"""What can be seen inside fully connected networks: those of scikit-learn, and PyTorch's (see `modules`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.classifiers.layers import LOGISTIC, TANH, Activation, Affine, Network, Rectifier, network_of
from epsworth.classifiers.modules import is_module, module_network
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.onnx_reading import onnx_network
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.scalers import opened

DOUBLE = 2.0**-53  # unit roundoff
HIDDEN: dict[str, tuple[Activation, ...]] = {
    "identity": (),
    "relu": (Rectifier(),),
    "tanh": (TANH,),
    "logistic": (LOGISTIC,),
}


def network_behind(model: Any) -> tuple[Network, list[Any]]:
    """Return the inside of a supported network and the steps that stand before it, or why there is none.

    Supported: ``MLPClassifier``, also at the end of a pipeline, ``torch.nn.Sequential``, and the linear layers and
    activations of an ONNX model.
    """
    if is_module(model) or is_onnx(model):
        found = module_network(model) if is_module(model) else onnx_network(model)
        return found, []
    parts = opened(model)
    if parts is None or parts[1] != "MLPClassifier":
        raise Unsupported(
            "the classifier is not a network that can be looked into (MLPClassifier, torch.nn.Sequential)"
        )
    return _perceptron(parts[0]), parts[2]


def network_model(estimator: Any) -> Network:
    """Return the inside of a supported network that sees records themselves, or why there is none."""
    found = network_behind(estimator)
    if found[1]:
        raise Unsupported("steps stand before the network")
    return found[0]


def _perceptron(estimator: Any) -> Network:
    layers = [
        Affine.of(np.asarray(weights, dtype=np.float64).T, np.asarray(biases, dtype=np.float64))
        for weights, biases in zip(estimator.coefs_, estimator.intercepts_, strict=True)
    ]
    binary = estimator.out_activation_ == "logistic" and len(layers[-1].biases) == 1
    if np.ndim(estimator.classes_) != 1 or not (binary or estimator.out_activation_ == "softmax"):
        raise Unsupported("it answers several labels at once")
    steps: list[Affine | Activation] = []
    for layer in layers[:-1]:
        steps += [layer, *HIDDEN[estimator.activation]]
    return network_of([*steps, layers[-1]], np.asarray(estimator.classes_), DOUBLE)
