"""What a promise rules out: records that differ in sensitive columns alone, and all keep labels of their own."""

from __future__ import annotations

import math

import numpy as np

from epsworth.arrays import Floats
from epsworth.mechanisms.family import is_brought
from epsworth.rounding import round_down, round_up, show_up
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question

ROOM = 1e-9


def check_possible(question: Question, stability: Bounds) -> None:
    """Refuse an answer that no mechanism of the promise can have: the mechanism that somebody brought breaks it.

    Claim: of records that differ in sensitive columns alone, one keeps its label with a probability of at most 1 less
    e^-epsilon (p - delta) for each other label, kept by another of them with probability p.

    Raises
    ------
    ValueError
    """
    brought = [m for m, row in enumerate(question.releases) if any(map(is_brought, row[0].mechanisms))]
    if not brought:
        return
    kept = _best_by_label(question, stability.lower[brought])
    for m, best in zip(brought, kept, strict=True):
        for e, release in enumerate(question.releases[m]):
            promise = release.guarantee
            others = math.exp(-promise.epsilon) * np.maximum(best[e] - promise.delta, 0.0)
            total = best[e] + others.sum(axis=1, keepdims=True) - others
            if (total > 1 + ROOM).any():
                group, label = np.unravel_index(int(total.argmax()), total.shape)
                most = 1 - float(total[group, label] - best[e][group, label])
                raise ValueError(
                    f"mechanisms: {question.names[m]!r} at epsilon {show_up(promise.epsilon)} tells more than it says: "
                    f"a record keeps its label with probability {round_down(float(best[e][group, label]))}, and no "
                    f"more than {round_up(most)} is possible beside others; correct its guarantee"
                )


def _best_by_label(question: Question, lower: Floats) -> Floats:
    """Return the largest bounds by public columns and label, shape ``(mechanisms, epsilons, groups, labels)``."""
    records = question.records
    public = [at for at in range(len(records.names)) if at not in question.positions]
    codes = [np.unique(np.array(list(map(repr, records.column(at)))), return_inverse=True)[1] for at in public]
    rows = np.stack([np.zeros(len(records), np.int64), *codes], axis=1)
    group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    labels, label = np.unique(np.array(list(map(repr, question.labels))), return_inverse=True)
    best = np.zeros((*lower.shape[:2], int(group.max()) + 1, len(labels)))
    for m, e in np.ndindex(*lower.shape[:2]):
        np.maximum.at(best[m, e], (group, label.ravel()), lower[m, e])
    return best
