"""A question about a policy: what is analysed is what its clients release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.classifiers import Classifier, ClassifierError, as_classifier
from epsworth.classifiers.classifier import table_of
from epsworth.headers import shown_names
from epsworth.mechanisms.record import RecordRelease
from epsworth.policy import Policy
from epsworth.policy.analysis import Released, Scaled, encoded, unsampled
from epsworth.policy.rules import Rule
from epsworth.records import FrameRecords, Records, as_records
from epsworth.rounding import float_above, show_up, sum_above
from epsworth.space import Domain, Feature
from epsworth.utility.labels import answer
from epsworth.utility.problem import UNASKED, Problem, asked

MOST_SUBSETS = 256
NAME = "policy"


def problem_of(policy: Policy, model: Any, X: Any, y: ArrayLike | None) -> Problem:
    """Check what the user gave beside a policy, and return the question of what clients release under it.

    Its one epsilon is the stated total of a record.
    """
    assert policy.tailoring is None
    classifier = as_classifier(model)
    records = table_of(classifier, X, (rule.feature for rule in policy.rules))
    records = records.releasing({rule.feature.name: rule.feature.categories for rule in policy.rules})
    rules = _read_rules(policy, records)
    problem = Problem(
        classifier=classifier,
        records=records,
        positions=tuple(_at(records, rule) for rule in rules),
        features=tuple(Scaled.of(policy, rule.feature) for rule in rules),
        unit=np.column_stack([encoded(rule, records.column(_at(records, rule))) for rule in rules]),
        names=(NAME,),
        epsilons=np.array([float_above(Fraction(policy.total))]),
        releases=((RecordRelease(tuple(map(Released.of, rules)), 0.0, policy.guarantee, _tight(policy)),),),
        notes=(*_notes(policy, rules), *_recoded(records)),
        labels=UNASKED,
        y=None,
        domain=Domain(tuple(rule.feature for rule in rules)),
    )
    problem = asked(problem, y)
    if kept := [name for name in problem.passing if name not in policy.passing.columns]:
        told = f"{NAME}: the classifier reads {', '.join(kept)}, which clients do not send; name them under [pass]"
        problem = replace(problem, notes=(*problem.notes, told))
    return replace(problem, subsets=tuple(_subsets(policy, problem)))


def _at(records: Records, rule: Rule) -> int:
    return records.names.index(rule.feature.name)


def _read_rules(policy: Policy, records: Records) -> list[Rule]:
    """Return the rules for columns that the classifier reads; every other must at least stand in the table."""
    for name in policy.names:
        if name not in (*records.given, *records.names):
            told = shown_names(records.given)
            raise ValueError(f"the table lacks the column {name!r}, which the policy perturbs; {told}")
    rules = [rule for rule in policy.rules if rule.feature.name in records.names]
    if not rules:
        raise ValueError(
            f"the policy perturbs {', '.join(policy.names)}, none of which the classifier reads, so that its labels "
            "never change; give the policy of its features"
        )
    return rules


def _tight(policy: Policy) -> float:
    """Return the pure loss of the features that are released together, at most."""
    return sum_above(sorted((rule.kernel.loss() for rule in policy.rules), reverse=True)[: policy.released])


def _notes(policy: Policy, rules: Sequence[Rule]) -> list[str]:
    """Say what is analysed."""
    parts = ", ".join(f"{r.feature.name} by {r.mechanism} at epsilon {show_up(float(r.epsilon))}" for r in rules)
    notes = [f"{NAME} {policy.fingerprint[:12]}: {parts}; the very integers and doubles that its clients release"]
    if unread := [name for name in policy.names if name not in {rule.feature.name for rule in rules}]:
        notes.append(f"{NAME}: the classifier does not read {', '.join(unread)}, which cost epsilon all the same")
    return notes


def _recoded(records: Records) -> list[str]:
    """Say where a model that goes by the codes of categories sees others in a release than in the table."""
    if not isinstance(records, FrameRecords):
        return []
    return [
        f"{NAME}: releases hold the categories of {name} in the policy's order, which is not the table's; a model that "
        "goes by their codes reads others, unless the policy's feature lists them as the model was trained"
        for name, words in records.words.items()
        if words is not None
        and name in records.names
        and any(own != new for own, new in zip(records.order(name), words, strict=False))
    ]


def _subsets(policy: Policy, problem: Problem) -> list[tuple[Problem, int]]:
    """Return the questions about the features that a record may release, and how many choices each stands for."""
    if policy.sampling is None:
        return []
    read = frozenset(feature.name for feature in problem.features)
    released, others = policy.sampling.features, len(policy.rules) - len(read)
    sizes = range(max(0, released - others), min(released, len(read)) + 1)
    if (count := sum(comb(len(read), size) for size in sizes)) > MOST_SUBSETS:
        raise ValueError(
            f"sample.features: {released} of {len(policy.rules)} features can be chosen in {count} ways that matter, "
            f"of which at most {MOST_SUBSETS} can be analysed; let a policy sample from fewer features"
        )
    return [
        (_given(policy, problem, kept), comb(others, released - size))
        for size in sizes
        for kept in combinations(range(len(read)), size)
    ]


def _given(policy: Policy, problem: Problem, kept: Sequence[int]) -> Problem:
    """Return the question about records that release some of the features that the classifier reads, by number."""
    left = [(p, f) for j, (p, f) in enumerate(zip(problem.positions, problem.features, strict=True)) if j not in kept]
    records = _without(policy, problem.records, left) if left else problem.records
    _check_missing(problem.classifier, records)
    release = problem.releases[0][0]
    return replace(
        problem,
        records=records,
        positions=tuple(problem.positions[j] for j in kept),
        features=tuple(problem.features[j] for j in kept),
        unit=problem.unit[:, list(kept)],
        releases=((replace(release, mechanisms=tuple(release.mechanisms[j] for j in kept)),),),
        notes=(),
        asked=0,
        readings={},
    )


def _without(policy: Policy, records: Records, left: Sequence[tuple[int, Feature]]) -> Records:
    """Return the records with what stands for features that they do not release.

    In columns of the kind that `perturb` gives them, those of values and gaps together: so a row with values leads, and
    goes again.
    """
    count, columns = len(records), {}
    for position, feature in left:
        gaps = unsampled(policy, feature, count)
        if isinstance(records, FrameRecords) and gaps.dtype.kind == "f" and np.isnan(gaps).any():
            gaps = np.full(count, None, dtype=object)  # in a frame a gap is null
        columns[position] = np.concatenate([feature.from_unit([0.0]).astype(gaps.dtype), gaps])
    led = records.take(np.concatenate([[0], np.arange(count)]), columns)
    whole = as_records(led, features=records.names)
    return as_records(whole.take(np.arange(1, count + 1)), features=records.names).releasing(records.words)


def _check_missing(classifier: Classifier, records: Records) -> None:
    try:
        answer(classifier, records, np.arange(1))
    except ClassifierError as error:
        raise ValueError(
            f"sample.unsampled: the policy leaves features out, and the classifier does not take such a record "
            f"({error}); give a model that takes missing values, or a policy that scales"
        ) from None
