"""Independently computed values (40-digit arithmetic) at their stated tolerance: 1e-9 relative unless said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from epsworth import pac
from epsworth.pac import allocation
from epsworth.pac.alignment import matching

REFERENCE = json.loads((Path(__file__).parent / "pac.json").read_text())
RELATIVE = 1e-9


def cases(name):
    found = REFERENCE[name]
    found = found["cases"] if isinstance(found, dict) and "cases" in found else found
    found = [found] if isinstance(found, dict) else found
    assert found
    return pytest.mark.parametrize("case", found, ids=[f"{name}-{i}" for i in range(len(found))])


def close(value):
    return pytest.approx(value, rel=RELATIVE)


@cases("posterior_from_mi")
def test_posterior(case):
    assert pac.posterior(case["mi"], case["prior"]) == close(case["posterior"])
    if case["posterior"] < 1:
        assert pac.budget(case["posterior"], case["prior"]) == close(case["mi"])


TABLE_ONE = {  # Sridhar, Xiao & Devadas 2024, in per cent; floored to a grid of 1e-5 there
    "1/64": (58.815, 3.213), "1/32": (62.434, 4.364), "1/16": (67.490, 6.199), "1/8": (74.464, 9.171),
    "1/4": (83.789, 14.057), "1/2": (95.181, 22.177), "1": (100, 35.729), "2": (100, 58.103), "4": (100, 92.582),
}  # fmt: skip


@pytest.mark.parametrize("mi", TABLE_ONE)
def test_table_one_of_the_paper(mi):
    """All entries as printed, but for one slip: 6.200 % at MI 1/16, prior 1 % should read 6.199 %."""
    nats = eval(mi)
    for prior, printed in zip((0.5, 0.01), TABLE_ONE[mi], strict=True):
        assert np.floor(1e5 * pac.posterior(nats, prior)) / 1e3 == pytest.approx(printed, abs=1e-9)


@cases("mi_from_posterior")
def test_budget(case):
    assert pac.budget(case["posterior"], case["prior"]) == close(case["mi"])


@cases("dp_to_posterior")
def test_dp_posterior(case):
    assert pac.dp_posterior(case["eps"], case["delta"], case["r"]) == close(case["posterior"])


@pytest.mark.parametrize(("q", "eps"), [(0.588157, 0.3563), (0.951811, 2.983)])
def test_dp_epsilon_inverts(q, eps):
    assert pac.dp_epsilon(q) == pytest.approx(eps, abs=5e-4)
    assert pac.dp_posterior(pac.dp_epsilon(q, 1e-5), 1e-5) == close(q)


@cases("tpr_bound_from_mi")
def test_tpr_bound(case):
    assert pac.tpr_bound(case["mi"], case["r"], case["fpr"]) == pytest.approx(case["tpr"], rel=1e-8)


@cases("generalised_prior")
def test_generalised_prior(case):
    assert pac.generalised_prior(case["n"], case["s"], case["g"], case["k"]) == close(case["prior"])


@cases("generalised_posterior")
def test_generalised_posterior(case):
    prior = pac.generalised_prior(case["n"], case["s"], case["g"], case["k"])
    assert pac.posterior(case["mi"], prior) == close(case["posterior"])


@cases("world_index_prior")
def test_naming_the_world(case):
    assert pac.posterior(case["mi"], 1 / case["m"]) == close(case["posterior"])


@cases("allocation")
def test_allocation(case):
    s, beta = case["variances"], case["beta"]
    paper, optimal = pac.allocate(s, beta, rule="paper"), pac.allocate(s, beta)
    np.testing.assert_allclose(paper, case["paper"], rtol=RELATIVE)
    np.testing.assert_allclose(optimal, case["optimal"], rtol=RELATIVE)
    assert allocation.gaussian_bound(s, paper) == close(case["paper_mi"])
    assert allocation.gaussian_bound(s, optimal) == close(case["optimal_mi"])
    assert optimal.sum() / paper.sum() == close(case["trace_ratio"])
    for rule, key in (
        ("isotropic_paper", "isotropic_max"), ("isotropic", "isotropic_trace"), ("isotropic_exact", "isotropic_exact"),
    ):  # fmt: skip
        np.testing.assert_allclose(pac.allocate(s, beta, rule)[np.array(s) > 0], case[key], rtol=RELATIVE)


@cases("allocation_weighted")
def test_weighted_allocation(case):
    found = pac.allocate(case["variances"], case["beta"], weights=case["weights"])
    np.testing.assert_allclose(found, case["optimal"], rtol=RELATIVE)


@cases("full_covariance")
def test_full_covariance(case):
    found = allocation.noise_covariance(case["cov"], case["beta"], case["rule"])
    np.testing.assert_allclose(found, case["noise_cov"], rtol=RELATIVE, atol=1e-12)
    assert np.trace(found) == close(case["trace"])
    mi = 0.5 * np.linalg.slogdet(np.eye(len(found)) + np.array(case["cov"]) @ np.linalg.inv(found))[1]
    assert mi == close(case["mi"])
    assert pac.allocate(np.diag(case["cov"]), case["beta"], case["rule"]).sum() == close(case["diag_trace"])


@cases("procrustes")
def test_procrustes(case):
    A, B = np.array(case["A"]), np.array(case["B"])
    found = pac.procrustes(A, B)
    np.testing.assert_allclose(found, case["M"], rtol=RELATIVE, atol=1e-10)
    np.testing.assert_allclose(found, orthogonal_procrustes(B.T, A.T)[0].T, atol=1e-12)  # another library
    assert np.sum((A - found @ B) ** 2) == close(case["residual_sq"])
    assert np.sum((A - B) ** 2) == close(case["unaligned_residual_sq"])
    assert case["residual_sq"] <= case["unaligned_residual_sq"]


@cases("procrustes")
def test_the_papers_claim_one_is_not_orthogonal_and_its_repair_is_procrustes(case):
    A, B = np.array(case["A"]), np.array(case["B"])
    k = len(A)
    (UA, _, VA), (UB, _, VB) = np.linalg.svd(A), np.linalg.svd(B)
    printed = (VA @ VB.T)[:k, :k]
    if k > 1:
        assert np.abs(printed @ printed.T - np.eye(k)).max() > 0.01
    left, _, right = np.linalg.svd(printed)
    np.testing.assert_allclose(UA @ (left @ right) @ UB.T, pac.procrustes(A, B), atol=1e-8)


@cases("individual_noise")
def test_individual_noise(case):
    noise = allocation.individual_allocation(case["second_moments"], case["beta"], case["r"])
    np.testing.assert_allclose(noise, case["noise_var"], rtol=RELATIVE)
    bounds = allocation.individual_bound(case["second_moments"], noise, case["r"])
    np.testing.assert_allclose(bounds, case["record_bounds"], rtol=RELATIVE)
    assert (bounds <= case["beta"] * (1 + 1e-12)).all()


@cases("mean_closed_form")
def test_mean_in_closed_form(case):
    X, h = np.array(case["X"]), case["h"]
    np.testing.assert_allclose(allocation.mean_variances(X, h), case["output_variance"], rtol=RELATIVE)
    moments = allocation.mean_second_moments(X, h)
    np.testing.assert_allclose(moments, case["individual_second_moment"], rtol=RELATIVE)
    rate = h / len(X)
    linear = rate * (1 - rate) / 2 * moments.sum(axis=1)
    np.testing.assert_allclose(linear, case["individual_bound_at_unit_noise"], rtol=RELATIVE)
    assert (allocation.individual_bound(moments, np.ones(X.shape[1]), rate) <= linear).all()


@cases("kmeans_matching")
def test_matching_of_centroids(case):
    order = matching(case["reference"], case["centroids"])
    assert order.tolist() == case["order"]
    cost = np.sum((np.array(case["reference"]) - np.array(case["centroids"])[order]) ** 2)
    assert cost == close(case["cost"])
