"""What a page shows beside curves: safe ranges, the map of labels, groups of records, the epsilon split otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsworth.reports.escaping import NOTE, cleaned, escaped, isolated
from epsworth.reports.mapped import HALF, Layout, frame, half_range, levels, picture, profile, swatch
from epsworth.reports.names import mechanism_name
from epsworth.reports.numbers import Shown, units
from epsworth.reports.parts import bar, section, unfolded
from epsworth.reports.sentences import Standing, filled, percent
from epsworth.results import how_sure
from epsworth.rounding import round_down, show_down, show_up
from epsworth.utility.boxes import SafeBox, texts
from epsworth.utility.splitting import Split
from epsworth.utility.surroundings import MOST_VALUES, DecisionMap, Served, Surroundings, numbered, served

LISTED = 5  # groups that are not folded away
MOST_COLUMNS = 8  # mechanisms in the map's table
WORDS = {  # which the script fills in by the same names
    "half": (
        "By {name} at ε\u00a0=\u00a0{epsilon} per record: at least half of all that is sent for it lies within "
        "{ranges} (the frame)."
    ),
    "less": "By {name} at ε\u00a0=\u00a0{epsilon} per record: less than half of what is sent lies within these ranges.",
    "no": "{name} releases no single features: nothing is drawn of what it sends.",
}


@dataclass(frozen=True)
class Around:
    """Surroundings beside the curves of a page."""

    shown: Shown
    held: Surroundings

    @property
    def numbers(self) -> dict[str, Any]:
        """What the script needs to move the map."""
        drawn = self.held.map
        if drawn is None:
            return {}
        return {
            "around": {
                **Layout.of(drawn).to_dict(),
                "of": [self.mechanism(m) for m in range(len(self.shown.names))],
                "near": self.near,
                "epsilons": [show_up(epsilon) for epsilon in drawn.epsilons],
                "words": WORDS,
                "levels": [[[levels(one) for one in both] for both in row] for row in drawn.masses],
                "frames": [[self.ranges(m, e) for e in range(len(drawn.epsilons))] for m in range(len(drawn.masses))],
                "said": [[self.said(m, e) for e in range(len(drawn.epsilons))] for m in range(len(drawn.masses))],
            }
        }

    @property
    def drawn(self) -> DecisionMap:
        """The map, where there is one."""
        assert self.held.map is not None
        return self.held.map

    def mechanism(self, m: int) -> int:
        """Return the number within the map of a mechanism of the page; -1 where nothing is known of what it sends."""
        names = self.drawn.mechanisms
        return names.index(self.shown.curves.mechanisms[m]) if self.shown.curves.mechanisms[m] in names else -1

    @property
    def near(self) -> list[int]:
        """For each epsilon of the page the nearest one that the map holds masses for."""
        held, own = np.array(self.drawn.epsilons), self.shown.curves.epsilons[self.shown.at]
        if not held.size:
            return [0] * len(own)
        return [int(np.abs(held - epsilon).argmin()) for epsilon in own.tolist()]

    def ranges(self, m: int, e: int) -> list[tuple[int, int] | None]:
        """Return, by feature, the first and the last of the fewest cells whose product holds half of what is sent."""
        need = HALF[len(self.drawn.features)]
        return [half_range(one, need) for one in self.drawn.masses[m, e]]

    def said(self, m: int, e: int) -> str:
        """Return these ranges in natural units, rounded outwards; nothing where some feature has none."""
        told = []
        for name, edges, one in zip(self.drawn.features, self.drawn.edges, self.ranges(m, e), strict=True):
            if one is None:
                return ""
            low, high = show_down(float(edges[one[0]]), 4), show_up(float(edges[one[1] + 1]), 4)
            told.append(f"{cleaned(name, 40)} {low} to {high}")
        return ", ".join(told)

    def caption(self, point: tuple[int, int]) -> str:
        """Say what of a mechanism is drawn."""
        m, e = self.mechanism(point[0]), self.near[point[1]]
        name = self.shown.names[point[0]]
        if m < 0:
            return filled(WORDS["no"], {"name": name})
        ranges = self.said(m, e)
        words = {"name": name, "ranges": ranges, "epsilon": show_up(self.drawn.epsilons[e])}
        return filled(WORDS["half" if ranges else "less"], words)


def groups(standing: Standing, held: Surroundings | None) -> str:
    """Return which groups of records are guaranteed least at the point that the page opens with."""
    shown, point = standing.shown, standing.point
    if point is None or shown.unfinished:
        return ""
    m, e = point
    kinds, numbers = numbered(list(shown.curves.labels))
    lower = shown.curves.bounds(standing.view.of).lower[m, shown.at[e]]
    every = [("label", one) for one in served(kinds, numbers, lower)] if 2 <= len(kinds) <= MOST_VALUES else []
    at = (shown.curves.mechanisms[m], float(shown.totals[m, e]))
    if held is not None and (held.mechanism, held.epsilon_per_record) == at:  # of other points nothing is known
        every += [(group.by, one) for group in held.groups if group.of == standing.view.of for one in group.served]
    if not every:
        return ""
    every.sort(key=lambda pair: (pair[1].average, pair[0], pair[1].value))
    rows = [_group(shown, by, one) for by, one in every]
    listed = "".join(
        f'<tr><th scope="row">{name}</th><td>{count}</td><td>{average}</td><td>{worst}</td><td>{bar(width)}</td></tr>'
        for (name, count, average, worst), width in [(row, _width(shown, one)) for row, (_, one) in zip(rows, every, strict=True)][:LISTED]  # noqa: E501
    )  # fmt: skip
    heads = ("group", "records", "on average at least", "the worst at least")
    told = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rest = "" if len(rows) <= LISTED else unfolded(f"all {len(rows)} groups", heads, rows)
    where = f"{isolated(shown.names[m])} at ε = {show_up(float(shown.totals[m, e]))} per record"
    return section(
        "groups",
        "Which groups are served worst",
        f'<p class="caption">By {where}, where this page opens; it does not follow the sliders.'
        f'{_elsewhere(held, at)}</p><div class="wide" '
        'role="region" tabindex="0" aria-label="Table of groups"><table class="groups-table"><thead><tr>'
        f'{told}<th scope="col"><span class="hidden">as a bar</span></th></tr></thead><tbody>{listed}</tbody></table>'
        f"</div>{rest}",
    )


def _elsewhere(held: Surroundings | None, at: tuple[str, float]) -> str:
    if held is None or not held.groups or (held.mechanism, held.epsilon_per_record) == at:
        return ""
    names = ", ".join(dict.fromkeys(isolated(group.by, 40) for group in held.groups))
    point = (
        f"{isolated(mechanism_name(held.mechanism or ''))} at ε = {show_up(held.epsilon_per_record or 0.0)} per record"
    )
    return f" By {names} groups were computed at {point} alone, and are not shown here."


def _group(shown: Shown, by: str, one: Served) -> tuple[str, str, str, str]:
    shares = (percent(units(np.array([share]), shown.digits, upwards=False)[0], shown.digits) for share in one[2:])
    name = f"{isolated(by, 40)}: {isolated(one.value, 40)}"
    average, worst = shares
    return name, f"{one.records:,}", average, worst


def _width(shown: Shown, one: Served) -> float:
    return 100 * round_down(one.average, shown.digits)


def sections(around: Around, standing: Standing) -> list[str]:
    """Return what is known beside the curves."""
    held, found = around.held, []
    if held.map is not None and standing.point is not None:
        found.append(_map(around, standing.point))
    if held.box is not None:
        found.append(_safe(around, held.box))
    if held.split is not None:
        found.append(_split(held, held.split))
    return found


def _record(held: Surroundings) -> str:
    return f"record {held.record}" if held.records > 1 else "the record"


def _map(around: Around, point: tuple[int, int]) -> str:
    drawn, held = around.drawn, around.held
    order = [drawn.label, *(i for i in range(len(drawn.labels)) if i != drawn.label)]
    size = drawn.cells.size
    rows = "".join(
        f'<tr><th scope="row">{swatch(k)}{isolated(drawn.labels[i], 40)}{" (its own)" if i == drawn.label else ""}</th>'
        f"<td>{int((drawn.cells == i).sum()):,} of {size:,}</td></tr>"
        for k, i in enumerate(order)
    )
    names = " and ".join(isolated(name, 40) for name in drawn.features)
    told = (
        f"Labels around {_record(held)} while {' and '.join(cleaned(name, 40) for name in drawn.features)} vary; "
        f"plain: its own label, {cleaned(drawn.labels[drawn.label], 40)}; with marks: another one"
    )
    m, e = around.mechanism(point[0]), around.near[point[1]]
    svg = picture(drawn, told)
    if m >= 0:
        svg = _filled_in(svg, drawn, around.ranges(m, e), m, e)
    return section(
        "mapped",
        "Where the label changes",
        f'<div class="pair"><div class="map-picture">{svg}</div><div><p class="what">Labels around {_record(held)} '
        f"(the cross) while {names} vary and its other columns stay. Plain: its own label. With marks: another. Along "
        "the axes: how often a released value lies there.</p>"
        f'<p id="sent" aria-live="polite">{escaped(around.caption(point), NOTE)}</p>'
        '<table class="labels"><caption>What the model says at so many points of a grid: a picture, no bound</caption>'
        f'<thead><tr><th scope="col">label</th><th scope="col">points</th></tr></thead><tbody>{rows}</tbody></table>'
        f"{_masses(around)}</div></div>",
    )


def _filled_in(svg: str, drawn: DecisionMap, ranges: Sequence[tuple[int, int] | None], m: int, e: int) -> str:
    """Draw what the script moves as it stands first."""
    layout = Layout.of(drawn)
    x, y, wide, tall = frame(ranges, len(drawn.edges[0]) - 1, layout)
    svg = svg.replace(
        'id="half" width="0" height="0"', f'id="half" x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}"'
    )
    for j in range(len(drawn.features)):
        path = profile(levels(drawn.masses[m, e, j]), layout, upright=j == 1)
        svg = svg.replace(f'id="profile-{j}" d=""', f'id="profile-{j}" d="{path}"')
    return svg


def _masses(around: Around) -> str:
    """Return as a table which ranges hold half of what is sent, by epsilon and mechanism."""
    drawn = around.drawn
    if not drawn.mechanisms:
        return ""
    names = drawn.mechanisms[:MOST_COLUMNS]
    rows = (
        [show_up(epsilon), *(escaped(around.said(m, e), NOTE) or "–" for m in range(len(names)))]
        for e, epsilon in enumerate(drawn.epsilons)
    )
    heads = ("ε per record", *(isolated(mechanism_name(name)) for name in names))
    return unfolded("at least half of all releases lie within", heads, rows)


def _safe(around: Around, box: SafeBox) -> str:
    """Return the ranges in which the label is safe, both ends rounded inwards."""
    held, rows = around.held, []
    for name, own, low, high, whole in zip(box.features, held.values, box.lower, box.upper, box.whole, strict=True):
        first, last = _ends(held, name)
        shown = texts(low, high)
        said = "anywhere" if whole else f"{shown[0]} to {shown[1]}"
        rows.append(
            f'<tr><th scope="row">{isolated(name)}</th><td>{show_down(own)}</td><td>{said}</td>'
            f"<td>{_span(first, last, low, high, own)}</td></tr>"
        )
    return section(
        "safe",
        f"Where {_record(held)} is safe",
        f"<p>{escaped(_box_words(box), NOTE)}</p>"
        '<div class="wide" role="region" tabindex="0" aria-label="Table of safe ranges"><table class="ranges"><thead>'
        '<tr><th scope="col">feature</th><th scope="col">its value</th><th scope="col">safe range</th>'
        '<th scope="col">within the declared range</th></tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="caption">Both ends are included and rounded inwards; '
        "all features may vary at once. The upright line is the record.</p>",
    )


def _box_words(box: SafeBox) -> str:
    name = mechanism_name(box.mechanism)
    told = str(replace(box, mechanism=name))
    if box.confidence < 1:
        return told
    kept = percent(units(np.array([box.guaranteed]), 3, upwards=False)[0], 3)
    by = f"By {name} at ε = {show_up(box.epsilon)} per record"
    return f"{told} {by} that alone keeps it in {kept} of all releases."


def _ends(held: Surroundings, name: str) -> tuple[float, float]:
    if held.domain is not None and name in held.domain:
        return held.domain[name].lower, held.domain[name].upper
    return 0.0, 1.0


def _span(first: float, last: float, low: float, high: float, own: float) -> str:
    """Return a safe range within the declared one, and the record's value."""
    a, b, x = (min(100.0, max(0.0, 100 * (at - first) / (last - first))) for at in (low, high, own))
    return (
        '<svg class="bar span" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><path d="M0 4h100"/>'
        f'<rect x="{a:.1f}" width="{max(b - a, 0.3):.1f}" height="8"/><path class="at" d="M{x:.1f}-1v10"/></svg>'
    )


def split_untaken(around: Around) -> str:
    """Say why the decision keeps the even split, where another one is guaranteed more; else nothing."""
    split, held = around.held.split, around.held
    if split is None or split.lower <= split.even_lower:
        return ""
    low, _, even_low, _ = _shares(split)
    return (
        f"This splits the ε evenly. By {mechanism_name(split.mechanism)} at ε\u00a0=\u00a0{show_up(split.total)} per "
        f"record another split keeps more, on average over {held.split_records} of these records: at least {low}, in "
        f"place of {even_low}. It is not taken, since it was chosen on these records, which were not declared public, "
        "and so tells about them: look for one on public records by epsworth split."
    )


def _shares(split: Split) -> list[str]:
    """Return what a split and the even one keep: at least, at most, and the same of the even one."""
    sides = ((split.lower, False), (split.upper, True), (split.even_lower, False), (split.even_upper, True))
    return [percent(units(np.array([share]), 3, upwards=upwards)[0], 3) for share, upwards in sides]


def _split(held: Surroundings, split: Split) -> str:
    even = split.total / len(split.features)
    rows = "".join(
        f'<tr><th scope="row">{isolated(name)}</th><td>{show_up(even)}</td><td>{show_up(epsilon)}</td>'
        f"<td>{bar(100 * epsilon / split.total)}</td></tr>"
        for name, epsilon in zip(split.features, split.epsilons, strict=True)
    )
    low, high, even_low, even_high = _shares(split)
    sure = how_sure(split.confidence).replace(" %", "\u00a0%")
    if split.lower > split.even_upper:
        verdict = "better than the even split"
    elif split.lower > split.even_lower:
        verdict = "guaranteed more than the even split, which may be as good"
    else:
        verdict = "no split was found that is guaranteed more than the even one"
    return section(
        "split",
        "The same ε, split otherwise",
        f"<p>By {isolated(mechanism_name(split.mechanism))} at ε = {show_up(split.total)} per record, on average over "
        f"{held.split_records} of these records, {sure}: {verdict}.</p>"
        '<div class="pair"><div class="wide" role="region" tabindex="0" aria-label="Table of the split"><table '
        'class="parts"><thead><tr><th scope="col">feature</th><th scope="col">ε, even</th><th scope="col">ε, split</th>'
        '<th scope="col"><span class="hidden">share of the total</span></th></tr></thead>'
        f'<tbody>{rows}</tbody></table></div><table class="kept"><thead><tr><th scope="col">labels kept</th>'
        '<th scope="col">at least</th><th scope="col">at most</th></tr></thead><tbody>'
        f'<tr><th scope="row">even</th><td>{even_low}</td><td>{even_high}</td></tr>'
        f'<tr><th scope="row">split</th><td>{low}</td><td>{high}</td></tr></tbody></table></div>'
        '<p class="caption">The split was chosen on these records, which were not declared public, and depends on '
        "them.</p>",
    )
