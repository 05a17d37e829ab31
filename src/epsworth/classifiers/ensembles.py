"""What was read of a classifier that may be a member of another: its trees, and what it answers beside labels.

Ensembles of trees, and what else decides by the answers of classifiers that were read.

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
from epsworth.classifiers.link_functions import (
    AtLeast,
    Average,
    Largest,
    Logistic,
    Pairs,
    Response,
    Shares,
    Side,
    Stacked,
    Sums,
    Votes,
    slices,
)
from epsworth.classifiers.pipeline import Chosen, after, parallel_preprocessing
from epsworth.classifiers.reading import Unsupported, dense, leading, library_class, steps_of
from epsworth.classifiers.sklearn_trees import genuine_trees
from epsworth.classifiers.thresholds import (
    LINEAR,
    UNKNOWN,
    Answers,
    Rule,
    argmax_rule,
    calibration,
    change_of,
    held,
    threshold_rule,
)
from epsworth.classifiers.transformers import Columns
from epsworth.classifiers.trees import LEAF, Decision, TreeModel, stack_trees

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


def stack_members(trees: Sequence[TreeModel]) -> tuple[TreeModel, list[slice], Floats]:
    """Return the trees of all as one model, where the sums of each stand, and the slack of every sum."""
    widths = [model.values.shape[1] for model in trees]
    if sum(widths) > MOST_SUMS:
        raise Unsupported(f"its members hold more than {MOST_SUMS} scores together")
    slack = np.concatenate([np.full(width, model.slack) for width, model in zip(widths, trees, strict=True)])
    return stack_trees(_on_common_columns(trees)), slices(widths), slack


def weighted_sum(trees: Sequence[TreeModel], weights: Floats) -> TreeModel:
    """Return the weighted sum of the trees' sums as one model; of equal classes, in the same order."""
    trees = _on_common_columns(trees)
    joined, width = stack_trees(trees), trees[0].values.shape[1]
    at = slices([width] * len(trees))
    values = np.sum([w * joined.values[:, here] for w, here in zip(weights, at, strict=True)], axis=0)
    offset = np.sum([w * joined.offset[here] for w, here in zip(weights, at, strict=True)], axis=0)
    slack = sum(abs(w) * model.slack for w, model in zip(weights, trees, strict=True))
    return replace(joined, values=values, offset=offset, tie=float(slack) / len(joined.roots))


def _on_common_columns(trees: Sequence[TreeModel]) -> list[TreeModel]:
    """Return the models with features of what stands before all of them, side by side."""
    before = parallel_preprocessing([model.before for model in trees])
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


UNKNOWN_SCORES = f"the scores of a member of the ensemble are {UNKNOWN}"
SINGLE = ("DecisionTreeClassifier", "ExtraTreeClassifier")

Reader = Callable[[Any, Columns, Read], Member]


def read_all(models: Sequence[Any], given: Columns, read: Read, *, alike: bool = False) -> list[Member]:
    """Read all members, or say what stands in the way at the first of which something does.

    ``alike``: of copies of one model that are no trees, neither is the ensemble.
    """
    found: list[Member] = []
    for model in models:
        try:
            found.append(read(model, given))
        except Unsupported as why:
            if alike and str(why).startswith(NO_TREES):
                raise
            raise Unsupported(f"a member of the ensemble: {why}") from None
    return found


def voting(model: Any, given: Columns, read: Read) -> Member:
    """Read a `VotingClassifier`: its members' labels, or probabilities, are weighted and added."""
    members = read_all(model.estimators_, given, read)
    places = np.arange(len(model.classes_)).tolist()
    if len(places) < 2 or any(sorted(one.trees.classes.tolist()) != places for one in members):
        raise Unsupported("a member of the ensemble does not know all its classes")
    weights = np.ones(len(members)) if model.weights is None else np.asarray(model._weights_not_none, dtype=np.float64)
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise Unsupported("the weights of the ensemble are negative, or all 0")
    if model.voting == "hard":
        return _by_votes(model, members, weights)
    if any(one.sums.classes.tolist() != places for one in members):
        raise Unsupported("a member of the ensemble orders its classes otherwise")
    return _by_probabilities(model, members, weights)


def _by_votes(model: Any, members: Sequence[Member], weights: Floats) -> Member:
    found = stack_members([one.trees for one in members])
    trees, places, slack = found
    votes = [(Votes(_renamed(one.trees), len(model.classes_)), at) for one, at in zip(members, places, strict=True)]
    decision = Largest(Average(tuple(votes), weights), slack)
    return Member(trees=replace(trees, classes=np.asarray(model.classes_), decision=decision))


def _renamed(trees: TreeModel) -> Callable[..., Any]:
    """Return a member's choice in the places of the ensemble's classes, which its labels number."""
    choice, names = Choice(trees.decision), trees.classes.astype(np.intp)

    def places(sums: Floats, slack: Floats) -> Any:
        found, clear = choice(sums, slack)
        return names[found], clear

    return places


def _by_probabilities(model: Any, members: Sequence[Member], weights: Floats) -> Member:
    """Average probabilities: those of forests by adding their leaves, others side by side."""
    responses = [one.probabilities for one in members]
    if all(isinstance(response, Shares) for response in responses):
        scale = [
            w / response.trees for w, response in zip(weights, responses, strict=True) if isinstance(response, Shares)
        ]
        total = float(weights.sum())
        trees = weighted_sum([one.sums for one in members], np.array(scale) / total)
        return Member(trees=replace(trees, classes=np.asarray(model.classes_)), probabilities=Shares(1))
    known = [response for response in responses if response is not None]
    found = stack_members([one.sums for one in members])
    if len(known) < len(members):
        raise Unsupported(f"the probabilities of a member of the ensemble are {UNKNOWN}")
    trees, places, slack = found
    average = Average(tuple(zip(known, places, strict=True)), weights / weights.sum())
    decided = replace(trees, classes=np.asarray(model.classes_), decision=Largest(average, slack))
    return Member(trees=decided, probabilities=average, raw=decided)


def bagging(model: Any, given: Columns, read: Read) -> Member:
    """Read a `BaggingClassifier` of trees or forests, each of which sees columns of its own."""
    width, members = len(model.classes_), []
    for estimator, features in zip(model.estimators_, model.estimators_features_, strict=True):
        columns = np.asarray(features, dtype=np.intp)
        (one,) = read_all([estimator], given.taken(columns), read)
        even = isinstance(one.probabilities, Shares) and one.probabilities.trees == len(one.sums.roots)
        if width < 2 or not even:
            raise Unsupported(f"the probabilities of a member of the ensemble are {UNKNOWN}, or not averages of leaves")
        one = _of_all_columns(one, columns, given)
        members.append(_spread(one, width))
    scale = np.array([1 / one.probabilities.trees for one in members if isinstance(one.probabilities, Shares)])
    trees = weighted_sum([one.sums for one in members], scale / len(members))
    return Member(trees=replace(trees, classes=np.asarray(model.classes_)), probabilities=Shares(1))


def _of_all_columns(one: Member, columns: NDArray[np.intp], given: Columns) -> Member:
    """Return a member that sees some columns as one that is given all: bare trees just look at other places."""
    trees = one.sums
    if trees.before.steps:
        return Member(trees=trees, probabilities=one.probabilities).behind([Chosen(columns)])
    feature = np.where(trees.left == LEAF, LEAF, columns[trees.feature])
    trees = replace(trees, feature=feature, before=replace(trees.before, columns=given))
    return Member(trees=trees, probabilities=one.probabilities)


def _spread(one: Member, width: int) -> Member:
    """Return a member of several classes with a share for each of the ensemble's, of which it may know a part."""
    trees, known = one.sums, one.sums.classes.astype(np.intp)
    if width == 2 and len(known) == 2:
        return one
    values, offset = np.zeros((len(trees.values), width)), np.zeros(width)
    assert isinstance(one.probabilities, Shares)
    if len(known) == 1:
        values[trees.left == LEAF, known[0]] = 1.0
    elif len(known) == 2:  # differences of shares
        half = trees.values[:, 0] / 2
        leaf = trees.left == LEAF
        values[:, known[0]], values[:, known[1]] = np.where(leaf, 0.5 - half, 0), np.where(leaf, 0.5 + half, 0)
    else:
        values[:, known] = trees.values
    if width == 2:
        values, offset = values[:, 1:] - values[:, :1], np.zeros(1)
    return Member(trees=replace(trees, values=values, offset=offset), probabilities=one.probabilities)


def ada_boost(model: Any, given: Columns, read: Read) -> Member:
    """Read an `AdaBoostClassifier` of single trees: weighted votes of the leaves."""
    members = read_all(model.estimators_, given, read)
    last = [steps_of(estimator)[0] for estimator in model.estimators_]
    if not genuine_trees(last, *SINGLE):
        raise Unsupported("the members of the AdaBoostClassifier are no single trees")
    classes, weights = model.classes_, np.asarray(model.estimator_weights_, dtype=np.float64)
    if not weights.sum() > 0 or (weights < 0).any():
        raise Unsupported("the weights of the ensemble are negative, or all 0")
    members = _given_arrays(members, given)
    trees = [
        replace(one.trees, values=_leaf_votes(tree, classes), offset=np.zeros(len(classes) if len(classes) > 2 else 1))
        for one, tree in zip(members, last, strict=True)
    ]
    factor = 2.0 if len(classes) == 2 else 1.0
    found = weighted_sum(trees, factor * weights[: len(members)] / weights.sum())
    found = replace(found, classes=np.asarray(classes))
    slope = 1.0 if len(classes) == 2 else 1 / (len(classes) - 1)
    return Member(trees=found, probabilities=Logistic(slope), scores=Sums())


def _leaf_votes(tree: Any, classes: NDArray[Any]) -> Floats:
    """Return per node 1 for the tree's label and -1 / (K - 1) for the others; of two classes only the second's."""
    label = tree.classes_[np.argmax(tree.tree_.value[:, 0, :], axis=1)]
    own = label[:, np.newaxis] == classes
    votes = np.where(own, 1.0, -1.0 / max(1, len(classes) - 1))
    return votes[:, 1:] if len(classes) == 2 else votes


def _given_arrays(members: Sequence[Member], given: Columns) -> list[Member]:
    """Return the members of an ensemble that makes an array of whatever it is given, before it hands that on."""
    all_columns = [Chosen(np.arange(len(given)))]
    return [one.behind(all_columns) if one.trees.before.steps else one for one in members]


def _confidences(model: Any, members: Sequence[Member]) -> list[Response]:
    """Return what an ensemble of two-class members compares: their scores, or else probabilities."""
    found: list[Response] = []
    for one, estimator in zip(members, model.estimators_, strict=True):
        response = one.response(estimator, ("decision_function", "predict_proba"))[1]
        if response is None:
            raise Unsupported(UNKNOWN_SCORES)
        found.append(response)
    return found


def one_vs_rest(model: Any, given: Columns, read: Read) -> Member:
    """Read a `OneVsRestClassifier` of more than two classes: the label of the largest score."""
    if model.label_binarizer_.y_type_ != "multiclass" or len(model.estimators_) != len(model.classes_):
        raise Unsupported("the OneVsRestClassifier does not choose one of several classes")
    members = read_all(model.estimators_, given, read, alike=True)
    known = _confidences(model, members)
    found = stack_members([one.sums for one in members])
    trees, places, slack = found
    if all(isinstance(response, Sums) for response in known):
        return Member(trees=replace(trees, classes=np.asarray(model.classes_), tie=2 * slack.max() / len(trees.roots)))
    decision = Largest(Side(tuple(zip(known, places, strict=True))), slack)
    return Member(trees=replace(trees, classes=np.asarray(model.classes_), decision=decision))


def one_vs_one(model: Any, given: Columns, read: Read) -> Member:
    """Read a `OneVsOneClassifier` of more than two classes: votes of pairs, and confidences where these are equal."""
    classes = np.asarray(model.classes_)
    if len(classes) < 3 or model.pairwise_indices_ is not None:
        raise Unsupported("the OneVsOneClassifier has two classes, or members that see similarities")
    members = read_all(model.estimators_, given, read)
    known = _confidences(model, members)
    if not all(one.raw is None and one.trees.classes.tolist() == [0, 1] for one in members):
        raise Unsupported(UNKNOWN_SCORES)
    found = stack_members([one.trees for one in _given_arrays(members, given)])
    trees, places, slack = found
    votes = [Votes(Choice(one.trees.decision), 2) for one in members]
    decision = Largest(Pairs(tuple(zip(known, votes, places, strict=True)), len(classes)), slack)
    return Member(trees=replace(trees, classes=classes, decision=decision))


def stacking(model: Any, given: Columns, read: Read) -> Member:
    """Read a `StackingClassifier` whose last step is linear in the probabilities, or scores, of its members."""
    last, classes = model.final_estimator_, np.asarray(model.classes_)
    linear = library_class(last) in LINEAR and hasattr(last, "coef_")
    if not linear or model.passthrough or last.classes_.tolist() != list(range(len(classes))):
        raise Unsupported("the last step of the StackingClassifier is not linear in its members' probabilities alone")
    members = read_all(model.estimators_, given, read)
    responses = []
    for one, estimator, method in zip(members, model.estimators_, model.stack_method_, strict=True):
        response = None if method == "predict" else one.response(estimator, method)[1]
        if response is None or one.sums.classes.tolist() != estimator.classes_.tolist():
            raise Unsupported(UNKNOWN_SCORES)
        responses.append(response)
    weights, counts = np.atleast_2d(dense(last.coef_)), [len(estimator.classes_) for estimator in model.estimators_]
    widths = [_columns_of(method, n, classes) for method, n in zip(model.stack_method_, counts, strict=True)]
    if min(counts) < 2 or (len(classes) == 2 < max(counts)) or sum(widths) != weights.shape[1]:
        raise Unsupported("a member of the ensemble knows other classes")
    found = stack_members([one.sums for one in members])
    trees, places, slack = found
    scores = Stacked(tuple(zip(responses, places, strict=True)), weights, np.atleast_1d(last.intercept_))
    decision = AtLeast(scores, 0, 0.0, (0, 1), slack) if len(classes) == 2 else Largest(scores, slack)
    return Member(trees=replace(trees, classes=classes, decision=decision))


def _columns_of(method: str, known: int, classes: NDArray[Any]) -> int:
    """Return how many columns a stack takes from a member that knows so many classes."""
    return 1 if len(classes) == 2 or (method == "decision_function" and known == 2) else known


def calibrated(model: Any, given: Columns, read: Read) -> Member:
    """Read a `CalibratedClassifierCV`: one monotone map of a single score, or averages over several of them."""
    parts = model.calibrated_classifiers_
    members = read_all([part.estimator for part in parts], given, read, alike=True)
    found: list[Response] = []
    for one, part in zip(members, parts, strict=True):
        response = calibration(part, one, model.classes_)
        found.append(response)
    if len(model.classes_) < 2:
        raise Unsupported("the CalibratedClassifierCV knows one class only")
    if len(members) == 1 and len(model.classes_) == 2:
        cut = cut_off(members[0].sums, argmax_rule(found[0]))
        if cut is not None:
            return Member(
                trees=replace(cut, classes=np.asarray(model.classes_)), probabilities=found[0], raw=members[0].sums
            )
    beside = stack_members([one.sums for one in members])
    trees, places, slack = beside
    average = Average(tuple(zip(found, places, strict=True)), np.full(len(found), 1 / len(found)))
    decided = replace(trees, classes=np.asarray(model.classes_), decision=Largest(average, slack))
    return Member(trees=decided, probabilities=average, raw=decided)


def threshold(model: Any, given: Columns, read: Read) -> Member:
    """Read a `FixedThresholdClassifier` or a `TunedThresholdClassifierCV`."""
    one = read(held(model), given)
    rule = threshold_rule(model, one)
    named = replace(one.sums, classes=np.asarray(model.classes_))
    decided = cut_off(named, rule)
    if decided is None:
        decided = replace(named, decision=AtLeast(*rule, slack=np.full(named.values.shape[1], named.slack)))
    return Member(trees=decided, probabilities=one.probabilities, scores=one.scores, raw=one.sums)


ENSEMBLES: dict[str, Reader] = {
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
