"""Zheng & Hu 2025, section 7.2.3 and appendix C.6: images of 7 x 7 pixels, all 49 sensitive (Figures 8, 15 and 16).

The paper's convolutional network is told by its name only; ours is `Convolutional`, on the same 60,000 images.  Per
image (epsilon, 0.1) through the privacy indicator, epsilon 1 to 8 per pixel.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.utility.curves import Curves
from epsworth.utility.stability import stability
from reproduction.box_search import claims_of_boxes
from reproduction.convolution import Convolutional
from reproduction.items import Item, Outcome, Setting, claims
from reproduction.ldp_utility_studies import named_row, numbers_of, shown
from reproduction.panels import curve
from reproduction.studies import EPSILONS

DIGITS = "mnist_7x7.npz"
FOUR = ("pm", "sw", "exponential", "krr")
MECHANISMS = tuple(f"{name}:indicator=0.1" for name in FOUR)
_ASKED: dict[str, Any] = {"sensitive": list(range(49)), "mechanisms": MECHANISMS, "epsilons": EPSILONS}
IMAGES = 50
SOME = 0.2  # of the perturbed images: from there on a mass says something


@lru_cache(maxsize=2)
def network(path: Path, quick: bool) -> tuple[Convolutional, Floats, float]:
    """Fit the network; return the first images, too, and its accuracy on the held-out ones."""
    data = np.load(path)
    X, test = (data[part].reshape(-1, 49) / float(data["scale"]) for part in ("x_train", "x_test"))
    model = Convolutional(3 if quick else 6).fit(X, data["y_train"])
    return model, X[:IMAGES], float((model.predict(test) == data["y_test"]).mean())


def _ask(model: Convolutional, images: Floats, **settings: Any) -> Curves:
    return stability(model.predict, images, rng=0, per="feature", **_ASKED, **settings)


def _ahead(lower: Floats, upper: Floats) -> str:
    """Say at which epsilons another mechanism is certainly ahead of the piecewise one."""
    own = upper[named_row(MECHANISMS, "pm")]
    found = [
        f"{name} at {epsilon:g}"
        for name in FOUR[1:]
        for epsilon, theirs, ours in zip(EPSILONS, lower[named_row(MECHANISMS, name)], own, strict=True)
        if theirs > ours
    ]
    return ", ".join(found)


def _first(mass: Floats) -> float:
    """Return the epsilon from which on a mass says something."""
    told = np.flatnonzero(mass > 0.1 + 0.9 * SOME)
    return float(EPSILONS[told[0]]) if told.size else np.inf


def figure_8(setting: Setting) -> Outcome:
    """Bound the first two images, and search for their boxes as the paper does."""
    model, images, accuracy = network(setting.file(DIGITS), setting.quick)
    numbers: list[str] = []
    said, panels, main = [], [], True
    for i, title in enumerate(("first image", "second image")):
        image = images[i : i + 1]
        bounds = _ask(model, image, tolerance=0.05 if setting.quick else 0.01)
        lower, upper = bounds.lower[..., 0], bounds.upper[..., 0]
        box = claims_of_boxes(model.predict, image, rng=0, **_ASKED).stability[..., 0]
        ahead = _ahead(lower, upper)
        start = {name: _first(box[row]) for row, name in enumerate(FOUR)}
        best = FOUR[int(box[:, 3:].sum(axis=1).argmax())]
        main &= not ahead
        said += [
            (f"{title}: nothing is ahead of PM ({ahead or 'at no epsilon'})", not ahead),
            (f"{title}: the box of PM has the largest mass ({best})", best == "pm"),
            (f"{title}: it says something only above epsilon 4 (from {start['pm']:g} on)", start["pm"] > 4),
            (f"{title}: that of k-RR above 6 (from {start['krr']:g} on)", start["krr"] > 6),
        ]
        numbers.append(f"{title} {numbers_of(lower, MECHANISMS, FOUR)}")
        masses = tuple(curve(f"box, {name}", EPSILONS, box[row], "guide") for row, name in enumerate(FOUR[:3]))
        panels.append(shown(f"{title}; dotted: the published search", lower, MECHANISMS, FOUR, masses))
    ours = f"accuracy {accuracy:.3f}; " + "; ".join(numbers)
    return claims(said, ours, main, panels=panels)


def figure_16(setting: Setting) -> Outcome:
    """Bound the average and the worst case over the first images."""
    model, images, _ = network(setting.file(DIGITS), setting.quick)
    images = images[:10] if setting.quick else images
    whole = _ask(model, images, over="dataset", tolerance=0.05 if setting.quick else 0.02)
    numbers: list[str] = []
    said, panels, main = [], [], True
    for title, bounds in (("average", whole.average()), ("worst case", whole.worst())):
        ahead = _ahead(bounds.lower, bounds.upper)
        main &= not ahead
        said.append((f"{title}: nothing is ahead of PM ({ahead or 'at no epsilon'})", not ahead))
        panels.append(shown(title, bounds.lower, MECHANISMS, FOUR))
        numbers.append(f"{title} {numbers_of(bounds.lower, MECHANISMS, FOUR)}")
    ours = f"{len(images)} images, " + "; ".join(numbers)
    return claims(said, ours, main, panels=panels)


ITEMS = (
    Item(
        "ldp-utility/fig-8",
        "Figure 8, section 7.2.3",
        "Two MNIST images: PM is ahead of SW, exponential, k-RR.",
        figure_8,
        needs=(DIGITS,),
    ),
    Item(
        "ldp-utility/fig-15",
        "Figure 15, appendix C.6.1",
        "PM's box is informative only above epsilon 4, k-RR's above 6.",
        figure_8,
        needs=(DIGITS,),
    ),
    Item(
        "ldp-utility/fig-16",
        "Figure 16, appendix C.6.2",
        "50 images: PM is ahead of SW, exponential, k-RR on average and at worst.",
        figure_16,
        quick=True,
        needs=(DIGITS,),
    ),
)
