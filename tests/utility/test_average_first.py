"""Where there is a deadline the average over the records comes first, of all points, and what follows refines it."""

from __future__ import annotations

import numpy as np
import pytest
import threadpoolctl
from scipy.stats import binom
from sklearn.ensemble import HistGradientBoostingClassifier

import epsworth as ew
import hospital
from epsworth.utility.engines.sampled import FIRST_LOOK

X = np.random.default_rng(0).random((40, 5))
GIVEN = {
    "sensitive": [0, 1, 2, 3, 4], "mechanisms": ["pm", "laplace_clipped", "krr:k=5001"], "tolerance": 0.02,
    "epsilons": [0.5, 1, 2, 4, 6, 8],
}  # fmt: skip
POINTS = 18


def half(records):
    return (records.sum(axis=1) > 2.5).astype(int)


class Counting:
    """A classifier that counts its rows, and a watch that notes how many there were when averages got narrower."""

    def __init__(self, stop=0.0):
        self.rows, self.seen, self.stop = 0, [], stop

    def labels(self, records):
        self.rows += len(records)
        return half(records)

    def watch(self, standing):
        lower, upper = standing.average()
        if upper.size:
            self.seen.append((self.rows, upper - lower))
        return bool(self.seen) and self.seen[-1][1].max() <= self.stop


def test_every_point_has_an_interval_before_any_is_drawn_beyond_the_first_look():
    model = Counting(stop=0.5)
    curves = ew.stability(model.labels, X, rng=0, seconds=1e6, watch=model.watch, **GIVEN)
    assert curves.stopped
    assert curves.over == "dataset"
    assert "the average comes first" in curves.notes[0]
    open_ = [rows for rows, widths in model.seen if widths.max() == 1]
    narrow = next(rows for rows, widths in model.seen if widths.max() < 1)
    assert max(open_) < narrow <= FIRST_LOOK * POINTS * 2
    assert (np.array(model.seen[-1][1]) <= 0.5).all()


def test_the_average_meets_the_tolerance_before_the_records_are_looked_at():
    model = Counting(stop=2 * GIVEN["tolerance"])
    curves = ew.stability(model.labels, X, rng=0, seconds=1e6, watch=model.watch, **GIVEN)
    lower, upper = curves.average()
    assert (upper - lower).max() <= 2 * GIVEN["tolerance"]
    assert (curves.lower == 0).all()
    assert (curves.upper == 1).all()
    whole = ew.stability(half, X, rng=0, seconds=1e6, **GIVEN)
    assert not whole.stopped
    assert (whole.average().lower >= lower).all()
    assert (whole.average().upper <= upper).all()
    worst = whole.worst()
    assert (worst.upper - worst.lower).max() <= 2 * GIVEN["tolerance"] * (1 + 1e-9)


def test_engines_that_go_on_after_the_average_keep_it():
    """Boxes of three features of a booster: the run ends after a few records, and the average is known to the end."""
    data = hospital.hospital(1, 400, gaps=False)
    model, seen = hospital.boosted(data), []

    def watch(standing):
        seen.append(standing.average())
        lower, upper = seen[-1]
        return upper.size and (upper - lower).max() <= 0.1 and len(seen) > 3

    names = hospital.SENSITIVE[:3]
    curves = ew.stability(
        model, data.test[:60], sensitive=names, domain={name: hospital.DOMAIN[name] for name in names}, rng=0,
        mechanisms=["pm", "krr"], epsilons=[1, 4], tolerance=0.05, seconds=1e6, watch=watch,
    )  # fmt: skip
    assert set(curves.method.flat) == {"boxes" if "boxes" in curves.method else "branch_and_bound"}
    lower, upper = curves.average()
    assert (upper - lower).max() <= 0.1
    assert curves.stopped


@pytest.mark.parametrize("over", ["auto", "dataset"])
def test_without_a_deadline_nothing_comes_first(over):
    curves = ew.stability(half, X[:3], rng=0, over=over, **GIVEN)
    assert not any("the average comes first" in note for note in curves.notes)
    assert "strata" in curves.method


def test_who_asks_for_every_record_gets_it_by_a_deadline_too():
    given = GIVEN | {"tolerance": 0.1}
    limited = ew.stability(half, X[:3], rng=0, seconds=1e6, over="records", **given)
    free = ew.stability(half, X[:3], rng=0, over="records", **given)
    np.testing.assert_array_equal(limited.lower, free.lower)


def greedy(run):
    """Stop at the moment at which any bound on the average is wrong; return whether a bound of the result is."""
    truth = 0.7

    def watch(standing):
        lower, upper = standing.average()
        return bool(upper.size and ((lower > truth) | (upper < truth)).any())

    curves = ew.stability(
        lambda records: records[:, 0] < truth, [[0.5], [0.2]], sensitive=0, mechanisms=["krr:k=100001", "krr:k=50001"],
        epsilons=[1e-9, 2e-9], method="sampled", confidence=0.8, tolerance=0.03, rng=run, seconds=1e6, watch=watch,
    )  # fmt: skip
    sides = [curves.average(), (curves.lower, curves.upper)]
    return any(((lower > truth + 1e-4) | (upper < truth - 1e-4)).any() for lower, upper in sides)


def test_all_bounds_hold_together_whenever_a_run_is_stopped():
    """Of records and of the average, with confidence .8, under the worst rule for stopping (false alarm: 1e-6)."""
    runs = 60
    assert sum(map(greedy, range(runs))) <= binom.isf(1e-6, runs, 0.2)


def openmp_threads():
    return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "openmp"]


@pytest.mark.parametrize("fails", [False, True])
def test_classifiers_are_asked_on_one_openmp_thread_and_the_setting_is_restored(fails):
    HistGradientBoostingClassifier(max_iter=1).fit(X, half(X))  # which loads OpenMP
    seen = []

    def labels(records):
        seen.append(openmp_threads())
        if fails and len(seen) > 3:
            raise RuntimeError("broken")
        return half(records)

    with threadpoolctl.threadpool_limits(3, user_api="openmp"):
        assert set(openmp_threads()) == {3}
        if fails:
            with pytest.raises(ew.ClassifierError):
                ew.stability(labels, X, rng=0, **GIVEN)
        else:
            ew.stability(labels, X, rng=0, **GIVEN | {"tolerance": 0.2})
        assert set(openmp_threads()) == {3}
    assert seen
    assert all(set(threads) == {1} for threads in seen)


@pytest.mark.parametrize("times", [2, 6, 12])
@pytest.mark.cases(1)
def test_a_run_goes_on_with_the_average_first_without_a_deadline_too(times, tmp_path):
    given, left = GIVEN | {"tolerance": 0.05, "seconds": None}, [times]

    def watch(standing):
        left[0] -= 1
        return left[0] < 0

    whole = ew.stability(half, X, rng=0, **given | {"seconds": 1e6})
    kept = {"checkpoint": tmp_path / "run", "rng": 0}
    early = ew.stability(half, X, watch=watch, **kept, **given | {"seconds": 1e6})
    assert early.stopped
    found = ew.stability(half, X, **kept, **given)
    np.testing.assert_array_equal(found.lower, whole.lower)
    np.testing.assert_array_equal(found.average(), whole.average())


def test_a_run_that_began_with_the_records_goes_on_with_them(tmp_path):
    given, left = GIVEN | {"tolerance": 0.1}, [5]

    def watch(standing):
        left[0] -= 1
        return left[0] < 0

    kept = {"checkpoint": tmp_path / "run", "rng": 0}
    assert ew.stability(half, X[:3], watch=watch, **kept, **given).stopped
    found = ew.stability(half, X[:3], seconds=1e6, **kept, **given)
    np.testing.assert_array_equal(found.lower, ew.stability(half, X[:3], rng=0, **given).lower)


def test_hospital_data_is_as_it_says():
    data = hospital.hospital()
    assert (data.train.shape, data.test.shape) == ((2000, 9), (2000, 9))
    missing = data.test.isna().mean()
    assert ((missing[list(hospital.GAPS)] > 0.02) & (missing[list(hospital.GAPS)] < 0.34)).all()
    assert not hospital.hospital(gaps=False).test[hospital.SENSITIVE].isna().any().any()
    for model in (hospital.boosted(data), hospital.logistic(data)):
        assert model.score(data.test, data.y_test) > 0.8


def test_ranges_of_the_hospital_are_one_in_both_spellings(tmp_path):
    (tmp_path / "ranges.toml").write_text(hospital.domain_text())
    assert ew.Domain.load(tmp_path / "ranges.toml") == ew.Domain.of(hospital.DOMAIN)
