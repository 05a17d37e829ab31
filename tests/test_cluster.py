"""A real Dask scheduler with worker processes gives what this process gives, to the bit."""

from __future__ import annotations

import os
import signal

import joblib
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from epsworth.learner import LatticeConfig, aggregate_files, write_reports
from epsworth.pac import MI, PACPrivatizer
from epsworth.parallel import in_order, on_cluster

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """Start two workers, each a process, and make joblib use them; any free port, as tests run side by side."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        distributed.Client(local) as client,
        joblib.parallel_config(backend="dask"),
    ):
        yield client


def process(_):
    import os

    return os.getpid()


def test_work_leaves_this_process(cluster):
    found = set(in_order(process, range(64)))
    assert found <= set(cluster.run(process, 0).values())
    assert process(0) not in found


def test_reports_are_added_up_on_a_cluster(cluster, tmp_path, monkeypatch):
    """Files cut into a hundred parts; a damaged one is refused with the sentence that this process would say."""
    config = LatticeConfig(box=(0, 1), d=2, m=8, mechanism="ternary", epsilon=2)
    rng = np.random.default_rng(0)
    files = [tmp_path / name for name in ("a.ldp", "b.jsonl", "c.ldp")]
    for file in files:
        write_reports(config, rng.random((2000, 2)), rng.integers(2, size=2000), file)
    monkeypatch.setattr("epsworth.learner.report_files.PART", 40 * config.report_size)
    found = aggregate_files(config, files)
    with joblib.parallel_config(backend="sequential"):
        assert found == aggregate_files(config, files[::-1])
    with files[0].open("ab") as sink:
        sink.write(b"x" * config.report_size)
    with pytest.raises(ValueError, match=r"a\.ldp: report \d+: it is not in version"):
        aggregate_files(config, files)


def test_worlds_are_simulated_on_a_cluster(cluster):
    X = np.random.default_rng(1).normal(size=(300, 5))
    there = PACPrivatizer(PCA(2), MI(0.25), worlds=256).fit(X).trials_
    with joblib.parallel_config(backend="sequential"):
        here = PACPrivatizer(PCA(2), MI(0.25), worlds=256).fit(X).trials_
    assert (there.outputs == here.outputs).all()
    assert (there.failed == here.failed).all()


def test_a_killed_worker_changes_no_bit_of_the_curves():
    """Three workers, one of which is killed while it has pieces in hand; the address is all that a user gives."""
    X = np.random.default_rng(2).random((60, 4))
    model = RandomForestClassifier(10, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.8)
    asked = {"sensitive": [0, 1], "mechanisms": ["pm", "krr:k=5", "laplace"], "epsilons": [1, 4], "rng": 3,
             "tolerance": 0.03}  # fmt: skip
    here = ew.stability(model, X, **asked)
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0") as local:
        victim = next(iter(local.workers.values())).pid
        seen = []

        def watch(standing):
            if standing.done > 0.1 and not seen:
                seen.append(victim)
                os.kill(victim, signal.SIGKILL)

        with on_cluster(local.scheduler_address):
            there = ew.stability(model, X, **asked, watch=watch)
    assert seen == [victim]
    for one, other in zip(here.stability.average(), there.stability.average(), strict=True):
        assert (one == other).all()
    assert (here.lower == there.lower).all()
    assert (here.upper == there.upper).all()
    assert not there.stopped
