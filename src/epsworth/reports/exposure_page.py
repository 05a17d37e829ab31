"""The exposure page: which epsilons are worth trying, how exposed the rows are, and whether a model is any use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from epsworth.exposure.usefulness import useless
from epsworth.exposure.verdict import verdict
from epsworth.reports.charts import Axis, Chart, Line
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import isolated
from epsworth.reports.held import Held
from epsworth.reports.numbers import share_down, share_up
from epsworth.reports.page import Page
from epsworth.reports.parts import Origin, computed, decision, downloads, limits, page_body, section, slider, unfolded
from epsworth.reports.plain import plain_page
from epsworth.rounding import show_down, show_up

TITLE = "Which ε is worth trying for this model?"
MOST_STOPS = 120
MOST_LISTED = 50
QUANTILES = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)


def exposure_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page of a window of epsilons."""
    stops = _stops(held)
    sections, sliders = [_decision(held, stops)], dict[str, Any]()
    if stops:
        curves, sliders = _trade(held, stops)
        sections.append(curves)
    sections.append(_rows(held))
    if any("kept_lower" in one for one in stops):
        sections.append(_useful(held, stops))
    sections += [_limits(held), _computed(held, origin)]
    sections.append(downloads(origin, whole, "The result holds the profile and what every ε costs."))
    about = (
        f"{held.whole('rows'):,} training rows, {len(held.texts('columns')):,} columns; logistic regression, output "
        f"perturbation, pure ε per row."
    )
    return plain_page(origin.title(TITLE), page_body(TITLE, about, sections, origin, keys(4)), sliders, whole)


def _stops(held: Held) -> list[Held]:
    found = held.parts("trade") if "trade" in held else []
    if len(found) > MOST_STOPS:
        raise ValueError(f"trade: more than {MOST_STOPS} epsilons; write the result again")
    return sorted(found, key=lambda one: one.number("epsilon", 0))


def _window(held: Held) -> tuple[float, float] | None:
    if "window" not in held:
        return None
    low, high = held.numbers("window", 0)
    return low, high


def _decision(held: Held, stops: Sequence[Held]) -> str:
    advised = _window(held)
    ends = "none" if advised is None else f"{show_up(advised[0], 3)} – {show_down(advised[1], 3)}"
    facts = [(ends, "ε worth trying, per row", "window")]
    epsilon = held.number("epsilon", 0)
    for one in stops:
        if one.number("epsilon") == epsilon:
            facts.append((show_up(one.share("advantage_worst"), 3), _worst(epsilon), "worst"))
            if "accuracy" in one:
                word = f"mean accuracy at ε\u00a0=\u00a0{show_up(epsilon, 4)}"
                facts.append((share_down(one.share("accuracy")), word, "accuracy"))
    base, majority = (held.share(name) if name in held else None for name in ("base_accuracy", "majority"))
    good = advised is not None and held.text("rule") == "advantage" and not useless(base, majority)
    return decision(_verdict(held, advised, base, majority), facts, good)


def _verdict(held: Held, advised: tuple[float, float] | None, base: float | None, majority: float | None) -> str:
    """Return the advice that the numbers give: what a file says of itself may not be so."""
    low, rule = held.number("eps_low", 0), held.text("rule")
    useful = None if base is None else held.number("eps_util", 0)
    adv_low, adv_safe = held.share("adv_low"), held.part("wishes").share("adv_safe")
    return verdict(
        rule=rule, epsilon_low=low, epsilon_util=useful, advised=advised, adv_low=adv_low, adv_safe=adv_safe,
        adv_util=held.share("adv_util") if "adv_util" in held else None, base=base, majority=majority,
    )  # fmt: skip


def _worst(epsilon: float) -> str:
    return f"advantage against the most exposed row at ε\u00a0=\u00a0{show_up(epsilon, 4)}"


def _trade(held: Held, stops: Sequence[Held]) -> tuple[str, dict[str, Any]]:
    epsilons = [one.number("epsilon") for one in stops]
    first = epsilons.index(held.number("epsilon")) if held.number("epsilon") in epsilons else 0
    useful = "accuracy" in stops[0]
    names = ["advantage_worst", "advantage_95", "advantage_median"] + (["accuracy"] if useful else [])
    titles = ["worst row", "95 % of the rows", "median row", "accuracy"]
    lines = [
        Line(title, [(e, one.share(name)) for e, one in zip(epsilons, stops, strict=True)])
        for name, title in zip(names, titles, strict=False)
    ]
    spans, advised = [], _window(held)
    if advised is not None and advised[1] > epsilons[0]:
        word = "worth trying" if held.text("rule") == "advantage" else "published plateau"
        spans.append((max(advised[0], epsilons[0]), advised[1], word))
    rules = [(held.share("majority"), "accuracy of the commoner label")] if useful else []
    rules.append((held.part("wishes").share("adv_safe"), "counts as safe"))
    chart = Chart(
        "Advantage of the best attack on the training rows, and mean accuracy of the model, by ε per row.",
        Axis("ε per row", epsilons[0], epsilons[-1], log=True), Axis("advantage, accuracy", 0.0, 1.0), lines,
        spans=spans, rules=rules, cursor=epsilons[first], moved="trade-cursor", height=340, base=294,
    )  # fmt: skip
    said = [_said(one, held, useful) for one in stops]
    moved = slider("stop", "ε per row", first, len(stops) - 1, show_up(epsilons[first], 4))
    heads = ["ε per row", "worst row", "95 % of the rows", "median row", "rows above what counts as safe"]
    rows = []
    for one in stops:
        cells = [show_up(one.number("epsilon"), 4), *(show_up(one.share(name), 3) for name in names[:3])]
        cells.append(share_up(one.share("rows_above_safe")))
        rows.append([*cells, share_down(one.share("accuracy"))] if useful else cells)
    table = unfolded("what every ε costs", [*heads, "accuracy"] if useful else heads, rows)
    html = section(
        "curves",
        "What every ε costs, and buys",
        f'<div class="controls">{moved}</div><p id="trade" aria-live="polite">{said[first]}</p>'
        f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">Advantage: how much better than blindly the '
        "best attack tells whether a row was trained on; 0 is nothing, 1 certainty. It is right with probability "
        "(1 + advantage) / 2.</p>",
        " across",
    )
    moving = {
        "says": {"stop-shown": [show_up(e, 4) for e in epsilons], "trade": said},
        "moves": {"trade-cursor": chart.cursors(epsilons)},
        "widths": {},
    }
    return html, {"stop": moving}


def _said(one: Held, held: Held, useful: bool) -> str:
    """Say what one epsilon means; plain text."""
    worst = one.share("advantage_worst")
    said = (
        f"At ε\u00a0=\u00a0{show_up(one.number('epsilon'), 4)} the best attack on the most exposed row has an "
        f"advantage of at most {show_up(worst, 3)} (it is right with at most {share_up((1 + worst) / 2)}); against "
        f"half of the rows at most {show_up(one.share('advantage_median'), 3)}. "
        f"{share_up(one.share('rows_above_safe'))} of the rows lie above what counts as safe."
    )
    if useful:
        accuracy = one.share("accuracy")
        said += f" The mean accuracy is {share_down(accuracy)}"
        idle = accuracy <= held.share("majority")
        said += ", no better than always answering the commoner label." if idle else "."
    return said


def _rows(held: Held) -> str:
    profile, epsilon = held.part("profile"), held.number("epsilon")
    ranks, own = profile.numbers("share_of_rows", 0, 1), profile.numbers("epsilon_of_row", 0)
    advantage = profile.numbers("advantage", 0, 1)
    points = [(100 * (1 - rank), u) for rank, u in zip(ranks, own, strict=True)][::-1]
    chart = Chart(
        "Each training row's own ε, the most exposed first.",
        Axis("per cent of the rows, most exposed first", 0.0, 100.0), Axis("a row's own ε", 0.0, max(max(own), 1e-9)),
        [Line("own", points)], rules=[(epsilon, "promised to every row")] if epsilon <= 1.2 * max(own) else [],
        height=280, base=234,
    )  # fmt: skip
    rows = []
    for quantile in QUANTILES:
        at = next(i for i, rank in enumerate(ranks) if rank >= quantile - 1e-12)
        share = "the most exposed" if quantile == 1 else f"{100 * quantile:g} % are at most"
        rows.append([share, show_up(own[at], 3), show_up(advantage[at], 3)])
    listed = held.parts("most_exposed")[:MOST_LISTED]
    body = "".join(
        f'<tr><th scope="row">{one.whole("row")}</th><td>{show_up(one.number("epsilon", 0), 3)}</td>'
        f"<td>{show_up(one.share('advantage'), 3)}</td></tr>"
        for one in listed
    )
    worst = (
        '<table class="worst"><caption>The most exposed rows, by number from 0</caption><thead><tr><th scope="col">row'
        '</th><th scope="col">own ε</th><th scope="col">advantage</th></tr></thead><tbody>'
        f"{body}</tbody></table>"
        if listed
        else ""
    )
    what = (
        f'<div class="panels">{chart.svg()}</div>{worst}'
        + unfolded("own ε by share of the rows", ("rows", "own ε", "advantage"), rows)
        + '<p class="caption">A row that moves the model little is protected better than promised.</p>'
    )
    return section("exposure", f"How exposed the rows are at ε\u00a0=\u00a0{show_up(epsilon, 4)}", what)


def _useful(held: Held, stops: Sequence[Held]) -> str:
    kept = [(one.number("epsilon"), one.share("kept_lower")) for one in stops if "kept_lower" in one]
    start = held.number("eps_util", 0) if "eps_util" in held else math.inf
    posts = [(start, "accuracy is kept from here")] if kept[0][0] <= start <= kept[-1][0] else []
    chart = Chart(
        "Share of all models that keep their accuracy, at least, by ε per row.",
        Axis("ε per row", kept[0][0], kept[-1][0], log=True), Axis("of all models at least", 0.0, 1.0, percent=True),
        [Line("kept", kept, "step")], posts=posts, height=280, base=234,
    )  # fmt: skip
    rows = [[show_up(e, 4), share_down(share)] for e, share in kept]
    base, majority = share_down(held.share("base_accuracy")), share_up(held.share("majority"))
    told = (
        f"Accuracy without noise {base}, of always answering the commoner label {majority}, on the training rows that "
        "were looked at. The noise decides whether a model keeps it: shown is a lower bound on the probability."
    )
    table = unfolded("how surely accuracy is kept", ("ε per row", "probability at least"), rows)
    what = f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">{told}</p>'
    return section("useful", "Whether the model is any use", what)


def _limits(held: Held) -> str:
    raw = (
        "<strong>This page is computed from raw data and is not private itself:</strong> the curves, the verdict and "
        "the rows listed tell about single rows. Do not publish it beside the model."
    )
    said = [
        "The ε is promised to every row by one training; a second one costs as much again.",
        "An ε that is chosen by looking at this page is a function of the data: choose it on stand-in data where that "
        "matters.",
        "A row's own ε is that of its presence among just these other rows; among others it may be larger, up to the "
        "promise.",
    ]
    if held.text("rule") == "plateau":
        said.append("The published rule says where a ratio is flat; it is no protection.")
    return limits(raw, said, ())


def _computed(held: Held, origin: Origin) -> str:
    columns = held.texts("columns")
    more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
    wishes = held.part("wishes")
    told = [
        ("Columns", ", ".join(isolated(one) for one in columns[:12]) + more),
        ("Rows", f"{held.whole('rows'):,}"),
        ("Rule", isolated(held.text("rule"))),
        ("Counts as safe", f"advantage {show_up(wishes.share('adv_safe'))}"),
        ("Counts as exposed", f"advantage {show_down(wishes.share('adv_exposed'))}"),
        ("Candidate", f"ε\u00a0=\u00a0{show_up(held.number('epsilon'), 4)}"),
    ]
    return computed(told, origin)
