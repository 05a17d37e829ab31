"""PAC privacy: conversions, allocations, the noise and the reports of releases."""

from __future__ import annotations

import numpy as np
from golden_results import ALGEBRA, chosen, golden, json_of, scaled
from sklearn.datasets import load_iris
from sklearn.linear_model import RidgeClassifier

from epsworth import pac

X, Y = load_iris(return_X_y=True)
SEARCHED = 1e-9  # roots and multipliers come from searches, covariances from products

PROMISES = (
    "mi_nats", "posterior_at_prior_0.5", "largest_record_prior", "posterior_of_membership", "tpr_at_fpr_0.001",
    "worlds", "worlds_seed", "rate", "pool_rows", "units", "released_numbers", "noised_directions", "noise_trace",
    "confidence", "failed_fits", "mode", "noise", "basis",
)  # fmt: skip


@golden("conversions of budgets", subject="epsworth.pac.posterior", mutate=scaled(0.99), tolerance=SEARCHED)
def _():
    nats = (1 / 64, 1 / 16, 1 / 4, 1)
    return {
        "posterior": [pac.posterior(mi, prior) for mi in nats for prior in (0.5, 0.1)],
        "budget": [pac.budget(q, 0.5) for q in (0.6, 0.75, 0.9)],
        "dp_posterior": [pac.dp_posterior(e, 1e-6) for e in (0.1, 1, 4)],
        "dp_epsilon": [pac.dp_epsilon(q) for q in (0.55, 0.7, 0.95)],
        "tpr_bound": [pac.tpr_bound(mi) for mi in nats],
        "generalised_prior": [pac.generalised_prior(20, 10, 3, k) for k in (0, 1, 2, 3)],
        "budgets": [pac.MI(0.25).mi, pac.Posterior(0.6).mi, pac.DPEquivalent(1.0).mi],
    }


@golden("noise that is allocated", subject="epsworth.pac.allocate", mutate=scaled(0.99), tolerance=SEARCHED)
def _():
    variances = [4.0, 1.0, 0.25, 0.0]
    rules = ("optimal", "paper", "isotropic")
    found = {rule: pac.allocate(variances, 0.25, rule) for rule in rules}
    return found | {"weighted": pac.allocate(variances, 0.25, weights=[1.0, 2.0, 1.0, 1.0])}


@golden("an aligning rotation", subject="epsworth.pac.procrustes", mutate=scaled(-1), tolerance=ALGEBRA)
def _():
    A, B = np.random.default_rng(3).normal(size=(2, 2, 5))
    return pac.procrustes(A, B)


def released(fitted):
    """Return what does not depend on the secret: the noise, the promises, the simulated outputs."""
    report = fitted.report()
    plan = fitted.plan_
    return {
        "report": chosen(report, *PROMISES),
        "variances": plan.variances,
        "trials": [fitted.trials_.outputs.mean(axis=0), fitted.trials_.outputs.std(axis=0)],
    }


@golden("the noise for a mean", subject="epsworth.pac.budget", mutate=scaled(0.99), tolerance=SEARCHED)
def _():
    pool = np.random.default_rng(3).uniform(size=(40, 2))
    fitted = pac.PACPrivatizer("mean", pac.Posterior(0.6), worlds=64, worlds_seed=5).fit(pool)
    audit = fitted.audit(draws=500)
    worlds, outputs = (
        pac.PACPrivatizer("mean", pac.MI(0.25), worlds=64, worlds_seed=5, basis="diag")
        .fit(pool)
        .simulated_releases(5, rng=2)
    )
    return released(fitted) | {
        "audit": chosen(audit, "prior", "mi", "named", "draws"),
        "simulated": {"worlds": worlds, "outputs": outputs},
    }


@golden("the noise for a classifier", subject="epsworth.pac.posterior", mutate=scaled(1.01), tolerance=1e-7)
def _():
    fitted = pac.PACPrivatizer(RidgeClassifier(), pac.MI(0.25), worlds=32, worlds_seed=5).fit(X[:100], Y[:100])
    return released(fitted)


@golden("the noise for records", subject="epsworth.pac.posterior", mutate=scaled(1.01), tolerance=1e-7)
def _():
    pool = np.random.default_rng(3).uniform(size=(30, 2))
    budget = pac.RecordPosterior(0.7, joint=pac.MI(0.5))
    fitted = pac.PACPrivatizer("mean", budget, worlds=64, worlds_seed=5, noise="isotropic").fit(pool)
    return released(fitted)


@golden("a certificate", subject="epsworth.pac.certificate.betting_upper", mutate=scaled(1.01), tolerance=1e-7)
def _():
    pool = np.random.default_rng(3).uniform(size=(60, 2))
    fitted = pac.PACPrivatizer("mean", pac.MI(0.25), worlds=300, worlds_seed=5, mode="certified", basis="diag").fit(
        pool
    )
    return released(fitted) | {"extras": chosen(fitted.calibrated_.certificate, "worlds", "unconditional", "zcdp")}


@golden(
    "a budget that keeps a score",
    subject="epsworth.pac.certificate.bernstein_upper",
    mutate=scaled(1.01),
    tolerance=1e-7,
)
def _():
    pool = np.random.default_rng(3).uniform(size=(40, 2))
    fitted = pac.PACPrivatizer("mean", pac.MI(0.25), worlds=64, worlds_seed=5).fit(pool)

    def scorer(vector):
        return float(np.abs(np.asarray(vector) - 0.5).max() < 0.1)

    found = fitted.find_budget(scorer, 0.8, n=400, rng=1)
    simulated = fitted.simulate_utility(scorer, n=50, budgets=[pac.MI(0.1), pac.MI(1)], rng=1)
    names = ("reached", "mi", "mean", "lower", "looks", "releases", "noise")
    return {"found": chosen(found, *names), "utility": [[u.mi, u.mean, u.trace] for u in simulated]}


@golden("conversions on the command line", subject="epsworth.pac.posterior", mutate=scaled(0.99), tolerance=SEARCHED)
def _(folder):
    return {
        "mi": json_of(folder, "convert", "--mi", "1/16"),
        "posterior": json_of(folder, "convert", "--posterior", "0.75", "--prior", "0.1"),
        "dp": json_of(folder, "convert", "--dp-epsilon", "1"),
    }
