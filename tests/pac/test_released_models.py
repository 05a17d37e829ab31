"""Released models as files: they answer as the release does, in natural units, and hold nothing that runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import polars as pl
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from epsworth import load_model
from epsworth.classifiers.reading import Predict, ignoring_names
from epsworth.inputs import model_of_file
from epsworth.pac import MI, FixedForest, PACPrivatizer
from epsworth.pac.model_files import KIND

X, Y = load_iris(return_X_y=True)
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
RANGES = [[0.0, 10.0]] * 4
WORDS = np.array(["a", "b", "c"], dtype=object)[Y]
ALGORITHMS = {
    "kmeans": (KMeans(3, n_init=2), Y),
    "svm": (LinearSVC(dual=False, C=0.5), WORDS),
    "logistic": (LogisticRegression(), Y),
    "two classes": (LogisticRegression(), Y > 0),
    "ridge classifier": (RidgeClassifier(alpha=0.1), WORDS),
    "least squares": (LinearRegression(), X[:, 3]),
    "ridge": (Ridge(0.5), X[:, 3]),
    "pca": (PCA(2), None),
    "forest": (FixedForest(2, 3, random_state=4), WORDS),
}


def released(name):
    estimator, y = ALGORITHMS[name]
    return PACPrivatizer(estimator, MI(2.0), worlds=8).fit(X / 10, y).release()


def asked(model, rows):
    with ignoring_names():
        return model.predict(rows) if hasattr(model, "predict") else model.transform(rows)


def same(found, wanted):
    """Labels are equal; numbers may differ by how a tenth is rounded."""
    return np.array_equal(found, wanted) if found.dtype.kind != "f" else np.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ending", [".skops", ".npz"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_file_answers_as_the_release_does(name, ending, tmp_path):
    release = released(name)
    for names, ranges, rows in ((None, None, X / 10), (NAMES, RANGES, X)):
        release.save_model(tmp_path / f"model{ending}", names=names, ranges=ranges)
        model = model_of_file(tmp_path / f"model{ending}", False)
        assert same(asked(model, rows), asked(release.estimator_, X / 10))
        assert getattr(model, "feature_names_in_", np.array(None)).tolist() == names
    if ending == ".skops":
        assert same(asked(load_model(tmp_path / "model.skops"), X), asked(release.estimator_, X / 10))


def test_an_npz_file_holds_the_release_and_its_promise_only(tmp_path):
    for name, arrays in (("svm", {"vector"}), ("forest", {"vector", "features"}), ("pca", {"vector", "mean"})):
        release = released(name)
        release.save_model(tmp_path / "m.npz")
        with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
            assert set(file) == arrays | {"head"}
            assert np.array_equal(file["vector"], release.vector)
            head = json.loads(str(file["head"]))
        assert head["report"] == json.loads(json.dumps(release.report()))
        assert set(head) == {"kind", "algorithm", "params", "classes", "columns", "names", "ranges", "report"}


class Hostile:
    def __repr__(self):  # names of tests are the same in every worker
        return "Hostile()"

    def __reduce__(self):
        return exec, ("raise SystemExit('code of the file was run')",)


def written(path, *, compressed=False, **changes):
    """Write a K-Means release with changes of its arrays, or of its head."""
    head = {"kind": KIND, "algorithm": "KMeans", "params": {"n_clusters": 2}, "classes": None, "columns": 4,
            "names": None, "ranges": None, "report": {}}  # fmt: skip
    arrays = {"vector": np.arange(8.0)}
    for name, value in changes.items():
        (head if name in head else arrays)[name] = value
    save = np.savez_compressed if compressed else np.savez
    save(path, head=np.array(json.dumps(head)), **arrays)


@pytest.mark.parametrize(
    "changes",
    [
        {"compressed": True},
        {"kind": "another"},
        {"algorithm": "Pipeline"},
        {"algorithm": "os.system"},
        {"algorithm": "PCA"},
        {"algorithm": "FixedForest", "params": {}, "classes": [0, 1], "features": np.full((3, 3), 99)},
        {"algorithm": "FixedForest", "params": {}, "classes": [0, 1]},
        {
            "algorithm": "FixedForest",
            "params": {"n_trees": 1, "depth": 62},
            "classes": [0, 1],
            "features": np.zeros((1, 62)),
        },
        {"params": {"clusters": 2}},
        {"params": {"n_clusters": 4}},
        {"columns": 3},
        {"names": ["a"]},
        {"ranges": [[0, 1]]},
        {"vector": np.full(8, np.nan)},
        {"vector": np.array([Hostile()] * 8, dtype=object)},
        {"algorithm": "LinearSVC", "params": {}, "classes": [0, 1, 2], "vector": np.arange(7.0)},
        {"algorithm": "PCA", "params": {"n_components": 2}, "mean": np.zeros(3)},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_and_hostile_files_are_one_sentence(changes, tmp_path):
    written(tmp_path / "good.npz")
    assert model_of_file(tmp_path / "good.npz", False).predict(np.zeros((1, 4))).tolist() == [0]
    written(tmp_path / "m.npz", **changes)
    with pytest.raises(ValueError, match=r"m\.npz is no whole release of privatize") as told:
        model_of_file(tmp_path / "m.npz", False)
    assert "\n" not in str(told.value)


def test_what_is_no_archive_is_refused(tmp_path):
    written(tmp_path / "good.npz")
    whole = (tmp_path / "good.npz").read_bytes()
    pickled, bare = io.BytesIO(), io.BytesIO()
    pickle.dump(Hostile(), pickled)
    np.save(bare, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("head.npy", pickled.getvalue())
        archive.writestr("vector.npy", pickled.getvalue())
    for content in (whole[:-30], whole[: len(whole) // 2], b"no archive", pickled.getvalue(), bare.getvalue(), None):
        if content is not None:
            (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"bad.npz"):
            model_of_file(tmp_path / "bad.npz", True)


def test_what_is_no_model_is_not_written(tmp_path):
    release = PACPrivatizer("mean", MI(1.0), worlds=8).fit(X).release()
    with pytest.raises(ValueError, match="this release is a vector, which predicts nothing"):
        release.save_model(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=r"unknown ending; released models are written as \.skops or \.npz"):
        release.save_model(tmp_path / "m.pkl")
    with pytest.raises(ValueError, match="names must be those of the 4 columns, got 1 names"):
        released("svm").save_model(tmp_path / "m.skops", names=["a"])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame(X, schema=NAMES).with_columns(species=pl.Series(WORDS.tolist()))
    table.write_csv("iris.csv")
    table.select([*reversed(NAMES)]).write_csv("turned.csv")
    table.drop("petal_width").write_csv("short.csv")
    table.with_columns(petal_width=pl.Series(["Jane"] * 150)).write_csv("words.csv")
    ranges = "".join(f"[features.{name}]\nlower = 0\nupper = 10\n" for name in NAMES)
    (tmp_path / "ranges.toml").write_text(ranges)
    kinds = "[features.kind]\ncategories = ['x', 'y']\n"
    (tmp_path / "kinds.toml").write_text(ranges + kinds)
    table.with_columns(kind=pl.Series(["x", "y"] * 75)).write_csv("kinds.csv")
    return tmp_path


SVM = ("privatize", "linear_svm", "iris.csv", "--target", "species", "--mi", "4", "--worlds", "32")


@pytest.mark.parametrize("model", ["model.skops", "model.npz"])
@pytest.mark.parametrize("scaled", [(), ("--domain", "ranges.toml")], ids=["natural", "scaled"])
@pytest.mark.cases(2)
def test_the_command_writes_a_model_that_predicts_and_is_analysed(cli, place, model, scaled):
    code, out, err = cli(*SVM, *scaled, "--output", model)
    assert (code, err) == (0, "")
    assert f"epsworth predict {model}" in " ".join(out.split())
    for table in ("iris.csv", "turned.csv"):
        code, out, err = cli("predict", model, table, "labels.csv")
        assert (code, err) == (0, "")
        assert out.strip() == "150 rows, a label for each."
        labels = pl.read_csv("labels.csv")["label"].to_numpy()
        assert np.array_equal(labels, Predict(model_of_file(place / model, False))(X))
        assert (labels == WORDS).mean() > 0.6  # at four nats
    code, out, err = cli("utility", model, "iris.csv", "-s", "petal_width", "--domain", "ranges.toml", "-e", "1,8",
                         "-m", "laplace", "--target", "species", "--json", "-")  # fmt: skip
    assert (code, err) == (0, "")
    assert "accuracy" in json.loads(out)


def test_noise_for_the_accuracy_is_asked_for_by_name(cli, place, monkeypatch):
    from epsworth.pac import calibration as task_noise

    monkeypatch.setattr(task_noise, "DRAWS", 50)
    monkeypatch.setattr(task_noise, "COMMON", 20)
    code, out, err = cli(*SVM, "--noise", "task", "--json", "-")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["report"]["noise"] == "task"
    assert "by_budget" not in told["noise"]  # each would take thousands of releases
    words = ("privatize", "pca", "turned.csv", "--mi", "1", "--worlds", "8", "--noise", "task")
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert "what is released here has no score of its own" in err


@pytest.mark.slow
def test_the_least_budget_for_an_accuracy_is_released_with(cli, place):
    words = (*SVM[:5], "--worlds", "32", "--at-least")
    code, out, err = cli(*words, "0.7", "--json", "-")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["least_budget"]["lower"] >= 0.7
    assert told["report"]["budget"] == f"MI {told['least_budget']['mi']:g} nats"
    code, out, err = cli(*words, "1", "--output", "model.npz")
    assert (code, err) == (1, "")
    assert out.startswith("no budget was shown to reach 1; the best is MI")
    assert not (place / "model.npz").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SVM, "--output", "model.pkl"), "unknown ending; released models are written as .skops or .npz"),
        ((*SVM, "--output", "none/model.npz"), "the folder none does not exist"),
        (
            ("privatize", "mean", "turned.csv", "--mi", "1", "--output", "m.npz"),
            "--output writes models, and means predict",
        ),
        (
            ("privatize", "linear_svm", "kinds.csv", *SVM[3:], "--domain", "kinds.toml", "--output", "m.npz"),
            "--domain declares categories of 'kind'",
        ),
        ((*SVM, "--at-least", "0.9"), "--at-least finds a budget; drop the other one"),
        ((*SVM[:5], "--at-least", "2"), "--at-least must lie in (0, 1], got 2"),
        (("privatize", "kmeans", "turned.csv", "--at-least", "0.9"), "--at-least is about labels that are predicted"),
        (("predict", "good.npz", "iris.csv", "o.csv"), "the table has 5 columns, but the classifier was fitted on 4"),
        (("predict", "named.npz", "short.csv", "o.csv"), "the table lacks the column 'petal_width' on which"),
        (("predict", "named.npz", "words.csv", "o.csv"), "data row 0, line 2 of words.csv, petal_width: the value is"),
        (("predict", "named.npz", "iris.csv", "o.pkl"), "o.pkl has an unknown ending"),
        (("predict", "named.npz", "iris.csv", "iris.csv"), "iris.csv"),
        (("predict", "pca.npz", "iris.csv", "o.csv"), "the model pca.npz is a PCA, which predicts nothing"),
        (("predict", "none.npz", "iris.csv", "o.csv"), "none.npz"),
        (("predict", "iris.csv", "iris.csv", "o.csv"), "iris.csv"),
    ],
)
def test_bad_input_ends_in_one_sentence_and_writes_nothing(cli, place, words, message):
    written(place / "good.npz")
    written(place / "named.npz", names=NAMES)
    written(place / "pca.npz", algorithm="PCA", params={"n_components": 2}, mean=np.zeros(4))
    before = sorted(place.iterdir())
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "Jane" not in err
    assert sorted(place.iterdir()) == before
