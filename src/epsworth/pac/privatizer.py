"""The front: an estimator or function, a budget, a pool; out come noisy releases that keep the budget."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from epsworth.arrays import Bools, Floats, generator
from epsworth.pac.adapters import prepared
from epsworth.pac.adapters.adapter import Labels, Prepare
from epsworth.pac.allocation import Rule
from epsworth.pac.budgets import MI, Budget, DPEquivalent, Posterior, RecordPosterior, nats_of
from epsworth.pac.calibration import LARGEST, TRIALS_PER_DIRECTION, Basis, Plan, Shape, calibrate, check_choices
from epsworth.pac.certificate import Certificate, certify
from epsworth.pac.exposure import Exposure, expose, rows_of
from epsworth.pac.lattice import Steps
from epsworth.pac.ledger import Ledger, Tally
from epsworth.pac.pool import check_columns, check_finite, check_pool
from epsworth.pac.record_budgets import mutual_neighbours, plan_for_records, plan_from_exchanges
from epsworth.pac.released import Release
from epsworth.pac.report import Apart, apart_of, nats_beyond_records, report_of
from epsworth.pac.settings import (
    Mode,
    check_settings,
    check_unchanged,
    checked_count,
    checked_weights,
    sealed,
    settings_of,
)
from epsworth.pac.simulation import Experiment, list_of, simulate
from epsworth.pac.stopping import Stop, stop_rule
from epsworth.pac.utility import Utility, releases_of, utility_of
from epsworth.pac.worlds import Exchanges, Sampler, Seed, Units, analysis_rng, multiplicity, priors
from epsworth.records import Indices


class PACPrivatizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Release the output of any algorithm with the least Gaussian noise for a budget of mutual information.

    Claim (``mode="exact"``): the secret is a uniformly chosen one of the listed sub-samples ("worlds") of the pool;
    a release Y obeys MI(world; Y) <= budget, so that an inference task of blind success p succeeds with q at most,
    KL(Bern(q) || Bern(p)) <= budget.  See ``report()["limits"]`` for what that does not cover.

    Parameters
    ----------
    estimator : estimator, callable or "mean"
        `KMeans`, `LinearSVC`, `LogisticRegression`, `RidgeClassifier`, `LinearRegression`, `Ridge`, `PCA`,
        `FixedForest`; or a function of the rows (``f(X)``, ``f(X, y)`` with labels) that returns a vector.
        Mode ``exact`` runs it in `fit` only; the others run it again for a release, and refuse where its settings or
        what it encloses were changed since.
    budget : MI, Posterior, RecordPosterior or DPEquivalent
        What one release may cost.
    worlds : int
        How many sub-samples are simulated.
    rate : float
        Share of the pool in a sub-sample, class by class.
    mode : {"exact", "certified", "estimated"}
        ``exact``: the secret is one of the listed worlds.  The others: it is a fresh sub-sample; ``certified``
        bounds the information with a confidence over the simulation, ``estimated`` proves nothing.
    noise : {"optimal", "paper", "isotropic", "isotropic_paper", "isotropic_exact"}
        Rule of `allocate`.
    basis : {"auto", "diag", "svd"}
        Directions of the noise: coordinates, or eigenvectors of the covariance.
    weights : array_like, optional
        What a unit of noise variance in each released number costs, positive; the default is one for all.
    adapter : "auto" or callable
        ``adapter(estimator, X, y)`` returns a `Mechanism`, for algorithms of your own.
    worlds_seed : int or SecretSeed, optional
        None: the list of worlds is drawn from the operating system's randomness, once for all fits of a process, and
        secret.  A whole number: a *public*, repeatable list; its price is that some log2(worlds) known memberships
        name the world, and so everyone's.  ``other.worlds_seed_``: the list of another fit.  Which world is the true
        one, and the noise, cannot be seeded.
    confidence : float
        Of the certificate, in (0, 1).
    stop : {None, "relative", "paper"}
        ``estimated`` only: stop before ``worlds`` when the bound is known within 5 %, or by the paper's rule.
    n_jobs : int, optional
        Workers; results do not depend on it.
    checkpoint : path, optional
        Trials are saved here and taken up again.  As private as the pool.

    Attributes
    ----------
    plan_ : Plan
        Noise variances, directions and grid; public.
    mechanism_, trials_ : Mechanism, Trials
        Functions of the pool, *not* noised: a fitted privatizer is as private as the pool.  Share a `Release`.
    worlds_seed_ : int or SecretSeed
        Of the list of worlds.
    spent_ : float
        Nats of all releases made so far outside a ledger, those of copies in this process included (a pickle knows only
        of those before it); add them up for claims about a record.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)
    >>> release = PACPrivatizer(LogisticRegression(), MI(0.1), worlds=64).fit(X, y).release()
    >>> release.estimator_.predict(X[:3]).shape, release.report()["mode"]
    ((3,), 'exact')

    References
    ----------
    Xiao & Devadas 2023; Sridhar, Xiao & Devadas 2024; finite worlds and the ledger: Zhu, Sridhar & Devadas 2026.
    """

    def __init__(
        self,
        estimator: Any,
        budget: Budget,
        *,
        worlds: int = 1024,
        rate: float = 0.5,
        mode: Mode = "exact",
        noise: Rule = "optimal",
        basis: Basis = "auto",
        weights: ArrayLike | None = None,
        adapter: Literal["auto"] | Prepare = "auto",
        worlds_seed: Seed | None = None,
        confidence: float = 0.999,
        stop: Stop | None = None,
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.estimator = estimator
        self.budget = budget
        self.worlds = worlds
        self.rate = rate
        self.mode = mode
        self.noise = noise
        self.basis = basis
        self.weights = weights
        self.adapter = adapter
        self.worlds_seed = worlds_seed
        self.confidence = confidence
        self.stop = stop
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> PACPrivatizer:
        """Simulate all worlds, bring outputs into canonical form, calibrate the noise; nothing secret is drawn.

        Parameters
        ----------
        X, y : array_like
            The pool, copied.  Class labels also stratify the sub-samples.
        groups : array_like, optional
            Rows of one group (a person) go in or out together, as identical rows always do.
        progress : callable, optional
            Told the share of worlds done.
        """
        check_settings(self)
        for name in [name for name in vars(self) if name.endswith("_")]:  # nothing of an earlier fit can be released
            delattr(self, name)
        table, labels, units = self._pool(X, y, groups)
        self.mechanism_ = prepared(self.adapter, self.estimator, table, labels)
        checked_weights(self.weights, len(self.mechanism_.reference))
        if not np.isfinite(self.mechanism_.reference).all():
            raise ValueError("the output on the whole pool is not finite (NaN or infinite); mend the algorithm first")
        self.worlds_seed_: Seed = list_of(self.checkpoint) if self.worlds_seed is None else self.worlds_seed
        paired = self.mode == "exact" and self.rate == 0.5
        kind = Sampler if self.mode == "exact" or not isinstance(self.budget, RecordPosterior) else Exchanges
        sampler = kind(units, self.rate, self.worlds_seed_, paired)
        self._experiment = Experiment(self.mechanism_, table, labels, sampler)
        self.trials_ = simulate(
            self._experiment, self.worlds, n_jobs=self.n_jobs, progress=progress, checkpoint=self.checkpoint,
            stop=stop_rule(self.stop, self.budget.mi) if self.stop else None,  # type: ignore[union-attr]  # checked
        )  # fmt: skip
        if self.trials_.failed.all():
            raise ValueError("the algorithm failed in every world (an error, or numbers that are not finite); mend it")
        if not (np.abs(self.trials_.outputs) <= LARGEST).all():
            raise ValueError(
                f"the algorithm's output reaches beyond {LARGEST:g}, where variances overflow; scale it, or X, down by "
                "a public constant"
            )
        self.n_outputs_, self.pool_rows_, self.units_ = len(self.mechanism_.reference), len(table), len(units)
        plan = self._calibrated()
        for held in (self.mechanism_, self.trials_, plan):
            sealed(held)
        self._apart = self._standing_out(plan)
        self._tally, self._at_fit, self.plan_ = Tally(), settings_of(self), plan
        for told in (nats_beyond_records(self, plan), self._apart.sentence if self._apart else None):
            if told is not None:
                warnings.warn(told, stacklevel=2)
        return self

    def _standing_out(self, plan: Plan, belief: Floats | None = None) -> Apart | None:
        """Return the listed worlds that a release by this plan gives away; of fresh sub-samples there is no list."""
        return apart_of(plan, self.trials_.outputs, self.members(), belief) if self.mode == "exact" else None

    def _pool(
        self, X: ArrayLike, y: ArrayLike | None, groups: ArrayLike | None
    ) -> tuple[Floats, Labels | None, Units]:  # fmt: skip
        """Return the checked pool, which the caller's arrays no longer change."""
        check_columns(X)
        table: Floats = validate_data(self, X, dtype=float, ensure_min_samples=4, copy=True, ensure_all_finite=False)
        check_finite(table, getattr(self, "feature_names_in_", None))
        table.setflags(write=False)
        near = self.budget.near if isinstance(self.budget, RecordPosterior) else None
        return table, *check_pool(table, y, groups, self.estimator, near)

    @property
    def spent_(self) -> float:
        """Nats of all releases made so far outside a ledger, rounded up."""
        check_is_fitted(self, "plan_")
        return self._tally.sum

    def release(self, ledger: Ledger | None = None) -> Release:
        """Draw the secret and the noise from the operating system's randomness; return what may leave.

        Each call without a ledger is about a secret of its own; `spent_` adds them up.  With a ledger, all releases
        are about *one* world and are calibrated on what the earlier ones told.
        """
        self._check_fitted()
        if ledger is not None and not isinstance(ledger, Ledger):
            raise TypeError(f"ledger must be a Ledger or None, got {ledger!r}")
        if ledger is not None:
            return self._release_with(ledger)
        positions = self._secret_positions()
        noisy = positions + self.plan_.law.draw(len(positions))
        report = self.report() | {"mi_nats_of_all_releases_so_far": self._tally.add(self.plan_.mi)}
        return self._as_release(self.plan_.released(noisy), report)

    def report(self) -> dict[str, Any]:
        """Return what one release promises, how soundly, and the limits."""
        self._check_fitted()
        return report_of(self, self.plan_, self.plan_.mi, self._apart)

    def simulate_utility(
        self,
        scorer: Callable[[Any], float],
        n: int = 400,
        *,
        budgets: Sequence[MI | Posterior | DPEquivalent] | None = None,
        noises: Sequence[Rule] | None = None,
        bases: Sequence[Basis] | None = None,
        rng: int | np.random.Generator = 0,
    ) -> list[Utility]:
        """Return the average score of ``n`` simulated releases for every budget, noise rule and basis.

        A decision by these numbers is a function of the pool only: it costs no budget; among certified candidates it
        costs confidence (divide it among them).  ``scorer`` takes what `Release.estimator_` would hold.
        """
        self._check_fitted()
        n, plans = checked_count("n", n), list[tuple[Plan, str, str]]()
        if budgets is None and noises is None and bases is None:
            plans.append((self.plan_, self.noise, self.report()["basis"]))
        else:
            for one in noises or ():
                check_choices(one, self.basis)
            for way in bases or ():
                check_choices(self.noise, way)
            asked = [self.plan_.mi] if budgets is None else [nats_of(budget) for budget in budgets]
            for beta, rule, basis in product(asked, noises or [self.noise], bases or [self.basis]):
                shape = self._shape(rule, basis)
                certified = self.mode == "certified"
                plan = (
                    self._certificate(beta, shape).plan if certified else calibrate(self.trials_.outputs, beta, shape)
                )
                plans.append((plan, rule, "diag" if plan.frame.axes.ndim == 1 else "svd"))
        found = []
        for plan, rule_name, basis_name in plans:
            mean, error = utility_of(plan, self.trials_.outputs, self.mechanism_, scorer, n, generator(rng))
            found.append(Utility(plan.mi, rule_name, basis_name, mean, error, plan.trace, n))
        return found

    def members(self) -> Bools:
        """Return which rows each listed world holds, shape ``(worlds, rows)``: public."""
        sampler: Sampler = self._experiment.sampler
        return sampler.draw(range(len(self.trials_.outputs)))

    def simulated_releases(self, n: int, rng: int | np.random.Generator = 0) -> tuple[Indices, Floats]:
        """Return the worlds and vectors of ``n`` simulated releases.  NOT PRIVATE: seeded, in floating point."""
        self._check_fitted()
        return releases_of(self.plan_, self.trials_.outputs, checked_count("n", n), generator(rng))

    def audit(
        self,
        records: Literal["all"] | Sequence[int] = "all",
        *,
        draws: int = 8192,
        rng: int | np.random.Generator = 0,
    ) -> Exposure:
        """Return the true mutual information and each record's exposure to the best attack, by simulation.

        Needs ``mode="exact"``.  Upper limits of the records asked for hold together with 99 % confidence.
        """
        self._check_fitted()
        if self.mode != "exact":
            raise ValueError(
                f"audit needs mode='exact', whose worlds are a finite list; this one is {self.mode!r}: try lira"
            )
        draws, analysis = checked_count("draws", draws, 2), generator(rng)
        members = self.members()
        if not (isinstance(records, str) and records == "all"):
            members = members[:, rows_of(records, self.pool_rows_)]
        whitened = self.plan_.positions(self.trials_.outputs) / self.plan_.ratio
        return expose(whitened, members, analysis, draws=draws)

    def _shape(self, rule: Rule | None = None, basis: Basis | None = None) -> Shape:
        """Return the noise's shape: eigenvectors where they are facts, or estimated from enough trials."""
        rule, basis = rule or self.noise, basis or self.basis
        if basis == "auto" and self.mode != "exact":
            pilot = len(self.trials_.outputs) // (3 if self.mode == "certified" else 1)
            basis = "svd" if pilot >= TRIALS_PER_DIRECTION * self.n_outputs_ else "diag"
        return Shape(rule, basis, checked_weights(self.weights, self.n_outputs_))

    def _calibrated(self) -> Plan:
        outputs, shape = self.trials_.outputs, self._shape()
        self.exposure_: Exposure | None = None
        self.confidence_ = {"exact": 1.0, "certified": self.confidence, "estimated": None}[self.mode]
        if self.mode == "exact":
            members = self.members()
            self.world_prior_ = multiplicity(members) / len(members)
            self.record_prior_ = float(priors(members).max())
            shares = members.mean(axis=0)
        else:
            shares = self._experiment.sampler.inclusion
            self.record_prior_ = float(np.maximum(shares, 1 - shares).max())
        self.shares_ = float(shares.min()), float(shares.max())
        if isinstance(self.budget, RecordPosterior) and self.mode == "estimated":
            sampler: Sampler = self._experiment.sampler
            self.record_prior_ = sampler.certain
            rate = sampler.inclusion[np.abs(sampler.inclusion - 0.5).argmin()]
            q, joint = self.budget.q, self.budget.joint.mi
            return plan_from_exchanges(outputs, self.units_, q, joint, self.record_prior_, rate, shape)
        if isinstance(self.budget, RecordPosterior):
            rng = analysis_rng(self.worlds_seed_)
            pairs = mutual_neighbours(self._experiment.X)
            plan, exposure = plan_for_records(outputs, members, self.budget.q, self.budget.joint.mi, shape, rng, pairs)
            self.pairs_ = len(pairs)
            self.exposure_ = sealed(exposure)
            return plan
        if self.mode == "certified":
            self.certificate_ = self._certificate(self.budget.mi, shape)
            return self.certificate_.plan
        return calibrate(outputs, self.budget.mi, shape)

    def _certificate(self, beta: float, shape: Shape) -> Certificate:
        outputs = self.trials_.outputs
        third = len(outputs) // 3
        pilot, left, right = outputs[: -2 * third], outputs[-2 * third : -third], outputs[-third:]
        return certify(pilot, left, right, beta, shape, miss=1 - self.confidence)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "plan_")
        check_unchanged(self, self._at_fit)

    def _secret_positions(self) -> Steps:
        """Return the un-noised output of a fresh secret on the grid; the caller adds noise before all else."""
        if self.mode == "exact":
            listed = self.plan_.positions(self.trials_.outputs)  # all, so that bits are those that were calibrated on
            return np.asarray(listed[secrets.randbelow(len(listed))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would tell something of the secret
            found = self._experiment.output(self._experiment.sampler.fresh())
        reference = self.mechanism_.reference
        return self.plan_.positions(reference if found is None or found.shape != reference.shape else found)

    def _release_with(self, ledger: Ledger) -> Release:
        if self.mode != "exact" or isinstance(self.budget, RecordPosterior):
            raise ValueError("a ledger needs mode='exact' and a budget in nats (MI, Posterior or DPEquivalent)")
        outputs, beta, shape = self.trials_.outputs, self.budget.mi, self._shape()
        apart: Apart | None = None

        def planned(belief: Floats) -> tuple[Plan, Steps]:
            nonlocal apart
            plan = calibrate(outputs, beta, shape, probabilities=belief)
            apart = self._standing_out(plan, belief)
            return plan, plan.positions(outputs)

        plan, noisy, spent = ledger.draw(self.members(), beta, planned)
        report = report_of(self, plan, spent, apart) | {"ledger_spent": spent, "ledger_total": ledger.total}
        return self._as_release(plan.released(noisy), report)

    def _as_release(self, vector: Floats, report: dict[str, Any]) -> Release:
        return Release(vector, self.mechanism_.names, self.mechanism_.rebuild(vector), report)
