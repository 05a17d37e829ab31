"""What a setting is, as text: to tell whether it changed, also from the inside, and whose trials a file holds."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from types import CellType, CodeType, ModuleType
from typing import Any

import numpy as np


def described(value: Any, seen: frozenset[int] = frozenset()) -> str:
    """Return what a setting is, as text that is the same in every process.

    Functions by their code, defaults and closure: a name tells no lambda from another.  What they read from their
    module is not followed.  What shows its address differs in every process, so that its trials are run afresh.
    """
    if id(value) in seen:  # a function that calls itself by its closure
        return "itself"

    def parts(*found: Any) -> str:
        return f"{type(value).__name__}({', '.join(described(part, seen | {id(value)}) for part in found)})"

    if is_dataclass(value) and not isinstance(value, type):
        return parts(*(getattr(value, field.name) for field in fields(value)))
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else hashlib.sha256(value.tobytes()).hexdigest()
        return parts(value.dtype.str, value.shape, content)
    if hasattr(value, "__array__") and not isinstance(value, type):  # tables and tensors, whose repr is shortened
        with suppress(Exception):
            return parts(np.asarray(value))
    if isinstance(value, partial):
        return parts(value.func, value.args, value.keywords)
    if isinstance(value, CodeType):
        return parts(value.co_code, value.co_consts, value.co_names)
    if hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        owner = getattr(value, "__self__", None)
        return parts(value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, cells, owner)
    if hasattr(value, "get_params") and not isinstance(value, type):  # an estimator's repr leaves out and shortens
        return parts(value.get_params())
    if isinstance(value, (tuple, list)):
        return parts(*value)
    if isinstance(value, (dict, set, frozenset)):
        items = value.items() if isinstance(value, dict) else value
        return f"{type(value).__name__}{sorted(described(item, seen | {id(value)}) for item in items)}"
    shown = str(getattr(value, "__qualname__", repr(value)))
    inside = {} if isinstance(value, (type, ModuleType)) else getattr(value, "__dict__", {})
    return f"{shown}{parts(inside)}" if inside else shown  # an object's address does not tell what it holds


def mark(value: Any) -> str:
    """Return a short text that changes when the value does, inside, too, but not when it is copied."""
    return hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", described(value)).encode()).hexdigest()
