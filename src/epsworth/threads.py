"""Linear algebra and OpenMP on one thread: last bits do not depend on the cores, and nobody waits for a busy one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Limit:
    """BLAS on one thread while any thread of this process is within: the last one out restores it.

    A thread of its own holds the limit: most builds have one for the whole process, and threadpoolctl (from 3.8 on)
    lets only the thread that set it change it, which may leave before others do.  It does one thing after the other,
    so that whoever is interrupted while it sets the limit need not wait before asking it to release it again.  In a
    fork there is only the thread that forked, which stays within if it was.
    """

    def __init__(self) -> None:
        self.lock, self.within = threading.RLock(), dict[object, int]()
        self.holder, self.held = ThreadPoolExecutor(1), ExitStack()
        self.own: Callable[[], AbstractContextManager[object]] = nullcontext
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.lock.acquire, after_in_parent=self.lock.release, after_in_child=self._forked
            )

    @contextmanager
    def __call__(self) -> Iterator[None]:
        here = object()
        try:
            with self.lock:
                if not self.within:
                    self.holder.submit(self._hold).result()
                self.within[here] = threading.get_ident()
            with self.own():
                yield
        finally:
            self.within.pop(here, None)
            with self.lock:
                if not self.within:
                    self.holder.submit(self.held.close).result()

    def _hold(self) -> None:
        import threadpoolctl

        # who has set another limit gets it back afterwards
        release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        libraries = _libraries(len(sys.modules))
        self.held.enter_context(libraries.limit(limits=1, user_api="blas"))
        kinds = [library.get("threading_layer") for library in libraries.info()]
        self.own = _own if "openmp" in kinds else nullcontext

    def _forked(self) -> None:
        self.holder = ThreadPoolExecutor(1)
        self.within = {one: thread for one, thread in self.within.items() if thread == threading.get_ident()}
        if not self.within:
            self.held.close()
        self.lock.release()


def _own() -> AbstractContextManager[object]:
    """Return a limit for the calling thread, where BLAS keeps one for each."""
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the loaded libraries: looked for again, which takes 15 ms, once more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


one_thread = _Limit()
"""A context in which linear algebra runs on one thread; what else a classifier shares out stays."""


def one_openmp_thread() -> AbstractContextManager[object]:
    """Return a context in which whatever the calling thread asks OpenMP for runs on one thread.

    Threads that share busy cores wait for one another at every barrier: a prediction by boosted trees then takes most
    of a second, whatever its size.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api="openmp")  # type: ignore[no-any-return]


def on_one_thread(function: Callable[[Item], Result], batch: Item) -> Result:
    """Return ``function(batch)``, its linear algebra and OpenMP on one thread.

    OpenMP keeps its number of threads for each thread that asks, so each thread limits its own.
    """
    with one_thread(), one_openmp_thread():
        return function(batch)
