"""The utility page: what to choose, what it keeps, what it protects, who is served worst, and what is not protected."""

from __future__ import annotations

from collections.abc import Sequence

from epsworth.policy import Policy
from epsworth.reports.around import Around, groups, sections, split_untaken
from epsworth.reports.drawn import keys
from epsworth.reports.escaping import NOTE, cleaned, escaped, isolated
from epsworth.reports.figure import figure, frame_of
from epsworth.reports.names import mechanism_name
from epsworth.reports.numbers import SUBJECTS, Shown, View, share_up
from epsworth.reports.page import Page, framed
from epsworth.reports.parts import (
    POLICY,
    Origin,
    bars,
    computed,
    decision,
    downloads,
    limits,
    page_body,
    section,
    slider,
    unfolded,
)
from epsworth.reports.sentences import WORDS, Standing, observed, observer, percent
from epsworth.reports.tables import data, limited, now, records
from epsworth.results import how_sure
from epsworth.rounding import show_down, show_up
from epsworth.space import Domain
from epsworth.utility.surroundings import Surroundings

SCRIPTS = ("rounding.js", "choosing.js", "around.js", "saving.js", "utility.js")
MOST_NAMES = 12  # features that are named
PRIORS = (1, 10, 50, 90)  # per cent, in the table of what an epsilon means
PRIOR = 50
STOPS = 24  # of one delta in that table, about
MOST_POINTS = 120


def utility_page(shown: Shown, origin: Origin, whole: str, held: Surroundings | None = None) -> Page:
    """Return the page; ``whole`` is the result itself, packed, or nothing where it is too large."""
    around = None if held is None else Around(shown, held)
    standing, policy = Standing.of(shown), _policy(shown, held)
    numbers = shown.numbers | {
        "words": WORDS | {"sure": _sure(shown), "most": show_down(shown.found.max_epsilon)},
        "frames": [frame_of(shown, view).to_dict() for view in shown.views],
        "fingerprint": origin.fingerprint,
    }
    numbers |= ({} if around is None else around.numbers) | ({} if policy is None else {"policy": policy.to_toml()})
    title, body = (
        origin.title(f"What is this epsilon worth? {_title(shown)}"),
        _body(standing, origin, whole, around, policy),
    )
    return framed(title, body, numbers=numbers, scripts=SCRIPTS, whole=whole)


def _policy(shown: Shown, held: Surroundings | None) -> Policy | None:
    """Return what clients must run to get the recommendation; None where no ranges are declared, or nothing fits."""
    if held is None or held.domain is None or not held.declared or shown.found.choice is None:
        return None
    try:
        return shown.found.policy(held.domain)
    except ValueError:  # no exact sampler, made for its model, or a policy already
        return None


def _body(standing: Standing, origin: Origin, whole: str, around: Around | None, policy: Policy | None) -> str:
    shown, held = standing.shown, None if around is None else around.held
    parts = [_decision(standing, around), _controls(standing), _curves(standing), now(standing), _meaning(standing)]
    if len(shown.curves.labels) > 1:
        parts += [records(standing), groups(standing, held)]
    if around is not None:
        parts += sections(around, standing)
    parts += [
        _unprotected(shown, origin, held),
        _origin(shown, origin, held),
        _downloads(shown, origin, whole, policy, held),
    ]
    parts = [part for part in parts if part]
    count, names = len(shown.curves.labels), _names(shown)
    rows = f"{count} records" if count > 1 else "one record"
    about = f"{rows}; perturbed: {names}."
    return page_body("What is this epsilon worth?", about, parts, origin, keys(len(shown.names)))


def _sure(shown: Shown) -> str:
    return how_sure(shown.curves.confidence).replace(" %", "\u00a0%")


def _title(shown: Shown) -> str:
    return cleaned(", ".join(map(str, shown.curves.features[:MOST_NAMES])))


def _names(shown: Shown) -> str:
    names = shown.curves.features
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(isolated(name) for name in names[:MOST_NAMES]) + more


def _decision(standing: Standing, around: Around | None) -> str:
    shown, point = standing.shown, standing.point
    if point is None:
        return decision(standing.sentence(), (), shown.found.feasible)
    after = share_up(observed(standing.total, standing.delta, PRIOR / 100))
    facts = (
        (show_up(standing.total), "ε per record", "total"),
        (standing.words()["lower"], "guaranteed probability that it is kept", "lower"),
        (after, f"an attacker's certainty at most, from {PRIOR} %", "after"),
    )
    beside = "" if around is None else split_untaken(around)
    return decision(standing.sentence(), facts, shown.found.feasible, beside)


def _controls(standing: Standing) -> str:
    shown = standing.shown
    target, stop = shown.targets.index(shown.target), shown.stops.index(standing.total)
    radios = "".join(
        f'<label><input type="radio" name="view" value="{i}"{" checked" if i == 0 else ""}> '
        f"{escaped(_view_name(shown, view))}</label>"
        for i, view in enumerate(shown.views)
    )
    return (
        '<form class="controls" aria-label="Ask something else">'
        f"<fieldset{' hidden' if len(shown.views) == 1 else ''}><legend>Look at</legend>{radios}</fieldset>"
        f"{slider('target', 'At least', target, len(shown.targets) - 1, percent(shown.target, shown.digits))}"
        f"{slider('stop', 'ε per record', stop, len(shown.stops) - 1, show_up(standing.total))}"
        '<button type="button" id="back" disabled>Back to the recommendation</button></form>'
    )


def _view_name(shown: Shown, view: View) -> str:
    return view.title if len(shown.quantities) == 1 else f"{view.of}: {view.title}"


def _curves(standing: Standing) -> str:
    shown = standing.shown
    views = "".join(
        f'<div class="view" data-view="{i}"><p class="what">{escaped(_what(shown, view), 400)}</p>'
        f'<div class="panels">{figure(shown, i, standing.point)}</div>{data(shown, view)}</div>'
        for i, view in enumerate(shown.views)
    )
    count = len(shown.curves.epsilons)
    thinned = f" {len(shown.at)} of {count} epsilons are shown." if len(shown.at) < count else ""
    ceiling = ""
    if limited(shown):
        ceiling = (
            " The dotted line, for the worst record, is the ceiling: no mechanism can promise more to every input."
        )
    told = (
        "The dashed line across is what is asked for, the upright one the ε looked at."
        f"{ceiling} All bands hold together {_sure(shown)}.{thinned}"
    )
    return section("curves", "How often the label is kept", f'{views}<p class="caption">{told}</p>')


def _what(shown: Shown, view: View) -> str:
    return (
        f"Probability that {SUBJECTS[view.of]}, {view.where}, by ε per record. The line is guaranteed; the truth lies "
        f"in the band above it, {_sure(shown)}."
    )


def _meaning(standing: Standing) -> str:
    shown = standing.shown
    total, delta = standing.total, standing.delta
    drawn = bars((PRIOR, 100 * observed(total, delta, PRIOR / 100)), ("before", "at most after"), "knows")
    return section(
        "meaning",
        "What the ε means",
        f'<p id="observer" aria-live="polite">{escaped(observer(total, delta, PRIOR), NOTE)}</p>'
        f'<div class="controls">{slider("prior", "Likely before", PRIOR, 99, f"{PRIOR} %", 1)}</div>'
        f'<div class="bars" role="img" aria-label="How sure, before and after, as told above">{drawn}</div>'
        f"{_sureness(shown)}",
    )


def _sureness(shown: Shown) -> str:
    """Return as a table what an observer may know, by epsilon, apart for every delta: a pure row promises more."""
    by_delta: dict[float, set[float]] = {}
    for row, within in zip(shown.promises, shown.admitted, strict=True):
        for promise, fits in zip(row, within, strict=True):
            if fits or not shown.admitted.any():
                by_delta.setdefault(promise.delta, set()).add(promise.epsilon)
    points = [
        (delta, total)
        for delta, totals in sorted(by_delta.items())
        for total in sorted(totals)[:: max(1, len(totals) // STOPS)]
    ]
    points = points[:: max(1, len(points) // MOST_POINTS)]
    rows = (
        [show_up(total), f"right, δ = {show_up(delta)}" if delta else "sure"]
        + [share_up(observed(total, delta, p / 100)) for p in PRIORS]
        for delta, total in points
    )
    heads = ["ε per record", "at most", *(f"from {p} %" for p in PRIORS)]
    told = "Sure: of a value that is suspected. Right: in naming the true one of two values, where there is a δ."
    table = unfolded("how sure, or how often right, at most, by ε", heads, rows)
    return f'{table}<p class="caption read">{told}</p>'


def _unprotected(shown: Shown, origin: Origin, held: Surroundings | None) -> str:
    curves = shown.curves
    said = [
        f"Every other column, and that a person takes part, is seen as it is: perturbed are only {_names(shown)}.",
        "The ε is for one release of a record: two releases cost twice as much.",
        "The numbers speak of this classifier, these ranges and these records; the worst case is the worst of these "
        "records, not of all people.",
    ]
    if not isinstance(shown.found.on, str):
        said.append("A choice that is made for one record depends on it, and so reveals something about it.")
    if any(promise.delta for row in shown.promises for promise in row):
        said.append("With probability δ a mechanism that has one may show more than its ε says.")
    if curves.stopped:
        said.append("The run ended before its work was done: the bounds hold, and could be narrower.")
    raw = (
        "<strong>This page is computed from raw records and is not private itself:</strong> show it to whom the table "
        "may be shown."
    )
    notes = [*curves.notes, *(() if held is None else held.notes)]
    return limits(raw, said, [_titled(note, curves.mechanisms) for note in notes])


def _titled(note: str, mechanisms: Sequence[str]) -> str:
    """Return a note with the title of the mechanism that it begins with."""
    words, colon, rest = note.partition(": ")
    return f"{mechanism_name(words)}{colon}{rest}" if words in mechanisms else note


def _origin(shown: Shown, origin: Origin, held: Surroundings | None) -> str:
    curves = shown.curves
    engines = ", ".join(sorted({cleaned(word, 40) for word in curves.method.flat}))
    facts = [
        ("Perturbed", _names(shown)),
        ("Records", f"{len(curves.labels):,}"),
        ("Bounds hold", _sure(shown)),
        ("Tolerance", show_up(curves.tolerance)),
        ("Engines", escaped(engines, 200)),
        ("Cost", f"{curves.queries:,} queries, {show_up(curves.seconds, 3)} s"),
    ]
    if held is not None:
        facts += [("Model", escaped(held.model))] if held.model else []
        facts += (
            [
                (
                    "Ranges, declared public" if held.declared else "Ranges, taken from the table, not declared public",
                    _ranges(held.domain),
                )
            ]
            if held.domain is not None
            else []
        )
        facts += [("Seed", str(held.seed))] if held.seed is not None else []
    return computed(facts, origin)


def _ranges(domain: Domain) -> str:
    told = [
        f"{isolated(one.name)} "
        + (f"{len(one.categories)} categories" if one.categories is not None else f"{one.lower:g} to {one.upper:g}")
        for one in domain.features[:MOST_NAMES]
    ]
    return ", ".join(told) + (" and more" if len(domain.features) > MOST_NAMES else "")


def _holds(held: Surroundings | None) -> str:
    """Say what the result holds of the records."""
    told = "The result holds every record's bounds and label"
    if held is None:
        return f"{told}."
    own = f"; of {_one(held)} its values of what is perturbed and the labels around it" if held.map or held.box else ""
    counts = "; of groups of records counts and bounds" if held.groups else ""
    return f"{told}{own}{counts}. No other value of a record is in it."


def _one(held: Surroundings) -> str:
    return f"record {held.record}" if held.records > 1 else "the record"


def _downloads(
    shown: Shown, origin: Origin, whole: str, policy: Policy | None, held: Surroundings | None = None
) -> str:
    holds, choice = _holds(held), shown.found.choice
    if policy is None or choice is None:
        told = (
            "For what clients must run: "
            "<code>epsworth recommend RESULT.json --at-least … --domain … --policy policy.toml</code>"
        )
        return downloads(origin, whole, holds, told)
    told = (
        f"The policy is that of the recommendation, {isolated(mechanism_name(choice.mechanism))} at ε = "
        f"{show_up(choice.guarantee.epsilon)} per record, and does not follow the sliders; fingerprint "
        f'<code class="print">{policy.fingerprint}</code>.'
    )
    return downloads(origin, whole, holds, told, POLICY)
