"""What a rule claims of a fitted transformer holds for the numbers that its ``transform`` computes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from epsworth.classifiers.pipeline import Preprocessing
from epsworth.classifiers.reading import adjacent_floats
from epsworth.classifiers.transformers import Columns, all_stepped, stepped

WIDTH = 5
RNG = np.random.default_rng(0)
TABLE = np.round(RNG.normal(size=(200, WIDTH)) * [1, 20, 1e-3, 1e4, 2] + [0, 40, 1, -3e4, 0], 6)
TABLE[:, 4] = RNG.integers(-2, 3, 200)
GAPS = TABLE.copy()
GAPS[RNG.random(TABLE.shape) < 0.1] = np.nan
LABELS = (TABLE[:, 1] + TABLE[:, 3] / 1e3 > 10).astype(int)


class Doubled(TransformerMixin, BaseEstimator):
    """Somebody's own."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.column_stack([2 * X, X])


STEPS = {
    "standard": StandardScaler(),
    "clipping": MinMaxScaler((-1, 1), clip=True),
    "largest": MaxAbsScaler(),
    "robust": RobustScaler(),
    "imputer": SimpleImputer(),
    "imputer of zeros": SimpleImputer(missing_values=0, strategy="median"),
    "imputer with indicator": SimpleImputer(strategy="constant", fill_value=-7, add_indicator=True),
    "indicator": MissingIndicator(features="all"),
    "indicator of zeros": MissingIndicator(missing_values=0, features="all"),
    "imputer of zeros with indicator": SimpleImputer(missing_values=0, strategy="median", add_indicator=True),
    "neighbours": KNNImputer(add_indicator=True),
    "binarizer": Binarizer(threshold=0.5),
    "bins": KBinsDiscretizer(4, encode="ordinal", strategy="uniform"),
    "one-hot bins": KBinsDiscretizer(4, encode="onehot", strategy="uniform"),
    "dense bins": KBinsDiscretizer(2, encode="onehot-dense", strategy="uniform"),
    "normalizer": Normalizer(),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "powers": PowerTransformer(),
    "splines": SplineTransformer(4, extrapolation="constant"),
    "one-hot": OneHotEncoder(handle_unknown="ignore", drop="if_binary", max_categories=4),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "targets": TargetEncoder(random_state=0),
    "best": SelectKBest(k=2),
    "percentile": SelectPercentile(percentile=60),
    "varying": VarianceThreshold(0.01),
    "components": PCA(3),
    "white components": PCA(2, whiten=True),
    "singular": TruncatedSVD(2),
    "polynomials": PolynomialFeatures(2),
    "interactions": PolynomialFeatures(3, interaction_only=True, include_bias=False),
    "identity": FunctionTransformer(),
    "ufunc": FunctionTransformer(np.arctan),
    "function": FunctionTransformer(lambda X: X * X[:, :1], feature_names_out="one-to-one"),
    "pipeline": make_pipeline(SimpleImputer(), "passthrough", StandardScaler(), MinMaxScaler((2, 5))),
    "union": FeatureUnion(
        [("a", StandardScaler()), ("same", "passthrough"), ("no", "drop"), ("b", PCA(2))],
        transformer_weights={"a": -2.0, "same": 0.5},
    ),
    "branches": ColumnTransformer(
        [
            ("bins", KBinsDiscretizer(3, strategy="uniform", encode="onehot"), slice(0, 1)),
            ("scaled", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), [3, 1]),
            ("own", Doubled(), [2, 4]),
            ("none", StandardScaler(), []),
            ("masked", MinMaxScaler(), np.array([True, False, False, False, False])),
            ("called", PCA(1), lambda X: [0, 1]),
        ],
        remainder="passthrough",
        transformer_weights={"scaled": 3.0},
    ),
    "nested branches": make_pipeline(
        ColumnTransformer(
            [
                ("inner", ColumnTransformer([("a", StandardScaler(), [1])], remainder="passthrough"), [0, 1, 3]),
                ("gone", "drop", [2]),
            ],
            remainder=RobustScaler(),
        ),
        SelectKBest(k=3),
        StandardScaler(),
    ),
}  # fmt: skip
GAPPY = {"imputer", "imputer with indicator", "indicator", "neighbours", "pipeline"}
pytestmark = pytest.mark.filterwarnings("ignore:Found unknown categories")


def fitted(name):
    step = STEPS[name]
    return step.fit(GAPS if name in GAPPY else TABLE, LABELS)


@pytest.fixture(scope="module", params=list(STEPS))
def read(request):
    step = fitted(request.param)
    found = stepped(step, Columns.of_records(WIDTH))
    assert isinstance(found, Columns), found
    return found, Preprocessing((step,), found)


def spread(seed, size=40):
    """Rows over and beyond the table's range, some numbers on its values."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, WIDTH)) * 3 * TABLE.std(axis=0) + TABLE.mean(axis=0)
    return np.where(rng.random(rows.shape) < 0.3, rng.permuted(TABLE, axis=0)[:size], rows)


def one_moved(rows, position, values):
    moved = rows.copy()
    moved[:, position] = values
    return moved


def test_every_column_that_is_handed_on_has_its_claims(read):
    found, handed = read
    assert handed(TABLE[:3]).shape == (3, len(found))
    assert found.lost.shape == found.order.shape == (len(found),)
    assert ((found.lost == "") | (found.order == 0)).all()
    assert ((found.uses.sum(axis=1) == 1) | (found.order == 0)).all()


def test_what_is_not_used_changes_nothing(read):
    found, handed = read
    rows, others = spread(1), spread(2)
    before = handed(rows).astype(np.float64)
    for position in range(WIDTH):
        after = handed(one_moved(rows, position, others[:, position])).astype(np.float64)
        unused = ~found.uses[:, position]
        np.testing.assert_allclose(before[:, unused], after[:, unused], rtol=1e-15, atol=0)


def test_orders_hold_to_the_last_bit(read):
    found, handed = read
    row = spread(3, 1)
    for position in range(WIDTH):
        far, near = spread(4, 60)[:, position], row[0, position] + np.arange(-40, 40) * np.spacing(row[0, position])
        moving = np.sort(np.concatenate([far, near, TABLE[:40, position], adjacent_floats(TABLE[:20, position])]))
        table = one_moved(row.repeat(len(moving), axis=0), position, moving)
        alone = found.depending_only_on(position)
        steps = np.diff(handed(table).astype(np.float64)[:, alone], axis=0)
        assert (steps * found.order[alone] >= 0).all()


def test_slopes_hold_within_the_rounding_of_their_terms(read):
    found, handed = read
    rows, others = spread(5), spread(6)
    before = handed(rows).astype(np.float64)
    for position in range(WIDTH):
        moved = one_moved(rows, position, others[:, position])
        known = np.isfinite(found.slopes[:, position]) & np.isfinite(found.terms).all(axis=1)
        change = handed(moved).astype(np.float64)[:, known] - before[:, known]
        expected = np.outer(moved[:, position] - rows[:, position], found.slopes[known, position])
        sizes = np.maximum(np.abs(rows), np.abs(moved)) @ found.terms[known].T + found.constants[known]
        assert (np.abs(change - expected) <= 64 * np.finfo(float).eps * sizes).all()


def test_gaps_in_public_columns_leave_the_numbers_of_others_as_they_are():
    step = fitted("pipeline")
    found = stepped(step, Columns.of_records(WIDTH))
    row = TABLE[:1].repeat(2, axis=0)
    row[1, 2] = np.nan
    handed = step.transform(row)
    np.testing.assert_array_equal(handed[0, ~found.uses[:, 2]], handed[1, ~found.uses[:, 2]])


def test_what_stands_in_the_way_is_named():
    steps = ColumnTransformer([("a", OneHotEncoder(handle_unknown="ignore"), [4]), ("b", PCA(1), [0, 1])],
                              remainder=StandardScaler()).fit(TABLE)  # fmt: skip
    found = Preprocessing((steps,), all_stepped([steps], Columns.of_records(WIDTH)), ("u", "v", "w", "x", "y"))
    assert found.obstacle([2, 3]) is None
    assert found.obstacle([4, 2]).startswith("OneHotEncoder keeps no order of the sensitive feature 'y'")
    assert found.obstacle([1]).startswith("PCA mixes the sensitive feature 'v' with other columns")


def test_somebodys_own_code_may_take_public_columns():
    steps = ColumnTransformer([("own", Doubled(), [0, 2])], remainder="passthrough").fit(TABLE)
    found = Preprocessing((steps,), all_stepped([steps], Columns.of_records(WIDTH)))
    assert found.obstacle([1, 3, 4]) is None
    assert found.obstacle([0]).startswith("Doubled mixes")


def test_selectors_by_kind_are_read_as_they_were_resolved():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": TABLE[:, 1], "sex": np.where(LABELS, "f", "m"), "pay": TABLE[:, 3]})
    steps = ColumnTransformer([("n", StandardScaler(), make_column_selector(dtype_include="number"))],
                              remainder=OneHotEncoder()).fit(frame)  # fmt: skip
    found = stepped(steps, Columns.of_records(3))
    assert found.order.tolist() == [1, 1, 0, 0]
    assert found.uses.argmax(axis=1).tolist() == [0, 2, 1, 1]
