"""What pages are made of: sections of paragraphs, facts, sliders, tables, figures, lists, as plain data.

The template makes HTML of them, and escapes whatever is not markup of this package.
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
MOST_NOTES, MOST_PRINTED = 12, 4  # of a result: on the page, and on paper
TABLED = (1, 10, 25, 50, 75, 90, 99)  # per cent that somebody held likely before


def section(key: str, title: str, *parts: Block | Chart | str | None, kind: str = "") -> Block:
    """Return a part of the page under a heading: blocks and charts; words are a caption, None is left out."""
    drawn = [figures(one) if isinstance(one, Chart) else one for one in parts if one is not None]
    told = [one if isinstance(one, dict) else caption(one) for one in drawn]
    return {"key": key, "title": title, "kind": kind, "blocks": told}


def paragraph(words: object, kind: str = "", key: str = "", *, hidden: bool = False) -> Block:
    """Return a paragraph; what has a key is read aloud when the script changes it, but for captions."""
    return {"is": "paragraph", "text": words, "kind": kind, "key": key, "hidden": hidden}


def caption(words: object, key: str = "", *, hidden: bool = False) -> Block:
    """Return small words below a figure or table."""
    return paragraph(words, "caption", key, hidden=hidden)


def decision(
    sentence: str, facts: Iterable[tuple[str, str, str]], good: bool, more: str = "", *, epsilon: float | None = None,
    delta: float = 0.0,
) -> Block:  # fmt: skip
    """Return the decision: a sentence, facts (value, words, name), and a sentence below them.

    With an epsilon it is good only where that protects enough, too.
    """
    weak = "" if epsilon is None else text.weak(epsilon, delta)
    told = paragraph(sentence, "sentence", "sentence"), {"is": "facts", "facts": list(facts)}
    kind = "" if good and not weak else " no"
    return section("decision", "The decision", *told, weak or None, more or None, kind=kind)


def table(
    label: str, heads: Sequence[object], rows: Rows, kind: str = "data list", *, caption: object = "",
    chosen: int | None = None,
) -> Block:  # fmt: skip
    """Return a table; a row's first cell heads it, and the head of bars is None."""
    heading = {"label": label, "kind": kind, "caption": caption, "chosen": chosen}
    return {"is": "table", "heads": heads, "rows": list(rows), **heading}


def unfolded(title: str, heads: Sequence[object], rows: Rows) -> Block:
    """Return a table to be unfolded beside a figure."""
    return {"is": "unfolded", "title": title, "heads": heads, "rows": list(rows)}


def figures(*drawn: Chart | Block) -> Block:
    """Return charts, and blocks, beside one another where there is room."""
    return {"is": "figures", "figures": drawn}


def pair(*columns: Block) -> Block:
    """Return blocks beside one another."""
    return {"is": "pair", "columns": columns}


def slider(
    key: str, label: str, at: int, stops: Sequence[str], says: Mapping[str, Sequence[str]] | None = None,
    **moved: Mapping[str, Sequence[str | float]],
) -> Block:  # fmt: skip
    """Return a slider that stands at one of its stops, and the texts, ``moves``, ``widths`` that it changes, by key.

    Where it says nothing a script of the page moves it.
    """
    every = {"says": {**says, f"{key}-shown": stops}, "moves": {}, "widths": {}, **moved} if says else None
    return {"is": "slider", "key": key, "label": label, "at": at, "stops": stops, "moved": every}


def bar(
    width: float, *, start: float = 0.0, own: float | None = None, key: str = "", promised: bool = True
) -> Block:  # fmt: skip
    """Return a bar for a cell, or for `bars`: a share in per cent, from a start on, with a value marked in it.

    What is not promised is outlined.
    """
    return {"start": start, "width": f"{round_up(width, 1):g}", "own": own, "key": key, "promised": promised}


def bars(label: str, shares: Sequence[tuple[str, float]], key: str = "") -> Block:
    """Return bars of shares, each behind a word; the label says all to those who cannot see them."""
    drawn = [(word, bar(100 * share, key=f"{key}-{i}" if key else ""), "") for i, (word, share) in enumerate(shares)]
    return {"is": "bars", "bars": drawn, "label": label, "ranked": False}


def ranking(what: str, entries: Sequence[tuple[str, float, str, bool]], least: float = 0.0) -> Block | None:
    """Return bars of (name, length, text, whether it is promised), the longest across, with a length marked in all."""
    most = max([*(length for _, length, _, _ in entries), least], default=0.0) or 1.0
    own = round(100 * least / most, 1) if least else None
    drawn = [(word, bar(100 * at / most, own=own, promised=good), told) for word, at, told, good in entries]
    return {"is": "bars", "bars": drawn, "label": what, "ranked": True} if drawn else None


def limits(raw: str, said: Iterable[object], notes: Sequence[str] = (), *, private: str = "") -> Block:
    """Return what is not protected: who may see the page, sentences, and the result's notes.

    What is not private itself begins with a sentence that says so.
    """
    shown = [f"Note: {note}." for note in notes[:MOST_NOTES]]
    if len(notes) > MOST_NOTES:
        shown.append(f"{len(notes) - MOST_NOTES} more notes stand in the result.")
    printed = MOST_PRINTED - 1 if len(shown) > MOST_PRINTED else len(shown)
    told = {"is": "limits", "raw": raw, "private": private, "said": list(said), "notes": shown, "printed": printed}
    return section("limits", "What is not protected", told)


def stops(
    title: str, label: str, epsilons: Sequence[float], first: int, said: Sequence[str], chart: Chart,
    *more: Block | str, digits: int = 6,
) -> Block:  # fmt: skip
    """Return what every epsilon costs: a slider that moves a sentence and a chart's cursor, and more below."""
    shown = [show_up(epsilon, digits) for epsilon in epsilons]
    moved = slider("stop", label, first, shown, {"trade": said}, moves={chart.moved: chart.cursors(epsilons)})
    return section("curves", title, moved, paragraph(said[first], key="trade"), chart, *more, kind=" across")


def histogram(
    what: str, title: str, edges: Sequence[float], laws: Mapping[str, Sequence[float]], told: str,
    heads: Sequence[str], **more: Any,
) -> tuple[Chart, Block]:  # fmt: skip
    """Return how likely values fall between edges, by law: a chart of steps, and a table that unfolds."""
    lines = [Line(word, [*zip(edges, [*row, row[-1]], strict=True)], "step") for word, row in laws.items()]
    most = max(1e-12, *(max(row) for row in laws.values()))
    rows = [
        [f"{text.size(a)} to {text.size(b)}", *(f"{text.size(100 * one)}{text.SPACE}%" for one in shares)]
        for (a, b), *shares in zip(pairwise(edges), *laws.values(), strict=True)
    ]
    across, upright = Axis(title, edges[0], edges[-1]), Axis("chance", 0.0, 1.05 * most, percent=True)
    return Chart(what, across, upright, lines, **more), unfolded(told, heads, rows)


def of_promise(
    after: Callable[[float], float], title: str, words: Mapping[str, str], *, delta: float = 0.0,
    texts: Mapping[str, str] = text.WORDS, listed: Block | None = None, more: Block | str | None = None,
) -> Block:  # fmt: skip
    """Return what a promise means to an observer, and the slider for what they held likely before, both as shares.

    A table that is ``listed`` stands in place of that of the one promise.
    """
    known = {prior: min(1.0, after(prior / 100)) for prior in text.PRIORS}
    told = ("one answer likely before", "right at most") if delta and not listed else ("before", "at most after")
    said = [text.observer(share, delta, prior, words, texts) for prior, share in known.items()]
    first, stopped = text.PRIORS.index(text.EVEN), [f"{prior}{text.SPACE}%" for prior in known]
    widths = {"knows-0": text.PRIORS, "knows-1": [round(100 * share, 3) for share in known.values()]}
    rows = [[f"{prior}{text.SPACE}%", text.share_up(known[prior])] for prior in TABLED]
    own = unfolded(f"{told[0]} and {told[1]}", (told[0] if delta else "likely before", told[1]), rows)
    return section(
        "meaning", title, paragraph(said[first], key="observer"),
        slider("prior", "Likely before", first, stopped, {"observer": said}, widths=widths),
        bars("Before and after, as told above", ((told[0], text.EVEN / 100), (told[1], known[text.EVEN])), "knows"),
        listed or own, more or (text.BLINDLY if delta else None),
    )  # fmt: skip


def of_epsilon(epsilon: float, delta: float, words: Mapping[str, str]) -> Block:
    """Return what an (epsilon, delta) promise means to an observer; see `observed` for what is claimed."""
    title = "What the ε and the δ mean: the chance of being right" if delta else "What the ε means"
    return of_promise(lambda prior: text.observed(epsilon, delta, prior), title, words, delta=delta)
