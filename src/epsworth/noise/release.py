"""Lattice noise fit for release: integer weights that add up to 2^64, their exact promise, unseeded draws.

The promise is computed for the integers that are drawn from, in rational arithmetic, not for the law they round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.client.kernels import WORD, exp_below
from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.mechanisms.alias import Alias
from epsworth.mechanisms.rational import Exact, stated
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.noise.allowed import length, whole
from epsworth.noise.answers import in_steps
from epsworth.noise.composition import composed_epsilon
from epsworth.noise.lattice import HALVES, LatticeNoise
from epsworth.noise.profiles import smallest_epsilon
from epsworth.results import Result
from epsworth.rounding import float_above, float_below, show_down, up

CHUNK = 1 << 14
MOST_POINTS = 1 << 16
FARTHEST = 1 << 52  # answers in steps: beyond it, doubles no longer hold every whole number


@dataclass(frozen=True, eq=False)
class LatticeRelease(Result):
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
        """Show the size of the table and its confidence."""
        confidence = show_down(float_below(self.confidence))
        return f"{len(self.weights)} points of a lattice with step {self.step:g}, confidence {confidence}"

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; what is no symmetric table of weights that add up to 2^64 is refused."""
        with reading(path, "noise table") as content:
            found = read_json(content)
            names = [field.name for field in fields(cls)]
            if not isinstance(found, dict) or set(found) != set(names) or not isinstance(found["weights"], list):
                raise ValueError(f"must hold {', '.join(names)}, and nothing else")
            return cls(**found | {"weights": tuple(found["weights"])})

    def __post_init__(self) -> None:
        """Check what the promise rests on."""
        weights = [whole(weight, "weights", 0, WORD) for weight in self.weights]
        if sum(weights) != WORD or weights != weights[::-1] or len(weights) % 2 == 0:
            raise ValueError("weights must be symmetric around one in the middle, and add up to 2^64")
        length(self.step, "step")
        whole(self.shift, "shift", 1, FARTHEST)
        whole(self.inside, "inside", 1, len(weights))

    @cached_property
    def _table(self) -> Alias:
        return Alias(self.weights)

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
        low, high, gap = 0.0, self._near(float(allowed)), 1e-12
        while not kept(high):
            low, high, gap = high, high * (1 + gap), 8 * gap
            if high > 700:
                return math.inf
        gap = 1e-12
        while gap < 1 and low < high * (1 - gap) and kept(high * (1 - gap)):
            high, gap = high * (1 - gap), 8 * gap
        low = max(low, high * (1 - gap)) if gap < 1 else low
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high

    def _near(self, delta: float) -> float:
        """Return an epsilon near the answer, in floats: where the exact search begins."""
        masses = np.array([weight / WORD for weight in self.weights])
        table = LatticeNoise(masses=masses, step=self.step, shift=self.shift, inside=self.inside)
        found = float(smallest_epsilon(table.profile, delta, halvings=45))
        return found if 0 < found < 700 else 1.0

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
        flat = steps.astype(np.int64).ravel()
        noise = np.empty_like(flat)
        for start in range(0, flat.size, CHUNK):
            part = flat[start : start + CHUNK]
            noise[start : start + CHUNK] = self._table.draw(source.take(part.size))
        drawn = (flat + noise - len(self.weights) // 2).reshape(steps.shape)
        return drawn if source.private else drawn.view(NotPrivate)


def released_epsilon(noise: LatticeNoise, delta: float, releases: int) -> float:
    """Return an epsilon that several draws from a noise's integer table keep together; infinite if none, or no table.

    Exact for one release.
    """
    if delta == 0 or noise.masses.size > MOST_POINTS:
        return math.inf
    table = release_of(noise)
    if releases == 1:
        return table.epsilon(delta)
    return composed_epsilon(drawn_from(noise), delta, releases)


def drawn_from(noise: LatticeNoise) -> LatticeNoise:
    """Return the law that a noise's integer table draws from."""
    masses = np.array([weight / WORD for weight in release_of(noise).weights])
    return replace(noise, masses=masses, lost=0.0, pure=math.inf)


def release_of(noise: LatticeNoise) -> LatticeRelease:
    """Round a table of masses to integer weights: down, except the middle, which takes what is left.

    The middle point is preferred, so Pr[in region] does not fall.
    Which noises have no such table `Choice.for_release` says, and refuses them.

    Parameters
    ----------
    noise : LatticeNoise
        Such as `optimal_noise` or `cheapest` find on a lattice.

    Returns
    -------
    LatticeRelease

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
