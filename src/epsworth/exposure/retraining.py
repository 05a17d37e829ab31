"""How far any model remembers each row: it is trained many times, on random halves of the rows.

A row is memorised where a model that was trained with it gets its label right, and one that was not gets it wrong
(Feldman & Zhang 2020).  Every training counts for all rows, so some tens of them do.  **Not private**, and an estimate:
it looks at labels alone, of models of half the rows; other attacks may tell more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.bounds import Risk
from epsworth.callbacks import check_callback
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.inputs import NOT_PRIVATE, NotPrivate, check_count, generator, whole
from epsworth.exposure.inputs import share as share_of_one
from epsworth.parallel import check_n_jobs, in_order
from epsworth.records import Records, as_records
from epsworth.rounding import down, show_down, up
from epsworth.values import is_missing, label_array

FEWEST, MOST = 8, 100_000  # trainings
TRIES = 100  # random halves, until one holds every label


class Trainable(Protocol):
    """A classifier that can be trained anew."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train."""

    def predict(self, X: Any) -> Any:
        """Return labels."""


@dataclass(frozen=True, eq=False)
class Memorisation(NotPrivate):
    """How much likelier each row's label is right where the row was trained with; not private.

    Attributes
    ----------
    with_row, without_row : ndarray of shape ``(n,)``
        Share of the trainings with and without a row whose model gets its label right.
    lower, upper : ndarray of shape ``(n,)``
        Bounds on the difference of the two probabilities, which is the advantage of a membership attack that asks for
        the label alone; all of them hold together with the confidence.
    trainings : int
        Models that were trained, each on half of the rows.
    confidence : float
        With which all bounds hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from epsworth.exposure import memorisation
    >>> X = np.arange(60.0)[:, None]
    >>> y = (X[:, 0] > 30).astype(int)
    >>> y[10] = 1  # a label that none of its neighbours has
    >>> found = memorisation(KNeighborsClassifier(1), X, y, rng=0)
    >>> int(found.estimates.argmax()), float(found.estimates.max()), bool(found.lower.max() > 0.4)
    (10, 1.0, True)
    """

    with_row: Floats
    without_row: Floats
    lower: Floats
    upper: Floats
    trainings: int
    confidence: float

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def estimates(self) -> Floats:
        """How much likelier a row's label is right in a model that was trained with it."""
        return as_floats(self.with_row - self.without_row)

    @property
    def ranked(self) -> NDArray[np.int64]:
        """Rows, the most exposed first: by what is certain, then by the estimate."""
        return np.lexsort((-self.estimates, -self.lower))

    def __str__(self) -> str:
        sure, worst = int((self.lower > 0).sum()), int(self.ranked[0])
        return (
            f"{sure:,} of {len(self):,} rows are memorised for certain ({self.confidence:g} confidence for all of "
            f"them, {self.trainings} trainings on halves); of row {worst} the label alone tells membership with an "
            f"advantage of at least {show_down(float(max(self.lower[worst], 0.0)), 3)}, estimated "
            f"{show_down(float(self.estimates[worst]), 3)} ({NOT_PRIVATE})"
        )


def memorisation(
    model: Trainable,
    X: Any,
    y: ArrayLike,
    *,
    trainings: int = 64,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Memorisation:
    """Estimate how exposed each row is in any model, by training it on random halves of the rows; not private.

    Claim: for a training on a random half of these rows, and for an attack that sees whether a row's label comes out
    right, each row's advantage lies between ``lower`` and ``upper``, for all rows together with ``confidence``.  Of
    how exposed a row is in the model of *all* rows it is an estimate, and no bound on attacks that see more.

    Parameters
    ----------
    model : estimator
        With ``fit`` and ``predict``, as of scikit-learn: a copy of it is trained each time; random states that are not
        set are drawn anew.
    X : array_like or data frame of ``n`` rows
        What the model is trained on.
    y : array_like of shape ``(n,)``
        Labels.
    trainings : int
        How many, at least 8, in pairs: one model of a random half, one of the rest.
    confidence : float
        With which all bounds hold together.
    rng : numpy.random.Generator or int, optional
        Draws the halves and the random states.
    n_jobs : int, optional
        Workers that train; -1 for all cores.  The halves do not depend on it.
    progress : callable, optional
        Called with the share of trainings that are done.

    Returns
    -------
    Memorisation

    Raises
    ------
    ExposureError
        For a model that cannot be trained or predicts no labels, labels that are missing, and fewer than four rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from epsworth.exposure import memorisation
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.uniform(size=(200, 2)), rng.random(200) < 0.1
    >>> y = (X[:, 0] > 0.5) ^ noise  # a tenth of the labels is wrong: nothing but the row itself tells them
    >>> found = memorisation(DecisionTreeClassifier(), X, y, trainings=32, rng=1)
    >>> bool(found.estimates[noise].mean() > 0.8 > 0.2 > found.estimates[~noise].mean())
    True

    References
    ----------
    Feldman & Zhang 2020, "What neural networks memorize and why".
    """
    if not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise ExposureError(f"model must have fit and predict, to be trained anew, got {type(model).__name__}")
    if isinstance(model, type):
        raise ExposureError(f"model must be an estimator, got the class {model.__name__}; call it")
    pairs, records = whole("trainings", trainings, FEWEST, MOST) // 2, as_records(X)
    risk = Risk.of(share_of_one("confidence", confidence))
    labels = _labels(y, len(records))
    told, jobs = check_callback("progress", progress) or (lambda share: None), check_n_jobs(n_jobs)
    seeds = generator(rng).integers(2**63, size=pairs).tolist()
    right = np.zeros((2, len(records)))
    for done, hits in enumerate(in_order(_Halves(model, records, labels), seeds, n_jobs=jobs), start=1):
        right += hits
        told(done / pairs)
    bounds = risk.split(right.size).interval(right, pairs)
    with_row, without_row = right / pairs
    return Memorisation(
        with_row, without_row, np.maximum(down(bounds.lower[0] - bounds.upper[1]), -1.0),
        np.minimum(up(bounds.upper[0] - bounds.lower[1]), 1.0),
        2 * pairs, confidence,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Halves:
    """Two models, one of a random half of the rows, one of the rest: each row was trained with in exactly one."""

    model: Trainable
    records: Records
    labels: NDArray[Any]

    def __call__(self, seed: int) -> Bools:
        """Return whether labels are right in the model that was trained with a row, and in the other one."""
        rng = np.random.default_rng(seed)
        inside = self._half(rng)
        right = np.array([self._right(some, rng) for some in (inside, ~inside)])
        return np.where(inside, right, right[::-1])

    def _half(self, rng: np.random.Generator) -> Bools:
        """Return which rows are in a random half, each label on either side."""
        kinds, codes = np.unique(self.labels, return_inverse=True)
        size = (len(codes) + int(rng.integers(2))) // 2
        for _ in range(TRIES):
            inside = np.zeros(len(codes), dtype=np.bool_)
            inside[rng.choice(len(codes), size, replace=False)] = True
            if all(len(np.unique(codes[some])) == len(kinds) for some in (inside, ~inside)):
                return inside
        raise ExposureError("y has a label of so few rows that halves lack it; leave those rows out, or group labels")

    def _right(self, some: Bools, rng: np.random.Generator) -> Bools:
        model, rows = fresh(self.model, rng), np.flatnonzero(some)
        model.fit(self.records.take(rows), self.labels[rows])
        found = label_array(model.predict(self.records.take(np.arange(len(some)))), "the model's labels")
        if found.shape not in ((len(some),), (len(some), 1)):
            raise ExposureError(f"model.predict must return one label per row, shape ({len(some)},), got {found.shape}")
        found, known = found.reshape(-1), set(self.labels.tolist())
        if 2 * sum(label in known for label in found.tolist()) < len(found):
            raise ExposureError("model.predict returns what is mostly no label of y; give a classifier that does")
        return np.asarray(found == self.labels, dtype=np.bool_)


def fresh(model: Trainable, rng: np.random.Generator) -> Trainable:
    """Return a copy to train, whose random states are drawn where they are not set."""
    if not hasattr(model, "get_params"):
        return copy.deepcopy(model)
    from sklearn.base import clone

    found = clone(model)
    free = [name for name, value in found.get_params().items() if name.endswith("random_state") and value is None]
    found.set_params(**{name: int(rng.integers(2**31)) for name in free})
    return found  # type: ignore[no-any-return]


def _labels(y: ArrayLike, count: int) -> NDArray[Any]:
    labels = label_array(y, "y")
    check_count(labels.shape, count)
    gaps = np.array([is_missing(label) for label in labels.tolist()])
    if gaps.any():
        raise ExposureError(f"y, row {int(gaps.argmax())} has no label; fill or drop it first")
    if len({isinstance(label, str) for label in labels.tolist()}) > 1:
        raise ExposureError("y must hold texts alone, or numbers alone; recode one of them")
    if len(np.unique(labels)) < 2:
        raise ExposureError("y must hold two different labels at least; a model of one has nothing to remember")
    return labels
