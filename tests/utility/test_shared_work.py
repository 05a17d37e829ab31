"""Splits, tailored policies and profiles by several workers: to the bit what one process finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.exposure import fit_base, loo, window
from epsworth.parallel import in_order
from epsworth.tailored import problem

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7)}


def a_split(n_jobs=None, **settings):
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(IRIS, SPECIES)
    asked = {"sensitive": [0, 2], "total": 3, "domain": {j: RANGES[j] for j in (0, 2)}, "rng": 1} | settings
    return ew.split_budget(model, IRIS[::10], n_jobs=n_jobs, **asked)


def a_sampled_split(n_jobs=None, **settings):
    """Three features on a function that only draws can tell about, with exchanges of budget."""
    asked = {"sensitive": [0, 1, 2, 3], "total": 3, "domain": RANGES | {3: (0, 3)}, "rng": 1, "tolerance": 0.1}
    return ew.split_budget(by_petals, IRIS[::15], n_jobs=n_jobs, **(asked | settings))


def by_petals(records):
    return records[:, 2] * records[:, 3] > 3


def a_policy(n_jobs=None):
    X, y = make_classification(1200, 4, n_informative=3, n_redundant=0, random_state=0)
    model = RandomForestClassifier(30, random_state=0).fit(X, y)
    domain = {j: (float(X[:, j].min()), float(X[:, j].max())) for j in range(4)}
    return ew.tailor(
        model, X, sensitive=[0, 1, 2], epsilon=2, domain={j: domain[j] for j in range(3)}, rng=0, public=True,
        surrogate="auto", n_jobs=n_jobs,
    )  # fmt: skip


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(problem, "PIECE", 500)


def a_profile(n_jobs=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(400, 3))
    y = np.where(X[:, 0] + rng.normal(0, 0.2, 400) > 0, 1, -1)
    whole = loo(X, y, fit_base(X, y, 0.01), 0.01, "exact", n_jobs=n_jobs)
    return whole, window(X, y, 0.01, rng=1, n_jobs=n_jobs)


def same_split(one, two):
    assert one.to_dict() == two.to_dict()


def same_policy(one, two):
    assert one.policy.to_toml() == two.policy.to_toml()
    assert one.to_dict() == two.to_dict()
    assert (one.rows == two.rows).all()


def same_profile(one, two):
    (whole, found), (other, second) = one, two
    assert (whole.deltas == other.deltas).all()
    assert (whole.errors == other.errors).all()
    assert found.to_dict() == second.to_dict()
    assert (found.usefulness.kept_lower == second.usefulness.kept_lower).all()


CASES = [
    pytest.param(a_split, same_split, id="split"),
    pytest.param(a_sampled_split, same_split, id="sampled split"),
    pytest.param(a_policy, same_policy, id="tailor"),
    pytest.param(a_profile, same_profile, id="profile"),
]


@pytest.mark.parametrize(("make", "same"), CASES)
@pytest.mark.slow
def test_two_workers_find_what_one_process_finds(make, same, small_pieces, monkeypatch):
    monkeypatch.setattr("epsworth.exposure.left_out.PAIRS", 40_000)
    monkeypatch.setattr("epsworth.exposure.usefulness.CELLS", 40_000)
    same(make(1), make(2))


@pytest.mark.slow
def test_work_is_shared_at_all(small_pieces, monkeypatch):
    """What is done in order is told how many workers there are, in pieces of which there are several."""
    told = []

    def counted(function, batches, *, n_jobs=None, **others):
        told.append((n_jobs, len(batches)))
        return in_order(function, batches, n_jobs=1)

    for module in ("tailored.problem", "tailored.learning", "exposure.left_out", "exposure.usefulness"):
        monkeypatch.setattr(f"epsworth.{module}.in_order", counted)
        monkeypatch.setattr("epsworth.exposure.left_out.PAIRS", 40_000)
        monkeypatch.setattr("epsworth.exposure.usefulness.CELLS", 40_000)
        told.clear()
        (a_policy if module.startswith("tailored") else a_profile)(2)
        assert max(count for jobs, count in told if jobs == 2) >= 3


@pytest.mark.parametrize("make", [a_split, a_sampled_split])
@pytest.mark.slow
def test_a_split_goes_on_from_its_folder(make, tmp_path):
    """Ended in the middle by its progress, then asked again: what an unbroken run says; fewer questions are put."""
    folder = tmp_path / "run"

    def broken(share):
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=folder, progress=broken)
    assert folder.is_dir()
    again = make(checkpoint=folder)
    same_split(again, make(checkpoint=folder))
    same_split(again, make())
    same_split(again, make(2, checkpoint=tmp_path / "shared"))


def test_a_folder_of_another_split_is_refused(tmp_path):
    a_split(checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another question"):
        a_split(checkpoint=tmp_path / "run", total=4)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "table.csv").touch()
    with pytest.raises(ValueError, match="must be a folder of a split, or not be there yet"):
        a_split(checkpoint=tmp_path / "others")


@pytest.mark.parametrize("n_jobs", [0, True, 1.5])
def test_workers_are_counted_in_whole_numbers(n_jobs):
    model = LogisticRegression().fit(IRIS, SPECIES > 0)
    for call in (
        lambda: a_split(n_jobs),
        lambda: a_profile(n_jobs),
        lambda: ew.tailor(model, IRIS, sensitive=[0], epsilon=1, domain={0: (4, 8)}, public=True, n_jobs=n_jobs),
    ):
        with pytest.raises(
            ValueError, match="n_jobs must be a whole number up to 65,536, -1 for all cores, or None, got"
        ):
            call()


@pytest.mark.slow
def test_a_cluster_finds_what_one_process_finds(small_pieces):
    distributed = pytest.importorskip("distributed")
    from epsworth.parallel import on_cluster

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        on_cluster(local.scheduler_address),
    ):
        policy, split = a_policy(), a_split()
    same_policy(policy, a_policy())
    same_split(split, a_split())
