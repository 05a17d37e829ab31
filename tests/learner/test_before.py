"""What version 0.1 wrote and spelt: files and reports are read to the bit, old words work with a warning."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV

from epsworth.exact.testing import ReplayableWords
from epsworth.learner import (
    MECHANISMS,
    Aggregator,
    Classifier,
    LatticeConfig,
    LDPClassifier,
    PrivateValidation,
    plan,
    rate,
    report_file,
    simulate,
)
from epsworth.learner.client import pack
from epsworth.learner.planning import Plan

WRITTEN = json.loads((Path(__file__).parent / "written_before.json").read_text())
every_mechanism = pytest.mark.parametrize("name", sorted(MECHANISMS))
deprecated = pytest.warns(FutureWarning, match="is deprecated")


@every_mechanism
def test_files_and_reports_of_before_mean_the_same_to_the_bit(name, tmp_path):
    """A configuration, reports, their sums, a model; and the same words draw the same reports, the same seed sums."""
    written, X, y = WRITTEN["mechanisms"][name], WRITTEN["X"], WRITTEN["y"]
    stored = {key: base64.b64decode(written[key]) for key in ("reports", "state", "model", "simulated")}
    (tmp_path / "c.json").write_text(written["config"])
    config = LatticeConfig.load(tmp_path / "c.json")
    assert config.fingerprint() == json.loads(written["config"])["fingerprint"]
    config.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == written["config"]
    messages = config.kernel.draw(config.users(X, y), ReplayableWords(5))
    assert pack(config, config.kernel.format.encode(messages)) == stored["reports"]
    sums = Aggregator(config)
    sums.add(stored["reports"])
    assert sums.state() == stored["state"]
    assert simulate(config, X, y, 3, users=5000).state() == stored["simulated"]
    (tmp_path / "m").write_bytes(stored["model"])
    model = Classifier.load(tmp_path / "m")
    assert model.predict(X).tolist() == written["labels"]
    if written["certificate"] is not None:
        p, certified, lower, upper = written["certificate"]
        learnt = Classifier.from_aggregate(Aggregator.from_state(stored["simulated"]))
        found = learnt.certificate(X[:5], confidence=0.8)
        assert found.certified.tolist() == certified
        ours = (found.p_value, found.lower, found.upper)
        moved = (0, 1e-8, 1e-8)  # limits lie outwards by what a quantile of the beta law may be off
        for mine, theirs, by in zip(ours, (p, lower, upper), moved, strict=True):
            np.testing.assert_allclose(mine, np.array(theirs, dtype=float), rtol=1e-9, atol=by)


def test_words_of_before_in_configurations_and_mechanisms():
    now = LatticeConfig(box=(0, 1), m=4, epsilon=2)
    with deprecated:
        before = LatticeConfig(box=(0, 1), m=4, alpha=2)
    assert before == now == LatticeConfig((0, 1), 4, None, (0, 1), "auto", 2)  # by position, too
    with deprecated:
        assert before.alpha == 2
    assert pickle.loads(pickle.dumps(now)) == dataclasses.replace(now, epsilon=2) == now
    with deprecated:
        kernel = MECHANISMS["krr"](alpha=Fraction(1), m=2, d=1, classes=2)
    with deprecated:
        assert kernel.alpha == 1
    with pytest.raises(TypeError, match="give epsilon alone"):
        LatticeConfig(box=(0, 1), m=4, alpha=2, epsilon=2)
    with pytest.raises(ValueError, match=r"^alpha must"):  # it is what the file calls it
        LatticeConfig.from_dict(now.to_dict() | {"alpha": -1})


def test_words_of_before_in_the_estimator():
    x, y = np.linspace(0, 1, 400)[:, None], np.arange(400) >= 200
    with deprecated:
        before = LDPClassifier(alpha=8.0, random_state=0)
    now = LDPClassifier(8.0, random_state=0)
    assert before.get_params() == now.get_params()
    with deprecated:
        assert before.alpha == 8.0
    with deprecated:
        assert LDPClassifier().set_params(alpha=3.0).epsilon == 3.0
    with deprecated:
        search = GridSearchCV(LDPClassifier(random_state=0), {"alpha": [4.0, 8.0], "m": [2]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.9
    fitted = now.fit(x, y)
    expected = fitted.certificate(x[:9], confidence=1 - Fraction(0.1))
    for model in (fitted, fitted.classifier_):
        for ask in (lambda m: m.certificate(x[:9], 0.1), lambda m: m.certificate(x[:9], level=0.1)):
            with deprecated:
                found = ask(model)
            assert (found.certified == expected.certified).all()
            assert (found.lower == expected.lower).all()
            with deprecated:
                assert found.level == 0.1
        with deprecated:
            assert model.abstain(x[:9], 0.1).tolist() == model.abstain(x[:9], confidence=0.9).tolist()


def test_words_of_before_in_plans_validation_and_rates():
    with deprecated:
        before = plan(alpha=1, margin=0.1, level=0.01)
    assert before == plan(epsilon=1, margin=0.1, confidence=1 - Fraction(0.01))
    with deprecated:
        assert before.alpha == 1
    with deprecated:
        assert before.level == 0.01
    with deprecated:
        assert Plan(alpha=1, users=2, margin=0.5, level=0.25).confidence == 0.75
    votes = np.array([[0, 1]] * 30 + [[0, 0]] * 5)
    with deprecated:
        validation = PrivateValidation([len], alpha=2)
    with deprecated:
        estimate, lower, upper, users = validation.accuracies(votes, level=0.25)  # a tuple, once
    now = PrivateValidation([len], epsilon=2).accuracies(votes, confidence=0.75)
    assert [*estimate, *lower, *upper, *users] == [*now.estimate, *now.lower, *now.upper, *now.users]
    with deprecated:
        assert rate(1, beta=0.5, gamma=0.5) == rate(1, exponent=0.5, margin_exponent=0.5)


def test_words_of_before_in_files_of_reports(tmp_path, monkeypatch):
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    pl.DataFrame({"x0": [0.1, 0.9], "y": [0, 1]}).write_csv(tmp_path / "t.csv")
    config = LatticeConfig(box=(0, 1), m=4, epsilon=2)
    with deprecated:
        assert report_file(config, tmp_path / "t.csv", target=tmp_path / "a.ldp", target_column="y") == 2
    assert report_file(config, tmp_path / "t.csv", destination=tmp_path / "b.ldp", target="y", again=True) == 2
    assert (tmp_path / "a.ldp").stat().st_size == (tmp_path / "b.ldp").stat().st_size == 2 * config.report_size
