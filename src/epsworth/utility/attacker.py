"""How sure an attacker may get of one of two values, in numbers and in words, rounded up."""

from __future__ import annotations

from epsworth.guarantees import Guarantee, ceiling
from epsworth.rounding import chance_up

CERTAIN = chance_up(1)  # what prints so may as well be


def certainty(promise: Guarantee) -> float:
    """Return how sure of one of two values, held equally likely, a release makes whoever sees it, rounded up.

    Under a promise with a delta: how often they name the true one.
    """
    return ceiling(promise.epsilon, 2, promise.delta)  # of two values, as of two labels


def attacker(promise: Guarantee) -> str:
    """Say how far an attacker's chance of naming the true one of two values can rise, rounded up."""
    sure = chance_up(certainty(promise))
    if sure == CERTAIN:
        return "50 % -> up to certain: this protects next to nothing"
    return f"50 % -> at most {sure} %"


def row(name: str, text: str) -> str:
    """Return a line of a verdict."""
    return f"  {name:<19}  {text}"


def protection(promise: Guarantee) -> str:
    """Say what a promise protects, in an observer's chances, rounded up.

    Examples
    --------
    >>> from epsworth.guarantees import Pure
    >>> print(protection(Pure(2, "record")))
    Whoever held two values of a record equally likely is at most 88.1 % sure of either after seeing one release.
    """
    sure = chance_up(certainty(promise))
    whoever = f"Whoever held two values of a {promise.unit} equally likely"
    if sure == CERTAIN:
        return f"{whoever} may be certain of one after seeing one release: this protects next to nothing."
    if promise.notion == "pure":
        return f"{whoever} is at most {sure} % sure of either after seeing one release."
    return f"{whoever} names the true one in at most {sure} % of the cases after seeing one release."
