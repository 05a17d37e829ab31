"""What a tailored policy keeps of records that built nothing of it, and what it can keep of any record at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Risk, mean_interval
from epsworth.guarantees import ceiling
from epsworth.mechanisms.regions import MOST_REGIONS, region_kernel
from epsworth.records import Records
from epsworth.release.copies import Indices
from epsworth.release.randomisers import Randomiser
from epsworth.release.tailoring import Tailoring
from epsworth.rounding import float_above
from epsworth.tailoring.asking import Asked
from epsworth.tailoring.building import Plan
from epsworth.utility.certified import certified
from epsworth.utility.kept import Kept
from epsworth.utility.quantities import Bounds

CERTIFIED = 1 + 1e-9  # by which a certificate's float is raised


class Within(NamedTuple):
    """Two ends between which an average lies."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Judged:
    """What was measured; see `Tailored` for the words.

    Attributes
    ----------
    certified : float or None
        Share of the records whose part is proven.
    most : float
        What no mechanism of this epsilon exceeds for all records, of those labels that some record can get.
    """

    agreement: float
    kept: float
    held_out: Within
    balanced: float
    constant: float
    certified: float | None
    most: float


def judge(
    plan: Plan, tailoring: Tailoring, known: Asked, held: Records, weights: Sequence[float], confidence: float,
    counted: bool,
) -> Judged:  # fmt: skip
    """Measure what is kept of some records.

    Parameters
    ----------
    known : Asked
        About the public records that built, or chose.
    held : Records
    counted : bool
        Whether they built nothing; of those that did, nothing but the ceiling is told.
    """
    asked = replace(known, records=held)
    n = len(held)
    own = asked.labels(np.arange(n))
    kept = Kept.of(tailoring, asked, own, weights)
    most = _ceiling(kept, weights, tailoring.epsilon)
    if not counted:
        return Judged(0.0, 0.0, Within(0.0, 1.0), 0.0, 0.0, None, most)
    sides = kept.at(tailoring.randomiser)
    said = [tailoring.labels[region] for region in kept.true.tolist()]
    agreement = float(np.mean([one == two for one, two in zip(said, kept.wanted, strict=True)]))
    low, high = proven_range(kept, asked, tailoring.randomiser)
    means = [math.fsum(side) / n for side in sides]
    if low == high:  # nothing varies: it is known
        interval = Within(low, high)
    else:
        # the interval rises with the mean, which lies between those of its bounds: one miss pays for both ends
        within = np.clip(means, low, high)
        found = mean_interval(within, n, Risk.of(confidence).spend(), low, high)
        interval = Within(float(found.lower[0]), float(found.upper[1]))
    share = certified(plan, known, kept, asked.records)
    return Judged(agreement, means[0], interval, _balanced(own[0], sides.lower), kept.constant, share, most)


def proven_range(kept: Kept, asked: Asked, randomiser: Randomiser) -> tuple[float, float]:
    """Return what the probability of keeping the label lies between for every record there can be.

    Claim: if all columns are sensitive, one classifier is asked and it is deterministic, nothing but the region that
    the copy says and the label can differ between records; all pairs of them are looked at, those that contradict each
    other too, and labels that nothing stands for, unless the classifier lists its labels, and none of them is such.
    Elsewhere nothing is proven: 0 to 1.
    """
    tailoring = kept.reach.tailoring
    if len(asked.classifiers) > 1 or not tailoring.hidden.all() or len(asked.positions) < len(asked.records.names):
        return 0.0, 1.0
    listed = asked.classifiers[0].classes
    labels = sorted({*kept.possible[0], *kept.seen[0]} if listed is None else set(listed), key=repr)
    hits = [_hits_of(kept, asked, label) for label in labels] + ([np.zeros(kept.hits.shape[1])] if not listed else [])
    count = len(tailoring.labels)
    every = replace(
        kept,
        reach=replace(kept.reach, at=np.zeros(count * len(hits), dtype=np.int64)),
        true=np.tile(np.arange(count), len(hits)),
        hits=np.repeat(np.array(hits), count, axis=0),
        missed=np.repeat(np.array(hits) < 1, count, axis=0),
    )
    found = every.at(randomiser)
    return float(found.lower.min()), float(found.upper.max())


def _hits_of(kept: Kept, asked: Asked, label: Any) -> Floats:
    """Return what representatives keep of a label, without public columns: shares of those with just this label."""
    tailoring, first = kept.reach.tailoring, np.zeros(1, dtype=np.int64)
    found = np.zeros(len(tailoring.labels) + 1)
    for region in range(len(tailoring.labels)):
        number = int(kept.reach.standing[0, region])
        numbers = kept.reach.listed(0, region) if tailoring.draw and number >= 0 else np.array([number])
        if number >= 0:
            sent = tailoring.representatives[region][numbers]
            given = asked.labels(np.repeat(first, len(sent)), sent)[0]
            found[region] = np.mean([one == label for one in given.tolist()])
    default = asked.labels(first, np.array([tailoring.default]))[0]
    found[-1] = float(default.tolist()[0] == label)
    return found


def _ceiling(kept: Kept, weights: Sequence[float], epsilon: Decimal) -> float:
    """Return what no mechanism exceeds for all inputs that differ in sensitive columns, by the labels seen of a record.

    With several classifiers parts of a vector can be kept: then no kernel between vectors gains more than its
    certificate says where all are equally likely, and the worst of them has no more than their average.
    """
    most = max(kept.possible, key=len)
    if len(weights) == 1:
        return ceiling(float_above(Fraction(epsilon)), len(most))
    vectors = sorted(most, key=repr)[:MOST_REGIONS]
    agree = np.array([[[a == b for a, b in zip(one, two, strict=True)] for two in vectors] for one in vectors])
    gain = agree @ np.array(weights) / (sum(weights) * len(vectors))
    return 1.0 if len(vectors) == 1 else min(1.0, float(region_kernel(gain, epsilon).bound) * CERTIFIED)


def bounds_of(kept: Kept, randomisers: Sequence[Randomiser]) -> Bounds:
    """Return bounds on what is kept of every record, as those of one mechanism."""
    sides = [kept.at(randomiser) for randomiser in randomisers]
    lower, upper = (np.stack([getattr(side, end) for side in sides])[np.newaxis] for end in ("lower", "upper"))
    return Bounds(lower, upper)


def labels_possible(kept: Kept, classifiers: int) -> Indices:
    """Return how many labels were seen of every record; 1 of several classifiers, which have no ceiling by counting."""
    return np.array([len(found) if classifiers == 1 else 1 for found in kept.possible], dtype=np.int64)


def _balanced(labels: NDArray[Any], kept: Floats) -> float:
    """Return the average of what is kept of each label."""
    return float(np.mean([kept[labels == label].mean() for label in set(labels.tolist())]))
