"""One number for one thing: no page shows a quantity with two roundings, in texts, tables, charts or labels."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from made_documents import MAKERS, document
from made_pages import Read, curves, panels

import epsworth as ew

NUMBER = re.compile(r"(?<![\w.,])\d+\.\d+(?![\w.,]*\d)")
SPOKEN = ("aria-label", "aria-valuetext", "title", "alt")


def spoken(page):
    """Return what a page says before anything is unfolded: its text and what is read aloud."""
    read = Read(re.sub(r"<code.*?</code>|<details.*?</details>", " ", page.html, flags=re.S))
    return " ".join([read.text, *(value for _, name, value in read.attributes if name in SPOKEN)])


def twice(text):
    """Return pairs of numbers of which one is the other, rounded: of three digits at least, else they may be others."""
    found = {one for one in NUMBER.findall(text) if len(one.replace(".", "").strip("0")) >= 3}
    by_value = {}
    for one in found:
        by_value.setdefault(Decimal(one), one)
    pairs = set()
    for value, one in by_value.items():
        places = -value.as_tuple().exponent
        for fewer in range(places):
            unit = Decimal(1).scaleb(-fewer)
            for rounding in (ROUND_FLOOR, ROUND_CEILING):
                short = by_value.get(value.quantize(unit, rounding))
                if short is not None and short != one and len(short.replace(".", "").strip("0")) >= 3:
                    pairs.add((short, one))
    return pairs


POLICY = ew.Policy.of("pm", "1.5", ew.Domain.of({"age": (0, 120), "sex": ["f", "m"]}), per="feature")
PAGES = {
    **{name: (lambda name=name: ew.report.report(document(name))) for name in MAKERS},
    "policy": lambda: ew.report.report(POLICY),
    "curves": lambda: ew.report.report(curves(4, 9, 40, accuracy=True, weak=True), at_least=0.85, max_epsilon=40),
    "around": lambda: ew.report.report(curves(4, 9, 40), at_least=0.85, panels=panels(curves(4, 9, 40))),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_quantity_has_the_same_digits_wherever_it_stands(name):
    assert twice(spoken(PAGES[name]())) == set()


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ("profile", "around", "learnt series")])
def test_tables_to_unfold_hold_the_number_that_the_decision_tells(name):
    html = PAGES[name]().html
    (said,) = re.findall(r'id="observer"[^>]*>.*?most ([\d.]+)\u00a0%', html)
    facts = [re.sub("<[^>]*>", "", one) for one in re.findall(r'<dd id="fact-after">(.*?)</dd>', html)]
    assert facts in ([], [f"{said}\u00a0%"])
    tables = re.findall(r"<details>.*?</details>", html, re.S)
    assert any(f"<td>{said}\u00a0%" in one for one in tables)


def test_two_roundings_of_one_number_are_seen():
    assert twice("88.08 % and 88.0798 %") == {("88.08", "88.0798")}
    assert twice("60.01 %, 60.01 %, 61.3 %, 50.0 %, 2.5") == set()


def test_numbers_are_looked_for_wherever_they_are_said():
    page = ew.report.report(POLICY)
    for place in ('<svg role="img" aria-label="88.0798 %"></svg>', "<svg><text>88.0798 %</text></svg>", "88.0798 %"):
        more = page.html.replace("</main>", f"<h2>88.08 %</h2>{place}</main>")
        assert ("88.08", "88.0798") in twice(spoken(ew.report.Page(more)))


def test_a_decision_is_good_only_where_the_epsilon_protects_enough():
    assert "protects less than" not in ew.report.report(document("plan")).html
    for made in (document("plan"), document("learnt"), document("learnt table")):
        html = ew.report.report(made | {"epsilon": 4.5}).html
        assert 'class="decision no"' in html
        assert "That protects less than ε\u00a0=\u00a04 per record" in html
