"""From a result, or a file that holds one, to its page."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epsworth.documents import in_words, read_as, read_json
from epsworth.files import RESULT_BYTES, file_named, reading
from epsworth.numerals import short
from epsworth.policy import Policy
from epsworth.reports.numbers import Shown
from epsworth.reports.others import PAGES, checked_heading, damaged, page_of, report_document
from epsworth.reports.page import Page
from epsworth.reports.parts import Heading, Origin, packed
from epsworth.reports.policy_page import policy_page
from epsworth.reports.tailored_page import document_of
from epsworth.reports.utility import utility_page
from epsworth.space import LeakWarning
from epsworth.studies.result import StudyResult, is_study_result
from epsworth.studies.study import WANTED
from epsworth.utility.curves import FEWEST_ROWS, FORMAT, QUANTITIES, Curves, Quantity
from epsworth.utility.population import Population
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.surroundings import Surroundings
from epsworth.utility.tailored import Tailored


@dataclass(frozen=True)
class Question:
    """What is asked of curves: as for `recommend`; None where the file says it, or the default is meant."""

    at_least: float | None = None
    on: str | int | None = None
    of: str | None = None
    delta: float | None = None
    max_epsilon: float | None = None
    at_most_sure: float | None = None

    def over(self, said: Mapping[str, Any]) -> Question:
        """Return this question, and what a file says where it is silent."""
        given = {name: getattr(self, name) for name in WANTED if getattr(self, name) is not None}
        if given.keys() & LIMITS:
            said = {name: value for name, value in said.items() if name not in LIMITS}
        return Question(**{**said, **given})


@dataclass(frozen=True)
class Said:
    """What is said of a page beside its result: the command, where curves come from, a heading."""

    command: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    heading: Heading | None = None

    def origin(self, content: bytes) -> Origin:
        """Return where the page of a file's content comes from."""
        return Origin.of(content, self.command, more=tuple(self.origins.items()), heading=self.heading)


LIMITS = {"max_epsilon", "at_most_sure"}  # of which one is given


def report(
    result: Curves | Policy | Tailored,
    *,
    at_least: float = 0.9,
    on: str | int = "average",
    of: str = "stability",
    delta: float | None = None,
    max_epsilon: float | None = None,
    at_most_sure: float | None = None,
    command: str | None = None,
    surroundings: Surroundings | None = None,
    origins: Mapping[str, str] | None = None,
    heading: Heading | None = None,
) -> Page:
    """Return a result as a page: the decision, the curves, what the epsilon means, who is served worst.

    Claim: every number on the page is one of the result's, rounded to the safe side.  The page holds what was computed
    from raw records, and says so.

    Parameters
    ----------
    result : Curves, Policy or Tailored
        From `stability`; a policy alone, of which the page says what it promises and sends; or what `tailor` made.
    at_least, on, of, delta, max_epsilon, at_most_sure
        What is wanted of curves, as for `recommend`; readers can move the first on the page.
    command : str, optional
        What made the result, to be shown.
    surroundings : Surroundings, optional
        From ``epsworth.utility.surroundings.look_around``: safe ranges, the map of labels, groups, declared ranges.
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
        For a result that has no page here, or surroundings, a command or origins of another kind.
    ValueError
        For a target outside (0, 1], and a view that the curves do not have.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2]], sensitive=0, mechanisms=["pm"], epsilons=[1, 2], rng=1)
    >>> page = ew.reports.report(curves, at_least=0.6)
    >>> "Use Piecewise (pm) at " in page.html
    True
    """
    if command is not None and not isinstance(command, str):
        raise TypeError(f"command must be a text, got {short(command)}")
    if surroundings is not None and not isinstance(surroundings, Surroundings):
        raise TypeError(f"surroundings must be what look_around returns, got a {type(surroundings).__name__}")
    if origins is not None and not isinstance(origins, Mapping):
        raise TypeError(f"origins must be a mapping of texts, got {short(origins)}")
    checked_heading(heading)
    if not isinstance(result, (Curves, Policy, Tailored)):
        raise TypeError(f"result must be Curves, a Policy, or what tailor returns, got a {type(result).__name__}")
    if isinstance(result, Policy):
        text = result.to_toml()
        return policy_page(result, Origin.of(text.encode(), command, heading=heading), text)
    if isinstance(result, Tailored):
        return report_document(document_of(result), command=command, heading=heading)
    document = result.to_dict() | ({} if surroundings is None else beside(surroundings))
    content = (json.dumps(document, allow_nan=False) + "\n").encode()  # as `save` writes it
    asked = Question(at_least, on, of, delta, max_epsilon, at_most_sure)
    said = Said(command, origins or {}, heading)
    return _of_curves(result, asked, content, said, document.get("population"), surroundings)


def beside(surroundings: Surroundings) -> dict[str, Any]:
    """Return what a file keeps beside curves."""
    ranges = surroundings.domain if surroundings.declared else None
    declared = {} if ranges is None else {"domain": ranges.to_dict()}
    return declared | {"surroundings": surroundings.to_dict()}


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
    ...     page = ew.reports.report_file(Path(folder, "result.json"), at_least=0.6)
    >>> "Use Piecewise (pm) at " in page.html
    True
    """
    path, said = file_named(path), Said(heading=checked_heading(heading))
    if path.suffix.lower() == ".toml":
        with reading(path, "policy", most=RESULT_BYTES) as content:
            _nothing_asked(Question(at_least, on, of, delta, max_epsilon, at_most_sure))
            text = content.decode()
            return policy_page(Policy.from_toml(text), said.origin(content), text)
    with reading(path, "result file", most=RESULT_BYTES) as content:
        document = read_json(content)
        for fits, page in RESULTS.values():
            if isinstance(document, Mapping) and fits(document):
                with damaged():
                    return page(document, Question(at_least, on, of, delta, max_epsilon, at_most_sure), content, said)
        raise ValueError(f"holds no result that has a page; write one with {' or '.join(RESULTS)}")


def _curves_page(document: Mapping[str, Any], asked: Question, content: bytes, said: Said) -> Page:
    curves, population = Curves.from_dict(document), document.get("population")
    return _of_curves(curves, asked, content, said, population, _surroundings(document))


def _surroundings(document: Mapping[str, Any]) -> Surroundings | None:
    held = document.get("surroundings")
    return None if held is None else Surroundings.from_dict(held)


def _recommendation_page(document: Mapping[str, Any], asked: Question, content: bytes, said: Said) -> Page:
    """Ask the curves again what the file asked them."""
    made, held = document["recommendation"], document["curves"]
    curves = Curves.from_dict(held)
    try:
        wanted = {name: made[name] for name in WANTED}
    except (KeyError, TypeError) as error:
        raise ValueError(f"recommendation: damaged or incomplete ({in_words(error)})") from None
    if wanted["at_most_sure"] is not None:
        wanted["max_epsilon"] = None  # follows from it
    return _of_curves(curves, asked.over(wanted), content, said, held.get("population"), _surroundings(document))


def _study_page(document: Mapping[str, Any], asked: Question, content: bytes, said: Said) -> Page:
    return _of_study(
        StudyResult.from_dict(document), asked, content, said
    )  # what it holds of a population is computed anew


def study_page(result: StudyResult, command: str | None = None) -> Page:
    """Return the page of a study's result: what it asks is what its page answers; see `report`."""
    document = result.to_dict()
    content = (json.dumps(document, allow_nan=False) + "\n").encode()  # as `save` writes it
    return _of_study(result, Question(), content, Said(command), document["curves"].get("population"))


def _of_study(result: StudyResult, asked: Question, content: bytes, said: Said, population: Any = None) -> Page:
    asked, said = asked.over(result.study.wanted), replace(said, origins=result.origins())
    return _of_curves(result.curves, asked, content, said, population, result.surroundings)


def _of_curves(
    curves: Curves, asked: Question, content: bytes, said: Said, population: Any = None,
    surroundings: Surroundings | None = None,
) -> Page:  # fmt: skip
    found = _chosen(curves, asked)
    shown = Shown.of(curves, found, _populations(curves, found, population))
    return utility_page(shown, said.origin(content), packed(content), surroundings)


def _chosen(curves: Curves, asked: Question) -> Recommendation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # the page says so where one record is looked at
        return recommend(
            curves,
            at_least=0.9 if asked.at_least is None else asked.at_least,
            on=asked.on if asked.on is not None else "average" if len(curves.labels) > 1 else "worst",
            of=asked.of or "stability",  # type: ignore[arg-type]  # checked there
            delta=asked.delta,
            max_epsilon=asked.max_epsilon,
            at_most_sure=asked.at_most_sure,
        )


def _populations(curves: Curves, found: Recommendation, held: Any) -> dict[Quantity, Population] | None:
    """Return the populations that a file holds for these curves; None where they must be computed."""
    if not isinstance(held, Mapping):
        return None
    try:
        read = {of: read_as(Population, held[of]) for of in QUANTITIES[: 1 + (curves.accuracy is not None)]}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"population: damaged or incomplete ({in_words(error)})") from None
    return read if len(curves.labels) >= FEWEST_ROWS else {}


Reader = Callable[[Mapping[str, Any], Question, bytes, Said], Page]
RESULTS: dict[str, tuple[Callable[[Mapping[str, Any]], bool], Reader]] = {
    "epsworth utility --json": (lambda document: document.get("format") == FORMAT, _curves_page),
    "epsworth run -o": (is_study_result, _study_page),
    "epsworth recommend --json": (
        lambda document: isinstance(document.get("recommendation"), dict) and isinstance(document.get("curves"), dict),
        _recommendation_page,
    ),
}


def _nothing_asked(asked: Question) -> None:
    if asked != Question():
        raise ValueError(f"nothing is asked of this result: leave out {', '.join(WANTED)}")


def _of_another_kind(document: Mapping[str, Any], asked: Question, content: bytes, said: Said) -> Page:
    _nothing_asked(asked)
    return page_of(document, content, heading=said.heading)


RESULTS |= {
    name: (lambda document, needed=needed: needed <= document.keys(), _of_another_kind)  # type: ignore[misc]
    for name, (needed, _) in PAGES.items()
}
