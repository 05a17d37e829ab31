"""What an author says of a page, and the words that it explains."""

from __future__ import annotations

import re

import pytest
from made_documents import MAKERS, document
from made_pages import HOSTILE, Read, curves

import epsworth as ew
from epsworth.report import Heading
from epsworth.report.text import TERMS, terms_in

SAID = Heading(title="Survey of 2026", purpose="For the ethics board.", author="A. Jansen")
POLICY = ew.Policy.of("pm", 1, {"age": (0, 100)})


def pages(heading):
    """Yield a page of every kind under a heading."""
    yield ew.report.report(curves(), heading=heading)
    yield ew.report.report(POLICY, heading=heading)
    for name in MAKERS:
        yield ew.report.report(document(name), heading=heading)


def test_a_heading_stands_on_every_page():
    for page, plain in zip(pages(SAID), pages(None), strict=True):
        header = Read(re.search("<header>.*?</header>", page.html, re.S)[0]).text
        question = re.search("<h1>(.*?)</h1>", plain.html)[1]
        assert re.sub(r"\s+", " ", header).startswith(f"Survey of 2026 For the ethics board. {question} ")
        assert "Author: A. Jansen." in header.replace("  ", " ").replace(" .", ".")
        assert "<title>Survey of 2026</title>" in page.html
        assert "Author" not in re.search("<header>.*?</header>", plain.html, re.S)[0]


def test_a_heading_stays_text():
    page = ew.report.report(POLICY, heading=Heading(HOSTILE, HOSTILE, HOSTILE))
    assert "<script>alert" not in page.html
    assert Read(page.html).tags.count("script") == Read(ew.report.report(POLICY).html).tags.count("script")


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"title": "x" * 121}, ValueError, "title must have 1 to 120 letters, got 121; shorten it"),
        ({"purpose": "x" * 601}, ValueError, "purpose must have 1 to 600 letters, got 601; shorten it"),
        ({"author": " "}, ValueError, "author must have 1 to 120 letters, got 0; leave it out"),
        ({"author": 3}, TypeError, "author must be a text, got 3"),
    ],
)
def test_a_heading_that_does_not_fit_is_refused(given, error, told):
    with pytest.raises(error) as refused:
        Heading(**given)
    assert str(refused.value) == told


@pytest.mark.parametrize("kind", ["policy", "document", "file"])
def test_a_heading_is_a_heading(kind, tmp_path):
    POLICY.save(tmp_path / "p.toml")
    given = {"policy": POLICY, "document": document("noise"), "file": tmp_path / "p.toml"}[kind]
    with pytest.raises(TypeError, match=r"^heading must be a Heading of title, purpose and author, got 'x'$"):
        ew.report.report(given, heading="x")


def test_the_command_takes_a_heading(cli, tmp_path):
    POLICY.save(tmp_path / "p.toml")
    asked = ("report", str(tmp_path / "p.toml"), "-o", str(tmp_path / "p.html"))
    cli(*asked, "--title", SAID.title, "--purpose", SAID.purpose, "--author", SAID.author)
    assert (tmp_path / "p.html").read_text() == ew.report.report(tmp_path / "p.toml", heading=SAID).html


def test_a_page_explains_the_words_that_it_uses_and_no_others():
    for page in pages(None):
        content = page.html[page.html.index("<header>") : page.html.index('<details class="glossary">')]
        text = Read(content).text
        told = re.findall("<dt>(.*?)</dt>", page.html[page.html.index('<details class="glossary">') :])
        used = [term for term, (pattern, _) in TERMS.items() if re.search(pattern, text)]
        assert [term.replace("&#39;", "'") for term in told] == used
        assert 4 <= len(used) < len(TERMS)


def test_terms_are_explained_in_one_or_two_sentences():
    for _, meaning in TERMS.values():
        assert 1 <= len(re.findall(r"[.](?: |$)", meaning)) <= 2
    assert terms_in("<p>Nothing.</p>") == {}
    assert len(terms_in("a record")) == 1
