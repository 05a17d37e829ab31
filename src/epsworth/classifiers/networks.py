"""Fully connected networks: affine maps, and activations with lines below and above them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.reading import Unsupported, leading

DOUBLE = 2.0**-53  # unit roundoff
STEPS = 16  # rounded operations per affine map besides the additions: the activation before it, a cast, a division
LARGE = 1e30  # sizes beyond which single precision could overflow
OVERFLOWS = "a number of the table, or of a range, is so large that single precision could overflow"
SLOPE = 1e-12  # by which slopes of smooth activations are lowered: rounding of the computed derivative


@dataclass(frozen=True, eq=False)
class Affine:
    """``weights @ input + biases``, and what its rounding errors are relative to.

    Whoever evaluates the map in steps, in any order of summation, errs by at most
    ``additions * u * (terms @ |input| + constants)`` for a unit roundoff u (Higham 2002, section 3.1).
    """

    weights: Floats
    biases: Floats
    terms: Floats
    constants: Floats
    additions: int

    @classmethod
    def of(cls, weights: Floats, biases: Floats) -> Affine:
        """Return a dense map."""
        return cls(weights, biases, np.abs(weights), np.abs(biases), weights.shape[1] + STEPS)

    @classmethod
    def per_column(cls, scale: Floats, shift: Floats, sizes: Floats) -> Affine:
        """Return a map of every column by itself; ``sizes`` are the absolute terms of the shifts."""
        return cls(np.diag(scale), shift, np.diag(np.abs(scale)), sizes, STEPS)

    def after(self, first: Affine) -> Affine:
        """Return this map behind another one, multiplied out."""
        return Affine(
            self.weights @ first.weights,
            self.weights @ first.biases + self.biases,
            self.terms @ first.terms,
            self.terms @ first.constants + self.constants,
            self.additions + first.additions,
        )


class Lines(NamedTuple):
    """``low_slope z + low_shift <= activation(z) <= high_slope z + high_shift`` between two ends; slopes >= 0."""

    low_slope: Floats
    low_shift: Floats
    high_slope: Floats
    high_shift: Floats


@dataclass(frozen=True)
class Rectifier:
    """z where it is positive, else ``leak * z``; ``0 <= leak <= 1``."""

    leak: float = 0.0

    def __call__(self, z: Floats) -> Floats:
        """Return the activation."""
        return np.where(z > 0, z, self.leak * z)

    def lines(self, low: Floats, high: Floats) -> Lines:
        """Return the chord above, and below the branch that wastes less (Zhang et al. 2018)."""
        bends = (low < 0) & (high > 0)
        chord = (high - self.leak * low) / np.where(bends, high - low, 1.0)
        slope = np.where(bends, chord, np.where(low >= 0, 1.0, self.leak))
        under = np.where(bends, np.where(high > -low, 1.0, self.leak), slope)
        return Lines(under, np.zeros_like(low), slope, np.where(bends, (self.leak - chord) * low, 0.0))


@dataclass(frozen=True)
class Sigmoid:
    """A rising S-shaped function, steepest at 0, its derivative a function of its value."""

    value: Callable[[Floats], Floats]
    derivative: Callable[[Floats], Floats]

    def __call__(self, z: Floats) -> Floats:
        """Return the activation."""
        return self.value(z)

    def lines(self, low: Floats, high: Floats) -> Lines:
        """Return lines through both ends with the least slope in between, which an end has (Singh et al. 2019)."""
        bottom, top = self.value(low), self.value(high)
        slope = np.maximum(np.minimum(self.derivative(bottom), self.derivative(top)) - SLOPE, 0.0)
        return Lines(slope, bottom - slope * low, slope, top - slope * high)


TANH = Sigmoid(np.tanh, lambda value: 1 - value**2)
LOGISTIC = Sigmoid(expit, lambda value: value * (1 - value))
Activation = Rectifier | Sigmoid
HIDDEN: dict[str, tuple[Activation, ...]] = {  # of a perceptron
    "identity": (), "relu": (Rectifier(),), "tanh": (TANH,), "logistic": (LOGISTIC,)
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Network:
    """Affine maps with activations between them: one score per class, the label is that of the largest.

    Attributes
    ----------
    classes : ndarray
        Labels, in the order of the scores.
    unit : float
        Unit roundoff of the arithmetic in which the model itself answers.
    """

    affine: tuple[Affine, ...]
    activations: tuple[Activation, ...]
    classes: NDArray[Any]
    unit: float

    def holds(self, sizes: Floats) -> bool:
        """Tell whether inputs of these sizes are numbers to the model: 0 times what overflows is NaN."""
        return bool((sizes < LARGE).all())

    def scores(self, rows: Floats) -> Floats:
        """Return the scores of rows in natural units, shape ``(n, classes)``."""
        first, *others = self.affine
        z = rows @ first.weights.T + first.biases
        for activation, layer in zip(self.activations, others, strict=True):
            z = activation(z) @ layer.weights.T + layer.biases
        return np.asarray(z)

    def labels(self, scores: Floats) -> tuple[NDArray[Any], Bools]:
        """Return the labels of scores, and where they lead by far more than rounding: roots of its unit, relatively."""
        places, lead = leading(scores)
        return self.classes[places], lead > 4 * math.sqrt(self.unit) * (1 + np.abs(scores).max(axis=1))


def network_of(steps: Sequence[Affine | Activation], classes: NDArray[Any], unit: float) -> Network:
    """Return a network, neighbouring affine maps multiplied out, or why there is none.

    A single last score is that of ``classes[1]`` over ``classes[0]``.
    """
    affine: list[Affine] = []
    activations: list[Activation] = []
    for step in steps:
        joins = len(affine) > len(activations)
        if isinstance(step, Affine):
            affine[len(activations) :] = [step.after(affine[-1]) if joins else step]
        elif not joins:
            raise Unsupported("an activation does not follow a linear layer")
        else:
            activations.append(step)
    if len(affine) == len(activations):
        raise Unsupported("its last layer is not linear")
    if len(affine[-1].biases) == 1:
        affine[-1] = Affine.of(np.array([[0.0], [1.0]]), np.zeros(2)).after(affine[-1])
    if len(affine[-1].biases) != len(classes):
        raise Unsupported("its scores are not one per class")
    if not all(np.isfinite(layer.weights).all() and np.isfinite(layer.biases).all() for layer in affine):
        raise Unsupported("a weight is not finite")
    if max(layer.additions for layer in affine) ** 2 * unit > STEPS / 2:
        raise Unsupported("a layer is too wide for its rounding to be bounded")
    return Network(tuple(affine), tuple(activations), classes, unit)


def perceptron(estimator: Any) -> Network:
    """Read a fitted `MLPClassifier`."""
    layers = [
        Affine.of(np.asarray(weights, dtype=np.float64).T, np.asarray(biases, dtype=np.float64))
        for weights, biases in zip(estimator.coefs_, estimator.intercepts_, strict=True)
    ]
    binary = estimator.out_activation_ == "logistic" and len(layers[-1].biases) == 1
    if np.ndim(estimator.classes_) != 1 or not (binary or estimator.out_activation_ == "softmax"):
        raise Unsupported("it answers several labels at once")
    steps: list[Affine | Activation] = []
    for layer in layers[:-1]:
        steps += [layer, *HIDDEN[estimator.activation]]
    return network_of([*steps, layers[-1]], np.asarray(estimator.classes_), DOUBLE)
