"""What a fit makes of its trials: one frozen value per mode, with all that a release and its report need."""

from __future__ import annotations

import secrets
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Overspent, Risk
from epsworth.pac.calibration import TRIALS_PER_DIRECTION, Basis, Noise, Plan, Shape, calibrate
from epsworth.pac.certificate import Certificate, certify
from epsworth.pac.exposure import MOST_WORK, Exposure, standing_out
from epsworth.pac.lattice import Steps
from epsworth.pac.record_budgets import mutual_neighbours, plan_for_records, plan_from_exchanges
from epsworth.pac.settings import Settings, checked_weights
from epsworth.pac.simulation import Experiment, Trials
from epsworth.pac.task_noise import task_of
from epsworth.pac.worlds import Listed, analysis_rng
from epsworth.rounding import round_up
from epsworth.threads import on_one_thread


@dataclass(frozen=True, eq=False)
class Calibrated(ABC):
    """What a fit found; as private as the pool.

    Attributes
    ----------
    asked, experiment, trials : Settings, Experiment, Trials
        What was asked for, what was run, and what came out.
    plan : Plan
        How a vector is released.
    shares : (float, float)
        Least and largest chance of a record to be in the secret sub-sample.
    record_prior : float
        Blind success at the most exposed record's membership.
    """

    asked: Settings
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
    def apart(self, plan: Plan, belief: Floats | None = None) -> Apart | None:
        """Return the listed worlds that a release by this plan gives away; of fresh sub-samples there is no list."""


@dataclass(frozen=True, eq=False)
class Exact(Calibrated):
    """The secret is one of the listed worlds.

    Attributes
    ----------
    world_prior : float
        Blind success at naming the world.
    exposure, pairs : Exposure or None, int
        For a budget of single records: how exposed they are, and how many pairs of nearest rows were looked at.
    """

    world_prior: float
    exposure: Exposure | None
    pairs: int
    confidence = 1.0
    certificate = None

    def secret_positions(self) -> Steps:
        """Draw a world by the operating system."""
        listed = self.plan.positions(self.trials.outputs)  # all, so that bits are those that were calibrated on
        return np.asarray(listed[secrets.randbelow(len(listed))])

    def apart(self, plan: Plan, belief: Floats | None = None) -> Apart:
        """Find the worlds that stand out, under the public's belief about the secret one (None: even)."""
        outputs = self.trials.outputs
        p = np.full(len(outputs), 1 / len(outputs)) if belief is None else belief
        whitened, units = plan.positions(outputs) / plan.ratio, listed_units(self.experiment, self.trials)
        found = np.zeros(len(outputs), dtype=bool)
        for block in units.blocks():
            found |= standing_out(whitened, block, p, MOST_WORK * block.shape[1] // units.units)
        return Apart(int(found.sum()), len(found), min(1.0, float(p[found].sum())))


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

    def apart(self, plan: Plan, belief: Floats | None = None) -> None:
        """Return None."""


@dataclass(frozen=True)
class Apart:
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


def calibrated(asked: Settings, experiment: Experiment, trials: Trials) -> Exact | Sampled:
    """Return what the mode makes of the trials."""
    if asked.mode == "exact":
        return _exact(asked, experiment, trials)
    shares, budget = experiment.sampler.inclusion, asked.of_records
    prior = float(np.maximum(shares, 1 - shares).max())
    certificate = certificate_of(asked, experiment, trials, asked.budget.mi) if asked.mode == "certified" else None  # type: ignore[union-attr]  # no RecordPosterior
    if certificate is not None:
        plan = certificate.plan
    elif budget is not None:
        prior, rate = experiment.sampler.certain, shares[np.abs(shares - 0.5).argmin()]
        units, shape = len(experiment.sampler.units), shape_of(asked, experiment, trials)
        plan = plan_from_exchanges(trials.outputs, units, budget.q, budget.joint.mi, prior, rate, shape)
    else:
        plan = plan_of(asked, experiment, trials, asked.budget.mi)  # type: ignore[union-attr]
    ends = float(shares.min()), float(shares.max())
    return Sampled(asked, experiment, trials, plan, ends, prior, certificate)


def _exact(asked: Settings, experiment: Experiment, trials: Trials) -> Exact:
    units, budget = listed_units(experiment, trials), asked.of_records
    exposure, pairs = None, 0
    if budget is None:
        plan = plan_of(asked, experiment, trials, asked.budget.mi)  # type: ignore[union-attr]
    else:
        members = listed(experiment, trials)
        near, rng = mutual_neighbours(experiment.X), analysis_rng(experiment.sampler.seed)
        shape, pairs = shape_of(asked, experiment, trials), len(near)
        plan, exposure = plan_for_records(trials.outputs, members, budget.q, budget.joint.mi, shape, rng, near)
    ends, named = (float(units.shares.min()), float(units.shares.max())), units.multiplicity / len(units)
    return Exact(asked, experiment, trials, plan, ends, units.prior, named, exposure, pairs)


def listed(experiment: Experiment, trials: Trials) -> Bools:
    """Return which rows each listed world holds, shape ``(worlds, rows)``."""
    return experiment.sampler.draw(range(len(trials.outputs)))


def listed_units(experiment: Experiment, trials: Trials) -> Listed:
    """Return which units each listed world holds; rows of a unit are held alike."""
    sampler = experiment.sampler
    return Listed(sampler.packed(range(len(trials.outputs))), len(sampler.units))


def shape_of(
    asked: Settings, experiment: Experiment, trials: Trials, rule: Noise | None = None, basis: Basis | None = None
) -> Shape:  # fmt: skip
    """Return the noise's shape: eigenvectors where they are facts, or estimated from enough trials."""
    rule, basis, (count, numbers) = rule or asked.noise, basis or asked.basis, trials.outputs.shape
    if basis == "auto" and asked.mode != "exact":
        pilot = count // (3 if asked.mode == "certified" else 1)
        basis = "svd" if pilot >= TRIALS_PER_DIRECTION * numbers else "diag"
    weights = checked_weights(asked.weights, numbers)
    if rule == "task":
        return Shape("optimal", basis, weights, task_of(experiment, asked.scorer).noise)
    return Shape(rule, basis, weights)


def plan_of(
    asked: Settings,
    experiment: Experiment,
    trials: Trials,
    mi: float,
    rule: Noise | None = None,
    basis: Basis | None = None,
) -> Plan:
    """Return the plan of a budget in nats: certified on the trials where that is the mode."""
    if asked.mode == "certified":
        return certificate_of(asked, experiment, trials, mi, rule, basis).plan
    return calibrate(trials.outputs, mi, shape_of(asked, experiment, trials, rule, basis))


def certificate_of(
    asked: Settings,
    experiment: Experiment,
    trials: Trials,
    mi: float,
    rule: Noise | None = None,
    basis: Basis | None = None,
) -> Certificate:
    """Certify a plan: a third of the trials is the pilot, the others are compared in pairs."""
    outputs, risk = trials.outputs, Risk.of(asked.confidence)
    third = len(outputs) // 3
    pilot, left, right = outputs[: -2 * third], outputs[-2 * third : -third], outputs[-third:]
    found = certify(pilot, left, right, mi, shape_of(asked, experiment, trials, rule, basis), risk)
    if found.spent > risk.total:
        raise Overspent(f"the certificate spent {found.spent} of a risk of {risk.total}; nothing is released")
    return found
