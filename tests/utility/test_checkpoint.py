"""Runs that go on from a file: to the last bit what they would have been, or a refusal."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.utility.engines.checkpoint import EVERY, FACE, Checkpoint, Kept

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
    found, runs = in_pieces(model, tmp_path / "run.npz", times, y=y, over=over, **MIXED)
    assert runs > 2
    same(found, whole)
    again = ew.stability(model, X, y=y, rng=9, over=over, checkpoint=tmp_path / "run.npz", **MIXED)
    same(again, whole)


@pytest.mark.parametrize("kind", ["forest", "line"])
def test_exact_engines_go_on_too(tmp_path, kind):
    fit = {"forest": RandomForestClassifier(9, random_state=0), "line": LogisticRegression()}[kind].fit(X, diagonal(X))
    mechanisms = ["pm", "krr:k=11", "laplace"]  # cells or lattice, a grid, rays
    whole = ew.stability(fit, X, rng=0, mechanisms=mechanisms, **GIVEN)
    found, runs = in_pieces(fit, tmp_path / "run.npz", 15, mechanisms=mechanisms, **GIVEN)
    assert runs > 1
    np.testing.assert_array_equal(found.method, whole.method)
    exact = whole.method[:, 0] != "rays"  # whose draws serve all records: who is stopped among these draws again
    np.testing.assert_array_equal(found.lower[exact], whole.lower[exact])
    np.testing.assert_array_equal(found.upper[exact], whole.upper[exact])
    assert (found.lower <= whole.upper).all()
    assert (whole.lower <= found.upper).all()


@pytest.mark.slow
def test_an_interrupted_query_leaves_a_file_to_go_on_from(tmp_path):
    """An exception inside the classifier, Ctrl-C among them, goes its way as ever."""
    whole, path = ew.stability(diagonal, X, rng=0, **MIXED), tmp_path / "run.npz"
    for run in range(1, 40):
        rows = [0]

        def interrupted(records, rows=rows, limit=3_000 * run):
            rows[0] += len(records)
            if rows[0] > limit:
                raise KeyboardInterrupt
            return diagonal(records)

        try:
            found = ew.stability(interrupted, X, rng=0, checkpoint=path, **MIXED)
            break
        except KeyboardInterrupt:
            assert os.listdir(tmp_path) in (["run.npz"], [])
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
    yield "laws of what is released", {"mechanisms": dict.fromkeys(MIXED["mechanisms"], ew.FAMILIES["sw"])}
    yield "answers of the classifier", {"model": lambda records: (records[:, 0] + records[:, 1] > 1.02).astype(int)}
    yield "sensitive features", {"sensitive": [1, 0]}


@pytest.mark.parametrize(
    ("told", "change"), [*other_questions()], ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.cases(1)
def test_the_file_of_another_question_is_refused(tmp_path, told, change):
    path = tmp_path / "run.npz"
    ew.stability(diagonal, X, y=Y, rng=0, watch=lambda standing: True, checkpoint=path, **MIXED)
    before = path.read_bytes()
    asked = MIXED | {"y": Y} | change
    with pytest.raises(ValueError, match=f"belongs to another question: not the same (.*, )?{told}[,; ]"):
        ew.stability(asked.pop("model", diagonal), asked.pop("X", X), rng=0, checkpoint=path, **asked)
    assert path.read_bytes() == before


def kept(tmp_path):
    path = tmp_path / "run.npz"
    left = [9]

    def watch(standing):
        left[0] -= 1
        return left[0] < 0

    ew.stability(diagonal, X, rng=0, watch=watch, checkpoint=path, **MIXED)
    return path


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"[1, 2]", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'"])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"checkpoint .*run.npz: is damaged or no checkpoint"):
        ew.stability(diagonal, X, checkpoint=path, **MIXED)
    assert path.read_bytes() == content


def test_damaged_files_are_refused(tmp_path):
    content, rng = kept(tmp_path).read_bytes(), np.random.default_rng(0)
    path = tmp_path / "run.npz"
    for cut in rng.integers(len(content), size=8):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match="is damaged"):
            ew.stability(diagonal, X, checkpoint=path, **MIXED)


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
    rewritten(path, **changes)
    with pytest.raises(ValueError, match="is damaged"):
        ew.stability(diagonal, X, checkpoint=path, **MIXED)


def test_the_file_says_what_it_is_and_holds_no_record(tmp_path):
    path = kept(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with np.load(path, allow_pickle=False) as file:
        head = json.loads(str(file["head"]))
        held = {name: file[name] for name in file.files}
    assert head["note"] == FACE
    assert "raw data" in FACE
    content = path.read_bytes() + json.dumps(head).encode()
    for value in X.ravel():
        assert value.tobytes() not in content
        assert repr(float(value)).encode() not in content
    assert all(value.dtype.kind in "iufbU" for value in held.values())


def test_labels_that_json_cannot_hold_are_refused_at_once(tmp_path):
    def tuples(records):
        found = np.empty(len(records), dtype=object)
        found[:] = [(int(label),) for label in diagonal(records)]
        return found

    with pytest.raises(ValueError, match="a checkpoint holds labels that are texts, numbers or booleans only"):
        ew.stability(tuples, X, checkpoint=tmp_path / "run.npz", **MIXED)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_refused_before_anything_is_asked(tmp_path):
    def never(records):
        raise AssertionError("asked")

    with pytest.raises(ValueError, match="does not exist"):
        ew.stability(never, X, checkpoint=tmp_path / "no" / "run.npz", **MIXED)


def test_the_file_is_written_every_half_minute(tmp_path):
    now, rng = [0.0], np.random.default_rng(0)
    file = Checkpoint(tmp_path / "run.npz", {}, rng, clock=lambda: now[0])
    part = Kept(file, "part")
    part.keep(a=np.arange(3))
    assert not file.path.exists()
    now[0] = EVERY
    assert part.due
    part.keep(a=np.arange(4))
    assert file.path.exists()
    assert not part.due
    assert Kept(Checkpoint(file.path, {}, rng), "part").found(a=np.zeros(4, dtype=int))["a"].tolist() == [0, 1, 2, 3]


GENERATORS = st.sampled_from(
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
)
NUMBERS = arrays.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_]), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0)
)


@drawn(st.dictionaries(st.text("abcxyz ", min_size=1), NUMBERS, max_size=4), GENERATORS, st.text("pq/0 ", max_size=9))
@settings(deadline=None)
def test_what_is_kept_is_found_bit_by_bit(state, generator, part):
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"epsworth-{os.getpid()}.npz"
    rng = np.random.Generator(generator(1))
    rng.integers(9, size=3)
    try:
        with Checkpoint(path, {"question": "one"}, rng) as file:
            Kept(file, part).keep(number=1, **{f"n{name}": value for name, value in state.items()})
        expected = rng.random(5)
        other = np.random.Generator(generator(2))
        like = {"number": 0} | {f"n{name}": value for name, value in state.items()}
        found = Kept(Checkpoint(path, {"question": "one"}, other), part).found(**like)
        assert found is not None
        for name, value in state.items():
            assert found[f"n{name}"].tobytes() == value.tobytes()
        assert (other.random(5) == expected).all()
    finally:
        path.unlink(missing_ok=True)


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
    command = [sys.executable, script, tmp_path / "run.npz", tmp_path / "curves.json"]
    for _ in range(3):  # killed as soon as it has gone on by something
        before = content(tmp_path / "run.npz")
        process = subprocess.Popen(command)
        while content(tmp_path / "run.npz") == before and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        assert process.wait() == -9
    subprocess.run(command, check=True)
    same(ew.Curves.load(tmp_path / "curves.json"), whole)


def content(path):
    return path.read_bytes() if path.exists() else b""
