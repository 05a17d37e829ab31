"""Private validation: how accurate candidates are on users who only ever send a randomised bit."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.bounds import Risk
from epsworth.classifiers import Classifier, as_classifier
from epsworth.learner.coins import WORD, Ints, checked_epsilon, coins, flip_weight, uniform
from epsworth.learner.encoding import alike, array_of, labels_of, names_of
from epsworth.learner.fakes import assumption, fakes_among
from epsworth.learner.mechanism import checked_probability
from epsworth.learner.tails import vote_interval
from epsworth.mechanisms.rational import Exact
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.records import Records, as_records
from epsworth.results import Result
from epsworth.rounding import down, round_down, round_up, show_down, up
from epsworth.values import items


@dataclass(frozen=True, eq=False)
class Accuracies(Result):
    """Per candidate: an unbiased estimate, bounds that hold for all together, and how many users voted on it.

    Attributes
    ----------
    estimate, lower, upper, users : ndarray
        One entry per candidate.
    confidence, spent : float or Fraction
        The probability of a miss that all bounds spend together is at most 1 - confidence.
    fakes : int
        So many of the votes may be forged; 0: all are honest users'.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import PrivateValidation
    >>> validation = PrivateValidation([lambda X: np.ones(len(X))], epsilon=2)
    >>> found = validation.accuracies(validation.vote(np.zeros((20_000, 1)), np.ones(20_000)), fakes=0)
    >>> int(found.users.sum()), bool(found.lower[0] > 0.9)
    (20000, True)
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    users: Ints
    confidence: float | Fraction
    spent: Fraction
    fakes: int

    def __str__(self) -> str:
        rows = zip(self.estimate, self.lower, self.upper, self.users, strict=True)
        lines = [
            f"candidate {number}: accuracy {estimate:.3f}, from {round_down(low):.3f} to {round_up(high):.3f}, "
            f"by {users:,} users"
            for number, (estimate, low, high, users) in enumerate(rows)
        ]
        sure = show_down(float(self.confidence))
        together = f"All bounds hold together with confidence {sure}, {assumption(self.fakes)}."
        return "\n".join([*lines, together])


class PrivateValidation:
    """Users that took no part in learning each check one random candidate and send whether it was right, randomised.

    Claim: a vote keeps pure epsilon-LDP for the pair (point, label); the candidate it is about is drawn without looking
    at them.  A record on which a candidate fails counts as wrong: everybody votes, and no vote may tell why.  What no
    value decides is refused: columns other than a candidate's own, and candidates that fail on the ``example``.

    Parameters
    ----------
    candidates : sequence of fitted classifiers, their ``predict``, or functions from tables to labels ``(n,)``
        Public: published by the server.  Those that name their columns are given these alone, in their order.
    epsilon : number or text
    example : table, optional
        Public or made-up records, of the kind that users vote on: every candidate must answer them with labels.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import PrivateValidation
    >>> validation = PrivateValidation([lambda X: np.zeros(len(X)), lambda X: np.ones(len(X))], epsilon=2)
    >>> votes = validation.vote(np.zeros((20_000, 1)), np.ones(20_000))
    >>> found = validation.accuracies(votes, fakes=0.01)  # even if one vote in a hundred is forged
    >>> bool(found.upper[0] < found.lower[1])
    True
    """

    def __init__(self, candidates: Sequence[Any], epsilon: Exact, *, example: Any = None) -> None:
        if not candidates:
            raise ValueError("there are no candidates; give at least one function from points to labels")
        self.candidates = tuple(map(_asked, candidates))
        self.flip = flip_weight(checked_epsilon(epsilon))
        for number, records in enumerate([] if example is None else self._records(example)):
            try:
                self.candidates[number].labels(records.take(np.arange(len(records))))
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                raise ValueError(f"candidate {number} fails on the example ({told}); repair either") from error

    def vote(self, X: ArrayLike, y: ArrayLike, *, words: WordSource | None = None) -> Ints:
        """Return ``(n, 2)``: each user's candidate, and 1 for "right" after randomised response.

        Labels are compared as reports read them: a text is the number that it writes.  Draws come from the operating
        system; ``words`` is for tests alone and marks the result NOT PRIVATE.
        """
        source = SystemWords() if words is None else words
        asked, truth = self._records(X), list(items(labels_of(y)))
        if len(asked[0]) != len(truth):
            raise ValueError(f"X has {len(asked[0])} rows but y has {len(truth)}; give one label per row")
        chosen = uniform(len(self.candidates), len(truth), source)
        right = np.zeros(len(truth), dtype=bool)
        for number, records in enumerate(asked):
            mine = np.flatnonzero(chosen == number)
            if mine.size:
                with unheard():
                    right[mine] = _right(self.candidates[number], records, mine, truth)
        votes = np.column_stack([chosen, right ^ coins(self.flip, len(truth), source)])
        return votes if source.private else votes.view(NotPrivate)

    def _records(self, X: Any) -> list[Records]:
        """Return a table as each candidate's records; what is refused is decided by its shape and columns alone."""
        given = array_of(X) if names_of(X) is None else X
        return [as_records(given, features=one.features, count=one.count) for one in self.candidates]

    def accuracies(
        self, votes: ArrayLike, *, fakes: int | float | Fraction, confidence: float | Fraction = 0.95
    ) -> Accuracies:
        """Return accuracies with exact binomial bounds, which all hold together with this confidence.

        They hold if no more than ``fakes`` of the votes (a number, or a share below one half) are forged; estimates
        take all for honest.
        """
        risk = Risk.of(checked_probability(confidence))
        table = np.asarray(votes)
        q = len(self.candidates)
        bad = table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu"
        if bad or not ((table >= 0) & (table < [q, 2])).all():
            raise ValueError(f"votes must be whole numbers (n, 2): a candidate below {q}, and 0 or 1")
        count = fakes_among(fakes, len(table))
        users = np.bincount(table[:, 0], minlength=q)
        right = np.bincount(table[table[:, 1] == 1, 0], minlength=q)
        if not users.all():
            raise ValueError(f"candidate {int(np.argmin(users))} has no votes; ask more users or fewer candidates")
        # a vote says "right" with probability (1 + (2 accuracy - 1) contrast) / 2
        contrast = float(1 - Fraction(2 * self.flip, WORD))
        lower, upper = vote_interval(right, users - right, users, risk.split(q), contrast, count)
        lower, upper = down((lower + 1) / 2).clip(0, 1), up((upper + 1) / 2).clip(0, 1)
        estimate = ((2 * right - users) / (contrast * users) + 1) / 2
        return Accuracies(estimate, lower, upper, users, confidence, risk.spent, count)


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


def _asked(candidate: Any) -> Classifier:
    """Return a candidate with the columns that it names; ``predict`` has those of its model."""
    found, owner = as_classifier(candidate), getattr(candidate, "__self__", None)
    if found.model is None and (names := getattr(owner, "feature_names_in_", None)) is not None:
        return replace(found, features=tuple(map(str, names)))
    return found if found.model is not None else replace(found, count=getattr(owner, "n_features_in_", None))


def _right(candidate: Classifier, records: Records, rows: Ints, truth: Sequence[Any]) -> Bools:
    """Tell on which rows a candidate is right; where it fails on a record, or answers something else, it is not."""
    try:
        answers = np.asarray(candidate.answer(records.take(rows)), dtype=object)
        if answers.shape in ((len(rows),), (len(rows), 1)):
            told = zip(answers.ravel().tolist(), rows.tolist(), strict=True)
            return np.array([alike(answer, truth[row]) for answer, row in told], dtype=bool)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without what a candidate may say with it
    except BaseException:  # whatever fails, a missing vote would tell of the record
        pass
    if len(rows) == 1:
        return np.zeros(1, dtype=bool)
    return np.concatenate([_right(candidate, records, rows[i : i + 1], truth) for i in range(len(rows))])
