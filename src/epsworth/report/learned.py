"""The pages of a learner.

How many users a plan takes, and what was learnt from private reports, with certificates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, pairwise, product
from typing import Any

import numpy as np

from epsworth.learner import Plan
from epsworth.learner import plan as find_plan
from epsworth.learner.fakes import assumption, taken_for_honest
from epsworth.numerals import counted, whole
from epsworth.report import blocks, charts, text
from epsworth.report.blocks import Block
from epsworth.report.charts import CERTIFICATES, FILLED, OTHER, UNSURE, Axis, Chart, Line
from epsworth.report.page import Document, Page, Source, page
from epsworth.report.text import approx, count, epsilon_is, markup, name, names, printable, share_down, share_up
from epsworth.rounding import show_down, show_up

QUICK = ("hadamard", "ternary")  # others are planned in a second each: for one margin only
FACTORS = (0.5, 1.0, 2.0)  # of the margin
SPAN, STOPS = 4.0, 7  # of epsilon, either way
MOST_CLEAR, MOST_BARS = 6, 12
MOST_ROWS = 400  # cells in the table beside the map
AUDIT = "No certificate covers them: epsworth learn audit asks users who answered in no round how often they are right."
OUTSIDE = {"clip": "read as its nearest end", "zero": "reported as outside", "refuse": "refused"}
ROUNDS = {  # purposes
    "quantiles": "how the values of number columns are spread", "tables": "which values go with which labels",
    "weights": "how much each column counts beside the others", "validation": "whether these weights do better",
}  # fmt: skip
ROUND = ("for", "users", "expected")
SETTINGS = {  # in other words than a configuration
    "estimated": "as common as in the reports", "balanced": "as if all were equally common",
    "drawn": "drawn by users", "hash": "set by registered ids",
    "additive": "a curve of each column's values", "linear": "a line of each column's values",
    "ramp": "a curve of each column's values, mostly a line", "weighted": "a curve of each column's values, weighted",
}  # fmt: skip
RAW = "This page is computed from reports that are private themselves: show it to whoever may see the reports."
cached_plan = lru_cache(maxsize=256)(find_plan)
QUESTION = {
    "cells": "Cells per axis", "features": "Features", "mass": "Share of users in the cell, at most",
    "fakes": "Fakes, at most",
}  # fmt: skip


# ---- a plan


def plan_page(result: Document, source: Source) -> Page:
    """Return the page of a plan, and what other epsilons and margins would take."""
    epsilon, margin = (math.inf if result[key] is None else float(result[key]) for key in ("epsilon", "margin"))
    plan = Plan(
        epsilon, result["users"], margin, result["confidence"], result.get("feasible", True), result["power"],
        result["mechanism"], whole("fakes", result.get("fakes", 0), least=0),
    )  # fmt: skip
    good, mechanism = plan.feasible and margin <= 1, text.report_name(plan.mechanism)
    question = result.get("question")
    facts = (
        (count(plan.users), "users, one report each", "users"),
        (show_up(epsilon), "ε per record, label included", "epsilon"),
        (show_up(margin), "margin of the cell, or more", "margin"),
    )
    unusable = "Users whose records cannot be used report, too, and carry nothing: plan for more."
    sentence = str(plan).replace(f" by {plan.mechanism} reports,", f" by {mechanism},")
    sections = [
        blocks.decision(sentence, facts if good else (), good, epsilon=epsilon if good else None),
        _trade_off(plan, question) if good and question is not None else None,
        blocks.meaning_of_epsilon(epsilon, 0.0, text.REPORT) if math.isfinite(epsilon) else None,
        blocks.limits(text.NO_DATA, [text.SERVER, taken_for_honest(plan.fakes), text.CELL, unusable]),
    ]
    origin = [
        ("Mechanism", mechanism),
        ("Confidence", show_down(float(plan.confidence))),
        ("Power", show_down(plan.power)),
        *(
            (word, share_down(question[key]) if key == "mass" else question[key])
            for key, word in QUESTION.items()
            if question and question.get(key) is not None
        ),
    ]
    return page(
        "How many users does this learner need?", "Labels learnt from reports that are private before they leave.",
        sections, source, origin=origin, holds="The result holds the plan.",
    )  # fmt: skip


def _trade_off(plan: Plan, question: Document) -> Block:
    curves = _curves(plan, question)
    epsilons = sorted({epsilon for _, users in curves for epsilon in users})
    counts = [number for _, users in curves for number in users.values()]
    chart = Chart(
        "Users that are needed, by ε per record; one line for every margin.",
        Axis("ε per record", epsilons[0], epsilons[-1], log=True),
        Axis("users", 0.8 * min(counts), 1.25 * max(counts), log=True),
        [Line(f"margin {show_up(margin)}", [(e, float(n)) for e, n in users.items()]) for margin, users in curves],
        cursor=plan.epsilon, cursor_key="plan-cursor", height=340,
    )  # fmt: skip
    sentences = []
    for e in epsilons:
        needs = [f"{count(users[e])} users for a margin of {show_up(margin)}" for margin, users in curves if e in users]
        sentences.append(f"At {epsilon_is(e)}: {', '.join(needs)}.")
    rows = [[show_up(e), *(count(users[e]) if e in users else "–" for _, users in curves)] for e in epsilons]
    heads = ["ε per record", *(f"users, margin {show_up(margin)}" for margin, _ in curves)]
    return blocks.trade_off(
        "What else goes together", "ε per record", epsilons, epsilons.index(plan.epsilon), sentences, chart,
        blocks.details("users by epsilon", heads, rows),
        "The margin is how far a cell's two labels are from even, times the cell's share of all users."
        + ("" if plan.fakes else " Half the margin takes about four times the users."),
    )  # fmt: skip


def _curves(plan: Plan, question: Document) -> list[tuple[float, dict[float, int]]]:
    """Return, by margin, the users that every epsilon takes: as `plan` finds them, the plan's own among them."""
    quick, mass = plan.mechanism in QUICK, 1.0 if question.get("mass") is None else question["mass"]
    near = (
        float(show_up(plan.epsilon * factor, 3))
        for factor in np.geomspace(1 / SPAN, SPAN, STOPS if quick else 5).tolist()
    )
    grid = sorted({e for e in near if 0.01 <= e <= 30 and abs(e / plan.epsilon - 1) > 0.01} | {plan.epsilon})
    curves = []
    for factor in FACTORS if quick else (1.0,):
        margin, users = plan.margin * factor, dict[float, int]()
        for epsilon in grid if margin <= mass else []:
            if factor == 1 and epsilon == plan.epsilon:
                users[epsilon] = plan.users
                continue
            with suppress(ValueError):  # more users than can be counted
                users[epsilon] = cached_plan(
                    epsilon=epsilon, margin=margin, confidence=plan.confidence, power=plan.power,
                    mechanism=plan.mechanism, mass=mass, m=question.get("cells"), d=question.get("features"),
                    fakes=question.get("fakes") or 0,
                ).users  # fmt: skip
        if users:
            curves.append((margin, users))
    return curves


# ---- what was learnt


def learnt_page(result: Document, source: Source) -> Page:
    """Return the page of a learnt classifier: the map, its certificates, and what they do not say."""
    has_map = result.get("map") is not None and len(result["features"]) <= 2
    many = None if result["labels"] else f"{count(result['cells'])} cells are too many to be told one by one."
    labels = blocks.section("labels", "The labels", many or blocks.table(*_labels(result)))
    participation = "That a person reports is seen; what they report says no more of the record than the ε allows."
    sections = [
        _decision(result), _map(result) if has_map else labels, _certificates(result), _clearest(result),
        blocks.meaning_of_epsilon(result["epsilon"], 0.0, text.REPORT),
        blocks.limits(RAW, [result["honest"], text.CELL, text.SERVER, participation]),
    ]  # fmt: skip
    spans = [_span(*span, letters=40) for span in list(zip(result["features"], result["box"], strict=True))[:8]]
    origin = [
        ("Features", markup("; ").join(spans)),
        ("Labels", names(result["classes"], letters=40)),
        ("Cells", count(result["cells"])),
        ("Values beyond a range", OUTSIDE.get(result["outside"], result["outside"])),
        ("Smoothing", "none" if result.get("width") is None else f"over {approx(result['width'])} of the box"),
        ("Certificates hold", share_down(result["confidence"])),
        ("Settings", text.code(result["fingerprint"])),
    ]
    mechanism = name(text.report_name(result["mechanism"]))
    about = markup("{} users, {} each, by {}.", count(result["users"]), name(result["guarantee"]), mechanism)
    return page(
        "What was learnt from private reports?", about, sections, source, origin=origin,
        holds="The result holds every cell, where cells are few.",
    )  # fmt: skip


def _span(feature: str, ends: Sequence[float], letters: int) -> Any:
    return markup("{} {} to {}", name(feature, letters), approx(float(ends[0])), approx(float(ends[1])))


def _facts(result: Document) -> list[tuple[str, str, str]]:
    return [
        (count(result["users"]), "users, one report each", "users"),
        (show_up(result["epsilon"]), "ε per record, label included", "epsilon"),
    ]


def _decision(result: Document) -> Block:
    cells, users, certified = result["cells"], count(result["users"]), result["certified"]
    fakes, surely = assumption(whole("fakes", result.get("fakes", 0), least=0)), share_down(result["confidence"])
    if certified is None:
        sentence = f"Labels were read off {users} reports; none of them carries a certificate."
        return blocks.decision(sentence, _facts(result), good=False)
    each = "each is" if certified > 1 else "it is"
    together = ", all of them" if certified > 1 else ","
    sentence = (
        f"The label of {count(certified)} of {count(cells)} cells is certified, {fakes}: {each} that of the average "
        f"over its cell{together} with {surely} confidence. {counted(cells - certified, 'cell')} "
        f"{'is' if cells - certified == 1 else 'are'} left open."
    )
    if certified == 0:
        sentence = f"No cell's label is certain ({surely} confidence), {fakes}."
    if result.get("reason") is not None:
        sentence = f"Nothing is certified: {result['reason']}."
    share = (f"{count(certified)} of {count(cells)}", "cells with a certified label", "certified")
    return blocks.decision(sentence, [*_facts(result), share], certified > 0, epsilon=result["epsilon"])


def kinds_of(result: Document) -> list[int]:
    """Return each cell's kind: filled only where the label that is predicted in its middle is certified."""
    cells = result["map"]
    if cells.get("certified") is None:
        return [UNSURE] * len(cells["label"])
    labels = zip(cells["certified"], cells["cell_label"], cells["label"], strict=True)
    return [UNSURE if sure is not True else FILLED if cell == label else OTHER for sure, cell, label in labels]


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
    fills = kinds if certified else [FILLED] * len(labels)
    caption = "In full colour: the label that is predicted in the middle of a cell is certified of the cell."
    if not certified:
        caption = "Labels as they are predicted; this mechanism's reports carry no certificate."
    elif result["differing"]:
        crossed = count(result["differing"])
        caption += f" In {crossed} cells smoothing predicts another label than the one certified: crossed."
    caption += " Cells overlap: each is drawn around its point." if result["overlapping"] else ""
    if len(classes) > charts.MOST_CLASSES:
        caption += f" Of {len(classes)} labels the fills repeat after {charts.MOST_CLASSES}; the table names them."
    if len(labels) > MOST_ROWS:
        caption += f" The table holds the first {MOST_ROWS} of {len(labels):,}."
    steps = [[low + (i + 0.5) / side * (high - low) for i in range(side)] for low, high in box]
    middles = (", ".join(map(approx, middle)) for middle in product(*steps))
    rows = [
        [middle, name(classes[label], 40), CERTIFICATES[kind] if certified else "–"]
        for middle, label, kind in islice(zip(middles, labels, kinds, strict=True), MOST_ROWS)
    ]
    heads = (markup("cell at {}", names(features, letters=40)), "label", "certificate")
    description = f"The label of every cell over {' and '.join(features)}, and whether it is certified."
    legend = charts.legend(classes, set(zip(labels, fills, strict=True)), certified=certified)
    return blocks.section(
        "map", "The learnt map", {"is": "list", "entries": legend},
        charts.certificate_map(description, features, box, side, labels, fills),
        blocks.details("every cell", heads, rows), blocks.details(*_labels(result)), caption,
    )  # fmt: skip


def _labels(result: Document) -> tuple[str, Sequence[str], list[list[object]]]:
    """Return title, heads and rows of a table of the labels."""
    rows: list[list[object]] = [
        [name(one["label"], 40), *("–" if n is None else count(n) for n in (one["cells"], one.get("certified")))]
        for one in result["labels"][:MOST_ROWS]
    ]
    return "cells by label", ("label", "cells with it", "cells certified to have it"), rows


def _certificates(result: Document) -> Block | None:
    points = sorted((one["confidence"], one["certified"]) for one in result["by_confidence"])
    rows = [[share_down(confidence), count(certified)] for confidence, certified in points]
    numbers = blocks.details("cells certified by confidence", ("confidence", "cells certified"), rows)
    caption = "Asking for more certainty certifies fewer cells. Each row holds by itself, all its cells together."
    return blocks.section("certificates", "How sure the certificates are", numbers, caption) if rows else None


def _clearest(result: Document) -> Block | None:
    rows = []
    for cell in (cell for cell in result["clearest"][:MOST_CLEAR] if cell["adjusted"] < 1):
        spans = [_span(*span, letters=24) for span in zip(result["features"], cell["ranges"], strict=True)][:4]
        certificate = CERTIFICATES[FILLED if cell["certified"] is True else UNSURE]
        rows.append([markup("; ").join(spans), name(cell["label"], 40), share_up(cell["adjusted"]), certificate])
    heads = ("cell", "label", "chance, at most", "certificate")
    table = blocks.table("Table of the clearest cells", heads, rows, "list")
    caption = "The chance is that any cell's sums are as clear as these, were another label the right one."
    return blocks.section("clearest", "The clearest cells", table, caption) if rows else None


# ---- what was learnt of a table


def table_page(result: Document, source: Source) -> Page:
    """Return the page of what was learnt of a table: which columns say most, and what their values say."""
    columns = sorted(result["columns"], key=lambda column: -column["moves"])
    users, number = count(result["users"]), count(len(columns))
    most = f"; {printable(columns[0]['name'], 50)} says most" if len(columns) > 1 else ""
    learnt = f"Labels were learnt from {users} private reports of {number} columns{most}."
    sentence = " ".join(filter(None, (learnt, result["fewer"])))
    facts = [*_facts(result), (number, "columns", "columns")]
    bars = [(printable(one["name"], 50), one["moves"], approx(one["moves"]), True) for one in columns[:MOST_BARS]]
    rows = [[name(column["name"]), approx(column["moves"])] for column in columns]
    rounds = [
        [ROUNDS.get(one["purpose"], one["purpose"]), count(one["users"]), count(one["expected"])]
        for one in result["rounds"]
    ]
    sections = [
        blocks.decision(sentence, facts, False, AUDIT, epsilon=result["epsilon"]),
        blocks.section(
            "columns", "Which columns say most", blocks.ranking("How far a column's values can move the score.", bars),
            blocks.details("every column", ("column", "how far it moves the score"), rows),
            "A score is a logarithm of odds: 0.7 doubles them.",
        ),
        _values(columns[:MOST_BARS], result["classes"]),
        blocks.section("rounds", "What users were asked", blocks.table("Rounds", ROUND, rounds, "list")),
        blocks.meaning_of_epsilon(result["epsilon"], 0.0, text.REPORT),
        blocks.limits(RAW, [result["honest"], text.SERVER]),
    ]  # fmt: skip
    words = {"regime": "Scores", "prior": "Labels are taken to be", "assigned": "Who answers what"}
    settings = [(word, SETTINGS.get(result[key], result[key])) for key, word in words.items()]
    return page(
        "What was learnt from private reports of a table?", f"{users} users, one bit each.", sections, source,
        origin=[("Labels", names(result["classes"], letters=40)), *settings],
        holds="The result holds every value of every column.",
    )  # fmt: skip


def _values(columns: Sequence[Document], classes: Sequence[str]) -> Block:
    """Return what each value of a column says, or each part of its range: charts of numbers, tables of categories."""
    first, *others = (printable(label, 40) for label in classes)
    heads, figures, numbers = ("value", *(f"score of {label}" for label in others)), list[Any](), list[Block]()
    scores = [0.0, *(score for column in columns for row in column["scores"] for score in row)]
    y = Axis("score", min(scores), max(scores))  # one for all, so that noise looks as small as it is
    for column in columns:
        title, edges = printable(column["name"], 50), column["edges"]
        description = f'What values of {title} say, compared with the label "{first}".'
        parts = column["values"] or [f"{approx(a)} to {approx(b)}" for a, b in pairwise(edges)]
        rows = [[name(word, 40), *map(approx, row)] for word, row in zip(parts, column["scores"], strict=True)]
        rows += [["a gap", *map(approx, column["gap"])]] if column["gap"] is not None else []
        if edges is None and len(rows) <= MOST_BARS:
            figures.append(blocks.table(f"Table of {title}", heads, rows, caption=description))
            continue
        numbers.append(blocks.details(f"what {title} says", heads, rows[:MOST_ROWS]))
        if edges is not None:
            by_label = zip(others, zip(*column["scores"], strict=True), strict=True)
            lines = [Line(word, [*zip(edges, [*row, row[-1]], strict=True)], "step") for word, row in by_label]
            x = Axis(title, edges[0], edges[-1])
            figures.append(Chart(description, x, y, lines, rules=[(0.0, "says nothing")], height=250))
    caption = f'A score above zero speaks for a label, and against the label "{first}".'
    parts = [blocks.figures(*figures)] if figures else []
    return blocks.section("values", "What values say", *parts, *numbers, caption, kind=" across")
