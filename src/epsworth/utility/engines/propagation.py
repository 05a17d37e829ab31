"""Networks on boxes: scores are bounded by linear functions that are propagated forward, layer by layer.

Every unit gets an affine function of the sensitive features below it and one above it.  An activation replaces
them by lines below and above it (`layers`); a linear layer combines them by the signs of its weights (forward
linear relaxation; Zhang et al. 2018, Xu et al. 2020).  With at most five inputs that is a few matrix products for
hundreds of boxes at once.

After each layer the functions are moved apart by the rounding errors of that layer, the model's own and ours: what
is bounded is the score that the model *computes*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.classifiers.networks import DOUBLE, LARGE, OVERFLOWS, Activation, Affine, Network
from epsworth.classifiers.pipeline import ColumnView, column_view
from epsworth.classifiers.reading import Unsupported, unlike
from epsworth.records import Indices
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.branch_and_bound import Branching, Undecided, enough
from epsworth.utility.engines.contraction import LawsOverEpsilon, mass_error, stays_in_range
from epsworth.utility.engines.engine import Settings, answers_as_read
from epsworth.utility.problem import Problem

Mass = Callable[[Floats, Floats], Floats]


class Verdict(NamedTuple):
    """What one look at boxes tells: where all points have the label, where none has, where to cut the others.

    ``axis`` is -1 where no cut would tell more; ``cut`` is a value strictly between the ends of that axis.
    """

    sure: Bools
    never: Bools
    axis: Indices
    cut: Floats


@dataclass(eq=False)
class Region:
    """What is known about one record: masses decided per point (mechanism x epsilon), and undecided boxes.

    ``low`` and ``high`` have shape ``(boxes, s)``, ``mass`` has ``(boxes, points)``; ``final`` boxes cannot be cut.
    ``misplaced`` is the mass that one edge may have on its wrong side.
    """

    agrees: Floats
    differs: Floats
    low: Floats
    high: Floats
    mass: Floats
    final: Bools
    misplaced: Floats
    looked: int = 0

    def undecided(self) -> Undecided:
        """Return what is known; each look cut one side, which had at most four edges before."""
        edges = self.looked + 4 * self.low.shape[1]
        error = mass_error(edges) + edges * self.misplaced
        return Undecided(self.agrees, self.differs, self.low, self.high, self.mass, error)

    def settle(self, at: Indices, verdict: Verdict, mass: Mass) -> None:
        """Count the boxes that a look decided, and put halves in the place of the others."""
        self.looked += len(at)
        self.agrees += self.mass[at[verdict.sure]].sum(axis=0)
        self.differs += self.mass[at[verdict.never]].sum(axis=0)
        open_ = ~(verdict.sure | verdict.never)
        self.final[at[open_ & (verdict.axis < 0)]] = True
        halved = open_ & (verdict.axis >= 0)
        low, high = halves(self.low[at[halved]], self.high[at[halved]], verdict.axis[halved], verdict.cut[halved])
        gone = np.zeros(len(self.mass), dtype=bool)
        gone[at[~open_ | halved]] = True
        masses = mass(low, high)
        some = (masses > 0).any(axis=1)
        self.low = np.concatenate([self.low[~gone], low[some]])
        self.high = np.concatenate([self.high[~gone], high[some]])
        self.mass = np.concatenate([self.mass[~gone], masses[some]])
        self.final = np.concatenate([self.final[~gone], np.zeros(some.sum(), dtype=bool)])


def branch(
    boxes: NetworkBoxes, mass: Mass, label: int, enough: float, misplaced: Floats | None = None,
    check: Callable[[], None] = lambda: None,
) -> Undecided:  # fmt: skip
    """Decide as much mass as ``boxes.most`` looks allow, the heaviest boxes first, until ``enough`` is left.

    Parameters
    ----------
    mass : callable
        Boxes -> their masses, shape ``(boxes, points)``.
    label : int
        Index of the class that must stay.
    misplaced : ndarray, shape ``(points,)``
        The mass that one edge may have on its wrong side; 0 unless told.
    check : callable
        Raises Stopped where no more looks are to be made: what is not decided then stays so.
    """
    low, high = boxes.start()
    masses = mass(low, high)
    points = masses.shape[1]
    off = np.zeros(points) if misplaced is None else misplaced
    region = Region(np.zeros(points), np.zeros(points), low, high, masses, np.zeros(len(low), dtype=bool), off)
    while region.looked < boxes.most and region.mass.sum(axis=0).max() > enough:
        waiting = np.flatnonzero(~region.final)
        try:
            check()
        except Stopped:
            break
        if not waiting.size:
            break  # only boxes that the classifier alone could decide
        many = min(max(boxes.together, waiting.size // 8), boxes.most - region.looked)
        heaviest = waiting[np.argsort(-region.mass[waiting].max(axis=1), kind="stable")[:many]]
        region.settle(heaviest, boxes.look(region.low[heaviest], region.high[heaviest], label), mass)
    return region.undecided()


def halves(low: Floats, high: Floats, axis: Indices, cut: Floats) -> tuple[Floats, Floats]:
    """Cut every box across an axis of its own."""
    rows = np.arange(len(low))
    left_high, right_low = high.copy(), low.copy()
    left_high[rows, axis], right_low[rows, axis] = cut, cut
    return np.concatenate([low, right_low]), np.concatenate([left_high, high])


def mass_of_boxes(laws: LawsOverEpsilon, problem: Problem, record: int, low: Floats, high: Floats) -> Floats:
    """Return the masses of boxes, shape ``(boxes, points)``; each edge is evaluated once."""
    masses: Floats = np.ones((len(low), problem.shape[0] * problem.shape[1]))
    for j, x in enumerate(problem.unit[record]):
        edges, at = np.unique(np.concatenate([low[:, j], high[:, j]]), return_inverse=True)
        cumulated = np.concatenate([laws.below(m, j, x, edges) for m in range(problem.shape[0])]).T
        masses *= np.maximum(cumulated[at[len(low) :]] - cumulated[at[: len(low)]], 0.0)
    return masses


MOST_FEATURES = 5
UNASKED = 2  # features up to which boxes settle a record for less than draws would cost
RELEASE = 16 * DOUBLE  # relative rounding of released values and of box ends
ROUNDED = 1e4  # units, relative, within which bounds that are constants are taken for equal but for rounding


class PropagatedBounds:
    """Bounds the scores of any record of a question."""

    def __init__(self, problem: Problem, network: Network, view: ColumnView) -> None:
        self.problem, self.network, self.view = problem, network, view

    @property
    def classes(self) -> NDArray[Any]:
        """The labels."""
        return self.network.classes

    def boxes(self, record: int) -> NetworkBoxes:
        """Return the network of the sensitive features alone, what else is seen held at the record's values."""
        first, view = self.network.affine[0], self.view
        seen = Affine(
            view.slopes,
            view.base[record] - view.slopes @ view.origin,
            view.terms,
            view.fixed[record] + view.terms @ np.abs(view.origin),
            view.additions,
        )
        lower, upper = (as_floats([getattr(f, end) for f in self.problem.features]) for end in ("lower", "upper"))
        return NetworkBoxes(self.network, first.after(seen), lower, upper)


class NetworkBoxes:
    """Bounds the leads of one class over the others on boxes, for one record."""

    most: ClassVar[int] = 32_768
    together: ClassVar[int] = 256

    def __init__(self, network: Network, first: Affine, lower: Floats, upper: Floats) -> None:
        self.layers, self.activations = (first, *network.affine[1:]), network.activations
        self.unit = network.unit + 4 * DOUBLE  # the model's rounding and ours
        self.lower, self.upper = lower, upper

    def start(self) -> tuple[Floats, Floats]:
        """Return ``3^s`` boxes: the ends of the ranges, where atoms lie, apart from what is between."""
        sides = []
        for low, high in zip(self.lower, self.upper, strict=True):
            edges = (-np.inf, low, np.nextafter(high, low), np.inf)
            sides.append(list(pairwise(edges)))
        every = np.array(list(product(*sides)))
        return every[..., 0], every[..., 1]

    def look(self, low: Floats, high: Floats, label: int) -> Verdict:
        """Tell on which boxes the label is certain, or excluded, and halve the others where its lead varies most."""
        cuts = range(self.together, len(low), self.together)  # that many at once stay in the processor's cache
        parts = zip(np.split(low, cuts), np.split(high, cuts), strict=True)
        verdicts = [self._judged(low, high, label) for low, high in parts]
        return Verdict(*(np.concatenate(part) for part in zip(*verdicts, strict=True)))

    def _judged(self, low: Floats, high: Floats, label: int) -> Verdict:
        low, high = np.clip(low, self.lower, self.upper), np.clip(high, self.lower, self.upper)
        below, above = self.leads(low, high, label)
        least, most = _least(below), -_least(-above)
        sure, never = np.asarray((least > 0).all(axis=1)), np.asarray((most < 0).any(axis=1))
        rows, rival = np.arange(len(low)), np.argmin(least, axis=1)
        impact = np.abs(below[rows, :-1, rival]) + np.abs(above[rows, :-1, rival])
        flat = (impact == 0).all(axis=1)  # saturated units are bounded by constants: any narrower box may help
        impact[flat] = ((high - low) / (self.upper - self.lower))[flat]
        apart = np.asarray(most[rows, rival] - least[rows, rival])
        size = 1 + np.abs(most[rows, rival]) + np.abs(least[rows, rival])
        axis = np.argmax(impact, axis=1)
        cut = 0.5 * (low[rows, axis] + high[rows, axis])
        helps = ~flat | (apart > ROUNDED * self.unit * size)  # what is left is rounding
        splits = helps & (low[rows, axis] < cut) & (cut < high[rows, axis])
        return Verdict(sure, never, np.where(splits, axis, -1), cut)

    def leads(self, low: Floats, high: Floats, label: int) -> tuple[Floats, Floats]:
        """Return functions below and above the leads of a class on closed boxes.

        Shape ``(boxes, sensitive + 1, classes - 1)``: slopes in coordinates that run from -1 to 1 over the box, then
        the value at its centre.
        """
        *hidden, last = self.layers
        differences = np.delete(np.eye(len(last.biases))[label] - np.eye(len(last.biases)), label, axis=0)
        final = Affine.of(differences, np.zeros(len(differences))).after(last)
        centre = 0.5 * (low + high)
        half = 0.5 * (high - low) + RELEASE * (np.abs(self.lower) + np.abs(self.upper))
        under = np.concatenate([half[:, np.newaxis] * np.eye(low.shape[1]), centre[:, np.newaxis]], axis=1)
        over, sizes = under, np.abs(centre) + half
        with np.errstate(all="ignore"):  # what overflows ends as infinite or NaN, which decides nothing
            for layer, activation in zip(hidden, self.activations, strict=True):
                below, above = self._through(layer, under, over, sizes)
                under, over, sizes = _activated(activation, below, above)
            return self._through(final, under, over, sizes)

    def _through(self, layer: Affine, under: Floats, over: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        """Combine functions below and above the inputs, of these absolute ``sizes``, by the signs of the weights."""
        rising, falling = np.maximum(layer.weights, 0).T, np.minimum(layer.weights, 0).T
        below = _times(under, rising) + _times(over, falling)
        above = _times(over, rising) + _times(under, falling)
        size = 1 + sizes @ layer.terms.T + layer.constants  # 1: activations and softmax err absolutely
        room = np.where(size < LARGE, layer.additions * self.unit * size, np.inf)
        below[:, -1] += layer.biases - room
        above[:, -1] += layer.biases + room
        return below, above


def _activated(activation: Activation, below: Floats, above: Floats) -> tuple[Floats, Floats, Floats]:
    """Return functions below and above the activation's values, and bounds on their absolute sizes."""
    low, high = _least(below), -_least(-above)
    lines = activation.lines(low, high)
    under, over = below * lines.low_slope[:, np.newaxis], above * lines.high_slope[:, np.newaxis]
    under[:, -1] += lines.low_shift
    over[:, -1] += lines.high_shift
    return under, over, np.maximum(np.abs(activation(low)), np.abs(activation(high)))


def _least(functions: Floats) -> Floats:
    """Return the smallest values on the box."""
    return np.asarray(functions[:, -1] - np.abs(functions[:, :-1]).sum(axis=1))


def _times(functions: Floats, weights: Floats) -> Floats:
    """Return linear combinations of functions: one matrix product for all boxes."""
    boxes, terms, units = functions.shape
    return np.asarray((functions.reshape(-1, units) @ weights).reshape(boxes, terms, -1))


def bounds_for(problem: Problem) -> PropagatedBounds:
    """Return bounds on the scores of the question's network, or why there are none."""
    model = problem.classifier.inside
    if model is None:
        raise Unsupported("the classifier is a function")
    network, steps = problem.classifier.structure.network
    if len(problem.features) > MOST_FEATURES:
        raise Unsupported(f"there are more than {MOST_FEATURES} sensitive features")
    if any(feature.categories is not None for feature in problem.features):
        raise Unsupported("a sensitive feature is categorical")
    lower, upper = (np.array([getattr(f, end) for f in problem.features]) for end in ("lower", "upper"))
    view = column_view(model, steps, problem.records, problem.positions, lower)
    if not network.holds(view.sizes(np.maximum(np.abs(lower), np.abs(upper)))):
        raise Unsupported(OVERFLOWS)
    if not _agrees(problem, network, view):
        raise Unsupported(unlike("weights"))
    return PropagatedBounds(problem, network, view)


def _agrees(problem: Problem, network: Network, view: ColumnView) -> bool:
    """Check the reading of a network against the classifier."""

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        return network.labels(network.scores(view.at(rows, np.column_stack(values))))

    return answers_as_read(problem, read)


class Propagation(Branching):
    """Boxes of networks, whose scores are bounded by propagation."""

    name, reason = "propagation", "a network with {features}"
    reading = bounds_for

    def classes(self, problem: Problem) -> NDArray[Any]:
        """Return the network's labels."""
        return np.asarray(self.read(problem).classes)

    def regions(
        self, problem: Problem, record: int, laws: LawsOverEpsilon, settings: Settings
    ) -> Callable[[int], Undecided]:
        """Return what splits the heaviest boxes of a record."""
        boxes, mass = self.read(problem).boxes(record), partial(mass_of_boxes, laws, problem, record)
        off = np.max([laws.misplaced(j, x) for j, x in enumerate(problem.unit[record].tolist())], axis=0)
        return lambda place: branch(boxes, mass, place, enough(settings), off, problem.deadline.check)

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse outputs beyond the range, where nothing is bounded."""
        return None if stays_in_range(problem.releases[m]) else "its outputs leave the declared range"

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether boxes cost less than draws, and no coin adds its own width; who wants proof asks by name."""
        return len(problem.features) <= UNASKED and not any(release.reveal for release in problem.releases[m])
