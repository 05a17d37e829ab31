"""What the utility page holds of curves: averages, worst cases, shares of records; rounded outwards to whole units.

A bound is kept as a whole number of 10^-digits, lower ones rounded down and upper ones up. Rounding to fewer digits
afterwards gives what rounding the result itself would give, so that every number shown is that of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.guarantees import STRENGTH, Guarantee, ceiling, weakness
from epsworth.reports.escaping import cleaned
from epsworth.reports.names import mechanism_name
from epsworth.utility.choice import Limits
from epsworth.utility.curves import FEWEST_ROWS, QUANTITIES, Curves, Quantity
from epsworth.utility.population import Population
from epsworth.utility.recommendation import Recommendation

SIGNIFICANT = 3  # digits of a share
LEAST = Decimal("0.0001")  # per cent of a share that are told apart
DIGITS = 3  # of what is shown; more only where a target has more ..
MOST_DIGITS = 18  # .. as far as whole numbers go
MOST_POINTS = 720  # mechanisms x epsilons on a page
MOST_POINTS_OF_TWO = 400  # of accuracy beside stability
MOST_EPSILONS = 120
MOST_MECHANISMS = 24
SHARES = (95, 75, 50)  # per cent of the records that keep at least so much; all of them keep the worst case
WORST = 5  # records that are listed, by mechanism and epsilon
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"  # that count places, in order
SUBJECTS = {"stability": "the label stays the same", "accuracy": "the label is the true one"}


def units(values: Floats, digits: int, *, upwards: bool) -> list[Any]:
    """Return whole numbers of 10^-digits, rounded one way from the digits that the values print as.

    Examples
    --------
    >>> units(np.array([0.4519, 1.0]), 3, upwards=False), units(np.array([[0.4511]]), 3, upwards=True)
    ([451, 1000], [[452]])
    """
    rounding = ROUND_CEILING if upwards else ROUND_FLOOR
    flat = [int(Decimal(repr(v)).scaleb(digits).to_integral_value(rounding)) for v in values.ravel().tolist()]
    found: Any = np.array(flat, dtype=object).reshape(values.shape).tolist()
    return cast("list[Any]", found)


def share_up(value: float) -> str:
    r"""Print a share in per cent, rounded up; what is less than 100 % never reads so, but within a millionth.

    Examples
    --------
    >>> share_up(0.5999981), share_up(0.0), share_up(1e-99), share_up(0.999964)
    ('60\xa0%', '0\xa0%', '0.0001\xa0%', '99.997\xa0%')
    """
    return f"{_percent(value, ROUND_CEILING)}\u00a0%"


def share_down(value: float) -> str:
    r"""Print a share in per cent, rounded down; near 100 % with the digits of what is lacking.

    Examples
    --------
    >>> share_down(0.99999), share_down(0.12346)
    ('99.999\xa0%', '12.3\xa0%')
    """
    return f"{_percent(value, ROUND_FLOOR)}\u00a0%"


def _percent(value: float, rounding: str) -> str:
    """Return a hundred times the digits that a share prints as, rounded; the page's script does the same."""
    exact = Decimal(repr(float(value))) * 100
    if exact == 0:
        return "0"
    unit = max(LEAST, min(Decimal(1), Decimal(1).scaleb(exact.adjusted() - SIGNIFICANT + 1)))
    found = exact.quantize(unit, rounding)
    near = 0 if rounding == ROUND_CEILING else 10  # units from 100 %, where more digits are told
    while found + near * unit >= 100 > exact and unit > LEAST:
        unit /= 10
        found = exact.quantize(unit, rounding)
    text = f"{found:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class View:
    """One quantity, over the average, the worst record, or one record.

    Attributes
    ----------
    bounds : Interval of ndarray, shape ``(mechanisms, epsilons)``
        Of the epsilons shown.
    """

    of: Quantity
    on: str | int
    bounds: Interval
    records: int

    @property
    def where(self) -> str:
        """Over what, as it stands within a sentence."""
        if not isinstance(self.on, str):
            return f"for record {self.on}"
        if self.records == 1:
            return "for the one record"
        return f"{'on average over' if self.on == 'average' else 'even for the worst of'} these {self.records} records"

    @property
    def title(self) -> str:
        """A few words."""
        if not isinstance(self.on, str) or self.records == 1:
            return f"record {self.on}" if not isinstance(self.on, str) else "the one record"
        return "average" if self.on == "average" else "worst record"

    @property
    def limited(self) -> bool:
        """Whether the ceiling speaks of it: of every input, so of the worst."""
        return self.of == "stability" and self.on != "average"


@dataclass(frozen=True)
class Shown:
    """Curves and a choice, as a page shows them.

    Attributes
    ----------
    found : Recommendation
        What was asked for and chosen.
    populations : mapping from quantities to Population
        Of the epsilons shown; empty where nothing can be said.
    at : ndarray
        The epsilons shown, by number.
    """

    curves: Curves
    found: Recommendation
    populations: Mapping[Quantity, Population]
    at: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        curves: Curves,
        found: Recommendation,
        populations: Mapping[Quantity, Population] | None = None,
    ) -> Shown:
        """Choose the epsilons that fit on a page, that of the choice among them."""
        count = len(curves.epsilons)
        if len(curves.mechanisms) > MOST_MECHANISMS:
            raise ValueError(
                f"a page shows at most {MOST_MECHANISMS} mechanisms, these curves hold {len(curves.mechanisms)}; "
                "ask again about fewer"
            )
        points = MOST_POINTS if curves.accuracy is None else MOST_POINTS_OF_TWO
        most = max(2, min(MOST_EPSILONS, points // len(curves.mechanisms)))
        at = np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)
        if found.choice is not None:
            at = np.append(at, np.flatnonzero(curves.epsilons == found.choice.epsilon)[0])
        at = np.unique(at)
        if populations is None:
            enough = len(curves.labels) >= FEWEST_ROWS
            populations = {of: curves.population(of, at=at.tolist()) for of in cls._held(curves) if enough}
        else:
            populations = {of: _at(one, at) for of, one in populations.items()}
        return cls(curves, found, populations, at)

    @staticmethod
    def _held(curves: Curves) -> tuple[Quantity, ...]:
        return QUANTITIES if curves.accuracy is not None else QUANTITIES[:1]

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Those that the curves hold, that asked for first."""
        return tuple(sorted(self._held(self.curves), key=lambda of: of != self.found.of))

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What can be looked at, what was asked for first."""
        count = len(self.curves.labels)
        ons: list[str | int] = ["worst"] if count == 1 else ["average", "worst"]
        if self.found.on not in ons:
            ons = [self.found.on, *ons] if count > 1 else [self.found.on]
        pairs = sorted(((of, on) for of in self.quantities for on in ons), key=lambda pair: pair[1] != self.found.on)
        return tuple(
            View(of, on, Interval(*(side[:, self.at] for side in self.curves.select(on, of))), count)
            for of, on in sorted(pairs, key=lambda pair: pair[0] != self.found.of)
        )

    @cached_property
    def digits(self) -> int:
        """So many that a target is a whole number of units, as far as the script can count."""
        asked = -int(Decimal(repr(self.found.at_least)).as_tuple().exponent)
        return min(max(DIGITS, asked), MOST_DIGITS)

    @cached_property
    def promises(self) -> list[list[Guarantee]]:
        """Per record, of the epsilons shown."""
        return [[row[e] for e in self.at] for row in self.curves.guarantees]

    @cached_property
    def names(self) -> list[str]:
        """Mechanisms by title and words, with what is weaker than pure about their promise."""
        pairs = zip(self.curves.mechanisms, self.promises, strict=True)
        return [cleaned(mechanism_name(words) + weakness(row)) for words, row in pairs]

    @cached_property
    def admitted(self) -> NDArray[np.bool_]:
        """Which points are accepted, by their delta."""
        return self._within(Limits(self.found.limits.delta))

    @cached_property
    def accepted(self) -> NDArray[np.bool_]:
        """Which points protect as much as was asked for."""
        return self._within(self.found.limits)

    def _within(self, limits: Limits) -> NDArray[np.bool_]:
        return np.array([[limits.accept(promise) for promise in row] for row in self.promises])

    @cached_property
    def totals(self) -> Floats:
        """Epsilons per record."""
        return np.array([[promise.epsilon for promise in row] for row in self.promises])

    @cached_property
    def stops(self) -> list[float]:
        """Epsilons per record that the slider stops at."""
        return sorted(set(self.totals[self.admitted].tolist())) or sorted(set(self.totals.ravel().tolist()))

    @cached_property
    def caps(self) -> list[float]:
        """What no mechanism can promise to every input, by stop."""
        labels, limit = int(self.curves.labels_possible.max()), self.admitted if self.admitted.any() else True
        deltas = np.array([[promise.delta for promise in row] for row in self.promises])
        within = [(self.totals <= stop) & limit for stop in self.stops]
        return [
            ceiling(stop, labels, float(deltas[inside].max())) for stop, inside in zip(self.stops, within, strict=True)
        ]

    def caps_at(self, total: float) -> Floats:
        """Return the ceiling at a stop, as an array of one."""
        return np.array([self.caps[self.stops.index(total)]])

    @cached_property
    def targets(self) -> list[int]:
        """Where the target's slider stops, in units."""
        unit = 10**self.digits
        least = min(500, *(int(1000 * v) for v in [self.found.at_least])) // 5 * 5
        steps = range(max(least, 5) * unit // 1000, unit + 1, 5 * unit // 1000)
        return sorted({*steps, self.target})

    @cached_property
    def target(self) -> int:
        """What was asked for, in units; rounded up where it has more digits than are shown."""
        return int(Decimal(repr(self.found.at_least)).scaleb(self.digits).to_integral_value(ROUND_CEILING))

    def top(self, view: View) -> tuple[int, int] | None:
        """Return the point with the highest guarantee among those accepted, else among those admitted."""
        if not self.admitted.any():
            return None
        among = self.accepted if self.accepted.any() else self.admitted
        lower = np.where(among, view.bounds.lower, -1.0)
        m, e = np.unravel_index(int(lower.argmax()), lower.shape)
        return int(m), int(e)

    def affordable(self, total: float) -> list[int | None]:
        """Return, by mechanism, the epsilon shown that costs most within a budget."""
        inside = self.admitted & (self.totals <= total)
        best = np.where(inside, self.totals, -1.0).argmax(axis=1).tolist()
        return [e if inside[m, e] else None for m, e in enumerate(best)]

    @cached_property
    def unfinished(self) -> bool:
        """Whether nothing is known of some record, as the run ended before."""
        bounds = self.curves.stability
        return bool(((bounds.lower <= 0) & (bounds.upper >= 1)).any())

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the script reads."""
        digits = self.digits
        budgets = sorted(set(self.totals.ravel().tolist()))
        kinds = sorted({self._kind(promise) for row in self.promises for promise in row})
        served = {of: self.curves.bounds(of).lower[:, self.at] for of in self.quantities}
        shares = {}
        for of in self.quantities:
            order = np.sort(served[of], axis=2)
            shares[of] = [units(order[:, :, _rank(share, order.shape[2])], digits, upwards=False) for share in SHARES]
        rows = served["stability"].argsort(axis=2, kind="stable")[:, :, :WORST]
        lowest = units(np.take_along_axis(served["stability"], rows, axis=2), digits, upwards=False)
        listed = np.unique(rows)
        worst = (
            np.stack([np.searchsorted(listed, rows), np.array(lowest)], axis=3).reshape(*rows.shape[:2], -1).tolist()
        )
        return {
            "digits": digits,
            "names": self.names,
            "epsilons": self.curves.epsilons[self.at].tolist(),
            "budgets": budgets,  # and where they stand: most are the same for all mechanisms
            "totals": np.searchsorted(budgets, self.totals).tolist(),
            "kinds": kinds,
            "promises": [[kinds.index(self._kind(promise)) for promise in row] for row in self.promises],
            "admitted": _bits(self.admitted),
            "accepted": _bits(self.accepted),
            "stops": self.stops,
            "caps": units(np.array(self.caps), digits, upwards=True),
            "targets": self.targets,
            "target": self.target,
            "views": [self._view(view) for view in self.views],
            "population": {
                of: {side: units(getattr(one, side), digits, upwards=side == "upper") for side in ("lower", "upper")}
                for of, one in self.populations.items()
            },
            "shares": shares,
            "worst": worst,
            "records": [[r, cleaned(self.curves.labels[r], 40)] for r in listed.tolist()],  # by the number used there
        }

    @staticmethod
    def _kind(promise: Guarantee) -> tuple[int, float]:
        return STRENGTH.index(promise.notion), promise.delta

    def _view(self, view: View) -> dict[str, Any]:
        lower, upper = view.bounds
        order = np.argsort(-lower, axis=0, kind="stable")
        return {
            "of": view.of,
            "lower": units(lower, self.digits, upwards=False),
            "upper": units(upper, self.digits, upwards=True),
            "rank": ["".join(LETTERS[r] for r in row) for row in np.argsort(order, axis=0, kind="stable").tolist()],
            "where": view.where,
            "subject": SUBJECTS[view.of],
            "top": self.top(view),
            "average": view.on == "average",
            "worst": view.on == "worst",
        }


def _rank(share: int, count: int) -> int:
    """Return which of the sorted records at least ``share`` per cent of them reach.

    Examples
    --------
    >>> _rank(100, 10), _rank(75, 10), _rank(50, 1)
    (0, 2, 0)
    """
    return count + (-share * count // 100)


def _bits(points: NDArray[np.bool_]) -> list[str]:
    return ["".join("01"[int(one)] for one in row) for row in points]


def _at(found: Population, at: NDArray[np.intp]) -> Population:
    sides = (found.lower[:, at], found.upper[:, at])
    return Population(*sides, found.confidence, found.records, found.spent)
