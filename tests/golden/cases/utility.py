"""Curves, recommendations, radii, boxes and splits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
from golden_results import ALGEBRA, changed, chosen, golden, scaled
from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from parted import in_parts

X, Y = load_iris(return_X_y=True)
FEW = X[[0, 60, 70, 133]]
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
UNIT = np.random.default_rng(5).random((4, 3)).round(3)  # records of black boxes


def curve(model, records, features, **given):
    """Ask for the curves of features 0, 1, 2, ... ; return what is compared of them."""
    asked = {"mechanisms": ["pm", "laplace_clipped"], "epsilons": [1, 4], "rng": 0} | given
    asked = {"sensitive": features, "domain": {name: RANGES[name] for name in features}} | asked
    return told(ew.stability(model, records, per="feature", **asked))


def told(curves):
    found = {
        "method": curves.method,
        "lower": curves.lower,
        "upper": curves.upper,
        "average": curves.average(),
        "worst": curves.worst(),
        "confidence": curves.confidence,
        "spent": curves.spent,
        "queries": curves.queries,
        "labels_possible": curves.labels_possible,
    }
    if curves.accuracy is not None:
        found["accuracy"] = curves.average("accuracy")
    return found


def law_of_less(law):
    """Return a mechanism's law at nine tenths of its epsilon."""
    return lambda self, x: law(replace(self, epsilon=0.9 * self.epsilon), x)


def shorter(found):
    """Return what an engine found about a radius with less of a lower bound."""
    return found and replace(found, lower=0.9 * found.lower)


def kernel_of_less(kernel):
    """Return a maker of kernels that gives those of nine tenths of the epsilon."""
    return lambda name, epsilon, *args, **options: kernel(name, Fraction(str(epsilon)) * 9 / 10, *args, **options)


def half_the_miss(interval):
    """Return Clopper and Pearson's interval at half the probability of a miss."""
    return lambda hits, draws, miss: interval(hits, draws, np.asarray(miss) / 2)


def linear(coefficients, intercepts, *, labels=(0, 1)):
    """Return a logistic regression with these coefficients, whatever the solver would find."""
    coefficients = np.atleast_2d(coefficients)
    model = LogisticRegression(max_iter=1)
    model.coef_, model.intercept_ = coefficients.astype(float), np.atleast_1d(intercepts).astype(float)
    model.classes_, model.n_features_in_, model.n_iter_ = np.array(labels), coefficients.shape[1], np.array([1])
    return model


def network():
    """Return a ReLU network with weights of a generator, whatever the solver would find."""
    rng = np.random.default_rng(1)
    model = MLPClassifier((6, 5), max_iter=1, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, Y)
    model.coefs_ = [rng.normal(size=w.shape).round(2) for w in model.coefs_]
    model.intercepts_ = [rng.normal(size=b.shape).round(2) for b in model.intercepts_]
    model.intercepts_[0] -= model.coefs_[0].T @ X.mean(axis=0).round(1)
    return model


def rings(records):
    """Label records by how far they are from the middle."""
    records = np.asarray(records)
    return (np.abs(records[:, :2] - 0.5).sum(axis=1) > 0.35).astype(int)


@golden("curves of a decision tree", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    return curve(model, FEW, [0, 2], mechanisms=["pm", "sw", "krr:k=9"], y=Y[[0, 60, 70, 133]])


@golden("curves of a random forest", subject="epsworth.mechanisms.laplace.LaplaceClipped._law", mutate=law_of_less)
def _():
    return curve(RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, Y), FEW, [2, 3])


@golden("curves of extra trees", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    return curve(ExtraTreesClassifier(6, random_state=0).fit(X, Y), FEW, [0, 2])


@golden("curves of gradient boosting", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    return curve(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, Y), FEW, [2, 3])


@golden("curves of histogram boosting", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    with threadpool_limits(1):  # threads would wait for one another
        return curve(HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, Y), FEW, [2, 3])


@golden("curves of LightGBM", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    model = LGBMClassifier(n_estimators=5, random_state=0, n_jobs=1, verbose=-1).fit(X, Y)
    return curve(model, FEW, [2, 3])


@golden(
    "curves of a forest with three features",
    subject="epsworth.mechanisms.SW._law",
    mutate=law_of_less,
    tolerance=ALGEBRA,
)
def _():
    model = RandomForestClassifier(6, max_depth=4, random_state=0).fit(X, Y)
    return curve(model, FEW, [0, 2, 3], mechanisms=["sw"], tolerance=0.01)


@golden(
    "curves of a logistic regression with two features",
    subject="epsworth.mechanisms.laplace.LaplaceClipped._law",
    mutate=law_of_less,
    tolerance=ALGEBRA,
)
def _():
    mechanisms = ["pm", "laplace_clipped", "duchi", "gaussian_clipped:delta=0.01"]
    return curve(linear([[0, 0, 1.5, 0.7]], [-6.5]), FEW, [2, 3], mechanisms=mechanisms)


@golden(
    "curves of a logistic regression with three features",
    subject="epsworth.mechanisms.SW._law",
    mutate=law_of_less,
    tolerance=ALGEBRA,
)
def _():
    return curve(linear([[0.3, 0, 1.5, 0.7]], [-8]), FEW, [0, 2, 3], mechanisms=["sw", "staircase"])


@golden(
    "curves of a logistic regression with three classes",
    subject="epsworth.mechanisms.PM._law",
    mutate=law_of_less,
    tolerance=ALGEBRA,
)
def _():
    model = linear([[0, 0, -1, -1], [0.1, 0, 0.2, -0.1], [0, 0, 0.9, 1.2]], [5, 1, -6], labels=(0, 1, 2))
    return curve(model, FEW, [2, 3])


@golden(
    "curves of a linear discriminant",
    subject="epsworth.mechanisms.PM._law",
    mutate=law_of_less,
    tolerance=1e-7,  # fitted here: coefficients to 1e-9 or so
)
def _():
    return curve(LinearDiscriminantAnalysis().fit(X[:100], Y[:100]), FEW[:3], [0, 2], mechanisms=["pm"])


@golden(
    "curves of a quadratic discriminant",
    subject="epsworth.mechanisms.SW._law",
    mutate=law_of_less,
    tolerance=1e-7,  # fitted here, as above
)
def _():
    return curve(QuadraticDiscriminantAnalysis().fit(X, Y), FEW, [2, 3], mechanisms=["sw"])


@golden(
    "curves of naive Bayes",
    subject="epsworth.mechanisms.laplace.LaplaceClipped._law",
    mutate=law_of_less,
    tolerance=1e-7,  # fitted here, as above
)
def _():
    return curve(GaussianNB().fit(X, Y), FEW, [0, 2])


@golden("curves of a ReLU network", subject="epsworth.mechanisms.PM._law", mutate=law_of_less, tolerance=ALGEBRA)
def _():
    return curve(network(), FEW, [0, 2], mechanisms=["pm"])


@golden(
    "curves of a pipeline with scaled and one-hot columns",
    subject="epsworth.mechanisms.PM._law",
    mutate=law_of_less,
)
def _():
    colours = np.array(["red", "green", "blue"])[np.arange(150) % 3]
    table = pd.DataFrame({"a": X[:, 2], "b": X[:, 3], "colour": colours})
    prepared = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(), ["colour"])])
    model = make_pipeline(prepared, RandomForestClassifier(5, max_depth=4, random_state=0)).fit(table, Y)
    asked = {"sensitive": ["a", "b"], "domain": {"a": (1, 7), "b": (0, 3)}}
    return told(
        ew.stability(model, table.iloc[[0, 61, 70, 133]], mechanisms=["pm"], per="feature", epsilons=[1, 4], **asked)
    )


@golden("curves of categories", subject="epsworth.mechanisms.KRR._law", mutate=law_of_less)
def _():
    table = pd.DataFrame({"a": X[:, 2], "colour": np.array(["red", "green", "blue"])[Y]})
    prepared = [("n", "passthrough", ["a"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["colour"])]
    model = make_pipeline(ColumnTransformer(prepared), DecisionTreeClassifier(random_state=0, max_depth=3))
    asked = {"sensitive": ["colour"], "domain": {"colour": ["red", "green", "blue", "white"]}}
    model.fit(table, Y)
    return told(
        ew.stability(model, table.iloc[[0, 61, 70, 133]], mechanisms=["krr"], per="feature", epsilons=[1, 4], **asked)
    )


@golden("curves of nearest neighbours on grids", subject="epsworth.mechanisms.KRR._law", mutate=law_of_less)
def _():
    model = KNeighborsClassifier(3).fit(X, Y)
    mechanisms = ["krr:k=7", "exponential:k=7", "exponential_tight:k=7", "pm:quantise=7"]
    return curve(model, FEW, [2, 3], mechanisms=mechanisms)


@golden("curves of a kernel machine on a grid", subject="epsworth.mechanisms.SW._law", mutate=law_of_less)
def _():
    return curve(SVC(gamma=0.5).fit(X, Y), FEW, [0, 2], mechanisms=["sw"], quantise=9)


@golden(
    "curves of every family",
    subject="epsworth.mechanisms.boosted_laplace.BoostedLaplace._law",
    mutate=law_of_less,
    tolerance=ALGEBRA,
)
def _():
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    found = {}
    for name in sorted(ew.MECHANISMS):
        words = f"{name}:delta=0.01" if name.startswith("gaussian") else name
        words = f"{name}:k=9" if name in ("krr", "exponential", "exponential_tight", "pb_grr") else words
        curves = ew.stability(model, FEW[1:3], sensitive=[2], domain={2: (1, 7)}, mechanisms=[words], epsilons=[0.5, 2])
        guarantee = curves.guarantees[0][1]
        found[name] = {
            "method": curves.method[0, 0],
            "lower": curves.lower[0],
            "upper": curves.upper[0],
            "guarantee": [type(guarantee).__name__, guarantee.epsilon, getattr(guarantee, "delta", 0)],
            "tight_epsilons": curves.tight_epsilons[0],
        }
    return found


@golden("curves under a policy", subject="epsworth.mechanisms.kernel", mutate=kernel_of_less)
def _():
    policy = ew.Policy.of("pm", "1.5", ew.Domain.of({"x2": (1, 7), "x3": (0, 3)}), per="feature", bits=8)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    return told(ew.stability_of_policy(policy, model, FEW, rng=0))


@golden("curves under a policy that samples features", subject="epsworth.mechanisms.kernel", mutate=kernel_of_less)
def _():
    policy = ew.Policy.of("sw", "0.8", ew.Domain.of({"x2": (1, 7), "x3": (0, 3)}), per="feature", bits=6, sample=1)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)  # takes records with gaps
    return told(ew.stability_of_policy(policy, model, FEW, rng=0))


@golden(
    "sampled curves of a black box", subject="epsworth.bounds.clopper_pearson", mutate=half_the_miss, tolerance=ALGEBRA
)
def _():
    return told(
        ew.stability(
            rings,
            UNIT,
            sensitive=[0, 1],
            mechanisms=["pm", "gaussian:delta=0.01"],
            per="feature",
            epsilons=[1, 4],
            rng=7,
            tolerance=0.05,
            method="sampled",
            y=[0, 1, 0, 1],
        )
    )


@golden(
    "curves by strata of a black box",
    subject="epsworth.bounds.clopper_pearson",
    mutate=half_the_miss,
    tolerance=ALGEBRA,
)
def _():
    return told(
        ew.stability(
            rings,
            UNIT,
            sensitive=[0, 1, 2],
            mechanisms=["krr:k=129"],
            per="feature",
            epsilons=[1, 2, 4, 6],
            rng=7,
            tolerance=0.05,
        )
    )


@golden(
    "curves by rays of a linear model",
    subject="epsworth.utility.engines.rays.crossed",
    mutate=scaled(0.9),
    tolerance=ALGEBRA,
)
def _():
    model = linear([[1, 0.5, -1, 0], [-0.5, 1, 0.2, 0], [0, -0.4, 0.8, 0]], [2, -1, 0], labels=(0, 1, 2))
    return curve(
        model, FEW, [0, 1, 2], mechanisms=["laplace", "gaussian:delta=0.01"], epsilons=[1, 4, 8], tolerance=0.05
    )


@golden(
    "averages and worst cases of a data set",
    subject="epsworth.bounds.clopper_pearson",
    mutate=half_the_miss,
    tolerance=ALGEBRA,
)
def _():
    records = np.random.default_rng(2).random((40, 2))
    curves = ew.stability(
        rings,
        records,
        sensitive=[0, 1],
        mechanisms=["sw"],
        per="feature",
        epsilons=[1, 4],
        rng=3,
        tolerance=0.05,
        over="dataset",
    )
    return {
        "over": curves.over,
        "average": curves.average(),
        "worst": curves.worst(),
        "queries": curves.queries,
        "spent": curves.spent,
    }


@golden("curves in parts", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _(folder):
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    asked = {
        "sensitive": [2, 3],
        "domain": {2: (1, 7), 3: (0, 3)},
        "mechanisms": ["pm"],
        "per": "feature",
        "epsilons": [1, 4],
    }
    found = in_parts(model, X[::5], y=Y[::5], folder=folder / "parts", **asked)
    again = ew.CurveParts.load(folder / "parts")
    people = again.population()
    return {
        "average": again.average(),
        "worst": again.worst(),
        "accuracy": again.average("accuracy"),
        "population": [people.lower, people.upper],
        "whole": found.whole().lower[0, 0, :6],
        "records": again.records,
    }


@golden(
    "bounds on a population",
    subject="epsworth.utility.population.mean_above",
    mutate=lambda f: lambda *a, **k: 0.9 * f(*a, **k),
    tolerance=ALGEBRA,
)
def _():
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[::2], Y[::2])
    curves = ew.stability(
        model,
        X[1::2],
        sensitive=[2, 3],
        domain={2: (1, 7), 3: (0, 3)},
        mechanisms=["pm", "sw"],
        per="feature",
        epsilons=[2, 6],
        y=Y[1::2],
    )
    one, two = curves.population(), curves.population("accuracy", confidence=0.95, at=[1])
    return {
        "stability": chosen(one, "lower", "upper", "confidence", "records", "spent"),
        "accuracy": chosen(two, "lower", "upper", "confidence", "records", "spent"),
    }


def recommended(found):
    """Return what is compared of a recommendation; its sentences are not."""
    names = ("at_least", "feasible", "undecided", "ceiling", "labels", "epsilon_needed", "confidence")
    choices = [[c.mechanism, c.epsilon, c.lower, c.upper] for c in found.choices]
    return chosen(found, *names) | {"choices": choices}


@golden("recommendations", subject="epsworth.guarantees.ceiling", mutate=changed(lambda value: value - 0.01))
def _():
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    asked = {"sensitive": [2, 3], "domain": {2: (1, 7), 3: (0, 3)}, "mechanisms": ["pm", "sw", "krr:k=9"]}
    curves = ew.stability(model, FEW, per="feature", epsilons=[1, 2, 4, 8], **asked)
    asked = {"sensitive": [0, 1], "mechanisms": ["pm", "sw"], "per": "feature", "epsilons": [2, 4]}
    wide = ew.stability(rings, UNIT, tolerance=0.2, rng=1, **asked)
    return {
        "feasible": recommended(ew.recommend(curves, at_least=0.7, max_epsilon=64)),
        "infeasible": recommended(ew.recommend(curves, at_least=0.999, max_epsilon=64, on="worst")),
        "undecided": recommended(ew.recommend(wide, at_least=0.6)),
    }


def distances(found):
    names = ("lower", "upper", "norm", "method", "confidence", "sound", "spent", "witness", "tested", "failing")
    return chosen(found, *names)


@golden(
    "radii of a linear model and of trees",
    subject="epsworth.utility.radius.quadratic.linear_radius",
    mutate=changed(shorter),
)
def _():
    model = linear([[0, 0.2, 1.5, 0.7]], [-6.5])
    trees = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    return {
        "linear": distances(ew.radius(model, FEW[1])),
        "linear, inf": distances(ew.radius(model, FEW[1], norm="inf", features=[2, 3])),
        "trees": distances(ew.radius(trees, FEW[1])),
        "forest": distances(ew.radius(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y), FEW[2])),
    }


@golden(
    "radius of a network",
    subject="epsworth.utility.radius.network_radius",
    mutate=changed(shorter),
    tolerance=1e-5,  # the solver stops at 1e-6
)
def _():
    return distances(ew.radius(network(), FEW[1], norm="inf", rng=0))


@golden(
    "radius of quadratic scores",
    subject="epsworth.utility.radius.quadratic_radius",
    mutate=changed(shorter),
    tolerance=1e-7,  # fitted here, as above
)
def _():
    return distances(ew.radius(GaussianNB().fit(X, Y), FEW[2], rng=0))


@golden(
    "radius of a black box",
    subject="epsworth.utility.radius.sampled.tested_radius",
    mutate=scaled(0.8),
    tolerance=ALGEBRA,
)
def _():
    return distances(ew.radius(rings, UNIT[0, :2], rng=4))


@golden("radii of a table", subject="epsworth.utility.radius.quadratic.linear_radius", mutate=changed(shorter))
def _():
    found = ew.radii(linear([[0, 0.2, 1.5, 0.7]], [-6.5]), X[48:60])
    return {"lower": found.lower, "upper": found.upper, "nearest": found.nearest(3), "confidence": found.confidence}


def box(found):
    names = ("label", "lower", "upper", "whole", "mechanism", "epsilon", "flips_at_most", "mass", "guaranteed")
    return chosen(found, *names, "confidence", "best", "spent")


@golden("safe boxes", subject="epsworth.mechanisms.PM._law", mutate=law_of_less, tolerance=ALGEBRA)
def _():
    trees = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    asked = {"sensitive": [2, 3], "domain": {2: (1, 7), 3: (0, 3)}, "epsilon": 6}
    unit = {"sensitive": [0, 1], "domain": {0: (0, 1), 1: (0, 1)}, "epsilon": 8}
    return {
        "trees": box(ew.safe_box(trees, FEW[1], **asked)),
        "linear": box(ew.safe_box(linear([[0, 0, 1.5, 0.7]], [-6.5]), FEW[1], mechanism="sw", **asked)),
        "black box": box(ew.safe_box(rings, UNIT[0, :2], rng=1, **unit)),
    }


@golden("budgets that are split", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _():
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    found = ew.split_budget(model, FEW, sensitive=[0, 2], domain={0: (4, 8), 2: (1, 7)}, total=4)
    worst = ew.split_budget(model, FEW, sensitive=[0, 2], domain={0: (4, 8), 2: (1, 7)}, total=4, on="worst")
    names = ("mechanism", "total", "epsilons", "lower", "upper", "even_lower", "even_upper", "confidence", "spent")
    return {"average": chosen(found, *names), "worst": chosen(worst, *names)}


@golden("budgets and what they can promise", subject="epsworth.guarantees.ceiling", mutate=scaled(0.99))
def _():
    domain = ew.Domain.of({"a": (0, 1), "b": (0, 1)})
    promises = [ew.Pure(1), ew.Approximate(0.5, 1e-6), ew.Approximate(2, 1e-7)]
    return {
        "ceiling": [ew.ceiling(e, labels, delta) for e in (0.1, 1, 4) for labels in (2, 5) for delta in (0, 0.01)],
        "epsilon_needed": [ew.epsilon_needed(p, labels, 0.01) for p in (0.6, 0.9, 0.99) for labels in (2, 5)],
        "gaussian_sigma": [
            float(ew.gaussian_sigma(e, 1e-5, calibration)) for e in (0.5, 2) for calibration in ("analytic", "theorem4")
        ],
        "compose": chosen(ew.compose(promises), "epsilon", "delta", "unit"),
        "policy": chosen(ew.Policy.of("pm", "0.5", domain, per="feature").guarantee, "epsilon", "unit"),
    }
