"""Curves: two-sided bounds over mechanism x epsilon x record, with the confidence that all hold together."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.documents import in_words, read_as, read_json
from epsworth.files import RESULT_BYTES, check_curves_size, reading
from epsworth.frames import frame_of
from epsworth.guarantees import Guarantee, ceiling, promise_from_dict, promise_to_dict, weakness
from epsworth.numerals import short
from epsworth.results import Result, Table
from epsworth.rounding import percent_down, round_down, show_down, show_up
from epsworth.utility.figures import Bands, Recommended, draw_bands, long_columns, promises, span, view_of
from epsworth.utility.population import Population, check_at, default_confidence, population_bounds
from epsworth.utility.quantities import Bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = Literal["stability", "accuracy"]
QUANTITIES: tuple[Quantity, ...] = ("stability", "accuracy")
FORMAT = "epsworth-curves-1"
WITH_UNIT = {name: f"{name}_per_record" for name in ("epsilons", "guarantees", "tight_epsilons")}  # names in files
MET = 1 + 1e-9  # a half-width of so many tolerances meets the tolerance but for rounding
FEWEST_ROWS = 20  # of which a printed table says something of their population
MOST_SHOWN = 8  # epsilons in a printed table
WIDTH = 110


@dataclass(frozen=True, repr=False, eq=False)
class Curves(Result):
    """The answer to a stability question.

    Claim: with probability at least ``confidence`` over our own draws, *every* bound in it holds (all
    mechanisms, epsilons, records, the average and the worst case).

    Attributes
    ----------
    mechanisms : tuple of str
        As asked for.
    epsilons : ndarray, shape ``(epsilons,)``
        Per record, shared evenly by its features; a policy gives each its own.
    features : tuple of str
        The sensitive features; each is perturbed independently.
    stability : Bounds
        Probability that the label of the perturbed record equals the label of the record.
    accuracy : Bounds or None
        Probability that it equals ``y``; present when ``y`` was given.
    guarantees : tuple of tuples of Guarantee
        The promise *per record*, by mechanism and epsilon.
    tight_epsilons : ndarray, shape ``(mechanisms, epsilons)``
        The pure loss per record that is in fact kept; ``inf`` where there is none.
    labels : ndarray, shape ``(records,)``
        The classifier's labels of the unperturbed records.
    labels_possible : ndarray of int, shape ``(records,)``
        How many different labels were seen while the sensitive features varied within their ranges.
    method : ndarray of str, shape ``(mechanisms, records)``
        Engine that produced each bound.
    over : {"records", "dataset"}
        Whether every record was bounded to the tolerance, or the average and the worst case.
    confidence, tolerance : float
        What was asked for.
    queries : int
        Records that the classifier was asked about.
    seconds : float
        Wall-clock time.
    notes : tuple of str
        What a reader must know besides, such as the cost of a privacy indicator.
    stopped : bool
        Whether the run ended before its work was done; its bounds hold all the same.
    spent : float
        Probability that was spent on misses, rounded down: at most 1 - ``confidence``, and 0 where nothing was drawn.
    built_from : tuple of str
        Mechanisms that were built from these very records: of a population these say nothing about them.
    passing : tuple of str
        Columns that the classifier is known to read besides: a policy lets them pass.

    Examples
    --------
    >>> import epsworth as ew
    >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2], [0.8]], sensitive=0, mechanisms="krr:k=11",
    ...                       epsilons=[1, 2])
    >>> curves.lower.shape, curves.method.tolist(), curves.confidence
    ((1, 2, 2), [['grid', 'grid']], 1.0)
    >>> curves.sentence("krr:k=11", 2, record=1).partition(" under ")[0]
    'For record 1 the label stays False with probability at least 0.654 (exact)'
    """

    mechanisms: tuple[str, ...]
    epsilons: Floats
    features: tuple[str, ...]
    stability: Bounds
    accuracy: Bounds | None
    guarantees: tuple[tuple[Guarantee, ...], ...]
    tight_epsilons: Floats
    labels: NDArray[Any]
    labels_possible: NDArray[np.int64]
    method: NDArray[np.str_]
    over: str
    confidence: float
    tolerance: float
    queries: int
    seconds: float
    notes: tuple[str, ...] = field(default=())
    spent: float = 0.0
    stopped: bool = False
    built_from: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if Fraction(self.spent) > 1 - Fraction(self.confidence):
            raise ValueError(f"these bounds spent {self.spent:g}, which is no confidence of {self.confidence:g}")

    @property
    def lower(self) -> Floats:
        """Lower bounds on stability, shape ``(mechanisms, epsilons, records)``."""
        return self.stability.lower

    @property
    def upper(self) -> Floats:
        """Upper bounds on stability, shape ``(mechanisms, epsilons, records)``."""
        return self.stability.upper

    def bounds(self, of: Quantity = "stability") -> Bounds:
        """Return the bounds on ``"stability"`` or ``"accuracy"``."""
        if not isinstance(of, str) or of not in QUANTITIES:
            raise ValueError(f"of must be 'stability' or 'accuracy', got {short(of)}")
        if of == "stability":
            return self.stability
        if self.accuracy is None:
            raise ValueError("these curves hold no accuracy; pass the true labels as y")
        return self.accuracy

    def average(self, of: Quantity = "stability") -> Interval:
        """Return ``(lower, upper)`` for the average over the records, each ``(mechanisms, epsilons)``."""
        return self.bounds(of).average()

    def worst(self, of: Quantity = "stability") -> Interval:
        """Return ``(lower, upper)`` for the worst of these records, each ``(mechanisms, epsilons)``."""
        return self.bounds(of).worst()

    def population(
        self, of: Quantity = "stability", *, confidence: float | None = None, at: Sequence[int] | slice = slice(None)
    ) -> Population:
        """Return bounds on the average over the population of which the records are independent draws.

        Nothing, 0 to 1, of mechanisms that were built from these records.

        Parameters
        ----------
        confidence : float, optional
            With which all of them hold, those on the records among them; by default so that the draw of the records
            may miss as often as the bounds on them (.001 where these hold for certain).
        at : sequence of int, optional
            The epsilons to look at, by number; the confidence is that of all together whichever these are.
        """
        at = check_at(at, len(self.epsilons))
        result, own = self.bounds(of), [self.mechanisms.index(name) for name in self.built_from]
        within = population_bounds(
            Interval(result.lower[:, at], result.upper[:, at]),
            Interval(*(side[:, at] for side in result.average())),
            confidence=default_confidence(self.confidence) if confidence is None else confidence,
            spent=self.spent,
            among=self.tight_epsilons.size * (1 if self.accuracy is None else 2),
        )
        within.lower[own], within.upper[own] = 0.0, 1.0  # they were fitted to these draws
        return within

    def select(self, on: str | int, of: Quantity = "stability") -> Interval:
        """Return the bounds on the ``"average"``, the ``"worst"`` case, or a record by number."""
        if isinstance(on, (int, np.integer)) and not isinstance(on, bool):
            return self.bounds(of).of_record(int(on))
        if not isinstance(on, str) or on not in ("average", "worst"):
            raise ValueError(f"on must be 'average', 'worst' or a record number from 0, got {short(on)}")
        return self.average(of) if on == "average" else self.worst(of)

    def to_frame(self, *, records: bool = False) -> Any:
        """Return all bounds as a data frame: mechanism, epsilon (per record), quantity, lower, upper.

        Quantities are ``"average stability"``, ``"worst stability"``, and so for the accuracy where there are true
        labels.

        Parameters
        ----------
        records : bool
            Whether every record has its rows, too: ``"stability of record 0"``.

        Returns
        -------
        polars data frame, or one of pandas where polars is not installed

        Examples
        --------
        >>> import epsworth as ew
        >>> curves = ew.stability(lambda X: X[:, 0] <= 0.5, [[0.2], [0.8]], sensitive=0, mechanisms="krr:k=11",
        ...                       epsilons=[1, 2])
        >>> frame = curves.to_frame()
        >>> frame.columns, frame["quantity"].unique().sort().to_list()
        (['mechanism', 'epsilon', 'quantity', 'lower', 'upper'], ['average stability', 'worst stability'])
        """
        bounds = averages(self)
        for of in QUANTITIES if self.accuracy is not None else QUANTITIES[:1]:
            every = range(len(self.labels)) if records else ()
            bounds |= {f"{of} of record {at}": self.bounds(of).of_record(at) for at in every}
        return frame_of(long_columns(self.mechanisms, self.epsilons, bounds), "a table of bounds")

    def sentence(self, mechanism: str, epsilon: float, record: int) -> str:
        """Say what is promised for one record, rounded to the safe side."""
        m, e = self._find(mechanism, epsilon)
        lower = round_down(float(self.stability.of_record(record).lower[m, e]))
        if self.confidence == 1:
            how = "exact"
        else:
            how = f"with {percent_down(self.confidence, 4)} % confidence over our sampling"
        return (
            f"For record {record} the label stays {self.labels[record]} with probability at least {lower:g} ({how}) "
            f"under {mechanism} with epsilon {show_up(self.epsilons[e])} per record; {self.guarantees[m][e]}."
        )

    def _find(self, mechanism: str, epsilon: float) -> tuple[int, int]:
        if mechanism not in self.mechanisms:
            raise ValueError(f"no curve for mechanism {mechanism!r}; there are {', '.join(self.mechanisms)}")
        at = np.flatnonzero(np.isclose(self.epsilons, epsilon, rtol=1e-12, atol=0))
        if at.size == 0:
            raise ValueError(f"epsilon {epsilon:g} is none of the grid; the curves hold {span(self.epsilons)}")
        return self.mechanisms.index(mechanism), int(at[0])

    def __repr__(self) -> str:
        m, e, n = self.lower.shape
        return (
            f"<Curves: {m} mechanisms x {e} epsilons x {n} records, over {self.over}, "
            f"confidence {show_down(self.confidence)}, {self.queries} queries, {self.seconds:.1f} s>"
        )

    def __str__(self) -> str:
        """Return a small table of the guaranteed average and worst case, rounded down, and what one must know of it."""
        return "\n\n".join(map(str, self.shown()))

    def shown(self) -> list[str | Table]:
        """Return the tables that `print` and a notebook show, and what one must know of them."""
        count = len(self.labels)
        at = np.unique(np.linspace(0, self.epsilons.size - 1, min(self.epsilons.size, MOST_SHOWN)).astype(int))
        heads = ["mechanism", *(show_up(self.epsilons[e]) for e in at)]
        result: list[str | Table] = [repr(self)]
        for on in ("average", "worst") if count > 1 else (0,):
            lower = self.select(on).lower[:, at].tolist()
            rows = [
                [name, *(f"{round_down(value):.3f}" for value in row)]
                for name, row in zip(self.mechanisms, lower, strict=True)
            ]
            result.append(Table(f"stability, {view_of(on, count)}: at least, by epsilon per record", heads, rows))
        if count >= FEWEST_ROWS:
            result.append(self._of_population(at, heads))
        lines = [textwrap.fill(promised, WIDTH, subsequent_indent="  ") for promised in self.promises()]
        if len(at) < self.epsilons.size:
            lines.append(f"{len(at)} of {self.epsilons.size} epsilons are shown.")
        return [*result, "\n".join([*lines, *(f"Note, {note}." for note in self.notes)])]

    def _of_population(self, at: NDArray[np.intp], heads: list[str]) -> Table:
        within = self.population(at=at.tolist())
        rows = [[name, *row] for name, row in zip(self.mechanisms, within.rows(), strict=True)]
        return Table(f"stability, {within.words}: from - to, by epsilon per record", heads, rows)

    def promises(self) -> list[str]:
        """Say which mechanisms keep which promise per record."""
        return promises(self.mechanisms, self.epsilons, self.guarantees)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        on: str | int = "average",
        of: Quantity = "stability",
        recommended: Recommended | None = None,
    ) -> Axes:
        """Draw a band per mechanism, in which the truth lies, by epsilon per record.

        Lines are named at their ends, marked by shapes and dashes, and have a small panel each within the axes where
        they are more than five; over the worst case stands what no mechanism can beat.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        on, of
            As for `select`.
        recommended : Recommendation, optional
            From `recommend`: what was asked for is drawn, and the choice where this view shows it.

        Returns
        -------
        Axes
        """
        axes = draw_bands(ax, self._bands(on, of, recommended), what=f"{of}, guaranteed and possible")
        axes.set_title(view_of(on, len(self.labels)), fontsize=10, loc="left")
        return axes

    def _bands(self, on: str | int, of: Quantity, found: Recommended | None) -> Bands:
        totals = np.array([[promise.epsilon for promise in row] for row in self.guarantees])
        choice = None if found is None or (found.on, found.of) != (on, of) else found.choice
        chosen = None
        if choice is not None:
            said = f"{choice.mechanism}, epsilon {show_up(choice.guarantee.epsilon)}"
            chosen = (*self._find(choice.mechanism, choice.epsilon), said)
        return Bands(
            [f"{name}{weakness(row)}" for name, row in zip(self.mechanisms, self.guarantees, strict=True)],
            totals,
            *self.select(on, of),
            ceiling=self._ceiling() if (on, of) == ("worst", "stability") else None,
            asked=None if found is None or found.of != of else found.at_least,
            chosen=chosen,
        )

    def _ceiling(self) -> tuple[list[float], list[float]] | None:
        """Return, by epsilon per record, what no mechanism of such budgets can promise to every input."""
        labels = int(self.labels_possible.max())
        if labels < 2:
            return None
        promises = {promise for row in self.guarantees for promise in row}
        x, y = zip(*sorted((p.epsilon, ceiling(p.epsilon, labels, p.delta)) for p in promises), strict=True)
        return list(x), list(accumulate(y, max))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        result = {WITH_UNIT.get(name, name): value for name, value in super().to_dict().items()}
        promised = [[promise_to_dict(promise) for promise in row] for row in self.guarantees]
        quantities = ("stability",) if self.accuracy is None else QUANTITIES
        result["population"] = {of: self.population(of).to_dict() for of in quantities}
        return {"format": FORMAT, **result, "guarantees_per_record": promised}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write curves with --json")
        try:
            curves = cls._read(document)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(f"damaged or incomplete ({in_words(error)}); write the curves again") from None
        return curves

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> Self:
        tight = np.array(document["tight_epsilons_per_record"], dtype=np.float64)
        promised = document["guarantees_per_record"]
        curves: Self = read_as(
            cls, document, epsilons=np.array(document["epsilons_per_record"], dtype=np.float64),
            guarantees=tuple(tuple(map(promise_from_dict, row)) for row in promised),
            tight_epsilons=np.where(np.isnan(tight), np.inf, tight),
        )  # fmt: skip
        if not set(curves.built_from) <= set(curves.mechanisms):
            raise ValueError("built_from names a mechanism that is none of these")
        shape, held = curves.lower.shape, (len(curves.mechanisms), len(curves.epsilons), len(curves.labels))
        rows = {len(row) for row in curves.guarantees}
        if not shape == held == (len(promised), *rows, len(curves.labels_possible)):
            raise ValueError(f"the bounds are of {shape} mechanisms, epsilons and records, all else of {held}")
        if len(set(curves.mechanisms)) < held[0]:
            raise ValueError("mechanisms names one twice")
        if not (curves.epsilons > 0).all() or not (np.diff(curves.epsilons) > 0).all():
            raise ValueError("epsilons_per_record must be positive and increase")
        for of in QUANTITIES if curves.accuracy is not None else QUANTITIES[:1]:
            every = curves.bounds(of)
            pooled = every.pooled or Interval(every.lower, every.upper)
            for lower, upper in ((every.lower, every.upper), (pooled.lower, pooled.upper)):
                if not ((lower >= 0) & (lower <= upper) & (upper <= 1)).all():
                    raise ValueError(f"{of}: bounds must lie between 0 and 1, the lower ones below the upper ones")
        return curves

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all; refuse what is too much for `load`."""
        m, e, n = self.lower.shape
        check_curves_size((m, e, n), accuracy=self.accuracy is not None)
        super().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        with reading(path, "curves file", most=RESULT_BYTES) as content:
            return cls.from_dict(read_json(content))


def averages(curves: Any) -> dict[str, Interval]:
    """Return the bounds on averages and worst cases, by quantity."""
    quantities = QUANTITIES if curves.accuracy is not None else QUANTITIES[:1]
    return {f"{on} {of}": curves.select(on, of) for of in quantities for on in ("average", "worst")}
