"""Where tasks run: in this process, in processes of this machine, on a Dask cluster, or wherever a caller's map sends.

A map gets a function and tasks and returns the results in any order.  Tasks may run twice, and workers may die: what
a task leaves must be the same whoever does it, and however often.  Its function must not raise; what it returns is
all that leaves a worker, so that no library's log shows a value.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from epsworth.extras import needed
from epsworth.numerals import short
from epsworth.parallel import client_of, end_with

Map = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
LIVES = 4  # workers that a task may lose one after the other, while nothing else is done either


@contextmanager
def chosen(workers: int = 1, cluster: str | None = None, own: Map | None = None) -> Iterator[Map]:
    """Yield the map that was asked for.

    Examples
    --------
    >>> with chosen() as here:
    ...     list(here(abs, [-1, 2]))
    [1, 2]
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"workers must be a whole number of processes, at least 1, got {short(workers)}")
    if (workers > 1) + (cluster is not None) + (own is not None) > 1:
        raise ValueError("workers, cluster and map each say where the work is done; give one of them")
    if own is not None:
        yield own
    elif cluster is not None:
        with client_of(cluster, "sharing files with a cluster") as client:
            yield partial(_on_cluster, client)
    elif workers > 1:
        with closing(_Processes(workers)) as processes:
            yield processes
    else:
        yield map


class _Processes:
    """A map to processes of this machine, which live until it is closed; those that die are replaced."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: Any = None

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield results as they come; what a process that died had in hand is done again."""
        from concurrent.futures import as_completed
        from concurrent.futures.process import BrokenProcessPool

        left, lives = dict(enumerate(tasks)), LIVES
        while left:
            before = len(left)
            try:
                futures = {self._started().submit(function, task): number for number, task in left.items()}
                for future in as_completed(futures):
                    error = future.exception()
                    if error is None:
                        del left[futures[future]]
                        yield future.result()
                    elif not isinstance(error, BrokenProcessPool):
                        raise _beyond(error)
            except BrokenProcessPool:
                pass  # while tasks were handed in
            finally:
                if left:  # a process died, or the caller wants no more
                    self.close()
            lives = LIVES if len(left) < before else lives - 1
            if not lives:
                raise _lost(len(left))

    def close(self) -> None:
        """End the processes, whatever they have in hand."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None

    def _started(self) -> Any:
        if self._pool is None:
            from joblib.externals.loky import ProcessPoolExecutor

            threads = str(max(1, (os.cpu_count() or 1) // self._workers))
            self._pool = ProcessPoolExecutor(
                self._workers, initializer=end_with, initargs=(os.getpid(),), env={"POLARS_MAX_THREADS": threads}
            )
        return self._pool


def _on_cluster(client: Any, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    """Yield results as a cluster's workers bring them; Dask itself sends what lost workers had to others.

    Names of tasks are numbers: schedulers write them to logs and dashboards.
    """
    as_completed = needed("distributed", "cluster", "sharing files with a cluster").as_completed
    call, lives = secrets.token_hex(4), [LIVES] * len(tasks)
    futures = {}

    def submit(number: int) -> Any:
        key = f"epsworth-{call}-{number}-{lives[number]}"
        future = client.submit(function, tasks[number], key=key, pure=False, retries=LIVES)
        futures[future.key] = future, number
        return future

    try:
        waiting = as_completed([submit(number) for number in range(len(tasks))], loop=client.loop)
        for future in waiting:
            _, number = futures.pop(future.key)
            if future.status == "finished":
                yield future.result()
                future.release()
                continue
            error = future.exception() if future.status == "error" else None
            if error is not None and type(error).__name__ != "KilledWorker":
                raise _beyond(error)
            lives[number] -= 1
            if not lives[number]:
                raise _lost(1 + len(futures))
            waiting.add(submit(number))
    finally:
        client.cancel([future for future, _ in futures.values()])


def _beyond(error: BaseException) -> ValueError:
    """Return the refusal of a worker that could not even begin; its own words may hold anything."""
    return ValueError(
        f"a worker could not take its task ({type(error).__name__}); install the same version of epsworth there"
    )


def _lost(tasks: int) -> ValueError:
    return ValueError(
        f"workers ended again and again before they were done with any of {tasks} files (killed, or out of memory?); "
        "give them more memory, or fewer of them, and run it again"
    )
