"""The pages of a policy, and of one made for a classifier.

What it promises, sends and keeps, and what it cannot do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epsworth.guarantees import ceiling
from epsworth.policy.analysis import Released
from epsworth.policy.policy import Policy
from epsworth.policy.rules import Rule
from epsworth.report import blocks, text
from epsworth.report.blocks import Block
from epsworth.report.charts import Chart
from epsworth.report.page import MOST_POLICY, Document, Page, Source, page
from epsworth.report.text import approx, epsilon_is, markup, mechanism_name, name, names, printable, share_up
from epsworth.rounding import show_up
from epsworth.utility.curves import Curves
from epsworth.utility.tailored import Tailored
from epsworth.values import written

MOST_RULES, MOST_CHARTS = 60, 8  # features in the table, and with a chart
CELLS = 40  # of a chart of what is sent
SINGLE, COUNTED = 120, 1000  # values: so many have a cell each; of so many, cells hold equally many
LABELS = (2, 3, 4, 5, 10, 100)
VALUES = ("low", "middle", "high")
MOST_EPSILONS = 60  # in the table of a tailored policy


def policy_page(policy: Policy, source: Source, content: str) -> Page:
    """Return the page; ``content`` is the policy's file."""
    promise, fits, tailoring = policy.guarantee, len(content) <= MOST_POLICY, policy.tailoring
    together = tailoring and markup(
        "{}: released together, at {} for all of them. A client finds the region of its record by the copy of the "
        "classifier in the policy, draws one of {} regions at random, and sends values that stand for it. Single "
        "values mean nothing.",
        names(tailoring.names), epsilon_is(float(tailoring.epsilon)), f"{len(tailoring.labels):,}",
    )  # fmt: skip
    ceilings = [[str(labels), share_up(ceiling(promise.epsilon, labels, promise.delta))] for labels in LABELS]
    sentence = (
        "Where perturbed values decide between so many labels, every classifier, whatever it does with what is sent, "
        "gives some record its label at most so often."
    )
    sections = [
        _promise(policy),
        _rules(policy) if policy.rules else None,
        blocks.section("tailored", "Made for one classifier", blocks.paragraph(together)) if together else None,
        _releases(policy),
        blocks.meaning_of_epsilon(promise.epsilon, promise.delta, text.RECORD),
        blocks.section(
            "ceilings", "What no classifier can do", blocks.paragraph(sentence),
            blocks.table("Table of ceilings", ("labels", "kept at most"), ceilings),
        ),
        _policy_limits(policy),
    ]  # fmt: skip
    origin = [
        ("Policy", markup("fingerprint {}", text.code(policy.fingerprint))),
        ("Promise", str(promise)),
    ]
    more = f"The policy ({len(content):,} letters) is too large for a page; its fingerprint stands above."
    return page(
        "What does this policy promise?", markup("Perturbed: {}.", names(policy.names)), sections, source,
        origin=origin, holds="Every client holds the policy: it is no secret.", more="" if fits else more,
        policy=content if fits else "", whole=False,
    )  # fmt: skip


def _promise(policy: Policy) -> Block:
    promise, features = policy.guarantee, len(policy.names)
    slack = f", δ{text.SPACE}={text.SPACE}{show_up(promise.delta)}" if promise.delta else ""
    sample = f", of which {policy.released} at random are sent" if policy.sampling is not None else ""
    over = "its one perturbed feature" if features == 1 else f"all {features} perturbed features together"
    sentence = (
        f"One release of a record under this policy costs its person at most {epsilon_is(promise.epsilon)}{slack} for "
        f"{over}{sample}, whatever the values, whatever an attacker knows, and whatever is done with it afterwards."
    )
    facts = [
        (show_up(promise.epsilon), "ε per record, at most", "total"),
        (str(features), "perturbed features", "features"),
        (share_up(text.observed(promise.epsilon, promise.delta, 0.5)), text.CERTAINTY, "after"),
    ]
    return blocks.decision(sentence, facts, good=True, epsilon=promise.epsilon, delta=promise.delta)


def _rules(policy: Policy) -> Block:
    rows = []
    for rule in policy.rules[:MOST_RULES]:
        feature, replacements = rule.feature, list[str]()
        points = f", {feature.points:,} values" if feature.points else ""
        span = f"{feature.lower:,.9g} to {feature.upper:,.9g}{points}"
        if rule.missing is not None:
            replacements.append(markup("missing: {}", name(written(rule.missing), 30)))
        if rule.outside == "clamp":
            replacements.append("beyond the range: its end")
        elif rule.outside is not None:
            replacements.append(markup("undeclared: {}", name(rule.outside, 30)))
        rows.append([
            name(feature.name), span if feature.categories is None else names(feature.categories, 6, 30),
            name(mechanism_name(rule.mechanism)), rule.promise,
            f"{rule.points or rule.kernel.points:,}", markup("; ").join(replacements) or "–",
        ])  # fmt: skip
    heads = ("feature", "range or categories", "mechanism", "promise", "values that can be sent")
    rest = len(policy.rules) - MOST_RULES
    table = blocks.table("Table of the features", (*heads, "what else is read as"), rows)
    more = f"{rest} more features stand in the policy." if rest > 0 else None
    return blocks.section("rules", "Feature by feature", table, more, kind=" across")


def _releases(policy: Policy) -> Block | None:
    """Return what each rule sends for a low, a middle and a high value: charts, their numbers, and few shares."""
    if not policy.rules:
        return None
    figures, numbers = list[Any](), list[Block]()
    for rule in policy.rules[:MOST_CHARTS]:
        figure, *details = _of_number(rule) if rule.feature.categories is None else (_of_category(rule),)
        figures.append(figure)
        numbers += details
    caption = "How likely a released value falls where, computed from the integers that clients draw from."
    if len(policy.rules) > MOST_CHARTS:
        caption += f" The first {MOST_CHARTS} of {len(policy.rules)} features are drawn."
    charts = blocks.figures(*figures)
    return blocks.section("sent", "What is sent, by the true value", charts, *numbers, caption, kind=" across")


def _of_number(rule: Rule) -> tuple[Chart, Block]:
    feature, title, points = rule.feature, printable(rule.feature.name, 40), rule.points or rule.kernel.points
    share = np.linspace(0, 1, CELLS + 1)
    if points <= COUNTED:
        cuts = np.arange(0, points, 1 if points <= SINGLE else math.ceil(points / CELLS))
        share = (np.append(cuts, points) - 0.5) / (points - 1)
    single = np.linspace(feature.lower, feature.upper, points).tolist() if points <= SINGLE else []
    masses = Released.of(rule).law(np.array([0.0, 0.5, 1.0])).cell_masses(share)
    edges = (feature.lower + (feature.upper - feature.lower) * np.clip(share, 0, 1)).tolist()
    values = (feature.lower, (feature.lower + feature.upper) / 2, feature.upper)
    return blocks.histogram(
        f"How likely a released value of {title} falls where, by {printable(mechanism_name(rule.mechanism))}, for a "
        "low, a middle and a high true value.", title, edges, dict(zip(VALUES, masses.tolist(), strict=True)),
        f"what is sent of {title}", (f"released {title}", *(f"from {value:g}, about" for value in values)), height=250,
        parts=[f"{value:g}" for value in single],
    )  # fmt: skip


def _of_category(rule: Rule) -> Block:
    """Return no chart but a table: the true category, and every other one."""
    weights, categories = rule.kernel.weights(0), len(rule.feature.categories or ())
    shares = (("the true one", weights[0] / sum(weights)), ("each other one", weights[1] / sum(weights)))
    rows = [[word, f"{approx(100 * share)}{text.SPACE}%", blocks.bar(100 * share)] for word, share in shares]
    caption = markup("{}: one of {} categories is sent, about", name(rule.feature.name, 40), f"{categories:,}")
    label = f"Table of {printable(rule.feature.name, 40)}"
    return blocks.table(label, ("category", "chance", None), rows, "list", caption=caption)


def _policy_limits(policy: Policy) -> Block:
    passing = policy.passing.columns
    some = f"{', '.join(passing[:12])}{' and more' if len(passing) > 12 else ''}"
    what = "ranges" if policy.tailoring is None else "ranges and copy"
    sentences = [
        f"{f'Sent as they are: {some}' if passing else 'No other column is sent'}; a column that the policy does not "
        "name is refused; that a person takes part is seen, too.",
        f"{text.ONE_RELEASE} epsworth perturb counts them in a ledger, by person.",
        "The promise holds where clients run this very policy: compare its fingerprint, and ask where its "
        f"{what} came from.",
        "How often labels stay depends on the classifier: ask epsworth utility --policy.",
        *([text.SLACK] if policy.guarantee.delta else []),
        *([] if policy.tailoring is None else [f"{text.SURROGATE}."]),
    ]
    return blocks.limits("This page is computed from the policy alone, which every client holds.", sentences)


# ---- made for one classifier


def document_of(tailored: Tailored, curves: Curves | None = None) -> dict[str, Any]:
    """Return what --json writes, and pages hold: the numbers, and the policy itself where it is small enough."""
    content = tailored.policy.to_toml()
    policy = {"policy": content} if len(content) <= MOST_POLICY else {}
    return {"tailored": tailored.to_dict(), **policy, **({} if curves is None else {"curves": curves.to_dict()})}


def tailored_page(result: Document, source: Source) -> Page:
    """Return the page, with what clients run where the result holds it."""
    tailored, policy = result["tailored"], ""
    if "policy" in result:
        try:  # as it says itself, without what others wrote beside it
            policy = Policy.from_toml(result["policy"]).to_toml()
        except ValueError as error:
            raise ValueError(f"policy: {error}") from None
    sections = [
        _decision(tailored), _shares(tailored),
        _other_epsilons(Curves.from_dict(result["curves"])) if "curves" in result else None,
        blocks.meaning_of_epsilon(tailored["epsilon_per_record"], 0.0, text.RECORD), _tailored_limits(tailored),
    ]  # fmt: skip
    origin = [
        ("Policy", markup("fingerprint {}", text.code(tailored["policy"], 80))),
        ("Copy of the classifier", tailored["copied"]),
        ("Records held out", text.count(tailored["records"])),
        ("Bounds hold", text.certainty(tailored["confidence"])),
    ]
    more = "The policy is the file that --policy wrote: compare its fingerprint."
    return page(
        "What does this tailored policy keep?", markup("Released together: {}.", names(tailored["sensitive"])),
        sections, source, origin=origin, more="" if policy else more, policy=policy,
        holds=f"The result holds these numbers{' and the policy' if policy else ', and not the tables of the policy'}.",
    )  # fmt: skip


def _decision(tailored: Document) -> Block:
    epsilon, records = tailored["epsilon_per_record"], tailored["records"]
    facts = [
        (show_up(epsilon), "ε per record", "total"),
        (share_up(text.observed(epsilon, 0.0, 0.5)), text.CERTAINTY, "after"),
    ]
    if not records:
        unknown = "no record was held out, so how often labels stay is not known"
        return blocks.decision(f"This policy costs {epsilon_is(epsilon)} per record; {unknown}.", facts, good=False)
    kept = text.share_down(tailored["kept"])
    sentence = (
        f"At {epsilon_is(epsilon)} per record labels stay with probability {kept} on average over "
        f"{text.count(records)} held-out records; for people like those in the table at least "
        f"{text.share_down(tailored['held_out']['lower'])}, {text.certainty(tailored['confidence'])}."
    )
    facts.insert(1, (kept, "of the labels stay, on held-out records", "kept"))
    return blocks.decision(sentence, facts, good=True, epsilon=epsilon)


def _shares(tailored: Document) -> Block:
    shares = [("ceiling: what no mechanism exceeds for the worst input", tailored["ceiling"], share_up)]
    if tailored["records"]:
        shares = [
            ("labels kept, on held-out records", tailored["kept"], text.share_down),
            ("labels kept, where every label counts alike", tailored["balanced"], text.share_down),
            ("labels kept of people like those in the table, at least", tailored["held_out"]["lower"], text.share_down),
            ("labels kept of people like those in the table, at most", tailored["held_out"]["upper"], share_up),
            ("held-out records whose label the copy finds", tailored["agreement"], text.share_down),
            (
                "held-out records for which copy and classifier are proven to agree",
                tailored.get("certified"),
                text.share_down,
            ),
            ("records that send the same whatever their values are", tailored["constant"], share_up),
            *shares,
        ]
    rows = [[word, rounded(share), blocks.bar(100 * share)] for word, share, rounded in shares if share is not None]
    table = blocks.table("Table of what is kept", ("of all labels", "share", None), rows)
    return blocks.section("kept", "What it keeps", table, kind=" across")


def _other_epsilons(curves: Curves) -> Block:
    """Return how much is kept at other epsilons, by the same records."""
    bounds = (curves.average(), curves.worst())
    rows = [
        [show_up(curves.guarantees[0][e].epsilon)]
        + [f"{text.share_down(float(one.lower[0, e]))} to {share_up(float(one.upper[0, e]))}" for one in bounds]
        for e in range(0, len(curves.epsilons), max(1, len(curves.epsilons) // MOST_EPSILONS))
    ]
    table = blocks.table("Labels kept, by ε", ("ε per record", "on average", "the worst record"), rows)
    caption = f"What policies made alike keep of the same {len(curves.labels)} records, at other epsilons."
    return blocks.section("curves", "At other epsilons", table, caption, kind=" across")


def _tailored_limits(tailored: Document) -> Block:
    sentences = [
        "Columns that the policy lets pass are sent as they are, others not at all. That a person takes part is seen.",
        text.ONE_RELEASE,
        f"{text.SURROGATE} ({text.count(tailored['size'])} bytes).",
        "The ε covers neither what the model was fitted on nor the records that made the policy: these must be public.",
    ]
    source = "This page is computed from the records that made the policy, which were"
    if tailored.get("public") is True:
        return blocks.limits(f"{source} declared public.", sentences, tailored["notes"])
    audience = "page and policy tell about them, and about the model."
    return blocks.limits(audience, sentences, tailored["notes"], warning=f"{source} not declared public:")
