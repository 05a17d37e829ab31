"""What success on average hides: a world whose output no other one resembles is recognised, and that is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from epsworth.bounds import Risk
from epsworth.pac import MI, Ledger, PACPrivatizer, RecordPosterior
from epsworth.pac.exposure import expose, standing_out

POOL = np.random.default_rng(0).normal(size=(40, 2))


def in_world(number):
    """Return a function that is non-zero in one listed world only."""
    rows = POOL[PACPrivatizer("mean", MI(0.1), worlds=64, worlds_seed=3).fit(POOL).members()[number]]
    return lambda X: [float(X.shape == rows.shape and (rows == X).all())]


@pytest.mark.parametrize("budget", [MI(0.3), RecordPosterior(0.75, joint=MI(0.3))])
@pytest.mark.cases(1)
def test_a_world_that_stands_alone_is_warned_of_and_counted(budget):
    alone = PACPrivatizer(in_world(17), budget, worlds=64, worlds_seed=3)
    with pytest.warns(
        UserWarning, match=r"^1 of the 64 listed worlds stand out from the noise: .* \(chance 1\.563 %\)"
    ):
        alone.fit(POOL)
    report = alone.report()
    assert report["worlds_that_tell_a_membership"] == 1
    assert 1 / 64 <= report["chance_of_a_release_from_them"] <= 1 / 64 + 1e-6
    assert any("stand out from the noise" in limit for limit in report["limits"])
    audited = alone.audit(draws=4096)
    assert 1 / 64 < audited.named < 2 / 64
    assert audited.to_dict()["named"] == audited.named
    if isinstance(budget, RecordPosterior):
        assert 1 / 64 < report["chance_that_a_world_is_named"] < 2 / 64
    ledger = Ledger(MI(1.0))
    if isinstance(budget, MI):
        assert alone.release(ledger).report()["worlds_that_tell_a_membership"] == 1


@pytest.mark.parametrize("algorithm", ["mean", in_world(17)])
@pytest.mark.cases(1)
def test_worlds_within_the_noise_are_not_warned_of(algorithm):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PACPrivatizer(algorithm, MI(0.02), worlds=64, worlds_seed=3).fit(POOL)
    assert found.report()["worlds_that_tell_a_membership"] == 0
    assert found.report()["chance_of_a_release_from_them"] == 0
    sampled = PACPrivatizer("mean", MI(0.1), worlds=64, mode="estimated").fit(POOL)
    assert "worlds_that_tell_a_membership" not in sampled.report()


def test_a_few_worlds_together_tell_what_they_share():
    """Two worlds far from all others: neither is named, but a record that both hold is found."""
    members = np.random.default_rng(1).random((64, 12)) < 0.5
    members[5, 0] = members[6, 0] = True
    whitened = np.zeros((64, 1))
    whitened[[5, 6]] = 6.0
    assert np.flatnonzero(standing_out(whitened, members)).tolist() == [5, 6]
    assert expose(whitened, members, np.random.default_rng(0), draws=4096, risk=Risk(0.01)).named < 0.01
    members[6] = ~members[5]  # they share nothing
    assert not standing_out(whitened, members).any()
    belief = np.full(64, 1 / 62)
    belief[[5, 6]] = 0  # ruled out by earlier answers
    assert not standing_out(whitened, members, belief).any()


@pytest.mark.parametrize(("ratio", "found"), [(98.0, False), (100.0, True)])
def test_a_world_tells_a_record_from_a_likelihood_ratio_of_99_on(ratio, found):
    """A record of one world alone: there its odds rise by exp(d^2 / 2), d the distance to all other worlds."""
    members, whitened = np.zeros((64, 1), dtype=bool), np.zeros((64, 1))
    members[0], whitened[0] = True, np.sqrt(2 * np.log(ratio))
    assert standing_out(whitened, members)[0] == found
