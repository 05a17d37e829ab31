"""Results of PAC privacy share one shape."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from epsworth.pac import MI, PACPrivatizer, lira

POOL = np.random.default_rng(0).uniform(size=(12, 2))


@pytest.fixture(scope="module")
def fitted():
    return PACPrivatizer(KMeans(2, n_init=1), MI(1.0), worlds=8, worlds_seed=0).fit(POOL)


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
