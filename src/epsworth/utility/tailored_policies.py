"""What clients of a tailored policy keep: enumerated, or sampled where rules release some columns first.

What rules release is drawn before, and the regions within reach and what stands for them depend on it: then whole
releases are drawn, each by the integers that clients draw from, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools
from epsworth.bounds import looks
from epsworth.classifiers import Classifier, as_classifier
from epsworth.classifiers.inputs import table_of
from epsworth.mechanisms.words import Words, WordSource
from epsworth.records import Records
from epsworth.release import Policy
from epsworth.release.columns import Column
from epsworth.release.copies import Indices
from epsworth.release.grids import places_of
from epsworth.release.tailoring import Tailoring
from epsworth.rounding import float_above, float_below, round_up, show_up, sum_above
from epsworth.tailoring.asking import Asked
from epsworth.utility.curves import Curves
from epsworth.utility.engines.engine import Settings
from epsworth.utility.judging import bounds_of, labels_possible
from epsworth.utility.kept import Kept
from epsworth.utility.labels import answer, reference_labels, true_labels
from epsworth.utility.pace import Pace, Stopped
from epsworth.utility.policies import NAME
from epsworth.utility.quantities import Bounds
from epsworth.utility.tailored_words import UNSEEN, few

METHODS = ("auto", "sampled")
FIRST_LOOK = 256
TOGETHER = 1 << 14  # releases that are drawn at once
EXACT, DRAWN = "tailored", "sampled"


class Drawn(WordSource):
    """Words of a generator: for analyses, never for a release."""

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def take(self, count: int) -> Words:
        """Return the next words."""
        return self.rng.integers(1 << 64, size=count, dtype=np.uint64)


@dataclass(frozen=True, eq=False, repr=False)
class TailoredProblem:
    """A question about a tailored policy.

    Attributes
    ----------
    y : ndarray or None
        True labels.
    asked : int
        Queries so far.
    """

    policy: Policy
    tailoring: Tailoring
    classifier: Classifier
    records: Records
    labels: NDArray[Any]
    y: NDArray[Any] | None
    asked: int

    @classmethod
    def of(cls, policy: Policy, model: Any, X: Any, y: ArrayLike | None) -> TailoredProblem:
        """Check what is given beside the policy."""
        tailoring = policy.tailoring
        assert tailoring is not None
        classifier = as_classifier(model)
        own = [grid.feature for grid in tailoring.grids] + [rule.feature for rule in policy.rules]
        records = table_of(classifier, X, own)
        for name in dict.fromkeys([*(grid.name for grid in tailoring.grids), *policy.names]):
            if name not in records.names:
                raise ValueError(
                    f"the policy reads or replaces the column {name!r}, which the classifier does not read: it was "
                    "made for another one; make a policy by ew.tailor for this one"
                )
        released = {grid.name: grid.feature.categories for grid in tailoring.grids if grid.name in policy.names}
        released |= {rule.feature.name: rule.feature.categories for rule in policy.rules}
        records = records.releasing(released)
        labels, asked = reference_labels(classifier, records)
        truth = None if y is None else true_labels(y, labels, classifier)
        return cls(policy, tailoring, classifier, records, labels, truth, asked)

    @property
    def about(self) -> Asked:
        """What can be sent in place of the records' sensitive columns."""
        names, hidden = list(self.records.names), self.tailoring.names
        grids = {grid.name: grid for grid in self.tailoring.grids}
        at = tuple(names.index(name) for name in hidden)
        return Asked((self.classifier,), self.records, at, tuple(grids[name] for name in hidden))


def kept_under(asking: TailoredProblem, method: str, over: str, settings: Settings, pace: Pace) -> Curves:
    """Return how often labels stay under a tailored policy.

    Claim: without rules in the policy, and with method "auto", the bounds hold for certain; else with the settings'
    confidence, whenever the run ends.
    """
    if method not in METHODS:
        raise ValueError(
            f"method={method!r} is for mechanisms per feature; a tailored policy is enumerated, or sampled where rules "
            "release columns first: leave it at 'auto'"
        )
    if over == "dataset":
        raise ValueError(
            "over='dataset' is for mechanisms per feature; every record is bounded under a tailored policy"
        )
    if asking.policy.rules or method == DRAWN:
        return _sampled(asking, settings, pace)
    return _enumerated(asking, settings, pace)


def _enumerated(asking: TailoredProblem, settings: Settings, pace: Pace) -> Curves:
    kept = Kept.of(asking.tailoring, asking.about, [asking.labels])
    right = None if asking.y is None else Kept.of(asking.tailoring, asking.about, [asking.y])
    randomiser, queries = [asking.tailoring.randomiser], kept.queries + (0 if right is None else right.queries)
    found = Found(bounds_of(kept, randomiser), None if right is None else bounds_of(right, randomiser),
                  labels_possible(kept, 1), queries, False)  # fmt: skip
    notes = [f"{EXACT} for {NAME}: all that can be sent is enumerated, with the probabilities of the drawn integers"]
    if kept.constant:
        notes.append(
            f"{NAME}: for {round_up(100 * kept.constant, 1):g} % of these records what is sent does not depend on what "
            "is sensitive at all: the public columns decide"
        )
    return _curves(asking, settings, pace, found, EXACT, notes)


@dataclass(frozen=True, eq=False)
class Found:
    """The bounds, how many labels were seen of each record, and what it took."""

    stability: Bounds
    accuracy: Bounds | None
    possible: Indices
    queries: int
    stopped: bool


def _sampled(asking: TailoredProblem, settings: Settings, pace: Pace) -> Curves:
    """Draw releases of every record until its bounds are narrow, or decided, or the run is stopped."""
    n, kinds = len(asking.records), 1 if asking.y is None else 2
    hits = np.zeros((kinds, n), dtype=np.int64)
    low, high, seen = np.zeros((kinds, n)), np.ones((kinds, n)), [{label} for label in asking.labels.tolist()]
    words, drawn, queries, stopped = Drawn(settings.rng), 0, 0, False
    releases = _Releases(asking)
    pace.mechanisms, pace.epsilons = (NAME,), np.array([float_above(Fraction(asking.policy.total))])
    pace.proven = lambda: Bounds(low[:1, np.newaxis], high[:1, np.newaxis]).average()
    schedule = looks(settings.tolerance, settings.risk.split(kinds * n), first=FIRST_LOOK)
    with suppress(Stopped):
        for number, look in enumerate(schedule):
            stopped = True  # until this look is done
            left = np.flatnonzero(_open(low, high, settings))
            fresh = np.zeros_like(hits)
            rows = np.repeat(left, look.draws - drawn)
            for step in pace.steps(len(rows), TOGETHER):
                part = rows[step]
                labels = releases.labels(part, words)
                queries += len(part)
                wanted = [asking.labels] if asking.y is None else [asking.labels, asking.y]
                for kind, right in enumerate(wanted):
                    fresh[kind] += np.bincount(part[labels == right[part]], minlength=n)
                for row, label in set(zip(part.tolist(), labels.tolist(), strict=True)):
                    seen[row].add(label)
            hits[:, left] += fresh[:, left]
            drawn = look.draws
            found = look.risk.interval(hits[:, left], np.full((kinds, len(left)), drawn))
            low[:, left], high[:, left] = np.maximum(low[:, left], found.lower), np.minimum(high[:, left], found.upper)
            stopped = False
            settings.progress((number + 1) / len(schedule))
            if not _open(low, high, settings).any():
                break
    settings.progress(1.0)
    bounds = [Bounds(low[[kind], np.newaxis], high[[kind], np.newaxis]) for kind in range(kinds)]
    possible = np.array([len(labels) for labels in seen], dtype=np.int64)
    found_ = Found(bounds[0], bounds[1] if kinds == 2 else None, possible, queries, stopped)
    notes = [f"{DRAWN} for {NAME}: whole releases were drawn, each by the integers that clients draw from"]
    if stopped:
        half = round_up(float((high - low).max()) / 2)
        notes.append(
            f"the run was stopped {pace.stopped}: all bounds hold, but with a half-width of up to {half:g}; more time "
            "narrows them"
        )
    return _curves(asking, settings, pace, found_, DRAWN, notes)


def _open(low: NDArray[np.float64], high: NDArray[np.float64], settings: Settings) -> Bools:
    """Tell of which records something is neither narrow nor decided."""
    wide = high - low > 2 * settings.tolerance
    if settings.at_least is not None:
        wide &= (low < settings.at_least) & (high >= settings.at_least)
    return np.asarray(wide.any(axis=0))


class _Releases:
    """Fresh releases of records; what does not change from one to the next is looked up once."""

    def __init__(self, asking: TailoredProblem) -> None:
        records = asking.records
        self.asking = asking
        self.at = {name: position for position, name in enumerate(records.names)}
        self.columns = [Column(rule) for rule in asking.policy.rules]
        self.given = [np.asarray(c.encode(records.column(self.at[c.feature.name]))) for c in self.columns]
        self.true = places_of(asking.tailoring.grids, records)
        self.values = {grid.name: grid.values for grid in asking.tailoring.grids}

    def labels(self, rows: Indices, words: WordSource) -> NDArray[Any]:
        """Return the classifier's labels of releases of so many rows."""
        tailoring, at, replaced = self.asking.tailoring, self.at, dict[int, NDArray[Any]]()
        for rule, column, index in zip(self.asking.policy.rules, self.columns, self.given, strict=True):
            replaced[at[rule.feature.name]] = column.values[np.asarray(rule.kernel.draw(index[rows], words=words))]
        true = self.true[rows]
        seen = true.copy()
        for position, grid in enumerate(tailoring.grids):
            if at[grid.name] in replaced:
                seen[:, position] = grid.places(replaced[at[grid.name]])
        sent = tailoring.released(true, seen, words)
        for position, name in enumerate(tailoring.names):
            replaced[at[name]] = self.values[name][sent[:, position]]
        return answer(self.asking.classifier, self.asking.records, rows, replaced)


def _curves(
    asking: TailoredProblem, settings: Settings, pace: Pace, found: Found, engine: str, notes: Sequence[str]
) -> Curves:
    policy, tailoring, spent = asking.policy, asking.tailoring, settings.risk.spent
    losses = [*(rule.kernel.loss() for rule in policy.rules), tailoring.randomiser.loss]
    parts = [f"{r.feature.name} by {r.mechanism} at epsilon {show_up(float(r.epsilon))}" for r in policy.rules]
    parts.append(f"{few(tailoring.names)} tailored, at epsilon {show_up(float(tailoring.epsilon))} in all")
    return Curves(
        mechanisms=(NAME,),
        epsilons=np.array([float_above(Fraction(policy.total))]),
        features=policy.names,
        stability=found.stability,
        accuracy=found.accuracy,
        guarantees=((policy.guarantee,),),
        tight_epsilons=np.array([[sum_above(losses)]]),
        labels=asking.labels,
        labels_possible=found.possible,
        method=np.full((1, len(asking.records)), engine),
        over="records",
        confidence=float(1 - settings.risk.total) if spent else 1.0,
        tolerance=float(settings.tolerance),
        queries=asking.asked + found.queries,
        seconds=pace.clock() - pace.began,
        notes=(
            f"{NAME} {policy.fingerprint[:12]}: {', '.join(parts)}; the very integers that its clients draw",
            *notes,
            UNSEEN,
        ),
        spent=float_below(spent),
        stopped=found.stopped,
    )
