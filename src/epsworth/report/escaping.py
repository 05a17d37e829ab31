"""What comes from a file is hostile: names, labels and notes stay text, numbers stay data."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}  # controls, text that turns other text round, half characters, line ends
LONGEST, NOTE = 100, 1000  # characters of a name, and of a sentence
MOST_NAMES = 12  # columns that are named


def cleaned(text: object, most: int = LONGEST) -> str:
    r"""Return text in which every character is seen: others are named, and what is too long is cut.

    Examples
    --------
    >>> cleaned("age\u202etxt"), cleaned("x" * 99, 4)
    ('age⟨U+202E⟩txt', 'xxx…')
    """
    shown = "".join(
        f"⟨U+{ord(letter):04X}⟩" if unicodedata.category(letter) in UNSEEN else letter
        for letter in str(text)[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def escaped(text: object, most: int = NOTE) -> Markup:
    """Return text for HTML, between tags or within quotes; markup of this package stays.

    Examples
    --------
    >>> str(escaped("</script>")), str(escaped('"'))
    ('&lt;/script&gt;', '&#34;')
    """
    from markupsafe import Markup, escape

    return text if isinstance(text, Markup) else escape(cleaned(text, most))


def name(text: object, most: int = LONGEST) -> Markup:
    """Return a name for HTML whose direction of writing does not reach its neighbours."""
    return markup("<bdi>{}</bdi>", cleaned(text, most))


def names(texts: Sequence[object], most: int = MOST_NAMES, letters: int = LONGEST) -> Markup:
    """Return the first of some names for HTML, and say how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return markup("{}{}", markup(", ").join(name(one, letters) for one in texts[:most]), more)


def markup(template: str, *texts: object, **words: object) -> Markup:
    """Return HTML of this package with texts filled in, which are escaped."""
    from markupsafe import Markup

    if not texts and not words:
        return Markup(template)
    return Markup(template).format(*map(escaped, texts), **{key: escaped(one) for key, one in words.items()})


def code(text: object, most: int = LONGEST) -> Markup:
    """Return a fingerprint for HTML."""
    return markup('<code class="print">{}</code>', cleaned(text, most))


def embedded(document: Any) -> str:
    r"""Return JSON that may stand within a script element: nothing in it can end the element or begin a comment.

    Examples
    --------
    >>> print(embedded("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def without_folders(command: str) -> str:
    """Return a command whose files are named without their folders, which tell about their owner; addresses stay.

    Examples
    --------
    >>> without_folders("epsworth utility /home/jane/m.skops '/home/jane doe/people.csv' --json=/tmp/a.json -s age")
    'epsworth utility m.skops people.csv --json=a.json -s age'
    """
    return re.sub(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""", lambda found: _without_folder(found[0]), command)


def _without_folder(token: str) -> str:
    if not re.search(r"[/\\]", token) or "://" in token:
        return token
    option, sign, word = re.fullmatch(r"(?s)(?:(-[-\w]+)(=))?(.*)", token).groups("")  # type: ignore[union-attr]
    last = re.split(r"[/\\]", word.replace("'", "").replace('"', "").rstrip("/\\"))[-1]
    return f"{option}{sign}{shlex.quote(last)}" if last else token
