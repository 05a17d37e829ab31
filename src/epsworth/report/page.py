"""A page as one self-contained HTML file.

It loads nothing, runs one known script and can be read without it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from epsworth.files import OutputError, check_writable, file_named, write_text
from epsworth.numerals import short
from epsworth.report import text
from epsworth.report.blocks import Block
from epsworth.report.charts import SHAPES
from epsworth.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

Document = Mapping[str, Any]  # what --json writes
LETTERS = {"title": 120, "purpose": 600, "author": 120}  # at most, of a heading
MOST_PAGE = 250_000  # bytes, with the result within
MOST_RESULT = 4_000_000  # bytes of a result that may compress to fewer
MOST_POLICY = 100_000  # letters of a policy that a page, or a result, holds


@dataclass(frozen=True)
class Heading:
    """An author's title, purpose and name for a page, each as plain text.

    Attributes
    ----------
    title : str, optional
        In place of the question that the page answers; at most 120 letters, as ``author``.
    purpose : str, optional
        What the page is made for; at most 600 letters.
    author : str, optional
        Who made it.

    Examples
    --------
    >>> import epsworth as ew
    >>> policy = ew.Policy.of("pm", 1, {"age": (0, 100)})
    >>> heading = ew.report.Heading(title="Ages of the survey", purpose="For the ethics board", author="A. Jansen")
    >>> "<h1>Ages of the survey</h1>" in ew.report.report(policy, heading=heading).html
    True
    """

    title: str | None = None
    purpose: str | None = None
    author: str | None = None

    def __post_init__(self) -> None:
        for name, most in LETTERS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a text, got {short(value)}")
            if value is not None and not 1 <= (letters := len(value.strip())) <= most:
                remedy = "shorten it" if letters else "leave it out"
                raise ValueError(f"{name} must have 1 to {most} letters, got {letters:,}; {remedy}")


@dataclass(frozen=True)
class Source:
    """The origin of a page: its result's file, the command, further origins by word, and its author's heading."""

    content: bytes
    command: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    heading: Heading = field(default_factory=Heading)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the result's JSON."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def archive(self) -> str:
        """The result as its page holds it, gzip in base64; or nothing where it is too large for any page."""
        if len(self.content) >= MOST_RESULT:
            return ""
        return base64.b64encode(gzip.compress(self.content, 9, mtime=0)).decode()


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
    >>> page = ew.report.report(curves, at_least=0.6)
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


def check_page(path: str | Path) -> None:
    """Refuse a page that cannot be written, or whose name says that it is something else."""
    check_writable(path)
    if file_named(path).suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"cannot write {path}: a page ends in .html; change the ending")


def page(
    question: str, about: object, sections: Iterable[Block | None], source: Source, *,
    origin: Iterable[tuple[str, object]], holds: str = "", more: object = "", title: str = "", policy: str = "",
    whole: bool = True, numbers: Mapping[str, Any] | None = None,
) -> Page:  # fmt: skip
    """Return a page; ``numbers`` are what the script reads on a page of curves; other pages' sliders hold all.

    Claim: a browser that enforces its policy loads nothing, sends nothing, and runs no script and no style but those
    of this package: whatever the page holds, an inline script or style in it has another digest.
    """
    parts = [part for part in sections if part is not None]
    sliders = (block for part in parts for block in part["blocks"] if block["is"] == "slider")
    data = {"sliders": {block["key"]: block["changes"] for block in sliders}} if numbers is None else numbers
    archive, html = source.archive if whole else "", ""
    render = partial(
        _template().render,
        question=question, about=about, sections=parts, source=source, title=source.heading.title or title or question,
        policy=bool(policy), more=more, origin=list(origin),
        interactive=numbers is not None, numbers={**data, **({"policy": policy} if policy else {})},
        command=None if source.command is None else text.without_folders(source.command),
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
    )  # fmt: skip
    if archive or not whole:
        html = render(whole=Markup(archive), holds=holds)
    if not html or (archive and len(html.encode()) > MOST_PAGE):
        size = f"{len(source.content):,} bytes"
        holds = f"The whole result ({size}) is too large for a page; its fingerprint stands above."
        html = render(whole="", holds=holds)
    return Page(html)


@cache
def _template() -> Template:
    """Return the one template, which escapes all output and makes its characters visible."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = files("epsworth.report")
    environment = Environment(
        loader=FileSystemLoader(str(folder)), autoescape=True, undefined=StrictUndefined, finalize=text.escaped,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    style, script = (Markup("\n" + (folder / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    environment.globals |= {
        "style": style, "script": script, "digests": (_digest(style), _digest(script)), "terms_in": text.terms_in,
        "shapes": list(map(Markup, SHAPES)), "version": __version__,
    }  # fmt: skip
    return environment.get_template("page.html.jinja")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
