"""Independently computed values (34-digit quadrature; see each entry's ``how``) at their stated tolerance."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import epsworth as ew
from epsworth.bounds import clopper_pearson
from epsworth.mechanisms import FAMILIES, PrivacyIndicator, gaussian_sigma, hockey_stick

ENTRIES = json.loads((Path(__file__).parent / "utility.json").read_text())["entries"]
CALIBRATIONS = {"t4": "theorem4", "tail": "exact_tail", "agm": "analytic", "analytic_gaussian": "analytic"}


def entries(category, **having):
    found = [e for e in ENTRIES if e["category"] == category]
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
    return FAMILIES[name](epsilon, **options)


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
    assert float(found) == pytest.approx(float(entry["value"]), abs=entry["abs_tol"])


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
    return float(FAMILIES[name](epsilon).law(0.5).mass(0.2, 0.8))


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
def test_sampled_interval_meets_the_bracket_of_thirty_features(entry):
    given, bracket = entry["input"], entry["value"]
    name = given["mechanism"]
    if name.startswith("gaussian") and not name.endswith(("clipped", "unclipped")):
        pytest.fail(f"unknown mechanism {name} in the reference")
    lower, upper = sampled(entry, tolerance=0.01)
    assert lower <= bracket["upper"]
    assert bracket["lower"] <= upper
