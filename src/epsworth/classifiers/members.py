"""What was read of a classifier that may be a member of another: its trees, and what it answers beside labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.branches import after, side_by_side
from epsworth.classifiers.columns import Columns
from epsworth.classifiers.cuts import Answers, Rule, change_of
from epsworth.classifiers.flat import LEAF, Decision, TreeModel, beside
from epsworth.classifiers.reading import Unsupported, leading
from epsworth.classifiers.responses import slices

NO_TREES = "the classifier is not a supported tree model"
MOST_SUMS = 64  # beside each other, on every cell


@dataclass(frozen=True, eq=False, kw_only=True)
class Member(Answers):
    """A classifier that was read.

    Attributes
    ----------
    trees : TreeModel
        Its labels; features are columns of ``trees.before``, which knows them as functions of the records' columns.
    probabilities, scores : Response or None
        What ``predict_proba`` and ``decision_function`` answer, where that is known.
    raw : TreeModel, optional
        Whose sums these answer from, where not those of `trees`.
    """

    trees: TreeModel
    raw: TreeModel | None = None

    @property
    def sums(self) -> TreeModel:
        """The trees from whose sums the responses follow."""
        return self.trees if self.raw is None else self.raw

    def behind(self, steps: Sequence[Any]) -> Member:
        """Return the same classifier with steps put in front, whose effect its columns tell already."""
        trees, raw = (m and replace(m, before=after(steps, m.before)) for m in (self.trees, self.raw))
        assert trees is not None
        return replace(self, trees=trees, raw=raw)


@dataclass(frozen=True, eq=False)
class Choice:
    """The labels of a model from its sums, as `Votes` asks for them."""

    decision: Decision | None

    def __call__(self, sums: Floats, slack: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of its labels, and where they are clear."""
        if self.decision is not None:
            return self.decision(sums)
        places, lead = leading(sums)
        return places, np.asarray(lead >= slack.max())


Read = Callable[[Any, Columns], Member]


def together(trees: Sequence[TreeModel]) -> tuple[TreeModel, list[slice], Floats]:
    """Return the trees of all as one model, where the sums of each stand, and the slack of every sum."""
    widths = [model.values.shape[1] for model in trees]
    if sum(widths) > MOST_SUMS:
        raise Unsupported(f"its members hold more than {MOST_SUMS} scores together")
    slack = np.concatenate([np.full(width, model.slack) for width, model in zip(widths, trees, strict=True)])
    return beside(_on_common_columns(trees)), slices(widths), slack


def added_up(trees: Sequence[TreeModel], weights: Floats) -> TreeModel:
    """Return the weighted sum of the trees' sums as one model; of equal classes, in the same order."""
    trees = _on_common_columns(trees)
    joined, width = beside(trees), trees[0].values.shape[1]
    at = slices([width] * len(trees))
    values = np.sum([w * joined.values[:, here] for w, here in zip(weights, at, strict=True)], axis=0)
    offset = np.sum([w * joined.offset[here] for w, here in zip(weights, at, strict=True)], axis=0)
    slack = sum(abs(w) * model.slack for w, model in zip(weights, trees, strict=True))
    return replace(joined, values=values, offset=offset, tie=float(slack) / len(joined.roots))


def _on_common_columns(trees: Sequence[TreeModel]) -> list[TreeModel]:
    """Return the models with features of what stands before all of them, side by side."""
    before = side_by_side([model.before for model in trees])
    if not before.steps:
        return [replace(model, before=before) for model in trees]
    starts = np.cumsum([0, *(len(model.before.columns) for model in trees)])
    return [
        replace(m, before=before, feature=np.where(m.left == LEAF, LEAF, m.feature + s))
        for m, s in zip(trees, starts, strict=False)
    ]


def cut_off(trees: TreeModel, rule: Rule) -> TreeModel | None:
    """Return trees of a single sum whose labels follow from a rule; None for several sums.

    What lies in the bracket of the one change is left to the classifier.
    """
    if trees.decision is not None or trees.values.shape[1] != 1:
        return None
    sign, middle, room = change_of(rule, trees.slack + float(_reach(trees) + abs(trees.offset[0])))
    return replace(
        trees,
        values=sign * trees.values,
        offset=sign * trees.offset - middle,
        tie=trees.tie + room / len(trees.roots),
        classes=trees.classes[list(rule.places)],
    )


def _reach(trees: TreeModel) -> float:
    """Bound the size of the sums."""
    return float(np.maximum.reduceat(np.abs(trees.values[:, 0]), trees.roots).sum())
