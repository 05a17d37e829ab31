"""The page of a policy alone and that of a tailored one: promises rounded to the safe side."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from made_documents import a_unit
from made_pages import HOSTILE, Read
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.guarantees import ceiling
from epsworth.policy.analysis import Released
from epsworth.report.policies import document_of
from epsworth.report.text import PRIORS, observed, share_up
from epsworth.rounding import show_up

DOMAIN = ew.Domain.of({"age": (0, 120), "bmi": {"lower": 10, "upper": 60, "points": 21}, "sex": ["f", "m", "x"]})
POLICIES = {
    "pm": lambda: ew.Policy.of("pm", "1.5", DOMAIN, per="feature"),
    "krr": lambda: ew.Policy.of("krr:k=9", "0.7", DOMAIN, per="feature", sample=2),
    "gaussian": lambda: ew.Policy.of("gaussian_clipped:delta=1e-5", "2", ew.Domain.of({"age": (0, 120)})),
    "hostile": lambda: ew.Policy.of(
        "pm", "1", ew.Domain.of({"</script><b>{prior}": (0, 1), "c": ["<i>", "'\"&"]}), per="feature"
    ),
}


def rows(html, name):
    found = re.search(rf'<section class="{name}[ "].*?</section>', html, re.S)[0]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd](?=[ >])[^>]*>(.*?)(?=<t[hd]|</t|$)", row, re.S)]
        for row in re.split(r"<tr", found)[1:]
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_a_policys_promise_is_never_understated(name):
    policy = POLICIES[name]()
    html = ew.report.report(policy).html
    read, promise = Read(html), policy.guarantee
    assert read.ids["fact-total"] == show_up(promise.epsilon)
    assert f"at most ε\u00a0=\u00a0{show_up(promise.epsilon)}" in read.ids["sentence"]
    assert ("δ\u00a0=\u00a0" in read.ids["sentence"]) == bool(promise.delta)
    for prior, said in zip(PRIORS, read.numbers["sliders"]["prior"]["says"]["observer"], strict=True):
        after = observed(promise.epsilon, promise.delta, prior / 100)
        assert share_up(after) in said or "certain that" in said
    for labels, kept in rows(html, "ceilings")[1:]:
        told = Decimal(kept.removesuffix("\u00a0%"))
        truth = 100 * Decimal(repr(ceiling(promise.epsilon, int(labels), promise.delta)))
        assert truth <= told < truth + a_unit(float(truth))
    listed = rows(html, "rules")[1:]
    assert [row[3] for row in listed] == [rule.promise for rule in policy.rules]
    assert [int(row[4].replace(",", "")) for row in listed] == [r.points or r.kernel.points for r in policy.rules]
    assert policy.fingerprint in read.text
    assert ew.Policy.from_toml(read.numbers["policy"]) == policy
    assert html.count("<script") == 2
    assert "<i>" not in html
    assert len(html.encode()) <= 250_000


def test_what_is_sent_is_the_integers_law():
    policy = POLICIES["pm"]()
    html = ew.report.report(policy).html
    table = [row for row in rows(html, "sent") if " to " in row[0]][:40]
    laws = Released.of(policy.rules[0]).law(np.array([0.0, 0.5, 1.0]))
    masses = laws.cell_masses(np.linspace(0, 1, 41))
    for row, truth in zip(table, masses.T, strict=True):
        shown = [float(cell.removesuffix("\u00a0%")) / 100 for cell in row[1:]]
        assert shown == pytest.approx(truth, rel=1e-3)
    stays = float(next(row for row in rows(html, "sent") if row[0] == "the true one")[1].removesuffix("\u00a0%"))
    assert stays / 100 == pytest.approx(np.exp(1.5) / (np.exp(1.5) + 2), rel=1e-3)


@pytest.mark.slow
def test_the_command_reads_policies(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    POLICIES["pm"]().save("p.toml")
    code, out, _ = cli("report", "p.toml", "-o", "p.html")
    assert (code, out) == (0, "Page: p.html\n")
    assert Read((tmp_path / "p.html").read_text()).ids["fact-total"] == "4.5"
    (tmp_path / "bad.toml").write_text((tmp_path / "p.toml").read_text().replace("1.5", "1.6", 1))
    for words, said in (
        (("bad.toml", "-o", "b.html"), "bad.toml"),
        (("p.toml", "-o", "b.html", "--at-least", "0.8"), "nothing is asked of this result"),
        (("p.toml", "-o", "p.toml"), "is the result itself|names the same file|a page ends in .html"),
    ):
        code, _, err = cli("report", *words)
        assert code == 2
        assert re.search(said, err)
    assert not (tmp_path / "b.html").exists()


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.integers(0, 100, 200), "bmi": rng.uniform(10, 60, 200).round(1)})
    truth = np.where(frame["age"].to_numpy() > 50, "old", "young")
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame.to_pandas(), truth)
    found = ew.tailor(
        model, frame, sensitive=["age", "bmi"], epsilon="2", domain={"age": (0, 120), "bmi": (0, 80)}, public=True,
        rng=0,
    )  # fmt: skip
    return found, found.stability([0.5, 1, 2, 4], frame[found.rows.tolist()])


def test_what_a_tailored_policy_keeps_is_rounded_to_the_safe_side(made):
    found, _ = made
    html = ew.report.report(found).html
    read, told = Read(html), {row[0]: row[1] for row in rows(html, "kept")[1:]}
    truths = {
        "labels kept, on held-out records": (found.kept, "down"),
        "labels kept, where every label counts alike": (found.balanced, "down"),
        "labels kept of people like those in the table, at least": (found.held_out.lower, "down"),
        "labels kept of people like those in the table, at most": (found.held_out.upper, "up"),
        "held-out records whose label the copy finds": (found.agreement, "down"),
        "records that send the same whatever their values are": (found.constant, "up"),
        "ceiling: what no mechanism exceeds for the worst input": (found.ceiling, "up"),
    }
    for name, (truth, side) in truths.items():
        shown = float(told[name].removesuffix("\u00a0%")) / 100
        assert abs(shown - truth) <= 1e-3
        assert shown <= truth + 1e-15 if side == "down" else shown >= truth - 1e-15
    assert read.ids["fact-kept"] == told["labels kept, on held-out records"]
    assert told["labels kept of people like those in the table, at least"] in read.ids["sentence"]
    assert ew.Policy.from_toml(read.numbers["policy"]).fingerprint == found.policy.fingerprint
    assert all(note in read.text for note in found.notes)
    document = document_of(found)
    assert Read(ew.report.report(document).html).numbers["policy"] == document["policy"]
    for damage in ({"policy": "x"}, {"policy": 3}):
        with pytest.raises(ValueError, match=r"^policy|damaged or incomplete"):
            ew.report.report(document | damage)


def test_results_without_the_policy_have_the_page_without_it(made, tmp_path):
    found, curves = made
    document = json.loads(json.dumps({"tailored": found.to_dict(), "curves": curves.to_dict()}))
    (tmp_path / "t.json").write_text(json.dumps(document))
    html = ew.report.report(tmp_path / "t.json").html
    assert "policy" not in Read(html).numbers
    table = rows(html, "curves")[1:]
    for row, e in zip(table, range(4), strict=True):
        low, high = (float(part.removesuffix("\u00a0%")) / 100 for part in row[1].split(" to "))
        assert low <= curves.average().lower[0, e] + 1e-15
        assert high >= curves.average().upper[0, e] - 1e-15
    for damage in ({"kept": "x"}, {"notes": 3}, {"records": "many"}):
        (tmp_path / "t.json").write_text(json.dumps({"tailored": document["tailored"] | damage}))
        with pytest.raises(ValueError, match="damaged or incomplete"):
            ew.report.report(tmp_path / "t.json")
    hostile = document["tailored"] | {"sensitive": [HOSTILE.replace("\ud800", "")], "notes": ["<b>"], "copied": "<i>"}
    (tmp_path / "t.json").write_text(json.dumps({"tailored": hostile}))
    html = ew.report.report(tmp_path / "t.json").html
    assert "<b>" not in html
    assert "<i>" not in html


def test_tailor_writes_its_page(cli, tmp_path, monkeypatch):
    skops_io = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.integers(0, 100, 80), "bmi": rng.uniform(10, 60, 80).round(1)})
    skops_io.dump(DecisionTreeClassifier(max_depth=2).fit(frame.to_numpy(), frame["age"].to_numpy() > 50), "m.skops")
    frame.write_csv("t.csv")
    asked = ("tailor", "m.skops", "t.csv", "-s", "age", "-e", "2", "--public", "--seed", "0", "--policy", "p.toml")
    code, _, err = cli(*asked, "--report", "t.html")
    assert code == 0, err
    read = Read((tmp_path / "t.html").read_text())
    assert ew.Policy.from_toml(read.numbers["policy"]) == ew.Policy.load(tmp_path / "p.toml")
    assert "epsworth tailor m.skops" in read.text


@pytest.mark.parametrize(("epsilon", "good"), [(4, True), (4.01, False), (12, False)])
def test_a_policy_is_green_only_where_a_recommendation_would_accept_it(epsilon, good):
    page = ew.report.report(ew.Policy.of("pm", epsilon, {"age": (0, 100)})).html
    assert ('class="decision no"' not in page) is good
