"""The least mass outside under a privacy curve, a delta for every epsilon: best laws, and floors that no noise passes.

What a law of falling densities y loses at epsilon, the sum of w_h (y_h - e^epsilon y_(h+P))+ over pairs of cells, is
convex.  With a delta for each epsilon of a grid the least mass outside is a linear program, solved again and again near
its own last answer: there, comparisons far from their kink are linear.  Dropping epsilons and kinks asks for less, so
that the dual is a floor all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array, csr_array
from scipy.special import bdtr, bdtrik, betainc, expit, logit, ndtr, xlog1py, xlogy
from scipy.stats import binom

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.noise.cells import Cells, HalfLine, ProgramError
from epsworth.noise.objective import gaussian_terms
from epsworth.noise.program import GAPS, solved
from epsworth.rounding import UNIT, up

ROUNDS = 14  # of programs, each near the last one's answer
SETTLED = 1e-5  # change of the parameter, relative, after which there is no further one
SMALL = 1e-4  # step, relative, for a parameter's slope
LOWEST = 1e-3  # of a law's cost: no floor is looked for below
LEAP = 8.0  # most that a round changes a density by
PLACES = (12, 24, 48, 96)  # epsilons of a grid, round by round
FADED = 1e-6  # of what may fail: mass outside that a window leaves out
FARTHEST = 8  # periods outside that it has at least
STEEPEST = 6.0  # decay of a period at first
MOST_CELLS = 512  # of a window: beyond, programs take more than seconds
KINKS = 2500  # of a program, about
NARROW = 4.0  # steps of the grid around a loss where kinks are kept, at least
NEVER = 14.0  # log of two densities' ratio beyond which a kink is out of reach
FINEST = 1e-6  # of sizes: a solver drops coefficients below 1e-9
FADING = 1e-4  # of what may fail: a delta beyond which no epsilon matters
SURE = 1e-7  # relative error of a binomial's tail, generously
EVENTS = 400  # probabilities of an event on a grid, on either side of 1/2
RAREST = 1e-12  # of events, and of deltas
TINIEST = 1e-280  # of a binomial's tail: below, it is bounded (Chernoff)


class Curve(Protocol):
    """What a release may lose: a delta for every epsilon from zero on."""

    @property
    def top(self) -> float:
        """The last epsilon that matters."""

    def __call__(self, epsilon: Floats) -> Floats:
        """Return the most that may be lost at epsilons, rounded up."""


@dataclass(frozen=True)
class Gaussian:
    """What mu-Gaussian DP lets a release lose: as much as a Gaussian of sensitivity mu and scale 1."""

    mu: float
    least: float  # delta beyond which no epsilon matters

    def __call__(self, epsilon: Floats) -> Floats:
        """Return deltas."""
        a, second, off = gaussian_terms(epsilon, self.mu)
        lost = ndtr(a) * (1 + off) - second * (1 - off)
        return as_floats(np.maximum(lost, self.least / 10))

    @cached_property
    def top(self) -> float:
        """The epsilon at which delta is the least."""

        def excess(epsilon: float) -> float:
            return math.log(float(self(as_floats(epsilon))) / self.least)

        return float(brentq(excess, 0.0, self.mu * (self.mu / 2 + 40))) if excess(0.0) > 0 else self.mu


@dataclass(frozen=True)
class Counted:
    """What a promise of several releases together leaves to one of them.

    An event of probability p under one answer and q < p under another one happens binomially often; where the two
    binomials break the promise, so do the releases.  On a grid of q, the largest p that does not is found; wherever
    between them p is larger, some mixture of the event with a coin has a q of the grid, and breaks the promise.
    """

    p: Floats  # corners of the pairs that are left
    q: Floats
    top: float

    @classmethod
    def epsilon(cls, epsilon: float, delta: float, releases: int, top: float) -> Counted:
        """Return what (epsilon, delta) leaves."""
        return cls(*_corners(lambda p, q: _lost(p, q, epsilon, delta, releases)), top)

    @classmethod
    def caught(cls, most: float, rate: float, releases: int, top: float) -> Counted:
        """Return what a true positive rate of ``most``, at a false positive rate, leaves."""
        return cls(*_corners(lambda p, q: _caught(p, q, rate, releases) > most), top)

    def __call__(self, epsilon: Floats) -> Floats:
        """Return the largest p - e^epsilon q."""
        most = (self.p - np.exp(epsilon)[:, np.newaxis] * self.q).max(axis=1)
        return as_floats(np.maximum(most * (1 + SURE) + 16 * UNIT, RAREST))


def _corners(broken: Callable[[Floats, Floats], Bools]) -> tuple[Floats, Floats]:
    """Return corners p and q of what is left by a promise that binomials of p and q < p surely break where told.

    From one q of the grid to the next, p stays below a line through (0, 0) and one through (1, 1).
    """
    q, p = largest_events(broken)
    more = np.maximum(p - q, UNIT * q)
    rise, gain = np.append(np.inf, more / q), np.append(more / (1 - q), 1.0)
    corner = gain / (rise + gain)
    return gain + (1 - gain) * corner, corner


def largest_events(broken: Callable[[Floats, Floats], Bools]) -> tuple[Floats, Floats]:
    """Return a grid of q, and of each the least p found, or 1, from which on an event breaks a promise."""
    rare = np.geomspace(RAREST, 0.5, EVENTS)
    q = np.concatenate([rare, 1 - rare[-2::-1]])
    low, high = logit(q), np.full(q.shape, -float(logit(UNIT)))
    certain = high[0]
    for _ in range(30):
        middle = (low + high) / 2
        p = expit(middle)
        lost = broken(p, q) | broken(1 - q, 1 - p)  # of the other event, too
        low, high = np.where(lost, low, middle), np.where(lost, middle, high)
    return q, as_floats(np.where(high < certain, expit(high), 1.0))


def _lost(p: Floats, q: Floats, epsilon: float, delta: float, releases: int) -> Bools:
    """Tell where so many events of probability p surely are more likely than those of q < p, by e^epsilon and delta."""
    with np.errstate(all="ignore"):
        slope = np.log(p / q) + np.log1p(-q) - np.log1p(-p)
        flat = releases * (np.log1p(-q) - np.log1p(-p))
        count = np.clip(np.ceil((flat + epsilon) / slope), 1, releases)  # or more: more likely by e^epsilon
        first, second = (betainc(count, releases - count + 1, each) for each in (p, q))
        share = count / releases
        chernoff = releases * (xlogy(share, share / q) + xlog1py(1 - share, (q - share) / (1 - q)))
        tail = np.where(second > TINIEST, np.log(second * (1 + SURE)), -chernoff * (1 - SURE))
        lost = np.log(first * (1 - SURE) - delta) - tail
        return np.asarray((first > TINIEST) & (lost > epsilon))  # no number where nothing is lost


def _caught(p: Floats, q: Floats, rate: float, releases: int) -> Floats:
    """Return at least the power of the best test of p against q < p, at a false positive rate, by counting events."""
    with np.errstate(all="ignore"):
        few = np.where(bdtr(0, releases, 1 - q) > rate, -1.0, np.floor(bdtrik(rate, releases, 1 - q) + SURE))
        count = releases - 1 - few  # is rejected at random, what is above it always
        count = count + (binom.sf(count, releases, q) > rate * (1 + SURE))
        room = (rate - binom.sf(count, releases, q)) / binom.pmf(count, releases, q)
        power = binom.sf(count, releases, p) + np.clip(room, 0.0, 1.0) * binom.pmf(count, releases, p)
        return as_floats(np.nan_to_num(power * (1 - 2 * SURE)))


class Answer(NamedTuple):
    """A program's answer: mass outside over what may fail, multipliers of its comparisons and deltas, densities."""

    outside: float
    held: Floats
    shares: Floats
    density: Floats


class Program:
    """Comparisons of cells at epsilons, scaled by the densities of a law ``near`` the best."""

    def __init__(self, cells: Cells, failing: float, near: Floats, epsilon: Floats) -> None:
        n = near.size
        _, _, self.both = cells.sizes(n)
        self.failing, self.epsilon = failing, epsilon
        self.size = np.maximum(near, FINEST)
        self.outside = np.where(np.arange(n) < cells.inside, 0.0, self.both)
        first, second, length = cells.pairs(n)
        outwards = first < second
        first, second, length = first[outwards], second[outwards], length[outwards]
        place = np.arange(epsilon.size)[:, np.newaxis]
        gap = np.interp(np.log(near[first] / near[second]), epsilon, place[:, 0]) - place  # in steps of the grid
        band = max(NARROW, KINKS / (2 * first.size))
        reached = np.log(self.size[first] / self.size[second]) - epsilon[:, np.newaxis] > -NEVER
        kinks = (np.abs(gap) <= band) & reached
        self.sure = int((gap > band).sum())  # these comparisons come first
        self.place, pair = np.hstack([np.nonzero(gap > band), np.nonzero(kinks)])
        self.first, self.second, self.length = first[pair], second[pair], length[pair]
        self.steep = np.exp(epsilon)[self.place]

    def solve(self, delta: Floats) -> Answer:
        """Minimise the mass outside of densities that keep these deltas.

        Variables are densities over those nearby, a mass beyond the window, and what comparisons with a kink lose.
        """
        n, q, k, size, m = self.size.size, self.epsilon.size, self.sure, self.size, self.place.size - self.sure
        most = delta.copy()
        np.maximum.at(most, self.place, self.length * size[self.first])
        by = self.length / most[self.place]
        kink, loss, cell = np.arange(m), n + 1 + np.arange(m), np.arange(n - 1)
        first, second = self.first, self.second
        entries = [
            (kink, first[k:], np.ones(m)), (kink, loss, -np.ones(m)),
            (kink, second[k:], -self.steep[k:] * size[second[k:]] / size[first[k:]]),
            (m + self.place[k:], loss, by[k:] * size[first[k:]]),
            (m + self.place[:k], first[:k], by[:k] * size[first[:k]]),
            (m + self.place[:k], second[:k], -by[:k] * self.steep[:k] * size[second[:k]]),
            (m + q + cell, cell + 1, size[1:] / size[:-1]), (m + q + cell, cell, -np.ones(n - 1)),
        ]  # fmt: skip
        row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
        matrix = csr_array(coo_array((value, (row, column)), shape=(m + q + n - 1, n + 1 + m)))
        bounds = np.zeros(matrix.shape[0])
        bounds[m : m + q] = delta / most
        padded = np.zeros((2, n + 1 + m))
        padded[:, : n + 1] = (
            np.append(self.both * size, self.failing),
            np.append(self.outside * size / self.failing, 1.0),
        )
        found = solved(padded[1], matrix, bounds, padded[:1], " for a curve")
        held = np.maximum(-found.ineqlin.marginals, 0.0) * self.failing
        shares = held[m : m + q] / most
        kinked = np.minimum(held[:m] / (size[first[k:]] * self.length[k:]), shares[self.place[k:]])
        density = np.maximum(found.x[:n], 0.0) * size
        return Answer(float(found.fun), np.append(shares[self.place[:k]], kinked), shares, density)

    def proved(self, delta: Floats) -> float:
        """Return a bound below the mass outside of all laws that keep these deltas, whatever the solver did.

        With multipliers no larger than their delta's, mass outside and deltas' price are at least a linear form; of
        falling densities, which are mixtures of uniform ones on the first j cells, it is least at one of these.
        """
        _, held, shares, _ = self.solve(delta)
        n = self.size.size
        ours = np.bincount(self.first, held * self.length, n)
        theirs = np.bincount(self.second, held * self.length * self.steep, n)
        off = (16 + n + held.size) * UNIT
        sums = np.cumsum(self.outside + ours - theirs) - off * np.cumsum(self.outside + ours + theirs)
        least = min(1.0, float((sums / np.cumsum(self.both)).min()))
        return least - off - up(float(shares @ delta), ulps=2 * shares.size)


class Best(NamedTuple):
    """The tightest curve's parameter that is proved to be too tight, 0 if none, and a law that nearly keeps it."""

    floor: float
    law: HalfLine


def tightest(
    cells: Cells, failing: float, near: HalfLine, curve: Callable[[float], Curve], cost: float
) -> Best:  # fmt: skip
    """Find the least parameter of curves at which the least mass outside is what may fail, by Newton's method.

    ``near`` is a law, and ``cost`` a parameter with which it keeps its curve.
    """
    density = _window(cells, failing, near)
    ends = low, high = cost * LOWEST, cost * (1 + SMALL)
    at, refuting = cost, list[tuple[float, Program]]()
    for round_ in range(ROUNDS):
        tried = curve(at)
        epsilon = tried.top * np.linspace(0.0, 1.0, PLACES[min(round_, len(PLACES) - 1)]) ** 2
        program, delta = Program(cells, failing, density, epsilon), tried(epsilon)
        answer = program.solve(delta)
        density = falling(cells, np.clip(answer.density, density / LEAP, density * LEAP), tried.top)
        slope = float(answer.shares @ (curve(at * (1 + SMALL))(epsilon) - delta)) / (math.log1p(SMALL) * failing)
        excess = max(answer.outside, 1e-9)
        low, high = (at, high) if excess > 1 else (low, at)
        if round_ < len(PLACES) - 1:  # coarse grids ask for less
            low, high = ends
        elif excess > 1:
            refuting = [(at, program)]
        step = excess * math.log(excess) / slope if slope > 0 else math.inf
        if round_ >= len(PLACES) and abs(step) < SETTLED:
            break
        newton = at * math.exp(min(step, 1.0))
        at = newton if low < newton < high else math.sqrt(low * high)
    floor = 0.0
    for start, proof in [*refuting, (at, program)]:
        lower = (start * (1 - gap) for gap in GAPS.tolist() if start * (1 - gap) > floor)
        floor = next((each for each in lower if proof.proved(curve(each)(proof.epsilon)) > failing), floor)
    return Best(floor, with_tail(cells, density, tried.top, failing))


def _window(cells: Cells, failing: float, near: HalfLine) -> Floats:
    """Return the densities of a law as far as they matter, and some periods farther, where it may have none."""
    beyond = np.cumsum((near.density * near.both)[::-1])[::-1]
    n = max(int(np.searchsorted(-beyond, -FADED * failing)), cells.inside + FARTHEST * cells.period)
    if n > MOST_CELLS:
        raise ProgramError(f"a curve's program of {n} cells, more than {MOST_CELLS}, takes too long")
    density = np.pad(near.density, (0, max(0, n - near.density.size)))[: n - n % cells.period]
    return falling(cells, density, STEEPEST)


def falling(cells: Cells, density: Floats, decay: float) -> Floats:
    """Return densities made to fall, by a factor of e^decay at most from one period to the next."""
    density = density.copy()
    for h in range(cells.period, density.size):
        density[h] = max(density[h], density[h - cells.period] * math.exp(-decay))
    return np.minimum.accumulate(density)


def with_tail(cells: Cells, density: Floats, decay: float, failing: float) -> HalfLine:
    """Return the law of these densities, and of a tail laid out until nothing is left of it."""
    count = math.ceil(math.log(FADED / UNIT) / decay)
    tail = np.tile(density[-cells.period :], count) * np.repeat(np.exp(-decay * np.arange(1, count + 1)), cells.period)
    return HalfLine.of(cells, np.concatenate([density, tail]), decay, failing)
