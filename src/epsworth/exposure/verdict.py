"""The advice on a window of epsilons, in a sentence made of its numbers alone."""

from __future__ import annotations

import math

from epsworth.exposure.usefulness import GRID, useless
from epsworth.rounding import show_down, show_up


def verdict(
    *,
    rule: str,
    epsilon_low: float,
    epsilon_util: float | None,
    advised: tuple[float, float] | None,
    adv_low: float,
    adv_safe: float,
    adv_util: float | None,
    base: float | None,
    majority: float | None,
) -> str:
    """Return the advice, and a warning where the model is useless to begin with; names as in `Window`.

    Examples
    --------
    >>> from epsworth.exposure.verdict import verdict
    >>> verdict(rule="advantage", epsilon_low=6.81, epsilon_util=None, advised=(0.0, 6.81), adv_low=0.1, adv_safe=0.1,
    ...         adv_util=None, base=None, majority=None)
    "Consider epsilon up to 6.81: every row's membership advantage is at most 0.1 up to epsilon 6.81."
    """
    hopeless = useless(base, majority)
    said = _advice(rule, epsilon_low, epsilon_util, advised, adv_low, adv_safe, adv_util, hopeless)
    if not hopeless:
        return said
    return (
        f"{said} But even without noise the model (accuracy {base:.3f}) is useless: no better than always answering "
        f"the commoner label ({majority:.3f})."
    )


def _advice(
    rule: str, epsilon_low: float, epsilon_util: float | None, advised: tuple[float, float] | None, adv_low: float,
    adv_safe: float, adv_util: float | None, hopeless: bool,
) -> str:  # fmt: skip
    low = show_down(epsilon_low, 3)
    if rule == "plateau":
        return (
            f"Loss/epsilon ratio plateau (the published rule, which is no protection): it ends at epsilon {low}, where "
            f"the advantage against the most exposed row is already {show_up(adv_low, 3)}."
        )
    safe = f"every row's membership advantage is at most {adv_safe:g} up to epsilon {low}"
    if epsilon_util is None:
        return f"Consider epsilon up to {low}: {safe}."
    start = None if advised is None else show_up(advised[0], 3)
    if hopeless:
        return f"No epsilon is advised; {safe}."
    if epsilon_util <= epsilon_low:
        return f"Choose epsilon between {start} and {low}: utility costs nothing there, and {safe}."
    use = (
        f"from {start} on the model is better than the commoner label"
        if start
        else "up to there it is no better than the commoner label, so that none is advised"
    )
    if epsilon_util == math.inf:
        return f"No epsilon up to {GRID[1]:g} keeps the accuracy; {safe}; {use}. Take more rows or a larger l2."
    paid = "" if adv_util is None else f", where the most exposed row's advantage is {show_up(adv_util, 3)}"
    return f"A trade-off: accuracy is kept from epsilon {show_up(epsilon_util, 3)} on{paid}, but {safe}; {use}."
