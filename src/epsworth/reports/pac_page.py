"""The PAC page: what a release tells, what an adversary can do with it, and how much noise that took.

It holds what was released, and functions of the pool that the promise admits: nothing of the secret sub-sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from epsworth.pac.conversion import posterior
from epsworth.reports.charts import Axis, Bar, Chart, Line, bar_chart
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import LONGEST, cleaned, escaped, isolated
from epsworth.reports.held import Held
from epsworth.reports.numbers import share_down, share_up
from epsworth.reports.observing import of_chances
from epsworth.reports.page import Page
from epsworth.reports.parts import Origin, bars, computed, decision, downloads, limits, page_body, section, unfolded
from epsworth.reports.plain import plain_page, size
from epsworth.rounding import round_up, show_up

TITLE = "What does this release give away?"
MOST_NUMBERS = 16  # in the picture of the noise
MOST_ROWS = 200  # in tables
MOST_EXPOSED = 5
SAME = 2e-6
NATS = 6  # decimals of them, as in the report
TEXTS = (
    "Any question about the secret sub-sample that is answered rightly with probability {prior} blindly is answered "
    "rightly with at most {after} after seeing the release.",
    "Any question about the secret sub-sample that is answered rightly with probability {prior} blindly may be "
    "answered with certainty after seeing the release: the nats alone promise nothing there.",
)


@lru_cache(maxsize=1024)  # exact conversions take ten milliseconds, and there are a hundred on a page
def _after(told: float, prior: float) -> float:
    return posterior(told, prior)


def pac_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page of a release."""
    report, sliders = held.part("report"), dict[str, Any]()
    sections = [_decision(report), _success(report)]
    told = report.number("mi_nats", 0)
    even = report.share("posterior_at_prior_0.5")
    if _after(told, 0.5) + SAME >= even:  # else earlier releases told more
        meaning, sliders = of_chances(
            lambda prior: even if prior == 0.5 else _after(told, prior), "What the budget means", TEXTS, {}
        )
        sections.append(meaning)
    sections.append(_released(held, report))
    if "noise" in held and "by_budget" in held.part("noise"):
        sections.append(_budgets(held.part("noise").parts("by_budget"), told))
    if "audit" in held:
        sections.append(_audit(held.part("audit")))
    sections += [_limits(held, report), _computed(report, origin)]
    sections.append(downloads(origin, whole, "The result holds the released numbers and the report."))
    about = (
        f"{isolated(report.text('algorithm'))} on a secret sub-sample of {report.whole('pool_rows'):,} rows: "
        f"{report.whole('released_numbers'):,} noisy numbers."
    )
    return plain_page(origin.title(TITLE), page_body(TITLE, about, sections, origin, keys(2)), sliders, whole)


def _decision(report: Held) -> str:
    told, found = report.number("mi_nats", 0), share_up(report.share("posterior_of_membership"))
    sentence = (
        f"This release tells at most {show_up(told)} nats: whoever guesses blindly whether a row was used is right "
        f"with probability {share_up(report.share('largest_record_prior'))} at best, and after seeing the release with "
        f"at most {found} ({report.text('soundness')})."
    )
    facts = (
        (show_up(told), "nats of mutual information at most", "nats"),
        (found, "success at telling whether a row was used, at most", "membership"),
        (share_up(report.share("tpr_at_fpr_0.001")), "of the used rows found for sure, at most", "sure"),
    )
    return decision(
        sentence, facts, good=report.text("mode") != "estimated" and report.share("posterior_of_membership") < 1
    )


def _attacks(report: Held) -> list[tuple[str, float, float]]:
    """Return what an adversary tries, and its success before and at most after."""
    blind = report.share("largest_record_prior")
    found = [("was this row used?", blind, report.share("posterior_of_membership"))]
    if "posterior_of_naming_the_world" in report:
        before, after = (report.share(f"{when}_of_naming_the_world") for when in ("prior", "posterior"))
        found.append(("which sub-sample was it?", before, after))
    found.append(("a sure find, 0.1 % false alarms", 0.001, report.share("tpr_at_fpr_0.001")))
    if "worst_record_upper_limit" in report:
        found.append(("the most exposed row", blind, report.share("worst_record_upper_limit")))
    return found


def _success(report: Held) -> str:
    attacks = _attacks(report)
    drawn = "".join(
        f'<p class="what">{escaped(name)}</p><div class="bars" role="img" aria-label="{escaped(name)}: '
        f'{share_up(before)} before, at most {share_up(after)} after">'
        + bars((100 * before, 100 * after), (f"before: {share_up(before)}", f"after: {share_up(after)}"), f"attack{i}")
        + "</div>"
        for i, (name, before, after) in enumerate(attacks)
    )
    rows = ([escaped(name), share_up(before), share_up(after)] for name, before, after in attacks)
    table = unfolded("success before and at most after", ("question", "blindly", "at most after"), rows)
    told = "Success on average over sub-samples and noise; no attack of any kind does better."
    if "worst_record_upper_limit" in report:
        told += f" Of single rows: {share_down(report.share('worst_record_confidence'))} confidence."
    return section("ranking", "What an adversary can do", f'{drawn}{table}<p class="caption">{told}</p>')


def _released(held: Held, report: Held) -> str:
    values = held.part("release")
    names = list(values)
    numbers = held.part("noise").parts("numbers") if "noise" in held else []
    shown, drawn = numbers[:MOST_NUMBERS], ""
    if shown:
        chart = [Bar(one.text("name"), one.number("sd", 0), size(one.number("sd"))) for one in shown]
        title = "standard deviation of the noise"
        drawn = bar_chart("Standard deviation of the noise that each released number carries.", title, chart)
    heads = ["number", "released"] + (["noise, about ±", "sub-sampling alone, about ±"] if numbers else [])
    rows = []
    for i, name in enumerate(names[:MOST_ROWS]):
        extra = [size(numbers[i].number("sd", 0)), size(numbers[i].number("sd_of_worlds", 0))] if numbers else []
        rows.append([isolated(name), size(values.number(name)), *extra])
    told = [f"{len(names)} numbers, noise in {report.whole('noised_directions')} directions."]
    if len(names) > MOST_NUMBERS:
        told.append(f"The first {MOST_NUMBERS} are drawn.")
    if len(names) > MOST_ROWS:
        told.append(f"The table holds the first {MOST_ROWS}; the result holds all.")
    if "unit_scale" in report and report.flag("unit_scale"):
        told.append("On the unit scale of the declared ranges.")
    what = (
        f'<div class="panels">{drawn}</div>{unfolded("released numbers and their noise", heads, rows)}'
        f'<p class="caption">{" ".join(told)}</p>'
    )
    return section("shape", "What was released, and its noise", what)


def _budgets(entries: Sequence[Held], told: float) -> str:
    points = sorted((one.number("nats", 0), one.number("sd", 0)) for one in entries)
    kept = [(nats, sd) for nats, sd in points if nats > 0 and sd > 0]
    if len(kept) < 2:
        return ""
    (first, most), (last, least) = kept[0], kept[-1]
    chart = Chart(
        "Noise that a release takes, by the nats that it may tell.",
        Axis("nats that a release may tell", first, last, log=True),
        Axis("noise, root mean square", 0.9 * least, 1.1 * most, log=True), [Line("noise", kept)],
        posts=[(told, "this release")], height=280, base=234,
    )  # fmt: skip
    rows = (
        [
            show_up(round_up(one.number("nats"), NATS)),
            share_up(one.share("posterior_of_membership")),
            size(one.number("sd")),
        ]
        for one in entries
    )
    heads = "nats", "was this row used? at most", "noise, root mean square, about"
    caption = "The noise that other budgets would have taken on the same pool; they were not released."
    what = f'<div class="panels">{chart.svg()}</div>{unfolded("noise by budget", heads, rows)}'
    return section("budgets", "What accuracy costs", f'{what}<p class="caption">{caption}</p>')


def _audit(audit: Held) -> str:
    upper, blind = audit.numbers("upper", 0, 1), audit.numbers("prior", 0, 1)
    if not upper or len(upper) != len(blind):
        raise ValueError("audit: damaged or incomplete (not one limit per row)")
    order = sorted(range(len(upper)), key=lambda row: -upper[row])
    count = len(upper)
    at = sorted({round(i * (count - 1) / 199) for i in range(200)}) if count > 200 else list(range(count))
    points = [(100 * (i + 1) / count, upper[order[i]]) for i in at]
    guessed = [(100 * (i + 1) / count, blind[order[i]]) for i in at]
    low, high = min(*blind, *upper), max(*blind, *upper)
    room = max(0.01, 0.15 * (high - low))
    chart = Chart(
        "How often the best attack is right about a row, at most, the most exposed rows first.",
        Axis("per cent of the rows, most exposed first", 0.0, 100.0),
        Axis("success", max(0.0, low - room), min(1.0, high + room), percent=True),
        [Line("upper limit", points), Line("blindly", guessed)], height=280, base=234,
    )  # fmt: skip
    tpr = audit.numbers("tpr", 0, 1)
    worst = order[:MOST_EXPOSED]
    rows = (
        [str(row), share_up(upper[row]), share_up(blind[row]), share_up(tpr[row]) if len(tpr) == count else "–"]
        for row in worst
    )
    table = unfolded("the most exposed rows", ("row", "success at most", "blindly", "found for sure, at most"), rows)
    told = (
        f"By simulation of the best attack on every row ({audit.whole('draws'):,} releases): at most "
        f"{share_up(audit.share('worst'))} for the most exposed one, row {order[0]}; all limits hold together with "
        f"{share_down(audit.share('confidence'))} confidence. The release tells about "
        f"{size(audit.number('mi'))} ± {size(audit.number('mi_half_width', 0))} nats in truth (an estimate)."
    )
    what = f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">{told}</p>'
    return section("audit", "How exposed each row is", what)


def _limits(held: Held, report: Held) -> str:
    said = [escaped(one, 1000) for one in report.texts("limits")]
    if "audit" in held:
        raw = (
            "<strong>The exposure of single rows is computed from the whole pool and is not private:</strong> make the "
            "page without --audit where it goes with the release."
        )
        return limits(raw, said, ())
    raw = f"This page holds what was released{_of_the_pool(held)}."
    return limits(raw, said, (), "open")


def _of_the_pool(held: Held) -> str:
    """Name what the page tells of the pool beside the release: all of it a function of the plan."""
    if "noise" not in held:
        return ""
    known = ["the scale of its noise", "the spread of sub-sampling alone"]
    known += ["the noise that other budgets would have taken"] if "by_budget" in held.part("noise") else []
    return f", and of the pool {', '.join(known[:-1])} and {known[-1]}, which the promise admits"


def _computed(report: Held, origin: Origin) -> str:
    seed = report.raw("worlds_seed")
    told = [
        ("Budget", escaped(report.text("budget").partition(" (MI ")[0], LONGEST)),
        ("Soundness", escaped(report.text("soundness"), 200)),
        ("Worlds", f"{report.whole('worlds'):,}, from a {'secret' if seed == 'secret' else 'given'} seed"),
        ("Sub-sample", f"{share_down(report.share('rate'))} of {report.whole('pool_rows'):,} rows"),
        ("Noise", f"{escaped(report.text('noise'))}, basis {escaped(report.text('basis'))}"),
        ("Failed fits", f"{report.whole('failed_fits'):,}"),
    ]
    if "columns" in report:
        columns = report.texts("columns")
        more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
        told.append(("Columns", ", ".join(isolated(cleaned(one)) for one in columns[:12]) + more))
    return computed(told, origin)
