"""Every answer of this part: printed, in a notebook, as JSON, drawn; what was spent travels with it."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.bounds import Overspent
from epsworth.results import Result


def step(Z):
    return Z[:, 0] + 0.2 * Z[:, 1] > 0.5


TABLE = np.array([[0.2, 0.7], [0.9, 0.1]])
LINEAR = LogisticRegression().fit([[0.0, 0.1], [1.0, 0.0], [0.2, 0.9]], [0, 1, 0])
CURVES = ew.stability(
    step, TABLE, sensitive=[0, 1], mechanisms=["pm", "gaussian"], epsilons=[1, 4], tolerance=0.05, rng=0
)
ANSWERS = {
    "curves": lambda: CURVES,
    "bounds": lambda: CURVES.stability,
    "recommendation": lambda: ew.recommend(CURVES, at_least=0.6),
    "no recommendation": lambda: ew.recommend(CURVES, at_least=0.999),
    "drawn box": lambda: ew.safe_box(step, TABLE[0], sensitive=[0, 1], rng=0),
    "certain box": lambda: ew.safe_box(LINEAR, TABLE[0], sensitive=[0, 1]),
    "drawn split": lambda: ew.split_budget(step, TABLE, sensitive=[0, 1], total=4.0, tolerance=0.1, rng=0),
    "certain split": lambda: ew.split_budget(LINEAR, TABLE, sensitive=[0, 1], total=4.0),
    "drawn radius": lambda: ew.radius(step, TABLE[0], rng=0),
    "certain radius": lambda: ew.radius(LINEAR, TABLE[0], norm="inf"),
    "unmoved radius": lambda: ew.radius(lambda Z: np.zeros(len(Z)), [1.0], rng=0),
}


@cache
def answer(name):
    return ANSWERS[name]()


def test_curves_that_would_not_be_read_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("epsworth.files.RESULT_BYTES", 1 << 8)
    with pytest.raises(ValueError, match=r"the bounds of 2 records would take more than .*; ask about fewer"):
        CURVES.save(tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_printed_shown_and_written(name, tmp_path):
    found = answer(name)
    assert isinstance(found, Result)
    assert "object at" not in str(found)
    assert len(found._repr_html_()) > len("<pre></pre>") + 20
    found.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(found.to_dict(), allow_nan=False))


@pytest.mark.parametrize("name", ["box", "split", "radius"])
def test_what_was_spent_travels_with_the_answer(name):
    """Certain where nothing was; and no answer claims more than what its bounds leave."""
    drawn, certain = answer(f"drawn {name}"), answer(f"certain {name}")
    assert (certain.spent, certain.confidence) == (0, 1)
    assert 0 < drawn.spent <= 1 - Fraction(drawn.confidence)
    assert drawn.confidence == 0.999
    for claimed, spent in ((drawn, 0.0011), (certain, 1e-300)):
        with pytest.raises(Overspent, match="cannot hold with confidence"):
            replace(claimed, spent=spent)


def test_a_notebook_shows_curves_as_tables():
    assert CURVES._repr_html_().count("<table>") == 2
    assert "<td>gaussian</td><td>0." in CURVES._repr_html_()


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_curves_become_a_table_of_all_their_bounds(library, monkeypatch):
    if library == "pandas":
        monkeypatch.setitem(sys.modules, "polars", None)
    curves = ew.stability(
        step, TABLE, sensitive=[0, 1], mechanisms=["pm", "krr:k=3"], epsilons=[1, 4], tolerance=0.05, rng=0, y=[0, 1]
    )
    few, every = curves.to_frame(), curves.to_frame(records=True)
    assert (type(few).__module__.partition(".")[0], len(few), len(every)) == (library, 16, 32)
    rows = {tuple(row[:3]): tuple(row[3:]) for row in (every.rows() if library == "polars" else every.to_numpy())}
    assert len(rows) == 32
    for of in ("stability", "accuracy"):
        for on, name in {"average": f"average {of}", "worst": f"worst {of}", 1: f"{of} of record 1"}.items():
            lower, upper = curves.select(on, of)
            for m, e in np.ndindex(2, 2):
                key = curves.mechanisms[m], curves.epsilons[e], name
                assert rows[key] == (lower[m, e], upper[m, e])


@pytest.mark.parametrize("model", [LINEAR, step])
def test_a_model_and_a_table_that_were_exchanged_are_said_to_be(model):
    frame = pl.DataFrame(TABLE, schema=["a", "b"])
    doors = (
        lambda X, m: ew.stability(X, m, sensitive=0),
        lambda X, m: ew.stability_of_policy(ew.Policy.of("pm", 1, {0: (0, 1)}), X, m),
        lambda X, m: ew.split_budget(X, m, sensitive=[0, 1], total=2.0),
        lambda X, m: ew.tailor(X, m, sensitive=[0], epsilon=1.0, public=True),
        lambda X, m: ew.safe_box(X, m, sensitive=[0]),
        lambda X, m: ew.radius(X, m),
        lambda X, m: ew.radii(X, m),
    )
    for door in doors:
        for table in (TABLE, TABLE.tolist(), frame, {"a": [0.2], "b": [0.7]}):
            with pytest.raises(TypeError, match="which looks like a table; give the classifier, then the table"):
                door(table, model)


def test_radii_say_what_is_proven_and_what_was_seen():
    certain, drawn = answer("certain radius"), answer("drawn radius")
    words = str(certain).replace(",", " ").replace(";", " ").split()
    shown = [float(word) for word in words if word.replace(".", "").isdigit()]
    assert shown[0] <= certain.lower <= certain.upper <= shown[1]
    assert "in norm inf over x0, x1 (linear)" in str(certain)
    assert str(drawn).startswith("Nothing is proven of every point; a point with another label lies at most")
    assert "At most 0.01 of the ball of radius" in str(drawn)
    assert str(drawn).endswith("with 99.9 % confidence.")
    assert "no point with another label was seen" in str(answer("unmoved radius"))
    assert "cannot change, however far x1 move" in str(replace(certain, features=("x1",), lower=math.inf))


def test_splits_say_with_which_confidence_and_what_they_promise():
    assert ", for certain; pure LDP, epsilon 4 per record." in str(answer("certain split"))
    assert ", with 99.9 % confidence; pure LDP" in str(answer("drawn split"))
    assert answer("certain split").to_dict()["guarantee"]["notion"] == "pure"


@pytest.mark.parametrize("on", ["average", "worst", 1])
def test_curves_draw_themselves_on_given_axes_or_new_ones(on):
    axes = CURVES.plot(on=on)
    assert axes.get_legend_handles_labels()[1] == ["pm", "gaussian (approximate, δ 0.0000199999)"]
    assert CURVES.plot(axes, on=on) is axes
    lower = CURVES.select(on).lower
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), lower[1])


@pytest.mark.parametrize(("name", "bars"), [("recommendation", 1), ("drawn split", 2)])
def test_choices_and_splits_draw_a_bar_each(name, bars):
    assert len(answer(name).plot().patches) == bars


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d["stability"]["lower"][0][0].__setitem__(0, 9.0), "stability: bounds must lie between 0 and 1"),
        (lambda d: d["stability"]["lower"][0][0].__setitem__(0, None), "stability: lower: an entry is of another kind"),
        (lambda d: d["stability"]["upper"][0][0].__setitem__(0, 0.0), "stability: bounds must lie between 0 and 1"),
        (lambda d: d["epsilons_per_record"].__setitem__(0, -1.0), "epsilons_per_record must be positive and increase"),
        (lambda d: d["epsilons_per_record"].reverse(), "epsilons_per_record must be positive and increase"),
        (lambda d: d["mechanisms"].__setitem__(1, d["mechanisms"][0]), "mechanisms names one twice"),
    ],
)
def test_saved_bounds_that_are_none_are_refused(spoil, says):
    curves = ew.stability(step, TABLE, sensitive=[0, 1], mechanisms=["pm", "krr:k=3"], epsilons=[1, 4], rng=0)
    document = json.loads(json.dumps(curves.to_dict()))
    assert ew.Curves.from_dict(document).mechanisms == ("pm", "krr:k=3")
    spoil(document)
    with pytest.raises(ValueError, match=f"damaged or incomplete .*({says})"):
        ew.Curves.from_dict(document)
