"""The images of Zheng & Hu 2025 (sections 7.2.3, C.6): 7 x 7 pixels of MNIST, all 49 of them sensitive.

    EPSWORTH_DATA=... python examples/papers/mnist.py [--dataset]

The first two images, epsilon 1 to 8 per pixel, (epsilon, 0.1) per image through the privacy indicator, as in Figure 8.
The paper's classifier is a small convolutional network; here it is scikit-learn's, with one hidden layer of 64.  With
--dataset also the average and the worst case over the first 50 images (Figure 16).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from case_studies import DRAWS, EPSILONS, claims, empirical, lines
from sklearn.neural_network import MLPClassifier

import epsworth as ew

# the paper's four, and two that it leaves out: its Laplace leaves the range of a pixel, this one is clipped to it
MECHANISMS = tuple(
    f"{name}:indicator=0.1" for name in ("pm", "sw", "exponential", "krr", "exponential_tight", "laplace_clipped")
)
IMAGES = 50


def main() -> None:
    data = np.load(Path(os.environ["EPSWORTH_DATA"]) / "mnist_7x7.npz")
    X, test = (data[part].reshape(-1, 49) / float(data["scale"]) for part in ("x_train", "x_test"))
    model = fitted(X, data["y_train"])
    print(f"MNIST 7 x 7, network of 64 units, test accuracy {model.score(test, data['y_test']):.3f}")
    for image in range(2):
        show(model, X[image : image + 1], f"image {image}, a {data['y_train'][image]}")
    if "--dataset" in sys.argv:
        whole = ask(model, X[:IMAGES], over="dataset")
        for title, bounds in (("average", whole.average()), ("worst", whole.worst())):
            print(f"\n{title} over the first {IMAGES} images ({whole.queries:,} queries, {whole.seconds:.0f} s)")
            lines(whole.mechanisms, bounds.lower, bounds.upper)


def fitted(X: np.ndarray, digit: np.ndarray) -> MLPClassifier:
    """Fit, and set to zero what weight decay left of the weights of pixels that are always black.

    Such subnormal numbers are lost in the rounding of the scores, and make every prediction six times slower.
    """
    model = MLPClassifier((64,), early_stopping=True, random_state=42).fit(X, digit)
    for weights in model.coefs_:
        weights[np.abs(weights) < np.finfo(float).tiny] = 0
    return model


def ask(model: MLPClassifier, X: np.ndarray, **settings: object) -> ew.Curves:
    return ew.stability(
        model, X, sensitive=list(range(49)), mechanisms=MECHANISMS, epsilons=EPSILONS, rng=0, **settings
    )


def show(model: MLPClassifier, image: np.ndarray, title: str) -> None:
    curves = ask(model, image)
    print(f"\n{title}, label {curves.labels[0]}, {', '.join(sorted(set(curves.method[:, 0])))}, ", end="")
    print(f"{100 * curves.confidence:.4g} %, {curves.queries:,} queries, {curves.seconds:.0f} s")
    lines(curves.mechanisms, curves.lower[..., 0], curves.upper[..., 0])

    print(f"  mean of {DRAWS} draws, the paper's empirical utility")
    empirical(model.predict, image[0], range(49), MECHANISMS)
    # its box is searched once for all mechanisms and epsilons; the wide tolerance keeps its own check short
    paper = ask(model, image, method="paper", tolerance=0.1)
    print(f"  the published search on our fit, {paper.queries:,} queries, {paper.seconds:.0f} s")
    claims(curves, paper.lower[..., 0].tolist())


if __name__ == "__main__":
    main()
