"""The page of curves: what to choose, what it keeps, what it protects, who is served worst, what is not protected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from epsworth.policy import Policy
from epsworth.report import blocks, panels, text
from epsworth.report.blocks import Block
from epsworth.report.charts import COLOURS, Axis, Chart, Line, short
from epsworth.report.escaping import LONGEST, cleaned, code, escaped, markup, name, names
from epsworth.report.page import Page, Source, page
from epsworth.report.shown import SHARES, Shown, View
from epsworth.report.text import POINT, SPACE, WORDS, filled, observed, percent, percent_range, sure
from epsworth.rounding import show_down, show_up
from epsworth.space import Domain
from epsworth.utility.surroundings import Surroundings

if TYPE_CHECKING:
    from markupsafe import Markup

TITLE = "What is this epsilon worth?"
TOGETHER = 5  # curves in one picture; more get a picture each
FAR = 40  # ratio of epsilons from which on their axis is logarithmic
TABLED = (1, 10, 50, 90)  # per cent that somebody held likely before
STOPS, MOST_POINTS = 24, 120  # of one delta in that table, about; and in all
TO_RUN = (
    "For what clients must run: "
    "<code>epsworth recommend RESULT.json --at-least … --domain … --policy policy.toml</code>"
)
OBSERVER = {  # how the script tells what an epsilon means
    kind: filled(WORDS[kind], {**{word: f"{{{word}}}" for word in ("prior", "after")}, **text.RECORD, "seen": seen})
    for kind, seen in (
        ("pure", f"At {POINT} one release"),
        ("certain", f"At {POINT} one release"),
        ("weaker", f"One release at ε{SPACE}={SPACE}{{total}}, δ{SPACE}={SPACE}{{delta}} per record"),
    )
}


def curves_page(shown: Shown, source: Source, around: Surroundings | None = None) -> Page:
    """Return the page; ``around`` is what a file keeps beside curves."""
    policy, count = _policy(shown, around), len(shown.curves.labels)
    numbers = shown.numbers | {
        "words": WORDS | OBSERVER | {"sure": sure(shown.curves.confidence), "most": show_down(shown.found.max_epsilon)},
        "frames": [_frame(_chart(shown, view)) for view in shown.views],
        "fingerprint": source.fingerprint,
    }
    parts: list[Block | None] = [_decision(shown, around), _controls(shown), _curves(shown)]
    parts += [_now(shown), _meaning(shown)]
    parts += [_records(shown), panels.groups(shown, around)] if count > 1 else []
    parts += panels.sections(around) if around is not None else []
    features = shown.curves.features
    return page(
        TITLE, markup("{}; perturbed: {}.", f"{count} records" if count > 1 else "one record", names(features)),
        [*parts, _limits(shown, around)], source, origin=_origin(shown, around), holds=_holds(around),
        more=_of_policy(shown, policy), numbers=numbers, policy="" if policy is None else policy.to_toml(),
        title=f"{TITLE} {cleaned(', '.join(map(str, features[:12])))}",
    )  # fmt: skip


def _policy(shown: Shown, around: Surroundings | None) -> Policy | None:
    """Return what clients must run to get the recommendation; None where no ranges are declared, or nothing fits."""
    if around is None or around.domain is None or not around.declared or shown.found.choice is None:
        return None
    try:
        return shown.found.policy(around.domain)
    except ValueError:  # no exact sampler, made for its model, or a policy already
        return None


# ---- the decision


def _decision(shown: Shown, around: Surroundings | None) -> Block:
    if shown.point is None:
        return blocks.decision(WORDS["nothing"], (), shown.found.feasible)
    (m, e), view = shown.point, shown.views[0]
    lower = percent(shown.numbers["views"][0]["lower"][m][e], shown.digits)
    costly = view.bounds.lower[m, e] >= shown.found.at_least and not shown.accepted[m, e]
    words = {
        "name": shown.names[m], "total": show_up(shown.total), "where": view.where, "subject": text.SUBJECTS[view.of],
        "lower": lower, "sure": sure(shown.curves.confidence), "target": percent(shown.target, shown.digits),
        "most": show_down(shown.found.max_epsilon),
    }  # fmt: skip
    sentence = filled(WORDS["use" if shown.found.feasible else "costly" if costly else "none"], words)
    facts = (
        (words["total"], "ε per record", "total"),
        (lower, "guaranteed probability that it is kept", "lower"),
        (text.share_up(observed(shown.total, shown.delta, text.EVEN / 100)), text.CERTAINTY, "after"),
    )
    return blocks.decision(sentence, facts, shown.found.feasible, panels.split_untaken(around))


def _controls(shown: Shown) -> Block:
    stop, target = shown.stops.index(shown.total), shown.targets.index(shown.target)
    targets = [percent(one, shown.digits) for one in shown.targets]
    sliders = [
        blocks.slider("target", "At least", target, targets),
        blocks.slider("stop", "ε per record", stop, [show_up(one) for one in shown.stops]),
    ]
    several = len(shown.quantities) > 1
    views = [f"{view.of}: {view.title}" if several else view.title for view in shown.views]
    return {"is": "controls", "views": views, "sliders": sliders}


# ---- the curves


def _curves(shown: Shown) -> Block:
    surely, every = sure(shown.curves.confidence), list(range(len(shown.names)))
    views = []
    for i, view in enumerate(shown.views):
        what = (
            f"Probability that {text.SUBJECTS[view.of]}, {view.where}, by ε per record. The line is guaranteed; the "
            f"truth lies in the band above it, {surely}."
        )
        drawn = [every] if len(every) <= TOGETHER else [[m] for m in every]  # else one each, the others behind in grey
        figures = blocks.figures(*(_figure(shown, i, bold, every) for bold in drawn))
        parts = [blocks.paragraph(what, "what"), figures, _every_number(shown, i)]
        views.append({"is": "view", "number": i, "blocks": parts})
    told = "The dashed line across is what is asked for, the upright one the ε looked at."
    if shown.capped:
        told += " The dotted line, for the worst record, is the ceiling: no mechanism can promise more to every input."
    told += f" All bands hold together {surely}."
    if len(shown.at) < len(shown.curves.epsilons):
        told += f" {len(shown.at)} of {len(shown.curves.epsilons)} epsilons are shown."
    return blocks.section("curves", "How often the label is kept", *views, told)


def _chart(shown: Shown, view: View, lines: Sequence[Line] = (), what: str = "", **more: Any) -> Chart:
    """Return a picture of a view: one large one for a few curves, else small ones."""
    low = min(0.5, math.floor(10 * float(view.bounds.lower.min())) / 10)
    first, last = shown.stops[0], shown.stops[-1]
    axes = Axis("ε per record", first, last, log=last > FAR * first), Axis("", low, 1.0, percent=True)
    if len(shown.names) <= TOGETHER:
        return Chart(what, *axes, lines, named=True, height=380, left=58, room=152, top=46, bottom=46, **more)
    return Chart(what, *axes, lines, named=False, width=300, height=210, left=50, room=14, top=12, bottom=34, **more)


def _frame(chart: Chart) -> dict[str, Any]:
    """Return what the script needs to move things."""
    return {
        "left": chart.left, "span": chart.right - chart.left, "top": chart.top, "tall": chart.base - chart.top,
        "first": chart.x.low, "last": chart.x.high, "low": chart.y.low, "log": chart.x.log,
    }  # fmt: skip


def _figure(shown: Shown, number: int, bold: list[int], every: list[int]) -> Block:
    view, alone = shown.views[number], bold != every
    lower, upper = view.bounds
    lines = [
        Line(
            shown.curves.mechanisms[m], list(zip(shown.totals[m].tolist(), lower[m].tolist(), strict=True)),
            "bare" if alone else "line", m, upper[m].tolist(), f"v{number}m{m}",
        )
        for m in bold
    ]  # fmt: skip
    named = ", ".join(shown.names[m] for m in bold)
    what = f"{view.of.capitalize()}, {view.title}, at least, by ε per record: {named}."
    plot = _chart(shown, view)
    over = _ceiling(shown, plot, f"v{number}cap", drawn=0 in bold) if view.limited and shown.capped else ""
    over += plot.across(shown.found.at_least, "asked for") + plot.upright(shown.total)
    over += _points(shown, view, plot, bold)
    behind = [f"v{number}m{m}" for m in every if m not in bold]
    chart = _chart(shown, view, lines, what, behind=behind, over=over)
    return blocks.figure(chart, [(m % COLOURS, name(shown.names[m])) for m in bold], bold[0] if alone else None)


def _ceiling(shown: Shown, chart: Chart, key: str, *, drawn: bool) -> str:
    """Return what no mechanism can promise: drawn once, shown in every picture of a view."""
    places = [chart.place(*point) for point in zip(shown.stops, shown.caps, strict=True)]
    path = f'<defs><path class="curve" id="{key}" {chart.path(places)}/></defs>' if drawn else ""
    told = (
        f'<text class="halo" x="{chart.left + 8}" y="{short(places[0][1] + 18)}">ceiling</text>' if chart.large else ""
    )
    return f'{path}<use class="ceiling" href="#{key}"/>{told}'


def _points(shown: Shown, view: View, chart: Chart, bold: Sequence[int]) -> str:
    """Return a point on each curve, at the epsilon looked at; the script moves them."""
    parts, chosen = [], None if shown.point is None else shown.point[0]
    for m, e in enumerate(shown.affordable(shown.total)):
        if m in bold:
            x, y = (0.0, 0.0) if e is None else chart.place(shown.totals[m, e], view.bounds.lower[m, e])
            kind = f"point c{m % COLOURS}{' chosen' if m == chosen else ''}"
            hidden = ' visibility="hidden"' if e is None else ""
            place = f"translate({short(x)} {short(y)})"
            parts.append(f'<circle class="{kind}" data-m="{m}" r="4" transform="{place}"{hidden}/>')
    return "".join(parts)


def _every_number(shown: Shown, number: int) -> Block:
    view, told = shown.views[number], shown.numbers["views"][number]
    both = list(zip(told["lower"], told["upper"], strict=True))
    rows = [
        [show_up(head), *(percent_range(low[e], high[e], shown.digits).removesuffix(f"{SPACE}%") for low, high in both)]
        for e, head in enumerate(shown.curves.epsilons[shown.at].tolist())
    ]
    title = f"{view.of}, {view.title}: at least – at most, in %"
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
            among = "–" if people is None else percent_range(people["lower"][m][e], people["upper"][m][e], digits)
            total = show_up(float(shown.totals[m, e]))
            cells = [total, percent(low, digits), percent(high, digits), among, WORDS[f"{word}_word"]]
        rows.append([name(shown.names[m]), *cells])
    heads = ("mechanism", "ε per record", "at least", "at most", "population", "what is asked")
    kind, chosen = "now" if people is not None else "now nobody", None if shown.point is None else shown.point[0]
    told = None
    if shown.populations:
        one = next(iter(shown.populations.values()))
        told = blocks.caption(
            f"Population: on average over all from whom these {one.records} records come, if they are independent "
            f"draws that the classifier was not fitted on, {sure(one.confidence)}.",
            "people", hidden=not view["average"],
        )  # fmt: skip
    cap = blocks.caption(_cap(shown), "cap") if shown.capped else None
    listed = blocks.table(heads, rows, "Table of the mechanisms", kind, chosen=chosen)
    return blocks.section("mechanisms", "The mechanisms at this ε", listed, told, cap)


def _cap(shown: Shown) -> str:
    cap = shown.numbers["caps"][shown.stops.index(shown.total)]
    words = {"below": percent(cap - 1, shown.digits), "cap": percent(cap, shown.digits), "total": show_up(shown.total)}
    return filled(WORDS["free" if cap == 10**shown.digits else "cap"], words)


# ---- what the epsilon means


def _meaning(shown: Shown) -> Block:
    told = "Sure: of a value that is suspected. Right: in naming the true one of two values, where there is a δ."
    return blocks.of_promise(
        lambda prior: observed(shown.total, shown.delta, prior), "What the ε means",
        {"total": show_up(shown.total), "delta": show_up(shown.delta)}, delta=shown.delta, texts=OBSERVER,
        listed=_by_epsilon(shown), more=blocks.caption(told, kind=" read"),
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
        + [text.share_up(observed(total, delta, p / 100)) for p in TABLED]
        for delta, total in points[:: max(1, len(points) // MOST_POINTS)]
    )
    heads = ["ε per record", "at most", *(f"from {p} %" for p in TABLED)]
    return blocks.unfolded("how sure, or how often right, at most, by ε", heads, rows)


# ---- who is served how


def _records(shown: Shown) -> Block:
    """Return how the records differ: what shares of them keep, and who keeps least."""
    title, digits = "How the records are served", shown.digits
    if shown.unfinished:
        early = (
            "The run ended before every record was answered: the average is bounded, and single records are not known."
        )
        return blocks.section("records", title, early)
    numbers, of, (m, e) = shown.numbers, shown.views[0].of, shown.point or (0, 0)
    worst = next(one["lower"] for one in numbers["views"] if one["of"] == of and one["worst"])
    rows = [
        [
            "every record" if share == 100 else f"{share} % of the records", percent(whole[m][e], digits),
            blocks.bar(whole[m][e] / 10 ** (digits - 2)),
        ]
        for share, whole in zip((100, *SHARES), [worst, *numbers["shares"][of]], strict=True)
    ]  # fmt: skip
    listed, lowest = numbers["worst"][m][e], []
    for at, lower in zip(listed[::2], listed[1::2], strict=True):
        record, label = numbers["records"][at]
        lowest.append([record, name(label, LONGEST), percent(lower, digits)])
    shares = blocks.table(
        ("of these", "at least", None), rows, "Table of shares of the records", "served",
        "What shares of the records keep at least.",
    )  # fmt: skip
    least = blocks.table(
        ("record", "label", "at least"), lowest, "Table of the records that keep least", "worst",
        "The records that keep least, and how often their label stays.",
    )  # fmt: skip
    loose = "Only the average and the worst case were bounded closely; single records may keep more."
    return blocks.section(
        "records", title,
        blocks.caption(markup("By {} at {} per record.", name(shown.names[m]), text.at(shown.total)), "served"),
        blocks.pair([shares], [least]), loose if shown.curves.over == "dataset" else None,
    )  # fmt: skip


# ---- what is not protected, and where it comes from


def _limits(shown: Shown, around: Surroundings | None) -> Block:
    curves = shown.curves
    said: list[object] = [
        markup(
            "Perturbed are {} alone: every other column is sent as it is, and that a person takes part is seen, too.",
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


def _origin(shown: Shown, around: Surroundings | None) -> list[tuple[str, object]]:
    curves = shown.curves
    facts: list[tuple[str, object]] = [
        ("Perturbed", names(curves.features)),
        ("Records", f"{len(curves.labels):,}"),
        ("Bounds hold", sure(curves.confidence)),
        ("Tolerance", show_up(curves.tolerance)),
        ("Engines", escaped(", ".join(sorted({cleaned(word, 40) for word in curves.method.flat})), 200)),
        ("Cost", f"{curves.queries:,} queries, {show_up(curves.seconds, 3)} s"),
    ]
    if around is None:
        return facts
    facts += [("Model", escaped(around.model, LONGEST))] if around.model else []
    if around.domain is not None:
        told = "declared public" if around.declared else "taken from the table, not declared public"
        facts.append((f"Ranges, {told}", _ranges(around.domain)))
    return facts + ([("Seed", str(around.seed))] if around.seed is not None else [])


def _ranges(domain: Domain) -> Markup:
    told = []
    for one in domain.features[:12]:
        many, ends = one.categories, f"{one.lower:,.9g} to {one.upper:,.9g}"
        told.append(markup("{} {}", name(one.name), ends if many is None else f"{len(many)} categories"))
    return markup(", ").join(told) + (" and more" if len(domain.features) > len(told) else "")


def _holds(around: Surroundings | None) -> str:
    """Say what the result holds of the records."""
    told = "The result holds every record's bounds and label"
    if around is None:
        return f"{told}."
    own = "its values of what is perturbed and the labels around it"
    told += f"; of {panels.which(around)} {own}" if around.map or around.box else ""
    told += "; of groups of records counts and bounds" if around.groups else ""
    return f"{told}. No other value of a record is in it."


def _of_policy(shown: Shown, policy: Policy | None) -> Markup:
    choice = shown.found.choice
    if policy is None or choice is None:
        return markup(TO_RUN)
    return markup(
        "The policy is that of the recommendation, {} at {} per record, and does not follow the sliders; "
        "fingerprint {}.",
        name(text.mechanism_name(choice.mechanism)), text.at(choice.guarantee.epsilon), code(policy.fingerprint),
    )  # fmt: skip
