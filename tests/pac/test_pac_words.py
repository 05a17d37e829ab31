"""Spellings of before work for one version more, and say what to write."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from epsworth.pac import MI, DPEquivalent, PACPrivatizer, RecordPosterior, allocate, dp_posterior, lira

POOL = np.random.default_rng(0).uniform(size=(12, 2))


@pytest.fixture(scope="module")
def fitted():
    return PACPrivatizer(KMeans(2, n_init=1), MI(1.0), worlds=8, worlds_seed=0).fit(POOL)


def test_keywords_of_before_say_what_to_write(fitted):
    with pytest.warns(FutureWarning, match="eps= of DPEquivalent.. is deprecated .* write epsilon="):
        assert DPEquivalent(eps=0.5) == DPEquivalent(0.5)
    with pytest.warns(FutureWarning, match="write epsilon="):
        assert dp_posterior(eps=0.5) == dp_posterior(0.5)
    with pytest.warns(FutureWarning, match="write mi="):
        assert allocate([1.0], beta=0.5) == allocate([1.0], 0.5)
    with pytest.warns(FutureWarning, match="write confidence="):
        found = lira(fitted, POOL, trials=20, miss=0.25)
    assert found.confidence == 0.75
    np.testing.assert_array_equal(found.interval.upper, lira(fitted, POOL, trials=20, confidence=0.75).interval.upper)


def test_attributes_of_before_say_what_to_write():
    with pytest.warns(FutureWarning, match="DPEquivalent.eps is deprecated"):
        assert DPEquivalent(0.5).eps == 0.5
    exact = PACPrivatizer("mean", RecordPosterior(0.9, joint=MI(0.5)), worlds=32, worlds_seed=0).fit(POOL)
    found = exact.calibrated_
    for fit, name, now in (
        (exact, "exposure_", found.exposure), (exact, "confidence_", 1.0), (exact, "world_prior_", found.world_prior),
        (exact, "record_prior_", 0.5), (exact, "shares_", (0.5, 0.5)), (exact, "pairs_", found.pairs),
        (exact, "units_", 12), (exact, "pool_rows_", 12), (exact, "n_outputs_", 2),
    ):  # fmt: skip
        with pytest.warns(FutureWarning, match=f"{name} is deprecated .* write calibrated_"):
            assert getattr(fit, name) == now
    certified = PACPrivatizer("mean", MI(1.0), worlds=300, mode="certified", worlds_seed=0).fit(POOL)
    with pytest.warns(FutureWarning, match="certificate_"):
        assert certified.certificate_.spent <= 1 - certified.calibrated_.confidence


def test_results_share_one_shape(fitted, tmp_path):
    """Text with numbers, the same in a notebook, a dictionary that JSON holds; a release shows no draw of its own."""
    release, audit = fitted.release(), fitted.audit(draws=64)
    utility = fitted.simulate_utility(lambda model: 0.5, 4)[0]
    for result in (release, audit, utility, lira(fitted, POOL, trials=20)):
        result.save(tmp_path / "result.json")
        assert any(letter.isdigit() for letter in str(result))
        assert str(result).replace("'", "&#x27;") in result._repr_html_()
    assert "nats" in str(release)
    assert "99 % confidence" in str(audit)
    assert len(audit.plot().lines) == 2
    assert str(utility).startswith("MI 1 nats, optimal noise in svd: score 0.5 +- 0 over 4 releases")
