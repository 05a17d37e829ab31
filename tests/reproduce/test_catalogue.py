"""The catalogue holds all that the papers number, each once, with a statement and a number or a reason."""

from __future__ import annotations

import re

import pytest

from epsworth.reproduce import ITEMS, PAPERS, Item, Outcome, Setting, Verdict, named, outcome_of
from epsworth.reproduce.items import judged


def numbered(kind, count):
    return {f"{kind}-{number}" for number in range(1, count + 1)}


# what stands in each paper, counted by hand; definitions, equations, sections and slides only where they state a number
CONTENTS = {
    "000": numbered("fig", 16) | numbered("table", 2) | numbered("example", 5) | numbered("theorem", 4)
    | {"proposition-1"},
    "001": numbered("fig", 12) | numbered("table", 2) | {"theorem-1", "claim-1", "algorithm-1"},
    "002": numbered("fig", 2) | {"table-1"} | numbered("theorem", 5) | numbered("lemma", 2),
    "003": numbered("fig", 7) | numbered("theorem", 2) | numbered("proposition", 7) | numbered("remark", 5)
    | numbered("algorithm", 2),
    "004": numbered("fig", 8),
}  # fmt: skip
BESIDES = {
    "000": {f"definition-{n}" for n in range(11, 16)}
    | {f"section-{n}" for n in ("3.1", "4.1.1", "4.1.2", "4.1.3", "4.3", "b.2.2", "c.4.2", "c.5.1")},
    "001": {"equation-2", "equation-6", "section-6.6"},
    "002": {"slide-19"},
    "003": {"section-2"},
    "004": {"section-5.1", "section-5.2"},
}
# by what computes them, as two items may share it
QUICK = {item.compute: name for name, item in reversed(ITEMS.items()) if item.quick and not item.needs}
# what takes longer than a tenth of a second on a machine with nothing else to do
SLOW = {"001-fig-4", "001-fig-10", "001-table-1", "002-fig-2", "003-fig-2", "003-fig-3", "003-fig-6",
        "003-proposition-2", "003-remark-4", "003-algorithm-2", "003-theorem-2", "003-proposition-3"}  # fmt: skip


@pytest.mark.parametrize("paper", PAPERS)
def test_the_list_is_complete_and_holds_nothing_else(paper):
    found = {name[4:] for name, item in ITEMS.items() if item.paper == paper}
    assert found == CONTENTS[paper] | BESIDES[paper]


def test_every_id_is_there_once():
    from epsworth.reproduce import catalogue

    given = [item.id for part in catalogue._PARTS for item in part.ITEMS]
    assert len(given) == len(set(given)) == len(ITEMS)
    assert all(name == item.id for name, item in ITEMS.items())


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_an_item_says_what_it_is_about_and_computes_or_gives_a_reason(item):
    assert item.what
    assert re.search(r"[a-z].*\.$", item.statement)
    assert (item.compute is None) == bool(item.reason)
    assert not (item.pending and item.compute)
    if item.compute is None:
        outcome = outcome_of(item, Setting())
        assert outcome.verdict in (Verdict.NOT_REPRODUCIBLE, Verdict.NOT_RUN)
        assert outcome.why == item.reason


def test_what_lacks_its_data_is_not_run_and_says_so(tmp_path):
    for item in ITEMS.values():
        if item.needs:
            outcome = outcome_of(item, Setting(tmp_path))
            assert outcome.verdict is Verdict.NOT_RUN
            assert item.needs[0] in outcome.why


@pytest.mark.parametrize("name", [name for name in QUICK.values() if name not in SLOW])
def test_quick_items_find_a_number(name):
    outcome = outcome_of(ITEMS[name], Setting(quick=True))
    assert outcome.verdict in (Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS)
    assert re.search(r"\d", outcome.ours)
    assert outcome.verdict is Verdict.HOLDS or outcome.why
    assert outcome.seconds < 30


@pytest.mark.parametrize(
    ("name", "verdict", "number"),
    [
        ("000-section-3.1", Verdict.FAILS, "5.3648"),  # ln 5 / .3
        ("000-section-4.3", Verdict.CORRECTED, "1.3863"),  # 2 ln 2
        ("000-theorem-3", Verdict.CORRECTED, "0.1238"),  # .1 + .9 e / (100 + e)
        ("000-example-4", Verdict.HOLDS, "0.48110"),  # 2 sqrt(ln 2 + 1) - sqrt(4.5)
        ("000-example-5", Verdict.FAILS, "class 2"),
        ("001-table-1", Verdict.CORRECTED, "17 of 18"),
        ("001-fig-12", Verdict.HOLDS, "k = 30"),
        ("002-theorem-1", Verdict.HOLDS, "4, 8, 16"),
        ("003-remark-4", Verdict.FAILS, "claimed 1.213, true 1.442"),
    ],
)
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
        ("either compute or a reason", {"id": "000-fig-2"}),
        ("either compute or a reason", {"id": "000-fig-2", "compute": compute, "reason": "a drawing"}),
        ("cannot be quick", {"id": "000-fig-2", "reason": "a drawing", "quick": True}),
    ):
        with pytest.raises(ValueError, match=words):
            Item(**{"what": "Figure 2", "statement": "It is.", **given})


def test_unknown_ids_are_answered_with_the_nearest():
    assert [item.id for item in named("003-theorem-1")] == ["003-theorem-1"]
    assert len(named("all")) == len(ITEMS)
    with pytest.raises(ValueError, match=r"unknown ID '000-figure-2'; the nearest are .*000-fig-2"):
        named("000-figure-2")
    with pytest.raises(ValueError, match="--list shows all"):
        named("%%%")
