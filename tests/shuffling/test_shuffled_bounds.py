"""What shuffled reports tell: bounds against enumeration, forty digits, published numbers, and each other."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from randomisers import hadamard, krr, merged_divergence, oue, some, ternary, with_report, worst_divergences

import epsworth as ew
from epsworth.shuffling.binomials import below, fair_excess
from epsworth.shuffling.blankets import Pair, delta_of_pair, epsilon_of, local_epsilon_of, pairs_of
from epsworth.shuffling.clones import delta_of_any, epsilon_of_any, holding_end, local_epsilon_of_any
from epsworth.shuffling.floors import delta_of_coins, delta_of_thirds, floor_of
from epsworth.shuffling.rounds import epsilon_of_rounds
from strategies import sparing

VALUES = json.loads((Path(__file__).parents[1] / "reference" / "shuffling.json").read_text())
ROUNDED = 1 - 1e-12  # of sums over all outputs, in doubles
NAMES = {"hadamard-classes": ("hadamard", 3), "binary": ("krr", 2), "hadamard, three classes": ("hadamard", 3)}


def values(kind):
    found = [one for one in VALUES if one["kind"] == kind]
    assert found, kind
    return [(one["inputs"], one["value"]) for one in found]


def named(given):
    name = given["mechanism"]
    return NAMES.get(name, (name, given.get("symbols")))


# any randomiser


def test_no_bound_for_all_is_below_forty_digits_nor_far_above():
    for given, value in values("delta, any randomiser"):
        found = delta_of_any(given["n"], given["local_epsilon"], given["epsilon"], 1e-9)
        assert value <= found <= value * (1 + 1e-6), given


@pytest.mark.parametrize("every", sparing([4, 1], keep=[0]))
def test_epsilons_for_all_are_the_reference_or_a_little_above(every):
    for given, value in values("epsilon, any randomiser")[::every]:
        found = epsilon_of_any(given["n"], given["local_epsilon"], given["delta"])
        assert value * (1 - 1e-9) <= found <= value * (1 + 1e-5), given


def test_local_epsilons_are_the_reference_or_a_little_below():
    for given, value in values("local epsilon, any randomiser"):
        found = local_epsilon_of_any(given["n"], given["epsilon"], given["delta"])
        assert value * (1 - 1e-5) <= found <= value * (1 + 1e-9), given


def test_edges_are_exact():
    for given, value in values("epsilon, edge"):
        assert epsilon_of_any(given["n"], given["local_epsilon"], given["delta"]) == value, given
    assert epsilon_of_any(10, 70.0, 0.5) == 70.0  # beyond 60 nothing is said to be hidden
    assert local_epsilon_of_any(1, 0.5, 1e-6) == 0.5
    assert delta_of_any(10, 1.0, 1.0, 1e-9) == 0.0


def test_published_routines_are_met():
    for given, value in values("epsilon, public code of 2023"):
        found = epsilon_of_any(given["n"], given["local_epsilon"], given["delta"])
        assert given["public_value"] * (1 - 3e-5) <= found <= value * (1 + 3e-5)
    ((given, value),) = values("epsilon, public code of 2021")
    found = epsilon_of_any(given["n"], given["local_epsilon"], given["delta"])
    assert given["lower_bound"] < found < given["upper_interval"][0]
    assert found <= value * (1 + 3e-5)
    for given, (low, high) in values("epsilon, public code of 2025"):
        assert low < epsilon_of(given["n"], given["local_epsilon"], given["delta"], *named(given))[0] < high


SMALL = {
    "krr-2": (lambda e: krr(e, 2), "any", None, 6),
    "krr-3": (lambda e: krr(e, 3), "krr", 3, 5),
    "krr-4": (lambda e: krr(e, 4), "krr", 4, 5),
    "krr-5": (lambda e: krr(e, 5), "krr", 5, 4),
    "oue-2": (lambda e: oue(e, 2), "oue", None, 5),
    "oue-3": (lambda e: oue(e, 3), "oue", None, 3),
    "ternary-1": (lambda e: ternary(e, 1), "ternary", None, 5),
    "ternary-2": (lambda e: ternary(e, 2), "ternary", None, 3),
    "hadamard-2": (lambda e: hadamard(e, 2), "any", None, 6),
    "hadamard-3": (lambda e: hadamard(e, 3), "hadamard", 3, 3),
}


def delta_of(users, local, epsilon, mechanism, symbols):
    """Return the smallest bound that the library has."""
    pairs = pairs_of(mechanism, symbols, local)
    every = delta_of_any(users, local, epsilon, 1e-9)
    return min(every, max((delta_of_pair(users, one, local, epsilon, 1e-9) for one in pairs), default=1.0))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.cases(5)
def test_no_data_set_of_a_few_users_tells_more_than_is_said(name):
    """Every data set, pair and output is enumerated, records that state nothing among them."""
    make, mechanism, symbols, most = SMALL[name]
    seen = 0
    for local in (0.3, 1.0, 2.0, 4.0):
        law, epsilons = make(local), [share * local for share in (0.0, 0.1, 0.3, 0.5, 0.8)]
        for users in range(2, most + 1):
            for epsilon, exact in zip(epsilons, worst_divergences(law, users, epsilons), strict=True):
                assert delta_of(users, local, epsilon, mechanism, symbols) >= exact * ROUNDED, (local, users, epsilon)
                seen += exact > 1e-6
    assert seen > 20


@pytest.mark.cases("all")
@pytest.mark.parametrize("name", ["krr-2", "krr-3", "krr-4", "hadamard-2"])
def test_the_largest_of_several_epsilons_stands_for_all(name):
    """Every data set, pair and mixture of three epsilons among four users; others may have less than the target."""
    make, mechanism, symbols, _ = SMALL[name]
    seen = 0
    for locals_ in ((0.2, 0.7, 1.0), (0.5, 1.0, 3.0)):
        laws, most = [make(local) for local in locals_], max(locals_)
        senders = [row for law in laws for row in law]
        epsilons = [share * most for share in (0.0, 0.1, 0.3, 0.5)]
        bounds = [delta_of(3, most, epsilon, mechanism, symbols) for epsilon in epsilons]
        for others in itertools.combinations_with_replacement(range(len(senders)), 2):
            counts = {(0,) * laws[0].shape[1]: 1.0}
            for one in others:
                counts = with_report(counts, senders[one])
            for law in laws:
                told = [with_report(counts, row) for row in law]
                keys = sorted(set().union(*told))
                table = np.array([[one.get(key, 0.0) for key in keys] for one in told])
                for epsilon, bound in zip(epsilons, bounds, strict=True):
                    exact = np.maximum(table[:, None] - math.exp(epsilon) * table[None, :], 0.0).sum(axis=2).max()
                    assert bound >= exact * ROUNDED
                    seen += exact > 1e-6
    assert seen > 200


def test_several_epsilons_are_refused_with_what_stands_for_them():
    for several in ([1.0, 2.0], (0.5, 1), np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"one for all reports: make a batch of each; .* its largest one"):
            ew.shuffled(several, users=100, delta=1e-3)


def test_no_random_randomiser_tells_more_than_the_bound_for_all():
    rng, seen = np.random.default_rng(0), 0
    for _ in range(60):
        local = float(rng.choice([0.2, 0.7, 1.5, 3.0]))
        law = some(local, int(rng.integers(2, 5)), int(rng.integers(2, 5)), rng)
        users, epsilons = int(rng.integers(2, 5)), [0.0, 0.1 * local, 0.4 * local, 0.7 * local]
        for epsilon, exact in zip(epsilons, worst_divergences(law, users, epsilons), strict=True):
            assert delta_of_any(users, local, epsilon, 1e-9) >= exact * ROUNDED
            seen += exact > 0
    assert seen > 150


def test_listed_worst_data_sets_tell_no_more_than_is_said():
    for given, exact in values("exact delta, worst data set"):
        name = given["mechanism"]
        mechanism, symbols = NAMES.get(name, (name, given["symbols_or_cells"]))
        mechanism = mechanism if mechanism in ("krr", "oue", "ternary", "hadamard") else "any"
        found = delta_of(given["n"], given["local_epsilon"], given["epsilon"], mechanism, symbols)
        assert found >= exact * ROUNDED, given


# laws of a mechanism


def test_laws_of_a_mechanism_are_never_below_all_their_outcomes_nor_far_above():
    for given, value in values("delta, laws of a mechanism"):
        pairs = pairs_of(*named(given), given["local_epsilon"])
        found = max(delta_of_pair(given["n"], one, given["local_epsilon"], given["epsilon"], 1e-9) for one in pairs)
        assert value * ROUNDED <= found <= value * (1 + 5e-3), given


@pytest.mark.parametrize(
    ("given", "value"), values("epsilon, laws of a mechanism"), ids=lambda one: str(one)[:40] if one else ""
)
@pytest.mark.cases(8)
def test_epsilons_by_law_are_the_reference_or_a_little_above(given, value):
    users, local, delta = given["n"], given["local_epsilon"], given["delta"]
    found, own = epsilon_of(users, local, delta, *named(given))
    assert own
    assert value * (1 - 1e-5) <= found <= min(value * (1 + 1e-3), epsilon_of_any(users, local, delta))
    assert found >= (given["lower_bound"] or 0.0) * (1 - 1e-5)
    floor = floor_of(users, local, delta, *named(given), found)
    if given["mechanism"] == "krr" and users >= 10_000:
        assert found / floor <= 1.001
    if floor is not None and given["lower_bound"]:
        assert floor <= given["lower_bound"] * (1 + 1e-5)


def test_both_engines_agree_on_the_bound_for_all():
    """Its law has three values, which lie on a lattice but for zero."""
    for users, local, epsilon in ((1000, 1.0, 0.12), (10_000, 2.0, 0.1), (1000, 4.0, 1.5)):
        p = 1 / (math.exp(local) + 1)
        same = Pair(p, 0.0, 0.0)
        ours, other = delta_of_any(users, local, epsilon, 1e-9), delta_of_pair(users, same, local, epsilon, 1e-9)
        assert ours * (1 - 1e-5) <= other <= ours * (1 + 2e-2)


def test_the_merged_form_for_krr_lies_below_what_a_data_set_tells():
    """The published routine is not used: it says too little."""
    for users, symbols, local, epsilon, short in ((5, 4, 1.0, 0.5, 0.03), (4, 3, 1.0, 0.5, 0.011)):
        (exact,) = worst_divergences(krr(local, symbols), users, [epsilon])
        merged = merged_divergence(users, symbols, local, epsilon)
        assert merged < exact * (1 - short)
        assert delta_of(users, local, epsilon, "krr", symbols) >= exact


# binomials


@pytest.mark.parametrize("n", sparing([7, 10**9, 1000, 10**8, 10**6], keep=(0, 2, 4)))
def test_excesses_of_fair_coins_bracket_forty_digits(n):
    for z in (0.3, 3.0, 7.0):
        above = z * math.sqrt(n) / 2
        k = math.ceil(n / 2 + above)
        if k > n:
            continue
        with mpmath.workdps(40):
            mass = mpmath.exp(mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1))
            mass *= mpmath.mpf(2) ** -n
            tail, term = mpmath.mpf(0), mpmath.mpf(1)
            for a in range(k, n + 1):
                tail += term
                term *= mpmath.mpf(n - a) / (a + 1)
                if term < mpmath.mpf(10) ** -25:
                    break
            truth = mass * (mpmath.mpf(k) / 2 - mpmath.mpf(above) * tail)
            high, low = (float(fair_excess(np.array([float(n)]), np.array([above]), side)[0]) for side in (1, -1))
            assert low <= truth <= high
            assert high <= truth * (1 + 1e-7)
            assert low >= truth * (1 - 1e-7)


@pytest.mark.parametrize(("n", "p"), sparing([(50, 0.3), (10**9, 0.4), (10**5, 0.02), (10**9, 1e-6)], keep=(0, 2, 3)))
def test_tails_bracket_forty_digits(n, p):
    sd = math.sqrt(n * p * (1 - p))
    for z in (1.0, 4.0, 8.0):
        k = math.floor(n * p - z * sd)
        if k < 1:
            continue
        with mpmath.workdps(40):
            term = mpmath.exp(
                mpmath.loggamma(n + 1) - mpmath.loggamma(k) - mpmath.loggamma(n - k + 2)
                + (k - 1) * mpmath.log(p) + (n - k + 1) * mpmath.log1p(-mpmath.mpf(p))
            )  # fmt: skip
            start, tail, odds = term, mpmath.mpf(0), (1 - mpmath.mpf(p)) / mpmath.mpf(p)
            for a in range(k - 1, -1, -1):
                tail += term
                term *= odds * a / (n - a + 1)
                if term < start * mpmath.mpf(10) ** -25:
                    break
            high, low = (float(below(np.array([float(k)]), n, p, side)[0]) for side in (1, -1))
            assert low <= tail <= high
            assert high <= tail * (1 + 1e-9)


def test_searches_return_what_is_seen_to_hold():
    asked = []

    def gap(x):
        asked.append(x)
        return x**3 - 2

    for guess in (1.1, 1.26, 1.9, 5.0):
        found = holding_end(gap, 10.0, 0.0, guess)
        assert found in asked
        assert 0 <= found**3 - 2 < 1e-5
        assert holding_end(lambda x: 2 - x**3, 0.0, 10.0, guess) ** 3 <= 2


# order


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("mechanism", "symbols"), [("any", None), ("krr", 8), ("oue", None), ("ternary", None), ("hadamard", 3)]
)
def test_epsilon_falls_in_users_and_delta_and_rises_in_the_local_epsilon(mechanism, symbols):
    def at(users, local, delta):
        return epsilon_of(users, local, delta, mechanism, symbols)[0]

    by_users = [at(n, 1.0, 1e-6) for n in (10, 100, 1000, 10_000, 100_000)]
    by_delta = [at(1000, 1.0, delta) for delta in (1e-11, 1e-9, 1e-6, 1e-4)]
    by_local = [at(1000, local, 1e-6) for local in (0.1, 0.5, 1.0, 2.0, 4.0)]
    assert by_users == sorted(by_users, reverse=True)
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_local == sorted(by_local)
    assert all(e <= local for e, local in zip(by_local, (0.1, 0.5, 1.0, 2.0, 4.0), strict=True))


@pytest.mark.parametrize(("mechanism", "symbols"), [("any", None), ("krr", 100), ("oue", None), ("ternary", None)])
@pytest.mark.cases(1)
def test_what_is_allowed_keeps_what_was_asked_for(mechanism, symbols):
    for users, epsilon, delta in ((1000, 0.1, 1e-6), (100_000, 0.25, 1e-8), (50, 0.5, 1e-3)):
        allowed = local_epsilon_of(users, epsilon, delta, mechanism, symbols)
        assert allowed >= epsilon
        assert epsilon_of(users, allowed, delta, mechanism, symbols)[0] <= epsilon
        if allowed > epsilon * 1.001:
            assert epsilon_of(users, allowed * 1.001, delta, mechanism, symbols)[0] > epsilon


def test_extremes_are_answered_without_a_warning():
    for given in ((2, 30.0, 1e-6), (2, 1.0, 1e-250), (10**9 + 1, 1.0, 1e-250), (3, 1e-6, 1e-12), (10, 60.0, 1e-9)):
        for mechanism, symbols in (("any", None), ("krr", 3), ("oue", None), ("ternary", None), ("hadamard", 3)):
            found, _ = epsilon_of(*given, mechanism, symbols)
            assert 0 <= found <= given[1]
            floor = floor_of(*given, mechanism, symbols, found)
            assert floor is None or floor <= found
    assert delta_of_any(1000, 1.0, math.nextafter(1.0, 0), 1e-9) < 1e-9


# floors


def test_floors_are_below_what_a_data_set_tells():
    for local in (0.3, 1.0, 2.0):
        for users in (2, 3, 5):
            for share in (0.0, 0.1, 0.4):
                epsilon = share * local
                (two,) = worst_divergences(krr(local, 2)[:2], users, [epsilon])
                (three,) = worst_divergences(krr(local, 3)[:3], users, [epsilon])
                assert delta_of_coins(users, local, epsilon) <= two * (1 + 1e-12)
                assert delta_of_thirds(users, 1 / (math.exp(local) + 2), local, epsilon, 1e-9) <= three * (1 + 1e-12)


@pytest.mark.parametrize("every", sparing([4, 1], keep=[0]))
def test_floors_are_the_reference_and_close_to_the_bounds(every):
    for given, value in values("epsilon, lower bound")[::every]:
        top = epsilon_of_any(given["n"], given["local_epsilon"], given["delta"])
        found = floor_of(given["n"], given["local_epsilon"], given["delta"], "krr", 2, top)
        assert found == pytest.approx(value, rel=2e-6)
        assert found <= top
    for users in (10**4, 10**6):
        for local in (0.1, 0.3, math.log(2), 1.0, 2.0, 4.0):
            top = epsilon_of_any(users, local, 1e-6)
            assert 1 <= top / floor_of(users, local, 1e-6, "any", None, top) <= 1.18


# rounds


@pytest.mark.parametrize("every", sparing([4, 1], keep=[0]))
def test_rounds_are_the_reference(every):
    for given, value in values("epsilon, rounds of one user")[::every]:
        users, local, delta, k = given["n"], given["local_epsilon"], given["delta"], given["rounds"]
        summed = k * epsilon_of_any(users, local, delta / k)
        found = epsilon_of_rounds(users, local, delta, k, summed)
        assert found < summed
        assert found == pytest.approx(value, rel=1e-3)


def test_two_rounds_are_never_below_their_product():
    """The pair of laws behind the bound, for six users, multiplied out in full."""
    users, local = 6, 1.0
    large, rate = math.exp(local), 2 / (math.exp(local) + 1)
    losses, masses = [], []
    for clones in range(users):
        n = clones + 1
        share = math.comb(users - 1, clones) * rate**clones * (1 - rate) ** (users - 1 - clones)
        for a in range(n + 1):
            ahead, behind = a * large + n - a, a + (n - a) * large
            masses.append(share * math.comb(n, a) / 2**n * 2 * ahead / (n * (large + 1)))
            losses.append(math.log(ahead / behind))
    assert math.fsum(masses) == pytest.approx(1, abs=1e-12)
    both, mass = np.add.outer(losses, losses).ravel(), np.multiply.outer(masses, masses).ravel()
    for delta in (0.2, 0.1, 0.01):
        found = epsilon_of_rounds(users, local, delta, 2, 2 * local)
        over = both > found
        exact = float(mass[over] @ -np.expm1(found - both[over]))
        assert delta * (1 - 2e-2) <= exact <= delta
