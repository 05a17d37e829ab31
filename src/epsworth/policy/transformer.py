"""`Perturb`: a policy as a step of a scikit-learn pipeline; the same path as `perturb`, hence not seedable."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array

from epsworth.extras import needed
from epsworth.frames import as_frame
from epsworth.numerals import short
from epsworth.policy.beside import check_beside, check_index
from epsworth.policy.policy import Given, Policy, as_policy
from epsworth.policy.tables import Perturbation, check_unmasked, perturb
from epsworth.refusals import alone

CONTAINERS = ("default", "pandas", "polars")


class Perturb(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg,misc]  # no types
    """Perturb the policy's features; the columns that it lets pass stay as they are.

    Claim: each record of a result keeps ``policy.guarantee``.  Every call of ``transform`` releases the records once
    more: their epsilons add.  There is no ``random_state``: a release cannot be seeded.  It learns nothing, so that
    ``transform`` needs no ``fit``; a table that it was fitted on says which columns must come again.

    Parameters
    ----------
    policy : Policy or path
        A path is read at every call.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsworth import Perturb, Policy
    >>> table = pd.DataFrame({"age": [20.0, 60.0], "id": [1, 2]})
    >>> step = Perturb(Policy.of("pm", 1, {"age": (0, 100)}, passing=["id"]))
    >>> step.transform(table)["id"].tolist()
    [1, 2]
    """

    def __init__(self, policy: Given) -> None:
        self.policy = policy

    @alone()
    def fit(self, X: Any, y: Any = None) -> Perturb:
        """Check that the table holds the policy's features; nothing is learnt, and `transform` works without it."""
        policy = as_policy(self.policy, X)
        _, names = self._read(policy, X)
        Perturbation(policy).check_names(names)
        self.n_features_in_ = len(names)
        if self._named(X):
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    @alone()
    def transform(self, X: Any) -> Any:
        """Return the table, of the same kind, with its perturbed columns replaced."""
        policy = as_policy(self.policy, X)
        table, names = self._read(policy, X)
        if len(names) != getattr(self, "n_features_in_", len(names)):
            raise ValueError(
                f"X has {len(names)} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input; give the columns it was fitted on"
            )
        if self._named(X) and list(getattr(self, "feature_names_in_", names)) != names:
            raise ValueError("The feature names should match those that were passed during fit; reorder the columns")
        return self._held(perturb(policy, table), names, X)

    def set_output(self, *, transform: str | None = None) -> Perturb:
        """Choose what holds a result: "pandas", "polars", or "default" for the kind of the table; None changes nothing.

        The names are those of the table that is transformed.
        """
        if transform is not None and transform not in CONTAINERS:
            raise ValueError(f"transform must be one of {', '.join(map(repr, CONTAINERS))}, got {short(transform)}")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns: those that came in, without those that the policy drops.

        Before any table came in they are those that the policy names, in its order.
        """
        fitted = getattr(self, "feature_names_in_", None)
        count = getattr(self, "n_features_in_", None)
        if fitted is None and count is None and input_features is None:
            policy = as_policy(self.policy)
            return np.array([*policy.names, *policy.passing.columns], dtype=object)
        if fitted is None and count is not None:
            fitted = [f"x{i}" for i in range(count)]
        names = list(input_features if fitted is None else fitted)
        own = input_features if input_features is not None and not hasattr(self, "feature_names_in_") else names
        kept = Perturbation(as_policy(self.policy)).check_names(names)
        return np.array([own[i] for i, name in enumerate(names) if name in kept], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn that nothing need be fitted."""
        return True

    def _named(self, X: Any) -> bool:
        columns = getattr(X, "column_names", getattr(X, "columns", None))
        return columns is not None and all(isinstance(name, str) for name in columns)

    def _read(self, policy: Policy, X: Any) -> tuple[Any, list[str]]:
        """Return the table, checked where it is no data frame, and the names of its columns."""
        if self._named(X):
            return X, list(as_frame(X).columns)
        array = self._array(policy, X)
        return array, [f"x{i}" for i in range(array.shape[1])]

    def _held(self, found: Any, names: list[str], X: Any) -> Any:
        """Return a result in what holds results (`set_output`); ``names`` are those of the columns that came in."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        if chosen == "default" or type(found).__module__.partition(".")[0] == chosen:
            return found
        kept = Perturbation(as_policy(self.policy)).check_names(names)
        table = as_frame(found).to_dict(as_series=False) if self._named(found) else found
        if chosen == "polars":
            pl = needed("polars", "files", "a result in polars")
            return pl.DataFrame(table) if self._named(found) else pl.DataFrame(table, schema=kept, orient="row")
        import pandas as pd

        return pd.DataFrame(table, columns=kept, index=X.index if isinstance(X, pd.DataFrame) else None)

    def _array(self, policy: Policy, X: Any) -> Any:
        """Check what is not a data frame; missing and infinite values are the policy's business.

        Masks, and an index that `set_output` would put back, are lost in the array, so they are looked at before.
        """
        X = self._unmasked(policy, X)
        labels = {f"x{i}": label for i, label in enumerate(getattr(X, "columns", ()))}
        check_beside({label for name in policy.names for label in (name, labels.get(name, name))}, X)
        check_index(policy.passing.columns, X)
        X = self._objects(X)
        found = np.asarray(X)
        if found.dtype.kind == "c":  # scikit-learn's refusal would show the values
            raise ValueError("Complex data not supported; give numbers or words")
        if getattr(X, "ndim", found.ndim) != 2:  # a sparse matrix becomes an array without a dimension
            raise ValueError(f"X must be a table of shape (records, columns), got {found.shape}. Reshape your data")
        return check_array(X, dtype=None, ensure_all_finite=False)

    def _objects(self, X: Any) -> Any:
        """Return records as they are, value by value: NumPy's common type of them would tell of perturbed columns."""
        if not (isinstance(X, (list, tuple)) or hasattr(X, "iloc")):
            return X
        turned = hasattr(X, "iloc")
        lines = [X.iloc[:, j].tolist() for j in range(X.shape[1])] if turned else X
        if not all(isinstance(line, (list, tuple)) or (isinstance(line, np.ndarray) and line.ndim) for line in lines):
            return X
        if len({len(line) for line in lines}) > 1:
            raise ValueError("the records are not equally long; give every record one value for each column")
        objects = np.empty((len(lines), len(lines[0]) if lines else 0), dtype=object)
        for i, line in enumerate(lines):
            for j, value in enumerate(line):
                objects[i, j] = value
        return objects.T if turned else objects

    def _unmasked(self, policy: Policy, X: Any) -> Any:
        """Return what is no masked array; what is masked in a perturbed column is a gap."""
        if isinstance(X, np.ma.MaskedArray):
            return Perturbation(policy).unmasked(X)
        check_unmasked(X)
        return X

    def __sklearn_tags__(self) -> Any:
        """Declare that the result is random, that nothing need be fitted, and what may come in."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic, tags.requires_fit = True, False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
