"""Pictures of what was learnt: what is drawn is what the model says, and what cannot be drawn is refused first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from table_worlds import config, rows

from epsworth.learner import Classifier, LatticeConfig, learn_table, simulate
from epsworth.learner.figures import _colours, _edges, _points, plot_map, plot_scores


def learnt(d=2, **given):
    rng = np.random.default_rng(0)
    X = rng.random((20_000, d))
    asked = LatticeConfig(box=(0, 1), d=d, m=4, epsilon=3, **given)
    return Classifier.from_aggregate(simulate(asked, X, (X[:, 0] > 0.5).astype(int), rng))


@pytest.mark.parametrize(
    ("d", "given"),
    [(1, {}), (2, {}), (2, {"classes": (0, 1, 2)}), (2, {"mechanism": "cosine"}), (2, {"mechanism": "parity"})],
)
@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.cases(1)
def test_a_map_is_drawn(tmp_path, d, given, ending):
    plot_map(learnt(d, **given), tmp_path / f"map.{ending}", fakes=0)
    assert (tmp_path / f"map.{ending}").stat().st_size > 5000


def test_points_of_the_map_are_where_it_shows_them():
    model = learnt()
    X, shape = _points(model)
    assert X[0].tolist() == X.min(axis=0).tolist()  # the first one below, at the left
    assert X.reshape(*shape, 2)[0, -1].tolist() == [X[:, 0].max(), X[:, 1].min()]
    labels = model.numbers(X).reshape(shape)
    assert (labels[:, : shape[1] // 4] == 0).all()
    shown = _colours(labels, np.zeros(shape, dtype=bool))
    assert (_colours(labels, np.ones(shape, dtype=bool)) < shown - 0.05).any(axis=2).all()  # paler where not certified


def test_bins_end_where_the_model_puts_them():
    """Values on both sides of an edge have neighbouring bins: other scores, wherever the tables differ."""
    X, y = rows(20_000)
    model = learn_table(config(rounds="ramp"), X, y, 0, users=100_000)
    column, table = model.config.columns[1], model.scoring.tables[1]
    edges = _edges(column, model.knots[1])
    others = [50, None, 170, "nurse", 1]
    for k in range(1, len(edges) - 1):
        near = [[*others[:1], edges[k] + side * 1e-6, *others[2:]] for side in (-1, 1)]
        step = np.diff(model.decision_function(near))[0]
        assert step == pytest.approx(table[k, 1] - table[k, 0] - table[k - 1, 1] + table[k - 1, 0], abs=1e-9)


@pytest.mark.parametrize("given", [{}, {"prior": "balanced", "rounds": "linear"}])
@pytest.mark.slow
def test_scores_are_drawn(tmp_path, given):
    X, y = rows(2000)
    plot_scores(learn_table(config(**given), X, y, 0, users=100_000), tmp_path / "scores.png")
    assert (tmp_path / "scores.png").stat().st_size > 5000


@pytest.mark.slow
def test_a_map_of_many_features_is_refused_before_anything_is_written(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(words):
        return cli(*words.split())

    pl.DataFrame({"a": [0.1, 0.9] * 20, "b": [0.2] * 40, "c": [0.3] * 40, "y": [0, 1] * 20}).write_csv("t.csv")
    assert run("learn config c.json -b a=0:1 -b b=0:1 -b c=0:1 -e 2 --cells 2")[0] == 0
    assert run("learn report c.json t.csv r.ldp --target y")[0] == 0
    assert run("learn aggregate c.json r.ldp -o s.state")[0] == 0
    status, _, told = run("learn fit s.state m.learner --plot map.png")
    assert (status, told.count("\n")) == (2, 1)
    assert "one or two features" in told
    assert not Path("m.learner").exists()
    assert not Path("map.png").exists()
    assert run("learn config d.json -b a=0:1 -b b=0:1 -e 2 --cells 2")[0] == 0
    assert run("learn report d.json t.csv q.ldp --target y --again")[0] == 0
    assert run("learn aggregate d.json q.ldp -o q.state")[0] == 0
    assert run("learn fit q.state m.learner --plot map.png")[0] == 0
    assert Path("map.png").exists()
