"""Every case of the independently computed reference values (quadrature at 30 digits; see each case's ``how``)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epsworth import noise
from epsworth.noise.mechanism import Boosted
from epsworth.noise.objective import deltas_around
from epsworth.noise.profiles import boost_needed, outside
from epsworth.noise.published import published_terms
from epsworth.noise.ranking import cheapest
from epsworth.noise.regions import region
from epsworth.noise.staircase import best_staircase
from epsworth.noise.tuning import best_boosted, plain

CASES = json.loads((Path(__file__).parent / "privacy_boosting.json").read_text())["cases"]


def cases(*kinds):
    found = [case for case in CASES if case["kind"] in kinds]
    assert found, kinds
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def checked(case, **numbers):
    for name, value in numbers.items():
        assert float(value) == pytest.approx(case["expect"][name], rel=case["rel_tol"], abs=case.get("abs_tol")), name


def built(params, where=None):
    where = region("absolute", params["theta"]) if where is None else where
    return noise.boosted(
        params.get("kernel", "gaussian"), scale=params["scale"], theta=params.get("theta", 1.0),
        confidence=1 - params["beta"], sensitivity=params.get("sensitivity", 1.0),
    )  # fmt: skip


def ranked(params):
    return cheapest(
        params["theta"], confidence=1 - params["beta"], sensitivity=params["sensitivity"], delta=params["delta"]
    )


def test_no_case_is_left_out():
    marks = [mark for test in list(globals().values()) if callable(test) for mark in getattr(test, "pytestmark", [])]
    used = {case["id"] for mark in marks if mark.name == "parametrize" for case in mark.args[1]}
    assert used == {case["id"] for case in CASES}


@cases("boost")
def test_boost(case):
    p = case["params"]
    found = built(p)
    law = found.law()
    inside, out = law.weights()
    chance = outside(p["kernel"], p["scale"], region("absolute", p["theta"]))
    checked(case, kernel_out_prob=chance, B=found.boost, weight_in=inside, weight_out=out, prob_in=found.confidence)


@cases("gaussian_baseline")
@pytest.mark.slow
def test_gaussian_baseline(case):
    p = case["params"]
    found = cheapest(p["theta"], confidence=1 - p["beta"], sensitivity=p["sensitivity"], delta=p["delta"]).named(
        "gaussian"
    )
    checked(case, sigma0=found.noise.scale, eps=found.epsilon)


@cases("delta_absolute")
def test_delta_absolute(case):
    p = case["params"]
    found = noise.boosted(
        p["kernel"], scale=p["scale"], theta=p["theta"], boost=case["expect"]["B"], sensitivity=p["sensitivity"]
    )
    checked(case, delta=noise.delta(found, p["eps"]), B=built(p).boost)


@cases("eps_absolute")
def test_epsilon_absolute(case):
    checked(case, eps=built(case["params"]).epsilon(case["params"]["delta"]))


@cases("delta_fixed_ordered_pair")
def test_one_ordered_pair_of_a_fixed_region(case):
    p = case["params"]
    where = region("fixed", tuple(p["region"]), answers=sorted([p["q"], p["q_prime"]]))
    found = Boosted("gaussian", p["scale"], float(p["B"]), where, 1.0)
    first, _ = where.pairs(1.0)
    checked(case, delta=found.by_pair(p["eps"])[list(first).index(p["q"])])


@cases("delta_fixed_sup_integers", "delta_relative_sup_integers")
def test_all_pairs_of_regions_that_depend_on_the_answer(case):
    p, fixed = case["params"], case["kind"] == "delta_fixed_sup_integers"
    where = (
        region("fixed", tuple(p["region"]))
        if fixed
        else region("relative", p["theta"], offset=p["offset"], answers=range(61))
    )
    boost = float(boost_needed(outside("gaussian", p["scale"], where), p["beta"]))
    found = Boosted("gaussian", p["scale"], boost, where, p["sensitivity"])
    checked(case, delta=found.profile(p["eps"]), B=boost)
    first, second = where.pairs(p["sensitivity"])
    own = list(zip(first, second, strict=True)).index(tuple(case["expect"]["worst_pair"]))
    assert found.by_pair(p["eps"])[own] == pytest.approx(float(found.profile(p["eps"])), rel=1e-9)
    terms = published_terms(found)
    checked(case, paper_tau=terms.shift, paper_delta=noise.published_delta(found, p["eps"]))
    if not fixed:
        checked(case, paper_p_plus=terms.plus, paper_p_minus=terms.minus)


@cases("delta_discrete_gaussian")
def test_discrete_gaussian(case):
    p = case["params"]
    found = noise.boosted("discrete_gaussian", scale=p["sigma"], theta=5, confidence=1 - p["beta"])
    flat = noise.boosted("discrete_gaussian", scale=p["sigma"], theta=5)
    boost = boost_needed(1 - flat.confidence, p["beta"])
    checked(case, delta=found.profile(p["eps"]), B=boost, kernel_in_prob=flat.confidence)


@cases("rdp_absolute")
def test_renyi(case):
    p = case["params"]
    found = built(p)
    checked(case, rdp=found.renyi(p["alpha"]), paper_rdp=noise.published_renyi(found, p["alpha"]))


@cases("paper_delta_absolute")
def test_published_delta(case):
    p = case["params"]
    found = built(p)
    checked(case, paper_delta=noise.published_delta(found, p["eps"], p["T"]))
    if "exact_delta" in case["expect"]:
        checked(case, exact_delta=found.profile(p["eps"]))


@cases("delta_composed")
def test_composed_delta_lies_in_the_bracket(case):
    p, expect = case["params"], case["expect"]
    found = deltas_around(built(p), p["T"], epsilon=p["eps"], beyond=1e-9)(p["eps"])
    assert expect["delta_lower"] <= found <= 1.05 * expect["delta_upper"]


@cases("optimal_gaussian_kernel")
@pytest.mark.slow
def test_best_kernel(case):
    p = case["params"]
    where = region("absolute", p["theta"])
    best = best_boosted("gaussian", where, p["beta"], p["sensitivity"], p["delta"])
    gaussian = cheapest(p["theta"], confidence=1 - p["beta"], sensitivity=p["sensitivity"], delta=p["delta"]).named(
        "gaussian"
    )
    checked(
        case, eps=best.epsilon(p["delta"]), sigma0=plain("gaussian", where, p["beta"], 1.0).scale,
        eps_gaussian=gaussian.epsilon,
    )  # fmt: skip
    assert best.scale == pytest.approx(case["expect"]["sigma"], rel=0.02)  # flat there


@cases("best_confidence")
@pytest.mark.slow
def test_best_confidence(case):
    p = case["params"]
    checked(case, beta=1 - noise.best_confidence(p["eps"], p["theta"], p["sensitivity"], p["delta"]))


@cases("narrowest_interval")
@pytest.mark.slow
def test_narrowest_interval(case):
    p = case["params"]
    checked(
        case,
        theta=noise.narrowest_interval(
            p["eps"], confidence=1 - p["beta"], sensitivity=p["sensitivity"], delta=p["delta"]
        ),
    )


@cases("pb_grr")
def test_pb_grr(case):
    p = case["params"]
    truth, inside, out = noise.pb_grr(p["d"], p["k"], p["eps"], p["eps_kernel"])
    grouped = noise.Grouped(p["d"], p["k"], p["eps"], p["eps_kernel"])
    checked(
        case, p=truth, q_in=inside, q_out=out, confidence=grouped.confidence,
        var_category_count=grouped.category_variance(p["n"], p["n_category"]),
        var_value_count=grouped.value_variance(p["n"], p["n_category"], p["n_value"]),
    )  # fmt: skip


@cases("pb_grr_unequal")
def test_pb_grr_with_clipped_windows(case):
    from epsworth.noise.local import _matrix, _membership, channel_loss

    p = case["params"]
    found = noise.channel(p["regions"], p["eps"], p["eps_kernel"])
    published = _matrix(_membership(p["regions"]), p["eps_kernel"], p["eps"] - p["eps_kernel"])
    checked(case, ln_B=found.log_boost, true_eps_if_lnB_is_eps_minus_epsK=channel_loss(published))


@cases("noise_law")
def test_law(case):
    p = case["params"]
    found = built(p)
    law = found.law()
    checked(case, B=found.boost, variance=law.var())
    np.testing.assert_allclose(law.from_uniform(p["u"]), case["expect"]["quantiles"], rtol=1e-7, atol=1e-8)
    chance = float(outside("gaussian", p["scale"], region("absolute", p["theta"])))
    checked(case, mean_rejection_draws=1 / (1 - chance * (1 - 1 / found.boost)))


@cases("staircase_baseline")
def test_staircase(case):
    p = case["params"]
    checked(case, eps=best_staircase(p["theta"], p["beta"], p["sensitivity"]).pure_epsilon)
    laplace = ranked(p | {"delta": 0.0}).named("laplace")
    checked(case, laplace_eps=laplace.epsilon)
