"""What a study's answer holds, what it promises, and that nothing else is believed."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from hashlib import sha256

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier
from worlds import changed, made

import epsworth as ew
from epsworth.classifiers import service
from epsworth.report import report
from epsworth.report.text import escaped


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    study = ew.Study.load(made(folder))
    return study, study.run()


def without_times(result):
    found = result.to_dict()
    found["curves"].pop("seconds")
    return {name: value for name, value in found.items() if name not in ("date", "seconds")}


def test_a_result_is_read_as_it_was_written(world, tmp_path):
    study, found = world
    found.save(tmp_path / "r.json")
    again = ew.StudyResult.load(tmp_path / "r.json")
    assert again.to_dict() == found.to_dict()
    assert again.study == study
    assert (again.curves.lower == found.curves.lower).all()
    assert again.recommendation == found.recommendation
    assert ew.Policy.from_toml(again.policy).guarantee == ew.Policy.from_toml(found.policy).guarantee
    assert found.versions["epsworth"] == ew.__version__
    assert {"python", "numpy", "scipy", "scikit-learn", "polars"} <= set(found.versions)
    assert "what was read" in str(again)
    assert again.plot().has_data()


def test_files_are_told_by_their_digests(world):
    study, found = world
    for name, path in study.files.items():
        assert found.files[name].sha256 == sha256(path.read_bytes()).hexdigest()
        assert found.files[name].bytes == path.stat().st_size


def test_the_same_seed_and_files_give_the_same_bounds(world):
    study, found = world
    assert found.curves.confidence < 1  # drawn, so that a seed matters
    assert without_times(study.run()) == without_times(found)
    other = ew.Study.from_dict(study.to_dict() | {"seed": 2}, folder=study.folder).run()
    assert (other.curves.lower != found.curves.lower).any()


def test_a_seed_that_was_drawn_is_told(tmp_path):
    study = ew.Study.load(made(tmp_path, changed(seed=None, epsilons="2", mechanisms='["pm"]')))
    found = study.run()
    again = ew.Study.from_dict(study.to_dict() | {"seed": found.seed}, folder=study.folder).run()
    assert (again.curves.lower == found.curves.lower).all()
    assert study.run().seed != found.seed


def test_what_changed_since_is_said(world, tmp_path):
    study, found = world
    assert found.changes(study) == []
    for file in study.folder.iterdir():
        shutil.copy(file, tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(changed(at_least="0.8"))
    assert found.changes(ew.Study.load(path)) == ["at_least was 0.7 and is 0.8"]
    path.write_text(
        changed(at_least="0.8").partition("\n\n[")[0].replace("[domain", "[") + '\ndomain = "ranges.toml"\n'
    )
    assert found.changes(ew.Study.load(path)) == ["at_least was 0.7 and is 0.8"]
    (tmp_path / "people.csv").write_text("age,bmi\n1,20\n")
    (tmp_path / "model.skops").unlink()
    told = found.changes(ew.Study.load(path))
    assert "there is no such file" in told[1]
    assert "people.csv was changed since: SHA-256 " in told[2]


class Runs:
    def __reduce__(self):
        return (print, ("the code in a model was run",))


def test_a_study_runs_no_code_and_sends_no_record_by_itself(tmp_path, capsys, monkeypatch):
    study = ew.Study.load(made(tmp_path, changed(model='"model.pkl"')))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Runs()))
    with pytest.raises(ValueError, match="is a pickle, and loading it runs code"):
        study.run()
    assert capsys.readouterr().out == ""
    with pytest.warns(UserWarning, match="is a pickle"), pytest.raises((TypeError, ValueError)):
        study.run(trust=True)
    assert capsys.readouterr().out == "the code in a model was run\n"
    asked = []
    monkeypatch.setattr(service, "remote", lambda url, **given: asked.append(url) or pytest.fail("asked"))
    study = ew.Study.load(made(tmp_path, changed(model='"http://127.0.0.1:9/v2/models/m"', service="{batch = 8}")))
    with pytest.raises(ValueError, match=r"records of the table are sent to http.*; pass send=True"):
        study.run()
    assert asked == []
    with pytest.raises(pytest.fail.Exception):
        study.run(send=True)
    assert len(asked) == 1


def test_a_result_holds_no_values_of_records(world):
    study, found = world
    text = json.dumps(found.to_dict())
    rows = study.files["table"].read_text().split("\n")[1:-1]
    values = {value for row in rows for value in row.split(",")[:2]}
    assert len(values) == 48
    assert not any(value in text for value in values)


def test_a_page_shows_declared_ranges_and_policy_without_panels(world):
    _, found = world
    html = ew.report.report(found).html
    assert found.panels is None
    assert "Ranges, declared public" in html
    assert json.loads(re.search(r'id="numbers"[^>]*>(.*?)</script>', html, re.S)[1])["policy"] == found.policy


@pytest.mark.slow
def test_what_surrounds_a_choice_is_held_where_the_study_asks_for_it(tmp_path):
    study = ew.Study.load(made(tmp_path, changed(panels="true", epsilons="[2, 4]", mechanisms='["pm"]')))
    found = study.run()
    assert found.panels.records == 24
    document = json.loads(json.dumps(found.to_dict()))
    assert ew.StudyResult.from_dict(document).panels.to_dict() == found.panels.to_dict()


JUNK = {
    "study": 1, "curves": [[]], "files": {"model": {"sha256": 1, "bytes": 1}}, "policy": 1, "no_policy": [],
    "fingerprint": True, "versions": {"epsworth": 1}, "date": 1e308, "seed": 0.5, "seconds": "x", "panels": {},
    "domain": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", JUNK)
@pytest.mark.cases(1)
def test_junk_in_a_result_is_refused(world, name):
    """An entry of another kind, or none, costs a sentence that names it."""
    document = json.loads(json.dumps(world[1].to_dict()))
    with pytest.raises(ValueError, match=f"^{name}[ :]"):
        ew.StudyResult.from_dict(document | {name: JUNK[name]})
    document.pop(name)
    if name != "panels":
        with pytest.raises(ValueError, match=f"^{name} is missing; run the study again"):
            ew.StudyResult.from_dict(document)


@pytest.mark.parametrize("content", [b"", b"[", b"null", b'{"format": "epsworth-study-1", "format": 1}', b"\xff",
                                     b'{"format": "epsworth-study-1", "seconds": NaN}', b"[" * 9999])  # fmt: skip
def test_bytes_that_are_no_result_are_refused(tmp_path, content):
    (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"study result .*r.json"):
        ew.StudyResult.load(tmp_path / "r.json")


def test_pages_are_made_of_the_result_alone(world, tmp_path):
    found = world[1]
    found.save(tmp_path / "r.json")
    page = report(tmp_path / "r.json")
    assert page.html == ew.report.report(found).html
    assert report(tmp_path / "r.json", at_least=0.7, on="average").html == page.html
    assert report(tmp_path / "r.json", at_least=0.6).html != page.html
    assert all(escaped(told, 1000) in page.html for told in found.origins().values())
    assert f"model.skops, SHA-256 {found.files['model'].sha256}" in page.html


def test_mechanisms_without_an_exact_sampler_have_no_policy(tmp_path):
    study = ew.Study.load(
        made(tmp_path, changed(mechanisms='["laplace"]', epsilons="[64]", at_least="0.5", max_epsilon="128"))
    )
    found = study.run()
    assert found.recommendation.feasible
    assert found.policy is None
    assert ew.StudyResult.from_dict(found.to_dict()).no_policy == found.no_policy != ""


def test_the_models_answers_have_a_fingerprint_where_all_columns_have_ranges(world, tmp_path):
    found = world[1]
    assert len(found.fingerprint) == 64
    assert ew.Study.load(made(tmp_path, changed(seed="5"))).run().fingerprint == found.fingerprint
    one = changed(sensitive='["age"]').replace("[domain.bmi]\nlower = 15\nupper = 40\n", "")
    assert ew.Study.load(made(tmp_path, one)).run().fingerprint is None


@pytest.mark.filterwarnings("ignore::epsworth.LeakWarning")
@pytest.mark.slow
def test_a_tailored_policy_is_part_of_the_result(tmp_path):
    path = made(tmp_path, changed(mechanisms='["tailored"]', method='"auto"', at_least="0.5", epsilons="[2]"), rows=80)
    model, table = DecisionTreeClassifier(max_depth=2, random_state=0), pl.read_csv(tmp_path / "people.csv")
    table.drop("ill").write_csv(tmp_path / "people.csv")
    skops.io.dump(model.fit(table.select("age", "bmi").to_numpy(), table["ill"].to_numpy()), tmp_path / "model.skops")
    found = ew.Study.load(path).run()
    assert ew.Policy.from_toml(found.policy).tailoring is not None
    assert ew.StudyResult.from_dict(json.loads(json.dumps(found.to_dict()))).policy == found.policy


def test_curves_are_those_of_the_function(world):
    study, found = world
    table = pl.read_csv(study.files["table"]).drop("ill")
    curves = ew.stability(
        ew.load_model(study.files["model"]), table, sensitive=["age", "bmi"], mechanisms=["pm", "krr:k=9"],
        per="feature", epsilons=[0.5, 1, 2, 4], domain={"age": (0, 100), "bmi": (15, 40)}, method="sampled",
        tolerance=0.1, rng=1,
    )  # fmt: skip
    assert np.array_equal(curves.lower, found.curves.lower)
