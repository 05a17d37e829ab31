"""The pages of a learner: how many users a plan takes, and what was learnt from private reports, with certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, pairwise, product
from typing import Any

import numpy as np

from epsworth.learner import Plan, plan
from epsworth.learner.fakes import assumption, taken_for_honest
from epsworth.numerals import whole
from epsworth.report import blocks, charts, text
from epsworth.report.blocks import Block
from epsworth.report.charts import CERTIFICATES, FILLED, OTHER, UNSURE, Axis, Chart, Line
from epsworth.report.page import Document, Page, Source, page
from epsworth.report.text import at, cleaned, count, markup, name, names, share_down, share_up, size
from epsworth.rounding import show_down, show_up

QUICK = ("hadamard", "ternary")  # others are planned in a second each: for one margin only
FACTORS = (0.5, 1.0, 2.0)  # of the margin
SPAN, STOPS = 4.0, 7  # of epsilon, either way
MOST_CLEAR, MOST_BARS = 6, 12
MOST_TABLED = 400  # cells in the table beside the map
AUDIT = "No certificate covers them: epsworth learn audit asks users who answered in no round how often they are right."
ROUNDS = {  # what each asks for
    "quantiles": "how the values of number columns are spread",
    "tables": "which values go with which labels",
    "weights": "how much each column counts beside the others",
    "validation": "whether these weights do better",
}
MADE = {  # in other words than a configuration
    "estimated": "as common as in the reports", "balanced": "as if all were equally common",
    "drawn": "drawn by users", "hash": "set by registered ids",
    "additive": "a curve of each column's values", "linear": "a line of each column's values",
    "ramp": "a curve of each column's values, mostly a line", "weighted": "a curve of each column's values, weighted",
}  # fmt: skip
RAW = "This page is computed from reports that are private themselves: show it to whoever may see the reports."
planned = lru_cache(maxsize=256)(plan)
QUESTION = {
    "cells": "Cells per axis", "features": "Features", "mass": "Share of users in the cell, at most",
    "fakes": "Fakes, at most",
}  # fmt: skip


# ---- a plan


def plan_page(result: Document, source: Source) -> Page:
    """Return the page of a plan; what else goes together is planned here."""
    epsilon, margin = (math.inf if result[key] is None else float(result[key]) for key in ("epsilon", "margin"))
    found = Plan(
        epsilon, result["users"], margin, result["confidence"], result.get("feasible", True), result["power"],
        result["mechanism"], whole("fakes", result.get("fakes", 0), least=0),
    )  # fmt: skip
    good, asked, mechanism = found.feasible and margin <= 1, result.get("question"), text.report_name(found.mechanism)
    facts = (
        (count(found.users), "users, one report each", "users"),
        (show_up(epsilon), "ε per record, label included", "epsilon"),
        (show_up(margin), "margin of the cell, or more", "margin"),
    )
    said = [
        text.SERVER,
        taken_for_honest(found.fakes),
        text.CELL,
        "Users whose records cannot be used report, too, and carry nothing: plan for more.",
    ]
    sentence = str(found).replace(f" ({found.mechanism})", f", {mechanism}")
    sections = [
        blocks.decision(sentence, facts, good, epsilon=epsilon) if good else blocks.decision(sentence, (), good),
        _trade(found, asked) if good and asked is not None else None,
        blocks.of_epsilon(epsilon, 0.0, text.REPORT) if math.isfinite(epsilon) else None,
        blocks.limits(text.HARMLESS, said),
    ]
    origin = [
        ("Mechanism", mechanism),
        ("Confidence", show_down(float(found.confidence))),
        ("Power", show_down(found.power)),
        *(
            (word, share_down(asked[key]) if key == "mass" else asked[key])
            for key, word in QUESTION.items()
            if asked and asked.get(key) is not None
        ),
    ]
    return page(
        "How many users does this learner need?", "Labels learnt from reports that are private before they leave.",
        sections, source, origin=origin, holds="The result holds the plan.",
    )  # fmt: skip


def _trade(found: Plan, asked: Document) -> Block:
    curves = _curves(found, asked)
    epsilons = sorted({epsilon for _, table in curves for epsilon in table})
    counts = [users for _, table in curves for users in table.values()]
    chart = Chart(
        "Users that are needed, by ε per record; one line for every margin.",
        Axis("ε per record", epsilons[0], epsilons[-1], log=True),
        Axis("users", 0.8 * min(counts), 1.25 * max(counts), log=True),
        [Line(f"margin {show_up(margin)}", [(e, float(n)) for e, n in table.items()]) for margin, table in curves],
        cursor=found.epsilon, moved="plan-cursor", height=340,
    )  # fmt: skip
    said = []
    for e in epsilons:
        users = [f"{count(table[e])} users for a margin of {show_up(margin)}" for margin, table in curves if e in table]
        said.append(f"At {at(e)}: {', '.join(users)}.")
    rows = [[show_up(e), *(count(table[e]) if e in table else "–" for _, table in curves)] for e in epsilons]
    heads = ["ε per record", *(f"users, margin {show_up(margin)}" for margin, _ in curves)]
    return blocks.stops(
        "What else goes together", "ε per record", epsilons, epsilons.index(found.epsilon), said, chart,
        blocks.unfolded("users by epsilon", heads, rows),
        "The margin is how far a cell's two labels are from even, times the cell's share of all users."
        + ("" if found.fakes else " Half the margin takes about four times the users."),
    )  # fmt: skip


def _curves(found: Plan, asked: Document) -> list[tuple[float, dict[float, int]]]:
    """Return, by margin, the users that every epsilon takes: as `plan` finds them, its own among them."""
    quick, mass = found.mechanism in QUICK, 1.0 if asked.get("mass") is None else asked["mass"]
    near = (float(show_up(found.epsilon * factor, 3)) for factor in np.geomspace(1 / SPAN, SPAN, STOPS if quick else 5))
    grid = sorted({e for e in near if 0.01 <= e <= 30 and abs(e / found.epsilon - 1) > 0.01} | {found.epsilon})
    curves = []
    for factor in FACTORS if quick else (1.0,):
        margin, users = found.margin * factor, dict[float, int]()
        for epsilon in grid if margin <= mass else []:
            if factor == 1 and epsilon == found.epsilon:
                users[epsilon] = found.users
                continue
            try:
                users[epsilon] = planned(
                    epsilon=epsilon, margin=margin, confidence=found.confidence, power=found.power,
                    mechanism=found.mechanism, mass=mass, m=asked.get("cells"), d=asked.get("features"),
                    fakes=asked.get("fakes") or 0,
                ).users  # fmt: skip
            except ValueError:  # more users than can be counted
                continue
        if users:
            curves.append((margin, users))
    return curves


# ---- what was learnt


def learnt_page(result: Document, source: Source) -> Page:
    """Return the page of a learnt classifier: the map, its certificates, and what they do not say."""
    drawn = result.get("map") is not None and len(result["features"]) <= 2
    many = None if result["labels"] else f"{count(result['cells'])} cells are too many to be told one by one."
    labels = blocks.section("labels", "The labels", many or blocks.table(*_labels(result)))
    said = [
        result["honest"],
        text.CELL,
        text.SERVER,
        "That a person reports is seen; what they report says no more of the record than the ε allows.",
    ]
    sections = [
        _decision(result), _map(result) if drawn else labels, _certificates(result), _clearest(result),
        blocks.of_epsilon(result["epsilon"], 0.0, text.REPORT), blocks.limits(RAW, said),
    ]  # fmt: skip
    spans = [_span(*one, letters=40) for one in list(zip(result["features"], result["box"], strict=True))[:8]]
    origin = [
        ("Features", markup("; ").join(spans)),
        ("Labels", names(result["classes"], letters=40)),
        ("Cells", count(result["cells"])),
        ("Outside", result["outside"]),
        ("Smoothing", "none" if result.get("width") is None else f"over {size(result['width'])} of the box"),
        ("Certificates hold", share_down(result["confidence"])),
        ("Settings", text.code(result["fingerprint"])),
    ]
    by = name(text.report_name(result["mechanism"]))
    about = markup("{} users, {} each, by {}.", count(result["users"]), name(result["guarantee"]), by)
    return page(
        "What was learnt from private reports?", about, sections, source, origin=origin,
        holds="The result holds every cell, where cells are few.",
    )  # fmt: skip


def _span(feature: str, ends: Sequence[float], letters: int) -> Any:
    return markup("{} {} to {}", name(feature, letters), size(float(ends[0])), size(float(ends[1])))


def _decision(result: Document) -> Block:
    cells, users, certified = result["cells"], count(result["users"]), result["certified"]
    fakes = whole("fakes", result.get("fakes", 0), least=0)
    facts = [
        (users, "users, one report each", "users"),
        (show_up(result["epsilon"]), "ε per record, label included", "epsilon"),
    ]
    if certified is None:
        sentence = f"Labels were read off {users} reports; none of them carries a certificate."
        return blocks.decision(sentence, facts, good=False)
    facts.append((f"{count(certified)} of {count(cells)}", "cells with a certified label", "certified"))
    sentence = (
        f"The label of {count(certified)} of {count(cells)} cells is certified, {assumption(fakes)}: "
        f"each is that of the average over its cell, all of them with {share_down(result['confidence'])} confidence. "
        f"{count(cells - certified)} cells are left open."
    )
    if certified == 0:
        sentence = f"No cell's label is certain ({share_down(result['confidence'])} confidence), {assumption(fakes)}."
    if result.get("reason") is not None:
        sentence = f"Nothing is certified: {result['reason']}."
    return blocks.decision(sentence, facts, certified > 0, epsilon=result["epsilon"])


def kinds_of(result: Document) -> list[int]:
    """Return how each cell is drawn: filled only where the label that is predicted in its middle is certified."""
    drawn = result["map"]
    if drawn.get("certified") is None:
        return [UNSURE] * len(drawn["label"])
    every = zip(drawn["certified"], drawn["cell_label"], drawn["label"], strict=True)
    return [UNSURE if sure is not True else FILLED if cell == label else OTHER for sure, cell, label in every]


def _map(result: Document) -> Block:
    features, classes, labels = result["features"], result["classes"], result["map"]["label"]
    side = whole("side", result["side"], least=1)
    if side ** len(features) != len(labels):
        raise ValueError(f"the map has {len(labels):,} cells, not {side:,} along each feature: it was cut or changed")
    box = [(float(low), float(high)) for low, high in result["box"]]
    if result["overlapping"] and side > 1:  # a cell lies around its point, which may be the end of a range
        halves = [(high - low) / (side - 1) / 2 for low, high in box]
        box = [(low - half, high + half) for (low, high), half in zip(box, halves, strict=True)]
    kinds, certified = kinds_of(result), result["certified"] is not None
    looks = kinds if certified else [FILLED] * len(labels)
    what = f"The label of every cell over {' and '.join(features)}, and whether it is certified."
    told = "Filled in full: the label is predicted in a cell's middle, and certified of the cell."
    if not certified:
        told = "Labels as they are predicted; this mechanism's reports carry no certificate."
    elif result["differing"]:
        crossed = count(result["differing"])
        told += f" In {crossed} cells smoothing predicts another label than the one certified: crossed."
    told += " Cells overlap: each is drawn around its point." if result["overlapping"] else ""
    if len(classes) > charts.MOST_CLASSES:
        told += f" Of {len(classes)} labels the fills repeat after {charts.MOST_CLASSES}; the table names them."
    if len(labels) > MOST_TABLED:
        told += f" The table holds the first {MOST_TABLED} of {len(labels):,}."
    steps = [[low + (i + 0.5) / side * (high - low) for i in range(side)] for low, high in box]
    middles = (", ".join(map(size, middle)) for middle in product(*steps))
    rows = [
        [middle, name(classes[label], 40), CERTIFICATES[kind] if certified else "–"]
        for middle, label, kind in islice(zip(middles, labels, kinds, strict=True), MOST_TABLED)
    ]
    heads = (markup("cell at {}", names(features, letters=40)), "label", "certificate")
    return blocks.section(
        "map", "The learnt map", {"is": "list", "items_": charts.legend(classes, set(looks), certified=certified)},
        charts.learnt_map(what, features, box, side, labels, looks), blocks.unfolded("every cell", heads, rows),
        blocks.unfolded(*_labels(result)), told,
    )  # fmt: skip


def _labels(result: Document) -> tuple[str, Sequence[str], list[list[object]]]:
    """Return what a table of the labels says: its title, heads and rows."""
    rows: list[list[object]] = [
        [name(one["label"], 40), *("–" if n is None else count(n) for n in (one["cells"], one.get("certified")))]
        for one in result["labels"][:MOST_TABLED]
    ]
    return "cells by label", ("label", "cells with it", "cells certified to have it"), rows


def _certificates(result: Document) -> Block | None:
    found = sorted((one["confidence"], one["certified"]) for one in result["by_confidence"])
    rows = [[share_down(confidence), count(certified)] for confidence, certified in found]
    listed = blocks.unfolded("cells certified by confidence", ("confidence", "cells certified"), rows)
    told = "Asking for more certainty certifies fewer cells. Each row holds by itself, all its cells together."
    return blocks.section("certificates", "How sure the certificates are", listed, told) if rows else None


def _clearest(result: Document) -> Block | None:
    rows = []
    for one in (one for one in result["clearest"][:MOST_CLEAR] if one["adjusted"] < 1):
        spans = [_span(*pair, letters=24) for pair in zip(result["features"], one["ranges"], strict=True)][:4]
        certified = "certified" if one["certified"] is True else "left open"
        rows.append([markup("; ").join(spans), name(one["label"], 40), share_up(one["adjusted"]), certified])
    heads = ("cell", "label", "chance, at most", "certificate")
    listed = blocks.table("Table of the clearest cells", heads, rows, "list")
    told = "The chance is that any cell's sums are as clear as these, were another label the right one."
    return blocks.section("clearest", "The clearest cells", listed, told) if rows else None


# ---- what was learnt of a table


def table_page(result: Document, source: Source) -> Page:
    """Return the page of what was learnt of a table: which columns say most, and what their values say."""
    columns = sorted(result["columns"], key=lambda one: -one["moves"])
    users = count(result["users"])
    facts = [
        (users, "users, one report each", "users"),
        (show_up(result["epsilon"]), "ε per record, label included", "epsilon"),
        (count(len(columns)), "columns", "columns"),
    ]
    most = f"; {cleaned(columns[0]['name'], 50)} says most" if len(columns) > 1 else ""
    sentence = f"Labels were learnt from {users} private reports of {count(len(columns))} columns{most}."
    bars = [(cleaned(one["name"], 50), one["moves"], size(one["moves"]), True) for one in columns[:MOST_BARS]]
    rows = [[name(one["name"]), size(one["moves"])] for one in columns]
    rounds = [[ROUNDS.get(one["purpose"], one["purpose"]), count(one["users"])] for one in result["rounds"]]
    sections = [
        blocks.decision(sentence, facts, False, AUDIT, epsilon=result["epsilon"]),
        blocks.section(
            "columns", "Which columns say most", blocks.ranking("How far a column's values can move the score.", bars),
            blocks.unfolded("every column", ("column", "how far it moves the score"), rows),
            "A score is a logarithm of odds: 0.7 doubles them.",
        ),
        _values(columns[:MOST_BARS], result["classes"]),
        blocks.section("rounds", "What users were asked", blocks.table("Rounds", ("for", "users"), rounds, "list")),
        blocks.of_epsilon(result["epsilon"], 0.0, text.REPORT),
        blocks.limits(RAW, [result["honest"], text.SERVER]),
    ]  # fmt: skip
    origin = [
        ("Labels", names(result["classes"], letters=40)), ("Scores", MADE.get(result["regime"], result["regime"])),
        ("Labels are taken to be", MADE.get(result["prior"], result["prior"])),
        ("Who answers what", MADE.get(result["assigned"], result["assigned"])),
    ]  # fmt: skip
    return page(
        "What was learnt from private reports of a table?", f"{users} users, one bit each.", sections, source,
        origin=origin, holds="The result holds every value of every column.",
    )  # fmt: skip


def _values(columns: Sequence[Document], classes: Sequence[str]) -> Block:
    """Return what each value of a column says, or each part of its range: charts of numbers, tables of categories."""
    first, *others = (cleaned(label, 40) for label in classes)
    heads, drawn, folded = ("value", *(f"for {label}, less {first}" for label in others)), list[Any](), list[Block]()
    every = [score for column in columns for row in column["scores"] for score in row]
    upright = Axis(
        "score", min([0.0, *every]), max([0.0, *every])
    )  # one for all, so that noise looks as small as it is
    for column in columns:
        title, edges = cleaned(column["name"], 50), column["edges"]
        what = f"What values of {title} say, compared with the label {first}."
        parts = column["values"] or [f"{size(a)} to {size(b)}" for a, b in pairwise(edges)]
        rows = [[name(word, 40), *map(size, row)] for word, row in zip(parts, column["scores"], strict=True)]
        if edges is None and len(rows) <= MOST_BARS:
            drawn.append(blocks.table(f"Table of {title}", heads, rows, caption=what))
            continue
        folded.append(blocks.unfolded(f"what {title} says", heads, rows[:MOST_TABLED]))
        if edges is not None:
            by_label, across = (
                zip(others, zip(*column["scores"], strict=True), strict=True),
                Axis(title, edges[0], edges[-1]),
            )
            lines = [Line(word, [*zip(edges, [*row, row[-1]], strict=True)], "step") for word, row in by_label]
            drawn.append(Chart(what, across, upright, lines, rules=[(0.0, "says nothing")], height=250))
    told = f"A score above zero speaks for a label, and against the label {first}."
    return blocks.section(
        "values", "What values say", blocks.figures(*drawn) if drawn else None, *folded, told, kind=" across"
    )
