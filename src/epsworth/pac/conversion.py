"""From mutual information to what an adversary can achieve, and back.  All logarithms are natural (nats).

One inequality carries everything (Xiao & Devadas 2023, Theorem 1): for any inference task whose best blind
success is p, the success q after seeing the release obeys KL(Bern(q) || Bern(p)) <= MI.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from numbers import Integral, Real

from epsworth.numerals import short
from epsworth.rounding import float_above

MOST_RECORDS = 100_000  # of `generalised_prior`, whose whole numbers have as many digits


def posterior(mi: float, prior: float) -> float:
    """Return the best success that an adversary can reach after a release of this mutual information.

    Claim: no inference task with blind success ``prior`` succeeds more often than the returned q, the largest
    q >= prior with KL(Bern(q) || Bern(prior)) <= ``mi``, rounded up by no more than two ulps; it is 1 from
    ``mi = -ln prior`` on.

    Parameters
    ----------
    mi : float
        Mutual information in nats, not negative.
    prior : float
        Best success without the release, in (0, 1].  For "is record i in the secret half": 1/2.

    Raises
    ------
    ValueError
        For a negative mutual information, and a prior outside (0, 1].

    Examples
    --------
    >>> from epsworth.pac import posterior
    >>> round(posterior(1 / 16, 0.5), 4), posterior(1.0, 0.5)
    (0.6749, 1.0)

    References
    ----------
    Sridhar, Xiao & Devadas 2024, eq. (3) and Table 1, whose 6.200 % (1/16, 1 %) should read 6.199 %.
    """
    nats, blind = _information(mi), _share("prior", prior)
    if nats == 0 or blind == 1:
        return blind
    if nats >= -math.log(blind):
        return 1.0
    return _first_above(lambda q: _divergence(q, blind) > nats, blind, 1.0)


def budget(posterior: float, prior: float) -> float:
    """Return the mutual information, in nats, at which the adversary's success can reach ``posterior``.

    The inverse of `posterior`: KL(Bern(posterior) || Bern(prior)), rounded down by no more than two ulps.

    Parameters
    ----------
    posterior, prior : float
        The success allowed, and that of the best blind guess.

    Raises
    ------
    ValueError
        For a posterior below the prior or above 1.

    Examples
    --------
    >>> from epsworth.pac import budget
    >>> round(budget(0.75, 0.5), 6)
    0.130812
    """
    blind, success = _share("prior", prior), number("posterior", posterior)
    if not blind <= success <= 1:
        raise ValueError(
            f"posterior must lie between the prior {blind:g} and 1, got {posterior!r}; nobody does worse than blind"
        )
    exact = _divergence(success, blind)
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def dp_posterior(epsilon: float, delta: float = 0.0, r: float = 0.5) -> float:
    """Return the best membership-inference success against an (epsilon, delta)-DP release, prior ``max(r, 1 - r)``.

    Say "the same average success" when comparing it with a mutual-information budget, never "the same privacy".

    Parameters
    ----------
    epsilon, delta : float
        The differentially private release.
    r : float
        Share of the pool that is used.

    Raises
    ------
    ValueError
        For an epsilon that is negative or infinite, and a delta or r out of its range.

    Examples
    --------
    >>> from epsworth.pac import dp_posterior
    >>> round(dp_posterior(0.36), 6)
    0.58904

    References
    ----------
    Kairouz, Oh & Viswanath 2015; at r = 1/2 it is eq. (2) of Sridhar, Xiao & Devadas 2024.
    """
    epsilon, delta, r = number("epsilon", epsilon), number("delta", delta), _rate(r)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be finite and not negative, got {epsilon!r}")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    likely = 1 / (1 + math.exp(-epsilon))
    return max(likely + delta * (1 - likely), 1 - r + r * delta, r + (1 - r) * delta)


def dp_epsilon(posterior: float, delta: float = 0.0) -> float:
    """Return the epsilon whose (epsilon, delta)-DP release allows this average success at prior 1/2.

    Parameters
    ----------
    posterior : float
        In [0.5, 1).
    delta : float
        In [0, 1].

    Raises
    ------
    ValueError
        For a posterior or delta out of its range.

    Examples
    --------
    >>> from epsworth.pac import dp_epsilon
    >>> round(dp_epsilon(0.588157), 3)
    0.356
    """
    posterior, delta = number("posterior", posterior), number("delta", delta)
    if not 0.5 <= posterior < 1:
        raise ValueError(f"posterior must lie in [0.5, 1), got {posterior!r}")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    odds = (1 - delta) / (1 - posterior) - 1
    return max(0.0, math.log(odds)) if odds > 0 else 0.0


def tpr_bound(mi: float, r: float = 0.5, fpr: float = 0.001) -> float:
    """Return the largest true-positive rate of a membership guess at this false-positive rate.

    A bound on the average success says little about guesses that are rare and sure: this one says it.  Rounded up by
    no more than two ulps.

    Parameters
    ----------
    mi : float
        Mutual information in nats.
    r : float
        Share of the pool in the secret, in (0, 1).
    fpr : float
        False-positive rate, in [0, 1].

    Raises
    ------
    ValueError
        For a share or rate out of its range.

    Examples
    --------
    >>> from epsworth.pac import tpr_bound
    >>> round(tpr_bound(1 / 64, 0.5, 0.001), 4)
    0.0503

    Notes
    -----
    The guess is a function of the release, so I(membership; guess) <= ``mi`` by data processing; the
    information of a binary guess grows with its true-positive rate from ``fpr`` on.
    """
    nats, rate, false = _information(mi), _rate(r), number("fpr", fpr)
    if not 0 <= false <= 1:
        raise ValueError(f"fpr must lie in [0, 1], got {fpr!r}")
    if nats == 0 or _guess_information(1.0, rate, false) <= nats:
        return false if nats == 0 else 1.0
    return _first_above(lambda tpr: _guess_information(tpr, rate, false) > nats, false, 1.0)


def generalised_prior(n: int, s: int, g: int, k: int) -> float:
    """Return the blind chance that a guess of ``g`` records holds at least ``k`` of the ``s`` secret ones, rounded up.

    Claim: the secret is a uniform s-subset of n records, drawn without strata; the overlap is hypergeometric.
    It does not hold for a finite list of worlds, whose guess can be fitted to the list.

    Parameters
    ----------
    n, s, g, k : int
        Records; how many are secretly used; how many are guessed; how many of these must be right.

    Raises
    ------
    ValueError
        For numbers that are negative, and subsets larger than the pool.

    Examples
    --------
    >>> from epsworth.pac import generalised_prior, posterior
    >>> prior = generalised_prior(100, 50, 50, 35)
    >>> round(100 * posterior(1.0, prior), 4)  # per cent; the paper prints 14.56
    14.5647

    References
    ----------
    Sridhar, Xiao & Devadas 2024, eq. (6), whose binomials must be squared.
    """
    for name, value in (("n", n), ("s", s), ("g", g), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name} must be a whole number, not negative, got {value!r}")
    if s > n or g > n:
        raise ValueError(f"s and g must not exceed n = {n}, got s = {s} and g = {g}")
    first, last = max(k, 0, g - (n - s)), min(s, g)
    if first > last:
        return 0.0
    if k <= max(0, g - (n - s)):
        return 1.0
    if n > MOST_RECORDS:
        raise ValueError(f"n must be at most {MOST_RECORDS}: the chance is added up exactly; got {n}")
    ways = term = math.comb(s, first) * math.comb(n - s, g - first)
    for j in range(first, last):  # each from the one before
        term = term * (s - j) * (g - j) // ((j + 1) * (n - s - g + j + 1))
        ways += term
    return float_above(Fraction(ways, math.comb(n, g)))


def _divergence(q: float, p: float) -> Decimal:
    """Return KL(Bern(q) || Bern(p)), p <= q, below the truth by a share of at most 2e-18."""
    with _exactly(_leading_zeros(q)):
        return _below(_relative_entropy(Decimal(q), Decimal(p)))


def _guess_information(tpr: float, rate: float, fpr: float) -> Decimal:
    """Return I(membership; guess), fpr <= tpr, below the truth by a share of at most 2e-18."""
    with _exactly(20 + _leading_zeros(tpr) + _leading_zeros(rate)):
        share, hit, false = Decimal(rate), Decimal(tpr), Decimal(fpr)
        says_in = share * hit + (1 - share) * false
        return _below(share * _relative_entropy(hit, says_in) + (1 - share) * _relative_entropy(false, says_in))


def _relative_entropy(q: Decimal, p: Decimal) -> Decimal:
    return sum((a * (a / b).ln() for a, b in ((q, p), (1 - q, 1 - p)) if a), Decimal(0))


def _exactly(more: int) -> AbstractContextManager[Context]:
    """Return an arithmetic of so many digits that nothing cancels.

    Two terms of either sign leave a difference of at least (q - p)**2 / (2 q), or r (1 - r) times that for a guess.
    Doubles that differ do so by 2**-53 q or more, and 1 - r is 0 or 2**-53 or more: 52 digits, and 16 for a rate, go
    by cancellation, besides the leading zeros of q and r.
    """
    return localcontext(Context(prec=75 + more, rounding=ROUND_HALF_EVEN))


def _below(value: Decimal) -> Decimal:
    return value * (1 - Decimal("1e-18"))  # covers the rounding of the digits carried


def _leading_zeros(value: float) -> int:
    return -Decimal(value).adjusted() if value else 0


def _first_above(exceeds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest double in (low, high] seen to exceed: for upper limits, rounded up."""
    first, last = _rank(low), _rank(high)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if exceeds(_ranked(middle)) else (middle, last)
    return _ranked(last)


def _rank(value: float) -> int:
    """Return how many doubles lie in [0, value): their bits, read as a whole number, count them."""
    return int(struct.unpack("<q", struct.pack("<d", abs(value)))[0])  # abs: -0.0


def _ranked(rank: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", rank))[0])


def _information(mi: float) -> float:
    nats = number("mi", mi)
    if not nats >= 0:
        raise ValueError(f"mi must be a number of nats, not negative, got {mi!r}")
    return nats


def _share(name: str, value: float) -> float:
    share = number(name, value)
    if not 0 < share <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {value!r}")
    return share


def _rate(r: float) -> float:
    rate = number("r", r)
    if not 0 < rate < 1:
        raise ValueError(f"r must lie strictly between 0 and 1, got {r!r}")
    return rate


def number(name: str, value: object) -> float:
    """Return a number as a float, or say what it must be."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, such as 1 / 16 without quotes, got {short(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float can hold, up to 1.8e308") from None
