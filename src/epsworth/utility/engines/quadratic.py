"""Two-sided bounds for classifiers with quadratic scores and one or two sensitive features.

Naive Bayes, quadratic discriminants, Gaussian mixtures, centroids and k-means, read on the unit scale:
`sections` bounds how often one score leads all the others.  Any mechanism whose outputs are continuous but for
atoms at 0 and 1, and unclipped noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Interval
from epsworth.classifiers.quadratics import QuadraticScores, quadratic_scores
from epsworth.classifiers.reading import Unsupported, unlike
from epsworth.classifiers.scalers import opened
from epsworth.classifiers.views import View, viewed
from epsworth.laws import Law
from epsworth.laws.noise import Noise
from epsworth.mechanisms import Mechanism
from epsworth.records import Indices
from epsworth.utility.engines.brackets import batches, bracketed
from epsworth.utility.engines.engine import ByRecord, RecordResult, Settings, Unreadable
from epsworth.utility.engines.probing import SPREAD, answers_as_read
from epsworth.utility.engines.slabs import TAIL, Leads, bracket, span_of
from epsworth.utility.question import Question

MOST_FEATURES = 2
WIDE = 0.02  # a gap that sampling closes at less cost than rounding or ties leave it open
LATTICE = 33  # points per feature at which the possible labels are looked for


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """Scores on the unit scale: ``u'A[k]u + b[i, k].u + c[i, k]`` for class k and record i.

    A single sensitive feature is the second of two, the first of which counts for nothing.  ``fixed`` and
    ``grows`` bound the absolute terms of the scores by ``fixed[i, k] + grows[far, k] max(|u|)^2``, where ``far``
    is 1 beyond the unit range.
    """

    curvature: Floats
    slope: Floats
    value: Floats
    fixed: Floats
    grows: Floats
    unit: float
    classes: NDArray[Any]

    def slack(self, reach: float) -> Floats:
        """Bound the rounding of a score, the estimator's and ours, where no unit value exceeds ``reach``."""
        return np.asarray(self.unit * (self.fixed + self.grows[int(reach > 1)] * reach**2))

    def leads(self, record: int, label: Any, reach: float) -> Leads | None:
        """Return the leads of a label over all others; None where the model does not know it."""
        own = np.flatnonzero(self.classes == label)
        if not own.size:
            return None
        k, slack = own[0], self.slack(reach)[record]
        rivals = np.arange(len(self.classes)) != k
        return Leads(
            self.curvature[k] - self.curvature[rivals],
            self.slope[record, k] - self.slope[record, rivals],
            self.value[record, k] - self.value[record, rivals],
            slack[k] + slack[rivals],
        )

    def answers(self, records: NDArray[np.intp], unit: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the place of the label of each record at unit values (n, 2), and whether rounding cannot change it."""
        curved = np.einsum("ni,kij,nj->nk", unit, self.curvature, unit)
        scores = curved + np.einsum("nki,ni->nk", self.slope[records], unit) + self.value[records]
        slack, best = self.slack(max(1.0, float(np.abs(unit).max())))[records], scores.argmax(axis=1)
        behind = scores + slack + np.take_along_axis(slack, best[:, np.newaxis], axis=1)
        np.put_along_axis(behind, best[:, np.newaxis], -np.inf, axis=1)
        return best, np.asarray(behind.max(axis=1) < scores.max(axis=1))


def quadratic_for(question: Question) -> QuadraticModel:
    """Return what the question's classifier is on the unit scale, or why sections cannot be taken."""
    model = question.classifier.inside
    found = None if model is None else opened(model)
    scores = None if found is None else quadratic_scores(found[0])
    if found is None or scores is None:
        raise Unsupported(
            "the classifier has no quadratic scores that can be read, or a part of it answers by code of its own"
        )
    if scores.unit > np.finfo(float).eps:
        raise Unsupported("the classifier was fitted in single precision, whose rounding would leave too much open")
    if len(question.features) > MOST_FEATURES:
        raise Unsupported(f"there are more than {MOST_FEATURES} sensitive features")
    if any(feature.categories is not None for feature in question.features):
        raise Unsupported("a sensitive feature is categorical")
    lower = np.array([feature.lower for feature in question.features])
    try:
        view = viewed(model, found[2], question.records, question.positions, lower)
    except Unsupported as why:
        raise Unreadable(str(why)) from None
    read = _read(question, scores, view)
    if not all(np.isfinite(part).all() for part in (read.curvature, read.slope, read.value, read.fixed, read.grows)):
        raise Unreadable("the scores of a record are not finite numbers")
    if not _agrees(question, read):
        raise Unsupported(unlike("scores"))
    return read


def _read(question: Question, scores: QuadraticScores, view: View) -> QuadraticModel:
    """Expand the scores around the lower ends of the sensitive features."""
    lower, size = view.origin, np.abs(view.origin)
    width = np.array([f.upper for f in question.features]) - lower
    moves = np.zeros((view.width, 2))
    moves[:, 2 - len(lower) :] = view.slopes * width
    sizes = view.sizes(size)
    grows = np.stack([view.terms @ width, view.terms @ (2 * size + width)])  # |lower (1 - u)| + |upper u|
    curvature, slope, value, fixed, growing = [], [], [], [], []
    for root, mean, constant, terms in zip(scores.roots, scores.means, scores.constants, scores.terms, strict=True):
        here, moved = (view.base - mean) @ root.T, root @ moves
        curvature.append(-0.5 * moved.T @ moved)
        slope.append(-here @ moved)
        value.append(constant - 0.5 * (here**2).sum(axis=1))
        # (u + v)^2 <= 2 u^2 + 2 v^2
        fixed.append((((sizes + np.abs(mean)) @ np.abs(root).T) ** 2).sum(axis=1) + terms)
        growing.append(((grows @ np.abs(root).T) ** 2).sum(axis=1))
    # 3 d + 15 roundings in a score of theirs, 3 d + 16 in ours, and twice those of the steps, as values are squared
    unit = 8 * (view.width + view.additions + 4) * scores.unit
    return QuadraticModel(
        np.array(curvature), np.stack(slope, axis=1), np.stack(value, axis=1), np.stack(fixed, axis=1),
        np.array(growing).T, unit, scores.classes,
    )  # fmt: skip


def _agrees(question: Question, model: QuadraticModel) -> bool:
    """Check the reading against the classifier."""
    ends = [(f.lower, f.upper) for f in question.features]

    def read(rows: Indices, values: list[NDArray[Any]]) -> tuple[NDArray[Any], Bools]:
        unit = [(v - low) / (high - low) for v, (low, high) in zip(values, ends, strict=True)]
        best, clear = model.answers(rows, np.column_stack([np.zeros(len(rows)), *unit][-2:]))
        return model.classes[best], clear

    return answers_as_read(question, read)


def _laws(features: list[list[Mechanism]], values: Floats) -> list[list[Law]]:
    """Return the features' laws, for as many epsilons at once as can share their sections.

    Unclipped noise comes one epsilon at a time: rounding at the reach of the widest would drown the narrowest.
    """
    found = []
    for laws in batches(features, values):
        alone = laws[0].shape and any(isinstance(law, Noise) for law in laws)
        found += [[law[e : e + 1] for law in laws] for e in range(laws[0].shape[0])] if alone else [laws]
    return found


def _settled(model: QuadraticModel, record: int, label: Any) -> float | None:
    """Return 1 or 0 where no values within the ranges change whether a label is answered; else None."""
    leads = model.leads(record, label, 1.0)
    if leads is None:
        return 0.0
    return leads.settled() if len(leads.gap) else 1.0


def _keeps(model: QuadraticModel, record: int, label: Any, laws: list[Law], tolerance: float) -> Interval:
    reach = max(float(np.abs(span_of(law, TAIL)).max()) for law in laws)
    leads, shape = model.leads(record, label, reach), np.atleast_1d(laws[0].mean()).shape
    if leads is None:
        return Interval(np.zeros(shape), np.zeros(shape))
    if not len(leads.gap):
        return Interval(np.ones(shape), np.ones(shape))  # no rival
    return bracket(leads, laws, tolerance)


class SlabBounds(ByRecord):
    """Slabs of one feature, with bounds on each: quadratic scores, outputs continuous but for atoms at 0 and 1."""

    name, reason = "slabs", "quadratic scores, {features}"
    brackets = slow = True
    can_fall_back = True  # where rounding, or an atom on a boundary, leaves so much open that sampling does better
    numbers_only = True
    reading = quadratic_for

    def unsupported_reason(self, question: Question, m: int) -> str | None:
        """Refuse mechanisms on grids."""
        continuous = all(x.points is None for release in question.releases[m] for x in release.mechanisms)
        return None if continuous else "its outputs lie on a grid"

    def record_results(self, question: Question, settings: Settings) -> Iterator[RecordResult | None]:
        """Yield deterministic bounds."""
        model, tolerance = self.read(question), settings.tolerance

        def known(record: int, label: Any, within: bool) -> float | None:
            return _settled(model, record, label) if within else None

        def keeps(record: int, label: Any, laws: list[Law]) -> Interval:
            return _keeps(model, record, label, laws, tolerance)

        axis = np.linspace(0, 1, LATTICE)
        lattice = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        for record, bounds in bracketed(question, known, keeps, _laws):
            if max(float((upper - lower).max()) for lower, upper in bounds) > max(2 * tolerance, WIDE):
                yield None
            best, clear = model.answers(np.full(len(lattice), record), lattice)
            yield RecordResult(record, bounds, len(np.unique(best[clear])), 2 * SPREAD * (record == 0))  # sure to occur
