"""Run one function over many batches: in this process, in local processes, or on whatever joblib is told to use.

Results come in the order of the batches and do not depend on the number of workers.  ``joblib.parallel_config``
is respected, so a Dask or Ray backend registered there needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Item], Result], batches: Sequence[Item], *, n_jobs: int | None = None
) -> Iterator[Result]:
    """Yield ``function(batch)`` for every batch, in order, as they become ready.

    Parameters
    ----------
    function : callable
        Must be picklable when there is more than one worker.
    n_jobs : int, optional
        Number of workers; -1 for all cores.  None leaves it to ``joblib.parallel_config``, by default serial.

    Notes
    -----
    Linear algebra runs on one thread: many small fits gain nothing from more, and their last bits stay the same.

    Examples
    --------
    >>> list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    import joblib

    check_n_jobs(n_jobs)
    if len(batches) == 0:
        return
    settings = {} if n_jobs is None else {"n_jobs": n_jobs}
    streams = joblib.parallel.get_active_backend()[0].supports_return_generator  # Ray and multiprocessing do not
    pool = joblib.Parallel(return_as="generator" if streams else "list", mmap_mode="r", **settings)
    yield from pool(joblib.delayed(_on_one_thread)(function, batch) for batch in batches)


def _on_one_thread(function: Callable[[Item], Result], batch: Item) -> Result:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return function(batch)


def check_n_jobs(n_jobs: int | None) -> None:
    """Raise ValueError unless this is a number of workers."""
    if n_jobs is None:
        return
    if isinstance(n_jobs, bool) or int(n_jobs) != n_jobs or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number, -1 for all cores, or None, got {n_jobs!r}")


def batches_of(count: int, size: int) -> list[range]:
    """Return the ranges ``0..count`` cut into pieces of at most ``size``.

    Examples
    --------
    >>> batches_of(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
