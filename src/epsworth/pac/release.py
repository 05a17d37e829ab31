"""Releases and their reports: the noisy vector, the promise, its limits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.pac.calibration import LEAST_NATS, MOST_NATS, Plan
from epsworth.pac.conversion import budget, posterior, tpr_bound
from epsworth.pac.modes import Calibrated, Exact, Outliers, Sampled, Settings, plan_of
from epsworth.pac.worlds import SecretSeed
from epsworth.results import Result, how_sure
from epsworth.rounding import round_up, show_up

if TYPE_CHECKING:
    from epsworth.pac.privatizer import PACPrivatizer


@dataclass(frozen=True, eq=False)
class Release(Result):
    """One noisy release: what may leave the building.

    Attributes
    ----------
    vector : ndarray, shape ``(d,)``
        The noisy numbers.
    names : tuple of str
        What they are.
    estimator_ : object
        Rebuilt from ``vector`` and pool quantities only (the vector itself for a function).

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> release = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64).fit(X).release()
    >>> release.vector.shape, release.names
    ((2,), ('output[0]', 'output[1]'))
    >>> release.report()["mode"], release.report()["mi_nats"] <= 0.1
    ('exact', True)
    """

    vector: Floats
    names: tuple[str, ...]
    estimator_: Any
    _report: dict[str, Any] = field(repr=False)

    def report(self) -> dict[str, Any]:
        """Return the promise, its soundness and its limits, as JSON-able values."""
        return deepcopy(self._report)

    def to_dict(self) -> dict[str, Any]:
        """Return the noisy numbers by name, and the report."""
        return {"release": dict(zip(self.names, self.vector.tolist(), strict=True)), "report": self.report()}

    def save_model(
        self, path: str | Path, *, names: Sequence[str] | None = None, ranges: ArrayLike | None = None
    ) -> None:  # fmt: skip
        """Write ``estimator_`` to a file without code in it, which ``epsworth predict`` and ``epsworth utility`` take.

        Parameters
        ----------
        path : str or Path
            ``.skops``: for `epsworth.load_model`, too.  ``.npz``: arrays alone, and the report.
        names : sequence of str, optional
            Of the pool's columns, by which those of a table are found.
        ranges : array_like of shape ``(columns, 2)``, optional
            Public ends of the columns that the pool was scaled to [0, 1] by: the file's model takes natural units.

        Raises
        ------
        ValueError
            For another ending, and for releases that are no model.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from sklearn.linear_model import RidgeClassifier
        >>> from epsworth import load_model
        >>> from epsworth.pac import MI, PACPrivatizer
        >>> X = np.random.default_rng(0).random((40, 2)); y = X[:, 0] > 0.5
        >>> release = PACPrivatizer(RidgeClassifier(), MI(1), worlds=64).fit(X, y).release()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save_model(Path(folder, "model.skops"), names=["age", "size"])
        ...     model = load_model(Path(folder, "model.skops"))
        >>> bool((model.coef_ == release.estimator_.coef_).all()), model.feature_names_in_.tolist()
        (True, ['age', 'size'])
        """
        from epsworth.pac.model_files import save_model

        save_model(self, path, names, ranges)

    def __str__(self) -> str:
        told = self._report
        return (
            f"{len(self.vector)} noisy numbers of {told['algorithm']}: {show_up(told['mi_nats'])} nats; membership is "
            f"inferred with {show_up(100 * told['posterior_of_membership'], 4)} % at most ({told['soundness']})"
        )


_OF_A_COLUMN = re.compile(r"(mean|centroid|component|coef)\[(?:(\d+), )?(\d+)\]")  # the last place is a column's


def by_columns(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of an algorithm's released numbers, with columns in place of their positions.

    Parameters
    ----------
    names : sequence of str
        As the mechanism of a named algorithm gives them.
    columns : sequence of str
        Columns of the pool, in their order.

    Examples
    --------
    >>> by_columns(["centroid[2, 1]", "mean[0]", "intercept[0]"], ["age", "bmi"])
    ('centroid[2, bmi]', 'mean[age]', 'intercept[0]')
    """

    def named(name: str) -> str:
        found = _OF_A_COLUMN.fullmatch(name)
        if found is None:
            return name
        what, row, place = found.groups()
        column = columns[int(place)]
        return f"{what}[{column}]" if row is None else f"{what}[{row}, {column}]"

    return tuple(map(named, names))


LIMITS = (
    "The secret is which part of the pool was used. Being in the pool at all is not protected: noise scale, reference "
    "and default output are functions of the pool. If pool membership matters, fit everything outside the sub-sample "
    "on public data and clip records first.",
    "The bound is on average success. A rare but sure guess can do better than the average suggests, as the share of "
    "used rows says that is found with few false alarms. A sub-sample whose output no other one resembles is "
    "recognised when it is the secret one, however small the chance of that.",
    "This is not differential privacy: it holds for the stated random sub-sample only, not for a second release "
    "unless a ledger counts it, and not against someone who knows which other records are in (in a list of worlds that "
    "is known, a few known memberships name the world; of a fixed-size subset, all but one name the last).",
    "Only what is noised is protected: everything that leaves must be in the released vector.",
)
ESTIMATED = "Variances estimated from sampled worlds are not a proof."

SOUNDNESS = {
    "exact": "exact: a fact about the finite list of worlds",
    "certified": "certified: holds {} over the simulated worlds",
    "estimated": "estimate, no proof",
}


def report_of(fitted: Calibrated, plan: Plan, told: float, outliers: Outliers | None) -> dict[str, Any]:
    """Return the report of a release as JSON-able values; promises are rounded up.

    Parameters
    ----------
    plan : Plan
        Of this release.
    told : float
        Nats that all releases about the same secret have told, this one included: what success is bounded by.
    outliers : Outliers, optional
        The listed worlds that stand out from this release's noise.
    """
    settings, sampler, trials = fitted.settings, fitted.experiment.sampler, fitted.trials
    limits = (
        nats_beyond_records(settings, plan),
        outliers.sentence if outliers else None,
        _price_of_a_public_list(fitted),
    )
    found: dict[str, Any] = {
        "algorithm": type(settings.estimator).__name__
        if not isinstance(settings.estimator, str)
        else settings.estimator,
        "budget": str(settings.budget),
        "mode": settings.mode,
        "soundness": SOUNDNESS[settings.mode].format(how_sure(fitted.confidence or 1.0)),
        "confidence": fitted.confidence,
        "mi_nats": _up(plan.mi),
        "posterior_at_prior_0.5": _success(told, 0.5),
        "largest_record_prior": fitted.record_prior,
        **_of_records(fitted, told),
        "worlds": len(trials.outputs),
        "worlds_seed": "secret" if isinstance(sampler.seed, SecretSeed) else int(sampler.seed),
        "rate": settings.rate,
        "pool_rows": len(fitted.experiment.X),
        "units": len(sampler.units),
        "released_numbers": trials.outputs.shape[1],
        "noised_directions": len(plan.frame),
        "noise": settings.noise,
        "basis": plan.frame.basis,
        "noise_trace": plan.trace,
        "failed_fits": int(trials.failed.sum()),
        "failed_fits_are": "replaced by the pool's own output, in the simulation and in the release",
        "fit_warnings": trials.warned,
        "limits": [*LIMITS, *([ESTIMATED] if settings.mode == "estimated" else []), *filter(None, limits)],
    }
    if settings.of_records is not None:
        found["most_nats_in_all"] = _up(settings.of_records.joint.mi)
    if outliers is not None:
        found["worlds_that_tell_a_membership"] = outliers.count
        found["chance_of_a_release_from_them"] = _up(outliers.chance)
    return found | _of_mode(fitted, told)


def _of_records(fitted: Calibrated, told: float) -> dict[str, float]:
    """Return how exposed a single record is: by all that is told, or by less where a budget speaks of records."""
    membership = _success(told, fitted.record_prior)
    caught = max(_caught(told, share) for share in fitted.shares)
    if (settings := fitted.settings.of_records) is not None:
        if isinstance(fitted, Exact) and fitted.exposure is not None:
            membership = min(membership, _up(fitted.exposure.worst))
            caught = min(caught, _up(fitted.exposure.surest)) if settings.fpr >= 0.001 else caught
        else:  # estimated: what exchanging one record tells
            own = budget(settings.q, fitted.record_prior)
            membership = min(membership, _up(settings.q))
            caught = min(caught, max(_caught(own, share) for share in fitted.shares))
        if membership > _up(settings.q):
            raise RuntimeError("the report would contradict its promise for single records; nothing is released")
    return {"posterior_of_membership": membership, "tpr_at_fpr_0.001": caught}


def nats_beyond_records(settings: Settings, plan: Plan) -> str | None:
    """Return the sentence for a budget of single records that leaves joint questions without an answer's cost."""
    if settings.of_records is None or plan.mi <= math.log(2):
        return None
    return (
        f"The release may tell {show_up(plan.mi, 3)} nats in all: above ln 2 = 0.693, a question about several records "
        "may be answered with certainty, though no single record is; give RecordPosterior a smaller joint."
    )


def _price_of_a_public_list(fitted: Calibrated) -> str | None:
    if isinstance(fitted, Sampled) or isinstance(fitted.experiment.sampler.seed, SecretSeed):
        return None
    few = math.ceil(math.log2(len(fitted.trials.outputs))) + 1
    return (
        f"The list of worlds is public (worlds_seed was given): {few} known memberships are about enough to name the "
        "world, and with it everyone's membership. Without worlds_seed the list is secret."
    )


def _of_mode(fitted: Calibrated, told: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(fitted, Exact):
        found |= {
            "prior_of_naming_the_world": fitted.world_prior,
            "posterior_of_naming_the_world": _success(told, fitted.world_prior),
            "joint_tasks": "blind success at tasks about several records is unknown for a finite list; only naming "
            "the world has a known prior",
        }
        if (worst := fitted.exposure) is not None:
            found |= {
                "worst_record_upper_limit": _up(worst.worst),
                f"worst_record_tpr_at_fpr_{worst.fpr:g}": _up(worst.surest),
                "chance_that_a_world_is_named": _up(worst.named),
                "worst_record_confidence": worst.confidence,
                "groups_of_nearest_rows_within_the_same_nats": worst.groups,
            }
    elif isinstance(fitted, Sampled) and (certificate := fitted.certificate) is not None:
        found |= {
            "certified_on_worlds": certificate.worlds,
            "mi_whatever_the_worlds_were": _up(certificate.unconditional),
            "zcdp_for_replacing_the_subset": _up(certificate.zcdp),
            "clip": "outputs farther from the centre than any pilot world (by 1.12) are pulled in",
        }
    elif fitted.settings.of_records is not None:
        found["worst_record_posterior_estimate"] = _up(fitted.settings.of_records.q)
    return found


@lru_cache(maxsize=256)  # exact conversions take ten milliseconds, and a fit may release thousands of times
def _success(told: float, prior: float) -> float:
    """Return the best success after this many nats, rounded up."""
    return _up(posterior(told, prior))


@lru_cache(maxsize=256)
def _caught(told: float, share: float) -> float:
    """Return the largest true-positive rate for a record that this share of the worlds holds, rounded up."""
    return _up(tpr_bound(told, share, 0.001)) if 0 < share < 1 else 1.0


def _up(value: float) -> float:
    return round_up(value, 6)


FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)  # of the budget, whose noise is told, too


def noise_summary(privatizer: PACPrivatizer, names: Sequence[str] | None = None) -> dict[str, Any]:
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
    settings = Settings.of(privatizer)
    if settings.mode == "exact" and settings.of_records is None and settings.noise != "task" and plan.mi > 0:
        found["by_budget"] = [_other(privatizer, settings, plan.mi * factor) for factor in FACTORS
                              if LEAST_NATS <= plan.mi * factor <= MOST_NATS]  # fmt: skip
    return found


def _other(privatizer: PACPrivatizer, settings: Settings, mi: float) -> dict[str, float]:
    plan = plan_of(settings, privatizer.calibrated_.experiment, privatizer.trials_, mi)
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
