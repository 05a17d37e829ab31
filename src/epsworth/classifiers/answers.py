"""Labels are told from scores that were taken for labels.

Integers, booleans, strings and whole floats are labels.  Other floats are labels where the model declares them as
its classes.  A model that declares none is taken to answer scores, and refused, as soon as

- they come as a column, which is how networks return a probability;
- all numbers answered so far lie between 0 and 1, more than one of them or after the whole ranges of the sensitive
  features were asked about: probabilities;
- more than `MOST` different ones were answered.

What counts is everything that was answered since the model was wrapped, not one batch: half points such as 0.5, 1.5
and 2.5 remain labels, and a few records cannot hide a score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 16  # different broken numbers that may still be the names of classes


class ClassifierError(ValueError):
    """The classifier failed, or answered something that is not one label per record."""


@dataclass(eq=False)
class Answered:
    """The floats that a classifier answered so far: the broken ones, and the ends of all."""

    broken: set[float] = field(default_factory=set)
    low: float = np.inf
    high: float = -np.inf

    def checked(self, name: str, found: NDArray[Any], classes: tuple[Any, ...] | None, *, column: bool) -> None:
        """Refuse answers that look like scores, given those before."""
        numbers = _floats(found)
        if not numbers.size:
            return
        broken = np.unique(numbers[numbers != np.rint(numbers)])
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
        if classes is not None:
            known = [c for c in classes if isinstance(c, (int, float, np.number, np.bool_))]
            if not np.isin(broken, np.asarray(known, dtype=numbers.dtype)).all():
                raise _scores(name, "numbers that are none of its classes")
            return
        self.broken.update(broken.tolist())
        if self.broken and column:
            raise _scores(name, "a column of broken numbers")
        if self.low < self.high:
            self.settle(name)
        if len(self.broken) > MOST:
            raise _scores(name, f"more than {MOST} different broken numbers")

    @property
    def doubtful(self) -> bool:
        """Whether broken numbers were answered, so that more answers may show them to be scores."""
        return bool(self.broken)

    def settle(self, name: str) -> None:
        """Refuse broken numbers that all lie between 0 and 1, once enough was asked to see others."""
        if self.broken and self.low >= 0 and self.high <= 1:
            raise _scores(name, "broken numbers that all lie between 0 and 1")


def _floats(found: NDArray[Any]) -> NDArray[Any]:
    if found.dtype.kind == "f":
        return found
    if found.dtype == object:
        return np.array([value for value in found if isinstance(value, (float, np.floating))], dtype=np.float64)
    return np.empty(0)


def _scores(name: str, what: str) -> ClassifierError:
    return ClassifierError(
        f"{name} answered {what}; these look like scores: return labels, such as scores > 0.5, "
        "or declare broken numbers that are labels by Classifier(name, answer, classes=...)"
    )
