"""What may leave: a noisy vector, the object that stands for it, and the promise."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from epsworth.arrays import Floats
from epsworth.results import Result
from epsworth.rounding import show_up


@dataclass(frozen=True, eq=False)
class Release(Result):
    """One noisy release: what may leave the building.

    Attributes
    ----------
    vector : ndarray, shape ``(d,)``
        The noisy numbers.
    names : tuple of str
        What they are.
    estimator_ : object
        Rebuilt from ``vector`` and pool quantities only (the vector itself for a function).

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.pac import MI, PACPrivatizer
    >>> X = np.random.default_rng(0).random((40, 2))
    >>> release = PACPrivatizer(lambda rows: rows.mean(axis=0), MI(0.1), worlds=64).fit(X).release()
    >>> release.vector.shape, release.names
    ((2,), ('output[0]', 'output[1]'))
    >>> release.report()["mode"], release.report()["mi_nats"] <= 0.1
    ('exact', True)
    """

    vector: Floats
    names: tuple[str, ...]
    estimator_: Any
    _report: dict[str, Any] = field(repr=False)

    def report(self) -> dict[str, Any]:
        """Return the promise, its soundness and its limits, as JSON-able values."""
        return deepcopy(self._report)

    def to_dict(self) -> dict[str, Any]:
        """Return the noisy numbers by name, and the report."""
        return {"release": dict(zip(self.names, self.vector.tolist(), strict=True)), "report": self.report()}

    def save_model(
        self, path: str | Path, *, names: Sequence[str] | None = None, ranges: ArrayLike | None = None
    ) -> None:  # fmt: skip
        """Write ``estimator_`` to a file without code in it, which ``epsworth predict`` and ``epsworth utility`` take.

        Parameters
        ----------
        path : str or Path
            ``.skops``: for `epsworth.load_model`, too.  ``.npz``: arrays alone, and the report.
        names : sequence of str, optional
            Of the pool's columns, by which those of a table are found.
        ranges : array_like of shape ``(columns, 2)``, optional
            Public ends of the columns that the pool was scaled to [0, 1] by: the file's model takes natural units.

        Raises
        ------
        ValueError
            For another ending, and for releases that are no model.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from sklearn.linear_model import RidgeClassifier
        >>> from epsworth import load_model
        >>> from epsworth.pac import MI, PACPrivatizer
        >>> X = np.random.default_rng(0).random((40, 2)); y = X[:, 0] > 0.5
        >>> release = PACPrivatizer(RidgeClassifier(), MI(1), worlds=64).fit(X, y).release()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save_model(Path(folder, "model.skops"), names=["age", "size"])
        ...     model = load_model(Path(folder, "model.skops"))
        >>> bool((model.coef_ == release.estimator_.coef_).all()), model.feature_names_in_.tolist()
        (True, ['age', 'size'])
        """
        from epsworth.pac.model_files import save_model

        save_model(self, path, names, ranges)

    def __str__(self) -> str:
        told = self._report
        return (
            f"{len(self.vector)} noisy numbers of {told['algorithm']}: {show_up(told['mi_nats'])} nats; membership is "
            f"inferred with {show_up(100 * told['posterior_of_membership'], 4)} % at most ({told['soundness']})"
        )
