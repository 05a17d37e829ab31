"""Laws on [0, 1] taken apart: atoms, and continuous parts with transforms in closed form.

What a part v -> E[exp(i v Y); Y from it] is bounded by comes from integrating by parts, once and twice: with the
density f, |.| <= mass, V / v and J / v + W / v^2 for V = f(0+) + f(1-) + TV f, J = f(0+) + f(1-) and
W = |f'(0+)| + |f'(1-)| + TV f', where f' counts what it jumps by at a kink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import singledispatch
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.mechanisms import laws
from epsworth.mechanisms.law import GridLaw, Law

Complex = NDArray[np.complex128]


class Part(ABC):
    """A continuous part of a law; its fields are arrays of shape ``(epsilons,)`` or ``(1,)``, masses its factors.

    Attributes
    ----------
    units : int
        What `transform` errs by, relative to its terms, in units of 2^-53, besides its phases: see `error`.
    """

    mass: Floats
    units: ClassVar[int]

    @abstractmethod
    def transform(self, v: Floats) -> Complex:
        """Return E[exp(i v Y)] over the part for positive v; shape ``(epsilons, n)`` or ``(1, n)``."""

    @abstractmethod
    def below(self, y: Floats) -> Floats:
        """Return the mass at or below y, shape ``(epsilons, n)`` or ``(1, n)``."""

    @abstractmethod
    def decay(self) -> tuple[Floats, Floats, Floats]:
        """Return V, J and W."""

    def bound(self, v: Floats) -> Floats:
        """Bound the transform's modulus by what falls as v grows, at least by half when v doubles beyond V / mass."""
        once, jumps, twice = (side[:, np.newaxis] for side in self.decay())
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # no second derivative: inf
            falling = np.fmin(once / v, jumps / v + twice / v / v)
        return np.asarray(np.minimum(self.mass[:, np.newaxis], falling))

    def size(self, v: Floats) -> Floats:
        """Bound the modulus without a second derivative."""
        return np.minimum(self.mass[:, np.newaxis], self.decay()[0][:, np.newaxis] / v)

    def error(self, v: Floats) -> Floats:
        """Return what the transform errs by, in units, but for 32 v times the size for its phases."""
        return np.asarray(self.units * self.size(v))


@dataclass(frozen=True, eq=False)
class Uniform(Part):
    """``mass`` spread evenly over [anchor + start, anchor + start + width], with an anchor that is a double."""

    mass: Floats
    anchor: Floats
    start: Floats
    width: Floats
    units: ClassVar[int] = 40

    def transform(self, v: Floats) -> Complex:
        """Return mass exp(i v centre) sin(z) / z with z = v width / 2."""
        half = 0.5 * self.width
        z = np.maximum(half[:, np.newaxis] * v, np.finfo(float).tiny)
        phase = (self.anchor + (self.start + half))[:, np.newaxis] * v
        return np.asarray(self.mass[:, np.newaxis] * (np.sin(z) / z) * np.exp(1j * phase))

    def below(self, y: Floats) -> Floats:
        """Return the share of the interval, times its mass."""
        share = (y - self.anchor[:, np.newaxis] - self.start[:, np.newaxis]) / self.width[:, np.newaxis]
        return np.asarray(self.mass[:, np.newaxis] * np.clip(share, 0, 1))

    def decay(self) -> tuple[Floats, Floats, Floats]:
        """Return twice the density, twice, and no bound by second derivatives."""
        with np.errstate(divide="ignore"):
            once = 2 * self.mass / self.width
        return once, once, np.full_like(once, np.inf)


@dataclass(frozen=True, eq=False)
class Exponential(Part):
    """Density factor rate/2 exp(-rate |y - x|) on [0, 1], which holds x."""

    x: Floats
    rate: Floats
    factor: Floats
    units: ClassVar[int] = 80

    @property
    def mass(self) -> Floats:  # type: ignore[override]
        """Mass between 0 and 1."""
        sides = np.expm1(-self.rate * self.x) + np.expm1(-self.rate * (1 - self.x))
        return np.asarray(-0.5 * self.factor * sides)

    def transform(self, v: Floats) -> Complex:
        """Return A exp(i v x) (g(1 - x) + conj g(x)) with g(w) = (1 - exp(-(rate - i v) w)) / (rate - i v)."""
        x, rate = self.x[:, np.newaxis], self.rate[:, np.newaxis]

        def side(width: Floats) -> Complex:
            """Return the numerator: 1 - e^-r cos z = -expm1(-r) + 2 e^-r sin(z/2)^2 does not cancel."""
            fallen, z = np.exp(-rate * width), 0.5 * width * v
            sine = np.sin(z)
            return np.asarray(-np.expm1(-rate * width) + 2 * fallen * sine * (sine - 1j * np.cos(z)))

        below = rate - 1j * v
        both = side(1 - x) / below + np.conj(side(x) / below)
        return np.asarray(0.5 * self.factor[:, np.newaxis] * rate * np.exp(1j * (x * v)) * both)

    def below(self, y: Floats) -> Floats:
        """Return the noise's mass between 0 and y."""
        noise = laws.Laplace(self.x, self.rate)[:, np.newaxis]
        return np.asarray(self.factor[:, np.newaxis] * noise.mass(0.0, np.clip(y, 0, 1)))

    def decay(self) -> tuple[Floats, Floats, Floats]:
        """Return V = 2 A, J from both ends, and W = 4 A rate: the kink 2 A rate, falling slopes and the ends'."""
        peak = 0.5 * self.factor * self.rate
        ends = np.exp(-self.rate * self.x) + np.exp(-self.rate * (1 - self.x))
        return 2 * peak, peak * ends, 4 * peak * self.rate


@dataclass(frozen=True, eq=False)
class Normal(Part):
    """``factor`` times the normal density of spread sigma about x on [0, 1]."""

    x: Floats
    sigma: Floats
    factor: Floats
    units: ClassVar[int] = 4_096  # scipy's w(z) is right to 1e-13, 900 units, of each of its parts

    @property
    def mass(self) -> Floats:  # type: ignore[override]
        """Mass between 0 and 1."""
        return np.asarray(self.factor * laws.Gaussian(self.x, self.sigma).mass(0.0, 1.0))

    def transform(self, v: Floats) -> Complex:
        """Return the whole line's transform less those of both tails, by Faddeeva's w(z) = exp(-z^2) erfc(-i z)."""
        from scipy.special import wofz

        x, sigma = self.x[:, np.newaxis], self.sigma[:, np.newaxis]

        def tail(distance: Floats) -> Complex:
            far = distance / sigma
            return np.asarray(0.5 * np.exp(-0.5 * far**2) * wofz(np.sqrt(0.5) * (sigma * v + 1j * far)))

        whole = np.exp(1j * (x * v) - 0.5 * (sigma * v) ** 2)
        return np.asarray(self.factor[:, np.newaxis] * (whole - np.exp(1j * v) * tail(1 - x) - np.conj(tail(x))))

    def below(self, y: Floats) -> Floats:
        """Return the noise's mass between 0 and y."""
        noise = laws.Gaussian(self.x, self.sigma)[:, np.newaxis]
        return np.asarray(self.factor[:, np.newaxis] * noise.mass(0.0, np.clip(y, 0, 1)))

    def decay(self) -> tuple[Floats, Floats, Floats]:
        """Return V = 2 f(x), J from both ends, and W = 4 max |f'| = 4 e^(-1/2) f(x) / sigma."""
        law = laws.Gaussian(self.x, self.sigma)
        peak = self.factor * law.pdf(self.x)
        ends = self.factor * (law.pdf(0.0) + law.pdf(1.0))
        return 2 * peak, ends, 4 * 0.6066 * peak / self.sigma

    def error(self, v: Floats) -> Floats:
        """Count relative to the three terms: exp(-t^2/2) <= e^(-1/2) / t and |w(z)| <= 1 / (sqrt(pi) |z|)."""
        terms = self.factor[:, np.newaxis] * np.minimum(2.0, 1.5 / (self.sigma[:, np.newaxis] * v))
        return np.asarray((self.units + 32 * v) * terms)


@dataclass(frozen=True, eq=False)
class Parts:
    """A law on [0, 1]: atoms of ``masses``, shape ``(epsilons, k)``, at ``places``, shape ``(k,)``, and the rest."""

    places: Floats
    masses: Floats
    smooth: tuple[Part, ...] = ()

    @property
    def atoms(self) -> Floats:
        """Mass of all atoms, shape ``(epsilons,)``."""
        return np.asarray(self.masses.sum(axis=1))

    @property
    def rest(self) -> Floats:
        """Mass of all continuous parts, shape ``(epsilons,)``."""
        return np.asarray(sum((part.mass for part in self.smooth), np.zeros(len(self.masses))))

    def only(self, chosen: Bools) -> Parts:
        """Return the law of some epsilons."""

        def of(value: Floats) -> Floats:
            return value[chosen] if len(value) == len(chosen) else value

        smooth = (replace(part, **{f.name: of(getattr(part, f.name)) for f in fields(part)}) for part in self.smooth)  # type: ignore[type-var,arg-type]
        return Parts(self.places, self.masses[chosen], tuple(smooth))

    def transform(self, v: Floats) -> Complex:
        """Return E[exp(i v Y)] over all continuous parts, shape ``(epsilons, n)`` or ``(1, n)``."""
        return sum((part.transform(v) for part in self.smooth), np.zeros((1, 1), dtype=np.complex128))

    def turn(self, v: Floats) -> Complex:
        """Return E[exp(i v Y)] over the atoms."""
        if not self.places.size:
            return np.zeros((1, 1), dtype=np.complex128)
        return np.asarray(self.masses @ np.exp(1j * np.multiply.outer(self.places, v)))

    def bound(self, v: Floats) -> Floats:
        """Bound the modulus of `transform`: see `Part.bound`."""
        return sum((part.bound(v) for part in self.smooth), np.zeros((len(self.masses), len(v))))

    def size(self, v: Floats) -> Floats:
        """Bound the modulus of both transforms together: see `Part.size`."""
        return sum((part.size(v) for part in self.smooth), self.atoms[:, np.newaxis])

    def error(self, v: Floats) -> Floats:
        """Return what both transforms err by, in units: see `Part.error`; a weight and a phase of an atom by 24."""
        return sum((part.error(v) for part in self.smooth), 24 * self.atoms[:, np.newaxis])

    @property
    def uniform(self) -> bool:
        """Whether there are but atoms and uniform parts."""
        return all(isinstance(part, Uniform) for part in self.smooth)


def parts_of(law: Law) -> Parts | None:
    """Take a law of shape ``(epsilons,)`` apart; None where its parts are not known."""
    return _parts(law)


@singledispatch
def _parts(law: Law) -> Parts | None:
    return None


def _none(law: Law) -> tuple[Floats, Floats]:
    return np.empty(0), np.empty((law.shape[0], 0))


@_parts.register
def _(law: laws.TwoLevel) -> Parts:
    zero = np.zeros(1)
    x, spread, half, offset = _filled(law, law.x, law.spread, law.half, law.offset)
    wide, window = Uniform(spread, zero, zero, zero + 1), Uniform(1 - spread, x, -offset, 2 * half)
    return Parts(*_none(law), (wide, window))


def _filled(law: Law, *values: Floats) -> tuple[Floats, ...]:
    """Return parameters in the law's shape: some are kept as single numbers."""
    return tuple(np.broadcast_to(as_floats(value), law.shape) for value in values)


def _within(noise: Law, factor: Floats) -> tuple[Part, ...] | None:
    if isinstance(noise, laws.Laplace):
        return (Exponential(noise.x, noise.rate, factor),)
    return (Normal(noise.x, noise.sigma, factor),) if isinstance(noise, laws.Gaussian) else None


@_parts.register
def _(law: laws.Clipped) -> Parts | None:
    smooth = _within(law.noise, np.ones(law.shape))
    if smooth is None or (law.low, law.high) != (0.0, 1.0):
        return None
    return Parts(np.array([0.0, 1.0]), np.stack(law.atoms(), axis=-1), smooth)


@_parts.register
def _(law: laws.Truncated) -> Parts | None:
    smooth = _within(law.noise, 1 / law.noise.mass(0.0, 1.0))
    return None if smooth is None else Parts(*_none(law), smooth)


@_parts.register
def _(law: laws.WithEnds) -> Parts | None:
    inner = parts_of(law.law)
    if inner is None or not inner.uniform:
        return None
    zero, one, inside = _filled(law, law.at_zero, law.at_one, law.inside)
    return _beside(inner, np.array([0.0, 1.0]), np.stack([zero, one], axis=-1), inside)


@_parts.register
def _(law: laws.RawOr) -> Parts | None:
    inner = parts_of(law.law)
    if inner is None or not inner.uniform or (law.x != law.x[:1]).any():
        return None
    return _beside(inner, law.x[:1], np.full((law.shape[0], 1), law.reveal), np.full(law.shape, 1 - law.reveal))


def _beside(inner: Parts, places: Floats, masses: Floats, share: Floats) -> Parts:
    """Put atoms beside what a law of atoms and uniform parts keeps: its ``share``."""
    smooth = tuple(replace(part, mass=share * part.mass) for part in inner.smooth if isinstance(part, Uniform))
    return Parts(
        np.concatenate([places, inner.places]),
        np.concatenate([masses, share[:, np.newaxis] * inner.masses], axis=1),
        smooth if share.any() else (),
    )


@_parts.register(GridLaw)
@_parts.register(laws.Quantised)
def _(law: GridLaw | laws.Quantised) -> Parts | None:
    """Return the grid's points; masses are differences of cumulated ones, so that their errors do not add up."""
    if law.k > MOST_POINTS:
        return None
    grid = np.arange(law.k) / (law.k - 1)
    cumulated = np.maximum.accumulate(law[..., np.newaxis].cdf(grid), axis=-1)
    return Parts(grid, np.diff(cumulated, axis=-1, prepend=0.0))


MOST_POINTS = 2**12  # of a grid whose points are told one by one
