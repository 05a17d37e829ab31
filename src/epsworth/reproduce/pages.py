"""Outcomes as one Markdown page and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from epsworth import __version__
from epsworth.reproduce.catalogue import ITEMS
from epsworth.reproduce.items import PAPERS, Outcome, Verdict


def counted(outcomes: Mapping[str, Outcome]) -> str:
    """Say how many outcomes there are of each verdict.

    Examples
    --------
    >>> counted({"000-fig-1": Outcome(Verdict.NOT_RUN, "none")})
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
            {"id": name, "paper": item.paper, "what": item.what, "statement": item.statement} | outcome.to_dict()
        )
    return {"version": __version__, "quick": quick, "papers": PAPERS, "items": rows}


def as_markdown(outcomes: Mapping[str, Outcome], quick: bool) -> str:
    """Return a table per paper, and the counts."""
    how = "briefly" if quick else "in full"
    lines = ["# The five papers, reproduced", "", f"epsworth {__version__}, computed {how}: {counted(outcomes)}.", ""]
    for paper, title in PAPERS.items():
        own = {name: outcome for name, outcome in outcomes.items() if ITEMS[name].paper == paper}
        if not own:
            continue
        lines += [f"## {paper}: {title}", "", f"{counted(own)}.", ""]
        lines += [
            "| ID | where | the paper | ours | verdict | because | s |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for name, outcome in own.items():
            item = ITEMS[name]
            cells = (
                name, item.what, item.statement, outcome.ours, outcome.verdict.value, outcome.why,
                f"{outcome.seconds:.1f}",
            )  # fmt: skip
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)
