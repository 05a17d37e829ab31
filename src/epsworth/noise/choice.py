"""One row of the ranked list, a noise and what it costs; and which of them to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.mechanisms.law import Law
from epsworth.noise.lattice import LatticeNoise
from epsworth.noise.mechanism import NoiseMechanism
from epsworth.noise.objective import ENDLESS, EPSILON, Objective
from epsworth.noise.regions import Region
from epsworth.noise.release import AnswerTable, LatticeRelease, release_of, released_epsilon
from epsworth.results import Result, json_form
from epsworth.rounding import percent_up, show_down, show_up

UNTRIED = "was not tried: "  # how the reasons begin of noise of which nothing is known
ALIKE = 1.01  # an epsilon within one per cent of the least: then the smaller error decides
RULE = "Advised: the smallest error among the noises whose proven cost is within 1 % of the least."


@dataclass(frozen=True, eq=False)
class Choice(Result):
    """One noise that meets the constraint, and what it costs.

    Attributes
    ----------
    name : str
        Which noise.
    epsilon, delta : float
        The promise for all releases together.  Where ``sound`` is False, a claim and not a promise.
    releases : int
        T.
    confidence : float
        Pr[one released value lies in the region], at the true answer where it is smallest; never rounded up.  With a
        public list of answers, the region is that of the rounded answer: half a gap of the list (and a
        thousandth) from the true one's.
    rmse : float
        Root of the mean squared error of one release, at the true answer (on the public list) where it is largest.
    sound : bool
        Whether epsilon is an upper bound of the truth.
    pairs : int
        Ordered pairs of true answers that were compared; one where a proof says which is worst.
    noise : NoiseMechanism
        The mechanism, with its profile.
    exact_epsilon : float
        The exact epsilon of this noise; equal to ``epsilon`` for sound ones.
    cost : float
        What was asked to be small, of all releases together: epsilon unless another objective was named.
    objective : Objective
        What was asked to be small.
    region : Region
        Where answers must land; answers beyond the ends of its public list, if it has one, are refused.

    Examples
    --------
    >>> from epsworth import noise
    >>> choice = noise.cheapest(2, confidence=0.9, delta=0, lattice=1).named("discrete_laplace")  # for counts
    >>> round(choice.epsilon, 4), round(choice.confidence, 4), choice.sound
    (0.8832, 0.9, True)
    >>> choice.sample([10, 20], rng=0).shape  # for analysis; `for_release` makes what may leave
    (2,)
    """

    name: str
    epsilon: float
    delta: float
    releases: int
    confidence: float
    rmse: float
    sound: bool
    pairs: int
    noise: NoiseMechanism = field(repr=False)
    exact_epsilon: float
    cost: float
    objective: Objective = field(repr=False)
    region: Region = field(repr=False)

    def law(self, answer: ArrayLike = 0.0) -> Law:
        """Return the law of one released value, for a true answer: it is rounded first where the noise asks for it."""
        return self.noise.law(self.noise.rounded(self.region.admitted(answer)))

    def sample(self, answer: ArrayLike, rng: np.random.Generator | int) -> Floats:
        """Draw for analysis, one value per true answer; never fit for release (see `for_release`)."""
        return self.noise.sample(self.region.admitted(answer), rng)

    def for_release(self) -> LatticeRelease | AnswerTable:
        """Return this noise with integer weights, drawn with the operating system's randomness."""
        if isinstance(self.noise, AnswerTable):
            return self.noise
        if not isinstance(self.noise, LatticeNoise):
            raise ValueError(
                f"{self.name} has a continuous law, whose floating-point draws are not fit for release; take a "
                "discrete one, or ask with lattice= the step of the true answers and take 'optimal'"
            )
        if self.objective.name in ENDLESS:
            raise ValueError(
                f"{self.name} keeps its {self.objective} by tails that no table of 64-bit weights has; ask for epsilon "
                "with a delta, or for what an attacker gains"
            )
        if not self.epsilon >= released_epsilon(self.noise, self.delta, self.releases):
            raise ValueError(
                f"{self.name} keeps epsilon {show_up(self.epsilon)} with delta {show_up(self.delta)} by tails that no "
                "table of 64-bit weights has; ask with a larger delta, such as 1e-12"
            )
        return release_of(self.noise)

    def __str__(self) -> str:
        promise = f"epsilon {show_up(self.epsilon)}, delta {show_up(self.delta)}"
        promise += f" for {self.releases} releases together" if self.releases > 1 else ""
        remark = "" if self.sound else f" (not a bound: in truth epsilon {show_up(self.exact_epsilon)})"
        held = f"confidence {show_down(self.confidence)}, root mean squared error {show_up(self.rmse, 4)}"
        return f"{self.name}: {promise}, {held}{remark}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values; None where no epsilon is kept."""
        names = "name", "epsilon", "delta", "releases", "confidence", "rmse", "sound", "pairs", "exact_epsilon", "cost"
        return {name: json_form(getattr(self, name)) for name in names}


def above_floor(cost: float, floor: float) -> str:
    """Say how far a cost is above a floor, in per cent, rounded up; a dash without one.

    Examples
    --------
    >>> above_floor(1.2800001, 1.0), above_floor(1.0 + 1e-9, 1.0), above_floor(2.0, 0.0)
    ('28.1 %', '<0.01 %', '-')
    """
    if floor <= 0:
        return "-"
    share = cost / floor - 1
    return f"{percent_up(share)} %" if share >= 1e-4 else "<0.01 %"


def taken(rows: Sequence[Choice]) -> Choice | None:
    """Return the row that is advised: of those that cost the least, or 1 % more, the one that errs least."""
    best = cheapest_sound(rows)
    near = (row for row in rows if best is not None and row.sound and row.cost <= best.cost * ALIKE)
    return min(near, key=lambda row: row.rmse, default=None)


def cheapest_sound(rows: Sequence[Choice]) -> Choice | None:
    """Return the row that costs the least of those that are bounds."""
    return min((row for row in rows if row.sound), key=lambda row: row.cost, default=None)


def advice(
    rows: Sequence[Choice], floor: float, left_out: Mapping[str, str], objective: Objective = EPSILON,
    kind: str = "noise whose density falls outwards",
) -> str:  # fmt: skip
    """Say in a sentence which to take and why; no noise of a kind is cheaper than ``floor``, 0 where none is known."""
    take, best = taken(rows), cheapest_sound(rows)
    if take is None or best is None:
        untried = {name: why.removeprefix(UNTRIED) for name, why in left_out.items() if why.startswith(UNTRIED)}
        if untried:
            told = (
                f"{', '.join(n for n in untried if untried[n] == why)}: {why}"
                for why in dict.fromkeys(untried.values())
            )
            return f"No noise that was tried keeps this constraint with this delta; not tried were {'; '.join(told)}."
        return "No noise keeps this constraint with this delta; allow a larger delta, or a wider region."
    words = f"Take {take.name}: {objective.said(take.cost)}"
    if objective == EPSILON:
        words += f" with delta {show_up(take.delta)}" if take.delta else " with delta 0"
    words += f" for {take.releases} releases together" if take.releases > 1 else ""
    words += f", root mean squared error {show_up(take.rmse, 4)}"
    if take is not best:
        words += f"; {best.name} costs {show_up(best.cost)}, but errs more ({show_up(best.rmse, 4)})"
    if floor > 0:
        words += f"; no {kind} costs less than {show_down(floor)}"
    return words + "."
