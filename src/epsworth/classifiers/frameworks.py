"""Networks of PyTorch, Keras and skorch: how they answer, and the layers of ``nn.Sequential``.

None of these libraries is imported: whoever has a network has imported its library.  A Keras model's last layer says
what its outputs mean: a softmax over several, or several logits, name the largest; one sigmoid is compared with 1/2.
Anything else is refused: nothing says which score is which label.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.classifiers.networks import LOGISTIC, TANH, Activation, Affine, Network, Rectifier, network_of
from epsworth.classifiers.reading import ClassifierError, Predict, Unsupported, library_class

SILENT = ("Dropout", "AlphaDropout", "Identity")  # in evaluation mode
RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal.")  # in names of operations that draw, or may
PROBES = 64  # records, and random ones, at which a single output must be seen on both sides of 0
SCALES = (1.0, -1.0, 10.0, -10.0, 1e3, -1e3)


def _is_instance(model: Any, library: str, *path: str) -> bool:
    """Tell whether a model is of a class of a library, which need not be there."""
    part: Any = sys.modules.get(library)
    for name in path:
        part = getattr(part, name, None)
    return isinstance(part, type) and isinstance(model, part)


def is_module(model: Any) -> bool:
    """Tell whether a model is a ``torch.nn.Module``."""
    return _is_instance(model, "torch", "nn", "Module")


@dataclass(eq=False)
class TorchPredict:
    """Records -> labels by a module's logits, in the precision of its parameters and where they are.

    A single output is taken for a logit once it was seen below 0 and above 0 (``is_logit``), on records or far from
    them, or when it is that of a linear layer; of one that never changes its sign, such as a probability or a
    percentage, the sign tells nothing.
    """

    model: Any
    is_logit: bool = False
    low: float = math.inf
    high: float = -math.inf

    def __call__(self, records: Any) -> Any:
        """Return the class of the largest logit; with one logit, 1 where it is positive and else 0."""
        logits = self.logits(np.array(records, dtype=np.float64))
        several = logits.ndim == 2 and logits.shape[1] > 1
        return (logits.argmax(dim=1) if several else logits.reshape(-1) > 0).long().cpu().numpy()

    def logits(self, records: Floats) -> Any:
        """Return what the module answers, checked to be one row of logits, or one logit, per record."""
        torch: Any = sys.modules["torch"]
        logits = self._outputs(records)
        shape = tuple(logits.shape)
        if shape not in ((len(records),), (len(records), shape[-1] if shape else 0)):
            raise ValueError(
                f"the module answered {len(records)} records with logits of shape {shape}; "
                "it must return one row of logits, or one logit, per record"
            )
        if torch.isnan(logits).any():
            raise ValueError("a logit is NaN")
        self._settle(logits, records)
        return logits

    def _settle(self, outputs: Any, records: Floats) -> None:
        """Refuse a single output whose sign never changes; several are compared with each other."""
        if self.is_logit or outputs.shape[1:] not in ((), (1,)) or not len(records):
            return
        if not ends_linearly(self.model):
            self._widen(outputs)
            self._look_elsewhere(records)
            if not self.low < 0 < self.high:
                what = f"are never {'below' if self.low >= 0 else 'above'} 0"
                if self.low >= 0 and self.high <= 1:
                    what = "all lie between 0 and 1, as behind torch.sigmoid"
                raise ClassifierError(
                    f"the module's outputs {what}, so they look like scores; return the logits, or give a function of "
                    "records such as lambda records: probability(records) > 0.5"
                )
        self.is_logit = True

    def _widen(self, outputs: Any) -> None:
        self.low, self.high = min(self.low, float(outputs.min())), max(self.high, float(outputs.max()))

    def _outputs(self, records: Floats) -> Any:
        torch: Any = sys.modules["torch"]
        like = next(self.model.parameters(), torch.empty(0))
        rows = torch.from_numpy(records).to(dtype=like.dtype, device=like.device)
        with torch.no_grad(), torch.autocast(device_type=like.device.type, enabled=False):
            return self.model(rows)

    def _look_elsewhere(self, records: Floats) -> None:
        """Look far away from the records, where a logit is large; what the module refuses proves nothing."""
        some = records[:PROBES]
        normal = np.random.default_rng(0).normal(size=(PROBES, *records.shape[1:]))
        for far, scale in product((some, normal), SCALES):
            if self.low < 0 < self.high:
                return
            try:
                self._widen(self._outputs(scale * far))
            except Exception:
                continue


def check_module(module: Any) -> None:
    """Refuse a module whose answers are random, or are not logits."""
    torch: Any = sys.modules["torch"]
    name, normalising = type(module).__name__, torch.nn.modules.batchnorm._BatchNorm
    if any(part.training for part in module.modules()):
        raise ValueError(
            f"the module {name} is in training mode, in which dropout and batch normalisation make it random; "
            "call .eval() on it first"
        )
    if any(isinstance(part, normalising) and part.running_mean is None for part in module.modules()):
        raise ValueError(
            f"the module {name} normalises by the batch, so that a label depends on the other records; "
            "keep running statistics"
        )
    parts = _parts(module)
    if parts and type(parts[-1]) is torch.nn.Sigmoid:
        raise ValueError(f"the module {name} ends in a Sigmoid; leave it out: labels are read off the logits")
    if parts and type(parts[-1]) in _softmaxes():
        if parts[-1].dim in (0, -2):
            raise ValueError(
                f"the module {name} ends in a {type(parts[-1]).__name__} over dimension {parts[-1].dim}, the batch, "
                "so that a label depends on the other records; leave it out, or take it over dimension 1"
            )
        if len(parts) > 1 and getattr(parts[-2], "out_features", None) == 1:
            raise ValueError(
                f"the module {name} ends in a {type(parts[-1]).__name__} over one output, which is always the same; "
                "leave it out: the label is read off the logit"
            )


def _softmaxes() -> tuple[Any, ...]:
    nn: Any = sys.modules["torch"].nn
    return nn.Softmax, nn.LogSoftmax


def ends_linearly(module: Any) -> bool:
    """Tell whether a module's outputs are those of a linear layer: logits, whatever their range."""
    torch: Any = sys.modules["torch"]
    *_, last = [None, *_parts(module)]
    return type(last) is torch.nn.Linear and not _hooked(last) and not _hooked_everywhere()


def known_shape(module: Any) -> tuple[int | None, tuple[int, ...] | None]:
    """Return how many features a sequence of layers takes and the labels that it can give, where they are plain."""
    try:
        network = module_network(module)
    except Unsupported:
        return None, None
    return network.affine[0].weights.shape[1], tuple(network.classes.tolist())


def module_network(module: Any) -> Network:
    """Return the inside of an ``nn.Sequential`` of linear layers and activations, or why there is none."""
    torch: Any = sys.modules["torch"]
    if library_class(module) != "Sequential" or type(module) is not torch.nn.Sequential or _hooked(module):
        raise Unsupported(
            f"the module {type(module).__name__} is not a torch.nn.Sequential, or answers by code of its own"
        )
    if _hooked_everywhere():
        raise Unsupported("hooks are set on all modules")
    parameters = list(module.parameters())
    kinds = {parameter.dtype for parameter in parameters}
    if kinds not in ({torch.float32}, {torch.float64}) or not _full_precision():
        raise Unsupported("the module does not compute in single or in double precision")
    parts = _parts(module)
    softmax = bool(parts) and type(parts[-1]) in _softmaxes() and parts[-1].dim in (1, -1)
    parts = parts[:-1] if softmax else parts  # moves no label of several outputs
    steps = [_layer(part) for part in parts]
    outputs = len(steps[-1].biases) if steps and isinstance(steps[-1], Affine) else 0
    if softmax and outputs < 2:
        raise Unsupported("its softmax over one output is always the same")
    return network_of(steps, np.arange(max(2, outputs)), torch.finfo(kinds.pop()).eps / 2)


def _full_precision() -> bool:
    """Tell whether products of single-precision matrices are computed in single precision."""
    torch: Any = sys.modules["torch"]
    try:
        return bool(torch.get_float32_matmul_precision() == "highest")
    except RuntimeError:  # set for one backend only
        return False


def _parts(module: Any) -> list[Any]:
    """Return the layers of nested sequences in order, without those that do nothing."""
    torch: Any = sys.modules["torch"]
    if type(module) is torch.nn.Sequential and not _hooked(module):
        return [part for child in module for part in _parts(child)]
    flat = type(module) is torch.nn.Flatten and module.start_dim == 1
    idle = flat or any(type(module) is getattr(torch.nn, name) for name in SILENT)
    return [] if idle and not _hooked(module) else [module]


def _hooked(part: Any) -> bool:
    """Tell whether a module computes by more, or other code, than its class's ``forward``."""
    compiled = getattr(part, "_compiled_call_impl", None) is not None
    return bool(part._forward_hooks or part._forward_pre_hooks or compiled or library_class(part) is None)


def _hooked_everywhere() -> bool:
    """Tell whether hooks are set on all modules at once."""
    every: Any = sys.modules["torch"].nn.modules.module
    return bool(every._global_forward_hooks or every._global_forward_pre_hooks)


def _layer(part: Any) -> Affine | Activation:
    nn: Any = sys.modules["torch"].nn
    kind, unsupported = type(part), Unsupported(f"its layer {type(part).__name__} is not supported")
    if _hooked(part):
        raise unsupported
    if kind is nn.Linear:
        weights = _array(part.weight)
        return Affine.of(weights, np.zeros(len(weights)) if part.bias is None else _array(part.bias))
    if kind is nn.BatchNorm1d and part.running_mean is not None:
        spread = np.sqrt(_array(part.running_var) + part.eps)
        scale = (1.0 if part.weight is None else _array(part.weight)) / spread
        shift = np.zeros_like(spread) if part.bias is None else _array(part.bias)
        centre = scale * _array(part.running_mean)
        return Affine.per_column(scale, shift - centre, np.abs(shift) + np.abs(centre))
    if kind is nn.LeakyReLU and 0 <= part.negative_slope <= 1:
        return Rectifier(part.negative_slope)
    plain: dict[Any, Activation] = {nn.ReLU: Rectifier(), nn.Tanh: TANH, nn.Sigmoid: LOGISTIC}
    if kind not in plain:
        raise unsupported
    return plain[kind]


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def is_keras(model: Any) -> bool:
    """Tell whether a model is a ``keras.Model``, whatever it runs on."""
    return _is_instance(model, "keras", "Model")


def is_exported(model: Any) -> bool:
    """Tell whether a model is a program that ``torch.export`` made."""
    return _is_instance(model, "torch", "export", "ExportedProgram")


def exported_answer(program: Any) -> TorchPredict:
    """Return the function that answers by a program's logits, as a module's; refuse one that was exported training."""
    for node in program.graph.nodes:
        name = str(node.target)
        training = any(one is True for one in node.args) and ("dropout" in name or "batch_norm" in name)
        if training or any(word in name for word in RANDOM if word != "dropout"):
            raise ValueError(
                f"the exported program draws or normalises by the batch in {name}, so that its answers are not those "
                "of a function of the record; call .eval() on the module before torch.export"
            )
    return TorchPredict(program.module())


@dataclass(frozen=True, eq=False)
class KerasPredict(Predict):
    """Records -> labels by a Keras model's outputs, outside of training."""

    sigmoid: bool = False

    def __call__(self, records: Any) -> Any:
        """Return the place of the largest output, or whether the one probability exceeds 1/2."""
        keras: Any = sys.modules["keras"]
        outputs = self.model(np.array(records, dtype=np.float32), training=False)
        scores = np.asarray(keras.ops.convert_to_numpy(outputs))
        if scores.ndim != 2 or len(scores) != len(records):
            raise ClassifierError(
                f"the Keras model answered {len(records)} records with outputs of shape {scores.shape}"
            )
        if np.isnan(scores).any():
            raise ClassifierError("an output of the Keras model is NaN")
        return (scores[:, 0] > 0.5).astype(np.int64) if self.sigmoid else scores.argmax(axis=1)


def keras_answer(model: Any) -> tuple[KerasPredict, int | None, int]:
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
    return KerasPredict(model, width == 1), features, max(2, width)


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
    names = ("NeuralNetClassifier", "NeuralNetBinaryClassifier")
    return any(_is_instance(model, "skorch", name) for name in names)


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
class SkorchPredict(Predict):
    """Ask a net's own ``predict``, in the precision of its module."""

    def __call__(self, records: Any) -> Any:
        """Return what the net predicts."""
        torch: Any = sys.modules["torch"]
        like = next(self.model.module_.parameters(), torch.empty(0))
        kind = np.float64 if like.dtype == torch.float64 else np.float32
        return np.asarray(self.model.predict(np.array(records, dtype=kind)))
