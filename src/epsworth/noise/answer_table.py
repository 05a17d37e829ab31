"""A table of whole weights, a row for every answer of a public list: its exact promise, and draws fit for release."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from epsworth.arrays import Floats, Indices, as_floats
from epsworth.client.kernels import WORD
from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.mechanisms.alias import Alias, draw_by_row
from epsworth.mechanisms.steps import Points
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.noise.allowed import in_decimals, length, numbers, whole
from epsworth.noise.answers import LARGEST
from epsworth.noise.lattice import LOSS
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.noise.regions import Relative, region
from epsworth.results import Result
from epsworth.rounding import UNIT, float_above, show_down, show_up, up

CHUNK = 1 << 14
MOST_CELLS = 1 << 22  # of pairs, columns and epsilons that are held at once


@dataclass(frozen=True, eq=False)
class AnswerTable(NoiseMechanism, Result):
    """A mechanism for answers on a public list: the row of the rounded answer says how likely each output is.

    Attributes
    ----------
    answers : tuple of float
        The public list, ascending.
    row : tuple of int
        Which row each answer has.
    outputs : tuple of float
        What may be released.
    weights : tuple of tuples of int
        Per row, how likely each output is, of 2^64.
    theta, offset, sensitivity : float
        The relative error that it was made for, and how far neighbours' answers may be apart.

    Examples
    --------
    >>> from epsworth import noise
    >>> ranked = noise.cheapest(0.2, confidence=0.9, delta=0, region="relative", offset=2, answers=range(40))
    >>> best = ranked.named("optimal").for_release()
    >>> len(best.outputs) < 40, best.confidence >= 0.9, round(best.epsilon(0), 3)
    (True, True, 0.564)
    >>> best.draw([3, 17]).shape  # fit for release
    (2,)
    """

    answers: tuple[float, ...]
    row: tuple[int, ...]
    outputs: tuple[float, ...]
    weights: tuple[tuple[int, ...], ...]
    theta: float
    offset: float
    sensitivity: float

    @classmethod
    def of(cls, region: Relative, sensitivity: float, row: Indices, outputs: Floats, chances: Floats) -> Self:
        """Round chances to whole weights, none of them nought; the likeliest output of a row takes what is left."""
        weights = []
        for chance in chances.tolist():
            rounded = [max(1, int(share * WORD)) for share in chance]
            rounded[max(range(len(chance)), key=chance.__getitem__)] += WORD - sum(rounded)
            weights.append(tuple(rounded))
        return cls(
            tuple(region.answers.tolist()), tuple(row.tolist()), tuple(outputs.tolist()), tuple(weights),
            region.theta, region.offset, sensitivity,
        )  # fmt: skip

    def __post_init__(self) -> None:
        """Check what the promise rests on."""
        for weights in self.weights:
            if [whole(weight, "weights", 1, WORD) for weight in weights] and sum(weights) != WORD:
                raise ValueError("weights must add up to 2^64 in every row")
        if {len(weights) for weights in self.weights} != {len(self.outputs)}:
            raise ValueError("weights must hold one number per output in every row")
        if not (np.diff(numbers(self.outputs, "outputs", at_most=LARGEST)) >= 0).all():
            raise ValueError("outputs must ascend")
        last = [whole(row, "row", 0, len(self.weights) - 1) for row in self.row]
        if len(last) != len(self.answers) or tuple(self.region.answers.tolist()) != self.answers:
            raise ValueError("answers must ascend, and row must hold one number for each of them")
        length(self.sensitivity, "sensitivity")

    def __str__(self) -> str:
        """Show the size of the table, and what it keeps."""
        return (
            f"{len(self.outputs)} outputs for {len(self.answers)} answers: epsilon {show_up(self.pure_epsilon)} with "
            f"delta 0, confidence {show_down(self.confidence)}"
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; what is no table of weights that add up to 2^64 is refused."""
        with reading(path, "noise table") as content:
            found = read_json(content)
            names = [field.name for field in fields(cls)]
            listed = ("answers", "row", "outputs", "weights")
            if (
                not isinstance(found, dict)
                or set(found) != set(names)
                or any(type(found[n]) is not list for n in listed)
            ):
                raise ValueError(f"must hold {', '.join(names)}, and nothing else")
            if any(type(weights) is not list for weights in found["weights"]):
                raise ValueError("weights must be lists of whole numbers")
            if any(type(value) not in (int, float) for value in [*found["answers"], *found["outputs"]]):
                raise ValueError("answers and outputs must be lists of numbers")
            held = {name: tuple(found[name]) for name in ("answers", "row", "outputs")}
            return cls(**found | held | {"weights": tuple(map(tuple, found["weights"]))})

    @cached_property
    def region(self) -> Relative:
        """Where outputs must lie."""
        found = region("relative", self.theta, offset=self.offset, answers=self.answers)
        assert isinstance(found, Relative)
        return found

    @cached_property
    def chances(self) -> Floats:
        """Weights over 2^64, each rounded once, shape ``(rows, outputs)``."""
        return np.array([[weight / WORD for weight in weights] for weights in self.weights])

    @cached_property
    def _compared(self) -> tuple[Floats, Floats]:
        """Return the chances of all ordered pairs of rows that neighbours can have."""
        first, second = self.region.row_pairs(np.array(self.row), self.sensitivity)
        return self.chances[first], self.chances[second]

    @property
    def pairs(self) -> int:
        """How many ordered pairs of rows are compared."""
        return len(self._compared[0])

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return the largest delta of all pairs; never rounded down.

        Chances are rounded once, e^epsilon at eight units, and n terms, none negative, are added.
        """
        first, second = self._compared
        flat, worst = as_floats(epsilon).ravel(), np.zeros(np.size(epsilon))
        chunk = max(1, MOST_CELLS // max(1, first.size))
        for start in range(0, flat.size, chunk):
            ratio = np.exp(np.minimum(flat[start : start + chunk], 700.0))[:, np.newaxis, np.newaxis]
            gains = np.maximum(first * (1 + 4 * UNIT) - ratio * second * (1 - 16 * UNIT), 0.0).sum(axis=-1)
            worst[start : start + chunk] = gains.max(axis=-1, initial=0.0)
        worst = np.where(worst > 0, np.minimum(up(worst, ulps=len(self.outputs) + 4), 1.0), 0.0)
        return worst.reshape(np.shape(epsilon))

    @cached_property
    def pure_epsilon(self) -> float:
        """The largest loss of all pairs, rounded up: two logarithms, each off by a few units of its size."""
        first, second = (np.log(part) for part in self._compared)
        if np.array_equal(first, second):
            return 0.0
        return float(up((first - second).max(initial=0.0) + LOSS * np.abs(np.log(self.chances)).max()))

    @cached_property
    def outside(self) -> float:
        """Pr[outside the region] at the answer where it is largest, all numbers being the decimals they print as."""
        low, high, unit = self.region.exact_ends
        outputs = [in_decimals(output) * unit for output in self.outputs]
        sums = [[0, *accumulate(weights)] for weights in self.weights]
        held = (sums[row][bisect_right(outputs, most)] - sums[row][bisect_left(outputs, least)]
                for row, least, most in zip(self.row, low, high, strict=True))  # fmt: skip
        worst = WORD - min(held)
        return float_above(Fraction(worst, WORD))

    @property
    def rmse(self) -> float:
        """Root of the mean squared error at the answer where it is largest."""
        return float(np.sqrt(self.law(self.region.answers).mean_square().max()))

    def renyi(self, order: float) -> float:
        """Return the largest Renyi divergence of an order, never rounded down."""
        first, second = (np.log(part) for part in self._compared)
        found = logsumexp(order * first + (1 - order) * second, axis=-1).max(initial=0.0) / (order - 1)
        size = 2 * order * np.abs(np.log(self.chances)).max() + len(self.outputs)
        return float(up(max(found, 0.0) + 32 * UNIT * size / (order - 1)))

    def rounded(self, answer: ArrayLike) -> Floats:
        """Return the nearest answers of the public list."""
        return self.region.rounded(answer)

    def law(self, answer: ArrayLike = 0.0) -> Points:
        """Return the law of an answer's row."""
        rounded = self.region.rounded(answer)
        cumulated = tuple(map(tuple, np.cumsum(self.chances, axis=1).tolist()))
        return Points(rounded, as_floats(np.array(self.row)[self._index(rounded)]), self.outputs, cumulated)

    def _index(self, rounded: Floats) -> Indices:
        return np.searchsorted(self.region.answers, rounded)

    @cached_property
    def _tables(self) -> list[Alias]:
        return [Alias(weights) for weights in self.weights]

    def draw(self, answers: ArrayLike, *, words: WordSource | None = None) -> Floats:
        """Release true answers, each rounded to the public list first; shape as given.

        Parameters
        ----------
        answers : array_like
            Within the ends of the public list.
        words : WordSource, optional
            For tests alone: the result is then marked NOT PRIVATE.  By default a fresh key of the operating system.
        """
        rounded = self.region.rounded(answers)
        source = SystemWords() if words is None else words
        rows = np.array(self.row)[self._index(rounded.ravel())]
        drawn, outputs = np.empty(rows.size), np.array(self.outputs)
        for start in range(0, rows.size, CHUNK):
            part = rows[start : start + CHUNK]
            drawn[start : start + CHUNK] = outputs[draw_by_row(self._tables, part, source.take(part.size))]
        shaped = drawn.reshape(rounded.shape)
        return shaped if source.private else shaped.view(NotPrivate)
