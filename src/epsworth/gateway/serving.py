"""Sockets, workers and signals: one process per worker, all on one socket; a stop lets finish what is under way."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from epsworth.gateway.application import Gateway, application
from epsworth.gateway.counts import Counts
from epsworth.gateway.logs import only_ours, say
from epsworth.gateway.people import People
from epsworth.gateway.settings import Settings
from epsworth.gateway.upstream import Network, Upstream

STOPS = (signal.SIGTERM, signal.SIGINT)
BACKLOG = 2048
GRACE = 5.0  # seconds beyond the longest way upstream
AGAIN_AFTER = 1.0  # seconds before a worker that died is started anew


class Server(uvicorn.Server):
    """uvicorn's server; a signal ends it with exit status 0, a second one at once."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, without passing it on afterwards."""
        for stop in STOPS:
            signal.signal(stop, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting; tell /readyz."""
        self.gateway.draining = True
        super().handle_exit(sig, frame)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; a port in use is refused in one sentence."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as failing:
            bound = failing.enter_context(socket.socket(family, kind))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(BACKLOG)
            failing.pop_all()  # it stays open
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is in use; choose another (--port)" if taken else "cannot be listened on; check --host and --port"
        raise ValueError(f"port {port} of {host} {why}") from None
    return bound


def serve(settings: Settings, *, host: str, port: int, workers: int = 1, ca: Path | None = None) -> None:
    """Serve until told to stop (SIGTERM, SIGINT): what is under way is finished, nothing new is taken.

    Parameters
    ----------
    host, port
        Where clients connect.
    workers : int
        Processes; they share the ledger and the metrics.
    ca : path, optional
        Certificates that upstream is checked against.
    """
    if workers < 1:
        raise ValueError(f"workers: must be at least 1, got {workers}")
    if workers > 1 and not hasattr(os, "fork"):
        raise ValueError("workers: this system knows no fork; leave it at 1")
    Network(ca)  # refuses certificates
    if settings.ledger is not None:
        People(settings).close()  # refuses ledgers, before a worker does
    bound = listening(host, port)
    counts = Counts(settings.policy.names, workers)
    only_ours()
    _say_what_is_served(settings, bound, workers)
    with bound:
        if workers == 1:
            _work(settings, bound, counts, 0, ca)
        else:
            _Workers(settings, bound, counts, workers, ca).run()
    say("stopped")


def _work(settings: Settings, bound: socket.socket, counts: Counts, worker: int, ca: Path | None) -> None:
    """Serve from this process."""
    counts.become(worker)
    app = application(settings, Upstream(settings, Network(ca)), counts)
    longest = settings.seconds * (settings.retries + 1) + GRACE
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # it would tell who asked
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(longest) + 1,
    )
    Server(config, app.state.gateway).run(sockets=[bound])


class _Workers:
    """The parent: starts workers, starts those anew that died, and passes a stop on."""

    def __init__(self, settings: Settings, bound: socket.socket, counts: Counts, workers: int, ca: Path | None) -> None:
        self.settings, self.bound, self.counts, self.ca = settings, bound, counts, ca
        self.places = dict.fromkeys(range(workers), 0)
        self.stopping = False

    def run(self) -> None:
        """Wait for all workers to end."""
        for stop in STOPS:
            signal.signal(stop, self._stop)
        for place in self.places:
            self._start(place)
        while any(self.places.values()):
            try:
                ended, status = os.wait()
            except ChildProcessError:
                return
            place = next(place for place, child in self.places.items() if child == ended)  # it has no other children
            self.places[place] = 0
            if not self.stopping:
                say("a worker ended and is started anew", worker=place, status=os.waitstatus_to_exitcode(status))
                time.sleep(AGAIN_AFTER)
                if not self.stopping:
                    self._start(place)

    def _start(self, place: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # a worker answers to none of this process's handlers
        child = os.fork()
        if child:
            self.places[place] = child
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            if self.stopping:  # told to, between the question and the fork
                os.kill(child, signal.SIGTERM)
            return
        status = 1
        try:
            for stop in STOPS:
                signal.signal(stop, signal.SIG_DFL)  # until it serves, a stop ends it at once
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            _work(self.settings, self.bound, self.counts, place, self.ca)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _stop(self, sig: int, frame: FrameType | None) -> None:
        self.stopping = True
        for child in filter(None, self.places.values()):
            os.kill(child, signal.SIGTERM)


def _say_what_is_served(settings: Settings, bound: socket.socket, workers: int) -> None:
    policy = settings.policy
    say(
        "serving",
        port=bound.getsockname()[1],
        workers=workers,
        policy=policy.fingerprint[:12],
        promise=f"{policy.guarantee}",
        public=", ".join(settings.public) or "nothing",
        per="request: nobody is counted" if settings.person is None else "draw, counted per person",
    )
    for rule in policy.rules:
        kinds = [] if rule.missing is not None else ["missing"]
        kinds += ["undeclared"] if rule.feature.categories is not None and rule.outside is None else []
        if kinds:
            told = "values that are refused can be told by whoever sees which requests are answered"
            say("warning", field=rule.feature.name, refused=" and ".join(kinds), because=told)
