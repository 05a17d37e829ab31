"""Audits of a table's model: the published score, files, what fits which model, a balanced prior, rows by hash."""

from __future__ import annotations

import json

import numpy as np
import pytest
from table_worlds import config, rows

from epsworth.learner import (
    Aggregator,
    AuditedClassifier,
    Client,
    ScoreAudit,
    assigned_rows,
    learn_table,
    simulate,
)
from epsworth.learner.config import load_config


def learnt(seed=0, **given):
    X, y = rows(20_000, seed=1)
    return learn_table(config(100_000, epsilon=2, **given), X, y, seed, users=100_000)


@pytest.mark.parametrize("prior", ["estimated", "balanced"])
@pytest.mark.parametrize("rounds", ["linear", "ramp", "weighted"])
def test_published_scores_are_those_of_the_model(prior, rounds):
    """In whole numbers of 2^-32, of five columns and an intercept: none further off than three of them."""
    model = learnt(prior=prior, rounds=rounds)
    X, _ = rows(2000, seed=2)
    audit = ScoreAudit.of(model)
    assert np.abs(audit.scores(X)[:, 0] - model.decision_function(X)).max() <= 3 * 2.0**-32
    assert (audit.scores(X)[:, 0] > audit.bands.box[0][0]).mean() > 0.5


def test_a_saved_audit_is_the_same(tmp_path):
    model = learnt()
    X, y = rows(500, seed=3)
    for about in ("labels", "probabilities"):
        audit = ScoreAudit.of(model, about)
        audit.save(tmp_path / "audit.json")
        again = load_config(tmp_path / "audit.json")
        assert isinstance(again, ScoreAudit)
        assert again.fingerprint() == audit.fingerprint()
        assert np.array_equal(again.scores(X), audit.scores(X))
        sums = Aggregator(again)
        sums.add(Client(audit).reports(X, y))
        assert Aggregator.from_state(sums.state()) == sums
        sums.save(tmp_path / "sums")
        assert AuditedClassifier(Aggregator.load(tmp_path / "sums")).audit.fingerprint() == audit.fingerprint()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"about": "names"}, "about must be one of labels, probabilities"),
        ({"middle": 0.5}, "middle must be a whole number"),
        ({"spread": 0}, "spread must be a whole number"),
        ({"spread": True}, "spread must be a whole number"),
        ({"score": {"intercept": 1, "tables": [], "missing": []}}, "tables must be a list of 5, one per column"),
        ({"middle": 7}, "fingerprint: it is not the content's; the audit was edited"),
    ],
)
def test_an_edited_audit_is_refused(tmp_path, changed, told):
    audit = ScoreAudit.of(learnt())
    audit.save(tmp_path / "audit.json")
    document = json.loads((tmp_path / "audit.json").read_text()) | changed
    (tmp_path / "audit.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=told) as refused:
        load_config(tmp_path / "audit.json")
    assert "\n" not in str(refused.value)


def test_audits_of_two_models_do_not_mix():
    here, there = ScoreAudit.of(learnt(0)), ScoreAudit.of(learnt(1))
    X, y = rows(10, seed=4)
    with pytest.raises(ValueError, match=r"another configuration|foreign"):
        Aggregator(here).add(Client(there).reports(X, y))
    with pytest.raises(ValueError, match="fingerprints differ"):
        Aggregator(here).merge(simulate(there, X, y, 0))


def test_every_record_answers_an_audit():
    """Labels that nobody declared and values that are missing are reported all the same."""
    audit = ScoreAudit.of(learnt())
    X = [[None, "x", [], object(), 7], [float("nan"), 2.0, 1e300, "nurse", 1], [50, 2, 170, "clerk", 0]]
    assert Aggregator(audit).add(Client(audit).reports(X, ["no", "maybe", None])) == 3


def test_rows_by_hash_are_those_of_the_id():
    audit = ScoreAudit.of(learnt(rows="hash"))
    X, y = rows(3, seed=5)
    ids = ["a", "b", "c"]
    own = assigned_rows(audit, ids, "a seed")
    sums = Aggregator(audit)
    with pytest.raises(ValueError, match="is about row"):
        sums.add(Client(audit).reports(X, y, rows=(own + 1) % 32), users=ids, seed="a seed")
    assert sums.add(Client(audit).reports(X, y, rows=own), users=ids, seed="a seed") == 3
    with pytest.raises(ValueError, match="for audits about labels"):
        ScoreAudit.of(audit_model := learnt(rows="hash"), "probabilities")
    assert audit_model.config.rows == "hash"


def test_declared_fakes_weaken_an_audit():
    X, y = rows(20_000, seed=6)
    found = AuditedClassifier(simulate(ScoreAudit.of(learnt()), X, y, 0))
    honest, doubted = found.certificate(X, fakes=0), found.certificate(X, fakes=2000)
    assert "the average over the row's band of scores, not of the row itself" in str(honest)
    assert doubted.certified.sum() < honest.certified.sum()
    assert (doubted.p_value >= honest.p_value).all()
