"""What pages are made of: sections of paragraphs, facts, sliders, tables, pictures, lists.

The template makes HTML of them, and escapes whatever is not markup of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from epsworth.report import text
from epsworth.report.charts import BarChart, Chart, bar

Block = dict[str, Any]
MOST_NOTES, MOST_PRINTED = 12, 4  # of a result: on the page, and on paper
TABLED = (1, 10, 25, 50, 75, 90, 99)  # per cent that somebody held likely before


def section(key: str, title: str, *parts: object, kind: str = "") -> Block:
    """Return a part of the page under a heading: blocks, charts, sliders in a list, and words as a caption."""
    return {"key": key, "title": title, "kind": kind, "blocks": [_block(one) for one in parts if one is not None]}


def _block(part: Any) -> Block:
    if isinstance(part, dict):
        return part
    if isinstance(part, (Chart, BarChart)):
        return pictures(part.panel())
    return {"is": "sliders", "sliders": part} if isinstance(part, list) else caption(part)


def paragraph(words: object, kind: str = "", key: str = "") -> Block:
    """Return a paragraph; what has a key is read aloud when the script changes it."""
    return {"is": "paragraph", "text": words, "kind": kind, "key": key}


def caption(words: object, key: str = "", *, kind: str = "", hidden: bool = False) -> Block:
    """Return small words below a picture or table."""
    return {"is": "caption", "text": words, "key": key, "kind": kind, "hidden": hidden}


def decision(sentence: str, facts: Iterable[tuple[str, str, str]], good: bool, more: str = "") -> Block:
    """Return the decision: a sentence, facts (value, words, name), and a sentence below them."""
    told = {"is": "facts", "facts": list(facts)}
    kind = "" if good else " no"
    return section(
        "decision", "The decision", paragraph(sentence, "sentence", "sentence"), told, more or None, kind=kind
    )


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], label: str, kind: str = "data list",
    caption: object = "",
) -> Block:  # fmt: skip
    """Return a table that scrolls where it is wider than the page; a row's first cell heads it, None heads bars."""
    return {"is": "table", "heads": heads, "rows": list(rows), "label": label, "kind": kind, "caption": caption}


def unfolded(title: str, heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Block:
    """Return a table to be unfolded beside a picture."""
    return {"is": "unfolded", "title": title, "heads": heads, "rows": list(rows)}


def pictures(*drawn: object) -> Block:
    """Return pictures, beside one another where there is room."""
    return {"is": "pictures", "pictures": drawn}


def pair(*columns: Sequence[Block | None]) -> Block:
    """Return blocks beside one another."""
    return {"is": "pair", "columns": [[one for one in blocks if one is not None] for blocks in columns]}


def slider(key: str, label: str, value: int, most: int, shown: str, least: int = 0) -> Block:
    """Return a slider over whole numbers, with what it stands for beside its label."""
    most = max(most, least)
    return {"key": key, "label": label, "value": value, "most": most, "shown": shown, "least": least}


def bars(shares: Sequence[float], words: Sequence[str], key: str, label: str) -> Block:
    """Return bars of shares, with a word before each."""
    drawn = [(word, bar(100 * share, f"{key}-{i}")) for i, (share, word) in enumerate(zip(shares, words, strict=True))]
    return {"is": "bars", "bars": drawn, "label": label}


def limits(raw: object, said: Iterable[object], notes: Sequence[str] = (), *, private: bool = True) -> Block:
    """Return what is not protected: who may see the page, sentences, and the result's notes."""
    shown = [f"Note: {note}." for note in notes[:MOST_NOTES]]
    if len(notes) > MOST_NOTES:
        shown.append(f"{len(notes) - MOST_NOTES} more notes stand in the result.")
    printed = MOST_PRINTED - 1 if len(shown) > MOST_PRINTED else len(shown)
    told = {"is": "limits", "said": list(said), "notes": shown, "printed": printed}
    return section("limits", "What is not protected", paragraph(raw, "raw" if private else "open"), told)


NOT_PRIVATE = "<strong>{} and is not private itself:</strong> {}"


def of_promise(
    after: Callable[[float], float], title: str, words: Mapping[str, str], *, delta: float = 0.0,
    texts: Mapping[str, str] = text.WORDS,
) -> tuple[Block, dict[str, Any]]:  # fmt: skip
    """Return what a promise means to an observer, and the slider for what they held likely before, both as shares."""
    known = {prior: min(1.0, after(prior / 100)) for prior in text.PRIORS}
    told = ("one answer likely before", "right at most") if delta else ("before", "at most after")
    said = [text.observer(share, delta, prior, words, texts) for prior, share in known.items()]
    stops, first = [f"{prior}{text.SPACE}%" for prior in known], text.PRIORS.index(text.EVEN)
    rows = [[f"{prior}{text.SPACE}%", text.share_up(known[prior])] for prior in TABLED]
    block = section(
        "meaning",
        title,
        paragraph(said[first], key="observer"),
        [slider("prior", "Likely before", first, len(stops) - 1, stops[first])],
        bars((text.EVEN / 100, known[text.EVEN]), told, "knows", "Before and after, as told above"),
        unfolded(f"{told[0]} and {told[1]}", (told[0] if delta else "likely before", told[1]), rows),
        text.BLINDLY if delta else None,
    )
    widths = {"knows-0": list(known), "knows-1": [round(100 * share, 3) for share in known.values()]}
    return block, {"prior": {"says": {"observer": said, "prior-shown": stops}, "moves": {}, "widths": widths}}


def of_epsilon(epsilon: float, delta: float, words: Mapping[str, str]) -> tuple[Block, dict[str, Any]]:
    """Return what an (epsilon, delta) promise means to an observer; see `observed` for what is claimed."""
    title = "What the ε and the δ mean: the chance of being right" if delta else "What the ε means"
    return of_promise(lambda prior: text.observed(epsilon, delta, prior), title, words, delta=delta)
