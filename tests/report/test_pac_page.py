"""The PAC page: every number is the report's, on the safe side, and nothing on it is a function of the secret."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest
from made_documents import a_unit, document, privatizer
from made_pages import Read
from test_noise_page import number, rows_of, said, walk

from epsworth.pac.conversion import posterior
from epsworth.pac.release import noise_summary
from epsworth.report import report
from epsworth.report.text import PRIORS


@pytest.mark.slow
def test_every_number_is_the_reports_on_the_safe_side():
    made = document("privatize")
    page, released = report(made), made["report"]
    known = [Decimal(repr(posterior(released["mi_nats"], prior / 100))) for prior in range(1, 100)]
    walk(page, made, known)
    asked = rows_of(page, "success before and at most after")
    wanted = [
        (released["largest_record_prior"], released["posterior_of_membership"]),
        (released["prior_of_naming_the_world"], released["posterior_of_naming_the_world"]),
        (0.001, released["tpr_at_fpr_0.001"]),
    ]
    for (_, before, after), (blind, most) in zip(asked, wanted, strict=True):
        for shown, truth in ((before, blind), (after, most)):
            assert Decimal(repr(truth)) * 100 <= Decimal(shown.removesuffix("\u00a0%"))
            assert Decimal(shown.removesuffix("\u00a0%")) < Decimal(repr(truth)) * 100 + a_unit(100 * truth)
    for row, own in zip(rows_of(page, "Table of the noise by budget"), made["noise"]["by_budget"], strict=True):
        assert number(row[0]) >= own["nats"]
        assert number(row[1]) >= 100 * own["posterior_of_membership"] - 1e-9
    worst = sorted(range(40), key=lambda row: -made["audit"]["upper"][row])[:5]
    for row, own in zip(rows_of(page, "the most exposed rows"), worst, strict=True):
        assert row[0] == str(own)
        assert number(row[1]) >= 100 * made["audit"]["upper"][own] - 1e-9


@pytest.mark.slow
def test_the_slider_tells_what_the_nats_allow():
    made = document("privatize")
    released = made["report"]
    texts = Read(report(made).html).numbers["sliders"]["prior"]["says"]["observer"]
    for prior, text in zip(PRIORS, texts, strict=True):
        sure = "with certainty" in text
        told = 100.0 if sure else number(text.split("at most ")[1].split(" after")[0])
        allowed = (
            posterior(made["report"]["mi_nats"], prior / 100) if prior != 50 else released["posterior_at_prior_0.5"]
        )
        assert told >= 100 * allowed - 1e-9


def test_nothing_told_is_an_output_of_a_world_or_tells_the_secret():
    """Before the noise, outputs are what the promise hides: none of them is on the page or in its JSON."""
    made = privatizer()
    told = noise_summary(made)
    assert noise_summary(made) == told  # no draw of the secret, none of the noise: a function of the plan alone
    text, page = json.dumps(document("privatize")), said(report(document("privatize")))
    for value in np.concatenate([made.trials_.outputs.ravel(), made.plan_.frame.centre]).tolist():
        assert repr(value) not in text
        assert repr(value)[:8] not in page
    assert set(told) == {"numbers", "by_budget"}
    assert {name for one in told["numbers"] for name in one} == {"name", "sd", "sd_of_worlds"}


def test_the_noise_told_is_the_noise_drawn():
    made = privatizer()
    worlds, vectors = made.simulated_releases(20_000, rng=1)
    drawn = (vectors - made.trials_.outputs[worlds]).std(axis=0)
    told = noise_summary(made)["numbers"]
    assert [one["sd"] for one in told] == pytest.approx(drawn.tolist(), rel=0.05)
    assert [one["sd_of_worlds"] for one in told] == pytest.approx(made.trials_.outputs.std(axis=0).tolist(), rel=0.01)
    sizes = [one["sd"] for one in noise_summary(made)["by_budget"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_page_with_an_audit_says_that_it_is_not_private():
    made = document("privatize")
    assert "is computed from the whole pool and is not private" in Read(report(made).html).text
    del made["audit"]
    page = report(made)
    assert "most exposed" not in Read(page.html).text
    assert "not private:" not in page.html


def test_releases_about_one_secret_promise_nothing_by_the_nats_of_the_last():
    made = document("privatize")
    made["report"]["posterior_at_prior_0.5"] = 0.9
    assert "prior" not in Read(report(made).html).numbers["sliders"]


def test_files_of_before_have_a_page():
    made = document("privatize")
    del made["noise"]
    assert "noise by budget" not in report(made).html


@pytest.mark.slow
def test_the_command_writes_the_page_of_its_json(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).uniform(size=(30, 2))
    (tmp_path / "a.csv").write_text("age,bmi\n" + "\n".join(f"{a},{b}" for a, b in rows))
    words = ("mean", "a.csv", "--mi", "1/8", "--worlds", "64", "--json", "a.json", "--report", "a.html")
    assert cli("privatize", *words)[0] == 0
    assert cli("report", "a.json", "-o", "b.html")[0] == 0
    one, two = (Read((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert one.ids["sentence"] == two.ids["sentence"]
    assert one.numbers == two.numbers


def test_the_page_names_what_it_tells_of_the_pool():
    made = {name: one for name, one in document("privatize").items() if name != "audit"}
    text = Read(report(made).html).text
    assert "sub-sampling alone, about ±" in text
    assert "The noise that other budgets would have taken" in text
    assert (
        "This page holds what was released, and of the pool the scale of its noise, the spread of sub-sampling alone "
        "and the noise that other budgets would have taken, which the promise admits."
    ) in text
    bare = Read(report({name: one for name, one in made.items() if name != "noise"}).html).text
    assert "This page holds what was released." in bare
