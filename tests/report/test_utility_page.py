"""The utility page before its script runs: every number is the result's, on the safe side; every refusal a sentence."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_pages import Read, curves, table

import epsworth as ew
from epsworth.report.curves_view import SHARES, CurvesView
from epsworth.report.text import PRIORS, fill, observed, percent, share_up, units, without_folders
from epsworth.rounding import round_down, round_up, show_up
from epsworth.utility.quantities import Bounds

CASES = {
    "few": (
        {"mechanisms": 4, "epsilons": 9, "records": 40, "accuracy": True, "weak": True},
        {"at_least": 0.85, "max_epsilon": 40},
    ),
    "many": ({"mechanisms": 7, "epsilons": 30, "records": 25}, {"at_least": 0.9}),
    "worst": ({"mechanisms": 3, "epsilons": 8, "records": 60}, {"at_least": 0.8, "on": "worst", "max_epsilon": 40}),
    "right": ({"mechanisms": 3, "epsilons": 8, "records": 60, "accuracy": True}, {"at_least": 0.7, "of": "accuracy"}),
    "record": ({"mechanisms": 3, "epsilons": 8, "records": 60}, {"at_least": 0.8, "on": 17}),
    "never": ({"mechanisms": 3, "epsilons": 8, "records": 60}, {"at_least": 0.9995}),
    "alone": ({"mechanisms": 1, "epsilons": 1, "records": 1}, {"at_least": 0.5, "on": "worst"}),
}


@given(st.floats(0, 1), st.integers(3, 9))
def test_units_are_rounded_to_the_safe_side(value, digits):
    low, high = (units(np.array([value]), digits, upwards=up)[0] for up in (False, True))
    shown = Fraction(repr(value))
    assert Fraction(low, 10**digits) <= shown <= Fraction(high, 10**digits)
    assert high - low <= 1
    assert Decimal(low).scaleb(-digits) == Decimal(repr(round_down(value, digits)))
    assert Decimal(high).scaleb(-digits) == Decimal(repr(round_up(value, digits)))
    assert percent(low, digits) == f"{Decimal(low).scaleb(2 - digits):f}\u00a0%"


@given(st.floats(0.001, 30), st.floats(0, 0.2), st.integers(1, 99))
def test_an_observer_is_never_said_to_know_less(total, delta, prior):
    """In exact arithmetic, and against every test of a grid: what an observer may do."""
    from mpmath import mp, mpf

    mp.dps = 40
    p, fade = mpf(prior) / 100, mp.exp(-mpf(total))
    told = mpf(observed(total, delta, prior / 100))
    if delta == 0:
        truth = p / (p + (1 - p) * fade)
        assert truth <= told <= truth * (1 + mpf(10) ** -12)
    else:
        grown, slack = mp.exp(mpf(total)), mpf(delta)
        for a in (mpf(i) / 20 for i in range(21)):  # says "first" so often under the first value
            other = min(1, grown * (1 - a) + slack)  # and "second" so often under the second
            if a <= grown * (1 - other) + slack:
                assert p * a + (1 - p) * other <= told
            else:
                assert p * a + (1 - p) * (1 - (a - slack) / grown) <= told
    printed = Fraction(share_up(float(told)).removesuffix("\u00a0%"))
    assert printed == 100 or printed >= 100 * Fraction(float(told))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.cases(1)
def test_every_number_is_the_results_rounded_to_the_safe_side(name):
    given_curves, asked = CASES[name]
    made = curves(**given_curves)
    page = ew.report.report(made, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ew.LeakWarning)  # the page says it instead
        found = ew.recommend(made, **asked)
    read, numbers = Read(page.html), Read(page.html).numbers
    scale = 10 ** numbers["digits"]
    for view in numbers["views"]:
        on = "average" if view["average"] else "worst" if view["worst"] else asked["on"]
        lower, upper = made.select(on, view["of"])
        for side, truth, toward in (("lower", lower, round_down), ("upper", upper, round_up)):
            wanted = [[toward(float(v), numbers["digits"]) for v in row] for row in truth]
            assert [[v / scale for v in row] for row in view[side]] == wanted
    for of, people in numbers["population"].items():
        truth = made.population(of)
        assert (np.array(people["lower"]) / scale <= truth.lower).all()
        assert (np.array(people["upper"]) / scale >= truth.upper).all()
    for of, shares in numbers["shares"].items():
        kept = made.bounds(of).lower
        for share, whole in zip(SHARES, shares, strict=True):
            reached = (kept >= np.array(whole)[:, :, None] / scale).mean(axis=2)
            assert (reached >= share / 100).all()
            assert (kept > (np.array(whole)[:, :, None] + 1) / scale).mean(axis=2).max() < 1
    for m, row in enumerate(made.guarantees):
        told = [numbers["promises"][at] for at in numbers["promised"][m]]
        assert [(one["epsilon"], one["delta"]) for one in told] == [(one.epsilon, one.delta) for one in row]
        for one in told:
            assert float(one["shown"]) >= one["epsilon"]
            afters = [observed(one["epsilon"], one["delta"], prior / 100) for prior in PRIORS]
            assert one["after"] == [share_up(after) for after in afters]
    sentence = read.ids["sentence"]
    if found.choice is not None:
        assert sentence.startswith(f"Use {found.choice.mechanism}")
        assert f"at ε\u00a0=\u00a0{show_up(found.choice.guarantee.epsilon)} per record" in sentence
        assert f"at least {100 * round_down(found.choice.lower):.1f}\u00a0%" in sentence
    else:
        assert found.max_epsilon == 4
        target = percent(numbers["target"], numbers["digits"])
        assert sentence.startswith(f"No: nothing in this report at ε\u00a0≤\u00a04 is guaranteed to reach {target}")
    shown = {float(one) for one in re.findall(r"(\d+\.\d+)\u00a0%", sentence)}
    known = {v / scale * 100 for view in numbers["views"] for row in view["lower"] for v in row}
    assert all(any(abs(one - k) < 1e-9 for k in known) for one in shown - {100 * asked["at_least"], 99.9})


@pytest.mark.parametrize("name", [name for name in CASES if name != "record"])
@pytest.mark.cases(1)
def test_what_the_script_looks_up_is_what_the_library_recommends(name):
    given_curves, asked = CASES[name]
    made = curves(**given_curves)
    numbers = Read(ew.report.report(made, **asked).html).numbers
    for view in numbers["views"]:
        wish = asked | {"on": "average" if view["average"] else "worst", "of": view["of"]}
        for at in range(0, len(numbers["targets"]), 7):
            found = ew.recommend(made, **wish | {"at_least": numbers["targets"][at] / 10 ** numbers["digits"]})
            point = view["chosen"][at]
            assert (point is None) == (found.choice is None)
            if point is not None:
                assert made.mechanisms[point[0]] == found.choice.mechanism
                promise = numbers["promises"][numbers["promised"][point[0]][point[1]]]
                assert promise["epsilon"] == found.choice.guarantee.epsilon
        for stop, point in zip(numbers["stops"], view["best"], strict=True):
            inside = [
                view["lower"][m][numbers["at"][numbers["stops"].index(stop)][m]] for m in range(len(made.mechanisms))
                if numbers["at"][numbers["stops"].index(stop)][m] is not None
            ]  # fmt: skip
            assert view["lower"][point[0]][point[1]] == max(inside)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.cases(1)
def test_tables_hold_the_results_numbers(name):
    given_curves, asked = CASES[name]
    made = curves(**given_curves)
    html = ew.report.report(made, **asked).html
    on, of = asked.get("on", "average"), asked.get("of", "stability")
    digits = Read(html).numbers["digits"]
    lower, upper = made.select(on, of)
    low, high = units(lower, digits, upwards=False), units(upper, digits, upwards=True)
    total = float(Read(html).ids["fact-total"])
    rows = table(html, "now")[1:]
    assert len(rows) == len(made.mechanisms)
    for m, row in enumerate(rows):
        e = max(e for e, promise in enumerate(made.guarantees[m]) if float(show_up(promise.epsilon)) <= total)
        assert row[2:4] == [percent(low[m][e], digits), percent(high[m][e], digits)]
    heads, *body = table(html, "data")
    assert len(heads) == 1 + len(made.mechanisms)
    for e, row in enumerate(body):
        wanted = [f"{percent(low[m][e], digits)[:-2]}–{percent(high[m][e], digits)[:-2]}" for m in range(len(rows))]
        assert row == [show_up(made.epsilons[e]), *wanted]


@pytest.mark.slow
def test_epsilons_that_do_not_fit_are_left_out_and_said_so():
    made = curves(6, 400, 20)
    page = ew.report.report(made, at_least=0.87, max_epsilon=40)
    read = Read(page.html)
    shown = {one["epsilon"] for one in read.numbers["promises"]}
    kept = len(shown)
    assert f"{kept} of 400 epsilons are shown." in read.text
    assert kept in (120, 121)
    choice = ew.recommend(made, at_least=0.87, max_epsilon=40).choice
    assert choice.guarantee.epsilon in shown
    assert f"ε\u00a0=\u00a0{show_up(choice.guarantee.epsilon)} per record" in read.ids["sentence"]


def test_what_was_saved_has_the_page_of_what_was_computed(tmp_path):
    made = curves(3, 8, 30, weak=True)
    made.save(tmp_path / "curves.json")
    saved = ew.report.report(tmp_path / "curves.json", at_least=0.85)
    assert saved.html == ew.report.report(made, at_least=0.85).html
    found = ew.recommend(made, at_least=0.85, on="worst", delta=0, max_epsilon=40)
    document = {"recommendation": found.to_dict(), "curves": made.to_dict()}
    (tmp_path / "both.json").write_text(json.dumps(document))
    read = Read(ew.report.report(tmp_path / "both.json").html)
    assert read.ids["sentence"].startswith(f"Use {found.choice.mechanism} at ε\u00a0=\u00a0")
    assert "even for the worst of these 30 records" in read.ids["sentence"]
    del document["recommendation"]["at_most_sure"]
    (tmp_path / "both.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="'at_most_sure' is missing"):
        ew.report.report(tmp_path / "both.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "holds no result that has a page: a policy has one, and what epsworth run -o or --json of recommend, "),
        ("[1, 2]", "holds no result that has a page"),
        ("no json", "result file .*: holds no JSON"),
        ('{"format": "epsworth-curves-1"}', "damaged or incomplete"),
        ('{"recommendation": {}, "curves": {}}', "holds no result that has a page"),
        ("[" * 100_000, "nested more than"),
    ],
)
@pytest.mark.cases(1)
def test_what_is_no_result_is_refused_in_one_sentence(cli, tmp_path, content, said):
    (tmp_path / "a.json").write_text(content)
    code, out, err = cli("report", str(tmp_path / "a.json"), "-o", str(tmp_path / "page.html"))
    assert (code, out) == (2, "")
    assert re.search(said, err)
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json"]


@pytest.mark.slow
def test_the_command_writes_a_page_whole_or_not_at_all(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    curves(3, 5, 30).save("a.json")
    code, out, _ = cli("report", "a.json", "-o", "page.html", "--at-least", "0.8", "--on", "worst")
    assert (code, out) == (0, "Page: page.html\n")
    assert "even for the worst" in Read((tmp_path / "page.html").read_text()).ids["sentence"]
    for words, said in (
        (("a.json", "-o", "a.json"), "is the result itself"),
        (("a.json", "-o", "a.txt"), "a page ends in .html"),
        (("a.json", "-o", "no/a.html"), "does not exist"),
        (("none.json", "-o", "b.html"), "cannot read the result file none.json"),
        (("a.json", "-o", "b.html", "--at-least", "2"), "--at-least must lie in"),
        (("a.json", "-o", "b.html", "--of", "accuracy"), "hold no accuracy"),
        (("a.json", "-o", "b.html", "--on", "30"), "there is no record 30"),
    ):
        code, _, err = cli("report", *words)
        assert code == 2
        assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "page.html"]


@pytest.mark.slow
def test_commands_that_make_results_write_their_page(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    curves(3, 5, 30).save("a.json")
    asked = ("recommend", "a.json", "--at-least", "0.85", "--max-epsilon", "8")
    code, _, _ = cli(*asked, "--report", "a.html", "--json", "both.json")
    assert code == 0
    read = Read((tmp_path / "a.html").read_text())
    assert read.ids["sentence"].endswith("at least 85.0\u00a0% was asked for.")
    assert "epsworth recommend a.json --at-least 0.85 --max-epsilon 8 --report a.html" in read.text
    assert cli("report", "both.json", "-o", "b.html")[0] == 0
    assert Read((tmp_path / "b.html").read_text()).ids["sentence"] == read.ids["sentence"]
    code, _, err = cli("recommend", "a.json", "--report", "a.json")
    assert code == 2
    assert "--report" in err


def test_more_mechanisms_than_a_page_can_show_are_refused():
    with pytest.raises(ValueError, match="at most 24 mechanisms"):
        ew.report.report(curves(25, 3, 20))


def test_a_page_without_an_admitted_delta_says_so():
    made = curves(1, 3, 20, weak=True)
    assert "has a delta as small" in Read(ew.report.report(made, delta=0).html).ids["sentence"]
    assert CurvesView.of(made, ew.recommend(made, at_least=0.9, delta=0)).stops


def test_what_is_filled_in_is_not_looked_at_again():
    assert fill("{a}{b}", {"a": "{b}", "b": "{a}"}) == "{b}{a}"


def test_every_delta_has_its_own_rows_of_what_an_observer_may_know():
    made = curves(2, 3, 40)
    promises = tuple(ew.guarantees.Approximate(float(e), 0.19, "record") for e in (1, 2, 4))
    pure = tuple(ew.guarantees.Pure(float(e), "record") for e in (1, 2, 4))
    for rows, words in (
        ((promises, promises), ["right, δ = 0.19"] * 3),
        ((pure, promises), ["sure"] * 3 + ["right, δ = 0.19"] * 3),
    ):
        totals = np.array([[one.epsilon for one in row] for row in rows])
        html = ew.report.report(replace(made, guarantees=rows, tight_epsilons=totals), at_least=0.6).html
        found = re.search(r"<summary>Numbers: how sure, or.*?<tbody>(.*?)</tbody>", html, re.S)[1]
        cells = [
            [re.sub("<[^>]*>", "", c) for c in re.split("<t[hd][^>]*>", row)[1:]] for row in found.split("<tr>")[1:]
        ]
        assert [row[1] for row in cells] == words
        for row in cells:
            delta = 0.19 if row[1] != "sure" else 0.0
            for shown, prior in zip(row[2:], (0.01, 0.1, 0.5, 0.9), strict=True):
                assert shown == share_up(observed(float(row[0]), delta, prior))


def test_files_stand_in_a_pages_command_without_their_folders():
    command = "epsworth utility /home/jane/m.skops '/home/jane doe/people.csv' --json=../out/a.json -s age,bmi"
    html = ew.report.report(curves(2, 3, 40), command=command).html
    assert "jane" not in html
    assert "epsworth utility m.skops people.csv --json=a.json -s age,bmi" in Read(html).text
    for told, shown in {
        r"epsworth report C:\Users\jane\a.json": "epsworth report a.json",
        "epsworth utility http://here:8080/v2 a.csv": "epsworth utility http://here:8080/v2 a.csv",
        "epsworth run '/tmp/a b/s t.toml' -o out/": "epsworth run 's t.toml' -o out",
        "epsworth run s.toml --set tol=1/4 -o/home/x": "epsworth run s.toml --set tol=1/4 -ox",
        "epsworth privatize --reference a=/x/r.npy": "epsworth privatize --reference a=r.npy",
        "epsworth report a.json --purpose 'this and/or that'": "epsworth report a.json --purpose 'this and/or that'",
        "epsworth utility m.skops data/jane/a.csv.gz -s km/h": "epsworth utility m.skops a.csv.gz -s km/h",
        "epsworth utility 'https://jane:pw@here:8080/v2?token=1#x'": "epsworth utility 'https://here:8080/v2'",
        "epsworth utility ~jane/m.skops ~/a.csv": "epsworth utility m.skops a.csv",
        "epsworth utility https://me:p@ss/w@here/v2?mail=a@b a.csv": "epsworth utility https://here/v2 a.csv",
        "epsworth run 'https://here/v2?t=a b c' @/home/jane/args": "epsworth run 'https://here/v2' args",
        "epsworth report file:///home/jane/t.7z -ohome/jane/x.html": "epsworth report t.7z -ox.html",
    }.items():
        assert without_folders(told) == shown


@pytest.mark.parametrize("target", [1e-19, 1e-320, 1 / 3, 0.1 + 0.2])
def test_any_target_has_a_page(target):
    """Shown with at most eighteen digits, rounded up."""
    page = ew.report.report(curves(), at_least=target)
    told = Read(page.html).numbers
    assert told["target"] / 10 ** told["digits"] >= target * (1 - 1e-15)
    assert told["digits"] <= 18


def test_records_of_a_run_that_ended_early_are_not_said_to_keep_nothing():
    whole = ew.stability(
        lambda rows: rows[:, 0] > 0.5, np.random.default_rng(0).random((40, 2)), sensitive=[0, 1],
        mechanisms=["pm", "krr:k=5"], epsilons=[1, 4], rng=0,
    )  # fmt: skip
    lower, upper = whole.lower.copy(), whole.upper.copy()
    lower[:, :, 7], upper[:, :, 7] = 0.0, 1.0
    ended = replace(whole, stability=replace(whole.stability, lower=lower, upper=upper), stopped=True)
    for found, told in ((whole, True), (ended, False)):
        page = ew.report.report(found, at_least=0.6).html
        assert ("What shares of the records keep at least." in page) is told
        assert ("single records are not known" not in page) is told
        assert ("Which groups are served worst" in page) is told
    nothing = replace(whole, stability=Bounds(np.zeros_like(lower), np.ones_like(lower)), stopped=True)
    for asked in ({"at_least": 0.9, "on": "worst"}, {}):
        sentence = Read(ew.report.report(nothing, **asked).html).ids["sentence"]
        assert sentence.startswith("Not known yet: the run ended before anything was guaranteed at ε")
