"""From mutual information to what an adversary can achieve, and back.  All logarithms are natural (nats).

One inequality carries everything (Xiao & Devadas 2023, Theorem 1): for any inference task whose best blind
success is p, the success q after seeing the release obeys KL(Bern(q) || Bern(p)) <= MI.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy.special import rel_entr


def posterior(mi: float, prior: float) -> float:
    """Return the best success that an adversary can reach after a release of this mutual information.

    Claim: no inference task with blind success ``prior`` succeeds more often than the returned q, the largest
    q >= prior with KL(Bern(q) || Bern(prior)) <= ``mi``; it is 1 from ``mi = -ln prior`` on.

    Parameters
    ----------
    mi : float
        Mutual information in nats, not negative.
    prior : float
        Best success without the release, in (0, 1].  For "is record i in the secret half": 1/2.

    Examples
    --------
    >>> round(posterior(1 / 16, 0.5), 4), posterior(1.0, 0.5)
    (0.6749, 1.0)

    References
    ----------
    Sridhar, Xiao & Devadas 2024, eq. (3) and Table 1, whose 6.200 % (1/16, 1 %) should read 6.199 %.
    """
    _check_mi(mi)
    _check_share("prior", prior)
    if prior == 1 or mi >= -math.log(prior):
        return 1.0
    return _first_above(lambda q: _divergence(q, prior) > mi, prior, 1.0)


def budget(posterior: float, prior: float) -> float:
    """Return the mutual information, in nats, at which the adversary's success can reach ``posterior``.

    The exact inverse of `posterior`: KL(Bern(posterior) || Bern(prior)), rounded down by no more than an ulp or two.

    Examples
    --------
    >>> round(budget(0.75, 0.5), 6)
    0.130812
    """
    _check_share("prior", prior)
    if not prior <= posterior <= 1:
        raise ValueError(
            f"posterior must lie between the prior {prior:g} and 1, got {posterior!r}; nobody does worse than blind"
        )
    return _divergence(posterior, prior)


def dp_posterior(eps: float, delta: float = 0.0, r: float = 0.5) -> float:
    """Return the best membership-inference success against an (eps, delta)-DP release, prior ``max(r, 1 - r)``.

    Say "the same average success" when comparing it with a mutual-information budget, never "the same privacy".

    Examples
    --------
    >>> round(dp_posterior(0.36), 6)
    0.58904

    References
    ----------
    Kairouz, Oh & Viswanath 2015; at r = 1/2 it is eq. (2) of Sridhar, Xiao & Devadas 2024.
    """
    if not (eps >= 0 and math.isfinite(eps)):
        raise ValueError(f"eps must be finite and not negative, got {eps!r}")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    _check_rate(r)
    likely = 1 / (1 + math.exp(-eps))
    return max(likely + delta * (1 - likely), 1 - r + r * delta, r + (1 - r) * delta)


def dp_epsilon(posterior: float, delta: float = 0.0) -> float:
    """Return the epsilon whose (epsilon, delta)-DP release allows this average success at prior 1/2.

    Examples
    --------
    >>> round(dp_epsilon(0.588157), 3)
    0.356
    """
    if not 0.5 <= posterior < 1:
        raise ValueError(f"posterior must lie in [0.5, 1), got {posterior!r}")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    odds = (1 - delta) / (1 - posterior) - 1
    return max(0.0, math.log(odds)) if odds > 0 else 0.0


def tpr_bound(mi: float, r: float = 0.5, fpr: float = 0.001) -> float:
    """Return the largest true-positive rate of a membership guess at this false-positive rate.

    A bound on the average success says little about guesses that are rare and sure: this one says it.

    Parameters
    ----------
    mi : float
        Mutual information in nats.
    r : float
        Share of the pool in the secret, in (0, 1).
    fpr : float
        False-positive rate, in [0, 1].

    Examples
    --------
    >>> round(tpr_bound(1 / 64, 0.5, 0.001), 4)
    0.0503

    Notes
    -----
    The guess is a function of the release, so I(membership; guess) <= ``mi`` by data processing; the
    information of a binary guess grows with its true-positive rate from ``fpr`` on.
    """
    _check_mi(mi)
    _check_rate(r)
    if not 0 <= fpr <= 1:
        raise ValueError(f"fpr must lie in [0, 1], got {fpr!r}")

    def information(tpr: float) -> float:
        says_in = r * tpr + (1 - r) * fpr
        return r * _divergence(tpr, says_in) + (1 - r) * _divergence(fpr, says_in)

    if information(1.0) <= mi:
        return 1.0
    return _first_above(lambda tpr: information(tpr) > mi, fpr, 1.0)


def generalised_prior(n: int, s: int, g: int, k: int) -> float:
    """Return the blind chance that a guess of ``g`` records holds at least ``k`` of the ``s`` secret ones.

    Claim: the secret is a uniform s-subset of n records, drawn without strata; the overlap is hypergeometric.
    It does not hold for a finite list of worlds, whose guess can be fitted to the list.

    Examples
    --------
    >>> prior = generalised_prior(100, 50, 50, 35)
    >>> round(100 * posterior(1.0, prior), 4)  # per cent; the paper prints 14.56
    14.5647

    References
    ----------
    Sridhar, Xiao & Devadas 2024, eq. (6), whose binomials must be squared.
    """
    for name, value in (("n", n), ("s", s), ("g", g), ("k", k)):
        if isinstance(value, bool) or int(value) != value or value < 0:
            raise ValueError(f"{name} must be a whole number, not negative, got {value!r}")
    if s > n or g > n:
        raise ValueError(f"s and g must not exceed n = {n}, got s = {s} and g = {g}")
    ways = sum(math.comb(s, j) * math.comb(n - s, g - j) for j in range(k, min(s, g) + 1))
    return float(Fraction(ways, math.comb(n, g)))


def _divergence(q: float, p: float) -> float:
    """Return KL(Bern(q) || Bern(p)) without cancellation near q = p."""
    return max(0.0, float(rel_entr(q, p) + rel_entr(1 - q, 1 - p)))


def _first_above(exceeds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest double seen to exceed: for upper limits, rounded up."""
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        low, high = (low, middle) if exceeds(middle) else (middle, high)


def _check_mi(mi: float) -> None:
    if not mi >= 0:
        raise ValueError(f"mi must be a number of nats, not negative, got {mi!r}")


def _check_share(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {value!r}")


def _check_rate(r: float) -> None:
    if not 0 < r < 1:
        raise ValueError(f"r must lie strictly between 0 and 1, got {r!r}")
