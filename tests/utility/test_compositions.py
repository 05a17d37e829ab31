"""Trees behind any preprocessing: every cell has the label that ``predict`` gives, on thresholds and beside them."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.classifiers import pipeline as steps_before
from epsworth.classifiers.pipeline import Branch, Preprocessing
from epsworth.classifiers.transformers import Columns, row_by_row, stepped
from epsworth.utility.engines.cells import TreeCells, cells_for
from readings import said

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
SIZE = 400
TEXTS = RNG.choice(["north", "south", "east"], SIZE)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, SIZE),
        "town": np.where(RNG.random(SIZE) < 0.1, None, TEXTS),
        "pay": np.round(RNG.lognormal(10, 0.7, SIZE), 2),
        "hours": RNG.integers(1, 80, SIZE).astype(np.float32),
        "debt": np.where(RNG.random(SIZE) < 0.2, np.nan, RNG.normal(size=SIZE)),
        "job": RNG.choice(["a", "b", "c", "d"], SIZE),
    }
)
LABELS = np.asarray((TABLE["age"] / 30 + TABLE["hours"] / 40 + (TEXTS == "north") + RNG.normal(size=SIZE)) > 3.5)
DOMAIN = {"age": (18, 90), "hours": (1, 80)}
NUMBERS, WORDS = ["age", "pay", "hours", "debt"], ["town", "job"]


class Rank(TransformerMixin, BaseEstimator):
    """Somebody's own: places of words."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.array([[len(str(value)) for value in row] for row in np.asarray(X)], dtype=np.float64)


def words(encoder=None):
    return make_pipeline(SimpleImputer(strategy="most_frequent"), encoder or OneHotEncoder(sparse_output=False))


PREPARED = {
    "impute, scale, one-hot": lambda: ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), NUMBERS), ("w", words(), WORDS)]
    ),
    "sparse": lambda: ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(), MinMaxScaler((-1, 0))), NUMBERS), ("w", words(OneHotEncoder()), WORDS)],
        sparse_threshold=1,
    ),
    "weighed": lambda: ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS), ("w", words(), WORDS)],
        transformer_weights={"n": -0.5},
    ),
    "a remainder, by kinds": lambda: ColumnTransformer(
        [("w", words(OrdinalEncoder()), make_column_selector(dtype_exclude="number")), ("d", SimpleImputer(), [4])],
        remainder="passthrough",
    ),
    "as a frame": lambda: make_pipeline(
        ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), RobustScaler()), NUMBERS), ("t", words(TargetEncoder()), WORDS)],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas"),
        ColumnTransformer([("a", StandardScaler(), ["age", "pay"])], remainder="passthrough"),
        VarianceThreshold(),
    ),
    "own code on public columns": lambda: ColumnTransformer(
        [
            ("own", Rank(), WORDS),
            ("mixed", make_pipeline(KNNImputer(), Normalizer(), QuantileTransformer(n_quantiles=20)), ["debt", "pay"]),
            ("bins", KBinsDiscretizer(6, encode="ordinal", strategy="uniform"), ["age"]),
            ("hours", FeatureUnion([("b", Binarizer(threshold=39.5)), ("s", StandardScaler())],
                                   transformer_weights={"s": -3.0}), ["hours"]),
        ]
    ),
    "quantiles": lambda: make_pipeline(
        ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), QuantileTransformer(n_quantiles=30)), NUMBERS), ("w", words(), WORDS)]
        ),
        MinMaxScaler((-1, 1)),
    ),
    "selected": lambda: make_pipeline(
        ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), FunctionTransformer(), StandardScaler()), NUMBERS),
             ("w", words(), slice(1, 2))], transformer_weights={"n": -0.5}
        ),
        SelectKBest(k=5),
    ),
}  # fmt: skip
MODELS = {
    "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
    "forest": RandomForestClassifier(10, max_depth=6, random_state=0),
    "extra": ExtraTreesClassifier(10, max_depth=6, random_state=0),
    "gradient": GradientBoostingClassifier(n_estimators=10, random_state=0),
    "histogram": HistGradientBoostingClassifier(max_iter=10, random_state=0),
}
REFUSED = {("sparse", "histogram")}  # by scikit-learn
every_preparation = pytest.mark.parametrize("prepared", PREPARED)


def pipeline(prepared, model, table=TABLE):
    return make_pipeline(PREPARED[prepared](), MODELS[model]).fit(table, LABELS)


def check_cells(fitted, table, records, points, sensitive=("age", "hours")):
    """Compare the cells of records with the labels of points on their edges, an ulp above, and anywhere."""
    problem = ew.Problem.of(fitted, table[:records], sensitive=list(sensitive), mechanisms="pm", epsilons=[1.0],
                   domain={name: DOMAIN[name] for name in sensitive})  # fmt: skip
    found = cells_for(problem)
    assert isinstance(found, TreeCells), found
    rng, wrong = np.random.default_rng(1), 0
    for record, cells in enumerate(found.of(range(records))):
        columns = []
        for name, edges in zip(sensitive, cells.edges, strict=True):
            inner, anywhere = edges[np.isfinite(edges)], rng.uniform(*DOMAIN[name], points)
            beside = np.concatenate([inner, np.nextafter(inner, np.inf)])
            chosen = rng.choice(beside, points) if beside.size else anywhere
            columns.append(np.where(rng.random(points) < 0.6, chosen, anywhere))
        at = [np.searchsorted(edges, x) - 1 for edges, x in zip(cells.edges, columns, strict=True)]
        labels = problem.ask(np.full(points, record), columns)
        wrong += int((cells.table.kinds[cells.table.labels[tuple(at)]] != labels).sum())
    return wrong


@every_preparation
@pytest.mark.slow
def test_no_label_is_wrong_on_thresholds_and_beside_them(prepared):
    assert check_cells(pipeline(prepared, "forest"), TABLE, 3, 400) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("prepared", "model"), [pair for pair in product(PREPARED, MODELS) if pair not in REFUSED])
def test_no_label_of_many_is_wrong(prepared, model):
    """10,000 points for each model behind each preparation, on thresholds and beside them."""
    assert check_cells(pipeline(prepared, model), TABLE, 2, 5_000) == 0


@pytest.mark.parametrize("model", ["tree", "gradient", "histogram"])
@pytest.mark.cases(1)
def test_the_answer_is_exact_and_that_of_the_bare_model(model):
    fitted = pipeline("impute, scale, one-hot", model)
    given = {"mechanisms": ["pm", "laplace_clipped"], "epsilons": [1.0, 4.0]}
    found = ew.stability(fitted, TABLE[:8], sensitive=list(DOMAIN), domain=DOMAIN, **given)
    assert (found.method == "cells").all()
    assert found.confidence == 1
    assert (found.upper - found.lower).max() < 1e-9
    seen, scaler = fitted[0].transform(TABLE[:8]), fitted[0].named_transformers_["n"][1]
    at = [NUMBERS.index(name) for name in DOMAIN]
    ranges = {place: tuple((np.array(DOMAIN[name]) - scaler.mean_[place]) / scaler.scale_[place])
              for place, name in zip(at, DOMAIN, strict=True)}  # fmt: skip
    bare = ew.stability(fitted[1], seen, sensitive=at, domain=ranges, **given)
    np.testing.assert_allclose(found.lower, bare.lower, atol=1e-9)


def test_polars_frames_and_arrays_are_read_as_pandas_frames_are():
    frame = pl.from_pandas(TABLE)
    fitted = pipeline("impute, scale, one-hot", "forest", frame)
    assert check_cells(fitted, frame, 2, 200) == 0
    numbers = TABLE[NUMBERS].to_numpy(np.float32)
    array = make_pipeline(ColumnTransformer([("n", make_pipeline(SimpleImputer(), StandardScaler()), [0, 2, -1])],
                                            remainder="drop"), MODELS["forest"]).fit(numbers, LABELS)  # fmt: skip
    problem = ew.Problem.of(
        array, numbers[:2], sensitive=[0], mechanisms="pm", epsilons=[1.0], y=None, domain={0: (18, 90)}
    )
    assert isinstance(cells_for(problem), TreeCells)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (OneHotEncoder(handle_unknown="ignore"), "OneHotEncoder keeps no order of the sensitive feature 'age'"),
        (FunctionTransformer(np.square), "FunctionTransformer keeps no order of the sensitive feature 'age'"),
        (Rank(), "Rank keeps no order of the sensitive feature 'age'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.cases(1)
def test_what_is_not_understood_is_sampled_and_named(step, reason):
    branches = ColumnTransformer([("a", step, ["age"]), ("h", StandardScaler(), ["hours"])])
    fitted = make_pipeline(branches, MODELS["tree"]).fit(TABLE, LABELS)
    given = {"mechanisms": "pm", "epsilons": [1.0], "domain": DOMAIN, "tolerance": 0.2}
    found = ew.stability(fitted, TABLE[:2], sensitive=["age"], rng=0, **given)
    assert (found.method == "sampled").all()
    assert found.confidence < 1
    assert any(reason in note for note in found.notes)
    exact = ew.stability(fitted, TABLE[:2], sensitive=["hours"], **given)
    assert (exact.method == "cells").all()


@pytest.mark.slow
def test_what_a_sparse_matrix_leaves_out_is_missing_to_xgboost():
    xgboost = pytest.importorskip("xgboost")
    fitted = make_pipeline(PREPARED["sparse"](), xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(TABLE, LABELS)
    problem = ew.Problem.of(
        fitted, TABLE[:2], sensitive=["age"], mechanisms="pm", epsilons=[1.0], y=None, domain=DOMAIN
    )
    assert "missing to the trees" in said(cells_for, problem)
    dense = make_pipeline(PREPARED["selected"](), xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(TABLE, LABELS)
    assert check_cells(dense, TABLE, 2, 200) == 0


@pytest.mark.slow
def test_a_column_that_a_branch_takes_twice_moves_as_one():
    """Timestamps, of which the probes of a short cut know nothing: both copies move, and the bounds hold the truth."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(1.6e9, 1.8e9, 300), rng.uniform(0, 10, 300)])
    labels = ((table[:, 0] > 1.68e9) ^ (table[:, 1] > 7)).astype(int)
    bins = ColumnTransformer([("b", KBinsDiscretizer(8, encode="ordinal"), [0, 0])], remainder="passthrough")
    model = make_pipeline(bins, RandomForestClassifier(20, random_state=0)).fit(table, labels)
    table[0, 0] = 1.6e9
    settings = {"sensitive": 0, "mechanisms": "pm", "epsilons": [1.0], "domain": {"x0": (1.6e9, 1.8e9)}}
    exact = ew.stability(model, table[:4], **settings)
    drawn = ew.stability(model, table[:4], method="sampled", confidence=1 - 1e-6, rng=0, **settings)
    assert (exact.method == "cells").all()
    assert (drawn.lower <= exact.upper).all()
    assert (exact.lower <= drawn.upper).all()


def test_thresholds_that_a_short_cut_located_wrongly_are_noticed(monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.uniform(0, 10, (200, 2))
    scaled = ColumnTransformer([("s", StandardScaler(), [0])], remainder="passthrough")
    model = make_pipeline(scaled, RandomForestClassifier(5, random_state=0)).fit(table, table.sum(axis=1) > 10)
    settings = {"sensitive": 0, "mechanisms": "pm", "epsilons": [1.0], "domain": {"x0": (0, 10)}}
    assert (ew.stability(model, table[:3], **settings).method == "cells").all()
    exact = Branch.__call__
    monkeypatch.setattr(
        Branch, "__call__", lambda self, values: exact(self, np.where(values > 1e3, values, 2 * values))
    )
    monkeypatch.setattr(steps_before, "_same", lambda branch, handed: True)
    assert (ew.stability(model, table[:3], rng=0, **settings).method == "sampled").all()


@pytest.mark.parametrize(("scaler", "flag"), [(StandardScaler(), "with_std"), (RobustScaler(), "with_scaling")])
def test_what_a_transform_asks_after_fitting_counts(scaler, flag):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(0, 3.5, 400), rng.lognormal(3, 1, 400)])
    labels = table[:, 0] + 0.02 * table[:, 1] + 0.3 * rng.normal(size=400) > 2.3
    model = make_pipeline(scaler, LogisticRegression()).fit(table, labels)
    model[0].set_params(**{flag: False})
    settings = {"sensitive": 0, "mechanisms": "pm", "epsilons": [2.0], "domain": {"x0": (0, 3.5)}}
    exact = ew.stability(model, table[:5], **settings)
    drawn = ew.stability(model, table[:5], method="sampled", confidence=1 - 1e-6, rng=0, **settings)
    assert (exact.method == "lattice").all()
    assert (drawn.lower <= exact.upper).all()
    assert (exact.lower <= drawn.upper).all()


def test_numbers_in_a_column_of_objects_stay_objects():
    """An encoder that was fitted on objects compares objects; randomised response in closed form."""
    table = pd.DataFrame({"grade": pd.Series([0, 1, 2] * 20, dtype=object)})
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(table, [0, 1, 1] * 20)
    found = ew.stability(
        model, table[:2], sensitive="grade", mechanisms="krr", epsilons=[1.0], domain={"grade": [0, 1, 2]}
    )
    own = np.e / (np.e + 2)
    assert found.lower.ravel() == pytest.approx([own, own + (1 - own) / 2], abs=1e-9)


def test_steps_that_answer_by_the_batch_are_not_read():
    table = np.random.default_rng(0).normal(size=(20, 2))
    centred = FunctionTransformer(lambda rows: rows - rows.mean(axis=0))
    before = Preprocessing((centred.fit(table),), Columns.of_records(2))
    assert not before.row_by_row(before(table), lambda row: table[[row]])
    steady = Preprocessing((StandardScaler().fit(table),), Columns.of_records(2))
    assert steady.row_by_row(steady(table), lambda row: table[[row]])


def test_the_centre_of_components_is_not_certain_behind_a_step():
    """Rounding of sums, which differs alone and among others, on the threshold of public components."""
    rng = np.random.default_rng(0)
    public = rng.integers(0, 4, (300, 5)).astype(float)
    public = np.vstack([public, 3 - public])
    table = np.column_stack([rng.uniform(size=600), public])
    prepare = ColumnTransformer(
        [("s", StandardScaler(), [0]), ("p", make_pipeline(PCA(3), Binarizer()), [1, 2, 3, 4, 5])]
    )
    many = prepare.fit_transform(table)[:, 1:].sum(axis=1) > 1.5
    labels = np.where(many, table[:, 0] > 0.1, table[:, 0] > 0.6).astype(int)
    model = make_pipeline(prepare, DecisionTreeClassifier(random_state=0)).fit(table, labels)
    rows = np.vstack([[0.5, *[1.5] * 5], table[:60]])
    alone = np.array([model.predict(row[np.newaxis])[0] for row in rows])
    if (alone == model.predict(rows)).all():
        pytest.skip("this machine adds up alike")
    found = ew.stability(model, rows, sensitive=[0], mechanisms="pm", epsilons=[1.0], rng=0, tolerance=0.1)
    assert found.confidence < 1


ALONE = {
    "scaler": (StandardScaler(), True),
    "logarithm": (FunctionTransformer(np.log1p), True),
    "components": (PCA(1), False),
    "within": (make_pipeline(StandardScaler(), FeatureUnion([("a", StandardScaler()), ("b", PCA(1))])), False),
    "own function": (FunctionTransformer(np.cumsum), False),
    "own function as a ufunc": (FunctionTransformer(np.frompyfunc(float, 1, 1)), False),
    "of several at once": (FunctionTransformer(np.linalg._umath_linalg.inv), False),
}


@pytest.mark.parametrize("name", ALONE)
def test_only_steps_that_add_nothing_up_are_believed_to_take_rows_alone(name):
    step, expected = ALONE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = step.fit(np.random.default_rng(0).uniform(size=(3, 3)))
    assert row_by_row(fitted) == expected


def quantiles(knots, values):
    step = QuantileTransformer(n_quantiles=3).fit(np.arange(3.0)[:, np.newaxis])
    step.quantiles_, step.references_ = np.array(knots, dtype=float)[:, np.newaxis], np.array(values)
    return step


@pytest.mark.slow
def test_quantiles_have_an_order_where_doubles_beside_their_knots_do():
    """1,000 interpolations: whatever is said to have an order has it at the knots, beside them and between them."""
    rng, without = np.random.default_rng(0), 0
    for _ in range(1_000):
        knots = np.sort(rng.normal(size=5)) * 10 ** rng.uniform(-8, 8)
        step = quantiles(knots, [0, *np.sort(rng.uniform(size=3)), 1])
        points = [np.nextafter(knots, way) for way in (-np.inf, np.inf)] + [knots, rng.uniform(*knots[[0, -1]], 50)]
        falls = (np.diff(step.transform(np.sort(np.concatenate(points))[:, np.newaxis]), axis=0) < 0).any()
        order = stepped(step, Columns.of_records(1)).order[0]
        assert not (order and falls)
        without += not order
    assert 0 < without < 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a slope that overflows
        for knots in ([0, 1e-320, 1], [0, 2, 1]):
            assert stepped(quantiles(knots, [0, 0.5, 1]), Columns.of_records(1)).order[0] == 0
