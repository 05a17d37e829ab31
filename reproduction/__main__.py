"""The command: each figure, table and theorem of the five papers, beside our own number."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from epsworth.files import replacing
from reproduction import PAPERS, Item, Outcome, Setting, Verdict, named, outcome_of
from reproduction.data import sources
from reproduction.items import NOTES
from reproduction.pages import PAGE, PICTURES, as_json, as_markdown, counted, pictures

NUMBERS = "reproduction.json"
NOT_ALL = 1  # exit status where something was not looked at, for want of data


def main(words: list[str] | None = None) -> int:
    """Run; return the exit status: 0 wherever everything asked for was looked at, whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("items", nargs="*", metavar="ITEM", help="names such as ldp-utility/fig-2, or all; see --list")
    parser.add_argument("--list", action="store_true", help="show what there is, and compute nothing")
    parser.add_argument("--sources", action="store_true", help="say where the papers' data come from, and what to run")
    parser.add_argument("--quick", action="store_true", help="compute briefly; of all, only what takes seconds")
    parser.add_argument("--data", type=Path, default=os.environ.get("EPSWORTH_DATA"), help="folder of the papers' data")
    parser.add_argument("--output", "-o", type=Path, help=f"folder for {PAGE}, its pictures, and {NUMBERS}")
    asked = parser.parse_args(words)
    if asked.sources:
        print(sources())
        return 0
    if not asked.items and not asked.list:
        parser.error("name an item, or all; --list shows what there is")
    folder = None if asked.data is None else Path(asked.data)
    if folder is not None and not folder.is_dir():
        parser.error(f"--data {folder} is no folder; name the one with the papers' data")
    if asked.output is not None and asked.output.exists() and not asked.output.is_dir():
        parser.error(f"--output {asked.output} is no folder; choose another place")
    try:
        chosen = list(dict.fromkeys(item for name in asked.items or ["all"] for item in named(name)))
    except ValueError as error:
        parser.error(str(error))
    if asked.quick and len(chosen) > 1:
        chosen = [item for item in chosen if item.quick]
    if asked.list:
        list_items(chosen, folder)
        return 0
    outcomes = compute(chosen, Setting(folder, asked.quick))
    if asked.output is not None:
        write(asked.output, outcomes, asked.quick)
    left = [name for name, outcome in outcomes.items() if outcome.verdict is Verdict.NOT_RUN]
    if left:
        print(
            f"{len(left)} of {len(outcomes)} were not looked at ({left[0]}: {outcomes[left[0]].why}).", file=sys.stderr
        )
    return NOT_ALL if left else 0


def list_items(chosen: list[Item], folder: Path | None) -> None:
    """Print all items, paper by paper, and what a run would do with each."""
    for paper, title in PAPERS.items():
        own = [item for item in chosen if item.paper == paper]
        if own:
            print(f"{paper}: {title}")
        for item in own:
            print(f"  {item.id:36s} {'quick' if item.quick else '':6s} {item.standing(folder):17s} {item.what}")
    count = Counter(item.standing(folder) for item in chosen)
    print(", ".join(f"{number} {state}" for state, number in count.items()) + ".")


def compute(chosen: list[Item], setting: Setting) -> dict[str, Outcome]:
    """Compute items one after the other, and print each when it is there."""
    outcomes: dict[str, Outcome] = {}
    for item in chosen:
        outcome = outcomes[item.id] = outcome_of(item, setting)
        print(f"{item.id:36s} {outcome.verdict!s:24s} {outcome.seconds:7.1f} s", flush=True)
        if len(chosen) == 1:
            print(f"{item.what} of {PAPERS[item.paper]}")
            told = {"the paper": item.statement, "ours": outcome.ours, "because": outcome.why}
            for name, words in (told | {"note": NOTES.get(item.paper)}).items():
                if words:
                    print(f"{name}: {words}")
    print(f"{counted(outcomes)}.")
    return outcomes


def write(folder: Path, outcomes: dict[str, Outcome], quick: bool) -> None:
    """Write the page, its pictures and the numbers, all of them whole, or none."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = pictures(outcomes)
    numbers = json.dumps(as_json(outcomes, quick), indent=1) + "\n"
    texts = {PAGE: as_markdown(outcomes, quick), NUMBERS: numbers, **shown}
    (folder / PICTURES).mkdir(exist_ok=True)
    with ExitStack() as together:
        beside = {name: together.enter_context(replacing(folder / name)) for name in texts}
        for name, text in texts.items():
            beside[name].write_text(text, encoding="utf-8")
    print(f"Wrote {folder / PAGE} and {folder / NUMBERS}, {len(shown)} pictures in {folder / PICTURES}.")


if __name__ == "__main__":
    sys.exit(main())
