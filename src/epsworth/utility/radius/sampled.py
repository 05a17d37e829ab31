"""Radius of any classifier: the nearest flip seen, and how large a ball hardly ever flips.

What sampling can say about a ball is a share, never "no point of it flips": the lower bound stays 0, and the
tested radius carries its own claim.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Risk
from epsworth.utility.deadline import Stopped
from epsworth.utility.radius.question import RadiusQuestion, Witness

SHELLS = np.geomspace(2.0**-20, 2.0**10, 61)  # radii of the first look, in units of the record's size
PER_SHELL = 128
TESTS = 16  # radii tested for the share that flips
DRAWS = 4096  # per tested radius
KEPT, CUTS, ROUNDS = 24, 32, 9  # flips refined together; a segment is cut in 32, nine times: 32^-9 < 1e-13


def scale(question: RadiusQuestion) -> float:
    """Return the size of the record: the unit in which radii are tried."""
    return float(np.abs(question.point).max()) or 1.0


def ball(rng: np.random.Generator, radius: float, count: int, width: int, norm: float) -> Floats:
    """Draw offsets uniformly from a ball of norm 2 or inf."""
    if math.isinf(norm):
        return rng.uniform(-radius, radius, (count, width))
    normal = rng.standard_normal((count, width))
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.asarray(radius * normal / length * rng.uniform(size=(count, 1)) ** (1 / width))


def nearest_flip(question: RadiusQuestion, rng: np.random.Generator, reserve: float = 0.0) -> Witness | None:
    """Look for flips in balls of growing radius, then walk from each towards the record.

    A share of the run's time is left for what comes after, in ``reserve``.
    """
    radii = SHELLS * scale(question)
    draws = np.stack([ball(rng, r, PER_SHELL, len(question.point), question.norm) for r in radii], axis=1)
    draws = draws.reshape(-1, len(question.point))  # in turns: the first few rows look into every ball
    flipped = draws[question.looked(question.point + draws, first=len(radii), reserve=reserve)]
    if not len(flipped):
        return None
    result = walk(question, flipped[np.argsort(question.size(flipped), kind="stable")[:KEPT]], reserve)
    question.run.found(result)
    return result


def first_flip(question: RadiusQuestion, rng: np.random.Generator, reserve: float = 0.0) -> Witness | None:
    """Look for a flip, with what was seen where the run must end: who calls has a bound to prove that takes no time."""
    with suppress(Stopped):
        return nearest_flip(question, rng, reserve)
    return kept_flip(question)


def kept_flip(question: RadiusQuestion) -> Witness | None:
    """Return the nearest flip that a run saw before its end; one of a batch must flip alone, too."""
    run = question.run
    if run.seen is not None and run.seen.distance < run.upper:
        run.found(question.nearest(run.seen.point[np.newaxis]))
    return run.witness


def walk(question: RadiusQuestion, flipped: Floats, reserve: float = 0.0) -> Witness | None:
    """Walk from offsets that flip towards the record, as long as a flip is seen; return the nearest.

    Along every segment: the first of the cuts that flips, then the same between it and the cut before.
    """
    low, high = np.zeros(len(flipped)), np.ones(len(flipped))
    for _ in range(ROUNDS):
        if question.run.spent(1 - reserve):
            break
        cuts = low[:, np.newaxis] + (high - low)[:, np.newaxis] * np.arange(1, CUTS + 1) / CUTS
        cuts[:, -1] = high
        points = question.point + cuts[:, :, np.newaxis] * flipped[:, np.newaxis]
        seen = question.looked(points.reshape(-1, len(question.point))).reshape(cuts.shape)
        seen[:, -1] = True
        first, rows = seen.argmax(axis=1), np.arange(len(flipped))
        low, high = np.where(first > 0, cuts[rows, first - 1], low), cuts[rows, first]
    return question.nearest(question.point + np.concatenate([high[:, np.newaxis] * flipped, flipped]))


def tested_radius(
    question: RadiusQuestion, flip: Witness | None, rng: np.random.Generator, *, failing: float, risk: Risk
) -> float:
    """Return the largest tested radius whose ball flips in a share of at most ``failing``, or 0.

    Claim: but with a probability of at most the risk, over the draws, for *all* tested radii at once; the risk is
    spent over the whole grid, which was fixed before these draws.
    """
    centre = scale(question) * SHELLS[-1] / 2 ** (TESTS / 4) if flip is None else flip.distance
    best = 0.0
    with suppress(
        Stopped
    ):  # a radius whose draws are not complete was not tested, and its share of the risk is unspent
        for radius, own in zip(centre * 2 ** (np.arange(-4, TESTS - 4) / 2), risk.split(TESTS), strict=True):
            flips = int(
                question.looked(question.point + ball(rng, radius, DRAWS, len(question.point), question.norm)).sum()
            )
            if own.upper(flips, DRAWS) <= failing:
                best = float(radius)
    return best
