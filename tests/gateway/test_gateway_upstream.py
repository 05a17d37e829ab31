"""What a gateway does when the model's side fails: the same bytes again, and never a second draw."""

from __future__ import annotations

import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

pytest.importorskip("starlette", reason="a gateway needs the extra gateway")

from epsworth.gateway.settings import Settings
from epsworth.gateway.upstream import Answer, Network

ONE = {"age": 31, "bmi": 22, "job": "nurse"}


def test_the_same_bytes_are_sent_again(opened, upstream):
    fine = upstream.answers[0]
    upstream.answers[:] = [ConnectionResetError(), Answer(503, b"", ""), fine]
    assert opened().post("/predict", json=[ONE]).content == fine.content
    assert len(upstream.bodies) == 3
    assert len(set(upstream.bodies)) == 1


@pytest.mark.parametrize(
    "failure", [ConnectionResetError("31.2598"), TimeoutError(), Answer(502, b"31.2598", "text/plain")]
)
def test_no_answer_is_said_without_its_words(opened, upstream, failure, capfd):
    upstream.answers[:] = [failure]
    client = opened(retries=1)
    answer = client.post("/predict", json=[ONE])
    assert answer.status_code == 502
    assert len(upstream.bodies) == 2
    line = capfd.readouterr().err
    assert "31.2598" not in line + answer.text
    assert json.loads(line)["attempts"] == 2
    assert 'outcome="upstream"} 1' in client.get("/metrics").text


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_records_go_where_the_settings_say_and_nowhere_else(opened, upstream, status):
    upstream.answers[:] = [Answer(status, b"", "")]
    assert opened().post("/predict", json=[ONE]).status_code == 502
    assert len(upstream.bodies) == 1

    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status if self.path == "/here" else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words):
            pass

    async def sent(url):
        network = Network()
        try:
            return await network.send(url, {}, b"[]")
        finally:
            await network.close()

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        answer = asyncio.run(sent(f"http://127.0.0.1:{server.server_port}/here"))
        server.shutdown()
    assert (answer.status, asked) == (status, ["/here"])


@pytest.mark.parametrize("status", [100, 101, 199, 204, 205, 206, 304, 600, 999])
def test_statuses_that_are_no_plain_answer_are_not_handed_on(opened, upstream, status, capfd):
    upstream.answers[:] = [Answer(status, b'{"age": 31.2598}', "application/json")]
    client = opened()
    answer = client.post("/predict", json=[ONE])
    assert (answer.status_code, len(upstream.bodies)) == (502, 1)
    assert "no answer that could be handed on" in answer.json()["error"]
    assert client.get("/v2").status_code == 502
    assert "31.2598" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["text/html; charset=é", "a€b", "a\udcffb", "text/plain\r\nset-cookie: a=b", "a\0"])
def test_content_types_that_no_header_holds_are_not_handed_on(opened, upstream, kind):
    upstream.answers[:] = [Answer(200, b"{}", kind)]
    client = opened()
    assert (client.post("/predict", json=[ONE]).status_code, client.get("/v2").status_code) == (502, 502)
    assert 'outcome="upstream"} 1' in client.get("/metrics").text


def test_an_answer_without_a_content_type_is_handed_on(opened, upstream):
    upstream.answers[:] = [Answer(200, b"{}", "")]
    answer = opened().post("/predict", json=[ONE])
    assert (answer.status_code, answer.content) == (200, b"{}")


def test_an_answer_that_says_no_is_handed_on(opened, upstream):
    upstream.answers[:] = [Answer(422, b'{"error": "shape"}', "application/json")]
    answer = opened().post("/predict", json=[ONE])
    assert (answer.status_code, answer.content) == (422, b'{"error": "shape"}')


def test_a_slow_upstream_is_given_up(opened, upstream, monkeypatch):
    async def slow(url, headers, body):
        await asyncio.sleep(30)

    upstream.send = slow
    assert opened(seconds=0.05, retries=0).post("/predict", json=[ONE]).status_code == 502


def test_an_accident_tells_its_place_and_no_value(opened, upstream, capfd):
    def accident():
        raise RuntimeError("31.2598 years, nurse")

    upstream.answers[:] = [accident]
    client = opened()
    answer = client.post("/predict", json=[ONE])
    assert answer.status_code == 500
    told = capfd.readouterr().err
    assert "31.2598" not in told + answer.text
    assert json.loads(told)["kind"] == "RuntimeError"
    assert 'outcome="failed"} 1' in client.get("/metrics").text


def test_a_token_goes_upstream_and_nowhere_else(opened, upstream, monkeypatch, capfd):
    monkeypatch.setenv("EPSWORTH_UPSTREAM_TOKEN", "t0ken")
    answer = opened().post("/predict", json=[ONE], headers={"authorization": "Bearer of-the-client"})
    assert upstream.headers[0]["Authorization"] == "Bearer t0ken"
    assert "t0ken" not in capfd.readouterr().err + answer.text + str(answer.headers)


def test_readiness_is_upstreams(opened, upstream):
    client = opened()
    assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (200, 200)
    assert upstream.urls == ["http://model:8080/v2/health/ready"]
    assert client.get("/readyz").status_code == 200
    assert len(upstream.urls) == 1  # an answer holds for a second
    upstream.answers[:] = [ConnectionRefusedError()]
    assert opened(retries=0).get("/readyz").status_code == 503


def test_more_requests_than_may_be_under_way_are_refused(opened, upstream):
    client = opened(most_requests=1)
    entered, go = asyncio.Event(), asyncio.Event()
    fine = upstream.answers[0]

    async def waiting(url, headers, body):
        entered.set()
        await go.wait()
        return fine

    upstream.send = waiting

    async def both():
        body = json.dumps([ONE]).encode()
        first = asyncio.create_task(client.call("POST", "/predict", body, {}))
        await entered.wait()
        second = await client.call("POST", "/predict", body, {})
        go.set()
        return (await first).status_code, second.status_code, dict(second.headers)

    first, second, headers = client.wait(both())
    assert (first, second, headers[b"retry-after"]) == (200, 503, b"1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"upstream": "model:8080"}, "upstream"),
        ({"upstream": "http://u:p@model"}, "password"),
        ({"upstream": "http://model:99999"}, "upstream"),
        ({"upstream": "ftp://model"}, "upstream"),
        ({"person": "who"}, "go together"),
        ({"person": "age", "ledger": "x"}, "'age' is perturbed"),
        ({"cap": "3"}, "per person"),
        ({"person": "who", "ledger": "x", "cap": "1"}, "one record costs"),
        ({"person": "who", "ledger": "x", "cap": "-1"}, "positive"),
        ({"person": "who", "ledger": "x", "delta_cap": "0.1"}, "give both"),
        ({"datatype": "FP16"}, "datatype"),
        ({"retries": -1}, "retries"),
        ({"seconds": float("nan")}, "seconds"),
        ({"most_records": 0}, "most_records"),
        ({"tensors": {"x": ("age", "zip")}}, "zip"),
        ({"tensors": {"x": ("age", "age")}}, "twice"),
        ({"tensors": {"age": ("age",)}}, "own"),
        ({"health": "ready"}, "path"),
    ],
)
def test_settings_that_do_not_fit_are_refused(policy, given, words):
    with pytest.raises(ValueError, match=words):
        Settings(**{"policy": policy, "upstream": "http://model"} | given)


def test_settings_take_the_path_of_a_policy(policy, tmp_path):
    policy.save(tmp_path / "policy.toml")
    assert Settings(tmp_path / "policy.toml", "http://model").policy == policy
    with pytest.raises(TypeError, match="policy must be a Policy or the path of its file, got dict"):
        Settings({"age": 1}, "http://model")
