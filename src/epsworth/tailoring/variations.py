"""Sensitive places that no record need have, for surrogates to learn from and for regions to be represented by.

Except for `jittered`, columns are drawn one by one, so that none of the rows is a record's but by chance.
"""

from __future__ import annotations

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.release.copies import Indices
from epsworth.tailoring.public import Public

SPREAD = 0.05  # of jitter, in lengths of a column
SWAPPED = 0.1  # words that jitter replaces


def resampled(public: Public, rng: np.random.Generator, n: int) -> Indices:
    """Return sensitive places whose columns come from other records each."""
    sensitive = public.places[:, public.sensitive]
    return np.take_along_axis(sensitive, rng.integers(len(sensitive), size=(n, sensitive.shape[1])), axis=0)


def uniform(public: Public, rng: np.random.Generator, n: int) -> Indices:
    """Return sensitive places, all equally likely."""
    return np.asarray(rng.integers(sizes(public), size=(n, len(sizes(public)))), dtype=np.int64)


def jittered(public: Public, places: Indices, rng: np.random.Generator, spread: float | Floats = SPREAD) -> Indices:
    """Return sensitive places close to some; a few words become other records' words."""
    most, ordered = sizes(public) - 1, orders(public)
    moved = np.rint(places + rng.normal(0, 1, places.shape) * spread * most)
    words = np.where(rng.random(places.shape) < SWAPPED, resampled(public, rng, len(places)), places)
    return np.where(ordered, np.clip(moved, 0, most), words).astype(np.int64)


def sizes(public: Public) -> Indices:
    """Return how many places the sensitive columns have."""
    return np.array([one.places for one, asked in zip(public.inputs, public.sensitive, strict=True) if asked])


def orders(public: Public) -> Bools:
    """Return which of the sensitive columns have an order."""
    return np.array([one.ordered for one, asked in zip(public.inputs, public.sensitive, strict=True) if asked])
