"""The noise of a release in numbers, and what other budgets would cost: functions of the plan, which is public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epsworth.arrays import Floats
from epsworth.pac.calibration import LEAST_NATS, MOST_NATS, Plan
from epsworth.pac.conversion import posterior
from epsworth.pac.modes import plan_of
from epsworth.pac.settings import Settings

if TYPE_CHECKING:
    from epsworth.pac.privatizer import PACPrivatizer

FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)  # of the budget, whose noise is told, too


def noise_told(privatizer: PACPrivatizer, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return standard deviations of the noise and of the worlds by released number, and the noise of other budgets.

    Numbers are called by ``names``, by default the mechanism's own.  All of it is a function of the plan, or of plans
    for other budgets: of the pool, not of the secret sub-sample.  Other budgets are told in mode "exact" for budgets in
    nats and rules: elsewhere each would need a certificate, or thousands of simulated releases, of its own.
    """
    plan = privatizer.plan_
    noise, spread = per_number(plan, plan.noise), per_number(plan, plan.variances)
    numbers = [
        {"name": name, "sd": sd, "sd_of_worlds": own}
        for name, sd, own in zip(names or privatizer.mechanism_.names, noise.tolist(), spread.tolist(), strict=True)
    ]
    found: dict[str, Any] = {"numbers": numbers}
    asked = Settings.of(privatizer)
    if asked.mode == "exact" and asked.of_records is None and asked.noise != "task" and plan.mi > 0:
        found["by_budget"] = [_other(privatizer, asked, plan.mi * factor) for factor in FACTORS
                              if LEAST_NATS <= plan.mi * factor <= MOST_NATS]  # fmt: skip
    return found


def _other(privatizer: PACPrivatizer, asked: Settings, mi: float) -> dict[str, float]:
    plan = plan_of(asked, privatizer.calibrated_.experiment, privatizer.trials_, mi)
    sd = float(np.sqrt(np.mean(per_number(plan, plan.noise) ** 2)))
    return {"nats": mi, "posterior_of_membership": posterior(mi, privatizer.calibrated_.record_prior), "sd": sd}


def per_number(plan: Plan, variances: Floats) -> Floats:
    """Return standard deviations of the released numbers, from variances in each direction of a plan's frame.

    Examples
    --------
    >>> from epsworth.pac.calibration import Frame
    >>> frame = Frame(np.zeros(2), np.array([[0.6, 0.8]]))
    >>> per_number(Plan(frame, np.ones(1), np.ones(1), 5.0, 0.1), np.array([25.0])).tolist()
    [3.0, 4.0]
    """
    frame, found = plan.frame, np.zeros(len(plan.frame.centre))
    if frame.axes.ndim == 1:
        found[frame.axes] = variances
    else:
        found = (frame.axes**2 * variances[:, None]).sum(axis=0)
    return np.asarray(np.sqrt(found) / frame.units)
