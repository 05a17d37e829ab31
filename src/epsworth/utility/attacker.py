"""How sure an attacker may get of one of two values, in numbers and in words, rounded up."""

from __future__ import annotations

from epsworth.guarantees import Guarantee, ceiling
from epsworth.rounding import percent_up, round_up

SURE = 0.999999999  # beyond, an observer may as well be certain


def certainty(promise: Guarantee) -> float:
    """Return how sure of one of two values, held equally likely, a release makes whoever sees it, rounded up.

    Under a promise with a delta: how often they name the true one.
    """
    return ceiling(promise.epsilon, 2, promise.delta)  # of two values, as of two labels


def attacker(promise: Guarantee) -> str:
    """Say how far an attacker's chance of naming the true one of two values can rise, rounded up."""
    sure = certainty(promise)
    if sure >= SURE:
        return "50 % -> up to certain: this protects next to nothing"
    return f"50 % -> at most {percent_sure(sure)} %"


def percent_sure(share: float) -> str:
    """Print a share below 1 in per cent, rounded up, with as many decimals as keep it below 100, at least two.

    Examples
    --------
    >>> percent_sure(0.98201379), percent_sure(0.99995460)
    ('98.21', '99.996')
    """
    return percent_up(share, next((d for d in range(2, 14) if round_up(share, d + 2) < 1), 2))


def row(name: str, text: str) -> str:
    """Return a line of a verdict."""
    return f"  {name:<19}  {text}"


def protection(promise: Guarantee) -> str:
    """Say what a promise protects, in an observer's chances, rounded up.

    Examples
    --------
    >>> from epsworth.guarantees import Pure
    >>> print(protection(Pure(2, "record")))
    Whoever held two values of a record equally likely is at most 88.08 % sure of either after seeing one release.
    """
    sure = certainty(promise)
    whoever = f"Whoever held two values of a {promise.unit} equally likely"
    if sure >= SURE:
        return f"{whoever} may be certain of one after seeing one release: this protects next to nothing."
    percent = f"{percent_sure(sure)} %"
    if promise.notion == "pure":
        return f"{whoever} is at most {percent} sure of either after seeing one release."
    return f"{whoever} names the true one in at most {percent} of the cases after seeing one release."
