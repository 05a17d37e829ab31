"""The catalogue against the papers' lists of contents, which were written down by reading them.

``tests/reference/contents.csv`` holds all that a paper numbers, whether it states a number or not (a definition, a
drawing, a textbook theorem), and sections and slides that state one.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from reproduction import ITEMS, PAPERS

with (Path(__file__).parents[1] / "reference" / "contents.csv").open(newline="") as _lines:
    CONTENTS = {f"{row['paper']}/{row['kind']}-{row['number']}": row for row in csv.DictReader(_lines)}
NUMBERED = ("fig", "table", "example", "definition", "proposition", "lemma", "theorem", "claim", "remark", "algorithm")


def test_nothing_that_states_a_number_is_missing_from_the_catalogue():
    stated = [name for name, row in CONTENTS.items() if row["states"] == "yes"]
    assert [name for name in stated if name not in ITEMS] == []


def test_the_catalogue_holds_nothing_that_no_paper_holds():
    assert [name for name in ITEMS if name not in CONTENTS] == []


def test_what_states_no_number_has_none_of_ours():
    silent = [name for name, row in CONTENTS.items() if row["states"] == "no"]
    assert [name for name in silent if name in ITEMS and ITEMS[name].compute] == []
    assert {row["states"] for row in CONTENTS.values()} == {"yes", "no"}


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_of_the_list_have_no_gaps(paper):
    for kind in NUMBERED:
        found = [int(row["number"]) for row in CONTENTS.values() if (row["paper"], row["kind"]) == (paper, kind)]
        assert found == list(range(1, len(found) + 1)), kind
    # as counted in the papers' text
    counts = {
        "ldp-utility": (16, 2, 4),
        "pac": (12, 2, 1),
        "ldp-classification": (2, 1, 5),
        "privacy-boosting": (7, 0, 2),
        "privacy-profile": (8, 0, 0),
        "variation-ratio": (0, 0, 0),  # one claim of it
    }
    for kind, count in zip(("fig", "table", "theorem"), counts[paper], strict=True):
        assert sum((row["paper"], row["kind"]) == (paper, kind) for row in CONTENTS.values()) == count


def test_an_item_says_where_it_stands():
    assert [name for name in ITEMS if CONTENTS[name]["where"].lower() not in ITEMS[name].what.lower()] == []
