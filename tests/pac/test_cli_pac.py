"""``epsworth privatize`` and ``epsworth convert`` as their users see them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from sklearn.datasets import load_iris

from command_lines import changed
from epsworth import pac
from epsworth.pac.adapters import NAMES
from epsworth.pac.release import LIMITS

COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a table, its ranges, and damaged copies."""
    folder = tmp_path_factory.mktemp("pac")
    X, y = load_iris(return_X_y=True)
    table = pl.DataFrame(X, schema=COLUMNS).with_columns(species=pl.Series(["abc"[k] for k in y]))
    table.write_csv(folder / "iris.csv")
    table.with_columns(person=pl.Series([i // 2 for i in range(150)])).write_csv(folder / "people.csv")
    table.with_columns(petal_width=pl.lit(None, pl.Float64)).write_csv(folder / "gap.csv")
    table.with_columns(species=pl.Series([None if i == 3 else "abc"[k] for i, k in enumerate(y)])).write_csv(
        folder / "cell.csv"
    )
    table[:51].write_csv(folder / "few.csv")
    ranges = "".join(f"[features.{name}]\nlower = 0\nupper = 10\n" for name in COLUMNS)
    (folder / "ranges.toml").write_text(ranges)
    (folder / "short.toml").write_text("[features.sepal_length]\nlower = 0\nupper = 10\n")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    monkeypatch.chdir(place)
    return cli


KMEANS = ("privatize", "kmeans", "iris.csv", "--target", "species", "--set", "n_clusters=3", "--worlds", "64")

FOREST = ("privatize", "forest", "iris.csv", "--target", "species", "--mi", "1", "--domain", "ranges.toml", "--set")
EXTREME = ("1e99999999", "-1e-99999999", "1/0", "nan", "-inf", "1e-400", "1e400", "1/" + "9" * 450, "9" * 5000, "1/2/3")
MISSING = ("privatize", "mean", "cell.csv", "--mi", "1")


@pytest.mark.slow
def test_privatize_prints_the_release_its_promise_and_all_limits(cli, place):
    code, out, err = cli(*KMEANS, "--mi", "1/4", "--audit", "--json", "release.json")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 15
    assert "limits: read them with -v" in out
    assert all(limit not in " ".join(out.split()) for limit in LIMITS)
    code, out, err = cli(*KMEANS, "--mi", "1/4", "--audit", "--json", "release.json", "-v")
    assert (code, err) == (0, "")
    flat = " ".join(out.split())
    assert "centroid[0, sepal_length] = " in flat
    assert re.search(r"a row was used, guessed right blindly with 50\.0 %, is inferred with 83\.7\d+ % at most", flat)
    assert all(limit in flat for limit in LIMITS)
    document = json.loads((place / "release.json").read_text())
    names = [f"centroid[{k}, {name}]" for k in range(3) for name in COLUMNS]
    assert list(document["release"]) == [number["name"] for number in document["noise"]["numbers"]] == names
    assert document["report"]["mi_nats"] <= 0.25
    assert document["report"]["columns"] == COLUMNS
    assert document["report"]["limits"] == list(LIMITS)
    assert len(document["audit"]["upper"]) == 150
    assert document["audit"]["worst"] < 0.7
    assert "The best attack on the most exposed record succeeds with" in flat


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--columns", "petal_width,sepal_length"), ["sepal_length", "petal_width"]),
        (("--drop", "species", "--drop", "petal_width,sepal_length"), ["sepal_width", "petal_length"]),
    ],
)
def test_columns_are_chosen_and_name_what_is_released(cli, words, kept):
    table = ("--target", "species") if words[0] == "--columns" else ()
    code, out, err = cli("privatize", "mean", "iris.csv", *table, *words, "--mi", "1", "--worlds", "16", "--json", "-")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document["release"]) == [f"mean[{name}]" for name in kept]
    assert document["report"]["columns"] == kept


@pytest.mark.parametrize("words", [
    ("kmeans", "--set", "n_clusters=3", "--mi", "1", "--audit"),
    ("mean", "--record-posterior", "0.7"),
    ("logistic", "--at-least", "0.5", "--audit", "--output", "short.skops"),
])  # fmt: skip
@pytest.mark.cases(1)
def test_a_release_is_told_on_a_screen(cli, words):
    code, out, _ = cli("privatize", words[0], "iris.csv", "--target", "species", "--worlds", "32", *words[1:])
    assert code == 0
    assert len(out.splitlines()) <= 15, out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.cases(1)
def test_every_algorithm_by_name(cli, name):
    target = {"linear_regression": "petal_width", "ridge": "petal_width"}.get(name, "species")
    extra = ("--set", "n_clusters=3") if name == "kmeans" else ()
    table = "iris.csv" if target == "species" else "numbers.csv"
    if table == "numbers.csv":
        pl.read_csv("iris.csv").drop("species").write_csv(table)
    code, out, err = cli(
        "privatize", name, table, "--target", target, "--domain", "ranges.toml", "--posterior", "0.9", "--worlds", "32",
        "--json", "-", *extra,
    )  # fmt: skip
    assert (code, err) == (0, "")
    report = json.loads(out)["report"]
    assert report["unit_scale"]
    assert report["posterior_at_prior_0.5"] <= 0.9 + 1e-6


@pytest.mark.slow
def test_a_simulation_can_be_resumed(cli, place):
    for _ in range(2):
        code, _, _ = cli(*KMEANS, "--mi", "1", "--checkpoint", "trials.npz", "--json", "-")
        assert code == 0
        assert (place / "trials.npz").exists()
    code, _, err = cli(*KMEANS, "--mi", "1", "--checkpoint", "trials.npz", "--worlds-seed", "1")
    assert code == 2
    assert "it belongs to other data" in err


@pytest.mark.slow
def test_groups_go_together(cli):
    code, out, _ = cli("privatize", "mean", "people.csv", "--target", "species", "--group", "person",
                       "--record-posterior", "0.7", "--worlds", "64", "--json", "-")  # fmt: skip
    assert code == 0
    report = json.loads(out)["report"]
    assert report["units"] < 76
    assert report["worst_record_upper_limit"] <= 0.7


@pytest.mark.slow
def test_convert_reads_fractions_and_rounds_up(cli):
    code, out, err = cli("convert", "--mi", "1/16", "--prior", "0.5")
    assert (code, err) == (0, "")
    assert "0.0625 nats" in out
    assert "67.491 % at most, from 50 %" in out  # 67.4909..
    code, out, _ = cli("convert", "--posterior", "0.75", "--json", "-")
    assert json.loads(out)["mi_nats"] == pac.budget(0.75, 0.5)
    code, out, _ = cli("convert", "--dp-epsilon", "0.36", "--json", "-")
    assert json.loads(out)["posterior"] == pytest.approx(pac.dp_posterior(0.36))
    code, out, _ = cli("convert", "--mi", "4")
    assert "100.0 % at most" in out
    assert "epsilon" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*KMEANS,), "give exactly one budget: --mi, --posterior"),
        ((*KMEANS, "--mi", "1", "--columns", "petal_width", "--drop", "sepal_width"), "give one of them"),
        ((*KMEANS, "--mi", "1", "--columns", "petal"), "--columns: the table has no column 'petal'"),
        ((*KMEANS, "--mi", "1", "--drop", "species"), "--drop names the column of --target; drop it there"),
        ((*KMEANS, "--mi", "1", "--drop", ",".join(COLUMNS)), "leave at least one"),
        ((*KMEANS, "--mi", "1", "--posterior", "0.6"), "give exactly one budget"),
        ((*KMEANS, "--mi", "much"), "--mi must be a number such as 0.0625 or 1/16, got 'much'"),
        ((*KMEANS, "--mi", "1/0"), "--mi must be a number"),
        ((*KMEANS, "--mi", "-1"), "the budget must be positive"),
        ((*KMEANS, "--mi", "1", "--set", "clusters=3"), "kmeans has no parameter 'clusters'"),
        ((*KMEANS, "--mi", "1", "--set", "n_clusters"), "--set must be parameter=value"),
        ((*changed(KMEANS, ("--worlds", "7")), "--mi", "1"), "worlds must be an even whole number"),
        ((*KMEANS, "--mi", "1", "--mode", "fast"), "mode must be one of exact"),
        ((*KMEANS, "--mi", "1", "--json", "none/r.json"), "the folder none does not exist"),
        ((*KMEANS, "--mi", "1", "--domain", "short.toml"), "no range for the column 'sepal_width'"),
        ((*KMEANS[:3], "--mi", "1", "--set", "n_clusters=999", *KMEANS[3:5]), "n_clusters=999"),
        (
            ("privatize", "pca", "gap.csv", "--target", "species", "--mi", "1"),
            "data row 0, line 2 of gap.csv, petal_width: the value is miss",
        ),
        (("privatize", "svm", "iris.csv", "--mi", "1"), "unknown algorithm 'svm'; take one of mean, kmeans"),
        (("privatize", "mean", "iris.csv", "--mi", "1"), "or leave the column out with --drop"),
        (("privatize", "mean", "iris.csv", "--mi", "1", "--target", "x"), "--target: the table has no column 'x'"),
        (("privatize", "mean", "iris.csv", "--mi", "1", "--group", "x"), "--group: the table has no column 'x'"),
        (
            ("privatize", "linear_svm", "iris.csv", "--mi", "1"),
            "data row 0, line 2 of iris.csv, species: the value is not a number; repair",
        ),
        (("privatize", "mean", "few.csv", "--mi", "1", "--target", "species"), "class 1 has 1 distinct unit"),
        (("convert",), "give exactly one of --mi, --posterior, --dp-epsilon and --shuffle"),
        (("convert", "--mi", "1e400"), "--mi must be a number such as 0.0625 or 1/16, got '1e400'"),
        (("convert", "--mi", "1", "--fpr", "1e400"), "--fpr must be a number"),
        *((("convert", "--mi", text), "--mi must be a number such as 0.0625 or 1/16") for text in EXTREME),
        *((("privatize", "mean", "iris.csv", "--posterior", text), "--posterior must be a number") for text in EXTREME),
        ((*KMEANS, "--mi", "1e-300"), "a budget of 1e-300 nats is finer than the table"),
        ((*KMEANS, "--mi", "1", "--near", "1"), "--near goes with --record-posterior"),
        ((*KMEANS, "--record-posterior", "0.6", "--joint", "1e99999999"), "--joint must be a number"),
        ((*changed(KMEANS, ("--worlds", "1" + "0" * 24)), "--mi", "1"), "worlds must be at most"),
        ((*FOREST, "depth=0"), "FixedForest: depth must be a whole number of at least 1, got 0"),
        ((*FOREST, "depth=-1"), "FixedForest: depth must be a whole number of at least 1, got -1"),
        ((*FOREST, "depth=1.5"), "FixedForest: depth must be a whole number of at least 1, got 1.5"),
        ((*FOREST, "depth=a"), "FixedForest: depth must be a whole number of at least 1, got 'a'"),
        ((*FOREST, "n_trees=0"), "FixedForest: n_trees must be a whole number of at least 1, got 0"),
        ((*FOREST, "w1=x"), "FixedForest: w1 must be a number in [0, 1], got 'x'"),
        ((*FOREST, "w2=2"), "FixedForest: w2 must be a number in [0, 1], got 2"),
        ((*FOREST, "p=None"), "FixedForest: p must be a number in [0, 1], got None"),
        ((*FOREST, "p=1e-300"), "FixedForest: p must be 1 over a whole number up to 10000, got 1e-300"),
        (
            (*MISSING, "--target", "species"),
            "data row 3, line 5 of cell.csv, y: the value is missing; fill it, or drop the row",
        ),
        (
            (*MISSING, "--group", "species"),
            "data row 3, line 5 of cell.csv, groups: the value is missing; fill it, or drop the row",
        ),
        (
            ("privatize", "pca", "iris.csv", "--target", "species", "--mi", "1", "--set", "n_components=0"),
            "PCA: n_components must lie between 1 and",
        ),
        (("convert", "--mi", "-1"), "mi must be a number of nats"),
        (("convert", "--mi", "1", "--prior", "0"), "prior must lie in (0, 1]"),
        (("convert", "--posterior", "0.4"), "nobody does worse than blind"),
        (("convert", "--mi", "1", "--fpr", "2"), "fpr must lie in [0, 1]"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_ends_in_one_sentence_and_status_2(cli, place, words, message):
    before = sorted(os.listdir(place))
    code, out, err = cli(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("epsworth: ")
    assert err.count("\n") == 1
    assert sorted(os.listdir(place)) == before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="looks for the workers in /proc")
def test_ctrl_c_while_workers_are_waited_for_leaves_nothing(place, interruptible):
    words = (
        *("privatize", "forest", "iris.csv", "--target", "species", "--domain", "ranges.toml", "--mi", "1"),
        *("--set", "depth=4", "--set", "p=0.0001", "--worlds", "100000", "--jobs", "2", "--json", "none.json"),
    )
    process = subprocess.Popen(
        [Path(sys.executable).with_name("epsworth"), *words], cwd=place, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    children, before = Path(f"/proc/{process.pid}/task/{process.pid}/children"), set(place.iterdir())
    while len(workers := children.read_text().split()) < 3 and process.poll() is None:  # and one that tracks resources
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert set(place.iterdir()) == before
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
