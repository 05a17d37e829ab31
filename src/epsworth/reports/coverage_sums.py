"""Whether the numbers of a window agree: with the law of the loss in its dimension, and with one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.coverage.exposure import ACCURACY, Kernels, kernels
from epsworth.coverage.usefulness import KEPT, Usefulness
from epsworth.reports.held import Held, agree

SAME = 2 * ACCURACY  # relative: by which advantages are rounded up
NEAR = 3 * ACCURACY  # relative: what kernels of a table, and integrated ones, may differ by
TINY = 1e-12  # relative: of what is read off, or divided by, once
FARTHEST = 1e7  # distances beyond are as good as this one
QUANTILES = {"advantage_worst": 1.0, "advantage_95": 0.95, "advantage_median": 0.5}


def check(held: Held, stops: Sequence[Held]) -> None:
    """Refuse a result whose numbers contradict one another.

    Claim: no advantage on the page is less than the law of the loss gives for the rows' own epsilons, and the window is
    the one that advantages and accuracies give.
    """
    epsilon, count = held.number("epsilon", 0), len(held.texts("columns"))
    agree(0 < epsilon < math.inf and count > 0, "epsilon or columns: damaged, there are none; profile again")
    law, profile = kernels(count), held.part("profile")
    ranks, own = _profile(profile, epsilon, law)
    listed = held.parts("most_exposed")
    found = _numbers(listed, "epsilon")
    fits = not listed or (abs(found.max() - own[-1]) <= TINY * own[-1] and found[0] == found.max())
    agree(fits, "most_exposed: they are not those of the profile; profile again")
    _least(_numbers(listed, "advantage"), law, found, "advantage: most_exposed")
    _low(held, law, own[-1] / epsilon)
    for name, quantile in QUANTILES.items():
        at = int(np.searchsorted(ranks, quantile - TINY))
        if stops and ranks[at] <= quantile + TINY:  # other ranks than those of the trade tell nothing of it
            distances = as_floats(_numbers(stops, "epsilon") * (own[at] / epsilon))
            _least(_numbers(stops, name), law, distances, f"{name}: trade")
    _above(held, stops, ranks, as_floats(own / epsilon), law)
    _window(held, _useful(held, stops))


def _numbers(parts: Sequence[Held], name: str) -> Floats:
    found = as_floats(np.array([one.number(name, 0) for one in parts]))
    agree(bool(np.isfinite(found).all()), f"{name}: damaged, it is infinite; profile again")
    return found


def _least(told: Floats, law: Kernels, distances: Floats, name: str) -> None:
    """Refuse advantages below those of rows with these epsilons."""
    least = law.adv(np.minimum(distances, FARTHEST)) * (1 - NEAR)
    agree(bool((told >= least).all()), f"{name} says less than these rows' epsilons admit; profile again")


def _profile(profile: Held, epsilon: float, law: Kernels) -> tuple[Floats, Floats]:
    """Return shares of the rows, and the epsilons that so many rows are at most."""
    ranks, own = profile.numbers("share_of_rows", 0, 1), profile.numbers("epsilon_of_row", 0, epsilon * (1 + TINY))
    told = profile.numbers("advantage", 0, 1)
    if not len(ranks) == len(own) == len(told) > 0 or len(ranks) > 1000:
        raise ValueError("profile: damaged or incomplete (columns of different lengths)")
    rising = all(one <= two for column in (ranks, own) for one, two in pairwise(column))
    agree(rising and ranks[-1] >= 1 - TINY, "share_of_rows: damaged, it must rise to 1; profile again")
    _least(as_floats(np.array(told)), law, as_floats(np.array(own)), "advantage: profile")
    return as_floats(np.array(ranks)), as_floats(np.array(own))


def _low(held: Held, law: Kernels, largest: float) -> None:
    """Compare what is said of the most exposed row with its share of epsilon, the largest one."""
    for name in ("low", "util"):
        if f"adv_{name}" in held:
            epsilon = held.number(f"eps_{name}", 0)
            agree(epsilon < math.inf, f"eps_{name}: damaged, it is infinite; profile again")
            told = as_floats(np.array([held.share(f"adv_{name}")]))
            _least(told, law, as_floats(np.array([epsilon * largest])), f"adv_{name}: it")
    safe = held.part("wishes").share("adv_safe") * (1 + SAME)
    if held.text("rule") == "advantage":
        agree(held.share("adv_low") <= safe, "window: damaged, it is not what the advantages say; profile again")


def _above(held: Held, stops: Sequence[Held], ranks: Floats, shares: Floats, law: Kernels) -> None:
    """Refuse shares of unsafe rows below what the profile says: rows of higher ranks lie higher."""
    safe, rows = held.part("wishes").share("adv_safe"), held.whole("rows")
    agree(rows > 0, "rows: damaged, there are none; profile again")
    distance = float(law.inverse_adv(min(safe, 1 - TINY), upwards=True)) * (1 + NEAR)
    for one in stops:
        unsafe = np.flatnonzero(one.number("epsilon") * shares > distance)
        least = max((1 - ranks[unsafe[0]]) * (rows - 1), 1) / rows if len(unsafe) else 0.0
        fits = one.share("rows_above_safe") >= least - TINY
        agree(fits, "rows_above_safe: fewer than the profile says; profile again")


def _useful(held: Held, stops: Sequence[Held]) -> Usefulness | None:
    """Return what was simulated, where the result holds it; the trade must say the same."""
    fits = ("utility" in held) == ("base_accuracy" in held)
    agree(fits, "utility: incomplete, it goes with base_accuracy; profile again")
    if "utility" not in held:
        return None
    rows = held.parts("utility")
    epsilons, accuracy, kept, lower = (
        _numbers(rows, name) for name in ("epsilon", "accuracy", "kept", "kept_lower")
    )  # fmt: skip
    rising = len(rows) > 0 and bool((np.diff(epsilons) > 0).all() and epsilons[0] > 0)
    shares = bool((accuracy <= 1).all() and (lower <= kept).all() and (kept <= 1).all())
    agree(rising and shares, "utility: damaged, epsilons must rise and bounds be shares; profile again")
    found = Usefulness(
        epsilons, accuracy, kept, lower, held.share("base_accuracy"), held.share("majority"), confidence=0.0
    )
    bounds = dict(zip(epsilons.tolist(), lower.tolist(), strict=True))
    for one in stops:
        epsilon = one.number("epsilon")
        if "accuracy" in one:
            agree(one.share("accuracy") <= found.at(epsilon), "accuracy: trade says more than utility; profile again")
        if "kept_lower" in one:
            fits = one.share("kept_lower") <= bounds.get(epsilon, 0.0)
            agree(fits, "kept_lower: trade says more than utility; profile again")
    return found


def _window(held: Held, useful: Usefulness | None) -> None:
    """Compare the window with the epsilons that it follows from."""
    low = held.number("eps_low", 0)
    told = held.numbers("window", 0) if "window" in held else None
    damaged = "window: damaged, it is not what the advantages say; profile again"
    agree(told is None or (len(told) == 2 and told[0] <= told[1]), damaged)
    if held.text("rule") != "advantage":
        agree(told == [low, held.number("eps_high", 0)], damaged)
        return
    agree(told is None or told[1] == low, damaged)
    if useful is None:
        agree(told is not None and told[0] == 0 and "eps_util" not in held, damaged)
        return
    start = held.number("eps_util", 0)
    agree(start == useful.least(KEPT), "eps_util: it is not what utility says; profile again")
    start = start if start <= low else useful.least_use()
    agree(told == (None if useful.hopeless or start > low else [start, low]), damaged)
