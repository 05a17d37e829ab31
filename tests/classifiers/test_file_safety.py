"""skops files: ordinary pipelines load as they are, whatever chooses what is called stays refused."""

from __future__ import annotations

import functools
import json
import operator
import os
import warnings
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array
from skops import io

from epsworth.classifiers import load_model
from epsworth.classifiers.model_files import doubtful

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"age": rng.normal(40, 10, 80), "pay": rng.normal(0, 1, 80), "town": rng.choice(["a", "b", "c"], 80).astype(object)}
)
FRAME.loc[:5, "age"] = np.nan
TRUTH = np.where(FRAME["pay"] > 0, "yes", "no")


def piped(model, *steps):
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), *steps)
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = [("numbers", numbers, make_column_selector(dtype_include=np.number)), ("words", words, ["town"])]
    return make_pipeline(ColumnTransformer(columns, sparse_threshold=0), model)


PIPELINES = {
    "logistic": lambda: piped(LogisticRegression()),
    "forest": lambda: piped(RandomForestClassifier(3)),
    "boosting": lambda: piped(GradientBoostingClassifier(n_estimators=2)),
    "histogram boosting": lambda: piped(HistGradientBoostingClassifier(max_iter=2)),
    "neighbours": lambda: piped(KNeighborsClassifier()),
    "network": lambda: piped(MLPClassifier((3,), max_iter=3)),
    "calibrated": lambda: piped(CalibratedClassifierCV(LogisticRegression(), cv=2)),
    "search": lambda: GridSearchCV(piped(LogisticRegression()), {"logisticregression__C": [0.1, 1]}, cv=2),
    "stacking": lambda: piped(StackingClassifier([("tree", DecisionTreeClassifier())], cv=2)),
    "bagging": lambda: piped(BaggingClassifier(n_estimators=2)),
    "selected": lambda: piped(LogisticRegression(), SelectKBest(k=1)),
}


def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations
        return PIPELINES[name]().fit(FRAME, TRUTH)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.cases(1)
def test_ordinary_pipelines_load_without_trust(tmp_path, name):
    model = fitted(name)
    io.dump(model, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").predict(FRAME) == model.predict(FRAME)).all()


def test_categories_load_without_trust(tmp_path):
    frame = FRAME.assign(town=FRAME["town"].astype("category"))
    model = HistGradientBoostingClassifier(max_iter=2).fit(frame, TRUTH)  # with a partial of check_array
    io.dump(model, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").predict(frame) == model.predict(frame)).all()


def test_the_bytes_of_boosters_need_trust(tmp_path):
    """Their libraries walk the trees in these bytes unchecked."""
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    rows = FRAME[["age", "pay"]]
    for model, name in [
        (lightgbm.LGBMClassifier(n_estimators=2, verbose=-1), "lightgbm.basic.Booster"),
        (xgboost.XGBClassifier(n_estimators=2), "xgboost.core.Booster"),
    ]:
        io.dump(model.fit(rows, TRUTH == "yes"), tmp_path / "m.skops")
        with pytest.raises(ValueError, match=f"pass --trust {name} if"):
            load_model(tmp_path / "m.skops")
        assert (load_model(tmp_path / "m.skops", trust=(name,)).predict(rows) == model.predict(rows)).all()


def calls_system(x):
    return os.system("true")


HOSTILE = {
    "a function": lambda: calls_system,
    "a partial": lambda: functools.partial(calls_system, "true"),
    "an attribute": lambda: operator.attrgetter("__class__"),
    "a method": lambda: operator.methodcaller("fit"),
    "a bound method": lambda: LogisticRegression().fit,
    "a class": lambda: zipfile.ZipFile,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_chooses_what_is_called_stays_refused(tmp_path, name):
    io.dump(make_pipeline(FunctionTransformer(HOSTILE[name]()), LogisticRegression()), tmp_path / "m.skops")
    with pytest.raises(ValueError, match="contains types that skops does not know"):
        load_model(tmp_path / "m.skops")


def rewritten(model, change):
    """Return a skops file whose description was changed by hand."""
    old, new = zipfile.ZipFile(BytesIO(io.dumps(model))), BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                schema = json.loads(data)
                change(schema)
                data = json.dumps(schema).encode()
            archive.writestr(name, data)
    return new.getvalue()


def nodes(part, word):
    """Yield the nodes of a description whose class is a word."""
    if isinstance(part, dict):
        if part.get("__class__") == word:
            yield part
        for value in part.values():
            yield from nodes(value, word)
    elif isinstance(part, list):
        for value in part:
            yield from nodes(value, word)


def test_every_way_in_which_a_type_is_loaded_counts():
    """A node that is loaded as it is listed hides none that is not, wherever it stands."""
    good = {"__module__": "numpy", "__class__": "dtype", "__loader__": "DTypeNode"}
    bad = good | {"__loader__": "ConstructorFromReduceNode"}
    assert doubtful([good, {"inside": good}], ["numpy.dtype"]) == []
    for schema in ([good, bad], [bad, good], {"content": bad, **good}, [good, {"inside": [bad]}, good]):
        assert doubtful(schema, ["numpy.dtype"]) == ["numpy.dtype"]


@pytest.mark.parametrize("loader", ["ConstructorFromReduceNode", "ListNode", "DictNode", "FunctionNode"])
def test_listed_types_are_not_called(tmp_path, loader):
    """A type that may be made of a state may not be called with what the file holds."""
    model = CalibratedClassifierCV(LogisticRegression(), cv=2).fit(FRAME[["pay"]], TRUTH)

    def change(schema):
        for node in nodes(schema, "_SigmoidCalibration"):
            node["__loader__"] = loader

    (tmp_path / "m.skops").write_bytes(rewritten(model, change))
    with pytest.raises(ValueError, match=r"_SigmoidCalibration|not a skops file"):
        load_model(tmp_path / "m.skops")


def hostile_tree(name, **changed):
    """Return a forest one of whose trees has some numbers of its own."""
    model = RandomForestClassifier(2, random_state=0).fit(FRAME[["pay"]], TRUTH)
    tree = model.estimators_[1].tree_
    state = tree.__getstate__()
    for field, value in changed.items():
        if field == "node_count":
            state["node_count"] = value
        else:
            state["nodes"][field][0] = value
    tree.__setstate__(state)
    return model


@pytest.mark.parametrize(
    "changed", [{"left_child": 10**9}, {"right_child": 0}, {"left_child": -7}, {"feature": 5}, {"feature": -9}]
)
def test_trees_that_lead_out_of_themselves_are_refused(tmp_path, changed):
    """Compiled code follows children and features unchecked."""
    io.dump(hostile_tree("forest", **changed), tmp_path / "m.skops")
    with pytest.raises(ValueError, match="holds an invalid tree"):
        load_model(tmp_path / "m.skops")


def test_features_are_counted_where_records_are_checked(tmp_path):
    """A forest lets as many columns through as it says; its trees may not ask for more, whatever they say."""
    model = RandomForestClassifier(2, random_state=0).fit(FRAME[["pay", "pay"]].to_numpy(), TRUTH)
    model.n_features_in_ = 1
    io.dump(model, tmp_path / "m.skops")
    with pytest.raises(ValueError, match="asks for a feature that there is not"):
        load_model(tmp_path / "m.skops")


def test_trees_of_histograms_and_neighbours_are_checked(tmp_path):
    boosted = HistGradientBoostingClassifier(max_iter=2).fit(FRAME[["pay"]], TRUTH)
    boosted._predictors[1][0].nodes["feature_idx"][0] = 3
    near = KNeighborsClassifier(algorithm="kd_tree").fit(FRAME[["pay"]], TRUTH)
    state = list(near._tree.__getstate__())
    state[1] = state[1] + 10**6  # which record each place holds
    near._tree.__setstate__(tuple(state))
    for model in (boosted, near):
        io.dump(model, tmp_path / "m.skops")
        with pytest.raises(ValueError, match="holds an invalid tree"):
            load_model(tmp_path / "m.skops")


def test_further_types_are_named_one_by_one(tmp_path):
    model = KNeighborsClassifier(p=3, algorithm="kd_tree").fit(FRAME[["pay"]], TRUTH)
    io.dump(model, tmp_path / "m.skops")
    metric = "sklearn.metrics._dist_metrics.MinkowskiDistance64"
    with pytest.raises(ValueError, match=f"pass --trust {metric} if"):
        load_model(tmp_path / "m.skops")
    for trust in (metric, (metric,), ["another.Type", metric]):
        assert (
            load_model(tmp_path / "m.skops", trust=trust).predict(FRAME[["pay"]]) == model.predict(FRAME[["pay"]])
        ).all()
    with pytest.raises(ValueError, match="contains types"):
        load_model(tmp_path / "m.skops", trust=("another.Type",))
    with pytest.raises(ValueError, match="which is no type"):
        load_model(tmp_path / "m.skops", trust=("os.system()",))
    with pytest.warns(UserWarning, match="name the types to trust instead"):
        load_model(tmp_path / "m.skops", trust=True)


def test_types_do_not_unlock_pickles(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ValueError, match="is a pickle, and loading it runs code"):
        load_model(tmp_path / "m.pkl", trust=("os.system",))


def refused(tmp_path, model, reason):
    io.dump(model, tmp_path / "m.skops")
    with pytest.raises(ValueError, match=reason):
        load_model(tmp_path / "m.skops")


def test_no_attribute_takes_the_place_of_a_method(tmp_path):
    model = DecisionTreeClassifier(max_depth=1).fit(FRAME[["pay"]], TRUTH)
    model._validate_X_predict = check_array  # counts no columns
    refused(tmp_path, make_pipeline(StandardScaler(), model), "'_validate_X_predict' in the place of a method")


def test_a_file_starts_no_processes(tmp_path):
    forest = RandomForestClassifier(2, n_jobs=15).fit(FRAME[["pay"]], TRUTH)
    io.dump(make_pipeline(StandardScaler(), forest), tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert loaded[-1].n_jobs is None
    assert all(vars(tree).get("n_jobs") is None for tree in loaded[-1].estimators_)
