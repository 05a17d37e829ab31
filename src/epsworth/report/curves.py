"""The page of curves: what to choose, what it keeps, what it protects, who is served worst, what lies around it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

from epsworth.policy import Policy
from epsworth.report import blocks, charts, text
from epsworth.report.blocks import Block
from epsworth.report.charts import COLOURS, Axis, Chart, Line, short
from epsworth.report.page import Page, Source, page
from epsworth.report.shown import SHARES, Shown
from epsworth.report.text import SPACE, at, cleaned, markup, mechanism_name, name, names, percent, percent_of, sure
from epsworth.rounding import round_down, show_down, show_up
from epsworth.utility.boxes import SafeBox, texts
from epsworth.utility.panels import MOST_VALUES, DecisionMap, Panels, numbered, served
from epsworth.utility.splitting import Split

TITLE = "What is this epsilon worth?"
MADE = "made for this model"  # a row of a verdict
TOGETHER = 5  # curves in one picture; more get a picture each
EXACT = 1e-6  # width of bounds that no picture tells from a line
FAR = 40  # ratio of epsilons from which on their axis is logarithmic
TABLED = (1, 10, 50, 90)  # per cent that somebody held likely before
STOPS, MOST_POINTS = 24, 120  # of one delta in that table, about; and in all
LISTED = 12  # groups
TO_RUN = "For what clients must run: <code>epsworth recommend RESULT.json --at-least … --policy policy.toml</code>"
WORDS, LEFT = text.WORDS, {"prior": "{prior}", "after": "{after}"}
OBSERVER = {  # how the script tells what an epsilon means
    kind: text.filled(WORDS[kind], {**LEFT, **text.RECORD, "seen": seen})
    for kind, seen in (
        ("pure", f"At {text.POINT} one release"),
        ("certain", f"At {text.POINT} one release"),
        ("weaker", f"One release at ε{SPACE}={SPACE}{{total}}, δ{SPACE}={SPACE}{{delta}} per record"),
    )
}


def curves_page(shown: Shown, source: Source, around: Panels | None = None) -> Page:
    """Return the page; ``around`` is what a file keeps beside curves."""
    policy, count, features = _policy(shown, around), len(shown.curves.labels), shown.curves.features
    drawn = [_figures(shown, i) for i in range(len(shown.views))]
    words = {"held": _held(shown), "limit": show_down(shown.found.max_epsilon), "most": _most(shown)}
    numbers = shown.numbers | {
        "words": WORDS | OBSERVER | words, "frames": [_frame(every[0]) for every in drawn],
        "fingerprint": source.fingerprint,
    }  # fmt: skip
    parts: list[Block | None] = [_decision(shown, around), _controls(shown), _curves(shown, drawn)]
    parts += [_now(shown), _meaning(shown)]
    parts += [_records(shown), _groups(shown, around)] if count > 1 else []
    if around is not None:
        parts += [_map(around, around.map), _safe(around, around.box), _split(around, around.split)]
    more = markup(TO_RUN)
    if policy is not None and (choice := shown.found.choice) is not None:
        more = markup(
            "The policy is that of the recommendation, {} at {} per record, and does not follow the sliders; "
            "fingerprint {}.",
            name(mechanism_name(choice.mechanism)), at(choice.guarantee.epsilon), text.code(policy.fingerprint),
        )  # fmt: skip
    return page(
        TITLE, markup("{}; perturbed: {}.", f"{count} records" if count > 1 else "one record", names(features)),
        [*parts, _limits(shown, around)], source, origin=_origin(shown, around), holds=_holds(around), more=more,
        numbers=numbers, policy="" if policy is None else policy.to_toml(),
        title=f"{TITLE} {cleaned(', '.join(map(str, features[:12])))}",
    )  # fmt: skip


def _policy(shown: Shown, around: Panels | None) -> Policy | None:
    """Return what clients must run to get the recommendation; None where no ranges are declared, or nothing fits."""
    if around is None or around.domain is None or not around.declared:
        return None
    if not shown.asked or shown.found.choice is None:
        return None
    try:
        return shown.found.policy(around.domain)
    except ValueError:  # no exact sampler, made for its model, or a policy already
        return None


# ---- the decision


def _decision(shown: Shown, around: Panels | None) -> Block:
    if shown.point is None:
        return blocks.decision(WORDS["nothing"], (), shown.found.feasible)
    (m, e), view = shown.point, shown.views[0]
    lower = percent(shown.numbers["views"][0]["lower"][m][e], shown.digits)
    costly = view.bounds.lower[m, e] >= shown.found.at_least and not shown.accepted[m, e]
    words = {
        "name": shown.names[m], "total": show_up(shown.total), "where": view.where, "subject": text.SUBJECTS[view.of],
        "lower": lower, "held": _held(shown), "target": percent(shown.target, shown.digits),
        "limit": show_down(shown.found.max_epsilon),
    }  # fmt: skip
    said = "most" if not shown.asked else "use" if shown.found.feasible else "costly" if costly else "none"
    sentence = text.filled(_most(shown) if said == "most" else WORDS[said], words)
    facts = (
        (words["total"], "ε per record", "total"),
        (lower, "guaranteed probability that it is kept", "lower"),
        (text.share_up(text.observed(shown.total, shown.delta, text.EVEN / 100)), text.CERTAINTY, "after"),
    )
    split, untaken = None if around is None else around.split, ""
    here = split is not None and (split.mechanism, split.total) == (shown.curves.mechanisms[m], shown.total)
    if around is not None and split is not None and here and view.on == "average" and split.lower > split.even_lower:
        untaken = (
            f"This splits the ε evenly. Another split keeps more, on average over the {around.split_records} of these "
            f"records that were looked at: at least {percent_of(split.lower)}, in place of "
            f"{percent_of(split.even_lower)}. It is not taken: it was chosen on these records, which were not declared "
            "public, and so tells about them; look for one on public records by epsworth split."
        )
    more = f"{_instead(shown)} {untaken}".strip()
    return blocks.decision(sentence, facts, shown.found.feasible or not shown.asked, more)


def _instead(shown: Shown) -> str:
    """Say of an answer that is no what may be enough, where the command line says it."""
    beyond, said = shown.found.beyond, []
    if shown.asked and beyond is not None:
        said = [f"It would take {mechanism_name(beyond.mechanism)} at {at(beyond.guarantee.epsilon)} per record."]
    if shown.asked and any(line.startswith(MADE) for line in map(str.strip, shown.found.verdict)):
        cap = percent(shown.numbers["caps"][shown.stops.index(shown.total)], shown.digits)
        said.append(f"A policy made for this model (epsworth tailor) may keep up to {cap} at {at(shown.total)}.")
    return " ".join(said)


def _most(shown: Shown) -> str:
    """Say what is kept where nothing was asked for."""
    return WORDS["most" if len(shown.names) > 1 else "alone"]


def _held(shown: Shown) -> str:
    """Say how surely the guaranteed probabilities hold."""
    return "proven" if shown.curves.confidence == 1 else sure(shown.curves.confidence)


def _controls(shown: Shown) -> Block:
    stop, target = shown.stops.index(shown.total), shown.targets.index(shown.target)
    targets = [percent(one, shown.digits) for one in shown.targets]
    sliders = [
        blocks.slider("target", "At least", target, targets),
        blocks.slider("stop", "ε per record", stop, [show_up(one) for one in shown.stops]),
    ]
    several = len(shown.quantities) > 1
    views = [f"{text.KEPT[view.of]}: {view.title}" if several else view.title for view in shown.views]
    return {"is": "controls", "views": views, "sliders": sliders}


# ---- the curves


def _curves(shown: Shown, drawn: list[list[Chart]]) -> Block:
    surely, views = _held(shown), []
    for i, (view, figures) in enumerate(zip(shown.views, drawn, strict=True)):
        what = (
            f"Probability that {text.SUBJECTS[view.of]}, {view.where}, by ε per record. The line is guaranteed; the "
            f"truth lies in the band above it ({surely})."
        )
        if float((view.bounds.upper - view.bounds.lower).max()) < EXACT:
            what = f"{what.partition('. ')[0]}: exact."
        if view.limited and shown.capped:
            what += " The dotted line is the ceiling: no mechanism can promise more to every input."
        parts = [blocks.paragraph(what, "what"), blocks.figures(*figures), _every_number(shown, i)]
        views.append({"is": "view", "number": i, "blocks": parts})
    told = "The dashed line across is what is asked for, the upright one the ε looked at."
    if not shown.asked:
        told = "The upright line is the ε looked at. Ask for a share of the labels by the first slider above."
    told += f" All bounds hold together ({surely})."
    if len(shown.at) < len(shown.curves.epsilons):
        told += f" {len(shown.at)} of {len(shown.curves.epsilons)} epsilons are shown."
    return blocks.section("curves", "How often the label is kept", *views, told)


def _figures(shown: Shown, number: int) -> list[Chart]:
    """Return the pictures of a view: a large one of a few curves, else a small one for each, others in grey."""
    view, every, chosen = shown.views[number], range(len(shown.names)), shown.point and shown.point[0]
    few, (lower, upper), (first, last) = len(every) <= TOGETHER, view.bounds, (shown.stops[0], shown.stops[-1])
    low, drawn = min(0.5, math.floor(10 * float(lower.min())) / 10), []
    axes = Axis("ε per record", first, last, log=last > FAR * first), Axis("", low, 1.0, percent=True)
    cap = list(zip(shown.stops, shown.caps, strict=True)) if view.limited and shown.capped else []
    for bold in [every] if few else [[m] for m in every]:
        lines = [
            Line(
                shown.curves.mechanisms[m], list(zip(shown.totals[m].tolist(), lower[m].tolist(), strict=True)),
                "line" if few else "bare", m, upper[m].tolist(), f"v{number}m{m}",
            )
            for m in bold
        ] + [Line("ceiling", cap, "ceiling")]  # fmt: skip
        chart = Chart(
            f"{text.KEPT[view.of].capitalize()}, {view.title}, at least, by ε per record: "
            f"{', '.join(shown.names[m] for m in bold)}.",
            *axes, lines, rules=[(shown.found.at_least, "asked for")], cursor=shown.total,
            behind=[f"v{number}m{m}" for m in every if m not in bold],
            key=[(m % COLOURS, name(shown.names[m])) for m in bold], number=None if few else bold[0],
            width=660 if few else 300, height=380 if few else 210,
        )  # fmt: skip
        points = []  # one on each curve, at the epsilon looked at; the script moves them
        for m, e in enumerate(shown.affordable(shown.total)):
            x, y = (0.0, 0.0) if e is None else chart.place(shown.totals[m, e], lower[m, e])
            kind, hidden = " chosen" * (m == chosen), ' visibility="hidden"' * (e is None)
            place = f'r="4" transform="translate({short(x)} {short(y)})"'
            if m in bold:
                points.append(f'<circle class="point c{m % COLOURS}{kind}" data-m="{m}" {place}{hidden}/>')
        drawn.append(replace(chart, over="".join(points)))
    return drawn


def _frame(chart: Chart) -> dict[str, Any]:
    """Return what the script needs to move things."""
    left, right, top, base = chart.frame
    spans = {"first": chart.x.low, "last": chart.x.high, "low": chart.y.low, "log": chart.x.log}
    return {"left": left, "span": right - left, "top": top, "tall": base - top, **spans}


def _every_number(shown: Shown, number: int) -> Block:
    view, told = shown.views[number], shown.numbers["views"][number]
    both = list(zip(told["lower"], told["upper"], strict=True))
    rows = [
        [
            show_up(head),
            *(text.percent_range(low[e], high[e], shown.digits).removesuffix(f"{SPACE}%") for low, high in both),
        ]
        for e, head in enumerate(shown.curves.epsilons[shown.at].tolist())
    ]
    title = f"{text.KEPT[view.of]}, {view.title}: at least – at most, in %"
    return blocks.unfolded(title, ["ε per record", *map(name, shown.names)], rows)


def _now(shown: Shown) -> Block:
    """Return what every mechanism does within the epsilon looked at: the table that moves with the sliders."""
    numbers, digits, rows = shown.numbers, shown.digits, []
    view = numbers["views"][0]
    people = numbers["population"].get(view["of"]) if view["average"] else None
    for m, e in enumerate(shown.affordable(shown.total)):
        cells: list[object] = ["–"] * 5
        if e is not None:
            low, high = view["lower"][m][e], view["upper"][m][e]
            word = "enough" if low >= shown.target else "short" if high < shown.target else "open"
            among = "–" if people is None else text.percent_range(people["lower"][m][e], people["upper"][m][e], digits)
            total = show_up(float(shown.totals[m, e]))
            cells = [total, percent(low, digits), percent(high, digits), among, WORDS[f"{word}_word"]]
        rows.append([name(shown.names[m]), *cells])
    heads = ("mechanism", "ε per record", "at least", "at most", "population", "what is asked")
    kind, chosen = "now" if people is not None else "now nobody", None if shown.point is None else shown.point[0]
    told = cap = None
    if shown.populations:
        one = next(iter(shown.populations.values()))
        told = blocks.caption(
            f"Population: on average over all from whom these {one.records} records come, if they are independent "
            f"draws that the classifier was not fitted on, {sure(one.confidence)}.",
            "people", hidden=not view["average"],
        )  # fmt: skip
    if shown.capped:
        most = numbers["caps"][shown.stops.index(shown.total)]
        words = {"below": percent(most - 1, digits), "cap": percent(most, digits), "total": show_up(shown.total)}
        cap = blocks.caption(text.filled(WORDS["free" if most == 10**digits else "cap"], words), "cap")
    listed = blocks.table("Table of the mechanisms", heads, rows, kind, chosen=chosen)
    return blocks.section("mechanisms", "The mechanisms at this ε", listed, told, cap)


# ---- what the epsilon means


def _meaning(shown: Shown) -> Block:
    told = "Sure: of a value that is suspected. Right: in naming the true one of two values, where there is a δ."
    return blocks.of_promise(
        lambda prior: text.observed(shown.total, shown.delta, prior), "What the ε means",
        {"total": show_up(shown.total), "delta": show_up(shown.delta)}, delta=shown.delta, texts=OBSERVER,
        listed=_by_epsilon(shown), more=blocks.paragraph(told, "caption read"),
    )  # fmt: skip


def _by_epsilon(shown: Shown) -> Block:
    """Return as a table what an observer may know, by epsilon, apart for every delta: a pure row promises more."""
    admitted, points = shown.admitted if shown.admitted.any() else ~shown.admitted, []
    promises = (one for row, fits in zip(shown.promises, admitted, strict=True) for one in compress(row, fits))
    for delta, alike in groupby(sorted({(one.delta, one.epsilon) for one in promises}), key=itemgetter(0)):
        totals = [total for _, total in alike]
        points += [(delta, total) for total in totals[:: max(1, len(totals) // STOPS)]]
    rows = (
        [show_up(total), f"right, δ = {show_up(delta)}" if delta else "sure"]
        + [text.share_up(text.observed(total, delta, p / 100)) for p in TABLED]
        for delta, total in points[:: max(1, len(points) // MOST_POINTS)]
    )
    heads = ["ε per record", "at most", *(f"from {p} %" for p in TABLED)]
    return blocks.unfolded("how sure, or how often right, at most, by ε", heads, rows)


# ---- who is served how


def _records(shown: Shown) -> Block:
    """Return how the records differ: what shares of them keep, and who keeps least."""
    title, digits = "How the records are served", shown.digits
    if shown.unfinished:
        early = "The run ended before every record was answered: the average is bounded, and single records are not "
        return blocks.section("records", title, f"{early}known.")
    numbers, of, (m, e) = shown.numbers, shown.views[0].of, shown.point or (0, 0)
    worst = next(one["lower"] for one in numbers["views"] if one["of"] == of and one["worst"])
    rows = [
        [word, percent(whole[m][e], digits), blocks.bar(whole[m][e] / 10 ** (digits - 2))]
        for word, whole in zip(
            ["every record", *(f"{share} % of the records" for share in SHARES)], [worst, *numbers["shares"][of]],
            strict=True,
        )
    ]  # fmt: skip
    listed, lowest = numbers["worst"][m][e], []
    for place, lower in zip(listed[::2], listed[1::2], strict=True):
        record, label = numbers["records"][place]
        lowest.append([record, name(label, text.LONGEST), percent(lower, digits)])
    shares = blocks.table(
        "Table of shares of the records", ("of these", "at least", None), rows, "served",
        caption="What shares of the records keep at least.",
    )  # fmt: skip
    least = blocks.table(
        "Table of the records that keep least", ("record", "label", "at least"), lowest, "worst",
        caption="The records that keep least, and how often their label stays.",
    )  # fmt: skip
    loose = "Only the average and the worst case were bounded closely; single records may keep more."
    told = blocks.caption(markup("By {} at {} per record.", name(shown.names[m]), at(shown.total)), "served")
    pair = blocks.pair(shares, least)
    return blocks.section("records", title, told, pair, loose if shown.curves.over == "dataset" else None)


def _groups(shown: Shown, around: Panels | None) -> Block | None:
    """Return which groups of records are guaranteed least at the point that the page opens with."""
    if shown.point is None or shown.unfinished:
        return None
    (m, e), of = shown.point, shown.views[0].of
    kinds, own = numbered(list(shown.curves.labels))
    lower = shown.curves.bounds(of).lower[m, shown.at[e]]
    every = [("label", one) for one in served(kinds, own, lower)] if 2 <= len(kinds) <= MOST_VALUES else []
    opened = "By {} at {} per record, where this page opens; it does not follow the sliders."
    told, here = markup(opened, name(shown.names[m]), at(shown.total)), (shown.curves.mechanisms[m], shown.total)
    if around is not None and (around.mechanism, around.epsilon_per_record) == here:
        every += [(group.by, one) for group in around.groups if group.of == of for one in group.served]
    elif around is not None and around.groups:  # of other points nothing is known
        told += markup(
            " By {} groups were computed at {} at {} per record alone, and are not shown here.",
            markup(", ").join(dict.fromkeys(name(group.by, 40) for group in around.groups)),
            name(mechanism_name(around.mechanism or "")), at(around.epsilon_per_record or 0.0),
        )  # fmt: skip
    every.sort(key=lambda pair: (pair[1].average, pair[0], pair[1].value))
    rows = [
        [
            markup("{}: {}", name(by, 40), name(one.value, 40)), f"{one.records:,}",
            percent_of(one.average, shown.digits), percent_of(one.worst, shown.digits),
            blocks.bar(100 * round_down(one.average, shown.digits)),
        ]
        for by, one in every[:LISTED]
    ]  # fmt: skip
    more = f"{len(every) - LISTED} more groups are served better." if len(every) > LISTED else None
    heads = ("group", "records", "on average at least", "the worst at least", None)
    listed = blocks.table("Table of groups", heads, rows, "groups-table")
    return blocks.section("groups", "Which groups are served worst", told, listed, more) if rows else None


# ---- around the choice


def _which(around: Panels) -> str:
    """Name the record that map and ranges are about."""
    return f"record {around.record}" if around.records > 1 else "the record"


def _map(around: Panels, drawn: DecisionMap | None) -> Block | None:
    if drawn is None:
        return None
    features = " and ".join(cleaned(one, 40) for one in drawn.features)
    what = (
        f"Labels around {_which(around)} (the cross) while {features} vary and its other columns stay. Plain: its own "
        "label. With marks: another."
    )
    rows = [
        [
            charts.sample(k, charts.UNSURE if k else charts.PALE) + name(drawn.labels[i], 40) + " (its own)" * (not k),
            f"{int((drawn.cells == i).sum()):,} of {drawn.cells.size:,}",
        ]
        for k, i in enumerate(charts.label_order(drawn))
    ]
    grid = "What the model says at so many points of a grid: a picture, no bound"
    listed = blocks.table("Table of labels", ("label", "points"), rows, "labels", caption=grid)
    drawing = blocks.figures(charts.label_map(drawn, what))
    return blocks.section("mapped", "Where the label changes", blocks.pair(drawing, listed))


def _safe(around: Panels, box: SafeBox | None) -> Block | None:
    """Return the ranges in which the label of one record is safe, both ends rounded inwards."""
    if box is None:
        return None
    rows = []
    every = zip(box.features, around.values, box.lower, box.upper, box.whole, strict=True)
    for feature, own, low, high, whole in every:
        shown, (first, last) = texts(low, high), (0.0, 1.0)
        if around.domain is not None and feature in around.domain:
            first, last = around.domain[feature].lower, around.domain[feature].upper
        start, end, place = (min(100.0, max(0.0, 100 * (end - first) / (last - first))) for end in (low, high, own))
        drawn = blocks.bar(max(end - start, 0.3), start=round(start, 1), own=round(place, 1))
        rows.append([name(feature), show_down(own), "anywhere" if whole else f"{shown[0]} to {shown[1]}", drawn])
    mechanism = mechanism_name(box.mechanism)
    told = str(replace(box, mechanism=mechanism))
    if box.confidence == 1:
        told += (
            f" By {mechanism} at {at(box.epsilon)} per record that alone keeps it in "
            f"{percent_of(box.guaranteed)} of all releases."
        )
    heads = ("feature", "its value", "safe range", "within the declared range")
    return blocks.section(
        "safe", f"Where {_which(around)} is safe", blocks.paragraph(told),
        blocks.table("Table of safe ranges", heads, rows, "ranges"),
        "Both ends are included and rounded inwards; all features may vary at once. The upright line is the record.",
    )  # fmt: skip


def _split(around: Panels, split: Split | None) -> Block | None:
    if split is None:
        return None
    even = split.total / len(split.features)
    rows = [
        [name(feature), show_up(even), show_up(epsilon), blocks.bar(100 * epsilon / split.total)]
        for feature, epsilon in zip(split.features, split.epsilons, strict=True)
    ]
    bounds = (("even", split.even_lower, split.even_upper), ("split", split.lower, split.upper))
    kept = [[word, percent_of(low), percent_of(high, upwards=True)] for word, low, high in bounds]
    verdict = "no split was found that is guaranteed more than the even one"
    if split.lower > split.even_upper:
        verdict = "better than the even split"
    elif split.lower > split.even_lower:
        verdict = "guaranteed more than the even split, which may be as good"
    told = (
        f"By {mechanism_name(split.mechanism)} at {at(split.total)} per record, on average over "
        f"{around.split_records} of these records, {sure(split.confidence)}: {verdict}."
    )
    return blocks.section(
        "split", "The same ε, split otherwise", blocks.paragraph(told),
        blocks.pair(
            blocks.table("Table of the split", ("feature", "ε, even", "ε, split", None), rows, "parts"),
            blocks.table("Table of what both keep", ("labels kept", "at least", "at most"), kept, "kept"),
        ),
        "The split was chosen on these records, which were not declared public, and depends on them.",
    )  # fmt: skip


# ---- what is not protected, and where it comes from


def _limits(shown: Shown, around: Panels | None) -> Block:
    curves = shown.curves
    said: list[object] = [
        markup(
            "Only {} are perturbed: columns that a policy lets pass are sent as they are, others not at all. That a "
            "person takes part is seen.",
            names(curves.features),
        ),
        text.ONE_RELEASE,
        "The numbers speak of this classifier, these ranges and these records; the worst case is the worst of these "
        "records, not of all people.",
    ]
    if not isinstance(shown.found.on, str):
        said.append("A choice that is made for one record depends on it, and so reveals something about it.")
    if any(promise.delta for row in shown.promises for promise in row):
        said.append("With probability δ a mechanism that has one may show more than its ε says.")
    if curves.stopped:
        said.append("The run ended before its work was done: the bounds hold, and could be narrower.")
    notes = [text.titled_note(note, curves.mechanisms) for note in (*curves.notes, *(around.notes if around else ()))]
    whose = text.NOT_PRIVATE.format("This page is computed from raw records")
    return blocks.limits("show it to whom the table may be shown.", said, notes, private=whose)


def _origin(shown: Shown, around: Panels | None) -> list[tuple[str, object]]:
    curves = shown.curves
    facts: list[tuple[str, object]] = [
        ("Perturbed", names(curves.features)),
        ("Records", f"{len(curves.labels):,}"),
        ("Bounds hold", sure(curves.confidence)),
        ("Tolerance", show_up(curves.tolerance)),
        ("Engines", ", ".join(sorted({cleaned(word, 40) for word in curves.method.flat}))),
        ("Cost", f"{curves.queries:,} queries, {show_up(curves.seconds, 3)} s"),
    ]
    if around is None:
        return facts
    facts += [("Model", around.model)] if around.model else []
    if (domain := around.domain) is not None:
        ranges = [
            markup(
                "{} {}", name(one.name),
                f"{one.lower:,.9g} to {one.upper:,.9g}" if one.categories is None else
                f"{len(one.categories)} categories",
            )
            for one in domain.features[:12]
        ]  # fmt: skip
        told = "declared public" if around.declared else "taken from the table, not declared public"
        more = " and more" if len(domain.features) > len(ranges) else ""
        facts.append((f"Ranges, {told}", markup(", ").join(ranges) + more))
    return facts + ([("Seed", str(around.seed))] if around.seed is not None else [])


def _holds(around: Panels | None) -> str:
    """Say what the result holds of the records."""
    told = "The result holds every record's bounds and label"
    if around is None:
        return f"{told}."
    own = "its values of what is perturbed and the labels around it"
    told += f"; of {_which(around)} {own}" if around.map or around.box else ""
    told += "; of groups of records counts and bounds" if around.groups else ""
    return f"{told}. No other value of a record is in it."
