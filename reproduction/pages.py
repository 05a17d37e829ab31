"""Outcomes as one Markdown page with pictures, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from epsworth import __version__
from reproduction.catalogue import ITEMS
from reproduction.data import SETS
from reproduction.items import CHECKED, NOTES, PAPERS, Outcome, Verdict
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
    """Return the lists of every paper with its pictures, and the counts."""
    how = "briefly" if quick else "in full"
    minutes = sum({outcome.ours: outcome.seconds for outcome in outcomes.values()}.values()) / 60
    lines = [
        "# The five papers, reproduced", "",
        f"epsworth {__version__}, computed {how}: {counted(outcomes)}.", "",
        "Each figure, table, theorem and numbered statement, in our words, beside what we compute and, in italics,",
        f"why it differs. `python -m reproduction all -o FOLDER` computes and draws all in {minutes:.0f} minutes on",
        "two cores; `--list` tells where each stands in its paper, `python -m reproduction ITEM` what else there is to",
        "say. Times, and what is released with noise, differ a little from run to run; the verdicts do not.", "",
    ]  # fmt: skip
    for paper, title in PAPERS.items():
        own = {name: outcome for name, outcome in outcomes.items() if ITEMS[name].paper == paper}
        if own:
            note = [NOTES[paper], ""] if paper in NOTES else []
            lines += [f"## {paper}: {title}", "", *note, *_lists(own), *_gallery(own)]
    return "\n".join([*lines, *_left_out(outcomes), *_data()]).rstrip() + "\n"


def _left_out(outcomes: Mapping[str, Outcome]) -> list[str]:
    rows = [(name, one.why) for name, one in outcomes.items() if one.verdict is Verdict.NOT_REPRODUCIBLE]
    return ["## Not reproducible", "", *(f"- **{name}** {why}" for name, why in rows), ""] if rows else []


def _data() -> list[str]:
    lines = [
        "## Data",
        "",
        "None is shipped. Download the files that `--sources` lists into one folder; `python -m reproduction.data",
        "DOWNLOADED FOLDER` builds the inputs and checks their SHA-256. Name it by `--data` or `EPSWORTH_DATA`.",
        "",
    ]
    return [*lines, *(f"- {one.name}: {one.where} (licence: {one.licence})" for one in SETS)]


def _lists(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return a list per verdict, what is wrong first; what two items share is told once."""
    lines = []
    for verdict in (*reversed(CHECKED), Verdict.NOT_RUN):
        own = {name: outcome for name, outcome in outcomes.items() if outcome.verdict is verdict}
        if own:
            lines += [f"### {ITEMS[next(iter(own))].paper}: {verdict}", ""]
        first: dict[tuple[str, str], str] = {}
        for name, outcome in own.items():
            same = first.setdefault((outcome.ours, outcome.why), name) if verdict in CHECKED else name
            ours = f" *Ours:* {outcome.ours if same == name else f'see {same}'}" if verdict in CHECKED else ""
            why = f" *{outcome.why}*" if same == name and verdict is not Verdict.HOLDS else ""
            lines.append(f"- **{name}** {ITEMS[name].statement}{ours}{why}")
        lines += [""] * bool(own)
    return lines


def _gallery(outcomes: Mapping[str, Outcome]) -> list[str]:
    lines = []
    for name, outcome in outcomes.items():
        if outcome.panels and name in SHOWN:
            lines += [f"![{name}]({picture(name)})", ""]
    return lines
