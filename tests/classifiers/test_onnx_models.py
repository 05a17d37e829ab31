"""ONNX models: labels as onnxruntime gives them, trees and layers read inside, scores never taken for labels."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import epsworth as ew
from epsworth.classifiers.reading import adjacent_floats
from epsworth.classifiers.structure import read_network
from readings import tree_model

onnx = pytest.importorskip("onnx", reason="onnx is not installed; it is in the extra 'onnx'")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; it is in the extra 'onnx'")
from onnx import TensorProto, helper  # noqa: E402

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5)}
FLOAT, INTEGER, WORDS = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def graph(nodes, outputs, inputs=(("X", FLOAT, [None, 4]),), **constants):
    """Return a checked model of nodes, each written as (operation, inputs, outputs, attributes)."""
    ml = ("Classifier", "Regressor", "Scaler", "Imputer", "ArrayFeatureExtractor", "ZipMap")
    made = [
        helper.make_node(op, i, o, domain="ai.onnx.ml" if op.endswith(ml) else "", **more) for op, i, o, more in nodes
    ]
    found = helper.make_graph(
        made,
        "made",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(found, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def trees(rng, count, classes, *, ids=None, mode="BRANCH_LEQ", low=0.0, base=None, words=False):
    """Return the attributes of an ensemble of full trees of depth 2 over thresholds of the iris table."""
    nodes = {
        name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    given = {"class_treeids": [], "class_nodeids": [], "class_ids": [], "class_weights": []}
    for tree in range(count):
        for node in range(7):
            feature = int(rng.integers(4))
            row = (
                tree,
                node,
                feature,
                mode,
                float(np.float32(rng.choice(IRIS[:, feature]))),
                2 * node + 1,
                2 * node + 2,
            )
            leaf = (tree, node, 0, "LEAF", 0.0, 0, 0)
            for name, value in zip(nodes, row if node < 3 else leaf, strict=True):
                nodes[name].append(value)
            for label in ids or range(classes) if node >= 3 else ():
                weight = float(rng.uniform(low, 1)) / count
                for name, value in zip(given, (tree, node, label, weight), strict=True):
                    given[name].append(value)
    named = {"classlabels_strings": [*"abcdef"[:classes]]} if words else {"classlabels_int64s": [*range(classes)]}
    more = {} if base is None else {"base_values": base}
    return {f"nodes_{name}": values for name, values in nodes.items()} | given | named | more


def ensemble(*before, source="X", kind=INTEGER, **attributes):
    nodes = [*before, ("TreeEnsembleClassifier", [source], ["label", "scores"], attributes)]
    return graph(nodes, [("label", kind, [None]), ("scores", FLOAT, [None, None])])


SCALER = ("Scaler", ["X"], ["scaled"], {"offset": [5.8, 3.0, 3.7, 1.2], "scale": [1.2, 2.3, 0.57, 1.3]})
ENSEMBLES = {
    "shares of one class": lambda rng: ensemble(**trees(rng, 9, 2, ids=[0])),
    "shares of the second": lambda rng: ensemble(**trees(rng, 9, 2, ids=[1])),
    "margins": lambda rng: ensemble(**trees(rng, 9, 2, ids=[0], low=-1.0, base=[0.01])),
    "all positive, with a start": lambda rng: ensemble(**trees(rng, 9, 2, ids=[0], base=[0.05])),
    "both classes": lambda rng: ensemble(**trees(rng, 9, 2, low=-1.0)),
    "three classes": lambda rng: ensemble(**trees(rng, 9, 3)),
    "words": lambda rng: ensemble(kind=WORDS, **trees(rng, 9, 3, low=-1.0, base=[0.0, 0.1, -0.1], words=True)),
    "less": lambda rng: ensemble(**trees(rng, 9, 3, mode="BRANCH_LT")),
    "greater": lambda rng: ensemble(**trees(rng, 9, 2, ids=[0], mode="BRANCH_GT")),
    "greater or equal": lambda rng: ensemble(**trees(rng, 9, 2, ids=[0], mode="BRANCH_GTE")),
    "scaled": lambda rng: ensemble(SCALER, source="scaled", **trees(rng, 9, 3)),
}


def beside_thresholds(model, rng, count=20_000):
    """Return records on the thresholds of a model, and an ulp beside them."""
    thresholds = adjacent_floats(np.unique(model.threshold[model.left >= 0]).astype(np.float32)).astype(np.float64)
    return np.where(
        rng.uniform(size=(count, 4)) < 0.5, rng.choice(thresholds, (count, 4)), rng.choice(IRIS, count)[:, :4]
    )


@pytest.mark.parametrize("name", ENSEMBLES)
def test_trees_are_read_as_the_runtime_answers(name):
    """On thresholds, beside them, and anywhere: no clear label differs, and few are unclear."""
    rng = np.random.default_rng(3)
    model = ENSEMBLES[name](rng)
    found, classifier = tree_model(model), ew.as_classifier(model)
    records = beside_thresholds(found, rng)
    labels, clear = found.labels(found.before(records) if found.before.steps else records)
    answered = classifier.labels(records)
    assert len(set(answered.tolist())) > 1 or name == "all positive, with a start"
    assert (labels == answered)[clear].all()
    assert clear.mean() > 0.99


@pytest.mark.parametrize("name", ["class_weights", "nodes_values"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.cases("all")
def test_trees_of_what_is_no_number_are_not_read(name, value):
    given = trees(np.random.default_rng(3), 9, 2, ids=[0])
    assert tree_model(ensemble(**given)) is not None
    broken = given | {name: [value, *given[name][1:]]}
    thresholds_may_be_infinite = name == "nodes_values" and np.isinf(value)
    assert (tree_model(ensemble(**broken)) is not None) == thresholds_may_be_infinite


@pytest.mark.parametrize("name", ["margins", "three classes", "scaled"])
def test_stability_of_trees_is_exact(name):
    model = ENSEMBLES[name](np.random.default_rng(3))
    curves = ew.stability(model, IRIS[:6], sensitive=[0, 1], domain=RANGES, mechanisms="pm", epsilons=[2.0])
    assert set(curves.method.ravel()) == {"cells"}
    drawn = ew.stability(
        model, IRIS[:6], sensitive=[0, 1], domain=RANGES, mechanisms="pm", epsilons=[2.0], method="sampled", rng=1
    )  # misses with probability 0.001
    assert (drawn.lower <= curves.upper).all()
    assert (curves.lower <= drawn.upper).all()


def test_ensembles_that_are_not_understood_are_asked():
    rng = np.random.default_rng(3)
    odd = trees(rng, 3, 2, ids=[0])
    equal = ensemble(**(odd | {"nodes_modes": ["BRANCH_EQ" if m != "LEAF" else m for m in odd["nodes_modes"]]}))
    two_starts = ensemble(**(odd | {"base_values": [0.1, 0.2]}))
    some = trees(rng, 3, 3, ids=[0, 1])  # the third class never has a score
    for model in (equal, two_starts, ensemble(**some)):
        assert tree_model(model) is None
        assert set(ew.as_classifier(model).labels(IRIS)) <= {0, 1, 2}


WEIGHTS = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
BIASES = -(IRIS.mean(axis=0) @ WEIGHTS).astype(np.float32)


def linear(post="SOFTMAX", labels=("a", "b", "c")):
    attributes = {
        "coefficients": WEIGHTS.T.ravel().tolist(),
        "intercepts": BIASES.tolist(),
        "classlabels_strings": labels,
        "post_transform": post,
    }
    nodes = [("LinearClassifier", ["X"], ["label", "p"], attributes)]
    return graph(nodes, [("label", WORDS, [None]), ("p", FLOAT, [None, 3])])


def network(*ends, outputs=(("y", FLOAT, [None, 3]),), columns=3, hidden="Tanh"):
    nodes = [
        ("MatMul", ["X", "w"], ["a"], {}),
        ("Add", ["a", "b"], ["c"], {}),
        (hidden, ["c"], ["d"], {}),
        ("Gemm", ["d", "v", "u"], ["z"], {"transB": 1}),
        *ends,
    ]
    second = np.random.default_rng(7).normal(size=(columns, 3)).astype(np.float32)
    return graph(nodes, outputs, w=WEIGHTS, b=BIASES, v=second, u=np.zeros(columns, np.float32))


CHOICE = [
    ("Softmax", ["z"], ["p"], {"axis": -1}),
    ("ArgMax", ["p"], ["place"], {"axis": 1}),
    ("ArrayFeatureExtractor", ["classes", "place"], ["named"], {}),
    ("Reshape", ["named", "flat"], ["label"], {}),
]


def with_classes(model):
    model.graph.initializer.extend(
        [
            onnx.numpy_helper.from_array(np.array([4, 5, 6], dtype=np.int64), "classes"),
            onnx.numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat"),
        ]
    )
    return model


NETWORKS = {
    "linear": linear,
    "linear, as it is": lambda: linear("NONE"),
    "logits": lambda: network(outputs=[("z", FLOAT, [None, 3])]),
    "rectified": lambda: network(outputs=[("z", FLOAT, [None, 3])], hidden="Relu"),
    "one sigmoid": lambda: network(("Sigmoid", ["z"], ["p"], {}), outputs=[("p", FLOAT, [None, 1])], columns=1),
    "one logit": lambda: network(outputs=[("z", FLOAT, [None, 1])], columns=1),
}


@pytest.mark.parametrize("name", [*NETWORKS, "named"])
def test_layers_are_read_as_the_runtime_answers(name):
    model = with_classes(network_of_classes()) if name == "named" else NETWORKS[name]()
    (found, _), classifier = read_network(model), ew.as_classifier(model)
    records = np.random.default_rng(0).uniform(0, 8, (20_000, 4))
    scores = found.scores(records)
    lead = np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0]
    answered = classifier.labels(records)
    assert len(set(answered.tolist())) > 1
    assert (found.classes[scores.argmax(axis=1)] == answered)[lead > 1e-4].all()


def network_of_classes():
    nodes = [
        ("MatMul", ["X", "w"], ["a"], {}),
        ("Add", ["a", "b"], ["z"], {}),
        *CHOICE,
    ]
    made = [
        helper.make_node(op, i, o, domain="ai.onnx.ml" if op == "ArrayFeatureExtractor" else "", **more)
        for op, i, o, more in nodes
    ]
    found = helper.make_graph(
        made,
        "made",
        [helper.make_tensor_value_info("X", FLOAT, [None, 4])],
        [helper.make_tensor_value_info("label", INTEGER, [None])],
        [onnx.numpy_helper.from_array(WEIGHTS, "w"), onnx.numpy_helper.from_array(BIASES, "b")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(found, opset_imports=opsets, ir_version=8)


def test_linear_graphs_are_bracketed_by_the_linear_engines():
    model = linear()
    curves = ew.stability(model, IRIS[::30], sensitive=[0, 1], domain=RANGES, mechanisms="pm", epsilons=[1.0, 4.0])
    assert "sampled" not in set(curves.method.ravel())
    assert (curves.upper - curves.lower).max() < 1e-3
    drawn = ew.stability(
        model,
        IRIS[::30],
        sensitive=[0, 1],
        domain=RANGES,
        mechanisms="pm",
        epsilons=[1.0, 4.0],
        method="sampled",
        rng=1,
    )  # misses with probability 0.001
    assert (drawn.lower <= curves.upper).all()
    assert (curves.lower <= drawn.upper).all()


def test_rounding_to_single_precision_is_inside_the_bracket():
    """A record on the boundary in exact numbers, which single precision moves."""
    found, _ = read_network(linear())
    rng = np.random.default_rng(2)
    records = rng.uniform(0, 8, (4_000, 4))
    exact = records @ WEIGHTS.astype(np.float64) + BIASES.astype(np.float64)
    session = runtime.InferenceSession(linear("NONE").SerializeToString(), providers=["CPUExecutionProvider"])
    answered = session.run(["p"], {"X": records.astype(np.float32)})[0]
    layer = found.affine[0]
    allowed = layer.additions * found.unit * (np.abs(records) @ layer.terms.T + layer.constants)
    off = np.abs(answered - exact)
    assert (off <= allowed).all()
    assert off.max() > 1e-7  # double precision would not do


def columns_model():
    """Return a model with one input per column, as converters make them for data frames."""
    nodes = [
        ("Concat", ["age", "pay"], ["both"], {"axis": 1}),
        ("Cast", ["floors"], ["floor"], {"to": FLOAT}),
        ("Concat", ["both", "floor"], ["X"], {"axis": 1}),
        (
            "LinearClassifier",
            ["X"],
            ["label", "p"],
            {
                "coefficients": [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0],
                "intercepts": [0.5, -0.5],
                "classlabels_ints": [0, 1],
            },
        ),
    ]
    inputs = [("age", FLOAT, [None, 1]), ("pay", FLOAT, [None, 1]), ("floors", INTEGER, [None, 1])]
    return graph(nodes, [("label", INTEGER, [None]), ("p", FLOAT, [None, 2])], inputs)


def test_inputs_of_several_columns_are_fed_by_name():
    classifier = ew.as_classifier(columns_model())
    assert classifier.features == ("age", "pay", "floors")
    frame = pd.DataFrame({"floors": [0, 0, 2], "pay": [0.0, 0.6, -1.0], "age": [0.4, 0.4, 0.0]})
    assert classifier.labels(frame).tolist() == [0, 1, 1]
    assert classifier.labels(frame[["age", "pay", "floors"]].to_numpy()).tolist() == [0, 1, 1]
    with pytest.raises(ew.ClassifierError, match="takes whole numbers"):
        classifier.labels(frame.assign(floors=0.5))
    curves = ew.stability(
        columns_model(), frame, sensitive=["age"], domain={"age": (0, 1)}, mechanisms="pm", epsilons=[2.0], rng=1
    )
    assert curves.lower.shape[-1] == 3


def test_sessions_files_and_copies_answer_alike(tmp_path):
    model = ENSEMBLES["three classes"](np.random.default_rng(3))
    onnx.save(model, tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    want = ew.as_classifier(model).labels(IRIS)
    for other in (session, ew.load_model(tmp_path / "m.onnx")):
        assert (ew.as_classifier(other).labels(IRIS) == want).all()
        assert tree_model(other) is not None
    assert (pickle.loads(pickle.dumps(ew.as_classifier(model).answer))(IRIS) == want).all()


REGRESSION = {"coefficients": [1.0, 1.0, 1.0, 1.0], "intercepts": [0.0]}
CLASSIFYING = {"coefficients": WEIGHTS.T.ravel().tolist(), "intercepts": BIASES.tolist(), "classlabels_ints": [0, 1, 2]}
SCORES = {
    "a regressor": (
        [("LinearRegressor", ["X"], ["y"], REGRESSION)],
        [("y", FLOAT, [None, 1])],
    ),
    "a regressor, rounded to whole numbers": (
        [("LinearRegressor", ["X"], ["r"], REGRESSION), ("Cast", ["r"], ["y"], {"to": INTEGER})],
        [("y", INTEGER, [None, 1])],
    ),
    "percentages": (
        [
            ("MatMul", ["X", "w"], ["z"], {}),
            ("Softmax", ["z"], ["p"], {}),
            ("Mul", ["p", "two"], ["q"], {}),
            ("Cast", ["q"], ["label"], {"to": INTEGER}),
        ],
        [("label", INTEGER, [None, 3])],
    ),
    "a margin in whole numbers": (
        [("MatMul", ["X", "w"], ["z"], {}), ("Cast", ["z"], ["y"], {"to": INTEGER})],
        [("y", INTEGER, [None, 3])],
    ),
    "a score in words": (
        [("LinearRegressor", ["X"], ["r"], REGRESSION), ("Cast", ["r"], ["y"], {"to": WORDS})],
        [("y", WORDS, [None, 1])],
    ),
    "the best score of a ranking": (
        [("TopK", ["X", "one"], ["best", "place"], {}), ("Cast", ["best"], ["y"], {"to": INTEGER})],
        [("y", INTEGER, [None, 1])],
    ),
    "the scores beside a label": (
        [
            SCALER,
            ("LinearClassifier", ["scaled"], ["label", "p"], CLASSIFYING),
            ("Cast", ["p"], ["y"], {"to": INTEGER}),
        ],
        [("y", INTEGER, [None, 3])],
    ),
    "a choice between a label and a score": (
        [
            ("Greater", ["X", "two"], ["c"], {}),
            ("Cast", ["X"], ["i"], {"to": INTEGER}),
            ("Where", ["c", "one", "i"], ["y"], {}),
        ],
        [("y", INTEGER, [None, 4])],
    ),
    "the record itself": ([("Cast", ["X"], ["y"], {"to": INTEGER})], [("y", INTEGER, [None, 4])]),
    "one probability from a softmax": (
        [
            ("MatMul", ["X", "w"], ["z"], {}),
            ("Softmax", ["z"], ["p"], {}),
            ("Slice", ["p", "one", "two", "one"], ["y"], {}),
        ],
        [("y", FLOAT, [None, 1])],
    ),
    "zeros and ones that are no integers": (
        [("LinearRegressor", ["X"], ["r"], REGRESSION), ("Sign", ["r"], ["y"], {})],
        [("y", FLOAT, [None, 1])],
    ),
    "two tables of scores": (
        [("MatMul", ["X", "w"], ["y"], {}), ("Softmax", ["y"], ["z"], {})],
        [("y", FLOAT, [None, 3]), ("z", FLOAT, [None, 3])],
    ),
    "a table of tables": (
        [("Unsqueeze", ["X", "one"], ["y"], {})],
        [("y", FLOAT, [None, 1, 4])],
    ),
}


@pytest.mark.parametrize("name", SCORES)
def test_no_score_is_taken_for_a_label(name):
    nodes, outputs = SCORES[name]
    constants = {"w": WEIGHTS} if any("w" in node[1] for node in nodes) else {}
    if any("one" in node[1] for node in nodes):
        constants |= {"one": np.array([1], dtype=np.int64)}
    if any("two" in node[1] for node in nodes):
        slices = any(node[0] == "Slice" for node in nodes)
        constants |= {"two": np.array([2], dtype=np.int64 if slices else np.float32)}
    with pytest.raises(ValueError, match="nothing says which label they mean"):
        ew.as_classifier(graph(nodes, outputs, **constants))


CHOICES = {
    "the place of the largest": [("ArgMax", ["X"], ["y"], {"axis": 1})],
    "the place of the least, as another kind": [
        ("ArgMin", ["X"], ["i"], {"axis": 1}),
        ("Cast", ["i"], ["f"], {"to": FLOAT}),
        ("Cast", ["f"], ["y"], {"to": INTEGER}),
    ],
    "the first of a ranking": [("TopK", ["X", "one"], ["best", "y"], {})],
    "a comparison": [
        ("Gemm", ["X", "w"], ["z"], {}),
        ("Greater", ["z", "two"], ["c"], {}),
        ("Cast", ["c"], ["y"], {"to": INTEGER}),
    ],
    "one of two numbers": [
        ("Gemm", ["X", "w"], ["z"], {}),
        ("Less", ["z", "two"], ["c"], {}),
        ("Where", ["c", "one", "four"], ["y"], {}),
    ],
    "an entry of a table": [("ArgMax", ["X"], ["i"], {"axis": 1}), ("Gather", ["four", "i"], ["y"], {})],
    "a classifier's": [("LinearClassifier", ["X"], ["l", "p"], CLASSIFYING), ("Reshape", ["l", "shape"], ["y"], {})],
}


@pytest.mark.parametrize("name", CHOICES)
def test_whole_numbers_that_were_chosen_are_labels(name):
    known = {
        "one": np.array([1]),
        "two": np.array([2], np.float32),
        "four": np.array([4, 5, 6, 7] if "table" in name else [4]),
        "shape": np.array([-1, 1]),
        "w": WEIGHTS[:, :1],
    }
    used = {one for _, inputs, _, _ in CHOICES[name] for one in inputs}
    model = graph(CHOICES[name], [("y", INTEGER, [None, 1])], **{k: v for k, v in known.items() if k in used})
    raw = runtime.InferenceSession(model.SerializeToString()).run(["y"], {"X": IRIS.astype(np.float32)})[0]
    assert ew.as_classifier(model).labels(IRIS).tolist() == raw.ravel().tolist()


def test_a_session_without_its_graph_is_refused(tmp_path):
    onnx.save(graph(CHOICES["the place of the largest"], [("y", INTEGER, [None, 1])]), tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    (tmp_path / "m.onnx").unlink()
    with pytest.raises(ValueError, match="does not hold its graph"):
        ew.as_classifier(session)


def test_models_that_take_no_records_are_refused(tmp_path):
    identity = [("ArgMax", ["X"], ["label"], {"axis": 1, "keepdims": 0})]
    fixed = graph(identity, [("label", INTEGER, [3])], inputs=[("X", FLOAT, [3, 4])])
    with pytest.raises(ValueError, match="exactly 3 records at a time"):
        ew.as_classifier(fixed)
    (tmp_path / "m.onnx").write_bytes(b"no graph at all")
    with pytest.raises(ValueError, match="is not an ONNX file"):
        ew.load_model(tmp_path / "m.onnx")
