"""What a tailored policy's releases keep: exact for any deterministic classifier, one query per record and region.

rho(x) = sum over the regions r within reach of Pr[r is drawn | the row of x] 1[h(z_r, x_P) = h(x)]: the classifier's
own answers, whatever the copy thinks.  Where the copy is certain to be the classifier it is proven for all records at
their places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.bounds import Interval, Risk, mean_interval
from epsworth.classifiers.reading import Unsupported
from epsworth.grids import Grid, places_of
from epsworth.guarantees import ceiling
from epsworth.mechanisms.regions import MOST_REGIONS, region_kernel
from epsworth.records import Records
from epsworth.rounding import down, float_above, up
from epsworth.tailored.building import EXACT, Plan
from epsworth.tailored.distillation import certificate_of
from epsworth.tailored.mechanism import ReachableRegions, Tailoring
from epsworth.tailored.problem import Replacements
from epsworth.tailored.randomisers import ConditionalKernel, Randomiser
from epsworth.utility.quantities import Bounds
from epsworth.values import is_missing

WORDS = 1 << 64


@dataclass(frozen=True, eq=False)
class Retention:
    """Records and how much of what is wished for each region's representative keeps of them.

    Attributes
    ----------
    reach : ReachableRegions
        Of the records.
    places : ndarray of int, shape ``(n, inputs)``
        Of the records.
    true : ndarray of int, shape ``(n,)``
        The copy's regions.
    hits : ndarray, shape ``(n, regions + 1)``
        1 where the classifier gives the representative the wanted label, 0 where not or where there is none; parts of
        1 where any of several is sent, or several classifiers are asked.  The last column is the default's.
    missed : ndarray of bool, shape ``(n, regions + 1)``
        Where a part of 1 is missing, however small, or where there is no representative.
    queries : int
    seen : tuple of frozenset
        For each record the labels that the classifiers gave to what can be sent for it; tuples of several ones'.
    at_seen : ndarray of int, shape ``(n,)``
        Which of ``seen`` is a record's.
    wanted : tuple
        The labels that are to be kept, by record; tuples of several classifiers'.
    """

    reach: ReachableRegions
    places: Indices
    true: Indices
    hits: Floats
    missed: Bools
    queries: int
    seen: tuple[frozenset[Any], ...]
    at_seen: Indices
    wanted: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        tailoring: Tailoring,
        replacements: Replacements,
        wanted: Sequence[NDArray[Any]],
        weights: Sequence[float] = (1.0,),
    ) -> Retention:
        """Ask the classifiers about what can be sent for records.

        Parameters
        ----------
        asked : Replacements
            About the records.
        wanted : sequence of ndarray
            For each classifier the labels that are to be kept.
        weights : sequence of float
            Of the classifiers.
        """
        records = replacements.records
        places = places_of(tailoring.grids, records)
        reach = ReachableRegions.of(tailoring, places)
        group, first = _alike(replacements)
        count = len(tailoring.labels)
        hits, missed = np.zeros((len(records), count + 1)), np.ones((len(records), count + 1), dtype=bool)
        queries, seen = 0, [set[Any]() for _ in first]
        for region in (*range(count), -1):
            rows, numbers, shares = _sent(reach, region, group, first)
            if not len(rows):
                continue
            sent = (
                tailoring.representatives[region][numbers]
                if region >= 0
                else np.tile(tailoring.default, (len(rows), 1))
            )
            labels = replacements.labels(first[rows], sent)
            queries += len(rows)
            for row, label in zip(rows.tolist(), _vectors(labels), strict=True):
                seen[row].add(label)
            at, whose = _spread(group, rows)
            missed[whose, region] = False
            for result, right, weight in zip(labels, wanted, weights, strict=True):
                agree = np.asarray(result[at] == right[whose], dtype=bool)
                missed[whose[~agree], region] = True
                np.add.at(hits[:, region], whose, agree * shares[at] * (weight / sum(weights)))
        told = tuple(map(frozenset, seen))
        return cls(reach, places, tailoring.copy(places), hits, missed, queries, told, group, tuple(_vectors(wanted)))

    @property
    def possible(self) -> list[frozenset[Any]]:
        """For each record all labels that were seen while its sensitive columns changed, what is wanted among them."""
        result: dict[tuple[int, Any], frozenset[Any]] = {}  # many records have the same
        for key in zip(self.at_seen.tolist(), self.wanted, strict=True):
            if key not in result:
                result[key] = self.seen[key[0]] | {key[1]}
        return [result[key] for key in zip(self.at_seen.tolist(), self.wanted, strict=True)]

    @property
    def constant(self) -> float:
        """Share of the records of which nothing at all is told: one region alone is drawn."""
        kind, cases = self.reach.kinds
        alone = np.array([case is None or case.kernel is None for case in cases])
        return float(np.mean(alone[kind[self.reach.at]]))

    def at(self, randomiser: Randomiser) -> Interval:
        """Return bounds on what is kept of each record, which differ by rounding alone, shape ``(n,)``."""
        reach = self.reach if randomiser is self.reach.tailoring.randomiser else self.reach.by(randomiser)
        kind, cases = reach.kinds
        of_records, kept, terms = kind[reach.at], np.empty(len(self.true)), 1
        none, every = np.zeros(len(self.true), dtype=bool), np.zeros(len(self.true), dtype=bool)
        for number, case in enumerate(cases):
            rows = np.flatnonzero(of_records == number)
            drawn = np.array([-1] if case is None else case.regions)
            none[rows] = (self.hits[np.ix_(rows, drawn)] == 0).all(axis=1)
            every[rows] = ~self.missed[np.ix_(rows, drawn)].any(axis=1)
            if case is None:
                kept[rows] = self.hits[rows, -1]
                continue
            weights = _probabilities(case)
            at = np.array([case.row(region) for region in range(len(reach.tailoring.labels))])[self.true[rows]]
            kept[rows] = (weights[at] * self.hits[np.ix_(rows, drawn)]).sum(axis=1)
            terms = max(terms, len(case.regions))
        # a probability, a hit that is an average, and their product are rounded, and sums once per term
        ulps = terms + 4 + (0 if not reach.tailoring.draw else max(map(len, reach.tailoring.representatives)))
        lower, upper = (np.clip(side(kept, ulps=ulps), 0.0, 1.0) for side in (down, up))
        return Interval(
            np.where(every, 1.0, np.where(none, 0.0, lower)), np.where(every, 1.0, np.where(none, 0.0, upper))
        )


def _vectors(labels: Sequence[NDArray[Any]]) -> list[Any]:
    """Return labels, or tuples of several classifiers' labels."""
    return labels[0].tolist() if len(labels) == 1 else list(zip(*(part.tolist() for part in labels), strict=True))


def _probabilities(case: ConditionalKernel) -> Floats:
    """Return the kernel's rows, each entry rounded once."""
    if case.kernel is None:
        return np.ones((1, 1))
    rows = [case.kernel.weights(row) for row in range(len(case.regions))]
    return np.array([[weight / WORDS for weight in row] for row in rows])


def _alike(replacements: Replacements) -> tuple[Indices, Indices]:
    """Return groups of records whose columns that stay are alike, and the first record of each."""
    records, n = replacements.records, len(replacements.records)
    group = np.zeros(n, dtype=np.int64)
    for position in range(len(records.names)):
        if position not in replacements.positions:
            known: dict[Any, int] = {}
            values = [None if is_missing(value) else value for value in records.column(position).tolist()]
            codes = np.array([known.setdefault((type(v), v), len(known)) for v in values], dtype=np.int64)
            group = np.unique(group * (len(known) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return group, np.unique(group, return_index=True)[1]


def _sent(reach: ReachableRegions, region: int, group: Indices, first: Indices) -> tuple[Indices, Indices, Floats]:
    """Return for which groups something stands for a region: their numbers, those of representatives, and its share."""
    contexts = reach.at[first]
    if region < 0:
        rows = np.flatnonzero((reach.standing[contexts] < 0).all(axis=1))
        return rows, rows, np.ones(len(rows))
    rows = np.flatnonzero(reach.standing[contexts, region] >= 0)
    if not reach.tailoring.draw:
        return rows, reach.standing[contexts[rows], region], np.ones(len(rows))
    listed = {context: reach.listed(context, region) for context in np.unique(contexts[rows]).tolist()}
    parts = [listed[context] for context in contexts[rows].tolist()]
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    numbers = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return np.repeat(rows, sizes), numbers, np.repeat(1 / np.maximum(sizes, 1), sizes)


def _spread(group: Indices, rows: Indices) -> tuple[Indices, Indices]:
    """Return, for every record and every query of its group, the query's number and the record's."""
    order = np.argsort(rows, kind="stable")
    starts, ends = (np.searchsorted(rows[order], group, side=side) for side in ("left", "right"))
    counts = ends - starts
    whose = np.repeat(np.arange(len(group)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(starts, counts) + offset], whose


CERTIFIED = 1 + 1e-9  # by which a certificate's float is raised


class Within(NamedTuple):
    """Two ends between which an average lies."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class HoldoutMetrics:
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
    plan: Plan, tailoring: Tailoring, known: Replacements, held: Records, weights: Sequence[float], confidence: float,
    counted: bool,
) -> HoldoutMetrics:  # fmt: skip
    """Measure what is kept of some records.

    Parameters
    ----------
    known : Replacements
        About the public records that built, or chose.
    held : Records
    counted : bool
        Whether they built nothing; of those that did, nothing but the ceiling is told.
    """
    asked = replace(known, records=held)
    n = len(held)
    own = asked.labels(np.arange(n))
    kept = Retention.of(tailoring, asked, own, weights)
    most = _ceiling(kept, weights, tailoring.epsilon)
    if not counted:
        return HoldoutMetrics(0.0, 0.0, Within(0.0, 1.0), 0.0, 0.0, None, most)
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
        result = mean_interval(within, n, Risk.of(confidence).spend(), low, high)
        interval = Within(float(result.lower[0]), float(result.upper[1]))
    share = certified(plan, known, kept, asked.records)
    return HoldoutMetrics(agreement, means[0], interval, _balanced(own[0], sides.lower), kept.constant, share, most)


def proven_range(kept: Retention, replacements: Replacements, randomiser: Randomiser) -> tuple[float, float]:
    """Return what the probability of keeping the label lies between for every record there can be.

    Claim: if all columns are sensitive, one classifier is asked and it is deterministic, nothing but the region that
    the copy says and the label can differ between records; all pairs of them are looked at, those that contradict each
    other too, and labels that nothing stands for, unless the classifier lists its labels, and none of them is such.
    Elsewhere nothing is proven: 0 to 1.
    """
    tailoring = kept.reach.tailoring
    if (
        len(replacements.classifiers) > 1
        or not tailoring.hidden.all()
        or len(replacements.positions) < len(replacements.records.names)
    ):
        return 0.0, 1.0
    listed = replacements.classifiers[0].classes
    labels = sorted({*kept.possible[0], *kept.seen[0]} if listed is None else set(listed), key=repr)
    hits = [_hits_of(kept, replacements, label) for label in labels] + (
        [np.zeros(kept.hits.shape[1])] if not listed else []
    )
    count = len(tailoring.labels)
    every = replace(
        kept,
        reach=replace(kept.reach, at=np.zeros(count * len(hits), dtype=np.int64)),
        true=np.tile(np.arange(count), len(hits)),
        hits=np.repeat(np.array(hits), count, axis=0),
        missed=np.repeat(np.array(hits) < 1, count, axis=0),
    )
    result = every.at(randomiser)
    return float(result.lower.min()), float(result.upper.max())


def _hits_of(kept: Retention, replacements: Replacements, label: Any) -> Floats:
    """Return what representatives keep of a label, without public columns: shares of those with just this label."""
    tailoring, first = kept.reach.tailoring, np.zeros(1, dtype=np.int64)
    result = np.zeros(len(tailoring.labels) + 1)
    for region in range(len(tailoring.labels)):
        number = int(kept.reach.standing[0, region])
        numbers = kept.reach.listed(0, region) if tailoring.draw and number >= 0 else np.array([number])
        if number >= 0:
            sent = tailoring.representatives[region][numbers]
            given = replacements.labels(np.repeat(first, len(sent)), sent)[0]
            result[region] = np.mean([one == label for one in given.tolist()])
    default = replacements.labels(first, np.array([tailoring.default]))[0]
    result[-1] = float(default.tolist()[0] == label)
    return result


def _ceiling(kept: Retention, weights: Sequence[float], epsilon: Decimal) -> float:
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


def bounds_of(kept: Retention, randomisers: Sequence[Randomiser]) -> Bounds:
    """Return bounds on what is kept of every record, as those of one mechanism."""
    sides = [kept.at(randomiser) for randomiser in randomisers]
    lower, upper = (np.stack([getattr(side, end) for side in sides])[np.newaxis] for end in ("lower", "upper"))
    return Bounds(lower, upper)


def labels_possible(kept: Retention, classifiers: int) -> Indices:
    """Return how many labels were seen of every record; 1 of several classifiers, which have no ceiling by counting."""
    return np.array([len(result) if classifiers == 1 else 1 for result in kept.possible], dtype=np.int64)


def _balanced(labels: NDArray[Any], kept: Floats) -> float:
    """Return the average of what is kept of each label."""
    return float(np.mean([kept[labels == label].mean() for label in set(labels.tolist())]))


def certified(plan: Plan, known: Replacements, kept: Retention, records: Records) -> float | None:
    """Return the share of records for which copy and classifier agree, for certain, wherever it matters.

    Claim: every record whose columns lie at the same places as one that counts here - numbers up to half a step from
    them, all within the public ranges - has the classifier's label of the copy's region, and so has all that can be
    sent for it: what is kept of it is the kernel's probability of the own region, without a look at the classifier.
    Records that hold a gap, a number beyond its range or an undeclared category do not count: of them a place says
    nothing but what stands for it.  None where nothing is certain: for surrogates, cells and several classifiers.

    Parameters
    ----------
    known : Replacements
        About public records, in whose kind of table the classifier is asked.
    kept : Retention
        Of the records that are looked at.
    records : Records
        These.
    """
    if plan.copied != EXACT or len(known.classifiers) > 1 or plan.copy.regions != len(set(plan.labels)):
        return None
    try:
        certificate = certificate_of(known.classifiers[0].inside, plan.grids, known.records, plan.copy)
    except Unsupported:
        return None
    reach, hidden = kept.reach, plan.sensitive
    fine = certificate(kept.places, True) & (reach.standing[reach.at, kept.true] >= 0) & _told(records, plan.grids)
    for region, rows in enumerate(plan.representatives):
        contexts = np.flatnonzero(reach.standing[:, region] >= 0)
        if not contexts.size:
            continue
        certain = np.ones(len(reach.contexts), dtype=bool)
        for number in range(len(rows)) if plan.draw else np.unique(reach.standing[contexts, region]).tolist():
            own = contexts if plan.draw else contexts[reach.standing[contexts, region] == number]
            sent = reach.contexts[own].copy()
            sent[:, hidden] = rows[number]
            right = certificate(sent, np.tile(~hidden, (len(own), 1)))
            certain[own] &= right | (plan.copy(sent) != region)  # what the copy takes for another region is not sent
        fine &= certain[reach.at]
    return float(np.mean(fine))


def _told(records: Records, grids: Sequence[Grid]) -> Bools:
    """Tell of which records all places stand for what the columns hold, up to half a step."""
    held = [grid.holds(records.column(records.names.index(grid.name))) for grid in grids]
    return np.asarray(np.all(held, axis=0))
