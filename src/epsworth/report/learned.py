"""The pages of a learner: how many users a plan takes, and what was learnt from private reports, with certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from epsworth.learner import Plan, plan
from epsworth.learner.fakes import assumption, taken_for_honest
from epsworth.numerals import whole
from epsworth.report import blocks, charts, text
from epsworth.report.blocks import Block
from epsworth.report.charts import FILLED, HOLLOW, OTHER, UNSURE, Axis, Chart, Line
from epsworth.report.escaping import LONGEST, cleaned, code, escaped, markup, name, names
from epsworth.report.page import Document, Page, Source, page
from epsworth.report.text import at, count, report_name, share_down, share_up, size
from epsworth.rounding import show_down, show_up

QUICK = ("hadamard", "ternary")  # others are planned in a second each: for one margin only
FACTORS = (0.5, 1.0, 2.0)  # of the margin
SPAN, STOPS = 4.0, 7  # of epsilon, either way
SURER = 0.001  # a certificate that also holds with 99.9 %
MOST_CLEAR, MOST_BARS = 6, 12
MOST_TABLED = 400  # cells in the table beside the map
COUNTED = ("label", "cells with it", "cells certified to have it")
CERTIFICATES = {FILLED: "certified", HOLLOW: "certified", UNSURE: "left open", OTHER: "another label is certified"}
AUDIT = "An audit of users who answered in no round tells how sure it is."
RAW = "This page is computed from reports that are private themselves: it may be shown to whom they may."
planned = lru_cache(maxsize=256)(plan)
QUESTION = {
    "cells": "Cells per axis", "features": "Features", "mass": "Users in the cell, at most", "fakes": "Fakes, at most",
}  # fmt: skip


# ---- a plan


def plan_page(result: Document, source: Source) -> Page:
    """Return the page of a plan; what else goes together is planned here."""
    epsilon, margin = (math.inf if result[key] is None else float(result[key]) for key in ("epsilon", "margin"))
    found = Plan(
        epsilon, result["users"], margin, result["confidence"], result.get("feasible", True), result["power"],
        result["mechanism"], _fakes(result),
    )  # fmt: skip
    good, asked, mechanism = found.feasible and margin <= 1, result.get("question"), report_name(found.mechanism)
    facts = (
        (count(found.users), "users, one report each", "users"),
        (show_up(epsilon), "ε per record, label included", "epsilon"),
        (show_up(margin), "signed mean of the cell, or more", "margin"),
    )
    said = [
        text.SERVER,
        "k reports of one user keep k times the ε.",
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
        ("Mechanism", escaped(mechanism, LONGEST)),
        ("Confidence", show_down(float(found.confidence))),
        ("Power", show_down(found.power)),
        *((word, asked[key]) for key, word in QUESTION.items() if asked and asked.get(key) is not None),
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
        "The margin is the size of a cell's signed mean: about |2η - 1| divided by the number of cells. Half the "
        "margin takes about four times the users.",
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


def _fakes(result: Document) -> int:
    return whole("fakes", result.get("fakes", 0), least=0)


# ---- what was learnt


def learnt_page(result: Document, source: Source) -> Page:
    """Return the page of a learnt classifier: the map, its certificates, and what they do not say."""
    drawn = result.get("map") is not None and len(result["features"]) <= 2
    sections = [
        _decision(result), _map(result) if drawn else _labels(result), _certificates(result), _clearest(result),
        blocks.of_epsilon(result["epsilon"], 0.0, text.REPORT), _limits(result),
    ]  # fmt: skip
    spans = [_span(*one, letters=40) for one in list(zip(result["features"], result["box"], strict=True))[:8]]
    origin = [
        ("Features", markup("; ").join(spans)),
        ("Labels", names(result["classes"], letters=40)),
        ("Cells", count(result["cells"])),
        ("Outside", escaped(result["outside"], LONGEST)),
        ("Smoothing", "none" if result.get("width") is None else f"over {size(result['width'])} of the box"),
        ("Certificates hold", share_down(result["confidence"])),
        ("Settings", code(str(result["fingerprint"])[:LONGEST])),
    ]
    who, by = count(result["users"]), report_name(result["mechanism"])
    about = markup("{} users, {} each, by {}.", who, name(result["guarantee"]), name(by))
    return page(
        "What was learnt from private reports?", about, sections, source, origin=origin,
        holds="The result holds every cell, where cells are few.",
    )  # fmt: skip


def _span(feature: str, ends: Sequence[float], letters: int) -> Any:
    return markup("{} {} to {}", name(feature, letters), size(float(ends[0])), size(float(ends[1])))


def _decision(result: Document) -> Block:
    cells, users, certified = result["cells"], count(result["users"]), result["certified"]
    facts = [
        (users, "users, one report each", "users"),
        (show_up(result["epsilon"]), "ε per record, label included", "epsilon"),
    ]
    if certified is None:
        sentence = f"Labels were read off {users} reports; none of them carries a certificate."
        return blocks.decision(sentence, facts, good=False)
    facts.append((f"{count(certified)} of {count(cells)}", "cells with a certified label", "certified"))
    sentence = (
        f"The label of {count(certified)} of {count(cells)} cells is certified, {assumption(_fakes(result))}: "
        f"each is that of the average over its cell, all of them with {share_down(result['confidence'])} confidence. "
        f"{count(cells - certified)} cells are left open."
    )
    if result.get("reason") is not None:
        sentence = f"Nothing is certified: {result['reason']}."
    return blocks.decision(sentence, facts, certified > 0, epsilon=result["epsilon"])


def kinds_of(result: Document) -> list[int]:
    """Return how each cell is drawn: filled only where the label that is predicted in its middle is certified."""
    drawn = result["map"]
    if drawn.get("certified") is None:
        return [UNSURE] * len(drawn["label"])
    every = zip(drawn["certified"], drawn["cell_label"], drawn["label"], drawn["adjusted"], strict=True)
    return [
        UNSURE if sure is not True else OTHER if cell != label else FILLED if chance <= SURER else HOLLOW
        for sure, cell, label, chance in every
    ]


def _map(result: Document) -> Block:
    features, classes, side, labels = result["features"], result["classes"], result["side"], result["map"]["label"]
    box = [(float(low), float(high)) for low, high in result["box"]]
    if result["overlapping"] and side > 1:  # a cell lies around its point, which may be the end of a range
        halves = [(high - low) / (side - 1) / 2 for low, high in box]
        box = [(low - half, high + half) for (low, high), half in zip(box, halves, strict=True)]
    kinds, certified = kinds_of(result), result["certified"] is not None
    looks = kinds if certified else [FILLED] * len(labels)
    what = f"The label of every cell over {' and '.join(features)}, and whether it is certified."
    told = ["A cell is filled with the label that is predicted in its middle where the same label is certified of it."]
    if not certified:
        told = ["Labels as they are predicted; this mechanism's reports carry no certificate."]
    elif result["differing"]:
        told.append(
            f"In {count(result['differing'])} cells smoothing predicts another label than the one certified: crossed."
        )
    if result["overlapping"]:
        told.append("Cells overlap: each is drawn around its point.")
    if len(classes) > charts.MOST_CLASSES:
        told.append(f"Of {len(classes)} labels the fills repeat after {charts.MOST_CLASSES}; the table names them.")
    if len(labels) > MOST_TABLED:
        told.append(f"The table holds the first {MOST_TABLED} of {len(labels):,}.")
    rows = [
        [_where(cell, side, box), name(classes[label], 40), CERTIFICATES[kind] if certified else "–"]
        for cell, (label, kind) in enumerate(zip(labels[:MOST_TABLED], kinds, strict=False))
    ]
    heads = (markup("cell at {}", names(features, letters=40)), "label", "certificate")
    return blocks.section(
        "map", "The learnt map", {"is": "list", "items_": charts.legend(classes, set(looks), certified=certified)},
        charts.learnt_map(what, features, box, side, labels, looks), blocks.unfolded("every cell", heads, rows),
        blocks.unfolded("cells by label", COUNTED, _counted(result)), " ".join(told),
    )  # fmt: skip


def _where(cell: int, side: int, box: Sequence[tuple[float, float]]) -> str:
    """Return the middle of a cell, about."""
    index = [cell] if len(box) == 1 else [cell // side, cell % side]
    return ", ".join(size(low + (at + 0.5) / side * (high - low)) for at, (low, high) in zip(index, box, strict=True))


def _counted(result: Document) -> list[list[object]]:
    return [
        [name(one["label"], 40), count(one["cells"]), "–" if one.get("certified") is None else count(one["certified"])]
        for one in result["labels"]
    ]


def _labels(result: Document) -> Block:
    every = result["labels"][:MOST_BARS]
    shown = [(cleaned(one["label"], 50), one["cells"], count(one["cells"]), True) for one in every]
    if not shown:
        many = blocks.paragraph(f"{count(result['cells'])} cells are too many to be told one by one.")
        return blocks.section("labels", "The labels", many)
    bars = blocks.ranking("Cells by the label that is predicted in their middle.", shown)
    return blocks.section("labels", "The labels", bars, blocks.unfolded("cells by label", COUNTED, _counted(result)))


def _certificates(result: Document) -> Block | None:
    found = sorted((one["confidence"], one["certified"]) for one in result["by_confidence"])
    if not found:
        return None
    chart = Chart(
        "Cells whose label is certified, by the probability that some certificate is wrong.",
        Axis("some certificate is wrong with probability at most", 1 - found[-1][0], 1 - found[0][0], log=True),
        Axis("cells certified", 0.0, 1.05 * max(1, *(certified for _, certified in found))),
        [Line("cells", [(1 - confidence, float(certified)) for confidence, certified in reversed(found)])], height=260,
    )  # fmt: skip
    rows = [[share_down(confidence), count(certified)] for confidence, certified in found]
    return blocks.section(
        "certificates", "How sure the certificates are", chart,
        blocks.unfolded("cells certified by confidence", ("confidence", "cells certified"), rows),
        "Asking for more certainty certifies fewer cells. Each line holds by itself, all its cells together.",
    )  # fmt: skip


def _clearest(result: Document) -> Block | None:
    rows = []
    for one in result["clearest"][:MOST_CLEAR]:
        spans = [_span(*pair, letters=24) for pair in zip(result["features"], one["ranges"], strict=True)][:4]
        certified = "certified" if one["certified"] is True else "left open"
        rows.append([markup("; ").join(spans), name(one["label"], 40), share_up(one["adjusted"]), certified])
    if not rows:
        return None
    return blocks.section(
        "clearest",
        "The clearest cells",
        blocks.table(("cell", "label", "chance, at most", "certificate"), rows, "Table of the clearest cells", "list"),
        "The chance is that any cell's sums are as clear as these, were another label the right one.",
    )


def _limits(result: Document) -> Block:
    said = [
        escaped(result["honest"], 200),
        text.CELL,
        f"{text.SERVER[:-1]}; k reports of one user keep k times the ε.",
        "That a person reports is seen; what they report says no more of the record than the ε allows.",
    ]
    return blocks.limits(RAW, said)


# ---- what was learnt of a table


def table_page(result: Document, source: Source) -> Page:
    """Return the page of what was learnt of a table: which columns say most, and what their values say."""
    columns = sorted(result["columns"], key=lambda one: -one["moves"])
    users, classes = count(result["users"]), [cleaned(label, 40) for label in result["classes"]]
    facts = [
        (users, "users, one report each", "users"),
        (show_up(result["epsilon"]), "ε per record, label included", "epsilon"),
        (count(len(columns)), "columns", "columns"),
    ]
    sentence = f"{users} private reports tell labels from {count(len(columns))} columns; no certificate covers them."
    bars = [(cleaned(one["name"], 50), one["moves"], size(one["moves"]), True) for one in columns[:MOST_BARS]]
    rows = [[name(one["name"]), size(one["moves"])] for one in columns]
    sections = [
        blocks.decision(sentence, facts, True, AUDIT, epsilon=result["epsilon"]),
        blocks.section(
            "columns", "Which columns say most", blocks.ranking("How far a column's values can move the score.", bars),
            blocks.unfolded("every column", ("column", "how far it moves the score"), rows),
            "A score is a logarithm of odds: 0.7 doubles them.",
        ),
        blocks.section("values", "What values say", *_values(columns, classes)),
        blocks.section("rounds", "The rounds", blocks.table(
            ("round", "users"), [[name(one["purpose"]), count(one["users"])] for one in result["rounds"]],
            "Table of the rounds", "list",
        )),
        blocks.of_epsilon(result["epsilon"], 0.0, text.REPORT),
        blocks.limits(RAW, [escaped(result["honest"], 200), text.SERVER]),
    ]  # fmt: skip
    origin = [
        ("Labels", names(result["classes"], letters=40)), ("Rounds", escaped(result["regime"], LONGEST)),
        ("Commonness of labels", escaped(result["prior"], LONGEST)), ("Rows", escaped(result["assigned"], LONGEST)),
    ]  # fmt: skip
    return page(
        "What was learnt from private reports of a table?", f"{users} users, one bit each.", sections, source,
        origin=origin, holds="The result holds every value of every column.",
    )  # fmt: skip


def _values(columns: Sequence[Document], classes: Sequence[str]) -> list[Block]:
    """Return a chart per number and a table per column, the most telling first."""
    charted = [one for one in columns if one["edges"] is not None][:MOST_CLEAR]
    found = [blocks.figures(*(_scored(one, classes) for one in charted))] if charted else []
    heads = ("value", *(f"for {label}, less {classes[0]}" for label in classes[1:]))
    for one in columns[:MOST_BARS]:
        edges, values = one["edges"], one["values"]
        words = [f"{size(a)} to {size(b)}" for a, b in pairwise(edges)] if values is None else values
        rows = [[name(word, 40), *map(size, scores)] for word, scores in zip(words, one["scores"], strict=True)]
        found.append(blocks.unfolded(f"what {cleaned(one['name'], 50)} says", heads, rows[:MOST_TABLED]))
    return found


def _scored(column: Document, classes: Sequence[str]) -> Chart:
    edges, scores = [float(edge) for edge in column["edges"]], column["scores"]
    most = max(1e-9, *(abs(float(one)) for row in scores for one in row))
    by_label = np.array(scores, dtype=float).T.tolist()[: charts.MOST_CLASSES]
    lines = [
        Line(f"for {label}", [*zip(edges, [*own, own[-1]], strict=True)], "step")
        for label, own in zip(classes[1:], by_label, strict=False)
    ]
    what = f"What {cleaned(column['name'], 50)} says for a label, less {classes[0]}."
    return Chart(
        what, Axis(cleaned(column["name"], 50), edges[0], edges[-1]), Axis("score", -1.05 * most, 1.05 * most), lines,
        rules=[(0.0, "")], height=220,
    )  # fmt: skip
