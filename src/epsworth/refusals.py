"""What an error carries along: others that it was raised for, which may hold values that its sentence does not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dis import opmap
from types import TracebackType


def raised_in(error: BaseException) -> str:
    """Return the name of the module whose code raised an error; empty if nobody knows."""
    trace = _innermost(error)
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


def is_ours(error: BaseException) -> bool:
    """Tell whether a statement of ours raised an error, and not the interpreter, or a library, that one of ours called.

    Examples
    --------
    >>> try:
    ...     float("one")
    ... except ValueError as error:
    ...     print(is_ours(error))
    False
    """
    trace = _innermost(error)
    raised = trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]
    return raised and raised_in(error).startswith("epsworth")


def _innermost(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


@contextmanager
def alone() -> Iterator[None]:
    """Let errors pass without those in whose place they were raised: ``from None`` hides these, and keeps them.

    Examples
    --------
    >>> try:
    ...     with alone():
    ...         try:
    ...             float("77.4242x")
    ...         except ValueError:
    ...             raise ValueError("no number") from None
    ... except ValueError as error:
    ...     print(error.__context__)
    None
    """
    try:
        yield
    except BaseException as error:
        error.__cause__ = error.__context__ = None
        raise
