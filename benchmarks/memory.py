"""The most memory that a process has taken, asked in a process of its own."""

from __future__ import annotations

import multiprocessing
import re
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def in_own_process(function: Callable[..., float], *given: object) -> float:
    """Run a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def peak() -> float:
    """Return the most memory, in MB, that this process has taken."""
    told = Path("/proc/self/status")
    if told.exists() and (found := re.search(r"VmHWM:\s+(\d+)", told.read_text())):
        return int(found[1]) / 1_024  # what `resource` says begins with the parent's
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (20 if sys.platform == "darwin" else 10)
