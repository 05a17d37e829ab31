"""What a policy is made of: a rule for each feature, and the columns that a copy sees, on public grids.

A grid is a total function from whatever a record holds to a place: nothing is raised, or depends on anything but the
value itself, since what a value is must not show in whether a record is refused, nor in what is said of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.client.grids import is_whole
from epsworth.client.kernels import MOST_BITS, exp_below
from epsworth.mechanisms import MECHANISMS, GridMechanism, Kernel, Mechanism, kernel
from epsworth.mechanisms.family import parse
from epsworth.mechanisms.law import nearest_index
from epsworth.mechanisms.rational import stated_epsilon
from epsworth.numerals import exact_decimal
from epsworth.records import Records
from epsworth.release.copies import Indices, Input
from epsworth.rounding import show_up
from epsworth.space import Feature
from epsworth.values import WORDS, is_missing, items, number, numbers

BITS = 16
UNSAMPLED = ("missing", "scaled")

Unsampled = Literal["missing", "scaled"]


def values_at(feature: Feature, unit: Floats, points: int) -> NDArray[Any]:
    """Return the natural values of places on a grid of so many points: whole numbers where it holds no others."""
    if feature.categories is not None:
        return feature.from_unit(unit)
    if is_whole(points - 1, feature.lower, feature.upper):
        return int(feature.lower) + np.rint(unit * (points - 1)).astype(np.int64)
    return feature.from_unit(unit, points=points)


@dataclass(frozen=True)
class Rule:
    """How one feature is released.

    Attributes
    ----------
    feature : Feature
        Its public range or categories, and what stands for a missing value; without that it is refused.
    mechanism : str
        The words of both doors, such as ``"pm"`` or ``"krr:k=33"``; categories always take ``krr``.
    epsilon : Decimal
        Exact.
    bits : int
        The grids of a numeric feature have 2^bits points.
    outside : object, optional
        The category that stands for undeclared ones.  None refuses them; numbers are always clamped.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> policy = Policy.of("pm", {"age": 1, "smoker": "0.5"}, Domain.of({"age": (0, 100), "smoker": ["no", "yes"]}))
    >>> [(rule.feature.name, rule.mechanism, str(rule.epsilon)) for rule in policy.rules]
    [('age', 'pm', '1'), ('smoker', 'krr', '0.5')]
    >>> policy.rules[1].kernel.loss() <= 0.5
    True
    """

    feature: Feature
    mechanism: str
    epsilon: Decimal
    bits: int = BITS
    outside: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_decimal("epsilon", self.epsilon))
        if not self.epsilon > 0:
            raise ValueError(f"epsilon: must be positive, got {self.epsilon}")
        stated_epsilon(self.epsilon)
        categories = self.feature.categories
        for value in categories or ():
            if not isinstance(value, (str, int, float)):
                raise ValueError(f"categories: must be texts, numbers or booleans, got {value!r}; write it as a text")
        if self.outside is not None and categories is not None and self.outside not in categories:
            raise ValueError(f"outside: {self.outside!r} is not one of the categories; declare it or choose another")
        if categories is None:
            if self.outside not in (None, "clamp"):
                raise ValueError(f"outside: numbers outside the range are clamped ('clamp'), got {self.outside!r}")
            object.__setattr__(self, "outside", "clamp")
        self.kernel  # noqa: B018  refuses what cannot be sampled exactly

    @cached_property
    def kernel(self) -> Kernel:
        """The exact sampler on the feature's public grid."""
        words = parse(self.mechanism)
        try:
            if self.feature.categories is not None:
                if words.name != "krr":
                    raise ValueError(f"{words.name} does not keep categories; use krr")
                return kernel("krr", self.epsilon, k=len(self.feature.categories))
            if words.indicator is not None:
                raise ValueError("the privacy indicator sends raw records; leave it out")
            options = dict(words.options)
            if issubclass(MECHANISMS.get(words.name, Mechanism), GridMechanism):  # the same grid as in the analysis
                options = {"k": GridMechanism.k} | options
                options |= {} if self.feature.points is None else {"k": self.feature.points}
            return kernel(words.name, self.epsilon, bits=self.bits, **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"mechanism: {self.mechanism} cannot be released: {error}") from None

    @cached_property
    def proven(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that the integers are proven to keep, exactly: as stated, where that is less.

        The floats of the kernel's guarantee are rounded up, and would add a little to every charge.
        """
        found, stated = self.kernel, Fraction(self.epsilon)
        epsilon = min(stated, kept := Fraction(found.guarantee.epsilon))
        if found.guarantee.delta:  # what goes with probabilities up to e^epsilon times each other
            return epsilon, max(found.slack(exp_below(epsilon)), Fraction(0))
        return (epsilon if found.ratio() <= exp_below(epsilon) else kept), Fraction(0)

    @property
    def points(self) -> int | None:
        """Grid to which outputs are rounded afterwards (post-processing), or None."""
        coarser = parse(self.mechanism).points
        if self.feature.integer and (coarser is not None or self.kernel.points != self.feature.points):
            return self.feature.points
        return coarser

    @property
    def missing(self) -> Any:
        """What stands for a missing value, as the feature declares it."""
        return self.feature.missing

    @property
    def promise(self) -> str:
        """The stated epsilon in words, and beside it what the integers in fact keep, where that differs."""
        kept, stated = self.kernel.guarantee, show_up(float(self.epsilon))
        if kept.delta:
            pure = show_up(self.kernel.loss())
            return f"epsilon {stated} with delta {show_up(kept.delta)} (its integers keep pure epsilon {pure})"
        told = show_up(kept.epsilon)
        return f"epsilon {stated}" + ("" if told == stated else f" (its integers keep {told})")

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML form, without the name."""
        rule = {"mechanism": self.mechanism, "epsilon": self.epsilon}
        rule |= {} if self.feature.categories is not None else {"bits": self.bits}
        instead = {key: value for key in ("outside", "missing") if (value := getattr(self, key)) is not None}
        return replace(self.feature, missing=None).to_dict() | rule | instead


@dataclass(frozen=True)
class Sampling:
    """Each record releases only ``features`` of the policy's features, chosen uniformly, independently of the data.

    Wang et al. 2019: with k of d features at k-th parts of the budget each.  ``unsampled`` values are left
    ``"missing"``, or the record is ``"scaled"``: centre + (d/k) (y - centre), and the centre itself for the
    unsampled, so that means over all records are, on average, what they would be with every feature released.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> ranges = Domain.of({"age": (0, 100), "income": (0, 9000), "visits": (0, 50)})
    >>> policy = Policy.of("pm", 2, ranges, sample=1)  # one of three features, with the whole budget
    >>> policy.sampling, policy.released
    (Sampling(features=1, unsampled='missing'), 1)
    >>> print(policy.guarantee)
    pure LDP, epsilon 2 per record
    """

    features: int
    unsampled: Unsampled = "missing"


MOST_POINTS = 1 << 20


@dataclass(frozen=True)
class Grid:
    """The places of a record's column: evenly spaced numbers of its public range, or its categories.

    Attributes
    ----------
    feature : Feature
        With ``points``, the grid has so many places, else 2^bits.
    bits : int
    missing : float or category
        What stands for whatever is no finite number, or for a category that is not there; by default what the feature
        declares.
    outside : category, optional
        What stands for undeclared categories; numbers are clamped.
    """

    feature: Feature
    bits: int = BITS
    missing: Any = None
    outside: Any = None

    def __post_init__(self) -> None:
        if self.missing is None:
            object.__setattr__(self, "missing", self.feature.missing)
        feature = replace(self.feature, missing=None, integer=False)  # one place for gaps; whole numbers are points
        object.__setattr__(self, "feature", feature)
        categories = feature.categories
        if isinstance(self.missing, np.generic):
            object.__setattr__(self, "missing", self.missing.item())
        if categories is None:
            if isinstance(self.bits, bool) or not isinstance(self.bits, int) or not 1 <= self.bits <= MOST_BITS:
                raise ValueError(f"bits: must be a whole number from 1 to {MOST_BITS}, got {self.bits!r}")
            if self.outside is not None:
                raise ValueError("outside: numbers outside the range are clamped; leave it out")
            if feature.points is not None and feature.points > MOST_POINTS:
                raise ValueError(f"points: must be at most {MOST_POINTS} where a copy looks; leave it out, for bits")
            if isinstance(self.missing, bool) or not isinstance(self.missing, (int, float, Decimal)):
                raise ValueError(f"missing: must be a number of the range that stands for it, got {self.missing!r}")
            missing = float(exact_decimal("missing", self.missing))
            if not feature.lower <= missing <= feature.upper:
                raise ValueError(f"missing: must lie in {feature.lower:g} to {feature.upper:g}, got {missing:g}")
            object.__setattr__(self, "missing", missing)
            return
        for key in ("missing", "outside"):
            if (value := getattr(self, key)) not in categories:
                raise ValueError(
                    f"{key}: must be one of the categories, got {value!r}; say which stands for such values"
                )

    @property
    def name(self) -> str:
        """The column's name."""
        return self.feature.name

    @property
    def input(self) -> Input:
        """What a copy knows of the column."""
        categories = self.feature.categories
        return Input(
            (self.feature.points or 1 << self.bits) if categories is None else len(categories), categories is None
        )

    @cached_property
    def values(self) -> NDArray[Any]:
        """The natural values at all places, in order: what leaves a client."""
        places = self.input.places
        return values_at(self.feature, np.arange(places) / (places - 1), places)

    def place(self, value: Any) -> int:
        """Return the place of one value, whatever it is."""
        return int(self.places([value])[0])

    def places(self, column: Any) -> Indices:
        """Return the places of values, shape ``(n,)``, whatever they are; an array of numbers, or any values."""
        if self.input.ordered:
            return self._of_numbers(numbers(column, number))
        return np.array([self._category(value) for value in items(column)], dtype=np.int64)

    def holds(self, column: Any) -> NDArray[np.bool_]:
        """Tell which values their places stand for: numbers within the range, declared categories; no gaps.

        Examples
        --------
        >>> age = Grid(Feature("age", 0, 100), missing=40)
        >>> age.holds(np.array([0.0, 30.2, 101, np.nan])).tolist(), age.holds([None, "30", 30]).tolist()
        ([True, True, False, False], [False, False, True])
        """
        if self.input.ordered:
            natural = numbers(column, number)
            return np.asarray((natural >= self.feature.lower) & (natural <= self.feature.upper))
        return np.array([type(value) in WORDS and value in self._positions for value in items(column)], dtype=bool)

    def _of_numbers(self, natural: NDArray[np.float64]) -> Indices:
        low, high = self.feature.lower, self.feature.upper
        with np.errstate(all="ignore"):  # whatever is tiny, or signals
            natural = np.where(np.isfinite(natural), natural, self.missing)
            unit = (np.clip(natural, low, high) - low) / (high - low)
        return nearest_index(unit, self.input.places).astype(np.int64)

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {category: i for i, category in enumerate(self.feature.categories or ())}

    def _category(self, value: Any) -> int:
        if is_missing(value):
            return self._positions[self.missing]
        outside = self._positions[self.outside]
        return self._positions.get(value, outside) if type(value) in WORDS else outside


def places_of(grids: Iterable[Grid], records: Records) -> Indices:
    """Return the places of records, shape ``(n, grids)``, from the columns that the grids are named after."""
    return np.stack([grid.places(records.column(records.names.index(grid.name))) for grid in grids], axis=1)
