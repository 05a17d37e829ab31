"""Rows that fakes name more often than honest clients do are named in a warning; honest reports give none."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import stats

from epsworth.learner import (
    Aggregator,
    AuditedClassifier,
    Classifier,
    Client,
    Holder,
    LatticeConfig,
    Number,
    ScoreAudit,
    TableConfig,
    learn_table,
    simulate,
)
from epsworth.learner.fakes import FALSE_ALARM, _tails, odd_row
from epsworth.learner.figures import told_of
from epsworth.learner.mechanism import Tally
from epsworth.report import report

ROWED = [("hadamard", 16, 2), ("parity", 7, 2), ("cosine", 8, 2)]


def honest(name="hadamard", m=16, d=2, users=100_000, seed=0):
    config = LatticeConfig(box=(0, 1), m=m, d=d, mechanism=name, epsilon=1)
    X = np.random.default_rng(3).random((500, d))
    return simulate(config, X, X[:, 0] > 0.5, np.random.default_rng(seed), users=users)


def with_fakes(sums, row, fakes):
    """Replace as many reports, of all rows alike, by ones that name a row."""
    counts, groups = sums.tally.counts.copy(), sums.tally.users.size
    flat = counts.reshape(-1, 2)
    flat[row, 1] += fakes
    return Aggregator(sums.config, Tally(counts, counts.reshape(groups, -1).sum(axis=1)))


@pytest.mark.parametrize(("name", "m", "d"), ROWED)
@pytest.mark.slow
def test_honest_reports_give_no_warning(name, m, d):
    """200 sets of simulated reports, and one of real ones: false alarms have probability 1e-6 each."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(200):
            Classifier.from_aggregate(honest(name, m, d, seed=seed), None)
        config = honest(name, m, d, users=9).config
        X = np.random.default_rng(1).random((20_000, d))
        sums = Aggregator(config)
        sums.add(Client(config).reports(X, X[:, 0] > 0.5))
        Classifier.from_aggregate(sums, None)


@pytest.mark.parametrize(("name", "m", "d", "row", "told"), [
    ("hadamard", 16, 2, 77, "row 77"), ("parity", 7, 2, 35, "row 3 of class 2"), ("cosine", 8, 2, 5, "row 5"),
])  # fmt: skip
def test_one_percent_on_one_row_is_named(name, m, d, row, told):
    sums = with_fakes(honest(name, m, d), row, 1000)
    with pytest.warns(UserWarning, match=rf"^{told} is named by [\d,]+ of 101,000 reports, where honest ones") as seen:
        Classifier.from_aggregate(sums)
    assert seen[0].filename == __file__
    assert "other rows" not in str(seen[0].message)


@pytest.mark.parametrize(("name", "m", "d", "row"), [("hadamard", 4, 2, 9), ("parity", 3, 2, 5)])
def test_nothing_is_certified_of_reports_that_name_a_row_too_often(name, m, d, row):
    """Unless so many fakes are declared that they may have named it; what a declared bound explains stays certified."""
    middles = (np.indices((4, 4)).reshape(2, -1).T + 0.5) / 4
    before = Classifier.from_aggregate(honest(name, m, d), None)
    assert before.certificate(middles, fakes=0).certified.any()
    with pytest.warns(UserWarning, match="nothing is certified of them"):
        model = Classifier.from_aggregate(with_fakes(honest(name, m, d), row, 2000), None)
    for fakes in (0, 1, 500, 0.002):
        found = model.certificate(middles, fakes=fakes, holder=Holder(0.0) if fakes == 0 else None)
        assert "named by" in found.reason
        assert "Nothing is certified: row" in str(found)
        assert not found.certified.any()
        assert (found.p_value == 1).all()
        assert (found.adjusted == 1).all()
        assert np.isnan(found.lower).all()
        assert found.point is None if fakes else not found.point.any()
        assert model.abstain(middles, fakes=fakes).mask.all()
        told = told_of(model, fakes=fakes)
        assert (told["certified"], told["reason"]) == (0, found.reason)
        assert {one["certified"] for one in told["by_confidence"]} == {0}
        assert report(json.loads(json.dumps(told))).html.count("Nothing is certified: row") >= 1
    declared = model.certificate(middles, fakes=2000)
    assert declared.reason is None
    assert (declared.p_value < 1).any()


def test_an_audit_whose_reports_name_a_row_too_often_certifies_nothing():
    X = np.random.default_rng(0).uniform(size=(20_000, 5))
    y = X[:, 0] + X[:, 1] > 1
    columns = [Number(name, 0, 1) for name in "abcde"]
    audit = ScoreAudit.of(learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1))
    sums = simulate(audit, X, y, 2, users=20_000)
    assert AuditedClassifier(sums).certificate(X[:50], fakes=0).certified.any()
    with pytest.warns(UserWarning, match="^row 3 is named by"):
        audited = AuditedClassifier(with_fakes(sums, 3, 1000))
    assert not audited.certificate(X[:50], fakes=0).certified.any()
    assert audited.abstain(X[:50], fakes=100).mask.all()
    assert audited.certificate(X[:50], fakes=0.05).reason is None


def test_a_model_that_is_read_warns_as_well(tmp_path):
    with pytest.warns(UserWarning, match="^row 9 is named by"):
        Classifier.from_aggregate(with_fakes(honest(), 9, 1000)).save(tmp_path / "m")
    with pytest.warns(UserWarning, match="^row 9 is named by"):
        Classifier.load(tmp_path / "m")


def test_several_odd_rows_and_missing_ones_are_counted():
    counts = np.full(256, 400)
    counts[[3, 4, 9]] = 600, 700, 300
    found = odd_row(counts)
    assert (found.row, found.reports, found.rows) == (4, 700, 2)
    counts[:] = 400
    counts[9] = 0
    assert odd_row(counts)[:2] == (9, 0)


@pytest.mark.parametrize(("n", "rows"), [(40, 4), (300, 7), (1000, 64), (10_000, 256)])
def test_false_alarms_are_as_rare_as_promised_by_enumeration(n, rows):
    """One row's count has a binomial law; both of its sides, over all rows, have at most the level, and near to it."""
    count, own = np.arange(n + 1), stats.binom(n, 1 / rows)
    p = _tails(count, n, 1 / rows)
    assert (p >= np.minimum(own.sf(count - 1), own.cdf(count)) * (1 - 1e-9)).all()
    for fakes in (1, n // 10):  # which may name the row or leave it out, whatever honest reports name
        own_fakes = np.minimum(own.sf(count - fakes - 1), own.cdf(count + fakes))
        assert (_tails(count, n, 1 / rows, fakes) >= own_fakes * (1 - 1e-9)).all()
    for level in (1e-6, 1e-3, 0.05):
        alarm = p * 2 * rows <= level
        assert alarm[-1]
        assert 1e-3 * level < own.pmf(count) @ alarm * rows <= level


def test_p_values_are_those_of_the_binomial_law():
    for count in (150, 250, 391, 500, 700):
        rest = np.full(255, (100_000 - count) // 255)
        rest[: (100_000 - count) % 255] += 1
        own = stats.binom(100_000, 1 / 256)
        p = min(own.sf(count - 1), own.cdf(count)) * 512
        found = odd_row(np.append(count, rest), level=2.0)
        if p < 0.5:
            assert found.row == 0
            assert p <= found.p_value <= p * (1 + 1e-9)


def test_rows_of_unequal_weights_are_held_against_their_own():
    weights = np.array([1024, 724, 591, 512, 458])
    counts = np.random.default_rng(0).multinomial(100_000, weights / weights.sum())
    assert odd_row(counts, weights) is None
    assert odd_row(counts) is not None
    counts[4] += 1500
    assert odd_row(counts, weights).row == 4


def test_few_or_no_reports_and_huge_sums_are_judged():
    assert odd_row(np.zeros(8, dtype=np.int64)) is None
    assert odd_row(np.array([3, 0, 0, 0])) is None
    assert odd_row(np.array([5])) is None  # one row: everybody names it
    huge = np.full(1024, 2**43)
    assert odd_row(huge) is None
    huge[7] += 10**9
    assert odd_row(huge).row == 7
    assert FALSE_ALARM == 1e-6
