"""Planning: how many users, which epsilon, what accuracy - before anybody reports anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, Rng, generator
from epsworth.bounds import Risk
from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.guarantees import Central, local_epsilon, shuffled
from epsworth.learner.aggregation import simulate
from epsworth.learner.certificates import Fakes
from epsworth.learner.coins import checked_epsilon
from epsworth.learner.config import LatticeConfig, Law, law_of
from epsworth.learner.fakes import FALSE_ALARM, assumption, count_of, declared, fakes_among
from epsworth.learner.mechanism import (
    MOST_USERS,
    Mechanism,
    Rowed,
    checked_number,
    checked_probability,
    checked_users,
)
from epsworth.learner.mechanisms import MECHANISMS, MOST_CELLS, MOST_GRID_AXES
from epsworth.learner.model import Classifier, Smoothing
from epsworth.mechanisms.rational import stated
from epsworth.numerals import short, whole
from epsworth.results import Result, how_sure
from epsworth.rounding import percent_down, show_down, show_up

LEAST_EPSILON, MOST_EPSILON = 1.000001e-6, 60.0  # as the configurations take it; beyond, nothing is gained
# Where searches stop; no promise rests on it: nothing is returned but what was seen to reach
POWERS = (0.5, 0.8, 0.9)  # of a certificate: as likely as not, usual, high
SHARP = 1e-6  # relative, of epsilon and margin
EXACT_BITS = 14  # of the number of users: to the unit up to 2^14, then to a relative 6e-5
DIGITS = 6  # of a local epsilon that is planned with, rounded down: as it is printed


@dataclass(frozen=True)
class Plan(Result):
    """What goes together: ``users`` at ``epsilon`` certify a cell of margin ``margin`` with ``confidence``.

    Attributes
    ----------
    epsilon, users, margin, confidence : numbers
        Rounded to the side that needs more; infinite where nothing is enough.
    feasible : bool
        False where no third is enough: even true labels of that many users would not certify the cell, or these users
        with this epsilon would not certify the clearest cell.
    power, mechanism
        Probability of the certificate, and of which mechanism's reports.
    fakes : int
        So many of the users are fakes at most, and the certificate is told so; 0: all are honest.

    Examples
    --------
    >>> from epsworth.learner import plan
    >>> found = plan(users=100_000, margin=0.02, fakes=0)
    >>> found.feasible, round(found.epsilon, 2), found.mechanism
    (True, 0.83, 'hadamard')
    """

    epsilon: float
    users: int
    margin: float
    confidence: float | Fraction
    feasible: bool
    power: float
    mechanism: str
    fakes: int

    def __str__(self) -> str:
        sure = f"({how_sure(float(self.confidence)).removeprefix('with ')})"
        chance = (
            f"in {percent_down(self.power, 4)} % of all cases by {self.mechanism} reports, {assumption(self.fakes)}"
        )
        if self.margin > 1:
            return (
                f"No margin is enough: with {self.users:,} users at epsilon {show_down(self.epsilon)} per record no "
                f"cell gets a certificate {sure} {chance}, however clear it is; take more users or a larger epsilon."
            )
        if not self.feasible:
            return (
                f"No epsilon is enough: with {self.users:,} users a cell of margin {show_down(self.margin)} gets no "
                f"certificate {sure} {chance}, even with their true labels; take more users or a larger margin."
            )
        return (
            f"With {self.users:,} users at epsilon {show_up(self.epsilon)} per record, a cell of margin "
            f"{show_up(self.margin)} or more gets a certificate {sure} {chance}."
        )

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a JSON file that `save` wrote."""
        with reading(path, "plan") as content:
            entries = read_json(content).items()
            found: dict[str, Any] = {name: math.inf if entry is None else entry for name, entry in entries}
            return cls(**found | {"fakes": whole("fakes", found.get("fakes"), least=0)})


def plan(
    *,
    fakes: Fakes,
    epsilon: float | None = None,
    users: int | None = None,
    margin: float | None = None,
    confidence: float | Fraction = 0.95,
    power: float = 0.8,
    mechanism: str = "hadamard",
    m: int | None = None,
    d: int | None = None,
    mass: float = 1.0,
) -> Plan:
    """Return the third of epsilon, users and margin, given two of them.

    Claim: with these users, a cell whose signed mean is ``margin`` or more in size gets a p-value of at most
    ``1 - confidence`` for its right label with probability at least ``power``, if all reports are of usable records and
    no more than ``fakes`` of them are fakes, which may see all others and replace the honest reports that help most;
    the certificate is told of as many (`Classifier.certificate`), and the power is that of its exact binomial test.

    Parameters
    ----------
    fakes : int, float or Fraction
        How many of the users may be fakes, or, below 1, which share of them, rounded up to a number.  It must hold of
        the users who report, for certain.  0: nobody forges reports.
    epsilon, users : numbers
        Privacy parameter per record; reports in all.
    margin : float
        The size of V = E[1{cell}(2 eta - 1)]: about (2 eta - 1) divided by the number of cells.
    confidence : float or Fraction
        One cell's; for all of them together, one cell's miss is 1 - confidence divided by the number of cells.
    power : float
        Probability of the certificate; one half is what sums that turn out as expected give.
    mechanism : str
        A name in `MECHANISMS` whose certificate is an exact test; two classes.
    m, d : int, optional
        Cells per axis and features: "krr" needs both.
    mass : float
        Upper bound on the share of users in the cell: with "krr", "oue" and "ternary" they vote more often than
        others, for either class.  No cell holds more than all; about 1 / cells is usual.

    Raises
    ------
    ValueError
        Where not exactly two of the three are given, one is out of its range, the mechanism certifies nothing, or no
        number of users outvotes the share of fakes.

    Examples
    --------
    >>> from epsworth.learner import plan
    >>> plan(epsilon=1, margin=0.02, fakes=0).users
    72808
    >>> plan(epsilon=1, margin=0.02, fakes=100).users, plan(epsilon=1, margin=0.02, fakes=0.001).fakes
    (146456, 227)
    """
    if (epsilon, users, margin).count(None) != 1:
        raise ValueError("give exactly two of epsilon, users and margin; the plan is the third")
    if not 0 < checked_number(mass, "mass") <= 1:
        raise ValueError(f"mass must lie in (0, 1], got {short(mass)}; it bounds the share of users in the cell")
    if margin is not None and not 0 < checked_number(margin, "margin") <= mass:
        raise ValueError(f"margin must lie in (0, {mass:g}], got {short(margin)}: no cell's exceeds the share it holds")
    checked_probability(confidence)
    checked_probability(power, "power")
    n = 1 if users is None else checked_users(users, "it is how many reports are expected")
    amount = declared(fakes)
    if users is not None:
        fakes_among(amount, n)
    family, level = _family(mechanism, m, d), Risk.of(confidence).spend()

    def reached(kernel: Mechanism, n: int, v: float) -> bool:
        alarm = FALSE_ALARM if isinstance(kernel, Rowed) else 0.0  # of honest reports, of which nothing is certified
        return kernel.power(n, v, mass, level, count_of(amount, n)) - alarm >= power

    if epsilon is None:
        v = margin or 0.0
        found = epsilon = _least(lambda e: reached(family(stated(e, "epsilon")), n, v), LEAST_EPSILON, MOST_EPSILON)
    else:
        kernel = family(checked_epsilon(epsilon))
        if margin is None:
            found = margin = _least(lambda v: reached(kernel, n, v), 0.0, mass)
        else:
            v = margin
            found = n = _least_users(lambda n: reached(kernel, n, v), lambda: _out_of_reach(kernel, v, amount))
    e, v = (math.inf if value is None else value for value in (epsilon, margin))
    return Plan(e, n, v, confidence, found is not None, power, mechanism, count_of(amount, n))


def planned_epsilon(central_epsilon: float, *, users: int, delta: float, law: Law, fakes: int) -> Central:
    """Return what a local epsilon keeps that is as short as it is printed, and suffices for the central one."""
    given = {"users": users, "delta": delta, "mechanism": law.mechanism, "symbols": law.symbols, "fakes": fakes}
    found = local_epsilon(central_epsilon, **given)  # type: ignore[arg-type]
    return shuffled(float(show_down(found, DIGITS)), **given)  # type: ignore[arg-type]


def central_of(
    central_epsilon: float,
    *,
    users: int,
    delta: float,
    fakes: Fakes,
    mechanism: str = "hadamard",
    m: int | None = None,
    d: int | None = None,
) -> Central:
    """Return what reports behind a shuffler keep whose local epsilon is the largest that suffices, of six digits."""
    law = law_of(_family(mechanism, m, d)(Fraction(1)))
    count = count_of(declared(fakes), checked_users(users, "it is how many reports are expected"))
    return planned_epsilon(central_epsilon, users=users, delta=delta, law=law, fakes=count)


def plan_by_power(**question: Any) -> dict[float, Plan | None]:
    """Return the plan of `plan`'s question for each of `POWERS`; None where nothing is enough."""

    def planned(power: float) -> Plan | None:
        try:
            found = plan(**question | {"power": power})
        except ValueError:  # no number of users is enough
            return None
        return found if found.feasible else None

    return {power: planned(power) for power in POWERS}


def _out_of_reach(kernel: Mechanism, margin: float, fakes: int | Fraction) -> str:
    """Say why no number of users is enough: of N reports the right label leads by N margin signal / groups on average.

    Every fake takes four off it: two by a vote for the other side, two more as the certificate allows for it.
    """
    limit = kernel.signal * margin / (4 * kernel.groups)
    if isinstance(fakes, int) or fakes < limit:
        return "no number holds the plan; take less extreme epsilon, margin, confidence and power"
    return (
        f"fakes: no number of users outvotes a share of {float(fakes):g} in a cell of margin {margin:g} with "
        f"{kernel.name!r} at epsilon {float(kernel.epsilon):g}, only one below {show_down(limit)}; take a smaller one, "
        "a clearer margin or a larger epsilon"
    )


def _family(mechanism: str, m: int | None, d: int | None) -> Callable[[Fraction], Mechanism]:
    able = [name for name, kind in MECHANISMS.items() if kind.duels is not Mechanism.duels]  # of exact tests
    if mechanism not in able:
        raise ValueError(f"mechanism must be one that certifies: {', '.join(able)}; got {short(mechanism)}")
    krr = mechanism == "krr"
    for name, value, needed in (("m", m, krr), ("d", d, krr or MECHANISMS[mechanism].overlapping)):
        if value is None and needed:
            raise ValueError(
                f"{name} is missing: what {mechanism!r} needs depends on it; give m, cells per axis, and d"
            )
        if value is not None:
            whole(name, value)
    if d is not None and d > MOST_GRID_AXES:
        raise ValueError(f"d must be at most {MOST_GRID_AXES}, got {short(d)}; cells on more features hold nobody")
    if m is not None and m ** (d or 1) > MOST_CELLS:
        raise ValueError(f"m = {short(m)} gives more than {MOST_CELLS:.0e} cells; take a smaller m")
    return lambda epsilon: MECHANISMS[mechanism](epsilon, int(m or 1), int(d or 1), 2)


def _least_users(reached: Callable[[int], bool], why_not: Callable[[], str]) -> int:
    """Return a number that reaches, by doubling and halving; nothing but what was seen to reach is returned."""
    high = 1
    while not reached(high):
        high *= 2
        if high > MOST_USERS:
            raise ValueError(why_not())
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
    while high - low > SHARP / 4 * high:
        middle = math.sqrt(low * high) if low > 0 else high / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    shown = min(most, float(show_up(high)))  # as it will be printed
    return shown if reached(shown) else high


def rate(d: int, *, exponent: float = 1.0, margin_exponent: float = 1.0, private: bool = True) -> float:
    """Return the exponent of the minimax excess risk in the number of users.

    Parameters
    ----------
    d : int
        Features.
    exponent, margin_exponent : float
        Hoelder exponent beta of eta, in (0, 1], see `Holder`; and gamma, with beta gamma <= d: how rarely eta is near
        one half.  Others are refused.
    private : bool
        Under local privacy at constant epsilon, or with raw data.

    Examples
    --------
    >>> from epsworth.learner import rate
    >>> rate(1), round(rate(1, private=False), 4)
    (-0.5, -0.6667)

    References
    ----------
    Berrett & Butucea 2019: -beta (1 + gamma) / (2 beta + 2d); Audibert & Tsybakov 2007 without privacy.
    """
    beta, gamma = checked_number(exponent, "exponent"), checked_number(margin_exponent, "margin_exponent")
    if not (0 < beta <= 1 and gamma >= 0 and beta * gamma <= checked_number(d, "d")):
        raise ValueError(
            f"need exponent in (0, 1], margin_exponent >= 0 and their product at most d, got {beta}, {gamma} and {d}"
        )
    return -beta * (1 + gamma) / (2 * beta + (2 if private else 1) * d)


def expected_accuracy(
    config: LatticeConfig,
    X: ArrayLike,
    y: ArrayLike,
    *,
    users: int,
    rng: Rng = None,
    runs: int = 20,
    smoothing: Smoothing = "sure",
) -> Floats:
    """Return the accuracy on public data of ``runs`` simulated learners ``(runs,)``.

    Each run draws ``users`` users from the rows with replacement, and their sums directly: a billion users take as long
    as a thousand.  The data must be public, or a public model's: nothing here is private.  ``config``, ``X``, ``y`` and
    ``rng`` are as for `simulate`, which refuses the same, ``smoothing`` as for `Classifier.from_aggregate`.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import LatticeConfig, expected_accuracy
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> x = np.linspace(0, 1, 200)
    >>> bool(expected_accuracy(config, x[:, None], x > 0.5, users=10**9, rng=0, runs=3).min() > 0.95)
    True
    """
    draws, runs = generator(rng), whole("runs", runs)
    truth = config.label_numbers(y)
    models = (Classifier.from_aggregate(simulate(config, X, y, draws, users=users), smoothing) for _ in range(runs))
    return np.array([np.mean(model.numbers(X) == truth) for model in models])
