"""Planning: how many users, which alpha, what accuracy - before anybody reports anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.learner.aggregation import simulate
from epsworth.learner.config import LatticeConfig
from epsworth.learner.model import Classifier, Smoothing
from epsworth.rounding import show_down, show_up


@dataclass(frozen=True)
class Plan:
    """What goes together: ``users`` at ``alpha`` certify a cell of signed mean ``margin`` at ``level``.

    Attributes
    ----------
    alpha, users, margin, level : numbers
        Rounded to the side that needs more.
    feasible : bool
        False where no third is enough: even true labels of that many users would not certify the cell, or these users
        with this alpha would not certify a signed mean of 1.
    """

    alpha: float
    users: int
    margin: float
    level: float
    feasible: bool = True

    def __str__(self) -> str:
        """Return the plan in a sentence."""
        if self.margin > 1:
            return (
                f"No margin is enough: {self.users:,} users with alpha {show_down(self.alpha)} per record certify no "
                f"cell at level {show_down(self.level)}, however clear it is; take more users or a larger alpha."
            )
        if not self.feasible:
            return (
                f"No alpha is enough: {self.users:,} users could not certify a signed mean of {show_down(self.margin)} "
                f"at level {show_down(self.level)} even with their true labels; take more users or a larger margin."
            )
        return (
            f"{self.users:,} users with alpha {show_up(self.alpha)} per record certify a cell whose signed mean "
            f"is {show_up(self.margin)} or more at level {show_up(self.level)}."
        )


def plan(
    *,
    alpha: float | None = None,
    users: int | None = None,
    margin: float | None = None,
    level: float = 0.05,
    power: float | None = None,
) -> Plan:
    """Return the third of alpha, users and margin, given two of them.

    Claim: with these users, the one-bit reports of a cell whose signed mean is ``margin`` or more in size give a
    p-value of at most ``level`` whenever they agree at least as often as expected; with ``power``, they do so with at
    least that probability.

    Parameters
    ----------
    alpha : float
        Privacy parameter per record.
    users : int
        Reports; with mechanism "parity", those of one parity class.
    margin : float
        |V|, the size of E[1{cell}(2 eta - 1)]: about (2 eta - 1) divided by the number of cells.
    level : float
        One cell's; divide by the number of cells for all of them together.
    power : float, optional
        Probability of the certificate; without it, the plan is for the expected sums.

    Examples
    --------
    >>> print(plan(alpha=1, margin=0.02))
    70,141 users with alpha 1 per record certify a cell whose signed mean is 0.02 or more at level 0.05.
    >>> plan(users=70_141, margin=0.02).alpha <= 1
    True

    References
    ----------
    Hoeffding 1963: (margin tanh(alpha / 2))^2 users >= 2 ln(1 / level), the roots added for ``power``.
    """
    _check(alpha, users, margin, level, power)
    try:
        return _third(alpha, users, margin, level, power)
    except (OverflowError, ZeroDivisionError):
        raise ValueError("no number holds the plan; take less extreme alpha, margin, level and users") from None


def _third(alpha: float | None, users: int | None, margin: float | None, level: float, power: float | None) -> Plan:
    need = math.sqrt(2 * math.log(1 / level))
    if power is not None:
        need += math.sqrt(2 * math.log(1 / (1 - power)))
    if users is None:
        assert alpha is not None
        assert margin is not None
        return Plan(alpha, math.ceil((need / (margin * math.tanh(alpha / 2))) ** 2), margin, level)
    if margin is None:
        assert alpha is not None
        found = need / (math.sqrt(users) * math.tanh(alpha / 2))
        return Plan(alpha, users, found, level, feasible=found <= 1)
    contrast = need / (math.sqrt(users) * margin)
    if contrast >= 1:
        return Plan(math.inf, users, margin, level, feasible=False)
    return Plan(2 * math.atanh(contrast), users, margin, level)


def _check(alpha: float | None, users: int | None, margin: float | None, level: float, power: float | None) -> None:
    if (alpha, users, margin).count(None) != 1:
        raise ValueError("give exactly two of alpha, users and margin; the plan is the third")
    if alpha is not None and not (alpha > 0 and math.isfinite(alpha)):
        raise ValueError(f"alpha must be positive and finite, got {alpha!r}")
    if users is not None and (isinstance(users, bool) or not isinstance(users, (int, np.integer)) or users < 1):
        raise ValueError(f"users must be a whole number of at least 1, got {users!r}")
    if margin is not None and not 0 < margin <= 1:
        raise ValueError(f"margin must lie in (0, 1], got {margin!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if power is not None and not 0 < power < 1:
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
    if not (0 < beta <= 1 and gamma >= 0 and beta * gamma <= d):
        raise ValueError(f"need beta in (0, 1], gamma >= 0 and beta gamma <= d, got beta {beta}, gamma {gamma}, d {d}")
    return -beta * (1 + gamma) / (2 * beta + (2 if private else 1) * d)


def expected_accuracy(
    config: LatticeConfig,
    X: ArrayLike,
    y: ArrayLike,
    *,
    users: int,
    rng: np.random.Generator,
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
    truth = np.array(config.classes)[config.label_numbers(y)]
    models = (Classifier.from_aggregate(simulate(config, X, y, rng, users=users), smoothing) for _ in range(runs))
    return np.array([np.mean(model.predict(X) == truth) for model in models])
