"""Small classifiers in whole numbers that answer as a given one does: trees, sums, and 16 rectifiers.

They learn from records, and from records whose sensitive columns were moved: a record that is unlike the public ones
must be understood, too, and a surrogate fitted to these alone fails there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsworth.arrays import Floats
from epsworth.release.copies import Copy, Indices
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


def surrogate(public: Public, chosen: Public, kind: str, rng: np.random.Generator) -> tuple[Copy, float]:
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
    for copy in _copies(places, regions, own, public, several.get(kind, (kind,)), rng):
        agreement = float(np.mean(copy(chosen.places) == chosen.regions))
        if best is None or agreement > best[1]:
            best = copy, agreement
    assert best is not None
    return best


def _copies(
    places: Indices, regions: Indices, own: int, public: Public, kinds: Sequence[str], rng: np.random.Generator
) -> list[Copy]:
    seed, (inputs, count) = int(rng.integers(1 << 31)), (public.inputs, public.count)
    weights = _weights(own, len(regions))
    leaves = [int(kind.removeprefix("tree:")) for kind in kinds if kind.startswith("tree:")]
    found: dict[str, Copy] = {}
    if leaves:
        grown = grow(places, regions, inputs, count, seed, leaves=max(leaves), weights=weights)
        found = {f"tree:{most}": grown.first(most).likeliest(inputs) for most in leaves}
    if "linear" in kinds or "relu" in kinds:
        part = rng.choice(len(regions), min(MOST, len(regions)), replace=False, p=weights / weights.sum())
        spread = Spread.of(places, inputs)
        if "linear" in kinds:
            found["linear"] = linear(spread, places[part], regions[part], count)
        if "relu" in kinds:
            found["relu"] = rectifiers(spread, places[part], regions[part], count, seed)
    return [found[kind] for kind in kinds]


def _weights(own: int, n: int) -> Floats:
    """Return what each record counts: those that stand as they are, together, about as much as all that were moved.

    Whole numbers, whose sums trees compare exactly: a leaf of one region is seen to be one, and not split again.
    """
    moved = n - own
    if not own or not moved:
        return np.ones(n)
    return np.where(np.arange(n) < own, max(1, round(moved / own)), max(1, round(own / moved))).astype(np.float64)
