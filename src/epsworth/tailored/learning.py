"""Small classifiers in whole numbers that answer as a given one does: trees, sums, and 16 rectifiers.

They learn from records, and from records whose sensitive columns were moved: a record that is unlike the public ones
must be understood, too, and a surrogate fitted to these alone fails there.  Trees split words into sets, and no order
of them goes into the tables; sums and rectifiers are rounded to whole weights of 16 bits.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats, Indices
from epsworth.grids import Input
from epsworth.keeping import Arrays, Keeping
from epsworth.parallel import in_order
from epsworth.tailored.document import read_copy
from epsworth.tailored.problem import Public, jittered, resampled, uniform
from epsworth.tailored.surrogates import EXACT, LEAF, IntegerReLU, Layer, Surrogate, Trees

KINDS = ("linear", "tree:32", "relu", "tree:256", "tree:1024")  # the smaller ones first
TREE = "tree"  # the best of the trees
MOST = 10_000  # records that sums learn from; more move their weights little


def training_mix(public: Public, rng: np.random.Generator, n: int = 20_000) -> tuple[Indices, Indices]:
    """Return records to learn from, the public ones first, and the classifier's regions of them.

    Parameters
    ----------
    public : Public
    rng : numpy.random.Generator
    n : int
        How many records the classifier is asked about: a third of them with sensitive columns from other records (each
        with probability 1/2), jittered, and anywhere.

    Returns
    -------
    places : ndarray of int
    regions : ndarray of int
        Records whose label is no region are left out.
    """
    rows = rng.integers(len(public.places), size=n)
    own, part = public.places[rows][:, public.sensitive], np.arange(n) % 3
    other = np.where(rng.random(own.shape) < 0.5, resampled(public, rng, n), own)
    drawn = np.choose(part[:, np.newaxis], [other, jittered(public, own, rng), uniform(public, rng, n)])
    places = np.concatenate([public.places, public.moved(rows, drawn)])
    regions = np.concatenate([public.regions, public.asked(rows, drawn)])
    return places[regions >= 0], regions[regions >= 0]


def surrogate(
    public: Public,
    chosen: Public,
    kind: str,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    kept: Keeping | None = None,
) -> tuple[Surrogate, float]:
    """Return a copy of the classifier that was learnt from its answers, and the share of ``chosen`` where they agree.

    Parameters
    ----------
    public : Public
        Records to learn from.
    chosen : Public
        Records that nothing is learnt from.
    kind : str
        ``"tree:32"``, ``"tree:256"``, ``"tree:1024"`` (leaves), ``"linear"``, ``"relu"`` (16 units); or ``"tree"``, of
        the trees, and ``"auto"``, of all: the one that agrees best on ``chosen``, the smaller of equals.
    rng : numpy.random.Generator
    n_jobs : int, optional
        Workers that fit the kinds side by side.
    kept : Keeping, optional
        Where fits of an earlier run lie, and new ones are left.

    Returns
    -------
    copy : Surrogate
    agreement : float
        Where several are tried it is optimistic, as the choice was made by it: what a user is told is measured
        elsewhere, on records that neither built nor chose anything.
    """
    several = {"auto": KINDS, TREE: tuple(one for one in KINDS if one.startswith(TREE))}
    if kind not in (*several, *KINDS):
        raise ValueError(f"surrogate: must be 'auto' or one of {', '.join(sorted((TREE, *KINDS)))}, got {kind!r}")
    places, regions = training_mix(public, rng)
    if not len(regions):
        raise ValueError("surrogate: none of the public records has a label that is one of the policy's regions")
    own = int((public.regions >= 0).sum())
    best: tuple[Surrogate, float] | None = None
    for copy in _copies(places, regions, own, public, several.get(kind, (kind,)), rng, n_jobs, kept):
        agreement = float(np.mean(copy(chosen.places) == chosen.regions))
        if best is None or agreement > best[1]:
            best = copy, agreement
    assert best is not None
    return best


def _copies(
    places: Indices,
    regions: Indices,
    own: int,
    public: Public,
    kinds: Sequence[str],
    rng: np.random.Generator,
    n_jobs: int | None,
    kept: Keeping | None,
) -> list[Surrogate]:
    seed, weights = int(rng.integers(1 << 31)), _weights(own, len(regions))
    leaves = tuple(int(kind.removeprefix("tree:")) for kind in kinds if kind.startswith("tree:"))
    sums = [kind for kind in kinds if not kind.startswith("tree:")]
    part = rng.choice(len(regions), min(MOST, len(regions)), replace=False, p=weights / weights.sum()) if sums else None
    learning = _Learning(places, regions, weights, part, public.inputs, public.count, seed, leaves)
    result: dict[str, Surrogate] = {}
    batches = [*sorted(sums, reverse=True), *([TREE] if leaves else [])]
    for some in in_order(learning, batches, n_jobs=n_jobs, kept=kept):
        result |= some  # rectifiers take longest, so they come first
    return [result[kind] for kind in kinds]


@dataclass(frozen=True, eq=False)
class _Learning:
    """What all kinds of copies learn from."""

    places: Indices
    regions: Indices
    weights: Floats
    part: Indices | None
    inputs: tuple[Input, ...]
    count: int
    seed: int
    leaves: tuple[int, ...]

    def __call__(self, kind: str) -> dict[str, Surrogate]:
        """Return the copies of a kind: all trees are the beginning of the largest one."""
        if kind == TREE:
            grown = grow(self.places, self.regions, self.inputs, self.count, self.seed, leaves=max(self.leaves),
                         weights=self.weights)  # fmt: skip
            return {f"tree:{most}": grown.first(most).likeliest(self.inputs) for most in self.leaves}
        spread = Spread.of(self.places, self.inputs)
        places, regions = self.places[self.part], self.regions[self.part]
        if kind == "linear":
            return {kind: linear(spread, places, regions, self.count)}
        return {kind: rectifiers(spread, places, regions, self.count, self.seed)}

    def arrays(self, found: dict[str, Surrogate]) -> Arrays:
        """Return what is kept of a kind: the tables, as a policy holds them."""
        return {kind: np.array(json.dumps(copy.to_dict())) for kind, copy in found.items()}

    def read(self, kind: str, arrays: Arrays) -> dict[str, Surrogate]:
        """Return what was kept of a kind: tables that a policy could hold."""
        return {own: read_copy(json.loads(str(table)), self.inputs, self.count) for own, table in arrays.items()}


def _weights(own: int, n: int) -> Floats:
    """Return what each record counts: those that stand as they are, together, about as much as all that were moved.

    Whole numbers, whose sums trees compare exactly: a leaf of one region is seen to be one, and not split again.
    """
    moved = n - own
    if not own or not moved:
        return np.ones(n)
    return np.where(np.arange(n) < own, max(1, round(moved / own)), max(1, round(own / moved))).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Grown:
    """A fitted tree's nodes in the order in which they were split, the most useful first.

    Attributes
    ----------
    feature, left, right, threshold : ndarray of int, shape ``(nodes,)``
        As in `Trees`; of the words of a column, those whose codes are at most the bound go left.
    sets : dict of node to tuple of int
    shares : ndarray, shape ``(nodes, regions)``
        How the records of each node, inner ones too, are spread over the regions.
    """

    feature: Indices
    left: Indices
    right: Indices
    threshold: Indices
    sets: dict[int, tuple[int, ...]]
    shares: Floats

    def first(self, leaves: int) -> Grown:
        """Return the tree that growing would have stopped at with so many leaves.

        The best split is made next, and nodes are numbered as they are made: what stopped earlier is the beginning.
        """
        kept = min(len(self.feature), 2 * leaves - 1)
        inner = self.left[:kept] < kept  # leaves have LEAF, below every node
        inner &= self.left[:kept] != LEAF
        feature, left, right = (np.where(inner, part[:kept], LEAF) for part in (self.feature, self.left, self.right))
        sets = {node: words for node, words in self.sets.items() if node < kept and inner[node]}
        return Grown(feature, left, right, np.where(inner, self.threshold[:kept], 0), sets, self.shares[:kept])

    def as_copy(self, inputs: Sequence[Input], values: Indices, count: int) -> Trees:
        """Return the tree with these values of its nodes, below ``count``."""
        return Trees(
            tuple(inputs), self.feature, self.left, self.right, self.threshold, self.sets,
            np.zeros(1, dtype=np.int64), values[:, np.newaxis], count, names_regions=True,
        )  # fmt: skip

    def likeliest(self, inputs: Sequence[Input]) -> Trees:
        """Return the copy that says the most frequent region of a leaf, the first of equals."""
        return self.as_copy(inputs, np.argmax(self.shares, axis=1).astype(np.int64), self.shares.shape[1])


def grow(
    places: Indices, regions: Indices, inputs: Sequence[Input], count: int, seed: int, *,
    leaves: int, least: int = 1, weights: Floats | None = None, columns: Indices | None = None,
) -> Grown:  # fmt: skip
    """Grow a tree on some columns, best split first.

    Parameters
    ----------
    places : ndarray of int, shape ``(n, inputs)``
    regions : ndarray of int, shape ``(n,)``
        None of them -1.
    inputs : sequence of Input
    count : int
        How many regions there are; some may have no record.
    seed : int
    leaves : int
        At most so many.
    least : int
        Records that a leaf has at least.
    weights : ndarray, optional
        What each record counts.
    columns : ndarray of int, optional
        The inputs that the tree may ask about; default all.
    """
    from sklearn.tree import DecisionTreeClassifier

    columns = np.arange(len(inputs)) if columns is None else columns
    codes = {int(j): word_codes(places[:, j], regions, inputs[j].places, count, weights) for j in columns
             if not inputs[j].ordered}  # fmt: skip
    seen = np.empty((len(places), len(columns)), dtype=np.float32)
    for at, j in enumerate(columns):
        seen[:, at] = codes[int(j)][places[:, j]] if int(j) in codes else places[:, j]
    if leaves < 2 or not len(columns):
        return _stump(regions, count, weights)
    fitted = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=seed)
    fitted.fit(seen, regions, sample_weight=weights)
    tree = fitted.tree_
    inner = tree.children_left != LEAF
    feature = np.where(inner, columns[np.where(inner, tree.feature, 0)], LEAF).astype(np.int64)
    sets = {
        int(node): tuple(np.flatnonzero(codes[int(feature[node])] <= tree.threshold[node]).tolist())
        for node in np.flatnonzero(inner)
        if int(feature[node]) in codes
    }
    asks_numbers = inner & ~np.isin(np.arange(len(inner)), list(sets))
    shares = np.zeros((len(inner), count))
    shares[:, fitted.classes_] = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
    return Grown(
        feature, np.asarray(tree.children_left, dtype=np.int64), np.asarray(tree.children_right, dtype=np.int64),
        np.where(asks_numbers, np.floor(tree.threshold), 0).astype(np.int64), sets, shares,
    )  # fmt: skip


def word_codes(words: Indices, regions: Indices, places: int, count: int, weights: Floats | None = None) -> Floats:
    """Return a code for each word under which splits by a bound are splits into sets that tell regions apart.

    The words' shares of the regions, along the direction in which these differ most: with two regions the best set is
    among those splits (Breiman et al. 1984), with more it is often found (Coppersmith, Hong & Hosking 1999).  Words
    that no record has stand in the middle.
    """
    table = np.zeros((places, count))
    np.add.at(table, (words, regions), 1.0 if weights is None else weights)
    total = table.sum(axis=1)
    known = total > 0
    shares = table[known] / total[known, np.newaxis]
    middle = np.average(shares, axis=0, weights=total[known])
    apart = (shares - middle) * np.sqrt(total[known, np.newaxis])
    direction = np.linalg.svd(apart, full_matrices=False)[2][0]
    codes = np.zeros(places)
    codes[known] = np.round((shares - middle) @ direction, 6)
    return codes.astype(np.float32).astype(np.float64)  # what trees compare


def _stump(regions: Indices, count: int, weights: Floats | None) -> Grown:
    none = np.full(1, LEAF)
    shares = np.bincount(regions, weights, minlength=count).astype(np.float64)
    return Grown(none, none, none, np.zeros(1, dtype=np.int64), {}, (shares / shares.sum())[np.newaxis])


UNITS = 16
BITS = 16  # of weights: 8 lose .02 to .09 of the agreement
HANDED = 20  # bits of what a hidden unit hands on
ROUNDS = 30  # of learning rectifiers: twice as many gain .002, and take as long again
Affine = tuple[Floats, Floats]  # weights, shape (outputs, inputs), and biases


@dataclass(frozen=True, eq=False)
class Spread:
    """What `IntegerReLU` sum: places of numbers, and 1 for a word's position, else 0; and their usual size.

    Attributes
    ----------
    inputs : tuple of Input
    middle, width : ndarray
        Of what is summed; 0 and 1 for words.
    """

    inputs: tuple[Input, ...]
    middle: Floats
    width: Floats

    @classmethod
    def of(cls, places: Indices, inputs: Sequence[Input]) -> Spread:
        """Return the spread of records."""
        middle, width = [], []
        for j, one in enumerate(inputs):
            column = places[:, j]
            middle += [float(column.mean())] if one.ordered else [0.0] * one.places
            width += [max(float(column.std()), one.places / 100)] if one.ordered else [1.0] * one.places
        return cls(tuple(inputs), np.array(middle), np.array(width))

    @property
    def reach(self) -> Floats:
        """The largest that each can be."""
        return np.array([r for one in self.inputs for r in ([one.places - 1.0] if one.ordered else [1.0] * one.places)])

    def scaled(self, places: Indices) -> Floats:
        """Return records as numbers of about the same size."""
        parts = [
            places[:, [j]] if one.ordered else places[:, [j]] == np.arange(one.places)
            for j, one in enumerate(self.inputs)
        ]
        return np.asarray((np.concatenate(parts, axis=1) - self.middle) / self.width)

    def folded(self, layer: Affine) -> Affine:
        """Return the layer that takes places as they are."""
        weights = layer[0] / self.width
        return weights, layer[1] - weights @ self.middle


def linear(spread: Spread, places: Indices, regions: Indices, count: int) -> IntegerReLU:
    """Return the whole-number copy of a multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression

    result = np.unique(regions)
    if len(result) < 2:
        return _constant(spread, int(result[0]), count)
    model = LogisticRegression(C=10.0, max_iter=60)
    _quietly(model, spread.scaled(places), regions)
    return whole(spread, [spread.folded((model.coef_, model.intercept_))], result, count)


def rectifiers(spread: Spread, places: Indices, regions: Indices, count: int, seed: int) -> IntegerReLU:
    """Return the whole-number copy of a network with one hidden layer of 16 rectifiers."""
    from sklearn.neural_network import MLPClassifier

    result = np.unique(regions)
    if len(result) < 2:
        return _constant(spread, int(result[0]), count)
    model = MLPClassifier(
        (UNITS,),
        learning_rate_init=0.02,
        batch_size=min(256, len(regions)),
        alpha=1e-5,
        max_iter=ROUNDS,
        random_state=seed,
    )
    _quietly(model, spread.scaled(places), regions)
    first, last = [(w.T, b) for w, b in zip(model.coefs_, model.intercepts_, strict=True)]
    return whole(spread, [spread.folded(first), last], result, count)


def whole(spread: Spread, layers: Sequence[Affine], found: Indices, count: int) -> IntegerReLU:
    """Return layers in whole numbers; with one score it speaks for the second of two regions.

    Parameters
    ----------
    spread : Spread
    layers : sequence of (weights, biases)
        On places as they are.
    found : ndarray of int
        The regions that the scores are of; the others never win.
    count : int
    """
    reach, made = spread.reach, []
    weights, biases = layers[0]
    for following in layers[1:]:
        numbers, offsets, scale = _rounded(weights, biases, reach, each=True)
        largest = np.abs(numbers) @ reach + np.abs(offsets)
        shift = max(0, int(largest.max()).bit_length() - HANDED)
        made.append(Layer(numbers, offsets, shift))
        reach = np.floor(largest / 2**shift)
        weights, biases = following[0] * (2.0**shift / scale), following[1]
    if len(weights) == 1:
        weights, biases = np.vstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], biases])
    numbers, offsets, _ = _rounded(weights, biases, reach, each=False)
    never = -int((np.abs(numbers) @ reach + np.abs(offsets)).max()) - 1
    table, last = np.zeros((count, numbers.shape[1]), dtype=np.int64), np.full(count, never, dtype=np.int64)
    table[found], last[found] = numbers, offsets
    return IntegerReLU(spread.inputs, (*made, Layer(table, last, 0)))


def _rounded(weights: Floats, biases: Floats, reach: Floats, *, each: bool) -> tuple[Indices, Indices, Floats]:
    """Return whole weights and biases, and what they were multiplied by: one number, or one for each output.

    What the heaviest input can add has 16 bits more than the widest one's places: no weight loses more than 2^-16 of it
    over its whole range.  Half of what doubles hold is left free for the sums.
    """
    heaviest = (np.abs(weights) * reach).max(axis=1)
    total = np.abs(weights) @ reach + np.abs(biases)
    if not each:
        heaviest, total = np.full_like(heaviest, heaviest.max()), np.full_like(total, total.max())
    scale = 2.0 ** (BITS - 1) * reach.max() / np.where(heaviest > 0, heaviest, 1.0)
    # one unit that is almost constant must not have larger sums than all others: these share its shift
    most = min(EXACT / 4, 2.0**BITS * reach.max() * (1 + len(reach))) if each else EXACT / 4
    scale = np.minimum(scale, most / np.maximum(total, 1e-300))
    rounded = [np.rint(part).astype(np.int64) for part in (weights * scale[:, np.newaxis], biases * scale)]
    return rounded[0], rounded[1], scale


def _constant(spread: Spread, region: int, count: int) -> IntegerReLU:
    biases = np.zeros(count, dtype=np.int64)
    biases[region] = 1
    return IntegerReLU(spread.inputs, (Layer(np.zeros((count, len(spread.middle)), dtype=np.int64), biases, 0),))


def _quietly(model: object, seen: Floats, regions: Indices) -> None:
    """Fit; that learning was stopped early is meant."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):  # small products: threads only wait for one another
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(seen, regions)  # type: ignore[attr-defined]
