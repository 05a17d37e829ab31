"""Numbers of a page of curves.

Averages, worst cases and shares of records, rounded outwards to whole units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.guarantees import STRENGTH, Guarantee, ceiling, weakness
from epsworth.report.text import EVEN, PRIORS, SPACE, SUBJECTS, mechanism_name, observed, printable, share_up, units
from epsworth.rounding import show_up
from epsworth.utility.choice import Limits
from epsworth.utility.curves import FEWEST_ROWS, QUANTITIES, Curves, Quantity
from epsworth.utility.population import Population
from epsworth.utility.recommendation import Recommendation

DIGITS, MOST_DIGITS = 3, 18  # of shares: more only where a target has more, as far as whole numbers go
MOST_POINTS, MOST_POINTS_OF_TWO = 720, 240  # mechanisms x epsilons on a page; with accuracy beside stability
MOST_EPSILONS = 120
MOST_MECHANISMS = 24
SHARES = (95, 75, 50)  # per cent of the records that keep at least so much; all of them keep the worst case
WORST = 5  # records in a list, by mechanism and epsilon

Place = tuple[int, int]  # a mechanism and an epsilon of the page, by number


@dataclass(frozen=True)
class Statistic:
    """Bounds by mechanism and epsilon of one quantity: of its average, of the worst record, or of one record."""

    of: Quantity
    on: str | int
    bounds: Interval
    records: int

    @property
    def title(self) -> str:
        """A few words."""
        if not isinstance(self.on, str):
            return f"record {self.on}"
        return "the one record" if self.records == 1 else "average" if self.on == "average" else "worst record"

    @property
    def where(self) -> str:
        """The records, as a part of a sentence."""
        if self.records == 1 or not isinstance(self.on, str):
            return f"for {self.title}"
        where = "on average over" if self.on == "average" else "even for the worst of"
        return f"{where} these {self.records:,} records"

    @property
    def has_ceiling(self) -> bool:
        """Whether the ceiling speaks of it: of every input, so of the worst."""
        return self.of == "stability" and self.on != "average"


@dataclass(frozen=True)
class CurvesView:
    """Curves and a recommendation at the epsilons of a page (``columns``, by number); populations may be none.

    Where no share of the labels is ``requested``, what keeps most takes the choice's place.
    """

    curves: Curves
    recommendation: Recommendation
    populations: Mapping[Quantity, Population]
    columns: NDArray[np.intp]
    requested: bool = True

    @classmethod
    def of(
        cls, curves: Curves, recommendation: Recommendation,
        populations: Mapping[Quantity, Population] | None = None, *, requested: bool = True,
    ) -> CurvesView:  # fmt: skip
        """Choose the epsilons that fit on a page, those of the choice and of what comes closest among them."""
        count = len(curves.epsilons)
        check_mechanisms(len(curves.mechanisms))
        points = MOST_POINTS if curves.accuracy is None else MOST_POINTS_OF_TWO
        most = max(2, min(MOST_EPSILONS, points // len(curves.mechanisms)))
        columns = np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)
        epsilons = [point.epsilon for point in (recommendation.choice, recommendation.closest) if point is not None]
        columns = np.unique([*columns, *np.flatnonzero(np.isin(curves.epsilons, epsilons))])
        people: dict[Quantity, Population] = {}
        if len(curves.labels) >= FEWEST_ROWS and populations is None:
            people = {of: curves.population(of, at=columns.tolist()) for of in quantities_of(curves)}
        elif len(curves.labels) >= FEWEST_ROWS and populations is not None:
            people = {
                of: replace(population, lower=population.lower[:, columns], upper=population.upper[:, columns])
                for of, population in populations.items()
            }
        return cls(curves, recommendation, people, columns, requested)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Those of the curves, the recommendation's first."""
        return tuple(sorted(quantities_of(self.curves), key=lambda of: of != self.recommendation.of))

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """Everything that a reader can choose to look at, the recommendation's first."""
        count = len(self.curves.labels)
        ons = dict.fromkeys((self.recommendation.on, *(("average", "worst") if count > 1 else ())))
        return tuple(
            Statistic(of, on, Interval(*(side[:, self.columns] for side in self.curves.select(on, of))), count)
            for of in self.quantities
            for on in ons
        )

    @cached_property
    def digits(self) -> int:
        """So many that a target is a whole number of units, as far as the script can count."""
        digits = -int(Decimal(repr(self.recommendation.at_least)).as_tuple().exponent)
        return min(max(DIGITS, digits), MOST_DIGITS)

    @cached_property
    def guarantees(self) -> list[list[Guarantee]]:
        """Promises per record, by mechanism and epsilon of the page."""
        return [[row[e] for e in self.columns] for row in self.curves.guarantees]

    @cached_property
    def names(self) -> list[str]:
        """Mechanisms by title and words, with what is weaker than pure about their promise."""
        pairs = zip(self.curves.mechanisms, self.guarantees, strict=True)
        return [printable(mechanism_name(words) + weakness(row)) for words, row in pairs]

    def _of_guarantees(self, of: Callable[[Guarantee], Any]) -> NDArray[Any]:
        return np.array([[of(guarantee) for guarantee in row] for row in self.guarantees])

    @cached_property
    def within_delta(self) -> NDArray[np.bool_]:
        """Which points have an acceptable delta."""
        return self._of_guarantees(Limits(self.recommendation.limits.delta).accept)

    @cached_property
    def within_limits(self) -> NDArray[np.bool_]:
        """Which points protect enough."""
        return self._of_guarantees(self.recommendation.limits.accept)

    @cached_property
    def totals(self) -> Floats:
        """Epsilons per record."""
        return self._of_guarantees(lambda guarantee: guarantee.epsilon)

    @cached_property
    def stops(self) -> list[float]:
        """Epsilons per record of the slider."""
        return sorted(set(self.totals[self.within_delta].tolist())) or sorted(set(self.totals.ravel().tolist()))

    @cached_property
    def ceilings(self) -> list[float]:
        """The most that any mechanism can promise to every input, by stop."""
        labels, limit = int(self.curves.labels_possible.max()), self.within_delta if self.within_delta.any() else True
        deltas = self._of_guarantees(lambda guarantee: guarantee.delta)
        return [ceiling(stop, labels, float(deltas[(self.totals <= stop) & limit].max())) for stop in self.stops]

    @property
    def has_ceiling(self) -> bool:
        """Whether there is a ceiling below 1: some record can get several labels."""
        return int(self.curves.labels_possible.max()) > 1

    @cached_property
    def targets(self) -> list[int]:
        """Stops of the target's slider, in units."""
        whole = 10**self.digits
        least = min(500, int(1000 * self.recommendation.at_least)) // 5 * 5
        steps = range(max(least, 5) * whole // 1000, whole + 1, 5 * whole // 1000)
        return sorted({*steps, self.target})

    @cached_property
    def target(self) -> int:
        """The least share of the labels, in units; rounded up where it has more digits than the page."""
        share = Decimal(repr(self.recommendation.at_least))
        return int(share.scaleb(self.digits).to_integral_value(ROUND_CEILING))

    @cached_property
    def point(self) -> Place | None:
        """The mechanism and epsilon that the page opens with: the choice, or what comes closest; None for no delta."""
        choice = self.recommendation.choice if self.requested else None
        if choice is None:
            return self.top(self.statistics[0])
        e = self.curves.epsilons[self.columns].tolist().index(choice.epsilon)
        return self.curves.mechanisms.index(choice.mechanism), e

    @property
    def total(self) -> float:
        """The epsilon per record that the page opens with."""
        return float(self.totals[self.point]) if self.point is not None else self.stops[-1]

    @property
    def delta(self) -> float:
        """The delta that the page opens with."""
        return 0.0 if self.point is None else self.guarantees[self.point[0]][self.point[1]].delta

    def top(self, statistic: Statistic) -> Place | None:
        """Return the point with the highest guarantee within the limits, else within those of delta alone."""
        if not self.within_delta.any():
            return None
        among = self.within_limits if self.within_limits.any() else self.within_delta
        lower, upper = (np.where(among, side, -1.0) for side in statistic.bounds)
        m, e = np.unravel_index(int(np.where(lower == lower.max(), upper, -1.0).argmax()), lower.shape)
        return int(m), int(e)

    def affordable(self, total: float) -> list[int | None]:
        """Return, by mechanism, the epsilon of the page that costs most within a budget."""
        inside = self.within_delta & (self.totals <= total)
        best = np.where(inside, self.totals, -1.0).argmax(axis=1).tolist()
        return [e if inside[m, e] else None for m, e in enumerate(best)]

    @cached_property
    def incomplete(self) -> bool:
        """Whether nothing is known of some record, as the run ended before."""
        bounds = self.curves.stability
        return bool(((bounds.lower <= 0) & (bounds.upper >= 1)).any())

    def _units(self, values: Floats, side: str = "lower") -> list[Any]:
        return units(values, self.digits, upwards=side == "upper")

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the script reads: Python has chosen and rounded for every stop of a slider."""
        promises = sorted({(guarantee.epsilon, guarantee.delta) for row in self.guarantees for guarantee in row})
        ascending = {of: np.sort(self.curves.bounds(of).lower[:, self.columns], axis=2) for of in self.quantities}
        count, lower = len(self.curves.labels), self.curves.lower[:, self.columns]
        ranks = [count + (-share * count // 100) for share in SHARES]  # so many per cent of the records reach these
        rows = lower.argsort(axis=2, kind="stable")[:, :, :WORST]
        records, lowest = np.unique(rows), self._units(np.take_along_axis(lower, rows, axis=2))
        worst = np.stack([np.searchsorted(records, rows), np.array(lowest)], axis=3)
        return {
            "digits": self.digits,
            "names": self.names,
            "promises": [_promise(*promise) for promise in promises],
            "promised": [[promises.index((one.epsilon, one.delta)) for one in row] for row in self.guarantees],
            "asked": self.requested,
            "accepted": ["".join("01"[int(good)] for good in row) for row in self.within_limits],
            "stops": self.stops,
            "stops_shown": [show_up(stop) for stop in self.stops],
            "at": [self.affordable(stop) for stop in self.stops],
            "caps": self._units(np.array(self.ceilings), "upper"),
            "targets": self.targets,
            "target": self.target,
            "priors": [f"{prior}{SPACE}%" for prior in PRIORS],
            "even": PRIORS.index(EVEN),
            "certain": share_up(1.0),
            "views": [self._numbers_of(statistic) for statistic in self.statistics],
            "population": {
                of: {side: self._units(getattr(population, side), side) for side in ("lower", "upper")}
                for of, population in self.populations.items()
            },
            "shares": {of: [self._units(bounds[:, :, rank]) for rank in ranks] for of, bounds in ascending.items()},
            "worst": worst.reshape(*rows.shape[:2], -1).tolist(),  # record, by its number below, and bound
            "records": [[record, printable(self.curves.labels[record], 40)] for record in records.tolist()],
        }

    def _numbers_of(self, statistic: Statistic) -> dict[str, Any]:
        lower = self._units(statistic.bounds.lower)
        return {
            "of": statistic.of, "lower": lower, "upper": self._units(statistic.bounds.upper, "upper"),
            "where": statistic.where, "subject": SUBJECTS[statistic.of], "top": self.top(statistic),
            "chosen": [self._cheapest(statistic, np.array(lower) >= target) for target in self.targets],
            "best": [self._best(statistic, stop) for stop in self.stops],
            "average": statistic.on == "average", "worst": statistic.on == "worst",
        }  # fmt: skip

    def _cheapest(self, statistic: Statistic, enough: NDArray[np.bool_]) -> Place | None:
        """Return the recommended point: strongest notion, then least epsilon, least delta, most guaranteed."""

        def cost(point: Place) -> tuple[float, ...]:
            promise = self.guarantees[point[0]][point[1]]
            return STRENGTH.index(promise.notion), promise.epsilon, promise.delta, -float(statistic.bounds.lower[point])

        points = ((m, int(row.argmax())) for m, row in enumerate(enough & self.within_limits) if row.any())
        return min(points, key=cost, default=None)

    def _best(self, statistic: Statistic, stop: float) -> Place | None:
        """Return the point with the highest guarantee within a budget."""
        points = ((m, e) for m, e in enumerate(self.affordable(stop)) if e is not None)
        return max(points, key=lambda point: float(statistic.bounds.lower[point]), default=None)


def _promise(epsilon: float, delta: float) -> dict[str, Any]:
    """Return what the script prints of a promise, from every prior."""
    after = [share_up(observed(epsilon, delta, prior / 100)) for prior in PRIORS]
    shown = {"shown": show_up(epsilon), "delta_shown": show_up(delta)}
    return {"epsilon": epsilon, "delta": delta, **shown, "after": after}


def check_mechanisms(count: int) -> None:
    """Refuse curves of too many mechanisms for a page."""
    if count > MOST_MECHANISMS:
        raise ValueError(f"a page shows at most {MOST_MECHANISMS} mechanisms, got {count}; ask about fewer")


def quantities_of(curves: Curves) -> tuple[Quantity, ...]:
    """Return the quantities that curves hold."""
    return QUANTITIES[: 1 + (curves.accuracy is not None)]
