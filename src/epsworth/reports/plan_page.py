"""The page of a learner's plan: how many users, which epsilon, how clear a cell - and what else goes together."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from epsworth.learner import Plan, plan
from epsworth.learner.fakes import taken_for_honest
from epsworth.reports.charts import Axis, Chart, Line
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import escaped
from epsworth.reports.held import Held
from epsworth.reports.names import report_name
from epsworth.reports.observing import of_promise
from epsworth.reports.page import Page
from epsworth.reports.parts import Origin, computed, decision, downloads, limits, page_body, section, slider, unfolded
from epsworth.reports.plain import plain_page
from epsworth.rounding import show_down, show_up

TITLE = "How many users does this learner need?"
QUICK = ("hadamard", "ternary")  # others are planned in a second each: for one margin only
FACTORS = (0.5, 1.0, 2.0)  # of the margin
SPAN, STOPS = 4.0, 7  # of epsilon, either way


def plan_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page of a plan; what else goes together is planned here."""
    found = _plan(held)
    sections = [_decision(found)]
    sliders: dict[str, Any] = {}
    if found.feasible and found.margin <= 1 and "question" in held:
        trade, sliders = _trade(found, held.part("question"))
        sections.append(trade)
    if math.isfinite(found.epsilon):
        meaning, moving = of_promise(
            found.epsilon, 0.0, what="a user's record is the one they suspect", which="", seen="the user's one report"
        )
        sections.append(meaning)
        sliders |= moving
    said = [
        "The server sees every report: the ε limits what it says of the record, whoever reads it.",
        "k reports of one user keep k times the ε.",
        taken_for_honest(found.fakes),
        "A certificate speaks of the average over a cell, not of a point in it.",
        "Users whose records cannot be used report, too, and carry nothing: plan for more.",
    ]
    raw = "This page holds no data: it is computed from the question alone, and may be shown to anybody."
    told = [
        ("Mechanism", escaped(report_name(found.mechanism))),
        ("Confidence", show_down(float(found.confidence))),
        ("Power", show_down(found.power)),
    ]
    if "question" in held:
        asked = held.part("question")
        words = {"cells": "Cells per axis", "features": "Features", "mass": "Users in the cell, at most"}
        words["fakes"] = "Fakes, at most"
        told += [(word, escaped(asked.raw(name))) for name, word in words.items() if name in asked]
    sections += [limits(raw, said, (), "open"), computed(told, origin)]
    sections.append(downloads(origin, whole, "The result holds the plan."))
    about = "Labels learnt from reports that are private before they leave."
    return plain_page(origin.title(TITLE), page_body(TITLE, about, sections, origin, keys(3)), sliders, whole)


def _plan(held: Held) -> Plan:
    return Plan(
        epsilon=held.number("epsilon", 0), users=held.whole("users"), margin=held.number("margin", 0),
        confidence=held.share("confidence"), feasible=held.flag("feasible") if "feasible" in held else True,
        power=held.share("power"), mechanism=held.text("mechanism"),
        fakes=held.whole("fakes") if "fakes" in held else 0,
    )  # fmt: skip


def _sizes(asked: Held) -> tuple[float, int | None, int | None, int | float]:
    """Return the share of users in the cell, cells per axis, features, and how many fakes or which share of them."""
    mass = asked.number("mass", 0, 1) if "mass" in asked else 1.0
    m, d = (asked.whole(name) if name in asked else None for name in ("cells", "features"))
    fakes = asked.number("fakes", 0) if "fakes" in asked else 0
    return mass, m, d, int(fakes) if fakes >= 1 or fakes == 0 else fakes


def _decision(found: Plan) -> str:
    if not found.feasible or found.margin > 1:
        return decision(_sentence(found), (), good=False)
    facts = (
        (f"{found.users:,}", "users, one report each", "users"),
        (show_up(found.epsilon), "ε per record, label included", "epsilon"),
        (show_up(found.margin), "signed mean of the cell, or more", "margin"),
    )
    return decision(_sentence(found), facts, good=True)


def _sentence(found: Plan) -> str:
    return str(found).replace(f" ({found.mechanism})", f", {report_name(found.mechanism)}")


def trade_of(found: Plan, asked: Held) -> list[tuple[float, list[tuple[float, int]]]]:
    """Return, by margin, pairs of epsilon and the users that it takes: as `plan` finds them, its own among them."""
    quick = found.mechanism in QUICK
    sizes = _sizes(asked)
    near = (float(show_up(found.epsilon * factor, 3)) for factor in np.geomspace(1 / SPAN, SPAN, STOPS if quick else 5))
    grid = sorted({e for e in near if 0.01 <= e <= 30 and abs(e / found.epsilon - 1) > 0.01} | {found.epsilon})
    curves = []
    for factor in FACTORS if quick else (1.0,):
        margin = found.margin * factor
        if margin > sizes[0]:
            continue
        points = []
        for epsilon in grid:
            if factor == 1 and epsilon == found.epsilon:
                points.append((epsilon, found.users))
                continue
            try:
                users = _users(epsilon, margin, found.confidence, found.power, found.mechanism, *sizes)
            except ValueError:  # more users than can be counted
                continue
            points.append((epsilon, users))
        if points:
            curves.append((margin, points))
    return curves


@lru_cache(maxsize=256)
def _users(
    epsilon: float, margin: float, confidence: float, power: float, mechanism: str, mass: float, m: int | None,
    d: int | None, fakes: int | float,
) -> int:  # fmt: skip
    return plan(
        epsilon=epsilon,
        margin=margin,
        confidence=confidence,
        power=power,
        mechanism=mechanism,
        mass=mass,
        m=m,
        d=d,
        fakes=fakes,
    ).users


def _trade(found: Plan, asked: Held) -> tuple[str, dict[str, Any]]:
    curves = trade_of(found, asked)
    epsilons = sorted({epsilon for _, points in curves for epsilon, _ in points})
    counts = [users for _, points in curves for _, users in points]
    chart = Chart(
        "Users that are needed, by ε per record; one line for every margin.",
        Axis("ε per record", epsilons[0], epsilons[-1], log=True),
        Axis("users", 0.8 * min(counts), 1.25 * max(counts), log=True),
        [Line(f"margin {show_up(margin)}", [(e, float(n)) for e, n in points]) for margin, points in curves],
        cursor=found.epsilon, moved="plan-cursor", height=340, base=294,
    )  # fmt: skip
    tables = [dict(points) for _, points in curves]

    def told(epsilon: float) -> str:
        parts = [
            f"{table[epsilon]:,} users for a margin of {show_up(margin)}"
            for (margin, _), table in zip(curves, tables, strict=True)
            if epsilon in table
        ]
        return f"At ε\u00a0=\u00a0{show_up(epsilon)}: {', '.join(parts)}."

    said = [told(epsilon) for epsilon in epsilons]
    first = epsilons.index(found.epsilon)
    moved = slider("stop", "ε per record", first, len(epsilons) - 1, show_up(found.epsilon))
    rows = [[show_up(e), *(f"{table[e]:,}" if e in table else "–" for table in tables)] for e in epsilons]
    heads = ["ε per record", *(f"users, margin {show_up(margin)}" for margin, _ in curves)]
    html = section(
        "curves",
        "What else goes together",
        f'<div class="controls">{moved}</div><p id="trade" aria-live="polite">{said[first]}</p>'
        f'<div class="panels">{chart.svg()}</div>{unfolded("users by epsilon", heads, rows)}'
        '<p class="caption">The margin is the size of a cell\'s signed mean: about |2η - 1| divided by the number of '
        "cells. Half the margin takes about four times the users.</p>",
        " across",
    )
    moving = {
        "says": {"stop-shown": [show_up(e) for e in epsilons], "trade": said},
        "moves": {"plan-cursor": chart.cursors(epsilons)},
        "widths": {},
    }
    return html, {"stop": moving}
