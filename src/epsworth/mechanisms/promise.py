"""The promise of a mechanism that somebody brings, compared with its own law at many inputs."""

from __future__ import annotations

import math

import numpy as np

from epsworth.arrays import Floats
from epsworth.mechanisms.law import MASS_ERROR
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.numerals import short
from epsworth.rounding import round_up, show_up

INPUTS = 257
CHECKED = f"its promise is yours: checked at {INPUTS} inputs, not proven"
TOTAL = 1e-9  # by which masses may miss 1
SAME = 1e-6  # relative error of densities
MOST_ATOMS = 4096  # grid points that are looked at


def check_promise(name: str, mechanism: object, inputs: Floats | None = None) -> None:
    """Refuse a mechanism whose law, at `INPUTS` inputs, tells more than its guarantee says.

    Masses of small intervals, of both tails, of atoms at the ends, the inputs and grid points, and densities are
    compared: no output may be more than e^epsilon times as likely from one input as from another, but for delta.
    What passes is not proven: inputs and outputs between those that were looked at may be worse.

    Parameters
    ----------
    name : str
        What the mechanism is called.
    mechanism : Mechanism
    inputs : ndarray, optional
        Private ones on [0, 1], which are looked at instead, at most `INPUTS` of them, and named in no refusal.

    Raises
    ------
    TypeError
        If it is no `Mechanism`.
    ValueError
        If its law is none, or breaks its promise.
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"mechanisms: {name!r} must return a Mechanism for each epsilon, got {short(mechanism)}; subclass "
            "epsworth.Mechanism, or return one of MECHANISMS"
        )
    x = grid = np.linspace(0.0, 1.0, INPUTS)
    if inputs is not None:
        x = np.unique(inputs)
        x = x[np.unique(np.linspace(0, len(x) - 1, min(INPUTS, len(x))).astype(int))]
    law = mechanism.law(x[:, np.newaxis])
    inside = np.linspace(0.0, 1.0, 2 * INPUTS - 1)  # the inputs, and the middles between them
    cuts = np.concatenate([np.linspace(-1.0, 0.0, 33)[:-1], inside, np.linspace(1.0, 2.0, 33)[1:]])
    below = np.broadcast_to(law.cdf(cuts), (len(x), len(cuts)))
    masses = np.diff(below, axis=1, prepend=0.0, append=law.mass(-np.inf, np.inf))
    points = grid if mechanism.points is None else np.linspace(0.0, 1.0, min(mechanism.points, MOST_ATOMS))
    atoms, densities = law.pmf(points), law.pdf(cuts)
    shown = x if inputs is None else None
    _check_law(name, masses, densities, shown)
    promise = mechanism.guarantee
    ceiling = min(promise.epsilon, mechanism.tight_epsilon) if promise.notion == "pure" else promise.epsilon
    if promise.delta == 0:
        for likelihoods in (masses, atoms):
            _check_ratio(name, mechanism, ceiling, likelihoods, MASS_ERROR * (1 + np.exp(ceiling)), shown)
        _check_ratio(name, mechanism, ceiling, densities, SAME * densities.max(axis=0), shown)
        return
    excess = _excess(masses, promise.epsilon)
    if excess > promise.delta + TOTAL:
        raise ValueError(
            f"mechanisms: {name!r} at epsilon {show_up(mechanism.scalar_epsilon)} tells more than it says: outputs of "
            f"probability {round_up(excess)} are more likely than e^epsilon allows, and its delta is "
            f"{show_up(promise.delta)}; correct its guarantee"
        )


def _check_law(name: str, masses: Floats, densities: Floats, inputs: Floats | None) -> None:
    """Refuse what is no distribution."""
    sums = masses.sum(axis=1)
    wrong = ~(np.abs(sums - 1) <= TOTAL) | ~(masses >= -TOTAL).all(axis=1) | ~(densities >= 0).all(axis=1)
    if wrong.any():
        at = int(wrong.argmax())
        where = "at a record's own input" if inputs is None else f"at input {inputs[at]:g}"
        raise ValueError(
            f"mechanisms: {name!r} has no law {where}: its masses must add up to 1, and add up "
            f"to {sums[at]:.6g}; correct its mass and pdf"
        )


def _check_ratio(
    name: str, mechanism: Mechanism, epsilon: float, likelihoods: Floats, room: Floats | float, inputs: Floats | None
) -> None:
    """Refuse an output that is too much more likely from one input than from another."""
    most, least = likelihoods.max(axis=0), likelihoods.min(axis=0)
    over = most - np.exp(epsilon) * least - room
    if not (over <= 0).all():
        at = int(over.argmax())
        first, second = ("one record", "another")
        if inputs is not None:
            column = likelihoods[:, at]
            first, second = f"input {inputs[column.argmax()]:g}", f"{inputs[column.argmin()]:g}"
        finite, allowed = bool(least[at] > 0), float(np.exp(epsilon))
        found = float(most[at] / least[at]) if finite else math.inf
        digits = next((n for n in range(4, 17) if f"{found:.{n}g}" != f"{allowed:.{n}g}"), 17)
        ratio = f"{found:.{digits}g} times as likely" if finite else "possible"
        raise ValueError(
            f"mechanisms: {name!r} at epsilon {show_up(mechanism.scalar_epsilon)} tells more than it says: an output "
            f"is {ratio} from {first} {'as' if finite else 'and not'} from {second}, and e^epsilon is "
            f"{allowed:.{digits}g}; correct its guarantee"
        )


def _excess(masses: Floats, epsilon: float) -> float:
    """Return the largest probability, over pairs of inputs, by which one exceeds e^epsilon times the other."""
    few = masses[:: max(1, (len(masses) - 1) // 32)]
    return max(float(np.maximum(few - np.exp(epsilon) * row, 0.0).sum(axis=1).max()) for row in few)
