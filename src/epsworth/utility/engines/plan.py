"""Which engine answers for which mechanism, and why."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from epsworth.deprecation import METHODS, warn
from epsworth.utility.engines import table
from epsworth.utility.engines.engine import Engine
from epsworth.utility.question import Question

Method = str  # the name of an engine, "auto" or "paper"
TWO_WORDS = {"linear": ("lattice", "polygons"), "cells": ("cells", "branch_and_bound")}  # for one, in version 0.1
DEPTH = 6  # frames from a warning here up to whoever asks `stability`


@dataclass(frozen=True)
class Part:
    """Some mechanisms of a question, and the engine that answers for them; the number is its place in the plan."""

    mechanisms: tuple[int, ...]
    engine: Engine
    why: str
    number: int = 0


def methods() -> tuple[str, ...]:
    """Return what ``method`` may be."""
    return "auto", *(engine.name for engine in table.ENGINES), "paper"


def known(method: object) -> bool:
    """Tell whether a word is one of the methods, or was one."""
    return isinstance(method, str) and (method in methods() or method in TWO_WORDS or method in METHODS)


def plan(question: Question, method: Method) -> list[Part]:
    """Assign every mechanism; those that share an engine (and, say, a grid) are answered together."""
    found: dict[tuple[str, Hashable], Part] = {}
    asked = _asked_for(method)
    for m in range(len(question.names)):
        engine = _chosen(question, m, method, asked)
        key = engine.name, engine.together(question, m)
        why = "asked for" if engine.name == method == "sampled" else _why(engine, question, m)
        before = found.get(key, Part((), engine, why))
        found[key] = Part((*before.mechanisms, m), engine, before.why)
    if method == "cells" and any(part.engine.name == "branch_and_bound" for part in found.values()):
        warn("method='cells' with more than three sensitive features", "method='branch_and_bound'", depth=DEPTH)
    return list(found.values())


def _why(engine: Engine, question: Question, m: int) -> str:
    """Say in a note why an engine answers, and that it is asked about numbers alone where it is."""
    asked = engine.asked(question, m)
    apart = "" if asked is question else ", for every combination of the sensitive categories"
    return engine.why(asked, m) + apart


def _asked_for(method: Method) -> list[Engine]:
    """Return the engines to try, in order."""
    if method in ("auto", "paper"):
        return list(table.ENGINES)
    words = TWO_WORDS.get(method, (METHODS.get(method, method),))
    if method != words[0]:
        warn(f"method={method!r}", " or ".join(f"method={word!r}" for word in words), depth=DEPTH + 1)
    return [engine for word in words for engine in table.ENGINES if engine.name == word]


def _chosen(question: Question, m: int, method: Method, asked: Sequence[Engine]) -> Engine:
    """Return the first engine that can answer and finds it worthwhile, or is asked for; else the first that can.

    A label that is itself randomised has an engine of its own, whatever is asked for.
    """
    if not question.releases[m][0].mechanisms:
        asked = [engine for engine in table.ENGINES if engine.of_label]
    able = []
    for engine in asked:
        if engine.supports(question, m) is None:
            if method == engine.name or engine.worthwhile(engine.asked(question, m), m):
                return engine
            able.append(engine)
    if not able:
        reason, remedy = asked[0].supports(question, m), asked[0].remedy
        raise ValueError(f"method={method!r} cannot answer {question.names[m]}: {reason}; {remedy}")
    return able[0]
