"""Fidelity: regions cut into cells around medians, so that what is sent lies near the record, too.

A kernel for ``prior (1[label] - fidelity distance)`` then trades labels kept for records kept; the distance of two
records is the average over the sensitive columns, each of length 1 (words differ or not).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.release.copies import Copy, Indices
from epsworth.release.joined_copies import Cells, cell_weights
from epsworth.tailoring.public import Public
from epsworth.tailoring.representatives import representatives
from epsworth.tailoring.variations import jittered, orders, sizes

ROUNDS = 12  # of moving medians
STARTS, TRIED = 3, 6  # of which the best is taken; candidates for each centre to start with
SOME, FEW = 4000, 3  # records that medians are made of: at most of a region, at least of a cell
CONTEXTS = 200  # public records that medians are verified with


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Cells, and what a kernel between them is to gain.

    Attributes
    ----------
    copy : Cells
    regions : ndarray of int, shape ``(cells,)``
        The label's number of each cell.
    shares : ndarray, shape ``(cells,)``
        Of public records.
    standing : tuple of ndarray
        What stands for each cell: its median first, where the classifier agrees with it.
    gain : ndarray, shape ``(cells, cells)``
    """

    copy: Cells
    regions: Indices
    shares: Floats
    standing: tuple[Indices, ...]
    gain: Floats


def cells_of(public: Public, copy: Copy, count: int, fidelity: float, rng: np.random.Generator) -> Fidelity:
    """Cut every region of a copy into about ``count / regions`` cells around medians of public records."""
    each = max(1, count // copy.regions)
    own, found = copy(public.places), []
    sensitive = public.places[:, public.sensitive]
    for region in range(copy.regions):
        rows = sensitive[own == region]
        found.append(_medians(rows if len(rows) else sensitive, each if len(rows) else 1, public, rng))
    labels = np.repeat(np.arange(copy.regions), [len(medians) for medians in found])
    medians = np.concatenate(found)
    positions = np.flatnonzero(public.sensitive)
    cells = Cells(public.inputs, copy, positions, labels, medians, cell_weights(public.inputs, positions))
    at = cells(public.places)
    shares = np.bincount(at, minlength=len(labels)) / len(at)
    apart = np.zeros((len(labels), len(labels)))
    for cell in np.flatnonzero(shares).tolist():
        apart[cell] = _distances(sensitive[at == cell], medians, public).mean(axis=0)
    gain = shares[:, np.newaxis] * ((labels[:, np.newaxis] == labels) - fidelity * apart)
    return Fidelity(cells, labels, shares, _standing(public, cells, rng), gain)


def _standing(public: Public, cells: Cells, rng: np.random.Generator) -> tuple[Indices, ...]:
    """Return each cell's median where the classifier agrees with it, then what reaches the cell elsewhere."""
    as_cells = _in_cells(public, cells)
    others, _ = representatives(as_cells, cells, rng, most=8)
    rows = rng.integers(len(public.places), size=min(CONTEXTS, len(public.places)))
    standing = []
    for cell, median in enumerate(cells.medians):
        sent = np.tile(median, (len(rows), 1))
        told = cells(public.moved(rows, sent)) == cell
        right = public.asked(rows[told], sent[told]) == cells.labels[cell]
        verified = told.any() and right.mean() > 0.5
        parts = [*([median] if verified else []), *others[cell]]
        standing.append(np.array(parts, dtype=np.int64).reshape(len(parts), len(median)))
    return tuple(standing)


def _in_cells(public: Public, cells: Cells) -> Public:
    """Return the public records with cells for regions: the classifier's label, and then the nearest median."""

    def asked(rows: Indices, sensitive: Indices) -> Indices:
        return cells.nearest(public.moved(rows, sensitive), public.asked(rows, sensitive))

    regions = cells.nearest(public.places, public.regions)
    return Public(public.places, public.inputs, public.sensitive, regions, asked, cells.regions)


def _medians(rows: Indices, count: int, public: Public, rng: np.random.Generator) -> Indices:
    """Return medians of groups of records, the closest to them of some starts."""
    part = rows[rng.permutation(len(rows))[:SOME]]
    found = [_rounds(part, _start(part, count, public, rng), public) for _ in range(STARTS)]
    apart = [_distances(part, centres, public).min(axis=1).mean() for centres in found]
    return np.unique(found[int(np.argmin(apart))], axis=0)


def _start(rows: Indices, count: int, public: Public, rng: np.random.Generator) -> Indices:
    """Return jittered records, each far from those before (k-means++: Arthur & Vassilvitskii 2007, in distances)."""
    nearest, taken = np.ones(len(rows)), list[Indices]()
    while len(taken) < min(count, len(rows)) and nearest.sum() > 0:
        drawn = rows[rng.choice(len(rows), size=TRIED, p=nearest / nearest.sum())]
        then = _distances(rows, drawn, public)
        if taken:
            then = np.minimum(then, nearest[:, np.newaxis])
        best = int(np.argmin(then.sum(axis=0)))
        taken.append(drawn[best])
        nearest = then[:, best]
    return jittered(public, np.array(taken), rng)


def _rounds(rows: Indices, centres: Indices, public: Public) -> Indices:
    """Move centres to the middles of what is nearest to them (k-medians: Lloyd's rounds in summed distances)."""
    for _ in range(ROUNDS):
        nearest = _distances(rows, centres, public).argmin(axis=1)
        moved = np.array([_middle(rows[nearest == k], centre, public) for k, centre in enumerate(centres)])
        if (moved == centres).all():
            break
        centres = moved
    return centres


def _middle(rows: Indices, before: Indices, public: Public) -> Indices:
    """Return medians, and of words the commonest; of very few records none, since it would be one of them."""
    if len(rows) < FEW:
        return before
    ordered = orders(public)
    middle: Indices = np.sort(rows, axis=0)[(len(rows) - 1) // 2]
    for column in np.flatnonzero(~ordered).tolist():
        middle[column] = np.bincount(rows[:, column]).argmax()
    return middle


def _distances(rows: Indices, centres: Indices, public: Public) -> Floats:
    """Return the average distance over the sensitive columns, shape ``(rows, centres)``."""
    ordered, most = orders(public), np.maximum(sizes(public) - 1, 1)
    apart = np.zeros((len(rows), len(centres)))
    for column, (asked, length) in enumerate(zip(ordered.tolist(), most.tolist(), strict=True)):
        own, other = rows[:, [column]], centres[:, column]
        apart += np.abs(own - other) / length if asked else own != other
    return apart / len(most)
