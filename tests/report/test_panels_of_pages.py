"""What stands beside the curves: its numbers are the panels', on the safe side; others' are refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from made_pages import HOSTILE, Read, curves, panels, unknown_people
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.rounding import round_down, show_up
from epsworth.utility.panels import Grouping, Panels


def section(html, name):
    return re.search(rf'<section class="{name}[ "].*?</section>', html, re.S)[0]


def rows(html):
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd](?=[ >])[^>]*>(.*?)(?=<t[hd]|</t|$)", row, re.S)]
        for row in re.split(r"<tr", html)[1:]
    ]


def test_labels_of_the_map_are_counted_and_told_apart():
    made = curves(2, 9, 40)
    held = panels(made)
    html = section(ew.report.report(made, at_least=0.85, max_epsilon=40, panels=held).html, "mapped")
    told = {row[0].removesuffix(" (its own)"): row[1] for row in rows(html)[1:3]}
    for number, label in enumerate(held.map.labels):
        assert told[label] == f"{(held.map.cells == number).sum():,} of 4,096"
    assert html.count('class="hatch"') == 2  # the region and its swatch


def test_safe_ranges_are_rounded_inwards():
    made = curves(2, 9, 40)
    held = panels(made)
    html = section(ew.report.report(made, at_least=0.85, max_epsilon=40, panels=held).html, "safe")
    for row, low, high, own in zip(rows(html)[1:], held.box.lower, held.box.upper, held.values, strict=True):
        first, last = map(float, re.fullmatch(r"(\S+) to (\S+)", row[2]).groups())
        assert low <= first <= own <= last <= high
    assert f"{round_down(100 * held.box.guaranteed, 1):.1f}\u00a0%" in html


def test_the_split_is_the_splits():
    made = curves(2, 9, 40)
    held = panels(made)
    html = section(ew.report.report(made, at_least=0.85, max_epsilon=40, panels=held).html, "split")
    cells = [row[:3] for row in rows(html)]
    assert cells[1:3] == [["age", "2", "3"], ["bmi", "2", "1"]]
    assert cells[4:] == [["even", "70.1\u00a0%", "70.3\u00a0%"], ["split", "75.2\u00a0%", "75.4\u00a0%"]]
    assert "on average over 20 of these records" in html
    assert "better than the even split" in html


@pytest.mark.parametrize("of", ["stability", "accuracy"])
def test_groups_are_those_of_the_curves_at_the_recommendation(of):
    made = curves(3, 9, 40, accuracy=True)
    choice = ew.recommend(made, at_least=0.7, max_epsilon=40, of=of).choice
    m, e = made.mechanisms.index(choice.mechanism), made.epsilons.tolist().index(choice.epsilon)
    html = section(
        ew.report.report(made, at_least=0.7, max_epsilon=40, of=of, panels=panels(made, point=(m, e))).html,
        "groups",
    )
    lower = made.bounds(of).lower[m, e]
    truth = {}
    for label in ("no", "yes"):
        truth[f"label: {label}"] = lower[made.labels == label]
    for number, value in enumerate(("f", "m")):
        truth[f"sex: {value}"] = lower[np.arange(40) % 2 == number]
    shown = [row for row in rows(html) if len(row) >= 4 and row[0] in truth]
    assert len(shown) == 4
    for name, count, average, worst, *_ in shown:
        assert count == str(len(truth[name]))
        assert worst == f"{100 * round_down(truth[name].min()):.1f}\u00a0%"
        told = float(average.removesuffix("\u00a0%")) / 100
        assert told <= truth[name].mean() < told + 0.00101
    averages = [float(row[2].removesuffix("\u00a0%")) for row in shown]
    assert averages == sorted(averages)


def test_groups_of_another_point_are_not_shown_as_if_they_were_of_this_one():
    made = curves(3, 9, 40)
    html = section(
        ew.report.report(made, at_least=0.7, max_epsilon=40, panels=panels(made, point=(1, 8))).html, "groups"
    )
    told = html.replace("<bdi>", "").replace("</bdi>", "")
    assert "sex: " not in told
    assert "label: yes" in told
    assert (
        "By sex groups were computed at mechanism1 at ε\u00a0=\u00a016 per record alone, and are not shown here."
        in told
    )


def test_plain_curves_have_no_such_sections_but_groups_by_label():
    html = ew.report.report(curves(3, 9, 40)).html
    for name in ("mapped", "safe", "split"):
        assert f'<section class="{name}' not in html
    assert rows(section(html, "groups"))[1][0] in ("label: no", "label: yes")
    assert "policy" not in Read(html).numbers


def test_the_policy_is_that_of_the_recommendation():
    made = curves(2, 9, 40, names=["pm", "sw"])
    held = panels(made)
    read = Read(ew.report.report(made, at_least=0.85, max_epsilon=40, panels=held).html)
    policy = ew.Policy.from_toml(read.numbers["policy"])
    found = ew.recommend(made, at_least=0.85, max_epsilon=40)
    assert policy == found.policy(held.domain)
    assert policy.fingerprint in read.text
    for lacking in (replace(held, domain=None), replace(held, declared=False)):
        read = Read(ew.report.report(made, at_least=0.85, max_epsilon=40, panels=lacking).html)
        assert "policy" not in read.numbers
    assert "policy" not in Read(ew.report.report(made, at_least=0.9995, max_epsilon=40, panels=held).html).numbers


def test_what_a_document_declares_is_on_its_page_without_panels():
    made = curves(2, 9, 40, names=["pm", "sw"])
    declared = ew.Domain.of({"age": (0, 100), "bmi": (0, 100), "sex": ["f", "m"]})
    document = made.to_dict() | {"domain": declared.to_dict()}
    read = Read(ew.report.report(document, at_least=0.85, max_epsilon=40).html)
    found = ew.recommend(made, at_least=0.85, max_epsilon=40)
    assert ew.Policy.from_toml(read.numbers["policy"]) == found.policy(declared)
    assert "Ranges, declared public age  0 to 100,  bmi  0 to 100 " in read.text
    other = made.to_dict() | {"domain": ew.Domain.of({"age": (0, 100)}).to_dict()}
    assert "policy" not in Read(ew.report.report(other, at_least=0.85, max_epsilon=40).html).numbers


def test_hostile_panels_stay_text():
    made = curves(2, 5, 30, features=(HOSTILE, "b"), labels=(HOSTILE.replace("\ud800", ""), "<b>"))
    held = panels(made)
    choice = ew.recommend(made, at_least=0.9, max_epsilon=40).choice
    held = replace(
        held, mechanism=choice.mechanism, epsilon_per_record=choice.guarantee.epsilon, model=HOSTILE,
        notes=(HOSTILE,) * 20,
        groups=(Grouping(HOSTILE, "stability", (HOSTILE, "<i>"), (15, 15), (0.5, 0.5), (0.5, 0.5)),),
    )  # fmt: skip
    html = ew.report.report(made, panels=held).html
    assert html.count("<script") == 2 + ('id="whole"' in html)
    assert "<b>" not in html
    assert "<i>" not in html
    assert "alert(1)</script>" not in html


@pytest.mark.slow
def test_ten_thousand_records_with_panels_fit():
    from epsworth.report.page import Source
    from epsworth.report.result import _of_curves

    for accuracy in (False, True):
        made = curves(6, 100, 10_000, accuracy=accuracy)
        choice = ew.recommend(made, at_least=0.9, max_epsilon=40).choice
        held = panels(
            made, point=(made.mechanisms.index(choice.mechanism), made.epsilons.tolist().index(choice.epsilon))
        )
        noisy = np.random.default_rng(0).integers(0, 2, (64, 64))
        held = replace(held, map=replace(held.map, cells=noisy))
        page = _of_curves(made, {}, Source(b"{}"), {"population": unknown_people(made)}, held)
        print(page)
        assert len(page.html.encode()) <= 250_000


@pytest.mark.slow
def test_commands_keep_panels_beside_curves(cli, tmp_path, monkeypatch):
    skops_io = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.integers(0, 100, 40), "bmi": rng.uniform(10, 60, 40).round(1)})
    truth = frame["age"].to_numpy() > 50
    skops_io.dump(DecisionTreeClassifier(max_depth=2).fit(frame.to_numpy(), truth.astype(int)), "model.skops")
    ew.Domain.of({"age": (0, 100), "bmi": (10, 60)}).save("ranges.toml")
    asked = (
        "model.skops",
        "people.csv",
        "-s",
        "age,bmi",
        "--domain",
        "ranges.toml",
        "-m",
        "pm",
        "-e",
        "2:16:1",
        "--seed",
        "1",
    )
    frame.write_csv("people.csv")
    for words in (("utility",), ("recommend", "--max-epsilon", "16")):
        code, _, err = cli(*words, *asked, "--json", "a.json", "--report", "a.html")
        assert code == 0, err
        document = json.loads((tmp_path / "a.json").read_text())
        held = Panels.from_dict(document["panels"])
        assert held.map is not None
        assert held.seed == 1
        assert cli("report", "a.json", "-o", "b.html")[0] == 0
        one, other = (Read((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
        assert one.numbers == other.numbers
        for name in ("model.skops", "people.csv"):
            digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
            assert f"{name}, SHA-256 {digest}" in one.text
        assert f"numpy {np.__version__}" in one.text
        assert "numpy" not in other.text  # a file does not say what computed it
        if words[0] == "recommend":  # the other page accepts epsilon 4 at most, where nothing is enough
            assert "Policy" in repr(ew.Policy.from_toml(one.numbers["policy"]))
    code, _, _ = cli("utility", *asked, "--json", "c.json")
    assert "panels" not in json.loads((tmp_path / "c.json").read_text())


def test_the_page_says_what_its_result_holds():
    made = curves(2, 9, 40)
    plain = Read(ew.report.report(made).html).text
    assert "The result holds every record's bounds and label." in plain
    read = Read(ew.report.report(made, panels=panels(made)).html).text
    assert (
        "of record 3 its values of what is perturbed and the labels around it; of groups of records counts and" in read
    )


def test_a_better_split_is_refused_in_the_decision_with_its_reason():
    """And only where it is of the mechanism and the epsilon that are decided on, of the average."""
    made = curves(4, 9, 40)
    held = panels(made)
    best = ew.recommend(made, at_least=0.5).choice
    here = replace(held.split, mechanism=best.mechanism, total=best.guarantee.epsilon)

    def decided(split, **asked):
        html = ew.report.report(made, panels=replace(held, split=split), **{"at_least": 0.5, **asked}).html
        return Read(re.search('<section class="decision.*?</section>', html, re.S)[0]).text

    text = decided(here)
    assert "at least 75.2\u00a0%, in place of 70.1\u00a0%" in text
    assert "not declared public" in text
    assert "in place of" not in decided(replace(here, lower=0.7, upper=0.7))
    assert "in place of" not in decided(replace(here, total=2 * here.total))
    assert "in place of" not in decided(here, on="worst")


def test_a_page_that_nobody_asked_for_a_share_says_what_keeps_most():
    """No target, no colour of a verdict and no policy; the panels are about the very point that the page opens with."""
    made = curves(4, 9, 40)
    html = ew.report.report(made).html
    assert '<main class="interactive unasked">' in html
    closest = ew.recommend(made, at_least=1.0).closest
    text = Read(re.search('<section class="decision"[ >].*?</section>', html, re.S)[0]).text
    assert f"At ε\u00a0=\u00a0{show_up(closest.guarantee.epsilon)} per record {closest.mechanism} keeps most:" in text
    assert "asked for" not in text
    assert "unasked" not in re.search("<main.*?>", ew.report.report(made, at_least=0.9).html)[0]
    assert "mechanism0 keeps so much:" in Read(ew.report.report(curves(1, 9, 40)).html).text  # of one there is no most
