"""The model's side: the same bytes, sent again where sending failed; nothing of the client's but these."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from epsworth.gateway.settings import Settings

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

AGAIN = frozenset({502, 503, 504})
ANSWERS = frozenset({*range(200, 204), *range(207, 300), *range(400, 600)})  # 204 to 206 have no body, or a part of one
FIRST_PAUSE = 0.05  # seconds before the second attempt, doubled before each further one
TOKEN = "EPSWORTH_UPSTREAM_TOKEN"
LARGEST_ANSWER = 64 << 20


class UpstreamError(Exception):
    """No answer that could be handed on, after all attempts; ``kind`` is a word for logs."""

    def __init__(self, kind: str, attempts: int = 1) -> None:
        super().__init__(kind)
        self.kind, self.attempts = kind, attempts


@dataclass(frozen=True)
class Answer:
    """What upstream said."""

    status: int
    content: bytes
    kind: str
    attempts: int = 1


class Way(Protocol):
    """How a request gets there: over the network, or, in tests, by a call."""

    async def send(self, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        """Post a body, or get where it is None; raise `OSError` where there is no answer."""

    async def close(self) -> None:
        """Let go of connections."""


class Upstream:
    """Sends bodies to one service.

    Parameters
    ----------
    settings : Settings
    way : Way
        `Network` for all but tests.
    """

    def __init__(self, settings: Settings, way: Way) -> None:
        self.settings, self.way = settings, way
        token = os.environ.get(TOKEN)
        self.headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "epsworth-gateway"}
        self.headers |= {"Authorization": f"Bearer {token}"} if token else {}

    async def ask(self, path: str, body: bytes | None = None) -> Answer:
        """Return the answer to a request; the same bytes go out in every attempt."""
        headers = self.headers if body is None else self.headers | {"Content-Type": "application/json"}
        attempts, kind = 0, ""
        while attempts <= self.settings.retries:
            if attempts:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (attempts - 1))
            attempts += 1
            try:
                async with asyncio.timeout(self.settings.seconds):
                    answer = await self.way.send(self.settings.base + path, headers, body)
            except OSError as error:  # TimeoutError is one
                kind = "timeout" if isinstance(error, TimeoutError) else "connection"
                continue
            if answer.status not in AGAIN:
                return _checked(replace(answer, attempts=attempts))
            kind = f"status {answer.status}"
        raise UpstreamError(kind, attempts)

    async def ready(self) -> bool:
        """Tell whether the service says that it is ready."""
        try:
            return (await self.ask(self.settings.health)).status == 200
        except UpstreamError:
            return False


def _checked(answer: Answer) -> Answer:
    """Refuse what could not be handed on as it is: another try would bring the same."""
    if answer.status not in ANSWERS:
        raise UpstreamError(f"status {answer.status}", answer.attempts)
    if not (answer.kind.isascii() and answer.kind.isprintable()):
        raise UpstreamError("content type", answer.attempts)
    return answer


class Network:
    """HTTP by aiohttp; proxies, passwords and cookies of the environment are not heeded.

    aiohttp and not httpx, as with 32 connections a request costs 0.3 ms of a core instead of 3.5.

    Parameters
    ----------
    ca : path, optional
        Certificates that are trusted, instead of the system's.
    """

    def __init__(self, ca: Path | None = None) -> None:
        import aiohttp  # noqa: F401  half a second that the first request should not take

        try:
            self.context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except (OSError, ssl.SSLError):
            raise ValueError(f"upstream-ca: {ca} holds no certificates that can be read; give a .pem file") from None
        self._open = False

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        self._open = True
        connector = aiohttp.TCPConnector(limit=0, ssl=self.context)
        # every attempt has a time limit of its own, see `Upstream.ask`
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def send(self, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        """Post or get, without following redirects."""
        import aiohttp

        asked = self._session.request(
            "GET" if body is None else "POST", _url(url), data=body, headers=headers, allow_redirects=False
        )
        try:
            async with asked as response:
                parts, size = [], 0
                async for part in response.content.iter_any():
                    size += len(part)
                    if size > LARGEST_ANSWER:
                        raise ConnectionError("too long an answer")
                    parts.append(part)
                return Answer(response.status, b"".join(parts), response.headers.get("Content-Type", ""))
        except aiohttp.ClientError as error:
            raise ConnectionError(type(error).__name__) from None

    async def close(self) -> None:
        """Close what was opened."""
        if self._open:
            await self._session.close()


@lru_cache(maxsize=64)
def _url(text: str) -> URL:
    from yarl import URL

    return URL(text)
