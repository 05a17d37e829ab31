"""The tables of the utility page: every number of a view, the mechanisms at one epsilon, how the records are served."""

from __future__ import annotations

from epsworth.reports.escaping import LONGEST, isolated
from epsworth.reports.numbers import SHARES, Shown, View, units
from epsworth.reports.parts import bar, section, unfolded
from epsworth.reports.sentences import WORDS, Standing, filled, percent
from epsworth.results import how_sure
from epsworth.rounding import show_up


def data(shown: Shown, view: View) -> str:
    """Return a view's numbers as a table, to be unfolded."""
    low = units(view.bounds.lower, shown.digits, upwards=False)
    high = units(view.bounds.upper, shown.digits, upwards=True)
    heads = shown.curves.epsilons[shown.at].tolist()
    cells = (
        [f"{_bare(low[m][e], shown.digits)}–{_bare(high[m][e], shown.digits)}" for m in range(len(shown.names))]
        for e in range(len(shown.at))
    )
    title = f"{view.of}, {view.title}: at least – at most, in %"
    names = (isolated(name) for name in shown.names)
    rows = ([show_up(head), *row] for head, row in zip(heads, cells, strict=True))
    return unfolded(title, ["ε per record", *names], rows)


def _bare(whole: int, digits: int) -> str:
    return percent(whole, digits).removesuffix("\u00a0%")


def now(standing: Standing) -> str:
    """Return what every mechanism does within the epsilon looked at: the table that moves with the sliders."""
    shown, view = standing.shown, standing.view
    low = units(view.bounds.lower, shown.digits, upwards=False)
    high = units(view.bounds.upper, shown.digits, upwards=True)
    rows = []
    for m, e in enumerate(shown.affordable(standing.total)):
        cells = ["–"] * 5
        if e is not None:
            word = "enough" if low[m][e] >= shown.target else "short" if high[m][e] < shown.target else "open"
            shares = (percent(side[m][e], shown.digits) for side in (low, high))
            population = _population(shown, view, m, e)
            cells = [show_up(float(shown.totals[m, e])), *shares, population, WORDS[f"{word}_word"]]
        chosen = ' class="chosen" aria-current="true"' if standing.point and standing.point[0] == m else ""
        told = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr data-m="{m}"{chosen}><th scope="row">{isolated(shown.names[m])}</th>{told}</tr>')
    nobody = "" if shown.populations and view.on == "average" else " nobody"
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("mechanism", "ε per record", "at least", "at most", "population", "what is asked")
    )
    told, away = "", "" if view.on == "average" else " hidden"
    if shown.populations:
        one = next(iter(shown.populations.values()))
        told = (
            f'<p class="caption" id="people"{away}>Population: on average over all from whom these {one.records} '
            f"records come, if they are independent draws that the classifier was not fitted on, "
            f"{how_sure(one.confidence)}.</p>"
        ).replace(" %", "\u00a0%")
    cap = f'<p class="caption" id="cap">{_cap(standing)}</p>' if limited(shown) else ""
    return section(
        "mechanisms",
        "The mechanisms at this ε",
        '<div class="wide" role="region" tabindex="0" aria-label="Table of the mechanisms"><table class="now'
        f'{nobody}"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        f"</table></div>{told}{cap}",
    )


def limited(shown: Shown) -> bool:
    """Tell whether there is a ceiling below 1: some record can get several labels."""
    return int(shown.curves.labels_possible.max()) > 1


def _cap(standing: Standing) -> str:
    shown = standing.shown
    cap = units(shown.caps_at(standing.total), shown.digits, upwards=True)[0]
    return filled(
        WORDS["free" if cap == 10**shown.digits else "cap"],
        {"below": percent(cap - 1, shown.digits)}
        | {"total": show_up(standing.total), "cap": percent(cap, shown.digits)},
    )


def _population(shown: Shown, view: View, m: int, e: int) -> str:
    if view.of not in shown.populations or view.on != "average":
        return "–"
    one = shown.populations[view.of]
    low = units(one.lower[m : m + 1, e], shown.digits, upwards=False)[0]
    high = units(one.upper[m : m + 1, e], shown.digits, upwards=True)[0]
    return f"{_bare(low, shown.digits)}–{percent(high, shown.digits)}"


def records(standing: Standing) -> str:
    """Return how the records differ: what shares of them keep, and who keeps least."""
    shown, point = standing.shown, standing.point or (0, 0)
    if shown.unfinished:
        said = (
            "The run ended before every record was answered: the average is bounded, and single records are not known."
        )
        return section("records", "How the records are served", f'<p class="caption">{said}</p>')
    numbers, view, (m, e) = shown.numbers, standing.view, point
    worst = next(one["lower"] for one in numbers["views"] if one["of"] == view.of and one["worst"])
    rows = "".join(
        f'<tr><th scope="row">{"every record" if share == 100 else f"{share} % of the records"}</th>'
        f'<td id="share-{i}">{percent(whole[m][e], shown.digits)}</td>'
        f"<td>{bar(whole[m][e] / 10 ** (shown.digits - 2), f'share-bar-{i}')}</td></tr>"
        for i, (share, whole) in enumerate(zip((100, *SHARES), [worst, *numbers["shares"][view.of]], strict=True))
    )
    listed, lowest = numbers["worst"][m][e], []
    for i in range(0, len(listed), 2):
        at, lower = listed[i : i + 2]
        record, label = numbers["records"][at]
        lowest.append(
            f'<tr data-i="{i // 2}"><th scope="row">{record}</th><td>{isolated(label, LONGEST)}</td>'
            f"<td>{percent(lower, shown.digits)}</td></tr>"
        )
    loose = (
        '<p class="caption">Only the average and the worst case were bounded closely; single records may keep more.</p>'
        if shown.curves.over == "dataset"
        else ""
    )
    return section(
        "records",
        "How the records are served",
        f'<p class="caption" id="served">By {isolated(shown.names[m])} at ε = {show_up(standing.total)} per record.</p>'
        '<div class="pair"><div class="wide" role="region" tabindex="0" aria-label="Table of shares of the records">'
        '<table class="served"><caption>What shares of the records keep at least.</caption><thead><tr>'
        '<th scope="col">of these</th><th scope="col">at least</th>'
        '<th scope="col"><span class="hidden">as a bar</span></th></tr></thead>'
        f'<tbody>{rows}</tbody></table></div><div class="wide" role="region" tabindex="0" '
        'aria-label="Table of the records that keep least"><table class="worst">'
        "<caption>The records that keep least, and how often their label stays.</caption><thead>"
        '<tr><th scope="col">record</th><th scope="col">label</th><th scope="col">at least</th></tr></thead>'
        f"<tbody>{''.join(lowest)}</tbody></table></div></div>{loose}",
    )
