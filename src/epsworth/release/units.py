"""Whose rows a run releases: keyed hashes of ids, 64 bits each, and how many rows each unit has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.release.ids import GAPS, refusal
from epsworth.values import is_missing

Hashes = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

BLOCK = 16  # bytes, of AES
HEADER = 8  # bytes: a letter, and the length of a text
LARGEST = 2**63 - 1
DIGITS = 19  # of LARGEST
ROWS = 1 << 18  # at once: 4 MiB of blocks stay in the processor's cache
WAITING = 1 << 22  # hashes that are kept unsorted
BEGINNING = 8
AT_ENDS = np.isin(np.arange(256), list(b"0123456789+-."))


class IdError(ValueError):
    """An id is refused: in which row, and why, but never the id."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"the id in row {row} (from 0) {why}")
        self.row, self.why = row, why

    def __reduce__(self) -> tuple[type[IdError], tuple[int, str]]:
        return IdError, (self.row, self.why)


def hashes(values: NDArray[Any] | Sequence[int | str], key: bytes) -> Hashes:
    """Return 64-bit keyed hashes of ids: equal ids have equal ones, and without the key they tell nothing.

    Claim: AES-256 CBC-MAC of a prefix-free encoding, hence a pseudorandom function; two of N units share a hash, and
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
        For what is no id (`epsworth.release.ids.refusal`), naming the row from 0, never the id.

    Examples
    --------
    >>> found = hashes(["7", 7, "007", "Ann"], bytes(32))
    >>> len(set(found.tolist())), found.dtype.name
    (3, 'uint64')
    """
    if isinstance(values, (str, bytes)):
        raise ValueError("ids must come as an array or a list, got one text; put it into a list")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"ids must form one column, got an array of {values.ndim} dimensions; give one column")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.max(initial=0) <= LARGEST:
        return _of_integers(values.astype("<i8", copy=False), key)
    return _of_any(values.tolist() if isinstance(values, np.ndarray) else list(values), key)


class UnitCounts:
    """How many rows each unit has, from parts of a column in any order.

    Memory: eight bytes a unit, sixteen where units have several rows, and eight a row of the last four million rows;
    twice that while parts are put together.

    Examples
    --------
    >>> counts = UnitCounts()
    >>> counts.add(hashes([7, 8, 7], bytes(32)))
    >>> sorted(counts.sorted()[1].tolist()), counts.rows
    ([1, 2], 3)
    >>> first = UnitCounts(most=1)
    >>> first.add(hashes([7, 8, 7], bytes(32)))
    >>> first.kept().tolist(), first.rows
    ([True, True, False], 2)
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._in_order: list[Hashes] = []
        self._empty()

    def _empty(self) -> None:
        self.rows = 0
        self._units: Hashes = np.empty(0, np.uint64)
        self._counts: NDArray[np.uint64] | None = None  # of one row each
        self._parts: list[Hashes] = []
        self._waiting = 0

    def __repr__(self) -> str:
        return f"UnitCounts(rows={self.rows})"

    def add(self, hashes: Hashes) -> None:
        """Count one more row for each of these units."""
        if self.most is not None:  # counted once it is known which rows are kept
            self._in_order.append(np.array(hashes, dtype=np.uint64))
            return
        self._parts.append(np.array(hashes, dtype=np.uint64))
        self.rows, self._waiting = self.rows + len(hashes), self._waiting + len(hashes)
        if self._waiting >= max(WAITING, len(self._units)):  # every unit is merged a logarithmic number of times
            self._merge()

    def kept(self) -> NDArray[np.bool_] | None:
        """Tell which rows are among the first ``most`` of their unit, and count these alone; None where all are.

        Parts must have been added in their order.  Memory: 33 bytes a row.
        """
        if self.most is None:
            return None
        rows = np.concatenate([np.empty(0, np.uint64), *self._in_order])
        order = np.argsort(rows, kind="stable")
        starts = starts_of(rows[order])
        rank = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        found = np.empty(len(rows), np.bool_)
        found[order] = rank < self.most
        self._empty()
        self.most, self._in_order = None, []
        self.add(rows[found])
        return None if found.all() else found

    def sorted(self) -> tuple[Hashes, NDArray[np.uint64]]:
        """Return the units, ascending, and the rows of each; neither is to be written to."""
        self._merge()
        ones: NDArray[np.uint64] = np.broadcast_to(np.uint64(1), self._units.shape)
        return self._units, ones if self._counts is None else self._counts

    def _merge(self) -> None:
        if not self._parts:
            return
        new, new_counts = _counted(np.concatenate(self._parts))
        self._parts, self._waiting = [], 0
        if not len(self._units):
            self._units, self._counts = new, new_counts
            return
        units = np.concatenate([self._units, new])
        if self._counts is None and new_counts is None:
            self._units, self._counts = _counted(units)
            return
        counts = [
            np.ones(len(of), np.uint64) if known is None else known
            for of, known in ((self._units, self._counts), (new, new_counts))
        ]
        self._units, self._counts = summed(units, np.concatenate(counts))


def _counted(rows: Hashes) -> tuple[Hashes, NDArray[np.uint64] | None]:
    """Sort rows, in place; return the units and the rows of each, or None for one each."""
    rows.sort()
    if not np.any(rows[1:] == rows[:-1]):
        return rows, None
    starts = starts_of(rows)
    return rows[starts], np.diff(starts, append=len(rows)).astype(np.uint64)


def summed(units: Hashes, *amounts: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], ...]:
    """Return the distinct units, ascending, and of each column of amounts the sums; quick on a few ascending runs."""
    order = np.argsort(units, kind="stable")
    units = units[order]
    starts = starts_of(units)
    if not len(units):
        return units, *amounts
    return units[starts], *(np.add.reduceat(column[order], starts) for column in amounts)


def starts_of(ascending: Hashes) -> NDArray[np.intp]:
    """Return where each distinct value begins."""
    new = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return np.flatnonzero(new)


def _of_any(values: list[Any], key: bytes) -> Hashes:
    """Return the hashes of integers and texts, whatever else stands among them being refused."""
    kinds = set(map(type, values))
    if kinds <= {int}:
        return _of_numbers(values, key)
    if kinds <= {str}:
        return _of_texts(values, key)
    texts = np.fromiter((isinstance(value, str) for value in values), bool, len(values))
    found = np.empty(len(values), np.uint64)
    rows, others = np.flatnonzero(texts).tolist(), np.flatnonzero(~texts).tolist()
    numbers = [_integer(values[row], row) for row in others]
    found[texts] = _of_texts([values[row] for row in rows], key, rows)
    found[~texts] = _of_numbers(numbers, key)
    return found


def _integer(value: Any, row: int) -> int:
    """Return an id that is no text as an integer, or refuse it."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    what = "missing" if is_missing(value) else f"a {type(value).__name__}"
    raise IdError(row, f"is {what}, but must be an integer or a text; give every row one")


def _of_numbers(values: list[int], key: bytes) -> Hashes:
    try:
        return _of_integers(np.array(values, dtype="<i8"), key)
    except OverflowError:  # beyond 64 bits an id is its decimal text
        return _of_texts(list(map(str, values)), key)


def _of_integers(values: NDArray[np.int64], key: bytes) -> Hashes:
    found = np.empty(len(values), np.uint64)
    blocks = np.empty((min(ROWS, len(values)), 2), "<u8")
    blocks[:, 0] = ord("i")
    encrypted = bytearray(blocks.nbytes + BLOCK - 1)
    encryptor = _aes(key)
    for first in range(0, len(values), ROWS):
        part = values[first : first + ROWS]
        blocks[: len(part), 1] = part.view("<u8")
        encryptor.update_into(blocks[: len(part)].data.cast("B"), encrypted)
        found[first : first + ROWS] = np.frombuffer(encrypted, "<u8", 2 * len(part))[::2]
    return found


def _of_texts(values: list[str], key: bytes, rows: Sequence[int] | None = None) -> Hashes:
    try:
        encoded = [value.encode() for value in values]
    except UnicodeEncodeError:
        place = next(place for place, text in enumerate(values) if any("\ud800" <= c <= "\udfff" for c in text))
        raise IdError(_row(place, rows), "holds half a character; give whole texts") from None
    if list(map(str.strip, values)) != values or not GAPS.isdisjoint(values):
        place = next(place for place, text in enumerate(values) if text in GAPS or text.strip() != text)
        raise IdError(_row(place, rows), refusal(values[place]) or "is no name; give every row one")
    found = np.empty(len(values), np.uint64)
    for places, letters in _by_length(encoded):
        whole, numbers = _decimal(letters)
        for place in places[_doubtful(letters, whole)].tolist():
            if (why := refusal(values[place])) is not None:
                raise IdError(_row(place, rows), why)
        found[places[whole]] = _of_integers(numbers[whole], key)
        found[places[~whole]] = _mac(_blocks(letters[~whole]), key)
    return found


def _row(place: int, rows: Sequence[int] | None) -> int:
    return place if rows is None else rows[place]


def _doubtful(letters: Bytes, whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which texts of one length may be another's spelling: what is no plain ASCII, or could be a number."""
    found = AT_ENDS[letters[:, 0]] & AT_ENDS[letters[:, -1]] & ~whole
    for width in sorted({min(BEGINNING, letters.shape[1]), letters.shape[1]}):  # most are told by how they begin
        if found.any():
            found[found] = _like_numbers(letters[found, :width])
    if found.any():
        found[found] = np.any(letters[found].T - np.uint8(ord("0")) > 9, axis=0)
    if letters.min(initial=ord("0")) < ord(" ") or letters.max(initial=0) > ord("~"):
        found |= np.any((letters < ord(" ")) | (letters > ord("~")), axis=1)
    return found


def _like_numbers(letters: Bytes) -> NDArray[np.bool_]:
    """Leave out words, dates and addresses by the signs in them: the rest is looked at one by one, but for digits."""
    columns = np.ascontiguousarray(letters.T)  # whose rows are compared many at once
    digits = columns - np.uint8(ord("0")) <= 9
    signs, powers = (columns == ord("+")) | (columns == ord("-")), columns | np.uint8(32) == ord("e")
    dots = columns == ord(".")
    if digits.all():
        return np.ones(len(letters), bool)
    other = np.any(~(digits | signs | powers | dots), axis=0) | np.any(signs[1:] & ~powers[:-1], axis=0)
    found: NDArray[np.bool_] = ~other & (dots.sum(axis=0, dtype=np.uint32) < 2)
    return found


def _by_length(texts: list[bytes]) -> Iterator[tuple[NDArray[np.intp], Bytes]]:
    """Yield the places of texts of one length, and their bytes, a row each; no more than `ROWS` blocks at once."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    order = np.argsort(lengths, kind="stable")
    edges = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1)).tolist()
    for low, high in pairwise(edges):
        length = int(lengths[order[low]])
        step = max(1, ROWS * BLOCK // max(length, 1))
        for first in range(low, high, step):
            places = order[first : min(first + step, high)]
            joined = b"".join([texts[place] for place in places.tolist()])
            yield places, np.frombuffer(joined, np.uint8).reshape(len(places), length)


def _decimal(letters: Bytes) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Tell which texts of one length spell an integer of 64 bits, without a needless zero, and return it."""
    count, length = letters.shape
    negative = letters[:, 0] == ord("-")
    first = letters[np.arange(count), np.minimum(negative, length - 1)]
    digits = letters - np.uint8(ord("0"))  # what is no digit wraps to more than nine
    whole = np.all(digits[:, 1:] <= 9, axis=1) & ((digits[:, 0] <= 9) | (negative & (length > 1)))
    size = length - negative.astype(np.int64)
    whole &= ((first != ord("0")) | (size == 1)) & (size <= DIGITS)
    numbers = np.zeros(count, np.int64)
    if whole.any():
        value = np.zeros(int(whole.sum()), np.uint64)  # nineteen digits fit
        chosen = digits[whole]
        chosen[negative[whole], 0] = 0
        for column in chosen.T:
            value = value * np.uint64(10) + column
        fits = value <= np.uint64(LARGEST) + negative[whole].astype(np.uint64)
        signed = np.where(negative[whole], np.uint64(0) - value, value).view(np.int64)
        numbers[whole] = signed
        whole[whole] = fits
    return whole, numbers


def _blocks(letters: Bytes) -> Bytes:
    """Return texts of one length as blocks: "t", seven bytes of length, the text, zeros."""
    count, length = letters.shape
    chain = -(-(HEADER + length) // BLOCK)
    blocks = np.zeros((count, chain * BLOCK), np.uint8)
    blocks[:, 0] = ord("t")
    blocks[:, 1:HEADER] = np.frombuffer(length.to_bytes(HEADER - 1, "little"), np.uint8)
    blocks[:, HEADER : HEADER + length] = letters
    return blocks.reshape(count, chain, BLOCK)


def _mac(blocks: Bytes, key: bytes) -> Hashes:
    """Return the first eight bytes of the CBC-MAC of each row of blocks."""
    encryptor, state = _aes(key), np.zeros((len(blocks), BLOCK), np.uint8)
    for column in range(blocks.shape[1]):
        state = np.frombuffer(encryptor.update((state ^ blocks[:, column]).tobytes()), np.uint8).reshape(-1, BLOCK)
    return state.view("<u8")[:, 0].astype(np.uint64)


def _aes(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(key) != 32:
        raise ValueError(f"the key of unit hashes must have 32 bytes, got {len(key)}; take the ledger's")
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # of single blocks: the chaining is `_mac`'s
