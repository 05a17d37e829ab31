"""Runs that go on from a folder: to the last bit what they would have been, or a refusal."""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import epsworth as ew
from epsworth.utility.engines.checkpoint import EVERY, FACE, HEAD, STATE, Checkpoint, digest_of_model

X = np.random.default_rng(0).random((8, 2))
Y = np.arange(8) % 2
GIVEN = {"sensitive": [0, 1], "epsilons": [1.0, 2.0, 4.0], "tolerance": 0.05}
MIXED = GIVEN | {"mechanisms": ["krr:k=5001", "pm", "laplace_clipped"]}


def diagonal(records):
    return (records[:, 0] + records[:, 1] > 1).astype(int)


def words(records):
    return np.where(diagonal(records), "above", "below")


def in_pieces(model, path, times, most=300, **given):
    """Stop a run after so many checks again and again; return the last answer and how many runs it took."""
    for run in range(most):
        left = [times + run % 3]

        def watch(standing, left=left):
            left[0] -= 1
            return left[0] < 0

        curves = ew.stability(model, X, **(given | {"rng": run}), watch=watch, checkpoint=path)  # its own goes on
        if not curves.stopped:
            return curves, run + 1
    raise AssertionError("no headway")


def same(one, other):
    for of in ["stability"] + ["accuracy"] * (one.accuracy is not None):
        for found, expected in zip(
            (*one.average(of), one.bounds(of).lower, one.bounds(of).upper),
            (*other.average(of), other.bounds(of).lower, other.bounds(of).upper),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(one.labels_possible, other.labels_possible)
    np.testing.assert_array_equal(one.method, other.method)
    assert one.spent == other.spent
    assert one.confidence == other.confidence


@pytest.mark.parametrize(("over", "model", "times"), [("records", diagonal, 12), ("dataset", words, 15)])
@pytest.mark.slow
def test_a_run_in_pieces_ends_where_the_whole_one_does(tmp_path, over, model, times):
    y = Y if model is diagonal else words(X[::-1])
    whole = ew.stability(model, X, y=y, rng=0, over=over, **MIXED)
    found, runs = in_pieces(model, tmp_path / "run", times, y=y, over=over, **MIXED)
    assert runs > 2
    same(found, whole)
    again = ew.stability(model, X, y=y, rng=9, over=over, checkpoint=tmp_path / "run", **MIXED)
    same(again, whole)


@pytest.mark.parametrize("kind", ["forest", "line"])
def test_exact_engines_go_on_too(tmp_path, kind):
    fit = {"forest": RandomForestClassifier(9, random_state=0), "line": LogisticRegression()}[kind].fit(X, diagonal(X))
    mechanisms = ["pm", "krr:k=11", "laplace"]  # cells or lattice, a grid, rays
    whole = ew.stability(fit, X, rng=0, mechanisms=mechanisms, **GIVEN)
    found, runs = in_pieces(fit, tmp_path / "run", 15, mechanisms=mechanisms, **GIVEN)
    assert runs > 1
    np.testing.assert_array_equal(found.method, whole.method)
    exact = whole.method[:, 0] != "rays"  # whose draws serve all records: who is stopped among these draws again
    np.testing.assert_array_equal(found.lower[exact], whole.lower[exact])
    np.testing.assert_array_equal(found.upper[exact], whole.upper[exact])
    assert (found.lower <= whole.upper).all()
    assert (whole.lower <= found.upper).all()


ROWS_LEFT = [0]  # until Ctrl-C; what a function looks up elsewhere is no part of the model


def interrupted(records):
    ROWS_LEFT[0] -= len(records)
    if ROWS_LEFT[0] < 0:
        raise KeyboardInterrupt
    return diagonal(records)


@pytest.mark.slow
def test_an_interrupted_query_leaves_a_folder_to_go_on_from(tmp_path):
    """An exception inside the classifier, Ctrl-C among them, goes its way as ever."""
    whole, path = ew.stability(diagonal, X, rng=0, **MIXED), tmp_path / "run"
    for run in range(1, 40):
        ROWS_LEFT[0] = 3_000 * run
        try:
            found = ew.stability(interrupted, X, rng=0, checkpoint=path, **MIXED)
            break
        except KeyboardInterrupt:
            assert os.listdir(tmp_path) in (["run"], [])
    assert run > 2
    same(found, whole)


def other_questions():
    yield "records", {"X": X[::-1]}
    yield "epsilons \\(1.0, 2.0, 4.0, not 1.0, 2.0, 4.5\\)", {"epsilons": [1, 2, 4.5]}
    yield "mechanisms", {"mechanisms": ["pm", "laplace_clipped"]}
    yield "confidence \\(0.999, not 0.99\\)", {"confidence": 0.99}
    yield "tolerance \\(0.05, not 0.06\\)", {"tolerance": 0.06}
    yield "method \\(auto, not sampled\\)", {"method": "sampled"}
    yield "over", {"over": "dataset"}
    yield "at_least", {"at_least": 0.9}
    yield "true labels", {"y": 1 - Y}
    yield "true labels", {"y": None}
    yield "ranges", {"domain": {0: (0, 2), 1: (0, 1)}}
    yield "laws of what is released", {"mechanisms": dict.fromkeys(MIXED["mechanisms"], ew.MECHANISMS["sw"])}
    yield "answers of the classifier", {"model": lambda records: (records[:, 0] + records[:, 1] > 1.02).astype(int)}
    yield "sensitive features", {"sensitive": [1, 0]}


@pytest.mark.parametrize(
    ("told", "change"), [*other_questions()], ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.cases(1)
def test_the_folder_of_another_question_is_refused(tmp_path, told, change):
    path = tmp_path / "run"
    ew.stability(diagonal, X, y=Y, rng=0, watch=lambda standing: True, checkpoint=path, **MIXED)
    before = content(path)
    asked = MIXED | {"y": Y} | change
    with pytest.raises(ValueError, match=f"belongs to another question: not the same (.*, )?{told}[,; ]"):
        ew.stability(asked.pop("model", diagonal), asked.pop("X", X), rng=0, checkpoint=path, **asked)
    assert content(path) == before


def kept(tmp_path):
    path = tmp_path / "run"
    left = [9]

    def watch(standing):
        left[0] -= 1
        return left[0] < 0

    ew.stability(diagonal, X, rng=0, watch=watch, checkpoint=path, **MIXED)
    return path


@pytest.mark.parametrize("name", [HEAD, STATE])
@pytest.mark.parametrize("held", [b"", b"PK\x03\x04", b"[1, 2]", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'"])
def test_what_is_no_checkpoint_is_refused(tmp_path, name, held):
    path = kept(tmp_path)
    (path / name).write_bytes(held)
    with pytest.raises(ValueError, match=rf"(checkpoint|piece) .*{name}: is damaged or .* remove"):
        ew.stability(diagonal, X, checkpoint=path, **MIXED)
    assert (path / name).read_bytes() == held


def test_damaged_files_are_refused(tmp_path):
    path, rng = kept(tmp_path), np.random.default_rng(0)
    for name in (HEAD, STATE):
        whole = (path / name).read_bytes()
        for cut in rng.integers(len(whole), size=4):
            (path / name).write_bytes(whole[:cut])
            with pytest.raises(ValueError, match="is damaged"):
                ew.stability(diagonal, X, checkpoint=path, **MIXED)
        (path / name).write_bytes(whole)


def rewritten(path, **changes):
    with np.load(path) as file:
        held = dict(file)
    for name, value in changes.items():
        key = next(key for key in held if key.endswith(f"/{name}"))
        held[key] = value(held[key])
    np.savez(path, **held)


@pytest.mark.parametrize(
    "changes",
    [
        {"hits": lambda hits: hits[:1, :1]},
        {"q": lambda q: q.astype(int)},
        {"looked": lambda looked: np.array("one")},
    ],
)
def test_arrays_of_another_shape_or_kind_are_refused(tmp_path, changes):
    path = kept(tmp_path)
    rewritten(path / STATE, **changes)
    with pytest.raises(ValueError, match="is damaged"):
        ew.stability(diagonal, X, checkpoint=path, **MIXED)


def test_files_say_what_they_are_and_hold_no_record(tmp_path):
    path = kept(tmp_path)
    head = json.loads((path / HEAD).read_text())
    assert head["note"] == FACE
    assert "raw data" in FACE
    held = content(path)
    for value in X.ravel():
        assert value.tobytes() not in held
        assert repr(float(value)).encode() not in held
    for name in path.iterdir():
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
        if name.suffix == ".npz":
            with np.load(name, allow_pickle=False) as file:
                assert all(file[one].dtype.kind in "iufbU" for one in file.files)


def test_labels_that_json_cannot_hold_are_refused_at_once(tmp_path):
    def fractions(records):
        return np.array([Fraction(int(label)) for label in diagonal(records)], dtype=object)

    with pytest.raises(ValueError, match="a checkpoint holds labels that are texts, numbers or booleans only"):
        ew.stability(fractions, X, checkpoint=tmp_path / "run", **MIXED)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_refused_before_anything_is_asked(tmp_path):
    def never(records):
        raise AssertionError("asked")

    with pytest.raises(ValueError, match="does not exist"):
        ew.stability(never, X, checkpoint=tmp_path / "no" / "run.npz", **MIXED)


def opened(path, **more):
    return Checkpoint(path, {"question": "one"}, 8, 2, np.random.default_rng(0), **more)


def test_states_are_written_every_half_minute(tmp_path):
    now = [0.0]
    folder = opened(tmp_path / "run", clock=lambda: now[0])
    part = folder.state("part")
    part.save(a=np.arange(3))
    assert not (folder.path / STATE).exists()
    now[0] = EVERY
    assert part.due
    part.save(a=np.arange(4))
    assert (folder.path / STATE).exists()
    assert not part.due
    assert opened(folder.path).state("part").load(a=np.zeros(4, dtype=int))["a"].tolist() == [0, 1, 2, 3]


NUMBERS = arrays.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_]), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0)
)


@drawn(st.dictionaries(st.text("abcxyz ", min_size=1), NUMBERS, max_size=4), st.text("pq/0 ", max_size=9))
@settings(deadline=None)
def test_what_is_left_is_found_bit_by_bit(state, part):
    with tempfile.TemporaryDirectory() as place:
        with opened(Path(place) / "run") as folder:
            folder.state(part).save(number=1, **{f"n{name}": value for name, value in state.items()})
        like = {"number": 0} | {f"n{name}": value for name, value in state.items()}
        again = opened(Path(place) / "run")
        assert again.seeds == folder.seeds
        found = again.state(part).load(**like)
        assert found is not None
        for name, value in state.items():
            assert found[f"n{name}"].tobytes() == value.tobytes()


SLOW = """
import sys, time
import numpy as np
import epsworth as ew
from epsworth.utility.engines import checkpoint
checkpoint.EVERY = 0.05
X = np.random.default_rng(0).random((8, 2))
def diagonal(records):
    time.sleep(2e-5 * len(records))
    return (records[:, 0] + records[:, 1] > 1).astype(int)
curves = ew.stability(diagonal, X, rng=0, sensitive=[0, 1], epsilons=[1.0, 2.0, 4.0], tolerance=0.05,
                      mechanisms=["krr:k=5001", "pm", "laplace_clipped"], checkpoint=sys.argv[1])
curves.save(sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    whole, script = ew.stability(diagonal, X, rng=0, **MIXED), tmp_path / "run.py"
    script.write_text(SLOW)
    command = [sys.executable, script, tmp_path / "run", tmp_path / "curves.json"]
    for _ in range(3):  # killed as soon as it has gone on by something
        before = content(tmp_path / "run")
        process = subprocess.Popen(command)
        while content(tmp_path / "run") == before and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        assert process.wait() == -9
    subprocess.run(command, check=True)
    same(ew.Curves.load(tmp_path / "curves.json"), whole)


def content(path):
    return b"".join(one.read_bytes() for one in sorted(path.glob("[!.]*"))) if path.exists() else b""


def shifted(model, by):
    model[-1].intercept_ = model[-1].intercept_ + by
    return model


def stumps(thresholds):
    """A forest of three trees that differ in nothing but their one threshold."""
    data = np.random.default_rng(1).random((200, 2))
    forest = RandomForestClassifier(3, max_depth=1, bootstrap=False, max_features=None, random_state=0)
    forest.fit(data, (data[:, 0] > 0.5).astype(int))
    forest.estimators_ = [copy.deepcopy(forest.estimators_[0]) for _ in thresholds]
    for tree, threshold in zip(forest.estimators_, thresholds, strict=True):
        tree.tree_.threshold[0] = threshold
    return forest


def beside(cut):
    return lambda records: (records[:, 0] > cut).astype(int)


def almost_alike():
    data = np.random.default_rng(1).random((200, 2))
    behind = [
        make_pipeline(FunctionTransformer(lambda z: z * 1.0), LogisticRegression()).fit(data, data[:, 0] > 0.5)
        for _ in range(2)
    ]
    yield behind[0], shifted(behind[1], 0.001)  # behind a function that cannot be pickled
    yield stumps((0.5, 0.5, 0.5005)), stumps((0.5, 0.5005, 0.5005))  # the same arrays, another number of each
    yield beside(0.5), beside(0.50001)  # a function's constants
    yield lambda records: records[:, 0] > 0.5, lambda records: records[:, 0] > 0.50001


@pytest.mark.parametrize("pair", [*almost_alike()], ids=["lambda", "forest", "closure", "constant"])
def test_the_folder_of_a_model_that_is_almost_the_same_is_refused(tmp_path, pair):
    asked = {"sensitive": [0], "mechanisms": "pm", "epsilons": [2.0], "rng": 0, "checkpoint": tmp_path / "run"}
    first = ew.stability(pair[0], X, **asked)
    with pytest.raises(ValueError, match="not the same the model"):
        ew.stability(pair[1], X, **asked)
    again = ew.stability(copy.deepcopy(pair[0]), X, **asked)
    np.testing.assert_array_equal(again.lower, first.lower)


@pytest.mark.slow
def test_a_model_is_known_again_in_another_process(tmp_path):
    """Sets and texts come in an order of the process; which parts are one object does not matter."""
    code = (
        "import numpy as np; from sklearn.ensemble import RandomForestClassifier; "
        "from epsworth.utility.engines.checkpoint import digest_of_model; "
        "r = np.random.default_rng(0).random((50, 2)); "
        "f = RandomForestClassifier(3, random_state=0).fit(r, np.where(r[:, 0] > .5, 'a', 'b')); "
        "f.words = {{'one', 'two', 'three', 'four'}}; shared = ['x']; "
        "f.pair = [shared, shared] if {} else [['x'], ['x']]; print(digest_of_model(f))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code.format(seed)], check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (0, 1, 2)
    }  # fmt: skip
    assert len(told) == 1


def test_a_model_that_holds_itself_is_digested():
    one, other = LogisticRegression(), LogisticRegression(C=2)
    one.own, other.own = [one], [other]
    assert digest_of_model(one) == digest_of_model(one) != digest_of_model(other)
