"""Several releases about one secret: one world for all of them, budgets that add up, and a total that ends them."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import NoReturn

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.pac.budgets import MI, DPEquivalent, Posterior
from epsworth.pac.calibration import Plan
from epsworth.pac.lattice import Steps


class Ledger:
    """Keeps one secret world for a series of releases, which may depend on each other's answers.

    Claim: all releases together, chosen adaptively or not, obey MI(world; releases) <= ``spent`` <= ``total``.
    Each is calibrated on the covariance under ``probabilities``, the public's belief about the world after the
    earlier answers; calibrating on the original covariance instead can overspend.

    Parameters
    ----------
    total : MI, Posterior or DPEquivalent
        What all releases together may spend.

    Notes
    -----
    The chain rule adds the conditional informations; given the past the world has exactly these probabilities,
    since they are updated with the very law of the noise.  The world itself is never shown, stored or pickled.
    """

    def __init__(self, total: MI | Posterior | DPEquivalent) -> None:
        if not isinstance(total, (MI, Posterior, DPEquivalent)):
            raise TypeError(f"total must be MI(..), Posterior(..) or DPEquivalent(..), got {total!r}")
        self.total = total.mi
        self.spent = 0.0
        self.releases = 0
        self.probabilities: Floats | None = None
        self._of = ""

    def __repr__(self) -> str:
        """Show budget and use, nothing else."""
        return f"Ledger(spent {self.spent:g} of {self.total:g} nats in {self.releases} releases)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger knows the secret world and stays in memory; keep to_dict(), its public part, instead")

    def to_dict(self) -> dict[str, object]:
        """Return what may be shown: the probabilities are a function of released values only."""
        p = None if self.probabilities is None else self.probabilities.tolist()
        return {"total": self.total, "spent": self.spent, "releases": self.releases, "probabilities": p}

    def open(self, members: Bools, beta: float) -> int:
        """Return the secret world for a release that costs ``beta``; the first release draws it."""
        mark = hashlib.sha256(np.packbits(members).tobytes() + repr(members.shape).encode()).hexdigest()
        if self._of not in ("", mark):
            raise ValueError("this ledger's secret is a world of another list; use the same pool, worlds and seed")
        if self.spent + beta > self.total * (1 + 1e-12):
            left = max(0.0, self.total - self.spent)
            raise ValueError(
                f"the ledger has {left:g} of {self.total:g} nats left and this release costs {beta:g}; "
                "take a smaller budget, or stop here"
            )
        if self.probabilities is None:
            self._of = mark
            self.probabilities = np.full(len(members), 1 / len(members))
            self._world = secrets.randbelow(len(members))
        return self._world

    def record(self, plan: Plan, positions: Steps, released: Steps) -> None:
        """Add a release up: its cost, and Bayes' rule with the law of its noise."""
        self.spent = math.fsum([self.spent, plan.mi])
        self.releases += 1
        assert self.probabilities is not None
        self.probabilities = updated(self.probabilities, plan, positions, released)


def updated(probabilities: Floats, plan: Plan, positions: Steps, released: Steps) -> Floats:
    """Return the public's belief about the world after a release.

    Parameters
    ----------
    positions : ndarray of int, shape ``(m, r)``
        Grid positions of all worlds' outputs.
    released : ndarray of int, shape ``(r,)``
        The noisy positions that left.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) + plan.law.log_mass(released - positions).sum(axis=1)
    logs -= logs.max()
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum())
