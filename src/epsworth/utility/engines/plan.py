"""Which engine answers for which mechanism, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.scalers import steps_of
from epsworth.guarantees import ceiling
from epsworth.utility.curves import Bounds
from epsworth.utility.engines import cells
from epsworth.utility.engines.branch_and_bound import branch_and_sample
from epsworth.utility.engines.cells import TreeCells, cells_for, exact_cells
from epsworth.utility.engines.contraction import mass_error, outward, stays_in_range
from epsworth.utility.engines.grid import MOST_POINTS, count_groups, exact_grid, grid_sizes
from epsworth.utility.engines.linear import LinearModel, linear_bounds, linear_for, unclipped_works
from epsworth.utility.engines.polygons import polygon_bounds
from epsworth.utility.engines.propagation import PropagatedBounds, bounds_for
from epsworth.utility.engines.quadratic import QuadraticModel, quadratic_bounds, quadratic_for
from epsworth.utility.engines.rays import exit_scales, noise_scales
from epsworth.utility.engines.sampled import Answer, Progress, Settings
from epsworth.utility.engines.strata import shared_grid, shared_samples
from epsworth.utility.question import Question

Method = Literal["auto", "cells", "linear", "grid", "propagation", "sampled", "paper"]
Run = Callable[[Question, Settings], Answer | None]

CHEAP_GRID = 2_000_000  # queries over all records up to which a grid is asked even where cells are known
MOST_FEATURES, MOST_RECORDS = 6, 16  # for branch and bound under auto; beyond, sampling every record costs less
DRAWING = ("branch-and-bound", "bound-propagation", "shared-samples", "exit-scales")
LARGEST_GRID = 50_000_000  # queries over all records beyond which sampling is the better bargain


@dataclass(frozen=True)
class Part:
    """Some mechanisms of a question and the engine that answers for them; ``run`` is None for plain sampling."""

    mechanisms: tuple[int, ...]
    name: str
    why: str
    run: Run | None

    @property
    def draws(self) -> bool:
        """Whether the engine draws, and so needs a share of the miss probability."""
        return self.run is None or self.name in DRAWING


def label_response(question: Question, settings: Settings) -> Answer:
    """Return the closed form for randomised response on the label: the ceiling of the record's budget."""
    classes = question.classifier.classes
    if classes is None:
        raise ValueError("label_rr needs to know all labels; give a fitted estimator, or Classifier(..., classes=...)")
    totals = np.array([[release.guarantee.epsilon for release in row] for row in question.releases])
    kept = np.vectorize(lambda total: ceiling(total, len(classes)))(totals)[:, :, np.newaxis]
    if len(classes) > 1:
        kept = np.minimum(kept, np.nextafter(1, 0))  # never quite 1, whatever a double holds
    other = (1 - kept) / max(len(classes) - 1, 1)
    every = np.ones(len(question.records))
    stability = Bounds(*outward(kept * every, mass_error(2)))
    accuracy = None
    if question.y is not None:
        known = np.isin(question.y, np.asarray(classes))
        right = np.where(question.labels == question.y, kept, np.where(known, other, 0.0))
        accuracy = Bounds(*outward(right * every, mass_error(2)))
    settings.progress(1.0)
    return Answer(stability, accuracy, np.full(len(every), len(classes)), 0)


def one_label(question: Question, settings: Settings) -> Answer:
    """Return the answer where the classifier knows one label only: it stays for certain."""
    m, e, n = question.shape
    sure = np.ones((m, e, n))
    right = None if question.y is None else sure * (question.labels == question.y)
    settings.progress(1.0)
    accuracy = None if right is None else Bounds(right, right.copy())
    return Answer(Bounds(sure, sure.copy()), accuracy, np.ones(n, dtype=np.int64), 0)


def knows_one_label(question: Question) -> bool:
    """Tell whether a model of the library, which answers itself, can give one label only."""
    model, classes = question.classifier.inside, question.classifier.classes
    if model is None or classes is None:
        return False
    last, _ = steps_of(model)
    constant = kind_of(last) == "DummyClassifier" and last.strategy in ("most_frequent", "prior", "constant")
    return constant or len(classes) == 1


def _bracketing(bounds: Callable[[Question, LinearModel, float, Progress], Answer], model: LinearModel) -> Run:
    return lambda question, settings: bounds(question, model, settings.tolerance, settings.progress)


class Planner:
    """Looks inside the classifier once and assigns every mechanism."""

    def __init__(self, question: Question, method: Method) -> None:
        self.question, self.method = question, method
        self.cells: TreeCells | str = cells_for(question) if method in ("auto", "cells") else "not asked for"
        self.linear: LinearModel | str = linear_for(question) if method in ("auto", "linear") else "not asked for"
        self.quadratic: QuadraticModel | str = quadratic_for(question) if method == "auto" else "not asked for"
        self.network: PropagatedBounds | str = bounds_for(question) if method == "propagation" else "not asked for"

    @cached_property
    def tables(self) -> int:
        """How many decision tables a grid would need: one per set of public features."""
        return count_groups(self.question)

    def parts(self) -> list[Part]:
        """Return the plan: mechanisms that share an engine (and a grid) are answered together."""
        assigned: dict[tuple[str, tuple[int, ...] | None], Part] = {}
        for m in range(len(self.question.names)):
            part, grid = self._of(m)
            key = (part.name, grid)
            before = assigned[key].mechanisms if key in assigned else ()
            assigned[key] = Part((*before, m), part.name, part.why, part.run)
        return list(assigned.values())

    def _of(self, m: int) -> tuple[Part, tuple[int, ...] | None]:
        if not self.question.releases[m][0].mechanisms:
            return Part((), "closed-form", "the label itself is randomised", label_response), None
        method, sizes = self.method, grid_sizes(self.question, m)
        if method == "sampled":
            return Part((), "monte-carlo", "asked for", None), None
        if method == "auto" and knows_one_label(self.question):
            return Part((), "constant", "the classifier gives one label only", one_label), None
        builder = self.cells if isinstance(self.cells, TreeCells) else None
        if method in ("auto", "grid") and sizes is not None:
            size = int(np.prod([float(k) for k in sizes]))
            queries = size * self.tables
            most = CHEAP_GRID if builder else LARGEST_GRID
            if size <= MOST_POINTS and (queries <= most or method == "grid"):
                why = f"outputs lie on a grid of {' x '.join(map(str, sizes))} points"
                return Part((), "exact-grid", why, lambda q, s: exact_grid(q, sizes, s.progress)), sizes
        features = len(self.question.features)
        why = f"a tree model with {features} sensitive features"
        if builder is not None and features <= cells.MOST_FEATURES:
            return Part((), "exact-cells", why, lambda q, s: exact_cells(q, builder, s.progress)), None
        if builder is not None and self._branching_can(m):
            return Part((), "branch-and-bound", why, lambda q, s: branch_and_sample(q, builder, s)), None
        if isinstance(self.network, PropagatedBounds) and not self._leaves_range(m):
            network = self.network
            why = f"a network with {features} sensitive feature{'s' * (features > 1)}"
            return Part((), "bound-propagation", why, lambda q, s: branch_and_sample(q, network, s)), None
        if isinstance(self.linear, LinearModel) and (part := self._linear_part(m, self.linear)):
            return part, None
        if isinstance(self.quadratic, QuadraticModel) and self._continuous(m):
            scores, why = self.quadratic, f"quadratic scores, {features} sensitive feature{'s' * (features > 1)}"
            return Part((), "sections", why, lambda q, s: quadratic_bounds(q, scores, s.tolerance, s.progress)), None
        k = shared_grid(self.question, m)
        if method == "auto" and k is not None and len(self.question.epsilons) > len(self.question.features):
            why = "k-ary randomised response: the draws serve all epsilons"
            return Part((), "shared-samples", why, lambda q, s: shared_samples(q, k, s)), (m,)
        if method != "auto":
            raise ValueError(f"method={method!r} cannot answer {self.question.names[m]}: {self._why_not(m)}")
        return Part((), "monte-carlo", "no exact engine applies", None), None

    def _linear_part(self, m: int, model: LinearModel) -> Part | None:
        """Return the narrowest engine for a linear model: with K > 2 classes sums only give a union bound."""
        binary, features = len(model.weights) == 1, len(self.question.features)
        sums = self._sums_can(m, model)
        if binary and sums:
            return Part((), "lattice-bracket", "a binary linear model", _bracketing(linear_bounds, model))
        if features <= 2:
            why = f"a linear model of {len(model.classes)} classes with {features} sensitive features"
            return Part((), "polygon", why, _bracketing(polygon_bounds, model))
        if sums and self.method == "linear":
            return Part((), "lattice-bracket", "a linear model, by pairs", _bracketing(linear_bounds, model))
        if self.method == "auto" and len(self.question.epsilons) > 1 and noise_scales(self.question, m) is not None:
            why = "noise of one shape on a linear model: the draws serve all epsilons"
            return Part((), "exit-scales", why, lambda q, s: exit_scales(q, model, s))
        return None

    def _leaves_range(self, m: int) -> bool:
        """Tell whether some output may lie outside the declared range."""
        return not stays_in_range(self.question.releases[m])

    def _sums_can(self, m: int, model: LinearModel) -> bool:
        """Everything on [0, 1]; unclipped noise where all features carry the same kind of it."""
        kinds = {(x.output, type(x).__name__) for release in self.question.releases[m] for x in release.mechanisms}
        if not self._leaves_range(m):
            return True
        alone = len(model.weights) == 1 and unclipped_works(model.weights[0])
        return kinds == {("real line", "Gaussian")} or (kinds == {("real line", "Laplace")} and alone)

    def _continuous(self, m: int) -> bool:
        return all(x.points is None for release in self.question.releases[m] for x in release.mechanisms)

    def _branching_can(self, m: int) -> bool:
        few = len(self.question.features) <= MOST_FEATURES
        asked = self.method == "cells" or len(self.question.records) <= MOST_RECORDS
        reveals = any(release.reveal for release in self.question.releases[m])
        ranges = all(feature.categories is None for feature in self.question.features)
        return few and asked and ranges and not (reveals and self.method != "cells")

    def _why_not(self, m: int) -> str:
        if self.method == "cells":
            reason = self.cells if isinstance(self.cells, str) else "there are more than 6 sensitive features"
            return f"{reason}; use method='auto'"
        if self.method in ("linear", "propagation"):
            found = self.linear if self.method == "linear" else self.network
            reason = found if isinstance(found, str) else "its outputs leave the declared range"
            return f"{reason}; use method='auto'"
        return f"its outputs are continuous or its grid exceeds {MOST_POINTS} points; use quantise=k with a smaller k"
