"""The front: an estimator or function, a budget, a pool; out come noisy releases that keep the budget."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from epsworth.arrays import Bools, Floats, generator
from epsworth.bounds import Risk
from epsworth.callbacks import check_callback
from epsworth.pac.adapters import prepared
from epsworth.pac.allocation import Steps
from epsworth.pac.budgets import MI, Budget, DPEquivalent, Posterior, nats_of
from epsworth.pac.calibration import LARGEST, Basis, Noise, Plan, calibrate
from epsworth.pac.exposure import Exposure, expose, rows_of
from epsworth.pac.ledger import Ledger, Tally
from epsworth.pac.mechanism import Labels, Mechanism, Prepare
from epsworth.pac.modes import (
    Exact,
    Mode,
    Outliers,
    Sampled,
    Settings,
    calibrated,
    checked_count,
    checked_weights,
    listed,
    sealed,
    shape_of,
)
from epsworth.pac.pool import check_finite, check_pool, checked_columns, copied, kind_of, numbers_of
from epsworth.pac.release import Release, nats_beyond_records, report_of
from epsworth.pac.simulation import Experiment, Stop, Trials, list_of, simulate, stop_rule
from epsworth.pac.utility import FoundBudget, Utility, least_budget, releases_of, utilities
from epsworth.pac.worlds import Exchanges, Sampler, Seed, Units
from epsworth.records import Indices

AUDIT = 0.99  # confidence of an audit's upper limits


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
    noise : {"optimal", "paper", "isotropic", "isotropic_paper", "isotropic_exact", "task"}
        Rule of `allocate`; ``task`` puts it where it harms the ``scorer`` least, for the same budget, by some 21,000
        simulated releases (``certified``: of pilot worlds alone).
    basis : {"auto", "diag", "svd"}
        Directions of the noise: coordinates, or eigenvectors of the covariance.
    weights : array_like, optional
        What a unit of noise variance in each released number costs, positive; the default is one for all.
    adapter : "auto" or callable
        ``adapter(estimator, X, y)`` returns a `Mechanism`, for algorithms of your own.
    worlds_seed : int or SecretSeed, optional
        None: the list of worlds is drawn from the operating system's randomness, once for all fits of a process, and
        secret (who knows less finds out no more; no better number is claimed for it).  A whole number: a *public*,
        repeatable list; its price is that some log2(worlds) known memberships name the world, and so everyone's.
        ``other.worlds_seed_``: the list of another fit.  Which world is the true one, and the noise, cannot be seeded.
    confidence : float
        Of the certificate, in (0, 1).
    stop : {None, "relative", "paper"}
        ``estimated`` only: stop before ``worlds`` when the bound is known within 5 %, or by the paper's rule.
    n_jobs : int, optional
        Workers; results do not depend on it.
    checkpoint : path, optional
        Trials are saved here and taken up again.  As private as the pool.
    scorer : callable, optional
        For ``noise="task"``: from what `Release.estimator_` would hold to a number, the larger the better.  None: the
        estimator's own ``score`` on rows of the pool.

    Attributes
    ----------
    calibrated_ : Exact or Sampled
        All that the fit found, of which the next ones are parts: also ``exposure`` (of single records, for
        `RecordPosterior`) and ``certificate`` (``mode="certified"``).
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
        noise: Noise = "optimal",
        basis: Basis = "auto",
        weights: ArrayLike | None = None,
        adapter: Literal["auto"] | Prepare = "auto",
        worlds_seed: Seed | None = None,
        confidence: float = 0.999,
        stop: Stop | None = None,
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
        scorer: Callable[[Any], float] | None = None,
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
        self.scorer = scorer

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
            The pool, copied.  Class labels also stratify the sub-samples.  A function is given the data frame that X
            is (pandas, polars), with its columns, types and categories; estimators and adapters are given its numbers.
        groups : array_like, optional
            Rows of one group (a person) go in or out together, as identical rows always do.
        progress : callable, optional
            Told the share of worlds done, again and again while workers are waited for.  What it raises ends the fit.
        """
        settings = Settings.of(self)
        settings.check()
        check_callback("progress", progress)
        for name in [name for name in vars(self) if name.endswith("_")]:  # nothing of an earlier fit can be released
            delattr(self, name)
        experiment = self._experiment(settings, *self._pool(X, y, groups))
        trials = simulate(
            experiment, settings.worlds, n_jobs=settings.n_jobs, progress=progress, checkpoint=settings.checkpoint,
            stop=stop_rule(settings.stop, settings.budget.mi) if settings.stop else None,  # type: ignore[union-attr]  # checked
        )  # fmt: skip
        if trials.failed.all():
            raise ValueError(f"the algorithm failed in every world: {experiment.why()}; mend it")
        if not (np.abs(trials.outputs) <= LARGEST).all():
            raise ValueError(
                f"the algorithm's output reaches beyond {LARGEST:g}, where variances overflow; scale it, or X, down by "
                "a public constant"
            )
        found = calibrated(settings, experiment, trials, (lambda: progress(1.0)) if progress else lambda: None)
        for held in (experiment.mechanism, trials, found.plan, found.exposure):
            if held is not None:
                sealed(held)
        self._tally, self._at_fit, self._outliers = Tally(), settings.marks(), found.outliers(found.plan)
        self.calibrated_: Exact | Sampled = found
        for told in (nats_beyond_records(settings, found.plan), self._outliers.sentence if self._outliers else None):
            if told is not None:
                warnings.warn(told, stacklevel=2)
        return self

    def _experiment(
        self, settings: Settings, table: Floats, frame: Any, labels: Labels | None, units: Units
    ) -> Experiment:  # fmt: skip
        """Prepare the algorithm on the pool, and the list of worlds."""
        mechanism = prepared(settings.adapter, settings.estimator, table if frame is None else frame, labels)
        checked_weights(settings.weights, len(mechanism.reference))
        if not np.isfinite(mechanism.reference).all():
            raise ValueError("the output on the whole pool is not finite (NaN or infinite); mend the algorithm first")
        exact = settings.mode == "exact"
        kind = Sampler if exact or settings.of_records is None else Exchanges
        seed = list_of(settings.checkpoint) if settings.worlds_seed is None else settings.worlds_seed
        return Experiment(
            mechanism, table, labels, kind(units, settings.rate, seed, exact and settings.rate == 0.5), frame
        )

    def _pool(
        self, X: ArrayLike, y: ArrayLike | None, groups: ArrayLike | None
    ) -> tuple[Floats, Any, Labels | None, Units]:  # fmt: skip
        """Return the checked pool, which the caller's arrays no longer change, and its frame if a function gets it."""
        near, frame = getattr(self.budget, "near", None), None
        function = isinstance(self.adapter, str) and callable(self.estimator) and not hasattr(self.estimator, "fit")
        if function and kind_of(X) is not None:
            frame = copied(X)
            validate_data(self, frame, skip_check_array=True)  # names
            numbers = numbers_of(frame, 1 + 2 * (near or 0.0))
            table: Floats = check_array(numbers, dtype=float, ensure_min_samples=4, ensure_all_finite=False)
        else:
            X = checked_columns(X)
            table = validate_data(self, X, dtype=float, ensure_min_samples=4, copy=True, ensure_all_finite=False)
        check_finite(table, getattr(self, "feature_names_in_", None))
        table.setflags(write=False)
        labels, units = check_pool(table, y, groups, self.estimator, near)
        return table, frame, labels, units

    @property
    def plan_(self) -> Plan:
        """How a vector is released."""
        return self._found.plan

    @property
    def mechanism_(self) -> Mechanism:
        """The algorithm, prepared on the pool."""
        return self._found.experiment.mechanism

    @property
    def trials_(self) -> Trials:
        """The worlds' outputs, not noised."""
        return self._found.trials

    @property
    def worlds_seed_(self) -> Seed:
        """Seed of the list of worlds."""
        return self._found.experiment.sampler.seed

    @property
    def spent_(self) -> float:
        """Nats of all releases made so far outside a ledger, rounded up."""
        check_is_fitted(self, "calibrated_")
        return self._tally.sum

    @property
    def _found(self) -> Exact | Sampled:
        """What the fit found; refused before one."""
        check_is_fitted(self, "calibrated_")
        return self.calibrated_

    def _checked(self) -> Exact | Sampled:
        """Return what the fit found, if no setting was changed since."""
        found = self._found
        Settings.of(self).check_unchanged(self._at_fit)
        return found

    def release(self, ledger: Ledger | None = None) -> Release:
        """Draw the secret and the noise from the operating system's randomness; return what may leave.

        Each call without a ledger is about a secret of its own; `spent_` adds them up.  With a ledger, all releases
        are about *one* world and are calibrated on what the earlier ones told.
        """
        found = self._checked()
        if ledger is not None and not isinstance(ledger, Ledger):
            raise TypeError(f"ledger must be a Ledger or None, got {ledger!r}")
        if ledger is not None:
            return self._release_with(ledger, found)
        positions = found.secret_positions()
        noisy = positions + found.plan.law.draw(len(positions))
        report = self.report() | {"mi_nats_of_all_releases_so_far": self._tally.add(found.plan.mi)}
        return self._as_release(found.plan.released(noisy), report)

    def report(self) -> dict[str, Any]:
        """Return what one release promises, how soundly, and the limits."""
        found = self._checked()
        return report_of(found, found.plan, found.plan.mi, self._outliers)

    def simulate_utility(
        self,
        scorer: Callable[[Any], float],
        n: int = 400,
        *,
        budgets: Sequence[MI | Posterior | DPEquivalent] | None = None,
        noises: Sequence[Noise] | None = None,
        bases: Sequence[Basis] | None = None,
        rng: np.random.Generator | int | None = 0,
    ) -> list[Utility]:
        """Return the average score of ``n`` simulated releases for every budget, noise rule and basis.

        A decision by these numbers is a function of the pool only: it costs no budget; among certified candidates it
        costs confidence (divide it among them).  ``scorer`` takes what `Release.estimator_` would hold.
        """
        return utilities(self._checked(), scorer, checked_count("n", n), budgets, noises, bases, rng)

    def find_budget(
        self,
        scorer: Callable[[Any], float],
        at_least: float,
        confidence: float = 0.95,
        *,
        n: int = 4000,
        score_range: tuple[float, float] = (0.0, 1.0),
        rng: np.random.Generator | int | None = 0,
    ) -> FoundBudget:
        """Return the least budget, in half octaves from 2^-10 to 16 nats, whose releases score ``at_least`` on average.

        Claim: where it says ``reached``, the average score over the listed worlds and the noise is at least that, with
        this confidence over ``n`` fresh simulated releases a look.  Where no budget does, the best is told.

        Parameters
        ----------
        scorer : callable
            As for `simulate_utility`; scores lie in ``score_range``.
        """
        return least_budget(self._checked(), scorer, at_least, confidence, checked_count("n", n, 2), score_range, rng)

    def members(self) -> Bools:
        """Return which rows each listed world holds, shape ``(worlds, rows)``: public."""
        return listed(self._found.experiment, self.trials_)

    def simulated_releases(self, n: int, rng: np.random.Generator | int | None = 0) -> tuple[Indices, Floats]:
        """Return the worlds and vectors of ``n`` simulated releases.  NOT PRIVATE: seeded, in floating point."""
        found = self._checked()
        return releases_of(found.plan, found.trials.outputs, checked_count("n", n), generator(rng))

    def audit(
        self,
        records: Literal["all"] | Sequence[int] = "all",
        *,
        draws: int = 8192,
        rng: np.random.Generator | int | None = 0,
    ) -> Exposure:
        """Return the true mutual information and each record's exposure to the best attack, by simulation.

        Needs ``mode="exact"``.  Upper limits of the records asked for hold together with 99 % confidence.
        """
        found = self._checked()
        if self.mode != "exact":
            raise ValueError(
                f"audit needs mode='exact', whose worlds are a finite list; this one is {self.mode!r}: try lira"
            )
        draws, analysis = checked_count("draws", draws, 2), generator(rng)
        members = self.members()
        if not (isinstance(records, str) and records == "all"):
            members = members[:, rows_of(records, members.shape[1])]
        whitened = found.plan.positions(found.trials.outputs) / found.plan.ratio
        return expose(whitened, members, analysis, risk=Risk.of(AUDIT), draws=draws)

    def _release_with(self, ledger: Ledger, found: Exact | Sampled) -> Release:
        settings, outputs = found.settings, found.trials.outputs
        if settings.mode != "exact" or settings.of_records is not None:
            raise ValueError("a ledger needs mode='exact' and a budget in nats (MI, Posterior or DPEquivalent)")
        mi, shape = nats_of(settings.budget), shape_of(settings, found.experiment, found.trials)
        outliers: Outliers | None = None

        def planned(belief: Floats) -> tuple[Plan, Steps]:
            nonlocal outliers
            plan = calibrate(outputs, mi, shape, probabilities=belief)
            outliers = found.outliers(plan, belief)
            return plan, plan.positions(outputs)

        plan, noisy, spent = ledger.draw(self.members(), mi, planned)
        report = report_of(found, plan, spent, outliers) | {"ledger_spent": spent, "ledger_total": ledger.total}
        return self._as_release(plan.released(noisy), report)

    def _as_release(self, vector: Floats, report: dict[str, Any]) -> Release:
        return Release(vector, self.mechanism_.names, self.mechanism_.rebuild(vector), report)
