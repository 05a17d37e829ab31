"""Thresholds are located to the last bit by the model's own comparison, and every record falls into one leaf a tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import epsworth as ew
from epsworth.utility.engines.cells import cells_for
from epsworth.utility.engines.trees import Sweep
from readings import tree_model

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(300, 3)) * [1.0, 1e4, 1e-6] + [0.0, -3e4, 1e-3]
LABELS = (TABLE[:, 0] + TABLE[:, 1] / 1e4 + TABLE[:, 2] * 1e6 > 998).astype(int)
SCALERS = {
    "none": [],
    "standard": [StandardScaler()],
    "clipping": [MinMaxScaler((-5, 100), clip=True)],
    "several": [RobustScaler(), None, MaxAbsScaler(), StandardScaler()],
}
every_scaling = pytest.mark.parametrize("name", SCALERS)
every_model = pytest.mark.parametrize("kind", [RandomForestClassifier(8), HistGradientBoostingClassifier(max_iter=8)])


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Histogram boosting starts threads for every call, which takes longer than its few rows."""
    with threadpool_limits(1):
        yield


def swept(name, kind, positions=(0, 2)):
    fitted = make_pipeline(*SCALERS[name], kind.set_params(random_state=0)).fit(TABLE, LABELS)
    return swept_again(tree_model(fitted), positions)


def swept_again(model, positions):
    def through(position, values):
        table = np.tile(TABLE[:1], (len(values), 1))
        table[:, position] = values
        return model.before(table)

    return Sweep.over(model, positions, through)


def left(model, position, natural, thresholds):
    table = np.tile(TABLE[:1], (len(natural), 1))
    table[:, position] = natural
    return model.turns_left(model.seen(model.before(table))[:, position], thresholds)


@every_scaling
@every_model
def test_edges_are_the_last_values_that_go_left(name, kind):
    sweep = swept(name, kind)
    for j, position in enumerate((0, 2)):
        nodes = np.flatnonzero(sweep.axis == j)
        assert nodes.size > 5
        edge, thresholds = sweep.edges[j][sweep.place[nodes]], sweep.model.threshold[nodes]
        assert np.isfinite(edge).all()
        assert left(sweep.model, position, edge, thresholds).all()
        assert not left(sweep.model, position, np.nextafter(edge, np.inf), thresholds).any()


@pytest.mark.parametrize("name", ["none", "standard", "clipping"])
def test_thresholds_that_no_number_reaches_are_at_infinity(name):
    """Boosters write 1e300, or infinity, where only missing values go the other way."""
    model = swept(name, HistGradientBoostingClassifier(max_iter=2)).model
    node = int(np.flatnonzero(model.feature == 0)[0])
    for threshold, edge in ((np.inf, np.inf), (-np.inf, -np.inf), (1e308, np.inf), (-1e308, -np.inf)):
        thresholds = model.threshold.copy()
        thresholds[node] = threshold
        sweep = swept_again(replace(model, threshold=thresholds), [0])
        assert sweep.edges[0][sweep.place[node]] == edge
    clipped = name == "clipping"
    thresholds[node] = 200.0  # above all clipped values
    sweep = swept_again(replace(model, threshold=thresholds), [0])
    assert np.isinf(sweep.edges[0][sweep.place[node]]) == clipped


@every_scaling
@every_model
def test_every_record_falls_into_one_leaf_of_each_tree(name, kind):
    sweep = swept(name, kind)
    model, given = sweep.model, sweep.model.before(TABLE[:20])
    for row, expected, seen in zip(TABLE, model.scores(given), model.seen(given), strict=False):
        leaves = sweep.leaves(model.turns_left(seen[model.feature], model.threshold))
        for found in (leaves, leaves.compact()):
            at = np.array([np.searchsorted(edges, row[p]) for edges, p in zip(found.edges, (0, 2), strict=True)])
            inside = ((at >= found.low.T) & (at <= found.high.T)).all(axis=1)
            assert (np.add.reduceat(inside.astype(int), found.starts) == 1).all()
            assert (model.values[found.node[inside]].sum(axis=0) + model.offset) == pytest.approx(expected, abs=1e-12)


def one_of_two(factor, model):
    table = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    pipeline = make_pipeline(StandardScaler(with_mean=False), model).fit(table, table[:, 0] > 0.2)
    pipeline[0].scale_ *= [factor, 1]
    return pipeline, table


every_tree = pytest.mark.parametrize("model", [DecisionTreeClassifier(max_depth=3), RandomForestClassifier(3)])


@pytest.mark.parametrize("factor", [np.nan, np.inf])
@every_tree
def test_trees_behind_a_scaler_that_keeps_no_order_are_black_boxes(model, factor):
    pipeline, _ = one_of_two(factor, model.set_params(random_state=0))
    found = ew.radius(pipeline, [0.9, 0.0], rng=0)
    assert (found.method, found.lower) == ("sampled", 0.0)
    assert ew.safe_box(pipeline, [0.9, 0.0], sensitive=0, domain={0: (-1, 1)}, rng=0).confidence < 1


@every_tree
def test_a_falling_scaler_turns_left_into_right(model):
    """Every cell's label is that of points in it, on its edges and right beside them."""
    pipeline, table = one_of_two(-1.0, model.set_params(random_state=0))
    found = cells_for(ew.Problem.of(pipeline, table[:5], sensitive=[0, 1], mechanisms="pm", epsilons=[1.0], y=None,
                          domain={0: (-1, 1), 1: (-1, 1)}))  # fmt: skip
    rng = np.random.default_rng(0)
    for cells in found.of(range(5)):
        sides = [np.concatenate([e[1:-1], np.nextafter(e[1:-1], np.inf), rng.uniform(-2, 2, 40)]) for e in cells.edges]
        points = np.column_stack([rng.choice(side, 400) for side in sides])
        at = [np.searchsorted(e, x) - 1 for e, x in zip(cells.edges, points.T, strict=True)]
        np.testing.assert_array_equal(cells.table.kinds[cells.table.labels[tuple(at)]], pipeline.predict(points))
    point = np.array([0.9, 0.0])
    distance = ew.radius(pipeline, point, rng=0)
    assert distance.lower <= distance.upper < np.inf
    inside = point + distance.lower * 0.999 * rng.uniform(-1, 1, (2000, 2)) / np.sqrt(2)
    assert (pipeline.predict(inside) == pipeline.predict([point])).all()


def test_a_scaler_that_rises_from_a_huge_factor_or_shift_is_no_black_box():
    table = np.random.default_rng(0).uniform(-1, 1, (200, 2)) * 1e30 + 1e31
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)).fit(table, table[:, 0] > 1e31)
    assert tree_model(pipeline) is not None
