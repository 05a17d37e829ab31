"""A gateway in this process, before an upstream that remembers what it was sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from threading import Thread
from urllib.parse import unquote

import pytest

import epsworth as ew

SAID = b'{"outputs": [{"name": "predict", "shape": [1], "datatype": "INT64", "data": [1]}]}'


@dataclass
class Recorder:
    """An upstream: answers from a list, the last for ever; an exception is raised."""

    answers: list
    urls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes | None] = field(default_factory=list)

    async def send(self, url, headers, body):
        self.urls.append(url)
        self.headers.append(headers)
        self.bodies.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    async def close(self):
        pass

    @property
    def last(self):
        return json.loads(self.bodies[-1])


@dataclass
class Told:
    status_code: int
    headers: list
    content: bytes

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Client:
    """Calls an ASGI service without sockets; from any thread."""

    def __init__(self, app):
        self.app, self.loop = app, asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever)
        self.thread.start()
        self.lifespan = app.router.lifespan_context(app)
        self.wait(self.lifespan.__aenter__())

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def post(self, path, content=b"", *, json=None, headers=None):
        body = content if json is None else dumps(json)
        return self.wait(self.call("POST", path, body, headers or {}))

    def get(self, path):
        return self.wait(self.call("GET", path, b"", {}))

    async def call(self, method, path, body, headers):
        path, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": unquote(path), "query_string": query.encode()}
        scope |= {"headers": [(key.encode(), value.encode()) for key, value in headers.items()], "root_path": ""}
        half = len(body) // 2
        parts = [{"body": body[:half], "more_body": True}, {"body": body[half:]}]
        sent = []

        async def receive():
            return {"type": "http.request"} | parts.pop(0)

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        return Told(sent[0]["status"], sent[0]["headers"], b"".join(message.get("body", b"") for message in sent[1:]))

    def close(self):
        self.wait(self.lifespan.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def dumps(document):
    return json.dumps(document).encode()


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def policy():
    domain = ew.Domain.of({"age": (0, 100), "bmi": (10, 60), "job": ["clerk", "nurse", "other"]})
    return ew.Policy.of("pm", 3, domain, passing=["sex"])


@pytest.fixture
def upstream():
    from epsworth.gateway.upstream import Answer

    return Recorder([Answer(200, SAID, "application/json")])


@pytest.fixture
def opened(policy, upstream):
    """Open a gateway's client; its settings may be given."""
    from epsworth.gateway import Settings
    from epsworth.gateway.application import application
    from epsworth.gateway.upstream import Upstream

    clients = []

    def make(**given):
        settings = Settings(given.pop("policy", policy), given.pop("upstream", "http://model:8080"), **given)
        clients.append(Client(application(settings, Upstream(settings, upstream))))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def column():
    """Make a tensor of one column."""

    def make(name, *values, kind="FP64", **more):
        return {"name": name, "shape": [len(values)], "datatype": kind, "data": list(values)} | more

    return make


@pytest.fixture
def record(column):
    """Make the inputs of one record."""

    def make(age=31.25, bmi=22.125, job="nurse", **others):
        inputs = [column("age", age), column("bmi", bmi), column("job", job, kind="BYTES")]
        return inputs + [column(name, value, kind="BYTES") for name, value in others.items()]

    return make
