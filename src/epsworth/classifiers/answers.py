"""Labels: told from scores that were taken for labels, and the same whatever else a batch holds.

Where the model declares its classes, whatever it answers must be one of them, of whatever kind.  Complex numbers are no
labels.  Of a model that declares none, booleans, strings and other things are labels; numbers are taken for scores, and
refused, as soon as

- broken ones come as a column, which is how networks return a probability;
- broken ones were answered, and all numbers answered so far lie between 0 and 1, more than one of them or after the
  whole ranges of the sensitive features were asked about: probabilities;
- more than `MOST_BROKEN` different broken ones were answered;
- more than `MOST_WHOLE` different whole ones were answered, be they integers or floats, but for a clustering's.

What counts is everything that was answered since the model was wrapped, not one batch: half points such as 0.5, 1.5
and 2.5 remain labels, and a few records cannot hide a score.  Whole scores that take few values, such as percentages
rounded to 0, 1, .., 99, cannot be told from labels: declare classes to have them refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.records import Indices

Labels = NDArray[Any]

MOST_BROKEN = 16  # different broken numbers that may still be the names of classes
MOST_WHOLE = 100  # different whole numbers that may
FEW = 16  # classes that answers are compared with one by one
NUMBERS = (int, float, np.integer, np.floating, Decimal, Fraction)
ALONE = 3  # rows of a batch that are asked about once more, each by itself
REPEATS = 3  # of a whole batch, to tell chance from dependence on the other rows


class ClassifierError(ValueError):
    """The classifier failed, or answered something that is not one label per record.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import ClassifierError, as_classifier
    >>> scores = as_classifier(lambda X: X[:, 0] / 7)  # no labels
    >>> try:
    ...     scores.labels(np.arange(6.0)[:, None])
    ... except ClassifierError as error:
    ...     print(str(error).partition(";")[0])
    <lambda> answered broken numbers that all lie between 0 and 1
    """


class NondeterministicError(ClassifierError):
    """The classifier gave one record two labels."""


@dataclass(eq=False)
class AnswerHistory:
    """The different numbers that a classifier without declared classes answered so far.

    ``numbering``: whole ones are known to number something, such as clusters, however many they are.
    """

    broken: set[float] = field(default_factory=set)
    whole: set[float] = field(default_factory=set)
    numbering: bool = False

    def check(self, name: str, labels: Labels, classes: tuple[Any, ...] | None, *, column: bool) -> None:
        """Refuse answers that are none of the classes, or look like scores, given those before."""
        if labels.dtype.kind == "c" or (
            labels.dtype == object and any(isinstance(v, (complex, np.complexfloating)) for v in labels)
        ):
            raise ClassifierError(f"{name} answered complex numbers, which are no labels; return labels")
        if classes is not None:
            if not _all_known(labels, classes):
                raise _scores(name, "values that are none of its classes")
            return
        numbers = _distinct(_numbers(labels))
        broken = numbers != np.rint(numbers)
        self.broken.update(numbers[broken].tolist())
        self.whole.update(numbers[~broken].tolist())
        if self.broken and column:
            raise _scores(name, "a column of broken numbers")
        if len(self.broken) + len(self.whole) > 1:
            self.settle(name)
        if len(self.broken) > MOST_BROKEN:
            raise _scores(name, f"more than {MOST_BROKEN} different broken numbers")
        if len(self.whole) > MOST_WHOLE and not self.numbering:
            raise _scores(name, f"more than {MOST_WHOLE} different whole numbers")

    @property
    def doubtful(self) -> bool:
        """Whether numbers were answered of which more answers may show that they are scores."""
        return bool(self.broken or self.whole - {-1.0, 0.0, 1.0})

    def settle(self, name: str) -> None:
        """Refuse broken numbers that all lie between 0 and 1, once enough was asked to see others."""
        if self.broken and all(0 <= number <= 1 for number in self.broken | self.whole):
            raise _scores(name, "broken numbers that all lie between 0 and 1")


def _all_known(labels: Labels, classes: tuple[Any, ...]) -> bool:
    """Tell whether all answers are among the classes, as Python compares them: 1 is 1.0, and no text."""
    if labels.dtype == object or len(classes) > FEW:
        return set(labels.tolist() if labels.dtype == object else np.unique(labels).tolist()) <= set(classes)
    known = np.zeros(len(labels), dtype=bool)
    for one in classes:
        known |= labels == one
    return bool(known.all())


def _numbers(labels: Labels) -> NDArray[Any]:
    """Return the answers that are numbers, and no booleans."""
    if labels.dtype.kind in "fiu":
        return labels
    numbers = (
        [v for v in labels if isinstance(v, NUMBERS) and not isinstance(v, bool)] if labels.dtype == object else []
    )
    return np.array(list(map(_as_float, numbers)), dtype=np.float64)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # of a whole number or a fraction, beyond what floats hold
        return float("inf") if number > 0 else float("-inf")


def _distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the different ones; whole numbers in a narrow range are counted, which is faster than sorting them."""
    if numbers.dtype.kind in "iu" and numbers.size:
        low, high = int(numbers.min()), int(numbers.max())
        if high < 2**62 and low > -(2**62) and high - low < numbers.size + MOST_WHOLE:
            return np.flatnonzero(np.bincount(numbers.astype(np.int64) - low)) + low
    return np.unique(numbers)


def _scores(name: str, what: str) -> ClassifierError:
    return ClassifierError(
        f"{name} answered {what}; these look like scores: return labels, such as scores > 0.5, "
        "or declare numbers that are labels by Classifier(name, answer, classes=...)"
    )


def check_batch_invariance(name: str, ask: Callable[[Indices], Labels], labels: Labels, what: str, needs: str) -> int:
    """Ask about some rows of a batch alone, refuse other labels than the batch's; return how many were asked about.

    Rows of different labels come first, as far as there are some: what a batch has to differ by shows there.

    Parameters
    ----------
    ask : callable
        From rows of the batch to their labels.
    labels : ndarray
        Those that the whole batch got.
    """
    if len(labels) < 2:
        return 0  # that was alone
    values = labels.tolist()
    first = list({value: row for row, value in reversed(list(enumerate(values)))}.values())
    rows = list(dict.fromkeys([*sorted(first)[:ALONE], *range(len(values))]))[:ALONE]
    for row in rows:
        if ask(np.array([row]))[0] != labels[row]:
            raise nondeterminism(name, lambda: ask(np.arange(len(labels))), labels, what, needs)
    return len(rows)


def nondeterminism(
    name: str, repeat: Callable[[], Labels], labels: Labels, what: str, needs: str
) -> NondeterministicError:
    """Return why a record had two labels: by chance, where the same batch gets others when it is asked about again.

    Else the other rows of the batch had a say: in what is computed, or only in how it is rounded next to a tie.
    """
    same = f"{name} gives different labels for the same {what}"
    if all(np.array_equal(repeat(), labels) for _ in range(REPEATS)):
        return NondeterministicError(
            f"{same}, alone and among others: its answer depends on the other rows of the batch, or on rounding next "
            f"to a tie; {needs} needs a classifier that answers every row by itself"
        )
    return NondeterministicError(f"{same}; {needs} needs a deterministic classifier: fix its seed")
