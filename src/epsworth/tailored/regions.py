"""Records that stand for regions: public places of the sensitive columns with which a copy and the classifier agree.

A candidate is never the sensitive part of a public record.  Small grids are taken whole, whatever the records are;
elsewhere candidates are centres of a tree's boxes, medians of several records of a region, and places whose columns
were drawn one by one or jittered, and those that are some record's by chance are left out.

*Fidelity.*  Regions are cut into cells around medians, so that what is sent lies near the record, too.  A kernel for
``prior (1[label] - fidelity distance)`` then trades labels kept for records kept; the distance of two records is the
average over the sensitive columns, each of length 1 (words differ or not).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from epsworth.arrays import Bools, Floats, Indices
from epsworth.tailored.problem import Public, jittered, orders, resampled, sizes, uniform
from epsworth.tailored.surrogates import LEAF, Cells, IntegerReLU, Joint, Surrogate, Trees, cell_weights

UNASKED = -2
CONTEXTS = 800  # public records whose public columns are covered
CELLS = 256  # of the sensitive columns' grid: so few are all candidates
BOXES, EACH, MIDDLES, GROUP = 256, 64, 8, 15  # candidates; medians are of groups of so many records
WRONG = 3  # what a context costs where the copy says the region and the classifier does not
BATCH = 8  # candidates that are asked about at once
FINALISTS, SHAKES = 16, 48  # without public columns
DEFAULTS, SEEN = 24, 200  # candidates for the default, and the contexts that they are judged by


def representatives(
    public: Public, copy: Surrogate, rng: np.random.Generator, most: int = 24
) -> tuple[list[list[Indices]], Indices]:
    """Return sensitive places that stand for each region, in the order in which they are tried, and the default.

    Each step takes the candidate with the most public records, not yet covered, for which copy and classifier say the
    region, minus 3 for each for which the copy says it and the classifier does not; it covers those for which the copy
    says it.  Without public columns it is one candidate, whose neighbours stay in the region most often.

    Parameters
    ----------
    public : Public
    copy : Surrogate
    rng : numpy.random.Generator
    most : int
        Of a region.

    Returns
    -------
    rows : list of list of ndarray of int
        For each region; empty where no candidate reaches it.
    default : ndarray of int
        What keeps the classifier's label most often, whatever it is.
    """
    drawn = candidates(public, copy, rng)
    if public.sensitive.all():
        chosen = [_steadiest(public, copy, drawn, region, rng) for region in range(public.count)]
    else:
        cover = _Cover(public, copy, drawn, rng)
        chosen = [[drawn[k] for k in cover.greedy(region, most)] for region in range(public.count)]
    return chosen, _default(public, chosen, drawn, rng)


def candidates(public: Public, copy: Surrogate, rng: np.random.Generator) -> Indices:
    """Return sensitive places of which some may stand for regions, no two alike, and none of them a public record's.

    If the sensitive columns have at most 256 rows of places, these are all of them, whoever has them; if the records
    fill nearly all of a larger grid, they are places drawn without looking at any record.
    """
    many = sizes(public)
    if np.prod(many.astype(np.float64)) <= CELLS:
        return np.stack(np.unravel_index(np.arange(np.prod(many)), many), axis=1).astype(np.int64)
    own = public.places[:, public.sensitive]
    some = own[rng.integers(len(own), size=EACH)]
    near = [jittered(public, some, rng), jittered(public, resampled(public, rng, EACH), rng)]
    parts = [*near, _middles(public, rng), uniform(public, rng, EACH)]
    if isinstance(copy, Trees) and copy.names_regions:
        parts.append(_centres(public, copy, rng))
    drawn = np.unique(np.concatenate(parts), axis=0)
    taken = set(map(bytes, np.ascontiguousarray(own)))
    drawn = drawn[[bytes(row) not in taken for row in drawn]]
    return drawn if len(drawn) >= EACH else uniform(public, rng, EACH)


def _middles(public: Public, rng: np.random.Generator) -> Indices:
    """Return medians of groups of records of each region; words are those of single ones, column by column."""
    own, ordered, result = public.places[:, public.sensitive], orders(public), []
    for region in range(public.count):
        inside = own[public.regions == region]
        if len(inside) < 3:
            continue
        size = (MIDDLES, min(GROUP, len(inside)), own.shape[1])
        groups = np.take_along_axis(inside[:, np.newaxis], rng.integers(len(inside), size=(size[0] * size[1], 1, 1)), 0)
        groups = groups.reshape(size)
        words = np.take_along_axis(groups, rng.integers(size[1], size=(size[0], 1, size[2])), axis=1)[:, 0]
        result.append(np.where(ordered, np.floor(np.median(groups, axis=1)), words).astype(np.int64))
    return np.concatenate(result) if result else own[:0]


def _centres(public: Public, tree: Trees, rng: np.random.Generator) -> Indices:
    """Return centres of the boxes in which a tree's leaves lie; of words, one that is allowed and some record has."""
    low, high, words = boxes(tree)
    part = np.flatnonzero(tree.feature == LEAF)
    part = rng.permutation(part)[:BOXES]
    columns, usual = np.flatnonzero(public.sensitive), resampled(public, rng, len(part))
    centres = np.empty_like(usual)
    for at, column in enumerate(columns):
        if public.inputs[column].ordered:
            centres[:, at] = (low[part, column] + high[part, column]) // 2
            continue
        allowed = words[int(column)][part] if int(column) in words else None
        drawn = usual[:, at]
        if allowed is not None:  # a word at random of those that are allowed, where the usual one is not
            other = np.argmax(np.where(allowed, rng.random(allowed.shape), -1), axis=1)
            drawn = np.where(allowed[np.arange(len(part)), drawn], drawn, other)
        centres[:, at] = drawn
    return centres


def boxes(tree: Trees) -> tuple[Indices, Indices, dict[int, Bools]]:
    """Return the lowest and the highest place of each node's records, and the words that lead there."""
    shape = (len(tree.feature), len(tree.inputs))
    low, high = np.zeros(shape, dtype=np.int64), np.tile([one.places - 1 for one in tree.inputs], (shape[0], 1))
    asked = {int(tree.feature[node]) for node in tree.sets}
    words = {column: np.ones((shape[0], tree.inputs[column].places), dtype=bool) for column in asked}
    for node in np.flatnonzero(tree.feature != LEAF):
        left, right, column = int(tree.left[node]), int(tree.right[node]), int(tree.feature[node])
        for child in (left, right):
            low[child], high[child] = low[node], high[node]
            for table in words.values():
                table[child] = table[node]
        if node in tree.sets:
            inside = np.isin(np.arange(tree.inputs[column].places), tree.sets[int(node)])
            words[column][left] &= inside
            words[column][right] &= ~inside
        else:
            high[left, column] = min(high[left, column], tree.threshold[node])
            low[right, column] = max(low[right, column], tree.threshold[node] + 1)
    return low, high, words


class _Cover:
    """What copy and classifier say of public records with candidates in them, as far as it was asked."""

    def __init__(self, public: Public, copy: Surrogate, drawn: Indices, rng: np.random.Generator) -> None:
        self.rows = rng.permutation(len(public.places))[:CONTEXTS]
        self.drawn = drawn
        self.copy_first = not isinstance(copy, Trees) or len(copy.roots) == 1  # else the classifier answers sooner
        self._asks: list[Callable[[Indices, Indices], Indices]] = [
            lambda rows, sensitive: copy(public.moved(rows, sensitive)),
            public.asked,
        ]
        if not self.copy_first:
            self._asks.reverse()
        shape = (len(self.rows), len(drawn))
        every = self._asks[0](np.repeat(self.rows, shape[1]), np.tile(drawn, (shape[0], 1)))
        self.first = np.asarray(every).reshape(shape)
        self.second = np.full(shape, UNASKED)

    def greedy(self, region: int, most: int) -> list[int]:
        """Return the candidates of a region in the order in which they are taken.

        A score is at most the number of uncovered records for which the first to be asked says the region: the second
        is asked only about candidates whose bound leads.
        """
        left, told = np.ones(len(self.rows), dtype=bool), self.first == region
        known, result = np.zeros(len(self.drawn), dtype=bool), list[int]()
        while len(result) < most:
            scores = self._scores(region, left, known, told)
            best = int(np.argmax(scores))
            if scores[best] <= 0:
                break
            if not known[best]:
                open_ = np.flatnonzero(~known & (scores > 0))
                leading = open_[np.argsort(-scores[open_], kind="stable")][:BATCH]
                self._ask(leading, told if self.copy_first else np.ones_like(told), left)
                known[leading] = True
                continue
            result.append(best)
            left &= (self.first if self.copy_first else self.second)[:, best] != region
        return result

    def _scores(self, region: int, left: Bools, known: Bools, told: Bools) -> Indices:
        bound = np.asarray(told[left].sum(axis=0), dtype=np.int64)
        copied, true = (self.first, self.second) if self.copy_first else (self.second, self.first)
        says = copied[np.ix_(left, known)] == region
        good = says & (true[np.ix_(left, known)] == region)
        bound[known] = good.sum(axis=0) - WRONG * (says & ~good).sum(axis=0)
        return bound

    def _ask(self, columns: Indices, needed: Bools, left: Bools) -> None:
        missing = needed[:, columns] & left[:, np.newaxis] & (self.second[:, columns] == UNASKED)
        at, which = np.nonzero(missing)
        if at.size:
            self.second[at, columns[which]] = self._asks[1](self.rows[at], self.drawn[columns[which]])


def _steadiest(public: Public, copy: Surrogate, drawn: Indices, region: int, rng: np.random.Generator) -> list[Indices]:
    """Return the candidate of a region whose neighbours stay there most often, of equals the one with most margin.

    All columns are sensitive, so that it makes no difference which record is asked about.  Numbers are shaken, as a
    service may round them; the same way around all candidates, for a fair comparison.
    """
    inside = drawn[copy(public.moved(_first(drawn), drawn)) == region]
    if len(inside):
        inside = inside[public.asked(_first(inside), inside) == region]
    if not len(inside):
        return []
    margins = _margins(copy, public.moved(_first(inside), inside))
    inside = inside[np.argsort(-margins, kind="stable")]
    rest = np.linspace(FINALISTS, len(inside) - 1, FINALISTS).astype(np.int64)  # a margin of the copy's may mislead
    part = inside[np.unique(np.concatenate([np.arange(FINALISTS), rest]).clip(0, len(inside) - 1))]
    shakes = rng.normal(size=(SHAKES, part.shape[1])) * np.geomspace(1e-4, 0.1, SHAKES)[:, np.newaxis]
    most, ordered = sizes(public) - 1, orders(public)
    shaken = np.clip(np.rint(part[:, np.newaxis] + np.where(ordered, shakes * most, 0)), 0, most)
    near = shaken.astype(np.int64).reshape(-1, part.shape[1])
    stays = public.asked(_first(near), near) == region
    stays &= copy(public.moved(_first(near), near)) == region
    return [part[int(np.argmax(stays.reshape(len(part), SHAKES).sum(axis=1)))]]


def _first(rows: Indices) -> Indices:
    return np.zeros(len(rows), dtype=np.int64)


def _margins(copy: Surrogate, places: Indices) -> Floats:
    """Return how far records are from another answer: by score, distance, or the nearest side of a leaf's box."""
    if isinstance(copy, Joint):  # units differ from part to part: ranks, of which the lowest counts
        return np.asarray(np.min([_ranks(_margins(part, places)) for part in copy.parts], axis=0))
    if isinstance(copy, Cells):
        return np.minimum(_ranks(_margins(copy.part, places)), _ranks(_leads(copy, places)))
    if not isinstance(copy, (IntegerReLU, Trees)):
        return np.zeros(len(places))
    if not (isinstance(copy, Trees) and copy.names_regions):
        ranked = np.sort(copy.scores(places), axis=1)
        return np.asarray(ranked[:, -1] - ranked[:, -2] if ranked.shape[1] > 1 else ranked[:, -1], dtype=np.float64)
    low, high, _ = boxes(copy)
    most = np.array([one.places - 1 for one in copy.inputs])
    nearest = np.ones(len(places))
    for leaf in np.flatnonzero(copy.feature == LEAF):
        inside = np.flatnonzero(((places >= low[leaf]) & (places <= high[leaf])).all(axis=1))
        below = np.where(low[leaf] > 0, places[inside] - low[leaf], most)  # nothing lies beyond the ends of a grid
        above = np.where(high[leaf] < most, high[leaf] - places[inside], most)
        nearest[inside] = np.minimum(nearest[inside], (np.minimum(below, above) / most).min(axis=1))
    return nearest


def _ranks(margins: Floats) -> Floats:
    """Return how many margins are smaller than each."""
    return np.searchsorted(np.sort(margins), margins).astype(np.float64)


def _leads(cells: Cells, places: Indices) -> Floats:
    """Return by how much the nearest cell of a record's region is nearer than the next one; infinity without one."""
    apart = cells.distances(places, cells.medians).astype(np.float64)
    apart[cells.part(places)[:, np.newaxis] != cells.labels] = np.inf
    ranked = np.sort(apart, axis=1)
    return np.asarray(ranked[:, 1] - ranked[:, 0] if ranked.shape[1] > 1 else np.full(len(places), np.inf))


def _default(public: Public, chosen: list[list[Indices]], drawn: Indices, rng: np.random.Generator) -> Indices:
    """Return what keeps the classifier's label most often, out of the first that stand for each region."""
    turns = [row for rows in zip_longest(*chosen) for row in rows if row is not None]
    tried = np.array((turns or list(drawn))[:DEFAULTS])
    rows = rng.permutation(len(public.places))[:SEEN]
    answers = public.asked(np.repeat(rows, len(tried)), np.tile(tried, (len(rows), 1))).reshape(len(rows), len(tried))
    return np.asarray(tried[int(np.argmax((answers == public.regions[rows, np.newaxis]).mean(axis=0)))])


ROUNDS = 12  # of moving medians
STARTS, TRIED = 3, 6  # of which the best is taken; candidates for each centre to start with
SOME, FEW = 4000, 3  # records that medians are made of: at most of a region, at least of a cell
MEDIAN_CONTEXTS = 200  # public records that medians are verified with


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


def cells_of(public: Public, copy: Surrogate, count: int, fidelity: float, rng: np.random.Generator) -> Fidelity:
    """Cut every region of a copy into about ``count / regions`` cells around medians of public records."""
    each = max(1, count // copy.regions)
    own, result = copy(public.places), []
    sensitive = public.places[:, public.sensitive]
    for region in range(copy.regions):
        rows = sensitive[own == region]
        result.append(_medians(rows if len(rows) else sensitive, each if len(rows) else 1, public, rng))
    labels = np.repeat(np.arange(copy.regions), [len(medians) for medians in result])
    medians = np.concatenate(result)
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
    rows = rng.integers(len(public.places), size=min(MEDIAN_CONTEXTS, len(public.places)))
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
    result = [_rounds(part, _start(part, count, public, rng), public) for _ in range(STARTS)]
    apart = [_distances(part, centres, public).min(axis=1).mean() for centres in result]
    return np.unique(result[int(np.argmin(apart))], axis=0)


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
