"""The exposure page: every number is the window's, on the safe side, and it says that it is not private."""

from __future__ import annotations

import numpy as np
import pytest
from made_documents import document
from made_pages import Read
from test_noise_page import number, rows_of, walk

from epsworth.exposure import stand_in, window
from epsworth.exposure.trade import trade
from epsworth.report import report
from epsworth.rounding import show_up


def test_every_number_is_the_windows_on_the_safe_side():
    made = document("profile")
    page = report(made)
    right = [(1 + one["advantage_worst"]) / 2 for one in made["trade"]]
    from decimal import Decimal

    walk(page, made, [Decimal(repr(one)) for one in right])
    names = "epsilon", "advantage_worst", "advantage_95", "advantage_median"
    for row, own in zip(rows_of(page, "what every ε costs"), made["trade"], strict=True):
        for shown, name in zip(row, names, strict=False):
            assert own[name] <= number(shown) <= own[name] * 1.01
        assert number(row[4]) >= 100 * own["rows_above_safe"] - 1e-9
        assert number(row[5]) <= 100 * own["accuracy"] + 1e-9
    for row, own in zip(
        rows_of(page, "how surely"), [o for o in made["trade"] if o["kept_lower"] is not None], strict=True
    ):
        assert number(row[1]) <= 100 * own["kept_lower"] + 1e-9
    read = Read(page.html)
    assert read.ids["sentence"] == made["verdict"]
    low, high = read.ids["fact-window"].split(" – ")
    assert float(low) >= made["window"][0]
    assert float(high) <= made["window"][1]
    for one in made["most_exposed"]:
        assert f'<th scope="row">{one["row"]}</th>' in page.html


def test_the_trade_is_the_windows():
    X, y = stand_in(150, 2, rng=1)
    found = window(X, y, 1e-2)
    for one in trade(found, 3.0):
        advantage = found.advantage(one["epsilon"])
        assert one["advantage_worst"] >= advantage.max()
        assert one["advantage_95"] >= np.quantile(advantage, 0.95)
        assert (advantage <= one["advantage_median"]).mean() >= 0.5
        assert one["rows_above_safe"] >= (advantage > found.adv_safe).mean()
        assert one["advantage_worst"] == pytest.approx(advantage.max(), rel=1e-6)
    assert 3.0 in [one["epsilon"] for one in trade(found, 3.0)]
    assert "accuracy" not in trade(found, 3.0)[0]


def test_the_page_says_on_its_face_that_it_is_not_private():
    page = report(document("profile"))
    assert "computed from raw data and is not private itself" in Read(page.html).text


def test_files_of_before_and_windows_without_advice_have_a_page():
    made = document("profile")
    del made["trade"]
    assert "stop" not in Read(report(made).html).numbers["sliders"]
    made = document("profile")
    for kept, good in (
        (None, False),
        (made["window"][1] * 1.1, False),
        (made["window"][0], True),
    ):  # from which epsilon
        page = report(made | {"eps_util": kept})
        assert ('class="decision no"' not in page.html) is good
    page = report(made | {"window": None, "majority": 0.78})  # as good as the model
    assert Read(page.html).ids["fact-window"] == "none"
    assert 'class="decision no"' in page.html


@pytest.mark.slow
def test_the_command_writes_the_page_of_its_json(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = stand_in(80, 2, rng=1)
    rows = "\n".join(f"{a},{b},{int(label)}" for (a, b), label in zip(X, y, strict=True))
    (tmp_path / "a.csv").write_text("age,bmi,sick\n" + rows)
    words = ("a.csv", "--target", "sick", "--seed", "1", "--json", "a.json", "--report", "a.html")
    assert cli("profile", *words)[0] == 0
    assert cli("report", "a.json", "-o", "b.html")[0] == 0
    one, two = (Read((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert one.numbers == two.numbers
    code, _, err = cli("profile", "--coefficients", "3", "--report", "c.html")
    assert code == 2
    assert "--report needs a table" in err


def test_there_is_one_median_and_one_share_of_95_in_100():
    made = document("profile")
    page = report(made)
    (own,) = [one for one in made["trade"] if one["epsilon"] == made["epsilon"]]
    exposed = {row[0]: row[2] for row in rows_of(page, "own ε by share of the rows")}
    names = {
        "advantage_worst": "the most exposed",
        "advantage_95": "95 % are at most",
        "advantage_median": "50 % are at most",
    }
    for name, said in names.items():
        assert own[name] == pytest.approx(number(exposed[said]), rel=1e-2)
        assert exposed[said] == show_up(own[name], 3)
    profile = made["profile"]
    assert {0.25, 0.5, 0.75, 0.9, 0.95, 0.99} <= set(profile["share_of_rows"])
