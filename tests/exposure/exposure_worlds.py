"""Small data sets in the unit ball, and the reference values."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np

REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text())
SMALL = [
    (np.array(data["X"]), np.array(data["y"]), case) for data in REFERENCE["small_datasets"] for case in data["cases"]
]
ADULT = {
    "two": ("age", "education-num"),
    "six": ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
}


def world(n=200, d=3, seed=0, noise=0.5):
    """Return rows in the unit ball and labels of a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) / d > 0, 1.0, -1.0)
    return X, y


def adult(folder, columns):
    """Return the rows of Adult (training, then test) as the reference scales them."""
    import polars as pl

    table = pl.concat([pl.read_csv(folder / f"adult_{part}.csv.gz") for part in ("train", "test")])
    X = table.select(columns).to_numpy().astype(float)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1).max(), np.where(table["income"].to_numpy() == ">50K", 1.0, -1.0)


def rounded_worlds():
    """Yield tables of one column, some of whose rows hardly pull, with all their models as fractions (squared loss)."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        n = int(rng.integers(2, 9))
        X = (rng.uniform(0.2, 1, n) * np.where(rng.random(n) < 0.4, 10.0 ** -rng.uniform(6, 14, n), 1.0))[:, None]
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        l2, regulariser = float(rng.uniform(0.01, 1)), ("mean", "sum")[int(rng.integers(2))]
        x, labels, weight = [Fraction(v) for v in X[:, 0]], [Fraction(v) for v in y], Fraction(l2)

        def model(kept, size, x=x, labels=labels, weight=weight):
            pulls = sum(labels[j] * x[j] for j in kept)
            return pulls / (sum(x[j] ** 2 for j in kept) + weight * size)

        rest = [[j for j in range(n) if j != i] for i in range(n)]
        yield X, y, l2, regulariser, model(range(n), n), [model(r, n - (regulariser == "mean")) for r in rest]


def precise(X, y, weight, start, tilt=0.0):
    """Return the minimiser of the summed loss and a bound on its distance to the truth, by gradients in long double.

    ``weight``: of the penalty, or one for each coefficient; ``tilt``: a linear term beside it.
    """
    X, y, f = X.astype(np.longdouble), y.astype(np.longdouble), start.astype(np.longdouble)
    best, size = f, np.inf
    for _ in range(200):
        slopes = 1 / (1 + np.exp(y * (X @ f)))
        gradient = weight * f + tilt - (slopes * y) @ X
        if np.linalg.norm(gradient) < size:
            best, size, stalled = f, float(np.linalg.norm(gradient)), 0
        else:
            stalled += 1
        if stalled == 3:
            break
        hessian = (X.T * (slopes * (1 - slopes))) @ X + weight * np.eye(X.shape[1])
        step = np.linalg.solve(hessian.astype(float), gradient.astype(float))
        f = f - step / max(1.0, float(np.abs(X @ step).max()))
    least = weight if np.ndim(weight) == 0 else np.linalg.eigvalsh(hessian.astype(float))[0] / 2
    return best, (size + 1e-18 * len(X)) / least


def hard_worlds(count, seed):
    """Yield tables at weak regularisation: noisy, separable, and with rows that hardly differ."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, d, l2 = int(rng.integers(3, 60)), int(rng.integers(1, 5)), 10 ** rng.uniform(-6, -1)
        X, y = world(n, d, seed=int(rng.integers(2**32)), noise=(0.0, 2.0, 0.5)[number % 3])
        if number % 3 == 2:
            X[1::2] = X[: len(X[1::2]) * 2 : 2] * (1 - 1e-9)
            y[1::2] = y[: len(y[1::2]) * 2 : 2] * rng.choice([-1.0, 1.0, 1.0, 1.0], len(y[1::2]))
        X[:, -1] *= 10 ** rng.uniform(-3, 0)  # a direction that few rows know
        y[0], y[-1] = -1.0, 1.0
        yield X, y, l2, ("mean", "sum")[int(rng.integers(2))]
