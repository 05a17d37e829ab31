"""Outcomes as one Markdown page with pictures, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from epsworth import __version__
from reproduction.catalogue import ITEMS
from reproduction.data import SETS
from reproduction.items import PAPERS, Outcome, Verdict
from reproduction.pictures import drawn

PAGE = "reproduction.md"
PICTURES = "reproduction"  # the folder beside the page


def picture(name: str) -> str:
    """Return where the picture of an item lies, from the page."""
    return f"{PICTURES}/{name.replace('/', '-')}.svg"


SHOWN = (
    "ldp-utility/fig-2", "ldp-utility/fig-9", "pac/fig-11", "pac/fig-12", "ldp-classification/theorem-3",
    "privacy-boosting/fig-4", "privacy-boosting/fig-5", "privacy-profile/fig-3", "privacy-profile/fig-7",
)  # fmt: skip  # on the page: small pictures, which the documents keep


def counted(outcomes: Mapping[str, Outcome]) -> str:
    """Say how many outcomes there are of each verdict.

    Examples
    --------
    >>> counted({"ldp-utility/fig-1": Outcome(Verdict.NOT_RUN, "none", "no data")})
    '1 not run yet'
    """
    count = Counter(outcome.verdict for outcome in outcomes.values())
    return ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict if count[verdict])


def as_json(outcomes: Mapping[str, Outcome], quick: bool) -> dict[str, Any]:
    """Return all outcomes with the statements they are about."""
    rows = []
    for name, outcome in outcomes.items():
        item = ITEMS[name]
        rows.append(
            {"id": name, "paper": item.paper, "what": item.what, "statement": item.statement}
            | outcome.to_dict()
            | ({"picture": picture(name)} if outcome.panels else {})
        )
    return {"version": __version__, "quick": quick, "papers": PAPERS, "items": rows}


def pictures(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """Return the pictures of the figures among the items, as the texts of SVG files by their names."""
    return {
        picture(name): drawn(f"{ITEMS[name].what} of paper {ITEMS[name].paper}, our numbers", outcome.panels)
        for name, outcome in outcomes.items()
        if outcome.panels
    }


def as_markdown(outcomes: Mapping[str, Outcome], quick: bool) -> str:
    """Return a table per paper with its pictures, and the counts."""
    how = "briefly" if quick else "in full"
    lines = [
        "# The five papers, reproduced", "",
        "Each figure, table, theorem and numbered statement of the five papers, in our words, beside what we compute.",
        "A verdict other than \"holds\" gives its reason; \"not reproducible\" says what is lacking. Computed by",
        "`python -m reproduction all -o FOLDER` in a checkout, which draws every figure; a few are shown here.", "",
        f"epsworth {__version__}, computed {how}: {counted(outcomes)}.", "",
    ]  # fmt: skip
    for paper, title in PAPERS.items():
        own = {name: outcome for name, outcome in outcomes.items() if ITEMS[name].paper == paper}
        if own:
            lines += [f"## {paper}: {title}", "", f"{counted(own)}.", "", *_table(own), "", *_gallery(own)]
    return "\n".join([*lines, *_data()]).rstrip() + "\n"


def _data() -> list[str]:
    lines = [
        "## Data",
        "",
        "Nothing of it is shipped. Download the files into one folder; `python -m reproduction.data DOWNLOADED FOLDER`",
        "builds the inputs and compares what they hold with the SHA-256 that `python -m reproduction --sources` tells;",
        "`--data FOLDER` or `EPSWORTH_DATA` names them.",
        "",
        "| data set | from | licence | files | inputs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in SETS:
        cells = one.name, one.where, one.licence, ", ".join(one.files), ", ".join(one.builds)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _table(outcomes: Mapping[str, Outcome]) -> list[str]:
    lines = [
        "| item | where | the paper | ours | verdict | because | s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, outcome in outcomes.items():
        item = ITEMS[name]
        cells = (
            name, item.what, item.statement, outcome.ours, outcome.verdict.value, outcome.why,
            f"{outcome.seconds:.1f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def _gallery(outcomes: Mapping[str, Outcome]) -> list[str]:
    lines = []
    for name, outcome in outcomes.items():
        if outcome.panels and name in SHOWN:
            lines += [f"![{name}: {ITEMS[name].statement}]({picture(name)})", ""]
    return lines
