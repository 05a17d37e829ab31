"""Random forests asked about few records: the sums of ``predict`` without its per-tree ceremony.

scikit-learn hands every tree to a scheduler, which takes 70 us each: most of the time of a short question.
Here the trees add up their class shares in the same order, in the same precision, hence to the same label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.classifiers.genuine import kind_of
from epsworth.classifiers.scalers import Predict
from epsworth.classifiers.sklearn_trees import genuine_trees

FOREST = ("RandomForestClassifier", "ExtraTreesClassifier")
FEW = 4_096  # records, beyond which the trees' own work dominates and `predict` may use several threads


def forest_answer(model: Any) -> Predict:
    """Return a function that answers as ``predict`` does; anything unusual is left to ``predict`` itself."""
    if kind_of(model) not in FOREST or model.n_outputs_ != 1 or model.n_jobs not in (None, 1):
        return Predict(model)  # threads add in any order
    own = type(model).predict.__module__.startswith("sklearn.")  # nobody put another there
    trees = genuine_trees(model.estimators_, "DecisionTreeClassifier", "ExtraTreeClassifier")
    return FewRecords(model) if own and trees else Predict(model)


@dataclass(frozen=True, eq=False)
class FewRecords(Predict):
    """Add up the trees' shares of few records."""

    def __call__(self, records: Any) -> Any:
        """Return the labels."""
        model = self.model
        names = list(getattr(model, "feature_names_in_", ()))
        if len(records) > FEW or list(getattr(records, "columns", names)) != names:
            return super().__call__(records)
        numbers = np.asarray(records)
        if numbers.dtype.kind not in "fiu" or numbers.shape[1:] != (model.n_features_in_,):
            return super().__call__(records)
        with np.errstate(over="ignore"):
            seen = np.ascontiguousarray(numbers, dtype=np.float32)
        if not np.isfinite(seen).all():
            return super().__call__(records)
        shares = np.zeros((len(seen), len(model.classes_)))
        for tree in model.estimators_:
            shares += tree.tree_.predict(seen)
        shares /= len(model.estimators_)
        return model.classes_.take(np.argmax(shares, axis=1))
