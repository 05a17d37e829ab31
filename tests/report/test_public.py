"""The word public on pages: where somebody declared it, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from made_documents import MAKERS, document
from made_pages import Read, curves, panels

import epsworth as ew
from epsworth.space import LeakWarning


def claims(page):
    """Return what a page says is public, but for what is denied or asked for."""
    content = re.sub(
        "<(script|style).*?</(script|style)>|<details class=.glossary.*?</details>", " ", page.html, flags=re.S
    )
    text = Read(content).text
    said = re.findall(r"[^.:;]*\bpublic\b[^.:;]*", text)
    return [
        one for one in said if not re.search(r"not declared public|must be public|unlike the public|on public", one)
    ]


@pytest.mark.parametrize("declared", [True, False])
def test_ranges_are_public_where_they_are_declared(declared):
    made = curves(4, 9, 40)
    page = ew.report.report(made, panels=replace(panels(made), declared=declared))
    said = claims(page)
    assert len(said) == declared
    assert all("Ranges, declared public" in one for one in said)
    assert ("Ranges, taken from the table, not declared public" in page.html) is not declared


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.cases(1)
def test_a_tailored_policys_records_are_public_where_they_are_declared(declared):
    X = np.random.default_rng(0).random((200, 2))
    asked = {"sensitive": [0, 1], "epsilon": 2, "rng": 0, "public": declared}
    if declared:
        made = ew.tailor(lambda rows: rows[:, 0] > 0.5, X, **asked)
    else:
        with pytest.warns(LeakWarning):
            made = ew.tailor(lambda rows: rows[:, 0] > 0.5, X, **asked)
    said = claims(ew.report.report(made))
    assert any("which were declared public" in one for one in said) is declared
    assert declared or said == []


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "privatize"])
def test_other_pages_claim_nothing_to_be_public(name):
    assert claims(ew.report.report(document(name))) == []


def test_a_policy_page_claims_nothing_to_be_public():
    assert claims(ew.report.report(ew.Policy.of("pm", 1, {"age": (0, 100)}))) == []
