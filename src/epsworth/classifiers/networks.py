"""What can be seen inside fully connected networks: those of scikit-learn, and PyTorch's (see `modules`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.layers import LOGISTIC, TANH, Activation, Affine, Network, Rectifier, network_of
from epsworth.classifiers.modules import is_module, module_network
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.onnx_reading import onnx_network
from epsworth.classifiers.scalers import behind_scalers, per_column, steps_of

DOUBLE = 2.0**-53  # unit roundoff
HIDDEN: dict[str, tuple[Activation, ...]] = {
    "identity": (),
    "relu": (Rectifier(),),
    "tanh": (TANH,),
    "logistic": (LOGISTIC,),
}


def network_model(model: Any) -> Network | str:
    """Return the inside of a supported network, or why there is none.

    Supported: ``MLPClassifier``, also behind the per-column scalers of a pipeline, ``torch.nn.Sequential``, and the
    linear layers and activations of an ONNX model.
    """
    if is_module(model):
        return module_network(model)
    if is_onnx(model):
        return onnx_network(model)
    if kind_of(steps_of(model)[0]) != "MLPClassifier":
        return "the classifier is not a network that can be looked into (MLPClassifier, torch.nn.Sequential)"
    found = behind_scalers(model)
    if found is None:
        return "a step of the pipeline is not a plain per-column scaler, or it answers by code of its own"
    return _perceptron(found[0], found[2])


def _perceptron(estimator: Any, scalers: list[Any]) -> Network | str:
    layers = [
        Affine.of(np.asarray(weights, dtype=np.float64).T, np.asarray(biases, dtype=np.float64))
        for weights, biases in zip(estimator.coefs_, estimator.intercepts_, strict=True)
    ]
    binary = estimator.out_activation_ == "logistic" and len(layers[-1].biases) == 1
    if np.ndim(estimator.classes_) != 1 or not (binary or estimator.out_activation_ == "softmax"):
        return "it answers several labels at once"
    steps: list[Affine | Activation] = []
    for scaler in scalers:
        scale, shift = per_column(scaler, layers[0].weights.shape[1])
        steps.append(Affine.per_column(scale, shift, np.abs(shift)))
    for layer in layers[:-1]:
        steps += [layer, *HIDDEN[estimator.activation]]
    return network_of([*steps, layers[-1]], np.asarray(estimator.classes_), DOUBLE)
