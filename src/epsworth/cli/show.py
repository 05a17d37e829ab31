"""Tables and small curves for the terminal; every printed number is rounded to the safe side."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from epsworth.rounding import round_down, round_up, show_down, show_up

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from epsworth.arrays import Floats
    from epsworth.release import Policy
    from epsworth.utility.curves import Curves, Quantity

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_COLUMNS = 8


def console() -> Console:
    """Return the console for standard output."""
    from rich.console import Console

    narrow = None if sys.stdout.isatty() else 110  # a pipe has no width of its own
    return Console(highlight=False, width=narrow)


def table(*columns: str, left: Sequence[str] = (), title: str | None = None) -> Table:
    """Return a table without lines; columns stand to the right, but for those of words."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return made


def small_curve(values: Sequence[float]) -> str:
    """Draw values in [0, 1] as blocks, rounded down.

    Examples
    --------
    >>> small_curve([0, 0.5, 0.99])
    '▁▅█'
    """
    return "".join(BLOCKS[min(int(value * len(BLOCKS)), len(BLOCKS) - 1)] for value in values)


def print_curves(curves: Curves, views: Sequence[str | int], of: Quantity = "stability") -> None:
    """Print one table of guaranteed values per view, as many columns as the terminal has room for."""
    from epsworth.utility.views import view_of

    out = console()
    names, curve = max(map(len, curves.mechanisms)), len(curves.epsilons)
    shown = _evenly(len(curves.epsilons), max(1, min(MOST_COLUMNS, (out.width - names - curve - 2) // 7)))
    what = "label stability" if of == "stability" else of
    for view in views:
        lower, upper = curves.select(view, of)
        title = f"{what}, {view_of(view, len(curves.labels))}"
        out.print(f"[bold]{title}, by ε per record[/bold] ({_width(curves, lower, upper)})")
        heads = [f"ε={show_up(curves.epsilons[e])}" for e in shown]
        found = table("mechanism", *heads, "curve", left=("mechanism", "curve"))
        for column in found.columns[1:-1]:
            column.min_width = 5
        for m, name in enumerate(curves.mechanisms):
            numbers = [f"{round_down(float(lower[m, e])):.3f}" for e in shown]
            found.add_row(name, *numbers, small_curve(lower[m].tolist()))
        out.print(found)
        out.print()


def print_population(curves: Curves, of: Quantity = "stability") -> None:
    """Print bounds on the average over the population, at as many epsilons as the other tables show."""
    from epsworth.utility.curves import FEWEST_ROWS

    if len(curves.labels) < FEWEST_ROWS:
        return
    out, names = console(), max(map(len, ("mechanism", *curves.mechanisms)))
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
    if curves.confidence == 1:
        return "Numbers are guaranteed lower bounds; the bounds of this answer hold for certain."
    sure = show_down(100 * curves.confidence)
    return f"Numbers are guaranteed lower bounds; the bounds of this answer hold together with {sure} % confidence."


def _width(curves: Curves, lower: Floats, upper: Floats) -> str:
    half = float((upper - lower).max()) / 2
    return "exact" if half < 1e-9 else f"half-width at most {round_up(half):g}"


def print_facts(curves: Curves) -> None:
    """Print what the tables mean: units, promises, confidence, cost, notes."""
    out = console()
    out.print(f"ε is per record, of {', '.join(curves.features)} together.")
    for promised in curves.promises():
        out.print(f"  {promised}")
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
    from epsworth.utility.wording import protection

    found = []
    for e in sorted({0, len(curves.epsilons) - 1}):
        weakest = max((row[e] for row in curves.guarantees), key=lambda promise: (promise.epsilon, promise.delta))
        meant = protection(weakest)
        found.append(f"At ε={show_up(weakest.epsilon)} per record: {meant[0].lower()}{meant[1:]}")
    return found


def print_policy(path: Path, policy: Policy) -> None:
    """Say where the policy is, and what becomes of the columns that it does not perturb."""
    console().print(f"Policy for clients: {path}; {policy.passing}.", markup=False, soft_wrap=True)
    if whole := [rule.feature.name for rule in policy.rules if rule.feature.integer]:
        console().print(f"Released as whole numbers: {', '.join(whole)}.", markup=False, soft_wrap=True)


def suggest(*words: object, why: str) -> None:
    """Print which command to run next; words that are None are left out, and - is a table that is gone."""
    given = ["TABLE" if str(word) == "-" else str(word) for word in words if word is not None]
    out = console()
    out.print()
    out.print(f"Next: epsworth {shlex.join(given)}   ({why})", markup=False, soft_wrap=True)


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
