"""Fingerprints of settings and of fitted models.

Of settings by `joblib`, which hashes what a pickle would hold; functions, which pickles name only, by their code.  Of
fitted models by what they hold, so that one that was saved, loaded and used, by whatever version, is still the same.
"""

from __future__ import annotations

import hashlib
from itertools import count
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np
from joblib.hashing import Hasher

_times = count()


class _Contents(Hasher):  # type: ignore[misc]  # joblib has no types
    """joblib's hasher, with functions by code, defaults, closure and attributes, and arrays whatever holds them.

    What a function reads from its module, or from a class, is not followed.  Estimators by their parameters: what was
    fitted is no setting.
    """

    def __init__(self) -> None:
        super().__init__(hash_name="sha1")
        self._functions: dict[int, int] = {}

    def save(self, obj: Any) -> None:
        """Pickle what stands for a thing."""
        if isinstance(obj, FunctionType):
            if id(obj) in self._functions:  # one that calls itself by its closure
                obj = ("function", self._functions[id(obj)])
            else:
                self._functions[id(obj)] = len(self._functions)
                cells = [cell.cell_contents for cell in obj.__closure__ or () if cell != CellType()]
                obj = (obj.__qualname__, obj.__code__, obj.__defaults__, obj.__kwdefaults__, cells, vars(obj))
        elif isinstance(obj, CodeType):
            obj = ("code", obj.co_code, obj.co_consts, obj.co_names)
        elif isinstance(obj, memoryview):
            obj = ("memory", obj.format, obj.shape, obj.tobytes())
        elif isinstance(obj, np.ndarray):
            obj = (
                "array",
                obj.dtype.str,
                obj.shape,
                obj.tolist() if obj.dtype.hasobject else obj.tobytes(),
                _held(obj),
            )
        elif hasattr(obj, "fit") and hasattr(obj, "get_params") and not isinstance(obj, type):
            obj = (type(obj), obj.get_params(deep=False))
        super().save(obj)


def mark(value: Any) -> str:
    """Return a short text that changes when a setting does, inside, too, but not when it is copied.

    What cannot be told (a lock, an open file) is another thing each time it is asked about.

    Examples
    --------
    >>> mark([1, lambda x: x]) == mark([1, lambda x: x]), mark([1]) == mark([2])
    (True, False)
    """
    try:
        return str(_Contents().hash(value))
    except Exception:  # whatever refuses to be pickled
        return f"unknown {next(_times)}"


def _held(value: Any) -> dict[str, Any]:
    return dict(getattr(value, "__dict__", {}))


def fitted_mark(model: Any) -> str:
    """Return a short text of what a fitted model holds: the same once it was saved and loaded, in every process.

    Of arrays the order in memory does not matter, nor the gaps between fields; of random generators how draws would go
    on; of trees of neighbours how often they were asked.
    """
    return hashlib.sha256(_held_by(model, frozenset()).encode()).hexdigest()


def _held_by(value: Any, seen: frozenset[int]) -> str:
    if id(value) in seen:
        return "itself"

    def parts(name: str, *found: Any) -> str:
        return f"{name}({', '.join(_held_by(part, seen | {id(value)}) for part in found)})"

    kind = type(value)
    if isinstance(value, np.generic):
        return _held_by(value.item(), seen)
    if isinstance(value, np.ndarray):
        if value.dtype.names:
            return parts("fields", *(value[name] for name in value.dtype.names))
        content = value.tolist() if value.dtype == object else hashlib.sha256(value.tobytes()).hexdigest()
        return parts("array", value.dtype.str, value.shape, content)
    if isinstance(value, (tuple, list)):
        return parts("list", *value)
    if isinstance(value, dict):
        return f"dict{sorted(parts('', *item) for item in value.items())}"
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return name
    held = _held(value) if not isinstance(value, (type, FunctionType)) else {}
    if name.startswith("sklearn.neighbors.") and not held:
        return parts(name, [part for part in value.__getstate__() if isinstance(part, np.ndarray)])
    if held:
        return parts(name, held)
    if isinstance(value, (*PLAIN, type, FunctionType)):
        return f"{name} {repr(value) if isinstance(value, PLAIN) else mark(value)}"
    try:
        return parts(name, value.__reduce_ex__(2))  # of compiled types, such as trees
    except TypeError:
        return f"{name} {mark(value)}"


PLAIN = (str, bytes, bool, int, float, complex, type(None))
