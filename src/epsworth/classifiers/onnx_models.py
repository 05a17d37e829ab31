"""ONNX models: which output is the label, records fed to the inputs, and what is seen inside.

Neither onnx nor onnxruntime is imported before somebody gives such a model.  The graph says what an output means:

- an output of whole numbers, words or booleans is the label where it comes from an operation that chooses (ArgMax, a
  comparison, a classifier, a table of labels); one that is computed, such as a rounded score, is refused;
- of several scores the label is the place of the largest, as for a PyTorch module;
- a single score is compared with 1/2 behind a Sigmoid, and with 0 where it is that of a linear layer; any other one,
  such as a regressor's or a probability from elsewhere, is refused: nothing says which of its values is which label.

*Inside*, from the input to the label, may be a tree ensemble, or linear layers and activations.  A graph is
data, and says all that onnxruntime does; what it computes in single precision is rounded, so near ties are asked about.
Which score wins is the runtime's own rule (`_scores`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.classifiers.networks import LOGISTIC, TANH, Activation, Affine, Network, Rectifier, network_of
from epsworth.classifiers.pipeline import Preprocessing
from epsworth.classifiers.reading import UNREADABLE, ClassifierError, Predict, Unsupported
from epsworth.classifiers.transformers import Columns
from epsworth.classifiers.trees import LEAF, NO_TREES, TreeModel

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


SINGLE = 2.0**-24  # unit roundoff of single precision
ELEMENTWISE = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
SQUASHED = 64.0  # absolute terms of a score that is compared behind a softmax or sigmoid: 6e-5 of it stays open
FLOAT, DOUBLE = 1, 11  # kinds of elements in ONNX
MODES = {
    b"BRANCH_LEQ": (False, False),
    b"BRANCH_LT": (True, False),
    b"BRANCH_GTE": (True, True),
    b"BRANCH_GT": (False, True),
}
"""Per comparison: whether equal values take the other way, and whether the true branch is that of larger values."""
NODES = ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids")
ACTIVATIONS: dict[str, Activation] = {"Relu": Rectifier(), "Tanh": TANH, "Sigmoid": LOGISTIC}
PASSING = ("Identity", "Reshape", "Flatten", "ArrayFeatureExtractor", "Cast", "ArgMax", "Concat")


@dataclass(frozen=True, eq=False)
class Scale:
    """A node that scales or shifts every column by itself, in the precision of the graph."""

    kind: str
    numbers: tuple[NDArray[Any], ...]
    dtype: Any

    def transform(self, records: Any) -> NDArray[Any]:
        """Return what is handed on: the operations of the runtime, in its order."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            seen = np.asarray(records).astype(self.dtype)
            first, *others = (one.astype(self.dtype) for one in self.numbers)
            if self.kind == "Scaler":
                return np.asarray((seen - first) * others[0])
            return np.asarray(ELEMENTWISE[self.kind](seen, first))

    def affine(self) -> tuple[Floats, Floats]:
        """Return what is multiplied, and what is then added."""
        zero, one = (self.transform(np.full(self.numbers[0].size, end)).astype(np.float64) for end in (0.0, 1.0))
        number = self.numbers[-1].astype(np.float64)
        scale = number if self.kind in ("Scaler", "Mul") else 1 / number if self.kind == "Div" else one * 0 + 1
        return scale, zero


def scale_of(graph: Graph, node: Any, dtype: Any) -> Scale | None:
    """Read a node that scales or shifts columns by constants; None for other nodes."""
    if node.op_type == "Scaler":
        given = attributes(node)
        return Scale("Scaler", (np.asarray(given["offset"]), np.asarray(given["scale"])), dtype)
    if node.op_type not in ELEMENTWISE or node.input[1] not in graph.constants:
        return None
    number = graph.constants[node.input[1]]
    return Scale(node.op_type, (number.ravel(),), dtype) if number.size == number.shape[-1] else None


@dataclass(frozen=True, eq=False)
class Path:
    """What lies between the one input of a graph and its label: nodes that each take what the one before it gives."""

    graph: Graph
    nodes: tuple[Any, ...]
    kind: int  # of the input's elements
    classes: NDArray[Any]
    rule: str


def path_of(model: Any) -> Path:
    """Return the way from the input of a model to its label, or why it is not a plain one."""
    graph = graph_of(model)
    if graph is None:
        raise Unsupported("the session does not hold its file")
    if len(graph.inputs) != 1:
        raise Unsupported("the ONNX model has several inputs")
    output = onnx_answer(model).output
    if output.classes is None:
        raise Unsupported("the ONNX model does not say its labels")
    nodes: list[Any] = []
    name, (start, kind) = output.name, next(iter(graph.inputs.items()))
    while name != start:
        node = graph.producers.get(name)
        if node is None or node in nodes:
            raise Unsupported("the label does not depend on the input alone")
        nodes.append(node)
        given = [one for one in node.input if one and one not in graph.constants]
        if _complement(graph, node):
            given = given[-1:]
        if len(given) != 1:
            raise Unsupported(f"its ONNX node {node.op_type} joins several values")
        name = given[0]
    return Path(graph, tuple(reversed(nodes)), kind, np.asarray(output.classes), output.rule)


def _complement(graph: Graph, node: Any) -> bool:
    """Tell whether a node puts 1 - p beside p, as skl2onnx does with the one probability of a network."""
    other = graph.producers.get(node.input[0]) if node.op_type == "Concat" and len(node.input) == 2 else None
    if other is None or other.op_type != "Sub" or other.input[1] != node.input[1]:
        return False
    return bool(np.all(graph.constants.get(other.input[0], 0) == 1))


def onnx_trees(model: Any) -> TreeModel:
    """Return the trees of a ``TreeEnsembleClassifier`` that is given the records, scaled at most."""
    try:
        return _trees(path_of(model))
    except (*UNREADABLE, StopIteration, Unsupported):
        raise Unsupported(NO_TREES) from None


def _trees(path: Path) -> TreeModel:
    kinds = [node.op_type for node in path.nodes]
    at = kinds.index("TreeEnsembleClassifier")
    labels = path.graph.producers[path.nodes[at].output[0]] is path.nodes[at]
    passes = set(kinds[at + 1 :]) <= {"Identity", "Cast", "Reshape"}
    if path.rule != "label" or path.kind not in (FLOAT, DOUBLE) or not labels or not passes:
        raise Unsupported(NO_TREES)
    single = path.kind == FLOAT or any(_casts_to(node, FLOAT) for node in path.nodes[:at])
    trees = _ensemble(attributes(path.nodes[at]), np.float32 if single else np.float64, path.classes)
    steps = _steps_before(path, at)
    if not steps:
        return trees
    width = max(number.size for step in steps for number in step.numbers)
    columns = Columns.of_records(width)
    for step in steps:
        columns = columns.scaled(*(np.broadcast_to(part, width) for part in step.affine()))
    return replace(trees, before=Preprocessing(tuple(steps), columns))


def _casts_to(node: Any, kind: int) -> bool:
    return bool(node.op_type == "Cast" and attributes(node).get("to") == kind)


def _leaves_numbers(node: Any) -> bool:
    """Tell whether a node hands on numbers as they are: imputers fill gaps."""
    fills = node.op_type == "Imputer" and np.isnan(attributes(node).get("replaced_value_float", 0.0))
    return bool(fills or node.op_type == "Identity" or _casts_to(node, FLOAT))


def _steps_before(path: Path, at: int) -> list[Scale]:
    """Return the scalers before a node."""
    steps, dtype = [], np.float32 if path.kind == FLOAT else np.float64
    for node in path.nodes[:at]:
        dtype = np.float32 if _casts_to(node, FLOAT) or node.op_type == "Scaler" else dtype
        step = scale_of(path.graph, node, dtype)
        if step is not None:
            steps.append(step)
        elif not _leaves_numbers(node):
            raise Unsupported(NO_TREES)
    return steps


def _ensemble(given: dict[str, Any], dtype: Any, classes: NDArray[Any]) -> TreeModel:
    """Read an ensemble, the nodes of every tree in a row, its root first."""
    modes = given["nodes_modes"]
    if any(name.endswith("_as_tensor") for name in given) or set(modes) - {*MODES, b"LEAF"}:
        raise Unsupported(NO_TREES)  # equalities, numbers of double precision
    leaf, rules = np.array([mode == b"LEAF" for mode in modes]), [MODES.get(mode, (False, False)) for mode in modes]
    parts = [np.asarray(given[f"nodes_{name}"]) for name in NODES]
    inner = parts[0][~leaf].tolist()
    children = {key for way in parts[4:] for key in zip(inner, way[~leaf].tolist(), strict=True)}
    child = np.array([key in children for key in zip(parts[0].tolist(), parts[1].tolist(), strict=True)])
    order = np.lexsort((np.arange(len(leaf)), child, parts[0]))
    tree, node, feature, value, *ways = (part[order] for part in parts)
    leaf, (below, larger) = leaf[order], np.array(rules)[order].T
    place = {key: i for i, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
    true, false = (
        np.array([place.get(key, LEAF) for key in zip(tree.tolist(), way.tolist(), strict=True)]) for way in ways
    )
    threshold = value.astype(np.float32).astype(dtype)
    threshold = np.where(below, np.nextafter(threshold, dtype(-np.inf)), threshold)  # x < t: x <= the number before it
    left, right = np.where(larger, false, true), np.where(larger, true, false)
    below_others = np.sort(np.concatenate([left[~leaf], right[~leaf]]))
    roots, starts = np.setdiff1d(np.arange(len(leaf)), below_others), np.unique(tree, return_index=True)[1]
    if LEAF in below_others or (np.diff(below_others) == 0).any() or not np.array_equal(roots, starts):
        raise Unsupported(NO_TREES)  # a child of two nodes, or of none
    values, offset = _scores(given, place, leaf, len(classes))
    # a sum of n numbers in single precision is off by n units of the sum of their sizes (Higham 2002, section 4.2)
    largest = np.zeros((len(roots), values.shape[1]))
    np.maximum.at(largest, np.unique(tree, return_inverse=True)[1], np.abs(values))
    sizes = largest.sum(axis=0) + np.abs(offset) + 1
    return TreeModel(
        feature=np.where(leaf, LEAF, feature).astype(np.intp),
        left=np.where(leaf, LEAF, left).astype(np.intp),
        right=np.where(leaf, LEAF, right).astype(np.intp),
        threshold=threshold.astype(np.float64),
        roots=roots.astype(np.intp),
        values=values,
        offset=offset,
        classes=classes,
        dtype=dtype,
        tie=float(4 * (len(roots) + 2) * SINGLE * sizes.max() / len(roots)),
    )


def _scores(
    given: dict[str, Any], place: dict[tuple[int, int], int], leaf: NDArray[np.bool_], classes: int
) -> tuple[Floats, Floats]:
    """Return what leaves add to the scores, and the offset, such that the label is read as `TreeModel` says.

    onnxruntime's rule, of two classes: of weights for one of them, label 1 where their sum exceeds 1/2 if no weight is
    negative, and else 0; of weights for both, label 1 where its own sum exceeds 0.  Of more classes the first largest
    sum, among those that have any.
    """
    ids, weights = np.asarray(given["class_ids"]), np.asarray(given["class_weights"], dtype=np.float64)
    base = np.asarray(given.get("base_values", ()), dtype=np.float64)
    at = np.array([place[key] for key in zip(given["class_treeids"], given["class_nodeids"], strict=True)])
    sums, weighted = np.zeros((len(leaf), classes)), np.zeros((len(leaf), classes), dtype=bool)
    np.add.at(sums, (at, ids), weights)
    weighted[at, ids] = True
    if not leaf[at].all():
        raise Unsupported(NO_TREES)
    if classes > 2 and weighted.any(axis=0).all() and base.size in (0, classes):
        return sums, base if base.size else np.zeros(classes)
    if classes == 2 and base.size <= 1 and len(set(ids.tolist())) == 1:
        cut = 0.5 if (weights >= 0).all() else 0.0
        return sums[:, ids[0]][:, np.newaxis], np.array([base.sum() - cut])
    if classes == 2 and base.size <= 1 and weighted[leaf, 1].all():
        return sums[:, 1:], np.zeros(1)
    raise Unsupported(NO_TREES)


def onnx_network(model: Any) -> Network:
    """Return the linear layers and activations of a model, or why there are none."""
    path = path_of(model)
    try:
        return _network(path)
    except (*UNREADABLE, StopIteration):
        raise Unsupported("its ONNX nodes are not those of a network") from None


def _network(path: Path) -> Network:
    steps: list[Affine | Activation] = []
    squashed, chosen, smooth = False, path.rule == "argmax", False
    last = next(node for node in reversed(path.nodes) if node.op_type not in PASSING)  # that computes anything
    for node in path.nodes:
        given, kind = attributes(node), node.op_type
        if _leaves_numbers(node) or (chosen and kind in ("Reshape", "Cast", "ArrayFeatureExtractor")):
            continue
        if chosen and path.rule == "label":
            raise Unsupported(f"its ONNX node {kind} follows the choice of a label")
        if kind == "ArgMax":
            if given.get("axis", 0) not in (1, -1) or given.get("select_last_index", 0):
                raise Unsupported("its ONNX node ArgMax is not over the scores")
            chosen = True
        elif kind in ("Softmax", "Concat") or (kind == "Sigmoid" and node is last):
            _check_squashing(kind, given, steps)
            squashed = True
        elif squashed:
            raise Unsupported(f"its ONNX node {kind} follows probabilities")
        else:
            steps.append(_layer(path.graph, node, given, smooth))
            chosen, smooth = chosen or kind == "LinearClassifier", not isinstance(steps[-1], (Affine, Rectifier))
    if squashed and steps and isinstance(steps[-1], Affine):
        steps[-1] = replace(steps[-1], constants=steps[-1].constants + SQUASHED)
    if path.kind not in (FLOAT, DOUBLE) or not (chosen or path.rule in ("half", "sign")):
        raise Unsupported("its label is not that of its largest score")
    return network_of(steps, path.classes, SINGLE)


def _check_squashing(kind: str, given: dict[str, Any], steps: list[Affine | Activation]) -> None:
    """Refuse probabilities that do not rise with the scores, or are all 1 where these are large."""
    if kind == "Softmax" and given.get("axis", -1) not in (1, -1):
        raise Unsupported("its softmax is not over the scores")
    if kind == "Sigmoid" and not (steps and isinstance(steps[-1], Affine) and len(steps[-1].biases) == 1):
        raise Unsupported("its several sigmoids are all 1 where scores are large")


def _affine(weights: Floats, biases: Floats, smooth: bool) -> Affine:
    """Return a layer; behind a smooth activation, which the runtime approximates, its inputs count as at least 1."""
    layer = Affine.of(weights, biases)
    return replace(layer, constants=layer.constants + np.abs(weights).sum(axis=1)) if smooth else layer


def _layer(graph: Graph, node: Any, given: dict[str, Any], smooth: bool) -> Affine | Activation:
    kind, first = node.op_type, bool(node.input) and node.input[0] not in graph.constants
    numbers = [np.asarray(graph.constants[one], dtype=np.float64) for one in node.input if one in graph.constants]
    if kind == "LinearClassifier":
        intercepts = np.asarray(given["intercepts"], dtype=np.float64)
        return _affine(np.reshape(given["coefficients"], (len(intercepts), -1)).astype(np.float64), intercepts, smooth)
    if kind == "Gemm" and first and not given.get("transA", 0):
        weights = given.get("alpha", 1.0) * (numbers[0] if given.get("transB", 0) else numbers[0].T)
        biases = given.get("beta", 1.0) * numbers[1] if len(numbers) > 1 else np.zeros(1)
        return _affine(weights, np.zeros(len(weights)) + biases.ravel(), smooth)
    if kind == "MatMul" and first and numbers[0].ndim == 2:
        return _affine(numbers[0].T, np.zeros(numbers[0].shape[1]), smooth)
    if (scaled := scale_of(graph, node, np.float64)) is not None:
        scale, shift = scaled.affine()
        return Affine.per_column(scale, shift, np.abs(shift))
    if kind == "BatchNormalization" and len(numbers) == 4 and not given.get("training_mode", 0):
        factor, shift, mean, variance = numbers
        scale = factor / np.sqrt(variance + given.get("epsilon", 1e-5))
        return Affine.per_column(scale, shift - scale * mean, np.abs(shift) + np.abs(scale * mean))
    if kind == "LeakyRelu" and 0 <= (leak := given.get("alpha", 0.01)) <= 1:
        return Rectifier(leak)
    if kind in ACTIVATIONS:
        return ACTIVATIONS[kind]
    raise Unsupported(f"its ONNX node {kind} is not supported")
