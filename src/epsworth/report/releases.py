"""The pages of noise, of a PAC release, and of rows' exposure.

Each is made of what --json of these commands writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from epsworth.exposure.usefulness import useless
from epsworth.noise.choice import above_floor, advice, taken
from epsworth.noise.objective import EPSILON, Objective
from epsworth.pac.conversion import posterior
from epsworth.report import blocks, text
from epsworth.report.blocks import Block
from epsworth.report.charts import Axis, Chart, Line
from epsworth.report.page import Document, Page, Source, page
from epsworth.report.text import approx, count, epsilon_is, markup, name, names, printable, share_down, share_up
from epsworth.rounding import round_up, show_down, show_up

MOST_NOISES = 24  # in a list
MOST_NUMBERS, MOST_ROWS = 16, 200  # of a release: in the chart of its noise, and in tables
MOST_AUDITED, MOST_EXPOSED = 5, 50  # rows, of an audit and of a profile
QUANTILES = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)
SAME = 2e-6  # between two ways to a chance
MEMBER = {
    "what": "a certain record is among the data, all others being known,",
    "which": "whether a certain record is among the data",
}
QUESTION = {
    "within": "Within", "region": "Region", "answers": "Answers", "lattice": "Lattice", "offset": "Offset",
    "sensitivity": "Sensitivity", "delta": "δ", "releases": "Releases",
}  # fmt: skip
REGIONS = {"absolute": "within ± {} of the true one", "relative": "within a fraction {} of the true one"}
fast_posterior = lru_cache(maxsize=1024)(posterior)  # takes ten milliseconds, and there are a hundred on a page


# ---- noise


def noise_page(result: Document, source: Source) -> Page:
    """Return the page of a ranking: which noise is cheapest, what no noise can do, its shape."""
    rows = [{**row, "name": text.noise_name(row["name"])} for row in result["rows"]]
    left_out = {text.noise_name(noise): why for noise, why in result["left_out"].items()}
    ranked: list[Any] = [SimpleNamespace(**row) for row in rows]
    best, objective = taken(ranked), Objective.of(result["objective"])
    cost = "ε" if objective == EPSILON else str(objective)
    facts = () if best is None else (
        (show_up(best.cost), f"{cost}, for the whole data set and all releases", objective.name),
        (share_down(best.confidence), "probability that a release is as near as asked", "confidence"),
        (show_up(best.rmse, 4), "root mean squared error of a release", "rmse"),
    )  # fmt: skip
    sentence = advice(ranked, result["floor"], left_out, objective)
    epsilon, delta = (None, 0.0) if best is None else (best.epsilon, best.delta)
    decision = blocks.decision(sentence, facts, best is not None, epsilon=epsilon, delta=delta)
    sections = [decision, _ranking(result["floor"], rows, cost)]
    sections += [_shape(result["shape"], best)] if best is not None and result.get("shape") else []
    if best is not None and epsilon is not None:
        seen = f"All {best.releases:,} releases together" if best.releases > 1 else "The release"
        sections.append(blocks.meaning_of_epsilon(epsilon, delta, {**MEMBER, "seen": seen}))
    question, about = result.get("question") or {}, "A bound that answers must keep."
    if question:
        within = REGIONS.get(question["region"], "within {}")
        about = markup(
            f"Answers {within}, each with probability {{}} at least; one record moves an answer by at most {{}}.",
            name(question["within"]), share_down(question["confidence"]), show_up(question["sensitivity"]),
        )  # fmt: skip
    values = ((word, question.get(key)) for key, word in QUESTION.items())
    origin = [("Model", "central: the promise is for the whole data set")]
    origin += [(word, show_up(v) if isinstance(v, (int, float)) else v) for word, v in values if v is not None]
    return page(
        "Which noise costs the least privacy?", about, [*sections, _noise_limits(best, left_out)], source,
        origin=origin, holds="The result holds every row.",
    )  # fmt: skip


def _ranking(floor: float, noises: Sequence[Document], cost: str) -> Block:
    rows = noises[:MOST_NOISES]
    bars = [(printable(row["name"], 80), row["cost"], show_up(row["cost"]), row["sound"]) for row in rows]
    title = f"The {cost} for all releases together that each noise costs for the same accuracy, the cheapest first."
    caption = "Shorter is better: the same accuracy for less privacy."
    if floor > 0:
        title += f" Dashed: nothing below {show_down(floor)}."
        caption += (
            f" Dashed: no noise whose density falls to either side of zero costs less than {show_down(floor)}, whoever "
            "invents it (proven)."
        )
    if not all(row["sound"] for row in rows):
        caption += " Outlined, not filled: what the published accounting claims, which is no bound."
    if len(noises) > len(rows):
        caption += f" {len(noises) - len(rows)} more stand in the result."
    heads = ("noise", cost, "within, at least", "rms error", "above the floor", "pairs compared", "remark")
    cells = []
    for row in rows:
        exact = math.inf if row["sound"] or row["exact_epsilon"] is None else row["exact_epsilon"]
        cells.append([
            name(row["name"]), show_up(row["cost"]), share_down(row["confidence"]), show_up(row["rmse"], 4),
            above_floor(row["cost"], floor).replace(" %", f"{text.SPACE}%"),
            count(row["pairs"]), "–" if row["sound"] else f"no bound: in truth {show_up(exact)}",
        ])  # fmt: skip
    ranking, numbers = blocks.ranking(title, bars, floor), blocks.details("every noise", heads, cells)
    return blocks.section("ranking", "The noises, cheapest first", ranking, numbers, caption)


def _shape(shape: Document, best: Any) -> Block:
    (low, high), answer, noise = shape["within"], shape["answer"], text.noise_name(shape["name"])
    histogram = blocks.histogram(
        f"How likely a released value falls where, under {printable(noise)}.", "released value", shape["edges"],
        {noise: shape["chance"]}, "the chance of every bin", ("released value", "chance, about"), height=280,
        spans=[(low, high, f"within: {share_down(best.confidence)} or more")],
    )  # fmt: skip
    within = f"{approx(low)} to {approx(high)}"
    caption = f"{noise} around the true answer {approx(answer)}; shaded is where a release is asked to lie, {within}."
    return blocks.section("shape", "The shape of the noise", *histogram, caption)


def _noise_limits(best: Any, left_out: Mapping[str, str]) -> Block:
    sentences = [
        "Whoever holds the data sees every record as it is: the noise protects what leaves, not what is stored.",
        "The promise rests on the sensitivity: if one record can move an answer further, the ε is too small.",
    ]
    if best is not None and best.epsilon is not None:
        releases = f"all {best.releases:,} releases together" if best.releases > 1 else "one release"
        sentences.append(f"The ε is for {releases}; whatever else is released of the same data adds to it.")
        if best.delta > 0:
            sentences.append(text.SLACK.replace("δ", f"δ{text.SPACE}={text.SPACE}{show_up(best.delta)}"))
    if best is not None:
        sentences.append(
            "Noise drawn in floating point gives the answer away: release with a discrete noise (in Python by "
            "for_release), whose whole numbers come from the operating system's randomness."
        )
    return blocks.limits(text.NO_DATA, sentences, [f"left out, {noise}: {why}" for noise, why in left_out.items()])


# ---- a PAC release


def pac_page(result: Document, source: Source) -> Page:
    """Return the page of a release: what it tells, what an attacker can do with it, how much noise that took.

    It holds what was released, and functions of the pool that the promise admits: nothing of the secret sub-sample.
    """
    report, noise = result["report"], result.get("noise") or {}
    nats, even = report["mi_nats"], report["posterior_at_prior_0.5"]
    membership = share_up(report["posterior_of_membership"])
    sentence = (
        f"Whoever sees this release and guesses whether a row was used is right with probability {membership} at most; "
        f"blindly, {share_up(report['largest_record_prior'])} at best."
    )
    if report["mode"] == "estimated":
        sentence = f"By estimate, not proven: {sentence[0].lower()}{sentence[1:]}"
    facts = (
        (membership, "success at telling whether a row was used, at most", "membership"),
        (share_up(report["tpr_at_fpr_0.001"]), "of the used rows found at most, with 0.1 % false alarms", "sure"),
        (show_up(nats), "nats of mutual information at most", "nats"),
    )
    good = report["mode"] != "estimated" and report["posterior_of_membership"] < 1
    sections: list[Block | None] = [blocks.decision(sentence, facts, good), _attacks(report)]
    if fast_posterior(nats, 0.5) + SAME >= even:  # else earlier releases told more
        sections.append(blocks.meaning(
            lambda prior: even if prior == 0.5 else fast_posterior(nats, prior), "What the budget means", {},
            sentences=text.NATS,
        ))  # fmt: skip
    sections += [
        _numbers(result["release"], noise.get("numbers") or [], report),
        _budgets(noise.get("by_budget") or [], show_up(nats)),
        _audit(result["audit"]) if result.get("audit") else None,
        _pac_limits(result, report, noise),
    ]
    seed = "secret" if report["worlds_seed"] == "secret" else "given"
    origin = [
        ("Budget", printable(report["budget"].partition(" (MI ")[0])),
        ("Soundness", report["soundness"]),
        ("Worlds", f"{count(report['worlds'])}, from a {seed} seed"),
        ("Sub-sample", f"{share_down(report['rate'])} of {count(report['pool_rows'])} rows"),
        ("Noise", f"{printable(report['noise'])}, basis {printable(report['basis'])}"),
        ("Failed fits", count(report["failed_fits"])),
        *([("Columns", names(report["columns"]))] if report.get("columns") else []),
    ]
    about = markup(
        "{} on a secret sub-sample of {} rows: {} noisy numbers.",
        name(report["algorithm"]), count(report["pool_rows"]), count(report["released_numbers"]),
    )  # fmt: skip
    return page(
        "What does this release give away?", about, sections, source, origin=origin,
        holds="The result holds the released numbers and the report.",
    )  # fmt: skip


def _attacks(report: Document) -> Block:
    """Return what an attacker tries, and its success before and at most after."""
    blind, world = report["largest_record_prior"], "of_naming_the_world"
    attacks = [("was this row used?", blind, report["posterior_of_membership"])]
    if report.get(f"posterior_{world}") is not None:
        attacks.append(("which sub-sample was it?", report[f"prior_{world}"], report[f"posterior_{world}"]))
    attacks.append(("used rows found, with 0.1 % false alarms", 0.001, report["tpr_at_fpr_0.001"]))
    caption = "Success on average over sub-samples and noise; "
    caption += "an estimate." if report["mode"] == "estimated" else "no attack of any kind does better."
    if report.get("worst_record_upper_limit") is not None:
        attacks.append(("the most exposed row", blind, report["worst_record_upper_limit"]))
        caption += f" Of single rows: {share_down(report['worst_record_confidence'])} confidence."
    parts, rows = [], []
    for question, prior, most in attacks:
        rows.append([question, before := share_up(prior), after := share_up(most)])
        label = f"{question}: {before} before, at most {after} after"
        bars = blocks.bars(label, ((f"before: {before}", prior), (f"after: {after}", most)))
        parts += [blocks.paragraph(question, "what"), bars]
    numbers = blocks.details("success before and at most after", ("question", "blindly", "at most after"), rows)
    return blocks.section("ranking", "What an attacker can do", *parts, numbers, caption)


def _numbers(values: Document, noise: Sequence[Document], report: Document) -> Block:
    bars = [(printable(one["name"], 50), one["sd"], approx(one["sd"]), True) for one in noise[:MOST_NUMBERS]]
    label = "Standard deviation of the noise that each released number carries."
    heads = ["number", "released", *(["noise, about ±", "sub-sampling alone, about ±"] if noise else [])]
    rows = [
        [name(key), approx(value), *([approx(noise[i]["sd"]), approx(noise[i]["sd_of_worlds"])] if noise else [])]
        for i, (key, value) in enumerate(list(values.items())[:MOST_ROWS])
    ]
    caption = f"{len(values)} numbers, noise in {count(report['noised_directions'])} directions."
    caption += f" The first {MOST_NUMBERS} are drawn." if len(values) > MOST_NUMBERS else ""
    caption += f" The table holds the first {MOST_ROWS}; the result holds all." if len(values) > MOST_ROWS else ""
    caption += " On the unit scale of the declared ranges." if report.get("unit_scale") else ""
    ranking, numbers = blocks.ranking(label, bars), blocks.details("released numbers and their noise", heads, rows)
    return blocks.section("shape", "What was released, and its noise", ranking, numbers, caption)


def _budgets(entries: Sequence[Document], nats: str) -> Block | None:
    heads = ("nats", "row used? at most", "noise, about ±")
    rows = [
        [show_up(round_up(one["nats"], 6)), share_up(one["posterior_of_membership"]), approx(one["sd"])]
        for one in entries
    ]
    caption = (
        "The noise that other budgets would have taken on the same pool, root mean square; they were not released. "
        f"This release's is {nats} nats."
    )
    table = blocks.table("Table of the noise by budget", heads, rows)
    return blocks.section("budgets", "What less noise would cost", table, caption) if rows else None


def _audit(audit: Document) -> Block:
    upper, blind, tpr, rows = audit["upper"], audit["prior"], audit["tpr"], len(audit["upper"])
    order = sorted(range(rows), key=lambda row: -upper[row])
    cells = [
        [str(row), share_up(upper[row]), share_up(blind[row]), share_up(tpr[row]) if len(tpr) == rows else "–"]
        for row in order[:MOST_AUDITED]
    ]
    caption = (
        f"By simulation of the best attack on every row ({count(audit['draws'])} releases): at most "
        f"{share_up(audit['worst'])} for the most exposed one, row {order[0]}; all limits hold together with "
        f"{share_down(audit['confidence'])} confidence. The simulation puts what the release tells at "
        f"{approx(audit['mi'])} ± {approx(audit['mi_half_width'])} nats: an estimate beside the bound above."
    )
    heads = ("row", "success at most", "blindly", "found at most, with 0.1 % false alarms")
    table = blocks.table("the most exposed rows", heads, cells)
    return blocks.section("audit", "How exposed each row is", table, caption)


def _pac_limits(result: Document, report: Document, noise: Document) -> Block:
    if result.get("audit"):
        warning = "The exposure of single rows is computed from the whole pool and is not private:"
        audience = "leave the audit out of a page that goes with the release."
        return blocks.limits(audience, report["limits"], warning=warning)
    audience = "This page holds what was released"
    if noise:  # all of it a function of the plan
        parts = ["the scale of its noise", "the spread of sub-sampling alone"]
        parts += ["the noise that other budgets would have taken"] if noise.get("by_budget") else []
        audience += f", and of the pool {', '.join(parts[:-1])} and {parts[-1]}, which the promise admits"
    return blocks.limits(f"{audience}.", report["limits"])


# ---- exposure


def exposure_page(result: Document, source: Source) -> Page:
    """Return the page of a window of epsilons: which are worth trying, how exposed the rows are, any use or not."""
    trade = sorted(result.get("trade") or [], key=lambda point: point["epsilon"])
    sections = [
        _window(result, trade), _trade_off(result, trade) if trade else None, _rows(result), _useful(result, trade),
        _exposure_limits(result),
    ]  # fmt: skip
    origin = [
        ("Columns", names(result["columns"])),
        ("Rows", count(result["rows"])),
        ("Rule", name(result["rule"])),
        ("Counts as safe", f"advantage {show_up(result['wishes']['adv_safe'])}"),
        ("Counts as exposed", f"advantage {show_down(result['wishes']['adv_exposed'])}"),
        ("Candidate", epsilon_is(result["epsilon"], 4)),
    ]
    about = (
        f"{count(result['rows'])} training rows, {len(result['columns']):,} columns; logistic regression, output "
        "perturbation, pure ε per row."
    )
    return page(
        "Which ε is worth trying for this model?", about, sections, source, origin=origin,
        holds="The result holds the profile and what every ε costs.",
    )  # fmt: skip


def _window(result: Document, trade: Sequence[Document]) -> Block:
    window, epsilon = result.get("window"), epsilon_is(result["epsilon"], 4)
    ends = "none" if window is None else f"{show_up(window[0], 3)} – {show_down(window[1], 3)}"
    facts = [(ends, "ε worth trying, per row", "window")]
    for point in (point for point in trade if point["epsilon"] == result["epsilon"]):
        words = f"advantage (0 none, 1 certain) against the most exposed row at {epsilon}"
        facts.append((show_up(point["advantage_worst"], 3), words, "worst"))
        if point.get("accuracy") is not None:
            facts.append((share_down(point["accuracy"]), f"mean accuracy at {epsilon}", "accuracy"))
    base, start = result.get("base_accuracy"), result.get("eps_util")
    good = window is not None and result["rule"] == "advantage" and not useless(base, result.get("majority"))
    useful = base is None or (start is not None and window is not None and start <= window[1])
    return blocks.decision(result["verdict"], facts, good and useful)


def _trade_off(result: Document, trade: Sequence[Document]) -> Block:
    epsilons, has_accuracy = [point["epsilon"] for point in trade], "accuracy" in trade[0]
    start = epsilons.index(result["epsilon"]) if result["epsilon"] in epsilons else 0
    advantages = {"worst row": "advantage_worst", "95 % of the rows": "advantage_95", "median row": "advantage_median"}
    lines = {**advantages, "accuracy": "accuracy"} if has_accuracy else advantages
    spans, rules, window = [], [(result["wishes"]["adv_safe"], "counts as safe")], result.get("window")
    if window is not None and window[1] > epsilons[0]:
        word = "worth trying" if result["rule"] == "advantage" else "published plateau"
        spans.append((max(window[0], epsilons[0]), window[1], word))
    if has_accuracy:
        rules.insert(0, (result["majority"], "accuracy of the commoner label"))
    chart = Chart(
        "Advantage of the best attack on the training rows, and mean accuracy of the model, by ε per row.",
        Axis("ε per row", epsilons[0], epsilons[-1], log=True), Axis("advantage, accuracy", 0.0, 1.0),
        [Line(title, [(point["epsilon"], point[key]) for point in trade]) for title, key in lines.items()],
        spans=spans, rules=rules, cursor=epsilons[start], cursor_key="trade-cursor", height=340,
    )  # fmt: skip
    heads = ["ε per row", *advantages, "rows above what counts as safe", *(["accuracy"] if has_accuracy else [])]
    rows = [
        [
            show_up(point["epsilon"], 4), *(show_up(point[key], 3) for key in advantages.values()),
            share_up(point["rows_above_safe"]), *([share_down(point["accuracy"])] if has_accuracy else []),
        ]
        for point in trade
    ]  # fmt: skip
    return blocks.trade_off(
        "What every ε costs, and buys", "ε per row", epsilons, start, list(map(_cost, trade)), chart,
        blocks.details("what every ε costs", heads, rows),
        "Advantage: how much better than blindly the best attack tells whether a row was trained on; 0 is nothing, "
        "1 certainty. It is right with probability (1 + advantage) / 2.", digits=4,
    )  # fmt: skip


def _cost(point: Document) -> str:
    """Say what one epsilon means."""
    worst = point["advantage_worst"]
    sentences = (
        f"At {epsilon_is(point['epsilon'], 4)} the best attack on the most exposed row has an advantage of at most "
        f"{show_up(worst, 3)} (it is right with at most {share_up((1 + worst) / 2)}); against half of the rows at most "
        f"{show_up(point['advantage_median'], 3)}. {share_up(point['rows_above_safe'])} of the rows lie above what "
        "counts as safe."
    )
    if "accuracy" not in point:
        return sentences
    idle = ", not surely better than always answering the commoner label" if point["useless"] else ""
    return f"{sentences} The mean accuracy is {share_down(point['accuracy'])}{idle}."


def _rows(result: Document) -> Block:
    profile, epsilon = result["profile"], result["epsilon"]
    ranks, epsilons, advantages = profile["share_of_rows"], profile["epsilon_of_row"], profile["advantage"]
    chart = Chart(
        "Each training row's own ε, the most exposed first.",
        Axis("per cent of the rows, most exposed first", 0.0, 100.0), Axis("a row's own ε", 0.0, max(*epsilons, 1e-9)),
        [Line("own", [(100 * (1 - rank), e) for rank, e in zip(ranks, epsilons, strict=True)][::-1])],
        rules=[(epsilon, "promised to every row")] if epsilon <= 1.2 * max(epsilons) else [], height=280,
    )  # fmt: skip
    rows = []
    for quantile in QUANTILES:
        i = next(i for i, rank in enumerate(ranks) if rank >= quantile - 1e-12)
        words = "the most exposed" if quantile == 1 else f"{100 * quantile:g} % are at most"
        rows.append([words, show_up(epsilons[i], 3), show_up(advantages[i], 3)])
    worst = [
        [count(row["row"]), show_up(row["epsilon"], 3), show_up(row["advantage"], 3)]
        for row in result["most_exposed"][:MOST_EXPOSED]
    ]
    heads, caption = ("row", "own ε", "advantage"), "The most exposed rows, by number from 0"
    return blocks.section(
        "exposure", f"How exposed the rows are at {epsilon_is(epsilon, 4)}", chart,
        blocks.table("Table of the most exposed rows", heads, worst, "worst", caption=caption) if worst else None,
        blocks.details("own ε by share of the rows", ("rows", "own ε", "advantage"), rows),
        "A row that moves the model little is protected better than promised.",
    )  # fmt: skip


def _useful(result: Document, trade: Sequence[Document]) -> Block | None:
    points = [(point["epsilon"], point["kept_lower"]) for point in trade if point.get("kept_lower") is not None]
    if not points:
        return None
    caption = (
        f"Accuracy without noise {share_down(result['base_accuracy'])}, of always answering the commoner label "
        f"{share_down(result['majority'])}, on the training rows that were looked at. The noise decides whether a "
        "model keeps it: shown is a lower bound on the probability."
    )
    start, first, last = result.get("eps_util") or math.inf, points[0][0], points[-1][0]
    chart = Chart(
        "Share of all models that keep their accuracy, at least, by ε per row.",
        Axis("ε per row", first, last, log=True), Axis("of all models at least", 0.0, 1.0, percent=True),
        [Line("kept", points, "step")], height=280,
        spans=[(start, start, "accuracy is kept from here")] if first <= start <= last else [],
    )  # fmt: skip
    rows = [[show_up(epsilon, 4), share_down(share)] for epsilon, share in points]
    numbers = blocks.details("how surely accuracy is kept", ("ε per row", "probability at least"), rows)
    return blocks.section("useful", "Whether the model is any use", chart, numbers, caption)


def _exposure_limits(result: Document) -> Block:
    sentences = [
        "The ε is promised to every row by one training; a second one costs as much again.",
        "An ε that is chosen by looking at this page is a function of the data: choose it on stand-in data where that "
        "matters.",
        "A row's own ε is that of its presence among just these other rows; among others it may be larger, up to the "
        "promise.",
    ]
    if result["rule"] == "plateau":
        sentences.append("The published rule says where a ratio is flat; it is no protection.")
    audience = "the curves, the verdict and the rows listed tell about single rows. Do not publish it beside the model."
    return blocks.limits(audience, sentences, warning=text.NOT_PRIVATE.format("data"))
