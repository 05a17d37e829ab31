"""Random forests asked about few records: the sums of ``predict`` without its per-tree ceremony.

scikit-learn hands every tree to a scheduler, which takes 70 us each: most of the time of a short question.
Here the trees add up their class shares in the same order, in the same precision, hence to the same label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

FOREST = ("RandomForestClassifier", "ExtraTreesClassifier")
FEW = 4_096  # records, beyond which the trees' own work dominates and `predict` may use several threads


def forest_answer(model: Any, predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that answers as ``predict`` does; anything unusual is left to ``predict`` itself."""
    if type(model).__name__ not in FOREST or not type(model).__module__.startswith("sklearn."):
        return predict
    if model.n_outputs_ != 1 or model.n_jobs not in (None, 1):  # threads add in any order
        return predict
    names = list(getattr(model, "feature_names_in_", ()))

    def answer(records: Any) -> Any:
        if len(records) > FEW or list(getattr(records, "columns", names)) != names:
            return predict(records)
        numbers = np.asarray(records)
        if numbers.dtype.kind not in "fiu" or numbers.shape[1:] != (model.n_features_in_,):
            return predict(records)
        with np.errstate(over="ignore"):
            seen = np.ascontiguousarray(numbers, dtype=np.float32)
        if not np.isfinite(seen).all():
            return predict(records)
        shares = np.zeros((len(seen), len(model.classes_)))
        for tree in model.estimators_:
            shares += tree.tree_.predict(seen)
        shares /= len(model.estimators_)
        return model.classes_.take(np.argmax(shares, axis=1))

    return answer
