"""The page of a result, or of a file that holds one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from epsworth.documents import in_words, json_of, read_as, read_json
from epsworth.files import RESULT_BYTES, file_named, reading
from epsworth.numerals import short
from epsworth.policy import Policy
from epsworth.refusals import is_ours
from epsworth.report.curves import curves_page
from epsworth.report.curves_view import CurvesView, quantities_of
from epsworth.report.learned import learnt_page, plan_page, table_page
from epsworth.report.page import Document, Heading, Page, Source
from epsworth.report.policies import document_of, policy_page, tailored_page
from epsworth.report.releases import exposure_page, noise_page, pac_page
from epsworth.space import Domain, LeakWarning
from epsworth.study import REQUEST, StudyResult, is_study_result
from epsworth.utility.curves import FORMAT, Curves
from epsworth.utility.panels import Panels
from epsworth.utility.population import Population
from epsworth.utility.recommendation import recommend
from epsworth.utility.tailored import Tailored

LIMITS = ("max_epsilon", "at_most_sure")  # of which one is given
DOCUMENTS: tuple[tuple[set[str], Callable[[Document, Source], Page]], ...] = (  # by what --json of a command holds
    ({"objective", "rows", "floor", "left_out", "advice"}, noise_page),
    ({"release", "report"}, pac_page),
    ({"verdict", "wishes", "profile", "most_exposed"}, exposure_page),
    ({"epsilon", "users", "margin", "power", "mechanism"}, plan_page),
    ({"users", "classes", "columns", "rounds", "honest"}, table_page),
    ({"users", "classes", "by_confidence", "box"}, learnt_page),
    ({"tailored"}, tailored_page),
)
MOST_ENTRIES = 5  # of a file, that a refusal names
HAVE_PAGES = (
    "a policy has one, and what epsworth run -o or --json of recommend, utility, tailor, noise, privatize, "
    "profile TABLE, learn plan, learn fit or learn close wrote"
)
KINDS = "Curves, a StudyResult, a Policy, what tailor returns, a mapping that --json wrote, or a file of these"


def report(
    result: Curves | StudyResult | Policy | Tailored | Mapping[str, Any] | str | Path,
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

    Claim: every number on the page is one of the result's, or computed from it, rounded to the safe side.  A page that
    is computed from raw records says so.

    Parameters
    ----------
    result : Curves, StudyResult, Policy, Tailored, mapping, str or Path
        What `stability`, a study or `tailor` returned, or a policy; what --json of a command writes, as a mapping; or
        a file that holds it, or a policy (``.toml``).
    at_least, on, of, delta, max_epsilon, at_most_sure
        What is wanted of curves, as for `recommend`; by default what the study or the file asks, or 0.9 of the labels
        on average.  Readers can move the first on the page.
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
        For a result that has no page, or panels, a command or origins of another kind.
    ValueError
        For a target outside (0, 1], a view that the curves do not have, and a file or mapping that is no such result,
        or a damaged one.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm"], epsilons=[1, 2], rng=1)
    >>> page = ew.report.report(curves, at_least=0.6)
    >>> "Use Piecewise (pm) at " in page.html
    True
    >>> ranked = ew.noise.cheapest(5, confidence=0.95, delta=0)
    >>> "Take " in ew.report.report(ranked.to_dict()).html
    True
    """
    for name, value, kind, words in (
        ("panels", panels, Panels, "what panels_of returns"), ("origins", origins, Mapping, "a mapping of texts"),
        ("command", command, str, "a text"), ("heading", heading, Heading, "a Heading of title, purpose and author"),
    ):  # fmt: skip
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {words}, got {short(value)}")
    source = Source(b"", command, origins or {}, heading or Heading())
    requested = dict(zip(REQUEST, (at_least, on, of, delta, max_epsilon, at_most_sure), strict=True))
    if isinstance(result, (str, Path)):
        return _of_file(file_named(result, "result"), requested, source)
    if isinstance(result, Policy):
        return _of_policy(result.to_toml(), requested, source)
    if isinstance(result, Tailored):
        result = document_of(result)
    if isinstance(result, Mapping):
        try:
            document = read_json(content := json_of(result))
        except ValueError as error:
            raise ValueError(f"result: {error}") from None
        return _of_document(document, requested, replace(source, content=content))
    if not isinstance(result, (Curves, StudyResult)):
        raise TypeError(f"result must be {KINDS}, got a {type(result).__name__}")
    document = result.to_dict() | ({} if panels is None else panels_document(panels))
    source = replace(source, content=_json(document))
    if isinstance(result, StudyResult):
        return _of_study(result, requested, source, document)
    return _of_curves(result, requested, source, document, panels)


def answer_page(
    document: Document, curves: Curves, requested: Mapping[str, Any], panels: Panels | None, *,
    command: str, origins: Mapping[str, str],
) -> Page:  # fmt: skip
    """Return the page of what a command writes of curves that it still has: ``document`` holds them, too."""
    source = Source(_json(document), command, origins)
    return _of_curves(curves, dict(requested), source, document, panels)


def panels_document(panels: Panels | None, domain: Domain | None = None) -> dict[str, Any]:
    """Return what a file keeps beside curves: what a page shows of one record, and declared ranges."""
    ranges = domain if panels is None else panels.domain if panels.declared else None
    declared = {} if ranges is None else {"domain": ranges.to_dict()}
    return declared if panels is None else declared | {"panels": panels.to_dict()}


# ---- kinds of results


def _of_file(path: Path, requested: dict[str, Any], source: Source) -> Page:
    policy = path.suffix.lower() == ".toml"
    with reading(path, "policy" if policy else "result file", most=RESULT_BYTES) as content:
        if policy:
            return _of_policy(content.decode(), requested, source)
        document, source = read_json(content), replace(source, content=content)
        return _of_document(document if isinstance(document, Mapping) else {}, requested, source)


def _of_policy(content: str, requested: dict[str, Any], source: Source) -> Page:
    _check_no_request(requested)
    return policy_page(Policy.from_toml(content), replace(source, content=content.encode()), content)


def _of_document(document: Document, requested: dict[str, Any], source: Source) -> Page:
    """Return the page of what --json or -o wrote; a recommendation is computed again as its file says."""
    with _check_damage():
        if is_study_result(document):
            return _of_study(StudyResult.from_dict(document), requested, source, document)
        recommendation, entries = document.get("recommendation"), document.get("curves")
        if not isinstance(recommendation, dict) or not isinstance(entries, dict):
            recommendation, entries = {}, document
        if entries.get("format") != FORMAT:
            return _of_command(document, requested, source)
        curves, panels = Curves.from_dict(entries), document.get("panels")
        defaults = {name: recommendation[name] for name in REQUEST} if recommendation else {}
        if defaults.get("at_most_sure") is not None:
            defaults["max_epsilon"] = None  # follows from it
        panels = None if panels is None else Panels.from_dict(panels)
        return _of_curves(curves, _merge(defaults, requested), source, document, panels)


def _of_command(document: Document, requested: dict[str, Any], source: Source) -> Page:
    for keys, page in DOCUMENTS:
        if keys <= document.keys():
            _check_no_request(requested)
            return page(document, source)
    given = f"; its entries are {', '.join(map(short, list(document)[:MOST_ENTRIES]))}" if document else ""
    raise ValueError(f"holds no result that has a page: {HAVE_PAGES}{given}")


def _of_study(result: StudyResult, requested: dict[str, Any], source: Source, document: Document) -> Page:
    source, requested = replace(source, origins=result.origins()), _merge(result.study.request, requested)
    return _of_curves(result.curves, requested, source, document, result.panels)


def _of_curves(
    curves: Curves, requested: dict[str, Any], source: Source, document: Document, panels: Panels | None
) -> Page:
    """Return the page of curves that a document holds."""
    defaults = {"at_least": 0.9, "on": "average" if len(curves.labels) > 1 else "worst", "of": "stability"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # the page says so where one record is looked at
        recommendation = recommend(curves, **_merge(defaults, requested))
    people = None  # where the file holds none they are computed
    if (population := document.get("curves", document).get("population")) is not None:
        people = {of: read_as(Population, population[of]) for of in quantities_of(curves)}
    view = CurvesView.of(curves, recommendation, people, requested=requested.get("at_least") is not None)
    return curves_page(view, source, panels or _ranges_alone(curves, document.get("domain")))


def _ranges_alone(curves: Curves, declared: Any) -> Panels | None:
    """Return, where a document holds no panels, what it declares of the perturbed features."""
    domain = None if declared is None else Domain.from_dict(declared)
    if domain is None or any(name not in domain for name in curves.features):
        return None
    return Panels(0, len(curves.labels), domain=Domain(tuple(domain[name] for name in curves.features)))


def _merge(defaults: dict[str, Any], requested: dict[str, Any]) -> dict[str, Any]:
    """Return what is requested, and what a file says where that is silent."""
    given = {name: value for name, value in requested.items() if value is not None}
    dropped = LIMITS if given.keys() & set(LIMITS) else ()
    return {name: value for name, value in defaults.items() if name not in dropped} | given


def _json(document: Document) -> bytes:
    """Return a result as `save` writes it."""
    return (json.dumps(document, allow_nan=False) + "\n").encode()


def _check_no_request(requested: dict[str, Any]) -> None:
    if asked := [f"{name}=" for name, value in requested.items() if value is not None]:
        raise ValueError(f"nothing is asked of this result: leave out {', '.join(asked)}")


@contextmanager
def _check_damage() -> Iterator[None]:
    """Refuse what no page can be made of in a sentence, whichever part of it finds out."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, ArithmeticError, StopIteration, ValueError) as error:
        if isinstance(error, ValueError) and is_ours(error):
            raise
        raise ValueError(f"result: damaged or incomplete ({in_words(error)})") from None
