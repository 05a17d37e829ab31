"""Budgets for single records: the least noise found at which no record is exposed beyond a wish.

From a finite list of worlds by attacking every record; from sampled worlds by what exchanging one record does.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Risk
from epsworth.pac.allocation import STEPS, individual_allocation, individual_bound
from epsworth.pac.calibration import LEAST_NATS, Plan, Shape, calibrate, enough, frame_of, scaled, spread_of, unscaled
from epsworth.pac.conversion import budget, posterior
from epsworth.pac.exposure import FPR, Exposure, expose, tpr_limit
from epsworth.records import Indices

LOOKS = 10
CONFIDENCE = 0.99  # of all looks together
CLOSE = 1.05  # budgets that need no further look
LEAST_DRAWS, MOST_DRAWS, WORK = 2048, 16384, 2**33
NO_PAIRS: Indices = np.zeros((0, 2), dtype=np.intp)
EXCHANGES = 8  # of every unit, at least


def plan_for_records(
    outputs: Floats,
    members: Bools,
    q: float,
    joint: float,
    shape: Shape,
    rng: np.random.Generator,
    pairs: Indices = NO_PAIRS,
) -> tuple[Plan, Exposure]:  # fmt: skip
    """Return the plan of the largest budget found, at most ``joint``, at which no single record is exposed.

    Claim: MI <= ``joint``; and with 99 % confidence over the simulated releases, Bayes' rule, the best attack, finds
    the membership of no single record with success above ``q``, no attack is sure of it more often than
    `sure_allowed`, and "is one of the two in", "are both", is found no better than the nats of ``q`` allow for each of
    the pairs.  Each of the looks spends its own share of the 1 %.

    Parameters
    ----------
    pairs : ndarray of int, shape ``(p, 2)``
        Rows that may be near-duplicates: a promise for single records alone would leave these questions bare.

    Notes
    -----
    The search tries all of ``joint`` first, and then KL(q || prior), at which success is within ``q`` by proof.
    """
    one, other = members[:, pairs[:, 0]], members[:, pairs[:, 1]]
    columns, records = np.hstack([members, one | other, one & other]), members.shape[1]
    share = members.mean(axis=0)
    prior = float(np.maximum(share, 1 - share).max())
    _check_reachable(q, prior)
    allowed, nats = sure_allowed(q, prior), budget(q, prior)
    chance = columns[:, records:].mean(axis=0)
    joined_allowed = _success(nats, np.maximum(chance, 1 - chance))
    draws = int(np.clip(WORK / columns.size, LEAST_DRAWS, MOST_DRAWS))

    def look(mi: float, risk: Risk) -> tuple[bool, tuple[Plan, Exposure]]:
        plan = calibrate(outputs, mi, shape)
        whitened = plan.positions(outputs) / plan.ratio
        every = expose(whitened, columns, rng, draws=draws, risk=risk)
        found, joined = every[:records], every[records:]
        tpr, proven = found.tpr.copy(), posterior(plan.mi, prior)
        doubtful = tpr > allowed
        if doubtful.any():
            tpr[doubtful] = np.minimum(tpr[doubtful], tpr_limit(whitened, members[:, doubtful]))
        found = replace(found, upper=np.minimum(found.upper, proven), tpr=tpr)
        apart = plan.mi <= nats or bool((joined.upper <= joined_allowed).all())
        return found.worst <= q and found.surest <= allowed and apart, (plan, found)

    best: tuple[Plan, Exposure] | None = None
    low, high, at = 0.0, joint, joint
    for risk in Risk.of(CONFIDENCE).split(LOOKS):
        fits, found = look(at, risk)
        low, high = (at, high) if fits else (low, at)
        best = found if fits else best
        if high <= CLOSE * low:  # also where all of joint fits
            break
        at = math.sqrt(low * high) if low else min(nats, high / 8)
        if at < LEAST_NATS:
            break
    if best is None:
        raise ValueError(
            f"RecordPosterior: no noise was found at which success {q:g} holds for every record; take a larger q"
        )
    return best


def _success(nats: float, blind: Floats) -> Floats:
    """Return the success that these nats allow, from a blind one rounded down to a 256-th: rather too little."""
    steps, back = np.unique(np.floor(256 * blind), return_inverse=True)
    return np.array([posterior(nats, step / 256) if step else 0.0 for step in steps])[back.reshape(-1)]


def mutual_neighbours(X: Floats) -> Indices:
    """Return the pairs of different rows that are each other's nearest, shape ``(p, 2)``; near-duplicates are such.

    Distances are relative to each column's range.
    """
    from scipy.spatial import cKDTree

    width = np.ptp(X, axis=0)
    points, row = np.unique(X / np.where(width > 0, width, 1), axis=0, return_index=True)
    if len(points) < 2:
        return NO_PAIRS
    nearest = np.asarray(cKDTree(points).query(points, k=2)[1])[:, 1]
    mutual = np.flatnonzero((nearest[nearest] == np.arange(len(points))) & (np.arange(len(points)) < nearest))
    return np.column_stack([row[mutual], row[nearest[mutual]]])


def sure_allowed(q: float, prior: float = 0.5) -> float:
    """Return the largest true-positive rate, at one false alarm in a thousand, that success ``q`` is held to.

    Twice that of a Gaussian test of this success at even odds: an output that is rare but tells all, such as one
    world in 256, hardly moves success, and is still a certain answer to whom it concerns.

    Examples
    --------
    >>> round(sure_allowed(0.588), 4), round(sure_allowed(0.51), 4)
    (0.0082, 0.0024)
    """
    even = posterior(budget(q, prior), 0.5)
    return float(min(1.0, 2 * ndtr(ndtri(FPR) + 2 * ndtri(even))))


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
