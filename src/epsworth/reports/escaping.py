"""What comes from a file is hostile: names, labels and notes stay text, numbers stay data."""

from __future__ import annotations

import html
import json
import unicodedata
from typing import Any

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}  # controls, text that turns other text round, half characters, line ends
LONGEST = 100  # characters of a name
NOTE = 1000  # characters of a note


def cleaned(text: object, most: int = LONGEST) -> str:
    r"""Return text in which every character is seen: others are named, and what is too long is cut.

    Examples
    --------
    >>> cleaned("age\u202etxt"), cleaned("x" * 99, 4)
    ('age⟨U+202E⟩txt', 'xxx…')
    """
    given = str(text)
    shown = "".join(
        f"⟨U+{ord(letter):04X}⟩" if unicodedata.category(letter) in UNSEEN else letter for letter in given[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def escaped(text: object, most: int = LONGEST) -> str:
    """Return text for HTML, between tags or within quotes.

    Examples
    --------
    >>> escaped("</script>"), escaped('"')
    ('&lt;/script&gt;', '&quot;')
    """
    return html.escape(cleaned(text, most), quote=True)


def isolated(text: object, most: int = LONGEST) -> str:
    """Return a name for HTML whose direction of writing does not reach its neighbours.

    Examples
    --------
    >>> isolated("age")
    '<bdi>age</bdi>'
    """
    return f"<bdi>{escaped(text, most)}</bdi>"


def embedded(document: Any) -> str:
    r"""Return JSON that may stand within a script element: nothing in it can end the element or begin a comment.

    Examples
    --------
    >>> print(embedded("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
