"""Run one function over many batches: in this process, in local processes, or on whatever joblib is told to use.

Results come in the order of the batches and do not depend on the number of workers.  ``joblib.parallel_config``
is respected: `on_cluster` registers Dask there.  What a function holds - a model, a table - travels to a worker once,
not with every batch.  Workers may die: what they had in hand is done again, by others.  No two calls share processes.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from epsworth.extras import needed
from epsworth.keeping import Keeping, going_on
from epsworth.numerals import as_float, short
from epsworth.shipping import Shipped, filed, pickled
from epsworth.threads import on_one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")
Idle = Callable[[], None]
PATIENCE = "30s"  # for a cluster's first answer
LIVES = 4  # workers that may be lost one after the other while nothing is finished
LOST = ("KilledWorker", "CancelledError", "FutureCancelledError", "FutureLostError")
TICK = 0.1  # seconds between two looks at whether to go on waiting
STAY = 60  # seconds that processes wait for the next call
WIND_UP = 1  # second that loky takes at most to notice that its processes are dead
AHEAD = 2  # batches in hand or in wait per worker
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1")


def in_order(
    function: Callable[[Item], Result],
    batches: Sequence[Item],
    *,
    n_jobs: int | None = None,
    idle: Idle | None = None,
    kept: Keeping | None = None,
) -> Generator[Result, None, None]:
    """Yield ``function(batch)`` for every batch, in order, as they become ready.

    Parameters
    ----------
    function : callable
        Must be picklable when there is more than one worker.
    n_jobs : int, optional
        Number of workers; -1 for all cores.  None leaves it to ``joblib.parallel_config``, by default serial.
    idle : callable, optional
        Called several times a second while workers are waited for; what it raises ends the work.
    kept : Keeping, optional
        Where results lie that an earlier run found, and new ones are left as they become ready.

    Raises
    ------
    ValueError
        Where the function cannot be sent, or workers die again and again; what it raises itself is raised here.

    Notes
    -----
    Linear algebra runs on one thread: many small fits gain nothing from more, and their last bits stay the same.

    Examples
    --------
    >>> list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    import joblib

    n_jobs = check_n_jobs(n_jobs)
    if kept is not None:
        yield from going_on(batches, kept.step(function), partial(in_order, function, n_jobs=n_jobs, idle=idle))
        return
    if len(batches) == 0:
        return
    backend = joblib.parallel.get_active_backend()[0]
    kind, many = type(backend).__name__, workers(n_jobs)
    if alone(n_jobs):
        yield from (on_one_thread(function, batch) for batch in batches)
    elif kind == "LokyBackend":
        with TemporaryDirectory(prefix="epsworth-", ignore_cleanup_errors=True) as folder:
            yield from _gathered(_Processes(many, filed(function, Path(folder))), batches, idle)
    elif kind == "DaskDistributedBackend":
        yield from _gathered(_Cluster(backend.client, many, function), batches, idle)
    else:  # Ray and multiprocessing do not stream
        form = "generator" if backend.supports_return_generator else "list"
        settings = {} if n_jobs is None else {"n_jobs": n_jobs}
        pool = joblib.Parallel(return_as=form, mmap_mode="r", **settings)
        yield from pool(joblib.delayed(on_one_thread)(function, batch) for batch in batches)


def workers(n_jobs: int | None = None) -> int:
    """Return how many batches `in_order` does side by side."""
    import joblib

    n_jobs = check_n_jobs(n_jobs)
    try:
        return max(1, int(joblib.effective_n_jobs(n_jobs)))
    except TimeoutError:
        raise ValueError("the Dask scheduler has no workers; start some, and try again") from None


def alone(n_jobs: int | None = None) -> bool:
    """Tell whether `in_order` does all batches itself, in this process, one after the other."""
    import joblib

    elsewhere = type(joblib.parallel.get_active_backend()[0]).__name__ == "DaskDistributedBackend"
    return n_jobs == 1 or (workers(n_jobs) == 1 and not elsewhere)


class _Place(Protocol):
    """Where batches are done, ``count`` of them side by side.

    ``lost`` tells whether it was the worker that failed, not the function; ``leave`` comes last, and ends what workers
    have in hand where not all was done.
    """

    count: int

    def submit(self, batch: Any) -> Future[Any]: ...
    def lost(self, error: BaseException) -> bool: ...
    def leave(self, done: bool) -> None: ...


class _Processes:
    """Processes that one call has for itself, from the first batch to the last; then they wait for the next call.

    Who gives up can thus kill them, and joblib's own are never resized.
    """

    def __init__(self, count: int, shipped: Shipped) -> None:
        self.count, self.shipped = count, shipped
        self.executor = self._waiting() or self._started()

    def submit(self, batch: Any) -> Future[Any]:
        try:
            found: Future[Any] = self.executor.submit(_called, self.shipped, batch)
        except BrokenProcessPool:
            _end(self.executor)
            self.executor = self._started()
            found = self.executor.submit(_called, self.shipped, batch)
        return found

    def lost(self, error: BaseException) -> bool:
        return isinstance(error, BrokenProcessPool)

    def leave(self, done: bool) -> None:
        if done:
            _free[os.getpid(), self.count].append(self.executor)
        else:
            _end(self.executor)

    def _waiting(self) -> Any:
        with suppress(IndexError):  # asking first would let another thread be faster
            return _free[os.getpid(), self.count].pop()

    def _started(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(
            self.count, timeout=STAY, env=ONE_THREAD, initializer=end_with, initargs=(os.getpid(),)
        )


_free: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)  # by driver, as a fork has no processes, and count


def _end(executor: Any) -> None:
    """Kill an executor's processes, as a lack of memory would.

    Loky's ``shutdown(kill_workers=True)`` fails, and they wait for ever, where a batch is not in hand yet.  Its thread
    waits for ever where the dead have read or written half a message, unless nobody is left at the other end.
    """
    from joblib.externals.loky.backend.utils import kill_process_tree

    for process in list((executor._processes or {}).values()):
        with suppress(ProcessLookupError):
            kill_process_tree(process)
    manager = executor._executor_manager_thread
    if manager is not None:
        with suppress(RuntimeError):  # where that very thread collects what was left half-way
            manager.join(WIND_UP)
        if manager.is_alive():
            executor._call_queue._reader.close()
            executor._result_queue._writer.close()


class _Cluster:
    """The workers of a Dask scheduler, which moves to others what those that die had.

    Names of tasks are numbers: schedulers write them to logs and dashboards.
    """

    def __init__(self, client: Any, count: int, function: Callable[[Any], Any]) -> None:
        self.count, self.call, self.number = count, secrets.token_hex(8), 0
        self.executor = client.get_executor(pure=False)
        content = Shipped(self.call, pickled(function))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its size: it travels to a worker once
            self.shipped = client.submit(_same, content, key=f"epsworth-{self.call}", pure=False)

    def submit(self, batch: Any) -> Future[Any]:
        self.number += 1
        key = f"epsworth-{self.call}-{self.number}"
        found: Future[Any] = self.executor.submit(_called, self.shipped, batch, key=key)
        return found

    def lost(self, error: BaseException) -> bool:
        if isinstance(error, ModuleNotFoundError):
            raise ValueError(
                f"a worker has no module {error.name}; install the same version of epsworth there, and what the model "
                "needs"
            ) from None
        return type(error).__name__ in LOST

    def leave(self, done: bool) -> None:
        if not done:
            self.executor.shutdown(wait=False)


def _gathered(place: _Place, batches: Iterable[Any], idle: Idle | None) -> Iterator[Any]:
    """Yield results in order; a few batches are in hand or wait, and those of workers that died are done again."""
    left, waiting, lives = iter(batches), deque[tuple[Any, Future[Any]]](), LIVES
    try:
        while True:
            for batch in islice(left, AHEAD * place.count + 1 - len(waiting)):
                waiting.append((batch, place.submit(batch)))
            if not waiting:
                return
            first = waiting[0][1]
            while not wait([first], timeout=TICK).done:
                if idle is not None:
                    idle()
            if _died(place, first):
                lives -= 1
                if not lives:
                    raise ValueError(
                        "workers ended again and again before they were done with a piece (killed, or out of memory?); "
                        "give them more memory, or take fewer of them"
                    )
                waiting = deque((b, place.submit(b) if _died(place, f) else f) for b, f in waiting)
                continue
            lives = LIVES
            yield first.result()
            waiting.popleft()
    finally:
        place.leave(all(future.done() for _, future in waiting))


def _died(place: _Place, future: Future[Any]) -> bool:
    if not future.done():
        return False
    error = CancelledError() if future.cancelled() else future.exception()
    return error is not None and place.lost(error)


def _same(shipped: Shipped) -> Shipped:
    return shipped


def _called(shipped: Shipped, batch: Any) -> Any:
    """Do a batch in a worker; what the function runs in parallel itself, it runs in order."""
    import joblib

    with joblib.parallel_config(backend="sequential"):
        return on_one_thread(shipped.function(), batch)


def in_sequence() -> AbstractContextManager[object]:
    """Return a context in which no part of this process that joblib would share out runs beside another.

    Claim: a forest asked within adds its trees up in their own order, whatever its ``n_jobs``, so that sums have the
    same last bits in every call.

    Examples
    --------
    >>> from joblib import effective_n_jobs
    >>> with in_sequence():
    ...     effective_n_jobs(4)
    1
    """
    import joblib

    return joblib.parallel_config(backend="sequential")  # type: ignore[no-any-return]


def end_with(driver: int) -> None:
    """Let a worker end soon after the process that started it was killed; Ctrl-C is for that process alone."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let `in_order` run on the workers of a Dask scheduler; None leaves it where it is.

    Parameters
    ----------
    address : str or None
        Such as ``tcp://10.0.0.1:8786``; its workers need the same version of epsworth.

    Raises
    ------
    ValueError
        Where no scheduler answers there, or the extra ``cluster`` is not installed.

    Examples
    --------
    >>> with on_cluster(None):
    ...     list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if address is None:
        yield
        return
    import joblib

    with client_of(address, "working on a cluster") as client, joblib.parallel_config(backend="dask", client=client):
        yield


@contextmanager
def client_of(address: str, why: str) -> Iterator[Any]:
    """Yield a client of a Dask scheduler; ``why`` is the subject of the sentence that asks for the extra."""
    distributed = needed("distributed", "cluster", why)
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # what it says of addresses is many lines long
        raise ValueError(
            f"no Dask scheduler answers at {short(address)} ({type(error).__name__}); give its address, "
            "such as tcp://10.0.0.1:8786"
        ) from None
    with client:
        yield client


MOST_WORKERS = 1 << 16


def check_n_jobs(n_jobs: int | None, name: str = "n_jobs") -> int | None:
    """Return a number of workers as one of Python's, or raise ValueError.

    Examples
    --------
    >>> check_n_jobs(2.0), check_n_jobs(None)
    (2, None)
    """
    if n_jobs is None:
        return None
    if not (found := as_float(n_jobs)).is_integer() or found == 0 or abs(found) > MOST_WORKERS:
        raise ValueError(
            f"{name} must be a whole number up to {MOST_WORKERS:,}, -1 for all cores, or None, got {short(n_jobs)}"
        )
    return int(found)


def batches_of(count: int, size: int) -> list[range]:
    """Return the ranges ``0..count`` cut into pieces of at most ``size``.

    Examples
    --------
    >>> batches_of(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
