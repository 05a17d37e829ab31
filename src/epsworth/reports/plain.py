"""Pages whose sliders stop where Python has been: one script and one style for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from epsworth.reports.page import STYLES, Page, framed

SCRIPTS = ("saving.js", "stops.js")
LEAST = Decimal("0.0001")  # per cent that are told apart


def plain_page(title: str, body: str, sliders: Mapping[str, Any], whole: str, policy: str = "") -> Page:
    """Return a page; ``sliders`` hold, by name, what is said and where things lie at every stop.

    ``policy`` is the text of a policy, to be downloaded; or nothing.
    """
    kept = {"policy": policy} if policy else {}
    return framed(
        title, body, numbers={"sliders": sliders} | kept, scripts=SCRIPTS, whole=whole, styles=(*STYLES, "plain.css")
    )


def share_up(value: float, significant: int = 4) -> str:
    r"""Print a share in per cent, rounded up.

    Examples
    --------
    >>> share_up(0.5999981), share_up(0.0), share_up(1e-99)
    ('60\xa0%', '0\xa0%', '0.0001\xa0%')
    """
    return f"{_percent(value, significant, ROUND_CEILING)}\u00a0%"


def share_down(value: float, significant: int = 4) -> str:
    r"""Print a share in per cent, rounded down.

    Examples
    --------
    >>> share_down(0.99999), share_down(0.12346)
    ('99.99\xa0%', '12.34\xa0%')
    """
    return f"{_percent(value, significant, ROUND_FLOOR)}\u00a0%"


def size(value: float) -> str:
    """Print what is no promise, to four digits.

    Examples
    --------
    >>> size(2.34581), size(12345.6)
    ('2.346', '1.235e+04')
    """
    return f"{value:.4g}"


def _percent(value: float, significant: int, rounding: str) -> str:
    """Return a hundred times the digits that a share prints as, rounded."""
    exact = Decimal(repr(float(value))) * 100
    if exact == 0:
        return "0"
    unit = max(LEAST, min(Decimal(1), Decimal(1).scaleb(exact.adjusted() - significant + 1)))
    found = exact.quantize(unit, rounding)
    text = f"{found:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
