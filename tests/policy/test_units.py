"""Ids are hashed as written down elsewhere, alike in every spelling of a column, and counted whatever the parts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given
from hypothesis import strategies as st

from epsworth.policy.ledger.ids import IdError, hashes, refusal
from epsworth.policy.ledger.people import RowCounts

KEY = bytes(range(32))
REFERENCE = [  # written by an independent implementation
    ("3a97f11ae651070506a68a02f0e161af37f86cb9078738c370f07e8d3b583bad", 32, 12017370566248030105),
    ("38c275f34aed056ad6ea8eeca4192fa1feb9dc4b1ebe55e5b8f9b680eff76c81", -2, 588715270731376352),
    ("d4e9ab304d4896f9e17fd8f0816496da087a3ebecc676aaa2c5d8ce1b3c6acbc", "person-1", 17764922643837213097),
    ("5f1670a9821bc72985d7645e7dbb07780b4eb4d9fb9d979464a52b2b803afb03", "Zoë", 12652197396942392104),
    ("c5338aebdc8c3b678358f3d8935a75e844a88c9bf5ba0162c8dbd2f4e2f0bd83", "007", 64773751047587228),
    ("cf2184c78f346df30e7bde5d918d33f081697cd05b6a5800898a9fc99c547599", "x" * 40, 16416451440692011126),
]


@pytest.mark.parametrize(("key", "value", "expected"), REFERENCE, ids=lambda value: str(value)[:8])
def test_hashes_are_those_of_the_reference(key, value, expected):
    assert hashes([value], bytes.fromhex(key)).tolist() == [expected]
    assert hashes([3, value, "x"], bytes.fromhex(key))[1] == expected


def misspelt(text: str) -> bool:
    """Tell whether a text is refused, as the page on the ledger says: read by Python's own conversion."""
    ignorable = (
        "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc"
        "\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
    )
    hidden = any(unicodedata.category(letter)[0] in "CZ" and letter != " " for letter in text)
    if hidden or re.search(ignorable, text) or unicodedata.normalize("NFKC", text) != text:
        return True
    if text in ("NA", "N/A", "NaN", "nan", "null") or any(c.isdigit() and not c.isascii() for c in text):
        return True
    if re.fullmatch("-?(0|[1-9][0-9]*)|[0-9]+", text):
        return False
    usual = unicodedata.normalize("NFKC", text)
    for dash in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2796\ufe58":
        usual = usual.replace(dash, "-")
    usual = usual.replace("\u2795", "+").replace("\u066b", ".")
    try:
        float(usual)
    except ValueError:
        return False
    return not set(usual) & set("_ ") and usual.lower().strip("+-") not in ("inf", "infinity", "nan")


def slowly(value: int | str) -> int:
    """Hash an id as the definition says, one block at a time, by the library's own CBC."""
    text = str(value)
    if re.fullmatch("-?(0|[1-9][0-9]*)", text, re.ASCII) and -(2**63) <= int(text) < 2**63:
        message = b"i" + bytes(7) + int(text).to_bytes(8, "little", signed=True)
    else:
        message = b"t" + len(text.encode()).to_bytes(7, "little") + text.encode()
    message += bytes(-len(message) % 16)
    encryptor = Cipher(algorithms.AES(KEY), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes(encryptor.update(message)[-16:-8], "little")


NUMERALS = st.from_regex(r"\A(-?[1-9])?[0-9]{1,21}\Z")
NAMES = st.characters(exclude_categories=["Cs", "Cc", "Cf"])
TEXTS = st.text(NAMES, min_size=1).filter(lambda text: text.strip() == text and not misspelt(text))
AROUND = st.sampled_from([s * (2**p) + d for p in (62, 63, 64) for s in (-1, 1) for d in (-1, 0, 1)])
IDS = st.one_of(st.integers(-(2**70), 2**70), AROUND, AROUND.map(str), NUMERALS, TEXTS)


@given(st.lists(IDS, max_size=12))
@example(["007", "00", "0", "-", "--1", "1_0", "1-2", "2026-11-23", "10.0.0.1", "555-0199", ".", "+", "e5", "12-34e5"])
@example(["Zo\u00eb", "3e", "7ee7", "1,000", str(10**30), str(-(10**30)), "0x7", "inf", "Nan", "None", "na"])
def test_hashes_follow_the_definition(values):
    assert hashes(values, KEY).tolist() == [slowly(value) for value in values]


@pytest.mark.parametrize("kind", ["i1", "i4", "u4", "i8", "u8"])
def test_arrays_of_any_width_are_integers(kind):
    values = np.array([0, 1, 127, np.iinfo(kind).max], kind)
    assert hashes(values, KEY).tolist() == [slowly(int(value)) for value in values]
    assert hashes(values.astype(object), KEY).tolist() == hashes(values, KEY).tolist()


def test_columns_of_many_lengths_are_hashed():
    numbers = np.arange(-50, 50)
    words = [f"{'x' * (n % 40)}{n}" for n in range(100)]
    assert hashes(numbers, KEY).tolist() == list(map(slowly, numbers.tolist()))
    assert hashes(words, KEY).tolist() == list(map(slowly, words))


def test_a_text_of_two_lines_is_not_two_names():
    with pytest.raises(IdError, match=r"row 1 .* nobody sees"):
        hashes(["Ann", "Bob\nCid"], KEY)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, None], "row 1 .* missing"),
        ([1, 2, float("nan")], "row 2 .* missing"),
        (["a", True], "row 1 .* neither a whole number nor a text"),
        (["a", 1.0], "row 1 .* neither a whole number nor a text"),
        (np.array([1.0]), "row 0 .* neither a whole number nor a text"),
        (np.array([True]), "row 0 .* neither a whole number nor a text"),
        (["secret", "secret "], "row 1 .* padded"),
        ([5, "\u00a0secret"], "row 1 .* padded"),
        (["secret", ""], "row 1 .* empty"),
        *((["secret", 7, word], "row 2 .* missing") for word in ("NA", "N/A", "NaN", "nan", "null")),
        ([7, "secret", "  "], "row 2 .* empty"),
        (["secret", "secret\ud800"], "row 1 .* nobody sees"),
        ([b"secret"], "row 0 .* neither a whole number nor a text"),
        ("secret", "one text"),
        (np.ones((2, 2), int), "2 dimensions"),
    ],
)
def test_what_is_no_id_is_refused_by_its_row_and_never_shown(values, told):
    with pytest.raises(ValueError, match=told) as refused:
        hashes(values, KEY)
    assert "secret" not in str(refused.value)


SPELLINGS = ["7.0", "7.", ".7", "7e0", "7E+0", "+7", "-07", "-00", "+007", "1.5", "7e-1", "\uff17", "\u0667", "0\u0667",
             "\uff10\uff10\uff17", "\u2077", "\uff0b7", "7\uff0e0", "\u22127", "\u20137", "\uff0d7", "\u207b7",
             "7\u066b0", "7e\u22121", "\u3251"]  # fmt: skip
DIGITS = ["A\u0661", "\u0661-2", "room\u00b2", "x\uff17", "\U0001d7d8a"]
UNSEEN = ["7\u200b", "7\0", "A\tb", "An\u00adn", "\ufeffAnn", "7\ufe0f", "\u20607", "Ann\u3164", "a\x7fb",
          "An\u2028n", "An\u2029n", "An\u2065n", "An\ufff0n", "An\U000e0001n", "An\U000e0fffn",
          "An\U0001d173n", "An\u2800n", "\u2800", "An\U000e0080n", "An\u00a0n", "An\u3000n", "An\u2003n", "An\ue000n",
          "An\U0010fffdn", "An\U0003fffen", "An\u0378n", "An\u115fn", "An\u1160n", "An\uffa0n", "An\u034fn",
          "An\u17b4n", "An\u180bn", "An\u180fn", "An\ufe00n", "An\U000e0100n", "An\U000e01efn", "An\ufffcn",
          "An\U00016fe4n", "An\U0001107fn", "An\U0001bc9dn", "An\U0001d159n", "An\x85n"]  # fmt: skip
UNUSUAL = ["Zoe\u0308", "\uff21nn", "\ufb01n", "\u212bsa", "M\u00aa Jos\u00e9", "\uac00\u11a8", "\uff71", "\uf900"]


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("value", SPELLINGS + DIGITS + UNSEEN + UNUSUAL)
def test_one_unit_has_no_second_spelling(value, kind):
    """Each would be a person with a budget of its own."""
    if kind is np.array and value.endswith("\0"):
        value += "x"  # arrays drop NULs at the end
    with pytest.raises(
        IdError, match=r"row 3 .*(another spelling|nobody sees|digits other|normal form NFKC)"
    ) as refused:
        hashes(kind(["7", "007", "Ann", value, "-7"]), KEY)
    assert refused.value.row == 3
    assert value not in str(refused.value).partition(" is ")[0]
    with pytest.raises(ValueError, match=r"row 1 .*(another spelling|nobody sees|digits other|normal form NFKC)"):
        hashes([7, value, 8], KEY)


def test_no_character_of_the_kind_that_shows_nothing_names_anybody():
    """All code points: one beside a letter is seen, or refused, and no two that read alike are both names."""
    names = [name for code in range(0x110000) if refusal(name := f"a{chr(code)}b") is None]
    shown = {name[1] for name in names}
    assert not any(unicodedata.category(letter)[0] in "CZ" for letter in shown - {" "})
    assert not shown & set(
        "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2065\u2800\u3164\ufe00\ufe0f\uffa0\U000e0080\U000e0100"
    )
    assert len({unicodedata.normalize("NFKC", name) for name in names}) == len(names)
    assert {" ", "b", "\u00eb", "\u4e2d", "-", "_", "\U0001f600"} <= shown
    assert len(names) > 130_000


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="32 bytes, got 16"):
        hashes([1], bytes(16))


@given(parts=st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8))
@example(parts=[[1, 2], [3, 3, 3, 1]])
def test_parts_are_counted_together(parts):
    counts = RowCounts()
    for part in parts:
        counts.add(hashes(np.array(part, np.int64), KEY))
    found, rows = counts.sorted()
    expected = Counter(slowly(value) for part in parts for value in part)
    assert found.tolist() == sorted(expected)
    assert dict(zip(found.tolist(), rows.tolist(), strict=True)) == expected
    assert counts.rows == expected.total()
