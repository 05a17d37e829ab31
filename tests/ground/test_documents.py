"""Texts that the command line reads: a document of modest depth with usable numbers, or one sentence."""

from __future__ import annotations

import time
from decimal import Decimal, FloatOperation, Inexact, localcontext
from fractions import Fraction

import pytest

import epsworth as ew
from epsworth.documents import read_json, read_toml
from epsworth.numerals import decimal_below, exact_decimal, exact_sum, fits
from epsworth.rounding import round_up, show_down, show_up

HOSTILE_TOML = {
    "arrays": "a = " + "[" * 100_000,
    "tables": "a = " + "{b = " * 500 + "1" + "}" * 500,
    "header": "[" + "a." * 100_000 + "a]",
    "names": "a . " * 100_000 + "a = 1",
    "quoted names": '"a".' * 100_000 + "a = 1",
    "power": "a = 1e99999999999999999999999",
    "integer": "a = 0x" + "f" * 100_000,
    "not a number": "a.b = [1, nan]",
    "infinity": "a = -inf",
}


@pytest.mark.parametrize("number", [float, Decimal])
@pytest.mark.parametrize("what", HOSTILE_TOML)
def test_hostile_toml_ends_in_one_sentence_at_once(what, number):
    started = time.process_time()
    with pytest.raises(ValueError, match=r"nested|parts|finite|computed with") as refused:
        read_toml(HOSTILE_TOML[what], number)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)
    assert time.process_time() - started < 1  # a fraction of a millisecond; minutes where the library's reader is asked


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested more than 32 deep"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested more than 32 deep"),
        ('{"a": [1, {"b": NaN}]}', r"^a\[1\].b: must be a finite number"),
        ('{"a": 1e999}', "^a: must be a finite number"),
        ('{"a": 1' + "0" * 1000 + "}", "^a: must be a finite number"),
        ('{"a": 1, "a": 2}', "the entry 'a' stands twice"),
    ],
)
def test_hostile_json_ends_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        read_json(text)


def test_modest_documents_are_read_as_they_are():
    assert read_toml('a."b c".d = ["x.y.z", "[[[", {e = 1.5}]') == {"a": {"b c": {"d": ["x.y.z", "[[[", {"e": 1.5}]}}}
    assert read_toml("a = 0.1", Decimal) == {"a": Decimal("0.1")}
    assert read_json('{"a": [1, 2.5, "x", null, true, {"b": []}]}') == {"a": [1, 2.5, "x", None, True, {"b": []}]}
    assert read_json("[" * 32 + "]" * 32)


@pytest.mark.parametrize("name", ["ranges.toml", "ranges.json"])
def test_a_deep_file_of_ranges_is_refused(tmp_path, name):
    (tmp_path / name).write_text("x = " + "[" * 100_000 if name.endswith("toml") else '{"x": ' + "[" * 100_000)
    with pytest.raises(ValueError, match=rf"^domain file .*{name}: the document is nested"):
        ew.Domain.load(tmp_path / name)


def test_numbers_do_not_follow_the_ambient_context():
    with localcontext(prec=3, rounding="ROUND_DOWN", traps=[Inexact, FloatOperation]):
        assert exact_sum([exact_decimal("x", text) for text in ("1.23456", "1e-40", 0.1)]) == Decimal(
            "1.3345600000000000000000000000000000000001"
        )
        assert decimal_below(Fraction(2, 3), 12) == Decimal("0.666666666666")
        assert (show_up(1.2345674), show_down(1.2345674), round_up(1.2345674, 6)) == ("1.23457", "1.23456", 1.234568)


@pytest.mark.parametrize("text", ["1e99999999", "-1e-99999999", "0e999999999999999999999", 10**1000, Decimal("1e401")])
def test_numbers_that_would_fill_the_memory_are_refused(text):
    assert not fits(text)
    with pytest.raises(ValueError, match="epsilon: must have at most 400 digits"):
        exact_decimal("epsilon", text)
    with pytest.raises(ValueError, match="epsilon must be positive and finite, of at most 400 digits"):
        ew.mechanisms.kernel("pm", text)


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "--mi", "1e99999999"],
        ["convert", "--mi", "1/1e99999999"],
        ["convert", "--mi", "0.1", "--prior", "1e-99999999"],
        ["noise", "--within", "3", "--answers", "1:1e999999:1e-999999"],
        ["mechanisms", "--epsilon", "1:1e999999:1e-999999"],
    ],
)
@pytest.mark.cases(1)
def test_numbers_that_would_fill_the_memory_are_refused_at_the_command(cli, words):
    status, out, err = cli(*words)
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("bound", [10**400, -(10**400), float("inf"), float("nan"), True, "1"])
def test_bounds_are_numbers_that_doubles_hold(bound):
    with pytest.raises(ValueError, match="must be a finite number"):
        ew.Feature("age", bound, 1e308)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" + "9" * 310 + "]", "must be a finite number of modest length; round it"),
        ("[" + "9" * 6000 + "]", "has 6000 digits; round it"),
        ("", "holds no JSON"),
        ("a,b\n1,2\n", "holds no JSON"),
        (b"\x80\x81\x82\x83\x84", "holds no JSON but binary"),
    ],
)
def test_what_no_double_holds_and_what_is_no_json_is_told(text, said):
    with pytest.raises(ValueError, match=said) as refused:
        read_json(text)
    assert "sys." not in str(refused.value)
    assert float(read_json("[" + "9" * 307 + "]")[0]) > 1e306


def test_a_byte_order_mark_is_no_part_of_a_text():
    assert (
        read_toml('\ufeffa = "b"')
        == read_json('\ufeff{"a": "b"}')
        == read_json(b'\xef\xbb\xbf{"a": "b"}')
        == {"a": "b"}
    )
