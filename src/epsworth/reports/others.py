"""The pages of noise, PAC, exposure and learner: what their --json writes, and what makes a page of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from epsworth.documents import FOREIGN, in_words
from epsworth.numerals import short
from epsworth.reports.exposure_page import exposure_page
from epsworth.reports.held import Held
from epsworth.reports.learnt_page import learnt_page
from epsworth.reports.noise_page import noise_page
from epsworth.reports.pac_page import pac_page
from epsworth.reports.page import Page
from epsworth.reports.parts import Heading, Origin, packed
from epsworth.reports.plan_page import plan_page
from epsworth.reports.tailored_page import tailored_page

Maker = Callable[[Held, Origin, str], Page]
PAGES: dict[str, tuple[frozenset[str], Maker]] = {  # what a file of this kind holds
    "epsworth noise --json": (frozenset({"rows", "floor", "left_out", "advice"}), noise_page),
    "epsworth privatize --json": (frozenset({"release", "report"}), pac_page),
    "epsworth profile --json": (frozenset({"verdict", "wishes", "profile", "most_exposed"}), exposure_page),
    "epsworth learn plan --json": (frozenset({"epsilon", "users", "margin", "power", "mechanism"}), plan_page),
    "epsworth tailor --json": (frozenset({"tailored"}), tailored_page),
    "epsworth learn fit --json": (frozenset({"users", "classes", "by_confidence", "box"}), learnt_page),
}


def kind_of(document: Mapping[str, Any]) -> str | None:
    """Return whose result a document is; None where it has no page here."""
    return next((name for name, (needed, _) in PAGES.items() if needed <= document.keys()), None)


def report_document(document: Mapping[str, Any], *, command: str | None = None, heading: Heading | None = None) -> Page:
    """Return what --json of `noise`, `privatize`, `profile`, `tailor`, `learn plan` or `learn fit` writes as a page.

    Claim: every number on the page is one of the document's, or computed from it, rounded to the safe side.

    Parameters
    ----------
    document : mapping
        As the command writes it.
    command : str, optional
        What made it, to be shown.
    heading : Heading, optional
        Title, purpose and author.

    Returns
    -------
    Page

    Raises
    ------
    TypeError
        For what is no mapping.
    ValueError
        For a document that is none of these, or a damaged one.

    Examples
    --------
    >>> import epsworth as ew
    >>> ranked = ew.noise.cheapest(5, confidence=0.95, delta=0)
    >>> "Take " in ew.reports.report_document(ranked.to_dict()).html
    True
    """
    if not isinstance(document, Mapping):
        raise TypeError(f"document must be a mapping, as --json writes it, got a {type(document).__name__}")
    if command is not None and not isinstance(command, str):
        raise TypeError(f"command must be a text, got {short(command)}")
    return page_of(document, (_written(document) + "\n").encode(), command, checked_heading(heading))


def _written(document: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(document), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"document holds what JSON cannot: {error}; pass what to_dict returns") from None


def checked_heading(heading: object) -> Heading | None:
    """Return a heading; refuse what is none."""
    if heading is not None and not isinstance(heading, Heading):
        raise TypeError(f"heading must be a Heading of title, purpose and author, got {short(heading)}")
    return heading


def page_of(
    document: Mapping[str, Any], content: bytes, command: str | None = None, heading: Heading | None = None
) -> Page:
    """Return the page of a document, whose file this is."""
    name = kind_of(document)
    if name is None:
        raise ValueError(f"holds no result that has a page; write one with {' or '.join(PAGES)}")
    with damaged():
        return PAGES[name][1](Held(document, "result"), Origin.of(content, command, heading=heading), packed(content))


@contextmanager
def damaged() -> Iterator[None]:
    """Refuse what no page can be made of in a sentence, whichever part of it finds out."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, ArithmeticError, StopIteration) as error:
        raise ValueError(f"result: damaged or incomplete ({in_words(error)})") from None
    except ValueError as error:
        raise (
            ValueError(f"result: damaged ({in_words(error)})") if str(error).startswith(FOREIGN) else error
        ) from None
