"""Doors of pages and results: what is of another kind is refused in one sentence, before anything is written."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from made_documents import document
from made_pages import curves

import epsworth as ew
from epsworth.documents import json_of

MADE = curves()


@pytest.mark.parametrize("given", [None, 5, [], np.zeros(3), lambda rows: rows, b"x"])
def test_a_page_is_made_of_results_only(given):
    with pytest.raises(TypeError, match=r"^result must be Curves, a StudyResult, .*, or a file of these, got a \w+$"):
        ew.report.report(given)


@pytest.mark.parametrize("asked", [{"at_least": 0.5}, {"on": "worst"}, {"max_epsilon": 4}])
def test_nothing_is_asked_of_a_policy_or_a_plan(asked):
    for given in (ew.Policy.of("pm", 1, {"age": (0, 100)}), document("plan")):
        with pytest.raises(ValueError, match=rf"^nothing is asked of this result: leave out {next(iter(asked))}=$"):
            ew.report.report(given, **asked)


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"on": -1}, ValueError, "there is no record -1; the curves hold records 0 to"),
        ({"on": 10**6}, ValueError, "there is no record 1000000"),
        ({"on": True}, ValueError, "on must be 'average', 'worst' or a record number from 0, got True"),
        ({"on": 1.0}, ValueError, "on must be 'average', 'worst' or a record number from 0, got 1.0"),
        ({"on": ["worst"]}, ValueError, "on must be 'average', 'worst' or a record number"),
        ({"on": np.array(["worst", "x"])}, ValueError, "on must be 'average', 'worst' or a record number"),
        ({"at_least": "a"}, ValueError, "at_least must lie in (0, 1], got 'a'"),
        ({"at_least": True}, ValueError, "at_least must lie in (0, 1], got True"),
        ({"at_least": float("nan")}, ValueError, "at_least must lie in (0, 1], got nan"),
        ({"delta": "a"}, ValueError, "delta must lie in [0, 1), got 'a'"),
        ({"panels": 3}, TypeError, "panels must be what panels_of returns, got 3"),
        ({"command": 3}, TypeError, "command must be a text, got 3"),
        ({"origins": 3}, TypeError, "origins must be a mapping of texts, got 3"),
    ],
)
@pytest.mark.cases(1)
def test_what_is_asked_of_curves_is_checked(asked, error, told):
    doors = [lambda: ew.report.report(MADE, **asked)]
    if asked.keys() <= {"on", "at_least", "delta"}:
        doors.append(lambda: ew.recommend(MADE, **({"at_least": 0.6} | asked)))
    for door in doors:
        with pytest.raises(error) as refused:
            door()
        assert told in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_record_counts_from_the_front():
    with pytest.raises(ValueError, match="there is no record -1"):
        MADE.select(-1)


def test_recommend_names_what_it_takes():
    with pytest.raises(TypeError, match=r"^curves must be what stability returns, got a NoneType$"):
        ew.recommend(None, at_least=0.5)


@pytest.mark.parametrize("path", [None, 5, [], b"p.html"])
@pytest.mark.cases(1)
def test_a_file_is_named_by_a_text_or_a_path(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = ew.Study(model="m.skops", table="t.csv", sensitive=["a"], epsilons=[1, 2])
    doors = [ew.report.report(MADE).save, ew.Study.load, ew.StudyResult.load, study.save]
    doors += [MADE.save, ew.Curves.load, ew.Policy.load, ew.Domain.load]
    for door in doors:
        with pytest.raises(TypeError, match=r"^path must name a file, as a text or a Path, got "):
            door(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.txt", "x", "x.json"])
def test_a_page_is_saved_as_a_page(name, tmp_path):
    page = ew.report.report(MADE)
    with pytest.raises(ValueError, match=r"a page ends in .html; change the ending"):
        page.save(tmp_path / name)
    page.save(tmp_path / "x.HTM")
    assert [one.name for one in tmp_path.iterdir()] == ["x.HTM"]


CYCLE: dict = {}
CYCLE["round"] = CYCLE


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": {1, 2}}, "holds {1, 2}, which JSON cannot; pass what to_dict returns"),
        ({"a": b"x"}, "holds b'x', which JSON cannot; pass what to_dict returns"),
        ({"a": {(1, 2): 3}}, "names an entry by what is no text; pass what to_dict returns"),
        ({"a": [math.nan]}, "a[0]: must be a finite number, got nan; give one, or leave it out"),
        ({"a": 10**5000}, "a whole number in it is too long; round it"),
        (CYCLE, "the document is nested more than 32 deep; flatten it"),
    ],
)
def test_a_document_that_json_cannot_hold_is_refused(given, says):
    with pytest.raises(ValueError, match=f"^result: {re.escape(says)}$"):
        ew.report.report(given)


def test_numbers_of_libraries_are_numbers_of_a_document():
    assert json_of({"a": [np.int64(3), np.arange(2), Decimal("0.5")]}) == b'{"a": [3, [0, 1], 0.5]}\n'
    made = document("noise")
    assert ew.report.report(made | {"floor": np.float64(made["floor"])}).html == ew.report.report(made).html


@pytest.mark.parametrize(
    ("path", "says"),
    [("", "result must name a file, got an empty text"), ("a\0b", "the result file 'a.*b': a name holds no NUL")],
)
def test_what_can_name_no_file_is_told(path, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        ew.report.report(path)


@pytest.mark.parametrize("entry", ["mechanisms", "epsilons_per_record", "stability", "labels"])
@pytest.mark.parametrize("given", [None, 3, [], {"average": 3}, [[]]])
@pytest.mark.cases(1)
def test_a_damaged_result_is_refused_without_the_interpreters_words(entry, given):
    made = MADE.to_dict()
    assert entry in made
    with pytest.raises(ValueError, match=r"damaged or incomplete|write the curves again") as refused:
        ew.Curves.from_dict(made | {entry: given})
    assert not any(word in str(refused.value) for word in ("Error", "object", "NoneType", "unsized", "Traceback"))
