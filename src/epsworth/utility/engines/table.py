"""The one table of engines, in the order in which ``method="auto"`` tries them, and which of them answers, and why."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from epsworth.utility.engines.cells import CellTables
from epsworth.utility.engines.constant import Constant
from epsworth.utility.engines.engine import Engine
from epsworth.utility.engines.grid import Grid
from epsworth.utility.engines.label import Label
from epsworth.utility.engines.linear import Lattice
from epsworth.utility.engines.polygons import Polygons
from epsworth.utility.engines.propagation import Propagation
from epsworth.utility.engines.quadratic import SlabBounds
from epsworth.utility.engines.rays import Rays
from epsworth.utility.engines.sampled import Sampled
from epsworth.utility.engines.strata import SharedDraws
from epsworth.utility.engines.tree_boxes import BranchAndBound
from epsworth.utility.problem import Problem

ENGINES: tuple[Engine, ...] = (
    Label(),
    Constant(),
    Grid(),
    CellTables(),
    BranchAndBound(),
    Lattice(),
    Polygons(),
    SlabBounds(),
    Propagation(),
    SharedDraws(),
    Rays(),
    Sampled(),
)


Method = str  # the name of an engine, or "auto"


@dataclass(frozen=True)
class Part:
    """Some mechanisms of a question, and the engine that answers for them; the number is its place in the plan."""

    mechanisms: tuple[int, ...]
    engine: Engine
    why: str
    number: int = 0


def methods() -> tuple[str, ...]:
    """Return what ``method`` may be."""
    return ("auto", *[engine.name for engine in ENGINES])


def known(method: object) -> bool:
    """Tell whether a word is one of the methods."""
    return isinstance(method, str) and method in methods()


def plan(problem: Problem, method: Method, *, average_first: bool = False) -> list[Part]:
    """Assign every mechanism; those that share an engine (and, say, a grid) are answered together."""
    parts: dict[tuple[str, Hashable], Part] = {}
    engines = [engine for engine in ENGINES if method in ("auto", engine.name)]
    if method == "auto" and average_first:
        engines = [engine for engine in engines if not engine.draws_by_record]
    for m in range(len(problem.names)):
        engine = _chosen(problem, m, method, engines)
        key = engine.name, engine.group_key(problem, m)
        why = "asked for" if engine.name == method == "sampled" else _why(engine, problem, m)
        part = parts.get(key, Part((), engine, why))
        parts[key] = Part((*part.mechanisms, m), engine, part.why)
    numbers = itertools.count()
    return [
        replace(part, number=len(parts) if isinstance(part.engine, Sampled) else next(numbers))
        for part in parts.values()
    ]


def _why(engine: Engine, problem: Problem, m: int) -> str:
    """Say in a note why an engine answers, and that it is asked about numbers alone where it is."""
    reduced = engine.reduced(problem, m)
    apart = "" if reduced is problem else ", for every combination of the sensitive categories"
    return engine.explain(reduced, m) + apart


def _chosen(problem: Problem, m: int, method: Method, engines: Sequence[Engine]) -> Engine:
    """Return the first engine that can answer and finds it worthwhile, or is asked for; else the first that can.

    A label that is itself randomised has an engine of its own, whatever is asked for.
    """
    if not problem.releases[m][0].mechanisms:
        engines = [engine for engine in ENGINES if engine.perturbs_label]
    able = []
    for engine in engines:
        if engine.supports(problem, m) is None:
            if method == engine.name or engine.worthwhile(engine.reduced(problem, m), m):
                return engine
            able.append(engine)
    if not able:
        reason, remedy = engines[0].supports(problem, m), engines[0].remedy
        raise ValueError(f"method={method!r} cannot answer {problem.names[m]}: {reason}; {remedy}")
    return able[0]
