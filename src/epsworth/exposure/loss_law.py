"""The law of the privacy loss under spherical Laplace noise, as functions of the distance u and the dimension d.

Let b have density proportional to ``exp(-|b|)`` in d dimensions and let the neighbour's centre be at distance u.  The
privacy loss is ``l = |b - u e| - |b|``.  In spheroidal coordinates around the two centres (focal sum ``u xi``, focal
difference ``l = u cos t``) the volume element is ``(xi^2 - cos^2 t) (xi^2 - 1)^((d-3)/2) sin^(d-2) t`` and the density
of b is ``exp(-u (xi - cos t) / 2)``, so that xi integrates out to Bessel functions and, for d >= 2,

    density of t on [0, pi]  is proportional to  sin^(d-2) t (1 + rho sin^2 t) exp(z cos t),
    z = u/2,   rho = z K_nu(z) / ((d-1) K_{nu+1}(z)),   nu = d/2 - 1.

Everything below is one smooth integral over t with positive terms: no sampling, no cancellation.  For d = 1 the loss is
``u - 2b`` clipped to [-u, u] and everything is elementary.  Thresholds on the loss are angles, and differences of
losses are products of sines of half angles, so that nothing is lost where the loss is a small part of u, or all but u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, kve

from epsworth.arrays import Floats, as_floats, slices

NODES = 96
FALL = 50.0  # integrands are cut where they have fallen by exp(-50) from their largest value
LEAD = 400  # orders that the recurrence takes to forget an approximate start
CELLS = 10_000  # values of u handled at once, times NODES


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return as_floats((nodes + 1) / 2), as_floats(weights / 2)


def bessel_ratio(d: int, z: Floats) -> Floats:
    """Return ``K_nu(z) / K_{nu+1}(z)``, nu = d/2 - 1, z > 0, by the upward recurrence, which forgets its start.

    A half-integer order starts at ``K_{-1/2} = K_{1/2}``; a whole one at K_0 / K_1; a high one `LEAD` orders below.
    """
    if d > 2 * LEAD:
        order = d / 2 - 1 - LEAD
        ratio = _smooth_ratio(order, z)
    else:
        order = 0.0 if d % 2 == 0 else -0.5
        ratio = _first_ratio(z) if d % 2 == 0 else np.ones_like(z)
    with np.errstate(over="ignore", divide="ignore"):  # a ratio below the smallest number is 0
        while order < d / 2 - 1:
            order += 1
            ratio = 1 / (ratio + 2 * order / z)
    return as_floats(ratio)


def _first_ratio(z: Floats) -> Floats:
    """Return K_0 / K_1; outside the range of the library's functions by their series, good to 1e-15."""
    inside = np.clip(z, 1e-8, 1e6)
    ratio = kve(0, inside) / kve(1, inside)
    small = z * -(np.log(z / 2) + np.euler_gamma)
    x = 1 / np.maximum(z, 1.0)
    return as_floats(np.where(z < 1e-8, small, np.where(z > 1e6, 1 - x / 2 + 3 * x * x / 8, ratio)))


def _smooth_ratio(order: float, z: Floats) -> Floats:
    """Return the ratio r at a high order: ``r^2 + (m/z) r - 1 = r'``, m = 2 order + 1, with r' of the first solution.

    Off by a relative ``O(1/(m^2 + 4 z^2))``, of which the recurrence's ``r^2`` per order leaves next to nothing.
    """
    m = 2 * order + 1
    root = np.hypot(m, 2 * z)
    slope = 2 * m / root / (root + m)
    return as_floats(2 * z * (1 + slope) / (m + np.hypot(m, 2 * z * np.sqrt(1 + slope))))


def angle(u: Floats, t: Floats) -> Floats:
    """Return the angle whose loss ``u cos`` is t, for ``0 <= t <= u``: exact to rounding near both ends."""
    return as_floats(np.arctan2(np.sqrt(u - t) * np.sqrt(u / 2 + t / 2) * math.sqrt(2), t))


def _upper_span(d: int, z: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return the part of [0, top], top <= pi/2, where ``sin^(d-2) t exp(z cos t)`` matters; it is log-concave there."""
    nu = d / 2 - 1
    beside = nu + np.hypot(nu, z)
    peak = np.arctan2(np.sqrt(2 * nu) * np.sqrt(beside), z)  # 2 nu cos t = z sin^2 t
    end = np.minimum(top, peak)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bend = z * np.cos(end) + (2 * nu / np.sin(end) ** 2 if nu else 0.0)  # grows towards 0
        slope = (2 * nu / np.tan(end) if nu else 0.0) - z * np.sin(end)
        reach = np.where(slope > 0, np.minimum(np.sqrt(2 * FALL / bend), FALL / slope), np.sqrt(2 * FALL / bend))
        beyond = peak + np.sqrt(2 * FALL / np.maximum(2 * nu, 0.36 * z))  # cos t >= 0.36 up to t = 1.2
    high = np.where((top > peak) & (beyond <= 1.2), np.minimum(beyond, top), top)
    return as_floats(np.maximum(end - np.nan_to_num(reach), 0.0)), as_floats(high)


def _lower_span(d: int, z: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return the same for the mirrored density ``sin^(d-2) t exp(-z cos t)``, which rises up to ``top``."""
    low = np.arccos(np.minimum(np.cos(top) + FALL / z, 1.0))
    if d > 2:
        low = np.maximum(low, np.arcsin(np.sin(top) * np.exp(-FALL / (d - 2))))
    return as_floats(np.minimum(low, top)), top


Span = Callable[[int, Floats, Floats], tuple[Floats, Floats]]
Term = Callable[[Floats, Floats, Floats], Floats]


def _panel(d: int, z: Floats, rho: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Return angles, log of the density times exp(-z), and weights of the quadrature, each ``(len(z), NODES)``."""
    nodes, weights = _rule()
    t = low[:, None] + (high - low)[:, None] * nodes
    sine = np.sin(t)
    log_density = np.log1p(rho[:, None] * sine**2) - 2 * z[:, None] * np.sin(t / 2) ** 2
    if d > 2:
        cosine = np.cos(t)  # near pi/2 the logarithm of the sine is that of 1 - cos^2, without the rounding of 1
        log_density += (d - 2) * np.where(cosine < 0.5, 0.5 * np.log1p(-(np.minimum(cosine, 0.5) ** 2)), np.log(sine))
    return t, log_density, (high - low)[:, None] * weights


def expectations(d: int, u: Floats, top: Floats, terms: Sequence[Term], span: Span = _upper_span) -> list[Floats]:
    """Return the expectations of ``term(angle, l, mirror)`` with ``l = u cos angle`` in [0, top], top <= pi/2.

    ``mirror`` is the density at the mirrored angle over that at t, ``exp(-l)``: a term with the factor ``1 + mirror``
    counts both halves.
    """
    with np.errstate(over="ignore", under="ignore"):  # what underflows has no weight
        return _expectations(d, u, top, terms, span)


def _expectations(d: int, u: Floats, top: Floats, terms: Sequence[Term], span: Span) -> list[Floats]:
    found: list[list[Floats]] = [[] for _ in terms]
    for part in slices(len(u), CELLS):
        z = u[part] / 2
        rho = z / (d - 1) * bessel_ratio(d, z)
        t, log_density, weights = _panel(d, z, rho, *_upper_span(d, z, np.full_like(z, np.pi / 2)))
        scale = log_density.max(axis=1, keepdims=True)
        whole = np.exp(log_density - scale) * (1 + np.exp(-u[part, None] * np.cos(t))) * weights
        mass = whole.sum(axis=1)
        t, log_density, weights = _panel(d, z, rho, *span(d, z, top[part]))
        density = np.exp(log_density - scale) * weights / mass[:, None]
        loss = u[part, None] * np.cos(t)
        for column, term in zip(found, terms, strict=True):
            column.append(as_floats((density * term(t, loss, np.exp(-loss))).sum(axis=1)))
    return [as_floats(np.concatenate(column)) if column else np.zeros(0) for column in found]


def divergences(d: int, u: Floats) -> list[Floats]:
    """Return ``E l``, ``E |l|`` and the total variation at each u > 0."""
    if d == 1:
        v = np.minimum(u, 1e-2)  # where the series is used, the other way would cancel
        signed = np.where(u < 1e-2, v * v / 2 * (1 - v / 3 * (1 - v / 4 * (1 - v / 5))), u + np.expm1(-u))
        return [as_floats(signed), as_floats(u - np.expm1(-u / 2) ** 2), as_floats(-np.expm1(-u / 2))]
    terms: list[Term] = [
        lambda t, loss, mirror: -loss * np.expm1(-loss),
        lambda t, loss, mirror: loss * (1 + mirror),
        lambda t, loss, mirror: as_floats(-np.expm1(-loss)),
    ]
    return expectations(d, u, np.full_like(u, np.pi / 2), terms)


def slope_at_zero(d: int) -> float:
    """Return ``E |l| / u`` as u goes to 0: the mean size of a coordinate of a uniform direction."""
    x = d / 2
    if d < 1000:
        return math.exp(gammaln(x) - gammaln(x + 0.5)) / math.sqrt(math.pi)
    # the logarithms cancel: Gamma(x + 1/2) / Gamma(x) by its asymptotic series, good to 1e-15 here
    series = 1 - 1 / (8 * x) + 1 / (128 * x**2) + 5 / (1024 * x**3) - 21 / (32768 * x**4)
    return 1 / (math.sqrt(math.pi * x) * series)


def upper_tail(d: int, u: Floats, t: Floats) -> Floats:
    """Return ``Pr[l >= t]`` for ``0 <= t < u``."""
    if d == 1:
        return as_floats(1 - 0.5 * np.exp((t - u) / 2))
    return expectations(d, u, angle(u, t), [lambda t, loss, mirror: np.ones_like(loss)])[0]


def lower_tail(d: int, u: Floats, t: Floats) -> Floats:
    """Return ``Pr[l <= -t]`` for ``0 <= t < u``."""
    if d == 1:
        return as_floats(0.5 * np.exp(-(t / 2) - u / 2))
    return expectations(d, u, angle(u, t), [lambda t, loss, mirror: mirror], _lower_span)[0]


def hockey_stick(d: int, u: Floats, epsilon: Floats) -> Floats:
    """Return ``max_S Pr_x[S] - e^epsilon Pr_y[S]`` for ``0 <= epsilon < u``."""
    if d == 1:
        return as_floats(-np.expm1((epsilon - u) / 2))
    found = np.empty_like(u)
    for part in slices(len(u), CELLS):
        end, size = angle(u[part], epsilon[part]), u[part, None]

        def excess(t: Floats, loss: Floats, mirror: Floats, end: Floats = end[:, None], u: Floats = size) -> Floats:
            above = 2 * np.sin((end - t) / 2) * np.sin((end + t) / 2)  # cos t - cos end
            return as_floats(-np.expm1(-u * np.maximum(above, 0.0)))

        found[part] = expectations(d, u[part], end, [excess])[0]
    return found
