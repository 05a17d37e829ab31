"""PB-GRR: randomised response that prefers a region around each item, for the local model; pure epsilon.

Weights per report: the truth B e^eps_K, other items of its region B, all others 1.  With regions of one size the loss
is eps_K + ln B; otherwise totals differ between items, and ln B is solved for on the whole channel matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats, generator
from epsworth.noise.allowed import LARGEST, budget, numbers, positive, share, whole
from epsworth.results import Result
from epsworth.rounding import down, show_down, show_up, up
from epsworth.search import last_passing

MOST_ITEMS = 4096  # of a channel: its matrix has as many rows and columns
WORST_CONDITION = 1e10  # of the channel: beyond it, counts say nothing about values
EACH = 24  # roundings of a probability: two exponentials at eight, three sums and products, a quotient, and a few


def windows(d: int, reach: int, *, circular: bool = False) -> list[list[int]]:
    """Return regions of neighbours at most ``reach`` away, clipped at both ends or wrapped around.

    Parameters
    ----------
    d, reach : int
        Number of items, of which fewer than two are refused; how far a neighbour may be.
    circular : bool
        Whether the first follows the last.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.windows(4, 1)
    [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    >>> noise.windows(4, 1, circular=True)[0]
    [0, 1, 3]
    """
    d, reach = whole(d, "d", 2, MOST_ITEMS), whole(reach, "reach", 0, MOST_ITEMS)
    if circular:
        return [sorted({(i + j) % d for j in range(-reach, reach + 1)}) for i in range(d)]
    return [list(range(max(0, i - reach), min(d, i + reach + 1))) for i in range(d)]


def groups(sizes: Sequence[int]) -> list[list[int]]:
    """Return regions of disjoint groups.

    Parameters
    ----------
    sizes : sequence of int
        How many items each group has; groups without items are refused.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.groups([2, 3])
    [[0, 1], [0, 1], [2, 3, 4], [2, 3, 4], [2, 3, 4]]
    """
    sizes = [whole(size, "sizes", 1, MOST_ITEMS) for size in sizes]
    whole(sum(sizes), "the sum of sizes", 2, MOST_ITEMS)
    ends = accumulate(sizes)
    return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True) for _ in range(size)]


class Responses(NamedTuple):
    """Probabilities of one report: the truth, each other item of its region, each item outside.

    Examples
    --------
    >>> from epsworth import noise
    >>> chances = noise.pb_grr(20, 5, 2.0, 1.0)
    >>> round(chances.truth + 4 * chances.inside + 15 * chances.outside, 9)  # one truth, 4 and 15 other items
    1.0
    >>> round(chances.truth / chances.outside, 3)  # e^2
    7.389
    """

    truth: float
    inside: float
    outside: float


def pb_grr(d: int, k: int, epsilon: float, kernel_epsilon: float) -> Responses:
    """Return the probabilities of PB-GRR with ``d`` items in regions of ``k`` items each, the truth included.

    Claim: any two items give a report with probabilities within e^epsilon of each other, when all regions have k
    items.  ``kernel_epsilon = epsilon`` is plain randomised response; 0 makes the items of a region alike.

    Parameters
    ----------
    d, k : int
        How many items there are, and in a region; larger regions than all items are refused.
    epsilon, kernel_epsilon : float
        The budget, and the part of it for the truth in its region.

    Examples
    --------
    >>> from epsworth.noise import pb_grr
    >>> truth, inside, outside = pb_grr(20, 5, 2.0, 1.0)
    >>> round(truth, 9), round(truth + 4 * inside, 9)
    (0.222145853, 0.549037421)

    References
    ----------
    Jiang, Zhang, Lu, Du, Sharma & Yan 2025, Proposition 7.
    """
    _check_sizes(d, k)
    epsilon, kernel_epsilon = _budgets(epsilon, kernel_epsilon)
    near, far = np.exp(-kernel_epsilon), np.exp(-epsilon)  # weights relative to the truth's
    total = 1 + (k - 1) * near + (d - k) * far
    return Responses(float(1 / total), float(near / total), float(far / total))


@dataclass(frozen=True, eq=False)
class Grouped(Result):
    """PB-GRR on disjoint groups of equal size, with estimators of counts and their variances.

    Parameters
    ----------
    d, k : int
        How many items there are, and in a group.
    epsilon, kernel_epsilon : float
        The budget, and the part of it for the truth in its group.

    Examples
    --------
    >>> from epsworth.noise import Grouped
    >>> reports = Grouped(20, 5, 2.0, 1.0)
    >>> round(reports.category_variance(1000, 400), 3)
    1105.035
    """

    d: int
    k: int
    epsilon: float
    kernel_epsilon: float

    def __post_init__(self) -> None:
        pb_grr(self.d, self.k, self.epsilon, self.kernel_epsilon)
        if self.d % self.k:
            raise ValueError(f"d must be a multiple of k, got {self.d} items in groups of {self.k}; use Channel")

    @property
    def responses(self) -> Responses:
        """Probabilities of a report."""
        return pb_grr(self.d, self.k, self.epsilon, self.kernel_epsilon)

    @property
    def confidence(self) -> float:
        """Pr[a report is in the true group], rounded down."""
        truth, inside, _ = self.responses
        return down(truth + (self.k - 1) * inside, ulps=EACH + 3)

    def categories(self, counts: ArrayLike) -> Floats:
        """Estimate users per group from report counts per item, shape ``(.., d)``; unbiased (eq. 10)."""
        counts = _counts(counts, self.d)
        users, away = counts.sum(axis=-1, keepdims=True), self.k * self.responses.outside
        grouped = counts.reshape(*counts.shape[:-1], -1, self.k).sum(axis=-1)
        return np.asarray((grouped - users * away) / (self.confidence - away))

    def values(self, counts: ArrayLike) -> Floats:
        """Estimate users per item; unbiased (eq. 11); needs ``kernel_epsilon > 0``."""
        truth, inside, outside = self._separable()
        counts = _counts(counts, self.d)
        users = counts.sum(axis=-1, keepdims=True)
        own = np.repeat(self.categories(counts), self.k, axis=-1)
        return np.asarray((counts - own * (inside - outside) - users * outside) / (truth - inside))

    def category_variance(self, users: float, in_group: float) -> float:
        """Return the variance of a group's estimate, when that many of all users are in it."""
        users, in_group = positive(users, "users"), positive(in_group, "in_group", zero=True)
        w, away = self.confidence, self.k * self.responses.outside
        noise = in_group * w * (1 - w) + (users - in_group) * away * (1 - away)
        return float(noise / (w - away) ** 2)

    def value_variance(self, users: float, in_group: float, at_item: float) -> float:
        """Return the variance of an item's estimate."""
        truth, inside, outside = self._separable()
        users, in_group = positive(users, "users"), positive(in_group, "in_group", zero=True)
        at_item = positive(at_item, "at_item", zero=True)
        w, away = self.confidence, self.k * outside
        kappa = (inside - outside) / (w - away)

        def spread(item: float, group: float) -> float:
            return item - 2 * kappa * item + kappa**2 * group - (item - kappa * group) ** 2

        noise = at_item * spread(truth, w) + (in_group - at_item) * spread(inside, w)
        return float((noise + (users - in_group) * spread(outside, away)) / (truth - inside) ** 2)

    def mean_square_errors(self, shares: ArrayLike) -> tuple[float, float]:
        """Return the mean squared errors of estimated frequencies, of groups and of items, for one user.

        Divide by the number of users.  ``shares`` are the true frequencies of the d items.  Items are infinite at
        ``kernel_epsilon = 0``.
        """
        shares = _frequencies(shares, self.d)
        groups = shares.reshape(-1, self.k).sum(axis=1)
        category = float(np.mean([self.category_variance(1.0, g) for g in groups]))
        if self.kernel_epsilon == 0:
            return category, np.inf
        owners = np.repeat(groups, self.k)
        return category, float(np.mean([self.value_variance(1.0, g, f) for g, f in zip(owners, shares, strict=True)]))

    def __str__(self) -> str:
        promise = f"epsilon {show_up(self.epsilon)} per report, confidence {show_down(self.confidence)}"
        return f"PB-GRR on {self.d} items in groups of {self.k}: {promise}"

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters, the confidence and the probabilities of a report."""
        return {**super().to_dict(), "confidence": self.confidence, "responses": self.responses._asdict()}

    def _separable(self) -> Responses:
        if self.kernel_epsilon == 0:
            raise ValueError("kernel_epsilon must be positive to estimate items: at 0 those of a group report alike")
        return self.responses


@dataclass(frozen=True, eq=False)
class Channel(Result):
    """PB-GRR for regions of any sizes, overlapping or not.

    Attributes
    ----------
    matrix : ndarray, shape ``(d, d)``
        Row x: probabilities of the reports of item x.
    epsilon, kernel_epsilon : float
        The budget, of which no ratio in a column exceeds e^epsilon, and the part for the truth.
    log_boost : float
        ln B, the largest that the budget allows.
    confidence : float
        Pr[the report is in the region], for the item where it is smallest.

    Examples
    --------
    >>> from epsworth import noise
    >>> ratings = noise.channel(noise.windows(5, 1), 2.0, 1.0)  # 1 to 5 stars, neighbours preferred
    >>> ratings.matrix.shape, ratings.loss <= 2, round(ratings.confidence, 3)
    ((5, 5), True, 0.751)
    >>> counts = ratings.matrix.T @ [10, 20, 30, 20, 20]  # what is expected of so many users
    >>> ratings.counts_of_items(counts).round(6)
    array([10., 20., 30., 20., 20.])
    """

    matrix: Floats
    epsilon: float
    kernel_epsilon: float
    log_boost: float
    confidence: float

    @property
    def loss(self) -> float:
        """The largest log ratio in a column, rounded up."""
        return channel_loss(self.matrix)

    def __str__(self) -> str:
        promise = f"epsilon {show_up(self.loss)} per report, confidence {show_down(self.confidence)}"
        return f"PB-GRR on {len(self.matrix)} items: {promise}, ln B {self.log_boost:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """Return parameters, loss, confidence and the matrix."""
        return {**super().to_dict(), "loss": self.loss}

    def draw(self, items: ArrayLike, rng: np.random.Generator | int) -> NDArray[np.int64]:
        """Draw reports for analysis; never fit for release."""
        items, d = np.asarray(items), len(self.matrix)
        if items.dtype.kind not in "iu" or not ((items >= 0) & (items < d)).all():
            raise ValueError(f"items must be whole numbers from 0 to {d - 1}")
        below = np.cumsum(self.matrix, axis=1)[items]
        drawn = (below < generator(rng).random(items.shape)[..., np.newaxis]).sum(axis=-1)
        return np.asarray(np.minimum(drawn, d - 1), dtype=np.int64)

    def counts_of_items(self, counts: ArrayLike) -> Floats:
        """Estimate users per item from counts of reports: solves M^T n = c; unbiased, may be negative."""
        counts = _counts(counts, len(self.matrix))
        condition = float(np.linalg.cond(self.matrix))
        if condition > WORST_CONDITION:
            raise ValueError(
                f"the channel is (nearly) singular, condition {condition:.1e}: counts do not determine the items; "
                "give more of epsilon to the kernel, or other regions"
            )
        return as_floats(np.linalg.solve(self.matrix.T, counts.T).T)


def channel(regions: Sequence[Sequence[int]], epsilon: float, kernel_epsilon: float) -> Channel:
    """Return PB-GRR for one region per item, each holding the item; ln B is as large as epsilon allows.

    Parameters
    ----------
    regions : sequence of sequences of int
        For each item those that may stand for it, itself among them: from `windows` or `groups`.
    epsilon, kernel_epsilon : float
        The budget, and the part of it for the truth in its region; a larger part than all is refused.

    Examples
    --------
    >>> from epsworth.noise import channel, windows
    >>> ratings = windows(5, 1)  # 1 to 5 stars, neighbours preferred
    >>> round(channel(ratings, 2.0, 1.0).log_boost, 6)
    0.887744
    """
    epsilon, kernel_epsilon = _budgets(epsilon, kernel_epsilon)
    inside = _membership(regions)
    kernel, step = kernel_epsilon, 2.0**-50

    def kept(log_boost: Floats) -> Bools:
        return np.asarray(channel_loss(_matrix(inside, kernel, float(log_boost))) <= epsilon)

    while not kept(np.array(0.0)):  # all of epsilon is the kernel's, but for rounding
        kernel, step = kernel * (1 - min(step, 1.0)), 2 * step
    most = np.array(epsilon - kernel_epsilon)
    boost = float(most) if kept(most) else float(last_passing(kept, np.array(0.0), most))
    matrix = _matrix(inside, kernel, boost)
    held = (matrix * inside).sum(axis=1).min()
    return Channel(matrix, epsilon, kernel_epsilon, boost, down(float(held), ulps=len(matrix)))


def channel_loss(matrix: Floats) -> float:
    """Return the largest log ratio of two entries of one column, rounded up.

    As log1p of the excess, which keeps its digits where the entries are nearly alike: one rounding of a difference, one
    of a quotient, eight of the logarithm (NumPy's own limit is 4 units in the last place).
    """
    least = matrix.min(axis=0)
    return up(float(np.log1p((matrix.max(axis=0) - least) / least).max()), ulps=10)


def on_simplex(estimates: ArrayLike, total: float = 1.0) -> Floats:
    """Return the nonnegative numbers nearest to estimates that add up to ``total``: nearer on average, but *biased*.

    Parameters
    ----------
    estimates : array_like, shape ``(.., d)``
        Counts or frequencies; rows without a number are refused.
    total : float
        What they should add up to.

    Examples
    --------
    >>> from epsworth import noise
    >>> noise.on_simplex([0.5, 0.7, -0.1]).round(3)
    array([0.4, 0.6, 0. ])
    """
    estimates, total = numbers(estimates, "estimates", at_most=LARGEST), positive(total, "total")
    if estimates.ndim == 0 or not estimates.shape[-1]:
        raise ValueError(f"estimates must hold at least one number in every row, got shape {estimates.shape}")
    descending = np.sort(estimates, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - total) / np.arange(1, estimates.shape[-1] + 1)
    last = (descending > excess).sum(axis=-1, keepdims=True) - 1
    return np.maximum(estimates - np.take_along_axis(excess, last, axis=-1), 0.0)


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
        Errors of the frequencies of groups and of items, that of sampling the users included.

    Examples
    --------
    >>> from epsworth import noise
    >>> shares = [0.05] * 20
    >>> groups, items = noise.split_users(shares, k=5, epsilon=2.0, part=0.5, users=10_000)
    >>> round(groups * 1e5, 2), round(items * 1e5, 2)
    (8.04, 15.96)
    """
    shares, part = _frequencies(shares), share(part, "part")
    epsilon, users = budget(epsilon), whole(users, "users", 2, int(LARGEST))
    if values not in ("grr", "oue"):
        raise ValueError(f"values must be 'grr' or 'oue', got {values!r}")
    if not 1 <= part * users <= users - 1:
        raise ValueError(f"part must leave at least one of the {users} users on either side, got {part!r}")
    _check_sizes(shares.size, k)
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


def _matrix(inside: Bools, kernel_epsilon: float, log_boost: float) -> Floats:
    weights = as_floats(np.where(inside, np.exp(-kernel_epsilon), np.exp(-kernel_epsilon - log_boost)))
    np.fill_diagonal(weights, 1.0)
    return as_floats(weights / weights.sum(axis=1, keepdims=True))


def _membership(regions: Sequence[Sequence[int]]) -> Bools:
    d = len(regions)
    whole(d, "the number of regions", 2, MOST_ITEMS)
    inside = np.zeros((d, d), dtype=bool)
    for item, region in enumerate(regions):
        if not all(isinstance(other, (int, np.integer)) and 0 <= other < d for other in region) or item not in region:
            raise ValueError(f"regions[{item}] must hold item {item} and only items 0 to {d - 1}, got {list(region)}")
        inside[item, list(region)] = True
    return inside


def _check_sizes(d: int, k: int) -> None:
    whole(k, "k", 1, whole(d, "d", 2, int(LARGEST)))


def _budgets(epsilon: float, kernel_epsilon: float) -> tuple[float, float]:
    epsilon = budget(epsilon)
    kernel_epsilon = positive(kernel_epsilon, "kernel_epsilon", zero=True)
    if kernel_epsilon > epsilon:
        raise ValueError(f"kernel_epsilon must lie in [0, epsilon = {epsilon:g}], got {kernel_epsilon:g}")
    return epsilon, kernel_epsilon


def _counts(counts: ArrayLike, d: int) -> Floats:
    counts = numbers(counts, "counts", at_most=LARGEST)
    if counts.ndim == 0 or counts.shape[-1] != d:
        raise ValueError(f"counts must hold one count per item ({d}), got shape {counts.shape}")
    return counts


def _frequencies(shares: ArrayLike, d: int | None = None) -> Floats:
    shares = numbers(shares, "shares", at_most=LARGEST)
    d = shares.size if d is None else d
    if shares.shape != (d,) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares must be {d} nonnegative frequencies that add up to 1")
    return shares
