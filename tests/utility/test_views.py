"""Linear, quadratic and network models behind compositions: against sixty digits between predict's own turns."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest
import sixty
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.classifiers.pipeline import ColumnView, column_view
from epsworth.classifiers.reading import opened
from epsworth.records import as_records
from epsworth.utility.engines import engine as engines
from epsworth.utility.quantities import Bounds
from strategies import sparing

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(5)
SIZE = 240
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 90, SIZE),
        "job": np.where(RNG.random(SIZE) < 0.1, None, RNG.choice(["clerk", "cook", "guard"], SIZE)),
        "hours": RNG.uniform(0, 80, SIZE),
        "gain": np.where(RNG.random(SIZE) < 0.2, np.nan, 10 * RNG.normal(size=SIZE) + 500),
        "sex": RNG.choice(["m", "f"], SIZE),
    }
)
SCORE = TABLE["age"] / 40 + TABLE["hours"] / 40 + (TABLE["job"] == "cook") + (TABLE["sex"] == "m")
LABELS = np.asarray(SCORE + 0.3 * RNG.normal(size=SIZE) > 3)
THIRDS = np.digitize(SCORE, [2.4, 3.4])
KNOWN = TABLE[TABLE["job"].notna()]
DOMAIN = {"age": (18, 90), "hours": (0, 80), "job": ["guard", "clerk", "cook"], "sex": ["f", "m"]}
EPSILONS = [0.5, 4.0]


def prepared(*more):
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), MinMaxScaler((-1, 2)))
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    branches = [("n", numbers, ["gain", "hours", "age"]), ("t", texts, ["job", "sex"])]
    return make_pipeline(ColumnTransformer(branches, sparse_threshold=0), *more)


def fitted(*estimator, labels=LABELS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return prepared(*estimator).fit(TABLE, labels)


LINEAR = {
    "logistic": LogisticRegression(),
    "logistic cv": LogisticRegressionCV(Cs=[0.1, 1.0], cv=2),
    "svc": LinearSVC(),
    "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    "ridge": RidgeClassifier(),
    "ridge cv": RidgeClassifierCV(),
    "sgd": SGDClassifier(random_state=0),
    "perceptron": Perceptron(),
    "components": (PCA(4, whiten=True), LogisticRegression()),
}


def kept(model, record, own):
    """Return the parts of the range of age, on [0, 1], in which a label is answered, by predict's own turns."""

    def labels(ages):
        return model.predict(pd.concat([record] * len(ages), ignore_index=True).assign(age=ages))

    low, high = DOMAIN["age"]
    grid = np.linspace(low, high, 257)
    found, ends = labels(grid), [mpmath.mpf(0)]
    turns = np.flatnonzero(found[1:] != found[:-1])
    for k in turns:
        left, right = grid[k], grid[k + 1]
        while np.nextafter(left, np.inf) < right:
            cuts = np.unique(np.linspace(left, right, 257))
            j = int(np.argmax(labels(cuts) != found[k]))
            if j == 0:
                break  # matrix products round otherwise in another batch: no turn between neighbours is the turn
            left, right = cuts[j - 1], cuts[j]
        ends.append((mpmath.mpf(left) - low) / (high - low))
    answered = [found[0] == own, *(found[turns + 1] == own)]
    return [part for part, keeps in zip(zip(ends, [*ends[1:], 1], strict=True), answered, strict=True) if keeps]


def share(law, parts):
    """Return the mass of parts in sixty digits; only the ends of the range carry atoms."""
    return sum((sixty.mass(law, low, high) for low, high in parts), mpmath.mpf(0))


def law_of(family, epsilon, record):
    return ew.MECHANISMS[family](epsilon).law((record["age"].item() - 18) / 72)


def holds(lower, upper, truth):
    """Tell whether bounds hold a truth, but for what doubles say of the law's own parameters."""
    return lower - mpmath.mpf("1e-14") <= truth <= upper + mpmath.mpf("1e-14")


@pytest.mark.parametrize("name", sparing(LINEAR, keep=(1, 3, 5, 8)))
@pytest.mark.slow
def test_linear_models_behind_compositions_hold_the_truth_in_sixty_digits(name):
    """Gaps and texts in public columns; one feature, so that predict's own turn is the only one."""
    model = fitted(*(LINEAR[name] if name == "components" else [LINEAR[name]]))
    records = TABLE.iloc[[int(np.argmax(TABLE["job"].isna())), 3, int(np.argmax(TABLE["gain"].isna()))]]
    settings = {"sensitive": "age", "domain": DOMAIN, "mechanisms": ["pm", "laplace_clipped"], "epsilons": EPSILONS}
    found = ew.stability(model, records, tolerance=1e-3, method="lattice", **settings)
    assert found.confidence == 1
    assert (found.upper - found.lower).max() <= 1e-3
    for i in range(len(records)):
        record = records.iloc[[i]]
        parts = kept(model, record, model.predict(record)[0])
        for m, family in enumerate(settings["mechanisms"]):
            for e, epsilon in enumerate(EPSILONS):
                truth = share(law_of(family, epsilon, record), parts)
                assert holds(found.lower[m, e, i], found.upper[m, e, i], truth)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (LogisticRegression(), "polygons"),
        (GaussianNB(), "slabs"),
        (QuadraticDiscriminantAnalysis(reg_param=0.2), "slabs"),
        (MLPClassifier((6,), random_state=0, max_iter=100), "propagation"),
    ],
)
@pytest.mark.slow
def test_other_scores_behind_compositions_hold_the_sampled_truth(model, method):
    """Three labels, two features; 8 sampled intervals miss with probability 1e-6 together."""
    model = fitted(model, labels=THIRDS)
    settings = {
        "sensitive": ["age", "hours"],
        "domain": DOMAIN,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": EPSILONS,
    }
    sure = ew.stability(model, TABLE[:4], method=method, **settings)
    drawn = ew.stability(model, TABLE[:4], method="sampled", rng=0, confidence=1 - 1e-6, tolerance=0.03, **settings)
    assert sure.confidence == 1
    assert (drawn.lower <= sure.upper).all()
    assert (sure.lower <= drawn.upper).all()
    assert (sure.upper - sure.lower).max() <= 0.02


def test_what_is_seen_is_affine_in_what_moves():
    """Against the steps themselves, to the rounding that the view states; gaps and texts stay where they are."""
    model = fitted(PCA(5), LogisticRegression())
    records, lower = as_records(TABLE[:20], features=list(TABLE)), np.array([18.0, 0.0])
    view = column_view(model, opened(model)[2], records, (0, 2), lower)
    assert isinstance(view, ColumnView)
    rng, rows = np.random.default_rng(0), np.arange(20)
    values = rng.uniform([18, 0], [90, 80], (20, 2))
    seen = model[:-1].transform(TABLE[:20].assign(age=values[:, 0], hours=values[:, 1]))
    allowed = 4 * (view.width + view.additions) * 2.0**-53 * view.sizes(np.abs(values).max(axis=0))
    assert (np.abs(view.at(rows, values) - seen) <= allowed).all()
    assert view.sizes(np.array([90.0, 80.0])).max() < 1e4


def test_sizes_count_what_cancels_in_the_steps():
    """Values of 1e9 that a scaler centres to 1 are rounded by 1e-7: no bracket may be narrower."""
    table = pd.DataFrame({"far": 1e9 + RNG.normal(size=50), "text": RNG.choice(["a", "b"], 50)})
    steps = ColumnTransformer([("n", StandardScaler(), ["far"]), ("t", OneHotEncoder(), ["text"])])
    model = make_pipeline(steps, LogisticRegression()).fit(table, table["far"] > 1e9)
    settings = {"sensitive": "far", "mechanisms": "pm", "epsilons": [2.0], "domain": {"far": (1e9 - 2, 1e9 + 2)}}
    found = ew.stability(model, table[:1], **settings)
    assert found.method.item() == "lattice"
    assert found.upper.item() - found.lower.item() > 1e-8
    view = column_view(model, opened(model)[2], as_records(table, features=list(table)), (0,), np.array([1e9]))
    width = model[0].named_transformers_["n"].scale_[0]
    assert view.sizes(np.array([1e9]))[0, 0] >= 1.999e9 / width
    assert view.sizes(np.array([1.0]))[0, 0] >= 0.999e9 / width


def test_sizes_of_public_columns_count_what_is_seen_and_what_cancels():
    table = pd.DataFrame({"near": RNG.normal(size=50), "far": 1e9 + RNG.normal(size=50), "bent": RNG.normal(size=50)})
    steps = [("n", StandardScaler(), ["near", "far"]), ("b", KBinsDiscretizer(3, encode="ordinal"), ["bent"])]
    model = make_pipeline(ColumnTransformer(steps), LogisticRegression()).fit(table, table["near"] > 0)
    view = column_view(model, opened(model)[2], as_records(table, features=list(table)), (0,), np.array([0.0]))
    sizes, seen = view.sizes(np.array([3.0])), model[:-1].transform(table)
    assert (sizes[:, 1:] >= np.abs(seen[:, 1:])).all()  # not where a size is NaN
    assert (sizes[:, 1] >= 1.999e9 / model[0].named_transformers_["n"].scale_[1]).all()


CONDITIONED = [
    (LogisticRegression(), "lattice"),
    (DecisionTreeClassifier(max_depth=4, random_state=0), "cells"),
    (GaussianNB(), "slabs"),
]


@pytest.mark.parametrize(("model", "method"), sparing(CONDITIONED, keep=[0]))
@pytest.mark.slow
def test_categories_beside_numbers_hold_the_truth_in_sixty_digits(model, method):
    """All combinations of two categories, and predict's own turn in each: the record's label, not that of the copy."""
    other = KNOWN[(KNOWN["job"] != KNOWN["job"].iloc[0]) & (KNOWN["sex"] != KNOWN["sex"].iloc[0])]
    model, records = fitted(model), pd.concat([KNOWN.iloc[[0]], other.iloc[[0]]])
    y = ~model.predict(records)
    settings = {
        "sensitive": ["sex", "age", "job"],
        "domain": DOMAIN,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": EPSILONS,
    }
    found = ew.stability(model, records, y=y, tolerance=1e-3, method=method, **settings)
    assert found.confidence == 1
    parts = {
        (i, job, sex, own): kept(model, records.iloc[[i]].assign(job=job, sex=sex), own)
        for i, own in enumerate(found.labels) for job in DOMAIN["job"] for sex in DOMAIN["sex"]
    }  # fmt: skip
    assert any("for every combination of the sensitive categories" in note for note in found.notes)
    for i in range(len(records)):
        record, own = records.iloc[[i]], found.labels[i]
        for e, epsilon in enumerate(EPSILONS):
            law, grown, truth = law_of("pm", epsilon, record), mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
            for job in DOMAIN["job"]:
                for sex in DOMAIN["sex"]:
                    weight = (grown if job == record["job"].item() else 1) / (grown + 2)
                    weight *= (grown if sex == record["sex"].item() else 1) / (grown + 1)
                    truth += weight * share(law, parts[i, job, sex, own])
            assert holds(found.lower[0, e, i], found.upper[0, e, i], truth)
            assert holds(found.accuracy.lower[0, e, i], found.accuracy.upper[0, e, i], 1 - truth)
    assert (found.upper - found.lower).max() <= 1e-3


@pytest.mark.slow
def test_combinations_share_the_risk_of_an_engine_that_draws():
    """Rays: every row of a combination is paid for, and no more is spent than asked for."""
    model = fitted(LogisticRegression(), labels=THIRDS)
    settings = {
        "sensitive": ["age", "hours", "gain", "sex"],
        "mechanisms": "laplace",
        "per": "feature",
        "epsilons": [1.0, 4.0],
    }
    domain, rows = DOMAIN | {"gain": (450, 550)}, KNOWN[KNOWN["gain"].between(450, 550)][:3]
    found = ew.stability(model, rows, method="rays", rng=0, tolerance=0.05, domain=domain, **settings)
    drawn = ew.stability(model, rows, method="sampled", rng=1, tolerance=0.02, domain=domain, **settings)
    assert 0 < found.spent <= 1 - found.confidence
    assert (found.upper - found.lower).max() <= 0.1 + 1e-9
    assert (drawn.lower <= found.upper).all()
    assert (found.lower <= drawn.upper).all()


def test_too_many_combinations_are_refused_by_name_and_sampled_otherwise(monkeypatch):
    monkeypatch.setattr(engines, "MOST_COMBINATIONS", 5)
    model = fitted(LogisticRegression())
    settings = {
        "sensitive": ["age", "job", "sex"],
        "domain": DOMAIN,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": [1.0],
    }
    drawn = ew.stability(model, KNOWN[:1], rng=0, tolerance=0.1, **settings)
    assert drawn.method.item() == "sampled"
    assert "have 6 combinations for each of 1 records" in drawn.notes[-1]
    with pytest.raises(ValueError, match="have 6 combinations for each of 1 records"):
        ew.stability(model, KNOWN[:1], method="lattice", **settings)


def test_labels_that_categories_alone_turn_are_possible_ones():
    """The numbers say nothing: both labels occur, though each combination has one."""
    model = fitted(DecisionTreeClassifier(max_depth=1), labels=TABLE["sex"] == "m")
    settings = {"sensitive": ["age", "sex"], "domain": DOMAIN, "mechanisms": "pm", "per": "feature", "epsilons": [1.0]}
    found = ew.stability(model, KNOWN[:2], method="cells", **settings)
    assert found.labels_possible.tolist() == [2, 2]
    truth = 1 / (1 + mpmath.exp(-1))
    assert all(low <= truth <= high for low, high in zip(found.lower.ravel(), found.upper.ravel(), strict=True))
    assert (found.upper - found.lower).max() < 1e-10


def test_what_holds_for_some_combinations_only_is_not_certain():
    """By the weights of randomised response, which sends the true one of two with probability e / (e + 1)."""
    settings = {
        "sensitive": ["age", "sex"],
        "domain": DOMAIN,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": [1.0],
        "y": None,
    }
    problem = ew.Problem.of(fitted(LogisticRegression()), KNOWN[:2], **settings)
    parts = problem.read(engines.by_category)
    true = np.e / (np.e + 1)
    weights = np.where(np.array(DOMAIN["sex"]) == KNOWN["sex"].to_numpy()[:2, np.newaxis], true, 1 - true)
    for low, high in [([1, 0.25], [1, 0.5]), ([0, 0], [0, 0.5]), ([0, 1], [0, 1])]:
        found = parts.mixed(problem, Bounds(*(np.tile(side, (1, 1, 2)).astype(float) for side in (low, high))))
        np.testing.assert_allclose(found.lower[0, 0], weights @ low, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.upper[0, 0], weights @ high, rtol=0, atol=1e-12)
        assert (found.upper > 0).all()
        assert (found.lower < 1).all()
    assert (parts.mixed(problem, Bounds(*np.ones((2, 1, 1, 4)))).lower == 1).all()
    assert (parts.mixed(problem, Bounds(*np.zeros((2, 1, 1, 4)))).upper == 0).all()


def test_a_record_one_of_whose_combinations_is_open_is_open():
    settings = {
        "sensitive": ["age", "sex"],
        "domain": DOMAIN,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": [1.0],
        "y": None,
    }
    parts = ew.Problem.of(fitted(LogisticRegression()), KNOWN[:3], **settings).read(engines.by_category)
    assert parts.some(np.array([[False, False, True, False, True, True]])).tolist() == [[False, True, True]]


@pytest.mark.parametrize("step", [KBinsDiscretizer(5, encode="onehot-dense"), PolynomialFeatures(2)])
def test_what_is_not_affine_is_named(step):
    branches = ColumnTransformer([("a", step, ["age", "hours"]), ("t", OneHotEncoder(), ["sex"])])
    model = make_pipeline(branches, LogisticRegression(max_iter=2000)).fit(TABLE, LABELS)
    settings = {"sensitive": "age", "domain": DOMAIN, "mechanisms": "pm", "epsilons": [1.0]}
    with pytest.raises(ValueError, match="'age' is not an affine function of it"):
        ew.stability(model, TABLE[:1], method="lattice", **settings)
    drawn = ew.stability(model, TABLE[:1], rng=0, tolerance=0.1, **settings)
    assert drawn.method.item() == "sampled"
    assert "'age' is not an affine function of it" in drawn.notes[-1]


@pytest.mark.parametrize("norm", [2, "inf"])
def test_radius_of_a_linear_model_behind_a_composition(norm):
    """Against the dual norm of slopes that are read off the steps by differences; a record with a gap and a text."""
    model, record = fitted(LogisticRegression()), TABLE[TABLE["gain"].isna()].iloc[[0]]
    score = model.decision_function(record).item()
    slopes = [
        (model.decision_function(record.assign(**{name: record[name] + 1000.0})).item() - score) / 1000
        for name in ("age", "hours")
    ]
    truth = abs(score) / (np.linalg.norm(slopes) if norm == 2 else np.abs(slopes).sum())
    found = ew.radius(model, record, features=["age", "hours"], norm=norm)
    assert (found.method, found.sound) == ("linear", True)
    assert found.lower <= truth * (1 + 1e-10)
    assert found.upper >= truth * (1 - 1e-10)
    assert found.upper - found.lower < 1e-9 * truth


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (GaussianNB(), "quadratic"),
        (MLPClassifier((5,), random_state=0, max_iter=200), "network"),
        (DecisionTreeClassifier(max_depth=4, random_state=0), "tree"),
    ],
)
@pytest.mark.slow
def test_radius_of_other_models_behind_a_composition(model, method):
    """No point of a fine grid within the lower bound flips; the witness does."""
    model, record = fitted(model), TABLE[TABLE["gain"].isna()].iloc[[1]]
    found = ew.radius(model, record, features=["age", "hours"], norm="inf", rng=0)
    assert (found.method, found.sound) == (method, True)
    assert found.lower <= found.upper < np.inf
    assert found.upper - found.lower < 1e-3 * found.upper
    own, witness = model.predict(record)[0], dict(zip(("age", "hours"), found.witness, strict=True))
    assert model.predict(record.assign(**witness))[0] != own
    offsets = np.stack(np.meshgrid(*[np.linspace(-1, 1, 61) * found.lower * (1 - 1e-12)] * 2), axis=-1).reshape(-1, 2)
    near = pd.concat([record] * len(offsets), ignore_index=True)
    near = near.assign(age=near["age"] + offsets[:, 0], hours=near["hours"] + offsets[:, 1])
    assert (model.predict(near) == own).all()


@pytest.mark.parametrize("model", [LogisticRegression(), DecisionTreeClassifier(max_depth=4, random_state=0)])
@pytest.mark.cases(1)
def test_a_safe_box_behind_a_composition_is_certain(model):
    model, record = fitted(model), TABLE[TABLE["gain"].isna()].iloc[[1]]
    found = ew.safe_box(model, record, sensitive=["age", "hours"], domain=DOMAIN)
    assert (found.confidence, found.flips_at_most) == (1, 0)
    sides = [np.linspace(*side, 41) for side in zip(found.lower, found.upper, strict=True)]
    points = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    inside = pd.concat([record] * len(points), ignore_index=True).assign(age=points[:, 0], hours=points[:, 1])
    assert (model.predict(inside) == found.label).all()


@pytest.mark.slow
def test_numbers_as_categories_are_asked_apart_behind_a_one_hot_encoder():
    """A number that an encoder takes apart has no order; as a declared category it needs none."""
    table = pd.DataFrame({"rooms": RNG.integers(1, 4, 80), "size": RNG.uniform(20, 90, 80)})
    branches = ColumnTransformer([("r", OneHotEncoder(), ["rooms"]), ("s", StandardScaler(), ["size"])])
    model = make_pipeline(branches, LogisticRegression()).fit(table, (table["rooms"] != 2) ^ (table["size"] > 60))
    settings = {"sensitive": ["rooms", "size"], "mechanisms": "pm", "per": "feature", "epsilons": [2.0]}
    domain = {"rooms": [1, 2, 3], "size": (20, 90)}
    sure = ew.stability(model, table[:3], domain=domain, **settings)
    drawn = ew.stability(model, table[:3], domain=domain, method="sampled", rng=0, confidence=1 - 1e-6, **settings)
    assert set(sure.method.ravel()) == {"lattice"}
    assert (drawn.lower <= sure.upper).all()
    assert (sure.lower <= drawn.upper).all()
    problem = ew.Problem.of(model, table[:3], domain=domain, y=None, **settings)
    parts = problem.read(engines.by_category)
    assert parts.asked.records.column(0).dtype.kind == "i"


def test_a_split_between_numbers_and_categories_is_answered():
    """The question about the numbers alone is read once, and asked about as many splits as there are."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.random(12), "job": rng.choice(["a", "b"], 12)})
    model = make_pipeline(
        ColumnTransformer([("age", "passthrough", ["age"]), ("job", OneHotEncoder(), ["job"])]), LogisticRegression()
    ).fit(X, (X["age"] > 0.5) ^ (X["job"] == "b"))
    found = ew.split_budget(model, X, sensitive=["age", "job"], total=4, domain={"age": (0, 1), "job": ["a", "b"]})
    assert found.lower >= found.even_lower - 0.02
    alone = ew.stability(model, X, sensitive=["age", "job"], mechanisms="pm", epsilons=[4],
                         domain={"age": (0, 1), "job": ["a", "b"]})  # fmt: skip
    assert found.even_lower == pytest.approx(alone.average().lower[0, 0], abs=0.02)
