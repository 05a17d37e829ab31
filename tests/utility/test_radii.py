"""The radius of every record of a table: that of each by itself, to the bit, whoever did which and when."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import epsworth as ew
from epsworth.utility.engines.checkpoint import digest_of_model

IRIS, SPECIES = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(5, max_depth=4, random_state=0).fit(IRIS, SPECIES)
NEIGHBOURS = KNeighborsClassifier().fit(IRIS, SPECIES)


def same(one, other):
    assert one.to_dict() == other.to_dict()
    for a, b in zip(one.radii, other.radii, strict=True):
        assert (a.lower, a.upper, a.tested, a.spent) == (b.lower, b.upper, b.tested, b.spent)
        assert (a.witness is None) == (b.witness is None)
        assert a.witness is None or (a.witness == b.witness).all()


@pytest.mark.parametrize("norm", [2, "inf"])
def test_every_record_has_its_own_radius(norm):
    found = ew.radii(FOREST, IRIS[::15], norm=norm, features=[2, 3])
    for own, record in zip(found.radii, IRIS[::15], strict=True):
        alone = ew.radius(FOREST, record, norm=norm, features=[2, 3], rng=1)
        assert own.lower <= alone.upper
        assert alone.lower <= own.upper
        assert (own.lower, own.upper) == pytest.approx((alone.lower, alone.upper), rel=1e-9)
    assert found.confidence == 1
    assert found.nearest(3).tolist() == np.argsort(found.upper, kind="stable")[:3].tolist()


def test_the_distances_of_a_linear_model_are_those_of_its_hyperplane():
    model = LogisticRegression().fit(IRIS, SPECIES == 2)
    found = ew.radii(model, pd.DataFrame(IRIS[::10]).rename(columns=str).to_numpy())
    truth = np.abs(model.decision_function(IRIS[::10])) / np.linalg.norm(model.coef_)
    assert (found.lower <= truth * (1 + 1e-12)).all()
    assert (found.upper >= truth * (1 - 1e-12)).all()
    assert found.lower == pytest.approx(truth, rel=1e-6)


@pytest.mark.slow
def test_the_risk_of_sampled_radii_is_divided():
    found = ew.radii(NEIGHBOURS, IRIS[:3], confidence=0.9, rng=1)
    assert found.confidence == 0.9
    assert all(one.confidence >= 1 - 0.1 / 3 for one in found.radii)
    assert sum(one.spent for one in found.radii) <= 0.1
    assert "nothing is proven" in str(found)


@pytest.mark.slow
def test_workers_and_runs_that_go_on_find_the_same_bits(tmp_path):
    asked = {"rng": 3, "confidence": 0.99}
    whole = ew.radii(NEIGHBOURS, IRIS[::13], **asked)
    same(whole, ew.radii(NEIGHBOURS, IRIS[::13], n_jobs=2, **asked))
    shares = []
    same(whole, ew.radii(NEIGHBOURS, IRIS[::13], checkpoint=tmp_path / "run", progress=shares.append, **asked))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    files = sorted((tmp_path / "run").glob("*-radii.npz"))
    assert len(files) > 2
    files[1].unlink()
    same(whole, ew.radii(NEIGHBOURS, IRIS[::13], checkpoint=tmp_path / "run", n_jobs=2, confidence=0.99, rng=4))


def test_a_folder_of_another_question_is_refused_and_so_are_damaged_pieces(tmp_path):
    place = tmp_path / "run"
    ew.radii(FOREST, IRIS[:3], checkpoint=place)
    for other in ({"norm": "inf"}, {"features": [1]}, {"failing": 0.1}, {"budget": 7}, {"confidence": 0.9}):
        with pytest.raises(ValueError, match="another question"):
            ew.radii(FOREST, IRIS[:3], checkpoint=place, **other)
    with pytest.raises(ValueError, match=r"not the same .*the model"):
        ew.radii(RandomForestClassifier(5, random_state=1).fit(IRIS, SPECIES), IRIS[:3], checkpoint=place)
    with pytest.raises(ValueError, match="not the same records"):
        ew.radii(FOREST, IRIS[1:4], checkpoint=place)
    one, two, *_ = sorted(place.glob("*-radii.npz"))
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    with pytest.raises(ValueError, match="another piece than its name says"):
        ew.radii(FOREST, IRIS[:3], checkpoint=place)
    for content in (kept[:-30], b"", b"PK"):
        one.write_bytes(content)
        with pytest.raises(ValueError, match="damaged"):
            ew.radii(FOREST, IRIS[:3], checkpoint=place)


def test_bad_arguments_are_refused_before_a_folder_is_made(tmp_path):
    for given in ({"confidence": 1}, {"failing": 0}, {"budget": 0}, {"seconds": -1}, {"n_jobs": 0}, {"norm": 3}):
        with pytest.raises(ValueError, match=next(iter(given))):
            ew.radii(FOREST, IRIS[:3], checkpoint=tmp_path / "run", **given)
    with pytest.raises(ValueError, match=r"row"):
        ew.radii(FOREST, IRIS[:0])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None, "far", 10**400, True])
def test_what_cannot_move_is_refused_by_its_own_number_before_any_work(bad, tmp_path):
    """Of a later record, once, whatever a model would say of it; nothing is asked, and no folder is made."""
    asked = []
    table = IRIS[:40].astype(object)
    table[29, 1] = table[33, 1] = bad
    with pytest.raises(ValueError, match=r"^feature 'x1' is [^\n]* in record 29 and cannot move[^\n]*$"):
        ew.radii(lambda X: asked.append(X) or np.zeros(len(X)), table, checkpoint=tmp_path / "run")
    assert not asked
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [{}, {"checkpoint": "run"}])
def test_what_the_model_refuses_is_told_by_the_records_number_before_any_work(words, tmp_path, monkeypatch):
    """In a feature that stays, too: infinity, and a category that the model does not know."""
    monkeypatch.chdir(tmp_path)
    stays, told = IRIS[:40].copy(), []
    stays[29, 3] = np.inf
    with pytest.raises(ew.ClassifierError, match=r"^the classifier failed on record 29: [^\n]*$"):
        ew.radii(NEIGHBOURS, stays, features=[0], progress=told.append, **words)
    frame = pd.DataFrame({"size": IRIS[:100, 0], "kind": ["a", "b"] * 50})
    by_kind = ColumnTransformer([("kind", OneHotEncoder(sparse_output=False), ["kind"])], remainder="passthrough")
    model = make_pipeline(by_kind, LogisticRegression()).fit(frame, SPECIES[:100])
    frame.loc[71, "kind"] = "secret"
    with pytest.raises(ew.ClassifierError, match=r"^the classifier failed on record 71: [^\n]*$") as refused:
        ew.radii(model, frame, features=["size"], progress=told.append, **words)
    assert "secret" not in str(refused.value)
    assert not told
    assert not (tmp_path / "run").exists()


def test_failures_among_the_moved_copies_name_the_record_too():
    def choosy(X):
        if ((X[:, 3] == 9) & (X[:, 0] != table[2, 0])).any():
            raise ValueError("no such flower")
        return X[:, 0] > 5

    table = IRIS[:3].copy()
    table[2, 3] = 9
    with pytest.raises(ew.ClassifierError, match="failed on a moved copy of record 2: "):
        ew.radii(choosy, table, features=[0], rng=1)
    with pytest.raises(ew.ClassifierError, match="failed on a moved copy of the record: "):
        ew.radius(choosy, table[2], features=[0], rng=1)
    state = np.random.default_rng(0)
    with pytest.raises(ew.ClassifierError, match="for the same record 1; a radius needs a deterministic"):
        ew.radii(lambda X: np.where(X[:, 3] == 9, state.random(len(X)) > 0.5, X[:, 0] > 5), table[[0, 2]], features=0)


def test_trees_of_neighbours_count_calls_which_no_digest_sees():
    before = digest_of_model(NEIGHBOURS)
    NEIGHBOURS.predict(IRIS)
    assert digest_of_model(NEIGHBOURS) == before
    assert digest_of_model(KNeighborsClassifier().fit(IRIS[1:], SPECIES[1:])) != before


def test_everything_is_told_as_json(tmp_path):
    found = ew.radii(FOREST, IRIS[:2])
    found.save(tmp_path / "r.json")
    told = json.loads((tmp_path / "r.json").read_text())
    assert [one["lower"] for one in told["radii"]] == found.lower.tolist()
