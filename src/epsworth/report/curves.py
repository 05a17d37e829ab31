"""The page of curves.

What to choose, how often labels stay, what the epsilon means, who is served worst, and panels about one record.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

from epsworth.policy import Policy
from epsworth.report import blocks, charts, text
from epsworth.report.blocks import Block
from epsworth.report.charts import COLOURS, Axis, Chart, Line, coordinate
from epsworth.report.curves_view import SHARES, CurvesView
from epsworth.report.page import Page, Source, page
from epsworth.report.text import epsilon_is, markup, mechanism_name, name, names, percent, percent_of, printable
from epsworth.rounding import round_down, show_down, show_up
from epsworth.utility.boxes import texts
from epsworth.utility.panels import MOST_VALUES, Panels, numbered, served

TITLE = "What is this epsilon worth?"
TAILORED = "made for this model"  # a row of a verdict
WORTH = 0.001  # of a split to be named: a difference that is seen
MOST_TOGETHER = 5  # curves in one chart; more get a chart each
EXACT = 1e-6  # width of bounds that no chart tells from a line
FAR = 40  # ratio of epsilons from which on their axis is logarithmic
TABLE_PRIORS = (1, 10, 50, 90)  # per cent
MOST_OF_DELTA, MOST_PROMISES = 24, 120  # rows of that table: of one delta, about; and in all
MOST_GROUPS = 12
TO_RUN = "For what clients must run: <code>epsworth {} … --policy policy.toml</code>"
SEEN = {
    "pure": f"At {text.POINT} one release", "certain": f"At {text.POINT} one release",
    "weaker": "One release at ε\u00a0=\u00a0{total}, δ\u00a0=\u00a0{delta} per record",
}  # fmt: skip
OBSERVER = {  # the script's sentences about an epsilon
    kind: text.fill(text.SENTENCES[kind], {"prior": "{prior}", "after": "{after}", **text.RECORD, "seen": seen})
    for kind, seen in SEEN.items()
}


def curves_page(view: CurvesView, source: Source, panels: Panels | None = None) -> Page:
    """Return the page; ``panels`` are what a file keeps beside curves."""
    policy, count, features = _policy(view, panels), len(view.curves.labels), view.curves.features
    figures = [_figures(view, i) for i in range(len(view.statistics))]
    words = {"held": _held(view), "limit": show_down(view.recommendation.max_epsilon), "most": _most(view)}
    numbers = view.numbers | {"words": text.SENTENCES | OBSERVER | words, "frames": [_frame(row[0]) for row in figures]}
    sections: list[Block | None] = [_decision(view, panels), _controls(view), _curves(view, figures)]
    sections += [_mechanisms(view), _meaning(view)]
    sections += [_records(view), _groups(view, panels)] if count > 1 else []
    sections += [_map(panels), _safe(panels), _split(panels)] if panels is not None else []
    choice = view.recommendation.choice
    made = choice is not None and choice.tailored
    more = markup(TO_RUN, "tailor MODEL TABLE -s … -e" if made else "recommend RESULT.json --at-least")
    if policy is not None and choice is not None:
        more = markup(
            "The policy is that of the recommendation, {} at {} per record, and does not follow the sliders; "
            "fingerprint {}.",
            name(mechanism_name(choice.mechanism)), epsilon_is(choice.guarantee.epsilon), text.code(policy.fingerprint),
        )  # fmt: skip
    return page(
        TITLE, markup("{}; perturbed: {}.", f"{count:,} records" if count > 1 else "one record", names(features)),
        [*sections, _limits(view, panels)], source, origin=_origin(view, panels), holds=_holds(panels), more=more,
        numbers=numbers, policy="" if policy is None else policy.to_toml(),
        title=f"{TITLE} {printable(', '.join(map(str, features[:12])))}",
    )  # fmt: skip


def _policy(view: CurvesView, panels: Panels | None) -> Policy | None:
    """Return what clients must run to get the recommendation; None where no ranges are declared, or nothing fits."""
    if panels is None or panels.domain is None or not panels.declared:
        return None
    if not view.requested or view.recommendation.choice is None:
        return None
    try:
        return view.recommendation.policy(panels.domain)
    except ValueError:  # no exact sampler, made for its model, or a policy already
        return None


# ---- the decision


def _decision(view: CurvesView, panels: Panels | None) -> Block:
    recommendation = view.recommendation
    if view.point is None:
        return blocks.decision(text.SENTENCES["nothing"], (), recommendation.feasible)
    (m, e), statistic = view.point, view.statistics[0]
    low, high = (view.numbers["views"][0][side][m][e] for side in ("lower", "upper"))
    lower = percent(low, view.digits)
    costly = statistic.bounds.lower[m, e] >= recommendation.at_least and not view.within_limits[m, e]
    words = {
        "name": view.names[m], "total": show_up(view.total), "where": statistic.where,
        "subject": text.SUBJECTS[statistic.of], "lower": lower, "held": _held(view),
        "target": percent(view.target, view.digits), "limit": show_down(recommendation.max_epsilon),
    }  # fmt: skip
    if low == 0 and high == 10**view.digits:
        sentence = text.SENTENCES["unknown"]
    elif view.requested:
        sentence = text.SENTENCES["use" if recommendation.feasible else "costly" if costly else "none"]
    else:
        sentence = _most(view)
    facts = (
        (words["total"], "ε per record", "total"),
        (lower, "guaranteed probability that it is kept", "lower"),
        (text.share_up(text.observed(view.total, view.delta, text.EVEN / 100)), text.CERTAINTY, "after"),
    )
    split, unused = None if panels is None else panels.split, ""
    same = split is not None and (split.mechanism, split.total) == (view.curves.mechanisms[m], view.total)
    if panels and split and same and statistic.on == "average" and split.lower >= split.even_lower + WORTH:
        unused = (
            f"This splits the ε evenly. Another split keeps more, on average over the {panels.split_records:,} of "
            f"these records that were looked at: at least {percent_of(split.lower)}, in place of "
            f"{percent_of(split.even_lower)}. It is not taken: it was chosen on these records, which were not declared "
            "public, and so tells about them; look for one on public records by epsworth split."
        )
    return blocks.decision(
        text.fill(sentence, words), facts,
        recommendation.feasible or not view.requested, f"{_alternatives(view)} {unused}".strip(),
    )  # fmt: skip


def _alternatives(view: CurvesView) -> str:
    """Say of an answer that is no what may be enough, where the command line says it."""
    beyond, sentences = view.recommendation.beyond, []
    if view.requested and beyond is not None:
        cost = epsilon_is(beyond.guarantee.epsilon)
        sentences = [f"It would take {mechanism_name(beyond.mechanism)} at {cost} per record."]
    if view.requested and any(line.startswith(TAILORED) for line in map(str.strip, view.recommendation.verdict)):
        sentences.append("A policy made for this model (epsworth tailor) may keep more.")
    return " ".join(sentences)


def _most(view: CurvesView) -> str:
    """Return the sentence where no share of the labels is requested."""
    return text.SENTENCES["most" if len(view.names) > 1 else "alone"]


def _held(view: CurvesView) -> str:
    """Say how surely the guaranteed probabilities hold."""
    return "proven" if view.curves.confidence == 1 else text.certainty(view.curves.confidence)


def _controls(view: CurvesView) -> Block:
    targets = [percent(target, view.digits) for target in view.targets]
    sliders = [
        blocks.slider("target", "At least", view.targets.index(view.target), targets),
        blocks.slider("stop", "ε per record", view.stops.index(view.total), list(map(show_up, view.stops))),
    ]
    several = len(view.quantities) > 1
    titles = [f"{text.QUANTITY_NAMES[one.of]}: {one.title}" if several else one.title for one in view.statistics]
    return {"is": "controls", "views": titles, "sliders": sliders}


# ---- the curves


def _curves(view: CurvesView, figures: list[list[Chart]]) -> Block:
    surely, views = _held(view), []
    for i, (statistic, row) in enumerate(zip(view.statistics, figures, strict=True)):
        what = (
            f"Probability that {text.SUBJECTS[statistic.of]}, {statistic.where}, by ε per record. The line is "
            f"guaranteed; the truth lies in the band above it ({surely})."
        )
        if float((statistic.bounds.upper - statistic.bounds.lower).max()) < EXACT:
            what = f"{what.partition('. ')[0]}: exact."
        if statistic.has_ceiling and view.has_ceiling:
            what += " The dotted line is the ceiling: no mechanism can promise more to every input."
        parts = [blocks.paragraph(what, "what"), blocks.figures(*row), _numbers(view, i)]
        views.append({"is": "view", "number": i, "blocks": parts})
    caption = "The dashed line across is what is asked for, the upright one the ε looked at."
    if not view.requested:
        caption = "The upright line is the ε looked at. Ask for a share of the labels by the first slider above."
    caption += " Grey: the others." if len(view.names) > MOST_TOGETHER else ""
    caption += f" All bounds hold together ({surely})."
    if len(view.columns) < len(view.curves.epsilons):
        caption += f" {len(view.columns)} of {len(view.curves.epsilons)} epsilons are shown."
    return blocks.section("curves", "How often the label is kept", *views, caption)


def _figures(view: CurvesView, number: int) -> list[Chart]:
    """Return the charts of a statistic: a large one of a few curves, else a small one for each, others in grey."""
    statistic, mechanisms, chosen = view.statistics[number], range(len(view.names)), view.point and view.point[0]
    together, first, last = len(mechanisms) <= MOST_TOGETHER, view.stops[0], view.stops[-1]
    lower, upper = statistic.bounds
    low, figures = min(0.5, math.floor(10 * float(lower.min())) / 10), []
    axes = Axis("ε per record", first, last, log=last > FAR * first), Axis("", low, 1.0, percent=True)
    ceiling = list(zip(view.stops, view.ceilings, strict=True)) if statistic.has_ceiling and view.has_ceiling else []
    for bold in [mechanisms] if together else [[m] for m in mechanisms]:
        lines = [
            Line(
                view.curves.mechanisms[m], list(zip(view.totals[m].tolist(), lower[m].tolist(), strict=True)),
                "line" if together else "bare", m, upper[m].tolist(), f"v{number}m{m}",
            )
            for m in bold
        ] + [Line("ceiling", ceiling, "ceiling")]  # fmt: skip
        chart = Chart(
            f"{text.QUANTITY_NAMES[statistic.of].capitalize()}, {statistic.title}, at least, by ε per record: "
            f"{', '.join(view.names[m] for m in bold)}.",
            *axes, lines, rules=[(view.recommendation.at_least, "asked for")], cursor=view.total,
            background=[] if together else [f"v{number}m{m}" for m in mechanisms],
            backdrop="" if together else f"v{number}", shares=not together and bold != [0],
            legend=[(m % COLOURS, name(view.names[m])) for m in bold], number=None if together else bold[0],
            width=660 if together else 300, height=380 if together else 210,
        )  # fmt: skip
        points = []  # one on each curve, at the epsilon of the slider; the script moves them
        for m, e in enumerate(view.affordable(view.total)):
            x, y = (0.0, 0.0) if e is None else chart.place(view.totals[m, e], lower[m, e])
            kind, hidden = " chosen" * (m == chosen), ' visibility="hidden"' * (e is None)
            place = f'r="4" transform="translate({coordinate(x)} {coordinate(y)})"'
            if m in bold:
                points.append(f'<circle class="point c{m % COLOURS}{kind}" data-m="{m}" {place}{hidden}/>')
        figures.append(replace(chart, overlay="".join(points)))
    return figures


def _frame(chart: Chart) -> dict[str, Any]:
    """Return what the script needs to move things."""
    left, right, top, base = chart.frame
    spans = {"first": chart.x.low, "last": chart.x.high, "low": chart.y.low, "log": chart.x.log}
    return {"left": left, "span": right - left, "top": top, "tall": base - top, **spans}


def _numbers(view: CurvesView, number: int) -> Block:
    statistic, numbers = view.statistics[number], view.numbers["views"][number]
    both = list(zip(numbers["lower"], numbers["upper"], strict=True))
    rows = [
        [
            show_up(epsilon),
            *(text.percent_range(low[e], high[e], view.digits).removesuffix(f"{text.SPACE}%") for low, high in both),
        ]
        for e, epsilon in enumerate(view.curves.epsilons[view.columns].tolist())
    ]
    title = f"{text.QUANTITY_NAMES[statistic.of]}, {statistic.title}: at least – at most, in %"
    return blocks.details(title, ["ε per record", *map(name, view.names)], rows)


def _mechanisms(view: CurvesView) -> Block:
    """Return what every mechanism does within the epsilon of the slider: the table that moves with the sliders."""
    numbers, digits, rows = view.numbers, view.digits, []
    first = numbers["views"][0]
    people = numbers["population"].get(first["of"]) if first["average"] else None
    for m, e in enumerate(view.affordable(view.total)):
        cells = ["–"] * 5
        if e is not None:
            low, high = first["lower"][m][e], first["upper"][m][e]
            word = "enough" if low >= view.target else "short" if high < view.target else "open"
            among = people and text.percent_range(people["lower"][m][e], people["upper"][m][e], digits)
            total = show_up(float(view.totals[m, e]))
            cells = [total, percent(low, digits), percent(high, digits), among or "–", text.SENTENCES[f"{word}_word"]]
        rows.append([name(view.names[m]), *cells])
    heads = ("mechanism", "ε per record", "at least", "at most", "population", "what is asked")
    kind, population, cap = "now" if people is not None else "now nobody", None, None
    if view.populations:
        one = next(iter(view.populations.values()))
        population = blocks.caption(
            f"Population: on average over all from whom these {one.records:,} records come, if they are independent "
            f"draws that the classifier was not fitted on, {text.certainty(one.confidence)}.",
            "people", hidden=not first["average"],
        )  # fmt: skip
    if view.has_ceiling:
        most = numbers["caps"][view.stops.index(view.total)]
        words = {"below": percent(most - 1, digits), "cap": percent(most, digits), "total": show_up(view.total)}
        cap = blocks.caption(text.fill(text.SENTENCES["free" if most == 10**digits else "cap"], words), "cap")
    table = blocks.table("Table of the mechanisms", heads, rows, kind, current=view.point and view.point[0])
    return blocks.section("mechanisms", "The mechanisms at this ε", table, population, cap)


# ---- the meaning of the epsilon


def _meaning(view: CurvesView) -> Block:
    words = "Sure: of a value that is suspected. Right: in naming the true one of two values, where there is a δ."
    return blocks.meaning(
        lambda prior: text.observed(view.total, view.delta, prior), "What the ε means",
        {"total": show_up(view.total), "delta": show_up(view.delta)}, delta=view.delta, sentences=OBSERVER,
        numbers=_posteriors(view), more=blocks.paragraph(words, "caption read"),
    )  # fmt: skip


def _posteriors(view: CurvesView) -> Block:
    """Return as a table what an observer may know, by epsilon, apart for every delta: a pure row promises more."""
    within, points = view.within_delta if view.within_delta.any() else ~view.within_delta, []
    promises = (one for row, fits in zip(view.guarantees, within, strict=True) for one in compress(row, fits))
    for delta, group in groupby(sorted({(one.delta, one.epsilon) for one in promises}), key=itemgetter(0)):
        totals = [total for _, total in group]
        points += [(delta, total) for total in totals[:: max(1, len(totals) // MOST_OF_DELTA)]]
    rows = (
        [show_up(total), f"right, δ = {show_up(delta)}" if delta else "sure"]
        + [text.share_up(text.observed(total, delta, prior / 100)) for prior in TABLE_PRIORS]
        for delta, total in points[:: max(1, len(points) // MOST_PROMISES)]
    )
    heads = ["ε per record", "at most", *(f"from {prior} %" for prior in TABLE_PRIORS)]
    return blocks.details("how sure, or how often right, at most, by ε", heads, rows)


# ---- records and groups


def _records(view: CurvesView) -> Block:
    """Return how the records differ: what shares of them keep, and who keeps least."""
    title, digits = "How the records are served", view.digits
    if view.incomplete:
        early = "The run ended before every record was answered: the average is bounded, and single records are not "
        return blocks.section("records", title, f"{early}known.")
    numbers, of, (m, e) = view.numbers, view.statistics[0].of, view.point or (0, 0)
    worst = next(one["lower"] for one in numbers["views"] if one["of"] == of and one["worst"])
    words = ["every record", *(f"{share} % of the records" for share in SHARES)]
    rows = [
        [word, percent(bounds[m][e], digits), blocks.bar(bounds[m][e] / 10 ** (digits - 2))]
        for word, bounds in zip(words, [worst, *numbers["shares"][of]], strict=True)
    ]
    pairs, least = numbers["worst"][m][e], []
    for number, lower in zip(pairs[::2], pairs[1::2], strict=True):
        record, label = numbers["records"][number]
        least.append([record, name(label), percent(lower, digits)])
    tables = blocks.pair(
        blocks.table(
            "Table of shares of the records", ("of these", "at least", None), rows, "served",
            caption="What shares of the records keep at least.",
        ),
        blocks.table(
            "Table of the records that keep least", ("record", "label", "at least"), least, "worst",
            caption="The records that keep least, and how often their label stays.",
        ),
    )  # fmt: skip
    loose = "Only the average and the worst case were bounded closely; single records may keep more."
    point = blocks.caption(markup("By {} at {} per record.", name(view.names[m]), epsilon_is(view.total)), "served")
    return blocks.section("records", title, point, tables, loose if view.curves.over == "dataset" else None)


def _groups(view: CurvesView, panels: Panels | None) -> Block | None:
    """Return which groups of records are guaranteed least at the point that the page opens with."""
    if view.point is None or view.incomplete:
        return None
    (m, e), of = view.point, view.statistics[0].of
    kinds, numbers = numbered(list(view.curves.labels))
    lower = view.curves.bounds(of).lower[m, view.columns[e]]
    groups = [("label", one) for one in served(kinds, numbers, lower)] if 2 <= len(kinds) <= MOST_VALUES else []
    place = "By {} at {} per record, where this page opens; it does not follow the sliders."
    words, point = markup(place, name(view.names[m]), epsilon_is(view.total)), (view.curves.mechanisms[m], view.total)
    if panels is not None and (panels.mechanism, panels.epsilon_per_record) == point:
        groups += [(group.by, one) for group in panels.groups if group.of == of for one in group.served]
    elif panels is not None and panels.groups:  # of other points nothing is known
        words += markup(
            " By {} groups were computed at {} at {} per record alone, and are not shown here.",
            markup(", ").join(dict.fromkeys(name(group.by, 40) for group in panels.groups)),
            name(mechanism_name(panels.mechanism or "")), epsilon_is(panels.epsilon_per_record or 0.0),
        )  # fmt: skip
    groups.sort(key=lambda pair: (pair[1].average, pair[0], pair[1].value))
    rows = [
        [
            markup("{}: {}", name(by, 40), name(one.value, 40)), f"{one.records:,}",
            percent_of(one.average, view.digits), percent_of(one.worst, view.digits),
            blocks.bar(100 * round_down(one.average, view.digits)),
        ]
        for by, one in groups[:MOST_GROUPS]
    ]  # fmt: skip
    more = f"{len(groups) - MOST_GROUPS} more groups are served better." if len(groups) > MOST_GROUPS else None
    heads = ("group", "records", "on average at least", "the worst at least", None)
    table = blocks.table("Table of groups", heads, rows, "groups-table")
    return blocks.section("groups", "Which groups are served worst", words, table, more) if rows else None


# ---- panels


def _record(panels: Panels) -> str:
    """Name the record of map and ranges."""
    return f"record {panels.record}" if panels.records > 1 else "the record"


def _map(panels: Panels) -> Block | None:
    if (decisions := panels.map) is None:
        return None
    features = " and ".join(printable(feature, 40) for feature in decisions.features)
    description = (
        f"Labels around {_record(panels)} (the cross) while {features} vary and its other columns stay. Plain: its own "
        "label. With marks: another."
    )
    rows = [
        [
            charts.swatch(k, charts.UNSURE if k else charts.PALE) + name(decisions.labels[i], 40)
            + " (its own)" * (not k), f"{int((decisions.cells == i).sum()):,} of {decisions.cells.size:,}",
        ]
        for k, i in enumerate(charts.label_order(decisions))
    ]  # fmt: skip
    caption = "What the model says at so many points of a grid: a picture, no bound"
    table = blocks.table("Table of labels", ("label", "points"), rows, "labels", caption=caption)
    figure = blocks.figures(charts.label_map(decisions, description))
    return blocks.section("mapped", "Where the label changes", blocks.pair(figure, table))


def _safe(panels: Panels) -> Block | None:
    """Return the ranges in which the label of one record is safe, both ends rounded inwards."""
    if (box := panels.box) is None:
        return None
    rows = []
    ranges = zip(box.features, panels.values, box.lower, box.upper, box.whole, strict=True)
    for feature, value, low, high, whole in ranges:
        span, first, last = " to ".join(texts(low, high)), 0.0, 1.0
        if panels.domain is not None and feature in panels.domain:
            first, last = panels.domain[feature].lower, panels.domain[feature].upper
        start, end, mark = (min(100.0, max(0.0, 100 * (x - first) / (last - first))) for x in (low, high, value))
        bar = blocks.bar(max(end - start, 0.3), start=round(start, 1), mark=round(mark, 1))
        rows.append([name(feature), show_down(value), "anywhere" if whole else span, bar])
    mechanism = mechanism_name(box.mechanism)
    words = str(replace(box, mechanism=mechanism))
    if box.confidence == 1:
        point, kept = f"{mechanism} at {epsilon_is(box.epsilon)} per record", percent_of(box.guaranteed)
        words += f" By {point} that alone keeps it in {kept} of all releases."
    heads = ("feature", "its value", "safe range", "within the declared range")
    return blocks.section(
        "safe", f"Where {_record(panels)} is safe", blocks.paragraph(words),
        blocks.table("Table of safe ranges", heads, rows, "ranges"),
        "Both ends are included and rounded inwards; all features may vary at once. The upright line is the record.",
    )  # fmt: skip


def _split(panels: Panels) -> Block | None:
    if (split := panels.split) is None:
        return None
    even = split.total / len(split.features)
    rows = [
        [name(feature), show_up(even), show_up(epsilon), blocks.bar(100 * epsilon / split.total)]
        for feature, epsilon in zip(split.features, split.epsilons, strict=True)
    ]
    bounds = (("even", split.even_lower, split.even_upper), ("split", split.lower, split.upper))
    retention = [[word, percent_of(low), percent_of(high, upwards=True)] for word, low, high in bounds]
    verdict = "no split was found that is guaranteed more than the even one"
    if split.lower > split.even_upper:
        verdict = "better than the even split"
    elif split.lower > split.even_lower:
        verdict = "guaranteed more than the even split, which may be as good"
    words = (
        f"By {mechanism_name(split.mechanism)} at {epsilon_is(split.total)} per record, on average over "
        f"{panels.split_records:,} of these records, {text.certainty(split.confidence)}: {verdict}."
    )
    return blocks.section(
        "split", "The same ε, split otherwise", blocks.paragraph(words),
        blocks.pair(
            blocks.table("Table of the split", ("feature", "ε, even", "ε, split", None), rows, "parts"),
            blocks.table("Table of what both keep", ("labels kept", "at least", "at most"), retention, "kept"),
        ),
        "The split was chosen on these records, which were not declared public, and depends on them.",
    )  # fmt: skip


# ---- limits and origin


def _limits(view: CurvesView, panels: Panels | None) -> Block:
    curves = view.curves
    sentences: list[object] = [
        markup(
            "Only {} are perturbed: columns that a policy lets pass are sent as they are, others not at all. That a "
            "person takes part is seen.",
            names(curves.features),
        ),
        text.ONE_RELEASE,
        "The numbers speak of this classifier, these ranges and these records; the worst case is the worst of these "
        "records, not of all people.",
    ]
    if not isinstance(view.recommendation.on, str):
        sentences.append("A choice that is made for one record depends on it, and so reveals something about it.")
    if any(promise.delta for row in view.guarantees for promise in row):
        sentences.append("With probability δ a mechanism that has one may show more than its ε says.")
    if curves.stopped:
        sentences.append("The run ended before its work was done: the bounds hold, and could be narrower.")
    notes = (*curves.notes, *(panels.notes if panels else ()))
    return blocks.limits(
        "show it to whom the table may be shown.", sentences,
        text.notes_with_titles(notes, curves.mechanisms), warning=text.NOT_PRIVATE.format("records"),
    )  # fmt: skip


def _origin(view: CurvesView, panels: Panels | None) -> list[tuple[str, object]]:
    curves = view.curves
    facts: list[tuple[str, object]] = [
        ("Perturbed", names(curves.features)),
        ("Records", f"{len(curves.labels):,}"),
        ("Bounds hold", text.certainty(curves.confidence)),
        ("Tolerance", show_up(curves.tolerance)),
        ("Engines", ", ".join(sorted({printable(word, 40) for word in curves.method.flat}))),
        ("Cost", f"{curves.queries:,} queries, {show_up(curves.seconds, 3)} s"),
    ]
    if panels is None:
        return facts
    facts += [("Model", panels.model)] if panels.model else []
    if (domain := panels.domain) is not None:
        ranges = [
            markup(
                "{} {}", name(one.name),
                f"{one.lower:,.9g} to {one.upper:,.9g}" if one.categories is None else
                f"{len(one.categories)} categories",
            )
            for one in domain.features[:12]
        ]  # fmt: skip
        source = "declared public" if panels.declared else "taken from the table, not declared public"
        more = " and more" if len(domain.features) > len(ranges) else ""
        facts.append((f"Ranges, {source}", markup(", ").join(ranges) + more))
    return facts + ([("Seed", str(panels.seed))] if panels.seed is not None else [])


def _holds(panels: Panels | None) -> str:
    """Say what the result holds of the records."""
    sentence = "The result holds every record's bounds and label"
    if panels is None:
        return f"{sentence}."
    values = "its values of what is perturbed and the labels around it"
    sentence += f"; of {_record(panels)} {values}" if panels.map or panels.box else ""
    sentence += "; of groups of records counts and bounds" if panels.groups else ""
    return f"{sentence}. No other value of a record is in it."
