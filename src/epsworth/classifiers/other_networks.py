"""Networks that other libraries wrap: Keras models, skorch nets, programs of ``torch.export``.

None of these libraries is imported here.  A Keras model's last layer says what its outputs mean: a softmax over
several, or several logits, name the largest; one sigmoid is compared with 1/2.  Anything else is refused: nothing says
which score is which label.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.classifiers.answers import ClassifierError
from epsworth.classifiers.modules import Answering, is_module
from epsworth.classifiers.scalers import Predict

RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal.")  # in names of operations that draw, or may


def is_keras(model: Any) -> bool:
    """Tell whether a model is a ``keras.Model``, whatever it runs on."""
    keras: Any = sys.modules.get("keras")
    return hasattr(keras, "Model") and isinstance(model, keras.Model)


def is_exported(model: Any) -> bool:
    """Tell whether a model is a program that ``torch.export`` made."""
    torch: Any = sys.modules.get("torch")
    return hasattr(getattr(torch, "export", None), "ExportedProgram") and isinstance(
        model, torch.export.ExportedProgram
    )


def exported_answer(program: Any) -> Answering:
    """Return the function that answers by a program's logits, as a module's; refuse one that was exported training."""
    for node in program.graph.nodes:
        name = str(node.target)
        training = any(one is True for one in node.args) and ("dropout" in name or "batch_norm" in name)
        if training or any(word in name for word in RANDOM if word != "dropout"):
            raise ValueError(
                f"the exported program draws or normalises by the batch in {name}, so that its answers are not those "
                "of a function of the record; call .eval() on the module before torch.export"
            )
    return Answering(program.module())


@dataclass(frozen=True, eq=False)
class KerasAnswer(Predict):
    """Records -> labels by a Keras model's outputs, outside of training."""

    sigmoid: bool = False

    def __call__(self, records: Any) -> Any:
        """Return the place of the largest output, or whether the one probability exceeds 1/2."""
        keras: Any = sys.modules["keras"]
        found = np.asarray(keras.ops.convert_to_numpy(self.model(np.array(records, dtype=np.float32), training=False)))
        if found.ndim != 2 or len(found) != len(records):
            raise ClassifierError(
                f"the Keras model answered {len(records)} records with outputs of shape {found.shape}"
            )
        if np.isnan(found).any():
            raise ClassifierError("an output of the Keras model is NaN")
        return (found[:, 0] > 0.5).astype(np.int64) if self.sigmoid else found.argmax(axis=1)


def keras_answer(model: Any) -> tuple[KerasAnswer, int | None, int]:
    """Return the function that answers with a model's labels, and how many features and labels there are."""
    shape = model.output_shape if model.built else None
    if not isinstance(shape, tuple) or len(shape) != 2 or not isinstance(shape[1], int):
        raise ValueError(
            f"the Keras model has outputs of shape {shape}; it must have one row of probabilities or logits per record"
        )
    ends, width = _last_activation(model), shape[1]
    if width == 1 and ends != "sigmoid":
        raise ValueError(
            f"the Keras model has one output behind the activation {ends!r}, and nothing says which of its values is "
            "which label; end it in a sigmoid, or give a function such as lambda records: model(records)[:, 0] > 0"
        )
    if width > 1 and ends not in ("softmax", "linear"):
        raise ValueError(
            f"the Keras model has {width} outputs behind the activation {ends!r}, which do not compete for one label; "
            "end it in a softmax or in logits, or give a function from records to labels"
        )
    given = getattr(model, "input_shape", None)
    features = given[1] if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int) else None
    return KerasAnswer(model, width == 1), features, max(2, width)


def _last_activation(model: Any) -> str:
    """Return the name of the activation that a model's outputs come from; "unknown" where it does not say."""
    keras: Any = sys.modules["keras"]
    layer = getattr(getattr(model.outputs[0], "_keras_history", None), "operation", None)
    if layer is None or len(model.outputs) != 1:
        return "unknown"
    if type(layer) is keras.layers.Softmax and layer.axis in (-1, 1):
        return "softmax"
    if type(layer) in (keras.layers.Dense, keras.layers.Activation):
        return str(getattr(layer.activation, "__name__", "unknown"))
    return "unknown"


def is_skorch(model: Any) -> bool:
    """Tell whether a model is a classifier of skorch."""
    skorch: Any = sys.modules.get("skorch")
    nets = [getattr(skorch, name, None) for name in ("NeuralNetClassifier", "NeuralNetBinaryClassifier")]
    return any(net is not None and isinstance(model, net) for net in nets)


def argmax_module(net: Any) -> Any:
    """Return the module of a skorch net whose label is the place of its largest output; None for other nets."""
    skorch: Any = sys.modules["skorch"]
    module = getattr(net, "module_", None)
    plain = type(net) is skorch.NeuralNetClassifier and not {"predict", "predict_proba", "infer"} & set(vars(net))
    if not plain or net.predict_nonlinearity not in ("auto", None) or not is_module(module):
        return None
    evaluated: Any = module
    return evaluated.eval()  # which asking it does, too


@dataclass(frozen=True, eq=False)
class SkorchAnswer(Predict):
    """Ask a net's own ``predict``, in the precision of its module."""

    def __call__(self, records: Any) -> Any:
        """Return what the net predicts."""
        torch: Any = sys.modules["torch"]
        like = next(self.model.module_.parameters(), torch.empty(0))
        kind = np.float64 if like.dtype == torch.float64 else np.float32
        return np.asarray(self.model.predict(np.array(records, dtype=kind)))
