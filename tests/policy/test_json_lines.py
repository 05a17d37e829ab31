"""JSON lines: two readers that share no code must find the same members, and the drawn values in them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import epsworth as ew
from epsworth import lines
from epsworth.policy import Pass, Policy, Rule
from epsworth.policy.files import json_lines
from epsworth.policy.files.file_tables import file_table
from epsworth.policy.tables import Perturbation

POLICY = Policy(
    (Rule(ew.Feature("age", 0, 100_000), "pm", Decimal(1), bits=8),), passing=Pass(("id", "x", "z", "note"))
)
# a draw differs with probability e^-200
KEEPING = Policy.of("krr:k=101", 200, ew.Domain.of({"age": (0, 100)}), passing=["x", "é", "y"])


def released(content, policy=POLICY, block=1 << 20):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(lines, "PART", block)
        source, sink = Path(folder, "source"), Path(folder, "sink")
        source.write_bytes(content.encode("utf-8", "surrogatepass"))
        table = file_table("jsonl", Perturbation(policy), source)
        table.write(table.seen(), lambda number, digest: None, sink)
        return sink.read_bytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r'{"age": 31, "\u0061ge": 32}', "row 2.* holds twice the member 'age'"),
        (r'{"\u0061ge": 31, "age": 32}', "row 2.* holds twice the member 'age'"),
        (r'{"x": {"a": 1}, "age": 31, "age": 31}', "row 2.* holds twice the member 'age'"),
        (r'{"x": 31, "age": 31, "x": 31}', "row 2.* holds two members of one name"),
        (r'{"x": 31, "\u0078": 1, "age": 31}', "row 2.* holds two members of one name"),
        ('{"age": NaN}', "row 2.*, age: the value is missing, or not a number"),
        ('{"age": -Infinity}', "row 2.*, age: the value is missing, or not a number"),
        ("\u2028", "row 2.*: the line is not one JSON object"),
        ("\xa0 ", "row 2.*: the line is not one JSON object"),
        ("\x1f", "row 2.*: the line is not one JSON object"),
        ('{"z": {"a": 31, "a": 2}, "age": 31}', "row 2.*, z: the member passes, but is not one"),
        (r'{"z": [{"b": {"a": 31, "\u0061": 2}}], "age": 31}', "row 2.*, z: the member passes, but is not one"),
        ('{"age": 031}', "row 2.*, age: the value is missing, or not a number"),
        ('{"age": 31, "x": 031}', "row 2.*: the line is not one JSON object"),
        ('{"age": 31, "x": 31e}', "row 2.*: the line is not one JSON object"),
        ('{"age": 31, "x": {"a" 31}}', "row 2.*, x: the member passes, but is not one"),
        ('{"age": 31, "x": [31}', "row 2.*: the line is not one JSON object"),
        ('{"age": 31, "x": "\t"}', "row 2.*: the line is not one JSON object"),
        ('{"age": 31} {"age": 31}', "row 2.*: the line is not one JSON object"),
        ('{"age": 31}, {"age": 31}', "row 2.*: the line is not one JSON object"),
        ('[{"age": 31}]', "row 2.*: the line is not one JSON object"),
        ('{"age": [31, 31]}', "row 2.*, age: the value is missing, or not a number"),
        ('{"age": 31, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "row 2.*, x: the member passes, but is not one"),
        ('{"age": ' + "[" * 100_000 + "]" * 100_000 + "}", "row 2.*, age: the value is missing, or not a number"),
        ('{"age": 31, "x": "\ud800"}', "row 2.* is not UTF-8"),
        ("{}", "row 2.* lacks the member 'age'"),
    ],
)
@pytest.mark.cases(1)
def test_lines_with_two_readings_are_refused(line, message):
    for block in (1 << 20, 10):
        with pytest.raises(ValueError, match=message) as refused:
            released('{"age": 5}\n{"age": 6}\n' + line + '\n{"age": 7}\n', block=block)
        assert "31" not in str(refused.value)
        assert len(str(refused.value)) < 200


def test_numbers_of_any_length_are_clamped_if_doubles_hold_them():
    long = "9" * 300
    lines = [f'{{"age": {long}}}', f'{{"age": -{long}}}', '{"age": 1e99}', f'{{"age": 0.{long}9}}', '{"age": 5E0}']
    found = [json.loads(line)["age"] for line in released("\n".join(lines), KEEPING).splitlines()]
    assert found == [100, 0, 100, 1, 5]
    words = Policy((Rule(ew.Feature("n", categories=(1, 2)), "krr", Decimal(200), outside=2),))
    assert released(f'{{"n": {"9" * 5000}}}\n{{"n": 1}}', words) == b'{"n": 2}\n{"n": 1}\n'
    assert released(f'{{"age": 1, "x": {"9" * 5000}}}', KEEPING).startswith(b'{"x": 999')


def test_a_name_that_looks_like_two_members_hides_none():
    odd = '{"a\\": 1, \\"age": 3, "age": 31}\n'
    policy = replace(POLICY, passing=Pass(("a", 'a": 1, "age')))
    with pytest.raises(ValueError, match=r"row 2.* holds twice the member 'age'"):
        released(odd + odd + '{"a": 1, "age": 3, "age": 31}\n', policy)


@given(st.lists(st.permutations(["age", "x", "é"]), min_size=1, max_size=8), st.integers(3, 99))
@pytest.mark.slow
def test_members_are_found_in_any_order(orders, block):
    values = {"age": 7, "x": "}", "é": '"age": 8'}
    content = "\n".join(json.dumps({name: values[name] for name in order}, ensure_ascii=False) for order in orders)
    one = {name: values[name] for name in ("x", "é", "age")}  # in the policy's order
    expected = (json.dumps(one, ensure_ascii=False) + "\n") * len(orders)
    assert released(content, KEEPING, block).decode() == expected


members = st.dictionaries(st.text(max_size=3), st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists))


@given(members, st.booleans(), st.sampled_from([None, 1]))
def test_the_scanner_finds_what_the_standard_library_finds(members, plain, indent):
    line = json.dumps(members, ensure_ascii=plain, indent=indent).replace("\n", " ")
    found = {name: json.loads(line[start:end]) for name, start, end in json_lines.members(line)}
    assert repr(found) == repr(members)


@pytest.mark.parametrize("odd", ["031", "truth", "5 5"])
def test_lines_like_those_before_are_looked_at_as_closely(odd):
    usual = '{"age": 31, "x": 5}\n'
    with pytest.raises(ValueError, match=r"row 5.*: the line is not one JSON object"):
        released(usual * 5 + f'{{"age": 31, "x": {odd}}}\n' + usual)
    assert released(usual * 2 + "\n \t\r\n" + usual, KEEPING) == b'{"x": 5, "age": 31}\n' * 3


def test_lines_of_other_members_may_stand_between():
    usual, other = '{"age": 31, "x": 5}\n', '{"age": 31, "x": 5, "y": "age"}\n'
    turned, moved = '{"x": 5, "age": 31}\n', '{"x": 5, "y": "age", "age": 31}\n'
    for block in (1 << 20, 10, 25, 60):
        found = released(usual * 3 + other + usual * 9 + other * 2 + usual * 3, KEEPING, block).decode()
        assert found == turned * 3 + moved + turned * 9 + moved * 2 + turned * 3


def test_a_bare_word_is_no_category():
    words = Policy((Rule(ew.Feature("n", categories=("NaN", "b")), "krr", Decimal(200)),))
    with pytest.raises(ValueError, match=r"row 0.*, n: the value is not a declared category"):
        released('{"n": NaN}', words)


def test_no_line_is_named_where_blank_ones_may_stand_between(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"age": 1}\n\n\n{"age": "x"}\n')
    policy = Policy.of("pm", 1, {"age": (0, 100)})
    with pytest.raises(ValueError, match=r"^data row 1 of t\.jsonl, age: the value is missing"):
        ew.perturb_file(policy, tmp_path / "t.jsonl", tmp_path / "o.jsonl", ledger=tmp_path / "ledger")
