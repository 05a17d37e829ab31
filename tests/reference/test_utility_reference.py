"""Independently computed values (34-digit quadrature; see each entry's ``how``) at their stated tolerance."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.bounds import Risk, clopper_pearson
from epsworth.classifiers.pipeline import ShortCuts
from epsworth.classifiers.trees import LEAF, TreeModel
from epsworth.mechanisms import MECHANISMS, PrivacyIndicator, gaussian_sigma, hockey_stick
from epsworth.utility.engines.cells import CellTables, TreeCells, cells_for
from epsworth.utility.engines.engine import Settings

pytestmark = pytest.mark.cases("all")  # every value of the specifications

ENTRIES = json.loads((Path(__file__).parent / "utility.json").read_text())["entries"]
CALIBRATIONS = {"t4": "theorem4", "tail": "exact_tail", "agm": "analytic", "analytic_gaussian": "analytic"}


def entries(category, **having):
    found = [e for e in ENTRIES if e["category"] == category]
    found = [e for e in found if all(e["input"].get(key) == value for key, value in having.items())]
    assert found, f"no reference entry in category {category}"
    return pytest.mark.parametrize("entry", found, ids=[e["id"] for e in found])


def mechanism(given, epsilon):
    name, options = given["mechanism"], {}
    if given.get("grid_points"):
        options["k"] = given["grid_points"]
    if name.startswith("gaussian"):
        _, calibration, clipping = name.split("_")
        options = {"delta": given["delta"], "calibration": CALIBRATIONS[calibration]}
        name = "gaussian_clipped" if clipping == "clipped" else "gaussian"
    return MECHANISMS[name](epsilon, **options)


@entries("box_probability")
def test_mass_of_a_box(entry):
    given = entry["input"]
    found = mechanism(given, given["eps"]).law(given["x"]).mass(*given["box"])
    assert float(found) == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


@entries("product_box")
def test_mass_of_a_product_box(entry):
    given = entry["input"]
    one = mechanism(given, given["eps_per_dim"])
    product = math.prod(float(one.law(x).mass(*box)) for x, box in zip(given["x"], given["box"], strict=True))
    reveal = given.get("joint_indicator_delta", 0.0)
    assert reveal + (1 - reveal) * product == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


@entries("moments")
def test_moments(entry):
    given = entry["input"]
    law = mechanism(given, given["eps"]).law(given["x"])
    assert float(law.mean()) == pytest.approx(float(entry["value"]["mean"]), abs=entry["abs_tol"])
    assert float(law.var()) == pytest.approx(float(entry["value"]["variance"]), abs=entry["abs_tol"])


@entries("sigma")
def test_gaussian_calibrations(entry):
    given = entry["input"]
    kind = given["kind"]
    if kind == "joint_exact_tail":
        found = gaussian_sigma(given["total_eps"], given["total_delta"], "exact_tail", math.sqrt(given["dims"]))
    elif kind == "hockey_stick_delta_at_theorem4":
        found = hockey_stick(gaussian_sigma(given["eps"], given["delta"], "theorem4"), given["eps"])
    else:
        found = gaussian_sigma(given["eps"], given["delta"], CALIBRATIONS.get(kind, kind))
    allowed = 1e-11 * float(entry["value"])  # what counted roundings may move sigma upwards
    assert float(found) == pytest.approx(float(entry["value"]), abs=max(entry["abs_tol"], allowed))


@entries("tight_privacy")
def test_tight_epsilon(entry):
    given = entry["input"]
    found = mechanism(given, given["eps_nominal"]).tight_epsilon
    assert found == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


@entries("indicator_failure")
def test_indicator_failure(entry):
    given = entry["input"]
    found = PrivacyIndicator(mechanism(given, given["eps"]), given["delta"]).loss_exceeds()
    assert found == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


@entries("ceiling")
def test_ceiling(entry):
    given = entry["input"]
    found = ew.ceiling(given["total_eps"], given["labels"], given["delta"])
    assert found == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


PAPER_EXAMPLES = {
    "laplace eps for concentration 0.8, theta 0.3": lambda: math.log(5) / 0.3,
    "laplace concentration at eps 5.2, theta 0.3": lambda: mass("laplace", 5.2),
    "pm concentration eps 2 theta 0.3 x 0.5 (paper prints 0.86)": lambda: mass("pm", 2.0),
    "pm eps for concentration 0.8, theta 0.3, x 0.5": lambda: 2 * math.log(2),
    "pm concentration at eps 1.8": lambda: mass("pm", 1.8),
    "pm at eps 1.8 times (1-0.05)(1-0.01)": lambda: mass("pm", 1.8) * 0.95 * 0.99,
    "krr eps 2 theta 0.3, grid {0,0.01,..,1} (101 points)": lambda: mass("krr", 2.0),
}


def mass(name, epsilon):
    return float(MECHANISMS[name](epsilon).law(0.5).mass(0.2, 0.8))


@pytest.mark.parametrize("what", PAPER_EXAMPLES)
def test_paper_examples(what):
    entry = next(e for e in ENTRIES if e["category"] == "paper_example" and e["input"]["what"] == what)
    assert PAPER_EXAMPLES[what]() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


def test_the_epsilons_at_which_the_paper_reaches_its_concentration():
    """What the two inverse entries mean: the mass is 0.8 there, and less at the paper's own 5.2."""
    assert mass("laplace", math.log(5) / 0.3) == pytest.approx(0.8, abs=1e-12)
    assert mass("pm", 2 * math.log(2)) == pytest.approx(0.8, abs=1e-12)
    assert mass("laplace", 5.2) < 0.8


@entries("sample_size")
def test_draws_without_failure(entry):
    """The printed number is the first at which a one-sided 95 % (99.9 %) bound on failures reaches 0.01."""
    n = entry["value"]
    level = 0.05 if n < 500 else 0.001
    _, just_enough = clopper_pearson(0, n, 2 * level)
    _, one_less = clopper_pearson(0, n - 1, 2 * level)
    assert just_enough <= 0.01 < one_less


def agrees(given):
    """Return the reference's classifier as a function of the sensitive coordinates -> labels."""
    if "trees" in given:
        return lambda Z: majority(given["trees"], Z)
    if given["classifier"] == "relu_2_2_2":
        p = {key: np.array(v) for key, v in given["params"].items() if key != "labels"}
        return lambda Z: 1 + np.argmax(np.maximum(Z @ p["A1"].T + p["c1"], 0) @ p["A2"].T + p["c2"], axis=1)
    if given["classifier"] == "linear_3class":
        W, b = np.array(given["params"]["W"]), np.array(given["params"]["b"])
        return lambda Z: np.argmax(Z @ W.T + b, axis=1)
    w, b = np.array(given["w"]), given["b"]
    return lambda Z: (Z @ w + b > 0).astype(int)


def majority(trees, Z):
    votes = np.array([[walk(tree, z) for tree in trees] for z in Z])
    labels = np.unique(votes)
    counts = (votes[:, :, np.newaxis] == labels).sum(axis=1)
    return labels[np.argmax(counts, axis=1)]


def walk(node, z):
    while "label" not in node:
        node = node["left"] if z[node["feature"]] <= node["threshold"] else node["right"]
    return node["label"]


def sampled(entry, **settings):
    given = entry["input"]
    curves = ew.stability(
        agrees(given),
        np.array([given["x"]]),
        sensitive=given.get("sensitive", list(range(len(given["x"])))),
        mechanisms={"it": lambda epsilon: mechanism(given, epsilon)},
        per="feature",
        epsilons=[given["eps_per_dim"]],
        rng=11,
        method="sampled",
        confidence=1 - 1e-6,  # false-alarm rate of each test
        **settings,
    )
    assert "label" not in given or curves.labels[0] == given["label"]
    return curves.lower.item(), curves.upper.item()


@entries("tree_rho")
def test_sampled_interval_holds_the_truth_for_trees(entry):
    lower, upper = sampled(entry, tolerance=0.05)
    assert lower <= float(entry["value"]) <= upper


@entries("linear_rho")
def test_sampled_interval_holds_the_truth_for_linear_models(entry):
    lower, upper = sampled(entry, tolerance=0.01)
    assert lower <= float(entry["value"]) <= upper


@entries("grid_blackbox_rho")
def test_sampled_interval_holds_the_truth_on_grids(entry):
    lower, upper = sampled(entry, tolerance=0.01)
    assert lower <= float(entry["value"]) <= upper


@entries("linear_bracket")
@pytest.mark.cases(1)
def test_sampled_interval_meets_the_bracket_of_thirty_features(entry):
    given, bracket = entry["input"], entry["value"]
    name = given["mechanism"]
    if name.startswith("gaussian") and not name.endswith(("clipped", "unclipped")):
        pytest.fail(f"unknown mechanism {name} in the reference")
    lower, upper = sampled(entry, tolerance=0.01)
    assert lower <= bracket["upper"]
    assert bracket["lower"] <= upper


def exactly(entry, model, **settings):
    given = entry["input"]
    return ew.stability(
        model, np.array([given["x"]]), sensitive=given.get("sensitive", list(range(len(given["x"])))),
        mechanisms={"it": lambda epsilon: mechanism(given, epsilon)},
        per="feature", epsilons=[given["eps_per_dim"]], **settings,
    )  # fmt: skip


@entries("grid_blackbox_rho")
def test_the_grid_engine_is_exact(entry):
    curves = exactly(entry, agrees(entry["input"]), method="grid")
    assert curves.labels[0] == entry["input"]["label"]
    assert curves.lower.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])
    assert curves.upper.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


def as_tree_model(trees):
    """The reference's nested trees as one flat model: one vote per tree and label."""
    labels = sorted({leaf for tree in trees for leaf in leaves(tree)})
    nodes, roots = [], []

    def add(node):
        at = len(nodes)
        nodes.append(None)
        if "label" in node:
            nodes[at] = (LEAF, LEAF, LEAF, 0.0, [float(label == node["label"]) for label in labels])
        else:
            nodes[at] = (node["feature"], add(node["left"]), add(node["right"]), node["threshold"], [0.0] * len(labels))
        return at

    roots = [add(tree) for tree in trees]
    feature, left, right, threshold, values = (np.array(column) for column in zip(*nodes, strict=True))
    return TreeModel(
        feature, left, right, threshold.astype(float), np.array(roots), values, np.zeros(len(labels)),
        np.array(labels), np.float64,
    )  # fmt: skip


def leaves(node):
    return [node["label"]] if "label" in node else [*leaves(node["left"]), *leaves(node["right"])]


@entries("tree_rho")
def test_the_cell_engine_is_exact(entry):
    given = entry["input"]
    asked = ew.Problem.of(
        agrees(given), np.array([given["x"]]), sensitive=given["sensitive"],
        mechanisms={"it": lambda epsilon: mechanism(given, epsilon)}, per="feature", epsilons=[given["eps_per_dim"]],
        domain=None, y=None,
    )  # fmt: skip
    model = as_tree_model(given["trees"])
    asked.readings[cells_for] = TreeCells(
        asked, model, np.array([given["x"]]), ShortCuts(model.before, asked.records, {})
    )
    found = CellTables().bound(asked, Settings(Risk(0), 0.01, None, np.random.default_rng(0), lambda share: None))
    assert found.stability.lower.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])
    assert found.stability.upper.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


def line(given):
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array([given["w"]]), np.array([given["b"]])
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(given["w"])
    return model


@entries("linear_rho")
def test_the_linear_engine_holds_the_truth(entry):
    """Within rounding where there is a closed form (pm, sw, unclipped noise), within 1e-3 elsewhere."""
    given, truth = entry["input"], float(entry["value"])
    curves = exactly(entry, line(given), method="lattice", tolerance=1e-3)
    assert curves.lower.item() - entry["abs_tol"] <= truth <= curves.upper.item() + entry["abs_tol"]
    closed = given["mechanism"] == "laplace" or given["mechanism"].endswith("unclipped")
    closed |= given["mechanism"] in ("pm", "sw") and len(given["w"]) <= 3
    assert curves.upper.item() - curves.lower.item() <= (1e-8 if closed else 1e-3)


@entries("grid_blackbox_rho", classifier="linear_3class")
def test_polygons_are_exact_on_grids(entry):
    given = entry["input"]
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array(given["params"]["W"]), np.array(given["params"]["b"])
    model.classes_, model.n_features_in_ = np.arange(3), 2
    curves = exactly(entry, model, method="polygons")
    assert curves.method.item() == "polygons"
    assert curves.lower.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])
    assert curves.upper.item() == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


@entries("linear_bracket")
def test_the_lattice_meets_the_bracket_of_thirty_features(entry):
    curves = exactly(entry, line(entry["input"]), method="lattice", tolerance=2e-3)
    assert curves.lower.item() <= entry["value"]["upper"]
    assert entry["value"]["lower"] <= curves.upper.item()
    assert curves.upper.item() - curves.lower.item() <= 2e-3
