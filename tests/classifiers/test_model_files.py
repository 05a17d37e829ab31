"""Model files: what cannot be loaded ends in one sentence, and what would unpack to too much is never unpacked."""

from __future__ import annotations

import gzip
import io as streams
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from skops import io

from epsworth.classifiers import load_model, model_files


@pytest.fixture(scope="module")
def saved():
    return io.dumps(LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"]))


def refused(path, **more):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  each test looks at the sentence
        load_model(path, **more)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence or repr(str(path)) in sentence
    return sentence


def rewritten(data, change):
    """Return an archive whose members went through ``change(name, content)``."""
    target = streams.BytesIO()
    with zipfile.ZipFile(streams.BytesIO(data)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return target.getvalue()


def array(values, **more):
    file = streams.BytesIO()
    np.save(file, values, **more)
    return file.getvalue()


@pytest.mark.parametrize("name", ["m.skops", "m.SKOPS"])
def test_what_skops_wrote_is_loaded(tmp_path, name, saved):
    (tmp_path / name).write_bytes(saved)
    assert load_model(tmp_path / name).predict([[1.0]]) == ["yes"]
    model_files._check_size(io.dumps(LogisticRegression().fit([[0.0], [1.0]], [0, 1]).sparsify()))
    model_files._check_size(io.dumps(DecisionTreeClassifier().fit([[0.0], [1.0]], np.array(["a", "b"], dtype=object))))


def test_places_that_are_no_files_are_refused(tmp_path):
    (tmp_path / "d.skops").mkdir()
    assert "it is a folder" in refused(tmp_path / "d.skops")
    for one, other in (("a.skops", "b.skops"), ("b.skops", "a.skops")):
        (tmp_path / one).symlink_to(tmp_path / other)
    assert "cannot read the model" in refused(tmp_path / "a.skops")
    (tmp_path / "gone.skops").symlink_to(tmp_path / "nowhere")
    assert "there is no such file" in refused(tmp_path / "gone.skops")
    assert "cannot read the model" in refused(tmp_path / "zero\0byte.skops")
    assert "cannot read the model" in refused(tmp_path / ("long" * 100 + ".skops"))
    os.mkfifo(tmp_path / "pipe.skops")
    assert "it is a device or a pipe" in refused(tmp_path / "pipe.skops")


@pytest.mark.parametrize("name", ["m.skops", "m.pkl", "m.joblib"])
@pytest.mark.filterwarnings("ignore:.* is a pickle:UserWarning")
def test_files_that_are_empty_or_cut_off_are_refused(tmp_path, name, saved):
    path = tmp_path / name
    path.write_bytes(b"")
    for trust in (False, True):
        assert "the file is empty" in refused(path, trust=trust)
    whole = saved if name == "m.skops" else pickle.dumps({"some": list(range(1_000))})
    for length in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, trust=True)
    path.write_bytes(gzip.compress(whole))
    refused(path, trust=name == "m.skops")
    assert "has the ending .gz" in refused(path.rename(tmp_path / (name + ".gz")))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, saved, monkeypatch):
    """A few KB that state 8 MB; also where the directory is honest about each member but one is a bomb itself."""
    monkeypatch.setattr(model_files, "SMALL", 2**20)
    zeros = array(np.zeros(10**6))
    single = rewritten(saved, lambda name, content: zeros if name.endswith(".npy") else content)
    nested = streams.BytesIO()
    sparse.save_npz(nested, sparse.csr_array(np.ones((2, 2))))
    inner = rewritten(nested.getvalue(), lambda name, content: zeros if name == "data.npy" else content)
    held = rewritten(saved, lambda name, content: inner if name.endswith(".npy") else content)
    monkeypatch.setattr(io, "loads", None)  # nothing is loaded
    for data in (single, held):
        assert len(data) < 100_000
        (tmp_path / "m.skops").write_bytes(data)
        assert "unpacks to more than" in refused(tmp_path / "m.skops")


def test_large_archives_are_bounded_whatever_their_own_size(monkeypatch):
    monkeypatch.setattr(model_files, "LARGEST", 2**16)
    with pytest.raises(model_files.ArchiveError, match="unpacks to more than 0 MB"):
        model_files._check_size(io.dumps(np.zeros(10**4)))
    monkeypatch.undo()
    model_files._check_size(io.dumps(np.zeros(10**4)))
    assert model_files.LARGEST <= 2**30


def test_a_member_counts_as_often_as_it_is_loaded(tmp_path, saved):
    """Skops unpacks a member for every place that names it."""

    def repeat(name, content):
        if name != "schema.json":
            return content
        schema = json.loads(content)
        return json.dumps(schema | {"more": [{"file": "big.npy"}] * 100})

    data = rewritten(saved, repeat)
    with zipfile.ZipFile(file := streams.BytesIO(data), "a") as archive:
        archive.writestr("big.npy", array(np.zeros(125_000)))
    (tmp_path / "m.skops").write_bytes(file.getvalue())
    assert "unpacks to more than" in refused(tmp_path / "m.skops")


def test_reading_stops_at_the_stated_size(tmp_path, saved):
    """A directory that states 8 bytes for a member of many."""
    data = bytearray(rewritten(saved, lambda name, content: array(np.zeros(10**6)) if ".npy" in name else content))
    at = data.find(b"PK\x01\x02")
    assert data[at + 46 : data.find(b".npy", at)].isdigit()
    data[at + 24 : at + 28] = (8).to_bytes(4, "little")
    (tmp_path / "m.skops").write_bytes(data)
    refused(tmp_path / "m.skops")


def test_arrays_of_objects_are_refused(tmp_path, saved):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    objects = array(np.array([Evil()], dtype=object), allow_pickle=True)
    (tmp_path / "m.skops").write_bytes(rewritten(saved, lambda name, old: objects if ".npy" in name else old))
    assert "Object arrays cannot be loaded" in refused(tmp_path / "m.skops")
    refused(tmp_path / "m.skops", trust=True)
    assert not (tmp_path / "ran").exists()


def test_arrays_that_promise_more_than_follows_are_refused(tmp_path, saved):
    short = array(np.zeros(4)).replace(b"(4,)", b"(9,)")
    (tmp_path / "m.skops").write_bytes(rewritten(saved, lambda name, old: short if ".npy" in name else old))
    refused(tmp_path / "m.skops")
