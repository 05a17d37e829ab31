"""Parts of pages as plain data.

Sections of paragraphs, facts, sliders, tables, figures and lists: the template makes HTML of them, and escapes whatever
is not markup of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from epsworth.report import text
from epsworth.report.charts import Axis, Chart, Line
from epsworth.rounding import round_up, show_up

Block = dict[str, Any]
Rows = Iterable[Sequence[object]]
Facts = Iterable[tuple[str, str, str]]  # value, words, key
MOST_NOTES, MOST_PRINTED = 12, 4  # of a result: on the page, and on paper
TABLE_PRIORS = (1, 10, 25, 50, 75, 90, 99)  # per cent


def section(key: str, title: str, *parts: Block | Chart | str | None, kind: str = "") -> Block:
    """Return a part of the page under a heading: blocks and charts; words are a caption, None is left out."""
    blocks = [
        caption(part) if isinstance(part, str) else figures(part) if isinstance(part, Chart) else part
        for part in parts
        if part is not None
    ]
    return {"key": key, "title": title, "kind": kind, "blocks": blocks}


def paragraph(words: object, kind: str = "", key: str = "", *, hidden: bool = False) -> Block:
    """Return a paragraph; one with a key is read aloud when the script changes it, but for captions."""
    return {"is": "paragraph", "text": words, "kind": kind, "key": key, "hidden": hidden}


def caption(words: object, key: str = "", *, hidden: bool = False) -> Block:
    """Return small words below a figure or table."""
    return paragraph(words, "caption", key, hidden=hidden)


def decision(
    sentence: str, facts: Facts, good: bool, more: str = "", *, epsilon: float | None = None, delta: float = 0.0
) -> Block:
    """Return the decision: a sentence, facts, and a sentence below them.

    With an epsilon it is good only where that protects enough, too.
    """
    note = "" if epsilon is None else text.protection_note(epsilon, delta)
    answer = paragraph(sentence, "sentence", "sentence"), {"is": "facts", "facts": list(facts)}
    kind = "" if good and not note else " no"
    return section("decision", "The decision", *answer, note or None, more or None, kind=kind)


def table(
    label: str, heads: Sequence[object], rows: Rows, kind: str = "data list", *, caption: object = "",
    current: int | None = None,
) -> Block:  # fmt: skip
    """Return a table; a row's first cell heads it, and the head of bars is None."""
    about = {"label": label, "kind": kind, "caption": caption, "current": current}
    return {"is": "table", "heads": heads, "rows": list(rows), **about}


def details(title: str, heads: Sequence[object], rows: Rows) -> Block:
    """Return a table that a reader unfolds beside a figure."""
    return {"is": "details", "title": title, "heads": heads, "rows": list(rows)}


def figures(*parts: Chart | Block) -> Block:
    """Return charts, and blocks, side by side where there is room."""
    return {"is": "figures", "figures": parts}


def pair(*columns: Block) -> Block:
    """Return blocks side by side."""
    return {"is": "pair", "columns": columns}


def slider(
    key: str, label: str, start: int, stops: Sequence[str], texts: Mapping[str, Sequence[str]] | None = None,
    **places: Mapping[str, Sequence[str | float]],
) -> Block:  # fmt: skip
    """Return a slider that starts at one of its stops, and the texts, ``moves`` and ``widths`` that it changes, by key.

    Without texts a script of the page moves it.
    """
    changes = {"says": {**texts, f"{key}-shown": stops}, "moves": {}, "widths": {}, **places} if texts else None
    return {"is": "slider", "key": key, "label": label, "start": start, "stops": stops, "changes": changes}


def bar(width: float, *, start: float = 0.0, mark: float | None = None, key: str = "", promised: bool = True) -> Block:
    """Return a bar for a cell, or for `bars`: a share in per cent, from a start on, with a value marked in it.

    What is not promised is outlined.
    """
    return {"start": start, "width": f"{round_up(width, 1):g}", "mark": mark, "key": key, "promised": promised}


def bars(label: str, shares: Sequence[tuple[str, float]], key: str = "") -> Block:
    """Return bars of shares, each behind a word; the label says all to those who cannot see them."""
    rows = [(word, bar(100 * share, key=f"{key}-{i}" if key else ""), "") for i, (word, share) in enumerate(shares)]
    return {"is": "bars", "bars": rows, "label": label, "ranked": False}


def ranking(label: str, entries: Sequence[tuple[str, float, str, bool]], least: float = 0.0) -> Block | None:
    """Return bars of (name, length, text, whether it is promised), the longest across, with a length marked in all."""
    most = max([*(length for _, length, _, _ in entries), least], default=0.0) or 1.0
    mark = round(100 * least / most, 1) if least else None
    rows = [(word, bar(100 * size / most, mark=mark, promised=good), value) for word, size, value, good in entries]
    return {"is": "bars", "bars": rows, "label": label, "ranked": True} if rows else None


def limits(audience: str, sentences: Iterable[object], notes: Sequence[str] = (), *, warning: str = "") -> Block:
    """Return what is not protected: who may see the page, sentences, and the result's notes.

    A page that is not private itself begins with a warning that says so.
    """
    lines = [f"Note: {note}." for note in notes[:MOST_NOTES]]
    if len(notes) > MOST_NOTES:
        lines.append(f"{len(notes) - MOST_NOTES} more notes stand in the result.")
    printed = MOST_PRINTED - 1 if len(lines) > MOST_PRINTED else len(lines)
    about = {"audience": audience, "warning": warning, "sentences": list(sentences)}
    return section("limits", "What is not protected", {"is": "limits", "notes": lines, "printed": printed, **about})


def trade_off(
    title: str, label: str, epsilons: Sequence[float], start: int, sentences: Sequence[str], chart: Chart,
    *more: Block | str, digits: int = 6,
) -> Block:  # fmt: skip
    """Return what every epsilon costs: a slider that moves a sentence and a chart's cursor, and more below."""
    stops = [show_up(epsilon, digits) for epsilon in epsilons]
    moves = {chart.cursor_key: chart.cursors(epsilons)}
    control = slider("stop", label, start, stops, {"trade": sentences}, moves=moves)
    return section("curves", title, control, paragraph(sentences[start], key="trade"), chart, *more, kind=" across")


def histogram(
    description: str, label: str, edges: Sequence[float], laws: Mapping[str, Sequence[float]], title: str,
    heads: Sequence[str], parts: Sequence[str] = (), **more: Any,
) -> tuple[Chart, Block]:  # fmt: skip
    """Return how likely values fall between edges, by law: a chart of steps, and its numbers, by part."""
    lines = [Line(word, [*zip(edges, [*row, row[-1]], strict=True)], "step") for word, row in laws.items()]
    most = max(1e-12, *(max(row) for row in laws.values()))
    parts = parts or [f"{text.approx(a)} to {text.approx(b)}" for a, b in pairwise(edges)]
    rows = [
        [part, *(f"{text.approx(100 * one)}{text.SPACE}%" for one in shares)]
        for part, *shares in zip(parts, *laws.values(), strict=True)
    ]
    x, y = Axis(label, edges[0], edges[-1]), Axis("chance", 0.0, 1.05 * most, percent=True)
    return Chart(description, x, y, lines, **more), details(title, heads, rows)


def meaning(
    posterior: Callable[[float], float], title: str, words: Mapping[str, str], *, delta: float = 0.0,
    sentences: Mapping[str, str] = text.SENTENCES, numbers: Block | None = None, more: Block | str | None = None,
) -> Block:  # fmt: skip
    """Return what a promise means to an observer, and the slider for a suspicion before, both as shares.

    Other ``numbers`` stand in place of the table of the one promise.
    """
    posteriors = {prior: min(1.0, posterior(prior / 100)) for prior in text.PRIORS}
    before, after = "before", "at most after"
    if delta and not numbers:
        before, after = "one answer likely before", "right at most"
    observations = [text.observer(share, delta, prior, words, sentences) for prior, share in posteriors.items()]
    start, stops = text.PRIORS.index(text.EVEN), [f"{prior}{text.SPACE}%" for prior in text.PRIORS]
    widths = {"knows-0": text.PRIORS, "knows-1": [round(100 * share, 3) for share in posteriors.values()]}
    rows = [[f"{prior}{text.SPACE}%", text.share_up(posteriors[prior])] for prior in TABLE_PRIORS]
    return section(
        "meaning", title, paragraph(observations[start], key="observer"),
        slider("prior", "Likely before", start, stops, {"observer": observations}, widths=widths),
        bars("Before and after, as told above", ((before, text.EVEN / 100), (after, posteriors[text.EVEN])), "knows"),
        numbers or details(f"{before} and {after}", (before if delta else "likely before", after), rows),
        more or (text.BLIND_CHANCE if delta else None),
    )  # fmt: skip


def meaning_of_epsilon(epsilon: float, delta: float, words: Mapping[str, str]) -> Block:
    """Return what an (epsilon, delta) promise means to an observer; see `observed` for the claim."""
    title = "What the ε and the δ mean: the chance of being right" if delta else "What the ε means"
    return meaning(lambda prior: text.observed(epsilon, delta, prior), title, words, delta=delta)
