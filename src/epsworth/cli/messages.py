"""Messages name arguments as Python has them; at the command line options of the running command stand for these."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_options: dict[str, str] = {}  # of the running command, by the arguments of Python for which they stand
_files: list[str] = []  # that it reads, among them its tables
VALUE = r"(?:True|'[^']*'|\d+(?:\.\d+)?|\.\.\.|)(?![\w./=(])"  # of an argument; what goes on is a file's name
ROW = r"(?:\A|(?<=, )|(?<=\bid in )|(?<=first: ))row (\d+)\b(?! \()"  # of which no file is named
COUNTED = rf"{ROW}|\bdata row \d+\b(?!, line| \()"  # of which no line is named
AT = r"(?<![\w.'\"/=-])"  # where no path, no quoted word and no value goes on


def name_options(options: Mapping[str, str], files: Sequence[str] = ()) -> None:
    """Let messages name these options, and the rows of the one table among the files, from now on."""
    _options.clear()
    _options.update(options)
    _files[:] = files


def in_options(message: object) -> str:
    r"""Return a message that names options in place of arguments; what the command has no option for stays.

    An argument is one where it is given (``again=True``): names of columns stay.
    Rows are those of the one table, counted from 0, which is said where no line tells where one stands.

    Examples
    --------
    >>> name_options({"again": "--again", "person": "--id", "sep": "--sep", "most_rows": "--most-rows", "cap": "--cap"})
    >>> in_options("say again=True, or state person= and most_rows=1")
    'say --again, or state --id and --most-rows 1'
    >>> in_options("cap must be 'sep=1', not a cap of most_rows; sep=';', seed=3, line 4 of cap=2.csv")
    "cap must be 'sep=1', not a cap of most_rows; --sep ';', seed=3, line 4 of cap=2.csv"
    >>> name_options({})
    >>> in_options("row 0, age: the value is missing")
    'row 0 (counted from 0), age: the value is missing'
    >>> name_options({}, ["t.csv"])
    >>> in_options("row 0, age: the value is missing")
    'data row 0, line 2 of t.csv, age: the value is missing'
    """
    message = re.sub(COUNTED, r"\g<0> (counted from 0)", re.sub(ROW, _placed, str(message)))
    names = "|".join(sorted(map(re.escape, _options), key=len, reverse=True))
    if not names:
        return message
    return re.sub(rf"{AT}\b({names})=({VALUE})", _given, message)


def _placed(found: Any) -> str:
    from epsworth.lines import place  # here: it needs arrays, and a command starts without
    from epsworth.sources import STDIN, first_line, kind_of

    tables = [file for file in _files if file == STDIN or kind_of(file)]
    return place(int(found[1]), tables[0], first_line(tables[0])) if len(tables) == 1 else str(found[0])


def _given(found: Any) -> str:
    value = found[2].strip("'")
    flag = value in ("True", "...", "")
    return _options[found[1]] if flag else f"{_options[found[1]]} {shlex.quote(value)}"
