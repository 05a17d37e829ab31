"""What a page of curves holds: averages, worst cases, shares of records; rounded outwards to whole units."""

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
from epsworth.report.text import EVEN, PRIORS, SPACE, SUBJECTS, cleaned, mechanism_name, observed, share_up, units
from epsworth.rounding import show_up
from epsworth.utility.choice import Limits
from epsworth.utility.curves import FEWEST_ROWS, QUANTITIES, Curves, Quantity
from epsworth.utility.population import Population
from epsworth.utility.recommendation import Recommendation

DIGITS, MOST_DIGITS = 3, 18  # of what is shown: more only where a target has more, as far as whole numbers go
MOST_POINTS, MOST_POINTS_OF_TWO = 720, 400  # mechanisms x epsilons on a page; with accuracy beside stability
MOST_EPSILONS = 120
MOST_MECHANISMS = 24
SHARES = (95, 75, 50)  # per cent of the records that keep at least so much; all of them keep the worst case
WORST = 5  # records that are listed, by mechanism and epsilon


@dataclass(frozen=True)
class View:
    """One quantity, over the average, the worst record, or one record; bounds by mechanism and epsilon shown."""

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
        """Over what, as it stands within a sentence."""
        if self.records == 1 or not isinstance(self.on, str):
            return f"for {self.title}"
        return f"{'on average over' if self.on == 'average' else 'even for the worst of'} these {self.records} records"

    @property
    def limited(self) -> bool:
        """Whether the ceiling speaks of it: of every input, so of the worst."""
        return self.of == "stability" and self.on != "average"


@dataclass(frozen=True)
class Shown:
    """Curves and a choice, as a page shows them: at some of the epsilons, by number; populations may be none.

    Where nobody asked for a share of the labels (``asked`` is False), what keeps most takes the choice's place.
    """

    curves: Curves
    found: Recommendation
    populations: Mapping[Quantity, Population]
    at: NDArray[np.intp]
    asked: bool = True

    @classmethod
    def of(
        cls,
        curves: Curves,
        found: Recommendation,
        populations: Mapping[Quantity, Population] | None = None,
        *,
        asked: bool = True,
    ) -> Shown:
        """Choose the epsilons that fit on a page, those of the choice and of what comes closest among them."""
        count = len(curves.epsilons)
        if len(curves.mechanisms) > MOST_MECHANISMS:
            raise ValueError(
                f"a page shows at most {MOST_MECHANISMS} mechanisms, these curves hold {len(curves.mechanisms)}; "
                "ask again about fewer"
            )
        points = MOST_POINTS if curves.accuracy is None else MOST_POINTS_OF_TWO
        most = max(2, min(MOST_EPSILONS, points // len(curves.mechanisms)))
        at = np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)
        for one in (found.choice, found.closest):
            at = at if one is None else np.append(at, np.flatnonzero(curves.epsilons == one.epsilon)[0])
        at, people = np.unique(at), dict[Quantity, Population]()
        if len(curves.labels) >= FEWEST_ROWS and populations is None:
            people = {of: curves.population(of, at=at.tolist()) for of in held(curves)}
        elif len(curves.labels) >= FEWEST_ROWS and populations is not None:
            of_all = populations.items()
            people = {of: replace(one, lower=one.lower[:, at], upper=one.upper[:, at]) for of, one in of_all}
        return cls(curves, found, people, at, asked)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Those that the curves hold, that asked for first."""
        return tuple(sorted(held(self.curves), key=lambda of: of != self.found.of))

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What can be looked at, what was asked for first."""
        count = len(self.curves.labels)
        ons: list[str | int] = ["worst"] if count == 1 else ["average", "worst"]
        if self.found.on not in ons:
            ons = [self.found.on, *ons] if count > 1 else [self.found.on]
        ons.sort(key=lambda on: on != self.found.on)
        return tuple(
            View(of, on, Interval(*(side[:, self.at] for side in self.curves.select(on, of))), count)
            for of in self.quantities
            for on in ons
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

    def _each(self, of: Callable[[Guarantee], Any]) -> NDArray[Any]:
        return np.array([[of(promise) for promise in row] for row in self.promises])

    @cached_property
    def admitted(self) -> NDArray[np.bool_]:
        """Which points are accepted, by their delta."""
        return self._each(Limits(self.found.limits.delta).accept)

    @cached_property
    def accepted(self) -> NDArray[np.bool_]:
        """Which points protect as much as was asked for."""
        return self._each(self.found.limits.accept)

    @cached_property
    def totals(self) -> Floats:
        """Epsilons per record."""
        return self._each(lambda promise: promise.epsilon)

    @cached_property
    def stops(self) -> list[float]:
        """Epsilons per record that the slider stops at."""
        return sorted(set(self.totals[self.admitted].tolist())) or sorted(set(self.totals.ravel().tolist()))

    @cached_property
    def caps(self) -> list[float]:
        """What no mechanism can promise to every input, by stop."""
        labels, limit = int(self.curves.labels_possible.max()), self.admitted if self.admitted.any() else True
        deltas = self._each(lambda promise: promise.delta)
        return [ceiling(stop, labels, float(deltas[(self.totals <= stop) & limit].max())) for stop in self.stops]

    @property
    def capped(self) -> bool:
        """Whether there is a ceiling below 1: some record can get several labels."""
        return int(self.curves.labels_possible.max()) > 1

    @cached_property
    def targets(self) -> list[int]:
        """Where the target's slider stops, in units."""
        whole = 10**self.digits
        least = min(500, int(1000 * self.found.at_least)) // 5 * 5
        steps = range(max(least, 5) * whole // 1000, whole + 1, 5 * whole // 1000)
        return sorted({*steps, self.target})

    @cached_property
    def target(self) -> int:
        """What was asked for, in units; rounded up where it has more digits than are shown."""
        return int(Decimal(repr(self.found.at_least)).scaleb(self.digits).to_integral_value(ROUND_CEILING))

    @cached_property
    def point(self) -> tuple[int, int] | None:
        """The mechanism and epsilon that the page opens with: what was chosen, or comes closest; None for no delta."""
        choice = self.found.choice if self.asked else None
        if choice is None:
            return self.top(self.views[0])
        e = self.curves.epsilons[self.at].tolist().index(choice.epsilon)
        return self.curves.mechanisms.index(choice.mechanism), e

    @property
    def total(self) -> float:
        """The epsilon per record that the page opens with."""
        return float(self.totals[self.point]) if self.point is not None else self.stops[-1]

    @property
    def delta(self) -> float:
        """The delta that the page opens with."""
        return 0.0 if self.point is None else self.promises[self.point[0]][self.point[1]].delta

    def top(self, view: View) -> tuple[int, int] | None:
        """Return the point with the highest guarantee among those accepted, else among those admitted."""
        if not self.admitted.any():
            return None
        among = self.accepted if self.accepted.any() else self.admitted
        lower, upper = (np.where(among, side, -1.0) for side in view.bounds)
        m, e = np.unravel_index(int(np.where(lower == lower.max(), upper, -1.0).argmax()), lower.shape)
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

    def _units(self, values: Floats, side: str = "lower") -> list[Any]:
        return units(values, self.digits, upwards=side == "upper")

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What the script reads: for every stop of a slider what was chosen and rounded here."""
        promises = sorted({(promise.epsilon, promise.delta) for row in self.promises for promise in row})
        served = {of: np.sort(self.curves.bounds(of).lower[:, self.at], axis=2) for of in self.quantities}
        count, lower = len(self.curves.labels), self.curves.lower[:, self.at]
        ranks = [count + (-share * count // 100) for share in SHARES]  # so many per cent of the records reach these
        rows = lower.argsort(axis=2, kind="stable")[:, :, :WORST]
        listed, lowest = np.unique(rows), self._units(np.take_along_axis(lower, rows, axis=2))
        worst = np.stack([np.searchsorted(listed, rows), np.array(lowest)], axis=3)
        return {
            "digits": self.digits,
            "names": self.names,
            "promises": [_promise(*one) for one in promises],
            "promised": [[promises.index((one.epsilon, one.delta)) for one in row] for row in self.promises],
            "asked": self.asked,
            "accepted": ["".join("01"[int(one)] for one in row) for row in self.accepted],
            "stops": self.stops,
            "stops_shown": [show_up(stop) for stop in self.stops],
            "at": [self.affordable(stop) for stop in self.stops],
            "caps": self._units(np.array(self.caps), "upper"),
            "targets": self.targets,
            "target": self.target,
            "priors": [f"{prior}{SPACE}%" for prior in PRIORS],
            "even": PRIORS.index(EVEN),
            "certain": share_up(1.0),
            "views": [self._view(view) for view in self.views],
            "population": {
                of: {side: self._units(getattr(one, side), side) for side in ("lower", "upper")}
                for of, one in self.populations.items()
            },
            "shares": {of: [self._units(kept[:, :, rank]) for rank in ranks] for of, kept in served.items()},
            "worst": worst.reshape(*rows.shape[:2], -1).tolist(),
            "records": [[r, cleaned(self.curves.labels[r], 40)] for r in listed.tolist()],  # by the number used there
        }

    def _view(self, view: View) -> dict[str, Any]:
        lower = self._units(view.bounds.lower)
        return {
            "of": view.of, "lower": lower, "upper": self._units(view.bounds.upper, "upper"), "where": view.where,
            "subject": SUBJECTS[view.of], "top": self.top(view),
            "chosen": [self._chosen(view, np.array(lower) >= target) for target in self.targets],
            "best": [self._best(view, stop) for stop in self.stops],
            "average": view.on == "average", "worst": view.on == "worst",
        }  # fmt: skip

    def _chosen(self, view: View, enough: NDArray[np.bool_]) -> tuple[int, int] | None:
        """Return the point that is recommended: strongest notion, then least epsilon, least delta, most guaranteed."""

        def cost(point: tuple[int, int]) -> tuple[float, ...]:
            promise = self.promises[point[0]][point[1]]
            return STRENGTH.index(promise.notion), promise.epsilon, promise.delta, -float(view.bounds.lower[point])

        points = ((m, int(row.argmax())) for m, row in enumerate(enough & self.accepted) if row.any())
        return min(points, key=cost, default=None)

    def _best(self, view: View, stop: float) -> tuple[int, int] | None:
        """Return the point with the highest guarantee within a budget."""
        points = ((m, e) for m, e in enumerate(self.affordable(stop)) if e is not None)
        return max(points, key=lambda point: float(view.bounds.lower[point]), default=None)


def _promise(epsilon: float, delta: float) -> dict[str, Any]:
    """Return what the script tells of a promise, from every prior."""
    after = [share_up(observed(epsilon, delta, prior / 100)) for prior in PRIORS]
    shown = {"shown": show_up(epsilon), "delta_shown": show_up(delta)}
    return {"epsilon": epsilon, "delta": delta, **shown, "after": after}


def held(curves: Curves) -> tuple[Quantity, ...]:
    """Return the quantities that curves hold."""
    return QUANTITIES[: 1 + (curves.accuracy is not None)]
