"""The grammar of CSV, checked byte by byte: a quote that any other reader could take otherwise is refused.

RFC 4180 without its liberties.  A field is quoted as a whole - its first and its last byte are quotes, quotes inside
stand in pairs - or it holds no quote at all.  Records end with a line feed, after at most one carriage return.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsworth.release.columns import Indices

COMMA, NEWLINE, RETURN, QUOTE, NUL = b',\n\r"\0'
HEADER = -1  # the header's row
ADVICE = "a field with a quote stands in quotes, and the quote is doubled; repair the row"

Bytes = NDArray[np.uint8]


def row_name(row: int) -> str:
    """Return what messages call a row.

    Examples
    --------
    >>> row_name(3), row_name(HEADER)
    ('row 3', 'the header')
    """
    return "the header" if row == HEADER else f"row {row}"


def last_end(held: bytes, first: int) -> int:
    """Return where the last whole record ends, 0 where there is none; refuse what is already known to be wrong."""
    if QUOTE not in held:
        return held.rfind(b"\n") + 1
    ends = separators(held, first, whole=False)[1]
    return int(ends[-1]) + 1 if ends.size else 0


def separators(block: bytes, first: int, *, whole: bool = True) -> tuple[Indices, Indices]:
    """Return the positions of all commas and line feeds outside quotes, and those of the line feeds alone.

    Parameters
    ----------
    block : bytes
        Starts with a record.
    first : int
        Number of the first record, for messages.
    whole : bool
        Whether the block ends with a record; otherwise what the next byte decides is not judged.
    """
    array = np.frombuffer(block, dtype=np.uint8)
    marks = np.flatnonzero((array == COMMA) | (array == NEWLINE))
    quotes = np.flatnonzero(array == QUOTE) if QUOTE in block else np.empty(0, dtype=np.intp)
    marks = _outside(marks, quotes)
    ends = marks[array[marks] == NEWLINE]
    faults = [
        (_misplaced_opening(array, quotes), f"a quote stands inside a field that does not begin with one: {ADVICE}"),
        (_misplaced_closing(array, quotes), f"text follows a closing quote: {ADVICE}"),
        (_lone_returns(array, quotes, whole) if RETURN in block else quotes[:0],
         "a carriage return stands alone; end lines with a line feed"),
        (np.flatnonzero(array == NUL) if NUL in block else quotes[:0],
         "a NUL byte; convert the file to UTF-8 text"),
    ]  # fmt: skip
    found = [(int(at[0]), what) for at, what in faults if at.size]
    if found:  # the first one: behind it nobody knows what is quoted
        at, what = min(found)
        raise ValueError(f"{row_name(first + int(np.searchsorted(ends, at)))}: {what}")
    if whole and len(quotes) % 2:
        raise ValueError(f"{row_name(first + ends.size)}: a quote is opened and never closed; repair the row")
    return marks, ends


def _outside(marks: Indices, quotes: Indices) -> Indices:
    """Return the marks outside quotes: where an even number of quotes stands before."""
    outside: Indices = marks[np.searchsorted(quotes, marks) % 2 == 0] if quotes.size else marks
    return outside


def _misplaced_opening(array: Bytes, quotes: Indices) -> Indices:
    """Return the quotes that lead into a quoted part without beginning a field or doubling the quote before."""
    opening, closing = quotes[::2], quotes[1::2]
    before = np.where(opening > 0, array[opening - 1], NEWLINE)
    right = (before == COMMA) | (before == NEWLINE)
    right[1:] |= opening[1:] == closing[: len(opening) - 1] + 1
    misplaced: Indices = opening[~right]
    return misplaced


def _misplaced_closing(array: Bytes, quotes: Indices) -> Indices:
    """Return the quotes that lead out of a quoted part without ending a field or being doubled by the next."""
    opening, closing = quotes[::2], quotes[1::2]
    padded = np.concatenate([array, np.full(2, NEWLINE, dtype=np.uint8)])  # what is not known yet passes
    after, second = padded[closing + 1], padded[closing + 2]
    right = (after == COMMA) | (after == NEWLINE) | ((after == RETURN) & (second == NEWLINE))
    right[: len(opening) - 1] |= opening[1:] == closing[: len(opening) - 1] + 1
    misplaced: Indices = closing[~right]
    return misplaced


def _lone_returns(array: Bytes, quotes: Indices, whole: bool) -> Indices:
    returns = _outside(np.flatnonzero(array == RETURN), quotes)
    padded = np.append(array, np.uint8(RETURN if whole else NEWLINE))
    alone: Indices = returns[padded[returns + 1] != NEWLINE]
    return alone


def spans(block: bytes, width: int, first: int) -> tuple[Indices, Indices]:
    """Return starts and ends of all fields, shape ``(rows, width)``; every row must have ``width`` of them (0: any)."""
    if not block.endswith((b"\n", b"\r")):
        block += b"\n"  # the last line may lack its end
    marks, ends = separators(block, first)
    array = np.frombuffer(block, dtype=np.uint8)
    starts = np.concatenate([[0], marks[:-1] + 1])
    last = np.flatnonzero(array[marks] == NEWLINE)
    counts = np.diff(last, prepend=-1)
    wrong = np.flatnonzero(counts != (width or counts[0]))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"row {first + row} has {counts[row]} fields, the header has {width}; repair the row")
    stops = marks.copy()
    stops[last] -= (array[ends - 1] == RETURN) & (ends > starts[last])  # of a line end of two bytes
    if counts[0] == 1 and (stops == starts).any():
        row = first + int(np.argmax(stops == starts))
        raise ValueError(f"{row_name(row)} is blank, and a table of one column has no blank rows; delete it")
    if QUOTE in block:
        _check_lines(array, marks, ends, int(counts[0]), first)
    return starts.reshape(-1, counts[0]), stops.reshape(-1, counts[0])


def _check_lines(array: Bytes, marks: Indices, ends: Indices, width: int, first: int) -> None:
    """Refuse records of several lines of which two could be rows of their own.

    Two stray quotes, one at a field's beginning and one at a field's end, make one well-formed field of all rows
    between them.  Each of their lines holds as many commas as a row does, in all or without those of fields that are
    quoted within the line; the lines of honest fields seldom do.
    """
    breaks = np.flatnonzero((array == NEWLINE) | ((array == RETURN) & (np.append(array[1:], NUL) != NEWLINE)))
    if len(breaks) == len(ends):
        return
    inside = np.setdiff1d(breaks, ends, assume_unique=True)
    spread = np.unique(np.searchsorted(marks, inside))  # fields that hold a line break
    commas = np.flatnonzero(array == COMMA)
    quoted = np.setdiff1d(commas, marks, assume_unique=True)
    loose = np.concatenate([marks[array[marks] == COMMA], quoted[np.isin(np.searchsorted(marks, quoted), spread)]])
    like_a_row = np.zeros(len(breaks), dtype=bool)
    for counted in (commas, loose):
        like_a_row |= np.bincount(np.searchsorted(breaks, counted), minlength=len(breaks)) == width - 1
    rows = np.bincount(np.searchsorted(ends, breaks)[like_a_row], minlength=len(ends))
    if (rows > 1).any():
        raise ValueError(
            f"{row_name(first + int(np.argmax(rows > 1)))}: a quoted field holds line breaks, and its lines look like "
            "rows that a stray quote has swallowed; repair the quotes, or take the line breaks out"
        )
