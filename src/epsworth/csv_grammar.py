r"""The grammar of CSV, for one part of whole lines: what passes has one reading; what does not is refused by its row.

A record is one line::

    FIELD = (?:"[^"\r\n\0]*+(?:""[^"\r\n\0]*+)*+"|[^",\r\n\0]*+)
    PART  = (FIELD (, FIELD){width-1} END)*      END: \n or \r\n, as in the header

Neither kind of field holds a line feed, so byte 0A alone ends records: a fault spoils its own line, and no quote
can take in another record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from epsworth.files import check_text
from epsworth.headers import shown_name
from epsworth.lines import count_lines
from epsworth.numerals import counted, short

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FIELD = rb'(?:"[^"\r\n\0]*+(?:""[^"\r\n\0]*+)*+"|[^",\r\n\0]*+)'
RETURN = b"\r"
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
INPUT = "the input"  # of a policy, which a stream may be
HEADER = -1  # the header's row
ADVICE = "a field with a quote stands in quotes, and the quote is doubled; repair the row"
OPEN = (
    "a quote is opened and never closed before its line ends (line breaks stay out of quotes, or stray ones could hide "
    "rows); repair the row, or give .jsonl or .parquet"
)
QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')


@dataclass(frozen=True)
class Header:
    """What the first line says.

    Attributes
    ----------
    names : list of str
    fields : list of bytes
        The names as they are written.
    end : bytes
        How lines end.
    mark : bytes
        The byte order mark, if there is one.
    """

    names: list[str]
    fields: list[bytes]
    end: bytes
    mark: bytes

    def line(self, kept: list[str]) -> bytes:
        """Return the header of the columns that are kept."""
        written = dict(zip(self.names, self.fields, strict=True))
        return self.mark + b",".join(written[name] for name in kept) + self.end


@dataclass(frozen=True)
class Gated:
    """A part that obeys the grammar.

    Attributes
    ----------
    block : bytes
        Its records, each ended by a line feed.
    rows : int
    quoted : bool
        Whether a quote occurs.
    ended : bool
        Whether the last record had its end.
    """

    block: bytes
    rows: int
    quoted: bool
    ended: bool


@lru_cache(maxsize=8)
def field(sep: bytes = b",") -> bytes:
    """Return the expression of a field."""
    return FIELD.replace(b",", sep)


@lru_cache(maxsize=64)
def grammar(width: int, sep: bytes = b",") -> re.Pattern[bytes]:
    """Return the expression of records of ``width`` fields, each ended by a line feed."""
    more = rb"(?:%b%b){%d}" % (re.escape(sep), field(sep), width - 1) if width > 1 else b""
    return re.compile(field(sep) + more + rb"\n")


@lru_cache(maxsize=64)
def _records(width: int, sep: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?:%b)*+" % grammar(width, sep).pattern)


def check_sep(sep: str) -> bytes:
    """Return a separator of fields, or refuse another one.

    Examples
    --------
    >>> check_sep(";")
    b';'
    """
    if not isinstance(sep, str) or sep not in SEPARATORS:
        raise ValueError(f"sep must be a comma, a semicolon, a tab or a bar, got {short(sep)}")
    return sep.encode()


def separated(part: bytes, old: bytes, new: bytes) -> bytes:
    r"""Return lines that obey the grammar of one separator with another one between their fields.

    Examples
    --------
    >>> separated(b'a;"b;c";1,5\n', b";", b",")
    b'a,"b;c","1,5"\n'
    """
    if old == new:
        return part
    if b'"' not in part and new not in part:
        return part.replace(old, new)
    return _fields(old).sub(lambda found: _piece(found, old, new), part)


@lru_cache(maxsize=8)
def _fields(sep: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"|[^"\r\n%b]++|%b' % (sep, re.escape(sep)))


def _piece(found: re.Match[bytes], old: bytes, new: bytes) -> bytes:
    text = found[0]
    if text == old:
        return new
    return b'"%b"' % text if new in text and not text.startswith(b'"') else text


def row_name(row: int) -> str:
    """Return what messages call a row.

    Examples
    --------
    >>> row_name(3), row_name(HEADER)
    ('row 3', 'the header')
    """
    return "the header" if row == HEADER else f"row {row}"


def header(line: bytes, what: str = INPUT, sep: str = ",") -> Header:
    """Return what a header says; names that are empty or stand twice are refused."""
    check_text(line, what)
    body = line.removeprefix(BYTE_ORDER_MARK)
    if not body.strip():
        blank = f"{what} begins with a blank line; delete it, as the first line names the columns"
        raise ValueError(blank if line.endswith(b"\n") else f"{what} is empty; give a header and at least one row")
    text = body.removesuffix(b"\n").removesuffix(b"\r") if body.endswith(b"\n") else body
    end = body[len(text) :] or b"\n"
    if not _is_text(text):
        raise ValueError("the header is not UTF-8; convert the input first")
    if CONTROLS.search(text):
        raise ValueError("the header holds bytes that no text does, such as NUL; the input is binary or damaged")
    sign, one = sep.encode(), field(sep.encode())
    if not re.fullmatch(rb"%b(?:%b%b)*+" % (one, re.escape(sign), one), text):
        if re.match(rb'\s*\{\s*"', text):
            stream = ", or of a stream say kind='jsonl'" if what == INPUT else ""
            raise ValueError(f"{what} looks like JSON lines; name it .jsonl{stream}")
        raise ValueError(f"the header: {_fault(text, sign)}")
    text = separated(text, sign, b",")
    fields = re.findall(rb"(?:\A|(?<=,))%b(?=,|\Z)" % FIELD, text) if b'"' in text else text.split(b",")
    names = [unquoted(field.decode("utf-8")) for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the header names the column {shown_name(name, names)} twice; rename one")
    if len(names) == 1:
        _check_separators(names[0], what, sep)
    if "" in names:
        raise ValueError(f"the header does not name column {names.index('') + 1}; give every column a name")
    return Header(names, fields, end, line[: len(line) - len(body)])


def _check_separators(name: str, what: str, sep: str) -> None:
    """Refuse a table of one column whose name looks like several, and say how these are separated."""
    for other, word in SEPARATORS.items():
        if other in name and other != sep:
            raise ValueError(f"the columns of {what} are separated by {word}; say so: sep={other!r}")


def unquoted(field: str) -> str:
    """Return the text of a field.

    Examples
    --------
    >>> unquoted('"two ""words"" more"')
    'two "words" more'
    """
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def checked(part: bytes, width: int, end: bytes, first: int, sep: str = ",") -> Gated:
    """Return a part of whole lines whose records obey the grammar, or refuse the first row that does not.

    Parameters
    ----------
    width : int
        Fields of the header.
    end : bytes
        How the header ends.
    first : int
        Number of the first record, for messages; they never show a value.
    """
    ended, sign = part.endswith(b"\n"), sep.encode()
    whole = part if ended else part + end
    rows, block = count_lines(whole), whole
    right = b"\0" not in whole
    if end == b"\r\n":
        right = right and count_lines(whole, RETURN) == whole.count(b"\r\n") == rows
        block = whole.replace(b"\r\n", b"\n")
    else:
        right = right and b"\r" not in whole
    quoted = b'"' in block
    if not (
        right and _is_text(block) and (_quoted(block, width, sign) if quoted else _plain(block, width, rows, sign))
    ):
        raise _refusal(whole, width, end, first, sign)
    block = separated(block, sign, b",")
    return Gated(block, rows, b'"' in block, ended)


def _is_text(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _quoted(block: bytes, width: int, sep: bytes) -> bool:
    return _records(width, sep).fullmatch(block) is not None


def _plain(block: bytes, width: int, rows: int, sep: bytes) -> bool:
    """Tell whether every width-th separator, and no other, is a line feed."""
    others = bytes(sorted({*range(256)} - {*sep, *b"\n"}))  # all bytes that do not separate
    return block.translate(None, others) == (sep * (width - 1) + b"\n") * rows


def _refusal(whole: bytes, width: int, end: bytes, first: int, sep: bytes) -> ValueError:
    """Return the refusal of the first record that breaks the grammar."""
    record = grammar(width, sep)
    for row, line in enumerate(whole.split(b"\n")[:-1], start=first):
        text = line.removesuffix(b"\r") if end == b"\r\n" else line
        other = (line == text) if end == b"\r\n" else line.endswith(b"\r")
        if not _is_text(text):
            return ValueError(f"row {row} is not UTF-8; convert the input first")
        if other and b"\r" not in line.removesuffix(b"\r"):
            return ValueError(
                f"row {row} ends otherwise than the header (line feeds, after a carriage return or not); end all alike"
            )
        if not record.fullmatch(text + b"\n"):
            return ValueError(f"row {row}{_wrong(text, width, sep)}")
    raise AssertionError("a part that obeys the grammar line by line obeys it as a whole")


def _wrong(text: bytes, width: int, sep: bytes) -> str:
    if not text:
        return " is blank; delete the blank line"
    fault = _fault(text, sep)
    if fault:
        return f": {fault}"
    fields = len(QUOTED.sub(b"", text).split(sep))
    return f" has {counted(fields, 'field')}, the header has {width}; repair the row"


def _fault(text: bytes, sep: bytes) -> str:
    """Return what is wrong with a line, its number of fields aside."""
    if b"\0" in text:
        return "a NUL byte; convert the file to UTF-8 text"
    if b"\r" in text:
        return "a carriage return stands alone; end lines with a line feed"
    at = 0
    while True:
        quoted = QUOTED.match(text, at)
        if quoted is None and text[at : at + 1] == b'"':
            return OPEN
        at = quoted.end() if quoted else min(i for i in (text.find(sep, at), text.find(b'"', at), len(text)) if i >= 0)
        if at == len(text):
            return ""
        if text[at : at + 1] != sep:
            return f"text follows a closing quote: {ADVICE}" if quoted else (
                f"a quote stands inside a field that does not begin with one: {ADVICE}"
            )  # fmt: skip
        at += 1
