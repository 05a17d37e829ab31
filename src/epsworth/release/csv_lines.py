"""The grammar of CSV, checked byte by byte: a quote that any other reader could take otherwise is refused.

RFC 4180 without its liberties.  A field is quoted as a whole - its first and its last byte are quotes, quotes inside
stand in pairs - or it holds no quote at all.  Records end with a line feed, after at most one carriage return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from epsworth.release.columns import Indices

COMMA, NEWLINE, RETURN, QUOTE, NUL = b',\n\r"\0'
HEADER = -1  # the header's row
ADVICE = "a field with a quote stands in quotes, and the quote is doubled; repair the row"

LINE_BREAK = re.compile(rb"[\r\n]")
COMMAS = re.compile(rb",")

Bytes = NDArray[np.uint8]
Span = tuple[int, int]


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
    return starts.reshape(-1, counts[0]), stops.reshape(-1, counts[0])


def swallowed(block: bytes, starts: Indices, stops: Indices, positions: list[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield what stands in quotes, but would be a perturbed field if its line were a row: row, column, text.

    Two stray quotes, one at a field's beginning and one at a field's end, make one well-formed field of all rows
    between them.  So where the line breaks of a field cut its record into lines of which two have the commas of a
    row, each is read once more as if the field's quotes meant nothing.

    Parameters
    ----------
    starts, stops : arrays of shape ``(rows, width)``
        As `spans` returns them.
    positions : list of int
        The perturbed columns.
    """
    if QUOTE not in block:
        return
    array = np.frombuffer(block, dtype=np.uint8)
    breaks = np.flatnonzero((array == NEWLINE) | (array == RETURN))
    rows = np.searchsorted(starts[:, 0], breaks, side="right") - 1
    for row in np.unique(rows[breaks < stops[rows, -1]]).tolist():
        fields = list(zip(starts[row].tolist(), stops[row].tolist(), strict=True))
        for passing in (field for at, field in enumerate(fields) if at not in positions):
            lines = [list(_as_a_row(block, line, fields, passing, positions)) for line in _cut(block, fields, passing)]
            if sum(map(bool, lines)) > 1:
                inside = [found for found in chain(*lines) if passing[0] <= found[1] and found[2] <= passing[1]]
                yield from ((row, place, block[a:b]) for place, a, b in inside)


def _cut(block: bytes, fields: list[Span], field: Span) -> list[Span]:
    """Return the lines into which one field's line breaks cut a record."""
    breaks = [found.start() for found in LINE_BREAK.finditer(block, *field)]
    return list(zip([fields[0][0], *(at + 1 for at in breaks)], [*breaks, fields[-1][1]], strict=True))


def _as_a_row(
    block: bytes, line: Span, fields: list[Span], field: Span, positions: list[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield column and span of what would be perturbed in a line, counting from its start and from its end.

    Nothing where the line has fewer commas than a row.  All commas count, or all but those in other quoted fields.
    """
    commas = [found.start() for found in COMMAS.finditer(block, *line)]
    others = [other for other in fields if other != field]
    for counted in (commas, [at for at in commas if not any(a <= at < b for a, b in others)]):
        surplus = len(counted) + 1 - len(fields)
        if surplus >= 0:
            edges = [line[0] - 1, *counted, line[1]]
            for place in positions:
                for at in {place, place + surplus}:
                    yield place, edges[at] + 1, edges[at + 1]
