"""Budgets for single records: the largest mutual information at which no record is exposed beyond a wish."""

from __future__ import annotations

import math

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.pac.calibration import Plan, Shape, calibrate
from epsworth.pac.conversion import budget
from epsworth.pac.exposure import Exposure, expose

LOOKS = 10
MISS = 0.01
MOST = 10.0  # nats
LEAST_DRAWS, MOST_DRAWS, WORK = 2048, 16384, 2**33


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
    if q <= prior:
        raise ValueError(
            f"RecordPosterior: some record is in or out of the secret with {prior:g} blindly; take q above"
        )
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
