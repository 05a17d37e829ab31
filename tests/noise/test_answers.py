"""Rounding to a public list or lattice: every pair that it can reach is compared, nothing unrounded is drawn from."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epsworth import noise
from epsworth.noise.lattice import in_steps, spacing
from epsworth.noise.regions import region
from epsworth.noise.tuning import best_boosted, discrete_plain

UNEVEN = [0, 1, 2, 4, 8, 9, 10]
LISTS = st.lists(st.integers(0, 60), min_size=3, max_size=12, unique=True)


def listed(answers):
    return region("fixed", (min(answers) - 1, max(answers) + 1), answers=answers)


@cache
def ranking():
    return noise.cheapest(5, confidence=0.95, delta=1e-5)


def reachable(values, sensitivity):
    """All pairs, by trying answers at, next to and between the half-way points: no cell arithmetic."""
    cuts = [(Fraction(a) + Fraction(b)) / 2 for a, b in pairwise(values)]
    spots = [Fraction(values[0]), Fraction(values[-1]), *cuts, *(c - Fraction(1, 10**9) for c in cuts)]
    spots += [s + d for s in spots for d in (sensitivity, -sensitivity)]
    spots = [s for s in spots if values[0] <= s <= values[-1]]
    cell = {s: values[sum(s >= c for c in cuts)] for s in spots}
    near = [(a, b) for a in spots for b in spots if abs(a - b) <= sensitivity]
    return {(cell[a], cell[b]) for a, b in near} - {(v, v) for v in values}


@settings(max_examples=30)
@given(values=LISTS, quarters=st.integers(1, 80), more=st.sampled_from([-(2.0**-24), 0.0, 2.0**-24]))
@example(values=[0, 1, 2], quarters=4, more=2.0**-24)
def test_every_pair_that_rounding_can_reach_is_compared(values, quarters, more):
    """Cells are whole halves apart: a sensitivity of as much reaches no further one, and a little more does."""
    values, sensitivity = sorted(values), quarters / 4 + more
    if min(b - a for a, b in pairwise(values)) > sensitivity:
        with pytest.raises(ValueError, match="no two values within"):
            listed(values).pairs(sensitivity)
        return
    first, second = listed(values).pairs(sensitivity)
    assert set(zip(first, second, strict=True)) == reachable(values, Fraction(sensitivity))
    assert first.size == len(set(zip(first, second, strict=True)))


@pytest.mark.parametrize(("answers", "size", "pairs"), [
    (range(20), 1.5, [(0.4, 1.9), (10.0, 11.5)]), (UNEVEN, 1.0, [(3.0, 2.999), (6.0, 5.999)]),
])  # fmt: skip
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.cases(1)
def test_epsilon_holds_for_answers_between_the_listed_ones(answers, size, pairs, kernel):
    """Both orders, on the released laws themselves: their densities on a fine grid, no profile code."""
    found = best_boosted(kernel, region("relative", 0.2, offset=2, answers=answers), 0.1, size, 1e-5)
    epsilon, z = found.epsilon(1e-5), np.linspace(-60, 80, 100_001)
    for pair in pairs:
        one, other = (found.law(found.rounded(answer)).pdf(z) for answer in pair)
        assert (one != other).any()
        for p, q in ((one, other), (other, one)):
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (z[1] - z[0])
            assert delta <= 1.05e-5  # the grid's own error


def test_counts_on_an_even_list_pay_for_no_more_than_the_sensitivity():
    """Half-way answers go upwards everywhere, so whole multiples of the step move all answers by as many values."""
    for answers, size in (([i / 10 for i in range(30)], 0.1), (range(0, 40, 2), 4), (range(20), 3)):
        first, second = listed(answers).pairs(size)
        assert np.abs(first - second).max() == pytest.approx(size)
    public = listed([i / 10 for i in range(30)])
    assert list(public.rounded([0.15, 0.25, 0.35])) == [0.2, 0.3, 0.4]


DECIMAL = [([k / 10 for k in range(6)], 0.1), ([k / 10 for k in range(30)], 0.2), ([k / 10 for k in range(30)], 0.3),
           ([k * 0.1 for k in range(-30, 30)], 0.1), (list(range(20)), 1.0), ([1e7 + k / 100 for k in range(9)], 0.01),
           ([k / 3 for k in range(30)], 1 / 3), ([1e12 + k / 10 for k in range(9)], 0.1)]  # fmt: skip


@pytest.mark.parametrize(("values", "size"), DECIMAL)
def test_answers_a_sensitivity_apart_as_doubles_are_compared(values, size):
    """However the distance is measured: of the doubles, by a rounded difference, or by a rounded sum."""
    public, spots = listed(np.abs(values)), []
    values = public.answers
    for half in (values[:-1] + values[1:]) / 2:
        spots += [half]
        for towards in (-math.inf, math.inf):
            spot = half
            for _ in range(40):
                spot = math.nextafter(spot, towards)
                spots.append(spot)
    spots = np.concatenate([np.array(spots), public._cut_floats, np.nextafter(public._cut_floats, -math.inf)])
    spots = spots[(spots >= values[0]) & (spots <= values[-1])]
    compared = set(zip(*public.pairs(size), strict=True))
    near = [spots + size, np.nextafter(spots + size, -math.inf), np.nextafter(spots + size, math.inf)]
    for others in near:
        exact = [Fraction(y) - Fraction(x) <= Fraction(size) for x, y in zip(spots, others, strict=True)]
        kept = ((others - spots <= size) | (others == spots + size) | exact) & (others <= values[-1])
        assert kept.any() or others is near[2]  # which may all be further apart
        pairs = set(zip(public.rounded(spots[kept]), public.rounded(others[kept]), strict=True))
        assert {(a, b) for a, b in pairs if a != b} <= compared


@pytest.mark.parametrize("bits", [30, 33])
def test_a_rounded_difference_is_covered_where_lowered_cuts_are_not_enough(bits):
    """Next to a cut that is lowered, and one that is not: their distance rounds to the sensitivity, from above."""
    public = listed([0, 2**bits, 2**50])
    cuts, _, whole = public._cuts
    size = float(Fraction(cuts[1] - cuts[0], whole))
    low, high = np.nextafter(public._cut_floats[0], -math.inf), public._cut_floats[1]
    assert high - low == size < Fraction(float(high)) - Fraction(float(low))
    assert list(public.rounded([low, high])) == [0, 2**50]
    assert (0, 2**50) in set(zip(*public.pairs(size), strict=True))


@pytest.mark.parametrize(("values", "size"), DECIMAL[:7])
def test_even_lists_compare_no_more_than_the_sensitivity(values, size):
    first, second = listed(values).pairs(size)
    assert np.abs(first - second).max() == pytest.approx(size)


@given(st.integers(-(10**6), 10**6), st.sampled_from([0.1, 0.3, 0.7, 1.0, 1e-3, 1e7, 3e-50]), st.floats(-0.01, 0.01))
def test_answers_are_rounded_to_whole_steps_exactly(k, step, away):
    for answer in ((k + 0.5) * step, math.nextafter((k + 0.5) * step, -math.inf), (k + 0.5 + away) * step, k * step):
        exact = math.floor(Fraction(answer) / Fraction(step) + Fraction(1, 2))
        assert int(in_steps(answer, step)) == exact


def test_answers_one_sensitivity_apart_are_drawn_one_sensitivity_apart():
    """As quotients of doubles, 0.15 / 0.1 is below 1.5 and 0.25 / 0.1 is 2.5: two steps."""
    release = noise.release_of(discrete_plain("laplace", spacing(0.5, 0.1, 0.1), 0.05))
    index = release.index([0.15, 0.25])
    assert index[1] - index[0] <= release.shift == 1


@pytest.mark.slow
def test_discrete_rows_release_lattice_points_alone():
    ranked, rng = ranking(), np.random.default_rng(0)
    for name in ("discrete_gaussian", "discrete_laplace", "pb_discrete_gaussian", "pb_discrete_laplace"):
        choice = ranked.named(name)
        steps = choice.sample(np.full(200, 0.02), rng) / choice.noise.step
        np.testing.assert_array_equal(steps, np.round(steps))
        nearest, same = choice.law(0.02), choice.law(0.0)
        assert float(nearest.mean()) == float(same.mean())


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_boosted_draws_round_first(kernel):
    found = noise.boosted(kernel, scale=1e-9, region="relative", theta=0.1, offset=1.0, answers=UNEVEN, confidence=0.9)
    drawn = found.sample([0.4, 2.9, 3.0, 6.1], np.random.default_rng(0))
    np.testing.assert_allclose(drawn, [0, 2, 4, 8], atol=1e-6)


@pytest.mark.slow
def test_draws_for_analysis_take_a_generator_or_its_seed():
    stars = noise.channel(noise.windows(5, 1), 2.0, 1.0)
    for draw in (lambda r: ranking()[0].sample(1.0, r), lambda r: stars.draw([1, 2, 3], r)):
        np.testing.assert_array_equal(draw(5), draw(np.random.default_rng(5)))
        for rng in ("a", 1.5, True):
            with pytest.raises(TypeError, match=r"rng must be a numpy\.random.Generator or a seed"):
                draw(rng)


def refusals(ranked, answers, message):
    for choice in ranked:
        for ask in (choice.law, lambda value, c=choice: c.sample(value, np.random.default_rng(0))):
            with pytest.raises(ValueError, match=message) as refused:
                ask(answers)
            yield choice, str(refused.value)


@pytest.mark.parametrize(("theta", "words"), [
    (0.2, {"region": "relative", "offset": 2, "answers": range(10)}), ((0, 9), {"region": "fixed"}),
])  # fmt: skip
@pytest.mark.slow
def test_answers_beyond_the_public_list_are_refused_and_not_shown(theta, words):
    ranked = noise.cheapest(theta, confidence=0.9, delta=1e-5, method="published", **words)
    for answer in (-0.001, 9.001, 314159.0, math.nan, math.inf):
        for choice, sentence in refusals(ranked, [1.0, answer], "answers must"):
            assert "314159" not in sentence
            assert choice.sample([0.0, 4.7, 9.0], np.random.default_rng(0)).shape == (3,)


def test_answers_that_are_no_numbers_are_refused():
    for answer in (math.nan, math.inf, -math.inf):
        assert len(list(refusals(ranking(), answer, "answers must be finite"))) == 2 * len(ranking())
        with pytest.raises(ValueError, match="answers must be finite"):
            noise.boosted("discrete_laplace", scale=2.0).sample(answer, np.random.default_rng(0))


@pytest.mark.parametrize(("answers", "message"), [
    (range(10**9), "more than 100000"), ([0, 1, math.nan], "finite"), ([0, 10**400], "finite numbers"),
    (iter([0, 1]), "list of numbers"), (["a", "b"], "finite numbers"), ([0, 1e-200], "less than 1e-100 apart"),
    ([0, 1e200], "of at most 1e"), ([0.0, -0.0], "at least two"),
])  # fmt: skip
def test_lists_that_are_none_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        noise.cheapest(0.2, confidence=0.9, region="relative", offset=1, answers=answers)
