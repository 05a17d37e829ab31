"""Scales of Gaussian noise on a value in [0, 1], under five calibrations (sensitivity 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.extras import later
from epsworth.numerals import positive
from epsworth.rounding import down, up
from epsworth.search import step_until

erf, erfcx, log_ndtr, ndtr, ndtri, ndtri_exp = (
    later("scipy.special", name) for name in ("erf", "erfcx", "log_ndtr", "ndtr", "ndtri", "ndtri_exp")
)
Calibration = Literal["analytic", "exact_tail", "theorem4", "pure", "clipped"]
BY_SIGMA = get_args(Calibration)[:-1]  # what `gaussian_sigma` knows; ``clipped`` is `clipped_sigma`
LEAST_DELTA = 1e-300
NEWTON_STEPS = 30  # about 6 are used
# Relative errors of scipy's normal tails, in units of 2^-53: 5.7e-14 of erfc, hence of ndtr (Cephes's own table), 1e-13
# of erfcx, hence of exp(log_ndtr) (Johnson's Faddeeva package).
# An allowance for what others state: no input is known that needs it besides the units of `_ulps`.
LIBRARY = 1024


def hockey_stick(sigma: ArrayLike, epsilon: ArrayLike, sensitivity: float = 1.0) -> Floats:
    """Return the smallest delta for which Gaussian noise is (epsilon, delta)-DP.

    References
    ----------
    Balle & Wang 2018, Theorem 8: Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D).
    """
    ratio, epsilon = as_floats(sigma) / sensitivity, as_floats(epsilon)
    half, shift = 0.5 / ratio, epsilon * ratio
    return as_floats(np.maximum(ndtr(half - shift) - np.exp(epsilon + log_ndtr(-half - shift)), 0.0))


def _ulps(terms: Floats) -> Floats:
    """Count the units by which a normal tail may err at a sum or difference of two rounded terms t1 + t2 = ``terms``.

    With u = 2^-53: the argument z errs by 2u t, its tail relatively by |z| + 1 times that (Mills's ratio); inside the
    library z / sqrt(2) is rounded and squared, 3u z^2; the exponent epsilon + ln Phi, at most t^2 + t + 1 in size as
    epsilon <= t^2/2, errs by twice that; |z| <= t.  All in all 7 t^2 + 4 t + 4 units, and four for what follows.
    """
    return np.asarray(LIBRARY + 8 * (1 + terms) ** 2)


def _exceeds_above(sigma: Floats, epsilon: Floats) -> Floats:
    """Return no less than the probability that the loss of Gaussian noise exceeds epsilon."""
    half, shift = 0.5 / sigma, epsilon * sigma
    return up(ndtr(half - shift), ulps=_ulps(half + shift))


def _delta_above(sigma: Floats, epsilon: Floats) -> Floats:
    """Return no less than the delta of Gaussian noise: of two bounds, the less.

    Between a = eps s - 1/2s and b = eps s + 1/2s, delta / phi(a) is R(a) - R(b) for Mills's ratio R, the integral of
    1 - x R(x); that is convex (R is completely monotone), so no more than its trapezoid, which does not cancel.
    """
    half, shift = 0.5 / sigma, epsilon * sigma
    terms = half + shift
    units = _ulps(terms)
    apart = up(_exceeds_above(sigma, epsilon) - down(np.exp(epsilon + log_ndtr(-half - shift)), ulps=units))
    falling = np.zeros_like(terms)
    with np.errstate(over="ignore", invalid="ignore"):  # where noise is so small that nothing cancels
        for end in (shift - half, terms):
            x = end - 2.0**-51 * terms  # four units of the terms: two in them, one or two of differences
            falling += up(1 - down(np.sqrt(np.pi / 2) * x * erfcx(np.sqrt(0.5) * x), ulps=units))
        centred = np.exp(-0.5 * (shift - half) ** 2) / np.sqrt(2 * np.pi)
        return np.fmin(apart, up(centred * half * falling, ulps=units))


def loss_above(sigma: Floats) -> Floats:
    """Return no less than -ln(2 Phi(-1/sigma)), the loss of noise that is clipped to the width of its range."""
    end = as_floats(1 / sigma)
    with np.errstate(divide="ignore"):  # where the other branch is taken
        # erf errs by 3.7e-16 (Cephes), its argument by 3u: 7u, twice that behind log1p below one half
        near = up(as_floats(-np.log1p(-erf(np.sqrt(0.5) * end))), ulps=16)
    far = up(as_floats(-np.log(2) - log_ndtr(-end)), ulps=_ulps(end))
    return np.where(end < 0.67, near, far)


def gaussian_sigma(
    epsilon: ArrayLike, delta: ArrayLike, calibration: Calibration = "analytic", sensitivity: float = 1.0
) -> Floats:
    """Return the noise scale for a promise of (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : array_like
        The promise; ``delta`` in (0, 1).
    calibration : {"analytic", "exact_tail", "theorem4", "pure"}
        ``analytic``: the least noise for (epsilon, delta)-DP (Balle & Wang 2018).
        ``exact_tail``: the least noise whose loss exceeds epsilon with probability delta (Def. 10);
        solves eps s - 1/(2s) = Phi^-1(1 - delta).
        ``theorem4``: the closed form of Zheng & Hu 2025, Theorem 4; several times too much noise.
        ``pure``: the least noise that is epsilon-DP once it is clipped to a range of width ``sensitivity``, whose
        ends then are atoms: -1 / Phi^-1(e^-eps / 2).  ``delta`` is not used.  See `clipped_sigma`.
    sensitivity : float
        L2 sensitivity; sqrt(s) for s features at once.

    Raises
    ------
    ValueError
        For an epsilon that is not positive, a delta outside (0, 1), and an unknown calibration.

    Examples
    --------
    >>> from epsworth import gaussian_sigma
    >>> [round(float(gaussian_sigma(2.0, 0.1, c)), 3) for c in ("theorem4", "exact_tail", "analytic")]
    [1.402, 0.914, 0.732]
    """
    epsilon, delta = np.broadcast_arrays(as_floats(epsilon), as_floats(delta))
    check_calibration(epsilon, delta, calibration, BY_SIGMA)
    sensitivity = positive("sensitivity", sensitivity)
    sigma = _sigma(epsilon, delta, calibration)
    return sigma if sensitivity == 1 else up(sensitivity * sigma)


def _sigma(epsilon: Floats, delta: Floats, calibration: Calibration) -> Floats:
    if calibration == "pure":
        return _pure_sigma(epsilon)
    spread = np.sqrt(np.log(2 / delta))
    closed = as_floats((np.sqrt(spread**2 + epsilon) + spread) / (np.sqrt(2) * epsilon))  # keeps delta / 4: no rounding
    if calibration == "theorem4":
        return closed
    z = -ndtri(delta)
    root = np.sqrt(z * z + 2 * epsilon)
    # (z + root) / (2 eps); for z < 0 the equal form 1 / (root - z) does not cancel
    tail = as_floats(np.where(z > 0, (z + root) / (2 * epsilon), 1 / (root - np.minimum(z, 0))))
    tail = step_until(lambda s: np.asarray(_exceeds_above(s, epsilon) <= delta), tail, fallback=closed)
    if calibration == "exact_tail":
        return tail
    sigma = _least_sigma(epsilon, delta, tail)
    return step_until(lambda s: np.asarray(_delta_above(s, epsilon) <= delta), sigma, fallback=tail)


def clipped_sigma(epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """Return the least noise that is (epsilon, delta)-DP once it is clipped to a range of width one.

    The likelihood ratio of the two ends of the range falls along the outputs, so delta is the largest of
    Pr[Y_0 <= c] - e^eps Pr[Y_1 <= c] over 0 <= c < 1.  Without clipping c = 1/2 - eps sigma^2 is best.  Where that is
    negative the lower end itself is, with delta = 1/2 - e^eps Phi(-1/sigma): clipping has taken the far outputs away.

    Examples
    --------
    >>> float(clipped_sigma(1.0, 1e-5).round(3)), float(gaussian_sigma(1.0, 1e-5).round(3))
    (1.111, 3.731)
    """
    epsilon, delta = np.broadcast_arrays(as_floats(epsilon), as_floats(delta))
    analytic = as_floats(gaussian_sigma(epsilon, delta))
    log_rest = np.log1p(-2 * np.minimum(delta, 0.4999))  # ln(1 - 2 delta); beyond, the far end is out of reach
    root = as_floats(-1 / ndtri_exp(log_rest - np.log(2) - epsilon))
    at_the_end = (delta < 0.4999) & (down(epsilon * root * root, ulps=2) >= 0.5) & (root < analytic)
    return step_until(
        lambda s: np.asarray(~at_the_end | (up(loss_above(s) + up(log_rest, ulps=2)) <= epsilon)),
        np.where(at_the_end, root, analytic),
        fallback=analytic,
    )


def _pure_sigma(epsilon: Floats) -> Floats:
    """Return the least sigma with -ln(2 Phi(-1/sigma)) <= epsilon, moved to the safe side."""
    root = as_floats(-1 / ndtri_exp(-epsilon - np.log(2)))
    return step_until(lambda s: np.asarray(loss_above(s) <= epsilon), root, fallback=as_floats(2 * root))


def check_calibration(epsilon: Floats, delta: Floats, calibration: str, known: Sequence[str]) -> None:
    """Refuse what no calibration can keep."""
    if calibration not in known:
        raise ValueError(f"calibration must be one of {', '.join(map(repr, known))}, got {calibration!r}")
    for bad in delta[~((delta > 0) & (delta < 1))].flat:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {bad:g}")
    for bad in delta[delta < LEAST_DELTA].flat:
        raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {bad:g}; doubles hold no smaller tails")
    for bad in epsilon[~((epsilon > 0) & np.isfinite(epsilon))].flat:
        raise ValueError(f"epsilon must be positive and finite, got {bad:g}")


def _least_sigma(epsilon: Floats, delta: Floats, tail: Floats) -> Floats:
    """Solve _delta_above(sigma) = delta by Newton steps on log delta against log sigma.

    The tail calibration is sufficient, hence above the root; the curve is concave, so the steps come
    down to the root monotonically.  d delta / d sigma = -phi(1/2s - eps s) / s^2, since
    phi(1/2s - eps s) = e^eps phi(-1/2s - eps s).
    """
    sigma = tail.copy()
    for _ in range(NEWTON_STEPS):
        value = np.maximum(_delta_above(sigma, epsilon), np.finfo(float).tiny)
        centred = 0.5 / sigma - epsilon * sigma
        slope = np.exp(-0.5 * centred**2) / np.sqrt(2 * np.pi) / (sigma * value)
        step = np.log(value / delta) / np.maximum(slope, np.finfo(float).tiny)
        sigma = sigma * np.exp(np.clip(step, -1.0, 0.1))
        if (np.abs(step) < 1e-9).all():  # the next one is its square
            break
    return sigma
