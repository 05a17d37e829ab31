"""The ranked list: every noise that meets the constraint, cheapest first, and how far each is from the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from epsworth.noise import allowed, regions
from epsworth.noise.choice import UNTRIED, Choice, advice, taken
from epsworth.noise.figures import Panel, density, draw_costs, draw_densities
from epsworth.noise.lattice import LatticeNoise, spacing
from epsworth.noise.mechanism import FINEST, Boosted, Clamped, NoiseMechanism, TooLarge
from epsworth.noise.objective import ENDLESS, EPSILON, POINTS, Objective, composed_epsilon
from epsworth.noise.optimum import MOST_RELEASES, optimal_noise
from epsworth.noise.profiles import LARGEST_SEARCHED, Kernel
from epsworth.noise.published import MOST_SEARCHED, published_choice
from epsworth.noise.regions import Absolute, Fixed, Kind, Region, Relative
from epsworth.noise.relative import Best, best_relative
from epsworth.noise.release import MOST_POINTS, release_of, released_epsilon
from epsworth.noise.staircase import best_staircase
from epsworth.noise.tuning import (
    SEARCH_POINTS,
    best_boosted,
    best_discrete,
    best_truncated,
    discrete_plain,
    least_boosted,
    plain,
)
from epsworth.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Method = Literal["exact", "published"]
COMPARED = ("optimal", "staircase", "laplace", "pb_laplace", "pb_gaussian", "gaussian")  # in plots
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplace")
WIDEST_RATIO = 1e9  # of a region's half-width, or a scale, and the sensitivity, either way


@dataclass(frozen=True)
class Problem:
    """A utility constraint and a privacy budget, checked."""

    region: Region
    failure: float  # largest probability of an answer outside
    sensitivity: float
    delta: float
    releases: int
    lattice: float | None
    scale: float
    objective: Objective = EPSILON

    def cost(self, noise: NoiseMechanism, points: int = POINTS) -> float:
        """Return what the releases cost together."""
        return self.objective.cost(noise, self.delta, self.releases, points)

    def searched(self, noise: NoiseMechanism) -> float:
        """Return the same on the coarse grid of a search."""
        return self.cost(noise, SEARCH_POINTS)

    @property
    def single_delta(self) -> float | None:
        """Delta where the epsilon of one release is asked for: of many noises at once it is found fast."""
        return self.delta if self.releases == 1 and self.objective == EPSILON else None

    @cached_property
    def best(self) -> Best:
        """The best noise, None where its program would be too large, or failed; and its floor, or 0."""
        if isinstance(self.region, Relative):
            return best_relative(self.region, self.failure, self.sensitivity, self.delta if self.releases == 1 else 0.0)
        try:
            found = optimal_noise(
                self.region.half, confidence=1 - Fraction(self.failure), sensitivity=self.sensitivity, delta=self.delta,
                lattice=self.lattice, releases=self.releases, objective=self.objective.text,
            )  # fmt: skip
        except TooLarge:
            return Best(None, 0.0)
        return Best(found.noise, found.floor)

    def optimal(self) -> NoiseMechanism:
        """Return the best noise; `TooLarge` where there is none."""
        relative = isinstance(self.region, Relative)
        if relative and (self.objective != EPSILON or (self.releases > 1 and self.delta > 0)):
            raise TooLarge("under a relative error it is known for epsilon alone: of one release, or without a delta")
        if self.best.noise is None:
            hint = "; give a coarser or shorter list" if relative else ", or its solver gave up"
            raise TooLarge(f"the linear program is too large{hint}")
        return self.best.noise

    @property
    def floor(self) -> float:
        """What no noise costs less than; 0 where nothing is known."""
        once = self.objective == EPSILON and self.releases == 1
        known = isinstance(self.region, Absolute) or (isinstance(self.region, Relative) and once)
        return self.best.floor if known else 0.0


@dataclass(frozen=True, eq=False)
class Ranking(Result, Sequence[Choice]):
    """Choices, cheapest first; a sequence.

    Attributes
    ----------
    choices : tuple of Choice
        Ranked by their cost: epsilon, or the objective asked for.
    floor : float
        A dual bound; 0 where none is known.  Under an absolute error no noise whose density, or masses on the lattice,
        fall on either side of zero costs less (`Optimum`); under a relative one, no mechanism of any kind costs less in
        one release of the answers on the list.
    left_out : dict
        What cannot keep any epsilon here, and why.
    asked : Problem
        What was asked.

    Examples
    --------
    >>> from epsworth import noise
    >>> ranked = noise.cheapest(2, confidence=0.9, delta=0, lattice=1)  # for counts
    >>> round(ranked.named("laplace").epsilon, 2), ranked.floor <= ranked[0].epsilon, ranked.left_out["gaussian"]
    (1.15, True, 'keeps no epsilon with delta 0')
    """

    choices: tuple[Choice, ...]
    floor: float
    left_out: dict[str, str]
    asked: Problem = field(repr=False)

    @overload
    def __getitem__(self, index: int) -> Choice: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Choice, ...]: ...
    def __getitem__(self, index: int | slice) -> Choice | tuple[Choice, ...]:
        return self.choices[index]

    def __len__(self) -> int:
        return len(self.choices)

    def named(self, name: str) -> Choice:
        """Return the choice of this name."""
        for choice in self.choices:
            if choice.name == name:
                return choice
        why = self.left_out.get(name)
        raise KeyError(f"{name}: {why}" if why else f"no choice {name!r}; there are {', '.join(c.name for c in self)}")

    @property
    def taken(self) -> Choice | None:
        """The choice that is advised: of those that cost the least, or 1 % more, the one that errs least."""
        return taken(self.choices)

    @property
    def advice(self) -> str:
        """Say in a sentence which to take and why."""
        of = "noise whose density falls outwards" if isinstance(self.asked.region, Absolute) else "mechanism"
        of += ", drawn anew each time," if self.asked.releases > 1 else ""
        return advice(self.choices, self.floor, self.left_out, self.asked.objective, of)

    def __str__(self) -> str:
        return "\n".join([*map(str, self), self.advice])

    def to_dict(self) -> dict[str, Any]:
        """Return rows, floor and advice as plain values."""
        return {
            "objective": self.asked.objective.text,
            "rows": [choice.to_dict() for choice in self],
            "floor": self.floor,
            "left_out": self.left_out,
            "advised": None if self.taken is None else self.taken.name,
            "advice": self.advice,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the main choices: costs against the half-width of an absolute error, otherwise densities."""
        return self.panels()[-1](ax)

    def panels(self) -> list[Panel]:
        """Return what draws the densities of the main choices and, for an absolute error, their costs."""
        where = self.asked.region
        answer = float(where.hardest[0])
        low, high = (float(end) for end in where.ends(answer))
        sound = [choice for choice in self if choice.sound]
        advised = None if self.taken is None else self.taken.name
        names = {choice.name for choice in sound}
        names = names & {*COMPARED} or names
        shown = [choice for choice in sound if choice.name in names or choice is self.taken]

        def densities(ax: Axes | None) -> Axes:
            y = np.linspace(2 * low - high, 2 * high - low, 1201)
            return draw_densities(y, {c.name: density(c.law(answer), y) for c in shown}, (low, high), ax, advised)

        def costs(ax: Axes | None) -> Axes:
            widths = self.asked.region.half * np.geomspace(0.25, 4, 7)
            others = [replace(self.asked, region=Absolute(half), lattice=None) for half in widths.tolist()]
            curves = {c.name: np.array([cost_named(c.name, other) for other in others]) for c in shown}
            objective, delta = self.asked.objective, self.asked.delta
            what = f"epsilon, delta {delta:g}" if objective == EPSILON else str(objective)
            return draw_costs(widths, curves, what, ax, advised)

        return [densities, costs] if isinstance(where, Absolute) else [densities]


def cheapest(
    theta: float | tuple[float, float],
    *,
    confidence: allowed.Confidence,
    sensitivity: float = 1.0,
    delta: float = 1e-6,
    releases: int = 1,
    region: Kind = "absolute",
    offset: float | None = None,
    answers: ArrayLike | None = None,
    lattice: float | None = None,
    scale: float | None = None,
    method: Method = "exact",
    objective: str = "epsilon",
) -> Ranking:
    """Return every noise that keeps answers in a region with this confidence, the cheapest first.

    Claim: each row with ``sound`` True is (epsilon, delta)-DP for all releases together, between any two data sets
    whose answers differ by at most the sensitivity, and each release lies in the region with at least its
    ``confidence``, which is at least the one asked for.  Numbers out of their ranges are refused by a ``ValueError``.

    Parameters
    ----------
    theta : float or pair of floats
        ``absolute``: half-width around the true answer.  ``relative``: within ``offset + theta * answer``.
        ``fixed``: the two ends of the region, or a half-width around zero.
    confidence : float or Fraction
        Probability, in (0, 1), with which each release must lie in the region.  What it leaves to fail is held to be
        exactly 1 - confidence; where no double says that well enough, give a fraction, ``1 - Fraction("1e-12")``.
    sensitivity : float
        Largest change of the answer between neighbouring data sets.
    delta : float
        In [0, 1), for all releases together.
    releases : int
        How many answers are released, each under the constraint.
    region : {"absolute", "relative", "fixed"}
        What theta means.
    offset, answers : optional
        See `regions.region`: ``relative`` and ``fixed`` compare all pairs on a public list of true answers.
    lattice : float, optional
        ``absolute``: step of the lattice that true answers lie on (1 for counts).  By default they are real numbers,
        which the discrete rows round first, at half a step of their theta.
    scale : float, optional
        ``fixed`` alone: the kernel's scale (the sensitivity by default); that region does not determine it, since
        clamping meets it at any scale.
    method : {"exact", "published"}
        ``published`` adds the boosted rows as Jiang et al. 2025 account for them: ``sound`` False, with the exact
        epsilon of what they choose beside it.
    objective : str
        What is to be small, of all releases together: "epsilon"; what an attacker gains who saw them and guesses
        which of two neighbouring data sets it was, "advantage" (true less false positive rate at best) or "tpr@0.01"
        (true positive rate at this false positive rate); "renyi@8" (divergence of this order), "zcdp" (rho), "gdp"
        (mu).  All but epsilon hold whatever ``delta`` is.

    Examples
    --------
    >>> from epsworth.noise import cheapest
    >>> ranked = cheapest(5, confidence=0.95, delta=1e-5)
    >>> ranked[0].epsilon <= ranked.named("gaussian").epsilon
    True
    >>> round(ranked.named("pb_gaussian").epsilon, 4)
    1.2525
    >>> attacked = cheapest(5, confidence=0.95, objective="tpr@0.01")  # of an attacker who is wrong 1 % of the time
    >>> print(f"{attacked[0].name}: {attacked[0].cost:.4f}")
    staircase: 0.0182

    References
    ----------
    Jiang, Zhang, Lu, Du, Sharma & Yan 2025 (the question and boosting); Geng & Viswanath 2014 (staircase);
    Balle & Wang 2018 (Gaussian); Doroshenko et al. 2022 (composition).
    """
    asked = question(
        theta, confidence, sensitivity, delta, releases, region, offset, answers, lattice, scale, objective
    )
    if method not in ("exact", "published"):
        raise ValueError(f"method must be 'exact' or 'published', got {method!r}")
    if method == "published":
        allowed.whole(releases, "releases with method='published'", 1, MOST_SEARCHED)
        if asked.objective != EPSILON:
            raise ValueError(f"method='published' accounts for epsilon alone, got objective {objective!r}")
    found, left_out = [], {}
    for name, build in _builders(asked).items():
        try:
            noise = build()
            epsilon = _stated(noise, asked)
            cost = epsilon if asked.objective == EPSILON else _cost(noise, asked)
        except TooLarge as error:
            left_out[name] = f"{UNTRIED}{error}"
            continue
        if math.isfinite(cost):
            found.append(_choice(name, noise, epsilon, cost, asked))
        else:
            left_out[name] = _why_not(name, asked)
    if method == "published":
        found += _published(asked)
    found = sorted(found, key=lambda choice: choice.cost)
    if isinstance(asked.region, Relative) and found and found[0].name != "optimal" in {choice.name for choice in found}:
        left_out["optimal"] = f"{found[0].name}, which does not round to the list, costs less; give a finer list"
        found = [choice for choice in found if choice.name != "optimal"]
    return Ranking(tuple(found), asked.floor, left_out, asked)


def cost_named(name: str, asked: Problem) -> float:
    """Return what one noise of the list costs; infinite where it is too large to be on offer."""
    try:
        return asked.cost(noise_named(name, asked))
    except TooLarge:
        return math.inf


def noise_named(name: str, asked: Problem) -> NoiseMechanism:
    """Return one noise of the list, tuned to the question."""
    builders = _builders(asked)
    if name not in builders:
        raise ValueError(f"mechanism must be one of {', '.join(builders)} here, got {name!r}")
    return builders[name]()


def question(
    theta: float | tuple[float, float], confidence: allowed.Confidence, sensitivity: float, delta: float,
    releases: int = 1, region: Kind = "absolute", offset: float | None = None, answers: ArrayLike | None = None,
    lattice: float | None = None, scale: float | None = None, objective: str = "epsilon",
) -> Problem:  # fmt: skip
    """Check the arguments of `cheapest`."""
    where = regions.region(region, theta, offset=offset, answers=answers)
    sensitivity = allowed.length(sensitivity, "sensitivity")
    releases = allowed.whole(releases, "releases", 1, MOST_RELEASES)
    if lattice is not None:
        if region != "absolute":
            raise ValueError(f"lattice belongs to region='absolute', got it for {region!r}; give answers instead")
        lattice = allowed.length(lattice, "lattice")
    if scale is not None and region != "fixed":
        raise ValueError(f"scale belongs to region='fixed'; for {region!r} it is searched")
    asked = Problem(
        where, allowed.failure(confidence), sensitivity, allowed.share(delta, "delta", zero=True), releases,
        lattice, sensitivity if scale is None else allowed.length(scale, "scale"), Objective.of(objective),
    )  # fmt: skip
    for width, what in ((asked.region.half, "theta"), (asked.scale, "scale")):
        if not WIDEST_RATIO >= width / sensitivity >= 1 / WIDEST_RATIO:
            raise ValueError(
                f"sensitivity must lie within a factor {WIDEST_RATIO:g} of {what}, {width:g} here, got {sensitivity:g}"
            )
    return asked


def _builders(asked: Problem) -> dict[str, Callable[[], NoiseMechanism]]:
    """Return the list for this kind of region: name -> how to build the tuned noise."""
    region, failure, size, scale = asked.region, asked.failure, asked.sensitivity, asked.scale
    built: dict[str, Callable[[], NoiseMechanism]] = {}
    if isinstance(region, Fixed):
        for kernel in KERNELS:
            free = Boosted(kernel, scale, 1.0, Absolute(size), size)
            built[f"clamped_{kernel}"] = partial(Clamped, free, region)
            built[f"pb_{kernel}"] = partial(least_boosted, kernel, scale, region, size, failure)
            built[f"truncated_{kernel}"] = partial(Boosted, kernel, scale, np.inf, region, size)
        return built
    built |= {"optimal": asked.optimal, "staircase": partial(best_staircase, region.half, failure, size)}
    for kernel in KERNELS:
        built[kernel] = partial(plain, kernel, region, failure, size)
        built[f"pb_{kernel}"] = partial(best_boosted, kernel, region, failure, size, asked.single_delta, asked.searched)
    if not isinstance(region, Absolute):
        return built
    for kernel in KERNELS:
        built[f"truncated_{kernel}"] = partial(best_truncated, kernel, region, size, asked.delta / asked.releases)
        built[f"discrete_{kernel}"] = partial(_discrete, kernel, asked, boosted=False)
        built[f"pb_discrete_{kernel}"] = partial(_discrete, kernel, asked, boosted=True)
    return built


def _discrete(kernel: Kernel, asked: Problem, *, boosted: bool) -> NoiseMechanism:
    grid = spacing(asked.region.half, asked.sensitivity, asked.lattice)
    if not boosted:
        return discrete_plain(kernel, grid, asked.failure)
    return best_discrete(kernel, grid, asked.failure, asked.searched, slow=not asked.single_delta)


def _stated(noise: NoiseMechanism, asked: Problem) -> float:
    """Return an epsilon that the law keeps and, where one does, the table of integers that is drawn from, too."""
    own = composed_epsilon(noise, asked.delta, asked.releases)
    if not isinstance(noise, LatticeNoise) or not math.isfinite(own):
        return own
    drawn = released_epsilon(noise, asked.delta, asked.releases)
    return max(own, drawn) if math.isfinite(drawn) else own


def _cost(noise: NoiseMechanism, asked: Problem) -> float:
    """Return what a law costs and, where one can be drawn from, its table of integers, too."""
    own = asked.cost(noise)
    if not isinstance(noise, LatticeNoise) or asked.objective.name in ENDLESS or noise.masses.size > MOST_POINTS:
        return own
    return max(own, asked.cost(release_of(noise).noise))


def _choice(
    name: str, noise: NoiseMechanism, epsilon: float, cost: float, asked: Problem, claimed: float | None = None
) -> Choice:
    return Choice(
        name, epsilon if claimed is None else claimed, asked.delta, asked.releases, noise.confidence, noise.rmse,
        claimed is None, noise.pairs, noise, epsilon, cost, asked.objective, asked.region,
    )  # fmt: skip


def _published(asked: Problem) -> list[Choice]:
    """Return what the published accounting chooses and claims, with the exact epsilon of the choice."""
    found = published_choice(asked.region, asked.failure, asked.sensitivity, asked.delta, asked.releases, asked.scale)
    if found is None:
        return []
    noise, claimed = found
    exact = composed_epsilon(noise, asked.delta, asked.releases)
    return [_choice("pb_gaussian (published)", noise, exact, claimed, asked, claimed)]


def _why_not(name: str, asked: Problem) -> str:
    if asked.objective != EPSILON:
        return f"no bound on its {asked.objective} is known"
    if asked.delta == 0:
        return "keeps no epsilon with delta 0"
    if name.startswith("truncated"):
        return "neighbouring answers have different supports, whose difference weighs more than delta at every scale"
    if asked.delta < FINEST:
        return f"{UNTRIED}masses below {FINEST:g} are not resolved; ask with a larger delta"
    return f"keeps no epsilon up to {LARGEST_SEARCHED:g} with this delta"
