"""The images of Zheng & Hu 2025 (sections 7.2.3, C.6): 7 x 7 pixels of MNIST, all 49 of them sensitive.

    EPSWORTH_DATA=... python examples/papers/mnist.py [--dataset]

The first two images, epsilon 1 to 8 per pixel, (epsilon, 0.1) per image through the privacy indicator, as in Figure 8.
The paper's classifier is a small convolutional network, as in ``epsworth reproduce 000-fig-8``; here it is
scikit-learn's, with one hidden layer of 64.  With --dataset also the average and the worst case over the first 50
images (Figure 16).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from case_studies import claims, lines, table
from sklearn.neural_network import MLPClassifier

import epsworth as ew
from epsworth.reproduce.paper_000_studies import PIXELS as MECHANISMS
from epsworth.reproduce.paper_000_studies import digits
from epsworth.reproduce.studies import DRAWS, EPSILONS, shares

IMAGES = 50


def main() -> None:
    path = Path(os.environ["EPSWORTH_DATA"]) / "mnist_7x7.npz"
    data, (model, X) = np.load(path), digits(path)
    test = data["x_test"].reshape(-1, 49) / float(data["scale"])
    print(f"MNIST 7 x 7, network of 64 units, test accuracy {model.score(test, data['y_test']):.3f}")
    for image in range(2):
        show(model, X[image : image + 1], f"image {image}, a {data['y_train'][image]}")
    if "--dataset" in sys.argv:
        whole = ask(model, X[:IMAGES], over="dataset")
        for title, bounds in (("average", whole.average()), ("worst", whole.worst())):
            print(f"\n{title} over the first {IMAGES} images ({whole.queries:,} queries, {whole.seconds:.0f} s)")
            lines(whole.mechanisms, bounds.lower, bounds.upper)


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
    table(MECHANISMS, shares(model.predict, image[0], range(49), MECHANISMS))
    # its box is searched once for all mechanisms and epsilons; the wide tolerance keeps its own check short
    paper = ask(model, image, method="paper", tolerance=0.1)
    print(f"  the published search on our fit, {paper.queries:,} queries, {paper.seconds:.0f} s")
    claims(curves, paper.lower[..., 0].tolist())


if __name__ == "__main__":
    main()
