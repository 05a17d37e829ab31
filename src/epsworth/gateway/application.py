"""The ASGI service: read, refuse or perturb, forward, answer.

The order is what keeps the promise: everything that can be refused is refused before anything is drawn; a charge is on
the disk before a draw leaves; a request has one draw, and what goes upstream is one string of bytes, however often.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from epsworth.gateway.counts import Counts
from epsworth.gateway.draws import Draws
from epsworth.gateway.inference import InferenceRequest
from epsworth.gateway.logs import accident, say
from epsworth.gateway.objects import read_objects
from epsworth.gateway.people import People
from epsworth.gateway.refusals import Refusal
from epsworth.gateway.settings import Settings
from epsworth.gateway.strict_json import read_body
from epsworth.gateway.tensors import read_tensors
from epsworth.gateway.upstream import Upstream, UpstreamError
from epsworth.policy.tables import Perturbation

MODEL = "/v2/models/{name}"
VERSIONED = f"{MODEL}/versions/{{version}}"
OBJECTS = ("/predict", "/invocations")  # what MLflow and SageMaker call it
ABOUT = ("/v2", "/v2/health/live", "/v2/health/ready", MODEL, f"{MODEL}/ready", VERSIONED, f"{VERSIONED}/ready")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
BINARY = b"inference-header-content-length"
READY_FOR = 1.0  # seconds that an answer to /readyz is repeated
PATIENCE = 30.0  # seconds for a client to send its body
Reader = Callable[[Any, Settings], InferenceRequest]


@dataclass
class Turn:
    """One request's way, for its line in the log."""

    name: str = field(default_factory=lambda: secrets.token_hex(8))
    started: float = field(default_factory=perf_counter)
    facts: dict[str, str | int | float | None] = field(default_factory=dict)


class Gateway:
    """The service's handlers.

    Parameters
    ----------
    settings : Settings
    upstream : Upstream
    counts : Counts
    draws : Draws
    """

    def __init__(self, settings: Settings, upstream: Upstream, counts: Counts, draws: Draws) -> None:
        self.settings, self.upstream, self.counts, self.draws = settings, upstream, counts, draws
        self.under_way, self.draining = 0, False
        self._ready: tuple[float, bool] = (float("-inf"), False)

    async def tensors(self, request: Request) -> Response:
        """Answer an inference request of the protocol."""
        return await self._infer(request, read_tensors)

    async def objects(self, request: Request) -> Response:
        """Answer records that are JSON objects."""
        return await self._infer(request, read_objects)

    async def about(self, request: Request) -> Response:
        """Pass on what upstream says about itself; of the request nothing leaves but the path."""
        try:
            answer = await self.upstream.ask(self._path(request))
        except Refusal as refusal:
            return _told(refusal)
        except UpstreamError:
            return _no_answer()
        return Response(answer.content, answer.status, media_type=answer.kind or None)

    async def alive(self, request: Request) -> Response:
        """Say that this process runs."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Say whether requests would be answered: upstream is ready, and nothing is being stopped."""
        at, ready = self._ready
        if perf_counter() - at > READY_FOR:
            ready = await self.upstream.ready()
            self._ready = perf_counter(), ready
        if self.draining:
            return PlainTextResponse("stopping\n", 503)
        return PlainTextResponse("ready\n") if ready else PlainTextResponse("upstream is not ready\n", 503)

    async def metrics(self, request: Request) -> Response:
        """Return counts and times."""
        return Response(self.counts.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _infer(self, request: Request, reader: Reader) -> Response:
        turn = Turn()
        self.under_way += 1
        self.counts.add("under_way")
        try:
            response, outcome = await self._forwarded(request, reader, turn), "answered"
        except Refusal as refusal:
            self.counts.refused(refusal.reason, refusal.field)
            turn.facts |= {"reason": refusal.reason, "field": refusal.field}
            response, outcome = _told(refusal), "refused"
        except UpstreamError as error:
            turn.facts |= {"upstream": error.kind, "attempts": error.attempts}
            response, outcome = _no_answer(), "upstream"
        except Exception as error:
            turn.facts |= accident(error)
            response, outcome = _error("the gateway failed; its log says where", 500), "failed"
        finally:
            self.under_way -= 1
            self.counts.add("under_way", by=-1)
        seconds = perf_counter() - turn.started
        self.counts.outcome(outcome)
        self.counts.time("seconds", seconds)
        say(outcome, request=turn.name, status=response.status_code, milliseconds=round(1e3 * seconds, 2), **turn.facts)
        return response

    async def _forwarded(self, request: Request, reader: Reader, turn: Turn) -> Response:
        if self.under_way > self.settings.most_requests:
            raise Refusal("busy", "the gateway works on as many requests as it may; try again later")
        path = self._path(request)
        body = await self._body(request)
        asked = reader(read_body(body), self.settings)
        turn.facts["records"] = asked.rows
        leaving = asked.body(await self.draws.released(asked))
        self.counts.add("records_total", by=asked.rows)
        started = perf_counter()
        try:
            answer = await self.upstream.ask(path, leaving)
        except UpstreamError as error:
            self.counts.add("attempts_total", by=error.attempts)
            raise
        finally:
            self.counts.time("upstream_seconds", perf_counter() - started)
        self.counts.add("attempts_total", by=answer.attempts)
        turn.facts["attempts"] = answer.attempts
        return Response(answer.content, answer.status, media_type=answer.kind or None)

    def _path(self, request: Request) -> str:
        """Return the path upstream, put together from words that hold letters, digits, dots and dashes."""
        if request.scope["query_string"]:
            raise Refusal("undeclared", "the address has a query, which nobody declared; leave it out")
        if not all(WORD.fullmatch(word) for word in request.path_params.values()):
            raise Refusal("undeclared", "the model's name or version has a character that is none; check the address")
        path = str(request.scope["path"])
        only = self.settings.model
        if only is not None and path.startswith("/v2/models/") and not path.startswith(f"{only}/") and path != only:
            raise Refusal(
                "undeclared", "the gateway serves one model, and this is another; check the address", status=404
            )
        return path

    async def _body(self, request: Request) -> bytes:
        headers = dict(request.scope["headers"])
        kind = headers.get(b"content-type", b"application/json").split(b";")[0].strip().lower()
        if (
            kind != b"application/json"
            or BINARY in headers
            or headers.get(b"content-encoding", b"identity") != b"identity"
        ):
            raise Refusal("form", "the body must be plain JSON: binary and compressed ones are not read", status=415)
        parts, size = [], 0
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    size += len(part)
                    if size > self.settings.largest_body:
                        raise Refusal("size", f"the body is longer than {self.settings.largest_body} bytes; send parts")
                    parts.append(part)
        except TimeoutError:
            raise Refusal(
                "form", f"the body did not arrive within {PATIENCE:g} seconds; send it again", status=408
            ) from None
        except ClientDisconnect:
            raise Refusal("form", "the connection ended before the body did; send it again") from None
        return b"".join(parts)


def application(settings: Settings, upstream: Upstream, counts: Counts | None = None) -> Starlette:
    """Return the service; the kernels are made once, here.

    Parameters
    ----------
    settings : Settings
    upstream : Upstream
    counts : Counts, optional
        Shared with other workers.
    """
    people = None if settings.ledger is None else People(settings)
    draws = Draws(Perturbation(settings.policy), people, same=settings.same)
    for column in draws.perturbation.ruled.values():
        column.draw(column.rule.kernel.index([0.5]))  # tables are made on first use
        _ = column.values
    gateway = Gateway(settings, upstream, Counts(settings.policy.names) if counts is None else counts, draws)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            draws.close()
            await upstream.way.close()

    routes = [Route(f"{path}/infer", gateway.tensors, methods=["POST"]) for path in (MODEL, VERSIONED)]
    routes += [Route(path, gateway.objects, methods=["POST"]) for path in OBJECTS]
    routes += [Route(path, gateway.about, methods=["GET"]) for path in ABOUT]
    own = {"/healthz": gateway.alive, "/readyz": gateway.ready, "/metrics": gateway.metrics}
    routes += [Route(path, handler, methods=["GET"]) for path, handler in own.items()]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.gateway = gateway
    return app


def _told(refusal: Refusal) -> Response:
    return _error(refusal.sentence, refusal.status)


def _no_answer() -> Response:
    return _error("upstream gave no answer that could be handed on; what was drawn counts as sent", 502)


def _error(sentence: str, status: int) -> Response:
    headers = {"retry-after": "1"} if status == 503 else None
    return JSONResponse({"error": sentence}, status, headers=headers)
