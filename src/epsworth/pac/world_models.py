"""From a table to the models of a `ResponseServer`: one fit per world, and a folder that holds them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, as_floats
from epsworth.classifiers.model_files import load_model
from epsworth.files import check_name, file_named, reading, replacing
from epsworth.numerals import short, whole
from epsworth.pac.mechanism import fixed
from epsworth.pac.pool import check_finite, check_pool, checked_columns, checked_labels
from epsworth.pac.worlds import Sampler, SecretSeed, Seed
from epsworth.parallel import in_order

ABOUT = "members.npz"
LARGEST = 1 << 31  # bytes of that file


@dataclass(frozen=True, eq=False)
class WorldModels:
    """Classifiers made from halves of a pool, of which a `ResponseServer` makes one its secret.

    Attributes
    ----------
    models : tuple of estimators
        One per half; as private as the pool.
    members : ndarray of bool, shape ``(models, rows)``
        Which rows each was made from.  Every row is in exactly half of them.
    classes : ndarray
        All labels.
    on_pool : float
        Share of the pool's own rows that most models label as the pool does.  Where this lies far above the share on
        other rows, answers show who is in the pool: that is not protected.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth.pac import MI, ResponseServer, WorldModels
    >>> X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)
    >>> kept = WorldModels.fit(LogisticRegression(), X, y, worlds=16)
    >>> settings = {"classes": kept.classes, "fallback": "votes", "per_query": 2**-10, "record_posterior": 0.6}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ResponseServer(kept.models, kept.members, MI(1), ledger=f"{folder}/answers", **settings) as server:
    ...         server.answer([[2.0, 0.0], [-2.0, 0.0]]).tolist()
    [1, 0]
    """

    models: Sequence[Any]
    members: Bools
    classes: NDArray[Any]
    on_pool: float

    @classmethod
    def fit(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        worlds: int = 128,
        groups: ArrayLike | None = None,
        near: float | None = None,
        worlds_seed: Seed | None = None,
        n_jobs: int | None = None,
    ) -> WorldModels:
        """Fit a classifier on halves of a pool, class by class; halves 2i and 2i + 1 are complements of each other.

        Parameters
        ----------
        estimator : classifier
            A scikit-learn estimator or pipeline; a random one is given one seed for all halves.
        X, y : array_like or data frame, array_like
            The pool: numbers and labels.
        worlds : int
            How many halves; even.
        groups : array_like, optional
            A value per row; rows that share it go in or out together, as identical rows always do.
        near : float, optional
            Rows whose columns all differ by at most this much go in or out together.
        worlds_seed : int or SecretSeed, optional
            By default the halves are secret; a number makes them repeatable, and public to whoever knows it.
        n_jobs : int, optional
            Workers.

        Raises
        ------
        ValueError
            For pools with missing numbers, or with classes too small to be halved.
        """
        if whole("worlds", worlds, least=2) % 2:
            raise ValueError(f"worlds must be even, each half beside its complement, got {worlds}")
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(f"estimator must be a classifier with fit and predict, got {short(estimator)}")
        X = checked_columns(X)
        framed = hasattr(X, "columns")
        table = as_floats(X if not framed else np.column_stack([np.asarray(X[name]) for name in X.columns]))
        if table.ndim != 2:
            raise ValueError(f"X must be a table, a row per record, got shape {table.shape}")
        check_finite(table, list(X.columns) if framed else None)
        labels, units = check_pool(table, y, groups, estimator, near)
        if labels is None:
            raise ValueError("y must hold the label of every row, got None")
        members = Sampler(units, 0.5, SecretSeed() if worlds_seed is None else worlds_seed, True).draw(range(worlds))
        rows = X if framed else table
        models = tuple(in_order(partial(_fitted, fixed(estimator), rows, labels), list(members), n_jobs=n_jobs))
        classes = np.unique(labels)
        return cls(models, members, classes, _share_right(models, classes, rows, labels))

    def accuracy(self, X: Any, y: ArrayLike) -> float:
        """Return the share of rows that most models label right: what ``fallback="plurality"`` comes to at first."""
        return _share_right(self.models, self.classes, X, checked_labels(y, len(X)))

    def save(self, folder: str | Path) -> None:
        """Write a new folder for its owner alone: a .skops file per model, and ``members.npz``; no pickles.

        Raises
        ------
        ValueError
            For a folder that is there, and for models that skops cannot write.
        """
        from skops.io import dump

        place = check_name("folder", file_named(folder))
        try:
            place.mkdir(mode=0o700)
        except OSError as error:
            raise ValueError(f"cannot make the folder {place}: {error.strerror}; give a new one") from None
        for number, model in enumerate(self.models):
            with replacing(place / _name(number), mode=0o600) as temporary:
                dump(model, temporary)
        classes = self.classes.astype(str) if self.classes.dtype.kind == "O" else self.classes
        if classes.tolist() != self.classes.tolist():  # NumPy's files hold no other ones
            raise ValueError("a label is neither a number nor a text that such a folder holds; recode the labels first")
        with replacing(place / ABOUT, mode=0o600) as temporary:  # last: without it, the folder is none
            np.savez_compressed(
                temporary, members=np.packbits(self.members, axis=1), rows=self.members.shape[1], classes=classes,
                on_pool=self.on_pool,
            )  # fmt: skip

    @classmethod
    def load(cls, folder: str | Path, *, trust: bool | Sequence[str] = False) -> WorldModels:
        """Read what `save` wrote.

        Parameters
        ----------
        trust : bool or sequence of str
            Types that the models may hold besides those that skops knows; see `load_model`.
        """
        place = check_name("folder", file_named(folder))
        with reading(place / ABOUT, "list of members", most=LARGEST) as content:
            try:
                with np.load(io.BytesIO(content), allow_pickle=False) as found:
                    packed, rows = np.asarray(found["members"]), int(found["rows"])
                    classes, on_pool = np.asarray(found["classes"]), float(found["on_pool"])
                if packed.dtype != np.uint8 or packed.ndim != 2 or not 0 <= 8 * packed.shape[1] - rows < 8:
                    raise ValueError
            except (KeyError, TypeError, ValueError, EOFError, BadZipFile):
                raise ValueError("is none; give a folder that WorldModels.save wrote") from None
        members = np.unpackbits(packed, axis=1, count=rows).astype(bool)
        models = tuple(load_model(place / _name(number), trust=trust) for number in range(len(members)))
        return cls(models, members, classes, on_pool)


def _name(number: int) -> str:
    return f"model_{number:05d}.skops"


def _share_right(models: Sequence[Any], classes: NDArray[Any], X: Any, y: NDArray[Any]) -> float:
    votes = np.stack(
        [np.searchsorted(classes, checked_labels(model.predict(X), len(y), "what a model gives")) for model in models]
    )
    counts = np.stack([(votes == label).sum(axis=0) for label in range(len(classes))])
    return float(np.mean([a == b for a, b in zip(classes[counts.argmax(axis=0)].tolist(), y.tolist(), strict=True)]))


def _fitted(template: Any, X: Any, y: NDArray[Any], chosen: Bools) -> Any:
    """Fit a clone on some rows, silently: a warning would tell something of them."""
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(template).fit(_rows(X, chosen), y[chosen])


def _rows(X: Any, chosen: Bools) -> Any:
    if not hasattr(X, "columns"):
        return X[chosen]
    import narwhals as nw

    return nw.from_native(X, eager_only=True)[np.flatnonzero(chosen).tolist()].to_native()
