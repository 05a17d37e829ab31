"""A planted fault per claim: with one line of the source changed, the test that the claim names must fail.

The faults are data: every table of ``*.toml`` in this folder has a name, the ``claim`` that it breaks (the first cell
of its line in ``docs/claims.md``), the ``file`` under ``src/epsworth``, and what stands there ``before`` and ``after``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "epsworth"
LINE = re.compile(
    r"^\| (?!claim \||--- )(?P<claim>.+?) \| (.+?) \| `(.+?)` \| `(?P<test>.+?)` \| ?(?P<faults>.*) \|$", re.M
)
LINES = list(LINE.finditer((ROOT / "docs" / "claims.md").read_text()))
TESTS = {line["claim"]: line["test"] for line in LINES}
FAULTS = {
    name: fault
    for path in sorted(Path(__file__).parent.glob("*.toml"))
    for name, fault in tomllib.loads(path.read_text()).items()
}

LOADED = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins that are there already
UNEXPLAINED = ["--assert=plain"]  # where CI is set, two long lists are compared to the end: more than minutes
LONGEST = 120  # seconds
FRESH = multiprocessing.get_context("forkserver")  # a process per fault, in which what takes long is there already
FRESH.set_forkserver_preload(
    ["pytest", "hypothesis", "anyio.pytest_plugin", "numpy", "scipy.integrate", "scipy.stats", "sklearn.ensemble"]
)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_one_line_of_what_a_claim_rests_on(name):
    fault = FAULTS[name]
    assert fault["claim"] in TESTS
    assert "\n" not in fault["before"] + fault["after"]
    assert fault["before"] != fault["after"]
    found = (SOURCES / fault["file"]).read_text().count(fault["before"])
    assert found == 1, f"{fault['file']} holds {fault['before']!r} {found} times"


def test_every_claim_names_its_faults():
    assert len(TESTS) == len(LINES)  # no claim stands twice, and no name
    assert len(FAULTS) == sum(path.read_text().count("\nclaim = ") for path in Path(__file__).parent.glob("*.toml"))
    named = {name: line["claim"] for line in LINES for name in line["faults"].split(", ")}
    assert named == {name: fault["claim"] for name, fault in FAULTS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_test_of_the_claim_notices_the_fault(name, tmp_path):
    fault = FAULTS[name]
    faulty = tmp_path / "epsworth" / fault["file"]
    link_all_but(SOURCES / fault["file"], faulty)
    faulty.write_text((SOURCES / fault["file"]).read_text().replace(fault["before"], fault["after"]))
    child = FRESH.Process(target=run, args=(TESTS[fault["claim"]], tmp_path))
    child.start()
    child.join(LONGEST)
    child.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # and whatever the faulty test has left at work
    told = (tmp_path / "told").read_text()
    if re.search(r"^\d+ skipped", told, re.M):
        pytest.skip(f"so is the test of the claim: {told.strip().splitlines()[-1]}")
    noticed = "1 failed" in told or "Fatal Python error" in told  # compiled code that a check was to keep from a file
    assert noticed, f"the test did not fail\n{told[-2000:]}"


def link_all_but(source: Path, beside: Path) -> None:
    """Link the sources, compiled ones among them, to where one file will stand as another: copies take their time."""
    while source != SOURCES:
        beside.parent.mkdir(parents=True, exist_ok=True)
        for entry in source.parent.iterdir():
            if entry != source:
                (beside.parent / entry.name).symlink_to(entry)
        source, beside = source.parent, beside.parent


def run(test: str, folder: Path) -> None:
    """Run a test on the sources in a folder."""
    assert "epsworth" not in sys.modules
    os.setsid()
    # byte code is known by the source's length and whole second: another fault's would be taken for this one's
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)  # of what the test starts itself
    os.environ["EPSWORTH_UNSHRUNK"] = "1"  # that it fails is all that is asked
    os.chdir(ROOT)
    with (folder / "told").open("w") as told:
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
        pytest.main(["-x", "-q", "-n0", *UNEXPLAINED, "-p", "no:cacheprovider", "-m", "", *LOADED, test])
        told.flush()
        os._exit(0)  # not waiting for what the test left running
