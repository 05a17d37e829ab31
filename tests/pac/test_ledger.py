"""Several releases about one secret."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import threading
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from epsworth.pac import MI, Ledger, PACPrivatizer, RecordPosterior
from epsworth.pac.allocation import RoundedGaussian
from epsworth.pac.calibration import Shape, calibrate
from epsworth.pac.exposure import posterior_weights
from epsworth.pac.ledger import Tally, updated
from epsworth.rounding import show_up

X = load_iris()["data"]


def fitted(algorithm="mean", budget=None, **settings):
    return PACPrivatizer(algorithm, budget or MI(0.1), **{"worlds": 64, **settings}).fit(X)


def test_budgets_add_up_and_the_total_ends_the_series():
    ledger, mean, axes = Ledger(MI(0.25)), fitted(), fitted(PCA(1))
    mean.release(ledger)
    report = axes.release(ledger).report()
    assert report["ledger_spent"] == ledger.spent <= 0.2
    with pytest.raises(ValueError, match=r"nats left and this release costs 0\.1"):
        mean.release(ledger)
    assert ledger.releases == 2
    assert ledger.probabilities.sum() == pytest.approx(1)
    assert repr(ledger) == f"Ledger(spent {show_up(ledger.spent)} of 0.25 nats in 2 releases)"
    assert mean.spent_ == 0  # counted there, not here


def test_the_secret_stays_in_memory():
    ledger = Ledger(MI(1.0))
    fitted().release(ledger)
    with pytest.raises(TypeError, match="knows the secret world and stays in memory"):
        pickle.dumps(ledger)
    public = json.loads(json.dumps(ledger.to_dict()))
    assert set(public) == {"total", "spent", "releases", "probabilities"}
    assert len(public["probabilities"]) == 64


@pytest.mark.slow
def test_other_lists_modes_and_budgets_are_refused():
    ledger = Ledger(MI(1.0))
    fitted().release(ledger)
    with pytest.raises(ValueError, match="a world of another list"):
        fitted(worlds_seed=1).release(ledger)
    with pytest.raises(ValueError, match="a ledger needs mode='exact'"):
        fitted(mode="estimated").release(ledger)
    with pytest.raises(ValueError, match="a ledger needs mode='exact'"):
        fitted(budget=RecordPosterior(0.9, joint=MI(0.5)), worlds=16).release(ledger)
    with pytest.raises(TypeError, match="total must be MI"):
        Ledger(1.0)


def test_one_world_serves_the_whole_series():
    """Many releases of one statistic average to one world's output, not to the pool's."""
    ledger, mean = Ledger(MI(400.0)), fitted(budget=MI(5.0), worlds=16)
    for _ in range(5):
        mean.release(ledger)
    assert ledger.probabilities.max() > 0.999  # with 25 nats spent the world is known


def test_worlds_ruled_out_may_lie_anywhere():
    """A world of chance 1e-300, a googol away, neither overflows the grid nor costs the others precision."""
    outputs = np.array([[0.0], [1.0], [1e100]])
    plan = calibrate(outputs, 0.5, Shape(basis="diag"), probabilities=np.array([0.5, 0.5, 1e-300]))
    assert abs(plan.positions(outputs)).max() <= 2**52
    assert plan.mi <= 0.5


def test_belief_is_bayes_rule():
    """The table's masses against Gaussian densities."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20, 3))
    plan = calibrate(outputs, 1.0, Shape(basis="svd"))
    positions = plan.positions(outputs)
    seen = positions[4] + plan.law.from_words(rng.integers(0, 2**64, size=3, dtype=np.uint64))
    even = np.full(20, 1 / 20)
    expected = posterior_weights(positions / plan.ratio, (seen / plan.ratio)[np.newaxis], even)[0]
    np.testing.assert_allclose(updated(even, plan, positions, seen), expected, rtol=1e-5)


def calibrated_on(*queries):
    """Return the beliefs under which a ledger has one release after the other calibrated, each that of the public."""
    ledger, beliefs = Ledger(MI(2.0)), []

    def planned(outputs, belief):
        beliefs.append(belief)
        plan = calibrate(outputs, 0.5, Shape(basis="diag"), probabilities=belief)
        return plan, plan.positions(outputs)

    for outputs in queries:
        public = ledger.probabilities
        ledger.draw(np.eye(4, dtype=bool), 0.5, partial(planned, outputs))
        assert public is None or (beliefs[-1] == public).all()
    return beliefs


@pytest.mark.slow
def test_adaptive_series_keep_the_total():
    """Second query chosen by the first answer, where prior variances understate it: true MI by full simulation.

    Worlds 0..3; the first release tells {0,1} from {2,3} well, the second separates 2 from 3 only if asked to.
    5 standard errors: false alarm 3e-7.
    """
    rng = np.random.default_rng(1)
    first = np.array([0.0, 0.0, 10.0, 10.0])[:, np.newaxis]
    choices = {False: np.array([0.0, 4.0, 0.0, 0.0])[:, np.newaxis], True: np.array([0.0, 0, 0, 4])[:, np.newaxis]}
    even, beta, gains = np.full(4, 0.25), 0.4, []
    left_by_the_first = calibrated_on(first, choices[True])
    assert (left_by_the_first[0] == even).all()
    assert (left_by_the_first[1] != even).any()
    one = calibrate(first, 0.7, Shape(basis="diag"))
    for _ in range(600):
        world = rng.integers(4)
        at = one.positions(first)
        seen = at[world] + one.law.from_words(rng.integers(0, 2**64, size=1, dtype=np.uint64))
        belief = updated(even, one, at, seen)
        second = choices[bool(one.released(seen)[0] > 5)]
        two = calibrate(second, beta, Shape(basis="diag"), probabilities=belief)
        at = two.positions(second)
        seen = at[world] + two.law.from_words(rng.integers(0, 2**64, size=at.shape[1], dtype=np.uint64))
        gains.append(np.log(updated(belief, two, at, seen)[world] / 0.25))
    assert np.mean(gains) <= 0.7 + beta + 5 * np.std(gains) / np.sqrt(len(gains))


def exactly(ledger):
    """Return what a ledger's releases cost in all, without rounding."""
    return ledger._spent


@pytest.mark.slow
def test_threads_cannot_spend_more_than_the_total(monkeypatch):
    """Six threads at one ledger, each calibration taking a while: the sum of all costs, without rounding, is within."""
    ledger, users = Ledger(MI(0.5)), [fitted(), fitted(PCA(1)), fitted(budget=MI(0.07))]
    made, refused = [], []

    def spend(user):
        for _ in range(6):
            try:
                made.append(Fraction(user.release(ledger).report()["mi_nats"]))
            except ValueError as error:
                refused.append(str(error))

    def slowly(*args, **settings):
        time.sleep(0.03)
        return calibrate(*args, **settings)

    monkeypatch.setattr("epsworth.pac.privatizer.calibrate", slowly)
    threads = [threading.Thread(target=spend, args=(users[i % 3],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert exactly(ledger) <= Fraction(0.5)
    assert ledger.releases == len(made) >= 5
    assert len(made) + len(refused) == 36
    assert all("nats left and this release costs" in message for message in refused)
    assert float(sum(made)) == pytest.approx(ledger.spent, abs=36e-6)  # reports round up to a millionth


def test_costs_are_added_without_rounding():
    """A total is not exceeded by one unit in the last place, however many releases lead there."""
    outputs = np.array([[0.0], [1.0], [2.0], [4.0]])
    members = np.eye(4, dtype=bool)
    plan = calibrate(outputs, 0.1, Shape(basis="diag"))
    positions, cost = plan.positions(outputs), 0.1 + 2**-60
    for total in (0.3, 0.30000000000000004):
        ledger = Ledger(MI(total))
        for _ in range(2):
            ledger.draw(members, cost, lambda belief: (replace(plan, mi=cost), positions))
        left = Fraction(total) - 2 * Fraction(cost)
        most = float(left) if Fraction(float(left)) <= left else math.nextafter(float(left), 0)
        above = math.nextafter(most, 1)
        with pytest.raises(ValueError, match="nats left and this release costs"):
            ledger.draw(members, above, lambda belief: (replace(plan, mi=above), positions))  # noqa: B023
        ledger.draw(members, most, lambda belief: (replace(plan, mi=most), positions))  # noqa: B023
        assert exactly(ledger) <= Fraction(total)
        assert Fraction(ledger.spent) >= exactly(ledger)
        assert ledger.spent <= total


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("opened", [False, True])
def test_a_ledger_cannot_be_copied(copied, opened):
    ledger = Ledger(MI(1.0))
    if opened:
        fitted().release(ledger)
    with pytest.raises(TypeError, match="stays in memory"):
        copied(ledger)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_process_cannot_spend_the_total_again():
    ledger, mean = Ledger(MI(1.0)), fitted()
    mean.release(ledger)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mean.release(ledger)
            os.write(write, b"released")
        except ValueError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"belongs to the process that made it" in os.read(read, 1000)
    os.close(read)
    os.close(write)
    mean.release(ledger)
    assert ledger.releases == 2


def test_what_a_ledger_shows_cannot_be_written_to():
    ledger, mean = Ledger(MI(1.0)), fitted()
    mean.release(ledger)
    for name in ("total", "spent", "releases", "probabilities"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, 0.0)
    before = ledger.probabilities
    ledger.probabilities[:] = 0
    np.testing.assert_array_equal(ledger.probabilities, before)


def test_a_draw_that_fails_is_paid_for_and_a_plan_that_fails_is_not(monkeypatch):
    """Nothing is half-done: a first release that fails leaves a ledger that can be used."""
    ledger, mean = Ledger(MI(1.0)), fitted()
    with monkeypatch.context() as broken:
        broken.setattr(RoundedGaussian, "draw", lambda law, count: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mean.release(ledger)
    assert ledger.spent == pytest.approx(0.1, rel=1e-3)
    with pytest.raises(ZeroDivisionError):
        ledger.draw(mean.members(), 0.1, lambda belief: 1 / 0)
    assert ledger.releases == 1
    mean.release(ledger)
    assert ledger.releases == 2


def test_releases_without_a_ledger_are_all_counted():
    """Also from threads."""
    mean = fitted()
    threads = [threading.Thread(target=lambda: [mean.release() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mean._tally._sum == 80 * Fraction(mean.plan_.mi)
    assert pickle.loads(pickle.dumps(mean)).spent_ == mean.spent_


def test_copies_of_a_fit_count_each_others_releases():
    first = fitted()
    first.release()
    for copied in (copy.copy, copy.deepcopy):
        other = copied(first)
        other.release()
        assert other.spent_ == first.spent_
    assert first._tally._sum == 3 * Fraction(first.plan_.mi)
    assert fitted().spent_ == 0


def test_a_plan_may_cost_no_more_than_was_asked_for():
    """Not by one unit in the last place, which the total would not have been checked against."""
    outputs = np.array([[0.0], [1.0]])
    plan = calibrate(outputs, 0.1, Shape(basis="diag"))
    ledger, above = Ledger(MI(1.0)), math.nextafter(0.1, 1)
    with pytest.raises(ValueError, match="this release would cost"):
        ledger.draw(np.eye(2, dtype=bool), 0.1, lambda belief: (replace(plan, mi=above), plan.positions(outputs)))
    assert ledger.releases == ledger.spent == 0


@pytest.mark.parametrize("costs", [(0.1,) * 3, (1 / 3, 1e-20), (0.7, 1e-300), (0.1, 0.2, 0.3, 0.4)])
def test_sums_are_shown_rounded_up(costs):
    tally = Tally()
    for cost in costs:
        tally.add(cost)
    exact = sum(map(Fraction, costs))
    assert Fraction(math.nextafter(tally.sum, 0)) < exact <= Fraction(tally.sum)
