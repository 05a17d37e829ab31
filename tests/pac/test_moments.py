"""Many worlds in one pass: exact sums, outputs as fits give them, the same however they are cut."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier

from epsworth.pac import MI, PACPrivatizer
from epsworth.pac.adapters import prepared
from epsworth.pac.mechanism import FunctionMechanism, MeanMechanism, Mechanism
from epsworth.pac.modes import listed_units
from epsworth.pac.simulation import DIGIT, DIGITS, ROWS, Experiment, Moments, Trials, simulate, together
from epsworth.pac.worlds import Sampler, units_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(603, 4)) @ RNG.normal(size=(4, 4)) * [1, 100, 1, 0.01] + [5, 100, 0, -1]
TARGET = X @ [1, 0.01, -1, 100] + RNG.normal(size=603)
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.3, 0.8]))
CASES = [
    ("mean", None), (PCA(2), None), (LinearRegression(), TARGET), (Ridge(30.0), TARGET), (Ridge(1e-9), TARGET),
    (RidgeClassifier(2.0), CLASSES), (RidgeClassifier(2.0), np.array(["no", "yes"])[(CLASSES > 0).astype(int)]),
]  # fmt: skip


def experiment(algorithm, y, rows=X, *, groups=None, rate=0.5, seed=0):
    strata = np.zeros(len(rows), int) if y is None or y.dtype == float else np.unique(y, return_inverse=True)[1]
    sampler = Sampler(units_of(rows, strata, groups), rate, seed, rate == 0.5)
    return Experiment(prepared("auto", algorithm, rows, y), rows, y, sampler)


@pytest.mark.parametrize(("algorithm", "y"), CASES)
@pytest.mark.parametrize("rate", [0.5, 0.3])
@pytest.mark.parametrize("persons", [False, True])
def test_one_pass_gives_what_fits_give(algorithm, y, rate, persons):
    """Within 1e-8 of what worlds differ by, which is n 2**-36 of it for means; groups and fresh worlds are no other."""
    one = experiment(algorithm, y, groups=np.arange(603) // 4 if persons else None, rate=rate)
    assert one.moments is not None
    found, members = simulate(one, 64).outputs, one.sampler.draw(range(64))
    fits = np.array([one._fitted(rows) for rows in members])
    assert (np.abs(found - fits).max(axis=0) <= 1e-8 * fits.std(axis=0).max()).all()
    for i in (0, 1, 63):  # to the last bit: a fresh sub-sample's output is the certified function's
        np.testing.assert_array_equal(one.output(members[i]), found[i])


@pytest.mark.slow
def test_outputs_do_not_depend_on_how_worlds_are_cut():
    one = experiment(Ridge(1.0), TARGET)
    whole = one.run(range(64)).outputs
    for cut in ([range(0, 5), range(5, 64)], [range(0, 1), range(1, 2), range(2, 64)]):
        np.testing.assert_array_equal(np.concatenate([one.run(part).outputs for part in cut]), whole)
    np.testing.assert_array_equal(simulate(one, 64, n_jobs=2).outputs, whole)


def test_sums_are_exact_where_digits_are_largest():
    """Rows of 2**34 + 2047 units, 40,000 of one sign after the other: more than single precision holds at once."""
    value = (2.0**34 + 2047) * 2.0**-35
    rows = np.repeat([value, -value], 40_000)[:, np.newaxis] * [1.0, 1e100]
    mechanism = MeanMechanism.prepare("mean", rows, None)
    moments = Moments.of(mechanism, rows, None)
    whole = np.rint((rows - moments.centre) / moments.unit).astype(np.int64)
    assert np.abs(whole).max() <= 1 << (DIGIT * DIGITS - 1)
    bits = np.packbits(RNG.random((4, len(rows))) < 0.5, axis=1)
    held = np.unpackbits(bits, axis=1).astype(np.int64)
    sums = moments.sums(mechanism, rows, None, bits)
    np.testing.assert_array_equal(sums[:, :2], held @ whole)
    np.testing.assert_array_equal(sums[:, 2], held.sum(axis=1))
    assert ROWS * 2 ** (DIGIT - 1) <= 2**24


def test_where_means_do_not_settle_it_the_model_is_fitted():
    rows = X.copy()
    rows[:, 3] = rows[:, 0] * 2  # of the pool
    assert experiment(LinearRegression(), TARGET, rows).moments is None
    assert experiment(LinearRegression(fit_intercept=False), TARGET).moments is None
    assert experiment(Ridge(solver="lsqr"), TARGET).moments is None
    assert experiment(RidgeClassifier(class_weight="balanced"), CLASSES).moments is None
    assert experiment(PCA(2, svd_solver="arpack"), None).moments is None
    assert experiment("mean", None, X * 1e200).moments is None
    assert experiment(len, None).moments is None
    rows[:, 3] = rows[:, 0] + np.eye(603)[5] * 1e3  # of worlds without the sixth row
    one = experiment(LinearRegression(), TARGET, rows)
    assert one.moments is not None
    found, members = simulate(one, 32).outputs, one.sampler.draw(range(32))
    assert 0 < members[:, 5].sum() < 32
    for world in np.flatnonzero(~members[:, 5]):
        np.testing.assert_array_equal(found[world], one._fitted(members[world]))


@dataclass(frozen=True, eq=False)
class Squares(Mechanism):
    """Declares moments of its own; fails, or asks for a fit, where it is told to."""

    names = ("mean square",)

    def output(self, X, y):
        return np.array([-1.0])

    def rebuild(self, vector):
        return vector

    def moments(self, X, y):
        return X[:, :1] ** 2

    def from_moments(self, means, count):
        if means[0] < 1.0:
            raise RuntimeError("no")
        return None if means[0] < 1.1 else means


def test_an_adapter_may_declare_moments():
    rows = RNG.normal(size=(40, 1)) + 0.3
    made = PACPrivatizer(
        None, MI(0.1), worlds=64, worlds_seed=0, adapter=lambda estimator, X, y: Squares(np.array([9.0]))
    ).fit(rows)
    means = np.array([(rows[members] ** 2).mean() for members in made.members()])
    kinds = np.where(means < 1, 9.0, np.where(means < 1.1, -1.0, means))
    assert len({9.0, -1.0} & set(kinds)) == 2
    np.testing.assert_allclose(made.trials_.outputs[:, 0], kinds, rtol=1e-9)
    np.testing.assert_array_equal(made.trials_.failed, means < 1)


def test_memory_stays_bounded():
    """Ten million rows are cut; a thousand worlds of a million rows are one pass."""
    assert together(1_000_000, 5) * 1_000_000 / 8 <= 2**27
    assert 896 <= together(1_000_000, 5) <= 1024
    assert together(10_000_000, 5) == 96
    assert together(100, 5) == 1024
    assert together(10**8, 4000) >= 32
    one = experiment("mean", None, RNG.normal(size=(9000, 1)))
    listed = listed_units(one, Trials(np.zeros((1024, 1)), np.zeros(1024, bool), 0))
    assert listed.bits.nbytes == 1024 * 9000 / 8
    assert max(block.nbytes for block in listed.blocks()) <= 2**22
    assert (listed.shares == 0.5).all()
    assert listed.multiplicity == 1


def _slow(rows):
    time.sleep(0.2)
    return rows.mean(axis=0)


def test_a_bar_moves_while_workers_are_waited_for_and_what_it_raises_ends_them():
    """Ctrl-C arrives there."""
    told = []

    def interrupted(share):
        told.append(share)
        raise KeyboardInterrupt

    slow = Experiment(FunctionMechanism.prepare(_slow, X, None), X, None, experiment("mean", None).sampler)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        simulate(slow, 1024, n_jobs=2, progress=interrupted)
    assert told == [0.0]  # nothing was done yet
    assert time.monotonic() - began < 60  # of 100 seconds' work
