"""The frame: nothing is asked for, nothing that stands in a file becomes markup or script, the file is small."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
import time
import unicodedata
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_pages import HOSTILE, Read, curves, unknown_people

import epsworth as ew
from epsworth.report.page import Source
from epsworth.report.result import _of_curves
from epsworth.report.text import INVISIBLE, escaped, printable

ROOT = Path(__file__).parents[2]


def hashed(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_a_page_asks_for_nothing_and_runs_its_own_script_only():
    html = ew.report.report(curves()).html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    scripts = re.findall(r"<script>(.*?)</script>", html, re.S)
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src '{hashed(style)}'",
        f"script-src '{hashed(scripts[0])}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert len(scripts) == 1
    read = Read(html)
    for tag, name, value in read.attributes:
        assert name not in ("src", "srcset", "style", "action", "data", "poster", "ping"), (tag, name)
        assert not name.startswith("on"), (tag, name)
        assert name != "href" or value.startswith("#"), (tag, value)
    for word in ("http:", "https:", "url(", "@import", "fetch(", "XMLHttp", "eval(", "innerHTML", "import("):
        assert word not in html, word


@given(st.text(max_size=60))
def test_text_stays_text(text):
    shown = printable(text, 60)
    assert not any(unicodedata.category(letter) in INVISIBLE for letter in shown)
    shown.encode()
    assert not set(escaped(text)) & set("<>\"'")


def test_hostile_names_labels_and_notes_are_shown_and_do_nothing():
    made = curves(
        3, names=[HOSTILE, "{name}", "a" * 5000], features=[HOSTILE, "<img src=x onerror=y>"],
        notes=[f"{HOSTILE}{i}" for i in range(40)], labels=(HOSTILE.replace("\ud800", ""), "<b>"),
    )  # fmt: skip
    page = ew.report.report(made, command=HOSTILE)
    harmless = Read(ew.report.report(curves(3)).html)
    read = Read(page.html)
    assert read.tags.count("script") == harmless.tags.count("script")
    assert set(read.tags) <= {*harmless.tags, "code"}
    assert not {"img", "b"} & set(read.tags)
    page.html.encode()
    assert "\u202e" not in page.html
    assert "\x00" not in page.html
    assert "⟨U+202E⟩" in read.text
    assert "{name}" in read.ids["sentence"] or "alert(1)" in read.ids["sentence"] or "aaa…" in read.ids["sentence"]
    assert len(page.html) < 150_000
    assert not set(read.ids["numbers"]) & set("<>&")
    assert read.ids["numbers"].isascii()
    assert [name[:24] for name in read.numbers["names"]] == ["</script><script>alert(1", "{name}", "a" * 24]


def test_many_mechanisms_of_long_names_fit_into_a_quarter_of_a_megabyte():
    made = curves(24, 40, 60, names=[f"mechanism {i:02d} {'x' * 47}" for i in range(24)], accuracy=True)
    assert len(ew.report.report(made).html.encode()) <= 250_000


@pytest.mark.parametrize("accuracy", [False, True])
@pytest.mark.slow
def test_ten_thousand_records_fit_into_a_quarter_of_a_megabyte(accuracy):
    made = curves(6, 100, 10_000, accuracy=accuracy)
    began = time.perf_counter()
    page = _of_curves(made, {}, Source(b"{}"), unknown_people(made), None)
    assert time.perf_counter() - began < 30  # a few seconds; not minutes
    assert len(page.html.encode()) <= 250_000
    assert Read(page.html).numbers["worst"][0][0][::2] != []


@pytest.mark.slow
def test_a_whole_result_is_packed_where_it_fits():
    made = curves(3, 5, 30)
    read = Read(ew.report.report(made).html)
    content = gzip.decompress(base64.b64decode(read.ids["whole"]))
    assert json.loads(content) == json.loads(json.dumps(made.to_dict()))
    assert hashlib.sha256(content).hexdigest() in read.text
    assert "whole" not in Read(ew.report.report(curves(6, 60, 400)).html).ids


def test_pages_are_written_whole_and_say_how_large_they_are(tmp_path):
    page = ew.report.report(curves())
    page.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page.html
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert repr(page) == f"<Page: {len(page.html.encode()) / 1000:.0f} kB>"
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        page.save(tmp_path / "no" / "a.html")


def test_scripts_and_styles_are_shipped():
    """A wheel holds them: what is beside the modules and tracked goes in."""
    names = {path.name for path in files("epsworth.report").iterdir()}
    assert {"page.html.jinja", "page.css", "page.js"} <= names
    given = [path for path in (ROOT / "src/epsworth/report").iterdir() if path.suffix in (".css", ".js", ".jinja")]
    ignored = subprocess.run(["git", "check-ignore", *given], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ignored.stdout == ""


@pytest.mark.slow
def test_asking_for_the_package_loads_nothing_heavy():
    heavy = "('jinja2', 'matplotlib', 'sklearn')"
    code = f"import sys, epsworth; epsworth.report; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_are_cut_and_directions_are_kept_in():
    read = Read(ew.report.report(curves(2, names=["\u05d0\u05d1", "b"])).html)
    assert read.tags.count("bdi") > 5
    assert escaped("x" * 120, 100) == "x" * 99 + "…"
    for text in ("\u202e" * 50, "\x00" * 9, "x" * 101):
        assert len(printable(text)) <= 100
        assert printable(printable(text)) == printable(text)
