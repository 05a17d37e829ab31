"""Planning: how many users, which alpha, what accuracy - before anybody reports anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, generator
from epsworth.exact.rational import stated
from epsworth.learner.aggregation import simulate
from epsworth.learner.coins import checked_alpha
from epsworth.learner.config import LatticeConfig
from epsworth.learner.mechanism import MOST_USERS, Mechanism, checked_level, checked_number, checked_users
from epsworth.learner.model import Classifier, Smoothing
from epsworth.learner.table import MECHANISMS, MOST_CELLS, MOST_GRID_AXES
from epsworth.rounding import show_down, show_up

LEAST_ALPHA, MOST_ALPHA = 1.000001e-6, 60.0  # as the configurations take it; beyond, nothing is gained
PRECISION = 1e-6  # relative, of alpha and margin
EXACT_BITS = 14  # of the number of users: to the unit up to 2^14, then to a relative 6e-5


@dataclass(frozen=True)
class Plan:
    """What goes together: ``users`` at ``alpha`` certify a cell of signed mean ``margin`` at ``level``.

    Attributes
    ----------
    alpha, users, margin, level : numbers
        Rounded to the side that needs more; infinite where nothing is enough.
    feasible : bool
        False where no third is enough: even true labels of that many users would not certify the cell, or these users
        with this alpha would not certify the clearest cell.
    power : float
        Probability of the certificate.
    mechanism : str
    """

    alpha: float
    users: int
    margin: float
    level: float
    feasible: bool = True
    power: float = 0.5
    mechanism: str = "hadamard"

    def __str__(self) -> str:
        """Return the plan in a sentence."""
        chance = f"with probability {show_down(self.power)} ({self.mechanism})"
        if self.margin > 1:
            return (
                f"No margin is enough: {self.users:,} users with alpha {show_down(self.alpha)} per record certify no "
                f"cell at level {show_down(self.level)} {chance}, however clear it is; take more users or a larger "
                "alpha."
            )
        if not self.feasible:
            return (
                f"No alpha is enough: {self.users:,} users could not certify a signed mean of {show_down(self.margin)} "
                f"at level {show_down(self.level)} {chance} even with their true labels; take more users or a larger "
                "margin."
            )
        return (
            f"{self.users:,} users with alpha {show_up(self.alpha)} per record certify a cell whose signed mean "
            f"is {show_up(self.margin)} or more at level {show_up(self.level)} {chance}."
        )


def plan(
    *,
    alpha: float | None = None,
    users: int | None = None,
    margin: float | None = None,
    level: float = 0.05,
    power: float = 0.5,
    mechanism: str = "hadamard",
    m: int | None = None,
    d: int | None = None,
    mass: float = 1.0,
) -> Plan:
    """Return the third of alpha, users and margin, given two of them.

    Claim: with these users, a cell whose signed mean is ``margin`` or more in size gets a p-value of at most ``level``
    for its right label with probability at least ``power``, if all reports are honest and of usable records.

    The power is that of the certificate itself: an exact binomial test, or for "slides", whose sums the
    noise makes nearly normal, their law by the theorem of Berry and Esseen.

    Parameters
    ----------
    alpha : float
        Privacy parameter per record.
    users : int
        Reports in all; with "parity" and "slides" they fall into groups at random.
    margin : float
        |V|, the size of E[1{cell}(2 eta - 1)]: about (2 eta - 1) divided by the number of cells.
    level : float
        One cell's; divide by the number of cells for all of them together.
    power : float
        Probability of the certificate; one half is what sums that turn out as expected give.
    mechanism : str
        A name in `MECHANISMS` that carries certificates; two classes.
    m, d : int, optional
        Cells per axis and features: "krr" needs both, "parity" and "slides" the features.
    mass : float
        Upper bound on the share of users in the cell: with "krr", "oue" and "ternary" they vote more often than
        others, for either class.  No cell holds more than all; about 1 / cells is usual.

    Examples
    --------
    >>> plan(alpha=1, margin=0.02).users
    32104
    >>> plan(users=32_104, margin=0.02).alpha <= 1
    True
    """
    _check(alpha, users, margin, level, power, mass)
    family = _family(mechanism, m, d)

    def reached(a: float, n: int, v: float) -> bool:
        return family(stated(a, "alpha")).power(n, v, mass, level) >= power

    def made(a: float, n: int, v: float, *, feasible: bool = True) -> Plan:
        return Plan(a, n, v, level, feasible, power, mechanism)

    if users is None:
        assert alpha is not None
        assert margin is not None
        kernel, v = family(checked_alpha(alpha)), margin
        return made(alpha, _least_users(lambda n: kernel.power(n, v, mass, level) >= power), margin)
    n = users
    if margin is None:
        assert alpha is not None
        kernel = family(checked_alpha(alpha))
        clear = _least(lambda v: kernel.power(n, v, mass, level) >= power, 0.0, mass)
        return made(alpha, users, math.inf if clear is None else clear, feasible=clear is not None)
    v = margin
    least = _least(lambda a: reached(a, n, v), LEAST_ALPHA, MOST_ALPHA)
    return made(math.inf if least is None else least, users, margin, feasible=least is not None)


def _family(mechanism: str, m: int | None, d: int | None) -> Callable[[Fraction], Mechanism]:
    """Return the mechanism as a function of alpha; refuse one whose certificate cannot be planned."""
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS or mechanism == "cosine":
        able = ", ".join(name for name in MECHANISMS if name != "cosine")
        raise ValueError(f"mechanism must be one that certifies: {able}; got {mechanism!r}")
    for name, value, needed in (("m", m, ("krr",)), ("d", d, ("krr", "parity", "slides"))):
        if value is None and mechanism in needed:
            raise ValueError(
                f"{name} is missing: what {mechanism!r} needs depends on it; give m, cells per axis, and d"
            )
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    if d is not None and d > MOST_GRID_AXES:
        raise ValueError(f"d must be at most {MOST_GRID_AXES}, got {d}; cells on more features hold nobody")
    if m is not None and m ** (d or 1) > MOST_CELLS:
        raise ValueError(f"m = {m} gives more than {MOST_CELLS:.0e} cells; take a smaller m")
    return lambda alpha: MECHANISMS[mechanism](alpha, int(m or 1), int(d or 1), 2)


def _least_users(reached: Callable[[int], bool]) -> int:
    """Return a number that reaches, by doubling and halving; nothing but what was seen to reach is returned."""
    high = 1
    while not reached(high):
        high *= 2
        if high > MOST_USERS:
            raise ValueError("no number holds the plan; take less extreme alpha, margin, level and power")
    low = high // 2
    while high - low > max(1, high >> EXACT_BITS):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _least(reached: Callable[[float], bool], low: float, high: float) -> float | None:
    """Return a number of six digits in [low, high] that reaches, or None where ``high`` does not."""
    most = high
    if not reached(high):
        return None
    if low > 0 and reached(low):
        return low
    while high - low > PRECISION / 4 * high:
        middle = math.sqrt(low * high) if low > 0 else high / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    short = min(most, float(show_up(high)))  # as it will be printed
    return short if reached(short) else high


def _check(
    alpha: float | None, users: int | None, margin: float | None, level: float, power: float, mass: float
) -> None:
    if (alpha, users, margin).count(None) != 1:
        raise ValueError("give exactly two of alpha, users and margin; the plan is the third")
    if alpha is not None:
        checked_alpha(alpha)
    if users is not None:
        checked_users(users, "it is how many reports are expected")
    if not 0 < checked_number(mass, "mass") <= 1:
        raise ValueError(f"mass must lie in (0, 1], got {mass!r}; it bounds the share of users in the cell")
    if margin is not None and not 0 < checked_number(margin, "margin") <= mass:
        raise ValueError(f"margin must lie in (0, {mass:g}], got {margin!r}: no cell's exceeds the share it holds")
    checked_level(level)
    if not 0 < checked_number(power, "power") < 1:
        raise ValueError(f"power must lie between 0 and 1, got {power!r}")


def rate(d: int, *, beta: float = 1.0, gamma: float = 1.0, private: bool = True) -> float:
    """Return the exponent of the minimax excess risk in the number of users.

    Parameters
    ----------
    d : int
        Features.
    beta : float
        Smoothness of eta, in (0, 1].
    gamma : float
        Margin exponent, with beta gamma <= d.
    private : bool
        Under local privacy at constant alpha, or with raw data.

    Examples
    --------
    >>> rate(1), round(rate(1, private=False), 4)
    (-0.5, -0.6667)

    References
    ----------
    Berrett & Butucea 2019: -beta (1 + gamma) / (2 beta + 2d); Audibert & Tsybakov 2007 without privacy.
    """
    for value, field in ((d, "d"), (beta, "beta"), (gamma, "gamma")):
        checked_number(value, field)
    if not (0 < beta <= 1 and gamma >= 0 and beta * gamma <= d):
        raise ValueError(f"need beta in (0, 1], gamma >= 0 and beta gamma <= d, got beta {beta}, gamma {gamma}, d {d}")
    return -beta * (1 + gamma) / (2 * beta + (2 if private else 1) * d)


def expected_accuracy(
    config: LatticeConfig,
    X: ArrayLike,
    y: ArrayLike,
    *,
    users: int,
    rng: np.random.Generator | int,
    runs: int = 20,
    smoothing: Smoothing = "sure",
) -> Floats:
    """Return the accuracy on public data of ``runs`` simulated learners ``(runs,)``.

    Each run draws ``users`` users from the rows with replacement, and their sums directly: a billion users take as long
    as a thousand.  The data must be public, or a public model's: nothing here is private.

    Examples
    --------
    >>> config = LatticeConfig(box=(0, 1), m=8, alpha=1)
    >>> x = np.linspace(0, 1, 200)
    >>> expected_accuracy(config, x[:, None], x > 0.5, users=10**9, rng=np.random.default_rng(0), runs=3).min() > 0.95
    np.True_
    """
    draws = generator(rng)
    if isinstance(runs, bool) or not isinstance(runs, (int, np.integer)) or runs < 1:
        raise ValueError(f"runs must be a whole number of at least 1, got {runs!r}")
    truth = np.array(config.classes)[config.label_numbers(y)]
    models = (Classifier.from_aggregate(simulate(config, X, y, draws, users=users), smoothing) for _ in range(runs))
    return np.array([np.mean(model.predict(X) == truth) for model in models])
