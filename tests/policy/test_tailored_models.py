"""Whether a policy's copy is one of the classifier that is served, and what a gateway says of tailored policies."""

from __future__ import annotations

import json
from dataclasses import replace

import joblib
import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops_io

from epsworth import Feature, Policy
from epsworth.classifiers.fingerprints import fingerprint, fingerprint_of_answers
from epsworth.gateway import Settings
from epsworth.policy.audit.policy_audit import audit_model
from tailored import RULE, policy

FEATURES = [Feature("age", 0, 100), Feature("hours", 0, 7, points=8), Feature("bmi", 10, 60)]


def fitted(seed=0, named=True):
    draw = np.random.default_rng(seed)
    table = pl.DataFrame({f.name: draw.uniform(f.lower, f.upper, 200) for f in FEATURES})
    return DecisionTreeClassifier(max_depth=4, random_state=0).fit(
        table if named else table.to_numpy(), draw.integers(0, 3, 200) + 2 * (table["age"].to_numpy() > 50)
    )


def test_fingerprints_tell_answers_apart_and_nothing_else(tmp_path):
    model = fitted()
    found = fingerprint(model, FEATURES)
    assert found == fingerprint(fitted(), FEATURES)
    joblib.dump(model, tmp_path / "m.joblib")
    assert fingerprint(joblib.load(tmp_path / "m.joblib"), FEATURES) == found
    assert fingerprint(fitted(1), FEATURES) != found
    assert fingerprint(model, FEATURES[::-1]) == found  # the model's own order
    assert fingerprint(fitted(named=False), FEATURES) == found  # columns without names stand in the policy's order
    assert len(found) == 64


def test_fingerprints_of_any_kind_of_classifier():
    words = [Feature("x0", 0, 1), Feature("x1", categories=("a", "b", "c"))]
    asked = []
    assert fingerprint(lambda X: asked.append(X) or X[:, 1], words) != fingerprint(lambda X: X[:, 1] == "a", words)
    assert asked[0].shape == (512, 2)
    assert set(asked[0][:, 1]) == set("abc")
    frames = [Feature("age", 0, 1), Feature("job", categories=("a", "b", "c"))]
    assert fingerprint(lambda X: X["job"].to_list(), frames) == fingerprint(lambda X: X[:, 1], words)
    whole = [Feature("x0", 0, 7, points=8)]
    assert fingerprint(lambda X: X[:, 0] == np.rint(X[:, 0]), whole) == fingerprint_of_answers(np.ones(512, dtype=bool))
    assert fingerprint_of_answers(np.array(["1"])) != fingerprint_of_answers(np.array([1]))
    assert fingerprint_of_answers(np.array([True])) != fingerprint_of_answers(np.array([1]))


def test_a_classifier_of_other_columns_is_refused():
    with pytest.raises(ValueError, match="reads 'bmi', of which no range is declared"):
        fingerprint(fitted(), FEATURES[:2])
    with pytest.raises(ValueError, match="reads 3 columns, where 2 are declared"):
        fingerprint(fitted(named=False), FEATURES[:2])


def model(place, name):
    """Write a classifier of the policy's columns, and return its fingerprint."""
    draw = np.random.default_rng(len(name))
    grids = policy().tailoring.grids
    table = pl.DataFrame({g.name: g.values[draw.integers(0, g.input.places, 300)] for g in grids})
    found = DecisionTreeClassifier(max_depth=4, random_state=0).fit(table.drop("job"), table["age"] > 5 * len(name))
    skops_io.dump(found, place / f"{name}.skops")
    return fingerprint(found, [g.feature for g in grids])


@pytest.mark.slow
def test_the_command_says_whether_the_model_is_the_one_that_was_copied(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = model(tmp_path, "first"), model(tmp_path, "second one")
    assert first != second
    replace(policy(), tailoring=replace(policy().tailoring, classifiers=("f" * 64, first))).save("p.toml")
    status, out, err = cli("audit", "p.toml", "--model", "first.skops", "--json", "out.json")
    assert status == 0, err
    assert "answers 512 fixed records as the classifier that was copied" in " ".join(out.split())
    assert json.loads((tmp_path / "out.json").read_text())["model"]["passed"] is True
    status, out, _ = cli("audit", "p.toml", "--model", "second one.skops")
    assert status == 1
    assert "another classifier than the one that was copied" in " ".join(out.split())
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04N.")
    Policy((RULE,)).save("rules.toml")
    for words, says in (
        (("audit", "--model", "first.skops"), "give the policy file"),
        (("audit", "rules.toml", "--model", "first.skops"), "rules alone"),
        (("audit", "p.toml", "--model", "none.skops"), "none.skops"),
        (("audit", "p.toml", "--model", "m.pkl"), "--trust"),
    ):
        status, _, err = cli(*words)
        assert status == 2
        assert says in " ".join(err.split())
    assert "--model" in cli("audit", "--help")[1]


def test_a_model_audit_says_what_it_found():
    found = audit_model(policy(), lambda X: X["hours"].to_numpy() > 3)
    assert not found.passed
    assert found.to_dict()["passed"] is False
    assert "epsilon holds, labels may not" in str(found)


@pytest.mark.parametrize("rules", [(), (RULE,)])
def test_a_gateway_refuses_a_tailored_policy(cli, tmp_path, monkeypatch, rules):
    with pytest.raises(ValueError, match="policy: it is a tailored one, whose columns are released together"):
        Settings(policy(rules=rules), "http://model:8080")
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("starlette", reason="a gateway needs the extra gateway")
    policy(rules=rules).save("p.toml")
    status, _, err = cli("gateway", "p.toml", "--upstream", "http://127.0.0.1:9", "--port", "0")
    assert status == 2
    assert "it is a tailored one" in " ".join(err.split())
