"""The study that docs/studies.md shows runs, and names every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from worlds import made

import epsworth as ew
from epsworth.study import FIELDS

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


@pytest.mark.slow
def test_the_documented_study_runs_and_lacks_no_field(cli, tmp_path, monkeypatch):
    (shown,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    made(tmp_path, shown, rows=24)
    monkeypatch.chdir(tmp_path)
    named = {line.removeprefix("# ").partition(" = ")[0].removeprefix("[").split(".")[0] for line in shown.split("\n")}
    assert set(FIELDS) <= named
    code, _, err = cli("run", "study.toml", "-o", "result.json", "--report", "page.html", "--policy", "policy.toml")
    assert (code, err) == (0, "")
    assert ew.StudyResult.load("result.json").recommendation.feasible
    assert ew.Policy.load("policy.toml").guarantee.epsilon <= 16
