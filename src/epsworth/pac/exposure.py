"""Exposure of single records to the best attack, by Monte Carlo.

The release is a draw from a Gaussian mixture whose components are known, so the best possible attack on any record
is Bayes' rule.  Nothing here can be seeded into a release: draws are for analysis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Risk
from epsworth.drawing import COLOURS, bare, new_axes
from epsworth.pac.certificate import bernstein_upper
from epsworth.records import Indices
from epsworth.results import Result
from epsworth.rounding import float_below, percent_down, show_up, up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 2**22  # of a chunk of draws x worlds or records
TELLING = 99.0  # likelihood ratio from which a record counts as found: even odds become 99 %
MOST_WORK = 2**34
FPR = 0.001  # false alarms of a sure guess
ODDS = (3.0, 30.0)  # likelihood ratios from which a sure guess says "in": what bounds its true-positive rate
UNIT = 2.0**-53  # of one rounding, relative
NOISE_REACH = 10.0  # a normal vector of r numbers is longer than sqrt(r) + 10 with probability e^-50


@dataclass(frozen=True, eq=False)
class Exposure(Result):
    """Success of the best attack on every record, and the true mutual information.

    Attributes
    ----------
    success : ndarray, shape ``(n,)``
        Estimated success of Bayes' rule at "was this record used".
    upper : ndarray, shape ``(n,)``
        Upper limits that hold for all records *together*, and with ``tpr``, with the confidence asked for.
    tpr : ndarray, shape ``(n,)``
        Upper limits of the share of the releases from worlds with this record that an attack can be sure of, with
        false alarms in one of a thousand releases from the others: what success on average does not show.
    prior : ndarray, shape ``(n,)``
        Blind success in this list of worlds.
    mi, mi_half_width : float
        Estimate in nats, and 2.576 standard errors (99 %, normal approximation).
    record_mi : ndarray, shape ``(n,)``
        Estimated mutual information of the release with each record's membership.
    named : float
        Upper limit of the chance that a release names some world with a posterior above one half; it holds together
        with the others.
    draws : int
        Simulated releases.
    confidence : float
        With which all upper limits hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fitted = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64, worlds_seed=0).fit(X)
    >>> found = fitted.audit(draws=2048)
    >>> found.success.shape, bool(found.mi < 0.1 + found.mi_half_width)
    ((40,), True)
    >>> bool((found.success <= found.upper).all()), found.worst < 1
    (True, True)
    """

    success: Floats
    upper: Floats
    tpr: Floats
    prior: Floats
    mi: float
    mi_half_width: float
    record_mi: Floats
    named: float
    draws: int
    confidence: float

    @property
    def worst(self) -> float:
        """Upper limit for the most exposed record."""
        return float(self.upper.max())

    @property
    def surest(self) -> float:
        """Upper limit of the true-positive rate, at one false alarm in a thousand, for the most exposed record."""
        return float(self.tpr.max())

    def __getitem__(self, records: slice) -> Exposure:
        """Return the exposure of some of the records; their limits still hold together with all others'."""
        return replace(
            self, success=self.success[records], upper=self.upper[records], tpr=self.tpr[records],
            prior=self.prior[records], record_mi=self.record_mi[records],
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values, one entry per record in the lists."""
        return super().to_dict() | {"worst": self.worst, "tpr_at_fpr_0.001": self.surest}

    def __str__(self) -> str:
        return (
            f"the best attack on the most exposed of {len(self.success)} records succeeds with "
            f"{show_up(100 * self.worst, 4)} % at most, and is sure of it (0.1 % false alarms) with "
            f"{show_up(100 * self.surest, 4)} % at most; {percent_down(self.confidence, 4)} % confidence, "
            f"{self.draws} simulated releases"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the upper limits of all records, the least exposed first, over blind success; not private."""
        panel, order = new_axes(ax), np.argsort(self.upper, kind="stable")
        panel.plot(self.upper[order], color=COLOURS[0], label="upper limit of success")
        panel.plot(self.prior[order], color=COLOURS[1], linestyle=":", label="blind success")
        panel.set(xlabel="records, the least exposed first", ylabel="success at 'was it used?'")
        panel.legend(frameon=False)
        bare(panel)
        return panel


def expose(
    whitened: Floats,
    members: Bools,
    rng: np.random.Generator,
    *,
    risk: Risk,
    draws: int = 8192,
) -> Exposure:
    """Simulate releases and attack every record by Bayes' rule.

    Parameters
    ----------
    whitened : ndarray, shape ``(m, r)``
        Outputs of the worlds in standard deviations of the noise.
    members : ndarray of bool, shape ``(m, n)``
        Which records each world holds.
    risk : Risk
        One share, which all upper limits divide: three for each record, and one.

    Notes
    -----
    By Neyman and Pearson, TPR <= t FPR + E(P/f - t (1-P)/(1-f))_+ for every t, with P the chance of "in" given the
    release and f its share of the worlds.

    Costs draws x m x (r + n) operations; memory stays below a few chunks of 32 MB.
    """
    worlds, records = members.shape
    p = np.full(worlds, 1 / worlds)
    unit, back = np.unique(np.packbits(members, axis=0), axis=1, return_index=True, return_inverse=True)[1:]
    inside = members[:, unit].astype(np.float64)
    total, squares, information = np.zeros(len(unit)), np.zeros(len(unit)), np.zeros(len(unit))
    gains, named = np.empty(draws), 0
    share = p @ inside
    weigh = [_excess(share, odds) for odds in ODDS]
    beyond = np.zeros((2, len(ODDS), len(unit)))
    chunk = max(1, CELLS // max(worlds, len(unit)))
    for start in range(0, draws, chunk):
        count = min(chunk, draws - start)
        truth = rng.choice(worlds, size=count, p=p)
        weights = posterior_weights(whitened, whitened[truth] + rng.standard_normal((count, whitened.shape[1])), p)
        gains[start : start + count] = np.log(weights[np.arange(count), truth] / p[truth])
        named += int((weights.max(axis=1) > 0.5).sum())
        guess = np.clip(weights @ inside, 0, 1)
        best = np.maximum(guess, 1 - guess)
        total += best.sum(axis=0)
        squares += (best**2).sum(axis=0)
        for sums, (slope, start_at) in zip(beyond.transpose(1, 0, 2), weigh, strict=True):
            over = np.maximum(slope * guess - start_at, 0)
            sums += over.sum(axis=0), (over**2).sum(axis=0)
        information += _negative_entropy(guess).sum(axis=0)
    prior = np.maximum(share, 1 - share)
    claims = risk.split(records * (1 + len(ODDS)) + 1)
    blur = blur_of(whitened)
    upper = np.minimum(1.0, _limit(total, squares, draws, np.full(len(unit), 0.5), claims) + blur)
    tpr = np.ones(len(unit))
    for odds, (slope, start_at), (sums, roots) in zip(ODDS, weigh, beyond.transpose(1, 0, 2), strict=True):
        tpr = np.minimum(tpr, odds * FPR + _limit(sums, roots, draws, slope - start_at, claims) + slope * blur)
    record_mi = np.maximum(0.0, information / draws - _negative_entropy(share))
    back = back.reshape(-1)
    half = 2.576 * float(gains.std(ddof=1)) / np.sqrt(draws)
    return Exposure(
        (total / draws)[back], upper[back], tpr[back], prior[back], float(gains.mean()), float(half), record_mi[back],
        float(claims.interval(named, draws).upper), draws, float_below(1 - risk.total),
    )  # fmt: skip


def blur_of(whitened: Floats) -> float:
    """Return how far rounding can take a chance that follows from `posterior_weights`.

    A world's logarithm is a square and a product of r terms each, and that of a prior: off by ``2 r + 16`` units of
    2**-53 of the largest squared length that a world or a release has, at most; a chance P by no more.
    """
    numbers = whitened.shape[1]
    longest = math.sqrt(float((whitened**2).sum(axis=1).max(initial=0.0))) + math.sqrt(numbers) + NOISE_REACH
    return float((2 * numbers + 16) * UNIT * longest**2)


def _excess(share: Floats, odds: float) -> tuple[Floats, Floats]:
    """Return slope and intercept of P/f - t (1-P)/(1-f), a line in P whose largest value is at P = 1."""
    inside, outside = np.maximum(share, 1e-12), np.maximum(1 - share, 1e-12)  # f = 0, 1: the limit is above 1
    return 1 / inside + odds / outside, odds / outside


def _limit(sums: Floats, squares: Floats, draws: int, width: Floats, risk: Risk) -> Floats:
    """Return upper limits of means; the variance is a difference of sums of so many terms, each off by a unit."""
    mean, square = sums / draws, squares / draws
    lost = 3 * (draws + 4) * UNIT * square  # of mean square less squared mean, the latter being no larger
    variance = (np.maximum(square - mean**2, 0) + lost) * draws / (draws - 1)
    return up(bernstein_upper(mean, variance, draws, width, risk), ulps=draws + 4)


def standing_out(
    whitened: Floats, members: Bools, probabilities: Floats | None = None, work: int = MOST_WORK
) -> Bools:  # fmt: skip
    """Tell which worlds' releases all but tell some record's membership, shape ``(m,)``.

    Success on average hardly moves where one world of many gives itself away; whoever is in it is found all the same.
    By Bayes' rule at each world's un-noised output: some record's odds there are `TELLING` times the blind ones, or
    one in that.  Where that would take more than ``work``, only the worlds farthest from the centre are asked.
    """
    worlds = len(whitened)
    p = np.full(worlds, 1 / worlds) if probabilities is None else probabilities
    inside = members.astype(np.float64)
    share = p @ inside
    undecided = (share > 0) & (share < 1)
    if not undecided.all():
        inside, share = inside[:, undecided], share[undecided]
    found = np.zeros(worlds, dtype=bool)
    cost = worlds * (whitened.shape[1] + inside.shape[1])
    asked = np.argsort(-((whitened - p @ whitened) ** 2).sum(axis=1), kind="stable")[: max(1, work // max(1, cost))]
    asked = asked[p[asked] > 0]
    chunk = max(1, CELLS // max(worlds, inside.shape[1], 1))
    blind = share / (1 - share)
    for start in range(0, len(asked), chunk):
        rows = asked[start : start + chunk]
        weights = posterior_weights(whitened, whitened[rows], p)
        held = weights @ inside
        other = np.maximum(weights.sum(axis=1, keepdims=True) - held, 0)
        found[rows] = ((held > TELLING * blind * other) | (other * blind > TELLING * held)).any(axis=1)
    return found


def posterior_weights(whitened: Floats, released: Floats, probabilities: Floats) -> Floats:
    """Return the chance of every world given each released vector, shape ``(releases, worlds)``."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) - 0.5 * (whitened**2).sum(axis=1) + released @ whitened.T
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    return np.asarray(logs)


def _negative_entropy(p: Floats) -> Floats:
    from scipy.special import xlogy

    return np.asarray(xlogy(p, p) + xlogy(1 - p, 1 - p))


def rows_of(records: Sequence[int] | str, count: int) -> Indices:
    """Return the row numbers that are asked for, or say what they may be."""
    found = np.asarray(records)
    numbers = found.ndim == 1 and found.size > 0 and found.dtype.kind in "iu"
    if not numbers or found.min() < 0 or found.max() >= count:
        raise ValueError(f"records must be 'all' or row numbers from 0 to {count - 1}, got {records!r}")
    return found.astype(np.intp)
