"""Small data sets in the unit ball, and the reference values."""

from __future__ import annotations

import json
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
