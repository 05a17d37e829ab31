"""What is public, what may import what, and that documents tell the truth."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import epsworth as ew

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "epsworth").rglob("*.py"))


PARTS = ("", "learner", "mechanisms", "policy", "pac", "report", "exposure", "noise")


def test_every_public_name_has_a_page_of_its_own():
    """The site writes a page per name of these parts (``docs/conf.py``), out of its docstring."""
    assert {*filter(None, PARTS)} <= {*ew._PARTS}
    seen = 0
    for part in PARTS:
        module = importlib.import_module(f"epsworth.{part}".rstrip("."))
        for name in module.__all__:
            assert getattr(module, name).__doc__, name
            seen += 1
    assert seen > 150
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = ew.nope


def test_every_family_states_its_source():
    for name, kind in ew.MECHANISMS.items():
        assert kind.reference
        assert kind.title
        assert kind.__doc__
        assert f"`{name}`" in (ROOT / "docs" / "mechanisms.md").read_text()


@pytest.mark.slow
def test_imports_follow_the_path_of_the_data():
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


HEAVY = ("sklearn", "matplotlib", "polars", "pandas", "skops", "torch")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import epsworth, epsworth.cli", ("numpy", "scipy", "rich.console", *HEAVY)),
        ("import epsworth as ew; ew.stability; ew.MECHANISMS; ew.recommend", HEAVY),
        ("from epsworth import mechanisms; mechanisms.kernel('pm', 1)", ("cryptography", *HEAVY)),
        ("import epsworth as ew; ew.learner.Client", HEAVY),
    ],
)
@pytest.mark.slow
def test_importing_loads_nothing_heavy(code, absent):
    code = f"import sys; {code}; print([m for m in {absent} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_claims_name_functions_and_tests_that_exist():
    rows = re.findall(r"^- (.+?): `(.+?)`; `(.+)`$", (ROOT / "docs" / "claims.md").read_text(), re.M)
    assert len(rows) > 100
    for _, functions, tests in rows:
        for function in functions.split("`, `"):
            module, _, name = function.rpartition(".")
            owner = importlib.import_module(module) if not module.split(".")[-1][0].isupper() else None
            if owner is None:
                home, _, cls = module.rpartition(".")
                owner = getattr(importlib.import_module(home), cls)
            assert hasattr(owner, name), function
        for test in tests.split("`, `"):
            file, _, test_name = test.partition("::")
            assert f"def {test_name}(" in (ROOT / file).read_text(), test


def test_no_source_file_outgrows_a_head():
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= 700, path


def test_every_benchmark_is_a_part_that_the_command_runs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.__main__ import PARTS

    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("former_")}
    files -= {"__init__", "__main__", "memory", "timing"}
    assert set(PARTS) == files


def test_every_dependency_declares_its_oldest_version():
    """`.ci/full oldest` installs exactly those."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all(">=" in dependency for dependency in project["dependencies"])
