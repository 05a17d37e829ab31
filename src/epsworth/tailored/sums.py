"""Whole-number copies of linear models and rectifier networks: sums of places with weights of 24 bits.

The steps before an estimator are folded into the first sums by asking them: a word's positions one by one, a number's
places at both ends.  That these sums are affine in a number's place is known from the steps' rules, or every place is
asked; what was folded is compared with the steps at random places, and the labels with the model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.classifiers.classifier import as_classifier
from epsworth.classifiers.frameworks import is_module
from epsworth.classifiers.networks import DOUBLE, LARGE, Affine, Network, Rectifier, network_of
from epsworth.classifiers.onnx_models import is_onnx
from epsworth.classifiers.pipeline import MISSING, Preprocessing, preprocessing_before
from epsworth.classifiers.reading import Unsupported, answers_as_read, dense, unlike
from epsworth.classifiers.structure import read_network
from epsworth.classifiers.thresholds import LINEAR, Scored, change_of, logistic_at, scored
from epsworth.classifiers.transformers import Columns
from epsworth.grids import Grid
from epsworth.records import Records
from epsworth.tailored.surrogates import EXACT, MOST_SHIFT, IntegerReLU, Layer

BITS = 24  # of a weight, its sign among them
HANDED = 2  # bits more of what a hidden layer hands on, where sums leave room for them
PROBES = 256  # places of a number at which what its steps say is checked
JOINT = 1_024  # random places of all columns
MOST_PLACES = 1 << 17  # all of which are asked where the steps' rules do not say that they are affine
CLOSE = 1e-9  # relative to the absolute terms of a sum
SEEN = 1e-11  # relative rounding of what up to `WIDEST` additions hand on, folded or not
WIDEST = 10_000
REACH, NARROW = 1e6, 1e-6  # scores among which a threshold's change is looked for, and how closely it must be known


@dataclass(frozen=True, eq=False)
class Sums:
    """A linear model or a rectifier network as a function of places, before anything is rounded to whole numbers.

    Attributes
    ----------
    weights, constants : ndarray, shapes ``(units, places)`` and ``(units,)``
        The first sums: per place of a number, and of each position of a word.
    network : Network
        Its later layers are those behind the first sums; scores in the order of the classes.
    rounding : ndarray, shape ``(units,)``
        By how much a first sum that the model computes can differ at places, weights being doubles.
    smooth : ndarray of bool, shape ``(inputs,)``
        Numbers of which the first sums are known to be affine between places, too.
    slack : float
        By how much scores are off besides: the bracket of a threshold.
    """

    grids: tuple[Grid, ...]
    weights: Floats
    constants: Floats
    network: Network
    rounding: Floats
    smooth: Bools
    slack: float

    @property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """Weights and biases of all layers."""
        return [(self.weights, self.constants), *((part.weights, part.biases) for part in self.network.affine[1:])]

    @property
    def reach(self) -> Floats:
        """The largest input of each first weight."""
        inputs = [grid.input for grid in self.grids]
        return np.array([r for one in inputs for r in ([one.places - 1] if one.ordered else [1] * one.places)], float)

    def scores(self, places: Indices) -> Floats:
        """Return the model's scores, as read."""
        z = spread(self.grids, places) @ self.weights.T + self.constants
        for later in self.network.affine[1:]:
            z = np.maximum(z, 0) @ later.weights.T + later.biases
        return np.asarray(z)


def copy_of_sums(model: Any, grids: Sequence[Grid], records: Records, *, bits: int = BITS) -> IntegerReLU:
    """Return a copy of a linear model or a rectifier network in whole numbers, or say what stands in the way.

    Parameters
    ----------
    model : fitted classifier
        Of two classes, a copy has two scores, the first of them 0: the second wins where it is positive.
    grids : sequence of Grid
        One for each column of the records.
    records : Records
        At least one: what kind its columns are is what the model's steps are asked with.
    bits : int
        Of a weight, in units of what the largest one contributes.
    """
    return in_whole_numbers(sums_of(model, grids, records), bits)[0]


def in_whole_numbers(sums: Sums, bits: int = BITS) -> tuple[IntegerReLU, list[float]]:
    """Return the copy, and how many of its units are one unit of the model's sums, layer by layer."""
    (weights, biases), reach = sums.layers[0], sums.reach
    ordered = max([1.0, *(grid.input.places - 1.0 for grid in sums.grids if grid.input.ordered)])
    largest = float((np.abs(weights) * reach).max(initial=0.0)) or float(np.abs(biases).max())
    scale = _fitting((2.0 ** (bits - 1) - 1) * ordered / (largest or 1.0), _most(weights, biases, reach))
    whole, scales, handed = [_rounded(weights, biases, scale, scale)], [scale], scale
    for _, (weights, biases) in pairwise(sums.layers):
        last = whole[-1]
        most = np.abs(last.weights) @ reach + np.abs(last.biases)
        wanted = (2.0 ** (bits - 1) - 1) / (float(np.abs(weights).max()) or 1.0)
        # what the sums need beyond the bits of weights and of what is handed on is taken from both
        above = np.log2(max(1.0, _most(weights, biases * handed, most) * wanted)) - np.log2(max(1.0, most.max()))
        keep = (
            min(bits + HANDED, int((52 - above + bits + HANDED) // 2)) if above + bits + HANDED > 52 else bits + HANDED
        )
        shift = int(np.clip(np.ceil(np.log2(max(1.0, most.max()))) - keep, 0, MOST_SHIFT))
        whole[-1] = replace(last, shift=shift)
        reach, handed = np.floor(most / 2.0**shift), handed / 2.0**shift
        scale = _fitting(wanted, _most(weights, biases * handed, reach))
        whole.append(_rounded(weights, biases, scale, scale * handed))
        handed *= scale
        scales.append(handed)
    return IntegerReLU(tuple(grid.input for grid in sums.grids), tuple(whole)), scales


def _most(weights: Floats, biases: Floats, reach: Floats) -> float:
    return float((np.abs(weights) @ reach + np.abs(biases)).max())


def _fitting(scale: float, most: float) -> float:
    """Return the scale, or a smaller one by which sums up to a size leave room for their rounding below 2^53."""
    return min(scale, EXACT / 2 / most) if most else scale


def _rounded(weights: Floats, biases: Floats, scale: float, of_biases: float) -> Layer:
    return Layer(np.rint(weights * scale).astype(np.int64), np.rint(biases * of_biases).astype(np.int64), 0)


def spread(grids: Sequence[Grid], places: Indices) -> Floats:
    """Return the inputs of the first sums: places of numbers, and 1 at a word's position."""
    parts = [
        places[:, [j]] if grid.input.ordered else places[:, [j]] == np.arange(grid.input.places)
        for j, grid in enumerate(grids)
    ]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


def sums_of(model: Any, grids: Sequence[Grid], records: Records) -> Sums:
    """Return a linear model or a rectifier network as a function of places, or what stands in the way."""
    if len(grids) != len(records.names):
        raise Unsupported(f"there are {len(grids)} grids for {len(records.names)} columns")
    network, steps, result = _read(model)
    before = preprocessing_before(model, steps)
    asked = _Context(before, records, tuple(grids))
    sums = _folded(network, asked)
    places = at_random(grids, JOINT)
    handed = asked(places)
    first = network.affine[0]
    sizes = np.abs(handed) @ np.abs(first.weights).T + np.abs(first.biases) + np.abs(sums.constants)
    computed = handed @ first.weights.T + first.biases
    if not (np.abs(spread(grids, places) @ sums.weights.T + sums.constants - computed) <= CLOSE * sizes).all():
        raise Unsupported("the steps hand on other values of all columns together than of each alone")
    if result is not None and result.rule is not None:
        sums = _cut(sums, result, handed)
    if not _agrees(model, sums, asked, places):
        raise Unsupported(unlike("weights"))
    return sums


def at_random(grids: Sequence[Grid], n: int) -> Indices:
    """Return random places, the same ones whenever they are asked for."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(grid.input.places, size=n) for grid in grids])


def _read(model: Any) -> tuple[Network, list[Any], Scored | None]:
    """Return a model's layers, the steps before them, and for linear models how labels follow from scores."""
    result = None
    if not is_module(model) and not is_onnx(model):
        with suppress(Unsupported):
            result = scored(model)
    if result is not None and result.kind in LINEAR and hasattr(result.estimator, "coef_"):
        labels = result.classes
        if np.ndim(labels) != 1 or len(labels) < 2:
            raise Unsupported("it answers several labels at once, or a single one")
        intercept = np.atleast_1d(np.asarray(result.estimator.intercept_, dtype=np.float64))
        weights = np.atleast_2d(dense(result.estimator.coef_))
        biases = np.broadcast_to(intercept, len(weights))
        network = network_of([Affine.of(weights, biases)], np.asarray(labels), DOUBLE)
        return network, result.steps, result
    try:
        network, steps = read_network(model)
    except Unsupported as why:
        raise Unsupported(f"{why}, and no linear model") from None
    if any(not isinstance(one, Rectifier) or one.leak for one in network.activations):
        raise Unsupported("its activations are not all rectifiers (ReLU)")
    return network, steps, None


@dataclass(frozen=True, eq=False)
class _Context:
    """What the steps hand on at places of all columns."""

    before: Preprocessing
    records: Records
    grids: tuple[Grid, ...]

    @property
    def columns(self) -> Columns:
        return self.before.columns if self.before.steps else Columns.of_records(len(self.grids))

    def taken(self, places: Indices) -> Any:
        values = {j: grid.values[places[:, j]] for j, grid in enumerate(self.grids)}
        return self.records.take(np.zeros(len(places), dtype=np.intp), values)

    def __call__(self, places: Indices) -> Floats:
        given = self.before(self.taken(places))
        if given.dtype == np.float32:
            raise Unsupported("a step hands on numbers in single precision")
        try:
            result = given.astype(np.float64)
        except (TypeError, ValueError):
            raise Unsupported("the estimator sees columns that are not numbers") from None
        if not np.isfinite(result).all():
            raise Unsupported(MISSING)
        return result


def _folded(network: Network, asked: _Context) -> Sums:
    """Fold the steps into the first layer, column after column, the others being at their first places."""
    first, columns, grids = network.affine[0], asked.columns, asked.grids
    if len(columns) != first.weights.shape[1]:
        raise Unsupported("the steps hand on another number of columns than the estimator sees")
    used = (first.weights != 0).any(axis=0)
    mixing = columns.uses.sum(axis=1) > 1
    bent = used[:, np.newaxis] & columns.uses & ~np.isfinite(columns.slopes)
    if (bent & mixing[:, np.newaxis]).any():
        raise Unsupported("a step mixes several columns, and is not affine in them")
    base = asked(np.zeros((1, len(grids)), dtype=np.int64))
    constants = first.weights @ base[0] + first.biases
    parts, residual, largest = [], np.zeros(len(constants)), np.abs(base[0])
    for position, grid in enumerate(grids):
        at = _places_to_ask(grid, bent=bool(bent[:, position].any()))
        places = np.zeros((len(at), len(grids)), dtype=np.int64)
        places[:, position] = at
        handed = asked(places)
        largest = np.maximum(largest, np.abs(handed).max(axis=0))
        moved = (handed - base) @ first.weights.T  # (places, units)
        if not grid.input.ordered:
            parts.append(moved.T)
            continue
        slope = moved[-1] / at[-1]
        off = np.abs(moved - at[:, np.newaxis] * slope).max(axis=0)
        if not (off <= CLOSE * (np.abs(first.weights) @ largest + np.abs(first.biases))).all():
            raise Unsupported(f"a step is not affine in {grid.name!r}")
        residual += off
        parts.append(slope[:, np.newaxis])
    rounding = residual + (SEEN + first.additions * (network.unit + 4 * DOUBLE)) * _sizes(network, asked, largest)
    smooth = np.array([grid.input.ordered for grid in grids]) & ~bent.any(axis=0)
    return Sums(grids, np.concatenate(parts, axis=1), constants, network, rounding, smooth, 0.0)


def _places_to_ask(grid: Grid, *, bent: bool) -> Indices:
    """Return all positions of a word, and of a number both ends and some places, or all where nothing is known."""
    places = grid.input.places
    if not grid.input.ordered or places <= PROBES:
        return np.arange(places)
    if not bent:
        some = np.random.default_rng(0).integers(places, size=PROBES)
        return np.unique(np.concatenate([[0, places - 1], some]))
    if places > MOST_PLACES:
        raise Unsupported(f"a step may not be affine in {grid.name!r}")
    return np.arange(places)


def _sizes(network: Network, asked: _Context, largest: Floats) -> Floats:
    """Bound the absolute terms of the first sums; infinite where a step's rounding is not known, or they overflow."""
    first, columns, grids = network.affine[0], asked.columns, asked.grids
    ends = [
        np.abs([grid.feature.lower, grid.feature.upper]) if grid.input.ordered else _numbers(grid) for grid in grids
    ]
    terms = columns.terms @ np.array([float(np.max(end)) for end in ends]) + columns.constants
    mixing = columns.uses.sum(axis=1) > 1
    terms = np.where(np.isnan(terms), np.where(mixing, np.inf, largest), np.maximum(terms, largest))
    used = (first.weights != 0).any(axis=0)
    sizes = first.terms @ np.where(used, terms, 0.0) * (1 + len(grids)) + first.constants  # each column was asked alone
    known = max(len(columns), len(grids)) <= WIDEST and network.holds(largest) and network.holds(terms[used])
    return np.where(known & (sizes < LARGE), sizes, np.inf)


def _numbers(grid: Grid) -> Floats:
    """Return the sizes of words that are numbers; of others 0, which no step adds up."""
    try:
        return np.abs(np.asarray(grid.values, dtype=np.float64))
    except (TypeError, ValueError):
        return np.zeros(1)


def _cut(sums: Sums, found: Scored, handed: Floats) -> Sums:
    """Move the scores of two classes so that the larger one tells the label that a threshold or calibration gives."""
    rule = found.rule
    if rule is None or len(sums.constants) != 2:
        raise Unsupported("a threshold on the scores of more than two classes")
    if hasattr(found.estimator, "predict_proba") and not logistic_at(found.estimator, handed):
        raise Unsupported("the probabilities of the linear model are not logistic functions of its scores")
    sign, middle, room = change_of(rule, REACH)
    if room > NARROW or abs(middle) > REACH:
        raise Unsupported(
            "the score at which the label changes is not found: the threshold lies where scores hardly matter"
        )
    order = np.argsort(rule.places)  # rows come in the order of the classes
    return replace(
        sums,
        weights=(sign * sums.weights)[order],
        constants=(sign * sums.constants - [0.0, middle])[order],
        network=replace(sums.network, classes=np.asarray(found.classes)),
        rounding=sums.rounding[order],
        slack=room + SEEN * abs(middle),
    )


def _agrees(model: Any, sums: Sums, asked: _Context, places: Indices) -> bool:
    """Compare the model's own labels with those that were read, wherever these are clear."""
    answer: Callable[[Any], NDArray[Any]] = as_classifier(model).labels
    return answers_as_read(answer(asked.taken(places)), *sums.network.labels(sums.scores(places)))
