"""A small convolutional network in plain numpy: enough for images of 7 x 7 pixels, and nothing to install."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats

Weights = list[NDArray[np.float32]]
SIZE, WINDOW, FILTERS, HIDDEN = 7, 3, 16, 64
PLACES = (SIZE - WINDOW + 1) ** 2
BATCH, STEP, MOMENTS, TINY = 128, 2e-3, (0.9, 0.999), 1e-8


class Convolutional:
    """Sixteen filters of 3 x 3, one hidden layer of 64 units, ten classes; fitted by Adam on the cross-entropy.

    Parameters
    ----------
    epochs : int
        How often each image is looked at.
    """

    def __init__(self, epochs: int = 6) -> None:
        self.epochs = epochs

    def fit(self, X: Floats, y: NDArray[np.integer]) -> Convolutional:
        """Fit to images, one a row, pixels between 0 and 1."""
        rng = np.random.default_rng(42)
        self.weights_ = [
            (rng.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32)
            for shape in ((WINDOW**2, FILTERS), (PLACES * FILTERS, HIDDEN), (HIDDEN, 10))
        ]
        self.biases_ = [np.zeros(w.shape[1], dtype=np.float32) for w in self.weights_]
        own = self.weights_ + self.biases_
        first, second = ([np.zeros_like(one) for one in own] for _ in range(2))
        total = self.epochs * -(-len(X) // BATCH)
        batches = (rows for _ in range(self.epochs) for rows in _batches(len(X), rng))
        for t, rows in enumerate(batches, start=1):
            slopes = self._slopes(X[rows], y[rows])
            for value, slope, m, v in zip(own, slopes, first, second, strict=True):
                m += (1 - MOMENTS[0]) * (slope - m)
                v += (1 - MOMENTS[1]) * (slope**2 - v)
                rate = STEP * (1 - t / total) * np.sqrt(1 - MOMENTS[1] ** t) / (1 - MOMENTS[0] ** t)
                value -= (rate * m / (np.sqrt(v) + TINY)).astype(np.float32)
        return self

    def predict(self, X: Floats) -> NDArray[np.int64]:
        """Return the classes of images."""
        return np.concatenate([self._forward(X[at : at + 4096])[-1].argmax(axis=1) for at in range(0, len(X), 4096)])

    def _forward(self, X: Floats) -> Weights:
        """Return the windows, and the values after each of the three layers."""
        images = np.asarray(X, dtype=np.float32).reshape(-1, SIZE, SIZE)
        windows = np.lib.stride_tricks.sliding_window_view(images, (WINDOW, WINDOW), axis=(1, 2))
        seen = windows.reshape(-1, WINDOW**2)
        found = np.maximum(seen @ self.weights_[0] + self.biases_[0], 0).reshape(len(images), -1)
        hidden = np.maximum(found @ self.weights_[1] + self.biases_[1], 0)
        return [seen, found, hidden, hidden @ self.weights_[2] + self.biases_[2]]

    def _slopes(self, X: Floats, y: NDArray[np.integer]) -> Weights:
        """Return the slope of the mean cross-entropy in each weight and each bias, backwards."""
        seen, found, hidden, scores = self._forward(X)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(y)), y] -= 1
        shares /= len(y)
        behind = (shares @ self.weights_[2].T) * (hidden > 0)
        filters = ((behind @ self.weights_[1].T) * (found > 0)).reshape(-1, FILTERS)
        weights = [seen.T @ filters, found.T @ behind, hidden.T @ shares]
        return weights + [one.sum(axis=0) for one in (filters, behind, shares)]


def _batches(count: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    order = rng.permutation(count)
    for at in range(0, count, BATCH):
        yield order[at : at + BATCH]
