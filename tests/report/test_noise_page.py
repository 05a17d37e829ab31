"""The noise page: every number is the ranking's, on the safe side; what all plain pages promise is tested here, too."""

from __future__ import annotations

import contextlib
import html
import json
import re
from decimal import Decimal

import numpy as np
import pytest
from made_documents import MAKERS, a_unit, advised, chances, document, hostile, numbers_in, roundings, tokens
from made_pages import Read

import epsworth as ew
from epsworth.noise import cheapest
from epsworth.noise.figures import shape_of
from epsworth.report import report


def said(page):
    """Return what a page says in words: without pictures, the fingerprint, the day; and all that its sliders say."""
    html = re.sub(r"<svg.*?</svg>|<code.*?</code>|<header>.*?</header>|<title>.*?</title>", " ", page.html, flags=re.S)
    read = Read(html)
    told = [text for one in read.numbers["sliders"].values() for texts in one["says"].values() for text in texts]
    return re.sub(r"SHA-256|\d[\d,]* bytes|[a-z]+\[\d+\]", " ", " ".join([read.text, *told]))


def walk(page, made, derived=()):
    """Check that every number of a page is one of the document's, or derived: whole ones up to 100 count and name."""
    known = roundings([*numbers_in(made), *derived])
    unknown = {one for one in tokens(said(page)) if not (one == int(one) and one <= 100) and one not in known}
    assert unknown == set()


def rows_of(page, title):
    """Return the rows of the table that stands, or unfolds, under a title."""
    found = re.search(rf'aria-label="{re.escape(title)}.*?</table>', page.html, re.S)[0]
    body = re.search("<tbody>(.*?)</tbody>", found, re.S)[1]
    return [
        [re.sub("<[^>]*>", "", cell) for cell in re.split("<t[hd][^>]*>", row)[1:]] for row in body.split("<tr>")[1:]
    ]


def number(text):
    """Return the number of a cell."""
    return float(text.replace(",", "").removesuffix("\u00a0%"))


def test_every_number_is_the_rankings_on_the_safe_side():
    made = document("noise")
    page = report(made)
    take = min((r for r in made["rows"] if r["sound"] and r["epsilon"] <= 1.01 * made["rows"][0]["epsilon"]),
               key=lambda row: row["rmse"])  # fmt: skip
    above = [Decimal(repr(row["epsilon"] / made["floor"] - 1)) for row in made["rows"]] if made["floor"] else []
    walk(page, made, [*above, *chances(take["epsilon"], take["delta"])])
    for row, own in zip(rows_of(page, "every noise"), made["rows"], strict=True):
        assert own["epsilon"] <= number(row[1]) <= own["epsilon"] * (1 + 1e-5)
        told = Decimal(row[2].removesuffix("\u00a0%"))
        assert told <= 100 * Decimal(repr(own["confidence"])) < told + a_unit(float(told))
        assert row[6] == ("–" if own["sound"] else f"no bound: in truth {ew.rounding.show_up(own['exact_epsilon'])}")
    read = Read(page.html)
    assert read.ids["sentence"] == advised(made)
    assert float(read.ids["fact-epsilon"]) >= take["epsilon"]


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("tpr@0.01", "attacker&#39;s true positive rate at false positive rate 0.01"),
        ("zcdp", "zCDP rho"),
    ],
)
@pytest.mark.slow
def test_other_objectives_are_what_rows_cost(asked, title):
    ranked = cheapest(2, confidence=0.9, delta=0, lattice=1, objective=asked)
    page = report(ranked.to_dict())
    assert title in page.html
    for row, own in zip(rows_of(page, "every noise"), ranked, strict=True):
        assert own.cost <= number(row[1]) <= own.cost * (1 + 1e-5)
    assert float(Read(page.html).ids[f"fact-{asked.partition('@')[0]}"]) >= ranked.taken.cost


@pytest.mark.slow
def test_a_single_release_has_its_floor():
    ranked = cheapest(5, confidence=0.95, delta=1e-6)
    page = report(ranked.to_dict())
    assert "nothing below 0.599" in page.html
    for row, own in zip(rows_of(page, "every noise"), ranked, strict=True):
        assert number(html.unescape(row[4]).lstrip("<")) >= 100 * (own.epsilon / ranked.floor - 1)


@pytest.mark.parametrize("asked", [{"delta": 0}, {"delta": 1e-6, "lattice": 1.0}])
@pytest.mark.slow
def test_the_shape_is_the_laws(asked):
    ranked = cheapest(4, confidence=0.9, **asked)
    for choice in ranked:
        shape = shape_of(choice)
        edges, chance = np.array(shape["edges"]), np.array(shape["chance"])
        inside = [c for a, b, c in zip(edges, edges[1:], chance, strict=False) if a >= -4 - 1e-9 and b <= 4 + 1e-9]
        whole = float(choice.law(0.0).mass(edges[0], edges[-1]))
        assert sum(chance) == pytest.approx(whole, abs=1e-9)
        assert sum(inside) <= choice.confidence + 1e-9
    assert ranked.taken.name in ranked.advice


def test_a_question_that_nothing_keeps_has_a_page():
    made = document("noise") | {"rows": [], "shape": None, "floor": 0.0}
    page = report(made)
    assert Read(page.html).ids["sentence"].startswith("No noise keeps this constraint")
    assert 'class="decision no"' in page.html


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_has_the_page_of_its_document_and_asks_for_nothing(name, tmp_path):
    made = document(name)
    page = report(made)
    (tmp_path / "a.json").write_text(json.dumps(made) + "\n")
    assert ew.report.report(tmp_path / "a.json").html == page.html
    with pytest.raises(ValueError, match="nothing is asked of this result"):
        ew.report.report(tmp_path / "a.json", at_least=0.5)
    assert len(page.html.encode()) <= 250_000
    assert "default-src 'none'" in page.html
    read = Read(page.html)
    for tag, attribute, value in read.attributes:
        assert attribute not in ("src", "srcset", "style", "action", "data", "poster", "ping"), (tag, attribute)
        assert not attribute.startswith("on"), (tag, attribute)
        assert attribute != "href" or value.startswith("#")
    for word in ("http:", "https:", "url(", "@import", "fetch(", "innerHTML"):
        assert word not in page.html


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.cases(1)
def test_texts_of_a_file_stay_text(name):
    read, harmless = Read(report(hostile(document(name))).html), Read(report(document(name)).html)
    assert read.tags.count("script") == harmless.tags.count("script")
    assert set(read.tags) <= set(harmless.tags)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_damaged_files_are_refused_in_a_sentence(name):
    """Whatever one entry becomes, there is a page or a refusal: never another error, never a page of nonsense."""
    spoilt, refused = 0, 0
    for junk in (None, "x", -1.5, 10**9, [], {}, [[None]], True):
        for path in _paths(document(name)):
            made = document(name)
            part = made
            for step in path[:-1]:
                part = part[step]
            part[path[-1]] = junk
            spoilt += 1
            with contextlib.suppress(ValueError):  # in words; every other error would end the test
                report(made)
                refused -= 1
            refused += 1
    assert refused > spoilt / 10


def _paths(made):
    """Return where entries lie: all on top, and the first of every kind below."""
    found = [(name,) for name in made]
    for name, value in made.items():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, dict):
            found += [(name, 0, key) if first is not value else (name, key) for key in first]
    return found


@pytest.mark.slow
def test_every_slider_has_a_text_for_every_stop():
    for name in MAKERS:
        html = report(document(name)).html
        for slider, one in Read(html).numbers["sliders"].items():
            least, most = re.search(rf'id="{slider}" min="(\d+)" max="(\d+)"', html).groups()
            for lists in one.values():
                for mark, stops in lists.items():
                    assert len(stops) == int(most) - int(least) + 1
                    assert f'id="{mark}"' in html


@pytest.mark.slow
def test_the_command_writes_the_page_of_its_json(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, _ = cli("noise", "--within", "5", "--delta", "0", "--json", "a.json", "--report", "a.html")
    assert code == 0
    assert cli("report", "a.json", "-o", "b.html")[0] == 0
    one, two = (Read((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert one.ids["sentence"] == two.ids["sentence"] == advised(json.loads((tmp_path / "a.json").read_text()))
    assert "epsworth noise --within 5" in one.text
    code, _, err = cli("noise", "--within", "5", "--report", "a.txt")
    assert code == 2
    assert "ends in .html" in err


@pytest.mark.slow
def test_with_a_delta_the_page_names_the_chance_of_being_right():
    made = cheapest(5, confidence=0.95, delta=1e-6).to_dict()
    read = Read(report(made).html)
    assert "What the ε and the δ mean: the chance of being right" in read.text
    assert "Numbers: one answer likely before and right at most" in read.text
    assert "at most after" not in read.text
    assert "The chance of being right, not a belief" in read.text
    pure = Read(report(document("noise")).html)
    assert ("at most after" in pure.text) == ("chance of being right, not" not in pure.text)
