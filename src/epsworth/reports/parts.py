"""What all pages share: sections, facts, sliders, tables to unfold, what is not protected, where a page comes from."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module

from epsworth.numerals import short
from epsworth.reports.escaping import NOTE, escaped, isolated
from epsworth.reports.glossary import glossary
from epsworth.rounding import round_up

MOST_WHOLE = 90_000  # letters of a whole result within its page: with the rest it stays below 250 kB
LETTERS = {"title": 120, "purpose": 600, "author": 120}  # at most, of a heading
MOST_NOTES = 12
MOST_PRINTED = 4  # notes on paper; the style sheet leaves out the others
MOST_POLICY = 100_000  # letters of a policy that a page, or a result, holds
POLICY = '<button type="button" data-save="policy">What clients must run (policy, TOML)</button>'


@dataclass(frozen=True)
class Heading:
    """What the author of a page says of it; each is shown as plain text.

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
    >>> heading = ew.reports.Heading(title="Ages of the survey", purpose="For the ethics board", author="A. Jansen")
    >>> "<h1>Ages of the survey</h1>" in ew.reports.report(policy, heading=heading).html
    True
    """

    title: str | None = None
    purpose: str | None = None
    author: str | None = None

    def __post_init__(self) -> None:
        for name, most in LETTERS.items():
            text = getattr(self, name)
            if text is None:
                continue
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a text, got {short(text)}")
            if not text.strip() or len(text) > most:
                raise ValueError(
                    f"{name} must have 1 to {most} letters, got {len(text.strip()):,}; "
                    f"{'shorten it' if text.strip() else 'leave it out'}"
                )


@dataclass(frozen=True)
class Origin:
    """Where a page comes from.

    Attributes
    ----------
    version : str
        Of this library.
    fingerprint : str
        SHA-256 of the result's JSON.
    size : int
        Its bytes.
    made : str
        The day on which the page was made.
    command : str or None
        What made the result.
    more : tuple of (str, str)
        What else is known of where it comes from, word and value, as plain text.
    heading : Heading
        What its author says of it.
    """

    version: str
    fingerprint: str
    size: int
    made: str
    command: str | None
    more: tuple[tuple[str, str], ...] = ()
    heading: Heading = field(default_factory=Heading)

    @classmethod
    def of(
        cls,
        content: bytes,
        command: str | None,
        *,
        more: tuple[tuple[str, str], ...] = (),
        heading: Heading | None = None,
    ) -> Origin:
        """Return that of a result as it is written, made by this library today."""
        fingerprint, today = hashlib.sha256(content).hexdigest(), datetime.now(UTC).strftime("%Y-%m-%d")
        version = import_module("epsworth").__version__  # the package stands above this room
        return cls(version, fingerprint, len(content), today, command, more, heading or Heading())

    def title(self, question: str) -> str:
        """Return the page's title: the question that it answers, unless its author gave another one."""
        return self.heading.title or question


def packed(content: bytes) -> str:
    """Return a result as its page holds it, or nothing where it is too large."""
    found = base64.b64encode(gzip.compress(content, 9, mtime=0)).decode() if len(content) < 4_000_000 else ""
    return found if len(found) <= MOST_WHOLE else ""


def page_body(question: str, about: str, sections: Iterable[str], origin: Origin, before: str = "") -> str:
    """Return what stands within a page's body: ``question`` is plain text, the rest HTML."""
    said, content = origin.heading, "\n".join(sections)
    asked = "" if said.title is None else f"{escaped(question)} "
    purpose = "" if said.purpose is None else f'<p class="purpose">{escaped(said.purpose, LETTERS["purpose"])}</p>'
    author = "" if said.author is None else f" Author: {isolated(said.author, LETTERS['author'])}."
    return (
        f"{before}<header><h1>{escaped(origin.title(question), LETTERS['title'])}</h1>{purpose}"
        f'<p class="about">{asked}{about}{author} Made by epsworth {origin.version} on {origin.made}.</p></header>\n'
        f"<main>\n{content}\n{glossary(about + content)}\n</main>"
    )


def section(name: str, title: str, content: str, kind: str = "") -> str:
    """Return a part of the page under a heading."""
    return f'<section class="{name}{kind}" aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{content}</section>'


def decision(sentence: str, told: Iterable[tuple[str, str, str]], good: bool, more: str = "") -> str:
    """Return the decision: a sentence of plain text, facts (value, words, name), and a plain sentence below them."""
    said = f'<p class="sentence" id="sentence" aria-live="polite">{escaped(sentence, NOTE)}</p>'
    below = f'<p class="caption">{escaped(more, NOTE)}</p>' if more else ""
    return section("decision", "The decision", said + facts(told) + below, "" if good else " no")


def facts(told: Iterable[tuple[str, str, str]]) -> str:
    """Return a few large numbers; each is a value, words and a name by which the script finds it."""
    said = "".join(f'<div><dd id="fact-{name}">{value}</dd><dt>{word}</dt></div>' for value, word, name in told)
    return f'<dl class="facts">{said}</dl>' if said else ""


def slider(name: str, label: str, value: int, most: int, shown: str, least: int = 0) -> str:
    """Return a slider over whole numbers, with what it stands for beside its label."""
    return (
        f'<p class="slider"><label for="{name}">{label}</label> <output for="{name}" id="{name}-shown">{shown}</output>'
        f'<input type="range" id="{name}" min="{least}" max="{max(most, least)}" value="{value}" step="1" '
        f'aria-valuetext="{shown}" autocomplete="off"></p>'
    )


def bars(widths: Iterable[float], words: Sequence[str], name: str) -> str:
    """Return bars of shares in per cent, with a word before each."""
    return "".join(
        f'<span class="word">{word}</span>{bar(width, f"{name}-{i}")}'
        for i, (width, word) in enumerate(zip(widths, words, strict=True))
    )


def bar(width: float, name: str = "") -> str:
    """Return a bar of a share in per cent."""
    mark = f' id="{name}"' if name else ""
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><path d="M0 4h100"/>'
        f'<rect{mark} width="{round_up(width, 1):g}" height="8"/></svg>'
    )


def unfolded(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table to be unfolded beside a picture: plain title, heads and cells as HTML, a row's first a head."""
    body = "".join(f"<tr><th scope=row>{row[0]}{''.join(f'<td>{cell}' for cell in row[1:])}" for row in rows)
    names = "".join(f'<th scope="col">{head}' for head in heads[1:])
    return (
        f"<details><summary>Numbers: {escaped(title)}</summary>"
        f'<div class="wide" role="region" tabindex="0" aria-label="{escaped(title)}"><table class="data">'
        f"<thead><tr><th scope=col>{heads[0]}{names}</thead><tbody>{body}</tbody></table></div></details>"
    )


def limits(raw: str, said: Iterable[str], notes: Sequence[str], kind: str = "raw") -> str:
    """Return what is not protected: who may see the page, sentences as HTML, and the result's notes as plain text."""
    shown = [f"Note: {escaped(note, NOTE)}." for note in notes[:MOST_NOTES]]
    if len(notes) > MOST_NOTES:
        shown.append(f"{len(notes) - MOST_NOTES} more notes stand in the result.")
    if len(shown) > MOST_PRINTED:
        shown.insert(MOST_PRINTED - 1, '<span class="paper">More notes stand in the file this was printed from.</span>')
    listed = "".join(f"<li>{one}</li>" for one in said) + "".join(f'<li class="note">{one}</li>' for one in shown)
    return section("limits", "What is not protected", f'<p class="{kind}">{raw}</p><ul>{listed}</ul>')


def computed(told: Iterable[tuple[str, str]], origin: Origin) -> str:
    """Return how a result was computed: words and values as HTML, its fingerprint, the command."""
    entries = [
        *told,
        ("Result", f'{origin.size:,} bytes, SHA-256 <code class="print">{origin.fingerprint}</code>'),
    ]
    if origin.command is not None:
        command = escaped(without_folders(origin.command), NOTE)
        entries.append(("Command, files without their folders", f"<code>{command}</code>"))
    said = "".join(f"<div><dt>{word}</dt><dd>{value}</dd></div>" for word, value in entries)
    read = "".join(
        f"<div><dt>{escaped(word, NOTE)}</dt><dd>{escaped(value, NOTE)}</dd></div>" for word, value in origin.more
    )
    said = f'{said}</dl><dl class="origin-facts read">{read}' if read else said
    return section("origin", "How this was computed", f'<dl class="origin-facts">{said}</dl>')


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
    name = re.split(r"[/\\]", word.replace("'", "").replace('"', "").rstrip("/\\"))[-1]
    return f"{option}{sign}{shlex.quote(name)}" if name else token


def downloads(origin: Origin, whole: str, holds: str, more: str = "", others: str = "", *, large: bool = True) -> str:
    """Return buttons that save what the page holds; ``holds`` says what the result does; ``others`` are HTML.

    ``large`` says that a result which is not held is too large, not one that the file itself is.
    """
    buttons = '<button type="button" data-save="numbers">Numbers of this page (CSV)</button>'
    if whole:
        buttons = f'<button type="button" data-save="whole">The whole result (JSON)</button>{buttons}'
    elif large:
        holds = f"The whole result ({origin.size:,} bytes) is too large for a page; its fingerprint stands above."
    return section(
        "downloads",
        "Take it with you",
        f'<p class="buttons">{others}{buttons}</p><p class="caption">{holds} {more}</p>',
    )
