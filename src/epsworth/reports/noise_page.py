"""The noise page: which noise is cheapest, what no noise can do, its shape, and what the epsilon means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epsworth.noise.advice import advice, taken
from epsworth.reports.charts import Axis, Bar, Chart, Line, bar_chart
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import cleaned, escaped, isolated
from epsworth.reports.held import Held
from epsworth.reports.names import noise_name
from epsworth.reports.numbers import share_down
from epsworth.reports.observing import of_promise
from epsworth.reports.page import Page
from epsworth.reports.parts import Origin, computed, decision, downloads, limits, page_body, section, unfolded
from epsworth.reports.plain import plain_page, size
from epsworth.rounding import show_down, show_up

TITLE = "Which noise costs the least privacy?"
MOST_ROWS = 24


def noise_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page of a ranking."""
    rows = held.parts("rows")
    ranked = [_Ranked.of(row) for row in rows]
    best = taken(ranked)
    take = best.row if best is not None else None
    left = held.part("left_out")
    left_out = {noise_name(name): left.text(name) for name in left}
    said = advice(ranked, held.number("floor", 0), left_out)  # from the rows: what a file says of itself may not be so
    sections = [_decision(said, take), _ranking(held, rows)]
    sliders: dict[str, Any] = {}
    if take is not None:
        if "shape" in held:
            sections.append(_shape(held.part("shape"), take))
        together = take.whole("releases")
        seen = f"all {together:,} releases" if together > 1 else "the release"
        meaning, sliders = of_promise(
            take.number("epsilon", 0), take.share("delta"), seen=seen,
            what="a certain record is among the data, and knew all others",
            which="whether a certain record is among the data, knowing all others",
        )  # fmt: skip
        sections.append(meaning)
    sections += [_limits(held, take), _computed(held, origin), downloads(origin, whole, "The result holds every row.")]
    about = _question(held)
    body = page_body(TITLE, about, sections, origin, keys(1))
    return plain_page(origin.title(TITLE), body, sliders, whole)


@dataclass(frozen=True)
class _Ranked:
    """What the advice is made of, read from a row."""

    name: str
    epsilon: float
    delta: float
    releases: int
    rmse: float
    sound: bool
    row: Held

    @classmethod
    def of(cls, row: Held) -> _Ranked:
        return cls(
            noise_name(row.text("name")), row.number("epsilon", 0), row.share("delta"), row.whole("releases"),
            row.number("rmse", 0), row.flag("sound"), row,
        )  # fmt: skip


def _question(held: Held) -> str:
    if "question" not in held:
        return "A bound that answers must keep."
    asked = held.part("question")
    kind = {
        "absolute": "within ± {} of the true one",
        "relative": "within a fraction {} of the true one",
        "fixed": "within {}",
    }
    said = kind.get(asked.text("region"), "within {}").format(isolated(asked.text("within")))
    return (
        f"Answers {said}, each with probability {share_down(asked.share('confidence'))} at least; one record "
        f"moves an answer by at most {escaped(show_up(asked.number('sensitivity', 0)))}."
    )


def _decision(said: str, take: Held | None) -> str:
    if take is None:
        return decision(said, (), good=False)
    told = (
        (show_up(take.number("epsilon")), "ε, for the whole data set and all releases", "epsilon"),
        (share_down(take.share("confidence")), "probability that a release is within", "confidence"),
        (size(take.number("rmse")), "root mean squared error of a release", "rmse"),
    )
    return decision(said, told, good=True)


def _ranking(held: Held, rows: Sequence[Held]) -> str:
    shown, floor = rows[:MOST_ROWS], held.number("floor", 0)
    bars = [
        Bar(noise_name(row.text("name")), row.number("epsilon", 0), show_up(row.number("epsilon")), row.flag("sound"))
        for row in shown
    ]
    rule = (floor, f"nothing below {show_down(floor)}") if floor > 0 else None
    drawn = (
        bar_chart(
            "The ε that each noise costs for the same accuracy, the cheapest first.",
            "ε for all releases together",
            bars,
            rule,
        )
        if bars
        else ""
    )
    heads = ("noise", "ε", "within, at least", "rms error", "above the floor", "pairs compared", "remark")
    table = unfolded("every noise", heads, [_row(row, floor) for row in shown])
    told = ["Shorter is better: the same accuracy for less privacy."]
    if floor > 0:
        told.append(
            f"Dashed: no noise whose density falls to either side of zero costs less than {show_down(floor)}, whoever "
            "invents it (a dual bound)."
        )
    if any(not row.flag("sound") for row in shown):
        told.append("Outlined, not filled: what the published accounting claims, which is no bound.")
    if len(rows) > MOST_ROWS:
        told.append(f"{len(rows) - MOST_ROWS} more stand in the result.")
    what = f'<div class="panels">{drawn}</div>{table}<p class="caption">{" ".join(told)}</p>'
    return section("ranking", "The noises, cheapest first", what)


def _row(row: Held, floor: float) -> list[str]:
    above = f"{show_up(100 * (row.number('epsilon') / floor - 1), 2)}\u00a0%" if floor > 0 else "–"
    remark = "" if row.flag("sound") else f"no bound: in truth {show_up(row.number('exact_epsilon', 0))}"
    return [
        isolated(noise_name(row.text("name"))), show_up(row.number("epsilon")), share_down(row.share("confidence")),
        size(row.number("rmse", 0)), above, f"{row.whole('pairs'):,}", remark or "–",
    ]  # fmt: skip


def _shape(shape: Held, take: Held) -> str:
    edges, chance, (low, high) = shape.numbers("edges"), shape.numbers("chance", 0, 1), shape.numbers("within")
    answer, most = shape.number("answer"), max([*chance, 1e-12])
    points = [*zip(edges, [*chance, chance[-1]], strict=True)]
    chart = Chart(
        f"How likely a released value falls where, under {cleaned(noise_name(shape.text('name')))}.",
        Axis("released value", edges[0], edges[-1]), Axis("chance", 0.0, 1.05 * most, percent=True),
        [Line(shape.text("name"), points, "step")],
        spans=[(low, high, f"within: {share_down(take.share('confidence'))} or more")],
        posts=[(answer, "the true answer")], height=280, base=234,
    )  # fmt: skip
    rows = (
        [f"{size(a)} to {size(b)}", f"{size(100 * c)}\u00a0%"]
        for a, b, c in zip(edges, edges[1:], chance, strict=False)
    )
    table = unfolded("the chance of every bin", ("released value", "chance, about"), rows)
    told = (
        f"{isolated(noise_name(shape.text('name')))} around the true answer {size(answer)}; shaded is where a release "
        f"must lie, {size(low)} to {size(high)}."
    )
    what = f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">{told}</p>'
    return section("shape", "The shape of the noise", what)


def _limits(held: Held, take: Held | None) -> str:
    said = [
        "Whoever holds the data sees every record as it is: the noise protects what leaves, not what is stored.",
        "The promise rests on the sensitivity: if one record can move an answer further, the ε is too small.",
    ]
    if take is not None:
        count = take.whole("releases")
        counted = f"all {count:,} releases together" if count > 1 else "one release"
        said.append(f"The ε is for {counted}; whatever else is released of the same data adds to it.")
        if take.share("delta") > 0:
            delta = show_up(take.share("delta"))
            said.append(f"With probability δ\u00a0=\u00a0{delta} a release may show more than its ε says.")
        said.append(
            "Draws in floating point are not fit for release: take a discrete noise and its for_release(), which "
            "draws from the operating system's randomness."
        )
    left = held.part("left_out")
    notes = [f"left out, {noise_name(name)}: {left.text(name)}" for name in left]
    raw = "This page holds no data: it is computed from the question alone, and may be shown to anybody."
    return limits(raw, said, notes, "open")


def _computed(held: Held, origin: Origin) -> str:
    told = [("Model", "central: the promise is for the whole data set")]
    if "question" in held:
        asked = held.part("question")
        words = {"within": "Within", "region": "Region", "answers": "Answers", "lattice": "Lattice", "offset": "Offset"}
        told += [(word, escaped(asked.raw(name))) for name, word in words.items() if name in asked]
        for name, word in (("sensitivity", "Sensitivity"), ("delta", "δ"), ("releases", "Releases")):
            if name in asked:
                told.append((word, show_up(asked.number(name, 0))))
    return computed(told, origin)
