"""The least budget for a score: what is said of it holds, with the confidence stated."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from epsworth.bounds import Risk
from epsworth.pac import MI, PACPrivatizer, RecordPosterior, utility
from epsworth.pac.calibration import calibrate
from epsworth.pac.utility import GRID, LOOKS, lower_limit

POOL = np.random.default_rng(0).normal(size=(24, 1))
WITHIN = 0.5


def fitted(**settings):
    return PACPrivatizer("mean", MI(1.0), worlds=32, worlds_seed=0).set_params(**settings).fit(POOL)


def right(released):
    """Return whether a released mean is near the pool's."""
    return float(abs(released[0] - POOL.mean()) < WITHIN)


def truth(made, mi):
    """Return the chance of that over worlds and noise, in closed form."""
    plan, outputs = calibrate(made.trials_.outputs, mi), made.trials_.outputs[:, 0] - POOL.mean()
    sd = math.sqrt(float(plan.noise[0]))
    return float(np.mean(norm.cdf((WITHIN - outputs) / sd) - norm.cdf((-WITHIN - outputs) / sd)))


@pytest.mark.slow
def test_what_is_said_to_be_reached_is_reached_with_the_confidence_stated(monkeypatch):
    """200 searches where half of all budgets miss the goal by a ten-thousandth: at most 5 % may err, and the test gives
    a false alarm with probability 5e-4: Pr[Bin(200, 0.05) > 21]."""
    made, near = fitted(), 15
    monkeypatch.setattr(utility, "plan_of", cache(lambda *given: calibrate(made.trials_.outputs, given[-1])))
    goal = truth(made, GRID[near]) + 1e-4
    found = [made.find_budget(right, goal, n=100, rng=seed) for seed in range(200)]
    wrong = sum(one.reached and truth(made, one.mi) < goal for one in found)
    assert wrong <= 21
    assert sum(one.reached for one in found) > 150  # so that this can fail
    assert sum(one.looks > 1 for one in found) > 100
    misses = sum(one.lower > truth(made, one.mi) for one in found)
    assert misses <= 21


def test_the_least_budget_is_found():
    made = fitted()
    for goal in (0.5, 0.9):
        found = made.find_budget(right, goal)
        assert found.reached
        assert found.lower >= goal
        assert truth(made, found.mi) >= goal > truth(made, found.mi / 2)
        assert found.budget == MI(found.mi)
        assert found.params == {"budget": found.budget}
        again = made.set_params(**found.params).fit(POOL)
        (same,) = again.simulate_utility(right, 4000, rng=3)
        assert abs(same.mean - found.mean) < 5 * math.hypot(same.standard_error, same.standard_error)
        assert str(found).startswith(f"MI {found.mi:.4g}"[:5])


def test_every_look_pays_its_share_and_takes_fresh_draws():
    made, seen = fitted(), []
    found = made.find_budget(lambda v: seen.append(float(v[0])) or right(v), 0.7, 0.9, n=500)
    values = np.array([right([v]) for v in seen[-500:]])
    share = 0.1 / LOOKS
    slack = math.sqrt(2 * values.var(ddof=1) * math.log(2 / share) / 500) + 7 * math.log(2 / share) / (3 * 499)
    assert found.mean == values.mean()
    assert found.lower <= values.mean() - slack
    assert found.lower == pytest.approx(values.mean() - slack, abs=1e-12)
    assert len(seen) == 500 * (5 + found.looks)  # a bisection of 29 budgets takes five steps at most
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1e6, -1.0), (-7.0, 1e9)])
def test_lower_limits_are_below_the_mean_of_any_scores(low, high):
    """Rare low scores, which most samples do not show; false alarm 0.004: Pr[Bin(300, 0.05) > 26]."""
    rng, misses = np.random.default_rng(0), 0
    for _ in range(300):
        scores = np.where(rng.random(50) < 0.02, low, high)
        found = lower_limit(scores, low, high, Risk(0.05))
        misses += found > high - 0.02 * (high - low)
        assert low <= found <= scores.mean()
    assert misses <= 26


def test_where_nothing_reaches_the_best_is_told():
    made = fitted()
    found = made.find_budget(right, 1.0, n=300)
    assert not found.reached
    assert found.lower < 1.0
    assert found.mi > 1.0  # more budget, more often right
    assert str(found).startswith("no budget was shown to reach 1; the best is MI")
    assert (
        made.find_budget(lambda v: 1 - right(v), 0.99, n=300).mi == GRID[14]
    )  # the least one seen of a score that falls
    assert not made.find_budget(lambda v: 0.5, 0.5, n=300).reached  # nothing is shown by a hair's breadth


@pytest.mark.slow
def test_the_task_needs_less():
    pool = np.random.default_rng(0).normal(size=(24, 3))
    made = PACPrivatizer("mean", MI(1.0), worlds=32, worlds_seed=0, basis="diag")

    def score(released):
        return math.exp(-((released[0] - pool[:, 0].mean()) ** 2))

    plain = made.fit(pool).find_budget(score, 0.9, n=1000)
    tuned = made.set_params(noise="task", scorer=score).fit(pool).find_budget(score, 0.9, n=1000)
    assert tuned.reached
    assert plain.reached
    assert tuned.mi <= plain.mi / 2
    assert tuned.noise == "task"


def test_a_certified_choice_is_paid_for_by_all_budgets_of_the_grid():
    made = fitted(mode="certified", worlds=400)
    found = made.find_budget(right, 0.6, n=500)
    assert found.reached
    assert len(GRID) * (1 - Fraction(found.certificate)) <= 1 - Fraction(0.999)
    assert found.params == {"budget": MI(found.mi), "confidence": found.certificate}
    again = made.set_params(**found.params).fit(POOL)
    assert again.report()["confidence"] >= found.certificate - 1e-15
    (same,) = again.simulate_utility(right, 4000, rng=3)
    assert abs(same.mean - found.mean) < 5 * math.hypot(same.standard_error, 0.5 / math.sqrt(500))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at_least": 1.5}, "at_least must be a number in score_range, from 0 to 1, got 1.5"),
        ({"at_least": "much"}, "at_least must be a number in score_range"),
        ({"at_least": math.nan}, "at_least must be a number in score_range"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1, got 1.0"),
        ({"confidence": True}, "confidence must lie strictly between 0 and 1, got True"),
        ({"score_range": (1, 0)}, "score_range must be two finite numbers, the lower one first"),
        ({"score_range": (0, math.inf)}, "score_range must be two finite numbers"),
        ({"score_range": 3}, "score_range must be two finite numbers"),
        ({"n": 1}, "n must be a whole number from 2"),
        ({"scorer": None}, "scorer must be a function of what Release.estimator_ holds, got None"),
        ({"scorer": lambda v: 2.0}, r"a score lies outside \[0, 1\]; give score_range="),
        ({"scorer": lambda v: math.nan}, r"a score lies outside \[0, 1\]"),
    ],
)
def test_misuse_is_one_sentence(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message) as told:
        fitted().find_budget(**({"scorer": right, "at_least": 0.5} | arguments))
    assert "\n" not in str(told.value)


def test_budgets_of_single_records_are_refused():
    made = fitted(budget=RecordPosterior(0.8, joint=MI(0.5)))
    with pytest.raises(ValueError, match="budgets here are in nats"):
        made.find_budget(right, 0.5)
