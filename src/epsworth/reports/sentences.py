"""The sentences of the utility page: written once, filled in here at first and by its script afterwards."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from epsworth.reports.numbers import SUBJECTS, Shown, View, share_up, units
from epsworth.results import how_sure
from epsworth.rounding import show_down, show_up
from epsworth.utility.choice import MAX_EPSILON

POINT = "ε\u00a0=\u00a0{total} per record"
PROMISED = "{where} {subject} with probability at least {lower}, {sure}"
WORDS = {  # which the script fills in by the same names
    "use": f"Use {{name}} at {POINT}: {PROMISED}; at least {{target}} was asked for.",
    "enough": (
        f"At {POINT} {{name}} is guaranteed most: {PROMISED}. That is enough for {{target}}; the recommendation is "
        "{best} at ε\u00a0=\u00a0{least}."
    ),
    "short": (
        f"At {POINT} nothing is guaranteed to be enough: {{name}} comes closest, {PROMISED}, and {{target}} was asked "
        "for; the recommendation is {best} at ε\u00a0=\u00a0{least}."
    ),
    "costly": (
        f"Not at ε\u00a0≤\u00a0{{most}}: at {POINT} {{name}} is guaranteed most, {PROMISED}. That would be enough for "
        "{target}, but protects less than was asked for."
    ),
    "none": (
        "Nothing in this report at ε\u00a0≤\u00a0{most} is guaranteed to reach {target}: {name} comes closest "
        f"at {POINT}, {PROMISED}."
    ),
    "never": (
        f"At {POINT} nothing is guaranteed to be enough: {{name}} comes closest, {PROMISED}, and {{target}} was asked "
        "for, which nothing in this report at ε\u00a0≤\u00a0{most} is guaranteed to reach."
    ),
    "nothing": "Nothing in this report has a delta as small as was asked for.",
    "pure": (
        "An attacker who held it {prior} likely that your values are the ones they suspect is at most {after} sure "
        "of it after seeing one release at ε\u00a0=\u00a0{total} per record."
    ),
    "weaker": (
        "An attacker who must say which of two values is yours, and held one of them {prior} likely, is right in at "
        "most {after} of the cases after seeing one release at ε\u00a0=\u00a0{total}, δ\u00a0=\u00a0{delta} per record."
    ),
    "certain": (
        "An attacker who held it {prior} likely that your values are the ones they suspect may be certain of it after "
        "seeing one release at ε\u00a0=\u00a0{total} per record: this protects next to nothing."
    ),
    "cap": "No mechanism at ε\u00a0=\u00a0{total} per record can promise more than {cap} to every input.",
    "free": "The ceiling is no obstacle: at ε\u00a0=\u00a0{total} per record it lies above {below}.",
    "enough_word": "guaranteed",
    "open_word": "left open",
    "short_word": "not enough",
}
MARGIN = 1 + 2.0**-46  # more than the few roundings of `observed`


def filled(text: str, words: Mapping[str, str]) -> str:
    """Fill in names in braces; what is filled in is not looked at again.

    Examples
    --------
    >>> filled("{a} and {b}", {"a": "{b}", "b": "c"})
    '{b} and c'
    """
    return re.sub(r"\{(\w+)\}", lambda found: words[found[1]], text)


def percent(whole: int, digits: int) -> str:
    r"""Print a share that is a whole number of 10^-digits, in per cent.

    Examples
    --------
    >>> percent(912, 3), percent(1000, 3), percent(5, 3), percent(91234, 5)
    ('91.2\xa0%', '100.0\xa0%', '0.5\xa0%', '91.234\xa0%')
    """
    text = str(whole).rjust(digits - 1, "0")
    cut = len(text) - (digits - 2)
    return f"{text[:cut]}.{text[cut:]}\u00a0%"


def protects(total: float, delta: float = 0.0) -> bool:
    """Tell whether a promise per record protects enough to be called good: what a recommendation accepts by default."""
    return observed(total, delta, 0.5) <= observed(MAX_EPSILON, 0.0, 0.5)


def observed(total: float, delta: float, prior: float) -> float:
    """Return what an observer may know after one release, as a share rounded outwards.

    Claim: under a pure promise, whoever gave a value a probability of at most ``prior`` gives it at most this much
    afterwards: p / (p + (1 - p) e^-E).  Under an (E, delta) promise, whoever must name the true one of two values, one
    of them held ``prior`` likely, is right with at most this probability.

    Examples
    --------
    >>> round(observed(1.0, 0.0, 0.5), 9), round(observed(1.0, 0.1, 0.99), 9)
    (0.731058579, 0.991)

    Notes
    -----
    With a and b the chances of saying "first" under the first and the second value, a <= e^E b + delta and
    1 - b <= e^E (1 - a) + delta.  p a + (1 - p)(1 - b) is largest in a corner of these: (1, delta), (delta, 1), or
    where both bind, with a = 1 - b = (e^E + delta) / (e^E + 1).
    """
    other, fade = 1 - prior, math.exp(-total)
    if delta > 0:
        found = max(prior + other * delta, other + prior * delta, (1 + fade * delta) / (1 + fade))
    else:
        found = prior / (prior + other * fade)
    return min(1.0, found * MARGIN)


def observer(total: float, delta: float, prior: int) -> str:
    """Say what an epsilon means to an observer; the prior in per cent."""
    after = observed(total, delta, prior / 100)
    kind = "certain" if share_up(after) == share_up(1.0) else "weaker" if delta > 0 else "pure"
    words = {"prior": f"{prior}\u00a0%", "after": share_up(after), "total": show_up(total), "delta": show_up(delta)}
    return filled(WORDS[kind], words)


@dataclass(frozen=True)
class Standing:
    """What the page says at first.

    Attributes
    ----------
    point : tuple of int or None
        Mechanism and epsilon looked at, by number among those shown; None where no delta is admitted.
    """

    shown: Shown
    point: tuple[int, int] | None

    @classmethod
    def of(cls, shown: Shown) -> Standing:
        """Look at what was chosen, or at what comes closest."""
        choice, curves = shown.found.choice, shown.curves
        if choice is None:
            return cls(shown, shown.top(shown.views[0]))
        e = curves.epsilons[shown.at].tolist().index(choice.epsilon)
        return cls(shown, (curves.mechanisms.index(choice.mechanism), e))

    @property
    def view(self) -> View:
        """The first one."""
        return self.shown.views[0]

    @property
    def total(self) -> float:
        """Epsilon per record looked at."""
        return float(self.shown.totals[self.point]) if self.point is not None else self.shown.stops[-1]

    @property
    def delta(self) -> float:
        """Delta per record looked at."""
        return 0.0 if self.point is None else self.shown.promises[self.point[0]][self.point[1]].delta

    @property
    def costly(self) -> bool:
        """Whether what is looked at keeps enough, but does not protect enough."""
        assert self.point is not None
        enough = self.view.bounds.lower[self.point] >= self.shown.found.at_least
        return bool(enough and not self.shown.accepted[self.point])

    def sentence(self) -> str:
        """Return the decision."""
        if self.point is None:
            return WORDS["nothing"]
        kind = "use" if self.shown.found.feasible else "costly" if self.costly else "none"
        return filled(WORDS[kind], self.words())

    def words(self) -> dict[str, str]:
        """Return what the sentences fill in."""
        shown, view = self.shown, self.view
        assert self.point is not None
        m, e = self.point
        lower = units(view.bounds.lower[m : m + 1, e], shown.digits, upwards=False)[0]
        return {
            "name": shown.names[m],
            "total": show_up(self.total),
            "where": view.where,
            "subject": SUBJECTS[view.of],
            "lower": percent(lower, shown.digits),
            "sure": how_sure(shown.curves.confidence).replace(" %", "\u00a0%"),
            "target": percent(shown.target, shown.digits),
            "most": show_down(shown.found.max_epsilon),
        }
