"""Tables of whole weights fit for release: their exact promise, and unseeded draws.

The promise is computed for the integers that are drawn from, not for the law they round.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from epsworth.arrays import Floats, Indices, as_floats, slices
from epsworth.client.kernels import WORD, exp_below
from epsworth.documents import in_words, known_table, read_as, read_json
from epsworth.files import reading
from epsworth.mechanisms.alias import Alias, draw_by_row
from epsworth.mechanisms.rational import Exact, stated
from epsworth.mechanisms.steps import Points
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.noise.allowed import in_decimals, length, whole
from epsworth.noise.lattice import HALVES, LOSS, LatticeNoise, in_steps
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.noise.objective import composed_epsilon
from epsworth.noise.profiles import smallest_epsilon
from epsworth.noise.regions import Relative, region
from epsworth.results import Result
from epsworth.rounding import UNIT, float_above, float_below, show_down, show_up, up

MOST_POINTS = 1 << 16
MOST_CELLS = 1 << 22  # of pairs, columns and epsilons that are held at once
FARTHEST = 1 << 52  # answers in steps: beyond it, doubles no longer hold every whole number


class WeightTable(Result):
    """Whole weights that add up to 2^64."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; what is no table of weights that add up to 2^64 is refused."""
        with reading(path, "noise table") as content:
            names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]  # a dataclass
            try:
                found: Self = read_as(cls, known_table("table", read_json(content), names))
            except KeyError as error:
                raise ValueError(in_words(error)) from None
            return found


@dataclass(frozen=True, eq=False)
class LatticeRelease(WeightTable):
    """Symmetric integer noise on a lattice, drawn exactly.

    Attributes
    ----------
    weights : tuple of int
        On noise -h..h (in steps); they add up to 2^64.
    step : float
        Distance of neighbouring points.
    shift : int
        The sensitivity in steps.
    inside : int
        How many points from the middle out are preferred.

    Examples
    --------
    >>> from epsworth import noise
    >>> best = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)
    >>> released = noise.release_of(best.noise)
    >>> released.confidence >= 0.9, round(released.epsilon("1e-6"), 3)
    (True, 0.883)
    >>> released.draw(released.index([12, 340])).shape  # fit for release
    (2,)
    """

    weights: tuple[int, ...]
    step: float
    shift: int
    inside: int

    def __str__(self) -> str:
        confidence = show_down(float_below(self.confidence))
        return f"{len(self.weights)} points of a lattice with step {self.step:g}, confidence {confidence}"

    def __post_init__(self) -> None:
        weights = self.weights
        if sum(weights) != WORD or min(weights) < 0 or weights != weights[::-1] or len(weights) % 2 == 0:
            raise ValueError("weights must be symmetric around one in the middle, and add up to 2^64")
        length(self.step, "step")
        whole(self.shift, "shift", 1, FARTHEST)
        whole(self.inside, "inside", 1, len(weights))

    @cached_property
    def _table(self) -> Alias:
        return Alias(self.weights)

    @property
    def noise(self) -> LatticeNoise:
        """The law that is drawn from."""
        masses = np.array([weight / WORD for weight in self.weights])
        return LatticeNoise(masses=masses, step=self.step, shift=self.shift, inside=self.inside)

    def slack(self, bound: Fraction) -> Fraction:
        """Return the smallest delta for probabilities up to ``bound`` times each other, exactly, over all shifts."""
        half = self.weights[: len(self.weights) // 2 + 1]
        falling = all(a <= b for a, b in pairwise(half))
        shifts = [self.shift] if falling else range(1, self.shift + 1)
        numerator, denominator = bound.numerator, bound.denominator
        worst = 0
        for shift in shifts:
            before = islice(chain(repeat(0, shift), self.weights), len(self.weights))
            gains = (denominator * w - numerator * v for w, v in zip(self.weights, before, strict=True))
            worst = max(worst, sum(gain for gain in gains if gain > 0))
        return Fraction(worst, denominator * WORD)

    def delta(self, epsilon: Exact) -> float:
        """Return the smallest delta that goes with this epsilon, rounded up."""
        return float_above(self.slack(exp_below(stated(epsilon, "epsilon"))))

    def epsilon(self, delta: Exact) -> float:
        """Return an epsilon that is kept with this delta, exactly checked; the smallest up to a relative 1e-12.

        Every table ends somewhere, so delta = 0 keeps none: the answer next to the end can be told.
        """
        allowed = stated(delta, "delta")

        def kept(epsilon: float) -> bool:
            return self.slack(exp_below(Fraction(epsilon))) <= allowed

        if kept(0.0):
            return 0.0
        near = float(smallest_epsilon(self.noise.profile, float(allowed), halvings=45))  # where exact steps begin
        high, gap = near if 0 < near < 700 else 1.0, 1e-12
        while not kept(high):
            high, gap = high * (1 + gap), 8 * gap
            if high > 700:
                return math.inf
        gap = 1e-12
        while gap < 1 and kept(high * (1 - gap)):
            high, gap = high * (1 - gap), 8 * gap
        low = max(0.0, high * (1 - gap))
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high

    @property
    def confidence(self) -> Fraction:
        """Pr[released value in the preferred region], exactly."""
        cut = (len(self.weights) - self.inside) // 2
        return Fraction(sum(self.weights[cut : len(self.weights) - cut]), WORD)

    def index(self, answers: ArrayLike) -> NDArray[np.int64]:
        """Round true answers to the lattice, in steps; deterministic, so free of privacy cost."""
        steps = in_steps(answers, self.step)
        if not (np.abs(steps) < FARTHEST).all():  # the answers are private: no message shows them
            raise ValueError(f"answers must be finite and below {FARTHEST:g} steps of {self.step:g}; scale them first")
        return steps.astype(np.int64)

    def draw(self, index: ArrayLike, *, words: WordSource | None = None) -> NDArray[np.int64]:
        """Add noise to whole numbers of steps, fit for release; shape as given.

        Parameters
        ----------
        index : array_like of int
            True answers in steps (see `index`); a released value is its result times ``step``.
        words : WordSource, optional
            For tests alone: the result is then marked NOT PRIVATE.  By default a fresh key of the operating system.
        """
        steps = np.asarray(index)
        if steps.dtype.kind not in "iu":
            raise TypeError(f"index must be whole numbers of steps, got {steps.dtype}; round answers with index()")
        if not ((steps < FARTHEST) & (steps > -FARTHEST)).all():
            raise ValueError(f"index must be below {FARTHEST:g} steps in size; scale the answers first")
        source = SystemWords() if words is None else words
        noise = self._table.draw(source.words(steps.size)) - len(self.weights) // 2
        drawn = (steps.astype(np.int64).ravel() + noise).reshape(steps.shape)
        return drawn if source.private else drawn.view(NotPrivate)


def released_epsilon(noise: LatticeNoise, delta: float, releases: int) -> float:
    """Return an epsilon that several draws from a noise's integer table keep together; infinite if none, or no table.

    Exact for one release.
    """
    if delta == 0 or noise.masses.size > MOST_POINTS:
        return math.inf
    table = release_of(noise)
    return table.epsilon(delta) if releases == 1 else composed_epsilon(table.noise, delta, releases)


def release_of(noise: LatticeNoise) -> LatticeRelease:
    """Return a table of masses as integer weights, rounded down but for the middle, which takes what is left.

    The middle point is preferred, so Pr[in region] does not fall.  Which noises have no such table
    `Choice.for_release` says, and refuses them.

    Parameters
    ----------
    noise : LatticeNoise
        Such as `optimal_noise` or `cheapest` find on a lattice.

    Examples
    --------
    >>> from epsworth import noise
    >>> best = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)
    >>> released = noise.release_of(best.noise)
    >>> sum(released.weights) == 2**64, released.step, released.shift
    (True, 1.0, 1)
    """
    if noise.masses.size > MOST_POINTS:
        raise ValueError(
            f"the noise has {noise.masses.size} points, more than {MOST_POINTS}; take a coarser lattice for a release"
        )
    # floors must leave the middle no less than its share: their quotients count for no more than the masses
    total = up(float(noise.masses.sum()), ulps=HALVES + 2)
    half = [int(mass / total * WORD) for mass in noise.masses[noise.masses.size // 2 + 1 :]]
    while half and half[-1] == 0:
        half.pop()
    half += [0] * max(0, noise.inside // 2 - len(half))
    middle = WORD - 2 * sum(half)
    return LatticeRelease((*half[::-1], middle, *half), noise.step, noise.shift, noise.inside)


@dataclass(frozen=True, eq=False)
class AnswerTable(NoiseMechanism, WeightTable):
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
        for weights in self.weights:
            if len(weights) != len(self.outputs) or sum(weights) != WORD or min(weights) < 1:
                raise ValueError("weights must be positive, one per output, and add up to 2^64 in every row")
        if not (np.diff(self.outputs) >= 0).all():
            raise ValueError("outputs must ascend")
        if len(self.row) != len(self.answers) or not {*self.row} <= {*range(len(self.weights))}:
            raise ValueError("row must hold the number of a row of weights for each of the answers")
        if tuple(self.region.answers.tolist()) != self.answers:
            raise ValueError("answers must ascend")
        length(self.sensitivity, "sensitivity")

    def __str__(self) -> str:
        return (
            f"{len(self.outputs)} outputs for {len(self.answers)} answers: epsilon {show_up(self.pure_epsilon)} with "
            f"delta 0, confidence {show_down(self.confidence)}"
        )

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
        for part in slices(flat.size, max(1, MOST_CELLS // max(1, first.size))):
            ratio = np.exp(np.minimum(flat[part], 700.0))[:, np.newaxis, np.newaxis]
            gains = np.maximum(first * (1 + 4 * UNIT) - ratio * second * (1 - 16 * UNIT), 0.0).sum(axis=-1)
            worst[part] = gains.max(axis=-1, initial=0.0)
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
        return float_above(Fraction(WORD - min(held), WORD))

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
        return Points(rounded, as_floats(self._rows(rounded)), self.outputs, cumulated)

    def _rows(self, rounded: Floats) -> Indices:
        return np.array(self.row)[np.searchsorted(self.region.answers, rounded)]

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
        rows, source = self._rows(self.region.rounded(answers)), SystemWords() if words is None else words
        drawn = draw_by_row(self._tables, rows.ravel(), source.words(rows.size))
        shaped = np.array(self.outputs)[drawn].reshape(rows.shape)
        return shaped if source.private else shaped.view(NotPrivate)
