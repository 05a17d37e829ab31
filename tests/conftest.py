"""Fixtures for all tests; hypothesis is derandomised so that a run is repeatable.

EPSWORTH_EXAMPLES asks for more examples per property than the default run has time for; EPSWORTH_UNSHRUNK for the
first counterexample instead of the least, where nobody will read it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

if "PYTEST_XDIST_WORKER" in os.environ:  # a worker per core: threads of its own would only wait for one another
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(threads, "1")

EXAMPLES = int(os.environ.get("EPSWORTH_EXAMPLES", "20"))

PHASES = [phase for phase in Phase if phase.name not in ("shrink", "explain") or "EPSWORTH_UNSHRUNK" not in os.environ]

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=EXAMPLES, phases=PHASES)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Leave garbage until all tests are collected; what was collected then lives as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


CASES = 2  # of a test with parameters, in the default suite


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the default suite two cases of each test, the first and the last; the rest are slow.

    ``cases(n)`` says how many of one test, or of a whole file, evenly spread; ``cases("all")`` keeps all entries of
    a table. Cases that are slow by themselves do not count.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        marker = cases[0].get_closest_marker("cases")
        most = marker.args[0] if marker else CASES
        if most == "all" or len(cases) <= most:
            continue
        kept = {round(i * (len(cases) - 1) / max(1, most - 1)) for i in range(most)}
        for number, item in enumerate(cases):
            if number not in kept:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def paper_data() -> Path:
    """Return the folder with the papers' data, or skip."""
    folder = os.environ.get("EPSWORTH_DATA")
    if not folder:
        pytest.skip("EPSWORTH_DATA is unset: it names the folder with the papers' data sets")
    return Path(folder)


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run a command in the current folder; return exit status, standard output, standard error."""
    from epsworth.cli import main

    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # `main` replaces it, and what signals do
    signals = [getattr(signal, name) for name in ("SIGPIPE", "SIGINT", "SIGTERM") if hasattr(signal, name)]
    before = [signal.getsignal(number) for number in signals]

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["epsworth", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    yield run
    for number, handler in zip(signals, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def interruptible():
    """Let Ctrl-C reach what the test starts: in a shell's background job it is ignored, and that is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def one_sided_misses(monkeypatch):
    """Return the list of what each one-sided bound may miss: half of what its two-sided interval is asked for."""
    from epsworth import bounds

    exact, asked = bounds.clopper_pearson, []

    def noting(hits, draws, miss):
        asked.append(miss / 2)
        return exact(hits, draws, miss)

    monkeypatch.setattr(bounds, "clopper_pearson", noting)
    return asked
