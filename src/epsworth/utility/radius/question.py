"""One record, the features that may move, the classifier that is asked, and what is proven by then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.callbacks import check_callback
from epsworth.classifiers import Classifier, Labels, as_classifier
from epsworth.classifiers.classifier import table_of
from epsworth.classifiers.pipeline import ColumnView, column_view
from epsworth.classifiers.reading import (
    Unsupported,
    answers_as_read,
    check_batch_invariance,
    known_labels,
    leading,
    nondeterminism,
    opened,
)
from epsworth.numerals import as_float, short
from epsworth.records import Records, one_record
from epsworth.rounding import down, up
from epsworth.utility.deadline import Deadline, RunState
from epsworth.utility.labels import ASKED_AGAIN, answer


@dataclass(frozen=True)
class Bracket:
    """What is proven by now: ``lower <= distance <= upper``, after so many seconds."""

    lower: float
    upper: float
    seconds: float

    @property
    def done(self) -> float:
        """How far the bounds have closed: at 1 they meet."""
        return self.lower / self.upper if 0 < self.upper < math.inf else 0.0


@dataclass(frozen=True, eq=False)
class Witness:
    """A point at which the classifier answers another label, and its distance rounded up."""

    point: Floats
    distance: float


Watch = Callable[[Bracket], object]


class Tightening:
    """A run that looks for a radius.

    Attributes
    ----------
    lower : float
        No point nearer flips: for certain, whatever ends the run.
    witness : Witness or None
        The nearest one on which the classifier was asked.
    method : str or None
        What has proven something.
    deadline : Deadline
        Of which a run's share that is done is ``lower / upper``.
    """

    def __init__(
        self,
        seconds: float | None = None,
        watch: Watch | None = None,
        progress: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lower, self.witness = 0.0, None  # type: float, Witness | None
        self.method: str | None = None
        self.seen: Witness | None = None  # the nearest flip of a batch, not yet asked about alone

        def shown(standing: RunState) -> object:
            return None if watch is None else watch(Bracket(self.lower, self.upper, standing.seconds))

        self.deadline = Deadline(seconds, None if check_callback("watch", watch) is None else shown, progress, clock)

    @property
    def upper(self) -> float:
        """Distance of the witness, or infinity."""
        return math.inf if self.witness is None else self.witness.distance

    @property
    def left(self) -> float:
        """Seconds until the run must end."""
        deadline = self.deadline
        return (
            math.inf if deadline.seconds is None else max(deadline.seconds - (deadline.clock() - deadline.began), 0.0)
        )

    def spent(self, share: float) -> bool:
        """Tell whether a share of the time is over; never where there is no deadline."""
        return share < 1 and self.deadline.seconds is not None and self.left <= (1 - share) * self.deadline.seconds

    def proves(self, method: str, lower: float) -> None:
        """Note which method has something to say, and what."""
        self.method = method
        self.proven(lower)

    def proven(self, lower: float) -> None:
        """Note that no point nearer flips; what lies beyond the witness is no news."""
        self.lower = max(self.lower, min(lower, self.upper))
        if math.isfinite(self.upper) and self.upper > 0:
            self.deadline.progress(self.lower / self.upper)

    def found(self, witness: Witness | None) -> None:
        """Note a witness where it is nearer than those before."""
        if witness is not None and witness.distance < self.upper:
            self.witness = witness
            self.proven(self.lower)

    def glimpsed(self, points: Floats, distances: Floats) -> None:
        """Note the nearest of points that flipped in a batch: what a run that ends early may ask about."""
        if distances.size:
            i = int(np.argmin(distances))
            if self.seen is None or distances[i] < self.seen.distance:
                self.seen = Witness(points[i], float(distances[i]))


STEPS = np.concatenate([[0.0], np.geomspace(1e-16, 1e-5, 45)])  # how far behind a computed boundary to look
NEEDS = "a radius"  # for the sentences that refuse a classifier
CLEAR = 1e-12  # leads below this, relative to the largest score, are not compared: they may be rounding
PROBES = 128  # points at which a model read from its parameters must answer as the classifier does


@dataclass(frozen=True, eq=False)
class RadiusResult:
    """What a method found: ``lower <= distance <= witness.distance``, and why it found no more."""

    lower: float
    witness: Witness | None
    method: str
    notes: tuple[str, ...] = ()

    @property
    def upper(self) -> float:
        """Distance of the witness, or infinity."""
        return math.inf if self.witness is None else self.witness.distance


@dataclass(frozen=True, eq=False)
class Inside:
    """The estimator behind the steps of a pipeline, and what it sees while the record moves.

    ``own`` is the place of its label.
    """

    estimator: Any
    own: int
    view: ColumnView

    @property
    def seen(self) -> Floats:
        """The record as the estimator sees it."""
        return np.asarray(self.view.base[0])

    @property
    def slopes(self) -> Floats:
        """Change of the seen values per natural unit of the moved features, shape ``(width, moved)``."""
        return self.view.slopes

    @property
    def additions(self) -> int:
        """Rounded operations behind a sum over what is seen."""
        return self.view.width + self.view.additions

    def sizes(self, radius: float) -> Floats:
        """Return bounds on the absolute terms of the seen values within a radius, for rounding errors."""
        return np.asarray(self.view.sizes(np.abs(self.view.origin) + radius)[0])

    def at(self, points: Floats) -> Floats:
        """Return the seen rows of moved points."""
        return self.view.at(np.zeros(len(points), dtype=np.intp), points)


@dataclass(frozen=True, eq=False)
class RadiusQuestion:
    """The question how far ``point`` (the moved features of one record) can go before ``label`` changes.

    ``number`` is the record's in a table, where there is one; messages name it.
    """

    classifier: Classifier
    records: Records
    positions: tuple[int, ...]
    names: tuple[str, ...]
    point: Floats
    label: Any
    norm: float
    run: Tightening = field(default_factory=Tightening)
    number: int | None = None

    def labels(self, points: Floats) -> Labels:
        """Return the classifier's labels at points, shape ``(n, moved)``."""
        values = dict(zip(self.positions, np.asarray(points, dtype=np.float64).T, strict=True))
        rows, moved = np.zeros(len(points), dtype=np.intp), f"a moved copy of {_called(self.number)}"
        return answer(self.classifier, self.records, rows, values, moved)

    def flips(self, points: Floats) -> Bools:
        """Tell at which of the points, shape ``(n, moved)``, the classifier answers another label."""
        return np.asarray(self.labels(points) != self.label, dtype=bool)

    def looked(self, points: Floats, first: int = 0, reserve: float = 0.0) -> Bools:
        """Tell the same in steps between which the run may end, the first rows in any case; what flips is kept.

        Where all but the share ``reserve`` of the time is spent nothing more is asked: the rest counts as not flipping.
        """
        flipped = np.zeros(len(points), dtype=bool)
        rest = self.run.deadline.steps(len(points) - first, max(len(points), 1))
        for part in chain([slice(0, first)] if first else [], (slice(p.start + first, p.stop + first) for p in rest)):
            if self.run.spent(1 - reserve) and part.start:
                break
            flipped[part] = self.flips(points[part])
            there = points[part][flipped[part]]
            self.run.glimpsed(there, self.away(there))
        return flipped

    def size(self, offsets: Floats) -> Floats:
        """Return the norm of offsets, along the last axis."""
        return np.abs(offsets).max(axis=-1) if math.isinf(self.norm) else euclidean(offsets)

    def away(self, points: Floats) -> Floats:
        """Return the distance of points, rounded up.

        In units of itself: a unit for each difference and its square, n for their sum, and half of all by the root;
        numpy's norm may scale before and after, 4 more.  An ulp is at least one of these units.
        """
        return up(self.size(points - self.point), ulps=len(self.point) + 6)

    def within(self, points: Floats) -> Floats:
        """Return the distance of points, rounded down."""
        return np.maximum(down(self.size(points - self.point), ulps=len(self.point) + 6), 0.0)

    def nearest(self, points: Floats) -> Witness | None:
        """Return the nearest of the points that flip, if any does.

        It flips in a batch and alone: the two may round differently.
        """
        points = points[np.isfinite(points).all(axis=1)]
        flipped = points[self.flips(points)] if len(points) else points
        distances = self.away(flipped)
        for best in np.argsort(distances, kind="stable"):
            if self.flips(flipped[best : best + 1])[0]:
                return Witness(flipped[best], float(distances[best]))
        return None

    def behind(self, offsets: Floats) -> Witness | None:
        """Step from computed boundary points outwards until the classifier itself flips."""
        length = np.abs(offsets).max(axis=1)[:, np.newaxis]
        kept = ((length > 0) & np.isfinite(length)).ravel()
        if not kept.any():
            return None
        offsets, length = offsets[kept], length[kept]
        step = offsets / length * np.maximum(length, np.abs(self.point).max())
        candidates = self.point + offsets[:, np.newaxis] + STEPS[:, np.newaxis] * step[:, np.newaxis]
        return self.nearest(candidates.reshape(-1, len(self.point)))

    def inside(self) -> Inside | None:
        """Look through the steps of a pipeline; None where what is seen is not affine in what moves."""
        model = self.classifier.inside
        result, classes = (None, None) if model is None else (opened(model), known_labels(model))
        if result is None or classes is None or self.label not in classes.tolist():
            return None
        try:
            view = column_view(model, result.steps, self.records, self.positions, self.point)
        except Unsupported:
            return None
        return Inside(result.estimator, classes.tolist().index(self.label), view)

    def agrees(self, inside: Inside, scores: Callable[[Floats], Floats], radius: float) -> bool:
        """Check a reading of the model against the classifier, at random points up to twice a radius away."""

        def read(points: Floats) -> tuple[Bools, Bools]:
            result = scores(inside.at(points))
            if result.shape[1] == 1:
                return np.zeros(len(result), dtype=bool), np.ones(len(result), dtype=bool)  # of the only label there is
            places, lead = leading(result)
            return np.asarray(places != inside.own), lead > CLEAR * (1 + np.abs(result).max(axis=1))

        return self.flips_as_read(read, radius)

    def flips_as_read(self, read: Callable[[Floats], tuple[Bools, Bools]], radius: float) -> bool:
        """Check where the label flips, wherever a reading is clear about it, around the record itself."""
        wide = 1 + float(np.abs(self.point).max())
        near = 2 * radius if math.isfinite(radius) and radius > 0 else wide
        reach = np.tile([[near], [max(near, wide)]], (PROBES // 2, 1))  # next to a border all may be near ties
        draws = reach * np.random.default_rng(0).uniform(-1, 1, (PROBES, len(self.point)))
        draws[0] = 0
        return answers_as_read(self.flips(self.point + draws), *read(self.point + draws))


def ask(
    model: Any,
    x: Any,
    *,
    norm: float | str,
    features: str | int | Sequence[str | int] | None,
    run: Tightening | None = None,
    number: int | None = None,
) -> RadiusQuestion:
    """Check what the user gave, once."""
    order = order_of(norm)
    classifier = as_classifier(model)
    records = table_of(classifier, one_record(x))
    if len(records) != 1:
        raise ValueError(f"x must be one record, got {len(records)}; give one row at a time")
    positions = _positions(records, features)
    names = tuple(records.names[p] for p in positions)
    [point] = points_of(records, positions, number)
    asked = RadiusQuestion(classifier, records, positions, names, point, None, order, run or Tightening(), number)
    return replace(asked, label=_steady_label(asked))


def order_of(norm: Any) -> float:
    """Return the order of a norm, or refuse it."""
    if isinstance(norm, str) and norm in ("2", "inf"):
        return float(norm)
    if (order := as_float(norm)) in (2, math.inf):
        return order
    raise ValueError(f"norm must be 2 or math.inf, got {short(norm)}")


def check_records(classifier: Classifier, records: Records, features: str | int | Sequence[str | int] | None) -> Labels:
    """Refuse a table, by the number of the record, that holds what cannot move, or on which the classifier fails.

    Returns
    -------
    ndarray, shape ``(records,)``
        The labels.
    """
    positions = _positions(records, features)
    values = dict(zip(positions, points_of(records, positions, 0).T, strict=True))  # as doubles, like all moved points
    return answer(classifier, records, np.arange(len(records)), values, "record {}")


def _steady_label(question: RadiusQuestion) -> Any:
    """Return the record's label: the same alone, several times over, and among others; so are some of the others'."""
    n = ASKED_AGAIN[0]
    name, what = question.classifier.name, ("record" if question.number is None else _called(question.number), NEEDS)
    label = question.labels(question.point[np.newaxis])[0]  # in double precision, like all moved points
    reach = 1 + float(np.abs(question.point).max())
    others = question.point + np.random.default_rng(0).uniform(-reach, reach, (n, len(question.point)))
    others[[0, n // 2, n - 1]] = question.point
    for points, own in ((np.repeat(question.point[np.newaxis], n, axis=0), slice(None)), (others, [0, n // 2, n - 1])):
        labels = question.labels(points)
        if (labels[own] != label).any():
            raise nondeterminism(name, partial(question.labels, points), labels, *what)
    check_batch_invariance(name, lambda rows: question.labels(others[rows]), labels, *what)
    return label


def _positions(records: Records, features: str | int | Sequence[str | int] | None) -> tuple[int, ...]:
    return tuple(range(len(records.names))) if features is None else records.positions("features", features)


def points_of(records: Records, positions: tuple[int, ...], first: int | None = 0) -> Floats:
    """Return the moved features of all records, shape ``(records, moved)``; ``first`` is the first one's number."""
    return np.column_stack([_numbers(records, p, first) for p in positions])


def _numbers(records: Records, position: int, first: int | None) -> Floats:
    """Return a column of finite numbers; refuse the first value that is none."""
    column = records.column(position)
    plain = column.dtype.kind in "iuf"
    result = column.astype(np.float64) if plain else np.array([_number(value) for value in column.tolist()])
    bad = np.flatnonzero(~np.isfinite(result))
    if not bad.size:
        return np.asarray(result, dtype=np.float64)
    row = int(bad[0])
    name, value = records.names[position], column.tolist()[row]
    where = "this record" if first is None else f"record {first + row}"
    what = "not finite" if _is_number(value) else f"a {type(value).__name__}"
    raise ValueError(f"feature {name!r} is {what} in {where} and cannot move; only finite numbers do: leave it out")


def _number(value: Any) -> float:
    """Return a number as a double, NaN for anything else; an integer beyond the doubles is not finite."""
    return as_float(value) if _is_number(value) else math.nan


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _called(number: int | None) -> str:
    return "the record" if number is None else f"record {number}"


def euclidean(rows: Floats) -> Floats:
    """Return the length of vectors along the last axis, however large or small, as doubles hold it.

    They are brought near one by powers of two, which rounds nothing.

    Examples
    --------
    >>> euclidean(np.array([[3e-200, 4e-200], [0.0, 0.0]])).tolist()
    [5e-200, 0.0]
    """
    _, exponent = np.frexp(np.abs(rows).max(axis=-1, initial=0.0, keepdims=True))
    scale = np.ldexp(1.0, np.clip(exponent, -1000, 1000))
    return np.asarray(scale[..., 0] * np.linalg.norm(rows / scale, axis=-1))
