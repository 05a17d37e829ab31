"""Pages whose sliders stop where Python has been: one script and one style for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsworth.reports.page import STYLES, Page, framed

SCRIPTS = ("stops.js",)


def plain_page(title: str, body: str, sliders: Mapping[str, Any], whole: str) -> Page:
    """Return a page; ``sliders`` hold, by name, what is said and where things lie at every stop."""
    return framed(
        title, body, numbers={"sliders": sliders}, scripts=SCRIPTS, whole=whole, styles=(*STYLES, "plain.css")
    )
