"""Many files as one run: charged once, drawn once, whoever reads and draws them and however often they are killed."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsworth import Domain, Policy, perturb_files
from epsworth.policy.files import workers
from epsworth.policy.files.many_files import Folder
from epsworth.policy.files.workers import Secret, attempt, chosen, file_key
from epsworth.policy.ledger import Ledger
from epsworth.policy.ledger.store import Tables

POLICY = Policy.of("pm", 1, Domain.of({"age": (0, 100)}), passing=["id", "note"])
OTHER = Policy.of("pm", 2, Domain.of({"age": (0, 100)}), passing=["id", "note"])
RAW = "37.03125"  # in every file; no point of the grid, so no draw shows it
COMMAND = (sys.executable, "-c", "from epsworth.cli import main; main()", "perturb")


def write_parts(folder, count=3, rows=40, kind="csv"):
    """Write files in which every person has one row each."""
    folder.mkdir()
    for number in range(count):
        ages = np.random.default_rng(number).integers(18, 90, rows).astype(float)
        ages[rows // 2] = float(RAW)
        table = pl.DataFrame({"id": np.arange(rows), "age": ages, "note": [f"n{number}"] * rows})
        path = folder / f"part-{number:02}.{kind}"
        {"csv": table.write_csv, "jsonl": table.write_ndjson, "parquet": table.write_parquet}[kind](path)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with parts, a policy and a ledger, and go there."""
    write_parts(tmp_path / "parts")
    POLICY.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def release(place, out="out", **terms):
    return perturb_files(POLICY, place / "parts", place / out, **{"ledger": place / "ledger", "person": "id", **terms})


def outputs(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def check_whole(place, out="out"):
    """See that every file is there and the manifest adds up; return the bytes."""
    found = outputs(place / out)
    manifest = json.loads(found.pop("_manifest.json"))
    assert [file["name"] for file in manifest["files"]] == sorted(found) == sorted(os.listdir(place / "parts"))
    assert {file["name"]: file["sha256"] for file in manifest["files"]} == {
        name: sha256(content).hexdigest() for name, content in found.items()
    }
    assert sum(file["rows"] for file in manifest["files"]) == manifest["receipt"]["rows"]
    assert manifest["receipt"]["policy"] == POLICY.fingerprint
    assert [name for name in os.listdir(place / out) if name.startswith(".")] == []
    return found


def stopped(after):
    """Return a map that ends like Ctrl-C once so many files were written."""

    def run(function, tasks):
        for number, task in enumerate(tasks):
            if isinstance(task, workers.Drawing) and number == after:
                raise KeyboardInterrupt
            yield function(task)

    return run


def before_drawing(change):
    """Return a map that changes something once all files were read."""

    def run(function, tasks):
        if isinstance(tasks[0], workers.Drawing):
            change()
        return map(function, tasks)

    return run


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.cases(1)
def test_a_folder_is_one_run_and_asked_again_draws_nothing(tmp_path, kind):
    write_parts(tmp_path / "parts", kind=kind)
    shares = []
    receipt = release(tmp_path, cap=3, progress=shares.append)
    first = check_whole(tmp_path)
    assert receipt.rows == 120
    assert shares == sorted(shares)
    assert shares[-1] == 1
    read = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}[kind]
    for name in first:
        raw, drawn = read(tmp_path / "parts" / name), read(tmp_path / "out" / name)
        assert drawn.drop("age").equals(raw.drop("age"))
        assert (drawn["age"] != raw["age"]).sum() > 30
    assert release(tmp_path, map=before_drawing(lambda: None)).rows == 120
    assert check_whole(tmp_path) == first
    assert len(Ledger(tmp_path / "ledger").runs()) == 1


def test_rows_of_a_person_count_together_whichever_files_hold_them(place):
    """Three rows of everybody, one in each file: epsilon 3, which a cap of 2.9 forbids and one of 3 does not."""
    with pytest.raises(ValueError, match="cap"):
        release(place, cap="2.9")
    assert list((place / "out").iterdir()) == []
    assert Ledger(place / "ledger").runs() == []
    release(place, cap=3)
    spent = Ledger(place / "ledger").spent([0, 39, 40])
    assert [float(amount) for amount in spent] == pytest.approx([3, 3, 0], abs=1e-6)


def test_files_that_are_equal_are_drawn_apart(tmp_path):
    write_parts(tmp_path / "parts", count=1, rows=300)
    (tmp_path / "parts" / "twin.csv").write_bytes((tmp_path / "parts" / "part-00.csv").read_bytes())
    release(tmp_path)
    one, other = (pl.read_csv(tmp_path / "out" / name)["age"] for name in ("part-00.csv", "twin.csv"))
    assert (one == other).mean() < 0.1


def test_the_key_of_a_file_is_a_function_of_all_that_names_it():
    digest = bytes(range(32))
    keys = {
        file_key(key, index, found, text)
        for key in (bytes(32), bytes(31) + b"\1")
        for index in (0, 1)
        for found in (digest, digest[::-1])
        for text in ("a", "b")
    }
    assert len(keys) == 16


@pytest.mark.slow
def test_tasks_that_run_twice_and_in_another_order_leave_the_same(place):
    drawn = []

    def twice(function, tasks):
        for task in reversed(tasks):
            function(task)
            if isinstance(task, workers.Drawing):
                drawn.append((task.output, task.output.read_bytes()))
            yield function(task)

    release(place, map=twice)
    found = check_whole(place)
    assert {path.name: content for path, content in drawn} == found


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.cases(1)
def test_a_run_that_is_stopped_goes_on_and_what_is_whole_stays(place, after):
    with pytest.raises(KeyboardInterrupt):
        release(place, map=stopped(after))
    before = outputs(place / "out")
    assert len(before) == after
    assert not [name for name in os.listdir(place / "out") if name.endswith(".part")]
    ages = {name: (place / "out" / name).stat().st_mtime_ns for name in before}
    release(place)
    found = check_whole(place)
    assert before.items() <= found.items()
    assert ages == {name: (place / "out" / name).stat().st_mtime_ns for name in before}
    assert len(Ledger(place / "ledger").runs()) == 1


def test_a_run_that_is_stopped_behind_its_manifest_goes_on(place, monkeypatch):
    """The manifest has its name, and the run is not done."""
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "finish", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            release(place)
    before = outputs(place / "out")
    assert "_manifest.json" in before
    assert [run.state for run in Ledger(place / "ledger").runs()] == ["charged"]
    release(place)
    check_whole(place)
    assert outputs(place / "out") == before
    assert [run.state for run in Ledger(place / "ledger").runs()] == ["done"]


@pytest.mark.slow
def test_an_output_that_was_spoilt_is_drawn_again_to_the_byte(place):
    with pytest.raises(KeyboardInterrupt):
        release(place, map=stopped(2))
    before = outputs(place / "out")
    (place / "out" / "part-00.csv").write_bytes(before["part-00.csv"][:-9])
    (place / "out" / "part-01.csv").unlink()
    release(place)
    found = check_whole(place)
    assert before.items() <= found.items()


def test_an_output_that_is_spoilt_when_the_key_is_gone_is_told(place):
    release(place)
    (place / "out" / "part-01.csv").write_text("id,age,note\n")
    with pytest.raises(ValueError, match=r"part-01\.csv.* is not what its run wrote.*key is gone.*1 of 3 files"):
        release(place)
    assert (place / "out" / "part-01.csv").read_text() == "id,age,note\n"
    (place / "out" / "_manifest.json").unlink()
    with pytest.raises(ValueError, match=r"another run"):
        release(place)


def test_a_file_that_changes_between_its_readings_is_refused_and_the_others_stay(place):
    path = place / "parts" / "part-01.csv"
    raw = path.read_text()
    with pytest.raises(ValueError, match=r"part-01\.csv.* changed .*1 of 3 files.* the run is charged") as refused:
        release(place, map=before_drawing(lambda: path.write_text(raw.replace(RAW, "38.03125"))))
    assert "38.03" not in str(refused.value)
    before = outputs(place / "out")
    assert sorted(before) == ["part-00.csv", "part-02.csv"]
    path.write_text(raw)
    release(place)
    assert before.items() <= check_whole(place).items()
    assert len(Ledger(place / "ledger").runs()) == 1


def test_a_file_that_cannot_be_released_is_told_with_its_row_and_nothing_is_charged(place):
    path = place / "parts" / "part-02.csv"
    path.write_text(path.read_text().replace(RAW, f"{RAW}x"))
    with pytest.raises(ValueError, match=r"data row 20, line 22 of part-02\.csv.*nothing was charged") as refused:
        release(place)
    assert RAW not in str(refused.value)
    assert Ledger(place / "ledger").runs() == []
    assert outputs(place / "out") == {}


def test_a_folder_with_anything_else_in_it_is_refused_before_the_charge(place):
    (place / "out").mkdir()
    (place / "out" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"notes\.txt is no output of this run"):
        release(place)
    (place / "out" / "notes.txt").unlink()
    (place / "out" / "part-00.csv").write_text("of another run")
    with pytest.raises(ValueError, match=r"another run released.* nothing is replaced"):
        release(place)
    assert (place / "out" / "part-00.csv").read_text() == "of another run"
    assert Ledger(place / "ledger").runs() == []


@pytest.mark.slow
def test_outputs_of_another_run_are_refused_and_stay(place):
    """Whole or half: those of another policy, and those of the same when it is told to draw again."""
    release(place)
    before = outputs(place / "out")
    with pytest.raises(ValueError, match="another run released"):
        release(place, again=True)
    with pytest.raises(ValueError, match="another run released"):
        perturb_files(
            OTHER,
            place / "parts",
            place / "out",
            person="id",
        )
    assert outputs(place / "out") == before
    assert len(Ledger(place / "ledger").runs()) == 1
    with pytest.raises(KeyboardInterrupt):
        release(place, out="other", map=stopped(1), again=True)
    with pytest.raises(ValueError, match="another run is to release"):
        perturb_files(
            OTHER,
            place / "parts",
            place / "other",
            person="id",
        )
    release(place, out="other")  # goes on with the one that is charged
    assert check_whole(place, "other") != before
    assert len(Ledger(place / "ledger").runs()) == 2


def rival(place, **terms):
    return perturb_files(
        OTHER,
        place / "parts",
        place / "out",
        person="id",
        **terms,
    )


def test_of_two_runs_into_one_empty_folder_one_is_refused_before_its_charge(place):
    """While the first draws, and when it was killed then; nothing of the second is charged."""
    refused = []

    def meanwhile():
        with pytest.raises(
            ValueError, match=r"\.epsworth-claim: another run .*or was killed.* nothing is replaced"
        ) as told:
            rival(place, ledger=place / "other")
        refused.append(told)

    def stopping(function, tasks):
        if isinstance(tasks[0], workers.Drawing):
            meanwhile()
        return stopped(1)(function, tasks)

    with pytest.raises(KeyboardInterrupt):
        release(place, map=stopping)
    meanwhile()
    assert len(refused) == 2
    assert Ledger(place / "other").runs() == []
    release(place)
    check_whole(place)


def test_who_claimed_first_has_the_folder_however_the_checks_fall(place, monkeypatch):
    """Both find an empty folder; the claims decide."""
    claim, results = Folder._claim, []

    def slower(folder):
        monkeypatch.setattr(Folder, "_claim", claim)
        results.append(release(place))
        return claim(folder)

    monkeypatch.setattr(Folder, "_claim", slower)
    monkeypatch.setattr(Folder, "_unclaim", lambda folder: None)  # the first is not quite done
    with pytest.raises(ValueError, match="another run is to release"):
        rival(place, ledger=place / "other")
    assert len(results) == 1
    assert Ledger(place / "other").runs() == []


def test_a_run_that_is_refused_leaves_no_claim(place):
    with pytest.raises(ValueError, match="would exceed the cap"):
        release(place, cap=1)
    assert list((place / "out").iterdir()) == []
    rival(place, ledger=place / "other")
    with pytest.raises(ValueError, match="another run"):
        release(place)
    assert [name for name in os.listdir(place / "out") if name[0] == "."] == []


def test_where_files_have_one_name_the_claim_is_made_all_the_same(place, monkeypatch):
    for name in ("ledger", "other"):
        Ledger(place / name)  # whose key has two names when it is made

    def refuse(*names):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(KeyboardInterrupt):
        release(place, map=stopped(1))
    with pytest.raises(ValueError, match="another run is to release"):
        rival(place, ledger=place / "other")
    release(place)
    check_whole(place)


def test_what_changed_after_it_was_written_is_not_certified(place):
    """The manifest would say the sha256 of what was drawn, beside a file that is another."""
    path = place / "out" / "part-00.csv"

    def spoilt(function, tasks):
        found = [function(task) for task in tasks]
        if isinstance(tasks[0], workers.Drawing):
            path.write_text("id,age,note\n")
        return found

    with pytest.raises(ValueError, match=r"part-00\.csv: was changed after it was written, so no _manifest"):
        release(place, map=spoilt)
    assert not (place / "out" / "_manifest.json").exists()
    release(place)
    check_whole(place)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda parts: (parts / "read.me").touch(), r"read\.me: the ending is none of"),
        (lambda parts: (parts / "id=7").mkdir(), "id=7: is a folder, whose name could tell a value"),
        (lambda parts: (parts / "more.jsonl").touch(), r"files of one kind, got more\.jsonl and part-00\.csv"),
        (lambda parts: (parts / "PART-00.csv").touch(), "another file is called"),
        (lambda parts: [path.unlink() for path in parts.iterdir()], "holds no table"),
    ],
)
def test_what_is_no_table_is_refused_by_its_name(place, change, sentence):
    change(place / "parts")
    with pytest.raises(ValueError, match=sentence):
        release(place)
    assert not (place / "out").exists()


def test_what_spark_and_dask_leave_beside_parts_is_no_table(place):
    for name in ("_SUCCESS", ".part-00.csv.crc", "_manifest.json"):
        (place / "parts" / name).touch()
    assert release(place).rows == 120


def test_lists_are_files_of_different_names(place):
    write_parts(place / "more", count=1)
    files = [place / "parts" / "part-01.csv", place / "more" / "part-00.csv"]
    assert perturb_files(POLICY, files, place / "out", ledger=place / "ledger", max_rows_per_person=2).rows == 80
    with pytest.raises(ValueError, match=r"another file is called part-00\.csv"):
        perturb_files(POLICY, [*files, place / "parts" / "part-00.csv"], place / "other")
    with pytest.raises(TypeError, match="a folder or a list of files"):
        perturb_files(POLICY, 7, place / "other")


@pytest.mark.parametrize("out", ["parts", ".", "parts/out"])
def test_outputs_do_not_lie_among_inputs(place, out):
    with pytest.raises(ValueError, match="the output's folder"):
        release(place, out, ledger=place.with_name(f"{place.name}-ledger"))
    assert sorted(os.listdir(place / "parts")) == ["part-00.csv", "part-01.csv", "part-02.csv"]


def test_work_is_done_in_one_kind_of_place(place):
    with pytest.raises(ValueError, match="give one of them"):
        release(place, workers=2, map=map)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        release(place, workers=0)


GARBLED = {
    "dropped": lambda function, tasks: [function(task) for task in tasks[1:]],
    "twice": lambda function, tasks: [function(task) for task in [*tasks, tasks[0]]],
    "none": lambda function, tasks: None,
    "others": lambda function, tasks: [None for _ in tasks],
}


@pytest.mark.parametrize("fault", GARBLED)
def test_a_map_that_loses_results_is_refused_and_nothing_is_charged(place, fault):
    with pytest.raises(ValueError, match="results of 3 tasks as they were, each once"):
        release(place, map=GARBLED[fault])
    assert Ledger(place / "ledger").runs() == []


def test_a_map_that_loses_results_of_the_second_reading_is_refused_and_the_run_goes_on(place):
    def lose(function, tasks):
        found = [function(task) for task in tasks]
        return found[1:] if isinstance(found[0], workers.Written) else found

    with pytest.raises(ValueError, match="results of 3 tasks as they were, each once"):
        release(place, map=lose)
    release(place)
    check_whole(place)


@pytest.mark.parametrize(("ledger", "what"), [("out", "outputs"), ("parts", "inputs"), ("parts/kept", "inputs")])
@pytest.mark.cases(1)
def test_a_ledger_does_not_lie_among_tables(place, cli, ledger, what):
    before = sorted(place.rglob("*"))
    with pytest.raises(ValueError, match=f"the ledger would lie among the {what}"):
        release(place, ledger=place / ledger)
    code, _, told = cli("perturb", "policy.toml", "parts", "out", "--id", "id", "--ledger", ledger)
    assert (code, sorted(place.rglob("*"))) == (2, before)
    assert f"among the {what}" in told


def test_a_folder_does_not_go_to_standard_output(place, cli):
    before = sorted(place.rglob("*"))
    code, _, told = cli("perturb", "policy.toml", "parts", "-", "--id", "id", "--ledger", "ledger")
    assert (code, sorted(place.rglob("*"))) == (2, before)
    assert "cannot go to standard output (-); give a folder" in " ".join(told.split())


def test_tasks_and_results_show_no_key_and_no_value(place, monkeypatch):
    """What a worker could log: the texts of tasks, results, and of what went wrong."""
    kept, results = [], []

    def noting(function, tasks):
        kept.extend(tasks)
        for task in tasks:
            results.append(function(task))
            yield results[-1]

    release(place, map=noting)
    for task in kept:
        content = pickle.dumps(attempt(task))
        assert RAW.encode() not in content
        key = getattr(task, "id_key", None) or task.key
        for secret in (key, task.source.digest_key):
            assert len(secret.bytes) == 32
            for shown in (repr(task), str(task), content):
                where = shown if isinstance(shown, bytes) else shown.encode()
                assert secret.bytes not in where
                assert secret.bytes.hex().encode() not in where
                assert repr(secret.bytes)[2:-1].encode() not in where
    written = [one for one in results if isinstance(one, workers.Written)]
    assert {tuple(vars(one)) for one in written} == {("index", "name", "rows", "sha256")}
    assert repr(Secret(b"key")) == "Secret()"

    class Panic(BaseException):
        """As polars raises it."""

    for kind in (RuntimeError, Panic, OSError, KeyError):

        def failing(*_, kind=kind):
            raise kind(f"could not convert {RAW}")

        monkeypatch.setattr(workers, "file_table", failing)
        found = attempt(kept[0])
        assert kind.__name__ in found.sentence
        assert RAW not in repr(found)


def test_a_hidden_output_that_is_taken_away_is_drawn_again(place, monkeypatch):
    """Another driver of the run is done first, and removes what it takes for remains."""
    lost = []

    def removing(path):
        if len(lost) < 2:
            lost.append(path)
            path.unlink()
        real(path)

    real = workers.on_disk
    monkeypatch.setattr(workers, "on_disk", removing)
    release(place)
    assert len(lost) == 2
    check_whole(place)


def test_a_worker_of_another_version_draws_nothing(place, monkeypatch):
    monkeypatch.setattr(workers, "derivation", lambda policy, kind: "of other kernels")
    with pytest.raises(ValueError, match="another version of epsworth"):
        release(place)
    assert outputs(place / "out") == {}


@pytest.mark.slow
def test_the_command_line_takes_a_folder(place, cli):
    words = ("perturb", "policy.toml", "parts", "out", "--id", "id", "--ledger", "ledger", "--cap", "3")
    code, out, _ = cli(*words, "--receipt", "receipt.json")
    assert code == 0
    assert "120 rows" in out
    assert json.loads((place / "receipt.json").read_text())["rows"] == 120
    first = check_whole(place)
    assert cli(*words)[0] == 0
    assert check_whole(place) == first
    for option, why in (
        (("--jobs", "2"), "--jobs shares the parts of one file"),
        (("--receipt", "out/r.json"), "the receipt would lie among the tables"),
    ):
        code, _, told = cli(*words, *option)
        assert code == 2
        assert why in told
    code, _, told = cli("perturb", "policy.toml", "parts/part-00.csv", "one.csv", "--workers", "2")
    assert code == 2
    assert "share the files of a folder" in told
    (place / "parts" / "part-02.csv").write_text("id,age,note\n1,old,n\n")
    code, _, told = cli(*words[:3], "new", *words[4:])
    assert code == 2
    assert "data row 0, line 2 of part-02.csv" in told
    assert told.count("\n") == 1


def command(*options):
    """Start the command on the parts in this folder; its workers' processes are its children."""
    return subprocess.Popen(
        [*COMMAND, "policy.toml", "parts", "out", "--id", "id", "--ledger", "ledger", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Watch:
    """What ever lay in the folder of a run: of each name one version of bytes, and beginnings of it."""

    def __init__(self, folder):
        self.folder, self.seen, self.pieces = folder, {}, {}

    def look(self):
        """Look once more, also at hidden files of workers that died."""
        for path in self.folder.iterdir():
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            if not path.name.startswith("."):
                assert self.seen.setdefault(path.name, content) == content
            elif path.name.endswith(".part"):
                self.pieces.setdefault(path.name[1:].partition(".csv.")[0] + ".csv", set()).add(content)

    def check(self, found):
        """See that everything was the final bytes, or their beginning."""
        assert {
            name: content for name, content in self.seen.items() if name != "_manifest.json"
        }.items() <= found.items()
        for name, contents in self.pieces.items():
            assert name not in found or all(found[name].startswith(content) for content in contents)


def workers_of(driver):
    """Return the processes that a driver sends tasks to; it has others, which only tidy up."""
    psutil = pytest.importorskip("psutil")
    try:
        return [one for one in psutil.Process(driver).children() if "popen_loky_posix" in " ".join(one.cmdline())]
    except psutil.NoSuchProcess:
        return []


def kill_once(process, watch, rng, *, driver):
    """Kill the driver, or one of its workers, at a random moment after a random number of outputs."""
    there = len(os.listdir(watch.folder))
    wanted, end = there + rng.randrange(4), time.monotonic() + 60
    while len(os.listdir(watch.folder)) < wanted and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(rng.random() * (2 if wanted == there else 0.05))
    victims = [process] if driver else workers_of(process.pid)
    if victims:
        rng.choice(victims).kill()


def check_killed(place, trials, seed):
    """Kill drivers at random moments, and workers of those that live; then let the command end."""
    rng, watch = random.Random(seed), Watch(place / "out")
    (place / "out").mkdir()
    killed = 0
    for trial in range(trials):
        process = command("--workers", "2")
        if trial % 2:
            kill_once(process, watch, rng, driver=False)
        kill_once(process, watch, rng, driver=True)
        process.communicate(timeout=60)
        killed += process.returncode == -signal.SIGKILL
        watch.look()
    assert killed > trials // 2  # others were done before
    last = command("--workers", "2")
    out, told = last.communicate(timeout=120)
    assert last.returncode == 0, told
    watch.look()
    watch.check(check_whole(place))
    assert len(Ledger(place / "ledger").runs()) == 1
    assert RAW not in out + told


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_a_run_that_goes_on(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", count=6, rows=3000)
    POLICY.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    check_killed(tmp_path, trials=1, seed=1)


@pytest.mark.slow
def test_drivers_and_workers_that_are_killed_at_any_moment_leave_a_run_that_goes_on(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", count=40, rows=4000)
    POLICY.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    check_killed(tmp_path, trials=10, seed=2)


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced(tmp_path, monkeypatch):
    """The driver lives, and needs no second command."""
    write_parts(tmp_path / "parts", count=4, rows=2000)
    monkeypatch.chdir(tmp_path)
    killed = []

    def progress(share):
        if 0.4 < share < 1 and not killed:  # some are drawn, some are not
            killed.extend(workers_of(os.getpid()))
            for child in killed:
                child.kill()

    release(tmp_path, workers=2, progress=progress)
    assert killed
    check_whole(tmp_path)
    assert len(Ledger(tmp_path / "ledger").runs()) == 1


@pytest.mark.slow
def test_drivers_that_race_write_the_same(tmp_path, monkeypatch):
    """Three commands at once: all succeed, and one run is charged."""
    write_parts(tmp_path / "parts", count=6, rows=5000)
    POLICY.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    watch = Watch(tmp_path / "out")
    (tmp_path / "out").mkdir()
    racing = [command("--workers", "2") for _ in range(3)]
    while any(process.poll() is None for process in racing):
        watch.look()
        time.sleep(0.02)
    told = [process.communicate()[1] for process in racing]
    assert [process.returncode for process in racing] == [0, 0, 0], told
    watch.check(check_whole(tmp_path))
    assert len(Ledger(tmp_path / "ledger").runs()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_whole_files_and_no_half_one(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", count=12, rows=20_000)
    POLICY.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    process = command("--workers", "2")
    while not list(tmp_path.glob("out/part-*.csv")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert not list(tmp_path.glob("out/.*.part"))
    before = {name: content for name, content in outputs(tmp_path / "out").items() if name != "_manifest.json"}
    release(tmp_path)
    assert before.items() <= check_whole(tmp_path).items()


@pytest.fixture
def cluster():
    """Start a scheduler and two workers, each a process with a nanny that replaces it."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local:
        yield local


@pytest.mark.slow
def test_a_cluster_whose_workers_are_killed_releases_once_and_logs_no_secret(place, cluster):
    """Two of the workers are killed while they draw; no log of any of them holds a key or a value."""
    from distributed import Client

    write_parts(place / "large", count=12, rows=20_000)
    kept, watch, killed = [], Watch(place / "out"), []

    def noting(function, tasks):
        kept.extend(tasks)
        for done, found in enumerate(spread(function, tasks)):
            watch.look()
            if isinstance(found, workers.Written) and done in (1, 5):
                killed.append(random.Random(done).choice([nanny.pid for nanny in cluster.workers.values()]))
                os.kill(killed[-1], signal.SIGKILL)
            yield found

    watch.folder.mkdir()
    with chosen(cluster=cluster.scheduler_address) as spread:
        perturb_files(POLICY, place / "large", watch.folder, person="id", ledger=place / "ledger", map=noting)
    assert len(killed) == 2
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        logs = repr([client.get_worker_logs(nanny=True), client.get_worker_logs(), client.get_scheduler_logs()])
    (place / "parts").rename(place / "small")
    (place / "large").rename(place / "parts")
    watch.check(check_whole(place))
    assert len(Ledger(place / "ledger").runs()) == 1
    secrets = [task.source.digest_key for task in kept] + [getattr(task, "id_key", None) or task.key for task in kept]
    for secret in secrets:
        assert secret.bytes.hex() not in logs
        assert repr(secret.bytes)[2:-1] not in logs
    assert RAW not in logs


@pytest.mark.slow
def test_the_command_line_names_a_cluster(place, cluster, cli):
    words = ("perturb", "policy.toml", "parts", "out", "--id", "id", "--ledger", "ledger")
    code, out, told = cli(*words, "--cluster", cluster.scheduler_address)
    assert code == 0, told
    assert "120 rows" in out
    check_whole(place)


def test_a_cluster_that_does_not_answer_is_told(place, cli, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("epsworth.parallel.PATIENCE", "1s")
    words = ("perturb", "policy.toml", "parts", "out", "--id", "id", "--ledger", "ledger")
    code, _, told = cli(*words, "--cluster", "tcp://127.0.0.1:9")
    assert code == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in told
    assert Ledger(place / "ledger").runs() == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other people's packages
@pytest.mark.parametrize("engine", ["pyspark", "duckdb"])
def test_recipes_for_engines_run(tmp_path, monkeypatch, engine):
    """The blocks of the page; those of engines need these."""
    pytest.importorskip(engine, reason=f"{engine} is not installed, which its recipe needs")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "many_files.md").read_text()
    space = {}
    for needs, block in re.findall(r"```python(?: needs=(\S+))?\n(.*?)```", page, re.S):
        if needs in ("", engine):
            exec(compile(block, "docs/many_files.md", "exec"), space)
    assert space["receipt"].private
