"""A run on the screen: how far it is and what it has proven so far; the first Ctrl-C ends it gently."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from epsworth.rounding import round_down, round_up, show_down, show_up

if TYPE_CHECKING:
    from epsworth.utility.deadline import RunState
    from epsworth.utility.radius.question import Bracket

INTERRUPTED = 130  # exit status where Ctrl-C ended a run, whether it had something to print or not
STOPS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C, and what schedulers send
_stopped = threading.Event()
EVERY = 0.25  # seconds between two looks at the bounds
SOON, LONG = 2.0, 10.0  # seconds of work after which a run's length is foreseen, and is worth a word


def connections_may_break() -> None:
    """Let writing to a connection that the other side has closed fail, where it would end the process.

    `main` lets a closed pipe end commands quietly; a socket raises the same signal.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def heed_stops() -> None:
    """Let every stop end the command as Ctrl-C does; one that was ignored from the start, as under nohup, stays so."""
    _stopped.clear()
    if threading.current_thread() is threading.main_thread():
        for stop in STOPS:
            if signal.getsignal(stop) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(stop, _stop)


def was_stopped() -> bool:
    """Tell whether a stop has arrived: a library that it found at work may have made another error of it."""
    return _stopped.is_set()


def _stop(number: int, frame: object) -> None:
    _stopped.set()
    raise KeyboardInterrupt


@dataclass
class Run:
    """What a command gives to a long computation: how to show it, in what words, and whether it must end."""

    show: Callable[[str, float], None]
    what: str
    told: Callable[[Any], str]
    within: float | None = None
    interrupted: bool = False
    shown: float = field(default=-EVERY)
    foretold: bool = False
    first: float | None = None
    since: tuple[float, float] | None = None

    def progress(self, share: float) -> None:
        """Move the bar."""
        self.show(self.what, share)

    def watch(self, standing: Any) -> bool:
        """Show the bounds now and then, and once how long it takes; tell whether Ctrl-C was pressed."""
        if not self.foretold:
            self._foretell(standing)
        now = time.monotonic()
        if not self.interrupted and now - self.shown >= EVERY:
            self.shown, self.what = now, self.told(standing)
            self.show(self.what, standing.done)
        return self.interrupted

    def _foretell(self, standing: Any) -> None:
        """Measure the pace once work is seen to move: reading, and workers that start, are no part of it."""
        first = self.first = standing.done if self.first is None else self.first
        if self.since is None and standing.done > first:
            self.since = standing.seconds, standing.done
        if self.since is not None:
            seconds, done = standing.seconds - self.since[0], standing.done - self.since[1]
            if seconds >= SOON and done > 0:
                self.foretold = True
                foretell(standing.seconds + (1 - standing.done) * seconds / done, self.within)


def foretell(total: float, within: float | None) -> None:
    """Say how long a run takes at its pace, where that is long, and how to have more of it than there is time for."""
    about = f"epsworth: this takes about {duration(total)} at its pace"
    if within is not None and total > within:
        print(
            f"{about}, and ends after {within:g} s with what is proven by then; more: --within-seconds "
            f"{math.ceil(total)} (or inf), and --resume FOLDER to go on another time",
            file=sys.stderr,
        )
    elif total > LONG:
        print(f"{about}{'' if within is None else f' ({within:g} s at most)'}", file=sys.stderr)


def duration(seconds: float) -> str:
    """Return a length of time as people say it.

    Examples
    --------
    >>> duration(31.2), duration(200), duration(30000)
    ('32 s', '4 min', '9 h')
    """
    unit, name = next(((s, n) for s, n in ((3600, "h"), (60, "min")) if seconds >= 2 * s), (1, "s"))
    return f"{math.ceil(seconds / unit):,} {name}"


def told_of_radius(bracket: Bracket) -> str:
    """Say in a few words what is proven of a radius."""
    upper = f"at most {show_up(bracket.upper)}" if math.isfinite(bracket.upper) else "nowhere seen"
    return f"another label is no nearer than {show_down(bracket.lower)}, {upper}"


def told(standing: RunState) -> str:
    """Say in a few words what is proven: the best mechanism at the middle epsilon, average over the records."""
    e = (len(standing.epsilons) - 1) // 2
    lower, upper = (side[:, e] for side in standing.average())
    m = int(lower.argmax())
    low, high = round_down(float(lower[m]), 2), round_up(float(upper[m]), 2)
    return (
        f"{standing.mechanisms[m]} at epsilon {show_up(standing.epsilons[e])} keeps {low:.2f} to {high:.2f} on average"
    )


@contextmanager
def running(
    what: str, bar: Callable[[str, float], None], told: Callable[[Any], str] = told, within: float | None = None
) -> Iterator[Run]:
    """Yield a run; the first stop asks it to end after the query it is in, the second one ends the command."""
    run = Run(bar, what, told, within, foretold=told is told_of_radius)  # whose share tells nothing of time
    if threading.current_thread() is not threading.main_thread():  # a signal cannot be caught elsewhere
        yield run
        return

    def caught(number: int, frame: object) -> None:
        if run.interrupted:
            _stop(number, frame)
        run.interrupted = True
        with suppress(OSError):  # not print: the signal may have come while something is printed
            os.write(2, b"epsworth: ending with what is proven so far; Ctrl-C again ends at once\n")

    before = [signal.signal(stop, caught) for stop in STOPS]
    try:
        yield run
    finally:
        for stop, handler in zip(STOPS, before, strict=True):
            signal.signal(stop, handler)


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """Show a bar on standard error while it is a terminal; yield the function that names and moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn()
    console = Console(stderr=True)
    if not console.is_terminal:  # some versions of rich end a disabled bar with an empty line
        yield lambda what, share: None
        return
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None, done="")  # moves to and fro until something is done

        def show(what: str, share: float) -> None:
            done = f"{int(100 * share):3d} %" if share else ""
            shown.update(task, description=what, total=1.0 if share else None, completed=share, done=done)

        yield show


def leave_if(interrupted: bool) -> None:
    """Exit with `INTERRUPTED` once everything is told, where Ctrl-C has cut the answer short."""
    if interrupted:
        print("epsworth: interrupted; what is told holds, and could be narrower", file=sys.stderr)
        sys.exit(INTERRUPTED)
