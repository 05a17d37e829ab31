"""Zheng & Hu 2025: the two small classifiers of Examples 1 and 3 to 5, Figures 3 and 5, and the times of Table 2."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from epsworth.arrays import Floats
from epsworth.mechanisms import Mechanism, family
from epsworth.utility.radius import radius
from reproduction.items import Item, Outcome, Setting, judged
from reproduction.panels import Panel, Series, Span

X0 = np.array([0.5, 0.5])
BOXES = (((0.0, 0.55), (0.0, 0.8)), ((0.0, 0.7), (0.0, 0.7)))


def network() -> MLPClassifier:
    """Return the network of Example 5 as printed; one output unit: the second class less the first."""
    model = MLPClassifier((2,), max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is fitted for its shape alone
        model.fit([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 4, [1, 2, 1, 2] * 4)
    model.coefs_ = [np.array([[-1.86, 0.12], [-2.09, -0.46]]), np.array([[4.02 + 3.05], [-0.22 - 0.40]])]
    model.intercepts_ = [np.array([3.71, -0.08]), np.array([-0.58 - 0.94])]
    return model


def quadratic() -> QuadraticDiscriminantAnalysis:
    """Return the quadratic classifier of Example 4."""
    rng = np.random.default_rng(0)
    model = QuadraticDiscriminantAnalysis().fit(rng.random((20, 2)), np.arange(20) % 2 + 1)
    model.means_ = np.array([[0.0, 0.0], [1.0, 1.0]])
    model.rotations_, model.scalings_ = [np.eye(2), np.eye(2)], [np.ones(2), 2 * np.ones(2)]
    model.priors_ = np.array([0.5, 0.5])
    return model


def _plane(title: str, model: Any, boxes: tuple[tuple[str, Span, Span], ...]) -> Panel:
    """Return the classes of a model over the unit square, with the record and some boxes."""
    points = np.stack(np.meshgrid(*[(np.arange(100) + 0.5) / 100] * 2), axis=-1).reshape(-1, 2)
    labels = (model.predict(points) != model.predict([X0])[0]).astype(float).reshape(100, 100)
    record = Series("x", X0[:1], X0[1:], "paper")
    return Panel(title, "first feature", "second feature", (record,), boxes=boxes, plane=labels, equal=True)


def _square(name: str, half: float) -> tuple[str, Span, Span]:
    return (name, (0.5 - half, 0.5 + half), (0.5 - half, 0.5 + half))


def example_1(setting: Setting) -> Outcome:
    """Compute the number of samples, and the radii of the two classifiers that the figure is said to show."""
    n = math.ceil(math.log(2 / 0.05) / (2 * 0.01**2))
    network_radius = radius(network(), X0, norm=np.inf, rng=0)
    quadratic_radius = radius(quadratic(), X0, norm=np.inf, rng=0)
    found = [network_radius.upper, quadratic_radius.upper]
    return Outcome(
        judged(abs(n / 1e4 - 1.8) < 0.05 and any(abs(value - 0.2) < 0.005 for value in found)),
        f"n = {n:,}; radius {found[0]:.4f} (Example 5), {found[1]:.4f} (Example 4)",
        "n holds; the radius is another model's",
        panels=tuple(
            _plane(title, model, (_square("radius .20, printed", 0.2), _square(f"radius {size:.3f}, ours", size)))
            for title, model, size in zip(
                ("network of Example 5", "QDA of Example 4"), (network(), quadratic()), found, strict=True
            )
        ),
    )


def example_3(setting: Setting) -> Outcome:
    """Ask both classifiers in both boxes, and how far the square box could grow."""
    kept = []
    for model in (network(), quadratic()):
        own = model.predict([X0])[0]
        for (a, b), (c, d) in BOXES:
            points = np.stack(np.meshgrid(np.linspace(a, b, 400), np.linspace(c, d, 400)), axis=-1).reshape(-1, 2)
            kept.append(bool((model.predict(points) == own).all()))
    # the circle about (-1, -1) is reached by the corner (b, b)
    grown = 2 * math.sqrt(math.log(2) + 1) / math.sqrt(2) - 1
    shown = (("printed", *BOXES[0]), ("printed, maximal", *BOXES[1]), _square("radius .2", 0.2))
    inside = [math.hypot(1 + box[0][1], 1 + box[1][1]) < 2 * math.sqrt(math.log(2) + 1) for box in BOXES]
    return Outcome(
        judged(all(kept) and all(inside) and grown <= 0.71, corrected=all(kept) and all(inside)),
        f"the boxes keep both labels ({sum(kept)} of {len(kept)}); the square grows to [0, {grown:.3f}]",
        "robust, not maximal; .20 is not the radius",
        panels=tuple(_plane(title, model, shown) for title, model in (("network", network()), ("QDA", quadratic()))),
    )


def example_4(setting: Setting) -> Outcome:
    """Compute both radii of the quadratic classifier."""
    printed = abs(2 * math.sqrt(math.log(2) + 1) - math.hypot(1.5, 1.5))
    euclidean, maximum = (radius(quadratic(), X0, norm=norm, rng=0) for norm in (2, np.inf))
    agree = math.isclose(euclidean.upper, printed, rel_tol=1e-4)
    return Outcome(
        judged(agree and maximum.upper >= printed / math.sqrt(2) * (1 - 1e-5)),
        f"l2 {euclidean.upper:.5f}, formula {printed:.5f}; l-infinity {maximum.upper:.5f}, "
        f"bound {printed / math.sqrt(2):.5f}",
    )


def example_5(setting: Setting) -> Outcome:
    """Evaluate the printed network at (.5, .5), by hand and as a classifier."""
    hidden = np.maximum(np.array([[-1.86, -2.09], [0.12, -0.46]]) @ X0 + [3.71, -0.08], 0)
    scores = np.array([[-3.05, 0.40], [4.02, -0.22]]) @ hidden + [0.94, -0.58]
    label, agrees = int(scores.argmax()) + 1, int(network().predict([X0])[0])
    found = radius(network(), X0, norm=np.inf, rng=0)
    return Outcome(
        judged(label == 1),
        f"scores {scores[0]:.3f} and {scores[1]:.3f}: class {label}; l-infinity radius {found.upper:.4f}"
        + ("" if label == agrees else f" ({agrees} as a fitted network)"),
        "the printed weights give class 2",
    )


def _sampled(mechanism: Mechanism, x: Floats, rng: np.random.Generator) -> float:
    began = time.perf_counter()
    values = mechanism.law(x).sample(2000, rng)
    ((values >= 0.63) & (values <= 1)).all(axis=1).mean()
    return 1e3 * (time.perf_counter() - began)


def table_2(setting: Setting) -> Outcome:
    """Time the mass of a box, and 2000 draws."""
    rng, x = np.random.default_rng(0), np.array([0.79, 0.48])
    theory, empirical = {}, {}
    for words in ("pm", "exponential", "laplace_clipped"):
        built = family(words).build(2.0)
        assert isinstance(built, Mechanism)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            built.law(x).mass(np.array([0.63, 0.0]), np.array([1.0, 1.0])).prod()
            times.append(1e3 * (time.perf_counter() - began))
        theory[words] = float(np.median(times))
        empirical[words] = float(np.median([_sampled(built, x, rng) for _ in range(20)]))
    ratio = empirical["exponential"] / theory["exponential"]
    return Outcome(
        judged(ratio > 300),
        "ms, theory / 2000 draws: " + ", ".join(f"{w} {theory[w]:.2f} / {empirical[w]:.2f}" for w in theory),
        f"drawn as arrays, exponential costs {ratio:.0f} times the formula, not 915; the box's search is left out",
    )


ITEMS = (
    Item(
        "ldp-utility/example-1",
        "Example 1, section 4.2.2",
        "tau = .02 and omega = .05 ask for 1.8e4 samples; the radius is .20.",
        example_1,
        quick=True,
    ),
    Item(
        "ldp-utility/fig-3",
        "Figure 3, section 4.2",
        "A box of radius .20 touches the boundary of Examples 4 and 5.",
        example_1,
        quick=True,
    ),
    Item(
        "ldp-utility/example-3",
        "Example 3, section 5.1",
        "Two boxes are robust, the second maximal.",
        example_3,
        quick=True,
    ),
    Item(
        "ldp-utility/fig-5",
        "Figure 5, section 5.1",
        "The boxes of Example 3, and the square of radius .2, keep the label.",
        example_3,
        quick=True,
    ),
    Item(
        "ldp-utility/example-4",
        "Example 4, appendix C.1.1",
        "The l2 radius in closed form, l-infinity at least 1/sqrt 2 of it.",
        example_4,
        quick=True,
    ),
    Item(
        "ldp-utility/example-5",
        "Example 5, appendix C.1.2",
        "A ReLU network equal to Example 4, of class 1 at (.5, .5).",
        example_5,
        quick=True,
    ),
    Item(
        "ldp-utility/table-2",
        "Table 2, section 7.2.1",
        "PM, exponential, Laplace: .24, .94, .30 ms by formula, 6.6, 860, 11 by 2000 draws.",
        table_2,
        quick=True,
    ),
)
