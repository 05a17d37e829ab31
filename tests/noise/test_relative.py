"""The best mechanism under a relative error: against a plain program, its promise in integers, its draws, its floor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from epsworth import noise
from epsworth.client.kernels import WORD, exp_below
from epsworth.mechanisms.words import NotPrivate, ReplayableWords
from epsworth.noise import relative
from epsworth.noise.regions import region
from epsworth.noise.relative import best_relative


def asked(theta=0.2, offset=1.0, answers=range(9)):
    return region("relative", theta, offset=offset, answers=answers)


def least_outside(where, epsilon, delta, sensitivity=1.0, *, rounded=False):
    """Return the least largest chance outside, of all tables on all ends of regions: a program without a trick.

    Compared are answers on the list that are neighbours or, ``rounded``, those that neighbours are rounded to.
    """
    values = where.answers
    low, high = where.ends(values)
    points = np.unique(np.concatenate([low, high]))
    n, c = values.size, points.size
    inside = (low[:, None] <= points) & (points <= high[:, None])
    pairs = [(i, j) for i in range(n) for j in range(n) if 0 < abs(values[i] - values[j]) <= sensitivity * (1 + 1e-12)]
    if rounded:
        pairs = np.searchsorted(values, where.pairs(sensitivity)).T.tolist()
    size = n * c + len(pairs) * c + 1
    rows, bounds = [], []
    for k, (i, j) in enumerate(pairs):
        for at in range(c):
            row = np.zeros(size)
            row[i * c + at], row[j * c + at], row[n * c + k * c + at] = 1.0, -math.exp(epsilon), -1.0
            rows.append(row)
            bounds.append(0.0)
        row = np.zeros(size)
        row[n * c + k * c : n * c + (k + 1) * c] = 1.0
        rows.append(row)
        bounds.append(delta)
    for i in range(n):
        row = np.zeros(size)
        row[i * c : (i + 1) * c], row[-1] = ~inside[i], -1.0
        rows.append(row)
        bounds.append(0.0)
    sums = np.zeros((n, size))
    for i in range(n):
        sums[i, i * c : (i + 1) * c] = 1.0
    cost = np.zeros(size)
    cost[-1] = 1.0
    return linprog(cost, A_ub=np.array(rows), b_ub=bounds, A_eq=sums, b_eq=np.ones(n)).fun


@pytest.mark.parametrize(
    ("theta", "offset", "answers", "failing", "delta", "sensitivity"),
    [
        (0.2, 0.3, range(7), 0.1, 0.0, 1.0), (0.2, 1.0, range(8), 0.1, 1e-3, 1.0), (0.0, 1.2, range(8), 0.2, 0.0, 2.0),
        (0.3, 0.7, (0, 0.5, 1, 1.5, 2.5, 3, 3.5), 0.05, 0.02, 1.0), (0.1, 1.0, range(2, 8), 0.1, 0.0, 1.0),
    ],
)  # fmt: skip
def test_no_table_on_all_points_costs_less(theta, offset, answers, failing, delta, sensitivity):
    where = asked(theta, offset, answers)
    best = best_relative(where, failing, sensitivity, delta)

    def excess(epsilon, rounded):
        return least_outside(where, epsilon, delta, sensitivity, rounded=rounded) - failing

    listed, kept = (brentq(excess, 1e-3, 10.0, args=(rounded,), rtol=1e-9) for rounded in (False, True))
    assert listed * (1 - 1e-3) <= best.floor <= listed * (1 + 1e-7)
    assert kept * (1 - 1e-7) <= best.noise.epsilon(delta) <= kept * 1.0025
    for epsilon in (0.7 * listed, listed, 1.2 * listed):  # what is proved to fail, too
        outside = least_outside(where, epsilon, delta, sensitivity, rounded=False)
        proved = failing * relative._proved(relative._first(where, sensitivity), epsilon, failing, delta)
        assert outside * (1 - 1e-3) <= proved <= outside * (1 + 1e-7)


@settings(max_examples=6, deadline=None)
@given(
    theta=st.just(0) | st.floats(0.01, 0.6), offset=st.floats(0.2, 4), count=st.integers(2, 14),
    failing=st.floats(0.01, 0.4), delta=st.sampled_from([0.0, 1e-6, 0.01]), sensitivity=st.sampled_from([1, 2, 2.5]),
)  # fmt: skip
def test_whole_weights_keep_what_is_said(theta, offset, count, delta, failing, sensitivity):
    where = asked(theta, offset, range(count))
    best = best_relative(where, failing, sensitivity, delta)
    table, epsilon = best.noise, best.noise.epsilon(delta)
    bound = exp_below(Fraction(epsilon)) if epsilon else 1
    rows = [table.weights[row] for row in table.row]
    for i, first in enumerate(rows):
        assert sum(first) == WORD
        low, high = where.ends(float(i))
        held = sum(w for w, y in zip(first, table.outputs, strict=True) if low <= y <= high)
        assert Fraction(held, WORD) >= Fraction(table.confidence) >= 1 - Fraction(failing)
        for j, second in enumerate(rows):
            if 0 < abs(i - j) <= sensitivity:
                slack = sum(max(a - bound * b, 0) for a, b in zip(first, second, strict=True))
                assert Fraction(slack, WORD) <= Fraction(delta) * (1 + Fraction("1e-12"))
    assert best.floor <= epsilon


def test_neighbours_that_rounding_makes_are_compared():
    """The answers 6.4 and 6.6 are rounded to 3 and 10."""
    where = asked(0.1, 1.0, (0, 1, 2, 3, 10, 11, 12))
    table = best_relative(where, 0.1, 1.0, 0.0).noise
    three, ten = (table.weights[table.row[table.answers.index(answer)]] for answer in (3, 10))
    assert max(math.log(a / b) for a, b in zip(three, ten, strict=True)) <= table.pure_epsilon


RANKED = noise.cheapest(0.2, confidence=0.9, delta=1e-6, region="relative", offset=2, answers=range(31))


def test_the_best_leads_the_list_and_says_that_none_is_below():
    best = RANKED[0]
    assert best.name == "optimal" == RANKED.taken.name
    assert best.epsilon < 0.5 * RANKED.named("staircase").epsilon  # answers beside zero have no neighbour below
    assert RANKED.floor <= best.epsilon <= 1.002 * RANKED.floor
    assert "no mechanism costs less than" in RANKED.advice


def test_more_answers_cost_no_less():
    costs = [best_relative(asked(0.2, 2.0, range(count)), 0.1, 1.0, 0.0).floor for count in (6, 12, 24)]
    assert costs == sorted(costs)


def test_one_output_in_all_regions_costs_nothing():
    best = best_relative(asked(1.5, 1.0, range(20)), 0.1, 1.0, 0.0)
    assert (best.noise.epsilon(0.0), best.floor, best.noise.confidence, len(best.noise.outputs)) == (0.0, 0.0, 1.0, 1)


@pytest.mark.slow
def test_several_releases_add_up_without_a_delta_and_are_left_out_with_one():
    question = {"confidence": 0.9, "region": "relative", "offset": 2, "answers": range(8)}
    once = noise.cheapest(0.2, delta=0, **question)
    five = noise.cheapest(0.2, delta=0, releases=5, **question)
    assert five.named("optimal").epsilon == pytest.approx(5 * once.named("optimal").epsilon, rel=1e-9)
    assert once.floor > 0 == five.floor  # several releases may be drawn together
    other = noise.cheapest(0.2, delta=1e-6, releases=5, **question)
    assert "one release, or without a delta" in other.left_out["optimal"]
    assert other.floor == 0


def test_where_the_program_is_too_large_it_is_left_out():
    assert best_relative(asked(0.1, 40.0, range(3000)), 0.05, 1.0, 0.0).noise is None
    ranked = noise.cheapest(0.1, confidence=0.95, delta=0, region="relative", offset=40, answers=range(600))
    assert "a coarser or shorter list" in ranked.left_out["optimal"]


def test_regions_of_decimals_meet_where_decimals_do():
    """Steps of a tenth: the doubles 0.3 - 0.1 and 0.2 differ."""
    tenths = best_relative(asked(0.0, 0.1, [i / 10 for i in range(9)]), 0.1, 0.1, 0.0)
    ones = best_relative(asked(0.0, 1.0, range(9)), 0.1, 1.0, 0.0)
    assert tenths.floor == pytest.approx(ones.floor, rel=1e-6)
    assert tenths.noise.pure_epsilon == pytest.approx(ones.noise.pure_epsilon, rel=1e-6)
    assert tenths.noise.confidence >= 0.9


def test_where_rounding_costs_more_than_it_saves_the_table_is_left_out():
    ranked = noise.cheapest(2, confidence=0.9, delta=0, region="relative", offset=2, answers=[0, 1, 10, 20])
    assert ranked[0].name == "optimal" or "give a finer list" in ranked.left_out["optimal"]
    ranked = noise.cheapest(0, confidence=0.9, delta=0, region="relative", offset=2, answers=[0, 1, 10])
    assert ranked[0].name == "staircase"
    assert "which does not round to the list, costs less" in ranked.left_out["optimal"]


def test_draws_follow_the_weights():
    """100 000 replayable draws; every share within 5.5 standard errors: false-alarm rate about 1e-6."""
    table, n = RANKED.named("optimal").for_release(), 100_000
    drawn = np.asarray(table.draw(np.full(n, 7.2), words=ReplayableWords(4)))
    p = np.array(table.weights[table.row[7]]) / WORD
    shares = np.array([(drawn == output).mean() for output in table.outputs])
    assert (np.abs(shares - p) <= 5.5 * np.sqrt(p * (1 - p) / n) + 1e-4).all()
    low, high = RANKED.asked.region.ends(7.0)
    assert ((drawn >= low) & (drawn <= high)).mean() > 0.895


def test_releases_are_not_seeded_tests_are_marked_and_answers_beyond_the_list_are_refused():
    table = RANKED.named("optimal").for_release()
    assert not np.array_equal(table.draw(np.full(400, 5)), table.draw(np.full(400, 5)))
    assert isinstance(table.draw([3], words=ReplayableWords(1)), NotPrivate)
    for answer in (-1, 30.5, math.nan):
        with pytest.raises(ValueError, match="answers must"):
            table.draw([answer])


def test_a_table_is_read_back_and_others_are_refused(tmp_path):
    table, path = RANKED.named("optimal").for_release(), tmp_path / "table.json"
    table.save(path)
    read = noise.AnswerTable.load(path)
    assert (read.weights, read.epsilon(1e-6)) == (table.weights, table.epsilon(1e-6))
    text = path.read_text()
    first = str(table.weights[0][0])
    changed = [
        (first, str(int(first) + 1)),
        (first, "0"),
        ('"row": [0', '"row": [99'),
        ('"outputs": [', '"outputs": ["a", '),
    ]
    for wrong in ("{}", "[]", *(text.replace(old, new, 1) for old, new in changed)):
        assert wrong != text
        path.write_text(wrong)
        with pytest.raises(ValueError, match="noise table"):
            noise.AnswerTable.load(path)


def test_the_law_has_the_table_s_moments():
    choice = RANKED.named("optimal")
    law, table = choice.law([4.0, 20.0]), choice.noise
    outputs = np.array(table.outputs)
    for k, answer in enumerate((4, 20)):
        p = np.array(table.weights[table.row[answer]]) / WORD
        mean = p @ outputs
        assert law.mean()[k] == pytest.approx(mean)
        assert law.var()[k] == pytest.approx(p @ (outputs - mean) ** 2)
        assert law.mean_square()[k] == pytest.approx(p @ (outputs - answer) ** 2)
        assert law.mass(outputs[2], outputs[5])[k] == pytest.approx(p[2:6].sum())
        assert law.pmf(outputs[3])[k] == pytest.approx(p[3])
    u = (np.arange(4000) + 0.5) / 4000
    drawn = choice.law(4.0).from_uniform(u)
    p = np.array(table.weights[table.row[4]]) / WORD
    assert np.allclose([(drawn == output).mean() for output in outputs], p, atol=1 / 4000)


@pytest.mark.parametrize("order", [1.5, 4.0, 30.0])
def test_renyi_divergences_are_sums_and_never_below_them(order):
    table = RANKED.named("optimal").noise
    worst = 0.0
    for i, first in enumerate(table.row):
        for second in {table.row[j] for j in (i - 1, i + 1) if 0 <= j < len(table.row)} - {first}:
            p, q = np.array(table.weights[first]) / WORD, np.array(table.weights[second]) / WORD
            worst = max(worst, math.log(math.fsum(p**order * q ** (1 - order))) / (order - 1))
    assert worst <= table.renyi(order) <= worst * (1 + 1e-9) + 1e-12


def test_points_are_drawn_as_densities():
    """A curve of zeros is none."""
    axes = RANKED.plot()
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert max(lines["optimal (advised)"]) > 0.01
