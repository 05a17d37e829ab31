"""Requests per second through a gateway, over real sockets, against a service of the same make that only forwards.

Client, gateway and upstream share the machine's cores, so what is seen is less than what a gateway does alone.  It also
tells the processor seconds that the gateway itself took per request: their inverse is what one core of its own answers.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.timing import Clock, Row

CONNECTIONS = 32
NEEDED = ("starlette", "uvicorn", "aiohttp")
BARS = {"": 3.0, "people counted": 4.0}  # times the forwarder's
ANSWER = b'{"model_name":"m","outputs":[{"name":"predict","shape":[1],"datatype":"INT64","data":[1]}]}'


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time per request through a gateway over that through a forwarder."""
    if not all(map(importlib.util.find_spec, NEEDED)):
        return
    count = clock.size(6000, 64)
    with tempfile.TemporaryDirectory() as folder, _upstream() as (upstream, _):
        policy = _policy(Path(folder))
        with _forwarder(upstream) as (port, _):
            asyncio.run(_ask(port, 64))  # warm
            forwarded = asyncio.run(_ask(port, count))
        for what, options in {"": [], "people counted": _counted(Path(folder))}.items():
            with _gateway(policy, upstream, options) as (port, process):
                asyncio.run(_ask(port, 64))  # warm
                before = _processor(process)
                seconds = asyncio.run(_ask(port, count))
                own = (_processor(process) - before) / count
            note = f"{count / seconds:.0f} / {count / forwarded:.0f} a second; the gateway's own {1e6 * own:.0f} us"
            label = f"request through a gateway{', ' * bool(what)}{what}"
            yield Row(label, "only forwarded", seconds / forwarded, BARS[what], note)


def _policy(folder: Path) -> Path:
    from epsworth import Domain, Policy

    domain = Domain.of({"age": (0, 100), "bmi": (10, 60), "job": ["clerk", "nurse", "other"]})
    Policy.of("pm", 3, domain, passing=["who"]).save(folder / "policy.toml")
    return folder / "policy.toml"


def _counted(folder: Path) -> list[str]:
    return ["--person", "who", "--ledger", str(folder / "people.sqlite"), "--cap", "1e9"]


def _body(i: int) -> bytes:
    columns = {"age": ("FP64", 31.5), "bmi": ("FP64", 22.25), "job": ("BYTES", "nurse"), "who": ("BYTES", f"p{i}")}
    inputs = [{"name": n, "shape": [1], "datatype": kind, "data": [v]} for n, (kind, v) in columns.items()]
    return json.dumps({"inputs": inputs}).encode()


async def _ask(port: int, count: int) -> float:
    """Return the seconds that so many requests took, over connections that are kept open."""
    left = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in left:
            body = _body(i)
            head = f"POST /v2/models/m/infer HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            told = await reader.readuntil(b"\r\n\r\n")
            if not told.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(told.split(b"\r\n")[0].decode())
            length = next(line for line in told.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return time.perf_counter() - started


@contextmanager
def _gateway(policy: Path, upstream: int, options: list[str]) -> Iterator[tuple[int, int]]:
    port = _free()
    command = "from epsworth.cli import main; main()"
    address = ["--upstream", f"http://127.0.0.1:{upstream}", "--port", str(port)]
    with _running([sys.executable, "-c", command, "gateway", str(policy), *address, *options], port) as process:
        yield port, process


@contextmanager
def _upstream(app: str = "model", **told: str) -> Iterator[tuple[int, int]]:
    port = _free()
    command = [sys.executable, "-m", "uvicorn", f"benchmarks.gateway:{app}", "--port", str(port), "--no-access-log"]
    with _running(command, port, **told) as process:
        yield port, process


def _forwarder(upstream: int) -> Any:
    return _upstream("forward", FORWARD_TO=f"http://127.0.0.1:{upstream}")


@contextmanager
def _running(command: list[str], port: int, **told: str) -> Iterator[int]:
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            command, stderr=subprocess.DEVNULL, env=os.environ | {"EPSWORTH_STATE": state} | told
        ) as process,
    ):
        try:
            _wait(port, process)
            yield process.pid
        finally:
            process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError("a service did not start")


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _processor(process: int) -> float:
    """Return the processor seconds of a process, where the system tells them."""
    path = Path(f"/proc/{process}/stat")
    if not path.exists():
        return float("nan")
    fields = path.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def model(scope: dict, receive, send) -> None:
    """Answer every request alike: the fastest upstream there is."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


async def forward(scope: dict, receive, send) -> None:
    """Hand on every request as it is, by the libraries that the gateway uses."""
    await _forwarding()(scope, receive, send)


@cache
def _forwarding() -> Any:
    import aiohttp
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    sessions: list[aiohttp.ClientSession] = []

    async def handed_on(request: Any) -> Response:
        if not sessions:
            sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        headers = {"Content-Type": "application/json"}
        address = os.environ["FORWARD_TO"] + request.url.path
        async with sessions[0].post(address, data=await request.body(), headers=headers) as answer:
            return Response(await answer.read(), answer.status, media_type=answer.headers.get("Content-Type"))

    return Starlette(routes=[Route("/{path:path}", handed_on, methods=["POST"])])
