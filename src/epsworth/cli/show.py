"""Tables and small curves for the terminal; every printed number is rounded to the safe side."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsworth.cli.services import file_or_address
from epsworth.rounding import round_down, show_up

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from epsworth.policy import Policy
    from epsworth.utility.curves import Curves, Quantity
    from epsworth.utility.recommendation import Recommendation

MOST_COLUMNS = 8
SCREEN = 80  # letters of a verdict and its table


def console(width: int = 110) -> Console:
    """Return the console for standard output; a pipe, which has no width of its own, is given one."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else width)


def table(*columns: str, left: Sequence[str] = (), title: str | None = None) -> Table:
    """Return a table without lines; columns stand to the right, but for those of words."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return made


def print_answer(curves: Any, found: Recommendation, verbose: bool = False, quiet: bool = False) -> None:
    """Print a verdict, the table that it comes from, and of whom it holds; more where it is asked for, or the first."""
    out = console(SCREEN)
    print_lines(found.verdict, "bold" if found.feasible else "bold yellow")
    if quiet:
        return
    out.print()
    print_curves(curves, found.on, of=found.of)
    out.print(found.certainty, markup=False)
    if verbose:
        print_more(curves, found.notes, [found.on], found.of)


def print_lines(lines: Sequence[str], first: str) -> None:
    """Print lines, the first in a style of its own."""
    out = console(SCREEN)
    for i, line in enumerate(lines):
        out.print(line, style=first if i == 0 else None, markup=False)


def print_kept(curves: Any, views: Sequence[str | int], verbose: bool = False, quiet: bool = False) -> None:
    """Print what is kept, the table that it comes from, and of whom it holds; more where it is asked for, or less."""
    from epsworth.utility.wording import kept

    lines, certainty = kept(curves)
    out = console(SCREEN)
    print_lines(lines, "bold")
    if quiet:
        return
    shown = [view for view in views if view not in ("average", "worst")] + views_of(curves)[:1]
    for view in shown:
        out.print()
        print_curves(curves, view)
    if curves.accuracy is not None:
        out.print()
        print_curves(curves, shown[-1], of="accuracy")
    out.print(certainty, markup=False)
    if verbose:
        print_more(curves, (), shown)


def print_more(curves: Curves, notes: Sequence[str], shown: Sequence[str | int], of: Quantity = "stability") -> None:
    """Print all that is known besides: other views, people like the records, promises, notes, cost."""
    out = console(SCREEN)
    out.print()
    for view in [view for view in views_of(curves) if view not in shown]:
        print_curves(curves, view, of=of)
        out.print()
    print_population(curves, of)
    for note in notes:
        out.print(note, markup=False)
    print_facts(curves)


def print_curves(curves: Curves, view: str | int, of: Quantity = "stability") -> None:
    """Print a table of guaranteed values, as many columns as the terminal has room for."""
    out, what = console(SCREEN), _kept(view, of)
    names = max(map(len, (what, *curves.mechanisms)))
    shown = _evenly(len(curves.epsilons), max(1, min(MOST_COLUMNS, (out.width - names) // 7)))
    lower, upper = curves.select(view, of)
    found = table(what, *(f"ε={show_up(curves.epsilons[e])}" for e in shown), left=(what,))
    for column in found.columns[1:]:
        column.min_width = 5
    for m, name in enumerate(curves.mechanisms):
        found.add_row(name, *(_cell(float(lower[m, e]), float(upper[m, e])) for e in shown))
    out.print(found)


def _cell(lower: float, upper: float) -> str:
    """Return what is guaranteed, or a dash where nothing is known yet."""
    return "-" if lower <= 0 and upper >= 1 else f"{round_down(lower):.3f}"


def _kept(view: str | int, of: Quantity) -> str:
    """Name what a table holds: the least that is guaranteed."""
    what = "kept" if of == "stability" else "right"
    return {"average": f"{what} on average", "worst": f"{what}, worst record"}.get(str(view), f"{what}, record {view}")


def print_population(curves: Curves, of: Quantity = "stability") -> None:
    """Print bounds on the average over the population, at as many epsilons as the other tables show."""
    from epsworth.utility.curves import FEWEST_ROWS

    if len(curves.labels) < FEWEST_ROWS:
        return
    out, names = console(SCREEN), max(map(len, ("mechanism", *curves.mechanisms)))
    shown = _evenly(len(curves.epsilons), max(1, min(MOST_COLUMNS, (out.width - names) // 13)))
    within = curves.population(of, at=shown)
    what = "label stability" if of == "stability" else of
    out.print(f"[bold]{what}, by ε per record[/bold], {within.words}")
    found = table("mechanism", *(f"ε={show_up(curves.epsilons[e])}" for e in shown), left=("mechanism",))
    for name, row in zip(curves.mechanisms, within.rows(), strict=True):
        found.add_row(name, *row)
    out.print(found)
    out.print()


def views_of(curves: Curves) -> list[str | int]:
    """Return what is shown of curves: of one record there is no average."""
    return ["worst"] if len(curves.labels) == 1 else ["average", "worst"]


def _what_numbers_are(curves: Curves) -> str:
    from epsworth.results import how_sure

    sure = f"{'' if curves.confidence == 1 else 'together '}{how_sure(curves.confidence)}"
    return f"Numbers are guaranteed lower bounds; the bounds of this answer hold {sure}."


def print_facts(curves: Curves) -> None:
    """Print what the tables mean: units, promises, confidence, cost, notes."""
    out = console(SCREEN)
    out.print(f"ε is per record, of {', '.join(curves.features)} together.")
    for promised in curves.promises():
        out.print(f"  {promised}", soft_wrap=True)
    for meant in meanings(curves):
        out.print(meant)
    out.print(_what_numbers_are(curves))
    for note in curves.notes:
        out.print(f"Note, {note}.")
    out.print(
        f"{curves.queries:,} queries in {curves.seconds:.1f} s, engine {', '.join(sorted(set(curves.method.flat)))}."
    )


def meanings(curves: Curves) -> list[str]:
    """Say what the least and the largest epsilon protect, in an observer's chances."""
    from epsworth.utility.attacker import protection

    found = []
    for e in sorted({0, len(curves.epsilons) - 1}):
        weakest = max((row[e] for row in curves.guarantees), key=lambda promise: (promise.epsilon, promise.delta))
        meant = protection(weakest)
        found.append(f"At ε={show_up(weakest.epsilon)} per record: {meant[0].lower()}{meant[1:]}")
    return found


def print_policy(path: Path, policy: Policy) -> None:
    """Say where the policy is, and what becomes of the columns that it does not perturb."""
    whole = [rule.feature.name for rule in policy.rules if rule.feature.integer]
    told = f"; released as whole numbers: {', '.join(whole)}" if whole else ""
    console(SCREEN).print(f"Policy for clients: {path}; {policy.passing}{told}.", markup=False)


def print_no_policy(path: Path, why: str | None = None) -> None:
    """Say why no policy was written, and whose the file is that lies in its place."""
    earlier = f" {path} is of an earlier run." if path.exists() else ""
    console().print(f"No policy was written: {why or 'nothing is recommended'}.{earlier}", markup=False, soft_wrap=True)


READERS = ("utility", "tailor", "split", "init", "perturb")  # of the table at hand


def suggest(*words: object, why: str) -> None:
    """Print which command to run next; words that are None are left out, files are paths."""
    given = [_word(word) for word in words if word is not None]
    running = again()
    at = next((i for i, word in enumerate(running) if word.startswith("--sep")), len(running))
    if given[0] in READERS and not any(word.startswith("--sep") for word in given):
        given += running[at : at + 1 + (running[at : at + 1] == ["--sep"])]
    out = console()
    out.print()
    out.print(f"Next: epsworth {shlex.join(given)}   ({why})", markup=False, soft_wrap=True)


def _word(given: object) -> str:
    """Return a word of a command; - is a table that is gone, and no file is taken for an option."""
    text = str(given)
    if text == "-":
        return "TABLE"
    return f"./{text}" if isinstance(given, Path) and text.startswith("-") else text


def suggest_perturb(path: Path, policy: Policy, columns: Sequence[str] = ()) -> None:
    """Print how a policy is run, or first what becomes of columns at hand that it does not name."""
    from epsworth.headers import looks_like_header

    left = policy.passing.unknown(columns, policy.names)
    if left and looks_like_header(columns) and "," not in "".join(left):  # by which the shell takes names apart
        why = "perturb leaves them out then; without --drop it sends them as they are"
        suggest("policy", "pass", path, "--drop", ",".join(left), why=why)
        return
    suggest("perturb", path, "people.csv", "released.csv", why="what every client runs; --dry-run looks first")


def suggest_page(json: str | None, report: Path | None) -> None:
    """Print how what was printed becomes a page, where it is none yet."""
    if report is None and json is not None:
        suggest("report", Path(json), "-o", "page.html", why="the same as a page")
    elif report is None:
        suggest(*again(), "--report", "page.html", why="the same as a page")


def again() -> list[str]:
    """Return the words of the command that is running, to which more can be added."""
    running = sys.argv[1:]
    at = running.index("--") if "--" in running else len(running)
    return [*running[:at], *(_word(file_or_address(word)) for word in running[at + 1 :])]


def domain_words(domain: object, missing: Sequence[str] | None = None) -> tuple[object, ...]:
    """Return the options that name declared ranges, and what stands for gaps, where some were given."""
    gaps = (word for one in missing or () for word in ("--missing", one))
    return (*(() if domain is None else ("--domain", domain)), *gaps)


def write_json(destination: str, document: dict[str, Any]) -> None:
    """Write JSON to a file, whole or not at all, or to standard output."""
    from epsworth.files import write_text

    text = json.dumps(document, allow_nan=False) + "\n"
    if destination == "-":
        sys.stdout.write(text)
    else:
        write_text(destination, text)


def told(destination: str | None, document: Callable[[], dict[str, Any]]) -> bool:
    """Write JSON where --json says; return whether all is told with that, on standard output."""
    if destination is not None:
        write_json(destination, document())
    return destination == "-"


def _evenly(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
