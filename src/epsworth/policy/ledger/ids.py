"""Ids of people: which texts name one, so that nobody has a second name with a budget of its own; keyed hashes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.numerals import short
from epsworth.values import MISSING, is_missing

Hashes = NDArray[np.uint64]
Ids = NDArray[np.int64] | list[str | int]
Count = Callable[[Ids], None]

BLOCK, HEADER = 16, 8  # bytes of AES, and of a letter and the length of a text
LARGEST, DIGITS = 2**63 - 1, 20
GAPS = frozenset(MISSING)  # an empty id, too
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # with digits of any script
PLAIN = re.compile("-?[1-9][0-9]*|[0-9]+")  # a whole number's one spelling, and names such as 007
WHOLE = re.compile("0|-?[1-9][0-9]*")
NAMES = re.compile(  # lines of plain letters that are no numbers: no rule refuses them
    r"(?:[0-9eE+.\-]*+[!-*,/:-DF-df-~][!-~]*+(?: [!-~]++)*+\n)*+"
)
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
    if not text.strip():
        return "is empty, so nobody could be charged; give every row one"
    if text != text.strip():
        return "is padded by blanks, so two spellings could name one person; trim the ids"
    if not text.isprintable() or BLANK.search(text):  # categories Cc, Cf, Cn, Co, Cs, Zl, Zp, and Zs but for " "
        return "holds a character that nobody sees, so two spellings could name one person; remove it"
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if not PLAIN.fullmatch(text) and NUMBER.fullmatch(normal.translate(SIGNS)):
        return (
            "is another spelling of a number, so one person could have two; write whole numbers as 7, not 7.0, +7 or "
            "7e0, and other ids with a letter in front"
        )
    if not text.isascii() and any(letter.isdigit() and not letter.isascii() for letter in text):
        return "holds digits other than 0 to 9, so two spellings could name one person; write it with these"
    if text != normal:
        return "is not in Unicode's normal form NFKC, so two spellings could name one person; normalise the ids"
    return None


class IdError(ValueError):
    """An id is refused: in which row, and why, but never the id."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"the id in row {row} {why}")
        self.row, self.why = row, why

    def __reduce__(self) -> tuple[type[IdError], tuple[int, str]]:
        return IdError, (self.row, self.why)


def hashes(values: NDArray[Any] | Sequence[int | str], key: bytes) -> Hashes:
    """Return 64-bit keyed hashes of ids: equal ids have equal ones, and without the key they tell nothing.

    Claim: AES-256 CBC-MAC of a prefix-free encoding, hence a pseudorandom function; two of N people share a hash, and
    are then charged together, with a probability of at most N^2/2^65.

    Parameters
    ----------
    values : array of integers, or sequence of int or str
        A text that reads as a decimal integer of 64 bits is that integer: ids are the same in CSV and Parquet.  Any
        other spelling of a number is refused, except digits that begin with zeros: these are texts.
    key : bytes
        32 of them.

    Returns
    -------
    array of uint64
        In the order of the values.

    Raises
    ------
    ValueError
        For what is no id (`refusal`), naming the row from 0, never the id.

    Examples
    --------
    >>> found = hashes(["7", 7, "007", "Ann"], bytes(32))
    >>> len(set(found.tolist())), found.dtype.name
    (3, 'uint64')
    """
    if isinstance(values, (str, bytes)):
        raise ValueError("ids must come as an array or a list, got one text; put it into a list")
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"ids must form one column, got an array of {values.ndim} dimensions; give one column")
        if values.dtype.kind in "iu" and values.max(initial=0) <= LARGEST:
            return _of_integers(values, key)
        values = values.tolist()
    kinds = set(map(type, values))
    if kinds == {int} and max(map(abs, values)) <= LARGEST:
        return _of_integers(np.array(values), key)
    texts: list[str] = list(values) if kinds <= {str} else [_text(row, value) for row, value in enumerate(values)]  # type: ignore[arg-type]
    joined = "\n".join([*texts, ""])
    if NAMES.fullmatch(joined) and joined.count("\n") == len(texts) and GAPS.isdisjoint(texts):
        return _of_texts([text.encode() for text in texts], key)  # which is a sixth of the time for each by itself
    numbers: dict[int, int] = {}
    for row, text in enumerate(texts):
        if len(text) <= DIGITS and WHOLE.fullmatch(text) and -LARGEST - 1 <= int(text) <= LARGEST:
            numbers[row] = int(text)
        elif (why := refusal(text)) is not None:
            raise IdError(row, why)
    found, rows = np.empty(len(texts), np.uint64), np.fromiter(numbers, np.intp, len(numbers))
    found[rows] = _of_integers(np.fromiter(numbers.values(), np.int64, len(numbers)), key)
    others = np.delete(np.arange(len(texts)), rows)
    found[others] = _of_texts([texts[row].encode() for row in others.tolist()], key)
    return found


def count_ids(count: Count, ids: Ids, name: str, first: int) -> None:
    """Count the rows of the people of a part; where an id is refused, its row is that of the whole table."""
    try:
        count(ids)
    except IdError as error:
        raise ValueError(f"row {first + error.row}, {name}: the id {error.why}") from None


def check_person(person: object) -> str | None:
    """Refuse what names no column."""
    if person is not None and not isinstance(person, str):
        raise TypeError(f"person must be the name of a column, got {short(person)}")
    return person


def check_id_column(person: str | None, names: Iterable[str]) -> None:
    """Refuse a table without the column that says whose a row is."""
    if (person := check_person(person)) is not None and person not in names:
        raise ValueError(f"the table lacks the column {person!r}, which says whose a row is; name another column")


def _text(row: int, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if is_missing(value):
        raise IdError(row, "is missing, so nobody knows whom to charge; give every row one")
    raise IdError(row, "is neither a whole number nor a text; recode it")


def _of_integers(values: NDArray[Any], key: bytes) -> Hashes:
    blocks = np.zeros((len(values), 2), "<i8")
    blocks[:, 0], blocks[:, 1] = ord("i"), values
    return _mac(blocks.view(np.uint8).reshape(-1, 1, BLOCK), key)


def _of_texts(encoded: list[bytes], key: bytes) -> Hashes:
    """Return the hashes of texts: "t", seven bytes of length, the text, zeros; those of as many blocks at once."""
    lengths = np.fromiter(map(len, encoded), "<u8", len(encoded))
    chains, found = (lengths + HEADER + BLOCK - 1) // BLOCK, np.empty(len(encoded), np.uint64)
    for chain in np.unique(chains).tolist():
        rows = np.flatnonzero(chains == chain)
        message = np.empty((len(rows), BLOCK * chain), np.uint8)
        message[:, 0] = ord("t")
        message[:, 1:HEADER] = lengths[rows].view(np.uint8).reshape(-1, 8)[:, : HEADER - 1]
        texts = np.array([encoded[row] for row in rows.tolist()], f"S{BLOCK * chain - HEADER}")
        message[:, HEADER:] = texts.view(np.uint8).reshape(len(rows), -1)
        found[rows] = _mac(message.reshape(len(rows), chain, BLOCK), key)
    return found


def _mac(blocks: NDArray[np.uint8], key: bytes) -> Hashes:
    """Return the first eight bytes of the CBC-MAC of each row of blocks."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(key) != 32:
        raise ValueError(f"the key of hashed ids must have 32 bytes, got {len(key)}; take the ledger's")
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # of single blocks: they are chained here
    state = blocks[:, 0]
    for column in range(blocks.shape[1]):
        state = state if column == 0 else state ^ blocks[:, column]
        state = np.frombuffer(encryptor.update(state.tobytes()), np.uint8).reshape(-1, BLOCK)
    return state.view("<u8")[:, 0].astype(np.uint64)
