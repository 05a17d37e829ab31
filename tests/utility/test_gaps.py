"""Gaps, infinities and what single precision cannot hold, in public columns: no certain bound is wrong.

Compositions are drawn at random, from scikit-learn and as ONNX, with everything that is promised of a record compared
with draws of the very mechanism.  A wrong alarm has probability 1e-9 per comparison: 1e-5 in 500 compositions.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.classifiers.networks import OVERFLOWS
from epsworth.classifiers.reading import LEAST_CLEAR, answers_as_read
from epsworth.classifiers.thresholds import logistic_at
from epsworth.mechanisms import MECHANISMS
from epsworth.utility.engines.linear import linear_for
from epsworth.utility.engines.propagation import PropagatedBounds, bounds_for
from epsworth.utility.engines.quadratic import quadratic_for
from readings import said

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALARM = 1e-9
DRAWS = 4_000
WORDS = ("pm", "sw", "laplace_clipped", "laplace")
FORCED = ("lattice", "polygons", "slabs", "propagation", "cells", "branch_and_bound", "rays")
STRANGE = (np.nan, np.inf, -np.inf, 1e39, -3e38, 1e200)
RANGE = (-3.0, 3.0)
LAST = 3  # the public column that may be a word's number
ESTIMATORS = {
    "logistic": lambda rng: LogisticRegression(C=float(rng.choice([0.01, 1.0]))),
    "ridge": lambda rng: RidgeClassifier(),
    "svc": lambda rng: LinearSVC(),
    "lda": lambda rng: LinearDiscriminantAnalysis(),
    "qda": lambda rng: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "bayes": lambda rng: GaussianNB(),
    "tree": lambda rng: DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": lambda rng: RandomForestClassifier(6, max_depth=4, random_state=0),
    "gradient": lambda rng: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
    "histogram": lambda rng: HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=6),
    "network": lambda rng: MLPClassifier((4,), rng.choice(["relu", "tanh"]), max_iter=60, random_state=0),
}


def steps(rng):
    """Return random steps before an estimator, an imputer among them."""
    imputer = SimpleImputer(strategy=rng.choice(["mean", "median", "constant"]), add_indicator=rng.random() < 0.2)
    scaler = [StandardScaler(), MinMaxScaler(), RobustScaler(), FunctionTransformer(np.tanh), None][rng.integers(5)]
    kind = rng.integers(4)
    if kind == 0:
        return [FunctionTransformer(np.arctan), imputer] if rng.random() < 0.3 else [imputer]
    if kind == 1:
        return [scaler, imputer] if scaler is not None and rng.random() < 0.5 else [imputer, scaler or MinMaxScaler()]
    if kind == 2:
        return [imputer, PolynomialFeatures(2, include_bias=False, interaction_only=rng.random() < 0.5)]
    word = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    numbers = make_pipeline(imputer, scaler or StandardScaler())
    return [ColumnTransformer([("n", numbers, [0, 1, 2]), ("w", word, [LAST])], sparse_threshold=0)]


def composition(rng, onnx):
    """Return a fitted model, as ONNX or not, and the name of what it is; None where there is no such ONNX."""
    X = rng.normal(size=(250, 4))
    X[:, LAST] = rng.integers(0, 3, 250)
    cuts = [0.0] if rng.random() < 0.5 else [-0.7, 0.7]
    y = np.digitize(X @ rng.normal(size=4) + 0.5 * X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=250), cuts)
    gaps = rng.random(X.shape) < 0.15
    gaps[:, :1] &= rng.random() < 0.5
    name = str(rng.choice(list(ESTIMATORS)))
    bare = name in ("tree", "forest", "histogram") and rng.random() < 0.4
    if not bare or rng.random() < 0.7:
        X[gaps] = np.nan
    model = make_pipeline(*([] if bare else steps(rng)), ESTIMATORS[name](rng)).fit(X, y)
    model = model[-1] if bare else model
    if not onnx:
        return model, name
    convert = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed; it is in the extra 'elsewhere'")
    try:
        single = rng.random() < 0.7 or name in ("tree", "forest", "gradient", "histogram")  # no end, of doubles
        kind = np.float32 if single else np.float64
        return convert.to_onnx(model, np.nan_to_num(X[:1]).astype(kind), options={"zipmap": False}), f"onnx {name}"
    except Exception:  # of what the converter does not know
        return None


def records(rng, strange):
    """Return a few records with gaps, and what else a public column may hold."""
    table = rng.normal(size=(int(rng.choice([1, 3])), 4))
    table[:, LAST] = rng.integers(0, 3, len(table))
    public = np.zeros(table.shape, dtype=bool)
    public[:, 1:] = rng.random((len(table), 3)) < 0.4
    table[public] = rng.choice(STRANGE if strange else [np.nan], int(public.sum()))
    return table


def outside(kept, lower, upper):
    """Tell whether so many of `DRAWS` contradict bounds."""
    return binom.sf(kept - 1, DRAWS, upper) < ALARM or binom.cdf(kept, DRAWS, lower) < ALARM


def problem_of(model, table, rng):
    """Return the arguments of a question about the columns that hold numbers in every record, or None."""
    whole = [j for j in range(3) if (np.abs(table[:, j]) < 3).all()]
    if not whole:
        return None
    sensitive = sorted(rng.choice(whole, int(rng.integers(1, len(whole) + 1)), replace=False).tolist())
    return {
        "sensitive": sensitive, "domain": dict.fromkeys(sensitive, RANGE),
        "per": "feature", "epsilons": [1.0, 4.0], "rng": 0,
        "mechanisms": rng.choice(WORDS, 2, replace=False).tolist(), "confidence": 1 - 1e-7, "tolerance": 0.1,
    }  # fmt: skip


def wrong_curves(model, table, asked, rng, seen):
    """Return the bounds that draws contradict, by the method that auto takes and by all that can be asked for."""
    labels, found = ew.as_classifier(model).labels, []
    shares = {}
    for m, word in enumerate(asked["mechanisms"]):
        for e, epsilon in enumerate(asked["epsilons"]):
            for row, record in enumerate(table):
                copies = np.tile(record, (DRAWS, 1))
                for j in asked["sensitive"]:
                    unit = MECHANISMS[word](epsilon).law((record[j] + 3) / 6).sample(DRAWS, rng)
                    copies[:, j] = 6 * unit - 3
                shares[m, e, row] = int((labels(copies) == labels(record[np.newaxis])[0]).sum())
    for method in ("auto", *FORCED):
        try:
            curves = ew.stability(model, table, method=method, **asked)
        except ValueError as error:
            if "cannot answer" not in str(error):
                raise
            continue
        seen += [(method, str(one)) for one in curves.method.ravel()]
        found += [
            (method, at, kept / DRAWS, curves.lower[at], curves.upper[at])
            for at, kept in shares.items()
            if outside(kept, curves.lower[at], curves.upper[at])
        ]
    return found


def wrong_boxes(model, table, asked, rng):
    """Return radii and safe boxes in which a point was seen that flips although none should."""
    labels, record, moved = ew.as_classifier(model).labels, table[0], asked["sensitive"]
    own, found = labels(table[:1])[0], []
    copies = np.tile(record, (DRAWS, 1))
    for norm in (2, np.inf):
        radius = ew.radius(model, record, norm=norm, features=moved, rng=0, budget=200)
        way = rng.normal(size=(DRAWS, len(moved)))
        way /= np.linalg.norm(way, ord=norm, axis=1, keepdims=True) * (1 + 1e-9)
        copies[:, moved] = record[moved] + min(radius.lower, 20) * rng.uniform(size=(DRAWS, 1)) * way
        if radius.sound and (labels(copies) != own).any():
            found.append(("radius", norm, radius.method, radius.lower))
    box = ew.safe_box(model, record, sensitive=moved, domain=asked["domain"], mechanism="pm", rng=0)
    copies[:, moved] = rng.uniform(box.lower, box.upper, (DRAWS, len(moved)))
    if box.confidence == 1 and (labels(copies) != own).any():
        found.append(("box", box.lower, box.upper))
    return found


def wrong_policy(model, table, rng, seen):
    """Return the bounds on a policy that leaves features out, contradicted by real releases; [] where it refuses."""
    features = sorted(rng.choice(3, 2, replace=False).tolist())
    rows = np.where(np.isfinite(table) & (np.abs(table) < 3), table, 0.5)
    domain = ew.Domain.of({f"x{j}": RANGE for j in features})
    passing = [f"x{j}" for j in range(table.shape[1]) if j not in features]
    mechanism = str(rng.choice(["pm", "sw", "laplace_clipped"]))
    policy = ew.Policy.of(mechanism, 2, domain, per="feature", bits=8, sample=1, passing=passing)
    try:
        curves = ew.stability_of_policy(policy, model, rows, rng=0, confidence=1 - 1e-7, tolerance=0.1)
    except ValueError as error:
        if "unsampled" not in str(error):
            raise
        return []
    seen += [("policy", str(one)) for one in curves.method.ravel()]
    labels, found = ew.as_classifier(model).labels, []
    for row, record in enumerate(rows):
        released = ew.perturb(policy, np.tile(record, (DRAWS, 1)))
        kept = int((labels(released) == labels(record[np.newaxis])[0]).sum())
        if outside(kept, curves.lower[0, 0, row], curves.upper[0, 0, row]):
            found.append(("policy", row, kept / DRAWS, curves.lower[0, 0, row], curves.upper[0, 0, row]))
    return found


CORNERS = np.array(list(itertools.product((-100.0, 100.0), repeat=4)))  # no draw goes so far


def look(seed, onnx):
    """Return what is wrong about a random composition; None where there is nothing to ask."""
    rng = np.random.default_rng([seed, onnx])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made, table = composition(rng, onnx), records(rng, strange=onnx or rng.random() < 0.3)
        asked = made and problem_of(made[0], table, rng)
        if not asked:
            return None
        model, name = made
        seen = []
        try:
            for record in table:  # and beyond all that may be released of it
                ew.as_classifier(model).labels(np.where(np.abs(record) < 3, CORNERS, record))
        except Exception:  # most of scikit-learn refuses infinities, and some exports answer one label for all records
            return None
        found = wrong_curves(model, table, asked, rng, seen)
        found += wrong_boxes(model, table, asked, rng)
        found += wrong_policy(model, table, rng, seen)
        return name, seen, [(*one, name, table.tolist(), asked) for one in found]


BATCHES = [range(start, start + 25) for start in range(0, 300, 25)]
WERE_WRONG = [8, 66, 86, 97]  # of these ONNX compositions, before readings were refused where nothing was clear


@pytest.mark.parametrize(
    "seeds",
    [[0, 1, 2], *(pytest.param(batch, marks=pytest.mark.slow) for batch in BATCHES)],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
@pytest.mark.cases("all")
def test_no_certain_bound_of_a_random_composition_is_wrong(seeds):
    looked = [found for seed in seeds if (found := look(seed, onnx=False)) is not None]
    assert len(looked) >= len(seeds) // 4
    assert {method for _, seen, _ in looked for _, method in seen} > {"sampled"}  # and engines of certain bounds
    assert [wrong for _, _, found in looked for wrong in found] == []


@pytest.mark.parametrize(
    "seeds",
    [WERE_WRONG, *(pytest.param(batch, marks=pytest.mark.slow) for batch in BATCHES)],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
@pytest.mark.cases("all")
def test_no_certain_bound_of_a_random_onnx_composition_is_wrong(seeds):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; it is in the extra 'onnx'")
    looked = [found for seed in seeds if (found := look(seed, onnx=True)) is not None]
    assert len(looked) >= len(seeds) // 4
    assert [wrong for _, _, found in looked for wrong in found] == []


def test_a_check_that_compared_nothing_has_not_passed():
    labels, clear = np.zeros(200, dtype=int), np.arange(200) < LEAST_CLEAR
    assert answers_as_read(labels, labels, clear)
    assert answers_as_read(labels, np.where(clear, 0, 1), clear)  # what is not clear is not compared
    assert not answers_as_read(labels, labels, clear & (np.arange(200) > 0))
    assert not answers_as_read(labels[:0], labels[:0], clear[:0])
    assert not answers_as_read(labels, labels + (np.arange(200) == 3), clear)
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    assert logistic_at(model, np.array([[0.5]]))
    assert not logistic_at(model, np.empty((0, 1)))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # scikit-learn's own
def test_scores_that_are_no_numbers_are_not_read():
    """Squares of 1e200 overflow: every score is -inf, the first label wins, and no label ever changes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model, row = GaussianNB().fit(X, X[:, 0] > 0), [[0.4, 1e200]]
    asked = {"sensitive": [0], "domain": {0: RANGE}, "mechanisms": ["pm"], "epsilons": [1.0]}
    assert "not finite numbers" in said(quadratic_for, ew.Problem.of(model, row, y=None, **asked))
    assert ew.stability(model, row, rng=0, **asked).lower.item() > 0.95
    assert not ew.radius(model, row, features=[0], rng=0).sound  # it was: no point nearer than NaN


def test_numbers_that_single_precision_does_not_hold_are_not_read():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = MLPClassifier((3,), max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
    asked = {"sensitive": [0], "domain": {0: RANGE}, "mechanisms": ["pm"], "epsilons": [1.0], "y": None}
    assert said(bounds_for, ew.Problem.of(model, [[0.4, 1e39]], **asked)) == OVERFLOWS
    assert isinstance(bounds_for(ew.Problem.of(model, [[0.4, 1e3]], **asked)), PropagatedBounds)
    assert said(bounds_for, ew.Problem.of(model, [[0.4, 1.0]], **asked | {"domain": {0: (-3, 1e39)}})) == OVERFLOWS


def exported(labels=2, *, columns=2, unused=False):
    """Return the pipeline of the field and its ONNX form; one whose second column counts for nothing."""
    convert = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed; it is in the extra 'elsewhere'")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, columns))
    y = np.digitize(X[:, 0] + X[:, 1], [0.0] if labels == 2 else [-0.6, 0.6])
    X[rng.random(400) < 0.2, 1] = np.nan
    pipe = make_pipeline(SimpleImputer(), LogisticRegression()).fit(X, y)
    if unused:
        pipe[-1].coef_[:, 1] = 0.0
    return pipe, convert.to_onnx(pipe, np.zeros((1, columns), dtype=np.float32))


FIELD = {"sensitive": [0], "domain": {0: RANGE}, "mechanisms": ["pm", "sw", "laplace_clipped"], "epsilons": [2.0]}


def test_a_gap_in_a_public_column_is_what_the_pipeline_makes_of_it():
    """Right are .7375, .7791 and .5895, which lattices say of the pipeline; bounds on its ONNX form hold them."""
    pipe, onnx = exported()
    row = np.array([[0.5, np.nan]])
    right = ew.stability(pipe, row, **FIELD)
    np.testing.assert_allclose(right.lower.ravel(), [0.7375, 0.7791, 0.5895], atol=1e-4)
    found = ew.stability(onnx, row, rng=0, confidence=1 - 1e-9, **FIELD)
    assert (found.lower <= right.lower).all()
    assert (right.upper <= found.upper).all()
    for method in ("polygons", "lattice", "propagation"):
        with pytest.raises(ValueError, match="missing or infinite"):
            ew.stability(onnx, row, method=method, **FIELD)
    assert not ew.recommend(found, at_least=0.9).feasible
    assert ew.safe_box(onnx, row, sensitive=[0], domain={0: RANGE}, rng=0).confidence < 1
    assert not ew.radius(onnx, row, features=[0], rng=0).sound


def test_a_budget_is_split_beside_a_gap():
    pipe, onnx = exported(columns=3)
    asked = {"sensitive": [0, 2], "domain": {0: RANGE, 2: RANGE}, "total": 4.0, "confidence": 1 - 1e-6, "rng": 0}
    right, found = (ew.split_budget(model, [[0.5, np.nan, 0.3]], **asked) for model in (pipe, onnx))
    assert right.confidence == 1
    assert found.confidence < 1
    assert found.even_lower <= right.even_upper
    assert right.even_lower <= found.even_upper


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("unused", [False, True], ids=["used", "unused"])
@pytest.mark.cases(6)
def test_what_single_precision_does_not_hold_is_not_read(value, labels, unused):
    """0 times infinity is NaN, and so is infinity less itself; 1e39 is infinite in single precision."""
    _, onnx = exported(labels, unused=unused)
    rows = np.array([[0.5, value], [0.4, 0.1]])
    if abs(value) != 3e38:
        assert isinstance(said(linear_for, ew.Problem.of(onnx, rows, y=None, **FIELD)), str)
    asked = {**FIELD, "epsilons": [1.0, 4.0], "rng": 0, "confidence": 1 - 1e-7, "tolerance": 0.1}
    assert wrong_curves(onnx, rows, asked, np.random.default_rng(1), []) == []
    assert ew.stability(onnx, rows[1:], **FIELD).confidence == 1


def test_what_is_left_out_by_a_policy_is_a_gap_to_an_onnx_model():
    """Right are .757 and .599: half of the releases hold a gap in the sensitive column itself."""
    pipe, onnx = exported()
    row = np.array([[0.5, 0.2]])
    policy = ew.Policy.of("pm", 2, ew.Domain.of({"x0": RANGE, "x1": RANGE}), per="feature", bits=8, sample=1)
    right = ew.stability_of_policy(policy, pipe, row)
    found = ew.stability_of_policy(policy, onnx, row, rng=0, confidence=1 - 1e-9)
    assert right.confidence == 1
    assert 0.3 < right.lower.item() < 0.95
    assert found.lower.item() <= right.lower.item() + 1e-3  # where both precisions agree
    assert right.upper.item() <= found.upper.item() + 1e-3


def test_a_tailored_policy_keeps_what_is_measured_beside_gaps():
    _, onnx = exported()
    rng = np.random.default_rng(5)
    public = rng.normal(size=(300, 2)).clip(-2.9, 2.9)
    public[::3, 1] = np.nan
    made = ew.tailor(onnx, public, sensitive=[0], epsilon=2, domain={0: RANGE}, rng=0, public=True)
    rows = np.array([[0.5, np.nan], [-1.0, 0.3]])
    curves, labels = made.stability([2.0], rows), ew.as_classifier(onnx).labels
    for row, record in enumerate(rows):
        released = ew.perturb(made.policy, np.tile(record, (DRAWS, 1)))
        kept = int((labels(released) == labels(record[np.newaxis])[0]).sum())
        assert not outside(kept, curves.lower[0, 0, row], curves.upper[0, 0, row])
