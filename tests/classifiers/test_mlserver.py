"""A real server: mlserver with its scikit-learn runtime, in an environment of its own, killed and started again.

EPSWORTH_MLSERVER names its executable (pip install mlserver mlserver-sklearn); else the one on the path is taken.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import epsworth as ew

pytest.importorskip("httpx", reason="services are asked by httpx: pip install 'epsworth[remote]'")
FOUND = os.environ.get("EPSWORTH_MLSERVER") or shutil.which("mlserver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOUND, reason="no mlserver: EPSWORTH_MLSERVER names its executable"),
]

FIT = """
import joblib, numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
rng = np.random.default_rng(0)
jobs = rng.choice(["cook", "smith", "baker"], 500)
people = pd.DataFrame({"age": rng.uniform(18, 90, 500), "job": jobs})
fits = np.where((people.age > 50) ^ (people.job == "smith"), "yes", "no")
parts = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["job"]))
joblib.dump(make_pipeline(parts, LogisticRegression()).fit(people, fits), "people/model.joblib")
"""
PEOPLE = pl.DataFrame({"age": [20.0, 55.0, 47.5, 81.0], "job": ["cook", "smith", "baker", "cook"]})
QUESTION = {
    "sensitive": ["age"], "domain": {"age": (18, 90)}, "mechanisms": ["krr", "pm"],
    "epsilons": [2.0, 6.0], "over": "dataset",
    "tolerance": 0.05,
}  # fmt: skip
POOL = 100_000


class Mlserver:
    """One model, people, on free ports."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        (folder / "people").mkdir()
        subprocess.run([Path(FOUND).with_name("python"), "-c", FIT], cwd=folder, check=True)
        ports = [socket.socket() for _ in range(3)]
        for port in ports:
            port.bind(("127.0.0.1", 0))
        numbers = [port.getsockname()[1] for port in ports]
        for port in ports:
            port.close()
        names = ("http_port", "grpc_port", "metrics_port")
        settings = {"host": "127.0.0.1", "parallel_workers": 0, **dict(zip(names, numbers, strict=True))}
        (folder / "settings.json").write_text(json.dumps(settings))
        model = {"name": "people", "implementation": "mlserver_sklearn.SKLearnModel"}
        model["parameters"] = {"uri": "./model.joblib"}
        (folder / "people" / "model-settings.json").write_text(json.dumps(model))
        self.url = f"http://127.0.0.1:{numbers[0]}/v2/models/people"

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([FOUND, "start", "."], cwd=self.folder, stdout=log, stderr=log)

    def wait(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Mlserver(tmp_path_factory.mktemp("mlserver"))
    found.start()
    found.wait()
    yield found
    found.kill()


def test_a_server_killed_and_started_again_changes_nothing(server, tmp_path):
    expected = ew.stability(ew.remote(server.url), PEOPLE, rng=3, **QUESTION)
    asked, killed = ew.remote(server.url, cache=tmp_path / "answers", batch=64), []

    def restart():
        for after in (500, 3000):
            while asked.answer.asked < after:
                time.sleep(0.002)
            server.kill()
            killed.append(asked.answer.asked)
            time.sleep(1)
            server.start()

    trouble = threading.Thread(target=restart)
    trouble.start()
    found = ew.stability(asked, PEOPLE, rng=3, **QUESTION)
    trouble.join()
    assert len(killed) == 2
    assert asked.answer.asked > killed[-1]
    assert np.array_equal(found.average().lower, expected.average().lower)
    assert np.array_equal(found.average().upper, expected.average().upper)
    assert np.array_equal(found.worst().lower, expected.worst().lower)


def test_real_releases_of_a_pool_lie_inside_the_bounds(server):
    """What `recommend` promises is what clients get who run its policy and ask the service itself."""
    service = ew.remote(server.url, batch=4096)
    curves = ew.stability(service, PEOPLE, rng=1, **{**QUESTION, "mechanisms": ["pm"], "tolerance": 0.01})
    chosen = ew.recommend(curves, at_least=0.6, on="average")
    policy = chosen.policy(ew.Domain.load(ranges(server.folder)), passing=["job"])  # a service names no columns
    rows = np.arange(POOL) % len(PEOPLE)
    released = ew.perturb(policy, PEOPLE[rows])
    truth = service.labels(PEOPLE)
    before = service.answer.asked
    share = float(np.mean(service.labels(released) == truth[rows]))
    lower, upper = chosen.choice.lower, chosen.choice.upper
    slack = stats.norm.isf(1e-6) / 2 / np.sqrt(POOL)  # false alarm: 2e-6; no share varies more than one of 1/2
    new, asked = service.answer.asked - before, service.answer.asked
    print(f"{share:.4f} in [{lower:.4f}, {upper:.4f}], {new:,} of {asked:,} records asked about")
    assert asked > 100_000  # real requests; releases that repeat one another are asked about once
    assert lower - slack <= share <= upper + slack


def ranges(folder):
    (folder / "ranges.toml").write_text("[features.age]\nlower = 18\nupper = 90\n")
    return folder / "ranges.toml"
