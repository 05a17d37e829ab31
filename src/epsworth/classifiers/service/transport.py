"""HTTP with a stranger: every try ends within a time-out, every question within its patience, every body below a size.

What another try may mend is tried again, with growing and random pauses: connections that fail, bodies that are cut or
unreadable, and the statuses of `PASSING`.  Redirections are not followed, nothing is decompressed, and no word of the
service is repeated in a sentence.
"""

from __future__ import annotations

import email.utils
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from epsworth.classifiers.reading import ClassifierError
from epsworth.classifiers.service.protocol import Broken, Request

T = TypeVar("T")

TOKEN = "EPSWORTH_REMOTE_TOKEN"
PASSING = {429: "too many requests", 502: "bad gateway", 503: "not available", 504: "a gateway's time-out"}
ADDRESS = re.compile(r"https?://[^/?#\s]+(/[^?#\s]*)?/v2/models/[^/?#\s]+(/versions/[^/?#\s]+)?(/infer)?/?", re.ASCII)
HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds


@dataclass(frozen=True)
class Reply:
    """A whole reply of status 200."""

    body: bytes
    headers: Mapping[str, str]


class _Passing(Exception):
    """A failure that another try may mend; ``after``: what the service asks to wait; ``hurried``: patience ended."""

    def __init__(self, reason: str, after: float = 0.0, *, away: bool = False, hurried: bool = False) -> None:
        super().__init__(reason)
        self.after, self.away, self.hurried = after, away, hurried


@dataclass(eq=False)
class Transport:
    """One service's address, and how long its answers are waited for.

    Parameters
    ----------
    timeout : float
        Seconds that one try may take, to its last byte.
    patience : float
        Seconds that one question may take, with all its tries and pauses.
    headers : mapping
        Sent with every request; never shown.
    """

    url: str
    timeout: float
    patience: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _security: Any = field(default=None, repr=False)

    def ask(self, questions: Callable[[HttpSession], Awaitable[T]]) -> T:
        """Run questions in an event loop of their own, in a thread of its own; Ctrl-C cancels them."""
        httpx, portals = _imported()
        if self._security is None:
            self._security = self.url.startswith("https") and httpx.create_ssl_context()

        async def run() -> T:
            async with httpx.AsyncClient(
                headers={**self.headers, "Accept-Encoding": "identity"}, verify=self._security, timeout=None
            ) as client:
                return await questions(HttpSession(self, client))

        with portals() as portal:
            return portal.call(run)  # type: ignore[no-any-return]  # what the questions return


@dataclass(frozen=True, eq=False)
class HttpSession:
    """An open session with one service."""

    to: Transport
    client: Any

    async def get(self, url: str, most: int, patience: float, read: Callable[[Reply], T]) -> T | int:
        """Return what is read at an address, or the status if it is not 200."""
        return await self._until_answered("GET", url, None, most, patience, read, lambda: None)

    async def post(
        self, url: str, request: Request, most: int, read: Callable[[Reply], T], sent: Callable[[], None]
    ) -> T:
        """Return what is read off the answer to a request; ``sent`` is called before every try, and may refuse it."""
        answer = await self._until_answered("POST", url, request, most, self.to.patience, read, sent)
        if isinstance(answer, int):
            raise ClassifierError(f"{self.to.url} {refusal(answer)}")
        return answer

    async def _until_answered(
        self, method: str, url: str, request: Request | None, most: int, patience: float,
        read: Callable[[Reply], T], sent: Callable[[], None],
    ) -> T | int:  # fmt: skip
        import asyncio

        end, tries, pause = time.monotonic() + patience, 0, FIRST_PAUSE
        failure: Exception | None = None
        while True:
            sent()
            tries += 1
            left = end - time.monotonic()
            try:
                reply = await self._once(method, url, request, most, left)
                return reply if isinstance(reply, int) else read(reply)
            except (_Passing, Broken) as error:
                failure = _clearer(failure, error)
            wait = max(getattr(failure, "after", 0.0), pause * random.SystemRandom().uniform(0.5, 1))
            if time.monotonic() + wait >= end:
                raise ClassifierError(self._given_up(failure, tries, patience, wait)) from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
            if getattr(failure, "away", False) and method == "POST":
                await self._until_ready(end, failure, patience)

    async def _until_ready(self, end: float, failure: Exception, patience: float) -> None:
        """Wait until a service that was away has loaded its model: before, it may refuse what it will answer."""
        import asyncio

        tries = 0
        while True:
            tries += 1
            try:
                reply = await self._once("GET", f"{self.to.url}/ready", None, 1 << 16, end - time.monotonic())
                if not isinstance(reply, int):
                    return
                failure = _Passing(f"its model is not ready (HTTP {reply})")
            except _Passing as error:
                failure = _clearer(failure, error)
            if time.monotonic() + 1 >= end:
                raise ClassifierError(self._given_up(failure, tries, patience, 1)) from None
            await asyncio.sleep(random.SystemRandom().uniform(0.3, 1))

    def _given_up(self, failure: Exception, tries: int, patience: float, wait: float) -> str:
        asks = f", and asks to wait {wait:.0f} s" if wait > LONGEST_PAUSE else ""
        return (
            f"{self.to.url} gave no answer within {patience:g} s and {tries} {'try' if tries == 1 else 'tries'}: "
            f"{failure}{asks}; see whether it runs, or wait longer (patience)"
        )

    async def _once(self, method: str, url: str, request: Request | None, most: int, left: float) -> Reply | int:
        """Try once: return a whole reply, or a status that another try does not mend."""
        import asyncio

        import httpx

        timeout = max(0.001, min(self.to.timeout, left))
        try:
            async with asyncio.timeout(timeout):
                return await self._received(method, url, request, most)
        except TimeoutError:
            hurried = timeout < self.to.timeout
            raise _Passing(f"no whole answer within {timeout:.3g} s", hurried=hurried) from None
        except httpx.ConnectError as error:
            if "CERTIFICATE" in str(error):
                raise ClassifierError(
                    f"{self.to.url} shows a certificate that cannot be verified; see SSL_CERT_FILE"
                ) from None
            raise _Passing("no connection", away=True) from None
        except (httpx.HTTPError, OSError):
            raise _Passing("the connection was cut", away=True) from None

    async def _received(self, method: str, url: str, request: Request | None, most: int) -> Reply | int:
        given: dict[str, Any] = {} if request is None else {"content": request.body, "headers": request.headers}
        async with self.client.stream(method, url, **given) as response:
            status = response.status_code
            if status in PASSING:
                raise _Passing(f"HTTP {status}, {PASSING[status]}", _after(response.headers.get("Retry-After")))
            if 300 <= status < 400:
                raise ClassifierError(
                    f"{self.to.url} sends on (HTTP {status}) to another address, which is not followed; "
                    "give that address itself"
                )
            if status != 200:
                return int(status)
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise ClassifierError(f"{self.to.url} answered compressed, which was not asked for; switch that off")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > most:
                    raise ClassifierError(
                        f"{self.to.url} answered more than {most:,} bytes, which are no labels; check the address"
                    )
            return Reply(bytes(body), response.headers)


def _clearer(before: Exception | None, now: Exception) -> Exception:
    """Return the failure to tell of: that patience ended within a try says less than what failed before."""
    return before if before is not None and getattr(now, "hurried", False) else now


def refusal(status: int) -> str:
    """Say what a status means; the service's own words may show a record's values."""
    if status in (401, 403):
        return f"refused the request (HTTP {status}); give headers=, or a token in {TOKEN}"
    if status == 404:
        return "knows no such model (HTTP 404); check the address: .../v2/models/NAME"
    if status == 413:
        return "finds the request too large (HTTP 413); take a smaller batch"
    return (
        f"failed on a request (HTTP {status}); its log says why: it may take its inputs otherwise "
        '(inputs="tensor" or "columns"), or fail on a record such as one with gaps'
    )


def _after(header: str | None) -> float:
    """Return the seconds that a Retry-After asks for: a number, or a date."""
    if header is None:
        return 0.0
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def check_address(url: str) -> str:
    """Return a model's address without what follows it, or say what is wrong with it."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if fits and "@" in parts.netloc:
        raise ValueError(f"the address of a service holds no user or password; give headers=, or a token in {TOKEN}")
    if not fits or not ADDRESS.fullmatch(url):
        raise ValueError(
            "the address of a service must be http://HOST/v2/models/NAME, with /versions/VERSION behind it where there "
            "are several; got one that is not of this form"
        )
    return url.rstrip("/").removesuffix("/infer")


def secret_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers to send: those given, and the token of the environment; no sentence shows a value."""
    secret = dict(headers or {})
    token = os.environ.get(TOKEN)
    if token and "authorization" not in {str(name).lower() for name in secret}:
        secret["Authorization"] = f"Bearer {token}"
    for name, value in secret.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ValueError("the names of headers= must be words, such as Authorization")
        if not isinstance(value, str) or not (value.isascii() and value.isprintable() and value == value.strip()):
            raise ValueError(f"the header {name} must be one line of ASCII text without spaces around it")
    return secret


def _imported() -> tuple[Any, Any]:
    try:
        import httpx
        from anyio.from_thread import start_blocking_portal
    except ImportError:
        raise ImportError('a service is asked by httpx, which is missing; run pip install "epsworth[remote]"') from None
    return httpx, start_blocking_portal
