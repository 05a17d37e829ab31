"""Every claim of ``docs/claims.md`` has a mutant: with a named function replaced by an unsafe one, its test must fail.

The mutants are the modules of this folder; `planting.mutant` registers them.  Each is planted in a process of its own,
forked before anything of the library was computed.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest
from planting import HERE, all_mutants, plant

from mutation import resolved

ROOT = HERE.parents[1]
ROW = re.compile(r"^- (?P<claim>.+?): `(?P<function>.+?)`; (?P<tests>`.+`)$", re.M)
PAGE = (ROOT / "docs" / "claims.md").read_text()
ROWS = list(ROW.finditer(PAGE))
NAMED = re.compile("`(.+?)`")
MUTANTS = all_mutants()

LONGEST = 120  # seconds
FRESH = multiprocessing.get_context("forkserver")  # a process per mutant, in which what takes long is there already
LOADED = ("numpy", "pandas", "mpmath", "scipy.integrate", "scipy.stats", "sklearn.ensemble", "sklearn.pipeline")
FRESH.set_forkserver_preload(["pytest", "hypothesis", "anyio.pytest_plugin", *LOADED, "epsworth.cli"])
# plain assertions, as two long lists would be compared to the end
OPTIONS = ("-x", "-q", "-n0", "--assert=plain", "--tb=short", "-p", "no:cacheprovider", "-m", "")
OPTIONS += ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of what is loaded already


def without_case(test: str) -> str:
    return test.partition("[")[0]


def test_every_name_is_that_of_something():
    for one in MUTANTS.values():
        resolved(one.of)
        file, _, name = without_case(one.test).partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M), one.test


def test_every_claim_has_its_mutants_and_every_mutant_its_claim():
    assert len(ROWS) == sum(line.startswith("- ") for line in PAGE.splitlines())
    claims = {row["claim"]: row for row in ROWS}
    assert len(claims) == len(ROWS)  # none stands twice
    assert {one.claim for one in MUTANTS.values()} == set(claims)
    for claim, row in claims.items():
        tests = {without_case(one.test) for one in MUTANTS.values() if one.claim == claim}
        assert set(NAMED.findall(row["tests"])) == tests, claim


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_test_of_the_claim_notices_the_mutant(name, tmp_path):
    started = time.monotonic()
    child = FRESH.Process(target=run, args=(name, tmp_path))
    child.start()
    child.join(LONGEST)
    ended = child.exitcode
    child.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # and whatever the test has left at work
    told = (tmp_path / "told").read_text()
    assert ended is not None, f"the test did not end within {LONGEST} seconds\n{told[-2000:]}"
    assert (tmp_path / "seen").exists(), f"the mutant could not be planted\n{told[-2000:]}"
    seen = json.loads((tmp_path / "seen").read_text())
    print(f"{name}: {time.monotonic() - started:.1f} s, {seen}")
    assert not seen["skipped"] or seen["failed"], f"the test of the claim was skipped: {seen['skipped']}"
    assert not seen["broken"], f"the test could not be run\n{told[-2000:]}"
    assert seen["failed"], f"not noticed\n{told[-2000:]}"
    assert not seen["by_itself"], f"what fails is the mutant, not the promise\n{told[-2000:]}"


class Seen:
    """What became of the test: of its setup, of itself, and where it was that it failed."""

    def __init__(self):
        self.failed, self.skipped, self.broken, self.by_itself, self.said = [], [], [], False, ""

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.skipped.append(str(report.longrepr))
        if report.failed:
            (self.failed if report.when == "call" else self.broken).append(report.nodeid)
            crash = getattr(report.longrepr, "reprcrash", None)
            self.said = getattr(crash, "message", "")[:200]
            faulty = crash is not None and Path(crash.path).parent == HERE
            self.by_itself = faulty or self.said.startswith(("TypeError", "AttributeError", "NameError"))

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken.append(report.nodeid)


def run(name: str, folder: Path) -> None:
    """Plant a mutant and run its test."""
    os.setsid()
    os.environ["EPSWORTH_UNSHRUNK"] = "1"  # that it fails is all that is asked
    os.chdir(ROOT)
    seen = Seen()
    with (folder / "told").open("w") as told:
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
        try:
            plant(MUTANTS[name])
            code = pytest.main([*OPTIONS, MUTANTS[name].test], plugins=[seen])
            if code in (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR):
                seen.broken.append("there is no such test")
            (folder / "seen").write_text(json.dumps(vars(seen)))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            told.flush()
            os._exit(0)  # not waiting for what the test left running
