"""The page of a policy alone: what it promises, per record and feature, what it sends, and what no use of it can do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsworth.arrays import Floats
from epsworth.guarantees import ceiling
from epsworth.policy import Policy
from epsworth.policy.analysis import Released
from epsworth.policy.rules import Rule
from epsworth.reports.charts import Axis, Chart, Line
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import cleaned, escaped, isolated
from epsworth.reports.names import mechanism_name
from epsworth.reports.numbers import share_up
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
from epsworth.reports.plain import plain_page, size
from epsworth.reports.sentences import observed, protects
from epsworth.rounding import show_up
from epsworth.space import Feature

TITLE = "What does this policy promise?"
MOST_RULES = 60  # that are listed
MOST_DRAWN = 8  # features whose releases are drawn
CELLS = 40  # of a picture of what is sent
LABELS = (2, 3, 4, 5, 10, 100)
VALUES = ("low", "middle", "high")
HOLDS = "Every client holds the policy: it is no secret."


def policy_page(policy: Policy, origin: Origin, text: str) -> Page:
    """Return the page; ``text`` is the policy as it is written."""
    promise = policy.guarantee
    meaning, sliders = of_promise(
        promise.epsilon, promise.delta, what="your values are the ones they suspect",
        which="which of two records is yours", seen="one release of your record",
    )  # fmt: skip
    kept = text if len(text) <= MOST_POLICY else ""
    more = "" if kept else f"The policy ({len(text):,} letters) is too large for a page; its fingerprint stands above."
    sections = [
        _decision(policy), *([_rules(policy)] if policy.rules else []), *_tailored(policy), *_sent(policy), meaning,
        _ceilings(policy), _limits(policy), _computed(policy, origin),
        downloads(origin, "", HOLDS, more, POLICY if kept else "", large=False),
    ]  # fmt: skip
    names = ", ".join(isolated(name) for name in policy.names[:12]) + (" and more" if len(policy.names) > 12 else "")
    about = f"Perturbed: {names}."
    body = page_body(TITLE, about, sections, origin, keys(3))
    return plain_page(origin.title(TITLE), body, sliders, "", kept)


def _decision(policy: Policy) -> str:
    promise = policy.guarantee
    weak = f", δ\u00a0=\u00a0{show_up(promise.delta)}" if promise.delta else ""
    count = len(policy.names)
    sampled = f", of which {policy.released} at random are sent" if policy.sampling is not None else ""
    over = "its one perturbed feature" if count == 1 else f"all {count} perturbed features together"
    sentence = (
        f"One release of a record under this policy costs its person at most ε\u00a0=\u00a0{show_up(promise.epsilon)}"
        f"{weak} for {over}{sampled}, "
        "whatever the values, whatever an attacker knows, and whatever is done with it afterwards."
    )
    after = share_up(observed(promise.epsilon, promise.delta, 0.5))
    told = [
        (show_up(promise.epsilon), "ε per record, at most", "total"),
        (str(count), "perturbed features", "features"),
    ]
    told.append((after, "an attacker's certainty at most, from 50 %", "after"))
    return decision(sentence, told, good=protects(promise.epsilon, promise.delta))


def _rules(policy: Policy) -> str:
    rows = "".join(
        f'<tr><th scope="row">{isolated(rule.feature.name)}</th><td>{_range(rule.feature)}</td>'
        f"<td>{isolated(mechanism_name(rule.mechanism))}</td><td>{escaped(rule.promise, 120)}</td>"
        f"<td>{rule.points or rule.kernel.points:,}</td><td>{_stand_ins(rule)}</td></tr>"
        for rule in policy.rules[:MOST_RULES]
    )
    heads = ("feature", "range or categories", "mechanism", "promise", "values that can be sent", "else")
    told = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rest = len(policy.rules) - MOST_RULES
    more = f'<p class="caption">{rest} more features stand in the policy.</p>' if rest > 0 else ""
    return section(
        "rules", "Feature by feature",
        '<div class="wide" role="region" tabindex="0" aria-label="Table of the features"><table class="data list">'
        f"<thead><tr>{told}</tr></thead><tbody>{rows}</tbody></table></div>{more}", " across",
    )  # fmt: skip


def _range(feature: Feature) -> str:
    if feature.categories is None:
        points = f", {feature.points:,} values" if feature.points else ""
        return f"{feature.lower:g} to {feature.upper:g}{points}"
    shown = ", ".join(isolated(value, 30) for value in feature.categories[:6])
    more = len(feature.categories) - 6
    return shown + (f" and {more:,} more" if more > 0 else "")


def _stand_ins(rule: Rule) -> str:
    said = []
    if rule.missing is not None:
        said.append(f"missing: {isolated(rule.missing, 30)}")
    if rule.outside is not None:
        said.append(
            "beyond the range: its end" if rule.outside == "clamp" else f"undeclared: {isolated(rule.outside, 30)}"
        )
    return "; ".join(said) or "–"


def _tailored(policy: Policy) -> list[str]:
    if policy.tailoring is None:
        return []
    tailoring = policy.tailoring
    names = ", ".join(isolated(name) for name in tailoring.names[:12])
    told = (
        f"<p>{names}: released together, at ε = {show_up(float(tailoring.epsilon))} for all of them. A client finds "
        f"the region of its record by the copy of the classifier in the policy, draws one of {len(tailoring.labels):,} "
        "regions at random, and sends values that stand for it. Single values mean nothing.</p>"
    )
    return [section("tailored", "Made for one classifier", told)]


def _sent(policy: Policy) -> list[str]:
    """Return what each rule sends for a low, a middle and a high value."""
    drawn = [_released(rule, number) for number, rule in enumerate(policy.rules[:MOST_DRAWN])]
    if not drawn:
        return []
    rest = len(policy.rules) - MOST_DRAWN
    more = f" The first {MOST_DRAWN} of {len(policy.rules)} features are drawn." if rest > 0 else ""
    told = f"How likely a released value falls where, computed from the integers that clients draw from.{more}"
    what = f'<div class="panels">{"".join(chart for chart, _ in drawn)}</div>{"".join(table for _, table in drawn)}'
    return [section("sent", "What is sent, by the true value", f'{what}<p class="caption">{told}</p>', " across")]


def _released(rule: Rule, number: int) -> tuple[str, str]:
    feature, law = rule.feature, Released.of(rule).law(np.array([0.0, 0.5, 1.0]))
    name = cleaned(feature.name, 40)
    if feature.categories is not None:
        return _of_categories(rule, number)
    points = rule.points or rule.kernel.points
    unit = _edges(points)
    masses = law.cell_masses(unit)
    edges = feature.lower + (feature.upper - feature.lower) * np.clip(unit, 0, 1)
    lines = [
        Line(word, [*zip(edges.tolist(), [*row, row[-1]], strict=True)], "step")
        for word, row in zip(VALUES, masses.tolist(), strict=True)
    ]
    own = [feature.lower, (feature.lower + feature.upper) / 2, feature.upper]
    most = max(float(masses.max()), 1e-12)
    chart = Chart(
        f"How likely a released value of {name} falls where, by {cleaned(mechanism_name(rule.mechanism))}, for a low, "
        "a middle and a high true value.",
        Axis(name, feature.lower, feature.upper), Axis("chance", 0.0, 1.05 * most, percent=True), lines,
        height=250, base=204,
    )  # fmt: skip
    heads = (f"released {escaped(name)}", *(f"from {value:g}, about" for value in own))
    rows = (
        [f"{size(a)} to {size(b)}", *(f"{size(100 * share)}\u00a0%" for share in shares)]
        for a, b, shares in zip(edges, edges[1:], masses.T.tolist(), strict=False)
    )
    return chart.svg(), unfolded(f"what is sent of {name}", heads, rows)


def _edges(points: int) -> Floats:
    """Return the cells of a picture: one for each value where these are few, else of equal width."""
    if points <= CELLS:
        return (np.arange(points + 1) - 0.5) / (points - 1)
    return np.linspace(0, 1, CELLS + 1)


def _of_categories(rule: Rule, number: int) -> tuple[str, str]:
    """Return no chart but a table: the true category, and every other one."""
    categories: Sequence[object] = rule.feature.categories or ()
    weights = rule.kernel.weights(0)
    stays, other = (weights[i] / sum(weights) for i in (0, 1))
    name = isolated(rule.feature.name, 40)
    rows = "".join(
        f'<tr><th scope="row">{word}</th><td>{size(100 * share)}\u00a0%</td><td>{bar(100 * share)}</td></tr>'
        for word, share in (("the true one", stays), ("each other one", other))
    )
    table = (
        f'<div class="panel"><table class="list"><caption>{name}: one of {len(categories):,} categories is sent, '
        'about</caption><thead><tr><th scope="col">category</th><th scope="col">chance</th><th scope="col">'
        f'<span class="hidden">as a bar</span></th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return table, ""


def _ceilings(policy: Policy) -> str:
    promise = policy.guarantee
    rows = "".join(
        f'<tr><th scope="row">{count}</th><td>{share_up(ceiling(promise.epsilon, count, promise.delta))}</td></tr>'
        for count in LABELS
    )
    return section(
        "ceilings", "What no classifier can do",
        "<p>If a record's perturbed values can lead to so many different labels, then for at least one of them any "
        "classifier, whatever it does with what is sent, gives that label at most so often.</p>"
        '<table class="data list"><thead><tr><th scope="col">labels</th><th scope="col">kept at most</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>",
    )  # fmt: skip


def _limits(policy: Policy) -> str:
    said = [
        _passing(policy),
        "The ε is for one release of a record: two releases cost twice as much. Clients can keep a ledger.",
        "The promise holds where clients run this very policy: compare its fingerprint.",
        "How often labels stay depends on the classifier: ask epsworth utility --policy.",
    ]
    if policy.guarantee.delta:
        said.append("With probability δ a release may show more than its ε says.")
    if policy.tailoring is not None:
        said.append("Whoever holds this policy holds a copy of the classifier, or most of it.")
    raw = "This page holds no data: it is computed from the policy alone, which every client holds."
    return limits(raw, said, [], "open")


def _passing(policy: Policy) -> str:
    seen = "that a person takes part is seen, too."
    names = ", ".join(isolated(name) for name in policy.passing.columns[:12])
    more = " and more" if len(policy.passing.columns) > 12 else ""
    passed = f"{names}{more} are sent as they are" if names else "No other column is sent"
    return f"{passed}; a column that the policy does not name is refused; {seen}"


def _computed(policy: Policy, origin: Origin) -> str:
    told = [
        ("Policy", f'fingerprint <code class="print">{policy.fingerprint}</code>'),
        ("Promise", escaped(str(policy.guarantee), 200)),
        ("Stated ε per record", escaped(policy.total, 60)),
    ]
    return computed(told, origin)
