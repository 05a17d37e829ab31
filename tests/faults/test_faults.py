"""A planted fault per claim: with one line of the source changed, the test that the claim names must fail.

The faults are data: every table of ``*.toml`` in this folder has a name, the ``claim`` that it breaks (the first cell
of its line in ``docs/claims.md``), the ``file`` under ``src/epsworth``, and what stands there ``before`` and ``after``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "epsworth"
LINE = re.compile(r"^\| (?!claim \||--- )(?P<claim>.+?) \| (.+?) \| `(.+?)` \| `(?P<test>.+?)` \|", re.M)
TESTS = {row["claim"]: row["test"] for row in LINE.finditer((ROOT / "docs" / "claims.md").read_text())}
FAULTS = {
    name: fault
    for path in sorted(Path(__file__).parent.glob("*.toml"))
    for name, fault in tomllib.loads(path.read_text()).items()
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_one_line_of_what_a_claim_rests_on(name):
    fault = FAULTS[name]
    assert fault["claim"] in TESTS
    assert "\n" not in fault["before"] + fault["after"]
    assert fault["before"] != fault["after"]
    found = (SOURCES / fault["file"]).read_text().count(fault["before"])
    assert found == 1, f"{fault['file']} holds {fault['before']!r} {found} times"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_test_of_the_claim_notices_the_fault(name, tmp_path):
    fault = FAULTS[name]
    shutil.copytree(SOURCES, tmp_path / "epsworth", ignore=shutil.ignore_patterns("__pycache__"))
    faulty = tmp_path / "epsworth" / fault["file"]
    faulty.write_text(faulty.read_text().replace(fault["before"], fault["after"]))
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        TESTS[fault["claim"]],
    ]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, f"{fault['claim']}: the test did not fail\n{done.stdout[-2000:]}{done.stderr[-500:]}"
