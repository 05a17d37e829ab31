"""Boosters' own files are data: loaded without trust where their objective says what a label is, else refused."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import epsworth as ew
from epsworth.classifiers import load_model
from readings import tree_model

IRIS, SPECIES = load_iris(return_X_y=True)
TRUTHS = {"two": (SPECIES > 0).astype(int), "three": SPECIES}


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("ending", [".ubj", ".json"])
def test_files_of_xgboost_answer_labels(tmp_path, truth, ending):
    xgboost = pytest.importorskip("xgboost")
    objective = "binary:logistic" if truth == "two" else "multi:softprob"
    settings = {"objective": objective, "max_depth": 2} | ({"num_class": 3} if truth == "three" else {})
    booster = xgboost.train(settings, xgboost.DMatrix(IRIS, TRUTHS[truth]), 4)
    booster.save_model(tmp_path / f"m{ending}")
    model, scores = load_model(tmp_path / f"m{ending}"), booster.predict(xgboost.DMatrix(IRIS))
    want = scores > 0.5 if truth == "two" else scores.argmax(axis=1)
    assert (ew.as_classifier(model).labels(IRIS) == want).all()
    assert tree_model(model) is not None


@pytest.mark.parametrize("truth", TRUTHS)
def test_files_of_lightgbm_answer_labels(tmp_path, truth):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"verbose": -1} | ({"objective": "multiclass", "num_class": 3} if truth == "three" else {})
    settings = {"objective": "binary"} | settings
    booster = lightgbm.train(settings, lightgbm.Dataset(IRIS, TRUTHS[truth]), 4)
    booster.save_model(tmp_path / "m.txt")
    model, scores = load_model(tmp_path / "m.txt"), booster.predict(IRIS)
    want = scores > 0.5 if truth == "two" else scores.argmax(axis=1)
    classifier = ew.as_classifier(model)
    assert (classifier.labels(IRIS) == want).all()
    assert classifier.count == 4
    assert tree_model(model) is not None


@pytest.mark.parametrize("truth", TRUTHS)
def test_files_of_catboost_answer_labels(tmp_path, truth):
    catboost = pytest.importorskip("catboost", reason="catboost is not installed; it is the extra 'catboost'")
    names = np.array(["a", "b", "c"])[TRUTHS[truth]]
    model = catboost.CatBoostClassifier(iterations=4, depth=2, verbose=0, allow_writing_files=False).fit(IRIS, names)
    model.save_model(str(tmp_path / "m.cbm"))
    classifier = ew.as_classifier(load_model(tmp_path / "m.cbm"))
    assert (classifier.labels(IRIS) == model.predict(IRIS).ravel()).all()
    assert set(classifier.classes) == set(names)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logitraw", "rank:pairwise", "count:poisson"])
def test_scores_of_xgboost_are_not_taken_for_labels(tmp_path, objective):
    xgboost = pytest.importorskip("xgboost")
    xgboost.train({"objective": objective}, xgboost.DMatrix(IRIS, TRUTHS["two"]), 2).save_model(tmp_path / "m.ubj")
    with pytest.raises(ValueError, match=f"scores of the objective '{objective}'"):
        load_model(tmp_path / "m.ubj")


@pytest.mark.parametrize("objective", ["regression", "cross_entropy", "multiclassova", "poisson"])
def test_scores_of_lightgbm_are_not_taken_for_labels(tmp_path, objective):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"objective": objective, "verbose": -1} | ({"num_class": 3} if "multi" in objective else {})
    lightgbm.train(settings, lightgbm.Dataset(IRIS, TRUTHS["two"]), 2).save_model(tmp_path / "m.txt")
    with pytest.raises(ValueError, match="scores of the objective"):
        load_model(tmp_path / "m.txt")


def test_catboost_takes_texts_in_its_columns_of_categories_and_numbers_alone_in_the_others():
    catboost = pytest.importorskip("catboost", reason="catboost is not installed; it is the extra 'catboost'")
    table = pd.DataFrame({"a": [0.1, 0.4, 0.6, 0.9] * 10, "zip": ["01001", "94110"] * 20})
    model = catboost.CatBoostClassifier(iterations=4, verbose=0, cat_features=["zip"], allow_writing_files=False)
    model.fit(table, [0, 0, 1, 1] * 10)
    asked = {"sensitive": ["a"], "mechanisms": "krr:k=3", "epsilons": [1.0]}
    assert ew.stability(model, table[:4], **asked).labels.tolist() == model.predict(table[:4]).tolist()
    with pytest.raises(ValueError, match="row 1, a: the value is not a number"):
        ew.stability(model, pd.DataFrame({"a": ["0.1", "3_0"], "zip": ["01001", "94110"]}), **asked)


def test_scores_of_catboost_are_not_taken_for_labels(tmp_path):
    catboost = pytest.importorskip("catboost", reason="catboost is not installed; it is the extra 'catboost'")
    model = catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(IRIS, TRUTHS["two"])
    model.save_model(str(tmp_path / "m.cbm"))
    with pytest.raises(ValueError, match="scores of the objective 'RMSE'"):
        load_model(tmp_path / "m.cbm")


@pytest.mark.parametrize(("ending", "package"), [(".ubj", "xgboost"), (".txt", "lightgbm")])
def test_files_that_are_none_are_refused_in_one_sentence(tmp_path, ending, package):
    pytest.importorskip(package)
    (tmp_path / f"m{ending}").write_bytes(b"neither numbers nor trees")
    with pytest.raises(ValueError, match=r"is not an? \w+ file, or not a whole one") as refused:
        load_model(tmp_path / f"m{ending}")
    assert "\n" not in str(refused.value)


MISSING = {
    ".onnx": ("onnx", "onnx"),
    ".ubj": ("xgboost", "boosting"),
    ".txt": ("lightgbm", "boosting"),
    ".cbm": ("catboost", "catboost"),
    ".pt2": ("torch", "torch"),
    ".keras": ("keras", "keras"),
}


@pytest.mark.parametrize("ending", MISSING)
@pytest.mark.filterwarnings("ignore:.*is a program")
def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch, ending):
    package, extra = MISSING[ending]
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / f"m{ending}").write_bytes(b"anything")
    with pytest.raises(ValueError, match=rf"needs the package {package}.*epsworth\[{extra}\]"):
        load_model(tmp_path / f"m{ending}", trust=ending in (".pt2", ".keras"))


@pytest.mark.parametrize("ending", [".pt2", ".pt", ".keras"])
def test_programs_need_trust(tmp_path, ending):
    (tmp_path / f"m{ending}").write_bytes(b"anything")
    with pytest.raises(ValueError, match="is a program, and loading it runs code"):
        load_model(tmp_path / f"m{ending}", trust=("torch.nn.Linear",))


class Scoring:
    """A model that predicts something else than labels."""

    def __init__(self, score):
        self.predict = score


def probability(X):
    return 1 / (1 + np.exp(-(X[:, 0] - 5.8)))


SCORES = {
    "a column of probabilities": lambda X: probability(X)[:, np.newaxis],
    "a row of probabilities": probability,
    "two columns": lambda X: np.column_stack([1 - probability(X), probability(X)]),
    "single precision": lambda X: probability(X).astype(np.float32),
    "logits": lambda X: X[:, 0] - 5.8 + 0.001 * X[:, 1],
    "per cent, not rounded": lambda X: 100 * probability(X),
    "counts": lambda X: (1_000 * X[:, 0] + 10 * X[:, 1]).astype(int),
    "one for each of three classes": lambda X: X[:, :3],
    "a table of records": lambda X: X[:, :, np.newaxis],
    "complex numbers": lambda X: X[:, 0] + 1j,
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_no_score_of_a_function_is_taken_for_a_label(name, wrapped):
    model = Scoring(SCORES[name]) if wrapped else SCORES[name]
    with pytest.raises(ValueError, match=r"one label per record|look like scores|no labels"):
        ew.stability(model, IRIS, sensitive=[0], domain={0: (4, 8)}, mechanisms="pm", epsilons=[1.0], rng=1)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, bool, str, object])
def test_zeros_and_ones_of_any_kind_are_labels(kind):
    classifier = ew.as_classifier(lambda X: (X[:, 0] > 5.8).astype(kind))
    assert len(set(classifier.labels(IRIS).tolist())) == 2


CHANGED = {  # of each split: its child to the left, its child to the right, its feature
    "a circle": (lambda left, right, feature: (0, 0, feature)),
    "a child twice": (lambda left, right, feature: (left, left, feature)),
    "no such node": (lambda left, right, feature: (10**8, right, feature)),
    "no such feature": (lambda left, right, feature: (left, right, 10**8)),
    "a feature before the first": (lambda left, right, feature: (left, right, -1)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_trees_of_xgboost_that_cannot_be_walked_are_refused(tmp_path, name):
    xgboost = pytest.importorskip("xgboost")
    settings = {"objective": "binary:logistic", "max_depth": 2}
    xgboost.train(settings, xgboost.DMatrix(IRIS, TRUTHS["two"]), 2).save_model(tmp_path / "m.json")
    held = json.loads((tmp_path / "m.json").read_text())
    tree = held["learner"]["gradient_booster"]["model"]["trees"][-1]
    parts = [tree[part] for part in ("left_children", "right_children", "split_indices")]
    for node, left in enumerate(list(parts[0])):
        if left != -1:
            for part, value in zip(parts, CHANGED[name](*(part[node] for part in parts)), strict=True):
                part[node] = value
    (tmp_path / "m.json").write_text(json.dumps(held))
    (tmp_path / "m.ubj").write_bytes((tmp_path / "m.json").read_bytes())  # the library looks at what is inside
    for file in ("m.json", "m.ubj"):
        with pytest.raises(ValueError, match=r"holds an invalid tree|is not an XGBoost file"):
            load_model(tmp_path / file)


@pytest.mark.parametrize("name", CHANGED)
def test_trees_of_lightgbm_that_cannot_be_walked_are_refused(tmp_path, name):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"verbose": -1, "objective": "binary"}
    text = lightgbm.train(settings, lightgbm.Dataset(IRIS, TRUTHS["two"]), 2).model_to_string()
    lines = [
        re.search(rf"^{part}=(.*)$", text, re.MULTILINE) for part in ("left_child", "right_child", "split_feature")
    ]
    splits = zip(*(map(int, line[1].split()) for line in lines), strict=True)
    for line, values in zip(lines, zip(*(CHANGED[name](*split) for split in splits), strict=True), strict=True):
        text = text.replace(line[0], line[0].split("=")[0] + "=" + " ".join(map(str, values)), 1)
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(ValueError, match="holds an invalid tree"):
        load_model(tmp_path / "m.txt")


def test_sizes_in_files_of_lightgbm_are_not_relied_on(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.train({"verbose": -1, "objective": "binary"}, lightgbm.Dataset(IRIS, TRUTHS["two"]), 2)
    (tmp_path / "m.txt").write_text(re.sub("tree_sizes=.*", "tree_sizes=9 99999999", booster.model_to_string()))
    assert (load_model(tmp_path / "m.txt").predict(IRIS) == (booster.predict(IRIS) > 0.5)).all()


def test_categories_in_files_of_boosters_are_read(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    towns = np.column_stack([np.arange(200) % 7, np.linspace(0, 1, 200)])
    data = lightgbm.Dataset(towns, np.isin(towns[:, 0], [1, 4, 6]).astype(int), categorical_feature=[0])
    booster = lightgbm.train({"verbose": -1, "objective": "binary", "min_data_per_group": 1}, data, 3)
    text = booster.model_to_string()
    (tmp_path / "m.txt").write_text(text)
    assert (load_model(tmp_path / "m.txt").predict(towns) == (booster.predict(towns) > 0.5)).all()
    (tmp_path / "m.txt").write_text(re.sub("^cat_boundaries=.*$", "cat_boundaries=0 99999", text, flags=re.MULTILINE))
    with pytest.raises(ValueError, match="categor"):
        load_model(tmp_path / "m.txt")
