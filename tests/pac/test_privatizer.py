"""The front door: promises kept on toys, reports, randomness, misuse, scikit-learn's own checks."""

from __future__ import annotations

import functools
import json
import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from epsworth import pac
from epsworth.bounds import Risk
from epsworth.pac import MI, DPEquivalent, PACPrivatizer, Posterior, RecordPosterior
from epsworth.pac.allocation import individual_allocation, individual_bound, mean_second_moments
from epsworth.pac.exposure import expose
from epsworth.pac.release import ESTIMATED, LIMITS
from epsworth.pac.worlds import Exchanges, Units

X, Y = load_iris(return_X_y=True)


def test_it_is_a_scikit_learn_estimator():
    made = PACPrivatizer(KMeans(3), MI(0.25), worlds=64, noise="paper")
    shown = "PACPrivatizer(budget=MI(mi=0.25), estimator=KMeans(n_clusters=3), noise='paper', worlds=64)"
    assert repr(made).split() == shown.split()
    copy = clone(made)
    assert copy.get_params()["estimator__n_clusters"] == 3
    assert copy.set_params(worlds=32).worlds == 32
    assert made.worlds == 64
    assert copy.fit(X).n_features_in_ == 4
    with pytest.raises(Exception, match="not fitted yet"):
        made.release()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", ["mean", RidgeClassifier()], ids=["mean", "classifier"])
@pytest.mark.slow
def test_scikit_learns_checks(algorithm):
    check_estimator(PACPrivatizer(algorithm, MI(1.0), worlds=8), on_skip=None)


def toys():
    """Pools and functions of every temper: smooth, heavy-tailed, discrete, of low rank, many outputs."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(16, 2))
    wild = rng.standard_cauchy(size=(16, 2))
    yield "mean", pool, "mean"
    yield "wild mean", wild, "mean"
    yield "maximum", wild, lambda rows: rows.max(axis=0)
    yield "median", pool, lambda rows: np.median(rows, axis=0)
    yield "count", pool, lambda rows: np.array([(rows[:, 0] > 0).sum(), (rows > 1).any()], float)
    yield "repeated", pool, lambda rows: np.repeat(rows.mean(axis=0), 5)
    yield "names the rows", pool, lambda rows: np.isin(pool[:, 0], rows[:, 0]).astype(float)


@pytest.mark.parametrize("basis", ["diag", "svd"])
@pytest.mark.parametrize(("name", "pool", "function"), list(toys()), ids=[name for name, _, _ in toys()])
@pytest.mark.cases(1)
def test_truth_never_exceeds_the_promise(name, pool, function, basis):
    """True MI and every record's true success, by Monte Carlo; false alarm: 3 half-widths are 7.7 standard errors."""
    for beta in (0.05, 1.0):
        fitted = PACPrivatizer(function, MI(beta), worlds=64, basis=basis).fit(pool)
        found = fitted.audit(draws=4000)
        assert fitted.plan_.mi <= beta
        assert found.mi - 3 * found.mi_half_width <= beta
        slack = 5 * 0.5 / np.sqrt(4000)  # five standard errors at most
        assert (found.success <= pac.posterior(beta, 0.5) + slack).all()
        assert (found.success >= found.prior - slack).all()
        assert found.worst >= found.success.max()


@pytest.mark.slow
def test_upper_limits_hold_over_repetitions():
    """99 % limits of all records together; the truth from a run 40 times as long.  30 repetitions: Pr[3 misses] < 4e-3,
    and the limits are in truth far wider than that (seeded: repeatable)."""
    rng = np.random.default_rng(0)
    outputs, members = rng.normal(size=(32, 2)), rng.random((32, 10)) < 0.5
    truth = expose(outputs, members, np.random.default_rng(99), draws=160_000, risk=Risk(0.01)).success
    misses = sum(
        bool(
            (
                expose(outputs, members, np.random.default_rng(s), draws=4000, risk=Risk(0.01)).upper < truth - 0.002
            ).any()
        )
        for s in range(30)
    )
    assert misses <= 2


@pytest.mark.parametrize(
    ("budget", "mi"),
    [(MI(0.3), 0.3), (Posterior(0.75), 0.13081203594), (DPEquivalent(1.0), pac.budget(pac.dp_posterior(1.0), 0.5))],
)
def test_every_budget_is_spent_and_not_exceeded(budget, mi):
    fitted = PACPrivatizer("mean", budget, worlds=64, worlds_seed=0).fit(X)
    assert mi * (1 - 1e-4) <= fitted.plan_.mi <= mi * (1 + 1e-9)  # the grid may save a little
    assert str(budget) == fitted.report()["budget"]


@pytest.mark.slow
def test_a_budget_for_single_records():
    """No record above q, by the same audit with fresh draws; far more budget than the global bound would give."""
    fitted = PACPrivatizer(KMeans(3, n_init=3), RecordPosterior(0.588, joint=MI(0.15)), worlds=64).fit(X[::3])
    found = fitted.audit(draws=4096, rng=7)
    assert found.success.max() <= 0.588
    assert fitted.calibrated_.exposure.worst <= 0.588
    assert fitted.plan_.mi > 5 * pac.budget(0.588, 0.5)
    report = fitted.report()
    assert report["mi_nats"] >= fitted.plan_.mi  # joint tasks: printed next to it
    assert report["worst_record_upper_limit"] <= 0.588
    with pytest.raises(ValueError, match="take q above"):
        PACPrivatizer("mean", RecordPosterior(0.55), worlds=64, rate=0.3).fit(X)


@pytest.mark.slow
def test_budgets_for_single_records_from_sampled_worlds():
    """Two ways for the mean: exchanges that were simulated, and their moments in closed form; then the truth.

    All 70 halves of 8 rows are the law of the secret, so Bayes' rule over them is the best attack.  Moments average 400
    squares, whose deviation is below 1.2 times their mean: 20 % is over three standard errors (seeded).
    """
    pool = np.random.default_rng(5).normal(size=(8, 2)) * [1.0, 0.2]
    q = 0.6
    fitted = PACPrivatizer("mean", RecordPosterior(q), worlds=6400, mode="estimated", basis="diag", worlds_seed=0).fit(
        pool
    )
    closed = mean_second_moments(pool, 4)
    noise = individual_allocation(closed, pac.budget(q, 0.5))
    noise *= np.expm1(2 * individual_bound(closed, noise).max()) / np.expm1(2 * pac.budget(q, 0.5))
    np.testing.assert_allclose(fitted.plan_.noise, noise, rtol=0.2)
    members = np.array([[i in half for i in range(8)] for half in combinations(range(8), 4)])
    outputs = np.array([pool[half].mean(axis=0) for half in members])
    whitened = fitted.plan_.positions(outputs) / fitted.plan_.ratio
    truth = expose(whitened, members, np.random.default_rng(0), draws=40_000, risk=Risk(0.01)).success.max()
    assert 0.52 < truth <= q
    assert fitted.report()["worst_record_posterior_estimate"] == q
    assert fitted.release().vector.shape == (2,)


def test_worlds_of_exchanges_differ_in_one_unit_of_a_stratum():
    sampler = Exchanges(Units(np.arange(7), np.array([0, 0, 0, 1, 1, 1, 1])), 0.5, 3, paired=False)
    worlds = sampler.draw(range(28))
    for pair, (first, second) in enumerate(worlds.reshape(14, 2, 7)):
        moved = np.flatnonzero(first != second)
        assert pair % 7 in moved
        assert len(moved) == 2
        assert len(set(sampler.units.stratum[moved])) == 1
        assert first.sum() == second.sum()
    assert sampler.certain == pytest.approx(2 / 3)  # one or two of the three


def test_weights_move_noise_to_where_it_is_cheap():
    plain, weighted = (
        PACPrivatizer("mean", MI(0.1), worlds=64, basis="diag", weights=weights).fit(X).plan_
        for weights in (None, [100.0, *[1.0] * (X.shape[1] - 1)])
    )
    noise = weighted.noise / weighted.frame.units**2
    assert noise[0] < plain.noise[0] / 2
    assert (noise[1:] > plain.noise[1:]).all()
    assert weighted.mi <= 0.1
    with pytest.raises(ValueError, match="weights must be 4 positive numbers"):
        PACPrivatizer("mean", MI(0.1), worlds=64, weights=[1.0, 0.0, 1.0, 1.0]).fit(X)


def test_identical_rows_are_one_unit_in_every_world():
    pool = np.vstack([X[:20], X[:3]])
    fitted = PACPrivatizer("mean", RecordPosterior(0.7, joint=MI(0.6)), worlds=64).fit(pool)
    members = fitted.members()
    assert (members[:, :3] == members[:, 20:]).all()
    assert len(fitted.calibrated_.experiment.sampler.units) == len(np.unique(X[:20], axis=0))


@pytest.mark.slow
def test_modes_say_what_they_prove():
    exact, certified, estimated = (
        PACPrivatizer("mean", MI(0.25), worlds=600, mode=mode).fit(X).report()
        for mode in ("exact", "certified", "estimated")
    )
    assert exact["soundness"].startswith("exact")
    assert exact["confidence"] == 1.0
    assert exact["prior_of_naming_the_world"] == 1 / 600
    for report in (exact, certified, estimated):
        assert report["largest_record_prior"] == 0.5
    assert certified["confidence"] == 0.999
    assert certified["noise_trace"] > estimated["noise_trace"]
    assert certified["mi_whatever_the_worlds_were"] > 0.25
    assert estimated["confidence"] is None
    assert estimated["soundness"] == "estimate, no proof"
    assert certified["soundness"] == "certified: holds with 99.9 % confidence over the simulated worlds"
    assert exact["limits"] == certified["limits"] == list(LIMITS)
    assert estimated["limits"] == [*LIMITS, ESTIMATED]
    for report in (exact, certified, estimated):
        assert report["mi_nats"] + 1e-5 >= 0.25
        assert report["posterior_at_prior_0.5"] >= pac.posterior(0.2499, 0.5)
        json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("mode", ["exact", "certified", "estimated"])
@pytest.mark.cases(1)
def test_a_release_carries_the_noisy_vector_and_nothing_of_the_secret(mode):
    fitted = PACPrivatizer(KMeans(3, n_init=3), MI(0.25), worlds=128, mode=mode).fit(X, Y)
    before = pickle.dumps(fitted.trials_.outputs), vars(fitted).keys()
    one, two = fitted.release(), fitted.release()
    assert (one.vector != two.vector).any()  # no seed: false alarm below 1e-20
    assert vars(fitted).keys() == before[1]
    assert fitted.spent_ == pytest.approx(2 * fitted.plan_.mi)
    assert two.report()["mi_nats_of_all_releases_so_far"] == fitted.spent_
    shown = repr(one) + json.dumps(one.report())
    assert "world=" not in shown
    assert one.estimator_.predict(X).shape == (150,)
    np.testing.assert_array_equal(one.estimator_.cluster_centers_.reshape(-1), one.vector)
    steps = fitted.plan_.frame.coordinates(one.vector) / fitted.plan_.step
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)  # on the public grid


@pytest.mark.parametrize("mode", ["exact", "certified", "estimated"])
@pytest.mark.slow
def test_real_releases_have_the_spread_that_was_planned(mode):
    """1 000 releases from the operating system's randomness: variance s + e in every direction.

    Two-sided at 1e-9 a direction by the normal approximation (6.1 standard errors); not repeatable by design.
    """
    fitted = PACPrivatizer("mean", MI(0.25), worlds=300, mode=mode).fit(X)
    vectors = np.array([fitted.release().vector for _ in range(1000)])
    spread = fitted.plan_.frame.coordinates(vectors).var(axis=0)
    grid = fitted.plan_.positions(fitted.trials_.outputs) * fitted.plan_.step
    expected = fitted.plan_.noise + grid.var(axis=0)
    tolerance = 6.1 * np.sqrt(2 / 1000) + (0 if mode == "exact" else 0.2)  # fresh worlds: s itself is estimated
    assert (np.abs(spread / expected - 1) < tolerance).all()


def test_seeds_do_not_reach_releases():
    fitted = PACPrivatizer("mean", MI(0.25), worlds=64).fit(X)
    vectors = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002  # the point
        vectors.append(fitted.release().vector)
    assert (vectors[0] != vectors[1]).any()


@pytest.mark.slow
def test_the_simulation_is_repeatable_whatever_the_workers_and_stops_early():
    one, two = (
        PACPrivatizer(PCA(2), MI(0.25), worlds=64, n_jobs=n_jobs).fit(X).trials_.outputs for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(one, two)
    early = [
        PACPrivatizer("mean", MI(0.25), worlds=20_000, mode="estimated", stop="relative", n_jobs=n_jobs).fit(X).trials_
        for n_jobs in (None, 2)
    ]
    np.testing.assert_array_equal(early[0].outputs, early[1].outputs)
    assert 500 < len(early[0].outputs) < 10_000  # stopping early saves worlds


@pytest.mark.slow
def test_utility_is_simulated_for_every_shape():
    fitted = PACPrivatizer(LinearSVC(dual=False), MI(0.25), worlds=64).fit(X, Y)
    found = fitted.simulate_utility(
        lambda model: model.score(X, Y), 50, budgets=[MI(0.01), MI(4.0)], noises=["optimal", "isotropic_paper"]
    )
    assert [(one.noise, one.mi > 1) for one in found] == [
        ("optimal", False), ("isotropic_paper", False), ("optimal", True), ("isotropic_paper", True),
    ]  # fmt: skip
    assert found[2].mean > found[0].mean + 5 * found[0].standard_error
    assert found[0].trace < found[1].trace
    with pytest.raises(ValueError, match="fit RecordPosterior alone"):
        fitted.simulate_utility(lambda model: 0.0, 9, budgets=[RecordPosterior(0.6)])
    (same,) = fitted.simulate_utility(lambda model: model.score(X, Y), 50)
    assert same.mi == fitted.plan_.mi


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"worlds": 7}, "worlds must be an even whole number"),
        ({"worlds": True}, "worlds must be an even whole number"),
        ({"rate": 1.0}, "rate must lie strictly between 0 and 1"),
        ({"mode": "approximate"}, "mode must be one of exact, certified, estimated"),
        ({"noise": "laplace"}, "noise must be one of optimal"),
        ({"basis": "fourier"}, "basis must be one of auto"),
        ({"confidence": 1.0}, "confidence must lie strictly"),
        ({"n_jobs": 0}, "n_jobs must be a whole number"),
        ({"stop": "relative"}, "stop is for mode='estimated'"),
        ({"stop": "soon", "mode": "estimated"}, "stop must be 'relative', 'paper' or None"),
        ({"worlds_seed": "secret"}, "worlds_seed must be a whole number"),
        ({"budget": MI(1e-300)}, "a budget of 1e-300 nats is finer than the table of the noise can keep"),
        ({"budget": RecordPosterior(0.6, joint=MI(30.0))}, "promises nothing"),
        ({"worlds_seed": -1}, "worlds_seed must be a whole number"),
        ({"worlds": 8.0}, "worlds must be an even whole number"),
        ({"rate": "0.5"}, "rate must lie strictly between"),
        ({"confidence": None}, "confidence must lie strictly between"),
        ({"budget": MI(30.0)}, "promises nothing"),
        ({"budget": RecordPosterior(0.6), "mode": "estimated", "noise": "paper"}, "a noise rule of its own"),
        ({"budget": RecordPosterior(0.6), "mode": "certified"}, "RecordPosterior needs mode='exact'"),
        ({"budget": RecordPosterior(0.6, tpr=0.1), "mode": "estimated"}, "tpr is shown by simulated attacks"),
        ({"budget": RecordPosterior(0.6), "mode": "estimated", "worlds": 64}, "8 exchanges of each of the"),
    ],
)
def test_settings_are_checked_in_one_sentence(settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        PACPrivatizer("mean", **{"budget": MI(1.0), "worlds": 64, **settings}).fit(X)
    assert "\n" not in str(caught.value)


def test_budgets_are_checked():
    for make in (lambda: MI(0), lambda: Posterior(0.4), lambda: RecordPosterior(0.5), lambda: DPEquivalent(-1)):
        with pytest.raises(ValueError, match="got"):
            make()
    with pytest.raises(TypeError, match=r"for nats write MI\(1/16\)"):
        PACPrivatizer("mean", 0.25).fit(X)


def test_pools_are_checked():
    few = np.array([0] * 75 + [1] * 74 + [2])
    with pytest.raises(ValueError, match="class 2 has 1 distinct unit"):
        PACPrivatizer(LinearSVC(), MI(1.0), worlds=8).fit(X, few)
    with pytest.raises(ValueError, match="the pool has 1 distinct unit"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(np.ones((9, 2)))
    with pytest.raises(ValueError, match="y must hold one value per row"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(X, Y[:5])
    with pytest.raises(ValueError, match="row 0, y: the value is missing"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(X, np.full(150, np.nan))
    with pytest.raises(ValueError, match="NaN"):
        PACPrivatizer("mean", MI(1.0), worlds=8).fit(np.full((9, 2), np.nan))


def test_failing_algorithms_are_mapped_to_the_default_or_refused():
    def fragile(rows):
        if len(np.unique(rows[:, 0])) == 5 and rows.sum() > 0:
            raise RuntimeError("no")
        return rows.mean(axis=0)

    with pytest.raises(ValueError, match="the output on the whole pool is not finite"):
        PACPrivatizer(lambda rows: [np.nan], MI(1.0), worlds=8).fit(X)
    with pytest.raises(ValueError, match="in every world: its output holds numbers that are not finite"):
        PACPrivatizer(lambda rows: [1.0] if len(rows) == 150 else [np.inf], MI(1.0), worlds=8).fit(X)
    for wrong, words in (
        (lambda rows: np.linalg.inv(np.zeros((2, 2))), "LinAlgError, Singular matrix;"),
        (lambda rows: LinearSVC().fit(rows * np.nan, rows[:, 0] > 0), "contains NaN;"),
        (lambda rows: {}["secret 7"], "every world: it raises KeyError;"),
        (lambda rows: KMeans(8).fit(rows[:6]), r"n_samples=\.\.\. should be >= n_clusters=\.\.\.;"),
        (
            lambda rows: SVC().fit(rows * 1e400, rows[:, 0] > 0),
            "contains infinity or a value too large",
        ),
    ):
        in_worlds = functools.partial(lambda wrong, rows: rows.mean() if len(rows) == 150 else wrong(rows), wrong)
        with pytest.raises(ValueError, match=words) as failed:
            PACPrivatizer(in_worlds, MI(1.0), worlds=8).fit(X)
        assert "secret" not in str(failed.value)
    with pytest.raises(ValueError, match="its length must not depend on the rows"):
        PACPrivatizer(lambda rows: np.unique(rows[:, 0]), MI(1.0), worlds=8).fit(X)
    pool = np.random.default_rng(0).normal(size=(10, 1))
    fitted = PACPrivatizer(fragile, MI(1.0), worlds=64).fit(pool)
    assert 0 < fitted.report()["failed_fits"] < 64
    assert (fitted.trials_.outputs[fitted.trials_.failed] == fitted.mechanism_.reference).all()


def test_audit_needs_a_finite_list():
    with pytest.raises(ValueError, match="audit needs mode='exact'"):
        PACPrivatizer("mean", MI(1.0), worlds=64, mode="estimated").fit(X).audit()
    fitted = PACPrivatizer("mean", MI(1.0), worlds=64).fit(X)
    assert fitted.audit([0, 5], draws=500).success.shape == (2,)


def gaussian_pool(rng):
    return rng.normal(size=(60, 2))


@pytest.mark.slow
def test_the_certified_promise_holds_over_repetitions():
    """The true variance of a mean is closed form: truth <= certified MI in all but 10 % of 200 fits.

    Pr[more than 45 of 200 fail | each with 0.1] < 1e-6.
    """
    from epsworth.pac.allocation import mean_variances

    failures = 0
    for seed in range(200):
        pool = gaussian_pool(np.random.default_rng(1000 + seed))
        fitted = PACPrivatizer(
            "mean", MI(0.25), worlds=240, mode="certified", basis="diag", confidence=0.9, worlds_seed=seed
        ).fit(pool)
        truth = 0.5 * np.log1p(mean_variances(pool, 30) / fitted.plan_.noise).sum()
        failures += truth > fitted.plan_.mi
    assert failures <= 45


def test_a_fit_that_fails_leaves_nothing_to_release():
    """A refit on other data once kept the old noise with the new outputs: the secret world could be read off."""
    fitted = PACPrivatizer("mean", MI(0.1), worlds=64).fit(X)
    with pytest.raises(ValueError, match="weights must be 4 positive numbers"):
        fitted.set_params(weights=[1, 2]).fit(1e4 * X)
    for ask in (fitted.release, fitted.report, fitted.audit):
        with pytest.raises(NotFittedError):
            ask()

    def interrupt(_):
        raise KeyboardInterrupt

    fitted = PACPrivatizer("mean", MI(0.1), worlds=64, mode="estimated").fit(X)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(1e4 * X, progress=interrupt)
    with pytest.raises(NotFittedError):
        fitted.release()


def test_settings_changed_after_the_fit_promise_nothing():
    fitted = PACPrivatizer("mean", MI(4), worlds=64).fit(X)
    fitted.set_params(n_jobs=1, rate=0.5, budget=MI(4))
    fitted.release()
    fitted.set_params(budget=MI(1 / 64))
    for ask in (fitted.release, fitted.report, fitted.audit):
        with pytest.raises(ValueError, match="budget was changed after fit"):
            ask()


@pytest.mark.slow
def test_reports_of_a_ledger_bound_what_all_its_releases_told():
    ledger, fitted = pac.Ledger(MI(1.0)), PACPrivatizer("mean", MI(0.25), worlds=64).fit(X)
    reports = [fitted.release(ledger).report() for _ in range(3)]
    for number, report in enumerate(reports, 1):
        assert report["mi_nats"] <= 0.25
        assert report["posterior_of_membership"] == pytest.approx(pac.posterior(0.25 * number, 0.5), abs=1e-4)
    assert len({report["noise_trace"] for report in reports}) == 3  # each release has noise of its own


def test_rare_records_are_caught_more_often():
    """The share of listed worlds that hold the rarest record counts, not the nominal rate."""
    fitted = PACPrivatizer("mean", MI(1 / 16), worlds=64, rate=0.2).fit(X)
    rarest = fitted.members().mean(axis=0).min()
    assert rarest < 0.2
    assert fitted.report()["tpr_at_fpr_0.001"] >= pac.tpr_bound(fitted.plan_.mi, rarest, 0.001)


@pytest.mark.parametrize("constant", [np.ones(2), None])
@pytest.mark.cases(1)
def test_outputs_that_no_exchange_moves(constant):
    """Constants are released as such; what differs between worlds, such as their size, gets noise."""

    def algorithm(rows):
        return np.array([float(len(rows))]) if constant is None else constant

    fitted = PACPrivatizer(algorithm, RecordPosterior(0.7), worlds=16 * 41, mode="estimated").fit(X[:41])
    released = fitted.release().vector
    if constant is None:
        assert fitted.plan_.noise[0] > 0
    else:
        np.testing.assert_allclose(released, constant, rtol=1e-14)


@pytest.mark.slow
def test_utility_of_a_certified_fit_is_that_of_certified_noise():
    fitted = PACPrivatizer("mean", MI(0.25), worlds=600, mode="certified").fit(X)
    (found,) = fitted.simulate_utility(lambda vector: 0.0, 9, budgets=[MI(0.25)])
    assert found.trace == fitted.plan_.trace
    with pytest.raises(ValueError, match="basis must be one of"):
        fitted.simulate_utility(lambda vector: 0.0, 9, bases=["daig"])


@pytest.mark.parametrize("records", [[], [150], [-1], "some", [True] * 150, [0.0]])
@pytest.mark.cases(1)
def test_records_to_audit_are_row_numbers(records):
    fitted = PACPrivatizer("mean", MI(0.25), worlds=64).fit(X)
    with pytest.raises(ValueError, match="records must be 'all' or row numbers from 0 to"):
        fitted.audit(records)
