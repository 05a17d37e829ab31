"""One JSON object per line on standard error, made of words and numbers of our own: no values, no client's names."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


def say(event: str, **facts: str | int | float | None) -> None:
    """Write a line."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | facts
    print(json.dumps(line), file=sys.stderr, flush=True)


def accident(error: BaseException) -> dict[str, str | int | None]:
    """Return what may be told of an error nobody foresaw: its kind and place.  Its words could hold a value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return {"kind": type(error).__name__}
    place = trace.tb_frame.f_globals.get("__name__", "")
    return {"kind": type(error).__name__, "module": place, "line": trace.tb_lineno}


class OfTheServer(logging.Handler):
    """Tells that a library had something to say, and where; its words could hold a value."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the place of a message."""
        say("library", level=record.levelname.lower(), module=record.name, function=record.funcName, line=record.lineno)


def only_ours() -> None:
    """Let every library's lines pass through `OfTheServer`, warnings and worse alone."""
    root = logging.getLogger()
    root.handlers[:] = [OfTheServer()]
    root.setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore"):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [], True
