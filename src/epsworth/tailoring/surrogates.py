"""Small classifiers in whole numbers that answer as a given one does: trees, sums, and 16 rectifiers.

They learn from records, and from records whose sensitive columns were moved: a record that is unlike the public ones
must be understood, too, and a surrogate fitted to these alone fails there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Floats
from epsworth.keeping import Arrays, Keeping
from epsworth.parallel import in_order
from epsworth.release.copies import Copy, Indices, Input
from epsworth.release.reading_copies import read_copy
from epsworth.tailoring.fitted_sums import Spread, linear, rectifiers
from epsworth.tailoring.fitted_trees import grow
from epsworth.tailoring.public import Public
from epsworth.tailoring.variations import jittered, resampled, uniform

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
) -> tuple[Copy, float]:
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
    copy : Copy
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
    best: tuple[Copy, float] | None = None
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
) -> list[Copy]:
    seed, weights = int(rng.integers(1 << 31)), _weights(own, len(regions))
    leaves = tuple(int(kind.removeprefix("tree:")) for kind in kinds if kind.startswith("tree:"))
    sums = [kind for kind in kinds if not kind.startswith("tree:")]
    part = rng.choice(len(regions), min(MOST, len(regions)), replace=False, p=weights / weights.sum()) if sums else None
    learning = _Learning(places, regions, weights, part, public.inputs, public.count, seed, leaves)
    found: dict[str, Copy] = {}
    batches = [*sorted(sums, reverse=True), *([TREE] if leaves else [])]
    for some in in_order(learning, batches, n_jobs=n_jobs, kept=kept):
        found |= some  # rectifiers take longest, so they come first
    return [found[kind] for kind in kinds]


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

    def __call__(self, kind: str) -> dict[str, Copy]:
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

    def arrays(self, found: dict[str, Copy]) -> Arrays:
        """Return what is kept of a kind: the tables, as a policy holds them."""
        return {kind: np.array(json.dumps(copy.to_dict())) for kind, copy in found.items()}

    def read(self, kind: str, arrays: Arrays) -> dict[str, Copy]:
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
