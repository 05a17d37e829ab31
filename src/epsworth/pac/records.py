"""Budgets for single records: the least noise at which no record is exposed beyond a wish.

From a finite list of worlds by limits on what any attack finds out, cheap ones first; from sampled worlds by what
exchanging one record does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Risk
from epsworth.pac.allocation import STEPS, individual_allocation, individual_bound
from epsworth.pac.budgets import RecordPosterior
from epsworth.pac.calibration import LEAST_NATS, Plan, Shape, calibrate, enough, frame_of, scaled, spread_of, unscaled
from epsworth.pac.conversion import budget, posterior
from epsworth.pac.exposure import FPR, blur_of, expose
from epsworth.pac.worlds import Units
from epsworth.records import Indices
from epsworth.results import Result
from epsworth.rounding import UNIT, percent_down, show_up, up

LOOKS = 11  # all of `joint`, and ten by bisection
CONFIDENCE = 0.99  # of all looks together
CLOSE = 1.05  # budgets that need no further look
EXCHANGES = 8  # of every unit, at least
SCREENED = 1 << 17  # draws of the simulated screen
ATTACKED = 1 << 16  # draws of the attack, at most
SHOWN, WORK = 1 << 24, 2**33  # units x worlds whose own limits are told, and what these may take
SUSPECTS = 512  # those that look worst: whether they refute a budget is asked first
CLEAR = 5.0  # standard errors beyond a limit at which a look ends without a proof
CELLS = 1 << 22  # of a block of events x worlds, or of releases x events
ROWS = 1024  # simulated releases of a block
WIDEST = 8192  # worlds whose products are kept, two by two
SINGLE = 2.0**-24  # what one operation in single precision rounds by
RATIOS = np.geomspace(1.1, 300, 60)  # likelihood ratios from which a sure guess says "in"
TRIED = (3.0, 10.0, 30.0)  # those of the attack

Singles = NDArray[np.float32]
Tick = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Events:
    """Questions about the secret world: is a unit in, are so many of a group.

    Attributes
    ----------
    held : ndarray of uint8, shape ``(units, m)``
        Whether each world holds a unit.
    kinds : tuple of (ndarray of int, shape ``(g, k)``; int)
        Groups of units, and how many of a group must be in; units by themselves come first.
    """

    held: NDArray[np.uint8]
    kinds: tuple[tuple[Indices, int], ...]

    @classmethod
    def of(cls, members: Bools, groups: tuple[tuple[Indices, int], ...] = ()) -> Events:
        """Return the questions about columns of ``members`` (worlds, units), and about groups of them."""
        alone = np.arange(members.shape[1])[:, np.newaxis]
        return cls(np.ascontiguousarray(members.T).view(np.uint8), ((alone, 1), *groups))

    def __len__(self) -> int:
        return sum(len(groups) for groups, _ in self.kinds)

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.held)

    @property
    def worlds(self) -> int:
        """How many worlds are listed."""
        return int(self.held.shape[1])

    @cached_property
    def counts(self) -> Indices:
        """How many worlds answer yes, shape ``(events,)``."""
        return np.concatenate([rows.sum(axis=1).astype(np.intp) for _, rows in self.blocks(np.arange(len(self)))])

    def rows(self, at: Indices) -> Singles:
        """Return which worlds answer yes to these questions, shape ``(len(at), m)``."""
        found, start = np.empty((len(at), self.worlds), dtype=np.float32), 0
        for groups, need in self.kinds:
            here = np.flatnonzero((at >= start) & (at < start + len(groups)))
            found[here] = self.held[groups[at[here] - start]].sum(axis=1, dtype=np.uint8) >= need
            start += len(groups)
        return found

    def blocks(self, at: Indices) -> Iterator[tuple[Indices, Singles]]:
        """Yield the rows of these questions, some at a time, and which they are."""
        step = max(1, CELLS // self.worlds)
        for start in range(0, len(at), step):
            part = at[start : start + step]
            yield part, self.rows(part)

    def forms(self, matrix: Floats, at: Indices, tick: Tick) -> Floats:
        """Return 1_A' M 1_A for each question A, the set of worlds that answer yes; M is symmetric.

        In single precision: off by m + 8 units of 2**-24 of the sum of all sizes in M.
        """
        single, found = matrix.astype(np.float32), [np.zeros(0)]
        for _, rows in self.blocks(at):
            found.append(np.asarray((rows * (rows @ single)).sum(axis=1, dtype=np.float64)))
            tick()
        return np.concatenate(found)


def nearest_groups(X: Floats, units: Units) -> tuple[tuple[Indices, int], ...]:
    """Return groups of units that lie nearest to each other, with how many must be in for a yes.

    Every unit with its nearest one (any of them, all), with the three nearest and with the seven nearest (more than
    half): what near-duplicates could tell while each of them is safe.  Distances, between first rows, are relative to
    each column's range.
    """
    from scipy.spatial import cKDTree

    first = np.unique(units.of_row, return_index=True)[1]
    width = np.ptp(X, axis=0)
    points, own = X[first] / np.where(width > 0, width, 1), np.arange(len(first))
    near = np.asarray(cKDTree(points).query(points, k=min(8, len(points)))[1]).reshape(len(points), -1)
    found = list[tuple[Indices, int]]()
    for size in (2, 4, 8):
        if size <= near.shape[1]:
            group = near[:, :size].astype(np.intp)
            without = ~(group == own[:, np.newaxis]).any(axis=1)  # where more rows lie at the very place
            group[without, -1] = own[without]
            group = np.unique(np.sort(group, axis=1), axis=0)
            found += [(group, 1), (group, 2)] if size == 2 else [(group, size // 2 + 1)]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class RecordLimits(Result):
    """What was shown of single records: upper limits of what any attack on a release finds out.

    Attributes
    ----------
    upper : ndarray, shape ``(n,)``
        Of the success at each record's membership.
    tpr : ndarray, shape ``(n,)``
        Of the share of the releases from worlds with the record that an attack is sure of, with false alarms in a share
        ``fpr`` of the releases from the others.
    fpr : float
    named : float
        Of the chance that a release names some world with a posterior above one half.
    groups : int
        Questions about groups of nearest records that are held to the same nats.
    attacked : int
        Records and groups that the best attack was simulated on; of the others, cheaper limits were enough.
    confidence : float
        With which all limits hold together.
    """

    upper: Floats
    tpr: Floats
    fpr: float
    named: float
    groups: int
    attacked: int
    confidence: float

    @property
    def worst(self) -> float:
        """Upper limit for the most exposed record."""
        return float(self.upper.max())

    @property
    def surest(self) -> float:
        """Upper limit of the true-positive rate for the most exposed record."""
        return float(self.tpr.max())

    def __str__(self) -> str:
        return (
            f"an attack on the most exposed of {len(self.upper)} records succeeds with "
            f"{show_up(100 * self.worst, 4)} % at most, and is sure of it, with {show_up(100 * self.fpr, 3)} % false "
            f"alarms, in {show_up(100 * self.surest, 4)} % at most; {percent_down(self.confidence, 4)} % confidence"
        )


@dataclass(frozen=True, eq=False)
class Check:
    """Whether releases keep a promise for single units and for groups of them.

    Claims are numbered: success at every question of ``events``, then the sureness about every unit.

    Attributes
    ----------
    whitened : ndarray, shape ``(m, r)``
        Outputs of the worlds in standard deviations of the noise.
    q, tpr, fpr : float
        What single units are held to: success, and true-positive rate at a false-positive rate.
    nats : float
        What groups are held to: their answer has no more information, or no more success than so many nats allow.
    mi : float
        What a release tells in all.

    Notes
    -----
    P = Pr(A | release), f = share of A, Q = E(P - f)^2.  Success is at most 1/2 + sqrt((f - 1/2)^2 + Q) (Jensen), and
    MI(1_A; release) at most ln(1 + Q / (f (1 - f))) (chi^2).  By Neyman and Pearson, TPR <= t FPR + E(a x - b)_+ for
    x = P - f, a = 1/f + t/(1-f), b = t - 1 and every t; and (a x - b)_+ <= (a x)^2 / 4b.
    """

    whitened: Floats
    events: Events
    q: float
    tpr: float
    fpr: float
    nats: float
    mi: float
    tick: Tick

    @cached_property
    def share(self) -> Floats:
        """The share of the worlds that answer yes, shape ``(events,)``."""
        return np.asarray(self.events.counts / self.events.worlds)

    @cached_property
    def allowed(self) -> Floats:
        """Success that is allowed, of groups from a blind one rounded down to a 256-th: rather too little."""
        steps, back = np.unique(np.floor(256 * np.maximum(self.share, 1 - self.share)), return_inverse=True)
        found = np.array([posterior(self.nats, step / 256) for step in steps])[back.reshape(-1)]
        found[: self.events.units] = self.q
        return found

    def run(self, screens: Risk, attacks: Risk, rng: np.random.Generator) -> RecordLimits | None:
        """Return limits that hold with these risks, None where the promise was not shown."""
        events, units = len(self.events), self.events.units
        moments = np.full(events, np.inf)
        asked = np.arange(units if self.mi <= self.nats else events)  # groups are within all that is told
        moments[asked] = second_moments(self.whitened, self.events, asked, self.tick)
        left = self.open(moments)
        if len(left):
            worst = np.argsort(-moments[left % events], kind="stable")[:SUSPECTS]
            if self._pilot(np.sort(left[worst]), -(-4 * ROWS // self.events.worlds), rng) is None:
                return None
            if max(4096, 8 * self.events.worlds) < len(left) and self.events.worlds <= WIDEST:  # else attacked sooner
                at = np.unique(left % events)
                moments[at] = np.minimum(moments[at], self._simulated(at, screens.split(events), rng))
                left = self.open(moments)
        if len(left) and not self._attacked(left, attacks.split(events + units), rng):
            return None
        blind = float(np.maximum(self.share[:units], 1 - self.share[:units]).max())
        upper, tpr = np.minimum(self.success(moments)[:units], posterior(self.mi, blind)), self.sureness(moments)
        upper[left[left < units]], tpr[left[left >= events] - events] = self.q, self.tpr
        return RecordLimits(
            np.minimum(upper, self.q), np.minimum(tpr, self.tpr), self.fpr, 1.0, events - units,
            len(np.unique(left % events)), CONFIDENCE,
        )  # fmt: skip

    def refined(self, limits: RecordLimits, risk: Risk, rng: np.random.Generator) -> RecordLimits:
        """Return limits nearer to the truth, by attacking every record where there are not too many, and ``named``."""
        units = self.events.units if self.events.held.size <= SHOWN else 1
        members = self.events.held[:units].T.view(np.bool_)
        seen = expose(self.whitened, members, rng, draws=int(np.clip(WORK / members.size, 2048, 32768)), risk=risk)
        if units < self.events.units:
            return replace(limits, named=seen.named)
        tpr = np.minimum(limits.tpr, seen.tpr if self.fpr <= FPR else 1.0)
        return replace(limits, upper=np.minimum(limits.upper, seen.upper), tpr=tpr, named=seen.named)

    def success(self, moments: Floats) -> Floats:
        """Return upper limits of the success at every question, from those of the second moments Q."""
        return np.asarray(np.minimum(1.0, up(0.5 + np.sqrt((self.share - 0.5) ** 2 + moments), ulps=8)))

    def sureness(self, moments: Floats) -> Floats:
        """Return upper limits of every unit's true-positive rate."""
        units = self.events.units
        return sure_limits(moments[:units], self.share[:units], self.fpr)

    def open(self, moments: Floats) -> Indices:
        """Return the claims that do not follow from second moments, nor from what the release tells in all."""
        spread = self.share * (1 - self.share)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = up(np.log1p(moments / spread), ulps=16)
        known = (self.mi <= self.nats) | (spread == 0) | (told <= self.nats)
        doubtful = ~known & (self.success(moments) > self.allowed)
        return np.flatnonzero(np.append(doubtful, self.sureness(moments) > self.tpr))

    @cached_property
    def _blur(self) -> float:
        """What a chance P may be off by before it is summed: `blur_of`, and worlds' chances in single precision.

        These are off by a unit of 2**-24 for each unit of their logarithms, which are ln m on average at most, by 2 for
        the exponential, and by some 30 for what they are divided by, a pairwise sum: 64 are more.
        """
        return blur_of(self.whitened) + 64 * SINGLE

    @cached_property
    def _lost(self) -> float:
        """What a chance P may be off by, its sum included."""
        return (self.events.worlds + 8) * SINGLE + self._blur

    def _cycles(self, count: int, rng: np.random.Generator) -> Iterator[Singles]:
        """Yield the chances of all worlds given simulated releases, so many from each world."""
        return self._weights(np.tile(np.arange(self.events.worlds), count), rng)

    def _weights(self, worlds: Indices, rng: np.random.Generator) -> Iterator[Singles]:
        """Yield the chances of all worlds given a simulated release from each of these."""
        for rows in np.split(worlds, range(ROWS, len(worlds), ROWS)):
            released = self.whitened[rows] + rng.standard_normal((len(rows), self.whitened.shape[1]))
            logs = released @ self.whitened.T - 0.5 * (self.whitened**2).sum(axis=1)
            weights = np.exp((logs - logs.max(axis=1, keepdims=True)).astype(np.float32))
            weights /= weights.sum(axis=1, keepdims=True)
            self.tick()
            yield weights

    def _simulated(self, at: Indices, risk: Risk, rng: np.random.Generator) -> Floats:
        """Return upper limits of the second moments of these questions, from draws that take every world as often.

        v = (P - f)^2 lies in [0, M^2], M = max(f, 1 - f), so that the sum of the draws' E v^2 is at most M^2 times that
        of their E v, and the lower tail of an average of N is that of a Gaussian: with c = M^2 ln(1/miss) / N, the mean
        is at most (sqrt(c / 2) + sqrt(c / 2 + average))^2.  Sums of at most `ROWS` draws are taken in single precision:
        off, with their factors and what follows, by ROWS + m + 16 units of the square of the sum of all sizes; and by
        what P is off, twice and squared.
        """
        worlds, sizes = self.events.worlds, 0.0
        products, cycles = np.zeros((worlds, worlds)), -(-SCREENED // worlds)
        for weights in self._cycles(cycles, rng):
            weights -= np.float32(1 / worlds)
            sizes += float((np.abs(weights).sum(axis=1, dtype=np.float64) ** 2).sum())
            products += weights.T @ weights
        draws = cycles * worlds
        lost = (ROWS + worlds + 16) * SINGLE * sizes / draws + 2 * self._blur + self._blur**2
        average = np.maximum(self.events.forms(products / draws, at, self.tick), 0) + lost
        most = np.maximum(self.share[at], 1 - self.share[at])
        c = most**2 * math.log(1 / risk.spend(len(at))) / (2 * draws)
        return up(np.asarray((np.sqrt(c) + np.sqrt(c + average)) ** 2), ulps=16)

    def _sums(self, claims: Indices, guess: Singles, ratios: Floats, of: Callable[[Floats, Any], Floats]) -> Floats:
        """Return the sums over releases of a function of what each release gains for each claim, given P.

        ``claims`` rise; ``guess`` has shape ``(releases, claims)``; ``of`` is given gains, and the positions of their
        claims.  Most releases say nothing of who is in: all of these gain the same, and are counted.
        """
        sums, cut = np.empty(len(claims)), int(np.searchsorted(claims, len(self.events)))
        success, sure = slice(cut), slice(cut, None)
        if cut:
            gains = self._gains(claims[success], guess[:, success].astype(np.float64), ratios[success])
            sums[success] = of(gains, success).sum(axis=0)
        if width := len(claims) - cut:
            certain = guess[:, sure] > self._certain(claims[sure], ratios[sure])
            row, column = divmod(np.flatnonzero(certain), width)
            at, shared = cut + column, self._gains(claims[sure], np.zeros(1), ratios[sure])
            told = self._gains(claims[at], guess[row, at].astype(np.float64), ratios[at])
            more = np.bincount(column, of(told, at) - of(shared[column], at), width)
            sums[sure] = len(guess) * of(shared, sure) + more
        return sums

    def _certain(self, claims: Indices, ratios: Floats) -> Singles:
        """Return the least P, rounded down, beyond which a release speaks for who is said to be in."""
        f = self.share[claims % len(self.events)]
        inside = ratios * f / (ratios * f + 1 - f)
        return (inside * (1 - 4 * SINGLE)).astype(np.float32)

    def _gains(self, claims: Indices, guess: Floats, ratios: Floats) -> Floats:
        """Return by how much every release speaks for each claim, given P; ``guess`` broadcasts with the claims.

        Of success: the chance that the best attack errs, less the one that is allowed.  Of sureness: what is allowed,
        less t FPR and the excess beyond likelihood ratio t.  What P may be off by is taken off.
        """
        events, at = len(self.events), claims % len(self.events)
        f, t = np.clip(self.share[at], 1e-12, 1 - 1e-12), ratios
        slope = 1 / f + t / (1 - f)
        bar = self.tpr - t * self.fpr - slope * self._lost
        sure = bar - np.maximum(slope * guess - t / (1 - f), 0)
        success = np.minimum(guess, 1 - guess) - (1 - self.allowed[at] + self._lost)
        return np.asarray(np.where(claims >= events, sure, success))

    def _most(self, claims: Indices, ratios: Floats) -> Floats:
        """Return the most that a release speaks against each claim."""
        at = claims % len(self.events)
        f, t = np.clip(self.share[at], 1e-12, 1 - 1e-12), ratios
        sure = 1 / f - self.tpr + t * self.fpr + (1 / f + t / (1 - f)) * self._lost
        return np.asarray(np.where(claims < len(self.events), 1 - self.allowed[at] + self._lost, sure))

    def _parts(self, claims: Indices) -> Iterator[tuple[slice, Singles]]:
        """Yield some of the claims at a time, and the rows of their questions."""
        step = max(1, CELLS // max(ROWS, self.events.worlds))
        for start in range(0, len(claims), step):
            part = slice(start, min(start + step, len(claims)))
            yield part, self.events.rows(claims[part] % len(self.events))

    def _pilot(self, claims: Indices, cycles: int, rng: np.random.Generator) -> tuple[Floats, Floats] | None:
        """Return stakes and likelihood ratios for the attack on these claims; None where one of them looks untrue."""
        tried = TRIED if (claims >= len(self.events)).any() else TRIED[:1]
        sums, squares = np.zeros((2, len(tried), len(claims)))
        for weights in self._cycles(cycles, rng):
            for part, rows in self._parts(claims):
                guess = weights @ rows.T
                for place, ratio in enumerate(tried):
                    ratios = np.full(len(rows), ratio)
                    sums[place, part] += self._sums(claims[part], guess, ratios, _first)
                    squares[place, part] += self._sums(claims[part], guess, ratios, _second)
                self.tick()
        draws = cycles * self.events.worlds
        best, own = sums.argmax(axis=0), np.arange(len(claims))
        mean, square, ratios = sums[best, own] / draws, squares[best, own] / draws, np.array(tried)[best]
        if (mean + CLEAR * np.sqrt(np.maximum(square - mean**2, 0) / draws) < 0).any():
            return None
        most = self._most(claims, ratios)
        return np.clip(mean / np.maximum(square, 1e-300), 0.05 / most, 0.9 / most), ratios

    def _attacked(self, claims: Indices, risk: Risk, rng: np.random.Generator) -> bool:
        """Tell whether the best attack, simulated, bears out all of these claims.

        Every release multiplies the wealth of a claim by 1 + stake x gain; stakes are those of a pilot.  Were a claim
        untrue, its wealth over whole cycles, in which every world is drawn once, would be a supermartingale (of
        factors, the arithmetic mean is at least the geometric one), which reaches 1 / miss with probability ``miss`` at
        most.  A millionth is taken off its logarithm for rounding.
        """
        cycles = -(-ROWS // self.events.worlds)
        found = self._pilot(claims, cycles, rng)
        if found is None:
            return False
        (stakes, ratios), wealth, wanted = found, np.zeros(len(claims)), math.log(1 / risk.spend(len(claims))) + 1e-6
        rounds = -(-ATTACKED // (cycles * self.events.worlds))
        for done in range(1, rounds + 1):
            for weights in self._cycles(cycles, rng):
                for part, rows in self._parts(claims):
                    grown = partial(_grown, stakes[part])
                    wealth[part] += self._sums(claims[part], weights @ rows.T, ratios[part], grown)
                    self.tick()
            left = wealth < wanted
            if not left.any():
                return True
            if done >= 4 and (wealth < 0.5 * wanted * done / rounds).any():  # it would hardly be reached in time
                return False
            claims, wealth, stakes, ratios = claims[left], wealth[left], stakes[left], ratios[left]
        return False


def _first(gains: Floats, at: Any) -> Floats:
    return gains


def _second(gains: Floats, at: Any) -> Floats:
    return gains**2


def _grown(stakes: Floats, gains: Floats, at: Any) -> Floats:
    """Return by how much the logarithm of the wealth of some claims grows."""
    return np.asarray(np.log1p(stakes[at] * gains))


def second_moments(whitened: Floats, events: Events, at: Indices, tick: Tick = lambda: None) -> Floats:
    """Return certain upper limits of Q = E(P - f)^2 for these questions.

    Tight for budgets well below a nat, where simulation would need very many draws; useless above one.

    Notes
    -----
    The density of the release is at least the geometric mean of its components', so that Q is at most e^{S/2} / m^2
    z' exp(X X') z, with X the centred outputs, S their mean square length and z = 1_A - f, which sums to 0: rows,
    columns and a constant may be taken off the matrix.

    Rounding, in units of 2**-53, L being the largest squared length: an exponent is off by 2 (2 m + r + 8) L at most,
    an exponential by 8 of itself more, and what is taken off rows and columns by 4 m of the matrix's sizes; then
    `Events.forms`.
    """
    m, r = whitened.shape
    if m > WIDEST:
        return np.full(len(at), np.inf)
    centred = whitened - whitened.mean(axis=0)
    lengths = (centred**2).sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        inner = centred @ centred.T
        matrix, whole = np.expm1(inner), float(np.exp(inner).sum())
        matrix -= matrix.mean(axis=0)
        matrix -= matrix.mean(axis=1, keepdims=True)
        sizes = float(np.abs(matrix).sum())
        off = math.expm1(min(700.0, 4 * (2 * m + r + 8) * UNIT * float(lengths.max())))
        lost = (off + (4 * m + 16) * UNIT) * whole + (m + 8) * SINGLE * sizes
        spread = np.exp(0.5 * lengths.mean() * (1 + (m + r + 8) * UNIT)) / m**2
    if not (np.isfinite(lost) and np.isfinite(spread) and sizes < 1e30):  # beyond single precision
        return np.full(len(at), np.inf)
    found = np.maximum(events.forms(matrix, at, tick), 0) + lost
    return up(np.asarray(spread * found), ulps=16)


def sure_limits(moments: Floats, share: Floats, fpr: float) -> Floats:
    """Return upper limits of true-positive rates: the least over t of t FPR + a^2 Q / 4b, see `Check`.

    Examples
    --------
    >>> sure_limits(np.array([1e-4]), np.array([0.5]), 0.001).round(4)
    array([0.0027])
    """
    inside, outside = np.maximum(share, 1e-12), np.maximum(1 - share, 1e-12)  # 0 and 1: the limit is above 1
    best = np.ones_like(moments)
    for t in RATIOS:
        best = np.minimum(best, t * fpr + moments * (1 / inside + t / outside) ** 2 / (4 * (t - 1)))
    return np.asarray(np.minimum(1.0, up(best, ulps=32)))


def plan_for_records(
    outputs: Floats,
    events: Events,
    promised: RecordPosterior,
    shape: Shape,
    rng: np.random.Generator,
    tick: Tick = lambda: None,
) -> tuple[Plan, RecordLimits]:  # fmt: skip
    """Return the plan of the largest budget found, at most ``joint``, at which no single record is exposed.

    Claim: MI <= ``joint``; and with 99 % confidence over the simulated releases, no attack finds the membership of a
    unit with success above ``q``, none is sure of it more often than ``tpr`` at ``fpr``, and no group's question is
    answered better than the nats of ``q`` allow.  Each of the looks spends its own share of the 1 %.

    Notes
    -----
    The search tries all of ``joint`` first, and then KL(q || prior), at which success is within ``q`` by proof.
    """
    share = events.held.mean(axis=1)
    prior = float(np.maximum(share, 1 - share).max())
    _check_reachable(promised.q, prior)
    nats, sure = budget(promised.q, prior), sure_allowed(promised, prior)
    best: tuple[Plan, Check, RecordLimits, Risk] | None = None
    low, high, at = 0.0, promised.joint.mi, promised.joint.mi
    for risk in Risk.of(CONFIDENCE).split(LOOKS):
        plan = calibrate(outputs, at, shape)
        whitened = plan.positions(outputs) / plan.ratio
        check = Check(whitened, events, promised.q, sure, promised.fpr, nats, plan.mi, tick)
        screens, attacks, last = risk.split(3)
        found = check.run(screens, attacks, rng)
        low, high = (low, at) if found is None else (at, high)
        best = best if found is None else (plan, check, found, last)
        if high <= CLOSE * low:  # also where all of joint fits
            break
        at = math.sqrt(low * high) if low else min(nats, high / 8)
        if at < LEAST_NATS:
            break
    if best is None:
        raise ValueError(
            f"RecordPosterior: no noise was found at which success {promised.q:g} holds for every record; raise q"
        )
    plan, check, found, last = best
    return plan, check.refined(found, last, rng)


def sure_allowed(promised: RecordPosterior, prior: float = 0.5) -> float:
    """Return the largest true-positive rate, at the false-positive rate ``fpr``, that a promise holds records to.

    Without one of its own: twice that of a Gaussian test of this success at even odds.  An output that is rare but
    tells all, such as one world in 256, hardly moves success, and is still a certain answer to whom it concerns.

    Examples
    --------
    >>> round(sure_allowed(RecordPosterior(0.588)), 4), round(sure_allowed(RecordPosterior(0.51)), 4)
    (0.0082, 0.0024)
    """
    if promised.tpr is not None:
        return promised.tpr
    even = posterior(budget(promised.q, prior), 0.5)
    return float(min(1.0, 2 * ndtr(ndtri(promised.fpr) + 2 * ndtri(even))))


def plan_from_exchanges(
    outputs: Floats, units: int, q: float, joint: float, prior: float, rate: float, shape: Shape
) -> Plan:  # fmt: skip
    """Return a plan at which no unit's posterior is estimated above ``q``, from worlds that differ in one unit.

    For exact moments v_ik = E[(M(X) - M(X'))_k^2] this would be a proof (`individual_bound`); simulated ones make it
    an estimate.  Noise follows the largest v of each direction and is then scaled until the worst unit meets the
    budget on the rounded outputs, and all of them ``joint``.

    Parameters
    ----------
    outputs : ndarray, shape ``(2 pairs, d)``
        Of the worlds of `Exchanges`.
    prior : float
        Blind success at the most exposed unit.
    rate : float
        Chance of a unit to be in, the one nearest 1/2.
    """
    _check_reachable(q, prior)
    if len(outputs) < 2 * EXCHANGES * units:
        raise ValueError(
            f"worlds must be at least {2 * EXCHANGES * units} for RecordPosterior outside mode='exact': "
            f"{EXCHANGES} exchanges of each of the {units} units; raise worlds"
        )
    mi = budget(q, prior)
    frame, variances = frame_of(outputs, shape)
    noise = individual_allocation(_moments(frame.coordinates(outputs), units, variances), mi, rate)
    over = 1.0
    for _ in range(2):  # rounding moves moments a little: measure them on the grid, whose step follows the noise
        noise = noise * over
        plan = unscaled(frame, noise)
        positions = plan.positions(outputs)
        plan = replace(plan, spread=spread_of(positions))
        worst = individual_bound(_moments(positions * plan.step, units, variances), noise, rate).max(initial=0.0)
        over = math.expm1(2 * worst) / math.expm1(2 * mi)
        over *= enough(plan.spread, STEPS**2 * over, joint)
    return scaled(plan, max(1.0, over))


def _check_reachable(q: float, prior: float) -> None:
    if q <= prior:
        raise ValueError(
            f"RecordPosterior: some record is in or out of the secret with {prior:g} blindly; take q above"
        )


def _moments(coordinates: Floats, units: int, variances: Floats) -> Floats:
    """Return, per unit and direction, the mean square of what its exchanges changed.

    Where no exchange changed anything but worlds differ (in size, say), their variance stands for it.
    """
    squares = (coordinates[1::2] - coordinates[::2]) ** 2
    rounds = np.arange(len(squares)) % units
    sums = np.zeros((units, squares.shape[1]))
    np.add.at(sums, rounds, squares)
    found = np.asarray(sums / np.bincount(rounds, minlength=units)[:, np.newaxis])
    return np.where(found.max(axis=0) > 0, found, variances)
