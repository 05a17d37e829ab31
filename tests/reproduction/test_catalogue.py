"""The catalogue holds all that the papers number, each once, with a statement and a number or a reason."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reproduction import ITEMS, Item, Outcome, Setting, Verdict, named, outcome_of
from reproduction.items import claims, judged
from reproduction.panels import curves
from reproduction.pictures import drawn

# by what computes them, as two items may share it
QUICK = {item.compute: name for name, item in reversed(ITEMS.items()) if item.quick and not item.needs}
# what takes longer than a tenth of a second on a machine with nothing else to do
SLOW = {
    "pac/fig-4", "pac/fig-10", "pac/table-1", "ldp-classification/fig-2", "privacy-boosting/fig-2",
    "privacy-boosting/fig-3", "privacy-boosting/fig-6", "privacy-boosting/proposition-2", "privacy-boosting/remark-4",
    "privacy-boosting/algorithm-2",
}  # fmt: skip


def test_every_id_is_there_once():
    from reproduction import catalogue

    given = [item.id for part in catalogue._PARTS for item in part.ITEMS]
    assert len(given) == len(set(given)) == len(ITEMS)
    assert all(name == item.id for name, item in ITEMS.items())


def test_an_item_says_what_it_is_about_and_computes_or_gives_a_reason():
    for name, item in ITEMS.items():
        assert item.what, name
        assert re.search(r"[a-z].*\.$", item.statement), name
        assert (item.compute is None) == bool(item.reason), name
        assert not (item.pending and item.compute), name
        if item.compute is None:
            outcome = outcome_of(item, Setting())
            assert outcome.verdict in (Verdict.NOT_REPRODUCIBLE, Verdict.NOT_RUN), name
            assert outcome.why == item.reason, name


def test_what_lacks_its_data_is_not_run_and_says_so(tmp_path):
    for item in ITEMS.values():
        if item.needs:
            outcome = outcome_of(item, Setting(tmp_path))
            assert outcome.verdict is Verdict.NOT_RUN
            assert item.needs[0] in outcome.why


@pytest.mark.parametrize("name", [name for name in QUICK.values() if name not in SLOW])
@pytest.mark.cases(1)
def test_quick_items_find_a_number(name):
    outcome = outcome_of(ITEMS[name], Setting(quick=True))
    assert outcome.verdict in (Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS)
    assert re.search(r"\d", outcome.ours)
    assert outcome.verdict is Verdict.HOLDS or outcome.why
    assert outcome.seconds < 30


@pytest.mark.parametrize(
    ("name", "verdict", "number"),
    [
        ("ldp-utility/section-3.1", Verdict.FAILS, "5.3648"),  # ln 5 / .3
        ("ldp-utility/section-4.3", Verdict.CORRECTED, "1.3863"),  # 2 ln 2
        ("ldp-utility/theorem-3", Verdict.CORRECTED, "0.1238"),  # .1 + .9 e / (100 + e)
        ("ldp-utility/example-4", Verdict.HOLDS, "0.48110"),  # 2 sqrt(ln 2 + 1) - sqrt(4.5)
        ("ldp-utility/example-5", Verdict.FAILS, "class 2"),
        ("pac/table-1", Verdict.CORRECTED, "17 of 18"),
        ("pac/fig-12", Verdict.HOLDS, "k = 30"),
        ("ldp-classification/theorem-1", Verdict.HOLDS, "4, 8, 16"),
        ("privacy-boosting/remark-4", Verdict.FAILS, "claimed 1.213, true 1.442"),
        ("privacy-boosting/theorem-2", Verdict.FAILS, "2.6416e-04"),
    ],
)
@pytest.mark.cases(1)
def test_known_numbers_come_out(name, verdict, number):
    outcome = outcome_of(ITEMS[name], Setting(quick=True))
    assert outcome.verdict is verdict
    assert number in outcome.ours


def test_verdicts_are_judged_by_what_was_found():
    assert judged(True, corrected=True) is Verdict.HOLDS
    assert judged(False, corrected=True) is Verdict.CORRECTED
    assert judged(False) is Verdict.FAILS


def test_an_item_needs_a_name_and_one_of_the_two():
    def compute(setting):
        return Outcome(Verdict.HOLDS, "1")

    for words, given in (
        ("no name of an item", {"id": "figure 2", "reason": "a drawing"}),
        ("either compute or a reason", {"id": "ldp-utility/fig-2"}),
        ("either compute or a reason", {"id": "ldp-utility/fig-2", "compute": compute, "reason": "a drawing"}),
        ("cannot be quick", {"id": "ldp-utility/fig-2", "reason": "a drawing", "quick": True}),
    ):
        with pytest.raises(ValueError, match=words):
            Item(**{"what": "Figure 2", "statement": "It is.", **given})


def test_unknown_ids_are_answered_with_the_nearest():
    assert [item.id for item in named("privacy-boosting/theorem-1")] == ["privacy-boosting/theorem-1"]
    assert len(named("all")) == len(ITEMS)
    with pytest.raises(ValueError, match=r"unknown item 'ldp-utility/figure-2'; the nearest are .*ldp-utility/fig-2"):
        named("ldp-utility/figure-2")
    with pytest.raises(ValueError, match="--list shows all"):
        named("%%%")


def test_no_verdict_without_a_number_and_a_check():
    for found in (("a number", "1"), ("", ""), [], None, 1, 0.5, np.array([True])):
        with pytest.raises(TypeError, match="true or false"):
            judged(found)
        with pytest.raises(TypeError, match="true or false"):
            judged(True, corrected=found)
    assert judged(np.bool_(True)) is Verdict.HOLDS
    for verdict in (Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS):
        for ours in ("none", "", "nan at epsilon 2", "delta nan, 1e-5 published"):
            with pytest.raises(ValueError, match="no verdict without a number"):
                Outcome(verdict, ours, "why")
        if verdict is not Verdict.HOLDS:
            with pytest.raises(ValueError, match="needs a reason"):
                Outcome(verdict, "1.5")
    with pytest.raises(ValueError, match="needs a reason"):
        Outcome(Verdict.NOT_REPRODUCIBLE, "none")
    assert Outcome(Verdict.HOLDS, "nanoseconds: 3").ours


def test_several_statements_hold_only_together():
    said = [("it rises", True), ("it is 3", True)]
    assert claims(said, "3", main=True).verdict is Verdict.HOLDS
    for broken in ([("it rises", False), ("it is 3", True)], [("it rises", True), ("it is 3", False)]):
        assert claims(broken, "3", main=True).verdict is Verdict.CORRECTED
        outcome = claims(broken, "3", main=False, note="at n = 5")
        assert outcome.verdict is Verdict.FAILS
        assert outcome.why.startswith("not so: it")
        assert outcome.why.endswith("(at n = 5)")


@pytest.mark.parametrize("name", [name for name in QUICK.values() if name not in SLOW and "/fig-" in name])
def test_a_computed_figure_has_a_picture(name):
    panels = outcome_of(ITEMS[name], Setting(quick=True)).panels
    assert panels
    for panel in panels:
        assert panel.x
        assert panel.y
        assert panel.series or panel.plane is not None
        assert all(np.isfinite(series.x).all() and np.isfinite(series.y).all() for series in panel.series)


def test_panels_refuse_curves_whose_places_do_not_fit():
    with pytest.raises(ValueError, match="accuracy"):
        curves("", ("epsilon", [1, 2, 3]), "accuracy", {"accuracy": [0.5, 0.6]})


def test_a_picture_is_the_same_to_the_byte():
    panels = outcome_of(ITEMS["ldp-utility/fig-2"], Setting(quick=True)).panels
    once, again = drawn("Figure 2", panels), drawn("Figure 2", panels)
    assert once == again
    for words in ("<svg", "Figure 2", "read off by the paper", "epsilon"):
        assert words in once
    assert "http://" not in once.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
