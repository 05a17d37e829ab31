"""The page of what was learnt from private reports: the map, its certificates, and what they do not say."""

from __future__ import annotations

from collections.abc import Sequence

from epsworth.reports.charts import Axis, Bar, Chart, Line, bar_chart
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import LONGEST, escaped, isolated
from epsworth.reports.held import Held
from epsworth.reports.maps import FILLED, HOLLOW, MOST_CLASSES, OTHER, UNSURE, Map, legend
from epsworth.reports.names import report_name
from epsworth.reports.numbers import share_down, share_up
from epsworth.reports.observing import of_promise
from epsworth.reports.page import Page
from epsworth.reports.parts import Origin, computed, decision, downloads, limits, page_body, section, unfolded
from epsworth.reports.plain import plain_page, size
from epsworth.rounding import show_up

TITLE = "What was learnt from private reports?"
SURER = 0.001  # a certificate that also holds with 99.9 %
MOST_CLEAR = 6
COUNTED = ("label", "cells with it", "cells certified to have it")
MOST_TABLED = 400  # cells in the table beside the map


def learnt_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page of a learnt classifier."""
    sections = [_decision(held)]
    drawn = "map" in held and len(held.texts("features")) <= 2
    sections.append(_map(held) if drawn else _labels(held))
    if held.parts("by_confidence"):
        sections.append(_certificates(held))
    if held.parts("clearest"):
        sections.append(_clearest(held))
    meaning, sliders = of_promise(
        held.number("epsilon", 0), 0.0, what="a user's record is the one they suspect", which="",
        seen="the user's one report",
    )  # fmt: skip
    sections += [meaning, _limits(held), _computed(held, origin)]
    sections.append(downloads(origin, whole, "The result holds every cell, where cells are few."))
    about = (
        f"{held.whole('users'):,} users, {isolated(held.text('guarantee'))} each, by "
        f"{isolated(report_name(held.text('mechanism')))}."
    )
    return plain_page(origin.title(TITLE), page_body(TITLE, about, sections, origin, keys(1)), sliders, whole)


def _decision(held: Held) -> str:
    cells, users = held.whole("cells"), held.whole("users")
    facts = [
        (f"{users:,}", "users, one report each", "users"),
        (show_up(held.number("epsilon", 0)), "ε per record, label included", "epsilon"),
    ]
    if "certified" not in held:
        return decision(
            f"Labels were read off {users:,} reports; none of them carries a certificate.", facts, good=False
        )
    count = held.whole("certified")
    facts.append((f"{count:,} of {cells:,}", "cells with a certified label", "certified"))
    sure = share_down(held.share("confidence"))
    sentence = (
        f"The label of {count:,} of {cells:,} cells is certified: if all reports are honest, each is that of the "
        f"average over its cell, all of them with {sure} confidence. {cells - count:,} cells are left open."
    )
    return decision(sentence, facts, good=count > 0)


def _kinds(held: Held, labels: Sequence[int]) -> list[int]:
    found = held.part("map")
    if "certified" not in found:
        return [UNSURE] * len(labels)
    certified, own = found.raw("certified"), found.raw("cell_label")
    adjusted = found.numbers("adjusted", 0, 1)
    return [
        UNSURE if sure is not True else OTHER if cell != label else FILLED if chance <= SURER else HOLLOW
        for sure, cell, label, chance in zip(certified, own, labels, adjusted, strict=True)
    ]


def _map(held: Held) -> str:
    names, classes, side = held.texts("features"), held.texts("classes"), held.whole("side")
    labels = [int(label) for label in held.part("map").numbers("label", 0, len(classes) - 1)]
    box = [[float(end) for end in ends] for ends in held.raw("box")]
    if len(labels) != side ** len(names) or len(box) != len(names) or any(len(e) != 2 or e[0] >= e[1] for e in box):
        raise ValueError("map: damaged or incomplete (cells and features do not fit)")
    if held.flag("overlapping") and side > 1:  # a cell lies around its point, which may be the end of a range
        halves = [(high - low) / (side - 1) / 2 for low, high in box]
        box = [[low - half, high + half] for (low, high), half in zip(box, halves, strict=True)]
    kinds = _kinds(held, labels)
    certified = "certified" in held
    what = f"The label of every cell over {' and '.join(names)}, and whether it is certified."
    kinds_drawn = kinds if certified else [FILLED] * len(labels)
    drawn = Map(what, names, box, side, labels, kinds_drawn).svg()
    told = ["A cell is filled with the label that is predicted in its middle where the same label is certified of it."]
    if not certified:
        told = ["Labels as they are predicted; this mechanism's reports carry no certificate."]
    elif held.whole("differing"):
        told.append(
            f"In {held.whole('differing'):,} cells smoothing predicts another label than the one certified: crossed."
        )
    if held.flag("overlapping"):
        told.append("Cells overlap: each is drawn around its point.")
    if len(classes) > MOST_CLASSES:
        told.append(f"Of {len(classes)} labels the fills repeat after {MOST_CLASSES}; the table names them.")
    key = legend(classes, set(kinds_drawn)) if certified else legend(classes, set()).replace(", certified", "")
    words = {FILLED: "certified", HOLLOW: "certified", UNSURE: "left open", OTHER: "another label is certified"}
    every = range(min(len(labels), MOST_TABLED))
    rows = (
        [_where(cell, side, box), isolated(classes[labels[cell]], 40), words[kinds[cell]] if certified else "–"]
        for cell in every
    )
    more = f" The table holds the first {MOST_TABLED} of {len(labels):,}." if len(labels) > MOST_TABLED else ""
    table = unfolded(
        "every cell", (f"cell at {', '.join(isolated(n, 40) for n in names)}", "label", "certificate"), rows
    )
    table += unfolded("cells by label", COUNTED, _counted(held))
    content = f'{key}<div class="panels">{drawn}</div>{table}<p class="caption">{" ".join(told)}{more}</p>'
    return section("map", "The learnt map", content)


def _where(cell: int, side: int, box: Sequence[Sequence[float]]) -> str:
    """Return the middle of a cell, about."""
    index = [cell] if len(box) == 1 else [cell // side, cell % side]
    return ", ".join(size(low + (at + 0.5) / side * (high - low)) for at, (low, high) in zip(index, box, strict=True))


def _counted(held: Held) -> list[list[str]]:
    rows = []
    for one in held.parts("labels"):
        certified = f"{one.whole('certified'):,}" if "certified" in one else "–"
        rows.append([isolated(one.text("label"), 40), f"{one.whole('cells'):,}", certified])
    return rows


def _labels(held: Held) -> str:
    counted = held.parts("labels")
    if not counted:
        told = f"<p>{held.whole('cells'):,} cells are too many to be told one by one.</p>"
        return section("labels", "The labels", told)
    bars = [Bar(one.text("label"), one.whole("cells"), f"{one.whole('cells'):,}") for one in counted[:12]]
    drawn = bar_chart(
        "Cells by the label that is predicted in their middle.", "cells in whose middle the label is predicted", bars
    )
    table = unfolded("cells by label", COUNTED, _counted(held))
    return section("labels", "The labels", f'<div class="panels">{drawn}</div>{table}')


def _certificates(held: Held) -> str:
    found = [(one.share("confidence"), one.whole("certified")) for one in held.parts("by_confidence")]
    found.sort()
    most = max(1, *(count for _, count in found))
    chart = Chart(
        "Cells whose label is certified, by the probability that some certificate is wrong.",
        Axis("some certificate is wrong with probability at most", 1 - found[-1][0], 1 - found[0][0], log=True),
        Axis("cells certified", 0.0, 1.05 * most),
        [Line("cells", [(1 - c, float(count)) for c, count in reversed(found)])], height=260, base=214,
    )  # fmt: skip
    rows = [[share_down(c), f"{count:,}"] for c, count in found]
    told = "Asking for more certainty certifies fewer cells. Each line holds by itself, all its cells together."
    table = unfolded("cells certified by confidence", ("confidence", "cells certified"), rows)
    what = f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">{told}</p>'
    return section("certificates", "How sure the certificates are", what)


def _clearest(held: Held) -> str:
    names, body = held.texts("features"), ""
    for one in held.parts("clearest")[:MOST_CLEAR]:
        ranges = one.raw("ranges")
        spans = "; ".join(
            f"{isolated(name, 24)} {size(float(low))} to {size(float(high))}"
            for name, (low, high) in list(zip(names, ranges, strict=True))[:4]
        )
        sure = "certified" if one.flag("certified") else "left open"
        body += (
            f'<tr><th scope="row">{spans}</th><td>{isolated(one.text("label"), 40)}</td>'
            f"<td>{share_up(one.share('adjusted'))}</td><td>{sure}</td></tr>"
        )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("cell", "label", "chance, at most", "certificate"))
    table = (
        '<div class="wide" role="region" tabindex="0" aria-label="Table of the clearest cells"><table class="list">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    told = "The chance is that any cell's sums are as clear as these, were another label the right one."
    return section("clearest", "The clearest cells", f'{table}<p class="caption">{told}</p>')


def _limits(held: Held) -> str:
    said = [
        escaped(held.text("honest"), 200),
        "A certificate speaks of the average over a cell, not of a point in it.",
        "The server sees every report: the ε limits what it says of the record, whoever reads it; k reports of one "
        "user keep k times the ε.",
        "That a person reports is seen; what they report says no more of the record than the ε allows.",
    ]
    raw = "This page is computed from reports that are private themselves: it may be shown to whom they may."
    return limits(raw, said, (), "open")


def _computed(held: Held, origin: Origin) -> str:
    box = held.raw("box")
    spans = "; ".join(
        f"{isolated(name, 40)} {size(float(low))} to {size(float(high))}"
        for name, (low, high) in [*zip(held.texts("features"), box, strict=True)][:8]
    )
    told = [
        ("Features", spans),
        ("Labels", ", ".join(isolated(name, 40) for name in held.texts("classes")[:12])),
        ("Cells", f"{held.whole('cells'):,}"),
        ("Outside", escaped(held.text("outside"))),
        ("Smoothing", f"over {size(held.number('width'))} of the box" if "width" in held else "none"),
        ("Certificates hold", share_down(held.share("confidence"))),
        ("Settings", f'<code class="print">{escaped(held.text("fingerprint"), LONGEST)}</code>'),
    ]
    return computed(told, origin)
