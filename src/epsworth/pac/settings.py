"""What may be asked of a `PACPrivatizer`: settings checked once, before anything is simulated."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.pac.budgets import Budget, RecordPosterior, as_budget
from epsworth.pac.calibration import Basis, Noise, check_choices, check_nats
from epsworth.pac.description import mark
from epsworth.pac.mechanism import Prepare, as_numbers
from epsworth.pac.stopping import Stop
from epsworth.pac.worlds import SecretSeed, Seed
from epsworth.parallel import check_n_jobs

Mode = Literal["exact", "certified", "estimated"]
MODES: tuple[Mode, ...] = ("exact", "certified", "estimated")
MOST_WORLDS = 10_000_000
MOST_SIMULATED = 10_000_000  # releases of an analysis
FREE = ("n_jobs", "checkpoint")  # decide how a fit runs, not what it promises


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a `PACPrivatizer`, as one value; its documentation says what they mean."""

    estimator: Any
    budget: Budget
    worlds: int
    rate: float
    mode: Mode
    noise: Noise
    basis: Basis
    weights: ArrayLike | None
    adapter: Literal["auto"] | Prepare
    worlds_seed: Seed | None
    confidence: float
    stop: Stop | None
    n_jobs: int | None
    checkpoint: str | Path | None
    scorer: Callable[[Any], float] | None = None

    @classmethod
    def of(cls, asked: Any) -> Settings:
        """Read the parameters of an estimator."""
        return cls(**{one.name: getattr(asked, one.name) for one in fields(cls)})

    @property
    def of_records(self) -> RecordPosterior | None:
        """The budget where it speaks of single records."""
        return self.budget if isinstance(self.budget, RecordPosterior) else None

    def check(self) -> None:
        """Raise ValueError or TypeError in one sentence where a setting is not allowed."""
        budget = as_budget(self.budget)
        check_choices(self.noise, self.basis)
        check_n_jobs(self.n_jobs)
        check_scorer(self.scorer, optional=True)
        if not (self.checkpoint is None or isinstance(self.checkpoint, (str, os.PathLike))):
            raise TypeError(f"checkpoint must be the path of a file (.npz) or None, got {self.checkpoint!r}")
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        if not _whole(self.worlds) or self.worlds < 8 or self.worlds % 2:
            raise ValueError(f"worlds must be an even whole number of at least 8, got {self.worlds!r}")
        if self.worlds > MOST_WORLDS:
            raise ValueError(f"worlds must be at most {MOST_WORLDS}: each runs the algorithm once; got {self.worlds!r}")
        seed = self.worlds_seed
        if not (seed is None or isinstance(seed, SecretSeed) or (_whole(seed) and int(seed) >= 0)):
            raise ValueError(
                "worlds_seed must be a whole number, not negative (a public list of worlds), None (a secret one) or "
                f"the worlds_seed_ of another fit, got {seed!r}"
            )
        for name in ("rate", "confidence"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
                raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
        check_nats(budget.joint.mi if isinstance(budget, RecordPosterior) else budget.mi)
        if self.of_records and (self.mode == "certified" or self.stop is not None):
            raise ValueError("RecordPosterior needs mode='exact', or 'estimated' (no proof) without stop")
        if self.of_records and self.mode == "estimated" and self.noise != "optimal":
            raise ValueError(f"RecordPosterior with mode='estimated' has a noise rule of its own; drop {self.noise!r}")
        if self.stop is not None and self.mode != "estimated":
            raise ValueError(f"stop is for mode='estimated'; in mode {self.mode!r} all worlds are run")

    def marks(self) -> dict[str, Any]:
        """Return what tells whether a setting was changed, also from the inside (an array, a function's closure).

        In the mode ``exact`` no function runs after the fit, so that it counts by its identity alone; a scorer never
        decides what a release tells.
        """

        def told(name: str, value: Any) -> Any:
            itself = (self.mode == "exact" or name == "scorer") and callable(value) and not hasattr(value, "get_params")
            return value if itself else mark(value)

        return {one.name: told(one.name, getattr(self, one.name)) for one in fields(self) if one.name not in FREE}

    def check_unchanged(self, at_fit: dict[str, Any]) -> None:
        """Refuse to promise by settings whose marks were others at the fit."""
        now = self.marks()
        for name, was in at_fit.items():
            if now[name] is not was and not (isinstance(was, str) and now[name] == was):
                raise ValueError(f"{name} was changed after fit; fit again")


def checked_count(name: str, value: Any, least: int = 1) -> int:
    """Return how many simulated releases are asked for, or say how many may be."""
    if not _whole(value) or not least <= int(value) <= MOST_SIMULATED:
        shown = f", got {value!r}" if not _whole(value) or abs(int(value)) < 10**20 else ""  # digits without end
        raise ValueError(f"{name} must be a whole number from {least} to {MOST_SIMULATED}{shown}")
    return int(value)


def check_scorer(value: Any, *, optional: bool = False) -> None:
    """Raise TypeError for what cannot score a release."""
    if not (callable(value) or (optional and value is None)):
        allowed = "a function of what Release.estimator_ holds" + (", or None" if optional else "")
        raise TypeError(f"scorer must be {allowed}, got {value!r}")


def checked_weights(weights: Any, count: int) -> Floats | None:
    """Return weights as floats, one positive number per output, or None."""
    if weights is None:
        return None
    found = as_numbers(weights, "weights")
    if found.shape != (count,) or not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError(f"weights must be {count} positive numbers, one per released number, got {weights!r}")
    return found


def sealed(value: Any) -> Any:
    """Return a dataclass whose arrays cannot be written to by chance: what was calibrated on is what is released."""
    for one in fields(value):
        inside = getattr(value, one.name)
        if isinstance(inside, np.ndarray):
            inside.setflags(write=False)
        elif is_dataclass(inside) and not isinstance(inside, type):
            sealed(inside)
    return value


def _whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
