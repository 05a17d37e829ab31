"""The grammar of CSV: what it takes, every reader takes alike; what a stray byte makes of a table is refused."""

from __future__ import annotations

import csv
import io
import itertools
import re

import pytest

from epsworth import csv_grammar, lines


def automaton(text, width):
    """Return the records of a text by the letters, one by one, or None where they break the grammar."""
    records, record, state, field = [], [], "begins", ""
    for letter in text:
        if state == "inside":
            if letter == '"':
                state = "closed"
            elif letter in "\n\r\0":
                return None
            else:
                field += letter
        elif letter in ",\n":
            blank = width > 1 and state == "begins" and not record  # one column may hold gaps
            record, field, state = [*record, field], "", "begins"
            if letter == "\n":
                if len(record) != width or blank:
                    return None
                records, record = [*records, record], []
        elif letter == '"' and state == "begins":
            state = "inside"
        elif letter == '"' and state == "closed":
            field, state = field + '"', "inside"
        elif letter in '"\r\0' or state == "closed":
            return None
        else:
            field, state = field + letter, "within"
    return records if state == "begins" and not record else None


@pytest.mark.parametrize(("width", "length"), [(1, 7), (2, 7), (3, 7)])
@pytest.mark.slow
def test_the_grammar_is_an_automaton_s_on_all_short_strings(width, length):
    """All strings of at most seven letters; what is taken, the standard library reads alike."""
    taken = 0
    for text in map("".join, itertools.chain(*(itertools.product('a,"\n\r', repeat=k) for k in range(1, length + 1)))):
        if not text.endswith("\n"):
            continue
        expected = automaton(text, width)
        if expected is None:
            with pytest.raises(ValueError, match=r"^row "):
                csv_grammar.checked(text.encode(), width, b"\n", 0)
            continue
        gated = csv_grammar.checked(text.encode(), width, b"\n", 0)
        assert (gated.rows, gated.quoted, gated.block) == (len(expected), '"' in text, text.encode())
        assert [record or [""] for record in csv.reader(io.StringIO(text, newline=""), strict=True)] == expected
        taken += 1
    assert taken > 30


def test_the_ends_of_lines_are_the_header_s_on_all_short_strings():
    for text in map("".join, itertools.product(["a", "\r\n", "\n", "\r"], repeat=5)):
        right = re.fullmatch(r"(a*\r\n)*(a+)?", text) is not None
        try:
            gated = csv_grammar.checked(text.encode(), 1, b"\r\n", 0)
        except ValueError:
            assert not right
            continue
        assert right
        assert gated.ended == text.endswith("\n")
        assert gated.block.decode() == text.replace("\r\n", "\n") + ("" if gated.ended else "\n")


@pytest.mark.parametrize(
    ("part", "width", "row", "message"),
    [
        ('x,1\n5" pipe,31\n', 2, 8, "a quote stands inside a field"),
        ('x,30\n"a"b",31\n', 2, 8, "text follows a closing quote"),
        ('"a" ,31\n', 2, 7, "text follows a closing quote"),
        ('31, "a"\n', 2, 7, "a quote stands inside a field"),
        ('31,"a\n40,b\n', 2, 7, "a quote is opened and never closed before its line ends"),
        ('31,a\n40,"b', 2, 8, "a quote is opened and never closed"),
        ('"x,37","c\nd,38",f\n', 3, 7, "line breaks stay out of quotes"),
        ("31,a\n32,a\rb\n", 2, 8, "a carriage return stands alone"),
        ("31,a\r\n", 2, 7, "ends otherwise than the header"),
        ("31,a\0\n", 2, 7, "a NUL byte"),
        ("31,a\n\n32,b\n", 2, 8, "is blank"),
        ("31,a\n32,a,b\n", 2, 8, "has 3 fields, the header has 2"),
        ('31,"a,b"\n"32,""a"\n', 2, 8, "has 1 field, the header has 2"),
        ("31,a,b\n32\n", 2, 7, "has 3 fields"),
        ("31,\xff\n", 2, 7, "is not UTF-8"),
    ],
)
def test_what_breaks_the_grammar_is_refused_by_its_row_without_a_value(part, width, row, message):
    with pytest.raises(ValueError, match=f"^row {row}\\b.*{message}") as told:
        csv_grammar.checked(part.encode("latin-1"), width, b"\n", 7)
    assert not re.search(r"3[0-9]|40|pipe", str(told.value))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "the input is empty"), (b"\xef\xbb\xbf", "the input is empty"),
        (b"\xef\xbb\xbf\n", "begins with a blank line"),
        (b'{"a": 1}\n', "looks like JSON lines; name it .jsonl, or of a stream say kind='jsonl'"),
        (b"a,,b\n", "does not name column 2"),
        (b'a,""\n', "does not name column 2"), (b"a,b,a\n", "names the column 'a' twice"),
        (b'a,"a"\n', "names the column 'a' twice"), (b"a;b\n", "separated by semicolons"),
        (b"a\tb\n", "separated by tabs"), (b'"a\n', "the header: a quote is opened"),
        (b"a\rb\r", "the header: a carriage"),
        (b"a,\xff\n", "the header is not UTF-8"), (b"a,b\0\n", "the header holds bytes that no text does, such as NUL"),
        ("a,b\n".encode("utf-16"), "UTF-16"),
    ],
)  # fmt: skip
def test_headers_that_are_refused(line, message):
    with pytest.raises(ValueError, match=message):
        csv_grammar.header(line)


def test_headers_are_kept_as_they_are_written():
    line = '\ufeffa,"b, ""c""",d \r\n'.encode()
    header = csv_grammar.header(line)
    assert header.names == ["a", 'b, "c"', "d "]
    assert header.line(header.names) == line
    assert header.line(["a", "d "]) == "\ufeffa,d \r\n".encode()
    assert csv_grammar.header(b"a").end == b"\n"


class Slow(io.BytesIO):
    """Returns fewer bytes than it is asked for, as pipes do."""

    def read(self, size=-1, /):
        return super().read(min(size, 7))


def test_parts_are_whole_lines_however_they_are_read(monkeypatch):
    monkeypatch.setattr(lines, "PART", 20)
    content = b"".join(b"%d,\x0b\x0c\x85\n" % i for i in range(100)) + b"end"
    cut = list(lines.parts(io.BytesIO(content)))
    assert cut == list(lines.parts(Slow(content)))
    assert b"".join(cut) == content
    assert all(part.endswith(b"\n") for part in cut[:-1])
    assert cut[-1] == b"end"


@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_line_that_is_too_long_is_refused_by_its_number(before, monkeypatch):
    monkeypatch.setattr(lines, "PART", 100)
    monkeypatch.setattr(lines, "LONGEST", 100)
    start = b"ab\n" * before
    assert b"".join(lines.parts(io.BytesIO(start + b"x" * 100 + b"\nab"))) == start + b"x" * 100 + b"\nab"
    with pytest.raises(ValueError, match=f"line {before + 1} is longer than 100 bytes"):
        list(lines.parts(io.BytesIO(start + b"x" * 101 + b"\nab")))


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    monkeypatch.setattr(lines, "PART", 100)
    asked = []

    class Endless:
        def read(self, size=-1):
            asked.append(size)
            return b"x" * size

    with pytest.raises(ValueError, match="line 1 is longer than 1000 bytes"):
        list(lines.parts(Endless()))
    assert len(asked) < 15
