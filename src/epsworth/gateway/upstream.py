"""The model's side: the same bytes, sent again where sending failed; nothing of the client's but these."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from epsworth.gateway.settings import Settings

if TYPE_CHECKING:
    import httpx

AGAIN = frozenset({502, 503, 504})
REDIRECTS = range(300, 400)
FIRST_PAUSE = 0.05  # seconds before the second attempt, doubled before each further one
TOKEN = "EPSWORTH_UPSTREAM_TOKEN"
LARGEST_ANSWER = 64 << 20
IDLE = 100  # connections that are kept open


class UpstreamError(Exception):
    """No answer that could be handed on, after all attempts; ``kind`` is a word for logs."""

    def __init__(self, kind: str, attempts: int) -> None:
        super().__init__(kind)
        self.kind, self.attempts = kind, attempts


@dataclass(frozen=True)
class Answer:
    """What upstream said."""

    status: int
    content: bytes
    kind: str
    attempts: int


class Upstream:
    """Sends bodies to one service.

    Parameters
    ----------
    settings : Settings
    transport : httpx.AsyncBaseTransport
        How; see `transport`.
    """

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport) -> None:
        self.settings, self.transport = settings, transport
        token = os.environ.get(TOKEN)
        headers = [("accept", "application/json"), ("accept-encoding", "identity"), ("user-agent", "epsworth-gateway")]
        self.headers = headers + ([("authorization", f"Bearer {token}")] if token else [])
        self.limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), settings.seconds)}

    async def ask(self, path: str, body: bytes | None = None) -> Answer:
        """Return the answer to a request; the same bytes go out in every attempt."""
        import httpx

        attempts, kind = 0, ""
        while attempts <= self.settings.retries:
            if attempts:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (attempts - 1))
            attempts += 1
            try:
                async with asyncio.timeout(self.settings.seconds):
                    answer = await self._once(path, body, attempts)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                kind = "timeout" if isinstance(error, (httpx.TimeoutException, TimeoutError)) else "connection"
                continue
            if answer.status in REDIRECTS:
                raise UpstreamError("redirect", attempts)  # records go where the settings say, and nowhere else
            if answer.status not in AGAIN:
                return answer
            kind = f"status {answer.status}"
        raise UpstreamError(kind, attempts)

    async def ready(self) -> bool:
        """Tell whether the service says that it is ready."""
        try:
            return (await self.ask(self.settings.health)).status == 200
        except UpstreamError:
            return False

    async def _once(self, path: str, body: bytes | None, attempts: int) -> Answer:
        import httpx

        headers = self.headers if body is None else [*self.headers, ("content-type", "application/json")]
        method = "GET" if body is None else "POST"
        request = httpx.Request(
            method, _url(self.settings.base + path), headers=headers, content=body, extensions=self.limits
        )
        response = await self.transport.handle_async_request(request)
        try:
            parts, size = [], 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise UpstreamError("too long an answer", attempts)
                parts.append(part)
        finally:
            await response.aclose()
        return Answer(response.status_code, b"".join(parts), response.headers.get("content-type", ""), attempts)


def transport(ca: Path | None = None) -> httpx.AsyncHTTPTransport:
    """Return the way over the network: proxies and cookies of the environment are not heeded.

    Parameters
    ----------
    ca : path, optional
        Certificates that are trusted, instead of the system's.
    """
    import httpx

    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError):
        raise ValueError(f"upstream-ca: {ca} holds no certificates that can be read; give a .pem file") from None
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE)
    return httpx.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False)


@lru_cache(maxsize=64)
def _url(text: str) -> httpx.URL:
    import httpx

    return httpx.URL(text)
