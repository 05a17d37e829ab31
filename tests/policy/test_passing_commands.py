"""Columns that pass, from the question to what leaves: `recommend`, `tailor`, `split`, `policy`, and three doors."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from skops import io

from epsworth import as_classifier
from epsworth.classifiers.classifier import columns_read
from epsworth.client import Client
from epsworth.gateway.objects import read_objects
from epsworth.gateway.settings import Settings
from epsworth.policy import Pass, Policy

RANGES = "[features.age]\nlower = 0\nupper = 110\n[features.bmi]\nlower = 10\nupper = 60\n"
QUESTION = ("model.skops", "people.csv", "-s", "age,bmi", "--domain", "ranges.toml")


def people(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "name": [f"person {row}" for row in range(n)],
            "age": rng.uniform(20, 90, n).round(),
            "bmi": rng.normal(27, 4, n).round(1),
            "zone": rng.choice(["a", "b"], n),
        }
    )


def steps(remainder="drop"):
    return ColumnTransformer(
        [("numbers", "passthrough", ["age", "bmi"]), ("zone", OneHotEncoder(handle_unknown="ignore"), ["zone"])],
        remainder=remainder,
    )


def fitted(model, table):
    return model.fit(table, table["age"] + 20 * (table["zone"] == "a") > 65)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = people()
    table.to_csv("people.csv", index=False)
    (tmp_path / "ranges.toml").write_text(RANGES)
    io.dump(fitted(make_pipeline(steps(), DecisionTreeClassifier(max_depth=3, random_state=0)), table), "model.skops")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [("recommend", "-e", "2,4", "--at-least", ".5"), ("split", "-e", "4"), ("tailor", "--epsilon", "2", "--public")],
    ids=lambda words: words[0],
)
@pytest.mark.cases(2)
def test_from_a_question_to_rows_that_hold_what_was_named(cli, place, command):
    name, *words = command
    code, out, err = cli(name, *QUESTION, *words, "--policy", "policy.toml")
    assert code == 0, err
    left_out = ("id", "name") if name == "tailor" else ()  # the model drops them; a copy of it may look at them
    beside = "; left out: id, name" if left_out else ""
    said = " ".join(out.split())
    assert f"Policy for clients: policy.toml; sent as they are: zone{beside}; all other" in said
    assert Policy.load(place / "policy.toml").passing == Pass(("zone",), left_out)
    step = "perturb policy.toml people.csv" if left_out else "policy pass policy.toml --drop id,name  "
    assert f"Next: epsworth {step}" in out

    code, out, err = cli("perturb", "policy.toml", "people.csv", "out.csv")
    if left_out:
        assert code == 0, err
    else:
        assert code == 2
        assert "the policy does not name 'id', 'name'; under [pass], send with columns = [\"id\", \"name\"], or" in err
        assert not (place / "out.csv").exists()

    code, out, err = cli("policy", "pass", "policy.toml", "id", "--drop", "name")
    assert code == 0, err
    policy = Policy.load(place / "policy.toml")
    assert policy.passing == Pass(("zone", "id"), ("name",))
    assert policy.fingerprint[:12] in out
    assert cli("policy", "show", "policy.toml")[1].strip() == str(policy)

    code, out, err = cli("perturb", "policy.toml", "people.csv", "out.csv", "--again")
    assert code == 0, err
    assert "sent as they are: id, zone; left out: name. Pure LDP" in " ".join(out.split())
    rows = list(csv.DictReader((place / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "age", "bmi", "zone"]
    assert [row["zone"] for row in rows] == people()["zone"].tolist()


@pytest.mark.parametrize("kind", ["recommend", "tailor"])
@pytest.mark.cases(1)
def test_device_and_gateway_send_what_tables_send(cli, place, kind):
    words = ("-e", "4", "--at-least", ".5", "-m", "pm") if kind == "recommend" else ("--epsilon", "2", "--public")
    code, _, err = cli(kind, *QUESTION, *words, "--policy", "policy.toml")
    assert code == 0, err
    policy = Policy.load(place / "policy.toml")
    record = {"age": 31.0, "bmi": 22.0, "zone": "b"} | ({} if kind == "recommend" else {"id": 7, "name": "Ada"})
    sent = [Client(policy.for_clients()).perturb(record)]
    if kind == "recommend":  # a gateway runs no tailored policies
        asked = read_objects([record], Settings(policy, "http://localhost:9"))
        sent += json.loads(asked.body({"age": [50.0], "bmi": [20.0]}))
    (place / "one.jsonl").write_text(json.dumps(record) + "\n")
    assert cli("perturb", "policy.toml", "one.jsonl", "out.jsonl")[0] == 0
    sent.append(json.loads((place / "out.jsonl").read_text()))
    assert [set(one) for one in sent] == [{"age", "bmi", "zone"}] * len(sent)
    assert [one["zone"] for one in sent] == ["b"] * len(sent)


@pytest.mark.filterwarnings("always")
def test_columns_that_are_named_pass_instead(cli, place):
    words = ("-e", "4", "--at-least", ".5", "-m", "pm", "--policy", "policy.toml")
    assert cli("recommend", *QUESTION, *words, "--pass", "id,zone")[0] == 0
    assert Policy.load(place / "policy.toml").passing == Pass(("id", "zone"))
    code, _, err = cli("recommend", *QUESTION, *words, "--pass", "id", "--json", "a.json")
    (note,) = (one for one in json.loads((place / "a.json").read_text())["recommendation"]["notes"] if "--pass" in one)
    assert (code, err) == (0, f"epsworth: warning: {note}\n")
    assert note.startswith("--pass leaves out zone, which the model reads, ")
    assert note.endswith("; say --pass id,zone")
    assert Policy.load(place / "policy.toml").passing == Pass(("id",), ("zone",))
    (place / "policy.toml").unlink()
    code, _, err = cli("recommend", *QUESTION, *words, "--pass", "id,age")
    assert code == 2
    assert "pass: 'age' is perturbed by the policy; take it out of one of the two" in err
    assert not (place / "policy.toml").exists()
    code, _, err = cli("recommend", *QUESTION, *words[:-2], "--pass", "id")
    assert code == 2
    assert "--pass names the columns that a policy lets pass; give --policy, too, or drop it" in err


def test_an_edit_that_cannot_be_is_one_sentence_and_changes_nothing(cli, place):
    Policy.of("pm", 4, {"age": (0, 110), "bmi": (10, 60)}, bits=4, passing=["zone"]).save("policy.toml")
    before = (place / "policy.toml").read_bytes()
    for words, says in (
        ((), "no column is named; give those that pass, such as a,b, or --drop c"),
        (("age",), "pass: 'age' is perturbed by the policy"),
        (("--drop", "bmi"), "pass: 'bmi' is perturbed by the policy"),
        (("--text", "age"), "text: 'age' is not among the columns that pass"),
        (("--text", "note"), "text: 'note' is not among the columns that pass"),
        (("a,a",), "pass: the column 'a' stands twice; keep one"),
        (("b", "--drop", "b"), "pass: the column 'b' stands twice; keep one"),
        (("zone", "--text", "zone,zone"), "text: the column 'zone' stands twice; keep one"),
    ):
        code, _, err = cli("policy", "pass", "policy.toml", *words)
        assert (code, says in err) == (2, True), err
        assert (place / "policy.toml").read_bytes() == before
    for name in ("none.toml", "ranges.toml"):
        assert cli("policy", "pass", name, "id")[0] == 2
        assert cli("policy", "show", name)[0] == 2
    assert cli("policy", "pass", "policy.toml", "zone")[0] == 0
    assert (place / "policy.toml").read_bytes() == before  # it passes already


def test_text_never_lets_a_dropped_column_pass(cli, place):
    assert cli("recommend", *QUESTION, "-e", "4", "--at-least", ".5", "-m", "pm", "--policy", "policy.toml")[0] == 0
    assert cli("policy", "pass", "policy.toml", "zone", "--drop", "name")[0] == 0
    before = (place / "policy.toml").read_bytes()
    code, _, err = cli("policy", "pass", "policy.toml", "--text", "name")
    assert (code, err.count("\n")) == (2, 1)
    assert "text: 'name' is left out" in err
    assert "to let it pass, name it among the columns as well" in err
    assert (place / "policy.toml").read_bytes() == before
    assert cli("policy", "pass", "policy.toml", "name", "--text", "name,zone")[0] == 0
    assert 'text = [\n    "name",\n    "zone",\n]' in (place / "policy.toml").read_text()


@pytest.mark.parametrize(
    ("model", "read"),
    [
        (make_pipeline(steps(), DecisionTreeClassifier()), ("age", "bmi", "zone")),
        (make_pipeline(make_pipeline(steps()), DecisionTreeClassifier()), ("age", "bmi", "zone")),
        (GridSearchCV(make_pipeline(steps(), DecisionTreeClassifier()), {}, cv=2), ("age", "bmi", "zone")),
        (make_pipeline(steps(OneHotEncoder()), DecisionTreeClassifier()), ("id", "name", "age", "bmi", "zone")),
        (make_pipeline("passthrough", steps(), DecisionTreeClassifier()), ("age", "bmi", "zone")),
    ],
    ids=["dropped", "within", "searched", "kept", "behind no step"],
)
def test_what_a_model_drops_it_does_not_read(model, read):
    table = people()
    found = as_classifier(fitted(model, table))
    assert columns_read(found, list(table)) == read
    own = found.model.predict(table)
    assert (found.model.predict(table.drop(columns=[name for name in table if name not in read])) == own).all()


def test_python_runs_the_package(place):
    done = subprocess.run([sys.executable, "-m", "epsworth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("epsworth ")
