"""The examples of CONTRIBUTING.md work: files written, lines changed, tests passed, in a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = {
    title: re.findall(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```', text, re.M | re.S)
    for title, text in re.findall(r"^## (Add .+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
}


def changed(text: str, diff: str) -> str:
    """Apply one hunk: what stands there before occurs once."""
    lines = diff.splitlines()
    before, after = ("\n".join(line[1:] for line in lines if line[:1] != sign) for sign in "+-")
    assert text.count(before) == 1, before
    return text.replace(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("title", EXAMPLES)
def test_the_example_works(title, tmp_path):
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for page in ("pyproject.toml", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / page, tmp_path)
    ran = 0
    for kind, name, text in EXAMPLES[title]:
        if kind in ("python", "toml"):
            assert not (tmp_path / name).exists(), name
            (tmp_path / name).write_text(text)
        elif kind == "diff":
            (tmp_path / name).write_text(changed((tmp_path / name).read_text(), text))
        else:
            assert kind == "console"
            for command in text.splitlines():
                passes(command.split(), tmp_path)
                ran += 1
    assert ran


def passes(words: list[str], folder: Path) -> None:
    """Run pytest in the copy; something must run, and all must pass."""
    assert words.pop(0) == "pytest"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *words],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\d+ passed", done.stdout)
