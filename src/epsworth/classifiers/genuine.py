"""Whether a model is an object of a library's own class: only then may its inside be read.

What is read is believed only where the model's own labels agree with it (`epsworth.classifiers.reading`).
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "_catboost", "interpret", "torch")
METHODS = {"predict", "predict_proba", "decision_function", "transform", "forward"}


def kind_of(model: Any) -> str | None:
    """Return the name of the library's class that a model is one of; None for a subclass, or another answer.

    Claim: the class is the library's own, not one of its name or made from it, and no method that answers was put in
    the place of the library's on the object; one that was on the class is found out by asking.
    """
    kind: Any = type(model)
    return _library_class(kind) if METHODS.isdisjoint(getattr(model, "__dict__", ())) else None


@cache
def _library_class(kind: type) -> str | None:
    module = sys.modules.get(str(kind.__module__))
    ours = str(kind.__module__).partition(".")[0] in LIBRARIES and getattr(module, kind.__name__, None) is kind
    return kind.__name__ if ours else None
