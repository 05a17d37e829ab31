"""What the privatizer needs to know of an algorithm.

A vector per world, and the released object from a vector alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, as_floats

Labels = NDArray[Any]


def check_masked(values: Any, name: str) -> None:
    """Refuse hidden entries: as an array, they would show what lies under the mask."""
    parts = values if isinstance(values, (list, tuple)) else [values]
    for row, part in enumerate(parts):
        if isinstance(part, np.ma.MaskedArray) and np.ma.getmaskarray(part).any():
            at = int(np.argwhere(np.ma.getmaskarray(part))[0][0]) if part is values and part.ndim else row
            raise ValueError(f"row {at}, {name}: an entry is masked, that is missing; fill it, or drop the row")
        if isinstance(part, (list, tuple)):
            check_masked(part, name)


def as_numbers(found: Any, name: str = "the output") -> Floats:
    """Return what is given as real numbers; refuse what they would show or drop: masked entries, imaginary parts."""
    check_masked(found, name)
    if np.iscomplexobj(held := np.asarray(found)) or (
        held.dtype == object and any(isinstance(value, complex) for value in held.reshape(-1))
    ):
        raise ValueError(f"{name} must be real numbers, got complex ones; give real and imaginary parts one by one")
    try:
        return as_floats(held)
    except (ValueError, TypeError, OverflowError):  # whose words show what a secret half led to
        raise ValueError(f"{name} must be numbers that doubles hold; give an array of them") from None


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """An algorithm prepared on the pool: a pure function of the *set* of rows, in canonical form.

    Attributes
    ----------
    reference : ndarray of float, shape ``(d,)``
        The pool's own output: what canonical forms are aligned with, and what a failed fit is mapped to.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, Mechanism, PACPrivatizer
    >>> class Mean(Mechanism):
    ...     names = ("mean height", "mean weight")
    ...     def output(self, X, y):
    ...         return X.mean(axis=0)
    ...     def rebuild(self, vector):
    ...         return dict(zip(self.names, vector))
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> fitted = PACPrivatizer(None, MI(0.1), worlds=64, adapter=lambda estimator, X, y: Mean(X.mean(axis=0))).fit(X)
    >>> sorted(fitted.release().estimator_)
    ['mean height', 'mean weight']
    """

    reference: Floats

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Name of every released number."""

    @abstractmethod
    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Run the algorithm on these rows (in the pool's order); return everything that will leave, as one vector."""

    @abstractmethod
    def rebuild(self, vector: Floats) -> Any:
        """Return the released object, a function of the noisy vector and of pool quantities only."""

    def moments(self, X: Floats, y: Labels | None) -> Floats | None:
        """Return numbers of each of these rows whose means over a world decide its output, shape ``(rows, k)``.

        None, the default, where there are none: then every world is a call of `output`.  A row's numbers must not
        depend, to the last bit, on the other rows: take sums and products column by column, not matrix products.
        """
        return None

    def from_moments(self, means: Floats, count: int) -> Floats | None:
        """Return the output of a world of ``count`` rows with these means; None where `output` has to be asked."""
        return None


Prepare = Callable[[Any, Floats, "Labels | None"], Mechanism]


@dataclass(frozen=True, eq=False)
class FunctionMechanism(Mechanism):
    """Any function of the rows: called as ``f(X)``, or as ``f(X, y)`` when the pool has labels.

    X is a data frame where the pool is one.
    """

    function: Callable[..., Any]

    @classmethod
    def prepare(cls, function: Callable[..., Any], X: Floats, y: Labels | None) -> FunctionMechanism:
        """Run the function on the pool."""
        copies = copy(X), None if y is None else y.copy()  # the pool stays as it is if the function works in place
        return cls(_vector(function, *copies), function)

    @property
    def names(self) -> tuple[str, ...]:
        """Positions."""
        return tuple(f"output[{i}]" for i in range(len(self.reference)))

    def output(self, X: Floats, y: Labels | None) -> Floats:
        """Call the function."""
        return _vector(self.function, X, y)

    def rebuild(self, vector: Floats) -> Floats:
        """Return the vector itself."""
        return vector


def _vector(function: Callable[..., Any], X: Floats, y: Labels | None) -> Floats:
    found = function(X) if y is None else function(X, y)
    return np.array(as_numbers(found).reshape(-1))  # a copy: the function may return a view of its own memory


@dataclass(frozen=True, eq=False)
class MeanMechanism(FunctionMechanism):
    """The mean of every column."""

    @classmethod
    def prepare(cls, estimator: Any, X: Floats, y: Labels | None) -> MeanMechanism:
        """Take the pool's mean."""
        return cls(X.mean(axis=0), _mean)

    @property
    def names(self) -> tuple[str, ...]:
        """One mean per feature."""
        return tuple(f"mean[{i}]" for i in range(len(self.reference)))

    def moments(self, X: Floats, y: Labels | None) -> Floats:
        """Return the columns themselves."""
        return X

    def from_moments(self, means: Floats, count: int) -> Floats:
        """Return their means."""
        return means


def _mean(X: Floats, y: Labels | None = None) -> Floats:
    return np.asarray(X.mean(axis=0))


def turned(X: Floats, axes: Floats) -> Floats:
    """Return ``X @ axes``, one column of X after the other: a row's numbers do not depend on the other rows."""
    found = np.zeros((len(X), axes.shape[1]))
    for column, row in zip(X.T, axes, strict=True):
        found += column[:, np.newaxis] * row
    return found


def with_products(Z: Floats) -> Floats:
    """Return columns and their products, those of a column with itself and the ones after it."""
    i, j = np.triu_indices(Z.shape[1])
    return np.hstack([Z, Z[:, i] * Z[:, j]])


def covariance_of(means: Floats, columns: int) -> tuple[Floats, Floats]:
    """Return the means and the covariance of columns, from the means of `with_products`."""
    mean, (i, j) = means[:columns], np.triu_indices(columns)
    found = np.empty((columns, columns))
    found[i, j] = found[j, i] = means[columns:]
    return mean, found - np.outer(mean, mean)


def fixed(estimator: Any) -> Any:
    """Return a silent clone with a fixed integer seed: every world and the release must run the same function."""
    from sklearn.base import clone

    template = clone(estimator)
    if template.get_params(deep=False).get("verbose", 0):
        template.set_params(verbose=0)  # a fit on the secret rows must not print
    seed = template.get_params(deep=False).get("random_state", 0)
    if seed is None:
        return template.set_params(random_state=0)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ValueError(
            f"{type(estimator).__name__}: random_state must be a whole number, got a {type(seed).__name__}, which "
            "advances from fit to fit; pass an integer seed"
        )
    return template
