"""The one table of mechanisms, and their integer kernels by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

from epsworth.client.kernels import MOST_BITS, MOST_POINTS
from epsworth.mechanisms.boosted_laplace import BoostedLaplace
from epsworth.mechanisms.calibration import Calibration
from epsworth.mechanisms.duchi import Duchi, Hybrid
from epsworth.mechanisms.exponential import Exponential, ExponentialTight
from epsworth.mechanisms.gaussian import Gaussian, GaussianClipped
from epsworth.mechanisms.kernels import Kernel
from epsworth.mechanisms.krr import KRR
from epsworth.mechanisms.laplace import BoundedLaplace, Laplace, LaplaceClipped
from epsworth.mechanisms.mechanism import GridMechanism, Mechanism
from epsworth.mechanisms.pb_grr import PBGRR
from epsworth.mechanisms.piecewise import PM, PMAffine
from epsworth.mechanisms.rational import Exact, stated, stated_epsilon
from epsworth.mechanisms.square_wave import SW, SWAffine
from epsworth.mechanisms.staircase import Staircase
from epsworth.numerals import whole

MECHANISMS: dict[str, type[Mechanism]] = {
    "laplace": Laplace,
    "laplace_clipped": LaplaceClipped,
    "bounded_laplace": BoundedLaplace,
    "gaussian": Gaussian,
    "gaussian_clipped": GaussianClipped,
    "pm": PM,
    "sw": SW,
    "exponential": Exponential,
    "exponential_tight": ExponentialTight,
    "krr": KRR,
    "pm_affine": PMAffine,
    "sw_affine": SWAffine,
    "duchi": Duchi,
    "hybrid": Hybrid,
    "staircase": Staircase,
    "pb_grr": PBGRR,
    "boosted_laplace": BoostedLaplace,
}
KERNELS: dict[str, Callable[..., Kernel]] = {
    name: kind.integers for name, kind in MECHANISMS.items() if kind.integers is not None
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
        A word of `MECHANISMS`, of one that has ``integers`` (`KERNELS`); ``discrete_laplace``, ``discrete_gaussian``
        and ``opm`` (the optimal piecewise mechanism of Zheng, Mishra & Hu 2025, which coincides with ``pm``) are
        accepted too.
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
    >>> from epsworth.mechanisms import kernel
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
    grid = ["k"] if issubclass(MECHANISMS[name], GridMechanism) else []
    allowed = [*grid, *list(inspect.signature(KERNELS[name]).parameters)[2:]]
    for option in options:
        if option not in allowed:
            takes = f"takes {', '.join(allowed)}" if allowed else "takes none"
            raise ValueError(f"unknown option {option!r} of {name}; it {takes}")
    read = {option: _READ[option](option, value) for option, value in options.items()}
    points = read.pop("k", 1 << bits)
    return _proven(name, stated_epsilon(epsilon), points, tuple(sorted(read.items())))


@lru_cache(maxsize=32)
def _proven(name: str, epsilon: Fraction, points: int, options: tuple[tuple[str, Any], ...]) -> Kernel:
    """Build and prove once per process: tables are public and never change."""
    built = KERNELS[name](epsilon, points, **dict(options))
    built.prove()
    return built


def _inside(name: str, value: Exact) -> Fraction:
    if (number := stated(value, name)) >= 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return number


def _fraction(name: str, value: Exact) -> Fraction:
    if (number := Fraction(0) if value == 0 else stated(value, name)) > 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
    return number


def _calibration(name: str, value: object) -> object:
    if value not in (allowed := get_args(Calibration)):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


_READ: dict[str, Callable[[str, Any], Any]] = {
    "k": lambda name, value: whole(name, value, least=2, most=MOST_POINTS),
    "delta": _inside,
    "gamma": _inside,
    "theta": _fraction,
    "share": _fraction,
    "calibration": _calibration,
}
