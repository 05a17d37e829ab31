"""The page of a tailored policy: what it keeps of records that built nothing, and what no mechanism could."""

from __future__ import annotations

from typing import Any

from epsworth.policy.policy import Policy
from epsworth.reports.charts import Axis, Chart, Line
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import escaped, isolated
from epsworth.reports.held import Held
from epsworth.reports.numbers import share_down, share_up
from epsworth.reports.observing import of_promise
from epsworth.reports.page import Page
from epsworth.reports.parts import (
    MOST_POLICY,
    POLICY,
    Origin,
    bar,
    computed,
    decision,
    downloads,
    limits,
    page_body,
    section,
    unfolded,
)
from epsworth.reports.plain import plain_page
from epsworth.reports.sentences import observed, protects
from epsworth.results import how_sure
from epsworth.rounding import show_up
from epsworth.utility.curves import Curves
from epsworth.utility.tailored import Tailored

MOST_EPSILONS = 60
TITLE = "What does this tailored policy keep?"


def document_of(made: Tailored, curves: Curves | None = None) -> dict[str, Any]:
    """Return what --json writes, and pages hold: the numbers, and the policy itself where it is small enough."""
    text = made.policy.to_toml()
    return (
        {"tailored": made.to_dict()}
        | ({"policy": text} if len(text) <= MOST_POLICY else {})
        | ({} if curves is None else {"curves": curves.to_dict()})
    )


def tailored_page(held: Held, origin: Origin, whole: str) -> Page:
    """Return the page, with what clients run where the result holds it."""
    made = held.part("tailored")
    epsilon = made.number("epsilon_per_record", 0)
    if epsilon == 0:
        raise ValueError("epsilon_per_record: damaged, no policy keeps an epsilon of 0; build the policy again")
    policy = _policy(held, made)
    meaning, sliders = of_promise(
        epsilon, 0.0, what="your values are the ones they suspect", which="", seen="one release of your record"
    )
    curves = _curves(held)
    sections = [_decision(made), _kept(made), *([] if curves is None else [_drawn(curves)]), meaning]
    sections += [_limits(made), _computed(made, origin), _downloads(made, origin, whole, policy)]
    names = made.texts("sensitive")
    told = ", ".join(isolated(name) for name in names[:12]) + (" and more" if len(names) > 12 else "")
    about = f"Released together: {told}."
    return plain_page(origin.title(TITLE), page_body(TITLE, about, sections, origin, keys(2)), sliders, whole, policy)


def _policy(held: Held, made: Held) -> str:
    """Return the policy's text, or nothing."""
    if "policy" not in held:
        return ""
    try:
        policy = Policy.from_toml(held.text("policy"))
    except ValueError as error:
        raise ValueError(f"policy: {error}") from None
    return policy.to_toml()  # as it says itself, without what others wrote beside it


def _decision(made: Held) -> str:
    total = show_up(made.number("epsilon_per_record", 0))
    after = share_up(observed(made.number("epsilon_per_record"), 0.0, 0.5))
    facts = [(total, "ε per record", "total"), (after, "an attacker's certainty at most, from 50 %", "after")]
    if not made.whole("records"):
        sentence = (
            f"This policy costs ε\u00a0=\u00a0{total} per record; no record was held out, so how often labels stay is "
            "not known."
        )
        return decision(sentence, facts, good=False)
    kept, low = share_down(made.share("kept")), made.part("held_out").share("lower")
    sentence = (
        f"At ε\u00a0=\u00a0{total} per record labels stay with probability {kept} on average over "
        f"{made.whole('records')} records that built nothing; for people like those in the table at least "
        f"{share_down(low)}, {_how_sure(made)}."
    )
    facts.insert(1, (kept, "of the labels stay, on held-out records", "kept"))
    return decision(sentence, facts, good=protects(made.number("epsilon_per_record")))


def _how_sure(made: Held) -> str:
    return how_sure(made.share("confidence")).replace(" %", "\u00a0%")


def _kept(made: Held) -> str:
    """Return what is measured, each with a bar."""
    within = made.part("held_out") if made.whole("records") else None
    rows: list[tuple[str, str, float]] = []
    if within is not None:
        low, high = within.share("lower"), within.share("upper")
        rows += [
            ("labels kept, on held-out records", share_down(made.share("kept")), made.share("kept")),
            ("the same, every label counting alike", share_down(made.share("balanced")), made.share("balanced")),
            ("for people like those in the table, at least", share_down(low), low),
            ("for people like those in the table, at most", share_up(high), high),
            ("the copy agrees with the classifier", share_down(made.share("agreement")), made.share("agreement")),
        ]
        if "certified" in made:
            proven = made.share("certified")
            rows.append(("for so many that is proven, for all that can be sent", share_down(proven), proven))
        rows.append(
            (
                "send the same whatever their values are",
                share_up(made.share("constant")),
                made.share("constant"),
            )
        )
    rows.append(("ceiling: what no mechanism exceeds for the worst input", share_up(made.share("ceiling")), made.share("ceiling")))  # noqa: E501  # fmt: skip
    body = "".join(f'<tr><th scope="row">{name}</th><td>{text}</td><td>{bar(100 * share)}</td></tr>' for name, text, share in rows)  # noqa: E501  # fmt: skip
    return section(
        "kept", "What it keeps",
        '<div class="wide" role="region" tabindex="0" aria-label="Table of what is kept"><table class="data list">'
        '<thead><tr><th scope="col">of all labels</th><th scope="col">share</th><th scope="col">'
        f'<span class="hidden">as a bar</span></th></tr></thead><tbody>{body}</tbody></table></div>', " across",
    )  # fmt: skip


def _curves(held: Held) -> Curves | None:
    return Curves.from_dict(held.raw("curves")) if "curves" in held else None


def _drawn(curves: Curves) -> str:
    """Return how much is kept at other epsilons, by the same records."""
    at = range(0, len(curves.epsilons), max(1, len(curves.epsilons) // MOST_EPSILONS))
    kinds = (("average", curves.average()), ("worst record", curves.worst()))
    totals = [curves.guarantees[0][e].epsilon for e in at]
    lines = [
        Line(name, [(total, float(found.lower[0, e])) for total, e in zip(totals, at, strict=True)])
        for name, found in kinds
    ]
    if lines[0].points == lines[1].points:  # nobody keeps less than others
        lines = lines[:1]
    chart = Chart(
        "How often labels stay, at least, by ε per record, on average over the held-out records and for the worst one.",
        Axis("ε per record", totals[0], totals[-1]), Axis("kept, at least", 0.0, 1.0, percent=True), lines,
    )  # fmt: skip
    rows = (
        [show_up(total), *(f"{share_down(float(found.lower[0, e]))} to {share_up(float(found.upper[0, e]))}" for _, found in kinds)]  # noqa: E501
        for total, e in zip(totals, at, strict=True)
    )  # fmt: skip
    table = unfolded("labels kept, by ε", ("ε per record", "on average", "the worst record"), rows)
    told = f"What policies made alike keep of the same {len(curves.labels)} records, at other epsilons."
    return section(
        "curves", "At other epsilons",
        f'<div class="panels">{chart.svg()}</div>{table}<p class="caption">{told}</p>', " across",
    )  # fmt: skip


def _limits(made: Held) -> str:
    said = [
        "Every column that is not named above is sent as it is; that a person takes part is seen, too.",
        "The ε is for one release of a record: two releases cost twice as much.",
        f"Whoever holds the policy holds a copy of the classifier, or most of it ({made.whole('size'):,} bytes).",
        "The ε covers neither what the model was fitted on nor the records that made the policy: these must be public.",
    ]
    if "public" in made and made.flag("public"):
        raw = "This page is computed from the records that made the policy, which were declared public."
        return limits(raw, said, made.texts("notes"), "open")
    raw = (
        "<strong>This page is computed from the records that made the policy, which were not declared public:</strong> "
        "page and policy tell about them, and about the model."
    )
    return limits(raw, said, made.texts("notes"))


def _computed(made: Held, origin: Origin) -> str:
    told = [
        ("Policy", f'fingerprint <code class="print">{escaped(made.text("policy"), 80)}</code>'),
        ("Copy of the classifier", escaped(made.text("copied"), 60)),
        ("Records held out", f"{made.whole('records'):,}"),
        ("Bounds hold", _how_sure(made)),
    ]
    return computed(told, origin)


def _downloads(made: Held, origin: Origin, whole: str, policy: str) -> str:
    if policy:
        return downloads(origin, whole, "The result holds these numbers and the policy.", "", POLICY)
    holds = "The result holds these numbers, and not the policy's tables."
    told = "The policy is the file that --policy wrote: compare its fingerprint."
    return downloads(origin, whole, holds, told)
