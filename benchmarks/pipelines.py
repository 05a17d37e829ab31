"""19 ordinary classifiers behind the usual preparation of Adult, against the same models on the matrix it hands on.

A pipeline is reached where the answer is certain, no wider than `GAP`, and takes at most `BAR` times what the bare
model takes.
XGBoost and LightGBM are asked in addition where they are installed.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import epsworth as ew
from benchmarks.timing import Clock, Row, shown

BAR, GAP, WANTED = 3.0, 0.002, 16
RANGES = {"age": (17, 90), "hours-per-week": (1, 99)}
ASKED = {"mechanisms": ["pm", "laplace_clipped"], "epsilons": [0.5, 1, 2, 4, 8]}


def classifiers() -> dict[str, Any]:
    """Return the 19, fresh, by name."""
    from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree

    logistic = linear_model.LogisticRegression(max_iter=1000)
    forest = ensemble.RandomForestClassifier(100, random_state=0)
    found = [
        logistic,
        linear_model.LogisticRegressionCV(Cs=3, cv=3, max_iter=1000),
        linear_model.SGDClassifier(random_state=0),
        linear_model.RidgeClassifier(),
        linear_model.Perceptron(random_state=0),
        svm.LinearSVC(),
        svm.SVC(),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        naive_bayes.GaussianNB(),
        neighbors.KNeighborsClassifier(),
        neural_network.MLPClassifier((16,), max_iter=100, random_state=0),
        tree.DecisionTreeClassifier(max_depth=8, random_state=0),
        forest,
        ensemble.ExtraTreesClassifier(100, max_depth=12, random_state=0),
        ensemble.GradientBoostingClassifier(random_state=0),
        ensemble.HistGradientBoostingClassifier(random_state=0),
        ensemble.AdaBoostClassifier(random_state=0),
        ensemble.BaggingClassifier(random_state=0),
        ensemble.VotingClassifier(
            [("logistic", logistic), ("forest", ensemble.RandomForestClassifier(20, random_state=0))], voting="soft"
        ),
    ]
    return {type(model).__name__: model for model in found}


def boosters() -> dict[str, Any]:
    """Return the boosters of other libraries that are installed."""
    found = {}
    if importlib.util.find_spec("xgboost"):
        from xgboost import XGBClassifier

        found["XGBClassifier"] = XGBClassifier(n_jobs=1)
    if importlib.util.find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        found["LGBMClassifier"] = LGBMClassifier(n_jobs=1, verbose=-1)
    return found


def adult(folder: str | Path, size: int) -> tuple[Any, Any]:
    """Return some of Adult's rows, texts and gaps included, and their labels."""
    import pandas as pd

    table = pd.read_csv(Path(folder) / "adult_train.csv.gz", na_values="?")
    table = table.sample(size, random_state=0).reset_index(drop=True)
    return table.drop(columns="income"), (table["income"] == ">50K").to_numpy().astype(int)


def prepared(table: Any, labels: Any) -> Any:
    """Return the usual preparation, fitted: impute and scale numbers, impute and encode texts."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    )
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("words", words, make_column_selector(dtype_exclude="number")),
        ]
    ).fit(table, labels)


def rows(clock: Clock) -> Iterator[Row]:
    """Yield every pipeline's time over its bare model's, and at last how many of the 19 are not reached."""
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        return
    table, labels = adult(folder, clock.size(5_000, 500))
    preparation = prepared(table, labels)
    matrix, few = preparation.transform(table), clock.size(50, 3)
    scaler = preparation.named_transformers_["numbers"][1]
    numbers = list(table.columns[preparation._transformer_to_input_indices["numbers"]])
    at = [numbers.index(name) for name in RANGES]
    ranges = {
        place: tuple((np.array(ends, dtype=float) - scaler.mean_[place]) / scaler.scale_[place])
        for place, ends in zip(at, RANGES.values(), strict=True)
    }
    whole = {"X": table[:few], "sensitive": list(RANGES), "domain": RANGES}
    bare = {"X": matrix[:few], "sensitive": at, "domain": ranges}
    reached, ours = 0, classifiers()
    for name, model in {**ours, **boosters()}.items():
        row, good = _row(clock, name, model, preparation, (matrix, labels), whole, bare)
        reached += good and name in ours
        yield row
    yield Row("pipelines not reached", f"{len(ours)} pipelines", float(len(ours) - reached), float(len(ours) - WANTED))


def _row(
    clock: Clock, name: str, model: Any, preparation: Any, given: Any, whole: dict[str, Any], bare: dict[str, Any]
) -> tuple[Row, bool]:
    """Return what one pipeline takes, and whether it is reached."""
    from sklearn.pipeline import Pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*given)
    pipeline = Pipeline([("prepare", preparation), ("model", model)])
    two = {**whole, "X": whole["X"][:2]}
    tried = ew.stability(pipeline, **two, **ASKED, tolerance=0.2, rng=0)
    if tried.confidence < 1:
        note = next((note for note in tried.notes if note.startswith("sampled")), tried.notes[-1])
        return Row(f"{name}: {tried.method[0, 0]}", "bare", float("nan"), None, note), False
    found: list[Any] = []
    race = clock.race(
        lambda: found.append(ew.stability(pipeline, **whole, **ASKED, tolerance=GAP / 2)),
        lambda: ew.stability(model, **bare, **ASKED, tolerance=GAP / 2, rng=0),
        runs=3,
    )
    gap = float((found[-1].upper - found[-1].lower).max())
    good = race.ratio <= BAR and gap <= GAP and found[-1].confidence == 1
    note = f"{shown(race.ours)} / {shown(race.theirs)}, confidence {found[-1].confidence:g}, widest gap {gap:.1e}"
    return Row(f"{name}: {found[-1].method[0, 0]}", "bare", race.ratio, BAR, note), good
