"""Sums and rectifiers fitted to places, rounded to whole weights of 16 bits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.release.copies import EXACT, Indices, Input, Layer, Layers

UNITS = 16
BITS = 16  # of weights: 8 lose .02 to .09 of the agreement
HANDED = 20  # bits of what a hidden unit hands on
ROUNDS = 30  # of learning rectifiers: twice as many gain .002, and take as long again
Affine = tuple[Floats, Floats]  # weights, shape (outputs, inputs), and biases


@dataclass(frozen=True, eq=False)
class Spread:
    """What `Layers` sum: places of numbers, and 1 for a word's position, else 0; and their usual size.

    Attributes
    ----------
    inputs : tuple of Input
    middle, width : ndarray
        Of what is summed; 0 and 1 for words.
    """

    inputs: tuple[Input, ...]
    middle: Floats
    width: Floats

    @classmethod
    def of(cls, places: Indices, inputs: Sequence[Input]) -> Spread:
        """Return the spread of records."""
        middle, width = [], []
        for j, one in enumerate(inputs):
            column = places[:, j]
            middle += [float(column.mean())] if one.ordered else [0.0] * one.places
            width += [max(float(column.std()), one.places / 100)] if one.ordered else [1.0] * one.places
        return cls(tuple(inputs), np.array(middle), np.array(width))

    @property
    def reach(self) -> Floats:
        """The largest that each can be."""
        return np.array([r for one in self.inputs for r in ([one.places - 1.0] if one.ordered else [1.0] * one.places)])

    def scaled(self, places: Indices) -> Floats:
        """Return records as numbers of about the same size."""
        parts = [
            places[:, [j]] if one.ordered else places[:, [j]] == np.arange(one.places)
            for j, one in enumerate(self.inputs)
        ]
        return np.asarray((np.concatenate(parts, axis=1) - self.middle) / self.width)

    def folded(self, layer: Affine) -> Affine:
        """Return the layer that takes places as they are."""
        weights = layer[0] / self.width
        return weights, layer[1] - weights @ self.middle


def linear(spread: Spread, places: Indices, regions: Indices, count: int) -> Layers:
    """Return the whole-number copy of a multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression

    found = np.unique(regions)
    if len(found) < 2:
        return _constant(spread, int(found[0]), count)
    model = LogisticRegression(C=10.0, max_iter=60)
    _quietly(model, spread.scaled(places), regions)
    return whole(spread, [spread.folded((model.coef_, model.intercept_))], found, count)


def rectifiers(spread: Spread, places: Indices, regions: Indices, count: int, seed: int) -> Layers:
    """Return the whole-number copy of a network with one hidden layer of 16 rectifiers."""
    from sklearn.neural_network import MLPClassifier

    found = np.unique(regions)
    if len(found) < 2:
        return _constant(spread, int(found[0]), count)
    model = MLPClassifier(
        (UNITS,),
        learning_rate_init=0.02,
        batch_size=min(256, len(regions)),
        alpha=1e-5,
        max_iter=ROUNDS,
        random_state=seed,
    )
    _quietly(model, spread.scaled(places), regions)
    first, last = [(w.T, b) for w, b in zip(model.coefs_, model.intercepts_, strict=True)]
    return whole(spread, [spread.folded(first), last], found, count)


def whole(spread: Spread, layers: Sequence[Affine], found: Indices, count: int) -> Layers:
    """Return layers in whole numbers; with one score it speaks for the second of two regions.

    Parameters
    ----------
    spread : Spread
    layers : sequence of (weights, biases)
        On places as they are.
    found : ndarray of int
        The regions that the scores are of; the others never win.
    count : int
    """
    reach, made = spread.reach, []
    weights, biases = layers[0]
    for following in layers[1:]:
        numbers, offsets, scale = _rounded(weights, biases, reach, each=True)
        largest = np.abs(numbers) @ reach + np.abs(offsets)
        shift = max(0, int(largest.max()).bit_length() - HANDED)
        made.append(Layer(numbers, offsets, shift))
        reach = np.floor(largest / 2**shift)
        weights, biases = following[0] * (2.0**shift / scale), following[1]
    if len(weights) == 1:
        weights, biases = np.vstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], biases])
    numbers, offsets, _ = _rounded(weights, biases, reach, each=False)
    never = -int((np.abs(numbers) @ reach + np.abs(offsets)).max()) - 1
    table, last = np.zeros((count, numbers.shape[1]), dtype=np.int64), np.full(count, never, dtype=np.int64)
    table[found], last[found] = numbers, offsets
    return Layers(spread.inputs, (*made, Layer(table, last, 0)))


def _rounded(weights: Floats, biases: Floats, reach: Floats, *, each: bool) -> tuple[Indices, Indices, Floats]:
    """Return whole weights and biases, and what they were multiplied by: one number, or one for each output.

    What the heaviest input can add has 16 bits more than the widest one's places: no weight loses more than 2^-16 of it
    over its whole range.  Half of what doubles hold is left free for the sums.
    """
    heaviest = (np.abs(weights) * reach).max(axis=1)
    total = np.abs(weights) @ reach + np.abs(biases)
    if not each:
        heaviest, total = np.full_like(heaviest, heaviest.max()), np.full_like(total, total.max())
    scale = 2.0 ** (BITS - 1) * reach.max() / np.where(heaviest > 0, heaviest, 1.0)
    # one unit that is almost constant must not have larger sums than all others: these share its shift
    most = min(EXACT / 4, 2.0**BITS * reach.max() * (1 + len(reach))) if each else EXACT / 4
    scale = np.minimum(scale, most / np.maximum(total, 1e-300))
    rounded = [np.rint(part).astype(np.int64) for part in (weights * scale[:, np.newaxis], biases * scale)]
    return rounded[0], rounded[1], scale


def _constant(spread: Spread, region: int, count: int) -> Layers:
    biases = np.zeros(count, dtype=np.int64)
    biases[region] = 1
    return Layers(spread.inputs, (Layer(np.zeros((count, len(spread.middle)), dtype=np.int64), biases, 0),))


def _quietly(model: object, seen: Floats, regions: Indices) -> None:
    """Fit; that learning was stopped early is meant."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):  # small products: threads only wait for one another
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(seen, regions)  # type: ignore[attr-defined]
