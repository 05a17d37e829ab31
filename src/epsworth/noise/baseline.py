"""The honest baseline beside PB-GRR: some users report their group, the others their item."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.noise.allowed import LARGEST, budget, numbers, share, whole
from epsworth.noise.local import check_sizes, frequencies


def split_users(
    shares: ArrayLike, k: int, epsilon: float, part: float, users: int, *, values: Literal["grr", "oue"] = "oue"
) -> tuple[float, float]:
    """Return the mean squared errors of the honest baseline: some users report their group, the others their item.

    Parameters
    ----------
    shares : array_like, shape ``(d,)``
        True frequencies of the items, in groups of k.
    part : float
        Share of the users, in (0, 1), who report their group by randomised response; all spend the whole epsilon.
    users : int
        How many there are.
    values : {"grr", "oue"}
        How items are reported: randomised response or optimised unary encoding (Wang et al. 2017).

    Returns
    -------
    tuple of float
        Of the frequencies of groups and of items, the error of sampling the users included.

    Examples
    --------
    >>> from epsworth import noise
    >>> shares = [0.05] * 20
    >>> groups, items = noise.split_users(shares, k=5, epsilon=2.0, part=0.5, users=10_000)
    >>> round(groups * 1e5, 2), round(items * 1e5, 2)
    (8.04, 15.96)
    """
    shares = numbers(shares, "shares")
    part, shares = share(part, "part"), frequencies(shares, shares.size)
    epsilon, users = budget(epsilon), whole(users, "users", 2, int(LARGEST))
    if values not in ("grr", "oue"):
        raise ValueError(f"values must be 'grr' or 'oue', got {values!r}")
    if not 1 <= part * users <= users - 1:
        raise ValueError(f"part must leave at least one of the {users} users on either side, got {part!r}")
    check_sizes(shares.size, k)
    if shares.size % k:
        raise ValueError(f"k must divide the number of shares, {shares.size}, got {k}")
    by_group = shares.reshape(-1, k).sum(axis=1)
    first = part * users
    category = _grr_error(by_group, epsilon, first, users)
    if values == "grr":
        return category, _grr_error(shares, epsilon, users - first, users)
    noise = 4 * np.exp(-epsilon) / (np.expm1(-epsilon) ** 2) / (users - first)
    return category, float(noise + _sampling(shares, users - first, users) + shares.mean() / (users - first))


def _grr_error(shares: Floats, epsilon: float, asked: float, users: int) -> float:
    d = shares.size
    near, far = np.exp(-epsilon), 1 + (d - 1) * np.exp(-epsilon)  # weights relative to the truth's
    p, q = 1 / far, near / far
    gap = -np.expm1(-epsilon) / far  # p - q
    noise = shares * p * (1 - p) + (1 - shares) * q * (1 - q)
    return float(noise.mean() / (asked * gap**2) + _sampling(shares, asked, users))


def _sampling(shares: Floats, asked: float, users: int) -> float:
    """Return the error of looking at some of the users only, drawn without replacement."""
    return float((shares * (1 - shares)).mean() * (1 / asked - 1 / users))
