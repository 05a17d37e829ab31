"""A gateway's draws: the policy's own kernels, fresh for every request, whatever waits beside it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import chisquare

import epsworth as ew
from epsworth.mechanisms.words import ReplayableWords

pytest.importorskip("starlette", reason="a gateway needs the extra gateway")

from epsworth.gateway.draws import Draws
from epsworth.gateway.objects import read_objects
from epsworth.gateway.settings import Settings
from epsworth.policy.tables import Perturbation


def test_draws_follow_the_kernel(opened, upstream):
    """False alarm: 1e-6 for each of two features."""
    domain = ew.Domain.of({"dose": (0, 7), "job": ["clerk", "nurse", "other"]})
    policy = ew.Policy.of("krr:k=8", "1.5", domain, per="feature")
    client = opened(policy=policy, most_records=20_000)
    assert client.post("/predict", json=[{"dose": 2, "job": "nurse"}] * 20_000).status_code == 200
    for rule, true, values in zip(policy.rules, (2, 1), (range(8), ("clerk", "nurse", "other")), strict=True):
        found = [record[rule.feature.name] for record in upstream.last]
        counts = [found.count(value) for value in values]
        expected = np.array([float(w) for w in rule.kernel.weights(true)])
        assert sum(counts) == 20_000
        assert chisquare(counts, 20_000 * expected / expected.sum()).pvalue > 1e-6


def test_requests_that_wait_together_are_drawn_like_one_table(policy):
    settings = Settings(policy, "http://model")
    records = [[{"age": 31.5, "bmi": 20 + i, "job": "nurse"}] * (1 + i) for i in range(5)]
    asked = [read_objects(one, settings) for one in records]

    async def together():
        draws = Draws(Perturbation(policy, ReplayableWords(7)))
        return await asyncio.gather(*map(draws.released, asked))

    found = asyncio.run(together())
    flat = [record for one in records for record in one]
    perturbation = Perturbation(policy, ReplayableWords(7))
    inputs = {
        name: column.encode(np.array([r[name] for r in flat], dtype=object if name == "job" else float))
        for name, column in perturbation.columns.items()
    }
    for column, drawn, keep in perturbation.draw(inputs):
        name = column.feature.name
        assert [value for one in found for value in one[name]] == column.released(drawn, keep, policy).tolist()
    assert [len(one["age"]) for one in found] == [1, 2, 3, 4, 5]


def test_no_two_requests_share_a_draw(opened, upstream, policy):
    """False alarm: below 1e-8 (three numbers of 2^16 each, 320 requests)."""
    fine = ew.Policy.of("pm", 3, ew.Domain.of(dict.fromkeys("abc", (0, 1))))
    client = opened(policy=fine)
    with ThreadPoolExecutor(8) as threads:
        sent = [{"a": 0.5, "b": 0.5, "c": 0.5}]
        told = list(threads.map(lambda _: client.post("/predict", json=sent).status_code, range(320)))
    assert told == [200] * 320
    assert len(set(upstream.bodies)) == 320


def test_a_gateway_of_its_own_has_no_seed(opened, upstream):
    """False alarm: below 1e-12."""
    fine = ew.Policy.of("pm", 3, ew.Domain.of(dict.fromkeys("abc", (0, 1))))
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        opened(policy=fine).post("/predict", json=[{"a": 0.5, "b": 0.5, "c": 0.5}])
    assert upstream.bodies[0] != upstream.bodies[1]
