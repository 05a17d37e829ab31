"""The command, over real sockets: it starts, serves, stops gracefully, and what it charged survives a kill."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="a gateway needs the extra gateway")
pytest.importorskip("uvicorn", reason="a gateway needs the extra gateway")
pytest.importorskip("aiohttp", reason="a gateway needs the extra gateway")

COMMAND = "from epsworth.cli import main; main()"
ONE = {"age": 31, "bmi": 22, "job": "nurse"}


@pytest.fixture
def model():
    """A model's side on a socket: counts whom it saw, waits as long as it is told."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            self.answer(b"{}")

        def do_POST(self):
            server.seen.append(self.rfile.read(int(self.headers["content-length"])))
            server.told.append(dict(self.headers))
            server.entered.set()
            time.sleep(server.pause)
            self.answer(b'{"predictions": [1]}')

        def answer(self, body):
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("set-cookie", "a=b")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *request: None  # whoever asked has left
    server.seen, server.told, server.pause, server.entered = [], [], 0.0, threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def started(model, policy, tmp_path, interruptible):
    """Start gateways as processes; whatever is left of them ends with the test."""
    policy.save(tmp_path / "policy.toml")

    @contextmanager
    def start(*options):
        upstream = f"http://127.0.0.1:{model.server_address[1]}"
        words = ["gateway", str(tmp_path / "policy.toml"), "--upstream", upstream, "--port", "0", *options]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            process.port = json.loads(process.stderr.readline())["port"]
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers hold the pipe open, too
            process.communicate()

    return start


def ask(port, document=None, path="/predict", **headers):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(100):
        try:
            link.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    body = None if document is None else json.dumps(document)
    try:
        link.request("GET" if body is None else "POST", path, body, {"content-type": "application/json"} | headers)
        answer = link.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        link.close()


@pytest.mark.slow
def test_it_serves_and_a_stop_lets_finish_what_is_under_way(started, model):
    with started() as process:
        status, body, headers = ask(process.port, [ONE], cookie="me=1")
        assert (status, body) == (200, b'{"predictions": [1]}')
        assert "set-cookie" not in headers
        assert not {"cookie", "x-forwarded-for", "origin"} & {name.lower() for name in model.told[0]}
        assert ask(process.port, path="/readyz")[0] == 200
        assert b'outcome="answered"} 1' in ask(process.port, path="/metrics")[1]
        model.pause = 0.6
        model.entered.clear()
        found = []
        asking = threading.Thread(target=lambda: found.append(ask(process.port, [ONE])[0]))
        asking.start()
        assert model.entered.wait(20)
        process.send_signal(signal.SIGTERM)
        asking.join()
        assert found == [200]
        _, told = process.communicate(timeout=20)
        assert process.returncode == 0
        assert json.loads(told.splitlines()[-1])["event"] == "stopped"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", process.port))


@pytest.mark.parametrize(("public", "told"), [((), "nothing"), (("zone", "ward"), "zone, ward")])
def test_the_first_line_of_the_log_tells_what_is_public(policy, capsys, public, told):
    from epsworth.gateway import Settings
    from epsworth.gateway.serving import _say_what_is_served, listening
    from epsworth.policy import Pass

    with listening("127.0.0.1", 0) as bound:
        _say_what_is_served(Settings(replace(policy, passing=Pass(public)), "http://m"), bound, 1)
    assert json.loads(capsys.readouterr().err.splitlines()[0])["public"] == told


@pytest.mark.slow
def test_clients_that_hang_up_do_not_end_it(started, model):
    """Requests in a row on one connection, cut while they are answered: the later answers have nowhere to go."""
    body = json.dumps([ONE]).encode()
    head = f"POST /predict HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with started() as process:
        for pause in (0.0, 0.05, 0.1):
            model.pause = pause
            with socket.create_connection(("127.0.0.1", process.port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
                client.sendall((head + body) * 8)
                time.sleep(0.03)
        model.pause = 0.0
        assert ask(process.port, [ONE])[0] == 200
        assert process.poll() is None
        signals = Path(f"/proc/{process.pid}/status")
        if signals.exists():  # whether a late answer meets a closed socket is a matter of luck
            ignored = re.search(r"^SigIgn:\s*(\w+)", signals.read_text(), re.M)
            assert int(ignored[1], 16) >> (signal.SIGPIPE - 1) & 1


@pytest.mark.slow
def test_workers_share_metrics_and_the_ledger(started, model, tmp_path):
    ledger = ["--person", "who", "--ledger", str(tmp_path / "people"), "--cap", "12"]
    with started("--workers", "2", *ledger) as process:
        told = [ask(process.port, [ONE | {"who": "jane"}])[0] for _ in range(6)]
        assert told == [200] * 4 + [429] * 2
        metrics = ask(process.port, path="/metrics")[1]
        assert b'outcome="answered"} 4' in metrics
        assert b'reason="cap",field=""} 2' in metrics
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0


STARTING = """
import os, time
from epsworth.gateway import serving
serving._work = lambda *given: (os.write(1, b"."), time.sleep(60))
serving._Workers(None, None, None, 2, None).run()
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.cases(1)
def test_a_stop_ends_workers_that_do_not_serve_yet(stop):
    with subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.read(2) == b".."
            process.send_signal(stop)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--upstream", "model"], "upstream: must be http"),
        (["--upstream", "http://m", "--person", "age", "--ledger", "x"], "'age' is perturbed"),
        (["--upstream", "http://m", "--cap", "x"], "cap"),
        (["--upstream", "http://m", "--upstream-ca", "no.pem"], "certificates"),
        (["--upstream", "http://m", "--person", "who", "--ledger", "no/such/folder"], "ledger"),
        (["--upstream", "http://m", "--host", "203.0.113.7"], "cannot be listened on"),
        (["--upstream", "http://m", "--workers", "0"], "workers"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_is_one_sentence(policy, tmp_path, monkeypatch, capsys, options, words):
    from epsworth.cli import main

    policy.save(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["epsworth", "gateway", "policy.toml", *options])
    monkeypatch.setattr(signal, "signal", lambda *given: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_port_in_use_is_refused():
    from epsworth.gateway.serving import listening

    with listening("127.0.0.1", 0) as bound, pytest.raises(ValueError, match=r"is in use; choose another \(--port\)"):
        listening("127.0.0.1", bound.getsockname()[1])


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_draw_that_was_not_charged(started, model, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "people"
    ledger = ["--person", "who", "--ledger", str(path), "--cap", "3000", "--workers", "1"]
    for _ in range(5):
        with started(*ledger) as process:
            assert ask(process.port, path="/healthz")[0] == 200
            stop = threading.Event()
            model.entered.clear()

            def asking(port, stop):
                while not stop.is_set():
                    try:
                        ask(port, [ONE | {"who": "jane"}])
                    except (OSError, http.client.HTTPException):
                        return

            threads = [threading.Thread(target=asking, args=(process.port, stop)) for _ in range(4)]
            for thread in threads:
                thread.start()
            assert model.entered.wait(30)
            time.sleep(rng.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            stop.set()
            for thread in threads:
                thread.join()
        with sqlite3.connect(path) as file:
            (charged,) = file.execute("SELECT coalesce(sum(draws), 0) FROM charges").fetchone()
        file.close()
        assert len(model.seen) <= charged <= len(model.seen) + 4 * 5
    assert len(set(model.seen)) == len(model.seen) > 20
