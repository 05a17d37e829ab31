"""The grammar of CSV: what it takes, every reader takes alike; what a stray byte makes of a table is refused."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import epsworth as ew
from epsworth.release import Policy, Rule, csv_lines, text
from epsworth.release.tables import Perturbation
from epsworth.release.text import CsvSplicer

POLICY = Policy((Rule(ew.Feature("age", 0, 100_000), "pm", Decimal(1), bits=8),))
FIELD = r'(?:"(?:[^"\r\n]|"")*"|[^",\r\n]*)'
WHOLE = re.compile(rf"(?:{FIELD}(?:,{FIELD})*(?:\r?\n|\Z))*")


def released(content, block=1 << 19):
    original, text.BLOCK = text.BLOCK, block
    try:
        return b"".join(CsvSplicer(Perturbation(POLICY)).run(io.BytesIO(content)))
    finally:
        text.BLOCK = original


def fields(block, width=0):
    starts, ends = csv_lines.spans(block.encode(), width, 0)
    found = [[block[a:b] for a, b in zip(*row, strict=True)] for row in zip(starts, ends, strict=True)]
    return [[f[1:-1].replace('""', '"') if f[:1] == '"' else f for f in row] for row in found]


def test_the_grammar_is_that_of_an_expression_on_all_short_strings():
    """All 3,905 strings of at most five bytes; what is taken, the standard library reads alike."""
    taken = 0
    for block in map("".join, itertools.chain(*(itertools.product('a,"\n\r', repeat=k) for k in range(1, 6)))):
        if not WHOLE.fullmatch(block):
            with pytest.raises(ValueError, match="row"):
                csv_lines.separators(block.encode(), 0)
            continue
        csv_lines.separators(block.encode(), 0)
        with contextlib.suppress(ValueError):  # ragged or blank rows
            assert fields(block) == list(csv.reader(io.StringIO(block, newline=""), strict=True)), block
            taken += 1
    assert taken > 250


@pytest.mark.parametrize(
    ("content", "row", "message"),
    [
        ('note,age\n5" pipe,31\n6" pipe,40\n', "row 0", "a quote stands inside a field"),
        ('note,age\nx,30\n"a"b",31\n', "row 1", "text follows a closing quote"),
        ('note,age\n"a" ,31\n', "row 0", "text follows a closing quote"),
        ('age,note\n31, "a"\n', "row 0", "a quote stands inside a field"),
        ('age,note\n31,"a\n40,b\n', "row 0", "a quote is opened and never closed before its line ends"),
        ('age,note\n31,a\n40,"b', "row 1", "a quote is opened and never closed"),
        ('note,age\n"5 pipe,31\n6 pipe",40\n', "row 0", "a quote is opened and never closed before its line ends"),
        ('note,age\nx,1\n"5 pipe,31\n"",7\n6 pipe",40\n', "row 1", "line breaks stay out of quotes"),
        ('a,age,b\n"x,37","c\nd,38",f\n', "row 0", "line breaks stay out of quotes"),
        ('age,a\n31,m\n32,"x\r\n40,y"\n', "row 1", "line breaks stay out of quotes"),
        ('age,a\n31,"x\ry"\n', "row 0", "a carriage return stands alone"),
        ('a,age,b\n"p,q",37,"c\n"r,s",38,f"\n', "row 0", "line breaks stay out of quotes"),
        ("age,note\n31,a\rb\n", "row 0", "a carriage return stands alone"),
        ("age,note\n31,a\r\r\n", "row 0", "a carriage return stands alone"),
        ("age,note\n31,a\n32,b\r", "row 1", "a carriage return stands alone"),
        ("age\r31\r40\r", "the header", "a carriage return stands alone"),
        ("age,note\n31,a\0\n", "row 0", "a NUL byte"),
        ("age,note\n31,a\n\n32,b\n", "row 1", "is blank|has 1 fields"),
        ("age\n31\n\n32\n", "row 1", "is blank"),
        ("age,note\n31,a,b\n", "row 0", "has 3 fields, the header has 2"),
        ('age,"no\nte"\n31,a\n', "the header", "a quote is opened and never closed"),
        ("age;note\n31;a\n", "", "separated by semicolons"),
        ("age\tnote\n31\ta\n", "", "separated by tabs"),
        ("age,note\n1_0,a\n", "row 0", "not a number"),
    ],
)
def test_what_readers_could_take_differently_is_refused_by_its_row(content, row, message):
    for block in (1 << 19, 5):
        with pytest.raises(ValueError, match=message) as refused:
            released(content.encode(), block)
        assert row in str(refused.value)
        assert not re.search(r"3[0-9]|40|pipe", str(refused.value))


def test_a_category_of_several_lines_does_not_leave_as_csv():
    policy = Policy((Rule(ew.Feature("job", categories=("p", "q\nr")), "krr", Decimal(1)),))
    with pytest.raises(ValueError, match="job: a category holds a line break"):
        list(CsvSplicer(Perturbation(policy)).run(io.BytesIO(b"a,job\nx,p\n")))


def test_unusual_tables_pass():
    for content in (
        'note,age\r\n"two, words",1\r\n"a ""b""",2\r\n"",3',
        "\ufeffage,note\n1,\u2028 x\n2,\ufeffy\n\n\n",
        'age\n"1"\n2\n',
    ):
        for block in (1 << 19, 3):
            found = released(content.encode(), block).decode()
            before, after = (list(csv.reader(io.StringIO(t, newline=""))) for t in (content, found))
            at = before[0].index("age") if "age" in before[0] else 0
            assert [r[:at] + r[at + 1 :] for r in before] == [r[:at] + r[at + 1 :] for r in after]


@example([(0, '"'), (12, '"')], "x,{},y", "\n")  # one field of all between: "x,70001,y\nx",70008,y
@given(st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(['"', "\r", '""', '"\r\n'])), min_size=1, max_size=5),
       st.sampled_from(["x,{},y", '{},"p,q",{}y', "{}", "{},z"]), st.sampled_from(["\n", "\r\n"]))  # fmt: skip
def test_no_stray_quote_or_return_lets_a_raw_value_pass(strays, row, end):
    """Quotes and returns are thrown into a clean table: it is refused, or no raw value is left."""
    width = len(next(csv.reader([row])))
    at = next(i for i, f in enumerate(next(csv.reader([row]))) if f == "{}")
    header = ",".join("age" if i == at else f"c{i}" for i in range(width))
    secrets = [str(70_001 + 7 * i) for i in range(12)]
    body = "".join(row.replace("{}", secret, 1).replace("{}", "w") + end for secret in secrets)
    for place, stray in strays:
        place %= len(body) + 1
        body = body[:place] + stray + body[place:]
    try:
        found = released((header + end + body).encode()).decode()
    except ValueError:
        return
    assert not [secret for secret in secrets if secret in found]


def test_another_reader_must_find_the_drawn_words(monkeypatch):
    """The grammar's own fault, planted: fields are taken for their neighbours."""
    content = b"age,b,c\n1,22,333\n4,55,666\n"
    assert len(released(content).splitlines()) == 3
    right = csv_lines.spans

    def wrong(block, width, first):
        starts, ends = right(block, width, first)
        return (starts, ends) if first < 0 else (np.roll(starts, 1, axis=1), np.roll(ends, 1, axis=1))

    monkeypatch.setattr(csv_lines, "spans", wrong)
    with pytest.raises(ValueError, match="another reader does not find the perturbed values"):
        released(content)
    monkeypatch.setattr(csv_lines, "spans", lambda *args: tuple(s[:1] for s in right(*args)))  # a row too few
    with pytest.raises(ValueError, match="another reader"):
        released(content)


def test_all_rows_are_perturbed_whatever_the_block():
    content = "age,note\n" + "".join(f'{70_001 + i},"n, {i}"\n' for i in range(500))
    for block in (64, 1000, 1 << 19):
        found = pl.read_csv(io.BytesIO(released(content.encode(), block)))
        assert found["note"].to_list() == [f"n, {i}" for i in range(500)]
        assert (found["age"] == np.arange(70_001, 70_501)).sum() == 0  # no such age lies on the grid


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(text, "LONGEST", 1000)
    monkeypatch.setattr(text, "BLOCK", 100)
    asked = []

    class Endless:
        def read(self, size=-1):
            asked.append(size)
            return b'age,note\n1,"' if len(asked) == 1 else b"x" * size

    with pytest.raises(ValueError, match="the record after 0 rows is longer than 1000 bytes"):
        list(CsvSplicer(Perturbation(POLICY)).run(Endless()))
    assert len(asked) < 15


def test_another_reader_must_find_the_other_columns_as_they_were(monkeypatch):
    """The splicer's own fault, planted: it changes a neighbour."""
    right = text._spliced
    monkeypatch.setattr(text, "_spliced", lambda *given: right(*given).replace(b"left", b"lost"))
    with pytest.raises(ValueError, match="another reader does not find"):
        released(b"note,age\nleft,31\n")


@pytest.mark.parametrize("empty", ["", " ", "\t"])
def test_rows_of_an_empty_category_are_rows_to_every_reader(empty):
    policy = Policy.of("krr", 1, ew.Domain.of({"smoker": [empty, "yes"]}))
    given = f'smoker\n"{empty}"\n'.encode() + b"yes\n" * 199
    out = b"".join(CsvSplicer(Perturbation(policy)).run(io.BytesIO(given)))
    readers = (
        [row[0] for row in csv.reader(io.StringIO(out.decode()))][1:],
        pd.read_csv(io.BytesIO(out), keep_default_na=False)["smoker"].tolist(),
        pl.read_csv(io.BytesIO(out)).fill_null("")["smoker"].to_list(),
    )
    assert all(len(found) == 200 and set(found) == {empty, "yes"} for found in readers)
