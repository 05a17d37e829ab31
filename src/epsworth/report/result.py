"""From a result, or a file that holds one, to its page."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from epsworth.documents import FOREIGN, in_words, read_as, read_json
from epsworth.files import RESULT_BYTES, file_named, reading
from epsworth.numerals import short
from epsworth.policy import Policy
from epsworth.report.curves import curves_page
from epsworth.report.learned import learnt_page, plan_page, table_page
from epsworth.report.page import Document, Heading, Page, Source
from epsworth.report.policies import document_of, policy_page, tailored_page
from epsworth.report.releases import exposure_page, noise_page, pac_page
from epsworth.report.shown import Shown, held
from epsworth.space import LeakWarning
from epsworth.study import WANTED, StudyResult, is_study_result
from epsworth.utility.curves import FORMAT, Curves
from epsworth.utility.panels import Panels
from epsworth.utility.population import Population
from epsworth.utility.recommendation import recommend
from epsworth.utility.tailored import Tailored

LIMITS = ("max_epsilon", "at_most_sure")  # of which one is given
DOCUMENTS: dict[str, tuple[set[str], Callable[[Document, Source], Page]]] = {  # what a file of this kind holds
    "epsworth noise --json": ({"objective", "rows", "floor", "left_out", "advice"}, noise_page),
    "epsworth privatize --json": ({"release", "report"}, pac_page),
    "epsworth profile --json": ({"verdict", "wishes", "profile", "most_exposed"}, exposure_page),
    "epsworth learn plan --json": ({"epsilon", "users", "margin", "power", "mechanism"}, plan_page),
    "epsworth learn close --json": ({"users", "classes", "columns", "rounds", "honest"}, table_page),
    "epsworth learn fit --json": ({"users", "classes", "by_confidence", "box"}, learnt_page),
    "epsworth tailor --json": ({"tailored"}, tailored_page),
}
SHOWN = 5  # entries of a file that a refusal names
RESULTS = ("epsworth utility --json", "epsworth run -o", "epsworth recommend --json", *DOCUMENTS)


def report(
    result: Curves | StudyResult | Policy | Tailored,
    *,
    at_least: float | None = None,
    on: str | int | None = None,
    of: str | None = None,
    delta: float | None = None,
    max_epsilon: float | None = None,
    at_most_sure: float | None = None,
    command: str | None = None,
    panels: Panels | None = None,
    origins: Mapping[str, str] | None = None,
    heading: Heading | None = None,
) -> Page:
    """Return a result as a page: the decision, the curves, what the epsilon means, who is served worst.

    Claim: every number on the page is one of the result's, rounded to the safe side.  The page holds what was computed
    from raw records, and says so.

    Parameters
    ----------
    result : Curves, StudyResult, Policy or Tailored
        From `stability`; a study's; a policy alone, of which the page says what it promises and sends; or what
        `tailor` made.
    at_least, on, of, delta, max_epsilon, at_most_sure
        What is wanted of curves, as for `recommend`; by default what the study wants, or 0.9 of the labels on average.
        Readers can move the first on the page.
    command : str, optional
        What made the result, to be shown.
    panels : Panels, optional
        From ``epsworth.utility.panels.panels_of``: safe ranges, the map of labels, groups, declared ranges.
    origins : mapping of str to str, optional
        Where curves come from, word by word, to be shown: files, versions.
    heading : Heading, optional
        Title, purpose and author.

    Returns
    -------
    Page

    Raises
    ------
    TypeError
        For a result that has no page here, or panels, a command or origins of another kind.
    ValueError
        For a target outside (0, 1], and a view that the curves do not have.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm"], epsilons=[1, 2], rng=1)
    >>> page = ew.report.report(curves, at_least=0.6)
    >>> "Use Piecewise (pm) at " in page.html
    True
    """
    if panels is not None and not isinstance(panels, Panels):
        raise TypeError(f"panels must be what panels_of returns, got a {type(panels).__name__}")
    if origins is not None and not isinstance(origins, Mapping):
        raise TypeError(f"origins must be a mapping of texts, got {short(origins)}")
    if isinstance(result, Policy):
        text = result.to_toml()
        return policy_page(result, _source(text.encode(), command, heading), text)
    if isinstance(result, Tailored):
        return report_document(document_of(result), command=command, heading=heading)
    if not isinstance(result, (Curves, StudyResult)):
        raise TypeError(f"result must be Curves, a Policy, or what tailor returns, got a {type(result).__name__}")
    document = result.to_dict() | ({} if panels is None else beside(panels))
    source = replace(_source(_written(document), command, heading), origins=origins or {})
    wanted = dict(zip(WANTED, (at_least, on, of, delta, max_epsilon, at_most_sure), strict=True))
    if isinstance(result, StudyResult):
        return _of_study(result, wanted, source, document)
    return _of_curves(result, wanted, source, document.get("population"), panels)


def beside(panels: Panels) -> dict[str, Any]:
    """Return what a file keeps beside curves."""
    ranges = panels.domain if panels.declared else None
    declared = {} if ranges is None else {"domain": ranges.to_dict()}
    return declared | {"panels": panels.to_dict()}


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
    >>> "Take " in ew.report.report_document(ranked.to_dict()).html
    True
    """
    if not isinstance(document, Mapping):
        raise TypeError(f"document must be a mapping, as --json writes it, got a {type(document).__name__}")
    try:
        content = _written(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"document holds what JSON cannot: {error}; pass what to_dict returns") from None
    source = _source(content, command, heading)
    with _damaged():
        return _of_document(json.loads(content), {}, source, DOCUMENTS)


def report_file(
    path: str | Path,
    *,
    at_least: float | None = None,
    on: str | int | None = None,
    of: str | None = None,
    delta: float | None = None,
    max_epsilon: float | None = None,
    at_most_sure: float | None = None,
    heading: Heading | None = None,
) -> Page:
    """Return the page of a file that --json wrote, or of a policy; see `report`.

    Parameters
    ----------
    path : str or Path
        A policy (``.toml``), or JSON of `utility`, `recommend`, `run`, `tailor`, `noise`, `privatize`, `profile`,
        `learn plan` or `learn fit`.
    at_least, on, of, delta, max_epsilon, at_most_sure
        As for `report`; by default what the file itself asks.
    heading : Heading, optional
        Title, purpose and author.

    Raises
    ------
    ValueError
        For a file that is no such result.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm"], epsilons=[1, 2], rng=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     curves.save(Path(folder, "result.json"))
    ...     page = ew.report.report_file(Path(folder, "result.json"), at_least=0.6)
    >>> "Use Piecewise (pm) at " in page.html
    True
    """
    path = file_named(path)
    asked = dict(zip(WANTED, (at_least, on, of, delta, max_epsilon, at_most_sure), strict=True))
    if path.suffix.lower() == ".toml":
        with reading(path, "policy", most=RESULT_BYTES) as content:
            _nothing_asked(asked)
            text = content.decode()
            return policy_page(Policy.from_toml(text), _source(content, None, heading), text)
    with reading(path, "result file", most=RESULT_BYTES) as content:
        document, source = read_json(content), _source(content, None, heading)
        with _damaged():
            return _of_file(document if isinstance(document, Mapping) else {}, asked, source)


# ---- kinds of results


def _of_file(document: Document, asked: dict[str, Any], source: Source) -> Page:
    """Return the page of what --json or -o wrote; a recommendation is asked again what it was asked."""
    if is_study_result(document):
        return _of_study(StudyResult.from_dict(document), asked, source, document)
    said, curves = document.get("recommendation"), document.get("curves")
    if not isinstance(said, dict) or not isinstance(curves, dict):
        if document.get("format") != FORMAT:
            return _of_document(document, asked, source, RESULTS)
        said, curves = {}, document
    found, around = Curves.from_dict(curves), document.get("panels")
    if said:
        said = {name: said[name] for name in WANTED}
        if said["at_most_sure"] is not None:
            said["max_epsilon"] = None  # follows from it
    panels = None if around is None else Panels.from_dict(around)
    return _of_curves(found, _over(said, asked), source, curves.get("population"), panels)


def _of_document(document: Document, asked: dict[str, Any], source: Source, commands: Iterable[str]) -> Page:
    for needed, page in DOCUMENTS.values():
        if needed <= document.keys():
            _nothing_asked(asked)
            return page(document, source)
    first, *others = commands
    rest = ", ".join(one.removeprefix("epsworth ").removesuffix(" --json") for one in others)
    given = f"; its entries are {', '.join(map(short, list(document)[:SHOWN]))}" if document else ""
    raise ValueError(f"holds no result that has a page; write one with {first}, or likewise with {rest}{given}")


def _of_study(result: StudyResult, asked: dict[str, Any], source: Source, document: Document) -> Page:
    source, wanted = replace(source, origins=result.origins()), _over(result.study.wanted, asked)
    return _of_curves(result.curves, wanted, source, document["curves"].get("population"), result.panels)


def _of_curves(curves: Curves, asked: dict[str, Any], source: Source, population: Any, around: Panels | None) -> Page:
    defaults = {"at_least": 0.9, "on": "average" if len(curves.labels) > 1 else "worst", "of": "stability"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # the page says so where one record is looked at
        found = recommend(curves, **_over(defaults, asked))
    people = None  # where the file holds none they are computed
    if population is not None:
        people = {of: read_as(Population, population[of]) for of in held(curves)}
    return curves_page(Shown.of(curves, found, people, asked=asked.get("at_least") is not None), source, around)


def _over(said: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked, and what a file says where that is silent."""
    given = {name: value for name, value in asked.items() if value is not None}
    if given.keys() & set(LIMITS):
        said = {name: value for name, value in said.items() if name not in LIMITS}
    return {**said, **given}


def _source(content: bytes, command: str | None, heading: Heading | None) -> Source:
    if command is not None and not isinstance(command, str):
        raise TypeError(f"command must be a text, got {short(command)}")
    if heading is not None and not isinstance(heading, Heading):
        raise TypeError(f"heading must be a Heading of title, purpose and author, got {short(heading)}")
    return Source(content, command, heading=heading or Heading())


def _written(document: Document) -> bytes:
    return (json.dumps(dict(document), allow_nan=False) + "\n").encode()  # as `save` writes it


def _nothing_asked(asked: dict[str, Any]) -> None:
    if any(value is not None for value in asked.values()):
        raise ValueError(f"nothing is asked of this result: leave out {', '.join(WANTED)}")


@contextmanager
def _damaged() -> Iterator[None]:
    """Refuse what no page can be made of in a sentence, whichever part of it finds out."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, ArithmeticError, StopIteration, ValueError) as error:
        if isinstance(error, ValueError) and not str(error).startswith(FOREIGN):
            raise
        raise ValueError(f"result: damaged or incomplete ({in_words(error)})") from None
