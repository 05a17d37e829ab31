"""The grammar of CSV, checked byte by byte: a quote that any other reader could take otherwise is refused.

RFC 4180 without its liberties.  A field is quoted as a whole - its first and its last byte are quotes, quotes inside
stand in pairs - or it holds no quote at all.  A line feed, after at most one carriage return, ends a record wherever
it stands: were line breaks allowed in quotes, two stray quotes could make one well-formed field of all rows between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsworth.release.columns import Indices

COMMA, NEWLINE, RETURN, QUOTE, NUL = b',\n\r"\0'
HEADER = -1  # the header's row
OPEN = (
    "a quote is opened and never closed before its line ends (line breaks stay out of quotes, or stray ones could hide "
    "rows); repair the row, or give .jsonl or .parquet"
)
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


def separators(block: bytes, first: int) -> tuple[Indices, Indices]:
    """Return the positions of all commas outside quotes and all line feeds, and those of the line feeds alone.

    Parameters
    ----------
    block : bytes
        Whole records.
    first : int
        Number of the first record, for messages.
    """
    array = np.frombuffer(block, dtype=np.uint8)
    nowhere = np.empty(0, dtype=np.intp)
    quotes = np.flatnonzero(array == QUOTE) if QUOTE in block else nowhere
    marks = np.flatnonzero((array == COMMA) | (array == NEWLINE))
    inside = np.searchsorted(quotes, marks) % 2 == 1  # an odd number of quotes stands before
    ending = array[marks] == NEWLINE
    ends = marks[ending]
    faults = [
        (_misplaced_opening(array, quotes), f"a quote stands inside a field that does not begin with one: {ADVICE}"),
        (_misplaced_closing(array, quotes), f"text follows a closing quote: {ADVICE}"),
        (marks[inside & ending], OPEN),
        (_lone_returns(array) if RETURN in block else nowhere,
         "a carriage return stands alone; end lines with a line feed"),
        (np.flatnonzero(array == NUL) if NUL in block else nowhere, "a NUL byte; convert the file to UTF-8 text"),
    ]  # fmt: skip
    found = [(int(at[0]), what) for at, what in faults if at.size]
    if found:  # the first one: behind it nobody knows what is quoted
        at, what = min(found)
        raise ValueError(f"{row_name(first + int(np.searchsorted(ends, at)))}: {what}")
    if len(quotes) % 2:
        raise ValueError(f"{row_name(first + ends.size)}: {OPEN}")
    return marks[~inside], ends


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
    padded = np.concatenate([array, np.full(2, NEWLINE, dtype=np.uint8)])  # the last line may lack its end
    after, second = padded[closing + 1], padded[closing + 2]
    right = (after == COMMA) | (after == NEWLINE) | ((after == RETURN) & (second == NEWLINE))
    right[: len(opening) - 1] |= opening[1:] == closing[: len(opening) - 1] + 1
    misplaced: Indices = closing[~right]
    return misplaced


def _lone_returns(array: Bytes) -> Indices:
    returns = np.flatnonzero(array == RETURN)
    padded = np.append(array, np.uint8(RETURN))
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
    return starts.reshape(-1, counts[0]), stops.reshape(-1, counts[0])
