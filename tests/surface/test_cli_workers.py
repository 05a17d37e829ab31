"""The commands that share their work: --jobs, --cluster, --parts, --resume; the same answers, and refusals."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from skops.io import dump

import command_lines
import epsworth as ew

BOX = ("-s", "age,bmi", "--domain", "ranges.toml")
LAWS = ("-m", "pm", "-m", "krr:k=5", "-e", "1,3", "--seed", "1")
COMMANDS = {
    "utility": ("utility", "model.skops", "table.csv", *BOX, *LAWS),
    "recommend": ("recommend", "model.skops", "table.csv", *BOX, *LAWS, "--at-least", "0.6"),
    "split": ("split", "model.skops", "table.csv", *BOX, "-e", "3", "--seed", "1"),
    "radius": ("radius", "model.skops", "table.csv", "--all", "--norm", "inf", "--seed", "1"),
    "tailor": ("tailor", "model.skops", "table.csv", *BOX, "--epsilon", "2", "--seed", "1", "--public"),
    "profile": ("profile", "sick.csv", "--target", "sick", "--seed", "1"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.uniform(18, 90, 40), "bmi": rng.uniform(15, 45, 40)})
    sick = (table["age"] / 90 + table["bmi"] / 45 > 1.3).cast(int)
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(table, sick)
    dump(model, folder / "model.skops")
    table.write_csv(folder / "table.csv")
    table.with_columns(sick.alias("sick")).write_csv(folder / "sick.csv")
    ew.Domain.of({"age": (0, 100), "bmi": (10, 60)}).save(folder / "ranges.toml")
    return folder


@pytest.fixture
def ask(cli, place, monkeypatch, tmp_path):
    """Run a command in a folder with what there is; check its exit status."""
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        status, out, err = cli(*words)
        assert status == code, err
        return out if code == 0 else err

    return run


def without_work(told):
    """What an answer says, but for how often the classifier was asked and how long it took."""
    if isinstance(told, dict):
        return {name: without_work(value) for name, value in told.items() if name not in ("queries", "seconds")}
    return [without_work(value) for value in told] if isinstance(told, list) else told


def answered(text):
    return without_work(json.loads(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_workers_say_what_one_process_says(name, ask):
    words = (*COMMANDS[name], "--json", "-")
    assert answered(ask(*words)) == answered(ask(*words, "--jobs", "2"))


@pytest.mark.slow
def test_a_cluster_says_what_one_process_says(ask):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed; it is the extra 'cluster'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local:
        for name, command in COMMANDS.items():
            words = (*command, "--json", "-")
            assert answered(ask(*words)) == answered(ask(*words, "--cluster", local.scheduler_address)), name


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.cases(1)
def test_work_is_done_in_one_place_by_some_workers(name, ask):
    both = ask(*COMMANDS[name], "--jobs", "2", "--cluster", "tcp://10.0.0.1:8786", code=2)
    assert "--jobs and --cluster each say where the work is done; give one of them" in both
    assert "--jobs must be a number of workers, or -1 for all cores, got 0" in ask(
        *COMMANDS[name], "--jobs", "0", code=2
    )


@pytest.mark.slow
def test_parts_are_what_the_next_command_reads(ask, tmp_path):
    whole = json.loads(ask(*COMMANDS["utility"], "--json", "-"))
    told = ask(*COMMANDS["utility"], "--parts", "curves")
    assert "epsworth recommend curves --domain ranges.toml --at-least 0.9" in " ".join(told.split())
    parts = ew.CurveParts.load(tmp_path / "curves")
    assert np.concatenate([part.lower for part in parts], axis=2).tolist() == whole["stability"]["lower"]
    advice = json.loads(ask("recommend", "curves", "--at-least", "0.6", "--json", "-"))
    beside = json.loads(ask(*COMMANDS["recommend"], "--json", "-"))
    one, other = advice["recommendation"]["choice"], beside["recommendation"]["choice"]
    assert one["mechanism"] == other["mechanism"]
    assert one["lower"] == pytest.approx(other["lower"], abs=1e-12)  # averages of parts are sums of integers


@pytest.mark.parametrize(
    "other", [("--resume", "run"), ("--plot", "p.png"), ("--report", "r.html"), ("--over", "records")]
)
def test_parts_exclude_what_needs_all_bounds(other, ask, tmp_path):
    assert "--parts exclude each other" in ask(*COMMANDS["utility"], "--parts", "curves", *other, code=2)
    assert not (tmp_path / "curves").exists()


@pytest.mark.slow
def test_radii_go_on_from_their_folder(ask, tmp_path):
    first = ask(*COMMANDS["radius"], "--resume", "run", "--json", "-")
    pieces = sorted((tmp_path / "run").glob("*.npz"))
    assert len(pieces) > 1
    pieces[0].unlink()
    assert ask(*COMMANDS["radius"], "--resume", "run", "--json", "-") == first
    told = ask(*COMMANDS["radius"], "--resume", "run")
    assert "by share of 40 records" in told
    assert "Nearest to another label: records" in told


@pytest.mark.parametrize("name", ["tailor", "profile"])
@pytest.mark.cases(1)
def test_policies_and_profiles_go_on_from_their_folder(name, ask, tmp_path):
    """Without a seed, too: the folder knows where the run began."""
    words = COMMANDS[name]
    at = words.index("--seed")
    unseeded = (*words[:at], *words[at + 2 :])
    whole = ask(*words, "--json", "-")
    assert ask(*words, "--resume", "run", "--json", "-") == whole
    assert ask(*unseeded, "--resume", "run", "--json", "-") == whole
    first = ask(*unseeded, "--resume", "other", "--json", "-")
    pieces = sorted((tmp_path / "other").glob("*.npz"))
    assert pieces
    pieces[0].unlink()
    assert ask(*unseeded, "--resume", "other", "--json", "-") == first
    pieces[0].write_bytes(b"PK")
    assert "is damaged" in ask(*unseeded, "--resume", "other", "--json", "out.json", code=2)
    assert not (tmp_path / "out.json").exists()
    changed = ("--epsilon", "3") if name == "tailor" else ("--l2", "0.5")
    refused = ask(*command_lines.changed(words, changed), "--resume", "run", code=2)
    assert "belongs to another question" in refused
    assert refused.count("\n") == 1
    (tmp_path / "file").touch()
    assert "it is a file; give a folder" in ask(*words, "--resume", "file", code=2)


@pytest.mark.slow
def test_a_large_table_goes_on_without_a_seed(ask, monkeypatch):
    """Of a table that is too large only some rows are asked about accuracy: the same ones when the run goes on."""
    monkeypatch.setattr("epsworth.cli.profile.UTILITY_ROWS", 20)
    words = ("profile", "sick.csv", "--target", "sick", "--resume", "run", "--json", "-")
    assert ask(*words) == ask(*words)
    assert "--resume needs a table" in ask("profile", "--coefficients", "2", "--resume", "run", code=2)


def test_one_record_needs_no_workers(ask):
    one = COMMANDS["radius"][:3]
    for words in (("--jobs", "2"), ("--cluster", "tcp://10.0.0.1:8786"), ("--resume", "run")):
        assert f"{words[0]} is for many records; add --all" in " ".join(ask(*one, *words, code=2).split())
    assert "--all and --record exclude each other" in ask(*one, "--all", "--record", "1", code=2)
