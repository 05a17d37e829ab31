"""What a tailored policy's releases keep: exact for any deterministic classifier, one query per record and region.

rho(x) = sum over the regions r within reach of Pr[r is drawn | the row of x] 1[h(z_r, x_P) = h(x)]: the classifier's
own answers, whatever the copy thinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.release.copies import Indices
from epsworth.release.grids import places_of
from epsworth.release.randomisers import Case, Randomiser
from epsworth.release.tailoring import Reach, Tailoring
from epsworth.rounding import down, up
from epsworth.tailoring.asking import Asked
from epsworth.values import is_missing

WORDS = 1 << 64


@dataclass(frozen=True, eq=False)
class Kept:
    """Records and how much of what is wished for each region's representative keeps of them.

    Attributes
    ----------
    reach : Reach
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

    reach: Reach
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
        cls, tailoring: Tailoring, asked: Asked, wanted: Sequence[NDArray[Any]], weights: Sequence[float] = (1.0,)
    ) -> Kept:
        """Ask the classifiers about what can be sent for records.

        Parameters
        ----------
        asked : Asked
            About the records.
        wanted : sequence of ndarray
            For each classifier the labels that are to be kept.
        weights : sequence of float
            Of the classifiers.
        """
        records = asked.records
        places = places_of(tailoring.grids, records)
        reach = Reach.of(tailoring, places)
        group, first = _alike(asked)
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
            labels = asked.labels(first[rows], sent)
            queries += len(rows)
            for row, label in zip(rows.tolist(), _vectors(labels), strict=True):
                seen[row].add(label)
            at, whose = _spread(group, rows)
            missed[whose, region] = False
            for found, right, weight in zip(labels, wanted, weights, strict=True):
                agree = np.asarray(found[at] == right[whose], dtype=bool)
                missed[whose[~agree], region] = True
                np.add.at(hits[:, region], whose, agree * shares[at] * (weight / sum(weights)))
        told = tuple(map(frozenset, seen))
        return cls(reach, places, tailoring.copy(places), hits, missed, queries, told, group, tuple(_vectors(wanted)))

    @property
    def possible(self) -> list[frozenset[Any]]:
        """For each record all labels that were seen while its sensitive columns changed, what is wanted among them."""
        found: dict[tuple[int, Any], frozenset[Any]] = {}  # many records have the same
        for key in zip(self.at_seen.tolist(), self.wanted, strict=True):
            if key not in found:
                found[key] = self.seen[key[0]] | {key[1]}
        return [found[key] for key in zip(self.at_seen.tolist(), self.wanted, strict=True)]

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


def _probabilities(case: Case) -> Floats:
    """Return the kernel's rows, each entry rounded once."""
    if case.kernel is None:
        return np.ones((1, 1))
    rows = [case.kernel.weights(row) for row in range(len(case.regions))]
    return np.array([[weight / WORDS for weight in row] for row in rows])


def _alike(asked: Asked) -> tuple[Indices, Indices]:
    """Return groups of records whose columns that stay are alike, and the first record of each."""
    records, n = asked.records, len(asked.records)
    group = np.zeros(n, dtype=np.int64)
    for position in range(len(records.names)):
        if position not in asked.positions:
            known: dict[Any, int] = {}
            values = [None if is_missing(value) else value for value in records.column(position).tolist()]
            codes = np.array([known.setdefault((type(v), v), len(known)) for v in values], dtype=np.int64)
            group = np.unique(group * (len(known) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return group, np.unique(group, return_index=True)[1]


def _sent(reach: Reach, region: int, group: Indices, first: Indices) -> tuple[Indices, Indices, Floats]:
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
