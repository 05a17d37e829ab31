"""What may be asked of a `PACPrivatizer`: settings checked once, before anything is simulated."""

from __future__ import annotations

import numbers
import os
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.pac.budgets import RecordPosterior, as_budget
from epsworth.pac.calibration import check_choices, check_nats
from epsworth.pac.description import mark
from epsworth.pac.worlds import SecretSeed
from epsworth.parallel import check_n_jobs

if TYPE_CHECKING:
    from epsworth.pac.privatizer import PACPrivatizer

Mode = Literal["exact", "certified", "estimated"]
MODES: tuple[Mode, ...] = ("exact", "certified", "estimated")
MOST_WORLDS = 10_000_000
MOST_SIMULATED = 10_000_000  # releases of an analysis
FREE = ("n_jobs", "checkpoint")  # decide how a fit runs, not what it promises


def check_settings(asked: PACPrivatizer) -> None:
    """Raise ValueError or TypeError in one sentence where a setting is not allowed."""
    budget = as_budget(asked.budget)
    check_choices(asked.noise, asked.basis)
    check_n_jobs(asked.n_jobs)
    if not (asked.checkpoint is None or isinstance(asked.checkpoint, (str, os.PathLike))):
        raise TypeError(f"checkpoint must be the path of a file (.npz) or None, got {asked.checkpoint!r}")
    if asked.mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {asked.mode!r}")
    if not _whole(asked.worlds) or asked.worlds < 8 or asked.worlds % 2:
        raise ValueError(f"worlds must be an even whole number of at least 8, got {asked.worlds!r}")
    if asked.worlds > MOST_WORLDS:
        raise ValueError(f"worlds must be at most {MOST_WORLDS}: each runs the algorithm once; got {asked.worlds!r}")
    seed = asked.worlds_seed
    if not (seed is None or isinstance(seed, SecretSeed) or (_whole(seed) and int(seed) >= 0)):
        raise ValueError(
            "worlds_seed must be a whole number, not negative (a public list of worlds), None (a secret one) or the "
            f"worlds_seed_ of another fit, got {seed!r}"
        )
    for name in ("rate", "confidence"):
        value = getattr(asked, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    check_nats(budget.joint.mi if isinstance(budget, RecordPosterior) else budget.mi)
    if isinstance(budget, RecordPosterior) and (asked.mode == "certified" or asked.stop is not None):
        raise ValueError("RecordPosterior needs mode='exact', or 'estimated' (no proof) without stop")
    if isinstance(budget, RecordPosterior) and asked.mode == "estimated" and asked.noise != "optimal":
        raise ValueError(f"RecordPosterior with mode='estimated' has a noise rule of its own; drop {asked.noise!r}")
    if asked.stop is not None and asked.mode != "estimated":
        raise ValueError(f"stop is for mode='estimated'; in mode {asked.mode!r} all worlds are run")


def checked_count(name: str, value: Any, least: int = 1) -> int:
    """Return how many simulated releases are asked for, or say how many may be."""
    if not _whole(value) or not least <= int(value) <= MOST_SIMULATED:
        shown = f", got {value!r}" if not _whole(value) or abs(int(value)) < 10**20 else ""  # digits without end
        raise ValueError(f"{name} must be a whole number from {least} to {MOST_SIMULATED}{shown}")
    return int(value)


def checked_weights(weights: Any, count: int) -> Floats | None:
    """Return weights as floats, one positive number per output, or None."""
    if weights is None:
        return None
    found = as_floats(weights)
    if found.shape != (count,) or not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError(f"weights must be {count} positive numbers, one per released number, got {weights!r}")
    return found


def settings_of(asked: PACPrivatizer) -> dict[str, Any]:
    """Return what tells whether a setting was changed, also from the inside (an array, a function's closure).

    In the mode ``exact`` no function runs after the fit, so that it counts by its identity alone.
    """
    given = {name: value for name, value in asked.get_params(deep=False).items() if name not in FREE}
    return {
        name: value if asked.mode == "exact" and callable(value) and not hasattr(value, "get_params") else mark(value)
        for name, value in given.items()
    }


def check_unchanged(asked: PACPrivatizer, at_fit: dict[str, Any]) -> None:
    """Refuse to promise by settings that were changed after the fit."""
    now = settings_of(asked)
    for name, was in at_fit.items():
        if now[name] is not was and not (isinstance(was, str) and now[name] == was):
            raise ValueError(f"{name} was changed after fit; fit again")


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
