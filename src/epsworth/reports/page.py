"""The frame of every page: one file that asks for nothing, runs one known script and can be read without it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from epsworth.files import OutputError, check_writable, file_named, write_text
from epsworth.reports.escaping import embedded, escaped

STYLES = ("page.css",)


def check_page(path: str | Path) -> None:
    """Refuse a page that cannot be written, or whose name says that it is something else."""
    named = file_named(path)
    check_writable(named)
    if named.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"cannot write {path}: a page ends in .html; change the ending")


@dataclass(frozen=True, repr=False)
class Page:
    """One self-contained HTML file.

    Attributes
    ----------
    html : str
        The whole file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm"], epsilons=[1, 2], rng=1)
    >>> page = ew.reports.report(curves, at_least=0.6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page.save(Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8") == page.html
    True
    """

    html: str

    def __repr__(self) -> str:
        return f"<Page: {len(self.html.encode()) / 1000:.0f} kB>"

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all; its name ends in .html."""
        check_page(path)
        write_text(path, self.html)


def framed(
    title: str, body: str, *, numbers: Any, scripts: Sequence[str], whole: str = "", styles: Sequence[str] = STYLES
) -> Page:
    """Return a page around a body.

    Claim: a browser that enforces its policy loads nothing, sends nothing, and runs no script and no style but those
    of this package: whatever the body holds, an inline script or style in it has another digest.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML, escaped.
    numbers : JSON document
        What the script reads.
    scripts : sequence of str
        Files of this package that make up the one script, in order.
    whole : str
        The result itself, gzip in base64, to be downloaded; or nothing.
    styles : sequence of str
        Files of this package that make up the one style, in order.
    """
    style, script = _joined(*styles), _joined(*scripts)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    kept = f'<script type="text/plain" id="whole">{escaped(whole, len(whole))}</script>\n' if whole else ""
    return Page(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{escaped(title, 200)}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="numbers">{embedded(numbers)}</script>
{kept}<script>{script}</script>
</body>
</html>
"""
    )


@cache
def _joined(*names: str) -> str:
    """Return files of this package as one text that may stand within its element."""
    folder = files("epsworth.reports")
    text = "\n" + "".join((folder / name).read_text(encoding="utf-8") for name in names)
    if any(word in text.lower() for word in ("</script", "</style", "<!--")):
        raise AssertionError(f"{', '.join(names)}: would end the element it stands in")
    return text


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
