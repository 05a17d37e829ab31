"""Budgets for single records: the least noise found at which no record is exposed beyond a wish.

From a finite list of worlds by attacking every record; from sampled worlds by what exchanging one record does.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.pac.allocation import gaussian_bound, individual_allocation, individual_bound
from epsworth.pac.calibration import Plan, Shape, calibrate, frame_of
from epsworth.pac.conversion import budget
from epsworth.pac.exposure import Exposure, expose
from epsworth.pac.lattice import STEPS

LOOKS = 10
MISS = 0.01
MOST = 10.0  # nats
LEAST_DRAWS, MOST_DRAWS, WORK = 2048, 16384, 2**33
EXCHANGES = 8  # of every unit, at least


def plan_for_records(
    outputs: Floats, members: Bools, q: float, shape: Shape, rng: np.random.Generator
) -> tuple[Plan, Exposure]:
    """Return the plan of the largest budget found at which every record's posterior stays at or below ``q``.

    Claim: with 99 % confidence over the simulated releases, Bayes' rule, the best attack, finds the membership of
    no single record with success above ``q``.  Each of the looks spends its own share of the 1 %.

    Notes
    -----
    The search starts at KL(q || prior), which is enough by proof, and doubles its precision look by look.
    """
    share = members.mean(axis=0)
    prior = float(np.maximum(share, 1 - share).max())
    _check_reachable(q, prior)
    draws = int(np.clip(WORK / members.size, LEAST_DRAWS, MOST_DRAWS))

    def look(beta: float) -> tuple[Plan, Exposure]:
        plan = calibrate(outputs, beta, shape)
        found = expose(plan.positions(outputs) / plan.ratio, members, rng, draws=draws, miss=MISS / LOOKS)
        return plan, found

    low, high = budget(q, prior), MOST
    best = look(low)
    for _ in range(LOOKS - 1):
        middle = math.sqrt(low * high)
        tried = look(middle)
        if tried[1].worst <= q:
            low, best = middle, tried
        else:
            high = middle
    return best


def plan_from_exchanges(outputs: Floats, units: int, q: float, prior: float, rate: float, shape: Shape) -> Plan:
    """Return a plan at which no unit's posterior is estimated above ``q``, from worlds that differ in one unit.

    For exact moments v_ik = E[(M(X) - M(X'))_k^2] this would be a proof (`individual_bound`); simulated ones make it
    an estimate.  Noise follows the largest v of each direction and is then scaled until the worst unit meets the
    budget on the rounded outputs.

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
    beta = budget(q, prior)
    frame, variances = frame_of(outputs, shape)
    noise = individual_allocation(_moments(frame.coordinates(outputs), units, variances), beta, rate)
    over = 1.0
    for _ in range(2):  # rounding moves moments a little: measure them on the grid, whose step follows the noise
        noise = noise * over
        plan = Plan(frame, noise, variances, np.sqrt(noise) / STEPS, float(STEPS), 0.0)
        grid = plan.positions(outputs) * plan.step
        worst = individual_bound(_moments(grid, units, variances), noise, rate).max(initial=0.0)
        over = math.expm1(2 * worst) / math.expm1(2 * beta)
    factor, rounded = max(1.0, over), grid.var(axis=0)
    mi = gaussian_bound(rounded, noise * factor)
    return replace(plan, noise=noise * factor, variances=rounded, ratio=STEPS * math.sqrt(factor), mi=mi)


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
