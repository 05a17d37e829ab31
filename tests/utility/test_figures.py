"""Pictures of curves: nothing hides, and what is drawn is what was computed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_curves import exact_curves
from matplotlib.figure import Figure

import epsworth as ew
from epsworth.drawing import apart, line, marked
from epsworth.utility.figures import TOGETHER, plot_curves

EPSILONS = [1, 2, 4]


def curves_of(count, records=1):
    lower = [[[0.55 + 0.1 * e + 0.01 * m] * records for e in range(3)] for m in range(count)]
    return exact_curves([f"m{m}" for m in range(count)], EPSILONS, lower)


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_lines_are_guaranteed_bounds_at_the_epsilon_of_a_record():
    model = ew.as_classifier(lambda X: X[:, 0] + X[:, 1] > 1)
    curves = ew.stability(
        model, [[0.2, 0.3]], sensitive=[0, 1], mechanisms=["pm"], per="feature", epsilons=EPSILONS, rng=0
    )
    axes = curves.plot()
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [2, 4, 8])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), curves.lower[0, :, 0])
    assert (curves.lower < curves.upper).all()
    assert axes.get_xlabel() == "epsilon per record"
    assert not axes.child_axes


def test_a_few_lines_are_named_at_their_ends_and_no_name_covers_another():
    axes = curves_of(TOGETHER).plot()
    names = [text for text in axes.texts if text.get_text().startswith("m")]
    assert [text.get_text() for text in names] == [f"m{m}" for m in range(TOGETHER)]
    heights = sorted(text.get_position()[1] for text in names)
    tall = axes.get_window_extent().height * 72 / axes.figure.dpi  # points
    assert all((b - a) * tall >= names[0].get_fontsize() for a, b in pairwise(heights))


def test_more_lines_have_a_panel_each_within_the_same_axes():
    curves = curves_of(TOGETHER + 2)
    axes = curves.plot()
    panels = axes.child_axes
    assert [panel.get_title(loc="left") for panel in panels] == list(curves.mechanisms)
    for m, panel in enumerate(panels):
        own = [drawn for drawn in panel.lines if drawn.get_label() == f"m{m}"]
        np.testing.assert_array_equal(own[0].get_ydata(), curves.select("average").lower[m])
        assert len(panel.lines) == TOGETHER + 2  # the others behind it


@pytest.mark.parametrize("count", [2, TOGETHER + 1])
def test_what_was_asked_for_and_the_choice_are_drawn(count):
    curves = curves_of(count, records=2)
    found = ew.recommend(curves, at_least=0.6)
    axes = curves.plot(recommended=found)
    panels = axes.child_axes or [axes]
    for panel in panels:
        assert any(list(drawn.get_ydata()) == [0.6, 0.6] for drawn in panel.lines)
    rings = [drawn for panel in panels for drawn in panel.lines if drawn.get_markerfacecolor() == "none"]
    (ring,) = rings
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (found.choice.guarantee.epsilon, found.choice.lower)
    elsewhere = curves.plot(on="worst", recommended=found)  # another view: the choice was not made there
    assert not [d for p in (elsewhere.child_axes or [elsewhere]) for d in p.lines if d.get_markerfacecolor() == "none"]


def test_words_beside_the_lines():
    curves = curves_of(1, records=2)
    found = ew.recommend(curves, at_least=0.6)
    assert {"asked for: 0.6", f"m0, epsilon {found.choice.guarantee.epsilon:g}"} <= set(
        words(curves.plot(recommended=found))
    )
    assert "asked for: 0.6" not in words(curves.plot())


def test_lines_differ_without_their_colours():
    assert len({str(line(m)["linestyle"]) + marked(m, 9)["marker"] for m in range(TOGETHER)}) == TOGETHER
    assert len({str(line(m)) for m in range(35)}) == 35


@pytest.mark.parametrize("epsilons", [[1.0], [0.01, 1.0, 10.0]])
@pytest.mark.cases(1)
def test_one_epsilon_and_far_ones(epsilons, tmp_path):
    curves = exact_curves(["pm"], epsilons, [[[0.5]] * len(epsilons)])
    axes = curves.plot()
    assert axes.get_xscale() == ("log" if len(epsilons) > 1 else "linear")
    plot_curves(curves, tmp_path / "c.png", on=[0])
    assert (tmp_path / "c.png").stat().st_size > 1000


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.3)), min_size=1, max_size=6))
def test_names_move_apart(things):
    places, sizes = zip(*things, strict=True)
    moved = apart(places, sizes, 0.0, 1.0)
    order = sorted(range(len(moved)), key=lambda i: moved[i])
    for i, j in pairwise(order):
        assert moved[j] - moved[i] >= (sizes[i] + sizes[j]) / 2 - 1e-12
    assert max(moved) <= 1.0
    if sum(sizes) <= 1:
        assert min(moved) >= -1e-12


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda figure: figure, "a Figure"),
        (lambda figure: figure.subfigures(1, 2)[0], "a SubFigure"),
        (lambda figure: figure.subplots(1, 2), "a ndarray"),
        (lambda figure: list(figure.subplots(1, 2)), "a list"),
        (lambda figure: "x", "a str"),
        (lambda figure: figure.subplots(subplot_kw={"projection": "polar"}), "polar axes"),
        (lambda figure: figure.add_subplot(projection="3d"), "3d axes"),
    ],
)
def test_what_no_band_can_be_drawn_on_is_refused(made, told):
    pytest.importorskip("mpl_toolkits.mplot3d")
    with pytest.raises(TypeError, match=f"^ax must be matplotlib Axes with two straight axes, got {told}$"):
        curves_of(2).plot(made(Figure()))
    figure = Figure()
    assert curves_of(2).plot(figure.subplots()).figure is figure
