"""ONNX models: which of a graph's outputs is the label, and records fed to its inputs.

Neither onnx nor onnxruntime is imported before somebody gives such a model.  The graph says what an output means:

- an output of whole numbers, words or booleans is the label where it comes from an operation that chooses (ArgMax, a
  comparison, a classifier, a table of labels); one that is computed, such as a rounded score, is refused;
- of several scores the label is the place of the largest, as for a PyTorch module;
- a single score is compared with 1/2 behind a Sigmoid, and with 0 where it is that of a linear layer; any other one,
  such as a regressor's or a probability from elsewhere, is refused: nothing says which of its values is which label.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.answers import ClassifierError
from epsworth.classifiers.reading import Predict

NAMED = ("tensor(int64)", "tensor(int32)", "tensor(string)", "tensor(bool)")  # outputs that hold labels
KINDS: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
SHAPING = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten")  # leave values as they are
PICKING = (*SHAPING, "Slice", "Gather", "ArrayFeatureExtractor")  # answer values of their first input, and no others
CHOOSING = {  # operations that choose among few values, and the place of the output that holds the choice
    **dict.fromkeys(("ArgMax", "ArgMin", "LabelEncoder", "Constant", "ConstantOfShape"), 0),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Not", "And", "Or", "Xor"), 0),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), 0),
    "TopK": 1,
}
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
LABELS = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
REGRESSORS = ("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor", "TreeEnsemble")


def is_onnx(model: Any) -> bool:
    """Tell whether a model is an ``onnx.ModelProto`` or an ``onnxruntime.InferenceSession``."""
    onnx: Any = sys.modules.get("onnx")
    runtime: Any = sys.modules.get("onnxruntime")
    proto = hasattr(onnx, "ModelProto") and isinstance(model, onnx.ModelProto)
    return proto or (hasattr(runtime, "InferenceSession") and isinstance(model, runtime.InferenceSession))


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a model, by what they produce, and its constants."""

    producers: dict[str, Any]
    constants: dict[str, NDArray[Any]]
    inputs: dict[str, int]  # names, and the kinds of their elements
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, proto: Any) -> Graph:
        """Read a ``ModelProto``."""
        from onnx import numpy_helper

        graph = proto.graph
        constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and [one.name for one in node.attribute] == ["value"]:
                constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        return cls(
            {name: node for node in graph.node for name in node.output if name},
            constants,
            {one.name: one.type.tensor_type.elem_type for one in graph.input if one.name not in constants},
            tuple(one.name for one in graph.output),
        )

    def made_by(self, name: str) -> Any:
        """Return the node that computes a tensor, before those that only shape it; None for an input or constant."""
        node = self.producers.get(name)
        while node is not None and node.op_type in SHAPING:
            name = node.input[0]
            node = self.producers.get(name)
        return node

    def holds_labels(self, name: str) -> bool:
        """Tell whether a tensor's values were chosen among few, and not computed: whole numbers may be rounded scores.

        Claim: of operations that are not known to choose, or to pick from what was chosen, none gives labels.
        """
        if name in self.constants:
            return True
        node = self.producers.get(name)
        if node is None or node.domain not in DOMAINS:
            return False
        if node.op_type in PICKING:
            return self.holds_labels(node.input[0])
        if node.op_type == "Where":
            return all(map(self.holds_labels, node.input[1:]))
        return node.op_type in CHOOSING and node.output[CHOOSING[node.op_type]] == name

    def labels_of(self, name: str) -> tuple[Any, ...] | None:
        """Return the labels that an output can hold, where the graph says so."""
        node, labels = self.made_by(name), None
        if node is not None and node.op_type == "ArrayFeatureExtractor" and node.input[0] in self.constants:
            labels = self.constants[node.input[0]].ravel().tolist()
        elif node is not None:
            given = attributes(node)
            labels = next((given[place] for place in LABELS if given.get(place)), None)
        return None if labels is None else tuple([one.decode() if isinstance(one, bytes) else one for one in labels])


def attributes(node: Any) -> dict[str, Any]:
    """Return what a node is set to."""
    from onnx import helper

    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


@dataclass(frozen=True, eq=False)
class Output:
    """The output that is asked for, and how its values become labels.

    ``rule``: "label", "argmax", "half" (above 1/2) or "sign" (above 0).
    """

    name: str
    rule: str
    classes: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class OnnxPredict(Predict):
    """Records -> labels, by one thread, so that the same record has the same label."""

    session: Any = None
    output: Output = field(default_factory=lambda: Output("", "label"))

    def __reduce__(self) -> Any:
        """Return what another process builds its own session from."""
        return onnx_answer, (self.model,)

    @property
    def inputs(self) -> list[Any]:
        """The session's inputs."""
        return list(self.session.get_inputs())

    def __call__(self, records: Any) -> Any:
        """Return the labels."""
        values = np.asarray(self.session.run([self.output.name], self._fed(records))[0])
        if self.output.rule == "label":
            return values.reshape(len(values)) if values.shape == (len(values), 1) else values
        if np.isnan(values).any():
            raise ClassifierError(f"the ONNX model's output {self.output.name!r} is NaN")
        if self.output.rule == "argmax":
            return values.argmax(axis=1)
        return (values.reshape(len(records)) > (0.5 if self.output.rule == "half" else 0)).astype(np.int64)

    def _fed(self, records: Any) -> dict[str, NDArray[Any]]:
        inputs = self.inputs
        if len(inputs) == 1:
            return {inputs[0].name: _cast(np.asarray(records), inputs[0])}
        named = getattr(records, "columns", None) is not None
        parts = [np.asarray(records[one.name]) for one in inputs] if named else np.asarray(records).T[: len(inputs)]
        return {
            one.name: _cast(part, one).reshape((-1, 1) if len(one.shape) == 2 else -1)
            for one, part in zip(inputs, parts, strict=True)
        }


def _cast(values: NDArray[Any], wanted: Any) -> NDArray[Any]:
    """Return values as an input takes them; whole numbers are not made of others."""
    kind = KINDS[wanted.type]
    if kind is np.object_:
        return np.array([str(value) for value in values.ravel()], dtype=object).reshape(values.shape)
    if kind in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            return values.astype(np.float64).astype(kind)
    cast = values.astype(np.float64)
    if (cast != np.rint(cast)).any():
        raise ClassifierError(
            f"the ONNX model's input {wanted.name!r} takes whole numbers, and was given others; declare the feature's "
            "values as categories, or export the model with inputs of type float"
        )
    most = 2.0 ** (64 if kind is np.bool_ else np.iinfo(kind).bits - 1)
    if not ((-most <= cast) & (cast < most)).all():
        raise ClassifierError(
            f"the ONNX model's input {wanted.name!r} takes whole numbers of {np.iinfo(kind).bits} bits"
        )
    return cast.astype(kind)


def graph_of(model: Any) -> Graph | None:
    """Return the graph of a model; None for a session that does not hold its file."""
    import onnx

    if isinstance(model, onnx.ModelProto):
        return Graph.of(model)
    held, path = getattr(model, "_model_bytes", None), getattr(model, "_model_path", None)
    if held:
        return Graph.of(onnx.load_from_string(held))
    return Graph.of(onnx.load(path)) if path and os.path.exists(path) else None


def onnx_answer(model: Any) -> OnnxPredict:
    """Return the function that answers records with a model's labels; refuse what answers none."""
    try:
        import onnxruntime
    except ImportError:
        raise ValueError(
            'an ONNX model needs onnxruntime, which is not installed: pip install "epsworth[onnx]"'
        ) from None
    session = model
    if not isinstance(model, onnxruntime.InferenceSession):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ValueError(f"onnxruntime cannot run the ONNX model: {str(error).splitlines()[0]}") from None
    _check_inputs(session.get_inputs())
    return OnnxPredict(model, session, _output(session.get_outputs(), graph_of(model)))


def _check_inputs(inputs: list[Any]) -> None:
    for one in inputs:
        if one.type not in KINDS:
            raise ValueError(
                f"the ONNX model's input {one.name!r} is of type {one.type}; records are numbers and words"
            )
        if len(one.shape) > 2 or (len(inputs) > 1 and len(one.shape) == 2 and one.shape[1] not in (1, None)):
            raise ValueError(
                f"the ONNX model's input {one.name!r} has the shape {one.shape}; give a model with one input of "
                "shape (records, features), or with one input per column"
            )
        if isinstance(one.shape[0], int):
            raise ValueError(
                f"the ONNX model answers exactly {one.shape[0]} records at a time; export it with a first dimension "
                "that is free"
            )


def _output(outputs: list[Any], graph: Graph | None) -> Output:
    """Choose the output that labels are read off."""
    named = [one for one in outputs if one.type in NAMED and graph is not None and graph.holds_labels(one.name)]
    if len(named) > 1:
        named = [one for one in named if "label" in one.name.lower()] or named
    if len(named) == 1:
        return Output(named[0].name, "label", None if graph is None else graph.labels_of(named[0].name))
    if named:
        names = ", ".join(one.name for one in named)
        raise ValueError(f"the ONNX model has several outputs that may be the label: {names}; name one of them 'label'")
    single = outputs[0] if len(outputs) == 1 and outputs[0].type in ("tensor(float)", "tensor(double)") else None
    if single is not None and (output := _rule(single, graph)) is not None:
        return output
    what = ", ".join(f"{one.name} ({one.type})" for one in outputs)
    if graph is None:
        raise ValueError(
            f"the onnxruntime session does not hold its graph, and nothing says which label its outputs mean: "
            f"{what}; give the onnx.ModelProto, or the file"
        )
    raise ValueError(
        "the ONNX model's outputs are scores or computed from them, and nothing says which label they mean: "
        f"{what}; export it with its labels, as ArgMax or a comparison gives them, or give a function from records "
        "to labels"
    )


def _ends_linearly(graph: Graph, node: Any) -> bool:
    """Tell whether a node is a linear layer, whose one output is a logit."""
    if node is not None and node.op_type == "Add":
        node = graph.producers.get(node.input[0])
        return node is not None and node.op_type == "MatMul"
    return node is not None and node.op_type in ("Gemm", "MatMul")


def _rule(score: Any, graph: Graph | None) -> Output | None:
    node = None if graph is None else graph.made_by(score.name)
    kind = None if node is None else node.op_type
    width = score.shape[1] if len(score.shape) == 2 else 1
    if kind in REGRESSORS or len(score.shape) > 2:
        return None
    if isinstance(width, int) and width > 1:
        return Output(score.name, "argmax", tuple(range(width)))
    if width == 1 and kind == "Sigmoid":
        return Output(score.name, "half", (0, 1))
    if width == 1 and graph is not None and _ends_linearly(graph, node):
        return Output(score.name, "sign", (0, 1))
    return None
