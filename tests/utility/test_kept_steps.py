"""Profiles and tailored policies that are kept in a folder: killed anywhere they go on, and find the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from steps_worlds import CASES, MAKERS, ROWS, SICK, X, a_policy, a_window, cut, some_neighbours

from epsworth.keeping import going_on
from epsworth.utility.steps import KeptSteps

KILLED = """
import os, signal, sys
from pathlib import Path
from steps_worlds import MAKERS, cut

cut()
MOVES = {name: getattr(os, name) for name in ("replace", "link")}  # by which files appear: whole

def child(make, folder, last, before):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    count = 0
    def dying(move):
        def moved(*names):
            nonlocal count
            count += 1
            if count == last and before:
                os.kill(os.getpid(), signal.SIGKILL)
            move(*names)
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return moved
    for name, move in MOVES.items():
        setattr(os, name, dying(move))
    make(checkpoint=folder)
    os._exit(0)

for name, every in (("a_policy", 9), ("some_neighbours", 1), ("a_window", 3)):
    make, last = MAKERS[name], 1
    whole = make()
    while True:
        folder = Path(sys.argv[1]) / f"{name}-{last}"
        status = child(make, folder, last, last % 2 == 1)
        if not os.WIFSIGNALED(status):
            assert status == 0
            break
        done = len([one for one in folder.iterdir() if not one.name.startswith(".")])
        assert done == last - last % 2, (done, last)
        assert make(checkpoint=folder) == whole
        last += every
    print(name, last // every)
"""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    cut(monkeypatch.setattr)


@pytest.fixture(scope="module")
def wholes():
    """What an unbroken run finds, that keeps nothing."""
    patch = pytest.MonkeyPatch()
    cut(patch.setattr)
    yield {name: make() for name, make in MAKERS.items()}
    patch.undo()


def pieces(folder):
    return sorted(one for one in folder.iterdir() if one.suffix == ".npz" and not one.name.startswith("."))


@pytest.mark.parametrize("make", CASES)
def test_a_folder_changes_no_bit_and_nothing_is_done_twice(make, wholes, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    assert make(checkpoint=folder) == wholes[make.__name__]
    assert len(pieces(folder)) >= 5
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700

    def nothing_left(batches, shelf, afresh):
        def checked(left):
            assert not left
            return afresh(left)

        return going_on(batches, shelf, checked)

    monkeypatch.setattr("epsworth.parallel.going_on", nothing_left)
    assert make(checkpoint=folder) == wholes[make.__name__]


@pytest.mark.parametrize("make", CASES)
@pytest.mark.slow
def test_files_that_are_lost_are_found_again_whatever_the_seed(make, wholes, tmp_path):
    folder = tmp_path / "run"
    make(checkpoint=folder)
    for one in pieces(folder)[1::3]:
        one.unlink()
    settings = {} if make is some_neighbours else {"rng": 77}
    assert make(checkpoint=folder, **settings) == wholes[make.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES)
def test_workers_leave_and_find_the_same(make, wholes, tmp_path):
    folder = tmp_path / "run"
    make(checkpoint=folder)
    for one in pieces(folder)[-4:]:
        one.unlink()
    assert make(checkpoint=folder, n_jobs=2) == wholes[make.__name__]
    assert make(checkpoint=folder) == wholes[make.__name__]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="processes are killed")
def test_a_run_that_is_killed_before_or_after_any_file_goes_on(tmp_path):
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    run = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = dict(line.split() for line in run.stdout.splitlines())
    assert len(told) == 3
    assert min(map(int, told.values())) >= 3


@pytest.mark.parametrize("make", [a_window, some_neighbours])
def test_progress_rises_to_one(make, tmp_path):
    for folder in (tmp_path / "run", tmp_path / "run"):
        shares = []
        make(checkpoint=folder, progress=shares.append)
        assert shares == sorted(shares)
        assert len(shares) >= 5
        assert shares[-1] == 1


def test_another_question_is_refused(tmp_path):
    a_window(checkpoint=tmp_path / "window")
    for rows, labels, settings in (
        (ROWS[1:], SICK[1:], {}), (ROWS, 1 - SICK, {}), (ROWS, SICK, {"l2": 0.02}), (ROWS, SICK, {"adv_safe": 0.2}),
        (ROWS, SICK, {"rule": "plateau"}), (ROWS, SICK, {"draws": 30}), (ROWS, SICK, {"rng": None}),
        (ROWS, SICK, {"held_out": (ROWS[:9], SICK[:9])}), (ROWS, SICK, {"calibration": "add_remove"}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="belongs to another question: not the same"):
            a_window(rows, labels, checkpoint=tmp_path / "window", **settings)
    with pytest.raises(ValueError, match=r"not the same task \(window of epsilons, not neighbours of a model\)"):
        some_neighbours(checkpoint=tmp_path / "window")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"model": RandomForestClassifier(5, random_state=1).fit(X, SICK)}, "models"),
        ({"model": lambda records: records[:, 0] > 0}, "answers of the classifiers"),
        ({"table": X[::-1].copy()}, "records"),
        ({"epsilon": 3}, r"epsilon \(2, not 3\)"),
        ({"wish": "average"}, r"wish \(worst, not average\)"),
        ({"domain": {0: (-9, 9), 1: (-9, 9)}}, "ranges"),
        ({"missing": 0.5}, "ranges"),
        ({"sensitive": [0], "domain": {0: (-9, 9)}}, "sensitive features"),
        ({"surrogate": "linear"}, "surrogate"),
        ({"holdout": 0.5}, "holdout"),
    ],
)
def test_another_policy_is_refused(given, word, tailored_folder):
    with pytest.raises(ValueError, match=f"belongs to another question: not the same .*{word}"):
        a_policy(checkpoint=tailored_folder, **given)


@pytest.fixture(scope="module")
def tailored_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tailored") / "run"
    a_policy(checkpoint=folder)
    return folder


def test_a_model_of_other_trees_that_answers_alike_is_another_question(tmp_path, tailored_folder):
    """Its answers are those of the first, its arrays are not."""
    alike = RandomForestClassifier(5, random_state=0).fit(X, SICK)
    alike.estimators_[0].tree_.impurity[:] = 0.25  # which no answer follows from
    with pytest.raises(ValueError, match="another question: not the same models;"):
        a_policy(alike, checkpoint=tailored_folder)


@pytest.mark.parametrize("make", CASES)
@pytest.mark.cases(1)
def test_damaged_pieces_are_refused(make, tmp_path):
    folder = tmp_path / "run"
    make(checkpoint=folder)
    one, two, *_ = pieces(folder)
    kept = one.read_bytes()
    for content, sentence in ((two.read_bytes(), "another piece than its name says"), (kept[:-30], "damaged"),
                              (b"", "damaged"), (b"PK\3\4", "damaged"), (b"\x93NUMPY", "damaged")):  # fmt: skip
        one.write_bytes(content)
        with pytest.raises(ValueError, match=f"piece {one}: .*{sentence}"):
            make(checkpoint=folder)
    for change, sentence in (
        (lambda told, arrays: told.update(digest="0"), "another question"),
        (lambda told, arrays: told.update(asked="0"), "asked something else"),
        (lambda told, arrays: told.pop("words"), "damaged"),
        (lambda told, arrays: told.update(words={"0": [1, {}]}), "damaged"),
        (lambda told, arrays: told.update(words={"nothing": []}), "damaged"),
        (lambda told, arrays: arrays.popitem(), "damaged"),
    ):  # fmt: skip
        one.write_bytes(kept)
        edit(one, change)
        with pytest.raises(ValueError, match=f"piece {one}: .*{sentence}"):
            make(checkpoint=folder)
    one.write_bytes(kept)
    head = folder / "head.json"
    asked = json.loads(head.read_text())
    for broken in (b"", b"[]", b"{", json.dumps(asked | {"question": []}).encode(),
                   json.dumps(asked | {"question": asked["question"] | {"randomness": "{}"}}).encode()):  # fmt: skip
        head.write_bytes(broken)
        with pytest.raises(ValueError, match=r"head\.json: (is damaged|belongs to another)"):
            make(checkpoint=folder)


def edit(path, change):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    told = json.loads(str(arrays.pop("head")))
    change(told, arrays)
    np.savez(path, head=np.array(json.dumps(told)), **arrays)


def test_a_copy_that_no_policy_could_hold_is_refused(tmp_path):
    folder = tmp_path / "run"
    a_policy(checkpoint=folder)
    [one] = [one for one in pieces(folder) if b"tree:32" in one.read_bytes()]

    def change(told, arrays):
        table = json.loads(str(arrays["of tree:32"]))
        table["left"][0] = 0  # a walk that never ends
        arrays["of tree:32"] = np.array(json.dumps(table))

    edit(one, change)
    with pytest.raises(ValueError, match=f"piece {one}: is damaged"):
        a_policy(checkpoint=folder)


def test_folders_of_anything_else_are_refused_before_any_work(tmp_path):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "table.csv").touch()
    (tmp_path / "file").touch()
    for make in (a_policy, a_window, some_neighbours):
        for name, sentence in (("others", "holds other files"), ("file", "is a file"), ("no/where", "does not exist")):
            with pytest.raises(ValueError, match=sentence):
                make(checkpoint=tmp_path / name)


def test_labels_that_no_file_holds_are_refused(tmp_path):
    class Words:
        def __call__(self, records):
            return []

        def arrays(self, found):
            return {"0": found}

    class Odd(str):
        pass

    step = KeptSteps.of(tmp_path / "run", "a test", {}, {}).step(Words())
    with pytest.raises(ValueError, match="labels that are texts, numbers or booleans only"):
        step.write(0, (), np.array([Odd("a"), "b"], dtype=object))
