"""Attacks, to validate promises and to keep documentation honest.  That an attack fails is never evidence of privacy.

The strongest attack on one record of a finite list of worlds is Bayes' rule: see `PACPrivatizer.audit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from epsworth.arrays import Bools, Floats, generator
from epsworth.bounds import Interval, Risk
from epsworth.pac.budgets import Budget
from epsworth.pac.mechanism import as_numbers
from epsworth.pac.modes import checked_count
from epsworth.pac.privatizer import PACPrivatizer
from epsworth.records import Indices
from epsworth.results import Result, json_form
from epsworth.rounding import float_below, percent_down, show_up

FALSE_POSITIVES = (0.001, 0.01)
CONFIDENCE = 0.99  # of the limits of `pool_test`


@dataclass(frozen=True, eq=False)
class Attack(Result):
    """What an attack achieved on trials that it had not seen when it chose its thresholds.

    Attributes
    ----------
    success : ndarray, shape ``(n,)``
        Share of right guesses per record.
    interval : Interval
        Exact limits for each record's success, all of them together.
    prior : ndarray, shape ``(n,)``
        Share of right guesses of the better blind guess on the same trials.
    tpr : dict of float to (float, float, float)
        For each nominal false-positive rate, pooled over records: true-positive rate, its lower and upper limit.
    confidence : float
        With which all limits hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer, lira
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fitted = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64, worlds_seed=0).fit(X)
    >>> found = lira(fitted, X, trials=200, score=lambda released, rows: -np.linalg.norm(rows - released, axis=1))
    >>> found.success.shape, bool(abs(found.advantage) < 0.2)
    ((40,), True)
    """

    success: Floats
    interval: Interval
    prior: Floats
    tpr: dict[float, tuple[float, float, float]]
    confidence: float

    @property
    def advantage(self) -> float:
        """Average over records of success beyond blind guessing."""
        return float((self.success - self.prior).mean())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values; a rate that too few trials place is None."""
        lower, upper = (side.tolist() for side in self.interval)
        rates = {f"{fpr:g}": json_form(row) for fpr, row in self.tpr.items()}
        return {
            "success": self.success.tolist(), "lower": lower, "upper": upper, "prior": self.prior.tolist(),
            "tpr": rates, "advantage": self.advantage, "confidence": self.confidence,
        }  # fmt: skip

    def __str__(self) -> str:
        return (
            f"this attack is right {show_up(100 * self.advantage, 3)} % more often than blind guesses, on average over "
            f"{len(self.success)} records; about one record {show_up(100 * float(self.interval.upper.max()), 4)} % at "
            f"most ({percent_down(self.confidence, 4)} % confidence).  No evidence of privacy"
        )


def confidence_scores(model: Any, X: Floats) -> Floats:
    """Return how sure a model is of each row: what grows when it was trained on the row.

    K-Means: 1 - d_min / sum d.  Classifiers with a decision function: the largest share among the classes' sigmoids.
    """
    if hasattr(model, "cluster_centers_"):
        distances = model.transform(X)
        return np.asarray(1 - distances.min(axis=1) / np.maximum(distances.sum(axis=1), 1e-300))
    if not hasattr(model, "decision_function"):
        raise TypeError(f"{type(model).__name__} has no distances to score; pass score=, a function of (model, X)")
    margins = model.decision_function(X)
    margins = np.column_stack([-margins, margins]) if margins.ndim == 1 else margins
    sure = expit(margins)
    return np.asarray(sure.max(axis=1) / sure.sum(axis=1))


def lira(
    privatizer: PACPrivatizer,
    X: ArrayLike,
    *,
    trials: int = 4400,
    score: Callable[[Any, Floats], Floats] = confidence_scores,
    confidence: float = 0.99,
    rng: np.random.Generator | int | None = 0,
) -> Attack:  # fmt: skip
    """Run the likelihood-ratio attack on simulated releases of a fitted privatizer (``mode="exact"``).

    Per record, "in" is guessed from a threshold on; thresholds are chosen on the first half of the trials and scored on
    the other half (choosing them on the scored trials shows 3 % of "advantage" where there is none).  The distribution
    of scores without the record is empirical: it is not Gaussian.

    Parameters
    ----------
    privatizer : PACPrivatizer
        Fitted.
    X : array_like
        The pool that the privatizer was fitted on.
    trials : int
        Simulated releases.  A quarter of them place a false-positive rate: 0.1 % needs 4000, fewer give NaN.
    score : callable
        From what was released and the pool to one number per record, larger where it looks used.
    rng : Generator, int or None
        Of the simulation.
    confidence : float
        With which all limits hold together: half of the risk is the records', half that of the pooled rates.

    Returns
    -------
    Attack

    Raises
    ------
    ValueError
        For another table than the pool, and fewer than two trials.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer, lira
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> fitted = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64, worlds_seed=0).fit(X)
    >>> nearness = lambda released, rows: -np.linalg.norm(rows - released, axis=1)
    >>> found = lira(fitted, X, trials=200, score=nearness)
    >>> bool((found.interval.lower <= found.success).all()), sorted(found.tpr)
    (True, [0.001, 0.01])

    References
    ----------
    Carlini et al. 2022, as adapted by Sridhar, Xiao & Devadas 2024, section 8.1.
    """
    draws, rows = generator(rng), as_numbers(X, "X")
    checked_count("trials", trials, 2)
    members = privatizer.members()
    if rows.ndim != 2 or rows.shape != (members.shape[1], privatizer.n_features_in_):
        raise ValueError(
            f"X must be the pool of {members.shape[1]} rows and {privatizer.n_features_in_} columns that the "
            f"privatizer was fitted on, got shape {rows.shape}"
        )
    worlds, vectors = privatizer.simulated_releases(trials, draws)
    scores = np.stack([score(privatizer.mechanism_.rebuild(vector), rows) for vector in vectors])
    return threshold_attack(scores, members[worlds], Risk.of(confidence))


def threshold_attack(scores: Floats, members: Bools, risk: Risk) -> Attack:
    """Attack each record by a threshold on its score.

    Parameters
    ----------
    scores : ndarray, shape ``(trials, n)``
        Score of every record in every simulated release.
    members : ndarray of bool, shape ``(trials, n)``
        The truth.
    """
    half = len(scores) // 2
    hits, inside = held_out_hits(scores, members), members[half:].mean(axis=0)
    count, (of_records, pooled) = len(scores) - half, risk.split(2)
    rates = zip(FALSE_POSITIVES, pooled.split(len(FALSE_POSITIVES)), strict=True)
    return Attack(
        hits / count,
        of_records.split(len(hits)).interval(hits, count),
        np.maximum(inside, 1 - inside),
        {fpr: _rates(scores, members, half, fpr, of_rate) for fpr, of_rate in rates},
        float_below(1 - risk.total),
    )


def held_out_hits(scores: Floats, members: Bools) -> Indices:
    """Return how many of the second half of the trials are guessed right, by the first half's best thresholds."""
    half = len(scores) // 2
    threshold = best_thresholds(scores[:half], members[:half])
    return np.asarray(((scores[half:] >= threshold) == members[half:]).sum(axis=0))


def best_thresholds(scores: Floats, members: Bools) -> Floats:
    """Return per record the threshold t that makes "score >= t" agree with membership most often."""
    order = np.argsort(scores, axis=0)
    sorted_scores = np.take_along_axis(scores, order, axis=0)
    inside = np.take_along_axis(members, order, axis=0)
    # right guesses when the threshold stands just at position i: those out below it and those in from it on
    out_below = np.vstack([np.zeros(scores.shape[1]), np.cumsum(~inside, axis=0)])
    in_above = inside.sum(axis=0) - np.vstack([np.zeros(scores.shape[1]), np.cumsum(inside, axis=0)])
    right = out_below + in_above
    tied = np.vstack([np.zeros((1, scores.shape[1]), bool), np.diff(sorted_scores, axis=0) == 0])
    right[:-1][tied] = -1
    candidates = np.vstack([sorted_scores, np.full(scores.shape[1], np.inf)])
    return np.asarray(np.take_along_axis(candidates, right.argmax(axis=0)[np.newaxis], axis=0)[0])


def _rates(scores: Floats, members: Bools, half: int, fpr: float, risk: Risk) -> tuple[float, float, float]:
    """Return the pooled true-positive rate of thresholds set at each record's own "out" quantile."""
    out = np.where(members[:half], np.nan, scores[:half])
    usable = (~members[:half]).sum(axis=0) * fpr >= 1  # a quantile beyond the sample is no quantile
    if not usable.any():
        return float("nan"), 0.0, 1.0
    threshold = np.nanquantile(out[:, usable], 1 - fpr, axis=0, method="higher")
    caught = (scores[half:, usable] > threshold) & members[half:, usable]
    total = int(members[half:, usable].sum())
    limits = risk.interval(int(caught.sum()), total)
    return float(caught.sum() / total), float(limits.lower), float(limits.upper)


def pool_test(
    algorithm: Any,
    X: ArrayLike,
    extra: ArrayLike,
    budget: Budget,
    *,
    worlds: int = 256,
    releases: int = 400,
    rng: np.random.Generator | int | None = 0,
) -> tuple[float, float, float]:  # fmt: skip
    """Return how often releases tell the pool from the pool with extra rows, with exact 99 % limits.

    This is what PAC privacy does *not* protect: the noise itself is a function of the pool.  "Is the output far from
    the plain pool's?" is decided by a threshold chosen on half of the releases and scored on the rest.

    Parameters
    ----------
    algorithm : estimator, callable or "mean"
        As for `PACPrivatizer`.
    X, extra : array_like
        The pool, and the rows that may be in it besides.
    budget : MI, Posterior or DPEquivalent
        Of each release.
    worlds, releases : int
        Sub-samples per pool; releases that are told apart.
    rng : Generator, int or None
        Of the simulation.

    Raises
    ------
    ValueError
        For fewer than two releases.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, pool_test
    >>> pool = np.random.default_rng(0).uniform(size=(200, 1))
    >>> rate, low, high = pool_test(lambda rows: rows.sum(axis=0), pool, [[100.0]], MI(1 / 128))
    >>> low > 0.85  # although no membership *within* the pool is guessed right more often than 0.563
    True
    """
    draws, rows = generator(rng), as_numbers(X, "X")
    checked_count("releases", releases, 2)
    # a public list: nothing is released, and the answer is repeatable
    plain = PACPrivatizer(algorithm, budget, worlds=worlds, worlds_seed=0).fit(rows)
    other = PACPrivatizer(algorithm, budget, worlds=worlds, worlds_seed=0).fit(
        np.vstack([rows, as_numbers(extra, "extra")])
    )
    vectors = np.stack([fitted.simulated_releases(releases, draws)[1] for fitted in (plain, other)], axis=1)
    scores = np.linalg.norm(vectors - plain.plan_.frame.centre, axis=2).reshape(-1, 1)
    truth = np.tile([[False], [True]], (releases, 1))
    hits, count = int(held_out_hits(scores, truth)[0]), len(scores) - len(scores) // 2
    lower, upper = Risk.of(CONFIDENCE).interval(hits, count)
    return hits / count, float(lower), float(upper)
