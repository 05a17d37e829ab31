"""One answer: how often the secret vote is taken, what that tells, and what is charged for it."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path

import mpmath
import numpy as np
import pytest

from epsworth.pac import MI
from epsworth.pac.responses import FALLBACKS, ONE, Beliefs, Chances, Channel, Records, channel, checked_nats, weaker

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "pac_responses.json").read_text())["cases"]


def exact_information(chances, by):
    """Return the mutual information of vote and answer from whole numbers, by forty digits."""
    total = sum(map(Fraction, chances))
    chances = [Fraction(chance) / total for chance in chances]
    labels = range(len(chances))
    answered = [sum(chances[v] * by.row(v)[label] for v in labels) for label in labels]
    with mpmath.workdps(40):
        terms = [
            mpmath.mpf(chances[v].numerator) / chances[v].denominator * w / ONE
            * mpmath.log(mpmath.mpf(w * answered[label].denominator) / answered[label].numerator)
            for v in labels for label, w in enumerate(by.row(v)) if w and chances[v]
        ]  # fmt: skip
        return mpmath.fsum(terms)


@pytest.mark.parametrize("case", REFERENCE, ids=[f"{c['fallback']}-{c['nats']:.2g}-{c['beliefs']}" for c in REFERENCE])
def test_the_vote_is_taken_as_often_as_the_reference_says(case):
    found = channel(case["beliefs"], case["fallback"], case["nats"])
    assert found.kappa == pytest.approx(case["kappa"], rel=1e-6)


def hard_beliefs():
    rng = np.random.default_rng(0)
    yield from ([0.5, 0.5], [1 - 2**-50, 2**-50], [1.0, 1e-300], [0.3, 0.3, 0.4], [1.0, 0.0], [0.0, 0.5, 0.5])
    for labels in (2, 3, 7):
        yield from np.exp(rng.normal(scale=rng.choice([0.1, 3, 30], size=(4, 1)), size=(4, labels))).tolist()


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("nats", [2.0**-55, 2.0**-32, 1e-3, 0.3, 5.0])
def test_a_charge_is_never_below_the_exact_information(fallback, nats):
    for beliefs in hard_beliefs():
        found = channel(beliefs, fallback, nats)
        exact = exact_information(beliefs, found)
        assert exact <= found.cost
        assert found.mi <= nats
        assert found.cost <= exact * (1 + 2.0**-19) + 2.0**-59
        assert found.k + sum(found.others) == ONE
        assert min(found.others) >= 0


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_no_more_of_the_vote_could_be_taken(fallback):
    """A millionth more, as a share of 1 - k where k is near one, exceeds the nats."""
    for beliefs in ([0.5, 0.5], [0.7, 0.2, 0.1], [0.984375, 0.015625]):
        for nats in (2.0**-32, 1e-3, 0.02):
            found, chances = channel(beliefs, fallback, nats), Chances.of(np.array(beliefs))
            more = weaker(chances, fallback, Channel(found.k + (found.k >> 20), found.others, 0.0), 0)
            assert exact_information(beliefs, more) > nats


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_a_whole_vote_is_two_to_the_sixty_four(fallback):
    """Which overflows 64-bit whole numbers: all of it, and no other label."""
    found = channel([0.5, 0.3, 0.2], fallback, 9.0)
    assert found.k == 2**64
    assert found.others == (0, 0, 0)
    for vote in range(3):
        assert {found.answer(vote, word) for word in (0, 2**63, 2**64 - 1)} == {vote}


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_words_are_shared_out_by_the_very_whole_numbers(fallback):
    found = channel([0.2, 0.5, 0.3], fallback, 0.05)
    for vote in range(3):
        ends = [*accumulate(found.row(vote), initial=0)]
        assert ends[-1] == 2**64
        for label, (start, end) in enumerate(pairwise(ends)):
            for word in {start, end - 1} if end > start else set():
                assert found.answer(vote, word) == label


def test_nothing_is_charged_where_the_vote_is_not_taken():
    found = channel([0.4, 0.6], "votes", 0.0)
    assert found.k == found.cost == 0
    assert found.row(0) == found.row(1)


@pytest.mark.parametrize(
    ("beliefs", "fallback", "nats", "told"),
    [
        ([1.0], "votes", 0.1, "beliefs must be at least two chances"),
        ([-1.0, 2.0], "votes", 0.1, "beliefs must be at least two chances"),
        ([0.0, 0.0], "votes", 0.1, "beliefs must be at least two chances"),
        ([np.nan, 1.0], "votes", 0.1, "beliefs must be at least two chances"),
        ([0.5, 0.5], "majority", 0.1, "fallback must be one of uniform, votes, plurality, got 'majority'"),
        ([0.5, 0.5], None, 0.1, "fallback must be one of"),
        ([0.5, 0.5], "votes", -0.1, "nats must be nats, 0 or more and finite"),
        ([0.5, 0.5], "votes", "0.1", "nats must be nats, 0 or more and finite"),
        ([0.5, 0.5], "votes", np.inf, "nats must be nats, 0 or more and finite"),
    ],
)
def test_what_is_no_channel_is_refused(beliefs, fallback, nats, told):
    with pytest.raises(ValueError, match=told):
        channel(beliefs, fallback, nats)


def test_a_budget_in_nats_says_what_an_answer_may_cost():
    assert checked_nats("per_query", MI(0.25)) == 0.25


@pytest.mark.slow
def test_beliefs_are_bayes_rule_within_their_error():
    """After 400 answers, some of which leave one model less than 2^-1000 of the others: against fractions."""
    rng, beliefs, exact = np.random.default_rng(1), Beliefs(6), [Fraction(1)] * 6
    for turn in range(400):
        votes = rng.integers(3, size=6).astype(np.uint8)
        votes[0] = 1 - votes[1] % 2  # against model 1, which answers
        by = channel([0.5, 0.3, 0.2], "votes", [1.0, 0.01, 2.0**-32][turn % 3])
        label = int(votes[1])
        beliefs.update(votes, label, by)
        exact = [chance * Fraction(by.row(int(vote))[label], ONE) for chance, vote in zip(exact, votes, strict=True)]
    assert beliefs.answers == 400
    part, power = beliefs.among(np.arange(6) == 0)
    assert power < -1000
    one = Fraction(float(part[0])) * Fraction(2) ** power / Fraction(beliefs.weights[1])
    assert abs(one / (exact[0] / exact[1]) - 1) <= 2 * beliefs.error
    for model in range(1, 6):
        ratio = Fraction(beliefs.weights[model]) / Fraction(beliefs.weights[1])
        if ratio > Fraction(2) ** -1000:
            assert abs(ratio / (exact[model] / exact[1]) - 1) <= 2 * beliefs.error
    assert beliefs.probabilities.sum() == pytest.approx(1)


def test_tiny_beliefs_count_where_an_answer_would_leave_only_them():
    """Models of chance 2^-3000 that alone vote for a label, all of them with record 0: k must be 0 for plurality."""
    members = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    records, beliefs = Records(members, 0.75), Beliefs(4)
    beliefs._power[:2] = -3000
    votes = np.array([1, 1, 0, 0], dtype=np.uint8)
    chances = beliefs.chances(votes, 2)
    strong = channel(chances.vote, "plurality", 0.1)
    assert strong.k
    assert records.allowed(beliefs, votes, chances, "plurality", strong).k == 0


def test_memberships_that_start_outside_are_refused():
    members = np.zeros((8, 3), dtype=bool)
    members[:4, 0] = members[:5, 1] = members[:6, 2] = True
    Records(members[:, :2], 0.625)  # exactly five of eight
    with pytest.raises(ValueError, match="record_posterior: 1 of 3 records are in more"):
        Records(members, 0.625)
    with pytest.raises(ValueError, match="give every record to half of the models"):
        Records(~members[:, :2], np.nextafter(0.625, 0))
