"""A problem is of its moment: refused where the classifier or the table answers otherwise; it tells no values."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from epsworth.numerals import short
from epsworth.utility.panels import panels_of
from epsworth.utility.run import Run

X = np.random.default_rng(0).random((60, 3))
Y = X.sum(axis=1) > 1.5
ASKED = {"sensitive": [0, 1], "mechanisms": "krr:k=17", "epsilons": [2.0]}


def forest(labels=Y):
    return RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, labels)


def test_a_model_that_is_fitted_again_makes_no_parts(tmp_path):
    model = forest()
    problem = ew.Problem.of(model, X, **ASKED)
    whole = ew.stability_in_parts(problem, tmp_path / "parts").average()
    assert whole.lower.item() > 0.5
    model.fit(X, ~Y)
    with pytest.raises(ValueError, match="answers otherwise than when the problem was made"):
        ew.stability_in_parts(problem, tmp_path / "others")
    assert not (tmp_path / "others").exists()


def test_a_table_that_is_changed_makes_no_parts(tmp_path):
    table = X.copy()
    problem = ew.Problem.of(forest(), table, **ASKED)
    table[:] = 0.99
    with pytest.raises(ValueError, match="the table was changed; make the problem anew"):
        ew.stability_in_parts(problem, tmp_path / "parts")


def test_pages_say_that_a_model_was_fitted_again():
    model = forest()
    problem = ew.Problem.of(model, X, **ASKED)
    curves = Run.of(rng=0).curves(problem)
    model.fit(X, ~Y)
    around = panels_of(curves, problem, X)
    assert (around.map, around.box, around.split) == (None, None, None)
    assert "answers otherwise" in around.notes[-1]


def test_pages_are_about_the_problem_that_the_curves_answer():
    problem, other = (ew.Problem.of(forest(), X, **ASKED | {"sensitive": columns}) for columns in ([0, 1], [0, 2]))
    curves = Run.of(rng=0).curves(problem)
    with pytest.raises(ValueError, match="the curves answer a problem of other features, records or labels"):
        panels_of(curves, other, X)
    with pytest.raises(TypeError, match="give curves, their problem, its table, in this order"):
        panels_of(problem, curves, X)
    with pytest.raises(ValueError, match="record must be a whole number from 0 to 59"):
        panels_of(curves, problem, X, record=1.5)


def test_no_value_of_a_table_is_shown():
    problem = ew.Problem.of(forest(), X[:2], **ASKED)
    assert repr(problem) == "<Problem: 1 mechanisms x 1 epsilons x 2 records; sensitive: x0, x1>"
    assert short(X) == "ndarray of shape (60, 3)"
    for call in (
        lambda: ew.stability_in_parts(X, "f"),
        lambda: ew.Problem.of(forest(), X, sensitive=X),
        lambda: ew.stability(forest(), X, **ASKED, confidence=X),
        lambda: ew.stability(forest(), X, **ASKED, n_jobs=X),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert str(X[0, 0])[:6] not in str(caught.value)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.longdouble])
def test_a_confidence_of_any_kind_of_float_is_taken(kind):
    curves = ew.stability(forest(), X[:2], **ASKED, confidence=kind(0.5), tolerance=kind(0.25), at_least=kind(0.75))
    assert curves.lower.shape == (1, 1, 2)


def test_runs_that_begin_at_once_share_the_first_ones_seeds(tmp_path):
    """Eight of them on a folder that is not there, without a seed: one set of bits."""
    asked = {"sensitive": [0], "mechanisms": "pm", "epsilons": [1.0], "tolerance": 0.2}
    found, start = [None] * 8, threading.Barrier(8)

    def run(number):
        start.wait()
        found[number] = ew.stability(
            lambda rows: rows[:, 0] + rows[:, 1] > 1, X[:3], **asked, checkpoint=tmp_path / "run"
        )

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is not None for one in found)
    assert all(np.array_equal(one.lower, found[0].lower) for one in found)
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".")] == []
