"""The list of worlds and the sub-sample of a release are secret, and nobody changes what was calibrated on."""

from __future__ import annotations

import copy
import json
import pickle
import random
import threading
from collections import Counter, deque
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from epsworth.mechanisms.words import KeyedWords, SystemWords
from epsworth.pac import MI, Ledger, PACPrivatizer, RecordPosterior
from epsworth.pac.fingerprints import mark
from epsworth.pac.worlds import Exchanges, Sampler, SecretSeed, Units, source_of

POOL = np.random.default_rng(0).normal(size=(12, 2))
LABELS = np.tile([0, 1], 6)


def fit(X=POOL, y=None, function="mean", budget=None, **settings):
    return PACPrivatizer(function, budget or MI(0.5), **{"worlds": 16, **settings}).fit(X, y)


def units(*strata):
    return Units(np.arange(len(strata)), np.array(strata))


@pytest.mark.slow
def test_the_list_of_worlds_is_secret_unless_its_seed_is_given():
    secret, public = fit(), fit(worlds_seed=5)
    assert PACPrivatizer("mean", MI(1.0)).worlds_seed is None
    assert secret.report()["worlds_seed"] == "secret"
    assert public.report()["worlds_seed"] == 5
    assert any("5 known memberships are about enough" in limit for limit in public.report()["limits"])
    assert not any("list of worlds is public" in limit for limit in secret.report()["limits"])
    key = secret.worlds_seed_.key
    for shown in (repr(secret), repr(secret.worlds_seed_), str(secret.worlds_seed_), json.dumps(secret.report())):
        assert key.hex() not in shown
        assert repr(key) not in shown
    assert (fit(worlds_seed=SecretSeed()).members() != fit(worlds_seed=SecretSeed()).members()).any()
    np.testing.assert_array_equal(fit(worlds_seed=5).members(), public.members())


@pytest.mark.slow
def test_eleven_known_memberships_name_one_of_a_thousand_worlds():
    """The price of a public list, as the report states it: on average at most one other world is left."""
    rows = np.random.default_rng(3).normal(size=(200, 1))
    fitted = fit(rows, worlds=1024, worlds_seed=0)
    members = fitted.members()
    assert any("11 known memberships" in limit for limit in fitted.report()["limits"])
    known = members[:, :11]
    left = [int((known == known[world]).all(axis=1).sum()) for world in range(1024)]
    assert np.mean(left) < 2


def test_fits_of_one_process_speak_of_one_list_and_may_share_a_ledger():
    one, other, ledger = fit(), fit(function=lambda rows: rows.max(axis=0)), Ledger(MI(1.0))
    np.testing.assert_array_equal(one.members(), other.members())
    one.release(ledger)
    other.release(ledger)
    with pytest.raises(ValueError, match=r"worlds_seed=first\.worlds_seed_"):
        fit(worlds_seed=SecretSeed()).release(ledger)
    fit(worlds_seed=one.worlds_seed_, budget=MI(0.1))
    copied = pickle.loads(pickle.dumps(clone(one).set_params(worlds_seed=one.worlds_seed_)))
    np.testing.assert_array_equal(copied.fit(POOL).members(), one.members())


def test_a_checkpoint_takes_its_secret_list_up_again(tmp_path):
    path = tmp_path / "trials.npz"
    first = fit(worlds_seed=SecretSeed(), worlds=32, checkpoint=path)
    again = fit(worlds=32, checkpoint=path)
    np.testing.assert_array_equal(again.trials_.outputs, first.trials_.outputs)
    np.testing.assert_array_equal(again.members(), first.members())
    with pytest.raises(ValueError, match="it belongs to other data"):
        fit(worlds=32, checkpoint=path, worlds_seed=0)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_fresh_sub_sample_is_drawn_by_the_operating_system(monkeypatch):
    """Not by a generator that was merely seeded from it: all 70 halves of 8 units, alike (chi-square, 6 deviations)."""
    counts, sampler = Counter(), Sampler(units(*[0] * 8), 0.5, 0, paired=False)
    monkeypatch.setattr(np.random, "default_rng", lambda *seed: 1 / 0)
    for _ in range(3500):
        counts[tuple(np.flatnonzero(sampler.fresh()))] += 1
    assert set(counts) == set(combinations(range(8), 4))
    chi_square = sum((count - 50) ** 2 / 50 for count in counts.values())
    assert chi_square < 69 + 6 * np.sqrt(2 * 69)
    sampler, drawn = Sampler(units(*[0] * 200), 0.5, 0, paired=False), []
    for key in (1, 1, 2):
        words = KeyedWords(bytes([key] * 32))
        monkeypatch.setattr(SystemWords, "take", lambda self, count, words=words: words.take(count))
        drawn.append(sampler.fresh())
    assert (drawn[0] == drawn[1]).all(), "something beside the system's words decides"
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize("kind", [Sampler, Exchanges])
@pytest.mark.parametrize("seed", [7, SecretSeed(bytes(range(32)))])
@pytest.mark.cases(1)
def test_listed_worlds_are_uniform_under_either_seed(kind, seed):
    """Counts of the 20 halves of 6 units over 2000 worlds (chi-square 19, 6 deviations; seeded)."""
    worlds = kind(units(*[0] * 6), 0.5, seed, paired=False).draw(range(4000))[1::2]
    counts = Counter(tuple(row) for row in worlds)
    assert len(counts) == 20
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 19 + 6 * np.sqrt(38)


def test_shares_of_a_stratum_follow_the_declared_decimal():
    """0.3 of ten is three, not two once in 10**16; an odd unit goes either way."""
    assert set(Sampler(units(*[0] * 10), 0.3, 0, paired=False).draw(range(50)).sum(axis=1)) == {3}
    whole, chance = Sampler(units(0, 0, 0, 0, 0), 0.5, 0, paired=False)._kept
    assert whole.tolist() == [2]
    assert chance.tolist() == [2**63]


def test_every_run_has_words_of_its_own():
    one, other = source_of(SecretSeed(), 3)(100), source_of(SecretSeed(), 3)(100)
    assert (one != other).any()


@pytest.mark.parametrize("mode", ["exact", "certified", "estimated"])
def test_the_callers_arrays_no_longer_matter_after_the_fit(mode):
    X, y = POOL.copy(), LABELS.copy()
    fitted = fit(X, y, function=lambda rows, labels: [rows.mean(), labels.mean()], mode=mode, worlds=60)
    listed, outputs = fitted.members(), fitted.trials_.outputs.copy()
    X[:], y[:] = 7, 0
    np.testing.assert_array_equal(fitted.trials_.outputs, outputs)
    np.testing.assert_array_equal(fitted.members(), listed)
    assert abs(fitted.calibrated_.experiment.output(np.ones(12, bool))[0] - POOL.mean()) < 1e-15
    assert fitted.calibrated_.experiment.y.tolist() == LABELS.tolist()


def test_the_callers_tables_no_longer_matter_after_the_fit():
    table = pd.DataFrame(POOL, columns=["a", "b"])
    fitted = fit(table, pd.Series(LABELS), function=LogisticRegression())
    table.loc[:, "a"] = 7.0
    np.testing.assert_array_equal(fitted.calibrated_.experiment.X, POOL)


@pytest.mark.slow
def test_what_a_fit_hands_out_cannot_be_written_to():
    fitted = fit(budget=RecordPosterior(0.7, MI(0.3)))
    for array in (
        fitted.calibrated_.experiment.X, fitted.trials_.outputs, fitted.trials_.failed, fitted.mechanism_.reference,
        fitted.plan_.step, fitted.plan_.spread, fitted.plan_.frame.centre,
        fitted.plan_.frame.axes, fitted.calibrated_.exposure.upper, fitted.calibrated_.exposure.tpr,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7
    listed = fitted.members()
    fitted.members()[:] = True
    np.testing.assert_array_equal(fitted.members(), listed)
    release = fitted.release()
    release.report()["limits"].clear()
    assert release.report()["limits"]


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, rows):
        return rows.mean(axis=0) * self.factor


@pytest.mark.parametrize("mode", ["certified", "estimated"])
def test_what_a_function_encloses_must_not_change_before_it_runs_again(mode):
    """A release of these modes runs the function afresh, on a calibration of what it was."""
    factor = np.ones(2)
    enclosed, scaled = (lambda rows: rows.mean(axis=0) * factor), Scaled(np.ones(2))
    for function, array in ((enclosed, factor), (scaled, scaled.factor)):
        fitted = fit(function=function, mode=mode, worlds=60)
        fitted.release()
        copy.deepcopy(fitted).release()
        pickle.loads(pickle.dumps(fitted)).release() if function is scaled else None
        array[0] = 7
        with pytest.raises(ValueError, match=r"^estimator was changed after fit; fit again$"):
            fitted.release()


class Slotted:
    __slots__ = ("factor",)


class SlottedTwice(Slotted):
    __slots__ = ("unset",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, rows):
        return rows.mean(axis=0) * self.factor


class Listed(list):
    def __call__(self, rows):
        return rows.mean(axis=0) * self.factor[0]


def in_slots(factor):
    return SlottedTwice(factor)


def in_a_list_with_a_name(factor):
    made = Listed()
    made.factor = factor
    return made


def in_an_attribute(factor):
    def function(rows):
        return rows.mean(axis=0) * function.factor[0]

    function.factor = factor
    return function


def in_a_queue(factor):
    queue = deque([factor])
    return lambda rows: rows.mean(axis=0) * queue[0]


def in_a_view(factor):
    view = memoryview(factor)
    return lambda rows: rows.mean(axis=0) * np.asarray(view)


@pytest.mark.parametrize("held", [in_slots, in_a_list_with_a_name, in_an_attribute, in_a_queue, in_a_view])
def test_nothing_that_an_object_holds_may_change_before_it_runs_again(held):
    factor = np.ones(2)
    fitted = fit(function=held(factor), mode="estimated", worlds=16)
    fitted.release()
    factor[:] = 1e6
    with pytest.raises(ValueError, match=r"^estimator was changed after fit; fit again$"):
        fitted.release()


def test_descriptions_tell_objects_by_what_they_hold():
    for make in (lambda: Scaled(np.ones(2)), lambda: deque([1, 2]), lambda: np.random.default_rng(0), object):
        assert mark(make()) == mark(make())
        assert mark(copy.deepcopy(one := make())) == mark(one)
    drawn = np.random.default_rng(0)
    before = mark(drawn)
    drawn.random()
    assert mark(drawn) != before
    lock = threading.Lock()
    assert mark(lock) != mark(lock)  # nothing tells what it holds: taken as changed


def test_settings_changed_from_the_inside_are_noticed():
    weights, start = np.ones(2), POOL[:2].copy()
    weighted, started = fit(weights=weights), fit(function=KMeans(2, init=start, n_init=1))
    weights[0], start[0] = 7, 7
    with pytest.raises(ValueError, match=r"^weights was changed after fit; fit again$"):
        weighted.release()
    with pytest.raises(ValueError, match=r"^estimator was changed after fit; fit again$"):
        started.release()
    nested = fit(function=KMeans(2, n_init=1))
    nested.set_params(estimator__n_clusters=3)
    with pytest.raises(ValueError, match=r"^estimator was changed after fit; fit again$"):
        nested.report()
    free = fit().set_params(n_jobs=1)
    free.release()


def test_the_secret_world_is_drawn_by_the_operating_system():
    """Equal seeds of numpy's and Python's global generators give different worlds, and these are not advanced.

    40 draws of 64 worlds: two rows of draws are equal by chance once in 64**40 runs, 10**72.
    """
    rows = [lambda X: [float(X.sum())], MI(0.1)]
    exact = PACPrivatizer(*rows, worlds=64).fit(POOL)
    members = np.eye(64, dtype=bool)

    def alone():
        return exact.calibrated_.secret_positions().tobytes()

    def in_a_ledger():
        return Ledger(MI(1.0))._open(members, 0.1)[0]

    for draw in (alone, in_a_ledger):
        seen = []
        for _ in range(2):
            np.random.seed(5)  # noqa: NPY002
            random.seed(5)
            state = np.random.get_state()[1].tobytes(), np.random.get_state()[2], random.getstate()  # noqa: NPY002
            seen.append([draw() for _ in range(40)])
            after = np.random.get_state()[1].tobytes(), np.random.get_state()[2], random.getstate()  # noqa: NPY002
            assert after == state
        assert seen[0] != seen[1]
        assert len(set(seen[0])) > 10  # of 64, 40 draws leave that few once in 10**20 runs


@pytest.mark.parametrize("pool", [np.array([1234.5, 77.25, 3.0] * 4), "1234.5", {"a": [1234.5]}, [[1234.5], [1, 2]]])
def test_no_refusal_of_a_pool_shows_what_it_holds(pool):
    with pytest.raises(ValueError, match="must be a table of shape") as refused:
        PACPrivatizer("mean", MI(0.2)).fit(pool)
    assert "1234" not in str(refused.value)


@pytest.mark.parametrize("output", [lambda rows: [f"secret{rows.sum():g}"], lambda rows: [10**400]])
def test_no_refusal_of_an_output_shows_it(output):
    with pytest.raises(ValueError, match="must be numbers that doubles hold") as refused:
        PACPrivatizer(output, MI(0.2), worlds=16).fit(np.arange(1.0, 9)[:, None])
    assert "secret" not in str(refused.value)
