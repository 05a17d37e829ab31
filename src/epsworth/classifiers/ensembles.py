"""Ensembles of trees, and what else decides by the answers of classifiers that were read.

Where labels follow from weighted sums of leaves, an ensemble is read as a sum of trees, which every engine takes.
Where members answer by themselves first (votes, probabilities of boosting, several calibrators), their sums are kept
side by side: on a cell between all thresholds all of them are constant, and the ensemble's own rule decides there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.classifiers.pipeline import Selection, parallel_preprocessing
from epsworth.classifiers.reading import Unsupported, dense, leading, library_class, steps_of
from epsworth.classifiers.thresholds import (
    CALIBRATED,
    LINEAR,
    UNKNOWN,
    Answers,
    AtLeast,
    Average,
    Largest,
    Logistic,
    OneVsOne,
    OneVsRest,
    Response,
    Rule,
    Shares,
    Stacked,
    Sums,
    Votes,
    argmax_rule,
    calibration,
    change_of,
    slices,
    threshold_rule,
    thresholded,
)
from epsworth.classifiers.transformers import Columns
from epsworth.classifiers.trees import LEAF, NO_TREES, TREES, Decision, TreeModel, own_trees, stack_trees, weighted_sum

MOST_SUMS = 64  # beside each other, on every cell
UNKNOWN_SCORES = f"the scores of a member of the ensemble are {UNKNOWN}"
UNKNOWN_SHARES = f"the probabilities of a member of the ensemble are {UNKNOWN}"
WEIGHTS = "the weights of the ensemble are negative, or all 0"


@dataclass(frozen=True, eq=False, kw_only=True)
class Member(Answers):
    """A classifier that was read, and may be a member of another.

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

        def moved(trees: TreeModel) -> TreeModel:
            return replace(trees, before=replace(trees.before, steps=(*steps, *trees.before.steps)))

        return replace(self, trees=moved(self.trees), raw=self.raw and moved(self.raw))


Read = Callable[[Any, Columns], Member]


@dataclass(frozen=True, eq=False)
class Choice:
    """The labels of a model from its sums, as `Votes` asks for them; by places of the ensemble where it says these."""

    decision: Decision | None
    places: NDArray[np.intp] | None = None

    def __call__(self, sums: Floats, slack: Floats) -> tuple[NDArray[np.intp], Bools]:
        """Return the places of its labels, and where they are clear."""
        if self.decision is not None:
            own, clear = self.decision(sums)
        else:
            own, lead = leading(sums)
            clear = np.asarray(lead >= slack.max())
        return (own if self.places is None else self.places[own]), clear


def stack_members(trees: Sequence[TreeModel]) -> tuple[TreeModel, list[slice], Floats]:
    """Return the trees of all as one model, where the sums of each stand, and the slack of every sum."""
    widths = [model.values.shape[1] for model in trees]
    if sum(widths) > MOST_SUMS:
        raise Unsupported(f"its members hold more than {MOST_SUMS} scores together")
    slack = np.repeat([model.slack for model in trees], widths)
    return stack_trees(_on_common_columns(trees)), slices(widths), slack


def _on_common_columns(trees: Sequence[TreeModel]) -> list[TreeModel]:
    """Return the models with features of what stands before all of them, side by side."""
    before = parallel_preprocessing([model.before for model in trees])
    starts = np.cumsum([0, *(len(model.before.columns) if before.steps else 0 for model in trees)])
    return [
        replace(m, before=before, feature=np.where(m.left == LEAF, LEAF, m.feature + start) if start else m.feature)
        for m, start in zip(trees, starts, strict=False)
    ]


def at_threshold(trees: TreeModel, rule: Rule) -> TreeModel | None:
    """Return trees of a single sum whose labels follow from a rule; None for several sums.

    What lies in the bracket of the one change is left to the classifier.
    """
    if trees.decision is not None or trees.values.shape[1] != 1:
        return None
    reach = float(np.maximum.reduceat(np.abs(trees.values[:, 0]), trees.roots).sum())
    sign, middle, room = change_of(rule, trees.slack + float(reach + abs(trees.offset[0])))
    return replace(
        trees,
        values=sign * trees.values,
        offset=sign * trees.offset - middle,
        tie=trees.tie + room / len(trees.roots),
        classes=trees.classes[list(rule.places)],
    )


def read_all(models: Sequence[Any], columns: Columns, read: Read, *, copies: bool = False) -> list[Member]:
    """Read all members, or say what stands in the way at the first of which something does.

    ``copies``: of one model, so that if they are no trees, neither is the ensemble.
    """
    members: list[Member] = []
    for model in models:
        try:
            members.append(read(model, columns))
        except Unsupported as why:
            if copies and str(why).startswith(NO_TREES):
                raise
            raise Unsupported(f"a member of the ensemble: {why}") from None
    return members


def _labelled(model: Any, trees: TreeModel, decision: Decision | None = None, **answers: Any) -> Member:
    """Return an ensemble whose labels, in the order of its classes, follow from sums by a decision."""
    return Member(trees=replace(trees, classes=np.asarray(model.classes_), decision=decision), **answers)


def voting(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `VotingClassifier`: its members' labels, or probabilities, are weighted and added."""
    members, width = read_all(model.estimators_, columns, read), len(model.classes_)
    places = np.arange(width).tolist()
    if width < 2 or any(sorted(one.trees.classes.tolist()) != places for one in members):
        raise Unsupported("a member of the ensemble does not know all its classes")
    weights = np.ones(len(members)) if model.weights is None else np.asarray(model._weights_not_none, dtype=np.float64)
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise Unsupported(WEIGHTS)
    if model.voting == "hard":
        trees, at, slack = stack_members([one.trees for one in members])
        choices = [Choice(one.trees.decision, one.trees.classes.astype(np.intp)) for one in members]
        votes = zip([Votes(choice, width) for choice in choices], at, strict=True)
        return _labelled(model, trees, Largest(Average(tuple(votes), weights), slack))
    if any(one.sums.classes.tolist() != places for one in members):
        raise Unsupported("a member of the ensemble orders its classes otherwise")
    return _by_probabilities(model, members, weights)


def _by_probabilities(model: Any, members: Sequence[Member], weights: Floats) -> Member:
    """Average probabilities: those of forests by adding their leaves, others side by side."""
    sums, responses = [one.sums for one in members], [one.probabilities for one in members]
    counts = [response.trees for response in responses if isinstance(response, Shares)]
    if len(counts) == len(members):
        return _labelled(
            model, weighted_sum(_on_common_columns(sums), weights / counts / weights.sum()), probabilities=Shares(1)
        )
    known = [response for response in responses if response is not None]
    if len(known) < len(members):
        raise Unsupported(UNKNOWN_SHARES)
    return _averaged(model, sums, known, weights / weights.sum())


def _averaged(model: Any, sums: Sequence[TreeModel], responses: Sequence[Response], weights: Floats) -> Member:
    trees, at, slack = stack_members(sums)
    average = Average(tuple(zip(responses, at, strict=True)), weights)
    decided = _labelled(model, trees, Largest(average, slack), probabilities=average)
    return replace(decided, raw=decided.trees)


def bagging(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `BaggingClassifier` of trees or forests, each of which sees columns of its own."""
    width, sums, counts = len(model.classes_), [], []
    for estimator, features in zip(model.estimators_, model.estimators_features_, strict=True):
        own = np.asarray(features, dtype=np.intp)
        (one,) = read_all([estimator], columns.take(own), read)
        shares = one.probabilities
        if width < 2 or not isinstance(shares, Shares) or shares.trees != len(one.sums.roots):
            raise Unsupported(f"{UNKNOWN_SHARES}, or not averages of leaves")
        sums.append(_of_all_classes(_of_all_columns(one.sums, own, columns), width))
        counts.append(shares.trees)
    return _labelled(
        model, weighted_sum(_on_common_columns(sums), 1 / np.array(counts) / len(sums)), probabilities=Shares(1)
    )


def _of_all_columns(trees: TreeModel, own: NDArray[np.intp], columns: Columns) -> TreeModel:
    """Return trees that see some columns as ones that are given all: bare trees just look at other places."""
    if trees.before.steps:
        return Member(trees=trees).behind([Selection(own)]).trees
    feature = np.where(trees.left == LEAF, LEAF, own[trees.feature])
    return replace(trees, feature=feature, before=replace(trees.before, columns=columns))


def _of_all_classes(trees: TreeModel, width: int) -> TreeModel:
    """Return trees of class shares with one for each of the ensemble's classes, of which they may know a part."""
    known = trees.classes.astype(np.intp)
    if width == 2 and len(known) == 2:
        return trees
    leaf, values = trees.left == LEAF, np.zeros((len(trees.values), width))
    if len(known) == 1:
        values[leaf, known[0]] = 1.0
    elif len(known) == 2:  # differences of shares
        half = trees.values[leaf, 0] / 2
        values[leaf, known[0]], values[leaf, known[1]] = 0.5 - half, 0.5 + half
    else:
        values[:, known] = trees.values
    if width == 2:
        values = values[:, 1:] - values[:, :1]
    return replace(trees, values=values, offset=np.zeros(values.shape[1]))


def ada_boost(model: Any, columns: Columns, read: Read) -> Member:
    """Read an `AdaBoostClassifier` of single trees: weighted votes of the leaves."""
    members = read_all(model.estimators_, columns, read)
    last = [steps_of(estimator)[0] for estimator in model.estimators_]
    if not own_trees(last, *TREES):
        raise Unsupported("the members of the AdaBoostClassifier are no single trees")
    classes, weights = model.classes_, np.asarray(model.estimator_weights_, dtype=np.float64)
    if not weights.sum() > 0 or (weights < 0).any():
        raise Unsupported(WEIGHTS)
    votes = [_leaf_votes(tree, classes) for tree in last]
    trees = [
        replace(one.trees, values=own, offset=np.zeros(own.shape[1]))
        for one, own in zip(_given_arrays(members, columns), votes, strict=True)
    ]
    factor, slope = (2.0, 1.0) if len(classes) == 2 else (1.0, 1 / max(1, len(classes) - 1))
    total = weighted_sum(_on_common_columns(trees), factor * weights[: len(members)] / weights.sum())
    return _labelled(model, total, probabilities=Logistic(slope), scores=Sums())


def _leaf_votes(tree: Any, classes: NDArray[Any]) -> Floats:
    """Return per node 1 for the tree's label and -1 / (K - 1) for the others; of two classes only the second's."""
    label = tree.classes_[np.argmax(tree.tree_.value[:, 0, :], axis=1)]
    votes = np.where(label[:, np.newaxis] == classes, 1.0, -1.0 / max(1, len(classes) - 1))
    return votes[:, 1:] if len(classes) == 2 else votes


def _given_arrays(members: Sequence[Member], columns: Columns) -> list[Member]:
    """Return the members of an ensemble that makes an array of whatever it is given, before it hands that on."""
    every = [Selection(np.arange(len(columns)))]
    return [one.behind(every) if one.trees.before.steps else one for one in members]


def _confidences(model: Any, members: Sequence[Member]) -> list[Response]:
    """Return what an ensemble of two-class members compares: their scores, or else probabilities."""
    responses = [one.response(own, CALIBRATED)[1] for one, own in zip(members, model.estimators_, strict=True)]
    if None in responses:
        raise Unsupported(UNKNOWN_SCORES)
    return [response for response in responses if response is not None]


def one_vs_rest(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `OneVsRestClassifier` of more than two classes: the label of the largest score."""
    if model.label_binarizer_.y_type_ != "multiclass" or len(model.estimators_) != len(model.classes_):
        raise Unsupported("the OneVsRestClassifier does not choose one of several classes")
    members = read_all(model.estimators_, columns, read, copies=True)
    responses = _confidences(model, members)
    trees, at, slack = stack_members([one.sums for one in members])
    if all(isinstance(response, Sums) for response in responses):
        return _labelled(model, replace(trees, tie=2 * slack.max() / len(trees.roots)))
    return _labelled(model, trees, Largest(OneVsRest(tuple(zip(responses, at, strict=True))), slack))


def one_vs_one(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `OneVsOneClassifier` of more than two classes: votes of pairs, and confidences where these are equal."""
    if len(model.classes_) < 3 or model.pairwise_indices_ is not None:
        raise Unsupported("the OneVsOneClassifier has two classes, or members that see similarities")
    members = read_all(model.estimators_, columns, read)
    responses = _confidences(model, members)
    if not all(one.raw is None and one.trees.classes.tolist() == [0, 1] for one in members):
        raise Unsupported(UNKNOWN_SCORES)
    trees, at, slack = stack_members([one.trees for one in _given_arrays(members, columns)])
    votes = [Votes(Choice(one.trees.decision), 2) for one in members]
    pairs = OneVsOne(tuple(zip(responses, votes, at, strict=True)), len(model.classes_))
    return _labelled(model, trees, Largest(pairs, slack))


def stacking(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `StackingClassifier` whose last step is linear in the probabilities, or scores, of its members."""
    last, classes, methods = model.final_estimator_, model.classes_, model.stack_method_
    linear = library_class(last) in LINEAR and hasattr(last, "coef_")
    if not linear or model.passthrough or last.classes_.tolist() != list(range(len(classes))):
        raise Unsupported("the last step of the StackingClassifier is not linear in its members' probabilities alone")
    members, responses, widths = read_all(model.estimators_, columns, read), [], []
    for one, estimator, method in zip(members, model.estimators_, methods, strict=True):
        response, known = (None if method == "predict" else one.response(estimator, (method,))[1]), estimator.classes_
        if response is None or one.sums.classes.tolist() != known.tolist():
            raise Unsupported(UNKNOWN_SCORES)
        responses.append(response)
        single = len(classes) == 2 or (method == "decision_function" and len(known) == 2)
        widths.append(1 if single else len(known))
    weights, counts = np.atleast_2d(dense(last.coef_)), [len(estimator.classes_) for estimator in model.estimators_]
    if min(counts) < 2 or (len(classes) == 2 < max(counts)) or sum(widths) != weights.shape[1]:
        raise Unsupported("a member of the ensemble knows other classes")
    trees, at, slack = stack_members([one.sums for one in members])
    scores = Stacked(tuple(zip(responses, at, strict=True)), weights, np.atleast_1d(last.intercept_))
    two = len(classes) == 2
    return _labelled(model, trees, AtLeast(scores, 0, 0.0, (0, 1), slack) if two else Largest(scores, slack))


def calibrated(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `CalibratedClassifierCV`: one monotone map of a single score, or averages over several of them."""
    parts = model.calibrated_classifiers_
    members = read_all([part.estimator for part in parts], columns, read, copies=True)
    responses = [calibration(part, one, model.classes_) for one, part in zip(members, parts, strict=True)]
    if len(model.classes_) < 2:
        raise Unsupported("the CalibratedClassifierCV knows one class only")
    if len(members) == 1 and len(model.classes_) == 2:
        trees = at_threshold(members[0].sums, argmax_rule(responses[0]))
        if trees is not None:
            return _labelled(model, trees, probabilities=responses[0], raw=members[0].sums)
    return _averaged(model, [one.sums for one in members], responses, np.full(len(members), 1 / len(members)))


def threshold(model: Any, columns: Columns, read: Read) -> Member:
    """Read a `FixedThresholdClassifier` or a `TunedThresholdClassifierCV`."""
    one = read(thresholded(model), columns)
    rule, named = threshold_rule(model, one), replace(one.sums, classes=np.asarray(model.classes_))
    trees = at_threshold(named, rule)
    if trees is None:
        trees = replace(named, decision=AtLeast(*rule, slack=np.full(named.values.shape[1], named.slack)))
    return replace(one, trees=trees, raw=one.sums)


ENSEMBLES: dict[str, Callable[[Any, Columns, Read], Member]] = {
    "VotingClassifier": voting,
    "BaggingClassifier": bagging,
    "AdaBoostClassifier": ada_boost,
    "OneVsRestClassifier": one_vs_rest,
    "OneVsOneClassifier": one_vs_one,
    "StackingClassifier": stacking,
    "CalibratedClassifierCV": calibrated,
    "FixedThresholdClassifier": threshold,
    "TunedThresholdClassifierCV": threshold,
}
