"""Kernels between regions: in integers, as good as a program can be, with a bound that holds for all others."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsworth import mechanisms
from epsworth.client.kernels import exp_below
from epsworth.mechanisms.regions import RegionKernel, dual_bound, floors, folded, refill
from epsworth.mechanisms.words import ReplayableWords

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "tailored.json").read_text())
GAINS = {
    "diagonal": lambda k, rng: np.diag(rng.dirichlet(np.full(k, 0.5))),
    "even": lambda k, rng: np.eye(k) / k,
    "any": lambda k, rng: rng.random((k, k)) * rng.dirichlet(np.ones(k))[:, np.newaxis],
    "losses": lambda k, rng: rng.normal(size=(k, k)),
    "nothing": lambda k, rng: np.zeros((k, k)),
}


@pytest.mark.parametrize("kind", GAINS)
@pytest.mark.parametrize("epsilon", ["0.01", "1", "4", "20", "44", "200"])
@pytest.mark.parametrize("regions", [1, 2, 3, 8, 16])
@pytest.mark.cases(1)
def test_integers_keep_epsilon_and_gain_what_can_be_gained(kind, epsilon, regions):
    gain = GAINS[kind](regions, np.random.default_rng(regions))
    kernel = mechanisms.region_kernel(gain, epsilon)
    assert all(sum(kernel.weights(i)) == 2**64 for i in range(regions))
    assert kernel.ratio() <= exp_below(Fraction(epsilon))
    assert kernel.gained <= kernel.bound <= kernel.gained + 1e-6 * np.abs(gain).max()


@pytest.mark.parametrize("case", REFERENCE["gain_optimum"]["cases"])
def test_gains_are_those_of_the_reference(case):
    kernel = mechanisms.region_kernel(case["gain"], case["epsilon"])
    assert kernel.gained == pytest.approx(case["optimum"], rel=REFERENCE["gain_optimum"]["tolerance"])
    assert kernel.bound == pytest.approx(case["upper"], rel=REFERENCE["gain_optimum"]["tolerance"])
    dual = np.array(case["dual"])
    assert dual_bound(np.array(case["gain"]), Fraction(case["epsilon"]), dual) == pytest.approx(case["upper"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["average_optimum"]["cases"])
def test_averages_are_those_of_the_closed_form(case):
    kernel = mechanisms.region_kernel(np.diag(case["prior"]), case["epsilon"])
    assert kernel.gained == pytest.approx(case["optimum"], abs=1e-9)
    assert sum(column > 0 for column in kernel.weights(0)) == case["m"]


@pytest.mark.parametrize("case", REFERENCE["refill"]["cases"])
def test_rows_are_filled_as_in_the_reference(case):
    rows = refill(case["floors"], np.array(case["gain"]), exp_below(Fraction(case["epsilon"])), 1_000)
    assert rows == case["rows"]


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(any) | st.integers(1, 12),
    st.sampled_from(["0.001", "0.5", "3", "30"]),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 0.1, 1e-3]),
)
def test_whatever_a_program_says_integers_keep_epsilon(least, epsilon, seed, scale):
    """Any least weights, right or wrong: the rows keep epsilon, or there are none."""
    bound, rng = exp_below(Fraction(epsilon)), np.random.default_rng(seed)
    least = scale * (rng.random(least) if isinstance(least, int) else np.array(least))
    rows = refill(floors(least, bound), rng.normal(size=(len(least), len(least))), bound)
    for row in rows or []:
        assert sum(row) == 2**64
        assert min(row) >= 0
    for column in zip(*(rows or []), strict=True):
        assert max(column) <= bound * min(column)


@given(st.integers(2, 6), st.sampled_from([0.1, 1.0, 5.0]), st.integers(0, 99))
def test_no_kernel_gains_more_than_any_multipliers_say(regions, epsilon, seed):
    rng = np.random.default_rng(seed)
    gain, dual = rng.normal(size=(2, regions, regions))
    rows = rng.uniform(1, np.exp(epsilon / 2), (regions, regions))  # each column, then each row, within e^(epsilon / 2)
    kernel = rows / rows.sum(axis=1, keepdims=True)
    assert (gain * kernel).sum() <= dual_bound(gain, Fraction(epsilon), dual[0])


@given(st.integers(2, 5), st.sampled_from(["0.01", "1", "5", "44", "700"]), st.integers(0, 99))
def test_the_best_kernel_gains_no_more_than_any_multipliers_say(regions, epsilon, seed):
    rng = np.random.default_rng(seed)
    gain, dual = rng.normal(size=(2, regions, regions))
    kernel = mechanisms.region_kernel(gain, epsilon)
    for multipliers in (dual[0], gain.max(axis=1), kernel.dual - 1e-3, kernel.dual * 1e300, 0 * kernel.dual):
        assert kernel.gained <= dual_bound(gain, Fraction(epsilon), multipliers)


def test_what_no_kernel_gains_more_than_is_rounded_up_where_a_double_is_missed_by_a_hair():
    """The bound is e + sum(rest), which exceeds 5/2 by 2e-76: less than a sum of terms rounded down can tell."""
    rest = [
        -0.21828182845904523, -5.786811094780446e-18, -1.833988252265064e-34, -1.888192218958949e-51,
        1.3655012531604255e-67, -2.458390353643226e-84,
    ]  # fmt: skip
    gain = np.zeros((7, 7))
    gain[:, 0] = [1.0, *rest]
    found = dual_bound(gain, Fraction(1), np.array([0.0, *(max(value, 0.0) for value in rest)]))
    with mpmath.workdps(120):
        assert 2.5 < mpmath.e + sum(map(mpmath.mpf, rest)) <= found < 2.500001


HALF = np.array([[0.5, 0.25], [-0.125, 1.0]])
FRACTIONS = [[Fraction(1, 2), Decimal("0.25")], [-0.125, 1]]
WAYS = {
    "transposed": HALF.T.copy().T,
    "every other": np.repeat(np.repeat(HALF, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": HALF[::-1, ::-1].copy()[::-1, ::-1],
    "single": HALF.astype(np.float32),
    "long": HALF.astype(np.longdouble),
    "objects": np.array(FRACTIONS, dtype=object),
    "lists": FRACTIONS,
    "subclass": HALF.view(type("Sub", (np.ndarray,), {})),
    "big-endian": HALF.astype(">f8"),
    "unmasked": np.ma.masked_array(HALF),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_gain_has_the_same_kernel_however_it_is_stored(way):
    plain, found = mechanisms.region_kernel(HALF, "1"), mechanisms.region_kernel(WAYS[way], "1")
    assert (found.rows, found.bound, found.gained) == (plain.rows, plain.bound, plain.gained)
    assert type(found.dual) is np.ndarray


def test_a_gain_is_neither_changed_nor_kept():
    gain = HALF.copy()
    gain.flags.writeable = False
    mechanisms.region_kernel(gain, 1)
    assert (gain == HALF).all()
    assert mechanisms.region_kernel(np.eye(2, dtype=bool), 1).rows == mechanisms.region_kernel([[1, 0], [0, 1]], 1).rows


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-6", "2", "44", "700"])
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e299])
def test_gains_of_any_size_have_their_kernel_and_bound(scale, epsilon):
    gain = scale * np.random.default_rng(3).normal(size=(5, 5))
    kernel = mechanisms.region_kernel(gain, epsilon)
    assert kernel.ratio() <= exp_below(kernel.epsilon)
    assert kernel.gained <= kernel.bound
    assert kernel.bound / scale <= kernel.gained / scale + 1e-6


@pytest.mark.parametrize("epsilon", ["0.5", 0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), "1/2"])
def test_epsilon_is_what_its_text_says(epsilon):
    assert mechanisms.region_kernel(HALF, epsilon).epsilon == Fraction(1, 2)
    assert mechanisms.region_kernel(HALF, 0.1).epsilon == Fraction(1, 10)


@pytest.mark.parametrize("regions", [64, pytest.param(256, marks=pytest.mark.slow)])
def test_many_regions_are_certified(regions):
    prior = 0.97 ** np.arange(regions)
    prior /= prior.sum()
    kernel = mechanisms.region_kernel(np.diag(prior), 4)
    best = max(prior[:m].sum() * math.exp(4) / (math.exp(4) + m - 1) for m in range(1, regions + 1))
    assert kernel.gained == pytest.approx(best, abs=1e-9)
    assert kernel.gained <= kernel.bound <= kernel.gained + 1e-6


def test_restricting_and_renormalising_breaks_what_folding_keeps():
    """The reference's kernel that keeps epsilon 1, in integers: its first two columns alone lose 1.7957."""
    case = REFERENCE["renormalising_breaks"]
    bound = exp_below(Fraction(1))
    least = [-int(-Fraction(min(column)) * 2**64 // 1) for column in zip(*case["rows"], strict=True)]
    most = [int(b * bound) for b in least]
    rows = [[most[0], least[1]], [least[0], most[1]], [least[0], least[1]]]
    rows = tuple((*row, 2**64 - sum(row)) for row in rows)
    kernel = RegionKernel("region", Fraction(1), 3, rows, np.zeros(3), 0.0, 0.0)
    kernel.prove()
    first, second = ([Fraction(row[y], sum(row[y] for y in case["keep"])) for y in case["keep"]] for row in rows[:2])
    worst = max(max(a / b, b / a) for a, b in zip(first, second, strict=True))
    assert math.log(worst) == pytest.approx(case["loss_after"], abs=case["tolerance"])
    for order in ([2, 0, 1], [2, 1, 0]):
        kept = folded(kernel, case["keep"], [[0], [1], order])
        assert all(sum(row) == 2**64 for row in kept)
        assert all(max(column) <= bound * min(column) for column in zip(*kept, strict=True))


@given(st.integers(1, 7), st.sampled_from(["0.1", "2", "30"]), st.integers(0, 99))
def test_a_fold_moves_every_weight_to_the_first_that_stands_for_it(regions, epsilon, seed):
    rng = np.random.default_rng(seed)
    kernel = mechanisms.region_kernel(rng.random((regions, regions)), epsilon)
    present = tuple(sorted(rng.choice(regions, rng.integers(1, regions + 1), replace=False).tolist()))
    instead = [[y, *rng.permutation([z for z in range(regions) if z != y]).tolist()] for y in range(regions)]
    rows = folded(kernel, present, instead)
    for region, row in zip(present, rows, strict=True):
        moved = dict.fromkeys(present, 0)
        for y in range(regions):
            moved[next(z for z in instead[y] if z in present)] += kernel.rows[region][y]
        assert row == tuple(moved.values())
        assert sum(row) == 2**64
        assert all(type(weight) is int for weight in row)
    for column in zip(*rows, strict=True):
        assert max(column) <= kernel.ratio() * min(column)
    if len(present) == regions:
        assert rows == kernel.rows


ALL = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


@pytest.mark.parametrize(
    ("present", "instead", "message"),
    [
        ((), ALL, "at least one"),
        ((1, 0), ALL, "rising"),
        ((0, 0), ALL, "each once"),
        ((0, 3), ALL, "regions 0 to 2"),
        ((-1, 0), ALL, "regions 0 to 2"),
        ((0,), ALL[:2], "an order for each"),
        ((0,), [*ALL, [0]], "an order for each"),
        ((0,), [[0], [1, 3, 0], [0]], "regions 0 to 2"),
        ((0,), [[0], [1, 2], [0]], "stands for region 1"),
        ((0.0,), ALL, "whole numbers"),
        ((True,), ALL, "whole numbers"),
        (("0",), ALL, "whole numbers"),
    ],
)
def test_folds_that_are_none_are_refused(present, instead, message):
    with pytest.raises(ValueError, match=message):
        folded(mechanisms.region_kernel(np.eye(3), 1), present, instead)


def test_draws_follow_the_rows():
    """Chi-square by hand: each of 16 frequencies misses by five standard deviations with probability 6e-7."""
    kernel = mechanisms.region_kernel(np.diag([0.4, 0.3, 0.2, 0.1]), 1)
    inputs = np.tile(np.arange(4), 25_000)
    drawn = kernel.draw(inputs, words=ReplayableWords(7))
    for i in range(4):
        shares = np.array(kernel.weights(i)) / 2**64
        seen = np.bincount(drawn[inputs == i], minlength=4) / 25_000
        assert (np.abs(seen - shares) <= 5 * np.sqrt(shares * (1 - shares) / 25_000)).all()
        assert kernel.law([i]).mass(0.0, 1.0) == pytest.approx(1)


@pytest.mark.parametrize(
    ("gain", "epsilon", "message"),
    [
        ([[1, 2]], 1, "must be square"),
        ([], 1, "must be square"),
        ([[np.nan]], 1, "must be finite"),
        ([["a"]], 1, "matrix of numbers"),
        ([["1"]], 1, "matrix of numbers"),
        ([[b"1"]], 1, "matrix of numbers"),
        ([[None]], 1, "matrix of numbers"),
        ([[1j]], 1, "matrix of numbers"),
        ([[10**400]], 1, "matrix of numbers"),
        ([[1, 2], [3]], 1, "matrix of numbers"),
        (np.zeros((2, 2), "m8[s]"), 1, "matrix of numbers"),
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), 1, "matrix of numbers"),
        (3, 1, "must be square"),
        (np.zeros((2, 2, 2)), 1, "must be square"),
        ([[-np.inf]], 1, "must be finite"),
        ([[Decimal("nan")]], 1, "must be finite"),
        ([[-1.5e300]], 1, "its sums overflow"),
        (np.eye(257), 1, "the most is 256"),
        (np.eye(2), 0, "positive"),
        (np.eye(2), -1, "positive"),
        (np.eye(2), "-0", "positive"),
        (np.eye(2), "one", "positive"),
        (np.eye(2), np.nan, "positive"),
        (np.eye(2), 701, "must lie between"),
    ],
)
def test_what_is_no_question_is_refused(gain, epsilon, message):
    with pytest.raises(ValueError, match=message):
        mechanisms.region_kernel(gain, epsilon)
