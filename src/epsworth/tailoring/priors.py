"""How likely the regions are for a record of which only the public columns are known, and which of them to tell apart.

For the wish that labels are kept on average: k-ary randomised response on the m likeliest regions (RRWithPrior, Ghazi,
Golowich, Kumar, Manurangsi & Zhang 2021).  The prior is that of the region given the public columns; the marginal one
loses much of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.release.copies import LEAF, Indices, Input, Trees
from epsworth.tailoring.fitted_trees import grow
from epsworth.tailoring.public import Public

LEAVES = 64
RECORDS = 50  # that a leaf has at least: fewer say little of their shares


@dataclass(frozen=True, eq=False)
class Prior:
    """A public tree on the public columns.

    Attributes
    ----------
    leaves : Trees
        Its regions are the numbers of its leaves; it asks about public columns alone.
    shares : ndarray, shape ``(leaves, regions)``
        How the public records of each leaf are spread over the regions.
    """

    leaves: Trees
    shares: Floats


def prior_tree(public: Public, rng: np.random.Generator) -> Prior:
    """Return the prior of public records: at most 64 leaves, of at least 50 records each.

    Without public columns it has one leaf.  A record whose label is no region counts for none.

    Raises
    ------
    ValueError
        If no public record lies in a region.
    """
    known = np.flatnonzero(public.regions >= 0)
    if not known.size:
        raise ValueError("prior: none of the public records has a label that is one of the policy's regions")
    grown = grow(
        public.places[known], public.regions[known], public.inputs, public.count, int(rng.integers(1 << 31)),
        leaves=LEAVES, least=RECORDS, columns=np.flatnonzero(~public.sensitive),
    )  # fmt: skip
    ends = grown.feature == LEAF
    number = np.where(ends, np.cumsum(ends) - 1, 0).astype(np.int64)
    return Prior(grown.as_copy(public.inputs, number, int(ends.sum())), grown.shares[ends])


def likeliest(prior: ArrayLike, epsilon: float) -> tuple[Indices, int, float]:
    """Return the order of regions by falling prior, how many of them to tell apart, and the share that is then kept.

    Parameters
    ----------
    prior : array_like, shape ``(regions,)``
    epsilon : float
        Positive; infinity is understood.

    Returns
    -------
    order : ndarray of int
        Ties to the smaller index.
    m : int
        The smallest that attains the optimum.
    optimum : float
        The largest over m of ``(p_1 + .. + p_m) e^epsilon / (e^epsilon + m - 1)``.

    Examples
    --------
    >>> order, m, optimum = likeliest([0.2, 0.5, 0.3], 2.0)
    >>> order.tolist(), m, round(optimum, 3)
    ([1, 2, 0], 3, 0.787)
    """
    shares = as_floats(prior)
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}")
    order = np.argsort(-shares, kind="stable").astype(np.int64)
    kept = np.cumsum(shares[order]) / (1 + np.arange(len(shares)) * np.exp(-float(epsilon)))
    best = int(np.argmax(kept))
    return order, best + 1, float(kept[best])


def orders(prior: Prior, epsilon: float) -> list[tuple[Indices, int]]:
    """Return for each leaf the order of regions by falling prior, and how many of them to tell apart."""
    return [likeliest(shares, epsilon)[:2] for shares in prior.shares]


def single_leaf(inputs: tuple[Input, ...]) -> Trees:
    """Return the tree that tells nothing apart."""
    none, leaf = np.zeros(1, dtype=np.int64), np.full(1, LEAF, dtype=np.int64)
    return Trees(inputs, leaf, leaf, leaf, none, {}, none, none[:, np.newaxis], 1, names_regions=True)
