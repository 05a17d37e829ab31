"""What a page shows around curves: safe ranges, the map of labels, groups of records, the epsilon split otherwise."""

from __future__ import annotations

from dataclasses import replace

from epsworth.report import blocks, charts
from epsworth.report.blocks import Block
from epsworth.report.escaping import cleaned, markup, name
from epsworth.report.shown import Shown
from epsworth.report.text import at, mechanism_name, percent_of, sure
from epsworth.rounding import round_down, show_down, show_up
from epsworth.utility.boxes import SafeBox, texts
from epsworth.utility.splitting import Split
from epsworth.utility.surroundings import MOST_VALUES, DecisionMap, Surroundings, numbered, served

LISTED = 5  # groups that are not folded away


def which(around: Surroundings) -> str:
    """Name the record that map and ranges are about."""
    return f"record {around.record}" if around.records > 1 else "the record"


def sections(around: Surroundings) -> list[Block]:
    """Return what is known beside the curves."""
    found = [_map(around, around.map)] if around.map is not None else []
    found += [_safe(around, around.box)] if around.box is not None else []
    return found + ([_split(around, around.split)] if around.split is not None else [])


def groups(shown: Shown, around: Surroundings | None) -> Block | None:
    """Return which groups of records are guaranteed least at the point that the page opens with."""
    if shown.point is None or shown.unfinished:
        return None
    (m, e), of, elsewhere = shown.point, shown.views[0].of, markup("")
    kinds, own = numbered(list(shown.curves.labels))
    lower = shown.curves.bounds(of).lower[m, shown.at[e]]
    every = [("label", one) for one in served(kinds, own, lower)] if 2 <= len(kinds) <= MOST_VALUES else []
    here = (shown.curves.mechanisms[m], shown.total)
    if around is not None and (around.mechanism, around.epsilon_per_record) == here:
        every += [(group.by, one) for group in around.groups if group.of == of for one in group.served]
    elif around is not None and around.groups:  # of other points nothing is known
        elsewhere = markup(
            " By {} groups were computed at {} at {} per record alone, and are not shown here.",
            markup(", ").join(dict.fromkeys(name(group.by, 40) for group in around.groups)),
            name(mechanism_name(around.mechanism or "")), at(around.epsilon_per_record or 0.0),
        )  # fmt: skip
    if not every:
        return None
    every.sort(key=lambda pair: (pair[1].average, pair[0], pair[1].value))
    rows: list[list[object]] = [
        [
            markup("{}: {}", name(by, 40), name(one.value, 40)), f"{one.records:,}",
            percent_of(one.average, shown.digits), percent_of(one.worst, shown.digits),
        ]
        for by, one in every
    ]  # fmt: skip
    bars = [blocks.bar(100 * round_down(one.average, shown.digits)) for _, one in every[:LISTED]]
    heads = ("group", "records", "on average at least", "the worst at least")
    told = markup(
        "By {} at {} per record, where this page opens; it does not follow the sliders.{}",
        name(shown.names[m]), at(shown.total), elsewhere,
    )  # fmt: skip
    return blocks.section(
        "groups", "Which groups are served worst", told,
        blocks.table((*heads, None), [[*row, drawn] for row, drawn in zip(rows, bars, strict=False)],
                     "Table of groups", "groups-table"),
        blocks.unfolded(f"all {len(rows)} groups", heads, rows) if len(rows) > LISTED else None,
    )  # fmt: skip


def _map(around: Surroundings, drawn: DecisionMap) -> Block:
    features = " and ".join(cleaned(one, 40) for one in drawn.features)
    what = (
        f"Labels around {which(around)} (the cross) while {features} vary and its other columns stay. Plain: its own "
        "label. With marks: another."
    )
    rows = [
        [
            charts.sample(charts.label_look(k)) + name(drawn.labels[i], 40) + " (its own)" * (i == drawn.label),
            f"{int((drawn.cells == i).sum()):,} of {drawn.cells.size:,}",
        ]
        for k, i in enumerate(charts.label_order(drawn))
    ]
    grid = "What the model says at so many points of a grid: a picture, no bound"
    listed = blocks.table(("label", "points"), rows, "Table of labels", "labels", grid)
    drawing = blocks.figures(charts.label_map(drawn, what))
    return blocks.section("mapped", "Where the label changes", blocks.pair([drawing], [listed]))


def _safe(around: Surroundings, box: SafeBox) -> Block:
    """Return the ranges in which the label of one record is safe, both ends rounded inwards."""
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
        "safe", f"Where {which(around)} is safe", blocks.paragraph(told),
        blocks.table(heads, rows, "Table of safe ranges", "ranges"),
        "Both ends are included and rounded inwards; all features may vary at once. The upright line is the record.",
    )  # fmt: skip


def split_untaken(around: Surroundings | None) -> str:
    """Say why the decision keeps the even split, where another one is guaranteed more; else nothing."""
    split = None if around is None else around.split
    if around is None or split is None or split.lower <= split.even_lower:
        return ""
    return (
        f"This splits the ε evenly. By {mechanism_name(split.mechanism)} at {at(split.total)} per record another split "
        f"keeps more, on average over {around.split_records} of these records: at least {percent_of(split.lower)}, in "
        f"place of {percent_of(split.even_lower)}. It is not taken: it was chosen on these records, which were not "
        "declared public, and so tells about them; look for one on public records by epsworth split."
    )


def _split(around: Surroundings, split: Split) -> Block:
    even = split.total / len(split.features)
    rows = [
        [name(feature), show_up(even), show_up(epsilon), blocks.bar(100 * epsilon / split.total)]
        for feature, epsilon in zip(split.features, split.epsilons, strict=True)
    ]
    kept = [
        [word, percent_of(low), percent_of(high, upwards=True)]
        for word, low, high in (
            ("even", split.even_lower, split.even_upper), ("split", split.lower, split.upper),
        )
    ]  # fmt: skip
    if split.lower > split.even_upper:
        verdict = "better than the even split"
    elif split.lower > split.even_lower:
        verdict = "guaranteed more than the even split, which may be as good"
    else:
        verdict = "no split was found that is guaranteed more than the even one"
    told = (
        f"By {mechanism_name(split.mechanism)} at {at(split.total)} per record, on average over "
        f"{around.split_records} of these records, {sure(split.confidence)}: {verdict}."
    )
    return blocks.section(
        "split", "The same ε, split otherwise", blocks.paragraph(told),
        blocks.pair(
            [blocks.table(("feature", "ε, even", "ε, split", None), rows, "Table of the split", "parts")],
            [blocks.table(("labels kept", "at least", "at most"), kept, "Table of what both keep", "kept")],
        ),
        "The split was chosen on these records, which were not declared public, and depends on them.",
    )  # fmt: skip
