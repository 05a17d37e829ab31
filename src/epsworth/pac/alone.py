"""What must not be spent twice: one lock in one process, which no fork, copy or pickle gets past."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import NoReturn


class Alone:
    """A lock whose holder is alone with a secret and its budget; other processes are refused before they wait for it.

    Parameters
    ----------
    what : str
        What messages call that which it guards.
    use : str
        What its owner does with it.

    Examples
    --------
    >>> with Alone("ledger", "release"):
    ...     pass
    """

    def __init__(self, what: str, use: str) -> None:
        self.what, self.use = what, use
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def at_home(self) -> bool:
        """Whether this is the process that made it."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuse any other process."""
        if not self.at_home:
            raise ValueError(
                f"this {self.what} belongs to the process that made it, and a copy would spend its total again; "
                f"{self.use} there"
            )

    def __enter__(self) -> None:
        """Check first: a fork may have copied the lock while it was held."""
        self.check()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {self.what} cannot be copied or pickled: a copy would spend its total again")
