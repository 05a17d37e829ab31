"""The one rule for ids: which texts name a person, so that nobody has a second name with a budget of its own."""

from __future__ import annotations

import re
import unicodedata

from epsworth.values import MISSING

GAPS = frozenset(MISSING)  # an empty id, too
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # with digits of any script
PLAIN = re.compile("-?[1-9][0-9]*|[0-9]+")  # a whole number's one spelling, and names such as 007
SIGNS = {**dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0x2796, 0xFE58), "-"), 0x2795: "+", 0x066B: "."}
BLANK = re.compile(  # what shows nothing though Python calls it printable, and Default_Ignorable_Code_Point of Unicode
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001bc9d\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def refusal(text: str) -> str | None:
    """Return why a text is no id, without the text; None for one that is.

    Refused is what could be taken for another id: missing, empty and padded texts; other spellings of numbers; digits
    of other scripts; every character that shows nothing (categories C and Z of Unicode but the plain blank, whatever is
    ignorable by default, fillers and blank letters); and texts that are not in normal form NFKC.

    Examples
    --------
    >>> [refusal(text) is None for text in ("7", "Ann Lee", "Zo\u00eb", "7.0", "Ann\u2800", "Zoe\u0308")]
    [True, True, True, False, False, False]
    """
    if text in GAPS and text:
        return "is missing, as NA, N/A, NaN, nan and null stand for in tables; give every row one, and none of these"
    if text != text.strip() or not text:
        what = "padded by blanks" if text.strip() else "empty"
        return f"is {what}, so two spellings could name one unit; trim the ids, and give every row one"
    if not text.isprintable() or BLANK.search(text):  # categories Cc, Cf, Cn, Co, Cs, Zl, Zp, and Zs but for " "
        return "holds a character that nobody sees, so two spellings could name one unit; remove it"
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if not PLAIN.fullmatch(text) and NUMBER.fullmatch(normal.translate(SIGNS)):
        return (
            "is another spelling of a number, so one unit could have two; write whole numbers as 7, not 7.0, +7 or "
            "7e0, and other ids with a letter in front"
        )
    if not text.isascii() and any(letter.isdigit() and not letter.isascii() for letter in text):
        return "holds digits other than 0 to 9, so two spellings could name one unit; write it with these"
    if text != normal:
        return "is not in Unicode's normal form NFKC, so two spellings could name one unit; normalise the ids"
    return None
