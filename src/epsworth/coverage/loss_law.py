"""The law of the privacy loss under spherical Laplace noise, as functions of the distance u and the dimension d.

Let b have density proportional to ``exp(-|b|)`` in d dimensions and let the neighbour's centre be at distance u.  The
privacy loss is ``l = |b - u e| - |b|``.  In spheroidal coordinates around the two centres (focal sum ``u xi``, focal
difference ``l = u cos t``) the volume element is ``(xi^2 - cos^2 t) (xi^2 - 1)^((d-3)/2) sin^(d-2) t`` and the density
of b is ``exp(-u (xi - cos t) / 2)``, so that xi integrates out to Bessel functions and, for d >= 2,

    density of t on [0, pi]  is proportional to  sin^(d-2) t (1 + rho sin^2 t) exp(z cos t),
    z = u/2,   rho = z K_nu(z) / ((d-1) K_{nu+1}(z)),   nu = d/2 - 1.

Everything below is one smooth integral over t with positive terms: no sampling, no cancellation.  For d = 1 the loss is
``u - 2b`` clipped to [-u, u] and everything is elementary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import kve

from epsworth.arrays import Floats, as_floats
from epsworth.coverage.fitting import blocks

NODES = 96
FALL = 50.0  # integrands are cut where they have fallen by exp(-50) from their largest value
CELLS = 10_000  # values of u handled at once, times NODES


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return as_floats((nodes + 1) / 2), as_floats(weights / 2)


def bessel_ratio(d: int, z: Floats) -> Floats:
    """Return ``K_nu(z) / K_{nu+1}(z)``, nu = d/2 - 1, by the upward recurrence: stable, never over- or underflows."""
    ratio = kve(0, z) / kve(1, z) if d % 2 == 0 else np.ones_like(z)
    order = 0.0 if d % 2 == 0 else -0.5
    while order < d / 2 - 1:
        order += 1
        ratio = 1 / (ratio + 2 * order / z)
    return as_floats(ratio)


def _upper_span(d: int, z: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return the part of [0, top], top <= pi/2, where ``sin^(d-2) t exp(z cos t)`` matters; it is log-concave there."""
    nu = d / 2 - 1
    peak = np.arccos(z / (nu + np.hypot(nu, z)))  # 2 nu cos t = z sin^2 t
    end = np.minimum(top, peak)
    with np.errstate(divide="ignore", invalid="ignore"):
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
Term = Callable[[Floats, Floats], Floats]


def _panel(d: int, z: Floats, rho: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Return loss, logarithm of the density times exp(-z), and weights of the quadrature, each ``(len(z), NODES)``."""
    nodes, weights = _rule()
    t = low[:, None] + (high - low)[:, None] * nodes
    sine = np.sin(t)
    log_density = np.log1p(rho[:, None] * sine**2) - 2 * z[:, None] * np.sin(t / 2) ** 2
    if d > 2:
        log_density += (d - 2) * np.log(sine)
    return 2 * z[:, None] * np.cos(t), log_density, (high - low)[:, None] * weights


def expectations(d: int, u: Floats, top: Floats, terms: Sequence[Term], span: Span = _upper_span) -> list[Floats]:
    """Return the expectations of ``term(l, extra)`` over losses ``l = u cos t`` with t in [0, top], top <= pi/2.

    ``extra`` broadcasts with ``l``: it is the density at the mirrored angle over that at t, ``exp(-l)``, so that a term
    with the factor ``1 + extra`` counts both halves.
    """
    found: list[list[Floats]] = [[] for _ in terms]
    for part in blocks(len(u), CELLS):
        z = u[part] / 2
        rho = z * bessel_ratio(d, z) / (d - 1)
        loss, log_density, weights = _panel(d, z, rho, *_upper_span(d, z, np.full_like(z, np.pi / 2)))
        scale = log_density.max(axis=1, keepdims=True)
        mass = (np.exp(log_density - scale) * (1 + np.exp(-loss)) * weights).sum(axis=1)
        loss, log_density, weights = _panel(d, z, rho, *span(d, z, top[part]))
        density = np.exp(log_density - scale) * weights / mass[:, None]
        for column, term in zip(found, terms, strict=True):
            column.append(as_floats((density * term(loss, np.exp(-loss))).sum(axis=1)))
    return [as_floats(np.concatenate(column)) if column else np.zeros(0) for column in found]


def divergences(d: int, u: Floats) -> list[Floats]:
    """Return ``E l``, ``E |l|`` and the total variation at each u > 0."""
    if d == 1:
        with_series = u * u / 2 - u**3 / 6 + u**4 / 24 - u**5 / 120
        signed = np.where(u < 1e-2, with_series, u + np.expm1(-u))
        return [as_floats(signed), as_floats(u - np.expm1(-u / 2) ** 2), as_floats(-np.expm1(-u / 2))]
    terms: list[Term] = [
        lambda loss, mirror: -loss * np.expm1(-loss),
        lambda loss, mirror: loss * (1 + mirror),
        lambda loss, mirror: as_floats(-np.expm1(-loss)),
    ]
    return expectations(d, u, np.full_like(u, np.pi / 2), terms)


def upper_tail(d: int, u: Floats, t: Floats) -> Floats:
    """Return ``Pr[l >= t]`` for ``0 <= t < u``."""
    if d == 1:
        return as_floats(1 - 0.5 * np.exp((t - u) / 2))
    return expectations(d, u, np.arccos(t / u), [lambda loss, mirror: np.ones_like(loss)])[0]


def lower_tail(d: int, u: Floats, t: Floats) -> Floats:
    """Return ``Pr[l <= -t]`` for ``0 <= t < u``."""
    if d == 1:
        return as_floats(0.5 * np.exp(-(t + u) / 2))
    return expectations(d, u, np.arccos(t / u), [lambda loss, mirror: mirror], _lower_span)[0]


def hockey_stick(d: int, u: Floats, epsilon: Floats) -> Floats:
    """Return ``max_S Pr_x[S] - e^epsilon Pr_y[S]`` for ``0 <= epsilon < u``."""
    if d == 1:
        return as_floats(-np.expm1((epsilon - u) / 2))
    found = np.empty_like(u)
    for part in blocks(len(u), CELLS):
        cut = epsilon[part, None]

        def excess(loss: Floats, mirror: Floats, cut: Floats = cut) -> Floats:
            return as_floats(-np.expm1(np.minimum(cut - loss, 0.0)))

        found[part] = expectations(d, u[part], np.arccos(epsilon[part] / u[part]), [excess])[0]
    return found
