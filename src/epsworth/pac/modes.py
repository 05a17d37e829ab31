"""Settings of a privatizer, and what each mode makes of its trials."""

from __future__ import annotations

import numbers
import os
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Overspent, Risk
from epsworth.pac.allocation import Steps
from epsworth.pac.budgets import Budget, RecordPosterior, as_budget
from epsworth.pac.calibration import (
    TRIALS_PER_DIRECTION,
    Basis,
    Noise,
    Plan,
    Shape,
    calibrate,
    check_choices,
    check_nats,
    task_of,
)
from epsworth.pac.certificate import PILOT, Certificate, certify
from epsworth.pac.exposure import MOST_WORK, standing_out
from epsworth.pac.fingerprints import mark
from epsworth.pac.mechanism import Prepare, as_numbers
from epsworth.pac.records import Events, RecordLimits, nearest_groups, plan_for_records, plan_from_exchanges
from epsworth.pac.simulation import Experiment, Stop, Trials
from epsworth.pac.worlds import Listed, SecretSeed, Seed, analysis_rng
from epsworth.parallel import check_n_jobs
from epsworth.rounding import round_up
from epsworth.threads import on_one_thread

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
    def of(cls, settings: Any) -> Settings:
        """Read the parameters of an estimator."""
        return cls(**{one.name: getattr(settings, one.name) for one in fields(cls)})

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
        if self.of_records and self.mode == "estimated" and self.of_records.tpr is not None:
            raise ValueError("RecordPosterior: tpr is shown by simulated attacks; it needs mode='exact', or drop it")
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


@dataclass(frozen=True, eq=False)
class Calibrated(ABC):
    """What a fit found; as private as the pool.

    Attributes
    ----------
    settings, experiment, trials : Settings, Experiment, Trials
        What was asked for, what was run, and what came out.
    plan : Plan
        How a vector is released.
    shares : (float, float)
        Least and largest chance of a record to be in the secret sub-sample.
    record_prior : float
        Blind success at the most exposed record's membership.
    """

    settings: Settings
    experiment: Experiment
    trials: Trials
    plan: Plan
    shares: tuple[float, float]
    record_prior: float

    @property
    @abstractmethod
    def confidence(self) -> float | None:
        """With which the promise holds over the simulation; None: it is an estimate."""

    @abstractmethod
    def secret_positions(self) -> Steps:
        """Return the un-noised output of a fresh secret on the grid; the caller adds noise before all else."""

    @abstractmethod
    def outliers(self, plan: Plan, belief: Floats | None = None) -> Outliers | None:
        """Return the listed worlds that a release by this plan gives away; of fresh sub-samples there is no list."""


@dataclass(frozen=True, eq=False)
class Exact(Calibrated):
    """The secret is one of the listed worlds.

    Attributes
    ----------
    world_prior : float
        Blind success at naming the world.
    exposure : RecordLimits or None
        For a budget of single records: how exposed they are.
    """

    world_prior: float
    exposure: RecordLimits | None
    confidence = 1.0
    certificate = None

    def secret_positions(self) -> Steps:
        """Draw a world by the operating system."""
        listed = self.plan.positions(self.trials.outputs)  # all, so that bits are those that were calibrated on
        return np.asarray(listed[secrets.randbelow(len(listed))])

    def outliers(self, plan: Plan, belief: Floats | None = None) -> Outliers:
        """Find the worlds that stand out, under the public's belief about the secret one (None: even)."""
        outputs = self.trials.outputs
        p = np.full(len(outputs), 1 / len(outputs)) if belief is None else belief
        whitened, units = plan.positions(outputs) / plan.ratio, listed_units(self.experiment, self.trials)
        found = np.zeros(len(outputs), dtype=bool)
        for block in units.blocks():
            found |= standing_out(whitened, block, p, MOST_WORK * block.shape[1] // units.units)
        return Outliers(int(found.sum()), len(found), min(1.0, float(p[found].sum())))


@dataclass(frozen=True, eq=False)
class Sampled(Calibrated):
    """The secret is a fresh sub-sample.

    Attributes
    ----------
    certificate : Certificate or None
        None in the mode ``estimated``, which proves nothing.
    """

    certificate: Certificate | None
    exposure = None

    @property
    def confidence(self) -> float | None:
        """That of the certificate."""
        return None if self.certificate is None else self.certificate.confidence

    def secret_positions(self) -> Steps:
        """Draw a sub-sample by the operating system, and run the algorithm on it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would tell something of the secret
            found = on_one_thread(self.experiment.output, self.experiment.sampler.fresh())  # as the trials ran
        reference = self.experiment.mechanism.reference
        return self.plan.positions(reference if found is None or found.shape != reference.shape else found)

    def outliers(self, plan: Plan, belief: Floats | None = None) -> None:
        """Return None."""


@dataclass(frozen=True)
class Outliers:
    """Listed worlds that stand out from the noise, and the chance that the secret one is among them."""

    count: int
    worlds: int
    chance: float

    @property
    def sentence(self) -> str | None:
        """What to say of them, None where there are none."""
        if not self.count:
            return None
        return (
            f"{self.count} of the {self.worlds} listed worlds stand out from the noise: a release from one of them "
            f"(chance {round_up(100 * self.chance)} %) all but tells the membership of some record, up to all of them, "
            "though the bounds on average success hold; take a smaller budget, or an output that no single sub-sample "
            "moves so far (clip it)."
        )


def calibrated(
    settings: Settings, experiment: Experiment, trials: Trials, tick: Callable[[], None] = lambda: None
) -> Exact | Sampled:  # fmt: skip
    """Return what the mode makes of the trials; ``tick`` is called now and then while records are attacked."""
    if settings.mode == "exact":
        return _exact(settings, experiment, trials, tick)
    shares, budget = experiment.sampler.inclusion, settings.of_records
    prior = float(np.maximum(shares, 1 - shares).max())
    certificate = None
    if settings.mode == "certified":
        certificate = certificate_of(settings, experiment, trials, settings.budget.mi)  # type: ignore[union-attr]
    if certificate is not None:
        plan = certificate.plan
    elif budget is not None:
        prior, rate = experiment.sampler.certain, shares[np.abs(shares - 0.5).argmin()]
        units, shape = len(experiment.sampler.units), shape_of(settings, experiment, trials)
        plan = plan_from_exchanges(trials.outputs, units, budget.q, budget.joint.mi, prior, rate, shape)
    else:
        plan = plan_of(settings, experiment, trials, settings.budget.mi)  # type: ignore[union-attr]
    ends = float(shares.min()), float(shares.max())
    return Sampled(settings, experiment, trials, plan, ends, prior, certificate)


def _exact(settings: Settings, experiment: Experiment, trials: Trials, tick: Callable[[], None]) -> Exact:
    units, budget, exposure = listed_units(experiment, trials), settings.of_records, None
    if budget is None:
        plan = plan_of(settings, experiment, trials, settings.budget.mi)  # type: ignore[union-attr]
    else:
        sampler = experiment.sampler
        events = Events.of(np.hstack(list(units.blocks())), nearest_groups(experiment.X, sampler.units))
        shape, rng = shape_of(settings, experiment, trials), analysis_rng(sampler.seed)
        plan, exposure = plan_for_records(trials.outputs, events, budget, shape, rng, tick)
    ends, named = (float(units.shares.min()), float(units.shares.max())), units.multiplicity / len(units)
    return Exact(settings, experiment, trials, plan, ends, units.prior, named, exposure)


def listed(experiment: Experiment, trials: Trials) -> Bools:
    """Return which rows each listed world holds, shape ``(worlds, rows)``."""
    return experiment.sampler.draw(range(len(trials.outputs)))


def listed_units(experiment: Experiment, trials: Trials) -> Listed:
    """Return which units each listed world holds; rows of a unit are held alike."""
    sampler = experiment.sampler
    return Listed(sampler.packed(range(len(trials.outputs))), len(sampler.units))


def shape_of(
    settings: Settings, experiment: Experiment, trials: Trials, rule: Noise | None = None, basis: Basis | None = None
) -> Shape:  # fmt: skip
    """Return the noise's shape: eigenvectors where they are facts, or estimated from enough trials."""
    rule, basis, (count, numbers) = rule or settings.noise, basis or settings.basis, trials.outputs.shape
    if basis == "auto" and settings.mode != "exact":
        pilot = count // (PILOT if settings.mode == "certified" else 1)
        basis = "svd" if pilot >= TRIALS_PER_DIRECTION * numbers else "diag"
    weights = checked_weights(settings.weights, numbers)
    if rule == "task":
        return Shape("optimal", basis, weights, task_of(experiment, settings.scorer).noise)
    return Shape(rule, basis, weights)


def plan_of(
    settings: Settings,
    experiment: Experiment,
    trials: Trials,
    mi: float,
    rule: Noise | None = None,
    basis: Basis | None = None,
) -> Plan:
    """Return the plan of a budget in nats: certified on the trials where that is the mode."""
    if settings.mode == "certified":
        return certificate_of(settings, experiment, trials, mi, rule, basis).plan
    return calibrate(trials.outputs, mi, shape_of(settings, experiment, trials, rule, basis))


def certificate_of(
    settings: Settings,
    experiment: Experiment,
    trials: Trials,
    mi: float,
    rule: Noise | None = None,
    basis: Basis | None = None,
) -> Certificate:
    """Certify a plan: the first fifth of the trials is the pilot, all others are bet on."""
    outputs, risk = trials.outputs, Risk.of(settings.confidence)
    pilot = max(2, len(outputs) // PILOT)
    found = certify(outputs[:pilot], outputs[pilot:], mi, shape_of(settings, experiment, trials, rule, basis), risk)
    if found.spent > risk.total:
        raise Overspent(f"the certificate spent {found.spent} of a risk of {risk.total}; nothing is released")
    return found
