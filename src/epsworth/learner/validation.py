"""Private validation: how accurate candidates are on users who only ever send a randomised bit."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Risk
from epsworth.exact.entropy import SystemWords, WordSource
from epsworth.exact.rational import Exact
from epsworth.exact.testing import NotPrivate
from epsworth.learner.coins import WORD, Ints, checked_epsilon, coins, flip_weight, uniform
from epsworth.learner.mechanism import checked_probability
from epsworth.learner.tails import vote_interval
from epsworth.results import Result
from epsworth.rounding import down, round_down, round_up, show_down, up


@dataclass(frozen=True, eq=False)
class Accuracies(Result):
    """Per candidate: an unbiased estimate, bounds that hold for all together, and how many users voted on it.

    Attributes
    ----------
    estimate, lower, upper, users : ndarray
        One entry per candidate.
    confidence : float or Fraction
        Probability with which all bounds hold together.
    spent : Fraction
        Probability of a miss that they spend: at most 1 - confidence.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import PrivateValidation
    >>> never, always = (lambda X: np.zeros(len(X))), (lambda X: np.ones(len(X)))
    >>> validation = PrivateValidation([never, always], epsilon=2)
    >>> found = validation.accuracies(validation.vote(np.zeros((20_000, 1)), np.ones(20_000)))
    >>> int(found.users.sum()), bool(found.upper[0] < 0.1), bool(found.lower[1] > 0.9)
    (20000, True, True)
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    users: Ints
    confidence: float | Fraction
    spent: Fraction

    def __str__(self) -> str:
        """Return a line per candidate."""
        rows = zip(self.estimate, self.lower, self.upper, self.users, strict=True)
        lines = [
            f"candidate {number}: accuracy {estimate:.3f}, from {round_down(low):.3f} to {round_up(high):.3f}, "
            f"by {users:,} users"
            for number, (estimate, low, high, users) in enumerate(rows)
        ]
        together = f"All bounds hold together with confidence {show_down(float(self.confidence))}."
        return "\n".join([*lines, together])


class PrivateValidation:
    """Users that took no part in learning each check one random candidate and send whether it was right, randomised.

    Claim: a vote keeps pure epsilon-LDP for the pair (point, label); the candidate it is about is drawn without looking
    at them.  A record on which a candidate fails counts as wrong: everybody votes.

    Parameters
    ----------
    candidates : sequence of functions from points ``(n, d)`` to labels ``(n,)``
        Public: published by the server.
    epsilon : number or text

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import PrivateValidation
    >>> never, always = (lambda X: np.zeros(len(X))), (lambda X: np.ones(len(X)))
    >>> validation = PrivateValidation([never, always], epsilon=2)
    >>> votes = validation.vote(np.zeros((20_000, 1)), np.ones(20_000))
    >>> bool(validation.accuracies(votes).upper[0] < validation.accuracies(votes).lower[1])
    True
    """

    def __init__(self, candidates: Sequence[Callable[[Any], Any]], epsilon: Exact) -> None:
        if not candidates:
            raise ValueError("there are no candidates; give at least one function from points to labels")
        self.candidates = tuple(candidates)
        self.flip = flip_weight(checked_epsilon(epsilon))

    def vote(self, X: ArrayLike, y: ArrayLike, *, words: WordSource | None = None) -> Ints:
        """Return ``(n, 2)``: each user's candidate, and 1 for "right" after randomised response.

        Draws come from the operating system; ``words`` is for tests alone and marks the result NOT PRIVATE.
        """
        source = SystemWords() if words is None else words
        points, truth = np.asarray(X), np.asarray(y, dtype=object)
        if len(points) != len(truth):
            raise ValueError(f"X has {len(points)} rows but y has {len(truth)}; give one label per row")
        chosen = uniform(len(self.candidates), len(truth), source)
        right = np.zeros(len(truth), dtype=bool)
        for number, predict in enumerate(self.candidates):
            mine = chosen == number
            if mine.any():
                with unheard():
                    right[mine] = _right(predict, points[mine], truth[mine])
        votes = np.column_stack([chosen, right ^ coins(self.flip, len(truth), source)])
        return votes if source.private else votes.view(NotPrivate)

    def accuracies(self, votes: ArrayLike, *, confidence: float | Fraction = 0.95) -> Accuracies:
        """Return accuracies with exact binomial bounds, which all hold together with this confidence."""
        risk = Risk.of(checked_probability(confidence))
        table = np.asarray(votes)
        q = len(self.candidates)
        bad = table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu"
        if bad or not ((table >= 0) & (table < [q, 2])).all():
            raise ValueError(f"votes must be whole numbers (n, 2): a candidate below {q}, and 0 or 1")
        users = np.bincount(table[:, 0], minlength=q)
        right = np.bincount(table[table[:, 1] == 1, 0], minlength=q)
        if not users.all():
            raise ValueError(f"candidate {int(np.argmin(users))} has no votes; ask more users or fewer candidates")
        # a vote says "right" with probability (1 + (2 accuracy - 1) contrast) / 2
        contrast = float(1 - Fraction(2 * self.flip, WORD))
        lower, upper = vote_interval(right, users - right, users, risk.split(q), contrast)
        lower, upper = down((lower + 1) / 2).clip(0, 1), up((upper + 1) / 2).clip(0, 1)
        estimate = ((2 * right - users) / (contrast * users) + 1) / 2
        return Accuracies(estimate, lower, upper, users, confidence, risk.spent)


_ALONE = threading.RLock()  # filters of warnings are the process's: two threads would leave one another's behind


@contextmanager
def unheard() -> Iterator[None]:
    """Let nothing out of what a candidate warns of, prints or logs: it would tell of the record."""
    before = logging.root.manager.disable
    with (
        _ALONE, warnings.catch_warnings(), np.errstate(all="ignore"),
        open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(before)


def _right(predict: Callable[[Any], Any], points: NDArray[Any], truth: NDArray[Any]) -> Bools:
    """Tell where a candidate is right; where it fails on a record, or answers something else, it is not."""
    try:
        answers = np.asarray(predict(points), dtype=object)
        if answers.shape == truth.shape:
            return np.array([bool(a == b) for a, b in zip(answers, truth, strict=True)], dtype=bool)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without what a candidate may say with it
    except BaseException:  # whatever fails, a missing vote would tell of the record
        pass
    if len(truth) == 1:
        return np.zeros(1, dtype=bool)
    return np.concatenate([_right(predict, points[i : i + 1], truth[i : i + 1]) for i in range(len(truth))])
