"""What a setting is, as text: to tell whether it changed, also from the inside, and whose trials a file holds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import count
from types import CellType, CodeType, MemberDescriptorType, ModuleType, NoneType
from typing import Any

import numpy as np


def described(value: Any, seen: frozenset[int] = frozenset()) -> str:
    """Return what a setting is, as text that is the same in every process.

    Functions by their code, defaults and closure: a name tells no lambda from another.  What they read from their
    module, or from a class, is not followed.  Objects by what they hold, in their ``__dict__`` and in the slots of all
    their classes, and by what a pickle would hold.  What shows its address differs in every process, so that its
    trials are run afresh; what cannot be told (a lock, an open file) is another thing each time it is asked about.
    """
    if id(value) in seen:  # a function that calls itself by its closure
        return "itself"

    def parts(*found: Any) -> str:
        return f"{type(value).__name__}({', '.join(described(part, seen | {id(value)}) for part in found)})"

    if is_dataclass(value) and not isinstance(value, type):
        return parts(*(getattr(value, field.name) for field in fields(value)))
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else hashlib.sha256(value.tobytes()).hexdigest()
        return parts(value.dtype.str, value.shape, content, _held(value))
    if hasattr(value, "__array__") and not isinstance(value, type):  # tables and tensors, whose repr is shortened
        with suppress(Exception):
            return parts(np.asarray(value))
    if isinstance(value, partial):
        return parts(value.func, value.args, value.keywords, _held(value))
    if isinstance(value, CodeType):
        return parts(value.co_code, value.co_consts, value.co_names)
    if hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        owner = getattr(value, "__self__", None)
        of = value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__
        return parts(*of, cells, owner, _held(value))
    if hasattr(value, "get_params") and not isinstance(value, type):  # an estimator's repr leaves out and shortens
        return parts(value.get_params(), {} if hasattr(value, "fit") else _held(value))
    if isinstance(value, (tuple, list)):
        return parts(*value, _held(value))
    if isinstance(value, (dict, set, frozenset)):
        items = value.items() if isinstance(value, dict) else value
        contents = sorted(described(item, seen | {id(value)}) for item in items)
        return f"{type(value).__name__}{contents}{parts(inside) if (inside := _held(value)) else ''}"
    if isinstance(value, PLAIN):
        return str(getattr(value, "__qualname__", repr(value)))
    if isinstance(value, memoryview):
        return parts(value.format, value.shape, value.tobytes())
    # an object's address does not tell what it holds
    return f"{getattr(value, '__qualname__', repr(value))}{parts(held := _held(value), _pickled(value, held))}"


PLAIN = (type, ModuleType, str, bytes, bool, int, float, complex, NoneType)
_times = count()


def _held(value: Any) -> dict[str, Any]:
    """Return what an object holds by name: in its ``__dict__``, and in the slots of all its classes."""
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        if "__slots__" in vars(kind):
            for name, slot in vars(kind).items():
                with suppress(AttributeError):  # an empty slot
                    if isinstance(slot, MemberDescriptorType):
                        found[f"{kind.__qualname__}.{name}"] = slot.__get__(value)
    return found


def _pickled(value: Any, held: dict[str, Any]) -> Any:
    """Return what a pickle would hold, or something new where that and what is held by name tell nothing."""
    owner = getattr(value, "__self__", None)  # of a built-in method
    if owner is not None and not isinstance(owner, ModuleType):
        return owner
    try:
        found = value.__reduce_ex__(2)
    except Exception:  # whatever refuses to be pickled
        return None if held else f"unknown {next(_times)}"
    return [list(part) if isinstance(part, Iterator) else part for part in found] if isinstance(found, tuple) else found


def mark(value: Any) -> str:
    """Return a short text that changes when the value does, inside, too, but not when it is copied."""
    return hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", described(value)).encode()).hexdigest()


def fitted_mark(model: Any) -> str:
    """Return a short text of what a fitted model holds: the same once it was saved and loaded, in every process.

    Functions as in `described`.  Of arrays the order in memory does not matter, nor the gaps between fields.
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
    if isinstance(value, (*PLAIN, set, frozenset, partial, CodeType)) or hasattr(value, "__code__"):
        return described(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return name  # how draws would go on is no part of the answers
    held = getattr(value, "__dict__", None)
    if not held and name.startswith("sklearn.neighbors."):  # trees, which count how often they were asked
        held = [part for part in value.__getstate__() if isinstance(part, np.ndarray)]
    return parts(name, held if held else _pickled(value, {}))
