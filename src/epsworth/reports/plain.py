"""Pages whose sliders stop where Python has been: one script and one style for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsworth.reports.page import STYLES, Page, framed

SCRIPTS = ("saving.js", "stops.js")


def plain_page(title: str, body: str, sliders: Mapping[str, Any], whole: str, policy: str = "") -> Page:
    """Return a page; ``sliders`` hold, by name, what is said and where things lie at every stop.

    ``policy`` is the text of a policy, to be downloaded; or nothing.
    """
    kept = {"policy": policy} if policy else {}
    return framed(
        title, body, numbers={"sliders": sliders} | kept, scripts=SCRIPTS, whole=whole, styles=(*STYLES, "plain.css")
    )


def size(value: float) -> str:
    """Print what is no promise, to four digits.

    Examples
    --------
    >>> size(2.34581), size(12345.6)
    ('2.346', '1.235e+04')
    """
    return f"{value:.4g}"
