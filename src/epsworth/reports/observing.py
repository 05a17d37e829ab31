"""What an epsilon means to an observer, with a slider for what they held likely before: for pages of one promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epsworth.reports.escaping import NOTE, escaped
from epsworth.reports.numbers import share_up
from epsworth.reports.parts import bars, section, slider, unfolded
from epsworth.reports.sentences import filled, observed

PRIORS = range(1, 100)  # per cent, where the slider stops
TABLED = (1, 10, 25, 50, 75, 90, 99)
FIRST = 50
SURE = (
    "An attacker who held it {prior} likely that {what} is at most {after} sure of it after seeing {seen}.",
    "An attacker who held it {prior} likely that {what} may be certain of it after seeing {seen}: this protects next "
    "to nothing.",
)
RIGHT = (
    "An attacker who must say {which}, and held one of the answers {prior} likely, is right in at most {after} of the "
    "cases after seeing {seen}."
)


AFTERWARDS = ("before", "at most after")  # what bars and table say
GUESSED = ("one answer likely before", "right at most")
BLINDLY = (
    "The chance of being right, not a belief: by always naming the likelier answer it is at least as high without "
    "any release."
)


def of_promise(total: float, delta: float, *, what: str, which: str, seen: str) -> tuple[str, dict[str, Any]]:
    """Return the section for an (epsilon, delta) promise, and its slider; see `observed` for what is claimed."""
    words = {"what": what, "which": which, "seen": seen}
    if delta == 0:
        return of_chances(lambda prior: observed(total, 0.0, prior), "What the ε means", SURE, words)
    return of_chances(
        lambda prior: observed(total, delta, prior), "What the ε and the δ mean: the chance of being right",
        (RIGHT, RIGHT), words, told=GUESSED, caption=BLINDLY,
    )  # fmt: skip


def of_chances(
    after: Callable[[float], float],
    title: str,
    texts: tuple[str, str],
    words: dict[str, str],
    *,
    told: tuple[str, str] = AFTERWARDS,
    caption: str = "",
) -> tuple[str, dict[str, Any]]:
    """Return the section for what may be known afterwards, by what was held likely before; both are shares.

    ``told`` names both, and ``caption`` is plain text below.
    """
    known = {prior: min(1.0, after(prior / 100)) for prior in PRIORS}

    def said(prior: int) -> str:
        text = texts[share_up(known[prior]) == share_up(1.0)]
        return filled(text, {**words, "prior": f"{prior}\u00a0%", "after": share_up(known[prior])})

    moved = slider("prior", "Likely before", FIRST, PRIORS[-1], f"{FIRST}\u00a0%", PRIORS[0])
    drawn = bars((FIRST, 100 * known[FIRST]), told, "knows")
    rows = ([f"{prior}\u00a0%", share_up(known[prior])] for prior in TABLED)
    html = section(
        "meaning",
        title,
        f'<p id="observer" aria-live="polite">{escaped(said(FIRST), NOTE)}</p>'
        f'<div class="controls">{moved}'
        f'</div><div class="bars" role="img" aria-label="Before and after, as told above">{drawn}</div>'
        + unfolded(f"{told[0]} and {told[1]}", ("likely before" if told == AFTERWARDS else told[0], told[1]), rows)
        + (f'<p class="caption">{escaped(caption, NOTE)}</p>' if caption else ""),
    )
    moving = {
        "says": {
            "observer": [said(prior) for prior in PRIORS],
            "prior-shown": [f"{prior}\u00a0%" for prior in PRIORS],
        },
        "moves": {},
        "widths": {"knows-0": list(PRIORS), "knows-1": [round(100 * known[prior], 3) for prior in PRIORS]},
    }
    return html, {"prior": moving}
