"""Several releases about one secret: one world, budgets that add up, a total."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Callable
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.pac.allocation import Steps
from epsworth.pac.budgets import MI, DPEquivalent, Posterior
from epsworth.pac.calibration import Plan
from epsworth.results import Result
from epsworth.rounding import float_above, show_down, show_up


class ProcessLock:
    """A lock whose holder is alone with a secret and its budget; other processes are refused before they wait for it.

    Parameters
    ----------
    what : str
        What messages call that which it guards.
    use : str
        What its owner does with it.

    Examples
    --------
    >>> with ProcessLock("ledger", "release"):
    ...     pass
    """

    def __init__(self, what: str, use: str) -> None:
        self.what, self.use = what, use
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def at_home(self) -> bool:
        """Whether this is the process that made it."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuse any other process."""
        if not self.at_home:
            raise ValueError(
                f"this {self.what} belongs to the process that made it, and a copy would spend its total again; "
                f"{self.use} there"
            )

    def __enter__(self) -> None:
        """Check first: a fork may have copied the lock while it was held."""
        self.check()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {self.what} cannot be copied or pickled: a copy would spend its total again")


class Ledger(Result):
    """Keeps one secret world for a series of releases, which may depend on each other's answers.

    Claim: all releases together, chosen adaptively or not, from any number of threads, obey
    MI(world; releases) <= ``spent`` <= ``total``.  Each is calibrated on the covariance under ``probabilities``, the
    public's belief about the world after the earlier answers; calibrating on the original covariance instead can
    overspend.

    Parameters
    ----------
    total : MI, Posterior or DPEquivalent
        What all releases together may spend.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, Ledger, PACPrivatizer
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> fitted = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64, worlds_seed=0).fit(X)
    >>> ledger = Ledger(MI(0.25))
    >>> first, second = fitted.release(ledger), fitted.release(ledger)  # about one secret half
    >>> ledger.releases, round(ledger.spent, 3), ledger.total
    (2, 0.2, 0.25)

    Notes
    -----
    The chain rule adds the conditional informations; given the past the world has exactly these probabilities,
    since they are updated with the very law of the noise.  The world itself is never shown, stored or pickled.
    Costs are added without rounding, and one lock is held from the first check to the last entry.  There is one
    ledger, in the process that made it: it cannot be copied, and a forked process is refused.
    """

    def __init__(self, total: MI | Posterior | DPEquivalent) -> None:
        if not isinstance(total, (MI, Posterior, DPEquivalent)):
            raise TypeError(f"total must be MI(..), Posterior(..) or DPEquivalent(..), got {total!r}")
        self._total = total.mi
        self._spent = Fraction(0)
        self._releases = 0
        self._world: int | None = None
        self._probabilities: Floats | None = None
        self._of = ""
        self._lock = ProcessLock("ledger", "release")

    @property
    def total(self) -> float:
        """Nats that all releases together may spend."""
        return self._total

    @property
    def spent(self) -> float:
        """Nats spent so far, rounded up."""
        return float_above(self._spent)

    @property
    def releases(self) -> int:
        """How many releases were made."""
        return self._releases

    @property
    def probabilities(self) -> Floats | None:
        """A copy of the public's belief about the world, a function of released values only."""
        return None if self._probabilities is None else self._probabilities.copy()

    def __repr__(self) -> str:
        """Show budget and use, nothing else."""
        return f"Ledger(spent {show_up(self.spent)} of {self.total:g} nats in {self.releases} releases)"

    def __str__(self) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger knows the secret world and stays in memory; keep to_dict(), its public part, instead")

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown: the probabilities are a function of released values only."""
        p = self.probabilities
        shown = None if p is None else p.tolist()
        return {"total": self.total, "spent": self.spent, "releases": self.releases, "probabilities": shown}

    def draw(
        self, members: Bools, mi: float, planned: Callable[[Floats], tuple[Plan, Steps]]
    ) -> tuple[Plan, Steps, float]:  # fmt: skip
        """Make one release: check, calibrate, charge, draw and update the belief, without anyone in between.

        Parameters
        ----------
        members : ndarray of bool, shape ``(m, n)``
            The list of worlds, the same for all releases.
        mi : float
            What the release may cost; refused where more than that is not left.
        planned : callable
            Takes the belief about the world; returns the plan and the grid positions of all worlds' outputs.

        Returns
        -------
        plan, noisy, spent : Plan, ndarray of int, float
            The noisy grid positions, and the nats of all releases so far, this one included.
        """
        with self._lock:
            world, belief = self._open(members, mi)
            plan, positions = planned(belief.copy())
            if not plan.mi <= mi:
                raise ValueError(f"this release would cost {show_up(plan.mi)} nats, not the {show_up(mi)} asked for")
            self._spent += Fraction(plan.mi)  # before the draw: whatever fails from here on is paid for
            self._releases += 1
            noisy = positions[world] + plan.law.draw(positions.shape[1])
            self._probabilities = updated(belief, plan, positions, noisy)
            return plan, noisy, self.spent

    def _open(self, members: Bools, mi: float) -> tuple[int, Floats]:
        """Return the secret world and the belief for a release that costs ``mi``; the first one draws the world."""
        mark = hashlib.sha256(np.packbits(members).tobytes() + repr(members.shape).encode()).hexdigest()
        if self._of not in ("", mark):
            raise ValueError(
                "this ledger's secret is a world of another list; take the same pool, number of worlds and rate, and "
                "worlds_seed=first.worlds_seed_ of the fit whose release was the first"
            )
        left = Fraction(self._total) - self._spent
        if Fraction(mi) > left:
            raise ValueError(
                f"the ledger has {show_down(float(left))} of {show_down(self._total)} nats left and this release "
                f"costs {show_up(mi)}; take a smaller budget, or stop here"
            )
        if self._world is None or self._probabilities is None:
            self._world = secrets.randbelow(len(members))
            self._of, self._probabilities = mark, np.full(len(members), 1 / len(members))
        return self._world, self._probabilities


class Tally:
    """Nats of releases that have secrets of their own: added up without rounding, from any number of threads.

    Copies of a fit in one process share it, since what either releases is about the same records.  A pickle starts from
    what it knew.
    """

    def __init__(self) -> None:
        self._sum = Fraction(0)
        self._lock = threading.Lock()

    def add(self, nats: float) -> float:
        """Count a release; return the sum, rounded up."""
        with self._lock:
            self._sum += Fraction(nats)
            return self.sum

    @property
    def sum(self) -> float:
        """Nats so far, rounded up."""
        return float_above(self._sum)

    def __copy__(self) -> Tally:
        return self

    def __deepcopy__(self, memo: object) -> Tally:
        return self

    def __reduce__(self) -> tuple[Callable[[Fraction], Tally], tuple[Fraction]]:
        return Tally._of, (self._sum,)

    @classmethod
    def _of(cls, total: Fraction) -> Tally:
        made = cls()
        made._sum = total
        return made


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
