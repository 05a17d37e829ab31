"""The one table of integer kernels, and the door to it."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

from epsworth.exact import clipped, distance, duchi, gaussian, neighbours, two_level
from epsworth.exact.integer import Kernel
from epsworth.exact.rational import Exact, stated, stated_epsilon
from epsworth.mechanisms.gaussian import Calibration
from epsworth.numerals import whole

MOST_BITS = 16
DELTA = "1e-5"  # as `gaussian_clipped` of the analysis


@dataclass(frozen=True)
class Construction:
    """How a kernel is built from epsilon, the number of points and its own options."""

    build: Callable[..., Kernel]
    options: tuple[str, ...] = ()


KERNELS: dict[str, Construction] = {
    "pm": Construction(two_level.pm),
    "sw": Construction(two_level.sw),
    "pm_affine": Construction(two_level.pm_affine),
    "sw_affine": Construction(two_level.sw_affine),
    "krr": Construction(two_level.krr, ("k",)),
    "exponential": Construction(distance.exponential, ("k",)),
    "exponential_tight": Construction(distance.exponential_tight, ("k",)),
    "bounded_laplace": Construction(distance.bounded_laplace),
    "laplace_clipped": Construction(clipped.laplace_clipped),
    "gaussian_clipped": Construction(gaussian.gaussian_clipped, ("delta", "calibration")),
    "staircase": Construction(clipped.staircase, ("gamma",)),
    "duchi": Construction(duchi.duchi),
    "hybrid": Construction(duchi.hybrid),
    "pb_grr": Construction(neighbours.pb_grr, ("k", "theta", "share")),
}
ALIASES = {"discrete_laplace": "laplace_clipped", "discrete_gaussian": "gaussian_clipped", "opm": "pm"}


def kernel(name: str, epsilon: Exact, bits: int = MOST_BITS, **options: Any) -> Kernel:
    """Return the integer kernel of a mechanism: exact probabilities, draws fit for release.

    Claim: for all inputs i, j and outputs y, Pr[y | i] <= e^epsilon Pr[y | j] (`gaussian_clipped`: up to
    delta), for the integers that are drawn from, not for an approximation of them.  The construction's
    obligations are checked in integers before the kernel is returned.

    Parameters
    ----------
    name : str
        A word of `KERNELS`, the same as in `FAMILIES` where the analysis knows the mechanism;
        ``discrete_laplace``, ``discrete_gaussian`` and ``opm`` (the optimal piecewise mechanism of Zheng,
        Mishra & Hu 2025, which coincides with ``pm``) are accepted too.
    epsilon : str, int, float, Fraction or Decimal
        Per feature, taken exactly as its text says: ``"0.1"`` is one tenth, and so is ``0.1``.
    bits : int
        Inputs and outputs are the 2^bits values ``i / (2^bits - 1)``; 1 to 16.
    **options
        ``k`` for ``krr``, ``exponential``, ``exponential_tight``, ``pb_grr``: a grid of k values, or k categories,
        instead.  ``theta``, ``share`` for ``pb_grr``.  ``delta``, ``calibration`` for ``gaussian_clipped``.  ``gamma``
        for ``staircase``.

    Raises
    ------
    ValueError
        Where integer weights on so many points cannot keep so small or so large an epsilon.

    Examples
    --------
    >>> from epsworth.exact import kernel
    >>> coin = kernel("krr", "1.5", k=3)
    >>> coin.guarantee
    Pure(epsilon=1.5, unit='feature')
    >>> coin.draw([0, 1, 2, 2]).shape
    (4,)
    >>> sum(kernel("pm", 1, bits=4).weights(3)) == 2**64
    True
    """
    name = ALIASES.get(name, name)
    if name not in KERNELS:
        close = difflib.get_close_matches(str(name), KERNELS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "choose one of them"
        raise ValueError(f"no integer kernel for {name!r}; there are {', '.join(KERNELS)}; {hint}")
    bits = whole("bits", bits, most=MOST_BITS)
    allowed = KERNELS[name].options
    for option in options:
        if option not in allowed:
            takes = f"takes {', '.join(allowed)}" if allowed else "takes none"
            raise ValueError(f"unknown option {option!r} of {name}; it {takes}")
    read = {option: _READ[option](value) for option, value in options.items()}
    points = read.pop("k", 1 << bits)
    if name == "gaussian_clipped":
        read.setdefault("delta", stated(DELTA, "delta"))
    return _proven(name, stated_epsilon(epsilon), points, tuple(sorted(read.items())))


@lru_cache(maxsize=32)
def _proven(name: str, epsilon: Fraction, points: int, options: tuple[tuple[str, Any], ...]) -> Kernel:
    """Build and prove once per process: tables are public and never change."""
    built = KERNELS[name].build(epsilon, points, **dict(options))
    built.prove()
    return built


def _size(k: object) -> int:
    return whole("k", k, least=2, most=1 << MOST_BITS)


def _share(name: str) -> Callable[[Exact], Fraction]:
    def read(value: Exact) -> Fraction:
        found = stated(value, name)
        if found >= 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
        return found

    return read


def _fraction(name: str) -> Callable[[Exact], Fraction]:
    def read(value: Exact) -> Fraction:
        found = Fraction(0) if value == 0 else stated(value, name)
        if found > 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
        return found

    return read


def _calibration(value: object) -> object:
    if value not in get_args(Calibration):
        allowed = ", ".join(map(repr, get_args(Calibration)))
        raise ValueError(f"calibration must be one of {allowed}, got {value!r}")
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "k": _size,
    "delta": _share("delta"),
    "gamma": _share("gamma"),
    "theta": _fraction("theta"),
    "share": _fraction("share"),
    "calibration": _calibration,
}
