"""Records that release only some of their features: the average over the subsets, each answered by its own engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.rounding import down, up
from epsworth.utility.engines.engine import Answer, Engine, Progress, Settings
from epsworth.utility.labels import answer
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question

# Clients choose a subset by the order of 64-bit words; two of d <= 1,000 are equal with probability d^2 / 2^65 at most
TIED = 2.0**-45

Answering = Callable[[Question, Settings], Answer]


@dataclass(frozen=True)
class Mixture(Engine):
    """Averages the answers about all subsets, each of which has an equal share of the risk."""

    answering: Answering

    name, because = "mixture", "a record releases only some of its features"
    draws = True

    def bound(self, question: Question, settings: Settings) -> Answer:
        """Average over the subsets, by how many choices of the client each stands for."""
        shares, before = settings.risk.split(len(question.subsets)), settings.risk.spent
        found = []
        for number, (subset, _) in enumerate(question.subsets):
            progress = partial(_part, settings.progress, number, len(question.subsets))
            own = replace(settings, risk=shares.take(), progress=progress)
            found.append(self.answering(subset, own) if subset.positions else _fixed(subset))
        choices = np.array([count for _, count in question.subsets], dtype=np.float64)
        accuracies = [one.accuracy for one in found if one.accuracy is not None]
        stopped = [one.open for one in found if one.open is not None]
        return Answer(
            _average([one.stability for one in found], choices),
            _average(accuracies, choices) if accuracies else None,
            np.max([one.labels_possible for one in found], axis=0),
            sum(one.queries for one in found),
            settings.risk.spent - before,
            np.any(stopped, axis=0) if stopped else None,
        )


def _part(progress: Progress, number: int, count: int, share: float) -> None:
    progress((number + share) / count)


def _fixed(question: Question) -> Answer:
    """Return the answer about records that release none of the features which the classifier reads."""
    labels = answer(question.classifier, question.records, np.arange(len(question.records)))
    same = [np.equal(labels, own).astype(np.float64) for own in (question.labels, question.y) if own is not None]
    bounds = [Bounds(side[np.newaxis, np.newaxis], side[np.newaxis, np.newaxis]) for side in same]
    possible = np.where(same[0] == 1, 1, 2).astype(np.int64)
    return Answer(bounds[0], bounds[1] if len(bounds) > 1 else None, possible, len(labels))


def _average(found: list[Bounds], choices: Floats) -> Bounds:
    pooled = [bounds.average() for bounds in found]
    sides = _mean([bounds.lower for bounds in found], [bounds.upper for bounds in found], choices)
    return Bounds(*sides, _mean([side.lower for side in pooled], [side.upper for side in pooled], choices))


def _mean(lower: list[Floats], upper: list[Floats], choices: Floats) -> Interval:
    """Average bounds, moved outwards; what is 0 or 1 for every subset stays."""
    least, most = (np.tensordot(choices, np.stack(side), axes=1) / choices.sum() for side in (lower, upper))
    units = len(choices) + 2  # a product and a sum for each, and the quotient
    least = np.clip(down(least, ulps=units) - TIED, 0, 1)
    most = np.clip(up(most, ulps=units) + TIED, 0, 1)
    certain = np.min(lower, axis=0) == 1
    never = np.max(upper, axis=0) == 0
    return Interval(np.where(certain, 1.0, least), np.where(never, 0.0, most))
